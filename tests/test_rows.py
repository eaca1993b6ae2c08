"""All input containers give the same rows; rejected batches leave no trace."""

from __future__ import annotations

import math
import pickle
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix, csc_matrix, csr_array, csr_matrix

from streaml1 import ElasticNetClassifier, ElasticNetRegressor
from streaml1.core.hashing import name_hashes
from streaml1.core.rows import BadExample, numeric_features
from streaml1.features.batch import batch_of, checked
from streaml1.features.vocabulary import INTS, InternedVocabulary
from streaml1.models.state import ModelState
from streaml1.models.state.distinct_count import DistinctCounter

D = 12
PARAMS: dict[str, Any] = {"l1": 1e-3, "l2": 1e-2, "lr": 0.3}

feature_values = st.floats(-1e3, 1e3, allow_subnormal=False) | st.sampled_from(
    [0.0, 1.0, -1.0, 0.1]
)


def bits(a: Any) -> list[int]:
    return list(np.asarray(a, np.float64).view(np.int64))


def state(model: Any) -> bytes:
    return pickle.dumps(model)


def as_dicts(X: Any) -> list[dict[int, float]]:
    """Return the rows of a CSR matrix in stored order, with duplicate columns summed."""
    dicts = []
    for lo, hi in zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist(), strict=True):
        x: dict[int, float] = {}
        for j, v in zip(X.indices[lo:hi].tolist(), X.data[lo:hi].tolist(), strict=True):
            x[j] = x[j] + float(v) if j in x else float(v)
        dicts.append({j: v for j, v in x.items() if v != 0.0})
    return dicts


def labels(n: int) -> list[bool]:
    return [i * 7 % 3 == 0 for i in range(n)]


def assert_same_as_dicts(X: Any, dicts: list[dict[Any, Any]], trained: Any = None) -> None:
    """Check that all `*_many` methods on X are bit-identical to the dicts one by one."""
    many = pickle.loads(trained) if trained else ElasticNetClassifier(**PARAMS)
    single = pickle.loads(trained) if trained else ElasticNetClassifier(**PARAMS)
    y = labels(len(dicts))
    progressive = []
    for x, label in zip(dicts, y, strict=True):
        progressive.append(single.predict_proba_one(x)[True])
        single.learn_one(x, label)
    batched = pickle.loads(trained) if trained else ElasticNetClassifier(**PARAMS)
    batched.learn_many(X, y)
    assert bits(many.progressive_many(X, y)) == bits(progressive)
    for model in (many, batched):
        assert model.weights == single.weights
        assert model.intercept == single.intercept
        if single._state.forgotten is model._state.forgotten is None:
            assert model.n_features_seen == single.n_features_seen
        assert model.n_features_seen == pytest.approx(single.n_features_seen, rel=8 * 1.04 / 64)
        model._state.check()
    proba = np.asarray(many.predict_proba_many(X))
    assert bits(proba[:, 1]) == bits([single.predict_proba_one(x)[True] for x in dicts])
    assert bits(proba[:, 0]) == bits([single.predict_proba_one(x)[False] for x in dicts])
    assert np.asarray(many.predict_many(X)).tolist() == [single.predict_one(x) for x in dicts]


# Matrices


@st.composite
def csr_matrices(draw: Any) -> Any:
    """Draw CSR matrices: unsorted, with duplicates (two per column), zeros and empty rows."""
    n = draw(st.integers(0, 6))
    dtype = draw(st.sampled_from([np.float64, np.float32, np.int64, np.int8, np.uint8, np.bool_]))
    index = draw(st.sampled_from([np.int32, np.int64]))
    columns = [
        draw(st.lists(st.integers(0, D - 1), max_size=6, unique=True))
        + draw(st.lists(st.integers(0, D - 1), max_size=2, unique=True))
        for _ in range(n)
    ]
    ends = np.cumsum([0] + [len(row) for row in columns])
    entries = [draw(feature_values) for row in columns for _ in row]
    data = np.array(entries) if dtype in (np.float64, np.float32) else np.array(entries) % 5 - 1
    if dtype in (np.uint8, np.bool_):
        data = np.abs(data)
    X = csr_matrix((n, D), dtype=dtype)
    X.data = data.astype(dtype)
    X.indices = np.array([j for row in columns for j in row], index)
    X.indptr = ends.astype(index)
    if draw(st.booleans()):
        for array in (X.data, X.indices, X.indptr):
            array.flags.writeable = False
    return X


TRAINED: list[bytes | None] = [None]


@pytest.fixture(scope="module", autouse=True)
def trained_models() -> None:
    """Add trained models: one with ints as slots, one with names."""
    for keys in ([0, 3, 5, 11], ["a", 3, (1, 2), "b=x"]):
        model = ElasticNetClassifier(**PARAMS)
        for i in range(20):
            model.learn_one({keys[i % 4]: 1.0 + i, keys[i % 3]: -0.5}, i % 2 == 0)
        TRAINED.append(state(model))


@given(csr_matrices(), st.integers(0, 2))
def test_matrices_equal_dicts(X: Any, start: int) -> None:
    assert_same_as_dicts(X, as_dicts(X), TRAINED[start])


@given(csr_matrices())
def test_matrices_are_not_modified(X: Any) -> None:
    originals = X.data.copy(), X.indices.copy(), X.indptr.copy()
    model = ElasticNetClassifier(**PARAMS)
    model.learn_many(X, labels(X.shape[0]))
    model.predict_many(X)
    for array, copy in zip((X.data, X.indices, X.indptr), originals, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("start", [0, 1, 2])
def test_large_matrices_equal_dicts(index: Any, start: int) -> None:
    """Large matrices are validated block by block during learning; only some blocks are plain."""
    random = np.random.default_rng(4)
    rows = []
    for i in range(1_500):
        row = random.choice(4_000, size=5, replace=False)
        row = np.sort(row) if i // 100 % 3 else row  # some blocks are sorted, some are not
        rows.append(np.append(row, row[:1]) if i % 411 == 7 else row)  # duplicates
    ends = np.cumsum([0] + [len(row) for row in rows])
    data = random.normal(size=ends[-1])
    data[random.integers(0, ends[-1], 9)] = 0.0
    X = csr_matrix((len(rows), 4_000))
    X.data, X.indices, X.indptr = data, np.concatenate(rows).astype(index), ends.astype(index)
    assert_same_as_dicts(X, as_dicts(X), TRAINED[start])


def test_dense_and_other_sparse_matrices_equal_dicts() -> None:
    random = np.random.default_rng(2)
    dense = random.normal(size=(40, D)) * (random.random((40, D)) < 0.4)
    dicts = [{j: v for j, v in enumerate(row) if v} for row in dense.tolist()]
    for X in (dense, csr_array(dense), csc_matrix(dense), coo_matrix(dense)):
        assert_same_as_dicts(X, dicts)
    assert_same_as_dicts(np.asfortranarray(dense), dicts)
    assert_same_as_dicts(csr_matrix((0, 0)), [])
    assert_same_as_dicts(csr_matrix((3, 0)), [{}, {}, {}])
    assert_same_as_dicts(csr_matrix((0, 5)), [])


def test_columns_beyond_the_int_slots() -> None:
    """Ints from 2**26 on are names like any other; test both sides of the limit."""
    big = [INTS, INTS + 7, 2**31 - 2]
    for columns in ([*big, 2**40, 2**62], [5, 17, *big]):
        n = len(columns)
        X = csr_matrix((np.arange(1.0, n + 1.0), columns, np.arange(n + 1)), (n, 2**62 + 1))
        assert_same_as_dicts(X, as_dicts(X))
        assert_same_as_dicts(X, as_dicts(X), TRAINED[1])


# Dicts

plain_names = (
    st.integers(-3, 5)
    | st.integers(INTS, INTS + 2)
    | st.sampled_from(["a", "b", "", "a=b", "é", (1, "a"), (), 2.5, -0.0, b"a", None, 2**70])
    | st.floats(0.0, 3.0).map(lambda f: float(round(f)))
    | st.booleans()
)
plain_values = (
    feature_values
    | st.sampled_from([None, "b", "", "b=c", True, False, 3, -1, np.float32(0.1), np.int64(2)])
    | st.sampled_from([np.bool_(True), np.float64(2.5)])
)
# Ints just below 2**26 are left out: they would allocate 512 MB of weights.


@given(
    st.lists(st.dictionaries(plain_names, plain_values, max_size=5), max_size=6), st.integers(0, 2)
)
def test_batches_of_dicts_equal_single_dicts(xs: list[dict[Any, Any]], start: int) -> None:
    assert_same_as_dicts(xs, xs, TRAINED[start])


@given(st.lists(st.dictionaries(plain_names, plain_values, max_size=5), max_size=9))
def test_dicts_in_blocks_equal_dicts_one_by_one(xs: list[dict[Any, Any]]) -> None:
    expected = [dict(numeric_features(x)) for x in xs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streaml1.features.batch.BLOCK_ROWS", 2)
        ids, values, indptr = batch_of(xs).rows
        names = batch_of(xs).names
    assert names is not None and len(set(names)) == len(names)
    ends = indptr.astype(int).tolist()
    found = [
        {names[ids[k]]: float(values[k]) for k in range(lo, hi)}
        for lo, hi in zip(ends, ends[1:], strict=False)
    ]
    assert found == expected


@pytest.mark.parametrize("bad", [math.inf, 10**60, b"a", -1e50])
@pytest.mark.parametrize(("earlier", "row"), [(1.0, 5), ("a", 5), (np.float32(1.0), 5), (1e60, 3)])
def test_first_bad_dict_of_several_blocks(
    bad: Any, earlier: Any, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaml1.features.batch.BLOCK_ROWS", 2)
    xs = [{"a": 1.0}, {"a": "b"}, {"a": None}, {"a": earlier}, {"a": 0}, {"a": bad}, {"a": bad}]
    with pytest.raises(BadExample, match="of 'a' is") as caught:
        batch_of(xs)
    assert caught.value.row == row


@given(st.dictionaries(plain_names, plain_values, max_size=6))
def test_numeric_features_of_a_dict(x: dict[Hashable, Any]) -> None:
    """Compare with the documented meaning of strings, None and zeros."""
    expected: dict[Hashable, float] = {}
    for name, value in x.items():
        if value is not None:
            feature = f"{name}={value}" if isinstance(value, str) else name
            number = 1.0 if isinstance(value, str) else float(value)
            expected[feature] = expected.get(feature, 0.0) + number
    assert numeric_features(x) == {name: v for name, v in expected.items() if v != 0.0}


def test_string_value_merges_with_the_equal_feature() -> None:
    """`a="b"` and `a=b` are one feature with the sum, dropped if that is zero."""
    model = ElasticNetRegressor()
    model.learn_one({"a": "b", "a=b": 2.0}, 1.0)
    reference = ElasticNetRegressor()
    reference.learn_one({"a=b": 3.0}, 1.0)
    assert model.weights == reference.weights
    model.learn_one({"c": "d", "c=d": -1.0}, 1.0)
    assert model.n_features_seen == 1
    assert_same_as_dicts(
        pd.DataFrame({"a": ["b", "c"], "a=b": [2.0, -1.0]}),
        [{"a=b": 3.0}, {"a=c": 1.0, "a=b": -1.0}],
    )


# Frames


def frame_dicts(columns: dict[Hashable, list[Any]], n: int) -> list[dict[Hashable, Any]]:
    return [{name: column[i] for name, column in columns.items()} for i in range(n)]


COLUMNS: dict[Hashable, list[Any]] = {
    "float": [0.5, 0.0, -2.0, 1e-9, 3.0],
    "int": [1, 0, 2, 3, -4],
    "bool": [True, False, True, True, False],
    "a": ["b", "c", "b", "b", "d"],
    "a=b": [0.1, 0.0, -1.0, 2.0, 7.0],
    "some": ["x", None, "y", None, "x"],
}


def test_frames_that_are_not_in_memory_are_named() -> None:
    dask = pytest.importorskip("dask.dataframe")
    frame = dask.from_pandas(pd.DataFrame({"a": [1.0, 2.0]}), npartitions=1)
    with pytest.raises(TypeError, match=r"^X is a DataFrame of dask; .* as with compute\(\)$"):
        ElasticNetClassifier().learn_many(frame, [0, 1])


def test_pandas_frames_equal_dicts() -> None:
    dicts = frame_dicts(COLUMNS, 5)
    for dtypes in (
        {"a": object, "some": object},
        {"a": "category", "some": object},
        {"a": "string", "some": "string"},
        {"float": np.float32, "int": np.int8, "a": object, "some": object},
        {"int": "Int64", "bool": "boolean", "float": "Float64", "a": object, "some": object},
        {"int": object, "bool": object, "float": object, "a": object, "some": object},
    ):
        X = pd.DataFrame({k: pd.Series(v, dtype=dtypes.get(k)) for k, v in COLUMNS.items()})
        exact = dicts
        if dtypes.get("float") is np.float32:
            exact = [x | {"float": float(np.float32(x["float"]))} for x in dicts]
        for start in (0, 1, 2):
            assert_same_as_dicts(X, exact, TRAINED[start])
        assert_same_as_dicts(X.iloc[::-1], exact[::-1])
        assert_same_as_dicts(X.iloc[:0], [])


def test_pandas_columns_with_missing_values() -> None:
    """Missing values are absent, whatever the dtype of their column."""
    dicts: list[dict[Hashable, Any]] = [{"v": 1.0}, {}, {"v": 3.0}]
    for dtype in ("Int64", "Float64", "UInt8", "double[pyarrow]", float, np.float32, object):
        column = pd.Series([1, None, 3], dtype=dtype)
        assert_same_as_dicts(pd.DataFrame({"v": column}), dicts)
    booleans = pd.DataFrame({"v": pd.Series([True, None, False], dtype="boolean")})
    assert_same_as_dicts(booleans, [{"v": 1.0}, {}, {}])
    for missing in (None, math.nan, pd.NA, pd.NaT):
        for values in (["x", missing, "y"], [1.0, missing, "y"]):
            X = pd.DataFrame({"v": pd.Series(values, dtype=object)})
            assert_same_as_dicts(X, [{"v": values[0]}, {}, {"v": "y"}])
    times = pd.DataFrame({"v": pd.Series([pd.NaT] * 3, dtype="datetime64[ns]"), "a": [1, 2, 3]})
    assert_same_as_dicts(times, [{"a": 1}, {"a": 2}, {"a": 3}])


def test_categories_of_any_type_are_categories() -> None:
    texts: list[Any] = ["15706", None, "3"]
    dicts = [{"C14": text} for text in texts]
    numbers = [15706, None, 3]
    for column in (
        pd.Series(pd.Categorical(numbers)),
        pd.Series(pd.Categorical(numbers, ordered=True)),
        pd.Series([15706.0, math.nan, 3.0]).astype("category"),
        pd.Series(texts, dtype="category"),
    ):
        assert_same_as_dicts(pd.DataFrame({"C14": column}), dicts)
    for array in (pa.array(numbers), pa.array(texts), pa.array([15706.0, None, 3.0])):
        assert_same_as_dicts(pa.table({"C14": array.dictionary_encode()}), dicts)
    for dtype in (pl.Categorical, pl.Enum(["3", "7", "15706"])):
        assert_same_as_dicts(pl.DataFrame({"C14": pl.Series(texts, dtype=dtype)}), dicts)
    booleans = pd.DataFrame({"b": pd.Categorical([True, False])})
    assert_same_as_dicts(booleans, [{"b": "True"}, {"b": "False"}])


@pytest.mark.parametrize("dtype", [None, "str", "category"])
def test_pandas_strings_with_missing_values(dtype: Any) -> None:
    X = pd.DataFrame({"a": pd.Series(["x", None, "y"], dtype=dtype)})
    assert_same_as_dicts(X, [{"a": "x"}, {}, {"a": "y"}])


def test_three_columns_merge_into_one_feature_in_order() -> None:
    """Sums follow the order of the columns, as in a dict."""
    x = {"a=b=c": 0.3, "a": "b=c", "a=b": "c"}
    [expected] = numeric_features(x).values()
    batch = checked(batch_of(pd.DataFrame([x])))
    assert batch.rows.values.tolist() == [expected]


def test_duplicate_columns_are_summed_in_order() -> None:
    random = np.random.default_rng(0)
    for _ in range(100):
        a, b, c = random.normal(size=3).tolist()
        X = csr_matrix((1, 3))
        X.data, X.indices, X.indptr = np.array([a, b, c]), np.zeros(3, int), np.array([0, 3])
        assert checked(batch_of(X)).rows.values.tolist() == [(a + b) + c]


def test_polars_and_arrow_frames_equal_dicts() -> None:
    dicts = frame_dicts(COLUMNS, 5)
    X = pl.DataFrame(COLUMNS)  # type: ignore[arg-type]
    assert_same_as_dicts(X, dicts)
    assert_same_as_dicts(X.cast({"a": pl.Categorical, "some": pl.Categorical}), dicts)
    assert_same_as_dicts(X.head(0), [])
    assert_same_as_dicts(X.to_arrow(), dicts)
    missing = pl.DataFrame({"v": [1, None, 3], "b": [True, None, False]})
    assert_same_as_dicts(missing, [{"v": 1.0, "b": 1.0}, {}, {"v": 3.0}])
    missing = pl.DataFrame({"v": [1.0, None, math.nan]})
    assert_same_as_dicts(missing, [{"v": 1.0}, {}, {}])
    assert_same_as_dicts(missing.to_arrow(), [{"v": 1.0}, {}, {}])


def test_sparse_pandas_frames_equal_dicts() -> None:
    random = np.random.default_rng(3)
    dense = random.normal(size=(30, 8)) * (random.random((30, 8)) < 0.3)
    columns = [*"sparse", "s1", 3]
    X = pd.DataFrame(dense, columns=columns).astype(pd.SparseDtype(float, 0.0))
    X = X.loc[:, ~X.columns.duplicated()]
    dicts = X.sparse.to_dense().to_dict("records")
    assert_same_as_dicts(X, dicts)


@pytest.mark.parametrize("with_dense", [False, True])
def test_fill_values_of_sparse_columns_are_zeros(with_dense: bool) -> None:
    """Fill values are zeros; a NaN is absent with and without a dense column."""
    columns = {"a": pd.arrays.SparseArray([1.0, 0.0, 2.0], fill_value=0)}
    dicts = [{"a": 1.0}, {}, {"a": 2.0}]
    if with_dense:
        columns |= {"b": [1.0, 2.0, 3.0]}
        dicts = [x | {"b": k} for k, x in enumerate(dicts, start=1)]
    assert_same_as_dicts(pd.DataFrame(columns), dicts)
    columns["a"] = pd.arrays.SparseArray([1.0, math.nan, 2.0], fill_value=0)
    dicts[1].pop("a", None)
    assert_same_as_dicts(pd.DataFrame(columns), dicts)


def test_128_bit_integers() -> None:
    X = pl.DataFrame({"v": pl.Series([1, None, 2**100], dtype=pl.Int128)})
    assert_same_as_dicts(X, [{"v": 1.0}, {}, {"v": 2.0**100}])


def test_duplicate_column_names_are_rejected() -> None:
    X = pd.DataFrame([[0.0, 1.0], [2.0, 0.0]], columns=["a", "a"])
    arrow = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    model = ElasticNetClassifier(**PARAMS)
    for frame in (X, X.astype(pd.SparseDtype(float, 0.0)), arrow):
        for call in (
            lambda frame=frame: model.learn_many(frame, labels(len(frame))),
            lambda frame=frame: model.predict_many(frame),
            lambda frame=frame: model.predict_proba_many(frame),
        ):
            with pytest.raises(TypeError, match="^the frame has two columns 'a'; rename one"):
                call()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["lazy", "batch", "reader", "duckdb"])
def test_streams_equal_dicts(kind: str) -> None:
    if kind == "duckdb":
        pytest.importorskip("duckdb")
    columns = {"a": [1.5, 0.0, 2.0], "s": ["u", None, "v"]}
    dicts = frame_dicts(columns, 3)  # type: ignore[arg-type]
    table = pa.table(columns)

    def stream() -> Any:
        if kind == "duckdb":
            import duckdb

            return duckdb.connect().from_arrow(table)
        if kind == "lazy":
            return pl.LazyFrame(columns)
        return table.to_batches()[0] if kind == "batch" else table.to_reader()

    model, twin = ElasticNetClassifier(**PARAMS), ElasticNetClassifier(**PARAMS)
    model.learn_many(stream(), labels(3))
    twin.learn_many(dicts, labels(3))
    assert state(model) == state(twin)
    p, expected = model.predict_proba_many(stream()), twin.predict_proba_many(dicts)
    assert bits(p[:, 1]) == bits(expected[:, 1])
    assert model.explain_many(stream()) == twin.explain_many(dicts)


def test_multi_index_columns_are_tuples() -> None:
    columns = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    X = pd.DataFrame([["u", 1.0], ["v", 2.0]], columns=columns)
    assert_same_as_dicts(X, [{("a", 1): "u", ("b", 2): 1.0}, {("a", 1): "v", ("b", 2): 2.0}])


def test_float16_matrices() -> None:
    half, double = ElasticNetClassifier(**PARAMS), ElasticNetClassifier(**PARAMS)
    X = np.array([[1.0, 0.0], [0.1, 2.0]], np.float16)
    half.learn_many(X, labels(2))
    double.learn_many(X.astype(np.float64), labels(2))
    assert state(half) == state(double)


def test_predictions_have_the_type_of_the_frame() -> None:
    X = pd.DataFrame({"v": [1.0, 2.0]}, index=[7, 9])
    model = ElasticNetClassifier(**PARAMS)
    model.learn_many(X, pd.Series([True, False], index=[7, 9], name="spam"))
    assert list(model.predict_many(X).index) == [7, 9]
    assert list(model.predict_proba_many(X).columns) == [False, True]
    assert isinstance(model.predict_many(pl.DataFrame({"v": [1.0]})), pl.Series)


# Rejected batches

INVALID_VALUES = [math.nan, math.inf, -math.inf, 1e60, 1e50]


def assert_rejected(model: Any, X: Any, row: int, y: Any = None, w: Any = None) -> None:
    """Check that the batch is rejected as a whole and that later learning is unaffected."""
    state_before, n_seen = state(model), model.n_features_seen
    batch_labels = labels(X.shape[0] if hasattr(X, "shape") else len(X)) if y is None else y
    calls = [
        lambda: model.learn_many(X, batch_labels, w),
        lambda: model.progressive_many(X, batch_labels, w),
    ]
    if y is None and w is None:
        calls += [lambda: model.predict_many(X), lambda: model.predict_proba_many(X)]
    for call in calls:
        with pytest.raises(BadExample) as rejected:
            call()
        assert rejected.value.row == row
        assert str(rejected.value) == rejected.value.reason
        assert "\n" not in rejected.value.reason
        assert state(model) == state_before and model.n_features_seen == n_seen
        model._state.check()
    model.learn_one({0: 1.0, "fine": 1.0}, True)  # later learning is unaffected
    reference = pickle.loads(state_before)
    reference.learn_one({0: 1.0, "fine": 1.0}, True)
    assert model.weights == reference.weights and model.intercept == reference.intercept


def trained_model(start: int) -> Any:
    trained = TRAINED[start]
    return pickle.loads(trained) if trained else ElasticNetClassifier(**PARAMS)


@pytest.mark.parametrize("invalid", INVALID_VALUES)
@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize(
    ("n_rows", "bad_row"), [(1, 0), (5, 3), (2_000, 0), (2_000, 130), (2_000, 1_999)]
)
def test_invalid_values_in_matrices_are_rejected(
    invalid: float, start: int, n_rows: int, bad_row: int
) -> None:
    """Small batches are validated first; large ones with a small model during learning."""
    random = np.random.default_rng(bad_row)
    indices = random.integers(0, 900, 3 * n_rows).astype(np.int32)
    data = random.normal(size=3 * n_rows)
    data[3 * bad_row + 1] = invalid
    for index in (np.int32, np.int64):
        X = csr_matrix((n_rows, 900))
        X.data, X.indices = data, indices.astype(index)
        X.indptr = np.arange(0, 3 * n_rows + 1, 3).astype(index)
        assert_rejected(trained_model(start), X, bad_row)


def test_invalid_values_with_a_large_model_are_rejected() -> None:
    model = ElasticNetClassifier(**PARAMS)
    model.learn_many(csr_matrix(([1.0], [50_000], [0, 1]), (1, 60_000)), [True])
    X = csr_matrix(np.array([[1.0, 0.0], [0.0, 2.0], [math.nan, 1.0]]))
    assert_rejected(model, X, 2)
    X = csr_matrix((2_000, 200_000))  # the model grows before the bad row is reached
    X.data = np.ones(60_000)
    X.indices = np.tile(np.arange(30, dtype=np.int32), 2_000)
    X.indices[:1_999] += 100_000
    X.indptr = np.arange(0, 60_001, 30, dtype=np.int32)
    X.data[-1] = math.inf
    assert_rejected(model, X, 1_999)


@pytest.mark.parametrize("invalid", [*INVALID_VALUES[1:], [], 1j, b"1", {}])
@pytest.mark.parametrize("start", [0, 1, 2])
def test_invalid_values_in_dicts_are_rejected(invalid: Any, start: int) -> None:
    for name in (3, "new", "a", (9, 9)):
        xs: list[dict[Any, Any]] = [
            {3: 1.0, "new too": "s"},
            {name: 1.0},
            {"a": 1.0, name: invalid},
        ]
        assert_rejected(trained_model(start), xs, 2)
        assert_rejected(trained_model(start), [{3: 1.0}, {name: invalid, 5: 1}], 1)
        model = trained_model(start)
        state_before = state(model)
        with pytest.raises(BadExample, match=r"."):
            model.learn_one({"a": 1.0, "unknown": 2.0, name: invalid}, True)
        with pytest.raises(BadExample):
            model.predict_one({"a": 1.0, name: invalid})
        with pytest.raises(BadExample):
            model.predict_many([{}, {name: invalid}])
        assert state(model) == state_before
        model._state.check()


def test_sums_beyond_the_limit_are_rejected() -> None:
    X = csr_matrix((2, 2))
    X.data, X.indices = np.array([1.0, 9e49, 9e49]), np.array([0, 1, 1])
    X.indptr = np.array([0, 1, 3])
    assert_rejected(ElasticNetClassifier(**PARAMS), X, 1)
    frame = pd.DataFrame({"a": ["c", "b"], "a=b": [1.0, 1e50]})
    assert_rejected(ElasticNetClassifier(**PARAMS), frame, 1)


def test_invalid_values_in_frames_are_rejected() -> None:
    for invalid in (-math.inf, math.inf, 1e60):
        assert_rejected(trained_model(2), pd.DataFrame({"v": [1.0, 2.0, invalid]}), 2)
        frame = pd.DataFrame({"a": ["b", "b"], "v": [1.0, invalid]})
        assert_rejected(trained_model(1), frame, 1)
    dates = pd.to_datetime(["2020", "2021"])
    for column, row in (([1.0, object()], 1), (dates, 0), (pd.Series([1, 2j], dtype=object), 1)):
        frame = pd.DataFrame({"fine": [1.0, 2.0], "v": pd.Series(column)})
        assert_rejected(trained_model(2), frame, row)


@pytest.mark.parametrize("kind", ["dicts", "frame"])
def test_first_bad_row_is_reported(kind: str) -> None:
    if kind == "dicts":
        X: Any = [{"a": 1.0}, {"a": math.inf}, {"a": object()}]
    else:
        X = pd.DataFrame({"a": [1.0, 2.0, object()], "b": [1.0, math.inf, 1.0]})
    with pytest.raises(BadExample) as rejected:
        ElasticNetClassifier(**PARAMS).learn_many(X, labels(3))
    assert rejected.value.row == 1


@pytest.mark.parametrize("start", [0, 1, 2])
def test_invalid_labels_and_weights_are_rejected(start: int) -> None:
    X = csr_matrix(np.eye(3))
    for y in ([1, 0, 2], [1, 0, -1], [True, False, None], [1, 0, math.nan], ["1", 0, "x"]):
        row = 0 if y[0] == "1" else 2
        assert_rejected(trained_model(start), X, row, y=y)
        assert_rejected(trained_model(start), [{"q": 1.0}, {"r": 1.0}, {"s": "t"}], row, y=y)
    for w in ([1.0, -1.0, 1.0], [0.0, math.nan, 1.0], [1.0, math.inf, 0.0], [1.0, None, 2.0]):
        assert_rejected(trained_model(start), X, 1, w=w)
    regressor = ElasticNetRegressor()
    for invalid in (math.nan, math.inf, 1e60, None, "1.0"):
        y_many = np.array([1.0, 2.0, invalid], object)
        state_before = state(regressor)
        with pytest.raises(BadExample) as rejected:
            regressor.learn_many(X, y_many)
        assert rejected.value.row == 2 and state(regressor) == state_before


def test_different_lengths_are_rejected() -> None:
    model = ElasticNetClassifier(**PARAMS)
    state_before = state(model)
    for y, w in (
        ([1, 0], None),
        ([1, 0, 1, 1], None),
        ([1, 0, 1], [1.0, 2.0]),
        (np.ones((3, 1)), None),
    ):
        with pytest.raises(ValueError, match="rows"):
            model.learn_many(csr_matrix(np.eye(3)), y, w)
    assert state(model) == state_before


# Malformed matrices


def malformed_csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> Any:
    X = csr_matrix(shape)
    X.data, X.indices, X.indptr = np.asarray(data, float), np.asarray(indices), np.asarray(indptr)
    return X


def _int_array(dtype: Any, *numbers: int) -> Any:
    return np.array(numbers).astype(dtype)


MALFORMED = {
    "index": lambda t: malformed_csr(
        [1.0, 1.0], _int_array(t, 0, 5), _int_array(t, 0, 1, 2), (2, 5)
    ),
    "large index": lambda t: malformed_csr(
        [1.0, 1.0], _int_array(t, 0, 2**31 - 1), _int_array(t, 0, 1, 2), (2, 5)
    ),
    "negative index": lambda t: malformed_csr(
        [1.0, 1.0], _int_array(t, 0, -1), _int_array(t, 0, 1, 2), (2, 5)
    ),
    "falling indptr": lambda t: malformed_csr(
        [1.0] * 3, _int_array(t, 0, 1, 2), _int_array(t, 0, 3, 1), (2, 5)
    ),
    "long indptr": lambda t: malformed_csr(
        [1.0] * 3, _int_array(t, 0, 1, 2), _int_array(t, 0, 1, 9), (2, 5)
    ),
    "negative indptr": lambda t: malformed_csr(
        [1.0] * 3, _int_array(t, 0, 1, 2), _int_array(t, -1, 1, 3), (2, 5)
    ),
    "short data": lambda t: malformed_csr(
        [1.0], _int_array(t, 0, 1, 2), _int_array(t, 0, 1, 3), (2, 5)
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("start", [0, 1, 2])
def test_malformed_matrices_are_rejected(name: str, dtype: Any, start: int) -> None:
    model = trained_model(start)
    state_before = state(model)
    X = MALFORMED[name](dtype)
    for call in (
        lambda: model.learn_many(X, labels(2)),
        lambda: model.progressive_many(X, labels(2)),
        lambda: model.predict_many(X),
        lambda: model.predict_proba_many(X),
    ):
        with pytest.raises(TypeError, match=r"check_format\(\)"):
            call()
    assert state(model) == state_before
    model._state.check()


INVALID_COLUMNS = {
    "index beyond the slots": 2**30,
    "negative index": -1,
    "index beyond the columns, below the slots": 950,
}


@pytest.mark.parametrize("name", INVALID_COLUMNS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("position", ["alone", "sorted"])
def test_large_malformed_matrices_are_rejected(name: str, dtype: Any, position: str) -> None:
    """Large matrices are validated during learning."""
    indices = np.tile(np.arange(3), 1_000).astype(dtype)
    indices[1_501 if position == "alone" else 1_502] = INVALID_COLUMNS[name]
    X = malformed_csr(np.ones(3_000), indices, np.arange(0, 3_001, 3).astype(dtype), (1_000, 900))
    model = ElasticNetClassifier(**PARAMS)
    model.learn_one({0: 1.0}, True)
    state_before = state(model)
    with pytest.raises(TypeError, match=r"check_format\(\)"):
        model.learn_many(X, labels(1_000))
    assert state(model) == state_before


def test_state_is_copied_only_if_smaller_than_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table of all steps is state; copying it for each batch would cost O(t) per row."""
    copies = []
    backup = ModelState._backup
    monkeypatch.setattr(ModelState, "_backup", lambda self: copies.append(1) or backup(self))
    X = csr_matrix(np.ones((3_000, 3)))
    model = ElasticNetClassifier(**PARAMS, stamps="explicit")
    model.learn_many(X, labels(3_000))
    assert copies
    for _ in range(4):
        model.learn_many(X, labels(3_000))
    copies.clear()
    model.learn_many(X, labels(3_000))
    assert not copies


@pytest.mark.parametrize("entry", [(math.nan, 5), (1.0, 5)])
def test_entries_in_matrices_without_columns_are_rejected(entry: tuple[float, int]) -> None:
    X = malformed_csr(entry[:1], _int_array(np.int32, entry[1]), _int_array(np.int32, 0, 1), (1, 0))
    model = ElasticNetClassifier(**PARAMS)
    with pytest.raises(TypeError, match=r"check_format\(\)"):
        model.learn_many(X, [True])


def test_empty_indptr_is_rejected() -> None:
    X = malformed_csr([1.0], _int_array(np.int32, 0), _int_array(np.int32), (1, 5))
    with pytest.raises(TypeError, match=r"check_format\(\)"):
        ElasticNetClassifier(**PARAMS).learn_many(X, [True])


UNSIGNED_INDPTR = """
import numpy as np
from scipy.sparse import csr_matrix
from streaml1 import ElasticNetClassifier
X = csr_matrix((np.ones(3), [0, 1, 2], [0, 1, 3]), (2, 5))
X.indptr = np.array([0, 300_000, 3], np.uint64)
try:
    ElasticNetClassifier(lr=0.1).learn_many(X, [True, False])
except TypeError as error:
    assert "check_format" in str(error)
else:
    raise SystemExit(3)
"""


def test_decreasing_unsigned_indptr_is_rejected(python: Any) -> None:
    """Run in a separate process: this case once read out of bounds."""
    python("-c", UNSIGNED_INDPTR, NUMBA_BOUNDSCHECK="1")


@pytest.mark.slow
def test_with_bounds_checking(python: Any) -> None:
    """Run this file again in a process whose kernels check each index."""
    selection = "not bounds_checking and not decreasing_unsigned and not beyond_the_int_slots"
    python(
        *("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__, "-k", selection),
        NUMBA_BOUNDSCHECK="1",
        STREAML1_EXAMPLES="7",
        timeout=500.0,
    )


# Names


def test_equal_names_are_one_feature() -> None:
    """1, 1.0, True and np.int64(1) are equal as in a dict, also when ints are not slots."""
    equal_names: list[Hashable] = [
        1,
        1.0,
        True,
        np.int64(1),
        np.uint8(1),
        np.float32(1),
        np.bool_(True),
    ]
    for more_names in ([], ["x"]):
        model = ElasticNetRegressor()
        model.learn_one({}, 0.0)
        for name in more_names:
            model.learn_one({name: 1.0}, 1.0)
        for name in equal_names:
            model.learn_one({name: 1.0}, 1.0)
        assert model.n_features_seen == 1 + len(more_names)
        assert list(model.weights) == [*more_names, 1]
        [prediction] = {model.predict_one({name: 2.0}) for name in equal_names}
        assert prediction == model.predict_many([{1.0: 2.0}])[0]
        model.learn_one({"y": 1.0}, 1.0)
        assert {
            model.predict_one({name: 2.0}) != model.predict_one({}) for name in equal_names
        } == {True}
        assert model.n_features_seen == 2 + len(more_names)
        model._state.check()


mixed_names = st.lists(
    st.integers(-5, 200)
    | st.integers(INTS, INTS + 5)
    | st.text(max_size=3)
    | st.tuples(st.integers(0, 3), st.text(max_size=1))
    | st.sampled_from([2**31, 2**32 - 1, 2**32, 2**64, -(2**70), 0.5, None, b"", frozenset({1})]),
    min_size=1,
    max_size=30,
)


@given(mixed_names, st.integers(1, 4))
@settings(max_examples=150)
def test_mixed_names_in_any_order(names: list[Hashable], step: int) -> None:
    """Results depend neither on the order of names nor on the batch size."""
    single, batched = ElasticNetClassifier(**PARAMS), ElasticNetClassifier(**PARAMS)
    xs = [{name: 1.0 + len(names[:i]) for name in names[i : i + step]} for i in range(len(names))]
    y = labels(len(xs))
    distinct: dict[Hashable, None] = {}
    for i, x in enumerate(xs):
        single.learn_one(x, y[i])
        distinct |= dict.fromkeys(x)
        single._state.check()
        assert single.n_features_seen == len(distinct)
        assert set(single.weights) <= set(distinct)
    batched.learn_many(xs, y)
    batched._state.check()
    assert batched.weights == single.weights
    numbered = ElasticNetClassifier(
        **PARAMS
    )  # the same stream with every name replaced by a small int
    slots = {name: k for k, name in enumerate(distinct)}
    numbered.learn_many([{slots[name]: v for name, v in x.items()} for x in xs], y)
    assert {name: single.weights.get(name, 0.0) for name in distinct} == {
        name: numbered.weights.get(k, 0.0) for name, k in slots.items()
    }


def test_thousands_of_names_equal_ints() -> None:
    """The hash table and the rule grow many times; some examples exceed the buffer."""
    model, reference = ElasticNetRegressor(**PARAMS), ElasticNetRegressor(**PARAMS)
    for i in range(300):
        row = range(i * i % 4_001, i * i % 4_001 + (900 if i % 50 == 3 else 40))
        model.learn_one({f"name {j}": 0.1 for j in row}, float(i % 7))
        reference.learn_one({j: 0.1 for j in row}, float(i % 7))
        if i % 60 == 0:
            model._state.check()
    assert {int(name.split()[1]): w for name, w in model.weights.items()} == reference.weights
    assert model.n_features_seen == pytest.approx(reference.n_features_seen, rel=4 * 1.04 / 64)
    model._state.check()


@given(st.lists(st.lists(st.text(max_size=4) | st.integers(), max_size=20, unique=True)))
def test_vocabulary_assigns_stable_slots(batches: list[list[Hashable]]) -> None:
    vocabulary, slots = InternedVocabulary(), dict[Hashable, int]()
    for names in batches:
        for name in names:
            slots.setdefault(name, len(slots))
        assert vocabulary.intern_all(names).tolist() == [slots[name] for name in names]
        assert vocabulary.find_all(names).tolist() == [slots[name] for name in names]
        vocabulary.check(len(slots))
    assert vocabulary.names() == list(slots)


def test_vocabulary_check_detects_corruption() -> None:
    vocabulary = InternedVocabulary()
    vocabulary.intern_all(["a", "b", 3])
    vocabulary.check(3)
    with pytest.raises(AssertionError, match="more names than slots"):
        vocabulary.check(2)
    vocabulary.keys[0] = "c"
    with pytest.raises(AssertionError, match="slot"):
        vocabulary.check(3)


def test_dicts_with_subclasses_use_the_fallback() -> None:
    """Names and values of subclasses with overridable methods give the same rows."""

    class Name(str):
        pass

    class Value(float):
        pass

    plain: dict[Any, Any] = {"a": 1.5, "b": 2, "c": True, "d": None, "e": "f", "g": 0}
    subclassed = {Name(k): Value(v) if isinstance(v, float) else v for k, v in plain.items()}
    models = [ElasticNetClassifier(**PARAMS) for _ in range(2)]
    for i in range(6):
        for model, x in zip(models, (plain, subclassed), strict=True):
            model.learn_one(x, i % 2)
    assert models[0].weights == models[1].weights
    assert models[0].predict_proba_one(plain) == models[0].predict_proba_one(subclassed)


@pytest.mark.parametrize("n", [10, 1_000, 12_000, 100_000])
def test_distinct_count_is_within_its_error(n: int) -> None:
    """The estimate stays within four standard errors of 1.6% and ignores duplicates."""
    for kind in (lambda k: f"word {k}", lambda k: k, lambda k: (k, "x")):
        sketch = DistinctCounter()
        hashes = name_hashes([kind(k) for k in range(n)])
        sketch.add(hashes)
        copy = sketch.copy()
        copy.add(hashes[::-1])
        assert copy.estimate() == sketch.estimate()
        assert sketch.estimate() == pytest.approx(n, rel=4 * 1.04 / 64)


@pytest.mark.parametrize("n", [100, 3_000, 10_000, 12_000, 40_000])
def test_distinct_count_is_unbiased(n: int) -> None:
    """The mean of 60 estimates is within 0.84%, also where common estimators switch formulas."""
    random, relative_errors = np.random.default_rng(n), []
    for _ in range(60):
        sketch = DistinctCounter()
        sketch.add(random.integers(0, 2**64, n, dtype=np.uint64))
        relative_errors.append(sketch.estimate() / n - 1.0)
    assert abs(np.mean(relative_errors)) < 4 * 0.01625 / np.sqrt(60)
    assert np.std(relative_errors) < 1.4 * 0.01625


def test_distinct_count_of_equal_names() -> None:
    sketch = DistinctCounter()
    sketch.add(name_hashes([2**30, np.int64(2**30), float(2**30), -1, np.int64(-1), "1", 1]))
    assert sketch.estimate() == 4


def test_n_features_seen_after_eviction(tmp_path: Path) -> None:
    model = ElasticNetClassifier(l1=0.2, lr=1.0)
    for k in range(3_000):
        model.learn_one({f"f{k}": 1.0}, k % 2)
    assert model.n_features_seen == pytest.approx(3_000, rel=4 * 1.04 / 64)
    copy = pickle.loads(state(model))
    assert copy.n_nonzero < 3_000
    assert copy.n_features_seen == pytest.approx(3_000, rel=4 * 1.04 / 64)
    n_seen = copy.n_features_seen
    for k in range(3_000):  # the same features again: nothing new
        copy.learn_one({f"f{k}": 1.0}, k % 2)
    assert copy.n_features_seen == n_seen
