"""Merged models of `lr="auto"` and of coin betting against their twins."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import (
    CoinBettingClassifier,
    CoinBettingRegressor,
    ElasticNetClassifier,
    ElasticNetRegressor,
)
from streaml1.cli import cli
from streaml1.datasets import Drifting
from streaml1.distributed import rounds, train
from streaml1.models.merging import merge_candidates, start_shards
from streaml1.optim.lane_mixture import COIN_WEALTH
from streaml1.optim.structures import lane_table
from streaml1.optim.structures.joined_mixtures import Regression, joined_regression
from streaml1.training import convert
from streaml1.training.merge import compare
from tests import reference_merge
from tests.reference_merge import elastic_net_flow
from tests.test_merge_weights import learnt

Example = tuple[dict[str, float], int]

EXAMPLE = st.tuples(
    st.dictionaries(st.sampled_from("abcde"), st.sampled_from([-1.0, 0.5, 2.0]), max_size=3),
    st.integers(0, 1),
)
ALL_PARTS = st.lists(st.lists(EXAMPLE, max_size=6), min_size=2, max_size=4)
SUMS = ("n", "sample_weights", "norms", "targets", "positives", "deviations", "risk", "squares")
MODELS: list[Any] = [
    ElasticNetClassifier(l1=0.02, l2=0.1),
    ElasticNetRegressor(),
    ElasticNetRegressor(loss="poisson", l1=0.01),
    CoinBettingClassifier(l1=0.3),
    CoinBettingRegressor(),
]


def row(model: Any, name: str) -> list[float]:
    """Return eight numbers of the lanes."""
    first = int(getattr(lane_table, name))
    values: list[float] = model._state.rule.table[first : first + 8].tolist()
    return values


def slots(model: Any) -> dict[Any, list[float]]:
    """Return the 24 numbers of each slot by name, with weights of nets and averages as of now."""
    rule, t = model._state.rule, model._state.rule.clock[0]["n"]
    P, A, largest, unit = (row(model, name) for name in ("P", "A", "LARGEST", "UNIT"))
    denominator = row(model, "DENOMINATOR")
    found = {}
    live = np.flatnonzero(rule.live_mask())
    for name, j in zip(model._state.vocabulary.names_at(live), live, strict=True):
        values = rule.slots[24 * j : 24 * (j + 1)].tolist()
        for k in range(4):
            values[8 + k] = P[k] * reference_merge.soft(values[8 + k], A[k])
        stake = unit[6] + values[22] / largest[6]
        coin = reference_merge.soft(values[14], A[6]) * stake / (denominator[6] + values[6])
        share = (t - values[3]) / (t - values[3] + max(1.0, t / 4))
        for at, now in ((16, values[10]), (17, coin)):
            values[at] += share * (now - values[at])
        found[name] = values
    return found


def rates_of(model: Any, lane: int, before: int, n: int) -> float:
    """Return the sum of the rates of n steps, for rows of the mean norm."""
    c = model._state.rule.clock[0]
    norm = float(c["norms" if lane == 0 else "scaled_norms"]) / max(1, int(c["n"]))
    scale = min(norm**-2, 1e100) if norm else 1.0
    factors = sum((before + k + 1) ** -0.25 for k in range(n))
    return row(model, "RATE")[lane] * scale * float(c["unit"]) * factors


def expected_slots(base: Any, parts: list[Any]) -> dict[str, dict[Any, list[float]]]:
    """Return the slots of the twin by candidate and name."""
    t, before, after = base.n_iterations, slots(base), [slots(part) for part in parts]
    examples = [part.n_iterations - t for part in parts]
    penalties = [
        [rates_of(part, lane, t, n) for part, n in zip(parts, examples, strict=True)]
        for lane in range(4)
    ]
    largest = [
        max(values) for values in zip(*(row(part, "LARGEST") for part in parts), strict=True)
    ]
    kinds = {"sum": "sum", "rho": "rho", "average": "blend", "mean": "gains"}
    joined: dict[str, dict[Any, list[float]]] = {kind: {} for kind in kinds}
    for name in {name for one in (before, *after) for name in one}:
        old, new = before.get(name, [0.0] * 24), [part.get(name, [0.0] * 24) for part in after]
        visits = [values[0] - old[0] for values in new]
        n, total = (old[i] + sum(values[i] - old[i] for values in new) for i in (0, 1))
        for kind, of_coins in kinds.items():
            slot = [0.0] * 24
            slot[:4] = n, total, max(values[2] for values in new), t + sum(examples)
            for k in range(4):
                i = (12 + k, 4 + k, 20 + k)
                coin = reference_merge.join_coin(
                    tuple(old[at] for at in i),  # type: ignore[arg-type]
                    [tuple(values[at] for at in i) for values in new],  # type: ignore[misc]
                    largest[4 + k],
                )[of_coins]
                for at, value in zip(i, coin, strict=True):
                    slot[at] = value
                slot[8 + k] = reference_merge.join_weight(
                    old[8 + k], [values[8 + k] for values in new], visits, examples, penalties[k],
                    lambda w, due: elastic_net_flow(w, due, base.l1, base.l2),
                )[kind]  # fmt: skip
            for at in (16, 17):
                averages = [values[at] for values in new]
                slot[at] = reference_merge.average(t, old[at], averages, visits, examples)
            joined[kind][name] = slot
    return joined


def shares_of(model: Any) -> list[float]:
    """Return the shares of the lanes and the weights of opinions."""
    clock = model._state.rule.clock[0]
    opinions = [float(clock[name]) for name in ("by_shares", "by_coefficients", "by_both")]
    return [*row(model, "SHARE"), *opinions]


def regression(model: Any) -> tuple[Any, Any, int]:
    """Return the coefficients, their covariance, and the number of examples."""
    first = int(lane_table.COVARIANCE)
    C = model._state.rule.table[first : first + 64].reshape(8, 8)
    return np.array(row(model, "COEFFICIENT")), C, model.n_iterations


@pytest.mark.parametrize("model", MODELS[:3])
@given(examples=ALL_PARTS)
def test_lanes_equal_those_of_the_twin(model: Any, examples: list[list[Example]]) -> None:
    base = learnt(model, examples[0])
    parts = [learnt(base, part) for part in examples[1:]]
    expected = expected_slots(base, parts)
    before = base._state.rule.clock[0]
    n = [len(part) for part in examples[1:]]
    shares = [count / sum(n) if sum(n) else 1.0 / len(n) for count in n]
    got = dict(merge_candidates(parts, base))
    assert list(got) == ["sum", "rho", "average", "mean"]
    for kind, joined in got.items():
        joined._state.check()
        found, rule = slots(joined), joined._state.rule
        assert found.keys() == expected[kind].keys()
        threshold = joined.l1 * sum(map(len, examples))
        for name, values in expected[kind].items():
            assert found[name] == pytest.approx(values, rel=1e-9, abs=1e-9)
            if abs(abs(values[14]) - threshold) > 1e-9 or not threshold:
                assert (name in joined.weights) == (abs(values[14]) > threshold)
        clock = rule.clock[0]
        for field in SUMS:
            grown = sum(part._state.rule.clock[0][field] - before[field] for part in parts)
            assert clock[field] == pytest.approx(before[field] + grown, rel=1e-9, abs=1e-12)
        means = np.array(shares) @ [shares_of(part) for part in parts]
        assert shares_of(joined) == pytest.approx(means, rel=1e-9, abs=1e-12)
        coefficients, C = reference_merge.regression(regression(base), list(map(regression, parts)))
        assert regression(joined)[0] == pytest.approx(coefficients, rel=1e-6, abs=1e-9)
        assert regression(joined)[1] == pytest.approx(C, rel=1e-6, abs=1e-9)
        assert row(joined, "UNIT")[4:] == pytest.approx(units(joined), rel=1e-9)
        joined.learn_one({"a": 1.0, "z": 1.0}, 1)
        assert math.isfinite(joined.intercept)


def bets(model: Any) -> dict[Any, list[tuple[float, float]]]:
    """Return for each name and lane its weight, and that of a coin which bets all it has."""
    P, A, largest, unit, denominator = (
        row(model, name) for name in ("P", "A", "LARGEST", "UNIT", "DENOMINATOR")
    )
    found = {}
    for name, values in slots(model).items():
        lanes = [(w, math.inf) for w in values[8:12]]
        for k in range(4, 8):
            Z, G, R = values[8 + k], values[k], values[16 + k]
            factor = P[k] * (unit[k] + R / largest[k]) / (denominator[k] + G)
            most = max(max(G, abs(Z)) - A[k], 0.0)
            lanes.append((factor * reference_merge.soft(Z, A[k]), factor * most))
        found[name] = lanes
    return found


SHARD_CANDIDATES = {
    "momentum": ("rho", "rho", 0.5, 0.0),
    "more-momentum": ("rho", "rho", 0.75, 0.25),
    "less-momentum": ("rho", "rho", 0.25, 0.0),
    "all-gains": ("rho", "gains", 0.75, 0.0),
    "mean-gains": ("rho", "blend", 0.25, 0.25),
}


def coin(values: list[float], k: int) -> tuple[float, float, float]:
    """Return coin k of the numbers of a slot."""
    return values[12 + k], values[4 + k], values[20 + k]


@pytest.mark.parametrize("model", [*MODELS[:3], ElasticNetClassifier()])
@given(examples=ALL_PARTS)
def test_lanes_carry_on_the_last_move(model: Any, examples: list[list[Example]]) -> None:
    before = learnt(model, examples[0])
    base = learnt(before, examples[1])
    K, n = len(examples), sum(map(len, examples))
    start = copy.deepcopy(base)
    start_shards(start, K, n)
    parts = [learnt(start, part) for part in examples]
    plain = {kind: slots(one) for kind, one in merge_candidates(parts, base)}
    of_base, of_start, of_parts = slots(base), slots(start), [slots(part) for part in parts]
    largest = [
        max(values) for values in zip(*(row(part, "LARGEST") for part in parts), strict=True)
    ]
    first, second, zeros = bets(before), bets(base), [0.0] * 24
    got = dict(merge_candidates(parts, base, before))
    unmoved = dict(merge_candidates(parts, base, base))
    assert list(got) == list(unmoved) == list(SHARD_CANDIDATES)
    for kind, (net, of_coins, *shares) in SHARD_CANDIDATES.items():
        joined = got[kind]
        joined._state.check()
        found, kept, moved = slots(joined), slots(unmoved[kind]), bets(joined)
        assert found.keys() == plain[net].keys()
        for key, values in kept.items():
            assert values[8:12] == pytest.approx(plain[net][key][8:12], rel=1e-9, abs=1e-9)
            old = of_base.get(key, zeros)
            for k in range(4):
                expected_start = coin(old, k)
                if base.n_iterations and not (model.l1 or model.l2):
                    expected = old[0] * n / base.n_iterations
                    L = row(base, "LARGEST")[4 + k]
                    expected_start = reference_merge.shard_coin(expected_start, L, expected, K)
                got_start = coin(of_start.get(key, zeros), k)
                assert got_start == pytest.approx(expected_start, rel=1e-9, abs=1e-9)
                new = [coin(values.get(key, zeros), k) for values in of_parts]
                joined_coin = reference_merge.join_shard_coin(
                    coin(old, k), got_start, new, largest[4 + k]
                )[of_coins]
                assert coin(values, k) == pytest.approx(joined_coin, rel=1e-9, abs=1e-9)
        for key, lanes in bets(unmoved[kind]).items():
            for k, (w, most) in enumerate(lanes):
                was, now = (one[key][k][0] if key in one else 0.0 for one in (first, second))
                expected = reference_merge.carry_on(w, now, was, shares[k // 4], most)
                assert moved[key][k][0] == pytest.approx(expected, rel=1e-9, abs=1e-9)
            assert found[key][:8] == kept[key][:8] and found[key][16:] == kept[key][16:]
        assert joined._state.rule.table.tolist() == unmoved[kind]._state.rule.table.tolist()
        assert joined._state.rule.clock.tolist() == unmoved[kind]._state.rule.clock.tolist()


@pytest.mark.parametrize("model", [*MODELS[:3], ElasticNetClassifier()])
@given(examples=ALL_PARTS)
def test_nets_of_a_group_carry_on_the_last_move(model: Any, examples: list[list[Example]]) -> None:
    before = learnt(model, examples[0])
    base = learnt(before, examples[1])
    parts = [learnt(base, part) for part in examples]
    plain = dict(merge_candidates(parts, base))
    got = dict(merge_candidates(parts, base, before, prepared=False))
    assert list(got) == [*plain, "momentum"]
    for name, joined in plain.items():
        assert got[name]._state.rule.slots.tolist() == joined._state.rule.slots.tolist()
    first, second, moved = bets(before), bets(base), bets(got["momentum"])
    for key, lanes in bets(plain["rho"]).items():
        for k, (w, most) in enumerate(lanes):
            was, now = (one[key][k][0] if key in one else 0.0 for one in (first, second))
            expected = reference_merge.carry_on(w, now, was, 0.5 if k < 4 else 0.0, most)
            assert moved[key][k][0] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_shards_start_from_the_weights_of_the_base() -> None:
    X, y = Drifting(n=500, d=60, change="none", seed=2).matrix()
    base = ElasticNetClassifier()
    base.learn_many(X, y)
    start = copy.deepcopy(base)
    start_shards(start, 4, 400)
    assert start.weights == pytest.approx(base.weights, rel=1e-12)
    old, new = slots(base), slots(start)
    assert all(0.25 < new[name][4] / old[name][4] < 1.0 for name in old)
    start_shards(base, 1, 400)
    assert slots(base) == old


def units(model: Any) -> list[float]:
    """Return the initial wealth of the coins in units of the margin."""
    unit = row(model, "LARGEST")[4:] if model.loss == "squared" else [1.0] * 4
    return [wealth * u for wealth, u in zip(COIN_WEALTH, unit, strict=True)]


@pytest.mark.parametrize("model", MODELS[3:])
@given(examples=ALL_PARTS)
def test_coins_equal_those_of_the_twin(model: Any, examples: list[list[Example]]) -> None:
    base = learnt(model, examples[0])
    parts = [learnt(base, part) for part in examples[1:]]

    def fields(one: Any, *names: str) -> dict[Any, Any]:
        rule = one._state.rule
        live = np.flatnonzero(rule.live_mask())
        values = zip(*(rule.slots[name][live].tolist() for name in names), strict=True)
        found = dict(zip(one._state.vocabulary.names_at(live), values, strict=True))
        clock = {"n": "n", "total": "labels", "s": "largest"}
        return {**found, "": tuple(float(rule.clock[0][clock.get(n, n)]) for n in names)}

    def targets(one: Any) -> tuple[float, float]:
        clock = one._state.rule.clock[0]
        return float(clock.targets), float(clock.centre)

    centre = reference_merge.centre(targets(base), [targets(part) for part in parts])
    of_parts = [fields(part, "s", "L") for part in parts]
    largest = {
        name: tuple(max(one.get(name, (0.0, 0.0))[i] for one in of_parts) for i in (0, 1))
        for name in {name for one in of_parts for name in one}
    }
    expected = reference_merge.coins(
        fields(base, "theta", "G", "R"),
        [fields(part, "theta", "G", "R") for part in parts],
        {name: L for name, (_, L) in largest.items()},
    )
    counts = reference_merge.counts(
        fields(base, "n", "total"), [fields(part, "n", "total") for part in parts]
    )
    got = dict(merge_candidates(parts, base))
    assert list(got) == ["sum", "gains", "rho", "blend"]
    n, labels = counts[""]
    wealth = base.wealth * (max(labels / n, 1e-200) if n else 1.0)
    for kind, joined in got.items():
        joined._state.check()
        found = fields(joined, "n", "total")
        assert found.keys() == counts.keys()
        for name, values in counts.items():
            assert found[name] == pytest.approx(values, rel=1e-12)
        weights = joined.weights
        for name, (Z, G, R) in expected[kind].items():
            s, L = largest[name]
            w = reference_merge.soft(Z, joined.l1 if name else 0.0) / (G + L + 1e-300)
            w *= wealth + R
            if name:
                w *= counts[name][0] / counts[name][1] / s
                assert weights.get(name, 0.0) == pytest.approx(w, rel=1e-9, abs=1e-9)
                assert (abs(weights.get(name, 0.0)) > 1e-9) == (abs(w) > 1e-9)
            else:
                assert joined.intercept == pytest.approx(centre + w, rel=1e-9, abs=1e-9)
        joined.learn_one({"a": 1.0, "z": 1.0}, 1)
        assert math.isfinite(joined.intercept)


@pytest.mark.parametrize("model", [ElasticNetClassifier(l1=1e-4), CoinBettingClassifier()])
def test_one_shard_is_one_run(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = Drifting(n=1500, d=60, change="none", seed=5).matrix()
    convert((X, y), tmp_path / "x.rows")
    trained = train(model, tmp_path / "x.rows", shards=1, rounds=1, warm=0.0)
    monkeypatch.setattr(rounds, "MIN_SHARD_ROWS", 100)
    settings: dict[str, Any] = {"shards": 2, "rounds": 2, "probe": 100}
    several = train(model, tmp_path / "x.rows", **settings)
    again = train(model, tmp_path / "x.rows", **settings)
    assert several.model._encode() == again.model._encode()
    assert several.model.n_iterations == 1500
    whole = model.clone()
    streaml1.progressive(whole, tmp_path / "x.rows")
    assert trained.model._encode() == whole._encode()
    assert several.rounds[-1].loss is not None and several.rounds[-1].loss < math.log(2.0)


@pytest.mark.parametrize("kind", [ElasticNetClassifier, ElasticNetRegressor, CoinBettingClassifier])
def test_the_best_candidate_is_returned_and_learns_on(kind: Any, tmp_path: Path) -> None:
    X, y = Drifting(n=1200, d=60, change="none", seed=2).matrix()
    base = kind(l1=1e-3)
    base.learn_many(X[:100], y[:100])
    parts = [copy.deepcopy(base) for _ in range(2)]
    parts[0].learn_many(X[100:500], y[100:500])
    parts[1].learn_many(X[500:900], y[500:900])
    before = [part._encode() for part in parts]
    probe, rest = (X[900:1000], y[900:1000]), (X[1000:], y[1000:])
    merged = compare(parts, base, probe=probe)
    assert merged.chosen in {"sum", "gains", "rho", "average", "mean", "blend"}
    assert min(merged.candidates, key=lambda one: one.loss).name == merged.chosen
    assert [part._encode() for part in parts] == before
    model = streaml1.merge(parts, base, probe=probe)
    assert model._encode() == merged.model._encode() and model.n_iterations == 900
    model.save(tmp_path / "x.model")
    loaded = streaml1.load(tmp_path / "x.model")
    for one in (model, loaded):
        one.learn_many(*rest)
    assert loaded._encode() == model._encode()


def test_the_command_merges_the_default(tmp_path: Path) -> None:
    lines = [f"{k % 2} {k % 2 + 1}:1 {k % 3 + 10}:{k % 5 + 1}\n" for k in range(100)]
    paths = []
    for k in range(2):
        (tmp_path / f"{k}.svm").write_text("".join(lines[30 * k : 30 * (k + 1)]))
        paths.append(tmp_path / f"{k}.model")
        model = ElasticNetClassifier()
        streaml1.progressive(model, tmp_path / f"{k}.svm")
        model.save(paths[-1])
    probe, target = tmp_path / "probe.svm", tmp_path / "merged.model"
    probe.write_text("".join(lines[60:]))
    command = ["merge", *paths, "-o", target, "--probe", probe]
    result = CliRunner().invoke(cli, [str(word) for word in command])
    assert result.exit_code == 0, result.output
    expected = streaml1.merge([streaml1.load(path) for path in paths], probe=probe)
    assert streaml1.load(target)._encode() == expected._encode()
    names = [line.split()[0] for line in result.stdout.splitlines()[1:5]]
    assert names == ["sum", "rho", "average", "mean"]


@given(st.integers(0, 60_000), st.integers(1, 3_000), st.integers(1, 3_000))
def test_regressions_of_parts_add_up_at_any_time(start: int, first: int, second: int) -> None:
    rng = np.random.default_rng(start)

    def regression_at(n: int) -> Regression:
        A = rng.standard_normal((8, 8))
        return Regression(rng.standard_normal(8), np.linalg.inv(A @ A.T + 400.0 * np.eye(8)), n)

    base, *parts = (regression_at(start + n) for n in (0, first, second))
    coefficients, C = reference_merge.regression(base, parts)
    joined = joined_regression(base, parts)
    assert joined.coefficients == pytest.approx(coefficients, rel=1e-6, abs=1e-9)
    assert joined.covariance == pytest.approx(C, rel=1e-6, abs=1e-12)
    assert joined.n == start + first + second
