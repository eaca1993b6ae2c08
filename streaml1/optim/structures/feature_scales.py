r"""Running means of sizes that resist outliers, and feature values in units of their mean size.

The scale of a feature is the mean of $|x|$ over the rows that have it, the current one included. A size counts
for at most ten times the mean of those before it, so that one outlier among n rows raises the mean by a
factor of at most $1 + 10/n$. A value over its scale, z, is bounded: `scaled` clips it to $\pm 3$; `saturated`
replaces it beyond 1 by $\pm(a - (a - 1)^2 / (|z| + a - 2))$, which has the slope 1 there and approaches the ceiling a.

Multiplying all values of a feature by a power of two changes no bit of its scaled values. A feature whose
values are all equal has the scaled values 1 or -1.
"""  # noqa: E501

from __future__ import annotations

import math

from streaml1.core.jit import inlined

__all__ = ["MAX_SCALED", "add_size", "bounded", "saturated", "scaled"]

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


@inlined
def saturated(x: float, mean: float, ceiling: float) -> float:
    """Return x / mean, beyond 1 bent towards the ceiling; 0 if x is 0, whatever the mean."""
    z = x / mean if x != 0.0 else 0.0
    size, rest = abs(z), ceiling - 1.0
    return z if size <= 1.0 else math.copysign(ceiling - rest * rest / (size - 1.0 + rest), z)


@inlined
def bounded(x: float, mean: float, ceiling: float) -> float:
    """Return x / mean, saturated below the ceiling, or clipped if the ceiling is 0."""
    return saturated(x, mean, ceiling) if ceiling > 0.0 else scaled(x, mean)
