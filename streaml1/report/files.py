"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["written_aside"]


@contextmanager
def written_aside(path: str | Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` in one step once it is whole, and else leaves it."""
    path = Path(path).resolve()  # a link stays, what it points to is replaced
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(aside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with suppress(FileNotFoundError):
            aside.unlink()
        raise
