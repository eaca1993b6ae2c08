"""Write `.rows` files; `streaml1.sources.row_cache.layout` describes the format."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from streaml1.core.atomic_write import open_atomic
from streaml1.core.hashing import as_int64, name_hashes
from streaml1.core.rows import BadExample, numeric_features, shown
from streaml1.core.types import Hashes, Ids
from streaml1.features.vocabulary.byte_interning import HashIndex, distinct
from streaml1.sources.row_cache.block import PendingRows, RowSlice, encode_rows
from streaml1.sources.row_cache.layout import (
    HEADER,
    LARGE,
    MAX_NAME_BYTES,
    NAMED,
    SMALL,
    Index,
    checksum,
    header,
    padding,
)
from streaml1.sources.source import Block, Reject, SourceError
from streaml1.text.parsed_rows import IntRows, NamedRows

__all__ = ["RowsWriter"]


class RowsWriter:
    """Write a `.rows` file; it exists once the ``with`` block ends without an exception.

    Parameters
    ----------
    path
        The file. An existing one is replaced atomically.
    about
        What the file says about itself, such as its source. The values must be JSON.
    limit
        The maximum number of rows to write.

    Attributes
    ----------
    rows, features, names : int
        How many were written.
    size : int
        The bytes of the file.
    """

    def __init__(self, path: str | Path, about: dict[str, Any], limit: int | None = None) -> None:
        self._about = about
        self._limit = 2**62 if limit is None else limit
        self._replacement: AbstractContextManager[BinaryIO] = open_atomic(path)
        self._file: Any = None
        self._parts: list[tuple[int, int, int, int]] = []
        self._pending = PendingRows()
        self._name_index = HashIndex()
        self._hashes: list[Hashes] = []
        self._text = bytearray()
        self._ends = array("Q")
        self.rows = self.features = self.size = 0

    @property
    def names(self) -> int:
        """How many distinct names the examples have."""
        return len(self._ends)

    @property
    def remaining(self) -> int:
        """How many rows may still be written."""
        return self._limit - self.rows

    def __enter__(self) -> Self:
        self._file = self._replacement.__enter__()
        self._write([bytes(HEADER.size)])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            try:
                self._finish()
            except BaseException as failed:
                self._replacement.__exit__(type(failed), failed, failed.__traceback__)
                raise
        self._replacement.__exit__(kind, error, traceback)

    def add(self, block: Block, reject: Reject) -> None:
        """Write the examples of a block, except for rejected ones."""
        for rows in self._encodable_rows(block, reject):
            for part in rows.head(self.remaining).split():
                piece = encode_rows(part, block)
                if not self._pending.fits(piece):
                    self._write_pending()
                self._pending.add(piece)
                self.rows += piece.n
                self.features += piece.n_features

    def _write_pending(self) -> None:
        self._write(self._pending.encode(), self._pending.n)
        self._pending = PendingRows()

    def _write(self, parts: Sequence[bytes], rows: int = 0) -> None:
        """Append a block or another part of the file."""
        raw = b"".join(itertools.chain.from_iterable((part, padding(len(part))) for part in parts))
        self._file.write(raw)
        self._parts.append((self.size, len(raw), rows, checksum(raw)))
        self.size += len(raw)

    def _finish(self) -> None:
        """Write the names and the index, then the header, which points to the index."""
        if self._pending.n:
            self._write_pending()
        hashes = np.concatenate([np.zeros(0, np.uint64), *self._hashes])
        for part in (hashes.tobytes(), self._ends.tobytes(), bytes(self._text)):
            self._write([part])
        about = {"rows": self.rows, "features": self.features, "names": self.names}
        parts = np.array(self._parts[1:], np.int64)
        index = Index({**self._about, **about}, parts).dump()
        index_offset = self.size
        self._write([index])
        self._file.seek(0)
        self._file.write(header(index_offset, index))

    # Rows with ids of one kind

    def _encodable_rows(self, block: Block, reject: Reject) -> Iterator[RowSlice]:
        x: Any = block.x
        if isinstance(x, IntRows):
            ids, values, indptr = x.csr()
            yield RowSlice(0, SMALL if ids.dtype == np.uint32 else LARGE, ids, values, indptr)
        elif isinstance(x, NamedRows):
            hashes, values, indptr = x.csr()
            yield RowSlice(0, NAMED, self._name_ids(hashes, x.feature_names), values, indptr)
        else:
            yield from self._rows_of_dicts(block, reject)

    def _name_ids(self, hashes: Hashes, feature_names: Callable[[Any], list[str]]) -> Ids:
        """Return the index of each name; new names get the next ones, in order of occurrence."""
        ids, unknown = self._name_index.find(hashes)
        if not len(unknown):
            found: Ids = ids
            return found
        new = distinct(hashes, unknown)
        new_hashes = hashes[new.first_positions]
        new_ids = np.arange(self.names, self.names + len(new_hashes), dtype=np.uint32)
        self._name_index.enter(new_hashes, new_ids)
        self._hashes.append(new_hashes)
        for name in feature_names(new.first_positions):
            self._text += name.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._text))
        if len(self._text) >= MAX_NAME_BYTES:
            raise SourceError(
                f"the names of {self.names:,} features have {len(self._text):,} bytes, but a .rows "
                "file holds less than 4 GiB of names; convert the source in parts"
            )
        new.fill(ids, new_ids)
        completed: Ids = ids
        return completed

    def _rows_of_dicts(self, block: Block, reject: Reject) -> Iterator[RowSlice]:
        """Convert dicts, in runs whose names are all integers or all strings."""
        run: list[_RunRow] = []
        run_named = False  # whether the names of the run are strings
        for row, x in enumerate(block.x):
            if len(run) == self.remaining:
                break
            try:
                _check_label(block.y[row])
                names, values, named = _split_items(x)
            except BadExample as bad:
                reject(block.place(row), bad.reason, block.lines[row], block.origin(row))
                continue
            # A rejected example leaves a gap, which ends the run.
            if run and (row != run[-1].row + 1 or (names and named != run_named)):
                yield self._slice_of_run(run, run_named)
                run = []
            run_named = named if names or not run else run_named
            run.append(_RunRow(row, names, values))
        if run:
            yield self._slice_of_run(run, run_named)

    def _slice_of_run(self, run: list[_RunRow], named: bool) -> RowSlice:
        names: list[Any] = list(itertools.chain.from_iterable(row.names for row in run))
        values = np.array(list(itertools.chain.from_iterable(row.values for row in run)), float)
        indptr = np.concatenate([[0], np.cumsum([len(row.names) for row in run])])
        first = run[0].row
        if named:
            hashes = name_hashes(names)
            ids = self._name_ids(hashes, lambda at: [names[k] for k in at.tolist()])
            return RowSlice(first, NAMED, ids, values, indptr)
        integers = np.array(names, np.int64)
        small = not len(integers) or (integers.min() >= 0 and integers.max() < 2**32)
        return RowSlice(first, SMALL if small else LARGE, integers, values, indptr)


class _RunRow(NamedTuple):
    """A dict of a run: its position in the block, its names and their values."""

    row: int
    names: list[Hashable]
    values: list[float]


def _split_items(x: Any) -> tuple[list[Hashable], list[float], bool]:
    """Return names and values, and whether the names are strings; BadExample if they are mixed."""
    items = numeric_features(x)
    strings = [isinstance(name, str) for name in items]
    if all(strings):
        return list(items), list(items.values()), True
    integers = [as_int64(name) for name in items]
    for name, is_string, integer in zip(items, strings, integers, strict=True):
        if is_string or integer is None:
            raise BadExample(
                f"name {shown(name)} cannot be stored: the names of an example in a .rows file "
                "must be all strings, or all integers below 2**63"
            )
    return [*integers], list(items.values()), False


def _check_label(y: Any) -> None:
    if not (y is None or isinstance(y, str | int | float | np.generic)):
        raise BadExample(f"invalid label {shown(y)}: it must be a text or a number")
