"""Connection check of a broker: says in one sentence why a client cannot connect.

kafka-python 3.0 reports none of these causes: whether the broker requires TLS, does not speak TLS,
presents an untrusted certificate, requires a client certificate or a login, does not support the
SASL mechanism, rejects the password, or is not a Kafka broker, `KafkaConsumer.bootstrap` and the
constructors retry until their timeout and raise `KafkaTimeoutError: Unable to bootstrap from ...`.
The reasons are in its log only, as text, and several causes log the same `socket disconnected`.

So this module opens one connection with the client's security settings and compares what happens.
The wire format is kafka-python's: its protocol classes work without its network code.
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from streaml1.core.named_options import named_option
from streaml1.sources.kafka.security import Security
from streaml1.sources.source import SourceError, shown

if TYPE_CHECKING:
    from kafka.protocol.api_message import ApiMessage

__all__ = ["NoAnswer", "has_address", "probe"]

FOLLOW_UP_SECONDS = 1.0
"""Timeout of the connections that find out why a broker closed the first one."""

MAX_RESPONSE_BYTES = 2**20
"""Larger frames are not from a Kafka broker: an HTTP response or a TLS alert decodes to one."""


class NoAnswer(Exception):
    """No broker listens at the address, or it does not answer in time."""


class _Rejected(Exception):
    """The broker answers and does not let the client in; the text follows its address."""


def probe(broker: str, security: Security, timeout: float) -> None:
    """Connect to a broker as a client does, log in if SASL is configured, and disconnect.

    Raises
    ------
    NoAnswer
        If nothing listens, or the broker does not answer in time.
    SourceError
        If the broker answers and rejects the client; the sentence says why and what to change.
    """
    try:
        with _connect(broker, timeout) as plain:
            if security.context is None:
                _converse(plain, broker, security)
                return
            with _start_tls(plain, broker, security.context) as encrypted:
                _converse(encrypted, broker, security)
    except _Rejected as rejected:
        raise SourceError(f"{broker} {rejected.args[0]}") from None
    except (TimeoutError, OSError):
        raise NoAnswer from None


def has_address(broker: str) -> bool:
    """Return whether the host name of a broker resolves to an address."""
    host, _, port = broker.rpartition(":")
    try:
        return bool(socket.getaddrinfo(host.strip("[]"), int(port)))
    except OSError:
        return False


def _connect(broker: str, timeout: float) -> socket.socket:
    host, _, port = broker.rpartition(":")
    connection = socket.create_connection((host.strip("[]"), int(port)), timeout=timeout)
    connection.settimeout(timeout)
    return connection


def _start_tls(plain: socket.socket, broker: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    host = broker.rpartition(":")[0].strip("[]").rstrip(".")
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message.rstrip(".")
        remedy = "use a host name that the certificate contains"
        if "name" not in why and "IP" not in why:
            remedy = f"check {named_option('kafka.ca')}"
        raise _Rejected(f"presents an untrusted certificate ({why}): {remedy}") from None
    except TimeoutError:
        raise
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            raise _Rejected(_explain_alert(error)) from None
        raise _speaks_no_tls() from None
    except OSError:  # a broker without TLS closes the connection
        raise _speaks_no_tls() from None


def _speaks_no_tls() -> _Rejected:
    option = named_option("kafka.security", "PLAINTEXT", "SASL_PLAINTEXT")
    return _Rejected(f"does not speak TLS: use {option}, or another port")


def _explain_alert(error: ssl.SSLError) -> str:
    """Explain a TLS alert: the client certificate is missing or untrusted, or TLS itself fails."""
    reason = (error.reason or "").lower().replace("_", " ")
    if "certificate" in reason or "unknown ca" in reason:
        return (
            f"requires a client certificate that it trusts ({reason}): check "
            f"{named_option('kafka.certificate')} and {named_option('kafka.key')}"
        )
    return (
        f"ends the TLS handshake ({reason}): check {named_option('kafka.security')} and "
        f"{named_option('kafka.ca')}"
    )


def _converse(connection: socket.socket, broker: str, security: Security) -> None:
    """Send the requests that a client sends first; explain a connection that the broker closes."""
    from kafka.protocol.metadata import MetadataRequest

    requests = _Requests(connection)
    try:
        if security.mechanism is not None:
            _require_mechanism(requests, security.mechanism)
            _log_in(requests, security)
        else:
            requests.send(MetadataRequest(topics=[], version=1))
    except ssl.SSLError as error:  # with TLS 1.3 an alert about the client's certificate comes late
        raise _Rejected(_explain_alert(error)) from None
    except ConnectionError:
        raise _Rejected(_explain_close(broker, security)) from None


def _explain_close(broker: str, security: Security) -> str:
    """Find out why a broker closed the connection after the first request.

    Raises
    ------
    OSError
        If the broker has stopped: it no longer accepts connections.
    """
    if security.context is None and _speaks_tls(broker):
        return f"requires TLS: use {named_option('kafka.security', 'SSL', 'SASL_SSL')}"
    if security.mechanism is None and _requires_login(broker, security):
        option = named_option("kafka.security", "SASL_SSL", "SASL_PLAINTEXT")
        return f"requires a login: use {option}"
    _connect(broker, FOLLOW_UP_SECONDS).close()
    return "closes the connection: is it a Kafka broker?"


def _requires_login(broker: str, security: Security) -> bool:
    """Return whether a broker answers a SASL handshake."""
    try:
        with _connect(broker, FOLLOW_UP_SECONDS) as plain:
            if security.context is None:
                return _rejects_unknown_mechanism(plain)
            with _start_tls(plain, broker, security.context) as encrypted:
                return _rejects_unknown_mechanism(encrypted)
    except (OSError, _Rejected):
        return False


def _rejects_unknown_mechanism(connection: socket.socket) -> bool:
    from kafka.errors import UnsupportedSaslMechanismError
    from kafka.protocol.sasl import SaslHandshakeRequest

    request = SaslHandshakeRequest(mechanism="none of them", version=1)
    response = _Requests(connection).send(request)
    return bool(response.error_code == UnsupportedSaslMechanismError.errno)


def _speaks_tls(broker: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _connect(broker, FOLLOW_UP_SECONDS) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def _require_mechanism(requests: _Requests, mechanism: str) -> None:
    from kafka.errors import IllegalSaslStateError, UnsupportedSaslMechanismError
    from kafka.protocol.sasl import SaslHandshakeRequest

    response = requests.send(SaslHandshakeRequest(mechanism=mechanism, version=1))
    if response.error_code == UnsupportedSaslMechanismError.errno:
        option = named_option("kafka.mechanism", *sorted(response.mechanisms))
        raise _Rejected(f"does not support {mechanism}: use {option}")
    if response.error_code == IllegalSaslStateError.errno:
        option = named_option("kafka.security", "PLAINTEXT", "SSL")
        raise _Rejected(f"requires no login on this port: use {option}")


def _log_in(requests: _Requests, security: Security) -> None:
    from kafka.net.sasl import get_sasl_mechanism
    from kafka.protocol.sasl import SaslAuthenticateRequest

    host = requests.connection.getpeername()[0]
    # This also hides the password from the debug log of kafka-python.
    options = security.client_options()
    mechanism = get_sasl_mechanism(security.mechanism)(host=host, **options)
    while not mechanism.is_done():
        token = mechanism.auth_bytes()
        response = requests.send(SaslAuthenticateRequest(auth_bytes=token, version=0))
        if response.error_code:
            raise _Rejected(
                f"rejects user {shown(security.user)} with this password ({security.mechanism}): "
                f"check {named_option('kafka.user')} and the password"
            )
        try:
            mechanism.receive(response.auth_bytes)
        except ValueError:  # SCRAM authenticates the broker, too
            raise _Rejected("cannot prove that it knows the password of user "
                            f"{shown(security.user)}: do not trust it") from None  # fmt: skip


class _Requests:
    """Requests over one connection, one at a time."""

    def __init__(self, connection: socket.socket) -> None:
        from kafka.protocol.parser import KafkaProtocol

        self.connection = connection
        self._protocol = KafkaProtocol(
            client_id="streaml1", receive_message_max_bytes=MAX_RESPONSE_BYTES
        )

    def send(self, request: ApiMessage) -> ApiMessage:
        """Send a request and return the response.

        Raises
        ------
        ConnectionError
            If the broker closes the connection, or answers something else than a response.
        """
        self._protocol.send_request(request)
        self.connection.sendall(self._protocol.send_bytes())
        while data := self.connection.recv(2**16):
            try:
                responses = self._protocol.receive_bytes(data)
            except Exception:  # foreign bytes fail in many ways: struct.error, KafkaError ...
                raise ConnectionError from None
            if responses:
                return responses[0][1]
        raise ConnectionError
