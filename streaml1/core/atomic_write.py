"""Files that are there whole or not at all, whatever ends a process and whoever else writes."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["name_beside", "replace", "sync_folder", "write_once", "written_aside"]


def name_beside(path: Path) -> Path:
    """Where to write what is to take the place of `path`: a name that nobody else has."""
    # Not of the process: numbers of processes come again, on other hosts and in containers.
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


@contextmanager
def written_aside(path: str | Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` in one step once it is whole, and else leaves it.

    A reader sees the old file or the new one, and the new one is on the disk at the end.

    Raises
    ------
    OSError
        Where it cannot be written, or `path` is something else than a file.
    """
    path = Path(path).resolve()  # a link stays, what it points to is replaced
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file")
    with _aside(path) as aside:
        with _new(aside) as file:
            yield file
        os.replace(aside, path)
    sync_folder(path.parent)


def replace(path: str | Path, data: bytes) -> None:
    """Put `data` at `path` in one step, see `written_aside`."""
    with written_aside(path) as file:
        file.write(data)


def write_once(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step, unless something is there: whoever comes first is right.

    On a disk without links the last of those who come at once is right.
    """
    if path.exists():
        return
    with _aside(path) as aside:
        with _new(aside) as file:
            file.write(data)
        try:
            os.link(aside, path)
        except FileExistsError:
            return  # another was faster
        except OSError:  # no links
            os.replace(aside, path)
        sync_folder(path.parent)


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """Where to write what is to take the place of `path`; nothing is left there at the end."""
    aside = name_beside(path)
    try:
        yield aside
    except OSError as error:
        if str(error.filename) == str(aside):
            error.filename = str(path)  # what the caller knows of
        raise
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def _new(path: Path) -> Iterator[BinaryIO]:
    """A file that was not there, on the disk at the end."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(path, "wb", opener=lambda name, _: os.open(name, flags, 0o666)) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Have the names of a folder's files on the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
