"""Candidates for one model in place of several that have learnt parts of a stream.

The parts have started from a common base, or from nothing. A candidate is a state that goes on from
the base by what the parts have learnt since; how their weights join is up to the update rule
(`UpdateRule.candidates`). Nothing here says which candidate is good: `streaml1.training.merge`
compares their losses.

Everything else joins in one way. Names are united by their hashes. The numbers of examples add up.
The intercept moves by the mean of the parts' moves, weighted by their numbers of examples: it is in
every row, so that each part has moved it nearly as far as all rows together would have.

Parts are joined in their order. The same parts in the same order give the same bits, whenever and
wherever they were learnt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from streaml1.features.vocabulary.joined_names import join_names
from streaml1.models.base import OnlineModel

__all__ = ["merge_candidates", "require_mergeable", "set_clock"]


def require_mergeable(models: Sequence[Any], base: Any = None) -> None:
    """Raise an error of one sentence unless models can be merged.

    Raises
    ------
    TypeError
        If one is not a model of streaml1.
    ValueError
        If there is none, their method cannot be merged, they differ in class or parameters, or one
        has learnt fewer examples than the base.
    """
    if not models:
        raise ValueError("models must hold at least one model, got none")
    first = models[0]
    named = [(f"model {k}", model) for k, model in enumerate(models, start=1)]
    for name, model in [*named, *([] if base is None else [("the base", base)])]:
        if not isinstance(model, OnlineModel):
            raise TypeError(
                f"{name} must be a model of streaml1, got {type(model).__name__}; take the model "
                "out of its pipeline"
            )
        if not hasattr(model._state.rule, "candidates"):
            raise ValueError(
                f"{name} cannot be merged: {type(model).__name__} does not support it; "
                "FTRLClassifier and FTRLRegressor do"
            )
        if type(model) is not type(first):
            raise ValueError(
                f"{name} is a {type(model).__name__} and model 1 a {type(first).__name__}; merge "
                "models of one class"
            )
        mine, others = model._parameters(), first._parameters()
        for parameter, value in mine.items():
            if not _equal(value, others[parameter]):
                raise ValueError(
                    f"{name} has {parameter}={value!r} and model 1 {others[parameter]!r}; merge "
                    "models with the same parameters"
                )
    for name, model in named:
        if base is not None and model.n_iterations < base.n_iterations:
            raise ValueError(
                f"{name} has learnt {model.n_iterations:,} examples and the base "
                f"{base.n_iterations:,}; give the base that all models started from"
            )


def set_clock(model: OnlineModel, n: int) -> None:
    """Set the number of examples that a model has learnt, which learning rates may fall with."""
    with model._state.exclusive():
        model._state.online[0].t = n


def _equal(a: Any, b: Any) -> bool:
    """Return whether two values of a parameter are equal; schedulers define no equality."""
    return bool(a == b) or (type(a) is type(b) and hasattr(a, "__dict__") and vars(a) == vars(b))


def merge_candidates(
    models: Sequence[OnlineModel], base: OnlineModel | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield the name and the model of each candidate.

    Parameters
    ----------
    models
        The parts, in the order in which they are joined. They stay as they are.
    base
        The model that all of them started from; None: a new one.

    Raises
    ------
    TypeError, ValueError
        As `require_mergeable`.
    """
    require_mergeable(models, base)
    first = models[0]
    base = first.clone() if base is None else base
    states = [model._state.snapshot()() for model in (base, *models)]
    names = join_names([state["names"] for state in states])
    rule, *parts = (
        state["rule"].from_state_dict(names.size, positions, state["arrays"])
        for state, positions in zip(states, names.positions, strict=True)
    )
    online = _joined_records([state["online"] for state in states])
    forgotten = _joined_sketches([state["forgotten"] for state in states])
    for name, joined in rule.candidates(parts):
        slots, arrays = joined.state_dict()
        state = {
            "names": names.subset(slots),
            "online": online.copy(),
            "forgotten": forgotten,
            "arrays": arrays,
            "made": states[0]["made"],
        }
        yield name, _restored(first, state)


def _restored(like: OnlineModel, state: dict[str, Any]) -> OnlineModel:
    """Return a model with the class and parameters of `like`, within its `max_features`."""
    # Without a limit, so that the weights are counted when the parameters are set.
    state["online"]["most"] = state["online"]["held"] = 0
    model = type(like)._from_file(like.clone()._parameters(), state)
    if model._state.online[0].most:
        with model._state.exclusive():
            model._state._prune()
    return model


def _joined_records(records: Sequence[Any]) -> Any:
    """Return the online record of a base and parts together."""
    base, *parts = (record[0] for record in records)
    joined = records[1].copy()  # with the parameters of the parts
    learnt = [int(part["t"] - base["t"]) for part in parts]
    total = sum(learnt)
    joined["t"] = base["t"] + total
    joined["rates_from"] = base["rates_from"]
    joined["cut"] = base["cut"] + sum(max(0, int(part["cut"] - base["cut"])) for part in parts)
    moves = [n * float(part["b"] - base["b"]) for n, part in zip(learnt, parts, strict=True)]
    joined["b"] = base["b"] + (sum(moves) / total if total else 0.0)
    return joined


def _joined_sketches(sketches: Sequence[Any]) -> Any:
    """Return the sketch of all names that were released; None if none was."""
    known = [registers for registers in sketches if registers is not None]
    return reduce(np.maximum, known) if known else None
