"""Members of flat JSON lines that are not plain features: label, weight, id, ignored and others.

The kernel `streaml1.text.jsonl.parse_lines` reads all members of a flat line as features. The
functions here recognize those with a role by the hashes of their keys, and take them out.
Consecutive lines often have the same keys; then `find_roles` is called once for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaml1.core.hashing import name_hash
from streaml1.core.jit import inlined
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import load_u8, loadu_u64, loadu_u64x8, store_u64, store_u64x8
from streaml1.text.byte_names import copy_bytes, copy_short_bytes, murmur_at
from streaml1.text.feature_spans import MAX_VALUE
from streaml1.text.numbers import FALSE, NULL, NUMBER, STRING, TRUE, parse_json_scalar

__all__ = [
    "CATEGORY",
    "ID",
    "IGNORED",
    "LABEL",
    "NUMERIC",
    "N_ROLES",
    "WEIGHT",
    "apply_roles",
    "find_roles",
    "role_of",
    "role_table",
]

LABEL, WEIGHT, ID, IGNORED, CATEGORY, NUMERIC = range(1, 7)
N_ROLES = 7
"""How many roles there are, with 0 for none."""

_ZERO, _ONE, _TWO, _EIGHT, _SIXTY_FOUR = map(np.uint64, (0, 1, 2, 8, 64))
_LABEL, _WEIGHT, _ID, _IGNORED = map(np.uint64, (LABEL, WEIGHT, ID, IGNORED))
_CATEGORY, _NUMERIC = map(np.uint64, (CATEGORY, NUMERIC))
_ROLE_BITS, _ROLE_MASK = map(np.uint64, (8, 2**8 - 1))
_OFFSET_BITS, _LENGTH_MASK = map(np.uint64, (32, 2**32 - 1))
_EQUALS, _SMALL_N, _SMALL_T, _SMALL_F = map(np.uint64, b"=ntf")
_SLACK = np.uint64(32)  # bytes that copies may write after a name


def role_table(roles: Mapping[str, int]) -> NDArray[np.uint64]:
    """Return the hash table that `find_roles` searches.

    Parameters
    ----------
    roles
        The role of each member; no name is empty.

    Returns
    -------
    ndarray
        Open addressing: a row of the hashes of the names, 0 if an entry is empty, and a row of
        their roles. At least half of the entries are empty.
    """
    size = 1 << (2 * len(roles)).bit_length()
    table = np.zeros((2, size), np.uint64)
    for name, role in roles.items():
        h = name_hash(name)
        slot = h & (size - 1)
        while table[0, slot]:
            slot = (slot + 1) & (size - 1)
        table[:, slot] = h, role
    return table


@inlined
def role_of(h: Any, roles: Any) -> Any:
    """Return the role of the member whose name has the hash h, 0 if it has none."""
    mask = np.uint64(roles.shape[1] - 1)
    slot, role = h & mask, _ZERO
    while roles[0, slot] != _ZERO and role == _ZERO:
        if roles[0, slot] == h:
            role = roles[1, slot]
        slot = (slot + _ONE) & mask
    return role


@inlined
def find_roles(keys: Any, count: Any, roles: Any, found: Any) -> Any:
    """Find the keys that have a role.

    Parameters
    ----------
    keys
        The address of the hashes of the keys, which are distinct.
    roles
        The hash table, see `role_table`. Its names are those of options, not of data: no choice of
        keys makes a search longer than there are roles.
    found
        Receives ``index << 8 | role`` in ascending order: in the first row of those that are not
        features, in the second row of the categories and numbers.

    Returns
    -------
    How many entries were written to each row.
    """
    n_removed, n_kept = _ZERO, _ZERO
    for j in range(count):
        role = role_of(loadu_u64(keys + _EIGHT * j), roles)
        if role > _IGNORED:
            found[1, n_kept] = j << _ROLE_BITS | role
            n_kept += _ONE
        elif role != _ZERO:
            found[0, n_removed] = j << _ROLE_BITS | role
            n_removed += _ONE
    return n_removed, n_kept


@inlined
def _move_down(out_pos: Any, n: Any) -> None:
    """Move the n entries after the one at an address by one; overwrites up to seven after them."""
    end = out_pos + _EIGHT * n
    while out_pos < end:
        store_u64x8(out_pos, loadu_u64x8(out_pos + _EIGHT))
        out_pos += _SIXTY_FOUR


class _Converted(NamedTuple):
    """What `_join_category` and `_split_number` report."""

    valid: Any
    name_pos: Any
    """Where the next name goes."""


@inlined
def _join_category(
    start: Any, j: Any, name_pos: Any, names_end: Any, hashes: Any, values: Any, spans: Any,
    value_spans: Any,
) -> Any:  # fmt: skip
    """Make the j-th feature, a number or bool, the category ``key=text``. Returns `_Converted`."""
    begin, size = start + (value_spans[j] >> _OFFSET_BITS), value_spans[j] & _LENGTH_MASK
    name = start + (spans[j] >> _OFFSET_BITS)
    name_end = name + (spans[j] & _LENGTH_MASK)
    fits = name_pos + (name_end - name) + size + _SLACK <= names_end
    if fits and load_u8(begin) != _SMALL_N:  # null stays 0, which is absent
        joined = name_pos
        name_pos = copy_bytes(name, name_end, name_pos)
        store_u64(name_pos, _EQUALS)
        name_pos = copy_short_bytes(begin, begin + size, name_pos + _ONE)
        spans[j] = ((joined - start) << _OFFSET_BITS) | (name_pos - joined)
        hashes[j] = murmur_at(joined, name_pos)
        values[j] = 1.0
    return _Converted(fits, name_pos)


@inlined
def _split_number(start: Any, powers: Any, j: Any, hashes: Any, values: Any, spans: Any) -> Any:
    """Make the j-th feature, the category ``key=text``, a number; return whether the text is one.

    Python reads other texts than JSON's numbers.
    """
    name = start + (spans[j] >> _OFFSET_BITS)
    end = name + (spans[j] & _LENGTH_MASK)
    equals = name
    while load_u8(equals) != _EQUALS:  # no key with a role contains one
        equals += _ONE
    scalar = parse_json_scalar(equals + _ONE, end, powers)
    is_number = scalar.kind == NUMBER and abs(scalar.value) < MAX_VALUE
    if is_number:
        spans[j] = ((name - start) << _OFFSET_BITS) | (equals - name)
        hashes[j] = murmur_at(name, equals)
        values[j] = scalar.value
    return is_number


class _Applied(NamedTuple):
    """The row of a flat line after its roles are applied."""

    k: Any
    """The end of the features."""
    name_pos: Any
    """Where the next name goes."""
    valid: Any
    has_zero: Any
    """Whether a text is the number zero."""
    has_large: Any
    """Whether a text is a number that reaches the limit that models accept."""
    label_kind: Any
    label_begin: Any
    label_end: Any
    label: Any
    """Its float: 0 for strings."""
    weight: Any
    id_kind: Any
    id_begin: Any
    id_end: Any


@inlined
def apply_roles(
    start: Any, powers: Any, first: Any, k: Any, name_pos: Any, names_end: Any, hashes: Any,
    values: Any, spans: Any, value_spans: Any, role_sizes: Any, found: Any, n_removed: Any,
    n_kept: Any,
) -> Any:  # fmt: skip
    """Take label, weight and id of a line from its features, and remove these and ignored ones.

    The names of the features from `first` to k are hashed, and their values are read. Numbers and
    bools that are categories become the feature `key=text`, and texts that are numbers the feature
    `key`. Returns an `_Applied`.
    """
    valid: Any = True
    has_zero: Any = False
    has_large: Any = False
    label_kind, id_kind, label, weight = NULL, NULL, np.nan, 1.0
    label_begin, label_end, id_begin, id_end = start, start, start, start
    has_weight: Any = role_sizes[WEIGHT] == _ZERO
    for r in range(n_kept):
        j = first + (found[1, r] >> _ROLE_BITS)
        is_text = value_spans[j] == _ZERO
        if (found[1, r] & _ROLE_MASK) == _CATEGORY:
            if not is_text:
                joined = _join_category(
                    start, j, name_pos, names_end, hashes, values, spans, value_spans
                )
                valid &= joined.valid
                name_pos = joined.name_pos
        elif is_text:
            valid &= _split_number(start, powers, j, hashes, values, spans)
            has_zero |= values[j] == 0.0
            has_large |= not abs(values[j]) < VALUE_LIMIT
    fits: Any = k + _EIGHT <= np.uint64(len(hashes))
    # Invariant: the features behind the r-th removed one have moved to their places; those before
    # it are unchanged.
    r = n_removed
    while r > _ZERO:
        r -= _ONE
        j, role = first + (found[0, r] >> _ROLE_BITS), found[0, r] & _ROLE_MASK
        v, span, name = values[j], value_spans[j], spans[j]
        if span == _ZERO:  # a string, at the end of the name `key=text`
            end = start + (name >> _OFFSET_BITS) + (name & _LENGTH_MASK)
            begin = start + (name >> _OFFSET_BITS) + role_sizes[role] + _ONE
            kind, v = STRING, 0.0
        else:
            begin = start + (span >> _OFFSET_BITS)
            end = begin + (span & _LENGTH_MASK)
            c = load_u8(begin)
            kind = (
                NULL if c == _SMALL_N
                else TRUE if c == _SMALL_T
                else FALSE if c == _SMALL_F
                else NUMBER
            )  # fmt: skip
        if role == _LABEL:
            label_kind, label_begin, label_end, label = kind, begin, end, v
            if v == 0.0 and end - begin == _TWO:
                label = 0.0  # Python reads -0 as an int, which has no sign
        elif role == _WEIGHT:
            has_weight = True
            weight = v
            valid &= kind == NUMBER and v >= 0.0
        elif role == _ID:
            id_kind, id_begin, id_end = kind, begin, end
        n_behind = k - (j + _ONE)
        if fits:
            _move_down(np.uint64(hashes.ctypes.data) + _EIGHT * j, n_behind)
            _move_down(np.uint64(values.ctypes.data) + _EIGHT * j, n_behind)
            _move_down(np.uint64(spans.ctypes.data) + _EIGHT * j, n_behind)
        else:
            for t in range(j, k - _ONE):
                hashes[t], values[t], spans[t] = (
                    hashes[t + _ONE], values[t + _ONE], spans[t + _ONE]
                )  # fmt: skip
        k -= _ONE
    return _Applied(
        k, name_pos, valid and has_weight, has_zero, has_large, label_kind, label_begin, label_end,
        label, weight, id_kind, id_begin, id_end,
    )  # fmt: skip
