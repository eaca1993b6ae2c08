"""Row sparsity of mixed norms: Table 1 of Duchi & Singer (2009).

    python demos/papers/fobos_mixed_norms.py [--quick] [--data DIR] [--examples 1000] [--runs 2]

Multiclass logistic regression with l1, l1/l2 and l1/linf: test error against the share of non-zero
rows of weights. Landsat (products of all pairs of its 36 columns, 720 training rows, as in the
paper) and MNIST (Gaussian kernels with `--examples` training rows; the paper has 10,000). The paper
does not say how it reaches a given share of rows. Here the strength decreases by a quarter at a
time, each run starts from the weights of the previous one and stops when they settle (after at most
250 steps), and errors are interpolated. `fobos_multiclass.py` describes how the columns are scaled.
Without data, or with --quick, runs on synthetic data. Writes out/fobos_mixed_norms.png. Takes some
minutes; with --examples 10000 an hour more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from common import (
    Claim,
    argument_parser,
    is_available,
    print_claims,
    print_table,
    save_figure,
    set_data_directory,
)
from fobos_multiclass import (
    SCALE,
    MulticlassData,
    curvature,
    error,
    gradient,
    landsat,
    max_strength,
    mnist,
    prox,
    synthetic,
)

from streaml1.datasets import MNIST, Landsat

PENALTIES = ("l1", "l1/l2", "l1/linf")
LEVELS = (0.05, 0.1, 0.2, 0.4)  # of rows, as in the paper
THEIRS = {
    "landsat": {"l1": (0.43, 0.30, 0.26, 0.22), "l1/l2": (0.29, 0.25, 0.22, 0.19),
                "l1/linf": (0.40, 0.30, 0.26, 0.22)},
    "mnist": {"l1": (0.37, 0.26, 0.15, 0.08), "l1/l2": (0.36, 0.26, 0.15, 0.08),
              "l1/linf": (0.47, 0.31, 0.24, 0.16)},
}  # fmt: skip
SCALES = (1.0, 0.5, SCALE, 0.15)  # of z, for the table of scales


def minimize(data: MulticlassData, W: Any, c: float, penalty: str, L: float, max_steps: int) -> Any:
    """Run FOBOS with steps 1/L and momentum until the optimality residual is at most c / 300."""
    V, t = W, 1.0
    for _ in range(max_steps):
        before = V
        new = prox(V - gradient(data.X, data.y, V) / L, c / L, penalty)
        if np.vdot(V - new, new - W) > 0.0:
            t = 1.0
        t_next = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        V = new + (t - 1.0) / t_next * (new - W)
        settled = L * np.abs(new - before).max() <= c / 300.0
        W, t = new, t_next
        if settled:
            break
    return W


def sparsity_path(data: MulticlassData, penalty: str, max_steps: int) -> Any:
    """Return, for each strength, the share of non-zero rows, the error, and zeros within rows."""
    L, c = curvature(data.X), max_strength(data, penalty)
    W, points = np.zeros((data.X.shape[1], data.k)), []
    while len(points) < 30 and (not points or points[-1][0] < LEVELS[-1]):
        c *= 0.75
        W = minimize(data, W, c, penalty, L, max_steps)
        rows = W.any(axis=1)
        points.append((rows.mean(), error(data, W), 1.0 - np.mean(W[rows] != 0.0)))
    return np.array(points)


def interpolate(path: Any, column: int) -> Any:
    """Interpolate a column of a path at LEVELS, linearly in log(rows)."""
    return np.interp(np.log(LEVELS), np.log(np.maximum(path[:, 0], 1e-6)), path[:, column])


def table1(
    make: Callable[[int], MulticlassData], runs: int, max_steps: int
) -> dict[str, tuple[Any, Any]]:
    """Return the errors and the zeros within rows at each level, averaged over the runs."""
    sets = [make(seed) for seed in range(runs)]
    results = {}
    for penalty in PENALTIES:
        paths = [sparsity_path(data, penalty, max_steps) for data in sets]
        results[penalty] = tuple(
            np.mean([interpolate(p, c) for p in paths], axis=0) for c in (1, 2)
        )
    return results


def claims(results: dict[str, dict[str, tuple[Any, Any]]]) -> list[Claim]:
    checked = []
    for name, by_penalty in results.items():
        errors = {penalty: by_penalty[penalty][0] for penalty in PENALTIES}
        better = np.minimum(errors["l1"], errors["l1/linf"]) - errors["l1/l2"]
        shown = "; ".join(f"{p} " + " ".join(f"{e:.2f}" for e in errors[p]) for p in PENALTIES)
        if name != "mnist":
            checked.append(
                Claim(
                    f"Table 1, {name}",
                    "l1/l2 does better than the others at each level of row sparsity",
                    f"errors at {LEVELS}: {shown}",
                    bool((better > 0.0).all()),
                )
            )
        if name == "landsat":
            continue
        difference = float(np.abs(errors["l1"] - errors["l1/l2"]).max())
        zeros = by_penalty["l1"][1]
        checked += [
            Claim(f"Table 1, {name}", "l1 and l1/l2 achieve comparable performance at each level",
                  f"errors at {LEVELS}: {shown}; maximum difference {difference:.3f} "
                  "(0.03: comparable)", difference <= 0.03),
            Claim(f"Section 6, {name}", "roughly 90% of each non-zero row of l1 are zeros",
                  f"at {LEVELS} of the rows: " + " ".join(f"{z:.0%}" for z in zeros)
                  + f"; l1/l2 at most {by_penalty['l1/l2'][1].max():.0%} (80% and more: roughly)",
                  bool(zeros.min() >= 0.8)),
        ]  # fmt: skip
    return checked


def compare_order(name: str, results: dict[str, tuple[Any, Any]]) -> Claim:
    """Check the order of the penalties in the paper's table, where they differ by 1.5 points."""
    pairs = [
        (k, a, b)
        for k in range(len(LEVELS))
        for a in PENALTIES
        for b in PENALTIES
        if THEIRS[name][a][k] < THEIRS[name][b][k] - 0.015
    ]
    same = [results[a][0][k] < results[b][0][k] for k, a, b in pairs]
    return Claim(f"Table 1, {name}", "the order of the penalties at each level",
                 f"{sum(same)} of the {len(pairs)} pairs that differ by over 1.5 points in the "
                 "paper are in the same order", all(same))  # fmt: skip


def print_scales(examples: int) -> None:
    """Print the effect of the scale of z on the kernel and on the model."""
    lines = []
    for scale in SCALES:
        data = mnist(min(examples, 1000), 0, scale)
        off_diagonal = data.X[np.triu_indices(len(data.X), 1)]
        L, c = curvature(data.X), max_strength(data, "l1/l2")
        W, cells = np.zeros((data.X.shape[1], data.k)), []
        for share in (0.8, 0.4, 0.2):
            W = minimize(data, W, share * c, "l1/l2", L, 200)
            cells.append(f"{W.any(axis=1).mean():.0%} {error(data, W):.2f}")
        lines.append((f"{scale:.2f}", f"{np.median(off_diagonal):.0e}", *cells))
    print_table(
        f"MNIST, {min(examples, 1000):,} rows: z is scale times the pixels from 0 to 1; non-zero "
        "rows and test error of l1/l2 at shares of the strength at which all weights are zero",
        ("scale", "median kernel of two rows", "0.8", "0.4", "0.2"),
        lines,
    )


def draw(results: dict[str, dict[str, tuple[Any, Any]]]) -> Any:
    figure, axes = plt.subplots(
        1, len(results), figsize=(5.5 * len(results), 4.2), layout="constrained", squeeze=False
    )
    for axis, (name, by_penalty) in zip(axes[0], results.items(), strict=True):
        for k, penalty in enumerate(PENALTIES):
            axis.plot(LEVELS, by_penalty[penalty][0], f"C{k}o-", label=penalty)
            if name in THEIRS:
                axis.plot(LEVELS, THEIRS[name][penalty], f"C{k}x:", lw=1, label="the paper")
        axis.set(xscale="log", xlabel="non-zero rows", xticks=LEVELS)
        axis.set_xticklabels([f"{level:.0%}" for level in LEVELS])
        axis.minorticks_off()
        axis.set_title(f"{name}: test error", loc="left", fontsize="medium")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False, ncols=2, fontsize="small")
    return figure


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--examples", type=int, default=1000, help="training rows of MNIST")
    parser.add_argument("--runs", type=int, default=2, help="number of draws of training rows")
    args = parser.parse_args()
    set_data_directory(args.data)
    runs, max_steps = (1, 60) if args.quick else (args.runs, 250)
    sets: dict[str, tuple[Callable[[int], MulticlassData], int]] = {}
    for name, data, make, n_runs in (
        ("landsat", Landsat(), lambda seed: landsat(720, seed), runs),
        ("mnist", MNIST(), lambda seed: mnist(args.examples, seed), max(1, runs // 2)),
    ):
        if not args.quick and is_available(name, data):
            sets[name] = make, n_runs
    sets = sets or {"synthetic data": (synthetic, runs)}
    if "mnist" in sets:
        print_scales(args.examples)
    results, checked = {}, []
    for name, (make, n_runs) in sets.items():
        results[name] = table1(make, n_runs, max_steps)
        print_table(
            f"{name}: test error, mean of {n_runs} runs" + ", and the paper's" * (name in THEIRS),
            ("non-zero rows", *PENALTIES, "zeros within rows of l1"),
            [
                (f"{level:.0%}",
                 *(f"{results[name][p][0][k]:.3f}"
                   + (f" ({THEIRS[name][p][k]:.2f})" if name in THEIRS else "")
                   for p in PENALTIES),
                 f"{results[name]['l1'][1][k]:.0%}")
                for k, level in enumerate(LEVELS)
            ],
        )  # fmt: skip
        checked += [compare_order(name, results[name])] if name in THEIRS else []
    print_claims("Table 1", claims(results) + checked)
    print(save_figure(draw(results), args.out, "fobos_mixed_norms.png"))


if __name__ == "__main__":
    main()
