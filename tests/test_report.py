"""The report: its figures compared with slow sums, its table, its files."""

from __future__ import annotations

import itertools
import json
import math
import struct
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg

import streaml1
from streaml1.optim import losses as kernels
from streaml1.training.report import Line, Report, line_after, losses, plot, window
from streaml1.training.report.running_quantile import RunningQuantile
from tests import reference

CLASSIFIERS = ("logistic", "hinge", "smoothed_hinge", "squared_hinge")
REGRESSORS = ("squared", "absolute", "huber", "quantile", "poisson")


def stream(loss: str, n: int = 500, rate: float = 0.4) -> tuple[Any, Any, Any]:
    """Return predictions, labels and sample weights."""
    rng = np.random.default_rng(7)
    w = rng.choice([0.0, 1.0, 2.5], n)
    if loss == "poisson":
        means = np.exp(rng.normal(0.5, 0.5, n))
        return means, rng.poisson(means).astype(float), w
    if loss in REGRESSORS:
        y = rng.normal(3.0, 1.0, n)
        return y + rng.normal(0.0, 0.5, n), y, w
    y = rng.random(n) < rate
    margin = np.where(y, 1.0, -1.0) + rng.normal(0.0, 1.5, n)
    return (1.0 / (1.0 + np.exp(-margin)) if loss == "logistic" else margin), y, w


def baseline(loss: str, n: float, total: float) -> float:
    """Return the prediction of the baseline, found by search for the hinges."""
    if loss in REGRESSORS and loss != "poisson":
        return total / n if n else 0.0
    rate = (total + 0.5) / (n + 1.0)
    if loss in ("logistic", "poisson"):
        return rate
    margins = np.linspace(-1.5, 1.5, 30_001)
    mean = rate * losses(loss, margins, True) + (1 - rate) * losses(loss, margins, False)
    best = np.flatnonzero(mean <= mean.min() + 1e-12)
    return float(margins[best].mean())  # the hinge has several at a rate of 1/2


@pytest.mark.parametrize("every", [None, 1, 7, 1000])
def test_line_after(every: int | None) -> None:
    line_ends = [line_after(0, every)]
    while line_ends[-1] < 1000 * (every or 10_000):
        counts = range(line_ends[-1], line_after(line_ends[-1], every), every or 100)
        assert {line_after(n, every) for n in counts} == {line_after(line_ends[-1], every)}
        line_ends.append(line_after(line_ends[-1], every))
    if every is not None:
        assert line_ends == [every * k for k in range(1, 1001)]
    else:
        steps = [10**power for power in range(3, 7)]
        assert line_ends == [
            step * k for step in steps for k in range(1 if step == 1000 else 2, 11)
        ]


@pytest.mark.parametrize("loss", [*CLASSIFIERS, *REGRESSORS])
def test_losses_match_the_models(loss: str) -> None:
    code = kernels.CODES[loss]
    margins = [-1e4, -30.0, -2.0, -1.0, -0.3, 0.0, 0.5, 1.0, 1.7, 30.0, 1e4]
    for a in margins:
        if loss in ("logistic", "poisson") and abs(a) > 30.0:
            continue  # a probability so close to 0 or 1 does not determine its margin
        for y in (False, True) if loss in CLASSIFIERS else (-1.5, 0.0, 2.0):
            sign = (1.0 if y else -1.0) if loss in CLASSIFIERS else y
            p = np.array([kernels.output(code, a)])
            expected = kernels.value(code, a, sign, 0.7)
            assert losses(loss, p, np.array([y]), 0.7)[0] == pytest.approx(
                expected, rel=1e-3, abs=1e-12
            )


def test_correct_certainty_costs_zero() -> None:
    """It must not be the negative zero of a logarithm, which prints as -0.0000."""
    cost = losses("softmax", np.array([[1.0, 0.0]]), np.array([0]))
    assert cost.tolist() == [0.0] and not np.signbit(cost[0])


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_wrong_certainty_costs_as_in_river(p: float) -> None:
    from river import metrics

    y = p == 0.0
    metric = metrics.LogLoss()
    metric.update(y, p)
    expected = metric.get()
    assert losses("logistic", np.array([p]), np.array([y]))[0] == pytest.approx(expected)
    assert 34.5 < expected < 34.6


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [*CLASSIFIERS, *REGRESSORS])
def test_sums_equal_a_loop_over_the_examples(loss: str, weighted: bool) -> None:
    p, y, w = stream(loss, 300)
    w = w if weighted else np.ones(len(p))
    n = total = sum_loss = sum_constant = sum_error = 0.0
    quantile = reference.RunningQuantile(0.8)
    for i in range(len(p)):
        constant = quantile.estimate if loss == "quantile" else baseline(loss, n, total)
        row = slice(i, i + 1)
        sum_loss += w[i] * losses(loss, p[row], y[row], 0.8)[0]
        sum_constant += w[i] * losses(loss, np.array([constant]), y[row], 0.8)[0]
        if w[i] > 0.0:
            quantile.add(float(y[i]))
        if loss in REGRESSORS:
            sum_error += w[i] * abs(p[i] - y[i])
        else:
            sum_error += w[i] * ((p[i] > (0.5 if loss == "logistic" else 0.0)) != y[i])
        n += w[i]
        total += w[i] * float(y[i])
    report = Report(loss, loss_parameter=0.8)
    report.add(p, y, w if weighted else None)
    line = report.line()
    assert line.loss == pytest.approx(sum_loss / n, rel=1e-12)
    assert line.constant_loss == pytest.approx(sum_constant / n, rel=1e-4)
    assert line.error == pytest.approx(sum_error / n, rel=1e-12)
    assert line.recent_loss == line.loss
    assert line.cumulative_loss == report.cumulative_loss == pytest.approx(sum_loss, rel=1e-12)
    assert line.cumulative_constant_loss == pytest.approx(sum_constant, rel=1e-4)


@pytest.mark.parametrize("loss", [*CLASSIFIERS, *REGRESSORS])
def test_sums_do_not_depend_on_the_blocks(loss: str) -> None:
    p, y, w = stream(loss, rate=0.05)
    whole, split = Report(loss), Report(loss)
    whole.add(p, y, w)
    for lo, hi in ((0, 1), (1, 7), (7, 7), (7, 300), (300, 500)):
        split.add(p[lo:hi], y[lo:hi], w[lo:hi])
    clock = {"seconds": 0.0, "per_second": 0.0}
    assert replace(whole.line(), **clock) == replace(split.line(), **clock)


@given(
    st.floats(0.01, 0.99),
    st.lists(st.sampled_from([-2.0, 0.0, 0.5, 1.0, 3.0]) | st.floats(-1e3, 1e3), max_size=60),
)
def test_running_quantile_matches_the_reference(tau: float, numbers: list[float]) -> None:
    y, expected, twin = np.array(numbers, np.float64), [], reference.RunningQuantile(tau)
    for number in numbers:
        expected.append(twin.estimate)
        twin.add(number)
    found = RunningQuantile(tau).add(y, np.ones(len(y)))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("tau", [0.05, 0.5, 0.9])
def test_running_quantile_is_close_to_the_quantile(tau: float) -> None:
    y = np.random.default_rng(3).exponential(2.0, 20_000)
    found = RunningQuantile(tau).add(y, np.ones(len(y)))[-1]
    assert np.mean(y <= found) == pytest.approx(tau, abs=0.01)


def test_quantile_baseline_continues_from_a_checkpoint() -> None:
    p, y, _ = stream("quantile")
    whole, first = (Report("quantile", loss_parameter=0.9) for _ in range(2))
    whole.add(p, y)
    first.add(p[:200], y[:200])
    second = Report("quantile", loss_parameter=0.9)
    second.load_state_dict(*first.state_dict())
    second.add(p[200:], y[200:])
    assert second.line().constant_loss == whole.line().constant_loss
    second.restart(2)
    second.add(p[:1], y[:1])
    assert second.sums[2] == 0.9 * y[0]  # the baseline predicts 0 before the first example


def test_recent_loss_covers_the_last_line() -> None:
    report = Report("hinge")
    report.add([1.0, -1.0], [True, True])
    assert report.line().recent_loss == 1.0
    report.add([1.0, 1.0], [True, True])
    line = report.line()
    assert (line.recent_loss, line.loss, line.examples, line.error) == (0.0, 0.5, 4, 0.25)


def test_examples_without_weight_have_no_mean() -> None:
    report = Report("logistic")
    report.add([0.5], [True], [0.0])
    line = report.line()
    assert line.examples == 1
    assert line.loss is line.constant_loss is line.error is line.recent_loss is None
    assert " - " in report.table()


class CountedModel:
    n_nonzero, n_features_seen = 30, 120


def test_sparsity_and_share_of_all_features() -> None:
    report = Report("logistic", d=1000)
    report.add([0.5], [True])
    line = report.line(CountedModel())
    assert (line.n_nonzero, line.n_features_seen, line.sparsity) == (30, 120, 0.75)
    assert line.share_of_d == 0.03
    assert "30 non-zero weights of 120 features seen, 75.0% sparse (3.00% of all 1,000" in repr(
        report
    )


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (streaml1.ElasticNetClassifier(l1=0.05, lr=1.0), "logistic"),
        (streaml1.SoftmaxClassifier(strength=0.05, lr=1.0, classes=[False, True]), "softmax"),
    ],
)
def test_followed_model_is_counted_consistently(model: Any, loss: str) -> None:
    """The change tracker and the model's own properties agree."""
    followed, alone = Report(loss, d=20, k=2), Report(loss, d=20, k=2)
    followed.follow(model)
    for i in range(60):
        model.learn_one({f"f{i * i % 19}": 1.0, f"g{i % 3}": 0.5}, i % 2 == 0)
        if i % 20 == 19:
            for report in (followed, alone):
                report.add([[0.5, 0.5]] if loss == "softmax" else [0.5], [True])
            tracked, counted = followed.line(model), alone.line(model)
            for name in ("n_nonzero", "n_nonzero_rows", "sparsity", "share_of_d"):
                assert getattr(tracked, name) == getattr(counted, name), name
            assert tracked.n_nonzero and counted.born is None
    assert followed.lines[-1].died


@pytest.mark.parametrize("loss", CLASSIFIERS)
@pytest.mark.parametrize("rate", [0.03, 0.97])
def test_skewed_labels(loss: str, rate: float) -> None:
    from sklearn.metrics import roc_auc_score

    p, y, _ = stream(loss, 4000, rate)
    p = np.round(p, 2)  # ties
    report = Report(loss)
    report.add(p, y)
    line = report.line()
    assert line.auc == pytest.approx(roc_auc_score(y, p), abs=1e-12)
    if loss != "logistic":
        assert line.mean_prediction is line.rate is line.normalised_entropy is None
        assert line.calibration is line.recent_calibration is None
        return
    share = y.mean()
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    assert line.mean_prediction == pytest.approx(p.mean())
    assert line.rate == pytest.approx(share)
    assert line.loss is not None
    assert line.normalised_entropy == pytest.approx(line.loss / entropy)
    assert "ROC AUC" in report.table() and "normalised" in report.table()
    assert "ROC AUC" in report.summary() and "last 2^20 examples" in report.summary()


def test_balanced_labels_have_no_extra_columns() -> None:
    p, y, _ = stream("logistic")
    report = Report("logistic")
    report.add(p, y)
    line = report.line()
    assert line.auc is line.normalised_entropy is None
    assert line.mean_prediction == pytest.approx(p.mean())
    assert line.rate == pytest.approx(y.mean())
    assert "AUC" not in report.table()


@pytest.mark.parametrize("rate", [0.03, 0.4])
def test_calibration_is_the_ratio_of_weighted_means(rate: float) -> None:
    p, y, w = stream("logistic", 3000, rate)
    report = Report("logistic")
    ends = [0, 1000, 1500, 3000]
    for lo, hi in itertools.pairwise(ends):
        report.add(p[lo:hi], y[lo:hi], w[lo:hi])
        line = report.line()
        for value, rows in (
            (line.calibration, slice(0, hi)),
            (line.recent_calibration, slice(lo, hi)),
        ):
            predicted = sum(a * b for a, b in zip(w[rows], p[rows], strict=True))
            observed = sum(a * b for a, b in zip(w[rows], y[rows], strict=True))
            assert value == pytest.approx(predicted / observed, rel=1e-12)
    recent = report.lines[-1].recent_calibration
    assert not report.finish() and report.lines[-1].recent_calibration == recent
    assert f"{line.calibration:.3f}" in report.table().split("\n")[-1]
    assert f"; calibration {line.calibration:.3f}" in report.summary()
    assert ("mean prediction" in report.summary()) == (rate == 0.03)
    assert report.calibration_sums == pytest.approx((w @ p, w @ y))


def test_calibration_of_many_labels_compares_confidence_with_accuracy() -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet([1.0, 2.0, 3.0], 400)
    y, w = rng.integers(0, 3, 400), rng.choice([0.0, 1.0, 2.5], 400)
    report = Report("softmax", k=3)
    report.add(p, y, w)
    line = report.line()
    confidence = sum(b * max(a) for a, b in zip(p, w, strict=True))
    right = sum(c for a, b, c in zip(p, y, w, strict=True) if max(a) == a[b])
    assert line.calibration == line.recent_calibration == pytest.approx(confidence / right)
    assert line.error is not None and right / w.sum() == pytest.approx(1.0 - line.error)
    assert f"calibration {line.calibration:.3f};" in report.summary() + ";"
    assert line.mean_prediction is line.rate is None and report.reliability() == []


def test_calibration_without_a_true_label_is_undefined() -> None:
    report = Report("logistic")
    report.add([0.5, 0.2], [False, False])
    assert report.line().calibration is report.lines[0].recent_calibration is None
    report.add([0.5, 0.8], [True, False])
    line = report.line()
    assert (line.calibration, line.recent_calibration) == pytest.approx((2.0, 1.3))


def test_state_of_an_older_version_keeps_its_calibration() -> None:
    p, y, w = stream("logistic")
    report, resumed = Report("logistic"), Report("logistic")
    report.add(p, y, w)
    facts, arrays = json.loads(json.dumps(report.state_dict()[0])), report.state_dict()[1]
    for sums in ("all", "recent"):
        del facts[sums]["label"]
    resumed.load_state_dict(facts, arrays)
    assert resumed.line().calibration == report.line().calibration


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0]), st.booleans()), max_size=60),
    st.integers(1, 12),
)
def test_reliability_bins_partition_the_examples(
    examples: list[tuple[float, bool]], n_bins: int
) -> None:
    report = Report("logistic")
    report.add([p for p, _ in examples], [y for _, y in examples])
    bins = report.reliability(n_bins)
    assert len(bins) <= n_bins and sum(b.examples for b in bins) == len(examples)
    for b in bins:
        held = [(p, y) for p, y in examples if b.low <= p <= b.high]
        assert len(held) == b.examples > 0  # equal predictions are in one bin
        assert b.mean_prediction == pytest.approx(sum(p for p, _ in held) / len(held))
        assert b.rate == sum(y for _, y in held) / len(held)
        r = (sum(y for _, y in held) + 0.5) / (len(held) + 1)
        assert b.standard_error == pytest.approx(math.sqrt(r * (1 - r) / len(held)))
    assert all(a.high < b.low for a, b in itertools.pairwise(bins))


def test_reliability_bins_are_of_equal_size_and_omit_nan() -> None:
    p, y, _ = stream("logistic", 1000, 0.03)
    p[17] = math.nan
    report = Report("logistic")
    report.add(p, y)
    assert sum(b.examples for b in report.reliability()) == 999
    assert {b.examples for b in report.reliability()} <= {99, 100}
    assert Report("hinge").reliability() == Report("squared").reliability() == []


def test_single_label_has_no_auc_and_no_entropy() -> None:
    report = Report("logistic")
    report.add([0.1, 0.2], [False, False])
    line = report.line()
    assert (line.auc, line.normalised_entropy, line.rate) == (None, None, 0.0)


def test_auc_covers_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.metrics import roc_auc_score

    monkeypatch.setattr(window, "WINDOW", 100)
    p, y, _ = stream("logistic", 1000, 0.04)
    report = Report("logistic")
    for lo in (0, 30, 90, 480):  # the last block is larger than the window
        hi = {0: 30, 30: 90, 90: 480, 480: 1000}[lo]
        report.add(p[lo:hi], y[lo:hi])
    assert report.line().auc == pytest.approx(roc_auc_score(y[-100:], p[-100:]))


def test_auc_is_not_recomputed_for_a_few_examples() -> None:
    p, y, _ = stream("logistic", 4001, 0.04)
    report = Report("logistic")
    report.add(p[:4000], y[:4000])
    assert report.line().auc is not None
    report.add(p[4000:], y[4000:])
    assert report.line().auc is None
    assert not report.finish()  # no new line, but the last one is complete
    assert report.lines[-1].auc is not None


def test_corrected_label_changes_the_auc() -> None:
    from sklearn.metrics import roc_auc_score

    p, y, _ = stream("logistic", 4000, 0.04)
    report = Report("logistic")
    report.add(p, y)
    auc_before = report.line().auc
    corrected = int(np.flatnonzero(~y)[0])
    report.correct(corrected, float(p[corrected]), 1.0, 1.0)
    y[corrected] = True
    report.finish()
    assert report.lines[-1].auc == pytest.approx(roc_auc_score(y, p), abs=1e-12) != auc_before


@given(st.lists(st.tuples(st.sampled_from([-1.0, 0.0, -0.0, 0.5, math.inf]), st.booleans())))
def test_auc_is_the_share_of_pairs_in_order(examples: list[tuple[float, bool]]) -> None:
    p, y = np.array([a for a, _ in examples]), np.array([b for _, b in examples], bool)
    pairs = [(a > b) + (a == b) / 2 for a in p[y] for b in p[~y]]
    expected = sum(pairs) / len(pairs) if pairs else None
    assert window.area_under(p, y) == expected
    if pairs:
        assert math.isnan(window.area_under(np.append(p, math.nan), np.append(y, True)) or 0.0)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.floats(0, 1e6)), min_size=1))
def test_any_stream_gives_a_report(examples: list[tuple[float, bool, float]]) -> None:
    p, y, w = map(np.array, zip(*examples, strict=True))
    report = Report("logistic")
    report.add(p, y, w)
    line = report.line()
    assert line.loss is None or 0.0 <= line.loss < 35.0
    assert line.error is None or 0.0 <= line.error <= 1.0 + 1e-9
    assert report.table() and report.summary()


def make_line(**changes: Any) -> Line:
    line = Line(
        examples=12_000,
        loss_name="log-loss",
        recent_loss=0.51234,
        loss=0.6,
        constant_loss=0.68,
        error=0.2512,
        n_nonzero=131,
        n_features_seen=46_876,
        sparsity=0.9972,
        share_of_d=None,
        born=None,
        died=None,
        cut=None,
        auc=None,
        mean_prediction=None,
        rate=None,
        normalised_entropy=None,
        refused=0,
        seconds=1.0,
        per_second=12_345.6,
    )
    return replace(line, **changes)


def test_table() -> None:
    report = Report("logistic")
    line = make_line(calibration=1.0212, recent_calibration=0.9529)
    changes: dict[str, Any] = {"n_nonzero": None, "sparsity": None, "recent_calibration": None}
    report.lines = [line, replace(line, examples=1_200_000, **changes)]
    assert report.table().split("\n") == [
        "          log-loss log-loss                   calibr. calibr.     non- features"
        "              per",
        " examples (recent)    (all)  baseline  error (recent)   (all)    zeros     seen"
        " sparsity  second",
        "   12,000   0.5123   0.6000    0.6800  25.1%    0.953   1.021      131   46,876"
        "    99.7%  12,346",
        "1,200,000   0.5123   0.6000    0.6800  25.1%        -   1.021        -   46,876"
        "        -  12,346",
    ]
    assert max(map(len, report.table().split("\n"))) < 98


def test_cumulative_column_is_optional() -> None:
    report = Report("logistic")
    report.lines = [make_line(cumulative_loss=7200.04), make_line(cumulative_loss=None)]
    heads = report.header(cumulative=True).split("\n")
    place = heads[1].index("(cumul.)") + len("(cumul.)")
    rows = report.table(cumulative=True).split("\n")[2:]
    assert rows == [report.row(line, cumulative=True) for line in report.lines]
    assert [row[:place].split()[-1] for row in rows] == ["7,200.0", "-"]
    assert "(cumul.)" not in report.table()


def test_rows_align_with_the_header() -> None:
    for loss in (*CLASSIFIERS, *REGRESSORS):
        report = Report(loss)
        header = report.header(rejected=True, skewed=True).split("\n")
        row = report.row(make_line(), rejected=True, skewed=True)
        assert max(map(len, header)) == len(row), loss
        report.lines = [make_line(refused=1, auc=0.5)]
        assert report.table() == "\n".join([*header, report.row(report.lines[0], True, True)])


@pytest.mark.parametrize("loss", CLASSIFIERS + REGRESSORS)
def test_only_the_logistic_loss_is_called_log_loss(loss: str) -> None:
    report = Report(loss)
    report.add([0.5], [1.0])
    line = report.line()
    for text in (report.table(), repr(report), line.loss_name):
        assert ("log-loss" in text) == (loss == "logistic")


def test_repr_describes_the_last_line() -> None:
    report = Report("logistic")
    assert repr(report) == "<Report of no examples>"
    report.lines = [make_line(refused=2)]
    assert repr(report) == (
        "<Report of 12,000 examples: log-loss 0.6000 (baseline 0.6800); error 25.1%; "
        "131 non-zero weights of 46,876 features seen, 99.7% sparse; 2 rejected>"
    )


def test_invalid_arguments() -> None:
    with pytest.raises(ValueError, match="loss must be one of logistic"):
        Report("log")
    with pytest.raises(ValueError, match="2 predictions, 1 labels and 2 weights"):
        Report("logistic").add([0.5, 0.5], [True])


# Files


def small_report() -> Report:
    report = Report("logistic", "stdlib: ElasticNetClassifier(l1=0.1)")
    p, y, _ = stream("logistic")
    for lo in range(0, 500, 100):
        report.add(p[lo : lo + 100], y[lo : lo + 100])
        report.line(CountedModel())
    return report


def test_json_lines(tmp_path: Path) -> None:
    report = small_report()
    report.write(tmp_path / "r.jsonl")
    lines = [json.loads(text) for text in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert lines == [line.as_dict() for line in report.lines]
    assert list(lines[0])[:5] == ["examples", "loss_name", "recent_loss", "loss", "constant_loss"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["a$\\frac$.vw", "\udcff.vw", "日本.vw", "a\tb\n\0.vw"])
def test_any_file_name_can_be_a_plot_title(tmp_path: Path, name: str) -> None:
    report = small_report()
    report.title = f"{name}: ElasticNetClassifier()"
    for kind in ("png", "svg", "pdf"):
        report.plot(tmp_path / f"r.{kind}")
        assert (tmp_path / f"r.{kind}").stat().st_size > 1_000
    title = plot.figure(report.lines, report.loss_name, report.title).axes[0].get_title("left")
    assert title == report.title.replace("\udcff", "\\udcff").replace("$", r"\$")


def test_infinity_is_null_in_json(tmp_path: Path) -> None:
    report = Report("squared")
    report.add([1e200], [0.0])
    assert report.line().loss == math.inf
    assert "inf" in report.table()
    report.write(tmp_path / "r.jsonl")
    assert json.loads((tmp_path / "r.jsonl").read_text())["loss"] is None
    report.plot(tmp_path / "r.png")


def test_plot(tmp_path: Path) -> None:
    report = small_report()
    report.plot(tmp_path / "r.png")
    head = (tmp_path / "r.png").read_bytes()[:24]
    assert head[1:4] == b"PNG" and struct.unpack(">II", head[16:]) == (1200, 800)
    report.plot(str(tmp_path / "r.svg"))
    figure = plot.figure(report.lines, report.loss_name, report.title)
    top, middle, bottom = figure.axes
    assert middle.get_ylabel() == "cumulative log-loss"
    assert [list(line.get_ydata()) for line in middle.lines] == [
        [line.cumulative_constant_loss for line in report.lines],
        [line.cumulative_loss for line in report.lines],
    ]
    assert top.get_ylabel() == "mean log-loss so far"
    assert bottom.get_ylabel() == "non-zero weights" and bottom.get_xlabel() == "examples"
    assert [line.get_label() for line in top.lines] == ["baseline", "model"]
    assert list(bottom.lines[0].get_ydata()) == [30] * 5
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.png", "r.svg"]


def test_plot_of_calibration_and_reliability() -> None:
    report = small_report()
    bins = report.reliability()
    figure = plot.figure(report.lines, report.loss_name, report.title, bins)
    _, _, _, calibration, reliability = figure.axes
    by_label = {line.get_label(): list(line.get_ydata()) for line in calibration.lines}
    assert by_label["so far"] == [line.calibration for line in report.lines]
    assert by_label["since the previous line"] == [li.recent_calibration for li in report.lines]
    drawn = reliability.containers[0].lines[0]
    assert list(drawn.get_xdata()) == [b.mean_prediction for b in bins]
    assert list(drawn.get_ydata()) == [b.rate for b in bins]
    assert len(bins) == 10 and reliability.get_xlim() == reliability.get_ylim()
    # With several labels there is no diagram.
    assert len(plot.figure(report.lines, report.loss_name, "", []).axes) == 4


def test_plot_marks_the_passes() -> None:
    report = small_report()
    lines = [
        replace(li, pass_number=1 + k // 2, held_out=k > 1) for k, li in enumerate(report.lines)
    ]
    figure = plot.figure(lines, report.loss_name, "", report.reliability())
    for axes in figure.axes[:4]:
        marks = [line for line in axes.lines if line.get_linestyle() == ":"]
        assert [line.get_xdata()[0] for line in marks] == [200, 400]
    assert [text.get_text() for text in figure.axes[0].texts] == [" held-out rows"]
    plain = plot.figure(report.lines, report.loss_name, "")
    assert not plain.axes[0].texts and len(plain.axes[0].lines) == 2


def test_plot_of_a_model_that_has_diverged(tmp_path: Path) -> None:
    report = Report("logistic")
    report.add([math.nan, 0.3], [True, False])
    report.line()
    report.plot(tmp_path / "r.png")
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")


def test_plot_of_a_model_without_counts(tmp_path: Path) -> None:
    report = Report("hinge")
    report.add([0.5], [True])
    report.line()
    report.plot(tmp_path / "r.png")
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    top, _, bottom = plot.figure(report.lines, "hinge", "").axes
    assert len(top.lines) == 2 and np.isnan(bottom.lines[0].get_ydata()).all()


def test_plot_of_one_line_has_integer_axes() -> None:
    report = Report("hinge")
    report.add([0.5] * 3, [True] * 3)
    model = streaml1.ElasticNetClassifier()
    model.learn_one({"a": 1.0, "b": 1.0}, True)
    report.line(model)
    figure = plot.figure(report.lines, "hinge", "")
    FigureCanvasAgg(figure).draw()
    for axis in (figure.axes[2].xaxis, figure.axes[2].yaxis):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        assert len(set(labels)) == len(labels) and all(label.isdecimal() for label in labels)


def test_output_in_a_missing_directory(tmp_path: Path) -> None:
    report = Report(loss="logistic")
    report.add([0.5], [1.0])
    report.line()
    path = tmp_path / "missing" / "run.png"
    for write in (report.plot, report.write, report.write_reliability):
        with pytest.raises(FileNotFoundError) as raised:
            write(path)
        assert str(raised.value) == (
            f"{path} cannot be written: there is no such directory; create it first"
        )


def test_summary_of_one_feature(tmp_path: Path) -> None:
    model = streaml1.ElasticNetClassifier(lr=0.5)
    (tmp_path / "one.svm").write_text("1 1:1\n")
    shown = streaml1.progressive(model, tmp_path / "one.svm").summary()
    assert "1 non-zero weight of 1 feature seen, 0.0% sparse" in shown


def test_plot_requires_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    with pytest.raises(RuntimeError, match=r"pip install 'streaml1\[plot\]'"):
        small_report().plot(tmp_path / "r.png")


@pytest.mark.parametrize("name", ["r.foo", "r"])
def test_plot_needs_an_image_extension(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.png"):
        small_report().plot(tmp_path / name)


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "r.jsonl"
    old.write_text("old")

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        small_report().write(old)
    assert old.read_text() == "old" and list(tmp_path.iterdir()) == [old]


def test_symlinks_are_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "r.jsonl")
    small_report().write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "r.jsonl").stat().st_size > 0
