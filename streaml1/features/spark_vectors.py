"""Vectors as Spark ML writes them: ``{"type": 0, "size": 9, "indices": [2], "values": [0.5]}``.

A vector means what an array of numbers means: its elements are features named by their index, such
as ``features.2``. Type 0 is sparse. Type 1 is dense: it has no indices, or null in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.types import Ints
from streaml1.features.arrow_types import is_list, is_number, is_stored_list, list_lengths
from streaml1.features.raw_labels import shown

__all__ = [
    "FlatElements", "find_element", "flat_elements", "is_vector", "is_vector_type",
    "vector_elements",
]  # fmt: skip

MEMBERS = {"type", "size", "indices", "values"}
SPARSE, DENSE = "0", "1"

# Objects


def is_vector(members: Mapping[Any, Any]) -> bool:
    """Return whether an object is a vector: ``type`` is the first of its members.

    Examples
    --------
    >>> from streaml1.features.spark_vectors import is_vector
    >>> is_vector({"type": 1, "values": [0.5]}), is_vector({"type": "sum", "values": [0.5]})
    (True, False)
    """
    if not _are_members(members):
        return False
    kind = members["type"]
    # A subclass of str may be the text of a number.
    return type(kind) is not str and str(kind) in (SPARSE, DENSE)


def _are_members(names: Mapping[Any, Any]) -> bool:
    """Return whether an object or a struct has the members of a vector."""
    return next(iter(names), None) == "type" and "values" in names and names.keys() <= MEMBERS


def vector_elements(name: str, members: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]] | None:
    """Return the elements of a vector by their indices; None if it lacks an array.

    Raises
    ------
    ValueError
        If there are more or fewer indices than values, or an index is not a non-negative integer.
    """
    indices, values = _arrays(members)
    if not isinstance(indices, list | range) or not isinstance(values, list):
        return None
    if len(indices) != len(values):
        raise ValueError(
            f"vector {shown(name)} has {len(indices)} indices and {len(values)} values: "
            "each index must have one value"
        )
    for index in indices:
        if type(index) is str or not str(index).isdecimal():
            index = shown(index) if type(index) is str else index
            raise ValueError(
                f"vector {shown(name)} has the index {index}: it must be a non-negative integer"
            )
    return zip(indices, values, strict=True)


def find_element(members: Mapping[Any, Any], index: str) -> Any:
    """Return the element of a vector with an index; None if there is none, or no valid vector."""
    indices, values = _arrays(members)
    if not isinstance(indices, list | range) or not isinstance(values, list):
        return None
    return next((v for k, v in zip(indices, values, strict=False) if str(k) == index), None)


def _arrays(members: Mapping[Any, Any]) -> tuple[Any, Any]:
    """Return the indices and values of a vector, which are lists unless it is damaged."""
    values = members["values"]
    if str(members["type"]) == DENSE and isinstance(values, list):
        return range(len(values)), values
    return members.get("indices"), values


# Arrow


def is_vector_type(kind: Any) -> bool:
    """Return whether an Arrow type is that of vectors."""
    from pyarrow import types

    if not types.is_struct(kind):
        return False
    inside = {field.name: field.type for field in kind}
    return (
        kind.num_fields == len(inside)
        and _are_members(inside)
        and types.is_integer(inside["type"])
        and is_list(inside["values"])
        and is_number(inside["values"].value_type)
        and ("indices" not in inside or _is_list_of_integers(inside["indices"]))
    )


def _is_list_of_integers(kind: Any) -> bool:
    from pyarrow import types

    return is_list(kind) and bool(types.is_integer(kind.value_type))


class FlatElements(NamedTuple):
    """The elements of many vectors."""

    offsets: Ints
    """Where the elements of each vector begin, and the number of all."""
    indices: Ints
    values: Any
    """An Arrow array of numbers."""


def flat_elements(array: Any) -> FlatElements | None:
    """Return the elements of an Arrow array of vectors; None if one is not as Spark writes it."""
    import pyarrow as pa

    is_valid = array.is_valid()
    present = array.filter(is_valid)
    members = dict(zip([field.name for field in array.type], present.flatten(), strict=True))
    values = members["values"]
    kinds = members["type"].cast(pa.int64()).fill_null(-1).to_numpy()
    is_sparse = kinds == int(SPARSE)
    if not is_stored_list(values.type) or values.null_count:
        return None
    if not (is_sparse | (kinds == int(DENSE))).all():
        return None
    sizes = list_lengths(values)
    begins = np.cumsum(sizes) - sizes
    indices = np.arange(sizes.sum()) - np.repeat(begins, sizes)
    if is_sparse.any():
        lists = members.get("indices")
        if lists is None or not is_stored_list(lists.type):
            return None
        lists = lists.filter(pa.array(is_sparse))
        of_sparse = lists.flatten()
        if of_sparse.null_count or not np.array_equal(list_lengths(lists), sizes[is_sparse]):
            return None
        indices[np.repeat(is_sparse, sizes)] = of_sparse.to_numpy()
    rises = np.diff(indices, prepend=-1) > 0
    rises[begins[sizes > 0]] = True
    if not rises.all() or indices.min(initial=0) < 0:
        return None
    lengths = np.zeros(len(array), np.int64)
    lengths[is_valid.to_numpy(zero_copy_only=False)] = sizes
    return FlatElements(np.concatenate([[0], np.cumsum(lengths)]), indices, values.flatten())
