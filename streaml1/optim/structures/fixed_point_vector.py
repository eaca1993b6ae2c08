r"""The raw vector of Duchi et al. (2008), section 6: weights plus a shift that all of them share.

A weight is $w = \mathrm{sgn}(v)\,[\,|v| - \Theta]_+$. $v$ does not change while no example touches it, however
often all weights are moved towards zero: $\Theta$ grows instead. The ledger also holds $n$, the number of
non-zero weights, and $S = \sum |w|$.

$v$, $\Theta$, $S$ and the radius $z$ are integer multiples of a unit, a power of two. So sums are exact in
any order, and the order in which an index visits the weights changes nothing. The unit is at most
$2^{-49}$ of the radius, and finer as long as the weights stay far below the radius. Where they outgrow it,
all of them are rounded to a coarser one.

Invariants: a touched slot has v != 0, because Theta starts at 1; S and n are exact at all times; S is below
`FULL` and |v| below 2**62, so that no sum overflows.

Cost: O(1) for each non-zero of a row; O(number of slots) for `rescale`.

A row whose step may be several radii long would leave the range of the integers. It is first projected by
itself, in floats. This removes nothing that the projection of the whole vector retains, since that shift is
at least as large, whatever the other weights are.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, u64
from streaml1.core.prefetch import prefetch_distance
from streaml1.core.simd import prefetch_early
from streaml1.core.simd.math import binary_exponent
from streaml1.core.types import Ints

__all__ = [
    "ANY_SIGN",
    "COARSE_Z",
    "FULL",
    "LEDGER",
    "MAX_THETA",
    "MAX_Z",
    "MIN_Z",
    "SAVED",
    "coarser_unit",
    "finer_unit",
    "is_short",
    "margin",
    "move_row",
    "project_row",
    "rescale",
    "size_of",
    "sizes_of",
    "unit_of",
    "weight",
    "z_of",
]

LEDGER = [
    ("Theta", "i8"),
    ("S", "i8"),
    ("n", "i8"),
    ("z", "i8"),
    ("least", "i8"),  # lower bound of a weight: 0 if nonnegative
    ("unit", "f8"),
    ("radius", "f8"),
]
SAVED = np.dtype([("radius", "f8"), ("unit", "f8"), ("nonnegative", "i8")])

DIGITS = 50  # binary digits of z at the coarsest unit
MIN_Z = 2 ** (DIGITS - 1)
# S and the length of a step stay below this, or the unit becomes coarser, or the row goes by
# itself.
FULL = 2.0 ** (DIGITS + 2)
# Then |v| < 2**62. One step moves Theta by less than 2 * FULL, so at least hundreds of steps lie
# between two passes over all slots.
MAX_THETA = 2**61
ANY_SIGN = -(2**62)
# Where the radius has shrunk so far that the unit is too coarse for it, this is projected on first.
COARSE_Z = 2**40
REFINEMENT = 2.0**-10
MAX_Z = 2**60


@inlined
def size_of(v: Any, Theta: Any) -> Any:
    """Return |w|."""
    return max(abs(v) - Theta, np.int64(0))


@inlined
def weight(slots: Any, clock: Any, j: Any) -> float:
    """Return the weight of a slot."""
    c = clock[0]
    v = slots[j].v
    size = size_of(v, c.Theta)
    return (size if v > 0 else -size) * c.unit


@inlined
def margin(slots: Any, clock: Any, ids: Any, values: Any, lo: Any, hi: Any) -> float:
    """Return the margin of a row."""
    c = clock[0]
    Theta = c.Theta
    distance = prefetch_distance(ids, hi)
    a = 0.0
    for k in range(lo, hi):
        prefetch_early(slots, np.uint64(ids[k + distance]))
        v = slots[ids[k]].v
        sign = v >> 63  # 0 or -1. A branch on the sign would be mispredicted half of the time
        size = ((v ^ sign) - sign) - Theta
        size &= ~(size >> 63)
        a += ((size ^ sign) - sign) * values[k]
    return a * c.unit


@inlined
def move_row(slots: Any, clock: Any, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
    """Move the weights of a row: v = w - step x; update S and n."""
    c = clock[0]
    Theta, lower = c.Theta, c.least
    s = step / c.unit
    S, n = np.int64(0), np.int64(0)
    for k in range(lo, hi):
        v = slots[ids[k]].v
        sign = v >> 63
        size = ((v ^ sign) - sign) - Theta
        size &= ~(size >> 63)
        S -= size
        n -= np.int64(size != 0)
        w = ((size ^ sign) - sign) - np.int64(np.rint(s * values[k]))
        w = w if w > lower else lower
        sign = w >> 63
        size = (w ^ sign) - sign
        S += size
        n += np.int64(size != 0)
        size += Theta
        slots[ids[k]].v = (size ^ sign) - sign
    c.S += S
    c.n += n


@inlined
def is_short(clock: Any, values: Any, lo: Any, hi: Any, step: float) -> bool:
    """Return whether `move_row` is certain not to overflow on a row."""
    c = clock[0]
    return float(c.S) + _length(values, lo, hi, step) / c.unit < FULL


@inlined
def _length(values: Any, lo: Any, hi: Any, step: float) -> float:
    """Return an upper bound of sum |step x|."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0  # four accumulators hide the latency
    quarter = (hi - lo) >> u64(2)
    for k in range(lo, lo + quarter):
        x = abs(values[k])
        a = x if x > a else a
        x = abs(values[k + quarter])
        b = x if x > b else b
        x = abs(values[k + quarter + quarter])
        c = x if x > c else c
        x = abs(values[k + quarter + quarter + quarter])
        d = x if x > d else d
    for k in range(lo + (quarter << u64(2)), hi):
        x = abs(values[k])
        a = x if x > a else a
    return abs(step) * max(max(a, b), max(c, d)) * float(hi - lo)


def unit_of(size: float) -> float:
    """Return the unit in which `size` has DIGITS binary digits."""
    return math.ldexp(1.0, math.frexp(size)[1] - DIGITS)


def z_of(radius: float, unit: float) -> float:
    """Return the radius in units; S stays far below the upper limit."""
    return min(max(radius / unit, float(COARSE_Z)), float(MAX_Z))


@inlined
def _unit_of(size: float) -> float:
    """Return `unit_of`, for kernels."""
    return math.pow(2.0, binary_exponent(size) - DIGITS)  # exact


_z_of = inlined(z_of)  # for kernels; Python calls the function itself


@inlined
def coarser_unit(clock: Any, values: Any, lo: Any, hi: Any, step: float) -> float:
    """Return the unit for the weights and the step of a row, at most that of the radius."""
    c = clock[0]
    length = c.S * c.unit + _length(values, lo, hi, step)
    return max(c.unit, min(_unit_of(length), _unit_of(c.radius)))


@inlined
def finer_unit(clock: Any) -> float:
    """Return a unit closer to that of a radius that has shrunk; S is at most z."""
    c = clock[0]
    return max(c.unit * REFINEMENT, _unit_of(c.radius))


@inlined
def rescale(slots: Any, clock: Any, unit: float) -> None:
    """Rewrite all weights as multiples of `unit`, and let the shift restart."""
    c = clock[0]
    factor = c.unit / unit
    S, n = np.int64(0), np.int64(0)
    for j in range(np.uint64(len(slots))):
        v = slots[j].v
        if v != 0:
            size = np.int64(np.rint(size_of(v, c.Theta) * factor))
            S += size
            n += np.int64(size != 0)
            slots[j].v = size + 1 if v > 0 else -1 - size
    c.Theta, c.S, c.n = 1, S, n
    c.unit = unit
    c.z = np.int64(_z_of(c.radius, unit))


@inlined
def _moved(slots: Any, clock: Any, j: Any, x: float, s: float) -> float:
    """Return the weight of slot j after the step, in units, as a float."""
    c = clock[0]
    v = slots[j].v
    size = size_of(v, c.Theta)
    w = float(size if v > 0 else -size) - s * x
    return max(w, 0.0) if c.least == 0 else w


@inlined
def project_row(
    slots: Any, clock: Any, ids: Any, values: Any, lo: Any, hi: Any, step: float
) -> Any:
    """Move a row by a long step and project it by itself, as if there were no other weights.

    Its old weights are removed from S and n. Its new ones are stored for a Theta that is larger by
    q; the caller must move all other weights by q next.

    Returns
    -------
    tuple of int
        q, and what the row then adds to S and to n.
    """
    c = clock[0]
    s = step / c.unit
    z = float(c.z)
    largest, S, n = 0.0, np.int64(0), np.int64(0)
    for k in range(lo, hi):
        size = size_of(slots[ids[k]].v, c.Theta)
        S += size
        n += np.int64(size != 0)
        largest = max(largest, abs(_moved(slots, clock, ids[k], values[k], s)))
    c.S -= S
    c.n -= n
    # Weights more than a radius below the largest become zero. The differences to the largest are
    # small, and so precise; far above z, `base` has lost z to rounding.
    base, top = max(largest - z, 0.0), min(largest, z)
    theta, rho, before = 0.0, np.int64(0), np.int64(-1)
    while rho != before:  # invariant: theta is at most the solution
        total, before, rho = 0.0, rho, np.int64(0)
        for k in range(lo, hi):
            u = (abs(_moved(slots, clock, ids[k], values[k], s)) - largest) + top
            total += u if u > theta else 0.0
            rho += np.int64(u > theta)
        if total - rho * theta <= z:
            break
        theta = max(theta, (total - z) / rho)
    # A shift by S ends all other weights.
    q = c.S if base + theta >= float(c.S) else np.int64(base + theta)
    Theta = c.Theta + q
    S, n = np.int64(0), np.int64(0)
    for k in range(lo, hi):
        w = _moved(slots, clock, ids[k], values[k], s)
        size = np.int64(np.rint(max((abs(w) - largest) + top - theta, 0.0)))
        S += size
        n += np.int64(size != 0)
        # A weight that becomes zero must be zero at the old Theta too: the index does not see it.
        v = size + Theta if size != 0 else np.int64(1)
        slots[ids[k]].v = v if w >= 0.0 else -v
    return q, S, n


def sizes_of(slots: Any, clock: Any) -> Ints:
    """Return |w| of some slots, in units."""
    size = np.abs(slots["v"])
    size -= clock[0].Theta
    return np.maximum(size, 0, out=size)
