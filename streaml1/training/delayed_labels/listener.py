"""Batches for the observers of a run over events."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from streaml1.sources.source import Block
from streaml1.training.delayed_labels.log_entries import Prediction
from streaml1.training.delayed_labels.tally import pad_rows
from streaml1.training.observers import Batch, Observers

__all__ = ["BatchCollector"]


class _Kind(Enum):
    """What happened to the rows of a batch."""

    PREDICTED = "predicted, the label is not known yet"
    LEARNED = "predicted and then learnt"
    LABELLED = "the label has arrived, and the example was learnt"


class _Row(NamedTuple):
    row: int
    p: Prediction
    y: Hashable
    w: float


class BatchCollector:
    """Collects rows that are handled one at a time into batches for the observers.

    A batch has consecutive rows of one kind. It also ends where the model has learnt something in
    between: `Batch.learnt` gives the number of learnt examples for its first row only.

    Parameters
    ----------
    observers
        The observers.
    learnt
        Returns the number of examples that the model has learnt.
    """

    def __init__(self, observers: Observers, learnt: Callable[[], int]) -> None:
        self._observers = observers
        self._learnt = learnt
        self._learnt_before = 0  # when the first row of the batch was predicted
        self._kind = _Kind.PREDICTED
        self._block: Block | None = None
        self._rows: list[_Row] = []

    def add_predicted(
        self, block: Block, row: int, p: Prediction, y: Hashable = None, w: float = 1.0
    ) -> None:
        """Add a row that was predicted and, if it has a label, learnt after that."""
        kind = _Kind.PREDICTED if y is None else _Kind.LEARNED
        self._add(kind, block, _Row(row, p, y, w))

    def add_label(self, block: Block, row: int, p: Prediction, y: Hashable, w: float) -> None:
        """Add a row with a delayed label, whose example was learnt; `p` was its prediction."""
        self._add(_Kind.LABELLED, block, _Row(row, p, y, w))

    def _add(self, kind: _Kind, block: Block, row: _Row) -> None:
        if not self._observers:
            return
        steps_per_row = int(kind is _Kind.LEARNED)
        learnt_before = self._learnt() - steps_per_row
        follows = self._rows and kind is self._kind and row.row == self._rows[-1].row + 1
        expected = self._learnt_before + steps_per_row * len(self._rows)
        if not (follows and learnt_before == expected):
            self.flush()
            self._learnt_before = learnt_before
        self._kind, self._block = kind, block
        self._rows.append(row)

    def flush(self) -> None:
        """Pass the collected rows to the observers."""
        if not self._rows:
            return
        rows: list[int]
        rows, ps, ys, ws = map(list, zip(*self._rows, strict=True))
        self._rows.clear()
        multiclass = isinstance(ps[0], bytes)
        p = pad_rows([np.frombuffer(row) for row in ps]) if multiclass else np.array(ps)
        y, w = None, None
        if self._kind is not _Kind.PREDICTED:
            y, w = _label_column(ys), np.array(ws)
        batch = Batch(self._block, rows[0], rows[-1] + 1, y, w, p, self._learnt_before)
        if self._kind is _Kind.LABELLED:
            self._observers.on_labels(batch)
        else:
            self._observers.on_batch(batch)


def _label_column(labels: list[Any]) -> Any:
    """Return labels as a run passes them: an array, or a list for multiclass models."""
    return np.array(labels) if isinstance(labels[0], bool | float) else labels
