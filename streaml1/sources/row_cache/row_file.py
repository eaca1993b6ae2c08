"""`.rows` files as sources: parsed examples that `streaml1 convert` has stored."""

from __future__ import annotations

import bisect
import hashlib
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from streaml1.core import exit_codes as exits
from streaml1.core.named_options import by_caller
from streaml1.core.types import Bytes, Floats, Indptr, Ints, SourcePosition
from streaml1.sources.row_cache.file_rows import FileNames, FileRows
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
from streaml1.sources.row_cache.validation import (
    Invalid,
    check_block,
    check_extra,
    check_hashes,
    check_head,
    check_labels,
    check_names,
    read_index,
    read_json,
)
from streaml1.sources.source import (
    Block,
    Lost,
    Reject,
    SourceError,
    Unavailable,
    check_block_size,
    require_count,
)
from streaml1.text.parsed_rows import IntRows

__all__ = ["RowsFile", "slice_block"]

_UNKNOWN_BOUND = -1


@dataclass(frozen=True, slots=True)
class RowsBlock(Block):
    """Consecutive examples of a `.rows` file; `name` and `lines` are those of the original source.

    Parameters
    ----------
    first
        How many examples of the file are before them.
    places
        Where each example was read; None if its line number says it all.
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

    def blocks(self, size: int, reject: Reject) -> Iterator[RowsBlock]:
        """Yield blocks of at most `size` examples, from the position that `begin` has set."""
        check_block_size(size)
        skipped, self._skipped = self._skipped, 0
        return self._read_blocks(size, skipped)

    def _read_blocks(self, size: int, skipped: int) -> Iterator[RowsBlock]:
        if self._open()[0] != self._digest:
            raise Lost(f"{self.name} was replaced while it was read; start again")
        ends = np.cumsum(self._parts[:-3, 2]).tolist()
        for part in range(bisect.bisect_right(ends, skipped), len(ends)):
            first = ends[part] - int(self._parts[part, 2])
            block = self._decode_block(self._read_part(part), first, part)
            n, lo = len(block), max(0, skipped - block.first)
            while lo < n:
                hi = min(n, lo + size)
                yield block if (lo, hi) == (0, n) else slice_block(block, lo, hi)
                lo = hi

    # Positions

    def identity(self) -> dict[str, Any]:
        """Return what must be equal for a position to be valid, by name."""
        return {"source": "rows", "sha256": self._digest}

    def begin(self, at: SourcePosition | None) -> SourcePosition:
        """Start the next reading at a position, or at the beginning (None); return the position."""
        self._skipped = 0 if at is None else require_count(at["example"], "example")
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
                f"{self.name} is not a .rows file; {_remedy()}, or rename it after its format"
            )
        status = os.fstat(file.fileno())
        size = status.st_size
        if len(raw) < HEADER.size:
            raise self._truncated(size, HEADER.size)
        _, version, zero, index_offset, n, digest = HEADER.unpack(raw)
        if version != VERSION or zero:
            raise SourceError(
                f"{self.name} has version {version} of the .rows format, and this streaml1 reads "
                f"version {VERSION}; upgrade streaml1, or {_remedy()}"
            )
        if size < index_offset + n:
            raise self._truncated(size, index_offset + n)
        file.seek(index_offset)
        raw = file.read(n)
        if hashlib.sha256(raw).digest() != digest:
            raise Lost(f"{self.name} is damaged: the checksum of its index is wrong; {_remedy()}")
        if self._map is None:
            # A private mapping is writable, as kernels require of arrays, but is never written.
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        try:
            index = read_index(raw, index_offset)
        except Invalid as invalid:
            raise self._damaged(invalid) from None
        stamp = status.st_ino, size, status.st_mtime_ns, status.st_ctime_ns
        if stamp != self._stamp:
            self._stamp, self._checked = stamp, np.zeros(len(index.parts), bool)
            self._id_bounds = np.full(len(index.parts), _UNKNOWN_BOUND)
        return digest.hex(), index

    def _damaged(self, reason: object) -> Lost:
        return Lost(f"{self.name} is damaged: {reason}; {_remedy()}")

    def _truncated(self, size: int, expected: int) -> Lost:
        return Lost(f"{self.name} is truncated: it has {size:,} of {expected:,} bytes; {_remedy()}")

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
                    f"{self.name} is damaged after byte {offset:,}: a checksum is wrong; "
                    f"{_remedy()}"
                )
            self._checked[part] = True
        return raw

    def _decode_block(self, raw: Bytes, first: int, part: int) -> RowsBlock:
        try:
            return self._validated_block(raw, first, part)
        except Invalid as invalid:
            raise self._damaged(invalid) from None

    def _validated_block(self, raw: Bytes, first: int, part: int) -> RowsBlock:
        fields = raw[: 8 * len(BlockHead._fields)].view(np.int64).tolist()
        if len(fields) < len(BlockHead._fields):
            raise Invalid("a block has the wrong size")
        head = BlockHead._make(fields)
        check_head(head, int(self._parts[part, 2]))
        pieces, offset = [], 0
        sizes = part_sizes(head)
        if sum(map(padded_size, sizes)) != len(raw):
            raise Invalid("a block has the wrong size")
        for size in sizes:
            pieces.append(raw[offset : offset + size])
            offset += padded_size(size)
        _, y, w, indptr_bytes, line_bytes, value_bytes, id_bytes, extra_bytes = pieces
        indptr: Indptr = indptr_bytes.view(np.int64)
        ids: Any = id_bytes.view(np.int64 if head.kind == LARGE else np.uint32)
        values = value_bytes.view(np.float64) if head.valued else self._shared_ones(head.features)
        if self._id_bounds[part] == _UNKNOWN_BOUND:
            self._id_bounds[part] = check_block(head, indptr, ids, values, self.about["names"])
        plain = bool(head.plain)
        x: Any
        if head.kind == NAMED:
            x = FileRows(ids, values, indptr, self._file_names(), plain)
        else:
            bound = int(self._id_bounds[part]) if head.kind == SMALL else None
            x = IntRows(ids, values, indptr, plain, bound)
        labels: Any
        if not head.labels:
            labels = y.view(np.float64)
        else:
            labels = read_json(y.tobytes(), "the labels of a block")
            check_labels(labels, head.rows)
        extra: dict[str, Any] = {}
        if head.extra:
            extra = read_json(extra_bytes.tobytes(), "the ids of a block")
            check_extra(extra, head.rows)
        lines: Any = range(head.line, head.line + head.rows)
        return RowsBlock(
            x, labels, w.view(np.float64) if head.weighted else None, self.about["source"],
            lines if head.line else line_bytes.view(np.int64).tolist(), None, extra.get("ids"),
            first, extra.get("places"),
        )  # fmt: skip

    def _shared_ones(self, n: int) -> Floats:
        """Return n ones, the values of features that are not stored; blocks share them."""
        if n > len(self._ones):
            self._ones = np.ones(n)
        return self._ones[:n]

    def _file_names(self) -> FileNames:
        if self._names is None:
            hashes = self._read_part(-3).view(np.uint64)
            check_hashes(hashes, self.about["names"])
            self._names = FileNames(hashes, self._read_name_text)
        return self._names

    def _read_name_text(self) -> tuple[Ints, Bytes]:
        # A copy: to read the map of a file that was truncated meanwhile would kill the process.
        ends, text = self._read_part(-2).view(np.int64), self._read_part(-1).copy()
        try:
            check_names(ends, text, self._read_part(-3).view(np.uint64))
        except Invalid as invalid:
            raise self._damaged(invalid) from None
        return ends, text


def _remedy() -> str:
    return f"create it again with {by_caller('streaml1 convert', 'streaml1.training.convert')}"


def slice_block(block: RowsBlock, lo: int, hi: int) -> RowsBlock:
    """Return some rows of a block."""
    w, ids, places = block.w, block.ids, block.places
    return RowsBlock(
        block.x[lo:hi], block.y[lo:hi], None if w is None else w[lo:hi], block.name,
        block.lines[lo:hi], None, None if ids is None else ids[lo:hi],
        block.first + lo, None if places is None else places[lo:hi],
    )  # fmt: skip
