"""Blocks of examples to a file of rows; `rows_form` has its form."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

import numpy as np

from streaml1.core.atomic_write import open_atomic
from streaml1.core.hashing import as_int64, name_hashes
from streaml1.core.rows import BadExample, numeric_features, shown
from streaml1.features.vocabulary.byte_interning import HashIndex, distinct
from streaml1.sources.row_cache.block import Cut, Gathered, piece_of
from streaml1.sources.row_cache.layout import (
    HEADER,
    LARGE,
    NAMED,
    SMALL,
    Index,
    checksum,
    header,
    padding,
)
from streaml1.sources.source import Block, Refuse, SourceError
from streaml1.text.parsed_rows import IntRows, NamedRows

__all__ = ["RowsWriter"]

NAMES_MOST = 2**32
"""Bytes: places among them are told by 32 bits."""


class RowsWriter:
    """A file of rows that is being written; it is there once the `with` ends well.

    Parameters
    ----------
    path
        The file. What stands there is replaced in one step.
    about
        What the file is to tell of itself, such as its source.
    limit
        At most so many rows are written.

    Attributes
    ----------
    rows, features, names : int
        How many have been taken.
    size : int
        The bytes of the file.
    """

    def __init__(self, path: str | Path, about: dict[str, Any], limit: int | None = None) -> None:
        self._about = about
        self._most = 2**62 if limit is None else limit
        self._aside: AbstractContextManager[Any] = open_atomic(path)
        self._file: Any = None
        self._parts: list[tuple[int, int, int, int]] = []
        self._held = Gathered()
        self._known = HashIndex()
        self._hashes: list[Any] = []
        self._text = bytearray()
        self._ends = array("Q")
        self.rows = self.features = self.size = 0

    @property
    def names(self) -> int:
        """How many names the examples have had."""
        return len(self._ends)

    @property
    def left(self) -> int:
        """How many rows may still be written."""
        return self._most - self.rows

    def __enter__(self) -> Self:
        self._file = self._aside.__enter__()
        self._write([bytes(HEADER.size)])
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            try:
                self._finish()
            except BaseException as failed:
                self._aside.__exit__(type(failed), failed, failed.__traceback__)
                raise
        self._aside.__exit__(*error)

    def add(self, block: Block, refuse: Refuse) -> None:
        """Write the examples of a block, but for those that are refused."""
        for rows in self._rows_of(block, refuse):
            for cut in rows.first_ones(self.left).pieces():
                piece = piece_of(cut, block)
                if not self._held.fits(piece):
                    self._put()
                self._held.add(piece)
                self.rows += piece.n
                self.features += piece.n_features

    def _put(self) -> None:
        """Write the examples that wait."""
        self._write(self._held.parts(), self._held.n)
        self._held = Gathered()

    def _write(self, parts: Sequence[bytes], rows: int = 0) -> None:
        raw = b"".join(itertools.chain.from_iterable((one, padding(len(one))) for one in parts))
        self._file.write(raw)
        self._parts.append((self.size, len(raw), rows, checksum(raw)))
        self.size += len(raw)

    def _finish(self) -> None:
        """Write the names and the index, and tell in the header where it is."""
        if self._held.n:
            self._put()
        hashes = np.concatenate([np.zeros(0, np.uint64), *self._hashes])
        for part in (hashes.tobytes(), self._ends.tobytes(), bytes(self._text)):
            self._write([part])
        about = {"rows": self.rows, "features": self.features, "names": self.names}
        index = Index({**self._about, **about}, self._parts[1:]).dump()
        at = self.size
        self._write([index])
        self._file.seek(0)
        self._file.write(header(at, index))

    # Rows of all kinds

    def _rows_of(self, block: Block, refuse: Refuse) -> Iterator[Cut]:
        x: Any = block.x
        if isinstance(x, IntRows):
            ids, values, indptr = x.parts()
            yield Cut(0, SMALL if ids.dtype == np.uint32 else LARGE, ids, values, indptr)
        elif isinstance(x, NamedRows):
            hashes, values, indptr = x.parts()
            yield Cut(0, NAMED, self._numbers(hashes, x.names_of), values, indptr)
        else:
            yield from self._from_dicts(block, refuse)

    def _numbers(self, hashes: Any, names_of: Any) -> Any:
        """The number of each name; those that are new take the next, in their order."""
        numbers, places = self._known.find(hashes)
        if not len(places):
            return numbers
        new = distinct(hashes, places)
        found = hashes[new.first_positions]
        given = np.arange(self.names, self.names + len(found), dtype=np.uint32)
        self._known.enter(found, given)
        self._hashes.append(found)
        for name in names_of(new.first_positions):
            self._text += name.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._text))
        if len(self._text) >= NAMES_MOST:
            raise SourceError(
                f"the names of {self.names:,} features are {len(self._text):,} bytes: a file of "
                "rows has less than 4 GiB of names, so convert the source in parts"
            )
        new.fill(numbers, given)
        return numbers

    def _from_dicts(self, block: Block, refuse: Refuse) -> Iterator[Cut]:
        """Dicts in runs whose names are all ints, or all strings."""
        read: list[tuple[int, list[Hashable], list[float]]] = []
        named = False
        for row, x in enumerate(block.x):
            if len(read) == self.left:
                break
            try:
                _require_label(block.y[row])
                names, values, strings = _plain(x)
            except BadExample as bad:
                refuse(block.place(row), bad.reason, block.lines[row], block.origin(row))
                continue
            # What is refused before is left out of the file, and so of the run.
            if read and (row != read[-1][0] + 1 or (names and strings != named)):
                yield self._run(read, named)
                read = []
            named = strings if names or not read else named
            read.append((row, names, values))
        if read:
            yield self._run(read, named)

    def _run(self, read: list[tuple[int, list[Hashable], list[float]]], named: bool) -> Cut:
        names = list(itertools.chain.from_iterable(one for _, one, _ in read))
        values = np.array(list(itertools.chain.from_iterable(v for _, _, v in read)), np.float64)
        indptr = np.concatenate([[0], np.cumsum([len(one) for _, one, _ in read])])
        if not named:
            ids = np.array(names, np.int64)
            small = not len(ids) or (ids.min() >= 0 and ids.max() < 2**32)
            return Cut(read[0][0], SMALL if small else LARGE, ids, values, indptr)
        ids = self._numbers(name_hashes(names), lambda places: [names[k] for k in places.tolist()])
        return Cut(read[0][0], NAMED, ids, values, indptr)


def _plain(x: Any) -> tuple[list[Hashable], list[float], bool]:
    """Names, values, and whether the names are strings; BadExample where they cannot be kept."""
    plain = numeric_features(x)
    strings = [isinstance(name, str) for name in plain]
    if all(strings):
        return list(plain), list(plain.values()), True
    ints = [as_int64(name) for name in plain]
    for name, string, whole in zip(plain, strings, ints, strict=True):
        if string or whole is None:
            raise BadExample(
                f"name {shown(name)} cannot be kept beside the others: a file of rows has names "
                "that are all strings, or all ints below 2**63, in an example"
            )
    return [*ints], list(plain.values()), False


def _require_label(y: Any) -> None:
    if not (y is None or isinstance(y, str | int | float | np.generic)):
        raise BadExample(f"label {shown(y)} is not a label: it must be a text or a number")
