"""Scale out over processes or machines: results do not depend on the executor."""

from __future__ import annotations

from streaml1.distributed.executors import (
    DaskExecutor,
    EngineUnavailable,
    Executor,
    InlineExecutor,
    ProcessExecutor,
    RayExecutor,
    TaskFailed,
)
from streaml1.distributed.fan_out import Swept, convert, evaluate, predict, sweep
from streaml1.distributed.round_report import Round, Trained
from streaml1.distributed.rounds import train

__all__ = [
    "DaskExecutor",
    "EngineUnavailable",
    "Executor",
    "InlineExecutor",
    "ProcessExecutor",
    "RayExecutor",
    "Round",
    "Swept",
    "TaskFailed",
    "Trained",
    "convert",
    "evaluate",
    "predict",
    "sweep",
    "train",
]
