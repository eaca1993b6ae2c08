"""A training run: each block it is fed is predicted, learnt and reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from streaml1.core.named_options import by_caller, named_option
from streaml1.core.types import Bools, Model, SourcePosition
from streaml1.optim.tasks import loss_parameter
from streaml1.sources.source import Lost, SourceError
from streaml1.training.batches import (
    LabelledBlock,
    RowsFunction,
    accepted_batches,
    label_block,
)
from streaml1.training.checkpoint import CheckpointError, Checkpoints
from streaml1.training.checkpoint.manager import CheckpointManager, ExtraState
from streaml1.training.class_reader import ClassReader
from streaml1.training.config import RunConfig, StopCondition
from streaml1.training.drift.alarm import DriftAlarm
from streaml1.training.error_policy import ErrorPolicy
from streaml1.training.example_sources import ExampleSource
from streaml1.training.held_out import HeldOut, act_on_parts
from streaml1.training.model_adapter import (
    batch_learner,
    batch_predictor,
    class_indices,
    describe_model,
    learner_of,
    loss_of,
    prepare,
)
from streaml1.training.observers import Batch, GuardedCallback, RunStart
from streaml1.training.report import Report, line_after

__all__ = ["Run", "Unfinished"]


class Unfinished(SourceError):
    """A run that was stopped while brokers were unavailable; everything else is done.

    Parameters
    ----------
    message
        What the brokers did not take.
    exit_code
        Exit code of a command.
    report
        Report of the run.
    is_kept
        Whether a checkpoint holds everything that was learnt.
    """

    def __init__(self, message: str, exit_code: int, report: Report, is_kept: bool) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.report = report
        self.is_kept = is_kept


def _never() -> bool:
    return False


def _condition(stop: StopCondition) -> Callable[[], bool]:
    """Return the function that says whether to stop."""
    condition: Callable[[], bool] = getattr(stop, "is_set", stop)  # type: ignore[arg-type]
    return condition


class Run:
    """One model over the blocks of one source, for one or several passes.

    Parameters
    ----------
    model
        Model that learns.
    source
        Source of the blocks.
    policy
        What happens to rejected examples; it holds the observers of the run, too.
    config
        Options of the run.
    store
        Directory of checkpoints to write to and resume from; None disables them.
    extra
        Further state for the checkpoints.
    learns
        Whether examples are learnt. If False, they are only predicted.

    Raises
    ------
    CheckpointError
        If the latest checkpoint in `store` does not fit.
    """

    def __init__(
        self,
        model: Model,
        source: ExampleSource,
        policy: ErrorPolicy,
        config: RunConfig,
        *,
        store: Checkpoints | None = None,
        extra: ExtraState | None = None,
        learns: bool = True,
    ) -> None:
        self.model = model
        self.learner = learner_of(model)
        self.source = source
        self.store = store
        self.observers = policy.observers
        self._policy, self._config = policy, config
        self._manager = CheckpointManager(store, source, model, self.observers, extra)
        self._loss = loss_of(self.learner)
        self._read_class = ClassReader(self.learner, source.label)
        self._learns = learns
        self.report = self._new_report()
        make = batch_learner if learns else batch_predictor
        self._act, self._max_rows = make(model, self._loss)
        self._predict_batch = batch_predictor(model, self._loss).act
        self._held_out = self.report.held_out = HeldOut(config.holdout_every if learns else 0)
        self._on_line = GuardedCallback("on_line", config.on_line)
        self._stopped: Callable[[], bool] = _never
        self._broker_errors: list[SourceError] = []
        self._drift_alarm = DriftAlarm(self.report, self.observers, config.on_drift, self.learner)
        self._examples_before_pass = 0
        self.pass_index = 0

    def _new_report(self) -> Report:
        n_classes = len(self.learner.classes_met) if self._loss == "softmax" else 0
        title = f"{self.source.name}: {describe_model(self.model)}"
        d, parameter = getattr(self.source, "d", None), loss_parameter(self.learner, self._loss)
        # A run that learns reads the sampled stream; an evaluation takes its data as the full one.
        negative_rate = getattr(self.learner, "negative_rate", 1.0) if self._learns else 1.0
        detects = self._config.on_drift != "ignore"
        report = Report(self._loss, title, d, n_classes, parameter, negative_rate, detects)
        report.skips = self._policy.skip
        report.reasons = self._policy.reasons
        return report

    def set_stop(self, stop: StopCondition | None) -> None:
        """Set the stop condition of the run, its source and its observers.

        Once it is true, the run waits for brokers only briefly, and saves what can be saved.

        Parameters
        ----------
        stop
            A `threading.Event`, a function, or None for "never".
        """
        self._stopped = _never if stop is None else _condition(stop)
        if stop is not None and hasattr(self.source, "set_stop"):
            self.source.set_stop(self._stopped)
        self.observers.set_stop(self._stopped)

    @property
    def is_stopped(self) -> bool:
        """Whether the stop condition is true."""
        return self._stopped()

    def begin(self) -> None:
        """Compile the kernels, and resume from the latest checkpoint if there is one."""
        if self._learns:
            prepare(self.model)
        self.report.start()
        self.pass_index, learnt = self._manager.begin(self.report)
        self._require_enough_passes()
        self._require_same_holdout()
        if self._held_out.every and hasattr(self.source, "fill_blocks"):
            # Held-out rows are predicted at the start of a block. The loss on them, which decides
            # what pass is the best, must not depend on where the run was interrupted.
            self.source.fill_blocks()
        self._examples_before_pass = self.report.examples - learnt
        self._policy.count = self.report.rejected
        self.report.follow(self.learner)
        self.observers.on_start(self._start())
        self._drift_alarm.start()

    def _require_enough_passes(self) -> None:
        """Reject a resume whose passes have all been read: nothing new would be looked for."""
        if self.pass_index >= self._config.passes:
            assert self.store is not None
            n = self.pass_index + 1
            raise CheckpointError(
                f"{self.store.directory} is in pass {n} of its source, got "
                f"{named_option('passes', self._config.passes)}; use {named_option('passes', n)} "
                "or more, or another directory"
            )

    def _require_same_holdout(self) -> None:
        """Reject a resume that asks for other held-out rows: some of them were learnt."""
        wanted, every = self._config.holdout, self._held_out.every
        if self._learns and wanted is not None and wanted != every:
            assert self.store is not None
            raise CheckpointError(
                f"{self.store.directory} belongs to a run with {named_option('holdout', every)}, "
                f"got {wanted}; leave {by_caller('--holdout', 'holdout')} out, or use another "
                "directory"
            )

    def _start(self) -> RunStart:
        return RunStart(
            self.model,
            self.learner,
            self.report,
            self.source,
            self.pass_index,
            self._manager.epoch,
            None if self.store is None else self.store.seconds,
            self._all_metrics,
        )

    def _all_metrics(self) -> list[tuple[str, float]]:
        of_run = {**self.metrics(), **self._drift_alarm.metrics()}
        return [*of_run.items(), *self.observers.metrics()]

    def metrics(self) -> dict[str, float]:
        """Return further metrics of the run by name."""
        return {}

    @property
    def is_full(self) -> bool:
        """Whether this pass has reached the limit of examples."""
        return self._batch_limit() == 0

    def _batch_limit(self) -> int:
        """Return how many rows the next batch may have.

        A batch ends at the next line of the report, at the limit of the pass, and where an observer
        reads the weights.
        """
        until_line = line_after(self.report.examples, self._config.every) - self.report.examples
        rows = min(self._max_rows, until_line, self.observers.max_rows())
        rows = self._drift_alarm.max_rows(rows)
        limit = self._config.limit
        # A resumed run may have learnt more than its limit already.
        return rows if limit is None else min(rows, max(0, limit - self._learnt))

    @property
    def _learnt(self) -> int:
        """Examples learnt in this pass."""
        return self.report.examples - self._examples_before_pass

    def feed(self, block: Any) -> None:
        """Predict and learn the examples of a block, up to the limit."""
        with self._collect_broker_errors():
            self._manager.moves()
            self._feed(block)

    @contextmanager
    def _collect_broker_errors(self) -> Iterator[None]:
        """After a stop, collect errors of unavailable brokers instead of raising them.

        Sinks at other brokers still get what belongs to them; `finish` raises the collected errors.
        """
        try:
            yield
        except SourceError as error:
            if not self._stopped() or isinstance(error, Lost):
                raise
            if str(error) not in map(str, self._broker_errors):
                self._broker_errors.append(error)

    def _feed(self, block: Any) -> None:
        self.observers.on_block_start(block)
        self._read_class.refresh()
        labelled = label_block(block, self._loss, self._read_class)
        rows = 0
        act = self._rows_function(labelled)
        for lo, rows, p in accepted_batches(labelled, act, self._batch_limit, self._policy):
            _, y, w = labelled.rows(lo, rows)
            held_out = self._held_out.mask(block, lo, rows)
            self._report_batch(Batch(block, lo, rows, y, w, p, None, held_out))
        after = block.after(rows if self.is_full else len(block)) if self._manager.enabled else None
        self._end_block(after)

    def _rows_function(self, labelled: LabelledBlock) -> RowsFunction:
        """Return the function that predicts rows of a block and learns those not held out."""
        if not self._held_out.every:
            return lambda lo, hi: self._act(*labelled.rows(lo, hi))

        def act(lo: int, hi: int) -> Any:
            mask = self._held_out.mask(labelled.block, lo, hi)
            if mask is None:
                return self._act(*labelled.rows(lo, hi))
            return act_on_parts(
                labelled, lo, mask, self._act, self._predict_batch, self._unknown_labels
            )

        return act

    def _unknown_labels(self, y: Any) -> Bools:
        """Return which labels the model cannot predict.

        A class joins a softmax model when it is first learnt, so a held-out row may have another.
        """
        if self._loss != "softmax":
            return np.zeros(len(y), bool)
        known = set(self.learner.classes_met)
        return np.array([label not in known for label in y], bool)

    def _report_batch(self, batch: Batch) -> None:
        """Add a batch to the report, and announce it."""
        next_line = line_after(self.report.examples, self._config.every)
        self._add(batch)
        self.report.rejected = self._policy.count
        self._drift_alarm.after_batch()
        self.observers.on_batch(batch)
        if self.report.examples == next_line:
            self._emit_line()

    def _add(self, batch: Batch) -> None:
        """Add to the report those rows that it covers in this pass, and count the others."""
        y, p, w, held_out = batch.y, batch.p, batch.w, batch.held_out
        n = batch.hi - batch.lo
        is_later_pass = self.report.pass_number > 1
        if held_out is None and is_later_pass:
            self.report.skip(n)
            return
        if held_out is not None:
            covered = held_out.copy() if is_later_pass else np.ones(n, bool)
            covered[held_out] &= ~self._unknown_labels([y[k] for k in np.flatnonzero(held_out)])
            rows = np.flatnonzero(covered)
            y = [y[k] for k in rows] if isinstance(y, list) else y[rows]
            p, w = np.asarray(p)[rows], None if w is None else np.asarray(w)[rows]
            held_out = held_out[rows]
            self.report.skip(n - len(rows))
        if self._loss == "softmax":
            y = class_indices(self.learner, y)
        self.report.add(p, y, w, held_out)

    def _end_block(self, position: SourcePosition | None) -> None:
        """Record that a block is done with, and save if a save is due."""
        self.report.rejected = self._policy.count
        # Before a save: a run that resumes from it would not announce them.
        self._drift_alarm.announce()
        self._manager.moved(position, self.pass_index, self._learnt)
        self.observers.on_block_end()

    def feed_all(self, blocks: Iterable[Any], last: bool) -> None:
        """Feed the blocks of a pass, or of the rest of a pass, until the stop condition is true."""
        if self.is_full:  # the pass had reached its limit before the run was interrupted
            return
        with self._policy.totals_at_failure(), self._collect_broker_errors():
            for block in blocks:
                self.feed(block)
                if self._stopped() or self.is_full:
                    # Check now, while the source is open: the pass has not reached its end.
                    if hasattr(self.source, "require_same"):
                        self.source.require_same()
                    return
                del block  # lets the reader reuse its memory for the next block
            if not self._stopped():  # a stopped source may have ended early
                self.end_pass(last)

    def end_pass(self, last: bool) -> None:
        """Record that the source was read to its end."""
        self.observers.on_pass_end()
        self.report.rejected = self._policy.count
        if not last:
            # A checkpoint of the next pass must hold the result of this one.
            self._close_pass()
        self._manager.ended(self.pass_index, self._learnt, last)

    def _close_pass(self) -> None:
        """Compare a finished pass with those before, once, and start the report of the next."""
        number = self.pass_index + 1
        if self._held_out.n_closed >= number or not self._held_out.every:
            return
        loss = self.report.held_out_loss
        self._held_out.close_pass(self.model, number, loss)
        if loss is None:  # no row is held out: the report continues as with one pass
            return
        if self.report.n_since_line:
            self._emit_line()
        self.report.restart(number + 1)

    def _keep_best(self) -> None:
        """Restore the model of the best pass at the end of the last."""
        number, held_out = self.pass_index + 1, self._held_out
        loss = self.report.held_out_loss
        if not held_out.best_pass or self.report.pass_number != number or loss is None:
            return
        if held_out.is_best(loss):
            self.report.kept = number, number, loss
            return
        if self.report.finish(self.learner):
            self._on_line(self.report.lines[-1])
        held_out.restore_best(self.model)
        self.report.kept = held_out.best_pass, number, held_out.best_loss

    def next_pass(self) -> None:
        """Start another pass."""
        self._close_pass()
        self.pass_index += 1
        self._examples_before_pass = self.report.examples
        self.observers.on_pass_start()

    def finish(self) -> Report:
        """Save what is not saved yet, and write the last line of the report.

        Raises
        ------
        Unfinished
            If brokers did not take everything before a stop. All else is done by then.
        """
        with self._collect_broker_errors():
            # Examples rejected beyond the saved position will be rejected again after a resume.
            self._manager.finish()
        self.report.rejected = self._policy.count
        if self._held_out.every and not self._stopped():
            self._keep_best()
        for observer in self.observers:
            with self._collect_broker_errors():
                self.observers.call(observer, "on_end")
        if self.report.finish(self.learner):
            self._on_line(self.report.lines[-1])
        self._policy.log_total()
        if self._broker_errors:
            raise self._unfinished()
        return self.report

    def _unfinished(self) -> Unfinished:
        sentences = [str(error) for error in self._broker_errors]
        if self.store is not None and self._manager.is_behind:
            sentences.append(f"{self.store.directory} still holds the previous checkpoint")
        is_kept = self.store is not None and not self._manager.is_behind
        return Unfinished(
            "; ".join(sentences), self._broker_errors[0].exit_code, self.report, is_kept
        )

    def _emit_line(self) -> None:
        """Close a line of the report, and pass it to the caller."""
        self._on_line(self.report.line(self.learner))
