"""Merge models that have learnt parts of a stream, judged on examples that they have not seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

from streaml1.models.base import OnlineModel
from streaml1.models.merging import merge_candidates, require_mergeable
from streaml1.optim.update_rule import publish
from streaml1.training.evaluation import evaluate

__all__ = ["Candidate", "Merged", "compare", "merge"]


class Candidate(NamedTuple):
    """A model that a merge may choose.

    Parameters
    ----------
    name
        How it joins the parts, as the update rule calls it, such as ``sum`` and ``mean``;
        ``model 3`` for a part; ``base``.
    loss
        Its mean loss on the probe; infinite if it is not a number.
    n_nonzero
        Its number of non-zero weights.
    """

    name: str
    loss: float
    n_nonzero: int


class Merged(NamedTuple):
    """Result of a merge.

    Parameters
    ----------
    model
        The candidate that is taken: the one with the least loss, unless `compare` has a slack.
    chosen
        Its name.
    candidates
        All joined models, the best part, and the base if there is one.
    loss_name
        What `Candidate.loss` is, such as ``log-loss``.
    """

    model: Any
    chosen: str
    candidates: list[Candidate]
    loss_name: str


def merge(models: Sequence[Any], base: Any = None, *, probe: Any, **options: Any) -> Any:
    """Merge models that have learnt parts of a stream into one.

    There are several ways to join the parts. All are tried, and the model with the least loss on
    the probe is returned. The base and the best part are candidates, too: on the probe, a merge is
    never worse than any of them.

    Parameters
    ----------
    models
        The parts: models of one class with the same parameters. They stay as they are. They are
        joined in this order, which the result depends on, bit by bit.
    base
        The model that all parts started from, such as one that has learnt the first examples of the
        stream. None: each part started as a new model.
    probe
        Labelled examples that no part has learnt, as for `streaml1.progressive`: ``(X, y)``, a
        list of pairs, or the name of a source. A few thousand suffice.
    **options
        Options of `streaml1.training.evaluate`, such as `limit` and `target`.

    Returns
    -------
    A new model, which can learn on.

    Raises
    ------
    BadExample, SourceError
        If the probe cannot be read.
    TypeError
        If one is not a model of streaml1.
    ValueError
        If the method of the models cannot be merged, the models differ in class or parameters,
        a part has learnt fewer examples than the base, the parts have seen more features together
        than one model may see, or the probe has no example.

    Examples
    --------
    >>> import streaml1
    >>> from streaml1.datasets import Drifting
    >>> X, y = Drifting(n=4000, d=50, change="none", seed=1).matrix()
    >>> parts = [streaml1.FTRLClassifier() for _ in range(3)]
    >>> for k, part in enumerate(parts):
    ...     part.learn_many(X[1000 * k : 1000 * (k + 1)], y[1000 * k : 1000 * (k + 1)])
    >>> model = streaml1.merge(parts, probe=(X[3000:], y[3000:]))
    >>> model.n_iterations
    3000
    """
    return compare(models, base, probe=probe, **options).model


def compare(
    models: Sequence[Any],
    base: Any = None,
    *,
    probe: Any,
    slack: float = 0.0,
    before: Any = None,
    published: bool = True,
    **options: Any,
) -> Merged:
    """Merge models, and return the losses of all candidates next to the one that is taken.

    The parameters and the exceptions are those of `merge`, and `slack`: a joined model is taken
    unless the base or the best part has a loss that is smaller by more than this share; `before`,
    as for `streaml1.models.merging.merge_candidates`; and `published`: whether models are judged as
    they are published, or by how they predict the next example.
    """
    require_mergeable(models, base)
    if isinstance(probe, Iterator):
        probe = list(probe)  # it is read once for each candidate
    judged = partial(_judged, probe=probe, published=published, options=options)
    joined = judged(merge_candidates(models, base, before))
    part = judged((f"model {k}", one) for k, one in enumerate(models, start=1))
    unchanged = [] if base is None else [judged([("base", base)])]
    given = min([part, *unchanged], key=lambda one: one.best.loss)
    is_joined = joined.best.loss <= given.best.loss + slack * abs(given.best.loss)
    chosen = joined if is_joined else given
    return Merged(
        chosen.model if is_joined else deepcopy(chosen.model),
        chosen.best.name,
        [*joined.candidates, part.best, *(one.best for one in unchanged)],
        chosen.loss_name,
    )


class _Judged(NamedTuple):
    """Some candidates, and the best of them: the first one of equal losses."""

    candidates: list[Candidate]
    best: Candidate
    model: Any
    loss_name: str


def _judged(
    models: Iterable[tuple[str, OnlineModel]],
    probe: Any,
    published: bool,
    options: dict[str, Any],
) -> _Judged:
    """Return the losses of models on the probe, and the best model; the others are not kept."""
    candidates: list[Candidate] = []
    best: tuple[Candidate, Any, str] | None = None
    for name, model in models:
        loss, loss_name = _loss(model, probe, published, options)
        candidates.append(Candidate(name, loss, model.n_nonzero))
        if best is None or loss < best[0].loss:
            best = candidates[-1], model, loss_name
    assert best is not None
    return _Judged(candidates, *best)


def _loss(
    model: OnlineModel, probe: Any, published: bool, options: dict[str, Any]
) -> tuple[float, str]:
    """Return the mean loss of a model on the probe, and the loss's name."""
    if published and hasattr(model._state.rule, "publish"):
        model = deepcopy(model)
        publish(model._state.rule)
    report = evaluate(model, probe, **options)
    if not report.examples:
        raise ValueError("the probe has no example; give labelled examples that no model has seen")
    loss = report.lines[-1].loss
    return math.inf if loss is None or math.isnan(loss) else loss, report.loss_name
