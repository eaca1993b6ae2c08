"""The tutorial, on a few messages: through a pipe, and through Kafka."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.broker import Broker

ROOT = Path(__file__).parent.parent


@pytest.fixture
def tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "demos"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delitem(sys.modules, "tutorial", raising=False)
    import tutorial

    monkeypatch.setattr(tutorial, "FOLDER", tmp_path / "out")
    monkeypatch.setattr(tutorial, "FIRST_DAY", 300)
    return tutorial


def days(tutorial: ModuleType) -> Any:
    spam = [{"message": f"win a prize now, call {k}", "label": "spam"} for k in range(200)]
    ham = [{"message": f"see you at home at {k}", "label": "ham"} for k in range(400)]
    rows = [row for k in range(200) for row in (spam[k], ham[2 * k], ham[2 * k + 1])]
    return tutorial.Days("message", "spam", rows, "win a prize")


def answers(out: str) -> list[Any]:
    return [json.loads(line) for line in out.splitlines() if line.startswith('{"model"')]


def test_first_day_and_a_pipe(
    tutorial: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    opened: list[str] = []
    monkeypatch.setattr(tutorial.webbrowser, "open", opened.append)
    tutorial.first_day(days(tutorial))
    out = capfd.readouterr().out
    assert "learn day1.jsonl --target label --positive spam --text message" in out
    assert re.search(r"^examples +300$", out, re.M) and "message=prize" in out
    tutorial.second_day(days(tutorial), None, 3.0, True)
    out = capfd.readouterr().out
    assert len(opened) == 1 and opened[0] in out
    first, last = answers(out)
    assert first["p"] == last["p"] > 0.9 and first["version"] == last["version"]
    assert "interrupted after" in out or re.search(r"^examples +[\d,]+$", out, re.M)


@pytest.mark.kafka
def test_second_day_through_kafka(
    tutorial: ModuleType,
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    broker.require_real()
    topic = broker.topic()
    monkeypatch.setattr(tutorial, "TOPIC", topic)
    monkeypatch.setattr(tutorial, "MODEL_TOPIC", f"{topic}-model")
    tutorial.first_day(days(tutorial))
    tutorial.second_day(days(tutorial), broker.address, 8.0, False)
    first, last = answers(capfd.readouterr().out)
    assert first["p"] > 0.9 and first["version"] != last["version"]
    assert (tutorial.FOLDER / "kept").is_dir()


FAKE_KAFKA = """#!/bin/sh
echo "$1" >> "$0.calls"
if [ "$1" = up ] && [ -e "$0.slow" ]; then
    trap 'echo ended >> "$0.calls"; exit 143' TERM
    while :; do sleep 0.1; done
fi
echo 127.0.0.1:9
"""

WITH_BROKER = """
import sys
from contextlib import ExitStack
from pathlib import Path
import tutorial
tutorial.SCRIPTS = Path(sys.argv[1])
tutorial.shutil.which = lambda name: name
tutorial.end_on_signals()
with ExitStack() as stack:
    tutorial.broker_for(stack, None, tutorial.SCRIPTS)
    tutorial.wait_until(60.0, [])
"""


@pytest.mark.parametrize("slow", [False, True])
def test_sigterm_ends_the_broker(tmp_path: Path, slow: bool) -> None:
    kafka, calls = tmp_path / "kafka", tmp_path / "kafka.calls"
    kafka.write_text(FAKE_KAFKA)
    kafka.chmod(0o700)
    if slow:
        (tmp_path / "kafka.slow").touch()
    demo = subprocess.Popen(
        [sys.executable, "-c", WITH_BROKER, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "demos")},
    )
    give_up = time.monotonic() + 60
    # The shell creates the file before it writes to it.
    while not (calls.exists() and calls.read_text()) and time.monotonic() < give_up:
        time.sleep(0.02)
    demo.terminate()
    assert demo.wait(60) == 143
    assert calls.read_text().split() == ["up", *(["ended"] if slow else []), "down"]


@pytest.mark.parametrize("label", ["spam", "documented"])
def test_the_served_model_is_named_by_the_label(
    tutorial: ModuleType, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    rows = [{"code": "def", "label": label}] * 400
    started: list[tuple[str, ...]] = []

    class Running:
        stdin = sys.stdout.buffer

    def start(stack: Any, *arguments: str, **options: Any) -> Any:
        started.append(arguments)
        return Running()

    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(tutorial, "start", start)
    for name in ("wait_for", "wait_for_model", "wait_until", "ask", "send"):
        monkeypatch.setattr(tutorial, name, lambda *args: None)
    tutorial.second_day(tutorial.Days("code", label, rows, "def"), None, 0.0, False)
    assert started[1][:2] == ("serve", f"{label}={tutorial.MODEL}")


def test_functions_stand_in_for_messages(
    tutorial: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise OSError("no network")

    monkeypatch.setattr(tutorial, "messages", fail)
    found = tutorial.load_days()
    assert "cannot be downloaded (no network)" in capfd.readouterr().out
    assert found.text == "code" and len(found.rows) > 10_000
    assert {row["label"] for row in found.rows} == {"documented", "bare"}


def test_page_shows_what_the_tutorial_runs(tutorial: ModuleType) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text()
    for command in ("inspect day1.jsonl", "evaluate first-day.streaml1 day2.jsonl", "--explain 4"):
        assert command in page
    assert tutorial.MODEL in page and f"--listen {tutorial.SERVER}" in page
