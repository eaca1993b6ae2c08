"""The command line: one command per file.

Modules that are slow to import are imported by the commands that need them.
"""

from __future__ import annotations

from streaml1.cli import (
    completion,
    convert,
    diff,
    evaluate,
    export,
    inspect,
    learn,
    merge,
    page,
    partitions,
    predict,
    serve,
    show,
    sweep,
    warm,
)
from streaml1.cli.program import cli, main

__all__ = [
    "cli",
    "completion",
    "convert",
    "diff",
    "evaluate",
    "export",
    "inspect",
    "learn",
    "main",
    "merge",
    "page",
    "partitions",
    "predict",
    "serve",
    "show",
    "sweep",
    "warm",
]
