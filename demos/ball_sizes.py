"""The l1 ball as more weights are active: the wheel, the paper's tree, and projecting all of them.

    python demos/ball_sizes.py [ACTIVE ...]

All learn the same examples, of 80 features each, in a ball that keeps so many weights. Prints a
table, writes out/ball_sizes.png. "linear" is Duchi et al. (2008), Figure 2; "lean linear" the
iteration of Michelot (1986), which suits a processor best; "sort" numpy's sort.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numba
import numpy as np
from scipy.sparse import csr_matrix

import streaml1

matplotlib.use("agg")
import matplotlib.pyplot as plt

ACTIVE = (1_000, 10_000, 100_000, 1_000_000)
ROUNDS = 5
LR = 1.0
ONE = np.uint64(1)


class Eager(NamedTuple):
    """The weights that are not zero, side by side, and where each of a feature is (or -1)."""

    w: Any
    feature: Any
    place: Any
    size: Any
    spare: Any


@numba.njit(error_model="numpy")
def move(s, ids, values, y):  # type: ignore[no-untyped-def]
    """A gradient step of the logistic loss on one row; returns the sum of |w|."""
    a = 0.0
    for k in range(len(ids)):
        if s.place[ids[k]] >= 0:
            a += s.w[s.place[ids[k]]] * values[k]
    step = LR * (1.0 / (1.0 + math.exp(-a)) - y)
    for k in range(len(ids)):
        if s.place[ids[k]] < 0:
            s.place[ids[k]] = s.size[0]
            s.feature[s.size[0]] = ids[k]
            s.w[s.size[0]] = 0.0
            s.size[0] += 1
        s.w[s.place[ids[k]]] -= step * values[k]
    return np.abs(s.w[: s.size[0]]).sum()


@numba.njit(error_model="numpy")
def shrink(s, theta):  # type: ignore[no-untyped-def]
    """Move all weights to zero by theta; the last takes the place of one that gets there."""
    i, n = 0, s.size[0]
    while i < n:
        left = abs(s.w[i]) - theta
        if left > 0.0:
            s.w[i] = math.copysign(left, s.w[i])
            i += 1
        else:
            n -= 1
            s.place[s.feature[n]] = i
            s.place[s.feature[i]] = -1
            s.feature[i] = s.feature[n]
            s.w[i] = s.w[n]
    s.size[0] = n


@numba.njit(error_model="numpy")
def pivots(s, z):  # type: ignore[no-untyped-def]
    """Theta by Figure 2: parts at random pivots, without branches from one buffer into another."""
    n = s.size[0]
    now, other = s.spare[: len(s.w)], s.spare[len(s.w) :]
    now[:n] = np.abs(s.w[:n])
    total, rho = 0.0, 0
    while n > 0:
        at = np.random.randint(n)
        pivot = now[at]
        now[at] = now[n - 1]  # the pivot is in G, and is left out of what is looked at next
        more, above = pivot, 0
        for i in range(n - 1):
            v = now[i]
            is_above = v >= pivot
            other[above] = v
            other[n - 2 - (i - above)] = v
            above += is_above
            more += v * is_above
        if total + more - (rho + 1 + above) * pivot < z:
            total += more
            rho += 1 + above
            begin, n = above, n - 1 - above
        else:
            begin, n = 0, above
        now[:n] = other[begin : begin + n]
    return (total - z) / rho


@numba.njit(error_model="numpy", fastmath=True)
def michelot(s, z):  # type: ignore[no-untyped-def]
    """Theta by leaving out what is below a theta that is too small, again and again."""
    n = s.size[0]
    theta, before, rho = 0.0, -1, 0
    while rho != before:
        before, total, rho = rho, 0.0, 0
        for i in range(n):
            v = abs(s.w[i])
            total += v if v > theta else 0.0
            rho += v > theta
        theta = (total - z) / rho
    return theta


@numba.njit(error_model="numpy")
def run(s, linear, z, ids, values, indptr, y):  # type: ignore[no-untyped-def]
    for i in range(len(y)):
        lo, hi = indptr[i], indptr[i + 1]
        if move(s, ids[lo:hi], values[lo:hi], y[i]) > z:
            shrink(s, pivots(s, z) if linear else michelot(s, z))


def run_sorting(s: Eager, z: float, ids: Any, values: Any, indptr: Any, y: Any) -> None:
    for i in range(len(y)):
        lo, hi = indptr[i], indptr[i + 1]
        if move(s, ids[lo:hi], values[lo:hi], y[i]) > z:
            mu = np.sort(np.abs(s.w[: s.size[0]]))[::-1]
            theta = (np.cumsum(mu) - z) / np.arange(1, len(mu) + 1)
            shrink(s, theta[np.count_nonzero(mu > theta) - 1])


EAGER: dict[str, Callable[..., None]] = {
    "linear": lambda s, z, *rows: run(s, True, z, *rows),
    "lean linear": lambda s, z, *rows: run(s, False, z, *rows),
    "sort": run_sorting,
}


@numba.njit(error_model="numpy")
def plain(w, ids, values, indptr, y):  # type: ignore[no-untyped-def]
    """No ball."""
    for i in range(np.uint64(len(y))):
        a = 0.0
        for k in range(indptr[i], indptr[i + ONE]):
            a += w[ids[k]] * values[k]
        step = LR * (1.0 / (1.0 + math.exp(-a)) - y[i])
        for k in range(indptr[i], indptr[i + ONE]):
            w[ids[k]] -= step * values[k]


def stream(active: int, seed: int = 2008) -> tuple[Any, Any]:
    """Rows of 80 of ten times as many features, few of them frequent (Zipf), and labels."""
    rng = np.random.default_rng(seed)
    n, d = max(20_000, active // 10), 10 * active
    ranks = np.minimum(np.exp(rng.random(80 * n) * math.log(d)), d - 1.0).astype(int)
    ids = rng.permutation(d)[ranks].astype(np.int32)
    X = csr_matrix((np.full(80 * n, 80**-0.5), ids, 80 * np.arange(n + 1)), (n, d))
    X.sum_duplicates()
    true = rng.normal(size=d) * 3.0
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ true)))).astype(float)


def ball(index: str) -> Any:
    return streaml1.L1BallClassifier(
        radius=1.0, index=index, lr=LR, schedule="constant", intercept_lr=0.0
    )


def warmed(active: int, X: Any, y: Any) -> tuple[Any, Any]:
    """The two models at a radius where about so many weights are not zero; they learn the same."""
    wheel, tree = ball("wheel"), ball("tree")
    blocks = np.array_split(np.arange(len(y)), 10)
    for k in range(80):
        rows = blocks[k % 10]
        for model in (wheel, tree):
            model.learn_many(X[rows], y[rows] > 0.0)
        if k < 70:  # and then some fall to zero for a while
            more = (1.1 * active / wheel.n_nonzero) ** 0.3
            wheel.radius = tree.radius = wheel.radius * min(2.0, max(0.5, more))
    assert sum(map(abs, wheel.weights.values())) > 0.999 * wheel.radius
    return wheel, tree


def eager(model: Any, d: int) -> Eager:
    weights = model.weights
    room = 4 * len(weights) + 1_000
    s = Eager(
        *(np.zeros(room), np.zeros(room, np.int64), np.full(d, -1, np.int64)),
        *(np.array([len(weights)]), np.zeros(2 * room)),
    )
    s.feature[: len(weights)] = list(weights)
    s.w[: len(weights)] = list(weights.values())
    s.place[s.feature[: len(weights)]] = np.arange(len(weights))
    return s


def require_equal(model: Any, s: Eager, name: str) -> None:
    w, n = model.weights, s.size[0]
    there = dict(zip(s.feature[:n].tolist(), s.w[:n].tolist(), strict=True))
    for j in w.keys() | there.keys():
        assert abs(w.get(j, 0.0) - there.get(j, 0.0)) < 1e-9, (name, j)


def timed(f: Callable[..., Any], *args: Any) -> float:
    begin = time.thread_time()
    f(*args)
    return time.thread_time() - begin


class Line(NamedTuple):
    """What was measured of one size."""

    active: int
    nonzeros: float  # of a row
    height: int  # of the tree
    us: dict[str, float]  # a row


def measure(active: int, X: Any, y: Any) -> Line:
    wheel, tree = warmed(active, X, y)
    assert wheel.weights == tree.weights
    kinds = {name: eager(wheel, X.shape[1]) for name in EAGER}
    few = max(20, min(2_000, 10_000_000 // active))
    many = min(20_000, len(y) // 5)
    seconds: dict[str, list[float]] = {name: [] for name in ("plain", "wheel", "tree", *EAGER)}
    w, z = np.zeros(X.shape[1]), wheel.radius
    n = []
    for r in range(-1, ROUNDS):  # the first compiles, and shows that all learn the same
        # Those that take long learn a few of the rows; they go on by themselves from there.
        begin = many * (r % 5)
        some = X[begin : begin + (few if r < 0 else many)]
        ids, indptr = some.indices.view(np.uint32), some.indptr.astype(np.uint64)
        rows, labels = (ids, some.data, indptr), y[begin : begin + some.shape[0]]
        first = (ids, some.data, some.indptr[: few + 1].astype(np.int64), labels[:few])
        took = {"plain": timed(plain, w, *rows, labels) / len(labels)}
        for name, model in (("wheel", wheel), ("tree", tree)):
            took[name] = timed(model.learn_many, some, labels > 0.0) / len(labels)
        for name, learn in EAGER.items():
            took[name] = timed(learn, kinds[name], z, *first) / few
            if r < 0:
                require_equal(wheel, kinds[name], name)
        n.append(wheel.n_nonzero)
        for name, one in took.items() if r >= 0 else ():
            seconds[name].append(one)
    assert wheel.weights == tree.weights
    height = int(tree._engine.rule.clock[0].height)
    us = {name: float(np.median(times)) * 1e6 for name, times in seconds.items()}
    return Line(int(np.mean(n)), X.nnz / X.shape[0], height, us)


def draw(lines: list[Line], out: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    n = [line.active for line in lines]
    styles = {"sort": "v:", "linear": "s--", "lean linear": "D--", "tree": "^-", "wheel": "o-"}
    for name, style in styles.items():
        left.loglog(n, [line.us[name] for line in lines], style, label=name)
    left.loglog(n, [line.us["plain"] for line in lines], "-", color="0.6", label="no ball")
    left.set(xlabel="active weights", ylabel="µs an example of 80 non-zeros")
    left.set_title("A step in the ball", loc="left")
    left.legend(frameon=False)
    per = [line.us["tree"] / line.nonzeros * 1e3 for line in lines]
    right.semilogx(n, per, "^-", color="C3", label="tree")
    levels = per[0] / (lines[0].height + 1)
    right.semilogx(
        n, [levels * (line.height + 1) for line in lines], "--", color="0.6",
        label="levels, each at the first tree's time",
    )  # fmt: skip
    right.set(xlabel="active weights", ylabel="ns a non-zero", ylim=(0, 1.2 * max(per)))
    right.set_title("The tree: O(log n) a non-zero, and caches", loc="left")
    right.legend(frameon=False, loc="upper left")
    out.parent.mkdir(exist_ok=True)
    figure.savefig(out, dpi=150)


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or ACTIVE
    names = ("plain", "wheel", "tree", *EAGER)
    heads = ("no ball", *names[1:], "linear/wheel", "linear/tree", "levels", "tree ns")
    print("us an example; the last two: levels of the tree, and ns a non-zero and log2 of active\n")
    print(f"{'active':>10}" + "".join(f"{head:>13}" for head in heads))
    lines = []
    for size in sizes:
        line = measure(size, *stream(size))
        us = line.us
        # As of a tree whose nodes of 32 places are half full, or a little less.
        assert line.height + 1 <= 3 + max(0.0, math.log(line.active / 16, 16))
        cells = [f"{us[name]:,.2f}" for name in names]
        cells += [f"{us['linear'] / us[name]:,.1f}" for name in ("wheel", "tree")]
        tree = us["tree"] / line.nonzeros * 1e3 / math.log2(line.active)
        cells += [f"{line.height + 1}", f"{tree:.1f}"]
        print(f"{line.active:10,}" + "".join(f"{cell:>13}" for cell in cells), flush=True)
        lines.append(line)
    out = Path("out") / "ball_sizes.png"
    draw(lines, out)
    print(f"\n{out}")


if __name__ == "__main__":
    main()
