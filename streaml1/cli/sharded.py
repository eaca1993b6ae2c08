"""``learn --workers``: one model from shards that are learnt at the same time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from streaml1.cli.messages import logged, report_problem
from streaml1.cli.model_factory import loaded, without_steps
from streaml1.cli.options import Finite, positive, together
from streaml1.cli.output_files import require_outputs, unwritable
from streaml1.cli.program import CommandError
from streaml1.cli.starting_model import ModelChoice, resumed
from streaml1.cli.termination import Terminated, watchdog
from streaml1.cli.weight_tables import extreme_weights_table
from streaml1.cli.worker_options import cluster_options, new_executor, require_one_engine

if TYPE_CHECKING:
    from streaml1.distributed import Executor, Round, Trained

__all__ = ["is_sharded", "learn_in_shards", "shard_options"]

SHARD_OPTION_NAMES = ("workers", "dask", "ray", "shards", "rounds", "warm", "probe_rows")

STARTING = SHARD_OPTION_NAMES[:4]
"""Options each of which is enough to learn in shards."""

SHARED = ("source", "model", "task", "save", "load", "report", "checkpoint", "top", "log", "config")
"""Options of other runs that apply to shards, too; so do hyperparameters."""

DEFAULT_SHARDS = 4
"""That of `streaml1.distributed.rounds`, which would take long to import for the help."""

shard_options = together(
    click.option(
        "--workers", type=positive, metavar="N",
        help="Learn shards of .rows files at the same time in N processes, and merge them. One "
        "process learns them one after the other, to the same model.",
    ),
    cluster_options,
    click.option(
        "--shards", type=positive, metavar="N",
        help="Number of shards, which the result depends on: at most one for 10,000 rows.  "
        f"[default: {DEFAULT_SHARDS}; fewer for few rows]",
    ),
    click.option(
        "--rounds", type=positive, default=16, show_default=True, metavar="N",
        help="Number of times that the shards are merged.",
    ),
    click.option(
        "--warm", type=Finite(min=0, max=1, max_open=True), default=0.05, show_default=True,
        metavar="SHARE", help="Share of the rows that are learnt in order before the first round.",
    ),
    click.option(
        "--probe-rows", type=positive, default=2000, show_default=True, metavar="N",
        help="Number of the next rows that decide how the shards of a round are merged.",
    ),
)  # fmt: skip
"""Add the options of `learn` for shards."""


def is_sharded(options: dict[str, Any]) -> bool:
    """Return whether the options ask for shards; reject options of shards without them."""
    if any(options[name] is not None for name in STARTING):
        return True
    for param in _given_options(SHARD_OPTION_NAMES):
        raise CommandError(f"{param.opts[0]} requires --workers, --dask, --ray or --shards")
    return False


def learn_in_shards(choice: ModelChoice, options: dict[str, Any]) -> None:
    """Learn one model in shards, and print a table of the rounds."""
    from streaml1.distributed import train
    from streaml1.sources import format_of

    source, load, checkpoint = choice.source, options["load"], options["checkpoint"]
    save, report = options["save"], options["report"]
    allowed = {*SHARED, *SHARD_OPTION_NAMES, *choice.given}
    of_broker = {name for name in _parameter_names() if name.startswith("kafka_")}
    if (kind := format_of(source, None)) != "rows":
        raise CommandError(
            f"--workers and --shards require .rows files, got {kind}: write them with streaml1 "
            "convert"
        )
    for param in _given_options({*_parameter_names()} - allowed - of_broker):
        raise CommandError(f"{param.opts[0]} cannot be combined with --workers or --shards")
    require_one_engine(options["dask"], options["ray"])
    require_outputs(source, {"--save": save, "--report": report}, load, directory=checkpoint)
    first = None if load is None else partial(loaded, load, options["kafka"])
    learner = without_steps(choice.starting(resumed(None, load, first)), load or "--checkpoint")
    with logged(), _executor(options) as pool:
        watchdog.stand_down()
        try:
            trained = train(
                learner, source, executor=pool, shards=options["shards"],
                rounds=options["rounds"], warm=options["warm"], probe=options["probe_rows"],
                checkpoint=checkpoint, progress=_show_progress,
            )  # fmt: skip
        except Terminated as signaled:
            rest = "nothing was written"
            if checkpoint is not None:
                rest = f"{checkpoint} holds the rounds that were merged"
            report_problem(f"interrupted; {rest}", "interrupted", signal=signaled.number)
            raise click.exceptions.Exit(128 + signaled.number) from None
        except ValueError as error:
            if type(error) is not ValueError:  # of the source: it has an exit code
                raise
            raise CommandError(str(error)) from None
    _write(trained, save, report)
    click.echo(trained.table())
    if options["top"]:
        click.echo("\n" + extreme_weights_table(trained.model, options["top"]) + "\n")
    click.echo(_summary(trained))
    for prefix, path in {"model: ": save, "checkpoint: ": checkpoint, "report: ": report}.items():
        if path is not None:
            click.echo(f"{prefix}{path}")


def _executor(options: dict[str, Any]) -> Executor:
    """Return where shards are learnt; one process needs no other ones."""
    workers, dask, ray = (options[name] for name in ("workers", "dask", "ray"))
    if workers == 1 and dask is None and ray is None:
        from streaml1.distributed import InlineExecutor

        return InlineExecutor()
    return new_executor(workers, dask, ray)


def _parameter_names() -> list[str]:
    return [param.name or "" for param in click.get_current_context().command.params]


def _given_options(names: Iterable[str]) -> list[click.Parameter]:
    """Return the options among `names` that were given, in the order of the command."""
    context, wanted = click.get_current_context(), set(names)
    return [
        param
        for param in context.command.params
        if param.name in wanted
        and context.get_parameter_source(param.name) not in (ParameterSource.DEFAULT, None)
    ]


def _show_progress(done: int, total: int) -> None:
    click.echo(f"{done} of {total} rounds", err=True)


def _summary(trained: Trained) -> str:
    """Return one line about the run."""
    rows = sum(line.rows for line in trained.rounds)
    loss = sum(line.rows * (line.loss or 0.0) for line in trained.rounds) / max(1, rows)
    return (
        f"{rows:,} examples in {trained.shards} shards: progressive {trained.loss_name} "
        f"{loss:.4f}; {trained.model.n_nonzero:,} non-zero weights"
    )


def _write(trained: Trained, save: Path | None, report: Path | None) -> None:
    try:
        if save is not None:
            trained.model.save(save)
        if report is not None:
            report.write_text("".join(json.dumps(_entries(line)) + "\n" for line in trained.rounds))
    except OSError as error:
        raise unwritable(str(save if report is None else report), error) from None


def _entries(line: Round) -> dict[str, Any]:
    return {**line._asdict(), "candidates": [one._asdict() for one in line.candidates]}
