"""A block, cut into parts that can be learnt."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from streaml1.consumer.examples import rows_of
from streaml1.consumer.learning import Learn
from streaml1.report import REGRESSION
from streaml1.rows import BadExample
from streaml1.streams import Refuse, binary_label, number_label

__all__ = ["Chunk", "chunk_of", "parts_of"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A block with its labels as models take them; `faults`: rows whose label is refused."""

    x: Any
    y: Any
    w: Any
    faults: list[tuple[int, str]]
    block: Any

    def part(self, lo: int, hi: int) -> tuple[Any, Any, Any]:
        """Rows, labels and weights of consecutive examples."""
        y = None if self.y is None else self.y[lo:hi]
        return rows_of(self.x, lo, hi), y, None if self.w is None else self.w[lo:hi]


def chunk_of(block: Any, loss: str, label: Callable[[Any], Hashable]) -> Chunk:
    """A block as a model of the loss takes it; `label` reads one of many."""
    if loss == "softmax":
        y, faults = _class_labels(block.y, label)
    else:
        y, faults = _labels(block.y, loss in REGRESSION)
    return Chunk(block.x, y, block.w, faults, block)


def _class_labels(
    y: Any, read: Callable[[Any], Hashable]
) -> tuple[list[Hashable], list[tuple[int, str]]]:
    labels: list[Hashable] = []
    faults = []
    for row, one in enumerate(y.tolist() if isinstance(y, np.ndarray) else y):
        try:
            labels.append(read(one))
        except ValueError as error:
            labels.append(None)
            faults.append((row, str(error)))
    return labels, faults


def _labels(y: Any, regression: bool) -> tuple[Any, list[tuple[int, str]]]:
    """The labels as an array, and the rows and reasons of those that are none."""
    try:
        column = np.asarray(y)
    except ValueError:  # labels that are lists of different lengths
        column = np.empty(0, object)
    if column.ndim == 1 and column.dtype.kind in "biuf":
        if regression and np.isfinite(column).all():
            return column.astype(np.float64), []
        if not regression and ((column == 1) | (column == 0) | (column == -1)).all():
            return column > 0, []
    read: Callable[[Any], Any] = number_label if regression else binary_label
    labels = np.zeros(len(y), np.float64 if regression else bool)
    faults = []
    for row, one in enumerate(y):
        try:
            labels[row] = read(one)
        except ValueError as error:
            faults.append((row, str(error)))
    return labels, faults


def parts_of(
    chunk: Chunk, act: Learn, room: Callable[[], int], refuse: Refuse
) -> Iterator[tuple[int, int, Any]]:
    """Act on all rows but those refused: yields (first row, row after the last, result).

    A batch with a bad row is refused whole: the part before the row is tried again, and after it
    parts begin small and double, so that no number of bad rows costs more than a few looks a row.
    """
    faults = list(chunk.faults)  # rises, so it is a heap
    n = len(chunk.block)
    lo, size = 0, n
    while lo < n:
        if faults and faults[0][0] == lo:
            block, reason = chunk.block, heapq.heappop(faults)[1]
            refuse(block.place(lo), reason, block.lines[lo], block.origin(lo))
            lo, size = lo + 1, 1
            continue
        hi = min(n, lo + size, lo + room(), faults[0][0] if faults else n)
        if hi == lo:
            return
        try:
            result = act(*chunk.part(lo, hi))
        except BadExample as bad:
            heapq.heappush(faults, (lo + bad.row, bad.reason))
            continue
        hi = lo + len(result)
        yield lo, hi, result
        size = 2 * max(size, 1)
        lo = hi
