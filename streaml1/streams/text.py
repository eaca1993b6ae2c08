"""Text files as sources: opening, unpacking, lines with their numbers, and what can go wrong."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import math
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from streaml1.streams.source import (
    SOURCES,
    Block,
    Example,
    Refuse,
    SourceError,
    block_of,
    blocks_of,
)

__all__ = ["Lines", "Reader", "TextSource", "decode", "each_line", "require_readable"]

MAX_LINE = 2**26
"""A longer line ends the reading: a file that is no text must not fill the memory."""

PATIENCE = 0.5
"""Seconds an example of a slow input waits for the block to fill."""

Lines = Iterator[tuple[int, bytes]]
"""The lines of a file with their numbers, from 1."""

Reader = Callable[[Lines, str, Refuse], Iterator[Example]]
"""``reader(lines, name, refuse)``: the examples in the lines of the source called name."""


Wait = Callable[[Callable[[int], bytes], int], bytes | None]
"""``wait(read, size)``: ``read(size)``, or None where the wait for it is to end."""


class _Ended(Exception):
    """Raised where the reading is to end, which is not the end of the file."""


class TextSource:
    """Examples in a text file, or on standard input.

    Parameters
    ----------
    name
        The path, or ``-`` for standard input.
    reader
        What turns lines into examples: one for each format.
    gz
        Whether the bytes are to be unpacked by gzip first.
    headed
        Whether the reader has to see the first lines in any case.

    """

    def __init__(self, name: str, reader: Reader, gz: bool = False, headed: bool = False) -> None:
        self.name = name
        self._reader = reader
        self._gz = gz
        self._headed = headed
        self._read_before = False
        self._begin: dict[str, Any] = {"line": 0}
        self._stopped: Callable[[], bool] | None = None
        self._wait: Wait | None = None
        # Of the lines read so far, once somebody asks for positions.
        self._digest: Any = None
        self._line = 0
        self._begun = self._begin
        self._mark: dict[str, Any] | None = None

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
        return blocks_of(self._examples(begin, refuse), self.name, size, patience, self._block)

    def _examples(self, begin: dict[str, Any], refuse: Refuse) -> Iterator[Example]:
        with _open(self.name) as file:
            wait = self._wait if self._is_stream() else None
            lines = _numbered(self._unpacked(file), self.name, wait)
            if self._stopped is not None:
                lines = _until(self._stopped, lines)
            with contextlib.suppress(_Ended):
                if self._digest is None:
                    yield from self._reader(lines, self.name, refuse)
                else:
                    yield from self._counted(lines, begin, refuse)

    def _counted(self, lines: Lines, begin: dict[str, Any], refuse: Refuse) -> Iterator[Example]:
        """The examples behind a position; `position` is right whenever one is handed over."""
        self._digest, self._line = hashlib.sha256(), 0
        rest = self._rest(lines, begin)
        self._begun, self._mark = begin, begin
        if not self._headed:
            self._mark = None
            yield from self._reader(rest, self.name, refuse)
            return

        def refuse_late(place: str, reason: str, number: int | None = None) -> None:
            if self._line > begin["line"]:
                refuse(place, reason)

        # A record may be of several lines, and the reading may end in the middle of one.
        for example in self._reader(rest, self.name, refuse_late):
            if example[0] > begin["line"]:
                self._mark = self._here()
                yield example
        self._mark = None

    def heed(self, stopped: Callable[[], bool], wait: Wait | None = None) -> None:
        """End the reading between two lines once `stopped` is true; `wait` calls what may wait."""
        self._stopped, self._wait = stopped, wait

    # Positions

    def identity(self) -> dict[str, Any]:
        """What must be the same for a position to mean the same; the lines are looked at too."""
        return {"source": "text"}

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

    def _block(self, rows: list[Example], name: str) -> Block:
        block = block_of(rows, name)
        return block if self._digest is None else replace(block, end=self.position())

    def _rest(self, lines: Lines, begin: dict[str, Any]) -> Lines:
        """The lines behind a position, those before it being the same as they were."""
        done, expected = begin["line"], begin.get("sha256")
        for number, line in lines:
            self._line = number
            self._digest.update(line.rstrip(b"\r\n") + b"\n")
            if number == done and expected not in (None, self._digest.hexdigest()):
                raise SourceError(
                    f"{self.name} is not what the checkpoint is of: its first {done:,} lines are "
                    "others"
                )
            if number > done or self._headed:
                yield number, line
        if self._line < done:
            raise SourceError(
                f"{self.name} has {self._line:,} lines, but the checkpoint is of {done:,}: is it "
                "another file, or was it cut short?"
            )

    def _unpacked(self, file: BinaryIO) -> BinaryIO:
        if not self._gz:
            return file
        if not self._is_stream() and Path(self.name).stat().st_size == 0:
            raise SourceError(f"{self.name} is empty: a gzip file never is, so it was cut short")
        return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))

    def _is_stream(self) -> bool:
        # A pipe has a path too: <(zcat day.svm.gz) is one.
        return self.name == "-" or Path(self.name).is_fifo()


def require_readable(name: str) -> None:
    """Raise `SourceError` if there is no file of this name that could be read."""
    path = Path(name)
    try:
        if path.is_dir():
            raise IsADirectoryError
        path.stat()
        if not os.access(path, os.R_OK):
            raise PermissionError
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from None


def _open(name: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if name == "-":
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        return open(name, "rb")
    except OSError as error:
        raise _unreadable(name, error) from None


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


def _until(stopped: Callable[[], bool], lines: Lines) -> Lines:
    for line in lines:
        yield line
        if stopped():
            raise _Ended


def _numbered(file: BinaryIO, name: str, wait: Wait | None = None) -> Lines:
    number = 0
    while True:
        try:
            line = file.readline(MAX_LINE) if wait is None else wait(file.readline, MAX_LINE)
        except gzip.BadGzipFile as error:
            if number == 0:
                raise SourceError(
                    f"{name} is not packed by gzip: take .gz from its name if it is plain text"
                ) from None
            raise _broken(name, number, error) from None
        except (OSError, EOFError, zlib.error) as error:
            raise _broken(name, number, error) from None
        if line is None:
            raise _Ended
        if not line:
            return
        number += 1
        if len(line) == MAX_LINE:
            raise SourceError(f"{name}:{number}: more than {MAX_LINE} bytes in a line: is it text?")
        yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _broken(name: str, number: int, error: Exception) -> SourceError:
    reason = str(error).rstrip(".")
    return SourceError(f"{name}:{number + 1}: nothing can be read from here on: {reason}")


def decode(line: bytes, what: str = "file") -> str:
    """Decode a line of a file as UTF-8; ValueError with one sentence where it is none."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
        raise ValueError(f"{byte} is not UTF-8: convert the {what} to UTF-8") from None


def each_line(parse: Callable[[str], tuple[Any, ...] | None]) -> Reader:
    """Make the reader of a format that has one example a line.

    Parameters
    ----------
    parse
        Gives features, label and weight, and the id if there is one; None for a line without an
        example; ValueError, with one sentence, refuses the line.

    """

    def read(lines: Lines, name: str, refuse: Refuse) -> Iterator[Example]:
        for number, line in lines:
            try:
                example = parse(decode(line))
            except ValueError as error:
                refuse(f"{name}:{number}", str(error))
                continue
            if example is not None:
                yield number, *example

    return read
