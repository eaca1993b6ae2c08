"""Who hears of a run and keeps what its regret takes: losses, penalties, and all rows."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from streaml1.batches import batch_of, checked
from streaml1.consumer.examples import rows_of
from streaml1.consumer.learning import learner_of, loss_of, places_of
from streaml1.consumer.outs import Out, Part
from streaml1.hashing import name_hash
from streaml1.hindsight.comparator import Best, comparator_of
from streaml1.hindsight.outcome import Point, Regret, RegretError
from streaml1.report import NAMES, losses

__all__ = ["Hindsight"]


class Hindsight(Out):
    """Keeps what is learnt, and tells the regret when the run has ended.

    Parameters
    ----------
    model
        What will learn; it may have learnt before.
    first, per_decade, tol, most
        As for `streaml1.regret`.

    Raises
    ------
    RegretError
        Where there is nothing that the model could be compared with.
    """

    def __init__(
        self,
        model: Any,
        *,
        first: int = 100,
        per_decade: int = 4,
        tol: float = 1e-4,
        most: int = 2**26,
    ) -> None:
        if learner_of(model) is not model:
            raise RegretError("regret is of a model by itself: give the last step of the pipeline")
        for name, value in {"first": first, "per_decade": per_decade, "most": most}.items():
            if value < 1:
                raise RegretError(f"{name}={value} is too few: it must be 1 or more")
        if not 0.0 < tol < math.inf:
            raise RegretError(f"tol={tol} is no tolerance: it must be a number above 0")
        self.model, self.first, self.per_decade, self.tol = model, first, per_decade, tol
        self.loss = loss_of(model)
        self.comparator = comparator_of(model, self.loss)
        self._pays = self.comparator.cost is not None
        self._rows = _Rows(most)
        self._losses: list[Any] = []
        self._penalties: list[float] = []
        self._y: list[Any] = []
        self._penalty = self._cost()
        self._heard = 0
        self._next = next_mark(0, first, per_decade)
        self._nonzero: dict[int, int] = {}

    def room(self) -> int:
        """One example where weights pay in each step; else those up to the next point."""
        return 1 if self._pays else self._next - self._heard

    def predicted(self, part: Part) -> None:
        """Keep some examples, and what they have cost."""
        if part.y is None or part.learnt is not None:
            raise RegretError("regret is of labels that come with their examples: no late ones")
        if part.w is not None and np.any(np.asarray(part.w) != 1.0):
            raise RegretError(
                f"{part.block.place(part.lo)} begins examples of other weights than 1, which "
                "regret is not told of: leave the weights out"
            )
        self._rows.add(rows_of(part.block.x, part.lo, part.hi), part.hi - part.lo)
        y = part.y
        places = places_of(self.model, y) if self.loss == "softmax" else np.asarray(y)
        self._losses.append(losses(self.loss, part.p, places))
        self._y.append(np.asarray(y))
        if self._pays:
            self._penalties.append(self._penalty)
            self._penalty = self._cost()
        self._heard += part.hi - part.lo
        if self._heard == self._next:
            self._nonzero[self._heard] = self.model.n_nonzero
            self._next = next_mark(self._heard, self.first, self.per_decade)

    def next_pass(self) -> None:
        """Refuse: the best fixed weights of a stream are those of one pass."""
        raise RegretError("regret is of one pass over the stream: leave the others out")

    def _cost(self) -> float:
        """The penalty of the weights as they are."""
        cost = self.comparator.cost
        if cost is None:
            return 0.0
        engine = self.model._state
        with engine.alone():
            rule = engine.rule
            if self.loss == "softmax":
                return cost(rule.rows(np.arange(rule.size)))
            return cost(rule.weights())

    def regret(self, title: str = "") -> Regret:
        """Find the best fixed weights at each point.

        Raises
        ------
        RegretError
            Where nothing was learnt.
        """
        if not self._losses:
            raise RegretError("no example was learnt, so there is no regret to tell")
        lost = np.cumsum(np.concatenate(self._losses))
        total = lost + np.cumsum(self._penalties) if self._pays else lost
        X, names = self._rows.matrix()
        y = np.concatenate(self._y)
        points = []
        best: Best | None = None
        for t in marks(len(total), self.first, self.per_decade):
            best = self.comparator.best(X[:t], y[:t], self.tol, best)
            least = t * best.objective
            n = int(np.count_nonzero(best.solution.weights))
            error = t * max(0.0, best.objective - best.bound)
            cumulative, mean = float(total[t - 1]), float(lost[t - 1]) / t
            own = self._nonzero.get(t, self.model.n_nonzero)
            points.append(Point(t, cumulative, least, cumulative - least, error, n, mean, own))
        assert best is not None
        found = best.solution
        weights = (found.weights, names, found.intercept)
        return Regret(title, self.comparator.of, points, *weights, NAMES[self.loss])


def next_mark(t: int, first: int, per_decade: int) -> int:
    """The first number of examples above t, of those even in their logarithm."""
    i = max(0, int(math.log10(max(t, first) / first) * per_decade) - 1)
    while (mark := int(round(first * 10.0 ** (i / per_decade)))) <= t:
        i += 1
    return mark


def marks(n: int, first: int, per_decade: int) -> list[int]:
    """Numbers of examples up to n, even in their logarithm, and n."""
    found, t = [], next_mark(0, first, per_decade)
    while t < n:
        found.append(t)
        t = next_mark(t, first, per_decade)
    return [*found, n]


class _Rows:
    """Rows of any kind, kept as those of one matrix."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._places: dict[Hashable, int] = {}
        self._ids: list[Any] = []
        self._values: list[Any] = []
        self._counts: list[Any] = []
        self._n = self._nnz = 0

    def add(self, x: Any, n: int) -> None:
        """Keep some rows."""
        batch = checked(batch_of(x))
        rows = batch.rows
        if batch.texts is not None:
            ids = self._known([2**64 + h for h in batch.texts.parts()[0].tolist()])
        elif batch.names is not None:
            columns = self._known([_key(name) for name in batch.names])
            ids = columns[rows.ids]
        else:
            columns, at = np.unique(rows.ids, return_inverse=True)
            ids = self._known(columns.tolist())[at]
        self._n += n
        self._nnz += len(ids)
        if self._nnz > self.most:
            raise RegretError(
                f"{self._n:,} examples have {self._nnz:,} entries that are not zero, and regret, "
                f"which keeps them all, takes {self.most:,}: read fewer examples, or give most"
            )
        self._ids.append(ids)
        self._values.append(rows.values)
        self._counts.append(np.diff(rows.indptr.astype(np.int64)))

    def _known(self, keys: list[Any]) -> Any:
        places = self._places
        return np.array([places.setdefault(key, len(places)) for key in keys], np.int32)

    def matrix(self) -> tuple[Any, list[Hashable]]:
        """All rows as a CSR matrix, and what the columns are called."""
        from scipy.sparse import csr_matrix

        indptr = np.concatenate([[0], np.cumsum(np.concatenate(self._counts))])
        parts = (np.concatenate(self._values), np.concatenate(self._ids), indptr)
        names = list(self._places)
        return csr_matrix(parts, (self._n, len(names))), names


def _key(name: Hashable) -> Hashable:
    """A name, or what is the same of it where only hashes are read: a string by its hash."""
    return 2**64 + name_hash(name) if isinstance(name, str) else name
