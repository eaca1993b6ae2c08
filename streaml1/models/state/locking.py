"""Who may change a model's state, and copies of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import numpy as np

from streaml1.features.interactions import Interactions
from streaml1.features.ngrams import NGrams
from streaml1.models.state.change_tracking import ChangeTracker
from streaml1.models.state.distinct_count import DistinctCounter
from streaml1.models.state.predictor import Predictor

__all__ = ["LockedState"]


class LockedState(Predictor):
    """A state that one thread at a time changes, under `lock`.

    A dict that is walked needs no lock of its own, as the kernel holds the interpreter's. Whoever
    does more under the lock than call one kernel closes the frame, so that no thread walks
    meanwhile.
    """

    def __init__(
        self,
        rule: Any,
        record: Any,
        names: Any,
        crosses: Interactions | None = None,
        words: NGrams | None = None,
    ) -> None:
        super().__init__(rule, record, names, crosses, words)
        self.forgotten: DistinctCounter | None = None
        self._start()

    def _start(self) -> None:
        self.lock = threading.RLock()
        self.trackers: WeakSet[ChangeTracker] = WeakSet()
        with _FORKING:
            _STATES.add(self)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """No other thread changes the state, or reads it half-way."""
        with self.lock:
            was_open = self._context is not None and self._context.close()
            try:
                yield
            finally:
                if was_open and self._context is not None:
                    self._context.open()

    def _drop_closed_context(self) -> None:
        """Do without a frame that an interrupt left closed."""
        with self.lock:
            if self._context is not None and not self._context.is_open:
                self._context = None

    def _set_rule(self, rule: Any) -> None:
        if rule is not self.rule:
            self._context = None
            self.rule = rule

    # To go back to

    def _backup(self) -> Any:
        """All that a batch may change, to go back to."""
        rule = type(self.rule)(*(a.copy() for a in self.rule))
        tracked = [(watch, watch.state) for watch in self.trackers]
        return rule, self.online.copy(), self.vocabulary, self.forgotten, tracked

    def _restore_backup(self, before: Any) -> None:
        rule, record, names, forgotten, tracked = before
        self._context = None
        self.rule, self.vocabulary, self.forgotten = rule, names, forgotten
        self._set_record(record)
        for watch, state in tracked:
            watch.state = state

    # Copies: as small as what is alive

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """The state as of now: what is quick to copy is copied, the rest is done when called."""
        with self.exclusive():
            names = self.vocabulary.snapshot()
            state = self._snapshot(names)
            gone = np.flatnonzero(self.rule.seen_mask() & ~self.rule.live_mask())
            forgotten = None if self.forgotten is None else self.forgotten.copy()

        def told() -> dict[str, Any]:
            known = forgotten
            if len(gone):
                known = DistinctCounter() if known is None else known.copy()
                known.add(names.hashes(gone))
            return {**state(), "forgotten": None if known is None else known.registers}

        return told

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        registers = state["forgotten"]
        self.forgotten = None if registers is None else DistinctCounter(registers)
        self._start()

    def frozen(self) -> Predictor:
        """A copy that only predicts, as small as what is alive."""
        with self.exclusive():
            state = Predictor.snapshot(self)()
        reader = Predictor.__new__(Predictor)
        reader.__setstate__(state)
        return reader


# A process that forks while another thread learns would have a copy half-way, and its lock held.

_STATES: WeakSet[LockedState] = WeakSet()
_FORKING = threading.RLock()
_HELD: list[Callable[[], None]] = []


def _before_fork() -> None:
    _FORKING.acquire()
    for engine in sorted(_STATES, key=id):
        engine.lock.acquire()
        _HELD.append(engine.lock.release)


def _after_fork() -> None:
    while _HELD:
        _HELD.pop()()
    _FORKING.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
