"""Accelerated SDCA: its iterations by definition, its optimum by other solvers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from streaml1.solvers import NotConverged, accelerated_sdca, sdca
from streaml1.solvers.sampling import PERMUTATION, fill_order, rng_state
from tests import reference_ascent as reference
from tests.reference_solvers import mean_loss, penalty
from tests.solver_data import DEGENERATE, degenerate, toy

SMOOTH = {"logistic": 4.0, "smoothed_hinge": 0.5, "squared": 1.0}


def objective(name: str, X: Any, y: Any, w: Any, l2: float, gamma: float = 1.0) -> float:
    return float(mean_loss(name, X, y, w, 0.0, gamma)[0]) + penalty("l1", w, 0.0, l2)


def solve_quietly(*args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return accelerated_sdca(*args, **options)


def batches(n: int, m: int, epochs: int, seed: int) -> list[Any]:
    ids, order, state = np.arange(n, dtype=np.uint32), np.zeros(n, np.uint32), rng_state(seed)
    result = []
    for _ in range(epochs):
        fill_order(PERMUTATION, ids, n, state, order)
        result += [order[start : start + m].copy() for start in range(0, n, m)]
    return result


@pytest.mark.parametrize("m", [1, 7, 60, 100])
@pytest.mark.parametrize("name", SMOOTH)
def test_iterations_match_the_reference(name: str, m: int) -> None:
    X, y = toy(name)
    options: dict[str, Any] = {"l2": 0.05, "batch": m, "gamma": 0.5, "seed": 3, "tol": 0.0}
    solution = solve_quietly(X, y, name, max_epochs=5, **options)
    minibatches = batches(len(X), m, 5, 3)
    w = reference.accelerated(name, X, y, 0.05, 0.5, SMOOTH[name], minibatches, min(m, len(X)))
    assert solution.weights == pytest.approx(w, abs=1e-11)


@pytest.mark.parametrize("m", [1, 16, 1000])
@pytest.mark.parametrize("name", SMOOTH)
def test_optimum(name: str, m: int) -> None:
    X, y = toy(name)
    options: dict[str, Any] = {"l2": 0.02, "gamma": 0.5, "max_epochs": 100_000}
    solution = accelerated_sdca(X, y, name, batch=m, tol=1e-8, **options)
    assert solution.converged and solution.gap >= 0.0
    assert solution.objective == pytest.approx(objective(name, X, y, solution.weights, 0.02, 0.5))
    expected = sdca(X, y, name, tol=1e-9, **options)
    assert solution.objective == pytest.approx(expected.objective, abs=2e-8)


def test_long_runs_stay_accurate() -> None:
    # s falls below its minimum several times.
    X, y = toy("squared")
    solution = solve_quietly(X, y, "squared", l2=1.0, batch=1, tol=0.0, max_epochs=1000)
    n, d = X.shape
    w = np.linalg.solve(X.T @ X / n + np.eye(d), X.T @ y / n)
    assert solution.weights == pytest.approx(w, abs=1e-9)


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("name", SMOOTH)
def test_degenerate_data(name: str, case: str) -> None:
    X, y = degenerate(case, name)
    solution = solve_quietly(X, y, name, l2=0.1, max_epochs=20_000, tol=1e-5)
    assert solution.objective == pytest.approx(objective(name, X, y, solution.weights, 0.1))
    assert solution.converged or case == "large"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"loss": "hinge"}, r"accelerated_sdca does not support loss='hinge'"),
        ({"l1": 0.1}, r"accelerated_sdca does not support l1=0.1; use prox_sdca"),
        ({"l2": 0.0}, r"accelerated_sdca does not support l2=0"),
        ({"fit_intercept": True}, r"accelerated_sdca does not support fit_intercept=True"),
        ({"batch": 0}, r"batch must be .*, got 0"),
        ({"batch": 1.5}, r"batch must be .*, got 1.5"),
    ],
)
def test_unsupported_arguments(options: dict[str, Any], sentence: str) -> None:
    X, y = toy("logistic")
    with pytest.raises(ValueError, match=sentence):
        accelerated_sdca(X, y, **options)


def test_not_converged_warning_names_the_gap() -> None:
    X, y = toy("logistic")
    with pytest.warns(NotConverged, match=r"accelerated_sdca stopped after 2 epochs with a gap"):
        accelerated_sdca(X, y, l2=1e-4, tol=1e-12, max_epochs=2)
