"""The picture of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from streaml1.training.report.line import Line

__all__ = ["figure", "require_plotting"]


def require_plotting(path: str | Path) -> str:
    """The format of the picture `path`, once it is sure that it can be drawn.

    Raises
    ------
    RuntimeError
        In one sentence, where matplotlib is not installed.
    ValueError
        In one sentence, where `path` ends in no format that it can draw.
    """
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        raise RuntimeError(
            f"{path} cannot be drawn without matplotlib: pip install 'streaml1[plot]'"
        ) from None
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FigureCanvasBase.get_supported_filetypes():
        raise ValueError(
            f"{path} does not end in a format of pictures: end it in .png, .svg or .pdf"
        )
    return kind


def figure(lines: Sequence[Line], loss_name: str, title: str) -> Any:
    """The loss, the constant predictor's beside it, and the non-zeros over examples."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    made = Figure(figsize=(8, 6), layout="constrained")
    top, bottom = made.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    x = [line.examples for line in lines]
    marker = "o" if len(x) == 1 else ""

    def draw(axes: Any, name: str, field: str, style: str, color: str) -> None:
        y = [_plottable(getattr(line, field)) for line in lines]
        axes.plot(x, y, style, marker=marker, color=color, label=name, linewidth=2)

    draw(top, "constant predictor", "constant_loss", "--", "0.55")
    draw(top, "model", "loss", "-", "C0")
    top.set_ylabel(f"mean {loss_name} so far")
    top.legend(frameon=False)
    # The name of a file is no formula, and may have bytes that are no text.
    told = title.encode(errors="backslashreplace").decode().replace("$", r"\$")
    top.set_title(told, loc="left", fontsize="medium", wrap=True)
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
