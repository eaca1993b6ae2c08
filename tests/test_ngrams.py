"""Word n-grams of raw text, checked against a simple count in Python.


The compiled kernels are compared with `NGrams.expand`, which builds strings.
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
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import BadExample, ElasticNetClassifier
from streaml1.cli import cli
from streaml1.core.hashing import name_hash
from streaml1.core.jit import COMPILED
from streaml1.core.rows import numeric_features
from streaml1.features.ngrams import NGrams, ngram_batch, tokenize
from streaml1.sources.readers.jsonl import JsonParser

compiled = pytest.mark.skipif(not COMPILED, reason="kernels read raw memory")


def with_ngram_counts(x: dict[str, Any], names: list[str], ngrams: int) -> dict[str, Any]:
    """Return the example with its n-grams counted in plain Python."""
    features = {name: v for name, v in x.items() if not (name in names and isinstance(v, str))}
    for name in names:
        if not isinstance(x.get(name), str):
            continue
        cleaned = "".join(c if c.isalnum() or c == "_" else " " for c in x[name].lower())
        tokens = cleaned.split()
        for n in range(1, ngrams + 1):
            for k in range(len(tokens) - n + 1):
                feature = f"{name}={' '.join(tokens[k : k + n])}"
                features[feature] = (features.get(feature) or 0.0) + 1.0
    return features


@given(
    text=st.text(st.sampled_from("ab_ 1.,'\xe9\xdf\u0130\u4e2d\u0663\n-"), max_size=30),
    ngrams=st.integers(1, 4),
)
def test_ngrams_are_counted(text: str, ngrams: int) -> None:
    x = {"age": 3, "message": text, "title": 5, "none": None}
    names = ["message", "title", "none", "absent"]
    counts = NGrams(names, ngrams).expand(x)
    assert list(counts.items()) == list(with_ngram_counts(x, names, ngrams).items())


def test_tokenize() -> None:
    assert tokenize("Don't PAY 9.99, \xc9T\xc9_1!") == ["don", "t", "pay", "9", "99", "\xe9t\xe9_1"]


def random_rows(n: int) -> tuple[list[dict[str, Any]], list[bool]]:
    chance = random.Random(2)
    ngram_spec = ["Cheap", "pills", "now", "see", "you", "at", "Noon"]
    rows = []
    for _ in range(n):
        text = " ".join(chance.choices(ngram_spec, k=chance.randrange(9)))
        rows.append({"site": chance.choice(["x", "y"]), "message": text, "age": 2.5})
    return rows, [chance.random() < 0.5 for _ in range(n)]


NGRAM_PARAMS: dict[str, Any] = {"text": ["message"], "ngrams": 3}
CROSS = [("site", "message")]


@pytest.mark.parametrize("bits", [None, 12])
def test_all_input_paths_agree(tmp_path: Path, bits: int | None) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows, y = random_rows(80)
    params: dict[str, Any] = {"lr": 0.1, "l1": 1e-3, "cross": CROSS, "hash_bits": bits}
    twin = ElasticNetClassifier(**params)
    expected = []
    for x, label in zip(rows, y, strict=True):
        plain = with_ngram_counts(x, ["message"], 3)
        expected.append(twin.predict_proba_one(plain)[True])
        twin.learn_one(plain, label)
    for X in (rows, pandas.DataFrame(rows), polars.DataFrame(rows)):
        model = ElasticNetClassifier(**NGRAM_PARAMS, **params)
        assert model.progressive_many(X, y).tolist() == expected
        assert model.weights == twin.weights
        proba = np.asarray(model.predict_proba_many(X))[:, 1].tolist()
        assert proba == [model.predict_proba_one(x)[True] for x in rows]
    single = ElasticNetClassifier(**NGRAM_PARAMS, **params)
    for x, label, p in zip(rows, y, expected, strict=True):
        assert single.predict_proba_one(x)[True] == p
        single.learn_one(x, label)
    assert single.weights == twin.weights
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(json.dumps({"x": x, "y": label}) + "\n"
                             for x, label in zip(rows, y, strict=True)))  # fmt: skip
    model = ElasticNetClassifier(**NGRAM_PARAMS, **params)
    streaml1.progressive(model, str(lines))
    assert model.weights == twin.weights
    single.save(tmp_path / "model")
    for restored in (
        streaml1.load(tmp_path / "model"),
        pickle.loads(pickle.dumps(single)),
        single.freeze(),
    ):
        assert [restored.predict_one(x) for x in rows] == single.predict_many(rows).tolist()


def test_ngram_and_explicit_feature_are_summed() -> None:
    model = ElasticNetClassifier(lr=0.1, text=["m"], l1=0.0)
    twin = ElasticNetClassifier(lr=0.1, l1=0.0)
    model.learn_one({"m": "a a b", "m=a": 0.5}, True)
    twin.learn_one({"m=a": 2.5, "m=b": 1.0}, True)
    assert model.weights == twin.weights
    with pytest.raises(BadExample, match="too large") as error:
        model.learn_many([{"m": "a"}, {"m": "a", "m=a": float("inf")}], [True, False])
    assert error.value.row == 1


def test_frames_with_missing_text() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"m": ["a b", None, ""], "n": [1.0, 2.0, 0.0]}
    twin = ElasticNetClassifier(lr=0.1, text=["m"])
    twin.learn_many([{"m": "a b", "n": 1.0}, {"n": 2.0}, {}], [1, 0, 1])
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        model = ElasticNetClassifier(lr=0.1, text=["m"])
        model.learn_many(frame, [1, 0, 1])
        assert model.weights == twin.weights
    text_only = ElasticNetClassifier(lr=0.1, text=["m"])
    text_only.learn_many(pandas.DataFrame({"m": ["a"]}), [1])
    assert set(text_only.weights) == {"m=a"}


@pytest.mark.parametrize(
    "params", [{"text": "m"}, {"text": [1]}, {"text": 5}, {"text": ["m", ""]}, {"ngrams": 0}]
)
def test_invalid_parameters_are_rejected(params: Any) -> None:
    with pytest.raises(ValueError, match="text|ngrams"):
        ElasticNetClassifier(**params)


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


def kernel_counts(ngram_spec: NGrams, X: Any) -> list[list[tuple[str, float]]]:
    """Return the names and values of each row as counted by the kernels."""
    batch = ngram_batch(ngram_spec, X)
    texts = batch.texts
    assert texts is not None
    hashes, values, indptr = texts.csr()
    names = texts.feature_names(np.arange(len(hashes)))
    checked = slice(0, 1000)  # hashing in Python is slow
    assert hashes[checked].tolist() == [name_hash(name) for name in names[checked]]
    pairs = list(zip(names, values.tolist(), strict=True))
    return [pairs[lo:hi] for lo, hi in zip(indptr[:-1], indptr[1:], strict=True)]


def python_counts(ngram_spec: NGrams, X: list[dict[str, Any]]) -> list[list[tuple[Any, float]]]:
    return [list(numeric_features(ngram_spec.expand(x)).items()) for x in X]


def test_ngrams_without_text_have_no_effect(tmp_path: Path) -> None:
    message = r'ngrams=2 has no effect: it requires text=\["NAME", ...\], the features that hold'
    with pytest.warns(UserWarning, match=message):
        model = ElasticNetClassifier(ngrams=2)
    model.save(tmp_path / "m")
    assert streaml1.load(tmp_path / "m").ngrams == 2
    result = CliRunner().invoke(cli, ["sweep", "stdlib", "--ngrams", "1,2"])
    assert result.exit_code == 2 and "--ngrams requires --text" in result.stderr


@compiled
@given(X=st.lists(some_row, max_size=5), ngrams=st.sampled_from([1, 2, 3, 40]))
def test_kernel_counts_equal_python_counts(X: list[dict[str, Any]], ngrams: int) -> None:
    ngram_spec = NGrams(["m", "title"], ngrams)
    assert kernel_counts(ngram_spec, X) == python_counts(ngram_spec, X)
    lines = [json.dumps({"x": x, "y": 1}, ensure_ascii=k % 2 == 0) for k, x in enumerate(X)]
    parsed = JsonParser().read("".join(f"{line}\n" for line in lines).encode())
    assert not parsed.faults
    if "site=x" not in {name for x in X for name in x}:  # which would occur twice in a row of JSON
        counts = [kernel_counts(ngram_spec, parsed.x[k : k + 1])[0] for k in range(len(X))]
        assert counts == python_counts(ngram_spec, X)
        assert not X or kernel_counts(ngram_spec, parsed.x) == python_counts(ngram_spec, X)


long_text = st.lists(
    st.text(st.sampled_from("abzAZ_09 @[`{/:-.,~"), min_size=1, max_size=90)
    | st.text(st.sampled_from("ab \xe9\u0130\u4e2d"), max_size=9),
    max_size=6,
).map("".join)


@compiled
@given(
    texts=st.lists(long_text, min_size=1, max_size=4), ngrams=st.integers(1, 3),
    is_repeated=st.booleans(),
)  # fmt: skip
def test_long_texts(texts: list[str], ngrams: int, is_repeated: bool) -> None:
    """Kernels clean 64 bytes at a time up to the first non-ASCII byte."""
    ngram_spec = NGrams(["m"], ngrams)
    X = [{"m": text * (1 + is_repeated)} for text in texts]
    assert kernel_counts(ngram_spec, X) == python_counts(ngram_spec, X)
    model = ElasticNetClassifier(lr=0.1, text=["m"], ngrams=ngrams)
    twin = ElasticNetClassifier(lr=0.1)
    for x in X:
        plain = ngram_spec.expand(x)
        assert model.predict_proba_one(x) == twin.predict_proba_one(plain)
        model.learn_one(x, True)
        twin.learn_one(plain, True)
    assert model.weights == twin.weights


@compiled
def test_all_characters() -> None:
    letters = [chr(c) for c in range(0x20400) if not 0xD800 <= c < 0xE000]
    texts = [f"A{c} {c}b" for c in letters]
    ngram_spec = NGrams(["m"], 1)
    assert kernel_counts(ngram_spec, [{"m": text} for text in texts]) == python_counts(
        ngram_spec, [{"m": t} for t in texts]
    )


@compiled
@pytest.mark.parametrize("size", [2, 7, 8, 9, 17])
def test_feature_names_of_various_lengths(size: int) -> None:
    ngram_spec = NGrams(["m" * size], 3)
    chance = random.Random(size)
    texts = [" ".join("w" * chance.randrange(1, 20) for _ in range(9)) for _ in range(40)]
    X = [{"m" * size: text} for text in texts]
    assert kernel_counts(ngram_spec, X) == python_counts(ngram_spec, X)


UNUSUAL_TEXTS = [
    "\xc9t\xe9 now",
    "\u03a3\u0391\u03a3",
    "I\u0130",
    "\U0001d400 x",
    "",
    "...",
    "a\ud800b",
]


@pytest.mark.parametrize("bits", [None, 10])
def test_single_dicts(bits: int | None) -> None:
    """Compare with a model that receives the n-grams as named features."""
    chance = random.Random(4)
    model = ElasticNetClassifier(lr=0.1, text=["m", "t"], ngrams=2, hash_bits=bits, l1=1e-3)
    twin = ElasticNetClassifier(lr=0.1, hash_bits=bits, l1=1e-3)
    ngram_spec = NGrams(["m", "t"], 2)
    for k in range(300):
        x: dict[Any, Any] = {"site": chance.choice("xyz"), "age": chance.choice([None, 0, 2.5])}
        x["m"] = " ".join(f"w{int(chance.paretovariate(0.7)) % 5000}" for _ in range(k % 40))
        if k % 7 == 0:
            x["m" if k % 2 else "t"] = chance.choice([*UNUSUAL_TEXTS, 2.0, None])
        if k % 11 == 0:
            x |= chance.choice([{"m=w1": 0.5}, {"m=w1": None}, {"site=x": 1.0}, {7: 1.5}])
        if k == 150:
            x["t"] = " ".join(f"Long{j}" for j in range(3000))
        plain, y = ngram_spec.expand(x), chance.random() < 0.5
        assert model.predict_proba_one(x) == twin.predict_proba_one(plain)
        model.learn_one(x, y)
        twin.learn_one(plain, y)
        if k % 40 == 0:
            assert model.weights == twin.weights
            assert model.predict_many([x, {}]).tolist() == twin.predict_many([plain, {}]).tolist()
        if k % 90 == 0:
            batch = [{"m": f"w{j} n{k}"} for j in range(9)]
            model.learn_many(batch, [True] * 9)
            twin.learn_many([ngram_spec.expand(row) for row in batch], [True] * 9)
            model._state.check()
    assert model.weights == twin.weights
    frozen = model.freeze()
    for x in ({"m": "w1 w2 unknown w3"}, {"t": "Long1 Long2", "m": "\u03a3"}, {"m": 5}, {}):
        plain = ngram_spec.expand(x)
        assert frozen.predict_proba_one(x) == twin.predict_proba_one(plain)


@compiled
def test_ngrams_are_not_decoded_to_strings() -> None:
    model = ElasticNetClassifier(lr=0.1, text=["m"], ngrams=2)
    for k in range(2000):
        model.learn_one({"m": f"a{k} b{k} c", "site": "x"}, k % 2 == 0)
    model.learn_many([{"m": "d e", "site": "y"}], [1])
    vocabulary = model._state.vocabulary
    assert not vocabulary.keys and len(vocabulary) == 4 * 2000 + 6
    assert model.weights.keys() >= {"m=c", "site=x", "site=y", "m=d e"}


def test_csv_and_json_files(tmp_path: Path) -> None:
    """Files contain quotes, escapes and non-ASCII letters."""
    texts = ["a b", 'say ""a"", b', "\xe9 A", "", "b\na", "a=b m=a"]
    rows = "".join(f'{k % 2},{k},"{text}"\n' for k, text in enumerate(texts))
    (tmp_path / "x.csv").write_text("y,n,m\n" + rows)
    plain = [{"m": text.replace('""', '"'), "n": k} for k, text in enumerate(texts)]
    lines = [json.dumps({"x": x, "y": k % 2}) for k, x in enumerate(plain)]
    (tmp_path / "x.jsonl").write_text("".join(f"{line}\n" for line in lines))
    twin = ElasticNetClassifier(lr=0.1)
    for k, x in enumerate(plain):
        twin.learn_one(NGrams(["m"], 2).expand(x), k % 2)
    for name, options in (("x.csv", {"target": "y"}), ("x.jsonl", {})):
        model = ElasticNetClassifier(lr=0.1, text=["m"], ngrams=2)
        streaml1.progressive(model, str(tmp_path / name), **options)
        assert model.weights == twin.weights


FRAMES = [
    lambda texts: pd.DataFrame({"m": texts}, dtype=object),
    lambda texts: pd.DataFrame({"m": texts}).convert_dtypes(),
    lambda texts: pl.DataFrame({"m": texts}),
    lambda texts: pa.table({"m": texts}),
]


@pytest.mark.parametrize("bits", [None, 12])
@pytest.mark.parametrize("frame", FRAMES)
def test_missing_text_in_a_frame_is_absent(frame: Any, bits: int | None) -> None:
    from_frame, from_dicts = (
        ElasticNetClassifier(lr=0.1, text=["m"], hash_bits=bits) for _ in range(2)
    )
    from_frame.learn_many(frame(["a b", None, "b"]), [True, False, True])
    from_dicts.learn_many([{"m": "a b"}, {"m": None}, {"m": "b"}], [True, False, True])
    assert from_frame.weights == from_dicts.weights and from_frame.n_iterations == 3


@pytest.mark.parametrize("values", [[1.0, math.nan], ["a", math.nan]])
def test_nan_text_is_absent(values: list[Any]) -> None:
    frame = pd.DataFrame({"m": pd.Series(values, dtype=object if "a" in values else float)})
    from_frame, from_dicts = (ElasticNetClassifier(lr=0.1, text=["m"]) for _ in range(2))
    from_frame.learn_many(frame, [True, False])
    from_dicts.learn_many([{"m": values[0]}, {}], [True, False])
    assert from_frame.weights == from_dicts.weights
    for missing in (math.nan, pd.NA, None):
        assert from_frame.predict_proba_one({"m": missing}) == from_dicts.predict_proba_one({})


def test_category_named_like_an_ngram() -> None:
    x = {"m": "spam", "m=spam": "q", "m=spam=q": 2.0}
    for method in ("one", "many"):
        model = ElasticNetClassifier(text=["m"], lr=1.0)
        model.learn_one(x, True) if method == "one" else model.learn_many([x], [True])
        assert model.weights == {"m=spam": 0.5, "m=spam=q": 1.5}


@pytest.mark.parametrize(
    ("bad", "message"), [({"a": math.inf}, "'a' is too large"), (5, "not an int")]
)
def test_first_rejected_row_is_reported(bad: Any, message: str) -> None:
    xs = [{"a": 1.0}, bad, {"m": "spam", "m=spam": math.inf}]
    with pytest.raises(BadExample, match=message) as error:
        ElasticNetClassifier(lr=0.1, text=["m"]).learn_many(xs, [True] * 3)
    assert error.value.row == 1


def test_a_list_of_texts_has_a_remedy() -> None:
    model = streaml1.ElasticNetClassifier(text=["text"])
    for call in (lambda: model.learn_many(["a b"], [1]), lambda: model.predict_many(["a b"])):
        with pytest.raises(BadExample, match=r'not a str; give {"text": ...} to a model with text'):
            call()
