"""A model run over a stream: each example is predicted, then learnt, and the report grows."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from streaml1.training.checkpoint import Checkpoints
from streaml1.training.convert import Converted, convert
from streaml1.training.delayed_labels import DelayedLabelRun, DelayedLabels, opened_events
from streaml1.training.error_policy import Refusals, require_positive
from streaml1.training.evaluate import evaluate
from streaml1.training.examples import opened_source, readings_of
from streaml1.training.model_adapter import learner_of, prepare, texts_of
from streaml1.training.observers import Out, Part, Refused
from streaml1.training.predict import Prediction, prediction_blocks, predictions
from streaml1.training.report import Line, Report
from streaml1.training.run import Run, heeded
from streaml1.training.vocabulary_check import unmet_of

__all__ = [
    "Consumer",
    "Converted",
    "Out",
    "Part",
    "Prediction",
    "Refused",
    "convert",
    "evaluate",
    "learner_of",
    "prediction_blocks",
    "predictions",
    "prepare",
    "progressive",
]


def progressive(
    model: Any,
    source: Any,
    *,
    every: int | None = None,
    limit: int | None = None,
    passes: int = 1,
    bad: str = "fail",
    on_line: Callable[[Line], object] | None = None,
    on_start: Callable[[Report], object] | None = None,
    stop: Any = None,
    format: str | None = None,
    target: str | None = None,
    categorical: Iterable[str] = (),
    weight: str | None = None,
    ignore: Iterable[str] = (),
    delimiter: str | None = None,
    seed: int | None = None,
    start: str | None = None,
    until_end: bool = False,
    partitions: Sequence[int] | None = None,
    group: str | None = None,
    kafka: Any = None,
    checkpoint: str | Path | Checkpoints | None = None,
    outs: Sequence[Out] = (),
    label_within: float | None = None,
    labels: str | None = None,
    waiting: int = 1_000_000,
    unanswered: str = "drop",
) -> Report:
    """Predict each example of a stream, then learn it, and report.

    Parameters
    ----------
    model
        An online learner of streaml1, or a river pipeline that ends in one.
    source
        What to learn from: a source as the command line names it (`"clicks.svm"`,
        `"river:Phishing"`, `"stdlib"`), a river dataset or any iterable of `(x, y)` or
        `(x, y, {"w": weight})`, or `(X, y)` or `(X, y, w)` with a data frame, a scipy.sparse
        matrix or a list of dicts.
    every
        A line of the report comes after each so many examples, and at the end. None: after each
        1,000 up to 10,000, after each 10,000 up to 100,000, and so on.
    limit
        At most so many examples are learnt in each pass.
    passes
        How often the source is read.
    bad
        What to do with an example that is refused: `"fail"` stops, `"skip"` counts it, logs the
        first few under "streaml1" (each one, where that logger is at INFO) and goes on. It is never
        learnt.
    on_line
        Called with each line as it comes.
    on_start
        Called with the report once, before the stream is read.
    stop
        A `threading.Event`, or a function: once it is set, or true, the run ends after the
        current block.
    format, target, categorical, weight, ignore, delimiter, seed, start, until_end, partitions
    group, kafka
        As for `open_source`, where the source is a name.
    checkpoint
        A folder. The run goes on from the last checkpoint in it, if there is one, as if it had not
        ended: the model takes its state, and the report goes on too. Else it is the first. Another
        checkpoint follows every ten seconds, and at the end.
    outs
        Who hears of the run beside, such as what writes dead letters; see `streaml1.training.Out`.
    label_within
        Labels come later than their examples: wait for each so many seconds of stream time. The
        source is of JSON lines, or an iterable of dicts, `{"id", "x"}` and `{"id", "y"}`.
    labels
        Of a topic: that of the labels, where it is another.
    waiting
        At most so many examples and labels wait; the oldest go.
    unanswered
        `"drop"` an example whose label has not come in time, or learn it as a `"negative"`.

    Returns
    -------
    Report
        With `lines`, `table()`, `plot(path)` and `write(path)`.

    Raises
    ------
    BadExample
        Where an example is refused and `bad` is `"fail"`; the examples before it are learnt.
    SourceError
        Where the source cannot be read, or not as often as asked; or where the run was stopped, and
        brokers did not take what was written to them: all else is done by then.
    CheckpointError
        Where the folder of checkpoints is another process's, cannot be read or written, or does not
        fit the model or the source.
    TypeError
        Where the source is none, or the model neither learns nor takes rows of such a kind.
    ValueError
        Where another parameter is out of range, or does not go with the others.

    Examples
    --------
    >>> from river import datasets
    >>> import streaml1
    >>> model = streaml1.ElasticNetClassifier(l1=1e-3)
    >>> report = streaml1.progressive(model, datasets.Phishing(), every=500)
    >>> [line.examples for line in report.lines]
    [500, 1000, 1250]
    """
    require_positive(every=every, limit=limit, passes=passes)
    refuse = Refusals(bad, outs)
    late = None if label_within is None else DelayedLabels(label_within, waiting, unanswered)
    if late is not None and passes > 1:
        raise ValueError(f"passes={passes} has no meaning with late labels: they come once")
    if late is None and labels is not None:
        raise ValueError(f"labels={labels!r} are for labels that come late: give label_within too")
    opened = (opened_source if late is None else partial(opened_events, labels=labels))(
        source, format=format, target=target, categorical=categorical, weight=weight,
        ignore=ignore, delimiter=delimiter, seed=seed, text=texts_of(model),
        start=start, until_end=until_end, partitions=partitions, group=group, kafka=kafka,
    )  # fmt: skip
    size = min(one for one in (opened.block, every, limit) if one)
    with _folder(checkpoint) as store:
        make = Run if late is None else partial(DelayedLabelRun, settings=late)
        run = make(
            model, opened, refuse, every=every, limit=limit, on_line=on_line, store=store, outs=outs
        )
        asked = heeded(stop, run)
        run.begin()
        run.outs += unmet_of(model)
        if on_start is not None:
            on_start(run.report)
        with contextlib.closing(readings_of(opened, passes - run.turn, size, refuse)) as readings:
            for number, reading in enumerate(readings):
                if number:
                    run.next_pass()
                run.feed_all(reading, asked, last=run.turn == passes - 1)
                if asked():
                    break
        return run.finish()


class Consumer:
    """A run over a stream, started in one thread and looked at, or stopped, from others.

    Parameters
    ----------
    model, source
        As of `progressive`.
    options
        All else that `progressive` takes, but for `stop`.

    Attributes
    ----------
    report : Report or None
        What has come so far, once the run has begun.

    Raises
    ------
    TypeError
        Where an option is none.

    Examples
    --------
    >>> import threading
    >>> from river import datasets
    >>> import streaml1
    >>> model = streaml1.ElasticNetClassifier(l1=1e-3)
    >>> consumer = streaml1.Consumer(model, datasets.Phishing(), every=500)
    >>> thread = threading.Thread(target=consumer.run)
    >>> thread.start()
    >>> thread.join()
    >>> consumer.report.examples, consumer.model is model
    (1250, True)
    """

    def __init__(self, model: Any, source: Any, **options: Any) -> None:
        if "stop" in options:
            raise TypeError("a Consumer is stopped by its stop(); leave stop= out")
        inspect.signature(progressive).bind(model, source, **options)
        self.model = model
        self.source = source
        self.report: Report | None = None
        self._options = options
        self._stopped = threading.Event()

    def run(self) -> Report:
        """Predict each example, then learn it, to the end of the stream or until `stop`.

        Raises
        ------
        BadExample, SourceError
            As of `progressive`.
        """
        options = {**self._options, "on_start": self._begin}
        return progressive(self.model, self.source, stop=self._stopped, **options)

    def stop(self) -> None:
        """Have the run end after the current block; one that has not begun ends at once."""
        self._stopped.set()

    def _begin(self, report: Report) -> None:
        self.report = report
        on_start = self._options.get("on_start")
        if on_start is not None:
            on_start(report)


def _folder(
    checkpoint: str | Path | Checkpoints | None,
) -> contextlib.AbstractContextManager[Checkpoints | None]:
    if isinstance(checkpoint, str | Path):
        return Checkpoints(checkpoint)
    return contextlib.nullcontext(checkpoint)
