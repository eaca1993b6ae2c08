"""FOBOS with l1 and the subgradient method: Figure 2 of Duchi & Singer (2009).

    python demos/papers/fobos_sparsity.py [--quick] [--out DIR]

The paper's synthetic data, 1,000 x 400, and l1-regularized logistic regression by steps along the
full gradient, eta = c / sqrt(t), with the best c of a grid for each method. The paper's third
method is an interior point method (Koh, Kim & Boyd 2007); here it is that of l1_ball_synthetic.py,
a truncated Newton method with a log barrier. The methods are compared by products with the matrix
(a gradient takes two, a step of conjugate gradients too) and by steps. There are also the solvers
`scd` and `fista`, and a run of ElasticNetClassifier, one example per step. Writes
out/fobos_sparsity.png and prints each claim of the text with the measurement. Takes a minute.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import (
    Claim,
    argument_parser,
    first_reaching,
    print_claims,
    print_table,
    save_figure,
)
from fobos_synthetic import M, N, synthetic_data
from grid import search
from l1_ball_synthetic import Problem, interior_point

import streaml1
from streaml1.solvers import fista, scd

PASSES = 110
RATES = np.geomspace(0.03, 100.0, 15)
SHARES = (
    0.5,
    0.25,
    0.1,
    0.05,
    0.02,
)  # strengths, relative to the smallest without weights
SHARE = 0.05  # in the left panel
IP = "interior point"
TOLERANCE, TIGHT_TOLERANCE = 1e-2, 1e-5  # of the text, and reached by its specialized solver


class Run(NamedTuple):
    """Excess of the objective over the optimum, and support, after each step."""

    excess: Any
    supports: Any


def data(seed: int) -> Any:
    """Return the rows of the synthetic data times their labels."""
    X, y = synthetic_data(seed)
    return X * y[:, None]


def max_strength(A: Any) -> float:
    """Return the smallest l1 at which all weights are zero."""
    return 0.5 * float(np.abs(A.mean(axis=0)).max())


def objective(A: Any, w: Any, l1: float) -> float:
    """Return the objective as the paper's sum over examples; l1 is that of the mean loss."""
    return float(np.logaddexp(0.0, -(A @ w)).sum() + M * l1 * np.abs(w).sum())


def fobos(w: Any, g: Any, eta: float, l1: float) -> Any:
    """Make the step of Eq. (6)."""
    v = w - eta * g
    return np.sign(v) * np.maximum(np.abs(v) - eta * l1, 0.0)


def subgradient(w: Any, g: Any, eta: float, l1: float) -> Any:
    return w - eta * (g + l1 * np.sign(w))


METHODS = {"FOBOS": fobos, "subgradient": subgradient}


def run(A: Any, method: Any, c: float, l1: float, optimum: float, steps: int) -> Run:
    w, excess, supports = np.zeros(N), [], []
    for t in range(1, steps + 1):
        slopes = -0.5 * (1.0 - np.tanh(0.5 * (A @ w)))
        w = method(w, A.T @ slopes / M, c / t**0.5, l1)
        excess.append(objective(A, w, l1) - optimum)
        supports.append(w != 0.0)
    return Run(np.array(excess), np.array(supports))


def products_to(curve: tuple[Any, Any], level: float = TOLERANCE) -> float:
    """Return the products with the matrix until the excess is at most `level`, or infinity."""
    return first_reaching(*curve, level)


def steps_to(curve: tuple[Any, Any], level: float = TOLERANCE) -> float:
    """Return the number of steps until the excess is at most `level`, or infinity."""
    products, excess = curve
    first = 1 if products[0] > 1.0 else 0  # the interior point method records its start
    return first_reaching(np.arange(first, first + len(excess)), excess, level)


def best_rate(A: Any, method: Any, l1: float, optimum: float, steps: int) -> float:
    """Return the c that gets within TOLERANCE in the fewest steps, then closest to the optimum."""
    axis = np.arange(1, steps + 1)

    def rank(c: float) -> tuple[float, float]:
        excess = run(A, method, c, l1, optimum, steps).excess
        return first_reaching(axis, excess, TOLERANCE), float(excess.min())

    return search(rank, RATES.tolist(), lambda key: key, name="c").value


def run_interior_point(A: Any, l1: float, optimum: float) -> tuple[Any, Any]:
    """Return the products of the interior point method with the matrix, and its excess."""
    problem = Problem("logistic", A, np.ones(M), l1, math.inf, math.nan, optimum / M)
    curve = interior_point(problem)
    return curve.flops / (2.0 * A.size), M * curve.above


def run_solver(solve: Any, A: Any, l1: float, optimum: float) -> tuple[Any, Any]:
    """Run a solver of streaml1.solvers; return its reads of the matrix and its excess."""
    trace = solve(A, np.ones(M), loss="logistic", l1=l1, tol=1e-9).trace
    products = np.array([record.accesses for record in trace]) / A.size
    return products, M * np.array([record.objective for record in trace]) - optimum


def run_online(A: Any, l1: float, passes: int) -> Any:
    """Return the support of ElasticNetClassifier after each pass, one example per step."""
    model = streaml1.ElasticNetClassifier(l1=l1, lr=0.1, intercept_lr=0.0)
    rng, supports = np.random.default_rng(1), np.zeros((passes, N), bool)
    for support in supports:
        model.learn_many(A[rng.permutation(M)], np.ones(M, bool))
        support[list(model.weights)] = True
    return supports


def overlap(first: Any, second: Any) -> float:
    """Return the Jaccard index of two supports."""
    return float(np.sum(first & second) / max(1, np.sum(first | second)))


def draw(left: dict[str, tuple[Any, Any]], right: dict[float, Run], online_supports: Any) -> Any:
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    left_axis, middle_axis, right_axis = axes
    for name, (products, excess) in left.items():
        dashes = ":" if name in ("scd", "fista") else "-"
        left_axis.plot(products, np.maximum(excess, 1e-9), dashes, label=name)
    for name in (*METHODS, IP):
        excess = left[name][1]
        middle_axis.plot(np.arange(name != IP, len(excess) + (name != IP)), excess, label=name)
    for axis, label in ((left_axis, "products with the matrix"), (middle_axis, "steps")):
        axis.axhline(TOLERANCE, color="0.7", lw=1)
        axis.set(yscale="log", xlabel=label, ylim=(1e-5, 1e3))
        axis.legend(frameon=False)
    left_axis.set(xlim=(0, 450), ylabel="objective above the optimum")
    middle_axis.set(xlim=(0, 110))
    for k, (share, path) in enumerate(right.items()):
        right_axis.plot(path.supports.mean(axis=1), f"C{k}", label=f"{share:g}")
    right_axis.plot(
        online_supports.mean(axis=1), "k:", lw=1, label=f"{SHARE:g}, one example per step"
    )
    right_axis.set(xlabel="passes over the rows", ylabel="share of non-zero weights", xlim=(0, 110))
    title = "l1 relative to the smallest with no weights"
    right_axis.set_title(title, loc="left", fontsize="medium")
    right_axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def compare(A: Any, steps: int) -> tuple[dict[str, tuple[Any, Any]], dict[str, Run], list[float]]:
    """Return products and excess of all methods, the runs of steps, and their best rates."""
    l1 = SHARE * max_strength(A)
    optimum = fista(A, np.ones(M), loss="logistic", l1=l1, tol=1e-10).objective * M
    curves: dict[str, tuple[Any, Any]] = {}
    runs, rates = {}, []
    for name, method in METHODS.items():
        c = best_rate(A, method, l1, optimum, min(steps, 200))
        runs[name] = run(A, method, c, l1, optimum, steps)
        curves[name] = 2 * np.arange(1, steps + 1), runs[name].excess
        rates.append(c)
    curves[IP] = run_interior_point(A, l1, optimum)
    curves["scd"] = run_solver(scd, A, l1, optimum)
    curves["fista"] = run_solver(fista, A, l1, optimum)
    return curves, runs, rates


class Pattern(NamedTuple):
    """The run of FOBOS at one strength, and the support of the optimum."""

    run: Run
    support: Any

    def overlap_at(self, step: int) -> float:
        """Return the Jaccard index of both supports after a step."""
        return overlap(self.run.supports[step - 1], self.support)


def fit_patterns(A: Any, c: float) -> dict[float, Pattern]:
    """Run FOBOS with the rate c at each strength."""
    patterns = {}
    for share in SHARES:
        l1 = share * max_strength(A)
        best = fista(A, np.ones(M), loss="logistic", l1=l1, tol=1e-7)
        fobos_run = run(A, fobos, c, l1, M * best.objective, PASSES)
        patterns[share] = Pattern(fobos_run, best.weights != 0.0)
    return patterns


def claims(
    comparisons: list[Any], patterns: dict[float, Pattern], online_supports: Any, steps: int
) -> list[Claim]:
    def median(count: Any, name: str, level: float = TOLERANCE) -> float:
        return float(np.median([count(c[0][name], level) for c in comparisons]))

    best_excess = float(np.median([c[0]["subgradient"][1].min() for c in comparisons]))
    zeros = max(int((~c[1]["subgradient"].supports).sum(axis=1).max()) for c in comparisons)
    products = {name: median(products_to, name) for name in comparisons[0][0]}
    rivals = IP, "scd", "fista"
    tight = {name: median(products_to, name, TIGHT_TOLERANCE) for name in ("FOBOS", *rivals)}
    by_steps = {
        name: [median(steps_to, name, level) for level in (TOLERANCE, TIGHT_TOLERANCE)]
        for name in ("FOBOS", IP)
    }
    early, late = ([pattern.overlap_at(t) for pattern in patterns.values()] for t in (30, 100))
    sizes = [
        (pattern.run.supports[29:].mean(axis=1), pattern.support.mean())
        for pattern in patterns.values()
    ]
    max_difference = max(float(np.abs(size - optimum).max()) for size, optimum in sizes)
    support = patterns[SHARE].support
    batch = overlap(patterns[SHARE].run.supports[-1], support)
    online = overlap(online_supports[-1], support)
    return [
        Claim("Figure 2, left", "the subgradient method is clearly much slower",
              f"products with the matrix until {TOLERANCE}, median of {len(comparisons)}: FOBOS "
              f"{products['FOBOS']:.0f}, {IP} {products[IP]:.0f}, subgradient "
              f"{products['subgradient']:.0f}, which reaches {best_excess:.1e} in {steps:,} steps",
              products["subgradient"] >= 2.0 * max(products["FOBOS"], products[IP])),
        Claim("Section 6", "the subgradient method achieves no sparsity along its entire run",
              f"zero weights after any step: at most {zeros} of {N}", zeros == 0),
        Claim("Figure 2, left", f"to come within {TOLERANCE} FOBOS works very well",
              "products: " + ", ".join(f"{k} {products[k]:.0f}" for k in ("FOBOS", *rivals))
              + f" (at most those of {IP}: very well)", products["FOBOS"] <= products[IP]),
        Claim("Figure 2, left", "faster convergence makes the interior point method surpass FOBOS",
              f"products until {TIGHT_TOLERANCE:.0e}: "
              + ", ".join(f"{k} {v:.0f}" for k, v in tight.items()) + f" (inf: not in {steps:,} "
              "steps)", tight[IP] < tight["FOBOS"]),
        Claim("Figure 2, left", "the same by steps, if a Newton step counts as one",
              f"steps until {TOLERANCE} and {TIGHT_TOLERANCE:.0e}: "
              + ", ".join(f"{k} {a:.0f} and {b:.0f}" for k, (a, b) in by_steps.items()),
              by_steps[IP][1] < by_steps["FOBOS"][1]),
        Claim("Figure 2, middle", "FOBOS quickly selects the sparsity pattern of the optimum",
              f"same features after 30 steps {min(early):.0%} to {max(early):.0%} over the "
              f"strengths, after 100 {min(late):.0%} to {max(late):.0%} (90% at 30: quickly)",
              min(early) >= 0.9),
        Claim("Figure 2, middle", "the level of sparsity persists throughout the execution",
              f"from step 30 on the share of weights differs from the optimum's by at most "
              f"{max_difference:.1%} (within 5%: persists)", max_difference <= 0.05),
        Claim("Section 6", "this is common to non-stochastic versions",
              f"same features as the optimum after {PASSES} passes: {batch:.0%} with full "
              f"gradients, {online:.0%} with one example per step", batch > online),
    ]  # fmt: skip


def main() -> None:
    args = argument_parser(__doc__).parse_args()
    steps = PASSES if args.quick else 2000
    comparisons = [compare(data(seed), steps) for seed in range(1 if args.quick else 5)]
    A = data(0)
    curves, _, rates = comparisons[0]
    print_table(
        f"Products with the matrix until the excess is at most a tolerance: {M:,} x {N}, l1 of the "
        f"mean loss {SHARE * max_strength(A):.4f}",
        ("", "c", f"{TOLERANCE}", f"{TIGHT_TOLERANCE:.0e}", "final excess"),
        [
            (
                name,
                c,
                f"{products_to(curve):.0f}",
                f"{products_to(curve, TIGHT_TOLERANCE):.0f}",
                f"{curve[1][-1]:.0e}",
            )
            for (name, curve), c in zip(
                curves.items(), [*(f"{c:.2f}" for c in rates), "", "", ""], strict=True
            )
        ],
    )
    patterns = fit_patterns(A, rates[0])
    print_table(
        "FOBOS, one c for all strengths: share of non-zero weights, and overlap with the support "
        "of the optimum",
        ("l1, relative", *(f"step {t}" for t in (10, 30, 100)), "optimum",
         "same at 30", "same at 100"),
        [
            (f"{share:g}",
             *(f"{pattern.run.supports[t - 1].mean():.1%}" for t in (10, 30, 100)),
             f"{pattern.support.mean():.1%}", f"{pattern.overlap_at(30):.0%}",
             f"{pattern.overlap_at(100):.0%}")
            for share, pattern in patterns.items()
        ],
    )  # fmt: skip
    online_supports = run_online(A, SHARE * max_strength(A), PASSES)
    print_claims("Figure 2", claims(comparisons, patterns, online_supports, steps))
    runs = {share: pattern.run for share, pattern in patterns.items()}
    figure_2 = draw(curves, runs, online_supports)
    print(save_figure(figure_2, args.out, "fobos_sparsity.png"))


if __name__ == "__main__":
    main()
