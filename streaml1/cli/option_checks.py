"""Whether the options of a run fit one another, and its source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from streaml1.cli.program import Refusal

if TYPE_CHECKING:
    from streaml1.training.delayed_labels import LateLabels

__all__ = [
    "OF_MODEL",
    "require_late",
    "require_needed",
    "require_prefixes",
    "require_text",
    "texts_of",
]

LEAVE_OUT = "leave --cross out"
OF_MODEL = (
    "the model has crosses, so give a source of names (vw, JSON lines, CSV), or take a model that "
    "was made without --cross"
)


def require_text(options: dict[str, Any], goes_on: bool) -> None:
    """Refuse n-grams of nothing; a model that goes on knows its text."""
    n = options["ngrams"]
    if n is not None and n > 1 and options["text"] is None and not goes_on:
        raise Refusal(
            f"--ngrams {n} makes nothing without --text: neighbours are words of raw text; say "
            "--text with the name of the column, or of the namespace in vw"
        )


def require_prefixes(source: str, format: str | None, cross: Any, remedy: str = LEAVE_OUT) -> None:
    """Refuse crosses, of the options or a model, of what has no names."""
    from streaml1.sources import format_of, open_source

    if not cross:
        return
    kind, numbers = format_of(source, format), ""
    if kind == "kafka":
        kind = {"svm": "svmlight"}.get((format or "").lower(), "")
    if kind == "svmlight":
        numbers = "is svmlight, whose numbers"
    elif kind == "rows":
        about = open_source(source, format=format).about  # type: ignore[attr-defined]
        if about["features"] and not about["names"]:
            made = "" if about["format"] == "examples" else f" ({about['source']})"
            numbers = f"holds the numbers of what it was made of{made}, which"
    if numbers:
        raise Refusal(f"{source} {numbers} have no prefixes: {remedy}")


_NEEDS = {"checkpoint_every": "checkpoint", "stalled": "metrics",
          "session_timeout": "per_partition"}  # fmt: skip
"""Options that make something only beside another one."""


def require_needed() -> None:
    """Refuse such options where that other is not given."""
    context = click.get_current_context()
    for name, needed in _NEEDS.items():
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and not context.params[needed]:
            one, other = (f"--{word.replace('_', '-')}" for word in (name, needed))
            raise Refusal(f"{one} makes nothing without {other}: give that too")


def texts_of(
    source: str,
    options: dict[str, Any],
    load: Callable[[], Any] | None,
    checkpoint: Path | None,
) -> list[str] | None:
    """What CSV and vw have text for: what is asked for, or what the model that goes on reads."""
    import streaml1.datasets  # noqa: F401  (makes `stdlib` a source)
    from streaml1.sources import format_of
    from streaml1.training.checkpoint import look

    asked: list[str] | None = options["text"]
    goes_on = checkpoint is not None or load is not None
    if asked is not None or not goes_on or Path(source).is_dir():
        return asked
    kind = format_of(source, options["format"])
    if kind == "kafka":
        kind = (options["format"] or "").lower()
    if kind not in ("csv", "vw", "svmlight", "rows"):  # of the last two no text can be read
        return asked
    if checkpoint is not None and checkpoint.is_dir() and (found := look(checkpoint)) is not None:
        return list(found.model.text or ()) or None
    return None if load is None else list(load().text or ()) or None


def require_late(late: LateLabels, learner: Any, passes: int) -> None:
    """Refuse a model, or passes, that late labels do not go with."""
    from streaml1.training import delayed_labels as labels

    if passes > 1:
        raise Refusal("--passes has no meaning with --label-within: labels come once")
    try:
        labels.require_late(late, learner)
    except ValueError as error:
        raise Refusal(str(error)) from None
