"""Checkpoints: a run that may be killed at any time, in a directory with one owner.

`ownership` decides which process may write, `store` reads and writes files, and `manager` decides
when a run saves and how it resumes.
"""

from __future__ import annotations

from streaml1.training.checkpoint.ownership import (
    CheckpointError,
    InUse,
    StorageUnavailable,
    TakenOver,
    Unreadable,
    partition_directories,
    several_models,
)
from streaml1.training.checkpoint.store import (
    Checkpoint,
    Checkpoints,
    load_latest,
    load_latest_file,
    require_model,
    require_seconds,
)

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "Checkpoints",
    "InUse",
    "StorageUnavailable",
    "TakenOver",
    "Unreadable",
    "load_latest",
    "load_latest_file",
    "partition_directories",
    "require_model",
    "require_seconds",
    "several_models",
]
