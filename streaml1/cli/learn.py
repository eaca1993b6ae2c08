"""``streaml1 learn``."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from streaml1.cli.choosing import change, loaded, new_learner, require_kind
from streaml1.cli.groups import GROUPING, group_options, learn_group
from streaml1.cli.kafka_options import kafka_options
from streaml1.cli.late_options import late_labels, late_options
from streaml1.cli.options import (
    READING,
    model_options,
    model_place,
    opened,
    output,
    positive,
    source_options,
)
from streaml1.cli.outgoing import OUTGOING, outgoing_options, outs_of, publish_options
from streaml1.cli.program import Refusal, cli
from streaml1.cli.regret_options import hindsight, regret_option
from streaml1.cli.run_options import excused, log_option, metrics_options, watching
from streaml1.cli.writing import require_outputs, write_all
from streaml1.console import (
    Interruptible,
    Screen,
    Signals,
    advise,
    complain,
    end_early,
    logged,
    telling,
)
from streaml1.exits import AGAIN, DATA, DONE, WRONG

if TYPE_CHECKING:
    from streaml1.checkpoint import Checkpoints
    from streaml1.consumer.late import LateLabels
    from streaml1.hindsight import Hindsight
    from streaml1.report import Report

__all__ = ["learn"]


@cli.command(
    epilog=f"Exit codes: {DONE} done; {WRONG} refused, as it will be again; {DATA} look at the "
    f"data; {AGAIN} something is away: restart; 129, 130, 143 ended by SIGHUP, Ctrl-C, SIGTERM, "
    "all saved."
    "\n\nExample: streaml1 learn clicks.svm.gz --l1 1e-5 --save clicks.model --plot clicks.png"
)
@click.argument("source")
@model_options
@source_options
@kafka_options
@late_options
@outgoing_options
@publish_options
@click.option("--passes", type=positive, default=1, show_default=True, metavar="N",
              help="How often the source is read.")  # fmt: skip
@click.option("--every", type=positive, default=1000, show_default=True, metavar="N",
              help="A line of the table after each so many examples.")  # fmt: skip
@click.option("--watch", type=click.IntRange(0, 1000), default=0, metavar="N",
              help="After each line name up to so many features that entered (+) and left (-) "
              "the model.")  # fmt: skip
@click.option("--report", type=output, metavar="FILE.jsonl",
              help="Write the lines of the table as JSON.")  # fmt: skip
@click.option("--plot", type=output, metavar="FILE.png",
              help="Draw loss and non-zeros.")  # fmt: skip
@click.option("--save", type=output, metavar="FILE", help="Write the model.")
@click.option("--checkpoint", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Keep checkpoints here, and go on from the last one, if there is one.",
)  # fmt: skip
@click.option("--checkpoint-every", type=click.FloatRange(min=0), default=10.0, show_default=True,
              metavar="SECONDS", help="How often a checkpoint is kept.")  # fmt: skip
@click.option("--group", metavar="NAME",
                 help="Kafka: commit the offsets of checkpoints under this name, for tools that "
                 "show the lag; nothing reads them here.")  # fmt: skip
@regret_option
@group_options
@metrics_options
@log_option
@click.option("--load", type=model_place, metavar="FILE",
              help="Go on with this model; its parameters stay, but for those given here.",
)  # fmt: skip
@click.option("--top", type=click.IntRange(min=0), default=10, show_default=True, metavar="K",
              help="How many features to show for each label.")  # fmt: skip
def learn(
    source: str,
    model: str | None,
    task: str | None,
    limit: int | None,
    bad: str,
    passes: int,
    every: int,
    watch: int,
    report: Path | None,
    plot: Path | None,
    save: Path | None,
    load: str | Path | None,
    checkpoint: Path | None,
    checkpoint_every: float,
    top: int,
    metrics: str | None,
    stalled: float,
    regret: bool,
    **options: Any,
) -> None:
    """Predict each example of SOURCE, then learn it, and report on the way.

    SOURCE is a file (.svm, .svmlight, .vw, .jsonl, .csv, each also .gz; .rows), - for standard
    input, river:NAME for a data set of river, stdlib, data:NAME for one of the papers (data:rcv1),
    or kafka://HOST:PORT/TOPIC.

    Ctrl-C or SIGTERM ends the run after the current block: report, picture and model are written.
    """
    from streaml1.consumer import prepare, progressive

    apart = READING + GROUPING + OUTGOING
    late = late_labels(options)
    given = {k: v for k, v in options.items() if k not in apart and v is not None}
    if options["per_partition"]:
        learn_group(
            source, model, task, given, checkpoint=checkpoint, checkpoint_every=checkpoint_every,
            every=every, bad=bad, metrics=metrics, stalled=stalled, options=options,
            alone={
                "limit": limit, "passes": passes, "save": save, "load": load, "report": report,
                "plot": plot, "watch": watch, "partitions": options["partitions"],
                "until_end": options["until_end"], "publish": options["publish"],
                "label_within": None if late is None else late.within, "regret": regret,
            },
        )  # fmt: skip
    if options["group"] is not None and checkpoint is None:
        raise Refusal("--group is for what checkpoints hold: give --checkpoint too")
    _require_text(options, goes_on=checkpoint is not None or load is not None)
    _require_prefixes(source, options)
    _require_with(checkpoint_every=checkpoint, stalled=metrics, session_timeout=None)
    text = _texts(source, options, load, checkpoint)
    examples: Any = opened(source, options, events=late is not None, text=text)
    require_outputs(source, {"--save": save, "--report": report, "--plot": plot})
    total = _total(examples, limit, passes)

    signals = Signals()
    with (
        logged(),
        _store(checkpoint, checkpoint_every) as store,
        signals.handled(),
        excused(signals),
        watching(metrics, stalled) as (log, watchers),
        outs_of(examples, bad, options) as outgoing,
        Screen(signals, total, watch) as screen,
    ):
        if store is not None and (found := store.latest()) is not None:
            learner, kept = found.model, f"the checkpoint in {checkpoint}"
            require_kind(learner, model, task, kept, "take another folder")
            change(learner, given, kept, "take another folder")
        else:
            learner = new_learner(source, model, task, given, load)
        if late is not None:
            _require_late(late, learner, passes)
        beside = hindsight(regret, learner, {
            "--checkpoint": store is not None, "--passes": passes > 1,
            "--label-within": late is not None,
        })  # fmt: skip
        prepare(learner)
        done = progressive(
            learner,
            Interruptible(examples, signals, screen.advance),
            every=every,
            limit=limit,
            passes=passes,
            bad="skip" if bad == "dead-letter" else bad,
            on_line=log.beside(screen.line),
            on_start=screen.start,
            stop=lambda: signals.number,
            checkpoint=store,
            outs=[*watchers, *outgoing, *([] if beside is None else [beside])],
            label_within=None if late is None else late.within,
            waiting=1 if late is None else late.most,
            unanswered="drop" if late is None else late.unanswered,
        )
        log.end(done, signals.number)
        waits = bool(done.numbers.get("asked"))
        if done.examples:
            write_all(learner, done, save, report, plot)
    written = [str(path) for path in (save, report, plot, checkpoint) if path is not None]
    if signals.number:
        end_early(signals, done, written)
    if not (done.examples or waits):
        refused = f" ({done.refused:,} refused)" if done.refused else ""
        raise Refusal(f"{source} has no example to learn{refused}; nothing was written")
    if not done.examples:
        click.echo(done.summary())
        kept = "" if checkpoint is None else f"; what waits is in {checkpoint}"
        complain(f"no label came in time, and nothing was learnt or written{kept}")
    else:
        if top:
            click.echo("\n" + telling(learner, top) + "\n")
        click.echo(done.summary())
        _conclude(
            learner, done, beside, {"model": save, "checkpoint": checkpoint, "report": report}
        )
        if plot is not None:
            click.echo(str(plot))
    if done.numbers.get("orphans", 0) > done.numbers.get("answered", 0):
        complain(
            f"{done.numbers['orphans']:,.0f} labels came for examples that were given up, or never "
            "asked: raise --label-within, if they came too late"
        )


def _conclude(
    learner: Any, done: Report, beside: Hindsight | None, written: dict[str, Path | None]
) -> None:
    """Say what else there is to say of a run, and which files there are."""
    if done.lines:
        advise(done.lines[-1], learner)
    if beside is not None:
        click.echo("\n" + beside.regret(done.title).table())
    for what, path in written.items():
        if path is not None:
            click.echo(f"{what}: {path}")


def _require_text(options: dict[str, Any], goes_on: bool) -> None:
    """Refuse n-grams of nothing; a model that goes on knows its text."""
    n = options["ngrams"]
    if n is not None and n > 1 and options["text"] is None and not goes_on:
        raise Refusal(
            f"--ngrams {n} makes nothing without --text: neighbours are words of raw text; say "
            "--text with the name of the column, or of the namespace in vw"
        )


def _require_prefixes(source: str, options: dict[str, Any]) -> None:
    """Refuse crosses of what has no names."""
    from streaml1.streams import format_of

    if options["cross"] is not None and format_of(source, options["format"]) == "svmlight":
        raise Refusal(f"{source} is svmlight, whose numbers have no prefixes: leave --cross out")


_FOR = {"checkpoint_every": "checkpoint", "stalled": "metrics", "session_timeout": "per_partition"}
"""Options that are for what another one asks for."""


def _require_with(**asked: Any) -> None:
    """Refuse such options where that other is not given."""
    context = click.get_current_context()
    for name, other in asked.items():
        given = context.get_parameter_source(name)
        if other is None and given is ParameterSource.COMMANDLINE:
            one, needs = (f"--{word.replace('_', '-')}" for word in (name, _FOR[name]))
            raise Refusal(f"{one} makes nothing without {needs}: give that too")


def _texts(
    source: str, options: dict[str, Any], load: str | Path | None, checkpoint: Path | None
) -> list[str] | None:
    """What CSV and vw have text for: what is asked for, or what the model that goes on reads."""
    import streaml1.datasets  # noqa: F401  (makes `stdlib` a source)
    from streaml1.checkpoint import look
    from streaml1.streams import format_of

    asked: list[str] | None = options["text"]
    goes_on = checkpoint is not None or load is not None
    if asked is not None or not goes_on or Path(source).is_dir():
        return asked
    kind = format_of(source, options["format"])
    if kind == "kafka":
        kind = (options["format"] or "").lower()
    if kind not in ("csv", "vw", "svmlight", "rows"):  # of the last two no text can be read
        return asked
    if checkpoint is not None and checkpoint.is_dir() and (found := look(checkpoint)) is not None:
        return list(found.model.text or ()) or None
    if isinstance(load, Path) and load.is_file():
        return list(loaded(load).text or ()) or None
    return None


def _require_late(late: LateLabels, learner: Any, passes: int) -> None:
    from streaml1.consumer.late import require_late

    if passes > 1:
        raise Refusal("--passes has no meaning with --label-within: labels come once")
    try:
        require_late(late, learner)
    except ValueError as error:
        raise Refusal(str(error)) from None


def _store(folder: Path | None, seconds: float) -> AbstractContextManager[Checkpoints | None]:
    if folder is None:
        return nullcontext()
    from streaml1.checkpoint import Checkpoints

    return Checkpoints(folder, seconds=seconds)


def _total(examples: Any, limit: int | None, passes: int) -> int | None:
    known = [n for n in (len(examples) if hasattr(examples, "__len__") else None, limit) if n]
    return min(known) * passes if known else None
