"""FoBoS with the l2 norm: sum of squares, list of weights and passes over it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from streaml1 import FOBOSClassifier, FOBOSRegressor
from streaml1.optim.fobos_l2 import NIL, S_START, _sum_of_squares
from tests import kit, reference
from tests.learner_data import assert_equal_twins


@given(
    st.lists(st.floats(-1e70, 1e70) | st.floats(-1.0, 1.0) | st.just(1e-170), max_size=200),
    st.randoms(use_true_random=False),
)
def test_sum_of_squares_does_not_depend_on_order(values: list[float], random: Any) -> None:
    u = np.array(values)
    listed = np.arange(len(u), dtype=np.uint32)
    largest = float(np.abs(u).max(initial=0.0))
    expected = math.fsum(v * v for v in values)
    total = _sum_of_squares(u, listed, len(u), largest)
    assert total == pytest.approx(expected, rel=1e-15, abs=1e-300)
    order = listed.tolist()
    random.shuffle(order)
    assert _sum_of_squares(u, np.array(order, np.uint32), len(u), largest) == total


def learn_and_count_restarts(model: Any, X: Any, y: Any) -> tuple[int, int]:
    """Learn row by row; return how often s restarted with weights and without weights."""
    restarted, cleared = 0, 0
    for i in range(len(y)):
        before = model._state.rule.clock[0].s if model.n_iterations else S_START
        model.learn_many(csr_matrix(X[i : i + 1]), y[i : i + 1])
        c = model._state.rule.clock[0]
        if c.s > before or (c.n == 0 and before < S_START):
            restarted, cleared = restarted + (c.n > 0), cleared + (c.n == 0)
        if i % 50 == 0:
            model._state.check()
    model._state.check()
    return restarted, cleared


def test_scale_and_sum_of_squares_restart() -> None:
    """Each penalty removes a large part of the norm."""
    random = np.random.default_rng(3)
    X = random.normal(size=(3_000, 40)) * (random.random((3_000, 40)) < 0.2)
    y = X @ random.normal(size=40) * 3.0
    params: dict[str, Any] = {"strength": 5.0, "lr": 0.1, "schedule": "constant"}
    model, twin = FOBOSRegressor(**params), reference.FOBOS(40, loss="squared", **params)
    restarted, _ = learn_and_count_restarts(model, X, y)
    twin.progressive(X, y, np.ones(3_000))
    assert_equal_twins(model, twin)
    assert restarted > 3


def test_all_weights_become_zero_and_restart() -> None:
    random = np.random.default_rng(4)
    X = random.normal(size=(2_000, 40)) * (random.random((2_000, 40)) < 0.1)
    y = X @ random.normal(size=40)
    params: dict[str, Any] = {"strength": 1.3, "lr": 0.5, "schedule": "constant"}
    model, twin = FOBOSRegressor(**params), reference.FOBOS(40, loss="squared", **params)
    _, cleared = learn_and_count_restarts(model, X, y)
    twin.progressive(X, y, np.ones(2_000))
    assert_equal_twins(model, twin)
    assert cleared > 50


def test_untouched_entries_leave_the_list_after_a_few_passes() -> None:
    """A pass then costs O(1) per touched weight, although 10,000 weights do not return."""
    params: dict[str, Any] = {"strength": 3.0, "lr": 0.5, "schedule": "constant"}
    params |= {"intercept_lr": 0.0}
    model = FOBOSRegressor(**params)
    model.learn_one({f"old {j}": 1.0 for j in range(10_000)}, 0.2)
    listed, passes, last = [], 0, 0.0
    for i in range(4_000):
        model.learn_one({"a": 1.0, "b": float(i % 3)}, 5.0)
        c = model._state.rule.clock[0]
        passes += c.s > last > 0.0
        last = float(c.s)
        listed.append(int(c.n))
    assert listed[1] == 10_002 and listed[-1] == 2
    assert passes > 4
    assert model.n_nonzero == 2 and model.n_features_seen == 10_002
    model._state.check()


def test_sum_of_squares_is_recomputed_after_a_large_drop() -> None:
    """A weight of 1e9 appears and is dropped; the squares of the other weights must survive."""
    params: dict[str, Any] = {"strength": 1e-3, "lr": 1.0, "schedule": "constant"}
    params |= {"intercept_lr": 0.0}
    model, twin = FOBOSRegressor(**params), reference.FOBOS(3, loss="squared", **params)
    rows = [({0: 0.5}, 1.0), ({1: 1.0}, 1e9), ({0: 0.25}, 1.0), ({1: 1.0}, 0.25), ({2: 1.0}, 0.1)]
    for row, y in rows * 5:
        x = np.zeros(3)
        x[list(row)] = list(row.values())
        model.learn_one(row, y)
        twin.learn(x, y)
        np.testing.assert_allclose(model._state.rule.weights()[:3], twin.w, rtol=1e-12, atol=1e-7)
        model._state.check()
        c = model._state.rule.clock[0]
        exact = math.fsum((model._state.rule.weights() ** 2).tolist())
        assert c.N * c.s**2 == pytest.approx(exact, rel=2e-11)


@pytest.mark.slow
def test_million_steps_equal_the_dense_update() -> None:
    """Rows have one or two features."""
    random = np.random.default_rng(5)
    n, d, strength = 1_000_000, 8, 0.05
    ids = random.integers(0, d, (n, 2))
    x = random.choice([0.5, 1.0, -1.0, 3.0], (n, 2)) * 0.97
    y = x[:, 0] * (ids[:, 0] - 3.2) + random.normal(size=n)
    settings: dict[str, Any] = {"lr": 0.02, "schedule": "constant", "intercept_lr": 0.0}
    model = FOBOSRegressor(strength=strength, **settings)
    indptr = np.arange(n + 1) * 2
    got = model.progressive_many(csr_matrix((x.ravel(), ids.ravel(), indptr), (n, d)), y)
    w, expected, pull = [0.0] * d, np.empty(n), 0.02 * strength
    for t, ((i, j), (p, q), label) in enumerate(
        zip(ids.tolist(), x.tolist(), y.tolist(), strict=True)
    ):
        a = expected[t] = w[i] * p + w[j] * q
        w[i] -= 0.02 * (a - label) * p
        w[j] -= 0.02 * (a - label) * q
        norm = math.hypot(*w)
        w = [v * (1.0 - pull / norm) for v in w] if norm > pull else [0.0] * d
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(model._state.rule.weights()[:d], w, rtol=0.0, atol=1e-9)


def test_feature_with_a_zero_weight_counts_as_seen() -> None:
    model = FOBOSRegressor(lr=1.0, schedule="constant", intercept_lr=0.0, strength=0.0)
    model.learn_one({"a": 1.0}, 1.0, 0.0)
    assert model.weights == {} and model.n_features_seen == 1
    model.learn_one({"a": 1.0, "b": 1.0}, 1.0)
    model.learn_one({"a": 1.0}, 0.0)  # back to 0
    assert model.weights == {"b": 1.0} and model.n_features_seen == 2
    assert model._state.rule.u[0] == NIL
    model._state.check()
    model.learn_one({"a": 0.5}, 1.0)
    assert model.weights == {"a": 0.5, "b": 1.0}
    rule = model._state.rule
    rule.drop(np.array([1]))
    assert model.weights == {"a": 0.5} and model.n_features_seen == 2
    model._state.check()
    model.mutate({"strength": 0.1})
    model.learn_one({}, 1.0)
    assert model.weights == pytest.approx({"a": 0.4}, abs=1e-15)
    assert model._state.rule.clock[0].n == 1
    model._state.check()


def test_crafted_state_is_rejected() -> None:
    ledgers = (("s", 1e-30), ("s", 1.0), ("N", 0.7), ("n", 3), ("strength", -1.0))
    kit.assert_rejects_states(
        FOBOSClassifier(strength=0.01),
        lambda a: [
            *({"clock": {name: value}} for name, value in ledgers),
            *({"u": a["u"] * factor} for factor in (2.0, 0.0)),
        ],
    )
