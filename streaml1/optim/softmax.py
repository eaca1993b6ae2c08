r"""Lazy multiclass logistic regression, with a penalty on the row of k weights of each feature.

Duchi & Singer (2009), *Efficient learning using forward-backward splitting*: mixed norms, Eq. 8 and
Eq. 9. One step at rate $\eta$, on the row $w_j$ of each feature:

- $v_j = w_j - \eta\,x_j\,r$ with $r_c = w\,(p_c - [c = y])$, clipped, and $p$ the softmax of the margins
- $w_j = \mathrm{prox}_{\eta\lambda\|\cdot\|}(v_j) / (1 + \eta\lambda_2)$

The prox of $c\|\cdot\|$ is, for $\ell_1$, $\mathrm{sgn}(v)[|v| - c]_+$; for $\ell_2$, $v\,[1 - c/\|v\|_2]_+$; for
$\ell_\infty$, v clamped to $\pm\theta$ with $\sum_i [|v_i| - \theta]_+ = c$, or 0 where $\|v\|_1 \le c$. All three have the
form $a\,v + b\,\mathrm{clamp}(v, -\theta, \theta)$, where a, b and $\theta$ depend on the row.

Lazily: $\mathrm{prox}_{c\|\cdot\|}(s v) = s\,\mathrm{prox}_{(c/s)\|\cdot\|}(v)$, and the prox of c after that of c' is that
of c + c' (Proposition 4). So with $P = \prod 1/(1+\eta\lambda_2)$ and $A = \sum \eta\lambda/P_{before}$, as in the elastic
net, a row $u = v/P$ that was last touched at $A_0$ is $P\,\mathrm{prox}_{A - A_0}(u)$ at any time: one stamp per row,
and two scalars for all.

Stored for each slot is a row of u, some unused columns, and the stamp $A_0$ in the last column, in the
same stream of cache lines.

Differences from the paper:

a) The paper brings a row current by the summed strength alone (Proposition 4), which is not exact together
   with squared l2. (P, A) is.
b) P underflows and A outgrows the weights in the long run. Then `renormalize` rewrites every row (a pass over
   all rows).
c) For $\ell_\infty$ the paper refers to a search by medians. Here $\theta$ is found by Newton's method from the
   left, in two or three passes.

Cost of a step: O(k times the non-zeros of the row), and k exponentials. Memory: 8 (k + 1) bytes per slot,
rounded up to a multiple of 64.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import numpy as np

from streaml1.core.aligned import aligned_zeros
from streaml1.core.jit import generic, inlined, kernel, u64
from streaml1.core.rows import ensure
from streaml1.core.simd import array_at, prefetch_early
from streaml1.core.types import Bools, Floats, Ints, Records
from streaml1.optim.rule_state import (
    LOW,
    Ledger,
    PerRow,
    RuleState,
    Scratch,
    ensure_array,
    ensure_keys,
    new_arrays,
)
from streaml1.optim.structures.multiclass import (
    begin_outputs,
    finish_outputs,
    move_intercepts,
    softmax_residuals,
    wants_margins,
)
from streaml1.optim.structures.soft_threshold import clamped
from streaml1.optim.update_rule import renormalize

__all__ = [
    "A_START",
    "CLOCK",
    "PENALTIES",
    "Softmax",
    "SoftmaxRows",
    "add_product",
    "ahead",
    "bring_current",
    "largest_weight",
    "prefetch_row",
    "prox",
    "shrinkage",
]

L1, L1_L2, L1_LINF = range(3)
PENALTIES = {"l1": L1, "l1/l2": L1_L2, "l1/linf": L1_LINF}

CLOCK = np.dtype(
    [
        ("P", "f8"),
        ("A", "f8"),
        ("A_low", "f8"),  # Kahan compensation: by how much A is too large
        ("strength", "f8"),
        ("l2", "f8"),
        ("b", "f8"),  # intercept of a new label
        ("penalty", "i8"),
        ("k", "i8"),  # number of labels seen
        ("width", "i8"),  # of a row, in floats: weights, unused columns, the stamp
    ],
    align=True,
)

# A starts here instead of at 0, so that the stamp of a touched row is never 0.
A_START = 1e-300
# With |v| < 1e90 (core.rows.VALUE_LIMIT: residuals are at most 1), squares of v / P stay finite.
MAX_WEIGHT = 1e90
MIN_P = 1e-60
# As in the elastic net: a row near its end is known to an absolute error of eps * A * P.
MAX_SHRINKAGE = 64.0
MIN_STEPS = 256.0

LANES = 8
LINE = u64(8)
# By how many non-zeros the prefetch is ahead. Rows are whole cache lines: fewer than in
# core.prefetch.
AHEAD = u64(64)


def _width(k: int) -> int:
    """Return the number of floats of a row of k weights and a stamp, a multiple of LANES."""
    return -(-(k + 1) // LANES) * LANES


def _rows(d: int, width: int) -> Floats:
    """Return zeros for `d` rows, each in cache lines of its own; shape (d, width)."""
    return aligned_zeros(d * width, np.float64).reshape(d, width)


@inlined
def _sum_of_squares(u: Any, base: Any, k: Any) -> float:
    """Return the sum of u^2 of a row. Four accumulators hide the latency of the additions."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    end4 = k - k % u64(4)
    for c in range(base, base + end4, u64(4)):
        s0 += u[c] * u[c]
        s1 += u[c + u64(1)] * u[c + u64(1)]
        s2 += u[c + u64(2)] * u[c + u64(2)]
        s3 += u[c + u64(3)] * u[c + u64(3)]
    for c in range(base + end4, base + k):
        s0 += u[c] * u[c]
    return (s0 + s1) + (s2 + s3)


@inlined
def _max_abs(u: Any, base: Any, k: Any) -> float:
    """Return the largest |u| of a row."""
    m0, m1, m2, m3 = 0.0, 0.0, 0.0, 0.0
    end4 = k - k % u64(4)
    for c in range(base, base + end4, u64(4)):
        v0, v1 = abs(u[c]), abs(u[c + u64(1)])
        v2, v3 = abs(u[c + u64(2)]), abs(u[c + u64(3)])
        m0 = v0 if v0 > m0 else m0
        m1 = v1 if v1 > m1 else m1
        m2 = v2 if v2 > m2 else m2
        m3 = v3 if v3 > m3 else m3
    for c in range(base + end4, base + k):
        v = abs(u[c])
        m0 = v if v > m0 else m0
    m0 = m0 if m0 > m1 else m1
    m2 = m2 if m2 > m3 else m3
    return m0 if m0 > m2 else m2


@inlined
def _excess(u: Any, base: Any, k: Any, threshold: float) -> tuple[float, float]:
    """Return the sum of [|u| - threshold]_+ over a row, and the number of positive terms."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    n = np.int64(0)
    end4 = k - k % u64(4)
    for c in range(base, base + end4, u64(4)):
        v0, v1 = abs(u[c]) - threshold, abs(u[c + u64(1)]) - threshold
        v2, v3 = abs(u[c + u64(2)]) - threshold, abs(u[c + u64(3)]) - threshold
        s0 += v0 if v0 > 0.0 else 0.0
        s1 += v1 if v1 > 0.0 else 0.0
        s2 += v2 if v2 > 0.0 else 0.0
        s3 += v3 if v3 > 0.0 else 0.0
        n += np.int64(v0 > 0.0) + np.int64(v1 > 0.0) + np.int64(v2 > 0.0) + np.int64(v3 > 0.0)
    for c in range(base + end4, base + k):
        v = abs(u[c]) - threshold
        s0 += v if v > 0.0 else 0.0
        n += np.int64(v > 0.0)
    return (s0 + s1) + (s2 + s3), float(n)


@inlined
def _clamp_threshold(u: Any, base: Any, k: Any, c: float) -> float:
    """Return the theta at which clamping a row removes `c` in all; 0 if the row has less than that.

    Newton's method on a convex, decreasing, piecewise linear function. Invariant: theta is at most
    the solution.
    """
    # Clamping the largest alone by c removes c or more: a start from the left, close to the
    # solution.
    theta, n = _max_abs(u, base, k) - c, 1.0
    if theta <= 0.0:
        total, n = _excess(u, base, k, 0.0)
        if total <= c:
            return 0.0
        theta = (total - c) / n
    while True:
        total, fewer = _excess(u, base, k, theta)
        if fewer == 0.0 or total <= c:
            return theta
        risen = theta + (total - c) / fewer
        if fewer == n or risen <= theta:
            return risen
        theta, n = risen, fewer


@inlined
def prox(u: Any, base: Any, k: Any, c: float, penalty: int) -> tuple[float, float, float]:
    """Return (a, b, theta) of the prox of `c` times the norm: a u + b clamp(u, -theta, theta)."""
    if penalty == L1:
        return 1.0, -1.0, c
    if c <= 0.0:
        return 1.0, 0.0, 0.0
    if penalty == L1_L2:
        norm = math.sqrt(_sum_of_squares(u, base, k))
        return (1.0 - c / norm if norm > c else 0.0), 0.0, 0.0
    return 0.0, 1.0, _clamp_threshold(u, base, k, c)


@generic
def shrinkage(rule: Any, j: Any, base: Any) -> tuple[float, float, float]:
    """Return (a, b, theta) of the penalty that the row of slot j, at `base`, has not seen yet.

    As of now the row is a u + b clamp(u, -theta, theta).
    """
    coefficients: tuple[float, float, float] = rule.shrinkage(j, base)
    return coefficients


@inlined
def ahead(ids: Any, hi: Any) -> Any:
    """Return by how many non-zeros `prefetch_row` is ahead in an example that ends at `hi`."""
    return AHEAD if hi + AHEAD <= np.uint64(len(ids)) else u64(0)


@inlined
def prefetch_row(rule: Any, j: Any) -> None:
    """Prefetch the row of slot j."""
    width = np.uint64(rule.clock[0].width)
    base = np.uint64(j) * width
    for c in range(base, base + width, LINE):
        prefetch_early(rule.u, c)


@inlined
def bring_current(rule: Any, j: Any) -> bool:
    """Apply the pending penalty to the row of slot j; return whether any weight is non-zero."""
    o, u = rule.clock[0], rule.u
    k, width = np.uint64(o.k), np.uint64(o.width)
    base = np.uint64(j) * width
    s, t, theta = shrinkage(rule, j, base)
    n_nonzero = np.int64(0)  # a sum, unlike a maximum, is computed for several weights at once
    for c in range(k):
        v = u[base + c]
        v = s * v + t * clamped(v, theta)
        u[base + c] = v
        n_nonzero += np.int64(v != 0.0)
    u[base + width - u64(1)] = o.A
    return bool(n_nonzero > 0)


@inlined
def add_product(rule: Any, j: Any, x: float, a: Any) -> None:
    """Add x times the row of slot j, as of now and over P, to `a`; write nothing else."""
    o, u = rule.clock[0], rule.u
    k = np.uint64(o.k)
    base = np.uint64(j) * np.uint64(o.width)
    s, t, theta = shrinkage(rule, j, base)
    for c in range(k):
        v = u[base + c]
        a[c] += (s * v + t * clamped(v, theta)) * x


@inlined
def largest_weight(rule: Any, j: Any) -> float:
    """Return the largest |u| of the row of slot j as of now."""
    o = rule.clock[0]
    base = np.uint64(j) * np.uint64(o.width)
    s, t, theta = shrinkage(rule, j, base)
    largest = _max_abs(rule.u, base, np.uint64(o.k))
    return s * largest + t * min(largest, theta)


class SoftmaxRows(RuleState):
    """Common base of the softmax rules: rows of weights that `shrinkage` brings current.

    Their fields include those of `SoftmaxState`.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        u: Floats
        b: Floats
        scratch: Floats
        clock: Records

    def weight(self, j: Any) -> float:
        """Return the largest absolute value of the k weights of a slot."""
        w: float = largest_weight(self, j) * self.clock[0].P
        return w

    def weights(self) -> Floats:
        return _max_sizes(self, np.empty(self.size)) * self.clock[0].P

    def rows(self, slots: Ints) -> Floats:
        """Return the current weights of some slots, shape (slots, k)."""
        w = np.empty((len(slots), int(self.clock[0].k)))
        _write_rows(self, np.asarray(slots, np.uint64), w)
        return w

    def intercepts(self) -> Floats:
        """Return the intercept of each label."""
        return self.b[: self.clock[0].k].copy()

    def live_mask(self) -> Bools:
        live: Bools = _max_sizes(self, np.empty(self.size)) > 0.0
        return live

    def seen_mask(self) -> Bools:
        seen: Bools = self._table()[:, -1] != 0.0
        return seen

    def drop(self, slots: Ints) -> None:
        table = self._table()
        table[slots] = 0.0
        table[slots, -1] = A_START

    @property
    def row_width(self) -> int:
        return int(self.clock[0].width)

    def _table(self) -> Floats:
        """Return `u` as a matrix of shape (slots, width)."""
        return self.u.reshape(-1, self.row_width)

    @property
    def outputs(self) -> int:
        """Number of labels that there is room for."""
        return self.row_width - 1

    def widen(self, k: int) -> Self:
        """Return the same rule with room for `k` labels."""
        if k <= self.outputs:
            return self
        n_seen, old = int(self.clock[0].k), self._table()
        width = _width(max(k, self.outputs * 5 // 4))
        clock = self.clock.copy()
        clock[0].width = width
        table = _rows(self.size, width)
        table[:, :n_seen], table[:, -1] = old[:, :n_seen], old[:, -1]
        b = np.full(width, clock[0].b)
        b[:n_seen] = self.b[:n_seen]
        return self._with(u=table.reshape(-1), b=b, scratch=np.zeros(width), clock=clock)

    def state_dict(self) -> tuple[Ints, dict[str, Any]]:
        slots, saved = super().state_dict()
        k, table = int(self.clock[0].k), self._table()[slots]
        arrays = {"u": table[:, :k], "stamps": table[:, -1], "b": self.b[:k]}
        return slots, {**{name: array.copy() for name, array in arrays.items()}, **saved}

    @classmethod
    def from_state_dict(cls, d: int, slots: Ints, arrays: dict[str, Any]) -> Self:
        ensure_keys(arrays, ("u", "stamps", "b", *cls.saved_keys()))
        ensure_array(arrays["clock"], "clock", CLOCK, (1,))
        k, b = int(arrays["clock"][0]["k"]), float(arrays["clock"][0]["b"])
        for name, shape in (("u", (len(slots), k)), ("stamps", slots.shape), ("b", (k,))):
            ensure_array(arrays[name], name, np.float64, shape)
        rule = cls._zeros(d, k, b)
        rule._load_slots(slots, arrays)
        rule._load_ledgers(arrays)
        rule.clock["width"] = _width(k)
        rule._table()[slots, :k], rule._table()[slots, -1] = arrays["u"], arrays["stamps"]
        rule.b[:k] = arrays["b"]
        return rule

    def check(self) -> None:
        super().check()
        o = self.clock[0]
        ensure(0 <= o.k < o.width and o.width % LANES == 0, "labels or width are out of range")
        ensure(len(self.u) % o.width == 0, "u does not consist of whole rows")
        ensure(self.b.shape == self.scratch.shape == (o.width,), "b or scratch has a wrong length")
        ensure(MIN_P <= o.P <= 1.0, f"P={o.P} is out of range")
        ensure(A_START <= o.A and o.A * o.P < MAX_WEIGHT, f"A={o.A} is out of range")
        ensure(abs(o.A_low) <= LOW * o.A, f"A_low={o.A_low} is out of range")
        ensure(
            0.0 <= o.strength < math.inf and 0.0 <= o.l2 < math.inf, "a strength is out of range"
        )
        ensure(o.penalty in PENALTIES.values(), f"penalty={o.penalty} is unknown")
        table = self._table()
        stamps = table[:, -1]
        ensure(np.all((stamps == 0.0) | (stamps >= A_START)), "a stamp is out of range")
        ensure(np.all(stamps <= o.A), "a stamp lies in the future")
        ensure(np.all(np.abs(table[:, :-1]) < MAX_WEIGHT / MIN_P), "an entry is out of range")
        ensure(not table[:, o.k : -1].any(), "a column without a label is not zero")
        ensure(not table[stamps == 0.0].any(), "a row without a stamp is not zero")
        ensure(np.all(np.abs(self.b) < MAX_WEIGHT), "an intercept is out of range")
        ensure(np.all(self.weights() < MAX_WEIGHT), "a weight is out of range")

    @classmethod
    def _zeros(cls, d: int, k: int, b: float) -> Self:
        """Return a rule with `d` rows of zeros, and a clock that knows neither k nor penalty."""
        width = _width(k)
        rows = {"u": aligned_zeros(d * width, np.float64), "b": np.full(width, b)}
        return cls(**new_arrays(cls, d, **rows, scratch=np.zeros(width)))

    @classmethod
    def start(cls, d: int, k: int, penalty: int, strength: float, l2: float, b: float) -> Self:
        """Return a rule with `d` rows of zeros, for `k` labels that were seen."""
        rule = cls._zeros(d, k, b)
        rule.clock[0] = (1.0, A_START, 0.0, strength, l2, b, penalty, k, _width(k))
        return rule


class SoftmaxState(NamedTuple):
    """Rows of u and stamps, intercepts, margins or residuals of the current row, and the ledger."""

    u: Annotated[Floats, PerRow(np.float64)]
    b: Annotated[Floats, Scratch(np.float64)]
    scratch: Annotated[Floats, Scratch(np.float64)]
    clock: Annotated[Records, Ledger(CLOCK)]


class Softmax(SoftmaxRows, SoftmaxState):
    """Lazy multiclass logistic regression."""

    def shrinkage(self, j: Any, base: Any) -> tuple[float, float, float]:
        o = self.clock[0]
        stamp = base + np.uint64(o.width) - u64(1)
        s, t, theta = prox(self.u, base, np.uint64(o.k), o.A - self.u[stamp], o.penalty)
        return s, t, theta

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        """Bring the rows current, store the margins over P in `scratch`, and return 0."""
        o = self.clock[0]
        k, width = np.uint64(o.k), np.uint64(o.width)
        A, penalty, u, a = o.A, o.penalty, self.u, self.scratch
        distance = ahead(ids, hi)
        for c in range(k):
            a[c] = 0.0
        for i in range(lo, hi):
            prefetch_row(self, ids[i + distance])
            base = np.uint64(ids[i]) * width
            stamp = base + width - u64(1)
            s, t, theta = prox(u, base, k, A - u[stamp], penalty)
            x = values[i]
            # As `bring_current`, which would need a second loop: a learning step takes 15 % longer.
            for c in range(k):
                v = u[base + c]
                v = s * v + t * clamped(v, theta)
                u[base + c] = v
                a[c] += v * x
            u[stamp] = A
        return 0.0

    def output_and_gradient(
        self, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        """Write probabilities to `out` and residuals to `scratch`; add the label if it is new."""
        o, shared = self.clock[0], online[0]
        first = softmax_residuals(self.scratch, self.b, o.k, o.P, shared, y, w, out)
        o.k = max(o.k, np.int64(y) + 1)
        move_intercepts(self.b, self.scratch, o.k, shared.intercept_lr)
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
        increase = eta * o.strength / o.P - o.A_low
        o.P /= 1.0 + eta * o.l2
        A = o.A + increase
        o.A_low = (A - o.A) - increase
        o.A = A
        if o.P < MIN_P or max(MAX_SHRINKAGE, MIN_STEPS * eta * o.strength) < A * o.P:
            renormalize(self)

    def renormalize(self) -> None:
        o = self.clock[0]
        k, width = np.uint64(o.k), np.uint64(o.width)
        u = self.u
        for base in range(u64(0), np.uint64(len(u)), width):
            stamp = base + width - u64(1)
            if u[stamp] != 0.0:
                s, t, theta = prox(u, np.uint64(base), k, o.A - u[stamp], o.penalty)
                for c in range(base, base + k):
                    u[c] = (s * u[c] + t * max(-theta, min(theta, u[c]))) * o.P
                u[stamp] = A_START
        o.P = 1.0
        o.A = A_START
        o.A_low = 0.0

    def predict(self, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
        """Return the index of the largest probability, or -1 if no label was seen.

        The float at `out` is the number of floats that fit behind it. It is replaced by the number
        of labels, and if they fit, their probabilities follow; their margins if it was negative.
        """
        k = np.uint64(self.clock[0].k)
        only_margins = wants_margins(out)
        if not begin_outputs(out, k):
            return -1.0
        a = array_at(out + u64(8), k, np.float64)
        for i in range(lo, hi):
            add_product(self, ids[i], values[i], a)
        return finish_outputs(a, self.b, self.clock[0].P, k, only_margins)


@kernel
def _max_sizes(rule: Any, sizes: Any) -> Any:
    """Write the largest |u| of each row as of now to `sizes`."""
    for j in range(np.uint64(len(sizes))):
        sizes[j] = largest_weight(rule, j)
    return sizes


@kernel
def _write_rows(rule: Any, slots: Any, w: Any) -> None:
    """Write the current weights of some slots to `w`, shape (slots, k)."""
    o = rule.clock[0]
    k, width = np.uint64(o.k), np.uint64(o.width)
    for i in range(np.uint64(len(slots))):
        base = slots[i] * width
        s, t, theta = shrinkage(rule, slots[i], base)
        for c in range(k):
            v = rule.u[base + c]
            w[i, c] = (s * v + t * max(-theta, min(theta, v))) * o.P
