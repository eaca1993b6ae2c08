"""SDCA: a step by definition, a monotone dual, a valid gap, its optimum by other solvers."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC, LinearSVR

from streaml1.optim.losses import CODES
from streaml1.solvers import NotConverged, dual_steps, fista, sdca
from streaml1.solvers.dual_steps import is_at_bound, label_logit
from streaml1.solvers.prox_sdca import LOSSES
from streaml1.solvers.sampling import fill_order, rng_state
from streaml1.solvers.solution import Trace
from tests import reference_ascent as reference
from tests.reference_solvers import loss as slow_loss
from tests.reference_solvers import mean_loss, penalty
from tests.solver_data import DEGENERATE, degenerate, real, toy

FIVE = list(LOSSES)
ORDERS = ["permutation", "random", "cyclic"]


def objective(name: str, X: Any, y: Any, w: Any, l2: float, gamma: float = 1.0) -> float:
    return float(mean_loss(name, X, y, w, 0.0, gamma)[0]) + penalty("l1", w, 0.0, l2)


@pytest.fixture
def duals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """Collect objective and dual of each record; the trace itself keeps the largest dual."""
    records: list[tuple[float, float]] = []
    plain = Trace.record

    def record(self: Trace, epoch: int, value: float, dual: float, *args: Any) -> bool:
        records.append((value, dual))
        return plain(self, epoch, value, dual, *args)

    monkeypatch.setattr(Trace, "record", record)
    return records


# Steps

NUMBERS = st.floats(-8.0, 8.0)


def best(code: int, a: float, alpha: float, y: float, q: float, gamma: float) -> float:
    return dual_steps.optimal_alpha(code, a, alpha, label_logit(code, alpha, y), y, q, gamma)


def share_of_gap(code: int, a: float, alpha: float, y: float, gamma: float) -> float:
    return dual_steps.example_gap(code, a, alpha, label_logit(code, alpha, y), y, gamma)


@given(
    name=st.sampled_from([name for name in FIVE if name != "logistic"]),
    a=NUMBERS,
    part=st.sampled_from([0.0, 0.25, 0.7, 1.0]),
    y=NUMBERS,
    q=st.floats(1e-3, 1e3),
    gamma=st.floats(0.05, 3.0),
)
def test_step_is_optimal(
    name: str, a: float, part: float, y: float, q: float, gamma: float
) -> None:
    y = y if name in ("squared", "absolute") else 1.0 if y > 0 else -1.0
    alpha = part * (y if name != "absolute" else 1.0)
    got = best(CODES[name], a, alpha, y, q, gamma)
    # The bisection finds z = a + q (alpha' - alpha) to about 1e-12.
    expected = reference.dual_step(name, a, alpha, y, q, gamma)
    assert got == pytest.approx(expected, rel=1e-9, abs=1e-9 / min(q, 1.0))


def entropy(b: float) -> float:
    return b * math.log(b) + (1.0 - b) * math.log1p(-b) if 0.0 < b < 1.0 else 0.0


@given(
    ya=st.floats(-300.0, 300.0),
    logit=st.one_of(st.floats(-30.0, 30.0), st.sampled_from([-math.inf, math.inf])),
    q=st.one_of(st.just(0.0), st.floats(1e-6, 1e6)),
    y=st.sampled_from([-1.0, 1.0]),
)
def test_logistic_step_is_nearly_optimal_and_never_decreases(
    ya: float, logit: float, q: float, y: float
) -> None:
    b = 1.0 / (1.0 + math.exp(-logit)) if abs(logit) < 1e300 else float(logit > 0)
    got = y * best(CODES["logistic"], y * ya, y * b, y, q, 1.0)
    assert 0.0 <= got <= 1.0

    def dual(beta: float) -> float:
        return -entropy(beta) - ya * (beta - b) - 0.5 * q * (beta - b) ** 2

    low, high = 0.0, 1.0  # bracket of the sign change of the derivative
    for _ in range(200):
        middle = 0.5 * (low + high)
        rising = (
            math.log1p(-middle) - math.log(middle) - ya - q * (middle - b) > 0.0
            if 0.0 < middle < 1.0
            else middle == 0.0
        )
        low, high = (middle, high) if rising else (low, middle)
    rise = dual(low) - dual(b)
    rounding = 1e-11 * (1.0 + abs(ya) + q)
    assert dual(got) >= dual(b) + 0.7 * rise - rounding


@given(
    name=st.sampled_from(FIVE),
    a=NUMBERS,
    part=st.floats(0.0, 1.0),
    y=st.sampled_from([-1.0, 1.0]),
    gamma=st.floats(0.05, 3.0),
    distance=st.floats(0.0, 3.0),
)
def test_dropped_examples_would_not_move(
    name: str, a: float, part: float, y: float, gamma: float, distance: float
) -> None:
    code, alpha = CODES[name], y * round(part)
    if is_at_bound(code, a, alpha, y, gamma, distance):
        assert best(code, a, alpha, y, 0.7, gamma) == alpha
        # The same holds after other steps move the margin by less than `distance`.
        for moved in (a - 0.99 * distance, a + 0.99 * distance):
            assert best(code, moved, alpha, y, 0.7, gamma) == alpha


@given(name=st.sampled_from(FIVE), a=NUMBERS, part=st.floats(0.0, 1.0))
def test_share_of_the_gap(name: str, a: float, part: float) -> None:
    y, alpha = 1.0, part
    got = share_of_gap(CODES[name], a, alpha, y, 0.5)
    assert got >= -1e-12
    # phi*(-alpha), as the maximum of -alpha z - phi(z) over many z.
    z = np.linspace(-40.0, 40.0, 8001)
    conjugate = max(-alpha * t - slow_loss(name, float(t), y, 0.5)[0] for t in z)
    expected = slow_loss(name, a, y, 0.5)[0] + conjugate + alpha * a
    if name != "logistic":
        assert got == pytest.approx(expected, abs=2e-3)
    elif 0.05 < part < 0.95 and expected < 0.01:
        assert got == pytest.approx(expected, rel=0.5, abs=1e-4)


# Runs


@pytest.mark.parametrize("name", [name for name in FIVE if name != "logistic"])
def test_steps_match_the_reference(name: str) -> None:
    X, y = toy(name, n=30)
    w, _ = reference.sdca(name, X, y, 0.02, 0.5, epochs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        solution = sdca(X, y, name, l2=0.02, gamma=0.5, order="cyclic", tol=0.0, max_epochs=2)
    assert solution.weights == pytest.approx(w, abs=1e-9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", FIVE)
def test_dual_never_decreases_and_gap_is_valid(
    name: str, order: str, duals: list[tuple[float, float]]
) -> None:
    X, y = toy(name)
    l2 = 1e-2 if name == "absolute" else 1e-3
    solution = sdca(
        *(X, y, name),
        **{"l2": l2, "gamma": 0.5, "order": order, "tol": 1e-8, "max_epochs": 20_000},
        callback=lambda record, w: None,
    )
    assert solution.converged and solution.gap <= 1e-8
    values, dual = np.array(duals).T
    assert (np.diff(dual) >= -1e-13).all()
    assert (values - dual >= -1e-13).all()
    assert solution.objective == pytest.approx(objective(name, X, y, solution.weights, l2, 0.5))
    assert [record.epoch for record in solution.trace] == list(range(len(solution.trace)))
    if name in ("logistic", "smoothed_hinge", "squared"):
        expected = fista(X, y, loss=name, l2=1e-3, gamma=0.5, tol=1e-9, max_epochs=100_000)
        assert solution.objective == pytest.approx(expected.objective, abs=2e-8)
        gradient = mean_loss(name, X, y, solution.weights, 0.0, 0.5)[1] + 1e-3 * solution.weights
        assert np.abs(gradient).max() < 1e-3


def test_agrees_with_scikit_learn() -> None:
    n = 60
    for name, C in (("hinge", 2.0), ("logistic", 2.0), ("squared", 2.0), ("absolute", 2.0)):
        X, y = toy(name, n=n)
        rival: Any = {
            "hinge": LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-10),
            "logistic": LogisticRegression(C=C, fit_intercept=False, tol=1e-10),
            "squared": Ridge(alpha=1.0 / C, fit_intercept=False, tol=1e-12),
            "absolute": LinearSVR(
                C=C, epsilon=0.0, loss="epsilon_insensitive", fit_intercept=False, tol=1e-10
            ),
        }[name]
        rival.set_params(max_iter=1_000_000).fit(X, y)
        l2 = 1.0 / (C * n)
        solution = sdca(X, y, name, l2=l2, tol=1e-9, max_epochs=100_000)
        theirs = objective(name, X, y, np.ravel(rival.coef_), l2)
        assert solution.objective == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("name", FIVE)
def test_degenerate_data(name: str, case: str) -> None:
    X, y = degenerate(case, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if case == "large" else "error", NotConverged)
        solution = sdca(X, y, name, l2=0.1, max_epochs=2000 if case == "large" else 100_000)
    assert solution.objective == pytest.approx(objective(name, X, y, solution.weights, 0.1))
    assert (
        solution.gap >= 0.0
        and solution.dual <= objective(name, X, y, np.zeros(X.shape[1]), 0.1) + 1e-12
    )
    assert solution.converged or case == "large"
    if case == "all zero":
        assert not solution.weights.any() and solution.gap <= 1e-6


def test_zero_rows_and_any_row_order() -> None:
    X, y = toy("hinge")
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    original = sdca(X, y, "hinge", l2=0.01, tol=1e-9, max_epochs=9999)
    permuted = sdca(
        csr_matrix(X[rows][:, columns]), y[rows], "hinge", l2=0.01, tol=1e-9, max_epochs=9999
    )
    assert permuted.objective == pytest.approx(original.objective, abs=2e-9)
    assert permuted.weights == pytest.approx(original.weights[columns], abs=1e-3)
    twice = sdca(np.vstack([X, X]), np.append(y, y), "hinge", l2=0.01, tol=1e-9, max_epochs=9999)
    assert twice.objective == pytest.approx(original.objective, abs=2e-9)


def test_runs_are_reproducible_with_and_without_callback() -> None:
    X, y = toy("logistic")
    epochs: list[int] = []
    run: dict[str, Any] = {"l2": 1e-3, "tol": 1e-8, "seed": 3}
    without = sdca(X, y, **run)
    with_callback = sdca(X, y, **run, callback=lambda record, w: epochs.append(record.epoch))
    assert epochs == list(range(len(epochs)))
    values = {record.epoch: record.objective for record in with_callback.trace}
    shared = [record for record in without.trace if record.epoch in values]
    assert len(shared) > 2
    assert all(record.objective == values[record.epoch] for record in shared)
    assert (sdca(X, y, **run).weights == without.weights).all()
    assert (sdca(X, y, **run | {"seed": 4}).weights != without.weights).any()
    stopped = sdca(X, y, **run, callback=lambda record, w: record.epoch == 2)
    assert stopped.trace[-1].epoch == 2 and not stopped.converged


def test_not_converged_warning_names_the_gap() -> None:
    X, y = toy("hinge")
    with pytest.warns(NotConverged, match=r"sdca stopped after 3 epochs with a gap of \d"):
        solution = sdca(X, y, "hinge", l2=1e-6, tol=1e-12, max_epochs=3)
    assert not solution.converged and solution.gap > 1e-12


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"l1": 0.1}, r"sdca does not support l1=0.1; use prox_sdca"),
        ({"l2": 0.0}, r"sdca does not support l2=0; use l2 > 0"),
        (
            {"fit_intercept": True},
            r"sdca does not support fit_intercept=True; add a column of ones",
        ),
        ({"loss": "softmax"}, r"sdca does not support loss='softmax'; use one of"),
        ({"order": "sorted"}, r"sdca does not support order='sorted'; use one of"),
        ({"cost": [[0, 1], [1, 0]]}, r"sdca does not support cost= with loss='logistic'"),
        (
            {"cost": "a", "loss": "multiclass_hinge"},
            r"sdca does not support cost='a'; use a 2 by 2 matrix of numbers",
        ),
        ({"gamma": 0.0}, r"gamma must be .*, got 0.0"),
        ({"l2": -1.0}, r"l2 must be .*, got -1.0"),
        ({"tol": -1.0}, r"tol must be .*, got -1.0"),
    ],
)
def test_unsupported_arguments(options: dict[str, Any], sentence: str) -> None:
    X, y = toy("logistic")
    with pytest.raises(ValueError, match=sentence):
        sdca(X, y, **options)


def test_orders() -> None:
    pool, order = np.arange(7, dtype=np.uint32) * 3, np.zeros(7, np.uint32)
    state = rng_state(0)
    for _ in range(20):
        fill_order(1, pool, 5, state, order)
        assert sorted(order[:5]) == [0, 3, 6, 9, 12]
    fill_order(2, pool, 7, state, order)
    assert (order == pool).all()
    counts, firsts = np.zeros(21), np.zeros(21)
    for _ in range(2000):
        fill_order(0, pool, 7, state, order)
        np.add.at(counts, order, 1)
        fill_order(1, pool, 7, state, order)
        firsts[order[0]] += 1
    assert np.abs(counts[::3] - 2000).max() < 250 and np.abs(firsts[::3] - 2000 / 7).max() < 90


# Multiclass


def many(n: int = 24, k: int = 3) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.8)
    return X, rng.integers(0, k, n), rng.random((k, k)) * (1.0 - np.eye(k)) * 2


def test_multiclass_steps_match_the_reference() -> None:
    X, y, cost = many()
    W = reference.multiclass(X, y, cost, 0.05, epochs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        solution = sdca(
            *(X, y, "multiclass_hinge"), l2=0.05, cost=cost, order="cyclic", tol=0.0, max_epochs=2
        )
    assert solution.weights == pytest.approx(W, abs=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_multiclass_optimum(order: str, duals: list[tuple[float, float]]) -> None:
    X, y, cost = many()
    solution = sdca(
        *(X, y, "multiclass_hinge"),
        **{"l2": 0.05, "cost": cost, "order": order, "tol": 1e-8, "max_epochs": 20_000},
        callback=lambda record, W: None,
    )
    values, dual = np.array(duals).T
    assert solution.converged and (np.diff(dual) >= -1e-13).all() and (values >= dual - 1e-13).all()
    value = reference.multiclass_objective(X, y, cost, 0.05, solution.weights)
    assert solution.objective == pytest.approx(value, abs=1e-12)

    # The same problem as a quadratic program with a slack above each of the k costs.
    n, k, d = len(X), 3, 4
    constraint = {
        "type": "ineq",
        "fun": lambda v: (
            v[k * d :, None]
            - cost[y]
            - X @ v[: k * d].reshape(k, d).T
            + (X @ v[: k * d].reshape(k, d).T)[np.arange(n), y][:, None]
        ).ravel(),
    }
    expected = minimize(
        lambda v: v[k * d :].mean() + 0.025 * (v[: k * d] ** 2).sum(),
        np.append(np.zeros(k * d), np.full(n, 3.0)),
        constraints=constraint,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert solution.objective == pytest.approx(expected.fun, abs=1e-6)


def test_two_classes_equal_the_hinge_loss() -> None:
    X, y = toy("hinge")
    multiclass = sdca(X, y, "multiclass_hinge", l2=0.02, tol=1e-9, max_epochs=9999)
    binary = sdca(X, y, "hinge", l2=0.01, tol=1e-9, max_epochs=9999)
    assert multiclass.classes == (-1.0, 1.0) and multiclass.weights.shape == (2, X.shape[1])
    assert multiclass.objective == pytest.approx(binary.objective, abs=2e-9)
    assert multiclass.weights[1] - multiclass.weights[0] == pytest.approx(binary.weights, abs=1e-3)


def test_degenerate_classes() -> None:
    X, y, _ = many()
    single_class = sdca(X, np.zeros(len(X)), "multiclass_hinge", l2=0.1)
    assert (
        single_class.converged and not single_class.weights.any() and single_class.classes == (0.0,)
    )
    nothing = sdca(np.zeros_like(X), y, "multiclass_hinge", l2=0.1)
    assert nothing.converged and nothing.objective == pytest.approx(1.0)
    huge = sdca(X * 1e8, y, "multiclass_hinge", l2=1e14, tol=1e-6, max_epochs=9999)
    assert huge.converged
    for bad in ([[0.0, 1.0]], np.ones((3, 3)), -cost_of(3), np.full((3, 3), math.inf)):
        with pytest.raises(ValueError, match="sdca does not support"):
            sdca(X, y, "multiclass_hinge", l2=0.1, cost=bad)


def cost_of(k: int) -> Any:
    return 1.0 - np.eye(k)


def test_real_data() -> None:
    X, y = real("rcv1")
    for name in ("logistic", "hinge"):
        solution = sdca(X, y, name, l2=1e-4)
        assert solution.converged
    rival = LogisticRegression(C=1.0 / (1e-4 * len(y)), fit_intercept=False, tol=1e-8).fit(X, y)
    w = rival.coef_.ravel()
    theirs = np.logaddexp(0.0, -np.where(y, 1.0, -1.0) * (X @ w)).mean() + 0.5e-4 * (w @ w)
    assert sdca(X, y, l2=1e-4).objective == pytest.approx(theirs, abs=1e-6)
