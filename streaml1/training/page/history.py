"""The curves of a run: bounded in size, from sums recorded while it runs, or from report lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from streaml1.training.report import Line

__all__ = [
    "LossHistory",
    "Mark",
    "Point",
    "columns_of_lines",
    "latest_marks",
    "nonzeros_of_lines",
]

MAX_POINTS = 600
"""Points of a curve; then every other one is dropped, and the interval is doubled."""

FIRST_INTERVAL = 0.25
"""Seconds between two points at the start."""

MIN_STEP, MIN_SHARE = 100, 0.01
"""Examples between two points, at least: their number, and their share of all so far."""

MAX_MARKS = 200
"""Marks of each kind that are kept, the latest ones."""

Columns = dict[str, list[Any]]


class Point(NamedTuple):
    """Sums over the examples of a pass, up to one point in time."""

    examples: int
    pass_number: int
    weight: float
    loss: float
    constant: float


class Mark(NamedTuple):
    """An event of a run: "checkpoint", "restart", "publication", "pass" or "drift"."""

    kind: str
    examples: int


class LossHistory:
    """Losses of a run over time, in a bounded number of points.

    Recording a point takes microseconds, so points are recorded even if no page is open.
    """

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._interval = FIRST_INTERVAL
        self._due_at = -math.inf

    def __len__(self) -> int:
        return len(self._points)

    def is_due(self, now: float, examples: int) -> bool:
        """Return whether the next point is due, at a time of the monotonic clock.

        It needs enough new examples, too: a mean over few would be noise.
        """
        last = self._points[-1].examples if self._points else 0
        return now >= self._due_at and examples >= last + max(MIN_STEP, MIN_SHARE * examples)

    def add(self, now: float, point: Point) -> None:
        """Add a point."""
        self._due_at = now + self._interval
        points = [*self._points, point]
        if len(points) > MAX_POINTS:
            points = points[:-1][::2] + points[-1:]
            self._interval *= 2.0
        self._points = points  # another thread may be reading the old list

    def columns(self, latest: Point) -> Columns:
        """Return the curves up to the latest sums."""
        points = self._points
        if not points or points[-1].examples < latest.examples:
            points = [*points, latest]
        columns: Columns = {"x": [], "recent": [], "loss": [], "baseline": []}
        before = Point(points[0].examples, points[0].pass_number, 0.0, 0.0, 0.0)
        for point in points:
            if point.pass_number != before.pass_number:
                before = Point(before.examples, point.pass_number, 0.0, 0.0, 0.0)
            weight = point.weight - before.weight
            if point.examples > before.examples or not columns["x"]:
                columns["x"].append(point.examples)
                recent = (point.loss - before.loss) / weight if weight > 0.0 else math.nan
                columns["recent"].append(_finite(recent))
                columns["loss"].append(_mean(point.loss, point.weight))
                columns["baseline"].append(_mean(point.constant, point.weight))
                before = point
        return columns


def columns_of_lines(lines: Iterable[Line | Mapping[str, Any]]) -> Columns:
    """Return the curves of the losses in the lines of a report."""
    names = {"x": "examples", "recent": "recent_loss", "loss": "loss", "baseline": "constant_loss"}
    return _columns(lines, names)


def nonzeros_of_lines(lines: Iterable[Line | Mapping[str, Any]]) -> Columns:
    """Return the curves of the non-zero weights in the lines of a report."""
    return _columns(
        lines, {"x": "examples", "nonzero": "n_nonzero", "added": "born", "dropped": "died"}
    )


def _columns(lines: Iterable[Line | Mapping[str, Any]], names: Mapping[str, str]) -> Columns:
    columns: Columns = {name: [] for name in names}
    for line in lines:
        if isinstance(line, Line):
            values = [getattr(line, field) for field in names.values()]
        else:
            values = [line.get(field) for field in names.values()]
        # A run that resumed from a checkpoint learns the last examples again.
        while columns["x"] and columns["x"][-1] >= values[0]:
            for column in columns.values():
                column.pop()
        for column, value in zip(columns.values(), values, strict=True):
            column.append(_finite(value))
    return _thinned(columns)


def _thinned(columns: Columns) -> Columns:
    """Return at most `MAX_POINTS` points; changes between the others are added up."""
    step = -(-len(columns["x"]) // MAX_POINTS)
    if step <= 1:
        return columns
    thinned = {name: column[::-1][::step][::-1] for name, column in columns.items()}
    first = (len(columns["x"]) - 1) % step + 1  # size of the first group; all others are full
    for name in ("added", "dropped"):
        if name in columns:
            column = [value or 0 for value in columns[name]]
            groups = [column[:first]]
            groups += [column[k : k + step] for k in range(first, len(column), step)]
            thinned[name] = [sum(group) for group in groups]
    return thinned


def latest_marks(marks: Sequence[Mark]) -> list[Mark]:
    """Return the latest marks of each kind."""
    kept: list[Mark] = []
    for kind in sorted({mark.kind for mark in marks}):
        kept += [mark for mark in marks if mark.kind == kind][-MAX_MARKS:]
    return kept


def _mean(total: float, weight: float) -> float | None:
    return _finite(total / weight) if weight > 0.0 else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
