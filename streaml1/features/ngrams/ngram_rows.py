"""Words of the texts of many rows at once, by kernels, as rows of hashed names.

What is out of the ordinary goes by `NGrams` for its row: a text with a letter that kernels do not
lower, or a row that gives a feature by name too. What no kernel takes does for all rows.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.core.jit import COMPILED
from streaml1.core.rows import BadExample, are_valid_values, numeric_features
from streaml1.features.batch import Batch, batch_of, column_values, is_frame, is_matrix, to_narwhals
from streaml1.features.ngrams.spec import NGrams
from streaml1.features.ngrams.tokenizer import (
    BLOCK,
    MARGIN,
    characters,
    cleaned_all,
    spread,
    whole_texts,
)
from streaml1.text.parsed_rows import IntRows, NamedRows, insert_features

__all__ = ["ngram_batch"]

_HALF = np.uint64(32)
_SIZE = np.uint64(2**32 - 1)
_MOST_LETTERS = 2**31
_QUOTE, _ESCAPE = ord('"'), b"\\u00"  # of a letter that may be one of a name

WORDS_IN_PYTHON, ROW_IN_PYTHON = 1, 2  # as `kernels.spread` takes it


class _Plain(NamedTuple):
    """The features of rows that are no texts, as in `NamedRows`."""

    names: Any
    spans: Any
    hashes: Any
    values: Any
    indptr: Any


class _Texts(NamedTuple):
    """The texts of rows, a column for each name: where each is, 0 for none, and its length."""

    at: Any
    sizes: Any
    kept: Any  # alive while they are read


class _Lines(NamedTuple):
    """What a row is beside its features, as in `NamedRows`."""

    text: Any
    begins: Any
    ends: Any
    parse_line: Callable[[bytes], Any]


def ngram_batch(words: NGrams, X: Any) -> Batch:
    """Return the rows of X with n-grams in place of texts, see `batch_of`.

    As `Words.batch_of`, but for how it is done.
    """
    if is_matrix(X) or isinstance(X, IntRows):
        return batch_of(X)
    rows = None
    if COMPILED and words.simple:
        # Told below, in the order of rows; half a character has no bytes.
        with suppress(BadExample, UnicodeEncodeError):
            rows = _counted(words, X)
    return words.batch_of(X) if rows is None else batch_of(rows)


def _counted(words: NGrams, X: Any) -> NamedRows | None:
    if isinstance(X, NamedRows):
        return _of_named(words, X)
    if is_frame(X):
        return _of_frame(words, X)
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        return _of_dicts(words, X)
    return None


# What was read by kernels already


def _of_named(words: NGrams, X: NamedRows) -> NamedRows | None:
    if X.header is None:
        return X
    hashes, values, indptr = X.csr()
    spans = X.name_spans()
    if not are_valid_values(values) or any(map(words.is_ngram_name, X.header)):
        return None
    n, k = len(X), len(words.names)
    at, sizes = np.zeros((n, k), np.uint64), np.zeros((n, k), np.uint64)
    dropped = np.zeros(len(hashes), np.uint8)
    heads, head_at, head_sizes = _heads(words)
    start = np.uint64(X.names.ctypes.data)
    for z in range(k):
        own_at, own_sizes = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
        whole_texts(start, spans, indptr, head_at[z], head_sizes[z], own_at, own_sizes, dropped)
        at[:, z], sizes[:, z] = own_at, own_sizes
    how = np.zeros(n, np.uint8)
    how[_named_as_words(words, X)] = ROW_IN_PYTHON
    plain = _Plain(X.names, spans, hashes, values, indptr)
    lines = _Lines(X.text, X.begins, X.ends, lambda line: (words.of(X.parse_line(line)[0]),))
    expanded = _expanded(words, plain, _Texts(at, sizes, (X, heads)), dropped, how, lines)
    if expanded is not None and not how.any() and (X.plain or dropped.all()):
        expanded.distinct_names = expanded.values_checked = True
    return expanded


def _named_as_words(words: NGrams, X: NamedRows) -> Any:
    """Rows whose lines may have a feature that is named as words are; some others too."""
    if X.header or not len(X):  # names of columns were looked at
        return []
    lo, hi = int(X.begins[0]), int(X.ends[-1])
    letters = X.text[lo:hi]
    if not any((letters == letter).any() for letter in (_QUOTE, _ESCAPE[0])):
        return []
    raw = letters.tobytes()
    marks = [bytes([_QUOTE]) + head for head in words.heads]
    given = [mark for mark in marks if mark in raw]
    if _ESCAPE in raw:
        given.append(_ESCAPE)
    if not given:
        return []
    found = [one.start() for mark in given for one in re.finditer(re.escape(mark), raw)]
    return np.searchsorted(X.begins - lo, np.array(found), side="right") - 1


# Dicts and frames: what is no text goes the way of all, and its names become bytes then


def _of_dicts(words: NGrams, X: Sequence[Any]) -> NamedRows | None:
    rest: list[dict[Any, Any]] = []
    keys: set[Any] = set()
    columns: list[list[str | None]] = [[None] * len(X) for _ in words.names]
    for i, x in enumerate(X):
        if type(x) is not dict:
            return None
        left = x.copy()
        for name, column in zip(words.names, columns, strict=True):
            value = left.get(name)
            if isinstance(value, str):
                column[i] = value
                del left[name]
        keys.update(left)
        rest.append(left)
    how = np.zeros(len(X), np.uint8)
    odd = {key for key in keys if isinstance(key, str) and words.is_ngram_name(key)}
    if odd:
        for i, x in enumerate(X):
            if not odd.isdisjoint(x):
                how[i], rest[i] = ROW_IN_PYTHON, {}
    return _beside(words, batch_of(rest), columns, how, _numbered(words, X))


def _of_frame(words: NGrams, X: Any) -> NamedRows | None:
    frame = to_narwhals(X)
    texts = [name for name in words.names if name in frame.columns]
    odd = [one for one in frame.columns if isinstance(one, str) and words.is_ngram_name(one)]
    if odd or not texts:
        return None
    columns: list[list[str | None]] = []
    for name in words.names:
        column = column_values(frame[name]) if name in texts else [None] * len(frame)
        if not all(value is None or isinstance(value, str) for value in column):
            return None
        columns.append(column)
    rest = frame.drop(texts)
    batch = batch_of(rest.to_native() if len(rest.columns) else [{}] * len(frame))
    how = np.zeros(len(frame), np.uint8)
    return _beside(words, batch, columns, how, None)


def _numbered(words: NGrams, X: Sequence[Any]) -> _Lines:
    """Rows that are told by their numbers."""
    text = np.arange(len(X)).view(np.uint8)
    begins = np.arange(0, 8 * len(X), 8)

    def one(number: bytes) -> tuple[Any]:
        return (words.of(X[int(np.frombuffer(number, np.int64)[0])]),)

    return _Lines(text, begins, begins + 8, one)


def _beside(
    words: NGrams, batch: Batch, columns: list[list[str | None]], how: Any, lines: _Lines | None
) -> NamedRows | None:
    """Rows of a batch with the words of their texts."""
    names = batch.names or []
    if not all(isinstance(name, str) for name in names):
        return None
    raw = [str.encode(name) for name in names]  # type: ignore[arg-type]
    sizes = np.fromiter(map(len, raw), np.uint64, len(raw))
    spans = (np.cumsum(sizes, dtype=np.uint64) - sizes) << _HALF | sizes
    hashes = name_hashes(names) if names else np.zeros(0, np.uint64)
    rows = batch.rows
    plain = _Plain(
        np.frombuffer(b"".join(raw) + bytes(MARGIN), np.uint8), spans[rows.ids], hashes[rows.ids],
        rows.values, rows.indptr.astype(np.int64),
    )  # fmt: skip
    dropped = np.zeros(len(rows.ids), np.uint8)
    texts = _as_bytes(columns)
    if lines is None:
        lines = _named_again(plain, batch.n)
    expanded = _expanded(words, plain, texts, dropped, how, lines)
    if expanded is not None:
        expanded.distinct_names = expanded.values_checked = True
    return expanded


def _named_again(plain: _Plain, n: int) -> _Lines:
    """Rows that are told by nobody: their features are."""
    nowhere = np.zeros(n, np.int64)
    return _Lines(plain.names[:0], nowhere, nowhere, lambda line: ({},))


def _as_bytes(columns: list[list[str | None]]) -> _Texts:
    n = len(columns[0])
    at, sizes = np.zeros((n, len(columns)), np.uint64), np.zeros((n, len(columns)), np.uint64)
    kept = []
    for z, column in enumerate(columns):
        given = [one for one in column if one is not None]
        whole = "".join(given)
        if whole.isascii():
            lengths = np.fromiter(map(len, given), np.uint64, len(given))
            raw = whole.encode()
        else:
            each = [one.encode() for one in given]
            lengths = np.fromiter(map(len, each), np.uint64, len(given))
            raw = b"".join(each)
        there = np.fromiter((one is not None for one in column), bool, n)
        text = np.frombuffer(raw + bytes(MARGIN), np.uint8)
        at[there, z] = np.uint64(text.ctypes.data) + np.cumsum(lengths, dtype=np.uint64) - lengths
        sizes[there, z] = lengths
        kept.append(text)
    return _Texts(at, sizes, kept)


# The work itself


def _heads(words: NGrams) -> tuple[Any, Any, Any]:
    """Return the names with their equals signs, and the spans of each."""
    return words.packed_prefixes(MARGIN)


def _expanded(
    words: NGrams, plain: _Plain, texts: _Texts, dropped: Any, how: Any, lines: _Lines
) -> NamedRows | None:
    n, k = texts.at.shape
    begins, firsts, odd, clean = _cleaned(texts)
    how[(odd.reshape(n, k).any(axis=1)) & (how == 0)] = WORDS_IN_PYTHON
    heads, head_at, head_sizes = _heads(words)
    counts = (np.diff(firsts) - np.uint64(1)).astype(np.int64)
    longest = int(counts.max(initial=0))
    ngrams = min(words.ngrams, longest)
    lengths = (begins[firsts[1:] - np.uint64(1)] - begins[firsts[:-1]]).astype(np.int64)
    grams, letters = 0, int((plain.spans & _SIZE).sum())
    for g in range(1, ngrams + 1):
        some = np.maximum(counts - (g - 1), 0)
        grams += int(some.sum())
        letters += int((some.reshape(n, k) * head_sizes.astype(np.int64)).sum())
        letters += g * int(lengths.sum())
    if letters >= _MOST_LETTERS:
        return None
    most = len(plain.hashes) + grams
    hashes, spans, values = np.empty(most, np.uint64), np.empty(most, np.uint64), np.empty(most)
    names, indptr = np.empty(letters + MARGIN, np.uint8), np.zeros(n + 1, np.int64)
    met = np.empty(1 << max(5, (16 * ngrams * longest).bit_length()), np.uint64)
    m, used = spread(
        np.uint64(plain.names.ctypes.data), plain.spans, plain.hashes, plain.values, plain.indptr,
        dropped, how, begins, firsts, head_at, head_sizes, np.uint64(ngrams),
        np.uint64(names.ctypes.data), hashes, values, spans, indptr, met,
    )  # fmt: skip
    m = int(m)
    expanded = NamedRows(
        hashes[:m], values[:m], indptr, names[: int(used) + MARGIN], spans[:m], lines.text,
        lines.begins, lines.ends, lines.parse_line,
    )  # fmt: skip
    odd_rows = np.flatnonzero(how).tolist()
    found = [(row, *_in_python(words, texts, how, expanded, row)) for row in odd_rows]
    del heads, clean  # alive until here
    return insert_features(expanded, found, np.ones(n, bool)) if found else expanded


def _cleaned(texts: _Texts) -> tuple[Any, Any, Any, Any]:
    """Return what `kernels.cleaned_all` writes, and the spans of the tokens."""
    at, sizes = texts.at.reshape(-1), texts.sizes.reshape(-1)
    total, n = int(sizes.sum()), len(at)
    clean = np.empty(total + n + BLOCK, np.uint8)
    begins, firsts = np.empty(total // 2 + 2 * n + 10, np.uint64), np.empty(n + 1, np.uint64)
    odd = np.empty(n, np.uint8)
    cleaned_all(
        at, sizes, np.uint64(characters().ctypes.data), np.uint64(clean.ctypes.data), begins,
        firsts, odd,
    )  # fmt: skip
    return begins, firsts, odd.astype(bool), clean


def _in_python(
    words: NGrams, texts: _Texts, how: Any, rows: NamedRows, row: int
) -> tuple[list[str], list[float]]:
    """Names and values of the features that a row still wants."""
    x: Mapping[Any, float] = {}
    if how[row] == ROW_IN_PYTHON:
        x = numeric_features(rows[row])
    else:
        for z, name in enumerate(words.names):
            if texts.at[row, z]:
                raw = ctypes.string_at(int(texts.at[row, z]), int(texts.sizes[row, z]))
                x |= words.counts(name, raw.decode())  # type: ignore[operator]
    return list(x), list(x.values())
