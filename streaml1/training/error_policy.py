"""What happens to a rejected example: stop the run, or log it and skip it."""

from __future__ import annotations

import heapq
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from streaml1.core.logging import event
from streaml1.core.named_options import named_option
from streaml1.core.rows import BadExample
from streaml1.sources.kafka.records import Origin
from streaml1.sources.source import Lost
from streaml1.training.observers import Observer, Observers, Rejected
from streaml1.training.rejection_reasons import RejectionReasons

__all__ = ["LOGGED", "ErrorPolicy", "SkippedLine"]

logger = logging.getLogger("streaml1")

LOGGED = 5
"""Rejected examples that are logged one by one. With the logger at INFO all of them are."""

_MISSING = re.compile(
    "the label ('.*' )?is (missing|null)|null is not an example"
    "|(column '.*': )?weight must be a number"
)
"""Reasons that are common in real data."""


class SkippedLine(NamedTuple):
    """Number and location of a skipped example."""

    number: int
    place: str


class ErrorPolicy:
    """Callable that handles rejected examples; sources and batches call it with each of them.

    Parameters
    ----------
    bad
        ``"fail"`` raises at the first rejected example; ``"skip"`` counts it and continues.
    observers
        Observers to notify of each skipped example.

    Attributes
    ----------
    skip : bool
        Whether rejected examples are skipped.
    count : int
        Examples skipped so far, including those before a resume.
    skipped_here : int
        Examples skipped by this process.
    reasons : RejectionReasons
        Why this process has skipped examples.
    skipped_lines : list of SkippedLine or None
        Heap of the skipped examples, if the caller wants it and has made it a list.

    Raises
    ------
    ValueError
        If `bad` is neither.
    """

    def __init__(self, bad: str, observers: Observers | Iterable[Observer] = ()) -> None:
        if bad not in ("fail", "skip"):
            raise ValueError(f'bad must be "fail" or "skip", got {bad!r}')
        self.skip = bad == "skip"
        self.count = 0
        self.skipped_here = 0
        self.reasons = RejectionReasons()
        self.skipped_lines: list[SkippedLine] | None = None
        self.observers = Observers.of(observers)

    def __call__(
        self, place: str, reason: str, number: int | None = None, origin: Origin | None = None
    ) -> None:
        """Reject an example.

        Parameters
        ----------
        place
            Location of the example.
        reason
            One sentence.
        number
            Number of the example in this pass; by default what follows the last colon of `place`.
        origin
            Coordinates of its record in a topic.

        Raises
        ------
        BadExample
            If rejected examples are not skipped.
        """
        if not self.skip:
            remedy = ""
            if _MISSING.match(reason) and ";" not in reason:
                remedy = f"; to leave such examples out, use {named_option('bad', 'skip')}"
            raise BadExample(f"{place}: {reason}{remedy}")
        self.count += 1
        self.skipped_here += 1
        self.reasons.add(place, reason)
        if self.skipped_here <= LOGGED or _logs_all():
            extra = event("example_refused", place=place, reason=reason)
            logger.warning("skipped %s: %s", place, reason, extra=extra)
        line = int(place.rpartition(":")[2]) if number is None else number
        if self.skipped_lines is not None:
            heapq.heappush(self.skipped_lines, SkippedLine(line, place))
        self.observers.on_rejected(Rejected(place, reason, origin, line))

    def log_total(self) -> None:
        """Log how many examples this process has skipped, if not all were logged one by one."""
        if self.skipped_here <= LOGGED:
            return
        extra = event("examples_refused", refused=self.skipped_here)
        if _logs_all():
            logger.warning("skipped %d in all", self.skipped_here, extra=extra)
        else:
            more = self.skipped_here - LOGGED
            logger.warning("skipped %d more, %d in all", more, self.skipped_here, extra=extra)

    def log_reasons(self) -> None:
        """Log how many examples this process has skipped for each reason, if not all were logged.

        The report of a run holds the reasons, too; this is for runs that have none.
        """
        if self.skipped_here <= LOGGED:
            return
        for line in self.reasons.lines():
            logger.warning("%s", line, extra=event("refusal_reason"))

    @contextmanager
    def totals_at_failure(self) -> Iterator[None]:
        """Log what was skipped if the data turn out to be unfit, since no report will say so."""
        try:
            yield
        except Lost:
            self.log_total()
            self.log_reasons()
            raise


def _logs_all() -> bool:
    """Return whether the log shows more than warnings, as ``--log json`` does."""
    return logger.isEnabledFor(logging.INFO)
