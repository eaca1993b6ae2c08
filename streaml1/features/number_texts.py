"""Numbers written as text: missing words, booleans, percentages and amounts of money."""

from __future__ import annotations

import re

from streaml1.features.raw_labels import read_number, shown

__all__ = ["BOOLEANS", "MISSING_WORDS", "read_number_text", "without_unit"]

MISSING_WORDS = ("NaN", "nan", "NULL", "null", "None", "N/A", "NA", r"\N", "?")
"""Words that stand for a missing value unless others are given; an empty text always does."""

BOOLEANS = {"True": 1.0, "true": 1.0, "TRUE": 1.0, "False": 0.0, "false": 0.0, "FALSE": 0.0}
"""Words that are numbers where numbers are expected."""

_CURRENCY = "(?:[$€£¥₹]|EUR|USD|GBP|CHF|JPY|CNY|INR)"
_UNIT = re.compile(
    rf"(?P<sign>[+-]?)(?:{_CURRENCY}\s*(?P<amount>.+)|(?P<share>.+?)\s*(?:%|{_CURRENCY}))",
    re.DOTALL,
)
"""A number with a currency before it, or a currency or a percent sign after it."""

_NEGATIVE = re.compile(
    rf"(?P<currency>{_CURRENCY}?)\s*\((?P<inside>[^-+()]+)\)"
    r"|(?P<amount>[^-+()]*[.,][0-9][0-9])-"
)
"""A negative number of accounting: in parentheses, or an amount before its sign, as SAP writes it.

Without decimals, ``2-`` may be a grade.
"""

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


def without_unit(text: str) -> str:
    """Return the text of a number with its sign first, without its percent sign or currency.

    Examples
    --------
    >>> from streaml1.features.number_texts import without_unit
    >>> without_unit("12.5 %"), without_unit("-$1,200"), without_unit("word")
    ('12.5', '-1,200', 'word')
    >>> without_unit("($1,200)"), without_unit("12.50-")
    ('-1,200', '-12.50')
    """
    if text.endswith((")", "-")) and (negative := _NEGATIVE.fullmatch(text)) is not None:
        text = f"-{negative['currency'] or ''}{(negative['inside'] or negative['amount']).strip()}"
    found = _UNIT.fullmatch(text)
    return text if found is None else found["sign"] + (found["amount"] or found["share"])
