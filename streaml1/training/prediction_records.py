"""Predictions written to a topic: each example's, made before it is learnt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from streaml1.optim.tasks import REGRESSION
from streaml1.sources.kafka.producer import TopicWriter, as_topic
from streaml1.sources.kafka.topic import Topic
from streaml1.training.model_adapter import loss_of
from streaml1.training.observers import Out, Part
from streaml1.training.record_coordinates import coordinates, record_key
from streaml1.training.report import MARGINS

if TYPE_CHECKING:
    from streaml1.training.run import Run

__all__ = ["PredictionRecords"]


class PredictionRecords(Out):
    """Writes each prediction to a topic, as JSON, keyed by where the example stands.

    A context manager: give it to `progressive` or to `predictions` as one of `outs`.

    Parameters
    ----------
    topic
        ``kafka://host:port/topic``; made where it is not there.

    Raises
    ------
    SourceError
        Where the topic cannot be written.
    """

    def __init__(self, topic: str | Topic) -> None:
        self._writer = TopicWriter(as_topic(topic))
        self.url = self._writer.topic.url
        self._learns = False

    def __enter__(self) -> PredictionRecords:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def heed(self, stopped: Callable[[], bool]) -> None:
        """Once stopped, wait only as long as brokers take something."""
        self._writer.stop_deadline.set_stop(stopped)

    def begin(self, run: Run) -> None:
        """What comes are the predictions of a model that learns."""
        self.look(run.learner)
        self._learns, self._epoch = True, run.epoch

    def look(self, model: Any) -> None:
        """What comes are the predictions of a model that learns nothing."""
        self._model, self._loss, self._epoch = model, loss_of(model), None

    def predicted(self, part: Part) -> None:
        """Hand the predictions over; `flush` waits for them."""
        block = part.block
        ids = getattr(block, "ids", None)
        step = 1 if self._learns and part.y is not None else 0
        learnt = part.learnt
        if learnt is None:
            learnt = getattr(self._model, "n_iterations", 0) - step * (part.hi - part.lo)
        for row, told in zip(range(part.lo, part.hi), self._told(part.p), strict=True):
            origin = block.origin(row)
            place = block.place(row) if origin is None else ""
            if ids is not None and ids[row] is not None:
                told["id"] = ids[row]
            examples = learnt + step * (row - part.lo)
            told["model"] = {"examples": examples, "epoch": self._epoch}
            told |= coordinates(place, origin)
            partition = None if origin is None else origin.partition
            self._writer.send(record_key(place, origin), json.dumps(told).encode(), None, partition)

    def flush(self) -> None:
        """Return once all predictions are in the topic."""
        self._writer.flush()

    def _told(self, p: Any) -> Iterator[dict[str, Any]]:
        """What is said of each example, beside where it stands."""
        if self._loss == "softmax":
            labels = [jsonable(label) for label in self._model.classes_met]
            return (_of_many(labels, row) for row in np.asarray(p).tolist())
        p = np.asarray(p, np.float64)
        if self._learns and self._loss in MARGINS:
            p = 1.0 / (1.0 + np.exp(-np.clip(p, -700.0, 700.0)))
        key = "value" if self._loss in REGRESSION else "p"
        return ({key: one if isfinite(one) else None} for one in p.tolist())


def _of_many(labels: list[Any], p: list[float]) -> dict[str, Any]:
    best = labels[p.index(max(p))] if p else None
    return {"label": best, "p": [list(one) for one in zip(labels, p, strict=True)]}


def jsonable(label: Any) -> Any:
    """A label as JSON can hold it."""
    return label if label is None or isinstance(label, str | int | float) else repr(label)
