"""Features put into some rows of those that were read by a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.text.parsed_rows import NamedRows

__all__ = ["mended"]


def mended(x: NamedRows, found: list[tuple[int, list[str], list[float]]], kept: Any) -> NamedRows:
    """The rows that are kept, with features put behind those of some."""
    counts = np.diff(x.indptr)
    for row, names, _ in found:
        counts[row] += len(names)
    indptr = np.concatenate([[0], np.cumsum(counts[kept])])
    hashes, values, spans, arena = x.hashes, x.values, x.spans, x.names
    new = [name for _, names, _ in found for name in names]
    if new:
        ends = [np.full(len(names), x.indptr[row + 1]) for row, names, _ in found]
        places = np.concatenate(ends)
        raw = [name.encode() for name in new]
        sizes = np.array([len(one) for one in raw], np.uint64)
        half = np.uint64(32)
        used = int(((spans >> half) + (spans & np.uint64(2**32 - 1))).max(initial=0))
        arena = arena[:used]
        begins = np.cumsum(sizes, dtype=np.uint64) - sizes + np.uint64(used)
        arena = np.concatenate([arena, np.frombuffer(b"".join(raw), np.uint8)])
        hashes = np.insert(hashes, places, name_hashes(new))
        spans = np.insert(spans, places, begins << half | sizes)
        values = np.insert(values, places, [v for _, _, vs in found for v in vs])
    return NamedRows(
        hashes, values, indptr, arena, spans, x.text, x.begins[kept], x.ends[kept], x.one, x.header
    )  # fmt: skip
