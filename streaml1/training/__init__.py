"""Training: a model run over a stream, with a report, checkpoints and observers.

Names are imported at the first use: `streaml1.load` is in this package, and a process that serves a
model needs neither the sources nor the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaml1.core.lazy_imports import import_attribute

if TYPE_CHECKING:
    from streaml1.training.config import RunConfig
    from streaml1.training.consumer import Consumer
    from streaml1.training.conversion import Converted, convert
    from streaml1.training.evaluation import evaluate
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

# No submodule has the name of a function: importing it would hide the function.
_HOMES = {
    "Batch": "observers",
    "Consumer": "consumer",
    "Converted": "conversion",
    "Observer": "observers",
    "Prediction": "predict",
    "Rejected": "observers",
    "RunConfig": "config",
    "RunStart": "observers",
    "SavedCheckpoint": "observers",
    "convert": "conversion",
    "evaluate": "evaluation",
    "learner_of": "model_adapter",
    "prediction_blocks": "predict",
    "predictions": "predict",
    "prepare": "model_adapter",
    "progressive": "progressive_validation",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return import_attribute(__name__, _HOMES, name)
