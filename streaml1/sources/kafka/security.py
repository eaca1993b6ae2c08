"""How to connect to the brokers of Kafka: plainly, or by TLS and SASL."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streaml1.sources.kafka.client_properties import Secret, Setting, settings_of
from streaml1.sources.source import SourceError

__all__ = ["Security", "brokers_of", "security_of"]

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TELLTALE = ("kafka.net.connection", "kafka.protocol.parser")
"""Loggers of kafka-python that write whole requests, passwords within, when they debug."""

_BROKER = re.compile(r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s\[\]:/@,]+)(?::(\d{1,5}))?")


@dataclass(frozen=True)
class Security:
    """What a client of Kafka needs to come in.

    Parameters
    ----------
    protocol
        ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
    mechanism
        Of SASL: ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``.
    user, password
        For SASL.
    context
        For TLS: whom to trust, and the certificate of the client.
    brokers
        Where to begin, if a URL does not say.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    user: str | None = None
    password: Secret | None = None
    context: ssl.SSLContext | None = None
    brokers: tuple[str, ...] = ()

    @property
    def has_sasl(self) -> bool:
        """Whether a user logs in."""
        return self.mechanism is not None

    def arguments(self) -> dict[str, Any]:
        """What consumers, producers and admins of kafka-python take of it."""
        if self.protocol == "PLAINTEXT":
            return {}
        told: dict[str, Any] = {"security_protocol": self.protocol, "ssl_context": self.context}
        if self.has_sasl:
            for name in TELLTALE:
                logging.getLogger(name).addFilter(_is_no_request)
            told |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        return told


def _is_no_request(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


def security_of(given: Security | Mapping[str, Any] | str | Path | None = None) -> Security:
    """How to come in, as the caller says, else the environment, else a properties file.

    Parameters
    ----------
    given
        The path of a properties file, or settings by their names, such as
        ``{"security": "SASL_SSL", "mechanism": "PLAIN", "user": "ann", "password": "..."}``;
        `properties` among them is the path of a file. None: what the environment says.

    Raises
    ------
    SourceError
        One sentence, which repeats no password.

    Examples
    --------
    >>> from streaml1.sources.kafka.security import security_of
    >>> told = security_of({"mechanism": "SCRAM-SHA-512", "user": "ann", "password": "hush"})
    >>> told.protocol, told.password
    ('SASL_SSL', (secret))

    """
    if isinstance(given, Security):
        return given
    options = {"properties": given} if isinstance(given, str | Path) else given or {}
    said = settings_of(options)
    protocol = _protocol(said)
    mechanism = _login(said, protocol) if protocol.startswith("SASL") else None
    _require_use(said, protocol)
    bootstrap = said.get("bootstrap")
    return Security(
        protocol,
        mechanism,
        said["user"].value if mechanism else None,
        said["password"].value if mechanism else None,
        _context(said) if protocol.endswith("SSL") else None,
        _bootstrap(bootstrap) if bootstrap else (),
    )


def brokers_of(text: str) -> list[str] | None:
    """The brokers of a list with commas, each with its port; None where one is none.

    Examples
    --------
    >>> from streaml1.sources.kafka.security import brokers_of
    >>> brokers_of("one,[::1]:9093")
    ['one:9092', '[::1]:9093']

    """
    found = []
    for one in filter(None, (one.strip() for one in text.split(","))):
        match = _BROKER.fullmatch(one)
        if match is None or int(match[2] or 1) not in range(1, 65536):
            return None
        found.append(f"{match[1]}:{match[2] or 9092}")
    return found


def _bootstrap(said: Setting) -> tuple[str, ...]:
    value = said.value if isinstance(said.value, str) else ",".join(said.value)
    brokers = brokers_of(value)
    if not brokers:
        # What stands there may be a URL with a password in it: it is not repeated.
        raise SourceError(f"{said.place} is no list of brokers such as one:9092,two:9092")
    return tuple(brokers)


def _protocol(said: Mapping[str, Setting]) -> str:
    if "security" not in said:  # nobody who names a user wants to send a password in the clear
        if "user" in said or "mechanism" in said:
            return "SASL_SSL"
        return "SSL" if {"ca", "certificate"} & said.keys() else "PLAINTEXT"
    value, place = said["security"]
    protocol = str(value).upper()
    if protocol not in PROTOCOLS:
        raise SourceError(f"{place} {value!r} is not known: say one of {', '.join(PROTOCOLS)}")
    return protocol


def _login(said: Mapping[str, Setting], protocol: str) -> str:
    if "mechanism" not in said:
        raise SourceError(
            f"{protocol} needs a mechanism: say --kafka-mechanism, one of {', '.join(MECHANISMS)}"
        )
    value, place = said["mechanism"]
    mechanism = str(value).upper()
    if mechanism not in MECHANISMS:
        raise SourceError(f"{place} {value!r} is not known: say one of {', '.join(MECHANISMS)}")
    if "user" not in said:
        raise SourceError(f"{protocol} needs a user: say --kafka-user")
    if "password" not in said:
        raise SourceError(
            f"{protocol} needs a password: set STREAML1_KAFKA_PASSWORD, or say "
            "--kafka-password-file"
        )
    return mechanism


def _require_use(said: Mapping[str, Setting], protocol: str) -> None:
    """Refuse what would silently not be used: a user without SASL, a CA without TLS."""
    unused = {"SASL": ("user", "password", "mechanism"), "SSL": ("ca", "certificate", "key")}
    for kind, names in unused.items():
        for name in names:
            if name in said and kind not in protocol:
                raise SourceError(
                    f"{said[name].place} is for {kind}, and the protocol is {protocol}: leave it "
                    f"out, or say another --kafka-security"
                )


def _context(said: Mapping[str, Setting]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = _is_yes(said["check_hostname"]) if "check_hostname" in said else True
    if "ca" in said:
        value, place = said["ca"]
        try:
            context.load_verify_locations(value)
        except ssl.SSLError:
            raise SourceError(f"{place} {value} holds no certificate in PEM format") from None
        except OSError as error:
            raise SourceError(f"{place} {value}: {(error.strerror or '').lower()}") from None
    else:
        context.load_default_certs()
    if "certificate" in said:
        _load_certificate(context, said)
    elif "key" in said:
        raise SourceError(f"{said['key'].place} is of no certificate: say --kafka-certificate too")
    return context


def _is_yes(said: Setting) -> bool:
    if said.value in (True, False):
        return bool(said.value)
    if str(said.value).lower() not in ("yes", "no"):
        raise SourceError(f"{said.place} {said.value!r} is not known: say yes or no")
    return str(said.value).lower() == "yes"


def _load_certificate(context: ssl.SSLContext, said: Mapping[str, Setting]) -> None:
    path, place = said["certificate"]
    key = said.get("key")
    password: Secret | str = said["key_password"].value if "key_password" in said else ""
    asked = []

    def told() -> bytes:
        asked.append(True)
        return password.encode()

    try:
        context.load_cert_chain(path, key.value if key else None, told)
    except ssl.SSLError:
        if not asked:
            raise SourceError(
                f"{place} {path}: no certificate with its key in PEM format; the key may stand in "
                "a file of its own, for --kafka-key"
            ) from None
        what = "is not the right one" if password else "is needed"
        raise SourceError(
            f"{key.value if key else path} cannot be opened: its password {what}; set "
            "STREAML1_KAFKA_KEY_PASSWORD"
        ) from None
    except OSError as error:
        files = f"{path} and {key.value}" if key else f"{path}"
        raise SourceError(f"{place} {files}: {(error.strerror or '').lower()}") from None
