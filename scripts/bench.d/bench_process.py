"""What processes take: to start, for names without end, for a thousand copies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench_kit import (
    CONSOLE,
    table,
)


def bench_start() -> None:
    """Import and first prediction of a new process, with an empty and a filled cache."""
    importing = "import streaml1"
    first = "; ".join([importing, "m = streaml1.ElasticNetClassifier()"])
    predicting = first + "; m.predict_proba_one({'a': 1.0})"
    learning = predicting + "; m.learn_one({'a': 1.0}, True); m.predict_proba_one({'a': 1.0})"
    # What is installed has its bytecode.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    made = table(
        "seconds of a new process, those of the processor, and the most memory: median of 5",
        *("what", "cold cache", "processor", "warm cache", "processor", "MiB"),
    )
    with tempfile.TemporaryDirectory() as saved:
        file = f"{saved}/model"
        _taken_by(f"{learning}; m.save({file!r})", environment)
        loading = f"{importing}; streaml1.load({file!r}).predict_proba_one({{'a': 1.0}})"
        for name, text in (
            ("python -c pass", "pass"),
            ("import numpy, numba", "import numpy, numba"),
            (importing, importing),
            ("... and a first prediction", predicting),
            ("... of a model from a file", loading),
            ("... and a first example learnt", learning),
        ):
            cold: list[tuple[float, float, float]] = []
            warm: list[tuple[float, float, float]] = []
            for _ in range(5):
                with tempfile.TemporaryDirectory() as folder:
                    for times in (cold, warm):
                        times.append(_taken_by(text, environment | {"NUMBA_CACHE_DIR": folder}))
            (clock, processor, _), (warm_clock, warm_processor, memory) = (
                np.median(times, axis=0) for times in (cold, warm)
            )
            seconds = (clock, processor, warm_clock, warm_processor)
            made.add_row(name, *(f"{one:.2f}" for one in seconds), f"{memory:.0f}")
    CONSOLE.print(made)


# Not what the system counts of a process, in which the parent's is counted too.
MEMORY = "print(*(line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line))"


def _taken_by(text: str, environment: dict[str, str]) -> tuple[float, float, float]:
    """Seconds of a process by the clock and by the processor, and the most MiB it had."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", f"{text}\n{MEMORY}"], env=environment, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout as told:
        kibibytes = told.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"bench: {text!r} failed")
    seconds = time.perf_counter() - begin
    return seconds, used.ru_utime + used.ru_stime, int(kibibytes) / 1024


NEW_NAMES = """
import json, resource, sys, time
from itertools import count

def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

which, n, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if which == "streaml1":
    import streaml1
    model = streaml1.ElasticNetClassifier(l1=1e-3, lr=0.1, schedule="constant")
else:
    from river import linear_model, optim
    model = linear_model.LogisticRegression(optim.SGD(0.1), l1=1e-3)
new, state, curve = count(), 1, []
begin = memory()
for i in range(n + 1):
    if i % (n // 100) == 0:
        curve.append((i, memory()))
        if memory() > most:
            break
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    y = bool(state >> 63)
    x = {f"word {(state >> 20) % 1000 * 2 + y}": 1.0}
    for _ in range(4):
        x[f"only once {next(new)}"] = 1.0
    model.predict_proba_one(x)
    model.learn_one(x, y)
alive = sum(1 for w in model.weights.values() if w) if which == "river" else model.n_nonzero
print(json.dumps({"begin": begin, "curve": curve, "alive": alive}))
"""


def bench_memory(n: int = 10_000_000, most: int = 3 * 2**30) -> None:
    """Resident memory on a stream where four of five names never come again."""
    made = table(
        "an endless vocabulary: a fifth of 2,000 words, the rest names that come once, l1 = 1e-3",
        *("model", "examples", "names", "memory at 1%", "at the end", "non-zeros", "us/example"),
    )
    curves = {}

    def run(which: str, n: int) -> Any:
        return subprocess.run(
            [sys.executable, "-c", NEW_NAMES, which, str(n), str(most)],
            *(), check=True, capture_output=True, text=True,
        )  # fmt: skip

    # The compiler takes a hundred megabytes: not in the process that is looked at.
    run("streaml1", 1000)
    for which in ("streaml1", "river"):
        begin = time.perf_counter()
        ran = run(which, n)
        seconds = time.perf_counter() - begin
        told = json.loads(ran.stdout)
        examples, sizes = np.array(told["curve"]).T
        curves[which] = examples, sizes / 2**20
        mebibytes = [f"{size / 2**20:,.0f} MiB" for size in (sizes[1], sizes[-1])]
        made.add_row(
            *(which, f"{examples[-1]:,}", f"{4 * examples[-1]:,}", *mebibytes),
            *(f"{told['alive']:,}", f"{seconds / examples[-1] * 1e6:.1f}"),
        )
    CONSOLE.print(made)
    draw_memory(curves)


def draw_memory(curves: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for which, color in (("river", "0.55"), ("streaml1", "C0")):
        examples, sizes = curves[which]
        axes.plot(examples / 1e6, sizes, color=color, label=which)
        stopped = ", stopped" if examples[-1] < curves["streaml1"][0][-1] else ""
        axes.annotate(f" {which}: {sizes[-1]:,.0f} MiB{stopped}", (examples[-1] / 1e6, sizes[-1]),
                      ha="right" if which == "streaml1" else "left", va="bottom")  # fmt: skip
    axes.set(xlabel="million examples", ylabel="resident memory, MiB", ylim=0)
    axes.set_title("Four of five names never come again, l1 = 1e-3", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    Path("out").mkdir(exist_ok=True)
    figure.savefig("out/memory.png", dpi=130)
    CONSOLE.print("out/memory.png")


def bench_copies() -> None:
    """A thousand copies of a model that has seen a million features and kept a thousand."""
    made = table(
        "1,000 copies of a model with 10^6 features seen and 1,000 alive",
        *("names", "copied by", "MB", "and after a prediction each", "pickle, kB", "file, kB"),
    )
    for kind in ("columns", "words"):
        for how in ("deepcopy", "pickle"):
            ran = subprocess.run(
                [sys.executable, "-c", COPIES, kind, how],
                *(), check=True, capture_output=True, text=True,
            )  # fmt: skip
            made.add_row(kind, how, *ran.stdout.split())
    CONSOLE.print(made)


COPIES = """
import copy, os, pickle, resource, sys, tempfile
import numpy as np
from scipy.sparse import csr_matrix
import streaml1

def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6

kind, how = sys.argv[1:]
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
one = pickle.dumps(model)
if how == "deepcopy":
    copies = [copy.deepcopy(model) for _ in range(1000)]
else:
    copies = [pickle.loads(pickle.dumps(model)) for _ in range(1000)]
made = memory() - before
expected = model.predict_proba_one(x)
assert all(one.predict_proba_one(x) == expected for one in copies)
used = memory() - before
with tempfile.TemporaryDirectory() as folder:
    model.save(folder + "/m")
    print(f"{made:.0f} {used:.0f} {len(one) / 1e3:.0f} {os.path.getsize(folder + '/m') / 1e3:.0f}")
"""
