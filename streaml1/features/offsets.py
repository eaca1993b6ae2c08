"""The feature that holds the offset of an example: it is added to the margin and has no weight."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.core.rows import (
    VALUE_LIMIT,
    BadExample,
    Rows,
    check_value,
    row_of_entry,
    shown,
    to_value,
)
from streaml1.core.types import Floats
from streaml1.features.batch import Batch, checked

__all__ = ["split_batch", "split_example"]


def split_example(x: Mapping[Hashable, Any], name: Hashable) -> tuple[float, dict[Hashable, Any]]:
    """Return the offset of an example, 0 if it is absent, and the other features.

    Raises
    ------
    BadExample
        If the offset is not a valid number.

    Examples
    --------
    >>> split_example({"log_exposure": 1.5, "age": 30}, "log_exposure")
    (1.5, {'age': 30})
    """
    rest = dict(x.items())
    value = rest.pop(name, None)
    if isinstance(value, str):
        raise BadExample(f"the offset {shown(name)} must be a number, got {shown(value)}")
    return to_value(name, value), rest


def split_batch(batch: Batch, name: Hashable) -> tuple[Batch, Floats]:
    """Return the offsets of all rows, 0 where it is absent, and a batch of the other features.

    Raises
    ------
    BadExample
        If an offset is not a valid number. `row` is the first such row.
    """
    rows = batch.rows
    is_offset, values = _find(batch, name), rows.values
    if not is_offset.any():
        return batch, np.zeros(batch.n)
    counts = np.diff(rows.indptr.astype(np.int64))
    row_of = np.repeat(np.arange(batch.n), counts)[is_offset]
    offsets = np.bincount(row_of, values[is_offset], batch.n).astype(np.float64)
    valid = np.abs(offsets) < VALUE_LIMIT
    if not valid.all():
        raise _rejection(batch, name, offsets, int(np.argmin(valid)))
    counts -= np.bincount(row_of, minlength=batch.n)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    kept = np.flatnonzero(~is_offset)
    texts = batch.texts
    if texts is not None:
        texts = texts.select_features(kept, values[kept], indptr)
    ids = rows.ids if texts is not None else rows.ids[kept]
    others = Rows(ids, values[kept], indptr.astype(np.uint64))
    return batch._replace(rows=others, texts=texts), offsets


def _find(batch: Batch, name: Hashable) -> Any:
    """Return which entries of a batch are of the feature."""
    if batch.texts is not None:
        return batch.texts.csr()[0] == name_hashes([name])[0]
    if batch.names is not None:
        _require_numbers(batch, name)
        position = batch.names.index(name) if name in batch.names else len(batch.names)
        return batch.rows.ids == position
    if not str(name).isdecimal():  # the columns have numbers; the command line has them as text
        return np.zeros(len(batch.rows.ids), bool)
    return batch.rows.ids == int(str(name))


def _require_numbers(batch: Batch, name: Hashable) -> None:
    """Raise BadExample for the first row whose offset is a string, which became a category."""
    prefix = f"{name}="
    for position, given in enumerate(batch.names or []):
        if isinstance(name, str) and isinstance(given, str) and given.startswith(prefix):
            entry = np.flatnonzero(batch.rows.ids == position)[0]
            text = shown(given.removeprefix(prefix))
            reason = f"the offset {shown(name)} must be a number, got {text}"
            raise BadExample(reason, row_of_entry(batch.rows.indptr, entry))


def _rejection(batch: Batch, name: Hashable, offsets: Floats, row: int) -> BadExample:
    """Return the error of the first invalid row, given the first with an invalid offset."""
    ids, values, indptr = batch.rows
    end = int(indptr[row])
    try:
        checked(batch._replace(rows=Rows(ids[:end], values[:end], indptr[: row + 1])))
    except BadExample as error:
        return error
    try:
        check_value(name, float(offsets[row]))
    except BadExample as error:
        return BadExample(error.reason, row)
    raise AssertionError("the offset is valid")
