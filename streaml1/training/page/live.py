"""The observer that collects what a page shows while a run learns."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import orjson

from streaml1.core.atomic_write import open_atomic
from streaml1.training.drift import Drift
from streaml1.training.metrics_server import MetricsObserver
from streaml1.training.observers import Batch, Observer, Rejected, RunStart, SavedCheckpoint
from streaml1.training.page.assets import single_file
from streaml1.training.page.history import (
    LossHistory,
    Mark,
    Point,
    columns_of_lines,
    nonzeros_of_lines,
)
from streaml1.training.page.rejections import RejectionCounts
from streaml1.training.page.routes import Busy, join_sections
from streaml1.training.page.sections import (
    Section,
    explanation_section,
    loss_section,
    reliability_section,
    tiles_section,
)
from streaml1.training.page.weights import WeightHistory, WeightsCopy, copy_weights

__all__ = ["LivePage"]

REFRESH_SECONDS = 0.9
RELIABILITY_SECONDS = 10.0
"""Sorting a full window of predictions takes 0.2 seconds."""

BLOCK_SECONDS = 1.0
"""Time for the thread that learns to reach the end of a block."""

MAX_WEIGHT_SHARE = 0.02
"""Share of a core that copying and comparing weights may take."""


class LivePage(Observer):
    """Collects what a page shows of a run.

    Weights are read only if a page is open: by the thread that learns, at the end of a block. If no
    block ends in time, as while the source waits, the thread that answers a request reads them
    under the lock of the model. These threads compute all else.

    Parameters
    ----------
    metrics
        The observer that measures the run; it comes before this one among the observers.
    keeps_weights
        Whether to copy the weights at each line of the report even if no page is open, for a page
        that is written at the end.
    """

    def __init__(self, metrics: MetricsObserver, keeps_weights: bool = False) -> None:
        self._metrics = metrics.run_metrics
        self._health = metrics.run_metrics.health
        self._keeps_weights = keeps_weights
        self._start: RunStart | None = None
        self._is_ended = self._is_closed = False
        self._marks: list[Mark] = []
        self._losses = LossHistory()
        self._rejections = RejectionCounts()
        self._n_published = 0.0
        self._n_lines = 0
        self._weights = WeightHistory()
        self._copy: WeightsCopy | None = None
        self._copy_due_at = 0.0
        self._n_copied = -1
        self._n_watching = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._sections: dict[str, bytes] = {}
        self._refreshed_at = self._reliability_at = -RELIABILITY_SECONDS
        self._n_ranked = -1

    def __enter__(self) -> LivePage:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self, seconds: float = 1.0) -> None:
        """Wait until open pages have the final state, at most for some time."""
        self._is_ended = self._is_closed = True
        self._show_all()
        deadline = time.monotonic() + seconds
        while self._n_watching and time.monotonic() < deadline:
            time.sleep(0.01)

    # Called by the thread that learns

    def on_start(self, start: RunStart) -> None:
        """Start to collect."""
        if start.report.examples:
            self._marks.append(Mark("restart", start.report.examples))
        self._n_first_lines = self._n_lines = len(start.report.lines)
        self._start = start

    def on_batch(self, batch: Batch) -> None:
        """Record the losses now and then."""
        now = time.monotonic()
        assert self._start is not None
        if self._losses.is_due(now, self._start.report.examples):
            self._losses.add(now, self._point())
            self._mark_publications()
        self._keep_weights()

    def _mark_publications(self) -> None:
        """Mark the publications since the last call; their observer counts them."""
        assert self._start is not None
        published = dict(self._start.metrics()).get("publications_total", 0.0)
        mark = Mark("publication", self._start.report.examples)
        self._marks += [mark] * round(published - self._n_published)
        self._n_published = published

    def _point(self) -> Point:
        assert self._start is not None
        report = self._start.report
        return Point(report.examples, report.pass_number, *report.sums)

    def on_pass_start(self) -> None:
        """Mark a further pass."""
        assert self._start is not None
        self._marks.append(Mark("pass", self._start.report.examples))

    def on_drift(self, drift: Drift, action: str) -> None:
        """Mark where the loss rose."""
        self._marks.append(Mark("drift", drift.since))

    def on_rejected(self, rejected: Rejected) -> None:
        """Count a rejected example."""
        self._rejections.add(rejected.place, rejected.reason)

    def on_checkpoint(self, checkpoint: SavedCheckpoint) -> None:
        """Mark a checkpoint."""
        if self._start is not None:
            self._marks.append(Mark("checkpoint", checkpoint.examples))

    def on_block_end(self) -> None:
        """Carry out the requests of pages."""
        if self._n_watching:
            now = time.monotonic()
            if now >= self._copy_due_at:
                self._copy_weights()
        self._keep_weights()
        self._do_jobs()

    def on_end(self) -> None:
        """Copy the final weights. The last line of the report comes after this."""
        if self._n_watching or self._keeps_weights:
            self._copy_weights()
        self._is_ended = True
        self._show_all()
        self._do_jobs()

    def _show_all(self) -> None:
        """Let open pages show the current state at once."""
        self._refreshed_at = self._reliability_at = -RELIABILITY_SECONDS
        with self._changed:
            self._changed.notify_all()

    def _keep_weights(self) -> None:
        """Keep the weights after a line of the report, for the page that is written at the end."""
        assert self._start is not None
        n_lines = len(self._start.report.lines)
        if self._keeps_weights and n_lines > self._n_lines:
            self._n_lines = n_lines
            self._copy_weights()
            with self._lock:
                self._add_weights()

    def _copy_weights(self) -> None:
        assert self._start is not None
        begin = time.monotonic()
        self._n_copied = self._start.report.examples
        self._copy = copy_weights(self._start.learner)
        self._delay_copy(begin)

    def _delay_copy(self, begin: float) -> None:
        """Delay the next copy by the share of a core that the last one may take."""
        now = time.monotonic()
        delay = max(1.0, (now - begin) / MAX_WEIGHT_SHARE)
        self._copy_due_at = max(self._copy_due_at, now) + delay

    def _do_jobs(self) -> None:
        while not self._jobs.empty():
            try:
                future, job = self._jobs.get_nowait()
            except Empty:
                return
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except Exception as error:
                    future.set_exception(error)

    # Called by the threads that answer requests

    def sections(self) -> Mapping[str, bytes]:
        """Return the current sections as JSON, by name."""
        with self._lock:
            now = time.monotonic()
            if now - self._refreshed_at >= REFRESH_SECONDS:
                self._refreshed_at = now
                self._refresh(now)
            return dict(self._sections)

    def is_final(self) -> bool:
        """Return whether the page is closed."""
        return self._is_closed

    def wait(self, seconds: float) -> None:
        """Wait until the run ends or the page is closed, at most for some time."""
        with self._changed:
            if not self._is_closed:
                self._changed.wait(seconds)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Copy weights meanwhile."""
        with self._lock:
            self._n_watching += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_watching -= 1

    def search(self, prefix: str, k: int) -> list[dict[str, Any]]:
        """Return the largest weights of the names with a prefix."""
        start = self._start
        if start is None:
            raise Busy
        copy = self._ask(lambda: copy_weights(start.learner))
        return [] if copy is None else copy.search(prefix, k)

    def explain(self, x: dict[Any, Any]) -> Section:
        """Return the contributions of the features of an example."""
        start = self._start
        if start is None:
            raise Busy
        if start.model is not start.learner or not hasattr(start.learner, "explain_one"):
            raise ValueError("this model has no explanations; they need a model of streaml1")
        section: Section = self._ask(lambda: explanation_section(start.learner, x))
        return section

    def _ask(self, job: Callable[[], Any]) -> Any:
        """Return what a function returns at the end of a block, or soon if none ends."""
        if self._is_ended:
            return job()  # nothing is learnt any more
        future: Future[Any] = Future()
        self._jobs.put((future, job))
        with suppress(FutureTimeoutError):
            return future.result(BLOCK_SECONDS)
        if future.cancel():
            return job()
        return future.result()  # the thread that learns has just started it

    def write(self, path: str | Path) -> None:
        """Write the page as one HTML file, atomically."""
        self._refreshed_at = -RELIABILITY_SECONDS
        with open_atomic(path) as file:
            file.write(single_file(join_sections(self.sections())))

    # Sections

    def _refresh(self, now: float) -> None:
        values = {metric.name: metric.value for metric in self._metrics.collect()}
        start = self._start
        lines = [] if start is None else start.report.lines
        last = lines[-1] if self._is_ended and lines else None
        sections: dict[str, Section] = {"tiles": tiles_section(values, self._health(), last)}
        if start is not None:
            is_overdue = now > self._copy_due_at + BLOCK_SECONDS
            if self._n_watching and is_overdue and start.report.examples != self._n_copied:
                self._copy_weights()
            self._add_weights()
            if self._is_ended:
                self._mark_publications()  # the last one comes after `on_end`
            loss_name = start.report.loss_name
            sections |= {
                "run": {
                    "title": start.report.title, "live": not self._is_ended,
                    "loss_name": loss_name, "explains": start.model is start.learner,
                },
                "loss": loss_section(self._loss_columns(start), self._marks, loss_name),
                "nonzeros": self._nonzeros(start, values),
                "weights": self._weights.shown,
                "stream": self._stream_section(start, values),
            }  # fmt: skip
            reliability = self._reliability(start, now)
            if reliability is not None:
                sections["reliability"] = reliability
        encoded = {name: orjson.dumps(section) for name, section in sections.items()}
        self._sections = {**self._sections, **encoded}

    def _add_weights(self) -> None:
        copy = self._copy
        if copy is not None and copy is not self._weights.latest:
            begin = time.monotonic()
            self._weights.add(copy)
            self._delay_copy(begin)

    def _loss_columns(self, start: RunStart) -> dict[str, list[Any]]:
        """Return the recorded losses, after the lines of earlier processes; else all lines."""
        lines = start.report.lines
        if len(self._losses) <= len(lines) - self._n_first_lines:
            return columns_of_lines(lines)
        recorded = self._losses.columns(self._point())
        earlier = columns_of_lines(lines[: self._n_first_lines])
        return {name: column + recorded[name] for name, column in earlier.items()}

    def _nonzeros(self, start: RunStart, values: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return the non-zero weights in all lines, and now."""
        columns = nonzeros_of_lines(start.report.lines)
        now, n_nonzero = values["model_examples"], values.get("nonzero_weights")
        if n_nonzero is not None and now > (columns["x"] or [0])[-1]:
            for name, value in {"x": now, "nonzero": n_nonzero}.items():
                columns[name].append(value)
            for name in ("added", "dropped"):  # they are counted at lines
                columns[name].append(None)
        return columns

    def _reliability(self, start: RunStart, now: float) -> Section | None:
        """Return the reliability if it is due and has changed."""
        report = start.report
        is_due = now - self._reliability_at >= RELIABILITY_SECONDS
        if not is_due or report.loss != "logistic" or report.n_ranked == self._n_ranked:
            return None
        recent = report.recent_predictions()
        self._n_ranked, self._reliability_at = report.n_ranked, now
        return None if recent is None else reliability_section(*recent)

    def _stream_section(self, start: RunStart, values: Mapping[str, Any]) -> Section:
        lag = values.get("lag")
        figures = dict(start.metrics())
        return {
            "lag": None if lag is None else sorted(lag.items()),
            "rejected": self._rejections.section(),
            "waiting": figures.pop("waiting", None),
            "figures": sorted(figures.items()),
        }
