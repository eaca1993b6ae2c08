"""Kinds of attributes of river's transformers: how each is written as JSON and checked.

Both directions check: a value that a file cannot hold is rejected when it is saved, and a file
whose value has another type or is out of range is rejected when it is loaded. `join_steps` also
encodes what it has read and compares, so a decoder need not reject every other spelling of a value.
"""

from __future__ import annotations

import json
import numbers
import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from streaml1.models.serialization import decode_name, encode_name

__all__ = [
    "COUNT",
    "FLAG",
    "INT",
    "KEYS",
    "NAME",
    "NAMES",
    "NGRAM_RANGE",
    "NONE",
    "NUMBER",
    "PATTERN",
    "SUM",
    "TEXT",
    "TEXTS",
    "TYPE",
    "TYPES",
    "VALUE",
    "Kind",
    "Unstorable",
    "between",
    "mapping",
    "optional",
    "pairs",
]


class Unstorable(Exception):
    """A value that a model file cannot hold; the argument is the value."""


class Kind(NamedTuple):
    """A kind of attribute.

    Parameters
    ----------
    encode
        Returns a value as JSON; raises Unstorable if the value is of another kind.
    decode
        Returns the value; raises any exception if the JSON is not of this kind.
    """

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def _checked(test: Callable[[Any], bool]) -> Kind:
    """Return the kind of the values that JSON holds as they are and that pass a test."""

    def same(value: Any) -> Any:
        if not test(value):
            raise Unstorable(value)
        return value

    return Kind(same, same)


def between(low: int, high: int) -> Kind:
    """Return the kind of the ints from `low` to `high`."""
    return _checked(lambda value: type(value) is int and low <= value <= high)


def _is_pattern(value: Any) -> bool:
    try:
        return type(value) is str and bool(re.compile(value))
    except re.error:
        return False


NONE = _checked(lambda value: value is None)
FLAG = _checked(lambda value: type(value) is bool)
TEXT = _checked(lambda value: type(value) is str)
PATTERN = _checked(_is_pattern)
INT = between(-(2**63), 2**63 - 1)
COUNT = between(0, 2**63 - 1)


def _encode_number(value: Any) -> Any:
    if isinstance(value, np.generic) and type(value).__name__ in _NUMPY:
        # Not as a Python number: later arithmetic would be that of another type.
        return {"numpy": [type(value).__name__, encode_name(value)]}
    if type(value) in (bool, int, float) and (type(value) is float or abs(value) < 2**63):
        return encode_name(value)
    raise Unstorable(value)


def _decode_number(coded: Any) -> Any:
    if isinstance(coded, dict) and set(coded) == {"numpy"}:
        kind, inner = coded["numpy"]
        return _NUMPY[kind](decode_name(inner))
    number = decode_name(coded)
    _encode_number(number)
    return number


_NUMPY: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(np.bool_, np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64),
        *(np.uint8, np.uint16, np.uint32, np.uint64),
    )
}

NUMBER = Kind(_encode_number, _decode_number)
"""A number of Python or numpy: it keeps its type and all its bits."""


def _nonnegative(value: Any) -> Any:
    if value < 0:  # False for NaN
        raise Unstorable(value)
    return value


SUM = Kind(
    lambda value: _encode_number(_nonnegative(value)),
    lambda coded: _nonnegative(_decode_number(coded)),
)
"""A number that is not negative, such as a variance."""


def _encode_name(name: Hashable) -> Any:
    if name != name:  # a dict finds NaN by its identity, which no file keeps
        raise Unstorable(name)
    try:
        return encode_name(name)
    except ValueError:
        raise Unstorable(name) from None


NAME = Kind(_encode_name, decode_name)
"""A feature name or a category: what a model file can hold as a name."""


def _encode_value(value: Any) -> Any:
    is_number = isinstance(value, bool | int | float | np.generic)
    return _encode_number(value) if is_number else _encode_name(value)


def _decode_value(coded: Any) -> Any:
    is_name = coded is None or isinstance(coded, str)
    return decode_name(coded) if is_name else _decode_number(coded)


VALUE = Kind(_encode_value, _decode_value)
"""The value of a feature: a number, text or None."""


def optional(kind: Kind) -> Kind:
    """Return the kind of None and the values of another kind."""
    return Kind(
        lambda value: None if value is None else kind.encode(value),
        lambda coded: None if coded is None else kind.decode(coded),
    )


def mapping(kind: Kind) -> Kind:
    """Return the kind of dicts from names to values of a kind, which keep their order."""

    def encode(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Unstorable(value)
        return [[NAME.encode(name), kind.encode(item)] for name, item in value.items()]

    def decode(coded: Any) -> Any:
        return {NAME.decode(name): kind.decode(item) for name, item in coded}

    return Kind(encode, decode)


def pairs(first: Kind, second: Kind) -> Kind:
    """Return the kind of tuples of pairs."""

    def encode(value: Any) -> Any:
        return [[first.encode(one), second.encode(other)] for one, other in value]

    def decode(coded: Any) -> Any:
        return tuple((first.decode(one), second.decode(other)) for one, other in coded)

    return Kind(encode, decode)


def _names(key: Kind, keeps_order: bool = False) -> Kind:
    """Return the kind of sets of names; one that keeps its order is restored as keys of a dict."""
    make: Callable[[Any], Any] = dict.fromkeys if keeps_order else set

    def encode(value: Any) -> Any:
        if not isinstance(value, set | frozenset | dict):
            raise Unstorable(value)
        coded = [key.encode(name) for name in value]
        return coded if keeps_order else sorted(coded, key=json.dumps)

    def decode(coded: Any) -> Any:
        return make([key.decode(name) for name in coded])

    return Kind(encode, decode)


NAMES = _names(NAME)
TEXTS = _names(TEXT)
KEYS = _names(NAME, keeps_order=True)
"""A set of names whose order matters.

river's `Select` returns features in the order of a set, which another process would change, and
with it the last bits of a sum.
"""


_TYPES: dict[str, type] = {
    **{kind.__name__: kind for kind in (bool, int, float, str)},
    **{kind.__name__: kind for kind in (numbers.Number, numbers.Real, numbers.Integral)},
    **{f"numpy.{name}": kind for name, kind in _NUMPY.items()},
}


def _encode_type(value: Any) -> str:
    for name, kind in _TYPES.items():
        if kind is value:
            return name
    raise Unstorable(value)


TYPE = Kind(_encode_type, lambda coded: _TYPES[coded])
TYPES = Kind(
    lambda value: [_encode_type(kind) for kind in value],
    lambda coded: tuple(_TYPES[name] for name in coded),
)


def _encode_ngram_range(value: Any) -> Any:
    low, high = value if isinstance(value, tuple) and len(value) == 2 else (0, 0)
    if not (type(low) is type(high) is int and 1 <= low <= high <= MAX_NGRAM):
        raise Unstorable(value)
    return [low, high]


MAX_NGRAM = 1000
NGRAM_RANGE = Kind(_encode_ngram_range, lambda coded: tuple(_encode_ngram_range(tuple(coded))))
