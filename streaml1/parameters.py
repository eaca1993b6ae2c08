"""Hyper-parameters of models: checked in one sentence, effective from the next step."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["Parameter", "choice", "number", "rate"]

Check = Callable[[str, Any], Any]


class Parameter:
    """A parameter of a model: an attribute that is checked whenever it is set.

    After a change the model's `_parameter_changed(name)` is called, so that `model.l1 = 0.1` and
    river's `mutate` both take effect from the next step.
    """

    def __init__(self, check: Check) -> None:
        self.check = check

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.place = f"_{name}"

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        return self if model is None else model.__dict__[self.place]

    def __set__(self, model: Any, value: Any) -> None:
        model.__dict__[self.place] = self.check(self.name, value)
        model._parameter_changed(self.name)


def number(least: float, most: float, *, above: bool = False) -> Check:
    """A check for a number between `least` and `most`; `above`: not `least` itself."""
    rule = f"above {least:g} and at most {most:g}" if above else f"from {least:g} to {most:g}"

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, numbers.Real | np.number | np.bool_):
            raise ValueError(f"{name}={value!r} is no number; give one {rule}")
        try:
            v = float(value)
        except OverflowError:
            v = math.inf
        if math.isnan(v) or not least <= v <= most or (above and v == least):
            raise ValueError(f"{name}={value!r} is out of range; give a number {rule}")
        return value

    return check


def choice(*names: str) -> Check:
    """A check for one of some names."""
    listed = ", ".join(f'"{name}"' for name in names)

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"{name}={value!r} is not known; give one of {listed}")
        return value

    return check


def rate(name: str, value: Any) -> Any:
    """Check a learning rate: a number, or an object like river's schedulers."""
    if callable(getattr(value, "get", None)) and not isinstance(value, Mapping):
        return value
    if not isinstance(value, numbers.Real | np.number):
        raise ValueError(
            f"{name}={value!r} is neither a number nor a scheduler of river.optim.schedulers"
        )
    return number(0.0, 1e10)(name, value)
