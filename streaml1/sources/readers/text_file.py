"""Text files as sources: opening, unpacking, lines with their numbers, and what can go wrong."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from streaml1.sources.readers.background import ahead, cores
from streaml1.sources.readers.chunks import Chunks, Ended, Wait
from streaml1.sources.readers.decompression import unpacked
from streaml1.sources.readers.parsed_lines import Parsed, Parser
from streaml1.sources.source import SOURCES, Block, Refuse, SourceError
from streaml1.text.parsed_rows import IntRows, NamedRows

__all__ = ["TextSource", "require_readable"]

MAX_LINE = 2**26
"""A longer line ends the reading: a file that is no text must not fill the memory."""

FILLED, LARGE = 500, 2**18
"""After a chunk of so many examples, or bytes, a block ends: to join its last with others costs
more."""

AHEAD_LEAST = 2**22
"""Bytes of a file that is worth a thread."""

PATIENCE = 0.5
"""Seconds an example of a slow input waits for the block to fill."""


class TextSource:
    """Examples in a text file, or on standard input.

    Parameters
    ----------
    name
        The path, or ``-`` for standard input.
    parser
        What turns lines into examples.
    gz
        Whether the bytes are to be unpacked by gzip first.

    """

    block = 4096

    def __init__(self, name: str, parser: Parser, gz: bool = False) -> None:
        self.name = name
        self._parser = parser
        self._gz = gz
        self._read_before = False
        self._begin: dict[str, Any] = {"line": 0}
        self._stopped: Callable[[], bool] | None = None
        self._wait: Wait | None = None
        # Of the lines read so far, once somebody asks for positions.
        self._digest: Any = None
        self._line = 0
        self._begun = self._begin
        self._mark: dict[str, Any] | None = None

    @property
    def texts(self) -> tuple[str, ...] | None:
        """What is read as text, where that has to be said; None: strings are."""
        return self._parser.texts

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Block]:
        """Read from the start, at most `size` examples at a time.

        Raises
        ------
        SourceError
            If the source cannot be read, or cannot be read twice.

        """
        is_stream = self._is_stream()
        if is_stream and self._read_before:
            what = "standard input" if self.name == "-" else self.name
            raise SourceError(f"{what} cannot be read twice: write it to a file and read that")
        self._read_before = True
        patience = PATIENCE if is_stream else math.inf
        begin, self._begin = self._begin, {"line": 0}
        if size < 1:
            raise ValueError(f"size {size} is not a size of blocks: it must be 1 or more")
        return self._parsed_blocks(self._parser, begin, size, refuse, patience)

    def _chunks(self, file: BinaryIO) -> Chunks:
        is_stream = self._is_stream()
        whole, wait = self._unpacked(file), self._waiting()
        return Chunks(whole, self.name, MAX_LINE, wait, packed=self._gz, fill=not is_stream)

    def _waiting(self) -> Wait | None:
        """What calls that which may wait for somebody; None: nothing does."""
        return self._wait if self._is_stream() else None

    def _parsed_blocks(
        self, parser: Parser, begin: dict[str, Any], size: int, refuse: Refuse, patience: float
    ) -> Iterator[Block]:
        held = _Held(self.name)
        start = 0.0
        try:
            for parsed, first, text in self._read(parser, begin):
                faults = deque(parsed.faults)
                lo, done = 0, 0
                while lo < len(parsed) or faults:
                    hi = len(parsed)
                    if faults:
                        hi = int(np.searchsorted(parsed.lines, faults[0][0]))
                    late = len(held) > 0 and time.monotonic() - start >= patience
                    hi = min(hi, lo + (1 if late else size - len(held)))
                    if hi == lo:
                        line, reason = faults.popleft()
                        refuse(f"{self.name}:{first + line + 1}", reason)
                        continue
                    if not len(held):
                        start = time.monotonic()
                    held.take(parsed, lo, hi, first)
                    lo, end = hi, int(parsed.ends[hi - 1])
                    self._go_past(text[done:end], first + parsed.lines_with(hi - 1))
                    done = end
                    if late or len(held) == size:
                        yield held.block(self._end())
                        self._heed_stop()
                self._go_past(text[done:], first + parsed.n_lines)
                enough = len(held) >= min(FILLED, size / 2)
                enough = enough or len(parsed) >= FILLED or len(text) >= LARGE
                del parsed, text
                if len(held) and enough:
                    yield held.block(self._end())
        except Ended:
            pass
        except Exception:
            if len(held):
                yield held.block(self._end())
            raise
        if len(held):
            yield held.block(self._end())

    def _read(self, parser: Parser, begin: dict[str, Any]) -> Iterator[tuple[Parsed, int, Any]]:
        """As `_parsed`, by a thread of its own where that pays."""
        parsed = self._parsed(parser, begin)
        yield from ahead(parsed) if self._goes_ahead(parser) else parsed
        self._require_all(begin)

    def _goes_ahead(self, parser: Parser) -> bool:
        """Whether a parser that leaves Python alone has a core for itself, and work for it."""
        if not parser.quick or self._is_stream() or cores() < 2:
            return False
        with contextlib.suppress(OSError):
            return Path(self.name).stat().st_size >= AHEAD_LEAST
        return False

    def _parsed(
        self, parser: Parser, begin: dict[str, Any]
    ) -> Generator[tuple[Parsed, int, Any], None, None]:
        """The examples behind a position, each time with the lines before them, and the text."""
        left = begin["line"]
        self._begun, self._mark, self._line = begin, None, 0
        if self._digest is not None:
            self._digest = hashlib.sha256()
        parser.begin()
        with _open(self.name, self._waiting()) as file:
            chunks = self._chunks(file)
            for buffer, lo, hi, free in chunks:
                self._heed_stop()
                if left:
                    stops = np.flatnonzero(buffer[lo:hi] == 10)[:left]
                    text = buffer[lo : lo + int(stops[-1]) + 1]
                    left -= len(stops)
                    lo += len(text)
                    chunks.number += len(stops)
                    self._go_past(text, chunks.number)
                    parser.skip(text)
                    if not left:
                        self._require_same(begin)
                    if lo == hi:
                        continue
                parsed = parser.read_at(buffer, lo, hi, free)
                text = buffer[lo:hi] if parsed.text is None else parsed.text
                if isinstance(parsed.x, IntRows | NamedRows):
                    chunks.fit(len(text), int(parsed.x.indptr[-1]))
                yield parsed, chunks.number, text
                chunks.number += parsed.n_lines
                del buffer, parsed, text  # so that the memory may be taken for the next
            last = parser.finish()
            if last is not None:
                yield last, chunks.number, last.text

    def _heed_stop(self) -> None:
        if self._stopped is not None and self._stopped():
            raise Ended

    def _go_past(self, text: Any, line: int) -> None:
        """Have done with a text that ends at a line."""
        self._line = line
        if self._digest is not None:
            raw = text.tobytes()
            self._digest.update(re.sub(rb"\r+\n", b"\n", raw) if b"\r" in raw else raw)

    def _end(self) -> Any:
        return None if self._digest is None else self.position()

    def heed(self, stopped: Callable[[], bool], wait: Wait | None = None) -> None:
        """End the reading between two lines once `stopped` is true; `wait` calls what may wait."""
        self._stopped, self._wait = stopped, wait

    # Positions

    def identity(self) -> dict[str, Any]:
        """What must be the same for a position to mean the same; the lines are looked at too."""
        return {"source": "text", **self._parser.roles}

    def begin(self, at: Any) -> Any:
        """Have the next reading begin at a position, or at its start: None; returns where."""
        self._begin = {"line": 0} if at is None else at
        self._begun, self._mark = self._begin, self._begin
        self._digest = hashlib.sha256()
        return self._begin

    def position(self) -> Any:
        """Where the reading is, all that was read being behind it."""
        if self._mark is not None:
            return self._mark
        # Lines that are done with are read once more: a stop among them is no step back.
        return self._here() if self._line >= self._begun["line"] else self._begun

    def _here(self) -> dict[str, Any]:
        return {"line": self._line, "sha256": self._digest.hexdigest()}

    def _require_same(self, begin: dict[str, Any]) -> None:
        if begin.get("sha256") not in (None, self._digest.hexdigest()):
            raise SourceError(
                f"{self.name} is not what the checkpoint is of: its first {begin['line']:,} lines "
                "are others, or the last of them was half written: take another folder"
            )

    def _require_all(self, begin: dict[str, Any]) -> None:
        if self._line < begin["line"]:
            raise SourceError(
                f"{self.name} has {self._line:,} lines, but the checkpoint is of "
                f"{begin['line']:,}: is it another file, or was it cut short?"
            )

    def _unpacked(self, file: BinaryIO) -> BinaryIO:
        if not self._gz:
            return file
        if not self._is_stream() and Path(self.name).stat().st_size == 0:
            raise SourceError(f"{self.name} is empty: a gzip file never is, so it was cut short")
        return unpacked(file)

    def _is_stream(self) -> bool:
        # A pipe has a path too: <(zcat day.svm.gz) is one.
        return self.name == "-" or Path(self.name).is_fifo()


def require_readable(name: str) -> None:
    """Raise `SourceError` if there is no file of this name that could be read."""
    if not name:  # as of a variable of a shell that is not set; a path would be this folder
        raise SourceError("the name of the source is empty: name a file, or - for standard input")
    path = Path(name)
    try:
        if path.is_dir():
            raise IsADirectoryError
        path.stat()
        if not os.access(path, os.R_OK):
            raise PermissionError
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from None


def _open(name: str, wait: Wait | None = None) -> contextlib.AbstractContextManager[BinaryIO]:
    if name == "-":
        if sys.stdin is None:
            raise SourceError("standard input is closed: give it a file, or a pipe")
        return contextlib.nullcontext(sys.stdin.buffer)

    def opens(_: int) -> BinaryIO:
        return open(name, "rb")

    try:
        # A pipe with a name opens once somebody writes to it, which may be never.
        file: BinaryIO | None = opens(0) if wait is None else wait(opens, 0)
    except OSError as error:
        raise _unreadable(name, error) from None
    if file is None:
        raise Ended
    return file


def _unreadable(name: str, error: OSError | ValueError) -> SourceError:
    match error:
        case FileNotFoundError():
            others = ", ".join(["- (standard input)", *sorted(SOURCES)])
            return SourceError(
                f"{name}: there is no such file; a source is a file, or one of {others}, "
                "as in river:Phishing"
            )
        case IsADirectoryError():
            return SourceError(f"{name} is a directory: name a file in it")
        case PermissionError():
            return SourceError(f"{name} cannot be read: permission denied")
        case OSError():
            return SourceError(f"{name} cannot be read: {error.strerror or error}")
    return SourceError(f"{name!r} is not the name of a file: {error}")


class _Held:
    """Examples that wait for the block to fill."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pieces: list[tuple[Any, Any, Any, Sequence[int], Any]] = []
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def take(self, parsed: Parsed, lo: int, hi: int, first: int) -> None:
        """Take some examples, before whose text `first` lines stand."""
        y, w = parsed.y[lo:hi], None if parsed.w is None else parsed.w[lo:hi].tolist()
        lines = _numbers(parsed.lines[lo:hi], first + 1)
        ids = None if parsed.ids is None else parsed.ids[lo:hi]
        self._pieces.append((parsed.x[lo:hi], y, w, lines, ids))
        self._n += hi - lo

    def block(self, end: Any) -> Block:
        """All of them, behind which the position `end` is."""
        x, y, w, lines, ids = zip(*self._pieces, strict=True)
        weights = None
        if any(one is not None for one in w):
            pairs = zip(w, y, strict=True)
            weights = _joined([[1.0] * len(ys) if one is None else one for one, ys in pairs])
            weights = None if all(one == 1.0 for one in weights) else weights
        self._pieces, self._n = [], 0
        rows = x[0] if len(x) == 1 else getattr(type(x[0]), "joined", _joined)(x)
        named = None
        if any(one is not None for one in ids):
            pairs = zip(ids, y, strict=True)
            named = _joined([[None] * len(ys) if one is None else one for one, ys in pairs])
            named = None if all(one is None for one in named) else named
        return Block(rows, _labels(y), weights, self._name, _joined(lines), end, named)


def _labels(columns: Sequence[Any]) -> Any:
    """Labels of pieces, an array or a list each."""
    if len(columns) == 1:
        return columns[0]
    if all(isinstance(one, np.ndarray) for one in columns):
        return np.concatenate(columns)
    return _joined([one if isinstance(one, list) else one.tolist() for one in columns])


def _numbers(lines: Any, first: int) -> Sequence[int]:
    """The numbers of lines, which rise."""
    begin, end = first + int(lines[0]), first + int(lines[-1])
    if end - begin == len(lines) - 1:  # none was left out
        return range(begin, end + 1)
    told: list[int] = (lines + first).tolist()
    return told


def _joined(lists: Sequence[Sequence[Any]]) -> Any:
    return lists[0] if len(lists) == 1 else list(itertools.chain.from_iterable(lists))
