"""Flat JSON lines: ``{"clicked": 1, "site": "news", "user": {"age": 31}, "tags": ["a", "b"]}``.

The members of a line are its features. Options name the label and other members with a role.

- A string is a category: ``site=news``. null is absent; true and false are 1 and 0.
- Members of nested objects are named by their path: ``user.age``.
- A string in an array is a category of the array: ``tags=a``, ``tags=b``; one that occurs twice
  counts twice. Other elements are named by their index from 0: ``vec.0``, ``items.0.price``.

`parse_flat` defines the format. Lines of numbers, strings, true, false and null are parsed by the
kernel `streaml1.text.jsonl.parse_lines`, with the same results, as are objects and arrays of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from streaml1.core.named_options import named_option
from streaml1.features.flat_members import (
    MAX_DEPTH,
    DuplicateNames,
    FlatMembers,
    MemberRoles,
    Reading,
    find_roles,
    reject_duplicates,
    select_object,
)
from streaml1.sources.readers.jsonl import (
    EXACT,
    STRICT_HOOKS,
    JsonExample,
    Label,
    decode_strict,
    label_of,
    read_features,
    read_label,
    with_id,
    without_features,
)
from streaml1.sources.source import SourceError, read_weight, shown
from streaml1.text.json_roles import CATEGORY, ID, IGNORED, LABEL, NUMERIC, WEIGHT

__all__ = [
    "NO_ROLES",
    "JsonRoles",
    "decode_members",
    "flatten_members",
    "parse_flat",
]


MISSING: Any = object()


class JsonRoles(MemberRoles):
    """The members of flat lines that are not plain features, see `MemberRoles`.

    Raises
    ------
    SourceError
        If a member has two roles.
    """

    def __post_init__(self) -> None:
        try:
            super().__post_init__()
        except ValueError as error:
            raise SourceError(str(error)) from None

    @property
    def codes(self) -> dict[str, int]:
        """The role of each member as the kernel takes it."""
        code = {
            "target": LABEL, "weight": WEIGHT, "id": ID, "ignored": IGNORED,
            "categorical": CATEGORY, "numeric": NUMERIC,
        }  # fmt: skip
        return {name: code[role] for name, role in self.named_roles()}

    @property
    def identity(self) -> dict[str, Any]:
        """The roles as JSON values; a checkpoint resumes only with the same ones."""
        later: dict[str, Any] = {}  # what older checkpoints lack
        if self.positive is not None:
            later["positive"] = self.positive
        if self.numeric:
            later["numeric"] = sorted(self.numeric)
        if not self.named and self.at is None:
            return later
        return {
            "target": self.target, "weight": self.weight, "id": self.id,
            "ignore": sorted(self.ignore), "categorical": sorted(self.categorical), "at": self.at,
            **later,
        }  # fmt: skip


NO_ROLES = JsonRoles()


# One line in Python


def parse_flat(
    text: str, roles: JsonRoles = NO_ROLES, require_label: bool = True
) -> JsonExample | None:
    """Parse one line.

    Without a target, a line with an object ``x`` is read as `streaml1.sources.readers.jsonl` does.

    Parameters
    ----------
    text
        The line.
    roles
        The members that are not plain features.
    require_label
        Whether a line without a label is rejected. Otherwise its label is None.

    Returns
    -------
    The features, the label and the weight, and the id if there is one; None for an empty line, or
    if null is where the example should be.

    Raises
    ------
    ValueError
        If the line is invalid; the text is one sentence.

    Examples
    --------
    >>> from streaml1.sources.readers.flat_json import JsonRoles, parse_flat
    >>> parse_flat('{"clicked": 1, "site": "news", "user": {"age": 31}}', JsonRoles("clicked"))
    ({'site': 'news', 'user.age': 31}, 1.0, 1.0)
    """
    text = text.rstrip()
    if not text:
        return None
    try:
        parsed = _parse_fast(text, roles, require_label)
        return _parse_strict(text, roles, require_label) if parsed is MISSING else parsed
    except RecursionError:
        raise ValueError(f"values are nested more than {MAX_DEPTH} levels deep") from None


def _parse_fast(text: str, roles: JsonRoles, require_label: bool) -> Any:
    """Parse a line that orjson has decoded; `MISSING` if `_parse_strict` might return another."""
    if '"  ' in text or "\t" in text:
        return MISSING
    try:
        line = orjson.loads(text)
        n_names = text.count('":') + text.count('" :')
        # Each name is followed by a quote and a colon, with at most one space between. Fewer names
        # than such pairs mean a duplicate name (or the pair inside a string: then be strict, too).
        if type(line) is not dict or n_names != _count_exact_names(line):
            return MISSING
        return _read_line(line, roles, require_label)
    except (ValueError, _Unspelled):
        return MISSING


def _count_exact_names(line: Any) -> int:
    """Return how many names objects have; -1 if a number may be an integer of over 64 bits."""
    n, stack = 0, [line]
    while stack:
        values = stack.pop()
        if type(values) is dict:
            n += len(values)
            values = values.values()
        for value in values:
            kind = type(value)
            if kind is float:
                if not abs(value) < EXACT:
                    return -1
            elif kind is dict or kind is list:
                stack.append(value)
    return n


class _Unspelled(Exception):
    """Raised if the text of a number is needed but lost."""


class Spelled(str):
    """The text of a number."""

    __slots__ = ()

    @property
    def number(self) -> int | float:
        """The number."""
        try:
            return int(self)
        except ValueError:
            return float(self)


_decode_spelled = json.JSONDecoder(**STRICT_HOOKS, parse_int=Spelled, parse_float=Spelled).decode


def _parse_strict(text: str, roles: JsonRoles, require_label: bool) -> JsonExample | None:
    line = decode_strict(text, _decode_spelled)
    if isinstance(line, str) and line.lstrip().startswith("{"):  # JSON in a string
        line = decode_strict(line, _decode_spelled)
    if line is None and roles.at is not None:  # no envelope, as in a tombstone
        return None
    if not isinstance(line, dict):
        reject_duplicates(line)
        remedy = "; convert arrays to CSV, as with jq -r @csv" if isinstance(line, list) else ""
        raise ValueError(
            f"{_shown(line)} is not an example: it must be an object of features{remedy}"
        )
    return _read_line(line, roles, require_label)


def _read_line(line: dict[str, Any], roles: JsonRoles, require_label: bool) -> JsonExample | None:
    if roles.at is not None:
        selected = _select(line, roles.at)
        if selected is None:
            return None
        line = selected
    if roles.target is None and isinstance(line.get("x"), dict | DuplicateNames):
        return _read_with_x(line, roles, require_label)
    if roles.target is None and require_label:
        raise ValueError(without_features(line))
    return _read_flat(line, roles, require_label)


def _read_flat(line: dict[str, Any], roles: JsonRoles, require_label: bool) -> JsonExample:
    found = find_roles(line, roles, require_label)
    flattened = _JsonMembers(roles, found.taken)
    flattened.add_members(line)
    w = 1.0 if roles.weight is None else read_weight(_plain_tree(found.weight))
    label = roles.label(_label(_plain_tree(found.label), roles.target))
    return with_id(flattened.x, label, w, found.id and _plain(found.id.value))


def _label(value: Any, target: str | None) -> Label:
    """Return a label; an error about an object or an array of a single value names this value."""
    try:
        return label_of(value)
    except ValueError as error:
        if not isinstance(value, dict | list) or len(value) != 1:
            raise
        names = [*value] if isinstance(value, dict) else [0]
        option = named_option("target", f"{target}.{names[0]}")
        raise ValueError(f"{error}; use {option} for the value inside") from None


def _plain(value: Any) -> Any:
    return value.number if type(value) is Spelled else value


def _shown(value: Any) -> str:
    return "null" if value is None else shown(_plain_tree(value))


def _plain_tree(value: Any) -> Any:
    """Return a value without `Spelled`, for errors."""
    if isinstance(value, DuplicateNames):
        return _plain_tree(dict(value))
    if isinstance(value, dict):
        return {name: _plain_tree(v) for name, v in value.items()}
    if isinstance(value, list):
        return [_plain_tree(v) for v in value]
    return _plain(value)


def _read_with_x(line: dict[str, Any], roles: JsonRoles, require_label: bool) -> JsonExample:
    """Read a line with an object ``x``; roles name members of it, or in the place of w and id."""
    line = {name: _plain(value) for name, value in line.items()}
    x = line["x"]
    pairs = x if isinstance(x, DuplicateNames) else list(x.items())
    members = _JsonMembers(roles, set())
    pairs = [(name, members.member(name, v)) for name, v in pairs if name not in roles.ignore]
    line["x"] = dict(pairs) if isinstance(x, dict) else DuplicateNames(pairs)
    features, y = read_features(line), roles.label(read_label(line, require_label))
    w = read_weight(line.get("w" if roles.weight is None else roles.weight, 1.0))
    return with_id(features, y, w, line.get("id" if roles.id is None else roles.id))


def _spelling(value: Any) -> Any:
    """Return a number or bool as the category that spells it."""
    if type(value) is Spelled:
        return str(value)
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int and value:  # 0 may be spelled -0
        return str(value)
    if type(value) in (int, float):
        raise _Unspelled
    return value


def _select(line: dict[str, Any], path: str) -> dict[str, Any] | None:
    """Return the object at a path; None if null is there, or on the way."""
    found = select_object(line, path)
    if found is None:
        return None
    value = found.value
    if isinstance(value, str) and value.lstrip().startswith("{"):  # JSON in a string
        try:
            value = decode_strict(value, _decode_spelled)
        except ValueError as error:
            raise ValueError(f"the text at {path!r} is {error}") from None
    if not isinstance(value, dict):
        reject_duplicates(value)
        raise ValueError(f"{_shown(value)} at {path!r} is not an object of features")
    selected: dict[str, Any] = value
    return selected


class _JsonMembers(FlatMembers):
    """The features of a decoded line."""

    def member(self, name: str, value: Any) -> Any:
        """Return the value of a member that is not opened."""
        return self._feature(name, value, self._readings.get(name, Reading.AS_IS))

    def _leaf(self, value: Any, reading: Reading) -> Any:
        return _spelling(value) if reading is Reading.CATEGORY else _plain(value)


def decode_members(text: str) -> Any:
    """Return the value that a JSON text holds, whose numbers keep their spelling as categories.

    Raises
    ------
    ValueError
        If the text is not JSON, or an object has a name twice.
    """
    value = decode_strict(text, _decode_spelled)
    reject_duplicates(value)
    return value


def flatten_members(members: Mapping[Any, Any], roles: JsonRoles = NO_ROLES) -> dict[Any, Any]:
    """Return the features of an object that JSON holds.

    Parameters
    ----------
    members
        The members. If `roles` has categories, `decode_members` has decoded them.
    roles
        How members are read. None of them is a label, a weight or an id.

    Raises
    ------
    ValueError
        If a value is not a feature, two members have the same path, or they are nested too deeply.

    Examples
    --------
    >>> from streaml1.sources.readers.flat_json import flatten_members
    >>> flatten_members({"user": {"os": "mac"}, "tags": ["a"], "v": [2, 0.5]})
    {'user.os': 'mac', 'tags=a': 1.0, 'v.0': 2, 'v.1': 0.5}
    """
    flattened = _JsonMembers(roles, set())
    flattened.add_members(members)
    return flattened.x
