"""Loss against sparsity: every learner on one stream, at increasing penalty strengths.

    python demos/sparse_paths.py [SOURCE]

SOURCE is any source of `streaml1 learn`, `stdlib` by default. Each point is one pass with one
strength and the best rate of a grid, which is extended until the best is inside. Writes
out/sparse_paths.png. Takes two minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from papers.grid import search
from streams import load_examples, to_csr

import streaml1

matplotlib.use("agg")
import matplotlib.pyplot as plt


class Learner(NamedTuple):
    """A constructor that takes a strength and a rate, and the values to try of both."""

    make: Callable[[float, float], Any]
    strength: str
    strengths: Any
    rates: tuple[float, ...]
    style: dict[str, Any]


class Point(NamedTuple):
    """Progressive loss and error of one pass, and the non-zero weights at its end."""

    strength: float
    rate: float
    loss: float
    error: float
    n_nonzero: int


def learners(d: int) -> dict[str, Learner]:
    """Return all binary learners, with strengths from a dense model to an empty one."""
    rates = (0.03, 0.1, 0.3, 1.0, 3.0)
    l1 = np.geomspace(1e-6, 1e-2, 9)
    radii = np.geomspace(1.0, 1000.0, 7)
    sparse: dict[str, Any] = {"lw": 1.6, "ms": 4.5}
    dense: dict[str, Any] = {"lw": 1.0, "ms": 4.5, "ls": ":"}
    return {
        "elastic net, l1 (FoBoS)": Learner(
            lambda s, r: streaml1.ElasticNetClassifier(l1=s, lr=r),
            *("l1", l1, rates, {**sparse, "marker": "o", "color": "C0"}),
        ),
        "truncated gradient, K = 10, threshold 0.1": Learner(
            lambda s, r: streaml1.TruncatedGradientClassifier(
                gravity=s, lr=r, period=10, threshold=0.1
            ),
            *("gravity", l1, rates, {**sparse, "marker": "v", "color": "C1"}),
        ),
        "FTRL-Proximal": Learner(
            lambda s, r: streaml1.FTRLClassifier(alpha=r, l1=s),
            *("l1", np.geomspace(0.03, 100.0, 9), rates[:4]),
            {**sparse, "marker": "s", "color": "C2"},
        ),
        "l1 ball": Learner(
            lambda s, r: streaml1.L1BallClassifier(radius=s, lr=r),
            *("radius", radii, rates, {**sparse, "marker": "D", "color": "C3"}),
        ),
        "SMIDAS": Learner(
            lambda s, r: streaml1.SMIDASClassifier(l1=s, lr=r, n_features=d),
            *("l1", l1, (0.3, 1.0, 3.0, 10.0, 30.0)),
            {**sparse, "marker": "^", "color": "C4"},
        ),
        "EG+-": Learner(
            lambda s, r: streaml1.EGClassifier(radius=s, lr=r, n_features=d),
            *("radius", radii, (0.3, 1.0, 3.0, 10.0, 30.0)),
            {**dense, "marker": "P", "color": "C5"},
        ),
        "FoBoS, l2 norm": Learner(
            lambda s, r: streaml1.FOBOSClassifier(strength=s, lr=r, norm="l2"),
            *("strength", np.geomspace(1e-3, 1.0, 7), rates),
            {**dense, "marker": "1", "color": "C6"},
        ),
        "FoBoS, l-infinity norm": Learner(
            lambda s, r: streaml1.FOBOSClassifier(strength=s, lr=r, norm="linf"),
            *("strength", np.geomspace(1e-3, 1.0, 7), rates),
            {**dense, "marker": "2", "color": "C8"},
        ),
        "Pegasos (hinge)": Learner(
            lambda s, r: streaml1.PegasosClassifier(l2=s),
            *("l2", np.geomspace(1e-4, 1.0, 5), (1.0,)),
            {**dense, "marker": "x", "color": "C7"},
        ),
    }


def one_pass(model: Any, X: Any, y: Any, strength: float, rate: float) -> Point:
    """Make one pass, in which each row is predicted before it is learnt."""
    p = model.progressive_many(X, y)
    if model.loss != "logistic":  # p is a margin
        return Point(strength, rate, np.nan, float(np.mean((p > 0.0) != y)), model.n_nonzero)
    p_label = np.where(y, p, 1.0 - p)
    loss = float(-np.log(np.maximum(p_label, 1e-15)).mean())
    return Point(strength, rate, loss, float(np.mean((p > 0.5) != y)), model.n_nonzero)


def best_points(learner: Learner, X: Any, y: Any) -> list[Point]:
    """Return the point of the best rate for each strength."""
    return [best_point(learner, X, y, strength) for strength in map(float, learner.strengths)]


def best_point(learner: Learner, X: Any, y: Any, strength: float) -> Point:
    """Return the point of the best rate."""

    def run(rate: float) -> Point:
        return one_pass(learner.make(strength, rate), X, y, strength, rate)

    if len(learner.rates) == 1:
        return run(*learner.rates)
    found = search(
        run, learner.rates, lambda p: p.loss, name=f"rate at {learner.strength}={strength:g}"
    )
    return found.result  # type: ignore[no-any-return]


def draw(
    points_by_learner: dict[str, list[Point]], all_learners: dict[str, Learner], y: Any, title: str
) -> Path:
    """Plot loss and error against non-zeros, one line per learner; return the path."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2), layout="constrained")
    for name, points in points_by_learner.items():
        ordered = sorted(points, key=lambda p: p.n_nonzero)
        counts = [max(p.n_nonzero, 1) for p in ordered]
        style = all_learners[name].style
        if not np.isnan(ordered[0].loss):
            left.plot(counts, [p.loss for p in ordered], **style)
        right.plot(counts, [100.0 * p.error for p in ordered], label=name, **style)
    positive_rate = float(np.mean(y))
    entropy = -positive_rate * np.log(positive_rate) - (1.0 - positive_rate) * np.log(
        1.0 - positive_rate
    )
    left.axhline(entropy, color="0.6", lw=1, ls="--")
    right.axhline(
        100.0 * min(positive_rate, 1.0 - positive_rate),
        color="0.6",
        lw=1,
        ls="--",
        label="baseline",
    )
    left.set(xscale="log", xlabel="non-zero weights at the end", ylabel="progressive log-loss")
    right.set(xscale="log", xlabel="non-zero weights at the end", ylabel="progressive error, %")
    left.set_title(title, loc="left")
    right.set_title("dotted: learners that produce no zeros", loc="left", color="0.4")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*right.get_legend_handles_labels(), loc="outside right", frameon=False)
    out = Path("out")
    out.mkdir(exist_ok=True)
    figure.savefig(out / "sparse_paths.png", dpi=140)
    return out / "sparse_paths.png"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", default="stdlib")
    source = parser.parse_args().source
    xs, ys = load_examples(source)
    X, y = to_csr(xs), np.array(ys)
    print(f"{source}: {X.shape[0]:,} examples, {X.shape[1]:,} features, {X.nnz:,} non-zeros\n")
    all_learners = learners(X.shape[1])
    points_by_learner: dict[str, list[Point]] = {}
    for name, learner in all_learners.items():
        points_by_learner[name] = best_points(learner, X, y)
        header = (
            f"{learner.strength:>12} {'rate':>6} {'log-loss':>9} {'error':>7} {'non-zeros':>10}"
        )
        print(f"{name}\n{header}")
        for p in points_by_learner[name]:
            loss = "" if np.isnan(p.loss) else f"{p.loss:.4f}"
            print(f"{p.strength:12.3g} {p.rate:6g} {loss:>9} {p.error:7.2%} {p.n_nonzero:10,}")
        print(flush=True)
    print(draw(points_by_learner, all_learners, y, f"{Path(source).name}: loss against sparsity"))


if __name__ == "__main__":
    main()
