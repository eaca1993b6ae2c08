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
        If it is not JSON. The text says what the body is instead.
    """
    if roles is None:
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"not valid JSON: {error}") from None
    from streaml1.sources.readers.flat_json import decode_members

    try:
        return decode_members(body.decode())
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"invalid: {error}") from None


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
    if isinstance(value.get("x"), dict):  # as in files: a label and an id may be beside it
        members = value["x"]
    if roles is None and {dict, list}.isdisjoint(map(type, members.values())):
        return members
    from streaml1.sources.readers.flat_json import NO_ROLES, flatten_members

    return flatten_members(members, NO_ROLES if roles is None else roles)


def _kind(value: Any) -> str:
    kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
