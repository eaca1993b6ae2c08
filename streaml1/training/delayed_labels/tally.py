"""Learnt examples that the report has not counted yet."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from streaml1.core.types import Floats
from streaml1.optim.tasks import REGRESSION
from streaml1.training.delayed_labels.log_entries import Prediction
from streaml1.training.model_adapter import class_indices
from streaml1.training.report import Report

__all__ = ["Tally", "pad_rows"]


class Tally:
    """Buffer of examples for a report, which counts many at once faster than one at a time."""

    def __init__(self, report: Report, learner: Any) -> None:
        self._report = report
        self._learner = learner
        self._dtype = np.float64 if report.loss in REGRESSION else bool
        self._p: list[Any] = []
        self._y: list[Any] = []
        self._w: list[float] = []

    @property
    def examples(self) -> int:
        """Number of examples in the report and in the buffer."""
        return self._report.examples + len(self._p)

    def add(self, p: Prediction, y: Hashable, w: float) -> None:
        """Add an example that was learnt; `p` is its prediction."""
        counted: Any = p
        if self._report.loss == "softmax":
            assert isinstance(p, bytes)
            y = int(class_indices(self._learner, [y])[0])
            counted = _complete_probabilities(p, y, len(self._learner.classes_met))
        self._p.append(counted)
        self._y.append(y)
        self._w.append(w)

    def correct(self, number: int, p: float, old_weight: float, w: float) -> None:
        """Count example `number` of the report as True; it was counted as False."""
        self.flush()
        self._report.correct(number, p, old_weight, w)

    def flush(self) -> None:
        """Add the buffered examples to the report."""
        if not self._p:
            return
        w = np.array(self._w)
        if self._report.loss == "softmax":
            self._report.add(pad_rows(self._p), np.array(self._y, np.intp), w)
        else:
            self._report.add(np.array(self._p), np.array(self._y, self._dtype), w)
        for column in (self._p, self._y, self._w):
            column.clear()


def pad_rows(rows: Sequence[Floats]) -> Floats:
    """Return rows of probabilities as a matrix, with 0 for classes that were not known yet."""
    p = np.zeros((len(rows), max(map(len, rows))))
    for k, row in enumerate(rows):
        p[k, : len(row)] = row
    return p


def _complete_probabilities(p: bytes, label: int, n_classes: int) -> Floats:
    """Return the probabilities of all classes.

    A label that was not known when `p` was predicted gets the share 1 / `n_classes`, as in a model
    without weights, and the known classes share the rest.
    """
    row = np.zeros(n_classes)
    known = np.frombuffer(p)
    row[: len(known)] = known
    if label >= len(known):
        row *= 1.0 - 1.0 / n_classes
        row[label] = 1.0 / n_classes
    return row
