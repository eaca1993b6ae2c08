"""Learning rates that restart: what changes, what stays, and when a run does it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from river import naive_bayes
from scipy.sparse import csr_matrix

import streaml1
from streaml1.cli import cli
from streaml1.training import progressive
from tests.kit import LEARNERS
from tests.test_drift import write_rows

RATELESS = {
    "CoinBettingClassifier",
    "CoinBettingRegressor",
    "PegasosClassifier",
}


def examples(n: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.7)
    return csr_matrix(X), X @ [1.0, -1.0, 0.5, 0.0, 0.0, 2.0] + rng.normal(size=n) > 0.0


def weights(model: Any) -> Any:
    return np.array([model.weights.get(j, 0.0) for j in range(6)])


class Restarting:
    """A scheduler: 0.5 / sqrt(t + 1), and from step `start` on the same from the beginning."""

    def __init__(self, start: int) -> None:
        self.start = start

    def get(self, t: int) -> float:
        return 0.5 / math.sqrt((t if t < self.start else t - self.start) + 1)


@pytest.mark.parametrize("kind", LEARNERS)
def test_weights_stay(kind: Any) -> None:
    X, y = examples(300)
    extra = {"radius": 3.0, "n_features": 6} if kind.__name__.startswith("EG") else {}
    model = kind(**extra)
    model.learn_many(X, y.astype(object) if "Softmax" in kind.__name__ else y)
    if kind.__name__ in RATELESS:
        assert not model.has_decaying_rates
        with pytest.raises(ValueError, match="has no learning rate that decays, so none to reset"):
            model.reset_rates()
        return
    assert model.has_decaying_rates
    before = model.weights
    model.reset_rates()
    after = model.weights
    if "Softmax" in kind.__name__:
        assert after == before
        return
    assert after.keys() == before.keys() and before
    assert list(after.values()) == pytest.approx(list(before.values()), rel=1e-12)
    model._state.check()


@pytest.mark.parametrize("many", [True, False])
def test_schedule_starts_anew(many: bool) -> None:
    X, y = examples(400)
    model = streaml1.ElasticNetClassifier(lr=0.5, l1=1e-3)
    twin = streaml1.ElasticNetClassifier(lr=Restarting(300), l1=1e-3)
    twin.learn_many(X, y)
    model.learn_many(X[:300], y[:300])
    model.reset_rates()
    if many:
        model.learn_many(X[300:], y[300:])
    else:
        for k in range(300, 400):
            model.learn_one(dict(enumerate(X[k].toarray()[0])), bool(y[k]))
    assert model.weights == twin.weights and model.n_iterations == 400


def test_constant_rates_have_nothing_to_reset() -> None:
    model = streaml1.ElasticNetClassifier(lr=0.1, schedule="constant")
    assert not model.has_decaying_rates
    assert streaml1.ElasticNetClassifier(lr=Restarting(3)).has_decaying_rates


def test_ftrl_continues_by_its_formulas() -> None:
    X, y = examples(200)
    alpha, beta, l1, l2 = 0.3, 1.0, 0.01, 0.1
    model = streaml1.FTRLClassifier(alpha=alpha, beta=beta, l1=l1, l2=l2, intercept_lr=0.0)
    model.learn_many(X, y)
    w = weights(model)
    model.reset_rates()
    x = np.array([1.0, 0.5, 0.0, -1.0, 2.0, 1.0])
    model.learn_one(dict(enumerate(x)), True)
    G = (1.0 / (1.0 + math.exp(-(w @ x))) - 1.0) * x
    z = np.sign(-w) * l1 - w * (beta / alpha + l2) + G - np.abs(G) / alpha * w
    zero = np.abs(z) <= l1
    expected = np.where(zero, 0.0, -(z - np.sign(z) * l1) / ((beta + np.abs(G)) / alpha + l2))
    assert weights(model) == pytest.approx(expected, rel=1e-9)


def test_adagrad_continues_by_its_formulas() -> None:
    X, y = examples(200)
    lr, delta, l1 = 0.3, 0.1, 0.003
    model = streaml1.AdaptiveElasticNetClassifier(lr=lr, delta=delta, l1=l1, intercept_lr=0.0)
    model.learn_many(X, y)
    w = weights(model)
    model.reset_rates()
    x = np.array([1.0, 0.5, 0.0, -1.0, 2.0, 1.0])
    model.learn_one(dict(enumerate(x)), True)
    G = (1.0 / (1.0 + math.exp(-(w @ x))) - 1.0) * x
    rate = lr / (delta + np.abs(G))
    v = w - rate * G
    assert weights(model) == pytest.approx(np.sign(v) * np.maximum(np.abs(v) - rate * l1, 0.0))


@pytest.mark.parametrize("kind", [streaml1.ElasticNetClassifier, streaml1.FTRLClassifier])
def test_saved_model_continues_bit_identically(kind: Any, tmp_path: Path) -> None:
    X, y = examples(400)
    model = kind(l1=1e-3) if kind is streaml1.FTRLClassifier else kind(lr=0.5, l1=1e-3)
    model.learn_many(X[:300], y[:300])
    model.reset_rates()
    model.save(tmp_path / "m")
    copy = streaml1.load(tmp_path / "m")
    for each in (model, copy):
        each.learn_many(X[300:], y[300:])
    assert copy.weights == model.weights


# Runs


def run(source: str, **options: Any) -> tuple[Any, Any]:
    model = streaml1.ElasticNetClassifier(lr=0.3, l1=1e-4)
    return model, progressive(model, source, on_drift="reset-rates", **options)


def test_loss_after_a_change_is_smaller(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.svm")
    logged = progressive(streaml1.ElasticNetClassifier(lr=0.3, l1=1e-4), source)
    _, report = run(source)
    assert len(logged.drifts) == len(report.drifts) == 2
    assert report.drifts[0] == logged.drifts[0]
    assert report.cumulative_loss < 0.95 * logged.cumulative_loss


def test_weights_do_not_depend_on_blocks_or_interruptions(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.svm")
    expected, report = run(source, every=10**6)
    lines, same = run(source, every=77)
    assert lines.weights == expected.weights and same.drifts == report.drifts
    for limit in (3007, 3031, 6018, None):
        resumed, last = run(source, checkpoint=tmp_path / "kept", limit=limit, every=700)
    assert resumed.weights == expected.weights and last.drifts == report.drifts


def test_a_run_says_what_it_cannot_reset(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.svm")
    for model in (streaml1.CoinBettingClassifier(), naive_bayes.GaussianNB()):
        with pytest.raises(ValueError, match="requires a model whose learning rates decay, got"):
            progressive(model, source, on_drift="reset-rates")
    with pytest.raises(ValueError, match='on_drift must not be "reset-rates" with delayed labels'):
        progressive(
            streaml1.ElasticNetClassifier(lr=0.3), source, on_drift="reset-rates", label_within=5.0
        )


def test_command(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.svm")
    learn = ["learn", source, "--top", "0", "--on-drift", "reset-rates"]
    result = CliRunner().invoke(
        cli, [*learn, "--lr", "0.3", "--l1", "1e-4", "--save", tmp_path / "m"]
    )
    assert result.exit_code == 0 and result.stderr.count("the log-loss rose from") == 2
    assert streaml1.load(tmp_path / "m").weights == run(source)[0].weights
    refused = CliRunner().invoke(cli, [*learn, "--model", "coin"])
    assert refused.exit_code == 2
    assert "requires a model whose learning rates decay" in refused.stderr
    (tmp_path / "a.jsonl").write_text("")
    late = ["learn", str(tmp_path / "a.jsonl"), "--label-within", "5", "--on-drift", "reset-rates"]
    refused = CliRunner().invoke(cli, late)
    assert refused.exit_code == 2
    assert "--on-drift reset-rates cannot be combined with --label-within" in refused.stderr
