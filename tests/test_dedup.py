"""Merging of duplicate features in rows: SIMD kernels against dicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaml1.core.hashing import PROCESS_KEY
from streaml1.core.rows import VALUE_LIMIT, BadExample, Rows
from streaml1.features.dedup import _are_plain, masked_rows, plain_rows, repeats

HASH_SIZE = 4096  # hash table slots for short rows


def hash_slots(ids: Any) -> Any:
    """Return the first slot of the hash table that is probed for each id."""
    return (np.asarray(ids, np.uint64) * PROCESS_KEY) // np.uint64(2**64 // HASH_SIZE)


MANY_IDS = np.arange(2**18)
DISTANCES = hash_slots(MANY_IDS) - hash_slots(9)

small_ids = st.integers(0, 60)
any_ids = st.integers(0, 2**32 - 1)
colliding_ids = st.sampled_from(MANY_IDS[DISTANCES <= 1].tolist())
ids_with_equal_low_bits = st.sampled_from([HASH_SIZE * k + j for k in range(4) for j in range(8)])
ID_KINDS = (small_ids, any_ids, colliding_ids, ids_with_equal_low_bits)
rows_of_ids = st.lists(st.one_of(*(st.lists(kind, max_size=40) for kind in ID_KINDS)), max_size=6)


def as_rows(ids: list[list[int]], kind: Any = np.uint32) -> tuple[Rows, list[dict[int, float]]]:
    """Return rows of these ids, with a distinct value at each position, and the merged dicts."""
    flat = [j for row in ids for j in row]
    values = 1.0 + np.arange(len(flat)) * 0.37
    indptr = np.cumsum([0, *map(len, ids)]).astype(np.uint64)
    dicts, pos = [], 0
    for row in ids:
        x: dict[int, float] = {}
        for j in row:
            x[j] = x[j] + float(values[pos]) if j in x else float(values[pos])
            pos += 1
        dicts.append(x)
    return Rows(np.array(flat, kind), values, indptr), dicts


def items_of(rows: Rows) -> list[list[tuple[int, float]]]:
    """Return the (id, value) pairs of each row."""
    ends = rows.indptr.tolist()
    pairs = list(zip(rows.ids.tolist(), rows.values.tolist(), strict=True))
    return [pairs[lo:hi] for lo, hi in zip(ends[:-1], ends[1:], strict=True)]


# A fault sets a value, or an id relative to the id before it.
FAULTS = {
    "zero": ("value", 0.0),
    "negative zero": ("value", -0.0),
    "nan": ("value", np.nan),
    "infinite": ("value", -np.inf),
    "too large": ("value", VALUE_LIMIT),
    "duplicate id": ("id", 0),
    "decreasing id": ("id", -2),
}


@pytest.mark.parametrize("n", [*range(1, 36), 63, 64, 112, 113, 114, 128, 209, 210, 250])
def test_fault_at_any_position_makes_a_row_irregular(n: int) -> None:
    """The kernel checks blocks of eight entries; the last block overlaps the one before it."""
    # Invalid entries before and after the row must not influence the result.
    ids = np.concatenate([[9, 9], 10 + 3 * np.arange(n), [7, 7]]).astype(np.uint32)
    values = np.concatenate([[0.0, 0.0], np.where(np.arange(n) % 2, 1e-300, -1e49), [0.0, np.nan]])
    indptr, id_limit = np.array([2, 2 + n], np.uint64), 11 + 3 * (n - 1)
    assert _are_plain(ids, values, indptr, id_limit)
    assert not _are_plain(ids, values, indptr, id_limit - 1)
    for field, fault in FAULTS.values():
        for k in range(2 if field == "value" else 3, 2 + n):
            bad_ids, bad_values = ids.copy(), values.copy()
            if field == "value":
                bad_values[k] = fault
            else:
                bad_ids[k] = int(ids[k - 1]) + fault
            assert not _are_plain(bad_ids, bad_values, indptr, id_limit), (k, fault)


@given(rows_of_ids)
@settings(max_examples=300, deadline=None)
def test_duplicates_are_added_to_the_first_occurrence(ids: list[list[int]]) -> None:
    rows, dicts = as_rows(ids)
    assert items_of(plain_rows(rows)) == [list(x.items()) for x in dicts]
    assert repeats(rows.ids, rows.indptr) == any(len(set(row)) < len(row) for row in ids)


@given(rows_of_ids, st.integers(1, 40), st.sampled_from([6, 14]))
@settings(max_examples=300, deadline=None)
def test_duplicates_are_summed_before_slot_collisions(
    ids: list[list[int]], n_distinct: int, bits: int
) -> None:
    mask = 2**bits - 1
    hashed_ids = [[j + (k % n_distinct << 32) for k, j in enumerate(row)] for row in ids]
    hashes, by_name = as_rows(hashed_ids, np.uint64)
    dicts: list[dict[int, float]] = [{} for _ in ids]
    for x, named in zip(dicts, by_name, strict=True):
        for h, v in named.items():
            x[h & mask] = x[h & mask] + v if h & mask in x else v
    masked = masked_rows(hashes.ids, Rows(hashes.ids[:0], hashes.values, hashes.indptr), mask)
    assert masked is not None
    assert items_of(masked) == [list(x.items()) for x in dicts]
    has_duplicates = repeats(hashes.ids, hashes.indptr)
    assert has_duplicates == any(len(set(row)) < len(row) for row in hashed_ids)


@pytest.mark.parametrize("first", range(20))
@pytest.mark.parametrize("second", [7, 8, 15, 16, 19])
def test_duplicate_is_found_at_any_pair_of_positions(first: int, second: int) -> None:
    row = np.random.default_rng(first).choice(2**32, 20, replace=False).tolist()
    assert not repeats(*as_rows([row])[0][::2])
    if first != second:
        row[second] = row[first]
        assert repeats(*as_rows([[3, 5], row])[0][::2])


@pytest.mark.parametrize("n", [1500, 5000])
def test_rows_larger_than_the_hash_table(n: int) -> None:
    rng = np.random.default_rng(n)
    long_row = rng.choice(2**32, n, replace=False).tolist()
    ids = [long_row, long_row[:9], long_row[::-1], [*long_row, long_row[3]]]
    rows, dicts = as_rows(ids)
    assert items_of(plain_rows(rows)) == [list(x.items()) for x in dicts]


def test_invalid_sums_are_rejected_or_need_the_slow_path() -> None:
    ids = np.arange(16, dtype=np.uint64)
    ids[9] = ids[2] + 32  # the same slot for five hash bits
    indptr = np.array([0, 16], np.uint64)
    values = np.ones(16)
    for value, is_supported in ((1.0, True), (-1.0, False)):
        values[9] = value
        masked = masked_rows(ids, Rows(ids[:0], values, indptr), 31)
        assert (masked is not None) == is_supported
    values[2] = values[9] = 0.9e50
    assert masked_rows(ids, Rows(ids[:0], values, indptr), 31) is None
    with pytest.raises(BadExample, match="too large"):
        plain_rows(Rows((ids & np.uint64(31)).astype(np.uint32), values, indptr))
