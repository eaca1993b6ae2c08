"""A block, cut into parts that can be learnt."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from streaml1.core.rows import BadExample
from streaml1.optim.tasks import REGRESSION
from streaml1.sources import Refuse, binary_label, number_label
from streaml1.sources.readers.label_texts import LabelTexts
from streaml1.training.examples import rows_of
from streaml1.training.model_adapter import Learn

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
        y, faults = _read(block.y, label, None)
    else:
        y, faults = _labels(block.y, loss in REGRESSION)
    return Chunk(block.x, y, block.w, faults, block)


def _labels(y: Any, regression: bool) -> tuple[Any, list[tuple[int, str]]]:
    """The labels as an array, and the rows and reasons of those that are none."""
    read, kind = (number_label, np.float64) if regression else (binary_label, bool)
    if isinstance(y, LabelTexts):
        labels, wrong = _read_each(y.texts, read, 0)
        reasons = dict(wrong)
        rows = np.flatnonzero(np.isin(y.codes, list(reasons))).tolist() if wrong else []
        return np.array(labels, kind)[y.codes], [(row, reasons[int(y.codes[row])]) for row in rows]
    try:
        is_text = isinstance(y, list) and len(y) > 0 and isinstance(y[0], str)
        column = np.empty(0, object) if is_text else np.asarray(y)
    except ValueError:  # labels that are lists of different lengths
        column = np.empty(0, object)
    if column.ndim == 1 and column.dtype.kind in "biuf":
        if regression and np.isfinite(column).all():
            return column.astype(np.float64), []
        if not regression and (column.dtype.kind == "b" or (column == np.sign(column)).all()):
            return column > 0, []
    labels, faults = _read(y, read, 0)
    return np.array(labels, kind), faults


def _read(
    y: Any, read: Callable[[Any], Hashable], refused: Any
) -> tuple[list[Any], list[tuple[int, str]]]:
    """Each label read, or `refused`, and the rows and reasons of those."""
    given = y.tolist() if isinstance(y, np.ndarray | LabelTexts) else y
    if not set(map(type, given)) <= {str, type(None)}:
        return _read_each(given, read, refused)
    distinct = [*set(given)]  # few, most often
    labels, faults = _read_each(distinct, read, refused)
    told = dict(zip(distinct, labels, strict=True))
    wrong = {distinct[k]: reason for k, reason in faults}
    rows = [(row, wrong[one]) for row, one in enumerate(given) if one in wrong] if wrong else []
    return [*map(told.__getitem__, given)], rows


def _read_each(
    given: Any, read: Callable[[Any], Hashable], refused: Any
) -> tuple[list[Any], list[tuple[int, str]]]:
    labels: list[Any] = []
    faults = []
    for k, one in enumerate(given):
        try:
            labels.append(read(one))
        except ValueError as error:
            labels.append(refused)
            faults.append((k, str(error)))
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
