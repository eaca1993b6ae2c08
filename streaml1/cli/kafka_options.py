"""The options that tell how to connect to Kafka: none of them is a password."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

__all__ = ["kafka_options"]

FILE = click.Path(dir_okay=False, path_type=Path)


def kafka_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gets what was said of them as `kafka`, a dict by name."""

    @wraps(command)
    def gathered(*args: Any, **options: Any) -> Any:
        names = [name for name in options if name.startswith("kafka_")]
        said = {name.removeprefix("kafka_"): options.pop(name) for name in names}
        given = {name: one for name, one in said.items() if one is not None}
        return command(*args, kafka=given or None, **options)

    decorated: Callable[..., Any] = gathered
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS = [
    click.option("--kafka-properties", type=FILE, metavar="FILE",
                 help="Kafka: settings as in a client.properties; what else is said goes before."),
    click.option("--kafka-bootstrap", metavar="HOST:PORT,...",
                 help="Kafka: the brokers, where SOURCE is kafka:///TOPIC."),
    click.option("--kafka-security", metavar="PROTOCOL",
                 help="Kafka: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.  [default: SASL_SSL with "
                 "a user, SSL with a CA, else PLAINTEXT]"),
    click.option("--kafka-mechanism", metavar="NAME",
                 help="Kafka: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."),
    click.option("--kafka-user", metavar="NAME", help="Kafka: who logs in; the password is in "
                 "STREAML1_KAFKA_PASSWORD or one of these files."),
    click.option("--kafka-password-file", type=FILE, metavar="FILE",
                 help="Kafka: holds the password and nothing else."),
    click.option("--kafka-ca", type=FILE, metavar="FILE",
                 help="Kafka: PEM, who vouches for brokers.  [default: those of the system]"),
    click.option("--kafka-certificate", type=FILE, metavar="FILE",
                 help="Kafka: PEM, the certificate that the client shows."),
    click.option("--kafka-key", type=FILE, metavar="FILE",
                 help="Kafka: PEM, its key, if it stands apart; its password is in "
                 "STREAML1_KAFKA_KEY_PASSWORD."),
]  # fmt: skip
