"""The models: names, validation and rates; no numerics. One method a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streaml1 import modelfile
from streaml1.models.base import OnlineModel
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

MODELS: dict[str, type[OnlineModel]] = {
    model.__name__: model
    for model in (
        *(EGClassifier, EGRegressor),
        *(ElasticNetClassifier, ElasticNetRegressor),
        *(FOBOSClassifier, FOBOSRegressor),
        *(FTRLClassifier, FTRLRegressor),
        *(L1BallClassifier, L1BallRegressor),
        PegasosClassifier,
        *(SMIDASClassifier, SMIDASRegressor),
        SoftmaxClassifier,
        *(TruncatedGradientClassifier, TruncatedGradientRegressor),
    )
}


def load(path: str | Path) -> Any:
    """Read the model that `save` wrote; it goes on exactly as the saved one would have.

    Raises
    ------
    ModelFileError
        In one sentence, where the file is missing, torn, altered, foreign or too new.
    """
    return _made(modelfile.read(Path(path)), Path(path))


def decode(data: bytes, path: str | Path) -> Any:
    """The model in the bytes that `encode` of a model gave; `path` is what errors call them."""
    return _made(modelfile.decode(data, path), path)


def _made(content: tuple[str, dict[str, Any], dict[str, Any]], path: str | Path) -> Any:
    name, params, state = content
    if name not in MODELS:
        raise modelfile.ModelFileError(f"{path} holds a {name}, which this streaml1 does not know")
    try:
        return MODELS[name]._from_file(params, state)
    except Exception:  # whatever a crafted file provokes
        raise modelfile.ModelFileError(f"{path} is no model that streaml1 has written") from None
