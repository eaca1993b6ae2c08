"""Synthetic sparse streams with concept drift."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from river.datasets import base

from streaml1.core.types import Bools, Floats
from streaml1.datasets.remote import check_choice

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["Drifting"]

CHUNK = 1000
"""Examples drawn at once. Each chunk has its own generator, so that any can be drawn alone."""

EXPONENT = 3.0
"""Columns are drawn as d * u^EXPONENT with u uniform, so that the density of column j is
proportional to (j / d)^(1 / EXPONENT - 1): a few columns are in most rows."""


class Chunk(NamedTuple):
    """Consecutive examples."""

    ids: NDArray[np.int32]
    """Columns of the non-zero values of all rows, sorted within a row."""
    indptr: NDArray[np.int64]
    """Where each row begins and ends in `ids`."""
    y: Bools
    """Labels."""


class Drifting(base.SyntheticDataset):
    r"""A synthetic sparse stream with concept drift.

    A row has the value 1.0 in up to `nonzeros` columns. As with words in text, a few columns are
    common. The label is True if $\langle w_t, x \rangle$ plus noise is above 0. $w_t$ has
    `relevant` weights of -1 or 1 and zeros elsewhere, and changes after every `period` examples.

    Parameters
    ----------
    n
        Number of examples.
    d
        Number of columns.
    nonzeros
        Maximum number of non-zero values in a row; a column that is drawn twice counts once.
    relevant
        Number of columns that the label depends on.
    change
        "abrupt": $w_t$ changes from one example to the next; "gradual": in the second half of each
        period $w_t$ moves on a straight line to the next weights; "none": $w_t$ is constant.
    period
        Examples between two changes.
    noise
        Standard deviation of the noise.
    seed
        Seed of everything that is drawn.

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
        positive = {"n": n, "d": d, "nonzeros": nonzeros, "relevant": relevant, "period": period}
        for name, value in positive.items():
            if value < 1:
                raise ValueError(f"{name} must be >= 1, got {value}")
        if relevant > d:
            raise ValueError(f"relevant must be <= d={d}, got {relevant}")
        if not 0.0 <= noise < np.inf:
            raise ValueError(f"noise must be a finite number >= 0, got {noise}")
        self.change = check_choice("change", change, ("abrupt", "gradual", "none"))
        super().__init__(  # type: ignore[no-untyped-call]
            task=base.BINARY_CLF, n_features=d, n_samples=n, sparse=True
        )
        self.n, self.d, self.nonzeros, self.relevant = n, d, nonzeros, relevant
        self.period, self.noise, self.seed = period, noise, seed

    def __len__(self) -> int:
        """Return the number of examples."""
        return self.n

    def truth(self, t: int) -> Floats:
        """Return the weights $w_t$ of example t, counted from 0, shape (d,)."""
        if self.change == "none":
            return self._weights(0).copy()
        n_changes, within = divmod(t, self.period)
        if self.change == "abrupt" or 2 * within <= self.period:
            return self._weights(n_changes).copy()
        share = (2 * within - self.period) / self.period
        return (1.0 - share) * self._weights(n_changes) + share * self._weights(n_changes + 1)

    def matrix(self) -> tuple[csr_matrix, Bools]:
        """Return all rows as a CSR matrix of float64, and the labels."""
        from scipy.sparse import csr_matrix

        chunks = [self._chunk(first) for first in range(0, self.n, CHUNK)]
        counts = np.concatenate([np.diff(chunk.indptr) for chunk in chunks])
        ids = np.concatenate([chunk.ids for chunk in chunks])
        indptr = np.concatenate([[0], np.cumsum(counts)])
        X = csr_matrix((np.ones(len(ids)), ids, indptr), (self.n, self.d))
        return X, np.concatenate([chunk.y for chunk in chunks])

    def __iter__(self) -> Iterator[tuple[dict[int, float], bool]]:
        """Yield (x, y), like the streams of river."""
        for first in range(0, self.n, CHUNK):
            chunk = self._chunk(first)
            ids, indptr = chunk.ids.tolist(), chunk.indptr.tolist()
            for row, label in enumerate(chunk.y.tolist()):
                yield dict.fromkeys(ids[indptr[row] : indptr[row + 1]], 1.0), label

    def _weights(self, n_changes: int) -> Floats:
        return _draw_weights(self.seed, n_changes, self.d, self.relevant)

    def _chunk(self, first: int) -> Chunk:
        """Draw the examples from `first` on."""
        n = min(CHUNK, self.n - first)
        random = np.random.default_rng([self.seed, 0, first])
        drawn = random.random((CHUNK, self.nonzeros)) ** EXPONENT
        noise = self.noise * random.normal(size=CHUNK)
        columns = np.sort((drawn[:n] * self.d).astype(np.int32), axis=1)
        new = np.ones(columns.shape, bool)
        new[:, 1:] = columns[:, 1:] != columns[:, :-1]
        indptr = np.concatenate([[0], np.cumsum(new.sum(axis=1))])
        margins = np.empty(n)
        for row in range(n):
            margins[row] = self.truth(first + row)[columns[row][new[row]]].sum()
        return Chunk(columns[new], indptr, margins + noise[:n] > 0.0)


@functools.lru_cache(maxsize=4)
def _draw_weights(seed: int, n_changes: int, d: int, relevant: int) -> Floats:
    """Draw the weights after `n_changes` changes."""
    random = np.random.default_rng([seed, 1, n_changes])
    # Half of the relevant columns are common ones: else few rows would have any of them.
    common = random.permutation(min(d, 2 * relevant))[: relevant // 2]
    rest = np.setdiff1d(np.arange(d), common)
    columns = np.concatenate([common, random.permutation(rest)[: relevant - len(common)]])
    w = np.zeros(d)
    w[columns] = np.where(random.permutation(relevant) % 2, 1.0, -1.0)
    return w
