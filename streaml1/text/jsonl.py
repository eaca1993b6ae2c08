"""JSON lines to rows of hashed names.

`parse_lines` reads a chunk of lines from top to bottom:

1. `index_jsonl` writes the delimiters of about 32 KiB of lines (stage 1, `structural_index.py`).
2. The loop of `parse_lines` reads the members of each line: `x`, `y`, `w`, `id` and others.
3. `find_members` finds the members of `x` (`json_members.py`): eight at a time while they are
   short strings (`json_simd.py`), otherwise one by one.
4. `read_pending_values` and `hash_pending_keys` complete what was only found (`feature_spans.py`).
5. `has_duplicate` rejects a line with the same key twice.

A line that any of these steps does not understand is *irregular*: its row stays empty, and Python
parses the line (`streaml1.sources.readers.jsonl.parse_json`). A regular line is an object without
backslashes; each of `x`, `y`, `w` and `id` occurs at most once; `x` is an object whose values are
numbers, strings, true, false and null.

A *flat* line is read as if it were such an `x`. Then `apply_roles` (`json_roles.py`) takes label,
weight and id out of its features. It may have objects and arrays inside, whose members are
features named by their paths.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.simd import borrowed, load_u8, loadu_u64
from streaml1.text.byte_names import (
    UTF8_UNKNOWN,
    UTF8_VALID,
    is_ascii,
    murmur_at,
)
from streaml1.text.feature_spans import (
    drop_zeros,
    equal_hashes,
    has_duplicate,
    hash_pending_keys,
    read_pending_values,
)
from streaml1.text.json_members import (
    MAX_LEVELS,
    closing_quote,
    find_members,
    write_one,
)
from streaml1.text.json_roles import LABEL, apply_roles, find_roles
from streaml1.text.json_simd import MAX_KEYS, skip_spaces
from streaml1.text.numbers import NULL, NUMBER, STRING, parse_json_scalar
from streaml1.text.structural_index import (
    COLON,
    CR,
    NEWLINE,
    SPACE,
    batch_end,
    index_jsonl,
    position_of,
)

__all__ = ["MAX_KEYS", "MAX_LEVELS", "MAX_OTHER_MEMBERS", "parse_lines", "parse_nested_lines"]

MAX_OTHER_MEMBERS = np.uint64(16)
"""Upper bound on members of a line other than x, y, w and id."""

_ZERO, _ONE, _TWO, _THREE, _FOUR, _FIVE, _EIGHT = map(np.uint64, (0, 1, 2, 3, 4, 5, 8))
_OFFSET_BITS, _BYTE, _TWO_BYTES = map(np.uint64, (32, 2**8 - 1, 2**16 - 1))
_QUOTE, _COMMA, _OPENING_BRACE, _CLOSING_BRACE, _EQUALS = map(np.uint64, b'",{}=')
_NAME_X, _NAME_Y, _NAME_W = map(np.uint64, b"xyw")
_NAME_ID = np.uint64(int.from_bytes(b"id", "little"))
_X, _Y, _W, _ID = map(np.uint64, (1, 2, 4, 8))  # bits of members
_SLACK = np.uint64(32)  # bytes that copies may write after a name


@kernel
def parse_lines(*arguments: Any) -> Any:
    """Parse the lines between two addresses; the last byte must be a newline.

    As `streaml1.text.vw.parse_lines`, with these differences:

    Parameters
    ----------
    label_id_spans
        Receives for each row the kind of its label, the first and last offset of its text, and the
        same of its id, uint64, shape (rows, 6).
    key_hashes
        Scratch array with 3 `MAX_KEYS` + `MAX_OTHER_MEMBERS` entries.
    seen_keys
        Scratch array with 2 `MAX_KEYS` entries.
    flat
        Whether the members of a line are its features, but for those in `roles`.
    roles
        The hash table of the members with a role, as `streaml1.text.json_roles.role_table` makes
        it.
    role_sizes
        For each role the size of its name in bytes; 0 if no member has the role.
    found_roles
        Scratch array with two rows of as many entries as `roles` has members.
    levels
        Scratch array, shape (3, `MAX_LEVELS`), uint64.

    Returns
    -------
    tuple
        The fields of `LineCounts`. No row has the same name twice if no byte is an equals sign:
        keys and paths are distinct, and only the name `a=b` of a number could also be that of a
        string.
    """
    return _parse(False, *arguments)


@kernel
def parse_nested_lines(*arguments: Any) -> Any:
    """As `parse_lines`, for flat lines that may have objects and arrays inside.

    Lines without are read faster by `parse_lines`, which leaves those with them to Python.
    """
    return _parse(True, *arguments)


@inlined
def _parse(
    nested: Any,
    start: Any,
    end: Any,
    powers: Any,
    require_label: Any,
    utf8: Any,
    positions: Any,
    kinds: Any,
    hashes: Any,
    values: Any,
    names: Any,
    names_end: Any,
    spans: Any,
    y: Any,
    w: Any,
    indptr: Any,
    lines: Any,
    begins: Any,
    ends: Any,
    irregular: Any,
    value_spans: Any,
    label_id_spans: Any,
    key_hashes: Any,
    seen_keys: Any,
    flat: Any,
    roles: Any,
    role_sizes: Any,
    found_roles: Any,
    levels: Any,
) -> Any:
    """Parse the lines between two addresses; `nested` is a constant for the compiler."""
    hashes, values, spans = borrowed((hashes, values, spans))
    value_spans, key_hashes, seen_keys = borrowed((value_spans, key_hashes, seen_keys))
    roles, role_sizes = borrowed((roles, role_sizes))
    found_roles, levels = borrowed((found_roles, levels))
    row, k, n_irregular, line = _ZERO, _ZERO, _ZERO, _ZERO
    values_checked: Any = True
    positions_at, kinds_at = np.uint64(positions.ctypes.data), np.uint64(kinds.ctypes.data)
    distinct_names: Any = True
    seen_keys[:] = _ZERO
    keys = np.uint64(key_hashes.ctypes.data)
    paths = keys + _EIGHT * (_TWO * MAX_KEYS + MAX_OTHER_MEMBERS)
    previous_keys, previous_sizes = keys + _EIGHT * MAX_KEYS, (_ZERO, _ZERO)
    n_removed, n_kept = _ZERO, _ZERO  # of the previous keys
    i, n, pos, name_pos = _ZERO, _ZERO, start, write_one(names)
    indptr[0] = 0
    # Invariant: the lines before `pos` are in rows 0 to `row`, their features in 0 to `k`. The i-th
    # of the n delimiters of this batch is the first one at or after `pos`.
    while pos < end:
        if i == n:
            i = _ZERO
            stop_indexing = batch_end(pos, end)
            n, all_ascii, no_equals = index_jsonl(start, pos, stop_indexing, positions_at, kinds_at)
            distinct_names &= no_equals
            if utf8 == UTF8_UNKNOWN and not all_ascii:
                return _ZERO, _ZERO, _ZERO, False, False
        first_feature, begin, first_name = k, pos, name_pos
        label, weight = np.nan, 1.0
        label_kind, id_kind = NULL, NULL
        label_begin, label_end, id_begin, id_end = start, start, start, start
        seen_members = _ZERO
        valid: Any = False
        has_large: Any = False
        has_zero: Any = False
        all_hashed: Any = True
        n_read, n_paths = first_feature, _ZERO
        n_others = np.uint64(0)
        d = start + position_of(positions_at, i)
        more = load_u8(pos) == _OPENING_BRACE
        pos = skip_spaces(pos + _ONE)
        # Invariant: the members before `pos` are read; `more` tells that another one must follow.
        while more:
            more = False
            member = _X
            if flat:  # the line itself is x
                pos = begin
            else:
                d = start + position_of(positions_at, i)
                if d != pos or load_u8(d) != _QUOTE:
                    break
                i = closing_quote(start, positions_at, i + _ONE)
                e = start + position_of(positions_at, i)
                if load_u8(e) != _QUOTE:
                    break
                i += _ONE
                pos = skip_spaces(e + _ONE)
                if load_u8(pos) != COLON:
                    break
                pos = skip_spaces(pos + _ONE)
                member = _member_bit(e - d - _ONE, loadu_u64(d + _ONE))
                if seen_members & member:
                    break
                if member == _ZERO:
                    if n_others == MAX_OTHER_MEMBERS:
                        break
                    h, duplicate = murmur_at(d + _ONE, e), False
                    for j in range(n_others):
                        duplicate |= key_hashes[_TWO * MAX_KEYS + j] == h
                    if duplicate:
                        break
                    key_hashes[_TWO * MAX_KEYS + n_others] = h
                    n_others += _ONE
            seen_members |= member
            if member == _X:
                if load_u8(pos) != _OPENING_BRACE:
                    break
                i, pos, k, n_paths, name_pos, n_read, all_hashed, found = find_members(
                    start, powers, positions_at, kinds_at, i, pos + _ONE, first_feature, name_pos,
                    names_end, names, hashes, values, spans, value_spans, keys, paths,
                    nested, flat and role_sizes[LABEL] == _ZERO, roles, levels,
                )  # fmt: skip
                if not found:
                    break
            else:
                i, pos, kind, v, value_begin, value_end = _read_scalar(
                    start, powers, positions_at, i, pos
                )
                if v != v:
                    break
                if member == _Y:
                    label_kind, label_begin, label_end, label = kind, value_begin, value_end, v
                elif member == _W:
                    weight = v
                    if kind != NUMBER or not v >= 0.0:
                        break
                elif member == _ID:
                    id_kind, id_begin, id_end = kind, value_begin, value_end
            pos = skip_spaces(pos)
            if not flat:
                # A comma or the end of the object must follow.
                d = start + position_of(positions_at, i)
                c = load_u8(d)
                if d != pos or (c != _COMMA and c != _CLOSING_BRACE):
                    break
                i += _ONE
                pos = skip_spaces(d + _ONE)
                more = c == _COMMA
            if not more:
                valid = load_u8(pos) == NEWLINE
                if load_u8(pos) == CR:
                    valid = load_u8(pos + _ONE) == NEWLINE
        if valid and n_read < k:
            valid, has_zero, has_large = read_pending_values(
                start, powers, value_spans, values, n_read, k, True, True
            )
        if valid:
            if not all_hashed:
                hash_pending_keys(hashes, spans, value_spans, start, first_feature, k, keys)
            count, n_keys = k - first_feature, k - first_feature + n_paths
            # Consecutive lines often have the same keys: then one check is enough.
            same_keys = (count, n_paths) == previous_sizes
            same_keys = same_keys and equal_hashes(keys, previous_keys, n_keys)
            if not same_keys:
                valid &= not has_duplicate(keys, n_keys, row + _ONE, seen_keys)
            if valid:
                if flat:
                    if not same_keys:
                        n_removed, n_kept = find_roles(keys, count, roles, found_roles)
                    applied = apply_roles(
                        start, powers, first_feature, k, name_pos, names_end, hashes, values,
                        spans, value_spans, role_sizes, found_roles, n_removed, n_kept,
                    )  # fmt: skip
                    k, name_pos, valid = applied.k, applied.name_pos, applied.valid
                    has_zero |= applied.has_zero
                    has_large |= applied.has_large
                    label_kind, label, weight = applied.label_kind, applied.label, applied.weight
                    label_begin, label_end = applied.label_begin, applied.label_end
                    id_kind, id_begin, id_end = applied.id_kind, applied.id_begin, applied.id_end
                keys, previous_keys, previous_sizes = previous_keys, keys, (count, n_paths)
            if has_zero:
                k, _ = drop_zeros(hashes, values, spans, first_feature, k, False)
        valid &= (seen_members & _X) != _ZERO and (label_kind != NULL or not require_label)
        while load_u8(start + position_of(positions_at, i)) != NEWLINE:
            i += _ONE
        d = start + position_of(positions_at, i)
        if valid and utf8 != UTF8_VALID and utf8 != UTF8_UNKNOWN:
            valid = is_ascii(begin, d)
        pos = d + _ONE
        i += _ONE
        if not valid:
            k, name_pos = first_feature, first_name
            if load_u8(begin + np.uint64(load_u8(begin) == CR)) == NEWLINE:  # an empty line
                line += _ONE
                continue
            irregular[n_irregular] = row
            n_irregular += _ONE
            weight, label_kind, id_kind, has_large = 1.0, NUMBER, NULL, False
        label_id_spans[row, _ZERO] = label_kind
        label_id_spans[row, _ONE] = label_begin - start
        label_id_spans[row, _TWO] = label_end - start
        label_id_spans[row, _THREE] = id_kind
        label_id_spans[row, _FOUR] = id_begin - start
        label_id_spans[row, _FIVE] = id_end - start
        y[row] = label
        w[row] = weight
        lines[row] = line
        begins[row] = begin - start
        ends[row] = pos - start
        row += _ONE
        line += _ONE
        indptr[row] = k
        values_checked &= not has_large
    return row, n_irregular, line, values_checked, distinct_names


@inlined
def _member_bit(size: Any, word: Any) -> Any:
    """Return the bit of a member given its size and first bytes; 0 if it is not x, y, w or id."""
    if size == _ONE:
        c = word & _BYTE
        return _X if c == _NAME_X else _Y if c == _NAME_Y else _W if c == _NAME_W else _ZERO
    return _ID if size == _TWO and (word & _TWO_BYTES) == _NAME_ID else _ZERO


class _Scalar(NamedTuple):
    """A scalar value of a member."""

    i: Any
    """The next delimiter."""
    pos: Any
    """The byte after the value."""
    kind: Any
    value: Any
    """Its float: 0 for strings, NaN if the line is irregular."""
    begin: Any
    end: Any


@inlined
def _read_scalar(start: Any, powers: Any, positions: Any, i: Any, pos: Any) -> Any:
    """Read the scalar at `pos`; the i-th delimiter is the next one. Returns a `_Scalar`."""
    if load_u8(pos) == _QUOTE:
        i = closing_quote(start, positions, i + _ONE)
        stop = start + position_of(positions, i)
        if load_u8(stop) != _QUOTE:
            return _Scalar(i, stop, STRING, np.nan, pos, stop)
        return _Scalar(i + _ONE, stop + _ONE, STRING, 0.0, pos + _ONE, stop)
    after = stop = start + position_of(positions, i)
    while load_u8(stop - _ONE) == SPACE:
        stop -= _ONE
    kind, v = parse_json_scalar(pos, stop, powers)
    if v == 0.0 and stop - pos == _TWO:
        v = 0.0  # Python reads -0 as an int, which has no sign
    return _Scalar(i, after, kind, v, pos, stop)
