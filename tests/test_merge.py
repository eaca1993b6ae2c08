"""Merged models against their twins, and the choice between the candidates."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import FTRLClassifier, FTRLRegressor
from streaml1.cli import cli
from streaml1.datasets import Drifting
from streaml1.models.merging import merge_candidates
from streaml1.optim.structures.joined_sums import joined_sums, last_moves
from streaml1.training import evaluate
from streaml1.training.checkpoint import partition_directories
from streaml1.training.merge import compare
from tests import reference_merge

Part = list[tuple[dict[Any, float], bool]]

A = {"a": 1.0}

STRINGS = st.sampled_from(["a", "b", "site=x", "site=y", "é"])
INTS = st.integers(0, 5)
MIXED = st.one_of(STRINGS, INTS, st.sampled_from([(1, "t"), -3, 2**40, 1.5, None]))
VALUES = st.sampled_from([-2.0, -1.0, 0.5, 1.0, 3.0])


def parts_of(names: Any) -> Any:
    """Return a strategy of lists of examples: those of the base, then those of each part."""
    example = st.tuples(st.dictionaries(names, VALUES, max_size=4), st.booleans())
    return st.lists(st.lists(example, max_size=6), min_size=2, max_size=4)


ALL_PARTS = st.one_of(parts_of(STRINGS), parts_of(INTS), parts_of(MIXED))


def learnt(model: Any, part: Part) -> Any:
    model = copy.deepcopy(model)
    for x, y in part:
        model.learn_one(x, y)
    return model


def columns(model: Any, *fields: str) -> dict[Hashable, tuple[float, ...]]:
    """Return some fields of the live slots of a model by name."""
    rule, vocabulary = model._state.rule, model._state.vocabulary
    slots = np.flatnonzero(rule.live_mask())
    values = zip(*(rule.slots[field][slots].tolist() for field in fields), strict=True)
    return dict(zip(vocabulary.names_at(slots), values, strict=True))


def assert_weights(model: Any, expected: dict[Hashable, float]) -> None:
    """Compare weights, and the support except for weights within rounding of zero."""
    got = model.weights
    for name in {*got, *expected}:
        w = expected.get(name, 0.0)
        assert got.get(name, 0.0) == pytest.approx(w, rel=1e-9, abs=1e-9)
    assert {n for n, w in got.items() if abs(w) > 1e-9} == {
        n for n, w in expected.items() if abs(w) > 1e-9
    }


def assert_learns_on(model: Any) -> None:
    model._state.check()
    x = {name: 1.0 for name in list(model.weights)[:3]}
    model.learn_one(x, True)
    assert math.isfinite(model.predict_proba_one(x)[True])


@pytest.mark.parametrize("hash_bits", [None, 2])
@given(ALL_PARTS)
def test_ftrl_equals_its_twin(hash_bits: int | None, examples: list[Part]) -> None:
    params = {"alpha": 0.5, "l1": 0.3, "l2": 0.1}
    base = learnt(FTRLClassifier(**params, intercept_init=0.2, hash_bits=hash_bits), examples[0])
    parts = [learnt(base, part) for part in examples[1:]]
    expected = reference_merge.ftrl(
        columns(base, "z", "n"),  # type: ignore[arg-type]
        [columns(part, "z", "n") for part in parts],  # type: ignore[misc]
    )
    got = dict(merge_candidates(parts, base))
    assert list(got) == ["sum", "rho", "half", "blend", "mean"]
    for name, model in got.items():
        assert_weights(model, reference_merge.ftrl_weights(expected[name], **params))
        assert model.n_iterations == sum(map(len, examples))
        if hash_bits is None:
            assert model.n_features_seen == len(expected[name])
        b = reference_merge.intercept(
            (base.n_iterations, base.intercept),
            [(part.n_iterations, part.intercept) for part in parts],
        )
        assert model.intercept == pytest.approx(b, abs=1e-12)
        assert_learns_on(model)


@given(ALL_PARTS)
def test_scaled_ftrl_equals_its_twin(examples: list[Part]) -> None:
    base = learnt(FTRLClassifier(l1=0.3, l2=0.1), examples[0])
    parts = [learnt(base, part) for part in examples[1:]]

    def sums(model: Any) -> Any:
        c = model._state.rule.clock[0]
        return {**columns(model, "theta", "n"), "intercept": (float(c.theta), float(c.n))}

    def sizes(model: Any) -> Any:
        c = model._state.rule.clock[0]
        ledger = tuple(float(c[field]) for field in ("examples", "labels", "squares"))
        return {**columns(model, "count", "total"), "ledger": ledger[:2], "squares": ledger[1:]}

    expected = reference_merge.ftrl(sums(base), [sums(part) for part in parts])
    scales = reference_merge.counts(sizes(base), [sizes(part) for part in parts])
    n, labels = scales.pop("ledger")
    _, squares = scales.pop("squares")
    size = labels / n if n else 1.0
    alpha = 3.0 * size / math.sqrt(squares / n) if n else 1.0
    for name, model in merge_candidates(parts, base):
        z = {key: value for key, value in expected[name].items() if key != "intercept"}
        w = reference_merge.ftrl_weights(z, alpha, beta=size, l1=0.3, l2=0.1)
        per_unit = {key: value * scales[key][0] / scales[key][1] for key, value in w.items()}
        assert_weights(model, per_unit)
        theta, n_b = expected[name]["intercept"]
        b = -theta / ((size + math.sqrt(n_b)) / alpha)
        assert model.intercept == pytest.approx(b, abs=1e-9)
        assert model.n_features_seen == len(z)
        assert_learns_on(model)


@pytest.mark.parametrize("model", [FTRLClassifier(alpha=0.5, l1=0.3), FTRLClassifier(l1=0.3)])
@given(examples=ALL_PARTS)
def test_ftrl_repeats_the_last_move(model: Any, examples: list[Part]) -> None:
    before = learnt(model, examples[0])
    base = learnt(before, examples[1])
    parts = [learnt(base, part) for part in examples]
    plain = dict(merge_candidates(parts, base))
    carried = dict(merge_candidates(parts, base, before))
    assert list(carried) == [*plain, "half-momentum", "mean-momentum"]
    assert all(carried[name]._encode() == one._encode() for name, one in plain.items())
    for name, one in merge_candidates(parts, base, base):  # as in the first round
        assert one._encode() == plain[name.removesuffix("-momentum")]._encode()

    def sums(one: Any) -> Any:
        if one.alpha != "auto":
            return columns(one, "z", "n")
        c = one._state.rule.clock[0]
        return {**columns(one, "theta", "n"), "intercept": (float(c.theta), float(c.n))}

    joined = {name: sums(one) for name, one in plain.items()}
    expected = reference_merge.ftrl_with_momentum(joined, sums(base), sums(before))
    for name, one in carried.items():
        got = sums(one)
        assert got.keys() == expected[name].keys()
        for key, values in expected[name].items():
            assert got[key] == pytest.approx(values, rel=1e-9, abs=1e-12)
        outside = [key for key, (z, _) in got.items() if abs(z) > 0.3 and key != "intercept"]
        assert set(one.weights) == set(outside)
        assert one.n_iterations == plain["sum"].n_iterations
        assert_learns_on(one)


SUMS = st.dictionaries(
    st.sampled_from("abc"), st.tuples(st.floats(-9.0, 9.0), st.sampled_from([0.0, 0.5, 2.0, 9.0]))
)


@given(SUMS, st.lists(SUMS, min_size=1, max_size=4), SUMS)
def test_joined_sums_equal_their_twin(base: Any, parts: list[Any], before: Any) -> None:
    """Sums of any size: those of parts that have dropped a weight are smaller than the base's."""
    names = "abc"

    def arrays(sums: Any) -> Any:
        return tuple(np.array([sums.get(name, (0.0, 0.0))[i] for name in names]) for i in (0, 1))

    expected = reference_merge.ftrl(base, parts)
    plain = list(joined_sums(*arrays(base), list(map(arrays, parts))))
    assert [candidate.name for candidate in plain] == list(expected)
    for name in names:  # a part that has learnt nothing is in none of the dictionaries
        for one in expected.values():
            one.setdefault(name, (0.0, 0.0))
    expected = reference_merge.ftrl_with_momentum(expected, base, before)
    moves = last_moves(arrays(base), arrays(before))
    carried = list(joined_sums(*arrays(base), list(map(arrays, parts)), moves))
    assert [candidate.name for candidate in carried] == list(expected)
    for candidate in (*plain, *carried):
        for k, name in enumerate(names):
            sums = expected[candidate.name][name]
            assert (candidate.z[k], candidate.n[k]) == pytest.approx(sums, rel=1e-9, abs=1e-12)
            assert candidate.n[k] >= 0.0


def test_rho_of_disjoint_parts_has_their_weights() -> None:
    parts = [learnt(FTRLClassifier(alpha=1.0, l1=0.1), [({name: 1.0}, True)] * 5) for name in "abc"]
    merged = dict(merge_candidates(parts))["rho"]
    expected = {name: w for part in parts for name, w in part.weights.items()}
    assert merged.weights == pytest.approx(expected, rel=1e-12) and len(expected) == 3


def test_all_kinds_of_names_are_united() -> None:
    """Names that one model has as categories, bytes of a file or crosses, another as strings."""
    params: dict[str, Any] = {"alpha": 1.0, "l1": 0.0, "cross": [("s", "t")]}
    one, two, three = (FTRLClassifier(**params) for _ in range(3))
    one.learn_many([{"s": "x", "t": "y", "n": 2.0}], [True])
    two.learn_many([{"s=x": 1.0, "t=y": 1.0}, {"s": "z", "t": "y"}], [False, True])
    three.learn_many([{"u": 1.0, "n": 1.0}], [True])
    merged = dict(merge_candidates([one, two, three]))["sum"]
    names = {"s=x", "t=y", "n", "s=z", "u", "s=x x t=y", "s=z x t=y"}
    assert set(columns(merged, "n")) == names
    n = columns(merged, "n")
    assert n["s=x"][0] == sum(columns(model, "n")["s=x"][0] for model in (one, two))
    assert n["s=x x t=y"][0] == sum(columns(m, "n")["s=x x t=y"][0] for m in (one, two))
    both_ways = [{"s": "x", "t": "y"}, {"s=x": 1.0, "t=y": 1.0}]
    (_, a), (_, b) = merged.predict_proba_many(both_ways)
    assert a == b


def streams(k: int, n: int = 300) -> tuple[list[Any], Any]:
    """Return k trained parts and a probe."""
    X, y = Drifting(n=(k + 1) * n, d=60, change="none", seed=k).matrix()
    parts = [FTRLClassifier(l1=0.5) for _ in range(k)]
    for i, part in enumerate(parts):
        part.learn_many(X[i * n : (i + 1) * n], y[i * n : (i + 1) * n])
    return parts, (X[k * n :], y[k * n :])


def test_bits_depend_on_the_order_of_the_parts_alone(tmp_path: Path) -> None:
    """Parts that were saved, loaded or pickled, and a different probe, change no bit."""
    parts, probe = streams(3)
    expected = dict(merge_candidates(parts))
    moved = []
    for k, part in enumerate(parts):
        part.save(tmp_path / f"{k}.model")
        loaded = streaml1.load(tmp_path / f"{k}.model")
        moved.append(pickle.loads(pickle.dumps(loaded)) if k else loaded)
    for name, model in merge_candidates(moved):
        assert model._encode() == expected[name]._encode()
    merged = compare(parts, probe=probe)
    assert merged.model._encode() == expected[merged.chosen]._encode()


def test_takes_the_least_loss_on_the_probe() -> None:
    parts, probe = streams(3)
    before = [part._encode() for part in parts]
    merged = compare(parts, parts[0].clone(), probe=iter(list(rows(probe))))
    losses = {candidate.name: candidate.loss for candidate in merged.candidates}
    part_losses = [evaluate(part, probe).lines[-1].loss or 0.0 for part in parts]
    best = part_losses.index(min(part_losses)) + 1
    assert list(losses) == ["sum", "rho", "half", "blend", "mean", f"model {best}", "base"]
    assert losses[f"model {best}"] == pytest.approx(min(part_losses))
    assert losses[merged.chosen] == min(losses.values()) < min(part_losses)
    assert evaluate(merged.model, probe).lines[-1].loss == pytest.approx(min(losses.values()))
    assert merged.loss_name == "log-loss"
    assert losses["base"] == pytest.approx(math.log(2.0))
    assert [part._encode() for part in parts] == before
    merged.model.learn_one({0: 1.0}, True)
    assert [part._encode() for part in parts] == before


def rows(probe: Any) -> Any:
    X, y = probe
    for i in range(X.shape[0]):
        yield dict(zip(X[i].indices.tolist(), X[i].data.tolist(), strict=True)), bool(y[i])


def test_a_part_that_is_best_is_copied() -> None:
    good = learnt(FTRLClassifier(l1=0.0), [({"a": 1.0}, True), ({"a": -1.0}, False)] * 50)
    bad = learnt(FTRLClassifier(l1=0.0), [({"a": 1.0}, False), ({"a": -1.0}, True)] * 50)
    merged = compare([bad, good], probe=[({"a": 1.0}, True)] * 5)
    assert merged.chosen == "model 2" and merged.model is not good
    assert merged.model._encode() == good._encode()


def test_slack_is_the_share_by_which_a_part_must_be_better() -> None:
    good = learnt(FTRLClassifier(l1=0.0), [({"a": 1.0}, True), ({"a": -1.0}, False)] * 50)
    bad = learnt(FTRLClassifier(l1=0.0), [({"a": 1.0}, False), ({"a": -1.0}, True)] * 50)
    probe = [({"a": 1.0}, True)] * 5
    merged = compare([bad, good], probe=probe)
    *joined, part = merged.candidates
    best = min(joined, key=lambda one: one.loss)
    assert part.name == "model 2" and part.loss < best.loss
    excess = best.loss / part.loss - 1.0
    assert compare([bad, good], probe=probe, slack=0.99 * excess).chosen == "model 2"
    taken = compare([bad, good], probe=probe, slack=1.01 * excess)
    assert taken.chosen == best.name and taken.candidates == merged.candidates
    assert evaluate(taken.model, probe).lines[-1].loss == pytest.approx(best.loss)


@pytest.mark.parametrize("target", [True, False])
def test_momentum_is_taken_only_if_it_pays(target: bool) -> None:
    """The last move was towards False; the parts have learnt True."""
    before = learnt(FTRLClassifier(l1=0.0), [(A, True)] * 5)
    base = learnt(before, [(A, False)] * 20)
    parts = [learnt(base, [(A, True)] * 2) for _ in range(2)]
    merged = compare(parts, base, probe=[(A, target)] * 5, before=before)
    assert merged.chosen.endswith("-momentum") != target


def test_at_most_max_features_weights() -> None:
    X, y = Drifting(n=600, d=60, change="none", seed=3).matrix()
    parts = [FTRLClassifier(alpha=1.0, l1=0.01, max_features=16) for _ in range(2)]
    for k, part in enumerate(parts):
        part.learn_many(X[300 * k : 300 * (k + 1)], y[300 * k : 300 * (k + 1)])
    for _, model in merge_candidates(parts):
        assert 0 < model.n_nonzero <= 16 and model.max_features == 16
        assert model.n_cut > sum(part.n_cut for part in parts)
        assert_learns_on(model)
        assert model.n_nonzero <= 16


def test_released_names_count_as_seen() -> None:
    X, y = Drifting(n=600, d=60, change="none", seed=3).matrix()
    parts = [FTRLClassifier(alpha=1.0, l1=0.01, max_features=8) for _ in range(2)]
    for k, part in enumerate(parts):
        part.learn_many(X[300 * k : 300 * (k + 1)], y[300 * k : 300 * (k + 1)])
    seen = len(np.unique(X.indices))
    for _, model in merge_candidates(parts):
        assert len(columns(model, "n")) < seen
        assert model.n_features_seen == pytest.approx(seen, rel=0.05)


@pytest.mark.parametrize(
    ("models", "base", "error", "message"),
    [
        ([], None, ValueError, "models must hold at least one model, got none"),
        (FTRLClassifier(), None, TypeError, "models must be a list of models, got FTRL"),
        ([FTRLClassifier(), 3], None, TypeError, "model 2 must be a model of streaml1, got int"),
        (
            [FTRLClassifier() | FTRLClassifier()],
            None,
            TypeError,
            "the model must be a model of streaml1, got Pipeline; take the model out of its pipe",
        ),
        (
            ["a.model", "b.model"],
            None,
            TypeError,
            "model 1 must be a model of streaml1, got str; streaml1.load returns the model of a f",
        ),
        (
            [streaml1.L1BallClassifier()],
            None,
            ValueError,
            "the model cannot be merged: L1BallClassifier does not support it; ",
        ),
        (
            [FTRLClassifier(), FTRLRegressor()],
            None,
            ValueError,
            "model 2 is a FTRLRegressor and model 1 a FTRLClassifier; merge models of one class",
        ),
        (
            [FTRLClassifier(), FTRLClassifier(l1=0.5)],
            None,
            ValueError,
            "model 2 has l1=0.5 and model 1 1.0; merge models with the same parameters",
        ),
        (  # which read values in different ways
            [streaml1.ElasticNetClassifier(), streaml1.ElasticNetClassifier(lr=0.1)],
            None,
            ValueError,
            "model 2 has lr=0.1 and model 1 'auto'; merge models with the same parameters",
        ),
        (
            [FTRLClassifier(), FTRLClassifier(loss="hinge")],
            None,
            ValueError,
            "model 2 has loss='hinge' and model 1 'logistic'; merge models with the same",
        ),
        (
            [FTRLClassifier(hash_bits=5)],
            FTRLClassifier(hash_bits=6),
            ValueError,
            "the base has hash_bits=6 and model 1 5; merge models with the same parameters",
        ),
    ],
)  # fmt: skip
def test_models_that_cannot_be_merged(
    models: list[Any], base: Any, error: type[Exception], message: str
) -> None:
    assert_not_merged(models, base, error, message)


def test_a_base_that_has_learnt_more_than_a_model_is_rejected() -> None:
    assert_not_merged(
        [FTRLClassifier()],
        learnt(FTRLClassifier(), [(A, True)]),
        ValueError,
        "the model has learnt 0 examples and the base 1; give the base that all models started",
    )


def assert_not_merged(models: list[Any], base: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        streaml1.merge(models, base, probe=[(A, True)])
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_an_empty_probe_is_rejected() -> None:
    with pytest.raises(ValueError, match="the probe has no example"):
        streaml1.merge([FTRLClassifier()], probe=[])


REJECTED = ("FOBOS", "L1Ball", "Pegasos", "Softmax", "AdaptiveElasticNet")
"""Methods without a merge."""


def test_every_learner_merges_or_is_rejected_by_name() -> None:
    for name in (name for name in streaml1.__all__ if name.endswith(("Classifier", "Regressor"))):
        model = getattr(streaml1, name)()
        if not name.startswith(REJECTED):
            assert dict(merge_candidates([model, model.clone()]))
        else:
            with pytest.raises(ValueError, match=f"the model cannot be merged: {name} does not"):
                list(merge_candidates([model]))


# The command


def as_svmlight(n: int, first: int) -> str:
    rows = (f"{k % 2} {k % 2 + 1}:1 {k % 3 + 10}:{k % 5 + 1}" for k in range(first, first + n))
    return "\n".join(rows) + "\n"


def invoke(*args: object) -> Any:
    return CliRunner().invoke(cli, [str(arg) for arg in args])


@pytest.fixture
def saved(tmp_path: Path) -> list[Path]:
    """Write three models, of which the last has learnt nothing, and a probe."""
    paths = []
    for k in range(3):
        model = FTRLClassifier()
        for x, y in [({2: 1.0, k + 10: 2.0}, True), ({1: 1.0, k + 10: 1.0}, False)] * 20 * (k < 2):
            model.learn_one(x, y)
        paths.append(tmp_path / f"{k}.model")
        model.save(paths[-1])
    (tmp_path / "probe.svm").write_text(as_svmlight(60, 5))
    return paths


def test_command_prints_candidates_and_writes_the_best(saved: list[Path], tmp_path: Path) -> None:
    probe, target = tmp_path / "probe.svm", tmp_path / "merged.model"
    result = invoke("merge", *saved, "-o", target, "--probe", probe)
    assert result.exit_code == 0, result.output
    merged = compare([streaml1.load(path) for path in saved], probe=probe)
    lines = result.stdout.splitlines()  # a compilation may be announced on standard error
    assert lines[0].split() == ["candidate", "log-loss", "non-zeros"]
    n_rows = len(merged.candidates)
    for line, candidate in zip(lines[1 : n_rows + 1], merged.candidates, strict=True):
        cells = [*candidate.name.split(), f"{candidate.loss:.4f}", str(candidate.n_nonzero)]
        assert line.split() == [*cells, *["*"] * (candidate.name == merged.chosen)]
    part = merged.candidates[-1].name
    path = saved[int(part.removeprefix("model ")) - 1]
    assert lines[n_rows + 1 :] == ["* smallest loss", f"{part}: {path}", str(target)]
    assert streaml1.load(target)._encode() == merged.model._encode()


def test_command_reports_an_invalid_example_once(saved: list[Path], tmp_path: Path) -> None:
    """The probe is read once for each candidate."""
    probe = tmp_path / "probe.svm"
    probe.write_text("1 1:\x1b\n" + probe.read_text())
    command = ("merge", *saved, "-o", tmp_path / "merged.model", "--probe", probe, "--bad", "skip")
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    skipped = [line for line in result.stderr.splitlines() if "skipped" in line]
    assert len(skipped) == 1 and skipped[0].startswith(f"streaml1: skipped {probe}:1: ")
    assert "\x1b" not in result.stderr


def test_command_merges_the_partitions_of_a_group(saved: list[Path], tmp_path: Path) -> None:
    """Directories of partitions are sorted by number; other files and directories are ignored."""
    kept = tmp_path / "kept"
    for k, partition in enumerate((10, 9)):
        report = streaml1.progressive(
            FTRLClassifier(), tmp_path / "probe.svm", limit=20 + k,
            checkpoint=kept / f"clicks-{partition}",
        )  # fmt: skip
        assert report.examples == 20 + k
    (kept / "clicks.partitions").write_text("")
    (kept / "other").mkdir()
    assert [path.name for path in partition_directories(kept)] == ["clicks-9", "clicks-10"]
    target = tmp_path / "merged.model"
    result = invoke("merge", kept, "-o", target, "--probe", tmp_path / "probe.svm")
    assert result.exit_code == 0, result.output
    parts = [streaml1.load(kept / f"clicks-{k}") for k in (9, 10)]
    expected = compare(parts, probe=tmp_path / "probe.svm").model
    assert streaml1.load(target)._encode() == expected._encode()


def test_command_with_a_base(saved: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "merged.model"
    probe = tmp_path / "probe.svm"
    result = invoke("merge", *saved[:2], "--base", saved[2], "-o", target, "--probe", probe)
    assert result.exit_code == 0 and "base " in result.output
    assert streaml1.load(target).n_iterations == 80


def test_command_names_the_file_at_fault(saved: list[Path], tmp_path: Path) -> None:
    FTRLClassifier(l1=0.5).save(saved[1])
    probe, target = tmp_path / "probe.svm", tmp_path / "merged.model"
    result = invoke("merge", *saved, "-o", target, "--probe", probe)
    assert result.exit_code == 2 and not target.exists()
    assert f"{saved[1]} has l1=0.5 and {saved[0]} 1.0; merge models with the same" in result.output
    result = invoke("merge", saved[0], "-o", target, "--probe", "-")
    assert result.exit_code == 2 and "--probe is read once for each candidate" in result.output
    result = invoke("merge", saved[0], "-o", probe, "--probe", probe)
    assert result.exit_code == 2 and "is also --probe; choose another" in result.output
