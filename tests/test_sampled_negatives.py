"""Streams that kept a share of their negative examples, and weights of positive ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import streaml1
from streaml1.models import serialization
from streaml1.optim import loop
from streaml1.training import evaluate, progressive
from tests import kit

RATE = 0.05
LEARNERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "default": (streaml1.ElasticNetClassifier, {"l1": 1e-4}),
    "one rate": (streaml1.ElasticNetClassifier, {"lr": 0.1, "l1": 1e-4}),
    "averaged": (streaml1.ElasticNetClassifier, {"lr": 0.1, "average": True}),
    "explicit": (streaml1.ElasticNetClassifier, {"lr": 0.1, "stamps": "explicit"}),
    "adaptive": (streaml1.AdaptiveElasticNetClassifier, {}),
    "ftrl": (streaml1.FTRLClassifier, {}),
    "ftrl, fixed": (streaml1.FTRLClassifier, {"alpha": 0.1}),
    "coin": (streaml1.CoinBettingClassifier, {}),
    "truncated": (streaml1.TruncatedGradientClassifier, {}),
    "ball": (streaml1.L1BallClassifier, {}),
}


def rows(n: int = 120) -> tuple[Any, Any]:
    X, y, _, _ = kit.data_of("logistic", n)
    return csr_matrix(X), np.asarray(y)


def as_dicts(X: Any) -> list[dict[int, float]]:
    return [dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in X]


@pytest.mark.parametrize("name", LEARNERS)
def test_predictions_are_for_the_full_stream(name: str, tmp_path: Path) -> None:
    kind, params = LEARNERS[name]
    X, y = rows()
    plain, sampled = kind(**params), kind(**params, negative_rate=RATE)
    expected, p = plain.progressive_many(X, y), sampled.progressive_many(X, y)
    assert p == pytest.approx(expected * RATE / (expected * RATE + 1.0 - expected), rel=1e-9)
    assert sampled.weights == plain.weights  # the stream is learnt as it is
    assert sampled.intercept == pytest.approx(plain.intercept + math.log(RATE), abs=1e-12)
    sampled.save(tmp_path / "m")
    loaded = streaml1.load(tmp_path / "m")
    assert loaded.negative_rate == RATE
    frozen, frozen_plain = sampled.freeze(), plain.freeze()
    for x in as_dicts(X[:9]):
        margin = plain._margin(x) + math.log(RATE)
        assert sampled._margin(x) == pytest.approx(margin, abs=1e-12)
        proba = sampled.predict_proba_one(x)[True]
        assert proba == pytest.approx(1.0 / (1.0 + math.exp(-margin)), rel=1e-12)
        assert loaded.predict_proba_one(x)[True] == proba
        assert frozen.margin(x) == pytest.approx(frozen_plain.margin(x) + math.log(RATE), abs=1e-12)
    batch = np.asarray(sampled.predict_proba_many(X[:9]))[:, 1].tolist()
    assert batch == [sampled.predict_proba_one(x)[True] for x in as_dicts(X[:9])]


def test_reports_are_of_the_sampled_stream() -> None:
    X, y = rows()
    plain = progressive(streaml1.ElasticNetClassifier(), (X, y)).lines[-1]
    sampled = progressive(streaml1.ElasticNetClassifier(negative_rate=RATE), (X, y)).lines[-1]
    assert sampled.loss == pytest.approx(plain.loss, rel=1e-9)
    assert sampled.calibration == pytest.approx(plain.calibration, rel=1e-9)
    # The first prediction is 1/2 up to rounding.
    assert sampled.error == pytest.approx(plain.error, abs=1.001 / len(y))


def test_evaluation_takes_its_data_as_the_full_stream() -> None:
    X, y = rows()
    model = streaml1.ElasticNetClassifier(negative_rate=RATE)
    model.learn_many(X, y)
    p = np.asarray(model.predict_proba_many(X))[:, 1]
    line = evaluate(model, (X, y)).lines[-1]
    assert line.loss == pytest.approx(-np.log(np.where(y, p, 1.0 - p)).mean())
    assert line.calibration == pytest.approx(p.mean() / y.mean())


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [(streaml1.ElasticNetClassifier, 0.1), (streaml1.FTRLClassifier, 0.3)],  # no averages: noisy
)
def test_predicted_rates_are_those_of_the_full_stream(kind: Any, tolerance: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 4, 600_000)
    y = rng.random(len(x)) < np.array([0.01, 0.02, 0.05, 0.1])[x]
    kept = np.flatnonzero(y | (rng.random(len(x)) < RATE))
    X = csr_matrix((np.ones(len(kept)), x[kept], np.arange(len(kept) + 1)), shape=(len(kept), 4))
    model = kind(negative_rate=RATE)
    model.learn_many(X, y[kept])
    rates = [model.freeze().predict_proba_one({k: 1.0})[True] for k in range(4)]
    assert rates == pytest.approx([0.01, 0.02, 0.05, 0.1], rel=tolerance)


@pytest.mark.parametrize("name", LEARNERS)
def test_positive_weight_multiplies_sample_weights(name: str) -> None:
    kind, params = LEARNERS[name]
    X, y = rows()
    w = 1.0 + np.arange(len(y)) % 3
    weighted, twin, single = kind(**params, positive_weight=4.0), kind(**params), kind(**params)
    single.positive_weight = 4.0
    weighted.learn_many(X, y, w)
    twin.learn_many(X, y, np.where(y, 4.0 * w, w))
    for x, label, weight in zip(as_dicts(X), y.tolist(), w.tolist(), strict=True):
        single.learn_one(x, label, weight)
    assert weighted.weights == twin.weights == single.weights
    assert weighted.intercept == twin.intercept == single.intercept


def test_files_without_the_parameters_load(tmp_path: Path) -> None:
    """Model files of versions whose losses had a parameter, but whose labels had no weights."""
    X, y = rows()
    model = streaml1.ElasticNetClassifier(lr=0.1, l1=1e-4)
    model.learn_many(X[:80], y[:80])
    state, params = model._file_state()(), model._parameters()
    fields = [(name, loop.ONLINE[name]) for name in loop.ONLINE.names or ()]
    absent = [fields.pop()[0] for _ in range(3)]
    assert absent == ["offset", "rates_from", "positive_weight"]  # not in the file
    record = np.zeros(1, np.dtype(fields, align=True))
    for name, _ in fields:
        record[name] = state["online"][name]
    state["online"] = record
    del params["negative_rate"], params["positive_weight"]
    serialization.write(
        tmp_path / "m",
        serialization.encode(serialization.ModelFile("ElasticNetClassifier", params, state)),
    )
    loaded = streaml1.load(tmp_path / "m")
    assert (loaded.negative_rate, loaded.positive_weight) == (1.0, 1.0)
    rest = X[80:], y[80:]
    assert np.array_equal(model.progressive_many(*rest), loaded.progressive_many(*rest))


def test_parameters_out_of_range_are_rejected() -> None:
    kit.assert_rejects(
        streaml1.ElasticNetClassifier,
        [
            ({"negative_rate": 0.0}, "negative_rate must be a number above 0 and at most 1"),
            ({"negative_rate": 1.5}, "negative_rate must be a number above 0 and at most 1"),
            ({"positive_weight": -1.0}, "positive_weight must be a number from 0 to 1e+10"),
            ({"negative_rate": 0.1, "loss": "hinge"}, 'negative_rate requires loss="logistic"'),
        ],
    )
    model = streaml1.ElasticNetClassifier(loss="hinge", lr=0.1)
    with pytest.raises(ValueError, match="negative_rate requires loss=\"logistic\", got 'hinge'"):
        model.negative_rate = 0.5
    assert model.negative_rate == 1.0
