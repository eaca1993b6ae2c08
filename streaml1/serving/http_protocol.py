"""HTTP/1.1 on asyncio and httptools: one protocol object per connection.

Requests of a connection are answered in order. A request that waits for a topic pauses reading, so
that a client cannot queue more than its socket holds.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import Future
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

import httptools

from streaml1.serving.request_heads import RequestHeads
from streaml1.serving.service import Request, Response, Service

__all__ = ["Connections", "HttpProtocol", "Timeouts"]

MAX_HEADER_BYTES = 2**15
MAX_QUEUED = 64
"""Requests of a connection that wait for their turn."""

MAX_JOINED = 2**16
"""Bytes of responses from which on they are written, before the next request is answered."""

_READ_HEADERS = {
    name.encode(): name
    for name in (
        "accept", "connection", "content-encoding", "content-length", "content-type", "expect",
        "transfer-encoding",
    )
}  # fmt: skip
"""The headers that are read; others only count towards `MAX_HEADER_BYTES`."""

_REASONS = {status.value: status.phrase for status in HTTPStatus}


class Timeouts(NamedTuple):
    """Limits of time in seconds.

    Parameters
    ----------
    request
        From the first byte of a request to its last.
    idle
        Between requests of a connection.
    write
        Until a client takes a response.
    linger
        After a refusal, until a client stops sending.
    """

    request: float = 10.0
    idle: float = 75.0
    write: float = 30.0
    linger: float = 5.0


class Connections:
    """The open connections of a server, and what they share.

    Parameters
    ----------
    service
        Answers the requests.
    limit
        Number of connections; more are refused.
    timeouts
        The limits of time.
    """

    def __init__(
        self,
        service: Service,
        limit: int = 1000,
        timeouts: Timeouts = Timeouts(),  # noqa: B008  (immutable)
    ) -> None:
        self.service = service
        self.limit = limit
        self.timeouts = timeouts
        self.open: set[HttpProtocol] = set()
        self.refused: set[HttpProtocol] = set()  # those above the limit that linger
        self.heads = RequestHeads()

    def sweep(self, now: float) -> None:
        """Close connections that are too slow; called about every second."""
        for protocol in [*self.open, *self.refused]:
            protocol.check(now)

    def drain(self) -> None:
        """Close idle connections now, and the others after their current request."""
        self.service.drain()
        for protocol in [*self.open, *self.refused]:
            protocol.drain()


class HttpProtocol(asyncio.Protocol):
    """A connection."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._service = connections.service
        self._max_body = connections.service.limits.body
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._parser: Any = None
        self._queue: deque[Request | Response] = deque()
        self._waits = False  # for a response that is not ready
        self._is_writable = True
        self._is_paused = False  # reads nothing
        self._is_last = False  # what follows the queued requests is ignored
        self._drains = False  # closes once the requests that have begun are answered
        self._lingers = False  # has refused a request, and ignores what still arrives
        self._since = time.monotonic()  # of the current wait: for a request, its end, a writer
        self._in_request = False
        self._reset()

    def _reset(self) -> None:
        self._target = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._refusal: Response | None = None

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, or refuse it if there are too many."""
        self._transport = transport  # type: ignore[assignment]
        self._parser = httptools.HttpRequestParser(self)
        connections = self._connections
        if len(connections.open) >= connections.limit:
            self._parser = None
            self._send(Response(503, b'{"error":"too many connections"}'), keep=False)
            if len(connections.refused) < connections.limit:
                connections.refused.add(self)
                self._linger()
            else:
                self._transport.close()
            return
        connections.open.add(self)
        # The loop may have accepted it just before the server was closed: answer one request.
        self._drains = self._service.is_draining

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection."""
        self._connections.open.discard(self)
        self._connections.refused.discard(self)
        self._queue.clear()
        self._parser = None  # it refers to this object

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, and answer the requests that it completes."""
        if self._parser is None:
            return
        request = None if self._in_request else self._connections.heads.parse(data)
        if request is not None and not self._is_last:
            self._queue.append(request)
        else:
            self._parse(data)
        self._answer_queued()

    def _parse(self, data: bytes) -> None:
        """Queue the requests that `data` completes."""
        was_between, queued = not self._in_request, len(self._queue)
        try:
            self._feed(data)
        except httptools.HttpParserInvalidURLError:
            self._refuse(_problem(400, "the target is not ASCII: write %C3%A9 for \u00e9"))
        except httptools.HttpParserError:
            self._refuse(_problem(400, "the request is not HTTP/1.1"))
        if self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(_LARGE_HEADERS)
        is_whole = was_between and not (self._in_request or self._is_last)
        if is_whole and len(self._queue) == queued + 1:
            request = self._queue[-1]
            assert isinstance(request, Request)  # a refusal would be the last answer
            self._connections.heads.add(data, request)

    def _feed(self, data: bytes) -> None:
        """Feed the parser, and ignore offers to switch to another protocol.

        Java's HttpClient offers HTTP/2 in its first request, whose body the parser leaves to that
        protocol.
        """
        while True:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if self._is_last:
                    return
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self._parser = httptools.HttpRequestParser(self)
                self._reset()

    def _head_without_upgrade(self) -> bytes:
        """Return the head of the current request with the headers that are read."""
        headers = dict(self._headers)
        options = [option.strip() for option in headers.pop("connection", "").lower().split(",")]
        kept = [option for option in options if option in ("close", "keep-alive")]
        headers |= {"connection": kept[0]} if kept else {}
        lines = [f"{name}: {value}" for name, value in headers.items()]
        method, version = self._parser.get_method(), self._parser.get_http_version()
        first = b"%b %b HTTP/%b" % (method, self._target, version.encode())
        return b"\r\n".join([first, *(line.encode("latin-1") for line in lines)]) + b"\r\n\r\n"

    def eof_received(self) -> bool:
        """Close the connection: the client sends no more."""
        return False

    def pause_writing(self) -> None:
        """Stop reading while the client does not take its responses."""
        self._is_writable, self._since = False, time.monotonic()
        self._pause()

    def resume_writing(self) -> None:
        """Read again."""
        self._is_writable, self._since = True, time.monotonic()
        self._resume()
        self._answer_queued()

    # httptools

    def on_message_begin(self) -> None:
        """Note when the request began."""
        self._in_request, self._since = True, time.monotonic()

    def on_url(self, url: bytes) -> None:
        """Add a part of the target."""
        self._target += url
        self._header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self._header_bytes += len(name) + len(value)
        key = _READ_HEADERS.get(name.lower())
        if key is not None:
            self._headers[key] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Refuse large headers, and a body that is announced to be too large."""
        if self._header_bytes > MAX_HEADER_BYTES:
            self._refusal = _LARGE_HEADERS
            self._is_last = True
        elif int(self._headers.get("content-length", "0")) > self._max_body:
            self._refusal = _problem(413, f"the body exceeds {self._max_body:,} bytes")
            self._is_last = True
        elif self._parser.should_upgrade():
            if self._parser.get_method() == b"CONNECT":
                self._refusal = _problem(400, "CONNECT is for proxies, which this server is not")
                self._is_last = True
        elif "expect" in self._headers and self._headers["expect"].lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._body_bytes += len(body)
        if self._body_bytes <= self._max_body:
            self._body.append(body)
        elif self._refusal is None:
            self._body.clear()
            self._refusal = _problem(413, f"the body exceeds {self._max_body:,} bytes")
            self._is_last = True

    def on_message_complete(self) -> None:
        """Queue the request."""
        if self._is_last and self._refusal is None:
            return  # data after the last request that is answered
        if self._refusal is None and self._parser.should_upgrade():
            return  # `_feed` reads it again
        if self._refusal is not None:
            self._queue.append(self._refusal)
        else:
            self._queue.append(
                Request(
                    self._parser.get_method().decode("latin-1"),
                    _origin_form(self._target.decode("latin-1")),
                    self._headers,
                    b"".join(self._body),
                )
            )
        # A client of HTTP/1.0 that asks to keep the connection waits for its end if no header says
        # that it is kept.
        if not self._parser.should_keep_alive() or self._parser.get_http_version() == "1.0":
            self._is_last = True
        self._reset()
        self._in_request = False
        if len(self._queue) >= MAX_QUEUED:
            self._pause()

    # Responses

    def _refuse(self, response: Response) -> None:
        if not self._is_last:
            self._queue.append(response)
            self._is_last = True
        self._parser = None

    def _answer_queued(self) -> None:
        """Answer requests until one has to wait."""
        self._answer_requests()
        if self._queue or self._waits:
            return
        if self._refusal is not None:
            self._send(self._refusal, keep=False)  # without waiting for the rest of the body
            self._refusal, self._is_last, self._parser = None, True, None
        if not self._in_request:
            self._since = time.monotonic()
        if self._parser is None:
            self._linger()
        elif self._is_last or (self._drains and not self._in_request):
            self._transport.close()
        elif self._is_paused and self._is_writable:
            self._resume()

    def _answer_requests(self) -> None:
        """Answer the queued requests that need not wait; responses are written together."""
        queue, joined, size = self._queue, [], 0
        while queue and not self._waits and self._is_writable:
            item = queue.popleft()
            if isinstance(item, Response):
                joined.append(_encode(item, keep=False))
            else:
                response, is_head = self._service.handle(item), item.method == "HEAD"
                if isinstance(response, Future):
                    self._wait_for(response, is_head)
                    break
                joined.append(_encode(response, self._keeps(), is_head))
            size += len(joined[-1])
            if size >= MAX_JOINED:
                self._transport.write(b"".join(joined))  # may call `pause_writing`
                joined, size = [], 0
        if joined:
            self._transport.write(joined[0] if len(joined) == 1 else b"".join(joined))

    def _linger(self) -> None:
        """Send no more, and ignore what still arrives until the client closes the connection.

        Closing it while the client is sending would reset it, and the client would not read why.
        """
        if self._lingers or self._transport.is_closing():
            return
        self._lingers, self._in_request, self._since = True, False, time.monotonic()
        self._transport.write_eof()
        if self._is_paused and self._is_writable:
            self._resume()

    def _keeps(self) -> bool:
        return not ((self._is_last or self._drains) and not self._queue)

    def _wait_for(self, response: Future[Response], is_head: bool) -> None:
        self._waits = True
        self._pause()
        loop = asyncio.get_running_loop()
        response.add_done_callback(
            lambda done: loop.call_soon_threadsafe(self._finish_wait, done.result(), is_head)
        )

    def _finish_wait(self, response: Response, is_head: bool) -> None:
        self._waits = False
        if not self._transport.is_closing():
            self._send(response, self._keeps(), is_head)
            self._answer_queued()

    def _pause(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    def _resume(self) -> None:
        self._is_paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _send(self, response: Response, keep: bool = True, is_head: bool = False) -> None:
        self._transport.write(_encode(response, keep, is_head))

    # Limits of time

    def check(self, now: float) -> None:
        """Close the connection if its time is over."""
        timeouts, waited = self._connections.timeouts, now - self._since
        if not self._is_writable:
            if waited > timeouts.write:
                self._transport.abort()
        elif self._waits or self._queue:
            return
        elif self._lingers:
            if waited > timeouts.linger:
                self._transport.close()
        elif self._in_request:
            if waited > timeouts.request:
                self._send(_problem(408, "the request was not complete in time"), keep=False)
                self._transport.close()
        elif waited > timeouts.idle:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def drain(self) -> None:
        """Close the connection as soon as its requests are answered."""
        self._drains = True
        if not (self._in_request or self._queue or self._waits):
            self._transport.close()


def _origin_form(target: str) -> str:
    """Return the path and the query of a target, which may be a whole URL (RFC 9112, 3.2.2)."""
    scheme, is_url, rest = target.partition("://")
    if not is_url or scheme.lower() not in ("http", "https"):
        return target
    start = min((pos for mark in "/?" if (pos := rest.find(mark)) >= 0), default=len(rest))
    return rest[start:] if rest[start : start + 1] == "/" else f"/{rest[start:]}"


def _encode(response: Response, keep: bool, is_head: bool = False) -> bytes:
    """Return a response as bytes."""
    status, body, content_type, headers = response
    end = b"\r\n\r\n" if keep else b"\r\nConnection: close\r\n\r\n"
    return b"%b%d%b%b" % (
        _head(status, content_type, headers), len(body), end, b"" if is_head else body
    )  # fmt: skip


@lru_cache(maxsize=64)  # most responses of a model differ in their length only
def _head(status: int, content_type: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    """Return the head of a response up to the value of its length."""
    lines = [
        f"HTTP/1.1 {status} {_REASONS.get(status, '')}",
        f"Content-Type: {content_type}",
        *(f"{name}: {value}" for name, value in headers),
        "Content-Length: ",
    ]
    return "\r\n".join(lines).encode("latin-1", "replace")


def _problem(status: int, reason: str) -> Response:
    return Response(status, b'{"error":"%s"}' % reason.encode())


_LARGE_HEADERS = _problem(431, f"the headers exceed {MAX_HEADER_BYTES:,} bytes")
