"""A small HTTP/1.1 server that cannot exhaust the process that it runs in.

A run serves its metrics from the process that learns, so nothing that clients do may end it: the
number of connections is limited, a request must be complete in time, each connection has one
request, and whatever goes wrong with a client concerns that client only.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl

from streaml1.core.exit_codes import os_reason
from streaml1.core.logging import event

__all__ = [
    "HttpServer",
    "Limits",
    "Request",
    "Response",
    "Route",
    "cannot_listen",
    "unknown_option",
]

logger = logging.getLogger("streaml1")

RETRY_SECONDS = 0.2
"""Pause of a server that cannot accept a connection, for lack of descriptors or threads."""

_REASONS = {status.value: status.phrase for status in HTTPStatus}


class Limits(NamedTuple):
    """Limits of a server.

    Parameters
    ----------
    connections
        Number of open connections; further ones are closed at once.
    streams
        Number of connections with an endless response. It is smaller than `connections`, so that
        other requests are always answered.
    seconds
        Time for a whole request to arrive, and for a client to take a response.
    head, body
        Bytes of the request line with the headers, and of the body.
    """

    connections: int = 32
    streams: int = 16
    seconds: float = 5.0
    head: int = 2**14
    body: int = 2**16


class Request(NamedTuple):
    """A request.

    Parameters
    ----------
    method, path
        Method, and path without the query.
    query
        Values of the query by name.
    headers
        Values by name in lower case.
    body
        The body.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class Response(NamedTuple):
    """A response.

    Parameters
    ----------
    status, content_type, body
        Status code, type and content.
    headers
        Further headers.
    stream
        Chunks that follow the body; the connection is open until they end. An empty chunk sends
        nothing: the server then looks whether the client is still there.
    """

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    stream: Generator[bytes, None, None] | None = None

    @classmethod
    def text(cls, status: int, sentence: str) -> Response:
        """Return a response that is one sentence."""
        return cls(status, "text/plain; charset=utf-8", f"{sentence}\n".encode())


Route = Callable[[Request], Response]
"""Answers the requests to a path; called by the threads of the server."""


class _Refused(Exception):
    """A request that cannot be read."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.response = Response.text(status, sentence)


class HttpServer:
    """Serves some paths until it is closed.

    Parameters
    ----------
    host, port
        Address to listen at; port 0 picks a free one.
    routes
        What answers GET and HEAD requests, by path; keys such as ``"POST /explain"`` are for other
        methods. Routes may be added later.
    name
        Name of its threads.
    limits
        The limits of connections, time and size.

    Raises
    ------
    OSError
        If it cannot listen, see `cannot_listen`.

    Attributes
    ----------
    address : str
        Address as in a URL.
    routes : dict of str to Route
        The routes.
    """

    def __init__(
        self,
        host: str,
        port: int,
        routes: Mapping[str, Route],
        name: str,
        limits: Limits = Limits(),  # noqa: B008  (immutable)
    ) -> None:
        self.routes = dict(routes)
        self._name, self._limits = name, limits
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._n_streams = 0
        self._listening = _listen(host, port)
        shown_host = f"[{host}]" if ":" in host else host
        self.address = f"{shown_host}:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept_all, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._thread.join()
        self._listening.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    @property
    def is_closed(self) -> bool:
        """Whether the server is closed."""
        return self._closed.is_set()

    def _accept_all(self) -> None:
        while not self.is_closed:
            try:
                connection, _ = self._listening.accept()
            except TimeoutError:
                continue
            except OSError:  # closed, or the process has no free descriptor
                self._closed.wait(RETRY_SECONDS)
                continue
            if self.is_closed or not self._start(connection):
                connection.close()

    def _start(self, connection: socket.socket) -> bool:
        """Serve a connection in a thread of its own; return False if there are too many."""
        with self._lock:
            if len(self._open) >= self._limits.connections:
                return False
            self._open.add(connection)
        try:
            threading.Thread(
                target=self._serve, args=(connection,), name=f"{self._name}-request", daemon=True
            ).start()
        except RuntimeError:  # no thread can be started
            self._drop(connection)
        return True

    def _drop(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)
        connection.close()

    def _serve(self, connection: socket.socket) -> None:
        """Answer the request of a connection; a client that is gone is not an error."""
        try:
            with contextlib.suppress(OSError):
                self._answer(connection)
        finally:
            self._drop(connection)

    def _answer(self, connection: socket.socket) -> None:
        method = "GET"
        try:
            request = _read_request(connection, self._limits)
            method = request.method
            response = self._response(request)
        except _Refused as error:
            response = error.response
        connection.settimeout(self._limits.seconds)
        if response.stream is None or method == "HEAD":
            connection.sendall(_encode(response, method == "HEAD"))
            return
        with self._lock:
            is_full = self._n_streams >= self._limits.streams
            self._n_streams += not is_full
        if is_full:
            full = Response.text(503, "too many pages are open; close one")
            connection.sendall(_encode(full, False))
            return
        try:
            self._send_stream(connection, response, response.stream)
        finally:
            with self._lock:
                self._n_streams -= 1

    def _response(self, request: Request) -> Response:
        is_get = request.method in ("GET", "HEAD")
        route = self.routes.get(request.path if is_get else f"{request.method} {request.path}")
        if route is None and request.path in {key.rpartition(" ")[2] for key in self.routes}:
            return Response.text(405, f"{request.path} does not take {request.method} requests")
        if route is None:
            known = ", ".join(key for key in self.routes if key.startswith("/") and "." not in key)
            return Response.text(404, f"not found; use one of {known}")
        try:
            return route(request)
        except Exception as error:  # a fault of a route must not end the run
            logger.warning(
                "%s failed: %s: %s", request.path, type(error).__name__, error,
                extra=event("request_failed", path=request.path, error=type(error).__name__),
            )  # fmt: skip
            return Response.text(500, f"internal error: {type(error).__name__}")

    def _send_stream(
        self, connection: socket.socket, response: Response, chunks: Generator[bytes, None, None]
    ) -> None:
        connection.sendall(_encode(response, False))
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        with contextlib.closing(chunks):
            for chunk in chunks:
                if self.is_closed:
                    return
                if chunk:
                    connection.sendall(chunk)
                elif poll.poll(0) and not connection.recv(1024):
                    return  # the client has closed the connection


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(16)
    except BaseException:
        listening.close()
        raise
    listening.settimeout(1.0)
    return listening


def cannot_listen(host: str, port: int, error: OSError) -> str:
    """Return a sentence on why a server cannot listen at an address, and what to do.

    Examples
    --------
    >>> from streaml1.training.http_server import cannot_listen
    >>> cannot_listen("::1", 80, PermissionError(13, "Permission denied"))
    'cannot listen at [::1]:80: permission denied; choose another port'
    """
    shown = f"[{host}]" if ":" in host else host
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        remedy = "the host must be an address of this machine, such as 127.0.0.1 or 0.0.0.0"
    else:
        remedy = "choose another port"
    return f"cannot listen at {shown}:{port}: {os_reason(error)}; {remedy}"


def _read_request(connection: socket.socket, limits: Limits) -> Request:
    """Read a request before its deadline; raise _Refused if it is late, too large or invalid."""
    deadline = time.monotonic() + limits.seconds
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        if len(data) > limits.head:
            raise _Refused(431, f"the request must have at most {limits.head:,} bytes of headers")
        data += _receive(connection, deadline)
    method, target, headers = _parse_head(data[:end])
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
        raise _Refused(411, "a body needs a Content-Length")
    if len(length) > 9 or int(length) > limits.body:
        raise _Refused(413, f"the body must have at most {limits.body:,} bytes")
    body = data[end + 4 :]
    while len(body) < int(length):
        body += _receive(connection, deadline)
    path, _, query = target.partition("?")
    query = query.encode("latin-1").decode(errors="replace")  # curl sends UTF-8 as it is typed
    # Blank values are kept: a typo such as `?prefx=` must not be ignored.
    options = dict(parse_qsl(query, keep_blank_values=True))
    return Request(method, path, options, headers, body[: int(length)])


def _receive(connection: socket.socket, deadline: float) -> bytes:
    remaining = deadline - time.monotonic()
    try:
        connection.settimeout(max(remaining, 1e-3))
        data = b"" if remaining <= 0.0 else connection.recv(2**14)
    except TimeoutError:
        remaining = 0.0
    if remaining <= 0.0:
        raise _Refused(408, "the request was not complete in time")
    if not data:
        raise ConnectionError("closed by the client")
    return data


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Return the method, the target and the headers."""
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not parts[1].startswith("/"):
        raise _Refused(400, "the request must be HTTP/1.1")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise _Refused(400, "a header must be NAME: VALUE")
        headers[name.strip().lower()] = value.strip()
    return parts[0], parts[1], headers


def _encode(response: Response, is_head: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {response.status} {_REASONS.get(response.status, '')}",
        f"Content-Type: {response.content_type}",
        *(f"{name}: {value}" for name, value in response.headers),
        "Connection: close",
    ]
    if response.stream is None:
        lines.insert(2, f"Content-Length: {len(response.body)}")
    head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
    return head if is_head else head + response.body


def unknown_option(path: str, given: Iterable[str], known: Sequence[str]) -> str:
    """Return an error about the first option of a query that a path does not have; "" without one.

    Examples
    --------
    >>> from streaml1.training.http_server import unknown_option
    >>> unknown_option("/weights", ["prefx"], ["top", "prefix"])
    "/weights has no query option 'prefx'; use top or prefix"
    """
    listed = " or ".join(", ".join(known).rsplit(", ", 1))
    for name in given:
        if name not in known:
            remedy = f"use {listed}" if known else "it takes none"
            return f"{path} has no query option {name[:100]!r}; {remedy}"
    return ""
