"""Shalev-Shwartz & Tewari (2009), Figure 1: the objective and the density against data accesses.

    python demos/papers/shalev_shwartz_tewari_figure1.py [--data FOLDER] [--most 1e9] [--quick]

SCD, DETCD, SMIDAS and truncated gradient (of each step, without a threshold) minimise the logistic
loss + lambda |w|_1 on MAGIC04S, MAGIC04D, ARCENE and RCV1; then every ordering that the paper's
text states is looked at, one by one. As in the paper: no intercept, constant rates, the best of
1e-6, 1e-5, ..., 1e-1 by the objective it ends with, an example drawn at random for each step.
Columns are divided by their largest entry where that is above 1, as Eq. (1) has x in [-1, 1];
`--centre` gives them a mean of 0 and a deviation of 1 instead.

The axis is that of the paper's figure, in passes over the data, and ends at `--most` accesses. An
access is a read of a non-zero: SCD reads a column for its slope, and again when the weight moves;
the learners read an example for its margin, and again for the step. Two curves are the algorithms
as the paper prints them: SCD with its one step for all columns, and DETCD with all slopes computed
anew for each step, where ours keeps them. "Better" is the lower mean height above the optimum, over
the axis; "much" is by half.

Without data, or with --quick, the same on made data: the claims are those on the paper's and need
not hold there. Writes out/shalev-shwartz-tewari-figure1.png. Ten minutes on a free
core; whole axes (`--most 4e9`), half an hour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from common import CONSOLE, Claim, look_in, options, save, show_claims, table
from shalev_shwartz_tewari_runs import (
    ANEW,
    FOUR,
    ONLINE,
    PRINTED,
    RATES,
    Curve,
    Problem,
    Result,
    made,
    problems,
    run,
)

MUCH = 2.0
COLORS = dict(zip((*FOUR, PRINTED, ANEW), ("C0", "C3", "C2", "C1", "C0", "C3"), strict=True))


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


def beyond(result: Result) -> str:
    """The rates that were chosen, and what larger ones than the paper's would have done."""
    parts = []
    for k in ONLINE:
        best = min(result.rates[k].values(), key=lambda c: c.objective[-1])
        parts.append(
            f"{k} at {result.curves[k].rate:g}"
            + ("" if best.rate in RATES else f", at {best.rate:g} {excess(result, k, best):.3f}")
        )
    return f"Rates: {'; '.join(parts)}"


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
        return (
            f"{told(r, 'SCD', *ONLINE)}. {beyond(r)}",
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
        return f"{told(r, *ONLINE)}. {beyond(r)}", better(r, "SMIDAS", "TruncGrad", much=True)

    def smidas_worse(r: Result) -> tuple[str, bool]:
        worse = better(r, "TruncGrad", "SMIDAS")
        return f"{told(r, *ONLINE)}. {beyond(r)}", worse and not better(
            r, "TruncGrad", "SMIDAS", much=True
        )

    def competitive(r: Result) -> tuple[str, bool]:
        return f"{told(r, *ONLINE)}. {beyond(r)}", not better(r, "SMIDAS", "TruncGrad", much=True)

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
    says = "a deterministic method with a domain constraint is slower than SCD"
    made.append(Claim("Section 4", says, "no such method is here, and no figure there", None))
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
    name = f"made, as {p.name}" if p.made else p.name
    table(
        f"\n{name}, lambda = {p.l1:g}: {n:,} x {d:,}, {p.X.nnz:,} non-zeros ({share:.2%}); "
        f"{r.horizon:.2g} accesses, {r.horizon / p.X.nnz:,.0f} passes; "
        f"optimum {r.best:.4f} with {np.count_nonzero(r.weights):,} weights",
        ("", "rate", "excess", "a tenth at", "end", "weights", "mean", "most"),
        rows,
    )


def draw(results: dict[tuple[str, float], Result], folder: Path, title: str) -> Path:
    """The paper's six pictures, and those of the lambda that its text names."""
    import matplotlib.pyplot as plt

    panels: list[tuple[tuple[str, float], bool]] = [
        (("RCV1", 1e-6), False), (("ARCENE", 1e-2), False), (("MAGIC04D", 1e-4), True),
        (("MAGIC04D", 1e-3), True), (("ARCENE", 1e-6), False), (("MAGIC04S", 1e-4), False),
        (("MAGIC04D", 1e-4), False), (("MAGIC04D", 1e-3), False),
    ]  # fmt: skip
    figure, grid = plt.subplots(2, 4, figsize=(15, 7), layout="constrained")
    figure.suptitle(title)
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
    parser.add_argument("--only", default="", help="data sets whose names begin so: MAGIC04D, say")
    parser.add_argument("--centre", action="store_true", help="centre wide columns, deviation 1")
    args = parser.parse_args()
    look_in(args.data)
    results: dict[tuple[str, float], Result] = {}

    def go(chosen: Iterable[Problem]) -> None:
        for p in chosen:
            results[p.key] = run(p, args.most)
            show(p, results[p.key])

    if not args.quick:
        go(problems(args.only, args.centre))
    title = ""
    if not results:
        title = "made data: the claims are those on the paper's, and need not hold here"
        CONSOLE.print(title.capitalize())
        go(made())
    show_claims("Section 4, claim by claim", claims(results))
    print(draw(results, args.out, title))


if __name__ == "__main__":
    main()
