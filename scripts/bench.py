"""Timings of the elastic net, as ratios to a bare unpenalised SGD kernel and to river.

What is compared runs in turn, round after round, in one process; a ratio is formed within each
round, and its median over the rounds is printed. Times are those of the thread, not of the wall.
"""

from __future__ import annotations

import json
import math
import os
import platform
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import numpy as np
from rich.console import Console
from rich.table import Table
from river import linear_model, optim
from scipy.sparse import csr_matrix

import streaml1

CONSOLE = Console(width=110)
SEED = 2015


@numba.njit(error_model="numpy", nogil=True)
def bare_sgd(w, ids, values, indptr, y, eta, p):  # type: ignore[no-untyped-def]
    """Logistic SGD with no penalty and no intercept: what the rows themselves cost."""
    one = np.uint64(1)
    for i in range(np.uint64(len(y))):
        a = 0.0
        for k in range(indptr[i], indptr[i + one]):
            a += w[ids[k]] * values[k]
        p[i] = 1.0 / (1.0 + math.exp(-a))
        step = eta * (p[i] - y[i])
        for k in range(indptr[i], indptr[i + one]):
            w[ids[k]] -= step * values[k]


def zipf(n: int, d: int, rng: Any, s: float = 1.1) -> Any:
    """Draw n ranks below d with probability proportional to 1 / rank**s."""
    cumulative = np.cumsum(np.arange(1, d + 1) ** -s)
    return np.searchsorted(cumulative / cumulative[-1], rng.random(n))


def labels(X: Any, scale: float, shift: float, rng: Any) -> Any:
    """Labels of a logistic model with 1,000 weights on frequent features."""
    counts = np.bincount(X.indices, minlength=X.shape[1])
    chosen = rng.choice(np.argsort(-counts)[:5000], 1000, replace=False)
    true = np.zeros(X.shape[1])
    true[chosen] = rng.normal(0.0, scale, 1000)
    return rng.random(X.shape[0]) < 1.0 / (1.0 + np.exp(-(X @ true + shift)))


def w1(n: int = 100_000, d: int = 260_941) -> tuple[Any, Any]:
    """Abstracts: n rows of about 88.5 distinct non-zeros, Zipf over d, l2-normalised."""
    rng = np.random.default_rng(SEED)
    drawn = np.clip(rng.gamma(3.0, 44.0, n).astype(int), 5, 600)
    ids = rng.permutation(d)[zipf(int(drawn.sum()), d, rng)]
    X = csr_matrix((np.ones(len(ids)), (np.repeat(np.arange(n), drawn), ids)), shape=(n, d))
    X.sum_duplicates()
    X.data = 1.0 + np.log(X.data)
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(norms, np.diff(X.indptr))
    return X, labels(X, 12.0, 0.0, rng)


def clicks(n: int) -> tuple[Any, Any]:
    """Draw the values of 39 categories, of cardinalities 10 to 10**6, and labels."""
    rng = np.random.default_rng(SEED)
    sizes = np.geomspace(10, 1e6, 39).astype(int)
    return np.stack([zipf(n, d, rng) for d in sizes], axis=1), rng.random(n) < 0.05


def w2(n: int = 200_000) -> tuple[Any, Any]:
    """Clicks: n rows of 39 categories as the ids of those met."""
    rows, _ = clicks(n)
    starts = np.concatenate([[0], np.cumsum(rows.max(axis=0) + 1)])[:-1]
    _, ids = np.unique(rows + starts, return_inverse=True)
    ids = np.sort(ids.reshape(n, 39), axis=1)
    X = csr_matrix(
        (np.ones(n * 39), ids.ravel(), np.arange(n + 1) * 39), shape=(n, int(ids.max()) + 1)
    )
    return X, labels(X, 0.5, -3.5, np.random.default_rng(SEED))


def in_turn(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Seconds of each run in each round, the first round (compilation, cold caches) left out."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            begin = time.thread_time()
            run()
            seconds[name].append(time.thread_time() - begin)
    return {name: np.array(times[1:]) for name, times in seconds.items()}


def table(title: str, *columns: str) -> Table:
    CONSOLE.print(f"\n{title}")
    made = Table()
    for k, column in enumerate(columns):
        made.add_column(column, justify="left" if k == 0 else "right")
    return made


def bare_run(X: Any, y: Any, eta: float) -> Callable[[], Any]:
    ids, indptr = X.indices.view(np.uint32), X.indptr.astype(np.uint64)
    p, target = np.empty(X.shape[0]), y.astype(float)
    return lambda: bare_sgd(np.zeros(X.shape[1]), ids, X.data, indptr, target, eta, p)


def model(eta: float, **options: Any) -> streaml1.ElasticNetClassifier:
    settings: dict[str, Any] = {"l1": 1e-6, "l2": 1e-6, "schedule": "constant"} | options
    return streaml1.ElasticNetClassifier(lr=eta, **settings)


def in_ball(radius: float, eta: float) -> streaml1.L1BallClassifier:
    return streaml1.L1BallClassifier(radius=radius, lr=eta, schedule="constant")


def dense_step_seconds(X: Any, y: Any, eta: float, n: int = 200) -> float:
    """Seconds a row of the dense FoBoS update, numpy in place."""
    w, size = np.zeros(X.shape[1]), np.empty(X.shape[1])
    begin = time.thread_time()
    for i in range(n):
        lo, hi = X.indptr[i], X.indptr[i + 1]
        ids, values = X.indices[lo:hi], X.data[lo:hi]
        step = eta * (1.0 / (1.0 + math.exp(-(w[ids] @ values))) - y[i])
        w[ids] -= step * values
        np.abs(w, out=size)
        size -= eta * 1e-6
        np.maximum(size, 0.0, out=size)
        size /= 1.0 + eta * 1e-6
        np.copysign(size, w, out=w)
    return (time.thread_time() - begin) / n


def bench_csr() -> None:
    """A progressive pass over rows in memory."""
    made = table(
        "a progressive pass over CSR rows, l1 = l2 = 1e-6",
        *("workload", "rows", "non-zeros", "bare SGD ns/nnz", "elastic net ns/nnz", "ratio"),
        *("dense numpy / elastic net",),
    )
    for name, (X, y), eta in (("W1", w1(), 3.0), ("W2", w2(), 0.02)):
        runs = {
            "bare": bare_run(X, y, eta),
            "net": lambda X=X, y=y, eta=eta: model(eta).progressive_many(X, y),  # type: ignore
        }
        seconds = in_turn(runs, 15)
        ratio = np.median(seconds["net"] / seconds["bare"])
        dense = dense_step_seconds(X, y, eta)
        row = np.median(seconds["net"]) / X.shape[0]
        made.add_row(
            *(name, f"{X.shape[0]:,}", f"{X.nnz / X.shape[0]:.1f}"),
            f"{np.median(seconds['bare']) / X.nnz * 1e9:.2f}",
            f"{np.median(seconds['net']) / X.nnz * 1e9:.2f}",
            *(f"{ratio:.2f}", f"{dense / row:,.0f}"),
        )
    CONSOLE.print(made)


def bench_models() -> None:
    """A progressive pass over the rows of W1, each model as a ratio to bare SGD."""
    X, y = w1()
    net, truncated = streaml1.ElasticNetClassifier, streaml1.TruncatedGradientClassifier
    fobos = streaml1.FOBOSClassifier
    ball = streaml1.L1BallClassifier
    both, constant = {"l1": 1e-6, "l2": 1e-6, "lr": 3.0}, {"schedule": "constant"}
    learners: dict[str, Callable[[], Any]] = {
        "elastic net": lambda: net(**both, **constant),
        "  averaged": lambda: net(**both, **constant, average=True),
        '  lr="auto"': lambda: net(l1=1e-6, l2=1e-6, lr="auto"),
        "  explicit stamps, constant rate": lambda: net(**both, **constant, stamps="explicit"),
        "  explicit stamps, falling rate": lambda: net(**both, stamps="explicit"),
        "truncated gradient": lambda: truncated(gravity=1e-6, lr=3.0, **constant),
        "  with a threshold": lambda: truncated(gravity=1e-6, lr=3.0, threshold=1.0, **constant),
        "  averaged, no threshold": lambda: truncated(
            gravity=1e-6, lr=3.0, **constant, average=True
        ),
        "FTRL-Proximal": lambda: streaml1.FTRLClassifier(alpha=3.0, l1=0.1),
        "l1 ball, radius 1,000": lambda: ball(radius=1e3, lr=3.0, **constant),
        "  by the tree": lambda: ball(radius=1e3, lr=3.0, index="tree", **constant),
        "Pegasos": lambda: streaml1.PegasosClassifier(l2=1e-4),
        "  without its projection": lambda: streaml1.PegasosClassifier(l2=1e-4, project=False),
        "  averaged, projected": lambda: streaml1.PegasosClassifier(l2=1e-4, average=True),
        "FoBoS, l2 norm of all weights": lambda: fobos(lr=3.0, **constant),
        "  l-infinity norm": lambda: fobos(norm="linf", lr=3.0, **constant),
        "  l-infinity norm, 0.1": lambda: fobos(norm="linf", strength=0.1, lr=3.0, **constant),
        "SMIDAS": lambda: streaml1.SMIDASClassifier(l1=1e-5, lr=0.3, **constant),
        "  with p = 4": lambda: streaml1.SMIDASClassifier(l1=1e-5, p=4, lr=0.3, **constant),
        "EG+-": lambda: streaml1.EGClassifier(lr=0.3, **constant),
        "EG": lambda: streaml1.EGClassifier(lr=0.3, nonnegative=True, **constant),
    }
    runs = {"bare": bare_run(X, y, 3.0)}
    for name, make in learners.items():
        runs[name] = lambda make=make: make().progressive_many(X, y)  # type: ignore
    seconds = in_turn(runs, 15)
    made = table(f"W1: {X.shape[0]:,} rows, {X.nnz:,} non-zeros", "model", "ns/nnz", "ratio")
    for name, times in seconds.items():
        ratio = np.median(times / seconds["bare"])
        made.add_row(name, f"{np.median(times) / X.nnz * 1e9:.2f}", f"{ratio:.2f}")
    CONSOLE.print(made)


def bench_ball() -> None:
    """A row of W1 in a ball that keeps 100,000 weights; `demos/ball_sizes.py` has other sizes."""
    demo = runpy.run_path(str(Path(__file__).parent.parent / "demos" / "ball_sizes.py"))
    X, y = w1()
    line = demo["measure"](100_000, X, y.astype(float))
    bare, linear, lean = (line.us[name] for name in ("plain", "linear", "lean linear"))
    made = table(
        f"W1 in the l1 ball: {line.active:,} weights are not zero",
        *("", "us/row", "bare SGD", "linear-time projection /", "the same, lean /"),
    )
    for name, us in line.us.items():
        made.add_row(
            *(name, f"{us:,.2f}", f"{us / bare:,.1f}", f"{linear / us:,.1f}", f"{lean / us:,.1f}")
        )
    CONSOLE.print(made)


def beside_bare(kept: Any, X: Any, y: Any) -> tuple[float, float, float]:
    """Nanoseconds a row of bare SGD and of a model that goes on and on, and their ratio."""
    kept.progressive_many(X, y)
    runs = {"bare": bare_run(X, y, 0.02), "model": lambda: kept.progressive_many(X, y)}
    seconds = in_turn(runs, 7)
    bare, its = (float(np.median(took)) / X.shape[0] * 1e9 for took in seconds.values())
    return bare, its, float(np.median(seconds["model"] / seconds["bare"]))


def bench_flat() -> None:
    """The cost of a row as the dimension and the time that has passed grow."""
    made = table("40 non-zeros a row, drawn evenly", "d", "bare ns/row", "net ns/row", "ratio")
    for d in (10**4, 10**5, 10**6, 10**7):
        rng = np.random.default_rng(SEED)
        ids = np.sort(rng.integers(0, d, (20_000, 40)), axis=1)
        X = csr_matrix((np.ones(ids.size), ids.ravel(), np.arange(20_001) * 40), (20_000, d))
        X.sum_duplicates()
        y = rng.random(20_000) < 0.5
        bare, net, ratio = beside_bare(model(0.02), X, y)
        made.add_row(f"{d:,}", f"{bare:.0f}", f"{net:.0f}", f"{ratio:.2f}")
    CONSOLE.print(made)

    # Which weights are in the ball depends on the rows, so here they are the same for each d.
    title = "l1 ball of radius 30: the same 10,000 features, spread evenly over d slots in use"
    made = table(title, "d", "bare ns/row", "ball ns/row", "ratio", "non-zeros")
    rng = np.random.default_rng(SEED)
    ids = np.sort(np.stack([rng.choice(10**4, 40, replace=False) for _ in range(20_000)]), axis=1)
    y = rng.random(20_000) < 0.5
    for d in (10**4, 10**5, 10**6, 10**7):
        spread = (ids * (d // 10**4)).ravel()
        X = csr_matrix((np.ones(ids.size), spread, np.arange(20_001) * 40), (20_000, d))
        kept = in_ball(30.0, 0.02)
        kept.learn_many(csr_matrix((np.full(d, 1e-9), np.arange(d), [0, d]), (1, d)), [True])
        bare, ball, ratio = beside_bare(kept, X, y)
        made.add_row(f"{d:,}", f"{bare:.0f}", f"{ball:.0f}", f"{ratio:.2f}", f"{kept.n_nonzero:,}")
    CONSOLE.print(made)

    columns = "t", "net ns/row", "ball ns/row", "l-infinity ns/row"
    made = table("the same 1,000 rows again and again", *columns)
    X, y = w1(1000)
    linf = streaml1.FOBOSClassifier(norm="linf", lr=3.0, schedule="constant")
    models, t = (model(3.0, l1=1e-4, l2=1e-4), in_ball(1e2, 3.0), linf), 0
    for reach in (10**3, 10**4, 10**5, 10**6, 10**7):
        times: list[list[float]] = [[] for _ in models]
        while t < reach:
            for kept, took in zip(models, times, strict=True):
                begin = time.thread_time()
                kept.progressive_many(X, y)
                took.append((time.thread_time() - begin) / 1000)
            t += 1000
        made.add_row(f"{t:,}", *(f"{np.median(took[-100:]) * 1e9:.0f}" for took in times))
    CONSOLE.print(made)


def bench_dict() -> None:
    """predict_proba_one + learn_one on dicts, beside river's own."""
    X, y = w1(20_000)
    rng = np.random.default_rng(SEED)
    letters = rng.integers(97, 123, (X.shape[1], 6), dtype=np.uint8)
    words = [f"{bytes(row).decode()}{k % 97}" for k, row in enumerate(letters)]
    xs = []
    for i in range(X.shape[0]):
        lo, hi = X.indptr[i], X.indptr[i + 1]
        names = ["".join(words[j]) for j in X.indices[lo:hi]]
        xs.append(dict(zip(names, X.data[lo:hi].tolist(), strict=True)))
    beside_river("dicts of W1: 88 words", xs, xs, y.tolist(), 3.0)

    rows, clicked = clicks(20_000)
    texts = [{f"C{k}": f"{v:x}" for k, v in enumerate(row)} for row in rows.tolist()]
    joined = [{f"{name}={v}": 1.0 for name, v in x.items()} for x in texts]
    beside_river(
        "dicts of W2: 39 categories (strings; for river names joined beforehand)",
        *(texts, joined, clicked.tolist(), 0.02),
    )


def beside_river(
    title: str, ours: list[Any], theirs: list[Any], ys: list[bool], eta: float
) -> None:
    """A table of streaml1 on some dicts, and river on the same or others."""
    learners: dict[str, Any] = {
        "streaml1, l1 = l2 = 1e-6": model(eta),
        "river, no penalty": linear_model.LogisticRegression(optim.SGD(eta)),
        "river, l1 = 1e-6": linear_model.LogisticRegression(optim.SGD(eta), l1=1e-6),
    }
    compiled = model(eta)
    for _ in range(2):
        compiled.predict_proba_one(ours[0])
        compiled.learn_one(ours[0], True)
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    for lo in range(0, len(ours), 500):
        for name, one in learners.items():
            xs = ours if name.startswith("streaml1") else theirs
            begin = time.perf_counter()
            for x, label in zip(xs[lo : lo + 500], ys[lo : lo + 500], strict=True):
                one.predict_proba_one(x)
                one.learn_one(x, label)
            seconds[name].append((time.perf_counter() - begin) / 500)
    made = table(f"predict_proba_one + learn_one, {title}", "model", "us/example", "x streaml1")
    base = np.array(seconds["streaml1, l1 = l2 = 1e-6"])
    for name, times in seconds.items():
        ratio = np.median(np.array(times) / base)
        made.add_row(name, f"{np.median(times) * 1e6:.1f}", f"{ratio:.2f}")
    CONSOLE.print(made)


def bench_start() -> None:
    """Import and first prediction of a new process, with an empty and a filled cache."""
    importing = "import streaml1"
    first = "; ".join([importing, "m = streaml1.ElasticNetClassifier()"])
    predicting = first + "; m.predict_proba_one({'a': 1.0})"
    learning = predicting + "; m.learn_one({'a': 1.0}, True); m.predict_proba_one({'a': 1.0})"
    made = table("seconds of a new process, median of 5", "what", "cold cache", "warm cache")
    for name, text in (
        ("python -c pass", "pass"),
        (importing, importing),
        ("... and a first prediction", predicting),
        ("... and a first example learnt", learning),
    ):
        cold: list[float] = []
        warm: list[float] = []
        for _ in range(5):
            with tempfile.TemporaryDirectory() as folder:
                environment = os.environ | {"NUMBA_CACHE_DIR": folder}
                for times in (cold, warm):
                    begin = time.perf_counter()
                    subprocess.run([sys.executable, "-c", text], env=environment, check=True)
                    times.append(time.perf_counter() - begin)
        made.add_row(name, f"{np.median(cold):.2f}", f"{np.median(warm):.2f}")
    CONSOLE.print(made)


def smidas(eta: float, **options: Any) -> streaml1.SMIDASClassifier:
    return streaml1.SMIDASClassifier(lr=eta, schedule="constant", **options)


def eg(eta: float, **options: Any) -> streaml1.EGClassifier:
    return streaml1.EGClassifier(lr=eta, schedule="constant", n_features=2**24, **options)


def bench_mirror() -> None:
    """SMIDAS and EG on rows in memory, as penalty, norm, dimension and time grow."""
    mirror_options()
    mirror_dimension()
    mirror_time()


def mirror_options() -> None:
    X, y = w1()
    makes: dict[str, Callable[[], Any]] = {}
    for l1 in (1e-6, 1e-5, 1e-4):
        makes[f"SMIDAS, l1 = {l1:g}"] = lambda l1=l1: smidas(0.3, l1=l1)  # type: ignore
    for p in (2, 2.3, 3, 4, 10, 100):
        makes[f"SMIDAS, l1 = 1e-5, p = {p}"] = lambda p=p: smidas(0.3, l1=1e-5, p=p)  # type: ignore
    makes["EG+-"] = lambda: eg(0.3)
    makes["EG"] = lambda: eg(0.3, nonnegative=True)
    runs: dict[str, Callable[[], Any]] = {"bare SGD": bare_run(X, y, 0.3)}
    for name, make in makes.items():
        runs[name] = lambda make=make: make().progressive_many(X, y)  # type: ignore
    seconds = in_turn(runs, 5)
    made = table("a progressive pass over W1", "model", "ns/nnz", "x bare SGD")
    for name, times in seconds.items():
        ratio = np.median(times / seconds["bare SGD"])
        made.add_row(name, f"{np.median(times) / X.nnz * 1e9:.1f}", f"{ratio:.1f}")
    CONSOLE.print(made)


def mirror_dimension() -> None:
    made = table(
        "40 non-zeros a row, drawn evenly",
        *("d", "bare ns/row", "SMIDAS ns/row", "ratio", "EG+- ns/row", "ratio"),
    )
    for d in (10**4, 10**5, 10**6, 10**7):
        rng = np.random.default_rng(SEED)
        ids = np.sort(rng.integers(0, d, (20_000, 40)), axis=1)
        X = csr_matrix((np.ones(ids.size), ids.ravel(), np.arange(20_001) * 40), (20_000, d))
        X.sum_duplicates()
        y = rng.random(20_000) < 0.5
        runs = {"bare": bare_run(X, y, 0.02)}
        for name, kept in (("SMIDAS", smidas(0.02, l1=1e-6)), ("EG", eg(0.02))):
            kept.progressive_many(X, y)
            runs[name] = lambda kept=kept, X=X, y=y: kept.progressive_many(X, y)  # type: ignore
        seconds = in_turn(runs, 7)
        told = [f"{np.median(seconds['bare']) / 20_000 * 1e9:.0f}"]
        for name in ("SMIDAS", "EG"):
            told += [f"{np.median(seconds[name]) / 20_000 * 1e9:.0f}"]
            told += [f"{np.median(seconds[name] / seconds['bare']):.1f}"]
        made.add_row(f"{d:,}", *told)
    CONSOLE.print(made)


def mirror_time() -> None:
    X, y = w1(1000)
    for name, kept in (("SMIDAS", smidas(0.3, l1=1e-5)), ("EG+-", eg(0.3))):
        made = table(f"one {name}, the same 1,000 rows again and again", "t", "ns/row")
        t = 0
        for reach in (10**3, 10**4, 10**5, 10**6, 10**7):
            times = []
            while t < reach:
                begin = time.thread_time()
                kept.progressive_many(X, y)
                times.append((time.thread_time() - begin) / 1000)
                t += 1000
            made.add_row(f"{t:,}", f"{np.median(times[-100:]) * 1e9:.0f}")
        CONSOLE.print(made)


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
    for which in ("streaml1", "river"):
        begin = time.perf_counter()
        ran = subprocess.run(
            [sys.executable, "-c", NEW_NAMES, which, str(n), str(most)],
            *(), check=True, capture_output=True, text=True,
        )  # fmt: skip
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


def bench_threads(seconds: float = 1.0) -> None:
    """Predictions a second by one thread and by two, of a model and of a frozen one."""
    X, y = w1(4000)
    rng = np.random.default_rng(SEED)
    words = [f"{k:x}" for k in rng.permutation(X.shape[1])]
    ends, ids, values = X.indptr.tolist(), X.indices.tolist(), X.data.tolist()
    xs = [
        {words[j]: v for j, v in zip(ids[a:b], values[a:b], strict=True)}
        for a, b in zip(ends[:-1], ends[1:], strict=True)
    ]
    learner, columns = model(3.0), model(3.0)
    learner.learn_many(xs, y)
    columns.progressive_many(X, y)
    predictors: dict[str, Callable[[], int]] = {}

    def one_by_one(predict: Callable[[Any], Any]) -> Callable[[], int]:
        def run() -> int:
            for x in xs:
                predict(x)
            return len(xs)

        return run

    def together(predict: Callable[[Any], Any]) -> Callable[[], int]:
        return lambda: len(predict(X))

    frozen = learner.freeze()
    predictors["model, dicts"] = one_by_one(learner.predict_proba_one)
    predictors["frozen, dicts"] = one_by_one(frozen.predict_proba_one)
    predictors["model, matrix"] = together(columns.predict_proba_many)
    predictors["frozen, matrix"] = together(columns.freeze().predict_proba_many)
    made = table("predictions a second, 87 non-zeros", "what", "one thread", "two threads", "ratio")
    for name, run in predictors.items():
        run()
        rates = [per_second(run, threads, seconds) for _ in range(3) for threads in (1, 2)]
        one, two = np.median(rates[::2]), np.median(rates[1::2])
        made.add_row(name, f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}")
    CONSOLE.print(made)
    lock_cost(learner, frozen)


def per_second(run: Callable[[], int], threads: int, seconds: float) -> float:
    done = [0] * threads
    end = time.perf_counter() + seconds

    def work(k: int) -> None:
        while time.perf_counter() < end:
            done[k] += run()

    begin = time.perf_counter()
    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - begin)


def lock_cost(learner: Any, frozen: Any) -> None:
    """What being safe for threads costs one prediction: the model's less the frozen one's."""
    x = {"a": 1.0}
    calls = {"model": learner.predict_proba_one, "frozen": frozen.predict_proba_one}
    best = {name: math.inf for name in calls}
    for _ in range(50):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(5000):
                call(x)
            best[name] = min(best[name], (time.perf_counter() - begin) / 5000 * 1e9)
    told = ", ".join(f"{name} {ns:.0f} ns" for name, ns in best.items())
    CONSOLE.print(f"a prediction of one feature: {told}")


def bench_softmax() -> None:
    """Rows of 100 classes, beside river and Vowpal Wabbit; and as classes, d and t grow."""
    import bench_softmax as softmax

    softmax.bench_rivals(w1, table, CONSOLE.print)
    softmax.bench_shapes(in_turn, table, CONSOLE.print)


def bench_kafka() -> None:
    """From a topic, beside polling alone."""
    import bench_kafka as topics

    topics.bench(w1, table, CONSOLE.print)


def bench_projection() -> None:
    """Projections of 10^6 entries, as ratios to a plain sum of them."""
    import bench_projection as projection

    columns = ("entries", "z", "left", "plain sum, ms", "numpy's sum /", "a new vector /")
    title = f"{projection.N:,} entries: a plain sum, and ratios to it"
    made = table(title, *columns, "ball /", "simplex /", "ball, sort /")
    for name, z, left, (ms, *ratios) in projection.rows():
        made.add_row(name, z, left, f"{ms:.2f}", *(f"{ratio:.1f}" for ratio in ratios))
    CONSOLE.print(made)


def bench_offline() -> None:
    """Coordinate solvers beside scikit-learn's, to the same objective."""
    import bench_offline as offline

    offline.bench(w1, table, CONSOLE.print)


def bench_checkpoint() -> None:
    """How long a checkpoint keeps a run from learning."""
    import bench_checkpoint as checkpoints

    checkpoints.bench(table, CONSOLE.print)


def bench_text() -> None:
    """Text files: parsed, learnt, and beside Vowpal Wabbit."""
    import bench_text as text

    text.bench(w1, clicks, model, table, CONSOLE.print)


BENCHES = {
    "csr": bench_csr,
    "models": bench_models,
    "ball": bench_ball,
    "mirror": bench_mirror,
    "dict": bench_dict,
    "flat": bench_flat,
    "start": bench_start,
    "threads": bench_threads,
    "copies": bench_copies,
    "memory": bench_memory,
    "softmax": bench_softmax,
    "kafka": bench_kafka,
    "projection": bench_projection,
    "offline": bench_offline,
    "checkpoint": bench_checkpoint,
    "text": bench_text,
}


def main() -> None:
    unknown = set(sys.argv[1:]) - set(BENCHES)
    if unknown:
        sys.exit(f"bench: {unknown.pop()!r} is not known; give any of {', '.join(BENCHES)}")
    versions = ", ".join(f"{p} {version(p)}" for p in ("streaml1", "numba", "numpy", "river"))
    CONSOLE.print(f"{versions}; Python {platform.python_version()}; {processor()}")
    for name in sys.argv[1:] or BENCHES:
        BENCHES[name]()


def processor() -> str:
    with open("/proc/cpuinfo") as lines:
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()


if __name__ == "__main__":
    main()
