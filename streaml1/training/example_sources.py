"""Anything that examples can come from, as a source of blocks.

A source is a name (a file, a topic, a data set), an iterable of examples, or features and labels as
arrays, frames or lists.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import streaml1.datasets  # noqa: F401  (registers `stdlib` and `data:...` as sources)
from streaml1.core.rows import shown, shown_type
from streaml1.core.types import Ints
from streaml1.features.arrow_frames import opened_frame
from streaml1.features.batch import is_frame, is_matrix, to_narwhals
from streaml1.features.labels import array_of, require_column
from streaml1.features.matrices import as_csr, require_two_dimensions
from streaml1.features.records import require_dict
from streaml1.models.class_labels import as_label
from streaml1.sources import (
    Block,
    Reject,
    SourceError,
    SourceOptions,
    class_label,
    is_many,
    open_source,
)
from streaml1.sources.kafka.records import Origin
from streaml1.sources.row_cache.row_file import RowsFile
from streaml1.sources.row_cache.row_range import RowRange
from streaml1.sources.source import Example, blocks_of, read_weight
from streaml1.training.dict_rows import dict_rows
from streaml1.training.frame_source import (
    FrameSource,
    TableRows,
    each_table,
    holds_tables,
    is_table,
)

__all__ = [
    "BLOCK_ROWS",
    "ExampleBlock",
    "ExampleSource",
    "RowBlock",
    "open_examples",
    "open_passes",
    "select_rows",
    "slice_rows",
]

BLOCK_ROWS = 1000
"""Default maximum size of a block. The stop condition is checked between blocks."""

ARRAY_BLOCK_ROWS = 8192
"""Maximum size of a block of an array or a frame, which needs no parsing."""

OPTIONAL_MEMBERS = ("fill_blocks", "on_saved", "lag", "is_reachable", "require_same", "files")
"""Members that some sources have: of topics, of files that may change, and of several files."""


class ExampleBlock(Protocol):
    """Consecutive examples of a source, such as `Block` and `RowBlock`."""

    @property
    def x(self) -> Any:
        """Features of all rows."""

    @property
    def y(self) -> Any:
        """Labels of all rows."""

    @property
    def w(self) -> Any:
        """Sample weights; None if all are 1."""

    @property
    def lines(self) -> Sequence[int]:
        """Number of each row in this pass, from 1; for files the line."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def place(self, row: int, /) -> str:
        """Return the location of a row for messages."""

    def origin(self, row: int, /) -> Origin | None:
        """Return the coordinates of a row in a topic; None for other sources."""


class ExampleSource(Protocol):
    """A source of blocks.

    Attributes
    ----------
    name : str
        Name for messages.
    block : int
        Maximum number of rows of a block.
    """

    name: str
    block: int

    @property
    def label(self) -> Callable[[Any], Hashable]:
        """Read the label of a multiclass model; raise ValueError with one sentence if invalid."""

    def blocks(self, size: int, reject: Reject) -> Iterator[Any]:
        """Read from the start, at most `size` examples at a time."""


def open_examples(source: Any, options: SourceOptions | None = None) -> ExampleSource:
    """Open anything that examples can come from.

    Parameters
    ----------
    source
        A name, a list of names of files, a source that is open already, ``(X, y)`` or
        ``(X, y, w)``, a frame with a column of labels, or an iterable of ``(x, y)`` or
        ``(x, y, {"w": weight})``, of dicts with a member of the label, or of frames.
    options
        How to read a source that is given by name, and the roles of the columns of frames and of
        the members of dicts.

    Raises
    ------
    SourceError
        If the source cannot be opened.
    TypeError
        If the object is not a source.
    """
    options = options or SourceOptions()
    if not isinstance(options.target, Hashable):
        raise TypeError(
            f"target must be the name of a column, got {shown_type(options.target)}; give "
            "labels as in (X, y)"
        )
    if isinstance(source, str | Path) or is_many(source):
        return NamedSource(open_source(source, options))
    if hasattr(source, "blocks"):
        _require_texts(source, tuple(options.text or ()))
        return NamedSource(source)
    if isinstance(source, tuple) and len(source) in (2, 3) and _is_array(source[0]):
        return ArraySource(*source)
    if isinstance(source, tuple) and source and type(source[0]).__name__ == "Series":
        raise TypeError(
            "the features must be a matrix, a frame or a list of dicts, got a Series: give a frame "
            "with its column, as with X.to_frame()"
        )
    if is_table(source):
        return FrameSource(source, options)
    if isinstance(source, Mapping):
        raise TypeError(
            "source must have rows, got a dict: make a frame of its columns, as with "
            "pandas.DataFrame(source), or a list of dicts"
        )
    if isinstance(source, Iterable):
        return IterableSource(source, options)
    swapped = "; the model comes first, then the source" if hasattr(source, "learn_one") else ""
    raise TypeError(
        "source must be a name, an iterable of (x, y), or a matrix or frame with its labels, got "
        f"an object of type {type(source).__name__}{swapped}"
    )


def _require_texts(source: Any, wanted: Sequence[str]) -> None:
    """Reject a source that was opened without the raw text that the model reads."""
    known = getattr(source, "texts", None)
    missing = [] if known is None else [name for name in wanted if name not in known]
    if missing:
        remedy = f"open it by open_source(..., text={list(wanted)!r}), or give its name"
        if isinstance(source, RowsFile | RowRange):
            remedy = "use the file it was converted from"
        raise SourceError(
            f"the model reads {missing[0]!r} as text, but {source.name} was opened without it; "
            f"{remedy}"
        )


def _is_array(x: Any) -> bool:
    return is_matrix(x) or is_table(x) or isinstance(x, list)


class NamedSource:
    """A source of `streaml1.sources`, with those optional members that it has."""

    label: Callable[[Any], Hashable] = staticmethod(class_label)

    def __init__(self, source: Any) -> None:
        self.name = str(source.name)
        self.blocks = source.blocks
        self.block = getattr(source, "block", BLOCK_ROWS)
        if hasattr(source, "set_stop"):
            self.set_stop = source.set_stop
        if hasattr(source, "begin"):
            self.identity, self.begin = source.identity, source.begin
            self.position = source.position
        for name in OPTIONAL_MEMBERS:
            if hasattr(source, name):
                setattr(self, name, getattr(source, name))


class IterableSource:
    """An iterable of ``(x, y)`` or ``(x, y, {"w": weight})``, such as a river data set.

    It may also yield dicts that hold their labels, frames with a column of labels, or pairs of a
    frame and its labels.
    """

    block = BLOCK_ROWS
    label: Callable[[Any], Hashable] = staticmethod(as_label)

    def __init__(self, examples: Iterable[Any], options: SourceOptions) -> None:
        kind = type(examples)
        self._options = options
        self.name = "examples" if kind.__module__ == "builtins" else kind.__name__
        self._examples = examples
        self._was_read = False

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Read from the start, at most `size` examples at a time.

        Raises
        ------
        SourceError
            If it is an iterator, and is read a second time.
        """
        if self._was_read and iter(self._examples) is self._examples:
            raise SourceError(
                f"{self.name} cannot be read twice, since it is an iterator; give a list, or an "
                "object whose __iter__ returns a new iterator"
            )
        self._was_read = True
        return self._blocks(size, reject)

    def _blocks(self, size: int, reject: Reject) -> Iterator[Any]:
        items = iter(self._examples)
        for first in items:
            whole = itertools.chain([first], items)
            if holds_tables(first):
                return (yield from self._frame_blocks(each_table(whole), size, reject))
            if isinstance(first, Mapping):
                rows = dict_rows(whole, self._options, self.name, reject)
                return (yield from blocks_of(rows, self.name, size))
            return (yield from blocks_of(self._parse(whole, reject), self.name, size))

    def _frame_blocks(self, frames: Iterable[Any], size: int, reject: Reject) -> Iterator[Any]:
        rows = TableRows(self.name, self._options)
        for frame in frames:
            if isinstance(frame, tuple):
                pair = ArraySource(*frame, name=self.name, first=rows.n_read)
                yield from pair.blocks(size, reject)
                rows.n_read += len(pair)
            else:
                yield from rows.blocks(frame, size, reject)

    def _parse(self, examples: Iterable[Any], reject: Reject) -> Iterator[Example]:
        for number, example in enumerate(examples, start=1):
            try:
                if self._options.target is not None and not _is_pair(example):
                    require_dict(example)
                x, y, w = _parse_example(example)
            except ValueError as error:
                reject(f"{self.name}:{number}", str(error))
                continue
            yield number, x, y, w


def _is_pair(example: Any) -> bool:
    """Return whether an item is a dict of features with its label."""
    return isinstance(example, tuple) and bool(example) and isinstance(example[0], Mapping)


class _Parsed(NamedTuple):
    x: dict[Hashable, Any]
    y: Any
    w: float


def _parse_example(example: Any) -> _Parsed:
    if not isinstance(example, tuple | list) or len(example) not in (2, 3):
        raise ValueError(f"{shown(example)} is not an example: it must be (x, y)")
    x, y, *rest = example
    # Copy, since a stream may yield the same dict again with other contents.
    x = dict(x) if isinstance(x, Mapping) else x
    if not rest:
        return _Parsed(x, y, 1.0)
    if not isinstance(rest[0], Mapping) or not rest[0].keys() <= {"w"}:
        raise ValueError(
            f'the third item of an example must be {{"w": weight}}, got {shown(rest[0])}'
        )
    return _Parsed(x, y, read_weight(rest[0].get("w", 1.0)))


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Consecutive rows of a matrix, a frame or a list of dicts."""

    x: Any
    y: Any
    w: Any
    name: str
    lines: range

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        """Return the location of a row for messages."""
        return f"{self.name}:{self.lines[row]}"

    def origin(self, row: int) -> None:
        """Return None: a row has no coordinates in a topic."""


class ArraySource:
    """Features, labels and weights as arrays, frames, series or lists."""

    block = ARRAY_BLOCK_ROWS
    label: Callable[[Any], Hashable] = staticmethod(as_label)

    def __init__(
        self, x: Any, y: Any, w: Any = None, *, name: str = "rows", first: int = 0
    ) -> None:
        self.name, self._first = name, first
        x = opened_frame(x)
        if is_matrix(x):
            require_two_dimensions(x)
        self._x = as_csr(x) if hasattr(type(x), "tocsr") else x
        self._n = len(x) if isinstance(x, list) else int(x.shape[0])
        self.d = int(x.shape[1]) if is_matrix(x) else None
        self._y = _as_column("labels", y, self._n)
        self._w = None if w is None else _as_column("weights", w, self._n)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._n

    def blocks(self, size: int, reject: Reject) -> Iterator[RowBlock]:
        """Read from the start, at most `size` rows at a time."""
        for lo in range(0, self._n, size):
            hi = min(self._n, lo + size)
            w = None if self._w is None else self._w[lo:hi]
            lines = range(self._first + lo + 1, self._first + hi + 1)
            yield RowBlock(slice_rows(self._x, lo, hi), self._y[lo:hi], w, self.name, lines)


def _as_column(what: str, column: Any, n: int) -> Any:
    """Return a series of any library as an array; leave arrays and lists alone.

    Raises
    ------
    TypeError
        If it is neither of them.
    ValueError
        If there is not one value for each of `n` rows.
    """
    if hasattr(column, "to_numpy"):
        column = array_of(column)  # to_numpy() of pyarrow rejects bools and nulls
    if not hasattr(column, "__len__") or isinstance(column, str | bytes | Mapping):
        raise TypeError(f"{what} must be an array, a series or a list, got {shown(column)}")
    if len(column) != n:
        raise ValueError(f"got {len(column)} {what} for {n} rows")
    require_column(what, getattr(column, "shape", (n,)), n)
    return column


def slice_rows(x: Any, lo: int, hi: int) -> Any:
    """Return consecutive rows of a list, a matrix or a frame."""
    if not is_frame(x):
        return x[lo:hi]
    return to_narwhals(x)[lo:hi].to_native()


def select_rows(x: Any, rows: Ints) -> Any:
    """Return rows of a list, a matrix, a frame or parsed text, in ascending order."""
    if is_frame(x):
        return to_narwhals(x)[rows].to_native()
    if is_matrix(x):
        return x[rows]
    return x.take(rows) if hasattr(x, "take") else [x[row] for row in rows.tolist()]


def open_passes(
    source: ExampleSource, passes: int, size: int, reject: Reject
) -> Generator[Iterator[Any], None, None]:
    """Yield an iterator over the blocks of each pass, and close it after the pass.

    The second pass is opened before the first is read, so that a source which can be read only once
    fails before anything is learnt.
    """
    first = [source.blocks(size, reject) for _ in range(min(passes, 2))]
    rest = (source.blocks(size, reject) for _ in range(passes - len(first)))
    for blocks in itertools.chain(first, rest):
        try:
            yield blocks
        finally:
            if hasattr(blocks, "close"):
                blocks.close()
