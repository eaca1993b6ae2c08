"""An immutable model with its version, and its answers."""

from __future__ import annotations

import heapq
import json
import math
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import orjson

from streaml1.core.rows import BadExample
from streaml1.core.types import Floats
from streaml1.models.explanation import Explanation
from streaml1.models.frozen import Frozen, FrozenClasses
from streaml1.models.pipelines import is_pipeline
from streaml1.models.serialization import ModelFileError
from streaml1.optim.tasks import REGRESSION
from streaml1.serving.model_source import LoadedModel
from streaml1.sources.class_labels import class_text
from streaml1.training.prediction_records import to_json_label

__all__ = ["Answer", "ServedModel", "json_bytes"]

Answer = dict[str, Any]
"""The prediction of one example, as JSON holds it."""

Features = Mapping[Hashable, Any]


@dataclass(frozen=True)
class ServedModel:
    """A model that is served. It never changes: a new version is a new object.

    Parameters
    ----------
    name
        Name in requests.
    version
        Version, the same for the same bytes.
    source
        Where it was published.
    published
        Time of the publication, in seconds since 1970.
    loss
        Its loss; "softmax" for multiclass models.
    texts
        Names that it reads as raw text.
    facts
        What ``/model`` shows besides: class, parameters and sizes.
    frozen
        The predictor.
    """

    name: str
    version: str
    source: str
    published: float
    loss: str
    texts: tuple[str, ...]
    facts: Mapping[str, Any]
    frozen: Frozen

    @classmethod
    def of(cls, name: str, source: str, loaded: LoadedModel) -> ServedModel:
        """Return the model that was read, frozen."""
        model = loaded.model
        if is_pipeline(model):
            raise ModelFileError(
                f"{source} holds a river pipeline, but only models are served: they read the "
                "features of a request themselves"
            )
        is_multiclass = hasattr(model, "classes_met")
        facts = {
            "class": type(model).__name__,
            "parameters": {key: _plain(value) for key, value in model._get_params().items()},
            "examples": model.n_iterations,
            "features_seen": model.n_features_seen,
        }
        frozen = model.freeze()
        loss = "softmax" if is_multiclass else model.loss
        texts = tuple(model.text or ())
        return cls(name, loaded.version, source, loaded.published, loss, texts, facts, frozen)

    @property
    def kind(self) -> str:
        """Name of its class."""
        return str(self.facts["class"])

    @cached_property
    def n_weights(self) -> int:
        """Number of features with a weight."""
        return len(self.frozen.weights)

    @property
    def age(self) -> float:
        """Seconds since the publication."""
        return time.time() - self.published

    @cached_property
    def predict(self) -> Callable[[Features], Answer]:
        """The function that returns the answer to one example; it raises `BadExample`."""
        if isinstance(self.frozen, FrozenClasses):
            return self._predict_label
        return self._predict_number

    def _predict_number(self, x: Features) -> Answer:
        assert self.number is not None
        return {self.number: self.number_of(x)}

    def _predict_label(self, x: Features) -> Answer:
        p = self.frozen.predict_proba_one(x)
        best = max(p, key=p.__getitem__, default=None)
        pairs = [[to_json_label(class_text(y)), v] for y, v in p.items()]
        return {"label": to_json_label(class_text(best)), "p": pairs}

    @cached_property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Headers of its responses."""
        return (("X-Model-Version", self.version),)

    @cached_property
    def number(self) -> str | None:
        """Name of the number that an answer is; None if it is more than one number."""
        if isinstance(self.frozen, FrozenClasses):
            return None
        return "value" if self.loss in REGRESSION else "p"

    @cached_property
    def number_of(self) -> Callable[[Features], float]:
        """The function that returns the `number` of one example; it raises `BadExample`."""
        return self.frozen.predict_one if self.number == "value" else self._probability

    def _probability(self, x: Features) -> float:
        return self.frozen.predict_proba_one(x)[True]

    @cached_property
    def answer_head(self) -> bytes:
        """The beginning of an answer as JSON: the name and the version of the model."""
        return json_bytes({"model": self.name, "version": self.version})[:-1]

    @cached_property
    def number_head(self) -> bytes:
        """The beginning of an answer as JSON, up to its `number`."""
        return b'%s,"%s":' % (self.answer_head, str(self.number).encode())

    @cached_property
    def kernels(self) -> Hashable:
        """A value that is equal for models whose `predict_many` runs the same kernels."""
        return self.number, self.frozen._kernels

    def predict_many(self, rows: Any) -> Floats:
        """Return the `number` of each row, the same as that of `predict`, shape (n,).

        Raises
        ------
        BadExample
            If a value is invalid. `row` is the first such row.
        """
        if isinstance(rows, list):
            return self._numbers_of(rows)
        if self.number == "value":
            values: Floats = self.frozen.predict_many(rows)
            return values
        probabilities: Floats = self.frozen.predict_proba_many(rows)
        return np.ascontiguousarray(probabilities[:, 1])

    def _numbers_of(self, examples: list[Features]) -> Floats:
        numbers = np.empty(len(examples))
        number_of = self.number_of
        row = 0
        try:
            for row, x in enumerate(examples):  # noqa: B007  (also read below)
                numbers[row] = number_of(x)
        except BadExample as error:
            raise BadExample(error.reason, row) from None
        return numbers

    def explain_many(self, examples: Sequence[Features], k: int) -> list[list[Answer]]:
        """Return the `k` largest contributions to the margin of each prediction, and the intercept.

        For a multiclass model it is the margin of the most probable label.
        """
        explanations = self.frozen.explain_many(examples)
        if isinstance(self.frozen, FrozenClasses):
            explanations = [
                max(by_label.values(), key=attrgetter("margin"), default=None)
                for by_label in explanations
            ]
        return [_contributions(explanation, k) for explanation in explanations]

    def score(self, x: Features) -> float:
        """Return what a ranking sorts by: a probability, a value or a margin.

        Raises
        ------
        ValueError
            If the model has several labels, and so no single score.
        """
        if isinstance(self.frozen, FrozenClasses):
            raise ValueError("a model with several labels cannot rank; it has no single score")
        return self.number_of(x)

    # Inspection

    @cached_property
    def _weights(self) -> list[tuple[str, Any, float]]:
        """Name, weight or weights by label, and the largest absolute value of each feature."""
        return [(str(name), w, _size(w)) for name, w in self.frozen.weights.items()]

    def top_weights(self, k: int, prefix: str = "") -> list[dict[str, Any]]:
        """Return the `k` largest weights of the names with a prefix, the largest first."""
        chosen = (entry for entry in self._weights if entry[0].startswith(prefix))
        largest = heapq.nsmallest(k, chosen, key=lambda entry: (-entry[2], entry[0]))
        return [{"name": name, "weight": _json_weight(w)} for name, w, _ in largest]

    def describe(self) -> dict[str, Any]:
        """Return what ``/model`` shows."""
        intercept = self.frozen.intercept
        return {
            "name": self.name,
            "version": self.version,
            "source": self.source,
            "published": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.published)),
            "age": round(self.age, 3),
            "loss": self.loss,
            **self.facts,
            "weights": self.n_weights,
            "intercept": _json_weight(intercept),
        }


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON; names may hold the surrogates that stand for invalid UTF-8."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value).encode()


def _contributions(explanation: Explanation | None, k: int) -> list[Answer]:
    """Return the `k` largest contributions and the intercept; nothing if no label was met."""
    if explanation is None:
        return []
    records = [*explanation.features[:k], explanation[-1]]
    return [{**record._asdict(), "name": str(record.name)} for record in records]


def _size(w: Any) -> float:
    return max(map(abs, w.values()), default=0.0) if isinstance(w, Mapping) else abs(w)


def _json_weight(w: Any) -> Any:
    """Return a weight, or the pairs of labels and weights."""
    return [[to_json_label(y), v] for y, v in w.items()] if isinstance(w, Mapping) else w


def _plain(value: Any) -> Any:
    """Return a parameter as JSON holds it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        items: Iterable[Any] = value
        return [_plain(item) for item in items]
    return str(value)
