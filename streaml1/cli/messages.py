"""What is wrong, or worth knowing, on standard error: sentences or JSON."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

import click

from streaml1.core.logging import JsonLines, json_line

if TYPE_CHECKING:
    from streaml1.training.report import Line

__all__ = ["PROGRAM", "abandon_output", "abandon_unsaid", "advise", "complain", "logged", "say_as"]

PROGRAM = "streaml1"

_ENDS = {ord("\n"): r"\n", ord("\r"): r"\r"}


class _Form:
    """How what is wrong, or worth knowing, is said."""

    json = False


def say_as(form: str) -> None:
    """Have standard error hold sentences ("text"), or JSON ("json")."""
    _Form.json = form == "json"


def complain(sentence: str, name: str = "advice", **fields: Any) -> None:
    """Say on standard error what is wrong, or worth knowing."""
    if _Form.json:
        level = "error" if name == "error" else "warning"
        _to_standard_error(json_line(level, name, sentence, fields))
    else:
        # One line, whatever a name has in it.
        _to_standard_error(f"{PROGRAM}: {sentence.translate(_ENDS)}")


def _to_standard_error(line: str) -> None:
    """Write a line; where nobody can read it, nothing ends by that."""
    with suppress(OSError, ValueError):
        click.echo(line, err=True)


def abandon_output() -> None:
    """Write nothing more: who read it has gone."""
    try:
        _abandon(sys.stdout)
    except (OSError, ValueError):  # a stream that is no file
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def abandon_unsaid() -> None:
    """Give up what standard error could not take: Python would exit with 120 for it."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            _abandon(sys.stderr)


def _abandon(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _ToStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if _Form.json:
            _to_standard_error(JsonLines().format(record))
        else:
            complain(record.getMessage())


@contextmanager
def logged() -> Iterator[None]:
    """Show on standard error what is logged, such as the examples that are skipped."""
    logger, handler = logging.getLogger(PROGRAM), _ToStandardError()
    level, before, logger.propagate = logger.level, logger.propagate, False
    if _Form.json:
        logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
        logger.setLevel(level)


def advise(line: Line, model: Any) -> None:
    """Say what helps where a model has diverged."""
    if line.examples >= 100 and (line.loss or 0.0) > 2.0 * (line.constant_loss or 0.0):
        own = model._get_params()
        rates = [f"lower --{name}" for name in ("lr", "alpha") if own.get(name, "auto") != "auto"]
        rates += ["raise --l2"] if type(model).__name__.startswith("Pegasos") else []
        if own.get("lr") == "auto":  # blind to the scale of features
            rest = ["give --lr a number", "look for rows or labels far larger than the others"]
        else:
            rest = ["scale the features to about 1"]
        remedy = ", or ".join([*rates, *rest])
        complain(f"the loss is far above that of the baseline: {remedy}")
