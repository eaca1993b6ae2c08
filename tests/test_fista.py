"""FISTA: beside plain proximal steps, scikit-learn and the conditions of the optimum."""

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

# How a penalty is given, and its name, strength or radius in the twin.
KINDS: dict[str, tuple[dict[str, Any], str, float]] = {
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


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("loss", LOSSES)
def test_equals_plain_proximal_steps(loss: str, kind: str) -> None:
    if "/" in kind and loss != "softmax":
        pytest.skip("needs rows of weights")
    given, name, s = KINDS[kind]
    X, y = toy(loss)
    for l2, intercept in ((0.0, True), (0.1, False)):
        solution = fista(X, y, loss=loss, l2=l2, fit_intercept=intercept, tol=1e-11, **given)
        least, w, b = slow.ista(loss, X, y, name, s, l2, intercept)
        assert solution.converged
        assert solution.objective == pytest.approx(least, rel=1e-9)
        assert solution.objective - solution.gap <= least * (1.0 + 1e-12)
        if (loss, kind, l2) != ("softmax", "linf", 0.0):  # where several weights are as good
            np.testing.assert_allclose(solution.weights, w, rtol=0.0, atol=2e-5)
            np.testing.assert_allclose(solution.intercept, b, rtol=0.0, atol=2e-5)
        own = slow.mean_loss(loss, X, y, solution.weights, solution.intercept)[0]
        own += slow.penalty(name, solution.weights, s, l2)
        assert solution.objective == pytest.approx(own, rel=1e-12)
        assert min(record.objective - record.dual for record in solution.trace) >= -1e-12


@pytest.mark.parametrize("gamma", [0.2, 2.5])
def test_width_of_the_hinge(gamma: float) -> None:
    X, y = toy("smoothed_hinge")
    solution = fista(X, y, loss="smoothed_hinge", gamma=gamma, l2=0.1, tol=1e-12)
    value, gradient, _ = slow.mean_loss("smoothed_hinge", X, y, solution.weights, 0.0, gamma)
    w = solution.weights
    assert solution.objective == pytest.approx(value + 0.05 * (w @ w), rel=1e-12)
    np.testing.assert_allclose(gradient + 0.1 * w, 0.0, rtol=0.0, atol=1e-5)


def test_conditions_of_the_elastic_net() -> None:
    """The gradient is -l1 sign(w) - l2 w where w is not zero, and at most l1 elsewhere."""
    for loss in ("logistic", "smoothed_hinge", "squared"):
        X, y = toy(loss, n=100, d=40)
        for l2 in (0.0, 0.05):
            found = fista(X, y, loss=loss, l1=0.05, l2=l2, fit_intercept=True, tol=1e-13)
            w = found.weights
            _, g, slope = slow.mean_loss(loss, X, y, w, found.intercept)
            assert 0 < np.count_nonzero(w) < 40
            kept = w != 0.0
            expected = -0.05 * np.sign(w[kept]) - l2 * w[kept]
            np.testing.assert_allclose(g[kept], expected, rtol=0.0, atol=1e-6)
            assert np.abs(g[~kept]).max() <= 0.05 + 1e-6
            assert abs(slope) < 1e-6


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("loss", LOSSES)
def test_poor_data(loss: str, case: str) -> None:
    X, y = degenerate(case, loss)
    if loss == "softmax" and case == "one label":
        y = np.zeros(len(y), int)
    for kind in ("elastic-net", "linf", "ball", "l2-ball"):
        for intercept in (False, True):
            if intercept and loss == "logistic" and case in ("one row", "one label"):
                continue  # the intercept alone makes the loss as small as one likes: below
            tol = 1e-2 if case == "large" else 1e-6
            solution = fista(X, y, loss=loss, fit_intercept=intercept, tol=tol, **KINDS[kind][0])
            assert solution.converged, (kind, intercept)
            assert np.isfinite(solution.weights).all() and math.isfinite(solution.objective)
            assert min(record.objective - record.dual for record in solution.trace) >= -1e-9
            if case in ("all zero", "no columns"):
                assert not np.any(solution.weights)


def test_a_loss_that_ends_nowhere() -> None:
    """One label and an intercept: the infimum 0 is no minimum, and the gap still closes."""
    X, _ = toy("logistic")
    solution = fista(X, np.ones(60), l1=0.1, fit_intercept=True, tol=1e-3)
    assert solution.converged and 0.0 <= solution.objective <= 1e-3
    assert solution.intercept > 5.0


def test_the_end_of_what_floats_can_tell_is_an_end() -> None:
    """Without a penalty nothing bounds the objective: it runs until rounding is all that moves."""
    i = np.arange(50)
    X = np.column_stack([i % 7 - 3, (i % 5) / 2, *(i % 4 == k for k in range(4))]).astype(float)
    with pytest.warns(NotConverged):
        solution = fista(X, i % 3 == 0, l1=0.0, tol=1e-30, max_epochs=500)
    _, g, _ = slow.mean_loss("logistic", X, np.where(i % 3 == 0, 1.0, -1.0), solution.weights, 0.0)
    assert np.abs(g).max() < 1e-9


def test_duplicate_columns_share() -> None:
    X, y = toy("logistic")
    X[:, 1] = X[:, 0]
    w = fista(X, y, l2=0.1, tol=1e-12).weights
    assert w[0] == pytest.approx(w[1], abs=1e-6)


def test_not_converged_warns() -> None:
    X, y = toy("logistic")
    sentence = r"fista stopped after 2 epochs with a gap of [0-9.]+, above tol=1e-06; raise max_"
    with pytest.warns(NotConverged, match=sentence):
        solution = fista(X, y, l1=0.01, max_epochs=2)
    assert not solution.converged and solution.gap > 1e-6 and len(solution.trace) == 3
    with pytest.warns(NotConverged):
        none = fista(X, y, l1=0.01, max_epochs=0)
    assert not np.any(none.weights) and none.objective == pytest.approx(math.log(2.0))


def test_sparse_is_dense_and_the_seed_measures_alone() -> None:
    X, y = toy("logistic")
    dense = fista(X, y, penalty="ball", radius=1.0, tol=1e-10)
    sparse = fista(csr_matrix(X), y > 0, penalty="ball", radius=1.0, tol=1e-10)
    assert np.array_equal(dense.weights, sparse.weights)
    other = fista(X, y, penalty="ball", radius=1.0, tol=1e-10, seed=1)
    assert other.objective == pytest.approx(dense.objective, abs=1e-10)


def test_classes() -> None:
    X, y = toy("softmax")
    solution = fista(X, np.array(["b", "c", "a"])[y], loss="softmax", l1=0.02, fit_intercept=True)
    assert solution.classes == ("a", "b", "c")
    assert solution.weights.shape == (3, 8) and solution.intercept.shape == (3,)
    plain = fista(X, y, loss="softmax", l1=0.02, fit_intercept=True)
    np.testing.assert_allclose(solution.weights[[1, 2, 0]], plain.weights, rtol=0.0, atol=1e-3)


@pytest.mark.parametrize(
    ("given", "sentence"),
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
def test_refusals(given: dict[str, Any], sentence: str) -> None:
    X, y = toy("logistic")
    with pytest.raises(ValueError, match=sentence):
        fista(X, y, **given)


def test_a_simplex_without_columns_is_refused() -> None:
    with pytest.raises(
        ValueError, match='does not support penalty="simplex" with no columns; add a column'
    ):
        fista(np.zeros((3, 0)), [0, 1, 0], penalty="simplex", radius=1.0)


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        (3, "start must be weights and an intercept, such as"),
        (([1.0, 2.0],), "start must be weights and an intercept, such as"),
        ((["a", "b"], 0.0), "start must be weights and an intercept, such as"),
        (([1.0, 2.0, 3.0], 0.0), "start must have weights of shape"),
        (([1.0, math.nan], 0.0), r"start must have finite numbers of at most 1e\+100"),
        (([1.0, 2.0], math.inf), r"start must have finite numbers of at most 1e\+100"),
    ],
)
def test_what_is_no_start_is_refused(start: Any, sentence: str) -> None:
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match=sentence):
        fista(X, [1, 0, 1], l2=1.0, fit_intercept=True, start=start)


def test_a_start_far_away_is_left() -> None:
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    far = fista(X, [1, 0, 1], l2=1.0, start=([1e100, -1e100], 0.0), tol=1e-9)
    assert far.objective == pytest.approx(fista(X, [1, 0, 1], l2=1.0, tol=1e-9).objective, abs=2e-9)


def sklearns(X: Any, y: Any, l1: float, l2: float, solver: str, intercept: bool) -> float:
    """The objective that scikit-learn's weights have."""
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
def test_beside_scikit_learn(l1: float, l2: float, solver: str) -> None:
    X, y = toy("logistic", n=200, d=15)
    for intercept in (False,) if solver == "liblinear" else (False, True):
        theirs = sklearns(X, y, l1, l2, solver, intercept)
        ours = fista(X, y, l1=l1, l2=l2, fit_intercept=intercept, tol=1e-10).objective
        assert ours == pytest.approx(theirs, abs=1e-6)


def test_squared_beside_scikit_learn() -> None:
    X, y = toy("squared", n=200, d=15)
    lasso = Lasso(alpha=0.1, tol=1e-12).fit(X, y)
    found = fista(X, y, loss="squared", l1=0.1, fit_intercept=True, tol=1e-12)
    np.testing.assert_allclose(found.weights, lasso.coef_, rtol=0.0, atol=1e-5)
    ridge = Ridge(alpha=0.1 * 200).fit(X, y)
    found = fista(X, y, loss="squared", l2=0.1, fit_intercept=True, tol=1e-13)
    np.testing.assert_allclose(found.weights, ridge.coef_, rtol=0.0, atol=1e-5)
    assert found.intercept == pytest.approx(ridge.intercept_, abs=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", ["magic04", "arcene", "rcv1"])
def test_real_data_beside_scikit_learn(name: str) -> None:
    X, y = real(name)
    pairs = [(1e-3, 0.0, "liblinear"), (0.0, 1e-3, "lbfgs")]
    for l1, l2, solver in pairs if name != "arcene" else [(1e-2, 0.0, "liblinear")]:
        theirs = sklearns(X, np.where(y > 0, 1.0, -1.0), l1, l2, solver, False)
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
def test_each_learner_has_its_comparator(name: str) -> None:
    """Hundreds of passes come close to the solver's optimum, and not below its bound."""
    kind, (own, given) = name.split()[0], LEARNERS[name]
    loss = "softmax" if kind.startswith("Softmax") else "logistic"
    X, y = toy(loss)
    smooth = "smoothed_hinge" if kind.startswith("Pegasos") else loss
    best = fista(X, y, loss=smooth, tol=1e-7, **given)
    rate = {} if kind.startswith("Pegasos") else {"lr": 0.3}
    classes = {"classes": [0, 1, 2]} if loss == "softmax" else {}
    model = getattr(streaml1, kind)(intercept_lr=0.0, **own, **rate, **classes)
    rows, random = csr_matrix(X), np.random.default_rng(0)
    labels = y if loss == "softmax" else y > 0
    for _ in range(300):
        order = random.permutation(60)
        model.learn_many(rows[order], labels[order])
    w = np.zeros(best.weights.shape)
    for j, weight in model.weights.items():
        if loss == "softmax":
            for label, one in weight.items():
                w[label, j] = one
        else:
            w[j] = weight
    name_of = given.get("penalty", "l1")
    s = given.get("strength", given.get("l1", 0.0))
    reached = slow.mean_loss("hinge" if smooth != loss else loss, X, y, w, 0.0)[0]
    reached += slow.penalty(name_of, w, s, given.get("l2", 0.0))
    assert best.dual - 1e-12 <= reached <= best.objective * 1.01
