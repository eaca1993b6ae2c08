"""``streaml1 sweep``: compare settings of hyperparameters on one source."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.kafka_options import kafka_options
from streaml1.cli.model_factory import new_learner
from streaml1.cli.option_checks import require_prefixes, require_text
from streaml1.cli.options import (
    output,
    positive,
    reading_of,
    source_argument,
    source_options,
)
from streaml1.cli.output_files import require_outputs, unwritable
from streaml1.cli.parameter_options import list_of_learners, options_of, parameter_options
from streaml1.cli.program import CommandError, cli
from streaml1.cli.sink_options import share_observers
from streaml1.cli.weight_tables import text_table
from streaml1.cli.worker_options import new_executor, require_one_engine, worker_options
from streaml1.models.registry import LEARNERS

if TYPE_CHECKING:
    from streaml1.distributed import Swept

__all__ = ["sweep"]

Setting = dict[str, Any]
"""The options that differ between runs, by name."""


class _List(click.ParamType):  # type: ignore[type-arg]
    """A comma-separated list of values of another type."""

    def __init__(self, item: click.ParamType) -> None:  # type: ignore[type-arg]
        self.name, self.item = item.name, item

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert and validate the values; a list has the type tuple."""
        if not isinstance(value, str):
            return value
        return tuple(self.item.convert(item.strip(), param, ctx) for item in value.split(","))

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return the metavar in the help."""
        name = self.item.get_metavar(param, ctx) or self.item.name.upper()
        return f"{name},..."


def _swept_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of hyperparameters; those with one value accept a list of values."""

    def collector() -> None: ...

    parameter_options(collector)
    options: list[click.Option] = collector.__click_params__  # type: ignore[attr-defined]
    for option in options:
        if option.callback is None and not option.multiple and not option.is_flag:
            if option.metavar is not None:
                option.metavar += ",..."
            option.type = _List(option.type)
    existing: list[click.Option] = getattr(command, "__click_params__", [])
    command.__click_params__ = existing + options  # type: ignore[attr-defined]
    return command


@cli.command(
    basics=(
        "target",
        "categorical",
        "format",
        "bad",
        "model",
        "l1",
        "passes",
        "workers",
        "save",
        "report",
    ),
    options_of=options_of,
    learners=LEARNERS,
    epilog="Example: streaml1 sweep clicks.rows --l1 1e-7,1e-6,1e-5 --save best.model"
    f"\n\n{list_of_learners()}",
)
@source_argument
@source_options(passes=True)
@kafka_options
@click.option(
    "--passes",
    type=positive,
    default=1,
    show_default=True,
    metavar="N",
    help="Number of passes over the source.",
)
@worker_options
@click.option("--save", type=output, metavar="MODEL", help="Save the model with the smallest loss.")
@click.option(
    "--report",
    type=output,
    metavar="FILE.jsonl",
    help="Write the last line of the report of each setting as JSON.",
)
@_swept_options  # fmt: skip
def sweep(
    source: str | list[str],
    limit: int | None,
    bad: str,
    most_bad: float | None,
    passes: int,
    workers: int | None,
    dask: str | None,
    ray: str | None,
    save: Path | None,
    report: Path | None,
    model: str | tuple[str, ...] | None,
    task: str | tuple[str, ...] | None,
    **options: Any,
) -> None:
    """Compare settings of a model, one run over SOURCE for each.

    SOURCE and its options are as for learn. Each hyperparameter accepts a list of values, as in
    --l1 1e-7,1e-6. Runs take place at the same time, and are bit-identical to those of learn.
    """
    from streaml1.distributed import sweep
    from streaml1.sources import open_source

    if "-" in ([source] if isinstance(source, str) else source):
        raise CommandError("standard input cannot be read by several runs; write it to a file")
    require_one_engine(dask, ray)
    require_prefixes(source, options["format"], options["cross"])
    require_text(options, resumes=False)
    require_outputs(source, {"--save": save, "--report": report})
    given = {"model": model, "task": task, **_hyperparameters(options)}
    settings = list(_settings(given))
    models = [_new_model(source, given, setting) for setting in settings]
    reading = reading_of(source, options, text=models[0].text)
    open_source(source, reading)  # rejects wrong options before workers start
    with new_executor(workers, dask, ray) as executor:
        results = sweep(
            models, source, executor=executor, progress=_show_progress, limit=limit, bad=bad,
            passes=passes, source_options=reading, observers=share_observers(bad, most_bad),
        )  # fmt: skip
    if not any(swept.report.lines for swept in results):
        shown = source if isinstance(source, str) else source[0]
        raise CommandError(f"{shown} has no example to learn from; nothing was written")
    click.echo(_table(settings, results))
    _write(results, settings, save, report)


def _hyperparameters(options: dict[str, Any]) -> dict[str, Any]:
    from streaml1.cli.parameter_options import declared_options
    from streaml1.models.hyperparameters import ClassifierParameters, RegressorParameters
    from streaml1.models.parameters import parameters_of

    known = {*declared_options(), *parameters_of(ClassifierParameters),
             *parameters_of(RegressorParameters)}  # fmt: skip
    return {k: v for k, v in options.items() if k in known and v is not None}


def _settings(given: dict[str, Any]) -> Iterator[Setting]:
    """Yield the combinations of all values of options with more than one."""
    swept = {
        name: values
        for name, values in given.items()
        if isinstance(values, tuple) and len(values) > 1
    }
    for combination in itertools.product(*swept.values()):
        yield dict(zip(swept, combination, strict=True))


def _new_model(source: str | list[str], given: dict[str, Any], setting: Setting) -> Any:
    single = {k: v[0] if isinstance(v, tuple) else v for k, v in given.items()}
    chosen = {**single, **setting}
    model, task = chosen.pop("model"), chosen.pop("task")
    return new_learner(source, model, task, chosen)


def _show_progress(done: int, total: int) -> None:
    click.echo(f"{done} of {total} runs", err=True)


def _best(results: Sequence[Swept]) -> int:
    """Return the index of the smallest loss."""
    losses = [swept.report.lines[-1].loss for swept in results]
    known = [math.inf if loss is None else loss for loss in losses]
    return known.index(min(known))


def _table(settings: Sequence[Setting], results: Sequence[Swept]) -> str:
    lines = [swept.report.lines[-1] for swept in results]
    head = (*settings[0], lines[0].loss_name, "error", "non-zeros")
    best = _best(results)
    rows = [
        (
            *(f"{value}" for value in setting.values()),
            f"{line.loss:.4f}",
            f"{line.error:.4f}",
            f"{line.n_nonzero:,}" + (" *" if k == best and len(lines) > 1 else ""),
        )
        for k, (setting, line) in enumerate(zip(settings, lines, strict=True))
    ]
    note = "\n* smallest loss" if len(lines) > 1 else ""
    return text_table(head, rows) + note


def _write(
    results: Sequence[Swept], settings: Sequence[Setting], save: Path | None, report: Path | None
) -> None:
    try:
        if save is not None:
            best: Any = results[_best(results)].model
            best.save(save)
            click.echo(f"model: {save}")
        if report is not None:
            lines = (
                {**setting, **swept.report.lines[-1].as_dict()}
                for setting, swept in zip(settings, results, strict=True)
            )
            report.write_text("".join(json.dumps(line) + "\n" for line in lines))
            click.echo(str(report))
    except OSError as error:
        raise unwritable(str(save if report is None else report), error) from None
