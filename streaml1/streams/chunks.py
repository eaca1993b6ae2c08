"""The bytes of a file in chunks of whole lines, and what can go wrong as they are read."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np

from streaml1.parse.delimiters import PAD
from streaml1.streams.mapped import Mapping, Unmapped
from streaml1.streams.pool import Pool
from streaml1.streams.source import Lost, SourceError

__all__ = ["CHUNK", "Chunk", "Chunks", "Ended", "Wait"]

LEAST, FIRST, CHUNK = 2**17, 2**19, 2**22
"""Bytes that are read and parsed at once: at least, at first, and at most."""

FEATURES = 2**17
"""As many as are parsed at once, about: what is made of them is to stay in the cache."""

Wait = Callable[[Callable[[int], Any], int], Any]
"""``wait(read, size)``: ``read(size)``, or None where the wait for it is to end."""

Chunk = tuple[Any, int, int, int]
"""``(buffer, lo, hi, free)``, as `streaml1.streams.parsed.Parser.read_at` takes it."""

BOM = b"\xef\xbb\xbf"
PACKED = b"\x1f\x8b"  # what gzip begins with


class Ended(Exception):
    """Raised where the reading is to end, which is not the end of the file."""


class _Copies:
    """A file read into memory: lines that are whole are given away, the rest is kept."""

    def __init__(self, into: Callable[[Any], int | None], size: int, most: int, fill: bool) -> None:
        self._into = into
        self._pool = Pool(_memory)
        self._most = most
        self._fill = fill
        self._size = self.wanted = size
        self.first = self._last = 0
        self._text: Any = None
        self._new()

    def _new(self) -> None:
        """Have the bytes that are kept first, in memory that nobody else looks at."""
        kept = None if self._text is None else self._text[self.first : self._last].copy()
        self._bytes: Any = None
        self._text = None
        (self._bytes,) = self._pool.take(self._size)
        self._text = self._bytes[PAD:]
        self.first, self._last = 0, 0 if kept is None else len(kept)
        if kept is not None:
            self._text[: self._last] = kept

    def _room(self) -> memoryview:
        """Where the next bytes go, after more room has been made; may be empty."""
        if self.first:
            # Of a line that is longer some is kept.
            self._size = min(max(self.wanted, 2 * (self._last - self.first)), self._most)
            self._new()
        elif self._last == self._size and self._size < self._most:
            self._size = min(2 * self._size, self._most)
            self._new()
        return memoryview(self._text)[self._last : self._size]

    def more(self) -> bool:
        """Read once, or until the buffer is full; whether the file has ended."""
        while True:
            room = self._room()
            if not room:
                raise _LongLine
            n = self._into(room)
            if n is None:
                raise Ended
            self._last += n
            if n == 0 or n == len(room) or not self._fill:
                return n == 0

    def lines(self, at_end: bool) -> Chunk | None:
        """All lines that are whole; at the end the last one is."""
        if at_end and self._last > self.first:
            self._text[self._last] = 10
            self._last += int(self._text[self._last - 1] != 10)
        first, stop = self.first, _after_newline(self._text, self.first, self._last)
        if stop <= first:
            return None
        self.first = stop
        return self._bytes, PAD + first, PAD + stop, PAD + self._last + PAD


class _Windows:
    """A file that is looked at where the system keeps it, from one line that is whole on."""

    def __init__(self, mapping: Mapping, size: int, most: int) -> None:
        self._mapping = mapping
        self._most = most
        self.wanted = size
        self.first = self._last = 0
        self._window: Any = None

    def more(self) -> bool:
        """Look at what is next; whether the file ends there."""
        left = self._last - self.first
        if left >= self._most:
            raise _LongLine
        self._window = None
        size = min(max(self.wanted, 2 * left), self._most)
        last = min(self.first + size, self._mapping.size)
        self._window = self._mapping.window(self.first, last)
        self._last = last
        return last == self._mapping.size

    def lines(self, at_end: bool) -> Chunk | None:
        """As `_Copies.lines`."""
        buffer, lo, free = self._window
        hi = lo + self._last - self.first
        if at_end and buffer[hi - 1] != 10:
            buffer[hi] = 10
            hi += 1
        stop = _after_newline(buffer, lo, hi)
        if stop <= lo:
            return None
        self.first += stop - lo
        self._window = None
        return buffer, lo, stop, free


def _memory(n: int) -> tuple[Any]:
    """For so many bytes of text, with room behind for twice as many of names."""
    return (np.empty(3 * n + 4 * PAD + 256, np.uint8),)


def _after_newline(text: Any, first: int, last: int) -> int:
    """Behind the last newline of a part; 0 if there is none."""
    step, hi = 2**12, last
    while hi > first:
        lo = max(first, hi - step)
        found: int = text[lo:hi].tobytes().rfind(b"\n")
        if found >= 0:
            return lo + found + 1
        step, hi = 2 * step, lo
    return 0


class _LongLine(Exception):
    """Raised where a line is longer than may be."""


class Chunks:
    """A file read to its end, without a byte order mark.

    Parameters
    ----------
    file
        The file, unpacked.
    name
        What the user calls it; its path, where it is `mapped`.
    most
        So many bytes in a line are refused: a file that is no text must not fill the memory.
    wait
        Calls what may wait.
    fill
        Whether a chunk may wait for the buffer to be full: not where others write the file.
    mapped
        Whether the file is one of a disk, and may be looked at without a copy.

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
        fill: bool = False,
        mapped: bool = False,
    ) -> None:
        self.number = 0
        self._name = name
        self._most = most
        self._fill = fill
        self._file: Any = file
        self._wait = wait
        self._begun = False
        self._part = self._windows(mapped) or self._copies()

    def _windows(self, mapped: bool) -> _Windows | None:
        if not mapped:
            return None
        try:
            mapping = Mapping(self._file.fileno(), self._name)
        except Unmapped:
            return None
        return _Windows(mapping, min(FIRST, CHUNK, self._most), self._most)

    def _copies(self) -> _Copies:
        into, wait = self._file.readinto1, self._wait
        waited = into if wait is None else lambda room: wait(lambda n: into(room), len(room))
        return _Copies(waited, min(FIRST, CHUNK, self._most), self._most, self._fill)

    def fit(self, size: int, features: int) -> None:
        """Read as many bytes at once from now on as is good, where so many had so many features."""
        wanted = size * FEATURES // max(1, features)
        self._part.wanted = min(max(wanted, LEAST), CHUNK, self._most)

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
                at_end = self._more()
            except (OSError, EOFError, zlib.error) as error:
                failure = error
            chunk = self._part.lines(at_end)
            if chunk is not None:
                yield self._without_mark(chunk)
            del chunk  # so that its memory may be taken for the next
            if failure is not None:
                raise self._unreadable(failure) from None

    def _more(self) -> bool:
        """Have more of the file; whether it has ended."""
        try:
            return self._part.more()
        except _LongLine:
            raise SourceError(
                f"{self._name}:{self.number + 1}: more than {self._most} bytes in a line: "
                "is it text?"
            ) from None
        except Unmapped:
            self._file.seek(self._part.first)
            self._part = self._copies()
            return self._part.more()

    def _without_mark(self, chunk: Chunk) -> Chunk:
        buffer, lo, hi, free = chunk
        if not self._begun:
            first = buffer[lo : lo + 3].tobytes()
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
            return SourceError(
                f"{self._name} is not packed by gzip: take .gz from its name if it is plain text"
            )
        reason = str(error).rstrip(".")
        place = f"{self._name}:{self.number + 1}"
        return Lost(
            f"{place}: nothing can be read from here on: {reason}; is the file whole? Get it again"
        )
