"""`.rows` files as sources: parsed examples that `streaml1 convert` has stored."""

from __future__ import annotations

import bisect
import hashlib
import json
import mmap
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, overload

import numpy as np
from numpy.typing import NDArray

from streaml1.core import exit_codes as exits
from streaml1.core.rows import max_id
from streaml1.core.types import Bytes, Floats, Hashes, Ids, Indptr, Ints, SourcePosition, Values
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
    padded_size,
    part_sizes,
)
from streaml1.sources.source import (
    Block,
    Lost,
    Reject,
    SourceError,
    Unavailable,
    check_block_size,
)
from streaml1.text.parsed_rows import IntRows, NamedRows, Spans, entries_of_rows

__all__ = ["RowsFile"]

REMEDY = "create it again with streaml1 convert"

_UNKNOWN_BOUND = -1


class FileNames:
    """The feature names of a file: their hashes, and their text, which is read on demand.

    Parameters
    ----------
    hashes
        The hashes of the names, uint64, by index.
    read
        Returns where each name ends in the text, and the text.
    """

    def __init__(self, hashes: Hashes, read: Callable[[], tuple[Ints, Bytes]]) -> None:
        self.hashes = hashes
        self._read = read
        self._contained: dict[str, bool] = {}

    @cached_property
    def _begins_and_text(self) -> tuple[Ints, Bytes]:
        """Where each name begins, then where the last one ends; and the text."""
        ends, text = self._read()
        return np.concatenate([[0], ends]), text

    @cached_property
    def _text(self) -> str | bytes:
        raw: bytes = self.bytes.tobytes()
        return raw.decode() if raw.isascii() else raw

    @property
    def bytes(self) -> Bytes:
        """The text of all names."""
        return self._begins_and_text[1]

    def may_contain(self, text: str) -> bool:
        """Return whether a name may contain `text`; the answer is cached."""
        if text not in self._contained:
            self._contained[text] = text.encode() in self.bytes.tobytes()
        return self._contained[text]

    def spans(self, ids: Any) -> Spans:
        """Return where in `bytes` some names are, as `NamedRows` stores it."""
        begins, _ = self._begins_and_text
        sizes = begins[ids + 1] - begins[ids]
        spans: Spans = begins[ids].astype(np.uint64) << np.uint64(32) | sizes.astype(np.uint64)
        return spans

    def lookup(self, ids: Any) -> list[str]:
        """Return some names by their indices."""
        begins, text = self._begins_and_text[0], self._text
        pairs = zip(begins[ids].tolist(), begins[ids + 1].tolist(), strict=True)
        if isinstance(text, str):
            return [text[lo:hi] for lo, hi in pairs]
        return [text[lo:hi].decode("utf-8", "surrogatepass") for lo, hi in pairs]


class FileRows(NamedRows):
    """Examples whose features are indices into the names of a file.

    Parameters
    ----------
    ids
        The index of the name of each feature, uint32.
    values
        The feature values, float64.
    indptr
        Row i is the slice `indptr[i]:indptr[i + 1]`, int64.
    file_names
        The names.
    plain
        True if no row has a duplicate name, a zero or a rejected value.
    """

    __slots__ = ("_csr", "file_names", "ids")

    def __init__(
        self, ids: Ids, values: Values, indptr: Indptr, file_names: FileNames, plain: bool = False
    ) -> None:
        self.distinct_names = self.values_checked = plain
        self.header = None
        self.ids = ids
        self.values = values
        self.indptr = indptr
        self.file_names = file_names
        self._csr: tuple[Hashes, Values, Indptr] | None = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @overload
    def __getitem__(self, k: int) -> dict[Hashable, Any]: ...

    @overload
    def __getitem__(self, k: slice) -> FileRows: ...

    def __getitem__(self, k: int | slice) -> dict[Hashable, Any] | FileRows:
        if isinstance(k, slice):
            lo, hi, _ = k.indices(len(self))
            if (lo, hi) == (0, len(self)):
                return self
            indptr = self.indptr[lo : hi + 1]
            return FileRows(self.ids, self.values, indptr, self.file_names, self.plain)
        row = range(len(self))[k]
        lo, hi = int(self.indptr[row]), int(self.indptr[row + 1])
        x: dict[Hashable, Any] = {}
        names = self.file_names.lookup(self.ids[lo:hi].astype(np.int64))
        for name, value in zip(names, self.values[lo:hi].tolist(), strict=True):
            x[name] = x.get(name, 0.0) + value
        return x

    def take(self, rows: Ints) -> FileRows:
        """Return some rows, in ascending order."""
        entries, indptr = entries_of_rows(self.indptr, rows)
        return FileRows(
            self.ids[entries], self.values[entries], indptr, self.file_names, self.plain
        )

    def csr(self) -> tuple[Hashes, Values, Indptr]:
        """Return the hashes of the names, `values` and `indptr` restricted to these rows."""
        if self._csr is None:
            lo, hi = int(self.indptr[0]), int(self.indptr[-1])
            hashes = self.file_names.hashes[self.ids[lo:hi]]
            self._csr = hashes, self.values[lo:hi], self.indptr - lo
        return self._csr

    @property
    def names(self) -> Bytes:  # type: ignore[override]
        """The text of the names of the file."""
        return self.file_names.bytes

    def may_contain(self, text: str) -> bool:
        """Return whether a name may contain `text`: whether the names of the file do."""
        return self.file_names.may_contain(text)

    def name_spans(self) -> Spans:
        """Return where in `names` the name of each feature is."""
        return self.file_names.spans(self._own_ids())

    def _own_ids(self) -> Ints:
        ids: Ints = self.ids[int(self.indptr[0]) : int(self.indptr[-1])].astype(np.int64)
        return ids

    def select_features(self, positions: Any, values: Values, indptr: Indptr) -> FileRows:
        """Return the same number of rows with only the features at `positions`."""
        ids: Any = self._own_ids()[positions]
        return FileRows(ids, values, indptr, self.file_names)

    def feature_names(self, positions: Any) -> list[str]:
        """Return the names of the features at `positions` among those of these rows."""
        return self.file_names.lookup(self.ids[positions + int(self.indptr[0])].astype(np.int64))

    @staticmethod
    def concatenate(pieces: Sequence[Any]) -> FileRows:
        """Return the rows of all pieces in order."""
        if len(pieces) == 1:
            piece: FileRows = pieces[0]
            return piece
        spans = [slice(int(piece.indptr[0]), int(piece.indptr[-1])) for piece in pieces]
        counts = np.concatenate([np.diff(piece.indptr) for piece in pieces])
        return FileRows(
            np.concatenate([piece.ids[own] for piece, own in zip(pieces, spans, strict=True)]),
            np.concatenate([piece.values[own] for piece, own in zip(pieces, spans, strict=True)]),
            np.concatenate([[0], np.cumsum(counts)]),
            pieces[0].file_names,
        )


@dataclass(frozen=True, slots=True)
class RowsBlock(Block):
    """Consecutive examples of a `.rows` file; `name` and `lines` are those of the original source.

    Parameters
    ----------
    first
        How many examples of the file are before them.
    places
        Where each example was read; None if its line tells.
    """

    first: int = 0
    places: Sequence[str] | None = None

    def after(self, rows: int) -> Any:
        """Return the position after the first `rows` examples."""
        return {"example": self.first + rows}

    def place(self, row: int) -> str:
        """Return where an example was read before it was converted."""
        return f"{self.name}:{self.lines[row]}" if self.places is None else self.places[row]


class RowsFile:
    """The examples of a file that `streaml1 convert` has written.

    Parameters
    ----------
    path
        The file.

    Attributes
    ----------
    about : dict
        What the file says about itself: its source and format, how many rows, features and names it
        holds, and which version of streaml1 wrote it.

    Raises
    ------
    SourceError
        If the file is not a `.rows` file, is damaged, or has a newer format.
    """

    block = 2**13
    texts: tuple[str, ...] = ()  # categories are whole names in these files

    def __init__(self, path: str | Path) -> None:
        self.name = str(path)
        self._skipped = 0
        self._names: FileNames | None = None
        self._map: Any = None
        self._ones: Floats = np.ones(0)
        self._stamp: Any = None  # inode, size and times of the file that was checked
        self._checked: Any = None  # whether the checksum of each part was verified
        self._id_bounds: Any = None  # the bound of the ids of each block, once it is known
        self._digest, (self.about, self._parts) = self._open()

    def __len__(self) -> int:
        """Return the number of examples."""
        return int(self.about["rows"])

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Yield blocks of at most `size` examples, from the position that `begin` has set."""
        check_block_size(size)
        skipped, self._skipped = self._skipped, 0
        return self._read_blocks(size, skipped)

    def _read_blocks(self, size: int, skipped: int) -> Iterator[Block]:
        if self._open()[0] != self._digest:
            raise Lost(f"{self.name} was replaced while it was read; start again")
        ends = np.cumsum(self._parts[:-3, 2]).tolist()
        for part in range(bisect.bisect_right(ends, skipped), len(ends)):
            first = ends[part] - int(self._parts[part, 2])
            block = self._decode_block(self._read_part(part), first, part)
            n, lo = len(block), max(0, skipped - block.first)
            while lo < n:
                hi = min(n, lo + size)
                yield block if (lo, hi) == (0, n) else _slice_block(block, lo, hi)
                lo = hi

    # Ints

    def identity(self) -> dict[str, Any]:
        """Return what must be equal for a position to be valid, by name."""
        return {"source": "rows", "sha256": self._digest}

    def begin(self, at: SourcePosition | None) -> SourcePosition:
        """Start the next reading at a position, or at the beginning (None); return the position."""
        self._skipped = 0 if at is None else at["example"]
        return {"example": self._skipped}

    def position(self) -> Any:
        """Return None: the position is the end of the last block."""
        return None

    # The file

    def _open(self) -> tuple[str, Index]:
        """Check the file and return the SHA-256 of its index, and the index."""
        try:
            with open(self.name, "rb") as file:
                return self._read_index(file)
        except OSError as error:
            kind = Unavailable if exits.is_temporary(error) else SourceError
            raise kind(f"{self.name} cannot be read: {error.strerror or error}") from None

    def _read_index(self, file: BinaryIO) -> tuple[str, Index]:
        if not file.seekable():
            raise SourceError(f"{self.name} is a pipe: a .rows file must be on a disk")
        raw = file.read(HEADER.size)
        if raw[: len(MARK)] != MARK[: len(raw)] or not raw:
            raise SourceError(
                f"{self.name} is not a .rows file; {REMEDY}, or rename it after its format"
            )
        status = os.fstat(file.fileno())
        size = status.st_size
        if len(raw) < HEADER.size:
            raise self._truncated(size, HEADER.size)
        _, version, zero, index_offset, n, digest = HEADER.unpack(raw)
        if version != VERSION or zero:
            raise SourceError(
                f"{self.name} has version {version} of the .rows format, and this streaml1 reads "
                f"version {VERSION}; upgrade streaml1, or {REMEDY}"
            )
        if size < index_offset + n:
            raise self._truncated(size, index_offset + n)
        file.seek(index_offset)
        raw = file.read(n)
        if hashlib.sha256(raw).digest() != digest:
            raise Lost(f"{self.name} is damaged: the checksum of its index is wrong; {REMEDY}")
        if self._map is None:
            # A private mapping is writable, as kernels require of arrays, but is never written.
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        index = Index.read(raw)
        stamp = status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns
        if stamp != self._stamp:
            self._stamp, self._checked = stamp, np.zeros(len(index.parts), bool)
            self._id_bounds = np.full(len(index.parts), _UNKNOWN_BOUND)
        return digest.hex(), index

    def _truncated(self, size: int, expected: int) -> Lost:
        return Lost(f"{self.name} is truncated: it has {size:,} of {expected:,} bytes; {REMEDY}")

    def _read_part(self, part: int) -> Bytes:
        """Return the bytes of a part; verify its checksum at the first time."""
        offset, n, _, expected = self._parts[part].tolist()
        # Touching a page beyond the end of the file would kill the process (SIGBUS).
        if self._map.size() < offset + n:
            raise self._truncated(self._map.size(), offset + n)
        raw = np.frombuffer(self._map, np.uint8, n, offset)
        if not self._checked[part]:
            if checksum(raw) != expected:
                raise Lost(
                    f"{self.name} is damaged after byte {offset:,}: a checksum is wrong; {REMEDY}"
                )
            self._checked[part] = True
        return raw

    def _decode_block(self, raw: Bytes, first: int, part: int) -> RowsBlock:
        head = BlockHead._make(raw[: 8 * len(BlockHead._fields)].view(np.int64).tolist())
        pieces, offset = [], 0
        sizes = part_sizes(head)
        if sum(map(padded_size, sizes)) != len(raw):
            raise Lost(f"{self.name} is damaged: a block has the wrong size; {REMEDY}")
        for size in sizes:
            pieces.append(raw[offset : offset + size])
            offset += padded_size(size)
        _, y, w, indptr_bytes, line_bytes, value_bytes, ids, extra_bytes = pieces
        indptr: Indptr = indptr_bytes.view(np.int64)
        if self._id_bounds[part] == _UNKNOWN_BOUND:
            self._id_bounds[part] = self._check_indices(head, indptr, ids)
        extra = json.loads(extra_bytes.tobytes()) if head.extra else {}
        values = value_bytes.view(np.float64) if head.valued else self._shared_ones(head.features)
        plain = bool(head.plain)
        x: Any
        if head.kind == NAMED:
            x = FileRows(ids.view(np.uint32), values, indptr, self._file_names(), plain)
        elif head.kind == LARGE:
            x = IntRows(ids.view(np.int64), values, indptr, plain)
        else:
            bound = int(self._id_bounds[part]) if head.kind == SMALL else None
            x = IntRows(ids.view(np.uint32), values, indptr, plain, bound)
        labels: Any = json.loads(y.tobytes()) if head.labels else y.view(np.float64)
        lines: Any = range(head.line, head.line + head.rows)
        return RowsBlock(
            x, labels, w.view(np.float64) if head.weighted else None, self.about["source"],
            lines if head.line else line_bytes.view(np.int64).tolist(), None, extra.get("ids"),
            first, extra.get("places"),
        )  # fmt: skip

    def _check_indices(self, head: BlockHead, indptr: Indptr, ids: NDArray[np.uint8]) -> int:
        """Return the bound of 32-bit ids; reject what would lead kernels out of their arrays."""
        has_small_ids = head.features and head.kind != LARGE
        bound = max_id(ids.view(np.uint32)) + 1 if has_small_ids else 0
        valid = (
            head.kind <= NAMED
            and indptr[0] == 0
            and indptr[-1] == head.features
            and (np.diff(indptr) >= 0).all()
        )
        if head.kind == NAMED:
            valid = valid and bound <= self.about["names"]
        if not valid:
            raise Lost(f"{self.name} is damaged: rows or names are inconsistent; {REMEDY}")
        return bound

    def _shared_ones(self, n: int) -> Floats:
        """Return n ones, the values of features that are not stored; blocks share them."""
        if n > len(self._ones):
            self._ones = np.ones(n)
        return self._ones[:n]

    def _file_names(self) -> FileNames:
        if self._names is None:
            self._names = FileNames(self._read_part(-3).view(np.uint64), self._read_name_text)
        return self._names

    def _read_name_text(self) -> tuple[Ints, Bytes]:
        # A writable copy: kernels are compiled for writable arrays.
        return self._read_part(-2).view(np.int64), self._read_part(-1).copy()


def _slice_block(block: RowsBlock, lo: int, hi: int) -> RowsBlock:
    """Return some rows of a block."""
    w, ids, places = block.w, block.ids, block.places
    return RowsBlock(
        block.x[lo:hi], block.y[lo:hi], None if w is None else w[lo:hi], block.name,
        block.lines[lo:hi], None, None if ids is None else ids[lo:hi],
        block.first + lo, None if places is None else places[lo:hi],
    )  # fmt: skip
