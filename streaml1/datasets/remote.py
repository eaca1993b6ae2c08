"""Base classes of data sets that are downloaded once, or read from the user's directory."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import zipfile
from abc import abstractmethod
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib import request

import numpy as np
from numpy.typing import NDArray
from river.datasets import base

from streaml1.core.atomic_write import temporary_path
from streaml1.sources.source import Lost, SourceError, Unavailable

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = [
    "File",
    "MatrixDataset",
    "RemoteDataset",
    "check_choice",
    "data_home",
    "parse_numbers",
    "verify",
]

T = TypeVar("T")

VARIABLE = "STREAML1_DATA"
"""Environment variable with the directory of the user's copies of data sets."""


class File(NamedTuple):
    """A file of a data set, and its origin.

    Parameters
    ----------
    name
        File name. A copy may be compressed with gzip, with ``.gz`` at the end of its name, or not.
    url
        The original source.
    size
        Size in bytes; None if unknown.
    sha256
        SHA-256 of the download; with `ignore_whitespace`, of its tokens joined by single spaces.
    ignore_whitespace
        Whether copies may differ in spaces and line ends.
    member
        If the download is a zip archive, the file in it to keep.
    """

    name: str
    url: str
    size: int | None
    sha256: str
    ignore_whitespace: bool = False
    member: str | None = None


def data_home() -> Path:
    """Return the download directory of river: `RIVER_DATA`, or ``~/river_data``."""
    return Path(os.environ.get("RIVER_DATA") or Path("~", "river_data")).expanduser()


def find_user_directory(name: str, directory: str | Path | None) -> Path | None:
    """Return the user's directory of a data set; None if there is none.

    Parameters
    ----------
    name
        Name of the subdirectory of the data set.
    directory
        A directory that holds the files of the data set, or a subdirectory `name` with them. None:
        the subdirectory `name` of `STREAML1_DATA`, if it exists.
    """
    if directory is not None:
        given = Path(directory).expanduser()
        return given / name if (given / name).is_dir() else given
    root = os.environ.get(VARIABLE)
    if root and (Path(root).expanduser() / name).is_dir():
        return Path(root).expanduser() / name
    return None


def check_choice(what: str, value: T, allowed: tuple[T, ...]) -> T:
    """Return `value` if it is one of `allowed`, else raise a ValueError."""
    if value not in allowed:
        *others, last = map(repr, allowed)
        raise ValueError(f"{what} must be {', '.join(others)} or {last}, got {value!r}")
    return value


class RemoteDataset(base.RemoteDataset):
    """A data set in the form of river: downloaded once, verified, then read from disk.

    Parameters
    ----------
    subdirectory
        Name of its subdirectory in `STREAML1_DATA`.
    files
        Its files.
    directory
        The user's directory. None: `STREAML1_DATA`, if it has this data set, else the download
        directory of river.
    desc
        The description that `river.datasets.base.Dataset` takes.
    """

    def __init__(
        self, subdirectory: str, files: tuple[File, ...], directory: str | Path | None, **desc: Any
    ) -> None:
        sizes = [file.size for file in files]
        total = None if None in sizes else sum(size for size in sizes if size is not None)
        super().__init__(  # type: ignore[no-untyped-call]
            url=files[0].url, size=total, unpack=False, filename=files[0].name, **desc
        )
        self.subdirectory = subdirectory
        self.files = files
        self.directory = directory

    @property
    def user_directory(self) -> Path | None:
        """The user's directory that it is read from, if any; nothing is downloaded to it."""
        return find_user_directory(self.subdirectory, self.directory)

    @property
    def home(self) -> Path:
        """The directory that it is read from."""
        return self.user_directory or data_home() / type(self).__name__

    @property
    def path(self) -> Path:
        """Its file, or the directory of its files if there are several."""
        return self.home / self.filename if len(self.files) == 1 else self.home

    @property
    def is_downloaded(self) -> bool:
        """Whether all its files exist."""
        return all(self.find_file(file.name) is not None for file in self.files)

    def find_file(self, name: str) -> Path | None:
        """Return the path of a file, compressed with gzip or not; None if it does not exist."""
        variant = name.removesuffix(".gz") if name.endswith(".gz") else f"{name}.gz"
        for path in (self.home / name, self.home / variant):
            if path.is_file():
                return path
        return None

    def read_file(self, name: str) -> bytes:
        """Read a file, and decompress it if it is compressed.

        Raises
        ------
        SourceError
            If the file does not exist.
        Lost
            If it cannot be read or decompressed.
        """
        path = self.find_file(name)
        if path is None:
            raise self._missing(name)
        try:
            with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
                return file.read()
        except (OSError, EOFError) as error:
            raise Lost(f"{path} cannot be read: {error}; download it again") from None

    def download(self, force: bool = False, verbose: bool = True) -> None:
        """Download the missing files to the download directory of river, and verify them.

        Parameters
        ----------
        force
            Also download files that exist.
        verbose
            Print each URL.

        Raises
        ------
        SourceError
            If there is no network, if a checksum differs, or if the user's directory lacks a file.
        """
        missing = [file for file in self.files if force or self.find_file(file.name) is None]
        if missing and self.user_directory is not None:
            raise self._missing(missing[0].name)
        for file in missing:
            if verbose:
                print(f"Downloading {file.url}")
            self._download_file(file)

    def ensure_downloaded(self) -> None:
        """Download the files unless all of them exist."""
        if not self.is_downloaded:
            self.download()

    def _missing(self, name: str) -> SourceError:
        """Make the error for a file that the user's directory lacks."""
        where = (
            f"directory={str(self.user_directory)!r}"
            if self.directory is not None
            else str(self.user_directory)
        )
        return SourceError(
            f"{name} of {type(self).__name__} is missing in {where}; add it, or name another "
            f"directory with directory= or {VARIABLE}"
        )

    def _download_file(self, file: File) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        part = temporary_path(self.home / file.name)
        try:
            try:
                with request.urlopen(file.url, timeout=60) as response, open(part, "wb") as out:
                    shutil.copyfileobj(response, out)
            except (OSError, ValueError, HTTPException) as error:
                raise Unavailable(
                    f"{file.url} cannot be downloaded ({getattr(error, 'reason', error)}); retry "
                    f"with a network, or name a directory that has {file.name} with directory= or "
                    f"{VARIABLE}"
                ) from None
            verify(part, file)
            if file.member is not None:
                _extract(part, file.member)
            part.replace(self.home / file.name)
        finally:
            part.unlink(missing_ok=True)

    @property
    def _repr_content(self) -> dict[str, str]:
        content = super(base.RemoteDataset, self)._repr_content
        content["URL"] = self.url
        if self.size is not None:
            content["Size"] = f"{self.size / 2**20:,.1f} MiB"
        content["Downloaded"] = str(self.is_downloaded)
        return dict(content)

    def __iter__(self) -> Iterator[tuple[dict[Any, Any], Any]]:
        """Yield (x, y), like the streams of river."""
        self.ensure_downloaded()
        yield from self._iter()  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        """Return the number of examples."""
        return int(self.n_samples)


class MatrixDataset(RemoteDataset):
    """A numerical data set: a matrix, and a label for each row; feature names are column numbers.

    Zeros are stored neither in the matrix nor in the dicts.
    """

    _cached: tuple[csr_matrix, NDArray[Any]] | None = None

    def matrix(self) -> tuple[csr_matrix, NDArray[Any]]:
        """Return all rows as a CSR matrix of float64, and the labels.

        They are read from disk once and shared between calls: copy them before changing them.

        Raises
        ------
        Lost
            If the files do not have the documented shape.
        """
        if self._cached is None:
            self.ensure_downloaded()
            X, y = self._read()
            if X.shape != (self.n_samples, self.n_features) or len(y) != self.n_samples:
                raise Lost(
                    f"{self.path} has {X.shape[0]:,} rows of {X.shape[1]:,} columns, expected "
                    f"{self.n_samples:,} of {self.n_features:,}; download it again"
                )
            self._cached = X, y
        return self._cached

    @abstractmethod
    def _read(self) -> tuple[csr_matrix, NDArray[Any]]:
        """Read the matrix and the labels from disk."""

    def _iter(self) -> Iterator[tuple[dict[Any, Any], Any]]:
        X, y = self.matrix()
        indptr = X.indptr.tolist()
        for row, label in enumerate(y.tolist()):
            part = slice(indptr[row], indptr[row + 1])
            columns, values = X.indices[part].tolist(), X.data[part].tolist()
            yield dict(zip(columns, values, strict=True)), label


def verify(path: Path, file: File) -> None:
    """Compare a download with its checksum.

    Raises
    ------
    Lost
        If they differ.
    """
    content = path.read_bytes()
    digest = hashlib.sha256(
        b" ".join(content.split()) if file.ignore_whitespace else content
    ).hexdigest()
    if digest != file.sha256:
        raise Lost(
            f"{file.url} gave {len(content):,} bytes with SHA-256 {digest}, expected "
            f"{file.sha256}; nothing was kept, retry"
        )


def parse_numbers(
    text: bytes, columns: int, path: str, separator: bytes | None = None
) -> NDArray[np.float64]:
    """Parse a table of numbers.

    Parameters
    ----------
    text
        The numbers, row by row.
    columns
        Numbers in a row.
    path
        The file, for errors.
    separator
        What separates the numbers in addition to whitespace.

    Returns
    -------
    ndarray of float64
        Shape (rows, columns).

    Raises
    ------
    Lost
        If something is not a number, or the last row is incomplete.
    """
    tokens = text.split() if separator is None else text.replace(separator, b" ").split()
    try:
        flat = np.array(tokens, np.float64)
    except ValueError:
        raise Lost(f"{path} has text that is not a number; download it again") from None
    if len(flat) == 0 or len(flat) % columns:
        raise Lost(
            f"{path} has {len(flat):,} numbers, expected {columns:,} in each row; download it again"
        )
    return flat.reshape(-1, columns)


def _extract(archive: Path, member: str) -> None:
    """Replace a zip archive by one of its files."""
    with zipfile.ZipFile(archive) as opened:
        content = opened.read(member)
    archive.write_bytes(content)
