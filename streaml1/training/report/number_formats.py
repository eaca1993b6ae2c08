"""The formats of numbers in the table and the summary of a report."""

from __future__ import annotations

__all__ = [
    "format_count",
    "format_four",
    "format_number",
    "format_percent",
    "format_ratio",
    "format_sum",
]


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
