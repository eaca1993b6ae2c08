"""The result of a solver, and the trace of its progress."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaml1.core.rows import shown

__all__ = ["Callback", "Intercept", "NotConverged", "Record", "Solution", "Trace", "Weights"]

Weights = NDArray[np.float64]
"""Weights, shape (d,), or (k, d) for k classes."""

Intercept = float | NDArray[np.float64]
"""A number, or one for each of k classes, shape (k,)."""


class NotConverged(UserWarning):
    """A solver stopped with a duality gap above its tolerance."""


class Record(NamedTuple):
    """The progress of a solver after an epoch."""

    epoch: int
    objective: float
    dual: float
    """The largest lower bound on the optimum so far; -inf if none is known."""
    gap: float
    """`objective - dual`: an upper bound on the distance from the optimum."""
    accesses: int
    """Non-zero entries of X read by the steps, without those read only to compute the gap."""
    n_nonzero: int
    """Number of non-zero weights."""
    seconds: float


Callback = Callable[[Record, Any], object]
"""Called with each record and the current weights; a true result stops the run."""


@dataclass(frozen=True, repr=False)
class Solution:
    """The result of a solver.

    Attributes
    ----------
    weights : ndarray
        Weights of the columns of X, shape (d,), or (k, d) for k classes.
    intercept : float or ndarray
        0.0 without `fit_intercept`; shape (k,) for k classes.
    objective : float
        Mean loss plus penalty of these weights.
    dual : float
        The largest lower bound on the optimum that was found; -inf if there is none.
    gap : float
        `objective - dual`, an upper bound on the distance from the optimum.
    trace : list of Record
        A record for each time that the gap was computed, from epoch 0 on.
    converged : bool
        Whether the gap is within the tolerance.
    classes : tuple
        The labels of the rows of `weights`; empty for losses with a single margin.

    Examples
    --------
    >>> import numpy as np
    >>> from streaml1.solvers import scd
    >>> scd(np.array([[1.0, 0.0], [-1.0, 0.5]]), np.array([True, False]), l1=0.1)
    <Solution: objective 0.325083, gap ..., converged; 1 of 2 weights are not zero>
    """

    weights: Weights
    intercept: Intercept
    objective: float
    dual: float
    gap: float
    trace: list[Record]
    converged: bool
    classes: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        n_nonzero = np.count_nonzero(self.weights)
        state = "converged" if self.converged else "not converged"
        return (
            f"<Solution: objective {self.objective:.6g}, gap {self.gap:.1e}, {state}; "
            f"{n_nonzero:,} of {np.size(self.weights):,} weights are not zero>"
        )


class Trace:
    """Collect the records of a run and decide when it ends.

    A solver writes `trace = Trace("scd", tol, max_epochs, callback)`; `trace.record(...)` before
    the first epoch and after each, until that returns True; `return trace.solution(weights, b)`.

    Parameters
    ----------
    solver
        Name of the solver, for the warning.
    tol
        The gap to reach: absolute, or relative to the objective if that is above 1.
    max_epochs
        The epoch to stop after.
    callback
        Called as `callback(record, weights)`; a true result stops the run.

    Raises
    ------
    ValueError
        If the callback is not callable.
    """

    def __init__(
        self, solver: str, tol: float, max_epochs: int, callback: Callback | None = None
    ) -> None:
        if callback is not None and not callable(callback):
            raise ValueError(
                "callback must be a function of a record and the weights, or None, "
                f"got {shown(callback)}"
            )
        self.solver, self.tol, self.max_epochs = solver, tol, max_epochs
        self.callback = callback
        self.records: list[Record] = []
        self.dual = -math.inf
        self.begin = time.perf_counter()
        self.stopped = False

    @property
    def converged(self) -> bool:
        """Whether the gap of the last record is within the tolerance."""
        gap = self.records[-1].gap  # infinite if the objective is, and so is then the target
        return math.isfinite(gap) and gap <= self.target_gap

    @property
    def target_gap(self) -> float:
        """The gap to reach, given the objective of the last record."""
        return self.tol * max(1.0, abs(self.records[-1].objective))

    def is_due(self, epoch: int) -> bool:
        """Return whether to compute the gap, even if no estimate says that it is small.

        This is after each epoch with a callback, else after 8, 16, 32, ... and the last.
        """
        is_power_of_two = epoch >= 8 and epoch & (epoch - 1) == 0
        return self.callback is not None or is_power_of_two or epoch >= self.max_epochs

    def record(
        self, epoch: int, objective: float, dual: float, accesses: int, weights: Weights
    ) -> bool:
        """Add a record and return whether the run ends.

        `dual` is any lower bound on the optimum (-inf: none); the largest one is kept. A NaN of
        the objective makes the gap infinite, a NaN of the dual is ignored.
        """
        self.dual = max(self.dual, dual) if dual == dual else self.dual
        gap = max(0.0, objective - self.dual) if objective == objective else math.inf
        seconds = time.perf_counter() - self.begin
        n = int(np.count_nonzero(weights))
        last = Record(int(epoch), float(objective), self.dual, gap, int(accesses), n, seconds)
        self.records.append(last)
        self.stopped = self.callback is not None and bool(self.callback(last, weights))
        return self.stopped or self.converged or epoch >= self.max_epochs

    def solution(
        self, weights: Weights, intercept: Intercept = 0.0, classes: Iterable[Any] = ()
    ) -> Solution:
        """Return the solution of the last record; warn unless it has converged."""
        last = self.records[-1]
        if not self.converged and not self.stopped:
            warnings.warn(
                f"{self.solver} stopped after {last.epoch} epochs with a gap of {last.gap:.3g}, "
                f"above tol={self.tol:g}; raise max_epochs={self.max_epochs} or tol",
                NotConverged,
                stacklevel=3,
            )
        return Solution(
            weights,
            intercept,
            last.objective,
            last.dual,
            last.gap,
            self.records,
            self.converged,
            tuple(classes),
        )
