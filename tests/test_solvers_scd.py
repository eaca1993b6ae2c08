"""SCD and DETCD: steps by definition, a monotone objective, the optimum by other solvers."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

from streaml1.solvers import NotConverged, detcd, fista, scd, sdca
from streaml1.solvers.coordinate_kernels import (
    Problem,
    max_dual_scale,
    separable_infimum,
    transpose,
)
from streaml1.solvers.data import Data
from tests import reference_ascent as reference
from tests.reference_solvers import mean_loss, penalty
from tests.solver_data import DEGENERATE, degenerate, real, toy

LOSSES = ["logistic", "squared"]
STEPS = [(scd, {"step": "newton"}), (scd, {"step": "bound"}), (detcd, {})]
NAMES = ["newton", "bound", "detcd"]
PENALTIES = [(0.02, 0.0), (0.0, 0.02), (0.01, 0.03)]


def objective(name: str, X: Any, y: Any, w: Any, b: float, l1: float, l2: float) -> float:
    return float(mean_loss(name, X, y, w, b)[0]) + penalty("l1", w, l1, l2)


def solve_quietly(solver: Any, *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return solver(*args, **options)


@pytest.mark.parametrize("name", LOSSES)
def test_steps_match_the_reference(name: str) -> None:
    X, y = toy(name)
    d = X.shape[1]
    # Without l1 all weights may move, so that none is dropped.
    for c, lo, hi in ((0.0, -math.inf, math.inf), (-0.01, -0.1, 0.2)):
        options: dict[str, Any] = {"linear": c, "lower": lo, "upper": hi, "tol": 0.0}
        w = reference.scd(name, X, y, 0.0, 0.05, lo, hi, c, list(range(d)) * 2)
        solution = solve_quietly(
            *(scd, X, y, name, 0.0, 0.05), step="bound", order="cyclic", max_epochs=2, **options
        )
        assert solution.weights == pytest.approx(w, abs=1e-12)
        for l1 in (0.0, 0.05):
            w = reference.scd(name, X, y, l1, 0.05, lo, hi, c, [-1] * d)
            solution = solve_quietly(detcd, X, y, name, l1, 0.05, max_epochs=1, **options)
            assert solution.weights == pytest.approx(w, abs=1e-12)


@pytest.mark.parametrize("shape", [(40, 7), (1, 30), (30, 1), (200, 300)])
def test_transpose_of_signed_rows(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    X = csr_matrix(random_array(shape, density=0.2, rng=rng, data_sampler=rng.normal))
    data = Data(X, rng.integers(0, 2, shape[0]), "logistic")
    ids, values = np.empty(data.nnz, np.uint32), np.empty(data.nnz)
    indptr = np.zeros(shape[1] + 1, np.uint64)
    transpose(*data.rows, data.y, indptr, ids, values)
    expected = csr_matrix(X.toarray() * data.y[:, None]).tocsc()
    assert indptr.tolist() == expected.indptr.tolist()
    assert ids.tolist() == expected.indices.tolist() and values.tolist() == expected.data.tolist()


@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_infimum_of_the_penalty(l2: float) -> None:
    rng, grid = np.random.default_rng(5), np.linspace(-40.0, 40.0, 80_001)
    none = np.empty(0)
    for _ in range(60):
        v, c, l1 = rng.normal(), rng.normal() * rng.integers(0, 2), abs(rng.normal())
        lo = rng.choice([-math.inf, -1.5, 0.25])
        hi = rng.choice([math.inf, 2.0])
        parameters = [np.full(1, x) for x in (l1, l2, c, lo, hi)]
        p = Problem(none, none, none, *parameters)
        inside = grid[(grid >= lo) & (grid <= hi)]
        values = (v + c) * inside + l1 * np.abs(inside) + 0.5 * l2 * inside**2
        k = int(values.argmin())
        is_unbounded = l2 == 0.0 and abs(inside[k]) == 40.0
        infimum = separable_infimum(p, np.full(1, v), 1.0, 1e-13)
        assert infimum == (-math.inf if is_unbounded else pytest.approx(values[k], abs=1e-6))
        if l2 == 0.0 and is_unbounded and abs(c) <= l1:  # the largest scale with a finite infimum
            s = max_dual_scale(p, np.full(1, v), 1)
            assert 0.0 <= s < 1.0
            assert separable_infimum(p, np.full(1, v), s, 1e-13) > -math.inf
            assert separable_infimum(p, np.full(1, v), s * 1.001 + 1e-6, 1e-13) == -math.inf


def test_every_sets_the_number_of_records() -> None:
    X, y = toy("logistic")
    steps: list[int] = []

    def count(record: Any, weights: Any) -> None:
        w = reference.scd(
            "logistic", X, y, 0.02, 0.0, -math.inf, math.inf, 0.0, [-1] * 4 * len(steps)
        )
        assert weights == pytest.approx(w, abs=1e-12)
        steps.append(record.epoch)

    frequent = solve_quietly(detcd, X, y, l1=0.02, max_epochs=2, tol=0.0, every=4, callback=count)
    assert steps == [4 * k // X.shape[1] for k in range(len(steps))]
    default = solve_quietly(detcd, X, y, l1=0.02, max_epochs=2, tol=0.0)
    assert frequent.weights == pytest.approx(default.weights, abs=1e-12)
    epochs: list[int] = []
    scd(X, y, l1=0.02, every=1, callback=lambda record, weights: epochs.append(record.epoch))
    assert epochs == list(range(len(epochs)))
    for solver in (scd, detcd):
        with pytest.raises(ValueError, match="every must be an integer from 1 to"):
            solver(X, y, l1=0.02, every=0)


def test_accesses_count_the_steps() -> None:
    # X is dense: a step of detcd reads all entries to update the gradient, the first pass too.
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(20, 6)), rng.random(20) < 0.5
    for every in (1, 3, 5):
        solution = solve_quietly(detcd, X, y, l1=0.02, max_epochs=2, tol=0.0, every=every)
        accesses = [record.accesses for record in solution.trace]
        assert accesses == [0] + [X.size * (1 + every * k) for k in range(1, len(accesses))]
        assert len(accesses) > 3
    # An epoch of scd that moves all weights reads all entries for the gap, and each column twice.
    options: dict[str, Any] = {"step": "bound", "order": "cyclic", "every": 1, "tol": 0.0}
    for name in LOSSES:
        solution = solve_quietly(scd, X, y, name, 0.0, 0.05, max_epochs=4, **options)
        assert [record.accesses for record in solution.trace] == [3 * X.size * k for k in range(5)]


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
@pytest.mark.parametrize(("solver", "options"), STEPS, ids=NAMES)
@pytest.mark.parametrize("name", LOSSES)
def test_optimum(
    name: str, solver: Any, options: Any, l1: float, l2: float, fit_intercept: bool
) -> None:
    X, y = toy(name)
    X = X * 3.0  # too large for the step size of the paper
    solution = solver(
        X, y, name, l1, l2, fit_intercept=fit_intercept, tol=1e-9, max_epochs=5000, **options
    )
    assert solution.converged
    w, b = solution.weights, solution.intercept
    assert solution.objective == pytest.approx(objective(name, X, y, w, b, l1, l2), abs=1e-12)
    assert bool(b) == fit_intercept
    assert np.diff([record.objective for record in solution.trace]).max() <= 1e-15
    expected = fista(
        *(X, y), loss=name, l1=l1, l2=l2, fit_intercept=fit_intercept, tol=1e-9, max_epochs=9999
    )
    assert solution.objective == pytest.approx(expected.objective, abs=5e-9)
    # Optimality conditions.
    _, g, slope = mean_loss(name, X, y, w, b)
    g = g + l2 * w
    assert np.where(w != 0.0, np.abs(g + l1 * np.sign(w)), np.abs(g) - l1).max() < 1e-3
    assert not fit_intercept or abs(slope) < 1e-3


def test_agrees_with_scikit_learn() -> None:
    X, y = toy("logistic")
    n = len(X)
    estimator: Any = LogisticRegression(
        C=1 / (0.02 * n), l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-10
    ).fit(X, y)
    theirs = objective("logistic", X, y, estimator.coef_.ravel(), 0.0, 0.02, 0.0)
    assert scd(X, y, l1=0.02, tol=1e-9).objective == pytest.approx(theirs, abs=1e-6)
    X, y = toy("squared")
    for estimator, l1, l2 in (
        (Lasso(alpha=0.05, tol=1e-12), 0.05, 0.0),
        (ElasticNet(alpha=0.05, l1_ratio=0.4, tol=1e-12), 0.02, 0.03),
    ):
        estimator.fit(X, y)
        theirs = objective("squared", X, y, estimator.coef_, float(estimator.intercept_), l1, l2)
        solution = scd(X, y, "squared", l1, l2, fit_intercept=True, tol=1e-9)
        assert solution.objective == pytest.approx(theirs, abs=1e-6)
        assert solution.weights == pytest.approx(estimator.coef_, abs=1e-3)
        assert ((solution.weights == 0.0) == (estimator.coef_ == 0.0)).all()


def test_dual_of_the_hinge_loss() -> None:
    X, y = toy("hinge")
    n, d, l2 = *X.shape, 0.05
    A = (X * y[:, None]).T
    primal = sdca(X, y, "hinge", l2=l2, tol=1e-10, max_epochs=9999)
    for solver in (scd, detcd):
        dual = solver(
            *(A * math.sqrt(d / l2) / n, np.zeros(d), "squared"),
            **{"linear": -1.0 / n, "lower": 0.0, "upper": 1.0, "tol": 1e-10, "max_epochs": 9999},
        )
        assert dual.converged and -dual.objective == pytest.approx(primal.objective, abs=1e-9)
        assert dual.weights.min() >= 0.0 and dual.weights.max() <= 1.0
        assert A @ dual.weights / (l2 * n) == pytest.approx(primal.weights, abs=1e-4)


def test_bounds_of_each_weight() -> None:
    X, y = toy("squared")
    d = X.shape[1]
    free = scd(X, y, "squared", l2=0.01, tol=1e-10)
    lower = np.where(np.arange(d) % 2, -math.inf, free.weights + 0.1)
    solution = scd(X, y, "squared", l2=0.01, lower=lower, tol=1e-10)
    assert solution.converged and (solution.weights >= lower).all()
    assert solution.objective > free.objective
    g = mean_loss("squared", X, y, solution.weights, 0.0)[1] + 0.01 * solution.weights
    held = solution.weights == lower
    assert held.any() and (g[held] > 0.0).all() and np.abs(g[~held]).max() < 1e-4


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize(("solver", "options"), STEPS, ids=NAMES)
@pytest.mark.parametrize("name", LOSSES)
def test_degenerate_data(name: str, solver: Any, options: Any, case: str) -> None:
    X, y = degenerate(case, name)
    for fit_intercept in (False, True):
        # With a single label and an intercept there is no optimum: the intercept diverges.
        is_unbounded = name == "logistic" and fit_intercept and case in ("one row", "one label")
        max_epochs = 3_000 if is_unbounded else 30_000
        solution = solve_quietly(
            *(solver, X, y, name, 0.02),
            **{"fit_intercept": fit_intercept, "max_epochs": max_epochs, **options},
        )
        value = objective(name, X, y, solution.weights, solution.intercept, 0.02, 0.0)
        assert solution.objective == pytest.approx(value, rel=1e-9, abs=1e-12)
        zero = objective(name, X, y, np.zeros(X.shape[1]), 0.0, 0.02, 0.0)
        assert solution.objective <= zero + 1e-12 and solution.gap >= 0.0
        assert solution.converged or case == "large" or is_unbounded
        if case == "duplicate column":
            expected = fista(X[:, 1:], y, loss=name, l1=0.02, fit_intercept=fit_intercept, tol=1e-8)
            assert solution.objective == pytest.approx(
                expected.objective, abs=2e-6 * max(1.0, zero)
            )


def test_any_order_of_rows_columns_and_steps() -> None:
    X, y = toy("logistic")
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    original = scd(X, y, l1=0.01, tol=1e-9)
    for order in ("permutation", "random", "cyclic"):
        permuted = scd(csr_matrix(X[rows][:, columns]), y[rows], l1=0.01, tol=1e-9, order=order)
        assert permuted.converged and permuted.objective == pytest.approx(
            original.objective, abs=2e-9
        )
        assert permuted.weights == pytest.approx(original.weights[columns], abs=1e-3)
    assert (scd(X, y, l1=0.01, tol=1e-9).weights == original.weights).all()
    with_callback = scd(X, y, l1=0.01, tol=1e-9, callback=lambda record, w: None)
    assert (with_callback.weights == original.weights).all()


def test_not_converged_warning_names_the_gap() -> None:
    X, y = toy("logistic")
    for solver in (scd, detcd):
        sentence = rf"{solver.__name__} stopped after 1 epochs with a gap of \d"
        with pytest.warns(NotConverged, match=sentence):
            solution = solver(X, y, l1=1e-4, tol=1e-12, max_epochs=1)
        assert not solution.converged and solution.gap > 1e-12


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"loss": "hinge"},
            r"cd does not support loss='hinge'; use one of \"logistic\", \"squared\"",
        ),
        ({}, r"cd does not support l1=0 with l2=0"),
        ({"l1": 0.1, "lower": [0.0, 1.0]}, r"does not support lower= of shape \(2,\)"),
        ({"l1": 0.1, "lower": "a"}, r"does not support lower='a'; use a number, or \d+ of them"),
        (
            {"l1": 0.1, "upper": [1.0, [2.0]]},
            r"does not support upper=\[1.0, \[2.0\]\]; use a number",
        ),
        ({"l1": 0.1, "linear": {}}, r"does not support linear={}; use a number"),
        ({"l1": 0.1, "lower": 1.0, "upper": 0.0}, r"does not support these bounds"),
        ({"l1": 0.1, "lower": math.nan}, r"does not support these bounds"),
        ({"l1": 0.1, "linear": math.inf}, r"does not support a linear term that is not finite"),
        ({"l1": -0.1}, r"l1 must be .*, got -0.1"),
        ({"l1": 0.1, "fit_intercept": 2}, r"fit_intercept must be a bool, got 2"),
    ],
)
def test_unsupported_arguments(options: dict[str, Any], sentence: str) -> None:
    X, y = toy("logistic")
    for solver in (scd, detcd):
        with pytest.raises(ValueError, match=sentence):
            solver(X, y, **options)
    for scd_options in ({"order": "sorted"}, {"step": "long"}):
        with pytest.raises(ValueError, match="scd does not support"):
            scd(X, y, l1=0.1, **scd_options)


def test_real_data() -> None:
    X, y = real("rcv1")
    solution = scd(X, y, l1=1e-3)
    assert solution.converged
    assert scd(X, y, l1=1e-3, step="bound").objective == pytest.approx(solution.objective, abs=2e-6)
