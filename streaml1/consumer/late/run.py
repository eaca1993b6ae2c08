"""A run over events: examples that wait for their labels, labels that find their examples."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np

from streaml1.checkpoint import Checkpoints
from streaml1.consumer.examples import Opened
from streaml1.consumer.late.bodies import example_body, kept_example, kept_label, label_body
from streaml1.consumer.late.pending import (
    ANSWER,
    CORRECTION,
    NEGATIVES,
    TOGETHER,
    Gathered,
    Step,
    chunk_of_steps,
)
from streaml1.consumer.late.settings import LateLabels, require_late
from streaml1.consumer.late.table import ASKED, EARLY
from streaml1.consumer.late.waiting import Waiting
from streaml1.consumer.learning import learner_of, loss_of, places_of, predicting_of, warm_up
from streaml1.consumer.outs import Part
from streaml1.consumer.parts import Chunk, parts_of
from streaml1.consumer.refusals import LOGGED, Refusals
from streaml1.consumer.run import Run
from streaml1.report import REGRESSION
from streaml1.streams import binary_label, number_label
from streaml1.streams.events import Event

__all__ = ["FOLDER", "LateRun"]

logger = logging.getLogger("streaml1")

FOLDER = "waiting"
"""Of the log, in that of the checkpoints."""


class LateRun(Run):
    """One model over events: each example is predicted as it comes, and learnt with its label.

    Parameters
    ----------
    model, opened, refuse
        As for `Run`; the blocks are of events.
    late
        How labels are waited for.
    store
        Where checkpoints are kept; the log of what waits is in a folder beside.
    options
        As for `Run`.
    """

    def __init__(
        self,
        model: Any,
        opened: Opened,
        refuse: Refusals,
        late: LateLabels,
        *,
        store: Checkpoints | None = None,
        **options: Any,
    ) -> None:
        loss = loss_of(learner_of(model))
        require_late(late, model)
        self._late = late
        self.waiting = Waiting(late.within, scalar=loss != "softmax")
        super().__init__(model, opened, refuse, store=store, beside=self.waiting, **options)
        if store is not None:
            self.waiting.keep(store.folder / FOLDER, store.epoch, store.keep)
        self._predict = predicting_of(model, loss)
        self._asks: list[tuple[int, int, Event]] = []  # row and slot
        self._steps: list[Step] = []
        self._named = 0

    def begin(self) -> None:
        """Compile what is to run, and go on from the last checkpoint, if there is one."""
        warm_up(self.model)
        super().begin()
        self.report.numbers = self.numbers()

    def numbers(self) -> dict[str, float]:
        """How many wait, and what has become of the others."""
        return {**super().numbers(), **self.waiting.numbers()}

    def feed(self, block: Any) -> None:
        """Predict and learn what the events of a block ask for, up to the limit."""
        self._block = block
        rows = len(block)
        for row, event in enumerate(block.x):
            if not isinstance(event, Event):
                raise TypeError(f"{block.place(row)} is no event: late labels need JSON lines")
            if not (self._may_learn() and self._take(row, event)):
                rows = row
                break
        else:
            self._give_up()
        self._flush()
        self.waiting.clean()
        self.report.refused = self._refuse.count
        self.report.numbers = self.numbers()
        if self._keeper.keeps:
            self._keeper.moved(block.after(rows), self.turn, self._learnt)

    def finish(self) -> Any:
        """Save what has not been saved, write the last line, and close the log."""
        try:
            return super().finish()
        finally:
            self.waiting.close()

    # One event. Each of these returns False where the limit ends the run before the event is done
    # with; it is then taken again when the run goes on, and finds what has been done.

    def _take(self, row: int, event: Event) -> bool:
        if not self._give_up():
            return False
        origin = self._block.origin(row)
        time = event.time if origin is None else origin.time / 1000.0 if origin.time > 0 else None
        y = None
        if event.y is not None:
            try:
                y = self._label(event.y)
            except ValueError as error:
                reason, number = str(error), self._block.lines[row]
                self._flush()
                self._refuse(self._block.place(row), reason, number, origin)
                self.waiting.clock.tell(time)
                return True
        if event.x is None:
            done = self._answered(row, event, y, time)
        else:
            done = self._asked(row, event, y, time)
        if done:
            self.waiting.clock.tell(time)
        return done

    def _label(self, y: Any) -> Any:
        if self._loss == "softmax":
            return self.source.label(y)
        return number_label(y) if self._loss in REGRESSION else binary_label(y)

    def _asked(self, row: int, event: Event, y: Any, time: float | None) -> bool:
        """Features have come, perhaps with their label."""
        waiting, table = self.waiting, self.waiting.table
        slot = -1 if event.id is None else self._find(event.id)
        w = event.w
        if slot >= 0 and table.kind[slot] != EARLY:
            if y is not None:
                return self._answered(row, event, y, time)
            self._duplicate(row, event, "is asked again")
            return True
        if slot >= 0:
            if not self._may_learn():
                return False
            if y is not None:
                self._duplicate(row, event, "has had a label before")
            elif waiting.in_time(slot, time):
                y, own = kept_label(table.body[slot])
                w = w if own is None else own
                waiting.counts["asked"] += 1
                waiting.counts["answered"] += 1
            else:
                waiting.counts["orphans"] += 1
            waiting.remove(slot)
        if y is None:
            return self._ask(row, event, time)
        return self._learn_now(TOGETHER, event.x, y, w, None, row)

    def _ask(self, row: int, event: Event, time: float | None) -> bool:
        if not self._make_room():
            return False
        if self._steps:
            self._flush()
        assert event.id is not None
        body = example_body(self._block.place(row), event)
        self._asks.append((row, self.waiting.add(event.id, ASKED, time, body), event))
        if not _is_plain(event.x):  # it may be refused, and then it takes no room
            self._flush()
        return True

    def _answered(self, row: int, event: Event, y: Any, time: float | None) -> bool:
        """A label has come."""
        waiting, table = self.waiting, self.waiting.table
        assert event.id is not None
        slot = self._find(event.id)
        if slot < 0:
            if not self._make_room():
                return False
            waiting.settle(waiting.add(event.id, EARLY, time, label_body(y, event)), None)
            return True
        if table.kind[slot] == EARLY:
            self._duplicate(row, event, "has had a label before")
            return True
        if not waiting.in_time(slot, time):
            if table.kind[slot] == ASKED:
                if not self._give_up_one(slot, "expired"):
                    return False
                if self._late.unanswered == "negative":
                    return self._answered(row, event, y, time)
            waiting.counts["orphans"] += 1
            return True
        if not self._may_learn():
            return False
        place, x, w = kept_example(table.body[slot])
        w = w if event.w is None else event.w
        p = table.p[slot]
        if table.kind[slot] == ASKED:
            waiting.counts["answered"] += 1
            waiting.remove(slot)
            return self._learn_now(ANSWER, x, y, w, p, row)
        number, before = table.number[slot], table.weight[slot]
        waiting.remove(slot)
        if not y:
            waiting.counts["confirmed"] += 1
            return True
        waiting.counts["corrected"] += 1
        return self._learn_now(CORRECTION, x, y, w, p, row, number=number, before=before)

    def _learn_now(
        self, how: str, x: Any, y: Any, w: float | None, p: Any, row: int, **more: Any
    ) -> bool:
        """Have a step taken, if there is one to be had before the limit."""
        if not self._may_learn():
            return False
        if self._asks:
            self._flush()
        place = more.pop("place", "")
        self._steps.append(Step(how, x, y, 1.0 if w is None else w, p, row, place, **more))
        return True

    def _duplicate(self, row: int, event: Event, what: str) -> None:
        self.waiting.counts["duplicates"] += 1
        self._named += 1
        if self._named <= LOGGED:
            logger.warning("%s: %r %s: left out", self._block.place(row), event.id, what)

    # What is not waited for any more

    def _give_up(self) -> bool:
        """Give up all whose time is over."""
        waiting = self.waiting
        while (slot := waiting.overdue(negative=True)) >= 0:
            if self._is_settled(slot):
                waiting.remove(slot)
        while (slot := waiting.overdue(negative=False)) >= 0:
            if self._is_settled(slot) and not self._give_up_one(slot, "expired"):
                return False
        return True

    def _make_room(self) -> bool:
        """Have room for one more: corrections are given up first, then the oldest."""
        waiting = self.waiting
        while len(waiting) >= self._late.most:
            slot = waiting.table.first(negative=True)
            if slot >= 0:
                if self._is_settled(slot):
                    waiting.remove(slot)
                continue
            slot = waiting.table.first(negative=False)
            if self._is_settled(slot) and not self._give_up_one(slot, "pushed_out"):
                return False
        return True

    def _give_up_one(self, slot: int, why: str) -> bool:
        waiting, table = self.waiting, self.waiting.table
        if table.kind[slot] == EARLY:
            waiting.counts["orphans"] += 1
            waiting.remove(slot)
            return True
        if self._late.unanswered == "drop":
            waiting.counts[why] += 1
            waiting.remove(slot)
            return True
        if not self._may_learn():
            return False
        place, x, w = kept_example(table.body[slot])
        p, was = table.p[slot], table.seq[slot]
        waiting.counts[why] += 1
        if why == "expired":
            waiting.turn(slot)
        else:
            waiting.remove(slot)
            slot = -1
        return self._learn_now(NEGATIVES, x, False, w, p, -1, place=place, slot=slot, was=was)

    # Many at once: all of a kind that come one after the other

    def _find(self, id: Any) -> int:
        slot = self.waiting.table.find(id)
        if slot >= 0 and not self._is_settled(slot):
            slot = self.waiting.table.find(id)  # it may have been refused
        return slot

    def _is_settled(self, slot: int) -> bool:
        """Whether all is known of what waits; if not it is found out, and may be gone then."""
        if self.waiting.is_settled(slot):
            return True
        self._flush()
        return False

    def _may_learn(self) -> bool:
        """Whether the limit has room for one more."""
        if len(self._steps) < self._room():
            return True
        self._flush()
        return self._room() > 0

    def _flush(self) -> None:
        if self._asks:
            self._flush_asks()
        if self._steps:
            self._flush_steps()

    def _flush_asks(self) -> None:
        asks, self._asks = self._asks, []
        gathered = Gathered(self._block, [row for row, _, _ in asks])
        chunk = Chunk([event.x for _, _, event in asks], None, None, [], gathered)
        kept = [False] * len(asks)

        def predict(x: Any, y: Any, w: Any) -> Any:
            return self._predict(x)

        for lo, hi, p in parts_of(chunk, predict, lambda: len(asks), self._refuse):
            for number, one in enumerate(_plain(p), start=lo):
                self.waiting.settle(asks[number][1], one)
                kept[number] = True
            self.waiting.counts["asked"] += hi - lo
            for first, last in gathered.runs(lo, hi):
                row = asks[first][0]
                part = Part(self._block, row, row + last - first, None, None,
                            p[first - lo : last - lo])  # fmt: skip
                for out in self._outs:
                    out.predicted(part)
        for (_, slot, _), is_kept in zip(asks, kept, strict=True):
            if not is_kept:
                self.waiting.remove(slot)

    def _flush_steps(self) -> None:
        steps, self._steps = self._steps, []
        chunk = chunk_of_steps(steps, self._loss, self._block)
        learnt = [False] * len(steps)
        for lo, hi, p in parts_of(chunk, self._learn, self._room, self._refuse):
            learnt[lo:hi] = [True] * (hi - lo)
            before = self.report.examples
            at = lo
            for corrects, run in groupby(steps[lo:hi], lambda step: step.how == CORRECTION):
                some = list(run)
                if corrects:
                    self._correct(some)
                else:
                    self._add(some, p[at - lo : at - lo + len(some)])
                at += len(some)
            self.report.refused = self._refuse.count
            if self.report.examples > before and self.report.examples % self._every == 0:
                self.report.numbers = self.numbers()
                self._tell(self.report.line(self.learner))
        for step, was_learnt in zip(steps, learnt, strict=True):
            if not was_learnt and step.slot >= 0:
                self.waiting.count(step.slot, step.was, 0, 0.0)
                self.waiting.remove(step.slot)

    def _add(self, steps: list[Step], told: Any) -> None:
        """Count steps, each with the prediction that was made first."""
        number = self.report.examples
        y: Any = [step.y for step in steps]
        w = np.array([step.w for step in steps])
        if self._loss == "softmax":
            places = places_of(self.learner, y)
            p: Any = np.array([
                row if step.how == TOGETHER else _row_of(step.p, place, told.shape[1])
                for step, row, place in zip(steps, told, places, strict=True)
            ])  # fmt: skip
            self.report.add(p, places, w)
        else:
            y = np.array(y, np.float64 if self._loss in REGRESSION else bool)
            p = np.array([
                one if step.how == TOGETHER else step.p
                for step, one in zip(steps, told, strict=True)
            ])  # fmt: skip
            self.report.add(p, y, w)
        for at, step in enumerate(steps, start=number):
            if step.slot >= 0:
                self.waiting.count(step.slot, step.was, at, step.w)
        if self._outs:
            self._tell_outs(steps, y, w, p)

    def _tell_outs(self, steps: list[Step], y: Any, w: Any, p: Any) -> None:
        gathered = Gathered(self._block, [step.row for step in steps])
        at = 0
        for how, some in groupby(steps, lambda step: step.how):
            n = len(list(some))
            for lo, hi in () if how == NEGATIVES else gathered.runs(at, at + n):
                row = steps[lo].row
                part = Part(self._block, row, row + hi - lo, y[lo:hi], w[lo:hi], p[lo:hi])
                for out in self._outs:
                    hear: Callable[[Part], None] = getattr(
                        out, "predicted" if how == TOGETHER else "answered"
                    )
                    hear(part)
            at += n

    def _correct(self, steps: list[Step]) -> None:
        for step in steps:
            self.report.correct(step.number, step.p, step.before, step.w)


def _plain(p: Any) -> list[Any]:
    """Predictions as they are kept: floats, or the bytes of a row of them."""
    return p.tolist() if p.ndim == 1 else [row.tobytes() for row in p]


def _row_of(kept: Any, place: int, k: int) -> Any:
    """Probabilities of k labels; one that was not known has its share of a model without any."""
    row = np.zeros(k)
    known = np.frombuffer(kept or b"")
    row[: len(known)] = known
    if place >= len(known):
        row *= 1.0 - 1.0 / k
        row[place] = 1.0 / k
    return row


def _is_plain(x: Any) -> bool:
    """Whether no model would refuse to predict for these features."""
    try:
        return all(v is None or v.__class__ is str or -1e50 < v < 1e50 for v in x.values()) and all(
            name.__class__ is str for name in x
        )
    except TypeError:
        return False
