"""Numbers with a percent sign or a currency, and negative amounts of accounting."""

from __future__ import annotations

import re

__all__ = ["unit_of", "without_unit"]

_CODES = (
    "EUR|USD|GBP|CHF|JPY|CNY|INR|AUD|BRL|CAD|CZK|DKK|HKD|HUF|IDR|ILS|KRW|MXN|NOK|NZD|PLN|RON|RUB"
    "|SEK|SGD|THB|TWD|UAH|ZAR"
)
_WORDS = r"kr\.?|zł|Kč|Ft|lei|TL|Rs\.?|руб\.?|元|円|원"
_CURRENCY = f"(?:[A-Z]{{0,2}}[$£¥¤฿\u20a0-\u20c0]|{_CODES}|{_WORDS})"
_UNIT = re.compile(
    rf"(?P<sign>[+-]?)(?:(?P<before>{_CURRENCY})\s*(?P<amount>.+)"
    rf"|(?P<share>.+?)\s*(?P<after>%|{_CURRENCY}))",
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


MINUS = "\N{MINUS SIGN}"
"""What word processors, and programs in some languages, write before negative numbers."""


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
    text = text.replace(MINUS, "-")
    if text.endswith((")", "-")) and (negative := _NEGATIVE.fullmatch(text)) is not None:
        text = f"-{negative['currency'] or ''}{(negative['inside'] or negative['amount']).strip()}"
    found = _UNIT.fullmatch(text)
    return text if found is None else found["sign"] + (found["amount"] or found["share"])


def unit_of(text: str) -> str:
    """Return the percent sign or the currency of a number, "" if it has none.

    Examples
    --------
    >>> from streaml1.features.number_units import unit_of
    >>> unit_of("12.5 %"), unit_of("-R$1,200"), unit_of("(5 kr.)"), unit_of("7")
    ('%', 'R$', 'kr', '')
    """
    found = _UNIT.fullmatch(text.removeprefix("(").removesuffix(")"))
    return "" if found is None else (found["before"] or found["after"]).rstrip(".")
