"""Python's objects as kernels read them: CPython, 64 bits, with its lock, no debug build."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from streaml1.core.jit import COMPILED, inlined, python_api
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
    VALID,
    WEIGHS,
)

__all__ = [
    "AVAILABLE",
    "EQUALS_SIGN",
    "FULL",
    "MOST_COMPARED",
    "NO_INT",
    "FALLBACK",
    "collect",
    "has",
    "hash_of",
    "int_of",
    "length_of",
    "number_of",
    "type_of",
    "unknown_value",
    "utf8_of",
]

FALLBACK, FULL = -1, -3

_TYPE, _LENGTH, _HASH, _FLOAT = 8, 16, 24, 16  # where an object has them
_NO_HASH = np.uint64(2**64 - 1)
NO_INT = -(2**63)
EQUALS_SIGN = np.uint32(ord("="))
MOST_COMPARED = np.uint64(1024)  # entries that are compared with one another

_dict_next = python_api("PyDict_Next", "int32", "uint64", "uint64", "uint64", "uint64")
_hash = python_api("PyObject_Hash", "int64", "uint64")
_utf8 = python_api("PyUnicode_AsUTF8AndSize", "uint64", "uint64", "uint64")
_float_of_int = python_api("PyLong_AsDouble", "float64", "uint64")
_int = python_api("PyLong_AsLongLong", "int64", "uint64")
error = python_api("PyErr_Occurred", "uint64")
no_error = python_api("PyErr_Clear", "void")
_find = python_api("PyUnicode_FindChar", "int64", "uint64", "uint32", "int64", "int64", "int32")


def _at(o: Any, place: int, kind: Any) -> Any:
    return kind.from_address(id(o) + place).value


def _available() -> bool:
    if not COMPILED or sys.implementation.name != "cpython" or sys.maxsize != 2**63 - 1:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    texts = ["a", "a longer text", "\xe9", "\u20ac", "\U0001f600 wide"]
    return (
        all(_at(o, _TYPE, ctypes.c_uint64) == id(type(o)) for o in (*texts, 1.5, 7, {}))
        and all(_at(o, _FLOAT, ctypes.c_double) == o for o in (1.5, -0.1, np.float64(2.5)))
        and all(_at(o, _LENGTH, ctypes.c_int64) == len(o) for o in texts)
        and all(hash(o) == _at(o, _HASH, ctypes.c_int64) for o in texts)
    )


AVAILABLE = _available()


@inlined
def type_of(o: Any) -> Any:
    """Address of the type of the object at an address."""
    return load_u64(o + np.uint64(_TYPE))


@inlined
def length_of(text: Any) -> Any:
    """How many characters the str at an address has."""
    return load_u64(text + np.uint64(_LENGTH))


@inlined
def has(text: Any, character: Any) -> bool:
    """Whether the str at an address has a character, given by its number."""
    return bool(_find(text, character, 0, np.int64(length_of(text)), np.int32(1)) >= 0)


@inlined
def hash_of(text: Any) -> Any:
    """Hash of the str at an address."""
    h = load_u64(text + np.uint64(_HASH))
    return h if h != _NO_HASH else np.uint64(_hash(text))


@inlined
def utf8_of(frame: Any, text: Any) -> Any:
    """Address of the UTF-8 of the str at an address, 0 where it has none; the length in scratch."""
    address = _utf8(text, frame[SCRATCH])
    if not address:
        no_error()
    return address


@inlined
def collect(frame: Any, x: Any, keys: Any, texts: Any) -> Any:
    """Write down the addresses of names and values of the dict at `x`.

    Returns how many, or FALLBACK: where it is no exact dict or too long, or the frame stale.
    A pass of its own, so that the misses of a row are under way together.
    """
    if not frame[VALID] or type_of(x) != frame[DICT]:
        return np.int64(FALLBACK)
    position = frame[SCRATCH]
    key_at, value_at = position + np.uint64(8), position + np.uint64(16)
    scratch = array_at(position, 3, np.uint64)
    scratch[0] = np.uint64(0)
    n = np.uint64(0)
    while _dict_next(x, position, key_at, value_at):
        if n == frame[LENGTH]:
            return np.int64(FALLBACK)
        key, value = scratch[1], scratch[2]
        prefetch_at(key)
        prefetch_at(value)
        keys[n] = key
        texts[n] = value
        n += np.uint64(1)
    return np.int64(n)


@inlined
def number_of(frame: Any, value: Any, kind: Any) -> Any:
    """What an object of a type counts for: 1 a str, 0 None, NaN what goes another road."""
    if kind == frame[FLOAT] or kind == frame[FLOAT64]:
        return load_f64(value + np.uint64(_FLOAT))
    if kind == frame[STR]:
        return 1.0
    if kind == frame[INT]:
        v = _float_of_int(value)
        if v == -1.0 and error():
            no_error()
            return np.nan
        return v
    if kind == frame[BOOL]:
        return 1.0 if value == frame[TRUE] else 0.0
    return 0.0 if value == frame[NONE] else np.nan


@inlined
def int_of(o: Any) -> Any:
    """Value of the int at an address; NO_INT where an int64 cannot tell."""
    j = _int(o)
    if j == -1 and error():
        no_error()
        return np.int64(NO_INT)
    return j


@inlined
def unknown_value(frame: Any, value: float) -> float:
    """The value of a feature without a slot, for the slot that stands for it.

    One that weighs nothing keeps its place: the sum of a row adds entries up by their places.
    """
    return value if frame[WEIGHS] else 0.0
