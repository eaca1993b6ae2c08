"""The tutorial, on a few messages: through a pipe, and through Kafka."""

from __future__ import annotations

import json
import re
import shutil
import sys
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
    assert "interrupted after" in out or re.search(r"^examples +\d+$", out, re.M)


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
