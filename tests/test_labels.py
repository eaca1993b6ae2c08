"""Labels and sample weights: accepted values, rejected values and the reported row."""

from __future__ import annotations

import math
import pickle
from collections import deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1 import BadExample, ElasticNetClassifier, ElasticNetRegressor
from streaml1.core import rows
from streaml1.features.label_texts import LabelTexts
from streaml1.features.labels import (
    require_mapping,
    to_number,
    to_numbers,
    to_sign,
    to_signs,
    to_weight,
    to_weights,
)
from streaml1.sources.source import Block, binary_label, class_label, number_label
from streaml1.training.batches import label_block

TRUE = [True, 1, 1.0, np.True_, np.int8(1), np.uint64(1), np.float32(1.0), Decimal(1), Fraction(1)]
FALSE = [False, 0, 0.0, -0.0, np.False_, np.int64(0), np.float16(0.0), Decimal(0), Fraction(0)]
NOT_NUMBERS: list[Any] = [
    *("1", "True", "", b"1", bytearray(b"1"), None, [1], (1,), {1}, {"y": 1}, object(), int),
    *(np.array([1]), np.array([0, 1]), np.str_("1"), np.bytes_(b"1")),
]
INVALID_LABELS: list[Any] = [-1, 2, 0.5, 10**400, math.nan, math.inf, 1e-300, np.int64(-1), 1j]
INVALID_VALUES: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    1e50,
    -1e51,
    10**50,
    10**400,
    -(10**400),
]
INVALID_VALUES += [np.float32("nan"), np.float64("inf"), Decimal("nan"), Decimal("1e400"), 1j]
VALUES: list[Any] = [0, -3, 2.5, True, np.float32(0.1), np.int8(-5), 9.99e49, 10**49, -0.0, 5e-324]
VALUES += [Decimal("0.1"), Fraction(1, 3), np.bool_(True)]
INVALID_WEIGHTS: list[Any] = [-1, -1e-300, math.nan, math.inf, 1e16, 10**400, 1j, Decimal("nan")]
WEIGHTS: list[Any] = [0, 0.0, -0.0, 1, True, 1e15, 10**15, 0.5, np.float32(2), Decimal(3)]


def make_model(kind: str) -> Any:
    model = ElasticNetClassifier() if kind == "classifier" else ElasticNetRegressor()
    model.learn_one({"a": 1.0}, True)
    return model


def short_repr(v: Any) -> str:
    return f"{type(v).__name__} {str(v)[:12]}"


@pytest.mark.parametrize("y", TRUE + FALSE, ids=short_repr)
def test_classifiers_accept_binary_labels(y: Any) -> None:
    sign = 1.0 if y == 1 else -1.0
    assert to_sign(y) == sign
    assert type(to_sign(y)) is float
    assert to_signs([y], 1).tolist() == [sign]
    assert to_signs([True, y, 0], 3).tolist() == [1.0, sign, -1.0]
    model, twin = make_model("classifier"), make_model("classifier")
    model.learn_one({"a": 1.0}, y)
    twin.learn_one({"a": 1.0}, bool(y))
    assert pickle.dumps(model) == pickle.dumps(twin)


@pytest.mark.parametrize("y", INVALID_LABELS + NOT_NUMBERS, ids=short_repr)
def test_classifiers_reject_other_labels(y: Any) -> None:
    model = make_model("classifier")
    before = pickle.dumps(model)
    for call in (
        lambda: to_sign(y),
        lambda: model.learn_one({"a": 1.0, "new": 1.0}, y),
    ):
        with pytest.raises(BadExample) as caught:
            call()
        assert caught.value.row == 0
        assert "is not a label of a classifier; labels are False, True, 0 or 1" in str(caught.value)
    for valid in ([True, False], [0, 1], [1.0, 0.0], [True, 0], [np.True_, 1.0]):
        with pytest.raises(BadExample) as caught:
            model.learn_many([{"a": 1.0}, {"b": 1.0}, {"c": 1.0}], [*valid, y])
        assert caught.value.row == 2
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("y", VALUES, ids=short_repr)
def test_regressors_accept_finite_numbers(y: Any) -> None:
    assert to_number(y) == float(y)
    assert type(to_number(y)) is float
    assert to_numbers([y], 1).tolist() == [float(y)]
    assert to_numbers([0.5, y, 1], 3).tolist() == [0.5, float(y), 1.0]


@pytest.mark.parametrize("y", INVALID_VALUES + NOT_NUMBERS, ids=short_repr)
def test_regressors_reject_other_labels(y: Any) -> None:
    model = make_model("regressor")
    before = pickle.dumps(model)
    for call in (lambda: to_number(y), lambda: model.learn_one({"a": 1.0, "new": 1.0}, y)):
        with pytest.raises(BadExample) as caught:
            call()
        assert caught.value.row == 0
        assert "label" in str(caught.value)
        assert "\n" not in str(caught.value)
    for valid in ([0.5, 1.0], [1, 2], [True, False], [1, 0.5], [Decimal(1), 2.0]):
        with pytest.raises(BadExample) as caught:
            model.learn_many([{"a": 1.0}, {"b": 1.0}, {"c": 1.0}], [*valid, y])
        assert caught.value.row == 2
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("w", WEIGHTS, ids=short_repr)
def test_valid_weights_are_accepted(w: Any) -> None:
    assert to_weight(w) == float(w)
    assert to_weights(w, 2).tolist() == [float(w)] * 2
    assert to_weights([1, w], 2).tolist() == [1.0, float(w)]
    model = make_model("regressor")
    model.learn_one({"a": 1e-9}, 1.0, w)
    assert model.n_iterations == 2


@pytest.mark.parametrize(
    "w", [*INVALID_WEIGHTS, *(v for v in NOT_NUMBERS if v is not None)], ids=short_repr
)
def test_invalid_weights_are_rejected(w: Any) -> None:
    for kind in ("classifier", "regressor"):
        model = make_model(kind)
        before = pickle.dumps(model)
        for call in (lambda: to_weight(w), lambda m=model: m.learn_one({"new": 1.0}, True, w)):
            with pytest.raises(BadExample, match="of the example is not a number from 0 to 1e15"):
                call()
        for valid in ([1.0, 2.0], [1, 2], [1, 0.5]):
            with pytest.raises(BadExample) as caught:
                model.learn_many([{"new": 1.0}] * 3, [True] * 3, [*valid, w])
            assert caught.value.row == 2
        assert pickle.dumps(model) == before


def test_errors_show_numbers_of_numpy_without_their_type() -> None:
    with pytest.raises(BadExample, match="^7 is not a label"):
        make_model("classifier").learn_one({"a": 1.0}, np.int64(7))
    with pytest.raises(BadExample, match="^the label inf is not finite"):
        make_model("regressor").learn_one({"a": 1.0}, np.float32("inf"))
    with pytest.raises(ValueError, match=r"got -1\.0$"):
        ElasticNetClassifier(l1=np.float64(-1.0))


def test_none_is_not_a_weight_of_an_example() -> None:
    with pytest.raises(BadExample, match="the weight None"):
        ElasticNetClassifier().learn_one({"a": 1.0}, True, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "y",
    [
        np.timedelta64(1, "s"),
        np.datetime64(1, "s"),
        np.complex128(1 + 2j),
        np.void(b"1"),
    ],
)
def test_non_real_numpy_scalars_are_rejected(y: Any) -> None:
    for check in (to_sign, to_number, to_weight):
        with pytest.raises(BadExample):
            check(y)


# Batches

COLUMNS: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "object array": lambda y: np.array(y, object),
    "series": pd.Series,
    "series of objects": lambda y: pd.Series(y, dtype=object),
    "other index": lambda y: pd.Series(y, index=range(10, 10 + len(y))),
    "strided": lambda y: np.repeat(np.array(y), 2)[::2],
    "not writable": lambda y: np.frombuffer(np.array(y).tobytes(), np.array(y).dtype),
    "deque": deque,
}


@pytest.mark.parametrize("column", COLUMNS)
def test_column_containers(column: str) -> None:
    make_column = COLUMNS[column]
    assert to_signs(make_column([True, False, True]), 3).tolist() == [1.0, -1.0, 1.0]
    assert to_signs(make_column([1, 0, 1]), 3).tolist() == [1.0, -1.0, 1.0]
    assert to_signs(make_column([1.0, 0.0, 1.0]), 3).tolist() == [1.0, -1.0, 1.0]
    assert to_numbers(make_column([1.5, -2.0, 0.0]), 3).tolist() == [1.5, -2.0, 0.0]
    assert to_numbers(make_column([3, -2, 0]), 3).tolist() == [3.0, -2.0, 0.0]
    assert to_weights(make_column([1.5, 2.0, 0.0]), 3).tolist() == [1.5, 2.0, 0.0]
    for check, invalid in ((to_signs, 2.0), (to_numbers, math.nan), (to_weights, -1.0)):
        for valid in (0.0, 1.0):
            with pytest.raises(BadExample) as caught:
                check(make_column([valid, invalid, valid]), 3)
            assert caught.value.row == 1


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i4", "u8", "f2", "f4", "f8", ">f8", ">i4"])
def test_column_dtypes(dtype: str) -> None:
    column = np.array([1, 0, 1], dtype)
    assert to_signs(column, 3).tolist() == [1.0, -1.0, 1.0]
    assert to_numbers(column, 3).tolist() == [1.0, 0.0, 1.0]
    assert to_weights(column, 3).tolist() == [1.0, 0.0, 1.0]
    for checked in (to_signs(column, 3), to_numbers(column, 3), to_weights(column, 3)):
        assert checked.dtype == np.float64
        assert checked.flags.c_contiguous
        assert checked.flags.writeable


def test_input_columns_are_not_modified() -> None:
    for make_column in (np.array, pd.Series):
        y, w = make_column([1.0, 0.0]), make_column([0.5, 2.0])
        model = ElasticNetRegressor()
        model.learn_many([{"a": 1.0}, {"b": 1.0}], y, w)
        assert list(y) == [1.0, 0.0]
        assert list(w) == [0.5, 2.0]


@pytest.mark.parametrize("unit", ["ns", "D"])
@pytest.mark.parametrize("time_type", [np.datetime64, np.timedelta64])
def test_times_are_rejected(time_type: Any, unit: str) -> None:
    """numpy converts nanosecond times to ints, so they need a check."""
    time = time_type(1, unit)
    x = [{"a": 1.0}, {"b": 1.0}]
    for kind in ("classifier", "regressor"):
        model = make_model(kind)
        before = pickle.dumps(model)
        for learn in (
            lambda model=model: model.learn_one({"a": time}, 1.0),
            lambda model=model: model.learn_one({"a": 1.0}, time),
            lambda model=model: model.learn_one({"a": 1.0}, 1.0, w=time),
            lambda model=model: model.learn_many(x, np.array([time, time])),
            lambda model=model: model.learn_many(x, pd.Series([time, time])),
            lambda model=model: model.learn_many(x, [1.0, time]),
            lambda model=model: model.learn_many(x, [1.0, 0.0], np.array([time, time])),
            lambda model=model: model.learn_many([{"a": 1.0}, {"a": time}], [1.0, 0.0]),
        ):
            with pytest.raises(BadExample):
                learn()
        assert pickle.dumps(model) == before


def test_polars_int128_column() -> None:
    polars = pytest.importorskip("polars")
    assert to_numbers(polars.Series([1, 2], dtype=polars.Int128), 2).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("v", [10**400, 10**5000], ids=["400", "5000"])
def test_error_shows_an_int_beyond_float_range(v: int) -> None:
    with pytest.raises(BadExample, match=r"^the value (1000\d+|int\()\.\.\.\)? of .a. is too"):
        ElasticNetClassifier().learn_one({"a": v}, True)


@pytest.mark.parametrize(
    ("y", "row"),
    [
        ([True, "1", None], 1),
        ([1, 0.5, "x"], 1),
        (["1", True], 0),
        ([np.True_, 1, 0.0, 2], 3),
        ([True, [1]], 1),
        ([[1], [0]], 0),
        ([1, 10**400], 1),
        (["a", "b"], 0),
    ],
)
def test_mixed_labels_report_the_right_row(y: list[Any], row: int) -> None:
    for check in (to_signs, to_numbers):
        if check is to_numbers and row == 3:
            continue
        if check is to_numbers and y[:2] == [1, 0.5]:
            row = 2
        with pytest.raises(BadExample) as caught:
            check(y, len(y))
        assert caught.value.row == row
        assert rows.shown(y[row]) in caught.value.reason


def test_mixed_list_is_not_converted_to_strings() -> None:
    """numpy would convert all items to strings, and a bool to "True"."""
    assert to_numbers([1, True, 2.5, Decimal("0.1")], 4).tolist() == [1.0, 1.0, 2.5, 0.1]
    with pytest.raises(BadExample, match="^'2' is not a label"):
        to_numbers([1.0, "2"], 2)


@pytest.mark.parametrize(
    "column",
    [
        [],
        [1.0],
        [1.0] * 3,
        np.ones((2, 1)),
        np.ones((1, 2)),
        np.ones(()),
        np.ones((2, 2)),
        pd.Series([1.0]),
        pd.DataFrame({"y": [1.0, 0.0]}),
    ],
    ids=lambda v: f"{type(v).__name__} {np.shape(v)}",
)
def test_wrong_lengths_and_shapes_are_rejected(column: Any) -> None:
    x = [{"a": 1.0}, {"b": 1.0}]
    for kind in ("classifier", "regressor"):
        model = make_model(kind)
        before = pickle.dumps(model)
        with pytest.raises(
            ValueError,
            match=r"^labels must have the shape \(2,\), one for each of the rows, got \(",
        ):
            model.learn_many(x, column)
        if np.shape(column):
            with pytest.raises(
                ValueError,
                match=r"^weights must have the shape \(2,\), one for each of the rows, got \(",
            ):
                model.learn_many(x, [True, False], column)
        assert pickle.dumps(model) == before


@pytest.mark.parametrize("label", [True, 1.0, None, "tf"], ids=repr)
def test_scalar_label_is_rejected(label: Any) -> None:
    with pytest.raises(ValueError):
        ElasticNetClassifier().learn_many([{"a": 1.0}, {"b": 1.0}], label)


def test_scalar_weight_or_no_weight() -> None:
    x, y = [{"a": 1.0}, {"b": 1.0}], [True, False]
    models = [ElasticNetClassifier() for _ in range(4)]
    for model, w in zip(models, (2, 2.0, np.float32(2), [2, 2]), strict=True):
        model.learn_many(x, y, w)
    assert len({pickle.dumps(model) for model in models}) == 1
    default, without_weight, unit_weight = (
        ElasticNetClassifier(),
        ElasticNetClassifier(),
        ElasticNetClassifier(),
    )
    default.learn_many(x, y)
    without_weight.learn_many(x, y, None)
    unit_weight.learn_many(x, y, 1)
    assert pickle.dumps(default) == pickle.dumps(without_weight) == pickle.dumps(unit_weight)


def test_empty_input_is_a_no_op() -> None:
    model = ElasticNetClassifier()
    before = pickle.dumps(model)
    model.learn_many([], [])
    model.learn_many([], [], [])
    model.learn_many([], np.array([]), 1.0)
    assert model.progressive_many([], []).shape == (0,)
    assert model.predict_many([]).shape == (0,)
    assert model.predict_proba_many([]).shape == (0, 2)
    assert pickle.dumps(model) == before


@given(st.lists(st.one_of(st.booleans(), st.integers(-3, 3), st.floats(), st.none(), st.text())))
def test_batch_checks_equal_single_checks(ys: list[Any]) -> None:
    for check, check_batch in (
        (to_sign, to_signs),
        (to_number, to_numbers),
        (to_weight, to_weights),
    ):
        expected: list[float] = []
        first_error = None
        for i, y in enumerate(ys):
            try:
                expected.append(check(y))
            except BadExample as error:
                first_error = (i, error.reason)
                break
        if first_error is None:
            assert check_batch(ys, len(ys)).tolist() == expected
        else:
            with pytest.raises(BadExample) as caught:
                check_batch(ys, len(ys))
            assert (caught.value.row, caught.value.reason) == first_error


def test_non_mappings_are_rejected() -> None:
    require_mapping({})
    for x in ("text", [1], None):
        with pytest.raises(BadExample, match="an example is a dict of features, not a"):
            require_mapping(x)


def test_error_for_other_examples_names_the_remedy() -> None:
    """Each was sent to BagOfWords."""
    many = "; the methods that end in _many take lists of dicts, frames and matrices"
    remedies: list[tuple[Any, str]] = [
        ("text", "not a str; text goes through river's BagOfWords first"),
        ([{"a": 1.0}], f"not a list{many}"),
        (np.ones(2), f"not an ndarray{many}"),
        (pl.DataFrame({"a": [1.0]}), f"not a DataFrame{many}"),
        (None, "not a NoneType"),
    ]
    for x, remedy in remedies:
        with pytest.raises(BadExample) as caught:
            require_mapping(x)
        assert caught.value.reason == f"an example is a dict of features, {remedy}"


def test_labels_that_are_no_sequence_are_named() -> None:
    """A generator, a set and a number had the shape ()."""
    model = ElasticNetClassifier(lr=0.1)
    for labels, kind in ((iter([1, 0]), "a list_iterator"), ({0, 1}, "a set"), (1, "an int")):
        message = f"labels must be a list or an array, with one for each of the 2 rows, got {kind}"
        with pytest.raises(ValueError, match=message):
            model.learn_many([{"a": 1.0}, {"a": 2.0}], labels)
    with pytest.raises(ValueError, match="weights must be a list or an array"):
        model.learn_many([{"a": 1.0}, {"a": 2.0}], [1, 0], {1.0: 1, 2.0: 2}.values())


# Labels of blocks, which are checked as a column

LABEL_TEXTS = st.sampled_from(["1", "0", "-1", "+1", " true", "2", "nan", "", "x", "1.5", None])
LABEL_NUMBERS = st.sampled_from([1, 0.0, -1.0, True, 2.0, math.nan, 10**400])


@pytest.mark.parametrize("loss", ["logistic", "squared", "softmax"])
@given(y=st.lists(LABEL_TEXTS) | st.lists(LABEL_NUMBERS) | st.lists(LABEL_TEXTS | LABEL_NUMBERS))
def test_block_labels_equal_single_labels(y: list[Any], loss: str) -> None:
    read = {"logistic": binary_label, "squared": number_label, "softmax": class_label}[loss]
    lines = [*range(1, len(y) + 1)]
    block = Block([{}] * len(y), y, None, "some", lines)
    columns = [block]
    if y and all(type(label) is float for label in y):
        columns.append(Block(block.x, np.array(y), None, "some", lines))
    if all(label is None or type(label) is str for label in y):
        texts = ["another", *set(y)]
        label_texts = LabelTexts(np.array([texts.index(label) for label in y], int), texts)
        columns.append(Block(block.x, label_texts, None, "some", lines))
    for column in columns:
        chunk = label_block(column, loss, class_label)
        faults = dict(chunk.bad_labels)
        assert len(chunk.y) == len(y) and len(faults) == len(chunk.bad_labels)
        for row, label in enumerate(y):
            try:
                assert chunk.y[row] == read(label) and row not in faults
            except ValueError as error:
                assert faults[row] == str(error)
