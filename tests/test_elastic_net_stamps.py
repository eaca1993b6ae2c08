"""Explicit stamps: equal to the folded form and the dense twin, with bounded tables."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import ElasticNetClassifier, ElasticNetRegressor
from streaml1.optim.elastic_net_stamps import BLOCK, MAX_EQUAL_STEPS, START, ElasticNetStamps
from tests import kit, reference
from tests.learner_data import (
    D,
    as_dict,
    assert_equal_twins,
    labels_of,
    rows_of,
)

EXPLICIT: dict[str, Any] = {"stamps": "explicit"}


def clock_of(model: Any) -> Any:
    return model._state.rule.clock[0]


def empty_rows(n: int) -> tuple[Any, Any]:
    """Return n rows without features and their labels: steps of the penalty alone."""
    return csr_matrix((n, 1)), np.zeros(n, int)


def test_theorem_1_as_printed_and_corrected() -> None:
    """Verify the numbers in the docstring of the module."""
    l1, l2 = 0.01, 0.1
    eta = 0.5 / np.sqrt(np.arange(1.0, 51.0))
    P = np.cumprod(1.0 - eta * l2)
    P_before = np.concatenate([[1.0], P[:-1]])
    Phi = np.cumprod(1.0 / (1.0 + eta * l2))
    Phi_before = np.concatenate([[1.0], Phi[:-1]])
    printed = max(0.0, P[-1] - P[-1] * np.sum(eta / P_before))
    with_l1 = P[-1] - l1 * P[-1] * np.sum(eta / P_before)
    corrected = P[-1] - l1 * P[-1] * np.sum(eta / P)
    theorem_2 = Phi[-1] - l1 * Phi[-1] * np.sum(eta / Phi_before)
    dense = {}
    for update in ("sgd", "fobos"):
        twin = reference.ElasticNet(1, l1=l1, l2=l2, update=update, lr=0.5)
        twin.w = np.ones(1)
        for _ in range(50):
            twin.learn(np.zeros(1), 1.0)
        dense[update] = twin.w[0]
    assert printed == 0.0
    assert f"{with_l1:.6f}" == "0.478839"
    assert f"{corrected:.6f}" == f"{dense['sgd']:.6f}" == "0.478086"
    assert f"{theorem_2:.6f}" == f"{dense['fobos']:.6f}" == "0.484628"
    model = ElasticNetRegressor(l1=l1, l2=l2, update="sgd", lr=0.5, intercept_lr=0.0, **EXPLICIT)
    rule = model._state.rule
    rule.slots[0] = (1.0, 1)
    model.learn_many(*empty_rows(50))
    assert model.weights[0] == pytest.approx(dense["sgd"], abs=1e-15)


MAX_STEPS, BLOCK_STEPS = int(MAX_EQUAL_STEPS), int(BLOCK)
GAPS = (1, 2, 255, 256, 257, 3_000)
GAPS += (BLOCK_STEPS - 1, BLOCK_STEPS, BLOCK_STEPS + 1, 17 * BLOCK_STEPS + 7)
GAPS += (MAX_STEPS - 1, MAX_STEPS, MAX_STEPS + 1, 3 * MAX_STEPS + 7)


@pytest.mark.parametrize("update", ["fobos", "sgd"])
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize(("l1", "l2"), [(1e-6, 0.0), (0.0, 1e-5), (1e-7, 1e-6), (1e-4, 1e-3)])
def test_equal_steps_match_the_closed_form(update: str, gap: int, l1: float, l2: float) -> None:
    """A weight untouched for `gap` equal steps, against the closed form in high precision."""
    model = ElasticNetRegressor(
        l1=l1, l2=l2, update=update, lr=0.5, schedule="constant", budget=2**21, **EXPLICIT
    )
    model._state.rule.slots[0] = (2.0, 1)
    model._state.rule.slots[1] = (-1e-3, 1)
    model.learn_many(*empty_rows(gap))
    now = clock_of(model).now  # all weights are brought up to date at MAX_STEPS at the latest
    assert now == 1 + gap % MAX_STEPS or (now <= MAX_STEPS and l2 >= 1e-3)
    step, l2 = np.longdouble(0.5), np.longdouble(l2)
    a = 1 - step * l2 if update == "sgd" else 1 / (1 + step * l2)
    b = step * l1 * (1 if update == "sgd" else a)
    factor = np.exp(gap * np.log(a))
    loss = b * gap if l2 == 0.0 else b * -np.expm1(gap * np.log(a)) / (1 - a)
    expected = [
        max(0.0, float(v * factor - loss)) for v in (np.longdouble(2.0), np.longdouble(1e-3))
    ]
    model._state.check()
    w = model._state.rule.weights()
    assert w[0] == pytest.approx(expected[0], rel=1e-11, abs=1e-16)
    assert w[1] == pytest.approx(-expected[1], rel=1e-9, abs=1e-16)
    for j in (0, 1):
        assert model._state.rule.weight(j) == w[j] == model.weights.get(j, 0.0)
        assert model.predict_one({j: 1.0}) == w[j] + model.intercept


@pytest.mark.parametrize("update", ["fobos", "sgd"])
@pytest.mark.parametrize("n_blocks", [1, 2, 40])
@pytest.mark.parametrize(("l1", "l2"), [(1e-6, 0.0), (1e-6, 1e-5), (1e-3, 1e-6), (1e-9, 1e-3)])
def test_zero_weights_stay_zero(update: str, n_blocks: int, l1: float, l2: float) -> None:
    """Weights that just reach zero when the last steps complete a block must never grow again."""
    params: dict[str, Any] = {"l1": l1, "l2": l2, "update": update, "schedule": "constant"}
    model = ElasticNetRegressor(**params, lr=0.5, **EXPLICIT)
    model.learn_many(*empty_rows(n_blocks * BLOCK_STEPS - 2))
    rule = model._state.rule
    dying = l1 * clock_of(model).B
    rule.slots["w"][:400] = dying + np.spacing(dying) * (np.arange(400) - 200)
    rule.slots["psi"][:400] = START
    sizes = [np.abs(rule.weights()[:400])]
    assert sizes[0].any() and not sizes[0].all()
    for _ in range(5):
        model.learn_many(*empty_rows(1))
        sizes.append(np.abs(model._state.rule.weights()[:400]))
    assert (np.diff(sizes, axis=0) <= 0.0).all()


@pytest.mark.parametrize("update", ["fobos", "sgd"])
@pytest.mark.parametrize(("l1", "l2"), [(1e-6, 0.0), (1e-5, 1e-4), (0.0, 1e-3)])
def test_equal_steps_match_individually_stamped_steps(update: str, l1: float, l2: float) -> None:
    """Compare both kinds of stamps over several blocks, with pickling in between."""
    params: dict[str, Any] = {"l1": l1, "l2": l2, "update": update, "schedule": "constant"}
    models = [ElasticNetRegressor(**params, lr=0.5, **EXPLICIT) for _ in range(2)]
    clock_of(models[1]).even = 0
    random = np.random.default_rng(3)
    for k in range(6):
        n = int(random.integers(1, 2 * BLOCK_STEPS))
        X = csr_matrix((np.ones(n), random.integers(0, 300, n), np.arange(n + 1)), (n, 300))
        y = random.normal(size=n)
        p, q = (model.progressive_many(X, y) for model in models)
        np.testing.assert_allclose(p, q, rtol=1e-11, atol=1e-13)
        w, v = (model._state.rule.weights()[:300] for model in models)
        np.testing.assert_allclose(w, v, rtol=1e-11, atol=1e-13)
        assert clock_of(models[0]).even and not clock_of(models[1]).even
        if k % 2:
            restored = pickle.loads(pickle.dumps(models[0]))
            restored._state.check()
            assert restored.weights == models[0].weights
            models[0] = restored
    assert clock_of(models[0]).now == clock_of(models[1]).now > 3 * BLOCK_STEPS


@given(
    steps=st.lists(
        st.tuples(st.sampled_from([0.0, 0.05, 0.3, 1.0]), st.integers(1, 40)), max_size=12
    ),
    budget=st.sampled_from([1, 3, 50, 2**20]),
    update=st.sampled_from(["fobos", "sgd"]),
    l2=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_alternating_constant_and_changing_rates(
    steps: list[tuple[float, int]], budget: int, update: str, l2: float
) -> None:
    """With rates that stay, change and return, the weights equal the dense ones at any time."""
    params: dict[str, Any] = {"l1": 2e-3, "l2": l2, "update": update, "schedule": "constant"}
    model = ElasticNetRegressor(**params, **EXPLICIT, budget=budget)
    twin = reference.ElasticNet(5, loss="squared", **params)
    t = 0
    for lr, n in steps:
        model.lr = twin.lr = lr
        for _ in range(n):
            x = np.zeros(5)
            x[[t * t % 5, t * 7 % 3]] = 1.0
            model.learn_one(as_dict(x), float(t % 4))
            twin.learn(x, float(t % 4))
            t += 1
        model._state.check()
        w = model._state.rule.weights()
        np.testing.assert_allclose(w[:5], twin.w, rtol=0.0, atol=1e-12)
        assert clock_of(model).now <= budget


@pytest.mark.parametrize(
    ("params", "limit"),
    [
        ({"l2": 50.0, "schedule": "invsqrt", "lr": 0.9}, "P"),
        ({"l1": 0.9, "schedule": "inverse", "lr": 500.0}, "A"),
        ({"l1": 1e-3, "schedule": "invsqrt", "budget": 64}, "budget"),
    ],
)
def test_weights_are_updated_before_a_limit_is_exceeded(params: dict[str, Any], limit: str) -> None:
    """All weights are updated only if P would underflow, A is too large or the tables are full."""
    random = np.random.default_rng(4)
    n = 6_000
    X = rows_of(random, n)
    y, signed = labels_of(random, X, "absolute")
    params = {"loss": "absolute", **params}
    model = ElasticNetRegressor(**params, **EXPLICIT)
    params.pop("budget", None)
    twin = reference.ElasticNet(D, **params)
    intervals, now = [], 1
    for lo in range(0, n, 5):
        model.learn_many(csr_matrix(X[lo : lo + 5]), y[lo : lo + 5])
        twin.progressive(X[lo : lo + 5], signed[lo : lo + 5], np.ones(5))
        if clock_of(model).now < now:
            intervals.append(now)
        now = int(clock_of(model).now)
        if lo % 500 == 0:
            model._state.check()
            assert_equal_twins(model, twin)
    assert len(intervals) > (2 if limit != "budget" else 80)
    if limit == "budget":
        assert min(intervals[1:]) >= 64 - 5 and max(intervals) <= 64
    else:
        assert min(intervals[1:]) > 50


def test_tables_are_bounded() -> None:
    """The budget bounds the tables if rates differ; a constant rate needs constant memory."""
    for budget in (2**20, 2**30):
        constant_rate = ElasticNetRegressor(l1=1e-6, schedule="constant", **EXPLICIT, budget=budget)
        for _ in range(4):
            constant_rate.learn_many(*empty_rows(300_000))
            assert len(constant_rate._state.rule.sums) <= BLOCK_STEPS + 1
        assert len(constant_rate._state.rule.sums) == BLOCK_STEPS + 1
    falling_rate = ElasticNetRegressor(l1=1e-6, **EXPLICIT, budget=5_000)
    for _ in range(4):
        falling_rate.learn_many(*empty_rows(7_000))
        assert len(falling_rate._state.rule.sums) <= 5_002
    assert len(falling_rate._state.rule.sums) == 5_002
    small_budget = ElasticNetRegressor(l1=1e-6, **EXPLICIT, budget=100)
    small_budget.learn_many(*empty_rows(7_000))
    assert len(small_budget._state.rule.sums) == BLOCK_STEPS + 1


def test_files_hold_no_tables(tmp_path: Path) -> None:
    """Steps without features do not enlarge a file; the loaded model resumes bit-identically."""
    model = ElasticNetRegressor(l1=1e-5, l2=1e-4, **EXPLICIT)
    model.learn_many([{j: 1.0} for j in range(50)], np.ones(50))
    model.save(tmp_path / "early")
    model.learn_many(*empty_rows(30_000))
    model.save(tmp_path / "late")
    assert (tmp_path / "late").stat().st_size < (tmp_path / "early").stat().st_size + 500
    restored = streaml1.load(tmp_path / "late")
    for m in (model, restored):
        m.learn_many([{j % 70: 1.0} for j in range(500)], np.arange(500.0) % 3)
    assert restored.weights == model.weights
    restored._state.check()


def test_invalid_state_is_rejected() -> None:
    model = ElasticNetRegressor(l1=1e-5, **EXPLICIT)
    kit.assert_rejects_states(
        model,
        lambda a: [
            *({"clock": {"now": now}} for now in (2**40, 3)),
            {"clock": {"P": 0.5**600}},
            {"psi": a["psi"] + np.uint64(10**6)},
            {"B": a["B"] + 1.0},
        ],
    )
    params, state = model._parameters(), model._file_state()()
    with pytest.raises(AssertionError):
        ElasticNetRegressor._from_file({**params, "stamps": "folded"}, state)


@pytest.mark.parametrize("n_steps", [40, int(BLOCK) - 1, int(BLOCK), 3 * int(BLOCK) + 7])
@pytest.mark.parametrize("update", ["fobos", "sgd"])
def test_ledger_of_equal_steps_is_exact(update: str, n_steps: int) -> None:
    """The tables follow from the ledger, so that its last bit must not be wrong."""
    model = ElasticNetRegressor(
        update=update, lr=0.1, l1=1e-5, l2=1e-4, stamps="explicit", schedule="constant"
    )
    model.learn_many([{j: 1.0} for j in range(20)], np.ones(20))
    model.learn_many(*empty_rows(n_steps - 20))
    slots, arrays = model._state.rule.state_dict()
    assert arrays["clock"]["even"] == 1 and arrays["clock"]["now"] == n_steps + 1
    ElasticNetStamps.from_state_dict(100, slots, arrays).check()
    for field in ("B", "B_low"):
        forged = arrays["clock"].copy()
        forged[field] = np.nextafter(forged[field], np.inf)
        with pytest.raises(AssertionError, match=f"^{field}="):
            ElasticNetStamps.from_state_dict(100, slots, {**arrays, "clock": forged})


def test_parameters_out_of_range_are_rejected() -> None:
    for params, message in (
        ({"stamps": "implicit"}, 'stamps must be one of "folded", "explicit"'),
        ({"budget": 0}, "budget must be an integer from 1 to 1,073,741,824, got 0"),
        ({"budget": 2**31}, "got 2147483648"),
        ({"budget": 2.5}, "budget must be an integer from 1 to 1,073,741,824, got 2.5"),
        ({"budget": True}, "must be an integer"),
        ({"budget": None}, "must be an integer"),
    ):
        with pytest.raises(ValueError, match=message):
            ElasticNetClassifier(**params)  # type: ignore[arg-type]
    model = ElasticNetClassifier(**EXPLICIT)
    with pytest.raises(ValueError, match="stamps cannot change"):
        model.mutate({"stamps": "folded"})
    with pytest.raises(ValueError, match="stamps cannot change after construction"):
        model.stamps = "folded"


def test_freeing_slots_changes_nothing() -> None:
    """A weight that is just zero during equal steps must not return by rounding."""
    random = np.random.default_rng(6)
    for seed in range(40):
        l1, l2 = float(10 ** random.uniform(-4, -1)), float(random.choice([0.0, 0.01, 0.5]))
        models = [
            ElasticNetRegressor(l1=l1, l2=l2, lr=0.3, schedule="constant", **EXPLICIT)
            for _ in range(2)
        ]
        weights = random.exponential(size=30) * 0.1
        for model in models:
            model._state.rule.slots["w"][:30] = weights
            model._state.rule.slots["psi"][:30] = 1
        for _ in range(60):
            for model in models:
                model.learn_many(*empty_rows(seed % 7 + 1))
            rule = models[1]._state.rule
            dead = ~rule.live_mask()
            models[1]._state._context = None
            new_slots = np.where(dead, -1, np.arange(rule.size))
            models[1]._state.rule = rule.remap(new_slots, rule.size)
            assert models[0].weights == models[1].weights


def test_table_growth_changes_nothing() -> None:
    """Results are bit-identical for any initial size of the tables."""
    X = rows_of(np.random.default_rng(2), 6_000)
    results = []
    for size in (BLOCK_STEPS + 1, 9_000):
        model = ElasticNetRegressor(l1=1e-3, l2=1e-3, **EXPLICIT)
        model._state.rule = model._state.rule._replace(sums=np.zeros(size))
        p = model.progressive_many(csr_matrix(X), X.sum(axis=1))
        assert (len(model._state.rule.sums) > size) == (size < 9_000)
        results.append((p.tobytes(), model.weights))
    assert results[0] == results[1]


@pytest.mark.parametrize("schedule", ["invsqrt", "constant"])
def test_lowered_budget_is_saved_and_copied(schedule: str, tmp_path: Path) -> None:
    """Save and copy before a step has applied the new budget."""
    model = ElasticNetClassifier(l1=0.01, l2=0.1, schedule=schedule, **EXPLICIT, budget=100)
    for t in range(20):
        model.learn_one({"a": 1.0, "b": -1.0}, t % 2 == 0)
    model.mutate({"budget": 5})
    model.save(tmp_path / "m")
    copies = [
        streaml1.load(tmp_path / "m"),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
    ]
    assert model.freeze().weights == model.weights
    for copied in copies:
        assert copied.weights == model.weights
    for t in range(20):
        for copied in (model, *copies):
            copied.learn_one({"a": 0.5, "c": 1.0}, t % 3 == 0)
            assert copied.weights == model.weights
            copied._state.check()
