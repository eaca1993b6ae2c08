"""A run that ends where too many examples are bad."""

from __future__ import annotations

from bisect import bisect_right, insort

from streaml1.consumer.outs import Out, Refused
from streaml1.streams.source import SourceError

__all__ = ["LEAST", "WINDOW", "BadShare", "TooManyBad"]

WINDOW = 1000
"""Over how many examples the share is taken."""

LEAST = 100
"""How many must have been seen."""


class TooManyBad(SourceError):
    """More examples were refused than a run may leave out; its text is one sentence."""


class BadShare(Out):
    """Ends a run where more than a share of the last 1,000 examples was refused.

    Whatever made them bad, such as a new schema, is better looked at than drained. It ends as soon
    as there was any example, not among the first 100, of which this is true; the order in which
    the refused ones are heard of (those that cannot be parsed come before others) plays no part.

    Parameters
    ----------
    most
        The largest share that a run goes on with, from 0 to 1.
    """

    def __init__(self, most: float) -> None:
        if not 0 <= most <= 1:
            raise ValueError(f"most={most!r} is no share; give a number from 0 to 1")
        self.most = most
        self._numbers: list[int] = []  # of the refused, ascending; the last 2 WINDOW of them

    def next_pass(self) -> None:
        """Begin anew: numbers begin anew too."""
        self._numbers.clear()

    def refused(self, refused: Refused) -> None:
        """Hear of one more.

        Raises
        ------
        TooManyBad
            Where it is one too many.
        """
        numbers, number = self._numbers, refused.number
        insort(numbers, number)
        for last in numbers[bisect_right(numbers, number - 1) :]:
            if last >= number + WINDOW:
                break
            bad, seen = self._bad(last), min(last, WINDOW)
            if seen >= LEAST and bad > self.most * seen:
                raise TooManyBad(
                    f"{bad} of the last {seen:,} examples up to {refused.place} were refused, more "
                    f"than the share {self.most:g} that may be: has the schema changed? (this one: "
                    f"{refused.reason})"
                )
        del numbers[: bisect_right(numbers, numbers[-1] - 2 * WINDOW)]

    def holds(self) -> bool:
        """Whether the share is too large, however few were seen: no checkpoint passes them."""
        if not self._numbers:
            return False
        return False

    def _bad(self, last: int) -> int:
        """How many were refused of the examples up to a number."""
        numbers = self._numbers
        return bisect_right(numbers, last) - bisect_right(numbers, last - WINDOW)
