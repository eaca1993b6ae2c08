"""CONTRIBUTING.md, *Add a learner*: its steps suffice, in three existing files and 120 lines.

The tests copy the repository, add the learner of `tests/templates/learner/` to the copy and use it.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT

TEMPLATE = ROOT / "tests" / "templates" / "learner"
EDITS = "edits.toml"
NAME = "rda"

MAX_EXISTING_FILES = 3
MAX_LINES = 120

Run = Callable[..., str]


def steps() -> list[str]:
    """Return the path that each step of the recipe begins with."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.split("## Add a learner\n")[1].split("\n## ")[0]
    return [path.replace("<name>", NAME) for path in re.findall(r"(?m)^\d+\. `(.+?)`", section)]


def inserted(text: str, before: str | None, lines: str) -> str:
    """Return `text` with `lines` before the text `before`, or at the end."""
    if before is None:
        return text + lines
    assert text.count(before) == 1, f"{before!r} must occur once"
    at = text.index(before) + (len(before) - len(before.lstrip("\n")))
    return text[:at] + lines + text[at:]


def changed_files() -> dict[str, str]:
    """Return the text, after the recipe, of each file that it adds or changes."""
    changed = {
        str(path.relative_to(TEMPLATE)): path.read_text()
        for path in TEMPLATE.rglob("*.py")
    }  # fmt: skip
    for path, edits in tomllib.loads((TEMPLATE / EDITS).read_text()).items():
        changed[path] = (ROOT / path).read_text()
        for edit in edits:
            changed[path] = inserted(changed[path], edit.get("before"), edit["text"])
    return changed


def n_new_lines(path: str, text: str) -> int:
    """Return the number of lines that are new in a file, blank ones included."""
    before = (ROOT / path).read_text().splitlines() if (ROOT / path).exists() else []
    diff = list(difflib.unified_diff(before, text.splitlines(), n=0))[2:]
    return sum(line.startswith("+") for line in diff)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the repository to which the recipe has been applied."""
    copy = tmp_path_factory.mktemp("recipe") / "repository"
    unneeded = shutil.ignore_patterns("__pycache__", "templates", "fixtures")
    for folder in ("streaml1", "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=unneeded)
    shutil.copy(ROOT / "pyproject.toml", copy)
    for path, text in changed_files().items():
        (copy / path).write_text(text)
    return copy


@pytest.fixture
def run(copy: Path, tmp_path: Path) -> Run:
    """Run `python args...` in the copy; interpreted, because that is faster than to compile."""

    def run(*args: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, *args],
            cwd=copy,
            env={
                **os.environ,
                "PYTHONPATH": str(copy),
                "PYTHONDONTWRITEBYTECODE": "",  # the processes share the bytecode of the copy
                "NUMBA_DISABLE_JIT": "1",
                "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=500.0,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    return run


def test_the_template_follows_the_steps() -> None:
    assert len(steps()) > 1
    assert sorted(steps()) == sorted(changed_files())


def test_three_existing_files_and_120_lines() -> None:
    changed = changed_files()
    assert sum((ROOT / path).exists() for path in changed) <= MAX_EXISTING_FILES
    assert sum(n_new_lines(path, text) for path, text in changed.items()) <= MAX_LINES


def test_the_template_is_formatted(copy: Path) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent))
    if ruff is None:
        pytest.skip("ruff is not installed")
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [ruff, *command, *changed_files()], cwd=copy, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_tests_of_all_learners_include_it(run: Run) -> None:
    """River's checks, the dense twin, saving, documentation, imports, and its example."""
    tests = [f"tests/test_{name}.py" for name in ("learners", "api", "layers")]
    rules = (
        "imports_point_to_lower_layers", "only_core_imports_numba", "all_lists_defined_names",
        "heavy_libraries_are_imported_on_demand",
    )  # fmt: skip
    out = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", " or ".join((NAME, *rules)),
              *tests, f"streaml1/models/{NAME}.py", "-rA")  # fmt: skip
    passed = set(re.findall(r"(?m)^PASSED (\S+)", out))
    for test in ("river_checks", "equals_the_dense_twin", "a_saved_model_resumes_bit_identically"):
        assert f"tests/test_learners.py::test_{test}[RDAClassifier]" in passed
    cases = [test for test in passed if test.startswith("tests/test_api.py::")]
    assert len([test for test in cases if test.endswith("[RDAClassifier]")]) >= 3, passed
    assert {f"tests/test_layers.py::test_{rule}" for rule in rules} <= passed
    assert "streaml1/models/rda.py::streaml1.models.rda.RDAClassifier" in passed


def test_it_is_public_and_documented(run: Run) -> None:
    code = (
        "import streaml1; from streaml1.models.parameters import parameter_table;"
        "print('RDAClassifier' in streaml1.__all__, 'RDAClassifier' in dir(streaml1));"
        "print(parameter_table(streaml1.RDAClassifier))"
    )
    first, *table = run("-c", code).splitlines()
    assert first == "True True"
    assert any(re.match(r"\| `l1` \| `float` \| `0.0001` \| .*l1 penalty", row) for row in table)


@pytest.mark.slow
def test_it_learns_from_the_command_line(run: Run, tmp_path: Path) -> None:
    data, model = tmp_path / "data.jsonl", str(tmp_path / "a.model")
    lines = ('{"x": {"cheap": 1, "pills": 1}, "y": 1}\n', '{"x": {"minutes": 1}, "y": 0}\n')
    data.write_text("".join(lines) * 50)
    learners = run("-m", "streaml1", "learn", "--help-all").split("Learners:")[1]
    assert re.search(r"(?m)^ +rda +dual averaging$", learners)
    out = run(
        "-m", "streaml1", "learn", str(data), "--model", NAME, "--l1", "0.01", "--save", model
    )
    assert re.search(r"(?m)^ *100 ", out)
    assert "cheap" in out
    assert "RDAClassifier" in run("-m", "streaml1", "show", model)


@pytest.mark.slow
def test_it_compiles(run: Run) -> None:
    """Interpreted and compiled learn the same weights."""
    code = (
        "import numpy as np; from scipy.sparse import csr_array; import streaml1;"
        "random = np.random.default_rng(0); X = random.normal(size=(50, 9)); y = X[:, 0] > 0;"
        "model = streaml1.RDAClassifier(l1=0.02); model.learn_many(csr_array(X), y);"
        "print(sorted(model.weights.items()), model.intercept)"
    )
    assert run("-c", code, NUMBA_DISABLE_JIT="0") == run("-c", code)
