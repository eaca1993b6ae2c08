"""Softmax regression against its dense twin, and what must hold of both."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from streaml1 import SoftmaxClassifier
from tests import kit, reference
from tests.test_elastic_net import SCHEDULES, as_dict, rows_of

D, LATE = 20, 15  # features from the second on first appear after 7 of 10 rows

NAMES = ["ham", 7, "spam", True, 2.5, ("a", 1), b"z", -1, "eins", "zwei", "drei"]
PENALTIES = {"l1": 0.004, "l1/l2": 0.008, "l1/linf": 0.012}


def make(**params: Any) -> Any:
    return SoftmaxClassifier(**params)


def data_of(k: int, n: int = 10_000) -> tuple[Any, Any, Any]:
    """Rows, places of labels in the order of their first coming, weights; the last label is late.

    Some features are late, two of three tell nothing.
    """
    random = np.random.default_rng(k)
    X = rows_of(random, n, D, 4)
    X[: n * 7 // 10, LATE:] = 0.0
    truth = random.normal(size=(D, k)) * (np.arange(D) % 3 == 0)[:, None] * 2.0
    margins = X @ truth + random.gumbel(size=(n, k)) * 0.5
    margins[: n // 2, k - 1] = -np.inf
    y = margins.argmax(axis=1)
    _, first = np.unique(y, return_index=True)
    order = np.argsort(np.argsort(first))
    return X, order[y], random.choice([0.0, 0.5, 1.0, 2.0], size=n, p=[0.1, 0.2, 0.5, 0.2])


def dense(model: Any, k: int) -> Any:
    rule = model._engine.rule
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
    assert model.intercept == pytest.approx(dict(zip(names, twin.b, strict=False)), abs=1e-9)
    told = np.zeros((D, k))
    for j, row in model.weights.items():
        for label, v in row.items():
            told[j, names.index(label)] = v
    np.testing.assert_array_equal(told, w)
    assert model.n_nonzero == np.count_nonzero(w)
    assert model.n_nonzero_rows == len(model.weights) == np.count_nonzero(w.any(axis=1))
    sizes = [model._engine.rule.weight(j) for j in range(D)]
    np.testing.assert_array_equal(sizes, np.abs(w).max(axis=1, initial=0.0))


def run_beside(model: Any, twin: Any, data: Any, names: list[Any], cuts: list[int]) -> None:
    X, y, w = data
    labels = np.empty(len(names), object)
    labels[:] = names
    labels = labels[y]
    for part, (lo, hi) in enumerate(itertools.pairwise(cuts)):
        known = len(twin.b)
        expected = [twin.learn(X[i], y[i], w[i]) for i in range(lo, hi)]
        k = len(twin.b)
        if hi - lo < 100 and part % 2:
            got = np.zeros((hi - lo, k))
            for i in range(lo, hi):
                p = model.predict_proba_one(as_dict(X[i]))
                model.learn_one(as_dict(X[i]), labels[i], float(w[i]))
                if len(p) == len(expected[i - lo]):
                    got[i - lo, : len(p)] = list(p.values())
                else:  # the label joins before that step's softmax
                    got[i - lo, : len(expected[i - lo])] = expected[i - lo]
        else:
            got = model.progressive_many(csr_matrix(X[lo:hi]), labels[lo:hi], w[lo:hi])
        assert got.shape == (hi - lo, k) and known <= k
        for one, row in zip(got, expected, strict=True):
            np.testing.assert_allclose(one[: len(row)], row, rtol=0.0, atol=1e-9)
            assert not one[len(row) :].any()
        assert_equal_twins(model, twin, names)
        np.testing.assert_allclose(
            list(model.predict_proba_one(as_dict(X[lo])).values()), twin.output(X[lo]), atol=1e-9
        )
        model._engine.check()


CUTS = [0, 1, 40, 1_500, 1_530, 5_000, 7_030, 10_000]


@pytest.mark.parametrize(("model", "check"), list(kit.rivers_checks(SoftmaxClassifier)))
def test_rivers_checks(model: Any, check: Callable[[Any], None]) -> None:
    check(model.clone())


@pytest.mark.slow
@pytest.mark.parametrize("penalty", PENALTIES)
def test_equals_the_dense_twin(penalty: str) -> None:
    """Ten thousand steps of every schedule, with and without l2; labels and features come late."""
    for n, (schedule, l2) in enumerate(itertools.product(SCHEDULES, (0.0, 0.03))):
        k, declared = (3, 10, 4, 2, 11)[n % 5], n % 4 > 1
        params = {**SCHEDULES[schedule], "strength": PENALTIES[penalty], "penalty": penalty}
        if n % 3 == 0:
            params |= {"clip_gradient": 0.3, "intercept_lr": 0.05, "intercept_init": -0.3}
        names = NAMES[:k]
        model = make(**params, l2=l2, classes=names if declared else None)
        twin = reference.Softmax(D, k if declared else 0, l2=l2, **params)
        run_beside(model, twin, data_of(k), names, CUTS)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_equals_the_dense_twin_in_a_short_run(penalty: str) -> None:
    for k, l2 in ((2, 0.0), (7, 0.05), (11, 0.0)):
        params = {"strength": PENALTIES[penalty], "penalty": penalty, "l2": l2, "lr": 0.5}
        twin = reference.Softmax(D, **params)
        run_beside(make(**params), twin, data_of(k, 800), NAMES, [0, 1, 40, 500, 530, 800])
