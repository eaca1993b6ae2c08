"""The compacted topic of a mixed model: a log that all members read from its start."""

from __future__ import annotations

from streaml1.sources.kafka.broker_connection import StopCheck
from streaml1.sources.kafka.output_topics import create_topic
from streaml1.sources.kafka.producer import TopicWriter, require_compaction, topic_exists
from streaml1.sources.kafka.topic import Topic
from streaml1.training.mixed_models.messages import Message, Record, encode, tombstones
from streaml1.training.mixed_models.reader import MixReader, read_mixed

__all__ = ["MixTopic", "read_mixed"]

TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    # Compaction leaves the active segment alone, which is up to 1 GiB by default.
    "segment.bytes": str(64 * 2**20),
    "segment.ms": str(600 * 1000),
}


class MixTopic(MixReader):
    """A reader and a writer of the topic, which is created if it does not exist.

    Parameters
    ----------
    topic
        The topic; created with one partition and compaction.
    stopped
        Checked while waiting for brokers.

    Raises
    ------
    SourceError
        If the topic cannot be read or written, has several partitions, or is not compacted.
    """

    def __init__(self, topic: Topic, stopped: StopCheck) -> None:
        if topic_exists(topic):
            require_compaction(topic)
        else:
            create_topic(topic, TOPIC_CONFIGS, partitions=1)
        self._writer = TopicWriter(topic)
        self._writer.stop_deadline.set_stop(stopped)
        try:
            super().__init__(topic, stopped)
        except BaseException:
            self._writer.close()
            raise

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()
        super().close()

    def read(self, timeout_ms: int = 0) -> bool:
        """Read the records that have arrived; return whether there is a new base.

        Raises
        ------
        SourceError
            If the topic cannot be read, or a message was not written: nothing would follow it.
        """
        self._writer.raise_failures()
        return super().read(timeout_ms)

    def send(self, message: Message) -> None:
        """Send a message; reading it back is its acknowledgement."""
        for record in encode(message):
            self._send(record)

    def clean_up(self) -> None:
        """Delete the bases of earlier runs, given that the newest base is one of this run."""
        if self.state.base is not None:
            for record in tombstones(self._assembler.keys, self.state.base):
                self._send(record)

    def _send(self, record: Record) -> None:
        self._writer.send(record.key, record.value, list(record.headers), 0)
