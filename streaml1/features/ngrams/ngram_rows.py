"""Replace the texts of a batch by their n-grams in kernels, giving rows of hashed names.

Irregular rows fall back to `NGrams`: those with a letter that kernels cannot convert to lower case,
and those that also have a feature with the name of an n-gram. If kernels do not support the batch,
all rows fall back.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.hashing import PROCESS_KEY, name_hashes
from streaml1.core.jit import COMPILED, u64
from streaml1.core.rows import BadExample, are_valid_values, numeric_features
from streaml1.core.spans import LENGTH_MASK, spans_of_sizes
from streaml1.core.types import (
    Bools,
    Bytes,
    Example,
    Hashes,
    Indptr,
    Ints,
    UInts,
    Values,
)
from streaml1.features.batch import Batch, batch_of, column_values, is_frame, is_matrix, to_narwhals
from streaml1.features.ngrams.spec import NGrams
from streaml1.features.ngrams.tokenizer import (
    BLOCK,
    MARGIN,
    characters,
    clean_texts,
    expand_rows,
    find_texts,
)
from streaml1.text.parsed_rows import IntRows, NamedRows, Spans, insert_features

__all__ = ["ngram_batch"]

_MAX_NAME_BYTES = 2**31  # offsets in spans have 32 bits
_QUOTE, _ESCAPE = ord('"'), b"\\u00"  # an escape of a character that a name may contain

NGRAMS_IN_PYTHON, ROW_IN_PYTHON = 1, 2
"""Values of `fallback`, see `tokenizer.expand_rows`."""

Column = list[str | None]
"""The texts of one feature; None for rows without it."""


class _PlainRows(NamedTuple):
    """The features of rows, as in `NamedRows`."""

    names: Bytes
    spans: Spans
    hashes: Hashes
    values: Values
    indptr: Indptr


class _Texts(NamedTuple):
    """The texts of rows, shape (n_rows, n_text_features): addresses, 0 if absent, and lengths.

    `owners` keeps the memory at these addresses alive.
    """

    addresses: UInts
    sizes: UInts
    owners: object


class _Lines(NamedTuple):
    """The lines from which rows can be parsed again, as in `NamedRows`."""

    text: Bytes
    begins: Ints
    ends: Ints
    parse_line: Callable[[bytes], Any]


class _CleanTexts(NamedTuple):
    """The output of `tokenizer.clean_texts`; `memory` is what `begins` points to."""

    begins: UInts
    firsts: UInts
    is_irregular: Bools
    memory: Bytes


def ngram_batch(ngrams: NGrams, X: object) -> Batch:
    """Return the rows of X with n-grams in place of texts.

    The result equals that of `NGrams.batch_of`, but the names of n-grams are not created.

    Raises
    ------
    BadExample
        If a value is invalid. `row` is the first such row.
    TypeError
        If X is malformed, see `batch_of`.
    """
    if is_matrix(X) or isinstance(X, IntRows):
        return batch_of(X)
    rows = None
    if COMPILED and ngrams.simple:
        # `NGrams.batch_of` reports the first invalid row. Lone surrogates cannot be encoded.
        with suppress(BadExample, UnicodeEncodeError):
            rows = _expand(ngrams, X)
    return ngrams.batch_of(X) if rows is None else batch_of(rows)


def _expand(ngrams: NGrams, X: object) -> NamedRows | None:
    """Return the expanded rows; None if kernels do not support X. So do the functions below."""
    if isinstance(X, NamedRows):
        return _expand_parsed(ngrams, X)
    if is_frame(X):
        return _expand_frame(ngrams, X)
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        return _expand_dicts(ngrams, X)
    return None


# Rows that kernels have parsed


def _expand_parsed(ngrams: NGrams, X: NamedRows) -> NamedRows | None:
    if X.header is None:
        return X
    hashes, values, indptr = X.csr()
    spans = X.name_spans()
    if not are_valid_values(values) or any(map(ngrams.is_ngram_name, X.header)):
        return None
    n, k = len(X), len(ngrams.names)
    addresses, sizes = np.zeros((n, k), np.uint64), np.zeros((n, k), np.uint64)
    dropped = np.zeros(len(hashes), np.uint8)
    prefix_text, prefixes, prefix_sizes = ngrams.packed_prefixes(MARGIN)
    start = np.uint64(X.names.ctypes.data)
    for z in range(k):
        column, column_sizes = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
        find_texts(start, spans, indptr, prefixes[z], prefix_sizes[z], column, column_sizes,
                   dropped)  # fmt: skip
        addresses[:, z], sizes[:, z] = column, column_sizes
    fallback = np.zeros(n, np.uint8)
    fallback[_rows_with_ngram_names(ngrams, X)] = ROW_IN_PYTHON
    plain = _PlainRows(X.names, spans, hashes, values, indptr)
    lines = _Lines(X.text, X.begins, X.ends, lambda line: (ngrams.expand(X.parse_line(line)[0]),))
    texts = _Texts(addresses, sizes, (X, prefix_text))
    expanded = _expand_texts(ngrams, plain, texts, dropped, fallback, lines)
    if expanded is not None and not fallback.any() and (X.plain or dropped.all()):
        expanded.distinct_names = expanded.values_checked = True
    return expanded


def _rows_with_ngram_names(ngrams: NGrams, X: NamedRows) -> Ints:
    """Return all rows whose lines have a feature with the name of an n-gram, and maybe others.

    An element of an array is a feature such as ``tags=a b``, as a text is before it is split.
    """
    if X.header or not len(X):  # the names of the columns have been checked
        return np.empty(0, np.int64)
    lo, hi = int(X.begins[0]), int(X.ends[-1])
    text = X.text[lo:hi]
    if not any((text == byte).any() for byte in (_QUOTE, _ESCAPE[0])):
        return np.empty(0, np.int64)
    raw = text.tobytes()
    quoted_prefixes = [bytes([_QUOTE]) + prefix for prefix in ngrams.prefixes]
    patterns = [pattern for pattern in quoted_prefixes if pattern in raw]
    if _ESCAPE in raw:
        patterns.append(_ESCAPE)
    positions = [
        match.start() for pattern in patterns for match in re.finditer(re.escape(pattern), raw)
    ]
    positions += ngrams.array_positions(raw)
    if not positions:
        return np.empty(0, np.int64)
    return np.searchsorted(X.begins - lo, np.array(positions), side="right") - 1


# Dicts and data frames: `batch_of` converts the other features, whose names are encoded afterwards


def _expand_dicts(ngrams: NGrams, X: Sequence[Example]) -> NamedRows | None:
    non_texts: list[dict[Hashable, Any]] = []
    keys: set[Hashable] = set()
    columns: list[Column] = [[None] * len(X) for _ in ngrams.names]
    for i, x in enumerate(X):
        if type(x) is not dict:
            return None
        rest = x.copy()
        for name, column in zip(ngrams.names, columns, strict=True):
            value = rest.get(name)
            if isinstance(value, str):
                column[i] = value
                del rest[name]
        keys.update(rest)
        non_texts.append(rest)
    fallback = np.zeros(len(X), np.uint8)
    conflicts = {key for key in keys if isinstance(key, str) and ngrams.is_ngram_name(key)}
    if conflicts:
        for i, x in enumerate(X):
            if not conflicts.isdisjoint(x):
                fallback[i], non_texts[i] = ROW_IN_PYTHON, {}
    return _append_ngrams(ngrams, batch_of(non_texts), columns, fallback, _row_numbers(ngrams, X))


def _expand_frame(ngrams: NGrams, X: object) -> NamedRows | None:
    frame = to_narwhals(X)
    texts = [name for name in ngrams.names if name in frame.columns]
    if not texts or any(isinstance(c, str) and ngrams.is_ngram_name(c) for c in frame.columns):
        return None
    columns: list[Column] = []
    for name in ngrams.names:
        column = column_values(frame[name]) if name in texts else [None] * len(frame)
        if not all(value is None or isinstance(value, str) for value in column):
            return None
        columns.append(column)
    rest = frame.drop(texts)
    batch = batch_of(rest.to_native() if len(rest.columns) else [{}] * len(frame))
    fallback = np.zeros(len(frame), np.uint8)
    return _append_ngrams(ngrams, batch, columns, fallback, None)


def _row_numbers(ngrams: NGrams, X: Sequence[Example]) -> _Lines:
    """Return lines that contain the number of the row, to look it up in `X`."""
    text = np.arange(len(X)).view(np.uint8)
    begins = np.arange(0, 8 * len(X), 8)

    def parse_line(number: bytes) -> tuple[Example]:
        return (ngrams.expand(X[int(np.frombuffer(number, np.int64)[0])]),)

    return _Lines(text, begins, begins + 8, parse_line)


def _append_ngrams(
    ngrams: NGrams,
    batch: Batch,
    columns: list[Column],
    fallback: Bytes,
    lines: _Lines | None,
) -> NamedRows | None:
    """Return the rows of a batch, with the n-grams of the texts in `columns` appended to each."""
    names = batch.names or []
    if not all(isinstance(name, str) for name in names):
        return None
    raw = [str.encode(name) for name in names]  # type: ignore[arg-type]
    sizes = np.fromiter(map(len, raw), np.uint64, len(raw))
    spans = spans_of_sizes(sizes)
    hashes = name_hashes(names) if names else np.zeros(0, np.uint64)
    rows = batch.rows
    plain = _PlainRows(
        np.frombuffer(b"".join(raw) + bytes(MARGIN), np.uint8), spans[rows.ids], hashes[rows.ids],
        rows.values, rows.indptr.astype(np.int64),
    )  # fmt: skip
    dropped = np.zeros(len(rows.ids), np.uint8)
    texts = _encode_texts(columns)
    if lines is None:
        lines = _empty_lines(plain, batch.n)
    expanded = _expand_texts(ngrams, plain, texts, dropped, fallback, lines)
    if expanded is not None:
        expanded.distinct_names = expanded.values_checked = True
    return expanded


def _empty_lines(plain: _PlainRows, n: int) -> _Lines:
    """Return lines for rows of data frames, which are never parsed again."""
    zeros = np.zeros(n, np.int64)
    return _Lines(plain.names[:0], zeros, zeros, lambda line: ({},))


def _encode_texts(columns: list[Column]) -> _Texts:
    """Encode columns of texts in UTF-8.

    Raises
    ------
    UnicodeEncodeError
        If a text contains a lone surrogate.
    """
    n = len(columns[0])
    addresses = np.zeros((n, len(columns)), np.uint64)
    sizes = np.zeros((n, len(columns)), np.uint64)
    owners = []
    for z, column in enumerate(columns):
        given = [value for value in column if value is not None]
        joined = "".join(given)
        if joined.isascii():
            lengths = np.fromiter(map(len, given), np.uint64, len(given))
            raw = joined.encode()
        else:
            encoded = [value.encode() for value in given]
            lengths = np.fromiter(map(len, encoded), np.uint64, len(given))
            raw = b"".join(encoded)
        is_given = np.fromiter((value is not None for value in column), bool, n)
        text = np.frombuffer(raw + bytes(MARGIN), np.uint8)
        begins = np.cumsum(lengths, dtype=np.uint64) - lengths
        addresses[is_given, z] = np.uint64(text.ctypes.data) + begins
        sizes[is_given, z] = lengths
        owners.append(text)
    return _Texts(addresses, sizes, owners)


# Expansion by kernels


def _expand_texts(
    ngrams: NGrams,
    plain: _PlainRows,
    texts: _Texts,
    dropped: Bytes,
    fallback: Bytes,
    lines: _Lines,
) -> NamedRows | None:
    """Append the n-grams of texts to rows, see `tokenizer.expand_rows`.

    Adds rows with irregular texts to `fallback`. Returns None if the names are too long.
    """
    n, k = texts.addresses.shape
    clean = _clean(texts)
    begins, firsts = clean.begins, clean.firsts
    is_irregular = clean.is_irregular.reshape(n, k).any(axis=1)
    fallback[is_irregular & (fallback == 0)] = NGRAMS_IN_PYTHON
    prefix_text, prefixes, prefix_sizes = ngrams.packed_prefixes(MARGIN)
    # Bound the size of the output: with g tokens per n-gram, a text of c tokens has c - g + 1
    # n-grams, which contain each byte of the cleaned text at most g times.
    counts = (np.diff(firsts) - u64(1)).astype(np.int64)
    longest = int(counts.max(initial=0))
    max_tokens = min(ngrams.ngrams, longest)
    lengths = (begins[firsts[1:] - u64(1)] - begins[firsts[:-1]]).astype(np.int64)
    n_ngrams, name_bytes = 0, int((plain.spans & LENGTH_MASK).sum())
    for g in range(1, max_tokens + 1):
        ngram_counts = np.maximum(counts - (g - 1), 0)
        n_ngrams += int(ngram_counts.sum())
        name_bytes += int((ngram_counts.reshape(n, k) * prefix_sizes.astype(np.int64)).sum())
        name_bytes += g * int(lengths.sum())
    if name_bytes >= _MAX_NAME_BYTES:
        return None
    size = len(plain.hashes) + n_ngrams
    hashes, spans, values = np.empty(size, np.uint64), np.empty(size, np.uint64), np.empty(size)
    names, indptr = np.empty(name_bytes + MARGIN, np.uint8), np.zeros(n + 1, np.int64)
    hash_table = np.empty(1 << max(5, (16 * max_tokens * longest).bit_length()), np.uint64)
    m, used = expand_rows(
        np.uint64(plain.names.ctypes.data), plain.spans, plain.hashes, plain.values, plain.indptr,
        dropped, fallback, begins, firsts, prefixes, prefix_sizes, np.uint64(max_tokens),
        np.uint64(names.ctypes.data), hashes, values, spans, indptr, PROCESS_KEY, hash_table,
    )  # fmt: skip
    m = int(m)
    expanded = NamedRows(
        hashes[:m], values[:m], indptr, names[: int(used) + MARGIN], spans[:m], lines.text,
        lines.begins, lines.ends, lines.parse_line,
    )  # fmt: skip
    found = [
        (row, *_expand_row(ngrams, texts, fallback, expanded, row))
        for row in np.flatnonzero(fallback).tolist()
    ]
    del prefix_text, clean  # kernels and `_expand_row` read their memory by address until here
    return insert_features(expanded, found, np.ones(n, bool)) if found else expanded


def _clean(texts: _Texts) -> _CleanTexts:
    """Clean all texts, row by row."""
    addresses, sizes = texts.addresses.reshape(-1), texts.sizes.reshape(-1)
    total, n = int(sizes.sum()), len(addresses)
    memory = np.empty(total + n + BLOCK, np.uint8)
    # A token and its separator have at least two bytes; each text adds its end, and an unfinished
    # token; `cleaned` may write seven more.
    begins, firsts = np.empty(total // 2 + 2 * n + 10, np.uint64), np.empty(n + 1, np.uint64)
    irregular = np.empty(n, np.uint8)
    clean_texts(
        addresses, sizes, np.uint64(characters().ctypes.data), np.uint64(memory.ctypes.data),
        begins, firsts, irregular,
    )  # fmt: skip
    return _CleanTexts(begins, firsts, irregular.astype(bool), memory)


def _expand_row(
    ngrams: NGrams, texts: _Texts, fallback: Bytes, rows: NamedRows, row: int
) -> tuple[list[str], list[float]]:
    """Return the names and values of the features that Python appends to a row."""
    x: Mapping[Any, float] = {}
    if fallback[row] == ROW_IN_PYTHON:
        x = numeric_features(rows[row])
    else:
        for z, name in enumerate(ngrams.names):
            if texts.addresses[row, z]:
                address, size = int(texts.addresses[row, z]), int(texts.sizes[row, z])
                raw = ctypes.string_at(address, size)
                x |= ngrams.counts(name, raw.decode())  # type: ignore[operator]
    return list(x), list(x.values())
