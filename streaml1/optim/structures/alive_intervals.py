r"""Prefix sums by which the contribution of a weight is found that has died since its last touch.

For averaged rules with an l1 penalty (`streaml1.optim.averaged.AveragedL1`). Between two touches a
weight moves as $w_s = \mathrm{sgn}\,P_s\,[m - A_s]_+$, where P and A are common to all weights and A never
falls. While it lives, its sum over the steps up to t grows by

$$X_t = m \sum_{s \le t} P_s - \sum_{s \le t} P_s A_s$$

and no longer from the step on in which A reaches m. So X of a dead weight takes the two running sums
as of the last step with A < m.

Structure:

- `prefix_sums` is an array of (A, P_sum, PA_sum), one element for each distinct value of A since the
  last restart, in rising order: the running sums after the last step that had this A. Element 0 is
  from before the first step.
- `grid` speeds up the search. The values of A, from that of element 0 on, are divided into `cells`
  cells of equal width; `grid[k]` is the last element in cell k or before. `spec` describes the grid.

Invariants: the last element is that of the current A; A rises strictly; a weight that died before the
last restart is stored as dead, with its sum in `sums`.

Cost: O(1) amortized for `extend`; for a lookup one probe of the grid and a bisection within a cell,
O(1) expected if A rises evenly, O(log n) at most. A weight is looked up as dead at most once for each
touch, because it is stored as dead then.

The array holds `budget` elements. Then all sums are settled (a pass over all slots), and it restarts.
None of it is saved: dead weights are saved with their sums, and live ones die after now.

A rule that uses it has the fields `mean` (with the fields of `MEAN`), `prefix_sums`, `grid`, `spec` and
`row_slots`. It stores a weight as a size and a part a of A, with m = size + a: the weight is alive while
size > A - a.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, u64
from streaml1.core.rows import ensure
from streaml1.core.types import Floats
from streaml1.optim.structures import running_averages
from streaml1.optim.structures.running_averages import MAX_RATIO, MAX_SUM
from streaml1.optim.structures.slot_arrays import records

__all__ = [
    "BUDGET",
    "CELLS_PER_STEP",
    "GRID_SPEC",
    "MAX_BUDGET",
    "MEAN",
    "PREFIX_SUM",
    "check",
    "contribution",
    "contributions",
    "extend",
    "has_room",
    "is_full",
    "restart",
    "with_room",
]

MEAN = np.dtype(
    [
        *running_averages.MEAN,
        ("P_sum", "f8"),  # since the last restart
        ("PA_sum", "f8"),
        ("entries", "u8"),  # prefix sums since then, element 0 not counted
        ("first", "u8"),  # which of them is element 0: not 0 only after loading
        ("budget", "u8"),
    ],
    align=True,
)
GRID_SPEC = np.dtype(
    [
        ("cells", "u8"),  # number of cells; 0: there is no grid yet
        ("top", "u8"),  # last cell with an element
        ("cells_per_A", "f8"),
    ],
    align=True,
)
PREFIX_SUM = np.dtype([("A", "f8"), ("P_sum", "f8"), ("PA_sum", "f8")], align=True)
BUDGET, MAX_BUDGET = 2**20, 2**30
CELLS_PER_STEP = 4
CELLS, MIN_CELLS = u64(CELLS_PER_STEP), u64(running_averages.MIN_ROOM)


@inlined
def contribution(rule: Any, A: float, size: float, a: float) -> float:
    """Return X without its sign; 0 for a weight that is stored as dead."""
    m = rule.mean[0]
    if size > A - a:
        return (size + a) * m.P_sum - m.PA_sum
    if not size > rule.prefix_sums[0].A - a:
        return 0.0
    return _contribution_of_dead(rule, size, a)


@inlined
def _contribution_of_dead(rule: Any, size: float, a: float) -> float:
    """Return X of a weight that has died since the last restart."""
    last = rule.prefix_sums[_last_alive(rule, size, a)]
    return (size + a) * last.P_sum - last.PA_sum


@inlined
def _last_alive(rule: Any, size: float, a: float) -> Any:
    """Return the last element at which a weight lived that is dead by now.

    Invariant of the bisection: the weight lived at `lo` and was dead at `hi`.
    """
    m, g, sums = rule.mean[0], rule.spec[0], rule.prefix_sums
    last = m.entries - m.first
    cell = np.uint64(min((size + a - sums[0].A) * g.cells_per_A, np.float64(g.top)))
    lo = np.uint64(rule.grid[cell - u64(1)]) if cell else u64(0)
    hi = min(np.uint64(rule.grid[cell]) + u64(1), last)
    # The grid is off by the rounding of size + a, and knows no infinite A: correct both ends.
    while not size > sums[lo].A - a:
        lo -= u64(1)
    while size > sums[hi].A - a:
        hi += u64(1)
    # One step usually decides, and without a branch.
    near = min(lo + u64(1), last)
    lo += np.uint64((near < hi) & (size > sums[near].A - a))
    while lo + u64(1) < hi:
        middle = (lo + hi) >> u64(1)
        if size > sums[middle].A - a:
            lo = middle
        else:
            hi = middle
    return lo


@inlined
def _add_to_grid(rule: Any, i: Any) -> bool:
    """Add the next element i to the grid; return whether its A lies within the grid."""
    g = rule.spec[0]
    x = (rule.prefix_sums[i].A - rule.prefix_sums[0].A) * g.cells_per_A
    if not x < g.cells:
        return False
    cell = np.uint64(x)
    for k in range(g.top + u64(1), cell):
        rule.grid[k] = i - u64(1)
    rule.grid[cell] = i
    g.top = cell
    return True


@inlined
def _grid_last(rule: Any, last: Any) -> None:
    """Add the last element to the grid, or build a grid of twice the range if it does not fit."""
    g, A = rule.spec[0], rule.prefix_sums[last].A
    if math.isinf(A) or (last + last <= g.cells and _add_to_grid(rule, last)):
        return
    g.cells = min(CELLS * last + MIN_CELLS, np.uint64(len(rule.grid)))
    g.cells_per_A = min(g.cells / (2.0 * (A - rule.prefix_sums[0].A)), 1e300)
    g.top = u64(0)
    rule.grid[0] = 0
    for i in range(u64(1), last + u64(1)):
        _add_to_grid(rule, i)


@inlined
def extend(rule: Any, A: float, P: float) -> None:
    """Count a step and add to the running sums; A and P are those after it.

    An infinite A has ended all weights: it adds nothing.
    """
    m = rule.mean[0]
    m.t += 1
    if not math.isinf(A):
        m.P_sum += P
        m.PA_sum += P * A
    risen = rule.prefix_sums[m.entries - m.first].A != A
    m.entries += np.uint64(risen)
    last = m.entries - m.first
    element = rule.prefix_sums[last]
    element.A = A
    element.P_sum = m.P_sum
    element.PA_sum = m.PA_sum
    if risen:
        _grid_last(rule, last)


@inlined
def is_full(rule: Any, P: float) -> bool:
    """Return whether the sums must be settled: for the budget, or before they cancel."""
    m = rule.mean[0]
    cancels: bool = m.P_sum > MAX_RATIO * m.t * P
    return m.entries >= m.budget or cancels


@inlined
def restart(rule: Any, A: float) -> None:
    """Restart the prefix sums; all sums have been settled."""
    m = rule.mean[0]
    m.P_sum = 0.0
    m.PA_sum = 0.0
    m.entries = u64(0)
    m.first = u64(0)
    element = rule.prefix_sums[0]
    element.A = A
    element.P_sum = 0.0
    element.PA_sum = 0.0
    rule.spec[0].cells = u64(0)
    rule.spec[0].top = u64(0)
    rule.grid[0] = 0


@inlined
def has_room(rule: Any, nnz: Any) -> bool:
    """Return whether there is room for a row of `nnz` non-zeros and for one more element."""
    m = rule.mean[0]
    steps = m.entries - m.first + u64(1) < np.uint64(len(rule.prefix_sums))
    return steps and nnz < np.uint64(min(len(rule.row_sums), len(rule.row_slots)))


# Python.


def with_room(rule: Any, nnz: int) -> dict[str, Any]:
    """Return the fields of a rule with room for a row of `nnz` non-zeros and for a step."""
    m, sums, grid, row_slots = rule.mean[0], rule.prefix_sums, rule.grid, rule.row_slots
    if m.entries - m.first + 1 >= len(sums):
        n = min(2 * len(sums), int(max(m.budget, m.entries)) + 2)
        sums = records(n, PREFIX_SUM)
        sums[: len(rule.prefix_sums)] = rule.prefix_sums
        grid = np.zeros(CELLS_PER_STEP * n, np.uint32)
        grid[: len(rule.grid)] = rule.grid
    if nnz >= len(row_slots):
        row_slots = np.zeros(max(nnz + 1, 2 * len(row_slots)), np.uint32)
    return {"row_slots": row_slots, "prefix_sums": sums, "grid": grid}


def contributions(rule: Any, A: float, size: Floats, a: Any) -> Floats:
    """Return `contribution` for all slots, the same floats."""
    m, sums = rule.mean[0], rule.prefix_sums
    alive = size > A - a
    X = np.where(alive, (size + a) * m.P_sum - m.PA_sum, 0.0)
    dead = np.flatnonzero(~alive & (size > sums[0].A - a))
    size, a = size[dead], np.broadcast_to(a, X.shape)[dead]
    lo, hi = np.zeros(len(dead), np.int64), np.full(len(dead), int(m.entries - m.first))
    while np.any(lo + 1 < hi):
        middle = (lo + hi) // 2
        lived = size > sums.A[middle] - a
        lo, hi = np.where(lived, middle, lo), np.where(lived, hi, middle)
    last = sums[lo]
    X[dead] = (size + a) * last["P_sum"] - last["PA_sum"]
    return X


def check(rule: Any, A: float, P: float) -> None:
    """Raise AssertionError if an invariant is broken; A and P are those after the last step."""
    m, sums = rule.mean[0], rule.prefix_sums
    ensure(1 <= m.budget <= MAX_BUDGET, f"budget={m.budget} is out of range")
    ensure(m.first <= m.entries, f"first={m.first} is above entries={m.entries}")
    last = int(m.entries - m.first)
    ensure(last < len(sums), f"{last} prefix sums do not fit in {len(sums)}")
    limit = MAX_RATIO * m.t * P
    ensure(0.0 <= m.P_sum <= limit, f"P_sum={m.P_sum} is not within [0, {limit}]")
    ensure(0.0 <= m.PA_sum < MAX_SUM, f"PA_sum={m.PA_sum} is out of range")
    ensure(tuple(sums[last]) == (A, m.P_sum, m.PA_sum), "the last prefix sum is not current")
    ensure(np.all(np.diff(sums.A[: last + 1]) > 0.0), "the prefix sums do not rise in A")
    ensure(len(rule.grid) == CELLS_PER_STEP * len(sums), "the grid has a wrong length")
    g = rule.spec[0]
    cells = rule.grid[: g.top + u64(1)].astype(int)
    ensure(g.cells <= len(rule.grid) and np.all(np.diff(cells) >= 0), "the grid falls")
    ensure(cells[-1] == (last if g.cells else 0), "the grid does not end with the last prefix sum")
