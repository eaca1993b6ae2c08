"""Online learners for sparse, high-dimensional streams that keep their models sparse."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streaml1.consumer import Consumer, progressive
    from streaml1.hindsight import regret
    from streaml1.modelfile import ModelFileError
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
    from streaml1.published import load
    from streaml1.rows import BadExample

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
    "BadExample": "rows",
    "Consumer": "consumer",
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
    "ModelFileError": "modelfile",
    "PegasosClassifier": "models",
    "SMIDASClassifier": "models",
    "SMIDASRegressor": "models",
    "SoftmaxClassifier": "models",
    "TruncatedGradientClassifier": "models",
    "TruncatedGradientRegressor": "models",
    "load": "published",
    "progressive": "consumer",
    "regret": "hindsight",
}


_MODULES = ("datasets", "offline", "projection")


def __getattr__(name: str) -> Any:
    # Loaded when called for: the command line answers --help without a compiler, and learning
    # does without the readers and the report.
    if name in _MODULES:
        return import_module(f"streaml1.{name}")
    return import_module("streaml1.lazy").called_for(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
