"""The interface of sources: blocks of raw examples, their locations and their labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from streaml1.core import exit_codes as exits
from streaml1.core.types import Floats, Ints, SourcePosition
from streaml1.features.raw_labels import (
    binary_label,
    nonnegative_label,
    number_label,
    read_number,
    read_weight,
    shown,
)
from streaml1.sources.class_labels import class_label

__all__ = [
    "GROWING",
    "DATA_SETS",
    "SOURCES",
    "Block",
    "Example",
    "Lost",
    "Numbered",
    "Reject",
    "Resumable",
    "Source",
    "SourceError",
    "Unavailable",
    "binary_label",
    "blocks_of",
    "check_block_size",
    "class_label",
    "nonnegative_label",
    "number_label",
    "read_number",
    "read_weight",
    "require_count",
    "shown",
]

Example = tuple[Any, ...]
"""Number (from 1), features, label as written, sample weight, and the id if there is one."""

Reject = Callable[..., None]
"""``reject(place, reason, number, origin)`` handles a rejected example: it raises to stop, or
returns to continue.

`place` is where the example is, such as ``clicks.svm:7``. `number` counts the examples of the
reading; it may be omitted if the place ends in ``:number``. `origin` is `Block.origin`.
"""


def require_count(number: Any, what: str) -> int:
    """Return a number of a position in a source; raise ValueError unless it is a count."""
    if type(number) is not int or not 0 <= number < 2**62:
        raise ValueError(f"the {what} of a position must be a count, got {shown(number)}")
    return number


class SourceError(ValueError):
    """A source cannot be read, or not any further; the text is one sentence.

    Attributes
    ----------
    missing_options
        Options that are probably missing, by the names of keywords.
    """

    exit_code = exits.USAGE_ERROR
    missing_options: Mapping[str, str] = {}


class Unavailable(SourceError):
    """A source is temporarily unavailable; retrying may succeed."""

    exit_code = exits.TEMPORARY_FAILURE


class Lost(SourceError):
    """Data are damaged or no longer exist."""

    exit_code = exits.DATA_ERROR


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive examples of a source.

    Parameters
    ----------
    x
        The features of each example.
    y
        The labels as written: a list, an array or `LabelTexts`. `binary_label`, `class_label` and
        `number_label` convert them.
    w
        The sample weights, or None if all of them are 1.
    name
        The source, as the user wrote it.
    lines
        The line or the number of each example, from 1.
    end
        The position after everything that was read for the block; None if it follows from `lines`.
    ids
        The id of each example, or None; None if no example has one.

    Examples
    --------
    >>> from streaml1.sources.source import Block
    >>> block = Block([{3: 0.5}], [1.0], None, "clicks.svm", [7])
    >>> block.place(0)
    'clicks.svm:7'
    """

    x: Sequence[dict[Hashable, Any]]
    y: Any
    w: Sequence[float] | Floats | None
    name: str
    lines: Sequence[int] | Ints
    end: Any = None
    ids: Sequence[int | str | None] | None = None

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.x)

    def after(self, rows: int) -> Any:
        """Return the position after the first `rows` examples, as `Resumable.begin` takes it."""
        if rows < len(self):
            return {"line": self.lines[rows] - 1}
        return {"line": self.lines[-1]} if self.end is None else self.end

    def place(self, row: int) -> str:
        """Return where an example was read, such as ``clicks.svm:7``."""
        return f"{self.name}:{self.lines[row]}"

    def origin(self, row: int) -> Any:
        """Return what else identifies an example, such as its record's coordinates, or None."""
        return None


class Source(Protocol):
    """A stream of examples."""

    @property
    def name(self) -> str:
        """The source, as the user wrote it."""

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Yield blocks of at most `size` examples from the start.

        A second call reads again. A source that cannot be read twice raises `SourceError`.
        """


class Resumable(Source, Protocol):
    """A source that can resume at a position. Positions consist of JSON values."""

    def identity(self) -> dict[str, Any]:
        """Return what must be equal for a position to be valid, by name."""

    def begin(self, at: SourcePosition | None) -> SourcePosition:
        """Start the next reading at a position, or at the beginning (None); return the position."""

    def position(self) -> Any:
        """Return the next position to read; None if it is the end of the last block."""


class Numbered:
    """Mixin that makes a source resumable whose examples are the same each time."""

    name: str
    _skipped = 0

    def identity(self) -> dict[str, Any]:
        """Return what must be equal for a position to be valid, by name."""
        return {"source": self.name}

    def begin(self, at: SourcePosition | None) -> SourcePosition:
        """Start the next reading at a position, or at the beginning (None); return the position."""
        self._skipped = 0 if at is None else require_count(at["line"], "line")
        return {"line": self._skipped}

    def position(self) -> Any:
        """Return None: the position is the end of the last block."""
        return None

    def numbered(self, examples: Iterable[tuple[Any, Any]]) -> Iterator[Example]:
        """Yield the pairs (x, y) after the position, numbered from 1, with weight 1."""
        skipped, self._skipped = self._skipped, 0
        return self._numbered(examples, skipped)

    def _numbered(self, examples: Iterable[tuple[Any, Any]], skipped: int) -> Iterator[Example]:
        for number, (x, y) in enumerate(examples, start=1):
            if number > skipped:
                yield number, x, y, 1.0


GROWING = "files"
"""Entry of an identity whose list may have become longer when a run resumes."""

SOURCES: dict[str, Callable[[str, int], Source]] = {}
"""Openers of sources that are not files: prefix before the colon -> function of (spec, seed).

Other modules register their own, as `streaml1.datasets` does.
"""

DATA_SETS: dict[str, str] = {}
"""Names that users write without the prefix -> source, as rcv1 -> data:rcv1, for errors."""


def check_block_size(size: int) -> None:
    """Raise ValueError unless `size` is at least 1."""
    if size < 1:
        raise ValueError(f"size must be >= 1, got {size}")


def block_of(examples: list[Example], name: str) -> Block:
    """Return a block of one or more examples."""
    ids = None
    if any(len(example) > 4 for example in examples):
        ids = [example[4] if len(example) > 4 else None for example in examples]
        examples = [example[:4] for example in examples]
    lines, x, y, w = map(list, zip(*examples, strict=True))
    return Block(x, y, None if all(weight == 1.0 for weight in w) else w, name, lines, ids=ids)


def blocks_of(examples: Iterable[Example], name: str, size: int) -> Iterator[Block]:
    """Gather examples into blocks.

    Examples before an exception are delivered before it is raised, so what a model has learnt by
    then does not depend on `size`.

    Parameters
    ----------
    examples
        The examples in order.
    name
        The name of their source.
    size
        The maximum number of examples in a block.

    Examples
    --------
    >>> from streaml1.sources.source import blocks_of
    >>> examples = [(k, {"a": 1.0}, True, 1.0) for k in (1, 2, 3)]
    >>> [len(block) for block in blocks_of(examples, "memory", 2)]
    [2, 1]
    """
    check_block_size(size)
    pending: list[Example] = []
    try:
        for example in examples:
            pending.append(example)
            if len(pending) == size:
                done, pending = pending, []
                yield block_of(done, name)
    except Exception:
        if pending:
            yield block_of(pending, name)
        raise
    if pending:
        yield block_of(pending, name)
