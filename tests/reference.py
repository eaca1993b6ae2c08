"""Slow reference implementations ("twins") of the online learners.

They are dense and eager: every step applies the penalty to every coordinate. They share no code
with the package, so that a reader can verify them against the papers. A twin has

- `w`, `b`, `t`: weights of shape (d,), intercept, number of examples learnt;
- `margin(x)`: the margin of a dense row;
- `output(x)`: the prediction: a probability if the loss is logistic, a mean if it is Poisson's;
- `learn(x, y, w)`: one step;
- `progressive(X, y, w)`: the prediction for each row before it is learnt.

Labels are -1 or +1 for the binary losses, real numbers for the losses of `REGRESSION`, not negative
for `poisson`, and class indices for `Softmax`.

A new learner needs one class here. Subclass `Online` and pass the penalty, a function that maps
(v, eta) to the new weights. Override `learn` if the method is not a gradient step and a penalty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Penalty = Callable[[Vector, float], Vector]


class Scheduler(Protocol):
    """A learning rate schedule of river."""

    def get(self, t: int) -> float: ...


# Losses: the value and the derivative with respect to the margin a, for a label y.

Functions = tuple[Callable[[float, float], float], Callable[[float, float], float]]

LOG_LIMIT = math.log(1e50)


def huber(delta: float) -> Functions:
    """Return the Huber loss."""

    def value(a: float, y: float) -> float:
        r = abs(y - a)
        return r * r / 2.0 if r <= delta else delta * r - delta * delta / 2.0

    return value, lambda a, y: delta if a - y > delta else max(a - y, -delta)


def pinball(tau: float) -> Functions:
    """Return the quantile loss."""

    def value(a: float, y: float) -> float:
        return max(tau * (y - a), (tau - 1.0) * (y - a))

    return value, lambda a, y: (a > y) * (1.0 - tau) - (a < y) * tau


def poisson_mean(a: float) -> float:
    """Return exp(a), at most 1e50."""
    return float(np.exp(np.minimum(a, LOG_LIMIT)))


LOSSES: dict[str, Functions] = {
    "logistic": (
        lambda a, y: float(np.logaddexp(0.0, -y * a)),
        lambda a, y: -y * math.exp(-np.logaddexp(0.0, y * a)),
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
    "squared_hinge": (
        lambda a, y: (y - a) ** 2 if y * a < 1.0 else 0.0,
        lambda a, y: 2.0 * (a - y) if y * a < 1.0 else 0.0,
    ),
    "squared": (lambda a, y: (a - y) ** 2 / 2.0, lambda a, y: a - y),
    "absolute": (lambda a, y: abs(a - y), lambda a, y: float(np.sign(a - y))),
    "huber": huber(1.0),
    "quantile": pinball(0.5),
    "poisson": (
        lambda a, y: poisson_mean(a) * max(1.0, 1.0 + a - LOG_LIMIT) - y * a,
        lambda a, y: poisson_mean(a) - y,
    ),
}


def loss_functions(learner: Any) -> Functions:
    """Return the loss of a twin, with its `quantile` or `huber_delta`."""
    if learner.loss == "huber":
        return huber(learner.huber_delta)
    return pinball(learner.quantile) if learner.loss == "quantile" else LOSSES[learner.loss]


REGRESSION = ("squared", "absolute", "huber", "quantile", "poisson")


def sigmoid(a: float) -> float:
    """Return 1 / (1 + exp(-a)) without overflow."""
    return math.exp(-np.logaddexp(0.0, -a))


def prediction(loss: str, a: float) -> float:
    """Return the probability of +1, the mean of a Poisson distribution, or else the margin."""
    return {"logistic": sigmoid, "poisson": poisson_mean}.get(loss, float)(a)


def rate(lr: float | Scheduler, schedule: str, t: int) -> float:
    """Return the learning rate of step t, counted from 0."""
    if not isinstance(lr, int | float):  # isinstance of a protocol would take most of the time
        return float(lr.get(t))
    if schedule == "constant":
        return float(lr)
    return lr / {"invsqrt": math.sqrt, "inverse": float}[schedule](t + 1)


# Penalties: map the weights v after a gradient step to the weights after the penalty.


def fobos(v: Vector, eta: float, l1: float, l2: float) -> Vector:
    """Apply the proximal step of eta (l1 |w|_1 + l2/2 |w|^2)."""
    return np.sign(v) * np.maximum(np.abs(v) - eta * l1, 0.0) / (1.0 + eta * l2)


def sgd(v: Vector, eta: float, l1: float, l2: float) -> Vector:
    """Take a gradient step of the same penalty, clipped at zero."""
    return np.sign(v) * np.maximum((1.0 - eta * l2) * np.abs(v) - eta * l1, 0.0)


def sum_without_rounding(start: float, steps: Iterable[float], n_cycles: int) -> Fraction:
    """Return the sum of a number and steps that are repeated, without any rounding."""
    return Fraction(start) + n_cycles * sum(map(Fraction, steps), Fraction(0))


@cache
def ranks(n: int) -> NDArray[np.int64]:
    """Return 1, 2, ..., n."""
    return np.arange(1, n + 1)


def l1_ball(v: Vector, radius: float) -> Vector:
    """Project onto the l1 ball, by sorting (Duchi et al. 2008, Figure 1)."""
    sizes = np.abs(v)
    if sizes.sum() <= radius:
        return v
    mu = np.sort(sizes)[::-1]
    theta = (mu.cumsum() - radius) / ranks(len(v))
    last = (mu > theta).nonzero()[0][-1]
    return np.sign(v) * np.maximum(sizes - theta[last], 0.0)


def l2_norm(v: Vector, strength: float) -> Vector:
    """Apply the proximal step of strength * |w|_2: shorten the vector by `strength`."""
    norm = np.linalg.norm(v)
    return v * (1.0 - strength / norm) if norm > strength else 0.0 * v


def linf_norm(v: Vector, strength: float) -> Vector:
    """Apply the proximal step of strength * |w|_inf.

    Clamp the largest sizes to one level, such that the sum of what they lose is `strength`.
    """
    sizes = np.abs(v)
    mu = np.sort(sizes)[::-1]
    level = (mu.cumsum() - strength) / ranks(len(v))
    return np.sign(v) * np.minimum(sizes, max(0.0, level.max()))


class RunningQuantile:
    """The P2 algorithm (Jain & Chlamtac 1985), with heights q and positions n from 1."""

    def __init__(self, tau: float) -> None:
        self.tau = tau
        self.first: list[float] = []
        self.q: list[float] = []
        self.n: list[float] = []

    @property
    def estimate(self) -> float:
        if self.q and self.count > 5:
            return self.q[2]
        rank = math.ceil(self.tau * len(self.first))
        return sorted(self.first)[max(rank, 1) - 1] if self.first else 0.0

    def add(self, y: float) -> None:
        """Count a number."""
        if not self.q:
            self.first.append(y)
            if len(self.first) == 5:
                self.count = 5
                self.q, self.n = sorted(self.first), [1.0, 2.0, 3.0, 4.0, 5.0]
            return
        q, n = self.q, self.n
        self.count += 1
        q[0], q[4] = min(q[0], y), max(q[4], y)
        cell = max(i for i in range(4) if i == 0 or q[i] <= y)
        for i in range(cell + 1, 5):
            n[i] += 1.0
        for i, share in ((1, self.tau / 2.0), (2, self.tau), (3, (1.0 + self.tau) / 2.0)):
            d = 1.0 + (self.count - 1) * share - n[i]
            if not (d >= 1.0 and n[i + 1] - n[i] > 1.0) and not (
                d <= -1.0 and n[i - 1] - n[i] < -1.0
            ):
                continue
            d = math.copysign(1.0, d)
            moved = q[i] + d / (n[i + 1] - n[i - 1]) * (
                (n[i] - n[i - 1] + d) * (q[i + 1] - q[i]) / (n[i + 1] - n[i])
                + (n[i + 1] - n[i] - d) * (q[i] - q[i - 1]) / (n[i] - n[i - 1])
            )
            if not q[i - 1] < moved < q[i + 1]:
                j = i + int(d)
                moved = q[i] + d * (q[j] - q[i]) / (n[j] - n[i])
            q[i] = moved
            n[i] += d


class AdaptiveWindow:
    """ADWIN (Bifet & Gavalda 2007) over buckets that keep their numbers.

    The window is cut at the significant border with the largest m (u0 - u1)^2.
    """

    def __init__(self, delta: float, bucket: int) -> None:
        self.delta, self.bucket = delta, bucket
        self.rows: list[list[list[tuple[float, float]]]] = [[]]
        self.open: list[tuple[float, float]] = []
        self.n_added = 0

    @property
    def buckets(self) -> list[list[tuple[float, float]]]:
        """All buckets, the oldest first."""
        return [bucket for row in reversed(self.rows) for bucket in row]

    def add(self, x: float, loss: float) -> tuple[int, int, list[float], list[float]] | None:
        """Add a number; return the sizes and means of a cut window, before and after the cut."""
        self.open.append((x, loss))
        if len(self.open) < self.bucket:
            return None
        self.rows[0].append(self.open)
        self.open = []
        for k in range(len(self.rows)):
            if len(self.rows[k]) == 6:
                if k + 1 == len(self.rows):
                    self.rows.append([])
                first, second = self.rows[k].pop(0), self.rows[k].pop(0)
                self.rows[k + 1].append(first + second)
        self.n_added += self.bucket
        if self.n_added < 32:
            return None
        self.n_added = 0
        dropped: list[tuple[float, float]] = []
        while (border := self._border()) is not None:
            for bucket in self.buckets[:border]:
                dropped += bucket
                next(row for row in reversed(self.rows) if row).pop(0)
        if not dropped:
            return None
        kept = [pair for bucket in self.buckets for pair in bucket]
        means = [np.mean(part, axis=0).tolist() for part in (dropped, kept)]
        return len(dropped), len(kept), means[0], means[1]

    def _border(self) -> int | None:
        buckets = [[x for x, _ in bucket] for bucket in self.buckets]
        numbers = np.array([x for bucket in buckets for x in bucket])
        n = len(numbers)
        if n < 10:
            return None
        log_term = math.log(2.0 / (self.delta / math.log(n)))
        found: dict[float, int] = {}
        for border in range(1, len(buckets)):
            n0 = sum(map(len, buckets[:border]))
            if min(n0, n - n0) < 5:
                continue
            m = 1.0 / (1.0 / n0 + 1.0 / (n - n0))
            bound = math.sqrt(2.0 / m * numbers.var() * log_term)
            bound += 2.0 / (3.0 * m) * log_term * max(numbers)
            difference = abs(numbers[:n0].mean() - numbers[n0:].mean())
            if difference > bound:
                found[m * difference**2] = border
        return found[max(found)] if found else None


class Online:
    """A gradient step followed by a penalty.

    The numbers in the comments are those of the steps in the contract.

    Parameters
    ----------
    d : int
        Number of features.
    penalty : callable
        Map (v, eta) to the weights after the step.
    loss, lr, schedule, intercept_lr, intercept_init, clip_gradient
        As in the models of the package.
    """

    def __init__(
        self,
        d: int,
        penalty: Penalty,
        *,
        loss: str = "logistic",
        lr: float | Scheduler = 0.1,
        schedule: str = "invsqrt",
        intercept_lr: float = 0.01,
        intercept_init: float = 0.0,
        clip_gradient: float = 1e12,
        quantile: float = 0.5,
        huber_delta: float = 1.0,
    ) -> None:
        self.quantile, self.huber_delta = quantile, huber_delta
        self.w = np.zeros(d)
        self.b, self.t = intercept_init, 0
        self.offset = 0.0  # of the next row
        self.penalty, self.loss, self.lr, self.schedule = penalty, loss, lr, schedule
        self.intercept_lr, self.clip_gradient = intercept_lr, clip_gradient

    def margin(self, x: Vector) -> float:
        """Return <w, x> + b."""
        return float(self.w @ x) + self.b

    def output(self, x: Vector) -> float:
        """Return the prediction: a probability, a mean, or the margin."""
        return prediction(self.loss, self.margin(x) + self.offset)

    def gradient(self, x: Vector, y: float, w: float) -> float:
        """Return the derivative of the loss at x, clipped, times the sample weight."""
        return self.gradient_at(self.margin(x), y, w)

    def gradient_at(self, a: float, y: float, w: float) -> float:
        """Return the derivative of the loss at a margin, clipped, times the sample weight."""
        slope = float(loss_functions(self)[1](a + self.offset, y))  # 1
        return min(max(slope, -self.clip_gradient), self.clip_gradient) * w  # 2

    def learn(self, x: Vector, y: float, w: float = 1.0) -> None:
        """Take one step on a row x with label y and sample weight w."""
        eta = rate(self.lr, self.schedule, self.t)
        g = self.gradient(x, y, w)
        v = self.w - eta * g * x  # 3
        self.w = self.penalty(v, eta)  # 4
        self.b -= self.intercept_lr * g  # 5
        self.t += 1  # 6

    def progressive(self, X: Matrix, y: Iterable[float], w: Iterable[float]) -> Vector:
        """Return the output for each row before learning it."""
        p = []
        for x_i, y_i, w_i in zip(X, y, w, strict=True):
            p.append(self.output(x_i))
            self.learn(x_i, y_i, w_i)
        return np.array(p)


class ElasticNet(Online):
    """FoBoS (Duchi & Singer 2009) or SGD (Lipton & Elkan 2015) with l1 + squared l2."""

    def __init__(
        self, d: int, *, l1: float = 0.0, l2: float = 0.0, update: str = "fobos", **shared: Any
    ) -> None:
        self.l1, self.l2, self.update = l1, l2, update
        super().__init__(d, self._penalty, **shared)

    def _penalty(self, v: Vector, eta: float) -> Vector:
        return {"fobos": fobos, "sgd": sgd}[self.update](v, eta, self.l1, self.l2)


def robust(x: float, n: int, total: float) -> float:
    """Return what x adds to a sum of n numbers: at most ten times their mean."""
    return min(x, 10.0 * total / n) if n and total else x


class LaneMixture:
    """The mixture of `lr="auto"`, dense; `streaml1/optim/lane_mixture.py` states the formulas.

    Nets are rows of `self.nets`, and see the values `self.views(...)`. Coins are rows of Z, G, R;
    the last column is the intercept.
    """

    wealth = np.array([0.04, 0.16, 0.64, 2.56])

    def __init__(
        self,
        d: int,
        *,
        rates: Iterable[float],
        loss: str = "logistic",
        l1: float = 0.0,
        l2: float = 0.0,
        update: str = "fobos",
        intercept_lr: float = 0.01,
        intercept_init: float = 0.0,
        clip_gradient: float = 1e12,
        min_fresh: int = 2**16,
        quantile: float = 0.5,
        huber_delta: float = 1.0,
    ) -> None:
        self.quantile, self.huber_delta = quantile, huber_delta
        self.d, self.rates, self.loss, self.l1, self.l2 = d, np.array(list(rates)), loss, l1, l2
        self.penalty = {"fobos": fobos, "sgd": sgd}[update]
        self.intercept_lr, self.clip_gradient = intercept_lr, clip_gradient
        self.base, self.min_fresh = intercept_init, min_fresh
        self.regression = loss in REGRESSION
        self.counts, self.sizes, self.largest_z = np.zeros(d), np.zeros(d), np.zeros(d)
        self.nets, self.net_bias = np.zeros((4, d)), np.zeros(4)
        self.Z, self.G, self.R = (np.zeros((4, d + 1)) for _ in range(3))
        self.L = np.full(4, 1e-100 if self.regression else 1.0)
        self.average, self.touched = np.zeros((2, d)), np.zeros(d)  # of lanes 2 and 6
        self.average_bias = np.zeros(8)
        self.share, self.coefficient = np.full(8, 1 / 8), np.full(8, 1 / 8)
        self.precision = np.eye(8) / 0.05  # of the coefficients
        self.opinions = np.array([0.0, 0.0, 1.0])  # by shares, by coefficients, the mean of both
        self.unit = 1.0
        self.n = self.targets = self.fresh = self.retained = 0
        self.weight_sum = self.norm_sum = self.scaled_norm_sum = self.deviation_sum = 0.0
        self.risk = self.average_risk = 0.0
        self.stale_risk = self.slow_risk = self.lane_risk = 0.0
        # The weights of the mixture and of lane 1 as of the snapshot, for features touched since.
        self.stale, self.snapshot = np.zeros((2, d)), 0
        self.stale_share, self.stale_bias = np.zeros(8), np.zeros(8)
        self.offset = self.exposure = 0.0  # of the next row; sum of exp(offset)
        self.positives = self.negatives = 0.5
        self.first: list[Vector] = []  # the rows that decide about origins
        self.origin = np.zeros(d)
        self.ceiling = 12.0 if self.regression else 3.0
        self.smallest = self.largest = intercept_init
        self.low, self.high = (intercept_init,) * 2 if self.regression else (-5.0, 5.0)

    def scaled(self, x: Vector) -> tuple[Vector, Vector, Vector]:
        """Return sizes as they count, scaled values, and the largest of these per feature."""
        seen = x != 0.0
        size, z = np.abs(x), np.zeros(self.d)
        known = seen & (self.counts > 0.0)
        size[known] = np.minimum(size, 10.0 * self.sizes / np.maximum(self.counts, 1.0))[known]
        z[seen] = x[seen] / ((self.sizes + size)[seen] / (self.counts[seen] + 1.0))
        if self.loss == "poisson":
            z = np.clip(z, -3.0, 3.0)
        else:
            large, a = np.abs(z) > 1.0, self.ceiling
            z[large] = np.sign(z[large]) * (a - (a - 1.0) ** 2 / (np.abs(z[large]) + a - 2.0))
        return size, z, np.maximum(self.largest_z, np.abs(z))

    def shifted(self, x: Vector) -> Vector:
        """Return the non-zeros of x less the origins of their features."""
        return np.where(x != 0.0, x - self.origin, 0.0)

    def choose_origins(self) -> None:
        """Give origins to the features that are in all of the first rows, and start them anew."""
        for j, values in enumerate(np.array(self.first).T):
            if np.any(values == 0.0) or np.all(values == values[0]):
                continue
            self.origin[j] = np.sort(values)[1:-1].mean()
            self.counts[j] = self.sizes[j] = self.largest_z[j] = self.touched[j] = 0.0
            for state in (self.nets, self.Z, self.G, self.R, self.average, self.stale):
                state[:, j] = 0.0

    @property
    def supported(self) -> NDArray[np.bool_]:
        return np.abs(self.Z[2, :-1]) > self.l1 * self.n

    def coin_weights(self) -> Matrix:
        """Return the weight of each bet, shape (4, d + 1)."""
        unit = self.L if self.loss == "squared" else self.unit
        if self.loss in ("huber", "quantile"):
            unit = self.unit * self.L
        if self.loss == "poisson":
            unit = 1.0
        stake = (self.wealth * unit)[:, None] + self.R / self.L[:, None]
        threshold, l2 = np.full(self.d + 1, self.l1 * self.n), np.full(self.d + 1, self.l2 * self.n)
        threshold[-1] = l2[-1] = 0.0
        soft = np.sign(self.Z) * np.maximum(np.abs(self.Z) - threshold, 0.0)
        return np.asarray(soft * stake / (self.L[:, None] + self.G + l2))

    def averaged(self, bets: Matrix) -> Matrix:
        """Return the averaged weights of lanes 2 and 6 as of now."""
        elapsed = self.n - self.touched
        share = elapsed / (elapsed + max(1.0, 0.25 * self.n))
        now = np.array([self.nets[2], bets[2, :-1]])
        return np.asarray(self.average + (now - self.average) * share)

    def intercepts(self, bets: Matrix) -> Vector:
        """Return the intercept of each lane, over `base`."""
        return np.concatenate([self.net_bias, bets[:, -1]])

    def lanes(self, x: Vector, z: Vector, largest: Vector, bets: Matrix) -> tuple[Vector, Vector]:
        """Return the margins of the eight lanes, and those of the averages of lanes 2 and 6."""
        supported = self.supported
        z = z * supported
        x = x * supported
        bet = np.divide(z, largest, out=np.zeros(self.d), where=largest > 0.0)
        nets = [self.nets[0] @ x, *(self.nets[1:] @ z)]
        margins = np.concatenate([nets, bets[:, :-1] @ bet])
        margins = margins + self.intercepts(bets) + self.base
        average = self.averaged(bets)
        averages = np.array([average[0] @ z, average[1] @ bet]) + self.average_bias[[2, 6]]
        averages = averages + self.base
        return margins, averages

    def margin(self, x: Vector) -> float:
        """Return the combined margin."""
        x = self.shifted(x)
        _, z, largest = self.scaled(x)
        return self.combined(self.lanes(x, z, largest, self.coin_weights())[0])

    def combined(self, margins: Vector) -> float:
        """Return the combined margin of the eight lanes."""
        mixed = self.mixed_margins(margins)
        return self.bounded(self.base + float(self.mixture @ (mixed - self.base)))

    def mixed_margins(self, margins: Vector) -> Vector:
        """Return the margins of the lanes as they count in the mixture."""
        clipped = np.clip(margins, self.low, self.high)
        lead = 0.5
        if self.regression and self.loss != "poisson":
            lead *= self.deviation_sum / max(self.targets, 1)
        others = clipped[1:]
        clipped[0] = np.clip(clipped[0], others.min() - lead, others.max() + lead)
        return clipped

    @property
    def mixture(self) -> Vector:
        """The weights of the lanes."""
        both = (self.share + self.coefficient) / 2.0
        return self.opinions @ np.array([self.share, self.coefficient, both])

    def bounded(self, a: float) -> float:
        """Return a margin within the range, if its exponential is the prediction."""
        return min(max(a, self.low), self.high) if self.loss == "poisson" else a

    def output(self, x: Vector) -> float:
        """Return the prediction: a probability, a mean, or the margin."""
        return prediction(self.loss, self.margin(x) + self.offset)

    @property
    def choice(self) -> str:
        """What is published: what would have predicted best since the snapshots."""
        age = max(1.0, self.slow_risk / self.lane_risk) if self.lane_risk else 1.0
        risks = {
            "averages": self.average_risk * age,
            "mixture": self.stale_risk,
            "slow": self.slow_risk,
        }
        return min(risks, key=risks.__getitem__)

    def published(self, x: Vector) -> float:
        """Return the margin of the frozen model."""
        x = self.shifted(x)
        _, z, largest = self.scaled(x)
        margins, averages = self.lanes(x, z, largest, self.coin_weights())
        if self.choice == "mixture":
            return self.combined(margins)
        served = margins[[1]] if self.choice == "slow" else averages
        return float(np.clip(served, self.low, self.high).mean())

    def snapshot_weights(self, bets: Matrix) -> Matrix:
        """Return the weights of x as of the snapshot: of the mixture, and of lane 1."""
        seen = self.counts > 0.0
        unit = np.divide(self.counts, self.sizes, out=np.zeros(self.d), where=seen)
        bet = np.divide(unit, self.largest_z, out=np.zeros(self.d), where=seen)
        of_x = np.vstack([self.nets[0], self.nets[1:] * unit, bets[:, :-1] * bet])
        now = np.array([self.stale_share @ of_x, of_x[1]])
        return np.where(self.touched < self.snapshot, now, self.stale)

    @property
    def w(self) -> Vector:
        """The weights of the published model, for unscaled values."""
        seen = self.supported & (self.counts > 0.0)
        unit, bet = np.zeros(self.d), np.zeros(self.d)
        unit[seen] = self.counts[seen] / self.sizes[seen]
        bet[seen] = unit[seen] / self.largest_z[seen]
        bets = self.coin_weights()
        if self.choice == "slow":
            return np.asarray(self.nets[1] * unit)
        if self.choice == "mixture":
            lanes = np.vstack([self.nets[0] * seen, self.nets[1:] * unit, bets[:, :-1] * bet])
            return np.asarray(self.mixture @ lanes)
        average = self.averaged(bets)
        return np.asarray((average[0] * unit + average[1] * bet) / 2.0)

    @property
    def b(self) -> float:
        return self.intercept_at_origins - float(self.w @ self.origin)

    @property
    def intercept_at_origins(self) -> float:
        lanes = self.intercepts(self.coin_weights())
        if self.choice == "mixture":
            return float(self.mixture @ lanes) + self.base
        if self.choice == "slow":
            return float(lanes[1]) + self.base
        return float(self.average_bias[[2, 6]].mean()) + self.base

    def learn(self, x: Vector, y: float, w: float) -> float:
        """Take one step of each lane, and of the mixture; return the margin before it."""
        value, derivative = loss_functions(self)
        bets = self.coin_weights()
        if len(self.first) < 16:
            self.first.append(x)
        x = self.shifted(x)
        size, z, largest_z = self.scaled(x)
        margins, averages = self.lanes(x, z, largest_z, bets)
        clipped = np.clip(margins, self.low, self.high)
        margin = a = self.combined(margins)
        centre = self.base
        mixed = self.mixed_margins(margins)
        said = np.array([self.share, self.coefficient]) @ (mixed - centre) + centre
        said = np.array([self.bounded(float(one)) for one in said])
        stale = self.snapshot_weights(bets)
        clipped_x = z * (self.sizes + size) / (self.counts + 1.0)
        late = stale @ (clipped_x * self.supported) + np.array(
            [self.stale_share @ self.stale_bias + self.base, self.stale_bias[1] + self.base]
        )
        average_now = np.array([self.nets[2], bets[2, :-1]])
        intercepts = self.intercepts(bets)
        w = self._relative(w)
        low, high = self.low, self.high
        offset = self.offset
        if self.regression and w > 0.0:
            if self.loss == "poisson":
                y = self._count_event(y, a)
            else:
                starts = not self.targets and self.intercept_lr > 0.0
                y = self._count_target(y - offset, a) + offset
                if starts:  # nothing is learnt from the first target
                    a = low = high = centre = self.base
                    said = np.full(2, a)
                    margins = clipped = mixed = np.full(8, a)
                    averages, late = np.full((2, 2), a)
        a, averages = a + offset, np.clip(averages, low, high) + offset
        late = np.clip(late, low, high) + offset
        margins, inside = margins + offset, clipped + offset
        if self.loss == "logistic":
            self.positives += w * (y > 0.0)
            self.negatives += w * (y <= 0.0)
            odds = math.log(self.positives / self.negatives)
            bound = max(5.0, math.log((self.n + 1.0) / (self.risk + 1.0)) + 3.0)
            self.low, self.high = min(odds - 2.0, -bound), max(odds + 2.0, bound)
        self.unit = self._unit()
        if self.loss == "poisson":
            slope = derivative
            derivative = lambda a, y: slope(a, y) / max(1.0, self.unit * math.exp(a))  # noqa: E731
        g = np.array([derivative(m, y) for m in (inside if self.regression else margins)])
        g = np.clip(g, -self.clip_gradient, self.clip_gradient) * w
        self.L = np.maximum(self.L, np.abs(g[4:]))
        eta = self._rates(float(np.linalg.norm(x)), float(np.linalg.norm(z)))
        # The mixture.
        smallest = value(math.log(max(y, 1e-300)), y) if self.loss == "poisson" else 0.0
        self.risk += (value(a, y) - smallest) * w
        average = float(averages.mean())
        self.average_risk += (value(average, y) - smallest) * w * self.n
        self.stale_risk += (value(float(late[0]), y) - smallest) * w * self.n
        self.slow_risk += (value(float(late[1]), y) - smallest) * w * self.n
        self.lane_risk += (value(float(inside[1]), y) - smallest) * w * self.n
        self._mix(mixed, said, centre, y, w)
        # Averages, as of before this step.
        t = self.n - 1
        touched = x != 0.0
        elapsed = t - self.touched[touched]
        share = elapsed / (elapsed + max(1.0, 0.25 * t))
        change = (average_now - self.average)[:, touched] * share
        self.average[:, touched] += change
        self.average[:, touched & (self.counts == 0.0)] = 0.0
        self.stale[:, touched] = stale[:, touched]
        self.touched[touched] = t
        window = 1.0 + min(t, max(1.0, 0.25 * t))
        self.average_bias = self.average_bias + (intercepts - self.average_bias) / window
        # The lanes.
        slope = self.intercept_lr * (30.0 if self.regression else 7.0) * self.unit
        for k in range(4):
            v = x if k == 0 else z
            moved = self.nets[k] - eta[k] * g[k] * v
            self.nets[k] = self.penalty(moved, eta[k], self.l1, self.l2)
            self.net_bias[k] -= slope * self.rates[k] / self.n**0.25 * g[k]
        bet = np.divide(z, largest_z, out=np.zeros(self.d), where=largest_z > 0.0)
        u = -g[4:, None] * np.append(bet, 1.0 if self.intercept_lr > 0.0 else 0.0)
        self.R = np.maximum(self.R + bets * u, 0.0)
        self.Z, self.G = self.Z + u, self.G + np.abs(u)
        # The features.
        self.fresh += int(np.sum(touched & (self.counts == 0.0)))
        self.counts[touched] += 1.0
        self.sizes += size
        self.largest_z = largest_z
        if self.n == 16 and self.loss != "poisson":
            self.choose_origins()
        if self.n >= self.snapshot + max(1, self.snapshot // 4):
            self.snapshot = self.n
            self.stale_share = self.mixture
            self.stale_bias = self.intercepts(self.coin_weights())
        if self.l1 > 0.0 and self.fresh >= max(self.min_fresh, self.retained):
            self._forget()
        return margin

    def _mix(self, lanes: Vector, said: Vector, centre: float, y: float, w: float) -> None:
        """Learn shares, coefficients and opinions; `said` are the predictions of the first two."""
        value, derivative = loss_functions(self)
        temperature = 2.0 if self.loss == "squared_hinge" else 1.0
        if self.regression:
            temperature = 2.0 * self.risk / self.n
        if temperature <= 0.0:
            return
        loss = np.array([value(m, y) for m in lanes + self.offset])
        excess = np.minimum((loss - loss.min()) * w / temperature, 50.0)
        self.share = self.share * np.exp(-excess)
        self.share = 0.999 * self.share / self.share.sum() + 1e-3 / 8
        said = said + self.offset
        loss = np.array([value(one, y) for one in (*said, said.mean())])
        excess = np.minimum((loss - loss.min()) * w / temperature, 50.0)
        self.opinions = self.opinions * np.exp(-excess)
        self.opinions = 0.999 * self.opinions / self.opinions.sum() + 1e-3 / 3
        g = derivative(float(said[1]), y)
        if self.loss == "poisson":
            g /= max(1.0, self.unit * math.exp(said[1]))
        gradient = g / temperature * (lanes - centre)
        forgets = np.linalg.inv(self.precision).trace() < 0.8 * 8 * 0.05
        self.precision = self.precision + w * np.outer(gradient, gradient)
        self.coefficient = self.coefficient - np.linalg.solve(self.precision, w * gradient)
        if forgets:
            self.precision = self.precision * (1.0 - 1.0 / min(4.0 + self.n / 4.0, 1e4))

    def _relative(self, w: float) -> float:
        counted = robust(w, self.n, self.weight_sum)
        self.n += 1
        self.weight_sum += counted
        return counted / (self.weight_sum / self.n) if self.weight_sum else 0.0

    def _count_target(self, y: float, a: float) -> float:
        if not self.targets and self.intercept_lr > 0.0:
            self.base = self.smallest = self.largest = y
        deviation = abs(y - self.base)
        if self.targets and self.deviation_sum:
            limit = 10.0 * self.deviation_sum / self.targets
            y = float(np.clip(y, min(self.base, a) - limit, max(self.base, a) + limit))
        self.deviation_sum += robust(deviation, self.targets, self.deviation_sum)
        self.targets += 1
        self.smallest, self.largest = min(self.smallest, y), max(self.largest, y)
        slack = 0.5 * (self.largest - self.smallest)
        self.low, self.high = self.smallest - slack, self.largest + slack
        if self.intercept_lr > 0.0:
            self.base += (y - self.base) / self.targets
        return y

    def _count_event(self, y: float, a: float) -> float:
        if self.targets:
            mean = self.deviation_sum / self.targets
            y = min(y, 10.0 * max(mean, math.exp(a + self.offset), 1.0))
        self.targets += 1
        self.exposure += math.exp(self.offset)
        self.deviation_sum += y
        mean = max(self.deviation_sum, 0.5) / self.exposure
        if y > 0.0:
            self.smallest = min(self.smallest, math.log(y) - self.offset)
            self.largest = max(self.largest, math.log(y) - self.offset)
        self.low = min(math.log(mean) - 5.0, self.smallest - 2.0)
        self.high = max(math.log(mean), self.largest) + 2.0
        if self.intercept_lr > 0.0:
            self.base = math.log(mean)
        return y

    def _unit(self) -> float:
        mean = self.deviation_sum / max(self.targets, 1)
        units = {
            "absolute": mean,
            "huber": max(1.0, mean / self.huber_delta),
            "quantile": mean / max(self.quantile, 1.0 - self.quantile),
            "poisson": 1.0 / max(mean, 1.0),
            "squared_hinge": 0.5,
        }
        return units.get(self.loss, 1.0)

    def _rates(self, norm: float, scaled_norm: float) -> Vector:
        """Return the rates of the nets in this step."""
        t = self.n - 1
        if t == 16 and np.any(self.origin):
            self.norm_sum = 16.0 * norm
        self.norm_sum += robust(norm, t, self.norm_sum)
        self.scaled_norm_sum += robust(scaled_norm, t, self.scaled_norm_sum)
        eta = self.rates * self.unit / self.n**0.25
        for lanes, size, total in ((slice(0, 1), norm, self.norm_sum),
                                   (slice(1, 4), scaled_norm, self.scaled_norm_sum)):  # fmt: skip
            q = max((total / self.n) ** 2, size**2 / 16.0)
            eta[lanes] *= min(1.0 / q, 1e100) if q else 1.0
        return eta

    def _forget(self) -> None:
        gone = (self.counts > 0.0) & ~self.supported
        for array in (self.counts, self.sizes, self.largest_z, self.touched):
            array[gone] = 0.0
        for table in (self.nets, self.average, self.stale, self.Z, self.G, self.R):
            table[:, : self.d][:, gone] = 0.0
        self.retained = int(np.sum(self.counts > 0.0))
        self.fresh = 0

    def progressive(self, X: Matrix, y: Iterable[float], w: Iterable[float]) -> Vector:
        """Return the output for each row before learning it."""
        rows = zip(X, y, w, strict=True)
        return np.array([prediction(self.loss, self.learn(*row) + self.offset) for row in rows])


class TruncatedGradient(Online):
    """Truncated gradient (Langford, Li & Zhang 2009): a pull every `period` steps."""

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

    def _penalty(self, v: Vector, eta: float) -> Vector:
        if (self.t + 1) % self.period:
            return v
        pulled = fobos(v, eta, self.period * self.gravity, 0.0)
        return np.where(np.abs(v) <= self.threshold, pulled, v)


class FTRL(Online):
    """FTRL-Proximal (McMahan et al. 2013, Algorithm 1); w is stored in addition to z and n."""

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

    def learn(self, x: Vector, y: float, w: float = 1.0) -> None:
        """Take one step with a rate for each coordinate."""
        g = self.gradient(x, y, w)
        G = g * x
        sigma = (np.sqrt(self.n + G**2) - np.sqrt(self.n)) / self.alpha
        self.z = self.z + G - sigma * self.w
        self.n = self.n + G**2
        inverse_rate = (self.beta + np.sqrt(self.n)) / self.alpha + self.l2
        self.w = np.where(
            np.abs(self.z) <= self.l1, 0.0, (np.sign(self.z) * self.l1 - self.z) / inverse_rate
        )
        self.b -= self.intercept_lr * g
        self.t += 1


class OnScaledFeatures(Online):
    """A learner that sees values over the mean size of their feature, clipped to 3.

    Means of sizes count each size for at most ten times the mean before it. The last coordinate is
    the intercept, a feature that is always 1. A feature of each of the first 16 rows is measured
    from its mean in them without the extremes, and targets from the mean of those so far.
    """

    def __init__(self, d: int, **shared: Any) -> None:
        self.count, self.mean = np.zeros(d), np.zeros(d)
        super().__init__(d, lambda v, eta: v, **shared)
        self.initial_b = self.b
        self.first: list[Vector] = []
        self.origin = np.zeros(d)
        self.targets, self.centre = 0, 0.0
        self.distances = MeanSize()  # of targets; 1 for labels

    def shifted(self, x: Vector) -> Vector:
        """Return the non-zeros of x less the origins of their features."""
        return np.where(x != 0.0, x - self.origin, 0.0)

    def choose_origins(self) -> None:
        """Start the features anew that are in all of the first rows with different values."""
        first = np.sort(np.array(self.first), axis=0)
        has = np.all(first != 0.0, axis=0) & (first[0] < first[-1])
        self.origin = np.where(has, first[1:-1].mean(axis=0), 0.0)
        self.count, self.mean = np.where(has, 0.0, [self.count, self.mean])
        self.forget(has)

    def forget(self, has: NDArray[np.bool_]) -> None:
        """Clear what was learnt of some features."""
        raise NotImplementedError

    def gradient_of(self, a: float, y: float, w: float) -> float:
        """Count the target, and return the gradient at a margin without the centre."""
        is_target = self.loss in REGRESSION and self.loss != "poisson"
        distance = abs(y - self.offset - self.centre) if is_target else 1.0
        if is_target and self.intercept_lr > 0.0:
            distance = distance if self.targets else 0.0
            if w > 0.0:
                limit = 10.0 * self.distances.mean
                limit = limit if self.targets and limit > 0.0 else math.inf
                move = y - self.offset - self.centre
                self.targets += 1
                self.centre += min(max(move, -limit), limit) / self.targets
        g = self.gradient_at(a + self.centre, y, w)
        self.distances.add(distance, zeros=True)
        return g

    def scaled(self, x: Vector) -> tuple[Vector, Vector]:
        """Return the scaled values of a row, and 1; and the mean of |x| per feature after the row.

        The row counts in the means that scale it.
        """
        sizes = np.abs(x)
        sizes = np.where(self.count > 0, np.minimum(sizes, 10.0 * self.mean), sizes)
        after = (self.count * self.mean + sizes) / (self.count + 1)
        means = np.where(x != 0.0, after, self.mean)
        z = np.ones(len(x) + 1)
        z[:-1] = np.divide(x, means, out=np.zeros_like(x), where=x != 0.0)
        return np.minimum(np.maximum(z, -3.0), 3.0), means

    def margin(self, x: Vector) -> float:
        """Return the margin, with x itself among the rows that set the scales."""
        return self.scaled_margin(self.scaled(self.shifted(x))[0]) + self.centre

    def scaled_margin(self, z: Vector) -> float:
        """Return the margin of scaled values, without the centre."""
        raise NotImplementedError

    def step(self, x: Vector, y: float, w: float) -> float:
        """Take one step on a shifted row; return the margin before it, without the centre."""
        raise NotImplementedError

    def publish(self) -> None:
        """Set the weights per unit of x, and the intercept."""
        raise NotImplementedError

    def learn(self, x: Vector, y: float, w: float = 1.0) -> None:
        """Take one step."""
        self.margin_before(x, y, w)

    def margin_before(self, x: Vector, y: float, w: float) -> float:
        """Take one step; return the margin before it."""
        centre = self.centre
        a = self.step(self.shifted(x), y, w) + centre
        if self.t < 16 and self.loss != "poisson":
            self.first.append(x)
            if len(self.first) == 16:
                self.choose_origins()
        self.t += 1
        self.publish()
        self.b += self.centre - float(self.w @ self.origin)
        return a

    def progressive(self, X: Matrix, y: Iterable[float], w: Iterable[float]) -> Vector:
        """Return the output for each row before learning it."""
        margins = [self.margin_before(*row) + self.offset for row in zip(X, y, w, strict=True)]
        return np.array([prediction(self.loss, a) for a in margins])


class ScaledFTRL(OnScaledFeatures):
    """FTRL-Proximal on scaled features; `w` is per unit of x."""

    def __init__(
        self,
        d: int,
        *,
        alpha: float | str = "auto",
        beta: float = 1.0,
        l1: float = 1.0,
        l2: float = 0.0,
        **shared: Any,
    ) -> None:
        self.alpha, self.beta, self.l1, self.l2 = alpha, beta, l1, l2
        self.squares = MeanSize()
        self.theta, self.n = np.zeros(d + 1), np.zeros(d + 1)
        self.v = np.zeros(d + 1)  # weights of scaled values
        self.rate = 1.0 if alpha == "auto" else float(alpha)
        super().__init__(d, **shared)

    def scaled_margin(self, z: Vector) -> float:
        """Return the margin of scaled values."""
        return float(self.v @ z) + self.initial_b

    def step(self, x: Vector, y: float, w: float) -> float:
        """Take one step with a rate for each coordinate."""
        z, means = self.scaled(x)
        a = self.scaled_margin(z)
        g = self.gradient_of(a, y, w)
        self.mean, self.count = means, self.count + (x != 0.0)
        G = g * z
        if self.intercept_lr == 0.0:
            G[-1] = 0.0
        before, self.n = np.sqrt(self.n), self.n + G**2
        root = np.sqrt(self.n)
        self.theta = self.theta + G - (root - before) / self.rate * self.v
        self.squares.add(float(z @ z))
        size = max(self.distances.mean, 1e-150)
        if self.alpha == "auto":
            self.rate = 3.0 * size / math.sqrt(self.squares.mean)
        else:
            self.rate = float(self.alpha)
        l1, l2 = np.full((2, len(self.v)), [[self.l1], [self.l2]])
        l1[-1] = l2[-1] = 0.0
        excess = np.maximum(np.abs(self.theta) - l1, 0.0) * -np.sign(self.theta)
        self.v = excess / ((self.beta * size + root) / self.rate + l2)
        return a

    def forget(self, has: NDArray[np.bool_]) -> None:
        """Clear what was learnt of some features."""
        for sums in (self.theta, self.n, self.v):
            sums[:-1][has] = 0.0

    def publish(self) -> None:
        """Set the weights per unit of x, and the intercept."""
        v, mean = self.v[:-1], self.mean
        self.w = np.divide(v, mean, out=np.zeros_like(v), where=mean > 0.0)
        self.b = self.initial_b + self.v[-1]


class AdaptiveElasticNet(Online):
    """Composite mirror descent with AdaGrad's rates (Duchi, Hazan & Singer 2011)."""

    def __init__(
        self,
        d: int,
        *,
        lr: float = 0.3,
        delta: float = 0.1,
        l1: float = 0.0,
        l2: float = 0.0,
        **shared: Any,
    ) -> None:
        self.delta, self.l1, self.l2 = delta, l1, l2
        self.n = np.zeros(d)
        super().__init__(d, lambda v, eta: v, lr=lr, schedule="constant", **shared)

    def learn(self, x: Vector, y: float, w: float = 1.0) -> None:
        """Take one step with a rate for each coordinate, and penalize all at these rates."""
        g = self.gradient(x, y, w)
        self.n = self.n + (g * x) ** 2
        eta = self.lr / (self.delta + np.sqrt(self.n))
        v = self.w - eta * g * x
        self.w = np.sign(v) * np.maximum(np.abs(v) - eta * self.l1, 0.0) / (1.0 + eta * self.l2)
        self.b -= self.intercept_lr * g
        self.t += 1


class CoinBetting(OnScaledFeatures):
    """COCOB per coordinate (Orabona & Tommasi 2017), on scaled features.

    `w` is per unit of x: the weight of a scaled value over the mean of |x|.
    """

    def __init__(self, d: int, *, wealth: float = 0.64, l1: float = 0.0, **shared: Any) -> None:
        self.wealth, self.l1 = wealth, l1
        self.s = np.append(np.zeros(d), 1.0)
        self.theta, self.G, self.R, self.L = np.zeros((4, d + 1))
        self.weights = MeanSize()
        self.max_gradient = 0.0
        super().__init__(d, **shared)
        self.bets = np.zeros(d + 1)  # the weights of z / s

    def _bets(self) -> Vector:
        """Return the weights of z / s after a step."""
        threshold = np.full(len(self.theta), self.l1)
        threshold[-1] = 0.0
        size = np.maximum(np.abs(self.theta) - threshold, 0.0)
        total = self.L + self.G
        fraction = np.divide(size, total, out=np.zeros_like(size), where=total > 0.0)
        return np.sign(self.theta) * fraction * (self.wealth * self.distances.mean + self.R)

    def scaled_margin(self, z: Vector) -> float:
        """Return the margin of scaled values."""
        s = np.maximum(np.maximum(self.s, np.abs(z)), 1.0)
        return float(self.bets @ (z / s)) + self.initial_b

    def step(self, x: Vector, y: float, w: float) -> float:
        """Bet on each coordinate."""
        z, means = self.scaled(x)
        a, bets = self.scaled_margin(z), self.bets
        g = self.gradient_of(a, y, w)
        self.weights.add(w)
        unbounded = self.loss in ("squared", "huber", "poisson")
        floor = 0.0 if unbounded else self.weights.mean
        limit = 2.0 * max(self.max_gradient, floor)
        if limit > 0.0:
            g = min(max(g, -limit), limit)
        self.max_gradient = max(self.max_gradient, floor, abs(g))
        self.mean, self.count = means, self.count + (x != 0.0)
        self.s = np.maximum(self.s, np.abs(z))
        u = -g * z / np.maximum(self.s, 1.0)
        here = z != 0.0
        here[-1] = self.intercept_lr > 0.0
        L = np.maximum(self.L, np.maximum(floor, np.abs(u)))
        gain = np.divide(bets * u, L, out=np.zeros_like(u), where=L > 0.0)
        self.L = np.where(here, L, self.L)
        self.R = np.where(here, np.maximum(self.R + gain, 0.0), self.R)
        self.theta = self.theta + here * u
        self.G = self.G + here * np.abs(u)
        self.bets = self._bets()
        return a

    def forget(self, has: NDArray[np.bool_]) -> None:
        """Clear what was learnt of some features."""
        for sums in (self.s, self.theta, self.G, self.R, self.L, self.bets):
            sums[:-1][has] = 0.0

    def publish(self) -> None:
        """Set the weights per unit of x, and the intercept."""
        scale = self.mean * self.s[:-1]
        self.w = np.divide(self.bets[:-1], scale, out=np.zeros_like(self.w), where=scale > 0.0)
        self.b = self.initial_b + self.bets[-1]


class MeanSize:
    """The mean of sizes, each of which counts for at most ten times the mean before it."""

    def __init__(self) -> None:
        self.n, self.mean = 0, 0.0

    def add(self, size: float, zeros: bool = False) -> None:
        """Count a size; zeros only if `zeros`."""
        if size > 0.0 or zeros:
            counted = min(size, 10.0 * self.mean) if self.mean > 0.0 else size
            self.mean = (self.n * self.mean + counted) / (self.n + 1)
            self.n += 1


class Pegasos(Online):
    """Pegasos (Shalev-Shwartz, Singer & Srebro 2007) with batches of one example."""

    def __init__(self, d: int, *, l2: float = 1e-4, project: bool = True, **shared: Any) -> None:
        self.l2, self.project = l2, project
        super().__init__(d, lambda v, eta: v, **{"loss": "hinge", **shared})

    def learn(self, x: Vector, y: float, w: float = 1.0) -> None:
        """Take one step at the rate 1 / (l2 (t + 1)), and project if the weights are too long."""
        eta = 1.0 / (self.l2 * (self.t + 1))
        g = self.gradient(x, y, w)
        self.w = (1.0 - eta * self.l2) * self.w - eta * g * x
        squared = 1.0 if self.loss == "hinge" else 2.0 * np.log(2.0)
        norm, radius = np.linalg.norm(self.w), np.sqrt(squared / self.l2)
        if self.project and norm > radius:
            self.w = self.w * (radius / norm)
        self.b -= self.intercept_lr * g
        self.t += 1


class L1Ball(Online):
    """Projected gradient on the l1 ball, or on its nonnegative part (Duchi et al. 2008)."""

    def __init__(
        self, d: int, *, radius: float = 10.0, nonnegative: bool = False, **shared: Any
    ) -> None:
        self.radius, self.nonnegative = radius, nonnegative
        super().__init__(d, self._penalty, **shared)

    def _penalty(self, v: Vector, eta: float) -> Vector:
        return l1_ball(np.maximum(v, 0.0) if self.nonnegative else v, self.radius)


class FOBOS(Online):
    """FoBoS with the norm of the whole weight vector (Duchi & Singer 2009)."""

    def __init__(self, d: int, *, strength: float = 1e-4, norm: str = "l2", **shared: Any) -> None:
        self.strength = strength
        prox = {"l2": l2_norm, "linf": linf_norm}[norm]
        super().__init__(d, lambda v, eta: prox(v, eta * self.strength), **shared)


class SMIDAS(Online):
    """Sparse p-norm mirror descent (Shalev-Shwartz & Tewari 2009, Algorithm 3)."""

    def __init__(self, d: int, *, l1: float, p: float, **shared: Any) -> None:
        self.theta, self.l1, self.p = np.zeros(d), l1, p
        super().__init__(d, self._penalty, **shared)

    def _penalty(self, v: Vector, eta: float) -> Vector:
        theta = self.theta + (v - self.w)  # the gradient step applies to theta, not to w
        theta = np.sign(theta) * np.maximum(np.abs(theta) - eta * self.l1, 0.0)
        self.theta = theta
        largest = np.max(np.abs(theta))
        if largest == 0.0:
            return theta
        norm = largest * np.sum((np.abs(theta) / largest) ** self.p) ** (1.0 / self.p)
        return theta * (np.abs(theta) / norm) ** (self.p - 2.0)


class EG(Online):
    """EG+- and EG (Kivinen & Warmuth 1997), with the logarithms of the weights as state."""

    def __init__(
        self, d: int, *, radius: float = 10.0, nonnegative: bool = False, **shared: Any
    ) -> None:
        self.theta, self.radius, self.nonnegative = np.zeros(d), radius, nonnegative
        super().__init__(d, self._penalty, **shared)
        self.w = self._penalty(self.w, 0.0)

    def _penalty(self, v: Vector, eta: float) -> Vector:
        self.theta = self.theta + (v - self.w)  # the sum of all gradient steps
        logs = self.theta if self.nonnegative else np.append(self.theta, -self.theta)
        all_weights = np.exp(logs - np.max(logs))
        all_weights *= self.radius / np.sum(all_weights)
        d = len(self.theta)
        return all_weights if self.nonnegative else all_weights[:d] - all_weights[d:]


def averaged(kind: type[Any]) -> type[Any]:
    """Return the twin that predicts with the mean of the weights after each step of `kind`."""

    class Averaged(kind):  # type: ignore[misc]
        current: Any = None  # weights and intercept of the last step; w and b hold their means

        def learn(self, x: Vector, y: float, w: float = 1.0) -> None:
            if self.current is None:
                self.current, self.sums = (self.w, self.b), [0.0, 0.0]
            self.w, self.b = self.current
            super().learn(x, y, w)
            self.current = self.w, self.b
            self.sums = [total + term for total, term in zip(self.sums, self.current, strict=True)]
            self.w, self.b = (total / self.t for total in self.sums)

    return Averaged


# Multiclass: w has shape (d, k), one row per feature and one column per class.


def rows_l1(v: Matrix, c: float | Matrix) -> Matrix:
    """Apply the proximal step of c times the sum of all sizes."""
    return np.sign(v) * np.maximum(np.abs(v) - c, 0.0)


def rows_l2(v: Matrix, c: float | Matrix) -> Matrix:
    """Apply the proximal step of c times the sum of the l2 norms of the rows."""
    norms = np.linalg.norm(v, axis=1, keepdims=True)
    return np.where(norms > c, v * (1.0 - c / np.maximum(norms, 1e-300)), 0.0)


def rows_linf(v: Matrix, c: float | Matrix) -> Matrix:
    """Apply the proximal step of c times the sum of the l-infinity norms of the rows.

    By Moreau's decomposition it is v minus the projection of its rows onto the l1 ball of radius c:
    `l1_ball`, of all rows at once.
    """
    if np.all(np.asarray(c) <= 0.0):
        return v
    sizes = np.abs(v)
    mu = np.sort(sizes, axis=1)[:, ::-1]
    theta = (mu.cumsum(axis=1) - c) / ranks(v.shape[1])
    last = np.where(mu > theta, ranks(v.shape[1]) - 1, 0).max(axis=1)
    level = np.take_along_axis(theta, last[:, None], axis=1)
    projected = np.sign(v) * np.maximum(sizes - level, 0.0)
    return np.where(sizes.sum(axis=1, keepdims=True) <= c, 0.0, v - projected)


ROWS = {"l1": rows_l1, "l1/l2": rows_l2, "l1/linf": rows_linf}
"""Proximal steps by the name of the penalty."""


class Softmax:
    """Multinomial logistic regression (Duchi & Singer 2009).

    Labels are 0, 1, 2, ...; a new one joins with zero weights at its first example.
    """

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
        lr: float | Scheduler = 0.1,
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

    def output(self, x: Vector) -> Vector:
        """Return the probability of each class."""
        a = x @ self.w + self.b
        e = np.exp(a - a.max(initial=-np.inf))
        return e / e.sum()

    def intercepts(self) -> Vector:
        """Return the intercepts that belong to `w`."""
        return self.b

    def learn(self, x: Vector, y: int, w: float = 1.0) -> Vector:
        """Take one step; return the probabilities before it, the new class included."""
        eta, n_new = rate(self.lr, self.schedule, self.t), max(0, y + 1 - len(self.b))
        self.w = np.hstack([self.w, np.zeros((len(x), n_new))])
        self.b = np.append(self.b, np.full(n_new, self.intercept_init))
        p = self.output(x)
        g = np.clip(p - (np.arange(len(p)) == y), -self.clip_gradient, self.clip_gradient) * w
        v = self.w - eta * np.outer(x, g)
        self.w = self._penalty(v, eta)
        self.b = self.b - self.intercept_lr * g
        self.t += 1
        return p

    def _penalty(self, v: Matrix, eta: float) -> Matrix:
        if self.penalty == "ball":  # one ball for each class
            v = np.maximum(v, 0.0) if self.nonnegative else v
            return np.array([l1_ball(column, self.radius) for column in v.T]).T
        return ROWS[self.penalty](v, eta * self.strength) / (1.0 + eta * self.l2)


class ScaledSoftmax(Softmax):
    """Multinomial logistic regression on scaled features; `w` is per unit of x.

    A value is seen over the mean size of its feature, saturated. Each feature has the rate of
    AdaGrad for its row of weights. One whose weights are all zero after the first 16 rows has
    neither a mean nor gradients. One that is in each of these rows is then learnt from its distance
    to a trimmed mean, starting anew.
    The rate of a step depends on the norms of the rows so far. A penalty acts as the flow of its
    subgradient for a time, which has a closed form.
    """

    def __init__(self, d: int, k: int = 0, **shared: Any) -> None:
        super().__init__(d, k, **shared)
        self.v = self.w  # weights of scaled values
        self.count, self.mean = np.zeros(d), np.zeros(d)
        self.squares, self.intercept_squares = np.zeros(d), 0.0
        self.sample_weights, self.norms = MeanSize(), MeanSize()
        self.origin, self.first = np.zeros(d), np.empty((0, d))

    def intercepts(self) -> Vector:
        """Return the intercepts that belong to `w`: to x, not to distances from the origins."""
        return self.b - self.origin @ self.w

    def centred(self, x: Vector) -> Vector:
        """Return the row as distances from the origins; an absent feature stays 0."""
        return np.where(x != 0.0, x - self.origin, 0.0)

    def known(self) -> NDArray[np.bool_]:
        """Return which features keep their sizes and gradients."""
        return self.v.any(axis=1) | (self.t < 16)

    def sizes(self, x: Vector) -> tuple[Vector, Vector]:
        """Return number and mean of the sizes of each feature, with those of the row x."""
        x = self.centred(x)
        count = np.where(self.known(), self.count, 0.0)
        sizes = np.where(count > 0, np.minimum(np.abs(x), 10.0 * self.mean), np.abs(x))
        mean = (count * self.mean + sizes) / (count + 1)
        return np.where(x != 0.0, count + 1, self.count), np.where(x != 0.0, mean, self.mean)

    def scaled(self, x: Vector) -> Vector:
        """Return the scaled values of a row, which counts in the means."""
        means, x = self.sizes(x)[1], self.centred(x)
        z = np.divide(x, means, out=np.zeros_like(x), where=x != 0.0)
        large = np.abs(z) > 1.0
        z[large] = np.sign(z[large]) * (3.0 - 4.0 / (np.abs(z[large]) + 1.0))
        return z

    def output(self, x: Vector) -> Vector:
        """Return the probability of each class."""
        a = self.scaled(x) @ self.v + self.b
        e = np.exp(a - a.max(initial=-np.inf))
        return e / e.sum()

    def learn(self, x: Vector, y: int, w: float = 1.0) -> Vector:
        """Take one step; return the probabilities before it, the new class included."""
        n_new = max(0, y + 1 - len(self.b))
        self.v = np.hstack([self.v, np.zeros((len(x), n_new))])
        self.b = np.append(self.b, np.full(n_new, self.intercept_init))
        p, z = self.output(x), self.scaled(x)
        limit = 10.0 * self.sample_weights.mean
        self.sample_weights.add(w, zeros=True)
        if limit > 0.0:
            w = min(w, limit)
        w = w / self.sample_weights.mean if self.sample_weights.mean > 0.0 else 0.0
        g = np.clip(p - (np.arange(len(p)) == y), -self.clip_gradient, self.clip_gradient) * w
        square = 1.0 + float(z @ z)
        self.norms.add(math.sqrt(square))
        eta = 30.0 / (10.0 + max(self.norms.mean**2, square))
        self.squares = np.where(self.known(), self.squares, 0.0)
        self.squares = self.squares + z**2 * float(g @ g)
        rates = eta / (1.0 + np.sqrt(self.squares))[:, None]
        self.count, self.mean = self.sizes(x)
        self.v = self._flow(self.v - rates * z[:, None] * g, rates)
        if self.t < 16:
            self._find_origins(x)
        self.w = np.divide(
            *(self.v, self.mean[:, None]),
            out=np.zeros_like(self.v),
            where=self.mean[:, None] > 0.0,
        )
        if self.intercept_lr > 0.0:
            self.intercept_squares += float(g @ g)
            self.b = self.b - eta / (1.0 + math.sqrt(self.intercept_squares)) * g
        self.t += 1
        return p

    def _find_origins(self, x: Vector) -> None:
        self.first = np.vstack([self.first, x])
        if len(self.first) == 16:
            low, high = self.first.min(axis=0), self.first.max(axis=0)
            has = np.all(self.first != 0.0, axis=0) & (low < high)
            self.origin = np.where(has, (self.first.sum(axis=0) - low - high) / 14.0, 0.0)
            self.v, self.squares, self.count, self.mean = (
                np.where(has if a.ndim == 1 else has[:, None], 0.0, a)
                for a in (self.v, self.squares, self.count, self.mean)
            )

    def _flow(self, v: Matrix, times: Matrix) -> Matrix:
        if self.l2 == 0.0:
            return ROWS[self.penalty](v, times * self.strength)
        growth = np.exp(self.l2 * times)
        return ROWS[self.penalty](v, self.strength * (growth - 1.0) / self.l2) / growth


def keyed_hash(name: bytes, stable: int, keys: Sequence[int]) -> int:
    """Return the keyed hash of a name from its stable hash: see `streaml1.text.keyed_names`."""
    start, first, second = keys
    f = start
    for k in range(0, len(name), 8):
        f = (f ^ int.from_bytes(name[k : k + 8], "little")) * first % 2**64
        f = (f ^ f >> 32) * second % 2**64
    return stable ^ f
