"""The dense update and the lazy one of Lipton & Elkan (2015), written in four ways each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

import streaml1
from streaml1.core.jit import kernel

MEAN, SEED = 88.54, 2015
LR, L1, L2 = 0.5, 1e-6, 1e-6
WAYS = ("plain Python", "numpy, naive", "numpy, in place", "compiled")


class Rows(NamedTuple):
    """Examples as arrays of a CSR matrix, and their labels."""

    X: csr_matrix
    y: Any

    def part(self, i: int) -> tuple[Any, Any, float]:
        """Columns, values and label of an example."""
        lo, hi = self.X.indptr[i], self.X.indptr[i + 1]
        return self.X.indices[lo:hi], self.X.data[lo:hi], float(self.y[i])


def rows(n: int, d: int, seed: int = SEED) -> Rows:
    """Rows of distinct columns, with labels of a linear model."""
    rng = np.random.default_rng(seed)
    sizes = np.maximum(1, np.minimum(rng.poisson(rng.gamma(4.0, MEAN / 4.0, n)), d // 4))
    heights = np.cumsum(np.arange(1, d + 1) ** -1.1)
    names = rng.permutation(d)
    parts = []
    for size in sizes:
        found: Any = np.zeros(0, int)
        while len(found) < size:
            drawn = np.searchsorted(heights, rng.random(2 * size) * heights[-1])
            found = np.unique(np.concatenate([found, drawn]))
        parts.append(np.sort(names[rng.permutation(found)[:size]]))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    values = 1.0 / np.sqrt(np.repeat(sizes, sizes))
    X = csr_matrix((values, np.concatenate(parts), ends), (n, d))
    return Rows(X, X @ rng.normal(0.0, 3.0, d) + rng.normal(size=n) > 0.0)


def rate(t: int) -> float:
    return LR / math.sqrt(t + 1.0)


def slope(a: float, y: float) -> float:
    return 1.0 / (1.0 + math.exp(-a)) - y


# What one weight becomes by a step's penalty, SGD by Eq. (3) and FoBoS by the solution of Eq. (2).
def shrunk(v: float, eta: float, update: str) -> float:
    if update == "sgd":
        return math.copysign(max(0.0, (1.0 - eta * L2) * abs(v) - eta * L1), v)
    return math.copysign(max(0.0, abs(v) - eta * L1) / (1.0 + eta * L2), v)


def python_dense(data: Rows, n: int, update: str, sparse: bool) -> Any:
    """Loops over the features."""
    d = data.X.shape[1]
    w = [0.0] * d
    for t in range(n):
        ids, values, y = data.part(t)
        pairs = list(zip(ids.tolist(), values.tolist(), strict=True))
        if sparse:
            a = sum(w[j] * v for j, v in pairs)
        else:
            x = [0.0] * d
            for j, v in pairs:
                x[j] = v
            a = sum(w[j] * x[j] for j in range(d))
        eta = rate(t)
        step = eta * slope(a, y)
        for j, v in pairs:
            w[j] -= step * v
        for j in range(d):
            w[j] = shrunk(w[j], eta, update)
    return np.array(w)


def python_lazy(data: Rows, n: int, update: str) -> Any:
    """Algorithm 1 with the tables of Theorem 2, or of Theorem 1 as mended."""
    w: dict[int, float] = {}
    psi: dict[int, int] = {}
    P, B = [1.0], [0.0]  # before the step t
    for t in range(n):
        ids, values, y = data.part(t)
        pairs = list(zip(ids.tolist(), values.tolist(), strict=True))
        for j, _ in pairs:
            w[j] = current(w.get(j, 0.0), P, B, psi.get(j, t), t)
        eta = rate(t)
        step = eta * slope(sum(w[j] * v for j, v in pairs), y)
        for j, v in pairs:
            w[j] -= step * v
            psi[j] = t
        P.append(P[t] * (1.0 - eta * L2) if update == "sgd" else P[t] / (1.0 + eta * L2))
        B.append(B[t] + eta / (P[t + 1] if update == "sgd" else P[t]))
    out = np.zeros(data.X.shape[1])
    for j in w:
        out[j] = current(w[j], P, B, psi[j], n)
    return out


def current(w: float, P: list[float], B: list[float], psi: int, k: int) -> float:
    return math.copysign(max(0.0, abs(w) * P[k] / P[psi] - P[k] * L1 * (B[k] - B[psi])), w)


def numpy_dense(data: Rows, n: int, update: str, sparse: bool) -> Any:
    """As one writes it first: a new array for each operation."""
    w = np.zeros(data.X.shape[1])
    for t in range(n):
        x = data.X[t]
        a = float((x @ w)[0]) if sparse else float(x.toarray().ravel() @ w)
        eta = rate(t)
        w = w - eta * slope(a, float(data.y[t])) * x.toarray().ravel()
        if update == "sgd":
            w = np.sign(w) * np.maximum((1.0 - eta * L2) * np.abs(w) - eta * L1, 0.0)
        else:
            w = np.sign(w) * np.maximum(np.abs(w) - eta * L1, 0.0) / (1.0 + eta * L2)
    return w


def numpy_in_place(data: Rows, n: int, update: str, sparse: bool) -> Any:
    """Two arrays, made once; the gradient step on the example's columns alone."""
    w, size = np.zeros(data.X.shape[1]), np.empty(data.X.shape[1])
    x = np.zeros(data.X.shape[1])
    for t in range(n):
        ids, values, y = data.part(t)
        if sparse:
            a = float(w[ids] @ values)
        else:
            x[ids] = values
            a = float(x @ w)
            x[ids] = 0.0
        eta = rate(t)
        w[ids] -= eta * slope(a, y) * values
        np.abs(w, out=size)
        if update == "sgd":
            size *= 1.0 - eta * L2
        size -= eta * L1
        np.maximum(size, 0.0, out=size)
        if update == "fobos":
            size /= 1.0 + eta * L2
        np.copysign(size, w, out=w)
    return w


def numpy_lazy(data: Rows, n: int, update: str) -> Any:
    """The tables as arrays; an example's columns at once."""
    d = data.X.shape[1]
    w, psi = np.zeros(d), np.zeros(d, int)
    P, B = np.ones(n + 1), np.zeros(n + 1)
    for t in range(n):
        ids, values, y = data.part(t)
        now = _current(w[ids], P, B, psi[ids], t)
        eta = rate(t)
        w[ids] = now - eta * slope(float(now @ values), y) * values
        psi[ids] = t
        P[t + 1] = P[t] * (1.0 - eta * L2) if update == "sgd" else P[t] / (1.0 + eta * L2)
        B[t + 1] = B[t] + eta / (P[t + 1] if update == "sgd" else P[t])
    return _current(w, P, B, psi, n)


def _current(w: Any, P: Any, B: Any, psi: Any, k: int) -> Any:
    size = np.abs(w) * (P[k] / P[psi]) - P[k] * L1 * (B[k] - B[psi])
    return np.copysign(np.maximum(size, 0.0), w)


@kernel
def _compiled_dense(
    w: Any, x: Any, ids: Any, values: Any, indptr: Any, y: Any, eta: Any, of: Any, sparse: bool
) -> None:
    """Dense steps; `of` is l1, l2 and whether the decay comes before the l1 (SGD)."""
    l1, l2, sgd = of
    for t in range(np.uint64(len(eta))):
        lo, hi = np.uint64(indptr[t]), np.uint64(indptr[t + 1])
        a = 0.0
        if sparse:
            for k in range(lo, hi):
                a += w[ids[k]] * values[k]
        else:
            for k in range(lo, hi):
                x[ids[k]] = values[k]
            for j in range(np.uint64(len(w))):
                a += w[j] * x[j]
            for k in range(lo, hi):
                x[ids[k]] = 0.0
        step = eta[t] * (1.0 / (1.0 + math.exp(-a)) - y[t])
        for k in range(lo, hi):
            w[ids[k]] -= step * values[k]
        before = 1.0 - eta[t] * l2 if sgd else 1.0
        after = 1.0 if sgd else 1.0 / (1.0 + eta[t] * l2)
        for j in range(np.uint64(len(w))):
            w[j] = math.copysign(max(0.0, before * abs(w[j]) - eta[t] * l1) * after, w[j])


@kernel
def _bare(w: Any, ids: Any, values: Any, indptr: Any, y: Any, eta: Any) -> None:
    """SGD without any penalty: what the rows cost."""
    for t in range(np.uint64(len(eta))):
        lo, hi = np.uint64(indptr[t]), np.uint64(indptr[t + 1])
        a = 0.0
        for k in range(lo, hi):
            a += w[ids[k]] * values[k]
        step = eta[t] * (1.0 / (1.0 + math.exp(-a)) - y[t])
        for k in range(lo, hi):
            w[ids[k]] -= step * values[k]


def _arrays(data: Rows, n: int) -> tuple[Any, ...]:
    eta = LR / np.sqrt(np.arange(1.0, n + 1.0))
    return data.X.indices, data.X.data, data.X.indptr, data.y[:n].astype(float), eta


def compiled_dense(data: Rows, n: int, update: str, sparse: bool) -> Any:
    w, x = np.zeros(data.X.shape[1]), np.zeros(data.X.shape[1])
    _compiled_dense(w, x, *_arrays(data, n), (L1, L2, update == "sgd"), sparse)
    return w


def bare(data: Rows, n: int, update: str) -> Any:
    w = np.zeros(data.X.shape[1])
    _bare(w, *_arrays(data, n))
    return w


def model(update: str, stamps: str = "folded") -> streaml1.ElasticNetClassifier:
    return streaml1.ElasticNetClassifier(
        l1=L1, l2=L2, update=update, stamps=stamps, lr=LR, schedule="invsqrt", intercept_lr=0.0
    )


def package(data: Rows, n: int, update: str, stamps: str = "folded") -> Any:
    """streaml1 on the rows of the matrix."""
    learner = model(update, stamps)
    learner.learn_many(data.X[:n], data.y[:n])
    return weights(learner, data.X.shape[1])


def weights(learner: Any, d: int) -> Any:
    w, kept = np.zeros(d), learner.weights
    w[list(kept)] = list(kept.values())
    return w


DENSE: dict[str, Callable[[Rows, int, str, bool], Any]] = dict(
    zip(WAYS, (python_dense, numpy_dense, numpy_in_place, compiled_dense), strict=True)
)
LAZY: dict[str, Callable[[Rows, int, str], Any]] = dict(
    zip(WAYS, (python_lazy, numpy_lazy, numpy_lazy, package), strict=True)
)
