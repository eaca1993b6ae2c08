"""Made-up streams of sparse examples whose labels come to mean something else."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from river.datasets import base

from streaml1.datasets.remote import one_of

__all__ = ["Drifting"]

CHUNK = 1000
"""So many examples are drawn at once, by a generator of their own."""

COMMON = 3.0
"""Column j comes about as often as (j / d)^(1/COMMON - 1) falls: few are in most rows."""


class Drifting(base.SyntheticDataset):
    r"""A seeded stream of sparse rows, of which a few columns tell the label, and these change.

    A row has the value 1.0 in up to `nonzeros` columns, drawn as words are: a few are common. The
    label is True where $\langle w_t, x \rangle$ plus noise is above 0; $w_t$ has `relevant`
    weights of -1 or 1 and zeros elsewhere. After each `period` examples another $w$ holds, at once
    or by and by.

    Parameters
    ----------
    n
        How many examples.
    d
        How many columns.
    nonzeros
        The most entries of a row: a column that is drawn twice counts once.
    relevant
        How many columns tell the label.
    change
        "abrupt": another $w$ from one example to the next; "gradual": from the middle between two
        changes on, $w_t$ goes over on a straight line to the next; "none": it stays.
    period
        After how many examples.
    noise
        The standard deviation of what is added.
    seed
        Sets all that is drawn.

    Examples
    --------
    >>> from streaml1.datasets import Drifting
    >>> stream = Drifting(n=2000, d=100, period=500, seed=7)
    >>> X, y = stream.matrix()
    >>> X.shape, len(y), list(stream) == list(stream)
    ((2000, 100), 2000, True)
    """

    def __init__(
        self,
        n: int = 10_000,
        d: int = 1_000,
        nonzeros: int = 20,
        relevant: int = 50,
        change: str = "abrupt",
        period: int = 2_500,
        noise: float = 0.1,
        seed: int = 0,
    ) -> None:
        at_least = {"n": n, "d": d, "nonzeros": nonzeros, "relevant": relevant, "period": period}
        for name, value in at_least.items():
            if value < 1:
                raise ValueError(f"{name}={value} is too few: it must be 1 or more")
        if relevant > d:
            raise ValueError(f"relevant={relevant} is more than there are columns, d={d}")
        if not 0.0 <= noise < np.inf:
            raise ValueError(f"noise={noise} is no deviation: it must be a number >= 0")
        self.change = one_of("change", change, ("abrupt", "gradual", "none"))
        super().__init__(  # type: ignore[no-untyped-call]
            task=base.BINARY_CLF, n_features=d, n_samples=n, sparse=True
        )
        self.n, self.d, self.nonzeros, self.relevant = n, d, nonzeros, relevant
        self.period, self.noise, self.seed = period, noise, seed

    def __len__(self) -> int:
        """How many examples there are."""
        return self.n

    def truth(self, t: int) -> Any:
        """The weights that tell the label of example t, from 0."""
        if self.change == "none":
            return self._truth(0).copy()
        turn, within = divmod(t, self.period)
        if self.change == "abrupt" or 2 * within <= self.period:
            return self._truth(turn).copy()
        share = (2 * within - self.period) / self.period
        return (1.0 - share) * self._truth(turn) + share * self._truth(turn + 1)

    def matrix(self) -> tuple[Any, Any]:
        """All rows as a `scipy.sparse.csr_matrix` of float64, and the labels as an array."""
        from scipy.sparse import csr_matrix

        parts = [self._chunk(first) for first in range(0, self.n, CHUNK)]
        counts = np.concatenate([np.diff(indptr) for _, indptr, _ in parts])
        ids = np.concatenate([ids for ids, _, _ in parts])
        indptr = np.concatenate([[0], np.cumsum(counts)])
        X = csr_matrix((np.ones(len(ids)), ids, indptr), (self.n, self.d))
        return X, np.concatenate([y for _, _, y in parts])

    def __iter__(self) -> Iterator[tuple[dict[int, float], bool]]:
        """Yield (x, y), as river's streams do."""
        for first in range(0, self.n, CHUNK):
            ids, indptr, y = self._chunk(first)
            names, ends = ids.tolist(), indptr.tolist()
            for row, label in enumerate(y.tolist()):
                yield dict.fromkeys(names[ends[row] : ends[row + 1]], 1.0), label

    def _truth(self, turn: int) -> Any:
        return _weights(self.seed, turn, self.d, self.relevant)

    def _chunk(self, first: int) -> tuple[Any, Any, Any]:
        """Columns, index pointers and labels of the examples from `first` on."""
        n = min(CHUNK, self.n - first)
        random = np.random.default_rng([self.seed, 0, first])
        drawn = random.random((CHUNK, self.nonzeros)) ** COMMON
        noise = self.noise * random.normal(size=CHUNK)
        columns = np.sort((drawn[:n] * self.d).astype(np.int32), axis=1)
        new = np.ones(columns.shape, bool)
        new[:, 1:] = columns[:, 1:] != columns[:, :-1]
        indptr = np.concatenate([[0], np.cumsum(new.sum(axis=1))])
        told = np.empty(n)
        for row in range(n):
            told[row] = self.truth(first + row)[columns[row][new[row]]].sum()
        return columns[new], indptr, told + noise[:n] > 0.0


@functools.lru_cache(maxsize=4)
def _weights(seed: int, turn: int, d: int, relevant: int) -> Any:
    """The weights that hold after so many changes."""
    random = np.random.default_rng([seed, 1, turn])
    # Half of those that tell are common, or few labels would be told.
    often = random.permutation(min(d, 2 * relevant))[: relevant // 2]
    rest = np.setdiff1d(np.arange(d), often)
    columns = np.concatenate([often, random.permutation(rest)[: relevant - len(often)]])
    w = np.zeros(d)
    w[columns] = np.where(random.permutation(relevant) % 2, 1.0, -1.0)
    return w
