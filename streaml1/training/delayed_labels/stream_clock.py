"""Stream time: the time of the records, independent of the wall clock."""

from __future__ import annotations

import math
from typing import Any

from streaml1.training.saved_state import require_type

__all__ = ["CONFIRMATIONS", "StreamClock"]

CONFIRMATIONS = 10
"""Consecutive records that must be far ahead before stream time follows them."""


class StreamClock:
    """Largest time of any record so far, ignoring outliers that no other record confirms.

    Time never goes back. A record that is more than `leap` ahead may have a damaged time, and does
    not move the clock. Once `CONFIRMATIONS` consecutive timed records are that far ahead, there is
    a gap in the stream: time jumps to the earliest of them, and on from there as long as the steps
    between their times are at most `leap`. The clock starts in the same way.

    Parameters
    ----------
    leap
        Seconds by which a single record may move the clock.

    Attributes
    ----------
    now : float
        Stream time in seconds; -inf before it has started.
    start : float
        Time at which it started; -inf before.

    Examples
    --------
    >>> clock = StreamClock(5.0)
    >>> any([clock.advance(time) for time in range(100, 109)]), clock.advance(109)
    (False, True)
    >>> clock.now
    109.0
    >>> for time in (4e9, 112.0, 90.0):
    ...     _ = clock.advance(time)
    >>> clock.now
    112.0
    """

    def __init__(self, leap: float) -> None:
        self.leap = leap
        self.now = self.start = -math.inf
        self._ahead: list[float] = []

    def advance(self, time: float | None) -> bool:
        """Take the time of the next record into account; None if it has none.

        Returns
        -------
        Whether stream time has followed several records over a gap.
        """
        if time is None:
            return False
        time = float(time)
        if time <= self.now + self.leap:
            self._ahead.clear()
            self.now = max(self.now, time)
            return False
        self._ahead.append(time)
        if len(self._ahead) < CONFIRMATIONS:
            return False
        ahead = sorted(self._ahead)
        self.now = ahead[0]
        if self.start == -math.inf:
            self.start = self.now
        for later in ahead:
            if later <= self.now + self.leap:
                self.now = later
        self._ahead = [later for later in self._ahead if later > self.now + self.leap]
        return len(ahead) - len(self._ahead) > 1

    def arrival_time(self, time: float | None) -> float:
        """Return stream time as a record with this time arrives."""
        return time if time is not None and self.now < time <= self.now + self.leap else self.now

    def dump(self) -> dict[str, Any]:
        """Return the state for `resume`, as JSON can hold it."""
        started = self.start > -math.inf
        return {
            "now": self.now if started else None,
            "start": self.start if started else None,
            "ahead": list(self._ahead),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Restore the state of another clock."""
        times = [state["now"], state["start"]]
        require_type(times, list[float] if times[0] is not None else list[None], "the clock")
        require_type(state["ahead"], list[float], "the clock")
        started = state["now"] is not None
        self.now, self.start = (state["now"], state["start"]) if started else (-math.inf, -math.inf)
        self._ahead = list(state["ahead"])
