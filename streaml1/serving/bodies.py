"""The examples of a request body: JSON, JSON lines, Vowpal Wabbit text, svmlight."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from streaml1.core.named_options import named_option
from streaml1.sources.readers.json_requests import decode_json, features_of

if TYPE_CHECKING:
    from streaml1.sources.readers.flat_json import JsonRoles

__all__ = [
    "FORMATS",
    "Body",
    "Features",
    "RequestError",
    "examples_of",
    "flatten",
    "json_of",
    "kind_of",
    "located",
]

Features = Mapping[Hashable, Any]

_BEFORE_JSON = b" \t\r\n\xef\xbb\xbf"
"""White space, and the bytes of a byte order mark."""


class RequestError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@contextmanager
def located(place: str) -> Iterator[None]:
    """Name the place of a fault in a body, such as a line."""
    try:
        yield
    except RequestError as error:
        raise RequestError(error.status, f"{place}: {error.reason}") from None


class Body(NamedTuple):
    """The examples of a request, and how the answer is written: one, many, or as lines."""

    examples: Sequence[Features]
    form: str


Reader = Callable[[bytes, Sequence[str], "JsonRoles | None"], Body]


def json_of(body: bytes, roles: JsonRoles | None = None, *, or_text: bool = True) -> Any:
    """Return the JSON value of a body; with `roles`, one that they can be applied to.

    `or_text` says whether lines of text would be accepted, too.
    """
    try:
        return decode_json(body, roles)
    except ValueError as error:
        if not body.strip():
            sentence = "the body is not valid JSON: it is empty; send an object of features"
            raise RequestError(400, sentence) from None
        is_text = or_text and body.lstrip(_BEFORE_JSON)[:1] not in (b"{", b"[", b'"')
        hint = "; lines of text need Content-Type: text/vw or text/svmlight" if is_text else ""
        raise RequestError(400, f"the body is {error}{hint}") from None


def flatten(value: Any, roles: JsonRoles | None = None) -> dict[Hashable, Any]:
    """Return the features of a JSON object, see `json_requests.features_of`."""
    try:
        return features_of(value, roles)
    except ValueError as error:
        raise RequestError(400, str(error)) from None


def _of_json(body: bytes, texts: Sequence[str], roles: JsonRoles | None) -> Body:
    try:
        value = json_of(body, roles)
    except RequestError:
        if b"\n" not in body.strip():
            raise
        return _of_json_lines(body, texts, roles)
    # With as few brackets no object or array is inside of an example: `flatten` would find nothing.
    if roles is None and type(value) is dict and body.find(b"{", 1) < 0 and body.find(b"[") < 0:
        return Body([value], "one")
    items, form = (value, "many") if isinstance(value, list) else ([value], "one")
    is_flat = body.count(b"{") == len(items) and body.count(b"[") == (form == "many")
    if roles is None and is_flat and set(map(type, items)) == {dict}:
        return Body(items, form)
    if form == "one":
        return Body([flatten(value, roles)], form)
    examples = []
    for row, item in enumerate(items):
        with located(f"example {row}"):
            examples.append(flatten(item, roles))
    return Body(examples, form)


def _of_json_lines(body: bytes, texts: Sequence[str], roles: JsonRoles | None) -> Body:
    examples = []
    for number, line in enumerate(body.splitlines(), start=1):
        if not line.strip():
            continue
        with located(f"line {number}"):
            examples.append(flatten(json_of(line, roles), roles))
    return Body(examples, "lines")


def _of_lines(parse: Callable[[str, Sequence[str]], Any]) -> Reader:
    def read(body: bytes, texts: Sequence[str], roles: JsonRoles | None) -> Body:
        examples = []
        for number, line in enumerate(body.decode("utf-8", "surrogateescape").split("\n"), 1):
            if not line.strip():
                continue
            try:
                parsed = parse(line.rstrip("\r"), texts)
            except ValueError as error:
                raise RequestError(400, f"line {number}: {_by_content_type(error)}") from None
            if parsed is not None:
                examples.append(parsed[0])
        return Body(examples, "lines")

    return read


def _by_content_type(error: ValueError) -> str:
    """Return an error about a line that names other formats as a request does."""
    reason = str(error)
    for form, kind in (("vw", "text/vw"), ("svmlight", "text/svmlight")):
        reason = reason.replace(named_option("format", form), f"the content type {kind}")
    return reason


def _parse_vw(line: str, texts: Sequence[str]) -> Any:
    from streaml1.sources.readers.vw import parse_vw

    return parse_vw(line, require_label=False, texts=texts)


def _parse_svmlight(line: str, texts: Sequence[str]) -> Any:
    from streaml1.sources.readers.svmlight import parse_svmlight

    return parse_svmlight(line, require_label=False)


FORMATS: dict[str, Reader] = {
    "application/json": _of_json,
    "application/x-ndjson": _of_json_lines,
    "application/jsonl": _of_json_lines,
    "text/vw": _of_lines(_parse_vw),
    "text/svmlight": _of_lines(_parse_svmlight),
}
"""Readers by content type."""


@lru_cache(maxsize=64)
def kind_of(content_type: str) -> str:
    """Return the content type of a body without its parameters; JSON if there is none."""
    kind = content_type.partition(";")[0].strip().lower() or "application/json"
    is_default = kind in ("application/x-www-form-urlencoded", "text/plain")  # what clients send
    return "application/json" if is_default else kind


def examples_of(
    body: bytes, kind: str, texts: Sequence[str] = (), roles: JsonRoles | None = None
) -> Body:
    """Return the examples of a body.

    Parameters
    ----------
    body, kind
        The body, and its content type as `kind_of` returns it.
    texts
        Names that the model reads as raw text.
    roles
        How members of JSON objects are read, see `json_requests.roles_of`.

    Raises
    ------
    RequestError
        If the content type is unknown, or the body is invalid.
    """
    if kind not in FORMATS:
        raise RequestError(415, f"the content type must be one of {', '.join(FORMATS)}, got {kind}")
    found = FORMATS[kind](body, texts, roles)
    if not found.examples:
        raise RequestError(400, "the body holds no example")
    return found
