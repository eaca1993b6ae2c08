"""The talk on dual coordinate ascent: its figures, and checks of its statements.

    python demos/papers/sdca_talk.py [--quick] [--data DIR] [--out DIR]

Shalev-Shwartz & Zhang (2013), "Stochastic Dual Coordinate Ascent Methods for Regularized Loss
Minimization": SDCA and SGD (steps 1 / (lambda t) in Pegasos' order, where the old weights decay;
and with one tuned number, the first step; the last weights, their mean, and the mean over the
second half of the steps), random and cyclic order, the smoothed hinge at several widths,
accelerated mini-batches at lambda = 1/n, and a dual close to its optimum while the primal is not.
No intercept, the talk's lambda. The talk's CCAT is all of RCV1 (its text does not give the number
of rows); the sample here has 27,613 rows, so that lambda n is smaller. The figures are not in the
talk's text, so the demo compares its statements, tables and rates. Takes some minutes. Uses
synthetic rows if the data is missing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import (
    Claim,
    argument_parser,
    print_claims,
    print_table,
    save_figure,
    set_data_directory,
)
from l1_ball_rcv1 import load_documents, synthetic
from scipy.sparse import csr_matrix
from sdca_lemma import check_lemma, sgd_as_printed
from sdca_race import (
    LONG,
    Race,
    Task,
    Trace,
    pass_ahead,
    passes_to,
    primal_objective,
    run_race,
    run_sdca,
    to_trace,
)

from streaml1.solvers import Solution, accelerated_sdca, fista, sdca

ROWS = 27_613  # of the sample; synthetic rows have the same lambda n
TRAIN = 20_000
GAMMAS = (0.0, 0.01, 0.1, 1.0)
BATCHES = (1, 3, 30, 300)
M = (4, 16, 64)
# The slide "Interpolating between ...": at gamma lambda n = m^k, iterations are a power of m.
POWERS = {
    0: {"SDCA": 0.0, "ASDCA": -0.5, "AGD": 0.0},
    -1: {"SDCA": 1.0, "ASDCA": 0.0, "AGD": 0.5},
    1: {"SDCA": 0.0, "ASDCA": -1.0, "AGD": -0.5},
}


def run_orders(task: Task, passes: int) -> dict[str, Trace]:
    l2 = task.strength(1e-4)
    return {
        order: run_sdca(task.X, task.y, "smoothed_hinge", l2, passes, order=order, tol=1e-9)
        for order in ("random", "permutation", "cyclic")
    }


def run_smoothed(task: Task, passes: int) -> dict[float, tuple[Trace, float]]:
    """Return the trace and the test error for each width of the smoothed hinge."""
    n = min(TRAIN, len(task.y) * 3 // 4)
    X, y, l2 = task.X[:n], task.y[:n], 1.0 / n
    results = {}
    for gamma in GAMMAS:
        loss = "smoothed_hinge" if gamma else "hinge"
        run = sdca(
            X, y, loss, l2=l2, gamma=gamma or 1.0, tol=1e-6, max_epochs=passes,
            callback=lambda record, w: False,
        )  # fmt: skip
        error = float(np.mean((task.X[n:] @ run.weights > 0.0) != task.y[n:]))
        results[gamma] = (to_trace(run), error)
    return results


def run_accelerated(task: Task, max_epochs: int) -> dict[int, Trace]:
    """Run accelerated mini-batches at lambda = 1/n."""
    l2, results = 1.0 / len(task.y), {}
    for m in BATCHES:
        run = accelerated_sdca(
            task.X, task.y, "smoothed_hinge", l2=l2, batch=m, tol=1e-4, max_epochs=max_epochs,
            callback=lambda record, w: False,
        )  # fmt: skip
        results[m] = to_trace(run)
    return results


def count_iterations(task: Task, rows: int, max_epochs: int) -> dict[int, dict[str, list[float]]]:
    """Count the steps to a gap of 0.001 at gamma lambda n = m^k, for each m."""
    X, y = task.X[:rows], task.y[:rows]
    n, results = X.shape[0], {}
    for k in POWERS:
        columns: dict[str, list[float]] = {"SDCA": [], "ASDCA": [], "AGD": []}
        for m in M:
            l2 = float(m) ** k / n
            problem: dict[str, Any] = {"loss": "smoothed_hinge", "l2": l2, "tol": 1e-3}
            stop = {"max_epochs": max_epochs, "callback": lambda record, w: False}
            result = sdca(X, y, order="random", **problem, **stop)
            columns["SDCA"].append(epochs_used(result) * n)
            columns["ASDCA"].append(
                epochs_used(accelerated_sdca(X, y, batch=m, **problem, **stop)) * math.ceil(n / m)
            )
            columns["AGD"].append(epochs_used(fista(X, y, **problem, **stop)))
        results[k] = columns
    return results


def epochs_used(solution: Solution) -> float:
    return float(solution.trace[-1].epoch) if solution.converged else math.nan


def fitted_power(values: list[float]) -> float:
    """Return the slope of log(values) over log(m)."""
    return float(np.polyfit(np.log(M), np.log(values), 1)[0])


class Split(NamedTuple):
    """Bounds of the dual and primal suboptimality at alpha = 0, on rows that a w_0 separates."""

    rows: int
    epsilon: float
    dual_below: float  # upper bound of D* - D(0)
    primal_above: float  # lower bound of P(w(0)) - P*
    after: tuple[float, float]  # the same bounds after a pass of SDCA


def separate(X: Any, y: Any, epsilon: float, passes: int) -> Split:
    """Set lambda = 2 epsilon / |w_0|^2 on the rows separated by a w_0, which SDCA finds."""
    sign = np.where(y, 1.0, -1.0)
    w = sdca(X, y, "hinge", l2=1e-3 / len(y), tol=1e-4, max_epochs=passes).weights
    margins = sign * (X @ w)
    separated = margins > 0.01 * float(np.median(margins))
    w_0 = w / float(margins[separated].min())
    l2 = 2.0 * epsilon / float(w_0 @ w_0)
    X, y = X[separated], y[separated]
    best = sdca(X, y, "hinge", l2=l2, tol=1e-2 * epsilon, max_epochs=passes)
    # P* is between best.dual and this bound.
    primal_bound = min(best.objective, primal_objective("hinge", X, y, w_0, l2))
    run = run_sdca(X, y, "hinge", l2, 1)
    after = primal_bound - (run.primal[1] - run.gap[1]), run.primal[1] - primal_bound
    return Split(int(separated.sum()), epsilon, primal_bound, 1.0 - primal_bound, after)


def claims(
    races: dict[str, Race],
    order: dict[str, Trace],
    widths: dict[float, tuple[Trace, float]],
    batches: dict[int, Trace],
    iteration_counts: dict[int, dict[str, list[float]]],
    splits: dict[str, Split],
    task: Task,
) -> list[Claim]:
    checked = []
    for loss, result in races.items():
        for tuned in (False, True):
            rivals = {k: v for k, v in result.rivals().items() if k.startswith("tuned") == tuned}
            after = [max(1, len(result.sdca) // 15), len(result.sdca) - 1]
            rate = f" (eta_0 = {result.rate})" if tuned else ""
            checked.append(
                Claim(
                    f"SDCA vs. SGD, {loss}",
                    "works great in practice (here: ahead at the end of SGD "
                    + ("with one tuned number)" if tuned else "with steps 1 / (lambda t))"),
                    f"P - D* after {after[0]} and {after[1]} passes: SDCA "
                    f"{format_pair(result.sdca[after])}"
                    + "".join(
                        f"; {name}{rate} {format_pair(values[after])}, SDCA stays ahead from pass "
                        f"{pass_ahead(result, values):g}"
                        for name, values in rivals.items()
                    ),
                    all(bool(result.sdca[-1] < values[-1]) for values in rivals.values()),
                )
            )
    checked.append(
        Claim(
            "update rule",
            "advantage: a stopping criterion (the gap is at least P - P*)",
            f"P minus that of a run {LONG} times as long is at most the gap at all "
            f"{sum(len(result.gap) for result in races.values())} records",
            all(bool(np.all(result.gap >= result.excess)) for result in races.values()),
        )
    )
    l2 = task.strength(1e-4)
    level = 1e-5
    passes = {name: passes_to(result.gap, level) for name, result in order.items()}
    checked.append(
        Claim(
            "SDCA vs. DCA",
            "randomization is crucial (here: cyclic takes over three times as long)",
            f"passes to a gap of {level:g}: "
            + ", ".join(f"{name} {format_count(count)}" for name, count in passes.items())
            + f"; cyclic is at {order['cyclic'].gap[-1]:.2g} after {len(order['cyclic'].gap) - 1}",
            passes["cyclic"] > 3.0 * passes["random"],
        )
    )
    n = len(task.y)
    steps = (n + 1.0 / l2) * math.log((n + 1.0 / l2) / level)
    checked.append(
        Claim(
            "Our results, smooth",
            "(n + 1 / (lambda gamma)) log(1 / epsilon) steps",
            f"random order: {format_count(passes['random'])} passes to {level:g}; the bound, with "
            f"log((n + 1 / (lambda gamma)) / epsilon), is {steps / n:.0f}",
            bool(passes["random"] <= steps / n),
        )
    )
    errors = [error for _, error in widths.values()]
    checked.append(
        Claim(
            "Smoothing the hinge",
            "mild effect on the 0-1 error (here: within a tenth)",
            ", ".join(f"gamma {gamma:g}: {error:.2%}" for gamma, (_, error) in widths.items()),
            max(errors) <= 1.1 * min(errors),
        )
    )
    reached = {gamma: passes_to(run.gap, 1e-3) for gamma, (run, _) in widths.items()}
    took = {gamma: seconds_to(run, 1e-3) for gamma, (run, _) in widths.items()}
    counts = list(reached.values())
    checked.append(
        Claim(
            "Smoothing the hinge",
            "improves training time",
            "passes (seconds) to a gap of 0.001: "
            + ", ".join(
                f"gamma {gamma:g}: {format_count(reached[gamma])} ({took[gamma]:.2g})"
                for gamma in widths
            ),
            bool(counts[-1] < counts[0] and all(np.diff(counts) <= 0.0)),
        )
    )
    reached_by = {m: passes_to(run.gap, 1e-3) for m, run in batches.items()}
    checked.append(
        Claim(
            "Experimental demonstration",
            "mini-batches at lambda = 1/n: larger batches take fewer iterations",
            "batches (passes) to a gap of 0.001: "
            + ", ".join(
                f"m = {m}: {format_count(count * math.ceil(n / m))} ({format_count(count)})"
                for m, count in reached_by.items()
            ),
            all(
                reached_by[b] * math.ceil(n / b) < reached_by[a] * math.ceil(n / a)
                for a, b in zip(BATCHES, BATCHES[1:], strict=False)
            ),
        )
    )
    names = {0: "1", -1: "1/m", 1: "m"}
    for k, columns in iteration_counts.items():
        checked.append(
            Claim(
                f"Interpolating, gamma lambda n = {names[k]}",
                "iterations grow at most like "
                + ", ".join(f"{a} m^{p:g}" for a, p in POWERS[k].items()),
                ", ".join(f"{a} m^{fitted_power(data):.2f}" for a, data in columns.items()),
                all(fitted_power(columns[a]) <= p + 0.15 for a, p in POWERS[k].items()),
            )
        )
    for name, split in splits.items():
        checked.append(
            Claim(
                f"Dual vs. primal, {name}",
                "epsilon on the dual can be meaningless: D* - D(0) <= epsilon, "
                "P(0) - P* >= 1 - epsilon",
                f"epsilon {split.epsilon:g}, {split.rows:,} separated rows: D* - D(0) <= "
                f"{split.dual_below:.3g}, P(0) - P* >= {split.primal_above:.3g}; after a pass "
                f"{split.after[0]:.2g} and {split.after[1]:.2g}",
                split.dual_below <= split.epsilon * (1.0 + 1e-9)
                and split.primal_above >= 1.0 - split.epsilon * (1.0 + 1e-9),
            )
        )
    tried, failed, min_slack = check_lemma()
    checked.append(
        Claim(
            "Proof idea",
            "the main lemma, for any t and s",
            f"synthetic rows, exact expectations: {tried:,} states and s, {failed} fail; "
            f"minimum slack {min_slack:.1e}",
            failed == 0,
        )
    )
    printed, right = sgd_as_printed()
    checked.append(
        Claim(
            "SDCA vs. SGD, example",
            "the SGD update of the hinge as printed, - 1[...] x_i / (lambda t)",
            f"P on synthetic rows after 20 passes {printed:.3g}; with + 1[...] y_i x_i "
            f"{right:.3g}; P(0) = 1",
            printed < 1.0,
        )
    )
    return checked


def format_pair(values: Any) -> str:
    return " and ".join(f"{value:.2g}" for value in values)


def seconds_to(run: Trace, level: float) -> float:
    axis = passes_to(run.gap, level)
    return float(run.seconds[int(axis)]) if math.isfinite(axis) else math.inf


def format_count(count: float) -> str:
    return f"{count:,.0f}" if math.isfinite(count) else "more"


def draw(
    races: dict[str, Race],
    order: dict[str, Trace],
    widths: dict[float, tuple[Trace, float]],
    batches: dict[int, Trace],
    n: int,
    title: str,
) -> Any:
    figure, axes = plt.subplots(2, 3, figsize=(14, 7.6), layout="constrained")
    for axis, (loss, result) in zip(axes[0], races.items(), strict=False):
        for label, values, style in (
            ("SDCA, P - D*", result.sdca, "C0o-"),
            ("SDCA, gap", result.gap, "C0:"),
            ("SGD, 1/(lambda t)", result.sgd.last, "C1s-"),
            ("its suffix mean", result.sgd.suffix, "C1--"),
            ("SGD, tuned", result.tuned.last, "C2^-"),
            ("its suffix mean", result.tuned.suffix, "C2--"),
        ):
            axis.semilogy(np.maximum(values, 1e-7), style, ms=3, label=label)
        axis.set_title(f"{title}, {loss}", loc="left")
        axis.set(xlabel="passes", ylabel="above the optimum")
    for name, run in order.items():
        axes[0, 2].semilogy(np.maximum(run.gap, 1e-9), label=name)
    axes[0, 2].set_title("order, smoothed hinge", loc="left")
    axes[0, 2].set(xlabel="passes", ylabel="gap")
    for gamma, (run, _) in widths.items():
        axes[1, 0].semilogy(np.maximum(run.gap, 1e-7), label=f"gamma = {gamma:g}")
    axes[1, 0].set_title("smoothing: the gap", loc="left")
    axes[1, 0].set(xlabel="passes", ylabel="gap")
    axes[1, 1].bar([f"{gamma:g}" for gamma in widths], [100 * e for _, e in widths.values()])
    axes[1, 1].set_title("smoothing: 0-1 test error, %", loc="left")
    axes[1, 1].set(xlabel="gamma")
    for m, run in batches.items():
        count = math.ceil(n / m) * np.arange(len(run.gap))
        axes[1, 2].loglog(count[1:], run.gap[1:], label=f"m = {m}")
    axes[1, 2].set_title("accelerated, lambda = 1/n", loc="left")
    axes[1, 2].set(xlabel="batches", ylabel="gap")
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        if axis is not axes[1, 1]:
            axis.legend(frameon=False)
    return figure


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", type=int, default=30_000, help="maximum number of documents")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # runs stop early on purpose
    set_data_directory(args.data)
    data = None if args.quick else load_documents("CCAT", args.rows)
    X, y = synthetic(600, 400) if data is None else data
    title = "synthetic rows" if data is None else "CCAT"
    task = Task(X, y, ROWS / len(y) if data is None else 1.0)
    passes, max_epochs = (6, 100) if data is None else (30, 400)
    races = {loss: run_race(task, loss, passes) for loss in ("smoothed_hinge", "hinge")}
    order = run_orders(task, 10 if data is None else 60)
    widths = run_smoothed(task, 2 * passes)
    batches = run_accelerated(task, max_epochs)
    iteration_counts = count_iterations(task, 300 if data is None else 3_000, 1_000)
    splits = {
        "synthetic": separate(*separable_rows(), 0.01, 300),
        title: separate(X[:3_000], y[:3_000], 0.01, 300),
    }
    print_table(
        f"{title}: {len(y):,} rows; steps to a gap of 0.001 on {min(len(y), 3_000):,} of them",
        ("gamma lambda n", "m", "SDCA", "ASDCA", "AGD (FISTA)"),
        [
            ({0: "1", -1: "1/m", 1: "m"}[k], m,
             *(format_count(columns[name][i]) for name in ("SDCA", "ASDCA", "AGD")))
            for k, columns in iteration_counts.items() for i, m in enumerate(M)
        ],
    )  # fmt: skip
    format_excesses: Callable[[Any], str] = lambda values: ", ".join(f"{v:.1e}" for v in values)  # noqa: E731
    shown_passes = sorted({1, 2, passes // 6, passes // 3, passes})
    print_table(
        f"P - D* after {', '.join(map(str, shown_passes))} passes, "
        f"lambda = {task.strength(1e-6):.2g}",
        ("", "P - D*"),
        [
            (f"{loss}, {name}", format_excesses(values[shown_passes]))
            for loss, r in races.items()
            for name, values in {"SDCA": r.sdca, **r.rivals()}.items()
        ],
    )
    print_claims("The talk", claims(races, order, widths, batches, iteration_counts, splits, task))
    print(
        save_figure(draw(races, order, widths, batches, len(y), title), args.out, "sdca-talk.png")
    )


def separable_rows() -> tuple[Any, Any]:
    """Draw rows that a hyperplane separates."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20))
    y = X[:, 0] > 0.0
    X[:, 0] += np.where(y, 0.5, -0.5)
    return csr_matrix(X), y


if __name__ == "__main__":
    main()
