"""Whole commands, from process start to the last line of output."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_rivals
import numpy as np
from bench_kit import CONSOLE, new_table, single_core
from bench_process import INSTALLED_ENVIRONMENT
from bench_text import BITS, w1_texts

ROUNDS = 5

VW = "import sys, vowpalwabbit; vowpalwabbit.Workspace(sys.argv[1]).finish()"


def bench_command() -> None:
    """Print the seconds of commands that learn W1 from text, interleaved, on one core."""
    python = bench_rivals.python()
    ours = [sys.executable, "-m", "streaml1", "learn"]
    rate = ["--lr", "0.1"]
    with single_core(), tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "w1.vw")
        signs, _, named_rows = w1_texts()
        lines = (f"{y} | {row}\n" for y, row in zip(signs, named_rows, strict=True))
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
            commands["Vowpal Wabbit, started from Python"] = [
                python,
                "-c",
                VW,
                f"{options} --quiet",
            ]
        print_table(_timed(commands))


def _timed(commands: dict[str, list[str]]) -> dict[str, np.ndarray]:
    """Return the wall time of each command in each round, after a round that fills the caches."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS + 1):
        for name, command in commands.items():
            begin = time.perf_counter()
            process = subprocess.run(
                command, env=INSTALLED_ENVIRONMENT, capture_output=True, text=True
            )
            times[name].append(time.perf_counter() - begin)
            if process.returncode:
                sys.exit(f"bench: {' '.join(command)} failed: {process.stderr}")
    return {name: np.array(seconds[1:]) for name, seconds in times.items()}


def print_table(times: dict[str, np.ndarray]) -> None:
    columns = ("command", "seconds", "x first")
    results = new_table("a file of 100,000 lines, from process start to the last line", *columns)
    first = next(iter(times.values()))
    for name, seconds in times.items():
        results.add_row(name, f"{np.median(seconds):.2f}", f"{np.median(seconds / first):.2f}")
    CONSOLE.print(results)
