"""The typical size of a feature, and values in units of it.

A slot keeps the number n of rows that had the feature and the sum of |x| over them. One value
counts for at most `MAX_JUMP` times the mean of those before it, so that an outlier of any size
moves the mean by a bounded factor. A scaled value is x divided by the mean, clipped to
`MAX_SCALED`. All operations commute with scaling by a power of two: the scaled values are
bit-identical if a column is multiplied by one.
"""

from __future__ import annotations

from streaml1.core.jit import inlined

__all__ = ["MAX_SCALED", "counted_size", "scaled_value"]

MAX_JUMP = 10.0
MAX_SCALED = 3.0


@inlined
def counted_size(x: float, n: float, total: float) -> float:
    """Return what |x| adds to the sum of sizes `total` of `n` earlier values."""
    size = abs(x)
    return min(size, MAX_JUMP * (total / n)) if n > 0.0 else size


@inlined
def scaled_value(x: float, mean: float) -> float:
    """Return x in units of the mean size of its feature, clipped."""
    return min(max(x / mean, -MAX_SCALED), MAX_SCALED)
