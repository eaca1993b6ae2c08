"""The definition of tokens and n-grams, and the pure Python fallback that counts them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from streaml1.core.named_options import option_name
from streaml1.core.rows import BadExample, Rows, check_value, shown, to_value
from streaml1.core.types import Bytes, Example, UInts
from streaml1.features.batch import Batch, batch_of, column_values, is_frame, is_matrix, to_narwhals
from streaml1.features.dedup import plain_rows
from streaml1.text.parsed_rows import IntRows

__all__ = ["NGrams", "check_text", "tokenize"]

_find_tokens = re.compile(r"\w+").findall


def tokenize(text: str) -> list[str]:
    r"""Return the tokens of a text: runs of `\w` (letters, digits, underscores), in lower case.

    Examples
    --------
    >>> tokenize("Don't PAY 9.99!")
    ['don', 't', 'pay', '9', '99']
    """
    return _find_tokens(text.lower())


def check_text(name: str, value: object) -> list[str] | None:
    """Validate the parameter `text` of a model.

    Parameters
    ----------
    name
        Name of the parameter, for errors.
    value
        Names of features, or None.

    Returns
    -------
    list of str, or None
        The names without duplicates; None if there are none.

    Raises
    ------
    ValueError
        If `value` is not a sequence of non-empty strings.
    """
    if value is None:
        return None
    name = option_name(name)
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ValueError(
            f'{name} must be a list of feature names, such as ["message"], got {shown(value)}'
        )
    for feature in value:
        if not isinstance(feature, str):
            raise ValueError(f"{name} has {shown(feature)}; feature names must be strings")
        if not feature:
            raise ValueError(f"{name} has an empty name; give the name of a feature, or remove it")
    return list(dict.fromkeys(value)) or None


class NGrams:
    """The text features of a model, which are replaced by their n-grams.

    A string value of the text feature `t` is removed. At the end of the example it adds a feature
    `t=token` for each token, with its count as the value. With `ngrams` = 2 it also adds a feature
    `t=token token` for each pair of neighbours, and so on.

    Parameters
    ----------
    names
        Names of the text features.
    ngrams
        Largest number of tokens of an n-gram.

    Examples
    --------
    >>> NGrams(["message"], 2).expand({"message": "Spam, spam!", "age": 31})
    {'age': 31, 'message=spam': 2.0, 'message=spam spam': 1.0}
    """

    def __init__(self, names: Sequence[str], ngrams: int) -> None:
        self.names = list(names)
        self.ngrams = ngrams

    @cached_property
    def prefixes(self) -> list[bytes]:
        """Prefix of the names of n-grams for each text feature, in UTF-8."""
        return [f"{name}=".encode("utf-8", "surrogatepass") for name in self.names]

    def array_positions(self, json: bytes) -> list[int]:
        """Return where arrays begin in JSON that may be those of a text feature."""
        return [match.start() for match in self._arrays.finditer(json)] if b"[" in json else []

    @cached_property
    def _arrays(self) -> re.Pattern[bytes]:
        # A text may be at a path, whose last member the array is.
        names = {*self.names, *(name.rpartition(".")[2] for name in self.names)}
        members = b"|".join(re.escape(name.encode()) for name in sorted(names))
        return re.compile(rb'"(?:%b)"\s*:\s*\[' % members)

    @cached_property
    def simple(self) -> bool:
        """True if kernels support the names of the texts.

        A name with other characters may contain an equals sign, as categories do, or be escaped in
        JSON.
        """
        return all(re.fullmatch(r"[\w .:-]*", name, re.ASCII) for name in self.names)

    def packed_prefixes(self, margin: int) -> tuple[Bytes, UInts, UInts]:
        """Return `prefixes` as bytes for kernels.

        Parameters
        ----------
        margin
            Number of zero bytes after each prefix.

        Returns
        -------
        text : ndarray of uint8
            The prefixes. The addresses are valid as long as it is referenced.
        addresses, sizes : ndarray of uint64
            Address and length of each prefix.
        """
        padded = [prefix + bytes(margin) for prefix in self.prefixes]
        text = np.frombuffer(b"".join(padded), np.uint8)
        begins = np.cumsum([0, *map(len, padded)])[:-1].astype(np.uint64)
        sizes = np.array([*map(len, self.prefixes)], np.uint64)
        return text, begins + np.uint64(text.ctypes.data), sizes

    def is_ngram_name(self, name: str) -> bool:
        """Return whether a name may be that of an n-gram."""
        return name.startswith(tuple(f"{text_name}=" for text_name in self.names))

    def __getstate__(self) -> dict[str, Any]:
        return {"names": self.names, "ngrams": self.ngrams}

    def expand(self, x: Example) -> Example:
        """Return an example with n-grams in place of texts.

        Raises
        ------
        BadExample
            If the example also has a feature with the name of an n-gram, and their sum is invalid.
        """
        texts = {name: v for name in self.names if isinstance(v := x.get(name), str)}
        if not texts:
            return x
        expanded = {name: v for name, v in x.items() if name not in texts}
        for name, text in texts.items():
            for feature, count in self.counts(name, text).items():
                _add_count(expanded, feature, count)
        return expanded

    def counts(self, name: str, text: str) -> dict[str, float]:
        """Return the n-gram counts of the text feature `name`, in order of first occurrence."""
        counts: dict[str, float] = {}
        for ngram in self._ngrams_of(tokenize(text)):
            feature = f"{name}={ngram}"
            counts[feature] = counts.get(feature, 0.0) + 1.0
        return counts

    def _ngrams_of(self, tokens: list[str]) -> Iterator[str]:
        yield from tokens
        for n in range(2, min(self.ngrams, len(tokens)) + 1):
            yield from map(" ".join, zip(*(tokens[k:] for k in range(n)), strict=False))

    def batch_of(self, X: object) -> Batch:
        """Return the rows of X with n-grams in place of texts, row by row.

        X is what `streaml1.features.batch.batch_of` accepts, and errors are the same.
        """
        if is_matrix(X) or isinstance(X, IntRows):
            return batch_of(X)
        if is_frame(X):
            return self._expand_frame(X)
        if isinstance(X, Sequence) and not isinstance(X, str | bytes):
            return batch_of([self._expand_row(x, i) for i, x in enumerate(X)])
        return batch_of(X)

    def _expand_row(self, x: object, row: int) -> object:
        if not isinstance(x, Mapping):
            return x  # `batch_of` rejects it, unless an earlier row is invalid
        try:
            return self.expand(x)
        except BadExample as bad:
            raise BadExample(bad.reason, row) from None

    def _expand_frame(self, X: object) -> Batch:
        frame = to_narwhals(X)
        texts = [name for name in self.names if name in frame.columns]
        if not texts:
            return batch_of(X)
        columns = [column_values(frame[name]) for name in texts]
        non_texts: list[dict[Hashable, Any]] = [{} for _ in range(len(frame))]
        counts: list[dict[Hashable, Any]] = [{} for _ in range(len(frame))]
        for name, column in zip(texts, columns, strict=True):
            for i, value in enumerate(column):
                if isinstance(value, str):
                    counts[i].update(self.counts(name, value))
                elif value is not None:
                    non_texts[i][name] = value
        rest = frame.drop(texts)
        batches = [batch_of(non_texts), batch_of(counts)]
        if len(rest.columns):
            batches.insert(0, batch_of(rest.to_native()))
        return _concatenate_rows(batches)


def _add_count(x: dict[Hashable, Any], name: str, count: float) -> None:
    """Add an n-gram to an example that may have a number or a category of this name."""
    value = x.get(name)
    if isinstance(value, str):
        _add_count(x, f"{name}={value}", 1.0)
    else:
        count += to_value(name, value)
        check_value(name, count)
    x[name] = count


def _concatenate_rows(batches: Sequence[Batch]) -> Batch:
    """Return a batch whose row i has the features of row i of each batch, in order."""
    ids_of: dict[Hashable, int] = {}
    ids, values, row_of = [], [], []
    for batch in batches:
        names = batch.names or []
        new_ids = np.array([ids_of.setdefault(name, len(ids_of)) for name in names], np.uint32)
        ids.append(new_ids[batch.rows.ids] if names else batch.rows.ids)
        values.append(batch.rows.values)
        row_of.append(np.repeat(np.arange(batch.n), np.diff(batch.rows.indptr.astype(np.int64))))
    order = np.argsort(np.concatenate(row_of), kind="stable")
    indptr = np.sum([batch.rows.indptr for batch in batches], axis=0, dtype=np.uint64)
    rows = Rows(np.concatenate(ids)[order], np.concatenate(values)[order], indptr)
    vocabulary = list(ids_of)
    return Batch(plain_rows(rows, vocabulary.__getitem__), vocabulary)
