"""A model that goes over a stream: what is fed to a run is predicted, learnt and reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from streaml1.sources.source import Lost, SourceError
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.checkpoint.manager import Beside, Keeper
from streaml1.training.error_policy import Refusals
from streaml1.training.example_parts import chunk_of, parts_of
from streaml1.training.examples import Opened
from streaml1.training.model_adapter import (
    called,
    learner_of,
    learning_of,
    loss_of,
    places_of,
    prepare,
    telling_of,
)
from streaml1.training.observers import Out, Part
from streaml1.training.report import Line, Report, line_after

__all__ = ["Run", "Unfinished", "heeded"]


class Unfinished(SourceError):
    """What a run that was stopped has not done, as brokers were away; all else is done.

    Parameters
    ----------
    sentence, code
        What, and what to exit with.
    report
        Of the run.
    is_kept
        Whether there is a checkpoint of all that was learnt.
    """

    def __init__(self, sentence: str, code: int, report: Report, is_kept: bool) -> None:
        super().__init__(sentence)
        self.exit_code = code
        self.report = report
        self.is_kept = is_kept


def heeded(stop: Any, run: Run) -> Callable[[], bool]:
    """Have a run and its source end once `stop` says so: an event, a function or None; asks it."""
    asked: Callable[[], bool] = _never if stop is None else getattr(stop, "is_set", stop)
    if stop is not None and hasattr(run.source, "set_stop"):
        run.source.set_stop(asked)
    run.heed(asked)
    return asked


def _never() -> bool:
    return False


class Run:
    """One model over the blocks of one source, for as many passes as they are fed.

    Parameters
    ----------
    model
        What learns.
    opened
        What the blocks are of.
    refuse
        What is done with an example that is refused.
    every, limit
        After how many examples a line of the report comes (see `report.line_after`), and
        how many a pass may have.
    on_line
        Called with each line.
    store
        Where checkpoints are kept, and gone on from.
    outs
        Who hears of it. The run does not close them.
    beside
        What else checkpoints are to hold.
    learns
        Whether examples are learnt, and not only predicted.

    Raises
    ------
    CheckpointError
        Where the last checkpoint in `store` does not fit.
    """

    def __init__(
        self,
        model: Any,
        opened: Opened,
        refuse: Refusals,
        *,
        every: int | None = None,
        limit: int | None = None,
        on_line: Callable[[Line], object] | None = None,
        store: Checkpoints | None = None,
        outs: Sequence[Out] = (),
        beside: Beside | None = None,
        learns: bool = True,
    ) -> None:
        self.model = model
        self.learner = learner_of(model)
        self.source = opened
        self.store = store
        self.outs = list(outs)
        self._keeper = Keeper(store, opened, model, self.outs, beside)
        self._loss = loss_of(self.learner)
        known = len(self.learner.classes_met) if self._loss == "softmax" else 0
        title = f"{opened.name}: {called(model)}"
        self.report = Report(self._loss, title, getattr(opened, "d", None), known)
        self.report.skips = refuse.skip
        self._learns = learns
        self._learn, self._most = (
            learning_of(model, self._loss) if learns else (telling_of(model, self._loss), 2**62)
        )
        self._refuse, self._every, self._limit = refuse, every, limit
        self._on_line = on_line
        self._stopped: Callable[[], bool] = _never
        self._missed: list[SourceError] = []
        self._before = 0  # examples learnt before this pass
        self.turn = 0

    def heed(self, stopped: Callable[[], bool]) -> None:
        """Once `stopped` is true, wait for no broker for long, and save what can be saved."""
        self._stopped = stopped
        for out in self.outs:
            out.heed(stopped)

    def begin(self) -> None:
        """Compile what is to run, and go on from the last checkpoint, if there is one."""
        if self._learns:
            prepare(self.model)
        self.report.start()
        self.turn, learnt = self._keeper.begin(self.report)
        self._before = self.report.examples - learnt
        self._refuse.count = self.report.refused
        self.report.follow(self.learner)
        for out in self.outs:
            out.begin(self)

    def numbers(self) -> dict[str, float]:
        """What else there is to tell of the run, by name."""
        return {}

    @property
    def epoch(self) -> int | None:
        """How often a run has begun, or gone on, in the store of checkpoints; None without one."""
        return self._keeper.epoch

    @property
    def is_full(self) -> bool:
        """Whether this pass has had as many examples as it may have."""
        return self._room() == 0

    def _room(self) -> int:
        """How many examples may be learnt at once: up to the next line, the limit, and a look."""
        until_line = line_after(self.report.examples, self._every) - self.report.examples
        limit = self._limit
        # A run that goes on may have learnt more than its limit by now.
        until_end = self._most if limit is None else max(0, limit - self._learnt)
        return min(self._most, until_line, until_end, *(out.room() for out in self.outs))

    @property
    def _learnt(self) -> int:
        return self.report.examples - self._before

    def feed(self, block: Any) -> None:
        """Predict and learn the examples of a block, up to the limit."""
        with self._ending():
            self._keeper.moves()
            self._feed(block)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Where a stopped run misses its brokers the others get what is theirs; `finish` tells."""
        try:
            yield
        except SourceError as error:
            if not self._stopped() or isinstance(error, Lost):
                raise
            if str(error) not in map(str, self._missed):
                self._missed.append(error)

    def _feed(self, block: Any) -> None:
        chunk = chunk_of(block, self._loss, self.source.label)
        rows = 0
        for lo, rows, p in parts_of(chunk, self._learn, self._room, self._refuse):
            _, y, w = chunk.part(lo, rows)
            told = places_of(self.learner, y) if self._loss == "softmax" else y
            due = line_after(self.report.examples, self._every)
            self.report.add(p, told, w)
            self.report.refused = self._refuse.count
            for out in self.outs:
                out.predicted(Part(block, lo, rows, y, w, p))
            if self.report.examples == due:
                self._tell(self.report.line(self.learner))
        self.report.refused = self._refuse.count
        if self._keeper.keeps:
            after = block.after(rows if self.is_full else len(block))
            self._keeper.moved(after, self.turn, self._learnt)
        for out in self.outs:
            out.fed()

    def feed_all(self, blocks: Iterable[Any], stopped: Callable[[], bool], last: bool) -> None:
        """One pass, or what is left of it; which may be the last."""
        if self.is_full:  # it was before the run went on
            return
        with self._ending():
            for block in blocks:
                self.feed(block)
                if stopped() or self.is_full:
                    # While it is open, for it has not ended.
                    if hasattr(self.source, "require_same"):
                        self.source.require_same()
                    return
                del block  # so that its memory may be taken for the next
            if not stopped():  # else the source may have ended before its end
                self.end_pass(last)

    def end_pass(self, last: bool) -> None:
        """The source has been read to its end; a last pass may go on some day."""
        self.report.refused = self._refuse.count
        self._keeper.ended(self.turn, self._learnt, last)

    def next_pass(self) -> None:
        """Begin another pass."""
        self.turn += 1
        self._before = self.report.examples
        for out in self.outs:
            out.next_pass()

    def finish(self) -> Report:
        """Save what has not been saved, and write the last line.

        Raises
        ------
        Unfinished
            After all else is done, where brokers have not got what was theirs before a stop.
        """
        with self._ending():
            self._keeper.finish()  # what was refused behind its position will be so again
        self.report.refused = self._refuse.count
        for out in self.outs:
            with self._ending():
                out.finish()
        if self.report.finish(self.learner):
            self._tell(self.report.lines[-1])
        self._refuse.summarise()
        if self._missed:
            raise self._unfinished()
        return self.report

    def _unfinished(self) -> Unfinished:
        sentences = [str(error) for error in self._missed]
        if self.store is not None and self._keeper.is_behind:
            sentences.append(f"{self.store.folder} keeps the checkpoint before")
        code, kept = self._missed[0].exit_code, self.store is not None
        return Unfinished(
            "; ".join(sentences), code, self.report, kept and not self._keeper.is_behind
        )

    def _tell(self, line: Line) -> None:
        if self._on_line is not None:
            self._on_line(line)
