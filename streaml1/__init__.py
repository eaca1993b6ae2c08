"""Online learners for sparse, high-dimensional streams that keep their models sparse."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streaml1.core.rows import BadExample
    from streaml1.models import (
        EGClassifier,
        EGRegressor,
        ElasticNetClassifier,
        ElasticNetRegressor,
        FOBOSClassifier,
        FOBOSRegressor,
        FTRLClassifier,
        FTRLRegressor,
        L1BallClassifier,
        L1BallRegressor,
        PegasosClassifier,
        SMIDASClassifier,
        SMIDASRegressor,
        SoftmaxClassifier,
        TruncatedGradientClassifier,
        TruncatedGradientRegressor,
    )
    from streaml1.models.serialization import ModelFileError
    from streaml1.training import Consumer, progressive
    from streaml1.training.model_registry import load
    from streaml1.training.regret import regret

__all__ = [
    "BadExample",
    "Consumer",
    "EGClassifier",
    "EGRegressor",
    "ElasticNetClassifier",
    "ElasticNetRegressor",
    "FOBOSClassifier",
    "FOBOSRegressor",
    "FTRLClassifier",
    "FTRLRegressor",
    "L1BallClassifier",
    "L1BallRegressor",
    "ModelFileError",
    "PegasosClassifier",
    "SMIDASClassifier",
    "SMIDASRegressor",
    "SoftmaxClassifier",
    "TruncatedGradientClassifier",
    "TruncatedGradientRegressor",
    "load",
    "progressive",
    "regret",
]
__version__ = "0.1.0"

_HOMES = {
    "BadExample": "core.rows",
    "Consumer": "training",
    "EGClassifier": "models",
    "EGRegressor": "models",
    "ElasticNetClassifier": "models",
    "ElasticNetRegressor": "models",
    "FOBOSClassifier": "models",
    "FOBOSRegressor": "models",
    "FTRLClassifier": "models",
    "FTRLRegressor": "models",
    "L1BallClassifier": "models",
    "L1BallRegressor": "models",
    "ModelFileError": "models.serialization",
    "PegasosClassifier": "models",
    "SMIDASClassifier": "models",
    "SMIDASRegressor": "models",
    "SoftmaxClassifier": "models",
    "TruncatedGradientClassifier": "models",
    "TruncatedGradientRegressor": "models",
    "load": "training.model_registry",
    "progressive": "training",
    "regret": "training.regret",
}


_MODULES = ("datasets", "solvers")


def __getattr__(name: str) -> Any:
    # Loaded when called for: the command line answers --help without a compiler, and learning
    # does without the readers and the report.
    if name in _MODULES:
        return import_module(f"streaml1.{name}")
    return import_module("streaml1.core.lazy_imports").called_for(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
