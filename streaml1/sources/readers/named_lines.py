"""Lines of named features: by a kernel, and by Python what is out of the ordinary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import COMPILED
from streaml1.sources.readers.parsed_lines import Example, LineParser, Parsed
from streaml1.text.byte_names import ALL_TEXT, BROKEN, UNKNOWN
from streaml1.text.numbers import TABLE
from streaml1.text.parsed_rows import NamedRows
from streaml1.text.patch_rows import mended
from streaml1.text.structural_index import SPARE

__all__ = ["NamedParser", "coding_of", "plain"]


NONE = np.zeros(0, bool)


class _Room(NamedTuple):
    """Memory for what some bytes may hold."""

    hashes: Any
    values: Any
    spans: Any
    y: Any
    w: Any
    indptr: Any
    lines: Any
    begins: Any
    ends: Any


def _room(n: int) -> _Room:
    most = n // 2 + 2
    hashes, values, spans = np.empty(most, np.uint64), np.empty(most), np.empty(most, np.uint64)
    y, w = (np.empty(most) for _ in range(2))
    counts = (np.empty(most, np.int64) for _ in range(4))
    return _Room(hashes, values, spans, y, w, *counts)


class _Scratch(NamedTuple):
    """Scratch memory that the rows do not refer to."""

    positions: Any
    kinds: Any
    numbers: Any
    odd: Any


def _scratch(n: int) -> _Scratch:
    positions, kinds = np.empty(n + SPARE, np.uint32), np.empty(n + SPARE, np.uint8)
    most = n // 2 + 2
    odd = np.empty(most, np.int64)
    return _Scratch(positions, kinds, np.empty(most, np.uint64), odd)


class NamedParser(LineParser):
    """What parsers share that read lines of named features by a kernel.

    One thread at a time may use it.

    Parameters
    ----------
    parse
        Reads a line that is out of the ordinary.
    require_label
        Whether a line without a label is refused.
    what
        Has the lines, for a sentence about them: a file, or a record.
    """

    kernel: Any = None
    header: Sequence[str] | None = None  # see NamedRows

    quick = COMPILED

    def __init__(
        self, parse: Callable[..., Example | None], require_label: bool = True, what: str = "file"
    ) -> None:
        super().__init__(partial(parse, require_label=require_label), what)
        self._labelled = require_label

    def read_at(self, buffer: Any, lo: int, hi: int, free: int) -> Parsed:
        """Read lines within a buffer."""
        if not COMPILED or hi - lo >= 2**29 or lo == hi:
            return super().read_at(buffer, lo, hi, free)
        room, scratch = _room(hi - lo), _scratch(hi - lo)
        more = self._more(hi - lo)
        text, names = buffer[lo:hi], buffer[lo:]
        told = self._read(room, scratch, more, names, hi - lo, free - lo, UNKNOWN)
        if not told[2]:
            coding = coding_of(text)
            told = self._read(room, scratch, more, names, hi - lo, free - lo, coding)
        n_rows, n_odd, n_lines = map(int, told[:3])
        valued, apart = map(bool, told[3:])
        k = int(room.indptr[n_rows])
        lines, ends, y, w = (a[:n_rows] for a in (room.lines, room.ends, room.y, room.w))
        x = NamedRows(
            room.hashes[:k], room.values[:k], room.indptr[: n_rows + 1], names,
            room.spans[:k], text, room.begins[:n_rows], ends, self.one, self.header, valued, apart,
        )  # fmt: skip
        return self._whole(x, y, w, lines, ends, scratch.odd[:n_odd].tolist(), n_lines, *more)

    def _read(
        self, room: _Room, scratch: _Scratch, more: tuple[Any, ...], text: Any, n: int, free: int,
        coding: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        """What the kernel tells of the first n bytes."""
        start = text.ctypes.data
        told: tuple[Any, ...] = self.kernel(
            np.uint64(start), np.uint64(start + n), TABLE, self._labelled,
            coding, scratch.positions, scratch.kinds, room.hashes, room.values,
            np.uint64(start + free), np.uint64(start + len(text)), room.spans, room.y, room.w,
            room.indptr, room.lines, room.begins, room.ends, scratch.odd, scratch.numbers, *more,
        )  # fmt: skip
        return told

    def _more(self, n: int) -> tuple[Any, ...]:
        """What else the kernel writes to."""
        return ()

    def _whole(
        self, x: NamedRows, y: Any, w: Any, lines: Any, ends: Any, odd: list[int], n_lines: int,
        *more: Any,
    ) -> Parsed:  # fmt: skip
        """With the rows that were left empty: those of lines out of the ordinary."""
        labels, ids = self._told(x, y, *more)
        faults: list[tuple[int, str]] = []
        found: list[tuple[int, list[str], list[float]]] = []
        kept = np.ones(len(y), bool) if odd else NONE
        for row in odd:
            try:
                example = self.one(x.line(row))
            except ValueError as error:
                example = None
                faults.append((int(lines[row]), str(error)))
            if example is None:
                kept[row] = False
                continue
            features, labels[row], w[row] = example[:3]
            if len(example) > 3:
                ids[row] = example[3]
            found.append((row, *plain(features)))
        named = None
        if odd:
            x = mended(x, found, kept)
        if ids:
            left = np.flatnonzero(kept).tolist() if odd else range(len(y))
            named = [ids.get(row) for row in left]
            named = None if all(one is None for one in named) else named
        column: Any = y
        if labels or not self._labelled:
            column = [None if one != one else one for one in y.tolist()]
            for row, label in labels.items():
                column[row] = label
        if odd:
            w, lines, ends = w[kept], lines[kept], ends[kept]
            column = list(compress(column, kept)) if isinstance(column, list) else column[kept]
        weights = None if (w == 1.0).all() else w
        return Parsed(x, column, weights, lines, ends, faults, n_lines, named)

    def _told(self, x: NamedRows, y: Any, *more: Any) -> tuple[dict[int, Any], dict[int, Any]]:
        """By row: labels that are no floats, and ids."""
        return {}, {}


def coding_of(text: Any) -> Any:
    """Whether a text is UTF-8."""
    try:
        text.tobytes().decode()
    except UnicodeDecodeError:
        return BROKEN
    return ALL_TEXT


def plain(x: dict[str, Any]) -> tuple[list[str], list[float]]:
    """Names and values of an example, zeros and what is absent left out."""
    pairs = [
        (f"{name}={value}", 1.0) if isinstance(value, str) else (name, float(value))
        for name, value in x.items()
        if value is not None
    ]
    return [name for name, v in pairs if v], [v for _, v in pairs if v]
