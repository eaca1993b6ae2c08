"""Hyperparameters: one declaration yields the signature, the check, the documentation and the option.

A hyperparameter is an annotated class attribute whose value is a call of `parameter`:

    class FTRLParameters(SharedParameters):
        alpha: float = parameter(default=0.1, check=Number(1e-100, 1e10), doc="Scale of the rates.")

Type checkers synthesise the keyword-only `__init__` from it (PEP 681). `constructor` builds the same
one at run time, `documented` the docstring, `parameter_table` a table in Markdown, and
`streaml1.cli.options` the command line option.

This module imports neither numpy nor river, so that the command line can print its help without them.
"""  # noqa: E501

from __future__ import annotations

import inspect
import math
import numbers
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Protocol, TypeGuard, dataclass_transform

__all__ = [
    "AUTO",
    "MAX_RATE",
    "SCHEDULES",
    "SHARED_ORDER",
    "Boolean",
    "Check",
    "Choice",
    "Deferred",
    "EngineSlot",
    "FeatureName",
    "Fixed",
    "Integer",
    "Number",
    "NumberOrAuto",
    "OptionalBoolean",
    "Parameter",
    "Parameterized",
    "Rate",
    "Scheduler",
    "boolean",
    "constructor",
    "documented",
    "fixed_parameters_of",
    "parameter",
    "parameter_table",
    "parameters_of",
    "text_of_default",
]

AUTO = "auto"
SCHEDULES = ("invsqrt", "constant", "inverse")

MAX_RATE = 1e10

SHARED_ORDER = (
    "loss",
    "negative_rate",
    "positive_weight",
    "offset",
    "quantile",
    "huber_delta",
    "lr",
    "schedule",
    "intercept_lr",
    "intercept_init",
    "clip_gradient",
    "average",
    "max_features",
    "hash_bits",
    "cross",
    "text",
    "ngrams",
)
"""Order of the shared parameters, which come last in signatures and model files."""


class Scheduler(Protocol):
    """A learning-rate schedule, such as those of `river.optim.schedulers`."""

    def get(self, t: int, /) -> float:
        """Return the learning rate of step `t`, from 0."""
        ...


# Checks


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

        return ValueError(f"{name} must be {self.rule}, got {shown(value)}")


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


class Choice(Check):
    """One of a few strings."""

    def __init__(self, *values: str) -> None:
        self.values = values
        listed = ", ".join(f'"{value}"' for value in values)
        self.rule = f"one of {listed}" if len(values) > 1 else listed

    def __call__(self, name: str, value: object) -> Any:  # noqa: D102
        if not isinstance(value, str) or value not in self.values:
            raise self.error(name, value)
        return value


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
            raise ValueError(f'{name}="auto" is only supported by the elastic net; use a number')
        if callable(getattr(value, "get", None)) and not isinstance(value, Mapping):
            if isinstance(value, type):
                raise ValueError(
                    f"{name} must be a scheduler instance, got the class {value.__name__}"
                )
            return value
        if not _is_number(value):
            raise self.error(name, value)
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


# Declarations


class Parameter:
    """The descriptor behind a hyperparameter: checks a value whenever it is set.

    Setting it on a constructed model calls the model's `_parameter_changed()`, so that
    `model.l1 = 0.1` and river's `mutate` both take effect from the next step.

    Attributes
    ----------
    name, annotation
        The attribute's name and its annotation as source text.
    default
        The default value.
    check
        Validates a value.
    doc
        One sentence: the command line help and the first sentence in the docstring.
    details
        Further sentences of the docstring.
    fixed
        Whether the value cannot change after construction.
    init
        Whether it is an argument of the constructor. If not, it always has the default.
    """

    name: str
    annotation: str

    def __init__(
        self, default: Any, check: Check, doc: str, details: str, fixed: bool, init: bool
    ) -> None:
        self.default = default
        self.check = check
        self.doc = doc
        self.details = details
        self.fixed = fixed
        self.init = init

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.annotation = owner.__annotations__[name]

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        return self if model is None else model.__dict__[self.name]

    def __set__(self, model: Any, value: object) -> None:
        value = self.check(self.name, value)
        attributes, name = model.__dict__, self.name
        if attributes.get("_engine") is None:
            attributes[name] = value
            return
        if self.fixed:
            raise ValueError(f"{name} cannot change after construction; clone the model instead")
        before, attributes[name] = attributes[name], value
        try:
            model._parameter_changed()
        except ValueError:  # incompatible with the other parameters
            attributes[name] = before
            raise


def parameter(
    *,
    default: Any,
    check: Check,
    doc: str = "",
    details: str = "",
    fixed: bool = False,
    init: bool = True,
) -> Any:
    """Declare a hyperparameter; see `Parameter`.

    The result is typed `Any` so that `alpha: float = parameter(...)` type-checks, as with
    `dataclasses.field`.
    """
    return Parameter(default, check, doc, details, fixed, init)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter,))
class Parameterized:
    """Base of classes that declare hyperparameters."""


class EngineSlot:
    """Descriptor of a model's state: state that is assigned adopts the model's parameters."""

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        return self if model is None else model.__dict__.get("_engine")

    def __set__(self, model: Any, engine: Any) -> None:
        model.__dict__["_engine"] = engine
        model._parameter_changed()


def parameters_of(kind: type) -> dict[str, Parameter]:
    """Return the hyperparameters of a class in the order of its signature.

    Those that only some learners have come first, in the order of their declaration; the shared
    ones follow in the order of `SHARED_ORDER`. Model files list parameters in this order.
    """
    declared = [param for param in _declared(kind) if param.init]
    specific = [param for param in declared if param.name not in SHARED_ORDER]
    shared = {param.name: param for param in declared}
    ordered = specific + [shared[name] for name in SHARED_ORDER if name in shared]
    return {param.name: param for param in ordered}


def fixed_parameters_of(kind: type) -> dict[str, Any]:
    """Return the values of the parameters that are not arguments of the constructor."""
    return {param.name: param.default for param in _declared(kind) if not param.init}


def _declared(kind: type) -> Iterable[Parameter]:
    """Return the parameters of a class; an inherited attribute of another kind hides one."""
    found: dict[str, Parameter] = {}
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Parameter):
                found[name] = value  # an override keeps the position of the first declaration
            else:
                found.pop(name, None)
    return found.values()


# Signatures and documentation from the declarations


def constructor(kind: type) -> Callable[..., None]:
    """Return the keyword-only `__init__` of a class, which ends by calling `_begin()`."""
    params = parameters_of(kind)
    defaults = {name: param.default for name, param in params.items()}
    constants = fixed_parameters_of(kind)

    def __init__(self: Any, **arguments: Any) -> None:  # noqa: N807
        for name in arguments:
            if name not in defaults:
                raise TypeError(
                    f"{__init__.__qualname__}() got an unexpected keyword argument {name!r}"
                )
        for name, value in {**defaults, **arguments, **constants}.items():
            setattr(self, name, value)
        self._begin()

    keyword = inspect.Parameter.KEYWORD_ONLY
    # A bound method drops its first parameter from this signature.
    __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            *(
                inspect.Parameter(name, keyword, default=param.default, annotation=param.annotation)
                for name, param in params.items()
            ),
        ],
        return_annotation="None",
    )
    __init__.__qualname__ = f"{kind.__qualname__}.__init__"
    __init__.__module__ = kind.__module__
    return __init__


_SECTION = re.compile(r"^(?:Notes|Examples|References)\n-{3,}$", re.MULTILINE)


def documented(kind: type, doc: str) -> str:
    """Return a class docstring with a `Parameters` section before its other sections."""
    doc = inspect.cleandoc(doc)
    if "\nParameters\n----------\n" in doc:
        return doc
    found = _SECTION.search(doc)
    pos = len(doc) if found is None else found.start()
    section = "\n".join(map(_entry, parameters_of(kind).values()))
    head, tail = doc[:pos].rstrip(), doc[pos:]
    return f"{head}\n\nParameters\n----------\n{section}\n" + (f"\n{tail}" if tail else "")


@cache
def _entry(param: Parameter) -> str:
    """Return the lines of a parameter in a numpydoc section."""
    rule = param.check.rule
    facts = f"{rule[0].upper()}{rule[1:]}; default: {text_of_default(param.default)}."
    text = " ".join(filter(None, (param.doc, param.details, facts)))
    indent = "    "
    filled = textwrap.fill(
        text, 96, initial_indent=indent, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return f"{param.name}\n{filled}"


def parameter_table(kind: type) -> str:
    """Return the hyperparameters of a learner as a table in Markdown.

    Examples
    --------
    >>> import streaml1
    >>> print(parameter_table(streaml1.FTRLClassifier).splitlines()[3][:60])
    | `beta` | `float` | `1.0` | a number from 1e-100 to 1e+10 |
    """
    rows = [
        (
            f"`{param.name}`",
            f"`{param.annotation}`",
            f"`{text_of_default(param.default)}`",
            param.check.rule,
            " ".join(filter(None, (param.doc, param.details))),
        )
        for param in parameters_of(kind).values()
    ]
    heads = ("parameter", "type", "default", "value", "meaning")
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cells(line))} |" for line in lines)


def _cells(line: Iterable[str]) -> list[str]:
    return [cell.replace("|", r"\|") for cell in line]


def text_of_default(value: object) -> str:
    """Return a default value as source text; a large power of two as `2**k`."""
    if isinstance(value, int) and value >= 1024 and value & (value - 1) == 0:
        return f"2**{value.bit_length() - 1}"
    if isinstance(value, float) and abs(value) >= 1e6:
        return f"{value:g}".replace("e+", "e")
    return f'"{value}"' if isinstance(value, str) else repr(value)
