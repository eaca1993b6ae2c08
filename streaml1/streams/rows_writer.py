"""Blocks of examples to a file of rows; `rows_form` has its form."""

from __future__ import annotations

import itertools
import json
from array import array
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from streaml1.hashing import as_int, name_hashes
from streaml1.names.bytes import ByBytes, distinct
from streaml1.parse.rows import IntRows, NamedRows
from streaml1.report import written_aside
from streaml1.rows import BadExample, Rows, are_values, plain_items, repeats, shown
from streaml1.streams.rows_form import (
    HEADER,
    LARGE,
    NAMED,
    SMALL,
    BlockHead,
    Index,
    checksum,
    header,
    padding,
)
from streaml1.streams.source import Block, Refuse, SourceError

__all__ = ["RowsWriter"]

MOST_FEATURES = 2**18
"""A block of more is cut: 3 MB that were summed up are still in a cache when they are learnt."""

MOST_ROWS = 2**13

NAMES_MOST = 2**32
"""Bytes: places among them are told by 32 bits."""


class _Rows(NamedTuple):
    """Consecutive examples of a block, whose ids are of one kind."""

    first: int
    kind: int
    ids: Any
    values: Any
    indptr: Any

    def first_ones(self, n: int) -> _Rows:
        """The first n of them, or all."""
        return self if n >= len(self.indptr) - 1 else self._replace(indptr=self.indptr[: n + 1])

    def pieces(self) -> Iterator[_Rows]:
        """They in blocks that are not too large, one row at least in each."""
        n = len(self.indptr) - 1
        lo = 0
        while lo < n:
            most = int(self.indptr[lo]) + MOST_FEATURES
            hi = int(np.searchsorted(self.indptr, most, side="right")) - 1
            hi = min(max(hi, lo + 1), lo + MOST_ROWS, n)
            a, b = int(self.indptr[lo]), int(self.indptr[hi])
            indptr = self.indptr[lo : hi + 1] - a
            yield _Rows(self.first + lo, self.kind, self.ids[a:b], self.values[a:b], indptr)
            lo = hi


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
        How many have been written.
    size : int
        The bytes of the file.
    """

    def __init__(self, path: str | Path, about: dict[str, Any], limit: int | None = None) -> None:
        self._about = about
        self._most = 2**62 if limit is None else limit
        self._aside: AbstractContextManager[Any] = written_aside(path)
        self._file: Any = None
        self._parts: list[tuple[int, int, int, int]] = []
        self._known = ByBytes()
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
            for piece in rows.first_ones(self.left).pieces():
                self._put(piece, block)

    def _put(self, rows: _Rows, block: Block) -> None:
        lo, n = rows.first, len(rows.indptr) - 1
        hi = lo + n
        y, labels = _labels(block.y[lo:hi])
        w = None if block.w is None else np.asarray(block.w[lo:hi], np.float64)
        w = None if w is None or (w == 1.0).all() else w
        lines = np.asarray(block.lines[lo:hi], np.int64)
        in_turn = lines[0] > 0 and (np.diff(lines) == 1).all()
        valued = bool((rows.values != 1.0).any())
        extra = _extra(block, lo, hi)
        head = BlockHead(
            n, len(rows.ids), rows.kind, int(valued), int(w is not None), int(_is_plain(rows)),
            int(lines[0]) if in_turn else 0, len(labels), len(extra),
        )  # fmt: skip
        ids = np.ascontiguousarray(rows.ids, np.int64 if rows.kind == LARGE else np.uint32)
        parts = [
            np.array(head, np.uint64), labels or y, w, rows.indptr.astype(np.int64),
            None if in_turn else lines, np.ascontiguousarray(rows.values) if valued else None,
            ids, extra,
        ]  # fmt: skip
        self._write([_raw(one) for one in parts if one is not None], n)
        self.rows += n
        self.features += len(ids)

    def _write(self, parts: Sequence[bytes], rows: int = 0) -> None:
        raw = b"".join(itertools.chain.from_iterable((one, padding(len(one))) for one in parts))
        self._file.write(raw)
        self._parts.append((self.size, len(raw), rows, checksum(raw)))
        self.size += len(raw)

    def _finish(self) -> None:
        """Write the names and the index, and tell in the header where it is."""
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

    def _rows_of(self, block: Block, refuse: Refuse) -> Iterator[_Rows]:
        x: Any = block.x
        if isinstance(x, IntRows):
            ids, values, indptr = x.parts()
            yield _Rows(0, SMALL if ids.dtype == np.uint32 else LARGE, ids, values, indptr)
        elif isinstance(x, NamedRows):
            hashes, values, indptr = x.parts()
            yield _Rows(0, NAMED, self._numbers(hashes, x.names_of), values, indptr)
        else:
            yield from self._from_dicts(block, refuse)

    def _numbers(self, hashes: Any, names_of: Any) -> Any:
        """The number of each name; those that are new take the next, in their order."""
        numbers, places = self._known.find(hashes)
        if not len(places):
            return numbers
        new = distinct(hashes, places)
        found = hashes[new.firsts]
        given = np.arange(self.names, self.names + len(found), dtype=np.uint32)
        self._known.enter(found, given)
        self._hashes.append(found)
        for name in names_of(new.firsts):
            self._text += name.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._text))
        if len(self._text) >= NAMES_MOST:
            raise SourceError(
                f"the names of {self.names:,} features are {len(self._text):,} bytes: a file of "
                "rows has less than 4 GiB of names, so convert the source in parts"
            )
        new.tell(numbers, given)
        return numbers

    def _from_dicts(self, block: Block, refuse: Refuse) -> Iterator[_Rows]:
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

    def _run(self, read: list[tuple[int, list[Hashable], list[float]]], named: bool) -> _Rows:
        names = list(itertools.chain.from_iterable(one for _, one, _ in read))
        values = np.array(list(itertools.chain.from_iterable(v for _, _, v in read)), np.float64)
        indptr = np.concatenate([[0], np.cumsum([len(one) for _, one, _ in read])])
        if not named:
            ids = np.array(names, np.int64)
            small = not len(ids) or (ids.min() >= 0 and ids.max() < 2**32)
            return _Rows(read[0][0], SMALL if small else LARGE, ids, values, indptr)
        ids = self._numbers(name_hashes(names), lambda places: [names[k] for k in places.tolist()])
        return _Rows(read[0][0], NAMED, ids, values, indptr)


def _is_plain(rows: _Rows) -> bool:
    """Whether models can learn the rows as they are."""
    if rows.kind == LARGE:
        return False
    ids, values = (np.require(a, None, ["C", "W"]) for a in (rows.ids, rows.values))
    plain = Rows(ids, values, rows.indptr.astype(np.uint64))
    return are_values(values) and bool((values != 0.0).all()) and not repeats(plain)


def _plain(x: Any) -> tuple[list[Hashable], list[float], bool]:
    """Names, values, and whether the names are strings; BadExample where they cannot be kept."""
    plain = plain_items(x)
    strings = [isinstance(name, str) for name in plain]
    if all(strings):
        return list(plain), list(plain.values()), True
    ints = [as_int(name) for name in plain]
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


def _labels(y: Any) -> tuple[Any, bytes]:
    """Labels as an array; where they are not all floats an empty one, and as JSON."""
    if isinstance(y, np.ndarray) and y.dtype == np.float64:
        return y, b""
    listed = [one.item() if isinstance(one, np.generic) else one for one in y]
    if all(type(one) is float for one in listed):
        return np.array(listed, np.float64), b""
    return np.zeros(0), json.dumps(listed).encode()


def _extra(block: Block, lo: int, hi: int) -> bytes:
    """The ids of some examples, and their places where the lines do not tell them."""
    kept: dict[str, Any] = {}
    if block.ids is not None and any(one is not None for one in block.ids[lo:hi]):
        kept["ids"] = list(block.ids[lo:hi])
    if type(block).place is not Block.place and getattr(block, "places", True) is not None:
        kept["places"] = [block.place(row) for row in range(lo, hi)]
    return json.dumps(kept).encode() if kept else b""


def _raw(part: Any) -> bytes:
    return part if isinstance(part, bytes) else part.tobytes()
