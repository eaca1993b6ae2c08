"""Predictions of lists of dicts: bit-identical to those of single dicts, for every learner."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import BadExample
from streaml1.features import dict_reader
from streaml1.models.registry import modules_of_classes
from streaml1.models.state.dict_predictions import dict_margins

NAMES = [f"f{k}" for k in range(40)]


def example(random: Random, names: list[Any] = NAMES) -> dict[Any, Any]:
    n = random.choice((0, 1, 3, 12))
    x: dict[Any, Any] = {name: random.gauss(0.0, 1.0) for name in random.sample(names, n)}
    if random.random() < 0.3:
        x[random.choice(names)] = random.choice((0.0, 2, True, None, 1e-300))
    return x


def trained(model: Any, names: list[Any] = NAMES) -> Any:
    """Return a model that has learnt some of the names."""
    random = Random(1)
    for k in range(80):
        x = example(random, names[:30])
        if hasattr(model, "classes_met"):
            model.learn_one(x, "abc"[k % 3])
        else:
            model.learn_one(x, k % 3 == 0)
    return model


MODELS: dict[str, Callable[[], Any]] = {
    **{name: lambda name=name: getattr(streaml1, name)() for name in modules_of_classes()},
    "hashed": lambda: streaml1.ElasticNetClassifier(hash_bits=6),
    "crossed": lambda: streaml1.ElasticNetClassifier(cross=[["f1", "f2"], ["f3", "f4"]]),
    "text": lambda: streaml1.ElasticNetClassifier(text=["f1"], ngrams=2),
    "offset": lambda: streaml1.ElasticNetRegressor(offset="f1"),
}
FAST = {*MODELS} - {"offset", "text"}


def assert_equal_rows(model: Any, xs: list[Any]) -> None:
    """Assert that the predictions of a list are those of its dicts, also when frozen."""
    n_seen = model.n_features_seen
    for predictor in (model, model.freeze()):
        assert list(predictor.predict_many(xs)) == [predictor.predict_one(x) for x in xs]
        if hasattr(predictor, "predict_proba_many") and hasattr(model, "predict_proba_one"):
            expected = [list(predictor.predict_proba_one(x).values()) for x in xs]
            assert predictor.predict_proba_many(xs).tolist() == expected
    assert model.n_features_seen == n_seen


@pytest.mark.parametrize("name", MODELS)
def test_lists_of_dicts_are_predicted_as_single_dicts(name: str) -> None:
    random, model = Random(2), trained(MODELS[name]())
    xs = [example(random) for _ in range(40)]
    assert_equal_rows(model, xs)
    is_fast = name in FAST and dict_reader.AVAILABLE
    k = len(model.classes_met) if hasattr(model, "classes_met") else 0
    outputs = np.full((len(xs), k + 1), float(k))
    out, stride = (outputs.ctypes.data, outputs.strides[0]) if k else (0, 0)
    assert (dict_margins(model._state, xs, out, stride) is not None) == is_fast


@pytest.mark.parametrize(
    "names", [list(range(40)), [*NAMES[:20], *range(20)]], ids=["int", "mixed"]
)
def test_other_names(names: list[Any]) -> None:
    random, model = Random(3), trained(streaml1.ElasticNetClassifier(), names)
    assert_equal_rows(model, [example(random, names) for _ in range(40)])


def test_long_examples_and_many_crosses() -> None:
    model = streaml1.ElasticNetClassifier(cross=[["a", "b"]])
    x = {f"{prefix}={k}": 1.0 for prefix in "ab" for k in range(60)}
    model.learn_one(x, True)
    assert_equal_rows(model, [{"a=1": 1.0}, x, {}])
    plain = streaml1.ElasticNetClassifier()
    plain.learn_one(dict.fromkeys(range(2000), 1.0), True)
    assert_equal_rows(plain, [{}, dict.fromkeys(range(3000), 0.5)])


def test_what_kernels_cannot_read_is_converted() -> None:
    model = trained(streaml1.ElasticNetClassifier())
    rows = [{"f1": np.float32(0.5)}, {"f2": 1.5, ("f", 3): 2}, {"f1": 1.0}]
    assert dict_margins(model._state, rows, 0) is None or not dict_reader.AVAILABLE
    assert_equal_rows(model, rows)
    assert len(model.predict_many([])) == 0
    fresh = streaml1.ElasticNetClassifier()
    assert_equal_rows(fresh, [{"f1": 1.0}, {7: 1.0}])
    assert fresh.n_features_seen == 0


@pytest.mark.parametrize(
    ("bad", "reason"),
    [({"f1": float("inf")}, "'f1'"), ({"f1": [1]}, "'f1'"), (3, "a dict of features, not an int")],
)
@pytest.mark.parametrize("name", ["ElasticNetClassifier", "SoftmaxClassifier", "hashed"])
def test_errors_name_the_first_bad_row(name: str, bad: Any, reason: str) -> None:
    model = trained(MODELS[name]())
    for predictor in (model, model.freeze()):
        with pytest.raises(BadExample, match=reason) as caught:
            predictor.predict_many([{"f1": 1.0}, {}, bad, {"f2": 1e60}])
        assert caught.value.row == 2


VALUES = st.floats(-1e40, 1e40) | st.integers(-9, 9) | st.booleans() | st.none() | st.text("ab")
DICTS = st.dictionaries(st.sampled_from(NAMES) | st.integers(0, 5), VALUES, max_size=6)


@given(st.lists(DICTS, max_size=6))
def test_any_dicts(xs: list[Any]) -> None:
    assert_equal_rows(trained_ftrl(), xs)


@cache
def trained_ftrl() -> Any:
    """Return a model, which is made once and not at import: its kernels compile for seconds."""
    return trained(streaml1.FTRLClassifier(alpha=0.1))


def test_a_list_is_predicted_with_one_state() -> None:
    """Another thread learns meanwhile; no row may see more of it than the row before."""
    model = trained(streaml1.ElasticNetClassifier(lr=0.1, schedule="constant"))
    stopped = threading.Event()

    def learn() -> None:
        while not stopped.is_set():
            model.learn_one({"f1": 1.0}, True)

    thread = threading.Thread(target=learn)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # otherwise a list is done before the other thread runs
    thread.start()
    try:
        for _ in range(100):
            assert len(set(model.predict_proba_many([{"f1": 1.0}] * 2000)[:, 1])) == 1
    finally:
        sys.setswitchinterval(interval)
        stopped.set()
        thread.join()
