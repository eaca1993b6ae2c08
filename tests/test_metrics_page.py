"""docs/metrics.md names each column, key and gauge of the program."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from streaml1.training.report.columns import COLUMN_NAMES, report_columns
from streaml1.training.report.line import Line
from tests.conftest import ROOT
from tests.doc_samples import run_samples

PAGE = (ROOT / "docs" / "metrics.md").read_text()
ROWS = {
    cells[0].strip("`"): [cell.strip("`") for cell in cells[1:]]
    for line in PAGE.splitlines()
    if line.startswith("| `")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}


def marked_line() -> Line:
    """Return a line each of whose fields has a value of its own."""
    values: dict[str, Any] = {field.name: k + 2 for k, field in enumerate(fields(Line))}
    return Line(**values)


def test_every_column_is_a_row() -> None:
    assert sorted(ROWS) == sorted(COLUMN_NAMES)
    assert all(len(row) == 5 for row in ROWS.values())


@pytest.mark.parametrize("name", COLUMN_NAMES)
def test_key_is_the_field_that_the_column_shows(name: str) -> None:
    line, key = marked_line(), ROWS[name][0]
    column = report_columns("squared")[name]
    other = Line(**{field.name: getattr(line, field.name) for field in fields(Line)} | {key: 997})
    assert column.text(line) != column.text(other)


def test_gauges_are_those_of_the_page_of_operations() -> None:
    operating = (ROOT / "docs" / "operating.md").read_text()
    served = set(re.findall(r"^\| `(streaml1_\w+)", operating, re.M))
    gauges = {row[1] for row in ROWS.values()} - {""}
    assert len(gauges) > 10 and gauges <= served


def test_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_samples(PAGE) == 1
