"""Whole commands, from the shell to the last line: what whoever tries one waits for."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_rivals
import numpy as np
from bench_kit import CONSOLE, one_core, table, w1
from bench_text import BITS, words

ROUNDS = 5

VW = "import sys, vowpalwabbit; vowpalwabbit.Workspace(sys.argv[1]).finish()"


def bench_command() -> None:
    """Print seconds of commands that learn W1 from text, in turn, on one core."""
    python = bench_rivals.python()
    ours = [sys.executable, "-m", "streaml1", "learn"]
    rate = ["--lr", "0.1"]
    with one_core(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "w1.vw")
        signs, _, named = words(w1)
        lines = (f"{y} | {row}\n" for y, row in zip(signs, named, strict=True))
        path.write_text("".join(lines))
        plain = [*ours, str(path), "--l1", "1e-6", "--l2", "1e-6"]
        hashed = [*plain, "--hash-bits", str(BITS)]
        options = f"-d {path} --sgd --l1 1e-6 --l2 1e-6 --loss_function logistic -b {BITS}"
        commands = {
            "streaml1 learn w1.vw": plain,
            "... --lr 0.1": [*plain, *rate],
            f"... --hash-bits {BITS}": hashed,
            f"... --hash-bits {BITS} --lr 0.1": [*hashed, *rate],
        }
        if python is not None:
            commands["Vowpal Wabbit, started by Python"] = [python, "-c", VW, f"{options} --quiet"]
        show(_timed(commands))


def _timed(commands: dict[str, list[str]]) -> dict[str, np.ndarray]:
    """Seconds by the clock in each round, after one that fills caches."""
    # What is installed has its bytecode.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS + 1):
        for name, command in commands.items():
            begin = time.perf_counter()
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            times[name].append(time.perf_counter() - begin)
            if done.returncode:
                sys.exit(f"bench: {' '.join(command)} failed: {done.stderr}")
    return {name: np.array(seconds[1:]) for name, seconds in times.items()}


def show(times: dict[str, np.ndarray]) -> None:
    columns = ("command", "seconds", "x the first")
    made = table("a file of 100,000 lines, from the shell to the last line", *columns)
    first = next(iter(times.values()))
    for name, seconds in times.items():
        made.add_row(name, f"{np.median(seconds):.2f}", f"{np.median(seconds / first):.2f}")
    CONSOLE.print(made)
