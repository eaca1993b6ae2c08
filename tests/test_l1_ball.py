"""The l1 ball, with the wheel and with the tree, against its dense twin, and general properties."""

from __future__ import annotations

import itertools
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import L1BallClassifier, L1BallRegressor
from streaml1.optim.losses import CODES
from streaml1.optim.structures import fixed_point_vector as raw_vector
from tests import kit, reference
from tests.conftest import ROOT
from tests.learner_data import (
    BINARY,
    SCHEDULES,
    D,
    as_dict,
    assert_equal_twins,
    dense,
    is_run,
    labels_of,
    rows_of,
)

INDEXES = ("wheel", "tree")
MODELS = (L1BallClassifier, L1BallRegressor)


def make_model(loss: str, **params: Any) -> Any:
    kind = L1BallClassifier if loss in BINARY else L1BallRegressor
    return kind(loss=loss, **params)


def l1_norm(model: Any) -> float:
    return sum(map(abs, model.weights.values()))


# Against the dense twin

# Radii are not round: with an intercept in hundredths, round ones put margins on the hinge's kink.
BALLS = {
    "small": {"radius": 0.0512},
    "middle": {"radius": 1.0371},
    "simplex": {"radius": 0.6123, "nonnegative": True},
    "large": {"radius": 12.345},  # only some losses reach it, after many steps
}


@pytest.mark.slow
@pytest.mark.parametrize("loss", CODES)
def test_equals_the_dense_twin(loss: str) -> None:
    """Run two thousand steps per schedule and some balls, in batches and one by one."""
    X, y, signed, w = kit.data_of(loss)
    X[::4] = np.sign(X[::4])  # binary rows: ties
    n_inside = 0
    for k, (schedule, ball) in enumerate(itertools.product(SCHEDULES, BALLS)):
        if not is_run(loss, k):
            continue
        params: dict[str, Any] = {**SCHEDULES[schedule], **BALLS[ball]}
        if k % 3 == 0:
            params |= {"clip_gradient": 0.2, "intercept_lr": 0.05, "intercept_init": -0.3}
        twin = reference.L1Ball(D, loss=loss, **params)
        models = [make_model(loss, index=index, **params) for index in INDEXES]
        for rows, one_by_one in kit.blocks():
            expected = twin.progressive(X[rows], signed[rows], w[rows])
            found = [kit.progressive(m, X[rows], y[rows], w[rows], one_by_one) for m in models]
            np.testing.assert_allclose(found[0], expected, rtol=0.0, atol=1e-9, err_msg=str(params))
            assert found[0].tobytes() == found[1].tobytes()
            for model in models:
                assert_equal_twins(model, twin)
                assert l1_norm(model) <= params["radius"] * (1.0 + 1e-15)
                model._state.check()
            assert models[0].weights == models[1].weights
            assert models[0].n_nonzero == len(models[0].weights)
            n_inside += l1_norm(models[0]) < 0.999 * params["radius"]
    assert n_inside > (7 if loss == "logistic" else 0)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize(
    ("radius", "lr", "scale"),
    [
        (1e-3, 0.5, 1.0),  # each step is hundreds of radii long
        (1e-3, 1e-4, 1.0),
        (0.1, 30.0, 1.0),
        (1e6, 0.3, 1.0),  # never reached: as precise as without a ball
        (1e6, 0.3, 1e7),
        (1e30, 0.3, 1.0),
        (1e-30, 0.3, 1e-30),
        (2e-5, 0.3, 1e-4),
    ],
)
def test_radii_and_steps_of_all_sizes(
    index: str, nonnegative: bool, radius: float, lr: float, scale: float
) -> None:
    random = np.random.default_rng(4)
    X = rows_of(random, 3_000)
    y, signed = labels_of(random, X, "absolute")
    y, signed = y * scale, signed * scale
    params: dict[str, Any] = {"radius": radius, "nonnegative": nonnegative, "lr": lr * scale}
    params |= {"loss": "absolute", "intercept_lr": 0.0}
    model, twin = L1BallRegressor(index=index, **params), reference.L1Ball(D, **params)
    max_error = 1e-9 if scale <= 1.0 else 1e-14 * radius
    for lo in range(0, 3_000, 200):
        chunk = slice(lo, lo + 200)
        expected = twin.progressive(X[chunk], signed[chunk], np.ones(200))
        predictions = model.progressive_many(csr_matrix(X[chunk]), y[chunk])
        np.testing.assert_allclose(predictions, expected, rtol=0.0, atol=10.0 * max_error)
        np.testing.assert_allclose(
            dense(model), twin.w, rtol=0.0, atol=min(max_error, radius * 1e-9)
        )
        assert l1_norm(model) <= radius * (1.0 + 1e-14)
        model._state.check()
    assert (radius == l1_norm(model)) or l1_norm(model) < radius


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("nonnegative", [False, True])
def test_huge_steps_among_small_ones(index: str, nonnegative: bool) -> None:
    """A huge step projects its row alone, then the other weights; rows have ties."""
    random = np.random.default_rng(6)
    n = 1_200
    X = random.choice([0.0, 0.0, 0.0, 1.0, -1.0, 0.5], size=(n, D))
    X[::2] *= random.normal(size=(n // 2, D))
    y = random.choice([-1e9, 1e9], size=n)
    w = random.choice([1e-4, 1e-2, 1.0, 30.0, 3e3, 1e5], size=n, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05])
    params: dict[str, Any] = {"loss": "absolute", "lr": 1.0, "schedule": "constant"}
    params |= {"radius": 2.0, "nonnegative": nonnegative, "intercept_lr": 0.0}
    model, twin = L1BallRegressor(index=index, **params), reference.L1Ball(D, **params)
    for i in range(n):
        model.progressive_many(csr_matrix(X[i : i + 1]), y[i : i + 1], w[i : i + 1])
        twin.learn(X[i], y[i], w[i])
        # The rounding error is proportional to the size of the step.
        error = 1e-9 if w[i] < 1e5 else 1e-8
        np.testing.assert_allclose(dense(model), twin.w, rtol=0.0, atol=error)
        twin.w = dense(model)
        assert l1_norm(model) <= 2.0
        if i % 100 == 0:
            model._state.check()


@pytest.mark.parametrize("index", INDEXES)
def test_tied_weights_stay_equal(index: str) -> None:
    """Equal weights stay equal, for any number of them and any step size."""
    for lr, k in itertools.product((0.5, 1e4, 1e10), (1, 3, 1000)):
        model = L1BallRegressor(radius=1.0, index=index, loss="absolute", lr=lr, intercept_lr=0.0)
        model.learn_one(dict.fromkeys(range(k), 1.0), 5.0)
        weights = list(model.weights.values())
        assert len(weights) == k and len(set(weights)) == 1
        assert sum(weights) == pytest.approx(min(1.0, lr * k), rel=1e-13)
        for j in range(k):  # remove them one at a time
            model.learn_one({j: 1.0}, -5.0)
        model._state.check()


# The radius


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("via", ["attribute", "mutate"])
def test_radius_change_applies_from_the_next_step(via: str, index: str) -> None:
    random = np.random.default_rng(11)
    radii = [3.0, 0.3, 5.0, 1e4, 2e-3, 0.5, 1e-9, 1e-6, 1.0]
    X = rows_of(random, 300 * len(radii))
    y, signed = labels_of(random, X, "logistic")
    model = L1BallClassifier(index=index, lr=0.5)
    twin = reference.L1Ball(D, lr=0.5)
    for k, radius in enumerate(radii):
        before = model.weights
        if via == "mutate":
            model.mutate({"radius": radius})
        else:
            model.radius = radius
        twin.radius = radius
        assert model.weights == before
        for lo, hi in ((300 * k, 300 * k + 1), (300 * k + 1, 300 * (k + 1))):
            predictions = model.progressive_many(csr_matrix(X[lo:hi]), y[lo:hi])
            expected = twin.progressive(X[lo:hi], signed[lo:hi], np.ones(hi - lo))
            np.testing.assert_allclose(predictions, expected, rtol=0.0, atol=1e-9)
            assert_equal_twins(model, twin)
            max_error = 1e-9 * radius + 1e-15  # the twin subtracts large floats
            np.testing.assert_allclose(dense(model), twin.w, rtol=0.0, atol=max_error)
            assert l1_norm(model) <= radius * (1.0 + 1e-14)
            model._state.check()


@pytest.mark.parametrize("index", INDEXES)
def test_empty_example_projects_onto_a_smaller_radius(index: str) -> None:
    model = L1BallRegressor(radius=10.0, index=index, loss="absolute", lr=1.0, intercept_lr=0.0)
    model.learn_one({"a": 3.0, "b": -2.0, "c": 0.5}, 9.0)
    assert model.weights == {"a": 3.0, "b": -2.0, "c": 0.5}
    model.radius = 3.0
    assert model.weights == {"a": 3.0, "b": -2.0, "c": 0.5}
    model.learn_one({}, 0.0, 0.0)
    assert model.weights == pytest.approx({"a": 2.0, "b": -1.0})
    model.radius = 10.0
    model.learn_one({}, 0.0)
    assert model.weights == pytest.approx({"a": 2.0, "b": -1.0})


@pytest.mark.parametrize("index", INDEXES)
def test_radius_may_shrink_by_any_factor(index: str) -> None:
    """Only the largest weight remains, regardless of the fixed-point unit."""
    for radius in (1e3, 1e-3, 1e-9, 1e-20, 1e-30):
        model = L1BallRegressor(radius=1e30, index=index, loss="absolute", lr=1.0)
        model.learn_one({"a": 3.0, "b": -5.0, "c": 0.5}, 9e9)
        model.radius = radius
        model.learn_one({}, 0.0, 0.0)
        model._state.check()
        expected = {"a": 3.0, "b": -5.0, "c": 0.5} if radius > 10.0 else {"b": -radius}
        assert model.weights == pytest.approx(expected, rel=1e-14)
        model.learn_one({"c": 1.0}, 9e9)
        model._state.check()
        assert l1_norm(model) <= radius


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"radius": 0.0}, "radius must be a number from 1e-30 to 1e+30, got 0.0"),
        ({"radius": -1}, "radius must be a number from 1e-30 to 1e+30, got -1"),
        ({"radius": float("inf")}, "radius must be a number from 1e-30 to 1e+30, got inf"),
        ({"radius": float("nan")}, "radius must be a number from 1e-30 to 1e+30, got nan"),
        ({"radius": "1"}, "radius must be a number from 1e-30 to 1e+30, got '1'"),
        ({"index": "heap"}, 'index must be one of "wheel", "tree", got \'heap\''),
        ({"nonnegative": 1}, "nonnegative must be a bool, got 1"),
    ],
)
def test_parameters_out_of_range_are_rejected(params: dict[str, Any], message: str) -> None:
    for kind in MODELS:
        with pytest.raises(ValueError, match=message.replace("+", r"\+")):
            kind(**params)


def test_parameters_that_cannot_change() -> None:
    model = L1BallClassifier()
    for name, value in (("index", "tree"), ("nonnegative", True)):
        with pytest.raises(ValueError, match=f"{name} cannot change"):
            model.mutate({name: value})
        with pytest.raises(ValueError, match=f"{name} cannot change"):
            setattr(model, name, value)
    assert model.clone({"index": "tree", "nonnegative": True}).nonnegative


# General properties of models


@pytest.mark.parametrize("index", INDEXES)
def test_steps_inside_the_ball_are_plain_sgd(index: str) -> None:
    random = np.random.default_rng(3)
    X = rows_of(random, 2_000)
    y = X @ random.normal(size=D)
    model = L1BallRegressor(radius=1e9, lr=0.2, index=index)
    w, b = np.zeros(D), 0.0
    for i in range(len(X)):
        model.learn_one(as_dict(X[i]), float(y[i]))
        g = w @ X[i] + b - y[i]
        w -= 0.2 / np.sqrt(i + 1.0) * g * X[i]
        b -= 0.01 * g
    np.testing.assert_allclose(dense(model), w, rtol=0.0, atol=1e-11)
    assert model._state.rule.clock[0].awake == 0  # no weight entered the index


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("before", [0, 1_000, 20_000])
def test_new_features_have_no_past_penalty(index: str, before: int) -> None:
    """A new feature in a ball with spare radius gets the full weight of its step."""
    model = L1BallClassifier(radius=2.0, index=index, lr=0.1, schedule="constant", intercept_lr=0.0)
    past = csr_matrix((np.ones(before), np.zeros(before, int), np.arange(before + 1)), (before, 1))
    if before:
        model.learn_many(past, np.arange(before) % 2)
    model.learn_one({"new": 1.0}, True)
    assert model.weights["new"] == pytest.approx(0.05, abs=1e-14)


def test_intercept_is_not_projected() -> None:
    model = L1BallRegressor(radius=1e-3, intercept_lr=0.1, intercept_init=7.0)
    for _ in range(500):
        model.learn_one({"x": 1.0}, 40.0)
    assert model.intercept == pytest.approx(40.0, abs=0.01)
    assert l1_norm(model) <= 1e-3


def test_nonnegative_weights_are_never_negative() -> None:
    random = np.random.default_rng(2)
    X = rows_of(random, 2_000)
    y, _ = labels_of(random, X, "squared")
    for index in INDEXES:
        model = L1BallRegressor(radius=1.5, nonnegative=True, index=index, lr=0.3)
        for lo in range(0, 2_000, 50):
            model.learn_many(csr_matrix(X[lo : lo + 50]), y[lo : lo + 50])
            assert all(w > 0.0 for w in model.weights.values())
        assert model.n_nonzero > 3


# Copies and files


@pytest.mark.parametrize("index", INDEXES)
def test_hash_bits_and_max_features(index: str) -> None:
    """Ints below the number of slots are their own slots, and the limit is respected."""
    random = np.random.default_rng(8)
    X = rows_of(random, 2_000)
    y, _ = labels_of(random, X, "logistic")
    plain, hashed, capped = (
        L1BallClassifier(radius=1.4, index=index, lr=0.5, **params)
        for params in ({}, {"hash_bits": 10}, {"hash_bits": 10, "max_features": 8})
    )
    for lo in range(0, 2_000, 100):
        for model in (plain, hashed, capped):
            model.learn_many(csr_matrix(X[lo : lo + 100]), y[lo : lo + 100])
            model._state.check()
        assert hashed.weights == plain.weights
        assert capped.n_nonzero <= 8
    assert capped.n_cut > 0 and plain.n_nonzero > 8


@pytest.mark.parametrize("index", INDEXES)
def test_invalid_states_are_rejected(index: str) -> None:
    kit.assert_rejects_states(
        L1BallRegressor(index=index),
        lambda a: [
            *({"w": np.array([value, *a["w"][1:]])} for value in (0, 2**53)),
            {"w": np.full(len(a["w"]), 2**51)},
            *({"kept": {"unit": unit}} for unit in (3.0, 0.0)),
            *({"kept": {"radius": radius}} for radius in (np.inf, -1.0)),
        ],
    )


def test_deriving_a_rule_does_not_change_the_old_one() -> None:
    """An interrupt or a memory error may discard the results of reserve, grow and remap."""
    random = np.random.default_rng(8)
    X = rows_of(random, 1_000)
    y, _ = labels_of(random, X, "logistic")
    for index in INDEXES:
        derived, plain = (L1BallClassifier(radius=0.4, index=index, lr=0.5) for _ in range(2))
        for lo in range(0, 1_000, 20):
            rule = derived._state.rule
            rule.reserve(3)
            rule.reserve(10_000)
            rule.grow(rule.size + 3)
            rule.remap(np.arange(rule.size)[::-1].copy(), rule.size)
            assert derived._state.rule is rule
            for model in (derived, plain):
                model.learn_many(csr_matrix(X[lo : lo + 20]), y[lo : lo + 20])
            derived._state.check()
            assert derived.weights == plain.weights


@pytest.mark.parametrize("index", INDEXES)
def test_renormalizing_changes_no_weight(index: str) -> None:
    """The unit stays the same, so renormalizing is possible at any time."""
    random = np.random.default_rng(8)
    X = rows_of(random, 600)
    y, _ = labels_of(random, X, "squared")
    renormalized, plain = (L1BallRegressor(radius=0.7, index=index, lr=0.5) for _ in range(2))
    for i in range(600):
        x = as_dict(X[i])
        for model in (renormalized, plain):
            model.learn_one(x, float(y[i]))
        renormalized._state.rule.renormalize()
        renormalized._state.check()
        assert renormalized._state.rule.clock[0].Theta == 1
        assert renormalized.weights == plain.weights
    assert plain._state.rule.clock[0].Theta > 1


def test_fixed_point_constants_cannot_overflow() -> None:
    """Keep |v| below 2**62, and S plus the largest step below 2**63."""
    full = int(raw_vector.FULL)
    assert raw_vector.MAX_THETA + 4 * full < 2**62
    assert raw_vector.COARSE_Z > 2**32  # more than the maximum number of slots
    assert full > 4 * raw_vector.MIN_Z


# Demo


@pytest.mark.slow
def test_demo(tmp_path: Path) -> None:
    """All contenders learn the same model, which the demo asserts itself."""
    demo = runpy.run_path(str(ROOT / "demos" / "ball_sizes.py"))
    sizes = [demo["measure"](n, *demo["stream"](n)) for n in (200, 3_000)]
    assert 100 < sizes[0].active < 400 and 2_000 < sizes[1].active < 4_000
    assert [size.height for size in sizes] == [1, 2]
    assert set(sizes[0].us) == {"no ball", "wheel", "tree", "linear", "lean linear", "sort"}
    assert min(sizes[0].us.values()) > 0.0
    demo["draw"](sizes, tmp_path / "out" / "sizes.png")
    assert (tmp_path / "out" / "sizes.png").stat().st_size > 10_000


@pytest.mark.parametrize("index", ["wheel", "tree"])
def test_step_much_longer_than_the_radius(index: str) -> None:
    """The projection of a step of 1e24 radii has the length of the radius and is not zero."""
    model = streaml1.L1BallRegressor(
        radius=10.0, index=index, loss="absolute", lr=1.0, schedule="constant"
    )
    model.learn_one({"a": 1.0, "b": 1.0}, 3.0)
    model.learn_one({"a": 1e25}, -1e30)
    assert model.weights == pytest.approx({"a": -10.0})
