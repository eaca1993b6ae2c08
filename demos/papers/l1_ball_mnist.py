"""Figure 7 of the l1-ball paper: projected steps and exponentiated gradient on MNIST's kernels.

    python demos/papers/l1_ball_mnist.py [--quick] [--rows 1000] [--radius 30 300]

Duchi, Shalev-Shwartz, Singer & Chandra (2008), Section 7 and Eq. (12): ten classes, each with
weights w_j >= 0, sum w_j <= z, on K(x_i, x) = exp(-|x_i - x|^2 / 25) of 2,766 digits, which count
for a class where they are of it and against it where they are not; the multiclass logistic loss.
True gradients, and those of 1% of the rows. L1 steps are of size eta_0 / sqrt(t), EG has the best
of constant steps, 1 / sqrt(t) and 1 / t; each the best of a grid of eta_0. The paper learns all
60,000 digits and does not give z, eta_0 nor its support: here 1,000 rows (--rows) and a support
drawn from the others, or with --rows 60000 from all. All rates of a grid are tried side by side,
so that a pass over the kernels serves them all. A minute with 1,000 rows, forty with 60,000;
without the data, made points stand in for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import Claim, look_in, matrix, options, save, show_claims, table
from scipy.sparse import issparse

from streaml1.datasets import MNIST
from streaml1.solvers.projection import project_l1_ball

RADII = (30.0, 300.0)
UNIT = 30.0  # of the rates: L1's do not depend on z, EG's fall with it
SUPPORT, WIDTH, SHARE = 2_766, 25.0, 0.01
Rate = tuple[str, float]  # a schedule, and the first step
SCHEDULES: dict[str, Callable[[int], float]] = {
    "invsqrt": lambda t: t**-0.5,
    "constant": lambda t: 1.0,
    "inverse": lambda t: 1.0 / t,
}


class Problem(NamedTuple):
    """Kernels of each row with the support, labels as numbers, signs of the support, radius."""

    K: Any
    y: Any
    sign: Any
    z: float

    def loss(self, w: Any) -> Any:
        """Eq. (12) of all rows; of several weights, along a first axis, that of each."""
        a = self._scores(self.K, w)
        return self._loss(a, np.exp(a).sum(axis=2), self.y).reshape(w.shape[:-2])[()]

    def loss_and_gradient(self, w: Any, rows: Any = None) -> tuple[Any, Any]:
        """Eq. (12) and its gradient in w, of all rows or of some; of several weights as `loss`."""
        K, y = (self.K, self.y) if rows is None else (self.K[rows], self.y[rows])
        a = self._scores(K, w)
        p = np.exp(a)
        total = p.sum(axis=2)
        loss = self._loss(a, total, y).reshape(w.shape[:-2])[()]
        p /= total[:, :, None]
        p[np.arange(len(y)), :, y] -= 1.0
        G = p.reshape(len(y), -1).T.astype(K.dtype) @ K
        return loss, self.sign * G.astype(float).reshape(w.shape) / len(y)

    def _scores(self, K: Any, w: Any) -> Any:
        """Rows x weights x classes, less the largest of each row: one product for all weights."""
        classes, support = self.sign.shape
        a = (K @ (self.sign * w).reshape(-1, support).T.astype(K.dtype)).astype(float)
        a = a.reshape(len(K), -1, classes)
        return a - a.max(axis=2, keepdims=True)

    def _loss(self, a: Any, total: Any, y: Any) -> Any:
        return np.mean(np.log(total) - a[np.arange(len(y)), :, y], axis=0)

    def projected(self, v: Any) -> Any:
        """The nearest weights with w_j >= 0 and sum w_j <= z."""
        rows = np.maximum(v, 0.0).reshape(-1, v.shape[-1])
        return np.stack([project_l1_ball(row, self.z) for row in rows]).reshape(v.shape)

    def bound(self, w: Any, loss: float, gradient: Any) -> float:
        """What no weights are below: the least of the tangent at w."""
        least = -self.z * np.maximum(0.0, (-gradient).max(axis=1)).sum()
        return float(loss + least - np.vdot(gradient, w))


class Curve(NamedTuple):
    """Loss after so many gradients; the weights at the end."""

    steps: Any
    loss: Any
    w: Any
    rate: str

    def to(self, level: float) -> float:
        """Gradients to a loss, or infinity."""
        there = np.flatnonzero(self.loss <= level)
        return float(self.steps[there[0]]) if len(there) else math.inf


def kernels(x: Any, support: Any, width: float) -> Any:
    """exp(-|x - s|^2 / width) of all pairs."""
    squares = (x * x).sum(axis=1)[:, None] + (support * support).sum(axis=1) - 2.0 * x @ support.T
    return np.exp(-np.maximum(squares, 0.0) / width).astype(np.float32)


def problem_of(x: Any, y: Any, rows: int, support: int, width: float, z: float) -> Problem:
    """Rows and a support drawn: apart, while there are others, and the support's rows last."""
    order = np.random.default_rng(0).permutation(len(y))
    s, r = order[:support], np.roll(order, -support)[:rows]
    sign = np.where(y[s] == np.arange(int(y.max()) + 1)[:, None], 1.0, -1.0)
    points, at = (part.toarray() if issparse(part) else part for part in (x[r], x[s]))
    return Problem(kernels(points, at, width), y[r], sign, z)


def made(n: int) -> tuple[Any, Any]:
    """Points about ten places."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    return rng.normal(size=(10, 8))[y] * 1.5 + rng.normal(size=(n, 8)), y


def optimum(problem: Problem, most: int) -> tuple[float, float]:
    """The least loss that accelerated steps find, and how far above the optimum it can be."""
    w = np.zeros(problem.sign.shape)
    ahead, t, step = w, 1.0, 1.0
    best, bound = math.inf, -math.inf
    for _ in range(most):
        loss, gradient = problem.loss_and_gradient(ahead)
        step *= 1.1
        while True:
            new = problem.projected(ahead - step * gradient)
            dw = new - ahead
            f = problem.loss(new)
            if f <= loss + np.vdot(gradient, dw) + 0.5 / step * np.vdot(dw, dw) + 1e-7:
                break
            step *= 0.5
        best = min(best, f)
        bound = max(bound, problem.bound(ahead, loss, gradient))
        if np.vdot(gradient, new - w) > 0.0:
            t = 1.0
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        ahead, w, t = new + (t - 1.0) / following * (new - w), new, following
    return best, best - bound


def descend(
    problem: Problem, method: str, rates: Sequence[Rate], steps: int, share: float | None
) -> list[Curve]:
    """Steps of one method at each rate; the loss of all rows at the start and from time to time."""
    theta = np.zeros((len(rates), *problem.sign.shape))
    w = np.full(theta.shape, problem.z / theta.shape[-1] if method == "EG" else 0.0)
    look = 1 if share is None else max(1, steps // 25)
    at, losses = [], []
    for t, rows in enumerate(drawn(len(problem.y), share, steps), start=1):
        loss, gradient = problem.loss_and_gradient(w, rows)
        if (t - 1) % look == 0:
            at.append(t - 1)
            losses.append(loss if rows is None else problem.loss(w))
        eta = np.array([lr * SCHEDULES[schedule](t) for schedule, lr in rates])[:, None, None]
        if method == "EG":
            theta -= eta * gradient
            u = np.exp(theta - theta.max(axis=2, keepdims=True))
            w = problem.z * u / u.sum(axis=2, keepdims=True)
        else:
            w = problem.projected(w - eta * gradient)
    at.append(steps)
    losses.append(problem.loss(w))
    return [
        Curve(np.array(at), heights, last, f"{lr:.3g} {schedule}")
        for heights, last, (schedule, lr) in zip(np.array(losses).T, w, rates, strict=True)
    ]


def drawn(n: int, share: float | None, steps: int) -> Iterator[Any]:
    """All rows, or the next part of an order that is drawn anew when it is through."""
    rng = np.random.default_rng(0)
    size = 0 if share is None else max(1, round(share * n))
    order = rng.permutation(n)
    first = 0
    for _ in range(steps):
        if share is None:
            yield None
            continue
        if first + size > n:
            order, first = rng.permutation(n), 0
        yield order[first : first + size]
        first += size


def best(
    problem: Problem, method: str, steps: int, share: float | None, factors: tuple[float, ...]
) -> Curve:
    """The first step and schedule that end lowest after a quarter of the steps, run to the end."""
    gradient = problem.loss_and_gradient(np.zeros(problem.sign.shape))[1]
    unit = UNIT / problem.z / float(np.abs(gradient).max())
    if method == "L1":
        unit = UNIT / float(np.linalg.norm(gradient))
    schedules = tuple(SCHEDULES) if method == "EG" else ("invsqrt",)
    rates = [(schedule, unit * factor) for schedule in schedules for factor in factors]
    tried = descend(problem, method, rates, max(1, steps // 4), share)
    _, rate = min((float(curve.loss[-1]), rate) for curve, rate in zip(tried, rates, strict=True))
    return descend(problem, method, [rate], steps, share)[0]


def zeros(curve: Curve) -> Any:
    """The share of zeros of each class."""
    return np.mean(curve.w == 0.0, axis=1)


def claims(found: dict[str, Curve], least: float, z: float) -> list[Claim]:
    """What Section 7 says of Figure 7."""
    made = []
    for name, where in (("true", "left"), ("1%", "right")):
        l1, eg = found[f"L1, {name}"], found[f"EG, {name}"]
        level = float(eg.loss[-1])
        made.append(
            Claim(
                f"Figure 7, {where}, z = {z:g}",
                "L1 outperforms EG in terms of convergence rate and loss",
                f"f - f* at the end {l1.loss[-1] - least:.2g} against {level - least:.2g}; EG's "
                f"end is met after {l1.to(level):g} gradients, by EG after {eg.to(level):g}",
                bool(l1.loss[-1] < level and l1.to(level) < eg.to(level)),
            )
        )
    l1 = np.concatenate([zeros(found["L1, true"]), zeros(found["L1, 1%"])])
    eg = np.concatenate([zeros(found["EG, true"]), zeros(found["EG, 1%"])])
    made.append(
        Claim(
            f"Section 7, MNIST, z = {z:g}",
            "L1 zeroes out between 10 and 50% of the components of each class",
            f"{l1.min():.0%} to {l1.max():.0%} of them (true gradients: "
            f"{zeros(found['L1, true']).min():.0%} to {zeros(found['L1, true']).max():.0%})",
            bool(l1.min() >= 0.1 and l1.max() <= 0.5),
        )
    )
    made.append(
        Claim(
            "the same", "while EG gives no sparsity", f"at most {eg.max():.0%}", bool(eg.max() == 0)
        )
    )
    return made


def measured(
    problem: Problem, steps: int, stochastic: int, factors: tuple[float, ...]
) -> tuple[float, dict[str, Curve]]:
    """The least loss, and the four lines of the figure."""
    least, gap = optimum(problem, 300)
    found = {}
    for name, share, n in (("true", None, steps), ("1%", SHARE, stochastic)):
        for method in ("EG", "L1"):
            found[f"{method}, {name}"] = best(problem, method, n, share, factors)
    table(
        f"z = {problem.z:g}, f* = {least:.4f} (gap {gap:.1e})",
        ("method, gradients", "steps", "eta_0, schedule", "f - f* at the end", "zeros of a class"),
        [
            (name, f"{curve.steps[-1]:,}", curve.rate, f"{curve.loss[-1] - least:.2g}",
             f"{zeros(curve).min():.0%} to {zeros(curve).max():.0%}")
            for name, curve in found.items()
        ],
    )  # fmt: skip
    return least, found


def draw(runs: dict[float, tuple[float, dict[str, Curve]]], title: str) -> Any:
    figure, axes = plt.subplots(
        2, len(runs), figsize=(4.4 * len(runs), 7.0), layout="constrained", squeeze=False
    )
    for column, (z, (least, found)) in zip(axes.T, runs.items(), strict=True):
        for at, name in zip(column, ("true", "1%"), strict=True):
            for method, style in (("EG", "C2^--"), ("L1", "C0o-")):
                curve = found[f"{method}, {name}"]
                every = max(1, len(curve.steps) // 25)
                above = np.maximum(curve.loss - least, 1e-6)
                at.semilogy(curve.steps, above, style, ms=3.5, markevery=every, label=method)
            at.spines[["top", "right"]].set_visible(False)
            at.set_title(f"z = {z:g}", loc="left")
        column[0].set(xlabel="gradients of all rows")
        column[1].set(xlabel="gradients of 1% of the rows")
    for at in axes[:, 0]:
        at.set(ylabel="loss - least")
    axes[0, 0].legend(frameon=False)
    figure.suptitle(title)
    return figure


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--radius", type=float, nargs="+", default=RADII)
    given = parser.parse_args()
    look_in(given.data)
    steps, stochastic, factors = 400, 2_000, (0.1, 0.3, 1.0, 3.0, 10.0)
    digits = None if given.quick else matrix("MNIST", MNIST("train"))
    if digits is None:
        x, y = made(600)
        problem = problem_of(x, y, 500, 100, 8.0, 1.0)
        title, steps, stochastic, factors = "made points", 40, 50, (0.3, 3.0)
    else:
        problem = problem_of(
            digits[0] / 255.0, np.asarray(digits[1]), given.rows, SUPPORT, WIDTH, 1.0
        )
        title = "MNIST, multiclass logistic loss"
    print(f"{title}: {problem.K.shape[0]:,} rows, a support of {problem.K.shape[1]:,}")
    runs, made_claims = {}, []
    for z in given.radius[:1] if digits is None else given.radius:
        runs[z] = measured(problem._replace(z=z), steps, stochastic, factors)
        made_claims += claims(runs[z][1], runs[z][0], z)
    show_claims("Figure 7", made_claims)
    print(save(draw(runs, title), given.out, "l1-ball-mnist.png"))


if __name__ == "__main__":
    main()
