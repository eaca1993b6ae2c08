"""The command line, one command a file.

What is slow to import is imported by the command that needs it.
"""

from __future__ import annotations

from streaml1.cli import convert, evaluate, learn, partitions, predict, show, warm
from streaml1.cli.program import cli, main

__all__ = ["cli", "convert", "evaluate", "learn", "main", "partitions", "predict", "show", "warm"]
