"""FOBOS on parts of the data: Figure 3 of Duchi & Singer (2009).

    python demos/papers/fobos_minibatches.py [--quick] [--data FOLDER] [--examples 2000] [--runs 3]

Multiclass logistic regression: l1 on Landsat (products of all pairs of its 36 columns, 720 training
rows, as in the paper), l1/l2 on MNIST (Gaussian kernels with `--examples` training rows, where the
paper has 10,000). Steps along the gradient of 10%, 20% and 100% of the rows, with one rate for all,
and of one row by SoftmaxClassifier: learners of streams take one example a step, so the others are
plain numpy. `fobos_rows.py` tells how the columns are scaled, which the paper does not. Its axes
count gradients of single examples, to 1,000, which cannot be: that is one step of 720. Here they
count passes over the training rows. Without data, or with --quick, all runs on made data. Writes
out/fobos_minibatches.png. Takes some minutes; with --examples 10000 a quarter of an hour more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import Claim, is_here, look_in, options, save, show_claims, table
from fobos_rows import Set, curvature, empty, error, gradient, landsat, made, mnist, objective, prox
from scipy.sparse import csr_matrix

import streaml1
from streaml1.datasets import MNIST, Landsat

PARTS = {"10%": 0.1, "20%": 0.2, "100%": 1.0}
ONE = "one row"
STYLES = {ONE: "0.6", "10%": "C0", "20%": "k", "100%": "C2"}  # the paper's, and one more


class Run(NamedTuple):
    """Passes; and there test error, share of rows, objective: the mean over the runs."""

    passes: Any
    errors: Any
    rows: Any
    objectives: Any


def stochastic(
    data: Set, penalty: str, c: float, strength: float, part: float, passes: int, seed: int
) -> Any:
    """FOBOS on drawn parts of the rows, eta_t = c / sqrt(t): errors, rows and objectives."""
    random, n = np.random.default_rng(seed), len(data.y)
    size = max(1, round(part * n))
    W, found, t = np.zeros((data.X.shape[1], data.k)), [], 0
    for one in range(passes):
        order = random.permutation(n)
        for lo in range(0, n - size + 1, size):
            t += 1
            some = order[lo : lo + size] if size < n else slice(None)
            eta = c / math.sqrt(t)
            step = eta * gradient(data.X[some], data.y[some], W)
            W = prox(W - step, eta * strength, penalty)
        if noted(one):
            found.append((one + 1, error(data, W), W.any(axis=1).mean(),
                          objective(data.X, data.y, W, penalty, strength)))  # fmt: skip
    return np.array(found)


def noted(one: int) -> bool:
    """Whether a pass is in the figure."""
    return one < 10 or one % 5 == 4


def single(data: Set, penalty: str, c: float, strength: float, passes: int, seed: int) -> Any:
    """The same of SoftmaxClassifier, one example a step."""
    random = np.random.default_rng(seed)
    model = streaml1.SoftmaxClassifier(
        penalty=penalty, strength=strength, lr=c, intercept_lr=0.0, classes=range(data.k)
    )
    X, found = csr_matrix(data.X), []  # once, and not by the learner in every pass
    for one in range(passes):
        order = random.permutation(len(data.y))
        model.learn_many(X[order], data.y[order])
        if noted(one):
            W = np.zeros((data.X.shape[1], data.k))
            for j, row in model.weights.items():
                W[j, list(row)] = list(row.values())
            found.append((one + 1, error(data, W), W.any(axis=1).mean(),
                          objective(data.X, data.y, W, penalty, strength)))  # fmt: skip
    return np.array(found)


def rate(data: Set, penalty: str, strength: float, passes: int) -> float:
    """The c with the least objective by full gradients, of some times 1 / L."""
    L = curvature(data.X)
    tried = [
        (stochastic(data, penalty, c / L, strength, 1.0, passes, 0)[-1, 3], c / L)
        for c in (3.0, 10.0, 30.0)
    ]
    return float(min(tried)[1])


def figure3(make: Callable[[int], Set], penalty: str, runs: int, passes: int) -> dict[str, Run]:
    """A run for each part of the rows."""
    sets = [make(seed) for seed in range(runs)]
    strength = 0.1 * empty(sets[0], penalty)
    c = rate(sets[0], penalty, strength, min(passes, 40))
    found = {}
    for name, part in PARTS.items():
        told = [
            stochastic(one, penalty, c, strength, part, passes, seed)
            for seed, one in enumerate(sets)
        ]
        found[name] = Run(*np.mean(told, axis=0).T)
    few = max(2, passes // 4)
    alone = [single(one, penalty, c, strength, few, seed) for seed, one in enumerate(sets)]
    found["one row"] = Run(*np.mean(alone, axis=0).T)
    return found


def soon(run: Run) -> float:
    """Passes until the test error is within a point of its least."""
    return float(run.passes[np.argmax(run.errors <= run.errors.min() + 0.01)])


def restless(run: Run) -> float:
    """How much the share of rows changes from one mark to the next, once half the run is over."""
    return float(np.abs(np.diff(run.rows[len(run.rows) // 2 :])).mean())


def followed(run: Run) -> float:
    """The rank correlation of the objective and the test error along a run."""
    ranks = [np.argsort(np.argsort(v)) for v in (run.objectives, run.errors)]
    return float(np.corrcoef(*ranks)[0, 1])


def claims(name: str, penalty: str, found: dict[str, Run]) -> list[Claim]:
    place = f"Figure 3, {name}, {penalty}"
    whole, parts = found["100%"], {part: found[part] for part in ("10%", "20%")}
    times = ", ".join(f"{part} {soon(run):.0f}" for part, run in found.items())
    peak = float(whole.rows.max())
    moves = {part: restless(run) for part, run in found.items()}
    return [
        Claim(place, "with stochastic gradients FOBOS gets very quickly to its least test error",
              f"passes until within a point of its own least: {times}",
              all(soon(run) < soon(whole) for run in parts.values())),
        Claim(place, "the deterministic version increases the level of sparsity throughout its run",
              f"rows that are not 0: {peak:.0%} at most, {whole.rows[-1]:.0%} at last; they became "
              f"more in {np.mean(np.diff(whole.rows) > 0.0):.0%} of the marks",
              bool(whole.rows[-1] < peak and np.mean(np.diff(whole.rows) > 0.0) <= 0.1)),
        Claim(place, "the stochastic version has highly variable sparsity levels",
              "change of the share of rows from mark to mark, in the later half: "
              + ", ".join(f"{part} {move:.2%}" for part, move in moves.items()),
              all(moves[part] > 2.0 * moves["100%"] for part in parts)),
        Claim(place, "and does not give solutions as sparse as the deterministic one",
              "rows that are not 0 at last: "
              + ", ".join(f"{part} {run.rows[-1]:.1%}" for part, run in found.items()),
              all(run.rows[-1] > whole.rows[-1] for run in parts.values())),
        Claim(place, "the objective in training has a similar contour to the test loss",
              "rank correlation with the test error along the run: "
              + ", ".join(f"{part} {followed(run):.2f}" for part, run in found.items())
              + " (0.5: similar)", all(followed(run) >= 0.5 for run in found.values())),
    ]  # fmt: skip


def draw(figures: dict[str, dict[str, Run]]) -> Any:
    figure, axes = plt.subplots(
        1, len(figures), figsize=(5.5 * len(figures), 4.2), layout="constrained", squeeze=False
    )
    for place, (title, found) in zip(axes[0], figures.items(), strict=True):
        for part, run in found.items():
            place.plot(run.passes, run.errors, STYLES[part], label=f"error, {part}")
            place.plot(run.passes, run.rows, STYLES[part], ls="--", label=f"rows, {part}")
        place.set(xlabel="passes over the training rows", ylim=(0.0, 1.02))
        place.set_title(title, loc="left", fontsize="medium")
        place.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False, ncols=2, fontsize="small")
    return figure


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--examples", type=int, default=2000, help="training rows of MNIST")
    parser.add_argument("--runs", type=int, default=3, help="with other training rows each")
    parser.add_argument("--passes", type=int, default=200)
    asked = parser.parse_args()
    look_in(asked.data)
    runs, passes = (1, 20) if asked.quick else (asked.runs, asked.passes)
    sets: dict[str, tuple[str, Callable[[int], Set], int]] = {}
    for name, penalty, data, make, times in (
        ("landsat", "l1", Landsat(), lambda seed: landsat(720, seed), runs),
        ("mnist", "l1/l2", MNIST(), lambda seed: mnist(asked.examples, seed), min(runs, 2)),
    ):
        if not asked.quick and is_here(name, data):
            sets[name] = penalty, make, times
    sets = sets or {"made data": ("l1", made, runs)}
    figures, told = {}, []
    for name, (penalty, make, times) in sets.items():
        found = figure3(make, penalty, times, passes)
        told += claims(name, penalty, found)
        figures[f"{name}, {penalty}"] = found
        table(
            f"{name}, {penalty}, mean of {times} runs: test error, and rows that are not 0",
            ("rows a step", *(f"pass {p}" for p in (1, 5, 10, 50, passes)), "least error"),
            [
                (part, *(f"{run.errors[k]:.3f} {run.rows[k]:4.0%}" if run.passes[k] == p else ""
                         for p in (1, 5, 10, 50, passes)
                         for k in [int(np.argmin(np.abs(run.passes - p)))]),
                 f"{run.errors.min():.3f}")
                for part, run in found.items()
            ],
        )  # fmt: skip
    show_claims("Figure 3", told)
    print(save(draw(figures), asked.out, "fobos_minibatches.png"))


if __name__ == "__main__":
    main()
