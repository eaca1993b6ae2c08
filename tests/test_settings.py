"""Options from --config and from environment variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from streaml1.cli import cli

pytestmark = pytest.mark.usefixtures("cwd")


def parsed(command: str, *args: str) -> dict[str, Any]:
    """Return the values of the options of a command line."""
    group = click.Context(cli, info_name="streaml1")
    return cli.commands[command].make_context(command, ["a.csv", *args], parent=group).params


def config(text: str, path: str = "a.toml") -> tuple[str, str]:
    Path(path).write_text(text)
    return "--config", path


def error_of(*args: str) -> str:
    result = CliRunner().invoke(cli, ["learn", "a.csv", *args])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.output
    return result.stderr.removeprefix("streaml1: ").rstrip("\n")


@pytest.mark.parametrize(
    ("line", "args"),
    [
        ("l1 = 1e-5", ["--l1", "1e-5"]),
        ("limit = 20", ["--limit", "20"]),
        ('limit = "20"', ["--limit", "20"]),
        ("until-end = true", ["--until-end"]),
        ("until_end = true", ["--until-end"]),
        ("cumulative = false", []),
        ("header = false", ["--no-header"]),
        ("no-header = true", ["--no-header"]),
        ('categorical = ["a", "b"]', ["--categorical", "a,b"]),
        ('categorical = "a,b"', ["--categorical", "a,b"]),
        ('columns = ["y", "x"]', ["--columns", "y,x"]),
        ("partitions = [0, 2]", ["--partitions", "0,2"]),
        ('cross = ["a,b", "a,c"]', ["--cross", "a,b", "--cross", "a,c"]),
        ("from = 2026-01-31T06:00:00Z", ["--from", "2026-01-31T06:00:00+00:00"]),
        ("metrics = true", ["--metrics"]),
        ("metrics = false", []),
        ("metrics = 9000", ["--metrics", "9000"]),
        ('page = ["a.html", true]', ["--page", "a.html", "--page"]),
        ('kafka-user = "a"', ["--kafka-user", "a"]),
    ],
)
def test_a_key_is_an_option(line: str, args: list[str]) -> None:
    assert parsed("learn", *config(f"[learn]\n{line}\n")) == parsed("learn", *args)


@given(l1=st.floats(0, 1e30), names=st.lists(st.from_regex(r"[a-z]+( [a-z]+)?", fullmatch=True)))
def test_values_arrive_as_on_the_command_line(l1: float, names: list[str]) -> None:
    listed = ", ".join(f'"{name}"' for name in names)
    values = parsed("learn", *config(f"[learn]\nl1 = {l1!r}\nignore = [{listed}]\n"))
    assert values["l1"] == l1 and values["ignore"] == names


@pytest.mark.parametrize(
    ("variable", "value", "args"),
    [
        ("L1", "1e-5", ["--l1", "1e-5"]),
        ("CATEGORICAL", "ad site,b", ["--categorical", "ad site,b"]),
        ("UNTIL_END", "1", ["--until-end"]),
        ("UNTIL_END", "false", []),
        ("NO_HEADER", "true", ["--no-header"]),
        ("FROM", "latest", ["--from", "latest"]),
        ("METRICS", "true", ["--metrics"]),
        ("METRICS", "false", []),
        ("PAGE", "true", ["--page"]),
    ],
)
def test_a_variable_is_an_option(
    variable: str, value: str, args: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = parsed("learn", *args)
    monkeypatch.setenv(f"STREAML1_LEARN_{variable}", value)
    assert parsed("learn") == expected


def test_the_command_line_beats_the_environment_beats_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = config("[learn]\nl1 = 1\nl2 = 1\nevery = 1\nheader = true\n\n[predict]\nlimit = 3\n")
    monkeypatch.setenv("STREAML1_LEARN_L1", "2")
    monkeypatch.setenv("STREAML1_LEARN_L2", "2")
    monkeypatch.setenv("STREAML1_LEARN_NO_HEADER", "1")
    monkeypatch.setenv("STREAML1_PREDICT_LIMIT", "4")
    values = parsed("learn", *given, "--l1", "3")
    assert (values["l1"], values["l2"], values["every"]) == (3, 2, 1)
    assert values["header"] is False and values["limit"] is None
    monkeypatch.setenv("STREAML1_LEARN_CONFIG", "a.toml")
    assert parsed("learn")["every"] == 1
    config("[learn]\nevery = 5\n", "b.toml")
    assert parsed("learn", "--config", "b.toml")["every"] == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[learn]\nlimt = 2", "a.toml has an unknown key 'limt' in [learn] (did you mean limit?);"),
        ("[learn]\nhelp-all = true", "a.toml has an unknown key 'help-all' in [learn]"),
        ("[learn]\nconfig = 'b'", "a.toml has an unknown key 'config' in [learn]"),
        ("[lern]\nl1 = 2", "a.toml has 'lern', which is not the table of a command (did you mean"),
        (
            "target = 'y'",
            "a.toml has 'target', which is not the table of a command: put the options of learn in "
            "[learn];",
        ),
        (
            "[learn]\nsource = 'a.csv'",
            "a.toml has an unknown key 'source' in [learn]: give SOURCE on the command line;",
        ),
        ("l1 = 2", "a.toml has 'l1', which is not the table of a command: put the options of lea"),
        ("[learn]\nl1 = 'much'", "'--l1': 'much' is not a number (l1 in a.toml); see"),
        ("[learn]\nuntil-end = 'x'", "until-end in a.toml must be true or false, got 'x'"),
        (
            "[learn]\ntarget = true",
            'target in a.toml must be text or a number, got true; quote it: "t',
        ),
        ("[learn]\nignore = ['a', false]", "ignore in a.toml must be text or a number, got false;"),
        ("[learn.l1]\nx = 2", "l1 in a.toml is a table; give a value"),
        ("[learn", "--config a.toml is not valid TOML: "),
    ],
)
def test_invalid_files_are_usage_errors(text: str, message: str) -> None:
    assert message in error_of(*config(text))


def test_a_missing_file_is_a_usage_error() -> None:
    assert "--config no.toml cannot be read: no such file" in error_of("--config", "no.toml")


def test_an_invalid_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAML1_LEARN_LIMIT", "0")
    assert "(STREAML1_LEARN_LIMIT); see streaml1 learn --help" in error_of()
    assert "STREAML1" not in error_of("--limit", "-1")


def test_a_value_that_a_command_rejects_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as an address: the parser takes any text for it."""
    Path("a.csv").write_text("y,a\n1,2\n")
    assert error_of(*config("[learn]\nmetrics = 'x'\n")).endswith("got x (metrics in a.toml)")
    monkeypatch.setenv("STREAML1_LEARN_METRICS", "y")
    assert error_of().endswith("got y (STREAML1_LEARN_METRICS)")
    assert error_of("--metrics", "z").endswith("got z")
    monkeypatch.setenv("STREAML1_LEARN_METRICS", "false")
    monkeypatch.setenv("STREAML1_LEARN_L1", "nan")
    assert error_of().endswith("got nan (STREAML1_LEARN_L1)")


def test_a_file_may_begin_with_a_byte_order_mark() -> None:
    assert parsed("learn", *config("\ufeff[learn]\nlimit = 2\n"))["limit"] == 2


def test_the_environment_switches_off_what_a_file_switches_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = config("[learn]\nmetrics = true\n")
    monkeypatch.setenv("STREAML1_LEARN_METRICS", "false")
    assert parsed("learn", *given)["metrics"] is None


def test_an_unknown_variable_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STREAML1_LEARN_LIMTI", "3")
    monkeypatch.setenv("STREAML1_LEARN_QQQ", "3")
    assert parsed("learn")["limit"] is None
    first, second = capsys.readouterr().err.splitlines()
    assert "variable STREAML1_LEARN_LIMTI is ignored" in first
    assert "(did you mean STREAML1_LEARN_LIMIT?)" in first and "mean" not in second


def test_a_variable_without_the_command_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("TARGET", "CONFIG", "LEARN_L1", "EVALUATE_TARGET", "QQQ", "PREBUILT"):
        monkeypatch.setenv(f"STREAML1_{name}", "1")
    for name in ("KAFKA", "KAFKA_USER", "DATA", "LOG", "REGISTRY_USER"):
        monkeypatch.setenv(f"STREAML1_{name}", "text")
    assert parsed("learn")["target"] is None
    config, target = capsys.readouterr().err.splitlines()
    assert "STREAML1_CONFIG is ignored: its name is STREAML1_LEARN_CONFIG" in config
    assert "STREAML1_TARGET is ignored: its name is STREAML1_LEARN_TARGET" in target


def test_a_variable_with_a_misspelled_command_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("LERN_L1", "LEARN_L2", "PREDCT_TARGET", "REAL_KAFKA", "EXAMPLES", "LEARM"):
        monkeypatch.setenv(f"STREAML1_{name}", "1")
    assert parsed("learn")["l1"] is None
    (line,) = capsys.readouterr().err.splitlines()
    assert "STREAML1_LERN_L1 is ignored, because there is no command lern" in line
    assert "(did you mean STREAML1_LEARN_L1?)" in line


def test_options_that_need_others_need_them_in_a_file_too() -> None:
    assert "--checkpoint-every requires --checkpoint" in error_of(
        *config("[learn]\ncheckpoint-every = 3\n")
    )
