r"""Running means of sizes that resist outliers, and feature values in units of their mean size.

The scale of a feature is the mean of $|x|$ over the rows that have it, the current one included. A size counts
for at most ten times the mean of those before it, so that one outlier among n rows raises the mean by a
factor of at most $1 + 10/n$. A value over its scale is clipped to $\pm 3$.

Multiplying all values of a feature by a power of two changes no bit of its scaled values. A feature whose
values are all equal has the scaled values 1 or -1.
"""  # noqa: E501

from __future__ import annotations

from streaml1.core.jit import inlined

__all__ = ["MAX_SCALED", "add_size", "scaled"]

MAX_SHARE = 10.0
MAX_SCALED = 3.0
"""Upper bound of the absolute value of a scaled value."""


@inlined
def add_size(n: float, total: float, size: float) -> float:
    """Return `total`, the sum of `n` sizes, with one more size."""
    limit = MAX_SHARE * total  # times n: a division is needed for outliers only
    if size * n > limit and total > 0.0:
        size = limit / n
    return total + size


@inlined
def scaled(x: float, mean: float) -> float:
    """Return x / mean, clipped to [-3, 3]; 0 if x is 0, whatever the mean."""
    z = x / mean if x != 0.0 else 0.0
    z = z if z > -MAX_SCALED else -MAX_SCALED
    return z if z < MAX_SCALED else MAX_SCALED
