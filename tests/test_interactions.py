"""Crossed features: each road beside dicts in which every product was given by name."""

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
import streaml1.features.interactions.selection
from streaml1 import BadExample, ElasticNetClassifier
from streaml1.cli import cli
from streaml1.core.hashing import name_hash, name_hashes
from streaml1.features import dict_reader
from streaml1.features.batch import batch_of
from streaml1.features.interactions import spec
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


# The slow truth: what is crossed is given by name.


def belongs(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith((f"{prefix}=", f"{prefix}^"))


def told(parts: tuple[str, ...], prefixes: list[str]) -> str:
    def first(part: str) -> int:
        return next(k for k, prefix in enumerate(prefixes) if belongs(part, prefix))

    def head(part: str) -> str:
        return part.replace("^", "=").split("=")[0]

    by_prefix = sorted(parts, key=first)
    heads = [head(part) for part in by_prefix]
    return " x ".join(sorted(parts, key=lambda part: (heads.index(head(part)), part)))


def expanded(x: Row, cross: Cross) -> dict[str, float]:
    """The features of a dict, and all that are crossed in it, by name."""
    plain: dict[str, float] = {}
    for name, value in x.items():
        if value is not None:
            name = f"{name}={value}" if isinstance(value, str) else name
            plain[name] = plain.get(name, 0.0) + (1.0 if isinstance(value, str) else float(value))
    plain = {name: v for name, v in plain.items() if v != 0.0}
    prefixes = list(dict.fromkeys(prefix for one in cross for prefix in one))
    whole = dict(plain)
    for one in cross:
        seen: set[frozenset[str]] = set()
        for parts in product(*([n for n in plain if belongs(n, prefix)] for prefix in one)):
            if len(set(parts)) < len(parts) or frozenset(parts) in seen:
                continue
            seen.add(frozenset(parts))
            v = 1.0
            for part in parts:
                v *= plain[part]
            name = told(parts, prefixes)
            whole[name] = whole.get(name, 0.0) + v
    return {name: v for name, v in whole.items() if v != 0.0}


# Roads. Each takes a model and rows, and returns predictions made just before each was learnt.


def walked(model: Any, rows: list[Row], y: list[bool]) -> list[float]:
    told = []
    for x, label in zip(rows, y, strict=True):
        told.append(model.predict_proba_one(x)[True])
        model.learn_one(x, label)
    return told


def read_slowly(model: Any, rows: list[Row], y: list[bool]) -> list[float]:
    return walked(model, [UserDict(x) for x in rows], y)  # type: ignore[misc]


def together(model: Any, rows: list[Row], y: list[bool]) -> list[float]:
    told: list[float] = []
    for lo in range(0, len(rows), 7):
        ahead = model.predict_proba_many(rows[lo : lo + 1])[0, 1]
        told += model.progressive_many(rows[lo : lo + 7], y[lo : lo + 7]).tolist()
        assert told[lo] == ahead
    return told


def as_text(model: Any, rows: list[Row], y: list[bool]) -> list[float]:
    told: list[float] = []
    x = lines_of(rows)
    for lo in range(0, len(rows), 7):
        told += model.progressive_many(x[lo : lo + 7], y[lo : lo + 7]).tolist()
    return told


def lines_of(rows: list[Row]) -> NamedRows:
    """The rows as they are read from JSON lines: their names are bytes."""
    text = "".join(json.dumps({"x": x, "y": True}) + "\n" for x in rows)
    read = line_parser("jsonl").read(text.encode()).x
    assert isinstance(read, NamedRows) and len(read) == len(rows)
    return read


def in_turn(model: Any, rows: list[Row], y: list[bool]) -> list[float]:
    roads = [walked, read_slowly, together, as_text]
    return [
        p
        for k, lo in enumerate(range(0, len(rows), 5))
        for p in roads[k % 4](model, rows[lo : lo + 5], y[lo : lo + 5])
    ]


ROADS: dict[str, Callable[[Any, list[Row], list[bool]], list[float]]] = {
    "walked": walked,
    "read slowly": read_slowly,
    "together": together,
    "as text": as_text,
    "in turn": in_turn,
}


def rows_of(n: int, seed: int = 3) -> tuple[list[Row], list[bool]]:
    """Rows with categories, numbers, words and gaps; products of their values are exact."""
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
            x["site=s1"] = 0.5  # a category may come whole as well
        rows.append(x)
        y.append(chance.random() < 0.4)
    return rows, y


def crossing(cross: Cross | None = CROSS, **params: Any) -> Any:
    return ElasticNetClassifier(**{"l1": 2e-3, "l2": 1e-3, "lr": 0.5, "cross": cross, **params})


@pytest.mark.parametrize("road", ROADS)
def test_a_cross_is_the_product_given_by_name(road: str) -> None:
    rows, y = rows_of(300)
    model, twin = crossing(), crossing(None)
    found = ROADS[road](model, rows, y)
    wanted = walked(twin, [expanded(x, CROSS) for x in rows], y)
    assert found == wanted
    assert model.weights == twin.weights
    assert model.intercept == twin.intercept
    assert model.n_features_seen == pytest.approx(twin.n_features_seen, rel=0.1)
    assert any(name.count(" x ") == 2 for name in model.weights)
    assert dict(model.top_weights(10**6)).keys() == twin.weights.keys()
    model._engine.check()


@pytest.mark.parametrize("road", [name for name in ROADS if name != "walked"])
@pytest.mark.parametrize("bits", [6, 20])
def test_hashed_names_cross_on_every_road_to_the_same_bits(road: str, bits: int) -> None:
    rows, y = rows_of(200)
    one, other = crossing(hash_bits=bits), crossing(hash_bits=bits)
    assert ROADS[road](one, rows, y) == walked(other, rows, y)
    assert one.weights == other.weights
    if bits == 20:  # no two names share a slot here
        twin = crossing(None)
        walked(twin, [expanded(x, CROSS) for x in rows], y)
        assert sorted(one.weights.values()) == sorted(twin.weights.values())
        assert {one.slot(name): w for name, w in twin.weights.items()} == one.weights


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
    road=st.sampled_from([walked, read_slowly, together]),
    bits=st.sampled_from([None, 24]),
)
def test_odd_names_cross_as_others_do(
    rows: list[Row], cross: Cross, road: Any, bits: int | None
) -> None:
    y = [k % 2 == 0 for k in range(len(rows))]
    model, twin = crossing(cross, l1=0.0, hash_bits=bits), crossing(None, l1=0.0)
    wanted = walked(twin, [expanded(x, cross) for x in rows], y)
    # Products of values that repeat are added up here in one order, and there in another.
    assert road(model, rows, y) == pytest.approx(wanted, rel=1e-12)
    if bits is None:
        assert model.weights == pytest.approx(twin.weights, rel=1e-12)
        model._engine.check()


def test_big_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor, "LENGTH", 8)
    rows = [{**{f"w^{k}": 0.5 for k in range(n)}, "site": "s"} for n in (3, 150, 0, 151, 40)]
    y = [True, False, True, True, False]
    cross: Cross = [("w", "w"), ("site", "w")]
    twin = crossing(None)
    walked(twin, [expanded(x, cross) for x in rows], y)
    for road in ROADS.values():
        for bits in (None, 22):
            model = crossing(cross, hash_bits=bits)
            road(model, rows, y)
            if bits is None:
                assert model.weights == twin.weights


@pytest.mark.parametrize("road", ROADS)
def test_pairs_by_eights(road: str) -> None:
    """A few of one prefix with many of another, of names of every length, some without a value."""
    chance = random.Random(5)
    cross: Cross = [("site", "text"), ("text", "ad")]
    rows: list[Row] = []
    for n in (7, 8, 9, 16, 17, 40, 255, 256, 300):
        words = chance.sample(range(400), n)
        x: Row = {f"site^{k}": chance.choice([1.0, 2.0, 0.5]) for k in range(n % 3 + 1)}
        x |= {f"text^{'w' * (k % 27)}{k}": chance.choice([1, 0.5, -2.0, 0.0]) for k in words}
        x["ad"] = chance.choice(["a", "a longer one"])
        rows.append(x)
    y = [chance.random() < 0.5 for _ in rows]
    model, twin = crossing(cross), crossing(None)
    assert ROADS[road](model, rows, y) == walked(twin, [expanded(x, cross) for x in rows], y)
    assert model.weights == twin.weights
    model._engine.check()
    for at in (0, 7, 8, 19):  # one that is too large, wherever it stands
        bad: Row = {"site^1": 1e30} | {f"text^{k}": 1e30 if k == at else 1.0 for k in range(20)}
        with pytest.raises(BadExample, match=f"'site.1 x text.{at}' is too large"):
            ROADS[road](model, [bad], [True])
    assert model.weights == twin.weights


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("bits", [None, 20])
@pytest.mark.parametrize("prefixes", [("a", "ad"), ("a", "a")])
def test_a_category_that_comes_in_two_kinds_of_parts(
    road: str, bits: int | None, prefixes: tuple[str, str]
) -> None:
    """It is one feature, and has no product with itself."""
    rows: list[Row] = [
        {"a": "b=c", "a=b": "c", "ad": "x"},
        {"a": "b=c", "a=b=c": 1.0, "ad": "x", "a^1": 2.0},
    ]
    model, twin = crossing([prefixes], hash_bits=bits), crossing(None, hash_bits=None)
    assert ROADS[road](model, rows, [True, False]) == walked(
        twin, [expanded(x, [prefixes]) for x in rows], [True, False]
    )
    assert sorted(model.weights.values()) == sorted(twin.weights.values())
    assert bits or model.weights == twin.weights


def test_many_are_crossed_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y = rows_of(150)
    whole = crossing()
    told = whole.progressive_many(rows, y).tolist()
    for most in ("IN_CACHE", "TOGETHER"):
        monkeypatch.setattr(streaml1.features.interactions.selection, most, 25)
    model = crossing()
    assert model.progressive_many(rows, y).tolist() == told
    assert model.weights == whole.weights
    assert model.predict_proba_many(rows).tolist() == whole.predict_proba_many(rows).tolist()
    before, names = model.weights, len(model._engine.vocabulary)
    bad = [*rows[:140], {"site": "new", "ad": "a"}, {"site": 1e30, "ad": 1e30, "word^1": 1.0}]
    for X in (bad, lines_of(bad)):
        with pytest.raises(BadExample, match="too large") as found:
            model.learn_many(X, [True] * len(bad))
        assert found.value.row == 141
        assert (model.weights, len(model._engine.vocabulary)) == (before, names)
        assert model.n_iterations == len(rows)
        model._engine.check()
    lines = VwParser().read("".join(f"{line}\n" for line in LINES).encode())
    one, other = crossing(), crossing()
    one.learn_many(lines.x, lines.y > 0)
    monkeypatch.undo()
    other.learn_many(lines.x, lines.y > 0)
    assert one.weights == other.weights


def test_too_many_are_refused_on_every_road(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {f"w^{k}": 1.0 for k in range(220)}
    for road in ROADS.values():
        model = crossing([("w", "w", "w")])
        with pytest.raises(BadExample, match="crossed features, more than 4,194,304"):
            road(model, [row], [True])
        assert model.n_iterations == 0


def test_too_many_parts_are_refused() -> None:
    """Their places are packed: of more than have one, crosses had the names of others."""
    x = {"b": 1.0} | {f"a^{k}": 1.0 for k in range(2**20 - 1)}
    model = crossing([("a", "b")])
    with pytest.raises(BadExample, match="1,048,576 features to cross, more than 1,048,575"):
        model.learn_one(x, True)
    with pytest.raises(BadExample) as found:
        model.learn_many([{"b": 1.0}, x], [True] * 2)
    assert found.value.row == 1 and "more than 1,048,575" in found.value.reason
    assert (model.n_iterations, model.n_nonzero) == (0, 0)
    del x["a^0"]
    model.learn_one(x, True)
    assert model.n_nonzero == 2**21 - 3


@pytest.mark.skipif(not dict_reader.AVAILABLE, reason="dicts are not walked here")
def test_plain_dicts_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y = rows_of(60)
    rows = [{k: v for k, v in x.items() if k != "site=s1"} for x in rows]
    for bits in (None, 18):
        model = crossing(hash_bits=bits)
        walked(model, rows, y)
        with monkeypatch.context() as patch:
            patch.delattr(model_state, "numeric_features")
            walked(model, rows, y)


def test_more_parts_than_are_kept_at_hand() -> None:
    """What is known of earlier names and parts gives way, and is found anew, to the same bits."""
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
    model, twin = (crossing([("site", "word"), ("word", "word")]) for _ in range(2))
    assert walked(model, rows, y) == together(twin, rows, y)
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
    wanted = crossing()
    told = walked(wanted, rows, y)
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        model = crossing()
        assert model.progressive_many(frame, y).tolist() == told
        assert model.weights == wanted.weights
        each = [model.predict_proba_one(x)[True] for x in rows]
        assert np.asarray(model.predict_proba_many(frame))[:, 1].tolist() == each


LINES = [
    "1 |site news |word w:0.5 v w |age 3",
    "-1 |site mail |ad:2 a b:0.5 |word w",
    "1 2 |site news |ad a |word v:-1 u",
    "-1 'tag|ad a |site news mail |word",
    "1 |ad a:0 b |word w:0.5 w:-0.5 v |site s\xe9",
    "-1 | site=mail ad=b |word w",
] * 20


def test_vowpal_wabbit_text(tmp_path: Path) -> None:
    cross = [*CROSS, ("site", "site")]
    parsed = [parse_vw(line) for line in LINES]
    rows, y = [one[0] for one in parsed if one], [one[1] == 1.0 for one in parsed if one]
    w = [one[2] for one in parsed if one]
    twin = crossing(None)
    for x, label, weight in zip(rows, y, w, strict=True):
        twin.learn_one(expanded(x, cross), label, weight)
    text = "".join(f"{line}\n" for line in LINES)
    kernel = crossing(cross)
    x = VwParser().read(text.encode()).x
    for lo in range(0, len(rows), 50):
        kernel.learn_many(x[lo : lo + 50], y[lo : lo + 50], w[lo : lo + 50])
    assert kernel.weights == twin.weights
    frozen = kernel.freeze()
    assert frozen.predict_many(x).tolist() == [kernel.predict_one(row) for row in rows]
    path = tmp_path / "rows.vw"
    path.write_text(text)
    whole = crossing(cross)
    streaml1.progressive(whole, str(path))
    assert whole.weights == twin.weights
    hashed, other = crossing(cross, hash_bits=16), crossing(cross, hash_bits=16)
    hashed.learn_many(x, y, w)
    for row, label, weight in zip(rows, y, w, strict=True):
        other.learn_one(row, label, weight)
    assert hashed.weights == other.weights


def test_json_and_csv(tmp_path: Path) -> None:
    rows, y = rows_of(80)
    lines, table = tmp_path / "rows.jsonl", tmp_path / "rows.csv"
    lines.write_text("".join(json.dumps({"x": x, "y": label}) + "\n"
                             for x, label in zip(rows, y, strict=True)))  # fmt: skip
    wanted = crossing()
    walked(wanted, rows, y)
    model = crossing()
    streaml1.progressive(model, str(lines))
    assert model.weights == wanted.weights
    cells = [(x.get("site") or "", x.get("age") or "", x.get("ad") or "") for x in rows]
    table.write_text("site,age,ad,y\n" + "".join(
        f"{site},{age},{ad},{int(label)}\n"
        for (site, age, ad), label in zip(cells, y, strict=True)
    ))  # fmt: skip
    wanted, model = crossing(), crossing()
    walked(
        wanted,
        [
            {"site": site or None, "age": float(age) if age else None, "ad": str(ad) or None}
            for site, age, ad in cells
        ],
        y,
    )
    streaml1.progressive(model, str(table), target="y", categorical=["site", "ad"])
    assert model.weights == wanted.weights


@pytest.mark.parametrize(
    "kind",
    [
        lambda **p: streaml1.SoftmaxClassifier(classes=[False, True], strength=1e-3, **p),
        lambda **p: streaml1.EGClassifier(n_features=4096, **p),
    ],
    ids=["many outputs", "a slot for the unknown"],
)
def test_other_models(kind: Any) -> None:
    rows, y = rows_of(60)
    one, other, twin = kind(cross=CROSS), kind(cross=CROSS), kind()
    walked(one, rows, y)
    other.learn_many(rows, y)
    for x, label in zip(rows, y, strict=True):
        twin.learn_one(expanded(x, CROSS), label)
    assert one.weights == other.weights == twin.weights
    some = [{"site": "unknown", "ad": "a", "word^1": 1.0}, *rows[:5]]
    each = [one.predict_proba_one(x) for x in some]
    assert each == [twin.predict_proba_one(expanded(x, CROSS)) for x in some]
    many = np.asarray(other.predict_proba_many(some))
    assert many == pytest.approx(np.array([list(p.values()) for p in each]), rel=1e-12)


# State


def test_what_is_not_learning_changes_no_float(tmp_path: Path) -> None:
    """10,000 steps; slots are given back, moved, saved and loaded on the way, on all roads."""
    rows, y = rows_of(10_000, seed=9)
    rows = [{**x, "ad": f"{x.get('ad')}{k // 50}"} for k, x in enumerate(rows)]
    params: dict[str, Any] = {"l1": 0.02, "lr": 0.3, "schedule": "constant"}
    whole = crossing(**params)
    whole.learn_many(rows, y)
    model = crossing(**params)
    chance = random.Random(4)
    lo, given_back = 0, False
    while lo < len(rows):
        hi = min(len(rows), lo + chance.choice([1, 3, 40, 700]))
        chance.choice([walked, read_slowly, together, as_text])(model, rows[lo:hi], y[lo:hi])
        lo = hi
        what = chance.randrange(6)
        if what == 0:
            model = pickle.loads(pickle.dumps(model))
        elif what == 1:
            model.save(tmp_path / "model")
            model = streaml1.load(tmp_path / "model")
        elif what == 2:
            with model._engine.exclusive():
                model._engine._make_room(0)
            given_back = True
        elif what == 3:
            model = copy.deepcopy(model)
        elif what == 4:
            with model._engine.exclusive():
                model._engine._set_rule(model._engine.rule.grow(model._engine.rule.size + 5))
    model._engine.check()
    assert given_back
    assert model.weights == whole.weights
    assert model.intercept == whole.intercept
    assert model.n_features_seen == pytest.approx(whole.n_features_seen, rel=0.1)
    watch = model.watch()
    model.learn_one({"site": "s1", "ad": "new"}, True)
    assert "site=s1 x ad=new" in [name for name, _ in watch.changes().born]


def test_crossed_names_of_a_text_wait_until_they_are_asked_for() -> None:
    rows, y = rows_of(50)
    model, twin = crossing(), crossing()
    model.learn_many(lines_of(rows), y)
    twin.learn_many(rows, y)
    names = model._engine.vocabulary
    assert not names.keys and len(names.crossed) == len(twin._engine.vocabulary.crossed) > 0
    assert model.weights == twin.weights
    model.learn_many(lines_of(rows), y)
    assert not names.keys, "and asking for weights makes no strings of all"
    model.learn_one(rows[0], True)
    assert names.keys and not len(names.pending)
    assert sum(name is None for name in names.keys) == len(names.crossed)
    model._engine.check()


HEADS = [f"{head}={k}" for head in "abc" for k in ("0", "1", "é", "\udc80")]


@given(st.lists(st.tuples(st.sampled_from("nnttxxxsuf"), st.integers(0, 2**32)), max_size=30))
def test_a_table_of_names_and_crosses(steps: list[tuple[str, int]]) -> None:
    """Strings, bytes and crosses come and go; a list of names is the twin."""
    table, twin = InternedVocabulary(), []
    for what, seed in steps:
        chance = random.Random(seed)
        names = chance.sample(HEADS[:8], chance.randrange(1, 5))
        if what == "n":
            table.intern_all(names)
            twin += [name for name in names if name not in twin]
        elif what == "t":  # names of texts
            names = [name for name in names if name.isprintable()] * 2
            hashes, (letters, spans) = name_hashes(names), encode_names(names)
            slots, most = np.empty(len(hashes), np.uint32), chance.choice([len(twin) + 1, MISSING])
            at = table.intern_bytes(hashes, slots, letters, spans, most)
            if at < len(hashes):
                assert len(table) == most and names[at] not in {*twin, *names[:at]}
                assert table.intern_bytes(hashes, slots, letters, spans, MISSING, at) == len(hashes)
            twin += [name for name in dict.fromkeys(names) if name not in twin]
            assert slots.tolist() == [twin.index(name) for name in names]
        elif what == "x":
            parts = [tuple(sorted(chance.sample(HEADS, chance.choice([2, 3])))) for _ in range(4)]
            hashes = np.array([cross_hash(one) for one in parts], np.uint64)
            slots, most = np.empty(len(hashes), np.uint32), chance.choice([len(twin) + 1, MISSING])
            at = table.intern_crossed(hashes, slots, factors_of(parts), most)
            if at < len(hashes):
                assert len(table) == most and parts[at] not in {*twin, *parts[:at]}
                more = table.intern_crossed(hashes, slots, factors_of(parts), MISSING, at)
                assert more == len(hashes)
            twin += [one for one in dict.fromkeys(parts) if one not in twin]
            assert slots.tolist() == [twin.index(one) for one in parts]
        elif what == "s":
            table.materialize()
        elif what == "u":
            kept = np.array([chance.random() < 0.6 for _ in twin], bool)
            table, new_slots = table.retain(kept)
            twin = [name for name, stays in zip(twin, kept, strict=True) if stays]
            assert len(new_slots) == len(kept)
        else:
            size = chance.randrange(len(twin) + 1)
            table.truncate(size)
            del twin[size:]
        table.check(10**9)
        told = [name if isinstance(name, str) else " x ".join(name) for name in twin]
        still = table.snapshot()
        assert table.names() == told
        assert [still.name(k) for k in range(len(twin))] == told
        expected = [name_hash(name) if isinstance(name, str) else cross_hash(name) for name in twin]
        assert table.hashes(np.arange(len(twin))).tolist() == expected
    again, _, _ = vocabulary_from_state_dict(table.state_dict(np.arange(len(twin))))
    assert again.names() == table.names()
    again.check(10**9)


def test_parts_that_are_gone_are_given_back() -> None:
    table = InternedVocabulary()
    parts = [(f"a={k}", "b", *(["c"] if k % 3 else [])) for k in range(300)]
    hashes = np.array([cross_hash(some) for some in parts], np.uint64)
    slots = np.full(300, MISSING, np.uint32)
    table.intern_crossed(hashes, slots, factors_of(parts))
    assert slots.tolist() == list(range(300))
    names = table.names()
    assert names == [" x ".join(some) for some in parts]
    for kept in (range(0, 300, 2), range(5, 300, 7)):
        left, _ = table.retain(np.isin(np.arange(300), kept))
        left.check(300)
        assert left.names() == [names[k] for k in kept]
        known = {part for k in kept for part in parts[k]}
        assert len(left.crossed.names) <= 2 * len(known)
        assert known <= set(left.crossed.names.names())
    table.truncate(7)
    table.check(300)
    assert table.names() == names[:7]


def test_a_model_is_the_same_after_loading(tmp_path: Path) -> None:
    rows, y = rows_of(100)
    model = crossing()
    model.learn_many(rows, y)
    model.save(tmp_path / "a")
    loaded = streaml1.load(tmp_path / "a")
    assert loaded.cross == CROSS
    assert list(loaded.weights.items()) == list(model.weights.items())
    loaded.save(tmp_path / "b")
    again = streaml1.load(tmp_path / "b")
    assert list(again.weights.items()) == list(model.weights.items())
    loaded.save(tmp_path / "c")
    assert (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()
    frozen = pickle.loads(pickle.dumps(model.freeze()))
    assert [frozen.predict_one(x) for x in rows] == model.predict_many(rows).tolist()
    assert frozen.weights == model.weights
    clone = model.clone()
    assert clone.cross == CROSS and not clone.weights


def test_at_a_cap() -> None:
    rows, y = rows_of(300)
    one, other = crossing(max_features=40), crossing(max_features=40)
    walked(one, rows, y)
    together(other, rows, y)
    assert one.weights == other.weights
    assert 0 < one.n_nonzero <= 40


def test_order_tells_nothing() -> None:
    rows, y = rows_of(100)
    one, other = crossing([("site", "ad")]), crossing([("ad", "site")])
    one.learn_many(rows, y)
    other.learn_many(rows, y)
    assert list(one.weights.values()) == list(other.weights.values())
    assert "site=s1 x ad=a" in one.weights and "ad=a x site=s1" in other.weights


# What is refused


@pytest.mark.parametrize("cross", [
    "site,ad", [("site",)], [("a", "b", "c", "d")], [("a", 1)], ["ab"], [("a", "")], 5,
    [("a=b", "c")], [("a", "b"), ("b", "a")], [("a x b", "c")], [("\ud800", "a")],
    [(f"p{k}", "q") for k in range(64)],
])  # fmt: skip
def test_what_is_no_cross(cross: Any) -> None:
    with pytest.raises(ValueError, match="^cross"):
        ElasticNetClassifier(cross=cross)


def test_what_joins_names_is_no_prefix() -> None:
    with pytest.raises(ValueError, match="cross has 'a x b', no prefix: ' x ' joins the names"):
        ElasticNetClassifier(cross=[("a x b", "c")])


def test_an_empty_list_crosses_nothing() -> None:
    assert ElasticNetClassifier(cross=[]).cross is None


def test_a_cross_cannot_change() -> None:
    model = crossing()
    with pytest.raises(ValueError, match="cross cannot change"):
        model.cross = [("a", "b")]
    with pytest.raises(ValueError, match="cross cannot change"):
        model.mutate({"cross": None})


def test_matrices_have_no_prefixes() -> None:
    model = crossing()
    X = csr_matrix(np.eye(3))
    for ask in (lambda: model.learn_many(X, [0, 1, 0]), lambda: model.predict_many(X)):
        with pytest.raises(BadExample, match="no names to cross"):
            ask()
    assert model.n_iterations == 0
    model.learn_one({3: 1.0, "site": "a", "ad": "b"}, True)  # an int belongs to no prefix
    assert set(model.weights) == {3, "site=a", "ad=b", "site=a x ad=b"}


def test_a_product_that_is_too_large() -> None:
    good = {"site": 1.0, "ad": 2.0}
    for road in ROADS.values():
        model = crossing([("site", "ad")])
        road(model, [good], [True])
        before = model.weights
        with pytest.raises(BadExample, match=r"'site x ad' is too large") as found:
            model.learn_many([good, good, {"site": 1e30, "ad": 1e30}], [0, 1, 0])
        assert found.value.row == 2
        with pytest.raises(BadExample, match=r"'site x ad' is too large"):
            road(model, [{"site": 1e30, "ad": 1e30}], [True])
        assert model.weights == before
        road(model, [{"site": 1e-200, "ad": 1e-200}], [True])  # it comes to nothing
        assert model.n_features_seen == 3


def test_a_name_that_reads_as_a_cross_is_refused() -> None:
    good = {"site": "5 x 7", "other": "site=a x ad=b", "x": 1.0}
    for road in ROADS.values():
        model = crossing([("site", "ad")])
        road(model, [good], [True])
        for bad in ({"site=a x ad=b": 1.0}, {"site": "a x ad"}):
            with pytest.raises(BadExample, match="reads as a cross") as found:
                model.learn_many([good, bad], [True, False])
            assert found.value.row == 1
            with pytest.raises(BadExample, match="reads as a cross"):
                model.learn_one(bad, True)
        assert model.n_iterations == 1
    model = crossing([("site", "ad")])
    text = io.BytesIO(b"1 |site a\n").getvalue()
    model.learn_many(VwParser().read(text).x, [True])
    assert isinstance(model._engine.vocabulary, InternedVocabulary)


def test_river_checks_it() -> None:
    from river import checks

    made = {"cross": [("a", "b")], "text": ["c"], "ngrams": 2}
    for check in checks.yield_checks(ElasticNetClassifier(**made)):
        check(ElasticNetClassifier(**made).clone())


def test_on_the_command_line(tmp_path: Path) -> None:
    rows = [("news", "a", "Cheap pills, cheap!", 1), ("mail", "b", "see you", 0)] * 40
    table, model = tmp_path / "rows.csv", tmp_path / "model"
    lines = [f'{site},{ad},"{message}",{y}\n' for site, ad, message, y in rows]
    table.write_text("site,ad,message,y\n" + "".join(lines))
    options = ["--target", "y", "--categorical", "site,ad"]
    asked = ["--cross", "site,ad", "--cross", "site,ad,message", "--text", "message"]
    learn = ["learn", str(table), *options, *asked, "--ngrams", "2", "--save", str(model)]
    assert "message=cheap pills" in run(*learn).output
    loaded = streaml1.load(model)
    assert loaded.cross == [("site", "ad"), ("site", "ad", "message")]
    assert loaded.text == ["message"] and loaded.ngrams == 2
    assert "site=news x ad=a x message=cheap" in loaded.weights
    told = run("predict", str(model), str(table), *options).output.split()
    dicts = [{"site": s, "ad": a, "message": m} for s, a, m, _ in rows]
    assert [float(p) for p in told] == [loaded.predict_proba_one(x)[True] for x in dicts]
    shown = run("show", str(model), "--feature", "site=news x ad=a").output
    assert f"{loaded.weights['site=news x ad=a']:.4f}"[:5] in shown and "spelling" not in shown
    assert "Check the spelling" in run("show", str(model), "--feature", "site=mews x ad=a").output
    assert run("learn", str(table), *options, "--load", str(model)).exit_code == 0
    numbers = tmp_path / "rows.svm"
    numbers.write_text("1 1:1\n")
    refused = run("learn", str(numbers), "--cross", "a,b")
    assert (
        refused.exit_code and "is svmlight, whose features have no name prefixes" in refused.output
    )
    refused = run("learn", str(numbers), "--text", "a")
    assert refused.exit_code and "text features need CSV, JSON lines or VW" in refused.output
    lines_of_vw = tmp_path / "rows.vw"
    lines_of_vw.write_text("1 |message cheap pills\n0 |message see you\n")
    refused = run("learn", str(lines_of_vw), "--ngrams", "2")
    assert refused.exit_code and "--ngrams requires --text" in refused.output
    assert run("learn", str(lines_of_vw), "--ngrams", "1").exit_code == 0
    refused = run("learn", str(table), *options[:2], "--cross", "site")
    assert refused.exit_code and "no cross; give two or three" in refused.output


def test_numbers_and_crosses_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused at once, by a sentence that names what can be done there."""
    monkeypatch.chdir(tmp_path)
    Path("a.svm").write_text("1 1:1\n0 2:1\n" * 30)
    Path("a.vw").write_text("1 |a x |b y\n0 |a z |b y\n" * 30)
    for name in ("a.svm", "a.vw"):
        assert run("convert", name, f"{name}.rows").exit_code == 0
    made = ["--cross", "a,b", "--save", "m"]
    assert run("learn", "a.vw.rows", *made).exit_code == 0  # rows of names have prefixes
    assert run("predict", "m", "a.vw.rows").exit_code == 0
    rows = (
        "a.svm.rows was converted from data without names (a.svm), so features have no name "
        "prefixes: "
    )
    for args, said in (
        (["learn", "a.svm.rows", *made], f"{rows}omit --cross"),
        (
            ["learn", "a.svm", *made],
            "a.svm is svmlight, whose features have no name prefixes: ",
        ),
        *(
            (args, f"{told}the model has interactions, so use a source with names")
            for source, told in (
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
        done = run(*args)
        assert done.exit_code == 2 and done.stderr.startswith(f"streaml1: {said}")


def run(*args: str) -> Any:
    return CliRunner().invoke(cli, list(args))


def test_ids_beyond_32_bits_have_no_prefixes_either(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 3:1 5000000000:1\n")
    model = ElasticNetClassifier(cross=[("a", "b")])
    with pytest.raises(BadExample, match="no names to cross"):
        streaml1.progressive(model, path)
    wide = csr_matrix((np.ones(1), [2**40], [0, 1]), shape=(1, 2**41))
    with pytest.raises(BadExample, match="no names to cross"):
        model.learn_many(wide, [True])
    assert not model.weights


def test_of_several_rows_the_first_that_is_refused_is_told() -> None:
    xs = [{"b": 1.0}, {"a=1 x b=2": 1.0}, {"q": float("nan")}]
    with pytest.raises(BadExample, match="reads as a cross") as found:
        ElasticNetClassifier(cross=[("a", "b")]).learn_many(xs, [True] * 3)
    assert found.value.row == 1


def test_the_first_prediction_of_many_crosses_is_a_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame as wide as the dict is too narrow for what is crossed in it: a wider one follows."""
    x = {f"text^{k}": 1.0 for k in range(60)}
    model = ElasticNetClassifier(cross=[("text", "text")])
    learnt = ElasticNetClassifier(cross=[("text", "text")])
    learnt.learn_one(x, True)
    expected = learnt.predict_proba_one(x)
    copied = pickle.loads(pickle.dumps(learnt))
    monkeypatch.setattr(spec.Interactions, "of", lambda *_: pytest.fail("crossed in Python"))
    assert model.predict_proba_one(x) == {False: 0.5, True: 0.5}
    for one in (copied, copied.freeze()):
        assert one.predict_proba_one(x) == expected


@pytest.mark.parametrize("n", [254, 255, 256])
def test_as_many_of_each_of_eight_prefixes_as_a_byte_counts(n: int) -> None:
    heads = ["a^b^c^d^e^f^g^h"[: 2 * k + 1] for k in range(8)]
    cross = [(heads[k], heads[k + 1]) for k in range(0, 8, 2)]
    model = ElasticNetClassifier(cross=cross, hash_bits=18)
    model.learn_many([{f"{heads[-1]}^{k}": 1.0 for k in range(n)}, {"a": 1.0}], [True, False])
    crosses = spec.Interactions([*map(tuple, cross)])
    batch = batch_of([{f"{heads[-1]}^{k}": 1.0 for k in range(n)}])
    assert streaml1.features.interactions.selection.select_factors(
        crosses, batch
    ).bounds.tolist() == [4 * n * n]


NAMES = st.sampled_from(["a", "b", "c^1", "c^2", "k=1", "l=2", "z"])


@settings(max_examples=200)
@given(st.lists(st.lists(NAMES, max_size=4), min_size=1, max_size=9), st.sampled_from([2, 8, 12]))
def test_how_many_crosses_rows_have_at_most(rows: list[list[str]], n: int) -> None:
    """Also of a row that has what the one before has, and of one that has it in another order."""
    heads = list("abcdefghijkl")[:n]
    crosses = spec.Interactions([*zip(heads[::2], heads[1::2], strict=True), ("c", "c")])
    batch = batch_of([dict.fromkeys(names, 1.0) for names in rows])
    select_factors = streaml1.features.interactions.selection.select_factors(crosses, batch)
    expected, most = [], 0
    for names in map(set, rows):
        of = {p: sum(belongs(name, p) for name in names) for p in crosses.prefixes}
        expected.append(sum(of[p] * of[q] for p, q in zip(heads[::2], heads[1::2], strict=True)))
        expected[-1] += of["c"] ** 2
        most = max(most, sum(any(belongs(name, p) for p in crosses.prefixes) for name in names))
    assert select_factors.bounds.tolist() == expected
    assert select_factors.longest == most
