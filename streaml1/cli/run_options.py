"""Options for operating a run: log format, metrics and health, the page."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from streaml1.cli.messages import report_problem, set_log_format
from streaml1.cli.options import Finite
from streaml1.cli.program import CommandError
from streaml1.cli.signals import Signals
from streaml1.core.logging import event

if TYPE_CHECKING:
    from streaml1.sources.readers.flat_json import JsonRoles
    from streaml1.training import Observer
    from streaml1.training.metrics_server import Address
    from streaml1.training.page import LivePage
    from streaml1.training.run_log import RunLog

__all__ = [
    "PagePlaces",
    "Watching",
    "announce_page",
    "log_option",
    "metrics_options",
    "page_option",
    "page_places",
    "signal_before_broker",
    "watching",
]

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


def page_option(command: Command) -> Command:
    """Add the option --page."""
    return click.option(
        "--page", metavar="[HOST:]PORT|FILE.html", is_flag=False, flag_value=DEFAULT_ADDRESS,
        multiple=True, help="Show the run in the browser: serve a live page on this port of "
        "127.0.0.1 (8490 without a value), or write the page to one file at the end. Repeatable.",
    )(command)  # fmt: skip


class PagePlaces(NamedTuple):
    """Where to show a page: an address to serve it at, and a file to write it to."""

    address: Address | None
    file: Path | None


def page_places(values: Sequence[str]) -> PagePlaces:
    """Return the address and the file among the values of --page, at most one of each."""
    files = [Path(value) for value in values if value.endswith(".html")]
    addresses = [value for value in values if not value.endswith(".html")]
    if max(len(files), len(addresses)) > 1:
        raise CommandError(f"--page takes one port and one .html file, got {', '.join(values)}")
    try:
        address = [address_of(value, "--page") for value in addresses]
    except ValueError:
        raise CommandError(
            f"--page must be a port (8490), HOST:PORT or a file NAME.html, got {addresses[0]}"
        ) from None
    return PagePlaces(address[0] if address else None, files[0] if files else None)


def address_of(value: str, option: str) -> Address:
    """Return the address that an option gives."""
    from streaml1.training.metrics_server import DEFAULT_PORT, parse_address

    return parse_address(str(DEFAULT_PORT) if value == DEFAULT_ADDRESS else value, option)


class Watching(NamedTuple):
    """The log of a run, its observers, and its page if there is one."""

    log: RunLog
    observers: list[Observer]
    page: LivePage | None


@contextmanager
def watching(
    metrics: str | None,
    stalled: float,
    pages: PagePlaces | None = None,
    roles: JsonRoles | None = None,
) -> Iterator[Watching]:
    """Yield the log of a run and its observers: metrics with --metrics, a page with --page.

    The page explains examples whose members have the roles.
    """
    from streaml1.training.run_log import RunLog

    log = RunLog()
    pages = pages or PagePlaces(None, None)
    address = pages.address
    if metrics is not None:
        given = address_of(metrics, "--metrics")
        if address not in (None, given):
            raise CommandError("--metrics and --page share one server: give both the same port")
        address = given
    if address is None and pages.file is None:
        yield Watching(log, [log], None)
        return
    from streaml1.training.metrics_server import MetricsObserver, MetricsServer

    with ExitStack() as stack:
        measured: MetricsObserver = MetricsObserver(stalled)
        server: MetricsServer | None = None
        if address is not None:
            server = MetricsServer(
                *address, stalled_seconds=stalled, requires_library=metrics is not None
            )
            measured = stack.enter_context(server)
            if metrics is not None:
                extra = event("metrics", address=server.address)
                logger.info("metrics at http://%s/metrics", server.address, extra=extra)
        if pages == (None, None):
            yield Watching(log, [log, measured], None)
            return
        from streaml1.training.page import LivePage, page_routes

        page = stack.enter_context(LivePage(measured, keeps_weights=pages.file is not None))
        if server is not None and pages.address is not None:
            server.routes.update(page_routes(page, pages.address.host, roles))
            announce_page(server.address)
        yield Watching(log, [log, measured, page], page)


def announce_page(address: str) -> None:
    """Say where the page is."""
    report_problem(f"the page is at http://{address}/", "page", address=address)


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
