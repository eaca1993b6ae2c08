"""Multiclass streams: training runs, reports and the command line."""

from __future__ import annotations

import json
import math
import re
import runpy
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from river import datasets, preprocessing
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import BadExample, SoftmaxClassifier
from streaml1.cli import cli
from streaml1.sources import class_label, open_source
from streaml1.training import evaluate, predictions
from streaml1.training.report import Report
from tests import reference

NAMES = ["north", "south", "east", "west"]
TRUTH = np.random.default_rng(1).normal(size=(12, 4)) * (np.arange(12) < 4)[:, None] * 3.0


def examples(n: int = 600) -> list[tuple[dict[str, float], str]]:
    """Return examples whose last label appears late."""
    random = np.random.default_rng(0)
    labelled = []
    for i in range(n):
        x = np.round(random.normal(size=12) * (random.random(12) < 0.5), 3)
        margins = x @ TRUTH + random.gumbel(size=4)
        margins[3] -= 1e9 * (i < n // 2)
        features = {f"f{j}": float(v) for j, v in enumerate(x) if v}
        labelled.append((features, NAMES[int(margins.argmax())]))
    return labelled


def expected_means(rows: list[Any], labels: list[Any], **params: Any) -> dict[str, float]:
    """Return the means of a report, computed example by example from the dense twin."""
    twin, labels = reference.Softmax(12, len(labels), **params), list(labels)
    counts, n = Counter[Any](), 0.0
    loss = constant = error = 0.0
    for x, y, w in rows:
        row = np.array([x.get(f"f{j}", 0.0) for j in range(12)])
        predicted = labels[int(twin.output(row).argmax())] if labels else None
        labels += [y] * (y not in labels)
        p = twin.learn(row, labels.index(y), w)[labels.index(y)]
        error += w * (predicted != y)
        loss -= w * math.log(p)
        constant -= w * math.log((counts[y] + 0.5) / (n + len(labels) / 2.0))
        counts[y] += w
        n += w
    return {"loss": loss / n, "constant_loss": constant / n, "error": error / n}


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("every", [7, 600])
def test_report_matches_manual_sums(declared: bool, every: int) -> None:
    labels = NAMES[::-1] if declared else []
    rows = [(x, y, (0.0, 1.0, 2.5)[i % 3]) for i, (x, y) in enumerate(examples())]
    model = SoftmaxClassifier(strength=1e-3, lr=0.5, classes=labels or None)
    report = streaml1.progressive(model, [(x, y, {"w": w}) for x, y, w in rows], every=every)
    line, expected = report.lines[-1], expected_means(rows, labels, strength=1e-3, lr=0.5)
    for name, value in expected.items():
        assert getattr(line, name) == pytest.approx(value, abs=1e-9), name
    assert line.loss < line.constant_loss < 1.5 and line.loss_name == "log-loss"
    assert line.n_nonzero == model.n_nonzero and line.n_nonzero_rows == len(model.weights) == 12
    assert line.sparsity == 1.0 - line.n_nonzero / 48
    assert line.auc is None and line.normalised_entropy is None
    assert len(report) == -(-600 // every) and "features" in report.table()


def test_report_does_not_depend_on_the_blocks() -> None:
    rows = examples(200)
    X = csr_matrix([[x.get(f"f{j}", 0.0) for j in range(12)] for x, _ in rows])
    y = np.array([name for _, name in rows])
    lines = []
    for source in (rows, (X, y), (X, y.tolist()), ([x for x, _ in rows], y)):
        report = streaml1.progressive(SoftmaxClassifier(), source, every=50)
        lines.append([(line.loss, line.constant_loss, line.error) for line in report.lines])
    assert lines[0] == lines[1] == lines[2] == lines[3]
    line = streaml1.progressive(SoftmaxClassifier(), (X, y)).lines[-1]
    assert line.share_of_d == line.n_nonzero / 48


def test_second_run_continues_with_the_known_labels() -> None:
    rows = examples(300)
    model = SoftmaxClassifier()
    streaml1.progressive(model, rows)
    line = streaml1.progressive(model, rows[:1]).lines[-1]
    assert line.constant_loss == pytest.approx(math.log(len(model.classes_met)))


def test_pipelines() -> None:
    model = preprocessing.StandardScaler() | SoftmaxClassifier(lr=0.3)
    line = streaml1.progressive(model, datasets.ImageSegments(), limit=700).lines[-1]
    assert line.error < 0.4 and line.loss < line.constant_loss


def test_bad_label_is_reported_with_its_place() -> None:
    rows: list[Any] = [*examples(5), ({"f1": 1.0}, None), *examples(3)]
    with pytest.raises(BadExample, match="examples:6: the label is missing"):
        streaml1.progressive(SoftmaxClassifier(), rows)
    report = streaml1.progressive(SoftmaxClassifier(), rows, bad="skip")
    assert report.rejected == 1 and report.examples == 8
    rows[5] = ({"f1": 1.0}, "up")
    model = SoftmaxClassifier(classes=NAMES)
    with pytest.raises(BadExample, match="examples:6: the label 'up' is not among the declared"):
        streaml1.progressive(model, rows)
    assert model.n_iterations == 5
    assert streaml1.progressive(model, rows, bad="skip").rejected == 1


def test_missing_values_of_pandas_are_not_labels() -> None:
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"a": [1.0, 2.0, 3.0]})
    names = pandas.Series(["up", None, "down"], dtype="string")
    model = SoftmaxClassifier()
    with pytest.raises(BadExample, match="the label is missing: <NA>"):
        model.learn_many(X, names)
    with pytest.raises(BadExample, match="the label is missing: <NA>"):
        model.learn_one({"a": 1.0}, pandas.NA)
    assert model.n_iterations == 0 and model.classes_met == []
    with pytest.raises(BadExample, match="rows:2: the label is missing: <NA>"):
        streaml1.progressive(model, (X, names))
    assert streaml1.progressive(SoftmaxClassifier(), (X, names), bad="skip").rejected == 1
    booleans = (X, pandas.Series([True, None, False], dtype="boolean"))
    assert streaml1.progressive(streaml1.ElasticNetClassifier(), booleans, bad="skip").rejected == 1


def test_labels_from_python_keep_their_types() -> None:
    rows = [({"a": 1.0}, "0"), ({"b": 1.0}, "1"), ({"a": 2.0}, "0")]
    xs, ys = [x for x, _ in rows], [y for _, y in rows]
    for source in (rows, (xs, ys), (xs, np.array(ys))):
        model = SoftmaxClassifier(classes=["1", "0"])
        assert streaml1.progressive(model, source).examples == 3
        assert model.predict_one({"a": 1.0}) == "0"
    pipeline = preprocessing.StandardScaler() | SoftmaxClassifier()
    streaml1.progressive(pipeline, rows)
    assert pipeline["SoftmaxClassifier"].classes_met == ["0", "1"]


@pytest.mark.parametrize(
    ("label", "y"),
    [
        *((3, y) for y in (3.0, "3", "03", " 3", "3.0", "3.", "+3", "3e0", "0.3e1")),
        *((-3, "-3"), (0, "-0"), (0, "000"), (10**18 - 1, "9" * 18), ("9" * 30, "9" * 30 + ".0")),
        *((2.5, 2.5), ("2.5", "2.5"), ("1e300", "1e300"), (True, True), ("x1", "x1")),
        *(("news", " news "), ("Paris, France", "Paris, France"), ("none", "none")),
        *(("1_0", "1_0"), ("٣", "٣"), ("[new]", "[new]"), ("NAN 1", "NAN 1")),
    ],
)
def test_class_labels_of_files(label: Any, y: Any) -> None:
    assert class_label(y) == label and type(class_label(y)) is type(label)


@pytest.mark.parametrize(
    ("y", "reason"),
    [
        *((y, "label is missing") for y in (None, math.nan, "", "  ")),
        ([1], "it must be a text or a number"),
        *(
            (y, "it stands for a missing value")
            for y in (
                *("NaN", "nan", "-nan", "NULL", "null", "None", "N/A", "NA"),
                *("<NA>", "NaT", "\\N", "?", "inf", "-Infinity"),
            )
        ),
        *((y, "an example has a single label") for y in ("1,2", "1, 2;3", "1;", "['a', 'b']")),
        ("\ufeff7", "contains a byte order mark"),
        ("a\nb", "contains a newline"),
        ("a\x00", r"contains the control character U\+0000"),
        ("caf\ufffd", "contains a replacement character"),
    ],
)
def test_labels_that_are_no_class(y: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        class_label(y)


SEVENS = {
    "a.svm": "{} 1:1\n",
    "a.vw": "{} | a\n",
    "a.jsonl": '{{"x": {{"a": 1}}, "y": {}}}\n',
    "text.jsonl": '{{"x": {{"a": 1}}, "y": "{}"}}\n',
    "a.csv": "1,{}\n",
    "quoted.csv": '1,"{}"\n',
}


def _file(path: Path, labels: Iterable[str]) -> Any:
    line = SEVENS[path.name]
    header = "a,y\n" if path.suffix == ".csv" else ""
    path.write_text(header + "".join(line.format(y) for y in labels))
    return open_source(path, target="y") if header else open_source(path)


@pytest.mark.parametrize("name", SEVENS)
def test_whole_numbers_are_one_class_in_every_format(tmp_path: Path, name: str) -> None:
    texts = ["7", "7.0", "8", "7e0"] + ([] if name == "a.jsonl" else ["07", "+7"])
    model = SoftmaxClassifier()
    assert streaml1.progressive(model, _file(tmp_path / name, texts)).examples == len(texts)
    assert model.classes_met == [7, 8] and set(map(type, model.classes_met)) == {int}


@pytest.mark.parametrize("known", ["7", "7.0", 7.0, 7])
def test_models_with_other_spellings_of_a_class(tmp_path: Path, known: Any) -> None:
    """Models from Python, and those that were saved before there was one rule."""
    model = SoftmaxClassifier()
    for k in range(20):
        model.learn_one({"a": 1.0}, known if k % 2 else "other")
    model.save(tmp_path / "m")
    model = streaml1.load(tmp_path / "m")
    source = _file(tmp_path / "a.csv", ["7", "7.0", "other"])
    assert evaluate(model, source).examples == 3
    assert streaml1.progressive(model, source).examples == 3
    assert model.classes_met == ["other", known]
    learnt_in_python = [({"a": 1.0}, 7)]
    streaml1.progressive(model, learnt_in_python)  # labels from Python are left alone
    assert len(model.classes_met) == (3 if isinstance(known, str) else 2)


def test_classes_that_join_late_are_announced(caplog: pytest.LogCaptureFixture) -> None:
    rows = [({"a": 1.0}, "xy"[k % 2]) for k in range(1300)]
    rows[500] = ({"a": 1.0}, "early")
    rows[1100:1300:2] = [({"a": 1.0}, f"new {k}") for k in range(100)]
    with caplog.at_level("WARNING", "streaml1"):
        streaml1.progressive(SoftmaxClassifier(), rows)
    sentences = [record.getMessage() for record in caplog.records]
    sentences = [sentence for sentence in sentences if "is new at" in sentence]
    assert len(sentences) == 10
    assert sentences[0] == "label 'new 0' is new at examples:1101: the model now has 4 labels"
    assert sentences[9].endswith("13 labels; no further new labels are reported")


@pytest.mark.parametrize(
    ("name", "line"),
    [("a.jsonl", '{{"x": {{"a": 1}}, "y": {}}}'), ("a.svm", "{} 1:1"), ("a.vw", "{} | a")],
)
def test_labels_that_floats_cannot_distinguish_are_rejected(
    tmp_path: Path, name: str, line: str
) -> None:
    path = tmp_path / name
    labels = [2**53 - 1, 1 - 2**53, 2**53, 2**53 + 1, -(2**53) - 1, 10**30]
    path.write_text("".join(line.format(y) + "\n" for y in labels))
    model = SoftmaxClassifier()
    report = streaml1.progressive(model, path, bad="skip")
    assert (report.examples, report.rejected) == (2, 4)
    assert model.classes_met == [2**53 - 1, 1 - 2**53]
    with pytest.raises(ValueError, match=rf"{name}:3: ambiguous label {2**53}: "):
        streaml1.progressive(SoftmaxClassifier(), path)


def test_long_text_labels_are_distinct(tmp_path: Path) -> None:
    jsonl, csv = tmp_path / "a.jsonl", tmp_path / "a.csv"
    labels = [2**53, 2**53 + 1]
    jsonl.write_text("".join(f'{{"x": {{"a": 1}}, "y": "{y}"}}\n' for y in labels))
    csv.write_text("a,y\n" + "".join(f"1,{y}\n" for y in labels))
    for source in (open_source(jsonl), open_source(csv, target="y")):
        model = SoftmaxClassifier()
        streaml1.progressive(model, source)
        assert model.classes_met == labels


def test_predictions_cover_all_labels() -> None:
    model = SoftmaxClassifier()
    rows = examples(100)
    streaml1.progressive(model, rows)
    predicted = [
        prediction.p for prediction in predictions(model, [(x, None) for x, _ in rows[:5]])
    ]
    assert predicted == [model.predict_proba_one(x) for x, _ in rows[:5]]


def test_reports_reject_conflicting_options() -> None:
    report = Report("softmax")
    with pytest.raises(ValueError, match="same length"):
        report.add(np.ones((2, 1)), [0])
    report.add(np.ones((0, 1)), [])
    assert report.examples == 0
    report.add(np.array([[1.0, 0.0], [0.5, 0.5]]), [0, 1])
    line = report.line()
    # A new label counts as an error, with the probability it has once it is added.
    assert line.error == 1.0 and line.loss == pytest.approx(math.log(2.0) / 2.0)
    assert line.constant_loss == pytest.approx(math.log(4.0) / 2.0)


def test_docs_show_the_output_of_the_demo() -> None:
    root = Path(__file__).parent.parent
    demo = runpy.run_path(str(root / "demos" / "many_classes.py"))
    page = " ".join((root / "docs" / "softmax.md").read_text().split())
    X, y = demo["stream"]()
    for penalty, strength_index, sentence in (
        ("l1", 4, "l1 has some weight of {:,} features"),
        ("l1/l2", 5, "l1/l2 keeps the rows of {:,}"),
        ("l1/linf", 5, "l1/linf those of {:,}"),
    ):
        line, w = demo["run"](X, y, penalty, demo["STRENGTHS"][penalty][strength_index])
        used = w.any(axis=1)
        assert sentence.format(used.sum()) in page
        assert used[: demo["INFORMATIVE"]].all() and line.error < 0.385


# Command line


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the same examples in three formats."""
    monkeypatch.chdir(tmp_path)
    rows = examples(300)
    columns = [f"f{j}" for j in range(12)]
    lines = [",".join([*columns, "y"])]
    lines += [",".join([*(repr(x.get(c, 0.0)) for c in columns), y]) for x, y in rows]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    numbers = [
        f"{NAMES.index(y) + 1} " + " ".join(f"{c[1:]}:{v!r}" for c, v in x.items()) for x, y in rows
    ]
    (tmp_path / "a.svm").write_text("\n".join(numbers) + "\n")
    text = [json.dumps({"x": x, "y": y}) for x, y in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(text) + "\n")
    return tmp_path


def run(*args: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli, list(args))
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


SOFTMAX = ["--model", "softmax", "--penalty", "l1/l2", "--strength", "1e-2", "--lr", "0.5"]


def test_learn_show_and_predict(files: Path) -> None:
    summaries = []
    for source in (["a.csv", "--target", "y"], ["a.svm"], ["a.jsonl"]):
        output = run("learn", *source, *SOFTMAX, "--every", "100", "--save", "a.model")
        assert "features" in output and "label" in output and "log-loss" in output
        summaries.append(output[output.index("\nexamples  ") : output.index("\nmodel: ")])
        assert re.match(r"\nexamples +300\n", summaries[-1])
        model = streaml1.load("a.model")
        labels = ["1", "2", "3", "4"] if source[0] == "a.svm" else NAMES
        shown = run("show", "a.model", "--top", "3")
        assert all(f"intercept {name}" in shown for name in labels)
        assert f"features used     {model.n_nonzero_rows}" in shown
        assert len(shown.partition("label\n")[2].splitlines()) == 3
        name = next(iter(model.weights))
        row = run("show", "a.model", "--feature", str(name), "--feature", "nothing")
        assert len(row.splitlines()) == 1 + len(model.weights[name]) + 1 + 2
        assert "Check the spelling." in row.splitlines()[-1]
        options = source if source[0] == "a.csv" else source[:1]
        predicted = run("predict", "a.model", *options).splitlines()
        assert len(predicted) == 300 and set(predicted) <= set(labels)
        first = json.loads(run("predict", "a.model", *options, "--limit", "1", "--json"))
        p = model.predict_proba_one(first_features(source[0]))
        assert first["line"] == (2 if source[0] == "a.csv" else 1)
        assert first["p"] == [[label, probability] for label, probability in p.items()]
        assert str(first["label"]) == predicted[0] == str(max(p, key=p.__getitem__))
    # JSON and svmlight omit the zeros of the CSV file; zeros do not count as seen.
    assert summaries[0] == summaries[1] == summaries[2]


def test_long_labels_are_separated_from_their_intercepts(files: Path) -> None:
    model = SoftmaxClassifier()
    for label in ("a label of some length", "b"):
        model.learn_one({"a": 1.0}, label)
    model.save("a.model")
    shown = run("show", "a.model")
    long_line, short_line = (line for line in shown.splitlines() if "intercept " in line)
    assert long_line.startswith("  intercept a label of some length  -0.732")
    assert long_line.index("-0.732") == short_line.index("0.732")


def first_features(source: str) -> dict[Any, float]:
    x = examples(300)[0][0]
    return {int(c[1:]): v for c, v in x.items()} if source == "a.svm" else dict(x)


def test_declared_classes_on_the_command_line(files: Path) -> None:
    run("learn", "a.svm", "--model", "softmax", "--classes", "4,3,2,1", "--save", "a.model")
    assert streaml1.load("a.model").classes == [4, 3, 2, 1]
    output = run("learn", "a.svm", "--model", "softmax", "--classes", "1,2", code=65)
    assert "is not among the declared classes" in output
    output = run("learn", "a.svm", "--load", "a.model", "--classes", "1,2", code=2)
    assert "--classes cannot change from [4, 3, 2, 1] to [1, 2] for a.model" in output
    output = run("learn", "a.svm", "--model", "elastic-net", "--strength", "1", code=2)
    assert "--strength is not an option of elastic-net" in output


def test_ball_on_the_command_line(files: Path) -> None:
    ball = ["--model", "softmax", "--penalty", "ball", "--radius", "2", "--lr", "1"]
    run("learn", "a.svm", *ball, "--save", "a.model")
    model = streaml1.load("a.model")
    for label in model.classes_met:
        assert sum(abs(row.get(label, 0.0)) for row in model.weights.values()) < 2.0 + 1e-9
    run("learn", "a.svm", "--load", "a.model", "--radius", "1", "--save", "b.model")
    assert streaml1.load("b.model").radius == 1.0
    assert "2" in run("learn", "a.svm", *ball, "--l2", "0.1", code=2)


def test_split_run_equals_one_run(files: Path) -> None:
    output = run("learn", "a.jsonl", *SOFTMAX, "--save", "whole.model")
    run("learn", "a.jsonl", *SOFTMAX, "--limit", "120", "--save", "a.model")
    lines = (files / "a.jsonl").read_text().splitlines()[120:]
    (files / "b.jsonl").write_text("\n".join(lines))
    run("learn", "b.jsonl", "--load", "a.model", "--save", "b.model")
    whole, resumed = streaml1.load("whole.model"), streaml1.load("b.model")
    assert whole.weights == resumed.weights and whole.intercept == resumed.intercept
    assert "sparse" in output
