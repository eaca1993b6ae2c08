"""The observer of a run that keeps what its regret needs: losses, penalties and all rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streaml1.core.hashing import name_hash
from streaml1.core.types import Floats, Ids, Indptr, Ints, Model
from streaml1.features.batch import Batch, checked
from streaml1.features.interactions import (
    Interactions,
    Selection,
    append_crossed,
    cross_rows,
    crossed_names,
    select_factors,
)
from streaml1.models.parameter_checks import Integer, Number
from streaml1.models.pipelines import require_instance
from streaml1.training.example_sources import slice_rows
from streaml1.training.model_adapter import class_indices, learner_of, loss_of
from streaml1.training.observers import Batch as PredictedBatch
from streaml1.training.observers import Observer
from streaml1.training.regret.comparator import BestWeights, comparator_of
from streaml1.training.regret.result import Point, Regret, RegretError
from streaml1.training.report import NAMES, losses
from streaml1.training.report.losses import sampled_probabilities

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["RegretObserver"]


class RegretObserver(Observer):
    """Keep the examples of a run and their losses, and compute the regret at its end.

    Parameters
    ----------
    model
        The model of the run; it may have learnt before.
    first, per_decade, tol, max_nnz
        As for `streaml1.regret`.

    Raises
    ------
    RegretError
        If the regret is undefined for the model.
    """

    essential = True

    def __init__(
        self,
        model: Model,
        *,
        first: int = 100,
        per_decade: int = 4,
        tol: float = 1e-4,
        max_nnz: int = 2**26,
    ) -> None:
        require_instance(model)
        if learner_of(model) is not model:
            raise RegretError(
                "the regret is defined for a model without a pipeline; pass its last step"
            )
        for name, neutral in (("offset", None), ("positive_weight", 1.0)):
            if getattr(model, name, neutral) != neutral:
                raise RegretError(
                    f"the regret is undefined for a model with {name}; leave it at {neutral!r}"
                )
        try:
            limits = {"first": first, "per_decade": per_decade, "max_nnz": max_nnz}
            for name, value in limits.items():
                Integer(1, 2**62)(name, value)
            Number(0.0, 1e100, above=True)("tol", tol)
        except ValueError as error:
            raise RegretError(str(error)) from None
        self.model, self.first, self.per_decade, self.tol = model, first, per_decade, tol
        self.loss = loss_of(model)
        self.comparator = comparator_of(model, self.loss)
        self._pays = self.comparator.cost is not None
        self._rows = _RowStore(max_nnz)
        self._losses: list[Floats] = []
        self._penalties: list[float] = []
        self._y: list[NDArray[Any]] = []
        self._classes: dict[
            Hashable, int
        ] = {}  # softmax labels -> their codes, in order of occurrence
        self._penalty = self._current_penalty()
        self._n_examples = 0
        self._next = next_mark(0, first, per_decade)
        self._nonzero: dict[int, int] = {}

    def max_rows(self) -> int:
        """Return 1 if each step pays a penalty, else the number of rows up to the next point."""
        return 1 if self._pays else self._next - self._n_examples

    def on_batch(self, part: PredictedBatch) -> None:
        """Keep some examples and their losses."""
        if part.y is None or part.learnt is not None:
            raise RegretError("the regret is undefined for delayed labels")
        if part.w is not None and np.any(np.asarray(part.w) != 1.0):
            raise RegretError(
                f"the regret is defined for sample weights of 1, got others from "
                f"{part.block.place(part.lo)} on; drop the weights"
            )
        # The best weights include those of interactions and n-grams.
        state = self.model._state
        batch = state.batch(slice_rows(part.block.x, part.lo, part.hi))
        self._rows.add(batch, state.interactions)
        y = part.y
        targets = class_indices(self.model, y) if self.loss == "softmax" else np.asarray(y)
        rate = getattr(self.model, "negative_rate", 1.0)
        self._losses.append(losses(self.loss, sampled_probabilities(part.p, rate), targets))
        if self.loss == "softmax":  # an array would convert labels to one type
            y = [self._classes.setdefault(label, len(self._classes)) for label in y]
        self._y.append(np.asarray(y))
        if self._pays:
            self._penalties.append(self._penalty)
            self._penalty = self._current_penalty()
        self._n_examples += part.hi - part.lo
        if self._n_examples == self._next:
            self._nonzero[self._n_examples] = self.model.n_nonzero
            self._next = next_mark(self._n_examples, self.first, self.per_decade)

    def on_pass_start(self) -> None:
        """Reject further passes: the regret is defined for one pass."""
        raise RegretError("the regret is defined for one pass over the stream; use passes=1")

    def _current_penalty(self) -> float:
        """Return the penalty of the current weights."""
        cost = self.comparator.cost
        if cost is None:
            return 0.0
        state = self.model._state
        with state.exclusive():
            rule = state.rule
            if self.loss == "softmax":
                return cost(rule.rows(np.arange(rule.size)))
            return cost(rule.weights())

    def regret(self, title: str = "") -> Regret:
        """Find the best fixed weights at each point, and compute the regret.

        Raises
        ------
        RegretError
            If nothing was learnt.
        """
        if not self._losses:
            raise RegretError("the regret needs at least one example, got none")
        loss = np.cumsum(np.concatenate(self._losses))
        total = loss + np.cumsum(self._penalties) if self._pays else loss
        X = self._rows.matrix()
        y = np.concatenate(self._y)
        points = []
        best: BestWeights | None = None
        for t in marks(len(total), self.first, self.per_decade):
            best = self.comparator.best(X[:t], y[:t], self.tol, best)
            best_total, cumulative = t * best.objective, float(total[t - 1])
            points.append(
                Point(
                    examples=t,
                    cumulative=cumulative,
                    best=best_total,
                    regret=cumulative - best_total,
                    error=t * max(0.0, best.objective - best.bound),
                    n_nonzero=int(np.count_nonzero(best.solution.weights)),
                    loss=float(loss[t - 1]) / t,
                    learner_nonzero=self._nonzero.get(t, self.model.n_nonzero),
                )
            )
        assert best is not None
        return Regret(
            title,
            self.comparator.description,
            points,
            best.solution.weights,
            self._rows.names,
            best.solution.intercept,
            NAMES[self.loss],
            list(self._classes),
        )


def next_mark(t: int, first: int, per_decade: int) -> int:
    """Return the first point above t; points are evenly spaced in their logarithm."""
    i = max(0, int(math.log10(max(t, first) / first) * per_decade) - 1)
    while (mark := int(round(first * 10.0 ** (i / per_decade)))) <= t:
        i += 1
    return mark


def marks(n: int, first: int, per_decade: int) -> list[int]:
    """Return the points up to n, evenly spaced in their logarithm, and n."""
    points, t = [], next_mark(0, first, per_decade)
    while t < n:
        points.append(t)
        t = next_mark(t, first, per_decade)
    return [*points, n]


class _RowStore:
    """The rows that a model reads, as one matrix.

    Columns are numbered in the order in which their features occur. A feature is identified by a
    key: an int by itself, a string by 2**64 + its hash, a crossed feature by 2**65 + its hash, any
    other name by itself.

    Parameters
    ----------
    max_nnz
        Maximum number of non-zero entries.

    Attributes
    ----------
    names : list
        Names of the columns.
    """

    def __init__(self, max_nnz: int) -> None:
        self.max_nnz = max_nnz
        self.names: list[Hashable] = []
        self._column_of_key: dict[Hashable, int] = {}
        self._ids: list[Ids] = []
        self._values: list[Floats] = []
        self._counts: list[Ints] = []
        self._n = self._nnz = 0

    def add(self, batch: Batch, crosses: Interactions | None) -> None:
        """Append rows, and the interactions of their features."""
        batch = checked(batch)
        self._n += batch.n
        if crosses is None:
            self._append(self._columns_of(batch), batch.rows.values, batch.rows.indptr)
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
        self._append(ids, values, indptr)

    def _append(self, ids: Ids, values: Floats, indptr: Indptr) -> None:
        self._nnz += len(ids)
        if self._nnz > self.max_nnz:
            raise RegretError(
                f"the regret keeps at most {self.max_nnz:,} non-zero entries, got {self._nnz:,} in "
                f"{self._n:,} examples; read fewer examples, or raise max_nnz"
            )
        self._ids.append(ids)
        self._values.append(values)
        ends = indptr.astype(np.int64)
        self._counts.append(ends[1:] - ends[:-1])

    def _columns_of(self, batch: Batch) -> Ids:
        """Return the column of each entry of a batch."""
        if batch.texts is not None:
            hashes, _, _ = batch.texts.csr()
            return self._columns([2**64 + h for h in hashes.tolist()], batch.texts.feature_names)
        if batch.names is not None:
            names = batch.names
            keys = [_key(name) for name in names]
            columns = self._columns(keys, lambda new: [names[k] for k in new.tolist()])
            of_entries: Ids = columns[batch.rows.ids]
            return of_entries
        found, index = np.unique(batch.rows.ids, return_inverse=True)
        of_entries = self._columns(found.tolist(), lambda new: found[new].tolist())[index]
        return of_entries

    def _columns(
        self, keys: list[Any], names_of: Callable[[NDArray[np.intp]], Iterable[Hashable]]
    ) -> Ids:
        """Return the columns of some keys, adding new ones.

        `names_of` returns the names of the keys at some indices.
        """
        new = [k for k, key in enumerate(keys) if self._is_new(key)]
        if new:
            self.names += names_of(np.array(new))
        return np.array([self._column_of_key[key] for key in keys], np.uint32)

    def _is_new(self, key: Hashable) -> bool:
        n = len(self._column_of_key)
        return self._column_of_key.setdefault(key, n) == n

    def matrix(self) -> csr_matrix:
        """Return all rows as a CSR matrix."""
        from scipy.sparse import csr_matrix

        indptr = np.concatenate([[0], np.cumsum(np.concatenate(self._counts))])
        ids = np.concatenate(self._ids).astype(np.int32)
        return csr_matrix((np.concatenate(self._values), ids, indptr), (self._n, len(self.names)))


def _key(name: Hashable) -> Hashable:
    """Return the key of a name; that of a string is the same where only its hash is known."""
    return 2**64 + name_hash(name) if isinstance(name, str) else name
