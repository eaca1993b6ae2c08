"""Which features a model of many classes keeps: single weights, or whole rows of them.

    python demos/many_classes.py

A stream of 30,000 examples of 20 classes, drawn with a seed: 60 frequent features tell something of
all classes, 10,000 rare ones nothing. Each penalty is tried at several strengths. Writes
out/many_classes.png.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from scipy.sparse import csr_matrix, hstack

import streaml1

matplotlib.use("agg")
import matplotlib.pyplot as plt

N, K, TELL, NOISE = 30_000, 20, 60, 10_000
D = TELL + NOISE
PENALTIES = {"l1": "o-", "l1/l2": "s-", "l1/linf": "^-"}
STRENGTHS = {
    "l1": np.geomspace(1e-5, 2e-3, 8),
    "l1/l2": np.geomspace(1e-4, 1e-2, 8),
    "l1/linf": np.geomspace(2e-4, 3e-2, 8),
}


def stream() -> tuple[Any, Any]:
    """Rows of 10 features that tell and 10 others; and the class of each."""
    random = np.random.default_rng(1)
    counts = {TELL: 10, NOISE: 10}
    parts = [
        csr_matrix(
            (random.normal(size=n * N), random.integers(0, d, n * N), np.arange(N + 1) * n), (N, d)
        )
        for d, n in counts.items()
    ]
    truth = random.normal(size=(TELL, K)) * 2.0
    y = (parts[0] @ truth + random.gumbel(size=(N, K))).argmax(axis=1)
    return csr_matrix(hstack(parts)), y


def run(X: Any, y: Any, penalty: str, strength: float) -> tuple[Any, Any]:
    """The last line of the report, and the weights, a row for each feature."""
    model = streaml1.SoftmaxClassifier(penalty=penalty, strength=strength, lr=0.5, classes=range(K))
    line = streaml1.progressive(model, (X, y), every=10**9).lines[-1]
    w = np.zeros((D, K))
    for j, row in model.weights.items():
        w[j, list(row)] = list(row.values())
    return line, w


def main() -> None:
    X, y = stream()
    print(f"{N:,} examples of {K} classes; {TELL} of {D:,} features tell something\n")
    print(f"{'penalty':>8} {'strength':>9} {'log-loss':>9} {'error':>7} {'weights':>8} ", end="")
    print(f"{'features':>9} {'of these noise':>15} {'missed':>7}")
    curves: dict[str, list[tuple[int, float]]] = {}
    best: dict[str, tuple[Any, Any]] = {}
    for penalty in PENALTIES:
        curves[penalty] = []
        for strength in STRENGTHS[penalty].tolist():
            line, w = run(X, y, penalty, strength)
            used = w.any(axis=1)
            print(
                f"{penalty:>8} {strength:9.2g} {line.loss:9.4f} {line.error:7.1%} "
                f"{line.n_nonzero:8,} {used.sum():9,} {used[TELL:].sum():15,} "
                f"{TELL - used[:TELL].sum():7,}"
            )
            curves[penalty].append((int(used.sum()), line.error))
            least = min(error for _, error in curves[penalty])
            if line.error <= least + 0.01:  # the strongest that costs a point at most
                best[penalty] = line, w
        print()

    figure = plt.figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(5, 6))
    axes = left.subplots()
    for penalty, style in PENALTIES.items():
        axes.plot(*zip(*curves[penalty], strict=True), style, label=penalty)
    axes.axvline(TELL, color="0.5", lw=1, ls=":")
    axes.text(TELL * 1.1, 0.97, "features that tell", color="0.4", va="top",
              transform=axes.get_xaxis_transform())  # fmt: skip
    axes.set(xlabel="features in the model at the end", ylabel="progressive error", xscale="log")
    axes.set_title("each mark a strength", loc="left", fontsize="medium")
    axes.legend(frameon=False)
    for place, (penalty, (line, w)) in zip(right.subplots(1, 3), best.items(), strict=True):
        place.imshow(w[: 4 * TELL] != 0.0, aspect="auto", cmap="Greys", interpolation="nearest")
        place.axhline(TELL - 0.5, color="C3", lw=1)
        place.set_title(f"{penalty}: error {line.error:.1%}", loc="left", fontsize="medium")
        place.set(xlabel="class", xticks=[], yticks=[])
    right.supylabel(f"the first {4 * TELL} features; those above the line tell", fontsize="medium")
    right.suptitle("weights that are not zero, where they cost a point of error", fontsize="medium")
    out = Path("out")
    out.mkdir(exist_ok=True)
    figure.savefig(out / "many_classes.png", dpi=150)
    print(out / "many_classes.png")


if __name__ == "__main__":
    main()
