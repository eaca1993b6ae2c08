"""Raw text: words and n-grams, beside a count that a reader believes at sight."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import BadExample, ElasticNetClassifier
from streaml1.words import Words, words_of


def counted(x: dict[str, Any], names: list[str], ngrams: int) -> dict[str, Any]:
    """An example whose words were counted by hand."""
    whole = {name: v for name, v in x.items() if not (name in names and isinstance(v, str))}
    for name in names:
        if not isinstance(x.get(name), str):
            continue
        letters = "".join(c if c.isalnum() or c == "_" else " " for c in x[name].lower())
        words = letters.split()
        for n in range(1, ngrams + 1):
            for k in range(len(words) - n + 1):
                feature = f"{name}={' '.join(words[k : k + n])}"
                whole[feature] = (whole.get(feature) or 0.0) + 1.0
    return whole


@given(
    text=st.text(st.sampled_from("ab_ 1.,'\xe9\xdf\u0130\u4e2d\u0663\n-"), max_size=30),
    ngrams=st.integers(1, 4),
)
def test_words_are_counted(text: str, ngrams: int) -> None:
    x = {"age": 3, "message": text, "title": 5, "none": None}
    names = ["message", "title", "none", "absent"]
    found = Words(names, ngrams).of(x)
    assert list(found.items()) == list(counted(x, names, ngrams).items())


def test_a_word() -> None:
    assert words_of("Don't PAY 9.99, \xc9T\xc9_1!") == ["don", "t", "pay", "9", "99", "\xe9t\xe9_1"]


def rows_of(n: int) -> tuple[list[dict[str, Any]], list[bool]]:
    chance = random.Random(2)
    words = ["Cheap", "pills", "now", "see", "you", "at", "Noon"]
    rows = []
    for _ in range(n):
        text = " ".join(chance.choices(words, k=chance.randrange(9)))
        rows.append({"site": chance.choice(["x", "y"]), "message": text, "age": 2.5})
    return rows, [chance.random() < 0.5 for _ in range(n)]


ASKED: dict[str, Any] = {"text": ["message"], "ngrams": 3}
CROSS = [("site", "message")]


@pytest.mark.parametrize("bits", [None, 12])
def test_every_road(tmp_path: Path, bits: int | None) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows, y = rows_of(80)
    params: dict[str, Any] = {"l1": 1e-3, "cross": CROSS, "hash_bits": bits}
    twin = ElasticNetClassifier(**params)
    told = []
    for x, label in zip(rows, y, strict=True):
        plain = counted(x, ["message"], 3)
        told.append(twin.predict_proba_one(plain)[True])
        twin.learn_one(plain, label)
    for X in (rows, pandas.DataFrame(rows), polars.DataFrame(rows)):
        model = ElasticNetClassifier(**ASKED, **params)
        assert model.progressive_many(X, y).tolist() == told
        assert model.weights == twin.weights
        proba = np.asarray(model.predict_proba_many(X))[:, 1].tolist()
        assert proba == [model.predict_proba_one(x)[True] for x in rows]
    one = ElasticNetClassifier(**ASKED, **params)
    for x, label, p in zip(rows, y, told, strict=True):
        assert one.predict_proba_one(x)[True] == p
        one.learn_one(x, label)
    assert one.weights == twin.weights
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(json.dumps({"x": x, "y": label}) + "\n"
                             for x, label in zip(rows, y, strict=True)))  # fmt: skip
    model = ElasticNetClassifier(**ASKED, **params)
    streaml1.progressive(model, str(lines))
    assert model.weights == twin.weights
    one.save(tmp_path / "model")
    for again in (streaml1.load(tmp_path / "model"), pickle.loads(pickle.dumps(one)), one.freeze()):
        assert [again.predict_one(x) for x in rows] == one.predict_many(rows).tolist()


def test_what_is_given_both_ways_is_summed() -> None:
    model = ElasticNetClassifier(text=["m"], l1=0.0)
    twin = ElasticNetClassifier(l1=0.0)
    model.learn_one({"m": "a a b", "m=a": 0.5}, True)
    twin.learn_one({"m=a": 2.5, "m=b": 1.0}, True)
    assert model.weights == twin.weights
    with pytest.raises(BadExample, match="NaN") as found:
        model.learn_many([{"m": "a"}, {"m": "a", "m=a": float("nan")}], [True, False])
    assert found.value.row == 1


def test_frames_with_gaps() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"m": ["a b", None, ""], "n": [1.0, 2.0, 0.0]}
    twin = ElasticNetClassifier(text=["m"])
    twin.learn_many([{"m": "a b", "n": 1.0}, {"n": 2.0}, {}], [1, 0, 1])
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        model = ElasticNetClassifier(text=["m"])
        model.learn_many(frame, [1, 0, 1])
        assert model.weights == twin.weights
    alone = ElasticNetClassifier(text=["m"])
    alone.learn_many(pandas.DataFrame({"m": ["a"]}), [1])
    assert set(alone.weights) == {"m=a"}


@pytest.mark.parametrize("asked", [{"text": "m"}, {"text": [1]}, {"text": 5}, {"ngrams": 0}])
def test_what_is_refused(asked: Any) -> None:
    with pytest.raises(ValueError, match="text|ngrams"):
        ElasticNetClassifier(**asked)
