"""Lipton & Elkan (2015), Table 1: seconds per example of lazy and dense SGD and FoBoS.

    python demos/papers/lipton_elkan_table1.py [--dimension 260941] [--quick]

The paper's rows are a million abstracts of Medline, which are not public. Synthetic rows have the
same shape: 260,941 features with Zipf frequencies, 88.54 non-zeros on average, unit length. As in
the paper, the model is logistic regression with an elastic net, no intercept and a decreasing rate.
The paper does not give the strengths; both are 1e-6 here.

A speed-up depends on the baseline. Each implementation of the dense update is compared with a lazy
one of the same kind (Python that reads SciPy matrices element by element, as in the paper; plain
Python, naive numpy, in-place numpy, compiled loops), and all of them with streaml1. Rounds are
interleaved; times are median CPU times of the thread. Writes out/lipton-elkan-table1.png. Takes
three minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import CONSOLE, Claim, argument_parser, print_claims, print_table, save_figure
from lipton_elkan_updates import (
    DENSE,
    FASTER,
    L1,
    LAZY,
    LR,
    MEAN,
    SLOWEST,
    VARIANTS,
    Rows,
    make_rows,
    model,
    numpy_dense,
    run_bare,
    run_streaml1,
)

DIMENSION = 260_941
UPDATES = ("sgd", "fobos")
PAPER = {"sgd": (0.0102, 21.377, 14.381), "fobos": (0.0120, 22.511, 16.785)}


def streaml1_pass(data: Rows, n: int, update: str, stamps: str) -> Callable[[], Any]:
    """Return a pass of streaml1, without the conversion of the weights to an array."""
    X, y = data.X[:n], data.y[:n]
    return lambda: model(update, stamps).learn_many(X, y)


def dict_pass(data: Rows, n: int, update: str) -> Callable[[], Any]:
    """Return a pass of streaml1 over dicts, one by one."""
    examples = []
    for t in range(n):
        ids, values, y = data.row(t)
        examples.append((dict(zip(ids.tolist(), values.tolist(), strict=True)), bool(y)))

    def run() -> None:
        learner = model(update)
        for x, y in examples:
            learner.learn_one(x, y)

    return run


class Sizes(NamedTuple):
    """Numbers of examples per implementation, and of rounds."""

    lazy: int
    scipy: int
    python: int
    numpy: int
    compiled: int
    rounds: int


FULL, QUICK = Sizes(20_000, 1, 2, 30, 100, 7), Sizes(300, 1, 2, 5, 10, 2)
SCIPY_ROUNDS = 3  # a pass of these takes half a minute


def seconds_per_example(
    runs: dict[Any, tuple[Callable[[], Any], int]], rounds: int
) -> dict[Any, float]:
    """Return the median seconds per example over interleaved rounds, without the first round."""
    seconds: dict[Any, list[float]] = {name: [] for name in runs}
    for r in range(rounds + 1):
        for name, (run, n) in runs.items():
            if SLOWEST in name and r > SCIPY_ROUNDS:
                continue
            begin = time.thread_time()
            run()
            seconds[name].append((time.thread_time() - begin) / n)
    return {name: float(np.median(times[1:])) for name, times in seconds.items()}


def measure(data: Rows, sizes: Sizes) -> dict[tuple[str, str, str], float]:
    """Return the seconds per example by update, variant and column of Table 1.

    There are also entries for explicit stamps, dicts and bare SGD.
    """
    dense = dict(
        zip(
            VARIANTS,
            (sizes.scipy, sizes.python, sizes.numpy, sizes.numpy, sizes.compiled),
            strict=True,
        )
    )
    n_lazy = sizes.lazy // 100, sizes.lazy // 20, sizes.lazy // 20, 0, sizes.lazy
    lazy = dict(zip(VARIANTS, n_lazy, strict=True))
    runs: dict[Any, tuple[Callable[[], Any], int]] = {}
    for u in UPDATES:
        for variant in VARIANTS:
            n, m = dense[variant], lazy[variant]
            for column, sparse in (("dense", False), ("sparse", True)):
                runs[u, variant, column] = (
                    lambda v=variant, n=n, u=u, sparse=sparse: DENSE[v](data, n, u, sparse), n
                )  # fmt: skip
            if variant == "compiled":
                runs[u, variant, "lazy"] = streaml1_pass(data, m, u, "folded"), m
            elif m:
                runs[u, variant, "lazy"] = (
                    (lambda variant=variant, m=m, u=u: LAZY[variant](data, m, u)),
                    m,
                )
        m = sizes.lazy
        runs[u, "explicit", "lazy"] = streaml1_pass(data, m, u, "explicit"), m
        runs[u, "bare", "lazy"] = (lambda m=m, u=u: run_bare(data, m, u)), m
        runs[u, "dicts", "lazy"] = dict_pass(data, m // 4, u), m // 4
    measured = seconds_per_example(runs, sizes.rounds)
    for u in UPDATES:
        measured[u, "numpy, in place", "lazy"] = measured[u, "numpy, naive", "lazy"]
    return measured


def max_difference(data: Rows, n: int, variants: Sequence[str] = VARIANTS) -> float:
    """Return the maximum difference from naive dense weights, relative to the largest weight."""
    largest_difference = 0.0
    for update in UPDATES:
        for sparse in (False, True):
            truth = numpy_dense(data, n, update, sparse)
            weights = [DENSE[variant](data, n, update, sparse) for variant in variants]
            weights += [LAZY[variant](data, n, update) for variant in variants]
            weights.append(run_streaml1(data, n, update, "explicit"))
            differences = [float(np.abs(w - truth).max()) for w in weights]
            scale = float(np.abs(truth).max())
            largest_difference = max(largest_difference, max(differences) / scale)
    return largest_difference


Seconds = dict[tuple[str, str, str], float]


def claims(
    seconds: Seconds, difference: float, widths: dict[tuple[int, str], float], d: int, mean: float
) -> list[Claim]:
    """Check the statements of the abstract, Section 1 and Section 7."""

    def ratios(variant: str, column: str, to: str = "") -> list[float]:
        """Return a variant's seconds for SGD and FoBoS over its lazy ones, or those of `to`."""
        return [seconds[u, variant, column] / seconds[u, to or variant, "lazy"] for u in UPDATES]

    def format_pair(ratios: list[float]) -> str:
        return " and ".join(map(format_ratio, ratios))

    dense, sparse = ({w: ratios(w, column) for w in VARIANTS} for column in ("dense", "sparse"))
    printed, printed_sparse = ([PAPER[u][k] / PAPER[u][0] for u in UPDATES] for k in (1, 2))
    ideal, reached = d / mean, ratios("compiled", "sparse", "bare")
    folded, explicit = ratios("compiled", "lazy", "bare"), ratios("explicit", "lazy", "bare")
    by_dimension = {k: (widths[k, "lazy"], widths[k, "bare"]) for k, _ in widths}
    dimension_text = ", ".join(
        f"{format_seconds(a)} at d = {k:,} (bare {format_seconds(b)})"
        for k, (a, b) in by_dimension.items()
    )
    growth = [by_dimension[10 * d][k] / by_dimension[d // 10][k] for k in (0, 1)]
    checked = [
        ("Section 7", "the standard and the lazy updates output essentially identical weights",
         f"maximum difference, relative to the largest weight: {difference:.1e}",
         difference < 1e-9),
        ("Table 1", "its own figures: over 2000 times faster than dense updates",
         f"SGD and FoBoS: {format_pair(printed)}", min(printed) > 2000.0),
        ("Table 1", "its own figures: over 1400 times where predictions are sparse",
         f"SGD and FoBoS: {printed_sparse[0]:,.1f} and {printed_sparse[1]:,.1f}",
         min(printed_sparse) > 1400.0),
    ]  # fmt: skip
    for variant in VARIANTS:
        checked += [
            ("abstract", f"over 2000 times faster: both in {variant}",
             f"SGD and FoBoS: {format_pair(dense[variant])}", min(dense[variant]) > 2000.0),
            ("Section 1", f"over 1400 times where predictions are sparse: both in {variant}",
             f"SGD and FoBoS: {format_pair(sparse[variant])}",
             min(sparse[variant]) > 1400.0),
        ]  # fmt: skip
    checked += [
        ("Section 7", "without overhead the speed-up is d / p = 2947",
         f"d / p = {ideal:,.0f}; compiled dense loops / bare step: {format_pair(reached)}",
         all(0.5 < ratio / ideal < 2.0 for ratio in reached)),
        ("Section 7", "dynamic programming does not erode the benefit of sparsity",
         f"over a step without penalty, SGD and FoBoS: folded {format_pair(folded)} times, "
         f"explicit stamps {format_pair(explicit)}", max(folded + explicit) < 3.0),
        ("Section 3", "an example takes O(p), independent of the dimension (here: the slowdown by "
         "memory is that of the bare step)", f"FoBoS: {dimension_text}",
         growth[0] < 1.25 * max(growth[1], 1.0)),
    ]  # fmt: skip
    return [Claim(*claim) for claim in checked]


def format_ratio(ratio: float) -> str:
    """Format a ratio, with one decimal if it is below 10."""
    return f"{ratio:,.0f}" if ratio >= 10.0 else f"{ratio:.1f}"


def format_seconds(seconds: float) -> str:
    return (
        f"{seconds:.3g} s"
        if seconds >= 0.1
        else (f"{1e3 * seconds:.3g} ms" if seconds >= 1e-4 else f"{1e6 * seconds:.3g} us")
    )


def print_tables(seconds: Seconds) -> None:
    header = ("", "lazy", "dense", "sparse predictions", "dense / lazy", "sparse pred. / lazy")
    lines = []
    for u in UPDATES:
        shown = {f"{u}, the paper": PAPER[u]}
        for variant in VARIANTS:
            a, b, c = (seconds[u, variant, column] for column in ("lazy", "dense", "sparse"))
            shown[f"{u}, {variant}"] = a, b, c
        for name, (a, b, c) in shown.items():
            lines.append(
                (
                    name,
                    format_seconds(a),
                    format_seconds(b),
                    format_seconds(c),
                    format_ratio(b / a),
                    format_ratio(c / a),
                )
            )
    print_table("Seconds per example, dense and lazy in the same implementation", header, lines)
    inputs = {"compiled": "rows", "explicit": "rows, explicit stamps", "dicts": "dicts"}
    for column, title in (("dense", "dense"), ("sparse", "dense with sparse predictions")):
        lines = []
        for u in UPDATES:
            for name, input_name in inputs.items():
                lazy = seconds[u, name, "lazy"]
                ratios = [format_ratio(seconds[u, variant, column] / lazy) for variant in VARIANTS]
                lines.append((f"{u}, streaml1, {input_name}", format_seconds(lazy), *ratios))
        print_table(f"{title.capitalize()}, over streaml1", ("", "lazy", *VARIANTS), lines)


def draw(seconds: Seconds, directory: Path) -> Path:
    """Plot the seconds per example as bars."""
    import matplotlib.pyplot as plt

    figure, both = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained", sharey=True)
    groups = [
        "the paper",
        *(variant.replace(", ", ",\n") for variant in VARIANTS),
    ]
    names = (("lazy", "lazy"), ("dense", "dense"), ("sparse", "dense, sparse predictions"))
    for axes, u in zip(both, UPDATES, strict=True):
        for k, (column, label) in enumerate(names):
            order = ("lazy", "dense", "sparse").index(column)
            heights = [
                PAPER[u][order],
                *(seconds[u, variant, column] for variant in VARIANTS),
            ]
            positions = np.arange(len(groups)) + 0.27 * (k - 1)
            bars = axes.bar(positions, heights, 0.25, label=label, color=("C0", "C3", "C1")[k])
            axes.bar_label(
                bars, [format_seconds(h) for h in heights], fontsize=7, rotation=90, padding=3
            )
        axes.set(yscale="log", ylim=(1e-7, 3e3), xticks=range(len(groups)), xticklabels=groups)
        axes.set_title({"sgd": "SGD", "fobos": "FoBoS"}[u], loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    both[0].set_ylabel("seconds per example")
    both[1].legend(frameon=False, loc="upper right")
    return save_figure(figure, directory, "lipton-elkan-table1.png")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--dimension", type=int, default=None, help=f"features (default: {DIMENSION:,})"
    )
    args = parser.parse_args()
    d = args.dimension or (3_000 if args.quick else DIMENSION)
    sizes = QUICK if args.quick else FULL
    data = make_rows(sizes.lazy, d)
    mean = data.X.nnz / data.X.shape[0]
    CONSOLE.print(
        f"Synthetic rows: {sizes.lazy:,} x {d:,}, {mean:.2f} non-zeros each (the paper: 10^6 x "
        f"{DIMENSION:,}, {MEAN}); l1 = l2 = {L1:g}, rate {LR}/sqrt(t)\n"
    )
    seconds = measure(data, sizes)
    print_tables(seconds)
    runs: dict[Any, tuple[Callable[[], Any], int]] = {}
    by_width = {k: data if k == d else make_rows(sizes.lazy, k) for k in (d // 10, d, 10 * d)}
    for k, wide in by_width.items():
        runs[k, "lazy"] = streaml1_pass(wide, sizes.lazy, "fobos", "folded"), sizes.lazy
        runs[k, "bare"] = (lambda wide=wide: run_bare(wide, sizes.lazy, "fobos")), sizes.lazy
    widths = seconds_per_example(runs, sizes.rounds)
    difference = max(
        max_difference(data, sizes.numpy // 2, FASTER), max_difference(by_width[d // 10], 3)
    )
    print_claims("What the paper states", claims(seconds, difference, widths, d, mean))
    print(draw(seconds, args.out))


if __name__ == "__main__":
    main()
