"""The options that commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streaml1.optim.tasks import CLASSIFICATION, REGRESSION

if TYPE_CHECKING:
    from streaml1.sources import Source

__all__ = [
    "MODELS",
    "READING",
    "Finite",
    "Place",
    "every_option",
    "model_options",
    "model_place",
    "opened",
    "output",
    "positive",
    "report_options",
    "source_options",
    "together",
]

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
LOSSES = (*CLASSIFICATION, *REGRESSION)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*options: Decorator) -> Decorator:
    """Options that some commands share, as one decorator."""

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
    from streaml1.sources import class_label

    return [class_label(label.strip()) for label in listed.split(",")]


def _listed(ctx: click.Context, param: click.Parameter, lists: tuple[str, ...]) -> Any:
    return _split(ctx, param, lists) or None


def _crosses(ctx: click.Context, param: click.Parameter, lists: tuple[str, ...]) -> Any:
    return [tuple(one.split(",")) for one in lists] or None


def _numbers(ctx: click.Context, param: click.Parameter, text: str | None) -> list[int] | None:
    if text is None:
        return None
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise click.BadParameter(f"{text!r} is no list of numbers such as 0,2", ctx, param)
    return [int(number) for number in numbers]


READING = ("format", "target", "categorical", "weight", "ignore", "delimiter", "seed", "start",
           "until_end", "partitions", "group", "kafka", "labels")  # fmt: skip
positive = click.IntRange(min=1)


class Finite(click.FloatRange):
    """A finite number in a range, which `nan` would be in."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Read it."""
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is no finite number; give one", param, ctx)
        return number


class Place(click.Path):
    """A file or a folder that has a name: without one it would be where the command is given."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it."""
        if str(value) == "":
            self.fail("the name is empty; give one, or leave the option out", param, ctx)
        return super().convert(value, param, ctx)


class Rate(click.ParamType):  # type: ignore[type-arg]
    """A number, or auto."""

    name = "rate"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Read it."""
        if value == "auto":
            return value
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor auto", param, ctx)


_columns = together(
    click.option("--format", metavar="FORMAT", help="svmlight, vw, jsonl, csv or tsv, each also "
                 "with .gz, where the name does not end in it; needed for standard input. Kafka: "
                 "svmlight, vw or jsonl, where the records do not tell."),
    click.option("--target", metavar="COLUMN", help="CSV: the column of the labels."),
    click.option("--categorical", metavar="COLUMN,...", multiple=True, callback=_split,
                 help="CSV: the columns of text; all others hold numbers."),
    click.option("--weight", metavar="COLUMN", help="CSV: the column of the sample weights."),
    click.option("--ignore", metavar="COLUMN,...", multiple=True, callback=_split,
                 help="CSV: columns to leave alone, such as ids."),
    click.option("--delimiter", metavar="CHARACTER|tab",
                 help="CSV: what stands between cells.  [default: a comma; tab for tsv]"),
)  # fmt: skip
_order = together(
    click.option("--seed", type=int,
                 help="Order of the examples of stdlib and of data:....  [default: 0]"),
    click.option("--from", "start", metavar="WHERE",
                 help="Kafka: earliest, latest, a time such as 2026-01-31T06:00Z, or "
                 "checkpoint; where there is a checkpoint it is always gone on from.  "
                 "[default: earliest]"),
    click.option("--until-end", is_flag=True,
                 help="Kafka: end where the topic ends now; else wait for more."),
    click.option("--partitions", metavar="N,...", callback=_numbers,
                 help="Kafka: read only these partitions."),
)  # fmt: skip


def source_options(passes: bool = False, dead_letters: bool = False) -> Decorator:
    """How a source is read, by a command that may have passes, and a topic for what is refused."""
    bad = ["fail", "skip", *(["dead-letter"] if dead_letters else [])]
    aside = "; of a topic it can be put in another one" if dead_letters else ""
    return together(
        _columns,
        click.option("--limit", type=positive, metavar="N",
                     help=f"At most so many examples{' (of each pass)' if passes else ''}."),
        click.option("--bad", type=click.Choice(bad), default="fail", show_default=True,
                     help="An example that is refused ends the run, or is counted and left out"
                     f"{aside}."),
        _order,
    )  # fmt: skip


# Without a value an option leaves the model's own default, or what a loaded model has.
model_options = together(
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
    click.option("--lr", type=Rate(), metavar="FLOAT|auto",
                 help="The rate; auto: eight side by side.  [default: auto for elastic-net, unless "
                 "--schedule, --stamps explicit or --average is given; else 0.1]"),
    click.option("--schedule", type=click.Choice(["invsqrt", "constant", "inverse"]),
                 help="How the rate falls, unless it is auto.  [default: invsqrt]"),
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
    click.option("--cross", metavar="PREFIX,PREFIX[,PREFIX]", multiple=True, callback=_crosses,
                 help="Multiply the features of two or three prefixes of names (columns, "
                 "namespaces) with one another; may be given often.  [default: none]"),
    click.option("--text", metavar="NAME,...", multiple=True, callback=_listed,
                 help="CSV, JSON, vw: columns (namespaces) of raw text, whose words are counted."
                 "  [default: none]"),
    click.option("--ngrams", type=positive, metavar="N",
                 help="Of text up to N neighbouring words too.  [default: 1]"),
)  # fmt: skip

output = Place(dir_okay=False, readable=False, path_type=Path)

every_option = click.option(
    "--every", type=positive, metavar="N",
    help="A line of the table after each so many examples."
    "  [default: 1000 up to 10,000 examples, 10,000 up to 100,000, and so on]",
)  # fmt: skip
report_options = together(
    click.option("--report", type=output, metavar="FILE.jsonl",
                 help="Write the lines of the table as JSON."),
    click.option("--plot", type=output, metavar="FILE.png", help="Draw loss and non-zeros."),
)  # fmt: skip


class _ModelPlace(Place):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and value.startswith("kafka:"):
            return value
        return super().convert(value, param, ctx)


model_place = _ModelPlace(readable=False, path_type=Path)
"""A file or a folder, as a path; or a topic that models are published in, by its URL."""


def opened(
    source: str,
    options: dict[str, Any],
    require_label: bool = True,
    events: bool = False,
    text: Sequence[str] | None = None,
) -> Source:
    """The source of that name, read as the options say; `text` is what a model reads as text."""
    import streaml1.datasets  # noqa: F401  (makes `stdlib` a source)
    from streaml1.sources import open_source

    reading: dict[str, Any] = {name: options.get(name) for name in READING}
    if not source.startswith("kafka:") and _names_a_topic():
        reading["kafka"] = None
    return open_source(source, require_label=require_label, events=events, text=text, **reading)


def _names_a_topic() -> bool:
    """Whether an option names a topic to connect to: a model, predictions."""
    given = click.get_current_context().params.values()
    return any(isinstance(one, str) and one.startswith("kafka:") for one in given)
