"""Data frames read from their Arrow memory, held to the reader of values in `features.batch`."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import BadExample, ElasticNetClassifier, SoftmaxClassifier
from streaml1.core.jit import COMPILED
from streaml1.features.arrow_frames import frame_rows, table_rows
from streaml1.features.batch import batch_of
from streaml1.sources import SourceError
from streaml1.text.parsed_rows import NamedRows
from streaml1.training import evaluate, predictions

pytestmark = pytest.mark.skipif(not COMPILED, reason="kernels are not compiled")


def named(X: Any) -> list[dict[str, float]]:
    """Return the rows of a frame as the kernel reads them, by name."""
    rows = frame_rows(X)
    assert isinstance(rows, NamedRows)
    hashes, values, indptr = rows.csr()
    names = rows.feature_names(slice(None))
    assert len(names) == len(hashes)
    found = []
    for lo, hi in zip(indptr[:-1], indptr[1:], strict=True):
        x: dict[str, float] = {}
        for name, value in zip(names[lo:hi], values[lo:hi].tolist(), strict=True):
            x[name] = x.get(name, 0.0) + value
        found.append(x)
    return found


def by_value(X: Any) -> list[dict[Any, float]]:
    """Return the rows of a frame as `batch_of` reads them."""
    batch = batch_of(X)
    assert batch.names is not None
    names = [batch.names[k] for k in batch.rows.ids.tolist()]
    pairs = list(zip(names, batch.rows.values.tolist(), strict=True))
    ends = batch.rows.indptr.tolist()
    return [dict(pairs[lo:hi]) for lo, hi in zip(ends[:-1], ends[1:], strict=True)]


texts = st.none() | st.text(max_size=20) | st.text("abc", min_size=11, max_size=14)
numbers = st.none() | st.floats(-1e49, 1e49) | st.just(math.nan)
integers = st.none() | st.integers(-(2**63), 2**63 - 1)


def _series(kind: str, values: list[Any], dtype: Any = None) -> Any:
    if kind == "pandas":
        return pd.Series(values, dtype=dtype)
    return pl.Series(values, dtype=dtype)


@st.composite
def frames(draw: Any) -> Any:
    """Draw a frame of any library with a column of text, from a slice of a longer one."""
    library = draw(st.sampled_from(["pandas", "polars", "pyarrow"]))
    n = draw(st.integers(1, 12))

    def column(values: Any) -> list[Any]:
        drawn: list[Any] = draw(st.lists(values, min_size=n, max_size=n))
        return drawn

    is_pandas = library == "pandas"
    columns = {
        "text": _series(library, column(texts), draw(st.sampled_from(["str", object]))
                        if is_pandas else pl.String),
        "category é": _series(library, column(texts), "category" if is_pandas else pl.Categorical),
        "float": _series(library, column(numbers), float if is_pandas else pl.Float64),
        "int": _series(library, column(integers), "Int64" if is_pandas else pl.Int64),
        "bool": _series(library, column(st.none() | st.booleans()),
                        "boolean" if is_pandas else pl.Boolean),
        "nothing": _series(library, [None] * n, object if is_pandas else pl.Null),
    }  # fmt: skip
    names = draw(st.permutations(list(columns)))[: draw(st.integers(1, len(columns)))]
    names += [] if "text" in names else ["text"]
    frame: Any = (pd if is_pandas else pl).DataFrame({name: columns[name] for name in names})
    if is_pandas and draw(st.booleans()):
        codes = pd.Categorical(column(st.none() | st.sampled_from([3, 15706])))
        frame["ints"] = codes
    lo = draw(st.integers(0, n))
    frame = frame[lo:] if is_pandas else frame.slice(lo)
    return frame.to_arrow() if library == "pyarrow" else frame


@given(frames())
def test_kernel_equals_reading_by_value(X: Any) -> None:
    assert named(X) == by_value(X)


def test_rows_equal_dicts() -> None:
    """Dicts of rows, which errors need, agree with the features."""
    X = pd.DataFrame({"s": ["a", None, ""], "c": pd.Categorical([3, 5, None]), "v": [1.0, 0, 2]})
    rows = frame_rows(X)
    assert list(rows) == [{"s": "a", "c": "3", "v": 1.0}, {"s": None, "c": "5", "v": 0.0},
                          {"s": "", "c": None, "v": 2.0}]  # fmt: skip
    assert rows[1:][0] == rows[1] and rows.take(np.array([2]))[0] == rows[2]


def test_texts_at_the_end_of_memory() -> None:
    """The last texts of a buffer are copied without reading past its end."""
    for size in (*range(20), 100):
        for kind in (pa.string(), pa.large_string(), pa.string_view()):
            raw = pa.array(["é" + "x" * size, "y" * size], pa.string()).cast(kind)
            names = [f"a={text}" for text in raw.to_pylist()]
            assert [*map(list, named(pa.table({"a": raw})))] == [[name] for name in names]


def test_columns_in_several_chunks() -> None:
    table = pa.table({"a": ["u", "v", None], "c": pa.array(["p", "q", "p"]).dictionary_encode()})
    other = pa.table({"a": [None, "w"], "c": pa.array(["r", None]).dictionary_encode()})
    whole = pa.concat_tables([table, other, table.slice(1, 0)])
    assert named(whole) == by_value(whole)
    assert named(whole.slice(1, 3)) == by_value(whole)[1:4]
    assert named(whole.slice(5)) == []


def test_a_large_dictionary_of_few_rows_is_decoded() -> None:
    values = pa.array([f"v{k}" for k in range(5000)])
    codes = pa.DictionaryArray.from_arrays(pa.array([4999, None, 3]), values)
    assert named(pa.table({"c": codes})) == [{"c=v4999": 1.0}, {}, {"c=v3": 1.0}]


def test_numbers_as_categories() -> None:
    table = pa.table({"day": [3, None, 15706], "x": [3, 1, 2], "s": ["a", "b", "c"]})
    rows = table_rows(table, ["day"])
    assert rows is not None
    assert rows.feature_names(slice(None)) == ["day=3", "x", "s=a", "x", "s=b", "day=15706", "x",
                                               "s=c"]  # fmt: skip


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": [1.0, 2.0]}),  # without text, `batch_of` maps columns to slots at once
        pd.DataFrame({"a": ["x", 1.0]}),
        pd.DataFrame({0: ["x", "y"]}),
        pd.DataFrame({"a": ["x", "\ud800"]}, dtype=object),
        pd.DataFrame({"a": ["x", "y"], "v": pd.to_datetime(["2020", "2021"])}),
        pa.table({"a": ["x"], "raw": [b"x"]}),
        pa.table([pa.array(["x"]), pa.array(["y"])], ["a", "a"]),
    ],
    ids=["numbers", "mixed", "int names", "surrogate", "dates", "bytes", "names twice"],
)
def test_other_frames_are_read_by_value(X: Any) -> None:
    assert frame_rows(X) is X or isinstance(X, pa.Table)
    assert not isinstance(frame_rows(X), NamedRows)


@pytest.mark.parametrize("options", [{}, {"hash_bits": 10}, {"cross": [("s", "t")]},
                                     {"text": ["t"], "ngrams": 2}, {"offset": "v"}])  # fmt: skip
def test_models_learn_the_same_from_frames_and_dicts(options: dict[str, Any]) -> None:
    random = np.random.default_rng(0)
    columns = {
        "s": random.choice(["red", "green", "blue", None], 200).tolist(),
        "t": random.choice(["one two", "a longer text than eight", "", None], 200).tolist(),
        "v": random.choice([0.0, 1.5, math.nan], 200).tolist(),
    }
    y = (random.random(200) < 0.5).tolist()
    dicts = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for X in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        model, twin = (ElasticNetClassifier(l1=1e-4, **options) for _ in range(2))
        p = model.progressive_many(X, y)
        assert p.tolist() == twin.progressive_many(dicts, y).tolist()
        assert model.weights == twin.weights and model.n_features_seen == twin.n_features_seen
        assert np.asarray(model.predict_proba_many(X)).tolist() == (
            twin.predict_proba_many(dicts).tolist()
        )
        model._state.check()


def test_classes_and_invalid_values() -> None:
    X = pd.DataFrame({"s": ["a", "b", "c"], "v": [1.0, 1e60, math.inf]})
    model = SoftmaxClassifier()
    before = pickle.dumps(model)
    with pytest.raises(BadExample, match="the value 1e.60 of 'v' is too large") as error:
        model.learn_many(X, ["x", "y", "z"])
    assert error.value.row == 1 and pickle.dumps(model) == before
    model.learn_many(X[:1], ["x"])
    assert model.classes_met == ["x"] and set(model.weights) <= {"s=a", "v"}


# Frames with a column of labels, as sources

COLUMNS = {
    "s": ["red", "green", None, "red"] * 5,
    "day": [1, 2, 3, 2] * 5,
    "v": [1.0, math.nan, 0.5, 2.0] * 5,
    "w": [1.0, 2.0, 0.5, 1.0] * 5,
    "y": [1, 0, 1, 1] * 5,
}
ROLES: Any = {"target": "y", "weight": "w", "categorical": "day"}


class Dataset:
    """What this package needs of a data set of the package datasets."""

    __module__ = "datasets.arrow_dataset"

    def with_format(self, kind: str) -> Dataset:
        assert kind == "arrow"
        return self

    def iter(self, batch_size: int) -> Any:
        yield from (pa.table(COLUMNS).slice(lo, 3) for lo in range(0, 20, 3))


def _sources(kind: str) -> Any:
    table = pa.table(COLUMNS)
    if kind == "duckdb":
        return pytest.importorskip("duckdb").connect().from_arrow(table)
    return {
        "pandas": lambda: pd.DataFrame(COLUMNS),
        "polars": lambda: pl.DataFrame(COLUMNS),
        "lazy": lambda: pl.LazyFrame(COLUMNS),
        "datasets": Dataset,
        "pyarrow": lambda: table,
        "reader": table.to_reader,
        "batches": lambda: table.to_batches(max_chunksize=3),
        "generator": lambda: (pl.DataFrame(COLUMNS)[lo : lo + 3] for lo in range(0, 20, 3)),
    }[kind]()


@pytest.mark.parametrize(
    "kind",
    ["pandas", "polars", "lazy", "pyarrow", "reader", "batches", "generator", "duckdb", "datasets"],
)
def test_frames_as_sources(kind: str) -> None:
    twin = ElasticNetClassifier(l1=1e-4)
    for s, day, v, w, y in zip(*COLUMNS.values(), strict=True):
        twin.learn_one({"s": s, "day": str(day), "v": v}, y, w)
    model = ElasticNetClassifier(l1=1e-4)
    assert streaml1.progressive(model, _sources(kind), **ROLES).examples == 20
    assert model.weights == twin.weights
    whole = ElasticNetClassifier(l1=1e-4)
    whole.learn_many(_sources(kind), **ROLES)
    assert whole.weights == twin.weights
    report = streaml1.Consumer(ElasticNetClassifier(), _sources(kind), **ROLES).run()
    assert report.examples == 20
    assert evaluate(model, _sources(kind), **ROLES).examples == 20
    found = [prediction.p for prediction in predictions(model, _sources(kind), **ROLES)]
    dicts = [{"s": s, "day": str(day), "v": v} for s, day, v, *_ in
             zip(*COLUMNS.values(), strict=True)]  # fmt: skip
    assert found == model.predict_proba_many(dicts)[:, 1].tolist()


def test_pairs_of_frames_and_labels() -> None:
    frame = pd.DataFrame(COLUMNS)
    X, y = frame[["s", "v"]], frame["y"]
    model, twin = ElasticNetClassifier(), ElasticNetClassifier()
    pairs = ((X[lo : lo + 8], y[lo : lo + 8]) for lo in range(0, 20, 8))
    assert streaml1.progressive(model, pairs).examples == 20
    streaml1.progressive(twin, (X, y))
    assert model.weights == twin.weights
    streaml1.progressive(model, (pl.LazyFrame(COLUMNS).select("s", "v"), y))
    streaml1.progressive(model, (Dataset(), y))
    with pytest.raises(BadExample, match="examples:10: invalid label 2"):
        streaml1.progressive(model, [(X[:8], y[:8]), (X[:4], np.array([1, 2, 0, 1]))])


def test_unreadable_frames() -> None:
    frame = pd.DataFrame(COLUMNS)
    model = ElasticNetClassifier()
    with pytest.raises(
        SourceError, match='^rows: use target="COLUMN" to name the label column, or'
    ):
        streaml1.progressive(model, frame)
    frame["s"] = pd.Series(["a", 1.0] * 10, dtype=object)
    with pytest.raises(SourceError, match="^rows: the frame cannot be converted to Arrow: "):
        streaml1.progressive(model, frame, **ROLES)
    with pytest.raises(SourceError, match="got an int after data frames; give frames only"):
        streaml1.progressive(model, [pl.DataFrame(COLUMNS), 5], **ROLES)
    assert model.n_iterations == 20
    invalid = pl.DataFrame({**COLUMNS, "w": [1.0] * 12 + [-1.0] * 8})
    report = streaml1.progressive(model, [pl.DataFrame(COLUMNS), invalid], bad="skip", **ROLES)
    assert (report.examples, report.rejected) == (32, 8)


@pytest.mark.parametrize("name", ["s", 7])
def test_columns_of_several_types_are_categories_or_ignored(name: Any) -> None:
    frame = pd.DataFrame({"n": range(20), "y": [0, 1] * 10})
    frame[name] = pd.Series(["a", 1, 2.5, None] * 5, dtype=object)
    with pytest.raises(SourceError, match="several types, use categorical= or ignore=$"):
        streaml1.progressive(ElasticNetClassifier(), frame, target="y")
    for options, names in (("categorical", ["a", "1", "2.5"]), ("ignore", [])):
        model = ElasticNetClassifier(lr=0.1)
        streaml1.progressive(model, frame, target="y", **{options: [name]})
        assert {*model.weights} == {"n", *(f"{name}={value}" for value in names)}
    assert frame[name].tolist()[:4] == ["a", 1, 2.5, None]


def test_explanations_of_frames() -> None:
    random = np.random.default_rng(1)
    columns = {f"c{k}": random.choice(list("abcdefgh"), 300).tolist() for k in range(20)}
    columns["n"] = random.normal(size=300).tolist()
    X = pl.DataFrame(columns)
    model = ElasticNetClassifier(l1=1e-4)
    model.learn_many(X, random.random(300) < 0.5)
    dicts = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert model.explain_many(X) == model.explain_many(dicts)


@pytest.mark.parametrize("name", [0, ("a", 1), 1.5, "y", None])
def test_predictions_are_named_as_the_labels(name: Any) -> None:
    """Labels of pandas may have a name of any type, series of other libraries only text."""
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0] * 9})
    labels = pd.Series([True, False, True] * 9, name=name)
    for model in (ElasticNetClassifier(lr=0.1), SoftmaxClassifier(lr=0.1)):
        model.learn_many(frame, labels)
        assert model.predict_many(frame).name == name
        found = model.predict_many(pl.from_pandas(frame))
        assert found.name == ("" if name is None else str(name))
        assert len(model.predict_many(pa.Table.from_pandas(frame))) == 27


@pytest.mark.parametrize("convert", [pa.array, lambda labels: pa.chunked_array([labels])])
def test_labels_and_weights_of_pyarrow(convert: Any) -> None:
    """Bools and nulls have no form that numpy could share."""
    frame, labels = pd.DataFrame({"a": [1.0, 2.0] * 5}), [True, False] * 5
    model, expected = ElasticNetClassifier(lr=0.1), ElasticNetClassifier(lr=0.1)
    streaml1.progressive(model, (frame, convert(labels), convert([2.0] * 10)))
    expected.learn_many(frame, labels, 2.0)
    assert model.weights == expected.weights
    with pytest.raises(BadExample, match="rows:3: the label is missing; to leave"):
        streaml1.progressive(model, (frame, convert([True, False, None, *labels[3:]])))


@pytest.mark.parametrize("model", [ElasticNetClassifier(), streaml1.ElasticNetRegressor()])
def test_missing_labels_of_pandas(model: Any) -> None:
    labels = pd.Series([1, None, 0], dtype="Int64")
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]})
    with pytest.raises(BadExample, match="rows:2: the label is missing; to leave"):
        streaml1.progressive(model, (frame, labels))
    assert streaml1.progressive(model, (frame, labels), bad="skip").examples == 2


def test_columns_of_one_name_are_an_error_of_streaml1() -> None:
    frame = pd.DataFrame([[1.0, 2.0]] * 9, columns=["a", "a"])
    model, message = ElasticNetClassifier(), "the frame has two columns 'a'; rename one of them"
    with pytest.raises(TypeError, match=message):
        model.learn_many(frame, [True] * 9)
    with pytest.raises(TypeError, match=message):
        streaml1.progressive(model, (frame, [True] * 9))


@pytest.mark.parametrize(
    ("positive", "reason"),
    [
        (2, 'got 2; use positive="2"'),
        (True, 'got True; use positive="True"'),
        (["a", "b,c"], """got ['a', 'b,c']; use positive='a,"b,c"'"""),
    ],
)
def test_a_positive_label_that_is_no_text(positive: Any, reason: str) -> None:
    """It was an AttributeError or "unhashable type", from inside of the reader."""
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [1, 2]})
    model = ElasticNetClassifier()
    for learn in (model.learn_many, lambda X, **options: streaml1.progressive(model, X, **options)):
        with pytest.raises(TypeError) as caught:
            learn(frame, target="y", positive=positive)
        assert str(caught.value) == f"positive must be the text of a label, {reason}"
    model.learn_many(frame, target="y", positive="2")
