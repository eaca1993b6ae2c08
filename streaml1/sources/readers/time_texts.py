"""Recognize dates, times of day and durations in text."""

from __future__ import annotations

import re

__all__ = ["is_date", "is_duration"]

_MONTH = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = "(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_ZONE = r"( ?(Z|UTC|[A-Z]{2,4}T|[+-]\d{2}(:?\d{2})?))?(\[[\w/+-]+\])?"
_CLOCK = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[AaPp][Mm])?"

_DATE = re.compile(
    rf"({_DAY},? )?"
    r"(\d{4}-\d{2}-\d{2}|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}(?P<mark>[./-])\d{1,2}(?P=mark)\d{4}"
    r"|\d{2}\.\d{2}\.\d{2}|\d{1,2}/\d{1,2}/\d{2}"
    rf"|\d{{1,2}}[- /]{_MONTH}[- /]\d{{2}}(\d\d)?|{_MONTH} +\d{{1,2}},? \d{{4}})"
    rf"([T: ]{_CLOCK}{_ZONE})?"
    rf"|{_DAY} {_MONTH} +\d{{1,2}} {_CLOCK}( [A-Z]{{3,4}})? \d{{4}}"
    r"|\d{8}T\d{4}(\d{2}(\.\d+)?)?Z?"
)
"""Dates such as 2026-01-31, 31.01.26, 1/31/2026 and 31-Jan-2026, with a time of day or without.

Also 20260131T060000Z, and those of e-mails, web servers and ``date``.
"""

_DURATION = re.compile(
    r"[+-]?(\d+ days?,? ?)?\d{1,3}:\d{2}(:\d{2}([.,]\d+)?)?|[+-]?\d+ days?"
    r"|[+-]?P(?=\w)(\d+[YMWD])*(T(\d+([.,]\d+)?[HMS])+)?"
)
"""Times of day and durations such as 06:30, 0 days 00:05:10.5 and PT5M."""


def is_date(text: str) -> bool:
    """Return whether a text is a date, with a time of day or without.

    Examples
    --------
    >>> from streaml1.sources.readers.time_texts import is_date
    >>> is_date("2026-01-31 06:00:07.25 UTC"), is_date("Sat Jan 31 06:00:07 UTC 2026")
    (True, True)
    >>> is_date("31.01-2026")
    False
    """
    return _DATE.fullmatch(text) is not None


def is_duration(text: str) -> bool:
    """Return whether a text is a time of day or a duration.

    Examples
    --------
    >>> from streaml1.sources.readers.time_texts import is_duration
    >>> is_duration("0 days 00:05:10"), is_duration("PT1H30M"), is_duration("P"), is_duration("5")
    (True, True, False, False)
    """
    return _DURATION.fullmatch(text) is not None
