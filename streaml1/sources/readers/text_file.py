"""Text files and standard input as sources: open, decode, parse chunks, gather blocks."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
import os
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from streaml1.core.types import Bytes, Ints, SourcePosition
from streaml1.sources.lazy_ids import LazyIds
from streaml1.sources.readers.avro import avro_lines
from streaml1.sources.readers.background import cores, read_ahead
from streaml1.sources.readers.chunks import ChunkReader, ReadingStopped, Wait
from streaml1.sources.readers.csv import CsvParser
from streaml1.sources.readers.encodings import utf8_file
from streaml1.sources.readers.opening import decompressed, input_poll, open_file
from streaml1.sources.readers.parsed_lines import NEWLINE, Chunk, ParsedChunk, Parser
from streaml1.sources.readers.remote import is_remote, remote_size
from streaml1.sources.source import Block, Reject, SourceError, check_block_size, require_count
from streaml1.text.parsed_rows import IntRows, NamedRows

__all__ = ["TextSource"]

MAX_LINE = 2**26
"""Bytes of the longest line: a file that is not text must not fill the memory."""

FULL_EXAMPLES, FULL_BYTES = 500, 2**18
"""A chunk with this many examples or bytes ends a block: joining its last examples with those of
the next chunk would cost more than a smaller block."""

MIN_BACKGROUND_SIZE = 2**22
"""Bytes of a file that is worth a thread."""

PATIENCE = 0.5
"""Seconds that an example from a stream without pauses waits for its block to fill."""


class _Parsing(NamedTuple):
    """A parsed chunk on its way to the blocks."""

    parsed: ParsedChunk
    first: int
    """How many lines are before the chunk."""
    text: Bytes


class TextSource:
    """The examples of a text file, or of standard input.

    Parameters
    ----------
    name
        The path or URL, or ``-`` for standard input.
    parser
        The parser of the format.
    codec
        The program that must have compressed the bytes, such as ``gzip``, since the name or the
        format ends in its suffix. Bytes that were compressed by another one, or without such a
        suffix, are decompressed, too.
    is_avro
        Whether the file is an Avro container file, whose records are read as JSON lines.
    to_lines
        Returns a file with lines instead of one that may have none.
    """

    block = 4096

    def __init__(
        self,
        name: str,
        parser: Parser,
        codec: str | None = None,
        is_avro: bool = False,
        to_lines: Callable[[BinaryIO], BinaryIO] | None = None,
    ) -> None:
        self.name = name
        self._is_avro, self._to_lines = is_avro, to_lines
        self._parser = parser
        self._codec = codec
        self._was_read = False
        self._file: BinaryIO | None = None  # the one that is being read, or was read
        self._start: dict[str, Any] = {"line": 0}
        self._stopped: Callable[[], bool] | None = None
        self._wait: Wait | None = None
        self._fills_blocks = False
        # The SHA-256 of the lines read so far, once positions are needed.
        self._digest: Any = None
        self._line = 0
        self._started_at = self._start
        self._requested: dict[str, Any] | None = None

    @property
    def texts(self) -> tuple[str, ...] | None:
        """The fields that are read as text; None if every string is."""
        return self._parser.texts

    @property
    def line(self) -> int:
        """Number of lines that were read."""
        return self._line

    @property
    def has_header(self) -> bool:
        """Whether the file begins with the names of its columns."""
        return isinstance(self._parser, CsvParser)

    def set_header_check(self, check: Callable[[Sequence[str]], None]) -> None:
        """Call a function with the names of the columns of a CSV file, before its examples."""
        if isinstance(self._parser, CsvParser):
            self._parser.on_header = check

    def is_empty(self) -> bool:
        """Return whether it is a file of no bytes, without a suffix of compressed files."""
        if is_remote(self.name):
            return self._codec is None and remote_size(self.name) == 0
        path = Path(self.name)
        return self._codec is None and path.is_file() and path.stat().st_size == 0

    def fraction_read(self) -> float | None:
        """Return the share of its bytes that was read; None of a stream, or before it is opened."""
        if self._file is None or self._is_stream():
            return None
        try:
            # A background thread may read, or close the file meanwhile.
            number = self._file.fileno()
            size = os.fstat(number).st_size
            return min(1.0, os.lseek(number, 0, os.SEEK_CUR) / size) if size else None
        except ValueError:  # it is closed
            return 1.0
        except OSError:
            return None

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Yield blocks of at most `size` examples, from the position that `begin` has set.

        Raises
        ------
        SourceError
            If the source cannot be read, or cannot be read twice.
        """
        is_stream = self._is_stream()
        if is_stream and self._was_read:
            what = "standard input" if self.name == "-" else self.name
            raise SourceError(f"{what} cannot be read twice: write it to a file and read that")
        self._was_read = True
        patience = PATIENCE if is_stream else math.inf
        start, self._start = self._start, {"line": 0}
        check_block_size(size)
        return self._gather_blocks(start, size, reject, patience)

    def _gather_blocks(
        self, start: dict[str, Any], size: int, reject: Reject, patience: float
    ) -> Iterator[Block]:
        pending = _PendingBlock(self.name)
        try:
            for parsing in self._parsed_chunks(start):
                if parsing is None:
                    if len(pending):
                        yield pending.take_block(self._block_end())
                        self._check_stop()
                    continue
                full = yield from self._add_chunk(parsing, pending, size, reject, patience)
                del parsing  # free its memory before the next chunk is read
                if len(pending) and full and not self._fills_blocks:
                    yield pending.take_block(self._block_end())
        except ReadingStopped:
            if self._fills_blocks:  # the rest of this block would be another one after a resume
                return
        except Exception:
            if len(pending):
                yield pending.take_block(self._block_end())
            raise
        if len(pending):
            yield pending.take_block(self._block_end())

    def _add_chunk(
        self,
        parsing: _Parsing,
        pending: _PendingBlock,
        size: int,
        reject: Reject,
        patience: float,
    ) -> Generator[Block, None, bool]:
        """Add the examples of a chunk to the pending ones, and yield the blocks that are complete.

        Faults are reported in order with the examples.

        Returns
        -------
        Whether the rest of the examples should become a block, although it is smaller.
        """
        parsed, first, text = parsing
        faults = deque(parsed.faults)
        lo, done = 0, 0
        # Invariant: the examples before `lo` are in blocks or pending, and `text[:done]` is behind
        # the position.
        while lo < len(parsed) or faults:
            hi = len(parsed)
            if faults:
                hi = int(np.searchsorted(parsed.lines, faults[0][0]))
            late = len(pending) > 0 and time.monotonic() - pending.started_at >= patience
            hi = min(hi, lo + (1 if late else size - len(pending)))
            if hi == lo:
                line, reason = faults.popleft()
                reject(f"{self.name}:{first + line + 1}", reason)
                continue
            pending.add(parsed, lo, hi, first)
            lo, end = hi, int(parsed.ends[hi - 1])
            self._advance(text[done:end], first + parsed.lines_read(hi - 1))
            done = end
            if late or len(pending) == size:
                yield pending.take_block(self._block_end())
                self._check_stop()
        self._advance(text[done:], first + parsed.n_lines)
        is_large = len(parsed) >= FULL_EXAMPLES or len(text) >= FULL_BYTES
        return is_large or len(pending) >= min(FULL_EXAMPLES, size / 2)

    def _parsed_chunks(self, start: dict[str, Any]) -> Iterator[_Parsing | None]:
        """Parse the file from a position on, in a background thread if that pays.

        None stands for a pause of the input.
        """
        parsed = self._parse_file(start)
        yield from read_ahead(parsed) if self._use_background() else parsed
        self._check_length(start)

    def _use_background(self) -> bool:
        """Return whether the parser releases the interpreter lock, and has a core and work."""
        if not self._parser.compiled or self._is_stream() or cores() < 2:
            return False
        if is_remote(self.name):
            return True
        with contextlib.suppress(OSError):
            return Path(self.name).stat().st_size >= MIN_BACKGROUND_SIZE
        return False

    def _parse_file(self, start: dict[str, Any]) -> Generator[_Parsing | None, None, None]:
        skip = start["line"]
        self._started_at, self._requested, self._line = start, None, 0
        if self._digest is not None:
            self._digest = hashlib.sha256()
        self._parser.reset()
        with open_file(self.name, self._blocking_wait()) as file:
            self._file = file
            chunks = self._chunk_reader(file)
            for chunk in chunks:
                self._check_stop()
                if chunk is None:
                    yield None
                    continue
                if skip:
                    chunk, skipped = self._skip_lines(chunk, skip, chunks)
                    skip -= skipped
                    if not skip:
                        self._check_digest(start)
                    if chunk.lo == chunk.hi:
                        continue
                parsed = self._parser.parse_chunk(chunk)
                text = chunk.text if parsed.text is None else parsed.text
                if isinstance(parsed.x, IntRows | NamedRows):
                    chunks.adapt_size(len(text), int(parsed.x.indptr[-1]))
                yield _Parsing(parsed, chunks.number, text)
                chunks.number += parsed.n_lines
                del chunk, parsed, text  # free their memory before the next chunk is read
            last = self._parser.finish()
            if last is not None:
                assert last.text is not None
                yield _Parsing(last, chunks.number, last.text)

    def _chunk_reader(self, file: BinaryIO) -> ChunkReader:
        is_stream, wait = self._is_stream(), self._blocking_wait()
        has_input = input_poll(file) if is_stream else None
        file, codec = decompressed(file, self.name, self._codec, is_stream, wait)
        if self._is_avro:
            file = avro_lines(file, self.name)
        else:
            file = utf8_file(file)
            file = file if self._to_lines is None else self._to_lines(file)
        if self._is_avro or codec is not None:
            has_input = None  # decompressed bytes may wait although the pipe is empty
        return ChunkReader(
            file, self.name, MAX_LINE, wait, codec, fill=not is_stream, has_input=has_input
        )

    def _skip_lines(self, chunk: Chunk, n: int, chunks: ChunkReader) -> tuple[Chunk, int]:
        """Skip up to n lines of a chunk; return the rest and how many were skipped."""
        stops = np.flatnonzero(chunk.text == NEWLINE)[:n]
        text = chunk.text[: int(stops[-1]) + 1]
        chunks.number += len(stops)
        self._advance(text, chunks.number)
        self._parser.skip(text)
        return chunk._replace(lo=chunk.lo + len(text)), len(stops)

    def fill_blocks(self) -> None:
        """Make every block of a file full but the last, although that is slower.

        Chunks end elsewhere when a reading resumes. Full blocks are those of a reading from the
        start, if the position is the end of one of them.
        """
        self._fills_blocks = not self._is_stream()

    # Stopping

    def set_stop(self, stopped: Callable[[], bool], wait: Wait | None = None) -> None:
        """Stop reading between two lines once `stopped()` is true."""
        self._stopped, self._wait = stopped, wait

    def _check_stop(self) -> None:
        if self._stopped is not None and self._stopped():
            raise ReadingStopped

    def _blocking_wait(self) -> Wait | None:
        """Return what calls functions that may block; None if reading never blocks for long."""
        return self._wait if self._is_stream() else None

    # Positions

    def identity(self) -> dict[str, Any]:
        """Return what must be equal for a position to be valid, in addition to the lines."""
        return {"source": "text", **self._parser.roles}

    def begin(self, at: SourcePosition | None) -> SourcePosition:
        """Start the next reading at a position, or at the beginning (None); return the position."""
        self._start = {"line": 0} if at is None else at
        require_count(self._start["line"], "line")
        if not isinstance(self._start.get("sha256"), str | None):
            raise ValueError("the digest of a position must be a string")
        self._started_at, self._requested = self._start, self._start
        self._digest = hashlib.sha256()
        return self._start

    def position(self) -> Any:
        """Return the position after everything that was delivered."""
        if self._requested is not None:
            return self._requested
        # While lines are skipped, the position does not go back.
        return self._here() if self._line >= self._started_at["line"] else self._started_at

    def _advance(self, text: Bytes, line: int) -> None:
        """Move the position past a text that ends after `line` lines."""
        self._line = line
        if self._digest is not None:
            raw = text.tobytes()
            self._digest.update(re.sub(rb"\r+\n", b"\n", raw) if b"\r" in raw else raw)

    def _block_end(self) -> Any:
        return None if self._digest is None else self.position()

    def _here(self) -> dict[str, Any]:
        return {"line": self._line, "sha256": self._digest.hexdigest()}

    def _check_digest(self, start: dict[str, Any]) -> None:
        if start.get("sha256") not in (None, self._digest.hexdigest()):
            raise SourceError(
                f"{self.name} does not match the checkpoint: its first {start['line']:,} lines "
                "have changed, or the last of them was incomplete; use another checkpoint directory"
            )

    def _check_length(self, start: dict[str, Any]) -> None:
        if self._line < start["line"]:
            raise SourceError(
                f"{self.name} does not match the checkpoint: it has {self._line:,} lines, and the "
                f"checkpoint is at line {start['line']:,}; is it another file, or was it cut short?"
            )

    def _is_stream(self) -> bool:
        # A pipe has a path, too: <(zcat day.svm.gz) is one.
        return self.name == "-" or Path(self.name).is_fifo()


# Examples that wait for their block


class _Piece(NamedTuple):
    """Consecutive examples of a parsed chunk."""

    x: Any
    y: Any
    w: list[float] | None
    lines: Sequence[int]
    ids: Sequence[int | str | None] | None


class _PendingBlock:
    """Examples that wait for their block to fill."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pieces: list[_Piece] = []
        self._n = 0
        self.started_at = 0.0
        """When the first example was added, by the monotonic clock."""

    def __len__(self) -> int:
        return self._n

    def add(self, parsed: ParsedChunk, lo: int, hi: int, first: int) -> None:
        """Add the examples from lo to hi of a chunk that begins after `first` lines."""
        if not self._n:
            self.started_at = time.monotonic()
        w = None if parsed.w is None else parsed.w[lo:hi].tolist()
        ids = None if parsed.ids is None else parsed.ids[lo:hi]
        lines = _line_numbers(parsed.lines[lo:hi], first + 1)
        self._pieces.append(_Piece(parsed.x[lo:hi], parsed.y[lo:hi], w, lines, ids))
        self._n += hi - lo

    def take_block(self, end: Any) -> Block:
        """Return all examples as a block; `end` is the position after them."""
        pieces, self._pieces, self._n = self._pieces, [], 0
        x = [piece.x for piece in pieces]
        concatenate = _chain if len(x) == 1 else getattr(type(x[0]), "concatenate", _chain)
        return Block(
            concatenate(x), _concatenate_labels([piece.y for piece in pieces]),
            _filled_column([piece.w for piece in pieces], pieces, 1.0), self._name,
            _chain([piece.lines for piece in pieces]), end,
            _filled_column([piece.ids for piece in pieces], pieces, None),
        )  # fmt: skip


def _filled_column(columns: Sequence[Any], pieces: Sequence[_Piece], default: Any) -> Any:
    """Concatenate optional columns; None if all values are the default."""
    if all(column is None for column in columns):
        return None
    lengths = [len(piece.y) for piece in pieces]
    values = _chain(
        [[default] * n if column is None else column
         for column, n in zip(columns, lengths, strict=True)]
    )  # fmt: skip
    if isinstance(values, LazyIds):
        return values
    return None if all(value == default for value in values) else values


def _concatenate_labels(columns: Sequence[Any]) -> Any:
    """Concatenate labels: arrays if all pieces are arrays, lists otherwise."""
    if len(columns) == 1:
        return columns[0]
    if all(isinstance(column, np.ndarray) for column in columns):
        return np.concatenate(columns)
    return _chain([column if isinstance(column, list) else column.tolist() for column in columns])


def _line_numbers(lines: Ints, first: int) -> Sequence[int]:
    """Return increasing line numbers, counted from `first`; a range if none is left out."""
    begin, end = first + int(lines[0]), first + int(lines[-1])
    if end - begin == len(lines) - 1:
        return range(begin, end + 1)
    numbers: list[int] = (lines + first).tolist()
    return numbers


def _chain(lists: Sequence[Any]) -> Any:
    return lists[0] if len(lists) == 1 else list(itertools.chain.from_iterable(lists))
