"""FoBoS with the l-infinity norm: blocks of equal weights and the next largest weight."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from streaml1 import FOBOSClassifier, FOBOSRegressor
from streaml1.features.vocabulary import IntVocabulary
from streaml1.models.state import predictor
from streaml1.optim import fobos_linf
from streaml1.optim.fobos_linf import FobosLinf
from streaml1.optim.structures.weight_blocks import MEMBER
from tests import kit, reference
from tests.learner_data import as_dict, assert_equal_twins

STEADY: dict[str, Any] = {"lr": 1.0, "schedule": "constant", "intercept_lr": 0.0, "norm": "linf"}


def live_blocks(model: Any) -> list[tuple[float, int]]:
    """Return value and size of each block with a positive value, in ascending order."""
    blocks = model._state.rule.blocks
    blocks_found, id = [], int(blocks.higher[0])
    while id != 0:
        blocks_found.append((float(blocks.value[id]), int(blocks.n[id])))
        id = int(blocks.higher[id])
    return [block for block in blocks_found if block[0] > 0.0]


def test_first_steps_by_hand() -> None:
    model = FOBOSRegressor(strength=1.0, **STEADY)
    model.learn_one({"x": 3.0, "y": -4.0, "z": 1.0}, 1.0)  # v = (3, -4, 1)
    assert model.weights == {"x": 3.0, "y": -3.0, "z": 1.0}
    assert live_blocks(model) == [(3.0, 2)]
    model.learn_one({}, 0.0)
    assert model.weights == {"x": 2.5, "y": -2.5, "z": 1.0}
    assert live_blocks(model) == [(2.5, 2)]
    for size in (2.0, 1.5, 1.0):
        model.learn_one({}, 0.0)
        assert model.weights == {"x": size, "y": -size, "z": 1.0}
    model.learn_one({}, 0.0)
    assert model.weights == pytest.approx({"x": 2 / 3, "y": -2 / 3, "z": 2 / 3}, abs=1e-15)
    assert [n for _, n in live_blocks(model)] == [3]
    model.learn_one({"z": 1.0}, 5.0)  # z leaves the block, up to 5
    assert model.weights == pytest.approx({"x": 2 / 3, "y": -2 / 3, "z": 4.0}, abs=1e-15)
    assert [n for _, n in live_blocks(model)] == [2, 1]
    for size in (3.0, 2.0, 1.0):
        model.learn_one({}, 0.0)
        assert model.weights == pytest.approx({"x": 2 / 3, "y": -2 / 3, "z": size}, abs=1e-15)
    model.learn_one({}, 0.0)  # z reaches the old block and merges with it
    assert [n for _, n in live_blocks(model)] == [3]
    assert set(np.abs(list(model.weights.values()))) == {model.weights["x"]}
    model._state.check()
    model.learn_one({}, 0.0)
    model.learn_one({}, 0.0)
    assert model.weights == {} and model.n_features_seen == 3
    model.learn_one({"z": 2.0}, 2.0)
    assert model.weights == {"z": 3.0}
    model._state.check()


def test_block_costs_as_much_as_one_weight() -> None:
    """Ten thousand equal weights join a block once; afterwards none of them moves."""
    params: dict[str, Any] = {"strength": 1.0, **STEADY}
    model = FOBOSRegressor(**params)
    model.learn_one({f"w {j}": (-1.0) ** j for j in range(10_000)}, 0.5)
    rule = model._state.rule
    before = rule.u.tobytes(), rule.places.tobytes()
    for _ in range(2_000):
        model.learn_one({}, 0.0)
        assert model._state.rule.clock[0].entries == 0
    assert live_blocks(model) == [(pytest.approx(0.5 - 2_001 / 10_000, abs=1e-12), 10_000)]
    assert (rule.u.tobytes(), rule.places.tobytes()) == before
    model._state.check()


SMALL = [1.0, -1.0, 0.5, 2.0, 1e-160, 5e-324]
operations = st.one_of(
    st.tuples(
        st.just("learn"),
        st.dictionaries(st.integers(0, 9), st.sampled_from(SMALL), max_size=7),
        st.sampled_from([0.0, 1.0, -1.0, 3.0]) | st.floats(-3.0, 3.0),
    ),
    st.tuples(st.just("learn"), st.just({}), st.just(0.0)),
    st.tuples(st.just("grow"), st.integers(1, 9)),
    st.tuples(st.just("reserve"), st.integers(1, 600)),
    st.tuples(st.just("copy")),
    st.tuples(st.just("release")),
    st.tuples(st.just("drop"), st.integers(0, 9)),
    st.tuples(st.just("strength"), st.sampled_from([0.0, 0.01, 0.3, 2.0])),
)


def disturb(model: Any, operation: str, args: Any) -> Any:
    """Return the model after an operation that must not change a float."""
    state = model._state
    if operation == "grow":
        state._set_rule(state.rule.grow(state.rule.size + args[0]))
    if operation == "reserve":
        state._set_rule(state.rule.reserve(args[0]))
    if operation == "release":
        state._switch_to_names() if isinstance(
            state.vocabulary, IntVocabulary
        ) else state._make_room(0)
    return pickle.loads(pickle.dumps(model)) if operation == "copy" else model


@given(st.lists(operations, max_size=80))
def test_random_operations_equal_the_twin(plan: list[tuple[Any, ...]]) -> None:
    """Also compare bit by bit with a model that only learns."""
    params: dict[str, Any] = {"strength": 0.1, "lr": 0.4, "norm": "linf", "intercept_lr": 0.0}
    plain, model = FOBOSRegressor(**params), FOBOSRegressor(**params)
    twin = reference.FOBOS(10, loss="squared", **params)
    for operation, *args in plan:
        if operation == "learn":
            x = np.zeros(10)
            x[list(args[0])] = list(args[0].values())
            for instance in (plain, model):
                instance.learn_one(as_dict(x), args[1])
            twin.learn(x, args[1])
        elif operation == "drop":
            for instance in (plain, model):
                slot = instance._state.vocabulary.find_all([args[0]])
                if slot[0] < instance._state.rule.size:
                    instance._state.rule.drop(slot)
            twin.w[args[0]] = 0.0
        elif operation == "strength":
            for instance in (plain, model, twin):
                instance.strength = args[0]
        else:
            model = disturb(model, operation, args)
        model._state.check()
        plain._state.check()
        assert_equal_twins(model, twin)
        assert model.weights == plain.weights


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.01, 0.5, 3.0])
def test_hundred_thousand_steps_equal_the_twin(strength: float) -> None:
    """Rows cause many ties, minimal capacity and all-zero weights; check after each block."""
    random = np.random.default_rng(11)
    params: dict[str, Any] = {"strength": strength, "norm": "linf", "schedule": "constant"}
    params |= {"lr": 0.2, "intercept_lr": 0.0}
    n_reserves, n_with_blocks = 0, 0
    reserve = FobosLinf.reserve

    def counting_reserve(rule: FobosLinf, nnz: int) -> FobosLinf:
        nonlocal n_reserves
        n_reserves += 1
        return reserve(rule, nnz)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FobosLinf, "reserve", counting_reserve)
        patch.setattr(fobos_linf, "MIN_ROOM", 2)
        patch.setattr(predictor, "MIN_SLOTS", 1)
        model, twin = FOBOSRegressor(**params), reference.FOBOS(20, loss="squared", **params)
        for t in range(100):
            X = random.choice([0.0, 1.0, -1.0, 0.5], (1_000, 20), p=[0.85, 0.05, 0.05, 0.05])
            if t % 3 == 0:
                X[random.random(1_000) < 0.5] = 0.0
            y = random.choice([-1.0, 0.0, 1.0, 2.0], 1_000)
            got = model.progressive_many(csr_matrix(X), y)
            np.testing.assert_allclose(
                got, twin.progressive(X, y, np.ones(1_000)), rtol=0.0, atol=1e-9
            )
            assert_equal_twins(model, twin)
            model._state.check()
            n_with_blocks += max((n for _, n in live_blocks(model)), default=0) > 1
            if t % 7 == 6:
                model = pickle.loads(pickle.dumps(model))
    assert n_reserves > 50
    assert n_with_blocks > 20 or strength < 0.1


def test_many_weights_near_the_level() -> None:
    """More weights than the pool retains between steps: buckets close again, the floor moves."""
    random, d = np.random.default_rng(6), 600
    params: dict[str, Any] = {"strength": 80.0, **STEADY, "lr": 0.0025}
    model, twin = FOBOSRegressor(**params), reference.FOBOS(d, loss="squared", **params)
    opened, closed, raised, lowered, last = 0, 0, 0, 0, model._state.rule.clock[0].copy()
    for t in range(600):
        x = np.zeros(d)
        chosen = random.choice(d, 400 if t % 3 else 80, replace=False)
        x[chosen] = random.choice([1.0, -1.0], len(chosen)) * random.uniform(0.95, 1.0, len(chosen))
        target = float(twin.margin(x)) + (50.0 if t % 200 == 0 else random.normal())
        if t % 50 == 40:
            for instance in (model, twin):
                instance.strength = 80.0 - instance.strength  # 0, and back
        if t % 5 == 0:
            model._state.rule.clock[0].touches += 10**6  # allows raising a low floor
        model.learn_one(as_dict(x), target)
        twin.learn(x, target)
        assert_equal_twins(model, twin)
        model._state.check()
        c = model._state.rule.clock[0]
        opened += c.open < last.open and c.floor == last.floor
        closed += c.open > last.open and c.floor == last.floor
        raised += c.floor > last.floor
        lowered += c.floor < last.floor
        last = c.copy()
    assert min(opened, closed, raised, lowered) > 5, (opened, closed, raised, lowered)


@pytest.mark.parametrize("owed", [0, 10**9])
def test_floor_rises_if_nonzeros_have_paid_for_it(owed: int) -> None:
    """Few of many weights recur; the floor is not raised if that has cost too much before."""
    d = 10**6
    params: dict[str, Any] = {"strength": 1e-3, **STEADY, "hash_bits": 20}
    model = FOBOSRegressor(**params)
    model.learn_many(csr_matrix((np.ones(d), np.arange(d), [0, d]), (1, d)), [0.0], [0.0])
    model._state.rule.clock[0].owed = owed
    random = np.random.default_rng(3)
    X = csr_matrix(
        (np.ones(4_000), random.integers(0, 100, 4_000), np.arange(0, 4_001, 4)), (1_000, d)
    )
    X.sum_duplicates()
    for _ in range(30):
        model.learn_many(X, random.normal(size=1_000))
        model._state.check()
    c = model._state.rule.clock[0]
    assert c.held < 200
    assert (c.floor >= 0.3 * c.level) == (owed == 0)


def test_staircase_of_blocks() -> None:
    """Each example lifts one weight above all others; then the level falls and merges them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fobos_linf, "MIN_ROOM", 2)
        patch.setattr(predictor, "MIN_SLOTS", 1)
        params: dict[str, Any] = {"strength": 1.0, **STEADY}
        model, twin = FOBOSRegressor(**params), reference.FOBOS(30, loss="squared", **params)
        max_blocks = 0
        for t in range(1_000):
            x, y = np.zeros(30), 0.0
            if t < 30:
                x[t], y = 1.0, 2.0 * t + 2.0
            model.learn_one(as_dict(x), y)
            twin.learn(x, y)
            assert_equal_twins(model, twin)
            model._state.check()
            max_blocks = max(max_blocks, len(live_blocks(model)))
        assert max_blocks > 10 and model.weights == {}


def test_restored_rule_resumes_bit_identically() -> None:
    model = FOBOSRegressor(strength=1.0, **STEADY)
    model.learn_one(dict.fromkeys("abcde", 1.0), 0.6)
    model.learn_one({"f": 1.0, "g": 1.0}, 0.2)
    unpickled = pickle.loads(pickle.dumps(model))
    # Blocks are rebuilt when the level reaches the weights.
    assert live_blocks(model) and not live_blocks(unpickled)
    for m in (model, unpickled):
        m._state.check()
        m.learn_one({"h": 1.0}, 0.1)
    assert live_blocks(unpickled)[-1] == live_blocks(model)[-1]
    assert unpickled.weights == model.weights


def test_crafted_state_is_rejected() -> None:
    factors = ([-1.0, 1.0], [np.nan, 1.0], [1.0, 0.5], [1.0, np.nan], [1.0, 1e300])
    kit.assert_rejects_states(
        FOBOSClassifier(strength=0.01, norm="linf"),
        lambda a: [
            *({"scalars": a["scalars"] * factor} for factor in factors),
            *({"w": a["w"] * factor} for factor in (1e300, 0.0)),
        ],
    )


def test_check_finds_broken_invariants() -> None:
    """Use two block members, pool weights, two weights in chains and one below the floor."""

    def make_rule() -> Any:
        model = FOBOSRegressor(strength=0.5, **STEADY)
        near_level = dict.fromkeys(range(6, 30), 0.748)
        model.learn_one({0: 1.0, 1: 1.0, 2: 0.6, 3: -0.7, 4: 0.7495, 5: 0.1, **near_level}, 2.0)
        model = pickle.loads(pickle.dumps(model))
        model.learn_one({}, 0.0)
        assert live_blocks(model) == [(1.5, 2)]
        rule = model._state.rule
        assert np.sign(rule.places[:6]).tolist() == [-1, -1, 1, 1, -1, 0]
        return rule

    make_rule().check()
    lead = int(make_rule().blocks.lower[0])
    pos_0, pos_4 = (int(-make_rule().places[j]) for j in (0, 4))
    for array, k, field, value in (
        *(("u", 0, None, 9.0), ("u", 2, None, 9.0), ("u", 0, None, 0.0), ("u", 0, None, np.inf)),
        *(("u", 0, None, 5 * MEMBER), ("u", 0, None, 1.5 * MEMBER), ("u", 2, None, 1.3)),
        *(("u", 0, None, 1e4 * MEMBER), ("u", 4, None, 1.4), ("u", 4, None, lead * MEMBER)),
        *(("places", 2, None, 0), ("places", 2, None, 7), ("places", 4, None, 3)),
        *(("places", 4, None, 0), ("heads", 5, None, 1), ("links", 2, "before", 1)),
        *(("blocks", lead, "n", 3), ("blocks", lead, "value", 9.0), ("blocks", lead, "lead", 0)),
        *(("blocks", lead, "after", 0), ("blocks", lead, "before", 9), ("blocks", 0, "lower", 0)),
        *(("blocks", lead, "carried", 1), ("blocks", lead, "lower", 9), ("blocks", 0, "after", 0)),
        *(("blocks", lead, "value", -1.0), ("blocks", 9, "lead", 1), ("blocks", 9, "after", 3)),
        *(("keys", pos_0, None, 1.5), ("keys", pos_4, None, 1.4), ("ids", pos_4, None, 5)),
        *(("clock", 0, "entries", 0), ("clock", 0, "entries", 10**6), ("clock", 0, "floor", -1.0)),
        *(("clock", 0, "level", -1.0), ("clock", 0, "strength", -1.0), ("clock", 0, "risen", 1)),
        *(("clock", 0, "open", 10**6), ("clock", 0, "open", 0)),
    ):
        rule = make_rule()
        changed = getattr(rule, array)
        (changed if field is None else changed[field])[k] = value
        with pytest.raises(AssertionError):
            rule.check()
