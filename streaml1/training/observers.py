"""Observers of a training run: the events they receive, and what happens if one fails.

An observer gets small immutable objects and never the run itself, so that a new one needs no
knowledge of how a run works. An observer that raises is logged and detached, and the run continues.
The exceptions are essential observers: sinks that must be flushed before a checkpoint is committed,
and observers that exist to end a run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec

from streaml1.core.logging import event
from streaml1.core.types import Model
from streaml1.sources.kafka.records import Origin
from streaml1.training.drift import Drift
from streaml1.training.report import Report

__all__ = [
    "Batch",
    "GuardedCallback",
    "Observer",
    "Observers",
    "Rejected",
    "RunStart",
    "SavedCheckpoint",
]

logger = logging.getLogger("streaml1")

UNBOUNDED = 2**62
"""Number of rows that no batch reaches."""


class RunStart(NamedTuple):
    """The run that starts, or resumes from a checkpoint.

    Parameters
    ----------
    model
        Model as given by the caller, perhaps a pipeline.
    learner
        Last step of the pipeline, or the model itself.
    report
        Report of the run. It grows during the run; reading it from other threads is safe.
    source
        Source of the examples. Topics have `lag` and `is_reachable`.
    passes_done
        Passes over the source that were finished before a resume.
    epoch
        Number of times a run has started in the checkpoint directory; None without checkpoints.
    checkpoint_seconds
        Interval between checkpoints; None without checkpoints.
    metrics
        Returns the metrics of the run and of all its observers as (name, value) pairs.
    """

    model: Any
    learner: Any
    report: Report
    source: Any
    passes_done: int
    epoch: int | None
    checkpoint_seconds: float | None
    metrics: Callable[[], list[tuple[str, float]]]


class Batch(NamedTuple):
    """Consecutive rows of a block that were predicted, and then learnt.

    Parameters
    ----------
    block
        Block that holds the rows. `block.place(row)` names the location of a row.
    lo, hi
        First row, and the row after the last.
    y, w
        Labels as the model takes them, and sample weights or None. With delayed labels `y` is None
        for examples whose label has not arrived: they are predicted, not learnt yet.
    p
        Predictions, as `progressive_many` returns them.
    learnt
        Number of examples the model had learnt when it predicted the first row. None: the current
        number, less the rows of this batch that were learnt.
    held_out
        A flag for each of the rows: whether it was predicted, and not learnt; see
        `RunConfig.holdout`. None if all were learnt.
    """

    block: Any
    lo: int
    hi: int
    y: Any
    w: Any
    p: Any
    learnt: int | None = None
    held_out: Any = None


class Rejected(NamedTuple):
    """A rejected example.

    Parameters
    ----------
    place
        Location, such as ``clicks.svm:7``.
    reason
        One sentence.
    origin
        Coordinates of the record in a topic (`Origin`); None for other sources.
    number
        Number of the example in this pass, from 1; for files the line.
    """

    place: str
    reason: str
    origin: Origin | None
    number: int


class SavedCheckpoint(NamedTuple):
    """A checkpoint that is on the disk.

    Parameters
    ----------
    directory
        Directory of the checkpoints.
    size
        Bytes of the file.
    examples
        Examples learnt when it became durable; it may hold fewer.
    """

    directory: Path
    size: int | None
    examples: int


class Observer:
    """Base class of observers; each method does nothing by default.

    Attributes
    ----------
    essential : bool
        Whether an error of this observer ends the run. Set it on sinks whose loss would break a
        promise, since a checkpoint must not pass what they have not written.

    Examples
    --------
    >>> from streaml1 import ElasticNetClassifier, progressive
    >>> from streaml1.training import Batch, Observer
    >>> class CountRows(Observer):
    ...     rows = 0
    ...
    ...     def on_batch(self, batch: Batch) -> None:
    ...         self.rows += batch.hi - batch.lo
    >>> counter = CountRows()
    >>> _ = progressive(ElasticNetClassifier(), [({"a": 1.0}, True)] * 3, observers=[counter])
    >>> counter.rows
    3
    """

    essential = False

    def max_rows(self) -> int:
        """Return the maximum number of rows of the next batch.

        An observer that reads the weights after each batch limits it.
        """
        return UNBOUNDED

    def set_stop(self, stopped: Callable[[], bool]) -> None:
        """Receive the stop condition, before the run starts.

        Once `stopped()` is true, do not wait long for anything.
        """

    def on_start(self, start: RunStart) -> None:
        """Handle the start of a run, or its resumption from a checkpoint."""

    def on_predict_start(self, model: Model) -> None:
        """Handle the start of predictions by a fixed model; `on_start` is not called then."""

    def on_block_start(self, block: Any) -> None:
        """Handle a block before any of its examples is predicted or learnt."""

    def on_batch(self, batch: Batch) -> None:
        """Handle rows that were predicted and then learnt."""

    def on_labels(self, batch: Batch) -> None:
        """Handle delayed labels that have arrived; `batch.p` holds the earlier predictions."""

    def on_rejected(self, rejected: Rejected) -> None:
        """Handle an example that was rejected and skipped."""

    def on_drift(self, drift: Drift, action: str) -> None:
        """Handle a rise of the loss, before the end of a block; `action` is `RunConfig.on_drift`.

        `Report.drifts` has all drifts so far, also those found before a resume.
        """

    def on_block_end(self) -> None:
        """Handle the end of a block. A topic without new records sends empty blocks."""

    def on_pass_start(self) -> None:
        """Handle the start of a further pass: the source is read from its start again."""

    def on_pass_end(self) -> None:
        """Handle the end of a pass: the source was read to its end."""

    def defers_checkpoint(self) -> bool:
        """Return whether no checkpoint may be written now."""
        return False

    def flush(self) -> None:
        """Make everything received so far durable: a checkpoint is about to be committed."""

    def on_checkpoint(self, checkpoint: SavedCheckpoint) -> None:
        """Handle a checkpoint that is on the disk. The first may come before `on_start`."""

    def metrics(self) -> dict[str, float]:
        """Return metrics by name, such as ``dead_letters_total``; called from any thread.

        Counters have names that end in ``_total``.
        """
        return {}

    def on_end(self) -> None:
        """Handle the successful end of the run; by default `flush`."""
        self.flush()


Args = ParamSpec("Args")


def _for_all(
    method: Callable[Concatenate[Observer, Args], None],
) -> Callable[Concatenate[Observers, Args], None]:
    """Return the method of `Observers` that calls this one of each observer."""

    def call_all(observers: Observers, /, *args: Args.args, **options: Args.kwargs) -> None:
        for observer in observers:
            observers.call(observer, method.__name__, *args, **options)

    return call_all


class Observers:
    """The observers of a run, isolated from it and from each other.

    Each method calls the method of the same name of all observers, in order. An observer that
    raises is logged and detached, unless it is essential: then the error propagates.

    Parameters
    ----------
    observers
        The observers, in the order in which they are called.
    """

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        if isinstance(observers, Observer) or not isinstance(observers, Iterable):
            raise TypeError(f"observers must be a list of observers, got {observers!r}")
        self._attached = list(observers)
        for observer in self._attached:
            if not isinstance(observer, Observer):
                raise TypeError(
                    f"observers must be objects of subclasses of Observer, got {observer!r}"
                )

    @classmethod
    def of(cls, observers: Observers | Iterable[Observer]) -> Observers:
        """Return `observers` itself, or a new collection of some observers."""
        return observers if isinstance(observers, Observers) else cls(observers)

    def __iter__(self) -> Iterator[Observer]:
        return iter(list(self._attached))

    def __bool__(self) -> bool:
        return bool(self._attached)

    def attach(self, observer: Observer) -> None:
        """Add an observer at the end."""
        self._attached.append(observer)

    def call(
        self, observer: Observer, method: str, *args: Any, default: Any = None, **options: Any
    ) -> Any:
        """Call a method of one observer; return `default` if the observer fails and is detached."""
        try:
            return getattr(observer, method)(*args, **options)
        except Exception as error:
            if observer.essential:
                raise
            if observer in self._attached:
                self._attached.remove(observer)
            _log_failure(f"observer {type(observer).__name__}", method, error)
            return default

    def max_rows(self) -> int:
        """Return the smallest limit of all observers."""
        if not self._attached:
            return UNBOUNDED
        limits: list[int] = [
            self.call(observer, "max_rows", default=UNBOUNDED) for observer in self
        ]
        return min(limits)

    set_stop = _for_all(Observer.set_stop)
    on_start = _for_all(Observer.on_start)
    on_predict_start = _for_all(Observer.on_predict_start)
    on_block_start = _for_all(Observer.on_block_start)
    on_batch = _for_all(Observer.on_batch)
    on_labels = _for_all(Observer.on_labels)
    on_rejected = _for_all(Observer.on_rejected)
    on_drift = _for_all(Observer.on_drift)
    on_block_end = _for_all(Observer.on_block_end)
    on_pass_start = _for_all(Observer.on_pass_start)
    on_pass_end = _for_all(Observer.on_pass_end)
    flush = _for_all(Observer.flush)
    on_checkpoint = _for_all(Observer.on_checkpoint)
    on_end = _for_all(Observer.on_end)

    def defers_checkpoint(self) -> bool:
        """Return whether any observer defers the next checkpoint."""
        return any(self.call(observer, "defers_checkpoint", default=False) for observer in self)

    def metrics(self) -> list[tuple[str, float]]:
        """Return the metrics of all observers.

        It runs in the thread that serves metrics. An essential observer that fails here stays
        attached: what it must write is not at risk.
        """
        found: list[tuple[str, float]] = []
        for observer in self:
            try:
                found += observer.metrics().items()
            except Exception as error:
                if not observer.essential and observer in self._attached:
                    self._attached.remove(observer)
                _log_failure(f"observer {type(observer).__name__}", "metrics", error)
        return found


class GuardedCallback:
    """A callback of the caller that cannot end the run: after an error it is not called again."""

    def __init__(self, name: str, callback: Callable[..., object] | None) -> None:
        self._name = name
        self._callback = callback

    def __call__(self, *args: Any) -> None:
        """Call the function, unless it has failed before."""
        if self._callback is None:
            return
        try:
            self._callback(*args)
        except Exception as error:
            self._callback = None
            _log_failure("callback", self._name, error)


def _log_failure(what: str, where: str, error: Exception) -> None:
    """Log an observer that failed: a sentence, and the traceback if debug messages are on."""
    logger.warning(
        "%s raised %s in %s and is detached; the run continues: %s",
        what, type(error).__name__, where, error,
        extra=event("observer_detached", observer=what, method=where, error=type(error).__name__),
    )  # fmt: skip
    logger.debug("traceback of the detached observer", exc_info=error)
