"""Data sets as sources: ``data:rcv1?topic=ECAT``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from streaml1.datasets.catalog import SOURCE_NAMES, TIME_ORDERED, dataset_class
from streaml1.sources.source import (
    DATA_SETS,
    SOURCES,
    Block,
    Numbered,
    Reject,
    SourceError,
    blocks_of,
)
from streaml1.text.parsed_rows import IntRows

__all__ = ["DataSource"]

Features = IntRows | list[dict[Any, Any]]
"""The features of all examples: a matrix, or a dict for each."""


class DataSource(Numbered):
    """A data set of `streaml1.datasets` as a source.

    Numerical data sets are read as rows of a matrix, without a dict for each example.

    Parameters
    ----------
    spec
        ``data:`` and a name of `SOURCE_NAMES`. After a ``?``, separated by ``&``: parameters of
        the class (``topic=ECAT``), ``label=`` (one label against all others) and ``order=file``.
    seed
        Seed of the shuffle. Data sets ordered by time are not shuffled, nor is any with
        ``order=file``.

    Raises
    ------
    SourceError
        If there is no such data set or parameter.
    """

    def __init__(self, spec: str, seed: int = 0) -> None:
        self.name = spec
        self.seed = seed
        name, _, query = spec.removeprefix("data:").partition("?")
        if name not in SOURCE_NAMES:
            close = get_close_matches(name.lower(), SOURCE_NAMES, n=1)
            hint = f" (did you mean data:{close[0]}?)" if close else ""
            raise SourceError(
                f"unknown data set in source {spec}{hint}; use data: and one of "
                f"{', '.join(SOURCE_NAMES)}"
            )
        pairs = parse_qsl(query, keep_blank_values=True)
        self._params = dict(pairs)
        if len(self._params) < len(pairs):
            keys = [key for key, _ in pairs]
            repeated = next(key for key in keys if keys.count(key) > 1)
            raise SourceError(f"{spec} has {repeated}= more than once; give it once")
        order = self._params.pop("order", None)
        if order not in (None, "file"):
            raise SourceError(f"order must be file or left out in {spec}, got order={order}")
        self._shuffled = order is None and name not in TIME_ORDERED
        self._label = self._params.pop("label", None)
        self.data = self._make(name)
        self._cached: tuple[Features, list[Any]] | None = None

    def _make(self, name: str) -> Any:
        """Make the data set from the text of its parameters."""
        kind = dataset_class(SOURCE_NAMES[name])
        known = inspect.signature(kind).parameters
        for key in self._params:
            if key not in known:
                raise SourceError(
                    f"unknown parameter {key}= in {self.name}; {name} takes label, order, "
                    f"{', '.join(known)}"
                )
        try:
            params = {k: _parse(k, v, known[k].default) for k, v in self._params.items()}
            if name == "drifting":
                params.setdefault("seed", self.seed)
            return kind(**params)
        except SourceError:
            raise
        except ValueError as error:
            raise SourceError(f"{self.name}: {error}") from None

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.data)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Yield (x, y), like the streams of river."""
        x, y = self._examples()
        yield from zip(x, y, strict=True)

    def identity(self) -> dict[str, Any]:
        """Return what a resumed run compares before it trusts a position."""
        return {"source": self.name, "seed": self.seed, "examples": len(self)}

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Yield blocks of at most `size` examples; no example is ever rejected."""
        x, y = self._examples()
        if not isinstance(x, IntRows):
            return blocks_of(self.numbered(zip(x, y, strict=True)), self.name, size)
        first, self._skipped = self._skipped, 0
        return self._matrix_blocks(x, y, first, size)

    def _matrix_blocks(self, x: Any, y: list[Any], first: int, size: int) -> Iterator[Block]:
        for lo in range(first, len(y), size):
            hi = min(lo + size, len(y))
            yield Block(x[lo:hi], y[lo:hi], None, self.name, list(range(lo + 1, hi + 1)))

    def _examples(self) -> tuple[Features, list[Any]]:
        """Return all features and all labels, in the order of the source."""
        if self._cached is None:
            try:
                self._cached = self._matrix() if hasattr(self.data, "matrix") else self._dicts()
            except SourceError:
                raise
            except ValueError as error:
                raise SourceError(f"{self.name}: {error}") from None
        return self._cached

    def _matrix(self) -> tuple[IntRows, list[Any]]:
        X, y = self.data.matrix()
        if self._shuffled:
            order = np.random.default_rng(self.seed).permutation(len(y))
            X, y = X[order], y[order]
        rows = IntRows(X.indices.astype(np.uint32), X.data, X.indptr.astype(np.int64))
        return rows, self._labels(y)

    def _dicts(self) -> tuple[list[dict[Any, Any]], list[Any]]:
        x, y = zip(*self.data, strict=True)
        order = range(len(x))
        if self._shuffled:
            order = np.random.default_rng(self.seed).permutation(len(x)).tolist()
        return [x[row] for row in order], self._labels(np.array([y[row] for row in order]))

    def _labels(self, y: NDArray[Any]) -> list[Any]:
        """Return the labels, or whether each is the one of ``label=``."""
        if self._label is None:
            labels: list[Any] = y.tolist()
            return labels
        known = np.unique(y).tolist()
        texts = [str(label) for label in known]
        if self._label not in texts:
            raise SourceError(
                f"label must be one of {', '.join(texts)} in {self.name}, got label={self._label}"
            )
        is_label: list[Any] = (y == known[texts.index(self._label)]).tolist()
        return is_label


def _parse(name: str, text: str, default: object) -> object:
    """Convert the text of a parameter to the type of its default."""
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, got {name}={text}")
        return text.lower() == "true"
    if isinstance(default, int | float):
        try:
            return type(default)(text)
        except ValueError:
            kind = "an integer" if isinstance(default, int) else "a number"
            raise ValueError(
                f"{name} must be {kind}, such as {default}, got {name}={text}"
            ) from None
    return text


SOURCES["data"] = DataSource
DATA_SETS.update({name: f"data:{name}" for name in SOURCE_NAMES})
