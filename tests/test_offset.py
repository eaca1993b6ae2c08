"""The offset of an example: a feature that is added to the margin and has no weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_matrix, hstack

import streaml1
from streaml1.cli import cli
from streaml1.core.rows import BadExample
from streaml1.training import progressive
from streaml1.training.regret.observer import RegretObserver
from tests import kit, reference
from tests.test_lane_mixture import RATES

D = kit.D
CUTS = [0, 1, 40, 300]
"""Rows learnt at once, or for every second block one by one."""


class WithOffset:
    """A twin that takes the last column of a row as its offset."""

    def __init__(self, twin: Any) -> None:
        self.twin = twin

    def __getattr__(self, name: str) -> Any:
        return getattr(self.twin, name)

    def progressive(self, X: Any, y: Iterable[float], w: Iterable[float]) -> Any:
        """Return the output for each row before learning it."""
        p = []
        for row, y_i, w_i in zip(X, y, w, strict=True):
            self.twin.offset = float(row[-1])
            p.append(self.twin.output(row[:-1]))
            self.twin.learn(row[:-1], y_i, w_i)
        return np.array(p)


def with_offsets(loss: str, n: int) -> Any:
    """Return data with one more column, which is zero in every third row."""
    X, y, signed, w = kit.data_of(loss, n)
    offset = np.random.default_rng(7).normal(size=n) * (np.arange(n) % 3 > 0)
    return np.hstack([X, offset[:, None]]), y, signed, w


def auto_twin(loss: str) -> Any:
    rates = RATES["regression" if loss in reference.REGRESSION else "classification"]
    return reference.LaneMixture(D, rates=rates, loss=loss, l1=1e-3)


LOSSES = ("logistic", "smoothed_hinge", "squared", "absolute", "poisson")
# Names of learners, parameters, and the twin for a loss.
CASES: dict[str, tuple[str, dict[str, Any], Callable[[str], Any]]] = {
    "auto": ("ElasticNet", {"l1": 1e-3}, auto_twin),
    "elastic net": (
        "ElasticNet",
        {"lr": 0.02, "l1": 1e-3},
        lambda loss: reference.ElasticNet(D, lr=0.02, l1=1e-3, loss=loss),
    ),
    "averaged": (
        "ElasticNet",
        {"lr": 0.02, "l1": 1e-3, "average": True},
        lambda loss: reference.averaged(reference.ElasticNet)(D, lr=0.02, l1=1e-3, loss=loss),
    ),
    "adaptive": (
        "AdaptiveElasticNet",
        {"lr": 0.1},
        lambda loss: reference.AdaptiveElasticNet(D, lr=0.1, loss=loss),
    ),
    "coin": (
        "CoinBetting",
        {"l1": 0.01},
        lambda loss: reference.CoinBetting(D, l1=0.01, loss=loss),
    ),
    "scaled ftrl": ("FTRL", {"l1": 0.1}, lambda loss: reference.ScaledFTRL(D, l1=0.1, loss=loss)),
    "ftrl": (
        "FTRL",
        {"alpha": 0.05, "l1": 0.1},
        lambda loss: reference.FTRL(D, alpha=0.05, l1=0.1, loss=loss),
    ),
    "l1 ball": (
        "L1Ball",
        {"lr": 0.02, "radius": 3.0},
        lambda loss: reference.L1Ball(D, lr=0.02, radius=3.0, loss=loss),
    ),
}


def make(case: str, loss: str, **params: Any) -> Any:
    """Return a model whose offset is the feature D."""
    name, own, _ = CASES[case]
    kind = "Regressor" if loss in reference.REGRESSION else "Classifier"
    return getattr(streaml1, name + kind)(**{"loss": loss, "offset": D, **own, **params})


def diverges(case: str, loss: str) -> bool:
    """Return whether a numeric rate is too large for the counts."""
    return loss == "poisson" and case in ("elastic net", "averaged", "l1 ball", "adaptive")


@pytest.mark.parametrize(
    ("case", "loss"),
    [(case, loss) for case in CASES for loss in LOSSES if not diverges(case, loss)],
)
def test_equals_the_dense_twin(case: str, loss: str) -> None:
    data = with_offsets(loss, CUTS[-1])
    twin = WithOffset(CASES[case][2](loss))
    kit.assert_matches_twin(make(case, loss), twin, data, CUTS)


@pytest.mark.parametrize("case", CASES)
def test_shifts_the_targets_of_the_squared_loss(case: str) -> None:
    X, y, _, w = with_offsets("squared", 200)
    model, plain = make(case, "squared"), make(case, "squared", offset=None)
    p = model.progressive_many(csr_matrix(X), y, w)
    expected = plain.progressive_many(csr_matrix(X[:, :-1]), y - X[:, -1], w) + X[:, -1]
    np.testing.assert_allclose(p, expected, rtol=0.0, atol=1e-9)


def as_dict(row: Any, offset: str = "base") -> dict[str, float]:
    names = [*(f"f{j}" for j in range(D)), offset]
    return {name: value for name, value in zip(names, row.tolist(), strict=True) if value}


@pytest.mark.parametrize("hash_bits", [None, 12])
@pytest.mark.parametrize("case", ["auto", "elastic net", "coin"])
def test_all_ways_to_learn_and_predict_agree(
    case: str, hash_bits: int | None, tmp_path: Path
) -> None:
    X, y, _, w = with_offsets("logistic", 120)
    dicts = [as_dict(row) for row in X]
    names = [*(f"f{j}" for j in range(D)), "base"]
    frame = pd.DataFrame({name: X[:, j] for j, name in enumerate(names)})
    single, batch, framed = (
        make(case, "logistic", offset="base", hash_bits=hash_bits) for _ in range(3)
    )
    for x, label, weight in zip(dicts, y, w, strict=True):
        single.learn_one(x, label, float(weight))
    batch.learn_many(dicts, y, w)
    framed.learn_many(frame, y, w)
    assert single.weights == batch.weights == framed.weights
    assert single.intercept == batch.intercept == framed.intercept
    assert "base" not in single.weights
    single.save(tmp_path / "m")
    expected = batch.predict_proba_many(dicts)[:, 1].tolist()
    for model in (single, streaml1.load(tmp_path / "m")):
        assert [model.predict_proba_one(x)[True] for x in dicts] == expected
        assert model.predict_proba_many(dicts)[:, 1].tolist() == expected
    frozen = single.freeze()
    served = frozen.predict_proba_many(dicts)[:, 1].tolist()
    assert [frozen.predict_proba_one(x)[True] for x in dicts] == served
    assert expected != batch.predict_proba_many([{**x, "base": 0.0} for x in dicts])[:, 1].tolist()


def test_margins_of_frozen_models_add_the_offset() -> None:
    X, y, _, _ = with_offsets("logistic", 120)
    model = make("auto", "logistic", offset="base")
    model.learn_many([as_dict(row) for row in X], y)
    frozen = model.freeze()
    for row in X[:20]:
        x = as_dict(row)
        rest = {name: value for name, value in x.items() if name != "base"}
        assert frozen.margin(x) == frozen.margin(rest) + x.get("base", 0.0)


def test_crossed_and_text_features_leave_the_offset_out() -> None:
    params: dict[str, Any] = {"lr": 0.1, "cross": [("f", "g")], "text": ["t"], "offset": "fx"}
    model = streaml1.ElasticNetClassifier(**params)
    plain = streaml1.ElasticNetClassifier(**{**params, "offset": None})
    x = {"f1": 1.0, "g": 2.0, "t": "some words"}
    for k in range(6):
        model.learn_one({**x, "fx": 0.25}, k % 2 == 0)
        model.learn_many([{**x, "fx": 0.25}], [k % 2 == 0])
        plain.learn_many([x, x], [k % 2 == 0] * 2)
    assert model.weights.keys() == plain.weights.keys()
    assert model.predict_proba_one({**x, "fx": 0.25}) != model.predict_proba_one(x)
    p = model.predict_proba_one({**x, "fx": 0.25})[True]
    assert p == model.predict_proba_many([{**x, "fx": 0.25}])[0, 1]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("high", "the offset 'base' must be a number, got 'high'"),
        (1e60, "the value 1e+60 of 'base' is too large"),
    ],
)
def test_invalid_offsets_are_rejected(value: Any, reason: str) -> None:
    model = make("auto", "logistic", offset="base")
    good: dict[str, Any] = {"a": 1.0, "base": 0.5}
    model.learn_one(good, True)
    before = model._encode()
    calls: list[Callable[[], Any]] = [
        lambda: model.learn_one({"a": 1.0, "base": value}, True),
        lambda: model.predict_one({"a": 1.0, "base": value}),
        lambda: model.freeze().predict_one({"a": 1.0, "base": value}),
    ]
    for call in calls:
        with pytest.raises(BadExample) as error:
            call()
        assert error.value.reason.startswith(reason)
    with pytest.raises(BadExample) as error:
        model.learn_many([good, good, {"a": 1.0, "base": value}, good], [True] * 4)
    assert error.value.row == 2
    assert error.value.reason.startswith(reason)
    assert model._encode() == before


def test_the_first_invalid_row_is_named() -> None:
    model = make("auto", "logistic", offset=1)
    X = csr_matrix(np.array([[1.0, 0.5], [np.nan, 0.5], [1.0, np.nan]]))
    with pytest.raises(BadExample, match="NaN") as error:
        model.learn_many(X, [True] * 3)
    assert error.value.row == 1
    with pytest.raises(BadExample, match="the value of 1 is NaN") as error:
        model.learn_many(X[[0, 2]], [True] * 2)
    assert error.value.row == 1


@pytest.mark.parametrize("missing", [None, math.nan])
def test_missing_offsets_are_absent(missing: Any) -> None:
    model, twin = (make("auto", "logistic", offset="base") for _ in range(2))
    x = {"a": 1.0, "base": missing}
    model.learn_one(x, True)
    model.learn_many([x], [True])
    twin.learn_many([{"a": 1.0}] * 2, [True] * 2)
    assert model.predict_proba_one(x) == twin.predict_proba_one({"a": 1.0})


def test_rates_are_those_per_exposure() -> None:
    """Counts of events: the offset is the logarithm of the time in which they were counted."""
    rng = np.random.default_rng(5)
    n, rates = 40_000, np.array([0.02, 0.1, 0.5, 2.0])
    kind, exposure = rng.integers(0, 4, n), rng.choice([0.1, 1.0, 10.0, 50.0], n)
    y = rng.poisson(rates[kind] * exposure)
    names = csr_matrix((np.ones(n), kind, np.arange(n + 1)), shape=(n, 4))
    X = hstack([names, csr_matrix(np.log(exposure)[:, None])]).tocsr()
    for model in (
        streaml1.ElasticNetRegressor(loss="poisson", offset=4),
        streaml1.CoinBettingRegressor(loss="poisson", offset=4),
    ):
        model.learn_many(X, y)
        frozen = model.freeze()
        got = [frozen.predict_one({k: 1.0, 4: math.log(10.0)}) / 10.0 for k in range(4)]
        assert got == pytest.approx(rates, rel=0.15), type(model)


def test_a_good_offset_leaves_nothing_to_learn() -> None:
    rng = np.random.default_rng(6)
    margin = rng.normal(size=20_000) * 2.0
    y = rng.random(len(margin)) < 1.0 / (1.0 + np.exp(-margin))
    noise = csr_matrix(rng.normal(size=(len(margin), 3)))
    X = hstack([noise, csr_matrix(margin[:, None])]).tocsr()
    entropy = np.where(y, np.logaddexp(0.0, -margin), np.logaddexp(0.0, margin)).mean()
    line = progressive(streaml1.ElasticNetClassifier(offset=3), (X, y)).lines[-1]
    assert line.loss == pytest.approx(entropy, abs=2e-3)
    alone = progressive(streaml1.ElasticNetClassifier(), (noise, y)).lines[-1]
    assert alone.loss > entropy + 0.1


def test_offset_of_a_column_on_the_command_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = ["y,site,base"]
    margins = rng.normal(size=3000) * 2.0
    for margin in margins:
        label = int(rng.random() < 1.0 / (1.0 + math.exp(-margin)))
        lines.append(f"{label},s{rng.integers(3)},{margin:.6f}")
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    run = [str(path), "--target", "y", "--categorical", "site"]
    runner = CliRunner()
    learnt = runner.invoke(
        cli, ["learn", *run, "--offset", "base", "--save", str(tmp_path / "m"), "--every", "3000"]
    )
    assert learnt.exit_code == 0, learnt.output
    model = streaml1.load(tmp_path / "m")
    assert model.offset == "base"
    assert model.weights.keys() == {"site=s0", "site=s1", "site=s2"}
    twin = streaml1.ElasticNetClassifier(offset="base")
    for line in lines[1:]:
        label, site, base = line.split(",")
        twin.learn_one({"site": site, "base": float(base)}, label == "1")
    assert model.weights == twin.weights
    path.write_text("\n".join([*lines[:4], "1,s1,high"]) + "\n")
    rejected = runner.invoke(cli, ["learn", *run, "--offset", "base"])
    assert rejected.exit_code == 65, rejected.output


def test_the_offset_must_be_a_name_that_is_no_text() -> None:
    with pytest.raises(ValueError, match="offset must be None, a string or an integer, got 1.5"):
        streaml1.ElasticNetClassifier(offset=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="offset must not be a text feature, got 'a'"):
        streaml1.ElasticNetClassifier(offset="a", text=["a"])


@pytest.mark.parametrize("params", [{"offset": D}, {"positive_weight": 2.0}])
def test_regret_is_undefined(params: dict[str, Any]) -> None:
    model = streaml1.ElasticNetClassifier(lr=0.1, **params)
    with pytest.raises(ValueError, match=f"undefined for a model with {next(iter(params))}"):
        RegretObserver(model)
