"""The models: names, validation and rates; no numerics. One method a file, read once called for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaml1.core.lazy_imports import called_for
from streaml1.models import serialization

if TYPE_CHECKING:
    from streaml1.models.eg import EGClassifier, EGRegressor
    from streaml1.models.elastic_net import ElasticNetClassifier, ElasticNetRegressor
    from streaml1.models.fobos import FOBOSClassifier, FOBOSRegressor
    from streaml1.models.ftrl import FTRLClassifier, FTRLRegressor
    from streaml1.models.l1_ball import L1BallClassifier, L1BallRegressor
    from streaml1.models.pegasos import PegasosClassifier
    from streaml1.models.smidas import SMIDASClassifier, SMIDASRegressor
    from streaml1.models.softmax import SoftmaxClassifier
    from streaml1.models.truncated_gradient import (
        TruncatedGradientClassifier,
        TruncatedGradientRegressor,
    )

__all__ = [
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
    "PegasosClassifier",
    "SMIDASClassifier",
    "SMIDASRegressor",
    "SoftmaxClassifier",
    "TruncatedGradientClassifier",
    "TruncatedGradientRegressor",
    "decode",
    "load",
]

_HOMES = {
    "EGClassifier": "eg",
    "EGRegressor": "eg",
    "ElasticNetClassifier": "elastic_net",
    "ElasticNetRegressor": "elastic_net",
    "FOBOSClassifier": "fobos",
    "FOBOSRegressor": "fobos",
    "FTRLClassifier": "ftrl",
    "FTRLRegressor": "ftrl",
    "L1BallClassifier": "l1_ball",
    "L1BallRegressor": "l1_ball",
    "PegasosClassifier": "pegasos",
    "SMIDASClassifier": "smidas",
    "SMIDASRegressor": "smidas",
    "SoftmaxClassifier": "softmax",
    "TruncatedGradientClassifier": "truncated_gradient",
    "TruncatedGradientRegressor": "truncated_gradient",
}


def __getattr__(name: str) -> Any:
    # The kernels of all methods take as long to set up as numpy to import.
    return called_for(__name__, _HOMES, name)


def load(path: str | Path) -> Any:
    """Read the model that `save` wrote; it goes on exactly as the saved one would have.

    Raises
    ------
    ModelFileError
        In one sentence, where the file is missing, torn, altered, foreign or too new.
    """
    return _made(serialization.read(Path(path)), Path(path))


def decode(data: bytes, path: str | Path) -> Any:
    """The model in the bytes that `encode` of a model gave; `path` is what errors call them."""
    return _made(serialization.decode(data, path), path)


def _made(content: tuple[str, dict[str, Any], dict[str, Any]], path: str | Path) -> Any:
    name, params, state = content
    if name not in _HOMES:
        raise serialization.ModelFileError(
            f"{path} holds a {name}, which this streaml1 does not know"
        )
    kind = __getattr__(name)
    try:
        return kind._from_file(params, state)
    except Exception:  # whatever a crafted file provokes
        raise serialization.ModelFileError(
            f"{path} is no model that streaml1 has written"
        ) from None
