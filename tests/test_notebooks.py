"""The notebooks of the documentation: what they show, and their pages on the site."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from streaml1.training.report import Report
from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
IN_A_KERNEL = "river-pipeline"
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "docs.d"))
    return importlib.import_module("notebooks")


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def shown(cell: dict[str, Any]) -> tuple[str, str]:
    """Return what a cell prints, and its value if that is text; "html" if it is more."""
    printed, value = "", ""
    for output in cell["outputs"]:
        data = output.get("data", {})
        if output["output_type"] == "stream" and output["name"] == "stdout":
            printed += "".join(output["text"])
        if "text/plain" in data:
            value = "html" if "text/html" in data else "".join(data["text/plain"])
    return printed, value


def run_here(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell; return what it prints and the value of its last line."""
    *lines, last = ast.parse(source).body
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        if not isinstance(last, ast.Expr):
            lines, last = [*lines, last], None
        exec(compile(ast.Module(lines, []), "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return out.getvalue(), value


@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if path.stem != IN_A_KERNEL], ids=lambda path: path.stem
)
def test_cells_show_what_is_stored(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger("streaml1"), "disabled", True)
    names: dict[str, Any] = {"__name__": "notebook"}
    reports = 0
    for cell in code_cells(json.loads(path.read_text())):
        printed, value = run_here("".join(cell["source"]), names)
        expected, expected_value = shown(cell)
        assert printed == expected
        if isinstance(value, Report):
            reports += 1
            assert expected_value == "html" and "<img src=" in value._repr_html_()
        elif value is not None:
            # The stored value is laid out in lines.
            assert ast.literal_eval(expected_value) == value
        else:
            assert not expected_value
    assert reports == 1


def test_notebook_in_a_kernel(script: Any, tmp_path: Path) -> None:
    path = FOLDER / f"{IN_A_KERNEL}.ipynb"
    found = script.run(path, tmp_path)
    stored = json.loads(path.read_text())
    assert [shown(cell) for cell in code_cells(found)] == [
        shown(cell) for cell in code_cells(stored)
    ]
    assert (tmp_path / "phishing.model").is_file()
    rewritten = tmp_path / path.name
    script.store(rewritten, found)
    assert rewritten.stat().st_size < 50_000
    # Only the picture and the speeds may differ.
    assert json.loads(rewritten.read_text()).keys() == stored.keys()
    assert json.loads(rewritten.read_text())["metadata"] == stored["metadata"]


@each_notebook
def test_stored_outputs_are_small_and_complete(path: Path) -> None:
    notebook = json.loads(path.read_text())
    text = json.dumps(notebook)
    assert path.stat().st_size < 50_000
    assert text.count("data:image/png;base64,") == 1
    assert "Traceback" not in text and str(ROOT) not in text and "/tmp" not in text
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(shown(cell)[1] == "html" for cell in cells) == 1


def test_pages(script: Any, tmp_path: Path) -> None:
    for path in [*NOTEBOOKS, FOLDER / "index.md"]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    script.stage(tmp_path)
    contents = (tmp_path / "index.md").read_text()
    for path in NOTEBOOKS:
        assert f"]({path.stem}.md)" in contents and f"]({path.name})" not in contents
        page = (tmp_path / f"{path.stem}.md").read_text()
        notebook = json.loads(path.read_text())
        assert page.startswith("".join(notebook["cells"][0]["source"]).partition("\n")[0] + "\n\n")
        assert f'<a href="{path.name}" download>' in page
        code = re.findall(r"(?ms)^```python\n(.*?)\n```$", page)
        assert code == ["".join(cell["source"]) for cell in code_cells(notebook)]
        texts = re.findall(r"(?ms)^```text\n(.*?)\n```$", page)
        for cell in code_cells(notebook):
            printed, value = shown(cell)
            assert not printed or printed.rstrip() in texts
            assert value in ("", "html") or value in texts
        assert page.count("<table>") == page.count('<img src="data:image/png;base64,') == 1
