"""Text files as sources: opening, unpacking, lines with their numbers, and what can go wrong."""

from __future__ import annotations

import contextlib
import gzip
import math
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from streaml1.streams.source import SOURCES, Block, Example, Refuse, SourceError, blocks_of

__all__ = ["Lines", "Reader", "TextSource", "decode", "each_line", "require_readable"]

MAX_LINE = 2**26
"""A longer line ends the reading: a file that is no text must not fill the memory."""

PATIENCE = 0.5
"""Seconds an example of a slow input waits for the block to fill."""

Lines = Iterator[tuple[int, bytes]]
"""The lines of a file with their numbers, from 1."""

Reader = Callable[[Lines, str, Refuse], Iterator[Example]]
"""``reader(lines, name, refuse)``: the examples in the lines of the source called name."""


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

    """

    def __init__(self, name: str, reader: Reader, gz: bool = False) -> None:
        self.name = name
        self._reader = reader
        self._gz = gz
        self._read_before = False

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
        return blocks_of(self._examples(refuse), self.name, size, patience)

    def _examples(self, refuse: Refuse) -> Iterator[Example]:
        with _open(self.name) as file:
            lines = _numbered(self._unpacked(file), self.name)
            yield from self._reader(lines, self.name, refuse)

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


def _numbered(file: BinaryIO, name: str) -> Lines:
    number = 0
    while True:
        try:
            line = file.readline(MAX_LINE)
        except gzip.BadGzipFile as error:
            if number == 0:
                raise SourceError(
                    f"{name} is not packed by gzip: take .gz from its name if it is plain text"
                ) from None
            raise _broken(name, number, error) from None
        except (OSError, EOFError, zlib.error) as error:
            raise _broken(name, number, error) from None
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


def each_line(parse: Callable[[str], tuple[dict[Any, Any], Any, float] | None]) -> Reader:
    """Make the reader of a format that has one example a line.

    Parameters
    ----------
    parse
        Gives features, label and weight, None for a line without an example; ValueError, with one
        sentence, refuses the line.

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
