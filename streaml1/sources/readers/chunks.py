"""Read a file in chunks of whole lines, and report what can go wrong while reading."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from streaml1.core.named_options import named_option
from streaml1.core.types import Bytes
from streaml1.sources.readers.parsed_lines import NEWLINE, Chunk, text_buffer
from streaml1.sources.readers.signatures import HEAD_SIZE, codec_of, foreign_type
from streaml1.sources.row_cache.layout import MARK
from streaml1.sources.source import Lost, SourceError
from streaml1.text.structural_index import PAD

__all__ = ["CHUNK", "ChunkReader", "ReadingStopped", "Wait"]

MIN_CHUNK, FIRST_CHUNK, CHUNK = 2**17, 2**19, 3 * 2**19
"""Bytes that are read and parsed at a time: minimum, initial and maximum."""

FEATURES = 2**17
"""Target number of features in a chunk: its rows should stay in the second-level cache."""

Wait = Callable[[Callable[[int], Any], int], Any]
"""``wait(read, size)`` returns ``read(size)``, or None if a stop was requested while waiting."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ReadingStopped(Exception):
    """Raised if reading must stop before the end of the file."""


class _Buffer:
    """The memory a file is read into: whole lines are handed out, the rest is retained."""

    def __init__(self, size: int) -> None:
        self.size = self.wanted_size = size
        self.first = self.last = 0
        self._text: Any = None
        self._allocate()

    def _allocate(self) -> None:
        """Move the retained bytes to the beginning of new memory: rows may view the old one."""
        retained = None if self._text is None else self._text[self.first : self.last].copy()
        self.bytes: Any = None
        self._text = None  # free the old memory before the new one is allocated
        self.bytes = text_buffer(self.size)
        self._text = self.bytes[PAD:]
        self.first, self.last = 0, 0 if retained is None else len(retained)
        if retained is not None:
            self._text[: self.last] = retained

    def free_space(self, max_size: int) -> memoryview:
        """Return where to read the next bytes; empty if a line fills all of `max_size` bytes."""
        if self.first:
            # Lines were handed out. A line that is not complete yet needs more than its own size.
            self.size = min(max(self.wanted_size, 2 * (self.last - self.first)), max_size)
            self._allocate()
        elif self.last == self.size and self.size < max_size:
            self.size = min(2 * self.size, max_size)
            self._allocate()
        return memoryview(self._text)[self.last : self.size]

    def take_lines(self, at_end: bool) -> Chunk | None:
        """Hand out all whole lines; at the end of the file the last line counts as whole."""
        if at_end and self.last > self.first:
            self._text[self.last] = NEWLINE
            self.last += int(self._text[self.last - 1] != NEWLINE)
        stop = self._after_last_newline()
        if stop <= self.first:
            return None
        first, self.first = self.first, stop
        return Chunk(self.bytes, PAD + first, PAD + stop, PAD + self.last + PAD)

    def _after_last_newline(self) -> int:
        """Return the position after the last newline, or 0 if there is none."""
        step, hi = 2**12, self.last
        while hi > self.first:
            lo = max(self.first, hi - step)
            found: int = self._text[lo:hi].tobytes().rfind(b"\n")
            if found >= 0:
                return lo + found + 1
            step, hi = 2 * step, lo
        return 0


class ChunkReader:
    """Iterate over the lines of a file, without its byte order mark, in chunks.

    Parameters
    ----------
    file
        The file, decompressed.
    name
        Its name in errors.
    max_line
        Longer lines are rejected, in bytes: a file that is not text must not fill the memory.
    wait
        Calls functions that may block.
    codec
        The program whose files are decompressed here; None if the file is not compressed.
    fill
        Whether to read until the buffer is full. False if the file is written while it is read.
    has_input
        Waits for a moment, and returns whether there are bytes to read, or the file has ended. None
        if that cannot be known, or reading never blocks for long.

    Attributes
    ----------
    number : int
        How many lines were read before; the caller counts.
    """

    def __init__(
        self,
        file: BinaryIO,
        name: str,
        max_line: int,
        wait: Wait | None = None,
        codec: str | None = None,
        fill: bool = False,
        has_input: Callable[[], bool] | None = None,
    ) -> None:
        self.number = 0
        self._name = name
        self._max_line = max_line
        self._fill = fill
        self._has_input = has_input
        self._is_drained = False  # whether the last read took everything that was there
        self._codec = codec
        raw: Any = file
        read: Callable[[memoryview], int | None] = raw.readinto1
        if wait is None:
            self._read_into = read
        else:
            self._read_into = lambda space: wait(lambda n: read(space), len(space))
        self._buffer = _Buffer(min(FIRST_CHUNK, CHUNK, max_line))
        self._started = False

    def adapt_size(self, size: int, n_features: int) -> None:
        """Choose the size of the next chunks, given the size and features of the last one."""
        wanted = size * FEATURES // max(1, n_features)
        self._buffer.wanted_size = min(max(wanted, MIN_CHUNK), CHUNK, self._max_line)

    def __iter__(self) -> Iterator[Chunk | None]:
        """Yield all lines, and None when the input pauses.

        Raises
        ------
        SourceError
            If the file cannot be read further. All lines before are yielded first.
        ReadingStopped
            If a wait was ended.
        """
        at_end, failure = False, None
        while not at_end:
            # The file object may hold bytes that polling does not see, unless a read took them all.
            if self._has_input is not None and self._is_drained and not self._has_input():
                yield None
            try:
                at_end = self._read()
            except (OSError, EOFError, zlib.error) as error:
                failure = error
            chunk = self._buffer.take_lines(at_end)
            if chunk is not None:
                yield self._without_mark(chunk)
            del chunk  # free its memory before the next chunk is read
            if failure is not None:
                raise self._read_error(failure) from None

    def _read(self) -> bool:
        """Read once, or until the buffer is full; return whether the file has ended."""
        while True:
            space = self._buffer.free_space(self._max_line)
            if not space:
                raise SourceError(
                    f"{self._name}:{self.number + 1}: the line has more than {self._max_line} "
                    "bytes: is the file text?"
                )
            n = self._read_into(space)
            if n is None:
                raise ReadingStopped
            self._buffer.last += n
            self._is_drained = n < len(space)
            if n == 0 or n == len(space) or not self._fill:
                return bool(n == 0)

    def _without_mark(self, chunk: Chunk) -> Chunk:
        if not self._started:
            self._check_type(chunk.text[:HEAD_SIZE])
            if chunk.text[: len(BYTE_ORDER_MARK)].tobytes() == BYTE_ORDER_MARK:
                chunk = chunk._replace(lo=chunk.lo + len(BYTE_ORDER_MARK))
        self._started = True
        return chunk

    def _check_type(self, start: Bytes) -> None:
        """Reject files that begin like another type of file."""
        head = start.tobytes()
        if head.startswith(MARK):
            raise SourceError(
                f"{self._name} is a .rows file; name it so that it ends in .rows, and omit "
                f"{named_option('format')}"
            )
        inner = codec_of(head)
        if inner is not None:  # that of `self._codec` is decompressed
            times = "twice" if inner == self._codec else f"and then by {self._codec}"
            raise SourceError(f"{self._name} is compressed by {inner} {times}; decompress it once")
        foreign = foreign_type(head)
        if foreign is not None:
            name = "standard input" if self._name == "-" else self._name
            raise SourceError(foreign.sentence(name, self._codec))

    def _read_error(self, error: Exception) -> SourceError:
        reason = str(error).rstrip(".")
        place = f"{self._name}:{self.number + 1}"
        return Lost(f"{place}: the file cannot be read from here on: {reason}; get it again")
