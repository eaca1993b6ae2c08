"""The mean loss as a function of the weights, with one margin per example or one per class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from streaml1.core.types import Floats
from streaml1.optim.losses import CODES
from streaml1.solvers.data import Data
from streaml1.solvers.objective import (
    balance_dual,
    curvature_bound,
    derivatives,
    mean_conjugate,
    mean_loss,
)
from streaml1.solvers.penalties import Penalty
from streaml1.solvers.solution import Intercept, Weights

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["LossTerm", "dual_bound", "make_loss_term"]

Margins = NDArray[np.float64]
"""Margins, or derivatives by them: shape (n,), or (n, k) for k classes."""


class LossTerm(Protocol):
    """The mean loss of rows. Only `margins` and `gradient` read X."""

    shape: tuple[int, ...]
    """Shape of the weights: (d,) or (k, d)."""
    curvature: float
    """Smoothness: mean loss(a') <= mean loss(a) + its linear part + curvature / 2 times the mean
    of |a' - a|^2. Infinite for losses with kinks."""

    def margins(self, w: Weights, b: Intercept) -> Margins:
        """Return the margins of all rows."""

    def mean(self, a: Margins) -> float:
        """Return the mean loss of margins."""

    def derivatives(self, a: Margins) -> Margins:
        """Return the derivative of each example's loss by its margins."""

    def gradient(self, theta: Margins) -> Weights:
        """Return the gradient by the weights, 1/n sum_i theta_i x_i."""

    def mean_conjugate(self, theta: Margins, scale: float) -> float:
        """Return the mean of the conjugates at scale * theta_i."""

    def balance(self, theta: Margins) -> Margins:
        """Return dual variables close to `theta` that sum to zero over the rows."""

    def subset(self, rows: NDArray[np.intp]) -> LossTerm:
        """Return the mean loss of some rows."""


class SingleMargin:
    """The five losses with one margin per example."""

    def __init__(self, X: csr_array, y: Floats, loss: str, gamma: float) -> None:
        self.X, self.y, self.loss, self.gamma = X, y, loss, gamma
        self.code = CODES[loss]
        self.shape: tuple[int, ...] = (X.shape[1],)
        self.curvature = curvature_bound(loss, gamma)

    def margins(self, w: Weights, b: Intercept) -> Margins:
        a: Margins = self.X @ w + b
        return a

    def mean(self, a: Margins) -> float:
        return float(mean_loss(self.code, a, self.y, self.gamma))

    def derivatives(self, a: Margins) -> Margins:
        theta = np.empty(len(a))
        derivatives(self.code, a, self.y, self.gamma, theta)
        return theta

    def gradient(self, theta: Margins) -> Weights:
        gradient: Weights = (self.X.T @ theta) / len(theta)
        return gradient

    def mean_conjugate(self, theta: Margins, scale: float) -> float:
        return float(mean_conjugate(self.code, theta, self.y, self.gamma, scale))

    def balance(self, theta: Margins) -> Margins:
        return balance_dual(self.code, theta)

    def subset(self, rows: NDArray[np.intp]) -> SingleMargin:
        return SingleMargin(self.X[rows], self.y[rows], self.loss, self.gamma)


class Softmax:
    """The multiclass logistic loss log sum_k exp a_k - a_y, with one row of weights per class.

    With p = theta + e_y in the simplex, its conjugate at theta is sum_k p_k log p_k.
    """

    curvature = 0.5  # upper bound on the eigenvalues of the Hessian diag(p) - p p'

    def __init__(self, X: csr_array, y: NDArray[np.intp], k: int) -> None:
        self.X, self.y, self.k = X, y, k
        self.shape: tuple[int, ...] = (k, X.shape[1])
        self._label_entries = (np.arange(len(y)), y)

    def margins(self, w: Weights, b: Intercept) -> Margins:
        a: Margins = self.X @ w.T + b
        return a

    def mean(self, a: Margins) -> float:
        largest = a.max(axis=1)  # subtracted, so that no exponential overflows
        total = np.log(np.exp(a - largest[:, None]).sum(axis=1)) + largest
        return float((total - a[self._label_entries]).mean())

    def derivatives(self, a: Margins) -> Margins:
        p: Margins = np.exp(a - a.max(axis=1)[:, None])
        p /= p.sum(axis=1)[:, None]
        p[self._label_entries] -= 1.0
        return p

    def gradient(self, theta: Margins) -> Weights:
        gradient: Weights = (self.X.T @ theta).T / len(theta)
        return gradient

    def _probabilities(self, theta: Margins) -> Margins:
        p = theta.copy()
        p[self._label_entries] += 1.0
        return np.maximum(p, 0.0)

    def mean_conjugate(self, theta: Margins, scale: float) -> float:
        p = self._probabilities(scale * theta)
        p /= p.sum(axis=1)[:, None]
        return float((p * np.log(np.where(p > 0.0, p, 1.0))).sum(axis=1).mean())

    def balance(self, theta: Margins) -> Margins:
        # Balanced means that the probabilities of each class sum to its number of examples.
        # Classes above it give mass away in proportion; each row passes its mass on to the
        # classes below.
        p = self._probabilities(theta)
        total = p.sum(axis=0)
        deficit = np.bincount(self.y, minlength=self.k) - total
        lack = np.maximum(deficit, 0.0)
        if lack.sum() == 0.0:
            return theta
        moved = p * (np.maximum(-deficit, 0.0) / np.maximum(total, 1e-300))
        p += moved.sum(axis=1)[:, None] * (lack / lack.sum()) - moved
        p[self._label_entries] -= 1.0
        return p

    def subset(self, rows: NDArray[np.intp]) -> Softmax:
        return Softmax(self.X[rows], self.y[rows], self.k)


def make_loss_term(data: Data, loss: str, gamma: float) -> LossTerm:
    """Return the mean loss of all rows.

    Parameters
    ----------
    data
        Rows and labels.
    loss
        Name of a loss with one margin, or "softmax".
    gamma
        Width of the smoothed hinge.
    """
    if loss == "softmax":
        return Softmax(data.matrix, data.y, len(data.classes))
    return SingleMargin(data.matrix, data.y, loss, gamma)


def dual_bound(
    term: LossTerm, penalty: Penalty, theta: Margins, gradient: Weights, fit_intercept: bool
) -> float:
    """Return a lower bound on the optimum.

    Parameters
    ----------
    term, penalty
        The objective.
    theta
        Dual variables, such as the derivatives of the losses at some weights.
    gradient
        `term.gradient(theta)`. With an intercept, theta is balanced first, which costs another
        gradient.
    fit_intercept
        Whether there is an intercept.
    """
    if fit_intercept:
        theta = term.balance(theta)
        gradient = term.gradient(theta)
    v = -gradient
    scale = penalty.dual_scale(v)
    return -term.mean_conjugate(theta, scale) - penalty.conjugate(scale * v)
