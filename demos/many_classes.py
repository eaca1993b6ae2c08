"""Feature selection by the penalties of a multiclass model: single weights or rows of weights.

    python demos/many_classes.py

The synthetic stream has 30,000 examples of 20 classes. 60 frequent features are informative for all
classes, 10,000 rare ones are noise. Runs each penalty at several strengths. Writes
out/many_classes.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from scipy.sparse import csr_matrix, hstack

import streaml1

matplotlib.use("agg")
import matplotlib.pyplot as plt

N, K, INFORMATIVE, NOISE = 30_000, 20, 60, 10_000
D = INFORMATIVE + NOISE
PENALTIES = {"l1": "o-", "l1/l2": "s-", "l1/linf": "^-"}
STRENGTHS = {
    "l1": np.geomspace(1e-5, 2e-3, 8),
    "l1/l2": np.geomspace(1e-4, 1e-2, 8),
    "l1/linf": np.geomspace(2e-4, 3e-2, 8),
}


def stream() -> tuple[Any, Any]:
    """Draw rows of 10 informative and 10 noise features, and the class of each row."""
    random = np.random.default_rng(1)
    counts = {INFORMATIVE: 10, NOISE: 10}
    blocks = [
        csr_matrix(
            (random.normal(size=n * N), random.integers(0, d, n * N), np.arange(N + 1) * n), (N, d)
        )
        for d, n in counts.items()
    ]
    truth = random.normal(size=(INFORMATIVE, K)) * 2.0
    y = (blocks[0] @ truth + random.gumbel(size=(N, K))).argmax(axis=1)
    return csr_matrix(hstack(blocks)), y


def run(X: Any, y: Any, penalty: str, strength: float) -> tuple[Any, Any]:
    """Return the last line of the report, and the weights as a matrix with a row per feature."""
    model = streaml1.SoftmaxClassifier(penalty=penalty, strength=strength, lr=0.5, classes=range(K))
    line = streaml1.progressive(model, (X, y), every=10**9).lines[-1]
    w = np.zeros((D, K))
    for j, row in model.weights.items():
        w[j, list(row)] = list(row.values())
    return line, w


def main() -> None:
    X, y = stream()
    print(f"{N:,} examples of {K} classes; {INFORMATIVE} of {D:,} features are informative\n")
    print(f"{'penalty':>8} {'strength':>9} {'log-loss':>9} {'error':>7} {'weights':>8} ", end="")
    print(f"{'features':>9} {'noise features':>15} {'missed':>7}")
    curves: dict[str, list[tuple[int, float]]] = {}
    panels: dict[str, tuple[Any, Any]] = {}
    for penalty in PENALTIES:
        curves[penalty] = []
        for strength in STRENGTHS[penalty].tolist():
            line, w = run(X, y, penalty, strength)
            used = w.any(axis=1)
            print(
                f"{penalty:>8} {strength:9.2g} {line.loss:9.4f} {line.error:7.1%} "
                f"{line.n_nonzero:8,} {used.sum():9,} {used[INFORMATIVE:].sum():15,} "
                f"{INFORMATIVE - used[:INFORMATIVE].sum():7,}"
            )
            curves[penalty].append((int(used.sum()), line.error))
            best_error = min(error for _, error in curves[penalty])
            if line.error <= best_error + 0.01:  # the strongest penalty within a point of the best
                panels[penalty] = line, w
        print()

    figure = plt.figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(5, 6))
    axes = left.subplots()
    for penalty, style in PENALTIES.items():
        axes.plot(*zip(*curves[penalty], strict=True), style, label=penalty)
    axes.axvline(INFORMATIVE, color="0.5", lw=1, ls=":")
    axes.text(INFORMATIVE * 1.1, 0.97, "informative features", color="0.4", va="top",
              transform=axes.get_xaxis_transform())  # fmt: skip
    axes.set(xlabel="features in the model at the end", ylabel="progressive error", xscale="log")
    axes.set_title("one marker per strength", loc="left", fontsize="medium")
    axes.legend(frameon=False)
    for axis, (penalty, (line, w)) in zip(right.subplots(1, 3), panels.items(), strict=True):
        axis.imshow(
            w[: 4 * INFORMATIVE] != 0.0, aspect="auto", cmap="Greys", interpolation="nearest"
        )
        axis.axhline(INFORMATIVE - 0.5, color="C3", lw=1)
        axis.set_title(f"{penalty}: error {line.error:.1%}", loc="left", fontsize="medium")
        axis.set(xlabel="class", xticks=[], yticks=[])
    right.supylabel(
        f"the first {4 * INFORMATIVE} features; those above the line are informative",
        fontsize="medium",
    )
    right.suptitle("non-zero weights at one point of additional error", fontsize="medium")
    out = Path("out")
    out.mkdir(exist_ok=True)
    figure.savefig(out / "many_classes.png", dpi=150)
    print(out / "many_classes.png")


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    main()
