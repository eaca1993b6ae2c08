"""The last line of a report: as a sentence, and as a table of two columns."""

from __future__ import annotations

from collections.abc import Sequence

from streaml1.core.text_table import TableColumn, render_table
from streaml1.optim.tasks import REGRESSION
from streaml1.training.report.line import Line
from streaml1.training.report.losses import NAMES
from streaml1.training.report.number_formats import (
    format_four,
    format_number,
    format_percent,
    format_ratio,
)
from streaml1.training.report.window import WINDOW_NAME

__all__ = ["describe_line", "render_summary", "summary_rows"]


def describe_line(line: Line, loss: str, d: int | None) -> list[str]:
    """Describe a line as parts of a sentence; `d` is the number of features, if known."""
    is_regression = loss in REGRESSION
    number = format_number if is_regression else format_four
    parts = [
        f"{line.examples:,} example{'s' * (line.examples != 1)}: "
        f"{_loss_name(line, loss)} {number(line.loss)} "
        f"(baseline {number(line.constant_loss)})",
        f"mean absolute error {number(line.error)}"
        if is_regression
        else f"error {format_percent(line.error)}",
    ]
    if line.calibration is not None:
        parts.append(f"calibration {format_ratio(line.calibration)}")
    if line.n_nonzero is not None:
        text = f"{line.n_nonzero:,} non-zero weight{'s' * (line.n_nonzero != 1)}"
        if line.n_nonzero_rows is not None:
            text += f" in the rows of {line.n_nonzero_rows:,}"
        parts.append(text + _sparsity(line, d))
    if line.cut:
        parts.append(f"{line.cut:,} weight{'s' * (line.cut != 1)} dropped by max_features")
    if line.auc is not None:
        parts.append(f"ROC AUC {format_four(line.auc)} ({WINDOW_NAME} examples)")
    if line.skewed and line.mean_prediction is not None:
        parts.append(
            f"mean prediction {format_number(line.mean_prediction)} "
            f"at an observed rate of {format_number(line.rate)}"
        )
    if line.normalised_entropy is not None:
        parts.append(f"normalised entropy {format_four(line.normalised_entropy)}")
    if line.refused:
        parts.append(f"{line.refused:,} rejected")
    return parts


def summary_rows(line: Line, loss: str, d: int | None) -> list[tuple[str, str]]:
    """Return the figures of a line with their names; parameters as for `describe_line`.

    The losses say once whether lower or higher values are better.
    """
    is_regression = loss in REGRESSION
    number = format_number if is_regression else format_four
    rows = [
        ("examples", f"{line.examples:,}"),
        (
            _loss_name(line, loss),
            f"{number(line.loss)}, baseline {number(line.constant_loss)} (lower is better)",
        ),
        ("mean absolute error", number(line.error))
        if is_regression
        else ("error", format_percent(line.error)),
    ]
    if line.calibration is not None:
        rows.append(("calibration", f"{format_ratio(line.calibration)} (1 is best)"))
    if line.n_nonzero is not None:
        text = f"{line.n_nonzero:,}"
        if line.n_nonzero_rows is not None:
            text += f" in the rows of {line.n_nonzero_rows:,}"
        rows.append(("non-zero weights", text + _sparsity(line, d)))
    if line.cut:
        rows.append(("dropped weights", f"{line.cut:,} by max_features"))
    if line.auc is not None:
        text = f"{format_four(line.auc)}, {WINDOW_NAME} examples (higher is better)"
        rows.append(("ROC AUC", text))
    if line.skewed and line.mean_prediction is not None:
        text = f"{format_number(line.mean_prediction)}, observed rate {format_number(line.rate)}"
        rows.append(("mean prediction", text))
    if line.normalised_entropy is not None:
        rows.append(("normalised entropy", format_four(line.normalised_entropy)))
    if line.refused:
        rows.append(("rejected", f"{line.refused:,}"))
    return rows


def render_summary(rows: Sequence[tuple[str, str]]) -> str:
    """Lay out names and figures in two aligned columns.

    Examples
    --------
    >>> print(render_summary([("examples", "100"), ("error", "3.0%")]))
    examples  100
    error     3.0%
    """
    columns = [TableColumn("", "left"), TableColumn("", "left")]
    return render_table(columns, rows, show_header=False, gap=2)


def _loss_name(line: Line, loss: str) -> str:
    return f"held-out {NAMES[loss]}" if line.held_out else NAMES[loss]


def _sparsity(line: Line, d: int | None) -> str:
    """Return what follows the number of non-zero weights."""
    text = ""
    if line.n_features_seen:
        seen = f"{line.n_features_seen:,} feature{'s' * (line.n_features_seen != 1)} seen"
        text = f" of {seen}, {format_percent(line.sparsity)} sparse"
    if line.share_of_d is not None:
        text += f" ({line.share_of_d:.2%} of all {d:,} features)"
    return text
