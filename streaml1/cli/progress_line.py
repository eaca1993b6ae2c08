"""The progress of a run: one line on standard error, which is rewritten in place."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

__all__ = ["ProgressLine"]

ERASE = "\r\x1b[2K"
INTERVAL = 0.2
"""Seconds between two updates: reading a line takes longer."""


class ProgressLine:
    """Examples, percent, examples per second and remaining time of a run.

    Parameters
    ----------
    total
        The number of examples of all passes, if known.
    passes
        The number of passes over the source.
    fraction_read
        Returns the share of the file that was read in this pass, or None if it is not known.
    clock
        Returns the time in seconds.
    """

    def __init__(
        self,
        total: int | None = None,
        passes: int = 1,
        fraction_read: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._passes = passes
        self._fraction_read = fraction_read
        self._clock = clock
        self._examples = 0
        self._begun_passes = 0
        # Time, examples and fraction of the first update: a resumed run does not begin at 0.
        self._first: tuple[float, int, float | None] | None = None
        self._due = 0.0
        self._is_drawn = False

    def begin_pass(self) -> None:
        """Count a pass that begins."""
        self._begun_passes += 1

    def advance(self, examples: int) -> None:
        """Count examples, and draw the line if it is due."""
        self._examples += examples
        now = self._clock()
        if self._first is None:
            self._first = now, self._examples, self._fraction()
        if now >= self._due:
            self._due = now + INTERVAL
            self._is_drawn = True
            _write(f"{ERASE}{self.text(now)[: _width() - 1]}")

    def clear(self) -> None:
        """Erase the line; the next update draws it again."""
        if self._is_drawn:
            self._is_drawn, self._due = False, 0.0
            _write(ERASE)

    def text(self, now: float) -> str:
        """Return the line at a time."""
        assert self._first is not None
        began, first_examples, first = self._first
        fraction, seconds = self._fraction(), now - began
        parts = [f"{self._examples:,} examples"]
        if fraction is not None:
            parts.append(f"{fraction:.0%}")
        if seconds > 0.0 and self._examples > first_examples:
            parts.append(f"{(self._examples - first_examples) / seconds:,.0f} per second")
            if fraction is not None and first is not None and fraction > first:
                parts.append(f"{_duration(seconds * (1.0 - fraction) / (fraction - first))} left")
        return "  ".join(parts)

    def _fraction(self) -> float | None:
        """Return the share of the run that is done, or None."""
        shares = []
        if self._total:
            shares.append(self._examples / self._total)
        read = self._fraction_read()
        if read is not None:
            shares.append((max(0, self._begun_passes - 1) + read) / self._passes)
        return min(1.0, max(shares)) if shares else None


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _write(text: str) -> None:
    """Write to standard error; a failure to write is not an error."""
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
