"""Every update rule at the edges: degenerate data, long rows, extreme numbers, broken state.

What is special to a rule is tested in the file of its learner. `test_state_invariance.py` holds
every rule to the law of state: names, copies and files.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from river import base
from scipy.sparse import csr_matrix

import streaml1
from streaml1.optim.losses import CODES
from tests import kit, reference
from tests.learner_data import BINARY, D, as_dict, assert_equal_twins
from tests.test_lane_mixture import make as make_mixture
from tests.test_lane_mixture import twin_of as twin_of_mixture

Params = dict[str, Any]


class Rule(NamedTuple):
    """The learner of an update rule, its dense twin and their parameters."""

    family: str  # the name of the learner without `Classifier` and `Regressor`
    twin: Callable[..., Any]
    params: Params = {}
    extras: Params = {}  # parameters that the twin does not have
    losses: tuple[str, ...] = tuple(CODES)

    def model(self, loss: str | None = None, **params: Any) -> Any:
        """Return a new model."""
        loss = loss or self.losses[0]
        if self.twin is twin_of_mixture:
            return make_mixture(loss, **{**self.params, **params})
        kind = getattr(streaml1, f"{self.family}{'Classifier' if loss in BINARY else 'Regressor'}")
        return kind(loss=loss, **{**self.params, **self.extras, **params})

    def new_twin(self, d: int = D, loss: str | None = None, **params: Any) -> Any:
        """Return the dense twin."""
        loss = loss or self.losses[0]
        params = {**self.params, **params}
        if self.twin is twin_of_mixture:
            return self.twin(loss, d, **params)
        return self.twin(d, loss=loss, **params)


MEAN = {"average": True}
PEGASOS_LOSSES = ("hinge", "logistic")
RULES = {
    "elastic net": Rule("ElasticNet", reference.ElasticNet, {"l1": 0.01, "l2": 0.01, "lr": 0.3}),
    "explicit stamps": Rule(
        "ElasticNet", reference.ElasticNet, {"l1": 0.01, "l2": 0.01, "lr": 0.3},
        {"stamps": "explicit", "budget": 500},
    ),
    "mean elastic net": Rule(
        "ElasticNet", reference.averaged(reference.ElasticNet), {"l1": 0.01, "l2": 0.01, "lr": 0.3},
        MEAN,
    ),
    "lanes": Rule(
        "ElasticNet", twin_of_mixture, losses=("logistic", "absolute", "huber", "poisson")
    ),
    "truncated gradient": Rule(
        "TruncatedGradient", reference.TruncatedGradient,
        {"gravity": 0.01, "period": 3, "threshold": 0.4, "lr": 0.3},
    ),
    "mean truncated gradient": Rule(
        "TruncatedGradient", reference.averaged(reference.TruncatedGradient),
        {"gravity": 0.01, "period": 3, "threshold": 0.4, "lr": 0.3}, MEAN,
    ),
    "ftrl": Rule("FTRL", reference.FTRL, {"alpha": 0.5, "l1": 0.1, "l2": 0.1}),
    "scaled ftrl": Rule("FTRL", reference.ScaledFTRL, {"l1": 0.1, "l2": 0.1}, {"scaled": True}),
    "adaptive elastic net": Rule(
        "AdaptiveElasticNet", reference.AdaptiveElasticNet, {"lr": 0.5, "l1": 0.01, "l2": 0.1}
    ),
    "coin betting": Rule("CoinBetting", reference.CoinBetting, {"l1": 0.1}),
    "pegasos": Rule("Pegasos", reference.Pegasos, {"l2": 0.013}, losses=PEGASOS_LOSSES),
    "mean pegasos": Rule(
        "Pegasos", reference.averaged(reference.Pegasos), {"l2": 0.013}, MEAN, PEGASOS_LOSSES
    ),
    "l2 norm": Rule("FOBOS", reference.FOBOS, {"strength": 0.02, "norm": "l2", "lr": 0.3}),
    "linf norm": Rule("FOBOS", reference.FOBOS, {"strength": 0.02, "norm": "linf", "lr": 0.3}),
    "l1 ball": Rule("L1Ball", reference.L1Ball, {"radius": 0.3123, "lr": 0.3}),
    "l1 ball, tree": Rule(
        "L1Ball", reference.L1Ball, {"radius": 0.3123, "lr": 0.3}, {"index": "tree"}
    ),
    "smidas": Rule("SMIDAS", reference.SMIDAS, {"l1": 0.01, "p": 6.0, "lr": 0.2}),
    "eg": Rule("EG", reference.EG, {"radius": 2.0, "lr": 0.02}, {"n_features": 3_000}),
}  # fmt: skip
all_rules = pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))


@all_rules
@pytest.mark.parametrize("case", kit.DEGENERATE)
def test_degenerate_data_matches_the_twin(rule: Rule, case: str) -> None:
    for loss in rule.losses:
        X, *_ = data = kit.degenerate_data(loss, case)
        params = {"n_features": D} if rule.family == "EG" else {}
        model = rule.model(loss, **params)
        kit.assert_matches_twin(model, rule.new_twin(D, loss), data, [0, 30, 200])
        assert model.n_iterations == 200
        if case == "weights of zero":
            assert model.weights == {} and model.intercept == 0.0
        assert model.n_features_seen == np.count_nonzero(X.any(axis=0))


@all_rules
def test_unseen_features_weigh_nothing(rule: Rule) -> None:
    model = rule.model()
    for i in range(200):
        model.learn_one({2 * (i % 9): 1.0}, i % 2 == 0)
    assert all(j % 2 == 0 for j in model.weights)
    assert model._margin({1: 5.0, 10**6: 3.0, "x": 1.0}) == model._margin({})
    assert model.n_features_seen == 9


@all_rules
def test_permuted_features_have_permuted_weights(rule: Rule) -> None:
    for seed in range(4):
        random = Random(seed)
        order = random.sample(range(12), 12)
        plain, permuted = rule.model(), rule.model()
        for _ in range(80):
            x = {j: random.uniform(-1.0, 1.0) for j in range(12) if random.random() < 0.3}
            y = random.random() < 0.5
            plain.learn_one(x, y)
            permuted.learn_one({order[j]: v for j, v in x.items()}, y)
        assert plain.weights
        assert permuted.weights == {order[j]: w for j, w in plain.weights.items()}
        assert plain.intercept == permuted.intercept


@all_rules
def test_rows_longer_than_any_before_match_the_twin(rule: Rule) -> None:
    model, twin = rule.model(), rule.new_twin(3_000)
    random = np.random.default_rng(0)
    wide = np.full(3_000, 1e-2)
    for nnz in (3, 256, 257, 1_000, 20, 3_000, 5):
        x = np.zeros(3_000)
        x[random.choice(3_000, nnz, replace=False)] = random.normal(size=nnz) * 1e-2
        assert model._margin(as_dict(wide)) == pytest.approx(twin.margin(wide), abs=1e-9)
        assert model._margin(as_dict(x)) == pytest.approx(twin.margin(x), abs=1e-9)
        model.learn_one(as_dict(x), 1)
        twin.learn(x, 1.0, 1.0)
        assert_equal_twins(model, twin)


def grid(**values: tuple[Any, ...]) -> list[Params]:
    """Return every combination of some values of parameters."""
    return [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]


CONSTANT = ("constant",)
ELASTIC_NET = grid(
    update=("fobos", "sgd"), l1=(0.0, 1e-305, 1.0, 1e30), l2=(0.0, 1e-3, 1.0, 1e30),
    lr=(1e-5, 1.0, 1e10), schedule=CONSTANT,
)  # fmt: skip
TRUNCATED = grid(
    gravity=(0.0, 1e-305, 1e-3, 1e30), period=(1, 7, 2**31), threshold=(0.0, 1.0, 1e60, math.inf),
    lr=(1e-5, 1e10), schedule=CONSTANT,
)  # fmt: skip
PEGASOS = grid(l2=(1e-10, 1e-4, 1.0, 1e10), project=(True, False), clip_gradient=(1e-300, 1e30))
FTRL_EXTREMES = grid(
    alpha=(1e-100, 1e-3, 1e10), beta=(1e-100, 1.0, 1e10), l1=(0.0, 1.0, 1e30), l2=(0.0, 1e30)
)
FOBOS = grid(strength=(0.0, 1e-300, 1e-3, 1e30), lr=(0.0, 1e-5, 1e10), schedule=CONSTANT)
BALL = grid(radius=(1e-30, 1.0, 1e30), lr=(1e-5, 1.0, 1e10), schedule=CONSTANT)
EXTREMES: dict[str, list[Params]] = {
    "elastic net": ELASTIC_NET,
    "explicit stamps": [
        *ELASTIC_NET,
        *({**params, "schedule": "inverse"} for params in ELASTIC_NET),
    ],
    "mean elastic net": ELASTIC_NET,
    "truncated gradient": TRUNCATED,
    "mean truncated gradient": TRUNCATED,
    "ftrl": FTRL_EXTREMES,
    "scaled ftrl": FTRL_EXTREMES,
    "adaptive elastic net": grid(
        lr=(1e-3, 1e10), delta=(1e-100, 1.0, 1e10), l1=(0.0, 1.0, 1e30), l2=(0.0, 1e-300, 1e30)
    ),
    "coin betting": grid(wealth=(1e-30, 0.64, 1e10), l1=(0.0, 1.0, 1e30)),
    "pegasos": PEGASOS,
    "mean pegasos": PEGASOS,
    "l2 norm": FOBOS,
    "linf norm": FOBOS,
    "l1 ball": BALL,
    "l1 ball, tree": BALL,
    "smidas": grid(
        p=(2, 2.5, 6, 100), l1=(0.0, 1.0, 1e30), lr=(1e-5, 1.0, 1e10), schedule=CONSTANT
    ),
    "eg": grid(nonnegative=(False, True), radius=(1e-30, 1e30), lr=(1e-5, 1e10), schedule=CONSTANT),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_largest_allowed_numbers_stay_finite(name: str) -> None:
    """Values of 1e50, sample weights of 1e15, clips of 1e30 and rates of 1e10."""
    rule, random = RULES[name], np.random.default_rng(0)
    for loss, params in itertools.product(("squared", "hinge"), EXTREMES[name]):
        if loss not in rule.losses:
            continue
        model = rule.model(loss, **{"clip_gradient": 1e30, "intercept_lr": 1e10, **params})
        labels = [False, True] if isinstance(model, base.Classifier) else [9e49, -9e49, 1.0]
        for _ in range(40):
            ids = random.choice(50, size=20, replace=False).tolist()
            x = dict(zip(ids, random.choice([9e49, -9e49, 1e-300, 1.0], size=20), strict=True))
            model.learn_one(x, labels[random.integers(len(labels))], 1e15)
            assert np.isfinite(model._margin(x)), params
            if rule.family == "L1Ball":
                norm = sum(map(abs, model.weights.values()))
                assert norm <= params["radius"] * (1.0 + 1e-14)
        model._state.check()
        assert np.isfinite(list(model.weights.values())).all()


@all_rules
def test_state_of_another_layout_is_rejected(rule: Rule) -> None:
    model = rule.model()
    X, y, _, w = kit.data_of(rule.losses[0], 100)
    model.learn_many(csr_matrix(X), y, w)
    kind, (slots, arrays) = type(model._state.rule), model._state.rule.state_dict()
    kind.from_state_dict(100, slots, arrays).check()
    broken = [{**arrays, "more": arrays[min(arrays)]}]
    for key, array in arrays.items():
        broken.append({name: a for name, a in arrays.items() if name != key})
        broken += [{**arrays, key: array[1:]}, {**arrays, key: array[:0]}]
        if array.dtype.names is None:
            broken += [{**arrays, key: array.astype("f4")}, {**arrays, key: array.astype("S3")}]
        if array.dtype.kind == "f":
            broken += [{**arrays, key: array * np.nan}]
    for changed in broken:
        with pytest.raises((AssertionError, ValueError)):
            kind.from_state_dict(100, slots, changed).check()


@pytest.mark.parametrize("name", [name for name in RULES if name != "lanes"])
def test_frozen_models_predict_the_same(name: str) -> None:
    """Lanes freeze other weights than those of the next step: see `test_lane_mixture.py`."""
    rule = RULES[name]
    model = rule.model()
    X, y, _, w = kit.data_of(rule.losses[0], 300)
    model.learn_many(csr_matrix(X), y, w)
    frozen = model.freeze()
    assert dict(frozen.weights) == model.weights and frozen.intercept == model.intercept
    rows = csr_matrix(X[:100])
    np.testing.assert_array_equal(frozen.predict_many(rows), model.predict_many(rows))
    for x in map(as_dict, X[:100]):
        assert frozen.margin(x) == model._margin(x)
