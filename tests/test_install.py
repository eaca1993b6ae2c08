"""Built, installed elsewhere, and run from there."""

from __future__ import annotations

import importlib.util
import os
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
        reason="built without a network: hatchling and build must be here",
    ),
]


def run(*arguments: str, cwd: Path, **environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT), cwd=out)
    return out


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    [wheel] = built.glob("*.whl")
    pip = ("-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target")
    run(*pip, str(site), str(wheel), cwd=built)
    return site


def test_the_wheel(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    assert wheel.name == f"streaml1-{streaml1.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [about] = [name for name in names if name.endswith("METADATA")]
        metadata = archive.read(about).decode()
        [entry] = [name for name in names if name.endswith("entry_points.txt")]
        assert "streaml1 = streaml1.cli:main" in archive.read(entry).decode()
    sources = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "streaml1").rglob("*")
        if path.is_file() and path.suffix in (".py", ".typed")
    }
    assert "streaml1/py.typed" in sources
    packed = {name for name in names if ".dist-info/" not in name}
    assert packed == sources
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "Requires-Python: >=3.11" in metadata
    assert f"Version: {streaml1.__version__}" in metadata
    assert "License-Expression: BSD-3-Clause" in metadata


def test_the_source_archive(built: Path) -> None:
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "streaml1/py.typed"):
        assert name in names
    assert {"tests/reference.py", "tests/test_install.py", "streaml1/optim/update_rule.py"} <= names
    unwanted = ("__pycache__", ".nbi", ".nbc", ".pyc", ".git/", ".venv", ".hypothesis")
    assert not [name for name in names if any(part in name for part in unwanted)]


def test_imported_from_another_folder(installed: Path, tmp_path: Path) -> None:
    code = """
import sys, streaml1
from importlib import metadata
m = streaml1.ElasticNetClassifier(l1=1e-4)
m.learn_one({"a": 1.0}, True)
m.save("m")
print(streaml1.__file__, streaml1.load("m").predict_one({"a": 1.0}))
print(metadata.version("streaml1"))
"""
    cache = str(tmp_path / "cache")
    out = run("-c", code, cwd=tmp_path, PYTHONPATH=str(installed), NUMBA_CACHE_DIR=cache).split()
    assert out == [str(installed / "streaml1" / "__init__.py"), "True", streaml1.__version__]


def test_the_command_line_from_another_folder(installed: Path, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(installed), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    shown = run("-m", "streaml1", "--version", cwd=tmp_path, **environment)
    assert streaml1.__version__ in shown
    assert len(shown.splitlines()) == 1
    script = installed / "bin" / "streaml1"
    assert streaml1.__version__ in run(str(script), "--version", cwd=tmp_path, **environment)
