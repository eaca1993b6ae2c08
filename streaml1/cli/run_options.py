"""Options for operating a run: log format, metrics and health."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.messages import report_problem, set_log_format
from streaml1.cli.options import Finite
from streaml1.cli.signals import Signals
from streaml1.core.logging import event

if TYPE_CHECKING:
    from streaml1.training import Observer
    from streaml1.training.run_log import RunLog

__all__ = ["signal_before_broker", "log_option", "metrics_options", "watching"]

logger = logging.getLogger("streaml1")

DEFAULT_ADDRESS = "default"
"""Value of an option for an address that is given without one."""

Command = Callable[..., Any]


def _set_log_format(ctx: click.Context, param: click.Parameter, form: str) -> None:
    set_log_format(form)


def log_option(command: Command) -> Command:
    """Add the option --log."""
    return click.option(
        "--log", type=click.Choice(["text", "json"]), default="text", show_default=True,
        envvar="STREAML1_LOG", is_eager=True, expose_value=False, callback=_set_log_format,
        help="Format of standard error: text, or one JSON object per line with more events.",
    )(command)  # fmt: skip


def metrics_options(command: Command) -> Command:
    """Add the options --metrics and --stalled."""
    stalled = click.option(
        "--stalled", type=Finite(min=0), default=60.0, show_default=True,
        metavar="SECONDS", help="/readyz fails after this time without an example, if records are "
        "unread or no broker answers.",
    )  # fmt: skip
    metrics = click.option(
        "--metrics", metavar="[HOST:]PORT", is_flag=False, flag_value=DEFAULT_ADDRESS,
        help="Serve /metrics (Prometheus), /livez and /readyz on this port of 127.0.0.1, or on "
        "HOST:PORT; without a value on port 8490.",
    )  # fmt: skip
    return metrics(stalled(command))


@contextmanager
def watching(where: str | None, stalled: float) -> Iterator[tuple[RunLog, list[Observer]]]:
    """Yield the log of a run and its observers: the log, and metrics with --metrics."""
    from streaml1.training.run_log import RunLog

    log = RunLog()
    if where is None:
        yield log, [log]
        return
    from streaml1.training.metrics_server import DEFAULT_PORT, MetricsServer, parse_address

    address = parse_address(str(DEFAULT_PORT) if where == DEFAULT_ADDRESS else where)
    with MetricsServer(*address, stalled_seconds=stalled) as metrics:
        extra = event("metrics", address=metrics.address)
        logger.info("metrics at http://%s/metrics", metrics.address, extra=extra)
        yield log, [log, metrics]


@contextmanager
def signal_before_broker(signals: Signals) -> Iterator[None]:
    """End by the signal, not by the unavailable broker, if a signal arrives before it answers.

    Waiting for the broker ends at a signal, so that its absence says nothing.
    """
    from streaml1.sources.source import Unavailable

    try:
        yield
    except Unavailable:
        if not signals.number:
            raise
        sentence = "interrupted before the run started; nothing was learnt or written"
        report_problem(sentence, "interrupted", signal=signals.number)
        raise click.exceptions.Exit(128 + signals.number) from None
