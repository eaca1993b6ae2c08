"""What values a hyperparameter accepts: one check per kind of value.

This module imports neither numpy nor river, so that the command line can print its help without them.
"""  # noqa: E501

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from streaml1.core.named_options import by_caller, named_option, option_name

__all__ = [
    "AUTO",
    "INSTEAD_OF_OPTIMIZER",
    "MAX_RATE",
    "Boolean",
    "Check",
    "Choice",
    "Deferred",
    "FeatureName",
    "Fixed",
    "Integer",
    "Number",
    "NumberOrAuto",
    "OptionalBoolean",
    "Rate",
    "boolean",
]

AUTO = "auto"
INSTEAD_OF_OPTIMIZER = 'lr=0.1, schedule="constant" for optim.SGD(0.1) of river'
MAX_RATE = 1e10


class Check:
    """Validate a value: `check(name, value)` returns the value or raises ValueError.

    Attributes
    ----------
    rule
        The accepted values, as a noun phrase: "a number from 0 to 1e+30".
    """

    rule: str

    def __call__(self, name: str, value: object) -> Any:
        """Return the value to store.

        Raises
        ------
        ValueError
            If the value violates the rule. The message has the name, the rule and the value.
        """
        raise NotImplementedError

    def error(self, name: str, value: object) -> ValueError:
        """Return the error for a rejected value."""
        from streaml1.core.rows import shown

        rule = by_caller(self.rule.removeprefix("None or "), self.rule)
        return ValueError(f"{option_name(name)} must be {rule}, got {shown(value)}")


def _is_number(value: object) -> TypeGuard[numbers.Real]:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


class Number(Check):
    """A real number in a range.

    Parameters
    ----------
    min, max
        The range, both ends included.
    above, below
        Exclude `min` itself, `max` itself.
    or_none
        Accept None, too.
    """

    def __init__(
        self,
        min: float,
        max: float,
        *,
        above: bool = False,
        below: bool = False,
        or_none: bool = False,
    ) -> None:
        self.min, self.max, self.above, self.below, self.or_none = min, max, above, below, or_none
        between = f"above {min:g} and at most {max:g}" if above else f"from {min:g} to {max:g}"
        if above and below:
            between = f"above {min:g} and below {max:g}"
        self.rule = f"{'None or ' if or_none else ''}a number {between}"

    def __call__(self, name: str, value: object) -> Any:  # noqa: D102
        if value is None and self.or_none:
            return value
        if not _is_number(value):
            raise self.error(name, value)
        try:
            v = float(value)
        except OverflowError:  # an int beyond the range of floats
            v = math.inf
        at_end = (self.above and v == self.min) or (self.below and v == self.max)
        if math.isnan(v) or not self.min <= v <= self.max or at_end:
            raise self.error(name, value)
        return value


class NumberOrAuto(Number):
    """A real number in a range, or the string "auto"."""

    def __init__(self, min: float, max: float) -> None:
        super().__init__(min, max)
        self.rule = f'"{AUTO}" or {self.rule}'

    def __call__(self, name: str, value: object) -> Any:  # noqa: D102
        return value if isinstance(value, str) and value == AUTO else super().__call__(name, value)


class Integer(Check):
    """An integer from `min` to `max`; with `or_none` also None."""

    def __init__(self, min: int, max: int, *, or_none: bool = False) -> None:
        self.min, self.max, self.or_none = min, max, or_none
        self.rule = f"{'None or ' if or_none else ''}an integer from {min:,} to {max:,}"

    def __call__(self, name: str, value: object) -> Any:  # noqa: D102
        if value is None and self.or_none:
            return value
        if not (_is_number(value) and isinstance(value, numbers.Integral)):
            raise self.error(name, value)
        if not self.min <= int(value) <= self.max:
            raise self.error(name, value)
        return value


LOSSES_ELSEWHERE = {
    **dict.fromkeys(
        ("log", "log_loss", "logloss", "bce", "binary_crossentropy", "cross_entropy"), "logistic"
    ),
    **dict.fromkeys(("squared_error", "mse", "l2"), "squared"),
    **dict.fromkeys(("absolute_error", "mae", "l1"), "absolute"),
    **dict.fromkeys(("pinball", "quantile_loss"), "quantile"),
}
"""Losses by their names in river, scikit-learn and others, in lower case."""


class Choice(Check):
    """One of a few strings."""

    def __init__(self, *values: str) -> None:
        self.values = values
        listed = ", ".join(f'"{value}"' for value in values)
        self.rule = f"one of {listed}" if len(values) > 1 else listed

    def __call__(self, name: str, value: object) -> Any:  # noqa: D102
        if isinstance(value, str) and value in self.values:
            return value
        if name == "loss" and (same := self._same_loss(value)) is not None:
            raise ValueError(f'{self.error(name, value)}; use "{same}"')
        raise self.error(name, value)

    def _same_loss(self, value: object) -> str | None:
        """Return the loss that another library names so, or an object of river; or None."""
        kind = value if isinstance(value, type) else type(value)
        found = (value if isinstance(value, str) else kind.__name__).lower()
        found = LOSSES_ELSEWHERE.get(found, found)
        return found if found in self.values else None


class FeatureName(Check):
    """The name of a feature, or None."""

    rule = "None, a string or an integer"

    def __call__(self, name: str, value: object) -> str | int | None:
        """Return the value, if it is a name."""
        if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
            return value
        raise self.error(name, value)


class Boolean(Check):
    """True or False, of Python or numpy."""

    rule = "a bool"

    def __call__(self, name: str, value: object) -> bool:  # noqa: D102
        import numpy as np

        if not isinstance(value, bool | np.bool_):
            raise self.error(name, value)
        return bool(value)


boolean = Boolean()


class OptionalBoolean(Boolean):
    """True, False or None."""

    rule = "None or a bool"

    def __call__(self, name: str, value: object) -> Any:  # noqa: D102
        return None if value is None else super().__call__(name, value)


class Rate(Check):
    """A learning rate: a number or a scheduler; with `auto` also the string "auto"."""

    def __init__(self, auto: bool = False) -> None:
        self.auto = auto
        self.rule = "a number or a scheduler of river.optim.schedulers"
        if auto:
            self.rule = 'a number, a scheduler of river.optim.schedulers or "auto"'
        self._number = Number(0.0, MAX_RATE)

    def __call__(self, name: str, value: object) -> Any:  # noqa: D102
        if isinstance(value, str) and value == AUTO:
            if self.auto:
                return value
            raise ValueError(
                f"{named_option(name, AUTO)} is only supported by the elastic net and softmax; use "
                "a number"
            )
        if callable(getattr(value, "get", None)) and not isinstance(value, Mapping):
            if isinstance(value, type):
                raise ValueError(
                    f"{name} must be a scheduler instance, got the class {value.__name__}"
                )
            return value
        if not _is_number(value):
            error = self.error(name, value)
            if hasattr(value, "learning_rate"):  # an optimizer of river
                error = ValueError(f"{error}; use {INSTEAD_OF_OPTIMIZER}")
            raise error
        return self._number(name, value)


class Fixed(Check):
    """A value that the model sets itself."""

    def __init__(self, value: object) -> None:
        self.value = value
        self.rule = repr(value)

    def __call__(self, name: str, value: object) -> Any:  # noqa: D102
        if value != self.value:
            raise ValueError(f"{name} cannot be set: this model computes its own learning rates")
        return self.value


class Deferred(Check):
    """A check that lives in a module with heavy imports, loaded at its first use."""

    def __init__(self, rule: str, load: Callable[[], Callable[[str, Any], Any]]) -> None:
        self.rule = rule
        self._load = load

    def __call__(self, name: str, value: object) -> Any:  # noqa: D102
        return self._load()(name, value)
