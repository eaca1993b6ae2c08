"""The table of a report as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from streaml1.core.text_table import TableColumn, render_table
from streaml1.optim.tasks import REGRESSION
from streaml1.training.report.line import Line
from streaml1.training.report.losses import NAMES
from streaml1.training.report.window import WINDOW_NAME

__all__ = [
    "ReportColumn",
    "format_four",
    "format_number",
    "format_percent",
    "format_ratio",
    "render_lines",
    "report_columns",
]


class ReportColumn(NamedTuple):
    """A column of a report: its head, its minimum width and the text of its cell in a line."""

    head: str
    min_width: int
    text: Callable[[Line], str]

    @property
    def layout(self) -> TableColumn:
        """The column without its cells; wide enough for each line of its head."""
        return TableColumn(
            self.head, min_width=max(self.min_width, *map(len, self.head.split("\n")))
        )


def report_columns(
    loss: str,
    *,
    show_rejected: bool,
    show_skewed: bool,
    show_changes: bool,
    show_cumulative: bool = False,
    held_out: bool = False,
) -> list[ReportColumn]:
    """List the columns of a report.

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
    held_out
        Whether the figures are those of held-out rows, and the heads say so.

    Returns
    -------
    list of ReportColumn
    """
    name = NAMES[loss].replace("smoothed hinge", "smoothed\nhinge")
    is_regression = loss in REGRESSION
    number = format_number if is_regression else format_four
    if held_out:
        name = f"held-out\n{name}"
    columns = [
        ReportColumn("examples", 9, lambda line: f"{line.examples:,}"),
        ReportColumn(f"{name}\n(recent)", 8, lambda line: number(line.recent_loss)),
        ReportColumn(f"{name}\n(all)", 8, lambda line: number(line.loss)),
        *(
            [ReportColumn(f"{name}\n(cumul.)", 10, lambda line: _sum(line.cumulative_loss))]
            if show_cumulative
            else []
        ),
        ReportColumn("baseline", 9, lambda line: number(line.constant_loss)),
        ReportColumn("mean abs.\nerror", 6, lambda line: number(line.error))
        if is_regression
        else ReportColumn("error", 6, lambda line: format_percent(line.error)),
    ]
    if loss in ("logistic", "softmax"):
        columns += [
            ReportColumn(
                "calibr.\n(recent)", 8, lambda line: format_ratio(line.recent_calibration)
            ),
            ReportColumn("calibr.\n(all)", 7, lambda line: format_ratio(line.calibration)),
        ]
    columns += [
        ReportColumn("non-\nzeros", 8, lambda line: _count(line.n_nonzero)),
    ]
    if loss == "softmax":
        columns.append(
            ReportColumn("features\nused", 8, lambda line: _count(line.n_nonzero_rows)),
        )
    columns += [
        ReportColumn("features\nseen", 8, lambda line: _count(line.n_features_seen)),
        ReportColumn("sparsity", 8, lambda line: format_percent(line.sparsity)),
    ]
    if show_changes:
        columns += [
            ReportColumn("added", 7, lambda line: _count(line.born)),
            ReportColumn("dropped", 7, lambda line: _count(line.died)),
        ]
    columns.append(ReportColumn("per\nsecond", 7, lambda line: f"{line.per_second:,.0f}"))
    if show_rejected:
        columns.append(ReportColumn("rejected", 8, lambda line: f"{line.refused:,}"))
    if show_skewed:
        columns.append(
            ReportColumn(f"ROC AUC\n{WINDOW_NAME}", 9, lambda line: format_four(line.auc)),
        )
    if show_skewed and loss == "logistic":
        columns += [
            ReportColumn("mean\nprediction", 10, lambda line: format_number(line.mean_prediction)),
            ReportColumn("observed\nrate", 8, lambda line: format_number(line.rate)),
            ReportColumn(
                "normalised\nentropy", 10, lambda line: format_four(line.normalised_entropy)
            ),
        ]
    return columns


def render_lines(
    columns: Sequence[ReportColumn], lines: Sequence[Line], *, show_header: bool
) -> str:
    """Lay out lines of a report in columns, with or without the heads."""
    cells = [[column.text(line) for column in columns] for line in lines]
    return render_table([column.layout for column in columns], cells, show_header=show_header)


def format_four(value: float | None) -> str:
    """Format a number with four decimals, or with four digits if it is 1,000 or more."""
    return "-" if value is None else f"{value:.4f}" if abs(value) < 1000.0 else f"{value:.4g}"


def format_number(value: float | None) -> str:
    """Format a number with four digits."""
    return "-" if value is None else f"{value:.4g}"


def _sum(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}" if abs(value) < 1e9 else f"{value:.4g}"


def format_ratio(value: float | None) -> str:
    """Format a ratio with three decimals, or with four digits if it is 1,000 or more."""
    return "-" if value is None else f"{value:.3f}" if abs(value) < 1000.0 else f"{value:.4g}"


def format_percent(value: float | None) -> str:
    """Format a share as a percentage."""
    return "-" if value is None else f"{value:.1%}"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
