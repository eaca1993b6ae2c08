"""River estimator behaviour: river's own checks and properties they do not cover."""

from __future__ import annotations

import copy
import datetime
import pickle
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import (
    base,
    compose,
    datasets,
    evaluate,
    feature_extraction,
    metrics,
    multiclass,
    optim,
    preprocessing,
    stream,
    utils,
)

import streaml1
from streaml1 import BadExample, ElasticNetClassifier, ElasticNetRegressor, SoftmaxClassifier
from streaml1.models.base import OF_SCIKIT_LEARN
from tests import reference

MODELS = [ElasticNetClassifier, ElasticNetRegressor]


def state(model: Any) -> bytes:
    """Return the pickled model, which contains everything that affects later learning."""
    return pickle.dumps(model)


def examples(n: int, seed: int = 0, d: int = 50) -> Iterator[tuple[dict[str, float], bool]]:
    """Yield `n` examples; features with an even number vote for True."""
    random = np.random.default_rng(seed)
    for _ in range(n):
        ids = random.choice(d, 6, replace=False).tolist()
        x = {f"word {j}": round(float(random.normal()), 3) for j in ids}
        margin = sum(v * (1.0 if int(name[5:]) % 2 else -1.0) for name, v in x.items())
        yield x, margin > 0.0


def trained(model: Any, n: int = 200, seed: int = 0) -> Any:
    for x, y in examples(n, seed):
        model.learn_one(x, y)
    return model


def models() -> list[Any]:
    return [
        pytest.param(lambda cls=cls, p=params: cls(**p), id=f"{cls.__name__}-{i}")
        for cls in MODELS
        for i, params in enumerate(cls._unit_test_params())
    ]


# Properties that river's checks do not cover: prediction has no side effects


READS: dict[str, Callable[[Any, Any], Any]] = {
    "predict_one": lambda m, x: m.predict_one(x),
    "predict_many": lambda m, x: m.predict_many([x, x]),
    "predict_many of a frame": lambda m, x: m.predict_many(pd.DataFrame([x])),
    "weights": lambda m, x: m.weights,
    "top_weights": lambda m, x: m.top_weights(3),
    "n_nonzero": lambda m, x: m.n_nonzero,
    "n_features_seen": lambda m, x: m.n_features_seen,
    "n_iterations": lambda m, x: m.n_iterations,
    "intercept": lambda m, x: m.intercept,
    "repr": lambda m, x: repr(m),
    "pickle": lambda m, x: pickle.dumps(m),
    "deepcopy": lambda m, x: copy.deepcopy(m),
    "freeze": lambda m, x: m.freeze().predict_one(x),
    "clone": lambda m, x: m.clone(),
    "memory": lambda m, x: m._raw_memory_usage,
}
PROBABILITIES: dict[str, Callable[[Any, Any], Any]] = {
    "predict_proba_one": lambda m, x: m.predict_proba_one(x),
    "predict_proba_many": lambda m, x: m.predict_proba_many([x]),
}


@pytest.mark.parametrize("make_model", models())
def test_read_operations_do_not_change_state(make_model: Callable[[], Any], tmp_path: Path) -> None:
    model = trained(make_model())
    x = {"word 1": 1.0, "never seen": 2.0, "word 2": "a string", "word 3": None, 7: 1.0}
    reads = READS | (PROBABILITIES if isinstance(model, base.Classifier) else {})
    reads["save"] = lambda m, x: m.save(tmp_path / "m")
    before, seen = state(model), model.n_features_seen
    for operation, read in reads.items():
        for _ in range(2):
            read(model, x)
        assert state(model) == before, operation
        assert model.n_features_seen == seen, operation
    assert x == {"word 1": 1.0, "never seen": 2.0, "word 2": "a string", "word 3": None, 7: 1.0}


def test_methods_of_scikit_learn_are_answered_with_ours() -> None:
    model = streaml1.ElasticNetClassifier()
    for name, remedy in OF_SCIKIT_LEARN.items():
        assert remedy == "streaml1.progressive" or hasattr(model, remedy)
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=f"'{name}': use {remedy}, or streaml1.sklearn"):
            getattr(model, name)
    with pytest.raises(AttributeError, match="has no attribute 'f'$"):
        model.f  # noqa: B018
    for name in ("Classifier", "Regressor"):
        assert hasattr(streaml1.sklearn, f"Stream{name}")
        with pytest.raises(AttributeError, match=f"or streaml1.sklearn.Stream{name} for an"):
            getattr(streaml1, f"ElasticNet{name}")().fit  # noqa: B018


def test_examples_are_neither_modified_nor_referenced() -> None:
    model = ElasticNetClassifier()
    x: dict[Any, Any] = {"a": 0.0, "b": None, "c": "d", 1: True, ("e", "f"): 2}
    original = dict(x)
    for _ in range(3):
        model.learn_one(x, True)
        model.predict_one(x)
        model.learn_many([x], [False])
    assert x == original
    assert list(x) == list(original)
    before = state(model)
    x["a"] = 5.0
    x.clear()
    assert state(model) == before


# Copies resume training


@pytest.mark.parametrize(
    "clone_of",
    [
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: pickle.loads(pickle.dumps(m, protocol=2)),
        copy.deepcopy,
        copy.copy,
        lambda m: m.clone(include_attributes=True),
    ],
    ids=["pickle", "pickle 2", "deepcopy", "copy", "clone"],
)
def test_copies_resume_bit_identically(clone_of: Callable[[Any], Any]) -> None:
    model = trained(ElasticNetClassifier(l1=1e-3, l2=1e-3), 150)
    duplicate = clone_of(model)
    for m in (model, duplicate):
        trained(m, 150, seed=1)
    x = next(examples(1, seed=2))[0]
    assert duplicate.weights == model.weights
    assert duplicate.intercept == model.intercept
    assert duplicate.predict_one(x) == model.predict_one(x)
    assert duplicate.n_iterations == model.n_iterations


@pytest.mark.parametrize("make_model", models())
def test_clone_with_attributes_is_independent(make_model: Callable[[], Any]) -> None:
    model = trained(make_model(), 100)
    clone = model.clone(include_attributes=True)
    assert clone.weights == model.weights
    before = state(model)
    trained(clone, 3000, seed=3)
    clone.learn_one({f"many {k}": 1.0 for k in range(3000)}, True)
    clone.l1 = 0.5
    assert state(model) == before
    before = state(clone)
    trained(model, 100, seed=4)
    del model
    assert state(clone) == before
    clone._state.check()


def test_clone_with_attributes_and_new_parameters_uses_them() -> None:
    model = trained(ElasticNetClassifier(l1=0.0), 100)
    clone = model.clone({"l1": 0.01}, include_attributes=True)
    twin = trained(ElasticNetClassifier(l1=0.0), 100)
    twin.l1 = 0.01
    assert clone.l1 == 0.01
    trained(clone, 100, seed=1)
    trained(twin, 100, seed=1)
    assert clone.weights == twin.weights


def test_clone_is_untrained() -> None:
    model = trained(ElasticNetClassifier(l1=1e-3, lr=optim.schedulers.InverseScaling(0.3)))
    clone = model.clone()
    assert clone.weights == {}
    assert clone.n_iterations == 0
    assert repr(clone) == repr(model)
    assert clone.lr is not model.lr
    assert state(trained(clone)) == state(model)


# Delayed labels


def test_delayed_labels_give_the_same_model() -> None:
    delayed, immediate = ElasticNetClassifier(l1=1e-3), ElasticNetClassifier(l1=1e-3)
    pending = []
    for x, y in examples(300):
        delayed.predict_proba_one(x)
        pending.append((x, y))
        if len(pending) > 40:
            delayed.learn_one(*pending.pop(0))
    for x, y in pending:
        delayed.learn_one(x, y)
    assert state(delayed) == state(trained(immediate, 300))


@pytest.mark.parametrize(
    ("moment", "delay"),
    [
        (None, 50),
        (lambda x: datetime.datetime(2000, 1, 1) + datetime.timedelta(x["age"]), 3),
        (None, lambda x, y: 7 if y else 90),
    ],
    ids=["examples", "days", "by example"],
)
def test_delayed_progressive_evaluation_matches_manual_replay(moment: Any, delay: Any) -> None:
    if moment is not None:
        delay = datetime.timedelta(delay)

    def data() -> Any:
        rows = list(datasets.Phishing().take(400))
        return [({**x, "age": k // 4}, y) for k, (x, y) in enumerate(rows)]

    model, twin = ElasticNetClassifier(l1=1e-3), ElasticNetClassifier(l1=1e-3)
    evaluate.progressive_val_score(data(), model, metrics.LogLoss(), moment=moment, delay=delay)
    for _, x, y, *_ in stream.simulate_qa(data(), moment, delay):
        if y is not None:
            twin.learn_one(x, y)
    assert model.n_iterations == twin.n_iterations > 300
    assert state(model) == state(twin)


# Kinds of examples


def test_numpy_labels_match_python_labels() -> None:
    plain, numpy = ElasticNetClassifier(), ElasticNetClassifier()
    for x, y in examples(100):
        plain.learn_one(x, y)
        numpy.learn_one(x, np.bool_(y))
    assert state(plain) == state(numpy)
    regressor, numpy_regressor = ElasticNetRegressor(), ElasticNetRegressor()
    for x, y in examples(100):
        regressor.learn_one(x, 2.5 * y)
        numpy_regressor.learn_one(x, np.float32(2.5 * y))
    assert state(regressor) == state(numpy_regressor)


def test_empty_example_updates_only_the_intercept() -> None:
    model = ElasticNetClassifier(lr=0.1, intercept_lr=0.5)
    assert model.predict_proba_one({}) == {False: 0.5, True: 0.5}
    assert model.predict_one({}) is False
    model.learn_one({}, True)
    assert model.intercept == 0.25
    assert model.weights == {}
    assert model.n_iterations == 1
    model.learn_many([{}, {}], [True, True])
    assert model.n_iterations == 3
    assert model.n_features_seen == 0


def test_feature_names_of_mixed_types() -> None:
    names = ["a", "", 1, -1, 2**70, 0.5, ("a", "b"), ("a", 1, None), None, b"a", frozenset({1})]
    names += [datetime.date(2000, 1, 1), True + 1, "1", "-1", 2**26, "ä\ud800"]
    model = ElasticNetClassifier(lr=1.0, schedule="constant")
    for k, name in enumerate(names):
        assert model.predict_proba_one({name: 1.0})[True] == model.predict_proba_one({})[True]
        model.learn_one({name: k + 1.0}, True)
    assert model.n_features_seen == len(names)
    assert list(model.weights) == names
    assert all(w > 0.0 for w in model.weights.values())
    for name in names:
        assert model.predict_one({name: 1.0}) is True
    model._state.check()


def test_switch_from_int_names_to_mixed_names() -> None:
    ints_first, string_first = ElasticNetClassifier(l1=1e-3), ElasticNetClassifier(l1=1e-3)
    string_first.learn_one({"zero": 0.0}, True, 0.0)
    ints_first.learn_one({}, True, 0.0)
    for x, y in examples(200):
        x = {int(name[5:]) if int(name[5:]) < 30 else name: v for name, v in x.items()}
        for model in (ints_first, string_first):
            model.learn_one(x, y)
    assert ints_first.weights == string_first.weights
    assert ints_first.n_features_seen == string_first.n_features_seen == 50


def test_one_vs_rest() -> None:
    data = datasets.ImageSegments().take(600)
    binary = ElasticNetClassifier(l1=1e-4, lr=0.3)
    model = preprocessing.StandardScaler() | multiclass.OneVsRestClassifier(binary)
    accuracy = evaluate.progressive_val_score(data, model, metrics.Accuracy())
    assert accuracy.get() > 0.75
    assert binary.n_iterations == 0
    unpickled = pickle.loads(pickle.dumps(model))
    x, _ = next(iter(datasets.ImageSegments()))
    assert unpickled.predict_proba_one(x) == model.predict_proba_one(x)


def test_one_vs_rest_in_batches() -> None:
    frame = pd.DataFrame([x for x, _ in datasets.ImageSegments().take(100)])
    y = pd.Series([y for _, y in datasets.ImageSegments().take(100)], name="segment")
    model = multiclass.OneVsRestClassifier(ElasticNetClassifier())
    model.learn_many(frame, y)
    predicted = model.predict_many(frame)
    assert set(predicted) <= set(y)
    assert list(predicted.index) == list(frame.index)


@pytest.mark.parametrize("grams", [(1, 1), (1, 2), (2, 2)])
def test_pipeline_with_bag_of_words(grams: tuple[int, int]) -> None:
    texts = [("buy cheap pills now", True), ("see you at lunch", False)] * 40
    bag = feature_extraction.BagOfWords(lowercase=True, ngram_range=grams)
    model = bag | ElasticNetClassifier(l1=1e-3)
    score = evaluate.progressive_val_score(texts, model, metrics.Accuracy())
    assert score.get() > 0.9
    learner = model["ElasticNetClassifier"]
    if grams == (1, 1):
        assert "pills" in learner.weights
    else:
        assert ("cheap", "pills") in learner.weights
    assert model.predict_one("cheap pills now") is True


def test_bag_of_words_batch_equals_single_texts() -> None:
    texts = pd.Series(["aa bb bb", "bb cc", "", "cc cc cc aa"] * 5)
    y = pd.Series([True, False, True, False] * 5, name="spam")
    batch = feature_extraction.BagOfWords() | ElasticNetClassifier(l1=1e-3)
    single = batch.clone()
    batch.learn_many(texts, y)
    for text, label in zip(texts, y, strict=True):
        single.learn_one(text, label)
    batch, single = batch["ElasticNetClassifier"], single["ElasticNetClassifier"]
    assert batch.weights == single.weights
    assert batch.n_features_seen == single.n_features_seen == 3


def test_pipeline() -> None:
    model = preprocessing.MaxAbsScaler() | ElasticNetClassifier(l1=1e-3)
    evaluate.progressive_val_score(datasets.Phishing().take(300), model, metrics.ROCAUC())
    learner = model["ElasticNetClassifier"]
    assert isinstance(model, base.Classifier)
    assert learner.n_iterations == 300
    assert model.clone()["ElasticNetClassifier"].n_iterations == 0
    model.mutate({"ElasticNetClassifier": {"l1": 0.25}})
    assert learner.l1 == 0.25
    assert learner._state.rule.clock[0].l1 == 0.25
    assert "ElasticNetClassifier" in model.debug_one(next(iter(datasets.Phishing()))[0])


def test_transformer_union() -> None:
    union = compose.Prefixer("raw ") + preprocessing.StandardScaler()
    model = union | ElasticNetClassifier()
    for x, y in datasets.Phishing().take(50):
        model.learn_one(x, y)
    assert model["ElasticNetClassifier"].n_features_seen > 9


# Signatures


@pytest.mark.parametrize("cls", MODELS)
def test_unknown_keyword_arguments_are_rejected(cls: Any) -> None:
    for method in ("predict_one", "predict_many", *cls.__name__.endswith("r") * ["learn_one"]):
        arguments: tuple[Any, ...] = ({},) if method != "learn_one" else ({}, 1)
        with pytest.raises(TypeError, match="unexpected keyword"):
            getattr(cls(), method)(*arguments, t=1)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        (
            {"optimizer": optim.SGD(0.1)},
            TypeError,
            "'optimizer': use lr=0.1, schedule=\"constant\"",
        ),
        ({"lr": optim.SGD(0.1)}, ValueError, '; use lr=0.1, schedule="constant" for optim.SGD'),
        ({"initializer": optim.initializers.Zeros()}, TypeError, ": weights start at zero"),
        ({"learning_rate": 0.1}, TypeError, ': use lr, or omit it where lr is "auto"'),
        ({"C": 1}, TypeError, "'C': use l1 and l2"),
        ({"epochs": 3}, TypeError, "'epochs': learn the examples again, or use passes= of str"),
        ({"shedule": "constant"}, TypeError, "'shedule'; did you mean 'schedule'"),
    ],
)
def test_parameters_of_river_are_answered(
    parameters: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        streaml1.ElasticNetClassifier(**parameters)


def test_learn_methods_return_none() -> None:
    for cls in MODELS:
        assert cls().learn_one({"a": 1}, 1) is None
        assert cls().learn_one(x={"a": 1}, y=1, w=2.0) is None
        assert cls().learn_many(X=[{"a": 1}], y=[1], w=[2.0]) is None


def test_predictions_are_builtin_types() -> None:
    model, regressor = trained(ElasticNetClassifier()), trained(ElasticNetRegressor())
    for x in ({"word 1": 1.0}, {}, {"word 1": np.float32(1.0)}, OrderedDict(a=1)):
        p = model.predict_proba_one(x)
        assert list(p) == [False, True]
        assert [type(v) for v in p.values()] == [float, float]
        assert type(model.predict_one(x)) is bool
        assert type(regressor.predict_one(x)) is float
    assert all(type(w) is float for w in model.weights.values())
    assert type(model.intercept) is float
    assert type(model.n_nonzero) is int
    assert type(model.n_iterations) is int
    assert type(model.n_features_seen) is int


def test_zero_margin_predicts_false() -> None:
    assert ElasticNetClassifier().predict_one({"a": 1.0}) is False
    assert ElasticNetClassifier(intercept_init=1e-300).predict_one({}) is True


@pytest.mark.parametrize("loss", ["logistic", "hinge", "smoothed_hinge", "squared_hinge"])
def test_probabilities_are_the_sigmoid_of_the_margin(loss: str) -> None:
    model = trained(ElasticNetClassifier(loss=loss, lr=0.1))
    for x, _ in examples(20, seed=5):
        a = model.freeze().margin(x)
        assert model.predict_proba_one(x)[True] == pytest.approx(1 / (1 + np.exp(-a)), abs=1e-12)


def test_frame_predictions_keep_index_and_columns() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"]}, index=["p", "q"])
    model = ElasticNetClassifier()
    model.learn_many(frame, pd.Series([True, False], name="spam"))
    assert list(model.predict_many(frame).index) == ["p", "q"]
    assert model.predict_many(frame).name == "spam"
    p = model.predict_proba_many(frame)
    assert list(p.columns) == [False, True]
    assert list(p.index) == ["p", "q"]
    assert set(model.weights) == {"a", "b=u", "b=v"}
    assert model.predict_proba_many([{"a": 1.0}]).shape == (1, 2)


@pytest.mark.parametrize("example", ["text", [1], None, 5, {"a"}, object(), dict])
def test_non_dict_examples_are_rejected(example: Any) -> None:
    for cls in MODELS:
        for first in ({}, {"a": 1.0}):
            model = cls()
            model.learn_one(first, True)
            before = state(model)
            for call in (lambda m: m.learn_one(example, True), lambda m: m.predict_one(example)):
                with pytest.raises(BadExample, match="an example is a dict of features, not a"):
                    call(model)
            assert state(model) == before


@pytest.mark.parametrize("kind", [utils.VectorDict, pd.Series, MappingProxyType, Counter])
def test_what_has_items_is_a_dict_in_every_method(kind: Callable[[Any], Any]) -> None:
    x = {"a": 1.0, "b": 2.0}
    for cls in MODELS:
        one, many = cls(), cls()
        one.learn_one(kind(x), True)
        many.learn_many([kind(x)], [True])
        assert (one.weights, one.intercept) == (many.weights, many.intercept)
        assert list(one.predict_many([kind(x)])) == [one.predict_one(kind(x))]
        assert one.explain_one(kind(x)) == one.explain_many([kind(x)])[0] == one.explain_one(x)
        assert one.freeze().explain_one(kind(x)) == one.freeze().explain_one(x)


# Sample weights


def test_sample_weight_scales_only_the_gradient() -> None:
    model = ElasticNetRegressor(l1=0.05, l2=0.1, lr=0.3, clip_gradient=2.0)
    twin = reference.ElasticNet(4, l1=0.05, l2=0.1, loss="squared", lr=0.3, clip_gradient=2.0)
    random = np.random.default_rng(1)
    for _ in range(200):
        x, y, w = random.normal(size=4), random.normal() * 3, random.choice([0.0, 0.5, 1.0, 7.0])
        model.learn_one(dict(enumerate(x.tolist())), y, w)
        twin.learn(x, y, w)
    assert [model.weights.get(j, 0.0) for j in range(4)] == pytest.approx(twin.w, abs=1e-9)
    assert model.intercept == pytest.approx(twin.b, abs=1e-9)


def test_zero_sample_weight_still_advances_the_step() -> None:
    model = trained(ElasticNetClassifier(l1=1e-2, lr=0.1), 50)
    before, b = model.weights, model.intercept
    model.learn_one({"word 1": 1.0, "new": 1.0}, True, 0.0)
    assert model.n_iterations == 51
    assert model.intercept == b
    assert "new" not in model.weights
    assert model.n_features_seen == 51
    for name, w in model.weights.items():
        assert abs(w) < abs(before[name])


def test_sample_weights_in_river_datasets() -> None:
    rows = [(x, y, {"w": 2}) for x, y in datasets.Phishing().take(200)]
    model, twin = ElasticNetClassifier(lr=0.1), ElasticNetClassifier(lr=0.1)
    evaluate.progressive_val_score(rows, model, metrics.Accuracy())
    for x, y, _ in rows:
        twin.learn_one(x, y, 2)
    assert state(model) == state(twin)
    assert model.weights != trained_unweighted(rows).weights


def trained_unweighted(rows: Any) -> Any:
    model = ElasticNetClassifier(lr=0.1)
    for x, y, _ in rows:
        model.learn_one(x, y)
    return model


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3]), min_size=1, max_size=20))
def test_batch_with_sample_weights_equals_single_steps(ws: list[float]) -> None:
    rows = list(examples(len(ws)))
    single, batch = ElasticNetClassifier(l1=0.01), ElasticNetClassifier(l1=0.01)
    for (x, y), w in zip(rows, ws, strict=True):
        single.learn_one(x, y, w)
    batch.learn_many([x for x, _ in rows], [y for _, y in rows], ws)
    assert state(single) == state(batch)


# Parameters

INVALID: list[tuple[str, Any, str]] = [
    (name, value, rule)
    for name, rule in [
        ("l1", "from 0 to 1e+30"),
        ("l2", "from 0 to 1e+30"),
        ("lr", "from 0 to 1e+10"),
        ("intercept_lr", "from 0 to 1e+10"),
    ]
    for value in (-1e-9, -1, float("nan"), float("inf"), 1.1e30, 10**400, np.float64("nan"))
]
INVALID += [
    (name, value, "")
    for name in ("l1", "l2", "lr", "intercept_lr", "intercept_init", "clip_gradient")
    for value in ("0.1", None)
]
INVALID += [
    ("lr", value, "") for value in (1j, [0.1], (), {}, np.array([0.1, 0.2]), object(), "Auto", b"1")
]
INVALID += [
    ("clip_gradient", 0.0, "above 0"),
    ("clip_gradient", -1.0, "above 0"),
    ("clip_gradient", float("inf"), "at most 1e+30"),
    ("intercept_init", 1e51, "from -1e+50 to 1e+50"),
    ("intercept_init", float("nan"), "from -1e+50"),
    *[("loss", v, "one of") for v in ("log", "squared ", "", None, 1, [], b"hinge")],
    *[("schedule", v, '"invsqrt", "constant", "inverse"') for v in ("sqrt", None, 0, ["inverse"])],
    *[("update", v, '"fobos", "sgd"') for v in ("FOBOS", "adam", None, True)],
]


def case_ids(cases: list[tuple[str, Any, str]]) -> list[str]:
    return [f"{name}={str(value)[:12]}" for name, value, _ in cases]


@pytest.mark.parametrize(("name", "value", "rule"), INVALID, ids=case_ids(INVALID))
@pytest.mark.parametrize("cls", MODELS)
def test_invalid_parameters_are_rejected(cls: Any, name: str, value: Any, rule: str) -> None:
    with pytest.raises(ValueError) as error:
        cls(**{name: value})
    message = str(error.value)
    assert message.startswith(f"{name} must be")
    assert rule in message
    assert "\n" not in message
    model = trained(cls(l1=1e-3), 30)
    before = state(model)
    with pytest.raises(ValueError, match=f"^{name} must be"):
        setattr(model, name, value)
    assert state(model) == before
    if name in model._mutable_attributes and not isinstance(value, dict):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            model.mutate({name: value})
        with pytest.raises(ValueError, match=f"^{name} must be"):
            model.mutate({"schedule": "constant", "l1": 0.5, name: value})
        with pytest.raises(ValueError, match=f"^{name} must be"):
            model.mutate(
                dict([(name, value), *({"l1": 0.5, "l2": 0.5}.items() - {name: 0.5}.items())])
            )
        assert state(model) == before
        twin = trained(cls(l1=1e-3), 30)
        assert state(trained(model, 30, seed=1)) == state(trained(twin, 30, seed=1))


@pytest.mark.parametrize(
    "params",
    [
        {"l1": 0, "l2": np.float32(0.5), "lr": 1, "intercept_lr": 1},
        {"l1": np.float64(1e-3), "lr": np.int64(1), "intercept_init": -5},
        {"lr": 0, "intercept_lr": 0, "clip_gradient": 1e-300},
        {"l1": 1e30, "l2": 1e30, "lr": 1e10, "intercept_lr": 1e10, "clip_gradient": 1e30},
    ],
)
def test_valid_parameters_are_accepted(params: dict[str, Any]) -> None:
    for cls in MODELS:
        model = trained(cls(**params))
        assert all(getattr(model, name) == value for name, value in params.items())
        assert np.isfinite(list(model.weights.values())).all()
        model._state.check()
        assert model._get_params() == cls(**params)._get_params()


def test_losses_of_classifiers_and_regressors_are_disjoint() -> None:
    for loss in ("squared", "absolute"):
        assert ElasticNetRegressor(loss=loss).loss == loss
        with pytest.raises(ValueError, match='one of "logistic", "hinge", "smoothed_hinge"'):
            ElasticNetClassifier(loss=loss)
    for loss in ("logistic", "hinge", "smoothed_hinge"):
        assert ElasticNetClassifier(loss=loss).loss == loss
        with pytest.raises(ValueError, match='one of "squared", "absolute"'):
            ElasticNetRegressor(loss=loss)


def test_parameters_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        ElasticNetClassifier(0.1)
    with pytest.raises(TypeError):
        ElasticNetClassifier(lambda_1=0.1)


def test_repr_shows_parameters_that_differ_from_the_defaults() -> None:
    shown = repr(ElasticNetClassifier(l1=1e-3, lr=optim.schedulers.Constant(0.5)))
    assert shown.startswith("ElasticNetClassifier(l1=0.001, lr=Constant")
    assert "0.5" in shown and "update" not in shown
    assert repr(ElasticNetClassifier()) == "ElasticNetClassifier()"
    assert repr(ElasticNetClassifier(stamps="explicit")) == (
        "ElasticNetClassifier(stamps='explicit', lr=0.1)"
    )
    regressor = ElasticNetRegressor(l1=0.25, lr=0.2, schedule="inverse", clip_gradient=3.0)
    rebuilt = eval(repr(regressor), {"ElasticNetRegressor": ElasticNetRegressor})
    assert rebuilt._get_params() == regressor._get_params()


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        (ElasticNetRegressor, {"quantile": 0.9}, 'quantile=0.9 .*: it requires loss="quantile"'),
        (
            streaml1.FTRLRegressor,
            {"loss": "absolute", "huber_delta": 2.0},
            'huber_delta=2.0 has no effect: it requires loss="huber"',
        ),
        (ElasticNetClassifier, {"schedule": "inverse"}, "schedule='inverse' .* a number for lr"),
        (SoftmaxClassifier, {"radius": 2.0}, 'radius=2.0 .*: it requires penalty="ball"'),
        (SoftmaxClassifier, {"nonnegative": True}, "nonnegative=True has no effect"),
    ],
)
def test_parameters_without_effect_warn(kind: Any, params: dict[str, Any], message: str) -> None:
    with pytest.warns(UserWarning, match=message) as warned:
        model = kind(**params)
    assert [warning.filename for warning in warned] == [__file__]  # the caller's line
    clone = model.clone()  # says nothing again
    assert clone._get_params() == model._get_params()


def test_parameters_with_effect_do_not_warn(tmp_path: Path) -> None:
    model = ElasticNetRegressor(loss="quantile", quantile=0.9, lr=0.1)
    ElasticNetRegressor(lr=0.1, schedule="inverse", average=True, budget=5)
    ElasticNetRegressor(quantile=0.5, huber_delta=1.0)  # the defaults
    model.loss = "squared"
    model.save(tmp_path / "m")
    assert streaml1.load(tmp_path / "m").quantile == 0.9


def test_immutable_parameters_cannot_change() -> None:
    model = trained(ElasticNetClassifier(), 20)
    before = state(model)
    for change in ({"intercept_init": 1.0}, {"no_such": 1}):
        with pytest.raises(ValueError, match="cannot change"):
            model.mutate({**change})
        assert state(model) == before
    with pytest.raises(ValueError, match="clone the model instead"):
        model.intercept_init = 1.0
    assert state(model) == before


@pytest.mark.parametrize(
    ("cls", "loss", "name"),
    [
        (ElasticNetClassifier, optim.losses.Log(), "logistic"),
        (ElasticNetClassifier, optim.losses.Hinge, "hinge"),
        (ElasticNetClassifier, "log_loss", "logistic"),
        (ElasticNetRegressor, optim.losses.Squared(), "squared"),
        (ElasticNetRegressor, optim.losses.Quantile(0.3), "quantile"),
        (ElasticNetRegressor, "mae", "absolute"),
    ],
)
def test_losses_of_other_libraries_are_named(cls: Any, loss: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f'^loss must be one of .*; use "{name}"$'):
        cls(loss=loss)


def test_scheduler_is_mutated_in_place() -> None:
    class Rate(optim.base.Scheduler):
        def __init__(self, start: float = 0.1) -> None:
            self.start = start

        @property
        def _mutable_attributes(self) -> set[str]:
            return {"start"}

        def get(self, t: int) -> float:
            return self.start

    model, twin = ElasticNetClassifier(lr=Rate()), ElasticNetClassifier(lr=Rate(0.5))
    model.mutate({"lr": {"start": 0.5}})
    assert trained(model, 50).weights == trained(twin, 50).weights


@pytest.mark.parametrize(
    ("model", "scheduler_change", "model_change"),
    [
        (SoftmaxClassifier(penalty="ball", lr=optim.schedulers.Constant(0.1)), {}, {"l2": 0.5}),
        (ElasticNetClassifier(lr=optim.schedulers.Constant(0.1)), {"no_such": 1}, {"l2": 0.5}),
    ],
    ids=["incompatible with the ball", "no attribute of the scheduler"],
)
def test_rejected_mutation_does_not_change_the_scheduler(
    model: Any, scheduler_change: dict[str, Any], model_change: dict[str, Any]
) -> None:
    with pytest.raises(ValueError):
        model.mutate({"lr": {"learning_rate": 0.7, **scheduler_change}, **model_change})
    assert (model.lr.learning_rate, model.l2) == (0.1, 0.0)


@pytest.mark.parametrize(
    "eta", [-1.0, float("nan"), float("inf"), 1e11, None, "a", pytest.param(10**400, id="10**400")]
)
def test_invalid_scheduler_rates_are_rejected(eta: Any) -> None:
    class Rate(optim.base.Scheduler):
        def get(self, t: int) -> Any:
            return eta if t >= 3 else 0.1

    model = trained(ElasticNetClassifier(lr=Rate()), 3)
    before = model.weights
    with pytest.raises(ValueError, match="must be from 0 to 1e10, got .* from Rate for step 3"):
        model.learn_one({"a": 1.0}, True)
    with pytest.raises(ValueError, match="must be from 0 to 1e10, got .* from Rate for step 3"):
        model.learn_many([{"a": 1.0}] * 5, [True] * 5)
    assert model.weights == before
    assert model.n_iterations == 3
    untrained = ElasticNetClassifier(lr=Rate())
    with pytest.raises(ValueError, match="step 3"):
        untrained.learn_many([{"a": 1.0}] * 5, [True] * 5)
    assert untrained.n_iterations == 0
    assert untrained.weights == {}


@pytest.mark.parametrize(
    "scheduler",
    [
        optim.schedulers.Constant(0.2),
        optim.schedulers.InverseScaling(0.3, 0.7),
        optim.schedulers.Optimal(optim.losses.Log()),
    ],
    ids=lambda s: type(s).__name__,
)
def test_river_schedulers(scheduler: Any) -> None:
    model = ElasticNetRegressor(l1=1e-3, lr=scheduler, clip_gradient=10.0)
    batch = model.clone()
    twin = reference.ElasticNet(6, l1=1e-3, loss="squared", lr=scheduler, clip_gradient=10.0)
    X = np.random.default_rng(3).normal(size=(60, 6)) * 0.3
    for x in X:
        model.learn_one(dict(enumerate(x.tolist())), x.sum())
        twin.learn(x, x.sum())
    batch.learn_many(X, X.sum(axis=1))
    # Rates near 1e3 amplify the rounding errors of sums, so compare relative to the scale.
    scale = 1.0 + np.abs(twin.w).max()
    assert [model.weights.get(j, 0.0) / scale for j in range(6)] == pytest.approx(
        twin.w / scale, abs=1e-9
    )
    assert batch.weights == pytest.approx(model.weights, abs=1e-9 * scale)


# Introspection


def test_top_weights_have_the_largest_magnitude() -> None:
    model = trained(ElasticNetClassifier(l1=1e-3), 300)
    ordered = sorted(model.weights.items(), key=lambda item: -abs(item[1]))
    assert model.top_weights(5) == ordered[:5]
    assert model.top_weights(10**6) == ordered
    assert model.top_weights(0) == []
    assert len(model.top_weights()) == 10
    assert ElasticNetClassifier().top_weights(3) == []


def test_counts() -> None:
    model = trained(ElasticNetClassifier(l1=0.1, lr=0.3, schedule="constant"), 300)
    weights = model.weights
    assert 0 < model.n_nonzero == len(weights) < model.n_features_seen == 50
    assert 0.0 not in weights.values()
    assert model.n_iterations == 300


# Frozen models


@pytest.mark.parametrize("make_model", models())
def test_frozen_model_predicts_like_the_model(make_model: Callable[[], Any]) -> None:
    """Bit-identical if l2 is 0; otherwise the model scales the sum instead of each weight.

    With lr="auto" it predicts with other weights: `test_lane_mixture.py` compares those.
    """
    model = trained(make_model())
    if getattr(model, "lr", None) == "auto":
        return
    frozen = model.freeze()
    assert dict(frozen.weights) == model.weights
    assert frozen.intercept == model.intercept
    for x, _ in examples(200, seed=7):
        x["new"] = 1.0
        a = frozen.margin(x)
        if model.l2 == 0.0:
            assert a == model._margin(x)
        assert a == pytest.approx(model._margin(x), rel=1e-12, abs=1e-12)
        if isinstance(model, base.Classifier):
            p = model.predict_proba_one(x)
            assert frozen.predict_proba_one(x) == pytest.approx(p, abs=1e-12)
            assert frozen.predict_one(x) is model.predict_one(x)
        else:
            assert frozen.predict_one(x) == a


def test_frozen_probabilities_are_bit_identical() -> None:
    model = trained(ElasticNetClassifier(l1=1e-3, lr=0.1))
    frozen = model.freeze()
    for x, _ in examples(500, seed=7):
        assert frozen.predict_proba_one(x) == model.predict_proba_one(x)


@pytest.mark.parametrize("make_model", models())
def test_frozen_model_is_immutable(make_model: Callable[[], Any]) -> None:
    model = trained(make_model())
    frozen = model.freeze()
    x = next(examples(1, seed=8))[0]
    before, weights = frozen.predict_one(x), dict(frozen.weights)
    trained(model, 100, seed=9)
    assert frozen.predict_one(x) == before
    for name in ("_weights", "_intercept", "intercept", "anything"):
        with pytest.raises(AttributeError, match="a frozen model is immutable"):
            setattr(frozen, name, 1.0)
        with pytest.raises(AttributeError):
            delattr(frozen, name)
    with pytest.raises(TypeError):
        frozen.weights["word 1"] = 5.0
    assert dict(frozen.weights) == weights
    for duplicate in (pickle.loads(pickle.dumps(frozen)), copy.deepcopy(frozen), copy.copy(frozen)):
        assert duplicate.predict_one(x) == before
        assert duplicate.weights == frozen.weights
    assert repr(frozen) == f"Frozen({len(weights)} weights)"


def test_frozen_model_rejects_invalid_examples() -> None:
    frozen = trained(ElasticNetClassifier()).freeze()
    for invalid in ({"a": float("inf")}, {"a": b"1"}, {"a": 1e60}, "text", None):
        with pytest.raises(BadExample):
            frozen.predict_one(invalid)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="use predict_one"):
        trained(ElasticNetRegressor()).freeze().predict_proba_one({})


def test_frozen_model_pickles_only_nonzero_weights() -> None:
    model = ElasticNetClassifier(l1=0.5, lr=0.5, schedule="constant")
    model.learn_many([{f"n{j}": 1.0 for j in range(k, k + 20)} for k in range(2000)], [True] * 2000)
    frozen = model.freeze()
    assert len(pickle.dumps(frozen)) < 1100 + 40 * model.n_nonzero


def test_frozen_model_is_thread_safe() -> None:
    model = trained(ElasticNetClassifier())
    frozen = model.freeze()
    xs = [x for x, _ in examples(200, seed=10)]
    expected = [frozen.predict_proba_one(x) for x in xs]
    results: list[Any] = []

    def predict() -> None:
        results.append([frozen.predict_proba_one(x) for x in xs])

    threads = [threading.Thread(target=predict) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_models_have_river_types_and_parameter_grids() -> None:
    assert issubclass(ElasticNetClassifier, base.MiniBatchClassifier)
    assert issubclass(ElasticNetRegressor, base.MiniBatchRegressor)
    assert streaml1.ElasticNetClassifier()._multiclass is False
    assert streaml1.ElasticNetRegressor()._is_stochastic is False
    grid = {"l1": [1e-4, 1e-2], "lr": [optim.schedulers.Constant(0.1), 0.3]}
    from river import utils

    assert len(utils.expand_param_grid(ElasticNetClassifier(), grid)) == 4
