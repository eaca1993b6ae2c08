"""``streaml1 learn``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from streaml1.cli.kafka_options import kafka_options
from streaml1.cli.late_options import late_labels, late_options
from streaml1.cli.live_table import Screen, total_examples
from streaml1.cli.messages import advise, logged, report_problem
from streaml1.cli.mixed import MIX_OPTION_NAMES, is_mixed, learn_mixed, mix_options
from streaml1.cli.model_factory import change, loaded, new_learner
from streaml1.cli.option_checks import (
    MODEL_REMEDY,
    require_holdout,
    require_late,
    require_needed,
    require_prefixes,
    require_text,
    texts_of,
)
from streaml1.cli.options import (
    Finite,
    Holdout,
    NonEmptyPath,
    every_option,
    model_path,
    opened,
    output,
    positive,
    report_options,
    source_argument,
    source_options,
)
from streaml1.cli.output_files import require_outputs, write_all, write_page
from streaml1.cli.parameter_options import list_of_learners, options_of, parameter_options
from streaml1.cli.partitions import (
    GROUP_OPTION_NAMES,
    group_options,
    learn_group,
    require_one_model,
)
from streaml1.cli.program import CommandError, cli
from streaml1.cli.regret_options import regret_observer, regret_option, require_no_conflict
from streaml1.cli.run_options import (
    log_option,
    metrics_options,
    page_option,
    page_places,
    signal_before_broker,
    watching,
)
from streaml1.cli.sharded import SHARD_OPTION_NAMES, is_sharded, learn_in_shards, shard_options
from streaml1.cli.signals import Interruptible, Signals, end_early
from streaml1.cli.sink_options import (
    SINK_OPTION_NAMES,
    publish_options,
    require_decaying_rates,
    require_sinks,
    sink_observers,
    sink_options,
)
from streaml1.cli.text_tables import extreme_weights_table
from streaml1.core import exit_codes as exits
from streaml1.models.registry import LEARNERS

if TYPE_CHECKING:
    from streaml1.models.base import OnlineModel
    from streaml1.sources.readers.flat_json import JsonRoles
    from streaml1.training.checkpoint import Checkpoints
    from streaml1.training.delayed_labels import DelayedLabels
    from streaml1.training.feature_sizes import FeatureSizes
    from streaml1.training.report import Report
    from streaml1.training.saved_calibration import RecentExamples

__all__ = ["learn"]

COMPARED_AFTER = 10_000  # examples; a shorter run is still learning what the saved model knows


@cli.command(
    basics=(
        "target", "categorical", "format", "model", "l1", "bad", "save", "load", "every",
        "report", "checkpoint", "until_end", "config",
    ),
    paragraphs=2,
    options_of=options_of,
    learners=LEARNERS,
    epilog=f"{list_of_learners()}"
    f"\n\nExit codes: {exits.SUCCESS} done; {exits.USAGE_ERROR} usage error; "
    f"{exits.DATA_ERROR} invalid data; {exits.TEMPORARY_FAILURE} temporarily unavailable, retry; "
    "129, 130, 143 ended by SIGHUP, Ctrl-C, SIGTERM, with everything saved."
    "\n\nExample: streaml1 learn clicks.svm.gz --l1 1e-5 --save clicks.model",
)  # fmt: skip
@source_argument
@parameter_options
@source_options(passes=True, dead_letters=True)
@kafka_options
@late_options
@sink_options
@publish_options
@click.option("--passes", type=positive, default=1, show_default=True, metavar="N",
              help="Number of passes over the source. The model of the pass with the smallest "
              "loss on held-out rows is kept.")  # fmt: skip
@click.option("--holdout", type=Holdout(), metavar="SHARE|N",
              help="Hold out this share of the lines, such as 0.1, or every N-th: predict them, "
              "but never learn them. From the second pass on the report covers these rows only. 0 "
              "holds out none.  "
              "[default: 10 with several passes, else 0]")  # fmt: skip
@every_option
@click.option("--watch", type=click.IntRange(0, 1000), default=0, metavar="N",
              help="After each line, print up to N features that were added to (+) and dropped "
              "from (-) the model.")  # fmt: skip
@report_options
@click.option("--save", type=output, metavar="FILE", help="Write the model to this file.")
@click.option("--checkpoint", type=NonEmptyPath(file_okay=False, path_type=Path), metavar="DIR",
              help="Write checkpoints to this directory and resume from the latest one.",
)  # fmt: skip
@click.option("--checkpoint-every", type=Finite(min=0), default=10.0, show_default=True,
              metavar="SECONDS", help="Interval of checkpoints.")  # fmt: skip
@click.option("--group", metavar="NAME",
                 help="Kafka: commit the offsets of checkpoints to this consumer group, for "
                 "tools that monitor the lag. They are never read back.")  # fmt: skip
@regret_option
@group_options
@mix_options
@shard_options
@metrics_options
@page_option
@log_option
@click.option("--load", type=model_path, metavar="FILE",
              help="Resume from this model or pipeline, or from the latest in a --checkpoint "
              "directory. It keeps its parameters except those given here.",
)  # fmt: skip
@click.option("--top", type=click.IntRange(min=0), default=10, show_default=True, metavar="K",
              help="Number of features to show for each label.")  # fmt: skip
def learn(
    source: str | list[str],
    model: str | None,
    task: str | None,
    limit: int | None,
    bad: str,
    passes: int,
    holdout: int | None,
    every: int | None,
    watch: int,
    cumulative: bool,
    table: list[str] | None,
    report: Path | None,
    plot: Path | None,
    save: Path | None,
    load: str | Path | None,
    checkpoint: Path | None,
    checkpoint_every: float,
    top: int,
    metrics: str | None,
    page: tuple[str, ...],
    stalled: float,
    regret: bool,
    **options: Any,
) -> None:
    """Predict, then learn each example of SOURCE; report the loss.

    SOURCE is a file (.svm, .svmlight, .vw, .jsonl, .csv, .tsv, each also compressed by gzip, zstd,
    bzip2 or xz; .parquet, .arrow, .avro, .rows), - for standard input, river:NAME for a data set
    of river, stdlib, data:NAME for a data set of the papers (data:rcv1), kafka://HOST:PORT/TOPIC,
    or duckdb:FILE?table=NAME or duckdb:SELECT... for DuckDB. Several files, a directory of files,
    or a quoted pattern such as 'part-*.csv' are read one after the other.

    Ctrl-C, SIGTERM or SIGHUP ends the run after the current block and writes report, plot and
    model.
    """
    from streaml1.core.option_fields import option_names
    from streaml1.sources import SourceOptions
    from streaml1.training import RunConfig, prepare, progressive
    from streaml1.training.data_checks import DataChecks
    from streaml1.training.run import Unfinished
    from streaml1.training.saved_calibration import RecentExamples

    not_of_model = (*option_names(SourceOptions), *GROUP_OPTION_NAMES, *MIX_OPTION_NAMES,
                    *SINK_OPTION_NAMES, *SHARD_OPTION_NAMES)  # fmt: skip
    late = late_labels(options)
    given = {k: v for k, v in options.items() if k not in not_of_model and v is not None}
    first = None if load is None else cache(partial(loaded, load, options["kafka"]))
    if is_sharded(options):
        learn_in_shards(
            source, lambda: _learner(source, None, model, task, given, None, 1, "log",
                                     _resumed(None, load, first)), given,
            load=load, checkpoint=checkpoint, save=save, report=report, top=top, options=options,
        )  # fmt: skip
        return
    alone = {
        "limit": limit, "passes": passes, "holdout": holdout, "save": save, "load": load,
        "report": report, "plot": plot, "watch": watch, "cumulative": cumulative, "table": table,
        "partitions": options["partitions"], "until_end": options["until_end"],
        "publish": options["publish"], "label_within": None if late is None else late.within,
        "regret": regret, "page": page,
    }  # fmt: skip
    if is_mixed(options):
        learn_mixed(
            source, model, task, given, checkpoint=checkpoint, every=every, bad=bad, alone=alone,
            metrics=metrics, stalled=stalled, options=options,
        )  # fmt: skip
    if options["per_partition"]:
        learn_group(
            source, model, task, given, checkpoint=checkpoint, checkpoint_every=checkpoint_every,
            every=every, bad=bad, metrics=metrics, stalled=stalled, options=options, alone=alone,
        )  # fmt: skip
    examples = _open_source(source, options, first, checkpoint, late)
    require_holdout(holdout, late is not None)
    pages = page_places(page)
    files = _Files(save, checkpoint, report, plot, pages.file)
    require_outputs(source, files.by_option(), load, directory=checkpoint)
    require_no_conflict(regret, {
        "--checkpoint": checkpoint is not None, "--passes": passes > 1, "--holdout": bool(holdout),
        "--label-within": late is not None,
    })  # fmt: skip
    require_sinks(examples, bad, options)
    total = total_examples(examples, limit, passes)
    learner_of = partial(_learner, source, options["format"], model, task, given, late, passes,
                         options["on_drift"])  # fmt: skip
    if load is None and checkpoint is not None and not checkpoint.exists():
        learner_of(None)  # rejects invalid options before the directory is created

    signals = Signals()
    with (
        logged(),
        _store(checkpoint, checkpoint_every) as store,
        signals.handled(),
        signal_before_broker(signals),
        watching(metrics, stalled, pages, _member_roles(options)) as (log, watchers, shown),
        sink_observers(examples, bad, options) as sinks,
        Screen(signals, total, watch, cumulative, table, source=examples, passes=passes) as screen,
    ):
        learner = learner_of(_resumed(store, load, first))
        regret_of = regret_observer(regret, learner)
        with signals.compiling():
            prepare(learner)
        missed: Unfinished | None = None
        checks = DataChecks()
        recent = None if save is None or late is not None else RecentExamples()
        more = [observer for observer in (recent, regret_of) if observer is not None]
        try:
            done = progressive(
                learner,
                Interruptible(examples, signals, screen.advance, screen.begin_pass),
                RunConfig(
                    every=every,
                    limit=limit,
                    passes=passes,
                    holdout=holdout,
                    bad="skip" if bad == "dead-letter" else bad,
                    on_line=log.and_log(screen.line),
                    on_start=screen.start,
                    stop=lambda: signals.number,
                    checkpoint=store,
                    observers=[*watchers, *sinks, checks, *more],
                    label_within=None if late is None else late.within,
                    waiting=1 if late is None else late.max_pending,
                    unanswered="drop" if late is None else late.unanswered,
                    on_drift=options["on_drift"],
                ),
            )
        except Unfinished as error:
            done, missed = error.report, error  # the files can still be written
        log.log_end(done, signals.number)
        if done.examples:
            write_all(learner, done, save, report, plot)
            if shown is not None and pages.file is not None:
                write_page(shown, pages.file)
    saved = checkpoint if missed is None or missed.is_kept else None
    if store is not None and not done.examples and store.latest() is None:
        saved = None  # ended before the broker returned the first offset
    if signals.number:
        end_early(signals, done, files._replace(checkpoint=saved).written(done), missed)
    if done.examples:
        _report(done, learner, top, checkpoint, checks.sizes)
        if regret_of is not None:
            click.echo("\n" + regret_of.regret(done.title).table())
        if save is not None and recent is not None:
            _compare_saved(learner, save, recent, done.examples)
        files.print()
    elif done.numbers.get("asked"):  # examples wait for their labels
        _report(done, learner, 0, checkpoint)
    else:
        # An empty topic is not an error for a scheduled job.
        allowed = options["until_end"] and hasattr(examples, "topic")
        _report_no_examples(examples.name, done, saved, allowed)


def _member_roles(options: dict[str, Any]) -> JsonRoles | None:
    """Return how a page reads the members of pasted examples."""
    from streaml1.sources.readers.json_requests import roles_of

    return roles_of(filter(None, options["categorical"]), options["numeric"])


class _Files(NamedTuple):
    """What a run writes: files, and the directory of checkpoints."""

    save: Path | None
    checkpoint: Path | None
    report: Path | None
    plot: Path | None
    page: Path | None

    def by_option(self) -> dict[str, Path | None]:
        """Return the files by the options that name them."""
        return {
            "--save": self.save, "--report": self.report, "--plot": self.plot, "--page": self.page,
        }  # fmt: skip

    def written(self, done: Report) -> list[str]:
        """Return what a run has written; without an example the checkpoint alone."""
        files = (*self.by_option().values(), self.checkpoint)
        return [str(path) for path in files[0 if done.examples else -1 :] if path is not None]

    def print(self) -> None:
        """Print the paths, each after its prefix."""
        prefixes = ("model: ", "checkpoint: ", "report: ", "", "page: ")
        for prefix, path in zip(prefixes, self, strict=True):
            if path is not None:
                click.echo(f"{prefix}{path}")


def _open_source(
    source: str | list[str],
    options: dict[str, Any],
    first: Callable[[], Any] | None,
    checkpoint: Path | None,
    late: DelayedLabels | None,
) -> Any:
    """Open the source of a run of one model.

    Parameters
    ----------
    source, options, checkpoint
        As given.
    first
        Loads the model of --load; None without one.
    late
        The options of delayed labels, if they are used.

    Raises
    ------
    CommandError
        If options contradict each other.
    """
    if options["group"] is not None and checkpoint is None:
        raise CommandError("--group requires --checkpoint")
    if checkpoint is not None:
        require_one_model(checkpoint)
    require_text(options, resumes=checkpoint is not None or first is not None)
    require_needed()
    text = texts_of(source, options, first, checkpoint)
    resumes = checkpoint is not None and checkpoint.exists()
    model = None if first is None or resumes else first()
    examples = opened(source, options, events=late is not None, text=text, model=model)
    require_prefixes(source, options["format"], options["cross"])
    return examples


def _learner(
    source: str | list[str],
    format: str | None,
    model: str | None,
    task: str | None,
    given: dict[str, Any],
    late: DelayedLabels | None,
    passes: int,
    on_drift: str,
    resumed: _Resumed | None,
) -> Any:
    """Return the model to learn with: that of `_resumed`, changed by the options, or a new one.

    Raises
    ------
    CommandError
        If the options do not match the model or the source.
    """
    from streaml1.models.pipelines import learner_of

    learner = None
    if resumed is not None:
        learner, place, remedy, is_blank = resumed
        try:
            change(learner_of(learner), model, task, given, place, remedy)
        except CommandError:
            if not is_blank:
                raise
            learner = None
    if learner is None:
        learner = new_learner(source, model, task, given)
    last = learner_of(learner)
    require_prefixes(source, format, last.cross, MODEL_REMEDY)
    if late is not None:
        require_late(late, last, passes)
    require_decaying_rates(on_drift, last, late is not None)
    return learner


class _Resumed(NamedTuple):
    """A model to resume from, its place, and how to start without it."""

    model: Any
    place: str
    remedy: str
    is_blank: bool = False
    """Whether the run of its checkpoint has learnt nothing."""


def _resumed(
    store: Checkpoints | None, load: str | Path | None, first: Callable[[], Any] | None
) -> _Resumed | None:
    """Return the model to resume from; None if there is none."""
    if store is not None and (found := store.latest()) is not None:
        place = f"the checkpoint in {store.directory}"
        return _Resumed(found.model, place, "use another directory", found.is_blank)
    if first is not None:
        return _Resumed(first(), str(load), "start a new model without --load")
    return None


def _report(
    done: Report,
    model: Any,
    top: int,
    checkpoint: Path | None,
    sizes: FeatureSizes | None = None,
) -> None:
    """Print the features that matter most and the summary of the report."""
    from streaml1.models.pipelines import learner_of

    learner: OnlineModel = learner_of(model)
    sizes = sizes if learner is model else None  # a pipeline makes features of others
    if top:
        click.echo("\n" + extreme_weights_table(learner, top, sizes) + "\n")
    click.echo("\n".join(done.summary_lines()))
    _warn(done, learner, checkpoint)


def _compare_saved(learner: Any, path: Path, recent: RecentExamples, n_examples: int) -> None:
    """Print the calibration of the saved model next to that of the run; warn if they differ.

    From here on the learner predicts as its file does: a model read from it would take as much
    memory again.
    """
    from streaml1.models.pipelines import learner_of
    from streaml1.optim.update_rule import publish

    publish(learner_of(learner)._state.rule)
    compared = recent.calibration_of(learner)
    if compared is None:
        return
    click.echo(compared.sentence())
    if compared.differs and n_examples >= COMPARED_AFTER:
        report_problem(
            f"{path} predicts {compared.saved / compared.run:.2f} times what the run predicted for "
            "the same examples: check it with streaml1 evaluate on later data before it is used"
        )


def _report_no_examples(source: str, done: Report, saved: Path | None, allowed: bool) -> None:
    """Report a source without examples; it is an error unless `allowed` and with a checkpoint."""
    rejected = f" ({done.rejected:,} rejected)" if done.rejected else ""
    if allowed and saved is not None:
        click.echo(f"no example yet in {source}{rejected}; the position is saved in {saved}")
        return
    except_for = "" if saved is None else f" except {saved}"
    raise CommandError(
        f"{source} has no example to learn{rejected}; nothing was written{except_for}"
    )


def _warn(done: Report, learner: OnlineModel, checkpoint: Path | None) -> None:
    """Warn if the model has diverged or labels were late."""
    if done.lines:
        advise(done.lines[-1], learner)
    if not done.examples:
        log = "" if checkpoint is None else f"; waiting examples are in {checkpoint}"
        report_problem(f"no label arrived in time; nothing was learnt or written{log}")
    if done.numbers.get("orphans", 0) > done.numbers.get("answered", 0):
        report_problem(
            f"{done.numbers['orphans']:,.0f} labels arrived for unknown or expired examples: raise "
            "--label-within if they were late"
        )


def _store(directory: Path | None, seconds: float) -> AbstractContextManager[Checkpoints | None]:
    if directory is None:
        return nullcontext()
    from streaml1.training.checkpoint import Checkpoints

    return Checkpoints(directory, seconds=seconds)
