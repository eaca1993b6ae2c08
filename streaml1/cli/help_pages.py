"""Help pages: one screen with the usual options, all options in sections, those of one learner."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from streaml1.cli.messages import report_problem
from streaml1.cli.settings import config_option, read_settings, remember_places

__all__ = ["SECTIONS", "Command"]

OTHER = "Other options"
SINGLE = "Options of single learners"

SECTIONS = {
    "Merging": ("target_model", "probe", "base"),
    "Source and format": (
        "format", "target", "categorical", "numeric", "weight", "ignore", "id", "at", "delimiter",
        "missing", "header", "column_names", "positive", "decimal", "thousands", "limit", "seed",
    ),
    "Passes and held-out data": ("passes", "holdout"),
    "Invalid examples": ("bad", "most_bad", "dead_letters"),
    "Model": (
        "model", "task", "loss", "negative_rate", "positive_weight", "offset", "huber_delta",
        "quantile", "classes", "lr", "schedule", "intercept_lr", "intercept_init", "clip_gradient",
        "average",
    ),
    "Features": ("cross", "text", "ngrams", "hash_bits"),
    "Penalties": (
        "l1", "l2", "max_features", "strength", "penalty", "radius", "nonnegative", "gravity",
        "period", "threshold", "norm",
    ),
    SINGLE: (),  # the other hyperparameters
    "Report": (
        "every", "top", "watch", "table", "cumulative", "report", "plot", "reliability", "regret",
    ),
    "Output": ("save", "as_json", "explain", "predictions", "unlabelled"),
    "Checkpoints and recovery": ("load", "checkpoint", "checkpoint_every"),
    "Schemas": ("schema_registry", "schema"),
    "Kafka": ("start", "until_end", "partitions", "group", "per_partition", "session_timeout",
              "mixed", "mix_every", "mix_wait"),
    "Kafka connection": (
        "kafka_properties", "kafka_bootstrap", "kafka_security", "kafka_mechanism", "kafka_user",
        "kafka_password_file", "kafka_ca", "kafka_certificate", "kafka_key",
        "kafka_client",
    ),
    "Publishing": ("publish", "publish_every", "on_drift"),
    "Delayed labels": ("label_within", "labels", "waiting", "unanswered"),
    "Workers": ("workers", "dask", "ray", "shards", "rounds", "warm", "probe_rows"),
    "Server": (
        "listen", "max_age", "check_every", "max_body", "max_examples", "max_connections", "to",
    ),
    "Monitoring": ("metrics", "stalled", "page", "log"),
    "Settings": ("config",),
}  # fmt: skip
"""Titles of `--help-all`, in order, and the names of the options below each."""


class Command(click.Command):
    """A command whose `--help` fits one screen.

    Parameters
    ----------
    basics
        Names of the options that `--help` shows, in order; the others are shown by `--help-all`.
        Without names `--help` shows all of them and there is no `--help-all`.
    paragraphs
        Number of paragraphs of the description that `--help` shows; None for all.
    options_of
        Return the options of a learner, for `--help-model NAME`.
    learners
        The learners, the default one first.
    """

    def __init__(
        self,
        *args: Any,
        basics: Sequence[str] = (),
        paragraphs: int | None = None,
        options_of: Callable[[str], list[click.Option]] | None = None,
        learners: Iterable[str] = (),
        **extra: Any,
    ) -> None:
        super().__init__(*args, **extra)
        self.help = (self.help or "").replace("\\b\n", "\b\n")  # raw docstrings
        self.basics, self.paragraphs = basics, paragraphs
        self.options_of, self.learners = options_of, list(learners)
        if options_of is not None:
            self.params.append(click.Option(
                ["--help-model"], type=click.Choice(self.learners), metavar="NAME",
                is_eager=True, expose_value=False, callback=_show_learner,
                help="Show the options of this learner and exit.",
            ))  # fmt: skip
        if basics:
            self.params.append(config_option())
            self.params.append(click.Option(
                ["--help-all"], is_flag=True, is_eager=True, expose_value=False,
                callback=_show_all, help="Show all options and exit.",
            ))  # fmt: skip

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; options that are missing come from settings."""
        if not self.basics or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        settings = read_settings(ctx, given.get("config"))
        ctx.default_map = settings.values
        remember_places(ctx, settings, given)
        try:
            rest = super().parse_args(ctx, args)
        except click.BadParameter as error:
            name = None if error.param is None else error.param.name
            if name not in settings.places or name in given:
                raise
            message = f"{error.message.rstrip('.')} ({settings.places[name]})"
            raise click.BadParameter(message, error.ctx, error.param) from None
        for sentence in settings.warnings:
            report_problem(sentence)
        return rest

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the page of --help."""
        if not self.basics:
            super().format_help(ctx, formatter)
            return
        self.format_usage(ctx, formatter)
        text = inspect.cleandoc(self.help or "")
        _write_text(formatter, "\n\n".join(text.split("\n\n")[: self.paragraphs]))
        known = {param.name: param for param in self.get_params(ctx)}
        if self.options_of is not None:  # describe them as options of the default learner
            known |= {option.name: option for option in self.options_of(self.learners[0])}
        shown = [known[name] for name in self.basics]
        _write_section(ctx, formatter, "Options", map(_in_brief, filter(None, map(
            lambda param: param.get_help_record(ctx), [*shown, *self._help_params(ctx)]
        ))))  # fmt: skip
        more = f"All options: {ctx.command_path} --help-all"
        if self.options_of is not None:
            more += "; those of a learner: --help-model NAME"
        _write_text(formatter, f"\b\n{self._example()}\n{more}")

    def write_all(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the page of --help-all."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        by_name = {option.name: option for option in options}
        helps = [by_name.pop(param.name) for param in self._help_params(ctx)]
        sections = {
            title: [by_name.pop(name) for name in names if name in by_name]
            for title, names in SECTIONS.items()
        }
        if self.options_of is not None:
            sections[SINGLE] = [
                by_name.pop(name) for name in list(by_name) if name in self._hyperparameters()
            ]
        sections |= {OTHER: list(by_name.values()), "Help": helps}
        for title, listed in sections.items():
            records = (option.get_help_record(ctx) for option in listed)
            _write_section(ctx, formatter, title, filter(None, records))
        self.format_epilog(ctx, formatter)

    def write_learner(
        self, ctx: click.Context, formatter: click.HelpFormatter, learner: str
    ) -> None:
        """Write the page of --help-model."""
        assert self.options_of is not None
        formatter.write_usage(f"{ctx.command_path} --model {learner}", "[OPTIONS] SOURCE...")
        records = (option.get_help_record(ctx) for option in self.options_of(learner))
        _write_section(ctx, formatter, f"Options of {learner}", filter(None, records))
        _write_text(formatter, f"All other options: {ctx.command_path} --help-all")

    def _hyperparameters(self) -> set[str | None]:
        assert self.options_of is not None
        return {option.name for name in self.learners for option in self.options_of(name)}

    def _help_params(self, ctx: click.Context) -> list[click.Parameter]:
        names = ("--help-model", "--help-all", "--help")
        return [param for param in self.get_params(ctx) if {*param.opts} & {*names}]

    def _example(self) -> str:
        paragraphs = (self.epilog or "").split("\n\n")
        return next(text for text in paragraphs if text.startswith("Example: "))


def _in_brief(record: tuple[str, str]) -> tuple[str, str]:
    """Return the record of an option with the first sentence of its help."""
    names, text = record
    text, bracket, default = text.partition("  [default: ")
    sentence = text.partition(". ")[0].removesuffix(".")
    return names, f"{sentence}.{bracket}{default}"


def _write_section(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    title: str,
    records: Iterable[tuple[str, str]],
) -> None:
    if listed := list(records):
        with formatter.section(title):
            formatter.write_dl(listed)


def _write_text(formatter: click.HelpFormatter, text: str) -> None:
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(text)


def _show_all(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        _show(ctx, Command.write_all)


def _show_learner(ctx: click.Context, param: click.Parameter, learner: str | None) -> None:
    if learner is not None and not ctx.resilient_parsing:
        _show(ctx, Command.write_learner, learner)


def _show(ctx: click.Context, write: Callable[..., None], *args: str) -> None:
    """Print a page of help, and exit."""
    formatter = ctx.make_formatter()
    write(ctx.command, ctx, formatter, *args)
    click.echo(formatter.getvalue().rstrip("\n"))
    ctx.exit()
