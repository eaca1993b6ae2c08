"""The bytes of a file in chunks of whole lines, and what can go wrong as they are read."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np

from streaml1.sources.row_cache.layout import MARK
from streaml1.sources.source import Lost, SourceError
from streaml1.text.structural_index import PAD

__all__ = ["CHUNK", "Chunk", "Chunks", "Ended", "Wait"]

LEAST, FIRST, CHUNK = 2**17, 2**19, 3 * 2**19
"""Bytes that are read and parsed at once: at least, at first, and at most."""

FEATURES = 2**17
"""As many as are parsed at once, about: what is made of them is to stay in the cache."""

Wait = Callable[[Callable[[int], Any], int], Any]
"""``wait(read, size)``: ``read(size)``, or None where the wait for it is to end."""

Chunk = tuple[Any, int, int, int]
"""``(buffer, lo, hi, free)``, as `parsed_lines.Parser.read_at` takes it."""

BOM = b"\xef\xbb\xbf"
PACKED = b"\x1f\x8b"  # what gzip begins with


class Ended(Exception):
    """Raised where the reading is to end, which is not the end of the file."""


def _memory(n: int) -> Any:
    """Return memory for n bytes of text, followed by room for twice as many bytes of names."""
    return np.empty(3 * n + 4 * PAD + 256, np.uint8)


class _Buffer:
    """Memory that a file is read into: lines that are whole are given away, the rest is kept."""

    def __init__(self, size: int) -> None:
        self.size = self.wanted = size
        self.first = self.last = 0
        self._text: Any = None
        self._new()

    def _new(self) -> None:
        """Move the retained bytes to the beginning of new memory: rows may view the old one."""
        kept = None if self._text is None else self._text[self.first : self.last].copy()
        self.bytes: Any = None
        self._text = None
        self.bytes = _memory(self.size)
        self._text = self.bytes[PAD:]
        self.first, self.last = 0, 0 if kept is None else len(kept)
        if kept is not None:
            self._text[: self.last] = kept

    def room(self, most: int) -> memoryview:
        """Where the next bytes go, after more room has been made, up to `most`; may be empty."""
        if self.first:
            # Of a line that is longer some is kept.
            self.size = min(max(self.wanted, 2 * (self.last - self.first)), most)
            self._new()
        elif self.last == self.size and self.size < most:
            self.size = min(2 * self.size, most)
            self._new()
        return memoryview(self._text)[self.last : self.size]

    def lines(self, at_end: bool) -> Chunk | None:
        """All lines that are whole; at the end the last one is."""
        if at_end and self.last > self.first:
            self._text[self.last] = 10
            self.last += int(self._text[self.last - 1] != 10)
        stop = self._after_newline()
        if stop <= self.first:
            return None
        first, self.first = self.first, stop
        return self.bytes, PAD + first, PAD + stop, PAD + self.last + PAD

    def _after_newline(self) -> int:
        """Behind the last newline; 0 if there is none."""
        step, hi = 2**12, self.last
        while hi > self.first:
            lo = max(self.first, hi - step)
            found: int = self._text[lo:hi].tobytes().rfind(b"\n")
            if found >= 0:
                return lo + found + 1
            step, hi = 2 * step, lo
        return 0


class Chunks:
    """A file read to its end, without a byte order mark.

    Parameters
    ----------
    file
        The file, unpacked.
    name
        What the user calls it.
    most
        So many bytes in a line are refused: a file that is no text must not fill the memory.
    wait
        Calls what may wait.
    packed
        Whether it is unpacked from gzip.
    fill
        Whether a chunk may wait for the buffer to be full: not where others write the file.

    Attributes
    ----------
    number : int
        How many lines were read before; who reads them counts.

    """

    def __init__(
        self,
        file: BinaryIO,
        name: str,
        most: int,
        wait: Wait | None = None,
        packed: bool = False,
        fill: bool = False,
    ) -> None:
        self.number = 0
        self._name = name
        self._most = most
        self._fill = fill
        self._packed = packed
        read: Any = file
        into = read.readinto1
        self._into = into if wait is None else lambda room: wait(lambda n: into(room), len(room))
        self._buffer = _Buffer(min(FIRST, CHUNK, most))
        self._begun = False

    def fit(self, size: int, features: int) -> None:
        """Read as many bytes at once from now on as is good, where so many had so many features."""
        wanted = size * FEATURES // max(1, features)
        self._buffer.wanted = min(max(wanted, LEAST), CHUNK, self._most)

    def __iter__(self) -> Iterator[Chunk]:
        """Give all lines.

        Raises
        ------
        SourceError
            One sentence, where the file cannot be read on; what came before has been given.
        Ended
            Where a wait has ended.

        """
        at_end, failure = False, None
        while not at_end:
            try:
                at_end = self._read()
            except (OSError, EOFError, zlib.error) as error:
                failure = error
            chunk = self._buffer.lines(at_end)
            if chunk is not None:
                yield self._without_mark(chunk)
            del chunk  # free its memory before the next chunk is read
            if failure is not None:
                raise self._unreadable(failure) from None

    def _read(self) -> bool:
        """Read once, or until the buffer is full; whether the file has ended."""
        while True:
            room = self._buffer.room(self._most)
            if not room:
                raise SourceError(
                    f"{self._name}:{self.number + 1}: more than {self._most} bytes in a line: "
                    "is it text?"
                )
            n = self._into(room)
            if n is None:
                raise Ended
            self._buffer.last += n
            if n == 0 or n == len(room) or not self._fill:
                return bool(n == 0)

    def _without_mark(self, chunk: Chunk) -> Chunk:
        buffer, lo, hi, free = chunk
        if not self._begun:
            if buffer[lo : lo + len(MARK)].tobytes() == MARK:
                raise SourceError(
                    f"{self._name} is a file of rows: have its name end in .rows, without --format"
                )
            first = buffer[lo : lo + 3].tobytes()
            if first.startswith(PACKED) and self._packed:
                raise SourceError(f"{self._name} is packed by gzip twice: unpack it once")
            if first.startswith(PACKED):
                raise SourceError(
                    f"{self._name} is packed by gzip: have its name end in .gz, or its format, as "
                    "in --format jsonl.gz"
                )
            if first == BOM:
                lo += 3
        self._begun = True
        return buffer, lo, hi, free

    def _unreadable(self, error: Exception) -> SourceError:
        if isinstance(error, gzip.BadGzipFile) and self.number == 0:
            where = "its name" if self._name.lower().endswith(".gz") else "its format"
            return SourceError(
                f"{self._name} is not packed by gzip: take .gz from {where} if it is plain text"
            )
        reason = str(error).rstrip(".")
        place = f"{self._name}:{self.number + 1}"
        return Lost(
            f"{place}: nothing can be read from here on: {reason}; is the file whole? Get it again"
        )
