"""What was learnt, for the report: many examples at once, though each is learnt alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.optim.tasks import REGRESSION
from streaml1.training.model_adapter import places_of
from streaml1.training.report import Report

__all__ = ["Tally"]


class Tally:
    """Examples that are yet to be counted by a report, in order."""

    def __init__(self, report: Report, learner: Any) -> None:
        self._report = report
        self._learner = learner
        self._kind = np.float64 if report.loss in REGRESSION else bool
        self._p: list[Any] = []
        self._y: list[Any] = []
        self._w: list[float] = []

    @property
    def examples(self) -> int:
        """How many examples the report has, with those that it is yet to count."""
        return self._report.examples + len(self._p)

    def add(self, p: Any, y: Any, w: float) -> None:
        """An example was learnt, whose prediction was p."""
        if self._report.loss == "softmax":
            y = int(places_of(self._learner, [y])[0])
            p = _row(p, y, len(self._learner.classes_met))
        self._p.append(p)
        self._y.append(y)
        self._w.append(w)

    def correct(self, number: int, p: float, before: float, w: float) -> None:
        """An example that was counted as False is True."""
        self.close()
        self._report.correct(number, p, before, w)

    def close(self) -> None:
        """Have the report count all."""
        if not self._p:
            return
        w = np.array(self._w)
        if self._report.loss == "softmax":
            self._report.add(padded(self._p), np.array(self._y, np.intp), w)
        else:
            self._report.add(np.array(self._p), np.array(self._y, self._kind), w)
        for column in (self._p, self._y, self._w):
            column.clear()


def padded(rows: list[Any]) -> Any:
    """Rows of probabilities as a matrix; 0 for labels that were not known yet."""
    p = np.zeros((len(rows), max(map(len, rows))))
    for place, row in enumerate(rows):
        p[place, : len(row)] = row
    return p


def _row(kept: bytes, place: int, k: int) -> Any:
    """Probabilities of k labels; one that was not known has its share of a model without any."""
    row = np.zeros(k)
    known = np.frombuffer(kept)
    row[: len(known)] = known
    if place >= len(known):
        row *= 1.0 - 1.0 / k
        row[place] = 1.0 / k
    return row
