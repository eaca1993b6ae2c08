"""Examples in the bodies of requests: JSON objects whose features have the names of `flat_json`.

That module is imported only for what needs it: most requests do not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from streaml1.sources.readers.flat_json import JsonRoles

__all__ = ["decode_json", "features_of", "roles_of"]

_COLONS_AFTER_SPACE = (b" :", b"\t:", b"\n:", b"\r:")


def roles_of(categorical: Iterable[str], numeric: Iterable[str]) -> JsonRoles | None:
    """Return how members of objects are read; None if all are read as they are.

    Raises
    ------
    SourceError
        If a name is in both.
    """
    categories, numbers = frozenset(categorical), frozenset(numeric)
    if not categories and not numbers:
        return None
    from streaml1.sources.readers.flat_json import JsonRoles

    return JsonRoles(categorical=categories, numeric=numbers)


def decode_json(body: bytes, roles: JsonRoles | None = None) -> Any:
    """Return the JSON value of a body; with `roles`, one that they can be applied to.

    Raises
    ------
    ValueError
        If it is not JSON, or an object has a name twice. The text says what the body is instead.
    """
    if roles is None:
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"not valid JSON: {error}") from None
        if not _may_repeat_a_name(body, value):
            return value
    from streaml1.sources.readers.flat_json import decode_members

    try:
        decoded = decode_members(body.decode())
        _reject_repeated_names(decoded)
        return value if roles is None else decoded
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"invalid: {error}") from None


def _may_repeat_a_name(body: bytes, value: Any) -> bool:
    """Return whether an object of a body may have a name twice: orjson keeps the last member.

    Each member has a colon. If there are no other colons, or none after a quotation mark, then
    counting them counts the members.
    """
    n_colons = body.count(b":")
    if type(value) is dict and n_colons == len(value):
        return False  # the usual case: no colon in a text, and no object in it
    n_members = _count_members(value) if type(value) in (dict, list) else 0
    if n_colons == n_members:
        return False
    return body.count(b'":') != n_members or any(text in body for text in _COLONS_AFTER_SPACE)


def _reject_repeated_names(decoded: Any) -> None:
    from streaml1.features.flat_members import reject_duplicates

    rest = [decoded]
    while rest:
        inner = rest.pop()
        reject_duplicates(inner)
        rest += inner.values() if isinstance(inner, dict) else inner if type(inner) is list else ()


def _count_members(value: Any) -> int:
    """Return the number of members of all objects in a value."""
    n, rest = 0, [value]
    while rest:
        inner = rest.pop()
        items = inner.values() if type(inner) is dict else inner
        n += len(inner) if type(inner) is dict else 0
        rest += [item for item in items if type(item) is dict or type(item) is list]
    return n


def features_of(value: Any, roles: JsonRoles | None = None) -> dict[Hashable, Any]:
    """Return the features of an object, or of its member ``x``.

    Strings are categories, numbers and booleans values, null is absent, unless `roles` say
    otherwise.

    Raises
    ------
    ValueError
        If it is not an object, or not one of features.

    Examples
    --------
    >>> from streaml1.sources.readers.json_requests import features_of
    >>> features_of({"age": 31, "user": {"os": "mac"}, "tags": ["a", "b"], "v": [2, 0.5]})
    {'age': 31, 'user.os': 'mac', 'tags=a': 1.0, 'tags=b': 1.0, 'v.0': 2, 'v.1': 0.5}
    """
    if not isinstance(value, dict):
        raise ValueError(
            f"an example is an object of features, not {_kind(value)}; send for example "
            '{"site": "news", "age": 31}'
        )
    members: dict[Hashable, Any] = value
    if isinstance(value.get("x"), dict):  # as in files: a label and an id may accompany it
        members = value["x"]
    if roles is None and {dict, list}.isdisjoint(map(type, members.values())):
        return members
    from streaml1.sources.readers.flat_json import NO_ROLES, flatten_members

    return flatten_members(members, NO_ROLES if roles is None else roles)


def _kind(value: Any) -> str:
    kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
