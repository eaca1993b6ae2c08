"""Crossed features of many examples at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.rows import VALUE_LIMIT, BadExample, Rows, check_value, row_of_entry, validity
from streaml1.core.simd import borrowed
from streaml1.features.interactions.kernels import AT, NO_PART, crossed, grouped
from streaml1.features.interactions.selection import Selection
from streaml1.features.interactions.spec import Interaction, Interactions
from streaml1.features.vocabulary import MISSING, HashedVocabulary, InternedVocabulary
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

_ZERO, _ONE = map(np.uint64, (0, 1))


class CrossedRows(NamedTuple):
    """The crossed features of some rows; row i is the part `indptr[i]:indptr[i + 1]`."""

    hashes: Any  # uint64; one may come twice in a row where prefixes have names in common
    values: Any
    indptr: Any
    parts: InteractionFactors


@inlined
def _tell_places(packed: Any, part_at: Any, places: Any, c: Any) -> None:
    """Write down of which entries the c-th feature is crossed."""
    places[c, 0] = np.int64(part_at[packed & NO_PART])
    places[c, 1] = np.int64(part_at[packed >> AT & NO_PART])
    third = packed >> (AT + AT) & NO_PART
    places[c, 2] = -1 if third == NO_PART else np.int64(part_at[third])


@kernel
def _cross(
    plan: Any,
    ids: Any,
    masks: Any,
    hashes: Any,
    values: Any,
    indptr: Any,
    part_masks: Any,
    part_hashes: Any,
    part_values: Any,
    part_at: Any,
    members: Any,
    starts: Any,
    out_hashes: Any,
    out_values: Any,
    out_parts: Any,
    places: Any,
    out_indptr: Any,
) -> Any:
    """Write the crossed features of all rows but zeros; returns the place of one too large, or n.

    `out_parts` is scratch; `places` gets the entries of each, by prefix.
    """
    part_masks, part_hashes, part_values = borrowed((part_masks, part_hashes, part_values))
    members, starts, plan, part_at = borrowed((members, starts, plan, part_at))
    out_hashes, out_values, out_parts = borrowed((out_hashes, out_values, out_parts))
    places = borrowed(places)
    n = _ZERO
    out_indptr[0] = _ZERO
    wrong = np.uint64(len(out_hashes)) + _ONE
    for i in range(np.uint64(len(indptr) - 1)):
        m = _ZERO
        for k in range(indptr[i], indptr[i + _ONE]):
            mask = masks[ids[k]]
            if mask:
                part_masks[m] = mask
                part_hashes[m] = hashes[ids[k]]
                part_values[m] = values[k]
                part_at[m] = k
                m += _ONE
        grouped(plan, part_masks, m, members, starts)
        end = crossed(
            plan, part_masks, part_hashes, part_values, members, starts, out_hashes, out_values,
            out_parts, n,
        )  # fmt: skip
        odd = np.int64(0)
        for c in range(n, end):
            odd |= validity(out_values[c])
            _tell_places(out_parts[c], part_at, places, c)
        if odd >= 0:
            n = end
        for c in range(n, end):
            v = out_values[c]
            if not abs(v) < VALUE_LIMIT:
                wrong = min(wrong, n)
            if v == 0.0:
                continue
            out_hashes[n] = out_hashes[c]
            out_values[n] = v
            _tell_places(out_parts[c], part_at, places, n)
            n += _ONE
        out_indptr[i + _ONE] = n
    return n, wrong


def cross_rows(crosses: Interactions, some: Selection) -> CrossedRows:
    """Return the crossed features of some rows.

    Raises
    ------
    BadExample
        At the first row with a product that is too large.
    """
    rows, m, total = some.batch.rows, some.longest, int(some.bounds.sum())
    sizes = np.zeros(len(crosses.prefixes) + 1, np.uint64)
    part_masks, part_hashes, part_at = (np.empty(m, np.uint64) for _ in range(3))
    crossed_hashes, values = np.empty(total, np.uint64), np.empty(total)
    places, indptr = np.empty((total, 3), np.int32), np.zeros(rows.n + 1, np.uint64)
    n, wrong = _cross(
        crosses.plan, some.ids, some.masks, some.hashes, rows.values, rows.indptr, part_masks,
        part_hashes, np.empty(m), part_at, np.empty(m * crosses.max_prefixes_per_name, np.uint64),
        sizes, crossed_hashes, values, np.empty(total, np.uint64), places, indptr,
    )  # fmt: skip
    n = int(n)
    parts = InteractionFactors(
        places[:n], some.ids, some.masks, some.hashes, some.spans, some.letters
    )
    crossing = CrossedRows(crossed_hashes[:n], values[:n], indptr, parts)
    if wrong <= total:
        _refuse(crossing, some)
    return crossing


def _refuse(crossing: CrossedRows, some: Selection) -> None:
    """Refuse the first product that is too large."""
    k = int(np.flatnonzero(~(np.abs(crossing.values) < VALUE_LIMIT))[0])
    row = row_of_entry(Rows(None, None, crossing.indptr), k)
    try:
        check_value(JOINT.join(_parts_of(crossing, some, k)), float(crossing.values[k]))
    except BadExample as bad:
        raise BadExample(bad.reason, row) from None


def _parts_of(crossing: CrossedRows, some: Selection, k: int) -> list[str]:
    """Return the names that the k-th crossed feature is of, by prefix, then by hash."""
    entries = [entry for entry in crossing.parts.places[k].tolist() if entry >= 0]

    def by_prefix(entry: int) -> tuple[int, int]:
        mask, h = (int(a[some.ids[entry]]) for a in (some.masks, some.hashes))
        return mask & -mask, h

    return some.names_of(np.array(sorted(entries, key=by_prefix)))


def crossed_names(crossing: CrossedRows, some: Selection, places: Any) -> list[str]:
    """Return the display names of some crossed features of some rows."""
    return [JOINT.join(display_order(_parts_of(crossing, some, k))) for k in places.tolist()]


def hashes_of(crosses: Sequence[Interaction]) -> Any:
    """Hashes of crossed features, an array."""
    return np.array([one.hash for one in crosses], np.uint64)


def find_crossed(names: Any, hashes: Any) -> tuple[Any, Any]:
    """Slots of crossed features, uint32, `MISSING` for those unknown, and the places of these."""
    if isinstance(names, HashedVocabulary):
        return (hashes & np.uint64(names.mask)).astype(np.uint32), np.empty(0, np.int64)
    if isinstance(names, InternedVocabulary):
        return names.crossed.find(hashes)
    return np.full(len(hashes), MISSING, np.uint32), np.arange(len(hashes))


@kernel
def append_crossed(
    indptr: Any,
    cross_indptr: Any,
    plain: Any,
    values: Any,
    crossed: Any,
    cross_values: Any,
    ids: Any,
    all_values: Any,
) -> None:
    """Write rows of plain features, and behind them those that are crossed."""
    at = _ZERO
    for i in range(np.uint64(len(indptr) - 1)):
        for k in range(indptr[i], indptr[i + _ONE]):
            ids[at] = plain[k]
            all_values[at] = values[k]
            at += _ONE
        for k in range(cross_indptr[i], cross_indptr[i + _ONE]):
            ids[at] = crossed[k]
            all_values[at] = cross_values[k]
            at += _ONE
