"""``streaml1 page``: show a finished run in the browser."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streaml1.cli.model_factory import loaded, without_steps
from streaml1.cli.output_files import require_outputs, write_page
from streaml1.cli.program import CommandError, cli
from streaml1.cli.run_options import announce_page, log_option, page_option, page_places
from streaml1.core import exit_codes as exits

if TYPE_CHECKING:
    from streaml1.training.metrics_server import Address
    from streaml1.training.page import FinishedPage

__all__ = ["page"]


@cli.command(epilog="Example: streaml1 page run.jsonl --page run.html")
@click.argument("run", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--model", type=click.Path(exists=True, path_type=Path), metavar="MODEL",
              help="Model of the run, a file or a directory of checkpoints: show its weights, and "
              "explain examples.")  # fmt: skip
@page_option
@log_option
def page(run: Path, model: Path | None, page: tuple[str, ...]) -> None:
    """Show a finished run in the browser.

    RUN is a file that learn --report wrote, or the standard error of learn --log json. The page is
    served until Ctrl-C, or written to one file.
    """
    from streaml1.training.page import FinishedPage, read_run

    places = page_places(page or ("default",))
    if places.file is not None:
        require_outputs(str(run), {"--page": places.file, "--plot": None}, model)
    learner = None if model is None else without_steps(loaded(model), model)
    shown = FinishedPage(read_run(run), learner)
    if places.file is not None:
        write_page(shown, places.file)
        click.echo(f"page: {places.file}")
    if places.address is not None:
        _serve(shown, places.address)


def _serve(shown: FinishedPage, address: Address) -> None:
    """Serve a page until a signal."""
    from streaml1.training.http_server import HttpServer, cannot_listen
    from streaml1.training.page import page_routes

    try:
        routes = page_routes(shown, address.host)
        server = HttpServer(address.host, address.port, routes, "streaml1-page")
    except OSError as error:
        sentence = f"--page {cannot_listen(*address, error)}"
        raise CommandError(sentence, exits.write_failure_code(error)) from None
    ended = threading.Event()
    numbers: list[int] = []

    def stop(number: int, frame: object) -> None:
        numbers.append(number)
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    announce_page(server.address)  # last: a reader of the address may send a signal at once
    ended.wait()
    server.close()
    raise click.exceptions.Exit(128 + numbers[0])
