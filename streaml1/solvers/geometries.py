"""What a step of projected gradient is: Euclidean, or exponentiated gradient."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from streaml1.solvers.data import Data
from streaml1.solvers.penalties import each_row
from streaml1.solvers.projection import project_l1_ball

__all__ = ["Entropy", "Euclidean", "Geometry"]


class Geometry(Protocol):
    """What a step is: from a state and a gradient to a state, and which weights that is."""

    intercept_scale: float
    """The intercept's step is so many times eta."""

    def start(self, shape: tuple[int, ...]) -> Any:
        """The first state."""

    def weights(self, state: Any) -> Any:
        """The weights of a state."""

    def moved(self, state: Any, gradient: Any, eta: float) -> Any:
        """The state after a step."""

    def distance(self, new: Any, old: Any) -> float:
        """The divergence that a step keeps small."""

    def first_step(self, data: Data, theta: Any, unbounded: bool) -> float:
        """A step of the size that the theory of subgradients asks for."""


class Euclidean:
    """A gradient step, then the projection on the ball; the state is the weights."""

    intercept_scale = 1.0

    def __init__(self, radius: float, nonnegative: bool) -> None:
        self.radius, self.nonnegative = radius, nonnegative

    def start(self, shape: tuple[int, ...]) -> Any:
        """Zeros."""
        return np.zeros(shape)

    def weights(self, state: Any) -> Any:
        """The state itself."""
        return state

    def moved(self, state: Any, gradient: Any, eta: float) -> Any:
        """Eq. (2)."""
        v = state - eta * gradient
        v = np.maximum(v, 0.0) if self.nonnegative else v
        return each_row(project_l1_ball, v, self.radius)

    def distance(self, new: Any, old: Any) -> float:
        """Half the squared distance."""
        return 0.5 * float(np.sum((new - old) ** 2))

    def first_step(self, data: Data, theta: Any, unbounded: bool) -> float:
        """The radius over the size of a row's gradient; of an unbounded slope, what is stable."""
        row = math.sqrt(float(data.row_squares.mean())) * _slope(theta)
        eta = self.radius / row if row > 0.0 else 1.0
        most = float(data.row_squares.max())
        return min(eta, 1.0 / most) if unbounded and most > 0.0 else eta


class Entropy:
    """Exponentiated gradient; the state is the logarithms of the weights, up to a constant."""

    def __init__(self, radius: float, nonnegative: bool) -> None:
        self.radius, self.nonnegative = radius, nonnegative
        self.intercept_scale = radius

    def start(self, shape: tuple[int, ...]) -> Any:
        """All weights equal; of both signs 2d of them."""
        return np.zeros((*shape[:-1], shape[-1] * (1 if self.nonnegative else 2)))

    def _masses(self, state: Any) -> Any:
        u = np.exp(state - state.max(axis=-1, keepdims=True))
        return u * (self.radius / u.sum(axis=-1, keepdims=True))

    def weights(self, state: Any) -> Any:
        """Plus minus minus."""
        u = self._masses(state)
        if self.nonnegative:
            return u
        d = u.shape[-1] // 2
        return u[..., :d] - u[..., d:]

    def moved(self, state: Any, gradient: Any, eta: float) -> Any:
        """Eq. (13)."""
        if not self.nonnegative:
            gradient = np.concatenate([gradient, -gradient], axis=-1)
        new = state - eta * gradient
        return new - new.max(axis=-1, keepdims=True)

    def distance(self, new: Any, old: Any) -> float:
        """The relative entropy of the new weights to the old."""
        u, v = self._masses(new), self._masses(old)
        logs = np.log(u, where=u > 0.0, out=np.zeros_like(u))
        logs -= np.log(v, where=v > 0.0, out=np.full_like(v, -745.0))
        return float(np.sum(u * logs))

    def first_step(self, data: Data, theta: Any, unbounded: bool) -> float:
        """As for the Euclidean step, with logarithms of d and the largest column."""
        most = float(data.column_squares.max(initial=0.0)) / data.n
        entry = math.sqrt(most) * _slope(theta)
        eta = math.sqrt(2.0 * math.log(2.0 * max(data.d, 1))) / entry if entry > 0.0 else 1.0
        stable = self.radius * most
        return min(eta, 1.0 / stable) if unbounded and stable > 0.0 else eta


def _slope(theta: Any) -> float:
    return math.sqrt(float(np.mean(np.square(theta))) * theta[0].size)
