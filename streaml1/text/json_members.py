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

from streaml1.core.jit import inlined
from streaml1.core.simd import load_u8, loadu_u64, store_u64
from streaml1.text.byte_names import UNHASHED, copy_bytes, copy_short_bytes, murmur_at
from streaml1.text.feature_spans import read_value
from streaml1.text.json_roles import IGNORED, role_of
from streaml1.text.json_simd import MAX_KEYS, find_members_x8, may_start_x8, skip_spaces
from streaml1.text.structural_index import COLON, SPACE, position_of

__all__ = ["MAX_LEVELS", "closing_quote", "find_members", "write_one"]

MAX_LEVELS = 32
"""Objects and arrays inside each other; Python reads deeper ones."""

_ZERO, _ONE, _FOUR, _EIGHT, _TEN = map(np.uint64, (0, 1, 4, 8, 10))
_OFFSET_BITS, _LENGTH_MASK, _LOW_HALF = map(np.uint64, (32, 2**32 - 1, 2**32 - 1))
_QUOTE, _COMMA, _EQUALS, _DOT, _DIGIT_ZERO, _X = map(np.uint64, b'",=.0x')
_OPENING_BRACE, _CLOSING_BRACE, _OPENING_BRACKET, _CLOSING_BRACKET = map(np.uint64, b"{}[]")
_NULL = np.uint64(int.from_bytes(b"null", "little"))
_DIGIT_ONE = np.uint64(ord("1"))
_OBJECT = np.uint64(2**64 - 1)
"""The index of an object, in the place of that of an array's element."""
_MAX_LEVELS, _IGNORED = np.uint64(MAX_LEVELS), np.uint64(IGNORED)
_SLACK = np.uint64(64)  # bytes that copies may write after a name, and digits of an index


@inlined
def write_one(out_pos: Any) -> Any:
    """Write the value of categories of arrays, and return the address after it."""
    store_u64(out_pos, _DIGIT_ONE)
    return out_pos + _ONE


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


@inlined
def find_members(
    start: Any, powers: Any, positions: Any, kinds: Any, i: Any, pos: Any, first_feature: Any,
    name_pos: Any, names_end: Any, one: Any, hashes: Any, values: Any, spans: Any,
    value_spans: Any, keys: Any, paths: Any, nested: Any, x_is_example: Any, roles: Any,
    levels: Any,
) -> Any:  # fmt: skip
    """Find the members of the object that opens before `pos`. Returns a `_Found`.

    The i-th delimiter is the first one at or after `pos`. Members that are found one by one have
    the span of their key in `hashes`, and UNHASHED in `keys`, the address of the hashes of keys.
    Those of the paths of objects and arrays follow.

    Parameters
    ----------
    one
        Where `write_one` has written.
    paths
        Address of scratch memory for the hashes of paths.
    nested
        Whether objects and arrays may be inside.
    x_is_example
        Whether a line with an object ``x`` is irregular: it is not flat.
    roles
        The hash table of the members with a role. What is inside an ignored one is only checked;
        an object or array with another role is irregular.
    levels
        Scratch array, shape (3, MAX_LEVELS), uint64: address and size of the prefix around each
        object or array, and its index there.
    """
    last, n_paths = first_feature + MAX_KEYS, _ZERO
    k = n_read = retry_at = first_feature
    all_hashed: Any = True
    one_span = (one - start) << _OFFSET_BITS | _ONE
    depth, prefix, prefix_size, index = _ZERO, start, _ZERO, _OBJECT
    ignored_depth, first_ignored = _ZERO, k
    ended: Any = False
    valid: Any = True  # whether ignored members are valid
    pos = skip_spaces(pos)
    if load_u8(pos) == _CLOSING_BRACE:
        return _Found(i + _ONE, pos + _ONE, k, n_paths, name_pos, n_read, all_hashed, True)
    # Invariant: features up to k are found, and the next member or element begins at `pos`. It is
    # in `depth` objects and arrays whose names begin with the prefix; `index` is that of the
    # element, or `_OBJECT`. If `ignored_depth` is not 0, the features from `first_ignored` on are
    # inside an ignored member.
    while k + n_paths < last:
        in_object = index == _OBJECT
        key, key_end = pos, pos  # an element has none
        if in_object:
            d = start + position_of(positions, i)
            if d != pos or load_u8(d) != _QUOTE:
                break
            if depth == _ZERO and k >= retry_at and may_start_x8(kinds, i):
                i, pos, k, name_pos, n_read, ended = find_members_x8(
                    start, positions, kinds, i, pos, first_feature, k, name_pos, names_end, n_read,
                    hashes, values, spans, value_spans, keys,
                )  # fmt: skip
                if ended:
                    break
                retry_at = k + _EIGHT  # the next eight have been tried
                d = start + position_of(positions, i)
                if d != pos or load_u8(d) != _QUOTE or k + n_paths >= last:
                    break
            i = closing_quote(start, positions, i + _ONE)
            key, key_end = d + _ONE, start + position_of(positions, i)
            if load_u8(key_end) != _QUOTE:
                break
            i += _ONE
            pos = key_end + _ONE
            if load_u8(pos) != COLON:
                pos = skip_spaces(pos)
                if load_u8(pos) != COLON:
                    break
            pos = skip_spaces(pos + _ONE)
        c = load_u8(pos)
        path_fits = name_pos + prefix_size + (key_end - key) + _SLACK <= names_end
        if c == _QUOTE:
            i = closing_quote(start, positions, i + _ONE)
            stop = start + position_of(positions, i)
            if (
                load_u8(stop) != _QUOTE
                or name_pos + prefix_size + (stop - key) + _SLACK > names_end
            ):
                break
            i += _ONE
            name = name_pos
            # A category of an array is named by its path without the dot.
            name_pos = copy_bytes(prefix, prefix + prefix_size - np.uint64(not in_object), name_pos)
            name_pos = copy_bytes(key, key_end, name_pos)
            # Bytes that were just written are slow to gather: hash a key in the text if possible.
            if depth != _ZERO:
                key, key_end = name, name_pos
            store_u64(name_pos, _EQUALS)
            name_pos = copy_short_bytes(pos + _ONE, stop, name_pos + _ONE)
            value_span = _ZERO
            if not in_object:
                key_end, value_span = name_pos, one_span
            hashes[k] = ((key - start) << _OFFSET_BITS) | (key_end - key)
            spans[k] = ((name - start) << _OFFSET_BITS) | (name_pos - name)
            value_spans[k] = value_span
            store_u64(keys + _EIGHT * (k - first_feature), UNHASHED)
            all_hashed = False
            k += _ONE
            pos = skip_spaces(stop + _ONE)
        elif c in (_OPENING_BRACE, _OPENING_BRACKET):
            is_x = depth == _ZERO and key_end - key == _ONE and load_u8(key) == _X
            if x_is_example and is_x and c == _OPENING_BRACE:
                break
            if not nested or depth == _MAX_LEVELS or not path_fits:
                break
            levels[0, depth], levels[1, depth], levels[2, depth] = prefix, prefix_size, index
            path = name_pos
            name_pos = _write_path(prefix, prefix_size, key, key_end, index, name_pos)
            prefix, prefix_size = path, name_pos - path + _ONE
            h = murmur_at(path, name_pos)
            role = role_of(h, roles)
            if role != _ZERO and role != _IGNORED:
                break
            store_u64(paths + _EIGHT * n_paths, h)
            n_paths += _ONE
            store_u64(name_pos, _DOT)
            name_pos += _ONE
            depth += _ONE
            if role == _IGNORED and ignored_depth == _ZERO:
                ignored_depth, first_ignored = depth, k
            index = _OBJECT if c == _OPENING_BRACE else _ZERO
            pos = skip_spaces(pos + _ONE)
            if load_u8(pos) != (_CLOSING_BRACE if c == _OPENING_BRACE else _CLOSING_BRACKET):
                continue
        else:
            if in_object:
                after = stop = start + position_of(positions, i)
                while load_u8(stop - _ONE) == SPACE:
                    stop -= _ONE
            else:
                stop = _element_end(pos)
                after = skip_spaces(stop)
            if stop <= pos:
                break
            is_null = stop - pos == _FOUR and (loadu_u64(pos) & _LOW_HALF) == _NULL
            if in_object or not is_null:
                name, name_end = key, key_end
                if depth != _ZERO:
                    if not path_fits:
                        break
                    name = name_pos
                    name_pos = _write_path(prefix, prefix_size, key, key_end, index, name_pos)
                    name_end = name_pos
                spans[k] = hashes[k] = ((name - start) << _OFFSET_BITS) | (name_end - name)
                value_spans[k] = ((pos - start) << _OFFSET_BITS) | (stop - pos)
                store_u64(keys + _EIGHT * (k - first_feature), UNHASHED)
                all_hashed = False
                k += _ONE
            pos = after
        # Close objects and arrays up to one that has another member. The index has no brackets.
        while load_u8(pos) == (_CLOSING_BRACE if index == _OBJECT else _CLOSING_BRACKET):
            i += np.uint64(index == _OBJECT)
            pos += _ONE
            ended = depth == _ZERO
            if ignored_depth == depth and not ended:
                valid = _are_scalars(start, powers, value_spans, first_ignored, k)
                ignored_depth, k = _ZERO, first_ignored
            if ended or not valid:
                break
            depth -= _ONE
            prefix, prefix_size, index = levels[0, depth], levels[1, depth], levels[2, depth]
            pos = skip_spaces(pos)
        if ended or not valid or load_u8(pos) != _COMMA:
            break
        i += _ONE
        pos = skip_spaces(pos + _ONE)
        if index != _OBJECT:
            index += _ONE
    ended &= k + n_paths <= last
    if ended:
        for j in range(n_paths):
            store_u64(keys + _EIGHT * (k - first_feature + j), loadu_u64(paths + _EIGHT * j))
    return _Found(i, pos, k, n_paths, name_pos, n_read, all_hashed, ended)


@inlined
def closing_quote(start: Any, positions: Any, i: Any) -> Any:
    """Return the delimiter that closes the string opened before the i-th one.

    Commas and braces inside the string are skipped. The result is an irregular delimiter if one
    comes first, such as a backslash or a newline.
    """
    c = load_u8(start + position_of(positions, i))
    while c in (_COMMA, _CLOSING_BRACE):
        i += _ONE
        c = load_u8(start + position_of(positions, i))
    return i


@inlined
def _element_end(pos: Any) -> Any:
    """Return the address of the first byte from `pos` on that cannot be one of a number."""
    while True:
        c = load_u8(pos)
        if c in (_COMMA, _CLOSING_BRACKET, _CLOSING_BRACE, _QUOTE) or c <= SPACE:
            return pos
        pos += _ONE


@inlined
def _write_path(
    prefix: Any, prefix_size: Any, key: Any, key_end: Any, index: Any, out_pos: Any
) -> Any:
    """Write the path of a member, or of the element with an index; return the address after it."""
    out_pos = copy_bytes(prefix, prefix + prefix_size, out_pos)
    if index == _OBJECT:
        return copy_bytes(key, key_end, out_pos)
    if index < _TEN:
        store_u64(out_pos, _DIGIT_ZERO + index)
        return out_pos + _ONE
    power = _ONE
    while index // power >= _TEN:
        power *= _TEN
    while power > _ZERO:
        store_u64(out_pos, _DIGIT_ZERO + index // power % _TEN)
        out_pos += _ONE
        power //= _TEN
    return out_pos


@inlined
def _are_scalars(start: Any, powers: Any, value_spans: Any, lo: Any, hi: Any) -> bool:
    """Return whether the values from lo to hi are valid."""
    valid = True
    for k in range(lo, hi):
        first = start + (value_spans[k] >> _OFFSET_BITS)
        v = read_value(first, first + (value_spans[k] & _LENGTH_MASK), powers, True)
        valid &= value_spans[k] == _ZERO or v == v
    return valid
