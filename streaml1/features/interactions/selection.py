"""Which features of many examples are crossed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.core.jit import COMPILED, inlined, kernel
from streaml1.core.rows import BadExample, Rows, row_of_entry
from streaml1.features.batch import Batch
from streaml1.features.dedup_text import without_repeats
from streaml1.features.interactions.kernels import bound, mask_at
from streaml1.features.interactions.spec import (
    MOST_CROSSED,
    MOST_PARTS,
    PREFIXES,
    Interactions,
    too_many,
    too_many_parts,
)
from streaml1.features.vocabulary.crossed_name import JOINT
from streaml1.features.vocabulary.interaction_factors import encode_names

__all__ = ["Selection", "select_factors", "require_plain"]

_ZERO, _ONE, _SEVEN, _EIGHT = map(np.uint64, (0, 1, 7, 8))
_COUNT = np.uint64(255)  # as many as a byte can count
_HALF = np.uint64(32)
_SIZE = np.uint64(2**32 - 1)
_MOST_PARTS = np.uint64(MOST_PARTS)

IN_CACHE, TOGETHER = 2**17, 2**20
"""How many crossed features of a batch are made at once: some 5 MB, or what memory holds."""


@kernel
def _masks(start: Any, spans: Any, plan: Any, masks: Any) -> None:
    for k in range(np.uint64(len(spans))):
        lo = start + (spans[k] >> _HALF)
        masks[k] = mask_at(plan, lo, lo + (spans[k] & _SIZE))


@inlined
def _bytes_of_bits(bits: Any) -> Any:
    """Return the lowest eight bits, a byte each."""
    apart = (bits & _COUNT) * np.uint64(0x0101010101010101) & np.uint64(0x8040201008040201)
    return ((apart + np.uint64(0x7F7F7F7F7F7F7F7F)) >> _SEVEN) & np.uint64(0x0101010101010101)


@inlined
def _sum_counts(counts: Any, plan: Any, sizes: Any) -> None:
    """Write down how many parts there are before each prefix, given those of each, a byte each."""
    sizes[_ZERO] = _ZERO
    for p in range(plan[PREFIXES]):
        sizes[p + _ONE] = sizes[p] + (counts & _COUNT)
        counts >>= _EIGHT


@inlined
def _count(ids: Any, masks: Any, begin: Any, end: Any, plan: Any, sizes: Any) -> Any:
    """As `_sum_counts`, of a row; returns how many parts it has."""
    m = _ZERO
    for p in range(plan[PREFIXES] + _ONE):
        sizes[p] = _ZERO
    for lo in range(begin, end, _COUNT):
        hi = min(lo + _COUNT, end)
        for k in range(lo, hi):
            m += np.uint64(masks[ids[k]] != _ZERO)
        for first in range(_ZERO, plan[PREFIXES], _EIGHT):
            counts = _ZERO
            for k in range(lo, hi):
                counts += _bytes_of_bits(masks[ids[k]] >> first)
            for p in range(first, min(first + _EIGHT, plan[PREFIXES])):
                sizes[p + _ONE] += counts & _COUNT
                counts >>= _EIGHT
    for p in range(plan[PREFIXES]):
        sizes[p + _ONE] += sizes[p]
    return m


@inlined
def _are_alike(ids: Any, masks: Any, last: Any, begin: Any, end: Any) -> Any:
    """Whether a row has the prefixes of the one before it, which begins at `last`, in order."""
    if end - begin != begin - last:
        return False
    k = _ZERO
    while begin + k < end and masks[ids[begin + k]] == masks[ids[last + k]]:
        k += _ONE
    return begin + k == end


@kernel
def _bounds(plan: Any, ids: Any, masks: Any, indptr: Any, sizes: Any, bounds: Any) -> Any:
    """How many crossed features each row has at most.

    Returns the most parts of one, and the first row with too many of them, or how many rows.
    """
    longest, wide = _ZERO, np.uint64(len(indptr) - 1)
    few, before, same = plan[PREFIXES] <= _EIGHT, _ZERO, _ZERO
    m = last = _ZERO
    for i in range(np.uint64(len(indptr) - 1)):
        lo, hi = indptr[i], indptr[i + _ONE]
        if i > _ZERO and _are_alike(ids, masks, last, lo, hi):  # as rows of columns are
            last = lo
            bounds[i] = bounds[i - _ONE]
            continue
        last = lo
        if few and hi - lo <= _COUNT:  # rows most often have as many of each prefix as the last
            m = counts = _ZERO
            for k in range(lo, hi):
                mask = masks[ids[k]]
                m += np.uint64(mask != _ZERO)
                counts += _bytes_of_bits(mask)
            if counts != before:
                _sum_counts(counts, plan, sizes)
                before, same = counts, bound(plan, sizes)
            bounds[i] = same
        else:
            m = _count(ids, masks, lo, hi, plan, sizes)
            bounds[i] = bound(plan, sizes)
        longest = max(longest, m)
        if m > _MOST_PARTS:
            wide = min(wide, np.uint64(i))
    return longest, wide


class Selection(NamedTuple):
    """A batch, each name but once in a row, and which of its features are crossed."""

    batch: Batch
    ids: Any  # of each entry its name: a place in what follows
    masks: Any  # of a name its prefixes
    hashes: Any
    spans: Any  # of a name where it stands in `letters`
    letters: Any
    bounds: Any  # of each row the most crossed features that it may have
    longest: int  # the most of a row that are crossed

    def chunks(self, copied: int = 0) -> list[tuple[int, int]]:
        """First and last of rows that are crossed together; `copied`: floats that a cut costs."""
        ends = np.cumsum(self.bounds)
        most = IN_CACHE if len(ends) and copied <= ends[-1] else TOGETHER
        if not len(ends) or ends[-1] <= most:
            return [(0, len(ends))]
        cuts, lo = [0], 0
        while lo < len(ends):
            before = int(ends[lo - 1]) if lo else 0
            lo = max(lo + 1, int(np.searchsorted(ends, np.uint64(before + most), "right")))
            cuts.append(lo)
        return list(zip(cuts[:-1], cuts[1:], strict=True))

    def slice(self, lo: int, hi: int) -> Selection:
        """Return the rows from one to before another."""
        if (lo, hi) == (0, self.batch.n):
            return self
        rows = self.batch.rows
        first, last = int(rows.indptr[lo]), int(rows.indptr[hi])
        ids = rows.ids[first:last] if self.batch.texts is None else rows.ids
        own = Rows(ids, rows.values[first:last], rows.indptr[lo : hi + 1] - rows.indptr[lo])
        texts = None if self.batch.texts is None else self.batch.texts[lo:hi]
        return self._replace(
            batch=self.batch._replace(rows=own, texts=texts), ids=self.ids[first:last],
            bounds=self.bounds[lo:hi],
        )  # fmt: skip

    def names_of(self, entries: Any) -> list[str]:
        """Return the names of some entries that are crossed."""
        spans = self.spans[self.ids[entries]]
        begins, sizes = spans >> _HALF, spans & _SIZE
        pairs = zip(begins.tolist(), (begins + sizes).tolist(), strict=True)
        texts = self.letters.data
        return [str(texts[lo:hi], "utf-8", "surrogatepass") for lo, hi in pairs]


def _spelt(crosses: Interactions, names: Sequence[Hashable]) -> tuple[Any, Any, Any, Any]:
    """Of names their masks, and of those that are crossed also hashes; spans, letters."""
    letters, spans = encode_names(names)
    masks = np.empty(len(names), np.uint64)
    if COMPILED:
        _masks(np.uint64(letters.ctypes.data), spans, crosses.plan, masks)
    else:
        masks[:] = [crosses.mask(name) for name in names]
    hashes = np.zeros(len(names), np.uint64)
    chosen = np.flatnonzero(masks)
    if len(chosen):
        hashes[chosen] = name_hashes([names[k] for k in chosen.tolist()])
    return masks, hashes, spans, letters


def select_factors(crosses: Interactions, batch: Batch) -> Selection:
    """Return a batch with the factors that are crossed.

    Raises
    ------
    BadExample
        At the first row that would have too many of them, or has too many parts, or where rows
        have no names.
    """
    _require_names(batch)
    batch = without_repeats(batch)
    if batch.texts is not None:
        texts = batch.texts
        hashes, _, _ = texts.csr()
        spans, letters = texts.name_spans(), texts.names
        masks = np.empty(len(hashes), np.uint64)
        _masks(np.uint64(letters.ctypes.data), spans, crosses.plan, masks)
        ids = np.arange(len(hashes), dtype=np.uint32)
    else:
        ids = batch.rows.ids
        masks, hashes, spans, letters = _spelt(crosses, batch.names or [])
    bounds = np.zeros(batch.n, np.uint64)
    sizes = np.zeros(len(crosses.prefixes) + 1, np.uint64)
    told = _bounds(crosses.plan, ids, masks, batch.rows.indptr, sizes, bounds)
    longest, wide = map(int, told)
    many = np.flatnonzero(bounds > MOST_CROSSED)
    if wide < batch.n and not (len(many) and many[0] < wide):
        first, last = batch.rows.indptr[wide : wide + 2].tolist()
        parts = np.count_nonzero(masks[ids[first:last]])
        raise BadExample(too_many_parts(int(parts)), wide)
    if len(many):
        raise BadExample(too_many(int(bounds[many[0]])), int(many[0]))
    return Selection(batch, ids, masks, hashes, spans, letters, bounds, longest)


def _require_names(batch: Batch) -> None:
    """Refuse rows of numbered columns: they have no prefixes."""
    if batch.below is not None or (batch.names is None and batch.texts is None):
        raise BadExample(
            "rows of numbered columns have no names to cross: give dicts, a frame or text with "
            "names (vw, JSON, CSV), or take a model that was made without cross"
        )


def require_plain(crosses: Interactions, batch: Batch) -> None:
    """Refuse the first row with a name that reads as that of a crossed feature."""
    if batch.texts is not None:
        rows: list[tuple[int, Hashable]] = []
        texts = batch.texts
        if texts.may_contain(JOINT):
            _, _, indptr = texts.csr()
            names = texts.feature_names(np.arange(int(indptr[-1])))
            odd = [k for k, name in enumerate(names) if JOINT in name]
            rows = [(row_of_entry(batch.rows, k), names[k]) for k in odd]
    else:
        named = batch.names or []
        odd = [k for k, name in enumerate(named) if isinstance(name, str) and JOINT in name]
        places = np.flatnonzero(np.isin(batch.rows.ids, np.array(odd, np.uint32))).tolist()
        rows = [(row_of_entry(batch.rows, k), named[int(batch.rows.ids[k])]) for k in places]
    for row, name in rows:
        try:
            crosses.require_plain(name)
        except BadExample as bad:
            raise BadExample(bad.reason, row) from None
