"""The fixed weights that a model is compared with, and their penalty."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaml1.models.base import OnlineModel
from streaml1.solvers import NotConverged, Solution, fista, sdca
from streaml1.solvers.fista import LOSSES as FISTA_LOSSES
from streaml1.training.regret.result import RegretError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["BestWeights", "Comparator", "comparator_of"]

HINGE_WIDTH = 0.01
"""Width of the smoothed hinge that replaces the hinge, a lower bound of it."""

MAX_EPOCHS = 3000


class BestWeights(NamedTuple):
    """The best fixed weights for some rows."""

    objective: float
    """Mean loss plus penalty."""
    bound: float
    """A lower bound on the objective of all weights."""
    solution: Solution


class Comparator(NamedTuple):
    """The class of fixed weights that a model is compared with.

    Parameters
    ----------
    loss
        Name of the loss; "softmax" for several labels.
    description
        The class as a noun phrase.
    penalty
        Arguments of `fista`: penalty, strength, radius and so on.
    fit_intercept
        Whether there is an intercept.
    cost
        The penalty of weights of shape (d,) or (d, k) that the model pays in each step; None if it
        pays none.
    once
        Whether the penalty counts once for all examples, not in each step.
    """

    loss: str
    description: str
    penalty: dict[str, Any]
    fit_intercept: bool
    cost: Callable[[NDArray[np.float64]], float] | None = None
    once: bool = False

    def best(
        self, X: csr_matrix, y: NDArray[Any], tol: float, start: BestWeights | None
    ) -> BestWeights:
        """Find the best fixed weights, starting from those of fewer rows if there are any."""
        n = X.shape[0]
        penalty = dict(self.penalty)
        if self.once:
            penalty = {name: value / n for name, value in penalty.items()}
        with warnings.catch_warnings():
            # The error bound of the regret includes the gap.
            warnings.simplefilter("ignore", NotConverged)
            if self.loss == "hinge":
                return self._best_hinge(X, y, penalty, tol, start)
            solution = self._fista(X, y, self.loss, penalty, tol, start)
            return BestWeights(solution.objective, solution.dual, solution)

    def _fista(
        self,
        X: csr_matrix,
        y: NDArray[Any],
        loss: str,
        penalty: dict[str, Any],
        tol: float,
        start: BestWeights | None,
    ) -> Solution:
        before = None if start is None else (start.solution.weights, start.solution.intercept)
        if before is not None and before[0].shape[-1] != X.shape[1]:
            before = None
        if before is not None and before[0].ndim > 1 and len(np.unique(y)) != len(before[0]):
            before = None
        return fista(
            X, y, loss=loss, fit_intercept=self.fit_intercept, tol=tol, max_epochs=MAX_EPOCHS,
            start=before, **penalty,
        )  # fmt: skip

    def _best_hinge(
        self,
        X: csr_matrix,
        y: NDArray[Any],
        penalty: dict[str, Any],
        tol: float,
        start: BestWeights | None,
    ) -> BestWeights:
        """Solve the hinge exactly by SDCA if possible, else a smoothed hinge by FISTA.

        The objective is that of the hinge; the bound is that of the smoothed hinge, and valid for
        the hinge because the smoothed one is smaller.
        """
        is_ridge = penalty.keys() <= {"l1", "l2"} and not penalty.get("l1")
        if is_ridge and penalty["l2"] > 0.0 and not self.fit_intercept:
            solution = sdca(X, y, "hinge", l2=penalty["l2"], tol=tol)
            return BestWeights(solution.objective, solution.dual, solution)
        penalty["gamma"] = HINGE_WIDTH
        solution = self._fista(X, y, "smoothed_hinge", penalty, tol, start)
        margins = np.where(y, 1.0, -1.0) * (X @ solution.weights + solution.intercept)
        smoothed = np.where(
            margins < 1.0 - HINGE_WIDTH,
            1.0 - margins - HINGE_WIDTH / 2.0,
            np.maximum(0.0, 1.0 - margins) ** 2 / (2.0 * HINGE_WIDTH),
        )
        difference = float(np.mean(np.maximum(0.0, 1.0 - margins) - smoothed))
        return BestWeights(solution.objective + difference, solution.dual, solution)


def comparator_of(model: object, loss: str) -> Comparator:
    """Return the class of fixed weights that a model is compared with.

    Raises
    ------
    RegretError
        If no solver finds the best weights of the class.
    """
    name = type(model).__name__
    if not isinstance(model, OnlineModel):
        raise RegretError(f"the regret is defined for the learners of streaml1 only, got {name}")
    if loss not in ("hinge", *FISTA_LOSSES):
        raise RegretError(f'{name} has loss="{loss}", which fista cannot minimize')
    fit_intercept = float(model.intercept_lr) > 0.0
    if not fit_intercept and model.intercept_init:
        raise RegretError(
            f"intercept_init must be 0 with intercept_lr=0, got {model.intercept_init}: the "
            "solvers have no frozen intercept"
        )
    try:
        spec = model._comparator()
    except ValueError as error:
        raise RegretError(str(error)) from None
    cost = _cost_of(spec.solver) if spec.pays == "each step" else None
    once = spec.pays == "once"
    return Comparator(loss, spec.description, dict(spec.solver), fit_intercept, cost, once)


def _cost_of(solver: dict[str, Any]) -> Callable[[NDArray[np.float64]], float]:
    """Return the penalty of rows of weights, given the arguments of `fista`."""
    penalty, l2 = solver.get("penalty"), solver.get("l2", 0.0)
    if penalty is None:
        l1 = solver["l1"]
        return lambda w: l1 * float(np.abs(w).sum()) + _squares(w, l2)
    strength = float(solver["strength"])

    def cost(w: NDArray[np.float64]) -> float:
        if penalty == "linf":
            return strength * float(np.abs(w).max(initial=0.0))
        if penalty == "l2":
            return strength * float(np.sqrt((w * w).sum()))
        if penalty == "l1/l2":
            sizes = np.sqrt((w * w).sum(axis=1))
        elif penalty == "l1/linf":
            sizes = np.abs(w).max(axis=1, initial=0.0)
        else:
            sizes = np.abs(w)
        return strength * float(sizes.sum()) + _squares(w, l2)

    return cost


def _squares(w: NDArray[np.float64], l2: float) -> float:
    # Not a dot product: the threads of a BLAS cost more than they save on these small arrays.
    return 0.5 * l2 * float((w * w).sum()) if l2 > 0.0 else 0.0
