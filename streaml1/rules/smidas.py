r"""SMIDAS: mirror descent by the p-norm, made sparse.

Shalev-Shwartz & Tewari (2009), *Stochastic methods for l1 regularized loss minimization*,
Algorithm 3. One step at rate $\eta$, on all coordinates:
$$\theta = \mathrm{soft}(\theta - \eta g x,\ \eta\lambda), \qquad
  w_j = \mathrm{sgn}(\theta_j)\,|\theta_j|^{p-1} / \|\theta\|_p^{p-2}$$

The truncation moves every $\theta_j$, and with it the norm. With $A = \sum \eta\lambda$ since the last
rebase and $u = \mathrm{sgn}(\theta)(|\theta| + A)$, which a step changes on its row alone,
$$|\theta_j| = [\,|u_j| - A]_+, \qquad
  \|\theta\|_p^p = \sum_j (|u_j| - A)_+^p
   = \sum_{k \le K} \tbinom{p}{k} (-A)^k M_k + R, \quad M_k = \sum_j |u_j|^{p-k}$$
The moments $M_k$ do not change when A does: each non-zero of a row adds what it is and takes away
what it was. Taylor's remainder, in A, holds for entries that A has passed as well while K + 1 <= p:
$|R| \le \tbinom{p}{K+1} A^{K+1} M_{K+1}$. That moment is kept too, and where the bound is too large
(or rounding, or the range of a float) all is written down anew with A = 0: a pass over what has
been alive since the last one.

Differs from the paper: a) its Section 3.1 keeps the sum of $|\theta_j|^p$ at the cost of the row,
which holds for the gradient step; the truncation changes all of it, hence the moments. b) w is not
stored: it is made when it is read. c) p = 2 is the truncated gradient, and needs no norm.

The law of state: an entry that A has passed may be given back, or not, so it is never taken out of
the moments, whether its slot still shows it or not; a rebase sums in an order that renumbering
changes, so it sums exactly (two levels of floats on a grid). Lengths are in units of `ref`, the
largest $|\theta_j|$ at the last rebase.

Cost of a step: the non-zeros of the row, two powers each; 20 bytes a slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.jit import inlined, kernel, prefetch, scratch
from streaml1.rows import ensure
from streaml1.rules import rebase, weight
from streaml1.vectors import power, total

__all__ = ["SMIDAS"]

K_LEAST, K_MOST = 2, 22  # K + 2 is a multiple of 4, for speed, unless p is small

CLOCK = np.dtype(
    [
        ("A", "f8"),
        ("A_low", "f8"),  # what the rounding of A has lost (Kahan)
        ("ref", "f8"),
        ("inverse", "f8"),  # 1 / ref, 0 where that is 0
        ("scale", "f8"),  # 1 / |theta|_p
        ("noise", "f8"),  # sum of the squares of M_0 from the last rebase on
        ("l1", "f8"),
        ("p", "f8"),
        ("root", "f8"),  # -1 / p
        ("top", "f8"),  # an entry of so many ref takes the sum out of its range
        ("K", "i8"),
        ("n", "i8"),  # how many entries `listed` has
        ("learnt", "i8"),  # non-zeros of rows since the last rebase
    ],
    align=True,
)
MOMENTS = np.dtype([("M", "f8", (K_MOST + 2,))])

# A starts here instead of at 0, so that a slot that is listed never holds less.
A_START = 1e-300
TOUCHED = 1e-305  # a slot that has been touched, is zero, and is not listed
TINY = 1e-280  # a theta this small is zero at a rebase, so that 1 / ref is finite
WEIGHT_MOST = 1e150
WEIGHT_LEAST = 5e-324  # the weight of a theta that is not zero, where a float has no less
LEAST, MOST = 1e-30, 1e30  # of the sum of |theta / ref|^p
TOLERANCE = 1e-10  # of that sum, relative
NOISE_MOST = 1e-22 / (16 * 2e-32)  # four sigma of rounding: 1e-11
PLAIN_MOST = 16.0  # p = 2: how many ref A may reach

CHUNK = np.uint64(128)  # entries worked on together, as long as a scratch
ZERO, ONE, TWO, THREE, FOUR = (np.uint64(n) for n in range(5))


class SMIDAS(NamedTuple):
    """State: two numbers a slot, the list of slots that may be alive, moments, and the ledger."""

    u: Annotated[Any, np.float64]  # u_j and x^(p - K - 1), x = |u_j| / ref, side by side
    listed: Annotated[Any, np.uint32]
    M: Annotated[Any, np.float64]  # of x
    binomial: Annotated[Any, np.float64]
    clock: Annotated[Any, CLOCK]

    def gather(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c = self.clock[0]
        A, scale, q = c.A, c.scale, c.p - 2.0
        part = scratch()
        ahead = CHUNK if hi + CHUNK <= np.uint64(len(ids)) else ZERO
        a = 0.0
        for at in range(lo, hi, CHUNK):
            n = min(CHUNK, hi - at)
            for k in range(n):
                prefetch(self.u, np.uint64(ids[at + k + ahead]) << ONE)
                part[k] = self.u[np.uint64(ids[at + k]) << ONE]
            for k in range(n):
                u = part[k]
                r = max(abs(u) - A, 0.0)
                part[k] = math.copysign(r * power(r * scale, q), u) * values[at + k]
            a += total(part, n)
        return a

    def scatter(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c = self.clock[0]
        c.learnt += np.int64(hi - lo)
        if step == 0.0:
            for k in range(lo, hi):
                j = np.uint64(ids[k]) << ONE
                if self.u[j] == 0.0:
                    self.u[j] = TOUCHED
            return
        A, q = c.A, c.p - (c.K + 1.0)
        inverse, most = c.inverse, c.top * c.ref
        old, before, after = scratch(), scratch(), scratch()
        new, was, now = scratch(), scratch(), scratch()
        for at in range(lo, hi, CHUNK):
            n = min(CHUNK, hi - at)
            for k in range(n):
                j = np.uint64(ids[at + k]) << ONE
                old[k] = self.u[j]
                was[k] = self.u[j + ONE]
            for k in range(n):
                u = old[k]
                r = abs(u) - A
                v = math.copysign(max(r, 0.0), u) - step * values[at + k]
                new[k] = v + math.copysign(A, v)
                after[k] = min(abs(new[k]), most) * inverse
                before[k] = abs(u) * inverse
                was[k] = was[k] if r > 0.0 else 0.0
            for k in range(n):
                now[k] = power(after[k], q)
            for k in range(n):
                j = np.uint64(ids[at + k]) << ONE
                self.u[j] = new[k]
                self.u[j + ONE] = now[k]
                if abs(old[k]) < A_START:
                    self.listed[c.n] = ids[at + k]
                    c.n += 1
            _exchange(self, n, before, after, was, now, new)

    def tick(self, eta: float) -> None:
        c = self.clock[0]
        grown = eta * c.l1 - c.A_low
        A = c.A + grown
        c.A_low = (A - c.A) - grown
        c.A = A
        # p = 2: w is theta, and A may go far
        due = not (c.ref if c.K >= 0 else PLAIN_MOST * c.ref) >= A
        if c.K >= 0 and not due:
            due = not _norm_is_known(self)
        if due:
            rebase(self)

    def rebase(self) -> None:
        c = self.clock[0]
        A = c.A
        n = ZERO
        ref = 0.0
        for k in range(np.uint64(c.n)):
            j = np.uint64(self.listed[k]) << ONE
            u = self.u[j]
            r = abs(u) - A
            if r > TINY:
                self.u[j] = math.copysign(r + A_START, u)
                self.listed[n] = self.listed[k]
                n += ONE
                ref = max(ref, r)
            else:
                self.u[j] = TOUCHED
        c.n = n
        c.A = A_START
        c.A_low = c.noise = c.scale = 0.0
        c.ref = ref
        c.inverse = 1.0 / ref if ref > 0.0 else 0.0
        if c.K >= 0:
            _count(self)
            c.noise = self.M[0] * self.M[0]
            if c.n > 0:
                c.scale = c.inverse * math.pow(self.M[0], c.root)
        c.learnt = 0

    def room(self, nnz: Any) -> bool:
        return True  # `listed` has an entry for each slot

    def weight(self, j: Any) -> float:
        c = self.clock[0]
        u = self.u[np.uint64(j) << ONE]
        r = abs(u) - c.A
        if not r > 0.0:
            return 0.0
        w = r * power(r * c.scale, c.p - 2.0)
        return math.copysign(max(w, WEIGHT_LEAST), u)

    def weights(self) -> Any:
        w = np.zeros(self.size)
        _weights(self, w)
        return w

    def touched(self) -> Any:
        return self.u[::2] != 0.0

    def holding(self) -> Any:
        return np.abs(self.u[::2]) > self.clock[0].A

    def drop(self, slots: Any) -> None:
        c = self.clock[0]
        u = self.u[2 * slots]
        self.u[2 * slots] = np.where(np.abs(u) < A_START, u, c.A)
        if np.any(np.abs(u) > c.A):
            _rebase(self)

    def make_room(self, nnz: int) -> SMIDAS:
        return self

    @property
    def size(self) -> int:
        return len(self.listed)

    def grow(self, d: int) -> SMIDAS:
        u, listed = np.zeros(2 * d), np.zeros(d, np.uint32)
        u[: len(self.u)], listed[: self.size] = self.u, self.listed
        return self._replace(u=u, listed=listed)

    def renumber(self, new_slots: Any, d: int) -> SMIDAS:
        kept = np.flatnonzero(new_slots >= 0)
        pairs = np.zeros((d, 2))
        pairs[new_slots[kept]] = self.u.reshape(-1, 2)[kept]
        return self._replace(u=pairs.ravel())._listed_anew()

    def _listed_anew(self) -> SMIDAS:
        slots = np.flatnonzero(np.abs(self.u[::2]) >= A_START)
        listed = np.zeros(len(self.u) // 2, np.uint32)
        listed[: len(slots)] = slots
        self.clock[0].n = len(slots)
        return self._replace(listed=listed)

    def set_p(self, p: float) -> None:
        """Give theta another norm, as of now."""
        self._write_p(p)
        _rebase(self)

    def _write_p(self, p: float) -> None:
        c = self.clock[0]
        c.p = p
        c.root = -1.0 / p
        c.top = 2.0 * MOST ** (1.0 / p)
        c.K = -2 if p == 2.0 else min(K_LEAST, math.floor(p) - 1)
        for k in range(K_MOST + 1):
            self.binomial[k + 1] = self.binomial[k] * (p - k) / (k + 1.0)

    def dump(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.holding())
        moments = np.zeros(1, MOMENTS)
        moments["M"] = self.M
        pairs = self.u.reshape(-1, 2)[slots]
        arrays = {"u": pairs[:, 0].copy(), "power": pairs[:, 1].copy()}
        return slots, {**arrays, "moments": moments, "clock": self.clock.copy()}

    @staticmethod
    def restore(d: int, slots: Any, arrays: dict[str, Any]) -> SMIDAS:
        ensure(set(arrays) == {"u", "power", "moments", "clock"}, "other arrays")
        for name in ("u", "power"):
            array = arrays[name]
            ensure(array.dtype == np.float64 and array.shape == slots.shape, f"not {name}")
        ensure(arrays["clock"].dtype == CLOCK, "not a ledger")
        ensure(arrays["moments"].dtype == MOMENTS, "no moments")
        pairs = np.zeros((d, 2))
        pairs[slots, 0], pairs[slots, 1] = arrays["u"], arrays["power"]
        clock = np.zeros(1, CLOCK)  # aligned, as kernels are compiled for
        clock[:] = arrays["clock"]
        rule = SMIDAS.start(0, float(clock["l1"][0]), float(clock["p"][0]))
        rule.M[:] = arrays["moments"]["M"][0]
        return rule._replace(u=pairs.ravel(), clock=clock.view(np.recarray))._listed_anew()

    def check(self) -> None:
        ensure(self.u.dtype == np.float64 and len(self.u) == 2 * self.size, "u is no pairs")
        ensure(self.listed.dtype == np.uint32, "listed holds no slots")
        ensure(self.M.shape == self.binomial.shape == (K_MOST + 2,), "moments are missing")
        ensure(self.clock.dtype == CLOCK and self.clock.shape == (1,), "the ledger is no record")
        c = self.clock[0]
        ensure(A_START <= c.A < WEIGHT_MOST, f"A is {c.A}, out of range")
        ensure(abs(c.A_low) <= c.A, f"A_low is {c.A_low}, out of range")
        ensure(0.0 <= c.l1 < math.inf, f"l1 is {c.l1}, out of range")
        ensure(0.0 <= c.ref < WEIGHT_MOST, f"ref is {c.ref}, out of range")
        ensure(0.0 <= c.noise < math.inf, f"noise is {c.noise}, out of range")
        ensure(np.all(np.isfinite(self.M)), "a moment is not finite")
        ensure(np.all(np.isfinite(self.u)), "an entry of u is not finite")
        ensure(2.0 <= c.p <= 100.0, f"p is {c.p}, out of range")
        ensure(c.top == 2.0 * MOST ** (1.0 / c.p) and c.root == -1.0 / c.p, "not of this p")
        ensure(c.inverse == (1.0 / c.ref if c.ref > 0.0 else 0.0), f"1 / ref is {c.inverse}")
        most = min(K_MOST, math.floor(c.p) - 1)
        ensure(c.K == -2 if c.p == 2.0 else 1 <= c.K <= most, f"K is {c.K}")
        ensure(0 <= c.n <= self.size and c.learnt >= 0, "a count is out of range")
        u = np.abs(self.u[::2])
        listed = np.flatnonzero(u >= A_START)
        ensure(np.array_equal(np.sort(self.listed[: c.n]), listed), "the list is wrong")
        ensure(np.all(u < WEIGHT_MOST), "an entry of u is out of range")
        theta = np.maximum(u - c.A, 0.0)
        if c.p == 2.0 or not theta.any():
            ensure(c.scale == 0.0 or theta.any() or c.ref > 0.0, f"scale is {c.scale}")
            return
        largest = theta.max()
        norm = largest * np.sum((theta / largest) ** c.p) ** (1.0 / c.p)
        ensure(abs(c.scale * norm - 1.0) < 1e-9, f"scale is {c.scale}, the norm {norm}")

    @staticmethod
    def start(d: int, l1: float, p: float) -> SMIDAS:
        """`d` zero weights."""
        clock = np.zeros(1, CLOCK).view(np.recarray)
        clock[0].A, clock[0].l1 = A_START, l1
        M, binomial = np.zeros(K_MOST + 2), np.ones(K_MOST + 2)
        rule = SMIDAS(np.zeros(2 * d), np.zeros(d, np.uint32), M, binomial, clock)
        rule._write_p(p)
        return rule


@inlined
def _norm_is_known(rule: Any) -> bool:
    """Take the norm from the moments, if it is known to TOLERANCE from them."""
    c = rule.clock[0]
    a = -c.A * c.inverse
    power_of_a, s, size = 1.0, 0.0, 0.0
    last = np.uint64(c.K + 1)
    for k in range(last):
        term = rule.binomial[k] * power_of_a * rule.M[k]
        s += term
        size += abs(term)
        power_of_a *= a
    R = abs(rule.binomial[last] * power_of_a * rule.M[last])
    if not TOLERANCE * s >= R:
        _choose_K(c)
        return False
    M_0 = rule.M[0]
    c.noise += M_0 * M_0
    if not LEAST <= s <= MOST or c.noise * size * size > NOISE_MOST * M_0 * M_0 * s * s:
        return False
    c.scale = c.inverse * math.pow(s, c.root)
    return True


@inlined
def _exchange(rule: Any, n: Any, before: Any, after: Any, was: Any, now: Any, part: Any) -> None:
    """Add what `n` entries are now to the moments and take away what they were."""
    K = rule.clock[0].K
    part_2, part_3, part_4 = scratch(), scratch(), scratch()
    terms = np.uint64(K + 2)
    whole = (terms >> TWO) << TWO
    for i in range(ZERO, whole, FOUR):  # four at a time, for speed
        for k in range(n):
            x, y = after[k], before[k]
            new, old = now[k], was[k]
            part[k] = new - old
            new *= x
            old *= y
            part_2[k] = new - old
            new *= x
            old *= y
            part_3[k] = new - old
            new *= x
            old *= y
            part_4[k] = new - old
            now[k] = new * x
            was[k] = old * y
        rule.M[terms - ONE - i] += total(part, n)
        rule.M[terms - TWO - i] += total(part_2, n)
        rule.M[terms - THREE - i] += total(part_3, n)
        rule.M[terms - FOUR - i] += total(part_4, n)
    for i in range(whole, terms):
        for k in range(n):
            part[k] = now[k] - was[k]
            now[k] *= after[k]
            was[k] *= before[k]
        rule.M[terms - ONE - i] += total(part, n)


@inlined
def _choose_K(c: Any) -> None:
    """More terms where rebases cost more than the rows between them, else fewer."""
    if c.learnt < 6 * c.n:
        c.K += 4
    elif c.learnt > 150 * c.n:
        c.K -= 4
    most = np.int64(math.floor(c.p)) - 1
    c.K = min(max(c.K, K_LEAST), K_MOST, most)


@inlined
def _count(rule: Any) -> None:
    """Sum up the moments of what is listed, exactly: in any order, the same floats.

    No x is above 1, so on a grid that the number of entries fits, partial sums are exact; what is
    off the grid is on a finer one.
    """
    c = rule.clock[0]
    terms, n = np.uint64(c.K + 2), np.uint64(c.n)
    q = c.p - (c.K + 1.0)
    inverse = c.inverse
    coarse = 1.0
    while coarse < n:
        coarse *= 2.0
    fine = 1.5 * coarse * coarse * 2.0**-52
    x, t, on_grid, off_grid = scratch(), scratch(), scratch(), scratch()
    low = scratch()
    for i in range(np.uint64(len(rule.M))):
        rule.M[i] = low[i] = 0.0
    for at in range(ZERO, n, CHUNK):
        m = min(CHUNK, n - at)
        for k in range(m):
            x[k] = abs(rule.u[np.uint64(rule.listed[at + k]) << ONE]) * inverse
        for k in range(m):
            t[k] = power(x[k], q)
        for k in range(m):
            rule.u[(np.uint64(rule.listed[at + k]) << ONE) + ONE] = t[k]
        for i in range(terms):
            for k in range(m):
                h = (t[k] + coarse) - coarse
                on_grid[k] = h
                off_grid[k] = ((t[k] - h) + fine) - fine
                t[k] *= x[k]
            rule.M[terms - ONE - i] += total(on_grid, m)
            low[terms - ONE - i] += total(off_grid, m)
    for i in range(terms):
        rule.M[i] += low[i]


@kernel
def _weights(rule: Any, w: Any) -> None:
    for k in range(np.uint64(rule.clock[0].n)):
        j = rule.listed[k]
        w[j] = weight(rule, j)


@kernel
def _rebase(rule: Any) -> None:
    rebase(rule)
