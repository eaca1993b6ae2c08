"""Metrics and health of one run: written by the thread that learns, read by others."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from streaml1.training.observers import RunStart, SavedCheckpoint
from streaml1.training.report import Report
from streaml1.training.report.window import area_under

__all__ = ["Metric", "RunMetrics"]

RECENT_SECONDS = 60.0
"""Window of the recent metrics; it holds one snapshot per second."""

PROBE_SECONDS = 10.0
"""Minimum time between two connection checks of a broker."""

AUC_SECONDS = 5.0
"""Minimum time between two computations of the area under the ROC curve."""

MISSED_CHECKPOINTS = 3
"""Checkpoint intervals after which a missing checkpoint is unhealthy."""


class Metric(NamedTuple):
    """A metric: name, help text, and a value or values by partition."""

    name: str
    help: str
    value: Any


class Snapshot(NamedTuple):
    """Sums of the report at a time."""

    time: float
    examples: int
    weight: float
    loss: float
    constant: float
    output: float
    label: float


class RecentAuc:
    """Area under the ROC curve of the last examples of a report, recomputed now and then.

    Sorting a full window takes 0.1 seconds; any thread may ask.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._area: float | None = None
        self._ranked_at = 0
        self._due_at = -math.inf

    def of(self, report: Report) -> float | None:
        """Return the area; None if all labels are equal, or are no classes of two."""
        with self._lock:
            now, n = time.monotonic(), report.n_ranked
            # A later pass starts a new window, which is shorter.
            if n != self._ranked_at and (now >= self._due_at or n < self._ranked_at):
                recent = report.recent_predictions()
                self._area = None if recent is None else area_under(*recent)
                self._ranked_at, self._due_at = n, now + AUC_SECONDS
            return self._area


class RunMetrics:
    """Metrics of a run and its health.

    The learning thread calls `begin`, `learnt`, `rejected` and `saved`. All other methods may be
    called from any thread.

    Parameters
    ----------
    stalled_seconds
        Seconds without an example after which a run with unread records is unhealthy.
    """

    def __init__(self, stalled_seconds: float) -> None:
        self._stalled_seconds = stalled_seconds
        self._start: RunStart | None = None
        self._lock = threading.Lock()
        self._n_rejected = self._n_saved = 0
        self._checkpoint_bytes: int | None = None
        self._auc = RecentAuc()
        self._probed_at = -math.inf
        self._broker_fault: str | None = None

    # Called by the learning thread

    def begin(self, start: RunStart) -> None:
        """Start measuring a run."""
        self._first = self._now = _snapshot(start)
        self._recent = deque([self._now])
        self._active_at = self._saved_at = self._now.time
        self._n_lines, self._changes = len(start.report.lines), [0, 0]
        self._start = start

    def learnt(self) -> None:
        """Record that examples were learnt."""
        assert self._start is not None
        now = self._now = _snapshot(self._start)
        self._active_at = now.time
        if now.time - self._recent[-1].time >= 1.0:
            with self._lock:
                self._recent.append(now)
                while len(self._recent) > 1 and now.time - self._recent[1].time > RECENT_SECONDS:
                    self._recent.popleft()

    def restart(self) -> None:
        """Forget the last minute, because the sums of the report start over."""
        assert self._start is not None
        self._now = _snapshot(self._start)
        with self._lock:
            self._recent = deque([self._now])

    def rejected(self) -> None:
        """Record that an example was rejected."""
        self._n_rejected += 1
        self._active_at = time.monotonic()

    def saved(self, checkpoint: SavedCheckpoint) -> None:
        """Record that a checkpoint was written."""
        self._n_saved += 1
        self._saved_at = time.monotonic()
        self._checkpoint_bytes = checkpoint.size

    # Called by other threads

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics that are known; none before the run starts."""
        start = self._start
        if start is None:
            return
        now, first = self._now, self._first
        n_learned = now.examples - first.examples
        yield Metric("examples_total", "Examples learnt by this process.", n_learned)
        yield Metric("refused_total", "Examples rejected by this process.", self._n_rejected)
        yield Metric(
            "model_examples", "Examples learnt in total, including before a restart.", now.examples
        )
        yield from self._learning_metrics(now)
        # A model may be read while it learns.
        n_nonzero = getattr(start.learner, "n_nonzero", None)
        if n_nonzero is not None:
            yield Metric("nonzero_weights", "Non-zero weights of the model.", n_nonzero)
        added, dropped = self._feature_changes(start)
        yield Metric(
            "features_added_total", "Features that entered the model, counted at report lines.",
            added,
        )  # fmt: skip
        yield Metric(
            "features_dropped_total", "Features that left the model, counted at report lines.",
            dropped,
        )  # fmt: skip
        yield Metric(
            "idle_seconds", "Seconds since an example was learnt or rejected.", self._idle()
        )
        lag = self._lag()
        if lag is not None:
            yield Metric("lag", "Unread offsets of a partition.", lag)
        yield from self._checkpoint_metrics(start)
        healthy = float(not self._faults())
        yield Metric("healthy", "1 if /readyz succeeds, else 0.", healthy)
        for name, value in start.metrics():
            yield Metric(name, f"{name.removesuffix('_total').replace('_', ' ')}.", value)

    def _feature_changes(self, start: RunStart) -> list[int]:
        """Return the numbers of features added and dropped since this process started."""
        with self._lock:
            lines = start.report.lines[self._n_lines :]
            self._n_lines += len(lines)
            self._changes[0] += sum(line.born or 0 for line in lines)
            self._changes[1] += sum(line.died or 0 for line in lines)
            return [*self._changes]

    def _learning_metrics(self, now: Snapshot) -> Iterator[Metric]:
        assert self._start is not None
        report = self._start.report
        before = self._minute_ago()
        seconds = time.monotonic() - before.time
        rate = (now.examples - before.examples) / seconds if seconds > 0.0 else 0.0
        yield Metric("examples_per_second", "Throughput over the last minute.", rate)
        if now.weight > 0.0:
            yield Metric(
                "cumulative_loss", "Sum of the progressive losses of all examples.", now.loss
            )
            yield Metric("loss", "Mean progressive loss of all examples.", now.loss / now.weight)
            yield Metric(
                "constant_loss", "Mean progressive loss of the baseline.", now.constant / now.weight
            )
        if now.weight > 0.0 and report.loss == "logistic":
            yield Metric("observed_rate", "Share of the label True.", now.label / now.weight)
        auc = self._auc.of(report)
        if auc is not None:
            yield Metric("auc", "Area under the ROC curve, last 2^20 examples.", auc)
        weight = now.weight - before.weight
        if weight > 0.0:
            recent = (now.loss - before.loss) / weight
            yield Metric("recent_loss", "Mean progressive loss over the last minute.", recent)
        if now.label > 0.0:
            yield Metric(
                "calibration", "Mean prediction / observed rate of all examples.",
                now.output / now.label,
            )  # fmt: skip
        label = now.label - before.label
        if label > 0.0:
            recent = (now.output - before.output) / label
            yield Metric(
                "recent_calibration",
                "Mean prediction / observed rate, last minute.",
                recent,
            )

    def _checkpoint_metrics(self, start: RunStart) -> Iterator[Metric]:
        if start.checkpoint_seconds is None:
            return
        yield Metric(
            "checkpoint_age_seconds",
            "Seconds since a checkpoint was written, or since the run started.",
            time.monotonic() - self._saved_at,
        )
        yield Metric("checkpoints_total", "Checkpoints written by this process.", self._n_saved)
        if self._checkpoint_bytes is not None:
            yield Metric("checkpoint_bytes", "Size of the last checkpoint.", self._checkpoint_bytes)

    def _minute_ago(self) -> Snapshot:
        """Return the snapshot of a minute ago, or the oldest there is."""
        limit = time.monotonic() - RECENT_SECONDS
        with self._lock:
            recent = list(self._recent)
        return next((old for old in reversed(recent) if old.time <= limit), recent[0])

    def _idle(self) -> float:
        return time.monotonic() - self._active_at

    def _lag(self) -> dict[int, int] | None:
        """Return the number of unread offsets by partition; None if the source is not a topic."""
        lag = getattr(self._start and self._start.source, "lag", None)
        return None if lag is None else lag()

    # Health

    def health(self) -> dict[str, Any]:
        """Return what /health shows: a status (starting, green or red) and the reasons for red."""
        if self._start is None:
            return {"status": "starting", "reasons": []}
        faults = self._faults()
        lag = self._lag()
        return {
            "status": "red" if faults else "green",
            "reasons": faults,
            "examples": self._now.examples,
            "idle_seconds": round(self._idle(), 3),
            "lag": None if lag is None else sum(lag.values()),
        }

    def _faults(self) -> list[str]:
        found = [self._divergence(), self._stall(), self._missing_checkpoint()]
        return [fault for fault in found if fault is not None]

    def _divergence(self) -> str | None:
        if math.isfinite(self._now.loss):
            return None
        return "the loss is not finite: the model has diverged"

    def _stall(self) -> str | None:
        idle, lag = self._idle(), self._lag()
        if idle <= self._stalled_seconds or lag is None:
            return None
        unread = sum(lag.values())
        if unread:
            return f"no example was learnt for {idle:.0f} s, and {unread:,} records are unread"
        return self._unreachable_broker()

    def _unreachable_broker(self) -> str | None:
        """Check a broker, since a lag of zero may only mean that no broker answers."""
        assert self._start is not None
        is_reachable = getattr(self._start.source, "is_reachable", None)
        if is_reachable is None:
            return None
        with self._lock:
            is_due = time.monotonic() - self._probed_at >= PROBE_SECONDS
            if is_due:
                self._probed_at = time.monotonic()
        if is_due:
            try:
                self._broker_fault = None if is_reachable() else "no broker answers"
            except ValueError as error:
                self._broker_fault = str(error)
        return self._broker_fault

    def _missing_checkpoint(self) -> str | None:
        """Return a fault if examples arrived but no checkpoint was written in time."""
        assert self._start is not None
        interval = self._start.checkpoint_seconds
        if interval is None:
            return None
        unsaved = self._active_at - self._saved_at
        if unsaved <= MISSED_CHECKPOINTS * max(interval, 1.0):
            return None
        return f"{unsaved:.0f} s of examples are in no checkpoint"


def _snapshot(start: RunStart) -> Snapshot:
    report = start.report
    return Snapshot(time.monotonic(), report.examples, *report.sums, *report.calibration_sums)
