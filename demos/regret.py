"""What online learners cost more than the best fixed weights in hindsight, and what papers promise.

    STREAML1_DATA=... python demos/regret.py [examples]

It runs on RCV1, topic CCAT, shuffled, where that is at hand, else on made-up rows without drift.
The picture shows, for each learner, the regret a step, which falls; and beside what is measured the
bounds of FOBOS's Theorem 3 and of SMIDAS's Theorem 2.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import streaml1
from streaml1.datasets import RCV1, Drifting
from streaml1.solvers import fista
from streaml1.training.regret import bounds

L1 = 1e-3


def data(n: int) -> tuple[str, Any, Any]:
    """Rows of length 1 and labels, with no order in time."""
    rcv1 = RCV1()
    if rcv1.is_downloaded:
        X, y = rcv1.matrix()
        order = np.random.default_rng(0).permutation(len(y))[:n]
        return "RCV1, CCAT", X[order], y[order]
    X, y = Drifting(n=n, d=200, change="none", noise=1.0, seed=1).matrix()
    lengths = np.sqrt(X.multiply(X).sum(axis=1).A1)
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    return "made-up rows", X, y


def learners(d: int) -> dict[str, Any]:
    """A learner of each kind, at rates that do well on rows of length 1."""
    s = streaml1
    return {
        "elastic net": s.ElasticNetClassifier(l1=L1, lr=4.0),
        "elastic net, lr=auto": s.ElasticNetClassifier(l1=L1, lr="auto"),
        "truncated gradient": s.TruncatedGradientClassifier(gravity=L1, lr=4.0),
        "SMIDAS": s.SMIDASClassifier(l1=L1, lr=1.0, n_features=d),
        "FOBOS, l2 norm": s.FOBOSClassifier(strength=1e-2, lr=4.0),
        "FTRL": s.FTRLClassifier(alpha=2.0, l1=0.1),
        "l1 ball": s.L1BallClassifier(radius=50.0, lr=4.0),
        "EG+-": s.EGClassifier(radius=50.0, lr=60.0, n_features=d),
        "Pegasos": s.PegasosClassifier(l2=1e-3),
        "softmax": s.SoftmaxClassifier(strength=L1, lr=4.0),
    }


def largest_distance(model: Any, X: Any, y: Any, best: Any, every: int) -> float:
    """The most that the weights were away from the best ones, looked at every so many examples."""
    most = float(np.linalg.norm(best))
    for lo in range(0, len(y), every):
        model.learn_many(X[lo : lo + every], y[lo : lo + every])
        w = -best
        for j, value in model.weights.items():
            w[j] += value
        most = max(most, float(np.linalg.norm(w)))
    return most


def promised(X: Any, y: Any) -> list[tuple[str, Any, list[float]]]:
    """Measured regrets of two learners without an intercept, and the bounds of their theorems."""
    n, d = X.shape
    found = []
    best = fista(X, y, l1=L1, tol=1e-5).weights
    c = 4.0
    fobos = streaml1.ElasticNetClassifier(l1=L1, lr=c, intercept_lr=0.0)
    D = largest_distance(fobos.clone(), X, y, best, every=max(1, n // 40))
    G = max(1.0, L1 * math.sqrt(d))
    told = streaml1.regret(fobos, (X, y))
    bound = [bounds.fobos_regret(point.examples, D, G, c) for point in told.points]
    found.append((f"FOBOS, D = {D:.0f}, G = {G:.1f}", told, bound))
    p = max(2.0, 2.0 * math.log(d))
    w1 = float(np.abs(best).sum())
    eta = bounds.smidas_rate(n, w1, p, d)
    smidas = streaml1.SMIDASClassifier(
        l1=L1, lr=eta, schedule="constant", n_features=d, intercept_lr=0.0
    )
    told = streaml1.regret(smidas, (X, y))
    # Of the best weights of each point the norm would be another: the last are all there is.
    bound = [bounds.smidas_regret(point.examples, w1, p, d, eta=eta) for point in told.points]
    found.append((f"SMIDAS, |w*| = {w1:.0f}", told, bound))
    return found


def main() -> None:
    """Run all learners, print a table, draw the picture."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    name, X, y = data(n)
    print(f"{name}: {X.shape[0]:,} examples, {X.shape[1]:,} features, {X.nnz:,} non-zeros")
    print(f"{'':<22} {'regret':>9} {'at most':>8} {'a step':>8} {'grows':>8}")
    print(f"{'':<22} {'in all':>9} {'more':>8} {'':>8} {'as T^':>8}")
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for k, (learner, model) in enumerate(learners(X.shape[1]).items()):
        told = streaml1.regret(model, (X, y), tol=1e-3)
        last = told.points[-1]
        print(
            f"{learner:<22} {last.regret:>9.1f} {last.error:>8.2f} "
            f"{last.regret / last.examples:>8.4f} {told.slope:>8.2f}",
            flush=True,
        )
        t = [point.examples for point in told.points]
        means = [point.regret / point.examples for point in told.points]
        left.plot(t, means, "-" if k < 5 else "--", marker=".", label=learner)
    left.set(xscale="log", yscale="log", xlabel="examples", ylabel="regret a step", title=name)
    left.legend(fontsize=7)
    for k, (learner, told, bound) in enumerate(promised(X, y)):
        t = [point.examples for point in told.points]
        r = [point.regret for point in told.points]
        right.plot(t, r, f"C{k}-o", markersize=3, label=f"{learner}: measured")
        right.plot(t, bound, f"C{k}:", label=f"{learner}: its theorem")
        print(f"{learner}: measured {r[-1]:,.0f}, its theorem {bound[-1]:,.0f}")
    right.set(xscale="log", yscale="log", xlabel="examples", ylabel="regret",
              title="without an intercept, beside what is promised")  # fmt: skip
    right.legend(fontsize=7)
    Path("out").mkdir(exist_ok=True)
    figure.savefig("out/regret.png", dpi=110)
    print("out/regret.png")


if __name__ == "__main__":
    main()
