"""What the types of Arrow columns can mean as features."""

from __future__ import annotations

from typing import Any

from streaml1.core.types import Ints

__all__ = [
    "dictionary_encoded", "is_bytes", "is_dictionary", "is_feature", "is_list", "is_nested",
    "is_number", "is_stored_list", "is_text", "list_lengths",
]  # fmt: skip


def is_text(kind: Any) -> bool:
    """Return whether values of an Arrow type are text or categories."""
    from pyarrow import types

    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary)
    return any(test(kind) for test in tests)


def is_number(kind: Any) -> bool:
    """Return whether values of an Arrow type are numbers, bools or nothing."""
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_null, types.is_decimal)
    return any(test(kind) for test in tests)


def is_feature(kind: Any) -> bool:
    """Return whether values of an Arrow type are numbers or text."""
    return is_text(kind) or is_number(kind)


def is_bytes(kind: Any) -> bool:
    """Return whether values of an Arrow type are bytes."""
    from pyarrow import types

    tests = (
        types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view
    )  # fmt: skip
    return any(test(kind) for test in tests)


def is_dictionary(kind: Any) -> bool:
    """Return whether values of an Arrow type are entries of a dictionary."""
    from pyarrow import types

    return bool(types.is_dictionary(kind))


def is_nested(kind: Any) -> bool:
    """Return whether values of an Arrow type hold other values."""
    from pyarrow import types

    return bool(types.is_nested(kind))


def is_list(kind: Any) -> bool:
    """Return whether values of an Arrow type are lists, of any kind."""
    from pyarrow import types

    tests = (
        types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view,
        types.is_large_list_view,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def is_stored_list(kind: Any) -> bool:
    """Return whether values of an Arrow type are lists whose items are stored in order."""
    from pyarrow import types

    return any(
        test(kind) for test in (types.is_list, types.is_large_list, types.is_fixed_size_list)
    )


def list_lengths(lists: Any) -> Ints:
    """Return the lengths of lists, 0 for null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths: Ints = pc.list_value_length(lists).cast(pa.int64()).fill_null(0).to_numpy()
    return lengths


def dictionary_encoded(array: Any) -> Any:
    """Return an Arrow array with each of its values once, in a dictionary."""
    import pyarrow
    from pyarrow import types

    kind = array.type
    if types.is_decimal(kind) and kind.bit_width < 128:  # Arrow cannot encode them
        array = array.cast(pyarrow.decimal128(kind.precision, kind.scale))
    return array.dictionary_encode()
