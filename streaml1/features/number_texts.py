"""Numbers written as text: missing words, booleans, percentages and amounts of money."""

from __future__ import annotations

from streaml1.features.number_units import without_unit
from streaml1.features.raw_labels import read_number, shown

__all__ = ["BOOLEANS", "MISSING_WORDS", "read_number_text"]

MISSING_WORDS = ("NaN", "nan", "NULL", "null", "None", "N/A", "NA", r"\N", "?")
"""Words that stand for a missing value unless others are given; an empty text always does."""

BOOLEANS = {"True": 1.0, "true": 1.0, "TRUE": 1.0, "False": 0.0, "false": 0.0, "FALSE": 0.0}
"""Words that are numbers where numbers are expected."""

_ABSENT = frozenset(("", *MISSING_WORDS))


def read_number_text(text: str) -> float | None:
    """Return the number that a text spells, as in a cell of CSV; None if it is missing.

    Raises
    ------
    ValueError
        If the text is neither a number nor a missing word.

    Examples
    --------
    >>> from streaml1.features.number_texts import read_number_text
    >>> read_number_text("12.50"), read_number_text("-$0.99"), read_number_text("NULL")
    (12.5, -0.99, None)
    """
    stripped = text.strip()
    if stripped in _ABSENT:
        return None
    if stripped in BOOLEANS:
        return BOOLEANS[stripped]
    try:
        return read_number(without_unit(stripped))
    except ValueError:
        raise ValueError(f"{shown(text)} is not a number") from None
