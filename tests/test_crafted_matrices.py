"""Matrices whose attributes were set to something else: each is rejected in one sentence, or used.

`STREAML1_MUTATIONS` sets how many are tried (default 2000).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import streaml1
from streaml1 import BadExample
from streaml1.solvers import fista
from streaml1.training import progressive

MUTATIONS = int(os.environ.get("STREAML1_MUTATIONS", "2000"))
FORMATS = ("csr", "csr", "csr", "csr", "csc", "coo", "lil", "bsr", "dok", "dia")
INTS = (-1, -(2**31), -(2**62), 0, 1, 3, 7, 8, 2**16, 2**31 - 1, 2**31, 2**40, 2**62)
N, D = 6, 8
Y = [True, False, True, True, False, True]


def valid_matrix(random: Random, format: str) -> Any:
    generator = np.random.default_rng(random.randrange(2**32))
    dense = generator.choice([0.0, 0.0, 1.0, -0.5, 2.0], (N, D))
    X = sparse.csr_matrix(dense.astype(random.choice((np.float64, np.float32, np.int8))))
    return X.asformat(format)


def mutated_column(random: Random, array: Any) -> Any:
    """Return an array with another element, length, shape, dtype or layout; or something else."""
    kinds = ["element"] * 6 + ["length", "grow", "table", "column", "scalar", "dtype", "order"]
    kinds += ["swapped", "strided", "readonly", "unaligned", "list", "none", "masked", "object"]
    kind = random.choice(kinds)
    if kind == "element" and array.size:
        array = array.astype(np.int64 if array.dtype.kind in "iu" else array.dtype)
        value = random.choice(INTS if array.dtype.kind == "i" else (np.nan, np.inf, 1e300, 0.0))
        with np.errstate(all="ignore"):
            array.reshape(-1)[random.randrange(array.size)] = np.array(value).astype(array.dtype)
            if array.dtype.kind == "i" and random.random() < 0.7:
                return array.astype(np.int32)
        return array
    if kind == "unaligned":
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
        raw[:] = np.frombuffer(array.tobytes(), np.uint8)
        return raw.view(array.dtype)
    if kind == "readonly":
        array = array.copy()
        array.flags.writeable = False
        return array
    dtypes = (np.float64, np.complex128, np.uint64, np.int8, np.bool_, np.float16, "U3", "M8[s]")
    changes: dict[str, Callable[[], Any]] = {
        "element": lambda: array,
        "length": lambda: array[: random.randrange(len(array) + 1)],
        "grow": lambda: np.resize(array, len(array) + 3),
        "table": lambda: array.reshape(1, -1),
        "column": lambda: array.reshape(-1, 1),
        "scalar": lambda: np.array(random.choice(INTS)),
        "dtype": lambda: array.astype(random.choice(dtypes)),
        "order": lambda: array[::-1],
        "swapped": lambda: array.astype(array.dtype.newbyteorder(">")),
        "strided": lambda: np.repeat(array, 2)[::2],
        "list": lambda: array.tolist(),
        "none": lambda: None,
        "masked": lambda: np.ma.masked_equal(array, 1),
        "object": lambda: array.astype(object),
    }
    with np.errstate(all="ignore"):
        return changes[kind]()


def mutated_matrix(random: Random) -> Any:
    X = valid_matrix(random, random.choice(FORMATS))
    names = {"coo": ("data", "row", "col"), "lil": ("data", "rows")}
    names |= {"dok": ("_shape",), "dia": ("data", "offsets")}
    for _ in range(random.choice((1, 1, 2))):
        name = random.choice((*names.get(X.format, ("data", "indices", "indptr")), "_shape"))
        if name == "_shape":
            X._shape = random.choice(((N, 2), (N, 2**40), (N + 1, D), (2, D), (N, -1), (-1, D)))
            continue
        try:
            setattr(X, name, mutated_column(random, getattr(X, name)))
        except (AttributeError, TypeError, ValueError, IndexError, OverflowError, RuntimeError):
            continue  # scipy or numpy rejects it itself
    return X


@pytest.fixture(scope="module")
def models() -> list[Any]:
    made = [
        streaml1.ElasticNetClassifier(lr=0.1),
        streaml1.FTRLClassifier(hash_bits=5),
        streaml1.SoftmaxClassifier(),
    ]
    for model in made[:2]:
        model.learn_one({1: 1.0, 2: 0.5}, True)
    return made


def use_matrix(random: Random, model: Any, X: Any) -> None:
    """Pass a matrix to a public function."""
    uses: list[Callable[[], Any]] = [
        lambda: model.learn_many(X, Y),
        lambda: model.learn_many(X, Y),
        lambda: model.progressive_many(X, Y),
        lambda: model.predict_many(X),
        lambda: model.predict_proba_many(X),
        lambda: model.explain_many(X),
        lambda: model.freeze().predict_many(X),
        lambda: progressive(model, (X, np.array(Y)), passes=2),
        lambda: fista(X, Y, l2=0.1, max_epochs=3),
    ]
    random.choice(uses)()


@pytest.mark.filterwarnings("ignore:fista stopped")
def test_mutated_matrices(models: Any) -> None:
    random, outcomes = Random(3), {"rejected": 0, "used": 0}
    for k in range(MUTATIONS):
        X = mutated_matrix(random)
        try:
            use_matrix(random, models[k % len(models)], X)
        except (TypeError, BadExample, ValueError, MemoryError) as error:  # 2**40 columns
            text = str(error)
            assert "\n" not in text and len(text) < 300, (k, text)
            outcomes["rejected"] += 1
        except BaseException as error:
            error.add_note(f"mutation {k}: {X.format}")
            raise
        else:
            outcomes["used"] += 1
    for model in models:
        model._state.check()
    print("matrices:", outcomes)
    assert min(outcomes.values()) > MUTATIONS // 20


MALFORMED: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "data of two dimensions": (
        "data", lambda a: a.reshape(1, -1), r"X.data must be a one-dimensional array, got the shape"
    ),
    "indices of two dimensions": (
        "indices", lambda a: a.reshape(-1, 1), "X.indices must be a one-dimensional array, got the"
    ),
    "list": ("data", lambda a: a.tolist(), "X.data must be a one-dimensional array, got list"),
    "float indices": ("indices", lambda a: a * 1.0, "X.indices must hold integers, got float64"),
    "strings": ("data", lambda a: a.astype("U3"), "X has values of type <U3; they must be real"),
    "descending": ("indptr", lambda a: a[::-1], "the index pointers of X are out of order"),
    "beyond the data": ("indptr", lambda a: a * 2, "the index pointers of X are out of order"),
    "too few indices": ("indices", lambda a: a[:-1], "the index pointers of X are out of order"),
    "masked": ("indptr", lambda a: np.ma.masked_equal(a, 1), "X.indptr must not be a masked array"),
    "negative index": ("indices", lambda a: a - 9, f"X has an entry outside its {D} columns"),
}  # fmt: skip


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_matrix_is_rejected_in_one_sentence(models: Any, case: str) -> None:
    name, change, message = MALFORMED[case]
    X = valid_matrix(Random(0), "csr")
    setattr(X, name, change(getattr(X, name)))
    for use in (
        lambda: models[0].learn_many(X, Y),
        lambda: models[0].predict_many(X),
        lambda: models[0].explain_many(X),
        lambda: progressive(models[0], (X, np.array(Y))),
        lambda: fista(X, Y),
    ):
        with pytest.raises(TypeError, match=message):
            use()


@pytest.mark.parametrize(("format", "shape"), [("csr", (-1, D)), ("csc", (N, -1))])
def test_negative_shape_is_rejected(models: Any, format: str, shape: tuple[int, int]) -> None:
    X = valid_matrix(Random(0), format)
    X._shape, X.indptr = shape, X.indptr[:0]
    with pytest.raises(TypeError, match="the index pointers of X are out of order"):
        models[0].predict_many(X)


@pytest.mark.parametrize("layout", ["byte order", "read-only", "strided", "unaligned"])
def test_unusual_layouts_are_converted(layout: str) -> None:
    """A matrix is used whatever the memory of its arrays looks like."""
    X = valid_matrix(Random(0), "csr").astype(np.float64)
    expected = streaml1.FTRLClassifier(alpha=0.1, l1=0.0)
    expected.learn_many(X, Y)
    for name in ("data", "indices", "indptr"):
        array = getattr(X, name)
        if layout == "byte order":
            array = array.astype(array.dtype.newbyteorder(">"))
        elif layout == "read-only":
            array = array.copy()
            array.flags.writeable = False
        elif layout == "strided":
            array = np.repeat(array, 2)[::2]
        else:
            raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
            raw[:] = np.frombuffer(array.tobytes(), np.uint8)
            array = raw.view(array.dtype)
        setattr(X, name, array)
    model = streaml1.FTRLClassifier(alpha=0.1, l1=0.0)
    model.learn_many(X, Y)
    assert model.weights == expected.weights and len(model.weights) > 3
