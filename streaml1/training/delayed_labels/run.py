"""A run over events: examples that wait for their labels, and labels that find their examples."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from typing import Any

from streaml1.core.named_options import by_caller, named_option
from streaml1.core.rows import BadExample
from streaml1.core.types import Model
from streaml1.optim.tasks import REGRESSION
from streaml1.sources import binary_label, nonnegative_label, number_label
from streaml1.sources.readers.events import Event
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.config import RunConfig
from streaml1.training.delayed_labels.listener import BatchCollector
from streaml1.training.delayed_labels.log_entries import Prediction
from streaml1.training.delayed_labels.payloads import (
    ExampleBody,
    decode_example,
    decode_label,
    encode_example,
    encode_label,
    origin_of_example,
)
from streaml1.training.delayed_labels.pending import PendingStore
from streaml1.training.delayed_labels.pending_table import EARLY_LABEL, UNLABELED
from streaml1.training.delayed_labels.tally import Tally
from streaml1.training.error_policy import LOGGED, ErrorPolicy
from streaml1.training.example_sources import ExampleSource
from streaml1.training.model_adapter import learner_of, loss_of, row_learner, row_predictor
from streaml1.training.report import Report, line_after
from streaml1.training.run import Run

__all__ = ["LOG_DIRECTORY", "DelayedLabelRun", "require_negatives"]

logger = logging.getLogger("streaml1")

LOG_DIRECTORY = "waiting"
"""Directory of the log, inside that of the checkpoints."""


def require_negatives(unanswered: str, model: Model) -> None:
    """Raise ValueError if examples are to be learnt as False by a model without this label."""
    if unanswered == "negative" and loss_of(learner_of(model)) in (*REGRESSION, "softmax"):
        raise ValueError(
            f"{named_option('unanswered', 'negative')} needs a binary classifier: labels must be "
            "True and False"
        )


class DelayedLabelRun(Run):
    """A run that predicts each example when it arrives, and learns it when its label does.

    Predictions depend on every label before them, so the model handles one example at a time.
    Report and observers get many at once.

    Parameters
    ----------
    model, source, policy, config
        As for `Run`; blocks hold events, and `config.label_within` is not None.
    store
        Directory of checkpoints. It also has the directory of the log of pending items.
    """

    def __init__(
        self,
        model: Model,
        source: ExampleSource,
        policy: ErrorPolicy,
        config: RunConfig,
        *,
        store: Checkpoints | None = None,
    ) -> None:
        assert config.label_within is not None
        require_negatives(config.unanswered, model)
        loss = loss_of(learner_of(model))
        self.pending = PendingStore(config.label_within, scalar=loss != "softmax")
        super().__init__(model, source, policy, config, store=store, extra=self.pending)
        if store is not None:
            self.pending.open_log(store.directory / LOG_DIRECTORY, store.epoch, store.keep)
        self._predict = row_predictor(model, loss)
        self._learn_one = row_learner(model)
        self._tally = Tally(self.report, self.learner)
        self._batches = BatchCollector(
            self.observers, lambda: getattr(self.learner, "n_iterations", 0)
        )
        self._n_logged = 0  # duplicates
        self._number = 0  # of the last event
        self._has_times = False

    def begin(self) -> None:
        """Compile the kernels, and resume from the latest checkpoint if there is one."""
        # Without the transformers of a pipeline: they may need features of the examples, or text.
        if hasattr(self.learner, "clone"):
            self._compile(self.learner.clone())
        super().begin()
        self.report.numbers = self.metrics()

    def _compile(self, model: Model) -> None:
        labels = getattr(model, "classes", None) or [True]
        for x in ({"a": 1.0}, {"a": 1.0, "b": 1.0}):
            row_predictor(model, self._loss)(x)
            row_learner(model)(x, labels[0], 1.0)

    def metrics(self) -> dict[str, float]:
        """Return the number of pending items, and the counters of what happened to others."""
        return {**super().metrics(), **self.pending.metrics()}

    def _feed(self, block: Any) -> None:
        self._block = block
        rows = len(block)
        for row, event in enumerate(block.x):
            if not isinstance(event, Event):
                raise TypeError(
                    f"delayed labels need JSON lines with events, got {block.place(row)}"
                )
            self._number = block.lines[row]
            if not self._handle_event(row, event):
                rows = row
                break
        else:
            self._expire_overdue()
        self._tally.flush()
        self._batches.flush()
        self.pending.clean()
        self.report.numbers = self.metrics()
        self._end_block(block.after(rows) if self._manager.enabled else None)

    def finish(self) -> Report:
        """Save what is not saved yet, write the last line of the report, and close the log."""
        if self._number and not self._has_times and self.pending.metrics()["waiting"]:
            logger.warning(
                '%s: no record has a "time", in seconds since 1970, so no example expires and %s '
                "has no effect",
                self.source.name, by_caller("--label-within", "label_within"),
            )  # fmt: skip
        try:
            return super().finish()
        finally:
            self.pending.close()

    # Events
    #
    # Each of these methods returns False if the limit of examples ends the run before the event is
    # finished. The event is then handled again when the run resumes, so each step leaves a state
    # from which handling the event again completes it.

    def _handle_event(self, row: int, event: Event) -> bool:
        if not (self._expire_overdue() and self._below_limit()):
            return False
        origin = self._block.origin(row)
        time = event.time if origin is None else origin.time / 1000.0 if origin.time > 0 else None
        self._has_times = self._has_times or time is not None or origin is not None
        try:
            y = None if event.y is None else self._parse_label(event.y)
        except ValueError as error:
            self._reject(row, str(error))
            done = True
        else:
            handle = self._handle_label if event.x is None else self._handle_features
            done = handle(row, event, y, time)
        if done:
            self.pending.advance(time)
        return done

    def _parse_label(self, y: Any) -> Any:
        if self._loss == "softmax":
            self._read_class.refresh()
            return self._read_class(y)
        if self._loss == "poisson":
            return nonnegative_label(y)
        return number_label(y) if self._loss in REGRESSION else binary_label(y)

    def _handle_features(self, row: int, event: Event, y: Any, time: float | None) -> bool:
        """Handle features, perhaps with their label."""
        pending, table = self.pending, self.pending.table
        slot = -1 if event.id is None else table.find(event.id)
        w = event.w
        label_was_early = False
        if slot >= 0 and table.kind[slot] != EARLY_LABEL:
            if y is not None:
                return self._handle_label(row, event, y, time)
            self._skip_duplicate(row, event, "already has features")
            return True
        if slot >= 0:
            if y is not None:
                self._skip_duplicate(row, event, "already has a label")
            elif pending.is_in_time(slot, time):
                y, label_w = decode_label(table.body[slot])
                w = w if label_w is None else label_w
                label_was_early = True
            else:
                pending.counts["orphans"] += 1
            pending.remove(slot)
        if y is None:
            return self._predict_and_wait(row, event, time)
        try:
            p = self._predict(event.x)
        except BadExample as bad:
            self._reject(row, bad.reason)
            return True
        pending.counts["asked"] += label_was_early
        pending.counts["answered"] += label_was_early
        w = 1.0 if w is None else w
        assert event.x is not None
        if self._learn_predicted(event.x, y, w, p, row):
            self._batches.add_predicted(self._block, row, p, y, w)
        return True

    def _predict_and_wait(self, row: int, event: Event, time: float | None) -> bool:
        """Predict an example, and keep it until its label arrives."""
        if not self._make_room():
            return False
        try:
            p = self._predict(event.x)
        except BadExample as bad:
            self._reject(row, bad.reason)
            return True
        assert event.id is not None
        self.pending.counts["asked"] += 1
        body = encode_example(self._block.place(row), event)
        self.pending.add(event.id, UNLABELED, time, body, p)
        self._batches.add_predicted(self._block, row, p)
        return True

    def _handle_label(self, row: int, event: Event, y: Any, time: float | None) -> bool:
        """Handle a label."""
        pending, table = self.pending, self.pending.table
        assert event.id is not None
        slot = table.find(event.id)
        if slot < 0:
            if not self._make_room():
                return False
            pending.add(event.id, EARLY_LABEL, time, encode_label(y, event))
            return True
        if table.kind[slot] == EARLY_LABEL:
            self._skip_duplicate(row, event, "already has a label")
            return True
        if not pending.is_in_time(slot, time):
            if table.kind[slot] == UNLABELED:
                if not self._expire(slot, "expired"):
                    return False
                if self._config.unanswered == "negative":
                    # The example was learnt as False just now: the label may correct it.
                    return self._below_limit() and self._handle_label(row, event, y, time)
            pending.counts["orphans"] += 1
            return True
        if table.kind[slot] == UNLABELED:
            self._learn_pending(slot, row, event, y)
        else:
            self._correct(slot, row, event, y)
        return True

    def _learn_pending(self, slot: int, row: int, event: Event, y: Any) -> None:
        """Learn a pending example with its label."""
        example = decode_example(self.pending.table.body[slot])
        w = _weight(example.w, event.w)
        p = self.pending.table.p[slot]
        self.pending.counts["answered"] += 1
        self.pending.remove(slot)
        if self._learn_predicted(example.x, y, w, p, row):
            self._batches.add_label(self._block, row, p, y, w)

    def _correct(self, slot: int, row: int, event: Event, y: Any) -> None:
        """Learn an example again whose label arrived after it was learnt as False."""
        table = self.pending.table
        example = decode_example(table.body[slot])
        w = _weight(example.w, event.w)
        p, number, old_weight = table.p[slot], table.number[slot], table.weight[slot]
        self.pending.remove(slot)
        if not y:
            self.pending.counts["confirmed"] += 1
            return
        self.pending.counts["corrected"] += 1
        try:
            self._learn_one(example.x, y, w)
        except BadExample as bad:
            self._reject(row, bad.reason)
            return
        self._tally.correct(number, p, old_weight, w)
        self._batches.add_label(self._block, row, p, y, w)

    # Expiry. These methods, too, return False at the limit of examples.

    def _expire_overdue(self) -> bool:
        """Expire all items whose time is over."""
        while (slot := self.pending.first_overdue(negative=True)) >= 0:
            self.pending.remove(slot)
        while (slot := self.pending.first_overdue(negative=False)) >= 0:
            if not self._expire(slot, "expired"):
                return False
        return True

    def _make_room(self) -> bool:
        """Make room for one more item: drop assumed negatives first, then the oldest others."""
        pending = self.pending
        while len(pending) >= self._config.waiting:
            slot = pending.table.first(negative=True)
            if slot >= 0:
                pending.remove(slot)
            elif not self._expire(pending.table.first(negative=False), "pushed_out"):
                return False
        return True

    def _expire(self, slot: int, counter: str) -> bool:
        """Drop an item, or learn it as False; `counter` counts it if it is an example."""
        pending, table = self.pending, self.pending.table
        if table.kind[slot] == EARLY_LABEL:
            pending.counts["orphans"] += 1
            pending.remove(slot)
            return True
        if self._config.unanswered == "drop":
            pending.counts[counter] += 1
            pending.remove(slot)
            return True
        if not self._below_limit():
            return False
        body = table.body[slot]
        example = decode_example(body)
        w, number = _weight(example.w, None), self._tally.examples
        pending.counts[counter] += 1
        learnt = self._learn_predicted(example.x, False, w, table.p[slot], -1, body)
        if learnt and counter == "expired":
            pending.assume_negative(slot, number, w)
        else:
            pending.remove(slot)
        return True

    # Examples

    def _below_limit(self) -> bool:
        """Return whether the limit allows another example."""
        limit = self._config.limit
        return limit is None or self._tally.examples - self._examples_before_pass < limit

    def _learn_predicted(
        self,
        x: Mapping[Hashable, object],
        y: Any,
        w: float,
        p: Prediction,
        row: int,
        body: ExampleBody | None = None,
    ) -> bool:
        """Learn an example that was predicted, and count it; return False if it is rejected.

        Parameters
        ----------
        x, y, w
            The example.
        p
            Its prediction.
        row
            Row of the block; -1 for an expired example.
        body
            Body of an expired example.
        """
        try:
            self._learn_one(x, y, w)
        except BadExample as bad:
            self._reject(row, bad.reason, body)
            return False
        self._tally.add(p, y, w)
        if self._tally.examples == line_after(self._tally.examples - 1, self._config.every):
            self._tally.flush()
            self.report.rejected = self._policy.count
            self._emit_line()
        return True

    def _reject(self, row: int, reason: str, body: ExampleBody | None = None) -> None:
        self._tally.flush()
        self._batches.flush()
        if body is not None:
            place = decode_example(body).place
            self._policy(place, reason, self._number, origin_of_example(body))
        else:
            block = self._block
            self._policy(block.place(row), reason, block.lines[row], block.origin(row))

    def _skip_duplicate(self, row: int, event: Event, reason: str) -> None:
        self.pending.counts["duplicates"] += 1
        self._n_logged += 1
        if self._n_logged <= LOGGED:
            place = self._block.place(row)
            logger.warning("%s: skipped, as id %r %s", place, event.id, reason)


def _weight(example_w: float | None, label_w: float | None) -> float:
    """Return the sample weight: that of the label, else that of the example, else 1."""
    w = example_w if label_w is None else label_w
    return 1.0 if w is None else w
