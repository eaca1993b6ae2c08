"""FISTA against plain proximal steps, scikit-learn and the optimality conditions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import Lasso, LogisticRegression, Ridge

import streaml1
from streaml1.solvers import NotConverged, fista
from tests import reference_solvers as slow
from tests.solver_data import DEGENERATE, degenerate, real, toy

LOSSES = ("logistic", "smoothed_hinge", "squared", "softmax")

# Arguments of each penalty, and its name, strength or radius in the reference.
PENALTIES: dict[str, tuple[dict[str, Any], str, float]] = {
    "elastic-net": ({"l1": 0.03}, "l1", 0.03),
    "l1": ({"penalty": "l1", "strength": 0.03}, "l1", 0.03),
    "l2": ({"penalty": "l2", "strength": 0.05}, "l2", 0.05),
    "linf": ({"penalty": "linf", "strength": 0.1}, "linf", 0.1),
    "ball": ({"penalty": "ball", "radius": 1.5}, "ball", 1.5),
    "nonnegative": (
        {"penalty": "ball", "radius": 1.5, "nonnegative": True},
        "nonnegative",
        1.5,
    ),
    "simplex": ({"penalty": "simplex", "radius": 2.0}, "simplex", 2.0),
    "l2-ball": ({"penalty": "l2-ball", "radius": 0.7}, "l2-ball", 0.7),
    "l1/l2": ({"penalty": "l1/l2", "strength": 0.03}, "l1/l2", 0.03),
    "l1/linf": ({"penalty": "l1/linf", "strength": 0.03}, "l1/linf", 0.03),
}


@pytest.mark.parametrize("kind", list(PENALTIES))
@pytest.mark.parametrize("loss", LOSSES)
def test_equals_plain_proximal_steps(loss: str, kind: str) -> None:
    if "/" in kind and loss != "softmax":
        pytest.skip("needs rows of weights")
    params, name, s = PENALTIES[kind]
    X, y = toy(loss)
    for l2, intercept in ((0.0, True), (0.1, False)):
        solution = fista(X, y, loss=loss, l2=l2, fit_intercept=intercept, tol=1e-11, **params)
        minimum, w, b = slow.ista(loss, X, y, name, s, l2, intercept)
        assert solution.converged
        assert solution.objective == pytest.approx(minimum, rel=1e-9)
        assert solution.objective - solution.gap <= minimum * (1.0 + 1e-12)
        if (loss, kind, l2) != ("softmax", "linf", 0.0):  # several weights are optimal
            np.testing.assert_allclose(solution.weights, w, rtol=0.0, atol=2e-5)
            np.testing.assert_allclose(solution.intercept, b, rtol=0.0, atol=2e-5)
        recomputed = slow.mean_loss(loss, X, y, solution.weights, solution.intercept)[0]
        recomputed += slow.penalty(name, solution.weights, s, l2)
        assert solution.objective == pytest.approx(recomputed, rel=1e-12)
        assert min(record.objective - record.dual for record in solution.trace) >= -1e-12


@pytest.mark.parametrize("gamma", [0.2, 2.5])
def test_gamma_sets_the_width_of_the_smoothed_hinge(gamma: float) -> None:
    X, y = toy("smoothed_hinge")
    solution = fista(X, y, loss="smoothed_hinge", gamma=gamma, l2=0.1, tol=1e-12)
    value, gradient, _ = slow.mean_loss("smoothed_hinge", X, y, solution.weights, 0.0, gamma)
    w = solution.weights
    assert solution.objective == pytest.approx(value + 0.05 * (w @ w), rel=1e-12)
    np.testing.assert_allclose(gradient + 0.1 * w, 0.0, rtol=0.0, atol=1e-5)


def test_conditions_of_the_elastic_net() -> None:
    """The gradient is -l1 sign(w) - l2 w where w is non-zero, and at most l1 in size elsewhere."""
    for loss in ("logistic", "smoothed_hinge", "squared"):
        X, y = toy(loss, n=100, d=40)
        for l2 in (0.0, 0.05):
            solution = fista(X, y, loss=loss, l1=0.05, l2=l2, fit_intercept=True, tol=1e-13)
            w = solution.weights
            _, g, slope = slow.mean_loss(loss, X, y, w, solution.intercept)
            assert 0 < np.count_nonzero(w) < 40
            nonzero = w != 0.0
            expected = -0.05 * np.sign(w[nonzero]) - l2 * w[nonzero]
            np.testing.assert_allclose(g[nonzero], expected, rtol=0.0, atol=1e-6)
            assert np.abs(g[~nonzero]).max() <= 0.05 + 1e-6
            assert abs(slope) < 1e-6


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("loss", LOSSES)
def test_degenerate_data(loss: str, case: str) -> None:
    X, y = degenerate(case, loss)
    if loss == "softmax" and case == "one label":
        y = np.zeros(len(y), int)
    for kind in ("elastic-net", "linf", "ball", "l2-ball"):
        for intercept in (False, True):
            if intercept and loss == "logistic" and case in ("one row", "one label"):
                continue  # the loss has no minimum: see test_loss_without_a_minimum
            tol = 1e-2 if case == "large" else 1e-6
            solution = fista(
                X, y, loss=loss, fit_intercept=intercept, tol=tol, **PENALTIES[kind][0]
            )
            assert solution.converged, (kind, intercept)
            assert np.isfinite(solution.weights).all() and math.isfinite(solution.objective)
            assert min(record.objective - record.dual for record in solution.trace) >= -1e-9
            if case in ("all zero", "no columns"):
                assert not np.any(solution.weights)


def test_loss_without_a_minimum() -> None:
    """With one label and an intercept the infimum 0 is not attained; the gap still closes."""
    X, _ = toy("logistic")
    solution = fista(X, np.ones(60), l1=0.1, fit_intercept=True, tol=1e-3)
    assert solution.converged and 0.0 <= solution.objective <= 1e-3
    assert solution.intercept > 5.0


def test_stops_at_float_precision() -> None:
    """Without a penalty the objective has no bound, so steps go on until only rounding remains."""
    i = np.arange(50)
    X = np.column_stack([i % 7 - 3, (i % 5) / 2, *(i % 4 == k for k in range(4))]).astype(float)
    with pytest.warns(NotConverged):
        solution = fista(X, i % 3 == 0, l1=0.0, tol=1e-30, max_epochs=500)
    _, g, _ = slow.mean_loss("logistic", X, np.where(i % 3 == 0, 1.0, -1.0), solution.weights, 0.0)
    assert np.abs(g).max() < 1e-9


def test_duplicate_columns_share_the_weight() -> None:
    X, y = toy("logistic")
    X[:, 1] = X[:, 0]
    w = fista(X, y, l2=0.1, tol=1e-12).weights
    assert w[0] == pytest.approx(w[1], abs=1e-6)


def test_missing_convergence_warns() -> None:
    X, y = toy("logistic")
    message = r"fista stopped after 2 epochs with a gap of [0-9.]+, above tol=1e-06; raise max_"
    with pytest.warns(NotConverged, match=message):
        solution = fista(X, y, l1=0.01, max_epochs=2)
    assert not solution.converged and solution.gap > 1e-6 and len(solution.trace) == 3
    with pytest.warns(NotConverged):
        start = fista(X, y, l1=0.01, max_epochs=0)
    assert not np.any(start.weights) and start.objective == pytest.approx(math.log(2.0))


def test_sparse_input_and_seed_do_not_change_the_optimum() -> None:
    X, y = toy("logistic")
    dense = fista(X, y, penalty="ball", radius=1.0, tol=1e-10)
    sparse = fista(csr_matrix(X), y > 0, penalty="ball", radius=1.0, tol=1e-10)
    assert np.array_equal(dense.weights, sparse.weights)
    seeded = fista(X, y, penalty="ball", radius=1.0, tol=1e-10, seed=1)
    assert seeded.objective == pytest.approx(dense.objective, abs=1e-10)


def test_class_labels_are_sorted() -> None:
    X, y = toy("softmax")
    solution = fista(X, np.array(["b", "c", "a"])[y], loss="softmax", l1=0.02, fit_intercept=True)
    assert solution.classes == ("a", "b", "c")
    assert solution.weights.shape == (3, 8) and solution.intercept.shape == (3,)
    plain = fista(X, y, loss="softmax", l1=0.02, fit_intercept=True)
    np.testing.assert_allclose(solution.weights[[1, 2, 0]], plain.weights, rtol=0.0, atol=1e-3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"loss": "hinge"}, "fista does not support loss='hinge'; use one of \"logistic\""),
        ({"penalty": "l0"}, "fista does not support penalty='l0'; use one of \"elastic-net\""),
        ({"penalty": "l2"}, 'fista does not support penalty="l2" without a strength; set strength'),
        ({"penalty": "ball"}, 'fista does not support penalty="ball" without a radius; set radius'),
        (
            {"penalty": "l2", "strength": 1.0, "l1": 0.1},
            'does not support l1=0.1 with penalty="l2"',
        ),
        ({"strength": 0.1}, 'fista does not support strength=0.1 with penalty="elastic-net"'),
        ({"radius": 0.1}, 'fista does not support radius=0.1 with penalty="elastic-net"'),
        (
            {"nonnegative": True},
            'fista does not support nonnegative=True with penalty="elastic-net"',
        ),
        (
            {"penalty": "l1/l2", "strength": 1.0},
            'does not support penalty="l1/l2" with loss="logistic"',
        ),
        (
            {"penalty": "ball", "radius": 0.0},
            r"radius must be a number above 0 and at most 1e\+100, got 0.0",
        ),
        ({"l1": -1.0}, r"l1 must be a number from 0 to 1e\+100, got -1.0"),
        ({"fit_intercept": 1}, "fit_intercept must be a bool, got 1"),
    ],
)
def test_invalid_arguments_are_rejected(params: dict[str, Any], message: str) -> None:
    X, y = toy("logistic")
    with pytest.raises(ValueError, match=message):
        fista(X, y, **params)


def test_simplex_without_columns_is_rejected() -> None:
    with pytest.raises(
        ValueError, match='does not support penalty="simplex" with no columns; add a column'
    ):
        fista(np.zeros((3, 0)), [0, 1, 0], penalty="simplex", radius=1.0)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (3, "start must be weights and an intercept, such as"),
        (([1.0, 2.0],), "start must be weights and an intercept, such as"),
        ((["a", "b"], 0.0), "start must be weights and an intercept, such as"),
        (([1.0, 2.0, 3.0], 0.0), "start must have weights of shape"),
        (([1.0, math.nan], 0.0), r"start must have finite numbers of at most 1e\+100"),
        (([1.0, 2.0], math.inf), r"start must have finite numbers of at most 1e\+100"),
    ],
)
def test_invalid_start_is_rejected(start: Any, message: str) -> None:
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match=message):
        fista(X, [1, 0, 1], l2=1.0, fit_intercept=True, start=start)


def test_distant_start_converges() -> None:
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    solution = fista(X, [1, 0, 1], l2=1.0, start=([1e100, -1e100], 0.0), tol=1e-9)
    assert solution.objective == pytest.approx(
        fista(X, [1, 0, 1], l2=1.0, tol=1e-9).objective, abs=2e-9
    )


def sklearn_objective(X: Any, y: Any, l1: float, l2: float, solver: str, intercept: bool) -> float:
    """Return the objective at the weights found by scikit-learn."""
    n, strength = X.shape[0], l1 + l2
    model = LogisticRegression(
        C=1.0 / (n * strength),
        l1_ratio=l1 / strength,
        solver=solver,
        fit_intercept=intercept,
        tol=1e-10,
        max_iter=20_000,
        random_state=0,
    )
    model.fit(X, y > 0)
    w, b = model.coef_[0], float(model.intercept_[0]) if intercept else 0.0
    a = np.where(y > 0, 1.0, -1.0) * (X @ w + b)
    return float(np.logaddexp(0.0, -a).mean() + l1 * np.abs(w).sum() + l2 / 2 * (w @ w))


SOLVERS = [(0.02, 0.0, "liblinear"), (0.0, 0.02, "lbfgs"), (0.02, 0.03, "saga")]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(("l1", "l2", "solver"), SOLVERS)
def test_logistic_matches_scikit_learn(l1: float, l2: float, solver: str) -> None:
    X, y = toy("logistic", n=200, d=15)
    for intercept in (False,) if solver == "liblinear" else (False, True):
        theirs = sklearn_objective(X, y, l1, l2, solver, intercept)
        ours = fista(X, y, l1=l1, l2=l2, fit_intercept=intercept, tol=1e-10).objective
        assert ours == pytest.approx(theirs, abs=1e-6)


def test_squared_matches_scikit_learn() -> None:
    X, y = toy("squared", n=200, d=15)
    lasso = Lasso(alpha=0.1, tol=1e-12).fit(X, y)
    solution = fista(X, y, loss="squared", l1=0.1, fit_intercept=True, tol=1e-12)
    np.testing.assert_allclose(solution.weights, lasso.coef_, rtol=0.0, atol=1e-5)
    ridge = Ridge(alpha=0.1 * 200).fit(X, y)
    solution = fista(X, y, loss="squared", l2=0.1, fit_intercept=True, tol=1e-13)
    np.testing.assert_allclose(solution.weights, ridge.coef_, rtol=0.0, atol=1e-5)
    assert solution.intercept == pytest.approx(ridge.intercept_, abs=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", ["magic04", "arcene", "rcv1"])
def test_real_data_matches_scikit_learn(name: str) -> None:
    X, y = real(name)
    pairs = [(1e-3, 0.0, "liblinear"), (0.0, 1e-3, "lbfgs")]
    for l1, l2, solver in pairs if name != "arcene" else [(1e-2, 0.0, "liblinear")]:
        theirs = sklearn_objective(X, np.where(y > 0, 1.0, -1.0), l1, l2, solver, False)
        ours = fista(X, y, l1=l1, l2=l2, tol=1e-7).objective
        assert ours == pytest.approx(theirs, abs=1e-6)


LEARNERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ElasticNetClassifier": ({"l1": 0.02, "l2": 0.05}, {"l1": 0.02, "l2": 0.05}),
    "TruncatedGradientClassifier": ({"gravity": 0.02}, {"l1": 0.02}),
    "SMIDASClassifier": ({"l1": 0.02, "p": 2.0}, {"l1": 0.02}),
    "FOBOSClassifier": ({"strength": 0.05}, {"penalty": "l2", "strength": 0.05}),
    "FOBOSClassifier linf": (
        {"strength": 0.05, "norm": "linf"},
        {"penalty": "linf", "strength": 0.05},
    ),
    "L1BallClassifier": ({"radius": 1.5}, {"penalty": "ball", "radius": 1.5}),
    "L1BallClassifier nonnegative": (
        {"radius": 1.5, "nonnegative": True},
        {"penalty": "ball", "radius": 1.5, "nonnegative": True},
    ),
    "EGClassifier": ({"radius": 1.5, "n_features": 8}, {"penalty": "ball", "radius": 1.5}),
    "EGClassifier nonnegative": (
        {"radius": 1.5, "n_features": 8, "nonnegative": True},
        {"penalty": "simplex", "radius": 1.5},
    ),
    "PegasosClassifier": (
        {"l2": 0.05},
        # The hinge is at most gamma / 2 above the smoothed one.
        {"l2": 0.05, "penalty": "l2-ball", "radius": 0.05**-0.5, "gamma": 1e-3},
    ),
    "SoftmaxClassifier": (
        {"strength": 0.02, "l2": 0.01},
        {"penalty": "l1", "strength": 0.02, "l2": 0.01},
    ),
    **{
        f"SoftmaxClassifier {kind}": (
            {"penalty": kind, "strength": 0.02},
            {"penalty": kind, "strength": 0.02},
        )
        for kind in ("l1/l2", "l1/linf")
    },
    "SoftmaxClassifier ball": (
        {"penalty": "ball", "radius": 1.5, "nonnegative": True},
        {"penalty": "ball", "radius": 1.5, "nonnegative": True},
    ),
}


@pytest.mark.parametrize("name", list(LEARNERS))
def test_online_learners_approach_the_solver_optimum(name: str) -> None:
    """After hundreds of passes the objective is near the optimum and above the dual bound."""
    kind, (learner_params, solver_params) = name.split()[0], LEARNERS[name]
    loss = "softmax" if kind.startswith("Softmax") else "logistic"
    X, y = toy(loss)
    smooth = "smoothed_hinge" if kind.startswith("Pegasos") else loss
    best = fista(X, y, loss=smooth, tol=1e-7, **solver_params)
    rate = {} if kind.startswith("Pegasos") else {"lr": 0.3}
    classes = {"classes": [0, 1, 2]} if loss == "softmax" else {}
    model = getattr(streaml1, kind)(intercept_lr=0.0, **learner_params, **rate, **classes)
    rows, random = csr_matrix(X), np.random.default_rng(0)
    labels = y if loss == "softmax" else y > 0
    for _ in range(300):
        order = random.permutation(60)
        model.learn_many(rows[order], labels[order])
    w = np.zeros(best.weights.shape)
    for j, weight in model.weights.items():
        if loss == "softmax":
            for label, w_label in weight.items():
                w[label, j] = w_label
        else:
            w[j] = weight
    penalty = solver_params.get("penalty", "l1")
    s = solver_params.get("strength", solver_params.get("l1", 0.0))
    reached = slow.mean_loss("hinge" if smooth != loss else loss, X, y, w, 0.0)[0]
    reached += slow.penalty(penalty, w, s, solver_params.get("l2", 0.0))
    assert best.dual - 1e-12 <= reached <= best.objective * 1.01
