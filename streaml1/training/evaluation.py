"""Evaluate a fixed model on labelled examples."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from streaml1.core.option_fields import document_options
from streaml1.core.types import Model
from streaml1.training.config import SOURCE_PARAMETERS, RunConfig, run_config, run_parameters
from streaml1.training.error_policy import ErrorPolicy
from streaml1.training.example_sources import open_examples, open_passes
from streaml1.training.model_adapter import text_features
from streaml1.training.observers import GuardedCallback
from streaml1.training.progressive_validation import block_size
from streaml1.training.report import Report
from streaml1.training.run import Run
from streaml1.training.vocabulary_check import known_names

__all__ = ["evaluate"]

ACCEPTS = ("every", "limit", "bad", "on_line", "on_start", "stop", "observers")


@document_options(run_parameters(ACCEPTS), SOURCE_PARAMETERS)
def evaluate(model: Model, source: Any, config: RunConfig | None = None, **options: Any) -> Report:
    """Predict each labelled example of a stream without learning, and report.

    Parameters
    ----------
    model
        Model of streaml1, or a river pipeline. A multiclass model rejects unknown labels.
    source
        As for `progressive`.
    config : RunConfig, optional
        Options of the run. The keywords below override its fields.
    {options}

    Returns
    -------
    Report
        As for `progressive`. The baseline still learns from the labels.

    Raises
    ------
    BadExample
        If an example is rejected and `bad` is `"fail"`.
    SourceError
        If the source cannot be read. After a stop it may be an `Unfinished`, with the report.
    TypeError
        If `source` or `model` has an unsupported type, or an option does not exist.
    ValueError
        If an option is out of range.

    Examples
    --------
    >>> from streaml1 import ElasticNetClassifier
    >>> from streaml1.training import evaluate
    >>> model = ElasticNetClassifier()
    >>> model.learn_many([{"a": 1.0}, {"b": 1.0}] * 50, [True, False] * 50)
    >>> report = evaluate(model, [({"a": 1.0}, True), ({"b": 1.0}, False)])
    >>> report.examples, report.lines[-1].error, model.n_iterations
    (2, 0.0, 100)
    """
    config = run_config("evaluate", config, options, ACCEPTS)
    policy = ErrorPolicy(config.bad, config.observers)
    opened = open_examples(source, replace(config.source_options, text=text_features(model)))
    run = Run(model, opened, policy, config, learns=False)
    run.set_stop(config.stop)
    run.begin()
    if (check := known_names(model)) is not None:
        run.observers.attach(check)
    GuardedCallback("on_start", config.on_start)(run.report)
    with contextlib.closing(open_passes(opened, 1, block_size(opened, config), policy)) as passes:
        run.feed_all(next(passes), last=True)
    return run.finish()
