"""Observer that logs the events of a run at INFO."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from streaml1.core.logging import event
from streaml1.training.observers import Observer, RunStart, SavedCheckpoint
from streaml1.training.report import Line, Report

__all__ = ["RunLog"]

logger = logging.getLogger("streaml1")


class RunLog(Observer):
    """Logs the start of a run, its checkpoints, the lines of its report, and its end."""

    def __init__(self) -> None:
        self._started = False
        self._flushed_at = 0.0

    def on_start(self, start: RunStart) -> None:
        """Log where the run starts."""
        self._started = True
        examples = start.report.examples
        verb = "resumes" if examples else "begins"
        logger.info(
            "the run %s: %s", verb, start.report.title,
            extra=event("run_begins", source=start.source.name, examples=examples,
                        passes_done=start.passes_done, resumed=examples > 0),
        )  # fmt: skip

    def and_log(self, show: Callable[[Line], object]) -> Callable[[Line], None]:
        """Return a function that shows a line of the report and logs it."""

        def show_and_log(line: Line) -> None:
            show(line)
            self.log_line(line)

        return show_and_log

    def log_line(self, line: Line) -> None:
        """Log a line of the report."""
        fields = {name: v for name, v in line.as_dict().items() if not _is_absent(v)}
        logger.info("%d examples", line.examples, extra=event("line", **fields))

    def flush(self) -> None:
        """Note the time at which a checkpoint starts to be written."""
        self._flushed_at = time.perf_counter()

    def on_checkpoint(self, checkpoint: SavedCheckpoint) -> None:
        """Log a checkpoint, unless it is the first, which comes before the run starts."""
        if not self._started:
            return
        fields = {
            "folder": checkpoint.directory,
            "bytes": checkpoint.size,
            "seconds": round(time.perf_counter() - self._flushed_at, 6),
            "examples": checkpoint.examples,
        }
        logger.info("checkpoint saved", extra=event("checkpoint_saved", **fields))

    def log_end(self, report: Report, signal: int = 0) -> None:
        """Log how the run ended; `signal` is the number of the signal that stopped it, or 0."""
        last = report.lines[-1] if report.lines else None
        logger.info(
            "the run ended: %s", report.summary(),
            extra=event("run_ends", examples=report.examples, refused=report.rejected,
                        loss=last and last.loss, signal=signal or None),
        )  # fmt: skip


def _is_absent(value: object) -> bool:
    """Return whether a value is None or an empty list."""
    return value is None or (isinstance(value, list) and not value)
