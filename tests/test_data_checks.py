"""Warnings about data, and the sample of typical sizes behind them."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner, Result
from river import preprocessing

import streaml1
from streaml1.cli import cli
from streaml1.cli.weight_tables import extreme_weights_table, weight_text
from streaml1.text.parsed_rows import IntRows
from streaml1.training import feature_sizes
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.data_checks import DataChecks
from streaml1.training.feature_sizes import FeatureSizes, largest_size

Example = tuple[dict[Any, Any], bool]


pytestmark = pytest.mark.usefixtures("cwd")


def usual_examples(n: int, seed: int = 1) -> list[Example]:
    """Return examples whose labels follow feature 1, with values of about 1."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    a, b = np.where(y, 1.5, 0.5) + 0.3 * rng.random(n), 0.5 + rng.random(n)
    return [({1: float(s), 2: float(t)}, bool(label)) for s, t, label in zip(a, b, y, strict=True)]


def as_svm(examples: list[Example], name: str = "a.svm") -> str:
    lines = [f"{int(y)} " + " ".join(f"{k}:{v!r}" for k, v in x.items()) for x, y in examples]
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def as_vw(examples: list[Example], name: str = "a.vw") -> str:
    lines = [f"{int(y)} | " + " ".join(f"f{k}:{v!r}" for k, v in x.items()) for x, y in examples]
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def as_rows(examples: list[Example]) -> str:
    streaml1.training.convert(as_vw(examples), "a.rows")
    return "a.rows"


def as_csv(examples: list[Example], name: str = "a.csv") -> str:
    lines = ["y,f1,f2", *(f"{int(y)},{x.get(1, '')},{x.get(2, '')}" for x, y in examples)]
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def as_dense(examples: list[Example]) -> tuple[np.ndarray, list[bool]]:
    return np.array([[0.0, x.get(1, 0.0), x.get(2, 0.0)] for x, _ in examples]), [
        y for _, y in examples
    ]


def as_csr(examples: list[Example]) -> tuple[Any, list[bool]]:
    x, y = as_dense(examples)
    return sp.csr_matrix(x), y


def as_frame(examples: list[Example]) -> tuple[Any, list[bool]]:
    import pandas as pd

    x, y = as_dense(examples)
    return pd.DataFrame({"f1": x[:, 1], "f2": x[:, 2], "s": "text"}), y


def as_texts(examples: list[Example]) -> list[Example]:
    """Return dicts with a text, a bool and a missing value as well."""
    return [({"s": "text", "t": True, "none": None, **x}, y) for x, y in examples]


SOURCES: dict[str, tuple[Callable[[list[Example]], Any], str, Hashable]] = {
    "svm": (as_svm, "a.svm:1501", 2),
    "vw": (as_vw, "a.vw:1501", "f2"),
    "rows": (as_rows, "a.vw:1501", "f2"),
    "csv": (as_csv, "a.csv:1502", "f2"),
    "dense": (as_dense, "rows:1501", 2),
    "csr": (as_csr, "rows:1501", 2),
    "frame": (as_frame, "rows:1501", "f2"),
    "dicts": (lambda examples: examples, "examples:1501", 2),
    "texts": (as_texts, "examples:1501", 2),
}


def options_of(source: Any) -> dict[str, Any]:
    return {"target": "y"} if str(source).endswith(".csv") else {}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_large_value_is_reported_once_with_its_place(
    kind: str, sign: float, caplog: pytest.LogCaptureFixture
) -> None:
    make, place, name = SOURCES[kind]
    examples = usual_examples(2000)
    for k in (1500, 1700):
        examples[k] = ({1: 1.0, 2: sign * 4000.0}, examples[k][1])
    source = make(examples)
    report = streaml1.progressive(
        streaml1.ElasticNetClassifier(lr=1e-6), source, **options_of(source)
    )
    expected = f"{place}: the value 4000 of {name!r} is far larger than usual (about 1"
    assert [record.getMessage()[: len(expected)] for record in caplog.records] == [expected]
    assert list(report.warnings) == ["large_value"]
    assert [line.examples for line in report.lines if line.warnings] == [2000]
    assert report.lines[-1].warnings == [caplog.records[0].getMessage()]
    report.write("r.jsonl")
    last = json.loads(Path("r.jsonl").read_text().splitlines()[-1])
    assert last["warnings"] == report.lines[-1].warnings


@pytest.mark.parametrize("kind", SOURCES)
def test_usual_data_are_silent(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    make, _, _ = SOURCES[kind]
    examples = usual_examples(12_000)
    examples[7000] = ({1: 1.0, 2: 600.0}, examples[7000][1])  # large, but not a thousand times
    source = make(examples)
    report = streaml1.progressive(
        streaml1.ElasticNetClassifier(lr=0.01), source, **options_of(source)
    )
    assert report.warnings == {} and not caplog.records
    assert all(line.warnings == [] for line in report.lines)


@pytest.mark.parametrize("kind", SOURCES)
def test_large_column_is_compared_with_itself(kind: str) -> None:
    make, place, _ = SOURCES[kind]
    examples = [({**x, 1: 5000.0 + x[1]}, y) for x, y in usual_examples(3000)]
    assert _kinds(make(examples)) == set()  # a ratio of 5,000 is not yet that of an id
    examples[1500] = ({1: 6e6, 2: 1.0}, True)
    warnings = _warnings(make(examples))
    assert set(warnings) == {"large_value"}
    assert warnings["large_value"].startswith(f"{place}: the value 6e+06 of ")
    assert "(about 5e+03)" in warnings["large_value"]


def _warnings(source: Any, **options: Any) -> dict[str, str]:
    model = streaml1.ElasticNetClassifier(lr=1e-9)
    return streaml1.progressive(model, source, **options_of(source), **options).warnings


def _kinds(source: Any, **options: Any) -> set[str]:
    return set(_warnings(source, **options)) - {"no_better"}


@pytest.mark.parametrize("kind", SOURCES)
def test_ids_and_times_are_reported_by_name(kind: str) -> None:
    make, _, name = SOURCES[kind]
    examples = [({1: x[1], 2: 1.7e9 + k}, y) for k, (x, y) in enumerate(usual_examples(1500))]
    warnings = _warnings(make(examples))
    assert set(warnings) == {"unequal_sizes"}
    assert f"values of {name!r} are about 1.7e+09, those of " in warnings["unequal_sizes"]
    assert f"if {name!r} is an id or a time" in warnings["unequal_sizes"]


@pytest.mark.parametrize(
    ("model", "scales"),
    [
        (streaml1.ElasticNetClassifier(), True),
        (streaml1.FTRLClassifier(), True),
        (streaml1.ElasticNetClassifier(lr=1e-9), False),
        (streaml1.FTRLClassifier(alpha=1e-9), False),
    ],
    ids=["auto", "ftrl", "lr", "alpha"],
)
def test_models_that_scale_do_not_ask_for_it(model: Any, scales: bool) -> None:
    examples = [({1: x[1], 2: 1.7e9 + k}, y) for k, (x, y) in enumerate(usual_examples(1500))]
    warning = streaml1.progressive(model, examples).warnings["unequal_sizes"]
    assert warning.endswith("treat it as a category") == scales
    assert warning.endswith("treat it as a category; else scale it to about 1") != scales


def test_one_hot_features_and_rare_ones_are_equal_enough() -> None:
    examples: list[Example] = [({f"w{k % 300}": 1.0, "v": 1.0}, k % 3 == 0) for k in range(2000)]
    examples[5] = ({"rare": 1e5, "v": 1.0}, True)  # fewer than ten: no typical size
    assert _kinds(examples) == {"large_value"}
    examples[5] = ({"v": 1.0}, True)
    assert _kinds(examples) == set()
    assert _kinds([({**x, "t": 20_000.0}, y) for x, y in examples]) == {"unequal_sizes"}


def test_large_sample_weight() -> None:
    examples: list[Any] = [
        (x, y, {"w": 1.0 + k % 3}) for k, (x, y) in enumerate(usual_examples(900))
    ]
    assert _kinds(examples) == set()
    examples[700] = (*examples[700][:2], {"w": 5000.0})
    warning = _warnings(examples, every=100)["large_weight"]
    assert warning.startswith("examples:701: the sample weight 5000 is far larger than usual")
    # A weight in the first block is compared with the block itself once there are enough.
    X, y = as_dense(usual_examples(400))
    w = np.ones(400)
    w[300] = 1e6
    assert "large_weight" not in _warnings((X, y, w))  # nothing was usual yet
    assert "rows:301" in _warnings((X, y, w), every=100)["large_weight"]


@pytest.mark.parametrize("label", [True, False])
def test_constant_label(label: bool) -> None:
    examples = [(x, label) for x, _ in usual_examples(12_000)]
    warning = _warnings(examples)["constant_label"]
    assert warning == (
        f"examples: all 10,000 labels are {label}: shuffle the examples, or check the label column"
    )
    assert _warnings(examples[:150])["constant_label"].startswith("examples: all 150 labels are")
    assert "constant_label" not in _warnings(examples[:99])
    examples[9000] = (examples[9000][0], not label)
    assert "constant_label" not in _warnings(examples)


def test_constant_label_of_other_kinds() -> None:
    x = [x for x, _ in usual_examples(200)]
    models: list[tuple[Any, Any]] = [
        (streaml1.ElasticNetRegressor(lr=1e-9), 2.5),
        (streaml1.SoftmaxClassifier(classes=["a", "b"]), "a"),
    ]
    for model, label in models:
        report = streaml1.progressive(model, [(row, label) for row in x])
        assert f"all 200 labels are {label!r}:" in report.warnings["constant_label"]
        report = streaml1.progressive(model, [(x[0], "b" if label == "a" else 1.5), (x[0], label)])
        assert not report.warnings


def test_two_kinds_of_negatives() -> None:
    """Labels -1, 0 and 1 are three classes more often than two."""
    labels: Any = [1, -1, 0] * 5
    examples: Any = [({1: 1.0}, y) for y in labels]
    X = np.ones((15, 1))
    for source in (as_vw(examples), as_csv(examples), examples, (X, labels), (X, np.array(labels))):
        (warning,) = _warnings(source).values()
        assert "some labels are 0, others -1, and both mean False: if they differ, use" in warning
    for labels in ([1, 0], [1, -1], [True, False], ["true", "0", "false"]):
        assert _kinds([({"a": 1.0}, y) for y in labels] * 5) == set()
    numbers = [({"a": 1.0}, float(y)) for y in (1, 0, -1)]
    assert streaml1.progressive(streaml1.ElasticNetRegressor(), numbers).warnings == {}


def test_model_no_better_than_the_baseline(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12_000, 3))
    y = rng.random(12_000) < 0.3  # independent of X
    bad = streaml1.ElasticNetClassifier(lr=0.3, schedule="constant")
    report = streaml1.progressive(bad, (X, y))
    assert list(report.warnings) == ["no_better"]
    warning = report.warnings["no_better"]
    assert warning.startswith("rows: after 10,000 examples the log-loss 0.")
    assert "is no better than that of the baseline, 0.6" in warning
    assert len(caplog.records) == 1
    report = streaml1.progressive(streaml1.ElasticNetRegressor(lr=0.3, schedule="constant"), (X, y))
    assert "squared loss" in report.warnings["no_better"]
    good = streaml1.progressive(streaml1.ElasticNetClassifier(lr=0.1), (X, X[:, 0] > 0.3))
    assert not good.warnings
    short = streaml1.progressive(bad.clone(), (X[:9_999], y[:9_999]))
    assert not short.warnings


def test_beginning_of_a_run_does_not_count() -> None:
    """A model that starts badly but learns is fine: the first 5,000 examples are left out."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12_000, 1))
    y = X[:, 0] > 0.0
    y[:2000] = ~y[:2000]
    model = streaml1.ElasticNetClassifier(lr=0.5, schedule="constant")
    report = streaml1.progressive(model, (X, y))
    assert not report.warnings


def test_checks_can_be_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    examples = [(x, True) for x, _ in usual_examples(500)]
    assert _kinds(examples, data_checks=False) == set() and not caplog.records
    checks = DataChecks()
    report = streaml1.progressive(streaml1.ElasticNetClassifier(), examples, observers=[checks])
    assert set(report.warnings) == {"constant_label"} and len(caplog.records) == 1
    with pytest.raises(ValueError, match="data_checks must be a bool, got 'no'"):
        streaml1.progressive(streaml1.ElasticNetClassifier(), examples, data_checks="no")


def test_rejected_rows_are_not_checked() -> None:
    examples = usual_examples(1000)
    examples[600] = ({1: 1e60}, True)  # no model accepts it
    report = streaml1.progressive(streaml1.ElasticNetClassifier(), examples, bad="skip")
    assert report.rejected == 1 and not report.warnings


def test_pipeline_and_delayed_labels_are_checked() -> None:
    examples = usual_examples(600)
    examples[500] = ({1: 1.0, 2: 1e7}, True)
    model = preprocessing.StandardScaler() | streaml1.ElasticNetClassifier()
    report = streaml1.progressive(model, examples)
    assert report.warnings["large_value"].startswith("examples:501: the value 1e+07 of 2 ")
    events = [{"id": k, "x": x} for k, (x, _) in enumerate(examples)]
    events += [{"id": k, "y": 1} for k in range(len(examples))]
    report = streaml1.progressive(streaml1.ElasticNetClassifier(), events, label_within=1e9)
    assert set(report.warnings) == {"large_value", "constant_label"}


def test_resumed_run_does_not_repeat_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    examples = usual_examples(3000)
    for k in (1500, 2500):
        examples[k] = ({1: 1.0, 2: 4000.0}, True)
    source = as_svm(examples)
    for limit in (2000, 3000):
        with Checkpoints("kept") as store:
            model = streaml1.ElasticNetClassifier() if limit == 2000 else store.latest().model
            report = streaml1.progressive(model, source, checkpoint=store, limit=limit)
    assert len(caplog.records) == 1 and set(report.warnings) == {"large_value"}
    assert [bool(line.warnings) for line in report.lines] == [False, True, False]


# Typical sizes


def test_mean_sizes_equal_a_loop() -> None:
    rng = np.random.default_rng(3)
    rows = [
        {
            f"f{k}": float(v)
            for k, v in zip(rng.choice(30, 5, False), rng.normal(size=5), strict=True)
        }
        for _ in range(600)
    ]
    sizes = FeatureSizes()
    seen = defaultdict(list)
    for lo in range(0, 600, 25):
        sizes.add(rows, lo, lo + 25)
    for row in rows:
        for name, value in row.items():
            seen[name].append(abs(value))
    names = sorted(seen)
    expected = [math.fsum(seen[name]) / len(seen[name]) for name in names]
    assert sizes.mean_sizes(names) == pytest.approx(expected)
    overall = math.fsum(v for row in rows for v in map(abs, row.values())) / 3000
    assert sizes.mean_sizes(["unknown", 7]) == pytest.approx([overall, overall])
    for name in names:
        ordered = sorted(seen[name])
        assert sizes.median_size((name,), 3) == ordered[len(ordered) // 2]
    assert sizes.median_size(("unknown",), 3) is None


def test_sample_is_bounded_and_spread_over_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_sizes, "MAX_PIECES", 8)
    sizes = FeatureSizes()
    for block in range(1000):
        sizes.add([{"block": block + 1.0}], 0, 1)
    blocks = [int(piece.sizes[0]) - 1 for piece in sizes._pieces]
    assert len(blocks) <= 8
    gaps = {b - a for a, b in zip(blocks, blocks[1:], strict=False)}
    assert blocks[0] == 0 and len(gaps) == 1 and blocks[-1] + 2 * gaps.pop() > 1000
    assert sizes.mean_sizes(["block"]) == pytest.approx([500], rel=0.2)


def test_pieces_are_of_bounded_size() -> None:
    rng = np.random.default_rng(1)
    dense = rng.normal(size=(50, 9))
    for x in (dense, sp.csr_matrix(dense), [dict(enumerate(row.tolist())) for row in dense]):
        size = 160 if isinstance(x, list) else 40
        entries = feature_sizes.sampled_entries(x, 3, 50, size)
        assert 9 <= len(entries.sizes) <= 48
        assert entries.sizes[:9].tolist() == np.abs(dense[3]).tolist()
        assert len(feature_sizes.sampled_entries(x, 3, 4, size).sizes) == 9


@pytest.mark.parametrize("kind", [np.uint64, np.uint32, np.int64])
def test_pieces_of_parsed_rows_do_not_keep_their_chunk(kind: type) -> None:
    ids, indptr = np.arange(100, dtype=kind), np.arange(0, 101, 10)
    entries = feature_sizes.sampled_entries(IntRows(ids, np.ones(100), indptr), 3, 10, 40)
    assert entries.keys.tolist() == [*range(30, 70)]
    assert entries.keys.base is None and entries.sizes.base is None


@pytest.mark.parametrize("kind", SOURCES)
def test_largest_sizes_equal_a_loop(kind: str) -> None:
    if isinstance(source := SOURCES[kind][0](usual_examples(60, seed=5)), str):
        options = {"target": "y"} if kind == "csv" else {}
        block = next(iter(streaml1.training.example_sources.open_examples(
            streaml1.sources.open_source(source, **options)
        ).blocks(1000, lambda *error: None)))  # fmt: skip
        x = block.x
    else:
        x = source[0] if isinstance(source, tuple) else [x for x, _ in source]
    found = largest_size(x, 10, 50, 1.2)
    expected: dict[str, tuple[float, int]] = {}
    for row, (features, _) in enumerate(usual_examples(60, seed=5)):
        for name, value in features.items():
            if 10 <= row < 50 and value > max(1.2, expected.get(str(name), (0.0, 0))[0]):
                expected[str(name)] = value, row
    assert {str(f.name).removeprefix("f"): (f.size, f.row) for f in found} == expected
    assert largest_size(x, 10, 50, 100.0) == []


# Weights in tables


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (0.43312, "+0.4331"), (-1.5, "-1.500"), (0.0, "+0.000"), (1234.4, "+1234"),
        (-0.000012345, "-1.234e-05"), (123456.0, "+1.235e+05"), (None, ""),
    ],
)  # fmt: skip
def test_weights_have_four_significant_digits(weight: float | None, text: str) -> None:
    assert weight_text(weight) == text


def test_features_are_ranked_by_effect() -> None:
    """A small weight on a large feature matters more than a larger one on a small feature."""
    model = streaml1.ElasticNetClassifier(lr=0.1, intercept_lr=0.0)
    rows = [{"large": 200.0, "small": 0.01, "other": 1.0}] * 3 + [{"cat": "x"}] * 3
    model.learn_one({"small": 40.0, "other": 10.0, "large": 1.0, "cat": "x"}, True)
    sizes = FeatureSizes()
    sizes.add(rows, 0, len(rows))
    effects = dict(zip(model.weights, sizes.mean_sizes(model.weights), strict=True))
    ranked = sorted(model.weights, key=lambda name: -model.weights[name] * effects[name])
    assert ranked != [name for name, _ in model.top_weights(4)]
    lines = extreme_weights_table(model, 3, sizes).splitlines()[1:]
    assert [line.split()[1] for line in lines] == ranked[:3]
    lines = extreme_weights_table(model, 3).splitlines()[1:]
    assert [line.split()[1] for line in lines] == [name for name, _ in model.top_weights(3)]


def test_lists_of_weights_may_differ_in_length() -> None:
    model = streaml1.ElasticNetClassifier(lr=0.1, intercept_lr=0.0)
    model.learn_one({"a": 1.0, "b": 2.0, "c": -3.0}, True)
    assert extreme_weights_table(model, 3).splitlines()[1:] == [
        " +0.1000  b         -0.1500  c",
        "+0.05000  a",
    ]


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args))


def test_learn_warns_and_ranks_by_effect() -> None:
    examples = [({1: x[1], 2: 3000.0 * x[2]}, y) for x, y in usual_examples(2000)]
    examples[1500] = ({1: 1.0, 2: 9e6}, True)
    source = as_vw(examples)
    result = run("learn", source, "--report", "r.jsonl")
    assert result.stderr.startswith("streaml1: a.vw:1501: the value 9e+06 of 'f2' is far larger")
    assert result.stderr.count("\n") == 1
    warnings = [json.loads(line)["warnings"] for line in Path("r.jsonl").read_text().splitlines()]
    assert warnings == [[], [result.stderr.removeprefix("streaml1: ").rstrip()]]


def test_warnings_are_events_in_the_json_log() -> None:
    source = as_svm([(x, True) for x, _ in usual_examples(150)])
    result = run("learn", source, "--log", "json")
    events = [json.loads(line) for line in result.stderr.splitlines()]
    (event,) = [event for event in events if event["event"] == "constant_label"]
    assert event["level"] == "warning" and "all 150 labels are True" in event["message"]
