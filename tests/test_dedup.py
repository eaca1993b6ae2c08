"""Rows with each name once: what is looked at eight at a time is held to dicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaml1.core.rows import VALUE_LIMIT, BadExample, Rows
from streaml1.features.dedup import _are_plain, masked_rows, plain_rows, repeats

HOMES = 4096  # of short rows


def home(id_: int) -> int:
    """Where an id is looked for first."""
    return (id_ * 0x9E3779B97F4A7C15 % 2**64 >> 32) % HOMES


few = st.integers(0, 60)
many = st.integers(0, 2**32 - 1)
together = st.sampled_from([id_ for id_ in range(2**18) if home(id_) in (5, 6)])
alike = st.sampled_from([HOMES * k + j for k in range(4) for j in range(8)])  # in their low bits
rows_of_ids = st.lists(
    st.one_of(*(st.lists(kind, max_size=40) for kind in (few, many, together, alike))), max_size=6
)


def as_rows(ids: list[list[int]], kind: Any = np.uint32) -> tuple[Rows, list[dict[int, float]]]:
    """Rows of some ids, with values that tell where each was; and what they are as dicts."""
    flat = [j for row in ids for j in row]
    values = 1.0 + np.arange(len(flat)) * 0.37
    indptr = np.cumsum([0, *map(len, ids)]).astype(np.uint64)
    dicts, at = [], 0
    for row in ids:
        x: dict[int, float] = {}
        for j in row:
            x[j] = x[j] + float(values[at]) if j in x else float(values[at])
            at += 1
        dicts.append(x)
    return Rows(np.array(flat, kind), values, indptr), dicts


def told(rows: Rows) -> list[list[tuple[int, float]]]:
    ends = rows.indptr.tolist()
    pairs = list(zip(rows.ids.tolist(), rows.values.tolist(), strict=True))
    return [pairs[lo:hi] for lo, hi in zip(ends[:-1], ends[1:], strict=True)]


WRONG = {
    "zero": (1, 0.0),
    "zero below": (1, -0.0),
    "nan": (1, np.nan),
    "infinite": (1, -np.inf),
    "too large": (1, VALUE_LIMIT),
    "again": (0, 0),
    "falls": (0, -2),
}


@pytest.mark.parametrize("n", [*range(1, 36), 63, 64, 112, 113, 114, 128, 209, 210, 250])
def test_a_row_is_plain_unless_something_is_wrong_somewhere(n: int) -> None:
    """At every place: what is looked at together overlaps what was, by any number of entries."""
    # Before and behind the row is what it must not be told by.
    ids = np.concatenate([[9, 9], 10 + 3 * np.arange(n), [7, 7]]).astype(np.uint32)
    values = np.concatenate([[0.0, 0.0], np.where(np.arange(n) % 2, 1e-300, -1e49), [0.0, np.nan]])
    indptr, below = np.array([2, 2 + n], np.uint64), 11 + 3 * (n - 1)
    assert _are_plain(ids, values, indptr, below)
    assert not _are_plain(ids, values, indptr, below - 1)
    for which, wrong in WRONG.values():
        for k in range(2 if which else 3, 2 + n):
            row = ids.copy(), values.copy()
            row[which][k] = wrong if which else int(ids[k - 1]) + wrong
            assert not _are_plain(*row, indptr, below), (k, wrong)


@given(rows_of_ids)
@settings(max_examples=300, deadline=None)
def test_a_name_that_comes_again_is_added_to_the_first(ids: list[list[int]]) -> None:
    rows, dicts = as_rows(ids)
    assert told(plain_rows(rows)) == [list(x.items()) for x in dicts]
    assert repeats(rows.ids, rows.indptr) == any(len(set(row)) < len(row) for row in ids)


@given(rows_of_ids, st.integers(1, 40), st.sampled_from([6, 14]))
@settings(max_examples=300, deadline=None)
def test_a_name_is_summed_before_others_that_share_its_slot(
    ids: list[list[int]], n: int, bits: int
) -> None:
    mask = 2**bits - 1
    above = [[j + (k % n << 32) for k, j in enumerate(row)] for row in ids]
    hashes, by_name = as_rows(above, np.uint64)
    dicts: list[dict[int, float]] = [{} for _ in ids]
    for x, named in zip(dicts, by_name, strict=True):
        for h, v in named.items():
            x[h & mask] = x[h & mask] + v if h & mask in x else v
    masked = masked_rows(hashes.ids, Rows(hashes.ids[:0], hashes.values, hashes.indptr), mask)
    assert masked is not None
    assert told(masked) == [list(x.items()) for x in dicts]
    whole = repeats(hashes.ids, hashes.indptr)
    assert whole == any(len(set(row)) < len(row) for row in above)


@pytest.mark.parametrize("first", range(20))
@pytest.mark.parametrize("second", [7, 8, 15, 16, 19])
def test_one_that_repeats_is_found_wherever_the_two_stand(first: int, second: int) -> None:
    row = np.random.default_rng(first).choice(2**32, 20, replace=False).tolist()
    assert not repeats(*as_rows([row])[0][::2])
    if first != second:
        row[second] = row[first]
        assert repeats(*as_rows([[3, 5], row])[0][::2])


@pytest.mark.parametrize("n", [1500, 5000])
def test_rows_that_fill_the_table_and_rows_after_them(n: int) -> None:
    rng = np.random.default_rng(n)
    long = rng.choice(2**32, n, replace=False).tolist()
    ids = [long, long[:9], long[::-1], [*long, long[3]]]
    rows, dicts = as_rows(ids)
    assert told(plain_rows(rows)) == [list(x.items()) for x in dicts]


def test_a_sum_that_is_zero_or_too_large_is_left_to_others() -> None:
    ids = np.arange(16, dtype=np.uint64)
    ids[9] = ids[2] + 32  # of one slot where five bits tell it
    indptr = np.array([0, 16], np.uint64)
    values = np.ones(16)
    for other, fine in ((1.0, True), (-1.0, False)):
        values[9] = other
        masked = masked_rows(ids, Rows(ids[:0], values, indptr), 31)
        assert (masked is not None) == fine
    values[2] = values[9] = 0.9e50
    assert masked_rows(ids, Rows(ids[:0], values, indptr), 31) is None
    with pytest.raises(BadExample, match="too large"):
        plain_rows(Rows((ids & np.uint64(31)).astype(np.uint32), values, indptr))
