"""A run as events in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streaml1.core.logging import event
from streaml1.training.observers import Out
from streaml1.training.report import Line, Report

if TYPE_CHECKING:
    from streaml1.training.run import Run

__all__ = ["RunLog"]

logger = logging.getLogger("streaml1")


class RunLog(Out):
    """Logs, as information, that a run began, saved, told a line and ended."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._flushed = 0.0

    def begin(self, run: Run) -> None:
        """Log where the run begins."""
        self._run = run
        examples = run.report.examples
        where = "goes on" if examples else "begins"
        logger.info(
            "the run %s: %s", where, run.report.title,
            extra=event("run_begins", source=run.source.name, examples=examples,
                        passes_done=run.turn, resumed=examples > 0),
        )  # fmt: skip

    def beside(self, show: Callable[[Line], object]) -> Callable[[Line], None]:
        """What shows a line of the report and logs it."""

        def told(line: Line) -> None:
            show(line)
            self.line(line)

        return told

    def line(self, line: Line) -> None:
        """Log a line of the report."""
        fields = {name: value for name, value in line.as_dict().items() if value is not None}
        logger.info("%d examples", line.examples, extra=event("line", **fields))

    def flush(self) -> None:
        """A checkpoint is about to be written: take the time."""
        self._flushed = time.perf_counter()

    def saved(self) -> None:
        """Log the checkpoint; the first may be there before the run begins."""
        if self._run is None:
            return
        store: Any = self._run.store
        fields = {
            "folder": store.folder,
            "bytes": store.size,
            "seconds": round(time.perf_counter() - self._flushed, 6),
            "examples": self._run.report.examples,
        }
        logger.info("checkpoint saved", extra=event("checkpoint_saved", **fields))

    def end(self, report: Report, signal: int = 0) -> None:
        """Log how the run ended."""
        last = report.lines[-1] if report.lines else None
        logger.info(
            "the run ended: %s", report.summary(),
            extra=event("run_ends", examples=report.examples, refused=report.refused,
                        loss=last and last.loss, signal=signal or None),
        )  # fmt: skip
