"""A run that ends where too many examples are bad."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from streaml1.core import exit_codes as exits
from streaml1.sources.source import Lost
from streaml1.training.observers import Out, Part, Refused

__all__ = ["LEAST", "WINDOW", "BadShare", "TooManyBad"]

WINDOW = 1000
"""Over how many examples the share is taken."""

LEAST = 100
"""How many must have been seen."""


class TooManyBad(Lost):
    """More examples were refused than a run may leave out; its text is one sentence."""

    exit_code = exits.DATA_ERROR


class BadShare(Out):
    """Ends a run where more than a share of the last 1,000 examples was refused.

    Whatever made them bad, such as a new schema, is better looked at than drained. The share is
    asked for once 100 examples were seen; it is of examples in the order in which they stand, not
    in that in which refusals are heard of: those of lines that cannot be parsed come early.

    Parameters
    ----------
    most
        The largest share that a run goes on with, from 0 to 1.
    """

    def __init__(self, most: float) -> None:
        if not 0 <= most <= 1:
            raise ValueError(f"most={most!r} is no share; give a number from 0 to 1")
        self.most = most
        self.next_pass()

    def next_pass(self) -> None:
        """Begin anew: examples are numbered from 1 again."""
        self._numbers: list[int] = []  # of the refused, ascending
        self._seen = 0
        self._last: Refused | None = None

    def predicted(self, part: Part) -> None:
        """Hear of examples that were good."""
        seen = part.block.lines[part.hi - 1]
        before, self._seen = self._seen, max(self._seen, seen)
        if before < LEAST <= seen:
            self._require(LEAST)

    def refused(self, refused: Refused) -> None:
        """Hear of one that was not.

        Raises
        ------
        TooManyBad
            Where it is one too many.
        """
        number, numbers = refused.number, self._numbers
        insort(numbers, number)
        self._last, self._seen = refused, max(self._seen, number)
        # The share is largest at an example that is bad; or at the first that it is asked for.
        lo, hi = bisect_left(numbers, number), bisect_left(numbers, number + WINDOW)
        for end in {LEAST, *numbers[lo:hi]}:
            if LEAST <= end <= self._seen:
                self._require(end)
        del numbers[: bisect_right(numbers, self._seen - 3 * WINDOW)]

    def holds(self) -> bool:
        """Whether the share is too large, however few were seen: no checkpoint passes them."""
        return self._bad(self._seen) > self.most * min(self._seen, WINDOW)

    def _require(self, end: int) -> None:
        bad, seen = self._bad(end), min(end, WINDOW)
        if bad > self.most * seen and self._last is not None:
            raise TooManyBad(
                f"{bad} of the last {seen:,} examples were refused, more than the share of "
                f"{self.most:g} that may be: has the schema changed? "
                f"(the last was {self._last.place}: {self._last.reason})"
            )

    def _bad(self, end: int) -> int:
        """How many were refused of the examples that end with a number."""
        return bisect_right(self._numbers, end) - bisect_right(self._numbers, end - WINDOW)
