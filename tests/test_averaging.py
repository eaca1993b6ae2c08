"""Averaged iterates: the steps of the plain rule, predictions with the mean of its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import optim
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import (
    ElasticNetClassifier,
    ElasticNetRegressor,
    PegasosClassifier,
    TruncatedGradientClassifier,
    TruncatedGradientRegressor,
)
from streaml1.models.parameters import parameters_of
from streaml1.optim.structures import alive_intervals
from tests import kit, reference
from tests.learner_data import BINARY, D, as_dict, dense


class Case(NamedTuple):
    """A model class, its twin and their parameters."""

    kind: Any
    twin: Any
    params: dict[str, Any]

    def make(self, **params: Any) -> Any:
        """Return a new averaged model."""
        return self.kind(**{**self.params, "average": True, **params})

    def plain(self, **params: Any) -> Any:
        """Return a new model without averaging, whose steps are the same."""
        folded = {"stamps": "folded"} if "stamps" in self.params else {}
        return self.kind(**{**self.params, **folded, **params})

    def new_twin(self, d: int = D, **params: Any) -> Any:
        """Return the averaged dense twin."""
        model = self.plain()
        twin_params = {"loss": model.loss, **self.params, **params}
        for name in ("stamps", "budget"):
            twin_params.pop(name, None)
        return reference.averaged(self.twin)(d, **twin_params)


NETS: dict[str, dict[str, Any]] = {
    "unpenalized": {"lr": 0.1, "loss": "squared"},
    "fobos": {"l1": 0.01, "lr": 0.5},
    "both": {"lr": 0.1, "l1": 0.004, "l2": 0.02, "loss": "absolute", "schedule": "constant"},
    "sgd": {"l1": 0.004, "l2": 0.02, "update": "sgd", "loss": "hinge", "lr": 0.5},
    "small budget": {
        **{"lr": 0.1, "l1": 0.01, "budget": 7, "loss": "smoothed_hinge", "schedule": "constant"}
    },
    "explicit": {
        **{"lr": 0.1, "l1": 0.01, "l2": 0.01, "stamps": "explicit"},
        **{"budget": 500, "loss": "squared"},
    },
    "strong": {"l1": 0.3, "l2": 2.0, "lr": 0.5, "loss": "squared", "schedule": "constant"},
    "inverse": {"l1": 0.01, "l2": 0.1, "lr": 3.0, "schedule": "inverse"},
    "scheduler": {"l1": 0.01, "lr": optim.schedulers.InverseScaling(0.5, 0.4), "loss": "squared"},
}
TRUNCATED_GRADIENTS: dict[str, dict[str, Any]] = {
    "l1": {"gravity": 0.01, "lr": 0.5},
    "period": {"gravity": 0.01, "period": 7, "loss": "squared", "schedule": "constant"},
    "threshold": {"gravity": 0.02, "threshold": 0.1, "loss": "absolute"},
    "threshold and period": {"gravity": 0.02, "threshold": 0.2, "period": 10, "loss": "hinge"},
    "strong": {"gravity": 0.9, "threshold": 0.7, "lr": 0.4, "loss": "smoothed_hinge"},
    "none": {"gravity": 0.01, "threshold": 0.0, "loss": "squared"},
    "inverse": {"gravity": 0.01, "lr": 3.0, "schedule": "inverse", "period": 3},
    "scheduler": {
        **{"gravity": 0.01, "threshold": 0.3, "loss": "squared"},
        "lr": optim.schedulers.InverseScaling(0.5, 0.4),
    },
}
CASES = {
    "pegasos": Case(PegasosClassifier, reference.Pegasos, {}),
    "pegasos strong": Case(PegasosClassifier, reference.Pegasos, {"l2": 0.3}),
    "pegasos unprojected": Case(
        PegasosClassifier, reference.Pegasos, {"l2": 1e-2, "project": False}
    ),
    "pegasos clipped": Case(
        PegasosClassifier,
        reference.Pegasos,
        {"l2": 1e-3, "clip_gradient": 0.25, "intercept_init": -0.3},
    ),
    "pegasos weak": Case(PegasosClassifier, reference.Pegasos, {"l2": 1e-5}),
    **{
        f"gradient {name}": Case(
            TruncatedGradientClassifier
            if params.get("loss", "logistic") in BINARY
            else TruncatedGradientRegressor,
            reference.TruncatedGradient,
            params,
        )
        for name, params in TRUNCATED_GRADIENTS.items()
    },
    **{
        f"net {name}": Case(
            ElasticNetClassifier
            if params.get("loss", "logistic") in BINARY
            else ElasticNetRegressor,
            reference.ElasticNet,
            params,
        )
        for name, params in NETS.items()
    },
}
all_cases = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
RULES = ("pegasos", "gradient threshold", "net fobos")
all_rules = pytest.mark.parametrize("case", [CASES[name] for name in RULES], ids=RULES)
MODELS = [kind for kind in kit.LEARNERS if "average" in parameters_of(kind)]


@all_cases
def test_matches_the_mean_of_the_dense_twin(case: Case) -> None:
    data = kit.data_of(case.plain().loss)
    kit.assert_matches_twin(case.make(), case.new_twin(), data)


@all_cases
def test_steps_are_bit_identical_to_the_plain_rule(case: Case) -> None:
    X, y, _, w = kit.data_of(case.plain().loss, 2_000)
    model, plain = case.make(), case.plain()
    for lo in range(0, 2_000, 250):
        part = slice(lo, lo + 250)
        for m in (model, plain):
            m.learn_many(csr_matrix(X[part]), y[part], w[part])
        current = model._state.rule.plain().weights()
        expected = plain._state.rule.weights()
        # Adding 0.0 removes the sign of zero weights, which may differ.
        assert (current + 0.0).tobytes() == (expected + 0.0).tobytes()
        assert model._state.online[0].b == plain.intercept


@all_rules
def test_before_the_first_step_the_model_predicts_the_initial_intercept(case: Case) -> None:
    model = case.make(intercept_init=0.25)
    for m in (model, model.freeze()):
        assert m.intercept == 0.25 and m.weights == {}
        assert margin_of(m, {1: 1.0}) == 0.25


def margin_of(model: Any, x: dict[int, float]) -> float:
    margin = getattr(model, "margin", None) or model._margin
    return float(margin(x))


@all_rules
def test_first_steps_match_the_mean_of_a_plain_model(case: Case) -> None:
    """Compare with the mean of the weights of a plain model after each step."""
    model, plain = case.make(), case.plain()
    weights_by_step: list[dict[Any, float]] = []
    intercepts: list[float] = []
    for i in range(40):
        x = {i % 3: 1.0, 3 + i % 5: -0.5, i + 10: 0.25}
        for m in (model, plain):
            m.learn_one(x, i % 2)
        weights_by_step.append(plain.weights)
        intercepts.append(plain.intercept)
        names = set().union(*weights_by_step)
        mean = {
            name: sum(w.get(name, 0.0) for w in weights_by_step) / len(weights_by_step)
            for name in names
        }
        assert model.weights == pytest.approx(mean, rel=1e-11, abs=1e-10)
        assert model.intercept == pytest.approx(sum(intercepts) / len(intercepts), abs=1e-12)
        margin = sum(mean.get(j, 0.0) * v for j, v in x.items()) + model.intercept
        assert model._margin(x) == pytest.approx(margin, rel=1e-10, abs=1e-9)
        assert model.n_nonzero == len(names)
    assert model.top_weights(1)[0][0] == max(mean, key=lambda name: abs(mean[name]))


@all_rules
def test_max_features_limits_the_non_zero_means(case: Case) -> None:
    """The smallest means are dropped with their sums; zero weights with a non-zero mean count."""
    model = case.make(max_features=16)
    X, y, _, w = kit.data_of(case.plain().loss, 1_500)
    n_dropped = 0
    for lo in range(0, 1_500, 5):
        part = slice(lo, lo + 5)
        before = model.weights
        model.learn_many(csr_matrix(X[part]), y[part], w[part])
        assert model.n_nonzero == len(model.weights) <= 16
        dropped = set(before) - set(model.weights)
        current = model._state.rule.plain().weights()
        assert not dropped or all(current[j] == 0.0 for j in dropped)
        n_dropped += len(dropped)
        model._state.check()
    assert n_dropped > 20 and model.n_cut > 20


CHANGES: dict[str, list[dict[str, Any]]] = {
    "net": [
        {"l1": 2e-3},
        {"l2": 0.3, "lr": 0.05},
        {"budget": 20},
        {"l1": 0.0, "lr": 0.3, "budget": 2**25},
        {"l1": 1e-3, "l2": 0.0, "schedule": "constant", "lr": 0.05},
        {"update": "sgd", "l2": 0.1},
        {"clip_gradient": 0.1, "intercept_lr": 0.2},
    ],
    "gradient": [
        {"gravity": 2e-3},
        {"threshold": 0.05},
        {"gravity": 0.1, "period": 5},
        {"threshold": 0.2, "lr": 0.3},
        {"threshold": np.inf, "period": 1},
        {"threshold": 0.0},
        {"threshold": 0.3, "clip_gradient": 0.1},
    ],
    "pegasos": [
        {"l2": 1e-2},
        {"project": False},
        {"l2": 1e-3},
        {"project": True},
        {"l2": 0.5, "intercept_lr": 0.2},
    ],
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_parameters_act_from_the_next_step(name: str) -> None:
    case = next(case for key, case in CASES.items() if key.startswith(name))
    case = case._replace(params={})
    kit.assert_changes_match_twin(case.make(), case.new_twin(), CHANGES[name], case.plain().loss)


@given(
    moves=st.lists(
        st.tuples(
            st.sampled_from([0.0, 1e-9, 0.01, 0.3, 3.0, 1e4]), st.integers(1, 60), st.booleans()
        ),
        min_size=1,
        max_size=15,
    ),
    l1=st.sampled_from([1e-6, 1e-3, 0.1]),
    truncated=st.booleans(),
)
def test_zeroed_weights_have_exact_means(
    moves: list[tuple[float, int, bool]], l1: float, truncated: bool
) -> None:
    """Rates from 0 to huge, so that A barely moves or jumps; the grid agrees with a search."""
    kind = TruncatedGradientRegressor if truncated else ElasticNetRegressor
    params = {"gravity": l1, "period": 3} if truncated else {"l1": l1}
    params["lr"] = 0.1
    model = kind(**params, schedule="constant", average=True, clip_gradient=2.0)
    plain = kind(**params, schedule="constant", clip_gradient=2.0)
    sums, t, n = np.zeros(40), 0, 0
    for lr, steps, has_features in moves:
        model.lr = plain.lr = lr
        for _ in range(steps):
            n += has_features
            x = {n % 31: 1.0, n * n % 37: -2.0} if has_features else {}
            for m in (model, plain):
                m.learn_one(x, float(n % 5))
            sums += plain._state.rule.weights()[:40]
            t += 1
        rule = model._state.rule
        model._state.check()
        got = rule.weights()[:40]
        largest = max(1.0, float(np.abs(sums).max()) / t)
        np.testing.assert_allclose(got, sums / t, rtol=0.0, atol=1e-11 * largest * 256)
        np.testing.assert_array_equal(got, [rule.weight(j) for j in range(40)])


def test_copies_and_files_hold_no_prefix_sums(tmp_path: Path) -> None:
    """A copy stores zero weights as zeros, and has the same weights from then on."""
    model = ElasticNetRegressor(l1=1e-3, average=True, intercept_lr=0.0)
    model.learn_many([{j: 1.0} for j in range(50)], np.linspace(0.1, 3.0, 50))
    model.save(tmp_path / "early")
    model.learn_many(csr_matrix((30_000, 1)), np.zeros(30_000))
    rule = model._state.rule
    assert rule.mean[0].entries == 30_050 and len(rule.prefix_sums) > 30_000
    assert np.count_nonzero(rule.plain().weights()) < 50 == model.n_nonzero
    model.save(tmp_path / "late")
    assert (tmp_path / "late").stat().st_size < (tmp_path / "early").stat().st_size + 500
    restored = streaml1.load(tmp_path / "late")
    assert len(restored._state.rule.prefix_sums) < 1_000
    assert restored.weights == model.weights == dict(model.freeze().weights)
    for m in (model, restored):
        m.learn_many([{j % 70: 1.0} for j in range(500)], np.arange(500.0) % 3)
    assert restored.weights == model.weights
    restored._state.check()


def test_non_zero_weight_with_a_zero_mean_is_counted() -> None:
    """Otherwise n_nonzero would be one too small after the next step."""
    model = PegasosClassifier(l2=1.0, project=False, average=True, max_features=5)
    rule = model._state.rule
    rule.u[3], rule.sums[3], rule.mean[0].t = 0.5, 0.0, 2
    assert model.weights == {3: 5e-324} and model.n_nonzero == 1
    assert rule.weight(3) == 5e-324
    rule.u[3] = -0.5
    assert model.weights == {3: -5e-324}
    rule.u[3] = 0.0
    assert model.weights == {} and rule.weight(3) == 0.0


def test_average_cannot_change() -> None:
    for kind in MODELS:
        model = kind(average=True)
        with pytest.raises(ValueError, match="average cannot change"):
            model.mutate({"average": False})
        with pytest.raises(ValueError, match="average cannot change after construction"):
            model.average = False
    kit.assert_rejects(
        PegasosClassifier,
        [({"average": 1}, "average must be a bool, got 1")],
    )


@all_rules
def test_plain_and_averaged_states_are_not_interchangeable(case: Case) -> None:
    model = case.make()
    model.learn_many([{j: 1.0} for j in range(20)], np.arange(20) % 2)
    params, state = model._parameters(), model._file_state()()
    assert type(model)._from_file(params, state).weights == model.weights
    with pytest.raises(AssertionError):
        type(model)._from_file({**params, "average": False}, state)


@all_rules
def test_invalid_state_is_rejected(case: Case) -> None:
    kit.assert_rejects_states(
        case.make(),
        lambda a: [{"mean": {"t": -1}}, {"mean": {"b_sum": np.inf}}, {"mean": a["clock"]}],
    )


@pytest.mark.parametrize("budget", [1, 3, 40])
def test_settling_all_sums_changes_only_rounding(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small budget settles all sums many times."""
    monkeypatch.setattr(alive_intervals, "BUDGET", budget)
    for name in ("gradient l1", "gradient threshold", "gradient period"):
        case = CASES[name]
        model = case.make()
        kit.assert_matches_twin(
            model, case.new_twin(), kit.data_of(model.loss, 1_000), [0, 10, 40, 1_000]
        )
        mean = model._state.rule.mean[0]
        assert mean.budget == budget and mean.entries < budget


@pytest.mark.parametrize("schedule", ["constant", "invsqrt"])
def test_explicit_stamps_have_the_same_mean(schedule: str) -> None:
    """Compare with the mean of the weights of a model with explicit stamps after each step."""
    params: dict[str, Any] = {"l1": 0.01, "l2": 0.02, "stamps": "explicit", "budget": 50}
    model = ElasticNetRegressor(**params, schedule=schedule, average=True)
    folded = ElasticNetRegressor(**{**params, "stamps": "folded"}, schedule=schedule, average=True)
    plain = ElasticNetRegressor(**params, schedule=schedule)
    X, y, _, _ = kit.data_of("squared", 800)
    sums = np.zeros(D)
    for i in range(800):
        x = as_dict(X[i])
        for m in (model, folded, plain):
            m.learn_one(x, float(y[i]))
        sums += dense(plain)
        if i % 50 == 0:
            np.testing.assert_allclose(dense(model), sums / (i + 1), rtol=0.0, atol=1e-9)
    assert folded.weights == model.weights


def test_pegasos_settles_its_sums_before_they_cancel() -> None:
    """Projections by a large factor reduce the scale s by orders of magnitude in one step."""
    random = np.random.default_rng(3)
    n, d = 3_000, 40
    X = random.normal(size=(n, d)) * (random.random((n, d)) < 0.2) * 30.0
    y = random.random(n) < 0.5
    params = {"l2": 1e-6}
    model = PegasosClassifier(**params, average=True)
    twin = reference.averaged(reference.Pegasos)(d, **params)
    n_settled, last_sum = 0, 0.0
    for i in range(n):
        model.learn_one(as_dict(X[i]), bool(y[i]))
        twin.learn(X[i], 1.0 if y[i] else -1.0)
        n_settled += model._state.rule.mean[0].s_sum < last_sum
        last_sum = float(model._state.rule.mean[0].s_sum)
    model._state.check()
    assert n_settled > 20
    w = np.array([model.weights[j] for j in range(d)])
    np.testing.assert_allclose(w, twin.w, rtol=0.0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["constant", "invsqrt"])
def test_ten_million_steps_of_the_elastic_net(schedule: str) -> None:
    """Blocks of steps without features after one step with one, against sums in closed form."""
    l1, lr, n, block = 1e-5, 0.2, 10_000_000, 2_000
    model = ElasticNetRegressor(
        l1=l1, lr=lr, schedule=schedule, average=True, intercept_lr=0.0, budget=50_000
    )
    ends = np.arange(block + 1)
    ends[1:] = 1
    t, w, total = 0, 0.0, 0.0
    for i in range(n // block):
        x = np.array([1.0])
        X = csr_matrix((x, np.zeros(1, np.int32), ends), (block, 1))
        y = np.zeros(block)
        y[0] = float(i % 7 - 2)
        model.learn_many(X, y)
        steps = np.arange(t + 1.0, t + block + 1.0)
        eta = np.full(block, lr) if schedule == "constant" else lr / np.sqrt(steps)
        v = w - eta[0] * (w - y[0])
        path = np.maximum(abs(v) - l1 * np.cumsum(eta), 0.0)
        total += float(np.sign(v)) * float(path.sum())
        w = float(np.sign(v)) * float(path[-1])
        t += block
    assert model.weights.get(0, 0.0) == pytest.approx(total / n, abs=1e-9)
    model._state.check()


@pytest.mark.slow
def test_a_million_steps_of_pegasos() -> None:
    """A rarely and a frequently updated weight, against separate sums."""
    n, block = 1_000_000, 250_000
    model = PegasosClassifier(l2=1e-3, average=True, intercept_lr=0.0)
    ids = np.zeros(block, np.int32)
    ids[::1000] = 1
    rows = csr_matrix((np.ones(block), ids, np.arange(block + 1)), (block, 2))
    w, sums, t = np.zeros(2), np.zeros(2), 0
    y = np.random.default_rng(1).random(block) < 0.7
    for _ in range(n // block):
        model.learn_many(rows, y)
        for j, positive in zip(ids.tolist(), y.tolist(), strict=True):
            label = 1.0 if positive else -1.0
            a = w[j]
            w *= t / (t + 1.0)
            if label * a < 1.0:
                w[j] += label * 1e3 / (t + 1.0)
            t += 1
            norm = (w[0] * w[0] + w[1] * w[1]) ** 0.5
            if norm > 1e3**0.5:
                w *= 1e3**0.5 / norm
            sums += w
    mean = sums / n
    np.testing.assert_allclose([model.weights[0], model.weights[1]], mean, rtol=0.0, atol=1e-9)
