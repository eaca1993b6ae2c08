"""Read CPython objects by address, inside kernels that hold the GIL.

This requires 64-bit CPython with the GIL, and no debug build: `AVAILABLE` checks the layout of
objects at import time.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from streaml1.core.jit import COMPILED, inlined, python_api, u64
from streaml1.core.simd import array_at, load_f64, load_u64, prefetch_at
from streaml1.features.dict_reader.context_fields import (
    BOOL,
    DICT,
    FLOAT,
    FLOAT64,
    INT,
    LENGTH,
    NONE,
    SCRATCH,
    STR,
    TRUE,
    UNKNOWN_HAS_WEIGHT,
    VALID,
)

__all__ = [
    "AVAILABLE",
    "EQUALS_SIGN",
    "FULL",
    "MAX_COMPARED",
    "NO_INT",
    "FALLBACK",
    "collect",
    "contains_char",
    "hash_of",
    "int_of",
    "length_of",
    "number_of",
    "type_of",
    "unknown_value",
    "utf8_of",
]

FALLBACK, FULL = -1, -3

_TYPE, _LENGTH, _HASH, _FLOAT = 8, 16, 24, 16  # offsets in an object, in bytes
_NO_HASH = u64(2**64 - 1)
NO_INT = -(2**63)
EQUALS_SIGN = np.uint32(ord("="))
MAX_COMPARED = u64(1024)  # longest row whose slots are compared pairwise

_dict_next = python_api("PyDict_Next", "int32", "uint64", "uint64", "uint64", "uint64")
_hash = python_api("PyObject_Hash", "int64", "uint64")
_utf8 = python_api("PyUnicode_AsUTF8AndSize", "uint64", "uint64", "uint64")
_float_of_int = python_api("PyLong_AsDouble", "float64", "uint64")
_int = python_api("PyLong_AsLongLong", "int64", "uint64")
error = python_api("PyErr_Occurred", "uint64")
clear_error = python_api("PyErr_Clear", "void")
_find = python_api("PyUnicode_FindChar", "int64", "uint64", "uint32", "int64", "int64", "int32")


def _field_of(o: Any, offset: int, kind: Any) -> Any:
    return kind.from_address(id(o) + offset).value


def _layout_is_supported() -> bool:
    if not COMPILED or sys.implementation.name != "cpython" or sys.maxsize != 2**63 - 1:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    texts = ["a", "a longer text", "\xe9", "\u20ac", "\U0001f600 wide"]
    return (
        all(_field_of(o, _TYPE, ctypes.c_uint64) == id(type(o)) for o in (*texts, 1.5, 7, {}))
        and all(_field_of(o, _FLOAT, ctypes.c_double) == o for o in (1.5, -0.1, np.float64(2.5)))
        and all(_field_of(o, _LENGTH, ctypes.c_int64) == len(o) for o in texts)
        and all(hash(o) == _field_of(o, _HASH, ctypes.c_int64) for o in texts)
    )


AVAILABLE = _layout_is_supported()


@inlined
def type_of(o: Any) -> Any:
    """Return the address of the type of the object at `o`."""
    return load_u64(o + np.uint64(_TYPE))


@inlined
def length_of(text: Any) -> Any:
    """Return the number of characters of the str at `text`."""
    return load_u64(text + np.uint64(_LENGTH))


@inlined
def contains_char(text: Any, character: Any) -> bool:
    """Return whether the str at `text` contains the code point `character`."""
    return bool(_find(text, character, 0, np.int64(length_of(text)), np.int32(1)) >= 0)


@inlined
def hash_of(text: Any) -> Any:
    """Return the hash of the str at `text`."""
    h = load_u64(text + np.uint64(_HASH))
    return h if h != _NO_HASH else np.uint64(_hash(text))


@inlined
def utf8_of(context: Any, text: Any) -> Any:
    """Return the address of the UTF-8 of the str at `text`, or 0 if it has lone surrogates.

    The number of bytes is written to SCRATCH.
    """
    address = _utf8(text, context[SCRATCH])
    if not address:
        clear_error()
    return address


@inlined
def collect(context: Any, x: Any, keys: Any, texts: Any) -> Any:
    """Write the addresses of the keys and values of the dict at `x` to `keys` and `texts`.

    Returns their number, or FALLBACK if `x` is not an exact dict, is too long, or the context is
    closed. This is a separate pass so that the cache misses of a row overlap.
    """
    if not context[VALID] or type_of(x) != context[DICT]:
        return np.int64(FALLBACK)
    position = context[SCRATCH]
    key_at, value_at = position + u64(8), position + u64(16)
    scratch = array_at(position, 3, np.uint64)
    scratch[0] = u64(0)
    n = u64(0)
    # Invariant: keys[:n] and texts[:n] are written, and n <= LENGTH.
    while _dict_next(x, position, key_at, value_at):
        if n == context[LENGTH]:
            return np.int64(FALLBACK)
        key, value = scratch[1], scratch[2]
        prefetch_at(key)
        prefetch_at(value)
        keys[n] = key
        texts[n] = value
        n += u64(1)
    return np.int64(n)


@inlined
def number_of(context: Any, value: Any, kind: Any) -> Any:
    """Return the value of an object: 1 for str, 0 if it is absent, NaN if the fast path fails.

    None and a float that is NaN are absent.
    """
    if kind == context[FLOAT] or kind == context[FLOAT64]:
        v = load_f64(value + np.uint64(_FLOAT))
        return v if v == v else 0.0
    if kind == context[STR]:
        return 1.0
    if kind == context[INT]:
        v = _float_of_int(value)
        if v == -1.0 and error():
            clear_error()
            return np.nan
        return v
    if kind == context[BOOL]:
        return 1.0 if value == context[TRUE] else 0.0
    return 0.0 if value == context[NONE] else np.nan


@inlined
def int_of(o: Any) -> Any:
    """Return the value of the int at `o`, or NO_INT if it does not fit into an int64."""
    j = _int(o)
    if j == -1 and error():
        clear_error()
        return np.int64(NO_INT)
    return j


@inlined
def unknown_value(context: Any, value: float) -> float:
    """Return the value that an unknown feature has in the slot UNKNOWN.

    A feature without weight stays in the row as a zero: the order of summation of a margin depends
    on the positions of the features.
    """
    return value if context[UNKNOWN_HAS_WEIGHT] else 0.0
