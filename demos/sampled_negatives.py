"""Learn from a stream that kept a share of its negative examples; predict for the full stream.

    python demos/sampled_negatives.py [EXAMPLES]

Two days of simulated clicks. A model learns the first day as it was; another one a sample with all
clicks and 1 % of the rest, with `negative_rate`; a third one the sample with sample weights of 100
for the rest. The table has their log-losses on the second day, and the excess over the first model.
"""

from __future__ import annotations

import argparse

import numpy as np
from right_by_default import simulated_clicks
from streams import log_loss

import streaml1

KEPT = 0.01


def losses_of_days(n: int, kept: float) -> dict[str, float]:
    """Return the log-losses on the second day of n examples."""
    (X, y), (X_next, y_next) = simulated_clicks(n, 1), simulated_clicks(n, 2)
    rows = np.flatnonzero(y | (np.random.default_rng(3).random(n) < kept))
    weights = np.where(y[rows], 1.0, 1.0 / kept)
    models = {
        "all examples": (streaml1.ElasticNetClassifier(), (X, y)),
        "negative_rate": (streaml1.ElasticNetClassifier(negative_rate=kept), (X[rows], y[rows])),
        "sample weights": (streaml1.ElasticNetClassifier(), (X[rows], y[rows], weights)),
    }
    losses = {}
    for name, (model, data) in models.items():
        model.learn_many(*data)
        losses[name] = log_loss(model.freeze().predict_proba_many(X_next)[:, 1], y_next)
    return losses


def excess_losses(n: int, kept: float) -> dict[str, float]:
    """Return by how much the losses of the sampled models exceed that of the first."""
    losses = losses_of_days(n, kept)
    return {name: loss - losses["all examples"] for name, loss in losses.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("n", nargs="?", type=int, default=400_000, metavar="EXAMPLES")
    n = parser.parse_args().n
    if n < 1:
        parser.error(f"EXAMPLES must be >= 1, got {n}")
    losses = losses_of_days(n, KEPT)
    print(f"{n:,} examples a day, {KEPT:.0%} of the negatives kept\n")
    print(f"{'learnt with':16} {'log-loss':>9} {'excess':>9}")
    for name, loss in losses.items():
        print(f"{name:16} {loss:9.4f} {loss - losses['all examples']:9.4f}")
    ratio = (losses["negative_rate"] - losses["all examples"]) / (
        losses["sample weights"] - losses["all examples"]
    )
    print(f"\nexcess with negative_rate over excess with sample weights: {ratio:.2f}")


if __name__ == "__main__":
    main()
