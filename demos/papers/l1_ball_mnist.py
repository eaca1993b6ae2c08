"""Figure 7 of the l1-ball paper: projected and exponentiated gradient on kernels of MNIST.

    python demos/papers/l1_ball_mnist.py [--quick] [--rows 1000] [--radius 30 300]

Duchi, Shalev-Shwartz, Singer & Chandra (2008), Section 7 and Eq. (12): ten classes, each with
weights w_j >= 0, sum w_j <= z, on K(x_i, x) = exp(-|x_i - x|^2 / 25) of 2,766 digits, whose sign is
positive for their own class and negative for the others; multiclass logistic loss. True gradients,
and those of 1% of the rows. L1 steps have size eta_0 / sqrt(t), EG uses the best of constant steps,
1 / sqrt(t) and 1 / t; each uses the best eta_0 of a grid. The paper learns all 60,000 digits and
gives neither z, eta_0 nor the support. Here there are 1,000 rows (--rows) and a support drawn from
the other rows, or with --rows 60000 from all. All rates of a grid run together, so that one pass
over the kernels serves them all. Takes a minute with 1,000 rows, twenty with 60,000. Uses synthetic
points if the data is missing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import (
    Claim,
    argument_parser,
    first_reaching,
    load_matrix,
    print_claims,
    print_table,
    save_figure,
    set_data_directory,
)
from grid import search_many
from scipy.sparse import issparse

from streaml1.datasets import MNIST
from streaml1.solvers.projection import project_l1_ball

RADII = (30.0, 300.0)
UNIT = 30.0  # of the rates: those of L1 do not depend on z, those of EG decrease with it
SUPPORT, WIDTH, SHARE = 2_766, 25.0, 0.01
Rate = tuple[str, float]  # a schedule and eta_0
SCHEDULES: dict[str, Callable[[int], float]] = {
    "invsqrt": lambda t: t**-0.5,
    "constant": lambda t: 1.0,
    "inverse": lambda t: 1.0 / t,
}


class Problem(NamedTuple):
    """Kernels of the rows with the support, labels, signs of the support for each class, radius."""

    K: Any
    y: Any
    sign: Any
    z: float

    def loss(self, w: Any) -> Any:
        """Return Eq. (12) for all rows; a leading axis of w holds several weights."""
        a = self._scores(self.K, w)
        return self._loss(a, np.exp(a).sum(axis=2), self.y).reshape(w.shape[:-2])[()]

    def loss_and_gradient(self, w: Any, rows: Any = None) -> tuple[Any, Any]:
        """Return Eq. (12) and its gradient in w for all or some rows; axes of w as in `loss`."""
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
        """Return scores (rows x weights x classes) less the row maximum, from a single product."""
        classes, support = self.sign.shape
        a = (K @ (self.sign * w).reshape(-1, support).T.astype(K.dtype)).astype(float)
        a = a.reshape(len(K), -1, classes)
        return a - a.max(axis=2, keepdims=True)

    def _loss(self, a: Any, total: Any, y: Any) -> Any:
        return np.mean(np.log(total) - a[np.arange(len(y)), :, y], axis=0)

    def projected(self, v: Any) -> Any:
        """Return the nearest weights with w_j >= 0 and sum w_j <= z."""
        rows = np.maximum(v, 0.0).reshape(-1, v.shape[-1])
        return np.stack([project_l1_ball(row, self.z) for row in rows]).reshape(v.shape)

    def bound(self, w: Any, loss: float, gradient: Any) -> float:
        """Return a lower bound of the loss: the minimum of the tangent at w."""
        linear_minimum = -self.z * np.maximum(0.0, (-gradient).max(axis=1)).sum()
        return float(loss + linear_minimum - np.vdot(gradient, w))


class Curve(NamedTuple):
    """Loss against the number of gradients, and the final weights."""

    steps: Any
    loss: Any
    w: Any
    rate: str

    def steps_to(self, level: float) -> float:
        """Return the gradients until the loss is at most `level`, or infinity."""
        return first_reaching(self.steps, self.loss, level)


def kernels(x: Any, support: Any, width: float) -> Any:
    """Return exp(-|x - s|^2 / width) for all pairs."""
    squares = (x * x).sum(axis=1)[:, None] + (support * support).sum(axis=1) - 2.0 * x @ support.T
    return np.exp(-np.maximum(squares, 0.0) / width).astype(np.float32)


def problem_of(x: Any, y: Any, rows: int, support: int, width: float, z: float) -> Problem:
    """Draw rows and a support, disjoint if there are enough rows."""
    order = np.random.default_rng(0).permutation(len(y))
    s, r = order[:support], np.roll(order, -support)[:rows]
    sign = np.where(y[s] == np.arange(int(y.max()) + 1)[:, None], 1.0, -1.0)
    points, support_points = (X.toarray() if issparse(X) else X for X in (x[r], x[s]))
    return Problem(kernels(points, support_points, width), y[r], sign, z)


def synthetic(n: int) -> tuple[Any, Any]:
    """Draw points around ten centres."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    return rng.normal(size=(10, 8))[y] * 1.5 + rng.normal(size=(n, 8)), y


def optimum(problem: Problem, max_steps: int) -> tuple[float, float]:
    """Minimize the loss by accelerated steps; return it and a bound of its excess."""
    w = np.zeros(problem.sign.shape)
    ahead, t, step = w, 1.0, 1.0
    best_loss, bound = math.inf, -math.inf
    for _ in range(max_steps):
        loss, gradient = problem.loss_and_gradient(ahead)
        step *= 1.1
        while True:
            new = problem.projected(ahead - step * gradient)
            dw = new - ahead
            f = problem.loss(new)
            if f <= loss + np.vdot(gradient, dw) + 0.5 / step * np.vdot(dw, dw) + 1e-7:
                break
            step *= 0.5
        best_loss = min(best_loss, f)
        bound = max(bound, problem.bound(ahead, loss, gradient))
        if np.vdot(gradient, new - w) > 0.0:
            t = 1.0
        t_next = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        ahead, w, t = new + (t - 1.0) / t_next * (new - w), new, t_next
    return best_loss, best_loss - bound


def run_grid(
    problem: Problem, method: str, rates: Sequence[Rate], steps: int, share: float | None
) -> list[Curve]:
    """Run a method at each rate; record the loss of all rows at intervals."""
    theta = np.zeros((len(rates), *problem.sign.shape))
    w = np.full(theta.shape, problem.z / theta.shape[-1] if method == "EG" else 0.0)
    interval = 1 if share is None else max(1, steps // 25)
    axis, losses = [], []
    for t, rows in enumerate(batches(len(problem.y), share, steps), start=1):
        loss, gradient = problem.loss_and_gradient(w, rows)
        if (t - 1) % interval == 0:
            axis.append(t - 1)
            losses.append(loss if rows is None else problem.loss(w))
        eta = np.array([lr * SCHEDULES[schedule](t) for schedule, lr in rates])[:, None, None]
        if method == "EG":
            theta -= eta * gradient
            u = np.exp(theta - theta.max(axis=2, keepdims=True))
            w = problem.z * u / u.sum(axis=2, keepdims=True)
        else:
            w = problem.projected(w - eta * gradient)
    axis.append(steps)
    losses.append(problem.loss(w))
    return [
        Curve(np.array(axis), losses, last, f"{lr:.3g} {schedule}")
        for losses, last, (schedule, lr) in zip(np.array(losses).T, w, rates, strict=True)
    ]


def batches(n: int, share: float | None, steps: int) -> Iterator[Any]:
    """Yield None for all rows, or batches of a random order that is redrawn after each pass."""
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


def best_run(
    problem: Problem, method: str, steps: int, share: float | None, rate_factors: tuple[float, ...]
) -> Curve:
    """Return a full run with the rate that is best after a quarter of the steps."""
    gradient = problem.loss_and_gradient(np.zeros(problem.sign.shape))[1]
    unit = UNIT / problem.z / float(np.abs(gradient).max())
    if method == "L1":
        unit = UNIT / float(np.linalg.norm(gradient))
    schedules = tuple(SCHEDULES) if method == "EG" else ("invsqrt",)
    first_steps = max(1, steps // 4)
    rates = [(schedule, unit * factor) for schedule in schedules for factor in rate_factors]
    together = run_grid(problem, method, rates, first_steps, share)
    known = {rate: float(c.loss[-1]) for rate, c in zip(rates, together, strict=True)}

    def run_many(values: list[float], schedule: str) -> list[float]:
        asked = [(schedule, unit * factor) for factor in values]
        new = [rate for rate in asked if rate not in known]
        if new:
            curves = run_grid(problem, method, new, first_steps, share)
            known.update({rate: float(c.loss[-1]) for rate, c in zip(new, curves, strict=True)})
        return [known[rate] for rate in asked]

    found = {
        schedule: search_many(
            functools.partial(run_many, schedule=schedule), rate_factors, lambda loss: loss
        )
        for schedule in schedules
    }
    schedule = min(found, key=lambda name: found[name].result)
    rate = schedule, unit * found[schedule].value
    curve = run_grid(problem, method, [rate], steps, share)[0]
    return curve._replace(rate=curve.rate + found[schedule].note)


def zero_share(curve: Curve) -> Any:
    """Return the share of zero weights of each class."""
    return np.mean(curve.w == 0.0, axis=1)


def claims(curves: dict[str, Curve], minimum: float, z: float) -> list[Claim]:
    """Check the statements of Section 7 about Figure 7."""
    checked = []
    for name, where in (("true", "left"), ("1%", "right")):
        l1, eg = curves[f"L1, {name}"], curves[f"EG, {name}"]
        level = float(eg.loss[-1])
        checked.append(
            Claim(
                f"Figure 7, {where}, z = {z:g}",
                "L1 outperforms EG in terms of convergence rate and loss",
                f"f - f* at the end {l1.loss[-1] - minimum:.2g} against {level - minimum:.2g}; "
                f"EG's final loss is reached after {l1.steps_to(level):g} gradients, by EG after "
                f"{eg.steps_to(level):g}",
                bool(l1.loss[-1] < level and l1.steps_to(level) < eg.steps_to(level)),
            )
        )
    true_share = zero_share(curves["L1, true"])
    l1 = np.concatenate([zero_share(curves["L1, true"]), zero_share(curves["L1, 1%"])])
    eg = np.concatenate([zero_share(curves["EG, true"]), zero_share(curves["EG, 1%"])])
    checked.append(
        Claim(
            f"Section 7, MNIST, z = {z:g}",
            "L1 zeroes out between 10 and 50% of the components of each class",
            f"{l1.min():.0%} to {l1.max():.0%} of them (true gradients: "
            f"{true_share.min():.0%} to {true_share.max():.0%})",
            bool(l1.min() >= 0.1 and l1.max() <= 0.5),
        )
    )
    checked.append(
        Claim(
            "the same", "while EG gives no sparsity", f"at most {eg.max():.0%}", bool(eg.max() == 0)
        )
    )
    return checked


def measure_all(
    problem: Problem, steps: int, stochastic_steps: int, rate_factors: tuple[float, ...]
) -> tuple[float, dict[str, Curve]]:
    """Return the minimum loss, and the four curves of the figure."""
    minimum, gap = optimum(problem, 300)
    curves = {}
    for name, share, n in (("true", None, steps), ("1%", SHARE, stochastic_steps)):
        for method in ("EG", "L1"):
            curves[f"{method}, {name}"] = best_run(problem, method, n, share, rate_factors)
    print_table(
        f"z = {problem.z:g}, f* = {minimum:.4f} (gap {gap:.1e})",
        ("method, gradients", "steps", "eta_0, schedule", "f - f* at the end", "zeros of a class"),
        [
            (name, f"{curve.steps[-1]:,}", curve.rate, f"{curve.loss[-1] - minimum:.2g}",
             f"{zero_share(curve).min():.0%} to {zero_share(curve).max():.0%}")
            for name, curve in curves.items()
        ],
    )  # fmt: skip
    return minimum, curves


def draw(runs: dict[float, tuple[float, dict[str, Curve]]], title: str) -> Any:
    figure, axes = plt.subplots(
        2, len(runs), figsize=(4.4 * len(runs), 7.0), layout="constrained", squeeze=False
    )
    for column, (z, (minimum, curves)) in zip(axes.T, runs.items(), strict=True):
        for axis, name in zip(column, ("true", "1%"), strict=True):
            for method, style in (("EG", "C2^--"), ("L1", "C0o-")):
                curve = curves[f"{method}, {name}"]
                every = max(1, len(curve.steps) // 25)
                above = np.maximum(curve.loss - minimum, 1e-6)
                axis.semilogy(curve.steps, above, style, ms=3.5, markevery=every, label=method)
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_title(f"z = {z:g}", loc="left")
        column[0].set(xlabel="gradients of all rows")
        column[1].set(xlabel="gradients of 1% of the rows")
    for axis in axes[:, 0]:
        axis.set(ylabel="loss - minimum")
    axes[0, 0].legend(frameon=False)
    figure.suptitle(title)
    return figure


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", type=int, default=1_000, help="number of training rows")
    parser.add_argument("--radius", type=float, nargs="+", default=RADII, help="radii z")
    args = parser.parse_args()
    set_data_directory(args.data)
    steps, stochastic_steps, rate_factors = 400, 2_000, (0.1, 0.3, 1.0, 3.0, 10.0)
    digits = None if args.quick else load_matrix("MNIST", MNIST("train"))
    if digits is None:
        x, y = synthetic(600)
        problem = problem_of(x, y, 500, 100, 8.0, 1.0)
        title, steps, stochastic_steps, rate_factors = "synthetic points", 40, 50, (0.3, 3.0)
    else:
        problem = problem_of(
            digits[0] / 255.0, np.asarray(digits[1]), args.rows, SUPPORT, WIDTH, 1.0
        )
        title = "MNIST, multiclass logistic loss"
    print(f"{title}: {problem.K.shape[0]:,} rows, a support of {problem.K.shape[1]:,}")
    runs, checked = {}, []
    for z in args.radius[:1] if digits is None else args.radius:
        runs[z] = measure_all(problem._replace(z=z), steps, stochastic_steps, rate_factors)
        checked += claims(runs[z][1], runs[z][0], z)
    print_claims("Figure 7", checked)
    print(save_figure(draw(runs, title), args.out, "l1-ball-mnist.png"))


if __name__ == "__main__":
    main()
