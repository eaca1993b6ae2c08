"""What a release consists of besides the code: metadata, forms, workflow, promises in the docs."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import streaml1
from streaml1.models import serialization
from streaml1.sources.row_cache import layout
from streaml1.training.checkpoint import store

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROMISES = (ROOT / "docs" / "compatibility.md").read_text()
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
WORKFLOW_TEXT = (ROOT / ".github" / "workflows" / "release.yml").read_text()


SCRIPTS = sorted(
    path for path in (ROOT / "scripts").iterdir() if path.is_file() and path.name != "environment"
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_help_of_scripts_needs_no_environment(script: Path, tmp_path: Path) -> None:
    """Nothing is installed: in the copy there is no Python package to install."""
    copies = tmp_path / "scripts"
    copies.mkdir()
    for path in (script, script.parent / "environment"):
        shutil.copy(path, copies)
    if script.name == "kafka":
        shutil.copytree(script.parent / "kafka.d", copies / "kafka.d")
    command = [copies / script.name, "--help"]
    result = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=60)
    assert result.returncode == 0 and result.stderr == ""
    assert f"scripts/{script.name}" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scripts"]


def test_citation() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["title"] == PROJECT["name"]
    assert citation["version"] == PROJECT["version"] == streaml1.__version__
    assert citation["license"] == PROJECT["license"]
    assert len(citation["references"]) == 5
    for reference in citation["references"]:
        assert {"type", "title", "authors", "year"} <= set(reference)
        for name in re.findall(r"\b[A-Z]\w+(?:Classifier|Regressor)\b", reference["notes"]):
            assert hasattr(streaml1, name)
        for name in re.findall(r"solvers\.(\w+)", reference["notes"]):
            assert hasattr(streaml1.solvers, name)


FIELD_KEYS = {
    "markdown": {"value"},
    "textarea": {"label", "description", "render", "placeholder", "value"},
    "input": {"label", "description", "placeholder", "value"},
    "checkboxes": {"label", "description", "options"},
}


def test_issue_forms() -> None:
    forms = {form.name: yaml.safe_load(form.read_text()) for form in FORMS}
    assert set(forms) == {"bug.yml", "config.yml", "feature.yml"}
    del forms["config.yml"]
    for form in forms.values():
        assert form["name"] and form["description"]
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        assert len({field["id"] for field in fields}) == len(fields)
        assert any(field.get("validations", {}).get("required") for field in fields)
        for field in form["body"]:
            assert set(field["attributes"]) <= FIELD_KEYS[field["type"]]


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW_TEXT)["jobs"]
    return found


def test_only_the_last_job_of_a_release_may_publish(jobs: dict[str, Any]) -> None:
    assert yaml.safe_load(WORKFLOW_TEXT)["permissions"] == {"contents": "read"}
    allowed = {name: job["permissions"] for name, job in jobs.items() if "permissions" in job}
    assert allowed == {"publish": {"id-token": "write"}}
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"
    assert "secrets." not in WORKFLOW_TEXT and "password:" not in WORKFLOW_TEXT
    for job in jobs.values():
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False


def test_a_release_checks_every_supported_python(jobs: dict[str, Any]) -> None:
    matrix = jobs["check"]["strategy"]["matrix"]["include"]
    supported = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d", c)]
    assert [entry["python"] for entry in matrix] == supported
    assert [entry["python"] for entry in matrix if "options" in entry] == supported[:1]
    steps = [*jobs["check"]["steps"], *jobs["test"]["steps"]]
    for command in [step["run"].split()[0] for step in steps if "run" in step]:
        assert (ROOT / command).is_file()


def test_lowest_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "package.d"))
    lowest = importlib.import_module("lowest").lowest
    assert lowest(["a-b>=1.2,<3", "c[d]>=4"]) == ["a-b==1.2", "c==4"]
    assert len(lowest(PROJECT["dependencies"])) == len(PROJECT["dependencies"])
    with pytest.raises(SystemExit, match="^a<2 has no lower bound; write name>=version$"):
        lowest(["a<2"])


def table_rows(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading of the page of promises."""
    section = PROMISES.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_table_of_extras() -> None:
    listed = {
        extra: set(installs.split(", ")) - {""}
        for extras, installs, _ in table_rows("Extras")
        for extra in re.findall(r"`(\w+)`", extras)
    }
    expected = {
        extra: {re.split(r"[>\[]", requirement)[0] for requirement in requirements}
        for extra, requirements in PROJECT["optional-dependencies"].items()
    }
    assert listed == expected | {"docs": set(), "dev": set()}


def test_versions_of_formats() -> None:
    formats = {name: version for name, _, version, _ in table_rows("Files")}
    assert formats["model"] == str(serialization.FORMAT)
    assert formats["checkpoint"] == str(store.FORMAT)
    assert formats["row cache"] == str(layout.VERSION)


def test_public_packages_list_what_is_public() -> None:
    cell = table_rows("What is public")[0][0]
    names = re.findall(r"`(?:streaml1)?\.(\w+)(?:\.app)?`", cell)
    assert names == ["datasets", "distributed", "serving", "sklearn", "solvers", "training"]
    for name in names:
        assert importlib.import_module(f"streaml1.{name}").__all__
