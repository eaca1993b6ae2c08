"""Sentences about columns whose values may not mean what they seem to."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from streaml1.core.text_table import printable
from streaml1.sources.readers.csv_kinds import ColumnSummary
from streaml1.sources.readers.time_texts import is_duration

__all__ = ["Sentinel", "alike_labels", "describe_durations", "describe_sentinels", "find_sentinel"]

SENTINELS = {
    *(sign * (10.0**digits - 1.0) for sign in (1, -1) for digits in range(3, 10)),
    *(-1.0, -9.0, -99.0, 9999.9, -9999.9, 9999.99, -9999.99, -999.9, -999.99, -99.9),
    *(2147483647.0, -2147483648.0),
}
"""Numbers that stand for a missing value in many data sets."""

MIN_OTHERS = 5
"""Different other numbers from which one is unlike them."""

FAR = 2.0
"""Multiple of the largest other number from which one is far away."""

MAX_LISTED = 5


class Sentinel(NamedTuple):
    """A number that may stand for a missing value."""

    texts: tuple[str, ...]
    """How it is written."""
    share: float
    """Share of the values that are present."""
    low: float
    high: float
    """The range of all others."""


def find_sentinel(column: ColumnSummary) -> Sentinel | None:
    """Return the number of a column that may stand for a missing value; None if there is none.

    It is a usual one such as -999 or 9999, it repeats, and all others are far away. -1 and other
    small ones are noticed if no other number is negative.

    Examples
    --------
    >>> from streaml1.sources.readers.column_hints import find_sentinel
    >>> from streaml1.sources.readers.csv_cells import CellRules
    >>> from streaml1.sources.readers.csv_kinds import summarize_columns
    >>> rows = [[str(age)] for age in (31, 45, -999, 28, 54, 61, -999, 39)]
    >>> find_sentinel(summarize_columns(["age"], rows, CellRules())[0])
    Sentinel(texts=('-999',), share=0.25, low=28.0, high=61.0)
    """
    if column.kind not in ("number", "id-like"):
        return None
    numbers: dict[float, list[str]] = {}
    for text in column.values:
        with suppress(ValueError):
            numbers.setdefault(float(text), []).append(text)
    for value in sorted(SENTINELS & {*numbers}, key=abs, reverse=True):
        others = [number for number in numbers if number != value]
        n = sum(column.values[text] for text in numbers[value])
        if len(others) < MIN_OTHERS or n < 2 or not _is_far(value, min(others), max(others)):
            continue
        share = n / column.values.total()
        return Sentinel(tuple(numbers[value]), share, min(others), max(others))
    return None


def _is_far(value: float, low: float, high: float) -> bool:
    if value < 0.0 and low >= 0.0:
        return True
    return abs(value) >= 99.0 and abs(value) > FAR * max(abs(low), abs(high))


def describe_sentinels(columns: Sequence[ColumnSummary], remedy: str) -> list[str]:
    """Return a sentence for each column with a number that may stand for a missing value.

    Parameters
    ----------
    columns
        The columns.
    remedy
        What to do; ``{}`` in it is the number, as it is written.
    """
    sentences = []
    for column in columns:
        if (found := find_sentinel(column)) is not None:
            sentences.append(
                f"column {column.name!r} holds {found.texts[0]} in {found.share:.1%} of its values "
                f"(others: {found.low:.6g} to {found.high:.6g}): if it stands for a missing value, "
                + remedy.format(",".join(found.texts))
            )
    n_more = len(sentences) - MAX_LISTED
    return [*sentences[:MAX_LISTED], *([f"and {n_more} more columns"] if n_more > 0 else [])]


def describe_durations(columns: Sequence[ColumnSummary]) -> str:
    """Return a sentence about times of day and durations; "" if there are none."""
    found = [
        column
        for column in columns
        if column.kind == "time-like" and column.values and all(map(is_duration, column.values))
    ]
    if not found:
        return ""
    names = ", ".join(shlex.quote(str(printable(column.name))) for column in found[:MAX_LISTED])
    example = next(iter(found[0].values))
    return f"times of day or durations: {names}; to learn {example!r} as a number, write seconds"


def alike_labels(column: ColumnSummary) -> list[list[str]]:
    """Return the labels that differ only in case or outer blanks, and others, in groups.

    Examples
    --------
    >>> from streaml1.sources.readers.column_hints import alike_labels
    >>> from streaml1.sources.readers.csv_cells import CellRules
    >>> from streaml1.sources.readers.csv_kinds import summarize_columns
    >>> rows = [[label] for label in ("Yes", "no", "yes", "no")]
    >>> alike_labels(summarize_columns(["y"], rows, CellRules())[0])
    [['no'], ['Yes', 'yes']]
    """
    groups: dict[str, list[str]] = {}
    for label in column.values:
        groups.setdefault(label.strip().casefold(), []).append(label)
    return list(groups.values())
