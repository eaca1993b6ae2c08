"""The directory of the machine code cache, the digest in its file names, and the compile lock."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import time
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

__all__ = [
    "COMPILED_SOURCES",
    "PACKAGE",
    "CacheDirectories",
    "CompileLock",
    "cache_directories",
    "compiler_versions",
    "discard",
    "discard_directory",
    "is_current",
    "read_text",
    "remove_stale_files",
    "source_digest",
    "warn_unwritable",
]

logger = logging.getLogger("streaml1")

PACKAGE = Path(__file__).parent.parent.parent
COMPILED_SOURCES = (
    *("core/jit/*.py", "core/simd/*.py", "core/hashing.py", "core/vecmath.py", "core/rows.py"),
    *("core/prefetch.py", "text/*.py", "optim/*.py", "optim/structures/*.py"),
    *("features/dedup.py", "features/dedup_text.py", "features/vocabulary/*.py"),
    *("features/interactions/*.py", "features/ngrams/tokenizer.py", "features/dict_reader/*.py"),
    *("models/state/change_tracking.py", "solvers/*.py"),
    *("training/report/sums.py", "training/report/running_quantile.py", "training/drift/adwin.py"),
)
"""All files with compiled code, as glob patterns relative to the package."""

_DIGEST_FILE = "kernels.digest"
_SUFFIXES = ("nbi", "nbc", "code", "lock")

LOCK_TIMEOUT = 120.0
"""Seconds to wait for another process that compiles the same kernel; it may be suspended."""


@cache
def source_digest() -> str:
    """Return a digest of all compiled sources; machine code with another digest is stale."""
    sources = [p.read_bytes() for glob in COMPILED_SOURCES for p in sorted(PACKAGE.glob(glob))]
    return hashlib.sha256(b"\0".join(sources)).hexdigest()[:16]


@cache
def compiler_versions() -> list[str]:
    """Return the texts of the version files of numba and llvmlite, without importing either."""
    specs = [find_spec(package) for package in ("numba", "llvmlite")]
    origins = [spec.origin for spec in specs if spec is not None and spec.origin is not None]
    return [read_text(Path(origin).with_name("_version.py")) for origin in origins]


def read_text(path: Path) -> str:
    """Return the content of a file, empty if it cannot be read."""
    with suppress(OSError, ValueError):
        return path.read_text()
    return ""


class CacheDirectories(NamedTuple):
    """Where machine code is read from and written to."""

    search: list[Path]
    """Directories to search, in order."""
    writable: Path | None
    """The directory to write to, the last one of `search`; None if no directory is writable."""


@cache
def cache_directories() -> CacheDirectories:
    """Return the directories of the cache; creates the one that is written to."""
    name = "streaml1_" + hashlib.sha1(bytes(PACKAGE)).hexdigest()
    configured = os.environ.get("NUMBA_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    directories = [Path(configured) / name] if configured else []
    directories += [PACKAGE / "__pycache__", user / "numba" / name]
    for k, directory in enumerate(directories):
        with suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            if os.access(directory, os.W_OK | os.X_OK):
                remove_stale_files(directory)
                return CacheDirectories(directories[: k + 1], directory)
    return CacheDirectories(directories, None)


def is_current(directory: Path) -> bool:
    """Return whether a directory holds machine code of these sources, and of no others."""
    return read_text(directory / _DIGEST_FILE) == source_digest()


def remove_stale_files(directory: Path) -> None:
    """Remove machine code of other versions of the sources, once per version."""
    if is_current(directory):
        return
    try:
        for path in (path for suffix in _SUFFIXES for path in directory.glob(f"*.{suffix}")):
            if source_digest() not in path.name:
                path.unlink(missing_ok=True)
        (directory / _DIGEST_FILE).write_text(source_digest())
    except (OSError, ValueError):  # another process is doing it, or the directory is read-only
        return


def discard(path: Path) -> None:
    """Remove a file of the cache, or a directory that is in its place."""
    discard_directory(path)
    with suppress(OSError):
        path.unlink(missing_ok=True)


def discard_directory(path: Path) -> None:
    """Remove a directory that is in the place of a file of the cache."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)


_reported: set[str] = set()


def warn_unwritable(directory: str | Path, error: Exception) -> None:
    """Warn that the cache cannot be written, once for each reason."""
    reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
    if reason not in _reported:
        _reported.add(reason)
        logger.warning(
            "machine code cannot be cached in %s (%s), so that each process compiles it again; "
            "free space there, or set NUMBA_CACHE_DIR to another directory",
            directory,
            reason,
        )


class CompileLock:
    """Lock between processes: one compiles a kernel, the others wait for the file it writes.

    Parameters
    ----------
    path
        The lock file; it exists while the lock is held.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def acquire(self) -> bool:
        """Wait for the lock up to `LOCK_TIMEOUT`; return whether it was acquired."""
        with suppress(OSError):  # the directory may be read-only
            self._file = self._path.open("wb")
            deadline = time.monotonic() + LOCK_TIMEOUT
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(0.02)
                else:
                    return True
        return False

    def release(self) -> None:
        """Release the lock if it is held."""
        if self._file is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)  # waiting processes have it open
                # Closing is not enough: a forked child shares the open file and its lock.
                fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()
            self._file = None
