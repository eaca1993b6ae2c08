"""The active set of a dual ascent: the examples of an epoch, and when to compute the gap."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.types import Hashes, Ids
from streaml1.solvers.sampling import RANDOM, fill_order
from streaml1.solvers.solution import Trace

__all__ = ["ActiveSet", "EpochPlan", "ascend"]


class EpochPlan(NamedTuple):
    """The arguments of an epoch kernel that say which examples to visit."""

    order: Ids
    """The examples to visit, one after the other."""
    m: int
    """How many entries of `order` to visit."""
    threshold: float
    """An example is dropped if the gradient pushes it against its bound by more than this."""
    still_active: Ids
    """Output: the examples that remain active."""


class ActiveSet:
    """The examples of the next epoch, without those that rest against a bound (shrinking).

    Parameters
    ----------
    order_kind
        A value of `ORDERS`. With `RANDOM` no example is dropped.
    n
        Number of examples.
    state
        State of the random generator, see `rng_state`.

    Attributes
    ----------
    m : int
        Number of active examples.
    accesses : int
        Entries of the matrix read so far.
    """

    def __init__(self, order_kind: int, n: int, state: Hashes) -> None:
        self.order_kind, self.n, self.state = order_kind, n, state
        self._all = np.arange(n, dtype=np.uint32)
        self._order, self._still_active = self._all.copy(), self._all.copy()
        self.accesses = 0
        self.reset()

    def reset(self) -> None:
        """Make all examples active."""
        self._active, self.m, self._threshold = self._all.copy(), self.n, math.inf

    def plan_epoch(self) -> EpochPlan:
        """Order the active examples for the next epoch."""
        fill_order(self.order_kind, self._active, self.m, self.state, self._order)
        return EpochPlan(self._order, self.m, self._threshold, self._still_active)

    def shrink(self, n_active: Any, max_move: float, n_read: Any) -> None:
        """Keep the first `n_active` examples that the kernel wrote to `still_active`.

        Parameters
        ----------
        n_active
            Number of examples that remain active.
        max_move
            Largest change of a margin by its own step in the epoch: the next `threshold`. An
            epoch without any move does not shrink the next one.
        n_read
            Entries of the matrix that the epoch read.
        """
        self.accesses += int(n_read)
        if self.order_kind != RANDOM:
            self._active, self._still_active = self._still_active, self._active
            self.m, self._threshold = int(n_active), max_move or math.inf


def ascend(
    active: ActiveSet,
    trace: Trace,
    run_epoch: Callable[[], float],
    record: Callable[[int], bool],
) -> None:
    """Run epochs until `record` ends the run.

    Parameters
    ----------
    active
        The active set. It is reset when the gap of the active examples is small.
    trace
        Provides the gap to reach.
    run_epoch
        Runs an epoch and returns an estimate of the gap: the sum of the examples' shares, each
        computed just before its step.
    record
        Computes the exact gap after the epoch with this number; returns whether the run ends. It
        is called when the estimate is small, or when the trace is due.
    """
    epoch, done = 0, record(0)
    while not done:
        gap = run_epoch()
        epoch += 1
        is_small = gap <= trace.target_gap or not active.m
        if is_small or trace.is_due(epoch):
            done = record(epoch)
        if is_small and active.m < active.n:
            active.reset()
