"""The plot of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from streaml1.training.report.line import Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figure", "require_plotting"]


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


def figure(lines: Sequence[Line], loss_name: str, title: str) -> Figure:
    """Draw the losses of model and baseline, and the non-zero weights, over examples."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    made = Figure(figsize=(8, 6), layout="constrained")
    top, bottom = made.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    x = [line.examples for line in lines]
    marker = "o" if len(x) == 1 else ""

    def draw(axes: Axes, name: str, field: str, style: str, color: str) -> None:
        y = [_plottable(getattr(line, field)) for line in lines]
        axes.plot(x, y, style, marker=marker, color=color, label=name, linewidth=2)

    draw(top, "baseline", "constant_loss", "--", "0.55")
    draw(top, "model", "loss", "-", "C0")
    top.set_ylabel(f"mean {loss_name} so far")
    top.legend(frameon=False)
    # A file name may have bytes that are not UTF-8, and a $ that would start a formula.
    escaped = title.encode(errors="backslashreplace").decode().replace("$", r"\$")
    top.set_title(escaped, loc="left", fontsize="medium", wrap=True)
    draw(bottom, "non-zero weights", "n_nonzero", "-", "C1")
    bottom.set_ylabel("non-zero weights")
    bottom.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    bottom.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    bottom.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if len(x) == 1:
        bottom.set_xlim(x[0] - 1, x[0] + 1)
    bottom.set_ylim(0, 1.05 * max([1, *(line.n_nonzero or 0 for line in lines)]))
    bottom.set_xlabel("examples")
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    return made


def _plottable(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else value
