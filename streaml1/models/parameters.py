"""Hyper-parameters of models: checked in one sentence, effective from the next step."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from streaml1.core.rows import shown

__all__ = [
    "AUTO",
    "EngineSlot",
    "Parameter",
    "choice",
    "flag",
    "number",
    "rate",
    "rate_or_auto",
    "whole",
]

AUTO = "auto"

Check = Callable[[str, Any], Any]


class Parameter:
    """A parameter of a model: an attribute that is checked whenever it is set.

    After a change of a model that is made its `_parameter_changed()` is called, so that
    `model.l1 = 0.1` and river's `mutate` both take effect from the next step. A `fixed` one cannot
    change any more then.
    """

    def __init__(self, check: Check, fixed: bool = False) -> None:
        self.check = check
        self.fixed = fixed

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        return self if model is None else model.__dict__[self.name]

    def __set__(self, model: Any, value: Any) -> None:
        value = self.check(self.name, value)
        own, name = model.__dict__, self.name
        if own.get("_engine") is None:
            own[name] = value
            return
        if self.fixed:
            raise ValueError(f"{name} cannot change once the model is made; clone it instead")
        before, own[name] = own[name], value
        try:
            model._parameter_changed()
        except ValueError:  # it does not go with the others
            own[name] = before
            raise


class EngineSlot:
    """Where a model keeps its engine: one that is put there takes the model's parameters on."""

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        return self if model is None else model.__dict__.get("_engine")

    def __set__(self, model: Any, engine: Any) -> None:
        model.__dict__["_engine"] = engine
        model._parameter_changed()


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def number(least: float, most: float, *, above: bool = False) -> Check:
    """A check for a number between `least` and `most`; `above`: not `least` itself.

    What it refuses it raises ValueError for, as all checks do.
    """
    rule = f"above {least:g} and at most {most:g}" if above else f"from {least:g} to {most:g}"

    def check(name: str, value: Any) -> Any:
        if not _is_number(value):
            raise ValueError(f"{name}={shown(value)} is no number; give one {rule}")
        try:
            v = float(value)
        except OverflowError:
            v = math.inf
        if math.isnan(v) or not least <= v <= most or (above and v == least):
            raise ValueError(f"{name}={shown(value)} is out of range; give a number {rule}")
        return value

    return check


def whole(least: int, most: int, *, or_none: bool = False) -> Check:
    """A check for a whole number from `least` to `most`; or None, where that is allowed."""
    rule = f"from {least:,} to {most:,}" + (", or None" if or_none else "")

    def check(name: str, value: Any) -> Any:
        if value is None and or_none:
            return value
        if not (_is_number(value) and isinstance(value, numbers.Integral)):
            raise ValueError(f"{name}={shown(value)} is no whole number; give one {rule}")
        if not least <= int(value) <= most:
            raise ValueError(f"{name}={shown(value)} is out of range; give a whole number {rule}")
        return value

    return check


def choice(*names: str) -> Check:
    """A check for one of some names."""
    listed = ", ".join(f'"{name}"' for name in names)

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"{name}={shown(value)} is not known; give one of {listed}")
        return value

    return check


def flag(name: str, value: Any) -> Any:
    """Check a switch: True or False.

    Raises
    ------
    ValueError
        Where it is neither.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={shown(value)} is no switch; give True or False")
    return bool(value)


def rate(name: str, value: Any) -> Any:
    """Check a learning rate: a number, or an object like river's schedulers.

    Raises
    ------
    ValueError
        Where it is neither, or a number out of range.
    """
    if callable(getattr(value, "get", None)) and not isinstance(value, Mapping):
        if isinstance(value, type):
            raise ValueError(f"{name}={value.__name__} is a class; give one that is made of it")
        return value
    if isinstance(value, str) and value == AUTO:
        raise ValueError(f'{name}="auto" is for the elastic net alone; give a number')
    if not _is_number(value):
        raise ValueError(
            f"{name}={shown(value)} is neither a number nor a scheduler of river.optim.schedulers"
        )
    return number(0.0, 1e10)(name, value)


def rate_or_auto(name: str, value: Any) -> Any:
    """Check a learning rate, which may also be "auto".

    Raises
    ------
    ValueError
        As of `rate`.
    """
    return value if isinstance(value, str) and value == AUTO else rate(name, value)
