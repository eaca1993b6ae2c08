"""A schema registry for tests: the documented REST API over HTTP, with schemas in memory."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from uuid import UUID


class Registry:
    """The schemas of a registry, its address, and what was requested."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, dict[str, Any]] = {}
        """What is answered, by path."""
        self.requests: list[str] = []
        self.password: tuple[str, str] | None = None
        self.status: int | None = None
        """Answer every request with this status."""

    def add(self, id: int | UUID, schema: Any, kind: str = "AVRO", **more: Any) -> None:
        """Register a schema; as in real registries the kind of Avro is left out."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        answer = {"schema": text, **more}
        path = f"/schemas/guids/{id}" if isinstance(id, UUID) else f"/schemas/ids/{id}"
        self.answers[path] = answer if kind == "AVRO" else answer | {"schemaType": kind}

    def _answer(self, path: str, authorization: str | None) -> tuple[int, Any]:
        self.requests.append(path)
        if self.status is not None:
            return self.status, {"error_code": self.status * 100 + 1, "message": "test"}
        if self.password is not None:
            expected = base64.b64encode(":".join(self.password).encode()).decode()
            if authorization != f"Basic {expected}":
                return 401, {"error_code": 401, "message": "Unauthorized"}
        if path in self.answers:
            return 200, self.answers[path]
        if path.startswith(("/schemas/ids/", "/schemas/guids/", "/subjects/")):
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 404, None


@contextmanager
def running_registry() -> Iterator[Registry]:
    """Run a registry on a free port."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = registry._answer(self.path, self.headers["Authorization"])
            body = b"<html>" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", registry.url)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
