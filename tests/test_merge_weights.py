"""Merged models of gradient steps against their twins: weights, supports and clocks."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import (
    ElasticNetClassifier,
    ElasticNetRegressor,
    TruncatedGradientClassifier,
    TruncatedGradientRegressor,
)
from streaml1.datasets import Drifting
from streaml1.models.merging import merge_candidates
from streaml1.training.merge import compare
from tests import reference_merge
from tests.reference_merge import elastic_net_flow, elastic_net_step, soft

Example = tuple[dict[str, float], bool]

EXAMPLE = st.tuples(
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([-1.0, 0.5, 2.0]), max_size=3),
    st.booleans(),
)
ALL_PARTS = st.lists(st.lists(EXAMPLE, max_size=7), min_size=2, max_size=5)

NET: dict[str, Any] = {"lr": 0.3, "l1": 0.02}
SETTINGS: list[Any] = [
    (ElasticNetClassifier, NET),
    (ElasticNetClassifier, {**NET, "l2": 0.3, "schedule": "constant"}),
    (ElasticNetRegressor, {**NET, "l2": 0.3, "update": "sgd", "schedule": "inverse"}),
    (ElasticNetClassifier, {**NET, "l2": 4.0, "update": "sgd", "schedule": "constant"}),
    (ElasticNetClassifier, {**NET, "l2": 0.1, "stamps": "explicit", "budget": 3}),
    (ElasticNetClassifier, {**NET, "schedule": "constant", "stamps": "explicit"}),
    (ElasticNetRegressor, {**NET, "l2": 0.1, "update": "sgd", "stamps": "explicit"}),
    (TruncatedGradientClassifier, {"lr": 0.3, "gravity": 0.02}),
    (TruncatedGradientRegressor, {"lr": 0.3, "gravity": 0.02, "period": 3, "threshold": 0.3}),
]
SETTING = pytest.mark.parametrize(("kind", "params"), SETTINGS)


def learnt(model: Any, examples: list[Example]) -> Any:
    model = copy.deepcopy(model)
    for x, y in examples:
        model.learn_one(x, y)
    return model


def rate(model: Any, step: int) -> float:
    powers = {"invsqrt": 0.5, "constant": 0.0, "inverse": 1.0}
    return float(model.lr / (step + 1) ** powers[model.schedule])


def step_without_features(model: Any, w: float, t: int, step: int) -> float:
    """Return a weight after example number t, from 0, of the model, at the rate of `step`."""
    eta = rate(model, step)
    if isinstance(model, ElasticNetClassifier | ElasticNetRegressor):
        return elastic_net_step(w, eta, model.l1, model.l2, model.update == "sgd")
    if (t + 1) % model.period or abs(w) > model.threshold:
        return w
    return soft(w, model.period * eta * model.gravity)


def penalty_of(model: Any, t: int, step: int) -> float:
    """Return the strength of the penalty of an example."""
    if isinstance(model, ElasticNetClassifier | ElasticNetRegressor):
        return rate(model, step)
    due = (t + 1) % model.period == 0
    return float(model.period * rate(model, step) * model.gravity) if due else 0.0


def penalized(model: Any, w: float, due: float) -> float:
    if isinstance(model, ElasticNetClassifier | ElasticNetRegressor):
        return elastic_net_flow(w, due, model.l1, model.l2)
    return w if abs(w) > model.threshold else soft(w, due)


def expected_weights(base: Any, parts: list[Any], step: int) -> Any:
    """Return the candidates of the twin; the rates of the parts began with `step`."""
    still, penalties = [], []
    t = base.n_iterations
    for part in parts:
        rest, due = dict(base.weights), 0.0
        for k in range(part.n_iterations - t):
            rest = {
                name: step_without_features(base, w, t + k, step + k) for name, w in rest.items()
            }
            due += penalty_of(base, t + k, step + k)
        still.append(rest)
        penalties.append(due)
    examples = [part.n_iterations - t for part in parts]
    return reference_merge.weights(
        base.weights, [part.weights for part in parts], still, examples, penalties,
        lambda w, due: penalized(base, w, due),
    )  # fmt: skip


def assert_weights(got: dict[Any, float], expected: dict[Any, float]) -> None:
    """Compare weights, and the support except for weights within rounding of zero."""
    for name in {*got, *expected}:
        assert got.get(name, 0.0) == pytest.approx(expected.get(name, 0.0), rel=1e-9, abs=1e-9)
    assert {n for n, w in got.items() if abs(w) > 1e-9} == {
        n for n, w in expected.items() if abs(w) > 1e-9
    }


@SETTING
@given(examples=ALL_PARTS, reset=st.booleans())
def test_weights_equal_those_of_the_twin(
    kind: Any, params: Any, examples: list[list[Example]], reset: bool
) -> None:
    base = learnt(kind(**params, intercept_init=0.2), examples[0])
    reset = reset and base.has_decaying_rates
    if reset:
        base.reset_rates()
    parts = [learnt(base, part) for part in examples[1:]]
    expected = expected_weights(base, parts, 0 if reset else base.n_iterations)
    got = dict(merge_candidates(parts, base))
    assert list(got) == ["mean", "average", "rho", "sum"]
    n = sum(map(len, examples))
    for name, model in got.items():
        assert_weights(model.weights, expected[name])
        assert model.n_iterations == n
        assert model._state.rate_step == n - (len(examples[0]) if reset else 0)
        b = reference_merge.intercept(
            (base.n_iterations, base.intercept),
            [(part.n_iterations, part.intercept) for part in parts],
        )
        assert model.intercept == pytest.approx(b, abs=1e-12)
        model._state.check()
        model.learn_one({"a": 1.0, "z": 1.0}, True)
        assert math.isfinite(model.weights.get("z", 0.0))


def test_parts_that_have_reset_their_rates() -> None:
    """Rates of the merged model go on as after all examples since then."""
    examples: list[Example] = [({"a": 1.0, "b": -1.0}, k % 3 == 0) for k in range(40)]
    base = learnt(ElasticNetClassifier(**NET), examples[:10])
    parts = [learnt(base, examples[10:15]) for _ in range(2)]
    for part, later in zip(parts, (examples[15:30], examples[30:33]), strict=True):
        part.reset_rates()
        part.learn_many(*map(list, zip(*later, strict=True)))
    for _, model in merge_candidates(parts, base):
        assert model.n_iterations == 38 and model._state.rate_step == 18
        model._state.check()


def test_a_merged_model_resumes_from_a_file(tmp_path: Path) -> None:
    X, y = Drifting(n=900, d=60, change="none", seed=3).matrix()
    parts = [ElasticNetClassifier(**NET, stamps="explicit", budget=70) for _ in range(2)]
    for k, part in enumerate(parts):
        part.learn_many(X[k * 300 : (k + 1) * 300], y[k * 300 : (k + 1) * 300])
    merged = compare(parts, probe=(X[600:], y[600:]))
    merged.model.save(tmp_path / "a.model")
    loaded = streaml1.load(tmp_path / "a.model")
    for model in (merged.model, loaded):
        model.learn_many(X[600:], y[600:])
    assert loaded._encode() == merged.model._encode()


@pytest.mark.parametrize("kind", [ElasticNetClassifier, streaml1.TruncatedGradientRegressor])
def test_averaged_models_are_rejected(kind: Any) -> None:
    with pytest.raises(
        ValueError,
        match=f"the model cannot be merged: {kind.__name__} with average=True does not support it; "
        "elastic nets, truncated gradient",
    ):
        streaml1.merge([kind(average=True)], probe=[({"a": 1.0}, 1)])
