"""``streaml1 merge``: join models that have learnt parts of a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.kafka_options import kafka_options
from streaml1.cli.messages import logged
from streaml1.cli.model_factory import loaded, without_steps
from streaml1.cli.options import NonEmptyPath, model_path, output, reading_of, source_options
from streaml1.cli.output_files import require_outputs
from streaml1.cli.program import CommandError, cli
from streaml1.cli.sink_options import share_observers
from streaml1.cli.weight_tables import text_table

if TYPE_CHECKING:
    from streaml1.training.merge import Merged

__all__ = ["merge"]


@cli.command(
    basics=("target_model", "probe", "base", "target", "categorical", "format", "bad", "limit"),
    epilog="Example: streaml1 merge mon.model tue.model -o clicks.model --probe wed.svm",
)
@click.argument("models", type=model_path, nargs=-1, required=True, metavar="MODEL...")
@click.option(
    "--output", "-o", "target_model", type=output, required=True, metavar="MODEL",
    help="Where to write the merged model.",
)  # fmt: skip
@click.option(
    "--probe", type=NonEmptyPath(), required=True, metavar="SOURCE",
    help="Labelled examples that no model has learnt, as SOURCE of learn. They are read once for "
    "each candidate.",
)  # fmt: skip
@click.option(
    "--base", type=model_path, metavar="MODEL", help="The model that all models started from."
)
@source_options()
@kafka_options
def merge(
    models: Sequence[str | Path],
    target_model: Path,
    probe: str,
    base: str | Path | None,
    limit: int | None,
    bad: str,
    most_bad: float | None,
    **options: Any,
) -> None:
    """Merge MODELs that have learnt parts of a stream into one.

    Each is a file written by learn --save, a directory of learn --checkpoint or of learn
    --per-partition (all its partitions), or a topic of learn --publish or --mixed. They are joined
    in this order, partitions by number.

    Several ways to join them are tried. The candidate with the least loss on the examples of
    --probe is written; the best of the MODELs is a candidate, too.
    """
    from streaml1.training.checkpoint import partition_directories
    from streaml1.training.merge import compare

    if probe == "-":
        raise CommandError(
            "--probe is read once for each candidate; write standard input to a file"
        )
    if not isinstance(base, str) and base is not None and partition_directories(base):
        raise CommandError(f"--base {base} holds models per partition; give one model")
    named = [part for path in models for part in _parts(path, options["kafka"])]
    names, parts = [name for name, _ in named], [model for _, model in named]
    require_outputs(probe, {"--output": target_model}, source_name="--probe")
    started = None if base is None else without_steps(loaded(base, options["kafka"]), base)
    try:
        with logged(once=True):
            merged = compare(
                parts, started, probe=probe,
                limit=limit, bad=bad, observers=share_observers(bad, most_bad),
                source_options=reading_of(probe, options, text=getattr(parts[0], "text", None)),
            )  # fmt: skip
    except ValueError as error:
        if type(error) is not ValueError:  # of the probe: it has an exit code
            raise
        sentence = re.sub(r"\bmodel (\d+)", lambda k: names[int(k[1]) - 1], str(error))
        raise CommandError(sentence) from None
    merged.model.save(target_model)
    click.echo(_table(merged, names))
    click.echo(str(target_model))


def _parts(path: str | Path, kafka: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the model of a file or topic, or of each partition of a directory."""
    from streaml1.training.checkpoint import partition_directories

    partitions = [] if isinstance(path, str) else partition_directories(path)
    places: Sequence[str | Path] = partitions or [path]
    for directory in places:
        yield str(directory), without_steps(loaded(directory, kafka), directory)


def _table(merged: Merged, names: Sequence[str]) -> str:
    """Lay out the candidates, and name the part among them below: tables cut long paths."""
    paths = {f"model {k}": name for k, name in enumerate(names, start=1)}
    rows = [
        (
            candidate.name,
            f"{candidate.loss:.4f}",
            f"{candidate.n_nonzero:,}" + (" *" if candidate.name == merged.chosen else ""),
        )
        for candidate in merged.candidates
    ]
    table = text_table(("candidate", merged.loss_name, "non-zeros"), rows)
    best = [f"{one.name}: {paths[one.name]}" for one in merged.candidates if one.name in paths]
    return "\n".join([table, "* smallest loss", *best])
