"""The best fixed weights in hindsight: what a run has cost more than they would have."""

from __future__ import annotations

import inspect
import math
from typing import Any

from streaml1.training import progressive
from streaml1.training.regret.observer import Hindsight
from streaml1.training.regret.result import Point, Regret, RegretError

__all__ = ["Hindsight", "Point", "Regret", "RegretError", "regret"]


def regret(
    model: Any,
    source: Any,
    *,
    first: int = 100,
    per_decade: int = 4,
    tol: float = 1e-4,
    most: int = 2**26,
    **reading: Any,
) -> Regret:
    r"""Run a model over a stream and tell its regret, $\sum_t [f_t(w_t) + r(w_t)]$ less the least.

    The least is that of all fixed weights, with the same loss and penalty, in the same ball, on the
    same examples; for each number of examples T another. What is meant for each model is in
    docs/regret.md.

    Parameters
    ----------
    model
        A model of streaml1, by itself. It learns.
    source
        As for `progressive`.
    first, per_decade
        It is told after `first` examples, `per_decade` times while their number grows to its
        tenfold, evenly in its logarithm, and at the end.
    tol
        How well the best weights are searched for: until the gap of their mean loss is at most
        that (relative, where the mean loss is above 1).
    most
        All rows are kept: at most so many entries that are not zero, 12 bytes each.
    reading
        As for `progressive`: `limit`, `bad`, `format`, `target`, `seed`, ...

    Returns
    -------
    Regret
        With `points`, `table()`, `slope` and `plot(path)`.

    Raises
    ------
    RegretError
        With one sentence: a model whose regret cannot be told, weighted examples, or too many rows.
    TypeError
        Where the source is none, or a parameter of `reading`.

    Examples
    --------
    >>> import streaml1
    >>> from streaml1.datasets import Drifting
    >>> stream = Drifting(n=1000, d=50, change="none", seed=1)
    >>> told = streaml1.regret(streaml1.ElasticNetClassifier(l1=1e-3), stream, per_decade=1)
    >>> [point.examples for point in told.points]
    [100, 1000]
    >>> told.points[1].regret > 0.0, told.slope < 1.0
    (True, True)
    """
    known = inspect.signature(progressive).parameters
    for name in reading:
        if name not in known:
            raise TypeError(f"regret() got an unexpected keyword argument {name!r}")
    heard = Hindsight(model, first=first, per_decade=per_decade, tol=tol, most=most)
    for name in ("passes", "checkpoint", "label_within", "outs"):
        if name in reading:
            raise RegretError(f"regret is of one pass that begins anew: leave out {name}")
    limit = reading.get("limit") or math.inf
    report = progressive(model, source, every=int(min(2**40, limit)), outs=[heard], **reading)
    return heard.regret(report.title)
