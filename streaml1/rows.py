"""Rows: one example is distinct slots (uint32) and values (finite, none of them zero).

What comes from outside is made into rows here, or refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from streaml1 import exits
from streaml1.jit import (
    LANES,
    beyond_in,
    bits_of,
    falls_in,
    inlined,
    kernel,
)

__all__ = [
    "LIMIT",
    "MOST_IDS",
    "NUMBERS",
    "BadExample",
    "Rows",
    "are_values",
    "ensure",
    "is_plain_row",
    "largest",
    "masked_rows",
    "number",
    "plain_items",
    "plain_rows",
    "refuse_value",
    "row_of",
    "shown",
]

# A value, and with the limits on weights, rates and clips (models.py) no weight, margin or
# folded entry ever leaves the range of a float: 1e50 * 1e15 * 1e30 * 1e10 a step, 1e15 steps.
LIMIT = 1e50
_LIMIT_BITS = np.int64(np.float64(LIMIT).view(np.int64))
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
MOST_IDS = 2**32
_MOST_LESS = np.uint64(_LIMIT_BITS - 1)  # one less than the bits of a value is below
_ONE, _SIXTEEN, _LANE = (np.uint64(n) for n in (1, 16, LANES))

# Values of exactly these types are read as they are: no code of somebody's own can run.
NUMBERS = frozenset({float, int, bool, np.float64})


def shown(value: Any) -> str:
    """A value in a sentence, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}..."


def ensure(condition: Any, otherwise: str) -> None:
    """Raise AssertionError, even where Python runs with -O."""
    if not condition:
        raise AssertionError(otherwise)


class BadExample(ValueError):
    """An example that is refused; nothing of it, or of the batch it is in, has been learnt.

    Attributes
    ----------
    reason : str
        One sentence: the value, the rule, the remedy.
    row : int
        Which row of the batch, from 0.
    """

    exit_code = exits.DATA

    def __init__(self, reason: str, row: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row


class Rows(NamedTuple):
    """Rows one after the other: row i is the part `indptr[i]:indptr[i + 1]`."""

    ids: Any  # uint32
    values: Any  # float64
    indptr: Any  # uint64

    @property
    def n(self) -> int:
        """How many rows."""
        return len(self.indptr) - 1


def number(name: Hashable, value: Any) -> float:
    """`value` as a float, or BadExample.

    Raises
    ------
    BadExample
        Where it is no number, not finite, or beyond 1e50.
    """
    kind = type(value)
    readable = hasattr(kind, "__float__") or hasattr(kind, "__index__")
    if not readable or issubclass(kind, np.complexfloating | np.flexible):
        raise BadExample(
            f"the value {shown(value)} of {shown(name)} is a {kind.__name__}; "
            "values are numbers, strings (a category) or None (absent)"
        )
    try:
        v = float(value)
    except OverflowError:
        v = np.inf
    except (TypeError, ValueError):
        raise BadExample(
            f"the value {shown(value)} of {shown(name)} cannot be read as a number"
        ) from None
    refuse_value(name, v)
    return v


def refuse_value(name: Hashable, v: float) -> None:
    """Raise BadExample unless |v| < 1e50."""
    if v != v:
        raise BadExample(
            f"the value of {shown(name)} is NaN; leave a missing value out, or give None "
            "(in a pandas frame: convert_dtypes() first)"
        )
    if not abs(v) < LIMIT:
        raise BadExample(f"the value {v!r} of {shown(name)} is too large: scale it to below 1e50")


def plain_items(x: Mapping[Hashable, Any]) -> dict[Hashable, float]:
    """The features of an example by name: what a string, None, zero or repeated name means.

    Examples
    --------
    >>> plain_items({"price": 2, "shop": "fr", "age": None, "new": False})
    {'price': 2.0, 'shop=fr': 1.0}
    """
    plain: dict[Hashable, float] = {}
    for name, value in list(x.items()):  # a value's own code may change the dict
        if value is None:
            continue
        if isinstance(value, str):
            name, v = f"{name}={value}", 1.0
        else:
            v = number(name, value)
        if name in plain:
            v += plain[name]
            refuse_value(name, v)
        plain[name] = v
    return {name: v for name, v in plain.items() if v != 0.0}


@inlined
def _is_no_value(v: float) -> Any:
    """Below zero for what is no value."""
    size = bits_of(v) & _MAGNITUDE
    return (_LIMIT_BITS - np.int64(1) - size) | (size - np.int64(1))


@inlined
def is_plain_row(ids: Any, values: Any, lo: Any, hi: Any, d: Any) -> bool:
    """Whether a row can be learnt as it is.

    No value is zero, NaN or too large, ids rise strictly and are below `d`. A row that is no worse
    than unsorted is not plain either: a slower look tells.
    """
    if lo == hi:
        return True
    last = hi - _ONE
    wrong, bad = np.int64(0), np.uint64(0)
    if hi - lo > _SIXTEEN:  # the last ones overlap those before them
        bad |= beyond_in(values, hi - _LANE, _MOST_LESS) | falls_in(ids, last - _SIXTEEN)
        bad |= beyond_in(values, hi - _SIXTEEN, _MOST_LESS)
        for k in range(lo, hi - _SIXTEEN, _SIXTEEN):
            bad |= beyond_in(values, k, _MOST_LESS) | falls_in(ids, k)
            bad |= beyond_in(values, k + _LANE, _MOST_LESS)
    else:
        wrong = _is_no_value(values[last])
        for k in range(lo, last):
            wrong |= _is_no_value(values[k])
            wrong |= np.int64(ids[k + _ONE]) - np.int64(ids[k]) - np.int64(1)
    return bool(wrong >= 0 and bad == np.uint64(0) and np.uint64(ids[last]) < d)


@kernel
def _are_plain(ids: Any, values: Any, indptr: Any, d: Any) -> bool:
    """Whether all rows are, see `is_plain_row`."""
    d = np.uint64(d)
    for i in range(np.uint64(len(indptr) - 1)):
        if not is_plain_row(ids, values, indptr[i], indptr[i + _ONE], d):
            return False
    return True


def plain_rows(rows: Rows, name_of: Callable[[int], Hashable] = int, valued: bool = False) -> Rows:
    """Rows without zeros and with each name once in a row; `name_of` tells ids in a sentence.

    `valued` tells that no value is zero or refused.

    Raises
    ------
    BadExample
        At the first value that is NaN, infinite or beyond 1e50.
    """
    if _are_plain(rows.ids, rows.values, rows.indptr, MOST_IDS):
        return rows
    merged = _merged(rows)
    if merged is rows and valued:
        return rows
    if are_values(merged.values) and (merged is rows or are_values(rows.values)):
        return merged
    first = min((_first_bad(one) for one in (rows, merged)), key=lambda bad: bad[0])
    _refuse(*first, name_of)
    return _without_zeros(merged)


def row_of(rows: Rows, k: int) -> int:
    """The row that the k-th entry is in."""
    return int(np.searchsorted(rows.indptr, np.uint64(k), side="right")) - 1


def _first_bad(rows: Rows) -> tuple[float, Rows, int]:
    """The row of the first value that is refused (infinite if none is), and its entry."""
    wrong = np.flatnonzero(~(np.abs(rows.values) < LIMIT))
    return (row_of(rows, wrong[0]), rows, int(wrong[0])) if len(wrong) else (np.inf, rows, -1)


def _refuse(row: float, rows: Rows, k: int, name_of: Callable[[int], Hashable]) -> None:
    if k >= 0:
        try:
            refuse_value(name_of(int(rows.ids[k])), float(rows.values[k]))
        except BadExample as bad:
            raise BadExample(bad.reason, int(row)) from None


@inlined
def _place(id_: Any, ids: Any, begin: Any, met: Any) -> Any:
    """Where it stands, or would, that an id is among those from `begin` on; and what stands there.

    That is one more than its place in `ids`; up to `begin`, where it is not among them. What stands
    in `met` of rows before does not count.
    """
    mask = np.uint64(len(met) - 1)
    place = ((np.uint64(id_) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    other = met[place]
    while other > begin and ids[other - _ONE] != id_:
        place = (place + _ONE) & mask
        other = met[place]
    return place, other


@kernel
def _first_repeat(ids: Any, indptr: Any, met: Any) -> Any:
    """The first row that has a name twice; the number of rows where none has."""
    n = np.uint64(len(indptr) - 1)
    for i in range(n):
        lo = indptr[i]
        for k in range(lo, indptr[i + _ONE]):
            place, other = _place(ids[k], ids, lo, met)
            if other > lo:
                return i
            met[place] = k + _ONE
    return n


@kernel
def _masked(
    hashes: Any, values: Any, indptr: Any, mask: Any, slots: Any, kept: Any, ends: Any, met: Any
) -> bool:  # fmt: skip
    """Write down what `masked_rows` gives; whether no sum is a value that is refused, or zero."""
    n = np.uint64(0)
    bad = np.int64(0)
    ends[0] = 0
    for i in range(np.uint64(len(indptr) - 1)):
        begin = n
        for k in range(indptr[i], indptr[i + _ONE]):
            slot = np.uint32(hashes[k] & mask)
            place, other = _place(slot, slots, begin, met)
            if other > begin:
                v = kept[other - _ONE] + values[k]
                kept[other - _ONE] = v
                bad |= _is_no_value(v)
            else:
                slots[n] = slot
                kept[n] = values[k]
                n += _ONE
                met[place] = n
        ends[i + _ONE] = n
    return bool(bad >= 0)


@kernel
def _merge(ids: Any, values: Any, indptr: Any, first: Any, met: Any) -> Any:
    """From a row on, leave each name of a row once, where it stands first, with the sum.

    Returns how many there are then.
    """
    hi = n = indptr[first]
    for i in range(first, np.uint64(len(indptr) - 1)):
        lo, hi = hi, indptr[i + _ONE]
        begin = n
        for k in range(lo, hi):
            place, other = _place(ids[k], ids, begin, met)
            if other > begin:
                values[other - _ONE] += values[k]
            else:
                ids[n] = ids[k]
                values[n] = values[k]
                n += _ONE
                met[place] = n
        indptr[i + _ONE] = n
    return n


@kernel
def _are_values(values: Any) -> bool:
    """Whether no value is zero, NaN or too large."""
    bad = np.int64(0)
    for k in range(np.uint64(len(values))):
        bad |= _is_no_value(values[k])
    return bool(bad >= 0)


def _met(indptr: Any) -> Any:
    """Room for the places of what a row has, whichever of some rows it is."""
    longest = int((indptr[1:] - indptr[:-1]).max(initial=0))
    return np.zeros(1 << max(10, (4 * longest).bit_length()), np.uint64)


def repeats(rows: Rows) -> bool:
    """Whether a row has a name twice."""
    return _row_of_repeat(rows) < rows.n


def _row_of_repeat(rows: Rows) -> int:
    with np.errstate(over="ignore"):
        return int(_first_repeat(rows.ids, rows.indptr, _met(rows.indptr)))


def are_values(values: Any) -> bool:
    """Whether no value is zero, NaN or too large."""
    return bool(_are_values(values))


def masked_rows(hashes: Any, rows: Rows, mask: int) -> Rows | None:
    """Rows whose ids are the low bits of hashes, each once in a row with the sum of its values.

    None where a sum is refused, or zero; that no value is, is known.
    """
    n = len(hashes)
    masked = Rows(np.empty(n, np.uint32), np.empty(n), np.empty_like(rows.indptr))
    with np.errstate(over="ignore", invalid="ignore"):
        if not _masked(hashes, rows.values, rows.indptr, np.uint64(mask), *masked,
                       _met(rows.indptr)):  # fmt: skip
            return None
    kept = int(masked.indptr[-1])
    return Rows(masked.ids[:kept], masked.values[:kept], masked.indptr)


def _merged(rows: Rows) -> Rows:
    """Each name once in a row, where it stood first, with the sum of its values."""
    first = _row_of_repeat(rows)
    if first == rows.n:
        return rows
    ids, values, indptr = (np.array(a) for a in rows)
    with np.errstate(over="ignore", invalid="ignore"):  # sums are refused by the caller
        n = _merge(ids, values, indptr, np.uint64(first), _met(indptr))
    return Rows(ids[:n], values[:n], indptr)


def _without_zeros(rows: Rows) -> Rows:
    kept = rows.values != 0.0
    return rows if kept.all() else _only(rows, kept)


def _only(rows: Rows, kept: Any) -> Rows:
    before = np.zeros(len(kept) + 1, np.uint64)
    np.cumsum(kept, out=before[1:])
    return Rows(rows.ids[kept], rows.values[kept], before[rows.indptr.astype(np.int64)])


@kernel
def largest(ids: Any) -> int:
    """The largest id; 0 where there is none."""
    top = np.uint32(0)
    for k in range(len(ids)):
        top = max(top, ids[k])
    return int(top)
