"""Reference implementations: dense, eager, about ten lines per method, no code of the package.

Every penalty is applied to every coordinate at every step. The tests compare the package with this
file, which a reader should be able to verify by reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

# Losses of a margin a and a label y (-1 or +1 in the first three).

LOSSES: dict[str, tuple[Callable[[float, float], float], Callable[[float, float], float]]] = {
    "logistic": (
        lambda a, y: float(np.logaddexp(0.0, -y * a)),
        lambda a, y: -y * float(np.exp(-np.logaddexp(0.0, y * a))),
    ),
    "hinge": (
        lambda a, y: max(0.0, 1.0 - y * a),
        lambda a, y: -y if 1.0 - y * a > 0.0 else 0.0,
    ),
    "smoothed_hinge": (
        lambda a, y: (
            0.0 if y * a > 1.0 else 0.5 - y * a if y * a < 0.0 else (1.0 - y * a) ** 2 / 2.0
        ),
        lambda a, y: 0.0 if y * a > 1.0 else -y if y * a < 0.0 else -y * (1.0 - y * a),
    ),
    "squared": (lambda a, y: (a - y) ** 2 / 2.0, lambda a, y: a - y),
    "absolute": (lambda a, y: abs(a - y), lambda a, y: float(np.sign(a - y))),
}


def sigmoid(a: float) -> float:
    return float(np.exp(-np.logaddexp(0.0, -a)))


# Rates.


def rate(lr: Any, schedule: str, t: int) -> float:
    if hasattr(lr, "get"):
        return float(lr.get(t))
    if schedule == "constant":
        return float(lr)
    return lr / {"invsqrt": math.sqrt, "inverse": float}[schedule](t + 1)


# Penalties: one step at the rate eta, on all weights.


def fobos(v: Any, eta: float, l1: float, l2: float) -> Any:
    return np.sign(v) * np.maximum(np.abs(v) - eta * l1, 0.0) / (1.0 + eta * l2)


def sgd(v: Any, eta: float, l1: float, l2: float) -> Any:
    return np.sign(v) * np.maximum((1.0 - eta * l2) * np.abs(v) - eta * l1, 0.0)


@cache
def places(n: int) -> Any:
    return np.arange(1, n + 1)


def l1_ball(v: Any, radius: float) -> Any:
    """Euclidean projection, by sorting (Duchi et al. 2008, Figure 1)."""
    size = np.abs(v)
    if size.sum() <= radius:
        return v
    mu = np.sort(size)[::-1]
    theta = (mu.cumsum() - radius) / places(len(v))
    last = (mu > theta).nonzero()[0][-1]
    return np.sign(v) * np.maximum(size - theta[last], 0.0)


def l2_norm(v: Any, pull: float) -> Any:
    norm = np.linalg.norm(v)
    return v * (1.0 - pull / norm) if norm > pull else 0.0 * v


def linf_norm(v: Any, pull: float) -> Any:
    """Clamp the largest to one level, such that they lose `pull` together."""
    size = np.abs(v)
    mu = np.sort(size)[::-1]
    level = (mu.cumsum() - pull) / places(len(v))
    return np.sign(v) * np.minimum(size, max(0.0, level.max()))


# The online step.


class Online:
    """Any of the methods whose penalty maps v to w: numbered as in the contract."""

    def __init__(
        self,
        d: int,
        penalty: Callable[[Any, float], Any],
        *,
        loss: str = "logistic",
        lr: Any = 0.1,
        schedule: str = "invsqrt",
        intercept_lr: float = 0.01,
        intercept_init: float = 0.0,
        clip_gradient: float = 1e12,
    ) -> None:
        self.w = np.zeros(d)
        self.b, self.t = intercept_init, 0
        self.penalty, self.loss, self.lr, self.schedule = penalty, loss, lr, schedule
        self.intercept_lr, self.clip_gradient = intercept_lr, clip_gradient

    def margin(self, x: Any) -> float:
        return float(self.w @ x) + self.b

    def output(self, x: Any) -> float:
        a = self.margin(x)
        return sigmoid(a) if self.loss == "logistic" else a

    def learn(self, x: Any, y: float, w: float = 1.0) -> None:
        eta = rate(self.lr, self.schedule, self.t)
        a = self.margin(x)  # 1
        slope = float(LOSSES[self.loss][1](a, y))
        g = min(max(slope, -self.clip_gradient), self.clip_gradient) * w
        v = self.w - eta * g * x  # 3
        self.w = self.penalty(v, eta)  # 4
        self.b -= self.intercept_lr * g  # 5
        self.t += 1  # 6

    def progressive(self, X: Any, y: Iterable[float], w: Iterable[float]) -> Any:
        p = []
        for x_i, y_i, w_i in zip(X, y, w, strict=True):
            p.append(self.output(x_i))
            self.learn(x_i, y_i, w_i)
        return np.array(p)


class ElasticNet(Online):
    def __init__(
        self, d: int, *, l1: float = 0.0, l2: float = 0.0, update: str = "fobos", **shared: Any
    ) -> None:
        self.l1, self.l2, self.update = l1, l2, update
        super().__init__(d, self._penalty, **shared)

    def _penalty(self, v: Any, eta: float) -> Any:
        return {"fobos": fobos, "sgd": sgd}[self.update](v, eta, self.l1, self.l2)


class ElasticNetLanes:
    """Elastic nets at several rates, invariant to the scale of rows and weights; their mixture."""

    def __init__(
        self, d: int, *, rates: Iterable[float], loss: str = "logistic", **own: Any
    ) -> None:
        self.rates, self.loss = list(rates), loss
        self.intercept_lr = own.pop("intercept_lr", 0.01)
        self.nets = [ElasticNet(d, loss=loss, schedule="constant", **own) for _ in self.rates]
        self.lost = np.zeros(len(self.rates))
        self.best = len(self.rates) // 2
        self.n = 0
        self.norms = self.labels = self.weights = 0.0  # sums
        self.heaviest = self.norm = 0.0
        self.begun = 1  # times that what was lost is counted from 0

    @property
    def w(self) -> Any:
        return self.nets[self.best].w

    @property
    def b(self) -> float:
        return self.nets[self.best].b

    def output(self, x: Any) -> float:
        if self.loss != "logistic":
            return self.nets[self.best].margin(x)
        share = np.exp((self.lost.min() - self.lost) / (self.heaviest or 1.0))
        return float(share @ [net.output(x) for net in self.nets] / share.sum())

    def learn(self, x: Any, y: float, w: float) -> None:
        for k, net in enumerate(self.nets):
            self.lost[k] += w * LOSSES[self.loss][0](net.margin(x), y)
        norm = float(np.linalg.norm(x))
        self.n += 1
        self.norms += norm
        self.labels += abs(y)
        self.weights += w
        self.heaviest = max(self.heaviest, w)
        mean = self.norms / self.n
        self.norm = self.norm or mean
        square = max(mean**2, norm**2 / 16.0)
        size = self.labels / self.n if self.loss == "absolute" else 1.0
        size /= max(self.weights / self.n, 1e-100) if self.weights else 1.0
        over = 30.0 if self.loss in ("squared", "absolute") else 7.0
        for k, net in enumerate(self.nets):
            rate = self.rates[k] * size / self.n**0.25
            net.lr = rate * (min(1.0 / square, 1e100) if square else 1.0)
            net.intercept_lr = self.intercept_lr * over * rate
            net.learn(x, y, w)
            if mean > 2.0 * self.norm:
                net.w = net.w * (self.norm / mean)
        if self.lost.min() < self.lost[self.best]:
            self.best = int(self.lost.argmin())
        if mean > 2.0 * self.norm:
            self.norm = mean
            self.lost[:] = 0.0
            self.begun += 1

    progressive = Online.progressive


class TruncatedGradient(Online):
    def __init__(
        self,
        d: int,
        *,
        gravity: float = 1e-4,
        period: int = 1,
        threshold: float = np.inf,
        **shared: Any,
    ) -> None:
        self.gravity, self.period, self.threshold = gravity, period, threshold
        super().__init__(d, self._penalty, **shared)

    def _penalty(self, v: Any, eta: float) -> Any:
        if (self.t + 1) % self.period:
            return v
        pulled = fobos(v, eta, self.period * self.gravity, 0.0)
        return np.where(np.abs(v) <= self.threshold, pulled, v)


class FTRL(Online):
    """McMahan et al. (2013), Algorithm 1; w is stored in addition to z and n."""

    def __init__(
        self,
        d: int,
        *,
        alpha: float = 0.1,
        beta: float = 1.0,
        l1: float = 1.0,
        l2: float = 0.0,
        **shared: Any,
    ) -> None:
        self.alpha, self.beta, self.l1, self.l2 = alpha, beta, l1, l2
        self.z, self.n = np.zeros(d), np.zeros(d)
        super().__init__(d, lambda v, eta: v, **shared)

    def learn(self, x: Any, y: float, w: float = 1.0) -> None:
        a = self.margin(x)
        slope = float(LOSSES[self.loss][1](a, y))
        g = min(max(slope, -self.clip_gradient), self.clip_gradient) * w
        G = g * x
        sigma = (np.sqrt(self.n + G**2) - np.sqrt(self.n)) / self.alpha
        self.z = self.z + G - sigma * self.w
        self.n = self.n + G**2
        rate = (self.beta + np.sqrt(self.n)) / self.alpha + self.l2
        self.w = np.where(
            np.abs(self.z) <= self.l1, 0.0, (np.sign(self.z) * self.l1 - self.z) / rate
        )
        self.b -= self.intercept_lr * g
        self.t += 1


class Pegasos(Online):
    def __init__(self, d: int, *, l2: float = 1e-4, project: bool = True, **shared: Any) -> None:
        self.l2, self.project = l2, project
        super().__init__(d, lambda v, eta: v, **{"loss": "hinge", **shared})

    def learn(self, x: Any, y: float, w: float = 1.0) -> None:
        eta = 1.0 / (self.l2 * (self.t + 1))
        a = self.margin(x)
        slope = float(LOSSES[self.loss][1](a, y))
        g = min(max(slope, -self.clip_gradient), self.clip_gradient) * w
        self.w = (1.0 - eta * self.l2) * self.w - eta * g * x
        norm, radius = np.linalg.norm(self.w), 1.0 / np.sqrt(self.l2)
        if self.project and norm > radius:
            self.w = self.w * (radius / norm)
        self.b -= self.intercept_lr * g
        self.t += 1


class L1Ball(Online):
    def __init__(
        self, d: int, *, radius: float = 10.0, nonnegative: bool = False, **shared: Any
    ) -> None:
        self.radius, self.nonnegative = radius, nonnegative
        super().__init__(d, self._penalty, **shared)

    def _penalty(self, v: Any, eta: float) -> Any:
        return l1_ball(np.maximum(v, 0.0) if self.nonnegative else v, self.radius)


class FOBOS(Online):
    def __init__(self, d: int, *, strength: float = 1e-4, norm: str = "l2", **shared: Any) -> None:
        self.strength = strength
        prox = {"l2": l2_norm, "linf": linf_norm}[norm]
        super().__init__(d, lambda v, eta: prox(v, eta * self.strength), **shared)


class SMIDAS(Online):
    def __init__(self, d: int, *, l1: float, p: float, **shared: Any) -> None:
        self.theta, self.l1, self.p = np.zeros(d), l1, p
        super().__init__(d, self._penalty, **shared)

    def _penalty(self, v: Any, eta: float) -> Any:
        theta = self.theta + (v - self.w)  # the step of the gradient is theta's
        theta = np.sign(theta) * np.maximum(np.abs(theta) - eta * self.l1, 0.0)
        self.theta = theta
        largest = np.max(np.abs(theta))
        if largest == 0.0:
            return theta
        norm = largest * np.sum((np.abs(theta) / largest) ** self.p) ** (1.0 / self.p)
        return theta * (np.abs(theta) / norm) ** (self.p - 2.0)


class EG(Online):
    def __init__(
        self, d: int, *, radius: float = 10.0, nonnegative: bool = False, **shared: Any
    ) -> None:
        self.theta, self.radius, self.nonnegative = np.zeros(d), radius, nonnegative
        super().__init__(d, self._penalty, **shared)
        self.w = self._penalty(self.w, 0.0)

    def _penalty(self, v: Any, eta: float) -> Any:
        self.theta = self.theta + (v - self.w)  # the logarithms of what has been multiplied
        logs = self.theta if self.nonnegative else np.append(self.theta, -self.theta)
        all_weights = np.exp(logs - np.max(logs))
        all_weights *= self.radius / np.sum(all_weights)
        d = len(self.theta)
        return all_weights if self.nonnegative else all_weights[:d] - all_weights[d:]


def averaged(kind: type[Any]) -> type[Any]:
    """Return a twin that predicts with the mean of its weights after each step."""

    class Averaged(kind):  # type: ignore[misc]
        now: Any = None

        def learn(self, x: Any, y: float, w: float = 1.0) -> None:
            if self.now is None:
                self.now, self.sums = (self.w, self.b), [0.0, 0.0]
            self.w, self.b = self.now
            super().learn(x, y, w)
            self.now = self.w, self.b
            self.sums = [total + one for total, one in zip(self.sums, self.now, strict=True)]
            self.w, self.b = (total / self.t for total in self.sums)

    return Averaged


# Many labels: the rows of w are those of the features, its columns those of the labels.


def rows_l1(v: Any, c: float) -> Any:
    return np.sign(v) * np.maximum(np.abs(v) - c, 0.0)


def rows_l2(v: Any, c: float) -> Any:
    norms = np.linalg.norm(v, axis=1, keepdims=True)
    return np.where(norms > c, v * (1.0 - c / np.maximum(norms, 1e-300)), 0.0)


def rows_linf(v: Any, c: float) -> Any:
    """By Moreau: v minus its projection onto the l1 ball of radius c."""
    return v - np.array([l1_ball(row, c) for row in v]) if c > 0.0 else v


ROWS = {"l1": rows_l1, "l1/l2": rows_l2, "l1/linf": rows_linf}


class Softmax:
    """Labels are 0, 1, 2, ...; a new one joins with zero weights at its first example."""

    def __init__(
        self,
        d: int,
        k: int = 0,
        *,
        strength: float = 1e-4,
        penalty: str = "l1",
        l2: float = 0.0,
        radius: float = 10.0,
        nonnegative: bool = False,
        lr: Any = 0.1,
        schedule: str = "invsqrt",
        intercept_lr: float = 0.01,
        intercept_init: float = 0.0,
        clip_gradient: float = 1e12,
    ) -> None:
        self.radius, self.nonnegative = radius, nonnegative
        self.w, self.b, self.t = np.zeros((d, k)), np.full(k, intercept_init), 0
        self.strength, self.penalty, self.l2 = strength, penalty, l2
        self.lr, self.schedule, self.intercept_lr = lr, schedule, intercept_lr
        self.intercept_init, self.clip_gradient = intercept_init, clip_gradient

    def output(self, x: Any) -> Any:
        a = x @ self.w + self.b
        e = np.exp(a - a.max(initial=-np.inf))
        return e / e.sum()

    def learn(self, x: Any, y: int, w: float = 1.0) -> Any:
        eta, joining = rate(self.lr, self.schedule, self.t), max(0, y + 1 - len(self.b))
        self.w = np.hstack([self.w, np.zeros((len(x), joining))])
        self.b = np.append(self.b, np.full(joining, self.intercept_init))
        p = self.output(x)
        g = np.clip(p - (np.arange(len(p)) == y), -self.clip_gradient, self.clip_gradient) * w
        v = self.w - eta * np.outer(x, g)
        self.w = self._penalty(v, eta)
        self.b = self.b - self.intercept_lr * g
        self.t += 1
        return p

    def _penalty(self, v: Any, eta: float) -> Any:
        if self.penalty == "ball":  # one for each label
            v = np.maximum(v, 0.0) if self.nonnegative else v
            return np.array([l1_ball(column, self.radius) for column in v.T]).T
        return ROWS[self.penalty](v, eta * self.strength) / (1.0 + eta * self.l2)
