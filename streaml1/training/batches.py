"""Split a block into batches that a model accepts."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.rows import BadExample
from streaml1.core.types import Ints
from streaml1.features.label_texts import LabelTexts
from streaml1.optim.tasks import REGRESSION
from streaml1.sources import Reject, binary_label, nonnegative_label, number_label
from streaml1.training.example_sources import ExampleBlock, select_rows, slice_rows

__all__ = ["AcceptedBatch", "BadLabel", "LabelledBlock", "accepted_batches", "label_block"]

RowsFunction = Callable[[int, int], Any]
"""``f(lo, hi)``: handles consecutive rows of a block, which may be only the first few of them."""

ReadLabel = Callable[[Any], Hashable]


class BadLabel(NamedTuple):
    """Row of a label that was rejected, and the reason."""

    row: int
    reason: str


class AcceptedBatch(NamedTuple):
    """Rows from `lo` to before `hi`, and what the batch function returned for them."""

    lo: int
    hi: int
    result: Any


@dataclass(frozen=True, slots=True)
class LabelledBlock:
    """A block whose labels are mapped to those that models take.

    Parameters
    ----------
    x, y, w
        Features, labels and sample weights of all rows; `y` and `w` may be None.
    bad_labels
        Rejected labels, in ascending order of their rows.
    block
        The block as it was read.
    """

    x: Any
    y: Any
    w: Any
    bad_labels: list[BadLabel]
    block: ExampleBlock

    def select(self, rows: Ints) -> tuple[Any, Any, Any]:
        """Return features, labels and weights of some rows, in ascending order."""
        y, w = (None if column is None else _take(column, rows) for column in (self.y, self.w))
        return select_rows(self.x, rows), y, w

    def rows(self, lo: int, hi: int) -> tuple[Any, Any, Any]:
        """Return features, labels and weights of consecutive rows."""
        y = None if self.y is None else self.y[lo:hi]
        return slice_rows(self.x, lo, hi), y, None if self.w is None else self.w[lo:hi]


def _take(column: Any, rows: Ints) -> Any:
    is_list = not isinstance(column, np.ndarray)
    return [column[row] for row in rows.tolist()] if is_list else column[rows]


class _Labels(NamedTuple):
    labels: Any
    bad: list[BadLabel]


def label_block(block: ExampleBlock, loss: str, class_label: ReadLabel) -> LabelledBlock:
    """Map the labels of a block to those that a model of a loss takes."""
    if loss == "softmax":
        y, bad = _read_labels(block.y, class_label, None)
    else:
        y, bad = _label_array(block.y, loss)
    return LabelledBlock(block.x, y, block.w, bad, block)


def _label_array(y: Any, loss: str) -> _Labels:
    """Return labels as an array of float64 or bool."""
    regression = loss in REGRESSION
    read, dtype = (number_label, np.float64) if regression else (binary_label, bool)
    read = nonnegative_label if loss == "poisson" else read
    if isinstance(y, LabelTexts):
        labels, bad = _read_each(y.texts, read, 0)
        reasons = dict(bad)
        rows = np.flatnonzero(np.isin(y.codes, list(reasons))).tolist() if bad else []
        bad_rows = [BadLabel(row, reasons[int(y.codes[row])]) for row in rows]
        return _Labels(np.array(labels, dtype)[y.codes], bad_rows)
    column = _as_column(y)
    if column.ndim == 1 and column.dtype.kind in "biuf":
        lowest = 0.0 if loss == "poisson" else -np.inf
        if regression and np.isfinite(column).all() and (column >= lowest).all():
            return _Labels(column.astype(np.float64), [])
        if not regression and (column.dtype.kind == "b" or (column == np.sign(column)).all()):
            return _Labels(column > 0, [])
    labels, bad = _read_labels(y, read, 0)
    return _Labels(np.array(labels, dtype), bad)


def _as_column(y: Any) -> Any:
    """Return labels as an array, or an empty one if they need to be read one by one."""
    is_text = isinstance(y, list) and len(y) > 0 and isinstance(y[0], str)
    try:
        return np.empty(0, object) if is_text else np.asarray(y)
    except ValueError:  # labels that are lists of different lengths
        return np.empty(0, object)


def _read_labels(y: Any, read: ReadLabel, placeholder: Any) -> _Labels:
    """Read labels; the label of a rejected row is `placeholder`.

    Labels that are texts are few distinct ones as a rule, so each distinct text is read once.
    """
    given = y.tolist() if isinstance(y, np.ndarray | LabelTexts) else y
    if not set(map(type, given)) <= {str, type(None)}:
        return _read_each(given, read, placeholder)
    distinct = [*set(given)]
    labels, bad = _read_each(distinct, read, placeholder)
    label_of = dict(zip(distinct, labels, strict=True))
    reasons = {distinct[k]: reason for k, reason in bad}
    rows = enumerate(given) if reasons else ()
    bad_rows = [BadLabel(row, reasons[text]) for row, text in rows if text in reasons]
    return _Labels([*map(label_of.__getitem__, given)], bad_rows)


def _read_each(given: Any, read: ReadLabel, placeholder: Any) -> _Labels:
    labels: list[Any] = []
    bad: list[BadLabel] = []
    for row, label in enumerate(given):
        try:
            labels.append(read(label))
        except ValueError as error:
            labels.append(placeholder)
            bad.append(BadLabel(row, str(error)))
    return _Labels(labels, bad)


def accepted_batches(
    labelled: LabelledBlock, act: RowsFunction, max_rows: Callable[[], int], reject: Reject
) -> Iterator[AcceptedBatch]:
    """Apply a function to all rows of a block except rejected ones, in batches.

    A model rejects a batch with a bad row as a whole. The rows before the bad one are then tried
    again. After it batches start with one row and double in size, so that any number of bad rows
    costs only a constant number of attempts per row.

    Parameters
    ----------
    labelled
        The block.
    act
        Takes the first row of a batch and the row after the last. It may handle fewer rows; the
        length of its result says how many.
    max_rows
        Returns the maximum size of the next batch; 0 ends the block.
    reject
        Called with each rejected example, in order.

    Yields
    ------
    AcceptedBatch
        Rows and result of each batch.
    """
    block = labelled.block
    # Invariant: `bad` is a heap of the known bad rows from `lo` on; a sorted list is a heap.
    bad = list(labelled.bad_labels)
    n = len(block)
    lo, size = 0, n
    while lo < n:
        if bad and bad[0].row == lo:
            reason = heapq.heappop(bad).reason
            reject(block.place(lo), reason, block.lines[lo], block.origin(lo))
            lo, size = lo + 1, 1
            continue
        hi = min(n, lo + size, lo + max_rows(), bad[0].row if bad else n)
        if hi == lo:
            return
        try:
            result = act(lo, hi)
        except BadExample as error:
            heapq.heappush(bad, BadLabel(lo + error.row, error.reason))
            continue
        hi = lo + len(result)
        yield AcceptedBatch(lo, hi, result)
        size = 2 * max(size, 1)
        lo = hi
