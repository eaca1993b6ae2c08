"""Sparsity of rows: Table 1 of Duchi & Singer (2009).

    python demos/papers/fobos_mixed_norms.py [--quick] [--data FOLDER] [--examples 1000] [--runs 2]

Multiclass logistic regression with l1, l1/l2 and l1/linf: test error against the share of rows of
weights that are not all zero. Landsat (products of all pairs of its 36 columns, 720 training rows,
as in the paper) and MNIST (Gaussian kernels with `--examples` training rows, where the paper has
10,000). The paper does not tell how it came to just so many rows: here the strength falls by a
quarter at a time, each run goes on from the one before until the weights stand still (250 steps
at most), and errors are taken between the two runs around. `fobos_rows.py` tells how the columns
are scaled. Without data, or with --quick, all runs on made data. Writes out/fobos_mixed_norms.png.
Takes some minutes; with --examples 10000 an hour more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from common import Claim, is_here, look_in, options, save, show_claims, table
from fobos_rows import (
    SCALE,
    Set,
    curvature,
    empty,
    error,
    gradient,
    landsat,
    made,
    mnist,
    prox,
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
SCALES = (1.0, 0.5, SCALE, 0.15)  # of z, for a table


def settle(data: Set, W: Any, c: float, penalty: str, L: float, most: int) -> Any:
    """FOBOS with steps 1/L and momentum, until no slope is off by a 300th of the strength."""
    V, t = W, 1.0
    for _ in range(most):
        before = V
        new = prox(V - gradient(data.X, data.y, V) / L, c / L, penalty)
        if np.vdot(V - new, new - W) > 0.0:
            t = 1.0
        later = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        V = new + (t - 1.0) / later * (new - W)
        still = L * np.abs(new - before).max() <= c / 300.0
        W, t = new, later
        if still:
            break
    return W


def path(data: Set, penalty: str, most: int) -> Any:
    """Rows that are not zero, error, zeros within those rows: a line a strength."""
    L, c = curvature(data.X), empty(data, penalty)
    W, found = np.zeros((data.X.shape[1], data.k)), []
    while len(found) < 30 and (not found or found[-1][0] < LEVELS[-1]):
        c *= 0.75
        W = settle(data, W, c, penalty, L, most)
        rows = W.any(axis=1)
        found.append((rows.mean(), error(data, W), 1.0 - np.mean(W[rows] != 0.0)))
    return np.array(found)


def at_levels(found: Any, column: int) -> Any:
    """A column of a path where it has so many rows, between its lines in log(rows)."""
    return np.interp(np.log(LEVELS), np.log(np.maximum(found[:, 0], 1e-6)), found[:, column])


def table1(make: Callable[[int], Set], runs: int, most: int) -> dict[str, tuple[Any, Any]]:
    """Errors, and zeros within rows, at each level: the mean over the runs."""
    sets = [make(seed) for seed in range(runs)]
    found = {}
    for penalty in PENALTIES:
        paths = [path(one, penalty, most) for one in sets]
        found[penalty] = tuple(np.mean([at_levels(p, c) for p in paths], axis=0) for c in (1, 2))
    return found


def claims(found: dict[str, dict[str, tuple[Any, Any]]]) -> list[Claim]:
    told = []
    for name, one in found.items():
        errors = {penalty: one[penalty][0] for penalty in PENALTIES}
        better = np.minimum(errors["l1"], errors["l1/linf"]) - errors["l1/l2"]
        shown = "; ".join(f"{p} " + " ".join(f"{e:.2f}" for e in errors[p]) for p in PENALTIES)
        if name != "mnist":
            told.append(
                Claim(
                    f"Table 1, {name}",
                    "l1/l2 does better than the others at each level of row sparsity",
                    f"errors at {LEVELS}: {shown}",
                    bool((better > 0.0).all()),
                )
            )
        if name == "landsat":
            continue
        apart = float(np.abs(errors["l1"] - errors["l1/l2"]).max())
        zeros = one["l1"][1]
        told += [
            Claim(f"Table 1, {name}", "l1 and l1/l2 achieve comparable performance at each level",
                  f"errors at {LEVELS}: {shown}; at most {apart:.3f} apart (0.03: comparable)",
                  apart <= 0.03),
            Claim(f"Section 6, {name}", "of each row of l1 that is not zero roughly 90% are zeros",
                  f"at {LEVELS} of the rows: " + " ".join(f"{z:.0%}" for z in zeros)
                  + f"; of l1/l2 {one['l1/l2'][1].max():.0%} at most (80% and more: roughly)",
                  bool(zeros.min() >= 0.8)),
        ]  # fmt: skip
    return told


def orders(name: str, found: dict[str, tuple[Any, Any]]) -> Claim:
    """Whether the penalties come in the order of the paper's table, where that tells them apart."""
    pairs = [
        (k, one, other)
        for k in range(len(LEVELS))
        for one in PENALTIES
        for other in PENALTIES
        if THEIRS[name][one][k] < THEIRS[name][other][k] - 0.015
    ]
    same = [found[one][0][k] < found[other][0][k] for k, one, other in pairs]
    return Claim(f"Table 1, {name}", "which penalty is better than which, at each level",
                 f"of {len(pairs)} pairs that are over 1.5 points apart there, {sum(same)} are in "
                 "the same order", all(same))  # fmt: skip


def scales(examples: int) -> None:
    """Print what the scale of z does to the kernel and to what is learnt of it."""
    lines = []
    for scale in SCALES:
        data = mnist(min(examples, 1000), 0, scale)
        others = data.X[np.triu_indices(len(data.X), 1)]
        L, c = curvature(data.X), empty(data, "l1/l2")
        W, cells = np.zeros((data.X.shape[1], data.k)), []
        for share in (0.8, 0.4, 0.2):
            W = settle(data, W, share * c, "l1/l2", L, 200)
            cells.append(f"{W.any(axis=1).mean():.0%} {error(data, W):.2f}")
        lines.append((f"{scale:.2f}", f"{np.median(others):.0e}", *cells))
    table(
        f"MNIST, {min(examples, 1000):,} rows: z is so many times the pixels from 0 to 1; l1/l2 at "
        "shares of the strength that leaves no row: rows, test error",
        ("scale", "kernel of two rows, median", "0.8", "0.4", "0.2"),
        lines,
    )


def draw(found: dict[str, dict[str, tuple[Any, Any]]]) -> Any:
    figure, axes = plt.subplots(
        1, len(found), figsize=(5.5 * len(found), 4.2), layout="constrained", squeeze=False
    )
    for place, (name, one) in zip(axes[0], found.items(), strict=True):
        for k, penalty in enumerate(PENALTIES):
            place.plot(LEVELS, one[penalty][0], f"C{k}o-", label=penalty)
            if name in THEIRS:
                place.plot(LEVELS, THEIRS[name][penalty], f"C{k}x:", lw=1, label="the paper")
        place.set(xscale="log", xlabel="rows that are not zero", xticks=LEVELS)
        place.set_xticklabels([f"{level:.0%}" for level in LEVELS])
        place.minorticks_off()
        place.set_title(f"{name}: test error", loc="left", fontsize="medium")
        place.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False, ncols=2, fontsize="small")
    return figure


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--examples", type=int, default=1000, help="training rows of MNIST")
    parser.add_argument("--runs", type=int, default=2, help="with other training rows each")
    asked = parser.parse_args()
    look_in(asked.data)
    runs, most = (1, 60) if asked.quick else (asked.runs, 250)
    sets: dict[str, tuple[Callable[[int], Set], int]] = {}
    for name, data, make, times in (
        ("landsat", Landsat(), lambda seed: landsat(720, seed), runs),
        ("mnist", MNIST(), lambda seed: mnist(asked.examples, seed), max(1, runs // 2)),
    ):
        if not asked.quick and is_here(name, data):
            sets[name] = make, times
    sets = sets or {"made data": (made, runs)}
    if "mnist" in sets:
        scales(asked.examples)
    found, told = {}, []
    for name, (make, times) in sets.items():
        found[name] = table1(make, times, most)
        table(
            f"{name}: test error, mean of {times} runs" + ", and the paper's" * (name in THEIRS),
            ("rows that are not 0", *PENALTIES, "zeros within rows of l1"),
            [
                (f"{level:.0%}",
                 *(f"{found[name][p][0][k]:.3f}"
                   + (f" ({THEIRS[name][p][k]:.2f})" if name in THEIRS else "")
                   for p in PENALTIES),
                 f"{found[name]['l1'][1][k]:.0%}")
                for k, level in enumerate(LEVELS)
            ],
        )  # fmt: skip
        told += [orders(name, found[name])] if name in THEIRS else []
    show_claims("Table 1", claims(found) + told)
    print(save(draw(found), asked.out, "fobos_mixed_norms.png"))


if __name__ == "__main__":
    main()
