"""Errors, warnings and log records on standard error, as text or JSON."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

import click

from streaml1.core.logging import JsonFormatter, json_line

if TYPE_CHECKING:
    from streaml1.models.base import OnlineModel
    from streaml1.training.report import Line

__all__ = [
    "PROGRAM",
    "abandon_output",
    "abandon_unwritten",
    "above_progress",
    "advise",
    "is_json",
    "log_in_worker",
    "logged",
    "report_problem",
    "set_log_format",
]

PROGRAM = "streaml1"

_CONTROLS = {
    code: chr(code).encode("unicode_escape").decode()
    for code in (*range(32), *range(127, 160), 0x2028, 0x2029)
}
"""Escapes of characters that end lines or control a terminal."""

MAX_MESSAGE = 4_000
"""Characters of a message: names in it may have any length."""


class _Format:
    """The format of standard error in this process."""

    json = False
    clear_progress: Callable[[], None] | None = None


def set_log_format(form: str) -> None:
    """Set the format of standard error: "text" or "json"."""
    _Format.json = form == "json"


def is_json() -> bool:
    """Return whether standard error is JSON."""
    return _Format.json


@contextmanager
def above_progress(clear: Callable[[], None]) -> Iterator[None]:
    """Call `clear` before messages, so that they do not continue the line of the progress."""
    before, _Format.clear_progress = _Format.clear_progress, clear
    try:
        yield
    finally:
        _Format.clear_progress = before
        clear()


def report_problem(sentence: str, name: str = "advice", **fields: Any) -> None:
    """Write an error or a warning to standard error.

    Parameters
    ----------
    sentence
        The message.
    name
        The event of the JSON object; "error" sets its level, too.
    fields
        Further fields of the JSON object.
    """
    if _Format.json:
        level = "error" if name == "error" else "warning"
        _to_standard_error(json_line(level, name, sentence, fields))
    else:
        # Names in the message may contain anything.
        cut = sentence if len(sentence) <= MAX_MESSAGE else f"{sentence[:MAX_MESSAGE]}..."
        _to_standard_error(f"{PROGRAM}: {cut.translate(_CONTROLS)}")


def _to_standard_error(line: str) -> None:
    """Write a line; a failure to write is not an error."""
    if _Format.clear_progress is not None:
        _Format.clear_progress()
    with suppress(OSError, ValueError):
        click.echo(line, err=True)


def abandon_output() -> None:
    """Redirect standard output to /dev/null, because it cannot be written."""
    try:
        _abandon(sys.stdout)
    except (OSError, ValueError):  # a stream without a file descriptor
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def abandon_unwritten() -> None:
    """Drop buffered standard error that cannot be written; Python would exit with 120 for it."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            _abandon(sys.stderr)


def _abandon(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _ToStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if _Format.json:
            _to_standard_error(JsonFormatter().format(record))
        else:
            report_problem(record.getMessage())


class _OnlyOnce(logging.Filter):
    """Passes each message once."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        is_new = message not in self._seen
        self._seen.add(message)
        return is_new


def log_in_worker(as_json: bool) -> None:
    """Let a new process write its log records as the command that has started it does.

    Equal messages are written once: several runs may read the same source.
    """
    _Format.json = as_json
    logger, handler = logging.getLogger(PROGRAM), _ToStandardError()
    handler.addFilter(_OnlyOnce())
    logger.propagate = False
    logger.addHandler(handler)


@contextmanager
def logged(verbose: bool = False, once: bool = False) -> Iterator[None]:
    """Write log records, such as those of skipped examples, to standard error.

    Informational ones are written as JSON only, unless `verbose` is set. With `once`, for commands
    that read a source several times, equal messages are written once. Within another one, this has
    no effect.
    """
    logger, handler = logging.getLogger(PROGRAM), _ToStandardError()
    if any(isinstance(other, _ToStandardError) for other in logger.handlers):
        yield
        return
    if once:
        handler.addFilter(_OnlyOnce())
    level, before, logger.propagate = logger.level, logger.propagate, False
    if _Format.json or verbose:
        logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
        logger.setLevel(level)


def advise(line: Line, model: OnlineModel) -> None:
    """Warn if a model has diverged, and suggest remedies."""
    baseline = line.constant_loss or 0.0  # negative for the Poisson loss of large counts
    if line.examples >= 100 and (line.loss or 0.0) > baseline + abs(baseline):
        params = model._get_params()
        first = [
            f"lower --{name}" for name in ("lr", "alpha") if params.get(name, "auto") != "auto"
        ]
        if params.get("positive_weight", 1.0) > 1.0:  # the loss does not count it
            first += ["leave out --positive-weight, which raises predictions"]
        first += ["raise --l2"] if type(model).__name__.startswith("Pegasos") else []
        larger = "check for rows or labels far larger than the others"
        if params.get("lr") == "auto":  # independent of the scale of features
            rest = [larger] if first else ["use a numeric --lr", larger]
        elif "wealth" in params:  # likewise
            rest = ["lower --wealth", larger]
        else:
            rest = ["scale the features to about 1"]
        remedy = ", or ".join([*first, *rest])
        report_problem(f"the loss is far above that of the baseline: {remedy}")
