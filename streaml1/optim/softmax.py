r"""Lazy multiclass logistic regression: a penalty on the row of k weights that each feature has.

Duchi & Singer (2009), *Efficient learning using forward-backward splitting*: mixed norms, Eq. (8),
Eq. (9). One step at rate $\eta$, on the row $w_j$ of each feature:

- $v_j = w_j - \eta\,x_j\,r$ with $r_c = w\,(p_c - [c = y])$, clipped, and $p$ the softmax of the margins
- $w_j = \mathrm{prox}_{\eta\lambda\|\cdot\|}(v_j) / (1 + \eta\lambda_2)$

The prox of $c\|\cdot\|$: of $\ell_1$, $\mathrm{sgn}(v)[|v| - c]_+$; of $\ell_2$, $v\,[1 - c/\|v\|_2]_+$; of
$\ell_\infty$, v cut at $\pm\theta$ with $\sum_i [|v_i| - \theta]_+ = c$, or 0 where $\|v\|_1 \le c$. All three are
$a\,v + b\,\mathrm{clamp}(v, -\theta, \theta)$ with a, b and $\theta$ told by the row.

Lazily: $\mathrm{prox}_{c\|\cdot\|}(s v) = s\,\mathrm{prox}_{(c/s)\|\cdot\|}(v)$, and prox of c after prox of c' is
prox of c + c'. So with $P = \prod 1/(1+\eta\lambda_2)$ and $A = \sum \eta\lambda/P_{before}$, as in the elastic
net, a row $u = v/P$ that was last touched at $A_0$ is $P\,\mathrm{prox}_{A - A_0}(u)$ at any time: one stamp a
row, two scalars for all.

Differs from the paper: a) it brings a row current by the summed strength alone (Proposition 4), which
is not exact beside squared l2; (P, A) is. b) P underflows and A outgrows the weights in the end: then
every row is written down anew (a pass over all rows). c) For $\ell_\infty$ it names a
search by medians; here $\theta$ comes by Newton's method from the left, in two or three passes.

Cost of a step: k times the non-zeros of the row, and k exponentials; 8 (k + 1) bytes a slot, rounded up
to whole lanes of 8 floats. The stamp is the last column of its row, in the same stream of cache lines.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.aligned import in_lines
from streaml1.core.jit import inlined, kernel
from streaml1.core.rows import ensure
from streaml1.core.simd import array_at, prefetch_early
from streaml1.optim.structures.multiclass import answer, fits, softmax
from streaml1.optim.structures.slot_arrays import records
from streaml1.optim.update_rule import renormalize

__all__ = ["PENALTIES", "Softmax"]

L1, L1_L2, L1_LINF = range(3)
PENALTIES = {"l1": L1, "l1/l2": L1_L2, "l1/linf": L1_LINF}

CLOCK = np.dtype(
    [
        ("P", "f8"),
        ("A", "f8"),
        ("A_low", "f8"),  # what the rounding of A has lost (Kahan)
        ("strength", "f8"),
        ("l2", "f8"),
        ("b", "f8"),  # where the intercept of a new label starts
        ("penalty", "i8"),
        ("k", "i8"),  # labels met
        ("width", "i8"),  # of a row, in floats: weights, some spare, the stamp
    ],
    align=True,
)

# A starts here instead of at 0, so that the stamp of a row that has been touched is never 0.
A_START = 1e-300
# With |v| < 1e90 (see rows.LIMIT: residuals are at most 1), squares of v / P stay finite.
WEIGHT_MOST = 1e90
P_LEAST = 1e-60
# As in the elastic net: a row near its end is known to eps * A * P.
SHRINKAGE_MOST = 64.0
STEPS_LEAST = 256.0

LANES = 8
ONE, FOUR, LINE = np.uint64(1), np.uint64(4), np.uint64(8)
# How many rows ahead of the current one memory is asked for.
AHEAD = np.uint64(64)


def _width(k: int) -> int:
    """How many floats a row of k weights and a stamp takes, in whole lanes."""
    return -(-(k + 1) // LANES) * LANES


def _table(d: int, width: int) -> Any:
    """Zeros for `d` rows, each in lines of the cache of its own."""
    return in_lines(d * width, np.float64).reshape(d, width)


@inlined
def _sum_of_squares(u: Any, base: Any, k: Any) -> float:
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = k - k % FOUR
    for c in range(base, base + whole, FOUR):
        s0 += u[c] * u[c]
        s1 += u[c + ONE] * u[c + ONE]
        s2 += u[c + np.uint64(2)] * u[c + np.uint64(2)]
        s3 += u[c + np.uint64(3)] * u[c + np.uint64(3)]
    for c in range(base + whole, base + k):
        s0 += u[c] * u[c]
    return (s0 + s1) + (s2 + s3)


@inlined
def _farthest(u: Any, base: Any, k: Any) -> float:
    """The largest |u| of a row."""
    m0, m1, m2, m3 = 0.0, 0.0, 0.0, 0.0
    whole = k - k % FOUR
    for c in range(base, base + whole, FOUR):
        v0, v1 = abs(u[c]), abs(u[c + ONE])
        v2, v3 = abs(u[c + np.uint64(2)]), abs(u[c + np.uint64(3)])
        m0 = v0 if v0 > m0 else m0
        m1 = v1 if v1 > m1 else m1
        m2 = v2 if v2 > m2 else m2
        m3 = v3 if v3 > m3 else m3
    for c in range(base + whole, base + k):
        v = abs(u[c])
        m0 = v if v > m0 else m0
    m0 = m0 if m0 > m1 else m1
    m2 = m2 if m2 > m3 else m3
    return m0 if m0 > m2 else m2


@inlined
def _beyond(u: Any, base: Any, k: Any, edge: float) -> tuple[float, float]:
    """By how much, in all, the entries of a row are farther from zero than `edge`; how many are."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    n = np.int64(0)
    whole = k - k % FOUR
    for c in range(base, base + whole, FOUR):
        v0, v1 = abs(u[c]) - edge, abs(u[c + ONE]) - edge
        v2, v3 = abs(u[c + np.uint64(2)]) - edge, abs(u[c + np.uint64(3)]) - edge
        s0 += v0 if v0 > 0.0 else 0.0
        s1 += v1 if v1 > 0.0 else 0.0
        s2 += v2 if v2 > 0.0 else 0.0
        s3 += v3 if v3 > 0.0 else 0.0
        n += np.int64(v0 > 0.0) + np.int64(v1 > 0.0) + np.int64(v2 > 0.0) + np.int64(v3 > 0.0)
    for c in range(base + whole, base + k):
        v = abs(u[c]) - edge
        s0 += v if v > 0.0 else 0.0
        n += np.int64(v > 0.0)
    return (s0 + s1) + (s2 + s3), float(n)


@inlined
def _cut_at(u: Any, base: Any, k: Any, c: float) -> float:
    """The theta at which cutting a row takes away `c` in all; 0 where there is less than that."""
    # Cutting the farthest alone by c takes away c or more: a start from the left, and near.
    theta, n = _farthest(u, base, k) - c, 1.0
    if theta <= 0.0:
        total, n = _beyond(u, base, k, 0.0)
        if total <= c:
            return 0.0
        theta = (total - c) / n
    while True:
        total, fewer = _beyond(u, base, k, theta)
        if fewer == 0.0 or total <= c:
            return theta
        risen = theta + (total - c) / fewer
        if fewer == n or risen <= theta:
            return risen
        theta, n = risen, fewer


@inlined
def _prox(u: Any, base: Any, k: Any, c: float, penalty: int) -> tuple[float, float, float]:
    """(a, b, theta) of the prox of `c` times the norm: a u + b clamp(u, -theta, theta)."""
    if penalty == L1:
        return 1.0, -1.0, c
    if c <= 0.0:
        return 1.0, 0.0, 0.0
    if penalty == L1_L2:
        norm = math.sqrt(_sum_of_squares(u, base, k))
        return (1.0 - c / norm if norm > c else 0.0), 0.0, 0.0
    return 0.0, 1.0, _cut_at(u, base, k, c)


@inlined
def _largest(u: Any, base: Any, k: Any, c: float, penalty: int) -> float:
    """The largest |u| of a row after the prox."""
    a, b, theta = _prox(u, base, k, c, penalty)
    most = _farthest(u, base, k)
    return a * most + b * min(most, theta)


class Softmax(NamedTuple):
    """State of softmax regression: rows of `u` one after the other, intercepts, the ledger."""

    u: Annotated[Any, np.float64]
    b: Annotated[Any, np.float64]
    scratch: Annotated[Any, np.float64]
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        """Bring the rows current, and leave the margins, over P, in `scratch`."""
        o = self.clock[0]
        k, width = np.uint64(o.k), np.uint64(o.width)
        A, penalty, u, a = o.A, o.penalty, self.u, self.scratch
        ahead = AHEAD if hi + AHEAD <= np.uint64(len(ids)) else np.uint64(0)
        for c in range(k):
            a[c] = 0.0
        for i in range(lo, hi):
            far = np.uint64(ids[i + ahead]) * width
            for c in range(far, far + width, LINE):
                prefetch_early(u, c)
            base = np.uint64(ids[i]) * width
            stamp = base + width - ONE
            s, t, theta = _prox(u, base, k, A - u[stamp], penalty)
            x, least = values[i], -theta
            for c in range(k):
                v = u[base + c]
                inside = v if v > least else least
                inside = inside if inside < theta else theta
                v = s * v + t * inside
                u[base + c] = v
                a[c] += v * x
            u[stamp] = A
        return 0.0

    def output_and_gradient(
        self, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        """Probabilities to `out`, residuals to `scratch`; a label that is new joins."""
        o, shared = self.clock[0], online[0]
        first = answer(self.scratch, self.b, o.k, o.P, shared, y, w, out)
        o.k = max(o.k, np.int64(y) + 1)
        return first, 1.0

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        o = self.clock[0]
        k, width = np.uint64(o.k), np.uint64(o.width)
        u, r = self.u, self.scratch
        s = step / o.P
        for i in range(lo, hi):
            base = np.uint64(ids[i]) * width
            x = s * values[i]
            for c in range(k):
                u[base + c] -= x * r[c]

    def apply_penalty(self, eta: float) -> None:
        o = self.clock[0]
        grown = eta * o.strength / o.P - o.A_low
        o.P /= 1.0 + eta * o.l2
        A = o.A + grown
        o.A_low = (A - o.A) - grown
        o.A = A
        if o.P < P_LEAST or max(SHRINKAGE_MOST, STEPS_LEAST * eta * o.strength) < A * o.P:
            renormalize(self)

    def renormalize(self) -> None:
        o = self.clock[0]
        k, width = np.uint64(o.k), np.uint64(o.width)
        u = self.u
        for base in range(np.uint64(0), np.uint64(len(u)), width):
            stamp = base + width - ONE
            if u[stamp] != 0.0:
                s, t, theta = _prox(u, np.uint64(base), k, o.A - u[stamp], o.penalty)
                for c in range(base, base + k):
                    u[c] = (s * u[c] + t * max(-theta, min(theta, u[c]))) * o.P
                u[stamp] = A_START
        o.P = 1.0
        o.A = A_START
        o.A_low = 0.0

    def predict(self, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
        """Place of the first largest probability, -1 where no label is met.

        At `out` stands how many floats may follow; the number of labels takes its place, and where
        they fit their probabilities follow.
        """
        o = self.clock[0]
        k, width = np.uint64(o.k), np.uint64(o.width)
        if not fits(out, k):
            return -1.0
        u, a = self.u, array_at(out + np.uint64(8), k, np.float64)
        for c in range(k):
            a[c] = 0.0
        for i in range(lo, hi):
            base = np.uint64(ids[i]) * width
            s, t, theta = _prox(u, base, k, o.A - u[base + width - ONE], o.penalty)
            x, least = values[i], -theta
            for c in range(k):
                v = u[base + c]
                inside = v if v > least else least
                inside = inside if inside < theta else theta
                a[c] += (s * v + t * inside) * x
        for c in range(k):
            a[c] = a[c] * o.P + self.b[c]
        return float(softmax(a, k))

    def has_capacity(self, nnz: Any) -> bool:
        return True

    def weight(self, j: Any) -> float:
        """Distance from zero of the farthest of the k weights of a slot."""
        o = self.clock[0]
        width = np.uint64(o.width)
        base = np.uint64(j) * width
        c = o.A - self.u[base + width - ONE]
        w: float = _largest(self.u, base, np.uint64(o.k), c, o.penalty) * o.P
        return w

    def weights(self) -> Any:
        return _sizes(self, np.empty(self.size)) * self.clock[0].P

    def rows(self, slots: Any) -> Any:
        """The current k weights of some slots."""
        w = np.empty((len(slots), int(self.clock[0].k)))
        _write_rows(self, np.asarray(slots, np.uint64), w)
        return w

    def seen_mask(self) -> Any:
        return self._table()[:, -1] != 0.0

    def live_mask(self) -> Any:
        return _sizes(self, np.empty(self.size)) > 0.0

    def drop(self, slots: Any) -> None:
        table = self._table()
        table[slots] = 0.0
        table[slots, -1] = A_START

    def reserve(self, nnz: int) -> Softmax:
        return self

    def _table(self) -> Any:
        return self.u.reshape(-1, int(self.clock[0].width))

    @property
    def size(self) -> int:
        return len(self.u) // int(self.clock[0].width)

    @property
    def outputs(self) -> int:
        """How many labels there may be without another rule."""
        return int(self.clock[0].width) - 1

    def widen(self, k: int) -> Softmax:
        """The same rule with room for `k` labels."""
        if k <= self.outputs:
            return self
        met, old = int(self.clock[0].k), self._table()
        width = _width(max(k, self.outputs * 5 // 4))
        clock = self.clock.copy()
        clock[0].width = width
        table = _table(self.size, width)
        table[:, :met], table[:, -1] = old[:, :met], old[:, -1]
        b = np.full(width, clock[0].b)
        b[:met] = self.b[:met]
        return Softmax(table.reshape(-1), b, np.zeros(width), clock)

    def grow(self, d: int) -> Softmax:
        u = in_lines(d * int(self.clock[0].width), np.float64)
        u[: len(self.u)] = self.u
        return self._replace(u=u)

    def remap(self, new_slots: Any, d: int) -> Softmax:
        kept = new_slots >= 0
        table = _table(d, int(self.clock[0].width))
        table[new_slots[kept]] = self._table()[kept]
        return self._replace(u=table.reshape(-1))

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.live_mask())
        k, table = int(self.clock[0].k), self._table()[slots]
        arrays = {"u": table[:, :k], "stamps": table[:, -1], "b": self.b[:k]}
        return slots, {**{n: a.copy() for n, a in arrays.items()}, "clock": self.clock.copy()}

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> Softmax:
        ensure(set(arrays) == {"u", "stamps", "b", "clock"}, "other arrays")
        ensure(arrays["clock"].dtype == CLOCK and arrays["clock"].shape == (1,), "not a ledger")
        clock = records(1, CLOCK)  # aligned, as kernels are compiled for
        clock[:] = arrays["clock"]
        k = int(clock[0]["k"])
        for name, shape in (("u", (len(slots), k)), ("stamps", slots.shape), ("b", (k,))):
            ensure(arrays[name].dtype == np.float64 and arrays[name].shape == shape, f"not {name}")
        width = _width(k)
        clock["width"] = width
        table, b = _table(d, width), np.full(width, clock["b"])
        table[slots, :k], table[slots, -1] = arrays["u"], arrays["stamps"]
        b[:k] = arrays["b"]
        return Softmax(table.reshape(-1), b, np.zeros(width), clock)

    def check(self) -> None:
        ensure(self.clock.dtype == CLOCK and self.clock.shape == (1,), "the ledger is no record")
        o = self.clock[0]
        ensure(0 <= o.k < o.width and o.width % LANES == 0, "labels or width are out of range")
        ensure(self.u.dtype == np.float64 and self.u.ndim == 1, "u is no row of floats")
        ensure(len(self.u) % o.width == 0, "u has no whole rows")
        ensure(self.b.shape == self.scratch.shape == (o.width,), "b or scratch has another width")
        ensure(P_LEAST <= o.P <= 1.0, f"P is {o.P}, out of range")
        ensure(A_START <= o.A and o.A * o.P < WEIGHT_MOST, f"A is {o.A}, out of range")
        ensure(abs(o.A_low) <= o.A, f"A_low is {o.A_low}, out of range")
        ensure(
            0.0 <= o.strength < math.inf and 0.0 <= o.l2 < math.inf, "a strength is out of range"
        )
        ensure(o.penalty in PENALTIES.values(), f"penalty is {o.penalty}")
        table = self._table()
        stamps = table[:, -1]
        ensure(np.all((stamps == 0.0) | (stamps >= A_START)), "a stamp is out of range")
        ensure(np.all(stamps <= o.A), "a stamp is later than now")
        ensure(np.all(np.abs(table[:, :-1]) < WEIGHT_MOST / P_LEAST), "an entry is out of range")
        ensure(not table[:, o.k : -1].any(), "a weight has no label")
        ensure(not table[stamps == 0.0].any(), "a row has no stamp")
        ensure(np.all(np.abs(self.b) < WEIGHT_MOST), "an intercept is out of range")
        ensure(np.all(self.weights() < WEIGHT_MOST), "a weight is out of range")

    @staticmethod
    def start(d: int, k: int, penalty: int, strength: float, l2: float, b: float) -> Softmax:
        """`d` rows of zeros, for `k` labels that are met."""
        width = _width(k)
        clock = records(1, CLOCK)
        clock[0] = (1.0, A_START, 0.0, strength, l2, b, penalty, k, width)
        u = in_lines(d * width, np.float64)
        return Softmax(u, np.full(width, b), np.zeros(width), clock)


@kernel
def _sizes(rule: Any, sizes: Any) -> Any:
    """The largest |u| of each row as of now."""
    o = rule.clock[0]
    width = np.uint64(o.width)
    for j in range(np.uint64(len(sizes))):
        base = np.uint64(j) * width
        c = o.A - rule.u[base + width - ONE]
        sizes[j] = _largest(rule.u, base, np.uint64(o.k), c, o.penalty)
    return sizes


@kernel
def _write_rows(rule: Any, slots: Any, w: Any) -> None:
    o = rule.clock[0]
    k, width = np.uint64(o.k), np.uint64(o.width)
    for i in range(np.uint64(len(slots))):
        base = slots[i] * width
        s, t, theta = _prox(rule.u, base, k, o.A - rule.u[base + width - ONE], o.penalty)
        for c in range(k):
            v = rule.u[base + c]
            w[i, c] = (s * v + t * max(-theta, min(theta, v))) * o.P
