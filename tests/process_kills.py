"""Processes that are killed: a command that is restarted, and one that dies at a system call."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def run_with_kills(command: Sequence[str], cwd: Path, lines: Sequence[int]) -> tuple[int, str]:
    """Run `python -m streaml1 command...` until a run ends by itself.

    Parameters
    ----------
    command : sequence of str
        Arguments of the command line.
    cwd : Path
        Working directory.
    lines : sequence of int
        Run i is killed i * 10 ms after it has printed `lines[i]` lines. The run after them is not
        killed.

    Returns
    -------
    tuple
        The number of killed runs, and the standard output of the last run.
    """
    killed = 0
    for run_no in range(len(lines) + 1):
        process = subprocess.Popen(
            [sys.executable, "-m", "streaml1", *command], cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        if run_no < len(lines):
            for _ in range(lines[run_no]):
                process.stdout.readline()
            time.sleep(0.01 * run_no)
            process.kill()
        out, err = process.communicate(timeout=120)
        if process.returncode == 0:
            return killed, out
        assert process.returncode == -signal.SIGKILL and run_no < len(lines), err
        killed += 1
    raise AssertionError(f"no run ended: killed {killed} times")


def die_at(step: int) -> None:
    """End this process at a moment of its file operations, counted from 1.

    Each operation has two moments: before it, where a write is half done, and after it.
    """
    remaining = step

    def pass_moment(half_call: Callable[[], object] | None = None) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            if half_call is not None:
                half_call()
            os._exit(9)

    def dying(call: Any, half_call: Any = None) -> Any:
        def wrapped(*args: Any, **options: Any) -> Any:
            pass_moment(half_call and partial(half_call, *args))
            result = call(*args, **options)
            pass_moment()
            return result

        return wrapped

    write = os.write
    os.write = dying(os.write, lambda file, data: write(file, data[: len(data) // 2]))
    os.fsync = dying(os.fsync)
    os.replace = dying(os.replace)
    Path.unlink = dying(Path.unlink)  # type: ignore[method-assign]
