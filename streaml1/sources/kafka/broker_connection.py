"""The brokers of a topic: whether they answer, settings of clients, errors in one sentence."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from streaml1.core.named_options import by_caller, named_option
from streaml1.sources.kafka.broker_diagnostics import NoAnswer, has_address, probe
from streaml1.sources.kafka.partition_merge import POLL_MS
from streaml1.sources.kafka.security import Security
from streaml1.sources.source import Lost, SourceError, Unavailable, shown

__all__ = ["CONNECT_SECONDS", "BrokerConnection", "StopCheck", "error_text"]

StopCheck = Callable[[], bool]
"""Returns whether the run has been stopped."""

CONNECT_SECONDS = 5.0

PROBE_SECONDS = 2.0
"""Timeout of a connection check."""

RECONNECT_SECONDS = 1.0
"""Longest time between two attempts to connect to a broker. kafka-python's default is 30 seconds:
after a restart of a broker that took a few, members of a group were away for most of a minute."""


class BrokerConnection:
    """How to connect to the brokers of a URL.

    Parameters
    ----------
    url
        The URL, for errors.
    brokers
        Host and port of each broker.
    security
        The security settings of clients.
    settings
        More settings of clients of kafka-python.

    Attributes
    ----------
    remedy : str
        What to do if offsets that were noted no longer refer to the same records, for errors.
    """

    def __init__(
        self, url: str, brokers: list[str], security: Security, settings: Mapping[str, Any]
    ) -> None:
        self.url, self.brokers, self.security, self.settings = url, brokers, security, settings
        self._reachable_brokers = brokers  # as of the last check
        self.remedy = "start again, with another directory for checkpoints"

    def client_options(self) -> dict[str, Any]:
        """Return the settings that consumers, producers and admin clients share."""
        return {
            "bootstrap_servers": self._reachable_brokers,
            "client_id": "streaml1",
            **self.security.client_options(),
            "bootstrap_timeout_ms": round(1000 * CONNECT_SECONDS),
            "reconnect_backoff_max_ms": round(1000 * RECONNECT_SECONDS),
            "kafka_client": _client_without_auto_create,
            **self.settings,
        }

    def librdkafka_options(self) -> dict[str, Any]:
        """Return the settings that consumers and producers of confluent-kafka share."""
        return {
            "bootstrap.servers": ",".join(self._reachable_brokers),
            "client.id": "streaml1",
            **self.security.librdkafka_options(),
        }

    def wait_until_reachable(self, stopped: StopCheck) -> bool:
        """Wait up to `CONNECT_SECONDS` for a broker; return False if stopped meanwhile.

        Call this before making a client of kafka-python. Without a broker, a client leaks sockets;
        with a silent broker first in the list, it waits for that one although another answers.

        Raises
        ------
        Unavailable
            If no broker answers.
        SourceError
            If the brokers that answer reject the client.
        """
        deadline = time.monotonic() + CONNECT_SECONDS
        while not self.is_reachable(stopped):
            if stopped():
                return False
            if time.monotonic() > deadline:
                raise self._no_answer_error()
            time.sleep(POLL_MS / 1000)
        return True

    def is_reachable(self, stopped: StopCheck = lambda: False) -> bool:
        """Return whether a broker accepts the client now.

        Raises
        ------
        SourceError
            If all brokers that answer reject the client.
        """
        # Before the threads start: the import may take longer than a connection check.
        import kafka.protocol.metadata  # noqa: F401

        results: dict[str, Exception | None] = {}

        def check(broker: str) -> None:
            try:
                probe(broker, self.security, PROBE_SECONDS)
                results[broker] = None
            except (NoAnswer, SourceError) as error:
                results[broker] = error

        for broker in self.brokers:  # the threads are not joined: a broker may be silent
            threading.Thread(target=check, args=(broker,), daemon=True).start()
        deadline = time.monotonic() + PROBE_SECONDS + 1.0
        while len(results) < len(self.brokers) and None not in list(results.values()):
            if stopped() or time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        reachable = [broker for broker, error in list(results.items()) if error is None]
        self._reachable_brokers = reachable or self._reachable_brokers
        rejections = [error for error in results.values() if isinstance(error, SourceError)]
        if rejections and not reachable:
            raise SourceError(f"{self.url}: {rejections[0]}")
        return bool(reachable)

    def _no_answer_error(self) -> Unavailable:
        brokers = ", ".join(self.brokers)
        hint = "is one running?"
        if not any(map(has_address, self.brokers)):
            hint = "the host name has no address; check its spelling"
        return Unavailable(f"{self.url}: no broker answers at {brokers}: {hint}")

    def read_error(self, error: Exception) -> SourceError:
        """Convert an error of kafka-python while reading to one sentence."""
        from kafka import errors

        if isinstance(error, SourceError):
            return error
        if isinstance(error, errors.OffsetOutOfRangeError) and isinstance(error.args[0], dict):
            ((tp, offset), *_) = error.args[0].items()
            return Lost(
                f"{tp.topic}/{tp.partition}@{offset} no longer exists: the topic has deleted or "
                f"lost the record; {self.remedy}"
            )
        if isinstance(error, errors.KafkaTimeoutError):
            return self._no_answer_error()
        if isinstance(error, errors.InvalidSessionTimeoutError):
            option = by_caller("--session-timeout", "session")
            return SourceError(
                f"{self.url}: the brokers reject this session timeout; use {option} between their "
                "group.min.session.timeout.ms and group.max.session.timeout.ms, by default 6 to "
                "1800 seconds"
            )
        if isinstance(error, errors.InconsistentGroupProtocolError):
            return SourceError(
                f"{self.url}: a member of this consumer group is another program, or learns other "
                f"models; use another name for {named_option('group')}"
            )
        user = shown(self.security.user)
        if isinstance(error, errors.SaslAuthenticationFailedError):
            return SourceError(f"{self.url}: the broker rejects user {user} with this password")
        if isinstance(error, errors.AuthorizationError):
            resource = type(error).__name__.partition("Authorization")[0].lower()
            who = f"user {user}" if self.security.user else "a client without a user"
            return SourceError(
                f"{self.url}: {who} is not authorized for this {resource}; add an ACL"
            )
        if isinstance(error, errors.LogTruncationError):
            ((tp, divergent), *_) = error.divergent_offsets.items()
            back = "" if divergent is None else f" to offset {divergent.offset}"
            return Lost(
                f"{tp.topic}/{tp.partition} has lost records that were read: its log was truncated"
                f"{back}; {self.remedy}"
            )
        codec = re.search(r"for (\w+) compression codec", str(error))
        if isinstance(error, errors.UnsupportedCodecError) and codec:
            return SourceError(
                f"{self.url} is compressed with {codec[1]}, which needs a library: pip install "
                "'streaml1[codecs]'"
            )
        kind = Unavailable if getattr(error, "retriable", False) else SourceError
        if isinstance(error, errors.CorruptRecordError):
            kind = Lost
        return kind(f"{self.url} cannot be read: {error_text(error)}")


def error_text(error: Exception) -> str:
    """Return the whole message of an error on one line, or its type if it has none."""
    return repr(" ".join(str(error).split()) or type(error).__name__)[1:-1]


def _client_without_auto_create(**settings: Any) -> Any:
    """Make the network client of a consumer, producer or admin client; it creates no topics.

    kafka-python 3.0 drops `allow_auto_create_topics` on the way to the metadata requests. A topic
    that is deleted while it is in use would be recreated at once, empty, with default settings.
    """
    from kafka import KafkaConsumer

    client = KafkaConsumer.DEFAULT_CONFIG["kafka_client"](**settings)
    config = getattr(getattr(client, "cluster", None), "config", {})
    if "allow_auto_create_topics" in config:
        config["allow_auto_create_topics"] = False
    return client
