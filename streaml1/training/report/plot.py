"""The plot of a report."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from streaml1.training.report.line import Line
from streaml1.training.report.reliability import ReliabilityBin
from streaml1.training.report.window import WINDOW_NAME

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figure", "ignoring_missing_glyphs", "require_plotting"]


def require_plotting(path: str | Path) -> str:
    """Check that `path` can be plotted to, and return its format, such as "png".

    Raises
    ------
    RuntimeError
        If matplotlib is not installed.
    ValueError
        If the extension is not that of an image format.
    """
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        raise RuntimeError(f"{path} needs matplotlib; run pip install 'streaml1[plot]'") from None
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FigureCanvasBase.get_supported_filetypes():
        raise ValueError(f"{path} must end in .png, .svg or .pdf")
    return kind


@contextmanager
def ignoring_missing_glyphs() -> Iterator[None]:
    """Draw a character of a title that the font lacks as a box, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        yield


def figure(
    lines: Sequence[Line],
    loss_name: str,
    title: str,
    bins: Sequence[ReliabilityBin] | None = None,
) -> Figure:
    """Draw the progress of a run over examples.

    Parameters
    ----------
    lines
        Lines of the report: mean and cumulative losses of model and baseline, non-zero weights.
    loss_name
        Name of the loss.
    title
        Title.
    bins
        The reliability diagram; it may be empty. If given, the calibration is drawn, too.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    made = Figure(figsize=(8 if bins is None else 12, 8), layout="constrained")
    # The right column has two plots of equal height, or one; the left column has three.
    grid = made.add_gridspec(6, 1 if bins is None else 2)
    top = made.add_subplot(grid[:2, 0])
    middle = made.add_subplot(grid[2:4, 0], sharex=top)
    bottom = made.add_subplot(grid[4:, 0], sharex=top)
    _draw(top, lines, ("baseline", "constant_loss", "--", "0.55"), ("model", "loss", "-", "C0"))
    _draw(
        middle, lines, ("baseline", "cumulative_constant_loss", "--", "0.55"),
        ("model", "cumulative_loss", "-", "C0"),
    )  # fmt: skip
    middle.set_ylabel(f"cumulative {loss_name}")
    middle.yaxis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
    top.set_ylabel(f"mean {loss_name} so far")
    top.legend(frameon=False)
    # A file name may have bytes that are not UTF-8, and a $ that would start a formula.
    escaped = title.encode(errors="backslashreplace").decode().replace("$", r"\$")
    top.set_title(escaped, loc="left", fontsize="medium", wrap=True)
    _draw(bottom, lines, ("non-zero weights", "n_nonzero", "-", "C1"))
    bottom.set_ylabel("non-zero weights")
    _format_counts(bottom)
    bottom.set_ylim(0, 1.05 * max([1, *(line.n_nonzero or 0 for line in lines)]))
    over_examples = [top, middle, bottom]
    if bins is not None:
        # Without bins (several labels) the calibration takes the whole height.
        calibration = made.add_subplot(grid[3:, 1] if bins else grid[:, 1], sharex=top)
        _draw_calibration(calibration, lines)
        over_examples.append(calibration)
    for axes in over_examples:
        _mark_passes(axes, lines, is_named=axes is top)
        _mark_drifts(axes, lines, is_named=axes is top)
    if bins:
        _draw_reliability(made.add_subplot(grid[:3, 1]), bins)
    for axes in (top, middle):
        axes.tick_params(labelbottom=False)
    for axes in over_examples:
        axes.grid(axis="y", color="0.92")
        if axes not in (top, middle):
            _format_examples(axes, lines)
    for axes in made.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
    return made


def _draw(axes: Axes, lines: Sequence[Line], *series: tuple[str, str, str, str]) -> None:
    """Draw fields of the lines over examples, each given as (label, field, style, color)."""
    x = [line.examples for line in lines]
    marker = "o" if len(x) == 1 else ""
    for name, field, style, color in series:
        y = [_plottable(getattr(line, field)) for line in lines]
        axes.plot(x, y, style, marker=marker, color=color, label=name, linewidth=2)


def _mark_passes(axes: Axes, lines: Sequence[Line], is_named: bool) -> None:
    """Mark the end of each pass, after which the figures start over with held-out rows."""
    ends = [a.examples for a, b in pairwise(lines) if b.held_out and b.pass_number > a.pass_number]
    for end in ends:
        axes.axvline(end, linestyle=":", color="0.6", linewidth=1)
    if ends and is_named:
        place = axes.get_xaxis_transform()
        axes.text(ends[0], 1.0, " held-out rows", transform=place, va="top", color="0.4")


def _mark_drifts(axes: Axes, lines: Sequence[Line], is_named: bool) -> None:
    """Mark where the loss began to rise."""
    begins = [drift["since"] for line in lines for drift in line.drifts]
    for begin in begins:
        axes.axvline(begin, linestyle="-.", color="C3", linewidth=1)
    if begins and is_named:
        place = axes.get_xaxis_transform()
        axes.text(begins[0], 1.0, " drift", transform=place, va="top", color="C3")


def _format_examples(axes: Axes, lines: Sequence[Line]) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if len(lines) == 1:
        axes.set_xlim(lines[0].examples - 1, lines[0].examples + 1)
    axes.set_xlabel("examples")


def _format_counts(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _draw_calibration(axes: Axes, lines: Sequence[Line]) -> None:
    axes.axhline(1.0, linestyle="--", color="0.55", linewidth=1)
    recent = ("since the previous line", "recent_calibration", "-", "C9")
    _draw(axes, lines, recent, ("so far", "calibration", "-", "C0"))
    # The axis shows at least 10% to both sides, so that noise does not look like a bias.
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.9), max(high, 1.1))
    axes.set_ylabel("calibration\n(predicted / observed)")
    axes.legend(frameon=False)


def _draw_reliability(axes: Axes, bins: Sequence[ReliabilityBin]) -> None:
    """Draw observed rates over mean predictions, with one binomial standard error to each side."""
    x = [b.mean_prediction for b in bins]
    y = [b.rate for b in bins]
    # Skewed labels use a corner of the unit square only.
    limit = min(1.0, 1.08 * max(*x, *(b.rate + b.standard_error for b in bins)))
    axes.plot([0.0, limit], [0.0, limit], "--", color="0.55", label="calibrated")
    axes.errorbar(
        x, y, yerr=[b.standard_error for b in bins], fmt="o-", color="C0", markersize=4,
        linewidth=1, capsize=3, label="model, with the standard error",
    )  # fmt: skip
    axes.set_xlim(0.0, limit)
    axes.set_ylim(0.0, limit)
    axes.set_xlabel("predicted probability (mean of the bin)")
    axes.set_ylabel("observed rate")
    axes.set_title(f"reliability, {WINDOW_NAME} examples", loc="left", fontsize="medium")
    axes.grid(color="0.92")
    axes.legend(frameon=False)


def _plottable(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else value
