"""What is to be learnt, gathered until something else comes in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from streaml1.consumer.parts import Chunk
from streaml1.report import REGRESSION

__all__ = ["ANSWER", "CORRECTION", "NEGATIVES", "TOGETHER", "Gathered", "Step", "chunk_of_steps"]

TOGETHER, ANSWER, NEGATIVES, CORRECTION = "together", "answer", "negative", "correction"


class Step(NamedTuple):
    """One step of learning.

    Parameters
    ----------
    how
        `TOGETHER`: features and label came at once, so that it is predicted just before;
        `ANSWER`: predicted before, and the label has come; `NEGATIVES`: none has, and it is learnt
        as False; `CORRECTION`: learnt as False before, and True has come.
    x, y, w
        Features, label and weight, as the model takes them.
    p
        The prediction that counts, if it has been made.
    row
        Which row of the block it is due to; -1: none.
    place
        Where the features stand.
    slot, was
        `NEGATIVES`: where it waits for a correction, or -1, and its seq before.
    number, before
        `CORRECTION`: which example of the report it is, and the weight it had.
    """

    how: str
    x: Any
    y: Any
    w: float
    p: Any
    row: int
    place: str
    slot: int = -1
    was: int = -1
    number: int = -1
    before: float = 0.0


class Gathered:
    """Examples of here and there as a block: enough of one to be cut into parts."""

    def __init__(self, block: Any, rows: Sequence[int], places: Sequence[str] = ()) -> None:
        self._block, self._rows, self._places = block, rows, places
        self.lines = [None if row < 0 else block.lines[row] for row in rows]

    def __len__(self) -> int:
        return len(self._rows)

    def place(self, number: int) -> str:
        """Where an example stands, or the record that it is due to."""
        row = self._rows[number]
        return self._places[number] if row < 0 else str(self._block.place(row))

    def origin(self, number: int) -> Any:
        """What is known of that record beside."""
        row = self._rows[number]
        return None if row < 0 else self._block.origin(row)

    def runs(self, lo: int, hi: int) -> Iterator[tuple[int, int]]:
        """The examples from lo to hi in pieces that are consecutive rows of the block."""
        numbers = range(lo, hi)
        for _, piece in groupby(numbers, lambda number: self._rows[number] - number):
            first, *_, last = [*piece] * 2
            yield first, last + 1


def chunk_of_steps(steps: Sequence[Step], loss: str, block: Any) -> Chunk:
    """Steps as a model takes them."""
    y: Any = [step.y for step in steps]
    if loss != "softmax":
        y = np.array(y, np.float64 if loss in REGRESSION else bool)
    w = [step.w for step in steps]
    gathered = Gathered(block, [step.row for step in steps], [step.place for step in steps])
    return Chunk([step.x for step in steps], y, None if all(one == 1.0 for one in w) else w, [],
                 gathered)  # fmt: skip
