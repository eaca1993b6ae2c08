"""Learning-rate schedules, computed in Python: kernels receive the rate of each step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.rows import constant_column
from streaml1.core.types import Floats
from streaml1.models.parameter_checks import AUTO, MAX_RATE

__all__ = ["rate_of_step", "rates_of_steps"]


def rate_of_step(lr: Any, schedule: str, t: int) -> float:
    """Return the rate of step `t`, from 0.

    It is `lr / sqrt(t + 1)`, `lr`, `lr / (t + 1)` or `lr.get(t)`. With `lr="auto"` it is the factor
    `(t + 1) ** -0.25` that multiplies the rates of all lanes.

    Raises
    ------
    ValueError
        If a scheduler returns a value that is not a rate.
    """
    if lr.__class__ is not float:
        if lr == AUTO:
            return 1.0 / math.sqrt(math.sqrt(t + 1.0))
        if hasattr(lr, "get"):
            return _checked(lr.get(t), lr, t)
    constant = float(lr)
    if schedule == "invsqrt":
        return constant / math.sqrt(t + 1.0)
    if schedule == "inverse":
        return constant / (t + 1.0)
    return constant


def rates_of_steps(lr: Any, schedule: str, t: int, n: int) -> Floats:
    """Return the rates of the steps t, ..., t + n - 1, bit-identical to those of `rate_of_step`.

    Equal rates share the memory of a single one (see `rows.constant_column`).
    """
    if hasattr(lr, "get"):
        return np.array([_checked(lr.get(s), lr, s) for s in range(t, t + n)])
    if schedule == "constant" and lr != AUTO:
        return constant_column(float(lr), n)
    steps = np.arange(t + 1, t + n + 1, dtype=np.float64)
    if lr == AUTO:
        np.sqrt(steps, out=steps)
    if schedule == "invsqrt" or lr == AUTO:
        np.sqrt(steps, out=steps)
    return np.divide(1.0 if lr == AUTO else float(lr), steps, out=steps)


def _checked(value: Any, lr: object, t: int) -> float:
    """Return what a scheduler returned as a float; raise ValueError if it is not a rate."""
    try:
        eta = float(value)
        text = str(eta)
    except (TypeError, ValueError, OverflowError):
        eta, text = math.nan, repr(value)
    if not 0.0 <= eta <= MAX_RATE:
        raise ValueError(
            f"the rate of a step must be from 0 to 1e10, got {text} from {type(lr).__name__} "
            f"for step {t}"
        )
    return eta
