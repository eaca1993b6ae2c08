"""Calibration of a saved model on the last examples of the run that learnt it."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from streaml1.training.example_sources import slice_rows
from streaml1.training.model_adapter import batch_predictor, learner_of, loss_of
from streaml1.training.observers import Batch, Observer
from streaml1.training.report.losses import sampled_probabilities

__all__ = ["RecentExamples", "SavedCalibration"]

MAX_DIFFERENCE = 0.1
"""Relative difference of two calibrations from which they are said to differ."""


class SavedCalibration(NamedTuple):
    """Calibration (sum of predictions / number of positives) of two models on the same examples.

    Parameters
    ----------
    n
        Number of examples.
    saved
        Calibration of the saved model, which has learnt these examples.
    run
        Calibration of the predictions made before each of them was learnt.
    """

    n: int
    saved: float
    run: float

    @property
    def differs(self) -> bool:
        """Whether the two differ by more than 10 %."""
        return abs(self.saved - self.run) > MAX_DIFFERENCE * self.run

    def sentence(self) -> str:
        """Return one line that compares them."""
        return (
            f"calibration (last {self.n:,}): {self.saved:.3f} of the saved model, "
            f"{self.run:.3f} while learning"
        )


class RecentExamples(Observer):
    """Keeps the last examples of a run, with their predictions.

    Parameters
    ----------
    n
        Number of examples. Whole batches are kept, so that it may hold some more.

    Examples
    --------
    >>> from streaml1 import ElasticNetClassifier, progressive
    >>> examples = [({"a": float(k % 2), "b": 1.0}, k % 4 == 0) for k in range(400)]
    >>> recent, model = RecentExamples(100), ElasticNetClassifier()
    >>> _ = progressive(model, examples, observers=[recent])
    >>> recent.calibration_of(model).n
    100
    """

    def __init__(self, n: int = 2000) -> None:
        self._n = n
        self._batches: deque[Batch] = deque()
        self._n_kept = 0

    def on_batch(self, batch: Batch) -> None:
        """Keep a batch, and drop the oldest ones that are no longer needed."""
        if batch.y is None:
            return
        self._batches.append(batch)
        self._n_kept += batch.hi - batch.lo
        while self._n_kept - (oldest := self._batches[0]).hi + oldest.lo >= self._n:
            self._batches.popleft()
            self._n_kept -= oldest.hi - oldest.lo

    def calibration_of(self, model: Any) -> SavedCalibration | None:
        """Return the calibration of a classifier on the last examples.

        None without a positive example, and for losses without probabilities.
        """
        if not self._batches or loss_of(model) != "logistic":
            return None
        predict = batch_predictor(model, "logistic").act
        n, positives, saved, run, wanted = 0, 0.0, 0.0, 0.0, self._n
        rate = getattr(learner_of(model), "negative_rate", 1.0)
        for block, lo, hi, y, w, p, *_ in reversed(self._batches):
            first = max(lo, hi - wanted)
            weights = np.ones(hi - first) if w is None else np.asarray(w[first - lo :], np.float64)
            now = predict(slice_rows(block.x, first, hi), None, None)
            saved += float(weights @ sampled_probabilities(now, rate))
            run += float(weights @ sampled_probabilities(p[first - lo :], rate))
            positives += float(weights @ np.asarray(y[first - lo :], np.float64))
            n, wanted = n + hi - first, wanted - (hi - first)
        return SavedCalibration(n, saved / positives, run / positives) if positives else None
