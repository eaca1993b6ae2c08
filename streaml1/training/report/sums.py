"""Sums over the examples of a run, the same whatever the blocks they come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streaml1.core.jit import kernel

__all__ = ["Counts", "Sums", "add_up", "before_each", "plain"]


class Sums:
    """Weighted sums over examples."""

    def __init__(self) -> None:
        self.weight = self.loss = self.constant = self.error = self.output = 0.0

    def mean(self, total: float) -> float | None:
        """The mean that one of the sums is of; None over examples without weight."""
        return float(total / self.weight) if self.weight > 0.0 else None


def add_up(all_of: Sequence[Sums], w: Any, costs: Any, error: Any, output: Any) -> None:
    """Add consecutive examples to some sums: their weights, and what is weighted by them.

    `costs` has their losses, and behind all of them those of the constant predictor.
    """
    totals = np.array([[a.weight, a.loss, a.constant, a.error, a.output] for a in all_of])
    _add(totals, w, costs.ravel(), np.asarray(error, np.float64), output)
    for a, told in zip(all_of, totals.tolist(), strict=True):
        a.weight, a.loss, a.constant, a.error, a.output = told


@kernel
def _add(totals: Any, w: Any, costs: Any, error: Any, output: Any) -> None:
    """Add up one example after the other, so that blocks do not show."""
    n = np.uint64(len(w))
    for k in range(len(totals)):
        weight, loss, constant, wrong, out = totals[k]
        for i in range(n):
            weight += w[i]
            loss += w[i] * costs[i]
            constant += w[i] * costs[n + i]
            wrong += w[i] * error[i]
            out += w[i] * output[i]
        totals[k] = weight, loss, constant, wrong, out


def before_each(weight: float, total: float, w: Any, y: Any) -> tuple[Any, Any, float]:
    """Of the examples before each: their weight, and that of their labels; and that of all labels.

    `weight` and `total` are of those before the first.
    """
    weights, totals = np.empty(len(w)), np.empty(len(w))
    return weights, totals, _before_each(weight, total, w, y, weights, totals)


@kernel
def _before_each(weight: float, total: float, w: Any, y: Any, weights: Any, totals: Any) -> float:
    for i in range(np.uint64(len(w))):
        weights[i], totals[i] = weight, total
        weight += w[i]
        total += w[i] * y[i]
    return total


def plain(numbers: Any) -> Any:
    """Numbers as an array that kernels are compiled for; their own where it is such."""
    return np.require(numbers, np.float64, ["C", "W"])


class Counts:
    """The weights of the labels so far: what the constant predictor of many labels knows."""

    def __init__(self, known: int) -> None:
        self.known = known  # labels
        self.of = np.zeros(known)

    def add(self, y: Any, w: Any) -> tuple[Any, Any]:
        """Losses of the constant predictor, and how many labels were known before each example."""
        most = max(self.known, int(y.max(initial=-1)) + 1)
        weights = np.zeros((len(y) + 1, most))
        weights[0, : len(self.of)] = self.of
        weights[np.arange(1, len(y) + 1), y] = w
        weights = np.cumsum(weights, axis=0)
        known = np.maximum.accumulate(np.concatenate(([self.known], y + 1)))
        mine = weights[np.arange(len(y)), y]
        p = (mine + 0.5) / (weights[:-1].sum(axis=1) + known[1:] / 2.0)
        self.of, self.known = weights[-1], most
        return -np.log(p), known[:-1]
