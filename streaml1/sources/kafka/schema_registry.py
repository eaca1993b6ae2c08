"""Schema registries: the schemas that the headers of records name by an id.

The REST API is that of Confluent Schema Registry, which others, such as Apicurio, Karapace and
Redpanda, offer as well.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener
from uuid import UUID

from streaml1.sources.source import SourceError, Unavailable, shown

__all__ = ["PASSWORD", "USER", "RegisteredSchema", "SchemaRegistry", "UnknownSchema"]

USER, PASSWORD = "STREAML1_REGISTRY_USER", "STREAML1_REGISTRY_PASSWORD"
"""Environment variables of the credentials for basic authentication."""

TIMEOUT = 10.0
"""Seconds until a request fails."""

MAX_ANSWER = 2**24
"""Bytes of the largest answer."""

MAX_REFERENCES = 100
"""Schemas that a schema refers to."""

RETRY_SECONDS = 30.0
"""How long an id stays unknown: a registry may have replicas that are behind."""

MAX_UNKNOWN = 1000
"""Unknown ids that are remembered."""


class UnknownSchema(ValueError):
    """The registry has no schema of an id; the text is one sentence."""


class RegisteredSchema(NamedTuple):
    """A schema of a registry."""

    kind: str
    """``AVRO``, ``JSON`` or ``PROTOBUF``."""
    text: str
    references: Mapping[str, str]
    """The texts of the schemas that it refers to by their names; each before those that need it."""


class _NoRedirects(HTTPRedirectHandler):
    """Passwords must not be sent to where a redirect points."""

    def redirect_request(self, *args: Any) -> None:
        """Follow no redirect: it is an error."""


class SchemaRegistry:
    """A client of a registry. Decoders are cached by those who use it.

    Parameters
    ----------
    url
        The address, such as ``http://registry:8081``. Credentials come from the environment
        variables `USER` and `PASSWORD`.

    Raises
    ------
    SourceError
        If the address is invalid.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port
        except ValueError:
            is_valid = False
        if not is_valid:
            raise SourceError(
                f"the schema registry must be a URL such as http://registry:8081, got {shown(url)}"
            )
        if parts.username is not None or parts.password is not None:
            raise SourceError(
                "the URL of the schema registry has a user or a password: set the environment "
                f"variables {USER} and {PASSWORD} instead"
            )
        self.url = url.rstrip("/")
        self._authorization = _authorization()
        self._open = build_opener(_NoRedirects).open
        self._unknown: dict[int | UUID, float] = {}

    def schema(self, id: int | UUID) -> RegisteredSchema:
        """Return the schema of an id, or of a GUID.

        Raises
        ------
        UnknownSchema
            If there is none.
        Unavailable
            If the registry does not answer.
        SourceError
            If it rejects the request.
        """
        now = time.monotonic()
        if now < self._unknown.get(id, now):
            raise self._unknown_schema(id)
        path = f"/schemas/guids/{id}" if isinstance(id, UUID) else f"/schemas/ids/{id}"
        try:
            answer = self._get(path)
            kind = answer.get("schemaType", "AVRO")
            if kind == "PROTOBUF":
                answer = answer | self._get(f"{path}?format=serialized")
        except _NotFound:
            if len(self._unknown) >= MAX_UNKNOWN:
                self._unknown.clear()
            self._unknown[id] = now + RETRY_SECONDS
            raise self._unknown_schema(id) from None
        references: dict[str, str] = {}
        self._add_references(answer, kind, references)
        return RegisteredSchema(kind, _text(answer, self.url), references)

    def _unknown_schema(self, id: int | UUID) -> UnknownSchema:
        return UnknownSchema(f"the schema registry {self.url} has no schema with the id {id}")

    def _add_references(self, answer: dict[str, Any], kind: str, found: dict[str, str]) -> None:
        for reference in answer.get("references") or ():
            name = str(reference["name"])
            if name in found:
                continue
            if len(found) >= MAX_REFERENCES:
                raise ValueError(f"a schema refers to more than {MAX_REFERENCES} others")
            subject, version = quote(str(reference["subject"]), safe=""), int(reference["version"])
            serialized = "?format=serialized" if kind == "PROTOBUF" else ""
            try:
                other = self._get(f"/subjects/{subject}/versions/{version}{serialized}")
            except _NotFound:
                raise UnknownSchema(
                    f"the schema registry {self.url} lacks version {version} of "
                    f"{shown(str(reference['subject']))}, to which a schema refers"
                ) from None
            found[name] = ""  # a cycle ends here
            self._add_references(other, kind, found)
            del found[name]
            found[name] = _text(other, self.url)

    def _get(self, path: str) -> dict[str, Any]:
        """Return the JSON object that the registry answers."""
        request = Request(self.url + path, headers={"Accept": "application/json"})
        if self._authorization is not None:
            request.add_unredirected_header("Authorization", self._authorization)
        try:
            with self._open(request, timeout=TIMEOUT) as answer:
                content = answer.read(MAX_ANSWER + 1)
        except HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            reason = getattr(reason, "strerror", None) or reason
            raise Unavailable(
                f"the schema registry {self.url} does not answer: {str(reason).rstrip('.')}"
            ) from None
        try:
            found = json.loads(content) if len(content) <= MAX_ANSWER else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise SourceError(f"{self.url} is not a schema registry: its answer is not JSON")
        return found

    def _refusal(self, error: HTTPError) -> Exception:
        code = error.code
        if code in (401, 403):
            remedy = f"set {USER} and {PASSWORD}"
            if self._authorization is not None:
                remedy = f"check {USER} and {PASSWORD}"
            return SourceError(
                f"the schema registry {self.url} denies access (HTTP status {code}): {remedy}"
            )
        if code == 404:
            try:
                answer = json.loads(error.read(MAX_ANSWER))
            except (OSError, HTTPException, ValueError, RecursionError):
                answer = None
            if isinstance(answer, dict) and "error_code" in answer:
                return _NotFound()
            return SourceError(
                f"{self.url} is not a schema registry: it answers with the HTTP status 404; check "
                "the path of the URL"
            )
        if code in (408, 429) or code >= 500:
            return Unavailable(f"the schema registry {self.url} is unavailable: HTTP status {code}")
        return SourceError(
            f"the schema registry {self.url} rejects the request: HTTP status {code}"
        )


class _NotFound(Exception):
    """The registry works, but lacks what was requested."""


def _authorization() -> str | None:
    """Return the value of the header for basic authentication; None without credentials."""
    user, password = os.environ.get(USER), os.environ.get(PASSWORD)
    if user is None and password is None:
        return None
    if user is None or password is None:
        given, other = (USER, PASSWORD) if password is None else (PASSWORD, USER)
        raise SourceError(f"{given} is set, but {other} is not: the schema registry needs both")
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _text(answer: Mapping[str, Any], url: str) -> str:
    text = answer.get("schema")
    if not isinstance(text, str):
        raise SourceError(f"{url} is not a schema registry: its answer has no schema")
    return text
