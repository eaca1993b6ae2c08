"""Greedy coordinate steps in an l1 ball: steps, gap and optimum."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from streaml1.solvers import NotConverged, Record, Solution, fista, frank_wolfe
from tests import reference_solvers as reference
from tests.solver_data import DEGENERATE, degenerate, toy

LOSSES = ("logistic", "smoothed_hinge", "squared")


def solve_quietly(X: Any, y: Any, **options: Any) -> Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return frank_wolfe(X, y, **options)


@pytest.mark.parametrize("loss", LOSSES)
def test_steps_match_the_reference(loss: str) -> None:
    X, y = toy(loss, n=25)
    path: list[Any] = []

    def callback(record: Record, weights: Any) -> None:
        path.append(weights.copy())

    solve_quietly(
        csr_matrix(X), y, loss=loss, radius=1.5, tol=0.0, max_epochs=12, callback=callback
    )
    expected = reference.frank_wolfe(loss, X, y, 1.5, 12)
    assert len(path) == 13 and not path[0].any()
    for got, slow in zip(path[1:], expected, strict=True):
        np.testing.assert_allclose(got, slow, rtol=0.0, atol=1e-10)
        assert ((got != 0.0) == (slow != 0.0)).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("radius", [0.3, 2.0])
def test_gap_and_optimum(loss: str, radius: float) -> None:
    X, y = toy(loss)
    solution = frank_wolfe(X, y, loss=loss, radius=radius, tol=3e-4)
    best = fista(X, y, loss=loss, penalty="ball", radius=radius, tol=1e-8, max_epochs=50_000)
    assert solution.converged
    assert best.objective - 1e-7 <= solution.objective <= best.objective + 3e-4
    assert np.abs(solution.weights).sum() <= radius * (1.0 + 1e-12)
    values = [record.objective for record in solution.trace]
    assert (np.diff(values) <= 1e-12).all()
    for record in solution.trace:
        assert record.dual <= best.objective + 1e-7
        assert record.n_nonzero <= record.epoch  # a step adds at most one weight


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("loss", LOSSES)
def test_degenerate_data(loss: str, case: str) -> None:
    X, y = degenerate(case, loss)
    solution = solve_quietly(X, y, loss=loss, radius=1.0, tol=1e-2, max_epochs=3_000)
    assert np.isfinite(solution.weights).all() and solution.gap >= 0.0
    if case in ("all zero", "no columns"):
        assert solution.converged and not solution.weights.any()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"loss": "hinge"}, "frank_wolfe does not support loss='hinge'"),
        ({"l1": 0.1}, "frank_wolfe does not support l1=0.1; use a radius, or fista"),
        ({"l2": 0.1}, "frank_wolfe does not support l2=0.1; use a radius, or fista"),
        ({"fit_intercept": True}, "frank_wolfe does not support fit_intercept=True"),
        ({"radius": 0.0}, "radius must be"),
    ],
)
def test_unsupported_arguments(options: dict[str, Any], sentence: str) -> None:
    X, y = toy("logistic")
    with pytest.raises(ValueError) as error:
        frank_wolfe(X, y, **options)
    assert str(error.value).startswith(sentence)


def test_not_converged_warning() -> None:
    X, y = toy("logistic")
    with pytest.warns(NotConverged, match="frank_wolfe stopped after 2 epochs with a gap of"):
        frank_wolfe(X, y, max_epochs=2)
