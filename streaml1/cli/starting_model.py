"""The model that `streaml1 learn` starts with: a new one, or one to resume from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from streaml1.cli.model_factory import change, new_learner
from streaml1.cli.program import CommandError

if TYPE_CHECKING:
    from streaml1.training.checkpoint import Checkpoints

__all__ = ["ModelChoice", "Resumed", "resumed"]


class Resumed(NamedTuple):
    """A model to resume from, its place, and how to start without it."""

    model: Any
    place: str
    remedy: str
    is_blank: bool = False
    """Whether the run of its checkpoint has learnt nothing."""


def resumed(
    store: Checkpoints | None, load: str | Path | None, first: Callable[[], Any] | None
) -> Resumed | None:
    """Return the model to resume from; None if there is none.

    Parameters
    ----------
    store
        The checkpoints, whose latest one goes before --load.
    load, first
        The option --load, and what loads its model; None without it.
    """
    if store is not None and (found := store.latest()) is not None:
        place = f"the checkpoint in {store.directory}"
        return Resumed(found.model, place, "use another directory", found.is_blank)
    if first is not None:
        return Resumed(first(), str(load), "start a new model without --load")
    return None


class ModelChoice(NamedTuple):
    """The options of the command that choose the model.

    Parameters
    ----------
    source
        The argument SOURCE: a data set of river determines the task.
    model, task
        The options --model and --task.
    given
        The hyperparameters that were given.
    """

    source: str | list[str]
    model: str | None
    task: str | None
    given: dict[str, Any]

    def new(self) -> Any:
        """Return a new model; reject options that contradict each other or the source."""
        return new_learner(self.source, self.model, self.task, self.given)

    def starting(self, found: Resumed | None) -> Any:
        """Return the model of `found`, changed by the options, or a new one."""
        from streaml1.models.pipelines import learner_of

        if found is None:
            return self.new()
        learner, place, remedy, is_blank = found
        try:
            change(learner_of(learner), self.model, self.task, self.given, place, remedy)
        except CommandError:
            if is_blank:
                return self.new()
            raise
        return learner
