"""Open files and standard input: errors in one sentence, decompression by the first bytes."""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from streaml1.core import exit_codes as exits
from streaml1.sources.readers.chunks import ReadingStopped, Wait
from streaml1.sources.readers.decompression import decompress, identify
from streaml1.sources.readers.remote import is_remote, open_remote, require_remote
from streaml1.sources.readers.signatures import CODEC_OF_SUFFIX, may_be_compressed, split_suffix
from streaml1.sources.source import DATA_SETS, SOURCES, SourceError, Unavailable, shown

__all__ = ["decompressed", "input_poll", "open_file", "require_readable"]

PAUSE = 0.1
"""Seconds without input after which a stream pauses: its complete examples wait no longer."""


def require_readable(name: str, directory: bool = False) -> None:
    """Raise `SourceError` if there is no readable file, or `directory`, of this name."""
    if not name:  # as from an unset shell variable; Path("") is the current directory
        raise SourceError("the name of the source is empty: name a file, or - for standard input")
    if "\n" in name and not os.path.exists(name):
        text = shown(name).strip("'")
        raise SourceError(
            f"{text}: there is no such file; write examples in a string to a file first"
        )
    if is_remote(name):
        return require_remote(name)
    path = Path(name)
    try:
        if path.is_dir() and not directory:
            raise IsADirectoryError
        path.stat()
        if not os.access(path, os.R_OK):
            raise PermissionError
    except (OSError, ValueError) as error:
        raise _open_error(name, error) from None


def open_file(name: str, wait: Wait | None = None) -> contextlib.AbstractContextManager[BinaryIO]:
    """Return a context manager that opens a file, a URL, or standard input.

    Raises
    ------
    SourceError
        If it cannot be opened.
    ReadingStopped
        If a wait was ended.
    """
    if name == "-":
        if sys.stdin is None:
            raise SourceError("standard input is closed: redirect a file or a pipe to it")
        return contextlib.nullcontext(sys.stdin.buffer)

    if is_remote(name):
        return open_remote(name)

    def open_now(_: int) -> BinaryIO:
        return open(name, "rb")

    try:
        # Opening a named pipe blocks until a process writes to it, possibly forever.
        file: BinaryIO | None = open_now(0) if wait is None else wait(open_now, 0)
    except OSError as error:
        raise _open_error(name, error) from None
    if file is None:
        raise ReadingStopped
    return file


def input_poll(file: BinaryIO) -> Callable[[], bool] | None:
    """Return a function that waits `PAUSE` for input, and returns whether there is some.

    The end of the file counts as input. None of an object that the operating system cannot poll.
    """
    try:
        number = file.fileno()
    except (AttributeError, OSError):
        return None
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return lambda: bool(poll.poll(1000 * PAUSE))


_BROKER = re.compile(r"[\w.-]+:\d+/[\w.-]+")  # HOST:PORT/TOPIC


def _open_error(name: str, error: OSError | ValueError) -> SourceError:
    match error:
        case FileNotFoundError():
            if os.path.islink(name):
                return SourceError(f"{name} is a link to {os.readlink(name)}, which does not exist")
            if _BROKER.fullmatch(name):
                return SourceError(
                    f"{name}: there is no such file; to read a topic, use kafka://{name}"
                )
            alternatives = ", ".join(["- (standard input)", *sorted(SOURCES)])
            return SourceError(
                f"{name}: there is no such file{_near(name)}; a source is a file, or one of "
                f"{alternatives}, as in river:Phishing"
            )
        case IsADirectoryError():
            return SourceError(f"{name} is a directory: name a file in it")
        case PermissionError():
            return SourceError(f"{name} cannot be read: permission denied")
        case OSError():
            kind = Unavailable if exits.is_temporary(error) else SourceError
            return kind(f"{name} cannot be read: {error.strerror or error}")
    return SourceError(f"{name!r} is not a valid file name: {error}")


def _near(name: str) -> str:
    """Return a clause with the file or data set whose name is most similar, if there is one."""
    if found := get_close_matches(name.lower(), DATA_SETS, n=1, cutoff=0.8):
        return f" (did you mean {DATA_SETS[found[0]]}?)"
    path = Path(name)
    try:
        found = get_close_matches(path.name, os.listdir(path.parent), n=1, cutoff=0.8)
    except (OSError, ValueError):
        return ""
    return f" (did you mean {path.with_name(found[0])}?)" if found and path.name else ""


def decompressed(
    file: BinaryIO, name: str, promised: str | None, is_stream: bool, wait: Wait | None = None
) -> tuple[BinaryIO, str | None]:
    """Return a file with the decompressed bytes of a file, and the program that compressed it.

    A file that is not compressed is returned as it is, with None.

    Parameters
    ----------
    file
        The file at its beginning.
    name
        Its name in errors.
    promised
        The program that its name or format says has compressed it, or None.
    is_stream
        Whether it is a pipe.
    wait
        Calls functions that may block.

    Raises
    ------
    SourceError
        If it is not compressed although that is promised, or cannot be decompressed.
    ReadingStopped
        If a wait was ended.
    """
    read = None if wait is None else partial(_read_waiting, wait, file)
    file, codec, head = identify(file, read)
    if codec is None and promised is not None:
        _require_prefix(head, name, promised, is_stream)
        codec = promised
    if codec is None:
        return file, None
    try:
        return decompress(file, codec), codec
    except ImportError:
        raise SourceError(
            f"{name} is compressed by {codec}, which needs the package zstandard: "
            "pip install 'streaml1[codecs]'"
        ) from None


def _read_waiting(wait: Wait, file: Any, space: memoryview) -> int:
    """Read bytes into memory, and return how many; raise ReadingStopped if a wait was ended."""
    n: int | None = wait(lambda _: file.readinto1(space), len(space))
    if n is None:
        raise ReadingStopped
    return n


def _require_prefix(head: bytes, name: str, promised: str, is_stream: bool) -> None:
    """Reject a file that cannot be the beginning of a compressed one, as its name promises."""
    if not head and not is_stream:
        raise SourceError(f"{name} is empty: a {promised} file never is, so it was cut short")
    if head and may_be_compressed(head) is None:
        where = "its name" if split_suffix(name)[1] == promised else "its format"
        suffix = next(end for end, codec in CODEC_OF_SUFFIX.items() if codec == promised)
        raise SourceError(
            f"{name} is not compressed by {promised}; remove {suffix} from {where} if it is plain "
            "text"
        )
