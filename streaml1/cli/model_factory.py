"""The model that is to learn: a new one, or one that goes on, with what may change in it."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

from streaml1.cli.options import MODELS
from streaml1.cli.program import Refusal
from streaml1.optim.tasks import REGRESSION

__all__ = ["change", "loaded", "new_learner"]


def new_learner(source: str, model: str | None, task: str | None, given: dict[str, Any]) -> Any:
    """A model as the options say."""
    import streaml1

    task = task or _task(source, given.get("loss"))
    model = model or "elastic-net"
    if task not in MODELS[model]:
        raise Refusal(f"{model} is for {', '.join(MODELS[model])}, not for {task}; take another")
    kind = getattr(streaml1, MODELS[model][task])
    require_parameters(kind, given, model)
    _require_used(given, model)
    if model == "elastic-net" and not _has_own_rate(given):
        given = {**given, "lr": "auto"}
    try:
        return kind(**given)
    except ValueError as error:
        raise Refusal(str(error)) from None


def _has_own_rate(given: dict[str, Any]) -> bool:
    """Whether there is a rate in what is given, or what does not go with auto."""
    return _has_tables(given) or bool(given.keys() & {"lr", "schedule"})


def _has_tables(params: dict[str, Any]) -> bool:
    """Whether an elastic net with these parameters keeps tables of its steps."""
    return params.get("stamps") == "explicit" or bool(params.get("average"))


def loaded(place: str | Path, kafka: Any = None) -> Any:
    """The model in a file, or the newest in a topic, connected to as `kafka` says."""
    import streaml1

    if not isinstance(place, str):
        return streaml1.load(place)
    from streaml1.sources.kafka.topic import Topic
    from streaml1.training.model_registry.reader import read

    return read(Topic(place, kafka))


def require_parameters(kind: Any, given: dict[str, Any], what: str) -> None:
    """Refuse options that a model has no use for."""
    known = list(signature(kind).parameters)
    for name in given:
        if name not in known:
            options = ", ".join(f"--{one.replace('_', '-')}" for one in known)
            raise Refusal(
                f"--{name.replace('_', '-')} is no option of {what}, which has {options}: "
                "leave it out"
            )


def _require_used(given: dict[str, Any], model: str, has: dict[str, Any] | None = None) -> None:
    """Refuse what a model has no use for beside what else is given, or what it `has` already."""
    all_ = {**(has or {}), **given}
    if model == "elastic-net" and all_.get("lr") == "auto" and "schedule" in given:
        raise Refusal(
            f"--schedule {given['schedule']} makes nothing of --lr auto, whose rates fall in a way "
            "of their own: leave it out, or give a number"
        )
    if model == "elastic-net" and "budget" in given and not _has_tables(all_):
        raise Refusal(
            f"--budget {given['budget']} makes nothing without --stamps explicit or --average: "
            "give one of them too"
        )
    if model != "softmax":
        return
    ball = all_.get("penalty") == "ball"
    if ball and "strength" in given:
        raise Refusal("--strength makes nothing of --penalty ball: leave it out")
    for name in () if ball else ("radius", "nonnegative"):
        if name in given:
            raise Refusal(
                f"--{name} makes nothing without --penalty ball: give that, or leave it out"
            )


def _task(source: str, loss: str | None) -> str:
    if loss is not None:
        return "regression" if loss in REGRESSION else "classification"
    if source.startswith("river:"):
        from river import datasets

        task = getattr(datasets, source.removeprefix("river:"))().task
        return "regression" if task == "Regression" else "classification"
    return "classification"


def _kind_of(learner: Any) -> tuple[str, str]:
    """The model and the task that make a learner of this kind; empty where none do."""
    of = type(learner).__name__
    found = ((name, one) for name, kinds in MODELS.items() for one in kinds if kinds[one] == of)
    return next(found, ("", ""))


def change(
    learner: Any, model: str | None, task: str | None, given: dict[str, Any], place: str, anew: str
) -> None:
    """Give what `place` holds the parameters that may change; refuse another kind of model."""
    name, one = _kind_of(learner)
    for option, asked, has in (("--model", model, name), ("--task", task, one)):
        if has and asked not in (None, has):
            raise Refusal(
                f"{option} {asked} does not fit {place}, which holds a model of the kind "
                f"{has}: leave {option} out, or {anew}"
            )
    require_parameters(type(learner), given, place)
    _require_used(given, name, vars(learner))
    for name, value in given.items():
        has = getattr(learner, name)
        if has == value:
            continue
        fixed = Refusal(
            f"--{name.replace('_', '-')} {value} cannot be given to {place}, which began with "
            f"{has}: leave it out, or {anew}"
        )
        if name not in learner._mutable_attributes:
            raise fixed
        try:
            learner.mutate({name: value})
        except ValueError as error:
            raise fixed if "clone the model" in str(error) else Refusal(str(error)) from None
