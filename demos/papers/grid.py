"""Searches over grids of rates and radii that never end at a best value on the edge."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

MAX_EXTRA = 8


class Found(NamedTuple):
    """The best value of a grid, its result, and all results by value in ascending order."""

    value: float
    result: Any
    tried: dict[float, Any]
    edge: str = ""  # "lowest" or "highest" if the best value is still on the edge

    @property
    def note(self) -> str:
        """A remark for the tables: empty, unless the best value is on the edge."""
        return f" ({self.edge} of the grid)" if self.edge else ""


def next_value(values: Sequence[float]) -> float:
    """Return the value after the last: 1, 3, 10 continues with 30, and 4, 2 with 1."""
    if len(values) < 3:
        return float(f"{values[-1] * values[-1] / values[-2]:.12g}")
    return float(f"{values[-2] * values[-1] / values[-3]:.12g}")


def search_many(
    run_many: Callable[[list[float]], Sequence[Any]],
    values: Sequence[float],
    score: Callable[[Any], Any],
    max_extra: int = MAX_EXTRA,
    name: str = "value",
) -> Found:
    """Return the value of the least score, in a grid that grows until this value is inside.

    Parameters
    ----------
    run_many
        Returns the result of each of a list of values.
    values
        At least two values in ascending order. A lowest value of 0 is not an edge.
    score
        The score of a result; the smallest is best, NaN the worst. Of equal scores the lowest value
        is taken. A plateau at an end of the grid ends the search.
    max_extra
        Maximum number of additional values. If the best value is on the edge after these, `edge`
        says so, and a line is printed.
    name
        What the values are, for this line.
    """
    grid = [float(value) for value in values]
    results = dict(zip(grid, run_many(grid), strict=True))

    def rank(value: float) -> tuple[bool, Any]:
        key = score(results[value])
        return isinstance(key, float) and math.isnan(key), key

    for _ in range(max_extra + 1):
        best = min(grid, key=rank)
        edge = "highest" if best == grid[-1] else ""
        if best == grid[0] > 0.0 and rank(best) < rank(grid[1]):
            edge = "lowest"
        if not edge or len(results) == len(values) + max_extra:
            break
        new = next_value(grid[::-1] if edge == "lowest" else grid)
        results[new] = run_many([new])[0]
        grid = [new, *grid] if edge == "lowest" else [*grid, new]
    if edge:
        print(f"the best {name}, {best:g}, is the {edge} of the grid")
    return Found(best, results[best], {value: results[value] for value in grid}, edge)


def search(
    run: Callable[[float], Any],
    values: Sequence[float],
    score: Callable[[Any], Any],
    max_extra: int = MAX_EXTRA,
    name: str = "value",
) -> Found:
    """Do the same with a function of one value."""
    return search_many(lambda some: [run(value) for value in some], values, score, max_extra, name)


def thin(values: Sequence[float], stride: int) -> list[float]:
    """Return every `stride`-th value, and at least two."""
    thinned = list(values[::stride])
    return thinned if len(thinned) > 1 else list(values[:2])
