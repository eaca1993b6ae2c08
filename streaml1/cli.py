"""The command line: learn, show, predict, warm.

What is slow to import is imported by the command that needs it.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from streaml1.console import (
    PROGRAM,
    REGRESSION_LOSSES,
    Interruptible,
    Screen,
    Signals,
    abandon_output,
    advise,
    complain,
    end_early,
    entries_table,
    logged,
    shown,
    telling,
    text_table,
    weight_text,
)

if TYPE_CHECKING:
    from streaml1.checkpoint import Checkpoints
    from streaml1.consumer import Prediction
    from streaml1.report import Report
    from streaml1.streams import Source

__all__ = ["cli", "main"]

MODELS = {
    "elastic-net": {
        "classification": "ElasticNetClassifier",
        "regression": "ElasticNetRegressor",
    },
    "truncated-gradient": {
        "classification": "TruncatedGradientClassifier",
        "regression": "TruncatedGradientRegressor",
    },
    "pegasos": {"classification": "PegasosClassifier"},
    "softmax": {"classification": "SoftmaxClassifier"},
    "ftrl": {"classification": "FTRLClassifier", "regression": "FTRLRegressor"},
    "fobos": {"classification": "FOBOSClassifier", "regression": "FOBOSRegressor"},
    "l1-ball": {"classification": "L1BallClassifier", "regression": "L1BallRegressor"},
    "smidas": {"classification": "SMIDASClassifier", "regression": "SMIDASRegressor"},
    "eg": {"classification": "EGClassifier", "regression": "EGRegressor"},
}
LOSSES = ("logistic", "hinge", "smoothed_hinge", *REGRESSION_LOSSES)

CLOSED_PIPE = 128 + signal.SIGPIPE


def main() -> NoReturn:
    """Run the command line."""
    cli.main(prog_name=PROGRAM)
    raise AssertionError("cli.main exits")


class Refusal(click.ClickException):
    """What ends a command in one sentence, with exit code 2."""

    exit_code = 2


class Program(click.Group):
    """Tells every mistake in one sentence on standard error, and exits with 2."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a name may hold what the terminal cannot show
                stream.reconfigure(errors="backslashreplace")
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.UsageError as error:
            where = f"; see {error.ctx.command_path} --help" if error.ctx else ""
            complain(error.format_message().rstrip(".") + where)
            code = error.exit_code
        except click.ClickException as error:
            complain(error.format_message())
            code = error.exit_code
        except click.Abort:
            complain("interrupted")
            code = 128 + signal.SIGINT
        sys.exit(code or 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what is wrong with its input ends it."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            abandon_output()
            ctx.exit(CLOSED_PIPE)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            abandon_output()
            raise Refusal("standard output cannot be written: no space left on device") from None
        except ValueError as error:
            from streaml1.modelfile import ModelFileError
            from streaml1.rows import BadExample
            from streaml1.streams import SourceError

            if isinstance(error, SourceError | BadExample | ModelFileError):
                raise Refusal(str(error)) from None
            raise


def _version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from streaml1 import __version__

        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


@click.group(PROGRAM, cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
    help="Show the version and exit.",
)  # fmt: skip
def cli() -> None:
    """Learn sparse linear models from streams of examples.

    Example: streaml1 learn stdlib --l1 5e-4 --lr 0.03 --schedule constant
    """


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _options(*options: Decorator) -> Decorator:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _split(ctx: click.Context, param: click.Parameter, lists: tuple[str, ...]) -> list[str]:
    return [name for one in lists for name in one.split(",")]


def _labels(ctx: click.Context, param: click.Parameter, listed: str | None) -> Any:
    if listed is None:
        return None
    from streaml1.streams import class_label

    return [class_label(label.strip()) for label in listed.split(",")]


def _numbers(ctx: click.Context, param: click.Parameter, text: str | None) -> list[int] | None:
    if text is None:
        return None
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise click.BadParameter(f"{text!r} is no list of numbers such as 0,2", ctx, param)
    return [int(number) for number in numbers]


READING = ("format", "target", "categorical", "weight", "seed", "start", "until_end", "partitions",
           "group")  # fmt: skip
positive = click.IntRange(min=1)

source_options = _options(
    click.option("--format", metavar="FORMAT", help="svmlight, vw, jsonl or csv, each also with "
                 ".gz, where the name does not end in it; needed for standard input. Kafka: "
                 "svmlight, vw or jsonl, where the records do not tell."),
    click.option("--target", metavar="COLUMN", help="CSV: the column of the labels."),
    click.option("--categorical", metavar="COLUMN,...", multiple=True, callback=_split,
                 help="CSV: the columns of text; all others hold numbers."),
    click.option("--weight", metavar="COLUMN", help="CSV: the column of the sample weights."),
    click.option("--limit", type=positive, metavar="N",
                 help="At most so many examples (of each pass)."),
    click.option("--bad", type=click.Choice(["fail", "skip"]), default="fail", show_default=True,
                 help="An example that is refused ends the run, or is counted and left out."),
    click.option("--seed", type=int, default=0, show_default=True,
                 help="Order of the examples of stdlib."),
    click.option("--from", "start", metavar="WHERE",
                 help="Kafka: earliest, latest, a time such as 2026-01-31T06:00Z, or "
                 "checkpoint; where there is a checkpoint it is always gone on from.  "
                 "[default: earliest]"),
    click.option("--until-end", is_flag=True,
                 help="Kafka: end where the topic ends now; else wait for more."),
    click.option("--partitions", metavar="N,...", callback=_numbers,
                 help="Kafka: read only these partitions."),
)  # fmt: skip

# Without a value an option leaves the model's own default, or what a loaded model has.
model_options = _options(
    click.option("--model", type=click.Choice(list(MODELS)), help="[default: elastic-net]"),
    click.option("--task", type=click.Choice(["classification", "regression"]),
                 help="[default: that of --loss, or of a set of river's; else classification]"),
    click.option("--l1", type=float, help="Strength of the l1 penalty.  "
                 "[default: 0; ftrl: 1; smidas: 1e-4]"),
    click.option("--l2", type=float,
                 help="Strength of the squared l2 penalty.  [default: 0; pegasos: 1e-4]"),
    click.option("--update", type=click.Choice(["fobos", "sgd"]),
                 help="How the penalty is applied.  [default: fobos]"),
    click.option("--stamps", type=click.Choice(["folded", "explicit"]),
                 help="How lazy weights are kept.  [default: folded]"),
    click.option("--budget", type=positive,
                 help="Steps that the tables of explicit stamps hold.  [default: 2**20]"),
    click.option("--gravity", type=float,
                 help="Truncated gradient: the pull towards zero.  [default: 1e-4]"),
    click.option("--period", type=positive,
                 help="Truncated gradient: it pulls in each so many-th step.  [default: 1]"),
    click.option("--threshold", type=float,
                 help="Truncated gradient: larger weights are not pulled.  [default: inf]"),
    click.option("--alpha", type=float,
                 help="FTRL: how large the rates are.  [default: 0.1]"),
    click.option("--beta", type=float,
                 help="FTRL: how slowly the rates fall at first.  [default: 1]"),
    click.option("--strength", type=float,
                 help="fobos, softmax: strength of the norm or the penalty.  [default: 1e-4]"),
    click.option("--norm", type=click.Choice(["l2", "linf"]),
                 help="FoBoS: of all weights the root of the squares, or the largest.  "
                 "[default: l2]"),
    click.option("--project/--no-project", default=None,
                 help="Pegasos: whether weights are scaled into a ball.  [default: project]"),
    click.option("--radius", type=float,
                 help="l1-ball, softmax with a ball: the most that the distances of the weights "
                 "from zero may add up to.  eg: the sum of the weights.  [default: 10]"),
    click.option("--nonnegative", is_flag=True, default=None,
                 help="l1-ball, softmax with a ball, eg: no weight below zero.  [default: any]"),
    click.option("--index", type=click.Choice(["wheel", "tree"]),
                 help="l1-ball: how the weights that become zero are found.  [default: wheel]"),
    click.option("--p", type=float,
                 help="SMIDAS: the norm, from 2 to 100.  [default: 2 log n-features]"),
    click.option("--n-features", type=positive, metavar="N",
                 help="How many features there may be.  [default: smidas 2**20; eg 2**18]"),
    click.option("--penalty", type=click.Choice(["l1", "l1/l2", "l1/linf", "ball"]),
                 help="Softmax: on single weights, on the rows of features, or a ball for each "
                 "label.  [default: l1]"),
    click.option("--classes", metavar="LABEL,...", callback=_labels,
                 help="Softmax: the labels; others are refused.  [default: as they come]"),
    click.option("--loss", type=click.Choice(LOSSES),
                 help="[default: logistic; squared for regression; hinge for pegasos]"),
    click.option("--lr", type=float, help="The rate.  [default: 0.1]"),
    click.option("--schedule", type=click.Choice(["invsqrt", "constant", "inverse"]),
                 help="How the rate falls.  [default: invsqrt]"),
    click.option("--intercept-lr", type=float,
                 help="The intercept's own rate; 0 freezes it.  [default: 0.01]"),
    click.option("--intercept-init", type=float,
                 help="Where the intercept starts.  [default: 0]"),
    click.option("--clip-gradient", type=float,
                 help="The most that the derivative of the loss counts for.  [default: 1e12]"),
    click.option("--average/--no-average", default=None,
                 help="Tell the mean of the weights after each step.  [default: no-average]"),
    click.option("--max-features", type=int, metavar="N",
                 help="At most so many weights are not zero: the smallest go.  [default: any]"),
    click.option("--hash-bits", type=int, metavar="B",
                 help="Keep no names: hash them to 2^B slots.  [default: keep them]"),
)  # fmt: skip

output = click.Path(dir_okay=False, readable=False, path_type=Path)


@cli.command(
    epilog="Example: streaml1 learn clicks.svm.gz --l1 1e-5 --save clicks.model --plot clicks.png"
)
@click.argument("source")
@model_options
@source_options
@click.option("--passes", type=positive, default=1, show_default=True, metavar="N",
              help="How often the source is read.")  # fmt: skip
@click.option("--every", type=positive, default=1000, show_default=True, metavar="N",
              help="A line of the table after each so many examples.")  # fmt: skip
@click.option("--watch", type=click.IntRange(min=0), default=0, metavar="N",
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
@click.option("--load", type=output, metavar="FILE",
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
    load: Path | None,
    checkpoint: Path | None,
    checkpoint_every: float,
    top: int,
    **options: Any,
) -> None:
    """Predict each example of SOURCE, then learn it, and report on the way.

    SOURCE is a file (.svm, .svmlight, .vw, .jsonl, .csv, each also .gz), - for standard
    input, river:NAME for a data set of river, stdlib, or kafka://HOST:PORT/TOPIC.

    Ctrl-C or SIGTERM ends the run after the current block: report, picture and model are written.
    """
    from streaml1.consumer import prepare, progressive

    if options["group"] is not None and checkpoint is None:
        raise Refusal("--group is for what checkpoints hold: give --checkpoint too")
    examples: Any = _open(source, options)
    given = {k: v for k, v in options.items() if k not in READING and v is not None}
    _require_outputs(source, {"--save": save, "--report": report, "--plot": plot})
    total = _total(examples, limit, passes)

    signals = Signals()
    with (
        logged(),
        _store(checkpoint, checkpoint_every) as store,
        signals.handled(),
        Screen(signals, total, watch) as screen,
    ):
        if store is not None and (found := store.latest()) is not None:
            learner, kept = found.model, f"the checkpoint in {checkpoint}"
            _require_kind(learner, model, task, kept, "take another folder")
            _change(learner, given, kept, "take another folder")
        else:
            learner = _learner(source, model, task, given, load)
        prepare(learner)
        done = progressive(
            learner,
            Interruptible(examples, signals, screen.advance),
            every=every,
            limit=limit,
            passes=passes,
            bad=bad,
            on_line=screen.line,
            on_start=screen.start,
            stop=lambda: signals.number,
            checkpoint=store,
        )
        if done.examples:
            _write(learner, done, save, report, plot)
    written = [str(path) for path in (save, report, plot, checkpoint) if path is not None]
    if signals.number:
        end_early(signals.number, done, written)
    if not done.examples:
        refused = f" ({done.refused:,} refused)" if done.refused else ""
        raise Refusal(f"{source} has no example to learn{refused}; nothing was written")
    if top:
        click.echo("\n" + telling(learner, top) + "\n")
    click.echo(done.summary())
    advise(done.lines[-1])
    for what, path in (("model", save), ("checkpoint", checkpoint), ("report", report)):
        if path is not None:
            click.echo(f"{what}: {path}")
    if plot is not None:
        click.echo(str(plot))


def _store(folder: Path | None, seconds: float) -> AbstractContextManager[Checkpoints | None]:
    if folder is None:
        return nullcontext()
    from streaml1.checkpoint import Checkpoints

    return Checkpoints(folder, seconds=seconds)


def _open(source: str, options: dict[str, Any], require_label: bool = True) -> Source:
    import streaml1.datasets  # noqa: F401  (makes `stdlib` a source)
    from streaml1.streams import open_source

    reading: dict[str, Any] = {name: options.get(name) for name in READING}
    return open_source(source, require_label=require_label, **reading)


def _total(examples: Any, limit: int | None, passes: int) -> int | None:
    known = [n for n in (len(examples) if hasattr(examples, "__len__") else None, limit) if n]
    return min(known) * passes if known else None


# The model


def _learner(
    source: str, model: str | None, task: str | None, given: dict[str, Any], load: Path | None
) -> Any:
    import streaml1

    if load is not None:
        learner = streaml1.load(load)
        _require_kind(learner, model, task, str(load), ANEW)
        _change(learner, given, str(load), ANEW)
        return learner
    task = task or _task(source, given.get("loss"))
    model = model or "elastic-net"
    if task not in MODELS[model]:
        raise Refusal(f"{model} is for {', '.join(MODELS[model])}, not for {task}; take another")
    kind = getattr(streaml1, MODELS[model][task])
    _require_parameters(kind, given, model)
    try:
        return kind(**given)
    except ValueError as error:
        raise Refusal(str(error)) from None


def _require_parameters(kind: Any, given: dict[str, Any], what: str) -> None:
    """Refuse options that a model has no use for."""
    known = list(signature(kind).parameters)
    for name in given:
        if name not in known:
            options = ", ".join(f"--{one.replace('_', '-')}" for one in known)
            raise Refusal(
                f"--{name.replace('_', '-')} is no option of {what}, which has {options}: "
                "leave it out"
            )


def _task(source: str, loss: str | None) -> str:
    if loss is not None:
        return "regression" if loss in REGRESSION_LOSSES else "classification"
    if source.startswith("river:"):
        from river import datasets

        task = getattr(datasets, source.removeprefix("river:"))().task
        return "regression" if task == "Regression" else "classification"
    return "classification"


ANEW = "start anew without --load"


def _require_kind(learner: Any, model: str | None, task: str | None, place: str, anew: str) -> None:
    kind = type(learner).__name__
    for name, kinds in MODELS.items():
        for one, cls in kinds.items():
            if cls != kind:
                continue
            for option, asked, has in (("--model", model, name), ("--task", task, one)):
                if asked not in (None, has):
                    raise Refusal(
                        f"{option} {asked} does not fit {place}, which holds a model of the kind "
                        f"{has}: leave {option} out, or {anew}"
                    )


def _change(learner: Any, given: dict[str, Any], place: str, anew: str) -> None:
    """Set the parameters that were given to a model that has been loaded."""
    _require_parameters(type(learner), given, place)
    for name, value in given.items():
        has = getattr(learner, name)
        if has == value:
            continue
        try:
            if name not in learner._mutable_attributes:
                raise Refusal(
                    f"--{name.replace('_', '-')} {value} cannot be given to {place}, which began "
                    f"with {has}: leave it out, or {anew}"
                )
            learner.mutate({name: value})
        except ValueError as error:
            raise Refusal(str(error)) from None


# What is written


def _require_outputs(source: str, outputs: dict[str, Path | None]) -> None:
    """Refuse what could not be written, before anything is learnt."""
    taken: dict[Path, str] = {} if source == "-" else {Path(source).resolve(): "SOURCE"}
    for option, path in outputs.items():
        if path is None:
            continue
        place = path.resolve()
        if place in taken:
            raise Refusal(f"{option} {path} is also {taken[place]}; give it a name of its own")
        taken[place] = option
        if path.exists() and not path.is_file():
            raise Refusal(f"{option} {path} is no plain file; give the name of one")
        if path.exists() and not os.access(path, os.W_OK):
            raise Refusal(f"{option} {path} cannot be written: it is read-only")
        try:
            with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{path.name}."):
                pass
        except OSError as error:
            raise Refusal(_unwritable(f"{option} {path}", error)) from None
    if (plot := outputs["--plot"]) is not None:
        from streaml1.report import require_plotting

        try:
            require_plotting(plot)
        except (RuntimeError, ValueError) as error:
            raise Refusal(f"--plot {error}") from None


def _unwritable(what: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"{what} cannot be written: there is no such folder; make it first"
    return f"{what} cannot be written: {(error.strerror or str(error)).lower()}"


def _write(
    learner: Any, done: Report, save: Path | None, report: Path | None, plot: Path | None
) -> None:
    for path, write in ((save, learner.save), (report, done.write), (plot, done.plot)):
        if path is None:
            continue
        try:
            write(path)
        except OSError as error:
            raise Refusal(_unwritable(str(path), error)) from None


@cli.command(epilog="Example: streaml1 show clicks.model --top 30")
@click.argument("model", type=output)
@click.option("--top", type=click.IntRange(min=0), default=10, show_default=True, metavar="K",
              help="How many features to show.")  # fmt: skip
@click.option("--feature", "features", multiple=True, metavar="NAME",
              help="Show the weight of this feature instead; with --hash-bits also its slot: "
              "features of one slot share the weight.")  # fmt: skip
def show(model: Path, top: int, features: tuple[str, ...]) -> None:
    """Show what MODEL, a file that learn --save wrote, knows.

    Its parameters, how much it has learnt, and the weights farthest from zero.
    """
    import streaml1

    learner = streaml1.load(model)
    if features:
        click.echo(_weights_of(learner, features))
        return
    non_zeros, seen = learner.n_nonzero, learner.n_features_seen
    # A file leaves zeros out and keeps an estimate of how many there were.
    about = "" if seen == len(learner.weights) else "about "
    every = max(1, len(getattr(learner, "classes_met", ())))  # weights of a feature
    facts: list[tuple[str, object]] = [
        *((name, _plain(value)) for name, value in learner._get_params().items()),
        ("examples learnt", f"{learner.n_iterations:,}"),
        ("non-zero weights", f"{non_zeros:,}"),
        ("features seen", f"{about}{seen:,}"),
        ("sparsity", f"{about}{max(0.0, 1.0 - non_zeros / seen / every):.1%}" if seen else "-"),
    ]
    many = hasattr(learner, "classes_met")
    if many:
        facts.insert(-2, ("features used", f"{learner.n_nonzero_rows:,}"))
        facts += [(f"intercept {shown(name)}", f"{b:.6g}") for name, b in learner.intercept.items()]
    else:
        facts.append(("intercept", f"{learner.intercept:.6g}"))
    click.echo(type(learner).__name__)
    width = max(18, 2 + max(len(name) for name, _ in facts))  # labels may be long
    for name, value in facts:
        click.echo(f"  {name:<{width}}{value}")
    if top:
        entries = learner.top_weights(top)
        click.echo("\n" + entries_table(learner, entries) if entries else "\nno weights")


def _weights_of(learner: Any, features: tuple[str, ...]) -> str:
    """A table of some features; a name of digits is also looked for as the int it is."""
    weights = learner.weights
    if hasattr(learner, "classes_met"):
        return _rows_of(learner, features)
    if learner.hash_bits is None:
        found = [
            weights.get(name, weights.get(int(name), 0.0) if name.isdecimal() else 0.0)
            for name in features
        ]
        rows = [(weight_text(w), shown(name)) for w, name in zip(found, features, strict=True)]
        return text_table(("weight", "feature"), rows)
    slots = [learner.slot(int(name) if name.isdecimal() else name) for name in features]
    hashed = [
        (weight_text(weights.get(slot, 0.0)), shown(name), f"{slot}")
        for slot, name in zip(slots, features, strict=True)
    ]
    return text_table(("weight", "feature", "slot"), hashed)


def _rows_of(learner: Any, features: tuple[str, ...]) -> str:
    """A table of the rows of some features."""
    weights = learner.weights
    rows = []
    for name in features:
        if learner.hash_bits is None:
            row = weights.get(name) or (weights.get(int(name)) if name.isdecimal() else None)
        else:
            row = weights.get(learner.slot(int(name) if name.isdecimal() else name))
        told = [(weight_text(w), shown(name), shown(label)) for label, w in (row or {}).items()]
        rows += told or [(weight_text(0.0), shown(name), "any")]
    return text_table(("weight", "feature", "label"), rows)


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@cli.command(epilog="Example: zcat new.jsonl.gz | streaml1 predict clicks.model - --format jsonl")
@click.argument("model", type=output)
@click.argument("source")
@source_options
@click.option("--json", "as_json", is_flag=True,
              help="Write JSON: the line of the example (of a topic: its place), and its "
              "prediction.")  # fmt: skip
def predict(
    model: Path, source: str, limit: int | None, bad: str, as_json: bool, **options: Any
) -> None:
    """Predict each example of SOURCE with MODEL, a file that learn --save wrote.

    One number a line: the probability of True, or for regressors the value; of many labels the
    most probable. SOURCE needs no labels. With --bad skip a refused example has an empty line.
    """
    import streaml1
    from streaml1.consumer import prediction_blocks

    learner = streaml1.load(model)
    key = "value" if learner.loss in REGRESSION_LOSSES else "p"
    examples = _open(source, options, require_label=False)

    topic = source.startswith("kafka:")

    def text(one: Prediction) -> str:
        if isinstance(one.p, dict):
            best = max(one.p, key=one.p.__getitem__, default=None)
            listed = [[_jsonable(label), p] for label, p in one.p.items()]
            told = {"line": one.line, "label": _jsonable(best), "p": listed}
            return json.dumps(told) if as_json else shown(best)
        if as_json:
            place = {"place": one.place} if topic else {"line": one.line}
            return json.dumps({**place, key: one.p})
        return "" if one.p is None else repr(one.p)

    with logged():
        for block in prediction_blocks(learner, examples, limit=limit, bad=bad):
            click.echo("\n".join(map(text, block)))


def _jsonable(label: Any) -> Any:
    return label if label is None or isinstance(label, str | int | float) else repr(label)


@cli.command(epilog="Example: RUN streaml1 warm (in a Dockerfile, after pip install)")
@click.option("--model", "chosen", type=click.Choice(list(MODELS)), multiple=True,
              help="Only this method; may be given again.  [default: all]")  # fmt: skip
def warm(chosen: tuple[str, ...]) -> None:
    """Compile everything now, so that the first run need not.

    What is compiled is kept on disk, for all programs that use this installation.
    """
    import streaml1
    from streaml1 import jit, online

    start = time.perf_counter()
    for method in chosen or MODELS:
        for name in MODELS[method].values():
            _exercise(getattr(streaml1, name))
    seconds = time.perf_counter() - start
    kept = "" if jit.is_cached(online.learn) else "; no folder can be written, so it is not kept"
    click.echo(f"compiled in {seconds:.1f} s{kept}")


def _exercise(kind: Any) -> None:
    """Call all that compiles: dicts of ints and of strings, and matrices, one of them unsorted."""
    import numpy as np
    from scipy.sparse import csr_array

    unsorted = csr_array((np.ones(2), [1, 0], [0, 2]), shape=(1, 2))
    wide = csr_array(np.eye(40, 2000))
    examples = (({1: 1.0, 0: 2.0}, wide), ({"a": 1.0, "b": "c"}, unsorted))
    hashed = {"hash_bits": 11, "max_features": 1}
    for params, (x, X) in itertools.product([*kind._unit_test_params(), hashed], examples):
        model = kind(**params)
        for _ in range(2):  # the first dict of names makes the table that the second is walked with
            model.learn_one(x, 1)
            model.predict_one(x)
            model.top_weights()
        for batch, n in (([x], 1), (X, X.shape[0])):
            model.progressive_many(batch, np.arange(n) % 2)
            model.predict_many(batch)
        model._engine.rule.make_room(1)  # what comes once room has run out
