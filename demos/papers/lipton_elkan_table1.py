"""Lipton & Elkan (2015), Table 1: seconds an example, lazy and dense, SGD and FoBoS.

    python demos/papers/lipton_elkan_table1.py [--dimension 260941] [--quick]

The paper's rows are a million abstracts of Medline, which are not public. These are drawn from a
seed to their shape: 260,941 features, of Zipf's frequencies, 88.54 non-zeros on average, of length
1. As in the paper logistic regression with an elastic net, no intercept, a rate that falls; its
strengths are not told: both are 1e-6 here.

A speed-up depends on what is slow. Each way of writing the dense update stands beside the lazy one
written the same way: plain Python, numpy as one writes it first, numpy in place, compiled loops;
then all of them beside streaml1. Rounds are interleaved, and medians shown, of the thread's time.
Writes out/lipton-elkan-table1.png. Takes a minute and a half.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import CONSOLE, Claim, options, save, show_claims, table
from lipton_elkan_ways import (
    DENSE,
    L1,
    LAZY,
    LR,
    MEAN,
    WAYS,
    Rows,
    bare,
    model,
    numpy_dense,
    package,
    rows,
)

DIMENSION = 260_941
UPDATES = ("sgd", "fobos")
PAPER = {"sgd": (0.0102, 21.377, 14.381), "fobos": (0.0120, 22.511, 16.785)}


def lazily(data: Rows, n: int, update: str, stamps: str) -> Callable[[], Any]:
    """A pass of streaml1 alone, without making the weights into an array."""
    X, y = data.X[:n], data.y[:n]
    return lambda: model(update, stamps).learn_many(X, y)


def by_dicts(data: Rows, n: int, update: str) -> Callable[[], Any]:
    """One dict after the other, as a stream brings them."""
    examples = []
    for t in range(n):
        ids, values, y = data.part(t)
        examples.append((dict(zip(ids.tolist(), values.tolist(), strict=True)), bool(y)))

    def run() -> None:
        learner = model(update)
        for x, y in examples:
            learner.learn_one(x, y)

    return run


class Sizes(NamedTuple):
    """How many examples each is timed on, and in how many rounds."""

    lazy: int
    python: int
    numpy: int
    compiled: int
    rounds: int


FULL, QUICK = Sizes(20_000, 2, 30, 100, 5), Sizes(300, 2, 5, 10, 2)


def timed(runs: dict[Any, tuple[Callable[[], Any], int]], rounds: int) -> dict[Any, float]:
    """Median seconds an example of each, the rounds interleaved, the first left out."""
    seconds: dict[Any, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, (run, n) in runs.items():
            begin = time.thread_time()
            run()
            seconds[name].append((time.thread_time() - begin) / n)
    return {name: float(np.median(taken[1:])) for name, taken in seconds.items()}


def measure(data: Rows, sizes: Sizes) -> dict[tuple[str, str, str], float]:
    """Seconds an example by update, way and column of Table 1; also streaml1's other roads."""
    dense = dict(zip(WAYS, (sizes.python, sizes.numpy, sizes.numpy, sizes.compiled), strict=True))
    lazy = dict(zip(WAYS, (sizes.lazy // 20, sizes.lazy // 20, 0, sizes.lazy), strict=True))
    runs: dict[Any, tuple[Callable[[], Any], int]] = {}
    for u in UPDATES:
        for way in WAYS:
            n, m = dense[way], lazy[way]
            for column, sparse in (("dense", False), ("sparse", True)):
                runs[u, way, column] = (
                    lambda way=way, n=n, u=u, sparse=sparse: DENSE[way](data, n, u, sparse), n
                )  # fmt: skip
            if way == "compiled":
                runs[u, way, "lazy"] = lazily(data, m, u, "folded"), m
            elif m:
                runs[u, way, "lazy"] = (lambda way=way, m=m, u=u: LAZY[way](data, m, u)), m
        m = sizes.lazy
        runs[u, "explicit", "lazy"] = lazily(data, m, u, "explicit"), m
        runs[u, "dicts", "lazy"] = by_dicts(data, m // 4, u), m // 4
        runs[u, "bare", "lazy"] = (lambda m=m, u=u: bare(data, m, u)), m
    found = timed(runs, sizes.rounds)
    for u in UPDATES:
        found[u, "numpy, in place", "lazy"] = found[u, "numpy, naive", "lazy"]
    return found


def furthest(data: Rows, n: int) -> float:
    """How far any way's weights are from the naive dense ones, as a part of the largest."""
    most = 0.0
    for update in UPDATES:
        for sparse in (False, True):
            truth = numpy_dense(data, n, update, sparse)
            others = [DENSE[way](data, n, update, sparse) for way in WAYS[2:]]
            others += [lazy(data, n, update) for lazy in LAZY.values()]
            others.append(package(data, n, update, "explicit"))
            largest = float(np.abs(truth).max())
            most = max([most, *(float(np.abs(w - truth).max()) / largest for w in others)])
    return most


Seconds = dict[tuple[str, str, str], float]


def claims(
    s: Seconds, difference: float, widths: dict[tuple[int, str], float], d: int, mean: float
) -> list[Claim]:
    """What the abstract, Section 1 and Section 7 state, beside what was measured."""

    def of(way: str, column: str, to: str = "") -> list[float]:
        """A way's seconds for SGD and FoBoS as multiples of its lazy ones, or of another's."""
        return [s[u, way, column] / s[u, to or way, "lazy"] for u in UPDATES]

    def two(ratios: list[float]) -> str:
        return " and ".join(map(times, ratios))

    dense, sparse = ({w: of(w, column) for w in WAYS} for column in ("dense", "sparse"))
    printed, printed_sparse = ([PAPER[u][k] / PAPER[u][0] for u in UPDATES] for k in (1, 2))
    ideal, reached = d / mean, of("compiled", "sparse", "bare")
    folded, explicit = of("compiled", "lazy", "bare"), of("explicit", "lazy", "bare")
    took = {k: (widths[k, "lazy"], widths[k, "bare"]) for k, _ in widths}
    widest = ", ".join(f"{unit(a)} at d = {k:,} (bare {unit(b)})" for k, (a, b) in took.items())
    growth = [took[10 * d][k] / took[d // 10][k] for k in (0, 1)]
    made = [
        ("Section 7", "the standard and the lazy updates output essentially identical weights",
         f"furthest apart, of the largest weight: {difference:.1e}", difference < 1e-9),
        ("Table 1", "its own figures: over 2000 times faster than dense updates",
         f"SGD and FoBoS: {two(printed)}", min(printed) > 2000.0),
        ("Table 1", "its own figures: over 1400 times where predictions are sparse",
         f"SGD and FoBoS: {printed_sparse[0]:,.1f} and {printed_sparse[1]:,.1f}",
         min(printed_sparse) > 1400.0),
    ]  # fmt: skip
    for way in WAYS:
        made += [
            ("abstract", f"over 2000 times faster: both in {way}",
             f"SGD and FoBoS: {two(dense[way])}", min(dense[way]) > 2000.0),
            ("Section 1", f"over 1400 times where predictions are sparse: both in {way}",
             f"SGD and FoBoS: {two(sparse[way])}", min(sparse[way]) > 1400.0),
        ]  # fmt: skip
    made += [
        ("Section 7", "without overhead the speed-up is d / p = 2947",
         f"d / p = {ideal:,.0f}; compiled dense loops to the bare step: {two(reached)}",
         all(0.5 < one / ideal < 2.0 for one in reached)),
        ("Section 7", "dynamic programming does not erode the benefit of sparsity",
         f"to a step without penalty, SGD and FoBoS: folded {two(folded)} times, explicit stamps "
         f"{two(explicit)}", max(folded + explicit) < 3.0),
        ("Section 3", "an example takes O(p), independent of the dimension: beyond what memory "
         "costs the bare step too", f"FoBoS: {widest}", growth[0] < 1.25 * max(growth[1], 1.0)),
    ]  # fmt: skip
    return [Claim(*one) for one in made]


def times(ratio: float) -> str:
    """A ratio, with a decimal where it is small."""
    return f"{ratio:,.0f}" if ratio >= 10.0 else f"{ratio:.1f}"


def unit(seconds: float) -> str:
    return (
        f"{seconds:.3g} s"
        if seconds >= 0.1
        else (f"{1e3 * seconds:.3g} ms" if seconds >= 1e-4 else f"{1e6 * seconds:.3g} us")
    )


def show(s: Seconds) -> None:
    heads = ("", "lazy", "dense", "sparse predictions", "dense / lazy", "sparse pred. / lazy")
    lines = []
    for u in UPDATES:
        shown = {f"{u}, the paper": PAPER[u]}
        for way in WAYS:
            a, b, c = (s[u, way, column] for column in ("lazy", "dense", "sparse"))
            shown[f"{u}, {way}"] = a, b, c
        for name, (a, b, c) in shown.items():
            lines.append((name, unit(a), unit(b), unit(c), times(b / a), times(c / a)))
    table("Seconds an example, dense and lazy written the same way", heads, lines)
    roads = {"compiled": "rows", "explicit": "rows, explicit stamps", "dicts": "dicts"}
    for column, title in (("dense", "dense"), ("sparse", "dense with sparse predictions")):
        lines = []
        for u in UPDATES:
            for name, road in roads.items():
                lazy = s[u, name, "lazy"]
                ratios = [times(s[u, way, column] / lazy) for way in WAYS]
                lines.append((f"{u}, streaml1, {road}", unit(lazy), *ratios))
        table(f"{title.capitalize()}, to streaml1", ("", "lazy", *WAYS), lines)


def draw(s: Seconds, folder: Path) -> Path:
    """Seconds an example, a bar each."""
    import matplotlib.pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained", sharey=True)
    groups = ["the paper", *(way.replace(", ", ",\n") for way in WAYS)]
    names = (("lazy", "lazy"), ("dense", "dense"), ("sparse", "dense, sparse predictions"))
    for axes, u in zip(both, UPDATES, strict=True):
        for k, (column, label) in enumerate(names):
            order = ("lazy", "dense", "sparse").index(column)
            heights = [PAPER[u][order], *(s[u, way, column] for way in WAYS)]
            places = np.arange(len(groups)) + 0.27 * (k - 1)
            bars = axes.bar(places, heights, 0.25, label=label, color=("C0", "C3", "C1")[k])
            axes.bar_label(bars, [unit(h) for h in heights], fontsize=7, rotation=90, padding=3)
        axes.set(yscale="log", ylim=(1e-7, 3e3), xticks=range(len(groups)), xticklabels=groups)
        axes.set_title({"sgd": "SGD", "fobos": "FoBoS"}[u], loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    both[0].set_ylabel("seconds an example")
    both[1].legend(frameon=False, loc="upper right")
    return save(figure, folder, "lipton-elkan-table1.png")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--dimension", type=int, default=None, help=f"features, {DIMENSION:,}")
    args = parser.parse_args()
    d = args.dimension or (3_000 if args.quick else DIMENSION)
    sizes = QUICK if args.quick else FULL
    data = rows(sizes.lazy, d)
    mean = data.X.nnz / data.X.shape[0]
    CONSOLE.print(
        f"Made rows: {sizes.lazy:,} x {d:,}, {mean:.2f} non-zeros each (the paper: 10^6 x "
        f"{DIMENSION:,}, {MEAN}); l1 = l2 = {L1:g}, rate {LR}/sqrt(t)\n"
    )
    seconds = measure(data, sizes)
    show(seconds)
    runs: dict[Any, tuple[Callable[[], Any], int]] = {}
    for k in (d // 10, d, 10 * d):
        of = data if k == d else rows(sizes.lazy, k)
        runs[k, "lazy"] = lazily(of, sizes.lazy, "fobos", "folded"), sizes.lazy
        runs[k, "bare"] = (lambda of=of: bare(of, sizes.lazy, "fobos")), sizes.lazy
    widths = timed(runs, sizes.rounds)
    difference = furthest(data, sizes.numpy)
    show_claims("What the paper states", claims(seconds, difference, widths, d, mean))
    print(draw(seconds, args.out))


if __name__ == "__main__":
    main()
