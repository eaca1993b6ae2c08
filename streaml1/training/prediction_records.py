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
        self._writer = TopicWriter(as_topic(topic), in_batches=True)
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
        """Handle the start of a run that learns."""
        self.on_predict_start(start.learner)
        self._learns, self._epoch = True, start.epoch

    def on_predict_start(self, model: Any) -> None:
        """Handle the start of predictions by a fixed model."""
        self._model, self._loss, self._epoch = model, loss_of(model), None

    def on_batch(self, batch: Batch) -> None:
        """Send the predictions of a batch; `flush` waits for them."""
        step = 1 if self._learns and batch.y is not None else 0
        n = batch.hi - batch.lo
        steps = np.full(n, step) if batch.held_out is None else step * ~batch.held_out
        learnt = batch.learnt
        if learnt is None:
            learnt = getattr(self._model, "n_iterations", 0) - int(steps.sum())
        # The rows before each row; held-out rows are predicted before any other of the batch.
        before = np.where(steps == step, learnt + np.cumsum(steps) - steps, learnt).tolist()
        self._writer.send_many(self._records(batch, before))

    def _records(self, batch: Batch, before: list[int]) -> list[tuple[str, bytes, int | None]]:
        """Return key, value and partition of each prediction.

        The text of the JSON is put together from its members, since most of them are numbers.
        """
        block, lo, hi = batch.block, batch.lo, batch.hi
        ids = getattr(block, "ids", None)
        names = [None] * (hi - lo) if ids is None else ids[lo:hi]
        epoch = json.dumps(self._epoch)
        records = []
        rows = zip(
            self._prediction_members(batch.p), names, before, _located(block, lo, hi), strict=True
        )
        for prediction, id, n_learnt, (key, place, partition) in rows:
            named = "" if id is None else f'"id": {json.dumps(id)}, '
            text = (
                f'{{{prediction}, {named}"model": {{"examples": {n_learnt}, "epoch": {epoch}}}, '
                f"{place}}}"
            )
            records.append((key, text.encode(), partition))
        return records

    def flush(self) -> None:
        """Wait until all predictions are in the topic."""
        self._writer.flush()

    def _prediction_members(self, p: Floats) -> Iterator[str]:
        """Yield the JSON of each prediction: ``p``, ``value``, or ``label`` and ``p``."""
        if self._loss == "softmax":
            labels = [to_json_label(class_text(label)) for label in self._model.classes_met]
            return (_members(_multiclass_fields(labels, row)) for row in np.asarray(p).tolist())
        p = np.asarray(p, np.float64)
        if self._learns and self._loss in MARGINS:
            p = 1.0 / (1.0 + np.exp(-np.clip(p, -700.0, 700.0)))
        key = "value" if self._loss in REGRESSION else "p"
        return (
            f'"{key}": {number!r}' if isfinite(number) else f'"{key}": null'
            for number in p.tolist()
        )


_Located = tuple[str, str, int | None]
"""Key, coordinates as members of JSON, and partition of a prediction."""


def _located(block: Any, lo: int, hi: int) -> Iterator[_Located]:
    """Yield where the examples of consecutive rows come from."""
    if hasattr(block, "coordinates"):
        topic = ""
        for name, partition, offset, line in block.coordinates(lo, hi):
            if not topic or name != topic:
                topic, head = name, f'"topic": {json.dumps(name)}, "partition": '
            members = f'{head}{partition}, "offset": {offset}'
            key = f"{topic}-{partition}-{offset}"
            if line:
                members, key = f'{members}, "line": {line}', f"{key}:{line}"
            yield key, members, partition
        return
    for row in range(lo, hi):
        origin = block.origin(row)
        place = block.place(row) if origin is None else ""
        partition = None if origin is None else origin.partition
        yield record_key(place, origin), _members(coordinates(place, origin)), partition


def _members(fields: dict[str, Any]) -> str:
    """Return the JSON of an object without its braces."""
    return json.dumps(fields)[1:-1]


def _multiclass_fields(labels: list[Any], p: list[float]) -> dict[str, Any]:
    best = labels[p.index(max(p))] if p else None
    return {"label": best, "p": [list(pair) for pair in zip(labels, p, strict=True)]}


def to_json_label(label: Hashable) -> str | int | float | None:
    """Return a label as JSON can hold it: other types become their `repr`."""
    return label if label is None or isinstance(label, str | int | float) else repr(label)
