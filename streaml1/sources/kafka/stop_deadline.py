"""How long a run that has been stopped still waits for brokers to take records."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["STOP_SECONDS", "StopDeadline"]

STOP_SECONDS = 3.0
"""After a stop, records are given up once no broker has taken any for this long."""


class StopDeadline:
    """Limit on waits for brokers after a stop: `STOP_SECONDS` without progress.

    Each wait has its own `STOP_SECONDS`, until one has passed in vain. After that all waits end at
    once, unless the brokers make progress again.
    """

    def __init__(self) -> None:
        self._stopped: Callable[[], bool] = lambda: False
        self._since: float | None = None  # time of the stop, or of the last progress after it
        self._exhausted = False

    def set_stop(self, stopped: Callable[[], bool]) -> None:
        """Set the function that returns whether the run has been stopped."""
        self._stopped = stopped

    def start_wait(self) -> None:
        """Start a new wait."""
        if not self._exhausted:
            self.on_progress()

    def on_progress(self) -> None:
        """Record that a broker has taken something."""
        self._exhausted = False
        if self._since is not None:
            self._since = time.monotonic()

    @property
    def is_stopping(self) -> bool:
        """Whether the run has been stopped."""
        return self._since is not None or self._stopped()

    def is_exhausted(self) -> bool:
        """Return whether the run was stopped, and `STOP_SECONDS` have passed without progress."""
        if self._since is None and self._stopped():
            self._since = time.monotonic()
        if self._since is not None and time.monotonic() - self._since >= STOP_SECONDS:
            self._exhausted = True
        return self._exhausted
