"""Assertions that every linear learner must pass; the test file of each model calls them.

`make(**params)` returns a new model; `new_twin(d, **params)` returns its dense twin, which is
defined in `tests/reference.py`.
"""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from river import base
from scipy.sparse import csr_matrix

import streaml1
from streaml1.models.registry import modules_of_classes
from streaml1.optim.tasks import RESPONSES
from tests.learner_data import (
    BINARY,
    LATE,
    D,
    as_dict,
    assert_equal_twins,
    labels_of,
    n_rows,
    rows_of,
)

Make = Callable[..., Any]
LEARNERS = [getattr(streaml1, name) for name in modules_of_classes()]
"""Every learner class of the registry."""
CUTS = [0, 1, 40, 1_500, 1_530, 5_000, 7_030, 10_000]
"""Borders of the blocks that `assert_matches_twin` learns; short blocks are learnt row by row."""


def data_of(loss: str, n: int | None = None) -> tuple[Any, Any, Any, Any]:
    """Return rows, labels as models accept them, labels as -1/+1 or numbers, and sample weights.

    The features from `LATE` on first appear after 70 % of the rows.
    """
    random = np.random.default_rng(len(loss))
    n = n or n_rows(loss)
    X = rows_of(random, n)
    X[: n * 7 // 10, LATE:] = 0.0
    y, signed = labels_of(random, X, loss)
    w = random.choice([0.0, 0.5, 1.0, 2.0], size=n, p=[0.1, 0.2, 0.5, 0.2])
    return X, y, signed, w


def blocks(cuts: list[int] = CUTS) -> Iterator[tuple[slice, bool]]:
    """Yield blocks of rows, and whether to learn their rows one by one."""
    for number, (lo, hi) in enumerate(itertools.pairwise(cuts)):
        yield slice(lo, hi), hi - lo < 100 and number % 2 == 1


def progressive(model: Any, X: Any, y: Any, w: Any, one_by_one: bool) -> Any:
    """Learn rows of a dense matrix, as one batch or one by one; return the predictions."""
    if not one_by_one:
        return model.progressive_many(csr_matrix(X), y, w)
    predictions = np.empty(len(X))
    for i in range(len(X)):
        x = as_dict(X[i])
        predictions[i] = model._margin(x, model.loss in RESPONSES)
        model.learn_one(x, y[i], float(w[i]))
    return predictions


def assert_matches_twin(model: Any, twin: Any, data: Any, cuts: list[int] = CUTS) -> None:
    """Learn in blocks and one by one; compare predictions and weights with the twin after each."""
    X, y, signed, w = data
    for rows, one_by_one in blocks(cuts):
        expected = twin.progressive(X[rows], signed[rows], w[rows])
        got = progressive(model, X[rows], y[rows], w[rows], one_by_one)
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-9, err_msg=repr(model))
        assert_equal_twins(model, twin)
        assert model.n_nonzero == len(model.weights) == np.count_nonzero(dense_weights(model))
        model._engine.check()


def dense_weights(model: Any) -> Any:
    """Return the weights of the first D slots."""
    rule = model._engine.rule
    return np.array([rule.weight(j) for j in range(D)])


def assert_changes_match_twin(
    model: Any, twin: Any, changes: list[dict[str, Any]], loss: str
) -> None:
    """Change parameters of model and twin, by `mutate` and by assignment alternately.

    Penalties that are pending at a change use the old values; the next step uses the new ones.
    """
    X, y, signed, w = data_of(loss, 500 * len(changes))
    X[500:-700, ::2] = 0.0  # their penalties stay pending through several changes
    for round_no, change in enumerate(changes):
        before = model.weights
        if round_no % 2:
            model.mutate(change)
        else:
            for name, value in change.items():
                setattr(model, name, value)
        for name, value in change.items():
            setattr(twin, name, value)
        assert model.weights == before
        block = slice(500 * round_no, 500 * (round_no + 1))
        assert_matches_twin(
            model, twin, (X[block], y[block], signed[block], w[block]), [0, 1, 20, 500]
        )


def assert_weights_follow_names(make: Make) -> None:
    """Assert that permuted or renamed features give permuted or renamed weights."""
    for seed in range(16):
        random = Random(seed)
        order = list(range(12))
        random.shuffle(order)
        plain, permuted, named = make(), make(), make()
        for _ in range(80):
            x = {j: random.uniform(-1.0, 1.0) for j in range(12) if random.random() < 0.3}
            y = random.random() < 0.5
            plain.learn_one(x, y)
            permuted.learn_one({order[j]: v for j, v in x.items()}, y)
            named.learn_one({f"name {j}": v for j, v in x.items()}, y)
        assert plain.weights
        assert permuted.weights == {order[j]: w for j, w in plain.weights.items()}
        assert named.weights == {f"name {j}": w for j, w in plain.weights.items()}
        assert plain.intercept == permuted.intercept == named.intercept


def assert_unseen_features_weigh_nothing(make: Make) -> None:
    """Assert that features never learnt have no weight and do not change predictions."""
    model = make()
    for i in range(200):
        model.learn_one({2 * (i % 9): 1.0}, i % 2 == 0)
    assert all(j % 2 == 0 for j in model.weights)
    assert model.n_features_seen == 9
    x = {1: 5.0, 10**6: 3.0, "x": 1.0}
    assert model._margin(x) == model._margin({}) == model.intercept
    assert model.n_features_seen == 9


DEGENERATE = ("one feature", "constant feature", "one label", "no features", "weights of zero")


def degenerate_data(loss: str, case: str) -> tuple[Any, Any, Any, Any]:
    """Return one of the `DEGENERATE` data sets of 500 rows, as `data_of` does."""
    X, y, signed, w = data_of(loss, 500)
    if case == "one feature":
        X[:, 1:] = 0.0
    if case == "constant feature":
        X[:, 0] = 1.0
    if case == "no features":
        X[:] = 0.0
    if case == "one label":
        y, signed = np.ones(500), np.ones(500)
    if case == "weights of zero":
        w[:] = 0.0
    return X, y, signed, w


def assert_degenerate_data_matches(make: Make, new_twin: Make, loss: str, case: str) -> None:
    """Compare model and twin on one of the `DEGENERATE` data sets."""
    data = degenerate_data(loss, case)
    model, twin = make(loss=loss), new_twin(D, loss=loss)
    assert_matches_twin(model, twin, data, [0, 30, 500])
    assert model.n_iterations == 500
    if case == "weights of zero":
        assert model.weights == {} and model.intercept == 0.0
    assert model.n_features_seen == np.count_nonzero(data[0].any(axis=0))


def assert_copies_resume_bit_identically(make: Make, folder: Path) -> None:
    """Save, load, pickle, copy and clone models at any step, with int and str feature names."""
    for name_of in (lambda j: j, lambda j: f"n{j}"):
        for n_before in (0, 3, 200):
            random = Random(n_before)
            model = make()
            rows = [
                (
                    {name_of(random.randrange(40)): random.uniform(-1, 1) for _ in range(4)},
                    i % 3 == 0,
                )
                for i in range(500)
            ]
            for x, y in rows[:n_before]:
                model.learn_one(x, y)
            model.save(folder / "model")
            copies = [
                streaml1.load(folder / "model"),
                pickle.loads(pickle.dumps(model)),
                copy.deepcopy(model),
                model.clone(include_attributes=True),
            ]
            for x, y in rows[n_before:]:
                model.learn_one(x, y)
            for restored in copies:
                p = restored.progressive_many(
                    [x for x, _ in rows[n_before:]], [y for _, y in rows[n_before:]]
                )
                assert len(p) == 500 - n_before
                assert restored.weights == model.weights
                assert restored.intercept == model.intercept
                assert repr(restored) == repr(model)
                restored._engine.check()


def assert_rejects(kind: Any, cases: list[tuple[dict[str, Any], str]]) -> None:
    """Assert that each set of parameters raises a one-line ValueError that contains `message`."""
    for params, message in cases:
        with pytest.raises(ValueError) as error:
            kind(**params)
        assert message in str(error.value), str(error.value)
        assert "\n" not in str(error.value)


def assert_stays_finite(make: Make, settings: list[dict[str, Any]]) -> None:
    """Learn values of 1e50 with sample weights of 1e15 and clips of 1e30, for extreme settings."""
    random = np.random.default_rng(0)
    for params in settings:
        model = make(**{"clip_gradient": 1e30, "intercept_lr": 1e10, **params})
        labels = [False, True] if isinstance(model, base.Classifier) else [9e49, -9e49, 1.0]
        for _ in range(60):
            ids = random.choice(50, size=20, replace=False).tolist()
            x = dict(zip(ids, random.choice([9e49, -9e49, 1e-300, 1.0], size=20), strict=True))
            model.learn_one(x, labels[random.integers(len(labels))], 1e15)
            assert np.isfinite(model._margin(x)), params
        model._engine.check()
        assert np.isfinite(list(model.weights.values())).all()


def assert_wide_rows_match(make: Make, new_twin: Make) -> None:
    """Predict and learn rows that are longer than all rows before."""
    model, twin = make(lr=1e-3), new_twin(3_000, lr=1e-3)
    random = np.random.default_rng(0)
    for nnz in (3, 256, 257, 1_000, 20, 3_000, 5):
        x = np.zeros(3_000)
        x[random.choice(3_000, nnz, replace=False)] = random.normal(size=nnz)
        wide = {j: 1.0 for j in range(3_000)}
        assert model._margin(wide) == pytest.approx(twin.margin(np.ones(3_000)), abs=1e-9)
        assert model._margin(as_dict(x)) == pytest.approx(twin.margin(x), abs=1e-9)
        model.learn_one(as_dict(x), 1)
        twin.learn(x, 1.0)
        assert_equal_twins(model, twin)


def is_binary(loss: str) -> bool:
    return loss in BINARY
