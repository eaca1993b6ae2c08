"""Find the members of a JSON object, also those of objects and arrays inside it.

`find_members` steps from delimiter to delimiter of the index and never goes back. Each member of
the object, and each scalar inside, becomes a feature. The name of one inside is its path, which is
written to the memory for names:

    {"user": {"age": 31, "os": "mac"}, "tags": ["a"], "v": [2]}

    user.age  user.os=mac  tags=a  v.0

The path of an object or array and a dot are the prefix of the names inside. It is written once,
when the object or array opens. Its hash follows those of the names, so that `has_duplicate` sees
all names that occur twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.ascii import (
    CLOSING_BRACE,
    COLON,
    COMMA,
    EQUALS,
    OPENING_BRACE,
    POINT,
    QUOTE,
    SPACE,
)
from streaml1.core.jit import inlined, u64
from streaml1.core.simd import load_u8, loadu_u64, store_u64
from streaml1.core.spans import LENGTH_MASK, OFFSET_BITS
from streaml1.text.byte_names import UNHASHED, copy_short_bytes, murmur_at
from streaml1.text.feature_spans import read_value
from streaml1.text.json_roles import IGNORED, role_of
from streaml1.text.json_simd import MAX_KEYS, find_members_x8, may_start_x8, skip_spaces
from streaml1.text.structural_index import delimiter_at, span_of

__all__ = ["MAX_LEVELS", "closing_quote", "find_members", "write_one"]

MAX_LEVELS = 32
"""How deep objects and arrays may be nested; Python reads deeper ones."""

_LOW_HALF = u64(2**32 - 1)
_DIGIT_ZERO, _X = map(u64, b"0x")
_OPENING_BRACKET, _CLOSING_BRACKET = map(u64, b"[]")
_NULL = u64(int.from_bytes(b"null", "little"))
_DIGIT_ONE = u64(ord("1"))
_TYPE, _SIX_BYTES = u64(int.from_bytes(b'"type"', "little")), u64(2**48 - 1)
_OBJECT = u64(2**64 - 1)
"""The index of a member of an object, which has none."""
_MAX_LEVELS, _IGNORED = u64(MAX_LEVELS), u64(IGNORED)
_SLACK = u64(64)  # bytes that copies may write after a name, and digits of an index


@inlined
def write_one(out_pos: Any) -> Any:
    """Write the value of categories of arrays, and return the address after it."""
    store_u64(out_pos, _DIGIT_ONE)
    return out_pos + u64(1)


class _Found(NamedTuple):
    """The features of a line."""

    i: Any
    """The next delimiter."""
    pos: Any
    """The byte after the object."""
    k: Any
    """The end of the features."""
    n_paths: Any
    """How many objects and arrays are inside."""
    name_pos: Any
    """Where the next name goes."""
    n_read: Any
    """The end of the features whose values are read."""
    all_hashed: Any
    """Whether all names are hashed."""
    valid: Any


class _Place(NamedTuple):
    """Where a member or element is."""

    depth: Any
    """How many objects and arrays it is in, besides the object of the line."""
    prefix: Any
    prefix_size: Any
    """Their path and a dot, with which names begin."""
    index: Any
    """The index of an element, or `_OBJECT`."""


@inlined
def find_members(
    text: Any, lines: Any, features: Any, i: Any, pos: Any, first_feature: Any, name_pos: Any,
    keys: Any, paths: Any, nested: Any, x_is_example: Any, roles: Any, levels: Any,
) -> Any:  # fmt: skip
    """Find the members of the object that opens before `pos`. Returns a `_Found`.

    The i-th delimiter is the first one at or after `pos`. Members that are found one by one have
    the span of their key in the hashes of features, and UNHASHED in `keys`, the address of the
    hashes of keys. Those of the paths of objects and arrays follow.

    Parameters
    ----------
    paths
        Address of scratch memory for the hashes of paths.
    nested
        Whether objects and arrays may be inside.
    x_is_example
        Whether a line with an object ``x`` is irregular: it is not flat.
    roles
        The members with a role, see `json_roles`. The values inside an ignored member are checked,
        but are not features; an object or array with another role is irregular.
    levels
        Scratch array, shape (3, MAX_LEVELS), uint64: address and size of the prefix around each
        object or array, and its index there.
    """
    last, n_paths = first_feature + MAX_KEYS, u64(0)
    k = n_read = retry_at = first_feature
    all_hashed: Any = True
    place = _Place(u64(0), text.start, u64(0), _OBJECT)
    ignored_depth, first_ignored = u64(0), k
    ended: Any = False
    valid: Any = True  # whether ignored members are valid
    pos = skip_spaces(pos)
    if load_u8(pos) == CLOSING_BRACE:
        return _Found(i + u64(1), pos + u64(1), k, n_paths, name_pos, n_read, all_hashed, True)
    # Invariant: features up to k are found, and the next member or element, of `place`, begins at
    # `pos`. If `ignored_depth` is not 0, the features from `first_ignored` on are inside an ignored
    # member.
    while k + n_paths < last:
        key, key_end = pos, pos  # an element has none
        if place.index == _OBJECT:
            if place.depth == u64(0) and k >= retry_at and may_start_x8(text.kinds, i):
                if delimiter_at(text, i) != pos:
                    break
                i, pos, k, name_pos, n_read, ended = find_members_x8(
                    text, lines, features, i, pos, first_feature, k, name_pos, n_read, keys
                )
                if ended or k + n_paths >= last:
                    break
                retry_at = k + u64(8)  # the next eight have been tried
            i, pos, key, key_end, found = _find_key(text, i, pos)
            if not found:
                break
        c, key_at = load_u8(pos), keys + u64(8) * (k - first_feature)
        if c == QUOTE:
            i, pos, name_pos, found = _find_string(
                text, lines, features, place, i, pos, key, key_end, k, name_pos, key_at
            )
            if not found:
                break
            all_hashed = False
            k += u64(1)
        elif c in (OPENING_BRACE, _OPENING_BRACKET):
            if not nested or (x_is_example and c == OPENING_BRACE and _is_x(place, key, key_end)):
                break
            pos, place, name_pos, h, found = _open(
                text, lines, levels, place, pos, key, key_end, name_pos
            )
            role = role_of(h, roles.table) if found else u64(0)
            if not found or (role != u64(0) and role != _IGNORED):
                break
            store_u64(paths + u64(8) * n_paths, h)
            n_paths += u64(1)
            if role == _IGNORED and ignored_depth == u64(0):
                ignored_depth, first_ignored = place.depth, k
            if load_u8(pos) != _closing(place):
                continue
        else:
            pos, name_pos, count, found = _find_scalar(
                text, lines, features, place, i, pos, key, key_end, k, name_pos, key_at
            )
            if not found:
                break
            all_hashed = False
            k += count
        # Close objects and arrays up to one that has another member. The index has no brackets.
        while load_u8(pos) == _closing(place):
            i += np.uint64(place.index == _OBJECT)
            pos += u64(1)
            ended = place.depth == u64(0)
            if ignored_depth == place.depth and not ended:
                valid = _are_scalars(text, lines.powers, features.value_spans, first_ignored, k)
                ignored_depth, k = u64(0), first_ignored
            if ended or not valid:
                break
            place = _outer_place(levels, place)
            pos = skip_spaces(pos)
        if ended or not valid or load_u8(pos) != COMMA:
            break
        i += u64(1)
        pos = skip_spaces(pos + u64(1))
        next_index = place.index if place.index == _OBJECT else place.index + u64(1)
        place = _Place(place.depth, place.prefix, place.prefix_size, next_index)
    ended &= k + n_paths <= last
    if ended:
        for j in range(n_paths):
            store_u64(keys + u64(8) * (k - first_feature + j), loadu_u64(paths + u64(8) * j))
    return _Found(i, pos, k, n_paths, name_pos, n_read, all_hashed, ended)


class _Key(NamedTuple):
    """A key, and where its value begins."""

    i: Any
    pos: Any
    begin: Any
    end: Any
    valid: Any


@inlined
def _find_key(text: Any, i: Any, pos: Any) -> Any:
    """Find the key at `pos`, and the value after its colon. Returns a `_Key`."""
    opening = delimiter_at(text, i)
    if opening != pos or load_u8(opening) != QUOTE:
        return _Key(i, pos, pos, pos, False)
    i = closing_quote(text, i + u64(1))
    end = delimiter_at(text, i)
    if load_u8(end) != QUOTE:
        return _Key(i, pos, pos, pos, False)
    colon = skip_spaces(end + u64(1))
    valid = load_u8(colon) == COLON
    return _Key(i + u64(1), skip_spaces(colon + u64(1)), opening + u64(1), end, valid)


@inlined
def _is_x(place: Any, key: Any, key_end: Any) -> Any:
    """Return whether a member is the ``x`` of the line."""
    return place.depth == u64(0) and key_end - key == u64(1) and load_u8(key) == _X


class _Member(NamedTuple):
    """Next positions in the delimiters, the text and the names after a member."""

    i: Any
    pos: Any
    name_pos: Any
    valid: Any


@inlined
def _find_string(
    text: Any, lines: Any, features: Any, place: Any, i: Any, pos: Any, key: Any, key_end: Any,
    k: Any, name_pos: Any, key_at: Any,
) -> Any:  # fmt: skip
    """Write feature k for the string at `pos`. Returns a `_Member`."""
    i = closing_quote(text, i + u64(1))
    stop = delimiter_at(text, i)
    fits = name_pos + place.prefix_size + (stop - key) + _SLACK <= lines.names_end
    if load_u8(stop) != QUOTE or not fits:
        return _Member(i, pos, name_pos, False)
    is_element = place.index != _OBJECT
    name = name_pos
    # A category of an array is named by its path without the dot.
    path_size = place.prefix_size - np.uint64(is_element)
    name_pos = copy_short_bytes(place.prefix, place.prefix + path_size, name_pos)
    name_pos = copy_short_bytes(key, key_end, name_pos)
    # Bytes that were just written are slow to gather: hash a key in the text if possible.
    if place.depth != u64(0):
        key, key_end = name, name_pos
    store_u64(name_pos, EQUALS)
    name_pos = copy_short_bytes(pos + u64(1), stop, name_pos + u64(1))
    value_span = u64(0)
    if is_element:
        key_end = name_pos
        value_span = span_of(text, lines.names, lines.names + u64(1))  # see `write_one`
    features.hashes[k] = span_of(text, key, key_end)
    features.spans[k] = span_of(text, name, name_pos)
    features.value_spans[k] = value_span
    store_u64(key_at, UNHASHED)
    return _Member(i + u64(1), skip_spaces(stop + u64(1)), name_pos, True)


class _FoundScalar(NamedTuple):
    """Next positions in the text and the names after a scalar, and its number of features."""

    pos: Any
    name_pos: Any
    count: Any
    valid: Any


@inlined
def _find_scalar(
    text: Any, lines: Any, features: Any, place: Any, i: Any, pos: Any, key: Any, key_end: Any,
    k: Any, name_pos: Any, key_at: Any,
) -> Any:  # fmt: skip
    """Write feature k for the scalar at `pos`; a null element is none. Returns a `_FoundScalar`."""
    if place.index == _OBJECT:
        after = stop = delimiter_at(text, i)
        while load_u8(stop - u64(1)) == SPACE:
            stop -= u64(1)
    else:
        stop = _element_end(pos)
        after = skip_spaces(stop)
    if stop <= pos:
        return _FoundScalar(pos, name_pos, u64(0), False)
    is_null = stop - pos == u64(4) and (loadu_u64(pos) & _LOW_HALF) == _NULL
    if is_null and place.index != _OBJECT:
        return _FoundScalar(after, name_pos, u64(0), True)
    name, name_end = key, key_end
    if place.depth != u64(0):
        if not _path_fits(lines, place, key, key_end, name_pos):
            return _FoundScalar(pos, name_pos, u64(0), False)
        name = name_pos
        name_pos = name_end = _write_path(place, key, key_end, name_pos)
    features.spans[k] = features.hashes[k] = span_of(text, name, name_end)
    features.value_spans[k] = span_of(text, pos, stop)
    store_u64(key_at, UNHASHED)
    return _FoundScalar(after, name_pos, u64(1), True)


class _Opened(NamedTuple):
    """The first place of an object or array."""

    pos: Any
    place: Any
    name_pos: Any
    hash: Any
    """The hash of its path."""
    valid: Any


@inlined
def _open(
    text: Any, lines: Any, levels: Any, place: Any, pos: Any, key: Any, key_end: Any, name_pos: Any
) -> Any:
    """Write the prefix of the object or array at `pos`. Returns an `_Opened`.

    An object that may be a vector of Spark is not opened.
    """
    if load_u8(pos) == OPENING_BRACE and _may_be_vector(skip_spaces(pos + u64(1))):
        return _Opened(pos, place, name_pos, UNHASHED, False)
    if place.depth == _MAX_LEVELS or not _path_fits(lines, place, key, key_end, name_pos):
        return _Opened(pos, place, name_pos, UNHASHED, False)
    levels[0, place.depth], levels[1, place.depth] = place.prefix, place.prefix_size
    levels[2, place.depth] = place.index
    end = _write_path(place, key, key_end, name_pos)
    store_u64(end, POINT)
    index = _OBJECT if load_u8(pos) == OPENING_BRACE else u64(0)
    inside = _Place(place.depth + u64(1), name_pos, end + u64(1) - name_pos, index)
    return _Opened(skip_spaces(pos + u64(1)), inside, end + u64(1), murmur_at(name_pos, end), True)


@inlined
def _may_be_vector(pos: Any) -> Any:
    """Return whether an object begins with ``"type": 0`` or 1, see `features.spark_vectors`."""
    if loadu_u64(pos) & _SIX_BYTES != _TYPE:
        return False
    colon = skip_spaces(pos + u64(6))
    digit = load_u8(skip_spaces(colon + u64(1)))
    return load_u8(colon) == COLON and digit in (_DIGIT_ZERO, _DIGIT_ONE)


@inlined
def _outer_place(levels: Any, place: Any) -> Any:
    """Return the place of the object or array around a place."""
    depth = place.depth - u64(1)
    return _Place(depth, levels[0, depth], levels[1, depth], levels[2, depth])


@inlined
def _closing(place: Any) -> Any:
    """Return the byte that closes the object or array of a place."""
    return CLOSING_BRACE if place.index == _OBJECT else _CLOSING_BRACKET


@inlined
def closing_quote(text: Any, i: Any) -> Any:
    """Return the delimiter that closes the string opened before the i-th one.

    Commas and braces inside the string are skipped. The result is an irregular delimiter if one
    comes first, such as a backslash or a newline.
    """
    c = load_u8(delimiter_at(text, i))
    while c in (COMMA, CLOSING_BRACE):
        i += u64(1)
        c = load_u8(delimiter_at(text, i))
    return i


@inlined
def _element_end(pos: Any) -> Any:
    """Return the address of the first byte from `pos` on that cannot be one of a number."""
    while True:
        c = load_u8(pos)
        if c in (COMMA, _CLOSING_BRACKET, CLOSING_BRACE, QUOTE) or c <= SPACE:
            return pos
        pos += u64(1)


@inlined
def _path_fits(lines: Any, place: Any, key: Any, key_end: Any, name_pos: Any) -> Any:
    """Return whether there is room for `_write_path`."""
    return name_pos + place.prefix_size + (key_end - key) + _SLACK <= lines.names_end


@inlined
def _write_path(place: Any, key: Any, key_end: Any, out_pos: Any) -> Any:
    """Write the path of a member, or of the element with an index; return the address after it."""
    out_pos = copy_short_bytes(place.prefix, place.prefix + place.prefix_size, out_pos)
    index = place.index
    if index == _OBJECT:
        return copy_short_bytes(key, key_end, out_pos)
    if index < u64(10):
        store_u64(out_pos, _DIGIT_ZERO + index)
        return out_pos + u64(1)
    power = u64(1)
    while index // power >= u64(10):
        power *= u64(10)
    while power > u64(0):
        store_u64(out_pos, _DIGIT_ZERO + index // power % u64(10))
        out_pos += u64(1)
        power //= u64(10)
    return out_pos


@inlined
def _are_scalars(text: Any, powers: Any, value_spans: Any, lo: Any, hi: Any) -> bool:
    """Return whether the values from lo to hi are valid."""
    valid = True
    for k in range(lo, hi):
        first = text.start + (value_spans[k] >> OFFSET_BITS)
        v = read_value(first, first + (value_spans[k] & LENGTH_MASK), powers, True)
        valid &= value_spans[k] == u64(0) or v == v
    return valid
