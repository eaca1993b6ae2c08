"""Softmax regression compared with its dense twin; labels, balls, copies and threads."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import BadExample, SoftmaxClassifier
from streaml1.optim import softmax
from streaml1.optim.softmax_ball import SoftmaxBall
from tests import kit, reference
from tests.kit import CUTS
from tests.learner_data import SCHEDULES, as_dict, rows_of

D, LATE = 20, 15  # features from LATE on first appear after 7 of 10 rows

NAMES = ["ham", 7, "spam", True, 2.5, ("a", 1), b"z", -1, "eins", "zwei", "drei"]
PENALTIES = {"l1": 0.004, "l1/l2": 0.008, "l1/linf": 0.012}


def make_model(**params: Any) -> Any:
    """Return a model that learns the values as they are."""
    return SoftmaxClassifier(**{"lr": 0.1, **params})


def data_of(k: int, n: int = CUTS[-1]) -> tuple[Any, Any, Any]:
    """Return rows, label indices in order of first appearance, and sample weights.

    The last label and some features appear late; two of three features are noise.
    """
    random = np.random.default_rng(k)
    X = rows_of(random, n, D, 4)
    X[: n * 7 // 10, LATE:] = 0.0
    truth = random.normal(size=(D, k)) * (np.arange(D) % 3 == 0)[:, None] * 2.0
    margins = X @ truth + random.gumbel(size=(n, k)) * 0.5
    margins[: n // 2, k - 1] = -np.inf
    y = margins.argmax(axis=1)
    _, first_rows = np.unique(y, return_index=True)
    order = np.argsort(np.argsort(first_rows))
    return X, order[y], random.choice([0.0, 0.5, 1.0, 2.0], size=n, p=[0.1, 0.2, 0.5, 0.2])


def dense(model: Any, k: int) -> Any:
    rule = model._state.rule
    w = np.zeros((D, k))
    rows = rule.rows(np.arange(min(D, rule.size)))
    w[: len(rows), : rows.shape[1]] = rows
    return w


def assert_equal_twins(model: Any, twin: Any, names: list[Any]) -> None:
    k = len(twin.b)
    w = dense(model, k)
    np.testing.assert_allclose(w, twin.w, rtol=0.0, atol=1e-9)
    large = np.maximum(np.abs(w), np.abs(twin.w)) > 1e-9
    np.testing.assert_array_equal(np.sign(w[large]), np.sign(twin.w[large]))
    assert model.classes_met == names[:k]
    assert model.intercept == pytest.approx(
        dict(zip(names, twin.intercepts(), strict=False)), abs=1e-9
    )
    reported = np.zeros((D, k))
    for j, row in model.weights.items():
        for label, v in row.items():
            reported[j, names.index(label)] = v
    np.testing.assert_array_equal(reported, w)
    assert model.n_nonzero == np.count_nonzero(w)
    assert model.n_nonzero_rows == len(model.weights) == np.count_nonzero(w.any(axis=1))
    sizes = [model._state.rule.weight(j) for j in range(D)]
    np.testing.assert_array_equal(sizes, np.abs(w).max(axis=1, initial=0.0))


def run_beside(model: Any, twin: Any, data: Any, names: list[Any], cuts: list[int]) -> None:
    X, y, w = data
    labels = np.empty(len(names), object)
    labels[:] = names
    labels = labels[y]
    for part, (lo, hi) in enumerate(itertools.pairwise(cuts)):
        n_known = len(twin.b)
        expected = [twin.learn(X[i], y[i], w[i]) for i in range(lo, hi)]
        k = len(twin.b)
        if hi - lo < 100 and part % 2:
            got = np.zeros((hi - lo, k))
            for i in range(lo, hi):
                p = model.predict_proba_one(as_dict(X[i]))
                model.learn_one(as_dict(X[i]), labels[i], float(w[i]))
                if len(p) == len(expected[i - lo]):
                    got[i - lo, : len(p)] = list(p.values())
                else:  # a new label is added before the softmax of its step
                    got[i - lo, : len(expected[i - lo])] = expected[i - lo]
        else:
            got = model.progressive_many(csr_matrix(X[lo:hi]), labels[lo:hi], w[lo:hi])
        assert got.shape == (hi - lo, k) and n_known <= k
        is_known = np.arange(k) < np.array([len(row) for row in expected])[:, None]
        np.testing.assert_allclose(got[is_known], np.concatenate(expected), rtol=0.0, atol=1e-9)
        assert not got[~is_known].any()
        assert_equal_twins(model, twin, names)
        np.testing.assert_allclose(
            list(model.predict_proba_one(as_dict(X[lo])).values()), twin.output(X[lo]), atol=1e-9
        )
        model._state.check()


@pytest.mark.slow
@pytest.mark.parametrize("penalty", PENALTIES)
def test_equals_the_dense_twin(penalty: str) -> None:
    """Compare long runs for every schedule, with or without l2, and short runs for the rest.

    Labels and features appear late.
    """
    for n, (schedule, l2) in enumerate(itertools.product(SCHEDULES, (0.0, 0.03))):
        k, declared = (3, 10, 4, 2, 11)[n % 5], n % 4 > 1
        params = {**SCHEDULES[schedule], "strength": PENALTIES[penalty], "penalty": penalty}
        if n % 3 == 0:
            params |= {"clip_gradient": 0.3, "intercept_lr": 0.05, "intercept_init": -0.3}
        names = NAMES[:k]
        model = make_model(**params, l2=l2, classes=names if declared else None)
        twin = reference.Softmax(D, k if declared else 0, l2=l2, **params)
        steps = CUTS[-1] if n % 2 == n // 2 % 2 else 730
        cuts = [cut for cut in CUTS if cut <= steps]
        run_beside(model, twin, data_of(k, steps), names, cuts)


@pytest.mark.slow
@pytest.mark.parametrize("nonnegative", [False, True])
def test_balls_equal_the_dense_twin(nonnegative: bool) -> None:
    for n, schedule in enumerate(SCHEDULES):
        k, declared = (3, 10, 4, 2, 11)[n], n % 2 == 1
        radius = (0.3, 0.8, 1.5)[n % 3]
        params = {**SCHEDULES[schedule], "radius": radius, "nonnegative": nonnegative}
        params["penalty"], names = "ball", NAMES[:k]
        if n % 3 == 0:
            params |= {"clip_gradient": 0.3, "intercept_lr": 0.05, "intercept_init": -0.3}
        model = make_model(**params, classes=names if declared else None)
        twin = reference.Softmax(D, k if declared else 0, **params)
        run_beside(model, twin, data_of(k), names, CUTS)
        sums = np.abs(dense(model, k)).sum(axis=0)
        assert 0.98 * radius < sums.max() < radius * (1.0 + 1e-9)
        assert (dense(model, k) >= 0.0).all() == nonnegative


def rows_of_dicts(seed: int, n: int = 500, k: int = 4, name: Any = lambda j: j) -> list[Any]:
    random = Random(seed)
    rows = []
    for i in range(n):
        x = {name(random.randrange(40)): random.uniform(-1, 1) for _ in range(4)}
        rows.append((x, NAMES[random.randrange(1 + min(k - 1, i // 40))]))
    return rows


SETTINGS: dict[str, dict[str, Any]] = {
    "l1": {"strength": 3e-3},
    "l1/l2": {"strength": 5e-3, "penalty": "l1/l2", "l2": 0.02},
    "l1/linf": {"strength": 5e-3, "penalty": "l1/linf"},
    "ball": {"penalty": "ball", "radius": 0.6, "lr": 0.5},
    "simplex": {"penalty": "ball", "radius": 2.0, "lr": 1.0, "nonnegative": True},
}


# Labels


def test_labels_join_in_order_of_appearance() -> None:
    model = make_model()
    assert model.predict_proba_one({"a": 1.0}) == {} and model.predict_one({"a": 1.0}) is None
    assert model.predict_many(csr_matrix(np.eye(2))).tolist() == [None, None]
    assert model.predict_proba_many(csr_matrix(np.eye(2))).shape == (2, 0)
    assert model.classes_met == [] and model.intercept == {} and model.weights == {}
    model.learn_one({"a": 1.0}, "x")
    assert model.predict_proba_one({"a": 1.0}) == {"x": 1.0}
    p = model.progressive_many([{"a": 1.0}, {"b": 1.0}, {"a": 1.0}], ["x", 7, b"z"])
    np.testing.assert_allclose(p[:2], [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], rtol=0.0, atol=1e-15)
    assert p[2].all() and p[2].sum() == pytest.approx(1.0)
    assert model.classes_met == ["x", 7, b"z"] == list(model.predict_proba_one({}))
    assert type(model.progressive_many([], [])) is np.ndarray
    assert model.progressive_many([], []).shape == (0, 3)


def test_rule_grows_with_the_number_of_labels() -> None:
    """A rule that grows to 100 labels equals one with capacity from the start."""
    grown, reserved = (
        make_model(strength=1e-3, penalty="l1/l2"),
        make_model(strength=1e-3, penalty="l1/l2"),
    )
    reserved._state.reserve_outputs(200)
    random, widths = Random(3), set()
    for i in range(400):
        x = {random.randrange(30): random.uniform(-1, 1) for _ in range(5)}
        y = f"label {min(i // 3, 99) if i % 2 else random.randrange(1 + i // 4)}"
        assert grown.predict_proba_one(x) == reserved.predict_proba_one(x)
        grown.learn_one(x, y)
        reserved.learn_one(x, y)
        widths.add(grown._state.rule.outputs)
        grown._state.check()
    assert len(grown.classes_met) == 100 and len(widths) > 5
    assert grown.weights == reserved.weights and grown.intercept == reserved.intercept
    assert max(grown.predict_proba_one({}).values()) < 0.5


def test_declared_classes() -> None:
    model = make_model(classes=("b", "a", 3))
    assert model.predict_proba_one({"x": 1}) == pytest.approx({"b": 1 / 3, "a": 1 / 3, 3: 1 / 3})
    assert model.predict_one({"x": 1}) == "b"
    model.learn_one({"x": 1}, "a")
    assert model.predict_one({"x": 1}) == "a" and model.classes_met == ["b", "a", 3]
    for y in ("c", True, 1, None, [1], math.nan):
        state_before = pickle.dumps(model)
        with pytest.raises(BadExample):
            model.learn_one({"x": 1}, y)
        assert pickle.dumps(model) == state_before
    with pytest.raises(
        BadExample, match="'c' is not among the declared classes; declare it"
    ) as error:
        model.learn_many([{"x": 1}, {"x": 1}], ["a", "c"])
    assert error.value.row == 1 and model.n_iterations == 1
    with pytest.raises(BadExample, match=r"the label True \(which equals 1\) is not among"):
        model.learn_one({"x": 1}, True)
    with pytest.raises(ValueError, match="classes cannot change"):
        model.classes = ["a", "b"]
    kit.assert_rejects(
        SoftmaxClassifier,
        [
            ({"classes": "ab"}, "classes must be None or a list of labels, got 'ab'"),
            ({"classes": 3}, "classes must be None or a list of labels, got 3"),
            ({"classes": ["a"]}, "classes must contain at least two labels"),
            ({"classes": [1, True]}, "classes must not contain duplicates"),
            (
                {"classes": [1, [2]]},
                "classes: labels must be strings, numbers or other hashable objects, got [2]",
            ),
            ({"classes": [1, None]}, "classes: the label is missing"),
            (
                {"classes": np.array([1, 2], "M8[ns]")},
                "labels of type datetime64 are not supported",
            ),
        ],
    )


def test_times_are_rejected_as_labels() -> None:
    """numpy converts times in nanoseconds to ints, and one label would become two."""
    model = make_model()
    times = pd.Series(pd.to_datetime(["2020", "2021"]).astype("M8[ns]"))
    for y in (times, times.to_numpy(), times - times[0], list(times.to_numpy())):
        state_before = pickle.dumps(model)
        with pytest.raises(BadExample, match=r"64 are not supported, got .*; use a string"):
            model.learn_many([{"x": 1}, {"x": 1}], y)
        assert pickle.dumps(model) == state_before


def test_labels_that_compare_equal_are_one_label() -> None:
    model = make_model()
    for y in (1, True, 1.0, np.int64(1), np.bool_(True), np.str_("a"), "a", np.float64(2.5), 2.5):
        model.learn_one({"x": 1.0}, y)
    assert model.classes_met == [1, "a", 2.5]
    assert [type(label) for label in model.classes_met] == [int, str, float]
    model.learn_many([{}] * 3, np.array([2.5, 1.0, 4.0]))
    model.learn_many([{}] * 3, np.array(["a", "bc", "a"]))
    assert model.classes_met == [1, "a", 2.5, 4.0, "bc"]


@pytest.mark.parametrize("y", [None, [1], {}, math.nan, np.array([1, 2]), np.float64("nan")])
def test_invalid_labels_are_rejected(y: Any) -> None:
    model = make_model()
    model.learn_one({"x": 1.0}, "a")
    state_before = pickle.dumps(model)
    with pytest.raises(BadExample):
        model.learn_one({"x": 1.0}, y)
    column = np.empty(2, object)
    column[:] = ["b", y]
    with pytest.raises(BadExample) as error:
        model.learn_many([{"x": 1.0}] * 2, column)
    assert error.value.row == 1
    assert pickle.dumps(model) == state_before


@pytest.mark.parametrize("labels", [[2**63, -1], [2**63, 5], [2**70, 1], ["a\0", "a"], ["b", ""]])
def test_labels_keep_their_types_in_files(labels: list[Any]) -> None:
    rows = [{"a": 1.0}, {"b": 1.0}]
    model = SoftmaxClassifier(lr=5.0, intercept_lr=0.0)
    for _ in range(3):
        model.learn_many(rows, labels)
    assert model.classes_met == labels
    assert list(map(type, model.classes_met)) == list(map(type, labels))
    assert model.predict_many(rows).tolist() == labels
    assert [type(label) for label in model.predict_many(rows).tolist()] == list(map(type, labels))


def test_rejected_examples_add_no_label() -> None:
    model = make_model()
    model.learn_one({"x": 1.0}, "a")
    state_before = pickle.dumps(model)
    for x, w in (({"x": math.inf}, 1.0), ({"x": object()}, 1.0), (7, 1.0), ({"x": 1.0}, -1.0)):
        with pytest.raises(BadExample):
            model.learn_one(x, "new", w)
    for rows in ([{"x": 1.0}, {"x": math.inf}], csr_matrix([[1.0], [math.nan]])):
        with pytest.raises(BadExample):
            model.progressive_many(rows, ["new", "newer"])
    large = csr_matrix(np.tile([1.0, 2.0, 0.0, 3.0], (6_000, 1)))
    large.data[-1] = np.nan
    with pytest.raises(BadExample):
        model.progressive_many(large, [f"l{i % 9}" for i in range(6_000)])
    assert model.classes_met == ["a"] and len(model.predict_proba_one({})) == 1
    assert model.weights == pickle.loads(state_before).weights and model.n_iterations == 1
    model.learn_one({"x": 1.0}, "b")
    assert model.classes_met == ["a", "b"]
    model._state.check()


# Properties of all models


def test_permuting_labels_permutes_columns() -> None:
    names = NAMES[:4]
    models = [make_model(classes=order, penalty="l1") for order in (names, names[::-1])]
    for x, y in rows_of_dicts(5, 300):
        for model in models:
            model.learn_one(x, y)
    original, permuted = models
    for name, row in original.weights.items():
        assert permuted.weights[name] == pytest.approx(row, abs=1e-12)


def test_unseen_features_have_zero_weight() -> None:
    model = make_model()
    for i in range(200):
        model.learn_one({2 * (i % 9): 1.0}, i % 3)
    assert all(j % 2 == 0 for j in model.weights) and model.n_features_seen == 9
    x = {1: 5.0, 10**6: 3.0, "x": 1.0}
    assert model.predict_proba_one(x) == model.predict_proba_one({})
    assert model.n_features_seen == 9


@pytest.mark.parametrize("case", kit.DEGENERATE)
def test_degenerate_data(case: str) -> None:
    X, y, w = data_of(3, 500)
    if case == "one feature":
        X[:, 1:] = 0.0
    if case == "constant feature":
        X[:, 0] = 1.0
    if case == "no features":
        X[:] = 0.0
    if case == "one label":
        y = np.zeros(500, int)
    if case == "weights of zero":
        w[:] = 0.0
    for setting in SETTINGS.values():
        model, twin = make_model(**setting), reference.Softmax(D, **setting)
        run_beside(model, twin, (X, y, w), NAMES, [0, 30, 500])
        assert model.n_iterations == 500
        if case == "weights of zero":
            assert model.weights == {} and set(model.intercept.values()) == {0.0}
        assert model.n_features_seen == np.count_nonzero(X.any(axis=0))


@pytest.mark.parametrize("setting", SETTINGS)
def test_copies_resume_bit_identically(setting: str, tmp_path: Path) -> None:
    """Copies taken at any moment resume, with new labels and int or str features."""
    for name in (lambda j: j, lambda j: f"n{j}"):
        for n_before in (0, 3, 200):
            rows = rows_of_dicts(n_before, 500, len(NAMES), name)
            model = make_model(**SETTINGS[setting])
            for x, y in rows[:n_before]:
                model.learn_one(x, y)
            model.save(tmp_path / "model")
            copies = [
                streaml1.load(tmp_path / "model"),
                pickle.loads(pickle.dumps(model)),
                copy.deepcopy(model),
                model.clone(include_attributes=True),
            ]
            for x, y in rows[n_before:]:
                model.learn_one(x, y)
            for copied in copies:
                p = copied.progressive_many(
                    [x for x, _ in rows[n_before:]], [y for _, y in rows[n_before:]]
                )
                assert len(p) == 500 - n_before
                assert copied.weights == model.weights and copied.intercept == model.intercept
                assert copied.classes_met == model.classes_met == NAMES[: len(model.classes_met)]
                assert list(map(type, copied.classes_met)) == list(map(type, model.classes_met))
                assert repr(copied) == repr(model)
                copied._state.check()


def test_unserializable_label_is_rejected(tmp_path: Path) -> None:
    model = make_model()
    model.learn_one({"x": 1.0}, frozenset("ab"))
    with pytest.raises(
        streaml1.ModelFileError, match="the label frozenset.* None or tuples of them as labels"
    ):
        model.save(tmp_path / "model")
    declared = make_model(classes=["a", 2, 2.5, (b"x", None)])
    declared.save(tmp_path / "model")
    loaded = streaml1.load(tmp_path / "model")
    assert loaded.classes == declared.classes == loaded.classes_met
    with pytest.raises(BadExample):
        loaded.learn_one({}, "b")


def test_changed_parameters_act_from_the_next_step() -> None:
    changes: list[dict[str, Any]] = [
        {"strength": 0.02},
        {"l2": 0.1, "lr": 0.4},
        {"strength": 0.0},
        {"clip_gradient": 0.2, "intercept_lr": 0.2},
        {"strength": 0.01, "l2": 0.0, "schedule": "constant", "lr": 0.05},
    ]
    for penalty in PENALTIES:
        model, twin = make_model(penalty=penalty), reference.Softmax(D, penalty=penalty)
        X, y, w = data_of(4, 500 * len(changes))
        X[500:-700, ::2] = 0.0  # pending through several changes
        for k, change in enumerate(changes):
            weights_before = model.weights
            model.mutate(change)
            for name, value in change.items():
                setattr(twin, name, value)
            assert model.weights == weights_before
            part = slice(500 * k, 500 * (k + 1))
            run_beside(model, twin, (X[part], y[part], w[part]), NAMES, [0, 1, 20, 500])
    with pytest.raises(ValueError, match="penalty cannot change"):
        make_model().mutate({"penalty": "l1/l2"})


def test_rejected_change_leaves_the_model_unchanged() -> None:
    model = make_model(penalty="ball", radius=3.0)
    with pytest.raises(ValueError, match="l2 must be 0 .*, got 1.0"):
        model.mutate({"radius": 1.0, "l2": 1.0})
    assert model.radius == 3.0 and model._state.rule.clock[0].radius == 3.0
    model.mutate({"radius": 2.0, "l2": 0.0})
    assert model.radius == 2.0


@pytest.mark.parametrize("radius", [0.2, 7.0])
def test_labels_added_after_a_change_of_radius(radius: float) -> None:
    """Labels may be added by the model, by a copy, and after a rejected batch."""
    for seed in range(8):
        random = Random(seed)
        models = [make_model(penalty="ball", radius=3.0, lr=0.5) for _ in range(2)]
        for model in models:
            model.learn_one({"a": 0.3}, "u")
        with pytest.raises(ValueError, match="-1"):
            models[1].learn_many([{"a": 1.0}] * 6, list("abcdef"), [1.0] * 5 + [-1.0])
        for model in models:
            model.mutate({"radius": radius})
        models.append(pickle.loads(pickle.dumps(models[0])))
        for _ in range(30):
            x = {name: random.gauss(0.0, 1.0) for name in "abcd"}
            y = random.choice("uvwxyz")
            for model in models:
                model.learn_one(x, y)
        assert models[0].weights == models[1].weights == models[2].weights
        models[0]._state.check()


def test_radius_may_change() -> None:
    model, twin = make_model(penalty="ball"), reference.Softmax(D, penalty="ball")
    X, y, w = data_of(4, 2_000)
    for k, change in enumerate([{"radius": 1.0}, {"radius": 0.2, "lr": 0.5}, {"radius": 3.0}, {}]):
        model.mutate(change)
        for name, value in change.items():
            setattr(twin, name, value)
        part = slice(500 * k, 500 * (k + 1))
        run_beside(model, twin, (X[part], y[part], w[part]), NAMES, [0, 1, 20, 500])
    with pytest.raises(ValueError, match="l2 must be 0 .*, got 0.5"):
        model.mutate({"l2": 0.5})
    assert model.l2 == 0.0


def test_forged_ball_state_is_rejected() -> None:
    model = make_model(penalty="ball", radius=0.5)
    model.learn_many([x for x, _ in rows_of_dicts(0)], [y for _, y in rows_of_dicts(0)])
    slots, arrays = model._state.rule.state_dict()

    def check_forged(**changes: Any) -> None:
        SoftmaxBall.from_state_dict(100, slots, {**arrays, **changes}).check()

    check_forged()
    clocks = []
    for field, value in (("k", 3), ("k", -1), ("radius", 0.0), ("radius", 9.0), ("nonnegative", 1)):
        clocks.append(arrays["clock"].copy())
        clocks[-1][field] = value
    for changes in (
        *({"clock": clock} for clock in clocks),
        {"w": arrays["w"][1:]},
        {"w": arrays["w"].astype(float)},
        {"w": arrays["w"] + 2**60},
        {"kept": arrays["kept"][1:]},
        {"b": arrays["b"] * np.nan},
        {"more": arrays["b"]},
    ):
        with pytest.raises((AssertionError, ValueError)):
            check_forged(**changes)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("strength", "l2"), [(0.05, 3.0), (0.01, 0.0)])
def test_many_renormalizations(penalty: str, strength: float, l2: float) -> None:
    """P underflows or A exceeds its limit many times while rows have pending updates."""
    random = np.random.default_rng(1)
    params = {"strength": strength, "l2": l2, "penalty": penalty, "lr": 40.0 if not l2 else 2.0}
    params |= {"schedule": "constant", "intercept_lr": 0.0}
    model, twin = make_model(**params), reference.Softmax(D, **params)
    n_renormalized, last_clock = 0, (1.0, 0.0)
    for _ in range(30):
        X = random.normal(size=(100, D)) * (random.random((100, D)) < 0.003 * np.arange(D))
        y = random.integers(0, 3, 100)
        for x, label in zip(X, y, strict=True):
            twin.learn(x, model._classes.position(NAMES[label]))
            model.learn_one(as_dict(x), NAMES[label])
            clock = model._state.rule.clock[0]
            n_renormalized += bool(last_clock[0] < clock.P or last_clock[1] > clock.A)
            last_clock = float(clock.P), float(clock.A)
        assert_equal_twins(model, twin, model.classes_met)
        model._state.check()
    assert n_renormalized > 5


@given(
    rows=st.lists(
        st.tuples(st.dictionaries(st.integers(0, 5), st.floats(-50.0, 50.0)), st.integers(0, 4)),
        max_size=40,
    ),
    penalty=st.sampled_from(list(PENALTIES)),
    strength=st.sampled_from([0.0, 1e-3, 0.1, 3.0]),
    l2=st.sampled_from([0.0, 0.3]),
)
def test_any_rows_match_the_dense_twin(
    rows: list[tuple[dict[int, float], int]], penalty: str, strength: float, l2: float
) -> None:
    params = {"penalty": penalty, "strength": strength, "l2": l2}
    model, twin = make_model(**params), reference.Softmax(D, **params)
    for x, y in rows:
        row = np.zeros(D)
        row[list(x)] = list(x.values())
        twin.learn(row, model._classes.position(NAMES[y]))
        model.learn_one(x, NAMES[y])
        model._state.check()
        np.testing.assert_allclose(dense(model, len(twin.b)), twin.w, rtol=0.0, atol=1e-9)


@given(
    row=st.lists(st.floats(-1e3, 1e3) | st.sampled_from([1.0, -1.0, 0.0, 1e-12]), max_size=30),
    c=st.floats(1e-6, 500.0) | st.sampled_from([0.0, 1.0]),
)
def test_prox_of_a_row(row: list[float], c: float) -> None:
    """The prox equals the reference, another algorithm, for rows of any length, with ties."""
    k = len(row)
    v = np.array(row)
    for penalty, code in softmax.PENALTIES.items():
        a, b, theta = softmax.prox(v, np.uint64(0), np.uint64(k), c, code)
        got = a * v + b * np.clip(v, -theta, theta)
        expected = reference.ROWS[penalty](v[None], c)[0] if k else v
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-9)


def test_largest_allowed_numbers_stay_finite() -> None:
    random = np.random.default_rng(0)
    penalties = [*itertools.product(PENALTIES, (0.0, 1e30)), ("ball", 0.0)]
    for (penalty, l2), clip in itertools.product(penalties, (1e-300, 1e30)):
        for strength, lr in ((0.0, 1e10), (1e30, 1e10), (1e-4, 1.0)):
            model = make_model(
                **{"penalty": penalty, "l2": l2, "strength": strength, "lr": lr},
                **{"clip_gradient": clip, "intercept_lr": 1e10},
            )
            for _ in range(30):
                ids = random.choice(50, size=20, replace=False).tolist()
                values = random.choice([9e49, -9e49, 1e-300, 1.0], size=20)
                x = dict(zip(ids, values, strict=True))
                model.learn_one(x, int(random.integers(3)), 1e15)
                p = list(model.predict_proba_one(x).values())
                assert np.isfinite(p).all() and sum(p) == pytest.approx(1.0)
            model._state.check()


def test_parameters_out_of_range_are_rejected() -> None:
    kit.assert_rejects(
        SoftmaxClassifier,
        [
            ({"strength": -1.0}, "strength must be a number from 0 to 1e+30, got -1.0"),
            ({"l2": math.nan}, "l2 must be a number from 0 to 1e+30, got nan"),
            (
                {"penalty": "l2"},
                'penalty must be one of "l1", "l1/l2", "l1/linf", "ball", got \'l2\'',
            ),
            (
                {"penalty": None},
                'penalty must be one of "l1", "l1/l2", "l1/linf", "ball", got None',
            ),
            ({"penalty": "ball", "l2": 0.1}, 'l2 must be 0 with penalty="ball", got 0.1'),
            ({"radius": 0.0}, "radius must be a number from 1e-30 to 1e+30, got 0.0"),
            ({"nonnegative": 1}, "nonnegative must be a bool, got 1"),
        ],
    )


# max_features, hashing, frozen models


def test_max_features_counts_rows() -> None:
    """`max_features` bounds the non-zero rows; the smallest rows are dropped."""
    random = np.random.default_rng(2)
    model = make_model(max_features=30, strength=1e-4, penalty="l1/l2")
    for _i in range(600):
        ids = random.choice(300, 5, replace=False)
        x = {f"n{j}": float(v) for j, v in zip(ids, random.normal(size=5), strict=True)}
        y = int(ids[0]) % 3
        model.learn_one(x | {f"signal {y}": 3.0}, y)
        assert model.n_nonzero_rows <= 30
    assert model.n_cut > 300 and {f"signal {y}" for y in range(3)} <= set(model.weights)
    assert model.n_nonzero > 60
    model._state.check()
    model.mutate({"max_features": 12})
    model.learn_one({"signal 1": 1.0}, 0)
    assert model.n_nonzero_rows <= 12


def test_hashed_names_share_rows(tmp_path: Path) -> None:
    model, unhashed = make_model(hash_bits=18), make_model()
    for x, y in rows_of_dicts(1, 300, name=lambda j: f"n{j}"):
        model.learn_one(x, y)
        unhashed.learn_one(x, y)
    assert model.weights == {model.slot(name): row for name, row in unhashed.weights.items()}
    model.save(tmp_path / "model")
    assert streaml1.load(tmp_path / "model").weights == model.weights


def test_frozen_predicts_the_same() -> None:
    for setting in SETTINGS.values():
        model = make_model(**setting)
        rows = rows_of_dicts(2, 400, name=lambda j: f"n{j}")
        model.learn_many([x for x, _ in rows], [y for _, y in rows])
        frozen = model.freeze()
        copied = pickle.loads(pickle.dumps(frozen))
        xs = [x for x, _ in rows[:50]]
        for x in [*xs, {}, {"new": 3.0}]:
            assert frozen.predict_proba_one(x) == model.predict_proba_one(x)
            assert frozen.predict_one(x) == model.predict_one(x) == copied.predict_one(x)
        p = model.predict_proba_many(xs)
        np.testing.assert_array_equal(frozen.predict_proba_many(xs), p)
        np.testing.assert_array_equal(p, [list(model.predict_proba_one(x).values()) for x in xs])
        assert model.predict_many(xs).tolist() == [model.predict_one(x) for x in xs]
        assert frozen.predict_many(xs).tolist() == model.predict_many(xs).tolist()
        assert frozen.weights == model.weights and frozen.intercept == model.intercept
        p_before = frozen.predict_proba_one(xs[0])
        model.learn_one(xs[0], "another")
        assert frozen.predict_proba_one(xs[0]) == p_before
        with pytest.raises(AttributeError, match="a multiclass model has no single margin"):
            frozen.margin({})
        with pytest.raises(BadExample):
            frozen.predict_one([1])  # type: ignore[arg-type]


def test_weights_by_label() -> None:
    model = make_model(
        strength=0.0, lr=1.0, schedule="constant", intercept_lr=0.0, classes=["a", "b"]
    )
    model.learn_one({"x": 1.0, "y": -2.0}, "a")
    assert model.weights == {"x": {"a": 0.5, "b": -0.5}, "y": {"a": -1.0, "b": 1.0}}
    assert model.top_weights(1) == [(("y", "a"), -1.0)]
    assert model.top_weights(9, "b") == [("y", 1.0), ("x", -0.5)]
    assert model.n_nonzero == 4 and model.n_nonzero_rows == 2
    with pytest.raises(ValueError, match="label must be one of .*, got 'c'"):
        model.top_weights(1, "c")
    for label in (None, "b"):
        with pytest.raises(ValueError, match="k must be >= 0, got -1"):
            model.top_weights(-1, label)


def test_forged_state_is_rejected() -> None:
    model = make_model(penalty="l1/l2")
    model.learn_many([x for x, _ in rows_of_dicts(0)], [y for _, y in rows_of_dicts(0)])
    slots, arrays = model._state.rule.state_dict()

    def check_forged(**changes: Any) -> None:
        softmax.Softmax.from_state_dict(100, slots, {**arrays, **changes}).check()

    check_forged()
    clocks = []
    for field, value in (("P", 2.0), ("A", 0.0), ("k", 9), ("k", -1), ("penalty", 7), ("l2", -1.0)):
        clocks.append(arrays["clock"].copy())
        clocks[-1][field] = value
    for changes in (
        *({"clock": clock} for clock in clocks),
        {"clock": arrays["clock"][:0]},
        {"u": arrays["u"] * np.nan},
        {"u": arrays["u"][1:]},
        {"u": arrays["u"][:, 1:]},
        {"u": arrays["u"].astype("f4")},
        {"stamps": arrays["stamps"] * 0.0},
        {"stamps": arrays["stamps"] + 1e9},
        {"b": arrays["b"][1:]},
        {"b": arrays["b"] * np.nan},
        {"more": arrays["u"]},
    ):
        with pytest.raises((AssertionError, ValueError)):
            check_forged(**changes)


def test_predictions_have_the_type_of_the_frame() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = [{"a": float(i % 3), "b": 1.0 + i} for i in range(9)]
    y = ["x", "y", "z"] * 3
    model = make_model()
    model.learn_many(pandas.DataFrame(rows), pandas.Series(y, name="kind"))
    p = model.predict_proba_many(pandas.DataFrame(rows, index=range(10, 19)))
    assert list(p.columns) == ["x", "y", "z"] and list(p.index) == list(range(10, 19))
    predicted = model.predict_many(pandas.DataFrame(rows))
    assert predicted.name == "kind" and predicted.tolist() == model.predict_many(rows).tolist()
    polars_p = model.predict_proba_many(polars.DataFrame(rows))
    np.testing.assert_array_equal(polars_p.to_numpy(), p.to_numpy())
    assert model.predict_many(polars.DataFrame(rows)).to_list() == predicted.tolist()


def test_colliding_column_names_are_rejected() -> None:
    polars = pytest.importorskip("polars")
    X, model = polars.DataFrame({"a": [1.0, 2.0]}), make_model()
    model.learn_many(X, [1, "2"])
    assert model.predict_proba_many(X).columns == ["1", "2"]
    model.learn_one({"a": 1.0}, "1")
    with pytest.raises(ValueError, match="two of the labels .* are the same as column names"):
        model.predict_proba_many(X)
    assert model.predict_proba_many(X.to_dicts()).shape == (2, 3)


def test_readers_during_a_writer_that_adds_labels() -> None:
    """Predictions stay consistent while the writer adds labels and the rule grows."""
    model, inconsistent, done = make_model(strength=1e-3), [], threading.Event()
    model.learn_one({"a": 1.0}, "label 0")

    def read(single: bool) -> None:
        while not done.is_set():
            if single:
                p = model.predict_proba_one({"a": 1.0, "n3": 1.0})
                total, names = sum(p.values()), list(p)
            else:
                total = float(model.predict_proba_many([{"a": 1.0, "n3": 1.0}]).sum())
                names = [model.predict_one({"a": 2.0})]
            if abs(total - 1.0) > 1e-9 or names[0] != "label 0" and single:
                inconsistent.append((total, names))

    readers = [threading.Thread(target=read, args=(single,)) for single in (True, True, False)]
    for reader in readers:
        reader.start()
    for i in range(1_500):
        model.learn_one({"a": 1.0, f"n{i % 700}": 1.0}, f"label {i // 3}")
    done.set()
    for reader in readers:
        reader.join()
    assert not inconsistent and len(model.classes_met) == 500
    model._state.check()


@pytest.fixture
def fast_thread_switching() -> Iterator[None]:
    """Switch threads at the shortest interval."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_rejection_in_one_thread_keeps_labels_of_another(fast_thread_switching: None) -> None:
    model, done = make_model(), threading.Event()

    def learn_invalid() -> None:
        while not done.is_set():
            with pytest.raises(BadExample):
                model.learn_one({"a": math.inf}, "bad")

    threads = [threading.Thread(target=learn_invalid) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(300):
        model.learn_one({"a": 1.0, f"n{i % 7}": 1.0}, i)
    done.set()
    for thread in threads:
        thread.join()
    assert model.classes_met == list(range(300)) and model._n_learnt == 300


def test_copies_while_labels_are_added(fast_thread_switching: None) -> None:
    model, done = make_model(), threading.Event()

    def learn() -> None:
        for i in range(4_000):
            if done.is_set():
                break
            model.learn_one({"a": 1.0, f"n{i % 7}": 1.0}, i)

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        for _ in range(100):
            unpickled = pickle.loads(pickle.dumps(model))
            for copied in (unpickled, copy.deepcopy(model), model.clone(include_attributes=True)):
                assert copied._classes.labels == list(range(copied._n_learnt)) == copied.classes_met
    finally:
        done.set()
        thread.join()
