"""Lists and maps in Arrow tables as features, which mean what flat JSON lines mean.

Such a column becomes a column of features: each row lists the names of its features and their
values, such as ``tags=a`` with 1, or ``vec.0`` and ``vec.1`` with numbers.

Lists of numbers and of text are converted by Arrow. Maps, lists of structs and lists of lists are
read value by value by `streaml1.features.records`, which defines the names. Structs are opened
before, see `streaml1.features.arrow_structs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from streaml1.core.rows import is_missing
from streaml1.features.arrow_types import (
    dictionary_encoded,
    is_bytes,
    is_dictionary,
    is_feature,
    is_list,
    is_nested,
    is_number,
    is_stored_list,
    is_text,
    list_lengths,
)
from streaml1.features.flat_members import DuplicateNames, MemberRoles
from streaml1.features.records import flat_features, member_text
from streaml1.features.spark_vectors import flat_elements, is_vector_type

__all__ = [
    "LARGE_DICTIONARY", "PLAIN_ROLES", "feature_columns", "features_type", "holds_other_types",
    "is_unusable", "json_values", "name_from_two", "reject_name_from_two",
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

    if is_vector_type(kind):
        return False
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


def name_from_two(kinds: Mapping[str, Any]) -> str:
    """Return a name that features of two columns may have, with these columns; "" if there is none.

    Which names a list or a map has depends on its values, but the types say which it may have. So a
    table is valid or not whatever its rows hold, and no feature is the sum of two columns.

    Parameters
    ----------
    kinds
        The Arrow types of columns, with structs opened.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streaml1.features.arrow_nested import name_from_two
    >>> name_from_two({"vec": pa.list_(pa.float64()), "vec.0": pa.float64()})
    "'vec.0' (from 'vec' and 'vec.0')"
    """
    for name, kind in kinds.items():
        if not is_nested(kind):
            continue
        for other, other_kind in kinds.items():
            inside = other.removeprefix(name)
            if inside != other and inside and _may_hold(kind, inside, other_kind):
                return f"{other!r} (from {name!r} and {other!r})"
    return ""


_INDEX = re.compile(r"\.[0-9]+")


def _may_hold(kind: Any, path: str, other: Any) -> bool:
    """Return whether values of a type may have a feature at a path that another type has, too."""
    from pyarrow import types

    if not path:
        return is_nested(kind) == is_nested(other)
    if is_vector_type(kind):
        kind = kind.field("values").type
    if is_list(kind):
        element = kind.value_type
        if not (is_nested(element) or is_number(element)):  # texts have no index
            return path.startswith("=") and is_number(other)
        index = _INDEX.match(path)
        return index is not None and _may_hold(element, path[index.end() :], other)
    if types.is_map(kind):  # its keys may contain dots
        ends = [k for k in range(1, len(path) + 1) if path[k : k + 1] in ("", ".")]
        return path.startswith(".") and any(
            _may_hold(kind.item_type, path[end:], other) for end in ends
        )
    return types.is_struct(kind) and any(
        _may_hold(field.type, path.removeprefix(f".{field.name}"), other)
        for field in kind
        if path.startswith(f".{field.name}")
    )


def reject_name_from_two(name: str) -> None:
    """Raise TypeError for what `name_from_two` returns, unless it is ""."""
    if name:
        raise TypeError(f"the frame has several columns {name}: rename one of them")


# Lists and maps


def feature_columns(table: Any, roles: MemberRoles, faults: dict[int, str]) -> Any:
    """Return a table with its columns of lists and maps as columns of features.

    Parameters
    ----------
    table
        A pyarrow.Table, with structs opened.
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
    return table


def _converted(name: str, array: Any, roles: MemberRoles) -> Any:
    """Return a column of lists or vectors as features; None if it must be read value by value."""
    kind = array.type
    if hasattr(array, "chunks"):
        return None
    if is_vector_type(kind):
        return None if _have_roles(name, roles) else _elements(name, array)
    if (
        not is_stored_list(kind)
        or is_nested(kind.value_type)
        or is_bytes(kind.value_type)
        or _have_roles(f"{name}.", roles)
    ):
        return None
    values = array.flatten()  # without values that null lists still refer to
    lengths = list_lengths(array)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    is_category = name in roles.categorical
    if is_number(kind.value_type) and not is_category:
        return _indexed(name, offsets, lengths, values)
    if name in roles.numeric or not (is_text(kind.value_type) or is_category):
        return None
    return _counted(name, offsets, values)


def _have_roles(prefix: str, roles: MemberRoles) -> bool:
    """Return whether a member has a role whose name begins with a prefix."""
    return any(name.startswith(prefix) for name, _ in roles.named_roles())


def _elements(name: str, array: Any) -> Any:
    """Return vectors of Spark as features; None if one is not as Spark writes it."""
    import pyarrow as pa

    flat = flat_elements(array)
    if flat is None:
        return None
    indices, codes = np.unique(flat.indices, return_inverse=True)
    names = [f"{name}.{k}" for k in indices.tolist()]
    return _lists(flat.offsets, pa.array(codes), names, _floats(flat.values))


def _indexed(name: str, offsets: Any, lengths: Any, values: Any) -> Any:
    """Return numbers as features that are named by their indices."""
    import pyarrow as pa

    indices = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    names = [f"{name}.{k}" for k in range(lengths.max(initial=0))]
    return _lists(offsets, pa.array(indices), names, _floats(values))


def _floats(values: Any) -> Any:
    """Return numbers as floats, NaN for null."""
    import pyarrow as pa

    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    return values.cast(pa.float64(), safe=False).fill_null(np.nan)


def _counted(name: str, offsets: Any, values: Any) -> Any:
    """Return texts as features of value 1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    if is_dictionary(values.type) and len(values.dictionary) > max(len(values), LARGE_DICTIONARY):
        values = values.dictionary_decode()
    if not is_dictionary(values.type):
        values = dictionary_encoded(values)
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


# Values


def json_values(column: Any) -> Iterable[Any]:
    """Return the values of a column as JSON has them, but decimals with all of their digits."""
    converter = _converter(column.type)
    values: list[Any] = column.to_pylist()
    return values if converter is None else map(converter, values)


def _converter(kind: Any) -> Callable[[Any], Any] | None:
    """Return a function from values of an Arrow type to those of JSON; None if they are equal."""
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
