"""Figures 4 and 5 of the l1-ball paper: projected gradient steps and specialized solvers.

    python demos/papers/l1_ball_synthetic.py [--quick] [--sizes 800 4000] [--out DIR]

Duchi, Shalev-Shwartz, Singer & Chandra (2008), Section 7: synthetic data with as many rows as
columns, half of the true weights zero; least squares and logistic regression. Counts floating-point
operations to reach the optimum, for batch steps with a line search, batch and stochastic steps of
size eta_0 / sqrt(t), a truncated Newton interior point method as in Kim et al. (2007), and
coordinate descent. The paper gives neither the strength of the penalty (here a tenth of the one
that makes all weights zero), the share of rows in a stochastic step (1%), nor eta_0 (the best of a
grid). Takes four minutes; needs no data.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import Claim, argument_parser, first_reaching, print_claims, print_table, save_figure
from grid import search

from streaml1.solvers import fista, projected_gradient, scd

SIZES = (800, 4_000)
SHARE = 0.1  # the strength, relative to the one that makes all weights zero
BATCH = 0.01
PROJECTION = 8.0  # operations per entry: the expected passes of Figure 2, and the step
PROJECTIONS = ("L1-Line", "L1-Batch", "L1-Stoch")
LEVELS = (1e0, 1e-1, 1e-2, 1e-3)
NAMES = {
    "L1-Line": ("C0", "o-"),
    "L1-Batch": ("C1", "s-"),
    "L1-Stoch": ("C2", "^-"),
    "IP": ("C3", "D--"),
    "Coordinate": ("C4", "v--"),
}


class Problem(NamedTuple):
    """Rows and labels of a penalized and an equivalent constrained problem, and their optima."""

    loss: str
    X: Any
    y: Any
    strength: float
    radius: float
    minimum: float  # of the mean loss in the ball
    penalized: float  # minimum of the mean loss plus penalty


class Curve(NamedTuple):
    """Operations, and the excess over the optimum."""

    flops: Any
    above: Any
    note: str = ""

    def operations_to(self, level: float) -> float:
        """Return the operations until the excess is at most `level`, or infinity."""
        return first_reaching(self.flops, self.above, level)


def synthetic(loss: str, n: int, seed: int) -> Problem:
    """Draw the paper's data; the radius is the l1 norm of the penalized solution."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n))
    true = rng.normal(size=n) * (rng.random(n) < 0.5)
    if loss == "squared":
        y = X @ true + rng.normal(size=n)
        slopes = -y
    else:
        y = np.sign(X @ true) * np.where(rng.random(n) < 0.9, 1.0, -1.0)
        slopes = -0.5 * y
    strength = SHARE * float(np.abs(X.T @ slopes).max()) / n
    best = fista(X, y, loss=loss, l1=strength, tol=1e-10)
    radius = float(np.abs(best.weights).sum())
    inside = fista(X, y, loss=loss, penalty="ball", radius=radius, tol=1e-10)
    return Problem(loss, X, y, strength, radius, inside.objective, best.objective)


def run_projected(problem: Problem, epochs: int, **args: Any) -> Curve:
    """Run projected gradient steps in the ball and count the operations of the steps."""
    run = projected_gradient(
        problem.X,
        problem.y,
        loss=problem.loss,
        radius=problem.radius,
        max_epochs=epochs,
        tol=1e-9,
        **args,
    )
    n = len(problem.y)
    steps = math.ceil(1.0 / args["batch"]) if "batch" in args else 1
    flops = [2.0 * one.accesses + PROJECTION * n * steps * one.epoch for one in run.trace]
    return Curve(np.array(flops), np.array([one.objective for one in run.trace]) - problem.minimum)


def best_rate(problem: Problem, epochs: int, **args: Any) -> Curve:
    """Return the run of the rate that ends closest to the optimum."""
    unit = 1.0 if problem.loss == "squared" else 30.0 / math.sqrt(len(problem.y))
    unit *= math.sqrt(args.get("batch", 1.0))
    found = search(
        lambda lr: run_projected(problem, epochs, step="invsqrt", lr=lr, **args),
        (unit * np.geomspace(0.03, 3.0, 5)).tolist(),
        lambda curve: float(curve.above[-5:].mean()),
    )
    return found.result._replace(note=f"eta_0 = {found.value:.2g}{found.note}")  # type: ignore[no-any-return]


def run_coordinate(problem: Problem, epochs: int) -> Curve:
    """Run cyclic coordinate descent on the penalized problem."""
    run = scd(
        problem.X,
        problem.y,
        loss=problem.loss,
        l1=problem.strength,
        order="cyclic",
        tol=1e-10,
        max_epochs=epochs,
        callback=lambda record, w: False,
    )
    above = np.array([one.objective for one in run.trace]) - problem.penalized
    return Curve(np.array([2.0 * one.accesses for one in run.trace]), above)


def value_slope_curvature(loss: str, a: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return the losses at the margins, and their first two derivatives."""
    if loss == "squared":
        return 0.5 * (a - y) ** 2, a - y, np.ones(len(a))
    p = 0.5 * (1.0 - np.tanh(0.5 * y * a))
    return np.logaddexp(0.0, -y * a), -y * p, p * (1.0 - p)


def dual_bound(problem: Problem, a: Any, slope: Any, gradient: Any) -> float:
    """Return a lower bound of the penalized problem, from slopes scaled to be dual feasible."""
    theta = slope * min(1.0, problem.strength / float(np.abs(gradient).max()))
    if problem.loss == "squared":
        return -float(np.mean(0.5 * theta**2 + theta * problem.y))
    p = np.clip(-problem.y * theta, 1e-300, 1.0 - 1e-16)
    return -float(np.mean(p * np.log(p) + (1.0 - p) * np.log1p(-p)))


def interior_point(problem: Problem, max_steps: int = 60) -> Curve:
    """Make Newton steps on t (loss + strength sum u) - sum log(u^2 - w^2).

    Conjugate gradients solve for the direction in w; that in u follows in closed form.
    """
    X, y, n = problem.X, problem.y, problem.X.shape[1]
    m, squares = len(y), np.mean(X * X, axis=0)
    w, u, a = np.zeros(n), np.ones(n), np.zeros(m)
    t = 1.0 / problem.strength
    product = 2.0 * m * n  # operations of X v
    flops, curve, dw = 0.0, [], np.zeros(n)
    for _ in range(max_steps):
        value, slope, curvature = value_slope_curvature(problem.loss, a, y)
        gradient = X.T @ slope / m
        flops += product
        f = float(value.mean()) + problem.strength * float(np.abs(w).sum())
        gap = f - dual_bound(problem, a, slope, gradient)
        curve.append((flops, f - problem.penalized))
        if f - problem.penalized < 1e-8 * max(1.0, f):
            break
        t = max(t, min(4.0 * n / gap, 2.0 * t)) if len(curve) > 1 else t
        q = u * u - w * w
        to_w, to_u = t * gradient + 2.0 * w / q, t * problem.strength - 2.0 * u / q
        d1, d2 = 2.0 * (u * u + w * w) / q**2, -4.0 * u * w / q**2
        left = d1 - d2 * d2 / d1
        right = -(to_w - d2 / d1 * to_u)
        precision = min(0.1, 0.3 * gap / max(1e-300, float(np.linalg.norm(right)) / t))
        dw, count = conjugate_gradients(
            lambda v, c=curvature, left=left, t=t: t * (X.T @ (c * (X @ v))) / m + left * v,
            t * curvature.mean() * squares + left,
            right,
            precision,
        )
        flops += 2.0 * product * count
        du = -(to_u + d2 * dw) / d1
        step, moved = 1.0, X @ dw
        flops += product
        decrease = float(to_w @ dw + to_u @ du)
        before = t * (float(value.mean()) + problem.strength * u.sum()) - np.log(q).sum()
        while step > 1e-12:
            w1, u1 = w + step * dw, u + step * du
            q = u1 * u1 - w1 * w1
            if np.all(q > 0.0) and np.all(u1 > 0.0):
                value = value_slope_curvature(problem.loss, a + step * moved, y)[0]
                after = t * (float(value.mean()) + problem.strength * u1.sum()) - np.log(q).sum()
                if after <= before + 0.01 * step * decrease:
                    break
            step *= 0.5
        w, u, a = w1, u1, a + step * moved
    flops_at, above = np.array(curve).T
    return Curve(flops_at, above, f"{len(curve) - 1} Newton steps")


def conjugate_gradients(
    product: Any, scale: Any, right: Any, precision: float, max_steps: int = 200
) -> tuple[Any, int]:
    """Solve a positive definite system, preconditioned by its diagonal; also return products."""
    x, r = np.zeros(len(right)), right.copy()
    z = r / scale
    p, rz = z.copy(), float(r @ z)
    products = 0
    while products < max_steps:
        Ap = product(p)
        products += 1
        alpha = rz / float(p @ Ap)
        x += alpha * p
        r -= alpha * Ap
        if float(np.linalg.norm(r)) <= precision * float(np.linalg.norm(right)):
            break
        z = r / scale
        rz, old = float(r @ z), rz
        p = z + (rz / old) * p
    return x, products


def measure_all(problem: Problem, epochs: int) -> dict[str, Curve]:
    """Run all methods on one problem."""
    results = {
        "L1-Line": run_projected(problem, epochs, step="line"),
        "L1-Batch": best_rate(problem, epochs),
        "L1-Stoch": best_rate(problem, max(10, epochs // 3), batch=BATCH),
        "IP": interior_point(problem),
    }
    if problem.loss == "squared":
        results["Coordinate"] = run_coordinate(problem, epochs)
    return results


def draw(results: dict[tuple[str, int], dict[str, Curve]], sizes: tuple[int, ...]) -> Any:
    figure, axes = plt.subplots(
        2, len(sizes), figsize=(5.2 * len(sizes), 7.4), layout="constrained", squeeze=False
    )
    for (loss, n), curves in results.items():
        axis = axes[0 if loss == "squared" else 1][sizes.index(n)]
        for name, curve in curves.items():
            color, style = NAMES[name]
            above = np.maximum(curve.above, 1e-6)
            axis.loglog(np.maximum(curve.flops, n * n), above, style, color=color, ms=3, label=name)
        title = "least squares" if loss == "squared" else "logistic"
        axis.set_title(f"{title}, n = {n:,}", loc="left")
        axis.set(xlabel="floating-point operations", ylabel="f - f*", ylim=(1e-5, None))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False)
    return figure


def decades_gained(curve: Curve) -> tuple[float, float]:
    """Return the decades of excess gained in the first tenth of the operations and in the rest."""
    above = np.maximum(curve.above, 1e-9)
    first = int(np.searchsorted(curve.flops, 0.1 * curve.flops[-1]))
    stochastic_curves = math.log10(above[0] / above[first])
    return stochastic_curves, math.log10(above[first] / above[-1])


def accuracy(problem: Problem) -> float:
    """Return the paper's accuracy 0.01 for the logistic loss, a share of f(0) for least squares."""
    return 1e-2 if problem.loss == "logistic" else 1e-3 * float(np.mean(problem.y**2)) / 2.0


def format_operations(flops: float) -> str:
    return "-" if math.isinf(flops) else f"{flops:.2g}"


def claims(
    results: dict[tuple[str, int], dict[str, Curve]], levels: dict[tuple[str, int], float]
) -> list[Claim]:
    """Check the statements of Section 7 about both figures."""
    checked = []
    stochastic_curves = {key: curves["L1-Stoch"] for key, curves in results.items()}
    operations = {
        key: (min(curves[k].operations_to(levels[key]) for k in ("L1-Stoch", "L1-Batch")),
              curves["IP"].operations_to(levels[key]))
        for key, curves in results.items()
    }  # fmt: skip
    checked.append(
        Claim(
            "Section 7, Figures 4, 5",
            "projected subgradient methods are generally very fast at the outset, to 0.01",
            "operations of L1-Batch or L1-Stoch and of IP to "
            + ", ".join(
                f"{levels[key]:.2g} ({key[0]} {key[1]:,}): "
                f"{format_operations(ours)} and {format_operations(ip)}"
                for key, (ours, ip) in operations.items()
            ),
            all(ours < ip for ours, ip in operations.values()),
        )
    )
    decades = {key: decades_gained(curve) for key, curve in stochastic_curves.items()}
    checked.append(
        Claim(
            "the same",
            "but their rate of convergence slows over time",
            "decades of f - f* gained by L1-Stoch in its first tenth and in the rest: "
            + ", ".join(f"{a:.1f} and {b:.1f} ({k[0]} {k[1]:,})" for k, (a, b) in decades.items()),
            all(a / 0.1 > b / 0.9 for a, b in decades.values()),
        )
    )
    for rival, ours, says, max_steps in (
        ("IP", PROJECTIONS, "with projections they outperform interior point methods", 1.0),
        ("IP", ("L1-Stoch",), "stochastic steps outperform interior point methods (abstract)", 1.0),
        (
            *("Coordinate", PROJECTIONS),
            *("very competitive with specialized methods (here: within ten times)", 10.0),
        ),
    ):
        ratios = {
            key: min(curves[k].operations_to(1e-2) for k in ours)
            / curves[rival].operations_to(1e-2)
            for key, curves in results.items()
            if rival in curves
        }
        checked.append(
            Claim(
                "the same",
                says,
                f"operations to 0.01, {'the best with projections' if len(ours) > 1 else ours[0]} "
                f"over {rival}: "
                + ", ".join(f"{r:.2g} ({k[0]} {k[1]:,})" for k, r in ratios.items()),
                all(r <= max_steps for r in ratios.values()),
            )
        )
    sizes = sorted({n for _, n in results})
    if len(sizes) > 1:
        growth = {
            loss: [
                results[loss, n]["IP"].operations_to(1e-2)
                / results[loss, n]["L1-Line"].operations_to(1e-2)
                for n in sizes
            ]
            for loss in ("squared", "logistic")
        }
        checked.append(
            Claim(
                "the same, n = 4,000",
                "in high dimensions the faster convergence of IP is counteracted by its dependence "
                "on the dimension",
                f"operations of IP over L1-Line to 0.01 at n = {sizes[0]:,} and {sizes[-1]:,}: "
                + ", ".join(f"{r[0]:.2g} and {r[-1]:.2g} ({k})" for k, r in growth.items()),
                all(r[-1] > r[0] for r in growth.values()),
            )
        )
    return checked


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=None, help="numbers of columns and of rows"
    )
    args = parser.parse_args()
    sizes = tuple(args.sizes or ((40, 80) if args.quick else SIZES))
    warnings.simplefilter("ignore")  # runs stop early on purpose
    results, levels = {}, {}
    for n in sizes:
        for loss in ("squared", "logistic"):
            problem = synthetic(loss, n, seed=n)
            curves = measure_all(problem, 20 if args.quick else 100)
            results[loss, n], levels[loss, n] = curves, accuracy(problem)
            print_table(
                f"{loss}, n = {n:,}, radius {problem.radius:.1f}: operations until f - f* <=",
                ("method", *(f"{level:g}" for level in LEVELS), "ends at", ""),
                [
                    (name, *(format_operations(curve.operations_to(level)) for level in LEVELS),
                     f"{max(0.0, float(curve.above[-1])):.1e}", curve.note)
                    for name, curve in curves.items()
                ],
            )  # fmt: skip
    print_claims("Figures 4 and 5", claims(results, levels))
    print(save_figure(draw(results, sizes), args.out, "l1-ball-synthetic.png"))


if __name__ == "__main__":
    main()
