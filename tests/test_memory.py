"""Memory of a model: slot reuse, weight limits, hashed slots, copies and change tracking."""

from __future__ import annotations

import copy
import math
import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import BadExample, ElasticNetClassifier, ElasticNetRegressor
from streaml1.core import hashing, jit
from streaml1.core.hashing import PROCESS_KEY
from streaml1.core.rows import sorted_unique
from streaml1.features import dict_reader
from streaml1.features.vocabulary import InternedVocabulary, IntVocabulary, name_arena
from streaml1.features.vocabulary import hash_keys as keys
from streaml1.features.vocabulary.byte_interning import HashIndex, distinct
from streaml1.features.vocabulary.name_arena import NameArena
from streaml1.features.vocabulary.probing import MISSING, capacity_of
from streaml1.models.state.change_tracking import TrackedWeights, _symmetric_difference
from streaml1.models.state.pruning import smallest_slots
from streaml1.optim import loop
from streaml1.sources.readers.vw import VwParser
from streaml1.text.parsed_rows import IntRows
from streaml1.training import progressive
from tests import reference


class Dict(dict):  # type: ignore[type-arg]
    """A dict subclass, which the compiled dict reader leaves to the Python fallback."""


@pytest.mark.parametrize(
    ("n", "remaining", "size"), [(482, 30, 1024), (483, 40, 2048), (2, 30, 1024)]
)
def test_capacity_grows_only_if_freeing_zero_weights_is_not_enough(
    n: int, remaining: int, size: int
) -> None:
    model = ElasticNetClassifier(l1=0.01, lr=0.1, schedule="constant")
    frequent = {f"often {k}": 1.0 for k in range(30)}
    for k in range(10):
        model.learn_one({f"rare {k}": 1.0}, True)
    for t in range(200):
        model.learn_one(frequent, t % 3 > 0)
    assert model.n_nonzero == 30
    with model._state.exclusive():
        model._state._make_room(n)
    assert (len(model._state.vocabulary), model._state.rule.size) == (remaining, size)
    model._state.check()
    assert model.n_features_seen == 40


def test_int_slots_have_headroom() -> None:
    """Slowly rising ids must not reallocate all weights with every block."""
    model = ElasticNetClassifier(lr=0.1)
    sizes = []
    for top in (100_000, 105_000, 112_000):
        ids = np.arange(top - 1000, top + 1, 10, dtype=np.uint32)
        rows = IntRows(ids, np.ones(len(ids)), np.array([0, len(ids)]), plain=True)
        model.learn_many(rows, [True])
        sizes.append(model._state.rule.size)
    assert sizes == [112_501] * 3


# Unbounded vocabularies


def learn_unbounded_stream(
    model: Any, examples: int, name: Callable[[int], Any], start: int = 0
) -> None:
    for i in range(start, start + examples):
        x = {name(5 * i + j): 0.05 for j in range(4)} | {name(-1 - i % 10): 1.0}
        model.learn_one(x, i % 10 < 5)


@pytest.mark.parametrize(
    "name",
    [
        lambda k: f"name {k}",
        lambda k: (k, "name"),
        lambda k: k if k >= 0 else f"{k}",
        lambda k: k + 2**30,
        lambda k: 2**20 * (k + 10),
    ],
)
def test_memory_is_proportional_to_nonzero_weights(name: Callable[[int], Any]) -> None:
    model = ElasticNetClassifier(l1=0.02, lr=0.5, schedule="constant")
    learn_unbounded_stream(model, 1_000, name)
    model.predict_one({name(0): 1.0})
    size, nbytes = model._state.rule.size, model._raw_memory_usage
    tracemalloc.start()
    learn_unbounded_stream(model, 6_000, name, start=1_000)
    growth = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert model._state.rule.size <= 2 * size <= 8192
    assert model._raw_memory_usage <= 2 * nbytes + 2**18
    assert growth < 2**20
    assert 5 <= model.n_nonzero < 100
    seen = 7_000 * 4 + 10
    assert model.n_features_seen == pytest.approx(seen, rel=4 * 1.04 / 64)
    model._state.check()


def test_widely_spread_ints_are_interned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense int ids map directly to slots; widely spread ids go through the hash table."""
    d = 2**25
    model, twin = ElasticNetClassifier(lr=0.1, l1=1e-3), ElasticNetClassifier(lr=0.1, l1=1e-3)
    rng = np.random.default_rng(5)
    ids = np.sort(rng.choice(d, (200, 20)), axis=1).astype(np.int32)
    X = csr_matrix((np.ones(ids.size), ids.ravel(), np.arange(201) * 20), (200, d))
    X.sum_duplicates()
    y = rng.random(200) < 0.5
    p = model.progressive_many(X, y)
    assert isinstance(model._state.vocabulary, InternedVocabulary)
    ranks = {j: k for k, j in enumerate(np.unique(X.indices).tolist())}
    compact = csr_matrix((X.data, [ranks[j] for j in X.indices.tolist()], X.indptr))
    assert p.tobytes() == twin.progressive_many(compact, y).tobytes()
    assert isinstance(twin._state.vocabulary, IntVocabulary)
    assert {ranks[j]: w for j, w in model.weights.items()} == twin.weights


def random_csr(ids: Any) -> tuple[Any, Any]:
    """Return rows with 20 ids each, all values 1.0, and their labels."""
    n = len(ids) // 20
    X = csr_matrix((np.ones(len(ids)), ids, np.arange(n + 1) * 20))
    X.sum_duplicates()
    return X, np.arange(n) % 3 == 0


@pytest.mark.parametrize(
    ("n_columns", "vocabulary_type"), [(400_000, IntVocabulary), (20_000, InternedVocabulary)]
)
def test_large_matrix_chooses_slots_by_distinct_columns(
    n_columns: int, vocabulary_type: type
) -> None:
    """The choice depends on the number of distinct columns, not on the first rows."""
    rng = np.random.default_rng(6)
    columns = rng.choice(5_000_000, n_columns, replace=False).astype(np.int32)
    X, y = random_csr(columns[rng.integers(0, n_columns, 800_000)])
    model, twin = (ElasticNetClassifier(lr=0.1, l1=1e-5) for _ in range(2))
    p = model.progressive_many(X, y)
    assert isinstance(model._state.vocabulary, vocabulary_type)
    rows = (
        twin.progressive_many(X[lo : lo + 500], y[lo : lo + 500]) for lo in range(0, 40_000, 500)
    )
    assert p.tobytes() == b"".join(row.tobytes() for row in rows)
    assert model.weights == twin.weights


def test_interned_ints_become_slots_when_the_table_grows() -> None:
    """Small blocks start in a hash table; the ids move to direct slots when it has to grow."""
    rng = np.random.default_rng(7)
    X, y = random_csr(rng.integers(0, 4_500_000, 600_000).astype(np.int32))
    model, twin = (ElasticNetClassifier(lr=0.1, l1=1e-5) for _ in range(2))
    kinds, p = [], []
    for lo in range(0, 30_000, 1_000):
        p.append(model.progressive_many(X[lo : lo + 1000], y[lo : lo + 1000]))
        kinds.append(type(model._state.vocabulary))
    change = kinds.index(IntVocabulary)
    assert 1 <= change < 29
    assert kinds == [InternedVocabulary] * change + [IntVocabulary] * (30 - change)
    assert np.concatenate(p).tobytes() == twin.progressive_many(X, y).tobytes()
    assert model.weights == twin.weights
    assert model.n_features_seen == len(np.unique(X.indices))


@given(st.lists(st.integers(0, 40), max_size=60))
def test_sorted_unique_matches_numpy(ints: list[int]) -> None:
    assert sorted_unique(np.array(ints, np.uint32)).tolist() == np.unique(ints).tolist()


# max_features


def learn_and_count(model: Any, x: Any, y: bool) -> int:
    model.learn_one(x, y)
    return int(model.n_nonzero)


@given(
    limit=st.integers(1, 30),
    rows=st.lists(
        st.tuples(st.sets(st.integers(0, 60), max_size=12), st.booleans()), min_size=1, max_size=40
    ),
    l1=st.sampled_from([0.0, 0.01]),
)
def test_max_features_is_never_exceeded(
    limit: int, rows: list[tuple[set[int], bool]], l1: float
) -> None:
    params: dict[str, Any] = {"l1": l1, "lr": 0.3, "max_features": limit}
    by_ints, by_strings = ElasticNetClassifier(**params), ElasticNetClassifier(**params)
    fallback, batch = ElasticNetClassifier(**params), ElasticNetClassifier(**params)
    xs = [{f"w{j}": 1.0 + j / 100 for j in sorted(row)} for row, _ in rows]
    for x, (row, y) in zip(xs, rows, strict=True):
        assert learn_and_count(by_ints, {j: 1.0 + j / 100 for j in sorted(row)}, y) <= limit
        assert learn_and_count(by_strings, x, y) <= limit
        assert learn_and_count(fallback, Dict(x), y) <= limit
    batch.learn_many(xs, [y for _, y in rows])
    assert by_strings.weights == fallback.weights == batch.weights
    assert by_strings.n_cut == fallback.n_cut == batch.n_cut
    for model in (by_ints, by_strings, fallback, batch):
        model._state.check()


CAPPED: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "elastic net": (
        streaml1.ElasticNetClassifier, reference.ElasticNet, {"lr": 0.1, "l1": 1e-3, "l2": 0.1}
    ),
    "truncated gradient": (
        streaml1.TruncatedGradientClassifier,
        reference.TruncatedGradient,
        {"gravity": 0.01, "period": 3},
    ),
    "l2 norm": (streaml1.FOBOSClassifier, reference.FOBOS, {"strength": 0.3}),
    "linf norm": (streaml1.FOBOSClassifier, reference.FOBOS, {"strength": 0.3, "norm": "linf"}),
    "ball": (streaml1.L1BallClassifier, reference.L1Ball, {"radius": 1.0}),
    "ball, tree": (streaml1.L1BallClassifier, reference.L1Ball, {"radius": 1.0, "index": "tree"}),
    "Pegasos": (streaml1.PegasosClassifier, reference.Pegasos, {"l2": 1e-3}),
    "Pegasos, free": (
        streaml1.PegasosClassifier, reference.Pegasos, {"l2": 1e-3, "project": False}
    ),
}  # fmt: skip


def test_pruning_breaks_ties_by_name_hash() -> None:
    slots, vocabulary = np.arange(6, dtype=np.uint32), IntVocabulary()
    sizes = np.array([2.0, 1.0, 2.0, 3.0, 2.0, 0.5])
    ties = sorted((0, 2, 4), key=lambda slot: int(vocabulary.hashes(slots)[slot]))
    for n, expected in ((1, [5]), (2, [5, 1]), (3, [5, 1, *ties[:1]]), (4, [5, 1, *ties[:2]])):
        assert sorted(smallest_slots(slots, sizes, n, vocabulary).tolist()) == sorted(expected)


@pytest.mark.parametrize("case", CAPPED)
def test_step_after_pruning_equals_dense_step(case: str) -> None:
    """After pruning, the next step equals the dense step from the remaining weights."""
    make_model, make_twin, params = CAPPED[case]
    model = make_model(max_features=10, **params)
    twin = make_twin(40, **{name: v for name, v in params.items() if name != "index"})
    rng, n_cut = np.random.default_rng(1), 0
    for _ in range(1000):
        ids, values = rng.choice(40, 3, replace=False), 5.0 * rng.normal(size=3)
        row, y = np.zeros(40), bool(rng.integers(2))
        row[ids] = values
        twin.w, twin.b = np.zeros(40), model.intercept
        for j, w in model.weights.items():
            twin.w[j] = w
        twin.learn(row, 1.0 if y else -1.0)
        model.learn_one(dict(zip(ids.tolist(), values.tolist(), strict=True)), y)
        remaining = model.weights
        removed = set(np.flatnonzero(twin.w).tolist()) - set(remaining)
        assert len(remaining) <= 10 and len(removed) <= model.n_cut - n_cut
        n_cut = model.n_cut
        w, expected = np.array([*remaining.values()]), twin.w[[*remaining]]
        assert (np.abs(w - expected) <= np.maximum(1e-9 * np.abs(expected), 1e-12)).all()
    assert n_cut > 500
    model._state.check()


def test_smallest_weights_are_pruned() -> None:
    """With distinct values, pruning keeps exactly the weights that sorting by size would keep."""
    rng = np.random.default_rng(3)
    values = rng.permutation(np.arange(1.0, 101.0))
    model = ElasticNetRegressor(
        lr=0.1, schedule="constant", intercept_lr=0.0, max_features=40, l1=1e-6
    )
    for k, v in enumerate(values):
        model.learn_one({f"w{k}": 1.0}, v)  # its weight is about v / 10
    retained = {int(name[1:]) for name in model.weights}
    assert 35 <= len(retained) <= 40
    assert model.n_cut == 100 - len(retained)
    order = np.argsort(-values)
    assert set(order[:30].tolist()) <= retained  # these were never among the smallest
    unpickled = pickle.loads(pickle.dumps(model))
    assert unpickled.n_cut == model.n_cut and unpickled.weights == model.weights
    unpickled._state.check()


def test_ties_do_not_depend_on_slot_order(tmp_path: Path) -> None:
    """Break ties by name, since slots depend on reuse, and do not drop all tied weights."""
    retained = []
    for order in (range(64), reversed(range(64))):
        model = ElasticNetClassifier(lr=0.5, schedule="constant", max_features=63)
        model.learn_one({f"w{j}": 1.0 for j in order}, True)
        assert model.n_cut == 64 - 56
        retained.append(set(model.weights))
    assert retained[0] == retained[1]


def test_max_features_can_change() -> None:
    model = ElasticNetClassifier(lr=0.5)
    model.learn_one({j: 1.0 + j for j in range(100)}, True)
    model.mutate({"max_features": 50})
    assert model.n_nonzero == 100  # from the next step on
    model.learn_one({}, True)
    assert model.n_nonzero == 44
    assert set(model.weights) == set(range(56, 100))
    model.max_features = None
    model.learn_one({j: 1.0 for j in range(60)}, True)
    assert model.n_nonzero == 100
    model._state.check()


# Hashes


def test_name_hash_is_murmurhash64a() -> None:
    """Expected values are printed by the reference C implementation (MurmurHash64A, seed 0)."""
    expected = {"": 0, "a": 510903276987443985, "site=news": 7537057699728869816}
    expected["12345678"] = 8471103573108904450
    for name, h in expected.items():
        assert hashing.name_hash(name) == h
    assert hashing.name_hashes(list(expected)).tolist() == list(expected.values())


@given(st.lists(st.text(max_size=40) | st.integers(-(2**70), 2**70) | st.binary(max_size=9)))
def test_batch_hashes_equal_single_hashes(names: list[Any]) -> None:
    assert hashing.name_hashes(names).tolist() == [hashing.name_hash(name) for name in names]
    texts = [name for name in names if isinstance(name, str)]
    assert hashing.name_hashes(texts).tolist() == [hashing.name_hash(name) for name in texts]


def test_equal_keys_have_equal_hashes() -> None:
    groups: list[list[Any]] = [[1, 1.0, True, np.int64(1), np.float32(1)], [2**70, float(2**70)]]
    groups += [[0.5, np.float64(0.5)], [(1, "a"), (True, "a")], ["a", np.str_("a")]]
    for same in groups:
        assert len({hashing.name_hash(name) for name in same}) == 1


def test_hashed_slots_do_not_depend_on_the_process(python: Callable[..., str]) -> None:
    script = (
        "from streaml1 import ElasticNetClassifier as M\n"
        "m = M(hash_bits=12)\n"
        "print([m.slot(n) for n in ('a', 'site=n', 7, 5000, -3, 0.5, ('a', 1), None, b'x', 'é')])"
    )
    compiled = python("-c", script, PYTHONHASHSEED="1")
    assert compiled == python("-c", script, PYTHONHASHSEED="2", NUMBA_DISABLE_JIT="1")
    assert "7," in compiled  # an int below 2**bits is its own slot


values = st.sampled_from([1.0, -1.0, 2.5, True, 3, 0.0, None, "x", "y=z", "", "é", "\ud800"])
hashed_names = (
    st.text("ab=é", max_size=3) | st.integers(-3, 40) | st.sampled_from([2**40, "a" * 99])
)


@given(
    st.lists(
        st.tuples(st.dictionaries(hashed_names, values, max_size=12), st.booleans()), max_size=12
    ),
    st.sampled_from([1, 3, 5, 12]),
)
def test_hashed_learning_is_bit_identical_on_all_paths(
    rows: list[tuple[dict[Any, Any], bool]], b: int
) -> None:
    models = [ElasticNetClassifier(lr=0.1, l1=1e-3, l2=1e-2, hash_bits=b) for _ in range(3)]
    for x, y in rows:
        assert models[0].predict_proba_one(x) == models[1].predict_proba_one(Dict(x))
        models[0].learn_one(x, y)
        models[1].learn_one(Dict(x), y)
    models[2].learn_many([x for x, _ in rows], [y for _, y in rows])
    assert models[0].weights == models[1].weights == models[2].weights
    assert models[0].intercept == models[1].intercept == models[2].intercept
    for model in models:
        model._state.check()


def test_hashed_matrix_equals_hashed_dicts() -> None:
    """Columns below 2**bits are slots; columns from 2**bits are hashed."""
    rng = np.random.default_rng(1)
    for d, b in ((50, 6), (5_000, 6), (5_000, 10)):
        X = csr_matrix(rng.normal(size=(300, d)) * (rng.random((300, d)) < 20 / d))
        y = rng.random(300) < 0.5
        model, twin = (ElasticNetClassifier(lr=0.1, l1=1e-3, hash_bits=b) for _ in range(2))
        p = model.progressive_many(X, y)
        q = []
        for i in range(300):
            lo, hi = X.indptr[i], X.indptr[i + 1]
            x = dict(zip(X.indices[lo:hi].tolist(), X.data[lo:hi].tolist(), strict=True))
            q.append(twin.predict_proba_one(x)[True])
            twin.learn_one(x, bool(y[i]))
        assert p.tolist() == q
        assert model.weights == twin.weights


def test_colliding_names_share_a_weight() -> None:
    model = ElasticNetClassifier(lr=0.1, hash_bits=4)
    names = [f"w{k}" for k in range(100)]
    colliding = model.collisions("w0", names)
    assert colliding and "w0" not in colliding
    assert {model.slot(name) for name in colliding} == {model.slot("w0")}
    model.learn_one({"w0": 1.0}, True)
    assert model.weights == {model.slot("w0"): pytest.approx(0.05)}
    assert model._margin({colliding[0]: 1.0}) == model._margin({"w0": 1.0})
    model.learn_one({"w0": 1.0, colliding[0]: -1.0}, True)  # the values cancel
    assert model.n_features_seen == 1
    with pytest.raises(AttributeError, match="hash_bits=None"):
        ElasticNetClassifier(lr=0.1).slot("w0")
    with pytest.raises(BadExample, match="whose hash differs between processes"):
        model.learn_one({frozenset({1}): 1.0}, True)
    with pytest.raises(BadExample, match="too large"):
        model.learn_one({"w0": 9e49, colliding[0]: 9e49}, True)
    with pytest.raises(BadExample, match="share a slot"):
        model.learn_many([{"w0": 9e49, colliding[0]: 9e49}], [True])
    with pytest.raises(ValueError, match="hash_bits cannot change"):
        model.hash_bits = 5


def test_features_seen_are_estimated_with_hashing() -> None:
    model = ElasticNetClassifier(lr=0.1, hash_bits=14, l1=0.5)
    for i in range(200):
        model.learn_one({f"w{i * 50 + j}": 1.0 for j in range(50)}, i % 2 == 0)
    assert model.n_features_seen == pytest.approx(10_000, rel=0.03)


# Names with equal hashes


@pytest.mark.skipif(not dict_reader.AVAILABLE, reason="dict kernels are not available")
def test_names_with_equal_hashes_are_one_feature_on_all_paths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Finding 64-bit collisions is infeasible, so only 8 bits of the hash are used."""
    monkeypatch.setattr(keys, "HASH", 255)
    models = [ElasticNetClassifier(l1=1e-3, lr=0.3) for _ in range(3)]
    rng = np.random.default_rng(2)
    for i in range(300):
        x = {f"w{k}": 1.5 - k / 4000 for k in rng.integers(0, 2_000, i % 9).tolist()}
        x |= {int(k): 0.5 for k in rng.integers(0, 1_000, i % 3).tolist()}
        # If two names in a row collide, only the Python path sums their values first.
        hashes = keys.hashes_of(list(x))[0].tolist()
        x = {name: v for k, (name, v) in enumerate(x.items()) if hashes[k] not in hashes[:k]}
        y = bool(rng.random() < 0.5)
        compiled, fallback, batch = models
        assert compiled.predict_proba_one(x) == fallback.predict_proba_one(Dict(x))
        compiled.learn_one(x, y)
        fallback.learn_one(Dict(x), y)
        batch.learn_many([x], [y])
    assert compiled.weights == fallback.weights == batch.weights
    assert 100 < len(compiled.weights) <= 256


@pytest.mark.parametrize("special", [("t", 1), "t1"])
def test_interned_bytes_coexist_with_non_string_names(special: Any) -> None:
    """New names evict zero weights, so all slots move."""
    models = [ElasticNetClassifier(l1=0.2, lr=1.0, schedule="constant") for _ in range(2)]
    for model in models:
        for n in range(10):
            model.learn_one({f"z{n}-{k}": 1e-3 for k in range(97)}, True)
        model.learn_one({special: 3.0}, True)
        model.learn_one({"keep": 3.0, "k2": -2.0}, True)
    names = " ".join(f"n{k}:3" for k in range(300))
    models[0].learn_many(VwParser().read(f"-1 | keep k2:-1 {names}\n".encode()).x, [False])
    models[1].learn_one({"keep": 1.0, "k2": -1.0} | {f"n{k}": 3.0 for k in range(300)}, False)
    assert models[0].weights == models[1].weights and len(models[0].weights) > 300
    models[0]._state.check()


def test_arena_is_unchanged_after_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    arena, grown, calls = NameArena(), name_arena._grown, []

    def fail_once(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise MemoryError
        return grown(*args)

    before = len(arena.hashes)
    monkeypatch.setattr(name_arena, "_grown", fail_once)
    with pytest.raises(MemoryError):
        arena.reserve(1000, 10)
    assert len(arena.hashes) == before == len(arena.ends) - 1
    arena.reserve(1000, 10)
    assert 1000 <= len(arena.hashes) == len(arena.ends) - 1


# Some hashes collide on one bucket and overflow it; 0 is also the marker of a free entry.
KEY_INVERSE = pow(int(PROCESS_KEY), -1, 2**64)
# Any hashes, and such that their searches begin at the same line in tables with up to 16 lines.
HASHES = st.integers(0, 2**64 - 1) | st.builds(
    lambda line, k: ((line << 60) + k) * KEY_INVERSE % 2**64,
    st.sampled_from([0, 1, 15]),
    st.integers(0, 20),
)


@given(st.lists(HASHES, max_size=120), st.integers(0, 50), st.sampled_from([1, 7, 120]))
def test_hash_index_matches_a_dict(hashes: list[int], limit: int, step: int) -> None:
    """Insert known names, intern in steps up to the limit, then look up all hashes."""
    index, arena, twin = HashIndex(), NameArena(), dict[int, int]()
    letters, spans = np.zeros(0, np.uint8), np.zeros(len(hashes), np.uint64)
    known = list(dict.fromkeys(hashes))[: limit // 2]
    index.enter(np.array(known, np.uint64), np.arange(len(known), dtype=np.uint32))
    index.n = len(known)
    twin.update((h, slot) for slot, h in enumerate(known))
    for lo in range(0, len(hashes), step):
        chunk = np.array(hashes[lo : lo + step], np.uint64)
        slots = np.full(len(chunk), 77, np.uint32)
        pos = index.intern(chunk, slots, letters, spans, arena, limit)
        for k, h in enumerate(chunk.tolist()):
            if h not in twin and len(twin) >= limit:
                assert pos == k
                break
            assert slots[k] == twin.setdefault(h, len(twin))
        else:
            assert pos == len(chunk)
        assert (slots[pos:] == 77).all()
        assert index.n == index.used[0] == len(twin)
        assert 2 * len(twin) <= capacity_of(index.entries)
    slots, missing = index.find(np.array(hashes, np.uint64))
    assert slots.tolist() == [twin.get(h, MISSING) for h in hashes]
    assert missing.tolist() == [k for k, h in enumerate(hashes) if h not in twin]


@given(st.dictionaries(HASHES, st.integers(0, 99)), st.sets(st.integers(0, 99)))
def test_hash_index_remap_keeps_retained_slots(slot_of: dict[int, int], dropped: set[int]) -> None:
    """The slots may be a subset, as in the table of crossed features."""
    index = HashIndex()
    hashes = np.array(list(slot_of), np.uint64)
    index.enter(hashes, np.array(list(slot_of.values()), np.uint32))
    new_slots = np.array([-1 if j in dropped else 2 * j for j in range(100)])
    remapped = index.remapped(new_slots)
    expected = [2 * j for j in slot_of.values() if j not in dropped]
    slots, missing = remapped.find(hashes)
    assert len(missing) == len(slot_of) - len(expected)
    assert slots[slots != MISSING].tolist() == expected
    assert 2 * len(expected) <= capacity_of(remapped.entries)


# Change tracking


@given(
    st.lists(st.integers(0, 5) | st.integers(0, 9).map(lambda k: k * KEY_INVERSE % 2**64)),
    st.data(),
)
def test_distinct_finds_first_positions(hashes: list[int], data: st.DataObject) -> None:
    """Zero hashes and hashes that share a bucket are distinguished as well."""
    positions = [k for k in range(len(hashes)) if data.draw(st.booleans())]
    unknown = distinct(np.array(hashes, np.uint64), np.array(positions, np.int64))
    firsts: dict[int, int] = {}
    for k in positions:
        firsts.setdefault(hashes[k], k)
    assert unknown.first_positions.tolist() == [*firsts.values()]
    known = [hashes[unknown.first_positions[n]] for n in unknown.order.tolist()]
    assert known == [hashes[k] for k in positions]
    slots = np.zeros(len(hashes), np.uint32)
    unknown.fill(slots, np.arange(1, len(firsts) + 1, dtype=np.uint32))
    numbers = {h: n + 1 for n, h in enumerate(firsts)}
    chosen = set(positions)
    assert slots.tolist() == [numbers[h] if k in chosen else 0 for k, h in enumerate(hashes)]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=60), st.integers(0, 40))
def test_arena_stores_names_unchanged(pieces: list[tuple[int, int]], padding: int) -> None:
    """Names are copied in words, or bytewise where reading past the end is not allowed."""
    letters = np.random.default_rng(7).integers(0, 256, 80 + padding).astype(np.uint8)
    spans = np.array([(begin << 32) | size for begin, size in pieces], np.uint64)
    hashes = np.arange(1, len(pieces) + 1, dtype=np.uint64)
    index, arena, slots = HashIndex(), NameArena(), np.empty(len(pieces), np.uint32)
    exact = letters[: max((begin + size for begin, size in pieces), default=0) + padding]
    pos = 0
    # Each call resumes where the last one stopped.
    for limit in (len(pieces) // 3, len(pieces) // 2, MISSING):
        pos = index.intern(hashes, slots, exact, spans, arena, limit, pos)
        assert pos == min(limit, len(pieces)) == len(arena) == index.n
        assert 2 * int(index.used[0]) <= capacity_of(index.entries)
    assert slots.tolist() == list(range(len(pieces)))
    raw = [arena.bytes[arena.ends[k] : arena.ends[k + 1]].tobytes() for k in range(len(arena))]
    assert raw == [letters[begin : begin + size].tobytes() for begin, size in pieces]
    retained = np.arange(len(pieces)) % 3 > 0
    remaining = arena.retained(retained)
    raw_remaining = [
        remaining.bytes[remaining.ends[k] : remaining.ends[k + 1]].tobytes()
        for k in range(len(remaining))
    ]
    assert raw_remaining == [
        name for name, is_retained in zip(raw, retained, strict=True) if is_retained
    ]


def test_changes_list_added_and_dropped_features() -> None:
    model = ElasticNetClassifier(l1=0.1, lr=1.0, schedule="constant", intercept_lr=0.0)
    watch, second_watch = model.watch(), model.watch()
    model.learn_one({"a": 1.0, "b": 0.5}, True)
    assert [name for name, _ in watch.changes().born] == ["a", "b"]
    assert watch.changes() == ([], [])
    for _ in range(2):
        model.learn_one({"c": 1.0}, False)
    born, died = watch.changes()
    assert [name for name, _ in born] == ["c"] and [name for name, _ in died] == ["b"]
    model._state._reserve_entries(5_000)  # evicts zeros, which moves all slots
    for _ in range(3):
        model.learn_one({}, False)
    assert [name for name, _ in watch.changes().died] == ["a"]
    assert [name for name, _ in second_watch.changes().born] == ["c"]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12)), max_size=60),
    st.sampled_from([(), [("w", "x")]]),
)
def test_changes_match_differences_of_weights(plan: list[tuple[int, int]], cross: Any) -> None:
    """Compare with differences of `weights`, through evictions, pruning and rejected batches."""
    options = {"l1": 0.05, "lr": 1.0, "schedule": "constant", "max_features": 8}
    model = ElasticNetClassifier(cross=cross, **options)
    watch, limited, before = model.watch(), model.watch(), dict[Any, float]()
    previous: Any = None
    for event, k in plan:
        if event == 0:
            model.learn_one({f"w{k}": 1.0, k: 0.5}, k % 2 == 0)
        elif event == 4:
            text = b"1 | w%d:1 x%d:0.5\n" % (k, k % 3)
            model.learn_many(VwParser().read(text).x, [k % 2 == 0])
        elif event == 1 and isinstance(model._state.vocabulary, InternedVocabulary):
            with model._state.exclusive():
                model._state._make_room(k)
        elif event == 2:
            with pytest.raises(BadExample):
                model.learn_many([{f"v{k}": 1.0}, {"bad": math.inf}], [True, False])
        else:
            current = model.weights
            born, died = watch.changes()
            if previous is not None:  # later learning and moved slots must not matter
                assert previous[0].named(2) == previous[1]
            look = limited.look()
            names, counts = look.named(2), look.counts
            previous = look, names
            assert counts == (len(born), len(died))
            for shown, all_changes in zip(names, (born, died), strict=True):
                assert set(shown) <= set(all_changes) and len(shown) >= min(2, len(all_changes))
                assert [abs(w) for _, w in shown] == [abs(w) for _, w in all_changes[: len(shown)]]
            assert dict(born) == {name: w for name, w in current.items() if name not in before}
            assert dict(died) == {name: w for name, w in before.items() if name not in current}
            before = current


@pytest.mark.parametrize("limit", [5, None])
def test_only_reported_names_are_decoded(
    limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after slots were reused."""
    model = ElasticNetClassifier(l1=1e-3, lr=1.0, schedule="constant", intercept_lr=0.0)
    watch = model.watch()
    decoded, name = [], NameArena.name
    monkeypatch.setattr(NameArena, "name", lambda arena, k: decoded.append(k) or name(arena, k))
    for prefix, label in ((b"a", True), (b"b", False)):
        lines = b"".join(b"1 | %s%d\n" % (prefix, k) for k in range(2_000))
        model.learn_many(VwParser().read(lines).x, [label] * 2_000)
        born = watch.look().counts[0]
        assert born > 100
    model.learn_many(VwParser().read(b"-1 |\n" * 200).x, [False] * 200)
    decoded.clear()
    with model._state.exclusive():
        model._state._make_room(5_000)
    assert not decoded
    look = watch.look()
    changes, (born, died) = look.named(limit), look.counts
    assert not born and died > 100
    assert len(decoded) == len(changes.died) == min(died, limit or died)


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_symmetric_difference_of_tracked_weights(a: set[int], b: set[int]) -> None:
    snapshots = [
        TrackedWeights(np.array(sorted(slots_at), np.int64), np.array(sorted(slots_at), np.float64))
        for slots_at in (a, b)
    ]
    for (slots, w), expected in zip(_symmetric_difference(*snapshots), (a - b, b - a), strict=True):
        assert slots.tolist() == w.tolist() == sorted(expected)


@pytest.mark.parametrize("lr", [1.0, "auto"])
@given(
    size=st.integers(1, 40),
    slots=st.sets(st.integers(0, 39), max_size=6),
    l1=st.sampled_from([0.0, 0.4]),
)
def test_nonzero_weights_finds_all_weights(lr: Any, size: int, slots: set[int], l1: float) -> None:
    """The kernel skips blocks of eight untouched slots."""
    model = ElasticNetClassifier(l1=l1, lr=lr, intercept_lr=0.0)
    model.learn_one({j: 1.0 + j % 3 for j in slots if j < size}, True)
    rule = type(model._state.rule).from_state_dict(size, *model._state.rule.state_dict())
    weights, live_slots, w = rule.weights(), np.empty(size, np.int64), np.empty(size)
    n = loop.nonzero_weights(rule, live_slots, w)
    assert live_slots[:n].tolist() == np.flatnonzero(weights).tolist()
    assert w[:n].tolist() == weights[live_slots[:n]].tolist()


def test_report_lines_resolve_names_lazily(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups: list[int] = []
    names_at = InternedVocabulary.names_at
    monkeypatch.setattr(
        InternedVocabulary,
        "names_at",
        lambda vocabulary, slots: lookups.append(len(slots)) or names_at(vocabulary, slots),
    )
    stream = (({f"w{k % 97}": 1.0}, k % 3 == 0) for k in range(500))
    report = progressive(ElasticNetClassifier(lr=0.1), stream, every=100)
    assert [line.born for line in report.lines] == [97, 0, 0, 0, 0] and not lookups
    assert report.changes == ([], [])
    report = progressive(ElasticNetClassifier(lr=0.1), [({"a": 1.0}, True)])
    assert [name for name, _ in report.changes.born] == ["a"] and sum(lookups) == 1


def test_rejected_matrix_reports_no_changes() -> None:
    model = ElasticNetClassifier(lr=0.1, l1=1e-4)
    model.learn_one({3: 1.0, 2**22: 1.0}, True)
    watch = model.watch()
    X = csr_matrix((np.ones(6000), (np.arange(6000), np.arange(6000) * 10_000)), (6000, 2**26))
    X.data[-1] = math.nan
    before = model.weights
    with pytest.raises(BadExample):
        model.learn_many(X, np.zeros(6000, int))
    assert model.weights == before
    assert watch.changes() == ([], [])
    model._state.check()


# Copies


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["columns", "words"])
def test_copies_store_only_nonzero_weights(kind: str) -> None:
    """A hundred copies of a model with 10^6 seen and 1,000 live features take 200 kB each."""
    model = ElasticNetClassifier(l1=1e-4, lr=0.1, schedule="constant")
    name = (lambda j: j) if kind == "columns" else (lambda j: f"word {j}")
    rng = np.random.default_rng(0)
    d = 10**6
    ids = rng.permutation(d).astype(np.int32)
    X = csr_matrix((np.full(d, 1e-4), ids, np.arange(10_001) * 100), (10_000, d))
    if kind == "columns":
        model.learn_many(X, rng.random(10_000) < 0.5)
    else:
        for i in range(0, d, 500):
            model.learn_one({name(j): 1e-4 for j in range(i, i + 500)}, i % 1000 == 0)
    chosen = [name(j) for j in rng.choice(d, 1000, replace=False).tolist()]
    model.learn_one(dict.fromkeys(chosen, 1.0), True)
    assert model.n_nonzero == 1000
    x = dict.fromkeys(chosen[:80], 1.0)
    expected = model.predict_proba_one(x)
    assert len(pickle.dumps(model)) < 60_000
    for duplicate in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert duplicate.predict_proba_one(x) == expected  # also compiles what copies need
    tracemalloc.start()
    copies = [
        copy.deepcopy(model) if k % 2 else pickle.loads(pickle.dumps(model)) for k in range(100)
    ]
    assert [duplicate.predict_proba_one(x) for duplicate in copies] == [expected] * 100
    assert tracemalloc.get_traced_memory()[0] < 100 * 200_000
    tracemalloc.stop()
    assert all(
        duplicate.n_features_seen == pytest.approx(d, rel=4 * 1.04 / 64) for duplicate in copies[:3]
    )


def test_interpreted_hash_equals_compiled_hash() -> None:
    if jit.COMPILED:
        data = np.frombuffer(bytearray("ein längerer text".encode()), np.uint8)
        with np.errstate(over="ignore"):
            h = hashing.murmur64.py_func(data, np.uint64(0), np.uint64(len(data)))  # type: ignore
        assert int(h) == hashing.name_hash("ein längerer text")


# Names of custom classes


def test_custom_key_equal_to_an_int_is_the_same_feature() -> None:
    class Five:
        def __hash__(self) -> int:
            return hash(5)

        def __eq__(self, other: object) -> bool:
            return other == 5

    for name in (Five(), 5 + 0j):
        model = ElasticNetRegressor(lr=0.1)
        model.learn_one({name: 1.0}, 1.0)
        X = csr_matrix(([1.0], [5], [0, 1]), shape=(1, 10))
        model.learn_many(X, [1.0])
        assert len(model.weights) == 1
        assert model.predict_one({5: 1.0}) == model.predict_many(X)[0] == model._margin({name: 1.0})
        model._state.check()


def test_distinct_keys_with_one_name_are_one_feature() -> None:
    class Own(str):
        def __eq__(self, other: object) -> bool:
            return self is other

        def __hash__(self) -> int:
            return 7

    model, twin = (ElasticNetRegressor(lr=0.1, l1=0.01, max_features=50) for _ in range(2))
    for m, x in ((model, {Own("a"): 1.0, Own("a"): 2.0, "b": 1.0}), (twin, {"a": 3.0, "b": 1.0})):
        m.learn_one(x, 1.0)
        m.learn_many([x], [2.0])
    assert list(model.weights.values()) == list(twin.weights.values())
    model._state.check()


def test_saved_model_distinguishes_surrogates(tmp_path: Path) -> None:
    model = ElasticNetRegressor(lr=0.1)
    model.learn_one({"\ud83d\ude00": 1.0, "\U0001f600": -1.0, "\ud800": 2.0}, 1.0)
    model.save(tmp_path / "m")
    assert streaml1.load(tmp_path / "m").weights == model.weights


# Kernel contexts


@pytest.mark.skipif(not dict_reader.AVAILABLE, reason="dict kernels are not available")
def test_replaced_kernel_context_is_closed() -> None:
    """Another thread may still hold a reference to the old context."""
    model = ElasticNetClassifier(lr=0.1)
    model.learn_one({"a": 1.0}, True)
    model.learn_one({"a": 1.0}, True)
    old_context = model._state._context
    model.predict_one({f"w{k}": 1.0 for k in range(600)})
    assert model._state._context is not old_context
    assert not old_context.is_open and model._state._context.is_open
    assert model._state._context.learns
    x = {"new": 1.0}
    assert old_context.learn(old_context.address, id(x), 1.0, 1.0, 0.1) == dict_reader.FALLBACK
    assert model.n_features_seen == 1


def test_long_rows_take_linear_time() -> None:
    x: dict[str, Any] = {f"w{k}": 1.0 for k in range(3_000)} | {"c": "d"}
    for params in ({}, {"hash_bits": 8}):
        compiled, fallback = (ElasticNetClassifier(l1=1e-3, **params) for _ in range(2))
        for y in (True, False, True):
            compiled.learn_one(x, y)
            fallback.learn_one(Dict(x), y)
            compiled.learn_one({"c=d": 1.0}, y)
            fallback.learn_one({"c=d": 1.0}, y)
        assert compiled.weights == fallback.weights


def test_interrupted_change_of_max_features_loses_nothing() -> None:
    model = ElasticNetClassifier(lr=0.1, max_features=5)
    model.learn_one({"a": 1.0, "b": 1.0}, True)
    model._state.online[0].most = 0  # simulates the interrupt after this assignment
    model.learn_one({"a": 1.0}, True)
    assert len(model.weights) == 2
    model._state.check()
