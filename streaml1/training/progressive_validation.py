"""Progressive validation: predict each example of a stream, then learn it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from streaml1.core.option_fields import document_options
from streaml1.core.types import Model
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.config import RUN_PARAMETERS, SOURCE_PARAMETERS, RunConfig, run_config
from streaml1.training.data_checks import DataChecks
from streaml1.training.delayed_labels import DelayedLabelRun, open_events
from streaml1.training.error_policy import ErrorPolicy
from streaml1.training.example_sources import ExampleSource, open_examples, open_passes
from streaml1.training.model_adapter import text_features
from streaml1.training.observers import GuardedCallback
from streaml1.training.progress_bar import ProgressBar
from streaml1.training.report import Report
from streaml1.training.run import Run
from streaml1.training.vocabulary_check import known_names, vocabulary_check

__all__ = ["block_size", "progressive"]


@document_options(RUN_PARAMETERS, SOURCE_PARAMETERS)
def progressive(
    model: Model, source: Any, config: RunConfig | None = None, **options: Any
) -> Report:
    """Predict each example of a stream, then learn it, and report.

    Parameters
    ----------
    model
        Online learner of streaml1, or a river pipeline that ends in one.
    source
        What to learn from: a source by its name (`"clicks.svm"`, `"river:Phishing"`,
        `"stdlib"`), several files (a list, a directory, `"part-*.csv"`), a river dataset or any
        iterable of `(x, y)` or `(x, y, {"w": weight})`, or `(X, y)` or `(X, y, w)` with a data
        frame, a scipy.sparse matrix or a list of dicts. With `target`: a frame, or an iterable of
        frames or of dicts such as `{"clicked": 1, "site": "news"}`.
    config : RunConfig, optional
        Options of the run. The keywords below override its fields, and those of its
        `source_options`.
    {options}

    Returns
    -------
    Report
        With `lines`, `table()`, `plot(path)` and `write(path)`. A notebook shows table and plot.

    Raises
    ------
    BadExample
        If an example is rejected and `bad` is `"fail"`. The examples before it are learnt.
    SourceError
        If the source cannot be read, or not as many times as `passes`. Also if the run was stopped
        and brokers did not take what was written to them; everything else is done by then.
    CheckpointError
        If the checkpoint directory belongs to another process, cannot be read or written, or does
        not fit the model or the source.
    TypeError
        If `source` or `model` has an unsupported type, or an option does not exist.
    ValueError
        If an option is out of range or cannot be combined with another.

    Examples
    --------
    >>> from river import datasets
    >>> import streaml1
    >>> model = streaml1.ElasticNetClassifier(l1=1e-3)
    >>> report = streaml1.progressive(model, datasets.Phishing(), every=500)
    >>> [line.examples for line in report.lines]
    [500, 1000, 1250]
    """
    config = run_config("progressive", config, options)
    policy = ErrorPolicy(config.bad, config.observers)
    opened = _open(model, source, config)
    bar = ProgressBar(config.limit, config.passes) if config.progress else None
    with _checkpoints(config.checkpoint) as store, bar or contextlib.nullcontext():
        make = Run if config.label_within is None else DelayedLabelRun
        run = make(model, opened, policy, config, store=store)
        run.set_stop(config.stop)
        if config.data_checks and not any(isinstance(o, DataChecks) for o in run.observers):
            run.observers.attach(DataChecks())
        if bar is not None:
            run.observers.attach(bar)
        run.begin()
        if (check := vocabulary_check(model)) is not None:
            run.observers.attach(check)
        known = known_names(model) if config.data_checks and config.label_within is None else None
        if known is not None:
            run.observers.attach(known)
        GuardedCallback("on_start", config.on_start)(run.report)
        _feed_passes(run, policy, config)
        return run.finish()


def _open(model: Model, source: Any, config: RunConfig) -> ExampleSource:
    options = replace(config.source_options, text=text_features(model))
    if config.label_within is None:
        return open_examples(source, options)
    return open_events(source, options)


def _checkpoints(
    checkpoint: str | Path | Checkpoints | None,
) -> contextlib.AbstractContextManager[Checkpoints | None]:
    """Open a directory of checkpoints; one that the caller has opened stays open afterwards."""
    if isinstance(checkpoint, str | Path):
        return Checkpoints(checkpoint)
    return contextlib.nullcontext(checkpoint)


def block_size(source: ExampleSource, config: RunConfig) -> int:
    """Return the maximum number of rows of a block; a block ends at the first line at the latest.

    The stop condition, which `on_line` may set, is checked between blocks.
    """
    return min(size for size in (source.block, config.every, config.limit) if size)


def _feed_passes(run: Run, policy: ErrorPolicy, config: RunConfig) -> None:
    """Feed the passes that are left; a resumed run has done some."""
    passes = config.passes - run.pass_index
    size = block_size(run.source, config)
    with contextlib.closing(open_passes(run.source, passes, size, policy)) as readings:
        for number, blocks in enumerate(readings):
            if number:
                run.next_pass()
            run.feed_all(blocks, last=run.pass_index == config.passes - 1)
            if run.is_stopped:
                break
