"""The rivals, pinned by version in an environment of their own, `.venv-rivals`.

`VW_PYTHON` names another Python that has them; what is not there is left out of the tables.
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
FOLDER = ROOT / ".venv-rivals"
PINS = ("river==0.26.1", "vowpalwabbit==9.11.9", "scikit-learn==1.9.1", "polars==2.1.0",
        "pyarrow==26.0.1", "numpy==2.4.6", "scipy==1.17.1")  # fmt: skip


@functools.cache
def python() -> str | None:
    """The Python that has the rivals; None, and a line that says why, where there is none."""
    if "VW_PYTHON" in os.environ:
        return os.environ["VW_PYTHON"]
    made, mark = FOLDER / "bin" / "python", FOLDER / "installed"
    stamp = "\n".join([sys.version, *PINS])
    if not made.exists() or not mark.exists() or mark.read_text() != stamp:
        say(f"making {FOLDER.name} (once; a minute or two)")
        try:
            venv.create(FOLDER, with_pip=True, clear=True)
            subprocess.run(
                [made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PINS],
                *(), check=True, capture_output=True, text=True,
            )  # fmt: skip
        except (OSError, subprocess.CalledProcessError) as error:
            told = getattr(error, "stderr", None) or str(error)
            say(f"no rivals to compare with: {told.strip().splitlines()[-1]}")
            return None
        mark.write_text(stamp)
    os.environ["VW_PYTHON"] = str(made)
    return str(made)


def say(text: str) -> None:
    print(f"streaml1: {text}", file=sys.stderr)


class Rivals:
    """A process with the rivals, which answers one question at a time."""

    def __init__(self, folder: Path) -> None:
        found = python()
        self._process: Any = None
        if found is not None:
            self._process = subprocess.Popen(
                [found, Path(__file__).with_name("bench_rival.py"), folder],
                *(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip

    def ask(self, what: str, *arguments: Any) -> Any:
        """The answer; None where the rival is not there, or cannot."""
        if self._process is None:
            return None
        self._process.stdin.write(json.dumps([what, *arguments]) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):  # some of them print
                return json.loads(line).get("is")
        self._process = None
        return None

    def seconds(self, what: str, *arguments: Any) -> float:
        """The answer as seconds; NaN where there is none."""
        told = self.ask(what, *arguments)
        return float("nan") if told is None else float(told)

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait(timeout=30)
