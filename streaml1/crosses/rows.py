"""Crossed features of many examples at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from streaml1.batches import Batch, batch_of
from streaml1.crosses.kernels import AT, NO_PART, bound, crossed, grouped, mask_at
from streaml1.crosses.spec import MOST_CROSSED, PREFIXES, Cross, Crosses, too_many
from streaml1.hashing import name_hashes
from streaml1.jit import COMPILED, kernel
from streaml1.names import MISSING, Hashed, Table
from streaml1.names.crossed import JOINT
from streaml1.rows import LIMIT, BadExample, Rows, are_values, refuse_value, row_of

__all__ = [
    "Crossing",
    "crossing_of",
    "find_crossed",
    "hashes_of",
    "marked",
    "paired",
    "require_plain",
    "spread",
]

_ZERO, _ONE = map(np.uint64, (0, 1))
_HALF = np.uint64(32)
_LENGTH = np.uint64(2**32 - 1)

TOGETHER = 2**20
"""How many crossed features of a batch are made at once."""


class Crossing(NamedTuple):
    """The crossed features of some rows; row i is the part `indptr[i]:indptr[i + 1]`."""

    hashes: Any  # uint64; one may come twice in a row where prefixes have names in common
    values: Any
    indptr: Any
    parts: Any  # shape (n, 3), int64: the entries that are crossed, by prefix; -1 for no third


@kernel
def _masks(start: Any, spans: Any, plan: Any, masks: Any) -> None:
    for k in range(np.uint64(len(spans))):
        lo = start + (spans[k] >> _HALF)
        masks[k] = mask_at(plan, lo, lo + (spans[k] & _LENGTH))


@kernel
def _bounds(plan: Any, ids: Any, masks: Any, indptr: Any, sizes: Any, bounds: Any) -> Any:
    """How many parts and crossed features each row has at most; returns the most parts of one."""
    longest = _ZERO
    for i in range(np.uint64(len(indptr) - 1)):
        for p in range(plan[PREFIXES] + _ONE):
            sizes[p] = _ZERO
        m = _ZERO
        for k in range(indptr[i], indptr[i + _ONE]):
            mask = masks[ids[k]]
            if mask:
                m += _ONE
                for p in range(plan[PREFIXES]):
                    sizes[p + _ONE] += mask >> p & _ONE
        for p in range(plan[PREFIXES]):
            sizes[p + _ONE] += sizes[p]
        bounds[i] = bound(plan, sizes)
        longest = max(longest, m)
    return longest


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
        for c in range(n, end):
            v = out_values[c]
            if not abs(v) < LIMIT:
                wrong = min(wrong, n)
            if v == 0.0:
                continue
            out_hashes[n] = out_hashes[c]
            out_values[n] = v
            packed = out_parts[c]
            for z in range(np.uint64(3)):
                part = packed >> (AT * z) & NO_PART
                places[n, z] = -1 if part == NO_PART else np.int64(part_at[part])
            n += _ONE
        out_indptr[i + _ONE] = n
    return n, wrong


@kernel
def _merge(hashes: Any, values: Any, indptr: Any, marks: Any, firsts: Any, sums: Any,
           ends: Any) -> Any:  # fmt: skip
    """Have each hash once in a row, where it comes first, with the sum of its values; how many.

    `firsts` gets the places of those that are left. `marks` is zeros, a power of two of them and
    more than twice the longest row; it holds the place of a hash in `firsts` beside its row.
    """
    mask = np.uint64(len(marks) - 1)
    n = _ZERO
    ends[0] = _ZERO
    for i in range(np.uint64(len(indptr) - 1)):
        row = (i + _ONE) << _HALF
        begin = n
        for k in range(indptr[i], indptr[i + _ONE]):
            h = hashes[k]
            place = (h ^ (h >> _HALF)) & mask
            while True:
                mark = marks[place]
                if mark & ~_LENGTH != row:
                    marks[place] = row | (n - begin)
                    firsts[n] = k
                    sums[n] = values[k]
                    n += _ONE
                    break
                first = begin + (mark & _LENGTH)
                if hashes[firsts[first]] == h:
                    sums[first] += values[k]
                    break
                place = (place + _ONE) & mask
        ends[i + _ONE] = n
    return n


def _without_repeats(batch: Batch) -> Batch:
    """A batch of texts with each name once in a row: what is crossed are sums."""
    texts = batch.texts
    if texts is None:
        return batch
    hashes, values, indptr = texts.parts()
    indptr = indptr.astype(np.uint64)
    longest = int(np.diff(indptr).max(initial=0))
    marks = np.zeros(1 << max(10, (2 * longest).bit_length()), np.uint64)
    firsts, sums = np.empty(len(hashes), np.uint64), np.empty(len(hashes))
    ends = np.zeros_like(indptr)
    n = int(_merge(hashes, values, indptr, marks, firsts, sums, ends))
    if n == len(hashes):
        return batch
    if not are_values(sums[:n]):
        return batch_of(list(texts))  # which says what is wrong, or drops zeros
    merged = texts.chosen(firsts[:n].astype(np.int64), sums[:n].copy(), ends.astype(np.int64))
    rows = Rows(batch.rows.ids, merged.values, ends)
    return batch._replace(rows=rows, texts=merged)


def _name_masks(crosses: Crosses, names: Sequence[Hashable]) -> Any:
    if not COMPILED or not all(type(name) is str for name in names):
        return np.array([crosses.mask(name) for name in names], np.uint64)
    texts = [str.encode(name, "utf-8", "surrogatepass") for name in names]  # type: ignore[arg-type]
    sizes = np.fromiter(map(len, texts), np.uint64, len(texts))
    begins = np.cumsum(sizes, dtype=np.uint64) - sizes
    masks = np.empty(len(texts), np.uint64)
    data = np.frombuffer(bytearray(b"".join(texts)) + bytearray(1), np.uint8)
    _masks(np.uint64(data.ctypes.data), (begins << _HALF) | sizes, crosses.plan, masks)
    return masks


class Marked(NamedTuple):
    """A batch, each name but once in a row, and which of its features are crossed."""

    batch: Batch
    ids: Any  # of each entry its place in the next two
    masks: Any
    hashes: Any
    names_at: Callable[[Any], list[Any]]
    bounds: Any  # of each row the most crossed features that it may have
    longest: int  # the most of a row that are crossed

    def pieces(self) -> list[tuple[int, int]]:
        """First and last of rows that are crossed together, so that memory holds them."""
        ends = np.cumsum(self.bounds)
        if not len(ends) or ends[-1] <= TOGETHER:
            return [(0, len(ends))]
        cuts, lo = [0], 0
        while lo < len(ends):
            before = int(ends[lo - 1]) if lo else 0
            lo = max(lo + 1, int(np.searchsorted(ends, np.uint64(before + TOGETHER), "right")))
            cuts.append(lo)
        return list(zip(cuts[:-1], cuts[1:], strict=True))

    def part(self, lo: int, hi: int) -> Marked:
        """The rows from one to before another."""
        if (lo, hi) == (0, self.batch.n):
            return self
        rows = self.batch.rows
        first, last = int(rows.indptr[lo]), int(rows.indptr[hi])
        ids = rows.ids[first:last] if self.batch.texts is None else rows.ids
        own = Rows(ids, rows.values[first:last], rows.indptr[lo : hi + 1] - rows.indptr[lo])
        texts = None if self.batch.texts is None else self.batch.texts[lo:hi]
        names_at = self.names_at if texts is None else texts.names_of
        return self._replace(
            batch=self.batch._replace(rows=own, texts=texts), ids=self.ids[first:last],
            names_at=names_at, bounds=self.bounds[lo:hi],
        )  # fmt: skip


def marked(crosses: Crosses, batch: Batch) -> Marked:
    """A batch with what tells which features are crossed.

    Raises
    ------
    BadExample
        At the first row that would have too many of them, or where rows have no names.
    """
    _require_names(batch)
    batch = _without_repeats(batch)
    if batch.texts is not None:
        texts = batch.texts
        hashes, _, _ = texts.parts()
        spans = texts.own_spans()
        masks = np.empty(len(hashes), np.uint64)
        _masks(np.uint64(texts.names.ctypes.data), spans, crosses.plan, masks)
        ids = np.arange(len(hashes), dtype=np.uint32)
        names_at: Callable[[Any], list[Any]] = texts.names_of
    else:
        names, ids = batch.names or [], batch.rows.ids
        masks = _name_masks(crosses, names)
        hashes = np.zeros(len(names), np.uint64)
        chosen = np.flatnonzero(masks)
        if len(chosen):
            hashes[chosen] = name_hashes([names[k] for k in chosen.tolist()])

        def names_at(places: Any) -> list[Any]:
            return [names[k] for k in ids[places].tolist()]

    bounds = np.zeros(batch.n, np.uint64)
    sizes = np.zeros(len(crosses.prefixes) + 1, np.uint64)
    with np.errstate(over="ignore"):
        longest = int(_bounds(crosses.plan, ids, masks, batch.rows.indptr, sizes, bounds))
    many = np.flatnonzero(bounds > MOST_CROSSED)
    if len(many):
        raise BadExample(too_many(int(bounds[many[0]])), int(many[0]))
    return Marked(batch, ids, masks, hashes, names_at, bounds, longest)


def crossing_of(crosses: Crosses, some: Marked) -> Crossing:
    """The crossed features of some rows.

    Raises
    ------
    BadExample
        At the first row with a product that is too large.
    """
    rows, m, total = some.batch.rows, some.longest, int(some.bounds.sum())
    sizes = np.zeros(len(crosses.prefixes) + 1, np.uint64)
    part_masks, part_hashes, part_at = (np.empty(m, np.uint64) for _ in range(3))
    crossed_hashes, values = np.empty(total, np.uint64), np.empty(total)
    parts, indptr = np.empty((total, 3), np.int64), np.zeros(rows.n + 1, np.uint64)
    with np.errstate(over="ignore"):
        n, wrong = _cross(
            crosses.plan, some.ids, some.masks, some.hashes, rows.values, rows.indptr, part_masks,
            part_hashes, np.empty(m), part_at, np.empty(m * crosses.most_of_one, np.uint64), sizes,
            crossed_hashes, values, np.empty(total, np.uint64), parts, indptr,
        )  # fmt: skip
    n = int(n)
    ordered = _by_prefix(parts[:n], some.ids, some.masks, some.hashes)
    crossing = Crossing(crossed_hashes[:n], values[:n], indptr, ordered)
    if wrong <= total:
        _refuse(crossing, some.names_at)
    return crossing


def _by_prefix(parts: Any, ids: Any, masks: Any, hashes: Any) -> Any:
    """Entries in the order in which they are told: by their first prefix, then by hash."""
    return parts if len(parts) == 0 else _Ordered(parts, ids, masks, hashes)


class _Ordered:
    """Parts of crossed features, put in order as they are asked for."""

    def __init__(self, parts: Any, ids: Any, masks: Any, hashes: Any) -> None:
        self._parts, self._ids, self._masks, self._hashes = parts, ids, masks, hashes

    def __getitem__(self, places: Any) -> Any:
        chosen = self._parts[places]
        there = self._ids[chosen]
        masks, hashes = self._masks[there], self._hashes[there]
        with np.errstate(over="ignore"):
            first = np.where(chosen < 0, 2.0**64, (masks & (~masks + _ONE)).astype(np.float64))
        order = np.lexsort((hashes, first), axis=1)
        return np.take_along_axis(chosen, order, axis=1)


def _refuse(crossing: Crossing, names_at: Callable[[Any], list[Any]]) -> None:
    k = int(np.flatnonzero(~(np.abs(crossing.values) < LIMIT))[0])
    row = row_of(Rows(None, None, crossing.indptr), k)
    entries = crossing.parts[np.array([k])][0]
    try:
        told = JOINT.join(map(str, names_at(entries[entries >= 0])))
        refuse_value(told, float(crossing.values[k]))
    except BadExample as bad:
        raise BadExample(bad.reason, row) from None


def _require_names(batch: Batch) -> None:
    """Refuse rows of numbered columns: they have no prefixes."""
    if batch.names is None and batch.texts is None:
        raise BadExample(
            "rows of numbered columns have no names to cross: give dicts or a frame, or make the "
            "model with cross=None"
        )


def require_plain(crosses: Crosses, batch: Batch) -> None:
    """Refuse the first row with a name that reads as that of a crossed feature."""
    if batch.texts is not None:
        rows: list[tuple[int, Hashable]] = []
        texts = batch.texts
        if texts.has(JOINT):
            _, _, indptr = texts.parts()
            names = texts.names_of(np.arange(int(indptr[-1])))
            odd = [k for k, name in enumerate(names) if JOINT in name]
            rows = [(row_of(batch.rows, k), names[k]) for k in odd]
    else:
        named = batch.names or []
        odd = [k for k, name in enumerate(named) if isinstance(name, str) and JOINT in name]
        places = np.flatnonzero(np.isin(batch.rows.ids, np.array(odd, np.uint32))).tolist()
        rows = [(row_of(batch.rows, k), named[int(batch.rows.ids[k])]) for k in places]
    for row, name in rows:
        try:
            crosses.require_plain(name)
        except BadExample as bad:
            raise BadExample(bad.reason, row) from None


def paired(crosses: Sequence[Cross], places: Any) -> list[tuple[Any, ...]]:
    """The parts of some crossed features as `names.crossed.told` takes them."""
    return [tuple(p for name in crosses[k].parts for p in (name, None)) for k in places.tolist()]


def hashes_of(crosses: Sequence[Cross]) -> Any:
    """Hashes of crossed features, an array."""
    return np.array([one.hash for one in crosses], np.uint64)


def find_crossed(names: Any, hashes: Any) -> Any:
    """Slots of crossed features, uint32; `MISSING` for those unknown."""
    if isinstance(names, Hashed):
        return (hashes & np.uint64(names.mask)).astype(np.uint32)
    if isinstance(names, Table):
        return names.crossed.find(hashes)[0]
    return np.full(len(hashes), MISSING, np.uint32)


@kernel
def spread(
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
