"""Names of directories that hold values of columns, such as ``day=2026-11-01/country=DE``.

Spark, Hive, DuckDB, polars and pyarrow write tables so: each file is in a directory for the values
of some columns, which the file itself lacks, unless polars wrote it or DuckDB was told to keep
them. Values and names are percent-encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from streaml1.sources.readers.remote import path_of
from streaml1.sources.source import SourceError

__all__ = ["is_key_directory", "keys_of", "keys_of_files", "path_from_keys"]

MISSING = "__HIVE_DEFAULT_PARTITION__"
"""The value that stands for a missing one."""


def is_key_directory(name: str) -> bool:
    """Return whether the name of a directory is a key and its value.

    Examples
    --------
    >>> from streaml1.sources.readers.directory_keys import is_key_directory
    >>> is_key_directory("day=2026-11-01"), is_key_directory("site="), is_key_directory("=1")
    (True, True, False)
    """
    return "=" in name[1:]


def keys_of(file: str) -> dict[str, str | None]:
    """Return the keys of a file, with their values as text; None is a missing value.

    These are the directories ``key=value`` right above the file, in the path as it is given.

    Raises
    ------
    SourceError
        If a key occurs twice.

    Examples
    --------
    >>> from streaml1.sources.readers.directory_keys import keys_of
    >>> keys_of("run=3/clicks/day=2026-11-01/site=a%20b/part-0.csv")
    {'day': '2026-11-01', 'site': 'a b'}
    >>> keys_of("site=__HIVE_DEFAULT_PARTITION__/part-0.csv")
    {'site': None}
    """
    keys: dict[str, str | None] = {}
    for directory in _key_directories(file):
        key, _, text = directory.partition("=")
        name = unquote(key)
        if name in keys:
            raise SourceError(f"{file}: two directories hold values of {name!r}; rename one")
        keys[name] = None if text == MISSING else unquote(text)
    return keys


def keys_of_files(files: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """Return the keys of each file, which must be the same ones; nothing if they have none."""
    found = {file: keys_of(file) for file in files}
    first = found[files[0]]
    for file, keys in found.items():
        if keys.keys() != first.keys():
            ours, others = (", ".join(map(repr, some)) or "none" for some in (keys, first))
            raise SourceError(
                f"names of directories hold values of other columns for {file} ({ours}) than for "
                f"{files[0]} ({others}); use a pattern for some of them"
            )
    return found if first else {}


def path_from_keys(file: str) -> str:
    """Return the path of a file from its first key on; its name alone if it has none.

    Examples
    --------
    >>> from streaml1.sources.readers.directory_keys import path_from_keys
    >>> path_from_keys("clicks/day=1/part-0.csv"), path_from_keys("clicks/part-0.csv")
    ('day=1/part-0.csv', 'part-0.csv')
    """
    return "/".join([*_key_directories(file), path_of(file).rpartition("/")[2]])


def _key_directories(file: str) -> list[str]:
    """Return the names of the directories right above a file that hold values."""
    directories: list[str] = []
    for directory in reversed(path_of(file).split("/")[:-1]):
        if not is_key_directory(directory):
            break
        directories.insert(0, directory)
    return directories
