"""Find the factors of a batch, and bound the number of its crossed features.

The bounds size the output of `crossed_rows`, cut large batches into chunks, and reject rows that
would produce too many crossed features.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.core.jit import COMPILED, inlined, kernel, u64
from streaml1.core.rows import BadExample, Rows, row_of_entry
from streaml1.core.spans import LENGTH_MASK, OFFSET_BITS
from streaml1.core.types import Bytes, Hashes, Ids, Ints, UInts
from streaml1.features.batch import Batch
from streaml1.features.dedup_text import without_repeats
from streaml1.features.interactions.kernels import bound, mask_at
from streaml1.features.interactions.spec import (
    MAX_CROSSED,
    MAX_FACTORS,
    N_PREFIXES,
    Interactions,
    crossed_limit_message,
    factor_limit_message,
)
from streaml1.features.vocabulary.crossed_name import JOINT
from streaml1.features.vocabulary.interaction_factors import encode_names

__all__ = ["Selection", "select_factors", "require_plain"]

_BYTE = u64(255)  # also the largest count in one byte
_MAX_FACTORS = u64(MAX_FACTORS)

# One bit or value in each byte of a u64.
_COPIES = u64(0x0101010101010101)
_BIT_K_OF_BYTE_K = u64(0x8040201008040201)
_CARRY_TO_TOP_BIT = u64(0x7F7F7F7F7F7F7F7F)

MAX_CHUNK_IN_CACHE, MAX_CHUNK = 2**17, 2**20
"""Upper bounds on the crossed features of a chunk: about 5 MB, or what is reasonable in memory."""


@kernel
def _masks(start: Any, spans: Any, plan: Any, out_masks: Any) -> None:
    """Compute the prefix mask of each name in the byte array at the address `start`."""
    for k in range(np.uint64(len(spans))):
        lo = start + (spans[k] >> OFFSET_BITS)
        out_masks[k] = mask_at(plan, lo, lo + (spans[k] & LENGTH_MASK))


@inlined
def _bits_to_bytes(bits: Any) -> Any:
    """Spread the lowest eight bits over the bytes of a u64: byte k is bit k, 0 or 1."""
    selected = (bits & _BYTE) * _COPIES & _BIT_K_OF_BYTE_K
    return ((selected + _CARRY_TO_TOP_BIT) >> u64(7)) & _COPIES


@inlined
def _sum_counts(counts: Any, plan: Any, out_starts: Any) -> None:
    """Convert the group sizes of at most eight prefixes, a byte each, to starts."""
    out_starts[u64(0)] = u64(0)
    for p in range(plan[N_PREFIXES]):
        out_starts[p + u64(1)] = out_starts[p] + (counts & _BYTE)
        counts >>= u64(8)


@inlined
def _count(ids: Any, masks: Any, begin: Any, end: Any, plan: Any, out_starts: Any) -> Any:
    """Compute the starts of the groups of any row; return its number of factors."""
    m = u64(0)
    for p in range(plan[N_PREFIXES] + u64(1)):
        out_starts[p] = u64(0)
    # Invariant: `out_starts[p + 1]` is the number of members of group p before entry `lo`. Blocks
    # have at most 255 entries, so the counts of eight prefixes fit into the bytes of a u64.
    for lo in range(begin, end, _BYTE):
        hi = min(lo + _BYTE, end)
        for k in range(lo, hi):
            m += np.uint64(masks[ids[k]] != u64(0))
        for first in range(u64(0), plan[N_PREFIXES], u64(8)):
            counts = u64(0)
            for k in range(lo, hi):
                counts += _bits_to_bytes(masks[ids[k]] >> first)
            for p in range(first, min(first + u64(8), plan[N_PREFIXES])):
                out_starts[p + u64(1)] += counts & _BYTE
                counts >>= u64(8)
    for p in range(plan[N_PREFIXES]):
        out_starts[p + u64(1)] += out_starts[p]
    return m


@inlined
def _has_same_masks(ids: Any, masks: Any, previous: Any, begin: Any, end: Any) -> Any:
    """Return whether a row has the masks of the previous one, `previous` to `begin`, in order."""
    if end - begin != begin - previous:
        return False
    k = u64(0)
    while begin + k < end and masks[ids[begin + k]] == masks[ids[previous + k]]:
        k += u64(1)
    return begin + k == end


@kernel
def _bounds(plan: Any, ids: Any, masks: Any, indptr: Any, starts: Any, out_bounds: Any) -> Any:
    """Compute an upper bound on the number of crossed features of each row.

    `starts` is scratch. Returns the largest number of factors of a row, and the first row with too
    many of them, or the number of rows if there is none.
    """
    longest, first_invalid = u64(0), np.uint64(len(indptr) - 1)
    # With at most eight prefixes the group sizes of a row fit into one u64: rows are compared
    # with the latest such row by one instruction.
    fits, latest_counts, latest_bound = plan[N_PREFIXES] <= u64(8), u64(0), u64(0)
    m = previous = u64(0)
    # Invariant: `out_bounds` is set for the rows before i, `previous` is where row i - 1 begins,
    # and `latest_bound` is the bound for the group sizes `latest_counts`.
    for i in range(np.uint64(len(indptr) - 1)):
        lo, hi = indptr[i], indptr[i + u64(1)]
        if i > u64(0) and _has_same_masks(ids, masks, previous, lo, hi):  # usual in tables
            previous = lo
            out_bounds[i] = out_bounds[i - u64(1)]
            continue
        previous = lo
        if fits and hi - lo <= _BYTE:
            m = counts = u64(0)
            for k in range(lo, hi):
                mask = masks[ids[k]]
                m += np.uint64(mask != u64(0))
                counts += _bits_to_bytes(mask)
            if counts != latest_counts:
                _sum_counts(counts, plan, starts)
                latest_counts, latest_bound = counts, bound(plan, starts)
            out_bounds[i] = latest_bound
        else:
            m = _count(ids, masks, lo, hi, plan, starts)
            out_bounds[i] = bound(plan, starts)
        longest = max(longest, m)
        if m > _MAX_FACTORS:
            first_invalid = min(first_invalid, np.uint64(i))
    return longest, first_invalid


class Selection(NamedTuple):
    """A batch without duplicate names in a row, and its factors.

    Attributes
    ----------
    batch : Batch
        The rows.
    ids : ndarray of uint32, shape (nnz,)
        The index of the name of each CSR entry in `masks`, `hashes` and `spans`.
    masks : ndarray of uint64, shape (n_names,)
        The prefixes of each name: bit k for prefix k.
    hashes : ndarray of uint64, shape (n_names,)
        The stable hash of each name; 0 may stand for that of a name without prefix.
    spans : ndarray of uint64, shape (n_names,)
        Where in `name_bytes` each name is: ``first byte << 32 | length``.
    name_bytes : ndarray of uint8
        Bytes that contain the names in UTF-8.
    bounds : ndarray of uint64, shape (n_rows,)
        Upper bound on the number of crossed features of each row.
    longest : int
        The largest number of factors of a row.
    """

    batch: Batch
    ids: Ids
    masks: UInts
    hashes: Hashes
    spans: UInts
    name_bytes: Bytes
    bounds: UInts
    longest: int

    def chunks(self, chunk_cost: int = 0) -> list[tuple[int, int]]:
        """Cut the rows into ranges (lo, hi) that are crossed together.

        Parameters
        ----------
        chunk_cost
            The number of floats that are copied if there are several chunks. Chunks that fit into
            the cache are used only if there are at least as many crossed features.
        """
        ends = np.cumsum(self.bounds)
        fits_cache = len(ends) and chunk_cost <= ends[-1]
        max_chunk = MAX_CHUNK_IN_CACHE if fits_cache else MAX_CHUNK
        if not len(ends) or ends[-1] <= max_chunk:
            return [(0, len(ends))]
        cuts, lo = [0], 0
        # Invariant: a chunk has at most `max_chunk` crossed features, or a single row.
        while lo < len(ends):
            base = int(ends[lo - 1]) if lo else 0
            lo = max(lo + 1, int(np.searchsorted(ends, np.uint64(base + max_chunk), "right")))
            cuts.append(lo)
        return list(zip(cuts[:-1], cuts[1:], strict=True))

    def slice(self, lo: int, hi: int) -> Selection:
        """Return the rows `lo` to `hi - 1`."""
        if (lo, hi) == (0, self.batch.n):
            return self
        rows = self.batch.rows
        first, last = int(rows.indptr[lo]), int(rows.indptr[hi])
        ids = rows.ids[first:last] if self.batch.texts is None else rows.ids
        sliced = Rows(ids, rows.values[first:last], rows.indptr[lo : hi + 1] - rows.indptr[lo])
        texts = None if self.batch.texts is None else self.batch.texts[lo:hi]
        return self._replace(
            batch=self.batch._replace(rows=sliced, texts=texts), ids=self.ids[first:last],
            bounds=self.bounds[lo:hi],
        )  # fmt: skip

    def names_of(self, entries: Ints) -> list[str]:
        """Return the names of CSR entries, which must be factors."""
        spans = self.spans[self.ids[entries]]
        begins, sizes = spans >> OFFSET_BITS, spans & LENGTH_MASK
        pairs = zip(begins.tolist(), (begins + sizes).tolist(), strict=True)
        name_bytes = self.name_bytes.data
        return [str(name_bytes[lo:hi], "utf-8", "surrogatepass") for lo, hi in pairs]


def _encode(crosses: Interactions, names: Sequence[Hashable]) -> tuple[UInts, Hashes, UInts, Bytes]:
    """Return the masks, hashes, spans and UTF-8 of names; the hash is 0 without prefix."""
    name_bytes, spans = encode_names(names)
    masks = np.empty(len(names), np.uint64)
    if COMPILED:
        _masks(np.uint64(name_bytes.ctypes.data), spans, crosses.plan, masks)
    else:
        masks[:] = [crosses.mask(name) for name in names]
    hashes = np.zeros(len(names), np.uint64)
    factors = np.flatnonzero(masks)
    if len(factors):
        hashes[factors] = name_hashes([names[k] for k in factors.tolist()])
    return masks, hashes, spans, name_bytes


def select_factors(crosses: Interactions, batch: Batch) -> Selection:
    """Find the factors of a batch.

    Raises
    ------
    BadExample
        If rows have numbered columns instead of names, or a row has too many factors or would have
        too many crossed features. `row` is the first such row.
    """
    _require_names(batch)
    batch = without_repeats(batch)
    if batch.texts is not None:
        texts = batch.texts
        hashes, _, _ = texts.csr()
        spans, name_bytes = texts.name_spans(), texts.names
        masks = np.empty(len(hashes), np.uint64)
        _masks(np.uint64(name_bytes.ctypes.data), spans, crosses.plan, masks)
        ids = np.arange(len(hashes), dtype=np.uint32)
    else:
        ids = batch.rows.ids
        masks, hashes, spans, name_bytes = _encode(crosses, batch.names or [])
    bounds = np.zeros(batch.n, np.uint64)
    starts = np.zeros(len(crosses.prefixes) + 1, np.uint64)
    result = _bounds(crosses.plan, ids, masks, batch.rows.indptr, starts, bounds)
    longest, first_invalid = map(int, result)
    too_many_crossed = np.flatnonzero(bounds > MAX_CROSSED)
    # Report the first invalid row; if it exceeds both limits, the one on factors.
    if first_invalid < batch.n and not (
        len(too_many_crossed) and too_many_crossed[0] < first_invalid
    ):
        first, last = batch.rows.indptr[first_invalid : first_invalid + 2].tolist()
        n_factors = np.count_nonzero(masks[ids[first:last]])
        raise BadExample(factor_limit_message(int(n_factors)), first_invalid)
    if len(too_many_crossed):
        row = int(too_many_crossed[0])
        raise BadExample(crossed_limit_message(int(bounds[row])), row)
    return Selection(batch, ids, masks, hashes, spans, name_bytes, bounds, longest)


def _require_names(batch: Batch) -> None:
    """Reject rows of numbered columns: they have no prefixes."""
    if batch.below is not None or (batch.names is None and batch.texts is None):
        raise BadExample(
            "rows of numbered columns have no names to cross; give dicts, a data frame or text "
            "with feature names (VW, JSON, CSV), or create the model without cross"
        )


def require_plain(crosses: Interactions, batch: Batch) -> None:
    """Reject the first row with a name that may be that of a crossed feature.

    Raises
    ------
    BadExample
        If there is such a row.
    """
    if batch.texts is not None:
        suspects: list[tuple[int, Hashable]] = []
        texts = batch.texts
        if texts.may_contain(JOINT):
            _, _, indptr = texts.csr()
            names = texts.feature_names(np.arange(int(indptr[-1])))
            entries = [k for k, name in enumerate(names) if JOINT in name]
            suspects = [(row_of_entry(batch.rows.indptr, k), names[k]) for k in entries]
    else:
        vocabulary = batch.names or []
        ids = [k for k, name in enumerate(vocabulary) if isinstance(name, str) and JOINT in name]
        entries = np.flatnonzero(np.isin(batch.rows.ids, np.array(ids, np.uint32))).tolist()
        suspects = [
            (row_of_entry(batch.rows.indptr, k), vocabulary[int(batch.rows.ids[k])])
            for k in entries
        ]
    for row, name in suspects:
        try:
            crosses.require_plain(name)
        except BadExample as bad:
            raise BadExample(bad.reason, row) from None
