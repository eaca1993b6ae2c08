"""The files that a list, a pattern or a directory stands for."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from streaml1.core.named_options import named_option
from streaml1.sources.readers.directory_keys import is_key_directory
from streaml1.sources.readers.opening import require_readable
from streaml1.sources.readers.remote import is_remote, is_remote_pattern, list_remote
from streaml1.sources.readers.signatures import split_suffix, suffix_of
from streaml1.sources.source import SOURCES, SourceError, shown

__all__ = ["first_with_bytes", "is_many", "list_files", "warn_of_partitions"]

logger = logging.getLogger("streaml1")


def is_many(spec: object) -> bool:
    """Return whether a source is a list of files, a directory or a pattern.

    Examples
    --------
    >>> from streaml1.sources.readers.file_lists import is_many
    >>> is_many(["a.csv", "b.csv"]), is_many("part-*.csv"), is_many("a.csv")
    (True, True, False)
    """
    if isinstance(spec, list | tuple):
        return bool(spec) and all(isinstance(name, str | Path) for name in spec)
    if not isinstance(spec, str | Path) or not str(spec) or _is_registered(spec):
        return False
    if is_remote(spec):
        return is_remote_pattern(str(spec))
    try:
        return os.path.isdir(spec) or _is_pattern(str(spec))
    except ValueError:  # a name with a NUL
        return False


def _is_registered(spec: object) -> bool:
    """Return whether a name is that of a source that is not a file."""
    return isinstance(spec, str) and spec.partition(":")[0] in SOURCES


def _is_pattern(name: str) -> bool:
    """Return whether a name is a pattern; a file that exists is none, whatever its name."""
    return glob.has_magic(name) and not os.path.lexists(name)


def list_files(spec: str | Path | Sequence[str | Path]) -> list[str]:
    """Return the files of a list, a directory or a pattern, in the order in which they are read.

    A list keeps its order. The files of a directory and the matches of a pattern are sorted by
    path, byte by byte. Hidden files, names that begin with ``_`` and checksums (``.crc``) are left
    out, unless they are listed or the pattern says so. Directories within a directory are read if
    their names are ``key=value``.

    Parameters
    ----------
    spec
        The names of files, directories or patterns, or one of them.

    Raises
    ------
    SourceError
        If there is no such file, or a name cannot be combined with others.
    """
    files: list[str] = []
    for given in spec if isinstance(spec, list | tuple) else [spec]:
        if str(given) == "-" or _is_registered(given):
            shown = "standard input" if str(given) == "-" else given
            raise SourceError(f"several sources must be files, got {shown}; read it alone")
        files += _expanded(str(given))
    real = [os.path.realpath(name) for name in files]
    if len(set(real)) < len(real):
        twice = next(name for k, name in enumerate(files) if real[k] in real[:k])
        raise SourceError(
            f"{twice} is listed twice: list each file once, and use {named_option('passes')} to "
            "read them again"
        )
    return files


def _expanded(name: str) -> list[str]:
    """Return the files that a name stands for."""
    if is_remote(name):
        return _remote_files(name) if is_remote_pattern(name) else [name]
    if not _is_pattern(name):
        require_readable(name, directory=True)
        return _files_in(name) if os.path.isdir(name) else [name]
    pattern = os.path.basename(name)
    matches = [
        match
        for match in glob.glob(name, recursive=True)
        if pattern[:1] == "_" or pattern.endswith(".crc") or _may_be_data(os.path.basename(match))
    ]
    files: list[str] = []
    for match in matches:
        if not os.path.isdir(match):
            files.append(match)
        else:  # a directory of a value may be empty
            is_key = is_key_directory(os.path.basename(match))
            files += _walk(match) if is_key else _files_in(match)
    if not files:
        raise SourceError(f"no file matches {shown(name)}: check the pattern and the directory")
    return _sorted(files)


def _sorted(files: Iterable[str]) -> list[str]:
    """Return the files sorted by path.

    Raises
    ------
    SourceError
        If one of them is another one, but compressed.
    """
    files = sorted(files, key=os.fsencode)
    plain = {_uncompressed(file): file for file in files}
    for file in files:
        if (other := plain[_uncompressed(file)]) != file:
            pattern = os.path.join(os.path.dirname(file), f"*{suffix_of(file)}")
            raise SourceError(
                f"{file} and {other} seem to hold the same examples: remove one of them, use a "
                f"pattern such as {pattern!r}, or list the files"
            )
    return files


def _uncompressed(name: str) -> str:
    """Return a name without the suffix of a compressed file."""
    return name[: len(split_suffix(name)[0])]


def _remote_files(name: str) -> list[str]:
    """Return the files of a directory, or of those that match a pattern, sorted by name."""
    pattern = name.rpartition("/")[2]
    files = [
        file
        for file in list_remote(name, _holds_values)
        if pattern[:1] == "_" or pattern.endswith(".crc") or _may_be_data(file.rpartition("/")[2])
    ]
    if not files:
        raise SourceError(f"no file matches {name!r}: check the pattern and the directory")
    return _sorted(files)


def _may_be_data(entry: str) -> bool:
    """Return whether a file of a directory holds examples, to judge by its name."""
    return not entry.startswith((".", "_")) and not entry.endswith(".crc")


def _holds_values(directory: str) -> bool:
    """Return whether a directory is read with the one that contains it, to judge by its name."""
    return _may_be_data(directory) and is_key_directory(directory)


def _files_in(directory: str) -> list[str]:
    """Return the files of a directory, and of those in it that hold values, sorted by path.

    Raises
    ------
    SourceError
        If there are none, or it contains other directories, which would be left out silently.
    """
    files = _sorted(_walk(directory))
    if not files:
        raise SourceError(
            f"{directory} is a directory without a file to read; hidden files, names that begin "
            "with _, and .crc files are left out"
        )
    return files


def _walk(directory: str) -> Iterator[str]:
    try:
        entries = sorted(filter(_may_be_data, os.listdir(directory)))
    except OSError as error:
        raise SourceError(f"{directory} cannot be read: {error.strerror or error}") from None
    for entry in entries:
        path = os.path.join(directory, entry)
        if not os.path.isdir(path):
            yield path
        elif is_key_directory(entry):
            yield from _walk(path)
        else:
            raise SourceError(
                f"{directory} contains the directory {entry}: use a pattern such as "
                f"{os.path.join(directory, '*', '*')!r} to read the files in it"
            )


def first_with_bytes(files: Sequence[str]) -> str:
    """Return the first file that is not empty, as far as that is known without reading it."""
    for file in files:
        if is_remote(file) or not os.path.isfile(file) or os.path.getsize(file):
            return file
    return files[0]


def warn_of_partitions(name: str, files: Sequence[str]) -> None:
    """Warn of values that only names of directories hold, such as ``site=news/part-0.vw``."""
    parts = dict.fromkeys(part for file in files for part in file.split("/")[:-1])
    values: dict[str, list[str]] = {}
    for part in parts:
        if is_key_directory(part):
            values.setdefault(part.partition("=")[0], []).append(part)
    columns = [column for column, found in values.items() if len(found) > 1]
    if columns:
        logger.warning(
            "%s: names of directories hold values of %s, such as %s, which are not read: they are "
            "features of files with columns only (CSV, JSON lines, Parquet, Arrow, Avro), without "
            "delayed labels", name, ", ".join(columns), values[columns[0]][0],
        )  # fmt: skip
