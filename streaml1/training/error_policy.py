"""What is done with a refused example."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Sequence
from typing import Any

from streaml1.core.logging import event
from streaml1.core.rows import BadExample
from streaml1.training.observers import Out, Refused

__all__ = ["Refusals", "require_positive"]

logger = logging.getLogger("streaml1")

LOGGED = 5
"""How many refused examples are logged one by one, to who does not hear all that there is."""


class Refusals:
    """What is done with a refused example: called with its place and the reason.

    Parameters
    ----------
    bad
        "fail": stop at the first; "skip": count it and go on.
    outs
        Who hears of those that are left out.
    """

    def __init__(self, bad: str, outs: Sequence[Out] = ()) -> None:
        if bad not in ("fail", "skip"):
            raise ValueError(f'bad={bad!r} is not known; give one of "fail", "skip"')
        self.skip = bad == "skip"
        self.count = 0  # of the runs before, too, where one goes on
        self.own = 0
        # Numbers and places of the refused, where they are wanted.
        self.lines: list[tuple[int, str]] | None = None
        self._outs = outs

    def __call__(
        self, place: str, reason: str, number: int | None = None, origin: Any = None
    ) -> None:
        """Refuse the example at a place; the number is of it in the reading."""
        if not self.skip:
            raise BadExample(f"{place}: {reason}")
        self.count += 1
        self.own += 1
        if self.own <= LOGGED or _hears_all():
            said = event("example_refused", place=place, reason=reason)
            logger.warning("skipped %s: %s", place, reason, extra=said)
        line = int(place.rpartition(":")[2]) if number is None else number
        if self.lines is not None:
            heapq.heappush(self.lines, (line, place))
        for out in self._outs:
            out.refused(Refused(place, reason, origin, line))

    def summarise(self) -> None:
        """Log how many there were in this process, where not all were logged."""
        if self.own > LOGGED:
            said = event("examples_refused", refused=self.own)
            if _hears_all():
                logger.warning("skipped %d in all", self.own, extra=said)
                return
            more = self.own - LOGGED
            logger.warning("skipped %d more, %d in all", more, self.own, extra=said)


def _hears_all() -> bool:
    """Whether who listens wants to hear of more than what is wrong, as `--log json` does."""
    return logger.isEnabledFor(logging.INFO)


def require_positive(**numbers: int | None) -> None:
    """Refuse numbers below 1, and what is no whole number."""
    for name, value in numbers.items():
        if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise ValueError(f"{name}={value!r} is no whole number; give 1 or more")
        if value is not None and value < 1:
            raise ValueError(f"{name}={value!r} is out of range; give 1 or more")
