"""``streaml1 convert``: write any source to a `.rows` file, which is read faster."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from streaml1.cli.kafka_options import kafka_options
from streaml1.cli.messages import logged
from streaml1.cli.options import opened, output, source_argument, source_options
from streaml1.cli.output_files import require_outputs, unwritable
from streaml1.cli.program import CommandError, cli
from streaml1.cli.run_options import log_option
from streaml1.cli.sink_options import share_observers
from streaml1.cli.termination import watchdog

__all__ = ["convert"]


@cli.command(
    basics=("target", "categorical", "format", "bad", "limit", "unlabelled"),
    epilog="Example: streaml1 convert clicks.csv.gz clicks.rows --target clicked",
)
@source_argument
@click.argument("file", type=output, metavar="FILE.rows")
@source_options()
@kafka_options
@click.option("--unlabelled", is_flag=True,
              help="Also accept examples without a label. The file can then be predicted, but not "
              "learnt.",
)  # fmt: skip
@log_option
def convert(
    source: str | list[str],
    file: Path,
    limit: int | None,
    bad: str,
    most_bad: float | None,
    unlabelled: bool,
    **options: Any,
) -> None:
    """Convert SOURCE to FILE.rows, which is faster to read.

    SOURCE is as for learn. FILE.rows is a source for learn, predict and evaluate. A model that
    learns from FILE.rows is bit-identical to one that learns from SOURCE.
    """
    from streaml1.sources import SourceOptions
    from streaml1.training import RunConfig
    from streaml1.training.conversion import convert as converted

    if file.suffix.lower() != ".rows":
        raise CommandError(f"the output file must end in .rows, got {file}")
    observers = share_observers(bad, most_bad)
    examples = opened(source, options, require_label=not unlabelled)
    require_outputs(source, {"FILE": file, "--plot": None})
    with logged(), _raising_at_sigterm(file):
        try:
            config = RunConfig(
                limit=limit,
                bad=bad,
                observers=observers,
                source_options=SourceOptions(format=options["format"]),
            )
            done = converted(examples, file, config)
        except OSError as error:
            raise unwritable(str(file), error) from None
    rejected = f", {done.rejected:,} rejected" if done.rejected else ""
    names = f", {done.names:,} names" if done.names else ""
    click.echo(
        f"{done.rows:,} examples{rejected}, {done.features:,} non-zeros{names}, "
        f"{done.size / 1e6:,.1f} MB"
    )
    for line in done.reasons.lines():
        click.echo(line)
    click.echo(str(file))


@contextmanager
def _raising_at_sigterm(file: Path) -> Iterator[None]:
    """Raise at SIGTERM, so that the partial output file is removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        raise CommandError(f"interrupted by SIGTERM; {file} was not written", 128 + number)

    watchdog.stand_down()
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
