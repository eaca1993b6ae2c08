"""Structs in Arrow tables: their members as columns named by their paths, ``user.age``.

Roles are resolved once structs are opened, so that the rest of the code sees flat columns. What is
inside of lists and maps remains there, see `streaml1.features.arrow_nested`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from typing import Any

from streaml1.core.named_options import named_option
from streaml1.features.arrow_nested import PLAIN_ROLES, json_values, reject_name_from_two
from streaml1.features.arrow_types import is_dictionary, is_list, is_nested
from streaml1.features.batch import require_distinct
from streaml1.features.flat_members import MAX_DEPTH, MemberRoles, find_member
from streaml1.features.spark_vectors import is_vector_type

__all__ = ["OpenedColumns", "open_structs"]


class OpenedColumns:
    """The columns of a schema with structs opened, and what names of members mean there.

    Parameters
    ----------
    schema
        A pyarrow.Schema.

    Attributes
    ----------
    header : list of str
        The names of the columns, with those of members that have a role at the end.
    kinds : dict
        Their types by name.
    roles : MemberRoles
        The roles of members inside lists and maps.
    name_from_two : str
        A name in the header that two columns have, with these columns; "" if there is none.

    Raises
    ------
    ValueError
        If values are nested too deeply.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streaml1.features.arrow_structs import OpenedColumns
    >>> table = pa.table({"user": [{"age": 31, "os": "mac"}], "tags": [["a", "b"]]})
    >>> opened = OpenedColumns(table.schema)
    >>> opened.header, opened.expand(["user", "tags"])
    (['user.age', 'user.os', 'tags'], ['user.age', 'user.os', 'tags'])
    """

    def __init__(self, schema: Any) -> None:
        from pyarrow import types

        self._roots: list[Hashable] = list(schema.names)
        self.header: list[str] = []
        self.kinds: dict[str, Any] = {}
        self.roles = PLAIN_ROLES
        self.name_from_two = ""
        # Column -> names of the structs that it is inside, from the outermost, and its own name.
        self._name_paths: dict[str, tuple[str, ...]] = {}
        # Path of a struct -> the columns inside.
        self._structs: dict[str, list[str]] = {}
        # Label, weight or id inside a list or map -> the column of that list or map.
        self._holders: dict[str, str] = {}
        # Bools inside structs that are categories: their text is that of JSON.
        self._json_bools: set[str] = set()

        def add(names: tuple[str, ...], kind: Any) -> Iterator[str]:
            path = ".".join(names)
            if types.is_struct(kind) and not is_vector_type(kind):
                inside = [name for field in kind for name in add((*names, field.name), field.type)]
                self._structs.setdefault(path, []).extend(inside)
                yield from inside
                return
            if path in self._name_paths and not self.name_from_two:
                self.name_from_two = (
                    f"{path!r} (from {self._name_paths[path][0]!r} and {names[0]!r})"
                )
            self.header.append(path)
            self.kinds[path], self._name_paths[path] = kind, names
            yield path

        for field in schema:
            if _depth(field.type) >= MAX_DEPTH:
                raise ValueError(
                    f"column {field.name!r} is nested more than {MAX_DEPTH} levels deep"
                )
            list(add((field.name,), field.type))

    @property
    def has_structs(self) -> bool:
        """Whether any column is a struct."""
        return bool(self._structs)

    def is_nested(self, column: str) -> bool:
        """Return whether a column holds lists or maps."""
        return column in self.kinds and is_nested(self.kinds[column])

    def require_distinct(self) -> None:
        """Raise TypeError if two columns share a name, also once structs are opened."""
        require_distinct(self._roots)
        reject_name_from_two(self.name_from_two)

    # Names of options

    def expand(self, names: Iterable[str]) -> list[str]:
        """Return the columns that names mean: all that are inside of a struct."""
        return [
            column
            for name in names
            for column in (
                *([] if name in self._structs and name not in self.kinds else [name]),
                *self._structs.get(name, ()),
            )
        ]

    def require_value(self, name: str | None, role: str) -> None:
        """Raise ValueError if a name with a role for one value is that of a struct or a list."""
        if name is None or name in self._holders:
            return
        if name in self._structs and name not in self.kinds:
            inside = self._structs[name]
            remedy = f"; use {named_option(role, inside[0])} for a value inside" if inside else ""
            raise ValueError(f"column {name!r} is a struct, but a {role} is one value{remedy}")
        if self.is_nested(name):
            raise ValueError(
                f"column {name!r} holds values of the type {self.kinds[name]}, but a {role} is one "
                "value"
            )

    def split_roles(self, roles: MemberRoles) -> MemberRoles:
        """Keep the roles of members inside lists and maps in `roles`; return those of columns."""
        holders = {
            name: holder
            for name, _ in roles.named_roles()
            if (holder := self._holder(name)) is not None
        }
        single = roles.target, roles.weight, roles.id
        for name in single:
            if name in holders and name not in self._holders:
                self._holders[name] = holders[name]
                self.header.append(name)
        # As in JSON, a label may be in an object that is ignored.
        ignore = {*self.expand(roles.ignore)} - {*single}
        taken = ignore.union(single)
        texts, numbers = self._readings(roles, taken)
        self._json_bools = self._bools_in_structs(texts)
        own = {column for column in self.kinds if self.is_nested(column)}.union(holders)
        target, weight, id = (name if name in holders else None for name in single)
        categorical = texts & own | self._lists_of_categories(numbers) - taken
        self.roles = MemberRoles(
            target, weight, id, frozenset(ignore & own), frozenset(categorical),
            numeric=frozenset(numbers & own),
        )  # fmt: skip
        return replace(
            roles,
            ignore=frozenset(ignore - holders.keys()),
            categorical=frozenset(texts - holders.keys()),
            numeric=frozenset(numbers - holders.keys()),
        )

    def _readings(self, roles: MemberRoles, taken: Set[str | None]) -> tuple[set[str], set[str]]:
        """Return the columns to read as categories and as numbers: the innermost name decides."""
        categorical, numeric = map(self._lengths, (roles.categorical, roles.numeric))
        texts = {c for c, n in categorical.items() if n >= numeric.get(c, 0)}
        numbers = {c for c, n in numeric.items() if n > categorical.get(c, 0)}
        return texts - taken, numbers - taken

    def _bools_in_structs(self, columns: Set[str]) -> set[str]:
        from pyarrow import types

        inside = columns & self.kinds.keys() - {*self._roots}
        return {column for column in inside if types.is_boolean(self.kinds[column])}

    def _lists_of_categories(self, numbers: Set[str]) -> set[str]:
        """Return the columns of lists whose items are dictionary-encoded, as categories are."""
        # Parquet would read categories that are numbers as numbers.
        return {
            column
            for column, kind in self.kinds.items()
            if is_list(kind) and is_dictionary(kind.value_type) and column not in numbers
        }

    def _lengths(self, names: Iterable[str]) -> dict[str, int]:
        """Return the columns that names mean, with the length of the longest name of each."""
        found: dict[str, int] = {}
        for name in sorted(names, key=len):
            found |= dict.fromkeys(self.expand([name]), len(name))
        return found

    def _holder(self, name: str) -> str | None:
        """Return the list or map that a name is inside; None if it is inside none."""
        if name in self.kinds or name in self._structs:
            return None
        for end in range(len(name) - 1, 0, -1):
            if name[end] == "." and self.is_nested(name[:end]):
                index = name[end + 1 :].partition(".")[0]
                if index.isdecimal() or not is_list(self.kinds[name[:end]]):
                    return name[:end]
        return None

    # Tables

    def roots(self, columns: Iterable[str]) -> list[str]:
        """Return the columns of the table that hold these columns."""
        name_paths = (self._name_paths[self._holders.get(column, column)] for column in columns)
        return list(dict.fromkeys(names[0] for names in name_paths))

    def paths(self, columns: Iterable[str]) -> list[str]:
        """Return the paths by which Parquet selects these columns."""
        return list(dict.fromkeys(self._holders.get(column, column) for column in columns))

    def select(self, table: Any, columns: Sequence[str]) -> Any:
        """Return columns of a table, which has the roots of these columns at least."""
        import pyarrow as pa

        if not columns:
            return table.select([])
        arrays = [self._column(table, column) for column in columns]
        return pa.Table.from_arrays(arrays, names=list(columns))

    def _column(self, table: Any, path: str) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if (holder := self._holders.get(path)) is not None:
            values = json_values(self._column(table, holder))
            return pa.chunked_array([pa.array([_inside(holder, v, path) for v in values])])
        root, *names = self._name_paths[path]
        column = table.column(root)
        if not names:
            return column
        kind, indices = column.type, []
        for name in names:
            indices.append(kind.get_field_index(name))
            kind = kind.field(indices[-1]).type
        column = pc.struct_field(column, indices)
        return column.cast(pa.string()) if path in self._json_bools else column


def open_structs(table: Any) -> Any:
    """Return a table whose structs are opened.

    Raises
    ------
    ValueError
        If values are nested too deeply.
    TypeError
        If two columns share a name.
    """
    opened = OpenedColumns(table.schema)
    if not opened.has_structs:
        return table
    opened.require_distinct()
    return opened.select(table, opened.header)


def _inside(holder: str, value: Any, path: str) -> Any:
    found = find_member({holder: value}, path)
    return None if found is None else found.value


def _depth(kind: Any) -> int:
    """Return how deep structs, lists and maps are nested; 0 if there are none."""
    if not is_nested(kind):
        return 0
    if hasattr(kind, "item_type"):  # a map, whose pairs are structs
        inside = [kind.item_type]
    elif hasattr(kind, "value_type"):
        inside = [kind.value_type]
    else:
        inside = [kind.field(k).type for k in range(kind.num_fields)]
    return 1 + max(map(_depth, inside), default=0)
