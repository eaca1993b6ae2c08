"""Scale out over processes or machines: the same bits as one process."""

from __future__ import annotations

from streaml1.distributed.executors import (
    DaskExecutor,
    Executor,
    InlineExecutor,
    ProcessExecutor,
    RayExecutor,
    TaskFailed,
)
from streaml1.distributed.fan_out import Swept, convert, evaluate, predict, sweep

__all__ = [
    "DaskExecutor",
    "Executor",
    "InlineExecutor",
    "ProcessExecutor",
    "RayExecutor",
    "Swept",
    "TaskFailed",
    "convert",
    "evaluate",
    "predict",
    "sweep",
]
