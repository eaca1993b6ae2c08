"""Observer that publishes the model of a run at intervals."""

from __future__ import annotations

import time
from collections.abc import Callable

from streaml1.sources.kafka.topic import Topic
from streaml1.training.checkpoint import require_model
from streaml1.training.drift import Drift
from streaml1.training.model_registry.publisher import ModelTopic
from streaml1.training.observers import Observer, RunStart

__all__ = ["DEFAULT_SECONDS", "ModelPublisher"]

DEFAULT_SECONDS = 60.0


class ModelPublisher(Observer):
    """Observer that publishes the model to a topic at intervals, and at the end.

    `streaml1.load` reads the newest model of the topic. Use this as a context manager, and pass it
    to `progressive` among `observers`.

    Parameters
    ----------
    topic
        ``kafka://host:port/topic`` with two partitions and compaction; created if it does not
        exist.
    seconds
        Interval between the starts of two publications. Nothing is published if nothing was learnt
        since the last one.

    Raises
    ------
    SourceError
        If the topic cannot be written, has one partition, or is not compacted.
    """

    essential = True
    publishes = True

    def __init__(self, topic: str | Topic, seconds: float = DEFAULT_SECONDS) -> None:
        self.seconds = seconds
        self._topic = ModelTopic(topic)
        self._n_published = 0

    def __enter__(self) -> ModelPublisher:
        return self

    def __exit__(self, *error: object) -> None:
        self._topic.close()

    def set_stop(self, stopped: Callable[[], bool]) -> None:
        """Set the stop condition, after which it waits only while brokers make progress."""
        self._topic.stop_deadline.set_stop(stopped)

    def on_start(self, start: RunStart) -> None:
        """Start the first interval."""
        require_model(start.model)
        self._model = start.model
        self._published_examples = 0
        self._published_at = time.monotonic()

    def on_drift(self, drift: Drift, action: str) -> None:
        """Publish at once if the run asks for it."""
        if action == "publish":
            self._publish()

    def on_block_end(self) -> None:
        """Publish if the interval is over."""
        if time.monotonic() - self._published_at >= self.seconds:
            self._publish()

    def on_end(self) -> None:
        """Publish what was learnt since the last publication."""
        self._publish()

    def _publish(self) -> None:
        self._published_at = time.monotonic()
        if self._model.n_iterations != self._published_examples:
            self._topic.publish(self._model)
            self._published_examples = self._model.n_iterations
            self._n_published += 1

    def metrics(self) -> dict[str, float]:
        """Return the number of publications of this process."""
        return {"publications_total": float(self._n_published)}
