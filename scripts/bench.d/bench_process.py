"""Costs of processes: start-up time, memory of an endless vocabulary, memory of 1,000 copies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench_kit import (
    CONSOLE,
    new_table,
)

# Without PYTHONDONTWRITEBYTECODE: an installed package has its bytecode.
INSTALLED_ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def bench_start() -> None:
    """Measure the first results of new processes, from a checkout and with prebuilt kernels."""
    importing = "import streaml1"
    first = "; ".join([importing, "m = streaml1.ElasticNetClassifier()"])
    predicting = first + "; m.predict_proba_one({'a': 1.0})"
    x = "{'site': 'news', 'ad': 'shoes', 'price': 1.5}"
    learning = predicting + "; m.learn_one({'a': 1.0}, True); m.predict_proba_one({'a': 1.0})"
    results = new_table(
        "wall time, CPU time and peak memory of a new process: median of 3",
        *("process", "empty cache", "CPU", "as installed", "CPU", "warm cache", "CPU", "MiB"),
    )
    with tempfile.TemporaryDirectory() as scratch:
        installed = install_with_kernels(Path(scratch))
        clicks, file = f"{scratch}/clicks.csv", f"{scratch}/model"
        Path(clicks).write_text("y,site,price\n" + "1,news,1.5\n0,mail,2\n" * 50)
        measure_process(
            f"{first}; x = {x}; m.learn_one(x, True); m.save({file!r})", INSTALLED_ENVIRONMENT
        )
        loading = f"{importing}; streaml1.load({file!r}).predict_proba_one({x})"
        for name, text in (
            ("python -c pass", "pass"),
            ("import numpy, numba", "import numpy, numba"),
            (importing, importing),
            ("... and a first prediction", predicting),
            ("... of a model from a file", loading),
            ("... and a first example learnt", learning),
            ("streaml1 learn FILE, 100 lines", COMMAND.format(clicks)),
        ):
            rounds = [measure_start(text, installed) for _ in range(3)]
            empty, prebuilt, warm = np.median(rounds, axis=0)
            seconds = (*empty[:2], *prebuilt[:2], *warm[:2])
            memory = "" if text.startswith("\nimport subprocess") else f"{warm[2]:.0f}"
            results.add_row(name, *(f"{value:.2f}" for value in seconds), memory)
    CONSOLE.print(results)


# In a process of its own, since the command ends its process.
COMMAND = """
import subprocess, sys
command = [sys.executable, "-m", "streaml1", "learn", {!r}, "--target", "y"]
subprocess.run(command, check=True, capture_output=True)
"""


def install_with_kernels(scratch: Path) -> Path:
    """Return a directory with a copy of the package and kernels for this processor.

    As in a wheel that was built here (`hatch_build.py`).
    """
    installed = scratch / "site"
    ignored = shutil.ignore_patterns("__pycache__", "prebuilt")
    shutil.copytree("streaml1", installed / "streaml1", ignore=ignored)
    packing = "from streaml1.cli.warm import compile_common; from pathlib import Path"
    kernels = installed / "streaml1" / "prebuilt" / "native"
    environment = INSTALLED_ENVIRONMENT | {"NUMBA_CACHE_DIR": str(scratch / "cache")}
    measure_process(f"{packing}; compile_common(Path({str(kernels)!r}))", environment, installed)
    return installed


def measure_start(text: str, installed: Path) -> list[tuple[float, float, float]]:
    """Measure a program with an empty cache, as installed with an empty cache, and a warm cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = INSTALLED_ENVIRONMENT | {"NUMBA_CACHE_DIR": f"{cache}/a"}
        empty = measure_process(text, environment)
        other = INSTALLED_ENVIRONMENT | {"NUMBA_CACHE_DIR": f"{cache}/b"}
        return [empty, measure_process(text, other, installed), measure_process(text, environment)]


# VmHWM, because ru_maxrss of a child also includes its parent's pages from before exec.
MEMORY = "print(*(line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line))"


def measure_process(
    text: str, environment: dict[str, str], directory: Path | None = None
) -> tuple[float, float, float]:
    """Run a program in a directory with modules; return its wall and CPU time and peak memory.

    In seconds and in MiB.
    """
    begin = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-c", f"{text}\n{MEMORY}"],
        *(), env=environment, cwd=directory, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    with child.stdout as output:
        kibibytes = output.read().split()[-1]
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"bench: {text!r} failed")
    seconds = time.perf_counter() - begin
    return seconds, usage.ru_utime + usage.ru_stime, int(kibibytes) / 1024


NEW_NAMES = """
import json, resource, sys, time
from itertools import count

def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

package, n, max_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if package.startswith("streaml1"):
    import streaml1
    rate = {} if "default" in package else {"lr": 0.1, "schedule": "constant"}
    model = streaml1.ElasticNetClassifier(l1=1e-3, **rate)
else:
    from river import linear_model, optim
    model = linear_model.LogisticRegression(optim.SGD(0.1), l1=1e-3)
new, state, curve = count(), 1, []
begin = memory()
for i in range(n + 1):
    if i % (n // 100) == 0:
        curve.append((i, memory()))
        if memory() > max_bytes:
            break
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    y = bool(state >> 63)
    x = {f"word {(state >> 20) % 1000 * 2 + y}": 1.0}
    for _ in range(4):
        x[f"only once {next(new)}"] = 1.0
    model.predict_proba_one(x)
    model.learn_one(x, y)
alive = sum(1 for w in model.weights.values() if w) if package == "river" else model.n_nonzero
print(json.dumps({"begin": begin, "curve": curve, "alive": alive}))
"""


MEMORY_COLORS = {"streaml1": "C0", "streaml1, the default": "C1", "river": "0.55"}
"""Color of each curve: a fixed rate, `lr="auto"`, and river."""


def bench_memory(n: int = 10_000_000, max_bytes: int = 3 * 2**30) -> None:
    """Measure resident memory on a stream where four of five features occur only once."""
    results = new_table(
        "an endless vocabulary: one of 2,000 words and four unique features, l1 = 1e-3",
        *("model", "examples", "features", "memory at 1%", "at the end", "non-zeros", "us/example"),
    )
    curves = {}

    def run(package: str, n: int) -> Any:
        return subprocess.run(
            [sys.executable, "-c", NEW_NAMES, package, str(n), str(max_bytes)],
            *(), check=True, capture_output=True, text=True,
        )  # fmt: skip

    # Compile in other processes: the compiler takes a hundred megabytes.
    for package in list(MEMORY_COLORS)[:2]:
        run(package, 20_000)
    for package in MEMORY_COLORS:
        begin = time.perf_counter()
        finished = run(package, n)
        seconds = time.perf_counter() - begin
        output = json.loads(finished.stdout)
        examples, sizes = np.array(output["curve"]).T
        curves[package] = examples, sizes / 2**20
        mebibytes = [f"{size / 2**20:,.0f} MiB" for size in (sizes[1], sizes[-1])]
        results.add_row(
            *(package, f"{examples[-1]:,}", f"{4 * examples[-1]:,}", *mebibytes),
            *(f"{output['alive']:,}", f"{seconds / examples[-1] * 1e6:.1f}"),
        )
    CONSOLE.print(results)
    draw_memory(curves)


def draw_memory(curves: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    longest = max(examples[-1] for examples, _ in curves.values())
    last = [sizes[-1] for examples, sizes in curves.values() if examples[-1] == longest]
    for package, color in MEMORY_COLORS.items():
        examples, sizes = curves[package]
        axes.plot(examples / 1e6, sizes, color=color, label=package)
        stopped = ", stopped" if examples[-1] < longest else ""
        # One label above the other: two of the curves end close to each other.
        row = sorted(last).index(sizes[-1]) if not stopped else 0
        axes.annotate(
            f" {package}: {sizes[-1]:,.0f} MiB{stopped}",
            (examples[-1] / 1e6, sizes[-1] if stopped else max(last)),
            (0, 3 + 13 * row), textcoords="offset points", color=color,
            ha="left" if stopped else "right", va="bottom",
        )  # fmt: skip
    axes.set(xlabel="million examples", ylabel="resident memory, MiB", ylim=0)
    axes.set_title("Four of five features occur only once, l1 = 1e-3", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    Path("out").mkdir(exist_ok=True)
    figure.savefig("out/memory.png", dpi=130)
    CONSOLE.print("out/memory.png")


def bench_copies() -> None:
    """Measure 1,000 copies of a model with a million features seen and a thousand non-zero."""
    results = new_table(
        "1,000 copies of a model with 10^6 features seen and 1,000 non-zero weights",
        *("features", "copied by", "MB", "after one prediction each", "pickle, kB", "file, kB"),
    )
    for kind in ("columns", "words"):
        for method in ("deepcopy", "pickle"):
            finished = subprocess.run(
                [sys.executable, "-c", COPIES, kind, method],
                *(), check=True, capture_output=True, text=True,
            )  # fmt: skip
            results.add_row(kind, method, *finished.stdout.split())
    CONSOLE.print(results)


COPIES = """
import copy, os, pickle, resource, sys, tempfile
import numpy as np
from scipy.sparse import csr_matrix
import streaml1

def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6

kind, method = sys.argv[1:]
model = streaml1.ElasticNetClassifier(l1=1e-4, lr=0.1, schedule="constant")
rng = np.random.default_rng(0)
n, d = 10_000, 1_000_000
if kind == "columns":
    X = csr_matrix((np.full(n * 100, 1e-4), rng.permutation(d), np.arange(n + 1) * 100), (n, d))
    model.learn_many(X, rng.random(n) < 0.5)
else:
    for i in range(n):
        model.learn_one({f"word {i * 100 + j}": 1e-4 for j in range(100)}, i % 2 == 0)
alive = rng.choice(d, 1000, replace=False).tolist()
names = alive if kind == "columns" else [f"word {j}" for j in alive]
model.learn_one(dict.fromkeys(names, 1.0), True)
assert model.n_nonzero == 1000, model.n_nonzero
x = dict.fromkeys(names[:50], 1.0)
model.predict_one(x)
before = memory()
pickled = pickle.dumps(model)
if method == "deepcopy":
    copies = [copy.deepcopy(model) for _ in range(1000)]
else:
    copies = [pickle.loads(pickle.dumps(model)) for _ in range(1000)]
copied = memory() - before
expected = model.predict_proba_one(x)
assert all(copy.predict_proba_one(x) == expected for copy in copies)
predicted = memory() - before
with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "model")
    model.save(path)
    sizes = len(pickled) / 1e3, os.path.getsize(path) / 1e3
    print(f"{copied:.0f} {predicted:.0f} {sizes[0]:.0f} {sizes[1]:.0f}")
"""
