"""What a model's best fixed weights are free to be, and what their penalty is."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streaml1.models.base import OnlineModel
from streaml1.solvers import NotConverged, Solution, fista, sdca
from streaml1.training.regret.result import RegretError

__all__ = ["Best", "Comparator", "comparator_of"]

WIDTH = 0.01
"""Of the smoothed hinge that stands in for the hinge, which it is never above."""

EPOCHS = 3000


class Best(NamedTuple):
    """Fixed weights for some rows: mean objective, the lower bound of the least, the solution."""

    objective: float
    bound: float
    solution: Solution


class Comparator(NamedTuple):
    """The class of fixed weights that a model is compared with.

    Parameters
    ----------
    loss
        As the model's; "softmax" for many labels.
    of
        In words.
    given
        For `fista`: penalty, strength, radius and so on.
    intercept
        Whether there is an intercept.
    cost
        The penalty of the rows of weights, (slots,) or (slots, k), that the model pays in each
        step; None where it pays none.
    once
        Whether the penalty counts once, not in each step.
    """

    loss: str
    of: str
    given: dict[str, Any]
    intercept: bool
    cost: Callable[[Any], float] | None = None
    once: bool = False

    def best(self, X: Any, y: Any, tol: float, start: Best | None) -> Best:
        """The best fixed weights on these rows, searched from those of fewer rows on."""
        n = X.shape[0]
        given = dict(self.given)
        if self.once:
            given = {name: value / n for name, value in given.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)  # the error tells
            if self.loss != "hinge":
                found = self._fista(X, y, self.loss, given, tol, start)
                return Best(found.objective, found.dual, found)
            return self._hinge(X, y, given, tol, start)

    def _fista(
        self, X: Any, y: Any, loss: str, given: dict[str, Any], tol: float, start: Best | None
    ) -> Solution:
        before = None if start is None else (start.solution.weights, start.solution.intercept)
        if before is not None and before[0].shape[-1] != X.shape[1]:
            before = None
        if before is not None and before[0].ndim > 1 and len(np.unique(y)) != len(before[0]):
            before = None
        return fista(
            X, y, loss=loss, fit_intercept=self.intercept, tol=tol, max_epochs=EPOCHS,
            start=before, **given,
        )  # fmt: skip

    def _hinge(self, X: Any, y: Any, given: dict[str, Any], tol: float, start: Any) -> Best:
        plain = given.keys() <= {"l1", "l2"} and not given.get("l1")
        if plain and given["l2"] > 0.0 and not self.intercept:
            found = sdca(X, y, "hinge", l2=given["l2"], tol=tol)
            return Best(found.objective, found.dual, found)
        given["gamma"] = WIDTH
        found = self._fista(X, y, "smoothed_hinge", given, tol, start)
        margins = np.where(y, 1.0, -1.0) * (X @ found.weights + found.intercept)
        smooth = np.where(margins < 1.0 - WIDTH, 1.0 - margins - WIDTH / 2.0,
                          np.maximum(0.0, 1.0 - margins) ** 2 / (2.0 * WIDTH))  # fmt: skip
        more = float(np.mean(np.maximum(0.0, 1.0 - margins) - smooth))
        return Best(found.objective + more, found.dual, found)


def comparator_of(model: Any, loss: str) -> Comparator:
    """Return the class of fixed weights that a model is compared with.

    Raises
    ------
    RegretError
        If no solver finds the best weights of the class.
    """
    name = type(model).__name__
    if not isinstance(model, OnlineModel):
        raise RegretError(f"the regret is defined for the learners of streaml1 only, got {name}")
    if loss == "absolute":
        raise RegretError(f'{name} has loss="absolute", which fista cannot minimize')
    intercept = float(model.intercept_lr) > 0.0
    if not intercept and model.intercept_init:
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
    return Comparator(loss, spec.description, dict(spec.solver), intercept, cost, once)


def _cost_of(solver: dict[str, Any]) -> Callable[[Any], float]:
    """Return the penalty of rows of weights, given the arguments of `fista`."""
    penalty, l2 = solver.get("penalty"), solver.get("l2", 0.0)
    if penalty is None:
        l1 = solver["l1"]
        return lambda w: l1 * float(np.abs(w).sum()) + _squares(w, l2)
    strength = float(solver["strength"])

    def cost(w: Any) -> float:
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


def _squares(w: Any, l2: float) -> float:
    # Not a dot product: the threads of a BLAS cost more than they save on these small arrays.
    return 0.5 * l2 * float((w * w).sum()) if l2 > 0.0 else 0.0
