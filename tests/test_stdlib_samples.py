"""The samples of the README and the docs that need no data: commands print what the pages show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import streaml1.cli.sweep
from streaml1.datasets import stdlib
from streaml1.distributed import InlineExecutor
from tests.conftest import ROOT
from tests.doc_samples import commands_of, differences, shown_by

EXAMPLES_ON_PAGES = 12_737
"""Examples of `stdlib` in the version of Python that the pages were written with."""

PAGES = {
    "README.md": 3,
    "docs/choosing-a-model.md": 3,
    "docs/drift.md": 1,
    "docs/evaluate.md": 2,
    "docs/exit-codes.md": 1,
    "docs/from-vowpal-wabbit.md": 1,
    "docs/glossary.md": 1,
    "docs/learn.md": 2,
    "docs/predict.md": 2,
    "docs/show.md": 2,
}
"""Number of the outputs of each page that are compared."""

OTHER_DATA = re.compile(r"printf|(learn|convert) clicks\.(csv|jsonl|vw --cross)|curl")
"""Commands that read files which the pages do not show."""


def test_differences_are_found() -> None:
    table = "examples loss per\n          second\n  3,000  0.5331  5,459\n\nlog-loss 0.5331\n"
    assert differences(table, table.replace("5,459", "12,345")) == []
    assert differences(table, table.replace("0.5331  5", "0.5332  5")) == []
    assert differences(table, table.replace("0.5331  5", "0.5341  5")) != []
    assert differences(table, table.replace("log-loss", "loss")) != []
    assert differences(table, table + "more\n") == [("", "more")]
    assert differences(table, table.replace("loss 0.5331", "loss 0.6331")) != []
    assert differences("2\n", "3\n") != []


@pytest.mark.parametrize("page", PAGES)
def test_samples(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def in_this_process(*_: Any) -> InlineExecutor:
        return InlineExecutor()

    monkeypatch.setattr(streaml1.cli.sweep, "new_executor", in_this_process)
    Path("clicks.csv").write_text("site,clicked\nnews,1\n")
    same_python = sum(1 for _ in stdlib()) == EXAMPLES_ON_PAGES
    compared, has_figures = 0, True
    for command, output in commands_of((ROOT / page).read_text()):
        if OTHER_DATA.search(command):
            continue
        has_figures &= same_python or "stdlib" not in command
        shown = shown_by(command, messages="streaml1: " in output)
        if output:
            compared += 1
            if has_figures:
                assert differences(shown, output) == [], command
    assert compared == PAGES[page]
