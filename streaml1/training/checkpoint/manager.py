"""When a run writes checkpoints, and how it resumes from one."""

from __future__ import annotations

import logging
import struct
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from streaml1.core.logging import event
from streaml1.core.named_options import by_caller
from streaml1.core.rows import shown
from streaml1.core.types import Model, SourcePosition
from streaml1.models.pipelines import adopt_state, have_same_parameters, is_pipeline
from streaml1.sources.source import GROWING
from streaml1.training.checkpoint import Checkpoint, CheckpointError, Checkpoints, require_model
from streaml1.training.checkpoint.ownership import Unreadable
from streaml1.training.observers import Observers, SavedCheckpoint
from streaml1.training.report import Report

__all__ = ["CheckpointManager", "ExtraState", "Progress"]

logger = logging.getLogger("streaml1")

_FOREIGN: tuple[type[Exception], ...] = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError),
    *(TypeError, ValueError, struct.error),
)
"""What restoring an altered checkpoint raises."""


class ExtraState(Protocol):
    """Further state of a run that its checkpoints hold."""

    def dump(self) -> Any:
        """Return what `resume` needs, as JSON can hold it; everything else is on the disk."""

    def resume(self, state: Any) -> None:
        """Restore the state of a checkpoint."""

    def saved(self) -> None:
        """Handle that the checkpoint of the last `dump` is on the disk."""


class Progress(NamedTuple):
    """How far a run has come.

    Parameters
    ----------
    position
        Position of the source after everything that was learnt; None at the start of a pass.
    pass_index
        Index of the current pass, from 0.
    learnt
        Examples learnt in this pass.
    """

    position: SourcePosition | None
    pass_index: int
    learnt: int


class CheckpointManager:
    """Checkpoints of one run over a source; a no-op without a store.

    Invariant: a checkpoint holds a model and the position that belongs to it. Between `moves` and
    `moved` the model is ahead of the last known position, and nothing is saved.

    Parameters
    ----------
    store
        Directory of the checkpoints; None disables them.
    source
        Source of the run. It must be resumable.
    model
        Model of the run. It takes over the state of the latest checkpoint, unless it is the model
        of that checkpoint already.
    observers
        They are flushed before a checkpoint is committed, and notified afterwards.
    extra
        Further state to save; None if there is none.

    Raises
    ------
    CheckpointError
        If model, source and latest checkpoint do not fit each other.
    """

    def __init__(
        self,
        store: Checkpoints | None,
        source: Any,
        model: Model,
        observers: Observers | None = None,
        extra: ExtraState | None = None,
    ) -> None:
        self._store = store
        self._extra = extra
        self._model_ahead = False
        self._observers = Observers() if observers is None else observers
        if store is None:
            return
        require_model(model)
        if not hasattr(source, "begin"):
            raise CheckpointError(
                f"checkpoints need a source that can resume, got {source.name}; give the source "
                "by its name"
            )
        self._model, self._source = model, source
        self._found = store.latest()
        self._unsaved = False
        self._position_in_writing: Any = None
        if self._found is not None and self._found.model is not model:
            if self._found.is_blank and not have_same_parameters(model, self._found.model):
                _warn_restarted(store.directory)
                self._found = None
            else:
                _copy_state(model, self._found.model, store.directory)

    @property
    def enabled(self) -> bool:
        """Whether there is a store."""
        return self._store is not None

    @property
    def epoch(self) -> int | None:
        """Number of times a run has started in the store; None without one."""
        return None if self._store is None else self._store.epoch

    @property
    def is_behind(self) -> bool:
        """Whether there is a store that lacks something that was learnt."""
        return self._store is not None and (self._model_ahead or self._unsaved)

    def begin(self, report: Report) -> tuple[int, int]:
        """Restore source and report from the latest checkpoint, if there is one.

        Returns
        -------
        pass_index, learnt
            Index of the pass to continue, and the examples already learnt in it.

        Raises
        ------
        CheckpointError
            If the checkpoint is of another source or another kind of run.
        """
        if self._store is None:
            return 0, 0
        self._report = report
        self._identity = self._source.identity()
        found = self._found
        if found is not None and found.is_blank and not self._fits(found, report):
            _warn_restarted(self._store.directory)
            found = None
        if found is None:
            self._progress = Progress(self._source.begin(None), 0, 0)
            if self._progress.position is not None:
                # "latest" of a topic moves: pin it, or the next run would start elsewhere.
                self._save()
            return 0, 0
        try:
            self._require_match(self._store.directory, found, report)
            report.load_state_dict(*found.report)
            if self._extra is not None:
                self._extra.resume(found.extra)
            self._source.begin(found.position)
        except _FOREIGN as error:  # a forged checkpoint has a valid checksum
            if hasattr(error, "exit_code"):
                raise
            raise Unreadable(
                f"the latest checkpoint of {self._store.directory} was not written by streaml1; "
                "use another directory"
            ) from None
        self._progress = Progress(found.position, found.pass_index, found.learnt)
        return found.pass_index, found.learnt

    def _fits(self, found: Checkpoint, report: Report) -> bool:
        """Return whether a checkpoint is of this source and this kind of run."""
        assert self._store is not None
        try:
            self._require_match(self._store.directory, found, report)
        except CheckpointError:
            return False
        return True

    def _require_match(self, directory: Path, found: Checkpoint, report: Report) -> None:
        for name in {**found.identity, **self._identity}:
            saved, current = found.identity.get(name), self._identity.get(name)
            if name == GROWING:
                self._require_same_files(directory, saved or [], current or [])
            elif current != saved:
                raise CheckpointError(
                    f"{directory} belongs to another source: its {name} is {shown(saved)}, that of "
                    f"{self._source.name} is {shown(current)}; use another directory"
                )
        if found.report[0]["loss"] != report.loss:
            raise CheckpointError(
                f"{directory} belongs to a run with loss {shown(found.report[0]['loss'])}, got "
                f"{report.loss}; use another directory"
            )
        if found.extra is not None and self._extra is None:
            raise CheckpointError(
                f"{directory} belongs to a run with delayed labels; give "
                f"{by_caller('--label-within', 'label_within')}"
            )
        if found.extra is None and self._extra is not None:
            raise CheckpointError(
                f"{directory} belongs to a run without delayed labels; leave "
                f"{by_caller('--label-within', 'label_within')} out"
            )

    def _require_same_files(self, directory: Path, saved: list[str], current: list[str]) -> None:
        """Reject other files than those of the checkpoint; further ones may follow them."""
        n = len(saved)
        if saved and saved == current[:n]:
            return
        name = self._source.name
        if not saved or not current:
            one, other = ("one file", "several") if current else ("several files", "one")
            reason = f"it is of {one}, and {name} is {other}"
        else:
            same = takewhile(lambda pair: pair[0] == pair[1], zip(saved, current, strict=False))
            k = len(list(same))
            now = repr(current[k]) if k < len(current) else "missing"
            reason = f"its file {k + 1:,} is {saved[k]!r}, that of {name} is {now}"
        raise CheckpointError(
            f"{directory} belongs to other files: {reason}; only files after the last one may be "
            "added, so use another directory"
        )

    def moves(self) -> None:
        """Announce that the model is about to learn: it is ahead of the position until `moved`."""
        self._model_ahead = True

    def moved(self, position: SourcePosition | None, pass_index: int, learnt: int) -> None:
        """Record that everything up to `position` was learnt, and save it if a save is due."""
        self._model_ahead = False
        progress = Progress(position, pass_index, learnt)
        if self._store is None:
            return
        if self._progress != progress:
            self._progress = progress
            self._unsaved = True
        if self._store.settled():
            self._on_saved(self._position_in_writing)
        if self._unsaved and self._store.is_due and not self._observers.defers_checkpoint():
            self._save(in_background=self._store.seconds > 0)

    def ended(self, pass_index: int, learnt: int, last: bool) -> None:
        """Record the end of a pass. A later run may extend a last pass, if the source grows."""
        if self._store is None:
            return
        if last:
            position = self._source.position()
            self.moved(
                self._progress.position if position is None else position, pass_index, learnt
            )
        else:
            self.moved(None, pass_index + 1, 0)

    def finish(self) -> None:
        """Save what is not saved yet."""
        if self._store is None:
            return
        if self._store.settled(wait=True):
            self._on_saved(self._position_in_writing)
        if self._model_ahead:  # the run ended within a block: no position belongs to the model
            return
        if self._unsaved:
            self._save()
        if hasattr(self._source, "on_saved"):
            self._source.on_saved(self._progress.position, True)

    def _save(self, in_background: bool = False) -> None:
        """Write a checkpoint: now, or in a thread while learning continues."""
        assert self._store is not None
        position, pass_index, learnt = self._progress
        if hasattr(self._source, "require_same"):
            self._source.require_same()
        self._observers.flush()
        extra = None if self._extra is None else self._extra.dump()
        save = self._store.save_in_background if in_background else self._store.save
        save(self._model, self._report, self._identity, position, pass_index, learnt, extra)
        self._unsaved = False
        if in_background:
            self._position_in_writing = position
        else:
            self._on_saved(position)

    def _on_saved(self, position: SourcePosition | None) -> None:
        """Handle that the checkpoint of a position is on the disk."""
        assert self._store is not None
        if self._extra is not None:
            self._extra.saved()
        self._observers.on_checkpoint(
            SavedCheckpoint(self._store.directory, self._store.size, self._report.examples)
        )
        if hasattr(self._source, "on_saved"):
            self._source.on_saved(position, False)


def _warn_restarted(directory: Path) -> None:
    logger.warning(
        "%s is from a run with other options, which learnt nothing: starting over", directory,
        extra=event("restarted"),
    )  # fmt: skip


def _copy_state(model: Model, saved: Any, directory: Path) -> None:
    """Give a model the state of a saved one with the same parameters."""
    if not have_same_parameters(model, saved):
        held, given = (str(one) if is_pipeline(one) else repr(one) for one in (saved, model))
        raise CheckpointError(
            f"{directory} holds {held}, not {given}; resume with a model of these parameters, or "
            "use another directory"
        )
    adopt_state(model, saved)
