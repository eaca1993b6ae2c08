"""Sums over the examples of a run, independent of how the examples are split into blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streaml1.core.jit import kernel
from streaml1.core.types import Floats

__all__ = ["LabelCounts", "Sums", "accumulate", "as_floats", "prefix_sums"]


class Sums:
    """Weighted sums over examples."""

    def __init__(self) -> None:
        self.weight = self.loss = self.constant = self.error = self.output = self.label = 0.0

    def mean(self, total: float) -> float | None:
        """Divide a sum by the total weight; None over examples without weight."""
        return float(total / self.weight) if self.weight > 0.0 else None

    @property
    def calibration(self) -> float | None:
        """Mean prediction / observed rate; None without a label True."""
        return float(self.output / self.label) if self.label > 0.0 else None


def accumulate(
    targets: Sequence[Sums],
    w: Floats,
    costs: NDArray[np.float64],
    error: ArrayLike,
    output: Floats,
    label: Floats,
) -> None:
    """Add consecutive examples to each of `targets`.

    Parameters
    ----------
    targets
        The sums to add to.
    w
        Sample weights, shape (n,).
    costs
        Losses of the model in row 0 and of the baseline in row 1, shape (2, n).
    error
        Wrong labels, or absolute errors, shape (n,).
    output
        Predictions, shape (n,).
    label
        Labels, shape (n,).
    """
    totals = np.array([[a.weight, a.loss, a.constant, a.error, a.output, a.label] for a in targets])
    _accumulate(totals, w, costs.ravel(), np.asarray(error, np.float64), output, label)
    for a, sums in zip(targets, totals.tolist(), strict=True):
        a.weight, a.loss, a.constant, a.error, a.output, a.label = sums


@kernel
def _accumulate(totals: Any, w: Any, costs: Any, error: Any, output: Any, label: Any) -> None:
    """Add up the examples one by one, in order: the result does not depend on the blocks.

    numpy's pairwise summation would round differently for each block size. Elements are accessed
    one by one, since numba takes seconds to compile the assignment of a tuple to a row.
    """
    n = np.uint64(len(w))
    for k in range(np.uint64(len(totals))):
        weight, loss, constant = totals[k, 0], totals[k, 1], totals[k, 2]
        wrong, out, true = totals[k, 3], totals[k, 4], totals[k, 5]
        for i in range(n):
            weight += w[i]
            loss += w[i] * costs[i]
            constant += w[i] * costs[n + i]
            wrong += w[i] * error[i]
            out += w[i] * output[i]
            true += w[i] * label[i]
        totals[k, 0], totals[k, 1], totals[k, 2] = weight, loss, constant
        totals[k, 3], totals[k, 4], totals[k, 5] = wrong, out, true


class PrefixSums(NamedTuple):
    """Sums over the examples before each example, and over all of them."""

    weights: Floats
    """Total weight before each example."""
    totals: Floats
    """Weighted sum of the labels before each example."""
    total: float
    """Weighted sum of all labels."""


def prefix_sums(weight: float, total: float, w: Floats, y: Floats) -> PrefixSums:
    """Sum weights and labels before each example, beginning at `weight` and `total`."""
    weights, totals = np.empty(len(w)), np.empty(len(w))
    # Interpreted, the kernel returns a float of numpy, which a checkpoint rejects.
    total = float(_prefix_sums(weight, total, w, y, weights, totals))
    return PrefixSums(weights, totals, total)


@kernel
def _prefix_sums(weight: float, total: float, w: Any, y: Any, weights: Any, totals: Any) -> float:
    for i in range(np.uint64(len(w))):
        weights[i], totals[i] = weight, total
        weight += w[i]
        total += w[i] * y[i]
    return total


def as_floats(values: ArrayLike) -> Floats:
    """Return a writable, contiguous array of float64, the layout that kernels are compiled for.

    The array itself is returned if it has this layout.
    """
    return np.require(values, np.float64, ["C", "W"])


class LabelCounts:
    """Weights of the labels so far: what the baseline of many labels predicts from.

    Attributes
    ----------
    known : int
        Number of labels known.
    weights : ndarray of float64
        Total weight of each label.
    """

    def __init__(self, known: int) -> None:
        self.known = known
        self.weights = np.zeros(known)

    def add(self, y: NDArray[np.intp], w: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """Add examples by their labels, as column numbers, and their sample weights.

        Returns
        -------
        tuple of ndarray
            Losses of the baseline; and the number of labels known before each example.
        """
        k = max(self.known, int(y.max(initial=-1)) + 1)
        before = np.zeros((len(y) + 1, k))
        before[0, : len(self.weights)] = self.weights
        before[np.arange(1, len(y) + 1), y] = w
        before = np.cumsum(before, axis=0)
        known = np.maximum.accumulate(np.concatenate(([self.known], y + 1)))
        of_label = before[np.arange(len(y)), y]
        p = (of_label + 0.5) / (before[:-1].sum(axis=1) + known[1:] / 2.0)
        self.weights, self.known = before[-1], k
        return -np.log(p), known[:-1]
