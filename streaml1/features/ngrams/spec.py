"""Raw text to word features, and n-grams of neighbouring words: what they mean, in Python."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from streaml1.core.rows import BadExample, Rows, check_value, to_value
from streaml1.features.batch import Batch, batch_of, column_values, is_frame, is_matrix, to_narwhals
from streaml1.features.dedup import plain_rows
from streaml1.text.parsed_rows import IntRows

__all__ = ["NGrams", "check_text", "tokenize"]

_words = re.compile(r"\w+").findall


def tokenize(text: str) -> list[str]:
    r"""Return the tokens of a text: runs of `\w` (letters, digits, underscores), in lower case.

    Examples
    --------
    >>> tokenize("Don't PAY 9.99!")
    ['don', 't', 'pay', '9', '99']
    """
    return _words(text.lower())


def check_text(name: str, value: Any) -> list[str] | None:
    """Check which features a model is asked to read as text: None, or their names.

    Raises
    ------
    ValueError
        One sentence, where they are none.
    """
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ValueError(f'{name}={value!r} is no list; give one of names such as ["message"]')
    for one in value:
        if not isinstance(one, str):
            raise ValueError(f"{name} has {one!r}, which is no name; name features by strings")
        if not one:
            raise ValueError(
                f"{name} has '', an empty name; give that of a feature, or leave it out"
            )
    return list(dict.fromkeys(value)) or None


class NGrams:
    """What is text in examples, and what it becomes.

    A string value of a feature `n` that is text becomes, in its place at the end, the features
    `n=word` with the count of each word, and with `ngrams=2` also `n=word word` with that of each
    two neighbours, and so on.

    Parameters
    ----------
    names
        The features that are text.
    ngrams
        The most neighbours.

    Examples
    --------
    >>> NGrams(["message"], 2).of({"message": "Spam, spam!", "age": 31})
    {'age': 31, 'message=spam': 2.0, 'message=spam spam': 1.0}
    """

    def __init__(self, names: Sequence[str], ngrams: int) -> None:
        self.names = list(names)
        self.ngrams = ngrams

    @cached_property
    def heads(self) -> list[bytes]:
        """What the names of words begin with, by name of the text."""
        return [f"{name}=".encode("utf-8", "surrogatepass") for name in self.names]

    @cached_property
    def simple(self) -> bool:
        """Whether no name of a text reads as that of a category, or has to be escaped."""
        return all(re.fullmatch(r"[\w .:-]*", name, re.ASCII) for name in self.names)

    def packed_prefixes(self, margin: int) -> tuple[Any, Any, Any]:
        """`heads` one after the other, some bytes behind each; their addresses and sizes."""
        padded = [head + bytes(margin) for head in self.heads]
        text = np.frombuffer(b"".join(padded), np.uint8)
        begins = np.cumsum([0, *map(len, padded)])[:-1].astype(np.uint64)
        sizes = np.array([*map(len, self.heads)], np.uint64)
        return text, begins + np.uint64(text.ctypes.data), sizes

    def is_ngram_name(self, name: str) -> bool:
        """Whether a name may be that of a word."""
        return name.startswith(tuple(f"{own}=" for own in self.names))

    def __getstate__(self) -> dict[str, Any]:
        return {"names": self.names, "ngrams": self.ngrams}

    def of(self, x: Mapping[Hashable, Any]) -> Mapping[Hashable, Any]:
        """Return the example with words in place of texts."""
        texts = [name for name in self.names if isinstance(x.get(name), str)]
        if not texts:
            return x
        plain = {name: v for name, v in x.items() if name not in texts}
        for name in texts:
            for feature, count in self.counts(name, x[name]).items():
                _add(plain, feature, count)
        return plain

    def counts(self, name: str, text: str) -> dict[str, float]:
        """Return the features of a text of some name, in their order."""
        counts: dict[str, float] = {}
        for gram in self._grams(tokenize(text)):
            feature = f"{name}={gram}"
            counts[feature] = counts.get(feature, 0.0) + 1.0
        return counts

    def _grams(self, words: list[str]) -> Iterator[str]:
        yield from words
        for n in range(2, min(self.ngrams, len(words)) + 1):
            yield from map(" ".join, zip(*(words[k:] for k in range(n)), strict=False))

    def batch_of(self, X: Any) -> Batch:
        """Return the rows of X with n-grams in place of texts, row by row; see `batch_of`."""
        if is_matrix(X) or isinstance(X, IntRows):
            return batch_of(X)
        if is_frame(X):
            return self._of_frame(X)
        if isinstance(X, Sequence) and not isinstance(X, str | bytes):
            return batch_of([self._of_one(x, i) for i, x in enumerate(X)])
        return batch_of(X)

    def _of_one(self, x: Any, row: int) -> Any:
        if not isinstance(x, Mapping):
            return x  # refused with the others
        try:
            return self.of(x)
        except BadExample as bad:
            raise BadExample(bad.reason, row) from None

    def _of_frame(self, X: Any) -> Batch:
        frame = to_narwhals(X)
        texts = [name for name in self.names if name in frame.columns]
        if not texts:
            return batch_of(X)
        columns = [column_values(frame[name]) for name in texts]
        kept: list[dict[Hashable, Any]] = [{} for _ in range(len(frame))]
        counts: list[dict[Hashable, Any]] = [{} for _ in range(len(frame))]
        for name, column in zip(texts, columns, strict=True):
            for i, value in enumerate(column):
                if isinstance(value, str):
                    counts[i].update(self.counts(name, value))
                elif value is not None:
                    kept[i][name] = value
        rest = frame.drop(texts)
        parts = [batch_of(kept), batch_of(counts)]
        if len(rest.columns):
            parts.insert(0, batch_of(rest.to_native()))
        return _beside(parts)


def _add(x: dict[Hashable, Any], name: str, count: float) -> None:
    """Add to a feature of an example, which may give a number by that name, or a category."""
    given = x.get(name)
    if isinstance(given, str):
        _add(x, f"{name}={given}", 1.0)
    elif given is not None:
        count += to_value(name, given)
        check_value(name, count)
    x[name] = count


def _beside(parts: Sequence[Batch]) -> Batch:
    """Each row of some batches with those of the same number in the others, one after the other."""
    places: dict[Hashable, int] = {}
    ids, values, rows_of = [], [], []
    for part in parts:
        names = part.names or []
        place = np.array([places.setdefault(name, len(places)) for name in names], np.uint32)
        ids.append(place[part.rows.ids] if names else part.rows.ids)
        values.append(part.rows.values)
        rows_of.append(np.repeat(np.arange(part.n), np.diff(part.rows.indptr.astype(np.int64))))
    order = np.argsort(np.concatenate(rows_of), kind="stable")
    indptr = np.sum([part.rows.indptr for part in parts], axis=0, dtype=np.uint64)
    rows = Rows(np.concatenate(ids)[order], np.concatenate(values)[order], indptr)
    names = list(places)
    return Batch(plain_rows(rows, names.__getitem__), names)
