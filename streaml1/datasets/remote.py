"""What data sets share that are downloaded once, or read from a folder of one's own."""

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
from typing import Any, NamedTuple
from urllib import request

import numpy as np
from river.datasets import base

from streaml1.core.atomic_write import name_beside
from streaml1.sources.source import Lost, SourceError, Unavailable

__all__ = ["File", "Matrix", "Remote", "data_home", "one_of"]

VARIABLE = "STREAML1_DATA"


class File(NamedTuple):
    """A file of a data set, and where it came from.

    Parameters
    ----------
    name
        Its name in a folder; one may have it packed, with ``.gz``, or unpacked without.
    url
        The original source.
    size
        Bytes; None where no source tells.
    sha256
        Of what is downloaded; with `words` of its words with single spaces between.
    words
        Whether spaces and ends of lines do not count, for they differ between copies.
    member
        The file of a zip archive that is kept.
    """

    name: str
    url: str
    size: int | None
    sha256: str
    words: bool = False
    member: str | None = None


def data_home() -> Path:
    """Where river keeps downloads: `RIVER_DATA`, or ``~/river_data``."""
    return Path(os.environ.get("RIVER_DATA") or Path("~", "river_data")).expanduser()


def own_folder(name: str, directory: str | Path | None) -> Path | None:
    """The folder of one's own that holds a data set, if there is one.

    `directory` holds its files, or a folder of its name; `STREAML1_DATA` holds a folder of its
    name.
    """
    if directory is not None:
        given = Path(directory).expanduser()
        return given / name if (given / name).is_dir() else given
    named = os.environ.get(VARIABLE)
    if named and (Path(named).expanduser() / name).is_dir():
        return Path(named).expanduser() / name
    return None


def one_of(what: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """The value, if it is one of those allowed; else ValueError."""
    if value not in allowed:
        *most, last = map(repr, allowed)
        raise ValueError(f"{what}={value!r} is none there is: give {', '.join(most)} or {last}")
    return value


class Remote(base.RemoteDataset):
    """A data set of river's form: downloaded once, its checksum verified, then read from disk.

    Parameters
    ----------
    folder
        Its name in a folder of one's own.
    files
        What it consists of.
    directory
        The folder of one's own, or None: that of `STREAML1_DATA`, if it has one, else river's.
    desc
        What river describes a data set by.
    """

    def __init__(
        self, folder: str, files: tuple[File, ...], directory: str | Path | None, **desc: Any
    ) -> None:
        sizes = [file.size for file in files]
        whole = None if None in sizes else sum(size for size in sizes if size is not None)
        super().__init__(  # type: ignore[no-untyped-call]
            url=files[0].url, size=whole, unpack=False, filename=files[0].name, **desc
        )
        self.folder = folder
        self.files = files
        self.directory = directory

    @property
    def own(self) -> Path | None:
        """The folder of one's own that it is read from, which nothing is downloaded into."""
        return own_folder(self.folder, self.directory)

    @property
    def home(self) -> Path:
        """The folder it is read from."""
        return self.own or data_home() / type(self).__name__

    @property
    def path(self) -> Path:
        """Its file, or the folder of its files."""
        return self.home / self.filename if len(self.files) == 1 else self.home

    @property
    def is_downloaded(self) -> bool:
        """Whether all its files are there."""
        return all(self.found(file.name) is not None for file in self.files)

    def found(self, name: str) -> Path | None:
        """A file of it, packed by gzip or not; None where it is not there."""
        other = name.removesuffix(".gz") if name.endswith(".gz") else f"{name}.gz"
        for path in (self.home / name, self.home / other):
            if path.is_file():
                return path
        return None

    def text(self, name: str) -> bytes:
        """What is in a file of it, unpacked."""
        path = self.found(name)
        if path is None:
            raise self._away(name)
        try:
            with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
                return file.read()
        except (OSError, EOFError) as error:
            raise Lost(f"{path} cannot be read: {error}; copy it anew") from None

    def download(self, force: bool = False, verbose: bool = True) -> None:
        """Download what is not there yet into river's folder, and verify it.

        Raises
        ------
        SourceError
            With one sentence: no network, another checksum, or a folder of one's own that does not
            hold the files.
        """
        missing = [file for file in self.files if force or self.found(file.name) is None]
        if missing and self.own is not None:
            raise self._away(missing[0].name)
        for file in missing:
            if verbose:
                print(f"Downloading {file.url}")
            self._fetch(file)

    def require(self) -> None:
        """Have the files on disk."""
        if not self.is_downloaded:
            self.download()

    def _away(self, name: str) -> SourceError:
        where = f"directory={str(self.own)!r}" if self.directory is not None else str(self.own)
        return SourceError(
            f"{where} has no {name}, which {type(self).__name__} is read from: put it there, or "
            f"name another folder by directory= or {VARIABLE}"
        )

    def _fetch(self, file: File) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        part = name_beside(self.home / file.name)
        try:
            try:
                with request.urlopen(file.url, timeout=60) as answer, open(part, "wb") as out:
                    shutil.copyfileobj(answer, out)
            except (OSError, ValueError, HTTPException) as error:
                raise Unavailable(
                    f"{file.url} cannot be downloaded ({getattr(error, 'reason', error)}): come "
                    f"back with a network, or name a folder that has {file.name} by directory= or "
                    f"{VARIABLE}"
                ) from None
            verify(part, file)
            if file.member is not None:
                _unpack(part, file.member)
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
        """Yield (x, y), as river's streams do."""
        self.require()
        yield from self._iter()  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        """How many examples there are."""
        return int(self.n_samples)


class Matrix(Remote):
    """A data set of numbers: a matrix, and a label for each row; the names are the columns.

    A zero is not there, in the matrix as in the dicts.
    """

    _kept: tuple[Any, Any] | None = None

    def matrix(self) -> tuple[Any, Any]:
        """All rows as a `scipy.sparse.csr_matrix` of float64, and the labels as an array.

        They are read once, and the same each time: who changes them changes the data set.
        """
        if self._kept is None:
            self.require()
            X, y = self._read()
            if X.shape != (self.n_samples, self.n_features) or len(y) != self.n_samples:
                raise Lost(
                    f"{self.path} has {X.shape[0]:,} rows of {X.shape[1]:,} columns and not "
                    f"{self.n_samples:,} of {self.n_features:,}: copy it anew"
                )
            self._kept = X, y
        return self._kept

    @abstractmethod
    def _read(self) -> tuple[Any, Any]:
        """Read matrix and labels from disk."""

    def _iter(self) -> Iterator[tuple[dict[Any, Any], Any]]:
        X, y = self.matrix()
        ends = X.indptr.tolist()
        for row, label in enumerate(y.tolist()):
            part = slice(ends[row], ends[row + 1])
            names, values = X.indices[part].tolist(), X.data[part].tolist()
            yield dict(zip(names, values, strict=True)), label


def verify(path: Path, file: File) -> None:
    """Compare a download with its checksum."""
    content = path.read_bytes()
    digest = hashlib.sha256(b" ".join(content.split()) if file.words else content).hexdigest()
    if digest != file.sha256:
        raise Lost(
            f"{file.url} gave {len(content):,} bytes whose SHA256 is {digest} and not "
            f"{file.sha256}: nothing was kept; try again"
        )


def numbers(text: bytes, columns: int, what: str, separator: bytes | None = None) -> Any:
    """The numbers of a text, a row a line, as an array of so many columns."""
    words = text.split() if separator is None else text.replace(separator, b" ").split()
    try:
        flat = np.array(words, np.float64)
    except ValueError:
        raise Lost(f"{what} has text that is no number: copy it anew") from None
    if len(flat) == 0 or len(flat) % columns:
        raise Lost(f"{what} has {len(flat):,} numbers, not {columns:,} a row: copy it anew")
    return flat.reshape(-1, columns)


def _unpack(archive: Path, member: str) -> None:
    """Have a member of an archive in its place."""
    with zipfile.ZipFile(archive) as packed:
        content = packed.read(member)
    archive.write_bytes(content)
