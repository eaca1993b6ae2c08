"""The recipe for Spark; it needs pyspark and Java."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "demos" / "on_spark.py"


def test_page_shows_the_code_of_the_demo() -> None:
    text, code = (ROOT / "docs" / "on-spark.md").read_text(), DEMO.read_text()
    code = re.sub(r'^ *""".*?"""\n\n?', "", code, flags=re.MULTILINE | re.DOTALL)
    code = re.sub(r"(\w+): [\w.]+(?=[,)])|( -> )[^:]+(?=:\n)", r"\1", code)
    shown = re.findall(r"^def \w+\(.*?(?=^\S|^```)", text, re.MULTILINE | re.DOTALL)
    assert len(shown) == 3
    for function in shown:
        assert function.strip() in code


def test_demo() -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO), "--days", "3", "--rows", "20000"],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    output = done.stdout
    rows = re.findall(r"^ +(\d) +(0\.\d+) +(0\.\d+) +([\d,]+)$", output, re.MULTILINE)
    assert [row[3] for row in rows] == ["20,000", "40,000"]
    for _, merged, single, _ in rows:
        assert float(merged) < 1.01 * float(single) < 0.5
    probabilities = re.findall(r"(true|false)\| *(0\.\d+)\|$", output, re.MULTILINE)
    assert len(probabilities) == 5 and all(float(p) > 0.5 for _, p in probabilities)
