"""Lines of text to examples, many at once: by a kernel where there is one, or line by line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from streaml1.text.structural_index import PAD

__all__ = ["EachLine", "LineParser", "Parsed", "Parser", "decode", "padded"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """The examples in some lines.

    Parameters
    ----------
    x
        Their features: dicts, or rows such as `streaml1.text.parsed_rows.IntRows`.
    y
        Their labels as they were read: floats, or a list where others may be among them.
    w
        The sample weights, or None where all of them are 1.
    lines
        The line of each, from 0.
    ends
        Where the line of each ends: bytes from the beginning.
    faults
        The lines that are refused, and why.
    n_lines
        How many lines there are.
    ids
        The id of each, or None; None where none has one.
    text
        The lines, where they are not those that were given to be read.
    after
        How many lines are read with each, where that is not the line of each alone.
    """

    x: Any
    y: Any
    w: Any
    lines: Any
    ends: Any
    faults: list[tuple[int, str]]
    n_lines: int
    ids: list[int | str | None] | None = None
    text: Any = None
    after: Any = None

    def __len__(self) -> int:
        return len(self.x)

    def lines_with(self, row: int) -> int:
        """How many lines are read once a row is."""
        return int(self.lines[row]) + 1 if self.after is None else int(self.after[row])


class Parser(Protocol):
    """What reads the lines of a format."""

    quick: bool
    """Whether most of it is done without Python."""

    roles: Mapping[str, Any]
    """What was said of columns, by name: a checkpoint is of the same."""

    texts: tuple[str, ...] | None
    """What is read as text, where that has to be said; None: strings are."""

    def begin(self) -> None:
        """Have what is read next be the beginning of a file."""

    def skip(self, text: Any) -> None:
        """Go past lines."""

    def finish(self) -> Parsed | None:
        """Read what was left at the end of a file."""

    def read(self, text: bytes) -> Parsed:
        """Read lines, with newlines between."""

    def read_at(self, buffer: Any, lo: int, hi: int, free: int) -> Parsed:
        """Read `buffer[lo:hi]`, which ends in a newline.

        `buffer` is uint8, and has `PAD` bytes more before and after the part. From `free` on names
        may be written to it. What is read may look at it for as long as it likes.
        """


def padded(text: bytes) -> tuple[Any, int, int, int]:
    """What `Parser.read_at` takes: a buffer, where in it the lines are, from where it is free."""
    n = len(text)
    buffer = np.empty(3 * n + 4 * PAD + 256, np.uint8)
    buffer[PAD : PAD + n] = np.frombuffer(text, np.uint8)
    if n and not text.endswith(b"\n"):
        buffer[PAD + n] = 10
        n += 1
    return buffer, PAD, PAD + n, PAD + n + PAD


def decode(line: bytes, what: str = "file") -> str:
    """Decode a line of a file as UTF-8; ValueError with one sentence where it is none."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
        raise ValueError(f"{byte} is not UTF-8: convert the {what} to UTF-8") from None


Example = tuple[Any, ...]
"""Features, label and weight, and the id where there is one."""


class EachLine:
    """A parser that reads one line after the other.

    Parameters
    ----------
    one
        Reads a line: features, label and weight, None where it has no example; ValueError, with
        one sentence, refuses it.
    """

    quick = False
    roles: Mapping[str, Any] = MappingProxyType({})  # lines of no columns
    texts: tuple[str, ...] | None = None

    def __init__(self, one: Callable[[bytes], Example | None]) -> None:
        self.one = one

    def begin(self) -> None:
        """There is nothing to begin: each line is for itself."""

    def skip(self, text: Any) -> None:
        """There is nothing in other lines."""

    def finish(self) -> Parsed | None:
        """There is nothing left."""
        return None

    def read(self, text: bytes) -> Parsed:
        """Read lines, with newlines between."""
        return self.read_at(*padded(text))

    def read_at(self, buffer: Any, lo: int, hi: int, free: int) -> Parsed:
        """Read lines within a buffer."""
        rows: list[Example] = []
        lines: list[int] = []
        ends: list[int] = []
        faults: list[tuple[int, str]] = []
        ids: dict[int, Any] = {}
        end = 0
        texts = buffer[lo:hi].tobytes().split(b"\n")[:-1]
        for number, line in enumerate(texts):
            end += len(line) + 1
            try:
                example = self.one(line)
            except ValueError as error:
                faults.append((number, str(error)))
                continue
            if example is None:
                continue
            if len(example) > 3:
                ids[len(rows)] = example[3]
            rows.append(example[:3])
            lines.append(number)
            ends.append(end)
        x, y, w = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
        weights = None if all(one == 1.0 for one in w) else np.array(w)
        named = [ids.get(row) for row in range(len(rows))] if ids else None
        return Parsed(
            x, y, weights, np.array(lines, int), np.array(ends, int), faults, len(texts), named
        )


class LineParser(EachLine):
    """A parser that has each line read by a function of Python; others do better where they can.

    Parameters
    ----------
    parse
        Reads the text of a line.
    what
        Has the lines, for a sentence about them: a file, or a record.
    """

    def __init__(self, parse: Callable[[str], Example | None], what: str = "file") -> None:
        super().__init__(lambda line: parse(decode(line, what)))
