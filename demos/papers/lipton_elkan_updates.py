"""The dense and the lazy update of Lipton & Elkan (2015), each in five implementations."""

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
VARIANTS = ("SciPy, by element", "plain Python", "numpy, naive", "numpy, in place", "compiled")
SLOWEST, *FASTER = VARIANTS


class Rows(NamedTuple):
    """A CSR matrix of examples, and their labels."""

    X: csr_matrix
    y: Any

    def row(self, i: int) -> tuple[Any, Any, float]:
        """Columns, values and label of an example."""
        lo, hi = self.X.indptr[i], self.X.indptr[i + 1]
        return self.X.indices[lo:hi], self.X.data[lo:hi], float(self.y[i])


def make_rows(n: int, d: int, seed: int = SEED) -> Rows:
    """Draw rows of distinct columns with Zipf frequencies, and labels of a linear model."""
    rng = np.random.default_rng(seed)
    lengths = np.maximum(1, np.minimum(rng.poisson(rng.gamma(4.0, MEAN / 4.0, n)), d // 4))
    cumulative = np.cumsum(np.arange(1, d + 1) ** -1.1)
    columns = rng.permutation(d)
    row_columns = []
    for size in lengths:
        drawn_columns: Any = np.zeros(0, int)
        while len(drawn_columns) < size:
            draws = np.searchsorted(cumulative, rng.random(2 * size) * cumulative[-1])
            drawn_columns = np.unique(np.concatenate([drawn_columns, draws]))
        row_columns.append(np.sort(columns[rng.permutation(drawn_columns)[:size]]))
    ends = np.concatenate([[0], np.cumsum(lengths)])
    values = 1.0 / np.sqrt(np.repeat(lengths, lengths))
    X = csr_matrix((values, np.concatenate(row_columns), ends), (n, d))
    return Rows(X, X @ rng.normal(0.0, 3.0, d) + rng.normal(size=n) > 0.0)


def rate(t: int) -> float:
    return LR / math.sqrt(t + 1.0)


def loss_derivative(a: float, y: float) -> float:
    return 1.0 / (1.0 + math.exp(-a)) - y


def shrink(v: float, eta: float, update: str) -> float:
    """Apply a step's penalty to a weight: Eq. (3) for SGD, the solution of Eq. (2) for FoBoS."""
    if update == "sgd":
        return math.copysign(max(0.0, (1.0 - eta * L2) * abs(v) - eta * L1), v)
    return math.copysign(max(0.0, abs(v) - eta * L1) / (1.0 + eta * L2), v)


def scipy_dense(data: Rows, n: int, update: str, sparse: bool) -> Any:
    """Run the dense update as the paper describes its code: Python loops over SciPy matrices.

    Each use of a feature's value reads one element of the matrix, whether or not it is zero.
    """
    d = data.X.shape[1]
    w = [0.0] * d
    for t in range(n):
        x = data.X[t]
        a = sum(w[j] * x[0, j] for j in (x.indices if sparse else range(d)))
        eta = rate(t)
        step = eta * loss_derivative(a, float(data.y[t]))
        for j in range(d):
            w[j] = shrink(w[j] - step * x[0, j], eta, update)
    return np.array(w)


def scipy_lazy(data: Rows, n: int, update: str) -> Any:
    """Run Algorithm 1 over a SciPy matrix, with as many reads per weight as in `scipy_dense`."""
    return _lazy(data, n, update, by_element=True)


def python_dense(data: Rows, n: int, update: str, sparse: bool) -> Any:
    """Run the dense update with Python loops over the features."""
    d = data.X.shape[1]
    w = [0.0] * d
    for t in range(n):
        ids, values, y = data.row(t)
        nonzeros = list(zip(ids.tolist(), values.tolist(), strict=True))
        if sparse:
            a = sum(w[j] * v for j, v in nonzeros)
        else:
            x = [0.0] * d
            for j, v in nonzeros:
                x[j] = v
            a = sum(w[j] * x[j] for j in range(d))
        eta = rate(t)
        step = eta * loss_derivative(a, y)
        for j, v in nonzeros:
            w[j] -= step * v
        for j in range(d):
            w[j] = shrink(w[j], eta, update)
    return np.array(w)


def python_lazy(data: Rows, n: int, update: str) -> Any:
    """Run Algorithm 1 over lists of the non-zeros."""
    return _lazy(data, n, update, by_element=False)


def _lazy(data: Rows, n: int, update: str, by_element: bool) -> Any:
    """Run Algorithm 1 with the tables of Theorem 2, or of the corrected Theorem 1."""
    w: dict[int, float] = {}
    psi: dict[int, int] = {}
    P, B = [1.0], [0.0]  # P[t] and B[t]: the tables before step t
    for t in range(n):
        ids, values, y = data.row(t)
        if by_element:
            x, columns = data.X[t], ids.tolist()
            nonzeros = ((j, x[0, j]) for j in columns)
            again = ((j, x[0, j]) for j in columns)
        else:
            columns = ids.tolist()
            nonzeros = again = list(zip(columns, values.tolist(), strict=True))
        for j in columns:
            w[j] = catch_up(w.get(j, 0.0), P, B, psi.get(j, t), t)
        eta = rate(t)
        step = eta * loss_derivative(sum(w[j] * v for j, v in nonzeros), y)
        for j, v in again:
            w[j] -= step * v
            psi[j] = t
        P.append(P[t] * (1.0 - eta * L2) if update == "sgd" else P[t] / (1.0 + eta * L2))
        B.append(B[t] + eta / (P[t + 1] if update == "sgd" else P[t]))
    out = np.zeros(data.X.shape[1])
    for j in w:
        out[j] = catch_up(w[j], P, B, psi[j], n)
    return out


def catch_up(w: float, P: list[float], B: list[float], psi: int, k: int) -> float:
    return math.copysign(max(0.0, abs(w) * P[k] / P[psi] - P[k] * L1 * (B[k] - B[psi])), w)


def numpy_dense(data: Rows, n: int, update: str, sparse: bool) -> Any:
    """Run the dense update in naive numpy, with a new array for each operation."""
    w = np.zeros(data.X.shape[1])
    for t in range(n):
        x = data.X[t]
        a = float((x @ w)[0]) if sparse else float(x.toarray().ravel() @ w)
        eta = rate(t)
        w = w - eta * loss_derivative(a, float(data.y[t])) * x.toarray().ravel()
        if update == "sgd":
            w = np.sign(w) * np.maximum((1.0 - eta * L2) * np.abs(w) - eta * L1, 0.0)
        else:
            w = np.sign(w) * np.maximum(np.abs(w) - eta * L1, 0.0) / (1.0 + eta * L2)
    return w


def numpy_in_place(data: Rows, n: int, update: str, sparse: bool) -> Any:
    """Run the dense update in place, with the gradient step on the example's columns only."""
    w, size = np.zeros(data.X.shape[1]), np.empty(data.X.shape[1])
    x = np.zeros(data.X.shape[1])
    for t in range(n):
        ids, values, y = data.row(t)
        if sparse:
            a = float(w[ids] @ values)
        else:
            x[ids] = values
            a = float(x @ w)
            x[ids] = 0.0
        eta = rate(t)
        w[ids] -= eta * loss_derivative(a, y) * values
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
    """Run the lazy update with the tables as arrays, all columns of an example at once."""
    d = data.X.shape[1]
    w, psi = np.zeros(d), np.zeros(d, int)
    P, B = np.ones(n + 1), np.zeros(n + 1)
    for t in range(n):
        ids, values, y = data.row(t)
        now = _catch_up_array(w[ids], P, B, psi[ids], t)
        eta = rate(t)
        w[ids] = now - eta * loss_derivative(float(now @ values), y) * values
        psi[ids] = t
        P[t + 1] = P[t] * (1.0 - eta * L2) if update == "sgd" else P[t] / (1.0 + eta * L2)
        B[t + 1] = B[t] + eta / (P[t + 1] if update == "sgd" else P[t])
    return _catch_up_array(w, P, B, psi, n)


def _catch_up_array(w: Any, P: Any, B: Any, psi: Any, k: int) -> Any:
    size = np.abs(w) * (P[k] / P[psi]) - P[k] * L1 * (B[k] - B[psi])
    return np.copysign(np.maximum(size, 0.0), w)


@kernel
def _compiled_dense(
    w: Any, x: Any, ids: Any, values: Any, indptr: Any, y: Any, eta: Any, penalty: Any, sparse: bool
) -> None:
    """Make dense steps; `penalty` is l1, l2 and whether the decay precedes the l1 step (SGD)."""
    l1, l2, sgd = penalty
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
    """Run SGD without a penalty, the lower bound for the rows."""
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


def run_bare(data: Rows, n: int, update: str) -> Any:
    w = np.zeros(data.X.shape[1])
    _bare(w, *_arrays(data, n))
    return w


def model(update: str, stamps: str = "folded") -> streaml1.ElasticNetClassifier:
    return streaml1.ElasticNetClassifier(
        l1=L1, l2=L2, update=update, stamps=stamps, lr=LR, schedule="invsqrt", intercept_lr=0.0
    )


def run_streaml1(data: Rows, n: int, update: str, stamps: str = "folded") -> Any:
    """Run streaml1 on the rows of the matrix."""
    learner = model(update, stamps)
    learner.learn_many(data.X[:n], data.y[:n])
    return dense_weights(learner, data.X.shape[1])


def dense_weights(learner: Any, d: int) -> Any:
    w, nonzero = np.zeros(d), learner.weights
    w[list(nonzero)] = list(nonzero.values())
    return w


DENSE: dict[str, Callable[[Rows, int, str, bool], Any]] = dict(
    zip(
        VARIANTS,
        (scipy_dense, python_dense, numpy_dense, numpy_in_place, compiled_dense),
        strict=True,
    )
)
LAZY: dict[str, Callable[[Rows, int, str], Any]] = dict(
    zip(VARIANTS, (scipy_lazy, python_lazy, numpy_lazy, numpy_lazy, run_streaml1), strict=True)
)
