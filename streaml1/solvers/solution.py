"""What a solver returns, and the record of how it came there."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.rows import shown

__all__ = ["Callback", "NotConverged", "Record", "Solution", "Trace"]


class NotConverged(UserWarning):
    """A solver has stopped with a gap above its tolerance; the sentence names the gap."""


class Record(NamedTuple):
    """Where a solver stands after an epoch."""

    epoch: int
    objective: float
    dual: float
    """The best lower bound of the optimum up to now; -inf where none is known."""
    gap: float
    """`objective - dual`: the objective is at most so much above the optimum."""
    accesses: int
    """How many non-zero entries of X the steps have read; what tells the gap alone is not in it."""
    n_nonzero: int
    """How many weights are not zero."""
    seconds: float


Callback = Callable[[Record, Any], Any]
"""Called with each record and the weights as they are; what is true ends the run."""


@dataclass(frozen=True)
class Solution:
    """What a solver has found.

    Attributes
    ----------
    weights : ndarray
        A weight a column of X; of several classes (k, d), a row a class.
    intercept : float or ndarray
        0.0 unless `fit_intercept`; of several classes one each.
    objective : float
        The mean loss and the penalty of these weights.
    dual : float
        The best lower bound of the optimum that was met; -inf where none is known.
    gap : float
        `objective - dual`, which bounds how far the objective is above the optimum.
    trace : list of Record
        Where the solver stood, from the start on.
    converged : bool
        Whether the gap is within the tolerance.
    classes : tuple
        The labels that the rows of `weights` are of; empty where there are no classes.
    """

    weights: Any
    intercept: Any
    objective: float
    dual: float
    gap: float
    trace: list[Record] = field(repr=False)
    converged: bool
    classes: tuple[Any, ...] = ()


class Trace:
    """Collects the records of a run and tells when it may end.

    A solver writes `trace = Trace("scd", tol, max_epochs, callback)`; `trace.record(...)` before
    the first epoch and after each, until that returns True; `return trace.solution(weights, b)`.

    Parameters
    ----------
    solver
        Its name, for the warning.
    tol
        The gap to reach, absolute; relative to the objective where that is above 1.
    max_epochs
        The epoch to stop after.
    callback
        Called as `callback(record, weights)`; what is true ends the run.

    Raises
    ------
    ValueError
        Where the callback cannot be called: before any work is done.
    """

    def __init__(
        self, solver: str, tol: float, max_epochs: int, callback: Callback | None = None
    ) -> None:
        if callback is not None and not callable(callback):
            raise ValueError(
                f"callback={shown(callback)} cannot be called; give a function of a record and the "
                "weights, or None"
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
        return self.records[-1].gap <= self.goal

    @property
    def goal(self) -> float:
        """The gap to reach, as of the last record."""
        return self.tol * max(1.0, abs(self.records[-1].objective))

    def due(self, epoch: int) -> bool:
        """Whether to look at the gap though nothing says that it is small.

        After each epoch where someone is called, else after 8, 16, 32, ... and the last.
        """
        doubled = epoch >= 8 and epoch & (epoch - 1) == 0
        return self.callback is not None or doubled or epoch >= self.max_epochs

    def record(
        self, epoch: int, objective: float, dual: float, accesses: int, weights: Any
    ) -> bool:
        """Note where the solver stands; True when it is to stop.

        `dual` is any lower bound of the optimum (-inf: none); the best one is kept.
        """
        self.dual = max(self.dual, dual) if dual == dual else self.dual
        gap = max(0.0, objective - self.dual) if objective == objective else math.inf
        seconds = time.perf_counter() - self.begin
        n = int(np.count_nonzero(weights))
        last = Record(int(epoch), float(objective), self.dual, gap, int(accesses), n, seconds)
        self.records.append(last)
        self.stopped = self.callback is not None and bool(self.callback(last, weights))
        return self.stopped or self.converged or epoch >= self.max_epochs

    def solution(self, weights: Any, intercept: Any = 0.0, classes: Any = ()) -> Solution:
        """The solution of the last record; warns where that has not converged."""
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
