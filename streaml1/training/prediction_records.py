"""Predictions written to a topic, each made before its example is learnt."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from math import isfinite
from typing import Any

import numpy as np

from streaml1.core.types import Floats
from streaml1.optim.tasks import REGRESSION
from streaml1.sources.class_labels import class_text
from streaml1.sources.kafka.producer import TopicWriter, as_topic
from streaml1.sources.kafka.topic import Topic
from streaml1.training.model_adapter import loss_of
from streaml1.training.observers import Batch, Observer, RunStart
from streaml1.training.record_coordinates import coordinates, record_key
from streaml1.training.report import MARGINS

__all__ = ["PredictionRecords", "to_json_label"]


class PredictionRecords(Observer):
    """Observer that writes each prediction to a topic, as JSON with the coordinates as key.

    Use it as a context manager, and pass it to `progressive` or `predictions` among
    `observers`.

    Parameters
    ----------
    topic
        ``kafka://host:port/topic``; created if it does not exist.

    Raises
    ------
    SourceError
        If the topic cannot be written.
    """

    essential = True

    def __init__(self, topic: str | Topic) -> None:
        self._writer = TopicWriter(as_topic(topic))
        self.url = self._writer.topic.url
        self._learns = False

    def __enter__(self) -> PredictionRecords:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def set_stop(self, stopped: Callable[[], bool]) -> None:
        """Set the stop condition, after which `flush` waits only while brokers make progress."""
        self._writer.stop_deadline.set_stop(stopped)

    def on_start(self, start: RunStart) -> None:
        """Handle the start of a run, whose model learns."""
        self.on_predict_start(start.learner)
        self._learns, self._epoch = True, start.epoch

    def on_predict_start(self, model: Any) -> None:
        """Handle the start of predictions by a fixed model."""
        self._model, self._loss, self._epoch = model, loss_of(model), None

    def on_batch(self, batch: Batch) -> None:
        """Send the predictions of a batch; `flush` waits for them."""
        block = batch.block
        ids = getattr(block, "ids", None)
        step = 1 if self._learns and batch.y is not None else 0
        n = batch.hi - batch.lo
        steps = np.full(n, step) if batch.held_out is None else step * ~batch.held_out
        learnt = batch.learnt
        if learnt is None:
            learnt = getattr(self._model, "n_iterations", 0) - int(steps.sum())
        # The rows before each row; held-out rows are predicted before any other of the batch.
        before = np.where(steps == step, learnt + np.cumsum(steps) - steps, learnt).tolist()
        rows = range(batch.lo, batch.hi)
        for row, record in zip(rows, self._prediction_fields(batch.p), strict=True):
            origin = block.origin(row)
            place = block.place(row) if origin is None else ""
            if ids is not None and ids[row] is not None:
                record["id"] = ids[row]
            record["model"] = {"examples": before[row - batch.lo], "epoch": self._epoch}
            record |= coordinates(place, origin)
            partition = None if origin is None else origin.partition
            value = json.dumps(record).encode()
            self._writer.send(record_key(place, origin), value, None, partition)

    def flush(self) -> None:
        """Wait until all predictions are in the topic."""
        self._writer.flush()

    def _prediction_fields(self, p: Floats) -> Iterator[dict[str, Any]]:
        """Yield the fields of each prediction: ``p``, ``value``, or ``label`` and ``p``."""
        if self._loss == "softmax":
            labels = [to_json_label(class_text(label)) for label in self._model.classes_met]
            return (_multiclass_fields(labels, row) for row in np.asarray(p).tolist())
        p = np.asarray(p, np.float64)
        if self._learns and self._loss in MARGINS:
            p = 1.0 / (1.0 + np.exp(-np.clip(p, -700.0, 700.0)))
        key = "value" if self._loss in REGRESSION else "p"
        return ({key: number if isfinite(number) else None} for number in p.tolist())


def _multiclass_fields(labels: list[Any], p: list[float]) -> dict[str, Any]:
    best = labels[p.index(max(p))] if p else None
    return {"label": best, "p": [list(pair) for pair in zip(labels, p, strict=True)]}


def to_json_label(label: Hashable) -> str | int | float | None:
    """Return a label as JSON can hold it: other types become their `repr`."""
    return label if label is None or isinstance(label, str | int | float) else repr(label)
