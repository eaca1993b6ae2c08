"""Several `.rows` files as one stream, of which any range can be read."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from streaml1.sources.row_cache.row_file import RowsFile, slice_block
from streaml1.sources.source import Block, Lost, Reject, check_block_size

__all__ = ["RowRange", "RowStream"]


class _Piece(NamedTuple):
    """Examples `lo` to `hi` of a file, which is known by the SHA-256 of its index."""

    path: str
    digest: str
    lo: int
    hi: int


class RowRange:
    """Consecutive examples of `.rows` files, as a source.

    It can be pickled and read where the files have the same paths. They are opened for each
    reading.
    """

    block = RowsFile.block
    texts = RowsFile.texts

    def __init__(self, name: str, pieces: Sequence[_Piece]) -> None:
        self.name = name
        self._pieces = pieces

    def __len__(self) -> int:
        """Return the number of examples."""
        return sum(piece.hi - piece.lo for piece in self._pieces)

    @property
    def place(self) -> str:
        """The files and the numbers of the examples, counted from 1, such as `a.rows:1-500`."""
        return ", ".join(f"{path}:{lo + 1}-{hi}" for path, _, lo, hi in self._pieces)

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Yield blocks of at most `size` examples.

        Raises
        ------
        SourceError
            If a file cannot be read, is damaged, or was replaced.
        """
        check_block_size(size)
        return self._blocks(size, reject)

    def _blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        for path, digest, lo, hi in self._pieces:
            file = RowsFile(path)
            if file.identity()["sha256"] != digest:
                raise Lost(f"{path} was replaced while it was read; start again")
            file.begin({"example": lo})
            for block in file.blocks(size, reject):
                left = hi - block.first
                yield block if len(block) <= left else slice_block(block, 0, left)
                if len(block) >= left:
                    break


class RowStream:
    """The examples of `.rows` files in their order.

    Raises
    ------
    SourceError
        If one is not a `.rows` file, is damaged or cannot be read.
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        files = [RowsFile(path) for path in paths]
        self.name = files[0].name if len(files) == 1 else f"{len(files):,} files"
        self.digests = [str(file.identity()["sha256"]) for file in files]
        self._paths = [file.name for file in files]
        self._ends = list(accumulate(map(len, files)))

    def __len__(self) -> int:
        """Return the number of examples."""
        return self._ends[-1]

    def range(self, lo: int, hi: int) -> RowRange:
        """Return the examples `lo` to `hi` - 1, counted from 0."""
        pieces = []
        for k in range(bisect.bisect_right(self._ends, lo), len(self._ends)):
            before = self._ends[k - 1] if k else 0
            if before >= hi:
                break
            first, last = max(lo, before) - before, min(hi, self._ends[k]) - before
            if first < last:
                pieces.append(_Piece(self._paths[k], self.digests[k], first, last))
        return RowRange(self.name, pieces)
