"""The service as an ASGI application, to embed into another server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from streaml1.serving.model_source import open_source
from streaml1.serving.model_store import CHECK_SECONDS, ModelStore
from streaml1.serving.service import Limits, Request, Response, Service
from streaml1.sources.readers.json_requests import roles_of
from streaml1.training.config import require_duration

__all__ = ["app"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def app(
    sources: str | Path | Mapping[str, str | Path],
    *,
    max_age: float | None = None,
    limits: Limits = Limits(),  # noqa: B008  (immutable)
    check_seconds: float = CHECK_SECONDS,
    categorical: Iterable[str] = (),
    numeric: Iterable[str] = (),
) -> Callable[[Message, Receive, Send], Awaitable[None]]:
    """Return an ASGI application that serves models.

    Mount it into an application of Starlette, FastAPI or Django, or run it by uvicorn, granian or
    hypercorn. New versions are watched for from its first request on.

    Parameters
    ----------
    sources
        A model file, checkpoint directory or topic, or several of them by name.
    max_age
        Age of a model in seconds from which ``/readyz`` reports it; None: any age is right.
    limits
        Limits of requests.
    check_seconds
        Interval of checks for a new version.
    categorical, numeric
        Members of JSON objects whose numbers are categories, and whose texts are numbers, as the
        options of the run that learnt the models.

    Raises
    ------
    TypeError
        If `sources` is none of these.
    ValueError
        If it is empty, or a number of seconds is out of range.
    OSError, SourceError, ModelFileError
        If a model cannot be read.

    Examples
    --------
    >>> import streaml1, tempfile
    >>> from streaml1.serving import app
    >>> model = streaml1.ElasticNetClassifier()
    >>> path = tempfile.mkdtemp() + "/clicks.model"
    >>> model.save(path)
    >>> clicks = app(path)
    """
    places = {"default": sources} if isinstance(sources, str | Path) else sources
    if not isinstance(places, Mapping):
        raise TypeError(
            "sources must be the path of a model, or a dict of paths by name, got a "
            f"{type(sources).__name__}"
        )
    if not places:
        raise ValueError("sources is empty; name at least one model")
    require_duration("check_seconds", check_seconds)
    if max_age is not None:
        require_duration("max_age", max_age)
    store = ModelStore({name: open_source(str(place)) for name, place in places.items()})
    service = Service(store, limits, max_age, roles=roles_of(categorical, numeric))
    is_watching = False

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal is_watching
        if not is_watching:
            is_watching = True
            store.start(check_seconds)
        if scope["type"] == "lifespan":
            await _run_lifespan(store, receive, send)
        elif scope["type"] == "http":
            response = service.handle(await _read_request(scope, receive, limits.body))
            if not isinstance(response, Response):
                response = await asyncio.wrap_future(response)
            await _send_response(response, send)

    return application


async def _run_lifespan(store: ModelStore, receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        if kind == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif kind == "lifespan.shutdown":
            store.close()
            await send({"type": "lifespan.shutdown.complete"})
            return


async def _read_request(scope: Message, receive: Receive, max_body: int) -> Request:
    """Return the request; of a body that is too large, only enough to refuse it."""
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= max_body:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    root = scope.get("root_path", "")
    path = scope["path"].removeprefix(root) or "/"
    query = scope.get("query_string", b"").decode("latin-1")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    target = f"{path}?{query}" if query else path
    return Request(scope["method"], target, headers, b"".join(parts))


async def _send_response(response: Response, send: Send) -> None:
    headers = [
        ("content-type", response.content_type),
        ("content-length", str(len(response.body))),
        *((name.lower(), value) for name, value in response.headers),
    ]
    await send(
        {
            "type": "http.response.start",
            "status": response.status,
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        }
    )
    await send({"type": "http.response.body", "body": response.body})
