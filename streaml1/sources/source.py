"""What a source of examples is: blocks of raw examples, each with its place, and the labels."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from streaml1.core import exit_codes as exits
from streaml1.core.rows import shown as cut
from streaml1.features.labels import equals_itself

__all__ = [
    "SOURCES",
    "Block",
    "Example",
    "Lost",
    "Numbered",
    "Refuse",
    "Resumable",
    "Source",
    "SourceError",
    "Unavailable",
    "binary_label",
    "blocks_of",
    "class_label",
    "number_label",
    "read_number",
    "read_weight",
    "shown",
]

Example = tuple[Any, ...]
"""The line (from 1), the features, the raw label and the sample weight; its id, if it has one."""

Refuse = Callable[..., None]
"""``refuse(place, reason, number, origin)``: raises to stop, or counts and returns to go on.

The number, of the example in the reading, may be left out where a place ends in ``:number``; the
origin is what a source knows of the example beside its place."""


class SourceError(ValueError):
    """A source that cannot be read (on); its text is one sentence."""

    exit_code = exits.USAGE_ERROR


class Unavailable(SourceError):
    """A source that is away, and may come back by itself."""

    exit_code = exits.TEMPORARY_FAILURE


class Lost(SourceError):
    """Data that are damaged, or there no longer."""

    exit_code = exits.DATA_ERROR


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive examples of a source.

    Parameters
    ----------
    x
        The features of each example.
    y
        The labels as they were read, a list, an array or `LabelTexts`; `binary_label` and
        `number_label` map them.
    w
        The sample weights, or None where all of them are 1.
    name
        The source, as the user wrote it.
    lines
        The line, or the number of the example, of each; from 1.
    end
        The position after all that was read for the block, where `lines` alone do not tell it.
    ids
        What the source calls each example, or None; None where none has an id.

    Examples
    --------
    >>> from streaml1.sources.source import Block
    >>> block = Block([{3: 0.5}], [1.0], None, "clicks.svm", [7])
    >>> block.place(0)
    'clicks.svm:7'

    """

    x: list[dict[Hashable, Any]]
    y: Any
    w: list[float] | None
    name: str
    lines: Sequence[int]
    end: Any = None
    ids: Sequence[int | str | None] | None = None

    def __len__(self) -> int:
        """How many examples the block holds."""
        return len(self.x)

    def after(self, rows: int) -> Any:
        """The position after so many examples, to `begin` at."""
        if rows < len(self):
            return {"line": self.lines[rows] - 1}
        return {"line": self.lines[-1]} if self.end is None else self.end

    def place(self, row: int) -> str:
        """Where an example of the block was read."""
        return f"{self.name}:{self.lines[row]}"

    def origin(self, row: int) -> Any:
        """What is known of an example beside, for `refuse`; None: nothing."""
        return None


class Source(Protocol):
    """Where examples come from."""

    @property
    def name(self) -> str:
        """The source, as the user wrote it."""

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Block]:
        """Read from the start, at most `size` examples at a time.

        A second call reads again; a source that cannot be read twice raises `SourceError`.

        """


class Resumable(Source, Protocol):
    """A source that can go on where it was: a position is what JSON can hold."""

    def identity(self) -> dict[str, Any]:
        """What must be the same, by name, for a position to mean the same."""

    def begin(self, at: Any) -> Any:
        """Have the next reading begin at a position, or at its start: None; returns where."""

    def position(self) -> Any:
        """Where the reading is, all that was read being behind it; None: where the block ended."""


class Numbered:
    """What is resumable of a source whose examples are the same each time, and counted."""

    name: str
    _skipped = 0

    def identity(self) -> dict[str, Any]:
        """What must be the same, by name, for a position to mean the same."""
        return {"source": self.name}

    def begin(self, at: Any) -> Any:
        """Have the next reading begin at a position, or at its start: None; returns where."""
        self._skipped = 0 if at is None else at["line"]
        return {"line": self._skipped}

    def position(self) -> Any:
        """None: where the last block ended."""
        return None

    def numbered(self, examples: Iterable[tuple[Any, Any]]) -> Iterator[Example]:
        """Examples (x, y) from where the reading is to begin, each once it is asked for."""
        skipped, self._skipped = self._skipped, 0
        return self._numbered(examples, skipped)

    def _numbered(self, examples: Iterable[tuple[Any, Any]], skipped: int) -> Iterator[Example]:
        for number, (x, y) in enumerate(examples, start=1):
            if number > skipped:
                yield number, x, y, 1.0


SOURCES: dict[str, Callable[[str, int], Source]] = {}
"""Sources that are not files: the word before the colon, and what opens it: (spec, seed) -> Source.

A module below the readers adds its own with one line, as `streaml1.datasets` does."""


def block_of(rows: list[Example], name: str) -> Block:
    """Make a block of examples, one or more."""
    ids = None
    if any(len(row) > 4 for row in rows):
        ids = [row[4] if len(row) > 4 else None for row in rows]
        rows = [row[:4] for row in rows]
    lines, x, y, w = map(list, zip(*rows, strict=True))
    return Block(x, y, None if all(one == 1.0 for one in w) else w, name, lines, ids=ids)


def blocks_of(
    examples: Iterable[Example | None],
    name: str,
    size: int,
    patience: float = math.inf,
    make: Callable[[list[Example], str], Block] = block_of,
) -> Iterator[Block]:
    """Gather examples into blocks.

    What was read before an error is delivered before it is raised, so that what has been learnt by
    then does not depend on `size`.

    Parameters
    ----------
    examples
        The examples, in order; None where no other comes soon, so that none should wait for it.
    name
        The name of their source.
    size
        The most examples in a block.
    patience
        Seconds after which a block is delivered with the next example, full or not.
    make
        Makes a block of examples and the name.

    """
    if size < 1:
        raise ValueError(f"size {size} is not a size of blocks: it must be 1 or more")
    rows: list[Example] = []
    start = 0.0
    try:
        for row in examples:
            if row is not None:
                if not rows:
                    start = time.monotonic()
                rows.append(row)
            full = len(rows) == size or row is None
            if rows and (full or time.monotonic() - start >= patience):
                done, rows = rows, []
                yield make(done, name)
    except Exception:
        if rows:
            yield make(rows, name)
        raise
    if rows:
        yield make(rows, name)


def shown(value: object) -> str:
    """Write a value for an error: whole floats without ``.0``, long ones cut short."""
    text = cut(value)
    return text.removesuffix(".0") if isinstance(value, float) else text


def read_number(text: str) -> float:
    """Read a plain, finite decimal number.

    Raises
    ------
    ValueError
        Whose text goes after the value: ``is not a number``, ``is not finite``.

    Examples
    --------
    >>> from streaml1.sources.source import read_number
    >>> read_number("-2.5e3")
    -2500.0
    >>> read_number("1_000")
    Traceback (most recent call last):
    ...
    ValueError: is not a number

    """
    try:
        # float() also takes underscores, and the digits of every script.
        number = float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        number = None
    if number is None:
        raise ValueError("is not a number")
    if not math.isfinite(number):
        raise ValueError("is not finite")
    return number


def read_weight(value: Any) -> float:
    """Check a sample weight, a number or its text.

    Raises
    ------
    ValueError
        One sentence, if it is not a finite number of 0 or more.

    """
    try:
        weight = read_number(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        weight = math.nan
    if isinstance(value, bool) or not 0 <= weight < math.inf:
        raise ValueError(f"weight {shown(value)} is not a weight: it must be a number >= 0")
    return weight


WHOLE = 2.0**53
"""From here on a float stands for several whole numbers: labels that differ would be one."""

_BINARY: dict[Any, bool] = {0: False, -1: False, 1: True, "0": False, "-1": False, "1": True}


def binary_label(y: Any) -> bool:
    """Map the label of a file to False or True.

    Parameters
    ----------
    y
        -1, 0 or 1, a bool, the text of one of these, or ``true`` or ``false`` in any case.

    Raises
    ------
    ValueError
        One sentence, for every other label.

    Examples
    --------
    >>> from streaml1.sources.source import binary_label
    >>> binary_label(-1.0), binary_label("+1"), binary_label("True")
    (False, True, True)
    >>> binary_label(2.0)
    Traceback (most recent call last):
    ...
    ValueError: label 2 is not a label: files coded 1/2 must be recoded to 0/1 or -1/1

    """
    try:
        return _BINARY[y]
    except (KeyError, TypeError):
        pass
    if y is None:
        raise ValueError("the label is missing")
    value = y
    if isinstance(y, str):
        word = y.strip().lower()
        if word in ("true", "false"):
            return word == "true"
        try:
            value = read_number(word)
        except ValueError:
            value = word
    if isinstance(value, Hashable) and value in _BINARY:
        return _BINARY[value]
    rule = (
        "it must be 0 or 1, -1 or 1, or true or false; a regressor learns numbers "
        "(learn --task regression), softmax any labels (learn --model softmax)"
    )
    if equals_itself(value) and value == 2:
        rule = "files coded 1/2 must be recoded to 0/1 or -1/1"
    raise ValueError(f"label {shown(y)} is not a label: {rule}")


def class_label(y: Any) -> Hashable:
    """Map the label of a file to one of many.

    Parameters
    ----------
    y
        Any text or number; a whole number, or the text of one as it is usually written, is an int.

    Raises
    ------
    ValueError
        One sentence, where there is no label, or it cannot be a key of a dict, or is a float that
        other whole numbers are read as too.

    Examples
    --------
    >>> from streaml1.sources.source import class_label
    >>> class_label(3.0), class_label("3"), class_label("03"), class_label("news")
    (3, 3, '03', 'news')

    """
    if y is None:
        raise ValueError("the label is missing")
    if isinstance(y, str):
        digits = y.removeprefix("-")
        if len(digits) < 19 and digits.isascii() and digits.isdigit() and str(int(y)) == y:
            return int(y)
        return y
    if isinstance(y, float) and y.is_integer():
        if abs(y) >= WHOLE:
            raise ValueError(
                f"label {int(y)} may be another whole number, as floats of 2^53 and more are: have "
                "it below, or as text: in quotes in JSON, in any column of CSV"
            )
        return int(y)
    if not isinstance(y, Hashable) or not equals_itself(y):
        raise ValueError(f"label {shown(y)} is not a label: it must be a text or a number")
    return y


def number_label(y: Any) -> float:
    """Map the label of a file to the number a regression learns.

    Parameters
    ----------
    y
        A finite number, or the text of one; True and False are 1 and 0.

    Raises
    ------
    ValueError
        One sentence, for every other label.

    Examples
    --------
    >>> from streaml1.sources.source import number_label
    >>> number_label("43.75")
    43.75

    """
    if y is None:
        raise ValueError("the label is missing")
    try:
        value = read_number(y) if isinstance(y, str) else float(y)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"label {shown(y)} is not a label: it must be a finite number")
    return value
