"""Whatever the examples come in, they are the same rows; what is refused leaves no trace."""

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

values = st.floats(-1e3, 1e3, allow_subnormal=False) | st.sampled_from([0.0, 1.0, -1.0, 0.1])


def bits(a: Any) -> list[int]:
    return list(np.asarray(a, np.float64).view(np.int64))


def state(model: Any) -> bytes:
    return pickle.dumps(model)


def as_dicts(X: Any) -> list[dict[int, float]]:
    """The rows of a CSR matrix in its own order; a column that comes again adds to the first."""
    dicts = []
    for lo, hi in zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist(), strict=True):
        x: dict[int, float] = {}
        for j, v in zip(X.indices[lo:hi].tolist(), X.data[lo:hi].tolist(), strict=True):
            x[j] = x[j] + float(v) if j in x else float(v)
        dicts.append({j: v for j, v in x.items() if v != 0.0})
    return dicts


def labels(n: int) -> list[bool]:
    return [i * 7 % 3 == 0 for i in range(n)]


def assert_same_as_dicts(X: Any, dicts: list[dict[Any, Any]], begun: Any = None) -> None:
    """All the `*_many` on X say and learn, to the bit, what the dicts do one by one."""
    many = pickle.loads(begun) if begun else ElasticNetClassifier(**PARAMS)
    one = pickle.loads(begun) if begun else ElasticNetClassifier(**PARAMS)
    y = labels(len(dicts))
    progressive = []
    for x, label in zip(dicts, y, strict=True):
        progressive.append(one.predict_proba_one(x)[True])
        one.learn_one(x, label)
    batched = pickle.loads(begun) if begun else ElasticNetClassifier(**PARAMS)
    batched.learn_many(X, y)
    assert bits(many.progressive_many(X, y)) == bits(progressive)
    for model in (many, batched):
        assert model.weights == one.weights
        assert model.intercept == one.intercept
        if one._engine.forgotten is model._engine.forgotten is None:
            assert model.n_features_seen == one.n_features_seen
        assert model.n_features_seen == pytest.approx(one.n_features_seen, rel=8 * 1.04 / 64)
        model._engine.check()
    proba = np.asarray(many.predict_proba_many(X))
    assert bits(proba[:, 1]) == bits([one.predict_proba_one(x)[True] for x in dicts])
    assert bits(proba[:, 0]) == bits([one.predict_proba_one(x)[False] for x in dicts])
    assert np.asarray(many.predict_many(X)).tolist() == [one.predict_one(x) for x in dicts]


# Matrices


@st.composite
def matrices(draw: Any) -> Any:
    """CSR as it comes: unsorted, with duplicates (two a column), zeros and empty rows."""
    n = draw(st.integers(0, 6))
    dtype = draw(st.sampled_from([np.float64, np.float32, np.int64, np.int8, np.uint8, np.bool_]))
    index = draw(st.sampled_from([np.int32, np.int64]))
    columns = [
        draw(st.lists(st.integers(0, D - 1), max_size=6, unique=True))
        + draw(st.lists(st.integers(0, D - 1), max_size=2, unique=True))
        for _ in range(n)
    ]
    ends = np.cumsum([0] + [len(row) for row in columns])
    drawn = [draw(values) for row in columns for _ in row]
    data = np.array(drawn) if dtype in (np.float64, np.float32) else np.array(drawn) % 5 - 1
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


BEGUN: list[bytes | None] = [None]


@pytest.fixture(scope="module", autouse=True)
def begun() -> None:
    """Models that have learnt something: with ints as slots, and with names."""
    for names in ([0, 3, 5, 11], ["a", 3, (1, 2), "b=x"]):
        model = ElasticNetClassifier(**PARAMS)
        for i in range(20):
            model.learn_one({names[i % 4]: 1.0 + i, names[i % 3]: -0.5}, i % 2 == 0)
        BEGUN.append(state(model))


@given(matrices(), st.integers(0, 2))
def test_matrices_are_their_rows(X: Any, start: int) -> None:
    assert_same_as_dicts(X, as_dicts(X), BEGUN[start])


@given(matrices())
def test_matrices_are_not_changed(X: Any) -> None:
    before = X.data.copy(), X.indices.copy(), X.indptr.copy()
    model = ElasticNetClassifier()
    model.learn_many(X, labels(X.shape[0]))
    model.predict_many(X)
    for array, copy in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("start", [0, 1, 2])
def test_large_matrices_are_their_rows(index: Any, start: int) -> None:
    """Looked at by the block while they are learnt: plain blocks and such as are not."""
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
    assert_same_as_dicts(X, as_dicts(X), BEGUN[start])


def test_other_matrices() -> None:
    random = np.random.default_rng(2)
    dense = random.normal(size=(40, D)) * (random.random((40, D)) < 0.4)
    dicts = [{j: v for j, v in enumerate(row) if v} for row in dense.tolist()]
    for X in (dense, csr_array(dense), csc_matrix(dense), coo_matrix(dense)):
        assert_same_as_dicts(X, dicts)
    assert_same_as_dicts(np.asfortranarray(dense), dicts)
    assert_same_as_dicts(csr_matrix((0, 0)), [])
    assert_same_as_dicts(csr_matrix((3, 0)), [{}, {}, {}])
    assert_same_as_dicts(csr_matrix((0, 5)), [])


def test_columns_beyond_the_slots() -> None:
    """From the column 2**26 on an int is a name like any other; both sides of it are kept."""
    big = [INTS, INTS + 7, 2**31 - 2]
    for columns in ([*big, 2**40, 2**62], [5, 17, *big]):
        n = len(columns)
        X = csr_matrix((np.arange(1.0, n + 1.0), columns, np.arange(n + 1)), (n, 2**62 + 1))
        assert_same_as_dicts(X, as_dicts(X))
        assert_same_as_dicts(X, as_dicts(X), BEGUN[1])


# Dicts

plain_names = (
    st.integers(-3, 5)
    | st.integers(INTS, INTS + 2)
    | st.sampled_from(["a", "b", "", "a=b", "é", (1, "a"), (), 2.5, -0.0, b"a", None, 2**70])
    | st.floats(0.0, 3.0).map(lambda f: float(round(f)))
    | st.booleans()
)
plain_values = (
    values
    | st.sampled_from([None, "b", "", "b=c", True, False, 3, -1, np.float32(0.1), np.int64(2)])
    | st.sampled_from([np.bool_(True), np.float64(2.5)])
)
# (A name just below 2**26 makes a rule of 512 MB: not here.)


@given(
    st.lists(st.dictionaries(plain_names, plain_values, max_size=5), max_size=6), st.integers(0, 2)
)
def test_dicts_are_their_rows(xs: list[dict[Any, Any]], start: int) -> None:
    assert_same_as_dicts(xs, xs, BEGUN[start])


@given(st.dictionaries(plain_names, plain_values, max_size=6))
def test_plain_items(x: dict[Hashable, Any]) -> None:
    """What is said of strings, None and zeros, written out."""
    expected: dict[Hashable, float] = {}
    for name, value in x.items():
        if value is not None:
            feature = f"{name}={value}" if isinstance(value, str) else name
            number = 1.0 if isinstance(value, str) else float(value)
            expected[feature] = expected.get(feature, 0.0) + number
    assert numeric_features(x) == {name: v for name, v in expected.items() if v != 0.0}


def test_a_string_meets_a_feature_of_that_name() -> None:
    """`a="b"` beside `a=b`: one feature, the sum; and where it comes to zero, none."""
    model = ElasticNetRegressor()
    model.learn_one({"a": "b", "a=b": 2.0}, 1.0)
    twin = ElasticNetRegressor()
    twin.learn_one({"a=b": 3.0}, 1.0)
    assert model.weights == twin.weights
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


def test_pandas_frames_are_their_rows() -> None:
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
            assert_same_as_dicts(X, exact, BEGUN[start])
        assert_same_as_dicts(X.iloc[::-1], exact[::-1])
        assert_same_as_dicts(X.iloc[:0], [])


def test_pandas_columns_with_absent_values() -> None:
    """Absent is absent where the column's type can say so; a NaN among floats is refused."""
    dicts: list[dict[Hashable, Any]] = [{"v": 1.0}, {}, {"v": 3.0}]
    for dtype in ("Int64", "Float64", "UInt8", "double[pyarrow]", object):
        column = pd.Series([1, None, 3], dtype=dtype)
        assert_same_as_dicts(pd.DataFrame({"v": column}), dicts)
    booleans = pd.DataFrame({"v": pd.Series([True, None, False], dtype="boolean")})
    assert_same_as_dicts(booleans, [{"v": 1.0}, {}, {}])
    with pytest.raises(BadExample) as refused:
        ElasticNetClassifier().learn_many(pd.DataFrame({"v": [1.0, None, 3.0]}), labels(3))
    assert refused.value.row == 1


@pytest.mark.parametrize("dtype", [None, "str", "category"])
def test_pandas_strings_with_absent_values(dtype: Any) -> None:
    X = pd.DataFrame({"a": pd.Series(["x", None, "y"], dtype=dtype)})
    assert_same_as_dicts(X, [{"a": "x"}, {}, {"a": "y"}])


def test_three_columns_that_are_one_feature() -> None:
    """Sums are taken in the order of the columns, as in a dict."""
    x = {"a=b=c": 0.3, "a": "b=c", "a=b": "c"}
    [alone] = numeric_features(x).values()
    batch = checked(batch_of(pd.DataFrame([x])))
    assert batch.rows.values.tolist() == [alone]


def test_three_of_a_column_are_summed_in_order() -> None:
    random = np.random.default_rng(0)
    for _ in range(100):
        a, b, c = random.normal(size=3).tolist()
        X = csr_matrix((1, 3))
        X.data, X.indices, X.indptr = np.array([a, b, c]), np.zeros(3, int), np.array([0, 3])
        assert checked(batch_of(X)).rows.values.tolist() == [(a + b) + c]


def test_other_frames_are_their_rows() -> None:
    dicts = frame_dicts(COLUMNS, 5)
    X = pl.DataFrame(COLUMNS)  # type: ignore[arg-type]
    assert_same_as_dicts(X, dicts)
    assert_same_as_dicts(X.cast({"a": pl.Categorical, "some": pl.Categorical}), dicts)
    assert_same_as_dicts(X.head(0), [])
    assert_same_as_dicts(X.to_arrow(), dicts)
    absent = pl.DataFrame({"v": [1, None, 3], "b": [True, None, False]})
    assert_same_as_dicts(absent, [{"v": 1.0, "b": 1.0}, {}, {"v": 3.0}])
    with pytest.raises(BadExample) as refused:
        ElasticNetClassifier().learn_many(pl.DataFrame({"v": [1.0, 2.0, math.nan]}), labels(3))
    assert refused.value.row == 2


def test_sparse_frames_are_their_rows() -> None:
    random = np.random.default_rng(3)
    dense = random.normal(size=(30, 8)) * (random.random((30, 8)) < 0.3)
    columns = [*"sparse", "s1", 3]
    X = pd.DataFrame(dense, columns=columns).astype(pd.SparseDtype(float, 0.0))
    X = X.loc[:, ~X.columns.duplicated()]
    dicts = X.sparse.to_dense().to_dict("records")
    assert_same_as_dicts(X, dicts)


@pytest.mark.parametrize("beside", [False, True])
def test_a_sparse_column_has_zeros_for_what_is_absent(beside: bool) -> None:
    """And a NaN is a NaN, whether another column is dense or not."""
    columns = {"a": pd.arrays.SparseArray([1.0, 0.0, 2.0], fill_value=0)}
    dicts = [{"a": 1.0}, {}, {"a": 2.0}]
    if beside:
        columns |= {"b": [1.0, 2.0, 3.0]}
        dicts = [x | {"b": k} for k, x in enumerate(dicts, start=1)]
    assert_same_as_dicts(pd.DataFrame(columns), dicts)
    columns["a"] = pd.arrays.SparseArray([1.0, math.nan, 2.0], fill_value=0)
    with pytest.raises(BadExample, match="the value of 'a' is NaN") as refused:
        ElasticNetClassifier().learn_many(pd.DataFrame(columns), labels(3))
    assert refused.value.row == 1


def test_ints_wider_than_those_of_numpy() -> None:
    X = pl.DataFrame({"v": pl.Series([1, None, 2**100], dtype=pl.Int128)})
    assert_same_as_dicts(X, [{"v": 1.0}, {}, {"v": 2.0**100}])


def test_two_columns_of_one_name_are_refused_in_frames_of_every_kind() -> None:
    X = pd.DataFrame([[0.0, 1.0], [2.0, 0.0]], columns=["a", "a"])
    arrow = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    model = ElasticNetClassifier()
    for frame in (X, X.astype(pd.SparseDtype(float, 0.0)), arrow):
        for call in (
            lambda frame=frame: model.learn_many(frame, labels(len(frame))),
            lambda frame=frame: model.predict_many(frame),
            lambda frame=frame: model.predict_proba_many(frame),
        ):
            with pytest.raises(TypeError, match="^the frame has two columns 'a'; rename one"):
                call()


@pytest.mark.filterwarnings("error")
def test_a_lazy_frame_is_to_be_collected() -> None:
    X = pl.LazyFrame({"a": [1.0, 2.0]})
    with pytest.raises(TypeError, match=r"^X is a LazyFrame, .*; collect\(\) it first"):
        ElasticNetClassifier().learn_many(X, labels(2))


def test_names_of_several_levels_are_as_in_dicts() -> None:
    columns = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    X = pd.DataFrame([["u", 1.0], ["v", 2.0]], columns=columns)
    assert_same_as_dicts(X, [{("a", 1): "u", ("b", 2): 1.0}, {("a", 1): "v", ("b", 2): 2.0}])


def test_floats_of_two_bytes() -> None:
    one, two = ElasticNetClassifier(), ElasticNetClassifier()
    X = np.array([[1.0, 0.0], [0.1, 2.0]], np.float16)
    one.learn_many(X, labels(2))
    two.learn_many(X.astype(np.float64), labels(2))
    assert state(one) == state(two)


def test_frames_keep_their_labels_kind() -> None:
    X = pd.DataFrame({"v": [1.0, 2.0]}, index=[7, 9])
    model = ElasticNetClassifier()
    model.learn_many(X, pd.Series([True, False], index=[7, 9], name="spam"))
    assert list(model.predict_many(X).index) == [7, 9]
    assert list(model.predict_proba_many(X).columns) == [False, True]
    assert isinstance(model.predict_many(pl.DataFrame({"v": [1.0]})), pl.Series)


# What is refused

WRONG = [math.nan, math.inf, -math.inf, 1e60, 1e50]


def assert_refused(model: Any, X: Any, row: int, y: Any = None, w: Any = None) -> None:
    """Nothing of the batch is learnt, and what comes next is learnt as if it had never been."""
    before, seen = state(model), model.n_features_seen
    y_given = labels(X.shape[0] if hasattr(X, "shape") else len(X)) if y is None else y
    calls = [lambda: model.learn_many(X, y_given, w), lambda: model.progressive_many(X, y_given, w)]
    if y is None and w is None:
        calls += [lambda: model.predict_many(X), lambda: model.predict_proba_many(X)]
    for call in calls:
        with pytest.raises(BadExample) as refused:
            call()
        assert refused.value.row == row
        assert str(refused.value) == refused.value.reason
        assert "\n" not in refused.value.reason
        assert state(model) == before and model.n_features_seen == seen
        model._engine.check()
    model.learn_one({0: 1.0, "fine": 1.0}, True)  # goes on as if nothing had been
    twin = pickle.loads(before)
    twin.learn_one({0: 1.0, "fine": 1.0}, True)
    assert model.weights == twin.weights and model.intercept == twin.intercept


def begun_model(start: int) -> Any:
    begun = BEGUN[start]
    return pickle.loads(begun) if begun else ElasticNetClassifier(**PARAMS)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize(
    ("rows", "bad"), [(1, 0), (5, 3), (2_000, 0), (2_000, 130), (2_000, 1_999)]
)
def test_values_refused_in_matrices(wrong: float, start: int, rows: int, bad: int) -> None:
    """A small batch is looked at first; a large one, beside a model as small, while learnt."""
    random = np.random.default_rng(bad)
    indices = random.integers(0, 900, 3 * rows).astype(np.int32)
    data = random.normal(size=3 * rows)
    data[3 * bad + 1] = wrong
    for index in (np.int32, np.int64):
        X = csr_matrix((rows, 900))
        X.data, X.indices = data, indices.astype(index)
        X.indptr = np.arange(0, 3 * rows + 1, 3).astype(index)
        assert_refused(begun_model(start), X, bad)


def test_values_refused_in_a_small_batch_for_a_large_model() -> None:
    model = ElasticNetClassifier(**PARAMS)
    model.learn_many(csr_matrix(([1.0], [50_000], [0, 1]), (1, 60_000)), [True])
    X = csr_matrix(np.array([[1.0, 0.0], [0.0, 2.0], [math.nan, 1.0]]))
    assert_refused(model, X, 2)
    X = csr_matrix((2_000, 200_000))  # grows the model before it comes to the bad row
    X.data = np.ones(60_000)
    X.indices = np.tile(np.arange(30, dtype=np.int32), 2_000)
    X.indices[:1_999] += 100_000
    X.indptr = np.arange(0, 60_001, 30, dtype=np.int32)
    X.data[-1] = math.inf
    assert_refused(model, X, 1_999)


@pytest.mark.parametrize("wrong", [*WRONG, [], 1j, b"1", {}])
@pytest.mark.parametrize("start", [0, 1, 2])
def test_values_refused_in_dicts(wrong: Any, start: int) -> None:
    for name in (3, "new", "a", (9, 9)):
        xs: list[dict[Any, Any]] = [{3: 1.0, "new too": "s"}, {name: 1.0}, {"a": 1.0, name: wrong}]
        assert_refused(begun_model(start), xs, 2)
        assert_refused(begun_model(start), [{3: 1.0}, {name: wrong, 5: 1}], 1)
        model = begun_model(start)
        before = state(model)
        with pytest.raises(BadExample, match=r"."):
            model.learn_one({"a": 1.0, "unknown": 2.0, name: wrong}, True)
        with pytest.raises(BadExample):
            model.predict_one({"a": 1.0, name: wrong})
        with pytest.raises(BadExample):
            model.predict_many([{}, {name: wrong}])
        assert state(model) == before
        model._engine.check()


def test_sums_beyond_the_limit_are_refused() -> None:
    X = csr_matrix((2, 2))
    X.data, X.indices = np.array([1.0, 9e49, 9e49]), np.array([0, 1, 1])
    X.indptr = np.array([0, 1, 3])
    assert_refused(ElasticNetClassifier(), X, 1)
    frame = pd.DataFrame({"a": ["c", "b"], "a=b": [1.0, 1e50]})
    assert_refused(ElasticNetClassifier(), frame, 1)


def test_values_refused_in_frames() -> None:
    for wrong in (math.nan, math.inf, 1e60):
        assert_refused(begun_model(2), pd.DataFrame({"v": [1.0, 2.0, wrong]}), 2)
        frame = pd.DataFrame({"a": ["b", "b"], "v": [1.0, wrong]})
        assert_refused(begun_model(1), frame, 1)
    dates = pd.to_datetime(["2020", "2021"])
    for column, row in (([1.0, object()], 1), (dates, 0), (pd.Series([1, 2j], dtype=object), 1)):
        frame = pd.DataFrame({"fine": [1.0, 2.0], "v": pd.Series(column)})
        assert_refused(begun_model(2), frame, row)


@pytest.mark.parametrize("kind", ["dicts", "frame"])
def test_the_first_bad_row_is_told(kind: str) -> None:
    if kind == "dicts":
        X: Any = [{"a": 1.0}, {"a": math.nan}, {"a": object()}]
    else:
        X = pd.DataFrame({"a": [1.0, 2.0, object()], "b": [1.0, math.nan, 1.0]})
    with pytest.raises(BadExample) as refused:
        ElasticNetClassifier().learn_many(X, labels(3))
    assert refused.value.row == 1


@pytest.mark.parametrize("start", [0, 1, 2])
def test_labels_and_weights_refused(start: int) -> None:
    X = csr_matrix(np.eye(3))
    for y in ([1, 0, 2], [1, 0, -1], [True, False, None], [1, 0, math.nan], ["1", 0, "x"]):
        row = 0 if y[0] == "1" else 2
        assert_refused(begun_model(start), X, row, y=y)
        assert_refused(begun_model(start), [{"q": 1.0}, {"r": 1.0}, {"s": "t"}], row, y=y)
    for w in ([1.0, -1.0, 1.0], [0.0, math.nan, 1.0], [1.0, math.inf, 0.0], [1.0, None, 2.0]):
        assert_refused(begun_model(start), X, 1, w=w)
    regressor = ElasticNetRegressor()
    for wrong in (math.nan, math.inf, 1e60, None, "1.0"):
        y_many = np.array([1.0, 2.0, wrong], object)
        before = state(regressor)
        with pytest.raises(BadExample) as refused:
            regressor.learn_many(X, y_many)
        assert refused.value.row == 2 and state(regressor) == before


def test_lengths_that_differ_are_refused() -> None:
    model = ElasticNetClassifier()
    before = state(model)
    for y, w in (
        ([1, 0], None),
        ([1, 0, 1, 1], None),
        ([1, 0, 1], [1.0, 2.0]),
        (np.ones((3, 1)), None),
    ):
        with pytest.raises(ValueError, match="rows"):
            model.learn_many(csr_matrix(np.eye(3)), y, w)
    assert state(model) == before


# Broken matrices


def broken(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> Any:
    X = csr_matrix(shape)
    X.data, X.indices, X.indptr = np.asarray(data, float), np.asarray(indices), np.asarray(indptr)
    return X


def _int(dtype: Any, *numbers: int) -> Any:
    return np.array(numbers).astype(dtype)


BROKEN = {
    "index": lambda t: broken([1.0, 1.0], _int(t, 0, 5), _int(t, 0, 1, 2), (2, 5)),
    "far index": lambda t: broken([1.0, 1.0], _int(t, 0, 2**31 - 1), _int(t, 0, 1, 2), (2, 5)),
    "negative index": lambda t: broken([1.0, 1.0], _int(t, 0, -1), _int(t, 0, 1, 2), (2, 5)),
    "falling indptr": lambda t: broken([1.0] * 3, _int(t, 0, 1, 2), _int(t, 0, 3, 1), (2, 5)),
    "long indptr": lambda t: broken([1.0] * 3, _int(t, 0, 1, 2), _int(t, 0, 1, 9), (2, 5)),
    "negative indptr": lambda t: broken([1.0] * 3, _int(t, 0, 1, 2), _int(t, -1, 1, 3), (2, 5)),
    "short data": lambda t: broken([1.0], _int(t, 0, 1, 2), _int(t, 0, 1, 3), (2, 5)),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("start", [0, 1, 2])
def test_broken_matrices_are_refused(name: str, dtype: Any, start: int) -> None:
    model = begun_model(start)
    before = state(model)
    X = BROKEN[name](dtype)
    for call in (
        lambda: model.learn_many(X, labels(2)),
        lambda: model.progressive_many(X, labels(2)),
        lambda: model.predict_many(X),
        lambda: model.predict_proba_many(X),
    ):
        with pytest.raises(TypeError, match=r"check_format\(\)"):
            call()
    assert state(model) == before
    model._engine.check()


BROKEN_LARGE = {
    "index beyond the slots": 2**30,
    "negative index": -1,
    "index beyond the columns, below the slots": 950,
}


@pytest.mark.parametrize("name", BROKEN_LARGE)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("place", ["alone", "sorted"])
def test_large_broken_matrices_are_refused(name: str, dtype: Any, place: str) -> None:
    """Where rows are looked at while they are learnt."""
    indices = np.tile(np.arange(3), 1_000).astype(dtype)
    indices[1_501 if place == "alone" else 1_502] = BROKEN_LARGE[name]
    X = broken(np.ones(3_000), indices, np.arange(0, 3_001, 3).astype(dtype), (1_000, 900))
    model = ElasticNetClassifier(**PARAMS)
    model.learn_one({0: 1.0}, True)
    before = state(model)
    with pytest.raises(TypeError, match=r"check_format\(\)"):
        model.learn_many(X, labels(1_000))
    assert state(model) == before


def test_the_state_is_copied_only_where_it_is_smaller_than_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table of all steps is state too: copied each time, a row would cost the time passed."""
    copies = []
    state_now = ModelState._backup
    monkeypatch.setattr(ModelState, "_backup", lambda self: copies.append(1) or state_now(self))
    X = csr_matrix(np.ones((3_000, 3)))
    model = ElasticNetClassifier(l1=1e-3, stamps="explicit")
    model.learn_many(X, labels(3_000))
    assert copies
    for _ in range(4):
        model.learn_many(X, labels(3_000))
    copies.clear()
    model.learn_many(X, labels(3_000))
    assert not copies


@pytest.mark.parametrize("entry", [(math.nan, 5), (1.0, 5)])
def test_matrices_without_columns_hold_nothing(entry: tuple[float, int]) -> None:
    X = broken(entry[:1], _int(np.int32, entry[1]), _int(np.int32, 0, 1), (1, 0))
    model = ElasticNetClassifier()
    with pytest.raises(TypeError, match=r"check_format\(\)"):
        model.learn_many(X, [True])


def test_an_empty_indptr_is_refused() -> None:
    X = broken([1.0], _int(np.int32, 0), _int(np.int32), (1, 5))
    with pytest.raises(TypeError, match=r"check_format\(\)"):
        ElasticNetClassifier().learn_many(X, [True])


UNSIGNED = """
import numpy as np
from scipy.sparse import csr_matrix
from streaml1 import ElasticNetClassifier
X = csr_matrix((np.ones(3), [0, 1, 2], [0, 1, 3]), (2, 5))
X.indptr = np.array([0, 300_000, 3], np.uint64)
try:
    ElasticNetClassifier().learn_many(X, [True, False])
except TypeError as error:
    assert "check_format" in str(error)
else:
    raise SystemExit(3)
"""


def test_unsigned_pointers_that_fall_are_refused(python: Any) -> None:
    """In a process of its own: this read memory that is not the matrix's."""
    python("-c", UNSIGNED, NUMBA_BOUNDSCHECK="1")


@pytest.mark.slow
def test_with_every_access_checked(python: Any) -> None:
    """This file again, in a process whose kernels check each index."""
    chosen = "not checked and not fall_are and not beyond_the_slots"
    python(
        *("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__, "-k", chosen),
        NUMBA_BOUNDSCHECK="1",
        STREAML1_EXAMPLES="7",
        timeout=500.0,
    )


# Names


def test_equal_names_are_one_name() -> None:
    """As in a dict: 1, 1.0, True and np.int64(1); also once ints have given up their slots."""
    ones: list[Hashable] = [1, 1.0, True, np.int64(1), np.uint8(1), np.float32(1), np.bool_(True)]
    for others in ([], ["x"]):
        model = ElasticNetRegressor()
        for name in others:
            model.learn_one({name: 1.0}, 1.0)
        for name in ones:
            model.learn_one({name: 1.0}, 1.0)
        assert model.n_features_seen == 1 + len(others)
        assert list(model.weights) == [*others, 1]
        [prediction] = {model.predict_one({name: 2.0}) for name in ones}
        assert prediction == model.predict_many([{1.0: 2.0}])[0]
        model.learn_one({"y": 1.0}, 1.0)
        assert {model.predict_one({name: 2.0}) != model.predict_one({}) for name in ones} == {True}
        assert model.n_features_seen == 2 + len(others)
        model._engine.check()


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
    """Nothing depends on which names come first, or on how many come at once."""
    one, many = ElasticNetClassifier(**PARAMS), ElasticNetClassifier(**PARAMS)
    xs = [{name: 1.0 + len(names[:i]) for name in names[i : i + step]} for i in range(len(names))]
    y = labels(len(xs))
    distinct: dict[Hashable, None] = {}
    for i, x in enumerate(xs):
        one.learn_one(x, y[i])
        distinct |= dict.fromkeys(x)
        one._engine.check()
        assert one.n_features_seen == len(distinct)
        assert set(one.weights) <= set(distinct)
    many.learn_many(xs, y)
    many._engine.check()
    assert many.weights == one.weights
    numbered = ElasticNetClassifier(**PARAMS)  # the same stream, every name a small int
    places = {name: k for k, name in enumerate(distinct)}
    numbered.learn_many([{places[name]: v for name, v in x.items()} for x in xs], y)
    assert {name: one.weights.get(name, 0.0) for name in distinct} == {
        name: numbered.weights.get(k, 0.0) for name, k in places.items()
    }


def test_thousands_of_names() -> None:
    """The table of names and the rule grow many times; examples wider than the buffer too."""
    model, twin = ElasticNetRegressor(**PARAMS), ElasticNetRegressor(**PARAMS)
    for i in range(300):
        row = range(i * i % 4_001, i * i % 4_001 + (900 if i % 50 == 3 else 40))
        model.learn_one({f"name {j}": 0.1 for j in row}, float(i % 7))
        twin.learn_one({j: 0.1 for j in row}, float(i % 7))
        if i % 60 == 0:
            model._engine.check()
    assert {int(name.split()[1]): w for name, w in model.weights.items()} == twin.weights
    assert model.n_features_seen == pytest.approx(twin.n_features_seen, rel=4 * 1.04 / 64)
    model._engine.check()


@given(st.lists(st.lists(st.text(max_size=4) | st.integers(), max_size=20, unique=True)))
def test_a_table_of_names_keeps_them(batches: list[list[Hashable]]) -> None:
    table, slots = InternedVocabulary(), dict[Hashable, int]()
    for names in batches:
        for name in names:
            slots.setdefault(name, len(slots))
        assert table.intern_all(names).tolist() == [slots[name] for name in names]
        assert table.find_all(names).tolist() == [slots[name] for name in names]
        table.check(len(slots))
    assert table.names() == list(slots)


def test_a_table_tells_of_its_faults() -> None:
    table = InternedVocabulary()
    table.intern_all(["a", "b", 3])
    table.check(3)
    with pytest.raises(AssertionError, match="more names than slots"):
        table.check(2)
    table.keys[0] = "c"
    with pytest.raises(AssertionError, match="slot"):
        table.check(3)


def test_a_dict_with_a_class_of_its_own_goes_the_other_road() -> None:
    """Names and values whose methods are somebody's own give the same rows."""

    class Name(str):
        pass

    class Value(float):
        pass

    plain: dict[Any, Any] = {"a": 1.5, "b": 2, "c": True, "d": None, "e": "f", "g": 0}
    odd = {Name(k): Value(v) if isinstance(v, float) else v for k, v in plain.items()}
    models = [ElasticNetClassifier(**PARAMS) for _ in range(2)]
    for i in range(6):
        for model, x in zip(models, (plain, odd), strict=True):
            model.learn_one(x, i % 2)
    assert models[0].weights == models[1].weights
    assert models[0].predict_proba_one(plain) == models[0].predict_proba_one(odd)


@pytest.mark.parametrize("n", [10, 1_000, 12_000, 100_000])
def test_the_sketch_keeps_to_its_error(n: int) -> None:
    """Four standard errors of 1.6%; names of several kinds, twice each, in any order."""
    for kind in (lambda k: f"word {k}", lambda k: k, lambda k: (k, "x")):
        sketch = DistinctCounter()
        names = [kind(k) for k in range(n)]
        sketch.add(name_hashes(names))
        copy = sketch.copy()
        copy.add(name_hashes(names[::-1]))
        assert copy.estimate() == sketch.estimate()
        assert sketch.estimate() == pytest.approx(n, rel=4 * 1.04 / 64)


@pytest.mark.parametrize("n", [100, 3_000, 10_000, 12_000, 40_000])
def test_the_sketch_errs_to_both_sides(n: int) -> None:
    """Also where the usual estimator changes its formula: the mean of 60 is off by 0.2%."""
    random, found = np.random.default_rng(n), []
    for _ in range(60):
        sketch = DistinctCounter()
        sketch.add(random.integers(0, 2**64, n, dtype=np.uint64))
        found.append(sketch.estimate() / n - 1.0)
    assert abs(np.mean(found)) < 4 * 0.01625 / np.sqrt(60)
    assert np.std(found) < 1.4 * 0.01625


def test_the_sketch_knows_equal_names() -> None:
    sketch = DistinctCounter()
    sketch.add(name_hashes([2**30, np.int64(2**30), float(2**30), -1, np.int64(-1), "1", 1]))
    assert sketch.estimate() == 4


def test_features_seen_after_zeros_were_given_back(tmp_path: Path) -> None:
    model = ElasticNetClassifier(l1=0.2, lr=1.0)
    for k in range(3_000):
        model.learn_one({f"f{k}": 1.0}, k % 2)
    assert model.n_features_seen == pytest.approx(3_000, rel=4 * 1.04 / 64)
    copy = pickle.loads(state(model))
    assert copy.n_nonzero < 3_000
    assert copy.n_features_seen == pytest.approx(3_000, rel=4 * 1.04 / 64)
    seen = copy.n_features_seen
    for k in range(3_000):  # the same again: nothing new
        copy.learn_one({f"f{k}": 1.0}, k % 2)
    assert copy.n_features_seen == seen
