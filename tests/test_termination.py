"""Signals before the first example: one sentence, the right exit code, within two seconds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streaml1.cli.termination import GRACE
from streaml1.core.logging import wants_json
from tests.test_exit_codes import load_factor

ROOT = Path(__file__).parent.parent

AT_AN_IMPORT = """
import os, signal, sys, threading, time

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            {send}

sys.meta_path.insert(0, Finder())
sys.argv = ["streaml1", "learn", "a.svm", *{args!r}]
from streaml1.__main__ import main
main()
"""
NOW = "os.kill(os.getpid(), {number})"
LATER = (
    "threading.Timer(1.0, lambda: (print(time.time(), flush=True), "
    "os.kill(os.getpid(), {number}))).start()"
)


def run_with_signal(
    cwd: Path, module: str, send: str, number: int, *args: str
) -> tuple[str, str, float]:
    """Learn with an empty cache and a signal when a module is imported.

    Return standard output, standard error and the time of the end.
    """
    (cwd / "a.svm").write_text("1 1:1\n0 2:1\n")
    code = AT_AN_IMPORT.format(module=module, send=send.format(number=int(number)), args=args)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(cwd / "empty")},
    )  # fmt: skip
    assert done.returncode == 128 + number, done.stderr
    return done.stdout, done.stderr, time.time()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_during_the_imports_of_the_command_line(tmp_path: Path, number: int) -> None:
    _, err, _ = run_with_signal(tmp_path, "click", NOW, number)
    assert err == "streaml1: interrupted while starting; nothing was read or written\n"


def test_signal_during_the_first_imports_as_json(tmp_path: Path) -> None:
    _, err, _ = run_with_signal(tmp_path, "click", NOW, signal.SIGTERM, "--log", "json")
    assert json.loads(err)["event"] == "interrupted"
    assert json.loads(err)["signal"] == signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_the_imports_of_a_command(tmp_path: Path, number: int) -> None:
    _, err, _ = run_with_signal(tmp_path, "streaml1.sources", NOW, number)
    assert err == "streaml1: interrupted\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_kernels_compile(tmp_path: Path, number: int) -> None:
    load = load_factor()
    out, err, end = run_with_signal(tmp_path, "streaml1.training.run_log", LATER, number)
    sent = float(out.splitlines()[-1])
    assert (end - sent) / load < 2.0
    assert err == (
        "streaml1: interrupted before the first example; nothing was learnt or written\n"
    )


def test_signal_while_the_main_thread_runs_native_code() -> None:
    code = (
        "import hashlib, os, signal, threading\n"
        "from streaml1.cli.termination import terminate_by_exception, watchdog\n"
        "terminate_by_exception()\n"
        "watchdog.start()\n"
        "{}\n"
        f"threading.Timer(0.2, os.kill, (os.getpid(), {int(signal.SIGTERM)})).start()\n"
        "try:\n"
        "    hashlib.pbkdf2_hmac('sha256', b'a', b'b', {})\n"
        "except KeyboardInterrupt:\n"
        "    raise SystemExit(7)\n"
    )
    started = time.monotonic()
    armed = subprocess.run(
        [sys.executable, "-c", code.format("", 2_000_000_000)], capture_output=True, text=True,
        timeout=100,
    )  # fmt: skip
    assert armed.returncode == 143, armed.stderr
    assert armed.stderr.startswith("streaml1: interrupted before the first example")
    assert time.monotonic() - started > GRACE
    idle = subprocess.run(
        [sys.executable, "-c", code.format("watchdog.stand_down()", 10_000_000)],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert idle.returncode == 7, idle.stderr  # later, but by the main thread


@pytest.mark.parametrize(
    ("args", "environment", "expected"),
    [
        ([], "", False),
        ([], "json", True),
        (["--log", "json"], "", True),
        (["--log=json"], "", True),
        (["--log=text"], "json", False),
        (["json", "--log"], "", False),
    ],
)
def test_wants_json(
    monkeypatch: pytest.MonkeyPatch, args: list[str], environment: str, expected: bool
) -> None:
    monkeypatch.setenv("STREAML1_LOG", environment)
    assert wants_json(args) is expected
