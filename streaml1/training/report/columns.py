"""The columns of the table of a report: names, heads, cells, and the choice that fits a width."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from streaml1.core.text_table import TableColumn, render_table
from streaml1.optim.tasks import REGRESSION
from streaml1.training.report.line import Line
from streaml1.training.report.losses import NAMES
from streaml1.training.report.number_formats import (
    format_count,
    format_four,
    format_number,
    format_percent,
    format_ratio,
    format_sum,
)
from streaml1.training.report.window import WINDOW_NAME

__all__ = [
    "COLUMN_NAMES",
    "MODEL_COLUMNS",
    "ReportColumn",
    "default_names",
    "fit",
    "render_lines",
    "report_columns",
]

COLUMN_NAMES = (
    "examples",
    "recent-loss",
    "loss",
    "cumulative-loss",
    "baseline",
    "error",
    "recent-calibration",
    "calibration",
    "non-zeros",
    "features-used",
    "features-seen",
    "sparsity",
    "added",
    "dropped",
    "per-second",
    "rejected",
    "auc",
    "mean-prediction",
    "observed-rate",
    "normalised-entropy",
)
"""The names of all columns, in the order of the table."""

MODEL_COLUMNS = ("non-zeros", "features-used", "features-seen", "sparsity", "added", "dropped")
"""Columns that describe the model: constant while it does not learn."""

BY_IMPORTANCE = (
    "examples", "loss", "baseline",
    "recent-loss", "cumulative-loss", "rejected", "error", "non-zeros", "auc", "calibration",
    "per-second", "features-used", "features-seen", "recent-calibration", "sparsity",
    "added", "dropped", "normalised-entropy", "mean-prediction", "observed-rate",
)  # fmt: skip
MIN_COLUMNS = 3
"""The most important columns are shown in any width."""


class ReportColumn(NamedTuple):
    """A column of a report: its head, its minimum width and the text of its cell in a line."""

    head: str
    min_width: int
    text: Callable[[Line], str]

    @property
    def width(self) -> int:
        """Characters of the column; a longer number makes it wider."""
        return max(self.min_width, *map(len, self.head.split("\n")))


def render_lines(
    columns: Sequence[ReportColumn], lines: Sequence[Line], *, show_header: bool
) -> str:
    """Lay out lines of a report in columns, with or without the heads."""
    cells = [[column.text(line) for column in columns] for line in lines]
    layout = [TableColumn(column.head, min_width=column.width) for column in columns]
    return render_table(layout, cells, show_header=show_header)


def report_columns(loss: str, held_out: bool = False) -> dict[str, ReportColumn]:
    """Return all columns by name.

    Parameters
    ----------
    loss
        The name of the loss.
    held_out
        Whether the figures are those of held-out rows, and the heads say so.
    """
    name = NAMES[loss].replace("smoothed hinge", "smoothed\nhinge")
    is_regression = loss in REGRESSION
    number = format_number if is_regression else format_four
    if held_out:
        name = f"held-out\n{name}"
    return {
        "examples": ReportColumn("examples", 9, lambda line: f"{line.examples:,}"),
        "recent-loss": ReportColumn(f"{name}\n(recent)", 8, lambda line: number(line.recent_loss)),
        "loss": ReportColumn(f"{name}\n(all)", 8, lambda line: number(line.loss)),
        "cumulative-loss": ReportColumn(
            f"{name}\n(cumul.)", 10, lambda line: format_sum(line.cumulative_loss)
        ),
        "baseline": ReportColumn("baseline", 9, lambda line: number(line.constant_loss)),
        "error": ReportColumn("mean abs.\nerror", 6, lambda line: number(line.error))
        if is_regression
        else ReportColumn("error", 6, lambda line: format_percent(line.error)),
        "recent-calibration": ReportColumn(
            "calibr.\n(recent)", 8, lambda line: format_ratio(line.recent_calibration)
        ),
        "calibration": ReportColumn(
            "calibr.\n(all)", 7, lambda line: format_ratio(line.calibration)
        ),
        "non-zeros": ReportColumn("non-\nzeros", 8, lambda line: format_count(line.n_nonzero)),
        "features-used": ReportColumn(
            "features\nused", 8, lambda line: format_count(line.n_nonzero_rows)
        ),
        "features-seen": ReportColumn(
            "features\nseen", 8, lambda line: format_count(line.n_features_seen)
        ),
        "sparsity": ReportColumn("sparsity", 8, lambda line: format_percent(line.sparsity)),
        "added": ReportColumn("added", 7, lambda line: format_count(line.born)),
        "dropped": ReportColumn("dropped", 7, lambda line: format_count(line.died)),
        "per-second": ReportColumn("per\nsecond", 7, lambda line: f"{line.per_second:,.0f}"),
        "rejected": ReportColumn("rejected", 8, lambda line: f"{line.refused:,}"),
        "auc": ReportColumn(f"ROC AUC\n{WINDOW_NAME}", 9, lambda line: format_four(line.auc)),
        "mean-prediction": ReportColumn(
            "mean\nprediction", 10, lambda line: format_number(line.mean_prediction)
        ),
        "observed-rate": ReportColumn(
            "observed\nrate", 8, lambda line: format_number(line.rate)
        ),
        "normalised-entropy": ReportColumn(
            "normalised\nentropy", 10, lambda line: format_four(line.normalised_entropy)
        ),
    }  # fmt: skip


def default_names(
    loss: str,
    *,
    show_rejected: bool,
    show_skewed: bool,
    show_changes: bool,
    show_cumulative: bool = False,
) -> list[str]:
    """List the names of the columns that a report has unless others are chosen.

    Parameters
    ----------
    loss
        The name of the loss.
    show_rejected
        Whether to count rejected examples.
    show_skewed
        Whether to show the figures for skewed labels: ROC AUC, mean prediction, observed rate,
        normalised entropy.
    show_changes
        Whether to count features added to the model and dropped from it.
    show_cumulative
        Whether to show the cumulative loss.
    """
    probabilities, labels = loss == "logistic", loss == "softmax"
    hidden = {
        "cumulative-loss": not show_cumulative,
        "recent-calibration": not (probabilities or labels),
        "calibration": not (probabilities or labels),
        "features-used": not labels,
        "added": not show_changes,
        "dropped": not show_changes,
        "rejected": not show_rejected,
        "auc": not show_skewed,
        "mean-prediction": not (show_skewed and probabilities),
        "observed-rate": not (show_skewed and probabilities),
        "normalised-entropy": not (show_skewed and probabilities),
    }
    return [name for name in COLUMN_NAMES if not hidden.get(name, False)]


def fit(names: Iterable[str], columns: dict[str, ReportColumn], width: int) -> list[str]:
    """Return the most important of some columns that fit a line of `width` characters.

    Examples
    --------
    >>> fit(["examples", "loss", "error", "baseline"], report_columns("logistic"), 30)
    ['examples', 'loss', 'baseline']
    """
    names = list(names)
    chosen: list[str] = []
    left = width + 1  # each column but the first follows a space
    for name in sorted(names, key=BY_IMPORTANCE.index):
        left -= columns[name].width + 1
        if left < 0 and len(chosen) >= MIN_COLUMNS:
            break
        chosen.append(name)
    return [name for name in names if name in chosen]
