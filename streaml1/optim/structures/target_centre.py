r"""The centre of the targets of a regression, from which a rule learns their distances.

Targets often lie far from 0 compared with their spread: a year, a price, a temperature. The centre is the mean of the
targets so far. It is a part of the intercept: a rule adds it to each margin, so that weights explain only what
differs from row to row. A target moves it by at most ten mean distances beyond what it was, for robustness.

The first target becomes the centre, and nothing is learnt from it. So a constant that is added to all targets is added to all
predictions but the first.

Margins of the Poisson loss are logarithms and have no centre; neither have those of classification. An offset is
subtracted from its target.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.rows import ensure
from streaml1.core.types import Records
from streaml1.optim import losses

__all__ = [
    "CENTRE",
    "centred_derivative",
    "check_centre",
    "count_target",
    "has_centre",
    "join_centre",
]

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
    return loss >= losses.SQUARED and loss != losses.POISSON


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


@inlined
def centred_derivative(
    c: Any, o: Any, a: float, y: float, w: float, mean_size: float
) -> tuple[float, float, float]:
    """Count a target; return the prediction before, the derivative, and the size of the target.

    Parameters
    ----------
    c, o
        The clock, and the record of `loop.ONLINE`.
    a
        The margin with the offset, without the centre.
    y, w
        The label, and its sample weight.
    mean_size
        Mean of the sizes of targets so far.

    Returns
    -------
    tuple of float
        The size is the distance from the centre before, or 1 if the margin is a logarithm.
    """
    p, g = losses.output_and_derivative(o.loss, a + c.centre, y, o.loss_parameter)
    if not c.is_centred or o.intercept_lr == 0.0:
        return p, g, losses.target_size(o.loss, y, o.offset + c.centre)
    size = count_target(c, y - o.offset, w, mean_size)
    return p, losses.derivative(o.loss, a + c.centre, y, o.loss_parameter), size


def join_centre(clock: Records, base: Records, parts: Sequence[Records]) -> None:
    """Set the centre of `clock` to that of a base and of parts that continued from it.

    It is the mean of all targets; without targets, the mean of the centres.
    """
    c, first = clock[0], parts[0][0]
    c.is_centred, c.origin_rows = first.is_centred, first.origin_rows
    n0, sum0 = base[0].targets, base[0].targets * base[0].centre
    c.targets = n0 + sum(part[0].targets - n0 for part in parts)
    total = sum0 + sum(part[0].targets * part[0].centre - sum0 for part in parts)
    c.centre = total / c.targets if c.targets > 0.0 else np.mean([part[0].centre for part in parts])


def check_centre(c: Any) -> None:
    """Raise AssertionError if a field of the centre is out of range."""
    ensure(c.is_centred in (0, 1), f"is_centred={c.is_centred} is not a flag")
    ensure(0.0 <= c.targets < MAX_CENTRE, "the number of targets is out of range")
    ensure(abs(c.centre) < MAX_CENTRE, "the centre of the targets is out of range")
