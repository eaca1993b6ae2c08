"""Whether a broker answers, and if not, why: clients of kafka-python only wait then."""

from __future__ import annotations

import socket
import ssl
import struct

from streaml1.sources.kafka.security import Security
from streaml1.sources.source import SourceError, shown

__all__ = ["Silent", "has_address", "probe"]

METADATA, SASL_HANDSHAKE, SASL_AUTHENTICATE = 3, 17, 36
ILLEGAL_SASL_STATE, UNSUPPORTED_SASL_MECHANISM = 34, 33


class Silent(Exception):
    """Nothing answers there, as yet."""


class _Closed(Exception):
    """The broker has closed the connection, or speaks another language."""


def probe(broker: str, security: Security, seconds: float) -> None:
    """Say one thing to a broker, as a client with that security would.

    Raises
    ------
    Silent
        Where nothing listens, or listens and does not answer in time.
    SourceError
        One sentence, where something answers that will not let us in.
    """
    try:
        with _connected(broker, seconds) as plain:
            if security.context is None:
                _talk(plain, broker, security)
                return
            with _encrypted(plain, broker, security.context) as connection:
                _talk(connection, broker, security)
    except _Closed as closed:
        raise SourceError(f"{broker} {closed.args[0]}") from None
    except (TimeoutError, OSError):
        raise Silent from None


def has_address(broker: str) -> bool:
    """Whether the name of a broker leads anywhere."""
    host, _, port = broker.rpartition(":")
    try:
        return bool(socket.getaddrinfo(host.strip("[]"), int(port)))
    except OSError:
        return False


def _connected(broker: str, seconds: float) -> socket.socket:
    host, _, port = broker.rpartition(":")
    connection = socket.create_connection((host.strip("[]"), int(port)), timeout=seconds)
    connection.settimeout(seconds)
    return connection


def _encrypted(plain: socket.socket, broker: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    host = broker.rpartition(":")[0].strip("[]").rstrip(".")
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message.rstrip(".")
        remedy = "look at --kafka-ca" if "name" not in why and "IP" not in why else (
            "name the broker as its certificate does")  # fmt: skip
        raise _Closed(f"shows a certificate that is not trusted ({why}): {remedy}") from None
    except TimeoutError:
        raise
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            raise _Closed(_refusal(error)) from None
        raise _Closed(NO_TLS) from None
    except OSError:  # a broker without TLS just leaves
        raise _Closed(NO_TLS) from None


NO_TLS = "speaks no TLS: say --kafka-security PLAINTEXT or SASL_PLAINTEXT, or another port"


def _refusal(error: ssl.SSLError) -> str:
    """What an alert of TLS means: a certificate is wanted, or that of the client is none."""
    reason = (error.reason or "").lower().replace("_", " ")
    if "certificate" in reason or "unknown ca" in reason:
        return (
            f"wants a certificate of the client that it trusts ({reason}): look at "
            "--kafka-certificate and --kafka-key"
        )
    return f"ends the TLS handshake ({reason}): look at --kafka-security and --kafka-ca"


def _talk(connection: socket.socket, broker: str, security: Security) -> None:
    try:
        if security.mechanism is not None:
            _ask_for_sasl(connection, security.mechanism)
            _log_in(connection, security)
        else:
            _exchange(connection, METADATA, 1, struct.pack(">i", 0))  # of no topic
    except ssl.SSLError as error:
        raise _Closed(_refusal(error)) from None
    except ConnectionError:
        raise _Closed(_what_it_wants(broker, security)) from None


def _what_it_wants(broker: str, security: Security) -> str:
    """Why a broker has left after one word; Silent where that was its end."""
    if security.context is None and _speaks_tls(broker):
        return "speaks TLS: say --kafka-security SSL or SASL_SSL"
    if security.mechanism is None and _asks_who_comes(broker, security):
        return "wants a user to log in: say --kafka-security SASL_SSL or SASL_PLAINTEXT"
    _connected(broker, 1.0).close()  # a broker that was killed listens no more
    return "closes the connection: is it a broker of Kafka?"


def _asks_who_comes(broker: str, security: Security) -> bool:
    """Whether a broker answers the first word of a login."""
    try:
        with _connected(broker, 1.0) as plain:
            if security.context is None:
                return _knows_mechanisms(plain)
            with _encrypted(plain, broker, security.context) as connection:
                return _knows_mechanisms(connection)
    except (OSError, _Closed):
        return False


def _knows_mechanisms(connection: socket.socket) -> bool:
    error, _ = _mechanisms(connection, "none of them")
    return error == UNSUPPORTED_SASL_MECHANISM


def _speaks_tls(broker: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _connected(broker, 1.0) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def _ask_for_sasl(connection: socket.socket, mechanism: str) -> None:
    error, offered = _mechanisms(connection, mechanism)
    if error == UNSUPPORTED_SASL_MECHANISM:
        listed = " or ".join(sorted(offered))
        raise _Closed(f"takes no {mechanism}: say --kafka-mechanism {listed}")
    if error == ILLEGAL_SASL_STATE:
        raise _Closed("lets everyone in without a user: say --kafka-security PLAINTEXT or SSL")


def _mechanisms(connection: socket.socket, mechanism: str) -> tuple[int, list[str]]:
    """What a broker says to a way to log in: an error of Kafka's, and which ways it takes."""
    name = mechanism.encode()
    answer = _exchange(connection, SASL_HANDSHAKE, 1, struct.pack(">h", len(name)) + name)
    error, n = struct.unpack_from(">hi", answer)
    offered, at = [], 6
    for _ in range(n):
        (length,) = struct.unpack_from(">h", answer, at)
        offered.append(answer[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return error, offered


def _log_in(connection: socket.socket, security: Security) -> None:
    from kafka.net.sasl import get_sasl_mechanism

    host = connection.getpeername()[0]
    mechanism = get_sasl_mechanism(security.mechanism)(host=host, **security.arguments())
    while not mechanism.is_done():
        token = mechanism.auth_bytes()
        body = struct.pack(">i", len(token)) + token
        answer = _exchange(connection, SASL_AUTHENTICATE, 0, body)
        error, length = struct.unpack_from(">hh", answer)
        if error:
            raise _Closed(
                f"refuses user {shown(security.user)} with this password by {security.mechanism}: "
                "look at --kafka-user and the password"
            )
        try:
            mechanism.receive(answer[4 + max(length, 0) + 4 :])  # behind a message, and a length
        except ValueError:
            raise _Closed(f"does not know the password of user {shown(security.user)} itself: "
                          "do not trust it") from None  # fmt: skip


def _exchange(connection: socket.socket, key: int, version: int, body: bytes) -> bytes:
    """One request and its answer, without the header."""
    client = b"streaml1"
    head = struct.pack(">hhih", key, version, 1, len(client)) + client
    connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    size, number = struct.unpack(">ii", _received(connection, 8))
    if number != 1 or not 4 <= size < 2**20:  # such as an alert of TLS
        raise ConnectionError
    return _received(connection, size - 4)


def _received(connection: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        part = connection.recv(n - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data
