"""What the user says of a connection to Kafka: a properties file, the environment, options."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from streaml1.sources.source import SourceError

__all__ = ["SETTINGS", "Secret", "Setting", "properties_of", "settings_of"]

SETTINGS = ("bootstrap", "security", "mechanism", "user", "password", "password_file", "ca",
            "certificate", "key", "key_password", "check_hostname")  # fmt: skip
"""What may be said, in the environment as STREAML1_KAFKA_BOOTSTRAP and so on."""

ENVIRONMENT = "STREAML1_KAFKA_"

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
"""Names of Kafka's own clients, and of librdkafka; all others are left alone."""

UNREAD = {
    "ssl.truststore.certificates": "ssl.truststore.location",
    "ssl.keystore.certificate.chain": "ssl.keystore.location",
    "ssl.keystore.key": "ssl.key.location",
    "ssl.ca.pem": "ssl.ca.location",
    "ssl.certificate.pem": "ssl.certificate.location",
    "ssl.key.pem": "ssl.key.location",
}
"""Certificates within the file itself, and how to name the file that they should be in."""

SECRETS = ("password", "key_password")


class Secret(str):
    """A text that no message, report or traceback shows."""

    def __repr__(self) -> str:
        return "(secret)"

    def __str__(self) -> str:
        return "(secret)"

    def __format__(self, spec: str) -> str:
        return "(secret)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere")


class Setting(NamedTuple):
    """What was said, and where."""

    value: Any
    place: str


def settings_of(
    options: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> dict[str, Setting]:
    """What is said by options, else by the environment, else by a properties file.

    Parameters
    ----------
    options
        By the names of `SETTINGS`, and `properties`, the path of a file. None: not said.
    environment
        That of the process, by default.

    Raises
    ------
    SourceError
        One sentence, which repeats no password.
    """
    environment = os.environ if environment is None else environment
    if unknown := sorted(options.keys() - {"properties", *SETTINGS}):
        raise SourceError(f"{unknown[0]} is no setting of Kafka: say {', '.join(SETTINGS)}")
    file = options.get("properties") or environment.get(f"{ENVIRONMENT}PROPERTIES")
    told = dict(_of_file(Path(file))) if file else {}
    layers = (
        {name: Setting(environment.get(at), at) for name, at in _variables()},
        {name: Setting(options.get(name), _option(name)) for name in SETTINGS},
    )
    for layer in layers:
        said = {name: one for name, one in layer.items() if one.value not in (None, "")}
        if "password" in said and "password_file" in said:
            both = f"{said['password'].place} and {said['password_file'].place}"
            raise SourceError(f"{both} both say the password: leave one of them out")
        if "password_file" in said:
            told.pop("password", None)
            said["password"] = _of_password_file(*said.pop("password_file"))
        told |= said
    for name in SECRETS:
        if name in told and not isinstance(told[name].value, Secret):
            told[name] = told[name]._replace(value=Secret(told[name].value))
    return told


def _variables() -> Iterator[tuple[str, str]]:
    return ((name, f"{ENVIRONMENT}{name.upper()}") for name in SETTINGS)


def _option(name: str) -> str:
    return f"--kafka-{name.replace('_', '-')}"


def _of_password_file(path: Any, place: str) -> Setting:
    text = _read(Path(path), place).removesuffix("\n").removesuffix("\r")
    if not text:
        raise SourceError(f"{place} {path} is empty: write the password into it")
    return Setting(Secret(text), place)


def _read(path: Path, place: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise SourceError(f"{place} {path}: {reason}") from None
    except UnicodeDecodeError:
        raise SourceError(f"{place} {path} is no text in UTF-8") from None


# Properties files, as Java reads them


def properties_of(text: str) -> dict[str, str]:
    r"""Names and values of a properties file.

    Examples
    --------
    >>> from streaml1.sources.kafka.client_properties import properties_of
    >>> properties_of("# mine\nsecurity.protocol = SSL\nssl.ca.location: \\\n  /etc/ca.pem\n")
    {'security.protocol': 'SSL', 'ssl.ca.location': '/etc/ca.pem'}

    """
    found = {}
    for line in _logical_lines(text):
        match = re.match(r"((?:\\.|[^\s=:\\])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
        assert match is not None
        found[_unescaped(match[1])] = _unescaped(match[2]).rstrip()
    return found


def _logical_lines(text: str) -> Iterator[str]:
    held = ""
    for natural in text.splitlines():
        line = natural.lstrip()
        if not held and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            held += line[:-1]
            continue
        yield held + line
        held = ""
    if held:
        yield held


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text)


def _of_file(path: Path) -> Iterator[tuple[str, Setting]]:
    found = properties_of(_read(path, "--kafka-properties"))
    for name, instead in UNREAD.items():
        if name in found:
            raise SourceError(f"{path}: {name} is not read: put it in a file, and say {instead}")
    for store in ("ssl.truststore", "ssl.keystore"):
        kind = found.get(f"{store}.type", "PEM" if _is_pem(found.get(f"{store}.location")) else "")
        if f"{store}.location" in found and kind.upper() != "PEM":
            raise SourceError(
                f"{path}: {store}.location is no PEM file: export it with keytool and openssl, "
                f"and say {store}.type=PEM"
            )
    for name, target in PROPERTIES.items():
        if name in found:
            value: Any = found[name]
            if target == "check_hostname":
                value = "yes" if value and value.lower() != "none" else "no"
            yield target, Setting(value, f"{path}: {name}")
    if "sasl.jaas.config" in found:
        yield from _of_jaas(found["sasl.jaas.config"], f"{path}: sasl.jaas.config")


def _is_pem(path: str | None) -> bool:
    return path is not None and path.lower().endswith((".pem", ".crt", ".cer"))


def _of_jaas(text: str, place: str) -> Iterator[tuple[str, Setting]]:
    """User and password of a line such as `...PlainLoginModule required username="a" ...;`."""
    pairs = re.findall(r"""(\w+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""",
                       text)  # fmt: skip
    said = {name: re.sub(r"\\(.)", r"\1", double or single) or bare
            for name, double, single, bare in pairs}  # fmt: skip
    if "username" not in said or "password" not in said:
        raise SourceError(f'{place} has no username="..." and password="...": write both')
    yield "user", Setting(said["username"], place)
    yield "password", Setting(said["password"], place)
