"""Options of `learn` that set hyperparameters, generated from their declarations."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from streaml1.cli.options import Decorator, split_names, together
from streaml1.models.hyperparameters import ClassifierParameters, RegressorParameters
from streaml1.models.parameter_checks import AUTO, Boolean, Choice, Integer, Number
from streaml1.models.parameters import (
    SHARED_ORDER,
    Parameter,
    Parameterized,
    parameters_of,
    text_of_default,
)
from streaml1.models.registry import LEARNERS
from streaml1.optim.tasks import PARAMETERS

__all__ = [
    "HYPERPARAMETERS",
    "declared_options",
    "list_of_learners",
    "options_of",
    "parameter_options",
]


MAX_PLACEHOLDER = 60
"""Characters of a placeholder such as ``[l2|linf]``: a page of help has 80 columns."""


class Rate(click.ParamType):  # type: ignore[type-arg]
    """A learning rate: a number or "auto"."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert and validate the value."""
        if value == "auto":
            return value
        try:
            return float(value)
        except ValueError:
            self.fail(f"must be a number or auto, got {value!r}", param, ctx)


def _labels(ctx: click.Context, param: click.Parameter, listed: str | None) -> Any:
    if listed is None:
        return None
    from streaml1.sources import class_label

    try:
        return [class_label(label) for label in listed.split(",")]
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def _listed(ctx: click.Context, param: click.Parameter, lists: tuple[str, ...]) -> Any:
    return split_names(ctx, param, lists) or None


def _crosses(ctx: click.Context, param: click.Parameter, lists: tuple[str, ...]) -> Any:
    return [tuple(prefixes.split(",")) for prefixes in lists] or None


class ModelOption(NamedTuple):
    """How the command line writes a hyperparameter whose declaration does not suffice."""

    type: Any = None
    metavar: str | None = None
    callback: Any = None
    multiple: bool = False
    help: str = ""
    default: str | None = None


MODEL_OPTIONS = {
    "lr": ModelOption(
        type=Rate(),
        metavar="FLOAT|auto",
        help="auto leaves none to choose.",
        default="auto for elastic-net and softmax without --schedule, --stamps explicit, --average "
        "and --penalty ball; adaptive: 0.3; else 0.1",
    ),
    "alpha": ModelOption(type=Rate(), metavar="FLOAT|auto"),
    "scaled": ModelOption(default="with --alpha auto only"),
    "classes": ModelOption(
        metavar="LABEL,...", callback=_labels, default="labels are added as they appear"
    ),
    "cross": ModelOption(
        metavar="PREFIX,PREFIX[,PREFIX]",
        multiple=True,
        callback=_crosses,
        help="Prefixes are columns or namespaces. Repeatable.",
    ),
    "text": ModelOption(
        metavar="NAME,...",
        multiple=True,
        callback=_listed,
        help="Names are columns or namespaces; for CSV, JSON and vw.",
    ),
    "max_features": ModelOption(metavar="N", default="no limit"),
    "hash_bits": ModelOption(metavar="B", default="store the names"),
    "n_features": ModelOption(metavar="N"),
    "ngrams": ModelOption(metavar="N"),
    "nonnegative": ModelOption(default="off"),
    "p": ModelOption(default="max(2, 2 ln n-features)"),
}


def declared_options() -> dict[str, dict[str, Parameter]]:
    """Return the declarations of each hyperparameter by learner, in the order of the help."""
    declared: dict[str, dict[str, Parameter]] = {}
    for learner in LEARNERS.values():
        for name, param in parameters_of(learner.parameters).items():
            declared.setdefault(name, {})[learner.name] = param
    own = [name for name in declared if name not in SHARED_ORDER]
    return {name: declared[name] for name in (*own, *SHARED_ORDER) if name in declared}


def _model_option(name: str, declared: dict[str, Parameter]) -> Decorator:
    """Return the decorator that adds the option of a hyperparameter."""
    names, settings = _settings(name, declared)
    return click.option(names, name, **settings)


def _settings(name: str, declared: dict[str, Parameter]) -> tuple[str, dict[str, Any]]:
    """Return the names and settings of an option: type, range, default and help are declared."""
    extra = MODEL_OPTIONS.get(name, ModelOption())
    flag = name.replace("_", "-")
    default = extra.default or _defaults(declared)
    names, given = f"--{flag}", extra.type or _type(declared)
    texts = (_summaries(declared), _listed_values(given), extra.help)
    text = " ".join(filter(None, texts)).replace("`", "")
    settings: dict[str, Any] = {"help": f"{text}  [default: {default}]", "default": None}
    if isinstance(given, Boolean):
        settings["is_flag"] = True
        if name != "nonnegative":
            names = f"--{flag}/--no-{flag}"
    else:
        metavar = "NAME" if _listed_values(given) else extra.metavar
        settings |= {"type": given, "metavar": metavar, "callback": extra.callback}
    if extra.multiple:
        settings["multiple"] = True
    return names, settings


def _type(declared: dict[str, Parameter]) -> Any:
    """Return the click type that accepts what any of the learners accepts."""
    checks = [param.check for param in declared.values()]
    if isinstance(checks[0], Boolean):
        return checks[0]
    if isinstance(checks[0], Choice):
        values = (value for check in checks if isinstance(check, Choice) for value in check.values)
        return click.Choice(list(dict.fromkeys(values)))
    integers = [check for check in checks if isinstance(check, Integer)]
    if integers:
        return click.IntRange(min=min(check.min for check in integers))
    return float if isinstance(checks[0], Number) else str


def _listed_values(given: Any) -> str:
    """Return a sentence with the values of a choice if they are too long for its placeholder."""
    values = [*given.choices] if isinstance(given, click.Choice) else []
    return f"One of {', '.join(values)}." if len("|".join(values)) > MAX_PLACEHOLDER else ""


def _summaries(declared: dict[str, Parameter]) -> str:
    """Return the descriptions, each with its learners unless most have the parameter."""
    learners: dict[str, list[str]] = {}
    for learner, param in declared.items():
        learners.setdefault(param.doc, []).append(learner)
    if 2 * len(declared) > len(LEARNERS):  # too common to list its learners
        return next(iter(learners))
    if len(learners) == 1 and declared.keys() >= {"classification", "regression"}:
        return next(iter(learners))
    texts = [f"{', '.join(names)}: {doc[0].lower()}{doc[1:]}" for doc, names in learners.items()]
    return " ".join(texts)


def _defaults(declared: dict[str, Parameter]) -> str:
    """Return the default, and those of the learners in which it differs."""
    texts = {learner: _text_of(param) for learner, param in declared.items()}
    first = next(iter(texts.values()))
    others = [f"{learner}: {text}" for learner, text in texts.items() if text != first]
    return "; ".join([first, *others])


def _text_of(param: Parameter) -> str:
    value = param.default
    if isinstance(value, bool):
        return param.name.replace("_", "-") if value else f"no {param.name.replace('_', '-')}"
    if value is None:
        return "none"
    if isinstance(value, float):
        text = f"{value:.0e}" if 0.0 < value < 0.01 else f"{value:g}"
        return text.replace("e+", "e").replace("e-0", "e-")
    return value if isinstance(value, str) else text_of_default(value)


TASKS: dict[str, type[Parameterized]] = {
    "classification": ClassifierParameters, "regression": RegressorParameters
}  # fmt: skip


def options_of(learner: str) -> list[click.Option]:
    """Return the options of one learner, its own ones first, described without the others."""
    entry = LEARNERS[learner]
    own = {name: {learner: param} for name, param in parameters_of(entry.parameters).items()}
    for task in entry.classes:
        for name, param in parameters_of(TASKS[task]).items():
            if learner not in own.setdefault(name, {}):
                own[name][task] = param
    order = [name for name in own if name not in SHARED_ORDER]
    order += [name for name in SHARED_ORDER if name in own]
    return [_single_option(name, own[name]) for name in order]


def _single_option(name: str, declared: dict[str, Parameter]) -> click.Option:
    names, settings = _settings(name, declared)
    first = next(iter(declared.values()))
    extra = MODEL_OPTIONS.get(name, ModelOption())
    default = extra.default or _defaults(declared)
    if name == "lr" and first.default != AUTO:  # the option as a whole is described for all
        default, extra = _text_of(first), ModelOption()
        settings["metavar"] = "FLOAT"
    elif name == "lr":
        exceptions = "--schedule, --stamps explicit and --average"
        if "softmax" in declared:
            exceptions = "--schedule and --penalty ball"
        default = f"auto without {exceptions}; else 0.1"
    texts = (first.doc, _listed_values(settings.get("type")), extra.help)
    text = " ".join(filter(None, texts)).replace("`", "")
    return click.Option([names, name], **settings | {"help": f"{text}  [default: {default}]"})


# Options that are not given keep the default of a new model or the value of a loaded one.
parameter_options = together(
    click.option("--model", type=click.Choice(list(LEARNERS)), metavar="LEARNER",
                 help=f"Learning method: {', '.join(LEARNERS)}.  [default: elastic-net]"),
    click.option("--task", type=click.Choice(["classification", "regression"]),
                 help="[default: that of --loss, or of a data set of river; else classification]"),
    *(_model_option(name, declared) for name, declared in declared_options().items()
      if name != "loss"),
    _model_option("loss", {
        "classification": parameters_of(ClassifierParameters)["loss"],
        "regression": parameters_of(RegressorParameters)["loss"],
        **declared_options()["loss"],
    }),
    *(_model_option(name, {"classification": parameters_of(ClassifierParameters)[name]})
      for name in ("negative_rate", "positive_weight")),
    _model_option("offset", {"classification": parameters_of(ClassifierParameters)["offset"],
                             "regression": parameters_of(RegressorParameters)["offset"]}),
    *(_model_option(name, {"regression": parameters_of(RegressorParameters)[name]})
      for name in PARAMETERS.values()),
)  # fmt: skip


HYPERPARAMETERS = (
    *declared_options(), "negative_rate", "positive_weight", "offset", *PARAMETERS.values()
)  # fmt: skip
"""The names of the options that set hyperparameters."""


def list_of_learners() -> str:
    """Return the learners with their summaries, one a line, for the end of a help text."""
    lines = (f"  {learner.name:<20}{learner.summary}" for learner in LEARNERS.values())
    return "\b\nLearners:\n" + "\n".join(lines)
