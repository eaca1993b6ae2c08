"""Hyperparameters: one declaration yields the signature, the check, the documentation and the option.

A hyperparameter is an annotated class attribute whose value is a call of `parameter`:

    class FTRLParameters(SharedParameters):
        alpha: float = parameter(default=0.1, check=Number(1e-100, 1e10), doc="Scale of the rates.")

Type checkers synthesize the keyword-only `__init__` from it (PEP 681). `constructor` builds the same
one at run time, `documented` the docstring, `parameter_table` a table in Markdown, and
`streaml1.cli.options` the command line option.

This module imports neither numpy nor river, so that the command line can print its help without them.
"""  # noqa: E501

from __future__ import annotations

import inspect
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Protocol, dataclass_transform

from streaml1.core.option_fields import unexpected_option
from streaml1.models.parameter_checks import INSTEAD_OF_OPTIMIZER, Check

__all__ = [
    "SCHEDULES",
    "SHARED_ORDER",
    "Parameter",
    "Parameterized",
    "Scheduler",
    "StateSlot",
    "constructor",
    "documented",
    "fixed_parameters_of",
    "parameter",
    "parameter_table",
    "parameters_of",
    "text_of_default",
]

SCHEDULES = ("invsqrt", "constant", "inverse")
USE_PENALTIES = "use l1 and l2, the strengths of the penalties, where the learner has them"
USE_PASSES = "learn the examples again, or use passes= of streaml1.progressive"

OTHER_PARAMETERS = {
    "optimizer": f"use {INSTEAD_OF_OPTIMIZER}",
    "initializer": "weights start at zero",
    "learning_rate": 'use lr, or omit it where lr is "auto"',
    **dict.fromkeys(("alpha", "C", "penalty", "l1_ratio", "reg", "lambda_"), USE_PENALTIES),
    **dict.fromkeys(("epochs", "max_iter", "n_iter", "passes"), USE_PASSES),
    **dict.fromkeys(("fit_intercept", "intercept"), "use intercept_lr=0 for no intercept"),
    **dict.fromkeys(("class_weight", "scale_pos_weight"), "use positive_weight"),
    **dict.fromkeys(("random_state", "seed"), "omit it, because learning is not random"),
}
"""What to use instead of parameters of linear models of river and scikit-learn.

A learner that has a parameter of this name does not look it up here.
"""

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
        if "_state" not in attributes:  # not yet constructed
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

    def _unused_parameters(self) -> Iterator[tuple[str, str]]:
        """Yield parameters without effect, given the others, each with what it would require."""
        return iter(())


class StateSlot:
    """Descriptor of a model's state: assigning it, as river's `clone` does, keeps the parameters.

    It has no `__get__`, so that reading needs no call: Python finds the value in the instance.
    """

    def __set__(self, model: Any, state: Any) -> None:
        model.__dict__["_state"] = state
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
                raise _unknown_parameter(__init__.__qualname__, name, defaults)
        for name, value in {**defaults, **arguments, **constants}.items():
            setattr(self, name, value)
        self._begin()
        if len(arguments) == len(defaults):  # a clone or a loaded model: the first one has warned
            return
        for name, required in self._unused_parameters():
            value = arguments.get(name, defaults[name])
            if value != defaults[name]:
                message = f"{name}={value!r} has no effect: it requires {required}"
                warnings.warn(message, UserWarning, stacklevel=2)

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


def _unknown_parameter(caller: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for an unknown parameter, which may be one of other linear models."""
    remedy = OTHER_PARAMETERS.get(name)
    if remedy is None:
        return unexpected_option(caller, name, known)
    return TypeError(f"{caller}() got an unexpected keyword argument {name!r}: {remedy}")


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
