"""Observer that ends a run in which too many examples are rejected."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from streaml1.core import exit_codes as exits
from streaml1.sources.source import Lost
from streaml1.training.observers import Batch, Observer, Rejected

__all__ = ["MIN_EXAMPLES", "WINDOW", "BadShare", "TooManyBad"]

WINDOW = 1000
"""Number of examples over which the share is taken."""

MIN_EXAMPLES = 100
"""Number of examples before the share is checked."""

MIN_REJECTED, SHORT_SHARE = 20, 0.5
"""Smaller sources are checked at their end: this many rejected examples are too many if they are
more than this share."""


class TooManyBad(Lost):
    """More examples were rejected than the run may skip; the message is one sentence."""

    exit_code = exits.DATA_ERROR


class BadShare(Observer):
    """Ends a run if more than a share of the last 1,000 examples was rejected.

    A changed schema should be looked at, not skipped. The share is checked once 100 examples were
    seen; a source with fewer must not have rejected 20 or more, and more than half of them, at its
    end. The share refers to the order of the examples in the source, not to the order in which
    rejections are announced: lines that cannot be parsed are announced before the examples around
    them.

    Parameters
    ----------
    max_share
        Largest share of rejected examples that the run accepts, from 0 to 1.
    min_rejected
        Number of rejected examples among the last 1,000 below which the run continues in any case.

    Raises
    ------
    ValueError
        If `max_share` is out of range.
    """

    essential = True

    def __init__(self, max_share: float, min_rejected: int = 1) -> None:
        if not 0 <= max_share <= 1:
            raise ValueError(f"max_share must be between 0 and 1, got {max_share!r}")
        self.max_share = max_share
        self.min_rejected = min_rejected
        self._reset()

    def _reset(self) -> None:
        self._rejected: list[int] = []  # numbers of rejected examples, ascending
        self._n_seen = 0
        self._last: Rejected | None = None

    def on_pass_start(self) -> None:
        """Start over: examples are numbered from 1 again."""
        self._reset()

    def on_batch(self, batch: Batch) -> None:
        """Count accepted examples, and check the share when the first 100 are complete."""
        seen = batch.block.lines[batch.hi - 1]
        before, self._n_seen = self._n_seen, max(self._n_seen, seen)
        if before < MIN_EXAMPLES <= seen:
            self._require_share(MIN_EXAMPLES)

    def on_rejected(self, rejected: Rejected) -> None:
        """Count a rejected example; raise TooManyBad if the share is exceeded."""
        number, numbers = rejected.number, self._rejected
        insort(numbers, number)
        self._last, self._n_seen = rejected, max(self._n_seen, number)
        # The share of a window is largest where the window ends with a rejected example. This one
        # belongs to the windows that end with it, or with a later one at most WINDOW away.
        lo, hi = bisect_left(numbers, number), bisect_left(numbers, number + WINDOW)
        for end in {MIN_EXAMPLES, *numbers[lo:hi]}:
            if MIN_EXAMPLES <= end <= self._n_seen:
                self._require_share(end)
        del numbers[: bisect_right(numbers, self._n_seen - 3 * WINDOW)]

    def on_pass_end(self) -> None:
        """Check a source with fewer than 100 examples; raise TooManyBad if most were rejected."""
        n = len(self._rejected)
        share = max(self.max_share, SHORT_SHARE)
        if self._n_seen < MIN_EXAMPLES and n >= MIN_REJECTED and n > share * self._n_seen:
            raise self._too_many(n, self._n_seen)

    def defers_checkpoint(self) -> bool:
        """Return whether the share is exceeded, even before 100 examples.

        A checkpoint would move the position past the rejected examples.
        """
        return self._n_rejected(self._n_seen) > self.max_share * min(self._n_seen, WINDOW)

    def _require_share(self, end: int) -> None:
        """Raise TooManyBad if the share is exceeded in the window that ends with a number."""
        n, size = self._n_rejected(end), min(end, WINDOW)
        if n > self.max_share * size and n >= self.min_rejected and self._last is not None:
            raise self._too_many(n, size)

    def _too_many(self, n: int, size: int) -> TooManyBad:
        assert self._last is not None
        return TooManyBad(
            f"{n} of the last {size:,} examples were rejected, more than the maximum share "
            f"{self.max_share:g}; check whether the schema has changed "
            f"(last: {self._last.place}: {self._last.reason})"
        )

    def _n_rejected(self, end: int) -> int:
        """Return the number of rejected examples in the window that ends with a number."""
        return bisect_right(self._rejected, end) - bisect_right(self._rejected, end - WINDOW)
