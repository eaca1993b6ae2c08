"""Compute the crossed features of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.rows import VALUE_LIMIT, BadExample, check_value, row_of_entry, validity
from streaml1.core.simd import borrowed
from streaml1.core.types import Hashes, Ids, Ints, UInts, Values
from streaml1.features.interactions.kernels import FACTOR_BITS, NO_FACTOR, crossed, grouped
from streaml1.features.interactions.selection import Selection
from streaml1.features.interactions.spec import CrossedFeature, Interactions
from streaml1.features.vocabulary import (
    MISSING,
    HashedVocabulary,
    InternedVocabulary,
    IntVocabulary,
)
from streaml1.features.vocabulary.crossed_name import JOINT, display_order
from streaml1.features.vocabulary.interaction_factors import InteractionFactors

__all__ = [
    "CrossedRows",
    "crossed_names",
    "cross_rows",
    "find_crossed",
    "hashes_of",
    "append_crossed",
]


class CrossedRows(NamedTuple):
    """The crossed features of n rows: row i has `indptr[i]` to `indptr[i + 1] - 1`.

    Attributes
    ----------
    hashes : ndarray of uint64, shape (nnz,)
        Stable hashes. A row repeats one if two interactions share a crossed feature.
    values : ndarray of float64, shape (nnz,)
        The products of the values of the factors; none is zero.
    indptr : ndarray of uint64, shape (n + 1,)
        Row offsets.
    factors : InteractionFactors
        The factors of each crossed feature.
    """

    hashes: Hashes
    values: Values
    indptr: UInts
    factors: InteractionFactors


@inlined
def _unpack_factors(packed: Any, factor_pos: Any, factor_entries: Any, c: Any) -> None:
    """Store the CSR positions of the factors of crossed feature c; -1 for an absent third."""
    factor_entries[c, 0] = np.int64(factor_pos[packed & NO_FACTOR])
    factor_entries[c, 1] = np.int64(factor_pos[packed >> FACTOR_BITS & NO_FACTOR])
    third = packed >> (FACTOR_BITS + FACTOR_BITS) & NO_FACTOR
    factor_entries[c, 2] = -1 if third == NO_FACTOR else np.int64(factor_pos[third])


@kernel
def _cross(
    plan: Any,
    ids: Any,
    masks: Any,
    hashes: Any,
    values: Any,
    indptr: Any,
    factor_masks: Any,
    factor_hashes: Any,
    factor_values: Any,
    factor_pos: Any,
    members: Any,
    starts: Any,
    out_hashes: Any,
    out_values: Any,
    out_factors: Any,
    factor_entries: Any,
    out_indptr: Any,
) -> Any:
    """Write the non-zero crossed features of all rows.

    `factor_entries` receives the CSR positions of the factors; the other `factor_*` arrays,
    `out_factors`, `members` and `starts` are scratch. Returns the number of crossed features, and
    the position of the first that is too large, or a position past the output if there is none.
    """
    factor_masks, factor_hashes, factor_values = borrowed(
        (factor_masks, factor_hashes, factor_values)
    )
    members, starts, plan, factor_pos = borrowed((members, starts, plan, factor_pos))
    out_hashes, out_values, out_factors = borrowed((out_hashes, out_values, out_factors))
    factor_entries = borrowed(factor_entries)
    n = u64(0)
    out_indptr[0] = u64(0)
    first_invalid = np.uint64(len(out_hashes)) + u64(1)
    # Invariant: the first n crossed features are those of the rows before i.
    for i in range(np.uint64(len(indptr) - 1)):
        m = u64(0)
        for k in range(indptr[i], indptr[i + u64(1)]):
            mask = masks[ids[k]]
            if mask:
                factor_masks[m] = mask
                factor_hashes[m] = hashes[ids[k]]
                factor_values[m] = values[k]
                factor_pos[m] = k
                m += u64(1)
        grouped(plan, factor_masks, m, members, starts)
        end = crossed(
            plan, factor_masks, factor_hashes, factor_values, members, starts, out_hashes,
            out_values, out_factors, n,
        )  # fmt: skip
        irregular = np.int64(0)  # negative if any value is zero or too large
        for c in range(n, end):
            irregular |= validity(out_values[c])
            _unpack_factors(out_factors[c], factor_pos, factor_entries, c)
        if irregular >= 0:
            n = end  # the usual case: nothing moves, and the next loop is empty
        # Invariant: n <= c, and the first n crossed features are those before c without zeros.
        for c in range(n, end):
            v = out_values[c]
            if not abs(v) < VALUE_LIMIT:
                first_invalid = min(first_invalid, n)
            if v == 0.0:
                continue
            out_hashes[n] = out_hashes[c]
            out_values[n] = v
            _unpack_factors(out_factors[c], factor_pos, factor_entries, n)
            n += u64(1)
        out_indptr[i + u64(1)] = n
    return n, first_invalid


def cross_rows(crosses: Interactions, selection: Selection) -> CrossedRows:
    """Return the crossed features of a selection.

    Raises
    ------
    BadExample
        If a product is too large. `row` is the first such row.
    """
    rows, m, total = selection.batch.rows, selection.longest, int(selection.bounds.sum())
    starts = np.zeros(len(crosses.prefixes) + 1, np.uint64)
    factor_masks, factor_hashes, factor_pos = (np.empty(m, np.uint64) for _ in range(3))
    crossed_hashes, values = np.empty(total, np.uint64), np.empty(total)
    factor_entries, indptr = np.empty((total, 3), np.int32), np.zeros(rows.n + 1, np.uint64)
    n, first_invalid = _cross(
        crosses.plan, selection.ids, selection.masks, selection.hashes, rows.values, rows.indptr,
        factor_masks, factor_hashes, np.empty(m), factor_pos,
        np.empty(m * crosses.max_prefixes_per_name, np.uint64), starts, crossed_hashes, values,
        np.empty(total, np.uint64), factor_entries, indptr,
    )  # fmt: skip
    n = int(n)
    factors = InteractionFactors(
        factor_entries[:n], selection.ids, selection.masks, selection.hashes, selection.spans,
        selection.name_bytes,
    )  # fmt: skip
    crossing = CrossedRows(crossed_hashes[:n], values[:n], indptr, factors)
    if first_invalid <= total:
        _raise_too_large(crossing, selection)
    return crossing


def _raise_too_large(crossing: CrossedRows, selection: Selection) -> None:
    """Raise BadExample for the first product that is too large."""
    k = int(np.flatnonzero(~(np.abs(crossing.values) < VALUE_LIMIT))[0])
    row = row_of_entry(crossing.indptr, k)
    try:
        check_value(JOINT.join(_factor_names(crossing, selection, k)), float(crossing.values[k]))
    except BadExample as bad:
        raise BadExample(bad.reason, row) from None


def _factor_names(crossing: CrossedRows, selection: Selection, k: int) -> list[str]:
    """Return the names of the factors of the k-th crossed feature, by prefix, ties by hash."""
    entries = [entry for entry in crossing.factors.entries[k].tolist() if entry >= 0]

    def by_prefix(entry: int) -> tuple[int, int]:
        id_ = selection.ids[entry]
        mask, h = int(selection.masks[id_]), int(selection.hashes[id_])
        return mask & -mask, h

    return selection.names_of(np.array(sorted(entries, key=by_prefix)))


def crossed_names(crossing: CrossedRows, selection: Selection, positions: Ints) -> list[str]:
    """Return the display names of the crossed features at some positions."""
    return [
        JOINT.join(display_order(_factor_names(crossing, selection, k))) for k in positions.tolist()
    ]


def hashes_of(crossed: Sequence[CrossedFeature]) -> Hashes:
    """Return the hashes of crossed features as an array."""
    return np.array([feature.hash for feature in crossed], np.uint64)


def find_crossed(
    vocabulary: HashedVocabulary | InternedVocabulary | IntVocabulary, hashes: Hashes
) -> tuple[Ids, Ints]:
    """Look up crossed features by hash.

    Returns
    -------
    slots : ndarray of uint32, shape (n,)
        Their slots; `MISSING` if unknown.
    unknown : ndarray of int64
        Positions of the unknown ones in `hashes`.
    """
    if isinstance(vocabulary, HashedVocabulary):
        return (hashes & np.uint64(vocabulary.mask)).astype(np.uint32), np.empty(0, np.int64)
    if isinstance(vocabulary, InternedVocabulary):
        return vocabulary.crossed.find(hashes)
    return np.full(len(hashes), MISSING, np.uint32), np.arange(len(hashes))


@kernel
def append_crossed(
    indptr: Any,
    crossed_indptr: Any,
    plain: Any,
    values: Any,
    crossed: Any,
    crossed_values: Any,
    out_ids: Any,
    out_values: Any,
) -> None:
    """Merge two CSR matrices row by row: plain features first, then the crossed ones."""
    out_pos = u64(0)
    # Invariant: the first `out_pos` entries are those of the rows before i.
    for i in range(np.uint64(len(indptr) - 1)):
        for k in range(indptr[i], indptr[i + u64(1)]):
            out_ids[out_pos] = plain[k]
            out_values[out_pos] = values[k]
            out_pos += u64(1)
        for k in range(crossed_indptr[i], crossed_indptr[i + u64(1)]):
            out_ids[out_pos] = crossed[k]
            out_values[out_pos] = crossed_values[k]
            out_pos += u64(1)
