"""The model that a run learns with: a new one, or a loaded one with changed parameters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaml1.cli.messages import logged
from streaml1.cli.program import CommandError
from streaml1.models.parameter_checks import AUTO
from streaml1.models.parameters import parameters_of
from streaml1.models.registry import LEARNERS
from streaml1.optim.tasks import PARAMETERS, REGRESSION

if TYPE_CHECKING:
    from streaml1.models.base import OnlineModel

__all__ = ["change", "loaded", "new_learner", "published", "without_steps"]

DEFAULT = "elastic-net"
RATE_WITH_SCHEDULE = 0.1  # a schedule applies to numbers only


def new_learner(
    source: str | list[str], model: str | None, task: str | None, given: dict[str, Any]
) -> Any:
    """Return a new model.

    Parameters
    ----------
    source
        The argument SOURCE: a data set of river determines the task.
    model, task
        The options --model and --task.
    given
        The hyperparameters that were given.
    """
    import streaml1

    task = task or _task(source, given.get("loss"))
    model = model or DEFAULT
    classes = LEARNERS[model].classes
    if task not in classes:
        raise CommandError(
            f"{model} supports {', '.join(classes)}, not {task}; choose another --model"
        )
    kind = getattr(streaml1, classes[task])
    _require_parameters(kind, given, model)
    _require_effect(given, model)
    lr = parameters_of(kind).get("lr")
    if lr is not None and lr.default == AUTO and "schedule" in given and "lr" not in given:
        given = {**given, "lr": RATE_WITH_SCHEDULE}
    try:
        return kind(**given)
    except ValueError as error:
        raise CommandError(str(error)) from None


def _has_step_tables(params: dict[str, Any]) -> bool:
    """Return whether an elastic net with these parameters keeps tables of its steps."""
    return params.get("stamps") == "explicit" or bool(params.get("average"))


def published(
    path: str | Path, kafka: dict[str, Any] | None = None, source: Sequence[str] = ()
) -> Any:
    """Return a saved model that only predicts, as it is published.

    Parameters
    ----------
    path, kafka
        As for `loaded`.
    source
        The argument SOURCE after MODEL. The error says so if it is the model.
    """
    from streaml1.models.pipelines import learner_of
    from streaml1.models.serialization import ModelFileError, is_model_file
    from streaml1.optim.update_rule import publish

    try:
        model = loaded(path, kafka)
    except ModelFileError as error:
        others = [source] if isinstance(source, str) else source
        if (name := next(filter(is_model_file, others), None)) is None:
            raise
        raise ModelFileError(f"{error}; MODEL comes before SOURCE, and {name} is one") from None
    publish(learner_of(model)._state.rule)
    return model


def without_steps(model: Any, path: str | Path) -> Any:
    """Return a loaded model; raise CommandError if it is a pipeline."""
    from streaml1.models.pipelines import is_pipeline

    if is_pipeline(model):
        raise CommandError(
            f"{path} holds a river pipeline, which only learn, predict, evaluate and show support; "
            "its last step can be saved on its own: streaml1.load(...)[-1].save(...)"
        )
    return model


def loaded(path: str | Path, kafka: dict[str, Any] | None = None) -> Any:
    """Load a saved model, to continue its training.

    Parameters
    ----------
    path
        A file or a checkpoint directory, or the address of a Kafka topic: its latest model.
    kafka
        The connection options.
    """
    import streaml1

    if not isinstance(path, str):
        with logged():  # of a damaged checkpoint
            return streaml1.load(path)
    from streaml1.sources.kafka.topic import Topic
    from streaml1.training.model_registry.reader import read

    return read(Topic(path, kafka))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _require_parameters(kind: type, given: dict[str, Any], holder: str) -> None:
    """Reject options that a learner does not have; errors call the learner `holder`."""
    known = parameters_of(kind)
    for name in given:
        if name not in known:
            options = ", ".join(map(_option, known))
            raise CommandError(
                f"{_option(name)} is not an option of {holder}; its options are {options}"
            )


def _require_effect(
    given: dict[str, Any], model: str, current: dict[str, Any] | None = None
) -> None:
    """Reject options without effect, given the other options and the `current` parameters."""
    params = {**(current or {}), **given}
    for loss, name in PARAMETERS.items():
        if name in given and params.get("loss") != loss:
            raise CommandError(f"{_option(name)} requires --loss {loss}")
    if params.get("lr") == AUTO and "schedule" in given:
        raise CommandError(
            "--schedule cannot be combined with --lr auto; omit it or use a number for --lr"
        )
    if model == "elastic-net" and "budget" in given and not _has_step_tables(params):
        raise CommandError("--budget requires --stamps explicit or --average")
    if model != "softmax":
        return
    ball = params.get("penalty") == "ball"
    if ball and "strength" in given:
        raise CommandError("--strength cannot be combined with --penalty ball")
    for name in () if ball else ("radius", "nonnegative"):
        if name in given:
            raise CommandError(f"--{name} requires --penalty ball")


def _task(source: str | list[str], loss: str | None) -> str:
    """Return the task that the loss or the data set implies."""
    if loss is not None:
        return "regression" if loss in REGRESSION else "classification"
    if isinstance(source, str) and source.startswith("river:"):
        from river import datasets

        task = getattr(datasets, source.removeprefix("river:"))().task
        return "regression" if task == "Regression" else "classification"
    return "classification"


def _name_and_task(model: OnlineModel) -> tuple[str, str]:
    """Return the name and the task of a model's learner; empty strings if it has none."""
    kind = type(model).__name__
    for learner in LEARNERS.values():
        for task, name in learner.classes.items():
            if name == kind:
                return learner.name, task
    return "", ""


def change(
    learner: OnlineModel,
    model: str | None,
    task: str | None,
    given: dict[str, Any],
    place: str,
    remedy: str,
) -> None:
    """Set the given parameters of a loaded model, or reject what it cannot change.

    Parameters
    ----------
    learner
        The loaded model, changed in place.
    model, task
        The options --model and --task.
    given
        The hyperparameters that were given.
    place
        Where the model comes from.
    remedy
        How to start with a new model instead.
    """
    current_model, current_task = _name_and_task(learner)
    for option, wanted, current in (
        ("--model", model, current_model),
        ("--task", task, current_task),
    ):
        if current and wanted not in (None, current):
            raise CommandError(
                f"{option} {wanted} does not match {place}, which holds {current}: omit {option} "
                f"or {remedy}"
            )
    _require_parameters(type(learner), given, place)
    _require_effect(given, current_model, vars(learner))
    for name, value in given.items():
        current = getattr(learner, name)
        if current == value:
            continue
        fixed = CommandError(
            f"{_option(name)} cannot change from {current} to {value} for {place}: omit it or "
            f"{remedy}"
        )
        if name not in learner._mutable_attributes:
            raise fixed
        try:
            learner.mutate({name: value})
        except ValueError as error:
            raise fixed if "clone the model" in str(error) else CommandError(str(error)) from None
