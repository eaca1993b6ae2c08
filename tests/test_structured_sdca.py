"""SDCA with an oracle: steps, gap, optimum, a chain with Viterbi, and mistakes of the oracle."""

from __future__ import annotations

import importlib
import itertools
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from streaml1.solvers import NotConverged, Record, Solution, sdca, structured_sdca
from tests import reference_solvers as reference

DEMOS = Path(__file__).parent.parent / "demos" / "papers"


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(DEMOS))
    return importlib.import_module("structured_chain")


def solve_quietly(*args: Any, **options: Any) -> Solution:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return structured_sdca(*args, **options)


def small_chains(chain: Any, n: int, seed: int = 0) -> Any:
    X, y = chain.draw_chains(n, seed)
    return chain.Chains([x[:3] for x in X], [labels[:3] for labels in y])


def all_outputs(chain: Any, x: Any, y: Any) -> list[tuple[float, Any]]:
    true = chain.features(x, y)
    return [
        (float(np.sum(np.array(some) != y)), true - chain.features(x, np.array(some)))
        for some in itertools.product(range(chain.LABELS), repeat=len(y))
    ]


def test_viterbi_finds_the_maximum(chain: Any) -> None:
    rng = np.random.default_rng(0)
    chains = small_chains(chain, 20)
    for x, y in zip(*chains, strict=True):
        w = rng.normal(size=chain.N_WEIGHTS)
        cost, difference = chain.oracle(w, x, y)
        best = max(cost - w @ difference for cost, difference in all_outputs(chain, x, y))
        assert cost - w @ difference == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize(("sparse", "keep"), [(False, True), (True, False), (True, True)])
def test_steps_match_the_reference(
    chain: Any, sparse: bool, keep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps among kept outputs are made exact here: a move leaves ties, which rounding decides."""
    module = importlib.import_module("streaml1.solvers.structured_sdca")
    monkeypatch.setattr(module, "INNER_GAP", 1e-5)
    monkeypatch.setattr(module, "MAX_MOVES", 10_000)
    chains, path, records = small_chains(chain, 4), [], []

    def oracle(w: Any, x: Any, y: Any) -> Any:
        assert not w.flags.writeable
        cost, difference = chain.oracle(w, x, y)
        if not sparse:
            return cost, difference
        ids = np.flatnonzero(difference)[::-1]  # repeated indices are added up
        return cost, (np.tile(ids, 2), np.tile(0.5 * difference[ids], 2))

    def callback(record: Record, w: Any) -> None:
        path.append(w.copy())
        records.append(record)

    options = {"n_weights": chain.N_WEIGHTS, "l2": 0.1, "order": "cyclic", "tol": 0.0}
    options |= {"keep_outputs": keep, "oracle": oracle}
    solve_quietly(*chains, max_epochs=3, callback=callback, **options)
    outputs = [all_outputs(chain, x, y) for x, y in zip(*chains, strict=True)]
    weights, primals, duals = reference.structured_ascent(outputs, 0.1, 3, keep)
    assert not path[0].any() and records[0].dual == 0.0
    for got, record, *slow in zip(path[1:], records[1:], weights, primals, duals, strict=True):
        np.testing.assert_allclose(got, slow[0], rtol=0.0, atol=1e-4 if keep else 1e-6)
        np.testing.assert_allclose((record.objective, record.dual), slow[1:], atol=1e-4)
        assert ((got != 0.0) == (np.abs(slow[0]) > 1e-12)).all()


@pytest.mark.parametrize(
    ("order", "keep"), [("permutation", True), ("random", True), ("cyclic", False)]
)
def test_gap_closes_and_bounds_the_optimum(chain: Any, order: str, keep: bool) -> None:
    chains = chain.draw_chains(10, 3)
    options = {"oracle": chain.oracle, "n_weights": chain.N_WEIGHTS, "l2": 0.2, "order": order}
    options["keep_outputs"] = keep
    traces: list[Record] = []
    found = structured_sdca(
        *chains, tol=2e-3, callback=lambda record, w: traces.append(record), **options
    )
    assert found.converged and found.gap <= 2e-3 * max(1.0, found.objective)
    duals = [record.dual for record in traces]
    assert len(traces) > 5 and all(np.diff(duals) > 0.0)
    assert traces[-1].gap < 0.01 * traces[1].gap
    assert all(record.objective >= duals[-1] for record in traces)
    again = structured_sdca(*chains, tol=2e-3, seed=9, **options)
    assert abs(again.objective - found.objective) <= max(again.gap, found.gap)


def test_labels_as_outputs_reach_the_optimum_of_the_multiclass_hinge() -> None:
    rng = np.random.default_rng(5)
    X, k, cost = rng.normal(size=(40, 3)), 3, np.array([[0, 1, 2], [1, 0, 1], [3, 1, 0]], float)
    y = (X @ rng.normal(size=(3, k)) + rng.normal(size=(40, k))).argmax(axis=1)

    def oracle(w: Any, x: Any, label: int) -> Any:
        x = np.asarray(x.todense()).ravel() if hasattr(x, "todense") else x
        values = cost[label] - w.reshape(k, 3)[label] @ x + w.reshape(k, 3) @ x
        worst = int(values.argmax())
        return cost[label, worst], np.outer(np.eye(k)[label] - np.eye(k)[worst], x).ravel()

    best = sdca(X, y, "multiclass_hinge", l2=0.1, cost=cost, tol=1e-7)
    for rows in (X, csr_matrix(X), list(X)):
        found = structured_sdca(rows, y, oracle=oracle, n_weights=9, l2=0.1, tol=1e-3)
        assert found.converged and abs(found.objective - best.objective) <= found.gap + 1e-7
        assert found.dual <= best.objective + 1e-9
        np.testing.assert_allclose(found.weights.reshape(k, 3), best.weights, atol=0.1)


def test_kept_outputs_need_fewer_passes() -> None:
    """On few examples the gap falls geometrically; by means alone it falls like 1 / t."""

    def oracle(w: Any, x: float, y: int) -> Any:
        features = [np.outer(np.eye(4)[label], [x, 1.0]).ravel() for label in range(4)]
        values = [abs(label - y) + w @ features[label] for label in range(4)]
        worst = int(np.argmax(values))
        return abs(worst - y), features[y] - features[worst]

    args = [-2.0, -1.0, 1.0, 2.0], [0, 1, 2, 3]
    options = {"oracle": oracle, "n_weights": 8, "l2": 0.1, "max_epochs": 60}
    assert structured_sdca(*args, tol=1e-9, **options).converged
    assert solve_quietly(*args, tol=1e-9, keep_outputs=False, **options).gap > 0.01


def zeros(w: Any, x: Any, y: Any) -> Any:
    return 0.0, np.zeros(2)


def test_outputs_without_features() -> None:
    """The dual reaches the primal in one pass, as no weight changes anything."""
    found = structured_sdca([1], [1], oracle=lambda *_: (3.0, ([], [])), n_weights=2, l2=1.0)
    assert (found.objective, found.dual, found.gap) == (3.0, 3.0, 0.0)
    assert structured_sdca([1], [1], oracle=zeros, n_weights=2).trace[-1].epoch == 0


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "a cost and a difference"),
        ((1.0,), "a cost and a difference"),
        ((-1.0, [0.0, 0.0]), "finite cost >= 0, got -1"),
        ((math.nan, [0.0, 0.0]), "finite cost >= 0, got nan"),
        ((1.0, [0.0]), r"difference of shape \(2,\), got \(1,\)"),
        ((1.0, [0.0, math.inf]), "difference of finite numbers"),
        ((1.0, ([0], [1.0, 2.0])), "as many indices as values"),
        ((1.0, ([2], [1.0])), "integer indices from 0 to 1"),
        ((1.0, ([-1], [1.0])), "integer indices from 0 to 1"),
        ((1.0, ([0.5], [1.0])), "integer indices from 0 to 1"),
    ],
)
def test_mistakes_of_the_oracle(result: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"oracle must return .*{message}"):
        structured_sdca([1], [1], oracle=lambda *_: result, n_weights=2)


def test_output_that_is_not_the_maximum_is_rejected() -> None:
    """Such an output would make the objective, and so the gap, too small."""

    def oracle(w: Any, x: Any, y: Any) -> Any:
        return (0.5, [5.0, 0.0]) if w.any() else (1.0, [1.0, 0.0])

    with pytest.raises(ValueError, match=r"got one of -4\.5 for example 0, where 0 is possible"):
        structured_sdca([1], [1], oracle=oracle, n_weights=2, l2=0.1, tol=0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "loss='hinge'; use one of"),
        ({"l1": 0.1}, "l1=0.1"),
        ({"l2": 0.0}, "l2=0"),
        ({"order": "up"}, "order='up'"),
        ({"keep_outputs": "yes"}, "keep_outputs must be"),
        ({"fit_intercept": True}, "fit_intercept=True; add a feature that is always 1"),
        ({"oracle": 3}, "oracle must be a function of w, x and y, got 3"),
        ({"n_weights": 0}, "n_weights must be"),
        ({"y": [1, 2]}, "of one length, got 1 and 2"),
        ({"X": [], "y": []}, "at least one example"),
    ],
)
def test_invalid_arguments(options: dict[str, Any], message: str) -> None:
    valid: dict[str, Any] = {"X": [1], "y": [1], "oracle": zeros, "n_weights": 2}
    with pytest.raises(ValueError, match=message):
        structured_sdca(**{**valid, **options})
    with pytest.raises(TypeError, match="X must be a sequence, got an int"):
        structured_sdca(3, [1], oracle=zeros, n_weights=2)  # type: ignore[arg-type]
