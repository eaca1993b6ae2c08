"""Lists and maps in Arrow tables as features, which mean what flat JSON lines mean.

Such a column becomes a column of features: each row lists the names of its features and their
values, such as ``tags=a`` with 1, or ``vec.0`` and ``vec.1`` with numbers.

Lists of numbers and of text are converted by Arrow. Maps, lists of structs and lists of lists are
read value by value by `streaml1.features.records`, which defines the names. Structs are opened
before, see `streaml1.features.arrow_structs`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from streaml1.core.rows import is_missing
from streaml1.features.arrow_types import (
    is_bytes,
    is_dictionary,
    is_feature,
    is_list,
    is_nested,
    is_number,
    is_text,
)
from streaml1.features.flat_members import DuplicateNames, MemberRoles
from streaml1.features.records import flat_features, member_text

__all__ = [
    "LARGE_DICTIONARY", "PLAIN_ROLES", "feature_columns", "features_type", "holds_other_types",
    "is_unusable", "json_values",
]  # fmt: skip

PLAIN_ROLES = MemberRoles()

LARGE_DICTIONARY = 1000
"""Rows from which a dictionary with more entries than rows is decoded."""


# Types


@cache
def features_type() -> Any:
    """Return the type of a column of features."""
    import pyarrow as pa

    names = pa.dictionary(pa.int64(), pa.large_string())
    return pa.large_list(pa.struct([("feature", names), ("value", pa.float64())]))


def is_unusable(kind: Any) -> bool:
    """Return whether a type holds values that cannot even be categories."""
    from pyarrow import types

    if types.is_map(kind):
        return not is_text(kind.key_type) or is_unusable(kind.item_type)
    if is_list(kind):
        return is_unusable(kind.value_type)
    if types.is_struct(kind):
        fields = list(kind)
        is_ambiguous = len({field.name for field in fields}) < len(fields)
        return is_ambiguous or any(is_unusable(field.type) for field in fields)
    return is_nested(kind) or is_bytes(kind)


def holds_other_types(kind: Any) -> bool:
    """Return whether a type holds other values than numbers and text."""
    from pyarrow import types

    if types.is_map(kind):
        return holds_other_types(kind.item_type)
    if is_list(kind):
        return holds_other_types(kind.value_type)
    if types.is_struct(kind):
        return any(holds_other_types(field.type) for field in kind)
    return not is_feature(kind)


# Lists and maps


def feature_columns(table: Any, roles: MemberRoles, faults: dict[int, str]) -> Any:
    """Return a table whose nested columns, without structs, are columns of features.

    Parameters
    ----------
    table
        A pyarrow.Table.
    roles
        The roles of nested columns and of members inside of them.
    faults
        Receives why rows are invalid, by row number.
    """
    for k, name in enumerate(table.column_names):
        column = table.column(k)
        if not is_nested(column.type) or column.type == features_type():
            continue
        lists = _converted(name, column.combine_chunks(), roles)
        if lists is None:
            lists = _read(name, column, roles, faults)
        table = table.set_column(k, name, lists)
        _find_names_twice(name, lists, table, faults)
    return table


def _converted(name: str, array: Any, roles: MemberRoles) -> Any:
    """Return a list of numbers or text as features; None if it must be read value by value."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    kind = array.type
    is_usual = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    inside = f"{name}."
    if (
        not is_usual
        or hasattr(array, "chunks")
        or is_nested(kind.value_type)
        or is_bytes(kind.value_type)
        or any(role.startswith(inside) for role, _ in roles.named_roles())
    ):
        return None
    values = array.flatten()  # without values that null lists still refer to
    lengths = pc.list_value_length(array).cast(pa.int64()).fill_null(0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    is_category = name in roles.categorical
    if is_number(kind.value_type) and not is_category:
        return _indexed(name, offsets, lengths, values)
    if name in roles.numeric or not (is_text(kind.value_type) or is_category):
        return None
    return _counted(name, offsets, values)


def _indexed(name: str, offsets: Any, lengths: Any, values: Any) -> Any:
    """Return numbers as features that are named by their indices."""
    import pyarrow as pa

    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    floats = values.cast(pa.float64(), safe=False).fill_null(np.nan)
    indices = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    names = [f"{name}.{k}" for k in range(lengths.max(initial=0))]
    return _lists(offsets, pa.array(indices), names, floats)


def _counted(name: str, offsets: Any, values: Any) -> Any:
    """Return texts as features of value 1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    if is_dictionary(values.type) and len(values.dictionary) > max(len(values), LARGE_DICTIONARY):
        values = values.dictionary_decode()
    if not is_dictionary(values.type):
        values = values.dictionary_encode()
    entries = values.dictionary
    if not is_text(entries.type):
        texts = [None if is_missing(value) else member_text(value) for value in entries.to_pylist()]
        entries = pa.array(texts, pa.large_string())
    prefix = pa.scalar(f"{name}=", pa.large_string())
    empty = pa.scalar("", pa.large_string())
    names = pc.binary_join_element_wise(prefix, entries.cast(pa.large_string()), empty)
    return _lists(offsets, values.indices.cast(pa.int64()), names, np.ones(len(values)))


def _read(name: str, column: Any, roles: MemberRoles, faults: dict[int, str]) -> Any:
    """Return values as features, reading one after the other."""
    import pyarrow as pa

    names: dict[str, int] = {}
    codes: list[int] = []
    values: list[float] = []
    ends = [0]
    for row, value in enumerate(json_values(column)):
        try:
            features = flat_features({name: value}, roles)
        except ValueError as error:
            faults.setdefault(row, str(error))
            features = {}
        for feature, v in features.items():
            is_text = isinstance(v, str)
            codes.append(names.setdefault(f"{feature}={v}" if is_text else feature, len(names)))
            values.append(1.0 if is_text else float(v))
        ends.append(len(codes))
    return _lists(np.array(ends), pa.array(codes, pa.int64()), list(names), np.array(values))


def _lists(offsets: Any, codes: Any, names: Any, values: Any) -> Any:
    """Return a column of features."""
    import pyarrow as pa

    kind = features_type()
    entries = names if isinstance(names, pa.Array) else pa.array(names, pa.large_string())
    floats = values if isinstance(values, pa.Array) else pa.array(values, pa.float64())
    keys = pa.DictionaryArray.from_arrays(codes, entries)
    pairs = pa.StructArray.from_arrays([keys, floats], fields=list(kind.value_type))
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pairs, type=kind)


def _find_names_twice(name: str, lists: Any, table: Any, faults: dict[int, str]) -> None:
    """Add faults for rows in which a feature has the name of another column."""
    alike = [c for c in table.column_names if c.startswith(f"{name}.")]
    alike = [c for c in alike if not is_nested(table.field(c).type)]
    if not alike:
        return
    keys = lists.values.field(0)
    codes = keys.indices.fill_null(-1).to_numpy()
    entries, ends = keys.dictionary.to_pylist(), lists.offsets.to_pylist()
    for column in set(alike).intersection(entries):
        is_given = table[column].is_valid().to_pylist()
        for place in np.flatnonzero(codes == entries.index(column)).tolist():
            row = bisect_right(ends, place) - 1
            if is_given[row]:
                faults.setdefault(
                    row,
                    f"the name {column!r} occurs twice, once as a path: rename or ignore one of "
                    "them",
                )


# Values


def json_values(column: Any) -> Iterable[Any]:
    """Return the values of a column as JSON has them."""
    converter = _converter(column.type)
    values: list[Any] = column.to_pylist()
    return values if converter is None else map(converter, values)


def _converter(kind: Any) -> Callable[[Any], Any] | None:
    """Return what makes a value of JSON of one of Arrow; None if there is nothing to do."""
    from pyarrow import types

    if types.is_map(kind):
        key, item = _converter(kind.key_type), _converter(kind.item_type)
        return lambda pairs: None if pairs is None else _object(pairs, key, item)
    if is_list(kind):
        element = _converter(kind.value_type)
        if element is None:
            return None
        return lambda values: None if values is None else [element(value) for value in values]
    if types.is_struct(kind):
        members = {field.name: c for field in kind if (c := _converter(field.type)) is not None}
        if not members:
            return None
        return lambda value: (
            None
            if value is None
            else value | {name: convert(value[name]) for name, convert in members.items()}
        )
    if types.is_decimal(kind):
        return lambda value: None if value is None else float(value)
    if types.is_dictionary(kind):
        return lambda value: None if is_missing(value) else member_text(value)
    return None


def _object(
    pairs: list[tuple[str, Any]],
    key: Callable[[Any], Any] | None,
    item: Callable[[Any], Any] | None,
) -> dict[str, Any] | DuplicateNames:
    converted = [
        (name if key is None else key(name), value if item is None else item(value))
        for name, value in pairs
    ]
    found = dict(converted)
    return found if len(found) == len(converted) else DuplicateNames(converted)
