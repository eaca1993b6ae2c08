"""Kafka connection settings from options, the environment and a properties file.

Java properties syntax (escapes, continuation lines, surrogate pairs) is parsed by `javaproperties`.
This module maps the names in the file to settings and gives each error the place of its value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from streaml1.core.named_options import by_caller, named_option
from streaml1.sources.source import SourceError

__all__ = ["SETTINGS", "Secret", "Setting", "parse_properties", "read_settings"]

SETTINGS = ("bootstrap", "security", "mechanism", "user", "password", "password_file", "ca",
            "certificate", "key", "key_password", "check_hostname", "client")  # fmt: skip
"""Names of the settings; the environment variable of `bootstrap` is STREAML1_KAFKA_BOOTSTRAP."""

ENV_PREFIX = "STREAML1_KAFKA_"

PROPERTIES = {
    "bootstrap.servers": "bootstrap",
    "security.protocol": "security",
    "sasl.mechanism": "mechanism",
    "sasl.mechanisms": "mechanism",
    "sasl.username": "user",
    "sasl.password": "password",
    "ssl.ca.location": "ca",
    "ssl.truststore.location": "ca",
    "ssl.certificate.location": "certificate",
    "ssl.keystore.location": "certificate",
    "ssl.key.location": "key",
    "ssl.key.password": "key_password",
    "ssl.endpoint.identification.algorithm": "check_hostname",
}
"""Setting for each property of the Java clients and of librdkafka; other properties are ignored."""

UNSUPPORTED_PROPERTIES = {
    "ssl.truststore.certificates": "ssl.truststore.location",
    "ssl.keystore.certificate.chain": "ssl.keystore.location",
    "ssl.keystore.key": "ssl.key.location",
    "ssl.ca.pem": "ssl.ca.location",
    "ssl.certificate.pem": "ssl.certificate.location",
    "ssl.key.pem": "ssl.key.location",
}
"""Properties with inline certificates, and the property that names a file instead."""

SECRET_SETTINGS = ("password", "key_password")


class Secret(str):
    """A string that `repr`, `str`, `format`, pickle and copy do not reveal."""

    def __repr__(self) -> str:
        return "(secret)"

    def __str__(self) -> str:
        return "(secret)"

    def __format__(self, spec: str) -> str:
        return "(secret)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied")


class Setting(NamedTuple):
    """A value, and the option, variable or property that gave it."""

    value: Any
    place: str


def read_settings(
    options: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> dict[str, Setting]:
    """Merge settings: options override the environment, which overrides a properties file.

    Parameters
    ----------
    options
        Values by the names in `SETTINGS`, and `properties`, the path of a properties file. None
        means not given.
    environment
        The environment variables, by default those of the process.

    Returns
    -------
    dict[str, Setting]
        The settings that are given. Passwords are `Secret`.

    Raises
    ------
    SourceError
        If a setting is unknown or a file cannot be read. The message contains no password.
    """
    environment = os.environ if environment is None else environment
    if unknown := sorted(options.keys() - {"properties", *SETTINGS}):
        raise SourceError(f"unknown Kafka setting {unknown[0]}; use one of {', '.join(SETTINGS)}")
    path = options.get("properties") or environment.get(f"{ENV_PREFIX}PROPERTIES")
    settings = dict(_settings_in_file(Path(path))) if path else {}
    layers = (
        {name: Setting(environment.get(var), var) for name, var in _variables()},
        {name: Setting(options.get(name), named_option(f"kafka.{name}")) for name in SETTINGS},
    )
    for layer in layers:
        given = {
            name: setting for name, setting in layer.items() if setting.value not in (None, "")
        }
        if "password" in given and "password_file" in given:
            both = f"{given['password'].place} and {given['password_file'].place}"
            raise SourceError(f"{both} both give the password; remove one of them")
        if "password_file" in given:
            settings.pop("password", None)
            given["password"] = _read_password_file(*given.pop("password_file"))
        settings |= given
    for name in SECRET_SETTINGS:
        if name in settings and not isinstance(settings[name].value, Secret):
            settings[name] = settings[name]._replace(value=Secret(settings[name].value))
    return settings


def _variables() -> Iterator[tuple[str, str]]:
    return ((name, f"{ENV_PREFIX}{name.upper()}") for name in SETTINGS)


def _read_password_file(path: str | Path, place: str) -> Setting:
    text = _read_text(Path(path), place).removesuffix("\n").removesuffix("\r")
    if not text:
        raise SourceError(f"{place} {path} is empty; write the password to it")
    return Setting(Secret(text), place)


def _read_text(path: Path, place: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise SourceError(f"{place} {path}: {reason}") from None
    except UnicodeDecodeError:
        raise SourceError(f"{place} {path} is not UTF-8 text") from None


def parse_properties(text: str) -> dict[str, str]:
    r"""Parse a Java properties file, dropping whitespace at the end of values.

    Raises
    ------
    ValueError
        If a ``\u`` escape is malformed. The message contains no value.

    Examples
    --------
    >>> from streaml1.sources.kafka.client_properties import parse_properties
    >>> parse_properties("# mine\nsecurity.protocol = SSL\nssl.ca.location: \\\n  /etc/ca.pem\n")
    {'security.protocol': 'SSL', 'ssl.ca.location': '/etc/ca.pem'}
    """
    import javaproperties  # here, so that only programs with a properties file pay for it

    try:
        properties: dict[str, str] = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError:  # it repeats the escape, which may be of a password
        raise ValueError(r"a \u escape is malformed; write \uXXXX with four hex digits") from None
    return {name: value.rstrip() for name, value in properties.items()}


def _settings_in_file(path: Path) -> Iterator[tuple[str, Setting]]:
    try:
        place = by_caller("--kafka-properties", "the properties file")
        properties = parse_properties(_read_text(path, place))
    except SourceError:
        raise
    except ValueError as error:
        raise SourceError(f"{path}: {error}") from None
    for name, instead in UNSUPPORTED_PROPERTIES.items():
        if name in properties:
            raise SourceError(
                f"{path}: {name} is not supported; write it to a file and set {instead}"
            )
    for store in ("ssl.truststore", "ssl.keystore"):
        location = properties.get(f"{store}.location")
        store_type = properties.get(f"{store}.type", "PEM" if _is_pem(location) else "")
        if location is not None and store_type.upper() != "PEM":
            raise SourceError(
                f"{path}: {store}.location is not a PEM file; export it with keytool and openssl, "
                f"and set {store}.type=PEM"
            )
    for name, target in PROPERTIES.items():
        if name in properties:
            value = properties[name]
            if target == "check_hostname":
                value = "yes" if value and value.lower() != "none" else "no"
            yield target, Setting(value, f"{path}: {name}")
    if "sasl.jaas.config" in properties:
        yield from _jaas_settings(properties["sasl.jaas.config"], f"{path}: sasl.jaas.config")


def _is_pem(path: str | None) -> bool:
    return path is not None and path.lower().endswith((".pem", ".crt", ".cer"))


def _jaas_settings(text: str, place: str) -> Iterator[tuple[str, Setting]]:
    """Yield the login of a line such as `...PlainLoginModule required username="a" ...;`."""
    pairs = re.findall(r"""(\w+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""",
                       text)  # fmt: skip
    login = {name: re.sub(r"\\(.)", r"\1", double or single) or bare
             for name, double, single, bare in pairs}  # fmt: skip
    if "username" not in login or "password" not in login:
        raise SourceError(f'{place} has no username="..." and password="..."; add both')
    yield "user", Setting(login["username"], place)
    yield "password", Setting(login["password"], place)
