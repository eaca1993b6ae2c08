"""The rate eta of each step, as numbers for a kernel: no schedule is compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.rows import alike
from streaml1.models.parameters import AUTO

__all__ = ["SCHEDULES", "rate", "rates"]

SCHEDULES = ("invsqrt", "constant", "inverse")
MOST = 1e10


def rate(lr: Any, schedule: str, t: int) -> float:
    """Rate of step `t` (from 0): `lr` / sqrt(t + 1), `lr`, `lr` / (t + 1), or `lr.get(t)`.

    Where `lr` is "auto", what the rates of all lanes are multiplied by: (t + 1) ** (-1/4).
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


def rates(lr: Any, schedule: str, t: int, n: int) -> Any:
    """Rates of the steps t, t + 1, ..., t + n - 1; the same floats as `rate` gives.

    Where all are one, they are in the memory of one (see `rows.alike`).
    """
    if hasattr(lr, "get"):
        return np.array([_checked(lr.get(s), lr, s) for s in range(t, t + n)])
    if schedule == "constant" and lr != AUTO:
        return alike(float(lr), n)
    after = np.arange(t + 1, t + n + 1, dtype=np.float64)
    if lr == AUTO:
        np.sqrt(after, out=after)
    if schedule == "invsqrt" or lr == AUTO:
        np.sqrt(after, out=after)
    return np.divide(1.0 if lr == AUTO else float(lr), after, out=after)


def _checked(given: Any, lr: Any, t: int) -> float:
    """What a scheduler gives as a float; ValueError where it is no rate."""
    try:
        eta = float(given)
        told = str(eta)
    except (TypeError, ValueError, OverflowError):
        eta, told = math.nan, repr(given)
    if not 0.0 <= eta <= MOST:
        raise ValueError(
            f"the rate that {type(lr).__name__} gives for step {t} is {told}; "
            "a rate is between 0 and 1e10"
        )
    return eta
