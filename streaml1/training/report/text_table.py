"""A report as text: columns, lines, the last line in words."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streaml1.optim.tasks import REGRESSION
from streaml1.training.report.line import Line
from streaml1.training.report.losses import NAMES
from streaml1.training.report.window import WINDOW_NAME

__all__ = ["Column", "columns", "four", "in_words", "rendered"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its head, how wide it is at least, and what it has of a line."""

    head: str
    width: int
    text: Callable[[Line], str]


def columns(loss: str, refused: bool, skewed: bool, watched: bool) -> list[Column]:
    """The columns of a report of a loss; `watched`: births and deaths too."""
    name = NAMES[loss].replace("smoothed hinge", "smoothed\nhinge")
    number = _number if loss in REGRESSION else four
    error = "mean abs.\nerror" if loss in REGRESSION else "error"
    told = [
        Column("examples", 9, lambda line: f"{line.examples:,}"),
        Column(f"{name}\n(recent)", 8, lambda line: number(line.recent_loss)),
        Column(f"{name}\n(all)", 8, lambda line: number(line.loss)),
        Column("constant\npredictor", 9, lambda line: number(line.constant_loss)),
        Column(
            error,
            6,
            lambda line: number(line.error) if error != "error" else _percent(line.error),
        ),
        Column("non-\nzeros", 8, lambda line: _count(line.n_nonzero)),
    ]
    if loss == "softmax":
        told.append(Column("features\nused", 8, lambda line: _count(line.n_nonzero_rows)))
    told += [
        Column("features\nseen", 8, lambda line: _count(line.n_features_seen)),
        Column("sparsity", 8, lambda line: _percent(line.sparsity)),
    ]
    if watched:
        told += [
            Column("born", 7, lambda line: _count(line.born)),
            Column("died", 7, lambda line: _count(line.died)),
        ]
    told += [
        Column("per\nsecond", 7, lambda line: f"{line.per_second:,.0f}"),
    ]
    if refused:
        told.append(Column("refused", 7, lambda line: f"{line.refused:,}"))
    if skewed:
        told.append(Column(f"ROC AUC\n{WINDOW_NAME}", 9, lambda line: four(line.auc)))
    if skewed and loss == "logistic":
        told += [
            Column("mean\nprediction", 10, lambda line: _number(line.mean_prediction)),
            Column("rate of\nTrue", 8, lambda line: _number(line.rate)),
            Column("normalised\nentropy", 10, lambda line: four(line.normalised_entropy)),
        ]
    return told


def rendered(columns: Sequence[Column], lines: Sequence[Line], heads: bool) -> str:
    """Lines in columns, below their heads or alone."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=heads, padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        width = max(column.width, *map(len, column.head.split("\n")))
        table.add_column(column.head, justify="right", min_width=width, no_wrap=True)
    for line in lines:
        table.add_row(*(column.text(line) for column in columns))
    console = Console(file=io.StringIO(), width=400, color_system=None, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(text.rstrip() for text in captured.get().splitlines())


def in_words(line: Line, loss: str, d: int | None) -> list[str]:
    """What a line tells, in parts of a sentence; `d`: how many features there are."""
    regression = loss in REGRESSION
    number = _number if regression else four
    parts = [
        f"{line.examples:,} example{'s' * (line.examples != 1)}: "
        f"{NAMES[loss]} {number(line.loss)} "
        f"(constant predictor {number(line.constant_loss)})",
        f"mean absolute error {number(line.error)}"
        if regression
        else f"error {_percent(line.error)}",
    ]
    if line.n_nonzero is not None:
        zeros = f"{line.n_nonzero:,} non-zero weights"
        if line.n_nonzero_rows is not None:
            zeros += f" in the rows of {line.n_nonzero_rows:,}"
        if line.n_features_seen:
            zeros += f" of {line.n_features_seen:,} features seen, {_percent(line.sparsity)}"
            zeros += " sparse"
        if line.share_of_d is not None:
            zeros += f" ({line.share_of_d:.2%} of all {d:,} features)"
        parts.append(zeros)
    if line.cut:
        parts.append(f"{line.cut:,} weights given up for max_features")
    if line.auc is not None:
        parts.append(f"ROC AUC {four(line.auc)} ({WINDOW_NAME} examples)")
    if line.mean_prediction is not None:
        parts.append(
            f"mean prediction {_number(line.mean_prediction)} "
            f"at a rate of True of {_number(line.rate)}"
        )
    if line.normalised_entropy is not None:
        parts.append(f"normalised entropy {four(line.normalised_entropy)}")
    if line.refused:
        parts.append(f"{line.refused:,} refused")
    return parts


def four(value: float | None) -> str:
    """A number to four places, or where it is large to four digits."""
    return "-" if value is None else f"{value:.4f}" if abs(value) < 1000.0 else f"{value:.4g}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
