"""JSON lines with nested objects and arrays to flat JSON lines, as text.

`flatten_lines` writes each line anew: members of nested objects and arrays become members of the
line, named by their paths. `streaml1.text.jsonl.parse_lines` then reads the result as flat lines.

    {"user": {"age": 31}, "tags": ["a"], "v": [2]}
    {"user":0,"user.age":31,"tags":0,"tags=a":1,"v":0,"v.0":2}

The 0 in the place of an object or array is an absent value. It makes names that occur twice
visible to `parse_lines`, which leaves such lines to Python.

A line that the kernel does not understand is copied as it is. `parse_lines` then finds a nested
value in it, so Python parses it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.simd import borrowed, ctz, load_u8, loadu_u64, store_u64
from streaml1.text.byte_names import bytes_equal, copy_bytes
from streaml1.text.json_simd import skip_spaces
from streaml1.text.numbers import parse_json_scalar
from streaml1.text.structural_index import COLON, CR, NEWLINE, SPACE

__all__ = ["MAX_LEVELS", "MAX_PATH", "ROLE_FIELDS", "flatten_lines"]

MAX_LEVELS = 32
"""Objects and arrays inside each other; Python reads deeper ones."""

MAX_PATH = 2**12
"""Bytes of a path, with its dots; Python reads longer ones."""

ROLE_FIELDS = 3
"""Rows of the array that describes the members with a role: offset and size of the name, and
whether the member is ignored."""

_ZERO, _ONE, _TWO, _THREE, _FOUR, _EIGHT, _TEN = map(np.uint64, (0, 1, 2, 3, 4, 8, 10))
_QUOTE, _COMMA, _BACKSLASH, _EQUALS, _DOT, _DIGIT_ZERO, _X = map(np.uint64, b'",\\=.0x')
_OPENING_BRACE, _CLOSING_BRACE, _OPENING_BRACKET, _CLOSING_BRACKET = map(np.uint64, b"{}[]")
_ONES, _HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _BACKSLASHES = _QUOTE * _ONES, _BACKSLASH * _ONES
_SPACES = SPACE * _ONES
_LAST_ASCII = np.uint64(127)
_LOW_HALF = np.uint64(2**32 - 1)
_NULL = np.uint64(int.from_bytes(b"null", "little"))
_QUOTE_COLON = np.uint64(int.from_bytes(b'":', "little"))
_QUOTE_COLON_ZERO = np.uint64(int.from_bytes(b'":0', "little"))
_QUOTE_COLON_ONE = np.uint64(int.from_bytes(b'":1', "little"))
_BRACE_NEWLINE = np.uint64(int.from_bytes(b"}\n", "little"))
_OBJECT = np.uint64(2**64 - 1)
"""The index of an object, in the place of that of an array's element."""
_SLACK = np.uint64(64)
_MAX_PATH = np.uint64(MAX_PATH - 64)
_MAX_LEVELS = np.uint64(MAX_LEVELS - 1)


@kernel
def flatten_lines(
    start: Any, end: Any, out: Any, out_end: Any, powers: Any, role_names: Any, roles: Any,
    x_is_example: Any, path: Any, levels: Any, line_ends: Any,
) -> Any:  # fmt: skip
    """Write the lines between two addresses as flat lines; the last byte must be a newline.

    Parameters
    ----------
    start, end
        The addresses.
    out, out_end
        Addresses between which the lines are written. There must be room for a copy of the lines,
        and for 64 bytes more.
    powers
        `streaml1.text.numbers.POWERS`.
    role_names, roles
        The names of the members with a role, one after the other, and what `ROLE_FIELDS` says.
    x_is_example
        Whether a line with an object ``x`` is copied: it is not flat.
    path
        Scratch array of `MAX_PATH` bytes.
    levels
        Scratch array, shape (2, MAX_LEVELS), uint64: how long the path before each object or array
        is, and the index of the next element; `_OBJECT` for objects.
    line_ends
        Receives the offset of the end of each line from `start`, int64.

    Returns
    -------
    The address after the last line.
    """
    path, levels, roles = borrowed((path, levels, roles))
    path_at, names_at = np.uint64(path.ctypes.data), np.uint64(role_names.ctypes.data)
    pos, out_pos, line = start, out, _ZERO
    # Invariant: the lines before `pos` are written before `out_pos`, and the rest still fits.
    while pos < end:
        begin, first = pos, out_pos
        room = out_end - (end - begin) - _SLACK  # for a line that is copied, and those after it
        valid: Any = load_u8(pos) == _OPENING_BRACE
        store_u64(out_pos, _OPENING_BRACE)
        out_pos += _ONE
        pos = skip_spaces(pos + _ONE)
        depth, size, ignored = _ZERO, _ZERO, _ZERO
        levels[0, 0], levels[1, 0] = _ZERO, _OBJECT
        is_first: Any = True  # of the object or array
        is_open: Any = valid
        # Invariant: the members before `pos` are written, but for those from level `ignored` on,
        # unless it is 0. The path to them has `size` bytes, a dot at its end unless it is empty.
        while is_open:
            valid = False
            index = levels[1, depth]
            in_object = index == _OBJECT
            c = load_u8(pos)
            closes: Any = c == (_CLOSING_BRACE if in_object else _CLOSING_BRACKET)
            if not (closes and is_first):
                key, key_end = pos, pos
                if in_object:
                    if c != _QUOTE:
                        break
                    key = pos + _ONE
                    key_end = _string_end(key)
                    if load_u8(key_end) != _QUOTE or key_end == key:
                        break
                    pos = skip_spaces(key_end + _ONE)
                    if load_u8(pos) != COLON:
                        break
                    pos = skip_spaces(pos + _ONE)
                    c = load_u8(pos)
                name_bytes = size + (key_end - key)
                if name_bytes > _MAX_PATH:
                    break
                if c in (_OPENING_BRACE, _OPENING_BRACKET):
                    if depth == _MAX_LEVELS:
                        break
                    is_x = depth == _ZERO and key_end - key == _ONE and load_u8(key) == _X
                    if x_is_example and is_x and c == _OPENING_BRACE:
                        break
                    if out_pos + name_bytes > room:
                        break
                    outer = size
                    if in_object:
                        size = copy_bytes(key, key_end, path_at + size) - path_at
                    else:
                        size = _write_digits(index, path_at + size) - path_at
                    role = _role_of(path_at, size, names_at, roles)
                    if role == _TWO:
                        break
                    depth += _ONE
                    if role == _ONE and ignored == _ZERO:
                        ignored = depth
                    if in_object and ignored == _ZERO:
                        out_pos = _begin_member(out_pos, out_pos != first + _ONE)
                        out_pos = copy_bytes(path_at, path_at + size, out_pos)
                        store_u64(out_pos, _QUOTE_COLON_ZERO)
                        out_pos += _THREE
                    store_u64(path_at + size, _DOT)
                    size += _ONE
                    levels[0, depth] = outer
                    levels[1, depth] = _OBJECT if c == _OPENING_BRACE else _ZERO
                    pos = skip_spaces(pos + _ONE)
                    is_first = True
                    valid = True
                    continue
                is_string: Any = c == _QUOTE
                stop = _string_end(pos + _ONE) if is_string else _scalar_end(pos)
                if is_string and load_u8(stop) != _QUOTE:
                    break
                stop += np.uint64(is_string)
                if ignored:
                    if not _is_valid_ignored(pos, stop, is_string, powers):
                        break
                elif out_pos + name_bytes + (stop - pos) > room:
                    break
                elif in_object:
                    out_pos = _begin_member(out_pos, out_pos != first + _ONE)
                    out_pos = copy_bytes(path_at, path_at + size, out_pos)
                    out_pos = copy_bytes(key, key_end, out_pos)
                    store_u64(out_pos, _QUOTE_COLON)
                    out_pos = copy_bytes(pos, stop, out_pos + _TWO)
                elif is_string:
                    out_pos = _begin_member(out_pos, out_pos != first + _ONE)
                    out_pos = copy_bytes(path_at, path_at + size - _ONE, out_pos)
                    store_u64(out_pos, _EQUALS)
                    out_pos = copy_bytes(pos + _ONE, stop - _ONE, out_pos + _ONE)
                    store_u64(out_pos, _QUOTE_COLON_ONE)
                    out_pos += _THREE
                elif stop - pos != _FOUR or (loadu_u64(pos) & _LOW_HALF) != _NULL:
                    out_pos = _begin_member(out_pos, out_pos != first + _ONE)
                    out_pos = copy_bytes(path_at, path_at + size, out_pos)
                    out_pos = _write_digits(index, out_pos)
                    store_u64(out_pos, _QUOTE_COLON)
                    out_pos = copy_bytes(pos, stop, out_pos + _TWO)
                if stop == pos:
                    break
                pos = skip_spaces(stop)
                is_first = False
            # Close objects and arrays up to one that has another member.
            while True:
                index = levels[1, depth]
                in_object = index == _OBJECT
                c = load_u8(pos)
                if c != (_CLOSING_BRACE if in_object else _CLOSING_BRACKET):
                    break
                pos = skip_spaces(pos + _ONE)
                is_first = False
                if depth == _ZERO:
                    is_open = False
                    break
                size = levels[0, depth]
                if ignored == depth:
                    ignored = _ZERO
                depth -= _ONE
            if not is_open:
                pos += np.uint64(load_u8(pos) == CR)
                valid = load_u8(pos) == NEWLINE
                break
            if c != _COMMA:
                break
            if not in_object:
                levels[1, depth] = index + _ONE
            pos = skip_spaces(pos + _ONE)
            # After a comma, a closing bracket is an error: the loop finds no member there.
            is_first = False
            valid = True
        if valid:
            store_u64(out_pos, _BRACE_NEWLINE)
            out_pos += _TWO
            pos += _ONE
        else:
            pos = begin
            while load_u8(pos) != NEWLINE:
                pos += _ONE
            pos += _ONE
            out_pos = copy_bytes(begin, pos, first)
        line_ends[line] = pos - start
        line += _ONE
    return out_pos


@inlined
def _string_end(pos: Any) -> Any:
    """Return the address of the first quote, backslash or control character from `pos` on."""
    while True:
        word = loadu_u64(pos)
        quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
        # A byte that is zero, or below a space, sets its high bit. Borrows set bits of later bytes
        # only, and the first bit counts.
        found = ((quotes - _ONES) & ~quotes) | ((backslashes - _ONES) & ~backslashes)
        found = (found | ((word - _SPACES) & ~word)) & _HIGH_BITS
        if found:
            return pos + (ctz(found) >> _THREE)
        pos += _EIGHT


@inlined
def _scalar_end(pos: Any) -> Any:
    """Return the address of the first byte from `pos` on that cannot be one of a scalar."""
    while True:
        c = load_u8(pos)
        if c in (_COMMA, _CLOSING_BRACE, _CLOSING_BRACKET) or c <= SPACE:
            return pos
        pos += _ONE


@inlined
def _is_valid_ignored(pos: Any, stop: Any, is_string: Any, powers: Any) -> Any:
    """Return whether a value that is not written is valid for sure."""
    if not is_string:
        _, v = parse_json_scalar(pos, stop, powers)
        return v == v and stop > pos
    while pos < stop:
        if load_u8(pos) > _LAST_ASCII:  # it may not be UTF-8
            return False
        pos += _ONE
    return True


@inlined
def _begin_member(out_pos: Any, is_later: Any) -> Any:
    """Write a comma, unless this is the first member, and the quote that opens a name."""
    store_u64(out_pos, _COMMA)
    out_pos += np.uint64(is_later)
    store_u64(out_pos, _QUOTE)
    return out_pos + _ONE


@inlined
def _write_digits(number: Any, out_pos: Any) -> Any:
    """Write a number in decimal; writes up to seven bytes after it."""
    power = _ONE
    while number // power >= _TEN:
        power *= _TEN
    while power > _ZERO:
        store_u64(out_pos, _DIGIT_ZERO + number // power % _TEN)
        out_pos += _ONE
        power //= _TEN
    return out_pos


@inlined
def _role_of(path: Any, size: Any, names: Any, roles: Any) -> Any:
    """Return 1 for a path that is ignored, 2 for one with another role, else 0."""
    role = _ZERO
    for r in range(np.uint64(roles.shape[1])):
        if roles[1, r] == size and bytes_equal(path, names + roles[0, r], size):
            role = _ONE if roles[2, r] else _TWO
    return role
