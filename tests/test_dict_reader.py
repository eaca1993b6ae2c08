"""Two roads for a dict: walked in a kernel, or read in Python. They end in the same bits."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import sys
from collections import OrderedDict, UserDict
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1 import BadExample, ElasticNetClassifier, ElasticNetRegressor
from streaml1.features import dict_reader
from streaml1.features.vocabulary import InternedVocabulary
from streaml1.models.state import model_state, predictor
from tests.conftest import WARM

needs_walk = pytest.mark.skipif(not dict_reader.AVAILABLE, reason="dicts are not walked here")

# Subprocesses find what is compiled already, where a folder was set.


class Dict(dict):  # type: ignore[type-arg]
    """A dict, but no exact one."""


class Name(str):
    """A str, but no exact one."""


class Number:
    """A number of somebody's own."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


class Index:
    def __index__(self) -> int:
        return 3


class Key:
    """A name of somebody's own."""

    def __init__(self, name: Any) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return other == self.name


def begun(**params: Any) -> Any:
    """A model that has names, so that exact dicts are walked."""
    model = ElasticNetClassifier(**{"l1": 1e-3, "l2": 1e-2, **params})
    model.learn_one({"the first": 1.0}, True)
    return model


def state(model: Any) -> bytes:
    return pickle.dumps(model)


def known(model: Any) -> list[Any]:
    names = model._engine.vocabulary
    return names.names() if isinstance(names, InternedVocabulary) else []


PLAIN = [1.0, 2, True, False, None, 0.0, -0.0, 0, -7, 3.25, 5e-324, 2**62, -(2**80), 1e-300, 9e49]


def examples(n: int) -> Iterator[tuple[dict[str, Any], bool, float]]:
    chance = random.Random(0)
    values = [*PLAIN[:11], np.float64(1.5), np.float64(-0.0)]
    for _ in range(n):
        count = chance.randrange(40)
        names = [f"n{int(chance.paretovariate(0.5)) % 20000}" for _ in range(count)]
        x = {name: chance.choice(values) for name in names}
        yield x, chance.random() < 0.5, chance.choice([0.0, 1.0, 2.5])


OTHER_ROADS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "subclass": Dict,
    "ordered": OrderedDict,
    "proxy": MappingProxyType,
    "user": UserDict,
    "names": lambda x: {Name(name): v for name, v in x.items()},
    "numpy names": lambda x: {np.str_(name): v for name, v in x.items()},
    "one strange name": lambda x: {**x, Name("zero"): 0.0},
    "numbers": lambda x: {name: v if v is None else Number(float(v)) for name, v in x.items()},
    "decimals": lambda x: {name: v if v is None else Decimal(float(v)) for name, v in x.items()},
    "fractions": lambda x: {name: v if v is None else Fraction(float(v)) for name, v in x.items()},
    "numpy values": lambda x: {
        name: v if v is None else np.array(float(v)) for name, v in x.items()
    },
}


@pytest.mark.parametrize("road", OTHER_ROADS)
@pytest.mark.parametrize("update", ["fobos", "sgd"])
def test_both_roads_end_in_the_same_bits(road: str, update: str) -> None:
    params: dict[str, Any] = {"l1": 1e-3, "l2": 1e-2, "update": update}
    walked, read = begun(**params), begun(**params)
    for i, (x, y, w) in enumerate(examples(400)):
        other = OTHER_ROADS[road](x)
        if i % 2:
            assert walked.predict_proba_one(x) == read.predict_proba_one(other)
        if i % 3:
            assert walked._margin(x) == read._margin(other)
        walked.learn_one(x, y, w)
        read.learn_one(other, y, w)
    assert walked.weights == read.weights
    assert list(walked.weights) == list(read.weights)
    assert walked.intercept == read.intercept
    assert walked.n_features_seen == read.n_features_seen
    walked._engine.check()
    read._engine.check()


@needs_walk
def test_plain_dicts_are_walked_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    model = begun()
    asked = []
    real = model_state.numeric_features
    for module in (model_state, predictor):
        monkeypatch.setattr(module, "numeric_features", lambda x: asked.append(x) or real(x))
    for value in [*PLAIN, np.float64(2.5)]:
        model.learn_one({"a": value}, True)
        model.predict_one({"a": value, "new": value})
    assert asked == []
    for x in ({1: 1.0, "a": 2}, {-7: 1.0}, {2**62: "a" == "b"}):
        model.learn_one(x, True)
        model.predict_one(x)
    assert asked == []
    others: list[Any] = [{"a": np.float32(1.0)}, {True: 1.0}, {Name("a"): 1.0}, {2**63: 1.0}]
    others += [{np.int64(1): 1.0}, {1.0: 1.0}, {1: "a"}]
    others += [{"a": Decimal(1)}]
    for x in others:
        model.learn_one(x, True)
    assert asked == others
    for x in (Dict(a=1.0), OrderedDict(a=1.0)):  # read in Python, learnt by the kernel of items
        model.learn_one(x, True)
    assert asked == others


def test_a_float32_counts_as_its_value() -> None:
    a, b = begun(), begun()
    for value in (0.1, -3.7, 1e30, 1e-40):
        a.learn_one({"x": np.float32(value), "y": np.float16(0.5), "z": np.int8(-3)}, True)
        b.learn_one({"x": float(np.float32(value)), "y": 0.5, "z": -3.0}, True)
    assert state(a) == state(b)


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
def test_any_plain_dicts(rows: list[tuple[dict[str, Any], bool]]) -> None:
    one, other, many = begun(), begun(), begun()
    for x, y in rows:
        assert one.predict_proba_one(x) == other.predict_proba_one(Dict(x))
        one.learn_one(x, y)
        other.learn_one(Dict(x), y)
    many.learn_many([x for x, _ in rows], [y for _, y in rows])
    assert state(one) == state(other) == state(many)
    one._engine.check()


# What is refused


REFUSED: dict[str, Any] = {
    "huge int": 10**400,
    "huge negative int": -(10**400),
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "numpy nan": np.float64("nan"),
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
    "decimal nan": Decimal("nan"),
    "decimal signalling nan": Decimal("snan"),
    "huge decimal": Decimal("1e400"),
    "huge fraction": Fraction(10**400),
    "number nan": Number(float("nan")),
    "number of a text": Number("text"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("first", ["str", "int", "none"])
def test_a_refused_value_half_way_teaches_nothing(what: str, first: str) -> None:
    wrong = REFUSED[what]
    for cls in (ElasticNetClassifier, ElasticNetRegressor):
        model = cls(l1=1e-3)
        if first != "none":
            model.learn_one({"a": 1.0, "b": 2.0} if first == "str" else {1: 1.0, 2: 2.0}, True)
        before, names, seen = state(model), known(model), model.n_features_seen
        for good, name, late in (("new 1", "wrong", "new 2"), (5, 6, 7), ("new 1", 6, ("t",))):
            x = {good: 1.0, name: wrong, late: 2.0}
            for given_ in (x, Dict(x), MappingProxyType(x)):
                with pytest.raises(BadExample) as refused:
                    model.learn_one(given_, True)
                assert refused.value.row == 0
                assert "\n" not in refused.value.reason
                assert repr(name) in refused.value.reason
                with pytest.raises(BadExample):
                    model.predict_one(given_)
                with pytest.raises(BadExample) as refused:
                    model.learn_many([{good: 1.0}, given_], [True, True])
                assert refused.value.row == 1
                with pytest.raises(BadExample):
                    model.predict_many([given_])
        assert state(model) == before
        assert known(model) == names
        assert model.n_features_seen == seen
        model._engine.check()


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
def test_numbers_of_numpy_that_are_no_reals_are_refused(value: Any) -> None:
    model = begun()
    before = state(model)
    with pytest.raises(BadExample):
        model.learn_one({"a": 1.0, "b": value}, True)
    assert state(model) == before


def test_an_error_of_a_values_own_goes_through() -> None:
    class Mine(RuntimeError):
        pass

    class Failing:
        def __float__(self) -> float:
            raise Mine

    for begin in ({"a": 1.0}, {1: 1.0}):
        model = ElasticNetClassifier()
        model.learn_one(begin, True)
        before = state(model)
        for x in ({"new": 1.0, "b": Failing()}, {3: 1.0, 4: Failing()}):
            for call in (model.predict_one, lambda x, m=model: m.learn_one(x, True)):
                with pytest.raises(Mine):
                    call(x)
        assert state(model) == before
        model._engine.check()


def test_values_at_the_edge_are_taken() -> None:
    model = begun()
    for value in (9.99e49, -9.99e49, 10**49, 5e-324, -5e-324, 2**64, -(2**64), True):
        model.learn_one({"a": value}, True)
        assert np.isfinite(model.weights.get("a", 0.0))
    model._engine.check()


def test_zeros_and_none_are_absent() -> None:
    model = begun()
    before = known(model)
    for value in (0, 0.0, -0.0, False, None, np.float64(0), np.float32(-0.0), Decimal(0), 0j.real):
        model.learn_one({"absent": value}, True)
        model.learn_one(Dict(absent=value), True)
    assert known(model) == before
    assert model.n_features_seen == 1


def test_the_sign_of_zero_does_not_show() -> None:
    assert str(ElasticNetRegressor().predict_one({"a": -1.0})) == "0.0"


# Names


def test_names_that_a_dict_takes_for_one_are_one() -> None:
    same = [1, 1.0, True, np.int64(1), Decimal(1), Fraction(1), Key(1), np.float32(1.0)]
    for with_words in (False, True):
        model = ElasticNetClassifier(lr=1.0, schedule="constant")
        if with_words:
            model.learn_one({"a": 1.0}, True, 0.0)
        for name in same:
            model.learn_one({name: 1.0}, True)
        assert model.n_features_seen == 1 + with_words
        assert len(model.weights) == 1
        margins = {model._margin({name: 1.0}) for name in same}
        assert len(margins) == 1
        assert margins != {model.intercept}
        model._engine.check()


@pytest.mark.parametrize(
    "names",
    [
        (-1, -2),  # of one hash
        (1, "1"),
        ("a", b"a"),
        (0, 2**61 - 1),  # of one hash
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
def test_names_that_a_dict_tells_apart_are_two(names: tuple[Any, Any]) -> None:
    model = ElasticNetClassifier(lr=1.0, schedule="constant")
    model.learn_one({names[0]: 1.0, names[1]: -1.0}, True)
    assert model.n_features_seen == 2
    assert model.weights == {names[0]: 0.5, names[1]: -0.5}
    model._engine.check()
    assert pickle.loads(state(model))._margin({names[1]: 2.0}) == model._margin({names[1]: 2.0})


def test_equal_strings_of_other_types_are_one_name() -> None:
    model = begun(lr=1.0, l1=0.0, l2=0.0)
    for name in ("word", Name("word"), np.str_("word"), "".join(["wo", "rd"])):
        model.learn_one({name: 1.0}, True)
    assert model.n_features_seen == 2


def test_strings_with_a_hash_of_their_own_are_told_apart() -> None:
    class Slow(str):
        def __hash__(self) -> int:
            return 5

    model = begun()
    model.learn_one({Slow("u"): 1.0, Slow("v"): -1.0}, True)
    model._engine.check()
    assert model.weights[Slow("u")] > 0.0 > model.weights[Slow("v")]


def test_a_float_with_a_float_of_its_own() -> None:
    class Percent(float):
        def __float__(self) -> float:
            return super().__float__() / 100.0

    model = ElasticNetRegressor(lr=1.0, schedule="constant")
    model.learn_one({1: 1.0}, 1.0)
    by_int = model._margin({1: Percent(50.0)})
    model.learn_one({"a": 0.0, "": 1.0}, 0.0, 0.0)
    assert model._margin({1: Percent(50.0)}) == by_int


def test_a_name_of_somebodys_own_may_fail() -> None:
    class Weird:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("not comparable")

    for begin in ({1: 1.0}, {"a": 1.0, 1: 1.0}):
        model = ElasticNetClassifier()
        model.learn_one(begin, True)
        before = model.weights
        x = {Weird(): 1.0, "new": 1.0}
        with pytest.raises(RuntimeError, match="not comparable"):
            model.learn_one(x, True)
        with contextlib.suppress(RuntimeError):
            model.predict_one(x)
        with pytest.raises(RuntimeError, match="not comparable"):
            model.learn_many([x, x], [True, True])
        model._engine.check()
        assert model.weights == before
        model.learn_one({"b": 1.0}, True)
        assert model.predict_one({"b": 1.0}) is True


def test_names_met_in_prediction_are_not_kept() -> None:
    for begin in ({"a": 1.0}, {1: 1.0}, {}):
        model = ElasticNetClassifier()
        model.learn_one(begin, True)
        before, size = state(model), model._engine.rule.size
        for k in range(300):
            x = {f"p{k}-{j}": 1.0 for j in range(20)} | {("t", k): 1.0, 5000 + k: 1.0}
            model.predict_one(x)
            model.predict_proba_one(Dict(x))
            model.predict_many([x, x])
        assert state(model) == before
        assert model.n_features_seen == len(begin)
        assert model._engine.rule.size == size
        model._engine.check()


@pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="counts of references are CPython's")
def test_references_do_not_leak() -> None:
    model = begun()
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
    kept = (before[0] + 1, *before[1:])  # the model's own list of names
    assert counts() == kept
    for _ in range(1000):
        model.learn_one(x, True)
        model.predict_one(x)
        with pytest.raises(BadExample):
            model.learn_one({name: value, "b": b"1"}, True)
        with pytest.raises(BadExample):
            model.learn_one({name: 10**400}, True)
    assert counts() == kept
    del model
    assert counts() == before


# Growth


@pytest.mark.parametrize("road", ["walked", "read", "batches"])
def test_growth_through_many_doublings(road: str) -> None:
    n, step = 200_000, 500
    model = begun(l1=0.0, l2=0.0, lr=1.0, schedule="constant", intercept_lr=0.0)
    sizes = set()
    for k in range(0, n, step):
        x = {f"name {j}": 1.0 for j in range(k, k + step)}
        if road == "batches":
            model.learn_many([x], [k % 1000 == 0])
        else:
            model.learn_one(x if road == "walked" else Dict(x), k % 1000 == 0)
        sizes.add(model._engine.rule.size)
    assert len(sizes) >= 7
    assert model.n_features_seen == n + 1
    model._engine.check()
    weights = model.weights
    assert len(weights) == n + 1
    for j in (0, 1, 499, 500, 1023, 1024, 65_535, 65_536, n - 1):
        assert weights[f"name {j}"] == (0.5 if j // step % 2 == 0 else -0.5)
        assert model._margin({f"name {j}": 1.0}) == weights[f"name {j}"]


def test_one_name_at_a_time() -> None:
    model = ElasticNetClassifier(lr=1.0, schedule="constant")
    for j in range(5000):
        model.learn_one({f"name {j}": 1.0}, True)
        if j % 250 == 0:
            model._engine.check()
    assert model.n_features_seen == len(model.weights) == 5000


@pytest.mark.parametrize("kind", [dict, Dict])
def test_a_dict_of_100_000_features(kind: Any) -> None:
    model, ints = begun(), ElasticNetClassifier(l1=1e-3, l2=1e-2)
    ints.learn_one({100_001: 1.0}, True)
    big = kind({f"b{k}": 1.0 for k in range(100_000)})
    assert model._margin(big) == model.intercept
    model.learn_one(big, True)
    ints.learn_one(kind(enumerate(big.values())), True)
    assert model.n_features_seen == ints.n_features_seen == 100_001
    assert model.n_nonzero == 100_001
    assert model._margin({"b99999": 1.0}) == ints._margin({99_999: 1.0})
    assert model.predict_one(big) is True
    assert model.predict_one({"b5": 1.0}) is True
    model._engine.check()


# Dicts that change while they are read


class Changing:
    """A value that changes the dict it is in while it is read."""

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
@pytest.mark.parametrize("names", ["str", "int"])
def test_a_dict_changed_by_its_own_values(change: str, names: str) -> None:
    for begin in ({"a": 1.0}, {1: 1.0}):
        model = ElasticNetClassifier()
        model.learn_one(begin, True)
        for _ in range(20):
            x: dict[Any, Any] = {}
            for j in range(10):
                name = f"n{j}" if names == "str" else j
                x[name] = Changing(x, CHANGES[change]) if j == 4 else 1.0
            with contextlib.suppress(BadExample, RuntimeError):
                model.predict_one(dict(x))
                model.learn_one(x, True)
            model._engine.check()
        assert np.isfinite(list(model.weights.values())).all()
        model.learn_one({"fine": 1.0}, True)
        assert model.predict_one({"fine": 1.0}) is True


def test_a_value_that_uses_the_model_itself() -> None:
    model = begun()

    class Reentrant:
        def __float__(self) -> float:
            model.learn_one({f"inner {k}": 1.0 for k in range(3000)}, True)
            model.predict_one({"inner 5": 1.0})
            return 1.0

    model.learn_one({"outer": Reentrant(), "b": 1.0}, True)
    model.learn_one({5: Reentrant(), 6: 1.0}, True)
    assert model.n_iterations == 5
    model._engine.check()
    assert model.predict_one({"outer": 1.0}) is True


def test_a_value_named_by_an_int_that_uses_the_model_itself() -> None:
    model = ElasticNetClassifier()
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
model._engine.check()
out = []
for x, y in json.load(open(sys.argv[3])):
    out.append(model.predict_proba_one(x)[True].hex())
    model.learn_one(x, y)
model._engine.check()
print(json.dumps([out, model.intercept.hex(), sorted(model.weights.items())]))
"""


@pytest.mark.parametrize("how", ["pickle", "file"])
def test_another_process_hashes_otherwise(
    how: str, python: Callable[..., str], tmp_path: Path
) -> None:
    model = begun()
    rows = [(x, y) for x, y, _ in examples(300)]
    for x, y in rows[:200]:
        model.learn_one(x, y)
    later = [({k: v for k, v in x.items() if v is not None}, y) for x, y in rows[200:]]
    later = [({k: float(v) for k, v in x.items()}, y) for x, y in later]
    path, data = tmp_path / "model", tmp_path / "rows.json"
    data.write_text(json.dumps(later))
    if how == "pickle":
        path.write_bytes(pickle.dumps(model))
    else:
        model.save(path)
    found = {
        python("-c", RESUME, str(path), how, str(data), PYTHONHASHSEED=seed, **WARM)
        for seed in ("1", "2")
    }
    out = []
    for x, y in later:
        out.append(model.predict_proba_one(x)[True].hex())
        model.learn_one(x, y)
    expected = [out, model.intercept.hex(), [list(item) for item in sorted(model.weights.items())]]
    assert [json.loads(text) for text in found] == [expected]


TRACE = """
import json
from tests.test_dict_reader import Dict, begun, examples, known
model, out = begun(), []
for i, (x, y, w) in enumerate(examples(150)):
    x = dict(x, shop="fr" if y else "de") if i % 5 == 0 else x
    x = {("t", k): v for k, v in x.items()} if i % 7 == 0 else Dict(x) if i % 3 == 0 else x
    out.append(model.predict_proba_one(x)[True].hex())
    model.learn_one(x, y, w)
model.learn_many([x for x, _, _ in examples(50)], [y for _, y, _ in examples(50)])
model._engine.check()
weights = sorted((repr(name), w.hex()) for name, w in model.weights.items())
print(json.dumps([out, model.intercept.hex(), weights]))
"""


def test_interpreted_is_the_same(python: Callable[..., str]) -> None:
    compiled = python("-c", TRACE, PYTHONHASHSEED="3", **WARM)
    assert python("-c", TRACE, NUMBA_DISABLE_JIT="1", PYTHONHASHSEED="4") == compiled


# Categories: a string value and its name are known by a mix of their hashes


def categories(n: int) -> Iterator[tuple[dict[str, Any], bool]]:
    """Categories, among them names that two entries of a dict share, and numbers beside them."""
    chance = random.Random(3)
    texts = ["", "b", "c", "b=c", "=", "é", "\ud800", "x" * 40]
    for i in range(n):
        x: dict[str, Any] = {}
        for _ in range(chance.randrange(9)):
            name = chance.choice(["a", "a=b", "a=", "", "=", f"n{i % 50}", "a=b=c"])
            value: Any = chance.choice([*texts, f"v{i}", 1.0, 0.0, -1.0, 2, None, True])
            x[name] = value
        yield x, chance.random() < 0.5


@needs_walk
@pytest.mark.parametrize("l2", [0.0, 0.02])
def test_categories_are_the_same_by_both_roads(l2: float) -> None:
    one, other = begun(l2=l2), begun(l2=l2)
    for x, y in categories(4000):
        assert one.predict_proba_one(x) == other.predict_proba_one(Dict(x))
        one.learn_one(x, y)
        other.learn_one(Dict(x), y)
    assert one.weights == other.weights
    assert one.intercept == other.intercept
    assert set(known(one)) == set(known(other))
    assert one.n_features_seen == other.n_features_seen
    one._engine.check()
    other._engine.check()


@pytest.mark.parametrize("cross", [None, [("other", "u")]])
def test_hashed_names_given_twice_are_summed_before_those_that_share_their_slot(cross: Any) -> None:
    models = [ElasticNetClassifier(lr=0.3, hash_bits=1, cross=cross) for _ in range(3)]
    rng = random.Random(1)
    for i in range(600):
        items = [("s", "x"), ("u", "v"), *((n, rng.gauss(0.0, 1.0)) for n in ("s=x", "a", "b"))]
        x = dict(rng.sample(items, len(items)))
        walked, plain, batch = models
        p = walked.predict_proba_one(x)
        assert p == plain.predict_proba_one(Dict(x)) == batch.freeze().predict_proba_one(x)
        walked.learn_one(x, i % 3 == 0)
        plain.learn_one(Dict(x), i % 3 == 0)
        assert batch.progressive_many([x], [i % 3 == 0])[0] == p[True]
        assert walked.weights == plain.weights == batch.weights


@needs_walk
def test_categories_take_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    model = begun()

    def refused(x: Any) -> Any:
        raise AssertionError("read in Python")

    for module in (model_state, predictor):
        monkeypatch.setattr(module, "numeric_features", refused)
    for i in range(300):
        model.learn_one({"site": f"s{i % 7}", "ad": f"a{i}", "price": 1.5}, i % 2 == 0)
        model.predict_one({"site": f"s{i % 11}", "ad": "new"})
    assert {"site=s3", "ad=a299", "price"} <= set(known(model))
    assert "ad=new" not in known(model)
    model._engine.check()


@needs_walk
def test_a_category_is_its_name_after_loading(tmp_path: Path) -> None:
    model = begun(l1=0.0)
    for i in range(50):
        model.learn_one({"site": f"s{i % 7}"}, i % 2 == 0)
    model.save(tmp_path / "m")
    loaded = pickle.loads(pickle.dumps(model))
    for x in ({"site": "s3"}, {"site=s3": 1.0}, {"site": "none"}):
        assert loaded.predict_proba_one(x) == model.predict_proba_one(x)
    loaded.learn_one({"site": "s3"}, True)
    assert known(loaded).count("site=s3") == 1


@needs_walk
def test_joined_names_are_not_leaked() -> None:
    model = begun()
    key, text = "".join(["na", "me"]), "".join(["te", "xt"])
    x = {key: text}
    for _ in range(3):
        model.learn_one(x, True)
    assert known(model).count("name=text") == 1
    before = sys.getrefcount(key), sys.getrefcount(text)
    for _ in range(1000):
        model.predict_one(x)
        model.learn_one(x, True)
        model.predict_one({key: "other", "b": text})
    assert (sys.getrefcount(key), sys.getrefcount(text)) == before
