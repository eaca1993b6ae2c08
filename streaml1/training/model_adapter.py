"""What a model of any kind is asked: its loss, and to predict and learn a part."""

from __future__ import annotations

import inspect
import itertools
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from river import base

from streaml1.core.rows import BadExample, shown
from streaml1.optim.tasks import REGRESSION
from streaml1.training.report import MARGINS, MIN_PROBABILITY, NAMES, Report

__all__ = [
    "Learn",
    "called",
    "learner_of",
    "learning_one_of",
    "learning_of",
    "loss_of",
    "places_of",
    "predicting_one_of",
    "prepare",
    "texts_of",
]


def learner_of(model: Any) -> Any:
    """The model itself, or the last step of a river pipeline."""
    steps = getattr(model, "steps", None)
    return learner_of(list(steps.values())[-1]) if isinstance(steps, Mapping) and steps else model


def called(model: Any) -> str:
    """A model in a few words: the parameters that are not the defaults."""
    if not hasattr(model, "_get_params") or learner_of(model) is not model:
        return str(model)
    usual = inspect.signature(type(model)).parameters
    params = [
        f"{name}={value!r}"
        for name, value in model._get_params().items()
        if name not in usual or value != usual[name].default
    ]
    return f"{type(model).__name__}({', '.join(params)})"


def prepare(model: Any) -> None:
    """Have the kernels of a model and its report ready: to compile them first takes seconds."""
    Report("logistic").add([0.5], [True])
    if hasattr(model, "progressive_many"):
        # The second row has its features in another order, which takes a kernel more.
        labels = (getattr(model, "classes", None) or [True, False])[:2]
        # One cross takes the kernels that hundreds do, which are copied in milliseconds, and few
        # slots those of millions, which are cleared in as many.
        few: dict[str, Any] = {}
        if cross := getattr(model, "cross", None):
            few["cross"] = cross[:1]
        if bits := getattr(model, "hash_bits", None):
            few["hash_bits"] = min(bits, 10)
        one = model.clone(few or None)
        one.progressive_many([{"a": 1.0, "b": 1.0}, {"b": 1.0, "a": 1.0}], labels)
        one.watch()


def loss_of(learner: Any) -> str:
    """The loss that is reported of a model."""
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
        f"{type(learner).__name__} is neither a classifier nor a regressor of river; "
        "give a model such as streaml1.ElasticNetClassifier()"
    )


def texts_of(model: Any) -> list[str] | None:
    """Which features the model reads as text; models of river read none."""
    texts: list[str] | None = getattr(model, "text", None)
    return texts


Learn = Callable[[Any, Any, Any], Any]


def learning_of(model: Any, loss: str) -> tuple[Learn, int]:
    """What predicts and learns (X, y, w), and how many rows it may be given at once."""
    if not hasattr(model, "progressive_many"):
        return _one_by_one(model, loss), 1
    if loss == "softmax":
        return model.progressive_many, 2**62
    return _in_turn(model, loss), 2**62


def telling_of(model: Any, loss: str) -> Learn:
    """What predicts (X, y, w) as `learning_of` does, and learns nothing."""
    if not hasattr(model, "progressive_many"):
        predict = _one_after_another(model, loss)
    elif loss == "softmax":
        predict = model.predict_proba_many
    else:
        return lambda xs, ys, ws: model._margins(xs, loss == "logistic")
    if loss != "softmax":
        return lambda xs, ys, ws: predict(xs)

    def tell(xs: Any, ys: Any, ws: Any) -> Any:
        known = set(learner_of(model).classes_met)
        for row, y in enumerate(ys):
            if y not in known:
                raise BadExample(f"label {shown(y)} is none of those that the model knows", row)
        return np.asarray(predict(xs), np.float64)

    return tell


def _in_turn(model: Any, loss: str) -> Learn:
    """Dicts are learnt one by one, which is faster, and those before a bad one alone."""
    tell, teach = predicting_one_of(model, loss), learning_one_of(model)

    def learn(xs: Any, ys: Any, ws: Any) -> Any:
        if not isinstance(xs, list):
            return model.progressive_many(xs, ys, ws)
        p = np.empty(len(xs))
        labels = ys.tolist() if isinstance(ys, np.ndarray) else ys
        weights = itertools.repeat(1.0, len(xs)) if ws is None else ws
        for row, (x, y, w) in enumerate(zip(xs, labels, weights, strict=True)):
            try:
                p[row] = tell(x)
                teach(x, y, w)
            except BadExample:
                if row == 0:
                    raise
                return p[:row]
        return p

    return learn


def predicting_one_of(model: Any, loss: str) -> Callable[[Any], Any]:
    """What tells of one x what `learning_of` would tell, and learns nothing.

    Of many labels it is the bytes of a row of float64, in the order of `classes_met`.
    """
    if loss == "softmax":
        return lambda x: array("d", _told(model, x, loss)).tobytes()
    if not hasattr(model, "progressive_many"):
        return lambda x: _told(model, x, loss)
    if loss == "logistic":
        return lambda x: model.predict_proba_one(x)[True]
    return lambda x: model._margin(x)


def learning_one_of(model: Any) -> Callable[[Any, Any, float], None]:
    """What learns one example (x, y, w); not all models of river know of weights."""

    def learn(x: Any, y: Any, w: float) -> None:
        if w == 1.0:
            model.learn_one(x, y)
        else:
            model.learn_one(x, y, w=w)

    return learn


def _told(model: Any, x: Any, loss: str) -> Any:
    if loss in REGRESSION:
        return model.predict_one(x)
    p = model.predict_proba_one(x)
    if loss == "softmax":
        return [p[label] for label in learner_of(model).classes_met]
    p = p.get(True, 0.5)
    return _margin(p) if loss in MARGINS else p


def _require_dicts(model: Any, xs: Any) -> None:
    """Refuse rows that are no dicts for a model that takes nothing else."""
    if not isinstance(xs, Sequence):
        raise TypeError(
            f"{type(model).__name__} takes one example at a time; give (x, y) pairs, dicts "
            "and labels, not a matrix or a frame"
        )


def _one_after_another(model: Any, loss: str) -> Callable[[Any], Any]:
    """What predicts rows by a pipeline, or another model of river."""

    def predict(xs: Any) -> Any:
        _require_dicts(model, xs)
        p = []
        for row, x in enumerate(xs):
            try:
                p.append(_told(model, x, loss))
            except BadExample as bad:
                raise BadExample(bad.reason, row) from None
        return np.array(p, np.float64)

    return predict


def _one_by_one(model: Any, loss: str) -> Learn:
    """For pipelines, whose steps river teaches one example at a time."""

    def learn(xs: Any, ys: Any, ws: Any) -> Any:
        _require_dicts(model, xs)
        x, y = xs[0], ys[0]
        if loss == "softmax":
            return _one_of_many(model, x, y, ws)
        p = _told(model, x, loss)
        model.learn_one(x, y, **({} if ws is None else {"w": ws[0]}))
        return np.array([p], np.float64)

    return learn


def _one_of_many(model: Any, x: Any, y: Any, ws: Any) -> Any:
    """Probabilities of the labels; one that joins has its share of a model that knows nothing."""
    p = model.predict_proba_one(x)
    model.learn_one(x, y, **({} if ws is None else {"w": ws[0]}))
    labels = learner_of(model).classes_met
    share = 1.0 / len(labels) if y not in p else 0.0
    return np.array([[p[one] * (1.0 - share) if one in p else share for one in labels]])


def places_of(learner: Any, y: Any) -> Any:
    """Which of the labels that a model has met each of `y` is."""
    places = {label: k for k, label in enumerate(learner.classes_met)}
    return np.array([places[one] for one in y], np.intp)


def _margin(p: float) -> float:
    """The margin that has the sigmoid `p`, as far as a float near 1 tells."""
    p = min(max(p, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
    return math.log(p) - math.log1p(-p)
