"""Exclusive access to a model's state, and copies of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import numpy as np

from streaml1.features.interactions import Interactions
from streaml1.features.ngrams import NGrams
from streaml1.features.vocabulary import AnyVocabulary
from streaml1.models.state.change_tracking import ChangeTracker
from streaml1.models.state.distinct_count import DistinctCounter
from streaml1.models.state.predictor import Predictor
from streaml1.optim.update_rule import publish, published_view

__all__ = ["LockedState", "published"]


class LockedState(Predictor):
    """A state that one thread at a time changes, under `lock`.

    A kernel that reads a dict holds the interpreter lock and needs no other. Code that does more
    than call one kernel uses `exclusive`, which also closes the kernel context: meanwhile no
    thread can enter a dict kernel.
    """

    def __init__(
        self,
        rule: Any,
        record: Any,
        vocabulary: AnyVocabulary,
        interactions: Interactions | None = None,
        ngrams: NGrams | None = None,
        offset: Hashable | None = None,
    ) -> None:
        super().__init__(rule, record, vocabulary, interactions, ngrams, offset)
        self.forgotten: DistinctCounter | None = None
        self._start()

    def _start(self) -> None:
        self.lock = threading.RLock()
        self.trackers: WeakSet[ChangeTracker] = WeakSet()
        with _FORK_LOCK:
            _STATES.add(self)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other threads from changing the state or reading it half-changed."""
        with self.lock:
            was_open = self._context is not None and self._context.close()
            try:
                yield
            finally:
                if was_open and self._context is not None:
                    self._context.open()

    def _drop_closed_context(self) -> None:
        """Discard a kernel context that an interrupt left closed."""
        with self.lock:
            if self._context is not None and not self._context.is_open:
                self._context = None

    def _set_rule(self, rule: Any) -> None:
        if rule is not self.rule:
            self._context = None
            self.rule = rule

    # Backups

    def _backup(self) -> Any:
        """Return copies of everything that a batch may change, for `_restore_backup`."""
        rule = type(self.rule)(*(a.copy() for a in self.rule))
        tracked = [(tracker, tracker.state) for tracker in self.trackers]
        return rule, self.online.copy(), self.vocabulary, self.forgotten, tracked

    def _restore_backup(self, backup: Any) -> None:
        rule, record, vocabulary, forgotten, tracked = backup
        self._context = None
        self.rule, self.vocabulary, self.forgotten = rule, vocabulary, forgotten
        self._set_record(record)
        for tracker, state in tracked:
            tracker.state = state

    # Copies, without released and zero weights

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """Copy the state cheaply; the returned function finishes the work outside the lock."""
        with self.exclusive():
            vocabulary = self.vocabulary.snapshot()
            state = self._snapshot(vocabulary)
            gone = np.flatnonzero(self.rule.seen_mask() & ~self.rule.live_mask())
            forgotten = None if self.forgotten is None else self.forgotten.copy()

        def finish() -> dict[str, Any]:
            known = forgotten
            if len(gone):
                known = DistinctCounter() if known is None else known.copy()
                known.add(vocabulary.hashes(gone))
            return {**state(), "forgotten": None if known is None else known.registers}

        return finish

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        registers = state["forgotten"]
        self.forgotten = None if registers is None else DistinctCounter(registers)
        self._start()

    def frozen(self) -> Predictor:
        """Return a copy that only predicts, reduced to the live weights."""
        with self.exclusive():
            state = Predictor.snapshot(self)()
        predictor = Predictor.__new__(Predictor)
        predictor.__setstate__(state)
        if publish(predictor.rule):  # without the slots that it does not predict with
            predictor.__setstate__(predictor.__getstate__())
        return predictor


@contextmanager
def published(state: Predictor) -> Iterator[Predictor]:
    """Yield a predictor of what a state publishes; it does not change within the block.

    It shares the slots of the state. Most rules publish what they predict with.
    """
    if not isinstance(state, LockedState):
        yield state
        return
    with state.exclusive():
        yield Predictor(
            published_view(state.rule), state.online, state.vocabulary, state.interactions,
            state.ngrams, state.offset,
        )  # fmt: skip


# Take all locks around a fork. Otherwise a fork while another thread learns would give the child a
# half-changed state whose lock is never released.

_STATES: WeakSet[LockedState] = WeakSet()
_FORK_LOCK = threading.RLock()
_RELEASES: list[Callable[[], None]] = []


def _before_fork() -> None:
    _FORK_LOCK.acquire()
    for engine in sorted(_STATES, key=id):
        engine.lock.acquire()
        _RELEASES.append(engine.lock.release)


def _after_fork() -> None:
    while _RELEASES:
        _RELEASES.pop()()
    _FORK_LOCK.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
