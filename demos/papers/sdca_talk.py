"""The talk on dual coordinate ascent: its pictures again, and whether its text holds.

    python demos/papers/sdca_talk.py [--quick] [--data FOLDER] [--out FOLDER]

Shalev-Shwartz & Zhang (2013), "Stochastic Dual Coordinate Ascent Methods for Regularized Loss
Minimization": SDCA beside SGD (steps 1 / (lambda t) in Pegasos' order, where the old weights
decay), random order beside cyclic, the smoothed hinge as its width varies, accelerated mini-batches
at lambda = 1/n, and a dual that is near its optimum where the primal is not. No intercept, the
talk's lambda. The talk's CCAT is of the whole of RCV1 (its text does not give the number of rows);
the sample here has 27,613, so that lambda n is smaller. The pictures are not in the talk's text:
what is compared are its sentences, tables and rates. Takes some minutes; made rows without data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import Claim, look_in, options, save, show_claims, table
from l1_ball_rcv1 import documents, made
from scipy.sparse import csr_matrix
from sdca_lemma import as_printed, lemma_fails

import streaml1
from streaml1.solvers import Solution, accelerated_sdca, fista, sdca

ROWS = 27_613  # of the sample; made rows have the same lambda n
TRAIN = 20_000
LONG = 6
GAMMAS = (0.0, 0.01, 0.1, 1.0)
BATCHES = (1, 3, 30, 300)
M = (4, 16, 64)
# Of the slide "Interpolating between ...": iterations are a power of m, at gamma lambda n = m^k.
POWERS = {
    0: {"SDCA": 0.0, "ASDCA": -0.5, "AGD": 0.0},
    -1: {"SDCA": 1.0, "ASDCA": 0.0, "AGD": 0.5},
    1: {"SDCA": 0.0, "ASDCA": -1.0, "AGD": -0.5},
}


class Trace(NamedTuple):
    """Where a run stood after each pass, counted from 0."""

    primal: Any
    gap: Any
    seconds: Any


class Task(NamedTuple):
    """Rows, labels, and the talk's lambda for them."""

    X: Any
    y: Any
    scale: float

    def strength(self, talk: float) -> float:
        """The talk's lambda, or what has the same product with the number of rows."""
        return talk * self.scale


def primal(loss: str, X: Any, y: Any, w: Any, l2: float, gamma: float = 1.0) -> float:
    z = 1.0 - np.where(y, 1.0, -1.0) * (X @ w)
    if loss == "hinge":
        phi = np.maximum(0.0, z)
    else:
        phi = np.where(z > gamma, z - 0.5 * gamma, np.maximum(0.0, z) ** 2 / (2.0 * gamma))
    return float(phi.mean() + 0.5 * l2 * (w @ w))


def traced(solution: Solution) -> Trace:
    columns = np.array([(one.objective, one.gap, one.seconds) for one in solution.trace]).T
    return Trace(*columns)


def ascended(X: Any, y: Any, loss: str, l2: float, passes: int, **given: Any) -> Trace:
    """SDCA with a record after each pass."""
    given = {"tol": 1e-12, **given}
    return traced(
        sdca(X, y, loss, l2=l2, max_epochs=passes, callback=lambda record, w: False, **given)
    )


def sgd(task: Task, loss: str, l2: float, passes: int, average: bool) -> Any:
    """P after each pass of SGD. FoBoS at 1 / (lambda t) is Pegasos' (t + 1)-th step, exactly."""
    if loss == "hinge":
        model: Any = streaml1.PegasosClassifier(
            l2=l2, project=False, intercept_lr=0.0, average=average
        )
    else:
        model = streaml1.ElasticNetClassifier(
            l2=l2, lr=1.0 / l2, schedule="inverse", loss=loss, intercept_lr=0.0, average=average
        )
    rng, found = np.random.default_rng(0), [primal(loss, task.X, task.y, zeros(task), l2)]
    for _ in range(passes):
        order = rng.permutation(len(task.y))
        model.learn_many(task.X[order], task.y[order])
        w, weights = zeros(task), model.weights
        w[list(weights)] = list(weights.values())
        found.append(primal(loss, task.X, task.y, w, l2))
    return np.array(found)


def zeros(task: Task) -> Any:
    return np.zeros(task.X.shape[1])


class Race(NamedTuple):
    """SDCA beside SGD: how far P is above a lower bound of its optimum, after each pass."""

    sdca: Any
    gap: Any
    sgd: Any
    averaged: Any
    excess: Any  # of SDCA's P above that of a long run


def race(task: Task, loss: str, passes: int) -> Race:
    l2 = task.strength(1e-6)
    long = sdca(task.X, task.y, loss, l2=l2, tol=1e-6, max_epochs=LONG * passes)
    run = ascended(task.X, task.y, loss, l2, passes)
    bound = max(long.dual, float((run.primal - run.gap).max()))
    return Race(
        run.primal - bound,
        run.gap,
        *(sgd(task, loss, l2, passes, average) - bound for average in (False, True)),
        run.primal - long.objective,
    )


def orders(task: Task, passes: int) -> dict[str, Trace]:
    l2 = task.strength(1e-4)
    return {
        order: ascended(task.X, task.y, "smoothed_hinge", l2, passes, order=order, tol=1e-9)
        for order in ("random", "permutation", "cyclic")
    }


def smoothed(task: Task, passes: int) -> dict[float, tuple[Trace, float]]:
    """For each width the course of the gap, and the share of wrong labels of other rows."""
    n = min(TRAIN, len(task.y) * 3 // 4)
    X, y, l2 = task.X[:n], task.y[:n], 1.0 / n
    found = {}
    for gamma in GAMMAS:
        loss = "smoothed_hinge" if gamma else "hinge"
        run = sdca(
            X, y, loss, l2=l2, gamma=gamma or 1.0, tol=1e-6, max_epochs=passes,
            callback=lambda record, w: False,
        )  # fmt: skip
        error = float(np.mean((task.X[n:] @ run.weights > 0.0) != task.y[n:]))
        found[gamma] = (traced(run), error)
    return found


def accelerated(task: Task, most: int) -> dict[int, Trace]:
    """Mini-batches at lambda = 1/n, the gap after each pass."""
    l2, found = 1.0 / len(task.y), {}
    for m in BATCHES:
        run = accelerated_sdca(
            task.X, task.y, "smoothed_hinge", l2=l2, batch=m, tol=1e-4, max_epochs=most,
            callback=lambda record, w: False,
        )  # fmt: skip
        found[m] = traced(run)
    return found


def iterations(task: Task, rows: int, most: int) -> dict[int, dict[str, list[float]]]:
    """Steps to a gap of 0.001 at gamma lambda n = m^k, for each m."""
    X, y = task.X[:rows], task.y[:rows]
    n, found = X.shape[0], {}
    for k in POWERS:
        columns: dict[str, list[float]] = {"SDCA": [], "ASDCA": [], "AGD": []}
        for m in M:
            l2 = float(m) ** k / n
            given: dict[str, Any] = {"loss": "smoothed_hinge", "l2": l2, "tol": 1e-3}
            stop = {"max_epochs": most, "callback": lambda record, w: False}
            one = sdca(X, y, order="random", **given, **stop)
            columns["SDCA"].append(_epoch(one) * n)
            columns["ASDCA"].append(
                _epoch(accelerated_sdca(X, y, batch=m, **given, **stop)) * math.ceil(n / m)
            )
            columns["AGD"].append(_epoch(fista(X, y, **given, **stop)))
        found[k] = columns
    return found


def _epoch(solution: Solution) -> float:
    return float(solution.trace[-1].epoch) if solution.converged else math.nan


def power(values: list[float]) -> float:
    """The slope of the logarithms over that of m."""
    return float(np.polyfit(np.log(M), np.log(values), 1)[0])


class Split(NamedTuple):
    """Rows that a w_0 separates, and what is known at alpha = 0 and at the optimum."""

    rows: int
    epsilon: float
    dual_below: float  # D* - D(0) is at most so much
    primal_above: float  # P(w(0)) - P* is at least so much
    after: tuple[float, float]  # the same two after a pass of SDCA, at most and at least


def separable(X: Any, y: Any, epsilon: float, passes: int) -> Split:
    """Lambda = 2 epsilon / |w_0|^2, on the rows that a w_0 found by SDCA separates."""
    sign = np.where(y, 1.0, -1.0)
    w = sdca(X, y, "hinge", l2=1e-3 / len(y), tol=1e-4, max_epochs=passes).weights
    margins = sign * (X @ w)
    kept = margins > 0.01 * float(np.median(margins))
    w_0 = w / float(margins[kept].min())
    l2 = 2.0 * epsilon / float(w_0 @ w_0)
    X, y = X[kept], y[kept]
    best = sdca(X, y, "hinge", l2=l2, tol=1e-2 * epsilon, max_epochs=passes)
    least = min(best.objective, primal("hinge", X, y, w_0, l2))  # P* is between it and best.dual
    run = ascended(X, y, "hinge", l2, 1)
    after = least - (run.primal[1] - run.gap[1]), run.primal[1] - least
    return Split(int(kept.sum()), epsilon, least, 1.0 - least, after)


def first(values: Any, level: float) -> float:
    there = np.flatnonzero(np.asarray(values) <= level)
    return float(there[0]) if len(there) else math.inf


def ahead(race: Race, rival: Any) -> float:
    """The pass from which on SDCA is below it."""
    behind = np.flatnonzero(race.sdca >= rival)
    return float(behind[-1] + 1) if len(behind) else 0.0


def claims(
    races: dict[str, Race],
    order: dict[str, Trace],
    widths: dict[float, tuple[Trace, float]],
    batches: dict[int, Trace],
    table_of: dict[int, dict[str, list[float]]],
    splits: dict[str, Split],
    task: Task,
) -> list[Claim]:
    made = []
    for loss, one in races.items():
        made.append(
            Claim(
                f"SDCA vs. SGD, {loss}",
                "works great in practice (here: ahead of SGD at the end)",
                f"P - D* after {len(one.sdca) - 1} passes: SDCA {one.sdca[-1]:.2g}, SGD "
                f"{one.sgd[-1]:.2g}, its mean {one.averaged[-1]:.2g}; ahead for good of SGD "
                f"from pass {ahead(one, one.sgd):g}, of its mean from "
                f"{ahead(one, one.averaged):g}",
                bool(one.sdca[-1] < min(one.sgd[-1], one.averaged[-1])),
            )
        )
    made.append(
        Claim(
            "update rule",
            "advantage: a stopping criterion (the gap is at least P - P*)",
            f"P less that of a run {LONG} times as long is at most the gap at all "
            f"{sum(len(one.gap) for one in races.values())} records",
            all(bool(np.all(one.gap >= one.excess)) for one in races.values()),
        )
    )
    l2 = task.strength(1e-4)
    level = 1e-5
    passes = {name: first(one.gap, level) for name, one in order.items()}
    made.append(
        Claim(
            "SDCA vs. DCA",
            "randomization is crucial (here: cyclic takes over three times as long)",
            f"passes to a gap of {level:g}: "
            + ", ".join(f"{name} {shown(count)}" for name, count in passes.items())
            + f"; cyclic is at {order['cyclic'].gap[-1]:.2g} after {len(order['cyclic'].gap) - 1}",
            passes["cyclic"] > 3.0 * passes["random"],
        )
    )
    n = len(task.y)
    steps = (n + 1.0 / l2) * math.log((n + 1.0 / l2) / level)
    made.append(
        Claim(
            "Our results, smooth",
            "(n + 1 / (lambda gamma)) log(1 / epsilon) steps",
            f"random order: {shown(passes['random'])} passes to {level:g}; the bound, with "
            f"log((n + 1 / (lambda gamma)) / epsilon), is {steps / n:.0f}",
            bool(passes["random"] <= steps / n),
        )
    )
    errors = [error for _, error in widths.values()]
    made.append(
        Claim(
            "Smoothing the hinge",
            "mild effect on the 0-1 error (here: within a tenth)",
            ", ".join(f"gamma {gamma:g}: {error:.2%}" for gamma, (_, error) in widths.items()),
            max(errors) <= 1.1 * min(errors),
        )
    )
    reached = {gamma: first(run.gap, 1e-3) for gamma, (run, _) in widths.items()}
    took = {gamma: seconds_to(run, 1e-3) for gamma, (run, _) in widths.items()}
    counts = list(reached.values())
    made.append(
        Claim(
            "Smoothing the hinge",
            "improves training time",
            "passes (seconds) to a gap of 0.001: "
            + ", ".join(
                f"gamma {gamma:g}: {shown(reached[gamma])} ({took[gamma]:.2g})" for gamma in widths
            ),
            bool(counts[-1] < counts[0] and all(np.diff(counts) <= 0.0)),
        )
    )
    reached_by = {m: first(run.gap, 1e-3) for m, run in batches.items()}
    made.append(
        Claim(
            "Experimental demonstration",
            "mini-batches at lambda = 1/n: larger batches take fewer iterations",
            "batches (passes) to a gap of 0.001: "
            + ", ".join(
                f"m = {m}: {shown(count * math.ceil(n / m))} ({shown(count)})"
                for m, count in reached_by.items()
            ),
            all(
                reached_by[b] * math.ceil(n / b) < reached_by[a] * math.ceil(n / a)
                for a, b in zip(BATCHES, BATCHES[1:], strict=False)
            ),
        )
    )
    names = {0: "1", -1: "1/m", 1: "m"}
    for k, columns in table_of.items():
        made.append(
            Claim(
                f"Interpolating, gamma lambda n = {names[k]}",
                "iterations grow at most like "
                + ", ".join(f"{a} m^{p:g}" for a, p in POWERS[k].items()),
                ", ".join(f"{a} m^{power(found):.2f}" for a, found in columns.items()),
                all(power(columns[a]) <= p + 0.15 for a, p in POWERS[k].items()),
            )
        )
    for name, split in splits.items():
        made.append(
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
    tried, failed, least = lemma_fails()
    made.append(
        Claim(
            "Proof idea",
            "the main lemma, for any t and s",
            f"made rows, expectations exact: {tried:,} states and s, {failed} fail; "
            f"the least of left minus right is {least:.1e}",
            failed == 0,
        )
    )
    printed, right = as_printed()
    made.append(
        Claim(
            "SDCA vs. SGD, example",
            "the SGD update of the hinge as printed, - 1[...] x_i / (lambda t)",
            f"P on made rows after 20 passes {printed:.3g}; with + 1[...] y_i x_i {right:.3g}, "
            "of P(0) = 1",
            printed < 1.0,
        )
    )
    return made


def seconds_to(run: Trace, level: float) -> float:
    at = first(run.gap, level)
    return float(run.seconds[int(at)]) if math.isfinite(at) else math.inf


def shown(count: float) -> str:
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
    for at, (loss, one) in zip(axes[0], races.items(), strict=False):
        for label, values, style in (
            ("SDCA, P - D*", one.sdca, "C0o-"),
            ("SDCA, gap", one.gap, "C0:"),
            ("SGD", one.sgd, "C1s-"),
            ("SGD, mean", one.averaged, "C2^-"),
        ):
            at.semilogy(np.maximum(values, 1e-7), style, ms=3, label=label)
        at.set_title(f"{title}, {loss}", loc="left")
        at.set(xlabel="passes", ylabel="above the optimum")
    for name, run in order.items():
        axes[0, 2].semilogy(np.maximum(run.gap, 1e-9), label=name)
    axes[0, 2].set_title("order, smoothed hinge", loc="left")
    axes[0, 2].set(xlabel="passes", ylabel="gap")
    for gamma, (run, _) in widths.items():
        axes[1, 0].semilogy(np.maximum(run.gap, 1e-7), label=f"gamma = {gamma:g}")
    axes[1, 0].set_title("smoothing: the gap", loc="left")
    axes[1, 0].set(xlabel="passes", ylabel="gap")
    axes[1, 1].bar([f"{gamma:g}" for gamma in widths], [100 * e for _, e in widths.values()])
    axes[1, 1].set_title("smoothing: 0-1 error of other rows, %", loc="left")
    axes[1, 1].set(xlabel="gamma")
    for m, run in batches.items():
        count = math.ceil(n / m) * np.arange(len(run.gap))
        axes[1, 2].loglog(count[1:], run.gap[1:], label=f"m = {m}")
    axes[1, 2].set_title("accelerated, lambda = 1/n", loc="left")
    axes[1, 2].set(xlabel="batches", ylabel="gap")
    for at in axes.flat:
        at.spines[["top", "right"]].set_visible(False)
        if at is not axes[1, 1]:
            at.legend(frameon=False)
    return figure


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=30_000, help="at most so many documents")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # runs are ended early on purpose
    look_in(given.data)
    found = None if given.quick else documents("CCAT", given.rows)
    X, y = made(600, 400) if found is None else found
    title = "made rows" if found is None else "CCAT"
    task = Task(X, y, ROWS / len(y) if found is None else 1.0)
    passes, most = (6, 100) if found is None else (30, 400)
    races = {loss: race(task, loss, passes) for loss in ("smoothed_hinge", "hinge")}
    order = orders(task, 10 if found is None else 60)
    widths = smoothed(task, 2 * passes)
    batches = accelerated(task, most)
    table_of = iterations(task, 300 if found is None else 3_000, 1_000)
    splits = {
        "made": separable(*apart(), 0.01, 300),
        title: separable(X[:3_000], y[:3_000], 0.01, 300),
    }
    table(
        f"{title}: {len(y):,} rows; steps to a gap of 0.001 on {min(len(y), 3_000):,} of them",
        ("gamma lambda n", "m", "SDCA", "ASDCA", "AGD (FISTA)"),
        [
            ({0: "1", -1: "1/m", 1: "m"}[k], m,
             *(shown(columns[name][i]) for name in ("SDCA", "ASDCA", "AGD")))
            for k, columns in table_of.items() for i, m in enumerate(M)
        ],
    )  # fmt: skip
    told: Callable[[Any], str] = lambda values: ", ".join(f"{v:.1e}" for v in values)  # noqa: E731
    marks = sorted({1, 2, passes // 6, passes // 3, passes})
    table(
        f"P - D* after {', '.join(map(str, marks))} passes, lambda = {task.strength(1e-6):.2g}",
        ("loss", "SDCA", "SGD", "its mean"),
        [
            (loss, *(told(one[marks]) for one in (r.sdca, r.sgd, r.averaged)))
            for loss, r in races.items()
        ],
    )
    show_claims("The talk", claims(races, order, widths, batches, table_of, splits, task))
    print(save(draw(races, order, widths, batches, len(y), title), given.out, "sdca-talk.png"))


def apart() -> tuple[Any, Any]:
    """Made rows that a plane separates."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20))
    y = X[:, 0] > 0.0
    X[:, 0] += np.where(y, 0.5, -0.5)
    return csr_matrix(X), y


if __name__ == "__main__":
    main()
