"""Rows of a `.rows` file whose features are indices into the names of the file."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

from streaml1.core.spans import OFFSET_BITS
from streaml1.core.types import Bytes, Hashes, Ids, Indptr, Ints, Values
from streaml1.text.keyed_names import keyed_hashes_between
from streaml1.text.parsed_rows import NamedRows, Spans, entries_of_rows

__all__ = ["FileNames", "FileRows"]


class FileNames:
    """The feature names of a file: their hashes, and their text, which is read on demand.

    Parameters
    ----------
    hashes
        The hashes of the names, uint64, by index.
    read
        Returns where each name ends in the text, and the text.
    """

    def __init__(self, hashes: Hashes, read: Callable[[], tuple[Ints, Bytes]]) -> None:
        self.hashes = hashes
        self._read = read
        self._contained: dict[str, bool] = {}

    @cached_property
    def _begins_and_text(self) -> tuple[Ints, Bytes]:
        """Where each name begins, then where the last one ends; and the text."""
        ends, text = self._read()
        return np.concatenate([[0], ends]), text

    @cached_property
    def _text(self) -> str | bytes:
        raw: bytes = self.bytes.tobytes()
        return raw.decode() if raw.isascii() else raw

    @cached_property
    def keyed_hashes(self) -> Hashes:
        """The keyed hashes of the names, by index."""
        begins, text = self._begins_and_text
        return keyed_hashes_between(self.hashes, text, begins.view(np.uint64))

    @property
    def bytes(self) -> Bytes:
        """The text of all names."""
        return self._begins_and_text[1]

    def may_contain(self, text: str) -> bool:
        """Return whether a name may contain `text`; the answer is cached."""
        if text not in self._contained:
            self._contained[text] = text.encode() in self.bytes.tobytes()
        return self._contained[text]

    def spans(self, ids: Any) -> Spans:
        """Return where in `bytes` some names are, as `NamedRows` stores it."""
        begins, _ = self._begins_and_text
        sizes = begins[ids + 1] - begins[ids]
        spans: Spans = begins[ids].astype(np.uint64) << OFFSET_BITS | sizes.astype(np.uint64)
        return spans

    def lookup(self, ids: Any) -> list[str]:
        """Return some names by their indices."""
        begins, text = self._begins_and_text[0], self._text
        pairs = zip(begins[ids].tolist(), begins[ids + 1].tolist(), strict=True)
        if isinstance(text, str):
            return [text[lo:hi] for lo, hi in pairs]
        return [text[lo:hi].decode("utf-8", "surrogatepass") for lo, hi in pairs]


class FileRows(NamedRows):
    """Examples whose features are indices into the names of a file.

    Parameters
    ----------
    ids
        The index of the name of each feature, uint32.
    values
        The feature values, float64.
    indptr
        Row i is the slice `indptr[i]:indptr[i + 1]`, int64.
    file_names
        The names.
    plain
        True if no row has a duplicate name, a zero or a rejected value.
    """

    __slots__ = ("_csr", "file_names", "ids")

    def __init__(
        self, ids: Ids, values: Values, indptr: Indptr, file_names: FileNames, plain: bool = False
    ) -> None:
        self.distinct_names = self.values_checked = plain
        self.header = None
        self.ids = ids
        self.values = values
        self.indptr = indptr
        self.file_names = file_names
        self._csr: tuple[Hashes, Values, Indptr] | None = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @overload
    def __getitem__(self, k: int) -> dict[Hashable, Any]: ...

    @overload
    def __getitem__(self, k: slice) -> FileRows: ...

    def __getitem__(self, k: int | slice) -> dict[Hashable, Any] | FileRows:
        if isinstance(k, slice):
            lo, hi, _ = k.indices(len(self))
            if (lo, hi) == (0, len(self)):
                return self
            indptr = self.indptr[lo : hi + 1]
            return FileRows(self.ids, self.values, indptr, self.file_names, self.plain)
        row = range(len(self))[k]
        lo, hi = int(self.indptr[row]), int(self.indptr[row + 1])
        x: dict[Hashable, Any] = {}
        names = self.file_names.lookup(self.ids[lo:hi].astype(np.int64))
        for name, value in zip(names, self.values[lo:hi].tolist(), strict=True):
            x[name] = x.get(name, 0.0) + value
        return x

    def take(self, rows: Ints) -> FileRows:
        """Return some rows, in ascending order."""
        entries, indptr = entries_of_rows(self.indptr, rows)
        return FileRows(
            self.ids[entries], self.values[entries], indptr, self.file_names, self.plain
        )

    def csr(self) -> tuple[Hashes, Values, Indptr]:
        """Return the hashes of the names, `values` and `indptr` restricted to these rows."""
        if self._csr is None:
            lo, hi = int(self.indptr[0]), int(self.indptr[-1])
            hashes = self.file_names.hashes[self.ids[lo:hi]]
            self._csr = hashes, self.values[lo:hi], self.indptr - lo
        return self._csr

    def keyed_hashes(self) -> Hashes:
        """Return the keyed hash of the name of each feature."""
        keyed: Hashes = self.file_names.keyed_hashes[self._own_ids()]
        return keyed

    @property
    def names(self) -> Bytes:  # type: ignore[override]
        """The text of the names of the file."""
        return self.file_names.bytes

    def may_contain(self, text: str) -> bool:
        """Return whether a name may contain `text`: whether the names of the file do."""
        return self.file_names.may_contain(text)

    def name_spans(self) -> Spans:
        """Return where in `names` the name of each feature is."""
        return self.file_names.spans(self._own_ids())

    def _own_ids(self) -> Ints:
        ids: Ints = self.ids[int(self.indptr[0]) : int(self.indptr[-1])].astype(np.int64)
        return ids

    def select_features(self, positions: Any, values: Values, indptr: Indptr) -> FileRows:
        """Return the same number of rows with only the features at `positions`."""
        ids: Any = self._own_ids()[positions]
        return FileRows(ids, values, indptr, self.file_names)

    def feature_names(self, positions: Any) -> list[str]:
        """Return the names of the features at `positions` among those of these rows."""
        return self.file_names.lookup(self.ids[positions + int(self.indptr[0])].astype(np.int64))

    @staticmethod
    def concatenate(pieces: Sequence[Any]) -> FileRows:
        """Return the rows of all pieces in order."""
        if len(pieces) == 1:
            piece: FileRows = pieces[0]
            return piece
        spans = [slice(int(piece.indptr[0]), int(piece.indptr[-1])) for piece in pieces]
        counts = np.concatenate([np.diff(piece.indptr) for piece in pieces])
        return FileRows(
            np.concatenate([piece.ids[own] for piece, own in zip(pieces, spans, strict=True)]),
            np.concatenate([piece.values[own] for piece, own in zip(pieces, spans, strict=True)]),
            np.concatenate([[0], np.cumsum(counts)]),
            pieces[0].file_names,
        )
