"""Raw text: words and n-grams, beside a count that a reader believes at sight.

And what kernels make of texts, beside `Words.of`, which makes strings of them.
"""

from __future__ import annotations

import json
import math
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import BadExample, ElasticNetClassifier
from streaml1.core.hashing import name_hash
from streaml1.core.jit import COMPILED
from streaml1.core.rows import numeric_features
from streaml1.features.ngrams import NGrams, ngram_batch, tokenize
from streaml1.sources.readers.jsonl import JsonParser

compiled = pytest.mark.skipif(not COMPILED, reason="kernels read raw memory")


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
    found = NGrams(names, ngrams).of(x)
    assert list(found.items()) == list(counted(x, names, ngrams).items())


def test_a_word() -> None:
    assert tokenize("Don't PAY 9.99, \xc9T\xc9_1!") == ["don", "t", "pay", "9", "99", "\xe9t\xe9_1"]


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


@pytest.mark.parametrize(
    "asked", [{"text": "m"}, {"text": [1]}, {"text": 5}, {"text": ["m", ""]}, {"ngrams": 0}]
)
def test_what_is_refused(asked: Any) -> None:
    with pytest.raises(ValueError, match="text|ngrams"):
        ElasticNetClassifier(**asked)


LETTERS = (
    "aBz_09 .,'\n\"\\/=&<\xe9\xc9\xdf\u0130\u03a3\u03c3\u2019\u4e2d\u0663\u212a\u023a"
    "\U0001f600\U0001d400\U00020000"
)
some_text = st.text(st.sampled_from(LETTERS), max_size=60) | st.text(max_size=20).filter(
    lambda text: text.encode(errors="ignore").decode() == text
)
some_row = st.fixed_dictionaries(
    {},
    optional={
        "m": some_text | st.none() | st.sampled_from([2.0, 0.0]),
        "site": st.sampled_from(["x", "m=a", "\xe9"]),
        "title": some_text,
        "m=a": st.sampled_from([0.5, 0.0, None]),
        "site=x": st.just(2.0),
        "age": st.sampled_from([1, 0, None, True]),
    },
)


def told(words: NGrams, X: Any) -> list[list[tuple[str, float]]]:
    """Names and values of the rows of X, as kernels count their words."""
    batch = ngram_batch(words, X)
    texts = batch.texts
    assert texts is not None
    hashes, values, indptr = texts.csr()
    names = texts.feature_names(np.arange(len(hashes)))
    some = slice(0, 1000)  # in Python that is slow
    assert hashes[some].tolist() == [name_hash(name) for name in names[some]]
    pairs = list(zip(names, values.tolist(), strict=True))
    return [pairs[lo:hi] for lo, hi in zip(indptr[:-1], indptr[1:], strict=True)]


def expected(words: NGrams, X: list[dict[str, Any]]) -> list[list[tuple[Any, float]]]:
    return [list(numeric_features(words.of(x)).items()) for x in X]


@compiled
@given(X=st.lists(some_row, max_size=5), ngrams=st.sampled_from([1, 2, 3, 40]))
def test_kernels_count_what_python_does(X: list[dict[str, Any]], ngrams: int) -> None:
    words = NGrams(["m", "title"], ngrams)
    assert told(words, X) == expected(words, X)
    lines = [json.dumps({"x": x, "y": 1}, ensure_ascii=k % 2 == 0) for k, x in enumerate(X)]
    parsed = JsonParser().read("".join(f"{line}\n" for line in lines).encode())
    assert not parsed.faults
    if "site=x" not in {name for x in X for name in x}:  # which may come twice in a row there
        parts = [told(words, parsed.x[k : k + 1])[0] for k in range(len(X))]
        assert parts == expected(words, X)
        assert not X or told(words, parsed.x) == expected(words, X)


long_text = st.lists(
    st.text(st.sampled_from("abzAZ_09 @[`{/:-.,~"), min_size=1, max_size=90)
    | st.text(st.sampled_from("ab \xe9\u0130\u4e2d"), max_size=9),
    max_size=6,
).map("".join)


@compiled
@given(
    texts=st.lists(long_text, min_size=1, max_size=4), ngrams=st.integers(1, 3),
    again=st.booleans(),
)  # fmt: skip
def test_long_texts(texts: list[str], ngrams: int, again: bool) -> None:
    """What is cleaned 64 bytes at a time, up to the first letter that is not ASCII."""
    words = NGrams(["m"], ngrams)
    X = [{"m": text * (1 + again)} for text in texts]
    assert told(words, X) == expected(words, X)
    model, twin = (ElasticNetClassifier(text=given, ngrams=ngrams) for given in (["m"], None))
    for x in X:
        plain = words.of(x)
        assert model.predict_proba_one(x) == twin.predict_proba_one(plain)
        model.learn_one(x, True)
        twin.learn_one(plain, True)
    assert model.weights == twin.weights


@compiled
def test_every_character() -> None:
    letters = [chr(c) for c in range(0x20400) if not 0xD800 <= c < 0xE000]
    texts = [f"A{c} {c}b" for c in letters]
    words = NGrams(["m"], 1)
    assert told(words, [{"m": text} for text in texts]) == expected(
        words, [{"m": t} for t in texts]
    )


@compiled
@pytest.mark.parametrize("size", [2, 7, 8, 9, 17])
def test_names_of_any_length(size: int) -> None:
    words = NGrams(["m" * size], 3)
    chance = random.Random(size)
    texts = [" ".join("w" * chance.randrange(1, 20) for _ in range(9)) for _ in range(40)]
    X = [{"m" * size: text} for text in texts]
    assert told(words, X) == expected(words, X)


ODD = ["\xc9t\xe9 now", "\u03a3\u0391\u03a3", "I\u0130", "\U0001d400 x", "", "...", "a\ud800b"]


@pytest.mark.parametrize("bits", [None, 10])
def test_dicts_one_by_one(bits: int | None) -> None:
    """Beside a model that is given the words by name, with all that makes strings of names."""
    chance = random.Random(4)
    model = ElasticNetClassifier(text=["m", "t"], ngrams=2, hash_bits=bits, l1=1e-3)
    twin = ElasticNetClassifier(hash_bits=bits, l1=1e-3)
    words = NGrams(["m", "t"], 2)
    for k in range(300):
        x: dict[Any, Any] = {"site": chance.choice("xyz"), "age": chance.choice([None, 0, 2.5])}
        x["m"] = " ".join(f"w{int(chance.paretovariate(0.7)) % 5000}" for _ in range(k % 40))
        if k % 7 == 0:
            x["m" if k % 2 else "t"] = chance.choice([*ODD, 2.0, None])
        if k % 11 == 0:
            x |= chance.choice([{"m=w1": 0.5}, {"m=w1": None}, {"site=x": 1.0}, {7: 1.5}])
        if k == 150:
            x["t"] = " ".join(f"Long{j}" for j in range(3000))
        plain, y = words.of(x), chance.random() < 0.5
        assert model.predict_proba_one(x) == twin.predict_proba_one(plain)
        model.learn_one(x, y)
        twin.learn_one(plain, y)
        if k % 40 == 0:
            assert model.weights == twin.weights
            assert model.predict_many([x, {}]).tolist() == twin.predict_many([plain, {}]).tolist()
        if k % 90 == 0:
            many = [{"m": f"w{j} n{k}"} for j in range(9)]
            model.learn_many(many, [True] * 9)
            twin.learn_many([words.of(one) for one in many], [True] * 9)
            model._engine.check()
    assert model.weights == twin.weights
    frozen = model.freeze()
    for x in ({"m": "w1 w2 unknown w3"}, {"t": "Long1 Long2", "m": "\u03a3"}, {"m": 5}, {}):
        plain = words.of(x)
        assert frozen.predict_proba_one(x) == twin.predict_proba_one(plain)


@compiled
def test_words_are_no_strings() -> None:
    model = ElasticNetClassifier(text=["m"], ngrams=2)
    for k in range(2000):
        model.learn_one({"m": f"a{k} b{k} c", "site": "x"}, k % 2 == 0)
    model.learn_many([{"m": "d e", "site": "y"}], [1])
    names = model._engine.vocabulary
    assert not names.keys and len(names) == 4 * 2000 + 6
    assert model.weights.keys() >= {"m=c", "site=x", "site=y", "m=d e"}


def test_columns_and_lines(tmp_path: Path) -> None:
    """CSV and JSON lines with quotes, escapes and letters beyond ASCII, beside their words."""
    texts = ["a b", 'say ""a"", b', "\xe9 A", "", "b\na", "a=b m=a"]
    rows = "".join(f'{k % 2},{k},"{text}"\n' for k, text in enumerate(texts))
    (tmp_path / "x.csv").write_text("y,n,m\n" + rows)
    plain = [{"m": text.replace('""', '"'), "n": k} for k, text in enumerate(texts)]
    lines = [json.dumps({"x": x, "y": k % 2}) for k, x in enumerate(plain)]
    (tmp_path / "x.jsonl").write_text("".join(f"{line}\n" for line in lines))
    twin = ElasticNetClassifier()
    for k, x in enumerate(plain):
        twin.learn_one(NGrams(["m"], 2).of(x), k % 2)
    for name, how in (("x.csv", {"target": "y"}), ("x.jsonl", {})):
        model = ElasticNetClassifier(text=["m"], ngrams=2)
        streaml1.progressive(model, str(tmp_path / name), **how)
        assert model.weights == twin.weights


FRAMES = [
    lambda texts: pd.DataFrame({"m": texts}, dtype=object),
    lambda texts: pd.DataFrame({"m": texts}).convert_dtypes(),
    lambda texts: pl.DataFrame({"m": texts}),
    lambda texts: pa.table({"m": texts}),
]


@pytest.mark.parametrize("bits", [None, 12])
@pytest.mark.parametrize("frame", FRAMES)
def test_a_missing_text_of_a_frame_is_absent(frame: Any, bits: int | None) -> None:
    one, other = (ElasticNetClassifier(text=["m"], hash_bits=bits) for _ in range(2))
    one.learn_many(frame(["a b", None, "b"]), [True, False, True])
    other.learn_many([{"m": "a b"}, {"m": None}, {"m": "b"}], [True, False, True])
    assert one.weights == other.weights and one.n_iterations == 3


@pytest.mark.parametrize("values", [[1.0, math.nan], ["a", math.nan]])
def test_nan_is_no_text(values: list[Any]) -> None:
    frame = pd.DataFrame({"m": pd.Series(values, dtype=object if "a" in values else float)})
    model = ElasticNetClassifier(text=["m"])
    with pytest.raises(BadExample, match="'m' is NaN") as found:
        model.learn_many(frame, [True, False])
    assert found.value.row == 1 and not model.weights


def test_a_category_may_be_called_like_a_word() -> None:
    x = {"m": "spam", "m=spam": "q", "m=spam=q": 2.0}
    for how in ("one", "many"):
        model = ElasticNetClassifier(text=["m"], lr=1.0)
        model.learn_one(x, True) if how == "one" else model.learn_many([x], [True])
        assert model.weights == {"m=spam": 0.5, "m=spam=q": 1.5}


@pytest.mark.parametrize(("bad", "said"), [({"a": math.nan}, "'a' is NaN"), (5, "not a int")])
def test_of_several_rows_the_first_that_is_refused_is_told(bad: Any, said: str) -> None:
    xs = [{"a": 1.0}, bad, {"m": "spam", "m=spam": math.nan}]
    with pytest.raises(BadExample, match=said) as found:
        ElasticNetClassifier(text=["m"]).learn_many(xs, [True] * 3)
    assert found.value.row == 1
