"""scripts/kafka: one broker that comes up once, and leaves nothing behind."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "kafka.d" / "broker.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("broker", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*args: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *args],
        env={**os.environ, "STREAML1_PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done
    return done


def test_the_mock_cluster_has_no_tls(tmp_path: Path) -> None:
    told = run("up", "--mock", "--secure", "--state", str(tmp_path / "kafka"), code=2).stderr
    assert "has no TLS and no SASL" in told and not (tmp_path / "kafka").exists()


def test_up_is_idempotent_and_down_leaves_nothing(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    state = tmp_path / "kafka"
    at = ("--state", str(state))
    assert run("status", *at, code=4).stdout == "no broker is up\n"
    try:
        address = run("up", "--mock", *at).stdout
        assert run("up", "--mock", *at).stdout == address
        assert address.strip() in run("status", *at).stdout
        assert "of another kind is up" in run("up", *at, code=2).stderr
        pid = json.loads((state / "broker.json").read_text())["pid"]
        assert Path(f"/proc/{pid}/cmdline").read_bytes()
    finally:
        run("down", *at)
    assert not state.exists()
    assert not _alive(pid)
    assert run("down", *at).stdout == ""


def _alive(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def test_the_number_of_another_process_fools_nobody(script: Any, tmp_path: Path) -> None:
    (tmp_path / "broker.log").touch()
    (tmp_path / "broker.json").write_text(json.dumps({"pid": os.getpid()}))
    assert script.running_broker(tmp_path) is None
    script.down(tmp_path)  # this process goes on
    assert not tmp_path.exists()


@pytest.mark.parametrize("command", ["up", "down"])
def test_a_folder_of_something_else_is_left_alone(command: str, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    told = run(command, "--state", str(tmp_path), code=2).stderr
    assert "holds something else" in told and told.count("\n") == 1
    assert (tmp_path / "precious").exists()


def test_jars_are_held_to_their_checksums(script: Any, tmp_path: Path) -> None:
    locked = script.jar_checksums()
    assert f"kafka_2.13-{script.kafka_version()}.jar" in locked and len(locked) > 40
    assert not script.has_all_jars(tmp_path)
    for name in locked:
        (tmp_path / name).write_bytes(b"another")
    assert not script.has_all_jars(tmp_path)
    folder = script.jar_directory()
    if not script.has_all_jars(folder):
        return
    for name in locked:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    assert script.has_all_jars(tmp_path)
    (tmp_path / name).write_bytes((folder / name).read_bytes()[:-1] + b"?")
    assert not script.has_all_jars(tmp_path)


def test_without_java_one_line_says_what_to_install(tmp_path: Path) -> None:
    at = ("--state", str(tmp_path / "kafka"))
    told = run("up", *at, code=2, PATH=str(tmp_path)).stderr
    assert "Java 17 or newer" in told and "apt-get install" in told and told.count("\n") == 1
