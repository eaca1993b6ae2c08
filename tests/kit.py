"""Assertions that every linear learner must pass; the test file of each model calls them.

`make(**params)` returns a new model; `new_twin(d, **params)` returns its dense twin, which is
defined in `tests/reference.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
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
CONFIGURATIONS = [
    (kind, params)
    for kind in LEARNERS
    for i, params in enumerate(kind._unit_test_params())
    if i == 0 or not issubclass(kind, base.Regressor)
]
"""Learners and parameters of all update rules; a regressor has those of its classifier."""
CUTS = [0, 1, 40, 700, 730, 1_300, 1_360, 2_000]
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
        model._state.check()


def dense_weights(model: Any) -> Any:
    """Return the weights of the first D slots."""
    rule = model._state.rule
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


DEGENERATE = ("one feature", "constant feature", "one label", "no features", "weights of zero")


def degenerate_data(loss: str, case: str) -> tuple[Any, Any, Any, Any]:
    """Return one of the `DEGENERATE` data sets of 200 rows, as `data_of` does."""
    X, y, signed, w = data_of(loss, 200)
    if case == "one feature":
        X[:, 1:] = 0.0
    if case == "constant feature":
        X[:, 0] = 1.0
    if case == "no features":
        X[:] = 0.0
    if case == "one label":
        y, signed = np.ones(200), np.ones(200)
    if case == "weights of zero":
        w[:] = 0.0
    return X, y, signed, w


def assert_rejects(kind: Any, cases: list[tuple[dict[str, Any], str]]) -> None:
    """Assert that each set of parameters raises a one-line ValueError that contains `message`."""
    for params, message in cases:
        with pytest.raises(ValueError) as error:
            kind(**params)
        assert message in str(error.value), str(error.value)
        assert "\n" not in str(error.value)


def assert_rejects_states(
    model: Any, changes_of: Callable[[dict[str, Any]], list[dict[str, Any]]]
) -> None:
    """Assert that the model's state after 100 rows is valid, and invalid after each change.

    A change maps the key of an array to a new one, or to fields of a record and their values.
    """
    X, y, _, w = data_of(model.loss, 100)
    model.learn_many(csr_matrix(X), y, w)
    rule = model._state.rule
    slots, arrays = rule.state_dict()
    type(rule).from_state_dict(rule.size, slots, arrays).check()
    for change in changes_of(arrays):
        changed = dict(arrays)
        for key, value in change.items():
            if isinstance(value, dict):
                changed[key] = arrays[key].copy()
                for field, number in value.items():
                    changed[key][field] = number
            else:
                changed[key] = value
        with pytest.raises(AssertionError):
            type(rule).from_state_dict(rule.size, slots, changed).check()


def broken_usual_values(arrays: dict[str, Any]) -> list[dict[str, Any]]:
    """Return changes that break what `CentredRule.check` requires."""
    return [
        {"origins": arrays["origins"] + np.inf},
        {"clock": {"with_origin": D + 1}},
        {"clock": {"origin_rows": 3}},
        {"clock": {"is_centred": 2}},
        {"clock": {"targets": -1.0}},
        {"clock": {"centre": 1e200}},
    ]


def is_binary(loss: str) -> bool:
    return loss in BINARY
