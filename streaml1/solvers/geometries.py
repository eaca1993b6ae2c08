"""The steps of projected gradient: Euclidean, or exponentiated gradient."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streaml1.solvers.data import Data
from streaml1.solvers.penalties import project_rows
from streaml1.solvers.projection import project_l1_ball
from streaml1.solvers.solution import Weights

__all__ = ["Entropy", "Euclidean", "Geometry"]

State = NDArray[np.float64]
"""What a step changes; its shape depends on the geometry."""

Margins = NDArray[np.float64]
"""Derivatives of the losses by the margins, shape (n,) or (n, k)."""


class Geometry(Protocol):
    """A mirror map: how a step moves a state, and which weights a state stands for."""

    intercept_scale: float
    """The step size of the intercept, relative to that of the weights."""

    def start(self, shape: tuple[int, ...]) -> State:
        """Return the initial state for weights of this shape."""

    def weights(self, state: State) -> Weights:
        """Return the weights of a state."""

    def step(self, state: State, gradient: Weights, eta: float) -> State:
        """Return the state after a step of size `eta`."""

    def distance(self, new: State, old: State) -> float:
        """Return the Bregman divergence between two states."""

    def scale_intercept(self, data: Data, seed: int) -> None:
        """Set `intercept_scale` so that the loss is as curved in the intercept as in the weights.

        Otherwise small features would let the intercept diverge at a rate that suits the weights.
        """

    def first_step_size(
        self, data: Data, theta: Margins, is_unbounded: bool, fit_intercept: bool
    ) -> float:
        """Return a step size for the first step, as in the analysis of subgradient methods.

        Parameters
        ----------
        data
            Rows and labels.
        theta
            Derivatives of the losses at the start.
        is_unbounded
            Whether the derivative of the loss is unbounded, as that of the squared loss is. The
            step size is then limited to what is stable.
        fit_intercept
            Whether the intercept takes steps, too, of `intercept_scale`.
        """


class Euclidean:
    """A gradient step and a projection onto the l1 ball; the state is the weights."""

    intercept_scale = 1.0

    def __init__(self, radius: float, nonnegative: bool) -> None:
        self.radius, self.nonnegative = radius, nonnegative

    def start(self, shape: tuple[int, ...]) -> State:
        """Return zeros."""
        return np.zeros(shape)

    def weights(self, state: State) -> Weights:
        """Return the state itself."""
        return state

    def step(self, state: State, gradient: Weights, eta: float) -> State:
        """Take a projected gradient step, Eq. (2) of Duchi et al. (2008)."""
        v = state - eta * gradient
        v = np.maximum(v, 0.0) if self.nonnegative else v
        return project_rows(project_l1_ball, v, self.radius)

    def distance(self, new: State, old: State) -> float:
        """Return half the squared Euclidean distance."""
        return 0.5 * float(np.sum((new - old) ** 2))

    def scale_intercept(self, data: Data, seed: int) -> None:
        """Set `intercept_scale` to the largest eigenvalue of X'X / n."""
        self.intercept_scale = data.largest_eigenvalue(seed) or 1.0

    def first_step_size(
        self, data: Data, theta: Margins, is_unbounded: bool, fit_intercept: bool
    ) -> float:
        """Return the radius divided by the typical norm of an example's gradient."""
        norm = math.sqrt(float(data.row_squares.mean())) * _rms(theta)
        eta = self.radius / norm if norm > 0.0 else 1.0
        stable = float(data.row_squares.max()) + self.intercept_scale * fit_intercept
        return min(eta, 1.0 / stable) if is_unbounded and stable > 0.0 else eta


class Entropy:
    """Exponentiated gradient; the state is the logarithms of the weights, up to a constant."""

    def __init__(self, radius: float, nonnegative: bool) -> None:
        self.radius, self.nonnegative = radius, nonnegative
        self.intercept_scale = radius

    def start(self, shape: tuple[int, ...]) -> State:
        """Return equal weights; unless they are non-negative, d for each sign."""
        return np.zeros((*shape[:-1], shape[-1] * (1 if self.nonnegative else 2)))

    def _masses(self, state: State) -> State:
        u: State = np.exp(state - state.max(axis=-1, keepdims=True))
        masses: State = u * (self.radius / u.sum(axis=-1, keepdims=True))
        return masses

    def weights(self, state: State) -> Weights:
        """Return the masses, or the difference of those of both signs."""
        u = self._masses(state)
        if self.nonnegative:
            return u
        d = u.shape[-1] // 2
        return u[..., :d] - u[..., d:]

    def step(self, state: State, gradient: Weights, eta: float) -> State:
        """Take a step of exponentiated gradient, Eq. (13) of Duchi et al. (2008)."""
        if not self.nonnegative:
            gradient = np.concatenate([gradient, -gradient], axis=-1)
        new = state - eta * gradient
        moved: State = new - new.max(axis=-1, keepdims=True)
        return moved

    def distance(self, new: State, old: State) -> float:
        """Return the relative entropy of the new weights with respect to the old ones."""
        u, v = self._masses(new), self._masses(old)
        logs = np.log(u, where=u > 0.0, out=np.zeros_like(u))
        # A mass that underflowed to 0 counts as exp(-745), the smallest positive float.
        logs -= np.log(v, where=v > 0.0, out=np.full_like(v, -745.0))
        # The sums of u and v are equal. Each summand is >= 0 with their difference, and computed
        # without cancellation: rounding would outweigh the distance of a short step.
        series = u * logs**2 * (0.5 - logs / 6.0 + logs**2 / 24.0)
        return float(np.sum(np.where(np.abs(logs) < 1e-3, series, u * logs - u + v)))

    def scale_intercept(self, data: Data, seed: int) -> None:
        """Set `intercept_scale` to the radius times the largest mean square of a column."""
        largest = float(data.column_squares.max(initial=0.0)) / data.n
        self.intercept_scale = self.radius * (largest or 1.0)

    def first_step_size(
        self, data: Data, theta: Margins, is_unbounded: bool, fit_intercept: bool
    ) -> float:
        """Return sqrt(2 log 2d) divided by the largest typical entry of a gradient."""
        largest = float(data.column_squares.max(initial=0.0)) / data.n
        entry = math.sqrt(largest) * _rms(theta)
        eta = math.sqrt(2.0 * math.log(2.0 * max(data.d, 1))) / entry if entry > 0.0 else 1.0
        stable = self.radius * largest + self.intercept_scale * fit_intercept
        return min(eta, 1.0 / stable) if is_unbounded and stable > 0.0 else eta


def _rms(theta: Margins) -> float:
    """Return the root mean square over examples of the norm of theta_i."""
    return math.sqrt(float(np.mean(np.square(theta))) * theta[0].size)
