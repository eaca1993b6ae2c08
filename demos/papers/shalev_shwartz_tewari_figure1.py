"""Shalev-Shwartz & Tewari (2009), Figure 1: the objective and the density against data accesses.

    python demos/papers/shalev_shwartz_tewari_figure1.py [--data FOLDER] [--most 1e9] [--quick]

SCD, DETCD, SMIDAS and truncated gradient (of each step, without a threshold) minimise the logistic
loss + lambda |w|_1 on MAGIC04S, MAGIC04D, ARCENE and RCV1; then every ordering that the paper's
text states is looked at, one by one. As in the paper: no intercept, constant rates, the best of
1e-6, 1e-5, ..., 1e-1 by the objective it ends with, an example drawn at random for each step.
Columns are divided by their largest entry where that is above 1, as Eq. (1) has x in [-1, 1].

The axis is that of the paper's figure, in passes over the data, and ends at `--most` accesses. An
access is a read of a non-zero: SCD reads a column for its slope, and again when the weight moves;
the learners read an example for its margin, and again for the step. Two curves are the algorithms
as the paper prints them: SCD with its one step for all columns, and DETCD with all slopes computed
anew for each step, where ours keeps them. "Better" is the lower mean height above the optimum, over
the axis; "much" is by half.

Without data, or with --quick, the same on made data: the claims are those on the paper's and need
not hold there. Writes out/shalev-shwartz-tewari-figure1.png. Ten minutes on a free core.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import CONSOLE, Claim, data_folder, options, save, show_claims, table, without
from scipy.sparse import csr_matrix

import streaml1
import streaml1.datasets
from streaml1.jit import kernel
from streaml1.offline import NotConverged, detcd, scd

RATES = tuple(10.0**k for k in range(-6, 0))  # the paper's
MORE = (1.0, 10.0)
POINTS = 40
ONLINE = ("SMIDAS", "TruncGrad")
FOUR = ("SCD", "DETCD", *ONLINE)
PRINTED, ANEW = "SCD, step as printed", "DETCD, slopes anew"
MUCH, BATCH, SEED = 2.0, 2000, 2009
COLORS = dict(zip((*FOUR, PRINTED, ANEW), ("C0", "C3", "C2", "C1", "C0", "C3"), strict=True))


class Problem(NamedTuple):
    """One of the figure's, with the passes over the data that the paper's axis is long."""

    name: str
    l1: float
    X: csr_matrix
    y: Any
    passes: float

    @property
    def key(self) -> tuple[str, float]:
        """Data set and strength."""
        return self.name, self.l1


class Curve(NamedTuple):
    """What one algorithm did: accesses, objective and non-zeros, and seconds of the thread."""

    accesses: Any
    objective: Any
    n_nonzero: Any
    seconds: float
    rate: float | None = None


class Result(NamedTuple):
    """The curves of a problem, the best rate's of those that have one, and its optimum."""

    horizon: float
    best: float
    weights: Any
    curves: dict[str, Curve]
    rates: dict[str, dict[float, Curve]]
    shape: tuple[int, int]
    square: float  # the mean of the squared norms of the examples


def scaled(X: Any) -> csr_matrix:
    """Columns that go beyond [-1, 1] divided by their largest entry."""
    most = np.asarray(abs(X).max(axis=0).todense()).ravel()
    return csr_matrix(X.multiply(1.0 / np.where(most > 1.0, most, 1.0)))


def problems(folder: Path) -> Iterator[Problem]:
    """The paper's, as far as their data is there."""
    rcv1 = streaml1.datasets.RCV1("CCAT")
    loaders: list[tuple[str, Any, tuple[float, ...], float]] = [
        ("RCV1", rcv1, (1e-6, 1e-5), 2e9 / 9.8e7),
        ("ARCENE", streaml1.datasets.Arcene("train"), (1e-2, 1e-6), 1.2e9 / 5.4e5),
        ("MAGIC04S", streaml1.datasets.MAGIC04("sparse"), (1e-4, 1e-3), 2.5e8 / 1.12e6),
        ("MAGIC04D", streaml1.datasets.MAGIC04("dense"), (1e-4, 1e-3), 4e9 / 1.92e7),
    ]
    for name, data, strengths, passes in loaders:
        try:
            X, y = data.matrix()
        except (OSError, ValueError) as error:
            CONSOLE.print(f"{name} is not run: {error}")
            continue
        X = scaled(X)
        for l1 in strengths:
            yield Problem(name, l1, X, y, passes)


def made() -> Iterator[Problem]:
    """Little data of the same kinds: noise in most columns, rows sparse or dense."""
    rng = np.random.default_rng(SEED)
    for name, n, d, share, strengths in (
        ("RCV1", 300, 400, 0.03, (1e-6, 1e-5)),
        ("ARCENE", 40, 300, 0.54, (1e-2, 1e-6)),
        ("MAGIC04S", 300, 60, 0.06, (1e-4, 1e-3)),
        ("MAGIC04D", 300, 60, 1.0, (1e-4, 1e-3)),
    ):
        X = rng.uniform(-1.0, 1.0, (n, d)) * (rng.random((n, d)) < share)
        X[:, :5] = rng.uniform(-1.0, 1.0, (n, 5))
        y = X[:, :5] @ [3.0, -3.0, 2.0, -2.0, 1.0] + rng.normal(0.0, 0.5, n) > 0.0
        for l1 in strengths:
            yield Problem(name, l1, csr_matrix(X), y, 20.0)


def objective(p: Problem, w: Any) -> float:
    margins = np.where(p.y, 1.0, -1.0) * (p.X @ w)
    return float(np.logaddexp(0.0, -margins).mean() + p.l1 * np.abs(w).sum())


def quiet(solver: Callable[..., Any], p: Problem, **rest: Any) -> Any:
    """Run a solver that is to be stopped before it has converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return solver(p.X, p.y, "logistic", p.l1, **rest)


def traced(solver: Callable[..., Any], p: Problem, horizon: float, **rest: Any) -> Curve:
    """A solver's records, up to the first one past the horizon.

    What the steps do not need is taken off: margins that are summed anew, and the slopes that tell
    the gap. Those of SCD count, for it leaves out coordinates by them.
    """
    again, looks, points = p.X.getnnz(axis=0), 0, []

    def note(record: Any, w: Any) -> bool:
        nonlocal looks
        looks += int(again[w != 0.0].sum())
        if solver is detcd:
            looks += p.X.nnz * (1 + (len(points) > 1))
        points.append((record.accesses - looks, record.objective, record.n_nonzero))
        return points[-1][0] >= horizon

    begin = time.thread_time()
    quiet(solver, p, tol=1e-9, callback=note, **rest)
    return Curve(*map(np.array, zip(*points, strict=True)), time.thread_time() - begin)


@kernel
def printed_steps(
    ids: Any, values: Any, indptr: Any, y: Any, l1: float, draws: Any, w: Any, z: Any
) -> Any:
    """Algorithm 2 as it is printed: w >= 0 for [x, -x], and the step 1/beta of Eq. (9)."""
    d, m, read = len(indptr) - 1, len(y), 0
    for draw in draws:
        sign = 1.0 if draw < d else -1.0
        j = draw % d
        g = 0.0
        for k in range(indptr[j], indptr[j + 1]):
            g -= y[ids[k]] * sign * values[k] / (1.0 + math.exp(y[ids[k]] * z[ids[k]]))
        eta = max(-w[draw], -(g / m + l1) / 0.25)
        read += indptr[j + 1] - indptr[j]
        if eta != 0.0:
            w[draw] += eta
            for k in range(indptr[j], indptr[j + 1]):
                z[ids[k]] += eta * sign * values[k]
            read += indptr[j + 1] - indptr[j]
    return read


def printed(p: Problem, horizon: float) -> Curve:
    """SCD with the paper's own step, which needs |x| <= 1."""
    columns, d = p.X.tocsc(), p.X.shape[1]
    rng = np.random.default_rng(SEED)
    w, z, accesses = np.zeros(2 * d), np.zeros(len(p.y)), 0
    points = [(0, objective(p, np.zeros(d)), 0)]
    chunk = max(2, round(horizon / POINTS * d / p.X.nnz / 2.0))
    begin = time.thread_time()
    while accesses < horizon:
        draws = rng.integers(0, 2 * d, chunk)
        accesses += int(
            printed_steps(
                *(columns.indices, columns.data, columns.indptr),
                *(np.where(p.y, 1.0, -1.0), p.l1, draws, w, z),
            )
        )
        half = w[:d] - w[d:]
        points.append((accesses, objective(p, half), np.count_nonzero(half)))
    return Curve(*map(np.array, zip(*points, strict=True)), time.thread_time() - begin)


def learner(name: str, p: Problem, rate: float) -> Any:
    shared: dict[str, Any] = {"lr": rate, "schedule": "constant", "intercept_lr": 0.0}
    if name == "SMIDAS":
        return streaml1.SMIDASClassifier(l1=p.l1, n_features=p.X.shape[1], **shared)
    return streaml1.TruncatedGradientClassifier(gravity=p.l1, period=1, **shared)


def batches(p: Problem, rows: int, seed: int = SEED) -> Iterator[tuple[Any, Any]]:
    """Examples drawn with replacement, some at a time."""
    rng = np.random.default_rng(seed)
    for lo in range(0, rows, BATCH):
        drawn = rng.integers(0, len(p.y), min(BATCH, rows - lo))
        yield p.X[drawn], p.y[drawn]


def learnt(name: str, p: Problem, horizon: float, rate: float) -> Curve:
    """One learner at one rate: two reads of each non-zero of the examples drawn."""
    model, w = learner(name, p, rate), np.zeros(p.X.shape[1])
    rows = round(horizon / (2.0 * p.X.nnz / len(p.y)))
    accesses, seconds, due = 0, 0.0, horizon / POINTS
    points = [(0, objective(p, w), 0)]
    for X, y in batches(p, rows):
        begin = time.thread_time()
        model.learn_many(X, y)
        seconds += time.thread_time() - begin
        accesses += 2 * X.nnz
        if accesses >= due:
            due += horizon / POINTS
            w[:] = 0.0
            kept = model.weights
            w[list(kept)] = list(kept.values())
            points.append((accesses, objective(p, w), len(kept)))
    return Curve(*map(np.array, zip(*points, strict=True)), seconds, rate)


def run(p: Problem, most_accesses: float) -> Result:
    """All algorithms on one problem."""
    n, d = p.X.shape
    horizon = min(most_accesses, p.passes * p.X.nnz)
    best = quiet(scd, p, tol=1e-5, max_epochs=3000)
    most: dict[str, Any] = {"max_epochs": 10**6}
    steps = max(1, round(horizon / p.X.nnz / POINTS))
    curves = {
        "SCD": traced(scd, p, horizon, step="bound", order="random", every=1, seed=SEED, **most),
        "DETCD": traced(detcd, p, horizon, every=steps, **most),
    }
    rates = {k: {r: learnt(k, p, horizon, r) for r in (*RATES, *MORE)} for k in ONLINE}
    for name in ONLINE:
        curves[name] = min((rates[name][r] for r in RATES), key=lambda c: c.objective[-1])
    curves[PRINTED] = printed(p, horizon)
    greedy = curves["DETCD"]
    passes = steps * np.arange(len(greedy.objective)) * p.X.nnz
    curves[ANEW] = greedy._replace(accesses=passes)
    square = float(p.X.multiply(p.X).sum()) / n
    return Result(horizon, best.objective, best.weights, curves, rates, (n, d), square)


def excess(result: Result, name: str, curve: Curve | None = None) -> float:
    """The mean height of a curve above the optimum, over the axis; 1 is where all begin."""
    c = curve or result.curves[name]
    grid = np.linspace(0.0, result.horizon, 401)[1:]
    heights = np.minimum(np.interp(grid, c.accesses, c.objective), c.objective[0])
    return float((heights.mean() - result.best) / (c.objective[0] - result.best))


def reached(result: Result, name: str, part: float = 0.1) -> float:
    """The part of the axis after which a curve is within `part` of the way above the optimum."""
    c = result.curves[name]
    level = result.best + part * (c.objective[0] - result.best)
    below = np.flatnonzero(c.objective <= level)
    return float(c.accesses[below[0]] / result.horizon) if len(below) else math.inf


def better(result: Result, a: str, b: str, much: bool = False) -> bool:
    """Whether a's curve is lower than b's, in the mean over the axis; by half, if much."""
    return excess(result, a) * (MUCH if much else 1.0) < excess(result, b)


def told(result: Result, *names: str) -> str:
    return ", ".join(f"{name} {excess(result, name):.3f}" for name in names)


def asked(result: Result) -> tuple[float, float]:
    """The iterations of Eq. (3) and of Eq. (4) at the optimum, up to a factor that both have."""
    w = result.weights
    return (
        math.log(result.shape[1]) * float(np.abs(w).sum()) ** 2,
        float(w @ w) * result.square,
    )


def density(result: Result, name: str) -> float:
    """The mean number of non-zero weights along the way."""
    return float(np.mean(result.curves[name].n_nonzero[1:]))


def tuning(result: Result, name: str) -> float:
    """Excess of a learner whose runs at all the paper's rates are one after the other.

    The runs are shortened to a part of the axis each, as if that part were known to be enough.
    """
    part = result._replace(horizon=result.horizon / len(RATES))
    return min(excess(part, name, result.rates[name][rate]) for rate in RATES)


def claims(results: dict[tuple[str, float], Result]) -> list[Claim]:
    """Every ordering that Section 4 states, each from the curves."""
    made: list[Claim] = []

    def add(key: tuple[str, float], says: str, check: Callable[[Result], tuple[str, bool]]) -> None:
        place = f"{key[0]}, lambda = {key[1]:g}"
        if key in results:
            made.append(Claim(place, says, *check(results[key])))
        else:
            made.append(Claim(place, says, "the data is not here", None))

    def scd_first(r: Result) -> tuple[str, bool]:
        here = all(better(r, "SCD", other) for other in FOUR[1:])
        there = all(better(r, PRINTED, other) for other in (ANEW, *ONLINE))
        return f"{told(r, *FOUR)}. As printed: {told(r, PRINTED, ANEW)}, so {yes(there)}", here

    def detcd_slow(r: Result) -> tuple[str, bool]:
        there = better(r, PRINTED, ANEW, much=True)
        return (
            f"{told(r, 'SCD', 'DETCD')}. As printed: {told(r, PRINTED, ANEW)}, so {yes(there)}",
            better(r, "SCD", "DETCD", much=True),
        )

    def rates_worse(r: Result) -> tuple[str, bool]:
        best = {k: min(r.rates[k].values(), key=lambda c: c.objective[-1]) for k in ONLINE}
        beyond = ", ".join(f"{k} {excess(r, k, c):.3f} at {c.rate:g}" for k, c in best.items())
        chosen = ", ".join(f"{k} at {r.curves[k].rate:g}" for k in ONLINE)
        return (
            f"{told(r, 'SCD', *ONLINE)} ({chosen}). Of rates up to 10: {beyond}",
            all(better(r, "SCD", k, much=True) for k in ONLINE),
        )

    def tuning_worse(r: Result) -> tuple[str, bool]:
        parts = {k: tuning(r, k) for k in ONLINE}
        shown = ", ".join(f"{k} {v:.3f}, was {excess(r, k):.3f}" for k, v in parts.items())
        return (
            f"a sixth of the axis each: {shown}; SCD {excess(r, 'SCD'):.3f}",
            all(v > max(excess(r, k), excess(r, "SCD")) for k, v in parts.items()),
        )

    def smidas_much(r: Result) -> tuple[str, bool]:
        return told(r, *ONLINE), better(r, "SMIDAS", "TruncGrad", much=True)

    def smidas_worse(r: Result) -> tuple[str, bool]:
        worse = better(r, "TruncGrad", "SMIDAS")
        return told(r, *ONLINE), worse and not better(r, "TruncGrad", "SMIDAS", much=True)

    def competitive(r: Result) -> tuple[str, bool]:
        return told(r, *ONLINE), not better(r, "SMIDAS", "TruncGrad", much=True)

    def scd_well(r: Result) -> tuple[str, bool]:
        return (
            f"{told(r, *FOUR)}; within a tenth of the way at {reached(r, 'SCD'):.2f} of the axis",
            reached(r, "SCD") < 0.1 or all(better(r, "SCD", k) for k in FOUR[1:]),
        )

    def as_bounds(r: Result) -> tuple[str, bool]:
        mirror, gradient = asked(r)
        return (
            f"Eq. (3) {mirror:,.0f}, Eq. (4) {gradient:,.0f} at the optimum; {told(r, *ONLINE)}",
            (mirror < gradient) == better(r, "SMIDAS", "TruncGrad"),
        )

    def scd_sparse(r: Result) -> tuple[str, bool]:
        c, d = r.curves["SCD"], r.shape[1]
        optimum = int(np.count_nonzero(r.weights))
        return (
            f"within a tenth of the way at {reached(r, 'SCD'):.2f} of the axis; at most "
            f"{c.n_nonzero.max():,} weights, {c.n_nonzero[-1]:,} at the end, {optimum:,} at the "
            f"optimum, of {d:,}",
            bool(reached(r, "SCD") < 0.1 and c.n_nonzero.max() <= 1.1 * optimum),
        )

    def truncgrad_lower(r: Result) -> tuple[str, bool]:
        ends = ", ".join(f"{k} {r.curves[k].objective[-1]:.4f}" for k in ("TruncGrad", "SCD"))
        return (
            f"{told(r, 'TruncGrad', 'SCD')}; at the end {ends}",
            better(r, "TruncGrad", "SCD"),
        )

    def scd_sparser(r: Result) -> tuple[str, bool]:
        ends = ", ".join(f"{k} {r.curves[k].n_nonzero[-1]:,}" for k in FOUR)
        return f"weights at the end: {ends}", bool(
            r.curves["SCD"].n_nonzero[-1] < r.curves["TruncGrad"].n_nonzero[-1]
        )

    rcv1, other = ("RCV1", 1e-6), ("RCV1", 1e-5)
    add(rcv1, "SCD outperforms the other three algorithms", scd_first)
    add(rcv1, "DETCD is much slower compared to SCD", detcd_slow)
    add(rcv1, "the two with a tunable parameter do much worse", rates_worse)
    add(rcv1, "the situation is even worse if we add up the time for tuning", tuning_worse)
    add(other, "similar results hold for other values of lambda", scd_first)
    add(("ARCENE", 1e-2), "SMIDAS does much better than TruncGrad", smidas_much)
    add(("ARCENE", 1e-6), "SMIDAS is worse, but still competitive", smidas_worse)
    for l1 in (1e-2, 1e-6):
        add(("ARCENE", l1), "SCD does well", scd_well)
        add(("ARCENE", l1), "DETCD is quite slow", detcd_slow)
    for l1 in (1e-4, 1e-3):
        add(("MAGIC04D", l1), "SMIDAS does much better than TruncGrad", smidas_much)
        add(("MAGIC04S", l1), "TruncGrad is competitive", competitive)
        add(("MAGIC04D", l1), "that is consistent with the bounds, Eq. (3) and (4)", as_bounds)
        add(("MAGIC04S", l1), "that is consistent with the bounds, Eq. (3) and (4)", as_bounds)
        add(("MAGIC04D", l1), "SCD decreases quickly, and is sparse along the way", scd_sparse)
        add(("MAGIC04D", l1), "TruncGrad is better at minimising than SCD", truncgrad_lower)
        add(("MAGIC04D", l1), "SCD finds slightly sparser weights than TruncGrad", scd_sparser)
    made.append(proportional(results))
    return made


def yes(holds: bool) -> str:
    return "it holds" if holds else "it does not"


def proportional(results: dict[tuple[str, float], Result]) -> Claim:
    """Seconds an access of each algorithm, medians over the problems."""
    per = {}
    for k in FOUR:
        curves = [r.curves[k] for r in results.values()]
        per[k] = float(np.median([c.seconds / c.accesses[-1] for c in curves]))
    shown = ", ".join(f"{k} {1e9 * v:.1f}" for k, v in per.items())
    return Claim(
        "all",
        "the actual time is roughly proportional to the accesses",
        f"ns an access: {shown}; furthest apart {max(per.values()) / min(per.values()):.1f} times",
        max(per.values()) < 2.0 * min(per.values()),
    )


def show(p: Problem, r: Result) -> None:
    rows = []
    for name, c in r.curves.items():
        rows.append((
            name, "" if c.rate is None else f"{c.rate:g}", f"{excess(r, name):.3f}",
            f"{reached(r, name):.2f}", f"{min(c.objective[-1], 99.0):.4f}",
            f"{c.n_nonzero[-1]:,}", f"{density(r, name):,.0f}", f"{c.n_nonzero.max():,}",
        ))  # fmt: skip
    n, d = r.shape
    share = p.X.nnz / (n * d)
    table(
        f"\n{p.name}, lambda = {p.l1:g}: {n:,} x {d:,}, {p.X.nnz:,} non-zeros ({share:.2%}); "
        f"{r.horizon:.2g} accesses, {r.horizon / p.X.nnz:,.0f} passes; "
        f"optimum {r.best:.4f} with {np.count_nonzero(r.weights):,} weights",
        ("", "rate", "excess", "a tenth at", "end", "weights", "mean", "most"),
        rows,
    )


def draw(results: dict[tuple[str, float], Result], folder: Path) -> Path:
    """The paper's six pictures, and those of the lambda that its text names."""
    import matplotlib.pyplot as plt

    panels: list[tuple[tuple[str, float], bool]] = [
        (("RCV1", 1e-6), False), (("ARCENE", 1e-2), False), (("MAGIC04D", 1e-4), True),
        (("MAGIC04D", 1e-3), True), (("ARCENE", 1e-6), False), (("MAGIC04S", 1e-4), False),
        (("MAGIC04D", 1e-4), False), (("MAGIC04D", 1e-3), False),
    ]  # fmt: skip
    figure, grid = plt.subplots(2, 4, figsize=(15, 7), layout="constrained")
    for (key, counts), axes in zip(panels, grid.ravel(), strict=True):
        axes.set_title(f"{key[0]}, lambda = {key[1]:g}", loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        if key not in results:
            axes.text(0.5, 0.5, "no data", ha="center", transform=axes.transAxes)
            continue
        r = results[key]
        for name, c in r.curves.items():
            if counts and name == ANEW:
                continue
            heights = c.n_nonzero if counts else c.objective
            style = ":" if name in (PRINTED, ANEW) else "-"
            axes.plot(c.accesses, heights, style, color=COLORS[name], label=name, lw=1.5)
        axes.set_xlim(0.0, r.horizon)
        if counts:
            axes.axhline(np.count_nonzero(r.weights), color="0.6", lw=1, ls="--", label="optimum")
        else:
            room = 0.05 * (np.log(2.0) - r.best)
            axes.set_ylim(r.best - room, np.log(2.0) + room)
            axes.axhline(r.best, color="0.6", lw=1, ls="--")
        axes.set_ylabel("non-zero weights" if counts else "l1 regularised loss")
        axes.set_xlabel("data accesses")
    entries: dict[str, Any] = {}
    for axes in grid.ravel():
        entries |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(entries.values(), entries, loc="outside lower center", ncols=7, frameon=False)
    return save(figure, folder, "shalev-shwartz-tewari-figure1.png")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--most", type=float, default=1e9, help="accesses a run ends after")
    args = parser.parse_args()
    folder = None if args.quick else data_folder(args.data)
    if folder is None:
        CONSOLE.print(
            "Made data: the claims are those on the paper's, and need not hold here. "
            + ("" if args.quick else without("The figure", "https://archive.ics.uci.edu/ml"))
        )
    results: dict[tuple[str, float], Result] = {}
    for p in made() if folder is None else problems(folder):
        results[p.key] = run(p, args.most)
        show(p, results[p.key])
    show_claims("Section 4, claim by claim", claims(results))
    print(draw(results, args.out))


if __name__ == "__main__":
    main()
