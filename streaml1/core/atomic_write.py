"""Atomic file writes: a file has its old content or its new one, whatever stops the process."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["fsync_directory", "open_atomic", "temporary_path", "write_atomic", "write_if_absent"]


def temporary_path(path: Path) -> Path:
    """Return a unique path in the directory of `path`, for content that will replace it."""
    # Not derived from the process id: other hosts and containers reuse process ids.
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


@contextmanager
def open_atomic(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces `path` when the block ends without an error.

    Readers see the old content or the new one. At the end the content and the name are on disk. If
    the block raises, `path` is unchanged.

    Raises
    ------
    OSError
        If the file cannot be written, or `path` is not a regular file.
    """
    path = Path(path).resolve()  # replaces the target of a symbolic link, not the link
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file")
    with _temporary(path) as temporary:
        with _create(temporary) as file:
            yield file
        os.replace(temporary, path)
    fsync_directory(path.parent)


def write_atomic(path: str | Path, data: bytes) -> None:
    """Write `data` to `path`, see `open_atomic`."""
    with open_atomic(path) as file:
        file.write(data)


def write_if_absent(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically unless the file exists; of concurrent writers one wins.

    The first writer wins. On file systems without hard links it is the last of those that write at
    the same time.
    """
    if path.exists():
        return
    with _temporary(path) as temporary:
        with _create(temporary) as file:
            file.write(data)
        try:
            os.link(temporary, path)  # fails if the file exists, as os.replace does not
        except FileExistsError:
            return
        except OSError:  # no hard links
            os.replace(temporary, path)
        fsync_directory(path.parent)


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """Yield a temporary path; remove the file at the end if it still exists."""
    temporary = temporary_path(path)
    try:
        yield temporary
    except OSError as error:
        if str(error.filename) == str(temporary):
            error.filename = str(path)  # the caller knows only this name
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _create(path: Path) -> Iterator[BinaryIO]:
    """Create a file and open it for writing; its content is on disk at the end of the block."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(path, "wb", opener=lambda name, _: os.open(name, flags, 0o666)) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def fsync_directory(directory: Path) -> None:
    """Write a directory's entries to disk: a renamed file survives a crash only after this."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
