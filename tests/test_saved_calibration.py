"""Calibration of saved models beside that of the run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1.cli import cli
from streaml1.models.base import OnlineModel
from streaml1.training import progressive
from streaml1.training.observers import Batch
from streaml1.training.saved_calibration import RecentExamples, SavedCalibration


def clicks(n: int) -> list[tuple[dict[str, float], bool]]:
    rng = np.random.default_rng(4)
    values = rng.random(n)
    return [
        ({"a": v, "b": 1.0}, bool(u < 0.1 + 0.3 * v))
        for v, u in zip(values, rng.random(n), strict=True)
    ]


@pytest.mark.parametrize("every", [7, 60])
def test_calibration_covers_the_last_examples(every: int) -> None:
    examples, recent = clicks(500), RecentExamples(100)
    model = streaml1.ElasticNetClassifier()
    twin, p = model.clone(), []
    for x, y in examples:
        p.append(twin.predict_proba_one(x)[True])
        twin.learn_one(x, y)
    progressive(model, examples, observers=[recent], every=every)
    compared = recent.calibration_of(model)
    assert compared is not None and compared.n == 100
    positives = sum(y for _, y in examples[-100:])
    assert compared.run == pytest.approx(sum(p[-100:]) / positives)
    after = [twin.predict_proba_one(x)[True] for x, _ in examples[-100:]]
    assert compared.saved == pytest.approx(sum(after) / positives)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20), st.integers(1, 100))
def test_the_last_examples_may_be_of_several_batches(sizes: list[int], n: int) -> None:
    recent, model = RecentExamples(n), streaml1.ElasticNetClassifier(lr=0.1)
    examples = clicks(sum(sizes))
    x, y = [x for x, _ in examples], np.array([y for _, y in examples])
    model.learn_many(x, y)
    p = np.linspace(0.1, 0.9, len(y))
    ends = np.cumsum(sizes).tolist()
    for lo, hi in zip([0, *ends[:-1]], ends, strict=True):
        recent.on_batch(Batch(SimpleNamespace(x=x), lo, hi, y[lo:hi], None, p[lo:hi]))
    last = slice(-min(n, len(y)), None)
    compared, positives = recent.calibration_of(model), y[last].sum()
    assert (compared is None) == (positives == 0)
    if compared is not None:
        now = model.predict_proba_many(x[last])[:, 1]
        assert compared.n == len(y[last])
        assert compared.run == pytest.approx(p[last].sum() / positives)
        assert compared.saved == pytest.approx(now.sum() / positives)
    kept = [batch.hi - batch.lo for batch in recent._batches]
    assert sum(kept[1:]) < n  # older ones would only take memory


def test_sample_weights_count() -> None:
    recent, model = RecentExamples(), streaml1.ElasticNetClassifier(lr=0.1)
    rows = [(*example, {"w": 1.0 + k % 3}) for k, example in enumerate(clicks(60))]
    progressive(model, rows, observers=[recent])
    compared = recent.calibration_of(model)
    positives = sum(w["w"] for _, y, w in rows if y)
    predicted = sum(w["w"] * model.predict_proba_one(x)[True] for x, _, w in rows)
    assert compared is not None and compared.saved == pytest.approx(predicted / positives)


def test_losses_without_probabilities_and_streams_without_positives_have_no_calibration() -> None:
    for model, y in (
        (streaml1.ElasticNetClassifier(loss="hinge"), True),
        (streaml1.ElasticNetClassifier(), False),
        (streaml1.ElasticNetRegressor(), 1.0),
        (streaml1.SoftmaxClassifier(), True),
    ):
        recent = RecentExamples()
        progressive(model, [({"a": 1.0}, y)] * 30, observers=[recent])
        assert recent.calibration_of(model) is None


def test_calibrations_differ_beyond_a_tenth() -> None:
    assert not SavedCalibration(9, 1.09, 1.0).differs
    assert SavedCalibration(9, 1.11, 1.0).differs and SavedCalibration(9, 0.89, 1.0).differs


def test_learn_prints_the_calibration_of_the_saved_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{y:d} 1:{x['a']} 2:1\n" for x, y in clicks(12_000))
    Path("a.svm").write_text(rows)
    result = CliRunner().invoke(cli, ["learn", "a.svm", "--save", "m"])
    assert result.exit_code == 0 and result.stderr == ""
    (line,) = [line for line in result.stdout.splitlines() if "calibration (last" in line]
    saved, run = (
        float(line.split(": ")[1].split(" of")[0]),
        float(line.split(", ")[-1].split()[0]),
    )
    assert line.startswith("calibration (last 2,000): ")
    assert 0.9 < saved / run < 1.1

    # A saved model that predicts far too much.
    save = OnlineModel.save

    def save_another(model: OnlineModel, path: Path) -> None:
        model.learn_many([{}] * 4000, [True] * 4000)
        save(model, path)

    monkeypatch.setattr(OnlineModel, "save", save_another)
    result = CliRunner().invoke(cli, ["learn", "a.svm", "--save", "m", "--lr", "0.1"])
    assert "times what the run predicted for the same examples" in result.stderr
