"""The svmlight format: ``label id:value id:value ... # comment``.

Regular lines are parsed by the kernel `streaml1.text.svmlight.parse_lines`, all others by
`parse_svmlight`, which defines the format.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import COMPILED
from streaml1.core.named_options import named_option
from streaml1.core.types import Bytes, Floats, Ids, Indptr, Ints, Values
from streaml1.sources.readers.parsed_lines import Chunk, LineParser, ParsedChunk
from streaml1.sources.readers.signatures import format_hint
from streaml1.sources.source import read_number, shown
from streaml1.text import svmlight
from streaml1.text.numbers import POWERS
from streaml1.text.parsed_rows import IntRows, LineCounts
from streaml1.text.structural_index import PAD, SPARE

__all__ = ["SvmlightParser", "parse_svmlight"]

MAX_ID = 2**63 - 1
MAX_CHUNK = 2**32 - PAD
"""Bytes of a chunk that the kernel accepts: positions have 32 bits. Python parses larger chunks."""


class _Scratch(NamedTuple):
    """The structural index, which is used for all chunks."""

    positions: Any
    kinds: Any


def _scratch(n: int) -> _Scratch:
    """Allocate scratch memory for n bytes of lines."""
    # The byte before the first line counts as a delimiter.
    return _Scratch(np.empty(n + 1 + SPARE, np.uint32), np.empty(n + 1 + SPARE, np.uint8))


class _Arrays(NamedTuple):
    """What the kernel writes, in the order of its arguments."""

    ids: Ids
    values: Values
    y: Floats
    indptr: Indptr
    lines: Ints
    ends: Ints
    irregular: Any


def _allocate(n_bytes: int, n_lines: int) -> _Arrays:
    """Allocate arrays for all that some lines may hold; a feature has at least four bytes."""
    ids, values = np.empty(n_bytes // 4 + 2, np.uint32), np.empty(n_bytes // 4 + 2)
    indptr, lines, ends = (np.empty(n_lines + 1, np.int64) for _ in range(3))
    irregular, y = np.empty((n_lines + 1, 2), np.int64), np.empty(n_lines + 1)
    return _Arrays(ids, values, y, indptr, lines, ends, irregular)


class SvmlightParser(LineParser):
    r"""Parse lines by a kernel, irregular ones by `parse_svmlight`.

    One thread at a time may use a parser.

    Parameters
    ----------
    require_label
        Whether lines without a label are rejected. Otherwise their label is None.
    what
        What contains the lines, for errors: a file, or a record.

    Examples
    --------
    >>> from streaml1.sources.readers.svmlight import SvmlightParser
    >>> parsed = SvmlightParser().read(b"1 3:0.5 7:1\n1 x\n\n-1 3:2  # the last\n")
    >>> list(parsed.x), parsed.y, parsed.lines
    ([{3: 0.5, 7: 1.0}, {3: 2.0}], array([ 1., -1.]), array([0, 3]))
    >>> parsed.faults
    [(1, "'x' is not a feature: it must be id:value")]
    """

    compiled = COMPILED
    texts = ()

    def __init__(self, require_label: bool = True, what: str = "file") -> None:
        super().__init__(partial(parse_svmlight, require_label=require_label), what)
        self._require_label = require_label
        self._scratch = _scratch(0)

    def parse_chunk(self, chunk: Chunk) -> ParsedChunk:
        """Parse the lines of a chunk: by the kernel, and irregular lines by Python."""
        size = chunk.hi - chunk.lo
        if not COMPILED or size >= MAX_CHUNK:
            return super().parse_chunk(chunk)
        if size + 1 + SPARE > len(self._scratch.kinds):
            self._scratch = _scratch(size)
        arrays = _allocate(size, chunk.count_lines())
        buffer_at = chunk.buffer.ctypes.data
        counts = LineCounts(*svmlight.parse_lines(
            np.uint64(buffer_at + chunk.lo), np.uint64(buffer_at + chunk.hi), POWERS,
            self._require_label, *self._scratch, *arrays,
        ))  # fmt: skip
        n, k = int(counts.rows), int(arrays.indptr[int(counts.rows)])
        indptr, plain = arrays.indptr[: n + 1], bool(counts.values_checked)
        x = IntRows(arrays.ids[:k], arrays.values[:k], indptr, plain)
        y, lines, ends = arrays.y[:n], arrays.lines[:n], arrays.ends[:n]
        parsed = ParsedChunk(x, y, None, lines, ends, [], int(counts.lines))
        if counts.irregular:
            irregular = arrays.irregular[: counts.irregular].tolist()
            parsed = self._complete(parsed, irregular, chunk.text)
        if not self._require_label:
            labels = [None if label != label else label for label in parsed.y.tolist()]
            return replace(parsed, y=labels)
        return parsed

    def _complete(
        self, parsed: ParsedChunk, irregular: list[list[int]], text: Bytes
    ) -> ParsedChunk:
        """Parse the irregular lines, whose rows are empty, given their rows and first bytes."""
        x, y = parsed.x, parsed.y
        counts = np.diff(x.indptr)
        retained = np.ones(len(y), bool)
        found: list[tuple[int, dict[int, float]]] = []
        faults = []
        for row, begin in irregular:
            end = int(parsed.ends[row])
            try:
                example = self.parse_line(text[begin : end - 1].tobytes())
            except ValueError as error:
                example = None
                faults.append((int(parsed.lines[row]), str(error)))
            if example is None:
                retained[row] = False
                continue
            features, label, _ = example
            y[row] = np.nan if label is None else label
            counts[row] = len(features)
            found.append((row, features))
        indptr = np.concatenate([[0], np.cumsum(counts[retained])])
        ids, values = x.ids, x.values
        if any(features for _, features in found):
            positions = np.concatenate([np.full(len(fs), x.indptr[row]) for row, fs in found])
            new_ids = [id for _, features in found for id in features]
            if max(new_ids) >= 2**32:
                ids = ids.astype(np.int64)
            ids = np.insert(ids, positions, np.array(new_ids, ids.dtype))
            values = np.insert(values, positions, [v for _, fs in found for v in fs.values()])
        return ParsedChunk(
            IntRows(ids, values, indptr), y[retained], None, parsed.lines[retained],
            parsed.ends[retained], faults, parsed.n_lines,
        )  # fmt: skip


def parse_svmlight(
    text: str, require_label: bool = True
) -> tuple[dict[int, float], float | None, float] | None:
    """Parse one line.

    Parameters
    ----------
    text
        The line. Ids are taken as written, in any order; an id that occurs twice counts with the
        sum. A ``qid:`` after the label is ignored.
    require_label
        Whether a line that begins with a feature is rejected. Otherwise its label is None.

    Returns
    -------
    The features, the label and the weight 1; None for a line that is empty or only a comment.

    Raises
    ------
    ValueError
        If the line is invalid; the text is one sentence.

    Examples
    --------
    >>> from streaml1.sources.readers.svmlight import parse_svmlight
    >>> parse_svmlight("-1 qid:4 3:0.5 7:1  # the first")
    ({3: 0.5, 7: 1.0}, -1.0, 1.0)
    """
    if "#" in text:
        text = text.partition("#")[0]
    tokens = text.split()
    if not tokens:
        return None
    label = None
    if ":" not in tokens[0]:
        label = _label(tokens.pop(0))
    elif require_label:
        hint = "; if this is label:weight, remove the weight"
        if text.lstrip().startswith("{"):
            hint = format_hint(text, "svmlight")
        raise ValueError(f"the line has no label: it begins with {shown(tokens[0])}{hint}")
    if tokens and tokens[0].startswith("qid:"):
        del tokens[0]
    # int() and float() also accept underscores and the digits of other scripts.
    x = _read_features_fast(tokens) if text.isascii() and "_" not in text else None
    return _read_features(tokens) if x is None else x, label, 1.0


def _read_features_fast(tokens: list[str]) -> dict[int, float] | None:
    """Return the features, or None if anything is unusual."""
    x = {}
    try:
        for token in tokens:
            name, _, value = token.partition(":")
            x[int(name)] = float(value)
    except ValueError:
        return None
    if not x:
        return x
    regular = len(x) == len(tokens) and min(x) >= 0 and max(x) <= MAX_ID
    return x if regular and isfinite(sum(x.values())) else None


def _read_features(tokens: list[str]) -> dict[int, float]:
    """Return the features; raise a precise ValueError for the first invalid one."""
    x: dict[int, float] = {}
    for token in tokens:
        name, colon, value = token.partition(":")
        if not colon:
            remedy = ""
            if any("|" in other for other in tokens):
                remedy = f"; if this is Vowpal Wabbit text, use {named_option('format', 'vw')}"
            raise ValueError(f"{shown(token)} is not a feature: it must be id:value{remedy}")
        digits = name.removeprefix("-").removeprefix("+")
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError(
                f"id {shown(name)} is not an integer: features with string names need .jsonl or "
                ".csv"
            )
        # int() rejects thousands of digits with an error of its own.
        if len(digits.lstrip("0")) > 19 or not 0 <= int(name) <= MAX_ID:
            raise ValueError(f"id {shown(name)} is out of range: it must be from 0 to 2**63 - 1")
        if ":" in value:
            raise ValueError(
                f"feature {int(name)}: {shown(value)} is not a number; if this is LibFFM's "
                r"field:id:value, remove the fields, as with sed -E 's/ [0-9]+:([0-9]+:)/ \1/g'"
            )
        x[int(name)] = x.get(int(name), -0.0) + _value(value, f"feature {int(name)}")
        if not isfinite(x[int(name)]):
            raise ValueError(f"the values of feature {int(name)} sum to infinity")
    return x


def _label(text: str) -> float:
    try:
        return _number(text, "label")
    except ValueError as error:
        remedy = "several labels need one line for each"
        if re.search(",[^0-9 ]", text):
            remedy = f"if this is CSV, use {named_option('format', 'csv')}"
        elif "," not in text:
            remedy = "words are labels in Vowpal Wabbit text, CSV and JSON lines only"
        raise ValueError(f"{error}: {remedy}") from None


def _value(text: str, what: str) -> float:
    try:
        return _number(text, what)
    except ValueError as error:
        raise ValueError(f"{error}: leave the feature out if its value is missing") from None


def _number(text: str, what: str) -> float:
    try:
        return read_number(text)
    except ValueError as error:
        raise ValueError(f"{what}: {shown(text)} {error}") from None
