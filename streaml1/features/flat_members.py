"""The members of nested objects, by their paths: ``{"user": {"age": 31}}`` holds ``user.age``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from functools import cached_property
from math import isfinite
from typing import Any, NamedTuple

from streaml1.core.named_options import named_option
from streaml1.features.number_texts import read_number_text
from streaml1.features.positive_label import is_positive
from streaml1.features.raw_labels import shown
from streaml1.features.spark_vectors import find_element, is_vector, vector_elements

__all__ = [
    "MAX_DEPTH",
    "DuplicateNames",
    "FlatMembers",
    "Found",
    "MemberRoles",
    "Reading",
    "RoleMembers",
    "array_of_objects",
    "check_feature",
    "find_member",
    "find_roles",
    "list_members",
    "reject_duplicates",
    "select_object",
    "several_roles",
]

MAX_DEPTH = 64
"""How deep objects and arrays may be nested; deeper ones are rejected."""

MAX_ENVELOPES = 4
"""How deep an error searches nested objects for a missing label."""

MAX_LISTED = 20
"""Members that an error lists."""


class DuplicateNames(list[tuple[str, Any]]):
    """The members of an object in which a name occurs twice."""


class Reading(Enum):
    """How the values of a member are read."""

    AS_IS = 0
    """Numbers as numbers, texts as categories."""
    CATEGORY = 1
    """Numbers, too, as categories."""
    NUMBER = 2
    """Texts, too, as numbers."""


@dataclass(frozen=True)
class MemberRoles:
    """The members of flat examples that are not plain features, each a name or a path of names.

    Parameters
    ----------
    target, weight, id
        The members of the label, the sample weight and the id.
    ignore
        Members to ignore, with all that is inside.
    categorical
        Members whose numbers and bools are categories, spelled as in the line: ``zip=94110``.
    at
        Path of the object that holds the example, in an envelope.
    positive
        The label that is 1; any other label is then 0.
    numeric
        Members whose texts are numbers, as `streaml1.features.number_texts` reads them.
    elsewhere
        Columns that names of directories hold, for errors.

    Raises
    ------
    ValueError
        If a member has two roles.
    """

    target: str | None = None
    weight: str | None = None
    id: str | None = None
    ignore: frozenset[str] = frozenset()
    categorical: frozenset[str] = frozenset()
    at: str | None = None
    positive: str | None = None
    numeric: frozenset[str] = frozenset()
    elsewhere: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        roles = self.named_roles()
        for name, role in roles:
            for other, other_role in roles:
                if name == other and role != other_role:
                    raise ValueError(f"member {name!r} {several_roles([role, other_role])}")

    def named_roles(self) -> list[tuple[str, str]]:
        """Return the members with a role, each with its role."""
        single = (("target", self.target), ("weight", self.weight), ("id", self.id))
        roles = [(name, role) for role, name in single if name is not None]
        roles += [(name, "ignored") for name in sorted(self.ignore, key=str)]
        roles += [(name, "categorical") for name in sorted(self.categorical, key=str)]
        return roles + [(name, "numeric") for name in sorted(self.numeric, key=str)]

    @property
    def named(self) -> bool:
        """Whether any member has a role."""
        return bool(self.named_roles())

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """How the values of members are read that are not read as they are."""
        return {
            **dict.fromkeys(self.categorical, Reading.CATEGORY),
            **dict.fromkeys(self.numeric, Reading.NUMBER),
        }

    def label(self, y: Any) -> Any:
        """Return a label as it is learnt."""
        return y if y is None or self.positive is None else float(is_positive(y, self.positive))


# Members by their paths


class Found(NamedTuple):
    """A member: the object or array that holds it, its name or index, and its value."""

    parent: Any
    key: str | int
    value: Any


def find_member(value: Any, path: str) -> Found | None:
    """Return the member at a path; a name that contains dots takes precedence over a path.

    Examples
    --------
    >>> from streaml1.features.flat_members import find_member
    >>> find_member({"user": {"age": 31}}, "user.age").value
    31
    """
    for key, rest in _splits(path):
        if isinstance(value, Mapping) and key in value:
            found = Found(value, key, value[key])
        elif type(value) is list and key.isdecimal() and int(key) < len(value):
            found = Found(value, int(key), value[int(key)])
        elif isinstance(value, Mapping) and is_vector(value):
            element = find_element(value, key)
            if element is None:
                continue
            found = Found(value, key, element)
        else:
            continue
        deeper: Found | None = found if rest is None else find_member(found.value, rest)
        if deeper is not None:
            return deeper
    return None


def _splits(path: str) -> Iterator[tuple[str, str | None]]:
    """Yield the ways to split a path into a name and the rest, the longest name first."""
    yield path, None
    end = path.rfind(".") if isinstance(path, str) else -1
    while end >= 0:
        yield path[:end], path[end + 1 :]
        end = path.rfind(".", 0, end)


def select_object(line: Mapping[str, Any], path: str) -> Found | None:
    """Return the member at the path of an envelope; None if null is there, or on the way.

    Raises
    ------
    ValueError
        If nothing is there.
    """
    found = find_member(line, path)
    if found is None:
        parts = path.split(".")
        prefixes = (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
        if any((way := find_member(line, prefix)) and way.value is None for prefix in prefixes):
            return None
        raise ValueError(f"the line has nothing at {path!r}: {list_members(line)}")
    return None if found.value is None else found


class RoleMembers(NamedTuple):
    """The members of an example that have a role; None if there is no such member."""

    label: Any
    weight: Any
    id: Found | None
    taken: set[tuple[int, str | int]]
    """Identities of what holds them, and their names."""


def find_roles(
    line: Mapping[str, Any], roles: MemberRoles, require_label: bool = True
) -> RoleMembers:
    """Return the values of the members with roles.

    Raises
    ------
    ValueError
        If the weight is missing, or the label is and is required.
    """
    label, weight, named = (
        None if path is None else find_member(line, path)
        for path in (roles.target, roles.weight, roles.id)
    )
    y = None if label is None else label.value
    if y is None and require_label:
        reason = "is null" if label else f"is missing: {_list_columns(line, roles)}"
        remedy = "" if label else _remedy(line, str(roles.target), roles.at)
        raise ValueError(f"the label {roles.target!r} {reason}{remedy}")
    if roles.weight is not None and weight is None:
        raise ValueError(f"the weight {roles.weight!r} is missing: {_list_columns(line, roles)}")
    taken = {(id(found.parent), found.key) for found in (label, weight, named) if found}
    return RoleMembers(y, None if weight is None else weight.value, named, taken)


def _holder(line: Mapping[str, Any], name: str) -> str | None:
    """Return the path of the first object inside that has a member with a name; None if none has.

    Examples
    --------
    >>> from streaml1.features.flat_members import _holder
    >>> _holder({"op": "c", "payload": {"after": {"clicked": 1}}}, "clicked")
    'payload.after'
    """
    level = [(str(key), value) for key, value in line.items()]
    for _ in range(MAX_ENVELOPES):
        level = [(path, value) for path, value in level if isinstance(value, Mapping)]
        for path, value in level:
            if name in value:
                return path
        level = [(f"{path}.{key}", v) for path, value in level for key, v in value.items()]
    return None


def _remedy(line: Mapping[str, Any], name: str, at: str | None) -> str:
    """Return a clause that says how to read a label that is inside; "" if it is not."""
    envelope = "" if at is None else f"{at}."
    if (holder := _holder(line, name)) is not None:
        target = named_option("target", f"{holder}.{name}")
        option = named_option("at", f"{envelope}{holder}")
        return f"; use {target}, or {option} if that object is the example"
    for path, value in line.items():
        if isinstance(value, str) and value.lstrip().startswith("{") and f'"{name}"' in value:
            return f"; use {named_option('at', f'{envelope}{path}')} if that text is the example"
    if (array := array_of_objects(line)) is not None:
        path, first = array
        if name in first or _holder(first, name) is not None:
            option = named_option("at", f"{envelope}{path}")
            return (
                f"; the array {path!r} holds it: use {option} if each of its objects is an example "
                "(in files)"
            )
    similar = {str(key).lower(): key for key in line}
    if close := get_close_matches(name.lower(), similar, 1, 0.75):
        return f"; did you mean {named_option('target', similar[close[0]])}?"
    return ""


def array_of_objects(line: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Return the path of the first array of objects inside, and its first object; or None.

    Examples
    --------
    >>> from streaml1.features.flat_members import array_of_objects
    >>> array_of_objects({"took": 3, "hits": {"total": 1, "hits": [{"clicked": 1}]}})
    ('hits.hits', {'clicked': 1})
    """
    level = [(str(key), value) for key, value in line.items()]
    for _ in range(MAX_ENVELOPES):
        for path, value in level:
            if isinstance(value, list) and value and isinstance(value[0], Mapping):
                return path, value[0]
        inside = [(path, value) for path, value in level if isinstance(value, Mapping)]
        level = [(f"{path}.{key}", v) for path, value in inside for key, v in value.items()]
    return None


def several_roles(roles: Sequence[str]) -> str:
    """Return a clause about a column or a member with several roles."""
    remedy = f": an id is not a feature, so omit it from {named_option('ignore')}"
    found = f"can have only one role, got {' and '.join(roles)}"
    return found + remedy * ({*roles} == {"id", "ignored"})


def list_members(example: Mapping[str, Any]) -> str:
    """Return a clause that lists the members of an object."""
    n_more = len(example) - MAX_LISTED
    names = ", ".join(map(str, [*example][:MAX_LISTED])) + (f" and {n_more} more" * (n_more > 0))
    return f"its members are: {names}" if example else "it has no members"


def _list_columns(line: Mapping[str, Any], roles: MemberRoles) -> str:
    """Return a clause that lists the members of a line, and the columns of directories."""
    directories = f"; those of directories: {', '.join(roles.elsewhere)}"
    return list_members(line) + directories * bool(roles.elsewhere)


def reject_duplicates(value: Any) -> None:
    """Raise ValueError if a value is an object with a name twice."""
    if isinstance(value, DuplicateNames):
        names = [name for name, _ in value]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {shown(twice)} occurs twice in an object: it must occur once")


# Features


class FlatMembers:
    """The features of an object, by their paths.

    Subclasses say what the values of a kind of object mean.

    Parameters
    ----------
    roles
        The members that are not plain features.
    taken
        What is not a feature, see `RoleMembers`.
    """

    def __init__(self, roles: MemberRoles, taken: set[tuple[int, str | int]]) -> None:
        self.x: dict[Any, Any] = {}
        self._counted: set[str] = set()  # names of strings in arrays
        self._ignored = roles.ignore
        self._readings = roles.readings
        self._taken = taken

    def _opened(self, value: Any) -> Any:
        """Return a value with objects as dicts, arrays as lists, and None for an absent one."""
        return value

    def _leaf(self, value: Any, reading: Reading) -> Any:
        """Return the value of a feature that is no `Reading.NUMBER`: a string for a category."""
        raise NotImplementedError

    def _feature(self, name: str, value: Any, reading: Reading) -> Any:
        """Return the value of a feature: a number, a category's string, or None if it is absent."""
        if reading is not Reading.NUMBER or not isinstance(value, str):
            return self._leaf(value, reading)
        value = self._leaf(value, Reading.AS_IS)
        if not isinstance(value, str):  # a number that is kept as its text
            return value
        try:
            return read_number_text(value)
        except ValueError as error:
            raise ValueError(
                f"feature {shown(name)}: {error}; leave it out of {named_option('numeric')}"
            ) from None

    def add_members(self, value: Mapping[str, Any]) -> None:
        """Add the members of an object."""
        self._add_object(value, "", 0, Reading.AS_IS)

    def _add_object(
        self, value: Mapping[str, Any], prefix: str, depth: int, reading: Reading
    ) -> None:
        """Add the members of an object whose path and a dot are `prefix`."""
        for key, v in value.items():
            if (id(value), key) not in self._taken:
                self._add(f"{prefix}{key}" if prefix else key, v, depth, reading)

    def _add(self, name: str, value: Any, depth: int, reading: Reading) -> None:
        if name in self._ignored:
            return
        reading = self._readings.get(name, reading)
        value = self._opened(value)
        if isinstance(value, dict | list):
            if depth + 1 >= MAX_DEPTH:
                raise ValueError(f"values are nested more than {MAX_DEPTH} levels deep")
            reject_duplicates(value)
            if isinstance(value, list):
                self._add_array(value, name, depth + 1, reading)
            elif not self._add_vector(value, name, depth + 1, reading):
                self._add_object(value, f"{name}.", depth + 1, reading)
        elif value is not None:
            value = self._feature(name, value, reading)
            if value is not None:
                self._put(name, value)

    def _add_vector(
        self, members: Mapping[str, Any], name: str, depth: int, reading: Reading
    ) -> bool:
        """Add the elements of a vector; return whether the object is one."""
        if not is_vector(members):
            return False
        opened = {key: self._opened(value) for key, value in members.items()}
        elements = vector_elements(name, opened)
        for index, v in elements or ():
            if (id(members), str(index)) not in self._taken:
                self._add(f"{name}.{index}", v, depth, reading)
        return elements is not None

    def _add_array(self, array: list[Any], name: str, depth: int, reading: Reading) -> None:
        for index, v in enumerate(array):
            v = self._opened(v)
            if (id(array), index) in self._taken or v is None:
                continue
            if reading is Reading.CATEGORY:
                v = self._leaf(v, reading)
            if type(v) is str and reading is not Reading.NUMBER:
                counted = f"{name}={v}"
                if counted in self._counted:
                    self.x[counted] += 1.0
                else:
                    self._put(counted, 1.0)
                    self._counted.add(counted)
            else:
                self._add(f"{name}.{index}", v, depth, reading)

    def _put(self, name: str, value: Any) -> None:
        if type(value) is not str and not _is_finite(value):
            check_feature(name, value)
        if name in self.x:
            raise ValueError(
                f"the name {shown(name)} occurs twice, once as a path: rename or ignore one of them"
            )
        self.x[name] = value


def _is_finite(value: Any) -> bool:
    try:
        return isfinite(value)
    except OverflowError:
        return False


def _unnested(name: str, value: Any) -> str:
    """Return how to write the first member of a nested object."""
    member = next(iter(value), None) if isinstance(value, dict) else None
    return "" if member is None else f"; write its members as {shown(f'{name}.{member}')}"


def check_feature(name: str, value: Any) -> None:
    """Raise ValueError for a value that no feature can have."""
    if value is None or isinstance(value, str):
        return
    if isinstance(value, (dict, list)):
        raise ValueError(
            f"feature {shown(name)} is nested: "
            f"a value must be a number, a string, true, false or null{_unnested(name, value)}"
        )
    if not _is_finite(value):
        raise ValueError(f"feature {shown(name)}: {shown(value)} is too large for a float")
