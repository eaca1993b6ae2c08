"""One interface to models of streaml1, river models and pipelines: loss, predict, learn."""

from __future__ import annotations

import inspect
import itertools
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from river import base

from streaml1.core.rows import BadExample, is_missing, shown
from streaml1.core.types import Example, Label, SampleWeights
from streaml1.models.pipelines import (
    calls_own_code,
    is_pipeline,
    learner_of,
    require_instance,
    text_inputs,
)
from streaml1.optim.tasks import REGRESSION, RESPONSES
from streaml1.training.report import MARGINS, MIN_PROBABILITY, NAMES, Report

__all__ = [
    "BatchAction",
    "BatchFunction",
    "batch_learner",
    "batch_predictor",
    "class_indices",
    "describe_model",
    "learner_of",
    "loss_of",
    "prepare",
    "river_predictor",
    "row_learner",
    "row_predictor",
    "text_features",
]

BatchFunction = Callable[[Any, Any, Any], Any]
"""``f(X, y, w)``: returns predictions of the rows it has handled, which may be the first few."""

PredictRow = Callable[[Any], Any]

UNBOUNDED = 2**62


class BatchAction(NamedTuple):
    """A function of batches, and the maximum number of rows it takes at once."""

    act: BatchFunction
    max_rows: int


def describe_model(model: Any) -> str:
    """Return the class of a model and its parameters that differ from the defaults."""
    if not hasattr(model, "_get_params") or learner_of(model) is not model:
        return str(model)
    defaults = inspect.signature(type(model)).parameters
    params = [
        f"{name}={value!r}"
        for name, value in model._get_params().items()
        if name not in defaults or value != defaults[name].default
    ]
    return f"{type(model).__name__}({', '.join(params)})"


def prepare(model: Any) -> None:
    """Compile the kernels of a model and of its report, which takes seconds the first time."""
    model = learner_of(model)
    is_quantile = getattr(model, "loss", None) == "quantile"
    Report("quantile" if is_quantile else "logistic").add([0.5], [True])
    if hasattr(model, "progressive_many"):
        labels = (getattr(model, "classes", None) or [True, False])[:2]
        # Shrink what would take long to set up. One cross compiles the same kernels as hundreds,
        # and a small hash table the same as millions of slots.
        small: dict[str, Any] = {}
        if cross := getattr(model, "cross", None):
            small["cross"] = cross[:1]
        if bits := getattr(model, "hash_bits", None):
            small["hash_bits"] = min(bits, 10)
        clone = model.clone(small or None)
        # The second row has its features in another order, which needs one more kernel.
        clone.progressive_many([{"a": 1.0, "b": 1.0}, {"b": 1.0, "a": 1.0}], labels)
        clone.watch()


def loss_of(learner: Any) -> str:
    """Return the loss that the report of a model shows.

    Raises
    ------
    TypeError
        If it is not a classifier or regressor.
    """
    if hasattr(learner, "classes_met"):
        return "softmax"
    loss = getattr(learner, "loss", None)
    if isinstance(loss, str) and loss in NAMES:
        return loss
    if isinstance(learner, base.Regressor):
        return "squared"
    if isinstance(learner, base.Classifier):
        return "logistic"
    raise TypeError(
        "model must be a river classifier or regressor such as streaml1.ElasticNetClassifier(), "
        f"got {type(learner).__name__}"
    )


def text_features(model: Any) -> list[str] | None:
    """Return the names that a model or its `BagOfWords` and `TFIDF` read as raw text, or None.

    Raises
    ------
    TypeError
        If it is a class.
    """
    require_instance(model)
    texts: list[str] | None = getattr(model, "text", None)
    return text_inputs(model) if texts is None else texts


# Batches


def batch_learner(model: Any, loss: str) -> BatchAction:
    """Return the action that predicts the rows of a batch and then learns them."""
    if not hasattr(model, "progressive_many"):
        return BatchAction(_single_row_learner(model, loss), 1)
    if loss == "softmax":
        return BatchAction(model.progressive_many, UNBOUNDED)
    return BatchAction(_streaml1_learner(model, loss), UNBOUNDED)


def batch_predictor(model: Any, loss: str) -> BatchAction:
    """Return the action that predicts a batch as `batch_learner` does, and learns nothing."""
    if hasattr(model, "progressive_many") and loss != "softmax":
        return BatchAction(lambda xs, ys, ws: model._margins(xs, loss in RESPONSES), UNBOUNDED)
    if hasattr(model, "progressive_many"):
        predict = model.predict_proba_many
    else:
        predict = river_predictor(model, loss)
    if loss != "softmax":
        return BatchAction(lambda xs, ys, ws: predict(xs), UNBOUNDED)

    def predict_known(xs: Any, ys: Any, ws: SampleWeights) -> Any:
        known = set(learner_of(model).classes_met)
        for row, y in enumerate(ys):
            if y not in known:
                raise BadExample(f"label {shown(y)} is unknown to the model", row)
        return np.asarray(predict(xs), np.float64)

    return BatchAction(predict_known, UNBOUNDED)


def _streaml1_learner(model: Any, loss: str) -> BatchFunction:
    """Return the batch learner of a model of streaml1 for two classes or regression.

    Dicts are learnt one by one, which is faster than as a batch. Rows before a bad one are learnt
    on their own.
    """
    predict, teach = row_predictor(model, loss), row_learner(model)

    def learn(xs: Any, ys: Any, ws: SampleWeights) -> Any:
        if not isinstance(xs, list):
            return model.progressive_many(xs, ys, ws)
        p = np.empty(len(xs))
        labels = ys.tolist() if isinstance(ys, np.ndarray) else ys
        weights = itertools.repeat(1.0, len(xs)) if ws is None else ws
        for row, (x, y, w) in enumerate(zip(xs, labels, weights, strict=True)):
            try:
                p[row] = predict(x)
                teach(x, y, w)
            except BadExample:
                if row == 0:
                    raise
                return p[:row]
        return p

    return learn


def _single_row_learner(model: Any, loss: str) -> BatchFunction:
    """Return the learner of a pipeline, whose steps river updates one example at a time."""

    def learn(xs: Any, ys: Any, ws: SampleWeights) -> Any:
        _require_dicts(model, xs)
        with _input_of(model, xs[0]) as x:
            if loss == "softmax":
                return _progressive_class_row(model, x, ys[0], ws)
            p = _predict_row(model, x, loss)
            _learn_row(model, x, ys[0], ws)
            return np.array([p], np.float64)

    return learn


def _learn_row(model: Any, x: Example, y: Label, ws: SampleWeights) -> None:
    """Learn the first row of a batch; not all river models take weights."""
    model.learn_one(x, y, **({} if ws is None else {"w": ws[0]}))


def _progressive_class_row(model: Any, x: Example, y: Label, ws: SampleWeights) -> Any:
    """Predict class probabilities and learn.

    A class that joins with this example gets the probability 1/k of a model that knows nothing.
    """
    p = model.predict_proba_one(x)
    _learn_row(model, x, y, ws)
    labels = learner_of(model).classes_met
    share = 1.0 / len(labels) if y not in p else 0.0
    row = [p[label] * (1.0 - share) if label in p else share for label in labels]
    return np.array([row])


def river_predictor(model: Any, loss: str) -> Callable[[Any], Any]:
    """Return the batch predictor of a pipeline or another river model."""

    def predict(xs: Sequence[Example]) -> Any:
        _require_dicts(model, xs)
        p = []
        for row, x in enumerate(xs):
            try:
                with _input_of(model, x) as given:
                    p.append(_predict_row(model, given, loss))
            except BadExample as error:
                raise BadExample(error.reason, row) from None
        return np.array(p, np.float64)

    return predict


def _require_dicts(model: Any, xs: Any) -> None:
    """Reject matrices and frames for a model that takes one example at a time."""
    if not isinstance(xs, Sequence):
        raise TypeError(
            f"{type(model).__name__} takes one example at a time; give a frame with the name of "
            "its label as target=, (x, y) pairs, or dicts and labels, not a matrix"
        )


# Single rows


def row_predictor(model: Any, loss: str) -> PredictRow:
    """Return the function that predicts one x as `batch_learner` does, and learns nothing.

    For softmax it returns the bytes of a row of float64, in the order of `classes_met`.
    """
    if loss == "softmax":
        predict = _predict_input if is_pipeline(model) else _predict_row
        return lambda x: array("d", predict(model, x, loss)).tobytes()
    if not hasattr(model, "progressive_many"):
        return lambda x: _predict_input(model, x, loss)
    if loss == "logistic":
        return lambda x: model.predict_proba_one(x)[True]
    return lambda x: model._margin(x, loss in RESPONSES)


def row_learner(model: Any) -> Callable[[Any, Any, float], None]:
    """Return the function that learns one example (x, y, w)."""

    def learn(x: Example, y: Label, w: float) -> None:
        if w == 1.0:  # not all river models take weights
            model.learn_one(x, y)
        else:
            model.learn_one(x, y, w=w)

    def learn_input(x: Example, y: Label, w: float) -> None:
        with _input_of(model, x) as given:
            learn(given, y, w)

    return learn_input if is_pipeline(model) else learn


@contextmanager
def _input_of(model: Any, x: Example) -> Iterator[Example]:
    """Give an example to a model: a pipeline gets None for all missing values, for its imputers.

    The first step of a pipeline decides what an example is: `BagOfWords` reads a string.

    Raises
    ------
    BadExample
        If a step of river fails on it. What the code of a caller raises has a traceback instead.
    """
    if not is_pipeline(model):
        yield x
        return
    features = x.items() if hasattr(type(x), "items") else ()
    missing = [name for name, value in features if is_missing(value)]
    if missing:
        x = {**x, **dict.fromkeys(missing)}
    try:
        yield x
    except BadExample:
        raise
    except Exception as error:
        if calls_own_code(model):
            raise
        raise BadExample(_fault_of_step(error, missing)) from error


def _fault_of_step(error: Exception, missing: Sequence[Any]) -> str:
    """Return why a step of a pipeline fails."""
    if isinstance(error, KeyError) and error.args:
        return f"a step of the pipeline needs {shown(error.args[0])}, which the example lacks"
    if missing and isinstance(error, TypeError):
        return (
            f"a step of the pipeline fails on the missing value of {shown(missing[0])}: fill in "
            "such values before it, as with preprocessing.StatImputer of river"
        )
    return f"a step of the pipeline fails: {type(error).__name__}: {error}"


def _predict_input(model: Any, x: Example, loss: str) -> Any:
    with _input_of(model, x) as given:
        return _predict_row(model, given, loss)


def _predict_row(model: Any, x: Example, loss: str) -> Any:
    """Return what the report takes: a value, a probability, a margin, or class probabilities."""
    if loss in REGRESSION:
        return model.predict_one(x)
    p = model.predict_proba_one(x)
    if loss == "softmax":
        return [p[label] for label in learner_of(model).classes_met]
    p = p.get(True, 0.5)
    return _margin_of(p) if loss in MARGINS else p


def class_indices(learner: Any, y: Any) -> Any:
    """Return the index of each label among the classes that a model knows."""
    index_of = {label: k for k, label in enumerate(learner.classes_met)}
    return np.array([index_of[label] for label in y], np.intp)


def _margin_of(p: float) -> float:
    """Return the margin whose sigmoid is `p`, clipped where floats near 1 run out of digits."""
    p = min(max(p, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
    return math.log(p) - math.log1p(-p)
