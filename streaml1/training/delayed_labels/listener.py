"""What outs hear of a run over events: consecutive rows of one kind together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from streaml1.training.delayed_labels.tally import padded
from streaml1.training.observers import Out, Part

__all__ = ["Hearing"]


class Hearing:
    """Gathers what some outs are to hear.

    Parameters
    ----------
    outs
        Who hears.
    learnt
        Tells how many examples the model has learnt by now.
    """

    def __init__(self, outs: Sequence[Out], learnt: Callable[[], int]) -> None:
        self._outs = outs
        self._learnt = learnt
        self._before = 0  # learnt when the first of the rows was predicted
        self._kind = ""
        self._block: Any = None
        self._rows: list[tuple[int, Any, Any, float]] = []

    def predicted(self, block: Any, row: int, p: Any, y: Any = None, w: float = 1.0) -> None:
        """An example was predicted; y: and learnt after."""
        self._hear("asked" if y is None else "learnt", block, row, p, y, w)

    def answered(self, block: Any, row: int, p: Any, y: Any, w: float) -> None:
        """A label has come, and its example, whose prediction was p, was learnt."""
        self._hear("answered", block, row, p, y, w)

    def _hear(self, kind: str, block: Any, row: int, p: Any, y: Any, w: float) -> None:
        if not self._outs:
            return
        steps = int(kind == "learnt")  # which it has taken since it predicted the row
        before = self._learnt() - steps
        follows = self._rows and kind == self._kind and row == self._rows[-1][0] + 1
        if not (follows and before == self._before + steps * len(self._rows)):
            self.close()
            self._before = before
        self._kind, self._block = kind, block
        self._rows.append((row, p, y, w))

    def close(self) -> None:
        """Have the outs hear all."""
        if not self._rows:
            return
        rows, ps, ys, ws = map(list, zip(*self._rows, strict=True))
        self._rows.clear()
        many = isinstance(ps[0], bytes)
        p = padded([np.frombuffer(one) for one in ps]) if many else np.array(ps)
        y, w = (None, None) if self._kind == "asked" else (_column(ys), np.array(ws))
        part = Part(self._block, rows[0], rows[-1] + 1, y, w, p, self._before)
        for out in self._outs:
            (out.answered if self._kind == "answered" else out.predicted)(part)


def _column(labels: list[Any]) -> Any:
    """Labels as a run has them: an array, but of many classes a list."""
    return np.array(labels) if isinstance(labels[0], bool | float) else labels
