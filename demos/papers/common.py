"""Shared parts of the paper demos: options, data sets, tables of claims, figures."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

matplotlib.use("agg")

WIDTH = 118
CONSOLE = Console(width=WIDTH)


class Claim(NamedTuple):
    """A statement of a paper, what was measured, and whether it holds (None: not run)."""

    source: str
    statement: str
    measured: str
    holds: bool | None


def argument_parser(docstring: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of all demos."""
    parser = argparse.ArgumentParser(description=(docstring or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="run on little synthetic data")
    parser.add_argument(
        "--data", type=Path, help="directory with the data sets (default: $STREAML1_DATA)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out"), help="directory for the figure (default: out)"
    )
    return parser


def set_data_directory(directory: Path | None) -> None:
    """Make the loaders read data sets from a directory, if one is given."""
    if directory is not None:
        if not directory.is_dir():
            raise SystemExit(f"--data must be a directory with the data sets, got {directory}")
        os.environ["STREAML1_DATA"] = str(directory)


def load_matrix(name: str, data: Any) -> tuple[Any, Any] | None:
    """Return the rows and labels of a data set; None, after a message, if it is not on disk."""
    if not is_available(name, data):
        return None
    X, y = data.matrix()
    return X, y


def is_available(name: str, data: Any) -> bool:
    """Return whether a data set is on disk; print a message if it is not."""
    if data.is_downloaded:
        return True
    CONSOLE.print(
        f"{name} is skipped because its files are missing; set STREAML1_DATA or --data to a "
        f"directory with {data.subdirectory}/, or run "
        f"streaml1.datasets.{type(data).__name__}().download()."
    )
    return False


def first_reaching(x: Any, values: Any, level: float) -> float:
    """Return the first x at which `values` is at most `level`, or infinity."""
    below = np.flatnonzero(np.asarray(values) <= level)
    return float(x[below[0]]) if len(below) else math.inf


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows under a title, with the first column left-aligned and the others right-aligned."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right")
    for row in rows:
        table.add_row(*map(str, row))
    CONSOLE.print(table)


def verdict(holds: bool | None) -> str:
    """Return the text of the last column of a table of claims."""
    return "not run" if holds is None else "holds" if holds else "does not"


def print_claims(title: str, claims: Sequence[Claim]) -> None:
    """Print each claim, what was measured, and whether it holds."""
    table = Table(title=title, title_justify="left", title_style="bold", show_lines=True)
    for column in ("source", "statement", "measured", ""):
        table.add_column(column)
    for claim in claims:
        table.add_row(claim.source, claim.statement, claim.measured, verdict(claim.holds))
    CONSOLE.print(table)
    verdicts = [verdict(claim.holds) for claim in claims]
    CONSOLE.print(
        f"{verdicts.count('holds')} of {len(verdicts)} hold, {verdicts.count('does not')} do not, "
        f"{verdicts.count('not run')} not run."
    )
    if "does not" in verdicts:
        CONSOLE.print(
            '"Does not" means that a statement of the paper did not repeat with the data and '
            "settings of this demo. It is not a verdict on the method or its code: tests compare "
            "it with slow implementations of the same equations."
        )
    CONSOLE.print()


def save_figure(figure: Any, directory: Path, name: str) -> Path:
    """Write a figure; return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    figure.savefig(directory / name, dpi=110)
    return directory / name
