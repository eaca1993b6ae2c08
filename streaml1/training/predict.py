"""Predict the examples of a stream with a fixed model."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streaml1.core.option_fields import document_options
from streaml1.core.types import Model
from streaml1.models.explanation import Explanation
from streaml1.optim.tasks import REGRESSION
from streaml1.training.batches import LabelledBlock, accepted_batches
from streaml1.training.config import SOURCE_PARAMETERS, RunConfig, run_config, run_parameters
from streaml1.training.error_policy import ErrorPolicy, SkippedLine
from streaml1.training.example_sources import ExampleSource, open_examples
from streaml1.training.model_adapter import (
    BatchFunction,
    learner_of,
    loss_of,
    river_predictor,
    text_features,
)
from streaml1.training.observers import Batch

__all__ = ["Prediction", "prediction_blocks", "predictions"]

ACCEPTS = ("limit", "bad", "observers")


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction of one example.

    Parameters
    ----------
    line
        Line of the file, or number of the example, from 1.
    p
        Probability of True; for regressors the value; for multiclass models the probability of
        each class. None for a rejected example.
    place
        Location of the example: ``clicks.svm:7``, or ``clicks/0@7`` in a topic.
    explanation
        What `explain_one` of the model returns for the example, if explanations were requested.
    id
        The id of the example in the source, or None.
    """

    line: int
    p: float | dict[Hashable, float] | None
    place: str
    explanation: Explanation | dict[Hashable, Explanation] | None = None
    id: int | str | None = None


@document_options(run_parameters(ACCEPTS), SOURCE_PARAMETERS)
def predictions(
    model: Model,
    source: Any,
    config: RunConfig | None = None,
    *,
    explain: bool = False,
    **options: Any,
) -> Iterator[Prediction]:
    """Predict each example of a stream without learning. Labels are optional.

    Parameters
    ----------
    model
        Model of streaml1, or a river pipeline that ends in one.
    source
        As for `progressive`. `target` names a column that is left out, if the file has one.
    config : RunConfig, optional
        Options of the run. The keywords below override its fields.
    explain : bool, optional
        Whether each prediction has an explanation.
    {options}

    Yields
    ------
    Prediction
        One for each example, including rejected examples that are skipped.

    Raises
    ------
    BadExample
        If an example is rejected and `bad` is `"fail"`, after the predictions before it.
    SourceError
        If the source cannot be read.
    TypeError
        If `source` or `model` has an unsupported type, or an option does not exist.
    ValueError
        If an option is out of range.

    Examples
    --------
    >>> from streaml1 import ElasticNetClassifier
    >>> from streaml1.training import predictions
    >>> [found.p for found in predictions(ElasticNetClassifier(), [({"cheap": 1}, None)])]
    [0.5]
    """
    config = run_config("predictions", config, options, ACCEPTS)
    return itertools.chain.from_iterable(_open(model, source, config, explain))


def prediction_blocks(
    model: Model,
    source: Any,
    config: RunConfig | None = None,
    *,
    explain: bool = False,
    **options: Any,
) -> Iterator[list[Prediction]]:
    """Predict as `predictions` does, but yield lists of predictions that are ready together."""
    config = run_config("prediction_blocks", config, options, ACCEPTS)
    return _open(model, source, config, explain)


def _open(
    model: Model, source: Any, config: RunConfig, explain: bool
) -> Iterator[list[Prediction]]:
    if explain and not hasattr(model, "explain_many"):
        raise TypeError(
            f"explain requires a model of streaml1, got {type(model).__name__}; leave it out"
        )
    policy = ErrorPolicy(config.bad, config.observers)
    options = replace(config.source_options, require_label=False, text=text_features(model))
    return _predict(model, open_examples(source, options), config.limit, policy, explain)


def _predict(
    model: Any, source: ExampleSource, limit: int | None, policy: ErrorPolicy, explain: bool
) -> Iterator[list[Prediction]]:
    loss = loss_of(learner_of(model))
    act = _batch_function(model, loss)
    n_predicted = 0

    def max_rows() -> int:
        return source.block if limit is None else limit - n_predicted

    skipped: list[SkippedLine] = []
    policy.skipped_lines = skipped
    policy.observers.on_predict_start(model)
    with policy.totals_at_failure():
        for block in source.blocks(min(source.block, limit or source.block), policy):
            unlabelled = LabelledBlock(block.x, None, None, [], block)

            def act_on(lo: int, hi: int, rows: LabelledBlock = unlabelled) -> Any:
                return act(*rows.rows(lo, hi))

            for lo, hi, p in accepted_batches(unlabelled, act_on, max_rows, policy):
                ready: list[Prediction] = []
                policy.observers.on_batch(Batch(block, lo, hi, None, None, p))
                explanations = (
                    model.explain_many(unlabelled.rows(lo, hi)[0])
                    if explain
                    else itertools.repeat(None, hi - lo)
                )
                pairs = zip(_values(model, loss, p), explanations, strict=True)
                ids = getattr(block, "ids", None)
                for row, (value, explanation) in enumerate(pairs, start=lo):
                    line = block.lines[row]
                    ready += _skipped_before(skipped, line)
                    id = None if ids is None else ids[row]
                    ready.append(Prediction(line, value, block.place(row), explanation, id))
                yield ready
                n_predicted += hi - lo
            if max_rows() == 0:
                break
            del block, unlabelled, act_on  # lets the reader reuse their memory for the next block
        if max_rows():
            policy.observers.on_pass_end()
    policy.observers.on_end()
    if max_rows() and (rest := list(_skipped_before(skipped, None))):
        yield rest
    policy.log_total()
    policy.log_reasons()


def _batch_function(model: Any, loss: str) -> BatchFunction:
    if not hasattr(model, "progressive_many"):  # a pipeline: its margins are not of interest
        outputs = river_predictor(model, loss if loss in (*REGRESSION, "softmax") else "logistic")
        return lambda x, y, w: outputs(x)

    def predict(x: Any, y: Any, w: Any) -> Any:
        if loss == "softmax":
            return np.asarray(model.predict_proba_many(x), np.float64)
        if loss in REGRESSION:
            return np.asarray(model.predict_many(x), np.float64)
        return np.asarray(model.predict_proba_many(x), np.float64)[:, 1]

    return predict


def _values(model: Any, loss: str, p: Any) -> list[Any]:
    """Return the predictions of a batch as numbers, or as dicts of class probabilities."""
    if loss != "softmax":
        values: list[Any] = p.tolist()
        return values
    return [dict(zip(learner_of(model).classes_met, row, strict=True)) for row in p.tolist()]


def _skipped_before(skipped: list[SkippedLine], line: int | None) -> Iterator[Prediction]:
    """Yield empty predictions for the examples skipped before a line, or for all that are left."""
    while skipped and (line is None or skipped[0].number < line):
        number, place = heapq.heappop(skipped)
        yield Prediction(number, None, place)
