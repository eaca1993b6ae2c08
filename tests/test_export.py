"""`streaml1 export` and `streaml1 diff`: the weights of models as tables, and what changed."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1.cli.export_formats import MARKER, WeightTable, csv_lines, sql_lines
from tests.command import error_of, run
from tests.conftest import ROOT
from tests.doc_samples import run_samples

pytestmark = pytest.mark.usefixtures("cwd")

HOSTILE = [
    *(
        "'; DROP TABLE weights; --",
        "it''s",
        "O'Neill",
        'x"y',
        "back\\slash'",
        "\\'); --",
        "new\nline",
    ),
    *(MARKER, "/* open", "%s", "?1", ":p", "$1", "$$", "ünï ✓", "", " ", "E'\\047'", "U&'\\0027'"),
]
NAMES = [*HOSTILE, *(f"n{k}" for k in range(40))]
N = 5000

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "logistic": ("ElasticNetClassifier", {"lr": 0.1, "l1": 1e-4}),
    "averaged hinge": ("PegasosClassifier", {"average": True}),
    "squared": ("ElasticNetRegressor", {"lr": 0.02}),
    "poisson": ("FTRLRegressor", {"loss": "poisson", "alpha": 0.05, "l1": 0.1}),
    "softmax": ("SoftmaxClassifier", {"lr": 0.1}),
    "offset": ("ElasticNetClassifier", {"lr": 0.1, "offset": "n0", "negative_rate": 0.1}),
}


def examples(n: int) -> list[dict[Hashable, float]]:
    random = np.random.default_rng(n)
    return [
        {NAMES[j]: float(random.normal()) for j in random.choice(len(NAMES), 8, replace=False)}
        for _ in range(n)
    ]


def trained(kind: str) -> Any:
    name, params = MODELS[kind]
    model = getattr(streaml1, name)(**params)
    X = examples(600)
    sums = [sum(x.values()) for x in X]
    labels: dict[str, list[Any]] = {
        "squared": sums,
        "poisson": [round(np.exp(min(s, 3.0))) for s in sums],
        "softmax": [HOSTILE[int(s) % 4] for s in sums],
    }
    model.learn_many(X, labels.get(kind, [s > 0 for s in sums]))
    return model


def long_table(X: list[dict[Hashable, float]]) -> list[tuple[int, str, float]]:
    return [(i, str(name), v) for i, x in enumerate(X) for name, v in x.items()]


def scores_in_sqlite(sql: str, X: list[dict[Hashable, float]]) -> list[tuple[Any, ...]]:
    """Run exported SQL in SQLite."""
    tables, query = sql.rsplit(MARKER, 1)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE examples (example_id INTEGER, name TEXT, value REAL)")
    database.executemany("INSERT INTO examples VALUES (?, ?, ?)", long_table(X))
    database.executescript(tables)
    return database.execute(query).fetchall()


def scores_in_duckdb(sql: str, X: list[dict[Hashable, float]]) -> list[tuple[Any, ...]]:
    """Run exported SQL in DuckDB."""
    import duckdb

    database = duckdb.connect()
    frame = pd.DataFrame(long_table(X), columns=["example_id", "name", "value"])
    database.register("frame", frame)
    database.execute("CREATE TABLE examples AS SELECT * FROM frame")
    return list(database.execute(sql).fetchall())  # the result of the last statement


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("score", [scores_in_sqlite, scores_in_duckdb])
def test_sql_scores_like_the_model(kind: str, score: Any, cwd: Path) -> None:
    model = trained(kind)
    model.save("m")
    result = run("export", "m", "--sql")
    assert result.stderr == ""
    X = [*examples(N - 1), {"unknown": 1.0, "n0": -2.0}]
    rows = score(result.stdout, X)
    assert [row[0] for row in rows] == list(range(N))
    if kind == "softmax":
        p = model.predict_proba_many(X)
        assert [row[1] for row in rows] == model.predict_many(X).tolist()
        np.testing.assert_allclose([row[2] for row in rows], p.max(axis=1), rtol=0.0, atol=1e-12)
        return
    margins = [e.margin for e in model.explain_many(X)]
    np.testing.assert_allclose([row[1] for row in rows], margins, rtol=1e-12, atol=1e-12)
    is_classifier = hasattr(model, "predict_proba_one")
    expected = model.predict_proba_many(X)[:, 1] if is_classifier else model.predict_many(X)
    np.testing.assert_allclose([row[2] for row in rows], expected, rtol=1e-12, atol=1e-12)


def test_sql_of_large_margins() -> None:
    """Sigmoids and exponentials do not overflow."""
    X: list[dict[Hashable, float]] = [{"a": 1.0}, {"a": -1.0}, {"a": 0.0}]
    for loss, is_classifier, expected in (
        ("logistic", True, [1.0, 0.0, 0.5]),
        ("poisson", False, [1e50, 0.0, 1.0]),
        ("squared", False, [5000.0, -5000.0, 0.0]),
    ):
        table = WeightTable("X", loss, is_classifier, False, [], [0.0], [("a", [5000.0])], [])
        rows = scores_in_sqlite("\n".join(sql_lines(table)), X)
        assert [row[2] for row in rows] == pytest.approx(expected, rel=1e-12)


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


@given(
    weights=st.dictionaries(
        names | st.sampled_from(HOSTILE), st.floats(allow_nan=False, allow_infinity=False)
    ),
    b=st.floats(-1e3, 1e3),
)
def test_any_name_is_data_in_sql(weights: dict[Hashable, float], b: float) -> None:
    rows: list[tuple[Hashable, list[float]]] = [(name, [w]) for name, w in weights.items()]
    table = WeightTable("X", "squared", False, False, [], [b], rows, [])
    tables, query = "\n".join(sql_lines(table)).rsplit(MARKER, 1)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE examples (example_id INTEGER, name TEXT, value REAL)")
    database.execute("INSERT INTO examples VALUES (1, 'not a feature', 0.0)")
    database.executescript(tables)
    assert dict(database.execute("SELECT name, weight FROM weights")) == weights
    tables_now = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert sorted(tables_now) == [("examples",), ("weights",)]
    assert database.execute(query).fetchall() == [(1, b, b)]


@given(
    weights=st.dictionaries(
        names | st.sampled_from(HOSTILE), st.floats(allow_nan=False, allow_infinity=False)
    )
)
def test_csv_round_trips(weights: dict[Hashable, float]) -> None:
    rows: list[tuple[Hashable, list[float]]] = [(name, [w]) for name, w in weights.items()]
    table = WeightTable("X", "squared", False, False, [], [0.25], rows, [])
    text = "\n".join(csv_lines(table)) + "\n"
    head, intercept, *features = csv.reader(io.StringIO(text, newline=""))
    assert head == ["kind", "name", "weight"]
    assert intercept == ["intercept", "", "0.25"]
    assert {name: float(w) for kind, name, w in features if kind == "feature"} == weights
    assert len(features) == len(weights)


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_json_and_csv_hold_the_weights(kind: str, cwd: Path) -> None:
    model = trained(kind)
    model.save("m")
    record = json.loads(run("export", "m", "--json").stdout)
    loaded = streaml1.load("m")
    assert record["class"] == MODELS[kind][0]
    rows = list(csv.reader(io.StringIO(run("export", "m", "--csv").stdout, newline="")))[1:]
    if kind == "logistic":
        assert dict(record["weights"]) == loaded.weights
        assert record["intercept"] == loaded.intercept
        sizes = [abs(w) for _, w in record["weights"]]
        assert sizes == sorted(sizes, reverse=True)
        assert {name: float(w) for k, name, w in rows if k == "feature"} == loaded.weights
        assert [float(w) for k, _, w in rows if k == "intercept"] == [loaded.intercept]
        return
    assert record["labels"] == loaded.classes_met
    assert dict(zip(record["labels"], record["intercepts"], strict=True)) == loaded.intercept
    by_name = {
        name: {label: w for label, w in zip(record["labels"], row, strict=True) if w}
        for name, row in record["weights"]
    }
    assert by_name == loaded.weights
    nested: dict[str, dict[str, float]] = {}
    for k, name, label, w in rows:
        if k == "feature":
            nested.setdefault(name, {})[label] = float(w)
    assert nested == loaded.weights
    assert {label: float(w) for k, _, label, w in rows if k == "intercept"} == loaded.intercept


def test_names_that_are_not_strings(cwd: Path) -> None:
    model = streaml1.ElasticNetClassifier(lr=0.1)
    model.learn_one({7: 1.0, ("a", 1): 2.0, 2.5: 1.0}, True)
    model.save("m")
    record = json.loads(run("export", "m", "--json").stdout)
    assert {name for name, _ in record["weights"]} == {7, "('a', 1)", 2.5}
    assert "('7', " in run("export", "m", "--sql").stdout
    assert "('(''a'', 1)', " in run("export", "m", "--sql").stdout


def test_scaled_models_have_a_note(cwd: Path) -> None:
    for name, params, has_note in (
        ("ElasticNetClassifier", {}, True),
        ("FTRLClassifier", {}, True),
        ("FTRLClassifier", {"alpha": 0.1}, False),
        ("CoinBettingClassifier", {}, True),
        ("EGClassifier", {"nonnegative": True, "n_features": 50}, True),
        ("EGClassifier", {"n_features": 50}, False),
        ("L1BallClassifier", {"nonnegative": True}, False),
        ("ElasticNetClassifier", {"lr": 0.1, "cross": [("a", "b")]}, True),
    ):
        model = getattr(streaml1, name)(**params)
        model.learn_one({"a": 1.0, "b": 2.0}, True)
        model.save("m")
        result = run("export", "m", "--sql")
        assert result.stderr.startswith("streaml1: the model ") == has_note
        assert ("-- Note: " in result.stdout) == has_note
        record = json.loads(run("export", "m", "--json").stdout)
        assert len(record["notes"]) == has_note


def test_errors_of_export(cwd: Path) -> None:
    model = streaml1.ElasticNetClassifier(lr=0.1, hash_bits=6)
    model.learn_one({"a": 1.0}, True)
    model.save("hashed")
    assert error_of("export", "hashed", "--sql") == (
        "--sql requires the names of features, but the model was made with --hash-bits; see "
        "streaml1 export --help"
    )
    assert json.loads(run("export", "hashed", "--json").stdout)["hashed"] is True
    assert "--csv, --json or --sql" in error_of("export", "hashed")
    assert error_of("export", "none", "--csv") == "none: no such file or directory"
    for names, message in (
        (["a\0b"], "null character"),
        ([7, "7"], "two features are '7' as text, 7 and '7'"),
    ):
        model = streaml1.ElasticNetClassifier(lr=0.1)
        model.learn_one(dict.fromkeys(names, 1.0), True)
        model.save("m")
        assert message in error_of("export", "m", "--sql", code=65)
        run("export", "m", "--csv")


# diff


def two_models() -> tuple[Any, Any]:
    a = streaml1.ElasticNetClassifier(lr=0.5, schedule="constant")
    b = streaml1.ElasticNetClassifier(lr=0.5, schedule="constant")
    for _ in range(3):
        a.learn_one({"old": 1.0, "both": 1.0, "down": 1.0}, True)
        b.learn_one({"new\n": 2.0, "both": 1.0}, False)
    b.learn_one({"down": 0.1}, True)
    a.save("a")
    b.save("b")
    return a, b


def test_diff_of_two_models(cwd: Path) -> None:
    a, b = two_models()
    record = json.loads(run("diff", "a", "b", "--json").stdout)
    assert record["a"] == {
        "model": "a", "class": "ElasticNetClassifier", "examples": 3, "nonzeros": 3,
        "intercept": a.intercept,
    }  # fmt: skip
    assert record["b"]["examples"] == 4 and record["b"]["intercept"] == b.intercept
    new, old = b.weights["new\n"], a.weights["old"]
    assert record["appeared"] == {"count": 1, "largest": [{"name": "new\n", "a": 0.0, "b": new}]}
    assert record["vanished"] == {"count": 1, "largest": [{"name": "old", "a": old, "b": 0.0}]}
    assert record["changed"]["count"] == 2
    assert record["changed"]["largest"] == [
        {"name": name, "a": a.weights[name], "b": b.weights[name]} for name in ("both", "down")
    ]
    assert record["same"] == 0
    short = json.loads(run("diff", "a", "b", "--json", "--top", "1").stdout)
    assert short["changed"] == {"count": 2, "largest": record["changed"]["largest"][:1]}
    out = run("diff", "a", "b").stdout
    assert "1 appeared, 1 vanished, 2 changed, 0 are the same" in out
    assert "'new\\n'" in out
    change = b.weights["both"] - a.weights["both"]
    line = next(line.split() for line in out.splitlines() if line.endswith("both"))
    assert float(line[0]) == pytest.approx(change, rel=1e-3)
    assert "both" not in run("diff", "a", "b", "--top", "0").stdout


def test_diff_of_a_model_with_itself(cwd: Path) -> None:
    two_models()
    out = run("diff", "a", "a").stdout
    assert out.endswith("0 appeared, 0 vanished, 0 changed, 3 are the same\n")


def test_diff_of_softmax_models(cwd: Path) -> None:
    models = [streaml1.SoftmaxClassifier(), streaml1.SoftmaxClassifier()]
    for k, model in enumerate(models):
        for label in ("u", "v", "w")[: 2 + k]:
            model.learn_one({"a": 1.0, f"n{k}": 1.0}, label)
        model.save("ab"[k])
    record = json.loads(run("diff", "a", "b", "--json").stdout)
    assert record["b"]["intercepts"] == [[name, b] for name, b in models[1].intercept.items()]
    appeared = {(r["name"], r["label"]): r["b"] for r in record["appeared"]["largest"]}
    before, after = (
        {(name, label): w for name, row in model.weights.items() for label, w in row.items()}
        for model in models
    )
    assert appeared == {key: w for key, w in after.items() if key not in before}
    out = run("diff", "a", "b").stdout
    assert "intercept w" in out and "label" in out


def test_diff_rejects_models_without_common_names(cwd: Path) -> None:
    two_models()
    model = streaml1.ElasticNetClassifier(lr=0.1, hash_bits=6)
    model.learn_one({"a": 1.0}, True)
    model.save("hashed")
    assert "hash_bits is None and 6; compare models with the same" in error_of(
        "diff", "a", "hashed"
    )
    streaml1.SoftmaxClassifier().save("softmax")
    for pair in (("a", "softmax"), ("softmax", "a")):
        assert "softmax has weights for each label and a does not" in error_of("diff", *pair)
    assert error_of("diff", "a", "none") == "none: no such file or directory"


# The documentation


def test_the_samples_of_the_docs(cwd: Path) -> None:
    run_samples((ROOT / "docs" / "explain.md").read_text())
    assert Path("tuesday.model").exists()
