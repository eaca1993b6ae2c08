"""Merge duplicate names in rows of text, before any other step sees the values."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.hashing import PROCESS_KEY, keyed_position
from streaml1.core.jit import kernel, u64
from streaml1.core.rows import Rows, are_valid_values
from streaml1.features.batch import Batch, batch_of
from streaml1.features.dedup import repeats

__all__ = ["without_repeats"]

_HALF_BITS, _LOW_HALF = map(u64, (32, 2**32 - 1))


@kernel
def _merge(hashes: Any, values: Any, indptr: Any, key: Any, marks: Any, firsts: Any, sums: Any,
           ends: Any) -> Any:  # fmt: skip
    """Sum the values of equal hashes of a row; return the number of features that remain.

    `firsts` receives the position of the first feature of each hash. `key` is a key of
    `keyed_position`. `marks` is a zeroed hash table whose length is a power of two and more than
    twice that of the longest row. A mark packs the row (high half) and the position in `firsts`
    within the row (low half), so that marks of earlier rows count as empty.
    """
    size = np.uint64(len(marks))
    n = u64(0)
    ends[0] = u64(0)
    for i in range(np.uint64(len(indptr) - 1)):
        row = (i + u64(1)) << _HALF_BITS
        begin = n
        # Invariant: firsts[begin:n] and sums[begin:n] hold the distinct hashes of the row so far.
        for k in range(indptr[i], indptr[i + u64(1)]):
            h = hashes[k]
            place = keyed_position(h, key, size)
            while True:
                mark = marks[place]
                if mark & ~_LOW_HALF != row:
                    marks[place] = row | (n - begin)
                    firsts[n] = k
                    sums[n] = values[k]
                    n += u64(1)
                    break
                first = begin + (mark & _LOW_HALF)
                if hashes[firsts[first]] == h:
                    sums[first] += values[k]
                    break
                place = (place + u64(1)) & (size - u64(1))
        ends[i + u64(1)] = n
    return n


def without_repeats(batch: Batch) -> Batch:
    """Merge duplicate names in each row of a batch of texts; return other batches unchanged."""
    texts = batch.texts
    if texts is None or texts.distinct_names:
        return batch
    hashes, values, indptr = texts.csr()
    indptr = indptr.astype(np.uint64)
    if not repeats(hashes, indptr):
        return batch
    longest = int(np.diff(indptr).max(initial=0))
    marks = np.zeros(1 << max(10, (2 * longest).bit_length()), np.uint64)
    firsts, sums = np.empty(len(hashes), np.uint64), np.empty(len(hashes))
    ends = np.zeros_like(indptr)
    n = int(_merge(hashes, values, indptr, PROCESS_KEY, marks, firsts, sums, ends))
    if not are_valid_values(sums[:n]):
        return batch_of(list(texts))  # raises for the invalid value, or drops zeros
    merged = texts.select_features(
        firsts[:n].astype(np.int64), sums[:n].copy(), ends.astype(np.int64)
    )
    rows = Rows(batch.rows.ids, merged.values, ends)
    return batch._replace(rows=rows, texts=merged)
