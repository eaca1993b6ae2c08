"""FOBOS with mini-batches: Figure 3 of Duchi & Singer (2009).

    python demos/papers/fobos_minibatches.py [--quick] [--data DIR] [--examples 2000] [--runs 3]

Multiclass logistic regression: l1 on Landsat (products of all pairs of its 36 columns, 720 training
rows, as in the paper), l1/l2 on MNIST (Gaussian kernels with `--examples` training rows; the paper
has 10,000). Steps use the gradient of 10%, 20% and 100% of the rows, all with one rate, and of one
row (SoftmaxClassifier; as online learners take one example per step, the other runs are plain
numpy). `fobos_multiclass.py` describes how the columns are scaled, which the paper leaves open. The
axes of the paper count gradients of single examples up to 1,000, but one step alone takes 720. The
axes here count passes over the training rows. Without data, or with --quick, runs on synthetic
data. Writes out/fobos_minibatches.png. Takes some minutes; with --examples 10000 fifteen more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

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
    MulticlassData,
    curvature,
    error,
    gradient,
    landsat,
    max_strength,
    mnist,
    objective,
    prox,
    synthetic,
)
from grid import search
from scipy.sparse import csr_matrix

import streaml1
from streaml1.datasets import MNIST, Landsat

SHARES = {"10%": 0.1, "20%": 0.2, "100%": 1.0}
SINGLE = "one row"
STYLES = {
    SINGLE: "0.6",
    "10%": "C0",
    "20%": "k",
    "100%": "C2",
}  # as in the paper, plus one


class Run(NamedTuple):
    """Test error, share of non-zero rows and objective by pass, averaged over the runs."""

    passes: Any
    errors: Any
    rows: Any
    objectives: Any


def run_minibatches(
    data: MulticlassData,
    penalty: str,
    c: float,
    strength: float,
    share: float,
    passes: int,
    seed: int,
) -> Any:
    """Run FOBOS on random batches, eta_t = c / sqrt(t); return pass, error, rows and objective."""
    rng, n = np.random.default_rng(seed), len(data.y)
    size = max(1, round(share * n))
    W, curves, t = np.zeros((data.X.shape[1], data.k)), [], 0
    for epoch in range(passes):
        order = rng.permutation(n)
        for lo in range(0, n - size + 1, size):
            t += 1
            batch = order[lo : lo + size] if size < n else slice(None)
            eta = c / math.sqrt(t)
            step = eta * gradient(data.X[batch], data.y[batch], W)
            W = prox(W - step, eta * strength, penalty)
        if is_recorded(epoch):
            curves.append((epoch + 1, error(data, W), W.any(axis=1).mean(),
                          objective(data.X, data.y, W, penalty, strength)))  # fmt: skip
    return np.array(curves)


def is_recorded(epoch: int) -> bool:
    """Return whether a pass is in the figure."""
    return epoch < 10 or epoch % 5 == 4


def run_softmax(
    data: MulticlassData, penalty: str, c: float, strength: float, passes: int, seed: int
) -> Any:
    """Run SoftmaxClassifier, one example per step; return the same as `run_minibatches`."""
    rng = np.random.default_rng(seed)
    model = streaml1.SoftmaxClassifier(
        penalty=penalty, strength=strength, lr=c, intercept_lr=0.0, classes=range(data.k)
    )
    X, curves = csr_matrix(data.X), []  # convert once, not in every pass
    for epoch in range(passes):
        order = rng.permutation(len(data.y))
        model.learn_many(X[order], data.y[order])
        if is_recorded(epoch):
            W = np.zeros((data.X.shape[1], data.k))
            for j, row in model.weights.items():
                W[j, list(row)] = list(row.values())
            curves.append((epoch + 1, error(data, W), W.any(axis=1).mean(),
                          objective(data.X, data.y, W, penalty, strength)))  # fmt: skip
    return np.array(curves)


def best_rate(data: MulticlassData, penalty: str, strength: float, passes: int) -> float:
    """Return the c, a multiple of 1 / L, with the lowest objective under full gradients."""
    L = curvature(data.X)
    found = search(
        lambda c: float(run_minibatches(data, penalty, c / L, strength, 1.0, passes, 0)[-1, 3]),
        (3.0, 10.0, 30.0),
        lambda reached: reached,
    )
    print(f"{penalty}: the best of {len(found.tried)} rates is {found.value:g} / L{found.note}")
    return found.value / L


def figure3(
    make_data: Callable[[int], MulticlassData], penalty: str, runs: int, passes: int
) -> dict[str, Run]:
    """Return the averaged run for each batch size."""
    sets = [make_data(seed) for seed in range(runs)]
    strength = 0.1 * max_strength(sets[0], penalty)
    c = best_rate(sets[0], penalty, strength, min(passes, 40))
    curves = {}
    for name, share in SHARES.items():
        share_runs = [
            run_minibatches(data, penalty, c, strength, share, passes, seed)
            for seed, data in enumerate(sets)
        ]
        curves[name] = Run(*np.mean(share_runs, axis=0).T)
    softmax_passes = max(2, passes // 4)
    softmax_runs = [
        run_softmax(data, penalty, c, strength, softmax_passes, seed)
        for seed, data in enumerate(sets)
    ]
    curves[SINGLE] = Run(*np.mean(softmax_runs, axis=0).T)
    return curves


def passes_to_best(run: Run) -> float:
    """Return the passes until the test error is within one point of its minimum."""
    return float(run.passes[np.argmax(run.errors <= run.errors.min() + 0.01)])


def sparsity_change(run: Run) -> float:
    """Return the mean change of the share of rows between records in the second half of a run."""
    return float(np.abs(np.diff(run.rows[len(run.rows) // 2 :])).mean())


def objective_error_correlation(run: Run) -> float:
    """Return the rank correlation of the objective and the test error along a run."""
    ranks = [np.argsort(np.argsort(v)) for v in (run.objectives, run.errors)]
    return float(np.corrcoef(*ranks)[0, 1])


def claims(name: str, penalty: str, curves: dict[str, Run]) -> list[Claim]:
    source = f"Figure 3, {name}, {penalty}"
    full = curves["100%"]
    stochastic = {share: curves[share] for share in ("10%", "20%")}
    times = ", ".join(f"{share} {passes_to_best(run):.0f}" for share, run in curves.items())
    peak = float(full.rows.max())
    moves = {share: sparsity_change(run) for share, run in curves.items()}
    correlations = {share: objective_error_correlation(run) for share, run in curves.items()}
    return [
        Claim(source, "stochastic FOBOS gets to its minimum test error very quickly",
              f"passes until within a point of the run's minimum: {times}",
              all(passes_to_best(run) < passes_to_best(full) for run in stochastic.values())),
        Claim(source, "the deterministic version increases the sparsity throughout its run",
              f"non-zero rows: {peak:.0%} maximum, {full.rows[-1]:.0%} at the end; their number "
              f"increased between {np.mean(np.diff(full.rows) > 0.0):.0%} of the records",
              bool(full.rows[-1] < peak and np.mean(np.diff(full.rows) > 0.0) <= 0.1)),
        Claim(source, "the stochastic version has highly variable sparsity levels",
              "change of the share of rows between records, second half: "
              + ", ".join(f"{share} {move:.2%}" for share, move in moves.items()),
              all(moves[share] > 2.0 * moves["100%"] for share in stochastic)),
        Claim(source, "and does not give solutions as sparse as the deterministic one",
              "non-zero rows at the end: "
              + ", ".join(f"{share} {run.rows[-1]:.1%}" for share, run in curves.items()),
              all(run.rows[-1] > full.rows[-1] for run in stochastic.values())),
        Claim(source, "the objective in training has a similar contour to the test loss",
              "rank correlation with the test error along the run: "
              + ", ".join(f"{share} {r:.2f}" for share, r in correlations.items())
              + " (0.5: similar)", all(r >= 0.5 for r in correlations.values())),
    ]  # fmt: skip


def draw(figures: dict[str, dict[str, Run]]) -> Any:
    figure, axes = plt.subplots(
        1, len(figures), figsize=(5.5 * len(figures), 4.2), layout="constrained", squeeze=False
    )
    for axis, (title, curves) in zip(axes[0], figures.items(), strict=True):
        for share, run in curves.items():
            axis.plot(run.passes, run.errors, STYLES[share], label=f"error, {share}")
            axis.plot(run.passes, run.rows, STYLES[share], ls="--", label=f"rows, {share}")
        axis.set(xlabel="passes over the training rows", ylim=(0.0, 1.02))
        axis.set_title(title, loc="left", fontsize="medium")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False, ncols=2, fontsize="small")
    return figure


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--examples", type=int, default=2000, help="training rows of MNIST")
    parser.add_argument("--runs", type=int, default=3, help="number of draws of training rows")
    parser.add_argument("--passes", type=int, default=200, help="passes of each run")
    args = parser.parse_args()
    set_data_directory(args.data)
    runs, passes = (1, 20) if args.quick else (args.runs, args.passes)
    sets: dict[str, tuple[str, Callable[[int], MulticlassData], int]] = {}
    for name, penalty, data, make_data, n_runs in (
        ("landsat", "l1", Landsat(), lambda seed: landsat(720, seed), runs),
        ("mnist", "l1/l2", MNIST(), lambda seed: mnist(args.examples, seed), min(runs, 2)),
    ):
        if not args.quick and is_available(name, data):
            sets[name] = penalty, make_data, n_runs
    sets = sets or {"synthetic data": ("l1", synthetic, runs)}
    figures, all_claims = {}, []
    for name, (penalty, make_data, n_runs) in sets.items():
        curves = figure3(make_data, penalty, n_runs, passes)
        all_claims += claims(name, penalty, curves)
        figures[f"{name}, {penalty}"] = curves
        print_table(
            f"{name}, {penalty}, mean of {n_runs} runs: test error, share of non-zero rows",
            ("rows per step", *(f"pass {p}" for p in (1, 5, 10, 50, passes)), "min. error"),
            [
                (share, *(f"{run.errors[k]:.3f} {run.rows[k]:4.0%}" if run.passes[k] == p else ""
                         for p in (1, 5, 10, 50, passes)
                         for k in [int(np.argmin(np.abs(run.passes - p)))]),
                 f"{run.errors.min():.3f}")
                for share, run in curves.items()
            ],
        )  # fmt: skip
    print_claims("Figure 3", all_claims)
    print(save_figure(draw(figures), args.out, "fobos_minibatches.png"))


if __name__ == "__main__":
    main()
