"""Files of rows as sources: what `streaml1 convert` has kept of parsed examples."""

from __future__ import annotations

import bisect
import hashlib
import json
import mmap
import os
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, overload

import numpy as np

from streaml1.core.rows import max_id
from streaml1.sources.row_cache.layout import (
    HEADER,
    LARGE,
    MARK,
    NAMED,
    SMALL,
    VERSION,
    BlockHead,
    Index,
    checksum,
    filled,
    sizes,
)
from streaml1.sources.source import Block, Lost, Refuse, SourceError
from streaml1.text.parsed_rows import IntRows, NamedRows

__all__ = ["RowsFile"]

AGAIN = "make it again with streaml1 convert"


class KeptNames:
    """The names of a file: their hashes, and their text, which is read once it is asked for.

    Parameters
    ----------
    hashes
        uint64, by the numbers of the names.
    read
        Reads where each name ends in the text, and the text.
    """

    def __init__(self, hashes: Any, read: Any) -> None:
        self.hashes = hashes
        self._read = read
        self._looked_for: dict[str, bool] = {}

    @cached_property
    def _told(self) -> tuple[Any, Any]:
        """Where names begin, the last of them ends, and their text."""
        ends, text = self._read()
        return np.concatenate([[0], ends]), text

    @cached_property
    def _text(self) -> str | bytes:
        raw: bytes = self.bytes.tobytes()
        return raw.decode() if raw.isascii() else raw

    @property
    def bytes(self) -> Any:
        """The text, uint8."""
        return self._told[1]

    def has(self, text: str) -> bool:
        """Whether a text stands in that of the names; each is looked for once."""
        if text not in self._looked_for:
            self._looked_for[text] = text.encode() in self.bytes.tobytes()
        return self._looked_for[text]

    def spans(self, numbers: Any) -> Any:
        """Where in `bytes` some names are, as `NamedRows` has them."""
        begins, _ = self._told
        sizes = begins[numbers + 1] - begins[numbers]
        return begins[numbers].astype(np.uint64) << np.uint64(32) | sizes.astype(np.uint64)

    def of(self, numbers: Any) -> list[str]:
        """Some names by their numbers."""
        begins, text = self._told[0], self._text
        pairs = zip(begins[numbers].tolist(), begins[numbers + 1].tolist(), strict=True)
        if isinstance(text, str):
            return [text[lo:hi] for lo, hi in pairs]
        return [text[lo:hi].decode("utf-8", "surrogatepass") for lo, hi in pairs]


class KeptRows(NamedRows):
    """Examples whose features are told by the numbers of their names in a file.

    Parameters
    ----------
    numbers
        Of the names, uint32.
    values
        Their values, float64.
    indptr
        Row i is the part `indptr[i]:indptr[i + 1]`, int64.
    table
        The names.
    plain
        Whether no row is known to have a name twice, or a value that is zero or refused.
    """

    __slots__ = ("_parts", "numbers", "table")

    def __init__(
        self, numbers: Any, values: Any, indptr: Any, table: KeptNames, plain: bool = False
    ) -> None:
        self.apart = self.valued = plain
        self.header = None
        self.numbers = numbers
        self.values = values
        self.indptr = indptr
        self.table = table
        self._parts: Any = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @overload
    def __getitem__(self, k: int) -> dict[Hashable, Any]: ...

    @overload
    def __getitem__(self, k: slice) -> KeptRows: ...

    def __getitem__(self, k: int | slice) -> dict[Hashable, Any] | KeptRows:
        if isinstance(k, slice):
            lo, hi, _ = k.indices(len(self))
            if (lo, hi) == (0, len(self)):
                return self
            return KeptRows(
                self.numbers, self.values, self.indptr[lo : hi + 1], self.table, self.plain
            )
        row = range(len(self))[k]
        lo, hi = int(self.indptr[row]), int(self.indptr[row + 1])
        x: dict[Hashable, Any] = {}
        names = self.table.of(self.numbers[lo:hi].astype(np.int64))
        for name, value in zip(names, self.values[lo:hi].tolist(), strict=True):
            x[name] = x.get(name, 0.0) + value
        return x

    def parts(self) -> tuple[Any, Any, Any]:
        """Hashes of the names, `values` and `indptr` of these rows alone."""
        if self._parts is None:
            lo, hi = int(self.indptr[0]), int(self.indptr[-1])
            hashes = self.table.hashes[self.numbers[lo:hi]]
            self._parts = hashes, self.values[lo:hi], self.indptr - lo
        parts: tuple[Any, Any, Any] = self._parts
        return parts

    @property
    def names(self) -> Any:
        """The text of the names of the file."""
        return self.table.bytes

    def has(self, text: str) -> bool:
        """Whether a text may stand in a name: it stands among those of the file."""
        return self.table.has(text)

    def own_spans(self) -> Any:
        """Where in `names` the name of each feature is."""
        return self.table.spans(self._own_numbers())

    def _own_numbers(self) -> Any:
        return self.numbers[int(self.indptr[0]) : int(self.indptr[-1])].astype(np.int64)

    def chosen(self, places: Any, values: Any, indptr: Any) -> KeptRows:
        """As many rows of some of the features, by their places, with other values."""
        return KeptRows(self._own_numbers()[places], values, indptr, self.table)

    def names_of(self, places: Any) -> list[str]:
        """The names of some features, by their places among those of these rows."""
        return self.table.of(self.numbers[places + int(self.indptr[0])].astype(np.int64))

    @staticmethod
    def joined(pieces: Sequence[Any]) -> KeptRows:
        """The rows of several, one after the other."""
        if len(pieces) == 1:
            one: KeptRows = pieces[0]
            return one
        spans = [slice(int(one.indptr[0]), int(one.indptr[-1])) for one in pieces]
        counts = np.concatenate([np.diff(one.indptr) for one in pieces])
        return KeptRows(
            np.concatenate([one.numbers[at] for one, at in zip(pieces, spans, strict=True)]),
            np.concatenate([one.values[at] for one, at in zip(pieces, spans, strict=True)]),
            np.concatenate([[0], np.cumsum(counts)]),
            pieces[0].table,
        )


@dataclass(frozen=True, slots=True)
class RowsBlock(Block):
    """Some consecutive examples of a file of rows; `name` and `lines` are of where they came from.

    Parameters
    ----------
    first
        How many examples of the file are before them.
    places
        Where each was read, where its line does not tell.
    """

    first: int = 0
    places: Sequence[str] | None = None

    def after(self, rows: int) -> Any:
        """The position after so many examples, to `begin` at."""
        return {"example": self.first + rows}

    def place(self, row: int) -> str:
        """Where an example was read before it was converted."""
        return f"{self.name}:{self.lines[row]}" if self.places is None else self.places[row]


class RowsFile:
    """Examples in a file that `streaml1 convert` has written.

    Parameters
    ----------
    path
        The file.

    Attributes
    ----------
    about : dict
        What the file tells of itself: the source that it was made of and its format, how many
        rows, features and names it holds, and which version of streaml1 wrote it.

    Raises
    ------
    SourceError
        One sentence, where it is no such file, a damaged one, or that of a newer version.
    """

    block = 2**13
    texts: tuple[str, ...] = ()  # categories are whole there

    def __init__(self, path: str | Path) -> None:
        self.name = str(path)
        self._skipped = 0
        self._names: KeptNames | None = None
        self._map: Any = None
        self._ones = np.ones(0)
        self._stamp: Any = None
        self._sound: Any = None  # which parts have been read, their sums being right
        self._below: Any = None  # what the ids of each are below; -1 before they are looked at
        self._digest, (self.about, self._parts) = self._look()

    def __len__(self) -> int:
        """How many examples there are."""
        return int(self.about["rows"])

    def _as_many_ones(self, n: int) -> Any:
        """The values of features that all count once; blocks share them."""
        if n > len(self._ones):
            self._ones = np.ones(n)
        return self._ones[:n]

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Block]:
        """Read from the start, or where the reading is to begin, at most `size` at a time."""
        if size < 1:
            raise ValueError(f"size {size} is not a size of blocks: it must be 1 or more")
        skipped, self._skipped = self._skipped, 0
        return self._blocks(size, skipped)

    def _blocks(self, size: int, skipped: int) -> Iterator[Block]:
        if self._look()[0] != self._digest:
            raise Lost(f"{self.name} has been replaced while it was read: begin again")
        ends = np.cumsum(self._parts[:-3, 2]).tolist()
        for part in range(bisect.bisect_right(ends, skipped), len(ends)):
            block = self._block(self._read(part), ends[part] - int(self._parts[part, 2]), part)
            n, lo = len(block), max(0, skipped - block.first)
            while lo < n:
                hi = min(n, lo + size)
                yield block if (lo, hi) == (0, n) else _cut(block, lo, hi)
                lo = hi

    # What is resumable

    def identity(self) -> dict[str, Any]:
        """What must be the same, by name, for a position to mean the same."""
        return {"source": "rows", "sha256": self._digest}

    def begin(self, at: Any) -> Any:
        """Have the next reading begin at a position, or at its start: None; returns where."""
        self._skipped = 0 if at is None else at["example"]
        return {"example": self._skipped}

    def position(self) -> Any:
        """None: where the last block ended."""
        return None

    # The file

    def _look(self) -> tuple[str, Index]:
        """The sum that tells the file from others, and its index."""
        try:
            with open(self.name, "rb") as file:
                return self._index(file)
        except OSError as error:
            raise SourceError(f"{self.name} cannot be read: {error.strerror or error}") from None

    def _index(self, file: BinaryIO) -> tuple[str, Index]:
        if not file.seekable():
            raise SourceError(f"{self.name} is a pipe: a file of rows is read from a disk")
        raw = file.read(HEADER.size)
        if raw[: len(MARK)] != MARK[: len(raw)] or not raw:
            raise SourceError(f"{self.name} is no file of rows: {AGAIN}, or name it as what it is")
        status = os.fstat(file.fileno())
        size = status.st_size
        if len(raw) < HEADER.size:
            raise self._short(size, HEADER.size)
        _, version, zero, at, n, digest = HEADER.unpack(raw)
        if version != VERSION or zero:
            raise SourceError(
                f"{self.name} has the form {version} of rows, and this streaml1 reads "
                f"{VERSION}: upgrade it, or {AGAIN}"
            )
        if size < at + n:
            raise self._short(size, at + n)
        file.seek(at)
        raw = file.read(n)
        if hashlib.sha256(raw).digest() != digest:
            raise Lost(f"{self.name} is damaged: its index has another sum; {AGAIN}")
        if self._map is None:
            # Private, so that kernels may be given what is there as it is; nobody writes to it.
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        index = Index.read(raw)
        stamp = status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns
        if stamp != self._stamp:
            self._stamp, self._sound = stamp, np.zeros(len(index.parts), bool)
            self._below = np.full(len(index.parts), -1)
        return digest.hex(), index

    def _short(self, size: int, whole: int) -> Lost:
        return Lost(f"{self.name} is cut short: it has {size:,} of {whole:,} bytes; {AGAIN}")

    def _read(self, part: int) -> Any:
        """A part as bytes, whose sum is right, or was when it was first read."""
        at, n, _, expected = self._parts[part].tolist()
        # Looking at bytes that are gone would end the process.
        if self._map.size() < at + n:
            raise self._short(self._map.size(), at + n)
        raw = np.frombuffer(self._map, np.uint8, n, at)
        if not self._sound[part]:
            if checksum(raw) != expected:
                raise Lost(f"{self.name} is damaged behind byte {at:,}: a sum is another; {AGAIN}")
            self._sound[part] = True
        return raw

    def _block(self, raw: Any, first: int, part: int) -> RowsBlock:
        head = BlockHead._make(raw[: 8 * len(BlockHead._fields)].view(np.int64).tolist())
        pieces, at = [], 0
        parts = sizes(head)
        if sum(map(filled, parts)) != len(raw):
            raise Lost(f"{self.name} is damaged: a block is not as long as it tells; {AGAIN}")
        for size in parts:
            pieces.append(raw[at : at + size])
            at += filled(size)
        _, y, w, indptr, lines, values, ids, extra = pieces
        indptr = indptr.view(np.int64)
        if self._below[part] < 0:
            self._below[part] = self._inside(head, indptr, ids)
        told = json.loads(extra.tobytes()) if head.extra else {}
        numbers = values.view(np.float64) if head.valued else self._as_many_ones(head.features)
        x: Any
        if head.kind == NAMED:
            x = KeptRows(ids.view(np.uint32), numbers, indptr, self._known(), bool(head.plain))
        else:
            kind = np.int64 if head.kind == LARGE else np.uint32
            below = int(self._below[part]) if head.kind == SMALL else None
            x = IntRows(ids.view(kind), numbers, indptr, bool(head.plain), below)
        labels: Any = json.loads(y.tobytes()) if head.labels else y.view(np.float64)
        listed: Any = range(head.line, head.line + head.rows)
        return RowsBlock(
            x, labels, w.view(np.float64) if head.weighted else None, self.about["source"],
            listed if head.line else lines.view(np.int64).tolist(), None, told.get("ids"),
            first, told.get("places"),
        )  # fmt: skip

    def _inside(self, head: BlockHead, indptr: Any, ids: Any) -> int:
        """What ids of 32 bits are below; what would lead kernels out of their arrays is refused."""
        some = head.features and head.kind != LARGE
        below = max_id(ids.view(np.uint32)) + 1 if some else 0
        good = (
            head.kind <= NAMED
            and indptr[0] == 0
            and indptr[-1] == head.features
            and (np.diff(indptr) >= 0).all()
        )
        if head.kind == NAMED:
            good = good and below <= self.about["names"]
        if not good:
            raise Lost(f"{self.name} is damaged: rows or names are out of order; {AGAIN}")
        return below

    def _known(self) -> KeptNames:
        if self._names is None:
            self._names = KeptNames(self._read(-3).view(np.uint64), self._name_texts)
        return self._names

    def _name_texts(self) -> tuple[Any, Any]:
        # A copy, which can be written: kernels are compiled for such arrays.
        return self._read(-2).view(np.int64), self._read(-1).copy()


def _cut(block: RowsBlock, lo: int, hi: int) -> RowsBlock:
    """Some rows of a block."""
    w, ids, places = block.w, block.ids, block.places
    return RowsBlock(
        block.x[lo:hi], block.y[lo:hi], None if w is None else w[lo:hi], block.name,
        block.lines[lo:hi], None, None if ids is None else ids[lo:hi],
        block.first + lo, None if places is None else places[lo:hi],
    )  # fmt: skip
