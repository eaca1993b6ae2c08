"""A run over events: examples that wait for their labels, labels that find their examples."""

from __future__ import annotations

import logging
from typing import Any

from streaml1.core.rows import BadExample
from streaml1.optim.tasks import REGRESSION
from streaml1.sources import binary_label, number_label
from streaml1.sources.readers.events import Event
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.delayed_labels.listener import Hearing
from streaml1.training.delayed_labels.payloads import (
    example_body,
    kept_example,
    kept_label,
    label_body,
    origin_of,
)
from streaml1.training.delayed_labels.pending import Waiting
from streaml1.training.delayed_labels.pending_table import ASKED, EARLY
from streaml1.training.delayed_labels.settings import LateLabels, require_late
from streaml1.training.delayed_labels.tally import Tally
from streaml1.training.error_policy import LOGGED, Refusals
from streaml1.training.examples import Opened
from streaml1.training.model_adapter import learner_of, learning_one_of, loss_of, predicting_one_of
from streaml1.training.report import Report, line_after
from streaml1.training.run import Run

__all__ = ["FOLDER", "LateRun"]

logger = logging.getLogger("streaml1")

FOLDER = "waiting"
"""Of the log, in that of the checkpoints."""


class LateRun(Run):
    """One model over events: each example is predicted as it comes, and learnt with its label.

    Asking and answering take turns in a stream, so that the model is given one example at a time;
    report and outs hear of many together.

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
        require_late(late, model)
        loss = loss_of(learner_of(model))
        self._late = late
        self.waiting = Waiting(late.within, scalar=loss != "softmax")
        super().__init__(model, opened, refuse, store=store, beside=self.waiting, **options)
        if store is not None:
            self.waiting.keep(store.folder / FOLDER, store.epoch, store.keep)
        self._predict = predicting_one_of(model, loss)
        self._teach = learning_one_of(model)
        self._tally = Tally(self.report, self.learner)
        self._hearing = Hearing(self.outs, lambda: getattr(self.learner, "n_iterations", 0))
        self._named = 0
        self._number = 0  # of the last event

    def begin(self) -> None:
        """Compile what is to run, and go on from the last checkpoint, if there is one."""
        if hasattr(self.model, "clone"):
            self._warm_up(self.model.clone())
        super().begin()
        self.report.numbers = self.numbers()

    def _warm_up(self, model: Any) -> None:
        labels = getattr(learner_of(model), "classes", None) or [True]
        for x in ({"a": 1.0}, {"a": 1.0, "b": 1.0}):
            predicting_one_of(model, self._loss)(x)
            learning_one_of(model)(x, labels[0], 1.0)

    def numbers(self) -> dict[str, float]:
        """How many wait, and what has become of the others."""
        return {**super().numbers(), **self.waiting.numbers()}

    def _feed(self, block: Any) -> None:
        self._block = block
        rows = len(block)
        for row, event in enumerate(block.x):
            if not isinstance(event, Event):
                raise TypeError(f"{block.place(row)} is no event: late labels need JSON lines")
            self._number = block.lines[row]
            if not self._take(row, event):
                rows = row
                break
        else:
            self._give_up()
        self._tally.close()
        self._hearing.close()
        self.waiting.clean()
        self.report.refused = self._refuse.count
        self.report.numbers = self.numbers()
        if self._keeper.keeps:
            self._keeper.moved(block.after(rows), self.turn, self._learnt)
        for out in self.outs:
            out.fed()

    def finish(self) -> Report:
        """Save what has not been saved, write the last line, and close the log."""
        try:
            return super().finish()
        finally:
            self.waiting.close()

    # One event. Each of these returns False where the limit ends the run before the event is done
    # with; it is then taken again when the run goes on, and finds what has been done.

    def _take(self, row: int, event: Event) -> bool:
        if not (self._give_up() and self._may_learn()):
            return False
        origin = self._block.origin(row)
        time = event.time if origin is None else origin.time / 1000.0 if origin.time > 0 else None
        try:
            y = None if event.y is None else self._label(event.y)
        except ValueError as error:
            self._refused(row, str(error))
            done = True
        else:
            take = self._answered if event.x is None else self._asked
            done = take(row, event, y, time)
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
        slot = -1 if event.id is None else table.find(event.id)
        w = event.w
        early = False  # its label came before
        if slot >= 0 and table.kind[slot] != EARLY:
            if y is not None:
                return self._answered(row, event, y, time)
            self._duplicate(row, event, "is asked again")
            return True
        if slot >= 0:
            if y is not None:
                self._duplicate(row, event, "has had a label before")
            elif waiting.in_time(slot, time):
                y, own = kept_label(table.body[slot])
                w = w if own is None else own
                early = True
            else:
                waiting.counts["orphans"] += 1
            waiting.remove(slot)
        if y is None:
            return self._ask(row, event, time)
        try:
            p = self._predict(event.x)
        except BadExample as bad:
            self._refused(row, bad.reason)
            return True
        waiting.counts["asked"] += early
        waiting.counts["answered"] += early
        w = 1.0 if w is None else w
        if self._learn_it(event.x, y, w, p, row):
            self._hearing.predicted(self._block, row, p, y, w)
        return True

    def _ask(self, row: int, event: Event, time: float | None) -> bool:
        if not self._make_room():
            return False
        try:
            p = self._predict(event.x)
        except BadExample as bad:
            self._refused(row, bad.reason)
            return True
        assert event.id is not None
        self.waiting.counts["asked"] += 1
        self.waiting.add(event.id, ASKED, time, example_body(self._block.place(row), event), p)
        self._hearing.predicted(self._block, row, p)
        return True

    def _answered(self, row: int, event: Event, y: Any, time: float | None) -> bool:
        """A label has come."""
        waiting, table = self.waiting, self.waiting.table
        assert event.id is not None
        slot = table.find(event.id)
        if slot < 0:
            if not self._make_room():
                return False
            waiting.add(event.id, EARLY, time, label_body(y, event))
            return True
        if table.kind[slot] == EARLY:
            self._duplicate(row, event, "has had a label before")
            return True
        if not waiting.in_time(slot, time):
            if table.kind[slot] == ASKED:
                if not self._give_up_one(slot, "expired"):
                    return False
                if self._late.unanswered == "negative":
                    return self._may_learn() and self._answered(row, event, y, time)
            waiting.counts["orphans"] += 1
            return True
        _, x, w = kept_example(table.body[slot])
        w = w if event.w is None else event.w
        w, p = 1.0 if w is None else w, table.p[slot]
        if table.kind[slot] == ASKED:
            waiting.counts["answered"] += 1
            waiting.remove(slot)
            if self._learn_it(x, y, w, p, row):
                self._hearing.answered(self._block, row, p, y, w)
            return True
        number, before = table.number[slot], table.weight[slot]
        waiting.remove(slot)
        if not y:
            waiting.counts["confirmed"] += 1
            return True
        waiting.counts["corrected"] += 1
        try:
            self._teach(x, y, w)
        except BadExample as bad:
            self._refused(row, bad.reason)
            return True
        self._tally.correct(number, p, before, w)
        self._hearing.answered(self._block, row, p, y, w)
        return True

    # What is not waited for any more

    def _give_up(self) -> bool:
        """Give up all whose time is over."""
        while (slot := self.waiting.overdue(negative=True)) >= 0:
            self.waiting.remove(slot)
        while (slot := self.waiting.overdue(negative=False)) >= 0:
            if not self._give_up_one(slot, "expired"):
                return False
        return True

    def _make_room(self) -> bool:
        """Have room for one more: corrections are given up first, then the oldest."""
        waiting = self.waiting
        while len(waiting) >= self._late.most:
            slot = waiting.table.first(negative=True)
            if slot >= 0:
                waiting.remove(slot)
            elif not self._give_up_one(waiting.table.first(negative=False), "pushed_out"):
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
        body = table.body[slot]
        _, x, w = kept_example(body)
        w, number = 1.0 if w is None else w, self._tally.examples
        waiting.counts[why] += 1
        if self._learn_it(x, False, w, table.p[slot], -1, body) and why == "expired":
            waiting.turn(slot, number, w)
        else:
            waiting.remove(slot)
        return True

    # One example

    def _may_learn(self) -> bool:
        """Whether the limit has room for one more."""
        return self._limit is None or self._tally.examples - self._before < self._limit

    def _learn_it(self, x: Any, y: Any, w: float, p: Any, row: int, body: Any = None) -> bool:
        """Learn an example that was predicted, and count it; False where it is refused.

        It stands in a row of the block; below 0: it has waited, as `body`.
        """
        try:
            self._teach(x, y, w)
        except BadExample as bad:
            self._refused(row, bad.reason, body)
            return False
        self._tally.add(p, y, w)
        if self._tally.examples == line_after(self._tally.examples - 1, self._every):
            self._tally.close()
            self.report.refused = self._refuse.count
            self._tell(self.report.line(self.learner))
        return True

    def _refused(self, row: int, reason: str, body: Any = None) -> None:
        self._tally.close()
        self._hearing.close()
        if row < 0:
            self._refuse(kept_example(body)[0], reason, self._number, origin_of(body))
        else:
            block = self._block
            self._refuse(block.place(row), reason, block.lines[row], block.origin(row))

    def _duplicate(self, row: int, event: Event, what: str) -> None:
        self.waiting.counts["duplicates"] += 1
        self._named += 1
        if self._named <= LOGGED:
            logger.warning("%s: %r %s: left out", self._block.place(row), event.id, what)
