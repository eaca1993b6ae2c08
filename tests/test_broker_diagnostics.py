"""Broker diagnostics against scripted brokers: each cause of failure has its own message."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streaml1.sources import SourceError
from streaml1.sources.kafka.broker_diagnostics import probe
from streaml1.sources.kafka.security import resolve_security

METADATA, HANDSHAKE, AUTHENTICATE = 3, 17, 36
UNSUPPORTED_MECHANISM, ILLEGAL_STATE, AUTHENTICATION_FAILED = 33, 34, 58
LOGIN = {"security": "SASL_PLAINTEXT", "mechanism": "PLAIN", "user": "ann", "password": "hush-qqz"}


def receive_exactly(connection: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        chunk = connection.recv(n - len(data))
        if not chunk:
            raise ConnectionError
        data += chunk
    return data


def scripted_broker(answers: dict[int, bytes]) -> Callable[[socket.socket], None]:
    """Return a server that answers by request key and closes the connection at other requests."""

    def serve(connection: socket.socket) -> None:
        while True:
            (size,) = struct.unpack(">i", receive_exactly(connection, 4))
            key, _, correlation_id = struct.unpack_from(">hhi", receive_exactly(connection, size))
            if key not in answers:
                return
            answer = answers[key]
            connection.sendall(struct.pack(">ii", len(answer) + 4, correlation_id) + answer)

    return serve


def handshake_answer(error: int, *names: str) -> bytes:
    encoded = b"".join(struct.pack(">h", len(name)) + name.encode() for name in names)
    return struct.pack(">hi", error, len(names)) + encoded


@pytest.fixture
def start() -> Iterator[Callable[..., str]]:
    """Return a function that starts a server and returns its address."""
    servers: list[socket.socket] = []

    def start(serve: Callable[[socket.socket], None], context: ssl.SSLContext | None = None) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

        def handle(connection: socket.socket) -> None:
            with connection.dup() as raw, contextlib.suppress(OSError):
                try:
                    if context is not None:
                        connection = context.wrap_socket(connection, server_side=True)
                    serve(connection)
                except ssl.SSLError:  # closing with unread bytes would drop the TLS alert
                    raw.shutdown(socket.SHUT_WR)
                    while raw.recv(4096):
                        pass
                finally:
                    connection.close()

        threading.Thread(target=accept, daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def probe_error(address: str, options: dict[str, Any]) -> str:
    with pytest.raises(SourceError) as caught:
        probe(address, resolve_security(options), 2.0)
    text = str(caught.value)
    assert "qqz" not in text and "\n" not in text
    return text.removeprefix(f"{address} ")


@pytest.mark.parametrize(
    ("answers", "options", "expected"),
    [
        ({}, {}, "closes the connection: is it a Kafka broker?"),
        ({HANDSHAKE: handshake_answer(UNSUPPORTED_MECHANISM, "PLAIN")}, {},
         'requires a login: use kafka={"security": "SASL_SSL" or "SASL_PLAINTEXT"}'),
        ({HANDSHAKE: handshake_answer(UNSUPPORTED_MECHANISM, "SCRAM-SHA-512", "SCRAM-SHA-256")},
         LOGIN,
         'does not support PLAIN: use kafka={"mechanism": "SCRAM-SHA-256" or "SCRAM-SHA-512"}'),
        ({HANDSHAKE: handshake_answer(ILLEGAL_STATE)}, LOGIN,
         'requires no login on this port: use kafka={"security": "PLAINTEXT" or "SSL"}'),
        ({HANDSHAKE: handshake_answer(0, "PLAIN"),
          AUTHENTICATE: struct.pack(">hhi", AUTHENTICATION_FAILED, -1, 0)}, LOGIN,
         "rejects user 'ann' with this password (PLAIN): check kafka="
         '{"user": ...} and the password'),
        ({HANDSHAKE: handshake_answer(0, "SCRAM-SHA-256"),
          AUTHENTICATE: struct.pack(">hhi", 0, -1, 9) + b"r=a,s=b,i"},
         LOGIN | {"mechanism": "SCRAM-SHA-256"},
         "cannot prove that it knows the password of user 'ann': do not trust it"),
    ],
)  # fmt: skip
def test_rejections_name_cause_and_remedy(
    answers: dict[int, bytes], options: dict[str, Any], expected: str, start: Callable[..., str]
) -> None:
    assert probe_error(start(scripted_broker(answers)), options) == expected


def test_accepted_client_raises_nothing_and_logs_no_password(
    start: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    empty_metadata = struct.pack(">iii", 0, 0, 0)
    probe(start(scripted_broker({METADATA: empty_metadata})), resolve_security(), 2.0)
    login = {HANDSHAKE: handshake_answer(0, "PLAIN"), AUTHENTICATE: struct.pack(">hhi", 0, -1, 0)}
    with caplog.at_level(logging.DEBUG):
        for name in ("kafka.protocol.parser", "kafka.net.connection"):
            caplog.set_level(logging.DEBUG, name)
        probe(start(scripted_broker(login)), resolve_security(LOGIN), 2.0)
    assert not [record for record in caplog.records if "qqz" in f"{record.args!r}"]


@pytest.mark.parametrize(
    ("client_certificate", "options", "expected"),
    [
        (False, {}, 'requires TLS: use kafka={"security": "SSL" or "SASL_SSL"}'),
        (False, {"security": "SSL"}, "presents an untrusted certificate (self-signed certificate): "
         'check kafka={"ca": ...}'),
        (True, {"ca": "c.pem"}, "requires a client certificate that it trusts ("),
    ],
)  # fmt: skip
def test_tls_failures_name_cause_and_remedy(
    client_certificate: bool,
    options: dict[str, Any],
    expected: str,
    start: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-noenc", "-keyout", "k.pem", "-out", "c.pem", "-subj", "/CN=broker of tests",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("c.pem", "k.pem")
    if client_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations("c.pem")
    assert probe_error(start(scripted_broker({}), context), options).startswith(expected)
