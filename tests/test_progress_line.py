"""The progress of a run on standard error: percent, remaining time, speed, and when it is shown."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest

from streaml1.cli import cli
from streaml1.cli.messages import above_progress, report_problem, set_log_format
from streaml1.cli.progress_line import ERASE, ProgressLine
from streaml1.sources import open_source


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal; not a fixture, because pytest sets sys.stderr after them."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


@pytest.fixture
def svm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("a.svm").write_text("".join(f"{k % 2} {k % 7}:1\n" for k in range(60)))
    return "a.svm"


def test_percent_speed_and_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = terminal(monkeypatch)
    clock, read = Clock(), [0.1]
    line = ProgressLine(None, 1, lambda: read[0], clock)
    line.advance(1000)
    assert stderr.getvalue() == f"{ERASE}1,000 examples  10%"
    clock.now, read[0] = 10.0, 0.4
    assert line.text(10.0) == "1,000 examples  40%"
    line.advance(3000)
    assert line.text(10.0) == "4,000 examples  40%  300 per second  0:20 left"
    clock.now, read[0] = 3610.0, 0.45
    line.advance(0)
    assert line.text(3610.0).endswith("1 per second  1:34:33 left"), "0.55 are left, 0.35 took 3610"


def test_number_of_examples_gives_the_percentage() -> None:
    clock = Clock()
    line = ProgressLine(400, clock=clock)
    line.advance(100)
    clock.now = 2.0
    line.advance(200)
    assert line.text(2.0) == "300 examples  75%  100 per second  0:01 left"
    line.advance(900)
    assert "  100%  " in line.text(2.0) and "0:00 left" in line.text(2.0)


def test_passes_share_the_percentage() -> None:
    read = [0.0]
    line = ProgressLine(None, 4, lambda: read[0], Clock())
    shown = []
    for fraction in (0.5, 1.0, 0.5, 1.0, 0.2, 1.0):
        read[0] = fraction
        if fraction < 1.0:
            line.begin_pass()
        line.advance(1)
        shown.append(line.text(0.0).split("  ")[1])
    assert shown == ["12%", "25%", "38%", "50%", "55%", "75%"]


def test_unknown_length_shows_no_percentage() -> None:
    clock = Clock()
    line = ProgressLine(clock=clock)
    line.advance(10)
    clock.now = 1.0
    line.advance(10)
    assert line.text(1.0) == "20 examples  10 per second"


def test_line_is_drawn_five_times_per_second_and_erased_for_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stderr = terminal(monkeypatch)
    clock = Clock()
    line = ProgressLine(clock=clock)
    for _ in range(100):
        line.advance(1)
        clock.now += 0.01
    assert 4 <= stderr.getvalue().count(ERASE) <= 6
    stderr.truncate(0)
    stderr.seek(0)
    with above_progress(line.clear):
        report_problem("first")
        report_problem("second")
        assert stderr.getvalue() == f"{ERASE}streaml1: first\nstreaml1: second\n"
        line.advance(1)
        assert stderr.getvalue().count(ERASE) == 2, "a message redraws the line at once"
    assert stderr.getvalue().endswith(ERASE)


def learn(*args: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run learn in this process and return its standard output."""
    with pytest.raises(SystemExit) as end:
        cli.main(["learn", *args, "--l1", "1e-3", "--lr", "0.1", "--top", "0"])
    set_log_format("text")
    assert end.value.code == 0
    return capsys.readouterr().out


def test_terminal_shows_the_progress_of_a_file(
    svm: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stderr = terminal(monkeypatch)
    out = learn(svm, "--every", "20", "--passes", "2", "--holdout", "0", capsys=capsys)
    shown = stderr.getvalue().split(ERASE)
    assert "\x1b" not in out and out.count("\n") > 8
    assert shown[0] == "" and shown[-1] == "", "nothing remains on the screen"
    assert any(text.startswith("60 examples  50%") for text in shown), "one of two passes"
    assert any(text.startswith("120 examples  100%") for text in shown)


@pytest.mark.parametrize("quiet", ["json", "dumb", "pipe"])
def test_progress_is_for_terminals(
    svm: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    quiet: str,
) -> None:
    stderr: io.StringIO = terminal(monkeypatch)
    if quiet == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    elif quiet == "pipe":
        monkeypatch.setattr(sys, "stderr", stderr := io.StringIO())
    learn(svm, *(["--log", "json"] if quiet == "json" else []), capsys=capsys)
    assert "\x1b" not in stderr.getvalue() and "\r" not in stderr.getvalue()


def reject(place: str, reason: str, *_: object) -> None:
    raise AssertionError(reason)


@pytest.mark.parametrize("kind", ["plain", "gz", "many"])
def test_sources_know_which_share_was_read(svm: str, kind: str) -> None:
    lines = "".join(f"1 {k}:1 {k + 1}:0.25\n" for k in range(60_000))
    names: str | list[str] = "b.svm"
    if kind == "gz":
        Path("b.svm.gz").write_bytes(gzip.compress(lines.encode()))
        names = "b.svm.gz"
    else:
        Path("b.svm").write_text(lines)
    if kind == "many":
        Path("c.svm").write_text(lines)
        names = ["b.svm", "a.svm", "c.svm"]
    source = open_source(names)
    assert source.fraction_read() in (None, 0.0)
    shares = [source.fraction_read() for _ in source.blocks(4096, reject)]
    assert shares == sorted(shares) and source.fraction_read() == 1.0
    if kind != "gz":  # which is so small that it is read at once
        assert 0.0 < shares[0] < 0.7


def test_streams_have_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(b"1 1:1\n" * 10)

    monkeypatch.setattr(sys, "stdin", Input)
    source = open_source("-", format="svm")
    assert [source.fraction_read() for _ in source.blocks(4, reject)] == [None] * 3
