"""The pages of --help, --help-all and --help-model."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from streaml1.cli import cli
from streaml1.cli.help_pages import OTHER, SECTIONS, Command
from streaml1.cli.parameter_options import declared_options
from streaml1.cli.program import COMMANDS
from streaml1.models.parameters import SHARED_ORDER, parameters_of
from streaml1.models.registry import LEARNERS

SCREEN = 45  # lines
LONG = ("learn", "sweep", "predict", "evaluate", "convert", "serve", "merge")


def help_of(*args: str) -> str:
    """Return a help page for a terminal of 80 columns."""
    result = CliRunner().invoke(cli, list(args), terminal_width=80, prog_name="streaml1")
    assert result.exit_code == 0 and result.stderr == "", result.output
    return result.stdout


def options_in(page: str) -> set[str]:
    return set(re.findall(r"^  (?:-[a-z], )?(--[a-z0-9-]+)", page, re.M))


@pytest.mark.parametrize("command", ["", *cli.commands])
def test_help_fits_one_screen(command: str) -> None:
    lines = help_of(*command.split(), "--help").splitlines()
    assert len(lines) <= SCREEN
    assert max(map(len, lines)) <= 80


def test_commands_are_in_the_order_of_use_with_whole_sentences() -> None:
    listed = re.findall(r"^  ([a-z]+)  +(.+)$", help_of("--help").split("Commands:")[1], re.M)
    assert [name for name, _ in listed] == list(COMMANDS)
    assert sorted(COMMANDS) == sorted(cli.commands)
    assert [text for _, text in listed if not text.endswith(".") or "..." in text] == []


@pytest.mark.parametrize("command", LONG)
def test_help_all_lists_every_option_once(command: str) -> None:
    page = help_of(command, "--help-all")
    listed = re.findall(r"^  (?:-[a-z], )?(--[a-z0-9-]+)", page, re.M)
    options = [p for p in cli.commands[command].params if isinstance(p, click.Option)]
    assert sorted(listed) == sorted(["--help", *(p.opts[0] for p in options)])
    assert f"\n{OTHER}:" not in page, "add the new option to SECTIONS"
    assert max(map(len, page.splitlines())) <= 80


@pytest.mark.parametrize("command", LONG)
def test_help_shows_some_options_and_names_the_other_pages(command: str) -> None:
    page = help_of(command, "--help")
    assert options_in(page) < options_in(help_of(command, "--help-all"))
    assert f"All options: streaml1 {command} --help-all" in page.splitlines()[-1]
    assert ("--help-model NAME" in page.splitlines()[-1]) == (command in ("learn", "sweep"))


def test_help_of_learn_has_what_a_first_run_needs() -> None:
    page = help_of("learn", "--help")
    assert options_in(page) >= {
        "--target", "--model", "--l1", "--save", "--load", "--report", "--every", "--bad",
        "--checkpoint", "--config",
    }  # fmt: skip
    assert "kafka://HOST:PORT/TOPIC" in page and "SOURCE is a file" in page
    assert all(name in " ".join(page.split()) for name in LEARNERS)
    assert re.search(r"--l1 FLOAT +Strength of the l1 penalty\.  \[default: 0\]", page)


def test_sections_have_no_option_twice() -> None:
    names = [name for listed in SECTIONS.values() for name in listed]
    assert len(names) == len(set(names))
    known = {param.name for command in cli.commands.values() for param in command.params}
    assert set(names) <= known


@pytest.mark.parametrize("learner", LEARNERS)
def test_help_model_lists_the_options_of_the_learner(learner: str) -> None:
    page = help_of("learn", "--help-model", learner)
    own = parameters_of(LEARNERS[learner].parameters)
    others = {name for name in declared_options() if name not in (*own, *SHARED_ORDER)}
    listed = options_in(page)
    assert listed >= {f"--{name.replace('_', '-')}" for name in own}
    assert not listed & {f"--{name.replace('_', '-')}" for name in others}
    assert ("--quantile" in listed) == (LEARNERS[learner].regressor is not None)
    flat = " ".join(page.split())
    assert all(param.doc.replace("`", "") in flat for param in own.values())


def test_help_model_has_the_default_of_the_learner() -> None:
    strength = r"--l1 FLOAT +Strength of the l1 penalty\.  \[default: {}\]"
    assert re.search(strength.format("1"), help_of("learn", "--help-model", "ftrl"))
    assert re.search(strength.format("1e-4"), help_of("learn", "--help-model", "smidas"))
    assert "[default: 0.3]" in help_of("learn", "--help-model", "adaptive")
    assert "FLOAT|auto" in help_of("learn", "--help-model", "elastic-net")
    assert "auto" not in help_of("learn", "--help-model", "l1-ball")


def test_unknown_learner_is_a_usage_error() -> None:
    result = CliRunner().invoke(cli, ["learn", "--help-model", "ftlr"])
    assert result.exit_code == 2 and "'ftlr' is not one of 'elastic-net'" in result.stderr


def test_a_new_option_is_listed_without_a_section() -> None:
    command = Command(
        "try", params=[click.Option(["--l1"]), click.Option(["--new"])], basics=("l1",),
        epilog="Example: try",
    )  # fmt: skip
    page = CliRunner().invoke(command, ["--help-all"]).output
    assert options_in(page) == {"--l1", "--new", "--config", "--help", "--help-all"}
    assert options_in(page.split(f"{OTHER}:")[1].split("\n\n")[0]) == {"--new"}


@pytest.mark.parametrize("learner", LEARNERS)
def test_help_model_fits_the_width_of_a_terminal(learner: str) -> None:
    assert max(map(len, help_of("learn", "--help-model", learner).splitlines())) <= 80
