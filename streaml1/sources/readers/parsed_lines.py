"""Parsers of formats with one example per line, and what parsers return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from streaml1.core.jit import COMPILED
from streaml1.core.types import Bytes, Floats, Ints
from streaml1.text.structural_index import PAD, count_newlines

__all__ = [
    "NEWLINE",
    "BytesLineParser",
    "Chunk",
    "LineExample",
    "LineParser",
    "ParsedChunk",
    "Parser",
    "decode_line",
    "pad_text",
    "text_buffer",
]

LineExample = tuple[Any, ...]
"""Features, label and sample weight, and the id if the line has one."""

NEWLINE = 10

MAX_CHUNK = 2**29
"""Bytes of a chunk that kernels accept: names take up to three times as many, and offsets have 32
bits. Python parses larger chunks."""


class Chunk(NamedTuple):
    """Whole lines inside a buffer.

    Parameters
    ----------
    buffer
        The memory, with `PAD` readable bytes before and after the lines.
    lo, hi
        The lines are `buffer[lo:hi]`. The last byte is a newline.
    free
        Kernels may write names to `buffer[free:]`.
    """

    buffer: Bytes
    lo: int
    hi: int
    free: int

    @property
    def text(self) -> Bytes:
        """The lines."""
        return self.buffer[self.lo : self.hi]

    def count_lines(self) -> int:
        """Return the number of lines."""
        if not COMPILED:
            return int(np.count_nonzero(self.text == NEWLINE))
        start = self.buffer.ctypes.data
        return int(count_newlines(np.uint64(start + self.lo), np.uint64(start + self.hi)))


@dataclass(frozen=True, slots=True)
class ParsedChunk:
    """The examples in a chunk of text.

    Parameters
    ----------
    x
        Their features: dicts, or rows such as `streaml1.text.parsed_rows.IntRows`.
    y
        Their labels as written: floats, or a list if any label is something else.
    w
        The sample weights, or None if all of them are 1.
    lines
        The line of each example, from 0.
    ends
        The offset of the end of each example's line.
    faults
        The rejected lines: line, reason.
    n_lines
        The number of lines.
    ids
        The id of each example, or None; None if no example has one.
    text
        The lines, if they differ from those that were passed to the parser.
    lines_after
        How many lines are read once each example is; None if it is the line of the example alone.
    """

    x: Any
    y: Any
    w: Floats | None
    lines: Ints
    ends: Ints
    faults: list[tuple[int, str]]
    n_lines: int
    ids: Sequence[int | str | None] | None = None
    text: Bytes | None = None
    lines_after: Ints | None = None

    def __len__(self) -> int:
        return len(self.x)

    def lines_read(self, row: int) -> int:
        """Return how many lines are read once a row is."""
        return int(self.lines[row]) + 1 if self.lines_after is None else int(self.lines_after[row])


class Parser(Protocol):
    """The parser of a format."""

    compiled: bool
    """Whether most of the work happens in kernels, without the interpreter lock."""

    roles: Mapping[str, Any]
    """The roles of columns, by name. A checkpoint resumes only with the same roles."""

    texts: tuple[str, ...] | None
    """The fields that are read as text; None if every string is."""

    def reset(self) -> None:
        """Expect the beginning of a file next."""

    def skip(self, text: Bytes) -> None:
        """Skip lines that were read before."""

    def finish(self) -> ParsedChunk | None:
        """Parse what is left at the end of a file."""

    def read(self, text: bytes) -> ParsedChunk:
        """Parse lines that are separated by newlines."""

    def parse_chunk(self, chunk: Chunk) -> ParsedChunk:
        """Parse the lines of a chunk. The result may refer to its buffer."""


def text_buffer(n: int) -> Bytes:
    """Allocate memory for n bytes of text, padding, and four times as many bytes of names.

    Names of elements of arrays are longer than the elements. Memory is used where it is written.
    """
    return np.empty(5 * n + 4 * PAD + 256, np.uint8)


def pad_text(text: bytes, buffer: Bytes | None = None) -> Chunk:
    """Copy lines into a buffer, a new one by default, with a newline at the end.

    The size of the buffer must be at least that of `text_buffer`.
    """
    n = len(text)
    buffer = text_buffer(n) if buffer is None else buffer
    buffer[PAD : PAD + n] = np.frombuffer(text, np.uint8)
    if n and not text.endswith(b"\n"):
        buffer[PAD + n] = NEWLINE
        n += 1
    return Chunk(buffer, PAD, PAD + n, PAD + n + PAD)


def decode_line(line: bytes, what: str = "file") -> str:
    """Decode a line as UTF-8; `what` names the file or the record in errors.

    Raises
    ------
    ValueError
        If the line is not UTF-8.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
        command = ", as with iconv -f WINDOWS-1252 -t UTF-8 if Excel wrote it"
        raise ValueError(
            f"{byte} is not UTF-8: convert the {what} to UTF-8{command * (what == 'file')}"
        ) from None


def _line_text(line: bytes, what: str) -> str:
    """Decode a line; in files that were joined, it may begin with a byte order mark."""
    text = decode_line(line, what)
    return text.removeprefix("\ufeff") if what == "file" else text


class BytesLineParser:
    """A parser that calls a Python function for each line.

    Parameters
    ----------
    parse_line
        Returns features, label and weight of a line, and its id if it has one; None if the line has
        no example. Raises ValueError with one sentence if the line is invalid.
    """

    compiled = False
    roles: Mapping[str, Any] = MappingProxyType({})
    texts: tuple[str, ...] | None = None

    def __init__(self, parse_line: Callable[[bytes], LineExample | None]) -> None:
        self.parse_line = parse_line

    def reset(self) -> None:
        """Do nothing: lines are independent."""

    def skip(self, text: Bytes) -> None:
        """Do nothing: lines are independent."""

    def finish(self) -> ParsedChunk | None:
        """Return None: nothing is left."""
        return None

    def read(self, text: bytes) -> ParsedChunk:
        """Parse lines that are separated by newlines."""
        return self.parse_chunk(pad_text(text))

    def read_features(self, text: bytes) -> Any:
        """Return the features of lines; None if one is rejected, or there is none."""
        parsed = self.read(text)
        return None if parsed.faults or not len(parsed) else parsed.x

    def parse_chunk(self, chunk: Chunk) -> ParsedChunk:
        """Parse the lines of a chunk."""
        examples: list[LineExample] = []
        lines: list[int] = []
        ends: list[int] = []
        faults: list[tuple[int, str]] = []
        ids: dict[int, Any] = {}
        end = 0
        texts = chunk.text.tobytes().split(b"\n")[:-1]
        for number, line in enumerate(texts):
            end += len(line) + 1
            try:
                example = self.parse_line(line)
            except ValueError as error:
                faults.append((number, str(error)))
                continue
            if example is None:
                continue
            if len(example) > 3:
                ids[len(examples)] = example[3]
            examples.append(example[:3])
            lines.append(number)
            ends.append(end)
        x, y, w = map(list, zip(*examples, strict=True)) if examples else ([], [], [])
        return ParsedChunk(
            x, y, None if all(weight == 1.0 for weight in w) else np.array(w),
            np.array(lines, int), np.array(ends, int), faults, len(texts),
            [ids.get(row) for row in range(len(examples))] if ids else None,
        )  # fmt: skip


class LineParser(BytesLineParser):
    """A parser that calls a Python function for each line, decoded as UTF-8.

    Parameters
    ----------
    parse
        Parses the text of a line, as `BytesLineParser` requires it.
    what
        What contains the lines, for errors: a file, or a record.
    """

    def __init__(self, parse: Callable[[str], LineExample | None], what: str = "file") -> None:
        super().__init__(lambda line: parse(_line_text(line, what)))
