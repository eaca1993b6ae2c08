"""Prox-SDCA: a step by definition, a monotone dual, its optimum by other solvers."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from streaml1.solvers import NotConverged, fista, prox_sdca, scd, sdca
from streaml1.solvers.prox_sdca import LOSSES
from streaml1.solvers.prox_steps import SquaredNorm
from streaml1.solvers.solution import Trace
from tests import reference_ascent as reference
from tests.reference_solvers import mean_loss, penalty
from tests.solver_data import DEGENERATE, degenerate, real, toy

SCALAR_LOSSES = list(LOSSES)
SMOOTH = ["logistic", "smoothed_hinge", "squared"]


def objective(name: str, X: Any, y: Any, w: Any, l1: float, l2: float, gamma: float = 1.0) -> float:
    return float(mean_loss(name, X, y, w, 0.0, gamma)[0]) + penalty("l1", w, l1, l2)


def solve_quietly(*args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return prox_sdca(*args, **options)


@pytest.mark.parametrize("norm", ["l2", "q"])
@pytest.mark.parametrize("name", [name for name in SCALAR_LOSSES if name != "logistic"])
def test_steps_match_the_reference(name: str, norm: str) -> None:
    X, y = toy(name, n=12, d=40)
    options: dict[str, Any] = {"gamma": 0.5, "order": "cyclic", "tol": 0.0}
    solution = solve_quietly(X, y, name, 0.03, norm=norm, inner=0.1, max_epochs=1, **options)
    w = reference.prox_sdca(name, X, y, 0.03, 0.1, norm, 0.5, epochs=1)
    assert solution.weights == pytest.approx(w, abs=1e-9) and w.any()
    if norm == "l2":
        solution = solve_quietly(X, y, name, 0.03, 0.1, inner=0.1, max_epochs=2, **options)
        w = reference.prox_sdca(name, X, y, 0.03, 0.1, norm, 0.5, epochs=2)
        assert solution.weights == pytest.approx(w, abs=1e-9)


@given(
    u=st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=30),
    p=st.sampled_from([2.0, 2.5, 6.0, 12.0]),
    seed=st.integers(0, 99),
)
def test_squared_norm(u: list[float], p: float, seed: int) -> None:
    h = SquaredNorm(p, 3.0 * p)
    theta = np.array(u)
    psi = np.random.default_rng(seed).normal(size=len(u))

    def conjugate(v: Any) -> float:
        return h.dual_norm(v) ** 2 / (2.0 * h.c)

    w = h.weights(theta)
    # h* = |.|_p^2 / 2c: its gradient, and its smoothness ...
    for t in (1e-4, 0.1, 1.0):
        change = conjugate(theta + t * psi) - conjugate(theta) - t * float(w @ psi)
        bound = (p - 1.0) / (2.0 * h.c) * (t * h.dual_norm(psi)) ** 2
        assert -1e-9 <= change <= bound * (1.0 + 1e-9) + 1e-9
    # ... and h by its definition.
    q = p / (p - 1.0)

    def value(x: Any) -> float:
        return h.c / 2.0 * float((np.abs(x) ** q).sum()) ** (2.0 / q)

    v = h.weights(psi)
    expected = value(w) - value(v) - float(psi @ (w - v))
    assert h.distance(theta, psi) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("order", ["permutation", "random", "cyclic"])
@pytest.mark.parametrize("name", SCALAR_LOSSES)
def test_without_stages_the_dual_never_decreases(
    name: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[tuple[float, float]] = []
    plain = Trace.record

    def record(self: Trace, epoch: int, value: float, dual: float, *args: Any) -> bool:
        records.append((value, dual))
        return plain(self, epoch, value, dual, *args)

    monkeypatch.setattr(Trace, "record", record)
    X, y = toy(name)
    solution = prox_sdca(
        *(X, y, name, 0.02, 0.05),
        **{"inner": 0.05, "gamma": 0.5, "order": order, "tol": 1e-8, "max_epochs": 20_000},
        callback=lambda record, w: None,
    )
    values, dual = np.array(records).T
    assert solution.converged and (np.diff(dual) >= -1e-13).all() and (values >= dual - 1e-13).all()
    expected = objective(name, X, y, solution.weights, 0.02, 0.05, 0.5)
    assert solution.objective == pytest.approx(expected, abs=1e-12)
    if name in SMOOTH:
        expected_solution = fista(
            X, y, loss=name, l1=0.02, l2=0.05, gamma=0.5, tol=1e-9, max_epochs=9999
        )
        assert solution.objective == pytest.approx(expected_solution.objective, abs=2e-8)


@pytest.mark.parametrize("name", ["logistic", "smoothed_hinge", "squared", "hinge"])
def test_small_l2_takes_at_most_twice_the_epochs_of_l1_alone(name: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 30))
    w = np.concatenate([2.0 * rng.normal(size=5), np.zeros(25)])
    y = X @ w + rng.normal(size=120)
    if name != "squared":
        y = y > 0.0
    alone = prox_sdca(X, y, name, 0.01, tol=1e-6, max_epochs=10_000)
    assert alone.converged
    for l2 in (1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        solution = prox_sdca(X, y, name, 0.01, l2, tol=1e-6, max_epochs=2 * alone.trace[-1].epoch)
        assert solution.converged
        if name in SMOOTH:
            expected = fista(X, y, loss=name, l1=0.01, l2=l2, tol=1e-8, max_epochs=20_000)
            assert solution.objective == pytest.approx(expected.objective, abs=2e-6)


@pytest.mark.parametrize("norm", ["l2", "q"])
@pytest.mark.parametrize("d", [8, 100])
@pytest.mark.parametrize("name", SMOOTH)
def test_l1_alone(name: str, d: int, norm: str) -> None:
    X, y = toy(name, d=d)
    solution = prox_sdca(X, y, name, 0.05, norm=norm, tol=1e-7, max_epochs=20_000)
    assert solution.converged
    w = solution.weights
    assert solution.objective == pytest.approx(objective(name, X, y, w, 0.05, 0.0), abs=1e-12)
    expected = fista(X, y, loss=name, l1=0.05, tol=1e-8, max_epochs=20_000)
    assert solution.objective == pytest.approx(expected.objective, abs=2e-7)
    g = mean_loss(name, X, y, w, 0.0)[1]
    assert np.where(w != 0.0, np.abs(g + 0.05 * np.sign(w)), np.abs(g) - 0.05).max() < 3e-3
    if name != "smoothed_hinge":
        by_columns = scd(X, y, name, 0.05, tol=1e-8, max_epochs=20_000)
        assert solution.objective == pytest.approx(by_columns.objective, abs=2e-7)


@pytest.mark.parametrize("norm", ["l2", "q"])
@pytest.mark.parametrize("name", ["hinge", "absolute"])
def test_l1_with_a_piecewise_linear_loss_is_a_linear_program(name: str, norm: str) -> None:
    X, y = toy(name, n=40, d=5)
    n, d, l1 = *X.shape, 0.05
    solution = prox_sdca(X, y, name, l1, norm=norm, tol=1e-6, max_epochs=50_000)
    eye = np.eye(n)
    if name == "hinge":
        A = -y[:, None] * X
        rows, bounds = np.hstack([A, -A, -eye]), -np.ones(n)
    else:
        rows = np.vstack([np.hstack([X, -X, -eye]), np.hstack([-X, X, -eye])])
        bounds = np.append(y, -y)
    costs = np.append(np.full(2 * d, l1), np.full(n, 1.0 / n))
    expected = linprog(costs, A_ub=rows, b_ub=bounds, bounds=(0, None))
    assert solution.converged and solution.objective == pytest.approx(expected.fun, abs=2e-6)


@pytest.mark.parametrize("norm", ["l2", "q"])
@pytest.mark.parametrize("seed", range(4))
def test_failed_stages_are_repeated(seed: int, norm: str) -> None:
    # With correlated rows of one label, hinge steps undo each other, and the gap estimated by an
    # epoch says little.
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3, 2)) + 3.0 * rng.normal(size=(3, 1))
    solution = solve_quietly(X, [True] * 3, "hinge", 1e-3, norm=norm, tol=1e-4)
    objectives = [record.objective for record in solution.trace]
    assert max(objectives) < 100.0 and solution.objective < 0.9


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("name", SCALAR_LOSSES)
def test_degenerate_data(name: str, case: str) -> None:
    X, y = degenerate(case, name)
    for l1, l2, norm in ((0.1, 0.0, "l2"), (0.1, 0.0, "q"), (0.1, 0.1, "l2")):
        solution = solve_quietly(X, y, name, l1, l2, norm=norm, max_epochs=3000, tol=1e-5)
        value = objective(name, X, y, solution.weights, l1, l2)
        assert solution.objective == pytest.approx(value, rel=1e-9)
        zero = objective(name, X, y, np.zeros(X.shape[1]), l1, l2)
        assert solution.gap >= 0.0 and solution.dual <= zero + 1e-12
        is_hard = case == "large" or (name in ("hinge", "absolute") and not l2)
        assert solution.converged or is_hard


def test_without_l1_it_equals_sdca_in_any_row_order() -> None:
    X, y = toy("hinge")
    expected = sdca(X, y, "hinge", l2=0.01, tol=1e-9, max_epochs=9999)
    solution = prox_sdca(X, y, "hinge", 0.0, 0.01, tol=1e-9, max_epochs=9999)
    assert solution.objective == pytest.approx(expected.objective, abs=2e-9)
    X, y = toy("logistic")
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    original = prox_sdca(X, y, l1=0.01, tol=1e-8)
    permuted = prox_sdca(csr_matrix(X[rows][:, columns]), y[rows], l1=0.01, tol=1e-8)
    assert permuted.objective == pytest.approx(original.objective, abs=2e-8)
    assert (prox_sdca(X, y, l1=0.01, tol=1e-8).weights == original.weights).all()


@pytest.mark.parametrize("norm", ["l2", "q"])
@pytest.mark.parametrize("name", ["logistic", "hinge", "squared"])
def test_values_with_denormal_squares(name: str, norm: str) -> None:
    """The inner strength stays large enough to divide by: no weight is NaN."""
    X, y = toy(name)
    for scale in (1e-150, 1e-155, 1e-160, 1e-161, 1e-170):
        solution = prox_sdca(X * scale, y, name, 0.1, norm=norm)
        assert solution.converged and not solution.weights.any()
    with warnings.catch_warnings(action="ignore", category=NotConverged):
        solution = prox_sdca(X, y, name, 0.1, norm=norm, inner=1e-320, max_epochs=20)
    assert np.isfinite(solution.weights).all()


def test_not_converged_warning_names_the_gap() -> None:
    X, y = toy("hinge")
    with pytest.warns(NotConverged, match=r"prox_sdca stopped after 2 epochs with a gap of \d"):
        prox_sdca(X, y, "hinge", 1e-4, tol=1e-12, max_epochs=2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"l1": 0.0}, r"prox_sdca does not support l1=0 with l2=0"),
        ({"l2": 0.1, "norm": "q"}, r"prox_sdca does not support norm=\"q\" with l2=0.1"),
        ({"norm": "l1"}, r"prox_sdca does not support norm='l1'"),
        ({"fit_intercept": True}, r"prox_sdca does not support fit_intercept=True"),
        ({"loss": "softmax"}, r"prox_sdca does not support loss='softmax'"),
        ({"order": 1}, r"prox_sdca does not support order=1"),
        ({"inner": 0.0}, r"inner must be .*, got 0.0"),
        ({"l1": math.nan}, r"l1 must be .*, got nan"),
    ],
)
def test_unsupported_arguments(options: dict[str, Any], sentence: str) -> None:
    X, y = toy("logistic")
    with pytest.raises(ValueError, match=sentence):
        prox_sdca(X, y, **options)


def test_real_data() -> None:
    X, y = real("rcv1")
    solution = prox_sdca(X, y, l1=1e-3)
    assert solution.converged
    assert solution.objective == pytest.approx(scd(X, y, l1=1e-3).objective, abs=2e-6)
