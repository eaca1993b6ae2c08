"""The page over HTTP: its files, its events, searches among the weights, explanations."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from streaml1.core.rows import BadExample
from streaml1.sources.readers.json_requests import decode_json, features_of
from streaml1.training.http_server import Request, Response, Route, unknown_option
from streaml1.training.page.assets import ASSETS, POLICY, read_asset

if TYPE_CHECKING:
    from streaml1.sources.readers.flat_json import JsonRoles

__all__ = ["Busy", "PageContent", "page_routes"]

QUERY_OPTIONS = {"/events": (), "/state": (), "/weights": ("prefix",), "POST /explain": ()}
"""Query options of the routes that are not files."""

MAX_FOUND = 50

KEEP_ALIVE_SECONDS = 15.0
"""Interval of comments that keep proxies from closing a connection without events."""

Example = dict[Any, Any]


class Busy(Exception):
    """The run has not started."""


class PageContent(Protocol):
    """What a page shows."""

    def sections(self) -> Mapping[str, bytes]:
        """Return the current sections as JSON, by name."""

    def is_final(self) -> bool:
        """Return whether the sections will not change any more."""

    def wait(self, seconds: float) -> None:
        """Wait for changes, at most for some time."""

    def watched(self) -> Any:
        """Return a context manager that says that a page is open."""

    def search(self, prefix: str, k: int) -> list[dict[str, Any]]:
        """Return the largest weights of the names with a prefix."""

    def explain(self, x: Example) -> dict[str, Any]:
        """Return the contributions of the features of an example."""


def page_routes(
    content: PageContent, host: str, roles: JsonRoles | None = None
) -> dict[str, Route]:
    """Return the routes of a page.

    Parameters
    ----------
    content
        What the page shows.
    host
        The address that the server listens at. At a loopback address, requests must name an IP
        address or localhost: a web site that a browser shows could otherwise give its own name this
        address, and read the model.
    roles
        How the members of examples are read; None if all are read as they are.
    """
    search_lock = threading.Lock()

    def asset(path: str) -> Route:
        headers = (
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-cache"),
        )
        return lambda request: Response(200, ASSETS[path][1], read_asset(path), headers)

    def events(request: Request) -> Response:
        headers = (("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))
        return Response(200, "text/event-stream", b"retry: 2000\n\n", headers, _stream(content))

    def state(request: Request) -> Response:
        with content.watched():
            sections = content.sections()
        return _json(200, join_sections(sections))

    def weights(request: Request) -> Response:
        prefix = request.query.get("prefix", "")
        with search_lock:  # one at a time: it takes a second for a million names
            return _json(200, orjson.dumps({"weights": content.search(prefix, MAX_FOUND)}))

    def explain(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return _problem(415, "the content type must be application/json")
        try:
            return _json(200, orjson.dumps(content.explain(_features(request.body, roles))))
        except (BadExample, ValueError) as error:
            return _problem(400, getattr(error, "reason", str(error)))

    routes = {path: asset(path) for path in ASSETS}
    more = {"/events": events, "/state": state, "/weights": weights, "POST /explain": explain}
    routes |= {path: _checked(path, route) for path, route in more.items()}
    is_local = _is_loopback(host)
    return {path: _guarded(route, is_local) for path, route in routes.items()}


def _checked(path: str, route: Route) -> Route:
    """Reject queries with other options than those of a route."""

    def checked(request: Request) -> Response:
        problem = unknown_option(request.path, request.query, QUERY_OPTIONS[path])
        return _problem(400, problem) if problem else route(request)

    return checked


def _features(body: bytes, roles: JsonRoles | None) -> Example:
    """Return the features in a JSON object; raise ValueError if it is not a JSON object."""
    try:
        value = decode_json(body, roles)
    except ValueError as error:
        raise ValueError(f"the example is {error}") from None
    return features_of(value, roles)


def _stream(content: PageContent) -> Generator[bytes, None, None]:
    """Yield the sections that have changed, about once per second."""
    sent: dict[str, bytes] = {}
    sent_at = time.monotonic()
    with content.watched():
        while True:
            is_final = content.is_final()
            changed = {
                name: data for name, data in content.sections().items() if sent.get(name) != data
            }
            sent |= changed
            chunk = b"".join(
                b"event: %s\ndata: %s\n\n" % (name.encode(), data) for name, data in changed.items()
            )
            if is_final:
                yield chunk + b"event: end\ndata: {}\n\n"
                return
            if not chunk and time.monotonic() - sent_at > KEEP_ALIVE_SECONDS:
                chunk = b":\n\n"
            if chunk:
                sent_at = time.monotonic()
            yield chunk
            content.wait(1.0)


def join_sections(sections: Mapping[str, bytes]) -> bytes:
    """Return one JSON object of all sections."""
    return b"{%s}" % b",".join(
        b"%s:%s" % (orjson.dumps(name), data) for name, data in sections.items()
    )


def _json(status: int, body: bytes) -> Response:
    return Response(status, "application/json", body, (("Cache-Control", "no-store"),))


def _problem(status: int, reason: str) -> Response:
    return _json(status, orjson.dumps({"error": reason}))


def _guarded(route: Route, is_local: bool) -> Route:
    """Reject requests before the run starts and, at a loopback address, of other web sites."""

    def guarded(request: Request) -> Response:
        if is_local and not _is_local_name(request.headers.get("host", "")):
            return _problem(403, "open the page by its IP address, or as localhost")
        try:
            return route(request)
        except Busy:
            return _problem(503, "the run has not started; try again")

    return guarded


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _is_local_name(host: str) -> bool:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name.lower() == "localhost" or _address(name) is not None


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None
