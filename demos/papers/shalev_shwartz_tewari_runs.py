"""Runs of Shalev-Shwartz & Tewari (2009), Figure 1: data, algorithms, two of them as printed."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from common import load_matrix
from grid import search_many
from scipy.sparse import csr_matrix, hstack

import streaml1
import streaml1.datasets
from streaml1.core.jit import kernel
from streaml1.solvers import NotConverged, detcd, frank_wolfe, scd

RATES = tuple(10.0**k for k in range(-6, 0))  # the paper's
LARGER_RATES = (1.0, 10.0)
ONLINE = ("SMIDAS", "TruncGrad")
ALGORITHMS = ("SCD", "DETCD", *ONLINE)
PRINTED, RECOMPUTED = "SCD, step as printed", "DETCD, slopes recomputed"
CONSTRAINED = "Frank-Wolfe"
BATCH, SEED = 200_000, 2009


class Problem(NamedTuple):
    """A data set and strength of the figure, and the length of the paper's axis in passes."""

    name: str
    l1: float
    X: csr_matrix
    y: Any
    passes: float
    synthetic: bool = False

    @property
    def key(self) -> tuple[str, float]:
        """Name of the data set, and strength."""
        return self.name, self.l1

    @property
    def n_points(self) -> int:
        """Minimum number of points of a curve."""
        return 10 if self.synthetic else 40


class Curve(NamedTuple):
    """Accesses, objective and non-zeros of a run of an algorithm, and its CPU seconds."""

    accesses: Any
    objective: Any
    n_nonzero: Any
    seconds: float
    rate: float | None = None


class Result(NamedTuple):
    """The curves of a problem, at the best rate where there is one, and its optimum."""

    horizon: float
    best: float
    weights: Any
    curves: dict[str, Curve]
    rates: dict[str, dict[float, Curve]]
    shape: tuple[int, int]
    square: float  # the mean of the squared norms of the examples


def scale_columns(X: Any) -> csr_matrix:
    """Divide columns that exceed [-1, 1] by their largest absolute entry."""
    column_max = np.asarray(abs(X).max(axis=0).todense()).ravel()
    return csr_matrix(X.multiply(1.0 / np.where(column_max > 1.0, column_max, 1.0)))


def standardize_columns(X: Any) -> csr_matrix:
    """Standardize columns that exceed [-1, 1] to mean 0 and deviation 1."""
    wide = np.asarray(abs(X).max(axis=0).todense()).ravel() > 1.0
    dense = X[:, wide].toarray()
    return csr_matrix(hstack([(dense - dense.mean(axis=0)) / dense.std(axis=0), X[:, ~wide]]))


def problems(only: str = "", centre: bool = False) -> Iterator[Problem]:
    """Yield the paper's problems whose data is available and whose names start with `only`."""
    rcv1 = streaml1.datasets.RCV1("CCAT")
    loaders: list[tuple[str, Any, tuple[float, ...], float]] = [
        ("RCV1", rcv1, (1e-6, 1e-5), 2e9 / 9.8e7),
        ("ARCENE", streaml1.datasets.Arcene("train"), (1e-2, 1e-6), 1.2e9 / 5.4e5),
        ("MAGIC04S", streaml1.datasets.MAGIC04("sparse"), (1e-4, 1e-3), 2.5e8 / 1.12e6),
        ("MAGIC04D", streaml1.datasets.MAGIC04("dense"), (1e-4, 1e-3), 4e9 / 1.92e7),
    ]
    for name, data, strengths, passes in loaders:
        rows_and_labels = load_matrix(name, data) if name.startswith(only) else None
        if rows_and_labels is not None:
            X, y = (
                (standardize_columns if centre else scale_columns)(rows_and_labels[0]),
                rows_and_labels[1],
            )
            yield from (Problem(name, l1, X, y, passes) for l1 in strengths)


def synthetic() -> Iterator[Problem]:
    """Yield small problems of the same kinds: noise in most columns, sparse or dense rows."""
    rng = np.random.default_rng(SEED)
    for name, n, d, share, strengths in (
        ("RCV1", 300, 400, 0.03, (1e-6, 1e-5)),
        ("ARCENE", 40, 300, 0.54, (1e-2, 1e-6)),
        ("MAGIC04S", 300, 60, 0.06, (1e-4, 1e-3)),
        ("MAGIC04D", 300, 60, 1.0, (1e-4, 1e-3)),
    ):
        X = rng.uniform(-1.0, 1.0, (n, d)) * (rng.random((n, d)) < share)
        X[:, :5] = rng.uniform(-1.0, 1.0, (n, 5))
        y = X[:, :5] @ [3.0, -3.0, 2.0, -2.0, 1.0] + rng.normal(0.0, 0.5, n) > 0.0
        for l1 in strengths:
            yield Problem(name, l1, csr_matrix(X), y, 20.0, synthetic=True)


def objective(p: Problem, w: Any) -> float:
    margins = np.where(p.y, 1.0, -1.0) * (p.X @ w)
    return float(np.logaddexp(0.0, -margins).mean() + p.l1 * np.abs(w).sum())


def solve_quietly(solver: Callable[..., Any], p: Problem, **options: Any) -> Any:
    """Run a solver without the warning that it has not converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return solver(p.X, p.y, "logistic", p.l1, **options)


def trace_solver(solver: Callable[..., Any], p: Problem, horizon: float, **options: Any) -> Curve:
    """Run a solver and record it up to the first record past the horizon."""
    points = []

    def record_point(record: Any, w: Any) -> bool:
        points.append((record.accesses, record.objective, record.n_nonzero))
        return points[-1][0] >= horizon

    begin = time.thread_time()
    solve_quietly(solver, p, tol=1e-9, callback=record_point, **options)
    return Curve(*map(np.array, zip(*points, strict=True)), time.thread_time() - begin)


@kernel
def printed_scd_steps(
    ids: Any, values: Any, indptr: Any, y: Any, l1: float, draws: Any, w: Any, z: Any
) -> Any:
    """Run Algorithm 2 as printed: w >= 0 for [x, -x], and the step 1/beta of Eq. (9)."""
    d, m, accesses = len(indptr) - 1, len(y), 0
    for draw in draws:
        sign = 1.0 if draw < d else -1.0
        j = draw % d
        g = 0.0
        for k in range(indptr[j], indptr[j + 1]):
            g -= y[ids[k]] * sign * values[k] / (1.0 + math.exp(y[ids[k]] * z[ids[k]]))
        eta = max(-w[draw], -(g / m + l1) / 0.25)
        accesses += indptr[j + 1] - indptr[j]
        if eta != 0.0:
            w[draw] += eta
            for k in range(indptr[j], indptr[j + 1]):
                z[ids[k]] += eta * sign * values[k]
            accesses += indptr[j + 1] - indptr[j]
    return accesses


def run_printed(p: Problem, horizon: float) -> Curve:
    """Run SCD with the step of the paper, which requires |x| <= 1."""
    columns, d = p.X.tocsc(), p.X.shape[1]
    rng = np.random.default_rng(SEED)
    w, z, accesses = np.zeros(2 * d), np.zeros(len(p.y)), 0
    points = [(0, objective(p, np.zeros(d)), 0)]
    chunk = max(2, round(horizon / p.n_points * d / p.X.nnz / 2.0))
    begin = time.thread_time()
    while accesses < horizon:
        draws = rng.integers(0, 2 * d, chunk)
        accesses += int(
            printed_scd_steps(
                *(columns.indices, columns.data, columns.indptr),
                *(np.where(p.y, 1.0, -1.0), p.l1, draws, w, z),
            )
        )
        half = w[:d] - w[d:]
        points.append((accesses, objective(p, half), np.count_nonzero(half)))
    return Curve(*map(np.array, zip(*points, strict=True)), time.thread_time() - begin)


def run_constrained(p: Problem, horizon: float, weights: Any) -> Curve:
    """Run greedy steps in the ball that has the optimum on its surface."""
    points = []

    def record_point(record: Any, w: Any) -> bool:
        penalty = p.l1 * np.abs(w).sum()
        points.append((record.accesses, record.objective + penalty, record.n_nonzero))
        return bool(record.accesses >= horizon)

    begin = time.thread_time()
    radius = float(np.abs(weights).sum())
    frank_wolfe(p.X, p.y, radius=radius, tol=0.0, max_epochs=10**9, callback=record_point)
    return Curve(*map(np.array, zip(*points, strict=True)), time.thread_time() - begin)


def make_learner(name: str, p: Problem, rate: float) -> Any:
    shared: dict[str, Any] = {"lr": rate, "schedule": "constant", "intercept_lr": 0.0}
    if name == "SMIDAS":
        return streaml1.SMIDASClassifier(l1=p.l1, n_features=p.X.shape[1], **shared)
    return streaml1.TruncatedGradientClassifier(gravity=p.l1, period=1, **shared)


def draw_batches(p: Problem, rows: int, seed: int = SEED) -> Iterator[tuple[Any, Any]]:
    """Yield batches of examples drawn with replacement."""
    rng = np.random.default_rng(seed)
    batch_size = max(1, min(BATCH * len(p.y) // p.X.nnz, rows // p.n_points))
    for lo in range(0, rows, batch_size):
        sample = rng.integers(0, len(p.y), min(batch_size, rows - lo))
        yield p.X[sample], p.y[sample]


def learn_at_rates(
    name: str, p: Problem, horizon: float, rates: Sequence[float]
) -> dict[float, Curve]:
    """Run a learner at each rate on the same examples; each non-zero counts as two accesses."""
    models = [make_learner(name, p, rate) for rate in rates]
    rows = round(horizon / (2.0 * p.X.nnz / len(p.y)))
    accesses, seconds, due = 0, [0.0] * len(rates), horizon / p.n_points
    w = np.zeros(p.X.shape[1])
    points = [[(0, objective(p, w), 0)] for _ in rates]
    for X, y in draw_batches(p, rows):
        for k, model in enumerate(models):
            begin = time.thread_time()
            model.learn_many(X, y)
            seconds[k] += time.thread_time() - begin
        accesses += 2 * X.nnz
        if accesses >= due:
            due += horizon / p.n_points
            for k, model in enumerate(models):
                weights = model.weights
                w[:] = 0.0
                w[list(weights)] = list(weights.values())
                points[k].append((accesses, objective(p, w), len(weights)))
    return {
        rate: Curve(*map(np.array, zip(*points[k], strict=True)), seconds[k], rate)
        for k, rate in enumerate(rates)
    }


def learn_at_grid(name: str, p: Problem, horizon: float) -> dict[float, Curve]:
    """Run a learner at the paper's rates, and at others until the best is inside of the grid."""
    return search_many(
        lambda rates: list(learn_at_rates(name, p, horizon, rates).values()),
        (*RATES, *LARGER_RATES),
        lambda curve: float(curve.objective[-1]),
    ).tried


def run(p: Problem, most_accesses: float) -> Result:
    """Run all algorithms on one problem."""
    n, d = p.X.shape
    horizon = min(most_accesses, p.passes * p.X.nnz)
    best = solve_quietly(scd, p, tol=1e-5, max_epochs=3000)
    column_max: dict[str, Any] = {"max_epochs": 10**6}
    steps = max(1, round(horizon / p.X.nnz / p.n_points))
    curves = {
        "SCD": trace_solver(
            scd, p, horizon, step="bound", order="random", every=1, seed=SEED, **column_max
        ),
        "DETCD": trace_solver(detcd, p, horizon, every=steps, **column_max),
    }
    rates = {k: learn_at_grid(k, p, horizon) for k in ONLINE}
    for name in ONLINE:
        curves[name] = min((rates[name][r] for r in RATES), key=lambda c: c.objective[-1])
    curves[PRINTED] = run_printed(p, horizon)
    curves[CONSTRAINED] = run_constrained(p, horizon, best.weights)
    greedy = curves["DETCD"]
    passes = steps * np.arange(len(greedy.objective)) * p.X.nnz
    curves[RECOMPUTED] = greedy._replace(accesses=passes)
    square = float(p.X.multiply(p.X).sum()) / n
    return Result(horizon, best.objective, best.weights, curves, rates, (n, d), square)
