"""Connection security of Kafka clients: plain text, TLS and SASL."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from streaml1.core.named_options import named_option
from streaml1.sources.kafka.client_properties import Secret, Setting, read_settings
from streaml1.sources.source import SourceError

__all__ = ["CONFLUENT", "Security", "SecurityOptions", "parse_brokers", "resolve_security"]

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
CLIENTS = ("kafka-python", "confluent")
CONFLUENT = CLIENTS[1]
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
FILES = ("ca", "certificate", "key", "key_password")
REQUEST_LOGGERS = ("kafka.net.connection", "kafka.protocol.parser")
"""Loggers of kafka-python that write whole requests, passwords included, at level DEBUG."""

_BROKER = re.compile(r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s\[\]:/@,]+)(?::(\d{1,5}))?")


@dataclass(frozen=True)
class Security:
    """Security settings of a Kafka client, checked and loaded.

    Parameters
    ----------
    protocol
        ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
    mechanism
        SASL mechanism: ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``; None without SASL.
    user, password
        SASL credentials.
    context
        TLS context with the trusted certificates and the client's certificate; None without TLS.
    brokers
        Bootstrap servers, used if a URL names none.
    files
        What librdkafka needs instead of `context`: `ca`, `certificate`, `key` and `key_password`.
    client
        ``kafka-python`` or ``confluent``.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    user: str | None = None
    password: Secret | None = None
    context: ssl.SSLContext | None = None
    brokers: tuple[str, ...] = ()
    files: Mapping[str, Any] = field(default_factory=dict, repr=False)
    client: str = "kafka-python"

    @property
    def has_sasl(self) -> bool:
        """Whether clients log in."""
        return self.mechanism is not None

    def client_options(self) -> dict[str, Any]:
        """Return the keyword arguments for consumers, producers and admin clients of kafka-python.

        With SASL this also keeps kafka-python from writing the password to its debug log.
        """
        if self.protocol == "PLAINTEXT":
            return {}
        options: dict[str, Any] = {"security_protocol": self.protocol, "ssl_context": self.context}
        if self.has_sasl:
            for name in REQUEST_LOGGERS:
                logging.getLogger(name).addFilter(_is_above_debug)
            options |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        return options

    def librdkafka_options(self) -> dict[str, Any]:
        """Return the settings for consumers and producers of confluent-kafka."""
        options: dict[str, Any] = {"security.protocol": self.protocol}
        if self.has_sasl and self.password is not None:
            options |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.user,
                "sasl.password": _reveal(self.password),
            }
        if self.context is None:
            return options
        check = "https" if self.context.check_hostname else "none"
        options["ssl.endpoint.identification.algorithm"] = check
        # librdkafka brings its own OpenSSL, which does not know where the system's CAs are.
        system = ssl.get_default_verify_paths()
        ca = self.files.get("ca") or system.cafile or system.capath
        named = {"ssl.ca.location": ca}
        if certificate := self.files.get("certificate"):
            named["ssl.certificate.location"] = certificate
            named["ssl.key.location"] = self.files.get("key", certificate)
        options |= {name: str(path) for name, path in named.items() if path}
        if password := self.files.get("key_password"):
            options["ssl.key.password"] = _reveal(password)
        return options


def _reveal(secret: str) -> str:
    """Return a secret as a plain string, which librdkafka needs."""
    return secret.encode().decode()


def _is_above_debug(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


SecurityOptions = Security | Mapping[str, Any] | str | Path | None
"""Security settings, options by name, the path of a properties file, or None."""


def resolve_security(given: SecurityOptions = None) -> Security:
    """Merge and check security settings: options, then the environment, then a properties file.

    Parameters
    ----------
    given
        The path of a properties file, or settings by name, such as
        ``{"security": "SASL_SSL", "mechanism": "PLAIN", "user": "ann", "password": "..."}``;
        `properties` among them is the path of a properties file. None uses the environment only.

    Raises
    ------
    SourceError
        If a setting is missing, invalid or would be ignored. The message contains no password.

    Examples
    --------
    >>> from streaml1.sources.kafka.security import resolve_security
    >>> security = resolve_security(
    ...     {"mechanism": "SCRAM-SHA-512", "user": "ann", "password": "hush"}
    ... )
    >>> security.protocol, security.password
    ('SASL_SSL', (secret))
    """
    if isinstance(given, Security):
        return given
    options = {"properties": given} if isinstance(given, str | Path) else given or {}
    settings = read_settings(options)
    protocol = _protocol(settings)
    mechanism = _mechanism(settings, protocol) if protocol.startswith("SASL") else None
    _reject_unused(settings, protocol)
    bootstrap = settings.get("bootstrap")
    return Security(
        protocol,
        mechanism,
        settings["user"].value if mechanism else None,
        settings["password"].value if mechanism else None,
        _tls_context(settings) if protocol.endswith("SSL") else None,
        _bootstrap_brokers(bootstrap) if bootstrap else (),
        {name: settings[name].value for name in FILES if name in settings},
        _client(settings),
    )


def parse_brokers(text: str) -> list[str] | None:
    """Split a comma-separated list of brokers and add the default port 9092.

    Returns
    -------
    list[str] or None
        ``host:port`` of each broker; None if one is invalid.

    Examples
    --------
    >>> from streaml1.sources.kafka.security import parse_brokers
    >>> parse_brokers("one,[::1]:9093")
    ['one:9092', '[::1]:9093']
    """
    brokers = []
    for item in filter(None, (item.strip() for item in text.split(","))):
        match = _BROKER.fullmatch(item)
        if match is None or int(match[2] or 1) not in range(1, 65536):
            return None
        brokers.append(f"{match[1]}:{match[2] or 9092}")
    return brokers


def _client(settings: Mapping[str, Setting]) -> str:
    if "client" not in settings:
        return CLIENTS[0]
    value, place = settings["client"]
    if value not in CLIENTS:
        raise SourceError(f"{place} must be one of {', '.join(CLIENTS)}, got {value!r}")
    if value == CONFLUENT and find_spec("confluent_kafka") is None:
        raise SourceError(
            f"{place} confluent needs the package confluent-kafka: pip install "
            "'streaml1[confluent]'"
        )
    return str(value)


def _bootstrap_brokers(setting: Setting) -> tuple[str, ...]:
    value = setting.value if isinstance(setting.value, str) else ",".join(setting.value)
    brokers = parse_brokers(value)
    if not brokers:
        # The value may be a URL with a password: the message must not repeat it.
        raise SourceError(f"{setting.place} must be a list of brokers such as one:9092,two:9092")
    return tuple(brokers)


def _protocol(settings: Mapping[str, Setting]) -> str:
    if "security" not in settings:
        # The default for credentials is TLS: a password must not go over the network in the clear.
        if "user" in settings or "mechanism" in settings:
            return "SASL_SSL"
        return "SSL" if {"ca", "certificate"} & settings.keys() else "PLAINTEXT"
    return _one_of(settings["security"], PROTOCOLS)


def _one_of(setting: Setting, allowed: tuple[str, ...]) -> str:
    value = str(setting.value).upper()
    if value not in allowed:
        listed = ", ".join(allowed)
        raise SourceError(f"{setting.place} must be one of {listed}, got {setting.value!r}")
    return value


def _mechanism(settings: Mapping[str, Setting], protocol: str) -> str:
    if "mechanism" not in settings:
        raise SourceError(
            f"{protocol} needs a mechanism: use {named_option('kafka.mechanism')} with one of "
            f"{', '.join(MECHANISMS)}"
        )
    mechanism = _one_of(settings["mechanism"], MECHANISMS)
    if "user" not in settings:
        raise SourceError(f"{protocol} needs a user: use {named_option('kafka.user')}")
    if "password" not in settings:
        raise SourceError(
            f"{protocol} needs a password: set STREAML1_KAFKA_PASSWORD, or use "
            f"{named_option('kafka.password_file')}"
        )
    return mechanism


def _reject_unused(settings: Mapping[str, Setting], protocol: str) -> None:
    """Reject settings that would silently be ignored: a user without SASL, a CA without TLS."""
    unused = {"SASL": ("user", "password", "mechanism"), "SSL": ("ca", "certificate", "key")}
    for kind, names in unused.items():
        for name in names:
            if name in settings and kind not in protocol:
                raise SourceError(
                    f"{settings[name].place} requires {kind}, but the protocol is {protocol}; "
                    f"remove it, or change {named_option('kafka.security')}"
                )


def _tls_context(settings: Mapping[str, Setting]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    check = settings.get("check_hostname")
    context.check_hostname = True if check is None else _yes_or_no(check)
    if "ca" in settings:
        value, place = settings["ca"]
        try:
            context.load_verify_locations(value)
        except ssl.SSLError:
            raise SourceError(f"{place} {value} contains no PEM certificate") from None
        except OSError as error:
            raise SourceError(f"{place} {value}: {(error.strerror or '').lower()}") from None
    else:
        context.load_default_certs()
    if "certificate" in settings:
        _load_certificate(context, settings)
    elif "key" in settings:
        raise SourceError(
            f"{settings['key'].place} needs a certificate; use "
            f"{named_option('kafka.certificate')}, too"
        )
    return context


def _yes_or_no(setting: Setting) -> bool:
    if setting.value in (True, False):
        return bool(setting.value)
    if str(setting.value).lower() not in ("yes", "no"):
        raise SourceError(f"{setting.place} must be yes or no, got {setting.value!r}")
    return str(setting.value).lower() == "yes"


def _load_certificate(context: ssl.SSLContext, settings: Mapping[str, Setting]) -> None:
    path, place = settings["certificate"]
    key = settings.get("key")
    has_password = "key_password" in settings
    password: Secret | str = settings["key_password"].value if has_password else ""
    calls = []

    def key_password() -> bytes:  # called only if the key is encrypted
        calls.append(True)
        return password.encode()

    try:
        context.load_cert_chain(path, key.value if key else None, key_password)
    except ssl.SSLError:
        if not calls:
            raise SourceError(
                f"{place} {path} contains no PEM certificate with its key; use "
                f"{named_option('kafka.key')} for a key in another file"
            ) from None
        problem = "is wrong" if password else "is missing"
        raise SourceError(
            f"{key.value if key else path} cannot be decrypted: its password {problem}; set "
            "STREAML1_KAFKA_KEY_PASSWORD"
        ) from None
    except OSError as error:
        files = f"{path} and {key.value}" if key else f"{path}"
        raise SourceError(f"{place} {files}: {(error.strerror or '').lower()}") from None
