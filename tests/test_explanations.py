"""Explanations add up to the margins that models predict, for every learner and kind of input."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, preprocessing
from scipy.sparse import csr_array

import streaml1
from streaml1.core.rows import BadExample, numeric_features
from streaml1.models.explanation import INTERCEPT, Contribution, Explanation, explanation_of
from streaml1.models.registry import LEARNERS
from streaml1.sources.readers.formats import line_parser
from tests import kit
from tests.command import error_of, run
from tests.test_ngrams import with_ngram_counts

pytestmark = pytest.mark.usefixtures("cwd")

NAMES = ["a", "b", "c", "d", "e"]
CROSSED = {"cross": [("a", "b")], "text": ["t"], "ngrams": 2}


def _cases() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return a class and its parameters by the name of the case."""
    found = {}
    for kind, params in kit.CONFIGURATIONS:
        name = kind.__name__
        number = sum(case.startswith(f"{name}-") for case in found)
        found[f"{name}-{number}"] = name, params
    extra: list[tuple[str, dict[str, Any]]] = [
        ("ElasticNetClassifier", {}),
        ("ElasticNetRegressor", {"loss": "poisson"}),
        ("ElasticNetRegressor", {"lr": 0.1, "l1": 1e-3, "average": True}),
        ("PegasosClassifier", {"average": True}),
        ("FTRLRegressor", {"loss": "poisson"}),
        ("EGClassifier", {"nonnegative": True, "n_features": 50}),
        ("ElasticNetClassifier", {"offset": "a", "negative_rate": 0.1}),
        ("FTRLClassifier", {"offset": "a", "hash_bits": 3}),
        ("ElasticNetClassifier", {"lr": 0.1, "negative_rate": 0.1}),
    ]
    for name, params in extra:
        found[f"{name}-{params}"] = name, params
    for name in ("ElasticNetClassifier", "FTRLClassifier", "SoftmaxClassifier"):
        for more in ({"hash_bits": 3}, CROSSED, {"hash_bits": 5, **CROSSED}):
            found[f"{name}-{more}"] = name, dict(more)
    found["ElasticNetClassifier-lr-cross"] = (
        "ElasticNetClassifier",
        {"lr": 0.1, "l2": 1e-3, **CROSSED},
    )
    return found


CASES = _cases()


@cache
def trained(case: str) -> Any:
    """Return a model that has learnt forty examples with the names a to e."""
    name, params = CASES[case]
    model = getattr(streaml1, name)(**params)
    random = np.random.default_rng(3)
    for i in range(40):
        x: dict[Hashable, Any] = {
            feature: float(random.normal()) for feature in NAMES if random.random() < 0.6
        }
        x["kind"] = f"k{i % 3}"
        x["b=x"] = 1.0
        if "text" in params:
            x["t"] = "cheap pills" if i % 2 else "good news today"
        y: Any = "uvw"[i % 3] if name == "SoftmaxClassifier" else i % 2
        model.learn_one(x, bool(y) if name.endswith("Classifier") and y in (0, 1) else y)
    return model


@cache
def frozen(case: str) -> Any:
    return trained(case).freeze()


def is_mixture(model: Any) -> bool:
    return getattr(model, "lr", None) == "auto"


value = st.one_of(
    st.floats(-1e3, 1e3), st.sampled_from([1, True, 0, 0.0, None, 1e-18, 1e16, -1e16, 3e-300])
)
example = st.dictionaries(
    st.sampled_from([*NAMES, "new", "other", 7]), value, max_size=7
).flatmap(
    lambda x: st.sampled_from([{}, {"kind": "k1"}, {"kind": "new"}, {"t": "cheap pills cheap new"}])
    .map(lambda more: {**x, **more})
)  # fmt: skip


def names_of(x: dict[Hashable, Any], params: dict[str, Any]) -> dict[Hashable, float]:
    """Return the features of an example by name, slowly."""
    if params.get("text"):
        x = with_ngram_counts(x, params["text"], params["ngrams"])
    plain = numeric_features(x)
    crossed = {
        f"{a} x {b}": plain[a] * plain[b]
        for a in plain
        for b in plain
        if params.get("cross") and belongs(a, "a") and belongs(b, "b")
    }
    return {**plain, **{name: v for name, v in crossed.items() if v}}


def belongs(name: Hashable, prefix: str) -> bool:
    return name == prefix or str(name).startswith((f"{prefix}=", f"{prefix}^"))


def outputs(explained: Any) -> list[tuple[Hashable, Explanation]]:
    """Return the explanations of an example by label; the label of a single one is None."""
    return [(None, explained)] if isinstance(explained, Explanation) else list(explained.items())


def check(explained: Any, x: dict[Hashable, Any], params: dict[str, Any], bounded: bool) -> None:
    features = names_of(x, params)
    for _, e in outputs(explained):
        assert math.fsum([*e.contributions, *e.remainder]) == e.margin
        assert {record.name: record.value for record in e.features} == features
        assert len(e.features) == len(features)
        sizes = [abs(record.contribution) for record in e.features]
        assert sizes == sorted(sizes, reverse=True)
        assert e[-1] == (INTERCEPT, 1.0, e.intercept, e.intercept, True)
        if not bounded:
            assert not e.exceeds_rounding
            error = abs(math.fsum(e.remainder))
            assert error <= 1e-15 * (len(e) + 8) * math.fsum(map(abs, e.contributions))


def bits(a: Any) -> bytes:
    """Return the bits of floats, without the sign of zeros."""
    return (np.asarray(a, np.float64) + 0.0).tobytes()


@pytest.mark.parametrize("case", CASES)
@given(x=example)
def test_contributions_add_up_to_the_margin(case: str, x: dict[Hashable, Any]) -> None:
    model, still = trained(case), frozen(case)
    params = CASES[case][1]
    for explainer in (model, still):
        explained = explainer.explain_one(dict(x))
        check(explained, x, params, is_mixture(model))
        margins = np.array([e.margin for _, e in outputs(explained)])
        if isinstance(explained, dict):
            p = np.exp(margins - margins.max())
            predicted = list(explainer.predict_proba_one(x).values())
            np.testing.assert_allclose(predicted, p / p.sum(), rtol=1e-14, atol=0.0)
            best = list(explained)[int(np.argmax(margins))]
            assert explainer.predict_one(x) == best
            continue
        assert bits(margins) == bits(still.margin(x))
        if explainer is model and not is_mixture(model):
            assert bits(margins) == bits(model._margin(x))
        predictor = still if is_mixture(model) else explainer
        if hasattr(model, "predict_proba_one"):
            assert predictor.predict_one(x) == (margins[0] > 0.0)
            p = 1.0 / (1.0 + math.exp(-max(-700.0, min(700.0, margins[0]))))
            assert predictor.predict_proba_one(x)[True] == pytest.approx(p, rel=1e-14, abs=1e-300)
        elif model.loss == "poisson":
            mean = math.exp(min(margins[0], 50.0 * math.log(10.0)))
            assert predictor.predict_one(x) == pytest.approx(mean, rel=1e-13)
        else:
            assert bits(predictor.predict_one(x)) == bits(margins)


@pytest.mark.parametrize("case", CASES)
@given(X=st.lists(example, max_size=4))
def test_batches_are_explained_row_by_row(case: str, X: list[dict[Hashable, Any]]) -> None:
    for explainer in (trained(case), frozen(case)):
        rows = explainer.explain_many(X)
        assert len(rows) == len(X)
        for x, explained in zip(X, rows, strict=True):
            check(explained, x, CASES[case][1], is_mixture(trained(case)))
            alone = outputs(explainer.explain_one(x))
            assert [label for label, _ in outputs(explained)] == [label for label, _ in alone]
            for (_, e), (_, f) in zip(outputs(explained), alone, strict=True):
                assert e.records == f.records
        if isinstance(explainer, streaml1.models.base.OnlineModel) and is_mixture(explainer):
            continue
        if rows and isinstance(rows[0], Explanation):
            margins = [e.margin for e in rows]
            if isinstance(explainer, streaml1.models.base.OnlineModel):
                assert bits(margins) == bits(explainer._margins(X))
            elif not explainer._binary and not explainer._is_poisson:
                assert bits(margins) == bits(explainer.predict_many(X))


@pytest.mark.parametrize("case", [case for case in CASES if "hash_bits" not in case])
def test_weights_and_unknown_names(case: str) -> None:
    model = trained(case)
    x = {"a": 2.0, "c": -1.5, "kind": "k2", "new": 3.0, 7: 1.0}
    starts_above_zero = CASES[case][1].get("nonnegative") and "EG" in case
    for explainer in (model, frozen(case)):
        for label, e in outputs(explainer.explain_one(x)):
            assert {"new", 7} <= set(e.unknown)
            for record in e.features:
                row = model.weights.get(record.name, 0.0)
                if record.name == getattr(model, "offset", None):
                    row = 1.0
                w = row if label is None else (row or {}).get(label, 0.0)
                assert record.weight == w or (starts_above_zero and not record.known)
                if not record.known and not starts_above_zero:
                    assert record.contribution == 0.0
            learnt = {"a", "c", "kind=k2"}
            assert learnt.isdisjoint(e.unknown) or explainer is not model
            intercept = explainer.intercept
            assert e.intercept == (
                pytest.approx(intercept, rel=1e-15) if label is None else intercept[label]
            )


PLAIN = [c for c in CASES if "hash_bits" not in c and "cross" not in c and "Softmax" not in c]


@pytest.mark.parametrize("case", PLAIN)
def test_a_contribution_is_what_leaving_the_feature_out_changes(case: str) -> None:
    """The slow way: predict again without the feature."""
    still = frozen(case)
    x = {"a": 0.2, "b": -0.1, "c": 0.3, "e": 0.1, "kind": "k1", "new": 1.0}
    e = still.explain_one(x)
    if e.exceeds_rounding:  # a bound of lr="auto"
        return
    contributions = {record.name: record.contribution for record in e}
    for name in x:
        rest = {other: v for other, v in x.items() if other != name}
        change = still.margin(x) - still.margin(rest)
        key = "kind=k1" if name == "kind" else name
        assert contributions[key] == pytest.approx(change, rel=1e-9, abs=1e-12)
    assert contributions[INTERCEPT] == pytest.approx(still.margin({}), rel=1e-12)


def test_shared_slots_divide_a_contribution() -> None:
    for name in ("FTRLClassifier", "ElasticNetClassifier"):
        model = getattr(streaml1, name)(hash_bits=1)
        slots = [[n for n in map("n{}".format, range(30)) if model.slot(n) == k] for k in (0, 1)]
        (a, b), (c, d) = slots[0][:2], slots[1][:2]
        for i in range(20):
            model.learn_one({a: i % 3, b: 1.0, c: i % 2}, i % 3 == 0)
        x = {a: 1.0, b: 2.0, c: -0.5, d: 0.5}
        e = model.explain_one(x)
        merged: dict[int, float] = {}
        sums: dict[int, float] = {}
        for record in e.features:
            slot = model.slot(record.name)
            sums[slot] = sums.get(slot, 0.0) + record.contribution
            merged[slot] = merged.get(slot, 0.0) + record.value
        assert len(merged) == 2
        for slot, total in sums.items():
            first = next(n for n in x if model.slot(n) == slot)
            if merged[slot]:
                alone = model.explain_one({first: merged[slot]})
                assert total == pytest.approx(alone[0].contribution, rel=1e-12)
            else:
                assert total == 0.0


@pytest.mark.parametrize("name", ["FTRLRegressor", "ElasticNetRegressor", "L1BallRegressor"])
def test_matrices_frames_and_parsed_rows(name: str) -> None:
    model = getattr(streaml1, name)()
    X = np.array([[1.0, 0.0, 2.0], [0.0, -1.0, 0.5], [3.0, 0.0, 0.0]])
    y = [1.0, 0.5, 2.0]
    for _ in range(5):
        model.learn_many(csr_array(X), y)
    predicted = model.freeze().predict_many(csr_array(X))
    rows = model.explain_many(csr_array(X))
    assert bits([e.margin for e in rows]) == bits(predicted)
    assert [{r.name for r in e.features} for e in rows] == [{0, 2}, {1, 2}, {0}]
    duplicates = csr_array((np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2])), shape=(1, 3))
    assert model.explain_many(duplicates)[0][0].value == 3.0
    parsed = line_parser("svmlight").read(b"1 0:1 2:2\n").x
    assert model.explain_many(parsed)[0].records == rows[0].records
    named = getattr(streaml1, name)()
    frame = pd.DataFrame({"p": [1.0, 0.0], "q": ["u", "v"]})
    named.learn_many(frame, pd.Series([1.0, 0.0]))
    explained = named.explain_many(frame)
    assert [{r.name: r.value for r in e.features} for e in explained] == [
        {"p": 1.0, "q=u": 1.0},
        {"q=v": 1.0},
    ]
    parsed = line_parser("jsonl").read(b'{"x": {"p": 1.0, "q": "u"}, "y": 1}\n').x
    assert named.explain_many(parsed)[0].records == explained[0].records


def test_text_in_frames() -> None:
    model = streaml1.ElasticNetClassifier(lr=0.1, text=["t"], ngrams=2)
    frame = pd.DataFrame({"t": ["cheap pills", "news"], "p": [1.0, 2.0]})
    model.learn_many(frame, pd.Series([True, False]))
    rows = model.explain_many(frame)
    values = {record.name: record.value for record in rows[0].features}
    assert values == {"p": 1.0, "t=cheap": 1.0, "t=pills": 1.0, "t=cheap pills": 1.0}
    assert bits([e.margin for e in rows]) == bits(model._margins(frame))


def test_a_model_that_has_learnt_nothing() -> None:
    for learner in LEARNERS.values():
        model = getattr(streaml1, learner.classifier)()
        explained = model.explain_one({"a": 1.0})
        for _, e in outputs(explained):
            assert e.unknown == ["a"]
            assert e.margin == model._margin({"a": 1.0})
        assert (explained == {}) == (learner.name == "softmax")
        assert [*model.explain_many([])] == []
        model.debug_one({"a": 1.0})
    assert streaml1.SoftmaxClassifier().debug_one({}) == "no label learnt yet"


def test_explaining_changes_nothing() -> None:
    for name, params in (("ElasticNetClassifier", {}), ("FTRLClassifier", {"hash_bits": 4})):
        explained, plain = (getattr(streaml1, name)(**params) for _ in range(2))
        for i in range(30):
            x = {"a": i % 4, "b": i % 3, f"n{i % 5}": 1.0}
            explained.explain_one(x)
            explained.explain_many([x, {"zz": 1.0}])
            for model in (explained, plain):
                model.learn_one(x, i % 2)
        assert explained._encode() == plain._encode()


def test_invalid_examples() -> None:
    for case in ("FTRLClassifier-0", "SoftmaxClassifier-0"):
        for explainer in (trained(case), frozen(case)):
            with pytest.raises(BadExample, match="too large"):
                explainer.explain_one({"a": math.inf})
            with pytest.raises(BadExample, match="too large") as caught:
                explainer.explain_many([{"a": 1.0}, {"a": math.inf}])
            assert caught.value.row == 1
            with pytest.raises(BadExample, match="a dict of features, not a list"):
                explainer.explain_one(["a"])


numbers = st.floats(-1e60, 1e60)


@given(terms=st.lists(numbers, max_size=8), b=numbers, margin=numbers)
def test_any_remainder_is_exact(terms: list[float], b: float, margin: float) -> None:
    records = [Contribution(k, 1.0, term, term) for k, term in enumerate(terms)]
    for target in (margin, sum([*terms, b])):
        e = explanation_of(records, b, target)
        assert math.fsum([*e.contributions, *e.remainder]) == target
    assert len(explanation_of(records, b, math.fsum([*terms, b])).remainder) == 0


def test_total_cancellation_takes_two_floats() -> None:
    terms = [1.0, 2**-60 * (1 + 2**-52)]
    records = [Contribution(k, 1.0, term, term) for k, term in enumerate(terms)]
    e = explanation_of(records, -1.0 - 2**-40 - 2**-90, 2**-70 + 2**-120)
    assert len(e.remainder) >= 1
    assert math.fsum([*e.contributions, *e.remainder]) == e.margin


def test_an_explanation_is_a_sequence() -> None:
    e = trained("FTRLClassifier-0").explain_one({"a": 1.0, "new": 2.0})
    assert [record.name for record in e] == ["a", "new", INTERCEPT]
    assert (len(e), e[-1].name, e[:2], e.unknown) == (3, INTERCEPT, e.features, ["new"])
    assert e[0] in e
    lines = str(e).splitlines()
    assert lines[0].split() == ["contribution", "weight", "value", "feature"]
    assert lines[-1].split() == [f"{e.margin:+.8g}", "margin"]
    assert "new (unknown)" in str(e)


def test_a_bounded_margin_has_a_rest() -> None:
    model = streaml1.ElasticNetClassifier()
    for i in range(200):
        model.learn_one({"a": i % 2, "b": 1 - i % 2, "c": i % 2}, i % 2 == 1)
    x = {"a": 3.0, "c": 3.0}
    e = model.explain_one(x)
    assert e.margin == model.freeze().margin(x)
    assert e.exceeds_rounding and "(rest)" in str(e)


@pytest.mark.parametrize("make", [streaml1.FTRLClassifier, streaml1.SoftmaxClassifier])
def test_river_pipelines_print_explanations(make: Callable[[], Any]) -> None:
    model = make()
    pipeline = compose.Pipeline(preprocessing.StandardScaler(), model)
    for i in range(20):
        pipeline.learn_one({"a": i % 3, "b": i}, i % 2 == 0)
    text = pipeline.debug_one({"a": 1, "b": 2})
    assert "contribution" in text and "(intercept)" in text and "margin" in text
    assert (make is streaml1.SoftmaxClassifier) == ("label True" in text or "label False" in text)


# predict --explain


def test_predict_explains(cwd: Path) -> None:
    model = streaml1.FTRLClassifier(alpha=0.1, l1=0.0)
    model.learn_many([{"p": 1.0, "q": 2.0}, {"q": 1.0, "r": 1.0}] * 10, [True, False] * 10)
    model.save("m")
    Path("a.jsonl").write_text('{"x": {"p": 1, "q": 3, "new": 2}}\n{"x": oops}\n{"x": {"r": 1}}\n')
    plain = run("predict", "m", "a.jsonl", "--bad", "skip").stdout.splitlines()
    lines = run("predict", "m", "a.jsonl", "--bad", "skip", "--explain", "1").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == plain and plain[1] == ""
    e = model.explain_one({"p": 1, "q": 3, "new": 2})
    cells = lines[0].split("\t")[1:]
    assert [cell.split(" ", 1)[1] for cell in cells] == [e[0].name, "(intercept)"]
    assert float(cells[0].split()[0]) == pytest.approx(e[0].contribution, rel=1e-3)
    records = [
        json.loads(line)
        for line in run(
            "predict", "m", "a.jsonl", "--bad", "skip", "--explain", "1", "--json"
        ).stdout.splitlines()
    ]
    first = records[0]
    assert first["margin"] == e.margin and first["intercept"] == e.intercept
    assert first["contributions"] == [
        {"name": e[0].name, "value": e[0].value, "weight": e[0].weight,
         "contribution": e[0].contribution}
    ]  # fmt: skip
    total = first["contributions"][0]["contribution"] + first["intercept"] + first["rest"]
    assert total == pytest.approx(e.margin, rel=1e-12)
    assert first["unknown"] == ["new"]
    assert records[1] == {"line": 2, "p": None}
    assert "--explain cannot be combined with --predictions" in error_of(
        "predict", "m", "a.jsonl", "--explain", "1", "--predictions", "kafka://h:1/t"
    )


def test_predict_explains_the_predicted_label(cwd: Path) -> None:
    model = streaml1.SoftmaxClassifier()
    model.learn_many([{"p": 1.0}, {"q": 1.0}] * 10, ["u", "v"] * 10)
    model.save("m")
    Path("a.jsonl").write_text('{"x": {"p": 1}}\n')
    label, *cells = run("predict", "m", "a.jsonl", "--explain", "5").stdout[:-1].split("\t")
    e = model.explain_one({"p": 1.0})["u"]
    assert label == "u" and [cell.split()[1] for cell in cells] == ["p", "(intercept)"]
    record = json.loads(run("predict", "m", "a.jsonl", "--explain", "5", "--json").stdout)
    assert record["margin"] == e.margin and record["label"] == "u"


def test_predictions_of_other_models_have_no_explanation() -> None:
    from river import linear_model

    from streaml1.training import predictions

    with pytest.raises(TypeError, match="explain requires a model of streaml1"):
        predictions(linear_model.LogisticRegression(), [({"a": 1.0}, None)], explain=True)
    (found,) = predictions(streaml1.FTRLClassifier(), [({"a": 1.0}, None)], explain=True)
    assert found.explanation is not None and found.explanation.unknown == ["a"]
