"""The mean loss as a function of weights: of one margin an example, or of one a class."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from streaml1.optim.losses import CODES
from streaml1.solvers.data import Data
from streaml1.solvers.objective import balanced, conjugates, curvature, derivatives, mean_loss
from streaml1.solvers.penalties import Penalty

__all__ = ["Term", "dual_bound", "term_of"]


class Term(Protocol):
    """The mean loss of rows; `margins` and `gradient` read X, the others do not."""

    shape: tuple[int, ...]
    """Of the weights."""
    curvature: float
    """The mean loss lies below its tangent plus curvature / 2 the mean of (a' - a)^2."""

    def margins(self, w: Any, b: Any) -> Any:
        """The margins of all rows."""

    def mean(self, a: Any) -> float:
        """The mean loss of margins."""

    def slopes(self, a: Any) -> Any:
        """The derivative of each loss in its margin."""

    def gradient(self, theta: Any) -> Any:
        """The gradient in the weights, 1/n sum_i theta_i x_i."""

    def conjugate(self, theta: Any, scale: float) -> float:
        """The mean of the conjugates at scale * theta_i."""

    def balanced(self, theta: Any) -> Any:
        """Slopes close to these that sum to zero over the rows."""

    def part(self, rows: Any) -> Term:
        """The mean loss of some rows."""


class OneMargin:
    """The five losses of one margin an example."""

    def __init__(self, X: Any, y: Any, loss: str, gamma: float) -> None:
        self.X, self.y, self.loss, self.gamma = X, y, loss, gamma
        self.code = CODES[loss]
        self.shape: tuple[int, ...] = (X.shape[1],)
        self.curvature = curvature(loss, gamma)

    def margins(self, w: Any, b: Any) -> Any:
        return self.X @ w + b

    def mean(self, a: Any) -> float:
        return float(mean_loss(self.code, a, self.y, self.gamma))

    def slopes(self, a: Any) -> Any:
        theta = np.empty(len(a))
        derivatives(self.code, a, self.y, self.gamma, theta)
        return theta

    def gradient(self, theta: Any) -> Any:
        return (self.X.T @ theta) / len(theta)

    def conjugate(self, theta: Any, scale: float) -> float:
        return float(conjugates(self.code, theta, self.y, self.gamma, scale))

    def balanced(self, theta: Any) -> Any:
        return balanced(self.code, theta)

    def part(self, rows: Any) -> OneMargin:
        return OneMargin(self.X[rows], self.y[rows], self.loss, self.gamma)


class SoftmaxTerm:
    """Multiclass logistic loss, log sum_k exp a_k - a_y: a row of weights a class.

    The conjugate at theta = p - e_y is sum_k p_k log p_k, p in the simplex.
    """

    curvature = 0.5  # most of the eigenvalues of diag(p) - p p'

    def __init__(self, X: Any, y: Any, k: int) -> None:
        self.X, self.y, self.k = X, y, k
        self.shape: tuple[int, ...] = (k, X.shape[1])
        self.of_label = (np.arange(len(y)), y)

    def margins(self, w: Any, b: Any) -> Any:
        return self.X @ w.T + b

    def mean(self, a: Any) -> float:
        most = a.max(axis=1)
        total = np.log(np.exp(a - most[:, None]).sum(axis=1)) + most
        return float((total - a[self.of_label]).mean())

    def slopes(self, a: Any) -> Any:
        p = np.exp(a - a.max(axis=1)[:, None])
        p /= p.sum(axis=1)[:, None]
        p[self.of_label] -= 1.0
        return p

    def gradient(self, theta: Any) -> Any:
        return (self.X.T @ theta).T / len(theta)

    def _probabilities(self, theta: Any) -> Any:
        p = theta.copy()
        p[self.of_label] += 1.0
        return np.maximum(p, 0.0)

    def conjugate(self, theta: Any, scale: float) -> float:
        p = self._probabilities(scale * theta)
        p /= p.sum(axis=1)[:, None]
        return float((p * np.log(np.where(p > 0.0, p, 1.0))).sum(axis=1).mean())

    def balanced(self, theta: Any) -> Any:
        # Classes that have too much give it up in proportion, and each row hands on what it took.
        p = self._probabilities(theta)
        total = p.sum(axis=0)
        short = np.bincount(self.y, minlength=self.k) - total
        lack = np.maximum(short, 0.0)
        if lack.sum() == 0.0:
            return theta
        taken = p * (np.maximum(-short, 0.0) / np.maximum(total, 1e-300))
        p += taken.sum(axis=1)[:, None] * (lack / lack.sum()) - taken
        p[self.of_label] -= 1.0
        return p

    def part(self, rows: Any) -> SoftmaxTerm:
        return SoftmaxTerm(self.X[rows], self.y[rows], self.k)


def term_of(data: Data, loss: str, gamma: float) -> Term:
    """The mean loss of all rows."""
    if loss == "softmax":
        return SoftmaxTerm(data.matrix, data.y, len(data.classes))
    return OneMargin(data.matrix, data.y, loss, gamma)


def dual_bound(
    term: Term, penalty: Penalty, theta: Any, gradient: Any, fit_intercept: bool
) -> float:
    """A lower bound of the optimum from slopes `theta` and their `gradient(theta)`.

    With an intercept the slopes are balanced first, at the price of a new gradient.
    """
    if fit_intercept:
        theta = term.balanced(theta)
        gradient = term.gradient(theta)
    v = -gradient
    scale = penalty.scale(v)
    return -term.conjugate(theta, scale) - penalty.conjugate(scale * v)
