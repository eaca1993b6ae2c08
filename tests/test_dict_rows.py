"""Dicts and frames that hold their labels: `target=` in `progressive` and `learn_many`."""

from __future__ import annotations

import json
import math
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import BadExample, ElasticNetClassifier, ElasticNetRegressor, SoftmaxClassifier
from streaml1.features.flat_members import MemberRoles
from streaml1.features.records import read_record
from streaml1.sources import SourceError
from streaml1.sources.readers.flat_json import JsonRoles, parse_flat
from streaml1.training import evaluate, predictions

ROWS: list[dict[str, Any]] = [
    {
        "click": "yes" if k % 3 else "no",
        "site": f"s{k % 5}",
        "user": {"age": 20.0 + k, "os": "mac" if k % 2 else None},
        "tags": ["a", "b", "a"][: k % 4],
        "zip": 94110 + k % 2,
        "is_new": k % 2 == 0,
        "w": 1 + k % 2,
        "request": f"r{k}",
        "junk": {"deep": [k]},
    }
    for k in range(40)
]
ROLES: dict[str, Any] = {
    "target": "click", "weight": "w", "ignore": ["request", "junk"], "categorical": ["zip"],
    "positive": "yes",
}  # fmt: skip


def _model() -> ElasticNetClassifier:
    return ElasticNetClassifier(lr=0.1, l1=1e-3)


def _from_lines(rows: list[Any], path: Any, **roles: Any) -> ElasticNetClassifier:
    """Return a model that learnt the rows as flat JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = _model()
    streaml1.progressive(model, path, **roles)
    return model


@pytest.mark.parametrize("make", [list, iter, lambda rows: map(MappingProxyType, rows)])
def test_dicts_mean_what_flat_json_lines_mean(make: Callable[[Any], Any], tmp_path: Any) -> None:
    twin = _from_lines(ROWS, tmp_path / "a.jsonl", **ROLES)
    assert len(twin.weights) > 10
    given_rows = pickle.dumps(ROWS)
    models = [_model() for _ in range(3)]
    assert streaml1.progressive(models[0], make(ROWS), **ROLES).examples == len(ROWS)
    streaml1.Consumer(models[1], make(ROWS), **ROLES).run()
    models[2].learn_many(make(ROWS), **ROLES)
    assert [model.weights for model in models] == 3 * [twin.weights]
    assert pickle.dumps(ROWS) == given_rows


scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.sampled_from("ab")
names = st.sampled_from(["a", "b", "a.b", "b.0", "y", "w"])
trees = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(names, v, max_size=3), max_leaves=6
)


@given(
    st.dictionaries(names, trees, max_size=5),
    st.fixed_dictionaries(
        {
            "target": st.sampled_from([None, "y", "a.b"]),
            "weight": st.sampled_from([None, "w"]),
            "id": st.sampled_from([None, "b"]),
            "ignore": st.sampled_from([frozenset(), frozenset(["a.a"])]),
            "at": st.sampled_from([None, "a"]),
            "positive": st.sampled_from([None, "a"]),
        }
    ),
)
def test_any_dict_is_read_as_its_line(row: dict[str, Any], roles: dict[str, Any]) -> None:
    if isinstance(row.get("a") if roles["at"] else row, dict):
        (row["a"] if roles["at"] else row).pop("x", None)
    try:
        parsed: Any = parse_flat(json.dumps(row), JsonRoles(**roles), require_label=False)
    except ValueError as error:
        if str(error).startswith(("weight must", "label ")):  # checked by callers of `read_record`
            return
        with pytest.raises(ValueError, match=f"^{re.escape(str(error))}$"):
            read_record(row, MemberRoles(**roles), require_label=False)
        return
    record = read_record(row, MemberRoles(**roles), require_label=False)
    if parsed is None:
        assert record is None
        return
    assert record is not None
    x, y, w, *rest = parsed
    present = {name: value for name, value in record.x.items() if value is not None}
    assert present == {name: value for name, value in x.items() if value is not None}
    assert record.y == y and (record.w if roles["weight"] else 1.0) == w
    assert record.id == (rest[0] if rest else None)


def test_python_values() -> None:
    row = {
        1: 2.0, "y": np.int64(1), "nan": math.nan, "na": pd.NA, "v": np.array([1.5, 0.5]),
        "t": ("a", "b"), "s": np.str_("x"), "f": np.float32(0.5), "d": Decimal("2.5"),
        "zip": np.int64(7), "b": np.bool_(True), "c": True,
    }  # fmt: skip
    roles = MemberRoles("y", categorical=frozenset(["zip", "c"]))
    record = read_record(row, roles)
    assert record is not None
    assert record.x == {
        1: 2.0, "v.0": 1.5, "v.1": 0.5, "t=a": 1.0, "t=b": 1.0, "s": "x", "f": 0.5,
        "d": Decimal("2.5"), "zip": "7", "b": True, "c": "true",
    }  # fmt: skip
    assert record.y == 1 and type(record.y) is int


def test_numbers_in_text() -> None:
    """Records of Avro and Protobuf are such dicts; `--numeric` covers what is inside."""
    row = {"y": 1, "n": "12.5", "u": {"a": np.str_("7"), "b": True}, "s": ("1", "NULL"), "t": "3"}
    record = read_record(row, MemberRoles("y", numeric=frozenset("nus")))
    assert record is not None
    assert record.x == {"n": 12.5, "u.a": 7.0, "u.b": True, "s.0": 1.0, "t": "3"}


def test_batches_of_numbers_in_text() -> None:
    rows = [{"click": k % 2, "n": f"{k / 2}", "m": k} for k in range(9)]
    expected = _model()
    expected.learn_many([{"n": k / 2, "m": k} for k in range(9)], [k % 2 for k in range(9)])
    for X in (rows, pd.DataFrame(rows), pl.DataFrame(rows)):
        model = _model()
        model.learn_many(X, target="click", numeric=["n", "m"])
        assert model.weights == expected.weights
        with pytest.raises(BadExample, match="'n': 'x' is not a number") as error:
            refused = pd.DataFrame([*rows, {**rows[0], "n": "x"}])
            model.learn_many(refused if X is not rows else refused.to_dict("records"),
                             target="click", numeric="n")  # fmt: skip
        assert error.value.row == 9 and model.weights == expected.weights


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"site": "a"}, "the label 'click' is missing: its members are: site"),
        ({"click": None}, "the label 'click' is null"),
        ({"click": math.nan}, "the label 'click' is missing: it is nan"),
        ({"click": 1, "w": 1, "a": object}, "feature 'a': a value must be a number, a string, "),
        ({"click": 1, "a": math.inf, "b": {}}, "feature 'a': inf is too large for a float"),
        ({"click": 1, "a": {"b": 1}, "a.b": 1}, "the name 'a.b' occurs twice, once as a path"),
        ([1], r"\[1\] is not an example: it must be a dict"),
        ({"click": 7}, "invalid label 7: it must be 0 or 1"),
    ],
)
def test_a_bad_row_learns_nothing(row: Any, reason: str) -> None:
    good = [{"click": k % 2, "site": f"s{k}"} for k in range(6)]
    model = _model()
    model.learn_many(good, target="click")
    before = pickle.dumps(model)
    with pytest.raises(BadExample, match=f"^{reason}") as raised:
        model.learn_many([*good, row, *good], target="click")
    assert raised.value.row == 6
    assert pickle.dumps(model) == before
    report = streaml1.progressive(model, [*good, row, *good], target="click", bad="skip")
    assert (report.examples, report.rejected) == (12, 1)
    with pytest.raises(BadExample, match=f"^examples:7: {reason}"):
        streaml1.progressive(model, [*good, row], target="click")


def test_a_bad_weight_learns_nothing() -> None:
    rows = [{"y": 1, "w": 1.0}, {"y": 0, "w": -1.0}]
    model = _model()
    before = pickle.dumps(model)
    for X in (rows, pl.DataFrame(rows), iter([pd.DataFrame(rows[:1]), pd.DataFrame(rows[1:])])):
        with pytest.raises(BadExample, match=r"^weight must be a number >= 0, got -1") as raised:
            model.learn_many(X, target="y", weight="w")
        assert raised.value.row == 1
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    "labels", [["no", "yes", "yes"], [0, 1, 1], ["0", "1", "true"], [-1, 1, 1]]
)
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, None])
def test_labels_of_frames_and_dicts(labels: list[Any], frame: Any) -> None:
    columns = {"y": labels, "s": ["a", "b", "c"], "junk": [1, 2, 3]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    roles = {"target": "y", "ignore": "junk", "positive": "yes" if "yes" in labels else None}
    twin = _model()
    twin.learn_many([{"s": s} for s in "abc"], [False, True, True])
    models = [_model() for _ in range(2)]
    source = rows if frame is None else frame(columns)
    models[0].learn_many(source, **roles)
    streaml1.progressive(models[1], source, **roles)
    assert [model.weights for model in models] == 2 * [twin.weights]


def test_other_tasks() -> None:
    rows = [{"y": f"{k}.5", "s": f"s{k % 2}"} for k in range(10)]  # as csv.DictReader yields them
    regressor, twin = ElasticNetRegressor(), ElasticNetRegressor()
    regressor.learn_many(rows, target="y")
    twin.learn_many([{"s": row["s"]} for row in rows], [float(row["y"]) for row in rows])
    assert regressor.weights == twin.weights
    numbers = pa.table({"y": [k + 0.5 for k in range(10)], "s": [row["s"] for row in rows]})
    regressor = ElasticNetRegressor()
    regressor.learn_many(numbers, target="y")
    assert regressor.weights == twin.weights
    for X in (rows, pd.DataFrame(rows), iter([pl.DataFrame(rows)])):
        softmax = SoftmaxClassifier()
        softmax.learn_many(X, target="y")
        assert softmax.classes_met == [row["y"] for row in rows]
        assert softmax.predict_many(pd.DataFrame({"s": ["s1"]})).name == "y"


def test_ids_come_back_and_labels_are_optional() -> None:
    model = _model()
    model.learn_many(ROWS, **ROLES)
    roles = {**ROLES, "id": "request", "ignore": ["junk"]}
    found = list(predictions(model, ROWS, **roles))
    assert [prediction.id for prediction in found] == [row["request"] for row in ROWS]
    bare = [{k: v for k, v in row.items() if k not in ("click", "request")} for row in ROWS]
    unlabelled = list(predictions(model, bare, **ROLES))
    assert [prediction.p for prediction in unlabelled] == [prediction.p for prediction in found]
    assert evaluate(model, ROWS, **ROLES).examples == len(ROWS)


def test_envelopes() -> None:
    rows = [{"op": "c", "after": {"y": 1, "s": "a"}}, {"op": "d", "after": None}]
    model = _model()
    assert streaml1.progressive(model, rows, target="y", at="after").examples == 1
    assert list(model.weights) == ["s=a"]
    wrong = "^examples:1: 5 at 'after' is not an object of features"
    with pytest.raises(BadExample, match=wrong):
        streaml1.progressive(model, [{"after": 5}], target="y", at="after")


def test_arguments_that_do_not_fit() -> None:
    model, rows, frame = _model(), [{"y": 1, "s": "a"}], pd.DataFrame({"y": [1], "s": ["a"]})
    with pytest.raises(SourceError, match="examples holds dicts: use target= to name the member"):
        streaml1.progressive(model, rows)
    with pytest.raises(ValueError, match="^labels are missing: give y, or target"):
        model.learn_many(rows)
    with pytest.raises(TypeError, match="takes either y or target, got both"):
        model.learn_many(rows, [1], target="y")
    with pytest.raises(TypeError, match="takes either w or weight, got both"):
        model.learn_many(rows, w=2.0, target="y", weight="w")
    with pytest.raises(TypeError, match="takes ignore only together with target"):
        model.learn_many(rows, [1], ignore=["s"])
    with pytest.raises(TypeError, match="target needs dicts or data frames, got an ndarray"):
        model.learn_many(np.ones((2, 2)), target="y")
    with pytest.raises(ValueError, match="no column 'yy'; did you mean 'y'. its columns are: y, s"):
        model.learn_many(frame, target="yy")
    with pytest.raises(ValueError, match="'y' can have only one role, got target and ignored"):
        model.learn_many(frame, target="y", ignore="y")
    with pytest.raises(TypeError, match="got a dict after data frames; give frames only"):
        model.learn_many([frame, rows[0]], target="y")
    with pytest.raises(TypeError, match="^the frames must have the same columns and types: "):
        model.learn_many([frame, frame[["y"]]], target="y")
    assert model.n_iterations == 0
    model.learn_many(iter([]), target="y")
    model.learn_many(rows, w=2.0, target="y")
    assert model.n_iterations == 1
