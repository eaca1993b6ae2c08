"""Options for connecting to Kafka. Passwords come from files or the environment only."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

__all__ = ["kafka_options"]

FILE = click.Path(dir_okay=False, path_type=Path)


def kafka_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which receives those given as the dict `kafka`."""

    @wraps(command)
    def with_kafka(*args: Any, **options: Any) -> Any:
        names = [name for name in options if name.startswith("kafka_")]
        values = {name.removeprefix("kafka_"): options.pop(name) for name in names}
        given = {name: value for name, value in values.items() if value is not None}
        return command(*args, kafka=given or None, **options)

    decorated: Callable[..., Any] = with_kafka
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS = [
    click.option("--kafka-properties", type=FILE, metavar="FILE",
                 help="Kafka: client.properties file; command line options and environment "
                 "variables take precedence."),
    click.option("--kafka-bootstrap", metavar="HOST:PORT,...",
                 help="Kafka: brokers, if SOURCE is kafka:///TOPIC."),
    click.option("--kafka-security", metavar="PROTOCOL",
                 help="Kafka: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.  [default: SASL_SSL with "
                 "a user, SSL with a CA, else PLAINTEXT]"),
    click.option("--kafka-mechanism", metavar="NAME",
                 help="Kafka: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."),
    click.option("--kafka-user", metavar="NAME", help="Kafka: user name. The password comes from "
                 "STREAML1_KAFKA_PASSWORD, --kafka-password-file or --kafka-properties."),
    click.option("--kafka-password-file", type=FILE, metavar="FILE",
                 help="Kafka: file that contains the password only."),
    click.option("--kafka-ca", type=FILE, metavar="FILE",
                 help="Kafka: CA certificate (PEM) used to verify the brokers.  "
                 "[default: system CAs]"),
    click.option("--kafka-certificate", type=FILE, metavar="FILE",
                 help="Kafka: client certificate (PEM)."),
    click.option("--kafka-key", type=FILE, metavar="FILE",
                 help="Kafka: key of the client certificate (PEM), if in another file. Its "
                 "password comes from STREAML1_KAFKA_KEY_PASSWORD."),
    click.option("--kafka-client", metavar="NAME",
                 help="Kafka: kafka-python, or confluent, which reads and writes records faster "
                 "(pip install 'streaml1[confluent]').  [default: kafka-python]"),
]  # fmt: skip
