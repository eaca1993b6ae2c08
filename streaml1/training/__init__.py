"""Training: a model run over a stream, with a report, checkpoints and observers."""

from __future__ import annotations

from streaml1.training.config import RunConfig
from streaml1.training.consumer import Consumer
from streaml1.training.convert import Converted, convert
from streaml1.training.evaluate import evaluate
from streaml1.training.model_adapter import learner_of, prepare
from streaml1.training.observers import Batch, Observer, Rejected, RunStart, SavedCheckpoint
from streaml1.training.predict import Prediction, prediction_blocks, predictions
from streaml1.training.progressive_validation import progressive

__all__ = [
    "Batch",
    "Consumer",
    "Converted",
    "Observer",
    "Prediction",
    "Rejected",
    "RunConfig",
    "RunStart",
    "SavedCheckpoint",
    "convert",
    "evaluate",
    "learner_of",
    "prediction_blocks",
    "predictions",
    "prepare",
    "progressive",
]
