r"""When weights died: what averaged rules with an l1 penalty share.

Such a weight moves as $w_s = \mathrm{sgn}(u)\,P_s\,[m - A_s]_+$ until it is touched again, with P and A common
to all and A never falling. While it lives its sum over the steps up to t grows with

$$X = m \sum_{s \le t} P_s - \sum_{s \le t} P_s A_s$$

and no longer from the step on in which A passes m. So the running sums are kept by the values of A, in a
table: an entry for each, with the sums of the last step that had it. A weight that is found dead is
looked up, once, for its sum is written down then: marks at equal distances of A tell where, a bisection
the rest. One that dies in the step that touches it is written down at once.

The table holds `budget` entries. Then all sums are written down and it starts anew (a pass over all
slots). Of what is dumped no entry is needed: what is dead has its sum written down, and what lives will
die after now.

A rule that uses this has the fields `row` (the slots of the row in hand), `table`, `marks` and `ruler`. The
size of a weight as it stores it is m - a: a is the part that it has from A.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.rows import ensure
from streaml1.optim.structures import running_averages
from streaml1.optim.structures.slot_arrays import records

__all__ = [
    "BUDGET",
    "BUDGET_MOST",
    "ENTRY",
    "MEAN",
    "RULER",
    "begin",
    "begun",
    "check",
    "enter",
    "full",
    "has_room",
    "note_row",
    "since",
    "since_all",
    "undumped",
    "with_room",
]

MEAN = np.dtype(
    [
        *running_averages.MEAN,
        ("P_sum", "f8"),  # since the table was begun
        ("PA_sum", "f8"),
        ("entries", "u8"),  # since then, without the first
        ("first", "u8"),  # which of them the table begins with
        ("budget", "u8"),
    ],
    align=True,
)
# The values of A from that of the first entry, in cells of equal width; marks[k] is the last entry
# that lies in the cell k or before it. Only there for speed.
RULER = np.dtype([("cells", "u8"), ("top", "u8"), ("cells_of_A", "f8")], align=True)
ENTRY = np.dtype([("A", "f8"), ("P_sum", "f8"), ("PA_sum", "f8")], align=True)
BUDGET, BUDGET_MOST = 2**20, 2**30
ONE = np.uint64(1)
FINE = np.uint64(4)  # cells an entry
ROOM_LEAST = np.uint64(running_averages.ROOM_LEAST)


@inlined
def since(rule: Any, A: float, size: float, a: float) -> float:
    """X: what a weight has added to its sum since the table was begun, had it been as it is."""
    m = rule.mean[0]
    if size > A - a:
        return (size + a) * m.P_sum - m.PA_sum
    if not size > rule.table[0].A - a:
        return 0.0  # and its sum is written down
    return since_before(rule, size, a)


@inlined
def since_before(rule: Any, size: float, a: float) -> float:
    """X of a weight that has died since the table was begun."""
    entry = rule.table[_last_of_life(rule, size, a)]
    return (size + a) * entry.P_sum - entry.PA_sum


@inlined
def _last_of_life(rule: Any, size: float, a: float) -> Any:
    """The last entry at which a weight lived that is dead by now."""
    m, r, table = rule.mean[0], rule.ruler[0], rule.table
    last = m.entries - m.first
    cell = np.uint64(min((size + a - table[0].A) * r.cells_of_A, np.float64(r.top)))
    lo = np.uint64(rule.marks[cell - ONE]) if cell else np.uint64(0)
    hi = min(np.uint64(rule.marks[cell]) + ONE, last)
    # The marks are off by what rounding makes of size + a, and by an infinite A.
    while not size > table[lo].A - a:
        lo -= ONE
    while size > table[hi].A - a:
        hi += ONE
    # It lived at lo, and was dead at hi. Most often one step tells, and no branch need be guessed.
    near = min(lo + ONE, last)
    lo += np.uint64((near < hi) & (size > table[near].A - a))
    while lo + ONE < hi:
        middle = (lo + hi) >> ONE
        if size > table[middle].A - a:
            lo = middle
        else:
            hi = middle
    return lo


@inlined
def _mark(rule: Any, i: Any) -> bool:
    """Mark the entry i, the next; whether it lies within the ruler."""
    r = rule.ruler[0]
    x = (rule.table[i].A - rule.table[0].A) * r.cells_of_A
    if not x < r.cells:
        return False
    cell = np.uint64(x)
    for k in range(r.top + ONE, cell):
        rule.marks[k] = i - ONE
    rule.marks[cell] = i
    r.top = cell
    return True


@inlined
def _mark_last(rule: Any, last: Any) -> None:
    """Mark the last entry, by a ruler of twice the length where the one in use does not do."""
    r, A = rule.ruler[0], rule.table[last].A
    if math.isinf(A) or (last + last <= r.cells and _mark(rule, last)):
        return
    r.cells = min(FINE * last + ROOM_LEAST, np.uint64(len(rule.marks)))
    r.cells_of_A = min(r.cells / (2.0 * (A - rule.table[0].A)), 1e300)
    r.top = np.uint64(0)
    rule.marks[0] = 0
    for i in range(ONE, last + ONE):
        _mark(rule, i)


@inlined
def enter(rule: Any, A: float, P: float) -> None:
    """Count a step: A and P are those after it. An infinite A has ended all weights."""
    m = rule.mean[0]
    m.t += 1
    if not math.isinf(A):
        m.P_sum += P
        m.PA_sum += P * A
    risen = rule.table[m.entries - m.first].A != A
    m.entries += np.uint64(risen)
    last = m.entries - m.first
    entry = rule.table[last]
    entry.A = A
    entry.P_sum = m.P_sum
    entry.PA_sum = m.PA_sum
    if risen:
        _mark_last(rule, last)


@inlined
def full(rule: Any, P: float) -> bool:
    """Whether the sums must be written down: for the budget, or before they cancel."""
    m = rule.mean[0]
    far: bool = m.P_sum > running_averages.FAR * m.t * P
    return m.entries >= m.budget or far


@inlined
def begin(rule: Any, A: float) -> None:
    """Begin the table anew; all sums have been written down."""
    m = rule.mean[0]
    m.P_sum = 0.0
    m.PA_sum = 0.0
    m.entries = np.uint64(0)
    m.first = np.uint64(0)
    entry = rule.table[0]
    entry.A = A
    entry.P_sum = 0.0
    entry.PA_sum = 0.0
    rule.ruler[0].cells = np.uint64(0)
    rule.ruler[0].top = np.uint64(0)
    rule.marks[0] = 0


@inlined
def note_row(rule: Any, ids: Any, lo: Any, hi: Any, smallest: float) -> None:
    """Keep the slots of a row and the smallest m of theirs until the step has been taken."""
    rule.in_hand[0] = smallest
    rule.row[0] = hi - lo
    for k in range(lo, hi):
        rule.row[k - lo + ONE] = ids[k]


@inlined
def has_room(rule: Any, nnz: Any) -> bool:
    """Whether a row and one entry more have room."""
    m = rule.mean[0]
    steps = m.entries - m.first + ONE < np.uint64(len(rule.table))
    return steps and nnz < np.uint64(min(len(rule.in_hand), len(rule.row)))


# In Python.


def with_room(rule: Any, nnz: int) -> dict[str, Any]:
    """The fields of a rule with room for a row."""
    m, table, marks, row = rule.mean[0], rule.table, rule.marks, rule.row
    if m.entries - m.first + 1 >= len(table):
        entries = min(2 * len(table), int(max(m.budget, m.entries)) + 2)
        table = records(entries, ENTRY)
        table[: len(rule.table)] = rule.table
        marks = np.zeros(int(FINE) * entries, np.uint32)
        marks[: len(rule.marks)] = rule.marks
    if nnz >= len(row):
        row = np.zeros(max(nnz + 1, 2 * len(row)), np.uint32)
    in_hand = running_averages.hand_for(rule, nnz)
    return {"in_hand": in_hand, "row": row, "table": table, "marks": marks}


def since_all(rule: Any, A: float, size: Any, a: Any) -> Any:
    """X of all slots: the floats of `since`."""
    m, table = rule.mean[0], rule.table
    alive = size > A - a
    X = np.where(alive, (size + a) * m.P_sum - m.PA_sum, 0.0)
    dead = np.flatnonzero(~alive & (size > table[0].A - a))
    size, a = size[dead], np.broadcast_to(a, X.shape)[dead]
    lo, hi = np.zeros(len(dead), np.int64), np.full(len(dead), int(m.entries - m.first))
    while np.any(lo + 1 < hi):
        middle = (lo + hi) // 2
        lived = size > table.A[middle] - a
        lo, hi = np.where(lived, middle, lo), np.where(lived, hi, middle)
    entry = table[lo]
    X[dead] = (size + a) * entry["P_sum"] - entry["PA_sum"]
    return X


def begun(budget: int) -> Any:
    """A record of no step."""
    mean = records(1, MEAN)
    mean[0].budget = budget
    return mean


def undumped(mean: Any, A: float) -> tuple[Any, ...]:
    """`in_hand`, `row`, `table`, `marks` and `ruler`; the table's one entry is that of now."""
    m = mean[0]
    table = records(running_averages.ROOM_LEAST, ENTRY)
    m.first = m.entries
    table[0] = (A, m.P_sum, m.PA_sum)
    row = np.zeros(running_averages.ROOM_LEAST, np.uint32)
    marks = np.zeros(int(FINE) * running_averages.ROOM_LEAST, np.uint32)
    return np.zeros(running_averages.ROOM_LEAST), row, table, marks, records(1, RULER)


def check(rule: Any, A: float, P: float) -> None:
    """Raise AssertionError where an invariant is broken."""
    for name, dtype in (("mean", MEAN), ("table", ENTRY)):
        array = getattr(rule, name)
        ensure(array.dtype == dtype and array.ndim == 1, f"{name} is no row of records")
    ensure(rule.mean.shape == (1,), "there is no mean")
    ensure(rule.row.dtype == np.uint32 and rule.row.ndim == 1, "row is no row of slots")
    m = rule.mean[0]
    ensure(1 <= m.budget <= BUDGET_MOST, "the budget is out of range")
    ensure(m.first <= m.entries, "the table begins after its end")
    last = int(m.entries - m.first)
    ensure(last < len(rule.table), "more entries than the table holds")
    most = running_averages.FAR * m.t * P
    ensure(0.0 <= m.P_sum <= most, f"the sum of P is {m.P_sum}, not from 0 to {most}")
    ensure(0.0 <= m.PA_sum < running_averages.SUM_MOST, f"the sum of P A is {m.PA_sum}")
    ensure(tuple(rule.table[last]) == (A, m.P_sum, m.PA_sum), "the last entry is not of now")
    ensure(np.all(np.diff(rule.table.A[: last + 1]) > 0.0), "the table does not rise")
    ensure(len(rule.marks) == int(FINE) * len(rule.table), "not as many marks as there may be")
    r = rule.ruler[0]
    marks = rule.marks[: r.top + ONE].astype(int)
    ensure(r.cells <= len(rule.marks) and np.all(np.diff(marks) >= 0), "the marks fall")
    ensure(marks[-1] == (last if r.cells else 0), "the last mark is not of now")
    running_averages.check(rule)
