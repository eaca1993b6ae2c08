"""Several partitions of one stream in this process, without a broker.

It shows what mixing costs in accuracy for a given stream and learner, and runs the code of the
group. Examples are dealt round-robin to the partitions. A base arrives `delay` examples of each
partition after the last part of its round; until then all partitions continue to learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.types import Floats
from streaml1.distributed.mixing.guard import ModelJoin, ModelLearner, Rows
from streaml1.distributed.mixing.merger import Merger
from streaml1.distributed.mixing.partition import OpenPartition, Piece
from streaml1.models.merging import require_mergeable
from streaml1.models.pipelines import snapshot
from streaml1.training.mixed_models.messages import Base
from streaml1.training.mixed_models.state import MixState
from streaml1.training.model_adapter import batch_learner, loss_of
from streaml1.training.report import Report

__all__ = ["Simulated", "simulate"]

URL = "simulated"
WAIT = 1.0


class Simulated(NamedTuple):
    """Result of a simulation.

    Parameters
    ----------
    loss
        Mean progressive loss over the last quarter of the stream.
    rounds
        Number of merges.
    base
        The last base.
    """

    loss: float
    rounds: int
    base: Base


class _Member:
    """A partition and its next example."""

    def __init__(self, model: Any, k: int, every: int, rows: Any, y: Any) -> None:
        self.learner = ModelLearner(model.clone(), URL)
        self.open = OpenPartition(k, self.learner, every)
        self._act = batch_learner(self.learner.model, loss_of(model)).act
        self._rows, self._y = rows, y

    def advance(self, n: int) -> Floats:
        """Predict and learn the next `n` examples; return the predictions."""
        lo = self.open.hi
        some = Rows(self._rows[lo : lo + n], self._y[lo : lo + n], None)
        p = np.asarray(self._act(*some), np.float64)
        self.open.add(Piece(lo + n, n, [some]))
        return p


def simulate(model: Any, X: Any, y: Any, *, members: int, every: int, delay: int = 0) -> Simulated:
    """Learn a stream by several partitions that mix.

    Parameters
    ----------
    model
        The initial model. It stays as it is.
    X, y
        Rows and labels of the stream, in order.
    members
        Number of partitions.
    every
        Number of examples of each partition and round.
    delay
        Number of examples of each partition between the last part of a round and its base.

    Raises
    ------
    TypeError, ValueError
        If the model cannot be merged.

    Examples
    --------
    >>> import streaml1
    >>> from streaml1.datasets import Drifting
    >>> from streaml1.distributed.mixing.simulation import simulate
    >>> X, y = Drifting(n=400, d=50, change="none", seed=1).matrix()
    >>> done = simulate(streaml1.FTRLClassifier(), X, y, members=4, every=20)
    >>> done.rounds, done.base.examples
    (4, 320)
    """
    require_mergeable([model])
    n = len(y) // members
    state = MixState()
    merger = Merger("0", WAIT, ModelJoin(URL))
    state.apply(
        merger.claim(state, Base(0, "0", 0, {}, {}, 0, snapshot(model, packed=False)()), 0.0)
    )
    group = [
        _Member(model, k, every, X[k::members], np.asarray(y)[k::members]) for k in range(members)
    ]
    for member in group:
        member.open.start(state)
    report = Report(loss_of(model))
    for lo, hi, arrival in _steps(n, every, delay):
        for k, member in enumerate(group):
            p = member.advance(hi - lo)
            if lo >= 3 * n // 4:
                report.add(p, np.asarray(y)[k::members][lo:hi], None)
            if member.open.is_due:
                state.apply(member.open.cut())
        base = merger.step(state, group[0].open.unpublished(), float(hi)) if arrival else None
        if base is not None:
            state.apply(base)
            for member in group:
                member.open.adopt(base, state.base_id)
    assert state.base is not None
    weight, loss, _ = report.sums
    return Simulated(loss / weight, state.base.round, state.base)


def _steps(n: int, every: int, delay: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the next examples of each partition, and whether a base can arrive after them.

    The examples that judge a merge come before the next base, so that a delay of 0 is one of 1.
    """
    lo = done = 0
    after = max(1, delay)
    while lo < n:
        due = done + every
        for hi, arrival in ((due, False), (due + after, True)):
            hi = min(n, hi)
            if hi > lo:
                yield lo, hi, arrival and hi == due + after
                lo = hi
        done = due
