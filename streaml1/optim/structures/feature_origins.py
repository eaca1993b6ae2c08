r"""The origins of features that are in every row: they are learnt from $x - m$ instead of x.

The values of such a feature often vary little around a value far from 0: a year, a temperature, a price. What
tells rows apart is their distance from it; the value itself acts like a second intercept, which makes learning slow.
A feature that is in each of the first 16 rows, with values that differ, has an origin: the mean m of these
values without the smallest and the largest. From the 17th row on it adds $w (x - m)$ to the margin, and nothing where
it is absent. The origin never changes, so weights keep their meaning, and a step costs what it did.

A slot has three numbers: the sum of its values, the smallest and the largest. Once there is an origin, they are m, 1
and -1: a smallest value above the largest tells the two apart.
"""  # noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, u64
from streaml1.core.rows import ensure
from streaml1.core.types import Bools, Floats

__all__ = [
    "FORGOTTEN",
    "ORIGIN_ROWS",
    "ORIGIN_WIDTH",
    "check_origins",
    "count_value",
    "from_origin",
    "origins_of",
]

ORIGIN_ROWS = 16
"""Rows that decide which features have an origin."""

ORIGIN_WIDTH = 3
"""Numbers of a slot."""

FORGOTTEN = -0.0
"""The number of rows of a feature that was seen and about which nothing is known."""

STRIDE, SMALLEST, LARGEST = map(u64, (ORIGIN_WIDTH, 1, 2))


@inlined
def from_origin(origins: Any, j: Any, x: float) -> float:
    """Return x less the origin of slot j, if it has one.

    0 stays 0: only features without a slot have it in a row, and they are put into slot 0.
    """
    i = np.uint64(j) * STRIDE
    has_origin = origins[i + SMALLEST] > origins[i + LARGEST]
    return x - origins[i] if has_origin and x != 0.0 else x


def origins_of(origins: Floats) -> tuple[Bools, Floats]:
    """Return which slots have an origin, and the origins of all; 0 for those without."""
    table = origins.reshape(-1, ORIGIN_WIDTH)
    has_origin = table[:, 1] > table[:, 2]
    return has_origin, np.where(has_origin, table[:, 0], 0.0)


@inlined
def count_value(origins: Any, j: Any, n: float, rows: float, x: float) -> bool:
    """Count x, a value of slot j in one of the first rows; return whether it now has an origin.

    Parameters
    ----------
    origins
        The numbers of all slots.
    j
        The slot.
    n
        Number of earlier rows that had it.
    rows
        Number of earlier rows.
    x
        The value.
    """
    if n != rows:  # it was absent from a row
        return False
    i = np.uint64(j) * STRIDE
    if n == 0.0:
        origins[i] = origins[i + SMALLEST] = origins[i + LARGEST] = x
        return False
    origins[i] += x
    smallest = min(origins[i + SMALLEST], x)
    largest = max(origins[i + LARGEST], x)
    origins[i + SMALLEST], origins[i + LARGEST] = smallest, largest
    if n + 1.0 < ORIGIN_ROWS or smallest == largest:
        return False
    origins[i] = (origins[i] - smallest - largest) / (ORIGIN_ROWS - 2.0)
    origins[i + SMALLEST], origins[i + LARGEST] = 1.0, -1.0
    return True


def check_origins(origins: Floats, c: Any) -> None:
    """Raise AssertionError if origins, or the fields of the clock about them, are impossible."""
    ensure(c.origin_rows in (0, ORIGIN_ROWS), "the number of first rows is out of range")
    ensure(np.all(np.isfinite(origins)), "an origin is not finite")
    ensure(c.with_origin == origins_of(origins)[0].sum(), "the number of origins is wrong")
