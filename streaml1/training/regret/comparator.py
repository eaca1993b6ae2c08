"""What a model's best fixed weights are free to be, and what their penalty is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streaml1 import models
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
    """The class of fixed weights that goes with a model.

    Raises
    ------
    RegretError
        Where there is none that a solver finds.
    """
    name = type(model).__name__
    make = next((make for kind, make in KINDS.items() if isinstance(model, kind)), None)
    if make is None:
        raise RegretError(
            f"{name} is no model of streaml1, so what it is compared with is not known"
        )
    if loss == "absolute":
        raise RegretError(f'{name} has loss="absolute", whose best weights fista cannot find')
    intercept = float(model.intercept_lr) > 0.0
    if not intercept and model.intercept_init:
        raise RegretError(
            f"{name} has the frozen intercept {model.intercept_init}: give intercept_init=0, or "
            "intercept_lr above 0"
        )
    return make(model, loss, intercept)


def _elastic_net(model: Any, loss: str, intercept: bool) -> Comparator:
    return _net(model.l1, model.l2, loss, intercept)


def _net(l1: float, l2: float, loss: str, intercept: bool) -> Comparator:
    def cost(w: Any) -> float:
        return l1 * float(np.abs(w).sum()) + _squares(w, l2)

    pays = l1 > 0.0 or l2 > 0.0
    of = f"all weights, with l1 = {l1:g} and l2 = {l2:g} in each step" if pays else "all weights"
    return Comparator(loss, of, {"l1": l1, "l2": l2}, intercept, cost if pays else None)


def _squares(w: Any, l2: float) -> float:
    # Threads of a BLAS cost more here than they bring: so often is it asked.
    return 0.5 * l2 * float((w * w).sum()) if l2 > 0.0 else 0.0


def _truncated(model: Any, loss: str, intercept: bool) -> Comparator:
    if model.threshold < math.inf:
        raise RegretError(
            f"threshold={model.threshold:g} makes a penalty that is not convex: the regret of a "
            "truncated gradient is told with threshold=inf"
        )
    return _net(model.gravity, 0.0, loss, intercept)


def _smidas(model: Any, loss: str, intercept: bool) -> Comparator:
    return _net(model.l1, 0.0, loss, intercept)


def _pegasos(model: Any, loss: str, intercept: bool) -> Comparator:
    return _net(0.0, model.l2, loss, intercept)


def _ftrl(model: Any, loss: str, intercept: bool) -> Comparator:
    of = f"all weights, with l1 = {model.l1:g} and l2 = {model.l2:g} once"
    return Comparator(loss, of, {"l1": model.l1, "l2": model.l2}, intercept, once=True)


def _norm(model: Any, loss: str, intercept: bool) -> Comparator:
    strength = model.strength

    def cost(w: Any) -> float:
        size = np.abs(w).max(initial=0.0) if model.norm == "linf" else np.sqrt((w * w).sum())
        return float(strength) * float(size)

    of = f"all weights, with {strength:g} times their {model.norm} norm in each step"
    given = {"penalty": model.norm, "strength": strength}
    return Comparator(loss, of, given, intercept, cost if strength > 0.0 else None)


def _ball(model: Any, loss: str, intercept: bool) -> Comparator:
    sign = ", none below zero" if model.nonnegative else ""
    of = f"weights whose sizes add up to at most {model.radius:g}{sign}"
    given = {"penalty": "ball", "radius": model.radius, "nonnegative": model.nonnegative}
    return Comparator(loss, of, given, intercept)


def _softmax(model: Any, loss: str, intercept: bool) -> Comparator:
    if model.penalty == "ball":
        return _ball(model, loss, intercept)
    strength, l2 = float(model.strength), float(model.l2)
    penalty = model.penalty

    def cost(w: Any) -> float:
        sizes = np.abs(w)
        if penalty == "l1/l2":
            sizes = np.sqrt((w * w).sum(axis=1))
        elif penalty == "l1/linf":
            sizes = sizes.max(axis=1, initial=0.0)
        return strength * float(sizes.sum()) + _squares(w, l2)

    of = f"all weights, with {strength:g} times their {penalty} norm and l2 = {l2:g} in each step"
    given = {"penalty": penalty, "strength": strength, "l2": l2}
    pays = strength > 0.0 or l2 > 0.0
    return Comparator(loss, of, given, intercept, cost if pays else None)


KINDS: dict[Any, Callable[[Any, str, bool], Comparator]] = {
    (models.ElasticNetClassifier, models.ElasticNetRegressor): _elastic_net,
    (models.TruncatedGradientClassifier, models.TruncatedGradientRegressor): _truncated,
    (models.FTRLClassifier, models.FTRLRegressor): _ftrl,
    (models.SMIDASClassifier, models.SMIDASRegressor): _smidas,
    (models.FOBOSClassifier, models.FOBOSRegressor): _norm,
    (models.L1BallClassifier, models.L1BallRegressor): _ball,
    (models.EGClassifier, models.EGRegressor): _ball,
    models.PegasosClassifier: _pegasos,
    models.SoftmaxClassifier: _softmax,
}
