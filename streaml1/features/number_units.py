"""Numbers with a percent sign or a currency, and negative amounts of accounting."""

from __future__ import annotations

import re

__all__ = ["without_unit"]

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


def without_unit(text: str) -> str:
    """Return the text of a number with its sign first, without its percent sign or currency.

    Examples
    --------
    >>> from streaml1.features.number_units import without_unit
    >>> without_unit("12.5 %"), without_unit("-$1,200"), without_unit("word")
    ('12.5', '-1,200', 'word')
    >>> without_unit("($1,200)"), without_unit("12.50-")
    ('-1,200', '-12.50')
    """
    if text.endswith((")", "-")) and (negative := _NEGATIVE.fullmatch(text)) is not None:
        text = f"-{negative['currency'] or ''}{(negative['inside'] or negative['amount']).strip()}"
    found = _UNIT.fullmatch(text)
    return text if found is None else found["sign"] + (found["amount"] or found["share"])
