"""``streaml1 learn`` with one model in one process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from streaml1.cli.live_table import Screen, total_examples
from streaml1.cli.messages import advise, logged, report_problem
from streaml1.cli.model_factory import loaded
from streaml1.cli.option_checks import (
    MODEL_REMEDY,
    require_holdout,
    require_late,
    require_needed,
    require_prefixes,
    require_text,
    texts_of,
)
from streaml1.cli.options import opened
from streaml1.cli.output_files import require_outputs, write_all, write_page
from streaml1.cli.partitions import require_one_model
from streaml1.cli.program import CommandError
from streaml1.cli.regret_options import regret_observer, require_no_conflict
from streaml1.cli.run_options import PagePlaces, page_places, signal_before_broker, watching
from streaml1.cli.signals import Interruptible, Signals, end_early
from streaml1.cli.sink_options import require_decaying_rates, require_sinks, sink_observers
from streaml1.cli.starting_model import ModelChoice, Resumed, resumed
from streaml1.cli.weight_tables import extreme_weights_table

if TYPE_CHECKING:
    from streaml1.models.base import OnlineModel
    from streaml1.sources.readers.flat_json import JsonRoles
    from streaml1.training import RunConfig
    from streaml1.training.checkpoint import Checkpoints
    from streaml1.training.data_checks import DataChecks
    from streaml1.training.feature_sizes import FeatureSizes
    from streaml1.training.regret import RegretObserver
    from streaml1.training.report import Report
    from streaml1.training.run import Unfinished
    from streaml1.training.saved_calibration import RecentExamples

__all__ = ["learn_single"]

COMPARED_AFTER = 10_000  # examples; a shorter run is still learning what the saved model knows


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


class _Plan(NamedTuple):
    """A run whose options have been checked."""

    examples: Any
    learner_of: Callable[[Resumed | None], Any]
    first: Callable[[], Any] | None
    """Loads the model of --load; None without one."""
    pages: PagePlaces
    files: _Files
    options: dict[str, Any]


class _Measures(NamedTuple):
    """What `learn` observes in a run for its closing lines."""

    checks: DataChecks
    recent: RecentExamples | None
    regret: RegretObserver | None


class _Ended(NamedTuple):
    """A run that is over: the examples have ended, a signal came, or a broker was unavailable."""

    learner: Any
    report: Report
    files: _Files
    measures: _Measures
    missed: Unfinished | None
    n_before: int
    """Examples of the checkpoint that the run has resumed from."""


def learn_single(choice: ModelChoice, options: dict[str, Any]) -> None:
    """Learn one model in this process, write the requested files, and print a summary."""
    plan, signals = _plan(choice, options), Signals()
    ended = _run(plan, signals)
    done = ended.report
    if signals.number:
        written = ended.files.written(done)
        if done.examples and ended.missed is None:
            topics = (options["predictions"], options["publish"])
            written += [topic for topic in topics if topic is not None]
        end_early(signals, done, written, ended.missed)
    _print_end(plan, ended)


def _plan(choice: ModelChoice, options: dict[str, Any]) -> _Plan:
    """Check the options, open the source, and return what the run needs."""
    load, checkpoint, passes = options["load"], options["checkpoint"], options["passes"]
    first = None if load is None else cache(partial(loaded, load, options["kafka"]))
    examples = _open_source(choice.source, options, first)
    is_late = options["label_within"] is not None
    require_holdout(options["holdout"], is_late)
    pages = page_places(options["page"])
    files = _Files(options["save"], checkpoint, options["report"], options["plot"], pages.file)
    require_outputs(choice.source, files.by_option(), load, directory=checkpoint)
    require_no_conflict(options["regret"], {
        "--checkpoint": checkpoint is not None, "--passes": passes > 1,
        "--holdout": bool(options["holdout"]), "--label-within": is_late,
    })  # fmt: skip
    require_sinks(examples, options["bad"], options)
    learner_of = partial(_learner, choice, options)
    if load is None and checkpoint is not None and not checkpoint.exists():
        learner_of(None)  # rejects invalid options before the directory is created
    return _Plan(examples, learner_of, first, pages, files, options)


def _open_source(
    source: str | list[str], options: dict[str, Any], first: Callable[[], Any] | None
) -> Any:
    """Open the source of a run of one model; `first` loads the model of --load."""
    checkpoint: Path | None = options["checkpoint"]
    if options["group"] is not None and checkpoint is None:
        raise CommandError("--group requires --checkpoint")
    if checkpoint is not None:
        require_one_model(checkpoint)
    require_text(options, resumes=checkpoint is not None or first is not None)
    require_needed()
    text = texts_of(source, options, first, checkpoint)
    resumes = checkpoint is not None and checkpoint.exists()
    model = None if first is None or resumes else first()
    is_late = options["label_within"] is not None
    examples = opened(source, options, events=is_late, text=text, model=model)
    require_prefixes(source, options["format"], options["cross"])
    return examples


def _learner(choice: ModelChoice, options: dict[str, Any], found: Resumed | None) -> Any:
    """Return the model to learn with; reject options that do not match it."""
    from streaml1.models.pipelines import learner_of

    learner = choice.starting(found)
    last = learner_of(learner)
    require_prefixes(choice.source, options["format"], last.cross, MODEL_REMEDY)
    is_late = options["label_within"] is not None
    if is_late:
        require_late(options["unanswered"], last, options["passes"])
    require_decaying_rates(options["on_drift"], last, is_late)
    return learner


def _run(plan: _Plan, signals: Signals) -> _Ended:
    """Learn the examples until they end or a signal arrives, and write the files."""
    from streaml1.training import prepare, progressive
    from streaml1.training.run import Unfinished

    examples, options, passes = plan.examples, plan.options, plan.options["passes"]
    total = total_examples(examples, options["limit"], passes)
    with (
        logged(),
        _store(options["checkpoint"], options["checkpoint_every"]) as store,
        signals.handled(),
        signal_before_broker(signals),
        watching(options["metrics"], options["stalled"], plan.pages, _member_roles(options)) as (
            log, watchers, page,
        ),
        sink_observers(examples, options["bad"], options) as sinks,
        Screen(
            signals, total, options["watch"], options["cumulative"], options["table"],
            source=examples, passes=passes,
        ) as screen,
    ):  # fmt: skip
        learner = plan.learner_of(resumed(store, options["load"], plan.first))
        measures = _measures(plan, learner)
        with signals.compiling():
            prepare(learner)
        missed: Unfinished | None = None
        n_before = 0

        def start(report: Report) -> None:
            nonlocal n_before
            n_before = report.examples
            screen.start(report)

        config = replace(
            _run_config(plan, store),
            on_line=log.and_log(screen.line),
            on_start=start,
            stop=lambda: signals.number,
            observers=[*watchers, *sinks, *(one for one in measures if one is not None)],
        )
        stream = Interruptible(examples, signals, screen.advance, screen.begin_pass)
        try:
            done = progressive(learner, stream, config)
        except Unfinished as error:
            done, missed = error.report, error  # the files can still be written
        log.log_end(done, signals.number)
        if done.examples:
            write_all(learner, done, options["save"], options["report"], options["plot"])
            if page is not None and plan.pages.file is not None:
                write_page(page, plan.pages.file)
    kept = missed is None or missed.is_kept
    if store is not None and not done.examples and store.latest() is None:
        kept = False  # ended before the broker returned the first offset
    files = plan.files if kept else plan.files._replace(checkpoint=None)
    return _Ended(learner, done, files, measures, missed, n_before)


def _store(directory: Path | None, seconds: float) -> AbstractContextManager[Checkpoints | None]:
    if directory is None:
        return nullcontext()
    from streaml1.training.checkpoint import Checkpoints

    return Checkpoints(directory, seconds=seconds)


def _member_roles(options: dict[str, Any]) -> JsonRoles | None:
    """Return how a page reads the members of pasted examples."""
    from streaml1.sources.readers.json_requests import roles_of

    return roles_of(filter(None, options["categorical"]), options["numeric"])


def _measures(plan: _Plan, learner: Any) -> _Measures:
    from streaml1.training.data_checks import DataChecks
    from streaml1.training.saved_calibration import RecentExamples

    compares_saved = plan.options["save"] is not None and plan.options["label_within"] is None
    return _Measures(
        DataChecks(),
        RecentExamples() if compares_saved else None,
        regret_observer(plan.options["regret"], learner),
    )


def _run_config(plan: _Plan, store: Checkpoints | None) -> RunConfig:
    """Return the configuration of a run without what it calls."""
    from streaml1.training import RunConfig

    options = plan.options
    return RunConfig(
        every=options["every"],
        limit=options["limit"],
        passes=options["passes"],
        holdout=options["holdout"],
        bad="skip" if options["bad"] == "dead-letter" else options["bad"],
        checkpoint=store,
        label_within=options["label_within"],
        waiting=options["waiting"] or 1_000_000,
        unanswered=options["unanswered"] or "drop",
        on_drift=options["on_drift"],
    )


def _print_end(plan: _Plan, ended: _Ended) -> None:
    """Print the summary of a run that no signal has ended."""
    learner, done, files, measures, _, n_before = ended
    options = plan.options
    if done.examples:
        _report(done, learner, options["top"], options["checkpoint"], measures.checks.sizes)
        if measures.regret is not None:
            click.echo("\n" + measures.regret.regret(done.title).table())
        if options["save"] is not None and measures.recent is not None:
            _compare_saved(learner, options["save"], measures.recent, done.examples)
        files.print()
        if n_before == done.examples:
            click.echo("no new examples since the checkpoint")
    elif done.numbers.get("asked"):  # examples wait for their labels
        _report(done, learner, 0, options["checkpoint"])
    else:
        # An empty topic is not an error for a scheduled job.
        allowed = options["until_end"] and hasattr(plan.examples, "topic")
        _report_no_examples(plan.examples.name, done, files.checkpoint, allowed)


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
