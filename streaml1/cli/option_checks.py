"""Checks of the options of a run against each other and against the source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from streaml1.cli.program import CommandError

if TYPE_CHECKING:
    from streaml1.models.base import OnlineModel

__all__ = [
    "MODEL_REMEDY",
    "is_given",
    "require_holdout",
    "require_late",
    "require_needed",
    "require_prefixes",
    "require_text",
    "texts_of",
]

OMIT_CROSS = "omit --cross"
MODEL_REMEDY = (
    "the model has interactions, so use a source with names (vw, JSON lines, CSV) or a model "
    "without --cross"
)


def require_text(options: dict[str, Any], resumes: bool) -> None:
    """Reject --ngrams without --text, except for a model that resumes and knows its text."""
    ngrams = options["ngrams"]
    most = max(ngrams) if isinstance(ngrams, list | tuple) else ngrams  # a sweep tries several
    if most is not None and most > 1 and options["text"] is None and not resumes:
        raise CommandError(
            "--ngrams requires --text: use --text NAME to name the column, or the namespace in vw"
        )


def require_prefixes(
    source: str | list[str], format: str | None, cross: object, remedy: str = OMIT_CROSS
) -> None:
    """Reject interactions for a source whose features have no names.

    Parameters
    ----------
    source
        The argument SOURCE.
    format
        The option --format.
    cross
        The interactions of the options or of the model.
    remedy
        The end of the error message.
    """
    from streaml1.sources import format_of, open_source

    if not cross:
        return
    kind, reason = format_of(source, format), ""
    if kind == "kafka":
        kind = {"svm": "svmlight"}.get((format or "").lower(), "")
    if kind == "svmlight":
        reason = "is svmlight, whose features"
    elif kind == "rows":
        about = open_source(source, format=format).about  # type: ignore[attr-defined]
        if about["features"] and not about["names"]:
            made = "" if about["format"] == "examples" else f" ({about['source']})"
            reason = f"was converted from data without names{made}, so features"
    if reason:
        shown = source if isinstance(source, str) else source[0]
        raise CommandError(f"{shown} {reason} have no name prefixes: {remedy}")


_NEEDS = {"checkpoint_every": ("checkpoint",), "stalled": ("metrics", "page"),
          "session_timeout": ("per_partition", "mixed")}  # fmt: skip
"""Options that have an effect only together with one of some others."""


def is_given(name: str) -> bool:
    """Return whether an option was given, on the command line or in a file of --config."""
    origin = click.get_current_context().get_parameter_source(name)
    return origin in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)


def require_needed() -> None:
    """Reject options in `_NEEDS` without an option they need."""
    params = click.get_current_context().params
    for name, needed in _NEEDS.items():
        if is_given(name) and not any(params[other] for other in needed):
            option, *required = (f"--{other.replace('_', '-')}" for other in (name, *needed))
            raise CommandError(f"{option} requires {' or '.join(required)}")


def texts_of(
    source: str | list[str],
    options: dict[str, Any],
    load: Callable[[], Any] | None,
    checkpoint: Path | None,
) -> list[str] | None:
    """Return the names of the features to read as raw text, or None.

    They come from the options, or else from the model that resumes. Only CSV and vw readers need
    them in advance.
    """
    import streaml1.datasets  # noqa: F401  (registers the source `stdlib`)
    from streaml1.sources import format_of
    from streaml1.training.checkpoint import load_latest
    from streaml1.training.model_adapter import text_features

    given: list[str] | None = options["text"]
    resumes = checkpoint is not None or load is not None
    if given is not None or not resumes:
        return given
    kind = format_of(source, options["format"])
    if kind == "kafka":
        kind = (options["format"] or "").lower()
    if kind not in ("csv", "vw", "svmlight", "rows"):  # opening the last two rejects text
        return given
    found = load_latest(checkpoint) if checkpoint is not None and checkpoint.is_dir() else None
    if found is not None:
        return text_features(found.model)
    return None if load is None else text_features(load())


def require_holdout(every: int | None, late: bool) -> None:
    """Reject a share of held-out rows that a run does not support."""
    if every == 1:
        raise CommandError("--holdout must be 0 or at least 2, got 1: it would leave nothing")
    if every and late:
        raise CommandError("--holdout cannot be combined with --label-within")


def require_late(unanswered: str, learner: OnlineModel, passes: int) -> None:
    """Reject a model or a number of passes that delayed labels do not support."""
    from streaml1.training.delayed_labels import require_negatives

    if passes > 1:
        raise CommandError(
            "--passes cannot be combined with --label-within: each label arrives once"
        )
    try:
        require_negatives(unanswered, learner)
    except ValueError as error:
        raise CommandError(str(error)) from None
