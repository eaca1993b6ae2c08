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

from streaml1.core.ascii import EQUALS
from streaml1.core.hashing import name_hash
from streaml1.core.jit import inlined, u64
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import load_u8, loadu_u64, loadu_u64x8, store_u64, store_u64x8
from streaml1.core.spans import LENGTH_MASK, OFFSET_BITS
from streaml1.text.byte_names import copy_bytes, copy_short_bytes, murmur_at
from streaml1.text.feature_spans import MAX_VALUE
from streaml1.text.numbers import FALSE, NULL, NUMBER, STRING, TRUE, parse_json_scalar
from streaml1.text.structural_index import span_of

__all__ = [
    "CATEGORY",
    "ID",
    "IGNORED",
    "LABEL",
    "NUMERIC",
    "N_ROLES",
    "WEIGHT",
    "Roles",
    "Scalar",
    "absent_scalar",
    "apply_roles",
    "find_roles",
    "role_of",
    "role_table",
]

LABEL, WEIGHT, ID, IGNORED, CATEGORY, NUMERIC = range(1, 7)
N_ROLES = 7
"""How many roles there are, with 0 for none."""

_LABEL, _WEIGHT, _ID, _IGNORED = map(u64, (LABEL, WEIGHT, ID, IGNORED))
_CATEGORY = u64(CATEGORY)
_ROLE_BITS, _ROLE_MASK = map(u64, (8, 2**8 - 1))
_SMALL_N, _SMALL_T, _SMALL_F = map(u64, b"ntf")
_SLACK = u64(32)  # bytes that copies may write after a name


class Roles(NamedTuple):
    """The members with a role, for kernels."""

    table: Any
    """What `role_table` returns."""
    sizes: Any
    """For each role the size of its name in bytes; 0 if no member has the role."""
    found: Any
    """Scratch array with two rows of as many entries as there are members, and one more."""


class Scalar(NamedTuple):
    """A scalar of a line that is not a feature: its label or its id."""

    kind: Any
    value: Any
    """Its float: 0 for strings, NaN if the line is irregular."""
    begin: Any
    end: Any
    """Where its text is."""


@inlined
def absent_scalar(text: Any) -> Any:
    """Return the `Scalar` of a line that has none."""
    return Scalar(NULL, np.nan, text.start, text.start)


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
def role_of(h: Any, table: Any) -> Any:
    """Return the role of the member whose name has the hash h, 0 if it has none."""
    mask = np.uint64(table.shape[1] - 1)
    slot, role = h & mask, u64(0)
    while table[0, slot] != u64(0) and role == u64(0):
        if table[0, slot] == h:
            role = table[1, slot]
        slot = (slot + u64(1)) & mask
    return role


@inlined
def find_roles(keys: Any, count: Any, roles: Any) -> Any:
    """Find the keys that have a role, and write ``index << 8 | role`` to `roles.found`.

    Members that are not features go to the first row, categories and numbers to the second one,
    both in ascending order.

    Parameters
    ----------
    keys
        The address of the hashes of the keys, which are distinct.
    roles
        A `Roles`. Its names are those of options, not of data: no choice of keys makes a search
        longer than there are roles.

    Returns
    -------
    How many entries were written to each row.
    """
    n_removed, n_kept = u64(0), u64(0)
    for j in range(count):
        role = role_of(loadu_u64(keys + u64(8) * j), roles.table)
        if role > _IGNORED:
            roles.found[1, n_kept] = j << _ROLE_BITS | role
            n_kept += u64(1)
        elif role != u64(0):
            roles.found[0, n_removed] = j << _ROLE_BITS | role
            n_removed += u64(1)
    return n_removed, n_kept


@inlined
def _move_down(out_pos: Any, n: Any) -> None:
    """Move the n entries after the one at an address by one; overwrites up to seven after them."""
    end = out_pos + u64(8) * n
    while out_pos < end:
        store_u64x8(out_pos, loadu_u64x8(out_pos + u64(8)))
        out_pos += u64(64)


class _Joined(NamedTuple):
    """What `_join_category` reports."""

    valid: Any
    name_pos: Any
    """Where the next name goes."""


@inlined
def _join_category(text: Any, lines: Any, features: Any, j: Any, name_pos: Any) -> Any:
    """Make the j-th feature, a number or bool, the category ``key=text``. Returns `_Joined`."""
    begin = text.start + (features.value_spans[j] >> OFFSET_BITS)
    size = features.value_spans[j] & LENGTH_MASK
    name = text.start + (features.spans[j] >> OFFSET_BITS)
    name_end = name + (features.spans[j] & LENGTH_MASK)
    fits = name_pos + (name_end - name) + size + _SLACK <= lines.names_end
    if fits and load_u8(begin) != _SMALL_N:  # null stays 0, which is absent
        joined = name_pos
        name_pos = copy_bytes(name, name_end, name_pos)
        store_u64(name_pos, EQUALS)
        name_pos = copy_short_bytes(begin, begin + size, name_pos + u64(1))
        features.spans[j] = span_of(text, joined, name_pos)
        features.hashes[j] = murmur_at(joined, name_pos)
        features.values[j] = 1.0
    return _Joined(fits, name_pos)


@inlined
def _split_number(text: Any, lines: Any, features: Any, j: Any) -> Any:
    """Make the j-th feature, the category ``key=text``, a number; return whether the text is one.

    Python reads other texts than JSON's numbers.
    """
    name = text.start + (features.spans[j] >> OFFSET_BITS)
    end = name + (features.spans[j] & LENGTH_MASK)
    equals = name
    while load_u8(equals) != EQUALS:  # no key with a role contains one
        equals += u64(1)
    scalar = parse_json_scalar(equals + u64(1), end, lines.powers)
    is_number = scalar.kind == NUMBER and abs(scalar.value) < MAX_VALUE
    if is_number:
        features.spans[j] = span_of(text, name, equals)
        features.hashes[j] = murmur_at(name, equals)
        features.values[j] = scalar.value
    return is_number


class _Converted(NamedTuple):
    """The result of `_convert`."""

    name_pos: Any
    """Where the next name goes."""
    valid: Any
    has_zero: Any
    """Whether a text is the number zero."""
    has_large: Any
    """Whether a text is a number that reaches the limit that models accept."""


@inlined
def _convert(
    text: Any, lines: Any, features: Any, roles: Any, first: Any, name_pos: Any, n_kept: Any
) -> Any:
    """Make numbers and bools categories, and texts numbers, by their roles."""
    valid: Any = True
    has_zero: Any = False
    has_large: Any = False
    for r in range(n_kept):
        j = first + (roles.found[1, r] >> _ROLE_BITS)
        is_text = features.value_spans[j] == u64(0)
        if (roles.found[1, r] & _ROLE_MASK) == _CATEGORY:
            if not is_text:
                joined = _join_category(text, lines, features, j, name_pos)
                valid &= joined.valid
                name_pos = joined.name_pos
        elif is_text:
            valid &= _split_number(text, lines, features, j)
            has_zero |= features.values[j] == 0.0
            has_large |= not abs(features.values[j]) < VALUE_LIMIT
    return _Converted(name_pos, valid, has_zero, has_large)


@inlined
def _scalar_of(text: Any, features: Any, j: Any, key_size: Any) -> Any:
    """Return the j-th feature, whose key has a known size, as a `Scalar`."""
    v, span, name = features.values[j], features.value_spans[j], features.spans[j]
    if span == u64(0):  # a string, at the end of the name `key=text`
        begin = text.start + (name >> OFFSET_BITS)
        return Scalar(STRING, 0.0, begin + key_size + u64(1), begin + (name & LENGTH_MASK))
    begin, size = text.start + (span >> OFFSET_BITS), span & LENGTH_MASK
    c = load_u8(begin)
    kind = (
        NULL if c == _SMALL_N
        else TRUE if c == _SMALL_T
        else FALSE if c == _SMALL_F
        else NUMBER
    )  # fmt: skip
    if v == 0.0 and size == u64(2):
        v = 0.0  # Python reads -0 as an int, which has no sign
    return Scalar(kind, v, begin, begin + size)


@inlined
def _remove(features: Any, j: Any, k: Any) -> None:
    """Remove the j-th of the features up to k."""
    hashes, values, spans = features.hashes, features.values, features.spans
    if k + u64(8) <= np.uint64(len(hashes)):
        n_behind = k - (j + u64(1))
        _move_down(np.uint64(hashes.ctypes.data) + u64(8) * j, n_behind)
        _move_down(np.uint64(values.ctypes.data) + u64(8) * j, n_behind)
        _move_down(np.uint64(spans.ctypes.data) + u64(8) * j, n_behind)
    else:
        for t in range(j, k - u64(1)):
            hashes[t], values[t], spans[t] = (
                hashes[t + u64(1)],
                values[t + u64(1)],
                spans[t + u64(1)],
            )


class _Applied(NamedTuple):
    """The row of a flat line after its roles are applied."""

    k: Any
    """The end of the features."""
    name_pos: Any
    """Where the next name goes."""
    valid: Any
    has_zero: Any
    has_large: Any
    """As in `_Converted`."""
    label: Any
    weight: Any
    id: Any


@inlined
def apply_roles(
    text: Any, lines: Any, features: Any, roles: Any, first: Any, k: Any, name_pos: Any,
    n_removed: Any, n_kept: Any,
) -> Any:  # fmt: skip
    """Take label, weight and id of a line from its features, and remove these and ignored ones.

    The names of the features from `first` to k are hashed, and their values are read. Numbers and
    bools that are categories become the feature `key=text`, and texts that are numbers the feature
    `key`. Returns an `_Applied`.
    """
    converted = _convert(text, lines, features, roles, first, name_pos, n_kept)
    label = id_ = absent_scalar(text)
    weight = 1.0
    valid: Any = converted.valid
    has_weight: Any = roles.sizes[WEIGHT] == u64(0)
    # Invariant: the features behind the r-th removed one have moved to their places; those before
    # it are unchanged.
    r = n_removed
    while r > u64(0):
        r -= u64(1)
        j, role = first + (roles.found[0, r] >> _ROLE_BITS), roles.found[0, r] & _ROLE_MASK
        scalar = _scalar_of(text, features, j, roles.sizes[role])
        if role == _LABEL:
            label = scalar
        elif role == _WEIGHT:
            has_weight = True
            weight = scalar.value
            valid &= scalar.kind == NUMBER and weight >= 0.0
        elif role == _ID:
            id_ = scalar
        _remove(features, j, k)
        k -= u64(1)
    return _Applied(
        k, converted.name_pos, valid and has_weight, converted.has_zero, converted.has_large,
        label, weight, id_,
    )  # fmt: skip
