"""Shalev-Shwartz & Tewari (2009), Figure 1: the objective and the density against data accesses.

    python demos/papers/shalev_shwartz_tewari_figure1.py [--data DIR] [--most 1e9] [--quick]

SCD, DETCD, SMIDAS and truncated gradient (period 1, no threshold) minimize the logistic loss +
lambda |w|_1 on MAGIC04S, MAGIC04D, ARCENE and RCV1. The demo then checks every ordering that the
paper's text states. As in the paper, there is no intercept, rates are constant, the best of
1e-6, 1e-5, ..., 1e-1 by the final objective is shown, and each step takes a random example. Columns
with entries above 1 are divided by the largest, because Eq. (1) has x in [-1, 1]; `--centre`
standardizes them instead.

The axis is that of the paper's figure, in passes over the data, and ends at `--most` accesses. An
access is a read of a non-zero. SCD reads a column for its slope, and again if the weight changes.
The learners read an example for its margin, and again for the step. Frank-Wolfe takes greedy steps
in the l1 ball of the optimum (Section 1.1), where the paper has no figure. Two curves are the
algorithms as printed: SCD with one step size for all columns, and DETCD with all slopes recomputed
for each step, where streaml1 updates them. "Better" means a lower mean excess over the axis, "much"
by half.

Without data, or with --quick, runs on synthetic data, for which the claims need not hold. Writes
out/shalev-shwartz-tewari-figure1.png. Takes ten minutes on a free core; whole axes (`--most 4e9`)
half an hour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    CONSOLE,
    Claim,
    argument_parser,
    first_reaching,
    print_claims,
    print_table,
    save_figure,
    set_data_directory,
)
from shalev_shwartz_tewari_runs import (
    ALGORITHMS,
    CONSTRAINED,
    ONLINE,
    PRINTED,
    RATES,
    RECOMPUTED,
    Curve,
    Problem,
    Result,
    problems,
    run,
    synthetic,
)

MUCH = 2.0
COLORS = dict(
    zip(
        (*ALGORITHMS, CONSTRAINED, PRINTED, RECOMPUTED),
        ("C0", "C3", "C2", "C1", "C4", "C0", "C3"),
        strict=True,
    )
)


def excess(result: Result, name: str, curve: Curve | None = None) -> float:
    """Return the mean excess of a curve over the axis, relative to the excess at the start."""
    c = curve or result.curves[name]
    grid = np.linspace(0.0, result.horizon, 401)[1:]
    heights = np.minimum(np.interp(grid, c.accesses, c.objective), c.objective[0])
    return float((heights.mean() - result.best) / (c.objective[0] - result.best))


def time_to(result: Result, name: str, part: float = 0.1) -> float:
    """Return the share of the axis until a curve's excess is at most `part` of the initial one."""
    c = result.curves[name]
    level = result.best + part * (c.objective[0] - result.best)
    return first_reaching(c.accesses, c.objective, level) / result.horizon


def better(result: Result, a: str, b: str, much: bool = False) -> bool:
    """Return whether the mean excess of a is lower than that of b; by half, if `much`."""
    return excess(result, a) * (MUCH if much else 1.0) < excess(result, b)


def listed(result: Result, *names: str) -> str:
    return ", ".join(f"{name} {excess(result, name):.3f}" for name in names)


def rates_text(result: Result) -> str:
    """Format the best of the paper's rates, and the excess of a larger rate if that is better."""
    pieces = []
    for k in ONLINE:
        tried = result.rates[k]
        best = min(tried.values(), key=lambda c: c.objective[-1])
        edge = " (edge of the grid)" if best.rate in (min(tried), max(tried)) else ""
        larger = f", at {best.rate:g} {excess(result, k, best):.3f}{edge}"
        pieces.append(f"{k} at {result.curves[k].rate:g}" + ("" if best.rate in RATES else larger))
    return f"Rates: {'; '.join(pieces)}"


def bounds_at_optimum(result: Result) -> tuple[float, float]:
    """Return the iterations of Eq. (3) and (4) at the optimum, without their common factor."""
    w = result.weights
    return (
        math.log(result.shape[1]) * float(np.abs(w).sum()) ** 2,
        float(w @ w) * result.square,
    )


def density(result: Result, name: str) -> float:
    """Return the mean number of non-zero weights over a run."""
    return float(np.mean(result.curves[name].n_nonzero[1:]))


def tuned_excess(result: Result, name: str) -> float:
    """Return the excess of a learner if the runs at all rates of the paper share the axis.

    Each run gets an equal part of the axis, as if that part were known to be enough.
    """
    part = result._replace(horizon=result.horizon / len(RATES))
    return min(excess(part, name, result.rates[name][rate]) for rate in RATES)


def claims(results: dict[tuple[str, float], Result]) -> list[Claim]:
    """Check every ordering that Section 4 states against the curves."""
    checked: list[Claim] = []

    def add(
        key: tuple[str, float], statement: str, check: Callable[[Result], tuple[str, bool]]
    ) -> None:
        source = f"{key[0]}, lambda = {key[1]:g}"
        if key in results:
            checked.append(Claim(source, statement, *check(results[key])))
        else:
            checked.append(Claim(source, statement, "data not available", None))

    def scd_first(r: Result) -> tuple[str, bool]:
        return listed(r, *ALGORITHMS), all(better(r, "SCD", k) for k in ALGORITHMS[1:])

    def printed_first(r: Result) -> tuple[str, bool]:
        rivals = (RECOMPUTED, *ONLINE)
        return listed(r, PRINTED, *rivals), all(better(r, PRINTED, k) for k in rivals)

    def detcd_slow(r: Result) -> tuple[str, bool]:
        return listed(r, "SCD", "DETCD"), better(r, "SCD", "DETCD", much=True)

    def printed_slow(r: Result) -> tuple[str, bool]:
        return listed(r, PRINTED, RECOMPUTED), better(r, PRINTED, RECOMPUTED, much=True)

    def rates_worse(r: Result) -> tuple[str, bool]:
        return (
            f"{listed(r, 'SCD', *ONLINE)}. {rates_text(r)}",
            all(better(r, "SCD", k, much=True) for k in ONLINE),
        )

    def tuning_worse(r: Result) -> tuple[str, bool]:
        pieces = {k: tuned_excess(r, k) for k in ONLINE}
        listed = ", ".join(f"{k} {v:.3f}, was {excess(r, k):.3f}" for k, v in pieces.items())
        return (
            f"with a sixth of the axis each: {listed}; SCD {excess(r, 'SCD'):.3f}",
            all(v > max(excess(r, k), excess(r, "SCD")) for k, v in pieces.items()),
        )

    def smidas_much(r: Result) -> tuple[str, bool]:
        return f"{listed(r, *ONLINE)}. {rates_text(r)}", better(r, "SMIDAS", "TruncGrad", much=True)

    def smidas_worse(r: Result) -> tuple[str, bool]:
        worse = better(r, "TruncGrad", "SMIDAS")
        return f"{listed(r, *ONLINE)}. {rates_text(r)}", worse and not better(
            r, "TruncGrad", "SMIDAS", much=True
        )

    def competitive(r: Result) -> tuple[str, bool]:
        return f"{listed(r, *ONLINE)}. {rates_text(r)}", not better(
            r, "SMIDAS", "TruncGrad", much=True
        )

    def scd_well(r: Result) -> tuple[str, bool]:
        return (
            f"{listed(r, *ALGORITHMS)}; SCD has a tenth of the initial excess at "
            f"{time_to(r, 'SCD'):.2f} of the axis",
            time_to(r, "SCD") < 0.1 or all(better(r, "SCD", k) for k in ALGORITHMS[1:]),
        )

    def as_bounds(r: Result) -> tuple[str, bool]:
        mirror, gradient = bounds_at_optimum(r)
        return (
            f"Eq. (3) {mirror:,.0f}, Eq. (4) {gradient:,.0f} at the optimum; {listed(r, *ONLINE)}",
            (mirror < gradient) == better(r, "SMIDAS", "TruncGrad"),
        )

    def scd_sparse(r: Result) -> tuple[str, bool]:
        c, d = r.curves["SCD"], r.shape[1]
        optimum = int(np.count_nonzero(r.weights))
        return (
            f"a tenth of the initial excess at {time_to(r, 'SCD'):.2f} of the axis; at most "
            f"{c.n_nonzero.max():,} weights, {c.n_nonzero[-1]:,} at the end, {optimum:,} at the "
            f"optimum, of {d:,}",
            bool(time_to(r, "SCD") < 0.1 and c.n_nonzero.max() <= 1.1 * optimum),
        )

    def truncgrad_lower(r: Result) -> tuple[str, bool]:
        ends = ", ".join(f"{k} {r.curves[k].objective[-1]:.4f}" for k in ("TruncGrad", "SCD"))
        return (
            f"{listed(r, 'TruncGrad', 'SCD')}; at the end {ends}",
            better(r, "TruncGrad", "SCD"),
        )

    def scd_sparser(r: Result) -> tuple[str, bool]:
        ends = ", ".join(f"{k} {r.curves[k].n_nonzero[-1]:,}" for k in ALGORITHMS)
        return f"weights at the end: {ends}", bool(
            r.curves["SCD"].n_nonzero[-1] < r.curves["TruncGrad"].n_nonzero[-1]
        )

    rcv1, other = ("RCV1", 1e-6), ("RCV1", 1e-5)
    for key in (rcv1, other):
        similar = "similar for other lambda: " if key == other else ""
        first = f"{similar}SCD outperforms the other three"
        add(key, f"{first} (here: with a step for each column)", scd_first)
        add(key, f"{first} (with the printed step)", printed_first)
    add(rcv1, "DETCD is much slower compared to SCD (a step for each column)", detcd_slow)
    add(rcv1, "DETCD is much slower compared to SCD (the printed step)", printed_slow)
    add(rcv1, "the two with a tunable parameter do much worse", rates_worse)
    add(rcv1, "the situation is even worse if we add up the time for tuning", tuning_worse)
    add(("ARCENE", 1e-2), "SMIDAS does much better than TruncGrad", smidas_much)
    add(("ARCENE", 1e-6), "SMIDAS is worse, but still competitive", smidas_worse)
    for l1 in (1e-2, 1e-6):
        add(("ARCENE", l1), "SCD does well", scd_well)
        add(("ARCENE", l1), "DETCD is quite slow (a step for each column)", detcd_slow)
        add(("ARCENE", l1), "DETCD is quite slow (the printed step)", printed_slow)
    for l1 in (1e-4, 1e-3):
        add(("MAGIC04D", l1), "SMIDAS does much better than TruncGrad", smidas_much)
        add(("MAGIC04S", l1), "TruncGrad is competitive", competitive)
        add(("MAGIC04D", l1), "that is consistent with the bounds, Eq. (3) and (4)", as_bounds)
        add(("MAGIC04S", l1), "that is consistent with the bounds, Eq. (3) and (4)", as_bounds)
        add(("MAGIC04D", l1), "SCD decreases quickly, and is sparse along the way", scd_sparse)
        add(("MAGIC04D", l1), "TruncGrad is better at minimizing than SCD", truncgrad_lower)
        add(("MAGIC04D", l1), "SCD finds slightly sparser weights than TruncGrad", scd_sparser)
    checked.append(proportional(results))
    checked.append(constrained_slower(results))
    return checked


def constrained_slower(results: dict[tuple[str, float], Result]) -> Claim:
    """Compare SCD with greedy steps in the l1 ball that has the optimum on its surface."""
    listed = [
        f"{name}, {l1:g}: {excess(r, CONSTRAINED):.3f}, SCD {excess(r, 'SCD'):.3f}"
        for (name, l1), r in results.items()
    ]
    return Claim(
        "Section 4",
        "a deterministic method with a domain constraint is slower than SCD",
        f"Frank-Wolfe {'; '.join(listed)}",
        all(better(r, "SCD", CONSTRAINED) for r in results.values()),
    )


def proportional(results: dict[tuple[str, float], Result]) -> Claim:
    """Compare the seconds per access of the algorithms, medians over the problems."""
    per = {}
    for k in ALGORITHMS:
        curves = [r.curves[k] for r in results.values()]
        per[k] = float(np.median([c.seconds / c.accesses[-1] for c in curves]))
    listed = ", ".join(f"{k} {1e9 * v:.1f}" for k, v in per.items())
    return Claim(
        "all",
        "the actual time is roughly proportional to the accesses",
        f"ns per access: {listed}; max / min {max(per.values()) / min(per.values()):.1f}",
        max(per.values()) < 2.0 * min(per.values()),
    )


def print_problem(p: Problem, r: Result) -> None:
    rows = []
    for name, c in r.curves.items():
        rows.append((
            name, "" if c.rate is None else f"{c.rate:g}", f"{excess(r, name):.3f}",
            f"{time_to(r, name):.2f}", f"{min(c.objective[-1], 99.0):.4f}",
            f"{c.n_nonzero[-1]:,}", f"{density(r, name):,.0f}", f"{c.n_nonzero.max():,}",
        ))  # fmt: skip
    n, d = r.shape
    share = p.X.nnz / (n * d)
    name = f"synthetic, as {p.name}" if p.synthetic else p.name
    print_table(
        f"\n{name}, lambda = {p.l1:g}: {n:,} x {d:,}, {p.X.nnz:,} non-zeros ({share:.2%}); "
        f"{r.horizon:.2g} accesses, {r.horizon / p.X.nnz:,.0f} passes; "
        f"optimum {r.best:.4f} with {np.count_nonzero(r.weights):,} weights",
        ("", "rate", "excess", "tenth at", "end", "weights", "mean", "max"),
        rows,
    )


def draw(results: dict[tuple[str, float], Result], directory: Path, title: str) -> Path:
    """Plot the six panels of the paper, and those of the other lambdas in its text."""
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
            if counts and name == RECOMPUTED:
                continue
            heights = c.n_nonzero if counts else c.objective
            style = ":" if name in (PRINTED, RECOMPUTED) else "-"
            axes.plot(c.accesses, heights, style, color=COLORS[name], label=name, lw=1.5)
        axes.set_xlim(0.0, r.horizon)
        if counts:
            axes.axhline(np.count_nonzero(r.weights), color="0.6", lw=1, ls="--", label="optimum")
        else:
            margin = 0.05 * (np.log(2.0) - r.best)
            axes.set_ylim(r.best - margin, np.log(2.0) + margin)
            axes.axhline(r.best, color="0.6", lw=1, ls="--")
        axes.set_ylabel("non-zero weights" if counts else "l1 regularized loss")
        axes.set_xlabel("data accesses")
    legend: dict[str, Any] = {}
    for axes in grid.ravel():
        legend |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(legend.values(), legend, loc="outside lower center", ncols=7, frameon=False)
    return save_figure(figure, directory, "shalev-shwartz-tewari-figure1.png")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--most", type=float, default=1e9, help="maximum number of accesses per run"
    )
    parser.add_argument("--only", default="", help="run data sets whose names start with this")
    parser.add_argument("--centre", action="store_true", help="standardize columns beyond [-1, 1]")
    args = parser.parse_args()
    set_data_directory(args.data)
    results: dict[tuple[str, float], Result] = {}

    def run_all(selected: Iterable[Problem]) -> None:
        for p in selected:
            results[p.key] = run(p, args.most)
            print_problem(p, results[p.key])

    if not args.quick:
        run_all(problems(args.only, args.centre))
    title = ""
    if not results:
        title = "synthetic data: the claims are about the paper's data, and need not hold here"
        CONSOLE.print(title.capitalize())
        run_all(synthetic())
    print_claims("Section 4, claim by claim", claims(results))
    print(draw(results, args.out, title))


if __name__ == "__main__":
    main()
