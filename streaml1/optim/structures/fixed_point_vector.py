r"""The raw vector of Duchi et al. (2008), section 6: weights plus a shift that all of them share.

A weight is $w = \mathrm{sgn}(v)\,[\,|v| - \Theta]_+$, and $v$ stands while no example touches it, however
often all weights are moved towards zero: $\Theta$ grows instead. Beside it stand $n$, how many weights
are not zero, and $S = \sum |w|$.

$v$, $\Theta$, $S$ and the radius $z$ are whole numbers of a unit, a power of two. So sums are exact in
any order, and which weights an index looks at first changes nothing. The unit is at most $2^{-49}$ of
the radius, and finer as long as the weights stay far below it; where they outgrow it, all of them are
rounded to a coarser one.

A row whose step may be several radii long would leave the range of whole numbers. It is projected by
itself first, in floats: whatever the other weights are, it is moved by that much at least.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.prefetch import ahead
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early

__all__ = [
    "LEDGER",
    "THETA_MOST",
    "Z_LEAST",
    "begin",
    "check",
    "coarser_unit",
    "drop",
    "state_dict",
    "finer_unit",
    "live_mask",
    "is_short",
    "left_of",
    "margin",
    "move_row",
    "project_row",
    "rescale",
    "from_state_dict",
    "set_radius",
    "weight",
    "weights",
]

LEDGER = [
    ("Theta", "i8"),  # from 1: the v of a slot that has been touched is never 0
    ("S", "i8"),
    ("n", "i8"),
    ("z", "i8"),
    ("least", "i8"),  # the least weight there may be: 0 on the simplex
    ("unit", "f8"),
    ("radius", "f8"),
]
KEPT = np.dtype([("radius", "f8"), ("unit", "f8"), ("nonnegative", "i8")])  # in a file

DIGITS = 50  # binary digits of z where the unit is as coarse as it may be
Z_LEAST = 2 ** (DIGITS - 1)
# S and the length of a step stay below, or the unit becomes coarser, or the row goes by itself.
FULL = 2.0 ** (DIGITS + 2)
# |v| < 2**62 then. One step moves Theta by less than 2 * FULL: hundreds of steps at the very least
# go by between two passes over all slots.
THETA_MOST = 2**61
ANY_SIGN = -(2**62)
# Where a radius has shrunk so far that the unit is too coarse for it, this is projected on first.
Z_COARSE = 2**40
REFINED_BY = 2.0**-10
Z_MOST = 2**60


@inlined
def left_of(v: Any, Theta: Any) -> Any:
    """|w|."""
    return max(abs(v) - Theta, np.int64(0))


@inlined
def weight(slots: Any, clock: Any, j: Any) -> float:
    """The weight of one slot."""
    c = clock[0]
    v = slots[j].v
    left = left_of(v, c.Theta)
    return (left if v > 0 else -left) * c.unit


@inlined
def margin(slots: Any, clock: Any, ids: Any, values: Any, lo: Any, hi: Any) -> float:
    """The margin of a row."""
    c = clock[0]
    Theta = c.Theta
    far = ahead(ids, hi)
    a = 0.0
    for k in range(lo, hi):
        prefetch_early(slots, np.uint64(ids[k + far]))
        v = slots[ids[k]].v
        sign = v >> 63  # 0 or -1: a branch would go wrong half of the time
        left = ((v ^ sign) - sign) - Theta
        left &= ~(left >> 63)
        a += ((left ^ sign) - sign) * values[k]
    return a * c.unit


@inlined
def move_row(slots: Any, clock: Any, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
    """Move the weights of a row: v = w - step x, and the totals."""
    c = clock[0]
    Theta, least = c.Theta, c.least
    s = step / c.unit
    S, n = np.int64(0), np.int64(0)
    for k in range(lo, hi):
        v = slots[ids[k]].v
        sign = v >> 63
        left = ((v ^ sign) - sign) - Theta
        left &= ~(left >> 63)
        S -= left
        n -= np.int64(left != 0)
        w = ((left ^ sign) - sign) - np.int64(np.rint(s * values[k]))
        w = w if w > least else least
        sign = w >> 63
        left = (w ^ sign) - sign
        S += left
        n += np.int64(left != 0)
        left += Theta
        slots[ids[k]].v = (left ^ sign) - sign
    c.S += S
    c.n += n


@inlined
def is_short(clock: Any, values: Any, lo: Any, hi: Any, step: float) -> bool:
    """Whether `move_row` can be trusted with a row: where it says yes, it can."""
    c = clock[0]
    return float(c.S) + _length(values, lo, hi, step) / c.unit < FULL


@inlined
def _length(values: Any, lo: Any, hi: Any, step: float) -> float:
    """An upper bound of sum |step x|."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0  # four at a time: one would wait for the other
    quarter = (hi - lo) >> np.uint64(2)
    for k in range(lo, lo + quarter):
        x = abs(values[k])
        a = x if x > a else a
        x = abs(values[k + quarter])
        b = x if x > b else b
        x = abs(values[k + quarter + quarter])
        c = x if x > c else c
        x = abs(values[k + quarter + quarter + quarter])
        d = x if x > d else d
    for k in range(lo + (quarter << np.uint64(2)), hi):
        x = abs(values[k])
        a = x if x > a else a
    return abs(step) * max(max(a, b), max(c, d)) * float(hi - lo)


def unit_of(most: float) -> float:
    """The unit of which `most` is a number of DIGITS binary digits."""
    return math.ldexp(1.0, math.frexp(most)[1] - DIGITS)


def z_of(radius: float, unit: float) -> float:
    """The radius in units; S never comes near the upper limit."""
    return min(max(radius / unit, float(Z_COARSE)), float(Z_MOST))


# Python calls the plain ones, kernels these.
_unit_of = inlined(unit_of)
_z_of = inlined(z_of)


@inlined
def coarser_unit(clock: Any, values: Any, lo: Any, hi: Any, step: float) -> float:
    """The unit for the weights and a row's step; no coarser than the radius allows."""
    c = clock[0]
    most = c.S * c.unit + _length(values, lo, hi, step)
    return max(c.unit, min(_unit_of(most), _unit_of(c.radius)))


@inlined
def finer_unit(clock: Any) -> float:
    """A unit nearer to that of a radius that has shrunk; S is at most z."""
    c = clock[0]
    return max(c.unit * REFINED_BY, _unit_of(c.radius))


@inlined
def rescale(slots: Any, clock: Any, unit: float) -> None:
    """Write all weights down anew, as multiples of `unit`, with the shift where it began."""
    c = clock[0]
    factor = c.unit / unit
    S, n = np.int64(0), np.int64(0)
    for j in range(np.uint64(len(slots))):
        v = slots[j].v
        if v != 0:
            left = np.int64(np.rint(left_of(v, c.Theta) * factor))
            S += left
            n += np.int64(left != 0)
            slots[j].v = left + 1 if v > 0 else -1 - left
    c.Theta, c.S, c.n = 1, S, n
    c.unit = unit
    c.z = np.int64(_z_of(c.radius, unit))


@inlined
def _moved(slots: Any, clock: Any, j: Any, x: float, s: float) -> float:
    """What `move_row` would make of a weight, in units and as a float."""
    c = clock[0]
    v = slots[j].v
    left = left_of(v, c.Theta)
    w = float(left if v > 0 else -left) - s * x
    return max(w, 0.0) if c.least == 0 else w


@inlined
def project_row(
    slots: Any, clock: Any, ids: Any, values: Any, lo: Any, hi: Any, step: float
) -> Any:
    """Move a row by a long step and project it by itself, as if there were no other weights.

    Its old weights are taken out of S and n; its new ones are written down for a Theta that is
    larger by q, which is what all others must be moved by next.

    Returns
    -------
    tuple
        q, and what the row then adds to S and to n.
    """
    c = clock[0]
    s = step / c.unit
    z = float(c.z)
    most, S, n = 0.0, np.int64(0), np.int64(0)
    for k in range(lo, hi):
        left = left_of(slots[ids[k]].v, c.Theta)
        S += left
        n += np.int64(left != 0)
        most = max(most, abs(_moved(slots, clock, ids[k], values[k], s)))
    c.S -= S
    c.n -= n
    # What is a radius below the largest becomes zero; the rest is small, and so precise.
    base, top = max(most - z, 0.0), min(most, z)  # from `most`: far above z, base has lost z
    theta, rho, before = 0.0, np.int64(0), np.int64(-1)
    while rho != before:  # each theta is too small; what is below it goes, and the next is larger
        total, before, rho = 0.0, rho, np.int64(0)
        for k in range(lo, hi):
            u = (abs(_moved(slots, clock, ids[k], values[k], s)) - most) + top
            total += u if u > theta else 0.0
            rho += np.int64(u > theta)
        if total - rho * theta <= z:
            break
        theta = max(theta, (total - z) / rho)
    # A shift by S is the end of all the others.
    q = c.S if base + theta >= float(c.S) else np.int64(base + theta)
    Theta = c.Theta + q
    S, n = np.int64(0), np.int64(0)
    for k in range(lo, hi):
        w = _moved(slots, clock, ids[k], values[k], s)
        left = np.int64(np.rint(max((abs(w) - most) + top - theta, 0.0)))
        S += left
        n += np.int64(left != 0)
        # One that becomes zero must be so now: the index is not told of it.
        v = left + Theta if left != 0 else np.int64(1)
        slots[ids[k]].v = v if w >= 0.0 else -v
    return q, S, n


# In Python


def begin(clock: Any, radius: float, nonnegative: bool) -> None:
    """No weights yet."""
    clock.Theta[0] = 1
    clock.unit[0] = unit_of(min(radius, 1.0))
    clock.least[0] = 0 if nonnegative else ANY_SIGN
    set_radius(clock, radius)


def set_radius(clock: Any, radius: float) -> None:
    """From the next step on."""
    clock.radius[0] = radius
    clock.z[0] = int(z_of(radius, float(clock.unit[0])))


def _left(slots: Any, clock: Any) -> Any:
    left = np.abs(slots["v"])
    left -= clock[0].Theta
    return np.maximum(left, 0, out=left)


def weights(slots: Any, clock: Any) -> Any:
    """The weights of all slots."""
    return np.copysign(_left(slots, clock) * clock[0].unit, slots["v"])


def live_mask(slots: Any, clock: Any) -> Any:
    """Which weights are not zero."""
    return np.abs(slots["v"]) > clock[0].Theta


def drop(slots: Any, clock: Any, chosen: Any) -> None:
    """The weights of some slots become zero; the index finds out in its time."""
    left = _left(slots[chosen], clock)
    clock.S[0] -= left.sum()
    clock.n[0] -= np.count_nonzero(left)
    slots["v"][chosen] = 1


def state_dict(slots: Any, clock: Any) -> tuple[Any, dict[str, Any]]:
    """The slots of what is not zero, and all that counts; the shift does not."""
    c = clock[0]
    alive = np.flatnonzero(live_mask(slots, clock))
    kept = np.array([(c.radius, c.unit, c.least == 0)], KEPT)
    return alive, {"w": np.sign(slots["v"][alive]) * _left(slots[alive], clock), "kept": kept}


def from_state_dict(slots: Any, clock: Any, chosen: Any, arrays: dict[str, Any]) -> None:
    """Fill empty slots, and a new record, with what was dumped."""
    ensure(set(arrays) == {"w", "kept"}, "other arrays")
    w, kept = arrays["w"], arrays["kept"]
    ensure(w.dtype == np.int64 and w.shape == chosen.shape, "no weights")
    ensure(kept.dtype == KEPT and kept.shape == (1,), "no record")
    ensure(np.all(np.abs(w) < FULL) and np.all(w != 0), "a weight is out of range")
    unit, radius = float(kept["unit"][0]), float(kept["radius"][0])
    ensure(0.0 < unit < math.inf and 0.0 < radius < math.inf, "radius or unit out of range")
    ensure(math.frexp(unit)[0] == 0.5, "the unit is no power of two")
    begin(clock, radius, bool(kept["nonnegative"][0]))
    clock.unit[0] = unit
    set_radius(clock, radius)
    clock.S[0] = sum(map(abs, w.tolist()))
    clock.n[0] = len(w)
    slots["v"][chosen] = w + np.sign(w)


def check(slots: Any, clock: Any) -> None:
    """Raise AssertionError where the ledger is not that of the slots."""
    ensure(clock.shape == (1,), "the ledger is no record")
    c = clock[0]
    left = _left(slots, clock)
    total = sum(left[left > 0].tolist())
    ensure(1 <= c.Theta <= THETA_MOST, f"Theta is {c.Theta}, out of range")
    ensure(total == c.S, f"S is {c.S}, but the weights add up to {total}")
    ensure(np.count_nonzero(left) == c.n, f"n is {c.n}, which is not how many weights there are")
    ensure(c.S < FULL, f"S is {c.S}, out of range")
    ensure(math.frexp(c.unit)[0] == 0.5 and 0.0 < c.radius < math.inf, "unit or radius is none")
    ensure(Z_COARSE <= c.z <= Z_MOST, f"z is {c.z}, out of range")
    ensure(c.z == Z_COARSE or c.z == Z_MOST or c.z == int(c.radius / c.unit), "z is no radius")
    ensure(c.least in (0, ANY_SIGN), f"least is {c.least}")
    if c.least == 0:
        ensure(np.all(slots["v"][left > 0] > 0), "a weight is negative")
