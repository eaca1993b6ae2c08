"""JSON lines to rows of hashed names.

`parse_lines` reads a chunk of lines from top to bottom:

1. `index_jsonl` writes the delimiters of about 32 KiB of lines (stage 1, `structural_index.py`).
2. `_find_line` reads the members of each line: `x`, `y`, `w`, `id` and others.
3. `find_members` finds the members of `x` (`json_members.py`): eight at a time while they are
   short strings (`json_simd.py`), otherwise one by one.
4. `_complete` reads the values and hashes the names of what was only found (`feature_spans.py`),
   and rejects a line with the same key twice.

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

from streaml1.core.ascii import (
    CLOSING_BRACE,
    COLON,
    COMMA,
    CR,
    NEWLINE,
    OPENING_BRACE,
    QUOTE,
    SPACE,
)
from streaml1.core.jit import inlined, kernel, u64
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
from streaml1.text.json_roles import LABEL, Scalar, absent_scalar, apply_roles, find_roles
from streaml1.text.json_simd import MAX_KEYS, skip_spaces
from streaml1.text.line_arrays import Features
from streaml1.text.numbers import NULL, NUMBER, STRING, parse_json_scalar
from streaml1.text.structural_index import batch_end, delimiter_at, index_jsonl, indexed_text

__all__ = [
    "MAX_KEYS",
    "MAX_LEVELS",
    "MAX_OTHER_MEMBERS",
    "JsonArrays",
    "parse_lines",
    "parse_nested_lines",
]

MAX_OTHER_MEMBERS = u64(16)
"""Upper bound on members of a line other than x, y, w and id."""

_BYTE, _TWO_BYTES = map(u64, (2**8 - 1, 2**16 - 1))
_NAME_X, _NAME_Y, _NAME_W = map(u64, b"xyw")
_NAME_ID = u64(int.from_bytes(b"id", "little"))
_X, _Y, _W, _ID = map(u64, (1, 2, 4, 8))  # bits of members


class JsonArrays(NamedTuple):
    """The arrays of the kernels of JSON lines besides `RowArrays` and `Scratch`."""

    label_id_spans: Any
    """Receives for each row the kind of its label, the first and last offset of its text, and the
    same of its id, uint64, shape (rows, 6)."""
    key_hashes: Any
    """Scratch array with 3 `MAX_KEYS` + `MAX_OTHER_MEMBERS` entries: the hashes of the keys of this
    line and of the previous one, of the other members of the line, and of paths."""
    seen_keys: Any
    """Scratch array with 2 `MAX_KEYS` entries, see `has_duplicate`."""
    levels: Any
    """Scratch array, shape (3, `MAX_LEVELS`), see `find_members`."""


@kernel
def parse_lines(*arguments: Any) -> Any:
    """Parse lines. Irregular lines become empty rows, and empty lines none.

    Parameters
    ----------
    lines, rows, scratch
        `Lines`, `RowArrays` and `Scratch` of `line_arrays`.
    arrays
        `JsonArrays`.
    roles
        The members with a role, a `json_roles.Roles`.
    flat
        Whether the members of a line are its features, but for those in `roles`.

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
    nested: Any, lines: Any, rows: Any, scratch: Any, arrays: Any, roles: Any, flat: Any
) -> Any:
    """Parse lines; `nested` is a constant for the compiler."""
    lines, rows, scratch = borrowed(lines), borrowed(rows), borrowed(scratch)
    arrays, roles = borrowed(arrays), borrowed(roles)
    features = Features(rows.hashes, rows.values, rows.spans, scratch.value_spans)
    text = indexed_text(lines.start, scratch.positions, scratch.kinds)
    arrays.seen_keys[:] = u64(0)
    keys_at = np.uint64(arrays.key_hashes.ctypes.data)
    keys = _Keys(keys_at, keys_at + u64(8) * MAX_KEYS, u64(0), u64(0), u64(0), u64(0))
    row, k, n_irregular, number = u64(0), u64(0), u64(0), u64(0)
    values_checked: Any = True
    distinct_names: Any = True
    i, n, pos, name_pos = u64(0), u64(0), lines.start, write_one(lines.names)
    rows.indptr[0] = 0
    # Invariant: the lines before `pos` are in rows 0 to `row`, their features in 0 to `k`. The i-th
    # of the n delimiters of this batch is the first one at or after `pos`.
    while pos < lines.end:
        if i == n:
            i = u64(0)
            stop = batch_end(pos, lines.end)
            n, all_ascii, no_equals = index_jsonl(text.start, pos, stop, text.positions, text.kinds)
            distinct_names &= no_equals
            if lines.utf8 == UTF8_UNKNOWN and not all_ascii:
                return u64(0), u64(0), u64(0), False, False
        begin = pos
        found = _find_line(
            nested, text, lines, features, arrays, roles, flat, i, pos, k, name_pos, keys.at
        )
        line, keys = _complete(text, lines, features, arrays, roles, flat, found, k, row, keys)
        i = found.i
        while load_u8(delimiter_at(text, i)) != NEWLINE:
            i += u64(1)
        newline = delimiter_at(text, i)
        pos = newline + u64(1)
        i += u64(1)
        valid = line.valid and (line.label.kind != NULL or not lines.require_label)
        if valid and lines.utf8 != UTF8_VALID and lines.utf8 != UTF8_UNKNOWN:
            valid = is_ascii(begin, newline)
        if valid:
            k, name_pos = line.k, line.name_pos
            values_checked &= not line.has_large
        elif load_u8(begin + np.uint64(load_u8(begin) == CR)) == NEWLINE:  # an empty line
            number += u64(1)
            continue
        else:
            scratch.irregular[n_irregular] = row
            n_irregular += u64(1)
        _write_label_and_id(text, arrays.label_id_spans, row, line, valid)
        rows.y[row] = line.label.value
        rows.w[row] = line.weight if valid else 1.0
        rows.lines[row] = number
        rows.begins[row], rows.ends[row] = begin - text.start, pos - text.start
        row += u64(1)
        number += u64(1)
        rows.indptr[row] = k
    return row, n_irregular, number, values_checked, distinct_names


@inlined
def _write_label_and_id(text: Any, spans: Any, row: Any, line: Any, valid: Any) -> None:
    """Write the kinds of label and id of a row, and where they are in the text."""
    spans[row, u64(0)] = line.label.kind if valid else NUMBER
    spans[row, u64(1)], spans[row, u64(2)] = (
        line.label.begin - text.start,
        line.label.end - text.start,
    )
    spans[row, u64(3)] = line.id.kind if valid else NULL
    spans[row, u64(4)], spans[row, u64(5)] = line.id.begin - text.start, line.id.end - text.start


class _FoundLine(NamedTuple):
    """What `_find_line` has found."""

    i: Any
    """The next delimiter."""
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
    label: Any
    weight: Any
    id: Any
    valid: Any


@inlined
def _find_line(
    nested: Any, text: Any, lines: Any, features: Any, arrays: Any, roles: Any, flat: Any, i: Any,
    pos: Any, first_feature: Any, name_pos: Any, keys: Any,
) -> Any:  # fmt: skip
    """Find the members of the line at `pos`. Returns a `_FoundLine`."""
    k = n_read = first_feature
    paths = np.uint64(arrays.key_hashes.ctypes.data)
    paths += u64(8) * (u64(2) * MAX_KEYS + MAX_OTHER_MEMBERS)
    n_paths, all_hashed = u64(0), True
    label = id_ = absent_scalar(text)
    weight = 1.0
    seen, n_others = u64(0), u64(0)
    valid: Any = False
    begin = pos
    more = load_u8(pos) == OPENING_BRACE
    pos = skip_spaces(pos + u64(1))
    # Invariant: the members before `pos` are read; `more` is set if another one must follow.
    while more:
        more = False
        member = _X
        if flat:  # the line itself is x
            pos = begin
        else:
            key = _find_member(text, arrays.key_hashes, i, pos, seen, n_others)
            i, pos, member, n_others = key.i, key.pos, key.member, key.n_others
            if not key.valid:
                break
        seen |= member
        if member == _X:
            if load_u8(pos) != OPENING_BRACE:
                break
            found = find_members(
                text, lines, features, i, pos + u64(1), first_feature, name_pos, keys, paths,
                nested, flat and roles.sizes[LABEL] == u64(0), roles, arrays.levels,
            )  # fmt: skip
            i, pos, k, n_paths, name_pos = (
                found.i,
                found.pos,
                found.k,
                found.n_paths,
                found.name_pos,
            )
            n_read, all_hashed = found.n_read, found.all_hashed
            if not found.valid:
                break
        else:
            i, pos, scalar = _read_scalar(text, lines.powers, i, pos)
            if scalar.value != scalar.value:
                break
            if member == _Y:
                label = scalar
            elif member == _W:
                weight = scalar.value
                if scalar.kind != NUMBER or not weight >= 0.0:
                    break
            elif member == _ID:
                id_ = scalar
        pos = skip_spaces(pos)
        if not flat:
            # A comma or the end of the object must follow.
            d = delimiter_at(text, i)
            c = load_u8(d)
            if d != pos or (c != COMMA and c != CLOSING_BRACE):
                break
            i += u64(1)
            pos = skip_spaces(d + u64(1))
            more = c == COMMA
        if not more:
            valid = load_u8(pos + np.uint64(load_u8(pos) == CR)) == NEWLINE
            valid &= (seen & _X) != u64(0)
    return _FoundLine(i, k, n_paths, name_pos, n_read, all_hashed, label, weight, id_, valid)


class _FoundMember(NamedTuple):
    """The key of a member of a line that is not flat."""

    i: Any
    """The next delimiter."""
    pos: Any
    """Where its value begins."""
    member: Any
    """The bit of `_member_bit`."""
    n_others: Any
    """How many members without a bit the line has so far."""
    valid: Any


@inlined
def _find_member(text: Any, key_hashes: Any, i: Any, pos: Any, seen: Any, n_others: Any) -> Any:
    """Find the key at `pos`, which must not be among those seen. Returns a `_FoundMember`."""
    opening = delimiter_at(text, i)
    if opening != pos or load_u8(opening) != QUOTE:
        return _FoundMember(i, pos, u64(0), n_others, False)
    i = closing_quote(text, i + u64(1))
    end = delimiter_at(text, i)
    if load_u8(end) != QUOTE:
        return _FoundMember(i, pos, u64(0), n_others, False)
    colon = skip_spaces(end + u64(1))
    member = _member_bit(end - opening - u64(1), loadu_u64(opening + u64(1)))
    valid = load_u8(colon) == COLON and (seen & member) == u64(0)
    if valid and member == u64(0):
        h = murmur_at(opening + u64(1), end)
        valid = n_others < MAX_OTHER_MEMBERS
        for j in range(n_others):
            valid &= key_hashes[u64(2) * MAX_KEYS + j] != h
        if valid:
            key_hashes[u64(2) * MAX_KEYS + n_others] = h
            n_others += u64(1)
    return _FoundMember(i + u64(1), skip_spaces(colon + u64(1)), member, n_others, valid)


@inlined
def _member_bit(size: Any, word: Any) -> Any:
    """Return the bit of a member given its size and first bytes; 0 if it is not x, y, w or id."""
    if size == u64(1):
        c = word & _BYTE
        return _X if c == _NAME_X else _Y if c == _NAME_Y else _W if c == _NAME_W else u64(0)
    return _ID if size == u64(2) and (word & _TWO_BYTES) == _NAME_ID else u64(0)


@inlined
def _read_scalar(text: Any, powers: Any, i: Any, pos: Any) -> Any:
    """Read the scalar at `pos`; the i-th delimiter is the next one.

    Returns the next delimiter after it, the byte after it, and the `Scalar`.
    """
    if load_u8(pos) == QUOTE:
        i = closing_quote(text, i + u64(1))
        stop = delimiter_at(text, i)
        if load_u8(stop) != QUOTE:
            return i, stop, Scalar(STRING, np.nan, pos, stop)
        return i + u64(1), stop + u64(1), Scalar(STRING, 0.0, pos + u64(1), stop)
    after = stop = delimiter_at(text, i)
    while load_u8(stop - u64(1)) == SPACE:
        stop -= u64(1)
    kind, v = parse_json_scalar(pos, stop, powers)
    if v == 0.0 and stop - pos == u64(2):
        v = 0.0  # Python reads -0 as an int, which has no sign
    return i, after, Scalar(kind, v, pos, stop)


class _Keys(NamedTuple):
    """The hashes of the keys and paths of a line and of the line before it."""

    at: Any
    """The address for those of this line."""
    previous: Any
    """The address of those of the line before it."""
    n_previous: Any
    n_previous_paths: Any
    n_removed: Any
    n_kept: Any
    """What `find_roles` returned for the line before it."""


class _Line(NamedTuple):
    """The row of a line."""

    k: Any
    """The end of its features."""
    name_pos: Any
    """Where the next name goes."""
    has_large: Any
    """Whether a value reaches the limit that models accept."""
    label: Any
    weight: Any
    id: Any
    valid: Any


@inlined
def _complete(
    text: Any, lines: Any, features: Any, arrays: Any, roles: Any, flat: Any, found: Any,
    first_feature: Any, row: Any, keys: Any,
) -> Any:  # fmt: skip
    """Read the values, hash the names and apply the roles of a line that was found.

    Returns the `_Line`, and the `_Keys` for the next one.
    """
    k, name_pos, valid = found.k, found.name_pos, found.valid
    label, weight, id_ = found.label, found.weight, found.id
    has_large: Any = False
    has_zero: Any = False
    if valid and found.n_read < k:
        valid, has_zero, has_large = read_pending_values(
            text.start, lines.powers, features.value_spans, features.values, found.n_read, k, True,
            True,
        )  # fmt: skip
    if valid:
        if not found.all_hashed:
            hash_pending_keys(
                features.hashes, features.spans, features.value_spans, text.start, first_feature,
                k, keys.at,
            )  # fmt: skip
        count, n_paths = k - first_feature, found.n_paths
        n_removed, n_kept = keys.n_removed, keys.n_kept
        # Consecutive lines often have the same keys: then one check is enough.
        same_keys = count == keys.n_previous and n_paths == keys.n_previous_paths
        same_keys = same_keys and equal_hashes(keys.at, keys.previous, count + n_paths)
        if not same_keys:
            valid = not has_duplicate(keys.at, count + n_paths, row + u64(1), arrays.seen_keys)
            if valid and flat:
                n_removed, n_kept = find_roles(keys.at, count, roles)
        if valid:
            keys = _Keys(keys.previous, keys.at, count, n_paths, n_removed, n_kept)
            if flat:
                applied = apply_roles(
                    text, lines, features, roles, first_feature, k, name_pos, n_removed, n_kept
                )
                k, name_pos, valid = applied.k, applied.name_pos, applied.valid
                has_zero |= applied.has_zero
                has_large |= applied.has_large
                label, weight, id_ = applied.label, applied.weight, applied.id
        if has_zero:
            k, _ = drop_zeros(
                features.hashes, features.values, features.spans, first_feature, k, False
            )
    return _Line(k, name_pos, has_large, label, weight, id_, valid), keys
