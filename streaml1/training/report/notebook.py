"""A report as HTML, for notebooks."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from streaml1.training.report.columns import ReportColumn
from streaml1.training.report.line import Line
from streaml1.training.report.plot import ignoring_missing_glyphs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["figure_as_html", "lines_as_html"]

MAX_LINES = 20
"""Lines of a longer report are left out in the middle."""


def lines_as_html(columns: Sequence[ReportColumn], lines: Sequence[Line]) -> str:
    """Lay out lines of a report as an HTML table."""
    heads = "".join(f"<th>{_text(column.head)}</th>" for column in columns)
    shown = [_row([column.text(line) for column in columns]) for line in lines]
    if len(shown) > MAX_LINES:
        half = MAX_LINES // 2
        left_out = f'<tr><td colspan="{len(columns)}">{len(shown) - 2 * half:,} lines</td></tr>'
        shown = [*shown[:half], left_out, *shown[-half:]]
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(shown)}</tbody></table>"


def _row(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}</tr>"


def _text(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")


def figure_as_html(figure: Figure) -> str:
    """Return a figure as an image that the HTML contains."""
    image = io.BytesIO()
    with ignoring_missing_glyphs():
        figure.savefig(image, format="png", dpi=72)
    encoded = base64.b64encode(image.getvalue()).decode()
    return f'<img src="data:image/png;base64,{encoded}" alt="Plot of the run">'
