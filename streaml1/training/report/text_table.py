"""The table of a report as text: lines in columns, and the formats of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from streaml1.core.text_table import TableColumn, render_table
from streaml1.training.report.line import Line

__all__ = [
    "format_count",
    "format_four",
    "format_number",
    "format_percent",
    "format_ratio",
    "format_sum",
    "render_lines",
]


class Column(Protocol):
    """A column of a table of lines."""

    @property
    def text(self) -> Callable[[Line], str]:
        """Returns the cell of a line."""

    @property
    def layout(self) -> TableColumn:
        """The head and its layout."""


def render_lines(columns: Sequence[Column], lines: Sequence[Line], *, show_header: bool) -> str:
    """Lay out lines of a report in columns, with or without the heads."""
    cells = [[column.text(line) for column in columns] for line in lines]
    return render_table([column.layout for column in columns], cells, show_header=show_header)


def format_four(value: float | None) -> str:
    """Format a number with four decimals, or with four digits if it is 1,000 or more."""
    return "-" if value is None else f"{value:.4f}" if abs(value) < 1000.0 else f"{value:.4g}"


def format_number(value: float | None) -> str:
    """Format a number with four digits."""
    return "-" if value is None else f"{value:.4g}"


def format_sum(value: float | None) -> str:
    """Format a sum with one decimal, or with four digits if it is a billion or more."""
    return "-" if value is None else f"{value:,.1f}" if abs(value) < 1e9 else f"{value:.4g}"


def format_ratio(value: float | None) -> str:
    """Format a ratio with three decimals, or with four digits if it is 1,000 or more."""
    return "-" if value is None else f"{value:.3f}" if abs(value) < 1000.0 else f"{value:.4g}"


def format_percent(value: float | None) -> str:
    """Format a share as a percentage."""
    return "-" if value is None else f"{value:.1%}"


def format_count(value: int | None) -> str:
    """Format a count."""
    return "-" if value is None else f"{value:,}"
