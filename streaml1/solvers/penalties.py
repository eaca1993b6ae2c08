"""Penalties and balls of all learners: value, proximal step, conjugate.

A vector of weights, or of several classes a row a class: a feature is then a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from streaml1.solvers.data import check_strength, choose, unable
from streaml1.solvers.projection import project_l1_ball, project_simplex

__all__ = ["PENALTIES", "Penalty", "each_row", "penalty_of"]

Prox = Callable[[Any, Any], Any]
Norm = Callable[[Any], float]


class Penalty:
    r"""$g(w) = h(w) + l_2/2 |w|^2$, where h is a norm times a strength, or a set.

    Parameters
    ----------
    prox
        `prox(v, eta)` = argmin_w eta h(w) + |w - v|^2 / 2. Where `separable`, eta may differ from
        feature to feature.
    norm
        h itself; of a set 0.
    dual
        Of a norm, the least c at which v is in c times the unit ball of the dual norm over the
        strength: h*(v) = 0 if it is at most 1, else infinite. Of a set, max <w, v> over the set.
    l2
        The strength of the squared norm.
    """

    def __init__(
        self,
        prox: Prox,
        norm: Norm | None,
        dual: Norm,
        l2: float,
        separable: bool = False,
    ) -> None:
        self._prox, self._norm, self._dual = prox, norm, dual
        self.l2, self.separable = l2, separable

    @property
    def is_norm(self) -> bool:
        """Whether h is a norm, not a set."""
        return self._norm is not None

    def value(self, w: Any) -> float:
        """The penalty of w, which is in the set if there is one."""
        h = self._norm(w) if self._norm is not None else 0.0
        return float(h + 0.5 * self.l2 * np.vdot(w, w)) if self.l2 > 0.0 else float(h)

    def prox(self, v: Any, eta: Any) -> Any:
        """The least eta g(w) + |w - v|^2 / 2."""
        shrunk = 1.0 / (1.0 + eta * self.l2)
        return self._prox(v * shrunk, eta * shrunk)

    def scale(self, v: Any) -> float:
        """The largest c up to 1 for which `conjugate(c v)` is finite."""
        if self._norm is None or self.l2 > 0.0:
            return 1.0
        most = self._dual(v)
        return 1.0 if most <= 1.0 else 1.0 / most

    def conjugate(self, v: Any) -> float:
        """The most of <w, v> - g(w) over w; of a norm without l2, where it is finite, 0."""
        if self.l2 > 0.0:
            w = self._prox(v / self.l2, 1.0 / self.l2)
            return float(np.vdot(w, v)) - self.value(w)
        return self._dual(v) if self._norm is None else 0.0


def each_row(project: Callable[[Any, float], Any], v: Any, radius: float) -> Any:
    """A vector projected, or each row of a matrix."""
    if v.ndim == 1:
        return project(v, radius)
    return np.stack([project(row, radius) for row in v])


def _soft(v: Any, by: Any) -> Any:
    return np.copysign(np.maximum(np.abs(v) - by, 0.0), v)


def _over(size: Any, strength: float) -> float:
    """Size / strength, where nothing is nothing even without a strength."""
    most = float(np.max(size, initial=0.0))
    return most / strength if strength > 0.0 else (math.inf if most > 0.0 else 0.0)


def _l1(s: float, l2: float) -> Penalty:
    return Penalty(
        lambda v, eta: _soft(v, eta * s),
        lambda w: s * float(np.abs(w).sum()),
        lambda v: _over(np.abs(v), s),
        l2,
        separable=True,
    )


def _l2(s: float, l2: float) -> Penalty:
    def prox(v: Any, eta: float) -> Any:
        norm = float(np.linalg.norm(v))
        return v * (1.0 - eta * s / norm) if norm > eta * s else np.zeros_like(v)

    return Penalty(
        prox,
        lambda w: s * float(np.linalg.norm(w)),
        lambda v: _over(np.linalg.norm(v), s),
        l2,
    )


def _linf(s: float, l2: float) -> Penalty:
    def prox(v: Any, eta: float) -> Any:
        return v - project_l1_ball(v.ravel(), eta * s).reshape(v.shape)

    return Penalty(
        prox,
        lambda w: s * float(np.abs(w).max(initial=0.0)),
        lambda v: _over(np.abs(v).sum(), s),
        l2,
    )


def _rows_l2(s: float, l2: float) -> Penalty:
    def prox(v: Any, eta: Any) -> Any:
        norms = np.sqrt((v * v).sum(axis=0))
        kept = np.maximum(norms - eta * s, 0.0)
        return v * (kept / np.where(norms > 0.0, norms, 1.0))

    return Penalty(
        prox,
        lambda w: s * float(np.sqrt((w * w).sum(axis=0)).sum()),
        lambda v: _over(np.sqrt((v * v).sum(axis=0)), s),
        l2,
        separable=True,
    )


def _rows_linf(s: float, l2: float) -> Penalty:
    def prox(v: Any, eta: Any) -> Any:
        # What is taken off is the projection of each column on the l1 ball of radius z.
        z = np.broadcast_to(eta * s, v.shape[1:])
        mu = -np.sort(-np.abs(v), axis=0)
        theta = (np.cumsum(mu, axis=0) - z) / np.arange(1.0, len(v) + 1.0)[:, None]
        return np.copysign(np.minimum(np.abs(v), np.maximum(theta.max(axis=0), 0.0)), v)

    return Penalty(
        prox,
        lambda w: s * float(np.abs(w).max(axis=0).sum()),
        lambda v: _over(np.abs(v).sum(axis=0), s),
        l2,
        separable=True,
    )


def _ball(radius: float, l2: float, nonnegative: bool) -> Penalty:
    """The l1 ball, of several classes one each."""

    def prox(v: Any, eta: float) -> Any:
        v = np.maximum(v, 0.0) if nonnegative else v
        return each_row(project_l1_ball, v, radius)

    def dual(v: Any) -> float:
        size = v if nonnegative else np.abs(v)
        return radius * float(np.sum(np.max(size, axis=-1, initial=0.0)))

    return Penalty(prox, None, dual, l2)


def _simplex(radius: float, l2: float) -> Penalty:
    def prox(v: Any, eta: float) -> Any:
        return each_row(project_simplex, v, radius)

    return Penalty(prox, None, lambda v: radius * float(np.sum(np.max(v, axis=-1))), l2)


def _l2_ball(radius: float, l2: float) -> Penalty:
    def prox(v: Any, eta: float) -> Any:
        norm = float(np.linalg.norm(v))
        return v * (radius / norm) if norm > radius else v

    return Penalty(prox, None, lambda v: radius * float(np.linalg.norm(v)), l2)


NORMS = {
    "l1": _l1,
    "l2": _l2,
    "linf": _linf,
    "l1/l2": _rows_l2,
    "l1/linf": _rows_linf,
}
SETS = {"simplex": _simplex, "l2-ball": _l2_ball}
PENALTIES = ("elastic-net", *NORMS, "ball", *SETS)


def penalty_of(
    solver: str,
    penalty: str,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    strength: float | None = None,
    radius: float | None = None,
    nonnegative: bool = False,
) -> Penalty:
    """The penalty of that name; what it has no use for is refused, and what it lacks."""
    choose(solver, "penalty", penalty, PENALTIES)
    given = f'penalty="{penalty}"'
    l1, l2 = check_strength("l1", l1), check_strength("l2", l2)
    if l1 and penalty != "elastic-net":
        raise unable(solver, f"l1={l1} with {given}", 'give strength, or penalty="elastic-net"')
    if strength is not None and penalty not in NORMS:
        raise unable(solver, f"strength={strength} with {given}", "give l1 and l2, or a radius")
    if radius is not None and penalty not in ("ball", *SETS):
        raise unable(solver, f"radius={radius} with {given}", 'give penalty="ball", say')
    if nonnegative and penalty != "ball":
        raise unable(solver, f"nonnegative=True with {given}", 'give penalty="ball"')
    if penalty == "elastic-net":
        return _l1(l1, l2)
    if penalty in NORMS:
        if strength is None:
            raise unable(solver, f"{given} without a strength", "give strength")
        return NORMS[penalty](check_strength("strength", strength), l2)
    if radius is None:
        raise unable(solver, f"{given} without a radius", "give radius")
    radius = check_strength("radius", radius, above_zero=True)
    return _ball(radius, l2, nonnegative) if penalty == "ball" else SETS[penalty](radius, l2)
