"""Stream time: how far the times of the records are, whatever the clock on the wall says."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["Clock"]

IN_A_ROW = 10
"""So many records in a row must be far ahead before stream time follows them."""


class Clock:
    """The largest time of a record so far, but for times that no other record bears out.

    Time never goes back. A record that is more than `leap` ahead may have a damaged time, and
    does not move it; once `IN_A_ROW` timed records in a row are so far ahead, it is a gap in the
    stream, and time goes on to the earliest of them, and from there as far as the others bear out.
    So it begins too.

    Parameters
    ----------
    leap
        How far a single record may move it, in seconds.

    Attributes
    ----------
    now : float
        Stream time; -inf before it has begun.
    start : float
        Where it began; -inf before.

    Examples
    --------
    >>> clock = Clock(5.0)
    >>> for time in range(100, 110):
    ...     clock.tell(time)
    >>> clock.now
    109.0
    >>> clock.tell(4e9)
    >>> clock.tell(112.0)
    >>> clock.tell(90.0)
    >>> clock.now
    112.0
    """

    def __init__(self, leap: float) -> None:
        self.leap = leap
        self.now = self.start = -math.inf
        self._ahead: list[float] = []

    def tell(self, time: float | None) -> None:
        """Hear the time of the next record; None: it has none."""
        if time is None:
            return
        time = float(time)
        if time <= self.now + self.leap:
            self._ahead.clear()
            self.now = max(self.now, time)
            return
        self._ahead.append(time)
        if len(self._ahead) < IN_A_ROW:
            return
        ahead = sorted(self._ahead)
        self.now = ahead[0]
        if self.start == -math.inf:
            self.start = self.now
        for one in ahead:
            if one <= self.now + self.leap:
                self.now = one
        self._ahead = [one for one in self._ahead if one > self.now + self.leap]

    def at(self, time: float | None) -> float:
        """Stream time as a record of some time comes."""
        return time if time is not None and self.now < time <= self.now + self.leap else self.now

    def dump(self) -> dict[str, Any]:
        """What `resume` goes on from, as JSON has it."""
        begun = self.start > -math.inf
        return {
            "now": self.now if begun else None,
            "start": self.start if begun else None,
            "ahead": list(self._ahead),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on where another clock was."""
        begun = state["now"] is not None
        self.now, self.start = (state["now"], state["start"]) if begun else (-math.inf, -math.inf)
        self._ahead = list(state["ahead"])
