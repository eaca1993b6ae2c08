"""What the demos of the papers share: options, data, claims as a table, and where pictures go."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from rich.console import Console
from rich.table import Table

matplotlib.use("agg")

WIDTH = 118
CONSOLE = Console(width=WIDTH)


class Claim(NamedTuple):
    """What a paper says, what was measured here, and whether it holds; None: not run."""

    place: str
    says: str
    measured: str
    holds: bool | None


def options(doc: str | None) -> argparse.ArgumentParser:
    """What every demo takes."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="made data, little of it: seconds")
    parser.add_argument(
        "--data", type=Path, help="the folder with the data sets; else STREAML1_DATA names it"
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    return parser


def look_in(folder: Path | None) -> None:
    """Have the loaders look into a folder of data sets, if one is given."""
    if folder is not None:
        if not folder.is_dir():
            raise SystemExit(f"{folder} is no folder; --data names the one with the data sets")
        os.environ["STREAML1_DATA"] = str(folder)


def matrix(name: str, data: Any) -> tuple[Any, Any] | None:
    """Rows and labels of a data set; None, and one sentence, where it is not on disk."""
    if not is_here(name, data):
        return None
    X, y = data.matrix()
    return X, y


def is_here(name: str, data: Any) -> bool:
    """Whether a data set is on disk; one sentence where it is not."""
    if data.is_downloaded:
        return True
    CONSOLE.print(
        f"{name} is not run: its files are not here; let STREAML1_DATA or --data name a folder "
        f"with {data.subdirectory}/, or get them by "
        f"streaml1.datasets.{type(data).__name__}().download()."
    )
    return False


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows under a title, the first column to the left and the others to the right."""
    made = Table(title=title, title_justify="left", title_style="bold")
    for k, column in enumerate(columns):
        made.add_column(column, justify="left" if k == 0 else "right")
    for row in rows:
        made.add_row(*map(str, row))
    CONSOLE.print(made)


def verdict(holds: bool | None) -> str:
    """How the last column of a table of claims reads."""
    return "not run" if holds is None else "holds" if holds else "does not"


def show_claims(title: str, claims: Sequence[Claim]) -> None:
    """Print claim, what was measured, and whether it holds."""
    made = Table(title=title, title_justify="left", title_style="bold", show_lines=True)
    for column in ("where", "the paper says", "measured here", ""):
        made.add_column(column)
    for one in claims:
        made.add_row(one.place, one.says, one.measured, verdict(one.holds))
    CONSOLE.print(made)
    told = [verdict(one.holds) for one in claims]
    CONSOLE.print(
        f"{told.count('holds')} of {len(told)} hold, {told.count('does not')} do not, "
        f"{told.count('not run')} not run.\n"
    )


def save(figure: Any, folder: Path, name: str) -> Path:
    """Write a picture; where to."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / name, dpi=110)
    return folder / name
