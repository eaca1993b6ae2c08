"""Newton steps on the support: compared with a dense minimizer, and monotone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csc_matrix

from streaml1.optim.losses import CODES
from streaml1.solvers import prox_sdca, scd
from streaml1.solvers.active_set_newton import Face, SupportMonitor, polish
from tests.reference_solvers import mean_loss
from tests.solver_data import toy

SMOOTH = ["logistic", "smoothed_hinge", "squared"]


def make_face(X: Any, support: Any, sign: Any, l1: float, l2: float) -> Face:
    columns = csc_matrix(X)
    csc = (columns.indices.astype(np.uint32), columns.data, columns.indptr.astype(np.uint64))
    k = len(support)
    strengths = (np.full(k, l1), np.full(k, l2), np.zeros(k))
    return Face(*csc, support.astype(np.uint32), *strengths, sign)


def signs(name: str, y: Any) -> Any:
    return np.asarray(y, float) if name == "squared" else np.where(np.asarray(y) > 0, 1.0, -1.0)


@pytest.mark.parametrize(("l1", "l2"), [(0.02, 0.0), (0.0, 0.05), (0.02, 0.05)])
@pytest.mark.parametrize("name", SMOOTH)
def test_polish_finds_the_minimum_of_the_face(name: str, l1: float, l2: float) -> None:
    X, y = toy(name, n=60, d=12)
    best = scd(X, y, name, l1, l2, tol=1e-10) if name != "smoothed_hinge" else None
    w = prox_sdca(X, y, name, l1, l2, tol=1e-4).weights if best is None else best.weights
    support = np.flatnonzero(w)
    sign = np.sign(w[support])
    # Start away from the optimum, with one weight at zero.
    start = w[support] + 0.1 * sign
    start[0] = 0.0
    A, face = X[:, support], make_face(X, support, sign, l1, l2)

    def value(v: Any) -> tuple[float, Any]:
        loss, g, _ = mean_loss(name, A, y, v, 0.0)
        return float(loss) + l1 * np.abs(v).sum() + l2 / 2 * v @ v, g + l1 * sign + l2 * v

    values = [value(start)[0]]
    weights = start
    for _ in range(20):
        weights, passes, accesses = polish(
            face, signs(name, y), CODES[name], 1.0, weights, 1e-10, 1000
        )
        values.append(value(weights)[0])
        assert accesses == 2 * passes * np.count_nonzero(A)
    assert np.diff(values).max() <= 1e-14
    bounds = [(0.0, None) if s > 0 or not l1 else (None, 0.0) for s in sign] if l1 else None
    expected = minimize(
        value, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15}
    )
    assert values[-1] <= expected.fun + 1e-9
    assert values[0] > values[-1] + 1e-4


@given(
    seed=st.integers(0, 999),
    max_passes=st.integers(0, 30),
    size=st.sampled_from([1e-3, 1.0, 1e3, 1e12]),
)
def test_polish_is_monotone_and_respects_max_passes(
    seed: int, max_passes: int, size: float
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9, 6)) * (rng.random((9, 6)) < 0.4) * size
    y = np.where(rng.random(9) < 0.5, 1.0, -1.0)
    support = np.flatnonzero(rng.random(6) < 0.7)
    w = rng.normal(size=len(support)) * (rng.random(len(support)) < 0.8)
    sign = np.where(w != 0.0, np.sign(w), rng.choice([-1.0, 1.0], len(support)))
    face = make_face(X, support, sign, 0.1, 0.0)
    weights, passes, _ = polish(face, y, CODES["logistic"], 1.0, w, 1e-9, max_passes)
    assert passes <= max_passes and (weights * sign >= 0.0).all()

    def value(v: Any) -> float:
        return float(np.logaddexp(0.0, -y * (X[:, support] @ v)).mean() + 0.1 * np.abs(v).sum())

    assert value(weights) <= value(w) * (1.0 + 1e-12)


def test_monitor_backs_off() -> None:
    monitor, w = SupportMonitor(), np.array([1.0, 0.0])
    assert not monitor.is_settled(w) and monitor.is_settled(w)
    assert not monitor.is_settled(w[::-1]) and monitor.is_settled(w[::-1])
    tries = []
    for k in range(12):
        if monitor.is_settled(w) or k == 0:
            tries.append(k)
            monitor.report(paid_off=False)
    assert tries == [0, 2, 6]
    monitor.report(paid_off=True)
    assert monitor.is_settled(w)


@pytest.mark.parametrize("solver", [scd, prox_sdca])
def test_max_epochs_is_respected(solver: Any) -> None:
    X, y = toy("logistic", n=200, d=30)
    full = solver(X, y, l1=0.003, tol=1e-12, max_epochs=3000)
    for max_epochs in [n for n in (1, 2, 3, 5, 8, 12, 17, 25) if n < full.trace[-1].epoch]:
        with pytest.warns(UserWarning, match="stopped after"):
            result = solver(X, y, l1=0.003, tol=1e-12, max_epochs=max_epochs)
        assert result.trace[-1].epoch == max_epochs and result.gap >= 0.0
        z = (X @ result.weights) * np.where(np.asarray(y) > 0, 1.0, -1.0)
        values = np.logaddexp(0.0, -z).mean() + 0.003 * np.abs(result.weights).sum()
        assert result.objective == pytest.approx(values, abs=1e-12)
