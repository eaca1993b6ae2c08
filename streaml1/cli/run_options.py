"""The options by which a run is operated: its log, its metrics."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from streaml1.console import say_as

if TYPE_CHECKING:
    from streaml1.consumer.metrics import Metrics

__all__ = ["log_option", "metrics_of", "metrics_options"]

Command = Callable[..., Any]


def _say_as(ctx: click.Context, param: click.Parameter, form: str) -> None:
    say_as(form)


def log_option(command: Command) -> Command:
    """How standard error is written."""
    return click.option(
        "--log", type=click.Choice(["text", "json"]), default="text", show_default=True,
        envvar="STREAML1_LOG", is_eager=True, expose_value=False, callback=_say_as,
        help="Standard error holds sentences, or JSON: an object a line, more of them.",
    )(command)  # fmt: skip


def metrics_options(command: Command) -> Command:
    """Whether numbers are shown, and when a run that stands still is not well."""
    stalled = click.option(
        "--stalled", type=click.FloatRange(min=0), default=60.0, show_default=True,
        metavar="SECONDS", help="/health turns red after so long without an example, where "
        "records are left to be read or no broker answers.",
    )  # fmt: skip
    metrics = click.option(
        "--metrics", metavar="PORT", help="Serve /metrics for Prometheus and /health at this port "
        "of 127.0.0.1, or at HOST:PORT.",
    )  # fmt: skip
    return metrics(stalled(command))


def metrics_of(where: str | None, stalled: float) -> AbstractContextManager[Metrics | None]:
    """What serves them, if that is asked for."""
    if where is None:
        return nullcontext()
    from streaml1.consumer.metrics import Metrics, address_of

    return Metrics(*address_of(where), stalled_seconds=stalled)
