"""Regret: the cost of a run in excess of the best fixed weights in hindsight."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from streaml1.core.option_fields import option_names
from streaml1.core.types import Model
from streaml1.training.config import RunConfig, run_config
from streaml1.training.progressive_validation import progressive
from streaml1.training.regret.observer import RegretObserver
from streaml1.training.regret.result import Point, Regret, RegretError

__all__ = ["RegretObserver", "Point", "Regret", "RegretError", "regret"]


def regret(
    model: Model,
    source: Any,
    *,
    first: int = 100,
    per_decade: int = 4,
    tol: float = 1e-4,
    max_nnz: int = 2**26,
    **reading: Any,
) -> Regret:
    r"""Run a model over a stream and measure its regret.

    The regret after T examples is $\sum_t [f_t(w_t) + r(w_t)]$ minus the minimum of the same sum
    over fixed weights, with the same loss, penalty and constraint. docs/regret.md defines it for
    each model.

    Parameters
    ----------
    model
        A model of streaml1, not a pipeline. It learns the stream.
    source
        As for `progressive`.
    first, per_decade
        The regret is computed after `first` examples, then `per_decade` times per factor of ten,
        evenly spaced in the logarithm, and at the end.
    tol
        Duality gap of the mean objective to which the best weights are computed (relative, if the
        objective is above 1).
    max_nnz
        Maximum number of non-zero entries to keep, 12 bytes each: all rows stay in memory.
    reading
        As for `progressive`: `limit`, `bad`, `format`, `target`, `seed`, ...

    Returns
    -------
    Regret
        With `points`, `table()`, `slope` and `plot(path)`.

    Raises
    ------
    RegretError
        If the regret is undefined for the model, if examples have weights, or if there are too
        many rows.
    TypeError
        If the source or a parameter of `reading` is invalid.

    Examples
    --------
    >>> import streaml1
    >>> from streaml1.datasets import Drifting
    >>> stream = Drifting(n=1000, d=50, change="none", seed=1)
    >>> result = streaml1.regret(streaml1.ElasticNetClassifier(l1=1e-3), stream, per_decade=1)
    >>> [point.examples for point in result.points]
    [100, 1000]
    >>> result.points[1].regret > 0.0, result.slope < 1.0
    (True, True)
    """
    accepts = [name for name in option_names(RunConfig) if name != "every"]
    config = run_config("regret", None, reading, accepts)
    observer = RegretObserver(model, first=first, per_decade=per_decade, tol=tol, max_nnz=max_nnz)
    for name in ("passes", "checkpoint", "label_within", "outs", "observers"):
        if name in reading:
            raise RegretError(f"the regret is defined for one pass from the start; remove {name}")
    limit = config.limit or math.inf
    config = replace(config, every=int(min(2**40, limit)), observers=[observer])
    report = progressive(model, source, config)
    return observer.regret(report.title)
