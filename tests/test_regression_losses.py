"""What the Huber, quantile and Poisson losses are for, in every learner and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import BadExample, ElasticNetRegressor, solvers
from streaml1.cli import cli
from streaml1.models import serialization
from streaml1.models.registry import modules_of_classes
from streaml1.optim import loop
from streaml1.training import RunConfig, progressive

FIXED: dict[str, Any] = {"lr": 0.1, "intercept_lr": 0.02}
REGRESSORS = [name for name in modules_of_classes() if name.endswith("Regressor")]


def count_stream(n: int = 20_000, b: float = 1.0) -> tuple[Any, Any, Any]:
    """Return rows, counts of a log-linear model, and its weights."""
    rng = np.random.default_rng(5)
    X, w = rng.uniform(-1.0, 1.0, size=(n, 4)), np.array([0.8, -0.5, 0.3, 0.0])
    return X, rng.poisson(np.exp(X @ w + b)).astype(float), w


@pytest.mark.parametrize(
    "params",
    [{}, {"lr": 0.1, "intercept_lr": 0.005, "intercept_init": 12.0}],
    ids=["auto", "fixed rate"],
)
@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_intercept_is_the_quantile(tau: float, params: dict[str, Any]) -> None:
    y = 10.0 + np.random.default_rng(2).exponential(2.0, 20_000)
    model = ElasticNetRegressor(loss="quantile", quantile=tau, **params)
    p = model.progressive_many(csr_matrix((len(y), 1)), y)
    assert np.mean(y[10_000:] < p[10_000:]) == pytest.approx(tau, abs=0.02)
    assert np.mean(y < model.freeze().predict_one({})) == pytest.approx(tau, abs=0.03)


@pytest.mark.parametrize("b", [-2.0, 1.0, 6.0])
def test_poisson_recovers_log_linear_means(b: float) -> None:
    X, y, w = count_stream(b=b)
    model = ElasticNetRegressor(loss="poisson")
    model.learn_many(csr_matrix(X), y)
    found = np.array([model.weights.get(j, 0.0) for j in range(4)])
    tolerance = 0.1 if b < 0.0 else 0.03  # there are few events
    np.testing.assert_allclose(found, w, atol=tolerance)
    assert model.intercept == pytest.approx(b, abs=tolerance)
    x = {0: 0.5, 1: -1.0}
    expected = np.exp(0.4 + 0.5 + b)
    frozen = model.freeze()
    assert frozen.predict_one(x) == pytest.approx(expected, rel=2.0 * tolerance)
    assert frozen.predict_one(x) == frozen.predict_many([x])[0]
    assert frozen.margin(x) == pytest.approx(np.log(frozen.predict_one(x)))
    assert model.predict_one(x) == model.predict_many([x])[0] == np.exp(model._margin(x))
    assert model.predict_one(x) == pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize("params", [{}, FIXED], ids=["auto", "fixed rate"])
def test_huber_is_insensitive_to_outliers_among_targets(params: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(10_000, 4))
    clean = X @ np.array([2.0, -1.0, 0.5, 0.0]) + 3.0 + 0.3 * rng.normal(size=len(X))
    y = clean + 100.0 * (rng.random(len(X)) < 0.03)
    errors = {
        loss: np.abs(
            ElasticNetRegressor(loss=loss, **params).progressive_many(csr_matrix(X), y) - clean
        )[5_000:].mean()
        for loss in ("huber", "squared")
    }
    assert errors["huber"] < 0.3 < 0.8 < errors["squared"]


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("loss", ["huber", "quantile", "poisson"])
def test_every_regressor_beats_the_baseline(name: str, loss: str) -> None:
    X, y, _ = count_stream(3_000)
    rows = [{"one": 1.0, **{f"x{j}": v for j, v in enumerate(row)}} for row in X.tolist()]
    examples = list(zip(rows, y, strict=True))
    params = {"EGRegressor": {"n_features": 8}, "FTRLRegressor": {"l1": 0.1}}.get(name, {})
    if loss == "quantile":
        params = {**params, "quantile": 0.7}
    model = getattr(streaml1, name)(loss=loss, intercept_lr=0.05, **params)
    line = progressive(model, examples).lines[-1]
    assert line.loss < line.constant_loss
    assert (model.predict_one({}) > 0.0) or loss != "poisson"


@pytest.mark.parametrize("y", [-1.0, -3, np.float32(-0.5)])
def test_poisson_rejects_negative_labels(y: Any) -> None:
    model = ElasticNetRegressor(loss="poisson")
    message = "the label must be >= 0 with the Poisson loss, got "
    with pytest.raises(BadExample, match=message):
        model.learn_one({"a": 1.0}, y)
    with pytest.raises(BadExample, match=message) as raised:
        model.learn_many([{"a": 1.0}] * 3, [0.0, 2.0, y])
    assert raised.value.row == 2 and model.n_iterations == 0
    model.learn_one({"a": 1.0}, -0.0)
    ElasticNetRegressor(loss="quantile").learn_one({"a": 1.0}, y)


def test_negative_labels_of_a_source_are_skipped() -> None:
    examples = [({"a": 1.0}, y) for y in (1.0, -2.0, "3", "-4", 5.0)]
    model = ElasticNetRegressor(loss="poisson")
    report = progressive(model, examples, config=RunConfig(bad="skip"))
    assert (report.examples, report.rejected, model.n_iterations) == (3, 2, 3)
    with pytest.raises(ValueError, match="with the Poisson loss it must be >= 0"):
        progressive(ElasticNetRegressor(loss="poisson"), examples)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, float("nan"), None, "0.5"])
def test_invalid_quantiles_are_rejected(value: Any) -> None:
    with pytest.raises(ValueError, match="quantile must be a number above 0 and below 1, got"):
        ElasticNetRegressor(quantile=value)
    with pytest.raises(ValueError, match="huber_delta must be a number above 0 and at most 1e"):
        ElasticNetRegressor(huber_delta=0.0)


def test_parameters_apply_from_the_next_step() -> None:
    for params in ({}, {"lr": 0.1}, {"lr": 0.1, "average": True}):
        model = ElasticNetRegressor(loss="quantile", **params)
        model.learn_one({"a": 1.0}, 3.0)
        model.quantile = 0.75
        assert model._state.online[0].loss_parameter == 0.75
        model.mutate({"quantile": 0.25})
        assert model._state.online[0].loss_parameter == 0.25
    with pytest.warns(
        UserWarning, match=r'huber_delta=2.0 has no effect: it requires loss="huber"'
    ):
        model = ElasticNetRegressor(lr=0.1, huber_delta=2.0)
    assert model._state.online[0].loss_parameter == 0.0
    model.loss = "huber"
    assert model._state.online[0].loss_parameter == 2.0


@pytest.mark.parametrize("params", [{}, {"lr": 0.1}], ids=["auto", "fixed rate"])
def test_saved_models_keep_the_parameter(params: dict[str, Any], tmp_path: Path) -> None:
    X, y, _ = count_stream(300)
    model = ElasticNetRegressor(loss="quantile", quantile=0.9, **params)
    model.learn_many(csr_matrix(X[:200]), y[:200])
    model.save(tmp_path / "m")
    loaded = streaml1.load(tmp_path / "m")
    assert loaded.quantile == 0.9
    rest = csr_matrix(X[200:]), y[200:]
    assert np.array_equal(model.progressive_many(*rest), loaded.progressive_many(*rest))


def test_files_without_the_parameter_load(tmp_path: Path) -> None:
    """Model files of versions whose losses had no parameter."""
    X, y, _ = count_stream(300)
    model = ElasticNetRegressor(l1=1e-3, loss="absolute")
    model.learn_many(csr_matrix(X[:200]), y[:200])
    state, params = model._file_state()(), model._parameters()
    record = np.zeros(1, loop.STORED_LAYOUTS[-1])
    for name in record.dtype.names or ():
        record[name] = state["online"][name]
    state["online"] = record
    del params["quantile"], params["huber_delta"]
    serialization.write(
        tmp_path / "m",
        serialization.encode(serialization.ModelFile("ElasticNetRegressor", params, state)),
    )
    loaded = streaml1.load(tmp_path / "m")
    rest = csr_matrix(X[200:]), y[200:]
    assert np.array_equal(model.progressive_many(*rest), loaded.progressive_many(*rest))


@pytest.mark.parametrize("loss", ["huber", "quantile", "poisson"])
def test_solvers_reject_the_losses_by_name(loss: str) -> None:
    for solve in (solvers.fista, solvers.sdca, solvers.scd, solvers.projected_gradient):
        with pytest.raises(ValueError, match=f"does not support loss='{loss}'"):
            solve([[1.0], [2.0]], [1.0, 2.0], loss=loss)


def run(*args: str) -> Any:
    return CliRunner().invoke(cli, list(args))


def test_command_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    data = tmp_path / "a.svm"
    labels = rng.exponential(5.0, 2_000)
    data.write_text("".join(f"{y:.3f} 1:1\n" for y in labels))
    model = str(tmp_path / "m")
    learn = ("learn", str(data), "--loss", "quantile")
    done = run(*learn, "--quantile", "0.9", "--save", model)
    assert done.exit_code == 0 and "quantile" in done.output, done.output
    p = float(run("predict", model, str(data), "--limit", "1").output)
    assert np.mean(labels < p) == pytest.approx(0.9, abs=0.05)
    for args, message in (
        ((*learn, "--huber-delta", "2"), "--huber-delta requires --loss huber"),
        (("learn", str(data), "--task", "regression", "--quantile", "0.2"), "--quantile requires"),
        ((*learn, "--quantile", "1"), "quantile must be a number above 0 and below 1, got 1.0"),
    ):
        failed = run(*args)
        assert failed.exit_code == 2 and message in failed.output, failed.output
    done = run("learn", str(data), "--loss", "poisson", "--save", model)
    assert done.exit_code == 0, done.output
    p = float(run("predict", model, str(data), "--limit", "1").output)
    assert p == pytest.approx(labels.mean(), rel=0.1)
