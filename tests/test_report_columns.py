"""The columns of the table of a report: the choice that fits a width, and --table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streaml1.cli import cli
from streaml1.cli.live_table import table_width
from streaml1.training.report import Report
from streaml1.training.report.columns import (
    BY_IMPORTANCE,
    COLUMN_NAMES,
    MIN_COLUMNS,
    fit,
    report_columns,
)
from streaml1.training.report.losses import NAMES

ROOT = Path(__file__).parent.parent
NARROW = [10, 28, 29, 40, 60, 79, 80, 100, 112, 130, 400]


def test_every_column_has_a_rank_and_is_documented() -> None:
    assert sorted(BY_IMPORTANCE) == sorted(COLUMN_NAMES) == sorted(report_columns("softmax"))
    page = (ROOT / "docs" / "learn.md").read_text().partition("## Columns of the report")[2]
    assert set(COLUMN_NAMES) <= set(re.findall(r"`([a-z-]+)`", page))


@pytest.mark.parametrize("loss", NAMES)
@pytest.mark.parametrize("held_out", [False, True])
def test_lines_fit_the_width(loss: str, held_out: bool) -> None:
    report = Report(loss)
    everything = report.column_names(True, True, True)
    sizes = []
    for width in NARROW:
        names = report.column_names(True, True, True, width)
        header = report.header(columns=names, held_out=held_out).split("\n")
        assert max(map(len, header)) <= width or len(names) == MIN_COLUMNS
        assert names == [name for name in everything if name in names], "the order is kept"
        sizes.append(len(names))
    assert sizes == sorted(sizes) and sizes[0] == MIN_COLUMNS and sizes[-1] == len(everything)


def test_no_column_fits_in_addition() -> None:
    columns = report_columns("logistic")
    for width in NARROW:
        names = fit(COLUMN_NAMES, columns, width)
        following = [name for name in BY_IMPORTANCE if name not in names][:1]
        used = sum(columns[name].width + 1 for name in (*names, *following)) - 1
        assert not following or used > width


def test_important_columns_stay_at_80_characters() -> None:
    usual = Report("logistic").column_names(width=80)
    assert usual == [
        "examples", "recent-loss", "loss", "baseline", "error", "calibration", "non-zeros",
        "features-seen", "per-second",
    ]  # fmt: skip
    assert "rejected" in Report("softmax").column_names(rejected=True, width=80)
    assert "auc" in Report("logistic").column_names(rejected=True, skewed=True, width=80)


def test_terminal_width_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert table_width() == 80, "pytest captures the output: it is no terminal"
    monkeypatch.setenv("COLUMNS", "133")
    assert table_width() == 133


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def heads(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.stdout.split("\n")[1].split()


def test_table_of_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    Path("a.svm").write_text("".join(f"{k % 2} {k % 7}:1\n" for k in range(60)))
    learn = ["learn", "a.svm", "--l1", "1e-3", "--lr", "0.1", "--top", "0"]
    result = run(*learn, "--save", "m")
    assert heads(result) == [
        "examples", "(recent)", "(all)", "baseline", "error", "(all)", "zeros", "seen", "second",
    ]  # fmt: skip
    lines = result.stdout.split("\n")
    assert len(lines) > 8 and max(map(len, lines)) <= 80
    result = run(*learn, "--table", "dropped, examples,loss", "--every", "30")
    assert heads(result) == ["dropped", "examples", "(all)"]
    assert [line.split()[1] for line in result.stdout.split("\n")[2:4]] == ["30", "60"]
    everything = heads(run(*learn, "--table", "all"))
    assert len(everything) == len(COLUMN_NAMES) + 1, "a head has two words: last 2^20"
    monkeypatch.setenv("COLUMNS", "40")
    assert heads(run(*learn)) == ["examples", "(recent)", "(all)", "baseline"]
    monkeypatch.setenv("COLUMNS", "200")
    assert heads(run(*learn, "--table", "loss")) == ["(all)"]
    for listed in ("loss", "loss,cumulative-loss"):
        both = run(*learn, "--table", listed, "--cumulative")
        assert heads(both) == ["(all)", "(cumul.)"]
    assert heads(run("evaluate", "m", "a.svm")) == [
        "examples", "(recent)", "(all)", "baseline", "error", "(recent)", "(all)", "second",
    ]  # fmt: skip
    assert heads(run("evaluate", "m", "a.svm", "--table", "examples,non-zeros"))[1] == "zeros"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("examples,spasity", "'spasity' is not a column of the table; did you mean sparsity?"),
        ("examples,qqq", "'qqq' is not a column of the table; use examples, recent-loss, loss"),
        ("", "'' is not a column of the table; use examples, "),
        ("all,loss", "'all' is not a column of the table; "),
    ],
)
def test_unknown_columns_are_rejected(columns: str, message: str) -> None:
    result = run("learn", "a.svm", "--table", columns)
    assert result.exit_code == 2 and message in result.stderr
    assert result.stderr.count("\n") == 1
