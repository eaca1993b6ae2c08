r"""Newton steps on the support: for what is left when the signs of the weights are known.

Among weights whose signs $s_j$ stay, the objective has no kinks,

$$F(w) = \frac 1n \sum_i \phi_i(a_i) + \sum_j \bigl(c_j w_j + l_{1j} s_j w_j
+ \tfrac12 l_{2j} w_j^2\bigr), \qquad a = Aw$$

and a step d solves $(A^\top \mathrm{diag}(\phi'')\, A / n + l_2)\, d = -\nabla F$ by conjugate gradients. Along it
a weight stops at zero, and it is halved until the objective has fallen: no step raises that. Where
the support is that of the optimum, few of them make the slopes exact. That is what the dual wants:
it answers to the first order of what is off, the objective to the second.
"""  # noqa: E501

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import kernel
from streaml1.solvers.objective import bends, derivatives, mean_loss
from streaml1.solvers.sampling import ONE, add, dot

__all__ = ["FASTER", "SLACK", "Face", "Watch", "polish"]

# Newton steps begin where no more of the support has changed, and go on while gaps fall so fast.
SETTLED = 0.1
FASTER = 0.5
SLACK = 0.5  # of the gap to reach, what slopes may cost

STEPS = 2
PASSES = 100  # over the columns, for one step
LOOSE, TIGHT = 0.3, 0.1  # of the slopes, in the norm of the diagonal, what a step leaves
HALVINGS = 4
DECREASE = 0.01  # of what the slope promises
ROUNDING = 5e-16  # of the objective
FLAT = 1e-30  # a curvature that says nothing


class Watch:
    """Tells when the support has settled; not so soon again where steps on it have not paid."""

    def __init__(self) -> None:
        self.support: Any = None
        self.wait, self.pause = 0, 0

    def settled(self, w: Any) -> bool:
        """Whether Newton steps are worth a try, the weights as they are."""
        before, self.support = self.support, w != 0.0
        self.wait -= 1
        if before is None or self.wait >= 0:
            return False
        changed = np.count_nonzero(self.support != before)
        return bool(changed <= SETTLED * np.count_nonzero(self.support))

    def told(self, paid: bool) -> None:
        """Hear whether the steps have paid."""
        self.pause = 0 if paid else 2 * self.pause + 1
        self.wait = self.pause


class Face(NamedTuple):
    """Columns, which of them are chosen, and what their weights pay beside the loss."""

    ids: Any
    values: Any
    indptr: Any
    chosen: Any  # uint32
    l1: Any
    l2: Any
    c: Any
    sign: Any  # of the weights, and of those at zero that they are pushed to

    def penalty(self, w: Any) -> float:
        """What the weights pay."""
        return float(self.c @ w + self.l1 @ np.abs(w) + 0.5 * (self.l2 @ (w * w)))

    def kept(self, w: Any) -> Any:
        """The weights, zero where their sign is not the one of the face."""
        return np.where((self.l1 > 0.0) & (w * self.sign < 0.0), 0.0, w)


@kernel
def _margins(f: Any, w: Any, a: Any) -> None:
    """Put A w into a."""
    for i in range(np.uint64(len(a))):
        a[i] = 0.0
    for t in range(np.uint64(len(w))):
        if w[t] != 0.0:
            j = np.uint64(f.chosen[t])
            add(f.ids, f.values, f.indptr[j], f.indptr[j + ONE], w[t], a)


@kernel
def _slopes(f: Any, theta: Any, out: Any) -> None:
    """Put A^T theta / n into out."""
    for t in range(np.uint64(len(out))):
        j = np.uint64(f.chosen[t])
        out[t] = dot(f.ids, f.values, f.indptr[j], f.indptr[j + ONE], theta) / len(theta)


@kernel
def _diagonal(f: Any, h: Any, out: Any) -> Any:
    """Put sum_i h_i a_ij^2 / n into out; returns how many entries the columns have."""
    read = np.uint64(0)
    for t in range(np.uint64(len(out))):
        j = np.uint64(f.chosen[t])
        total = 0.0
        for k in range(f.indptr[j], f.indptr[j + ONE]):
            total += h[f.ids[k]] * f.values[k] * f.values[k]
        out[t] = total / len(h)
        read += f.indptr[j + ONE] - f.indptr[j]
    return read


def _step(f: Face, h: Any, g: Any, free: Any, diag: Any, part: float, most: int) -> tuple[Any, int]:
    """The Newton step of the weights that are free, and how often it went over the columns."""
    a, q, d = np.empty(len(h)), np.empty(len(g)), np.zeros(len(g))
    free = free & (diag + f.l2 > FLAT)
    inverse = np.where(free, 1.0 / np.maximum(diag + f.l2, FLAT), 0.0)
    r = np.where(free, -g, 0.0)
    p = inverse * r
    size = float(r @ p)
    least = part * part * size
    for turn in range(1, most + 1):
        _margins(f, p, a)
        a *= h
        _slopes(f, a, q)
        q += f.l2 * p
        bend = float(p @ q)
        if not bend > FLAT * size:  # flat, as far as floats tell
            return d, turn
        d += (size / bend) * p
        r -= (size / bend) * np.where(free, q, 0.0)
        z = inverse * r
        before, size = size, float(r @ z)
        if size <= least:
            return d, turn
        p = z + (size / before) * p
    return d, most


def polish(
    f: Face, y: Any, loss: int, gamma: float, w: Any, goal: float, most: int
) -> tuple[Any, int, int]:
    """Take Newton steps at the chosen weights until their slopes are off by `goal` at most.

    Parameters
    ----------
    f
        The columns, and what the weights pay.
    y, loss, gamma
        Labels, the loss's code, and the width of the smoothed hinge.
    w
        The chosen weights as they are.
    goal
        A slope that is as good as none.
    most
        How often the columns may be gone over.

    Returns
    -------
    tuple
        The new weights; how often the columns were gone over; how many entries were read.
    """
    n, passes, nnz = len(y), 0, 0
    a, theta, h = np.empty(n), np.empty(n), np.empty(n)
    g, diag = np.empty(len(w)), np.empty(len(w))

    def value(w: Any) -> float:
        _margins(f, w, a)
        return float(mean_loss(loss, a, y, gamma)) + f.penalty(w)

    best, size, part = value(w), 0.0, LOOSE
    for _ in range(STEPS):
        derivatives(loss, a, y, gamma, theta)
        bends(loss, a, y, gamma, h)
        _slopes(f, theta, g)
        g += f.c + f.l2 * w + f.l1 * f.sign
        # What has come to zero stays there, unless it is pushed the way that it may go.
        free = (f.l1 == 0.0) | (w != 0.0) | (g * f.sign < 0.0)
        if passes + 2 > most or not np.abs(g[free]).max(initial=0.0) > goal:
            break
        nnz = int(_diagonal(f, h, diag))
        before, size = size, float(np.abs(g[free]).max())
        part = min(LOOSE, max(TIGHT, size / before)) if before else LOOSE
        d, taken = _step(f, h, g, free, diag, part, min(PASSES, most - passes - 1))
        passes += taken + 1
        highest, s = best + ROUNDING * abs(best), 1.0
        for _ in range(HALVINGS):
            there = f.kept(w + s * d)
            new = value(there)
            if new <= highest + DECREASE * min(float(g @ (there - w)), 0.0):
                break
            s *= 0.5
        else:
            break
        w, best = there, new
    return w, passes, 2 * nnz * passes
