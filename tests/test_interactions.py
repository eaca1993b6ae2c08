"""Feature interactions: every input path against dicts that list each product by name."""

from __future__ import annotations

import copy
import io
import json
import pickle
import random
from collections import UserDict
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import BadExample, ElasticNetClassifier
from streaml1.cli import cli
from streaml1.core.hashing import name_hash, name_hashes
from streaml1.features import dict_reader
from streaml1.features.batch import batch_of
from streaml1.features.interactions import selection, spec
from streaml1.features.vocabulary import MISSING, InternedVocabulary
from streaml1.features.vocabulary.crossed_name import cross_hash
from streaml1.features.vocabulary.interaction_factors import encode_names, factors_of
from streaml1.features.vocabulary.restore import vocabulary_from_state_dict
from streaml1.models.state import model_state, predictor
from streaml1.sources.readers.formats import line_parser
from streaml1.sources.readers.vw import VwParser, parse_vw
from streaml1.text.parsed_rows import NamedRows

Row = dict[str, Any]
Cross = list[tuple[str, ...]]

CROSS: Cross = [("site", "ad"), ("ad", "word", "site"), ("word", "word")]


# Reference implementation: compute every crossed feature explicitly by name.


def belongs(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith((f"{prefix}=", f"{prefix}^"))


def crossed_name(factors: tuple[str, ...], prefixes: list[str]) -> str:
    def first_prefix(factor: str) -> int:
        return next(k for k, prefix in enumerate(prefixes) if belongs(factor, prefix))

    def prefix_of(factor: str) -> str:
        return factor.replace("^", "=").split("=")[0]

    by_prefix = sorted(factors, key=first_prefix)
    prefixes_in_order = [prefix_of(factor) for factor in by_prefix]
    return " x ".join(
        sorted(factors, key=lambda factor: (prefixes_in_order.index(prefix_of(factor)), factor))
    )


def with_crosses(x: Row, cross: Cross) -> dict[str, float]:
    """Return all features of a dict, including its crossed features, by name."""
    plain: dict[str, float] = {}
    for name, value in x.items():
        if value is not None:
            name = f"{name}={value}" if isinstance(value, str) else name
            plain[name] = plain.get(name, 0.0) + (1.0 if isinstance(value, str) else float(value))
    plain = {name: v for name, v in plain.items() if v != 0.0}
    prefixes = list(
        dict.fromkeys(prefix for prefixes_of_cross in cross for prefix in prefixes_of_cross)
    )
    features = dict(plain)
    for prefixes_of_cross in cross:
        seen: set[frozenset[str]] = set()
        for factors in product(
            *([n for n in plain if belongs(n, prefix)] for prefix in prefixes_of_cross)
        ):
            if len(set(factors)) < len(factors) or frozenset(factors) in seen:
                continue
            seen.add(frozenset(factors))
            v = 1.0
            for factor in factors:
                v *= plain[factor]
            name = crossed_name(factors, prefixes)
            features[name] = features.get(name, 0.0) + v
    return {name: v for name, v in features.items() if v != 0.0}


# Input paths. Each takes a model and rows, and returns predictions made just before each row.


def by_dicts(model: Any, rows: list[Row], y: list[bool]) -> list[float]:
    predictions = []
    for x, label in zip(rows, y, strict=True):
        predictions.append(model.predict_proba_one(x)[True])
        model.learn_one(x, label)
    return predictions


def by_fallback(model: Any, rows: list[Row], y: list[bool]) -> list[float]:
    return by_dicts(model, [UserDict(x) for x in rows], y)  # type: ignore[misc]


def by_batches(model: Any, rows: list[Row], y: list[bool]) -> list[float]:
    predictions: list[float] = []
    for lo in range(0, len(rows), 7):
        first = model.predict_proba_many(rows[lo : lo + 1])[0, 1]
        predictions += model.progressive_many(rows[lo : lo + 7], y[lo : lo + 7]).tolist()
        assert predictions[lo] == first
    return predictions


def by_lines(model: Any, rows: list[Row], y: list[bool]) -> list[float]:
    predictions: list[float] = []
    x = parsed_lines(rows)
    for lo in range(0, len(rows), 7):
        predictions += model.progressive_many(x[lo : lo + 7], y[lo : lo + 7]).tolist()
    return predictions


def parsed_lines(rows: list[Row]) -> NamedRows:
    """Return the rows parsed from JSON lines, with byte-string names."""
    text = "".join(json.dumps({"x": x, "y": True}) + "\n" for x in rows)
    read = line_parser("jsonl").read(text.encode()).x
    assert isinstance(read, NamedRows) and len(read) == len(rows)
    return read


def by_alternating_paths(model: Any, rows: list[Row], y: list[bool]) -> list[float]:
    paths = [by_dicts, by_fallback, by_batches, by_lines]
    return [
        p
        for k, lo in enumerate(range(0, len(rows), 5))
        for p in paths[k % 4](model, rows[lo : lo + 5], y[lo : lo + 5])
    ]


PATHS: dict[str, Callable[[Any, list[Row], list[bool]], list[float]]] = {
    "dicts": by_dicts,
    "fallback": by_fallback,
    "batches": by_batches,
    "lines": by_lines,
    "alternating": by_alternating_paths,
}


def random_rows(n: int, seed: int = 3) -> tuple[list[Row], list[bool]]:
    """Return rows with categories, numbers, words and missing values, whose products are exact."""
    chance = random.Random(seed)
    rows, y = [], []
    for _ in range(n):
        x: Row = {}
        if chance.random() < 0.9:
            x["site"] = f"s{int(chance.paretovariate(0.6)) % 40}"
        for word in sorted(chance.sample(range(60), chance.randrange(6))):
            x[f"word^{word}"] = chance.choice([1, 0.5, -2.0, 0.0, True])
        x["age"] = chance.choice([None, 3, 0.25])
        if chance.random() < 0.9:
            x["ad"] = chance.choice(["a", "b", "c", 2.0])
        if chance.random() < 0.1:
            x["site=s1"] = 0.5  # the same category as an explicit feature
        rows.append(x)
        y.append(chance.random() < 0.4)
    return rows, y


def make_model(cross: Cross | None = CROSS, **params: Any) -> Any:
    return ElasticNetClassifier(**{"l1": 2e-3, "l2": 1e-3, "lr": 0.5, "cross": cross, **params})


@pytest.mark.parametrize("path", PATHS)
def test_crosses_equal_explicit_products(path: str) -> None:
    rows, y = random_rows(300)
    model, twin = make_model(), make_model(None)
    predictions = PATHS[path](model, rows, y)
    expected = by_dicts(twin, [with_crosses(x, CROSS) for x in rows], y)
    assert predictions == expected
    assert model.weights == twin.weights
    assert model.intercept == twin.intercept
    assert model.n_features_seen == pytest.approx(twin.n_features_seen, rel=0.1)
    assert any(name.count(" x ") == 2 for name in model.weights)
    assert dict(model.top_weights(10**6)).keys() == twin.weights.keys()
    model._state.check()


@pytest.mark.parametrize("path", [name for name in PATHS if name != "dicts"])
@pytest.mark.parametrize("bits", [6, 20])
def test_hashed_crosses_are_bit_identical_on_all_paths(path: str, bits: int) -> None:
    rows, y = random_rows(200)
    model, reference_model = make_model(hash_bits=bits), make_model(hash_bits=bits)
    assert PATHS[path](model, rows, y) == by_dicts(reference_model, rows, y)
    assert model.weights == reference_model.weights
    if bits == 20:  # no two names share a slot here
        twin = make_model(None)
        by_dicts(twin, [with_crosses(x, CROSS) for x in rows], y)
        assert sorted(model.weights.values()) == sorted(twin.weights.values())
        assert {model.slot(name): w for name, w in twin.weights.items()} == model.weights


NAMES = st.sampled_from(
    ["a", "a^", "a=", "a^x", "a^x^y", "a^x=1", "ab", "b", "b^\U0001f600", "b^x x", "b=x x y",
     "\xe9", "\xe9^1", "\xe9=", "c c", "c c^1", "", "=", "^", "a^" + "long" * 600]
)  # fmt: skip
PREFIXES = st.sampled_from(["a", "a^x", "b", "\xe9", "c c", "none", "a^x^y"])
VALUES = st.sampled_from([1.0, 2, 0.5, -1.5, 0.0, True, None, "v", "=", "", "x"])
CROSSES = st.lists(
    st.lists(PREFIXES, min_size=2, max_size=3).map(tuple),
    min_size=1, max_size=3, unique_by=lambda one: tuple(sorted(one)),
)  # fmt: skip


@given(
    rows=st.lists(st.dictionaries(NAMES, VALUES, max_size=9), min_size=1, max_size=6),
    cross=CROSSES,
    path=st.sampled_from([by_dicts, by_fallback, by_batches]),
    bits=st.sampled_from([None, 24]),
)
def test_unusual_names_cross_correctly(
    rows: list[Row], cross: Cross, path: Any, bits: int | None
) -> None:
    y = [k % 2 == 0 for k in range(len(rows))]
    model, twin = make_model(cross, l1=0.0, hash_bits=bits), make_model(None, l1=0.0)
    expected = by_dicts(twin, [with_crosses(x, cross) for x in rows], y)
    # The two sides sum repeated products in different orders.
    assert path(model, rows, y) == pytest.approx(expected, rel=1e-12)
    if bits is None:
        assert model.weights == pytest.approx(twin.weights, rel=1e-12)
        model._state.check()


def test_long_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor, "LENGTH", 8)
    rows = [{**{f"w^{k}": 0.5 for k in range(n)}, "site": "s"} for n in (3, 150, 0, 151, 40)]
    y = [True, False, True, True, False]
    cross: Cross = [("w", "w"), ("site", "w")]
    twin = make_model(None)
    by_dicts(twin, [with_crosses(x, cross) for x in rows], y)
    for path in PATHS.values():
        for bits in (None, 22):
            model = make_model(cross, hash_bits=bits)
            path(model, rows, y)
            if bits is None:
                assert model.weights == twin.weights


@pytest.mark.parametrize("path", PATHS)
def test_pairs_in_simd_blocks(path: str) -> None:
    """Cross few features with many, with names of all lengths and some zero values."""
    chance = random.Random(5)
    cross: Cross = [("site", "text"), ("text", "ad")]
    rows: list[Row] = []
    for n in (7, 8, 9, 16, 17, 40, 255, 256, 300):
        numbers = chance.sample(range(400), n)
        x: Row = {f"site^{k}": chance.choice([1.0, 2.0, 0.5]) for k in range(n % 3 + 1)}
        x |= {f"text^{'w' * (k % 27)}{k}": chance.choice([1, 0.5, -2.0, 0.0]) for k in numbers}
        x["ad"] = chance.choice(["a", "a longer one"])
        rows.append(x)
    y = [chance.random() < 0.5 for _ in rows]
    model, twin = make_model(cross), make_model(None)
    assert PATHS[path](model, rows, y) == by_dicts(twin, [with_crosses(x, cross) for x in rows], y)
    assert model.weights == twin.weights
    model._state.check()
    for pos in (0, 7, 8, 19):  # reject a product that overflows at any position
        bad: Row = {"site^1": 1e30} | {f"text^{k}": 1e30 if k == pos else 1.0 for k in range(20)}
        with pytest.raises(BadExample, match=f"'site.1 x text.{pos}' is too large"):
            PATHS[path](model, [bad], [True])
    assert model.weights == twin.weights


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("bits", [None, 20])
@pytest.mark.parametrize("prefixes", [("a", "ad"), ("a", "a")])
def test_category_written_in_two_ways_is_one_feature(
    path: str, bits: int | None, prefixes: tuple[str, str]
) -> None:
    """The feature must not be crossed with itself."""
    rows: list[Row] = [
        {"a": "b=c", "a=b": "c", "ad": "x"},
        {"a": "b=c", "a=b=c": 1.0, "ad": "x", "a^1": 2.0},
    ]
    model, twin = make_model([prefixes], hash_bits=bits), make_model(None, hash_bits=None)
    assert PATHS[path](model, rows, [True, False]) == by_dicts(
        twin, [with_crosses(x, [prefixes]) for x in rows], [True, False]
    )
    assert sorted(model.weights.values()) == sorted(twin.weights.values())
    assert bits or model.weights == twin.weights


def test_large_batches_are_crossed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y = random_rows(150)
    twin = make_model()
    expected = twin.progressive_many(rows, y).tolist()
    for constant in ("MAX_CHUNK_IN_CACHE", "MAX_CHUNK"):
        monkeypatch.setattr(selection, constant, 25)
    model = make_model()
    assert model.progressive_many(rows, y).tolist() == expected
    assert model.weights == twin.weights
    assert model.predict_proba_many(rows).tolist() == twin.predict_proba_many(rows).tolist()
    before, n_names = model.weights, len(model._state.vocabulary)
    bad = [*rows[:140], {"site": "new", "ad": "a"}, {"site": 1e30, "ad": 1e30, "word^1": 1.0}]
    for X in (bad, parsed_lines(bad)):
        with pytest.raises(BadExample, match="too large") as error:
            model.learn_many(X, [True] * len(bad))
        assert error.value.row == 141
        assert (model.weights, len(model._state.vocabulary)) == (before, n_names)
        assert model.n_iterations == len(rows)
        model._state.check()
    lines = VwParser().read("".join(f"{line}\n" for line in LINES).encode())
    chunked, unchunked = make_model(), make_model()
    chunked.learn_many(lines.x, lines.y > 0)
    monkeypatch.undo()
    unchunked.learn_many(lines.x, lines.y > 0)
    assert chunked.weights == unchunked.weights


def test_too_many_crosses_are_rejected_on_all_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {f"w^{k}": 1.0 for k in range(220)}
    for path in PATHS.values():
        model = make_model([("w", "w", "w")])
        with pytest.raises(BadExample, match="crossed features, more than 4,194,304"):
            path(model, [row], [True])
        assert model.n_iterations == 0


def test_too_many_factors_are_rejected() -> None:
    """Factor positions are packed into 20 bits, so a larger row would mix up names."""
    x = {"b": 1.0} | {f"a^{k}": 1.0 for k in range(2**20 - 1)}
    model = make_model([("a", "b")])
    with pytest.raises(BadExample, match="1,048,576 features to cross, more than 1,048,575"):
        model.learn_one(x, True)
    with pytest.raises(BadExample) as error:
        model.learn_many([{"b": 1.0}, x], [True] * 2)
    assert error.value.row == 1 and "more than 1,048,575" in error.value.reason
    assert (model.n_iterations, model.n_nonzero) == (0, 0)
    del x["a^0"]
    model.learn_one(x, True)
    assert model.n_nonzero == 2**21 - 3


@pytest.mark.skipif(not dict_reader.AVAILABLE, reason="dict kernels are not available")
def test_plain_dicts_use_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y = random_rows(60)
    rows = [{k: v for k, v in x.items() if k != "site=s1"} for x in rows]
    for bits in (None, 18):
        model = make_model(hash_bits=bits)
        by_dicts(model, rows, y)
        with monkeypatch.context() as patch:
            patch.delattr(model_state, "numeric_features")
            by_dicts(model, rows, y)


def test_factor_cache_eviction_is_bit_identical() -> None:
    """Evicted cache entries are recomputed with the same result."""
    chance = random.Random(8)
    rows = [
        {
            "site": f"s{chance.randrange(1500)}",
            **{f"word^{chance.randrange(1500)}": 0.5 for _ in range(3)},
        }
        for _ in range(1500)
    ]
    rows = [row for row in rows for _ in range(2)]
    y = [chance.random() < 0.4 for _ in rows]
    model, twin = (make_model([("site", "word"), ("word", "word")]) for _ in range(2))
    assert by_dicts(model, rows, y) == by_batches(twin, rows, y)
    assert model.weights == twin.weights


def test_frames() -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    chance = random.Random(1)
    n = 60
    columns: dict[str, list[Any]] = {
        "site": [chance.choice(["x", "y", None]) for _ in range(n)],
        "age": [chance.choice([1.0, 0.0, 2.5]) for _ in range(n)],
        "ad": [chance.choice(["p", "q"]) for _ in range(n)],
        "word^w": [chance.choice([0.5, 2.0]) for _ in range(n)],
        "word^v": [1.0] * n,
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    y = [chance.random() < 0.5 for _ in range(n)]
    twin = make_model()
    expected = by_dicts(twin, rows, y)
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        model = make_model()
        assert model.progressive_many(frame, y).tolist() == expected
        assert model.weights == twin.weights
        singles = [model.predict_proba_one(x)[True] for x in rows]
        assert np.asarray(model.predict_proba_many(frame))[:, 1].tolist() == singles


LINES = [
    "1 |site news |word w:0.5 v w |age 3",
    "-1 |site mail |ad:2 a b:0.5 |word w",
    "1 2 |site news |ad a |word v:-1 u",
    "-1 'tag|ad a |site news mail |word",
    "1 |ad a:0 b |word w:0.5 w:-0.5 v |site s\xe9",
    "-1 | site=mail ad=b |word w",
] * 20


def test_vw_text(tmp_path: Path) -> None:
    cross = [*CROSS, ("site", "site")]
    parsed = [parse_vw(line) for line in LINES]
    rows, y = (
        [example[0] for example in parsed if example],
        [example[1] == 1.0 for example in parsed if example],
    )
    w = [example[2] for example in parsed if example]
    twin = make_model(None)
    for x, label, weight in zip(rows, y, w, strict=True):
        twin.learn_one(with_crosses(x, cross), label, weight)
    text = "".join(f"{line}\n" for line in LINES)
    model = make_model(cross)
    x = VwParser().read(text.encode()).x
    for lo in range(0, len(rows), 50):
        model.learn_many(x[lo : lo + 50], y[lo : lo + 50], w[lo : lo + 50])
    assert model.weights == twin.weights
    frozen = model.freeze()
    assert frozen.predict_many(x).tolist() == [model.predict_one(row) for row in rows]
    file = tmp_path / "rows.vw"
    file.write_text(text)
    from_file = make_model(cross)
    streaml1.progressive(from_file, str(file))
    assert from_file.weights == twin.weights
    hashed, hashed_dicts = make_model(cross, hash_bits=16), make_model(cross, hash_bits=16)
    hashed.learn_many(x, y, w)
    for row, label, weight in zip(rows, y, w, strict=True):
        hashed_dicts.learn_one(row, label, weight)
    assert hashed.weights == hashed_dicts.weights


def test_json_and_csv(tmp_path: Path) -> None:
    rows, y = random_rows(80)
    jsonl_file, csv_file = tmp_path / "rows.jsonl", tmp_path / "rows.csv"
    jsonl_file.write_text("".join(json.dumps({"x": x, "y": label}) + "\n"
                             for x, label in zip(rows, y, strict=True)))  # fmt: skip
    twin = make_model()
    by_dicts(twin, rows, y)
    model = make_model()
    streaml1.progressive(model, str(jsonl_file))
    assert model.weights == twin.weights
    cells = [(x.get("site") or "", x.get("age") or "", x.get("ad") or "") for x in rows]
    csv_file.write_text("site,age,ad,y\n" + "".join(
        f"{site},{age},{ad},{int(label)}\n"
        for (site, age, ad), label in zip(cells, y, strict=True)
    ))  # fmt: skip
    twin, model = make_model(), make_model()
    by_dicts(
        twin,
        [
            {"site": site or None, "age": float(age) if age else None, "ad": str(ad) or None}
            for site, age, ad in cells
        ],
        y,
    )
    streaml1.progressive(model, str(csv_file), target="y", categorical=["site", "ad"])
    assert model.weights == twin.weights


@pytest.mark.parametrize(
    "kind",
    [
        lambda **p: streaml1.SoftmaxClassifier(classes=[False, True], strength=1e-3, **p),
        lambda **p: streaml1.EGClassifier(n_features=4096, **p),
    ],
    ids=["many outputs", "a slot for the unknown"],
)
def test_models_with_other_output_shapes(kind: Any) -> None:
    rows, y = random_rows(60)
    single, batch, twin = kind(cross=CROSS), kind(cross=CROSS), kind()
    by_dicts(single, rows, y)
    batch.learn_many(rows, y)
    for x, label in zip(rows, y, strict=True):
        twin.learn_one(with_crosses(x, CROSS), label)
    assert single.weights == batch.weights == twin.weights
    samples = [{"site": "unknown", "ad": "a", "word^1": 1.0}, *rows[:5]]
    singles = [single.predict_proba_one(x) for x in samples]
    assert singles == [twin.predict_proba_one(with_crosses(x, CROSS)) for x in samples]
    batched = np.asarray(batch.predict_proba_many(samples))
    assert batched == pytest.approx(np.array([list(p.values()) for p in singles]), rel=1e-12)


# State


def test_non_learning_operations_change_no_float(tmp_path: Path) -> None:
    """10,000 steps on all paths, with slots freed, moved, saved and loaded in between."""
    rows, y = random_rows(10_000, seed=9)
    rows = [{**x, "ad": f"{x.get('ad')}{k // 50}"} for k, x in enumerate(rows)]
    params: dict[str, Any] = {"l1": 0.02, "lr": 0.3, "schedule": "constant"}
    twin = make_model(**params)
    twin.learn_many(rows, y)
    model = make_model(**params)
    chance = random.Random(4)
    lo, freed = 0, False
    while lo < len(rows):
        hi = min(len(rows), lo + chance.choice([1, 3, 40, 700]))
        chance.choice([by_dicts, by_fallback, by_batches, by_lines])(model, rows[lo:hi], y[lo:hi])
        lo = hi
        operation = chance.randrange(6)
        if operation == 0:
            model = pickle.loads(pickle.dumps(model))
        elif operation == 1:
            model.save(tmp_path / "model")
            model = streaml1.load(tmp_path / "model")
        elif operation == 2:
            with model._state.exclusive():
                model._state._make_room(0)
            freed = True
        elif operation == 3:
            model = copy.deepcopy(model)
        elif operation == 4:
            with model._state.exclusive():
                model._state._set_rule(model._state.rule.grow(model._state.rule.size + 5))
    model._state.check()
    assert freed
    assert model.weights == twin.weights
    assert model.intercept == twin.intercept
    assert model.n_features_seen == pytest.approx(twin.n_features_seen, rel=0.1)
    watch = model.watch()
    model.learn_one({"site": "s1", "ad": "new"}, True)
    assert "site=s1 x ad=new" in [name for name, _ in watch.changes().born]


def test_crossed_names_are_resolved_lazily() -> None:
    rows, y = random_rows(50)
    model, twin = make_model(), make_model()
    model.learn_many(parsed_lines(rows), y)
    twin.learn_many(rows, y)
    vocabulary = model._state.vocabulary
    assert (
        not vocabulary.keys and len(vocabulary.crossed) == len(twin._state.vocabulary.crossed) > 0
    )
    assert model.weights == twin.weights
    model.learn_many(parsed_lines(rows), y)
    assert not vocabulary.keys, "reading weights must not decode all names"
    model.learn_one(rows[0], True)
    assert vocabulary.keys and not len(vocabulary.pending)
    assert sum(name is None for name in vocabulary.keys) == len(vocabulary.crossed)
    model._state.check()


HEADS = [f"{head}={k}" for head in "abc" for k in ("0", "1", "é", "\udc80")]


@given(st.lists(st.tuples(st.sampled_from("nnttxxxsuf"), st.integers(0, 2**32)), max_size=30))
def test_vocabulary_matches_a_list(steps: list[tuple[str, int]]) -> None:
    """Add and remove strings, byte strings and crosses; a list of names is the reference."""
    vocabulary, twin = InternedVocabulary(), []
    for operation, seed in steps:
        chance = random.Random(seed)
        names = chance.sample(HEADS[:8], chance.randrange(1, 5))
        if operation == "n":
            vocabulary.intern_all(names)
            twin += [name for name in names if name not in twin]
        elif operation == "t":  # names as byte strings
            names = [name for name in names if name.isprintable()] * 2
            hashes, (letters, spans) = name_hashes(names), encode_names(names)
            slots, limit = np.empty(len(hashes), np.uint32), chance.choice([len(twin) + 1, MISSING])
            end = vocabulary.intern_bytes(hashes, slots, letters, spans, limit)
            if end < len(hashes):
                assert len(vocabulary) == limit and names[end] not in {*twin, *names[:end]}
                assert vocabulary.intern_bytes(hashes, slots, letters, spans, MISSING, end) == len(
                    hashes
                )
            twin += [name for name in dict.fromkeys(names) if name not in twin]
            assert slots.tolist() == [twin.index(name) for name in names]
        elif operation == "x":
            crosses = [tuple(sorted(chance.sample(HEADS, chance.choice([2, 3])))) for _ in range(4)]
            hashes = np.array([cross_hash(cross) for cross in crosses], np.uint64)
            slots, limit = np.empty(len(hashes), np.uint32), chance.choice([len(twin) + 1, MISSING])
            end = vocabulary.intern_crossed(hashes, slots, factors_of(crosses), limit)
            if end < len(hashes):
                assert len(vocabulary) == limit and crosses[end] not in {*twin, *crosses[:end]}
                end_after_retry = vocabulary.intern_crossed(
                    hashes, slots, factors_of(crosses), MISSING, end
                )
                assert end_after_retry == len(hashes)
            twin += [cross for cross in dict.fromkeys(crosses) if cross not in twin]
            assert slots.tolist() == [twin.index(cross) for cross in crosses]
        elif operation == "s":
            vocabulary.materialize()
        elif operation == "u":
            retained = np.array([chance.random() < 0.6 for _ in twin], bool)
            vocabulary, new_slots = vocabulary.retain(retained)
            twin = [name for name, is_retained in zip(twin, retained, strict=True) if is_retained]
            assert len(new_slots) == len(retained)
        else:
            size = chance.randrange(len(twin) + 1)
            vocabulary.truncate(size)
            del twin[size:]
        vocabulary.check(10**9)
        expected_names = [name if isinstance(name, str) else " x ".join(name) for name in twin]
        snapshot = vocabulary.snapshot()
        assert vocabulary.names() == expected_names
        assert [snapshot.name(k) for k in range(len(twin))] == expected_names
        expected = [name_hash(name) if isinstance(name, str) else cross_hash(name) for name in twin]
        assert vocabulary.hashes(np.arange(len(twin))).tolist() == expected
    restored, _, _ = vocabulary_from_state_dict(vocabulary.state_dict(np.arange(len(twin))))
    assert restored.names() == vocabulary.names()
    restored.check(10**9)


def test_unused_factors_are_released() -> None:
    vocabulary = InternedVocabulary()
    crosses = [(f"a={k}", "b", *(["c"] if k % 3 else [])) for k in range(300)]
    hashes = np.array([cross_hash(cross) for cross in crosses], np.uint64)
    slots = np.full(300, MISSING, np.uint32)
    vocabulary.intern_crossed(hashes, slots, factors_of(crosses))
    assert slots.tolist() == list(range(300))
    names = vocabulary.names()
    assert names == [" x ".join(cross) for cross in crosses]
    for retained in (range(0, 300, 2), range(5, 300, 7)):
        remaining, _ = vocabulary.retain(np.isin(np.arange(300), retained))
        remaining.check(300)
        assert remaining.names() == [names[k] for k in retained]
        known = {factor for k in retained for factor in crosses[k]}
        assert len(remaining.crossed.names) <= 2 * len(known)
        assert known <= set(remaining.crossed.names.names())
    vocabulary.truncate(7)
    vocabulary.check(300)
    assert vocabulary.names() == names[:7]


def test_saving_and_loading_keeps_crosses(tmp_path: Path) -> None:
    rows, y = random_rows(100)
    model = make_model()
    model.learn_many(rows, y)
    model.save(tmp_path / "a")
    loaded = streaml1.load(tmp_path / "a")
    assert loaded.cross == CROSS
    assert list(loaded.weights.items()) == list(model.weights.items())
    loaded.save(tmp_path / "b")
    reloaded = streaml1.load(tmp_path / "b")
    assert list(reloaded.weights.items()) == list(model.weights.items())
    loaded.save(tmp_path / "c")
    assert (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()
    frozen = pickle.loads(pickle.dumps(model.freeze()))
    assert [frozen.predict_one(x) for x in rows] == model.predict_many(rows).tolist()
    assert frozen.weights == model.weights
    clone = model.clone()
    assert clone.cross == CROSS and not clone.weights


def test_crosses_with_max_features() -> None:
    rows, y = random_rows(300)
    single, batch = make_model(max_features=40), make_model(max_features=40)
    by_dicts(single, rows, y)
    by_batches(batch, rows, y)
    assert single.weights == batch.weights
    assert 0 < single.n_nonzero <= 40


def test_prefix_order_does_not_affect_weights() -> None:
    rows, y = random_rows(100)
    model, swapped = make_model([("site", "ad")]), make_model([("ad", "site")])
    model.learn_many(rows, y)
    swapped.learn_many(rows, y)
    assert list(model.weights.values()) == list(swapped.weights.values())
    assert "site=s1 x ad=a" in model.weights and "ad=a x site=s1" in swapped.weights


# Rejected input


@pytest.mark.parametrize("cross", [
    "site,ad", [("site",)], [("a", "b", "c", "d")], [("a", 1)], ["ab"], [("a", "")], 5,
    [("a=b", "c")], [("a", "b"), ("b", "a")], [("a x b", "c")], [("\ud800", "a")],
    [(f"p{k}", "q") for k in range(64)],
])  # fmt: skip
def test_invalid_crosses_are_rejected(cross: Any) -> None:
    with pytest.raises(ValueError, match="^cross"):
        ElasticNetClassifier(lr=0.1, cross=cross)


def test_prefix_with_separator_is_rejected() -> None:
    with pytest.raises(ValueError, match="cross has the prefix 'a x b', but ' x ' joins the names"):
        ElasticNetClassifier(lr=0.1, cross=[("a x b", "c")])


def test_empty_cross_list_is_none() -> None:
    assert ElasticNetClassifier(lr=0.1, cross=[]).cross is None


def test_cross_cannot_change() -> None:
    model = make_model()
    with pytest.raises(ValueError, match="cross cannot change"):
        model.cross = [("a", "b")]
    with pytest.raises(ValueError, match="cross cannot change"):
        model.mutate({"cross": None})


def test_matrices_cannot_be_crossed() -> None:
    model = make_model()
    X = csr_matrix(np.eye(3))
    for call in (lambda: model.learn_many(X, [0, 1, 0]), lambda: model.predict_many(X)):
        with pytest.raises(BadExample, match="no names to cross"):
            call()
    assert model.n_iterations == 0
    model.learn_one({3: 1.0, "site": "a", "ad": "b"}, True)  # an int belongs to no prefix
    assert set(model.weights) == {3, "site=a", "ad=b", "site=a x ad=b"}


def test_too_large_products_are_rejected() -> None:
    good = {"site": 1.0, "ad": 2.0}
    for path in PATHS.values():
        model = make_model([("site", "ad")])
        path(model, [good], [True])
        before = model.weights
        with pytest.raises(BadExample, match=r"'site x ad' is too large") as error:
            model.learn_many([good, good, {"site": 1e30, "ad": 1e30}], [0, 1, 0])
        assert error.value.row == 2
        with pytest.raises(BadExample, match=r"'site x ad' is too large"):
            path(model, [{"site": 1e30, "ad": 1e30}], [True])
        assert model.weights == before
        path(model, [{"site": 1e-200, "ad": 1e-200}], [True])  # the product underflows to zero
        assert model.n_features_seen == 3


def test_names_that_look_like_a_cross_are_rejected() -> None:
    good = {"site": "5 x 7", "other": "site=a x ad=b", "x": 1.0}
    for path in PATHS.values():
        model = make_model([("site", "ad")])
        path(model, [good], [True])
        for bad in ({"site=a x ad=b": 1.0}, {"site": "a x ad"}):
            with pytest.raises(BadExample, match="reads as a cross") as error:
                model.learn_many([good, bad], [True, False])
            assert error.value.row == 1
            with pytest.raises(BadExample, match="reads as a cross"):
                model.learn_one(bad, True)
        assert model.n_iterations == 1
    model = make_model([("site", "ad")])
    text = io.BytesIO(b"1 |site a\n").getvalue()
    model.learn_many(VwParser().read(text).x, [True])
    assert isinstance(model._state.vocabulary, InternedVocabulary)


def test_river_checks() -> None:
    from river import checks

    params = {"cross": [("a", "b")], "text": ["c"], "ngrams": 2}
    for check in checks.yield_checks(ElasticNetClassifier(**params)):
        check(ElasticNetClassifier(**params).clone())


def test_command_line(tmp_path: Path) -> None:
    rows = [("news", "a", "Cheap pills, cheap!", 1), ("mail", "b", "see you", 0)] * 40
    csv_file, model = tmp_path / "rows.csv", tmp_path / "model"
    lines = [f'{site},{ad},"{message}",{y}\n' for site, ad, message, y in rows]
    csv_file.write_text("site,ad,message,y\n" + "".join(lines))
    options = ["--target", "y", "--categorical", "site,ad"]
    interactions = ["--cross", "site,ad", "--cross", "site,ad,message", "--text", "message"]
    learn = ["learn", str(csv_file), *options, *interactions, "--ngrams", "2", "--save", str(model)]
    assert "message=cheap pills" in run(*learn).output
    loaded = streaml1.load(model)
    published = loaded.freeze()
    assert loaded.cross == [("site", "ad"), ("site", "ad", "message")]
    assert loaded.text == ["message"] and loaded.ngrams == 2
    assert "site=news x ad=a x message=cheap" in loaded.weights
    predicted = run("predict", str(model), str(csv_file), *options).output.split()
    dicts = [{"site": s, "ad": a, "message": m} for s, a, m, _ in rows]
    assert [float(p) for p in predicted] == [published.predict_proba_one(x)[True] for x in dicts]
    output = run("show", str(model), "--feature", "site=news x ad=a").output
    assert f"{loaded.weights['site=news x ad=a']:.4f}"[:5] in output and "spelling" not in output
    assert "Check the spelling" in run("show", str(model), "--feature", "site=mews x ad=a").output
    assert run("learn", str(csv_file), *options, "--load", str(model)).exit_code == 0
    svmlight_file = tmp_path / "rows.svm"
    svmlight_file.write_text("1 1:1\n")
    result = run("learn", str(svmlight_file), "--cross", "a,b")
    assert result.exit_code and "is svmlight, whose features have no name prefixes" in result.output
    result = run("learn", str(svmlight_file), "--text", "a")
    assert result.exit_code and "text features need CSV, JSON lines or VW" in result.output
    vw_file = tmp_path / "rows.vw"
    vw_file.write_text("1 |message cheap pills\n0 |message see you\n")
    result = run("learn", str(vw_file), "--ngrams", "2")
    assert result.exit_code and "--ngrams requires --text" in result.output
    assert run("learn", str(vw_file), "--ngrams", "1").exit_code == 0
    result = run("learn", str(csv_file), *options[:2], "--cross", "site")
    assert result.exit_code and "not an interaction; give two or three" in result.output


def test_command_line_rejects_crosses_of_numeric_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is reported before reading data and states the remedy."""
    monkeypatch.chdir(tmp_path)
    Path("a.svm").write_text("1 1:1\n0 2:1\n" * 30)
    Path("a.vw").write_text("1 |a x |b y\n0 |a z |b y\n" * 30)
    for name in ("a.svm", "a.vw"):
        assert run("convert", name, f"{name}.rows").exit_code == 0
    options = ["--cross", "a,b", "--save", "m"]
    # Converted rows with names have prefixes.
    assert run("learn", "a.vw.rows", *options).exit_code == 0
    assert run("predict", "m", "a.vw.rows").exit_code == 0
    rows = (
        "a.svm.rows was converted from data without names (a.svm), so features have no name "
        "prefixes: "
    )
    for args, message in (
        (["learn", "a.svm.rows", *options], f"{rows}omit --cross"),
        (
            ["learn", "a.svm", *options],
            "a.svm is svmlight, whose features have no name prefixes: ",
        ),
        *(
            (args, f"{description}the model has interactions, so use a source with names")
            for source, description in (
                ("a.svm", "a.svm is svmlight, whose features have no name prefixes: "),
                ("a.svm.rows", rows),
            )
            for args in (
                ["learn", source, "--load", "m"],
                ["predict", "m", source],
                ["evaluate", "m", source],
            )
        ),
    ):
        result = run(*args)
        assert result.exit_code == 2 and result.stderr.startswith(f"streaml1: {message}")


def run(*args: str) -> Any:
    return CliRunner().invoke(cli, list(args))


def test_wide_integer_ids_cannot_be_crossed(tmp_path: Path) -> None:
    file = tmp_path / "a.svm"
    file.write_text("1 3:1 5000000000:1\n")
    model = ElasticNetClassifier(lr=0.1, cross=[("a", "b")])
    with pytest.raises(BadExample, match="no names to cross"):
        streaml1.progressive(model, file)
    wide = csr_matrix((np.ones(1), [2**40], [0, 1]), shape=(1, 2**41))
    with pytest.raises(BadExample, match="no names to cross"):
        model.learn_many(wide, [True])
    assert not model.weights


def test_first_rejected_row_is_reported() -> None:
    xs = [{"b": 1.0}, {"a=1 x b=2": 1.0}, {"q": float("inf")}]
    with pytest.raises(BadExample, match="reads as a cross") as error:
        ElasticNetClassifier(lr=0.1, cross=[("a", "b")]).learn_many(xs, [True] * 3)
    assert error.value.row == 1


def test_first_prediction_with_many_crosses_uses_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The context sized for the dict is too small for its crosses and must be enlarged."""
    x = {f"text^{k}": 1.0 for k in range(60)}
    model = ElasticNetClassifier(lr=0.1, cross=[("text", "text")])
    trained = ElasticNetClassifier(lr=0.1, cross=[("text", "text")])
    trained.learn_one(x, True)
    expected = trained.predict_proba_one(x)
    unpickled = pickle.loads(pickle.dumps(trained))
    monkeypatch.setattr(
        spec.Interactions, "crossed_features", lambda *_: pytest.fail("crossed in Python")
    )
    assert model.predict_proba_one(x) == {False: 0.5, True: 0.5}
    for predictor_ in (unpickled, unpickled.freeze()):
        assert predictor_.predict_proba_one(x) == expected


@pytest.mark.parametrize("n", [254, 255, 256])
def test_prefix_counts_around_the_byte_limit(n: int) -> None:
    heads = ["a^b^c^d^e^f^g^h"[: 2 * k + 1] for k in range(8)]
    cross = [(heads[k], heads[k + 1]) for k in range(0, 8, 2)]
    model = ElasticNetClassifier(lr=0.1, cross=cross, hash_bits=18)
    model.learn_many([{f"{heads[-1]}^{k}": 1.0 for k in range(n)}, {"a": 1.0}], [True, False])
    crosses = spec.Interactions([*map(tuple, cross)])
    batch = batch_of([{f"{heads[-1]}^{k}": 1.0 for k in range(n)}])
    assert selection.select_factors(crosses, batch).bounds.tolist() == [4 * n * n]


NAMES = st.sampled_from(["a", "b", "c^1", "c^2", "k=1", "l=2", "z"])


@settings(max_examples=200)
@given(st.lists(st.lists(NAMES, max_size=4), min_size=1, max_size=9), st.sampled_from([2, 8, 12]))
def test_upper_bounds_of_cross_counts(rows: list[list[str]], n: int) -> None:
    """Include repeated rows and rows with the same features in another order."""
    heads = list("abcdefghijkl")[:n]
    crosses = spec.Interactions([*zip(heads[::2], heads[1::2], strict=True), ("c", "c")])
    batch = batch_of([dict.fromkeys(names, 1.0) for names in rows])
    selected = selection.select_factors(crosses, batch)
    expected, longest = [], 0
    for names in map(set, rows):
        counts = {p: sum(belongs(name, p) for name in names) for p in crosses.prefixes}
        expected.append(
            sum(counts[p] * counts[q] for p, q in zip(heads[::2], heads[1::2], strict=True))
        )
        expected[-1] += counts["c"] ** 2
        longest = max(
            longest, sum(any(belongs(name, p) for p in crosses.prefixes) for name in names)
        )
    assert selected.bounds.tolist() == expected
    assert selected.longest == longest
