"""Time of a step in the l1 ball against the number of non-zero (active) weights.

    python demos/ball_sizes.py [ACTIVE ...]

Compares the timing wheel, the paper's tree, and projections of the whole vector. All learn the same
examples, of 80 features each, in a ball of a radius that keeps about ACTIVE weights. Prints a table
and writes out/ball_sizes.png. "linear" is Figure 2 of Duchi et al. (2008), "lean linear" the
iteration of Michelot (1986), which is the fastest on current processors, "sort" uses numpy's sort.
"""

from __future__ import annotations

import argparse
import math
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


class EagerWeights(NamedTuple):
    """The non-zero weights in one dense array, and the position of each feature's weight."""

    w: Any
    feature: Any  # of each weight
    position: Any  # of each feature's weight, or -1
    size: Any  # array of one element: the number of weights
    buffer: Any


@numba.njit(error_model="numpy")
def gradient_step(s, ids, values, y):  # type: ignore[no-untyped-def]
    """Make a gradient step of the logistic loss on one row; return the sum of |w|."""
    a = 0.0
    for k in range(len(ids)):
        if s.position[ids[k]] >= 0:
            a += s.w[s.position[ids[k]]] * values[k]
    step = LR * (1.0 / (1.0 + math.exp(-a)) - y)
    for k in range(len(ids)):
        if s.position[ids[k]] < 0:
            s.position[ids[k]] = s.size[0]
            s.feature[s.size[0]] = ids[k]
            s.w[s.size[0]] = 0.0
            s.size[0] += 1
        s.w[s.position[ids[k]]] -= step * values[k]
    return np.abs(s.w[: s.size[0]]).sum()


@numba.njit(error_model="numpy")
def soft_threshold(s, theta):  # type: ignore[no-untyped-def]
    """Soft-threshold all weights by theta; the last weight replaces one that becomes zero."""
    i, n = 0, s.size[0]
    while i < n:  # weights before i are done, those from n on are removed
        size = abs(s.w[i]) - theta
        if size > 0.0:
            s.w[i] = math.copysign(size, s.w[i])
            i += 1
        else:
            n -= 1
            s.position[s.feature[n]] = i
            s.position[s.feature[i]] = -1
            s.feature[i] = s.feature[n]
            s.w[i] = s.w[n]
    s.size[0] = n


@numba.njit(error_model="numpy")
def theta_by_pivots(s, z):  # type: ignore[no-untyped-def]
    """Return theta by Figure 2, with random pivots and a branch-free partition.

    The rho largest values found so far sum to `total`; the first n of `candidates` are undecided.
    """
    n = s.size[0]
    candidates, partition = s.buffer[: len(s.w)], s.buffer[len(s.w) :]
    candidates[:n] = np.abs(s.w[:n])
    total, rho = 0.0, 0
    while n > 0:
        k = np.random.randint(n)
        pivot = candidates[k]
        candidates[k] = candidates[n - 1]  # the pivot is in G, so it is not partitioned again
        sum_above, above = pivot, 0
        for i in range(n - 1):
            v = candidates[i]
            is_above = v >= pivot
            # Write to both ends; the next value overwrites the wrong one. No branch depends on v.
            partition[above] = v
            partition[n - 2 - (i - above)] = v
            above += is_above
            sum_above += v * is_above
        if total + sum_above - (rho + 1 + above) * pivot < z:
            total += sum_above
            rho += 1 + above
            begin, n = above, n - 1 - above
        else:
            begin, n = 0, above
        candidates[:n] = partition[begin : begin + n]
    return (total - z) / rho


@numba.njit(error_model="numpy", fastmath=True)
def theta_by_michelot(s, z):  # type: ignore[no-untyped-def]
    """Return theta by Michelot's iteration: drop values below a theta that is too small, repeat."""
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
def learn_eagerly(s, linear, z, ids, values, indptr, y):  # type: ignore[no-untyped-def]
    for i in range(len(y)):
        lo, hi = indptr[i], indptr[i + 1]
        if gradient_step(s, ids[lo:hi], values[lo:hi], y[i]) > z:
            soft_threshold(s, theta_by_pivots(s, z) if linear else theta_by_michelot(s, z))


def learn_by_sorting(s: EagerWeights, z: float, ids: Any, values: Any, indptr: Any, y: Any) -> None:
    for i in range(len(y)):
        lo, hi = indptr[i], indptr[i + 1]
        if gradient_step(s, ids[lo:hi], values[lo:hi], y[i]) > z:
            mu = np.sort(np.abs(s.w[: s.size[0]]))[::-1]
            theta = (np.cumsum(mu) - z) / np.arange(1, len(mu) + 1)
            soft_threshold(s, theta[np.count_nonzero(mu > theta) - 1])


EAGER_METHODS: dict[str, Callable[..., None]] = {
    "linear": lambda s, z, *rows: learn_eagerly(s, True, z, *rows),
    "lean linear": lambda s, z, *rows: learn_eagerly(s, False, z, *rows),
    "sort": learn_by_sorting,
}
METHODS = ("no ball", "wheel", "tree", *EAGER_METHODS)


@numba.njit(error_model="numpy")
def sgd_without_ball(w, ids, values, indptr, y):  # type: ignore[no-untyped-def]
    """Run SGD without a projection."""
    for i in range(np.uint64(len(y))):
        a = 0.0
        for k in range(indptr[i], indptr[i + ONE]):
            a += w[ids[k]] * values[k]
        step = LR * (1.0 / (1.0 + math.exp(-a)) - y[i])
        for k in range(indptr[i], indptr[i + ONE]):
            w[ids[k]] -= step * values[k]


def stream(active: int, seed: int = 2008) -> tuple[Any, Any]:
    """Draw rows of 80 features from 10 * active ones with Zipf frequencies, and labels."""
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


def train_to_size(active: int, X: Any, y: Any) -> tuple[Any, Any]:
    """Train wheel and tree on the same rows, at a radius that keeps about `active` weights."""
    wheel, tree = ball("wheel"), ball("tree")
    blocks = np.array_split(np.arange(len(y)), 10)
    for k in range(80):
        rows = blocks[k % 10]
        for model in (wheel, tree):
            model.learn_many(X[rows], y[rows] > 0.0)
        if k < 70:  # keep the radius fixed at the end, while some weights still become zero
            factor = (1.1 * active / wheel.n_nonzero) ** 0.3
            wheel.radius = tree.radius = wheel.radius * min(2.0, max(0.5, factor))
    assert sum(map(abs, wheel.weights.values())) > 0.999 * wheel.radius
    return wheel, tree


def eager_weights(model: Any, d: int) -> EagerWeights:
    weights = model.weights
    capacity = 4 * len(weights) + 1_000
    s = EagerWeights(
        *(np.zeros(capacity), np.zeros(capacity, np.int64), np.full(d, -1, np.int64)),
        *(np.array([len(weights)]), np.zeros(2 * capacity)),
    )
    s.feature[: len(weights)] = list(weights)
    s.w[: len(weights)] = list(weights.values())
    s.position[s.feature[: len(weights)]] = np.arange(len(weights))
    return s


def require_equal_weights(model: Any, s: EagerWeights, name: str) -> None:
    w, n = model.weights, s.size[0]
    eager_w = dict(zip(s.feature[:n].tolist(), s.w[:n].tolist(), strict=True))
    for j in w.keys() | eager_w.keys():
        assert abs(w.get(j, 0.0) - eager_w.get(j, 0.0)) < 1e-9, (name, j)


def thread_seconds(f: Callable[..., Any], *args: Any) -> float:
    begin = time.thread_time()
    f(*args)
    return time.thread_time() - begin


class Measurement(NamedTuple):
    """Times at one number of active weights."""

    active: int
    nonzeros: float  # per row
    height: int  # of the tree
    us: dict[str, float]  # per row


def measure(active: int, X: Any, y: Any) -> Measurement:
    wheel, tree = train_to_size(active, X, y)
    assert wheel.weights == tree.weights
    eager_states = {name: eager_weights(wheel, X.shape[1]) for name in EAGER_METHODS}
    n_eager = max(20, min(2_000, 10_000_000 // active))
    n_rows = min(20_000, len(y) // 5)
    seconds: dict[str, list[float]] = {name: [] for name in METHODS}
    w, z = np.zeros(X.shape[1]), wheel.radius
    n = []
    for r in range(-1, ROUNDS):  # the first round compiles and checks that all weights are equal
        # The slow methods learn fewer rows, so their weights differ after the first round.
        begin = n_rows * (r % 5)
        block = X[begin : begin + (n_eager if r < 0 else n_rows)]
        ids, indptr = block.indices.view(np.uint32), block.indptr.astype(np.uint64)
        rows, labels = (ids, block.data, indptr), y[begin : begin + block.shape[0]]
        eager_rows = (
            ids,
            block.data,
            block.indptr[: n_eager + 1].astype(np.int64),
            labels[:n_eager],
        )
        times = {"no ball": thread_seconds(sgd_without_ball, w, *rows, labels) / len(labels)}
        for name, model in (("wheel", wheel), ("tree", tree)):
            times[name] = thread_seconds(model.learn_many, block, labels > 0.0) / len(labels)
        for name, learn in EAGER_METHODS.items():
            times[name] = thread_seconds(learn, eager_states[name], z, *eager_rows) / n_eager
            if r < 0:
                require_equal_weights(wheel, eager_states[name], name)
        n.append(wheel.n_nonzero)
        for name, row_seconds in times.items() if r >= 0 else ():
            seconds[name].append(row_seconds)
    assert wheel.weights == tree.weights
    height = int(tree._state.rule.clock[0].height)
    us = {name: float(np.median(rounds)) * 1e6 for name, rounds in seconds.items()}
    return Measurement(int(np.mean(n)), X.nnz / X.shape[0], height, us)


def draw(measurements: list[Measurement], out: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    n = [line.active for line in measurements]
    styles = {"sort": "v:", "linear": "s--", "lean linear": "D--", "tree": "^-", "wheel": "o-"}
    for name, style in styles.items():
        left.loglog(n, [line.us[name] for line in measurements], style, label=name)
    left.loglog(n, [line.us["no ball"] for line in measurements], "-", color="0.6", label="no ball")
    left.set(xlabel="active weights", ylabel="µs per example of 80 non-zeros")
    left.set_title("A step in the ball", loc="left")
    left.legend(frameon=False)
    per = [line.us["tree"] / line.nonzeros * 1e3 for line in measurements]
    right.semilogx(n, per, "^-", color="C3", label="tree")
    levels = per[0] / (measurements[0].height + 1)
    right.semilogx(
        n, [levels * (line.height + 1) for line in measurements], "--", color="0.6",
        label="levels of the tree, scaled",
    )  # fmt: skip
    right.set(xlabel="active weights", ylabel="ns per non-zero", ylim=(0, 1.2 * max(per)))
    right.set_title("The tree: O(log n) per non-zero, plus cache misses", loc="left")
    right.legend(frameon=False, loc="upper left")
    out.parent.mkdir(exist_ok=True)
    figure.savefig(out, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sizes", nargs="*", type=int, metavar="ACTIVE", help="weights, at least 2")
    sizes = parser.parse_args().sizes or ACTIVE
    if min(sizes) < 2:
        parser.error(f"ACTIVE must be >= 2, got {min(sizes)}")
    columns = (*METHODS, "linear/wheel", "linear/tree", "levels", "tree ns")
    print("us per example; levels: of the tree; tree ns: per non-zero and log2(active)\n")
    print(f"{'active':>10}" + "".join(f"{column:>13}" for column in columns))
    measurements = []
    for size in sizes:
        line = measure(size, *stream(size))
        us = line.us
        # The height of a B+ tree of order 32 whose nodes are at least about half full.
        assert line.height + 1 <= 3 + max(0.0, math.log(line.active / 16, 16))
        cells = [f"{us[name]:,.2f}" for name in METHODS]
        cells += [f"{us['linear'] / us[name]:,.1f}" for name in ("wheel", "tree")]
        tree = us["tree"] / line.nonzeros * 1e3 / math.log2(line.active)
        cells += [f"{line.height + 1}", f"{tree:.1f}"]
        print(f"{line.active:10,}" + "".join(f"{cell:>13}" for cell in cells), flush=True)
        measurements.append(line)
    out = Path("out") / "ball_sizes.png"
    draw(measurements, out)
    print(f"\n{out}")


if __name__ == "__main__":
    main()
