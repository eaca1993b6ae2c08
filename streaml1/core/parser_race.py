"""A workaround for Python's literal parser, which fails at random in threads.

numpy reads the header of an array with `ast.literal_eval`. In CPython before 3.11.8 and 3.12.2, the
parser counts its recursion depth in one place for all threads, and raises `SystemError` if another
thread parses at the same time (CPython issue 106905).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["retry_parse"]

T = TypeVar("T")

MAX_ATTEMPTS = 100
"""Four threads that do nothing but parse disturb one call in four."""


def retry_parse(parse: Callable[[], T]) -> T:
    """Return ``parse()``, called again if another thread disturbed it.

    Raises
    ------
    Exception
        What `parse` raises, unless it is a `SystemError` that another call does not raise.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return parse()
        except SystemError:  # another thread parsed at the same time
            continue
    return parse()
