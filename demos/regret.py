"""Regret of the online learners against the best fixed weights in hindsight, and proven bounds.

    STREAML1_DATA=... python demos/regret.py [EXAMPLES]

Runs on RCV1, topic CCAT, shuffled, if available, and otherwise on synthetic rows without drift. The
plot shows the falling regret per step of each learner, and the measured regret of two learners with
the bounds of FOBOS (Theorem 3) and SMIDAS (Theorem 2).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import streaml1
from streaml1.datasets import RCV1, Drifting
from streaml1.solvers import fista
from streaml1.training.regret import bounds

L1 = 1e-3


def load(n: int) -> tuple[str, Any, Any]:
    """Return a name, rows of unit length and labels, in random order."""
    rcv1 = RCV1()
    if rcv1.is_downloaded:
        X, y = rcv1.matrix()
        order = np.random.default_rng(0).permutation(len(y))[:n]
        return "RCV1, CCAT", X[order], y[order]
    X, y = Drifting(n=n, d=200, change="none", noise=1.0, seed=1).matrix()
    lengths = np.sqrt(X.multiply(X).sum(axis=1).A1)
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    return "synthetic rows", X, y


def make_learners(d: int) -> dict[str, Any]:
    """Return a learner of each kind, at rates that suit rows of unit length."""
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


def max_distance(model: Any, X: Any, y: Any, best: Any, every: int) -> float:
    """Return the largest distance of the weights from `best`, measured every `every` examples."""
    distance = float(np.linalg.norm(best))
    for lo in range(0, len(y), every):
        model.learn_many(X[lo : lo + every], y[lo : lo + every])
        w = -best
        for j, value in model.weights.items():
            w[j] += value
        distance = max(distance, float(np.linalg.norm(w)))
    return distance


def with_bounds(X: Any, y: Any) -> list[tuple[str, Any, list[float]]]:
    """Return the measured regret and the proven bound of two learners without an intercept."""
    n, d = X.shape
    results = []
    best = fista(X, y, l1=L1, tol=1e-5).weights
    c = 4.0
    fobos = streaml1.ElasticNetClassifier(l1=L1, lr=c, intercept_lr=0.0)
    D = max_distance(fobos.clone(), X, y, best, every=max(1, n // 40))
    G = max(1.0, L1 * math.sqrt(d))
    report = streaml1.regret(fobos, (X, y))
    bound = [bounds.fobos_regret(point.examples, D, G, c) for point in report.points]
    results.append((f"FOBOS, D = {D:.0f}, G = {G:.1f}", report, bound))
    p = max(2.0, 2.0 * math.log(d))
    w1 = float(np.abs(best).sum())
    eta = bounds.smidas_rate(n, w1, p, d)
    smidas = streaml1.SMIDASClassifier(
        l1=L1, lr=eta, schedule="constant", n_features=d, intercept_lr=0.0
    )
    report = streaml1.regret(smidas, (X, y))
    # The theorem has the norm of the best weights so far; only the final ones are known here.
    bound = [bounds.smidas_regret(point.examples, w1, p, d, eta=eta) for point in report.points]
    results.append((f"SMIDAS, |w*| = {w1:.0f}", report, bound))
    return results


def main() -> None:
    """Run all learners, print a table and write a plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("n", nargs="?", type=int, default=3000, metavar="EXAMPLES")
    n = parser.parse_args().n
    if n < 1:
        parser.error(f"EXAMPLES must be >= 1, got {n}")
    name, X, y = load(n)
    print(f"{name}: {X.shape[0]:,} examples, {X.shape[1]:,} features, {X.nnz:,} non-zeros")
    print(f"{'':<22} {'total':>9} {'max.':>8} {'regret':>8} {'growth':>8}")
    print(f"{'':<22} {'regret':>9} {'error':>8} {'/ step':>8} {'T^':>8}")
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for k, (learner, model) in enumerate(make_learners(X.shape[1]).items()):
        report = streaml1.regret(model, (X, y), tol=1e-3)
        last = report.points[-1]
        print(
            f"{learner:<22} {last.regret:>9.1f} {last.error:>8.2f} "
            f"{last.regret / last.examples:>8.4f} {report.slope:>8.2f}",
            flush=True,
        )
        t = [point.examples for point in report.points]
        means = [point.regret / point.examples for point in report.points]
        left.plot(t, means, "-" if k < 5 else "--", marker=".", label=learner)
    left.set(xscale="log", yscale="log", xlabel="examples", ylabel="regret per step", title=name)
    left.legend(fontsize=7)
    for k, (learner, report, bound) in enumerate(with_bounds(X, y)):
        t = [point.examples for point in report.points]
        r = [point.regret for point in report.points]
        right.plot(t, r, f"C{k}-o", markersize=3, label=f"{learner}: measured")
        right.plot(t, bound, f"C{k}:", label=f"{learner}: bound")
        print(f"{learner}: measured {r[-1]:,.0f}, bound {bound[-1]:,.0f}")
    right.set(xscale="log", yscale="log", xlabel="examples", ylabel="regret",
              title="without an intercept, with the proven bounds")  # fmt: skip
    right.legend(fontsize=7)
    Path("out").mkdir(exist_ok=True)
    figure.savefig("out/regret.png", dpi=110)
    print("out/regret.png")


if __name__ == "__main__":
    main()
