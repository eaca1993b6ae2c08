"""The dict kernels and their Python fallback learn bit-identical models."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import sys
from collections import OrderedDict, UserDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1 import BadExample, ElasticNetClassifier, ElasticNetRegressor
from streaml1.features import dict_reader
from streaml1.features.vocabulary import InternedVocabulary, hash_keys
from streaml1.models.state import model_state, predictor
from tests.conftest import WARM

needs_kernel = pytest.mark.skipif(not dict_reader.AVAILABLE, reason="no dict kernels here")


class Dict(dict):  # type: ignore[type-arg]
    """A dict subclass, which the Python fallback reads."""


class Name(str):
    """A str subclass."""


class Number:
    """A user-defined number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


class Index:
    """An object with `__index__`."""

    def __index__(self) -> int:
        return 3


class Key:
    """A user-defined feature name."""

    def __init__(self, name: Any) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return other == self.name


def new_model(**params: Any) -> Any:
    """Return a model with str features, such that the dict kernels apply to it."""
    model = ElasticNetClassifier(**{"l1": 1e-3, "l2": 1e-2, **params})
    model.learn_one({"the first": 1.0}, True)
    return model


def state(model: Any) -> bytes:
    return pickle.dumps(model)


def feature_names(model: Any) -> list[Any]:
    """Return the interned names of a model's vocabulary."""
    vocabulary = model._state.vocabulary
    return vocabulary.names() if isinstance(vocabulary, InternedVocabulary) else []


VALUES = [1.0, 2, True, False, None, 0.0, -0.0, 0, -7, 3.25, 5e-324, 2**62, -(2**80), 1e-300, 9e49]


def examples(n: int) -> Iterator[tuple[dict[str, Any], bool, float]]:
    """Yield (x, y, w) with supported values and zero to 39 features."""
    rng = random.Random(0)
    values = [*VALUES[:11], np.float64(1.5), np.float64(-0.0)]
    for _ in range(n):
        count = rng.randrange(40)
        names = [f"n{int(rng.paretovariate(0.5)) % 20000}" for _ in range(count)]
        x = {name: rng.choice(values) for name in names}
        yield x, rng.random() < 0.5, rng.choice([0.0, 1.0, 2.5])


FALLBACK_INPUTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "subclass": Dict,
    "ordered": OrderedDict,
    "proxy": MappingProxyType,
    "user": UserDict,
    "names": lambda x: {Name(name): v for name, v in x.items()},
    "numpy names": lambda x: {np.str_(name): v for name, v in x.items()},
    "one subclassed name": lambda x: {**x, Name("zero"): 0.0},
    "numbers": lambda x: {name: v if v is None else Number(float(v)) for name, v in x.items()},
    "decimals": lambda x: {name: v if v is None else Decimal(float(v)) for name, v in x.items()},
    "fractions": lambda x: {name: v if v is None else Fraction(float(v)) for name, v in x.items()},
    "numpy values": lambda x: {
        name: v if v is None else np.array(float(v)) for name, v in x.items()
    },
}


@pytest.mark.parametrize("kind", FALLBACK_INPUTS)
@pytest.mark.parametrize("update", ["fobos", "sgd"])
def test_kernel_and_fallback_are_bit_identical(kind: str, update: str) -> None:
    params: dict[str, Any] = {"l1": 1e-3, "l2": 1e-2, "update": update}
    by_kernel, by_fallback = new_model(**params), new_model(**params)
    for i, (x, y, w) in enumerate(examples(400)):
        fallback_x = FALLBACK_INPUTS[kind](x)
        if i % 2:
            assert by_kernel.predict_proba_one(x) == by_fallback.predict_proba_one(fallback_x)
        if i % 3:
            assert by_kernel._margin(x) == by_fallback._margin(fallback_x)
        by_kernel.learn_one(x, y, w)
        by_fallback.learn_one(fallback_x, y, w)
    assert by_kernel.weights == by_fallback.weights
    assert list(by_kernel.weights) == list(by_fallback.weights)
    assert by_kernel.intercept == by_fallback.intercept
    assert by_kernel.n_features_seen == by_fallback.n_features_seen
    by_kernel._state.check()
    by_fallback._state.check()


@needs_kernel
def test_kernel_reads_exact_dicts_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    model = new_model()
    fallback_calls = []
    numeric_features = model_state.numeric_features
    for module in (model_state, predictor):
        monkeypatch.setattr(
            module, "numeric_features", lambda x: fallback_calls.append(x) or numeric_features(x)
        )
    for value in [*VALUES, np.float64(2.5)]:
        model.learn_one({"a": value}, True)
        model.predict_one({"a": value, "new": value})
    assert fallback_calls == []
    for x in ({1: 1.0, "a": 2}, {-7: 1.0}, {2**62: "a" == "b"}):
        model.learn_one(x, True)
        model.predict_one(x)
    assert fallback_calls == []
    unsupported: list[Any] = [{"a": np.float32(1.0)}, {True: 1.0}, {Name("a"): 1.0}, {2**63: 1.0}]
    unsupported += [{np.int64(1): 1.0}, {1.0: 1.0}, {1: "a"}]
    unsupported += [{"a": Decimal(1)}]
    for x in unsupported:
        model.learn_one(x, True)
    assert fallback_calls == unsupported
    for x in (Dict(a=1.0), OrderedDict(a=1.0)):  # the item kernel learns their items
        model.learn_one(x, True)
    assert fallback_calls == unsupported


def test_numpy_scalars_count_as_their_values() -> None:
    from_numpy, from_python = new_model(), new_model()
    for value in (0.1, -3.7, 1e30, 1e-40):
        from_numpy.learn_one({"x": np.float32(value), "y": np.float16(0.5), "z": np.int8(-3)}, True)
        from_python.learn_one({"x": float(np.float32(value)), "y": 0.5, "z": -3.0}, True)
    assert state(from_numpy) == state(from_python)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.text(max_size=3),
                st.one_of(
                    st.floats(-1e6, 1e6),
                    st.integers(-(2**70), 2**70),
                    st.booleans(),
                    st.none(),
                    st.sampled_from([0.0, -0.0, 5e-324]),
                ),
                max_size=8,
            ),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_arbitrary_dicts_learn_the_same_by_kernel_fallback_and_batch(
    rows: list[tuple[dict[str, Any], bool]],
) -> None:
    by_kernel, by_fallback, by_batch = new_model(), new_model(), new_model()
    for x, y in rows:
        assert by_kernel.predict_proba_one(x) == by_fallback.predict_proba_one(Dict(x))
        by_kernel.learn_one(x, y)
        by_fallback.learn_one(Dict(x), y)
    by_batch.learn_many([x for x, _ in rows], [y for _, y in rows])
    with without_kernels():
        by_packing = new_model()
        for x, y in rows:
            by_packing.predict_proba_one(x)
            by_packing.learn_one(x, y)
    assert state(by_kernel) == state(by_fallback) == state(by_batch) == state(by_packing)
    by_kernel._state.check()
    by_packing._state.check()


# Packed dicts: without dict kernels


@contextlib.contextmanager
def without_kernels() -> Iterator[list[Any]]:
    """Disable the dict kernels; the list receives the examples that were not packed."""
    unpacked: list[Any] = []
    learn = model_state.ModelState._learn_packed

    def learn_packed(self: Any, x: Any, *args: float) -> int:
        status = learn(self, x, *args)
        if status == dict_reader.FALLBACK:
            unpacked.append(x)
        return status

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dict_reader, "AVAILABLE", False)
        patch.setattr(model_state.ModelState, "_learn_packed", learn_packed)
        yield unpacked


def learnt(kind: Callable[[dict[str, Any]], Any]) -> tuple[Any, list[Any]]:
    """Return a model that has learnt `examples`, given as `kind`, and its predictions before."""
    model, predicted = new_model(), []
    for x, y, w in examples(300):
        predicted += [model.predict_proba_one(kind(x)), model._margin(kind(x))]
        model.learn_one(kind(x), y, w)
    model._state.check()
    return model, predicted


@needs_kernel
def test_packed_dicts_and_kernel_are_bit_identical() -> None:
    by_kernel, expected = learnt(dict)
    with without_kernels() as unpacked:
        by_packing, found = learnt(dict)
    assert found == expected
    assert state(by_packing) == state(by_kernel)
    assert feature_names(by_packing) == feature_names(by_kernel)
    assert len(unpacked) < 30


@needs_kernel
def test_packed_names_with_equal_hashes_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dict kernels do not sum them, so the reference is the slower Python path."""
    monkeypatch.setattr(hash_keys, "HASH", 255)
    with without_kernels() as unpacked:
        by_packing, found = learnt(dict)
        n_unpacked = len(unpacked)
        by_items, expected = learnt(UserDict)
    assert found == expected
    assert by_packing.weights == by_items.weights
    assert feature_names(by_packing) == feature_names(by_items)
    assert 0 < n_unpacked < 300


@needs_kernel
def test_packed_dict_with_an_invalid_value_changes_nothing() -> None:
    with without_kernels():
        model = new_model()
        model.learn_one({"a": 1.0, "b": 2.0}, True)
        before, names = state(model), feature_names(model)
        for invalid in INVALID_VALUES.values():
            x = {"new 1": 1.0, "wrong": invalid, "new 2": 2.0}
            for call in (model.predict_one, lambda x: model.learn_one(x, True)):
                with pytest.raises(BadExample):
                    call(x)
        assert state(model) == before
        assert feature_names(model) == names


@needs_kernel
def test_names_of_packed_dicts_are_released_with_their_slots() -> None:
    with without_kernels() as unpacked:
        model = ElasticNetClassifier(lr=0.1, l1=10.0)  # all weights are zero
        first = "".join(["first", " name"])
        before = sys.getrefcount(first)
        model.learn_one({"a": 1.0}, True)
        model.learn_one({first: 1.0}, True)
        assert sys.getrefcount(first) > before
        for k in range(1500):
            x = {f"n{k} {j}": 1.0 for j in range(3)}
            model.predict_one(x)
            model.learn_one(x, True)
        assert sys.getrefcount(first) == before
        assert len(feature_names(model)) < 2048
        assert len(unpacked) < 20
        model._state.check()


@needs_kernel
def test_threads_share_the_buffers_of_packed_dicts() -> None:
    rows = [({f"n{k % 50}": 1.0, f"m{k}": 0.5, "c": 2.0}, k % 3 == 0) for k in range(300)]
    known = {x_name for x, _ in rows for x_name in x}
    with without_kernels():
        model = new_model(l1=0.0, l2=0.0)

        def work() -> None:
            for x, y in rows:
                assert 0.0 <= model.predict_proba_one(x)[True] <= 1.0
                model.learn_one(x, y)

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(3) as pool:
                for future in [pool.submit(work) for _ in range(3)]:
                    future.result()
        finally:
            sys.setswitchinterval(interval)
        assert model.n_iterations == 1 + 3 * len(rows)
        assert sorted(feature_names(model)) == sorted(known | {"the first"})
        model._state.check()


# Rejected values


INVALID_VALUES: dict[str, Any] = {
    "huge int": 10**400,
    "huge negative int": -(10**400),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "float32 inf": np.float32("inf"),
    "1e60": 1e60,
    "-1e60": -1e60,
    "1e50": 1e50,
    "int 10**50": 10**50,
    "bytes": b"1",
    "bytearray": bytearray(b"1"),
    "nested dict": {"b": 1.0},
    "nested list": [1.0],
    "tuple": (1.0,),
    "set": {1.0},
    "array": np.array([1.0, 2.0]),
    "complex": 1j,
    "object": object(),
    "type": float,
    "decimal signalling nan": Decimal("snan"),
    "huge decimal": Decimal("1e400"),
    "huge fraction": Fraction(10**400),
    "number of a str": Number("text"),  # type: ignore[arg-type]
}


MISSING_VALUES: dict[str, Any] = {
    "none": None,
    "nan": float("nan"),
    "-nan": -float("nan"),
    "numpy nan": np.float64("nan"),
    "float32 nan": np.float32("nan"),
    "decimal nan": Decimal("nan"),
    "number nan": Number(float("nan")),
    "NaT": np.datetime64("NaT", "s"),
    "pandas NA": pd.NA,
    "pandas NaT": pd.NaT,
}


@pytest.mark.parametrize("case", MISSING_VALUES)
@pytest.mark.parametrize("bits", [None, 12])
def test_missing_values_are_absent(case: str, bits: int | None) -> None:
    missing = MISSING_VALUES[case]
    cross = [("a", "n")] if case in ("nan", "pandas NA") else None
    model, twin = (ElasticNetClassifier(l1=1e-3, hash_bits=bits, cross=cross) for _ in range(2))
    rows: Any = (
        ({"a": 1.0, "n": missing, "s": "t"}, {"a": 1.0, "s": "t"}),
        ({"a": missing, "b": 2.0}, {"b": 2.0}),
        ({3: missing, 5: 1.0}, {5: 1.0}),
        ({"s": missing}, {}),
    )
    for x, without in rows:
        if cross is not None and 5 in x:
            continue
        for row in (x, Dict(x), MappingProxyType(x)):
            assert model.predict_proba_one(row) == twin.predict_proba_one(without)
            model.learn_one(row, True)
            twin.learn_one(without, True)
            model.learn_many([row, row], [False, True])
            twin.learn_many([without, without], [False, True])
            assert model.predict_many([row]) == twin.predict_many([without])
    assert model.weights == twin.weights and model.intercept == twin.intercept
    assert model.n_features_seen == twin.n_features_seen
    model._state.check()
    frozen, frozen_twin = model.freeze(), twin.freeze()
    assert frozen.predict_proba_one(rows[1][0]) == frozen_twin.predict_proba_one(rows[1][1])
    assert model.explain_one(rows[1][0]) == twin.explain_one(rows[1][1])


@pytest.mark.parametrize("case", INVALID_VALUES)
@pytest.mark.parametrize("first", ["str", "int", "none"])
def test_row_with_an_invalid_value_changes_nothing(case: str, first: str) -> None:
    invalid = INVALID_VALUES[case]
    for cls in (ElasticNetClassifier, ElasticNetRegressor):
        model = cls(l1=1e-3)
        if first != "none":
            model.learn_one({"a": 1.0, "b": 2.0} if first == "str" else {1: 1.0, 2: 2.0}, True)
        before, names, n_seen = state(model), feature_names(model), model.n_features_seen
        cases: Any = (("new 1", "wrong", "new 2"), (5, 6, 7), ("new 1", 6, ("t",)))
        for first_name, bad_name, last_name in cases:
            x = {first_name: 1.0, bad_name: invalid, last_name: 2.0}
            for row in (x, Dict(x), MappingProxyType(x)):
                with pytest.raises(BadExample) as error:
                    model.learn_one(row, True)
                assert error.value.row == 0
                assert "\n" not in error.value.reason
                assert repr(bad_name) in error.value.reason
                with pytest.raises(BadExample):
                    model.predict_one(row)
                with pytest.raises(BadExample) as error:
                    model.learn_many([{first_name: 1.0}, row], [True, True])
                assert error.value.row == 1
                with pytest.raises(BadExample):
                    model.predict_many([row])
        assert state(model) == before
        assert feature_names(model) == names
        assert model.n_features_seen == n_seen
        model._state.check()


@pytest.mark.parametrize(
    "value",
    [
        np.complex128(1 + 2j),
        np.timedelta64(1, "s"),
        np.datetime64("2000-01-01"),
        np.bytes_(b"1"),
        np.void(b"1"),
    ],
    ids=repr,
)
def test_numpy_scalars_that_are_not_real_are_rejected(value: Any) -> None:
    model = new_model()
    before = state(model)
    with pytest.raises(BadExample):
        model.learn_one({"a": 1.0, "b": value}, True)
    assert state(model) == before


def test_error_in_float_of_a_value_propagates() -> None:
    class CustomError(RuntimeError):
        pass

    class Failing:
        def __float__(self) -> float:
            raise CustomError

    for first_x in ({"a": 1.0}, {1: 1.0}):
        model = ElasticNetClassifier(lr=0.1)
        model.learn_one(first_x, True)
        before = state(model)
        for x in ({"new": 1.0, "b": Failing()}, {3: 1.0, 4: Failing()}):
            for call in (model.predict_one, lambda x, m=model: m.learn_one(x, True)):
                with pytest.raises(CustomError):
                    call(x)
        assert state(model) == before
        model._state.check()


def test_extreme_values_are_accepted() -> None:
    model = new_model()
    for value in (9.99e49, -9.99e49, 10**49, 5e-324, -5e-324, 2**64, -(2**64), True):
        model.learn_one({"a": value}, True)
        assert np.isfinite(model.weights.get("a", 0.0))
    model._state.check()


def test_zeros_and_none_are_absent() -> None:
    model = new_model()
    before = feature_names(model)
    for value in (0, 0.0, -0.0, False, None, np.float64(0), np.float32(-0.0), Decimal(0), 0j.real):
        model.learn_one({"absent": value}, True)
        model.learn_one(Dict(absent=value), True)
    assert feature_names(model) == before
    assert model.n_features_seen == 1


def test_negative_zero_predicts_zero() -> None:
    assert str(ElasticNetRegressor(lr=0.1).predict_one({"a": -1.0})) == "0.0"


# Names


def test_names_equal_as_dict_keys_are_one_feature() -> None:
    equal_names = [1, 1.0, True, np.int64(1), Decimal(1), Fraction(1), Key(1), np.float32(1.0)]
    for with_str_features in (False, True):
        model = ElasticNetClassifier(lr=1.0, schedule="constant")
        if with_str_features:
            model.learn_one({"a": 1.0}, True, 0.0)
        for name in equal_names:
            model.learn_one({name: 1.0}, True)
        assert model.n_features_seen == 1 + with_str_features
        assert len(model.weights) == 1
        margins = {model._margin({name: 1.0}) for name in equal_names}
        assert len(margins) == 1
        assert margins != {model.intercept}
        model._state.check()


@pytest.mark.parametrize(
    "names",
    [
        (-1, -2),  # equal hashes
        (1, "1"),
        ("a", b"a"),
        (0, 2**61 - 1),  # equal hashes
        (1, (1,)),
        (None, "None"),
        ("True", True),
        (0.5, "0.5"),
        (float("nan"), float("inf")),
        ("é", "e\u0301"),
        ("", "\0"),
        (2**26, 2**26 + 2**61 - 1),
    ],
    ids=repr,
)
def test_names_different_as_dict_keys_are_two_features(names: tuple[Any, Any]) -> None:
    model = ElasticNetClassifier(lr=1.0, schedule="constant")
    model.learn_one({names[0]: 1.0, names[1]: -1.0}, True)
    assert model.n_features_seen == 2
    assert model.weights == {names[0]: 0.5, names[1]: -0.5}
    model._state.check()
    assert pickle.loads(state(model))._margin({names[1]: 2.0}) == model._margin({names[1]: 2.0})


def test_equal_str_subclasses_are_one_feature() -> None:
    model = new_model(lr=1.0, l1=0.0, l2=0.0)
    for name in ("word", Name("word"), np.str_("word"), "".join(["wo", "rd"])):
        model.learn_one({name: 1.0}, True)
    assert model.n_features_seen == 2


def test_str_subclasses_with_equal_hashes_are_two_features() -> None:
    class ConstantHash(str):
        def __hash__(self) -> int:
            return 5

    model = new_model()
    model.learn_one({ConstantHash("u"): 1.0, ConstantHash("v"): -1.0}, True)
    model._state.check()
    assert model.weights[ConstantHash("u")] > 0.0 > model.weights[ConstantHash("v")]


def test_float_subclass_is_converted_by_its_float() -> None:
    class Percent(float):
        def __float__(self) -> float:
            return super().__float__() / 100.0

    model = ElasticNetRegressor(lr=1.0, schedule="constant")
    model.learn_one({1: 1.0}, 1.0)
    margin = model._margin({1: Percent(50.0)})
    model.learn_one({"a": 0.0, "": 1.0}, 0.0, 0.0)
    assert model._margin({1: Percent(50.0)}) == margin


def test_error_in_comparison_of_a_name_propagates() -> None:
    class NotComparable:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("not comparable")

    for first_x in ({1: 1.0}, {"a": 1.0, 1: 1.0}):
        model = ElasticNetClassifier(lr=0.1)
        model.learn_one(first_x, True)
        before = model.weights
        x = {NotComparable(): 1.0, "new": 1.0}
        with pytest.raises(RuntimeError, match="not comparable"):
            model.learn_one(x, True)
        with contextlib.suppress(RuntimeError):
            model.predict_one(x)
        with pytest.raises(RuntimeError, match="not comparable"):
            model.learn_many([x, x], [True, True])
        model._state.check()
        assert model.weights == before
        model.learn_one({"b": 1.0}, True)
        assert model.predict_one({"b": 1.0}) is True


def test_prediction_adds_no_names() -> None:
    for first_x in ({"a": 1.0}, {1: 1.0}, {}):
        model = ElasticNetClassifier(lr=0.1)
        model.learn_one(first_x, True)
        before, size = state(model), model._state.rule.size
        for k in range(300):
            x = {f"p{k}-{j}": 1.0 for j in range(20)} | {("t", k): 1.0, 5000 + k: 1.0}
            model.predict_one(x)
            model.predict_proba_one(Dict(x))
            model.predict_many([x, x])
        assert state(model) == before
        assert model.n_features_seen == len(first_x)
        assert model._state.rule.size == size
        model._state.check()


@pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="requires sys.getrefcount")
def test_references_do_not_leak() -> None:
    model = new_model()
    name, value = "".join(["na", "me"]), 12345.678 * random.Random(1).random()
    x = {name: value, "b": 10**30}

    def counts() -> tuple[int, int, int]:
        return sys.getrefcount(name), sys.getrefcount(value), sys.getrefcount(x)

    before = counts()
    for _ in range(1000):
        model.predict_one(x)
        model.predict_proba_one(x)
    assert counts() == before
    model.learn_one(x, True)
    after = (before[0] + 1, *before[1:])  # the vocabulary holds one reference to the name
    assert counts() == after
    for _ in range(1000):
        model.learn_one(x, True)
        model.predict_one(x)
        with pytest.raises(BadExample):
            model.learn_one({name: value, "b": b"1"}, True)
        with pytest.raises(BadExample):
            model.learn_one({name: 10**400}, True)
    assert counts() == after
    del model
    assert counts() == before


# Growth


@pytest.mark.parametrize("method", ["kernel", "fallback", "batch"])
def test_growth_through_many_doublings(method: str) -> None:
    n, step = 200_000, 500
    model = new_model(l1=0.0, l2=0.0, lr=1.0, schedule="constant", intercept_lr=0.0)
    sizes = set()
    for k in range(0, n, step):
        x = {f"name {j}": 1.0 for j in range(k, k + step)}
        if method == "batch":
            model.learn_many([x], [k % 1000 == 0])
        else:
            model.learn_one(x if method == "kernel" else Dict(x), k % 1000 == 0)
        sizes.add(model._state.rule.size)
    assert len(sizes) >= 7
    assert model.n_features_seen == n + 1
    model._state.check()
    weights = model.weights
    assert len(weights) == n + 1
    for j in (0, 1, 499, 500, 1023, 1024, 65_535, 65_536, n - 1):
        assert weights[f"name {j}"] == (0.5 if j // step % 2 == 0 else -0.5)
        assert model._margin({f"name {j}": 1.0}) == weights[f"name {j}"]


def test_growth_by_one_name_at_a_time() -> None:
    model = ElasticNetClassifier(lr=1.0, schedule="constant")
    for j in range(5000):
        model.learn_one({f"name {j}": 1.0}, True)
        if j % 250 == 0:
            model._state.check()
    assert model.n_features_seen == len(model.weights) == 5000


@pytest.mark.parametrize("kind", [dict, Dict])
def test_dict_of_100_000_features(kind: Any) -> None:
    model, int_model = new_model(lr=0.1), ElasticNetClassifier(lr=0.1, l1=1e-3, l2=1e-2)
    int_model.learn_one({100_001: 1.0}, True)
    big = kind({f"b{k}": 1.0 for k in range(100_000)})
    assert model._margin(big) == model.intercept
    model.learn_one(big, True)
    int_model.learn_one(kind(enumerate(big.values())), True)
    assert model.n_features_seen == int_model.n_features_seen == 100_001
    assert model.n_nonzero == 100_001
    assert model._margin({"b99999": 1.0}) == int_model._margin({99_999: 1.0})
    assert model.predict_one(big) is True
    assert model.predict_one({"b5": 1.0}) is True
    model._state.check()


# Dicts that change while they are read


class ChangingValue:
    """A value whose conversion changes the dict that contains it."""

    def __init__(self, x: dict[Any, Any], change: Callable[[dict[Any, Any]], Any]) -> None:
        self.x, self.change = x, change

    def __float__(self) -> float:
        self.change(self.x)
        return 1.0


CHANGES: dict[str, Callable[[dict[Any, Any]], Any]] = {
    "clear": lambda x: x.clear(),
    "pop": lambda x: x.pop(next(reversed(x))) if x else None,
    "add": lambda x: x.update({f"added {k}": 1.0 for k in range(1000)}),
    "replace": lambda x: x.update(dict.fromkeys(list(x), float("nan"))),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name_type", ["str", "int"])
def test_dict_changed_by_its_own_values(change: str, name_type: str) -> None:
    for first_x in ({"a": 1.0}, {1: 1.0}):
        model = ElasticNetClassifier(lr=0.1)
        model.learn_one(first_x, True)
        for _ in range(20):
            x: dict[Any, Any] = {}
            for j in range(10):
                name = f"n{j}" if name_type == "str" else j
                x[name] = ChangingValue(x, CHANGES[change]) if j == 4 else 1.0
            with contextlib.suppress(BadExample, RuntimeError):
                model.predict_one(dict(x))
                model.learn_one(x, True)
            model._state.check()
        assert np.isfinite(list(model.weights.values())).all()
        model.learn_one({"fine": 1.0}, True)
        assert model.predict_one({"fine": 1.0}) is True


def test_value_that_calls_the_model() -> None:
    model = new_model()

    class Reentrant:
        def __float__(self) -> float:
            model.learn_one({f"inner {k}": 1.0 for k in range(3000)}, True)
            model.predict_one({"inner 5": 1.0})
            return 1.0

    model.learn_one({"outer": Reentrant(), "b": 1.0}, True)
    model.learn_one({5: Reentrant(), 6: 1.0}, True)
    assert model.n_iterations == 5
    model._state.check()
    assert model.predict_one({"outer": 1.0}) is True


def test_value_with_an_int_name_that_calls_the_model() -> None:
    model = ElasticNetClassifier(lr=0.1)
    model.learn_one({1: 1.0}, True)

    class Reentrant:
        def __float__(self) -> float:
            model.predict_one({9: 1.0, 8: 1.0})
            return 1.0

    model.learn_one({5: Reentrant(), 6: 1.0}, True)
    assert set(model.weights) == {1, 5, 6}


# Other processes


RESUME = """
import json, pickle, sys, streaml1
read = streaml1.load if sys.argv[2] == "file" else lambda path: pickle.load(open(path, "rb"))
model = read(sys.argv[1])
model._state.check()
out = []
for x, y in json.load(open(sys.argv[3])):
    out.append(model.predict_proba_one(x)[True].hex())
    model.learn_one(x, y)
model._state.check()
print(json.dumps([out, model.intercept.hex(), sorted(model.weights.items())]))
"""


@pytest.mark.parametrize("storage", ["pickle", "file"])
def test_model_resumes_under_another_hash_seed(
    storage: str, python: Callable[..., str], tmp_path: Path
) -> None:
    model = new_model()
    rows = [(x, y) for x, y, _ in examples(300)]
    for x, y in rows[:200]:
        model.learn_one(x, y)
    rest = [({k: v for k, v in x.items() if v is not None}, y) for x, y in rows[200:]]
    rest = [({k: float(v) for k, v in x.items()}, y) for x, y in rest]
    path, data = tmp_path / "model", tmp_path / "rows.json"
    data.write_text(json.dumps(rest))
    if storage == "pickle":
        path.write_bytes(pickle.dumps(model))
    else:
        model.save(path)
    outputs = {
        python("-c", RESUME, str(path), storage, str(data), PYTHONHASHSEED=seed, **WARM)
        for seed in ("1", "2")
    }
    probabilities = []
    for x, y in rest:
        probabilities.append(model.predict_proba_one(x)[True].hex())
        model.learn_one(x, y)
    expected = [
        probabilities,
        model.intercept.hex(),
        [list(item) for item in sorted(model.weights.items())],
    ]
    assert [json.loads(text) for text in outputs] == [expected]


TRACE = """
import json
from tests.test_dict_reader import Dict, examples, new_model
model, out = new_model(), []
for i, (x, y, w) in enumerate(examples(150)):
    x = dict(x, shop="fr" if y else "de") if i % 5 == 0 else x
    x = {("t", k): v for k, v in x.items()} if i % 7 == 0 else Dict(x) if i % 3 == 0 else x
    out.append(model.predict_proba_one(x)[True].hex())
    model.learn_one(x, y, w)
model.learn_many([x for x, _, _ in examples(50)], [y for _, y, _ in examples(50)])
model._state.check()
weights = sorted((repr(name), w.hex()) for name, w in model.weights.items())
print(json.dumps([out, model.intercept.hex(), weights]))
"""


def test_interpreted_kernels_are_bit_identical(python: Callable[..., str]) -> None:
    compiled = python("-c", TRACE, PYTHONHASHSEED="3", **WARM)
    assert python("-c", TRACE, NUMBA_DISABLE_JIT="1", PYTHONHASHSEED="4") == compiled


# Categories: a str value and its name are found by a combination of their hashes


def categories(n: int) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield rows of categories and numbers; two entries of a row may form the same feature name."""
    rng = random.Random(3)
    texts = ["", "b", "c", "b=c", "=", "é", "\ud800", "x" * 40]
    for i in range(n):
        x: dict[str, Any] = {}
        for _ in range(rng.randrange(9)):
            name = rng.choice(["a", "a=b", "a=", "", "=", f"n{i % 50}", "a=b=c"])
            value: Any = rng.choice([*texts, f"v{i}", 1.0, 0.0, -1.0, 2, None, True])
            x[name] = value
        yield x, rng.random() < 0.5


@needs_kernel
@pytest.mark.parametrize("l2", [0.0, 0.02])
def test_categories_are_bit_identical_by_kernel_and_fallback(l2: float) -> None:
    by_kernel, by_fallback = new_model(l2=l2), new_model(l2=l2)
    for x, y in categories(4000):
        assert by_kernel.predict_proba_one(x) == by_fallback.predict_proba_one(Dict(x))
        by_kernel.learn_one(x, y)
        by_fallback.learn_one(Dict(x), y)
    assert by_kernel.weights == by_fallback.weights
    assert by_kernel.intercept == by_fallback.intercept
    assert set(feature_names(by_kernel)) == set(feature_names(by_fallback))
    assert by_kernel.n_features_seen == by_fallback.n_features_seen
    by_kernel._state.check()
    by_fallback._state.check()


@needs_kernel
def test_packed_categories_are_bit_identical() -> None:
    def learnt(
        rows: list[tuple[dict[str, Any], bool]], kind: Callable[[dict[str, Any]], Any] = dict
    ) -> tuple[bytes, list[Any]]:
        model, predicted = new_model(l1=1e-3), []
        for x, y in rows:
            predicted.append(model.predict_proba_one(kind(x)))
            model.learn_one(kind(x), y)
        model._state.check()
        return state(model), predicted

    joined = [*categories(1000)]  # names with an equals sign are not packed next to categories
    rows = [({name.replace("=", "-"): v for name, v in x.items()}, y) for x, y in joined]
    by_kernel = learnt(rows)
    with without_kernels() as unpacked:
        assert learnt(rows) == by_kernel
        assert len(unpacked) < 20
        assert learnt(joined) == learnt(joined, UserDict)


@pytest.mark.parametrize("cross", [None, [("other", "u")]])
def test_hashed_duplicates_are_summed_before_slot_collisions(cross: Any) -> None:
    models = [ElasticNetClassifier(lr=0.3, hash_bits=1, cross=cross) for _ in range(3)]
    rng = random.Random(1)
    for i in range(600):
        items = [("s", "x"), ("u", "v"), *((n, rng.gauss(0.0, 1.0)) for n in ("s=x", "a", "b"))]
        x = dict(rng.sample(items, len(items)))
        by_kernel, by_fallback, by_batch = models
        p = by_kernel.predict_proba_one(x)
        assert p == by_fallback.predict_proba_one(Dict(x)) == by_batch.freeze().predict_proba_one(x)
        by_kernel.learn_one(x, i % 3 == 0)
        by_fallback.learn_one(Dict(x), i % 3 == 0)
        assert by_batch.progressive_many([x], [i % 3 == 0])[0] == p[True]
        assert by_kernel.weights == by_fallback.weights == by_batch.weights


@needs_kernel
def test_kernel_reads_categories(monkeypatch: pytest.MonkeyPatch) -> None:
    model = new_model()

    def fail(x: Any) -> Any:
        raise AssertionError("the fallback was called")

    for module in (model_state, predictor):
        monkeypatch.setattr(module, "numeric_features", fail)
    for i in range(300):
        model.learn_one({"site": f"s{i % 7}", "ad": f"a{i}", "price": 1.5}, i % 2 == 0)
        model.predict_one({"site": f"s{i % 11}", "ad": "new"})
    assert {"site=s3", "ad=a299", "price"} <= set(feature_names(model))
    assert "ad=new" not in feature_names(model)
    model._state.check()


@needs_kernel
def test_category_equals_its_feature_name_after_loading(tmp_path: Path) -> None:
    model = new_model(l1=0.0)
    for i in range(50):
        model.learn_one({"site": f"s{i % 7}"}, i % 2 == 0)
    model.save(tmp_path / "m")
    loaded = pickle.loads(pickle.dumps(model))
    for x in ({"site": "s3"}, {"site=s3": 1.0}, {"site": "none"}):
        assert loaded.predict_proba_one(x) == model.predict_proba_one(x)
    loaded.learn_one({"site": "s3"}, True)
    assert feature_names(loaded).count("site=s3") == 1


@needs_kernel
def test_joined_names_do_not_leak_references() -> None:
    model = new_model()
    key, text = "".join(["na", "me"]), "".join(["te", "xt"])
    x = {key: text}
    for _ in range(3):
        model.learn_one(x, True)
    assert feature_names(model).count("name=text") == 1
    before = sys.getrefcount(key), sys.getrefcount(text)
    for _ in range(1000):
        model.predict_one(x)
        model.learn_one(x, True)
        model.predict_one({key: "other", "b": text})
    assert (sys.getrefcount(key), sys.getrefcount(text)) == before
