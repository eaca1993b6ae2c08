r"""The centre of the targets of a regression, from which a rule learns their distances.

Targets often lie far from 0 compared with their spread: a year, a price, a temperature. The centre is the mean of the
targets so far. It is a part of the intercept: a rule adds it to each margin, so that weights explain only what
differs from row to row. A target moves it by at most ten mean distances beyond what it was, for robustness.

The first target becomes the centre, and nothing is learnt from it. So a constant that is added to all targets is added to all
predictions but the first.

A rule whose clock has the fields of `CENTRE` calls `count_target` before it takes the derivative of the loss. Margins
of the Poisson loss are logarithms and have no centre; neither have those of classification. An offset is subtracted from its target.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.rows import ensure
from streaml1.core.types import Records
from streaml1.optim.losses import POISSON, SQUARED

__all__ = ["CENTRE", "MAX_CENTRE", "check_centre", "count_target", "has_centre", "joined_centre"]

CENTRE = [
    ("is_centred", "i8"),  # whether targets move the centre
    ("targets", "f8"),  # number of those that have moved it
    ("centre", "f8"),  # added to each margin
]
"""Fields of the clock of a rule."""

MAX_JUMP = 10.0  # of a distance, relative to their mean
MAX_CENTRE = 1e150


def has_centre(loss: int) -> bool:
    """Return whether margins of the loss have a centre."""
    return loss >= SQUARED and loss != POISSON


@inlined
def count_target(c: Any, y: float, w: float, mean_distance: float) -> float:
    """Count a target of weight `w`; return its distance from the centre of those before it.

    Parameters
    ----------
    c
        The clock.
    y, w
        The target without its offset, and its sample weight. With 0 it does not move the centre.
    mean_distance
        Mean of the distances so far.

    Returns
    -------
    The distance; 0 if no target has been counted.
    """
    distance = y - c.centre if c.targets > 0.0 else 0.0
    if w > 0.0:
        move = y - c.centre
        if c.targets > 0.0 and mean_distance > 0.0:
            limit = MAX_JUMP * mean_distance
            move = max(-limit, min(limit, move))
        c.targets += 1.0
        c.centre += move / c.targets
    return abs(distance)


def joined_centre(base: Records, parts: Sequence[Records]) -> tuple[float, float]:
    """Return number and centre of the targets of a base and of parts that have learnt on from it.

    Without targets, it is the mean of the centres.
    """
    n0, sum0 = float(base["targets"][0]), float((base["targets"] * base["centre"])[0])
    n, total = n0, sum0
    for part in parts:
        n += float(part["targets"][0]) - n0
        total += float((part["targets"] * part["centre"])[0]) - sum0
    if n > 0.0:
        return n, total / n
    return 0.0, float(np.mean([part["centre"][0] for part in parts]))


def check_centre(c: Any) -> None:
    """Raise AssertionError if a field of the centre is out of range."""
    ensure(c.is_centred in (0, 1), f"is_centred={c.is_centred} is not a flag")
    ensure(0.0 <= c.targets < MAX_CENTRE, "the number of targets is out of range")
    ensure(abs(c.centre) < MAX_CENTRE, "the centre of the targets is out of range")
