"""Structured outputs in the talk on dual coordinate ascent: labels of a chain, by Viterbi.

    python demos/papers/structured_chain.py [--quick] [--out DIR]

Shalev-Shwartz & Zhang (2013), the slide "Structured Output Learning", which shows no experiment.
Here each example is a sequence of positions with noisy binary features and a label each; labels
follow a Markov chain. The features of an output are sums over positions, of the position's features
at its label, and of pairs of adjacent labels; the cost is the number of wrong labels (Hamming).
`structured_sdca` learns with an oracle that runs the algorithm of Viterbi on the costs and scores.
The comparison is `sdca` with the multiclass hinge, one position at a time. Takes a quarter of a
minute; needs no data.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import Claim, argument_parser, print_claims, print_table, save_figure
from grid import search

from streaml1.solvers import NotConverged, Solution, sdca, structured_sdca

LABELS, FEATURES = 4, 12
LIPSCHITZ = 2.0  # of the structured hinge in the infinity norm, as on the slide
N_WEIGHTS = LABELS * (FEATURES + LABELS)
STRENGTHS = (1.0, 0.1, 0.01)
TOLERANCE = 3e-4


class Chains(NamedTuple):
    """Sequences of feature vectors, shape (length, FEATURES), and of labels."""

    X: list[Any]
    y: list[Any]


def draw_chains(n: int, seed: int, noise: float = 0.3) -> Chains:
    """Draw chains whose labels tend to go round, with features that flip with a probability."""
    rng = np.random.default_rng(seed)
    codes = np.random.default_rng(0).random((LABELS, FEATURES)) < 0.5
    X, y = [], []
    for _ in range(n):
        length = int(rng.integers(4, 11))
        labels = np.empty(length, np.int64)
        labels[0] = rng.integers(LABELS)
        for t in range(1, length):
            goes_round = rng.random() < 0.8
            labels[t] = (labels[t - 1] + 1) % LABELS if goes_round else rng.integers(LABELS)
        X.append((codes[labels] ^ (rng.random((length, FEATURES)) < noise)).astype(float))
        y.append(labels)
    return Chains(X, y)


def features(x: Any, labels: Any) -> Any:
    """Return the features of an output: sums by label, then counts of adjacent labels."""
    sums, pairs = np.zeros((LABELS, FEATURES)), np.zeros((LABELS, LABELS))
    np.add.at(sums, labels, x)
    np.add.at(pairs, (labels[:-1], labels[1:]), 1.0)
    return np.concatenate([sums.ravel(), pairs.ravel()])


def viterbi(scores: Any, pairs: Any) -> Any:
    """Return the labels with the largest sum of scores (length, labels) and of adjacent pairs."""
    best, back = scores[0], []
    for row in scores[1:]:
        through = best[:, None] + pairs
        back.append(through.argmax(axis=0))
        best = through.max(axis=0) + row
    labels = [int(best.argmax())]
    for came_from in reversed(back):
        labels.append(int(came_from[labels[-1]]))
    return np.array(labels[::-1])


def scores_of(w: Any, x: Any) -> tuple[Any, Any]:
    emission, pairs = np.split(w, [LABELS * FEATURES])
    return x @ emission.reshape(LABELS, FEATURES).T, pairs.reshape(LABELS, LABELS)


def oracle(w: Any, x: Any, y: Any) -> tuple[float, Any]:
    """Return the Hamming cost and the difference of features of the most violated output."""
    scores, pairs = scores_of(w, x)
    scores = scores + 1.0
    scores[np.arange(len(y)), y] -= 1.0
    found = viterbi(scores, pairs)
    return float(np.sum(found != y)), features(x, y) - features(x, found)


def error_of_chains(w: Any, chains: Chains) -> float:
    """Return the share of wrong labels."""
    wrong = [viterbi(*scores_of(w, x)) != y for x, y in zip(*chains, strict=True)]
    return float(np.mean(np.concatenate(wrong)))


def error_of_positions(train: Chains, test: Chains) -> float:
    """Return the share of wrong labels of a multiclass hinge that knows no neighbours."""
    X, y = np.concatenate(train.X), np.concatenate(train.y)
    test_X, test_y = np.concatenate(test.X), np.concatenate(test.y)

    def error(l2: float) -> float:
        W = sdca(X, y, "multiclass_hinge", l2=l2, tol=1e-3).weights
        return float(np.mean((test_X @ W.T).argmax(axis=1) != test_y))

    return float(search(error, sorted(STRENGTHS), lambda share: share).result)


def solve(train: Chains, l2: float, max_epochs: int, keep_outputs: bool = True) -> Solution:
    return structured_sdca(
        *train, oracle=oracle, n_weights=N_WEIGHTS, l2=l2, tol=TOLERANCE, max_epochs=max_epochs,
        keep_outputs=keep_outputs, callback=lambda record, w: False,
    )  # fmt: skip


def bound_of_steps(train: Chains, l2: float, gap: float) -> float:
    """Return n + (R L)^2 / (lambda epsilon), R the largest norm of the features of an output.

    The norm of the features of an output is largest if all positions have one label.
    """
    norms = [math.hypot(np.linalg.norm(x.sum(axis=0)), len(x) - 1.0) for x in train.X]
    return len(train.X) + (max(norms) * LIPSCHITZ) ** 2 / (l2 * gap)


def claims(train: Chains, runs: dict[float, Solution]) -> list[Claim]:
    """Check the statements of the slide against the runs of its algorithm at each lambda."""
    checked = []
    n = len(train.X)
    rises, counts, slopes = [], [], []
    for l2, solution in runs.items():
        duals, gaps = (np.array([getattr(r, k) for r in solution.trace]) for k in ("dual", "gap"))
        rises.append(float(np.diff(duals).min()))
        counts.append((l2, n * solution.trace[-1].epoch, bound_of_steps(train, l2, solution.gap)))
        half = max(1, len(gaps) // 2)
        epochs = np.arange(half, len(gaps))
        slopes.append((l2, float(np.polyfit(np.log(epochs), np.log(gaps[half:]), 1)[0])))
    checked.append(
        Claim(
            "Structured output",
            "coordinate steps ascend: each pass ends at a dual above all before",
            f"smallest rise {min(rises):.1e} of {sum(len(s.trace) for s in runs.values())} records",
            min(rises) > 0.0,
        )
    )
    checked.append(
        Claim(
            "Main results, Lipschitz",
            "n + (R L)^2 / (lambda epsilon) steps (without its constant)",
            "; ".join(f"lambda {l2:g}: {a:,} of {b:,.0f}" for l2, a, b in counts),
            all(a <= b for _, a, b in counts),
        )
    )
    checked.append(
        Claim(
            "the same",
            "so that the gap falls like 1 / t, or faster (power of t in the second half)",
            "; ".join(f"lambda {l2:g}: {slope:.2f}" for l2, slope in slopes),
            all(slope <= -1.0 for _, slope in slopes),
        )
    )
    return checked


def draw(runs: dict[float, Solution], by_means: dict[float, Solution]) -> Any:
    figure, axis = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    for k, l2 in enumerate(runs):
        for solution, style, kind in ((runs[l2], "-", ""), (by_means[l2], ":", ", means alone")):
            gaps = [record.gap for record in solution.trace]
            label = f"lambda = {l2:g}{kind}"
            axis.loglog(np.arange(1, len(gaps)), gaps[1:], style, color=f"C{k}", label=label)
    axis.set(xlabel="passes over the chains", ylabel="duality gap")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    args = argument_parser(__doc__).parse_args()
    warnings.simplefilter("ignore", NotConverged)
    n, max_epochs = (40, 12) if args.quick else (300, 200)
    train, test = draw_chains(n, 1), draw_chains(n, 2)
    runs = {l2: solve(train, l2, max_epochs) for l2 in STRENGTHS}
    by_means = {l2: solve(train, l2, max_epochs, False) for l2 in STRENGTHS}
    print_table(
        f"{n} chains of 4 to 10 positions, {LABELS} labels: wrong labels of {n} other chains "
        f"(each position alone: {error_of_positions(train, test):.1%})",
        ("lambda", "passes", "P", "gap", "keep_outputs=False: passes", "gap", "wrong labels"),
        [
            (f"{l2:g}", s.trace[-1].epoch, f"{s.objective:.4f}", f"{s.gap:.1e}",
             by_means[l2].trace[-1].epoch, f"{by_means[l2].gap:.1e}",
             f"{error_of_chains(s.weights, test):.1%}")
            for l2, s in runs.items()
        ],
    )  # fmt: skip
    print_claims("Structured output learning", claims(train, by_means))
    print(save_figure(draw(runs, by_means), args.out, "structured-chain.png"))


if __name__ == "__main__":
    main()
