"""What examples come from: a named source, an iterable, or rows and labels side by side."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import streaml1.datasets  # noqa: F401  (makes `stdlib` a source)
from streaml1.core.rows import shown
from streaml1.features.batch import is_frame, is_matrix
from streaml1.models.class_labels import as_label
from streaml1.sources import Block, Refuse, SourceError, class_label, open_source
from streaml1.sources.row_cache.row_file import RowsFile
from streaml1.sources.source import Example, blocks_of, read_weight

__all__ = ["Opened", "opened_source", "readings_of", "rows_of"]

BLOCK = 1000
"""The most examples that are read, and learnt, between two looks at `stop`."""

MATRIX_BLOCK = 8192


class Opened(Protocol):
    """A source of blocks, the most rows that one should have, and what its labels mean."""

    name: str
    block: int

    @staticmethod
    def label(y: Any, /) -> Hashable:
        """What a label of many means; ValueError with one sentence, where it is none."""

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Any]:
        """Read from the start, at most `size` examples at a time."""


def opened_source(source: Any, **options: Any) -> Opened:
    """Whatever examples come from; `options` are those of `open_source`."""
    if isinstance(source, str | Path):
        return Named(open_source(source, **options))
    if hasattr(source, "blocks"):
        _require_texts(source, options.get("text") or ())
        return Named(source)
    if isinstance(source, tuple) and len(source) in (2, 3) and _is_table(source[0]):
        return Table(*source)
    if isinstance(source, Iterable):
        return Examples(source)
    raise TypeError(
        f"an object of type {type(source).__name__} is no source; give the name of one, examples "
        "(x, y), or a matrix or a frame and its labels"
    )


def _require_texts(source: Any, wanted: Sequence[str]) -> None:
    """Refuse a source that was opened without what the model reads as text: it gives it whole."""
    known = getattr(source, "texts", None)
    missing = [] if known is None else [name for name in wanted if name not in known]
    if missing:
        remedy = f"open it by open_source(..., text={list(wanted)!r}), or give its name"
        if isinstance(source, RowsFile):
            remedy = "give the file that it was made of"
        raise SourceError(
            f"{source.name} does not have {missing[0]!r} as text, which the model makes words of: "
            f"{remedy}"
        )


def _is_table(x: Any) -> bool:
    return is_matrix(x) or is_frame(x) or isinstance(x, list)


class Named:
    """A source of `streaml1.sources`."""

    @staticmethod
    def label(y: Any, /) -> Hashable:
        return class_label(y)

    def __init__(self, source: Any) -> None:
        self.name = str(source.name)
        self.blocks = source.blocks
        self.block = getattr(source, "block", BLOCK)
        if hasattr(source, "set_stop"):
            self.set_stop = source.set_stop
        if hasattr(source, "begin"):
            self.identity, self.begin = source.identity, source.begin
            self.position = source.position
        for name in ("kept", "lag", "is_reachable", "require_same"):
            if hasattr(source, name):
                setattr(self, name, getattr(source, name))


class Examples:
    """Any iterable of (x, y) or (x, y, {"w": weight}): a river data set, say."""

    block = BLOCK

    @staticmethod
    def label(y: Any, /) -> Hashable:
        return as_label(y)

    def __init__(self, examples: Iterable[Any]) -> None:
        kind = type(examples)
        self.name = "examples" if kind.__module__ == "builtins" else kind.__name__
        self._examples = examples
        self._readings = 0

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Block]:
        self._readings += 1
        if self._readings > 1 and iter(self._examples) is self._examples:
            raise SourceError(
                f"{self.name} cannot be read twice: it is an iterator; give a list, or an object "
                "whose __iter__ begins anew"
            )
        return blocks_of(self._each(refuse), self.name, size)

    def _each(self, refuse: Refuse) -> Iterator[Example]:
        for number, example in enumerate(self._examples, start=1):
            try:
                x, y, w = _taken_apart(example)
            except ValueError as error:
                refuse(f"{self.name}:{number}", str(error))
                continue
            yield number, x, y, w


def _taken_apart(example: Any) -> tuple[dict[Hashable, Any], Any, float]:
    if not isinstance(example, tuple | list) or len(example) not in (2, 3):
        raise ValueError(f"{shown(example)} is not an example: it must be (x, y)")
    x, y, *rest = example
    # A copy: a stream may hand out one dict again and again.
    x = dict(x) if isinstance(x, Mapping) else x
    if not rest:
        return x, y, 1.0
    if not isinstance(rest[0], Mapping) or not rest[0].keys() <= {"w"}:
        raise ValueError(f'{shown(rest[0])} is no {{"w": weight}}, as the third part must be')
    return x, y, read_weight(rest[0].get("w", 1.0))


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive rows of a matrix, a frame or a list of dicts."""

    x: Any
    y: Any
    w: Any
    name: str
    lines: range

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        return f"{self.name}:{self.lines[row]}"

    def origin(self, row: int) -> None:
        """Nothing is known beside."""


class Table:
    """Rows, labels and weights side by side."""

    block = MATRIX_BLOCK

    @staticmethod
    def label(y: Any, /) -> Hashable:
        return as_label(y)

    def __init__(self, x: Any, y: Any, w: Any = None) -> None:
        self.name = "rows"
        self._x = x.tocsr() if hasattr(x, "tocsr") else x
        self._n = len(x) if isinstance(x, list) else int(x.shape[0])
        self.d = int(x.shape[1]) if is_matrix(x) else None
        self._y, self._w = _plain(y), None if w is None else _plain(w)
        for what, column in (("labels", self._y), ("weights", self._w)):
            if column is not None and len(column) != self._n:
                raise ValueError(f"{len(column)} {what} stand beside {self._n} rows; give as many")

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Slice]:
        for lo in range(0, self._n, size):
            hi = min(self._n, lo + size)
            w = None if self._w is None else self._w[lo:hi]
            lines = range(lo + 1, hi + 1)
            yield Slice(rows_of(self._x, lo, hi), self._y[lo:hi], w, self.name, lines)


def _plain(column: Any) -> Any:
    """A series of any kind, or a sequence, as an array or a list."""
    return column.to_numpy() if hasattr(column, "to_numpy") else column


def rows_of(x: Any, lo: int, hi: int) -> Any:
    """Consecutive rows of a list, a matrix or a frame."""
    if not is_frame(x):
        return x[lo:hi]
    import narwhals as nw

    return nw.from_native(x, eager_only=True)[lo:hi].to_native()


def readings_of(
    opened: Opened, passes: int, size: int, refuse: Refuse
) -> Generator[Iterator[Any], None, None]:
    """One reading for each pass; that the source can be read twice is asked first."""
    first = [opened.blocks(size, refuse) for _ in range(min(passes, 2))]
    rest = (opened.blocks(size, refuse) for _ in range(passes - len(first)))
    for blocks in itertools.chain(first, rest):
        try:
            yield blocks
        finally:
            if hasattr(blocks, "close"):
                blocks.close()
