"""Records decoded from binary formats, as JSON lines.

Avro and Protobuf records are read like JSON lines: labels, ids, paths and categories have one
definition, that of `streaml1.sources.readers.flat_json`.
"""

from __future__ import annotations

import json
from decimal import Decimal
from math import isfinite
from typing import Any

import orjson

__all__ = ["json_line"]

_TOO_LARGE = {True: orjson.Fragment(b"1e999"), False: orjson.Fragment(b"-1e999")}
"""Spellings of infinity in JSON, which has no other, by whether it is positive."""


def json_line(record: Any) -> bytes:
    """Return a record as JSON in one line, without a newline.

    NaN becomes null, which is a missing value. Infinity becomes a number that is too large, which
    is rejected with the name of its feature. Bytes become a string with a character for each byte,
    as in Avro's JSON encoding, and decimals become numbers.

    Parameters
    ----------
    record
        Dicts with names, lists, strings, numbers, bools and None, inside each other.

    Examples
    --------
    >>> from streaml1.sources.readers.decoded_records import json_line
    >>> json_line({"site": "news", "user": {"age": 31}, "price": float("nan")})
    b'{"site":"news","user":{"age":31},"price":null}'
    """
    try:
        line = orjson.dumps(record, _plain)
        if b"null" in line:  # NaN, infinity or None
            line = orjson.dumps(_with_infinity(record), _plain)
    except TypeError:  # nested very deeply, lone surrogates, or integers of more than 64 bits
        line = json.dumps(record, default=_plain).encode()
    return line


def _plain(value: Any) -> Any:
    """Return what stands for a value that JSON lacks."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("latin-1")
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} is not a value of a record")


def _with_infinity(value: Any) -> Any:
    """Return a value with fragments of JSON in the place of infinities."""
    if isinstance(value, dict):
        return {name: _with_infinity(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_with_infinity(v) for v in value]
    if isinstance(value, float) and not isfinite(value) and value == value:
        return _TOO_LARGE[value > 0]
    return value
