"""The id of a topic, as a client of kafka-python hears of it: one made anew has another."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["ask", "id_of", "is_missing"]


def id_of(client: Any, name: str) -> str | None:
    """What a consumer or producer was last told; None: not known, or brokers that tell none."""
    cluster = _cluster_of(client)
    known = None if cluster is None else cluster.topic_id(name)
    return None if known is None else str(known)


def is_missing(client: Any, name: str) -> bool:
    """Whether the last answer was that there is no such topic, which was asked about."""
    cluster = _cluster_of(client)
    return (
        cluster is not None
        and name in cluster._topics
        and cluster.topic_id(name) is None
        and cluster.partitions_for_topic(name) is None
        and name not in cluster.unauthorized_topics
    )


def ask(client: Any, name: str, seconds: float) -> None:
    """Have the client hear of a topic from a broker now. Not for kafka-python's own thread.

    That there is no such topic is asked again: a broker learns of a new one after its controller.
    """
    cluster = _cluster_of(client)
    limit = time.monotonic() + seconds
    while cluster is not None and not cluster.closed and time.monotonic() < limit:
        # What is on its way already may have been answered a while ago.
        if not cluster.metadata_refresh_in_progress:
            answer = cluster.request_update()
            while not answer.is_done and time.monotonic() < limit:
                time.sleep(0.001)
            if answer.succeeded() and not is_missing(client, name):
                return
        time.sleep(0.001)


def _cluster_of(client: Any) -> Any:
    """Private names: None in a version of kafka-python that has others."""
    cluster = getattr(getattr(client, "_client", None), "cluster", None)
    cluster = getattr(client, "_metadata", None) if cluster is None else cluster
    return cluster if hasattr(cluster, "topic_id") else None
