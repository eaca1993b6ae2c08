"""scripts/kafka: starts at most one broker and removes everything on shutdown."""

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
    result = subprocess.run(
        [sys.executable, str(SCRIPT), *args],
        env={**os.environ, "STREAML1_PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == code, result
    return result


def test_mock_cluster_has_no_tls(tmp_path: Path) -> None:
    message = run("up", "--mock", "--secure", "--state", str(tmp_path / "kafka"), code=2).stderr
    assert "has no TLS and no SASL" in message and not (tmp_path / "kafka").exists()


def test_up_is_idempotent_and_down_removes_everything(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    state = tmp_path / "kafka"
    options = ("--state", str(state))
    assert run("status", *options, code=4).stdout == "no broker is up\n"
    try:
        address = run("up", "--mock", *options).stdout
        assert run("up", "--mock", *options).stdout == address
        assert address.strip() in run("status", *options).stdout
        assert "of another kind is up" in run("up", *options, code=2).stderr
        pid = json.loads((state / "broker.json").read_text())["pid"]
        assert Path(f"/proc/{pid}/cmdline").read_bytes()
    finally:
        run("down", *options)
    assert not state.exists()
    assert not _alive(pid)
    assert run("down", *options).stdout == ""


def _alive(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def test_pid_of_another_process_is_ignored(script: Any, tmp_path: Path) -> None:
    (tmp_path / "broker.log").touch()
    (tmp_path / "broker.json").write_text(json.dumps({"pid": os.getpid()}))
    assert script.running_broker(tmp_path) is None
    script.down(tmp_path)  # must not kill this process
    assert not tmp_path.exists()


@pytest.mark.parametrize("command", ["up", "down"])
def test_unrelated_directory_is_not_touched(command: str, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    message = run(command, "--state", str(tmp_path), code=2).stderr
    assert "holds something else" in message and message.count("\n") == 1
    assert (tmp_path / "precious").exists()


def test_jars_are_verified_by_checksum(script: Any, tmp_path: Path) -> None:
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


def test_missing_java_is_a_one_line_error(tmp_path: Path) -> None:
    options = ("--state", str(tmp_path / "kafka"))
    message = run("up", *options, code=2, PATH=str(tmp_path)).stderr
    assert (
        "Java 17 or newer" in message and "apt-get install" in message and message.count("\n") == 1
    )
