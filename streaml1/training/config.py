"""Options of a training run."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

from streaml1.core.option_fields import (
    document_options,
    option,
    option_names,
    parameter_entries,
    unexpected_option,
    validate_options,
)
from streaml1.sources.options import SOURCE_PARAMETERS, SourceOptions
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.held_out import DEFAULT_EVERY
from streaml1.training.observers import Observer
from streaml1.training.report import Line, Report

__all__ = [
    "RUN_PARAMETERS",
    "SOURCE_PARAMETERS",
    "RunConfig",
    "StopCondition",
    "require_positive",
    "require_duration",
    "run_config",
    "run_parameters",
]


StopCondition = Event | Callable[[], object]
"""Ends a run once the event is set, or the function returns a true value."""


def require_positive(name: str, value: object) -> None:
    """Raise ValueError unless a value is an integer of at least 1."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
    if operator.index(value) < 1:
        raise ValueError(f"{name} must be >= 1, got {value!r}")


def require_duration(name: str, value: object) -> None:
    """Raise ValueError unless a value is a positive number of seconds."""
    if not isinstance(value, int | float) or not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number of seconds > 0, got {value!r}")


def _require_callable(name: str, value: object) -> None:
    if not callable(value):
        raise TypeError(f"{name} must be callable, got {value!r}")


def _require_stop(name: str, value: object) -> None:
    if not (callable(value) or hasattr(value, "is_set")):
        raise TypeError(f"{name} must be a threading.Event or a function, got {value!r}")


def _require_holdout(name: str, value: object) -> None:
    is_int = hasattr(value, "__index__") and not isinstance(value, bool)
    if not is_int or operator.index(value) < 0 or operator.index(value) == 1:  # type: ignore[arg-type]
        raise ValueError(f"{name} must be 0 or an integer >= 2, got {value!r}")


def _require_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be a bool, got {value!r}")


def _one_of(*choices: str) -> Callable[[str, object], None]:
    listed = " or ".join(f'"{choice}"' for choice in choices)

    def require(name: str, value: object) -> None:
        if value not in choices:
            raise ValueError(f"{name} must be {listed}, got {value!r}")

    return require


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Options of `streaml1.progressive` and its relatives.

    Parameters
    ----------
    {options}

    Examples
    --------
    >>> from streaml1 import ElasticNetClassifier, progressive
    >>> from streaml1.training import RunConfig
    >>> config = RunConfig(every=500, limit=1000)
    >>> report = progressive(ElasticNetClassifier(), "river:Phishing", config)
    >>> [line.examples for line in report.lines]
    [500, 1000]
    """

    every: int | None = option(
        None,
        "Examples between two lines of the report. None: 1,000 up to 10,000 examples, 10,000 up "
        "to 100,000, and so on. The last line comes at the end.",
        check=require_positive,
    )
    limit: int | None = option(
        None, "Maximum number of examples learnt in each pass.", check=require_positive
    )
    passes: int = option(1, "Number of passes over the source.", check=require_positive)
    holdout: int | None = option(
        None,
        "Hold out every N-th line: it is predicted, but never learnt, in any pass. From the second "
        "pass on the report covers these rows only, and the model of the pass with the smallest "
        "loss on them is the result. 0 holds out none. None: 10 with several passes, else 0.",
        check=_require_holdout,
    )
    bad: str = option(
        "fail",
        '"fail" raises at the first rejected example. "skip" counts it, logs the first few '
        'under "streaml1" (all of them if that logger is at INFO), and continues. A rejected '
        "example is never learnt.",
        check=_one_of("fail", "skip"),
    )
    on_line: Callable[[Line], object] | None = option(
        None,
        "Called with each line of the report. If it raises, the error is logged and it is not "
        "called again; the run continues.",
        check=_require_callable,
    )
    on_start: Callable[[Report], object] | None = option(
        None,
        "Called once with the report, before the source is read. An error is logged.",
        check=_require_callable,
    )
    stop: StopCondition | None = option(
        None,
        "A `threading.Event`, or a function without arguments: once it is set, or returns a "
        "true value, the run ends after the current block.",
        check=_require_stop,
    )
    checkpoint: str | Path | Checkpoints | None = option(
        None,
        "Directory for checkpoints. A run resumes from the latest checkpoint in it, model and "
        "report included, as if it had not been interrupted. A checkpoint is written every ten "
        "seconds and at the end.",
    )
    observers: Sequence[Observer] = option(
        (),
        "Observers of the run, such as writers of dead letters; see `streaml1.training.Observer`.",
    )
    label_within: float | None = option(
        None,
        "Expect labels later than their examples and wait this many seconds of stream time for "
        'each. The source holds events: JSON lines, or dicts `{"id", "x"}` and `{"id", "y"}`.',
        check=require_duration,
    )
    waiting: int = option(
        1_000_000,
        "Delayed labels: maximum number of examples and labels that wait. The oldest are dropped.",
        check=require_positive,
    )
    unanswered: str = option(
        "drop",
        'Delayed labels: "drop" an example whose label has not arrived in time, or learn it as '
        'a "negative".',
        check=_one_of("drop", "negative"),
    )
    data_checks: bool = option(
        True,
        "Warn once, in the log and in the report, about data that a model can hardly learn from: "
        "values or sample weights a thousand times as large as usual, columns of very unequal "
        "sizes, constant labels, a loss no better than the baseline.",
        check=_require_bool,
    )
    progress: bool = option(
        False,
        "Show a progress bar with the loss so far, on a terminal or in a notebook.",
        check=_require_bool,
    )
    on_drift: str = option(
        "log",
        'What to do when the loss rises by more than chance allows (a drift): "log" it and keep '
        'it in the report; "publish" the model at once, too, with a `ModelPublisher` among the '
        'observers; "reset-rates" restarts the learning rates; "ignore" does not look for '
        "drifts.",
        check=_one_of("log", "publish", "reset-rates", "ignore"),
    )
    source_options: SourceOptions = option(
        SourceOptions(),
        "How to read a source that is given by name. Its fields are accepted as keywords, too.",
    )

    def __post_init__(self) -> None:
        validate_options(self)
        if self.label_within is not None and self.passes > 1:
            raise ValueError(
                f"passes must be 1 with delayed labels, got {self.passes}: labels arrive once"
            )
        if self.label_within is not None and self.on_drift == "reset-rates":
            raise ValueError('on_drift must not be "reset-rates" with delayed labels')
        if self.label_within is not None and self.holdout:
            raise ValueError(f"holdout must be 0 with delayed labels, got {self.holdout}")
        if self.label_within is None and self.source_options.labels is not None:
            raise ValueError(
                f"labels={self.source_options.labels!r} needs delayed labels; give label_within too"
            )

    @property
    def holdout_every(self) -> int:
        """The value of `holdout`, with its default resolved."""
        if self.holdout is None:
            return DEFAULT_EVERY if self.passes > 1 else 0
        return self.holdout


def run_parameters(only: Iterable[str] | None = None) -> str:
    """Format options as entries of a Parameters section; by default all but `source_options`."""
    if only is None:
        only = [name for name in option_names(RunConfig) if name != "source_options"]
    return parameter_entries(RunConfig, only)


RUN_PARAMETERS = run_parameters()
"""Entries of all options of a run, for the Parameters section of a docstring."""

document_options(parameter_entries(RunConfig))(RunConfig)

SYNONYMS = {"outs": "observers"}
"""Keywords that are accepted for an option of another name."""

METRICS = ("metric", "metrics", "scoring")
"""Keywords of other libraries that choose what is measured."""


def run_config(
    caller: str,
    config: RunConfig | None,
    keywords: Mapping[str, Any],
    accepts: Sequence[str] | None = None,
    internal: bool = False,
) -> RunConfig:
    """Merge keyword arguments of a function into its config.

    Parameters
    ----------
    caller
        Name of the function, for errors.
    config
        Options that the keywords override. None means the defaults.
    keywords
        Fields of `RunConfig` or `SourceOptions` by name.
    accepts
        Fields of `RunConfig` that the function uses. None means all of them.
    internal
        Whether fields of `SourceOptions` that the library usually sets are accepted.

    Raises
    ------
    TypeError
        If a keyword is not an option of the function, with the closest one; if `config` is of
        another type; or if it sets an option that the function does not use.
    ValueError
        If a value is out of range.
    """
    if config is not None and not isinstance(config, RunConfig):
        raise TypeError(
            f"config of {caller}() must be a RunConfig, got an object of type "
            f"{type(config).__name__}; a matrix or frame and its labels are one source: (X, y)"
        )
    of_run = option_names(RunConfig) if accepts is None else [*accepts, "source_options"]
    of_source = option_names(SourceOptions, internal)
    run_fields: dict[str, Any] = {}
    source_fields: dict[str, Any] = {}
    for given, value in keywords.items():
        name = SYNONYMS.get(given, given)
        if name in of_run:
            run_fields[name] = value
        elif name in of_source:
            source_fields[name] = value
        elif given in METRICS:
            raise TypeError(
                f"{caller}() got an unexpected keyword argument {given!r}; omit it: the report has "
                "all metrics"
            )
        else:
            raise unexpected_option(caller, given, [*of_run, *of_source])
    merged = RunConfig() if config is None else config
    _require_used(caller, merged, of_run)
    options = run_fields.pop("source_options", merged.source_options)
    options = replace(options, **source_fields)
    return replace(merged, **run_fields, source_options=options)


def _require_used(caller: str, config: RunConfig, accepts: Sequence[str]) -> None:
    """Reject a config with an option that the function would ignore."""
    default = RunConfig()
    for name in option_names(RunConfig):
        if name not in accepts and getattr(config, name) != getattr(default, name):
            raise TypeError(f"{caller}() does not use {name}; leave it out of the config")
