"""``streaml1 evaluate``: report the loss of a fixed model on labelled examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from streaml1.cli.kafka_options import kafka_options
from streaml1.cli.live_table import Screen, total_examples
from streaml1.cli.messages import logged
from streaml1.cli.model_factory import published
from streaml1.cli.option_checks import MODEL_REMEDY, require_prefixes
from streaml1.cli.options import (
    every_option,
    model_path,
    opened,
    output,
    report_options,
    source_argument,
    source_options,
)
from streaml1.cli.output_files import require_outputs, write_all
from streaml1.cli.program import CommandError, cli
from streaml1.cli.run_options import log_option, signal_before_broker
from streaml1.cli.signals import Interruptible, Signals, end_early
from streaml1.cli.sink_options import share_observers

__all__ = ["evaluate"]


@cli.command(
    basics=("target", "categorical", "format", "bad", "limit", "every", "report", "plot",
            "reliability", "until_end"),
    epilog="Example: streaml1 evaluate clicks.model tomorrow.svm.gz",
)  # fmt: skip
@click.argument("model", type=model_path)
@source_argument
@source_options()
@kafka_options
@log_option
@every_option
@report_options
@click.option("--reliability", type=output, metavar="FILE.jsonl",
              help="Write the reliability table as JSON: observed rates by predicted "
              "probability.")  # fmt: skip
def evaluate(
    model: str | Path,
    source: str | list[str],
    limit: int | None,
    bad: str,
    most_bad: float | None,
    every: int | None,
    cumulative: bool,
    table: list[str] | None,
    report: Path | None,
    plot: Path | None,
    reliability: Path | None,
    **options: Any,
) -> None:
    """Evaluate MODEL on labelled examples of SOURCE.

    MODEL is a file written by learn --save, a directory of learn --checkpoint, or the topic of
    learn --publish or --mixed. SOURCE and its options are as for learn.
    """
    from streaml1.training import RunConfig
    from streaml1.training.evaluation import evaluate
    from streaml1.training.model_adapter import learner_of, text_features
    from streaml1.training.report import reliability_table
    from streaml1.training.report.columns import MODEL_COLUMNS
    from streaml1.training.run import Unfinished

    observers = share_observers(bad, most_bad)
    learner = published(model, options["kafka"], source)
    examples = opened(source, options, text=text_features(learner), model=learner)
    require_prefixes(source, options["format"], learner_of(learner).cross, MODEL_REMEDY)
    outputs = {"--report": report, "--plot": plot, "--reliability": reliability}
    require_outputs(source, outputs, model)
    signals = Signals()
    with (
        logged(),
        signals.handled(),
        signal_before_broker(signals),
        Screen(
            signals,
            total_examples(examples, limit),
            cumulative=cumulative,
            columns=table,
            without=MODEL_COLUMNS,
            source=examples,
        ) as screen,
    ):
        missed: Unfinished | None = None
        try:
            config = RunConfig(
                every=every, limit=limit, bad=bad, on_line=screen.line, on_start=screen.start,
                stop=lambda: signals.number != 0, observers=observers,
            )  # fmt: skip
            done = evaluate(learner, Interruptible(examples, signals, screen.advance), config)
        except Unfinished as error:
            done, missed = error.report, error
        if done.examples:
            write_all(learner, done, None, report, plot, reliability)
    files = outputs.values() if done.examples else ()
    written = [str(path) for path in files if path is not None]
    if signals.number:
        end_early(signals, done, written, missed)
    if not done.examples:
        rejected = f" ({done.rejected:,} rejected)" if done.rejected else ""
        raise CommandError(
            f"{examples.name} has no example to evaluate{rejected}; nothing was written"
        )
    if bins := done.reliability():
        click.echo("\n" + reliability_table(bins) + "\n")
    click.echo("\n".join(done.summary_lines()))
    for path in written:
        click.echo(path)
