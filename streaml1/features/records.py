"""Dicts whose members are features, a label and more: ``{"click": 1, "site": "news"}``.

They mean what the same objects mean as flat JSON lines, see `streaml1.sources.readers.flat_json`:
strings are categories, None is absent, nested dicts are named by their paths, a list of strings
gives one feature each. NaN is absent, too, and a name of any type may be that of a feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.rows import is_missing, shown
from streaml1.features.batch import category_text
from streaml1.features.flat_members import (
    FlatMembers,
    MemberRoles,
    Reading,
    find_member,
    find_roles,
    select_object,
)

__all__ = [
    "Record", "example_id", "flat_features", "member_text", "read_record", "require_dict",
]  # fmt: skip

PLAIN = frozenset({int, float, str, bool, type(None)})
"""Types of values that need no conversion."""


class Record(NamedTuple):
    """The features, the label, the sample weight (None without a role) and the id of a dict."""

    x: dict[Any, Any]
    y: Any
    w: Any
    id: int | str | None


def read_record(
    row: Mapping[Any, Any], roles: MemberRoles, require_label: bool = True
) -> Record | None:
    """Read a dict.

    Parameters
    ----------
    row
        The dict, which stays unchanged.
    roles
        The members that are not plain features.
    require_label
        Whether a dict without a label is rejected. Otherwise its label is None.

    Returns
    -------
    Record or None
        None if `roles.at` is the path of None.

    Raises
    ------
    ValueError
        If the dict is invalid; the text is one sentence.

    Examples
    --------
    >>> from streaml1.features.flat_members import MemberRoles
    >>> from streaml1.features.records import read_record
    >>> row = {"click": 1, "site": "news", "user": {"age": 31}, "tags": ["a", "b"]}
    >>> record = read_record(row, MemberRoles("click"))
    >>> record.x, record.y
    ({'site': 'news', 'user.age': 31, 'tags=a': 1.0, 'tags=b': 1.0}, 1)
    """
    if roles.at is not None:
        found = select_object(row, roles.at)
        if found is None or is_missing(found.value):
            return None
        if not isinstance(found.value, Mapping):
            raise ValueError(f"{shown(found.value)} at {roles.at!r} is not an object of features")
        row = found.value
    record = _read_plain(row, roles)
    return _read_nested(row, roles, require_label) if record is None else record


def _read_plain(row: Mapping[Any, Any], roles: MemberRoles) -> Record | None:
    """Read a dict of numbers and strings, with all members that roles name; None otherwise."""
    if roles.readings or not PLAIN.issuperset(map(type, row.values())):
        return None
    x = dict(row)
    try:
        y = None if roles.target is None else x.pop(roles.target)
        w = None if roles.weight is None else x.pop(roles.weight)
        named = None if roles.id is None else x.pop(roles.id)
        for name in roles.ignore:
            del x[name]
    except KeyError:
        return None
    if (y is None and roles.target is not None) or y != y:
        return None
    return Record(x, roles.label(y), w, example_id(named))


def _read_nested(row: Mapping[Any, Any], roles: MemberRoles, require_label: bool) -> Record:
    found = find_roles(row, roles, require_label)
    flat = _PythonMembers(roles, found.taken)
    flat.add_members(row)
    y = found.label
    if is_missing(y):
        if require_label:
            raise ValueError(f"the label {roles.target!r} is missing: it is {shown(y)}")
        y = None
    y = y.item() if isinstance(y, np.generic) else y
    return Record(flat.x, roles.label(y), found.weight, example_id(found.id and found.id.value))


def flat_features(members: Mapping[Any, Any], roles: MemberRoles) -> dict[Any, Any]:
    """Return the features of members of an example; members with a role may be absent.

    Raises
    ------
    ValueError
        If a value is not a feature, a name occurs twice, or values are nested too deeply.

    Examples
    --------
    >>> from streaml1.features.flat_members import MemberRoles
    >>> from streaml1.features.records import flat_features
    >>> flat_features({"v": [{"a": 2}, None, "b"]}, MemberRoles("v.0.a"))
    {'v=b': 1.0}
    """
    paths = (roles.target, roles.weight, roles.id)
    found = [find_member(members, path) for path in paths if path is not None]
    flat = _PythonMembers(roles, {(id(place.parent), place.key) for place in found if place})
    flat.add_members(members)
    return flat.x


def require_dict(row: Any) -> None:
    """Raise ValueError unless a row is a dict; the text says how to make one of it."""
    if row.__class__ is dict or isinstance(row, Mapping):
        return
    remedy = ""
    if hasattr(row, "_asdict"):
        remedy = ", as from row._asdict()"
    elif is_dataclass(row):
        remedy = ", as from dataclasses.asdict(row)"
    elif isinstance(row, np.void) and row.dtype.names:
        remedy = "; give pandas.DataFrame(X) of a structured array X"
    elif hasattr(row, "keys"):
        remedy = ", as from dict(row)"
    raise ValueError(f"{shown(row)} is not an example: it must be a dict{remedy}")


def example_id(value: Any) -> int | str | None:
    """Return the id of an example, an integer or a string; values of other types become strings.

    Missing values, bools, objects and arrays are not ids.

    Examples
    --------
    >>> from streaml1.features.records import example_id
    >>> example_id(7), example_id("a7"), example_id(7.0), example_id(float("nan"))
    (7, 'a7', '7', None)
    """
    value = value.item() if isinstance(value, np.generic) else value
    if is_missing(value) or isinstance(value, bool | Mapping | list | tuple | np.ndarray):
        return None
    return value if isinstance(value, int | str) else category_text(value)


def member_text(value: Any) -> str:
    """Return the value of a member as a category: as `category_text`, but bools as in JSON."""
    return str(value).lower() if isinstance(value, bool) else category_text(value)


class _PythonMembers(FlatMembers):
    """The features of a dict of Python objects."""

    def _opened(self, value: Any) -> Any:
        if type(value) in PLAIN:
            return None if value != value else value
        if isinstance(value, np.ndarray | np.generic):
            value = value.tolist()
            return None if is_missing(value) else value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, Mapping):
            return value if isinstance(value, dict) else dict(value)
        if isinstance(value, tuple):
            return list(value)
        return None if is_missing(value) else value

    def _leaf(self, value: Any, reading: Reading) -> Any:
        if reading is Reading.CATEGORY and not isinstance(value, str | dict | list):
            return member_text(value)
        return value

    def _put(self, name: str, value: Any) -> None:
        if not isinstance(value, str):
            try:
                isfinite(value)
            except TypeError:
                raise ValueError(
                    f"feature {shown(name)}: a value must be a number, a string, a bool, None, a "
                    f"dict or a list, got {shown(value)}"
                ) from None
            except (OverflowError, ValueError):
                pass
        super()._put(name, value)
