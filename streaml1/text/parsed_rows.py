"""What readers of text give: examples as rows, which are dicts to whoever looks at one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from streaml1.core.jit import kernel

__all__ = ["IntRows", "NamedRows"]


_HALF, _SIZE = np.uint64(32), np.uint64(2**32 - 1)


@kernel
def _reach(spans: Any) -> tuple[int, int]:
    """Where the first of some names begins, and where the last ends."""
    first, last = _SIZE, np.uint64(0)
    for span in spans:
        first = min(first, span >> _HALF)
        last = max(last, (span >> _HALF) + (span & _SIZE))
    return int(first), int(last)


class IntRows(Sequence[dict[Hashable, Any]]):
    """Examples whose features have ints for names.

    Models learn the rows without a look at one of them; as a sequence they are dicts, made when
    they are asked for. A slice copies nothing.

    Parameters
    ----------
    ids
        The names, uint32 or int64; one that comes twice in a row counts with the sum.
    values
        Their values, float64.
    indptr
        Row i is the part `indptr[i]:indptr[i + 1]`, int64.
    plain
        Whether no row is known to have a name twice, or a value that is zero or refused.
    below
        What all names are below, if that is known.

    Examples
    --------
    >>> import numpy as np
    >>> ids = np.array([3, 7, 3], np.uint32)
    >>> rows = IntRows(ids, np.array([0.5, 1.0, 2.0]), np.array([0, 2, 3]))
    >>> len(rows), rows[0], list(rows[1:])
    (2, {3: 0.5, 7: 1.0}, [{3: 2.0}])
    """

    __slots__ = ("below", "ids", "indptr", "plain", "values")

    def __init__(
        self, ids: Any, values: Any, indptr: Any, plain: bool = False, below: int | None = None
    ) -> None:
        self.plain = plain
        self.below = below
        self.ids = ids
        self.values = values
        self.indptr = indptr

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @overload
    def __getitem__(self, k: int) -> dict[Hashable, Any]: ...

    @overload
    def __getitem__(self, k: slice) -> IntRows: ...

    def __getitem__(self, k: int | slice) -> dict[Hashable, Any] | IntRows:
        if isinstance(k, slice):
            lo, hi = _bounds(k, len(self))
            return IntRows(self.ids, self.values, self.indptr[lo : hi + 1], self.plain, self.below)
        row = range(len(self))[k]
        lo, hi = int(self.indptr[row]), int(self.indptr[row + 1])
        names, values = self.ids[lo:hi].tolist(), self.values[lo:hi].tolist()
        x: dict[Hashable, Any] = dict(zip(names, values, strict=True))
        if len(x) < len(names):
            x = {}
            for name, value in zip(names, values, strict=True):
                x[name] = x.get(name, -0.0) + value
        return x

    def __iter__(self) -> Iterator[dict[Hashable, Any]]:
        return map(self.__getitem__, range(len(self)))

    def parts(self) -> tuple[Any, Any, Any]:
        """`ids`, `values` and `indptr` of these rows alone."""
        lo, hi = int(self.indptr[0]), int(self.indptr[-1])
        return self.ids[lo:hi], self.values[lo:hi], self.indptr - lo

    @staticmethod
    def joined(pieces: Sequence[IntRows]) -> IntRows:
        """The rows of several, one after the other."""
        if len(pieces) == 1:
            return pieces[0]
        ids, values, pointers = zip(*(piece.parts() for piece in pieces), strict=True)
        counts = [np.diff(indptr) for indptr in pointers]
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        plain = all(piece.plain for piece in pieces)
        return IntRows(np.concatenate(ids), np.concatenate(values), indptr, plain)


class NamedRows(Sequence[dict[Hashable, Any]]):
    """Examples whose features have strings for names, which are known by their hashes.

    As `IntRows`; what a row is as a dict is read from its line.

    Parameters
    ----------
    hashes
        Of the names, as `core.hashing.name_hash` makes them, uint64; a name may come twice.
    values
        Their values, float64.
    indptr
        Row i is the part `indptr[i]:indptr[i + 1]`, int64.
    names
        The UTF-8 of the names, uint8.
    spans
        Where in it the name of each feature is, uint64: its first byte times 2**32, and its length.
    text
        The lines of the rows, uint8.
    begins, ends
        Where in it the line of each row begins and ends, with its newline or without, int64.
    one
        Reads a line: its features, and more.
    header
        What tells where features may have come as a name and a string: the names of all columns,
        none where each line names its own; None where no feature has.
    valued
        Whether all values are known to be such as may be learnt, and none of them zero.
    apart
        Whether no row is known to have a name twice.
    """

    __slots__ = (
        *("apart", "begins", "ends", "hashes", "header", "indptr", "names", "one"),
        *("spans", "text", "valued", "values"),
    )

    def __init__(
        self,
        hashes: Any,
        values: Any,
        indptr: Any,
        names: Any,
        spans: Any,
        text: Any,
        begins: Any,
        ends: Any,
        one: Callable[[bytes], Any],
        header: Sequence[str] | None = None,
        valued: bool = False,
        apart: bool = False,
    ) -> None:
        self.valued = valued
        self.apart = apart
        self.header = header
        self.hashes = hashes
        self.values = values
        self.indptr = indptr
        self.names = names
        self.spans = spans
        self.text = text
        self.begins = begins
        self.ends = ends
        self.one = one

    def __len__(self) -> int:
        return len(self.begins)

    @overload
    def __getitem__(self, k: int) -> dict[Hashable, Any]: ...

    @overload
    def __getitem__(self, k: slice) -> NamedRows: ...

    def __getitem__(self, k: int | slice) -> dict[Hashable, Any] | NamedRows:
        if isinstance(k, slice):
            lo, hi = _bounds(k, len(self))
            return NamedRows(
                self.hashes, self.values, self.indptr[lo : hi + 1], self.names, self.spans,
                self.text, self.begins[lo:hi], self.ends[lo:hi], self.one, self.header, self.valued,
                self.apart,
            )  # fmt: skip
        x: dict[Hashable, Any] = self.one(self.line(range(len(self))[k]))[0]
        return x

    def __iter__(self) -> Iterator[dict[Hashable, Any]]:
        return map(self.__getitem__, range(len(self)))

    @property
    def plain(self) -> bool:
        """Whether no row is known to have a name twice, or a value that is zero or refused."""
        return self.apart and self.valued

    def parts(self) -> tuple[Any, Any, Any]:
        """`hashes`, `values` and `indptr` of these rows alone."""
        lo, hi = int(self.indptr[0]), int(self.indptr[-1])
        return self.hashes[lo:hi], self.values[lo:hi], self.indptr - lo if lo else self.indptr

    def line(self, row: int) -> bytes:
        """The line of a row, without its newline."""
        line: bytes = self.text[self.begins[row] : self.ends[row]].tobytes()
        return line.removesuffix(b"\n")

    def own_spans(self) -> Any:
        """`spans` of these rows alone."""
        return self.spans[int(self.indptr[0]) : int(self.indptr[-1])]

    def has(self, text: str) -> bool:
        """Whether a text may stand in a name: it stands among the names."""
        letters = np.frombuffer(text.encode(), np.uint8)
        raw, _ = self._read()
        last = len(raw) - len(letters) + 1
        found = raw[: max(0, last)] == letters[0]
        for k in range(1, len(letters)):
            if not found.any():  # most often at the first
                return False
            found &= raw[k : k + last] == letters[k]
        return bool(found.any())

    def _read(self) -> tuple[Any, int]:
        """What of `names` these rows have, and where it begins."""
        spans = self.own_spans()
        if not len(spans):
            return self.names[:0], 0
        first, last = _reach(spans)
        return self.names[first:last], first

    def chosen(self, places: Any, values: Any, indptr: Any) -> NamedRows:
        """As many rows of some of the features, by their places, with other values."""
        return NamedRows(
            self.parts()[0][places], values, indptr, self.names, self.own_spans()[places],
            self.text, self.begins, self.ends, self.one, self.header,
        )  # fmt: skip

    def names_of(self, places: Any) -> list[str]:
        """The names of some features, by their places among those of these rows."""
        spans = self.own_spans()[places]
        letters, first = self._read()
        begins, sizes = spans >> np.uint64(32), spans & np.uint64(2**32 - 1)
        begins -= np.uint64(first)
        pairs = zip(begins.tolist(), (begins + sizes).tolist(), strict=True)
        raw = letters.tobytes()
        if raw.isascii():
            text = raw.decode()
            return [text[lo:hi] for lo, hi in pairs]
        return [raw[lo:hi].decode() for lo, hi in pairs]

    @staticmethod
    def joined(pieces: Sequence[NamedRows]) -> NamedRows:
        """The rows of several, one after the other."""
        if len(pieces) == 1:
            return pieces[0]
        alone = [piece._alone() for piece in pieces]
        hashes, values, pointers, names, spans, texts, begins, ends = zip(*alone, strict=True)
        features = np.cumsum([0, *map(len, hashes)])
        letters = np.cumsum([0, *map(len, names)]).astype(np.uint64) << np.uint64(32)
        bytes_ = np.cumsum([0, *map(len, texts)])
        indptr = [one[:-1] + at for one, at in zip(pointers, features, strict=False)]
        return NamedRows(
            np.concatenate(hashes), np.concatenate(values),
            np.concatenate([*indptr, features[-1:]]), np.concatenate(names),
            np.concatenate([one + at for one, at in zip(spans, letters, strict=False)]),
            np.concatenate(texts),
            np.concatenate([one + at for one, at in zip(begins, bytes_, strict=False)]),
            np.concatenate([one + at for one, at in zip(ends, bytes_, strict=False)]),
            pieces[0].one, pieces[0].header, all(piece.valued for piece in pieces),
            all(piece.apart for piece in pieces),
        )  # fmt: skip

    def _alone(self) -> tuple[Any, ...]:
        """The arrays without what is of other rows."""
        hashes, values, indptr = self.parts()
        names, first = self._read()
        spans = self.own_spans() - (np.uint64(first) << np.uint64(32))
        text, begins, ends = self.text[:0], self.begins, self.ends
        if len(begins):
            first = int(begins[0])
            text, begins, ends = self.text[first : int(ends[-1])], begins - first, ends - first
        return hashes, values, indptr, names, spans, text, begins, ends


def _bounds(k: slice, n: int) -> tuple[int, int]:
    """First and last of consecutive rows."""
    lo, hi, step = k.indices(n)
    if step != 1:
        raise ValueError(f"a step of {step} is none of rows: they are sliced one by one")
    return lo, max(lo, hi)
