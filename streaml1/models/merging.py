"""Candidates for one model in place of several that have learnt parts of a stream.

The parts have started from a common base, or from nothing. A candidate is the base plus what the
parts have learnt since; how their weights join is up to the update rule (`UpdateRule.candidates`).
Nothing here says which candidate is good: `streaml1.training.merge` compares their losses.

Everything else joins in one way. Names are united by their hashes. The numbers of examples add up.
The intercept moves by the mean of the parts' moves, weighted by their numbers of examples: it is in
every row, so that each part has moved it nearly as far as all rows together would have.

The rates continue as after all examples, those of the base and of all parts.

Parts are joined in their order. The same parts in the same order give the same bits, whenever and
wherever they were learnt.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from streaml1.core.rows import shown, shown_type
from streaml1.core.types import Floats
from streaml1.features.vocabulary.joined_names import join_names
from streaml1.models.base import OnlineModel
from streaml1.models.pipelines import is_pipeline, require_instance
from streaml1.models.schedules import rates_of_steps

__all__ = [
    "always_has_momentum",
    "can_have_momentum",
    "merge_candidates",
    "require_mergeable",
    "set_clock",
    "start_shards",
]

MERGEABLE = (
    "elastic nets, truncated gradient, FTRL, coin betting, SMIDAS and EG, without averaged weights,"
)
BLOCK = 2**16
"""Number of steps whose rates are computed at a time."""


def require_mergeable(models: Sequence[Any], base: Any = None) -> None:
    """Raise an error of one sentence unless models can be merged.

    Raises
    ------
    TypeError
        If one is not a model of streaml1, or they are not in a list.
    ValueError
        If there is none, their method cannot be merged, they differ in class or parameters, or one
        has learnt fewer examples than the base.
    """
    if not isinstance(models, Sequence):
        raise TypeError(f"models must be a list of models, got {shown(models)}")
    if not models:
        raise ValueError("models must hold at least one model, got none")
    first = models[0]
    named = [(f"model {k}", model) for k, model in enumerate(models, start=1)]
    if len(named) == 1:
        named = [("the model", first)]
    for name, model in [*named, *([] if base is None else [("the base", base)])]:
        require_instance(model, name)
        if not isinstance(model, OnlineModel):
            remedy = ""
            if is_pipeline(model):
                remedy = "; take the model out of its pipeline"
            elif isinstance(model, str | os.PathLike):
                remedy = "; streaml1.load returns the model of a file"
            raise TypeError(
                f"{name} must be a model of streaml1, got {type(model).__name__}{remedy}"
            )
        if not hasattr(model._state.rule, "candidates"):
            averages = " with average=True" if getattr(model, "average", False) else ""
            raise ValueError(
                f"{name} cannot be merged: {type(model).__name__}{averages} does not support it; "
                f"{MERGEABLE} do"
            )
        if type(model) is not type(first):
            raise ValueError(
                f"{name} is {shown_type(model)} and model 1 {shown_type(first)}; merge "
                "models of one class"
            )
        mine, others = model._parameters(), first._parameters()
        for parameter, value in mine.items():
            if not _equal(value, others[parameter]):
                raise ValueError(
                    f"{name} has {parameter}={value!r} and model 1 {others[parameter]!r}; merge "
                    "models with the same parameters"
                )
        if _version(model) != _version(first):
            raise ValueError(
                f"{name} and model 1 learn in different ways, because an earlier version "
                "began one of them; merge models that one version began"
            )
    for name, model in named:
        if base is not None and model.n_iterations < base.n_iterations:
            raise ValueError(
                f"{name} has learnt {model.n_iterations:,} examples and the base "
                f"{base.n_iterations:,}; give the base that all models started from"
            )


def _version(model: OnlineModel) -> Any:
    return getattr(model._state.rule, "version", None)


def set_clock(model: OnlineModel, n: int, step: int) -> None:
    """Set how many examples a model has learnt, and how many of them since its rates started."""
    with model._state.exclusive():
        o = model._state.online[0]
        o.t, o.rates_from = n, n - step


def can_have_momentum(model: OnlineModel) -> bool:
    """Return whether a merge of such models can repeat the move of the merge before."""
    return hasattr(model._state.rule, "candidates_with_momentum")


def always_has_momentum(model: OnlineModel) -> bool:
    """Return whether each candidate of such a merge repeats that move."""
    return getattr(model._state.rule, "always_has_momentum", False)


def start_shards(model: OnlineModel, shards: int, n_rows: int) -> None:
    """Let a model start one of some shards that learn the next rows, `n_rows` all together.

    Rules whose steps fall with what they have learnt, rather than with a clock, then take those of
    a model that has learnt a part of it. A merge with momentum expects it.
    """
    if shards > 1 and hasattr(model._state.rule, "start_shards"):
        with model._state.exclusive():
            model._state.rule.start_shards(shards, n_rows)


def _equal(a: Any, b: Any) -> bool:
    """Return whether two values of a parameter are equal; schedulers define no equality."""
    return bool(a == b) or (type(a) is type(b) and hasattr(a, "__dict__") and vars(a) == vars(b))


def merge_candidates(
    models: Sequence[OnlineModel],
    base: OnlineModel | None = None,
    before: OnlineModel | None = None,
    *,
    prepared: bool = True,
) -> Iterator[tuple[str, Any]]:
    """Yield the name and the model of each candidate.

    Parameters
    ----------
    models
        The parts, in the order in which they are joined. They stay as they are.
    base
        The model that all of them started from; None: a new one.
    before
        The base of the merge whose result is `base`. Some rules can then also yield models that
        repeat the move of that merge.
    prepared
        Whether the parts have started from a copy of the base after `start_shards`. It matters if
        `before` is given.

    Raises
    ------
    TypeError, ValueError
        As `require_mergeable`; or if the parts cannot be joined, because they have seen more
        features together than one model may see.
    """
    require_mergeable(models, base)
    first = models[0]
    base = first.clone() if base is None else base
    method = "candidates_with_momentum" if prepared else "candidates_of_group"
    earlier = () if before is None or not hasattr(base._state.rule, method) else (before,)
    states = [model._state.snapshot()() for model in (base, *models, *earlier)]
    names = join_names([state["names"] for state in states])
    rule, *parts = (
        state["rule"].from_state_dict(names.size, positions, state["arrays"])
        for state, positions in zip(states, names.positions, strict=True)
    )
    online = _joined_records([state["online"] for state in states[: len(models) + 1]])
    forgotten = _joined_sketches([state["forgotten"] for state in states])
    rates_of_parts = [_rates(model, base) for model in models]
    if earlier:
        candidates = getattr(rule, method)(parts[:-1], rates_of_parts, parts[-1])
    else:
        candidates = rule.candidates(parts, rates_of_parts)
    for name, joined in candidates:
        slots, arrays = joined.state_dict()
        state = {
            "names": names.subset(slots),
            "online": online.copy(),
            "forgotten": forgotten,
            "arrays": arrays,
            "made": states[0]["made"],
        }
        yield name, _restored(first, state)


def _rates(model: OnlineModel, base: OnlineModel) -> Iterator[Floats]:
    """Yield the rates of the steps that a model has taken since the base, in blocks."""
    before, now = base._state.online[0], model._state.online[0]
    t, last, start = int(before["t"]), int(now["t"]), int(before["rates_from"])
    restart = int(now["rates_from"])  # it may have reset its rates since
    for end, begin in ((min(last, max(t, restart)), start), (last, restart)):
        while t < end:
            n = min(BLOCK, end - t)
            yield rates_of_steps(model.lr, model.schedule, t - begin, n)
            t += n


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
    joined["rates_from"] = joined["t"] - _rate_step(base, parts)
    joined["cut"] = base["cut"] + sum(max(0, int(part["cut"] - base["cut"])) for part in parts)
    moves = [n * float(part["b"] - base["b"]) for n, part in zip(learnt, parts, strict=True)]
    joined["b"] = base["b"] + (sum(moves) / total if total else 0.0)
    return joined


def _rate_step(base: Any, parts: Sequence[Any]) -> int:
    """Return the number of examples since the rates last started, of base and parts together.

    If a part has reset its rates, those of the base ended there.
    """
    reset = any(part["rates_from"] != base["rates_from"] for part in parts)
    since = sum(int(part["t"] - max(part["rates_from"], base["t"])) for part in parts)
    return since + (0 if reset else int(base["t"] - base["rates_from"]))


def _joined_sketches(sketches: Sequence[Any]) -> Any:
    """Return the sketch of all names that were released; None if none was."""
    known = [registers for registers in sketches if registers is not None]
    return reduce(np.maximum, known) if known else None
