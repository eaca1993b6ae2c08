"""Who hears of a run and keeps what its regret takes: losses, penalties, and all rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from streaml1.core.hashing import name_hash
from streaml1.features.batch import Batch, checked
from streaml1.features.interactions import (
    Interactions,
    Selection,
    append_crossed,
    cross_rows,
    crossed_names,
    select_factors,
)
from streaml1.models.parameters import Integer, Number
from streaml1.training.examples import rows_of
from streaml1.training.model_adapter import learner_of, loss_of, places_of
from streaml1.training.observers import Out, Part
from streaml1.training.regret.comparator import Best, comparator_of
from streaml1.training.regret.result import Point, Regret, RegretError
from streaml1.training.report import NAMES, losses

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
        try:
            for name, value in {"first": first, "per_decade": per_decade, "most": most}.items():
                Integer(1, 2**62)(name, value)
            Number(0.0, 1e100, above=True)("tol", tol)
        except ValueError as error:
            raise RegretError(str(error)) from None
        self.model, self.first, self.per_decade, self.tol = model, first, per_decade, tol
        self.loss = loss_of(model)
        self.comparator = comparator_of(model, self.loss)
        self._pays = self.comparator.cost is not None
        self._rows = _Rows(most)
        self._losses: list[Any] = []
        self._penalties: list[float] = []
        self._y: list[Any] = []
        self._classes: dict[Hashable, int] = {}  # labels of many classes, numbered as they come
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
        # Crosses and words are features: the best weights are over them too.
        engine = self.model._state
        batch = engine.batch(rows_of(part.block.x, part.lo, part.hi))
        self._rows.add(batch, engine.interactions)
        y = part.y
        places = places_of(self.model, y) if self.loss == "softmax" else np.asarray(y)
        self._losses.append(losses(self.loss, part.p, places))
        if self.loss == "softmax":  # an array would make one type of labels of several
            y = [self._classes.setdefault(one, len(self._classes)) for one in y]
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
        with engine.exclusive():
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
        X = self._rows.matrix()
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
        weights = (found.weights, self._rows.names, found.intercept)
        classes = list(self._classes)
        return Regret(title, self.comparator.of, points, *weights, NAMES[self.loss], classes)


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
    """Rows as a model reads them, kept as those of one matrix.

    Attributes
    ----------
    names : list
        What the columns are called.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.names: list[Hashable] = []
        self._places: dict[Hashable, int] = {}  # by names, of strings by what their hashes are
        self._ids: list[Any] = []
        self._values: list[Any] = []
        self._counts: list[Any] = []
        self._n = self._nnz = 0

    def add(self, batch: Batch, crosses: Interactions | None) -> None:
        """Keep some rows, and what is crossed in them."""
        batch = checked(batch)
        self._n += batch.n
        if crosses is None:
            self._keep(self._columns_of(batch), batch.rows.values, batch.rows.indptr)
            return
        whole = select_factors(crosses, batch)
        for lo, hi in whole.chunks():
            self._cross(crosses, whole.slice(lo, hi))

    def _cross(self, crosses: Interactions, some: Selection) -> None:
        rows, crossing = some.batch.rows, cross_rows(crosses, some)
        crossed = self._columns(
            [2**65 + h for h in crossing.hashes.tolist()],
            lambda new: crossed_names(crossing, some, new),
        )
        indptr = rows.indptr + crossing.indptr
        ids, values = np.empty(int(indptr[-1]), np.uint32), np.empty(int(indptr[-1]))
        append_crossed(
            rows.indptr, crossing.indptr, self._columns_of(some.batch), rows.values, crossed,
            crossing.values, ids, values,
        )  # fmt: skip
        self._keep(ids, values, indptr)

    def _keep(self, ids: Any, values: Any, indptr: Any) -> None:
        self._nnz += len(ids)
        if self._nnz > self.most:
            raise RegretError(
                f"{self._n:,} examples have {self._nnz:,} entries that are not zero, and regret, "
                f"which keeps them all, takes {self.most:,}: read fewer examples, or give most"
            )
        self._ids.append(ids)
        self._values.append(values)
        self._counts.append(np.diff(indptr.astype(np.int64)))

    def _columns_of(self, batch: Batch) -> Any:
        """The column of each entry of a batch."""
        if batch.texts is not None:
            hashes, _, _ = batch.texts.parts()
            return self._columns([2**64 + h for h in hashes.tolist()], batch.texts.names_of)
        if batch.names is not None:
            names = batch.names
            keys = [_key(name) for name in names]
            return self._columns(keys, lambda new: [names[k] for k in new.tolist()])[batch.rows.ids]
        found, at = np.unique(batch.rows.ids, return_inverse=True)
        return self._columns(found.tolist(), lambda new: found[new].tolist())[at]

    def _columns(self, keys: list[Any], names_of: Callable[[Any], Iterable[Hashable]]) -> Any:
        """The columns of some keys; `names_of` tells what those that are new are called."""
        new = [k for k, key in enumerate(keys) if self._is_new(key)]
        if new:
            self.names += names_of(np.array(new))
        return np.array([self._places[key] for key in keys], np.uint32)

    def _is_new(self, key: Hashable) -> bool:
        n = len(self._places)
        return self._places.setdefault(key, n) == n

    def matrix(self) -> Any:
        """All rows as a CSR matrix."""
        from scipy.sparse import csr_matrix

        indptr = np.concatenate([[0], np.cumsum(np.concatenate(self._counts))])
        ids = np.concatenate(self._ids).astype(np.int32)
        return csr_matrix((np.concatenate(self._values), ids, indptr), (self._n, len(self.names)))


def _key(name: Hashable) -> Hashable:
    """A name, or what is the same of it where only hashes are read: a string by its hash."""
    return 2**64 + name_hash(name) if isinstance(name, str) else name
