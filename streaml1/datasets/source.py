"""Data sets as sources: ``data:rcv1?topic=ECAT``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from streaml1.sources.source import SOURCES, Block, Numbered, Refuse, SourceError, blocks_of
from streaml1.text.parsed_rows import IntRows

__all__ = ["DATA", "DataSource"]

DATA = {
    "rcv1": "RCV1",
    "magic04": "MAGIC04",
    "arcene": "Arcene",
    "landsat": "Landsat",
    "mnist": "MNIST",
    "sms-spam": "SMSSpam",
    "talkingdata": "TalkingData",
    "drifting": "Drifting",
}
"""What they are called in a source, and their classes."""

TIMED = ("talkingdata", "drifting")
"""Those whose order tells of time, and stays."""


class DataSource(Numbered):
    """A data set of `streaml1.datasets` as a source.

    Those of numbers are learnt as rows of a matrix, without a look at one of them.

    Parameters
    ----------
    spec
        ``data:`` and a name of `DATA`; behind a ``?``, with ``&`` between, parameters of the class
        (``topic=ECAT``), ``label=`` (True is that label and False each other one) and
        ``order=file``.
    seed
        The examples are shuffled by it, but for those that are by time, and with ``order=file``.

    Raises
    ------
    SourceError
        One sentence, where there is no such data set or parameter.
    """

    def __init__(self, spec: str, seed: int = 0) -> None:
        self.name = spec
        self.seed = seed
        name, _, asked = spec.removeprefix("data:").partition("?")
        if name not in DATA:
            raise SourceError(f"{spec} is no source: after data: comes one of {', '.join(DATA)}")
        pairs = parse_qsl(asked, keep_blank_values=True)
        self._given = dict(pairs)
        if len(self._given) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise SourceError(f"{spec} has {twice}= more than once: give it once")
        order = self._given.pop("order", None)
        if order not in (None, "file"):
            raise SourceError(f"{spec} has order={order}: only order=file, or none, has a meaning")
        self._shuffled = order is None and name not in TIMED
        self._label = self._given.pop("label", None)
        self.data = self._opened(name)
        self._rows: tuple[Any, Any] | None = None

    def _opened(self, name: str) -> Any:
        from streaml1 import datasets

        kind = getattr(datasets, DATA[name])
        known = inspect.signature(kind).parameters
        for one in self._given:
            if one not in known:
                raise SourceError(
                    f"{self.name} has {one}=, which {name} has not: it has label, order, "
                    f"{', '.join(known)}"
                )
        try:
            given = {k: _read(k, v, known[k].default) for k, v in self._given.items()}
            if name == "drifting":
                given.setdefault("seed", self.seed)
            return kind(**given)
        except SourceError:
            raise
        except ValueError as error:
            raise SourceError(f"{self.name}: {error}") from None

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self.data)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Yield (x, y), as river's streams do."""
        x, y = self._examples()
        yield from zip(x, y, strict=True)

    def identity(self) -> dict[str, Any]:
        """What must be the same, by name, for a position to mean the same."""
        return {"source": self.name, "seed": self.seed, "examples": len(self)}

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Block]:
        """Read from the start, at most `size` examples at a time; none is ever refused."""
        x, y = self._examples()
        if not isinstance(x, IntRows):
            return blocks_of(self.numbered(zip(x, y, strict=True)), self.name, size)
        first, self._skipped = self._skipped, 0
        return self._cut(x, y, first, size)

    def _cut(self, x: Any, y: Any, first: int, size: int) -> Iterator[Block]:
        for lo in range(first, len(y), size):
            hi = min(lo + size, len(y))
            yield Block(x[lo:hi], y[lo:hi], None, self.name, list(range(lo + 1, hi + 1)))

    def _examples(self) -> tuple[Any, Any]:
        """All features and all labels, in order."""
        if self._rows is None:
            try:
                self._rows = self._matrix() if hasattr(self.data, "matrix") else self._dicts()
            except SourceError:
                raise
            except ValueError as error:
                raise SourceError(f"{self.name}: {error}") from None
        return self._rows

    def _matrix(self) -> tuple[Any, Any]:
        X, y = self.data.matrix()
        if self._shuffled:
            order = np.random.default_rng(self.seed).permutation(len(y))
            X, y = X[order], y[order]
        rows = IntRows(X.indices.astype(np.uint32), X.data, X.indptr.astype(np.int64))
        return rows, self._told(y)

    def _dicts(self) -> tuple[Any, Any]:
        x, y = zip(*self.data, strict=True)
        order = range(len(x))
        if self._shuffled:
            order = np.random.default_rng(self.seed).permutation(len(x)).tolist()
        return [x[row] for row in order], self._told(np.array([y[row] for row in order]))

    def _told(self, y: Any) -> Any:
        """The labels as a list."""
        if self._label is None:
            return y.tolist()
        known = np.unique(y).tolist()
        texts = [str(one) for one in known]
        if self._label not in texts:
            raise SourceError(
                f"{self.name} has label={self._label}, which is none of its labels: "
                f"{', '.join(texts)}"
            )
        return (y == known[texts.index(self._label)]).tolist()


def _read(name: str, text: str, default: Any) -> Any:
    """A parameter, as its default tells of its type."""
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name}={text} is neither true nor false")
        return text.lower() == "true"
    if isinstance(default, int | float):
        try:
            return type(default)(text)
        except ValueError:
            kind = "whole number" if isinstance(default, int) else "number"
            raise ValueError(f"{name}={text} is no {kind}: give one, as {name}={default}") from None
    return text


SOURCES["data"] = DataSource
