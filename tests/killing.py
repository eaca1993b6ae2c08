"""A command that is killed a few times, started again each time, and left to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent


def killed_and_resumed(command: Sequence[str], cwd: Path, lines: Sequence[int]) -> tuple[int, str]:
    """Run `python -m streaml1 command...` until it ends by itself.

    The first runs are killed after so many lines of their report, each a little later.

    Returns
    -------
    tuple
        How many runs died of it, and what the last one printed.
    """
    killed = 0
    for number in range(len(lines) + 1):
        process = subprocess.Popen(
            [sys.executable, "-m", "streaml1", *command], cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        if number < len(lines):
            for _ in range(lines[number]):
                process.stdout.readline()
            time.sleep(0.01 * number)
            process.kill()
        out, err = process.communicate(timeout=120)
        if process.returncode == 0:
            return killed, out
        assert process.returncode == -signal.SIGKILL and number < len(lines), err
        killed += 1
    raise AssertionError(f"killed {killed} times, and no run ended")
