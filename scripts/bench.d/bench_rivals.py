"""Packages to compare with, at pinned versions in a virtual environment, `.venv-rivals`.

`VW_PYTHON` selects another interpreter that has them. The tables omit packages that are missing.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
DIRECTORY = ROOT / ".venv-rivals"
PINS = ("river==0.26.1", "vowpalwabbit==9.11.9", "scikit-learn==1.9.1", "polars==2.1.0",
        "pyarrow==26.0.1", "numpy==2.4.6", "scipy==1.17.1")  # fmt: skip


@functools.cache
def python() -> str | None:
    """Return the interpreter that has the rivals; None, after a message, if there is none."""
    if "VW_PYTHON" in os.environ:
        return os.environ["VW_PYTHON"]
    interpreter, stamp_file = DIRECTORY / "bin" / "python", DIRECTORY / "installed"
    stamp = "\n".join([sys.version, *PINS])
    if not interpreter.exists() or not stamp_file.exists() or stamp_file.read_text() != stamp:
        log_line(f"creating {DIRECTORY.name} (once; takes a minute or two)")
        try:
            venv.create(DIRECTORY, with_pip=True, clear=True)
            subprocess.run(
                [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                 *PINS],
                *(), check=True, capture_output=True, text=True,
            )  # fmt: skip
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", None) or str(error)
            log_line(f"cannot install the rivals: {reason.strip().splitlines()[-1]}")
            return None
        stamp_file.write_text(stamp)
    os.environ["VW_PYTHON"] = str(interpreter)
    return str(interpreter)


_VW_DRIVER = """
import sys, time
import vowpalwabbit
begin = time.process_time()
vowpalwabbit.Workspace(sys.argv[1]).finish()
print(time.process_time() - begin)
"""


def vowpal_wabbit_seconds(options: str) -> float:
    """Return the CPU seconds of Vowpal Wabbit's command line driver; NaN if it is not installed."""
    interpreter = os.environ.get("VW_PYTHON", sys.executable)
    process = subprocess.run(
        [interpreter, "-c", _VW_DRIVER, f"{options} --quiet"], capture_output=True, text=True
    )
    return float(process.stdout.split()[-1]) if process.returncode == 0 else float("nan")


def log_line(text: str) -> None:
    print(f"streaml1: {text}", file=sys.stderr)


class Rivals:
    """A worker process in the rivals' environment, which runs one command at a time."""

    def __init__(self, directory: Path) -> None:
        interpreter = python()
        self._process: Any = None
        if interpreter is not None:
            self._process = subprocess.Popen(
                [interpreter, Path(__file__).with_name("rival_worker.py"), directory],
                *(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip

    def ask(self, command: str, *arguments: Any) -> Any:
        """Return the result of a command; None if the rival is missing or fails."""
        if self._process is None:
            return None
        self._process.stdin.write(json.dumps([command, *arguments]) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):  # other lines are output of the packages themselves
                return json.loads(line).get("result")
        self._process = None
        return None

    def seconds(self, command: str, *arguments: Any) -> float:
        """Return the result of a command as seconds; NaN if there is none."""
        result = self.ask(command, *arguments)
        return float("nan") if result is None else float(result)

    def close(self) -> None:
        """Stop the worker."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait(timeout=30)
