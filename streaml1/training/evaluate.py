"""What a model that learns nothing more is worth on labelled examples."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from streaml1.training.error_policy import Refusals, require_positive
from streaml1.training.examples import opened_source, readings_of
from streaml1.training.model_adapter import texts_of
from streaml1.training.report import Line, Report
from streaml1.training.run import Run, heeded

__all__ = ["evaluate"]


def evaluate(
    model: Any,
    source: Any,
    *,
    every: int | None = None,
    limit: int | None = None,
    bad: str = "fail",
    on_line: Callable[[Line], object] | None = None,
    on_start: Callable[[Report], object] | None = None,
    stop: Any = None,
    **reading: Any,
) -> Report:
    """Predict each labelled example of a stream, learn none, and report.

    Parameters
    ----------
    model
        A model of streaml1, or a river pipeline. Many labels: one that it has not met is refused.
    source, every, limit, bad, on_line, on_start, stop
        As of `progressive`.
    reading
        As for `open_source`, where the source is a name.

    Returns
    -------
    Report
        As of `progressive`; the baseline learns from the labels that are read.

    Raises
    ------
    BadExample
        Where an example is refused and `bad` is `"fail"`.
    SourceError
        Where the source cannot be read; once stopped an `Unfinished`, with the report.
    TypeError
        Where the source is none, or the model neither predicts nor takes rows of such a kind.
    ValueError
        Where `every`, `limit` or `bad` is out of range.

    Examples
    --------
    >>> from streaml1 import ElasticNetClassifier
    >>> from streaml1.training import evaluate
    >>> model = ElasticNetClassifier()
    >>> model.learn_many([{"a": 1.0}, {"b": 1.0}] * 50, [True, False] * 50)
    >>> report = evaluate(model, [({"a": 1.0}, True), ({"b": 1.0}, False)])
    >>> report.examples, report.lines[-1].error, model.n_iterations
    (2, 0.0, 100)
    """
    require_positive(every=every, limit=limit)
    refuse = Refusals(bad)
    opened = opened_source(source, text=texts_of(model), **reading)
    run = Run(model, opened, refuse, every=every, limit=limit, on_line=on_line, learns=False)
    asked = heeded(stop, run)
    run.begin()
    if on_start is not None:
        on_start(run.report)
    size = min(one for one in (opened.block, every, limit) if one)
    with contextlib.closing(readings_of(opened, 1, size, refuse)) as readings:
        run.feed_all(next(readings), asked, last=True)
    return run.finish()
