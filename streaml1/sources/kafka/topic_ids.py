"""Topic ids, as known to a kafka-python client: a topic that was recreated has another id."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.cluster import ClusterMetadata

__all__ = ["is_missing", "known_topic_id", "refresh_metadata"]


def known_topic_id(client: KafkaConsumer | KafkaProducer, name: str) -> str | None:
    """Return the topic id in the last metadata; None if unknown, or for brokers without ids."""
    cluster = _cluster_metadata(client)
    topic_id = None if cluster is None else cluster.topic_id(name)
    return None if topic_id is None else str(topic_id)


def is_missing(client: KafkaConsumer | KafkaProducer, name: str) -> bool:
    """Return whether the last metadata covers the topic and says that it does not exist."""
    cluster = _cluster_metadata(client)
    return (
        cluster is not None
        and name in cluster._topics
        and cluster.topic_id(name) is None
        and cluster.partitions_for_topic(name) is None
        and name not in cluster.unauthorized_topics
    )


def refresh_metadata(client: KafkaConsumer | KafkaProducer, name: str, timeout: float) -> bool:
    """Update the client's metadata within `timeout` seconds; return whether a broker answered.

    Do not call this from kafka-python's own thread: it waits for that thread. Metadata without the
    topic are requested again, because a broker learns of a new topic later than its controller.
    """
    cluster = _cluster_metadata(client)
    deadline = time.monotonic() + timeout
    while cluster is not None and not cluster.closed and time.monotonic() < deadline:
        # A request that is in flight may have been answered before the topic changed.
        if not cluster.metadata_refresh_in_progress:
            response = cluster.request_update()
            while not response.is_done and time.monotonic() < deadline:
                time.sleep(0.001)
            if response.succeeded() and not is_missing(client, name):
                return True
        time.sleep(0.001)
    return False


def _cluster_metadata(client: Any) -> ClusterMetadata | None:
    """Return a private attribute of the client; None if this kafka-python does not have it."""
    client = getattr(client, "metadata_client", client)  # of a client of confluent-kafka
    cluster = getattr(getattr(client, "_client", None), "cluster", None)
    cluster = getattr(client, "_metadata", None) if cluster is None else cluster
    return cluster if hasattr(cluster, "topic_id") else None
