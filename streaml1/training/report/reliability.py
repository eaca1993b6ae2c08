"""Reliability: observed rates of True by predicted probability.

Bins of about equal numbers of examples show skewed predictions as well as balanced ones (Nguyen &
O'Connor, 2015, "Posterior calibration and exploratory analysis for natural language processing
models", call this adaptive binning).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streaml1.core.text_table import TableColumn, render_table
from streaml1.core.types import Bools, Floats

__all__ = ["N_BINS", "ReliabilityBin", "reliability_bins", "reliability_table"]

N_BINS = 10


class ReliabilityBin(NamedTuple):
    """Examples with similar predictions.

    Parameters
    ----------
    low, high
        Smallest and largest prediction.
    examples
        Number of examples.
    mean_prediction
        Mean predicted probability of True.
    rate
        Observed rate of True.
    standard_error
        Binomial standard error sqrt(r (1 - r) / n) of the rate, with r = (n1 + 1/2) / (n + 1) for
        n1 labels True of n, so that it is not 0 if all labels of the bin are equal.
    """

    low: float
    high: float
    examples: int
    mean_prediction: float
    rate: float
    standard_error: float


def reliability_bins(p: Floats, y: Bools, n_bins: int = N_BINS) -> list[ReliabilityBin]:
    """Sort examples by their predictions into bins of about equal size.

    Parameters
    ----------
    p
        Predicted probabilities of True.
    y
        Labels.
    n_bins
        Maximum number of bins. Equal predictions share a bin.
    """
    finite = np.isfinite(p)
    if not finite.all():  # a model that has diverged
        p, y = p[finite], y[finite]
    if not len(p):
        return []
    order = np.argsort(p, kind="stable")
    p, y = p[order], y[order]
    # Move each quantile to the first of the predictions that equal it: ties are not split.
    quantiles = p[np.arange(n_bins) * len(p) // n_bins]
    starts = np.unique(np.searchsorted(p, quantiles, "left"))
    counts = np.diff(np.append(starts, len(p)))
    totals = np.add.reduceat(p, starts)
    n_true = np.add.reduceat(y.astype(np.int64), starts)
    return [
        _bin(p[lo : lo + n], float(total), int(k))
        for lo, n, total, k in zip(starts, counts, totals, n_true, strict=True)
    ]


def _bin(p: Floats, total: float, n_true: int) -> ReliabilityBin:
    n = len(p)
    smoothed = (n_true + 0.5) / (n + 1.0)
    error = math.sqrt(smoothed * (1.0 - smoothed) / n)
    return ReliabilityBin(float(p[0]), float(p[-1]), n, total / n, n_true / n, error)


def reliability_table(bins: Sequence[ReliabilityBin]) -> str:
    """Lay out bins as a text table."""
    heads = ("prediction\nfrom", "\nto", "\nexamples", "mean\nprediction", "observed\nrate")
    columns = [TableColumn(head) for head in (*heads, "standard\nerror", "calibration")]
    rows = [
        (
            f"{b.low:.4g}", f"{b.high:.4g}", f"{b.examples:,}", f"{b.mean_prediction:.4g}",
            f"{b.rate:.4g}", f"{b.standard_error:.2g}",
            f"{b.mean_prediction / b.rate:.3f}" if b.rate else "-",
        )
        for b in bins
    ]  # fmt: skip
    return render_table(columns, rows, gap=2)
