"""The checkpoints of one run: when one is due, and how a run goes on from one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from streaml1.training.checkpoint import CheckpointError, Checkpoints, require_model
from streaml1.training.observers import Out
from streaml1.training.report import Report

__all__ = ["Beside", "Keeper"]


class Beside(Protocol):
    """Something of a run that goes on too, and is in its checkpoints."""

    def dump(self) -> Any:
        """What `resume` goes on from, as JSON has it; all that it leaves out is on the disk."""

    def resume(self, state: Any) -> None:
        """Go on where a checkpoint was."""

    def saved(self) -> None:
        """The checkpoint of the last `dump` was written."""


class Keeper:
    """The checkpoints of one run over a source; without a store it keeps none.

    Parameters
    ----------
    store
        Where to; None: nowhere.
    source
        What is read: it must be resumable.
    model
        What learns. It takes the state of the last checkpoint, if it is not from there already.
    outs
        Who must have what they heard in safety before a checkpoint passes it.
    beside
        What else goes on; None: nothing.

    Raises
    ------
    CheckpointError
        Where the model, the source and the last checkpoint do not fit.
    """

    def __init__(
        self,
        store: Checkpoints | None,
        source: Any,
        model: Any,
        outs: Sequence[Out] = (),
        beside: Beside | None = None,
    ) -> None:
        self._store = store
        self._beside = beside
        self._ahead = False
        self._outs = outs
        if store is None:
            return
        require_model(model)
        if not hasattr(source, "begin"):
            raise CheckpointError(
                f"{source.name} cannot be gone on with: checkpoints need a source by its name"
            )
        self._model, self._source = model, source
        self._found = store.latest()
        self._moved = False
        self._aside: Any = None  # the position of what is being written
        if self._found is not None and self._found.model is not model:
            _adopt(model, self._found.model, store.folder)

    @property
    def keeps(self) -> bool:
        """Whether there is a store."""
        return self._store is not None

    @property
    def epoch(self) -> int | None:
        """How often a run has begun, or gone on, in the store."""
        return None if self._store is None else self._store.epoch

    def begin(self, report: Report) -> tuple[int, int]:
        """Have source and report go on; which pass it is, and how much of it has been learnt."""
        if self._store is None:
            return 0, 0
        self._report = report
        self._identity = self._source.identity()
        found = self._found
        if found is None:
            self._state = self._source.begin(None), 0, 0
            if self._state[0] is not None:
                self._save()  # so that the next run does not begin at another `latest`
            return 0, 0
        for name in {**found.identity, **self._identity}:
            value, now = found.identity.get(name), self._identity.get(name)
            if now != value:
                raise CheckpointError(
                    f"{self._store.folder} is of another source: its {name} is {value!r}, that of "
                    f"{self._source.name} {now!r}; take another folder"
                )
        if found.report[0]["loss"] != report.loss:
            raise CheckpointError(
                f"{self._store.folder} is of a run with the loss {found.report[0]['loss']}"
            )
        if (found.extra is None) != (self._beside is None):
            without, remedy = ("out", "leave out") if found.extra is None else ("", "give")
            raise CheckpointError(
                f"{self._store.folder} is of a run with{without} late labels: {remedy} the time "
                "limit for labels"
            )
        report.load_state_dict(*found.report)
        if self._beside is not None:
            self._beside.resume(found.extra)
        self._source.begin(found.position)
        self._state = found.position, found.turn, found.learnt
        return found.turn, found.learnt

    @property
    def is_behind(self) -> bool:
        """Whether there is a store, and something was learnt that is in no checkpoint."""
        return self._store is not None and (self._ahead or self._moved)

    def moves(self) -> None:
        """Something is about to be learnt: the model is ahead of the position until `moved`."""
        self._ahead = True

    def moved(self, position: Any, turn: int, learnt: int) -> None:
        """Everything up to `position` has been learnt; save it if it is time."""
        self._ahead = False
        if self._state != (position, turn, learnt):
            self._state = position, turn, learnt
            self._moved = True
        if self._store is None:
            return
        if self._store.settled():
            self._kept(self._aside)
        if self._moved and self._store.is_due and not any(out.holds() for out in self._outs):
            self._save(aside=self._store.seconds > 0)

    def ended(self, turn: int, learnt: int, last: bool) -> None:
        """A pass has been read to its end; a last one may go on some day."""
        if self._store is None:
            return
        if last:
            position = self._source.position()
            self.moved(self._state[0] if position is None else position, turn, learnt)
        else:
            self.moved(None, turn + 1, 0)

    def finish(self) -> None:
        """Save what has not been saved."""
        if self._store is None:
            return
        if self._store.settled(wait=True):
            self._kept(self._aside)
        if self._ahead:  # what was learnt ended in the middle: there is no position to it
            return
        if self._moved:
            self._save()
        if hasattr(self._source, "kept"):
            self._source.kept(self._state[0], True)

    def _save(self, aside: bool = False) -> None:
        """Have a checkpoint written: now, or beside what is learnt next."""
        assert self._store is not None
        position, turn, learnt = self._state
        if hasattr(self._source, "require_same"):
            self._source.require_same()
        for out in self._outs:
            out.flush()
        extra = None if self._beside is None else self._beside.dump()
        save = self._store.save_aside if aside else self._store.save
        save(self._model, self._report, self._identity, position, turn, learnt, extra)
        self._moved = False
        if aside:
            self._aside = position
        else:
            self._kept(position)

    def _kept(self, position: Any) -> None:
        """A checkpoint of a position is on the disk."""
        if self._beside is not None:
            self._beside.saved()
        for out in self._outs:
            out.saved()
        if hasattr(self._source, "kept"):
            self._source.kept(position, False)


def _adopt(model: Any, saved: Any, folder: Path) -> None:
    """Give a model the state of one that was saved."""
    if repr(model) != repr(saved):
        raise CheckpointError(f"{folder} holds {saved!r}: go on with a model like it")
    vars(model).update(vars(saved))
