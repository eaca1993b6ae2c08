"""What is measured of a run: written where it learns, read from other threads."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from streaml1.training.run import Run

__all__ = ["Gauges"]

RECENT_SECONDS = 60.0
"""What is recent: a moment of it is kept each second."""

PROBE_SECONDS = 10.0
"""How often a broker is asked whether it is there, at most."""

INTERVALS = 3
"""How many intervals of checkpoints may pass without one."""

Number = tuple[str, str, Any]
"""A name, what it means, and a value, or values by partition."""


class Moment(NamedTuple):
    """Where a run was at a time."""

    time: float
    examples: int
    weight: float
    loss: float
    constant: float


class Gauges:
    """The numbers of a run, and whether it is well.

    Parameters
    ----------
    stalled_seconds
        How long nothing may move while there are records to be read.
    """

    def __init__(self, stalled_seconds: float) -> None:
        self._stalled = stalled_seconds
        self._run: Run | None = None
        self._lock = threading.Lock()
        self._refused = self._saves = 0
        self._asked = -math.inf
        self._reachable: str | None = None

    # Where the run learns

    def begin(self, run: Run) -> None:
        """The run begins."""
        self._first = self._now = self._moment(run)
        self._recent = deque([self._now])
        self._seen = self._saved = self._now.time
        self._run = run

    def moved(self) -> None:
        """Some examples were learnt."""
        assert self._run is not None
        now = self._now = self._moment(self._run)
        self._seen = now.time
        if now.time - self._recent[-1].time >= 1.0:
            with self._lock:
                self._recent.append(now)
                while len(self._recent) > 1 and now.time - self._recent[1].time > RECENT_SECONDS:
                    self._recent.popleft()

    def refuse(self) -> None:
        """An example was refused."""
        self._refused += 1
        self._seen = time.monotonic()

    def saved(self) -> None:
        """A checkpoint was written."""
        self._saves += 1
        self._saved = time.monotonic()

    @staticmethod
    def _moment(run: Run) -> Moment:
        return Moment(time.monotonic(), run.report.examples, *run.report.sums)

    # From other threads

    def numbers(self) -> Iterator[Number]:
        """All that is known by now."""
        run = self._run
        if run is None:
            return
        now, first = self._now, self._first
        yield ("examples_total", "Examples learnt by this process.", now.examples - first.examples)
        yield ("refused_total", "Examples refused by this process.", self._refused)
        yield ("model_examples", "Examples learnt in all, before a restart too.", now.examples)
        yield from self._of_learning(now)
        nonzero = getattr(run.learner, "n_nonzero", None)  # models may be read as they learn
        if nonzero is not None:
            yield ("nonzero_weights", "Weights that are not zero.", nonzero)
        yield ("idle_seconds", "Since an example was learnt or refused.", self._idle())
        lag = self._lag()
        if lag is not None:
            yield ("lag", "Offsets of a partition that are left to be read.", lag)
        if run.store is not None:
            about = "Since a checkpoint was written, or the run began."
            yield ("checkpoint_age_seconds", about, time.monotonic() - self._saved)
            yield ("checkpoints_total", "Checkpoints written by this process.", self._saves)
            if run.store.size is not None:
                yield ("checkpoint_bytes", "Size of the last checkpoint.", run.store.size)
        yield ("healthy", "1 where /health is green, else 0.", float(not self._faults()))
        for one in (run, *run.outs):
            told = one.numbers() if hasattr(one, "numbers") else {}
            for name, value in told.items():
                yield (name, f"{name.removesuffix('_total').replace('_', ' ')}.", value)

    def _of_learning(self, now: Moment) -> Iterator[Number]:
        before = self._before()
        seconds = time.monotonic() - before.time
        rate = (now.examples - before.examples) / seconds if seconds > 0.0 else 0.0
        yield ("examples_per_second", "Over the last minute.", rate)
        if now.weight > 0.0:
            yield ("loss", "Mean progressive loss of all examples.", now.loss / now.weight)
            about = "Mean loss of the progressive baseline."
            yield ("constant_loss", about, now.constant / now.weight)
        recent = self._recent_loss(now, before)
        if recent is not None:
            yield ("recent_loss", "Mean progressive loss over the last minute.", recent)

    def _before(self) -> Moment:
        """Where the run was a minute ago, or when it began."""
        limit = time.monotonic() - RECENT_SECONDS
        with self._lock:
            moments = list(self._recent)
        return next((one for one in reversed(moments) if one.time <= limit), moments[0])

    @staticmethod
    def _recent_loss(now: Moment, before: Moment) -> float | None:
        weight = now.weight - before.weight
        return (now.loss - before.loss) / weight if weight > 0.0 else None

    def _idle(self) -> float:
        return time.monotonic() - self._seen

    def _lag(self) -> dict[int, int] | None:
        lag = getattr(self._run and self._run.source, "lag", None)
        return None if lag is None else lag()

    # Health

    def health(self) -> dict[str, Any]:
        """What /health says: its status is starting, green or red, with the reasons."""
        if self._run is None:
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
        found = [self._diverged(), self._stands_still(), self._is_not_saved()]
        return [one for one in found if one is not None]

    def _diverged(self) -> str | None:
        now = self._now
        if math.isfinite(now.loss):
            return None
        return "the loss is not finite: the model has diverged"

    def _stands_still(self) -> str | None:
        idle, lag = self._idle(), self._lag()
        if idle <= self._stalled or lag is None:
            return None
        left = sum(lag.values())
        if left:
            return f"nothing was learnt for {idle:.0f} s, and {left:,} records are left to be read"
        return self._is_away()

    def _is_away(self) -> str | None:
        """Ask for a broker where no news may mean that there is none."""
        assert self._run is not None
        ask = getattr(self._run.source, "is_reachable", None)
        if ask is None:
            return None
        with self._lock:
            due = time.monotonic() - self._asked >= PROBE_SECONDS
            if due:
                self._asked = time.monotonic()
        if due:
            try:
                self._reachable = None if ask() else "no broker answers"
            except ValueError as error:
                self._reachable = str(error)
        return self._reachable

    def _is_not_saved(self) -> str | None:
        """A checkpoint that was due as examples came, and was not written."""
        assert self._run is not None
        if self._run.store is None:
            return None
        late = self._seen - self._saved
        if late <= INTERVALS * max(self._run.store.seconds, 1.0):
            return None
        return f"{late:.0f} s of examples are in no checkpoint"
