"""The options by which a run is operated: its log, its metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.messages import complain, say_as
from streaml1.cli.options import Finite
from streaml1.cli.signals import Signals
from streaml1.core.logging import event

if TYPE_CHECKING:
    from streaml1.training import Out
    from streaml1.training.run_log import RunLog

__all__ = ["excused", "log_option", "metrics_options", "watching"]

logger = logging.getLogger("streaml1")

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
        "--stalled", type=Finite(min=0), default=60.0, show_default=True,
        metavar="SECONDS", help="/health turns red after so long without an example, where "
        "records are left to be read or no broker answers.",
    )  # fmt: skip
    metrics = click.option(
        "--metrics", metavar="PORT", help="Serve /metrics for Prometheus and /health at this port "
        "of 127.0.0.1, or at HOST:PORT.",
    )  # fmt: skip
    return metrics(stalled(command))


@contextmanager
def watching(where: str | None, stalled: float) -> Iterator[tuple[RunLog, list[Out]]]:
    """The log of a run, and who hears of it: the log, and metrics if they are asked for."""
    from streaml1.training.run_log import RunLog

    log = RunLog()
    if where is None:
        yield log, [log]
        return
    from streaml1.training.metrics_server import Metrics, address_of

    with Metrics(*address_of(where), stalled_seconds=stalled) as metrics:
        said = event("metrics", address=metrics.address)
        logger.info("metrics at http://%s/metrics", metrics.address, extra=said)
        yield log, [log, metrics]


@contextmanager
def excused(signals: Signals) -> Iterator[None]:
    """A signal that comes before a broker has answered ends the run, not the missing broker."""
    from streaml1.sources.source import Unavailable

    try:
        yield
    except Unavailable as error:
        if not signals.number:
            raise
        complain(f"interrupted; {error}", "interrupted", signal=signals.number)
        raise click.exceptions.Exit(128 + signals.number) from None
