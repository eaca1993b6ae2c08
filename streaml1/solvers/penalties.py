r"""Penalties and constraint sets: one class each, with value, proximal step and conjugate.

All have the form $g(w) = h(w) + \frac{l_2}2 |w|^2$, where h is a norm times a strength, or the
indicator of a set. Weights have the shape (d,), or (k, d) for k classes; a feature is then a
column. To add one, write a class with `_prox`, `_value` and `_dual`, and enter it in `NORMS` or
`SETS`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from streaml1.core.types import Floats
from streaml1.solvers.data import check_choice, check_strength, unsupported
from streaml1.solvers.projection import project_l1_ball, project_simplex
from streaml1.solvers.solution import Weights

__all__ = ["PENALTIES", "Penalty", "make_penalty", "project_rows"]

Step = float | Floats
"""A step size: a number, or for a separable penalty one for each feature, shape (d,)."""


class Penalty(ABC):
    """A penalty or a constraint set.

    Parameters
    ----------
    l2
        Strength of the squared l2 norm that is added to h.

    Attributes
    ----------
    is_norm : bool
        Whether h is a norm, not the indicator of a set.
    separable : bool
        Whether h is a sum over features, so that each may have its own step size.
    """

    is_norm = True
    separable = False

    def __init__(self, l2: float) -> None:
        self.l2 = l2

    @abstractmethod
    def _prox(self, v: Weights, eta: Step) -> Weights:
        """Return argmin_w eta h(w) + |w - v|^2 / 2."""

    @abstractmethod
    def _value(self, w: Weights) -> float:
        """Return h(w); for a set 0."""

    @abstractmethod
    def _dual(self, v: Weights) -> float:
        """Return the gauge that defines the conjugate of h.

        For a norm, the smallest c such that v is in c times the unit ball of the dual norm, over
        the strength: h*(v) is 0 if c <= 1, else infinite. For a set, max <w, v> over the set.
        """

    def value(self, w: Weights) -> float:
        """Return g(w); a constraint set assumes that w is in it."""
        h = self._value(w)
        return float(h + 0.5 * self.l2 * np.vdot(w, w)) if self.l2 > 0.0 else float(h)

    def prox(self, v: Weights, eta: Step) -> Weights:
        """Return argmin_w eta g(w) + |w - v|^2 / 2."""
        shrinkage = 1.0 / (1.0 + eta * self.l2)
        return self._prox(v * shrinkage, eta * shrinkage)

    def dual_scale(self, v: Weights) -> float:
        """Return the largest c <= 1 for which `conjugate(c v)` is finite."""
        if not self.is_norm or self.l2 > 0.0:
            return 1.0
        gauge = self._dual(v)
        return 1.0 if gauge <= 1.0 else 1.0 / gauge

    def conjugate(self, v: Weights) -> float:
        """Return g*(v) = max_w <w, v> - g(w), for a norm without l2 where it is finite."""
        if self.l2 > 0.0:
            w = self._prox(v / self.l2, 1.0 / self.l2)
            return float(np.vdot(w, v)) - self.value(w)
        return 0.0 if self.is_norm else self._dual(v)


class _Norm(Penalty):
    def __init__(self, strength: float, l2: float) -> None:
        super().__init__(l2)
        self.strength = strength

    def _gauge(self, size: float | Floats) -> float:
        """Return max(size) / strength, where 0 / 0 is 0."""
        largest = float(np.max(size, initial=0.0))
        if self.strength > 0.0:
            return largest / self.strength
        return math.inf if largest > 0.0 else 0.0


class L1(_Norm):
    """The l1 norm of all weights."""

    separable = True

    def _prox(self, v: Weights, eta: Step) -> Weights:
        return np.copysign(np.maximum(np.abs(v) - eta * self.strength, 0.0), v)

    def _value(self, w: Weights) -> float:
        return self.strength * float(np.abs(w).sum())

    def _dual(self, v: Weights) -> float:
        return self._gauge(np.abs(v))


class L2(_Norm):
    """The l2 norm of all weights, not squared."""

    def _prox(self, v: Weights, eta: Step) -> Weights:
        norm = float(np.linalg.norm(v))
        if norm > eta * self.strength:
            return v * (1.0 - eta * self.strength / norm)
        return np.zeros_like(v)

    def _value(self, w: Weights) -> float:
        return self.strength * float(np.linalg.norm(w))

    def _dual(self, v: Weights) -> float:
        return self._gauge(float(np.linalg.norm(v)))


class Linf(_Norm):
    """The l-infinity norm of all weights."""

    def _prox(self, v: Weights, eta: Step) -> Weights:
        # Moreau: v minus its projection onto the ball of the dual norm, l1.
        radius = float(eta) * self.strength
        return v - project_l1_ball(v.ravel(), radius).reshape(v.shape)

    def _value(self, w: Weights) -> float:
        return self.strength * float(np.abs(w).max(initial=0.0))

    def _dual(self, v: Weights) -> float:
        return self._gauge(np.abs(v).sum())


class FeatureL2(_Norm):
    """The sum over features of the l2 norms of their weights (group lasso)."""

    separable = True

    def _prox(self, v: Weights, eta: Step) -> Weights:
        norms = np.sqrt((v * v).sum(axis=0))
        shrunk = np.maximum(norms - eta * self.strength, 0.0)
        w: Weights = v * (shrunk / np.where(norms > 0.0, norms, 1.0))
        return w

    def _value(self, w: Weights) -> float:
        return self.strength * float(np.sqrt((w * w).sum(axis=0)).sum())

    def _dual(self, v: Weights) -> float:
        return self._gauge(np.sqrt((v * v).sum(axis=0)))


class FeatureLinf(_Norm):
    """The sum over features of the l-infinity norms of their weights."""

    separable = True

    def _prox(self, v: Weights, eta: Step) -> Weights:
        # Moreau, column by column: subtract the projection onto the l1 ball of radius z.
        z = np.broadcast_to(eta * self.strength, v.shape[1:])
        mu = -np.sort(-np.abs(v), axis=0)
        theta = (np.cumsum(mu, axis=0) - z) / np.arange(1.0, len(v) + 1.0)[:, None]
        w: Weights = np.copysign(np.minimum(np.abs(v), np.maximum(theta.max(axis=0), 0.0)), v)
        return w

    def _value(self, w: Weights) -> float:
        return self.strength * float(np.abs(w).max(axis=0).sum())

    def _dual(self, v: Weights) -> float:
        return self._gauge(np.abs(v).sum(axis=0))


class _Set(Penalty):
    is_norm = False

    def __init__(self, radius: float, l2: float) -> None:
        super().__init__(l2)
        self.radius = radius

    def _value(self, w: Weights) -> float:
        return 0.0


class L1Ball(_Set):
    """The l1 ball, or its non-negative part; with several classes one for each."""

    def __init__(self, radius: float, l2: float, nonnegative: bool) -> None:
        super().__init__(radius, l2)
        self.nonnegative = nonnegative

    def _prox(self, v: Weights, eta: Step) -> Weights:
        v = np.maximum(v, 0.0) if self.nonnegative else v
        return project_rows(project_l1_ball, v, self.radius)

    def _dual(self, v: Weights) -> float:
        size = v if self.nonnegative else np.abs(v)
        return self.radius * float(np.sum(np.max(size, axis=-1, initial=0.0)))


class Simplex(_Set):
    """The simplex {w >= 0, sum w = radius}; with several classes one for each."""

    def _prox(self, v: Weights, eta: Step) -> Weights:
        return project_rows(project_simplex, v, self.radius)

    def _dual(self, v: Weights) -> float:
        return self.radius * float(np.sum(np.max(v, axis=-1)))


class L2Ball(_Set):
    """The l2 ball of all weights."""

    def _prox(self, v: Weights, eta: Step) -> Weights:
        norm = float(np.linalg.norm(v))
        return v * (self.radius / norm) if norm > self.radius else v

    def _dual(self, v: Weights) -> float:
        return self.radius * float(np.linalg.norm(v))


def project_rows(project: Callable[[Floats, float], Floats], v: Weights, radius: float) -> Weights:
    """Project a vector, or each row of a matrix."""
    if v.ndim == 1:
        return project(v, radius)
    return np.stack([project(row, radius) for row in v])


NORMS: dict[str, type[_Norm]] = {
    "l1": L1,
    "l2": L2,
    "linf": Linf,
    "l1/l2": FeatureL2,
    "l1/linf": FeatureLinf,
}
SETS: dict[str, type[_Set]] = {"simplex": Simplex, "l2-ball": L2Ball}
PENALTIES = ("elastic-net", *NORMS, "ball", *SETS)


def make_penalty(
    solver: str,
    penalty: str,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    strength: float | None = None,
    radius: float | None = None,
    nonnegative: bool = False,
) -> Penalty:
    """Make a penalty by name.

    Parameters
    ----------
    solver
        Name of the solver, for errors.
    penalty
        One of `PENALTIES`.
    l1, l2
        Strengths of the elastic net; `l2` may be added to any other penalty.
    strength
        Strength of a norm.
    radius
        Radius of a set.
    nonnegative
        Whether the weights of "ball" are >= 0.

    Raises
    ------
    ValueError
        If a parameter is missing, or does not apply to this penalty.
    """
    check_choice(solver, "penalty", penalty, PENALTIES)
    given = f'penalty="{penalty}"'
    l1, l2 = check_strength("l1", l1), check_strength("l2", l2)
    if l1 and penalty != "elastic-net":
        raise unsupported(solver, f"l1={l1} with {given}", 'use strength, or penalty="elastic-net"')
    if strength is not None and penalty not in NORMS:
        raise unsupported(solver, f"strength={strength} with {given}", "use l1 and l2, or a radius")
    if radius is not None and penalty not in ("ball", *SETS):
        raise unsupported(solver, f"radius={radius} with {given}", 'use penalty="ball"')
    if nonnegative and penalty != "ball":
        raise unsupported(solver, f"nonnegative=True with {given}", 'use penalty="ball"')
    if penalty == "elastic-net":
        return L1(l1, l2)
    if penalty in NORMS:
        if strength is None:
            raise unsupported(solver, f"{given} without a strength", "set strength")
        return NORMS[penalty](check_strength("strength", strength), l2)
    if radius is None:
        raise unsupported(solver, f"{given} without a radius", "set radius")
    radius = check_strength("radius", radius, above_zero=True)
    return L1Ball(radius, l2, nonnegative) if penalty == "ball" else SETS[penalty](radius, l2)
