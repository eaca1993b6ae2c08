"""Build the package, install it to another directory and run it from there."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import streaml1

ROOT = Path(__file__).parent.parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("hatchling") is None or importlib.util.find_spec("build") is None,
        reason="hatchling and build must be installed to build without a network",
    ),
]


def run(*arguments: str, cwd: Path, **environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build = ("-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT))
    run(*build, cwd=out, STREAML1_PREBUILT="none")
    return out


@pytest.fixture(scope="module")
def site_directory(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    [wheel] = distributions.glob("*.whl")
    pip = ("-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target")
    run(*pip, str(target), str(wheel), cwd=distributions)
    return target


def test_wheel_contents(distributions: Path) -> None:
    [wheel] = distributions.glob("*.whl")
    assert wheel.name == f"streaml1-{streaml1.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [metadata_name] = [name for name in names if name.endswith("METADATA")]
        metadata = archive.read(metadata_name).decode()
        [entry_points] = [name for name in names if name.endswith("entry_points.txt")]
        assert "streaml1 = streaml1.__main__:main" in archive.read(entry_points).decode()
    sources = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "streaml1").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "streaml1/py.typed" in sources
    assert "streaml1/training/page/static/uplot/LICENSE" in sources
    packaged = {name for name in names if ".dist-info/" not in name}
    assert packaged == sources
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "Requires-Python: >=3.11" in metadata
    assert f"Version: {streaml1.__version__}" in metadata
    assert "License-Expression: BSD-3-Clause" in metadata


CHECKOUT_ONLY = re.compile(r"\.(ci/|editorconfig$|pre-commit-config\.yaml$)")
"""Files that only a checkout needs."""


def test_source_archive_contents(distributions: Path) -> None:
    """The archive has the files that git tracks, and nothing that lies around next to them."""
    [archive] = distributions.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "streaml1/py.typed"):
        assert name in names
    assert {"tests/reference.py", "tests/test_install.py", "streaml1/optim/update_rule.py"} <= names
    assert {"CITATION.cff", "SECURITY.md", "docs/index.md", "scripts/package"} <= names
    if (ROOT / ".git").exists():
        tracked = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout.split("\0")  # fmt: skip
        expected = {name for name in tracked if name and not CHECKOUT_ONLY.match(name)}
        assert names == expected | {"PKG-INFO"}


LEARN = """
import streaml1
m = streaml1.ElasticNetClassifier(lr=0.1, l1=1e-4)
m.learn_one({"a": 1.0}, True)
m.save("m")
"""
PREDICT = """
import streaml1
from importlib import metadata
print(streaml1.__file__, streaml1.load("m").predict_one({"a": 1.0}))
print(metadata.version("streaml1"))
"""


def test_import_from_another_directory(site_directory: Path, tmp_path: Path) -> None:
    """Learning is interpreted here: to compile it takes longest, and says nothing more."""
    environment = {"PYTHONPATH": str(site_directory), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    run("-c", LEARN, cwd=tmp_path, NUMBA_DISABLE_JIT="1", **environment)
    out = run("-c", PREDICT, cwd=tmp_path, **environment).split()
    assert out == [str(site_directory / "streaml1" / "__init__.py"), "True", streaml1.__version__]


def test_command_line_from_another_directory(site_directory: Path, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(site_directory), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    shown = run("-m", "streaml1", "--version", cwd=tmp_path, **environment)
    assert streaml1.__version__ in shown
    assert len(shown.splitlines()) == 1
    script = site_directory / "bin" / "streaml1"
    assert streaml1.__version__ in run(str(script), "--version", cwd=tmp_path, **environment)
