"""The svmlight format: ``label id:value id:value ... # comment``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import COMPILED
from streaml1.sources.readers.parsed_lines import LineParser, Parsed
from streaml1.sources.source import read_number, shown
from streaml1.text import svmlight
from streaml1.text.numbers import TABLE
from streaml1.text.parsed_rows import IntRows
from streaml1.text.structural_index import PAD, SPARE

__all__ = ["SvmlightParser", "parse_svmlight"]

LAST_ID = 2**63 - 1


def parse_svmlight(
    text: str, require_label: bool = True
) -> tuple[dict[int, float], float | None, float] | None:
    """Read one line.

    Parameters
    ----------
    text
        The line. Ids are taken as written, in any order; one that comes twice counts with the sum;
        a ``qid:`` after the label is left out.
    require_label
        Whether a line that begins with a feature is refused; else its label is None.

    Returns
    -------
    The features, the label and the weight 1, or None for a line that is empty or only a comment.

    Raises
    ------
    ValueError
        One sentence that says what is wrong with the line.

    Examples
    --------
    >>> from streaml1.sources.readers.svmlight import parse_svmlight
    >>> parse_svmlight("-1 qid:4 3:0.5 7:1  # the first")
    ({3: 0.5, 7: 1.0}, -1.0, 1.0)

    """
    if "#" in text:
        text = text.partition("#")[0]
    cells = text.split()
    if not cells:
        return None
    label = None
    if ":" not in cells[0]:
        label = _number(cells.pop(0), "label")
    elif require_label:
        raise ValueError(f"the line has no label: it begins with {shown(cells[0])}")
    if cells and cells[0].startswith("qid:"):
        del cells[0]
    x = _fast(cells) if text.isascii() and "_" not in text else None
    return _careful(cells) if x is None else x, label, 1.0


class _Room(NamedTuple):
    """Memory for what some bytes may hold."""

    positions: Any
    kinds: Any
    ids: Any
    values: Any
    y: Any
    indptr: Any
    lines: Any
    ends: Any
    odd: Any


def _room(n: int) -> _Room:
    # A line has two bytes, but for the blank ones, which are no rows; a feature four.
    most = n // 2 + 2
    # The byte before the first counts as a delimiter.
    positions, kinds = np.empty(n + 1 + SPARE, np.uint32), np.empty(n + 1 + SPARE, np.uint8)
    ids, values = np.empty(n // 4 + 2, np.uint32), np.empty(n // 4 + 2)
    indptr, lines, ends = (np.empty(most, np.int64) for _ in range(3))
    odd, y = np.empty((most, 2), np.int64), np.empty(most)
    return _Room(positions, kinds, ids, values, y, indptr, lines, ends, odd)


class SvmlightParser(LineParser):
    r"""Reads lines by a kernel; those that are out of the ordinary by `parse_svmlight`.

    One thread at a time may use it.

    Parameters
    ----------
    require_label
        Whether a line without a label is refused.
    what
        Has the lines, for a sentence about them: a file, or a record.

    Examples
    --------
    >>> from streaml1.sources.readers.svmlight import SvmlightParser
    >>> parsed = SvmlightParser().read(b"1 3:0.5 7:1\n1 x\n\n-1 3:2  # the last\n")
    >>> list(parsed.x), parsed.y, parsed.lines
    ([{3: 0.5, 7: 1.0}, {3: 2.0}], array([ 1., -1.]), array([0, 3]))
    >>> parsed.faults
    [(1, "'x' is not a feature: it must be id:value")]

    """

    quick = COMPILED
    texts = ()

    def __init__(self, require_label: bool = True, what: str = "file") -> None:
        super().__init__(partial(parse_svmlight, require_label=require_label), what)
        self._labelled = require_label

    def read_at(self, buffer: Any, lo: int, hi: int, free: int) -> Parsed:
        """Read lines within a buffer."""
        if not COMPILED or hi - lo >= 2**32 - PAD:
            return super().read_at(buffer, lo, hi, free)
        room = _room(hi - lo)
        start = buffer.ctypes.data
        row, n_odd, n_lines, plain = svmlight.rows(
            np.uint64(start + lo), np.uint64(start + hi), TABLE,
            self._labelled, *room,
        )  # fmt: skip
        k = int(room.indptr[row])
        x = IntRows(room.ids[:k], room.values[:k], room.indptr[: row + 1], bool(plain))
        y, lines, ends = (a[:row] for a in (room.y, room.lines, room.ends))
        parsed = Parsed(x, y, None, lines, ends, [], int(n_lines))
        if n_odd:
            parsed = self._mended(parsed, room.odd[:n_odd].tolist(), buffer[lo:hi])
        if not self._labelled:
            return replace(parsed, y=[None if one != one else one for one in parsed.y.tolist()])
        return parsed

    def _mended(self, parsed: Parsed, odd: list[list[int]], text: Any) -> Parsed:
        """With the rows that were left empty: those of lines out of the ordinary."""
        x, y = parsed.x, parsed.y
        counts = np.diff(x.indptr)
        kept = np.ones(len(y), bool)
        found: list[tuple[int, dict[int, float]]] = []
        faults = []
        for row, begin in odd:
            end = int(parsed.ends[row])
            try:
                example = self.one(text[begin : end - 1].tobytes())
            except ValueError as error:
                example = None
                faults.append((int(parsed.lines[row]), str(error)))
            if example is None:
                kept[row] = False
                continue
            features, label, _ = example
            y[row] = np.nan if label is None else label
            counts[row] = len(features)
            found.append((row, features))
        indptr = np.concatenate([[0], np.cumsum(counts[kept])])
        ids, values = x.ids, x.values
        if any(features for _, features in found):
            places = np.concatenate([np.full(len(one), x.indptr[row]) for row, one in found])
            names = [name for _, one in found for name in one]
            if max(names) >= 2**32:
                ids = ids.astype(np.int64)
            ids = np.insert(ids, places, np.array(names, ids.dtype))
            values = np.insert(values, places, [v for _, one in found for v in one.values()])
        return Parsed(
            IntRows(ids, values, indptr), y[kept], None, parsed.lines[kept], parsed.ends[kept],
            faults, parsed.n_lines,
        )  # fmt: skip


def _fast(cells: list[str]) -> dict[int, float] | None:
    """Read the features, or give None where anything is out of the ordinary."""
    x = {}
    try:
        for cell in cells:
            name, _, value = cell.partition(":")
            x[int(name)] = float(value)
    except ValueError:
        return None
    if not x:
        return x
    ordinary = len(x) == len(cells) and min(x) >= 0 and max(x) <= LAST_ID
    return x if ordinary and isfinite(sum(x.values())) else None


def _careful(cells: list[str]) -> dict[int, float]:
    """Read the features one by one, and say what is wrong with the first that is."""
    x: dict[int, float] = {}
    for cell in cells:
        name, colon, value = cell.partition(":")
        if not colon:
            raise ValueError(f"{shown(cell)} is not a feature: it must be id:value")
        digits = name.removeprefix("-").removeprefix("+")
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError(
                f"id {shown(name)} is not an integer: names that are words need .jsonl or .csv"
            )
        # int() refuses thousands of digits with a text of its own.
        if len(digits.lstrip("0")) > 19 or not 0 <= int(name) <= LAST_ID:
            raise ValueError(f"id {shown(name)} is out of range: ids go from 0 to 2**63 - 1")
        x[int(name)] = x.get(int(name), -0.0) + _number(value, f"feature {int(name)}")
        if not isfinite(x[int(name)]):
            raise ValueError(f"the values of feature {int(name)} add up to infinity")
    return x


def _number(text: str, what: str) -> float:
    try:
        return read_number(text)
    except ValueError as error:
        raise ValueError(f"{what}: {shown(text)} {error}") from None
