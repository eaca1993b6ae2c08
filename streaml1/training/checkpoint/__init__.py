"""A run that is safe to kill: model, report and position in one file, in a folder that one owns."""

from __future__ import annotations

from streaml1.training.checkpoint.ownership import (
    CheckpointError,
    Full,
    InUse,
    TakenOver,
    Unreadable,
)
from streaml1.training.checkpoint.store import (
    Checkpoint,
    Checkpoints,
    look,
    require_model,
    require_seconds,
)

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "Checkpoints",
    "Full",
    "InUse",
    "TakenOver",
    "Unreadable",
    "look",
    "require_model",
    "require_seconds",
]
