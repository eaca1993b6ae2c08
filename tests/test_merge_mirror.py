"""Merged models of SMIDAS and of EG against dense twins that join theta."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import EGClassifier, EGRegressor, SMIDASClassifier, SMIDASRegressor
from streaml1.cli import cli
from streaml1.datasets import Drifting
from streaml1.distributed import rounds, train
from streaml1.distributed.mixing.simulation import simulate
from streaml1.models import decode
from streaml1.models.merging import merge_candidates
from streaml1.training import convert
from streaml1.training.merge import compare
from tests import reference, reference_merge

Example = tuple[dict[str, float], bool]

NAMES = "abcdef"
NEW = ({"a": 1.0, "f": -0.5}, True)
D = 8
"""Number of coordinates: two of them have no name."""

EXAMPLE = st.tuples(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from([-1.0, 0.5, 2.0]), max_size=3),
    st.booleans(),
)
ALL_PARTS = st.lists(st.lists(EXAMPLE, max_size=7), min_size=2, max_size=5)

SETTINGS: list[Any] = [
    (SMIDASClassifier, {"l1": 0.02, "p": 4.0, "lr": 0.3}),
    (SMIDASClassifier, {"l1": 0.05, "p": 11.5, "lr": 0.5, "schedule": "inverse"}),
    (SMIDASRegressor, {"l1": 0.02, "p": 2.0, "lr": 0.3}),
    (SMIDASRegressor, {"l1": 0.0, "p": 3.0, "lr": 0.2, "schedule": "constant"}),
    (EGClassifier, {"lr": 0.5, "radius": 3.0}),
    (EGClassifier, {"lr": 0.5, "nonnegative": True}),
    (EGRegressor, {"lr": 0.3, "schedule": "constant", "radius": 2.0}),
    (EGRegressor, {"lr": 0.3, "nonnegative": True, "loss": "absolute"}),
]
SETTING = pytest.mark.parametrize(("kind", "params"), SETTINGS)
BOTH = pytest.mark.parametrize(
    "model", [SMIDASClassifier(l1=1e-3, p=6.0, lr=0.3), EGClassifier(n_features=200, lr=0.3)]
)


def is_smidas(kind: Any) -> bool:
    return kind in (SMIDASClassifier, SMIDASRegressor)


class Pair:
    """A model and its dense twin."""

    def __init__(self, kind: Any, params: dict[str, Any]) -> None:
        self.model = kind(**params, **({} if is_smidas(kind) else {"n_features": D}))
        self.twin: Any = (reference.SMIDAS if is_smidas(kind) else reference.EG)(
            D, **{"loss": self.model.loss, **params}
        )
        self.kind = kind

    def learnt(self, examples: list[Example]) -> Pair:
        """Return a copy that has learnt some examples."""
        result = copy.deepcopy(self)
        for x, y in examples:
            result.model.learn_one(x, y)
            result.twin.learn(row(x), self.label(y))
        return result

    def label(self, y: bool) -> float:
        is_classifier = self.kind in (SMIDASClassifier, EGClassifier)
        return 2.0 * y - 1.0 if is_classifier else float(y)

    def assert_equal(self) -> None:
        """Compare all weights, also those of coordinates without a name, and the support."""
        names = [*NAMES, "y", "z"]
        w = [self.model._margin({name: 1.0}) - self.model.intercept for name in names]
        np.testing.assert_allclose(w, self.twin.w, rtol=1e-8, atol=1e-8)
        assert self.model.intercept == pytest.approx(self.twin.b, abs=1e-8)
        if is_smidas(self.kind):
            large = {name for name, v in zip(names, self.twin.theta, strict=True) if abs(v) > 1e-9}
            assert {name for name in self.model.weights if name in large} == large
            assert all(abs(v) < 1e-6 for name, v in self.model.weights.items() if name not in large)
        self.model._state.check()


def row(x: dict[str, float]) -> Any:
    """Return an example as the row of the twin."""
    return np.array([x.get(name, 0.0) for name in [*NAMES, "y", "z"]])


def by_slot(theta: Any) -> dict[Any, float]:
    return dict(enumerate(theta.tolist()))


def expected_twins(base: Any, parts: list[Any]) -> dict[str, Any]:
    """Return the twin of each candidate: theta is joined, and the weights follow from it."""
    l1 = getattr(base, "l1", 0.0)
    still, penalties = [], []
    for part in parts:
        rest = copy.deepcopy(base)
        due = 0.0
        while rest.t < part.t:
            due += reference.rate(rest.lr, rest.schedule, rest.t)
            rest.learn(np.zeros(D), 1.0)
        still.append(by_slot(rest.theta))
        penalties.append(due)
    examples = [part.t - base.t for part in parts]
    joined = reference_merge.weights(
        by_slot(base.theta), [by_slot(part.theta) for part in parts], still, examples, penalties,
        lambda theta, due: reference_merge.soft(theta, due * l1),
    )  # fmt: skip
    twins = {}
    for name, theta in joined.items():
        twin = copy.deepcopy(base)
        twin.theta = np.array([theta.get(j, 0.0) for j in range(D)])
        twin.w = twin._penalty(twin.w, 0.0)
        twin.b = reference_merge.intercept((base.t, base.b), [(part.t, part.b) for part in parts])
        twin.t = base.t + sum(examples)
        twins[name] = twin
    return twins


@SETTING
@given(examples=ALL_PARTS, later=st.lists(EXAMPLE, max_size=5), reset=st.booleans())
def test_candidates_equal_their_twins_and_learn_on(
    kind: Any, params: Any, examples: list[list[Example]], later: list[Example], reset: bool
) -> None:
    base = Pair(kind, params).learnt(examples[0])
    reset = reset and base.model.has_decaying_rates
    if reset:
        base.model.reset_rates()
        base.twin.t = 0
    parts = [base.learnt(part) for part in examples[1:]]
    expected = expected_twins(base.twin, [part.twin for part in parts])
    got = dict(merge_candidates([part.model for part in parts], base.model))
    assert list(got) == list(expected) == ["mean", "average", "rho", "sum"]
    n = sum(map(len, examples))
    for name, model in got.items():
        pair = copy.copy(base)
        pair.model, pair.twin = model, expected[name]
        pair.assert_equal()
        assert model.n_iterations == n
        assert model._state.rate_step == n - (len(examples[0]) if reset else 0)
        pair.learnt([*later, NEW]).assert_equal()


@SETTING
@given(examples=ALL_PARTS)
def test_parts_without_a_base_start_from_nothing(
    kind: Any, params: Any, examples: list[list[Example]]
) -> None:
    new = Pair(kind, params)
    parts = [new.learnt(part) for part in examples]
    expected = expected_twins(new.twin, [part.twin for part in parts])
    for name, model in merge_candidates([part.model for part in parts]):
        new.model, new.twin = model, expected[name]
        new.assert_equal()
        assert model.n_iterations == sum(map(len, examples))


def parts_of(model: Any, k: int, n: int = 300) -> tuple[list[Any], Any, tuple[Any, Any]]:
    """Return k models that have learnt on from a base, the base, and a probe."""
    X, y = Drifting(n=(k + 2) * n, d=60, change="none", seed=k).matrix()
    base = model.clone()
    base.learn_many(X[:n], y[:n])
    parts = [copy.deepcopy(base) for _ in range(k)]
    for i, part in enumerate(parts, start=1):
        part.learn_many(X[i * n : (i + 1) * n], y[i * n : (i + 1) * n])
    return parts, base, (X[(k + 1) * n :], y[(k + 1) * n :])


@BOTH
def test_bits_depend_on_the_parts_alone(model: Any, tmp_path: Path) -> None:
    """Parts that were saved, loaded or pickled change no bit, nor does a part's later life."""
    parts, base, probe = parts_of(model, 3)
    before = [part._encode() for part in parts]
    expected = {name: one._encode() for name, one in merge_candidates(parts, base)}
    moved = []
    for k, part in enumerate(parts):
        part.save(tmp_path / f"{k}.model")
        loaded = streaml1.load(tmp_path / f"{k}.model")
        moved.append(pickle.loads(pickle.dumps(loaded)) if k else loaded)
    assert {name: one._encode() for name, one in merge_candidates(moved, base)} == expected
    merged = compare(moved, base, probe=probe)
    assert merged.model._encode() in expected.values()
    merged.model.learn_many(*probe)
    assert [part._encode() for part in parts] == before


@BOTH
def test_a_merged_model_resumes_from_a_file(model: Any, tmp_path: Path) -> None:
    parts, base, (X, y) = parts_of(model, 2)
    for name, one in merge_candidates(parts, base):
        one.save(tmp_path / name)
        loaded = streaml1.load(tmp_path / name)
        assert loaded.weights == one.weights and repr(loaded) == repr(model)
        for half in (slice(0, 150), slice(150, 300)):
            for m in (one, loaded):
                m.learn_many(X[half], y[half])
            assert loaded._encode() == one._encode()
            loaded = pickle.loads(pickle.dumps(loaded))


@BOTH
def test_all_kinds_of_names_are_united(model: Any) -> None:
    """Names that one model has as categories or crosses, another as strings."""
    one, two, three = (model.clone({"cross": [("s", "t")]}) for _ in range(3))
    one.learn_many([{"s": "x", "t": "y", "n": 2.0}], [True])
    two.learn_many([{"s=x": 1.0, "t=y": 1.0}, {"s": "z", "t": "y"}], [False, True])
    three.learn_many([{"u": 1.0, "n": 1.0}], [True])
    merged = dict(merge_candidates([one, two, three]))["sum"]
    assert set(merged.weights) == {"s=x", "t=y", "n", "s=z", "u", "s=x x t=y", "s=z x t=y"}
    both_ways = [{"s": "x", "t": "y"}, {"s=x": 1.0, "t=y": 1.0}]
    (_, a), (_, b) = merged.predict_proba_many(both_ways)
    assert a == b
    assert merged.n_features_seen == 7


@BOTH
def test_at_most_max_features_weights(model: Any) -> None:
    parts, base, (X, y) = parts_of(model.clone({"max_features": 16}), 2)
    for _, one in merge_candidates(parts, base):
        assert 0 < one.n_nonzero <= 16 and one.max_features == 16
        one._state.check()
        one.learn_many(X, y)
        one._state.check()
        assert one.n_nonzero <= 16


@pytest.mark.parametrize("nonnegative", [False, True])
def test_dropped_and_untouched_features_of_eg(nonnegative: bool) -> None:
    """A feature stays dropped if no part has learnt it since; it counts as seen in any case."""
    base = EGClassifier(n_features=10, nonnegative=nonnegative)
    base.learn_many([{"a": 1.0, "b": -1.0, "zero": 1.0}], [True], [0.0])
    base.learn_many([{"a": 1.0, "b": -1.0}] * 5, [True] * 5)
    base._state.rule.drop(base._state.vocabulary.find_all(["b", "zero"]).astype(int))
    parts = [copy.deepcopy(base) for _ in range(2)]
    parts[1].learn_one({"b": 1.0}, True)
    for _, one in merge_candidates(parts, base):
        assert set(one.weights) == {"a", "b"} and one.n_features_seen == 3
        assert one._margin({"zero": 1.0}) == pytest.approx(one._margin({"unseen": 1.0}))
    whole = dict(merge_candidates([parts[0], copy.deepcopy(base)], base))["rho"]
    assert set(whole.weights) == {"a"} and whole.n_features_seen == 3
    assert whole.weights["a"] == pytest.approx(base.weights["a"], rel=1e-12)


# More features than EG may see


def test_eg_rejects_more_features_than_it_may_see(tmp_path: Path) -> None:
    parts = [EGClassifier(n_features=3) for _ in range(2)]
    for part, names in zip(parts, ("ab", "bc"), strict=True):
        part.learn_one(dict.fromkeys(names, 1.0), True)
    assert all(one.n_features_seen == 3 for _, one in merge_candidates(parts))
    parts[0].learn_one({"d": 1.0}, True)
    message = "the models have seen 4 features together, more than n_features=3; make them with"
    with pytest.raises(ValueError, match=message):
        streaml1.merge(parts, probe=[({"a": 1.0}, True)])
    (tmp_path / "probe.vw").write_text("1 | a\n-1 | b\n")
    for k, part in enumerate(parts):
        part.save(tmp_path / f"{k}.model")
    files = [tmp_path / name for name in ("0.model", "1.model")]
    result = invoke("merge", *files, "-o", tmp_path / "m", "--probe", tmp_path / "probe.vw")
    assert result.exit_code == 2 and message in result.stderr and not (tmp_path / "m").exists()


# Rounds, members of a group, and the commands


@BOTH
def test_rounds_of_shards(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = Drifting(n=1500, d=60, change="none", seed=5).matrix()
    convert((X, y), tmp_path / "x.rows")
    whole = model.clone()
    streaml1.progressive(whole, tmp_path / "x.rows")
    one = train(model, tmp_path / "x.rows", shards=1, rounds=1, warm=0.0)
    assert one.model._encode() == whole._encode()
    monkeypatch.setattr(rounds, "MIN_SHARD_ROWS", 100)
    settings: dict[str, Any] = {"shards": 2, "rounds": 3, "probe": 100}
    several = train(model, tmp_path / "x.rows", **settings)
    name = "smidas" if is_smidas(type(model)) else "eg"
    options = ["--l1", "1e-3", "--p", "6"] if name == "smidas" else ["--n-features", "200"]
    result = invoke(
        "learn", tmp_path / "x.rows", "--model", name, "--lr", "0.3", *options, "--workers", "1",
        "--shards", "2", "--rounds", "3", "--probe-rows", "100", "--save", tmp_path / "x.model",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert streaml1.load(tmp_path / "x.model")._encode() == several.model._encode()
    assert several.model.n_iterations == 1500
    loss = streaml1.training.evaluate(several.model, (X, y)).lines[-1].loss
    loss_of_one = streaml1.training.evaluate(whole, (X, y)).lines[-1].loss
    assert loss is not None and loss_of_one is not None and loss < 1.15 * loss_of_one


@BOTH
def test_members_of_a_group_mix(model: Any) -> None:
    X, y = Drifting(n=800, d=60, change="none", seed=5).matrix()
    whole = model.clone()
    whole.learn_many(X, y)
    done = simulate(model, X, y, members=2, every=20)
    mixed = decode(done.base.data, "")
    assert (done.rounds, mixed.n_iterations) == (19, 760)
    p, q = (m.predict_proba_many(X)[:, 1] for m in (mixed, whole))
    assert np.abs(p - q).mean() < 0.05


@BOTH
def test_the_command_merges(model: Any, tmp_path: Path) -> None:
    parts, base, (X, y) = parts_of(model, 2)
    for name, one in (("base", base), ("0", parts[0]), ("1", parts[1])):
        one.save(tmp_path / name)
    rows = [f"{int(y[i])} " + " ".join(
        f"{j}:{v!r}" for j, v in zip(X[i].indices.tolist(), X[i].data.tolist(), strict=True)
    ) for i in range(X.shape[0])]  # fmt: skip
    (tmp_path / "probe.svm").write_text("\n".join(rows))
    result = invoke(
        "merge", tmp_path / "0", tmp_path / "1", "--base", tmp_path / "base",
        "-o", tmp_path / "m", "--probe", tmp_path / "probe.svm",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    expected = streaml1.merge(parts, base, probe=tmp_path / "probe.svm")
    assert streaml1.load(tmp_path / "m")._encode() == expected._encode()
    names = [line.split()[0] for line in result.stdout.splitlines()[1:5]]
    assert names == ["mean", "average", "rho", "sum"]


def invoke(*args: object) -> Any:
    return CliRunner().invoke(cli, [str(arg) for arg in args])
