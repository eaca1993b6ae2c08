"""The model of a run put in a topic, every so often."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from streaml1.sources.kafka.topic import Topic
from streaml1.training.checkpoint import require_model
from streaml1.training.model_registry.publisher import ModelTopic
from streaml1.training.observers import Out

if TYPE_CHECKING:
    from streaml1.training.run import Run

__all__ = ["EVERY", "Publishing"]

EVERY = 60.0


class Publishing(Out):
    """Puts the model in a topic after so many seconds, and at the end.

    A context manager: give it to `progressive` as one of `outs`. Whatever was put there is read by
    `streaml1.load`.

    Parameters
    ----------
    topic
        ``kafka://host:port/topic``: of two partitions and compacted; made where it is not there.
    seconds
        From the beginning of one publication to that of the next; none where nothing was learnt.

    Raises
    ------
    SourceError
        Where the topic cannot be written, or would not keep a model.
    """

    def __init__(self, topic: str | Topic, seconds: float = EVERY) -> None:
        self.seconds = seconds
        self._topic = ModelTopic(topic)

    def __enter__(self) -> Publishing:
        return self

    def __exit__(self, *error: object) -> None:
        self._topic.__exit__()

    def heed(self, stopped: Callable[[], bool]) -> None:
        """Once stopped, wait only as long as brokers take something."""
        self._topic.stop_deadline.set_stop(stopped)

    def begin(self, run: Run) -> None:
        """The first publication is due after `seconds`."""
        require_model(run.model)
        self._model = run.model
        self._published = 0
        self._began = time.monotonic()

    def fed(self) -> None:
        """Publish, if it is time."""
        if time.monotonic() - self._began >= self.seconds:
            self._publish()

    def finish(self) -> None:
        """Publish what was learnt since."""
        self._publish()

    def _publish(self) -> None:
        self._began = time.monotonic()
        if self._model.n_iterations != self._published:
            self._topic.publish(self._model)
            self._published = self._model.n_iterations
