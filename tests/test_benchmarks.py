"""Benchmarks that call parts of the package which only they and error messages use."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts" / "bench.d"
LINES = {
    "a.svm": "1 1:2 3:4\n" * 1000,
    "a.vw": "1 | a b:2\n" * 1000,
    "a.jsonl": '{"x": {"a": 1}, "y": 1}\n' * 1000,
    "a.csv": "y,a\n" + "1,2\n" * 1000,
}


@pytest.mark.parametrize("name", LINES)
def test_line_parsers_are_timed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)
    bench_text = importlib.import_module("bench_text")
    path = tmp_path / name
    path.write_text(LINES[name])
    assert 0.0 < bench_text.slow_parser_seconds(path) < 0.01
