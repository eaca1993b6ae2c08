"""Files in object stores and on web servers, read as streams through fsspec."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import cache
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from streaml1.sources.source import SOURCES, SourceError, Unavailable, shown

__all__ = ["is_remote", "is_remote_pattern", "list_remote", "open_remote", "path_of", "remote_size",
           "require_remote"]  # fmt: skip

BLOCK = 2**22
"""Bytes of a request."""

CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
"""Timeouts of web servers. The whole download has no limit, unlike that of aiohttp by default."""

IN_EXTRA = ("s3", "s3a", "gs", "gcs", "http", "https")
"""Schemes whose packages the extra `remote` installs."""

HTTP = ("http", "https")

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")
_MAGIC = re.compile(r"[*?[]")


def is_remote(name: object) -> bool:
    """Return whether a name is the URL of a file.

    Examples
    --------
    >>> from streaml1.sources.readers.remote import is_remote
    >>> is_remote("s3://clicks/day.csv.gz"), is_remote("clicks/day.csv.gz")
    (True, False)
    """
    return (
        isinstance(name, str)
        and _SCHEME.match(name) is not None
        and name.partition(":")[0] not in SOURCES
    )


def is_remote_pattern(name: str) -> bool:
    """Return whether a URL is a pattern, or a directory: it ends in a slash.

    A web server lists no files, and ``?`` begins the query of its URLs.
    """
    return _scheme(name) not in HTTP and (name.endswith("/") or bool(_MAGIC.search(name)))


def path_of(name: str) -> str:
    """Return a name without the query and the fragment of a web address.

    Examples
    --------
    >>> from streaml1.sources.readers.remote import path_of
    >>> path_of("https://example.com/day.csv.gz?version=2")
    'https://example.com/day.csv.gz'
    """
    if not is_remote(name) or _scheme(name) not in HTTP:
        return name
    return urlsplit(name)._replace(query="", fragment="").geturl()


def require_remote(name: str) -> None:
    """Raise `SourceError` if there is no such file."""
    system, path = _file_system(name)
    try:
        kind = system.info(path)["type"]
    except Exception as error:
        raise _open_error(name, error) from None
    if kind == "directory":
        raise SourceError(f"{name} is a directory: append / to read the files in it")


def open_remote(name: str, seekable: bool = False) -> BinaryIO:
    """Open a file; if `seekable`, any part of it can be read.

    Raises
    ------
    SourceError
        If it cannot be opened; also later, while it is read.
    """
    system, path = _file_system(name)
    # A web server sends a file as one stream: not every server knows ranges.
    block = 0 if _scheme(name) in HTTP and not seekable else BLOCK
    try:
        file = system.open(path, "rb", block_size=block, cache_type="readahead")
    except Exception as error:
        raise _open_error(name, error) from None
    return cast(BinaryIO, io.BufferedReader(_RemoteFile(name, file), 2**16))


def remote_size(name: str) -> int:
    """Return the size of a file in bytes; -1 if it is unknown."""
    system, path = _file_system(name)
    try:
        size = system.info(path)["size"]
    except Exception as error:
        raise _open_error(name, error) from None
    return -1 if size is None else int(size)


def list_remote(name: str, is_included: Callable[[str], bool]) -> list[str]:
    """Return the URLs of the files of a directory, or of those that match a pattern, unsorted.

    Parameters
    ----------
    name
        The URL of the directory, or the pattern.
    is_included
        Whether the files of a directory within the directory are listed, too, by its name.
    """
    system, path = _file_system(name)
    try:
        if _MAGIC.search(name):
            found = [*system.glob(path, detail=True).values()]
        else:
            found, directories = [], [path]
            while directories:
                outer = directories.pop()
                entries = system.ls(outer, detail=True)
                found += entries
                inner = [i["name"] for i in entries if i["type"] == "directory"]
                directories += [d for d in inner if is_included(d.rstrip("/").rpartition("/")[2])]
        return [system.unstrip_protocol(i["name"]) for i in found if i["type"] == "file"]
    except Exception as error:
        raise _open_error(name, error) from None


def _scheme(name: str) -> str:
    return name.partition(":")[0]


def _file_system(name: str) -> tuple[Any, str]:
    """Return the file system of fsspec, and the path in it.

    Raises
    ------
    SourceError
        If a package is missing, or the scheme is unknown.
    """
    scheme = _scheme(name)
    remedy = "pip install 'streaml1[remote]'"
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise SourceError(f"{name} needs the package fsspec: {remedy}") from None
    try:
        options = _http_options() if scheme in HTTP else {}
        return cast(tuple[Any, str], url_to_fs(name, **options))
    except ImportError as error:
        if scheme in IN_EXTRA:
            raise SourceError(f"{name} needs packages for {scheme}: {remedy}") from None
        raise SourceError(f"{name} needs another package: {error}") from None
    except ValueError as error:
        raise SourceError(f"{name} cannot be opened: {_sentence(error)}") from None
    except Exception as error:  # such as missing credentials
        raise _open_error(name, error) from None


@cache
def _http_options() -> dict[str, Any]:
    """Return fsspec's options; always the same ones, so that it reuses connections."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS
    )
    # The bytes as they are stored: compressed files are recognized and decompressed here.
    return {
        "headers": {"Accept-Encoding": "identity"},
        "client_kwargs": {"timeout": timeout, "auto_decompress": False},
    }


class _RemoteFile(io.RawIOBase):
    """A file of fsspec, whose errors are one sentence each."""

    def __init__(self, name: str, file: Any) -> None:
        self._name = name
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        # The size of a stream of a web server is None.
        return getattr(self._file, "size", 0) is not None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if not self.seekable():
            raise io.UnsupportedOperation("seek")
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, destination: Any) -> int:
        try:
            content = self._file.read(len(destination))
        except ValueError:
            raise SourceError(
                f"{self._name} cannot be read in parts, as its server ignores the Range header; "
                "download it first"
            ) from None
        except Exception as error:
            raise Unavailable(
                f"{self._name}: the file cannot be read from here on ({_sentence(error)}); start "
                "again"
            ) from None
        destination[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _open_error(name: str, error: Exception) -> SourceError:
    """Explain why a file cannot be opened."""
    # fsspec reports every failure of a web server as FileNotFoundError, with its cause.
    cause = error.__cause__ or error
    status = getattr(cause, "status", None)
    if isinstance(cause, PermissionError) or status in (401, 403):
        return SourceError(f"{name} cannot be read: permission denied; check the credentials")
    if isinstance(cause, FileNotFoundError) or status in (404, 410):
        return SourceError(f"{name}: there is no such file")
    kinds = " ".join(kind.__name__ for kind in type(cause).__mro__)
    if status == 429 or (status or 0) >= 500 or re.search("Connect|Timeout", kinds):
        return Unavailable(f"{name} does not answer: {_sentence(cause)}")
    return SourceError(f"{name} cannot be read: {_sentence(cause)}")


def _sentence(error: BaseException) -> str:
    """Return an error on one line, or its type if it has no text."""
    text = shown(" ".join(str(error).split()))[1:-1]
    return text.rstrip(".") or type(error).__name__
