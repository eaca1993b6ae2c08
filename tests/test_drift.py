"""Drift alarms: the window against its twin and river's, drifts of runs, what a run does then."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from river.drift import ADWIN
from scipy.sparse import csr_matrix, vstack

import streaml1
from streaml1.cli import cli
from streaml1.core.types import Floats
from streaml1.training import Observer, RunConfig, RunStart, evaluate, progressive
from streaml1.training.drift import AdaptiveWindow, Cut, Drift, DriftDetector
from streaml1.training.model_publisher import ModelPublisher
from streaml1.training.report import Report, plot
from tests import reference

RATES = ((0.1, 1500), (0.35, 1500), (0.05, 1500), (0.5, 700))


def numbers(kind: str, seed: int = 0) -> Floats:
    """Return numbers from 0 to 1 whose mean changes three times."""
    rng = np.random.default_rng(seed)
    if kind == "flags":
        parts = [rng.random(n) < rate for rate, n in RATES]
    elif kind == "uniform":
        parts = [rng.uniform(0.0, 2.0 * rate, n) for rate, n in RATES]
    else:
        parts = [np.full(n, rate) for rate, n in RATES]
    return np.concatenate(parts).astype(float)


def cuts(window: AdaptiveWindow, x: Floats, loss: Floats, blocks: int = 1) -> list[Cut]:
    """Return all cuts, with positions in `x`, which is added in several blocks."""
    found: list[Cut] = []
    base = 0
    for part, of_part in zip(np.array_split(x, blocks), np.array_split(loss, blocks), strict=True):
        pos = 0
        while (cut := window.add(part, of_part, pos)) is not None:
            pos = cut.pos
            found.append(cut._replace(pos=base + pos))
        base += len(part)
    return found


# The window


@pytest.mark.parametrize("kind", ["flags", "uniform", "constant"])
@pytest.mark.parametrize(("bucket", "delta"), [(1, 0.002), (8, 0.002), (8, 0.3)])
def test_window_equals_its_twin(kind: str, bucket: int, delta: float) -> None:
    x = numbers(kind)
    loss = np.random.default_rng(1).normal(x, 1.0)
    twin = reference.AdaptiveWindow(delta, bucket)
    expected = [
        (k + 1, *cut)
        for k, pair in enumerate(zip(x, loss, strict=True))
        if (cut := twin.add(*pair)) is not None
    ]
    window = AdaptiveWindow(delta, bucket)
    found = cuts(window, x, loss)
    assert [(cut.pos, cut.n_after) for cut in found] == [(pos, n) for pos, _, n, _, _ in expected]
    for cut, (*_, before, after) in zip(found, expected, strict=True):
        assert (cut.x_before, cut.loss_before) == pytest.approx(before, abs=1e-12)
        assert (cut.x_after, cut.loss_after) == pytest.approx(after, abs=1e-12)
    assert len(found) >= 3
    assert window.n == sum(map(len, twin.buckets)) + len(twin.open)


@pytest.mark.parametrize("seed", range(6))
def test_first_change_is_found_with_rivers(seed: int) -> None:
    """Later ones may differ: river drops old buckets only as long as a border is significant."""
    x = numbers("flags", seed)
    river = ADWIN()
    first = 0
    while not river.drift_detected:
        river.update(x[first])
        first += 1
    assert cuts(AdaptiveWindow(0.002, bucket=1), x, x)[0].pos == first
    assert abs(cuts(AdaptiveWindow(0.002), x, x)[0].pos - first) <= 32


def test_blocks_and_numbers_that_are_not_finite_do_not_matter() -> None:
    x = numbers("uniform")
    whole, split, holes = AdaptiveWindow(), AdaptiveWindow(), AdaptiveWindow()
    expected = cuts(whole, x, x)
    assert cuts(split, x, x, blocks=911) == expected
    with_holes, losses = np.insert(x, [3, 8, 9, 100], math.nan), np.insert(x, [3, 8, 9, 100], 1.0)
    losses[1000] = math.inf
    with_holes = np.insert(with_holes, 1000, 0.5)
    losses = np.insert(np.delete(losses, 1000), 1000, [math.inf, with_holes[1001]])
    assert [cut._replace(pos=cut.pos - 5) for cut in cuts(holes, with_holes, losses)] == expected
    for window in (split, holes):
        assert np.array_equal(window.counts, whole.counts)
        assert np.array_equal(window.open, whole.open)


def test_stationary_numbers_are_not_cut() -> None:
    rng = np.random.default_rng(3)
    for x in (rng.random(300_000), (rng.random(300_000) < 0.01).astype(float)):
        assert cuts(AdaptiveWindow(), x, x) == []


# Drifts of a report


def rare_labels(n: int) -> tuple[Any, Any]:
    """Return categories that say nothing about a label, and the label, which is True for 20 %."""
    rng = np.random.default_rng(0)
    ids = np.minimum(rng.pareto(0.7, (n, 12)), 3000.0).astype(int) + 3001 * np.arange(12)
    X = csr_matrix((np.ones(12 * n), ids.ravel(), np.arange(0, 12 * n + 1, 12)))
    return X, rng.random(n) < 0.2


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared", "huber", "poisson"])
def test_predictions_that_follow_chance_are_no_drift(loss: str) -> None:
    """The mean of the wrong probabilities rises with the predictions, the loss does not."""
    X, y = rare_labels(70_000)
    if loss == "logistic":
        model: Any = streaml1.ElasticNetClassifier(lr=0.5)
    elif loss == "softmax":
        model, y = streaml1.SoftmaxClassifier(), np.where(y, "rare", "common")
    else:
        model = streaml1.ElasticNetRegressor(loss=loss)
        y = y.astype(float) + (np.random.default_rng(6).random(len(y)) < 0.05)
    assert progressive(model, (X, y), every=10**6, data_checks=False).drifts == []


def margin_stream(n: int, weights: Any, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(0.0, 1.0, (n, len(weights)))
    return csr_matrix(X), X @ np.array(weights)


def changing_stream(regression: bool = False) -> tuple[Any, Any]:
    """Return rows of three features whose labels change after 3,000 and 6,000 examples."""
    parts = [
        margin_stream(3000, weights, seed)
        for seed, weights in enumerate([(1.0, 0.0, 2.0), (-1.0, 2.0, 0.0), (0.0, -2.0, 1.0)])
    ]
    y = np.concatenate([margins for _, margins in parts])
    return vstack([X for X, _ in parts], format="csr"), y if regression else y > 0.0


def learner(**parameters: Any) -> Any:
    return streaml1.ElasticNetClassifier(lr=0.3, **parameters)


def test_detector_equals_its_twin() -> None:
    """The twin is fed the squares of the wrong probabilities, one by one."""
    rng = np.random.default_rng(4)
    y = np.repeat([0.0, 1.0, 0.0, 1.0], 1500)
    p = rng.beta(2.0, 8.0, len(y))
    costs = -np.log(np.abs(1.0 - y - p))
    twin = reference.AdaptiveWindow(0.002, 8)
    cuts_of_twin = [
        (k, *cut) for k in range(len(y)) if (cut := twin.add((p[k] - y[k]) ** 2, costs[k]))
    ]
    expected = [
        (k + 1, k + 1 - n_after, before[1], after[1])
        for k, _, n_after, before, after in cuts_of_twin
        if after[0] > before[0] and after[1] > before[1]
    ]
    found = DriftDetector("logistic").add(0, costs, p, y, np.ones(len(y)))
    assert [drift[:2] for drift in found] == [one[:2] for one in expected]
    assert np.allclose([drift[2:] for drift in found], [one[2:] for one in expected])
    assert len(found) == 2


def report_of(**options: Any) -> Report:
    return progressive(learner(), changing_stream(), every=500, **options)


def test_both_changes_are_found() -> None:
    report = report_of()
    assert len(report.drifts) == 2
    for drift, change in zip(report.drifts, (3000, 6000), strict=True):
        assert abs(drift.since - change) <= 32 and change < drift.examples <= change + 96
        assert drift.loss_after > 2.0 * drift.loss_before
    by_line = [drift for line in report.lines for drift in line.drifts]
    assert by_line == [drift._asdict() for drift in report.drifts]
    assert report_of(on_drift="ignore").drifts == []


@pytest.mark.parametrize("loss", ["squared", "absolute", "poisson"])
def test_changes_of_numbers_are_found_at_any_scale(loss: str) -> None:
    X, y = changing_stream(regression=True)
    rng = np.random.default_rng(9)
    y = rng.poisson(np.exp(2.0 + 0.5 * y)) if loss == "poisson" else 1000.0 * y
    y = y.astype(float) if loss == "poisson" else y + rng.normal(0.0, 300.0, len(y))
    y += 1e6 * (loss == "squared")
    model = streaml1.ElasticNetRegressor(loss=loss)
    report = progressive(model, (X, y), data_checks=False)
    assert len(report.drifts) == 2
    for drift, change in zip(report.drifts, (3000, 6000), strict=True):
        assert abs(drift.since - change) <= 32 and change < drift.examples <= change + 96


def test_softmax_changes_are_found() -> None:
    X, y = changing_stream()
    report = progressive(streaml1.SoftmaxClassifier(), (X, np.where(y, "a", "b")))
    assert [round(drift.since, -2) for drift in report.drifts] == [3000, 6000]


def test_a_model_that_improves_has_no_drift() -> None:
    X, margins = margin_stream(20_000, (1.0, 0.0, 2.0), 7)
    for parameters in ({"lr": 0.3}, {"lr": 0.001}, {}):
        model = streaml1.ElasticNetClassifier(**parameters)
        assert progressive(model, (X, margins > 0.0)).drifts == []


def test_a_frozen_model_shows_drift() -> None:
    X, y = changing_stream()
    model = learner()
    model.learn_many(X[:3000], y[:3000])
    (drift,) = evaluate(model, (X[:6000], y[:6000])).drifts
    assert abs(drift.since - 3000) <= 32


def test_examples_without_weight_and_held_out_passes_do_not_count() -> None:
    X, y = changing_stream()
    w = np.ones(len(y))
    w[3000:6000] = 0.0
    w[6000:] = 0.0
    assert progressive(learner(), (X, y, w)).drifts == []
    report = progressive(learner(), (X, y), passes=3)
    assert max(drift.examples for drift in report.drifts) < 9000


def test_detector_state_is_complete() -> None:
    """A detector from a saved state goes on bit-identically, at any example."""
    rng = np.random.default_rng(5)
    costs = np.concatenate([rng.exponential(s, 2000) for s in (100.0, 1.0, 5.0, 50.0)])
    w = rng.choice([0.0, 1.0], len(costs), p=[0.1, 0.9])
    one = DriftDetector("squared")
    expected = one.add(0, costs, costs, costs, w)
    assert len(expected) == 2
    found: list[Drift] = []
    for lo in range(0, len(costs), 333):
        facts, arrays = (one if not lo else resumed).state_dict()  # noqa: F821
        resumed = DriftDetector("squared")
        if lo:
            resumed.load_state_dict(json.loads(json.dumps(facts)), arrays)
        part = costs[lo : lo + 333]
        found += resumed.add(lo, part, part, part, w[lo : lo + 333])
    assert [drift[2:] for drift in found] == [drift[2:] for drift in expected]
    for a, b in zip(one.state_dict()[1].values(), resumed.state_dict()[1].values(), strict=True):
        assert np.array_equal(a, b)
    assert resumed.scale == one.scale


# Drifts of a run


def write_rows(path: Path) -> str:
    X, y = changing_stream()
    with path.open("w") as file:
        for k in range(len(y)):
            cells = " ".join(f"{j}:{v:.6f}" for j, v in enumerate(X[k].toarray()[0]))
            file.write(f"{y[k]:d} {cells}\n")
    return str(path)


def test_resumed_run_finds_the_same_drifts(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.svm")
    expected = progressive(learner(), source, every=700)
    assert len(expected.drifts) == 2
    printed: list[Any] = []
    for limit in (3007, 3031, 6018, None):  # a limit per pass: within both changes
        report = progressive(
            learner(), source, every=700, checkpoint=tmp_path / "kept", limit=limit,
            on_line=lambda line: printed.extend(line.drifts),
        )  # fmt: skip
    assert report.drifts == expected.drifts
    assert printed == [drift._asdict() for drift in expected.drifts]
    for a, b in zip(
        expected.state_dict()[1].values(), report.state_dict()[1].values(), strict=True
    ):
        assert np.array_equal(a, b)


class Recorder(Observer):
    """An observer that records drifts, and publishes nothing."""

    publishes = True

    def __init__(self) -> None:
        self.drifts: list[tuple[Drift, str]] = []

    def on_start(self, start: RunStart) -> None:
        self.start = start

    def on_drift(self, drift: Drift, action: str) -> None:
        self.drifts.append((drift, action))


def test_drifts_are_logged_counted_and_announced(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    report = report_of(on_drift="publish", observers=[recorder])
    assert recorder.drifts == [(drift, "publish") for drift in report.drifts]
    assert dict(recorder.start.metrics())["drifts_total"] == 2
    records = [r for r in caplog.records if getattr(r, "event", "") == "drift"]
    assert [r.levelno for r in records] == [logging.WARNING] * 2
    assert [r.fields for r in records] == [drift._asdict() for drift in report.drifts]  # type: ignore[attr-defined]
    first = report.drifts[0]
    assert records[0].getMessage() == (
        f"the log-loss rose from {first.loss_before:.4g} to {first.loss_after:.4g} after about "
        f"{first.since:,} examples (noticed after {first.examples:,})"
    )


def test_publishing_needs_a_publisher() -> None:
    with pytest.raises(ValueError, match="requires a ModelPublisher"):
        report_of(on_drift="publish")
    with pytest.raises(ValueError, match='on_drift must be "log" or "publish" or '):
        RunConfig(on_drift="reset")


def test_command(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.svm")
    options = ["--lr", "0.3", "--top", "0", "--report", str(tmp_path / "r.jsonl")]
    result = CliRunner().invoke(cli, ["learn", source, *options])
    assert result.exit_code == 0
    assert result.stderr.count("the log-loss rose from") == 2
    lines = (tmp_path / "r.jsonl").read_text().splitlines()
    assert sum(len(json.loads(line)["drifts"]) for line in lines) == 2
    quiet = CliRunner().invoke(cli, ["learn", source, *options, "--on-drift", "ignore"])
    assert quiet.exit_code == 0 and "rose" not in quiet.stderr
    refused = CliRunner().invoke(cli, ["learn", source, "--on-drift", "publish"])
    assert refused.exit_code == 2 and "--on-drift publish requires --publish" in refused.stderr


def test_report_files_have_the_drifts(tmp_path: Path) -> None:
    report = report_of()
    report.write(tmp_path / "r.jsonl")
    lines = [json.loads(text) for text in (tmp_path / "r.jsonl").read_text().splitlines()]
    written = [Drift(**drift) for line in lines for drift in line["drifts"]]
    assert written == report.drifts
    figure = plot.figure(report.lines, report.loss_name, "")
    for axes in figure.axes:
        marks = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "-."]
        assert marks == [drift.since for drift in report.drifts]


def test_publisher_publishes_at_a_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = ModelPublisher.__new__(ModelPublisher)  # without a broker
    published: list[None] = []
    monkeypatch.setattr(publisher, "_publish", lambda: published.append(None))
    drift = Drift(2048, 2000, 0.3, 0.9)
    publisher.on_drift(drift, "log")
    assert publisher.publishes and not published
    publisher.on_drift(drift, "publish")
    assert len(published) == 1
