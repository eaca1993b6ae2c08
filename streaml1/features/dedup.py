"""Merge duplicate features in a row, drop zeros, reject non-finite sums.

Duplicates are found by scalar look-ups: in a hash table that fits into the L1 cache these are
faster than SIMD gathers and scatters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from streaml1.core.hashing import PROCESS_KEY, keyed_position
from streaml1.core.jit import gil_kernel, inlined, kernel, u64
from streaml1.core.rows import (
    MAX_IDS,
    VALUE_LIMIT,
    BadExample,
    Rows,
    are_valid_values,
    check_value,
    is_canonical_row,
    row_of_entry,
    validity,
)

__all__ = ["masked_rows", "plain_rows", "repeats"]

_HALF_BITS = u64(32)
_LOW, _ROW = u64(2**32 - 1), u64(2**64 - 2**32)  # of a mark
_MAX_EXAMINED = u64(32)  # repeated slots of a row for which the cause is determined


@kernel
def _are_plain(ids: Any, values: Any, indptr: Any, d: Any) -> bool:
    """Return whether all rows are canonical, see `is_canonical_row`."""
    d = np.uint64(d)
    for i in range(np.uint64(len(indptr) - 1)):
        if not is_canonical_row(ids, values, indptr[i], indptr[i + u64(1)], d):
            return False
    return True


def plain_rows(rows: Rows, name_of: Callable[[int], Hashable] = int, valued: bool = False) -> Rows:
    """Return the rows without zeros and with each name once in a row.

    `name_of` maps an id to the name that an error reports. Set `valued` if all values are known to
    be valid and non-zero.

    Raises
    ------
    BadExample
        If a value is NaN, infinite or beyond 1e50. `row` is the first such row.
    """
    if _are_plain(rows.ids, rows.values, rows.indptr, MAX_IDS):
        return rows
    merged = _merged(rows)
    if merged is rows and valued:
        return rows
    if are_valid_values(merged.values) and (merged is rows or are_valid_values(rows.values)):
        return merged
    first = min((_first_bad(one) for one in (rows, merged)), key=lambda bad: bad[0])
    _raise_for(*first, name_of)
    return _without_zeros(merged)


def _first_bad(rows: Rows) -> tuple[float, Rows, int]:
    """Return the row of the first invalid value (infinity if none), the rows, and its position."""
    wrong = np.flatnonzero(~(np.abs(rows.values) < VALUE_LIMIT))
    if not len(wrong):
        return np.inf, rows, -1
    return row_of_entry(rows.indptr, wrong[0]), rows, int(wrong[0])


def _raise_for(row: float, rows: Rows, k: int, name_of: Callable[[int], Hashable]) -> None:
    if k >= 0:
        try:
            check_value(name_of(int(rows.ids[k])), float(rows.values[k]))
        except BadExample as bad:
            raise BadExample(bad.reason, int(row)) from None


@inlined
def _home(id_: Any, key: Any, probes: Any) -> Any:
    """Return the first position to probe for an id."""
    return keyed_position(np.uint64(id_), key, np.uint64(len(probes)))


@inlined
def _probe(id_: Any, pos: Any, ids: Any, begin: Any, probes: Any) -> Any:
    """Probe `probes` for an id, from `pos` on; return the position and the content there.

    The content is 1 + a position in `ids`. It is at most `begin` if the row does not contain the id
    yet: contents written by earlier rows count as empty.
    """
    content = probes[pos]
    while content > begin and ids[content - u64(1)] != id_:
        pos = (pos + u64(1)) & np.uint64(len(probes) - 1)
        content = probes[pos]
    return pos, content


@kernel
def _first_repeat(ids: Any, indptr: Any, key: Any, probes: Any) -> Any:
    """Return the first row that contains a name twice, or the number of rows."""
    n = np.uint64(len(indptr) - 1)
    for i in range(n):
        lo = indptr[i]
        for k in range(lo, indptr[i + u64(1)]):
            pos = _home(ids[k], key, probes)
            if probes[pos] > lo:
                pos, content = _probe(ids[k], pos, ids, lo, probes)
                if content > lo:
                    return i
            probes[pos] = k + u64(1)
    return n


@gil_kernel
def _sum_by_name(
    hashes: Any, values: Any, i: Any, lo: Any, hi: Any, mask: Any, slots: Any, merged: Any,
    begin: Any, n: Any, key: Any, probes: Any, marks: Any, names: Any, sums: Any,
) -> Any:  # fmt: skip
    """Recompute the sums of row i: values of one name first, then names that share a slot.

    A mark packs the row (high half) and a position in `names` and `sums` (low half).
    """
    bad = np.int64(0)
    m = u64(0)
    row = (i + u64(1)) << _HALF_BITS
    for k in range(lo, hi):
        pos = _home(hashes[k], key, marks)
        while marks[pos] & _ROW == row and names[marks[pos] & _LOW] != hashes[k]:
            pos = (pos + u64(1)) & np.uint64(len(marks) - 1)
        if marks[pos] & _ROW != row:
            marks[pos] = row | m
            names[m] = hashes[k]
            sums[m] = values[k]
            m += u64(1)
        else:
            sums[marks[pos] & _LOW] += values[k]
            bad |= validity(sums[marks[pos] & _LOW])
    for k in range(begin, n):
        merged[k] = 0.0
    for k in range(m):
        slot = np.uint32(names[k] & mask)
        _, content = _probe(slot, _home(slot, key, probes), slots, begin, probes)
        merged[content - u64(1)] += sums[k]
        bad |= validity(merged[content - u64(1)])
    return bad


@kernel
def _masked(
    hashes: Any, values: Any, indptr: Any, mask: Any, slots: Any, merged: Any, ends: Any, key: Any,
    probes: Any, marks: Any, names: Any, sums: Any,
) -> bool:  # fmt: skip
    """Write the result of `masked_rows`; return whether all sums are valid and non-zero."""
    n = u64(0)
    bad = np.int64(0)
    ends[0] = 0
    for i in range(np.uint64(len(indptr) - 1)):
        begin = n
        several = False  # whether different names share a slot
        n_repeats = u64(0)
        lo, hi = indptr[i], indptr[i + u64(1)]
        for k in range(lo, hi):
            slot = np.uint32(hashes[k] & mask)
            slots[n] = slot  # overwritten if the slot is a repeat
            merged[n] = values[k]
            pos = _home(slot, key, probes)
            if probes[pos] > begin:
                pos, content = _probe(slot, pos, slots, begin, probes)
                if content > begin:
                    v = merged[content - u64(1)] + values[k]
                    merged[content - u64(1)] = v
                    bad |= validity(v)
                    if n_repeats < _MAX_EXAMINED:
                        # The first feature of the slot is at this position or after it.
                        first = lo + (content - u64(1) - begin)
                        while np.uint32(hashes[first] & mask) != slot:
                            first += u64(1)
                        several |= hashes[first] != hashes[k]
                    else:
                        several = True
                    n_repeats += u64(1)
                    continue
            n += u64(1)
            probes[pos] = n
        if several:
            bad |= _sum_by_name(
                hashes, values, i, lo, hi, mask, slots, merged, begin, n, key, probes, marks,
                names, sums,
            )  # fmt: skip
        ends[i + u64(1)] = n
    return bool(bad >= 0)


@kernel
def _merge(ids: Any, values: Any, indptr: Any, first: Any, key: Any, probes: Any) -> Any:
    """Merge duplicates in place from row `first` on; return the number of features that remain."""
    hi = n = indptr[first]
    for i in range(first, np.uint64(len(indptr) - 1)):
        lo, hi = hi, indptr[i + u64(1)]
        begin = n
        for k in range(lo, hi):
            pos, content = _probe(ids[k], _home(ids[k], key, probes), ids, begin, probes)
            if content > begin:
                values[content - u64(1)] += values[k]
            else:
                ids[n] = ids[k]
                values[n] = values[k]
                n += u64(1)
                probes[pos] = n
        indptr[i + u64(1)] = n
    return n


@kernel
def _longest(indptr: Any) -> Any:
    """Return the length of the longest row."""
    longest = u64(0)
    for i in range(np.uint64(len(indptr) - 1)):
        longest = max(longest, indptr[i + u64(1)] - indptr[i])
    return longest


def _new_hash_table(indptr: Any) -> Any:
    """Allocate a hash table of positions that is large enough for the longest row.

    Elements are uint32 where possible, to leave room in the L1 cache.
    """
    longest = int(_longest(indptr))
    kind = np.uint32 if int(indptr[-1]) < 2**32 - 1 else np.uint64
    return np.zeros(1 << max(12, (4 * longest).bit_length()), kind)


def repeats(ids: Any, indptr: Any) -> bool:
    """Return whether a row contains an id, or the hash of a name, twice."""
    return _row_of_repeat(ids, indptr) < len(indptr) - 1


def _row_of_repeat(ids: Any, indptr: Any) -> int:
    return int(_first_repeat(ids, indptr, PROCESS_KEY, _new_hash_table(indptr)))


def masked_rows(hashes: Any, rows: Rows, mask: int) -> Rows | None:
    """Return rows whose ids are the low bits of hashes, with duplicates of a row summed.

    Values of one hash are summed before hashes that share its low bits. Returns None if a sum is
    invalid or zero; the values themselves must be valid and non-zero.
    """
    n = len(hashes)
    masked = Rows(np.empty(n, np.uint32), np.empty(n), np.empty_like(rows.indptr))
    probes = _new_hash_table(rows.indptr)
    more = (
        np.zeros(len(probes), np.uint64),
        np.empty(len(probes), np.uint64),
        np.empty(len(probes)),
    )
    tables = PROCESS_KEY, probes, *more
    if not _masked(hashes, rows.values, rows.indptr, np.uint64(mask), *masked, *tables):
        return None
    n_merged = int(masked.indptr[-1])
    return Rows(masked.ids[:n_merged], masked.values[:n_merged], masked.indptr)


def _merged(rows: Rows) -> Rows:
    """Merge duplicates of a row into the first occurrence, which gets the sum."""
    first = _row_of_repeat(rows.ids, rows.indptr)
    if first == rows.n:
        return rows
    ids, values, indptr = (np.array(a) for a in rows)
    n = _merge(  # the caller checks sums
        ids, values, indptr, np.uint64(first), PROCESS_KEY, _new_hash_table(indptr)
    )
    return Rows(ids[:n], values[:n], indptr)


def _without_zeros(rows: Rows) -> Rows:
    nonzero = rows.values != 0.0
    return rows if nonzero.all() else _only(rows, nonzero)


def _only(rows: Rows, retained: Any) -> Rows:
    before = np.zeros(len(retained) + 1, np.uint64)
    np.cumsum(retained, out=before[1:])
    return Rows(rows.ids[retained], rows.values[retained], before[rows.indptr.astype(np.int64)])
