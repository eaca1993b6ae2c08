"""Topics to write to: their names, and how they are created."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import closing

from streaml1.sources.kafka.broker_connection import error_text
from streaml1.sources.kafka.topic import Topic, is_topic_name
from streaml1.sources.source import SourceError, shown

__all__ = ["create_topic", "is_same_topic", "output_topic"]


def output_topic(source: Topic, name: str) -> Topic:
    """Return a topic to write to, given by its URL, or by its name at the brokers of `source`.

    Raises
    ------
    SourceError
        If the name is invalid, or the topic is `source` itself.

    Examples
    --------
    >>> from streaml1.sources.kafka.output_topics import output_topic
    >>> from streaml1.sources.kafka.topic import Topic
    >>> output_topic(Topic("kafka://localhost:9092/clicks"), "clicks.dlq").url
    'kafka://localhost:9092/clicks.dlq'
    """
    topic = Topic(name, source.security) if name.startswith("kafka:") else source.sibling(name)
    _require_valid_name(topic)
    if is_same_topic(topic, source):
        raise SourceError(f"{topic.url} is the topic that is read; write to another one")
    return topic


def is_same_topic(a: Topic, b: Topic) -> bool:
    """Return whether two topics have the same name and a broker in common."""
    return a.name == b.name and not set(a.brokers).isdisjoint(b.brokers)


def _require_valid_name(topic: Topic) -> None:
    if not is_topic_name(topic.name):
        raise SourceError(
            f"{shown(topic.name)} is not a valid topic name: use up to 249 letters, digits, dots, "
            "underscores and dashes"
        )


def create_topic(topic: Topic, configs: Mapping[str, str], partitions: int = -1) -> None:
    """Create a topic, unless another client has created it meanwhile.

    Parameters
    ----------
    topic
        The topic.
    configs
        Topic configuration; the brokers' defaults apply to the rest.
    partitions
        Number of partitions; -1 is the brokers' default.

    Raises
    ------
    SourceError
        If the name is invalid, or the brokers do not create the topic.
    """
    from kafka.admin import KafkaAdminClient
    from kafka.errors import TopicAlreadyExistsError

    _require_valid_name(topic)
    requested = {topic.name: {"num_partitions": partitions, "configs": dict(configs)}}
    try:
        with closing(KafkaAdminClient(**topic.client_options())) as admin:
            with contextlib.suppress(TopicAlreadyExistsError):
                admin.create_topics(requested)
            admin.wait_for_topics([topic.name])
    except Exception as error:
        raise SourceError(
            f"{topic.url}: topic {topic.name} does not exist and cannot be created "
            f"({error_text(error)}); create it first"
        ) from None
