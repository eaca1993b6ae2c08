"""CoCoA+: dual ascent over shards of the examples."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaml1.distributed import InlineExecutor, ProcessExecutor
from streaml1.optim.losses import CODES
from streaml1.solvers import NotConverged, Solution, prox_sdca, sdca
from streaml1.solvers.data import Data
from streaml1.solvers.sampling import CYCLIC, PERMUTATION
from streaml1.solvers.sharded_ascent import ascend_shards, shards_of
from streaml1.solvers.solution import Trace
from tests import reference_ascent as reference
from tests.solver_data import toy

FIVE = ["logistic", "hinge", "smoothed_hinge", "squared", "absolute"]


class DualTrace(Trace):
    """A trace that keeps the dual of each record; the plain one keeps the largest so far."""

    def __init__(self, n_rounds: int) -> None:
        super().__init__("cocoa", 0.0, n_rounds)
        self.duals: list[float] = []

    def record(self, epoch: int, objective: float, dual: float, *args: Any) -> bool:
        self.duals.append(dual)
        return super().record(epoch, objective, dual, *args)


class Forgetful:
    """An executor that loses the results of some tasks, and hands tasks over as bytes."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def submit(self, task: Callable[..., Any], *args: Any) -> bytes:
        return pickle.dumps((task, args))

    def gather(self, handles: Sequence[bytes]) -> Iterator[Any]:
        for handle in handles:
            task, args = pickle.loads(handle)
            yield None if self._random.random() < 0.3 else task(*args)


def solve(
    loss: str, bounds: Sequence[int], n_rounds: int, executor: Any = None, **options: Any
) -> tuple[Solution, list[float]]:
    X, y = toy(loss, n=bounds[-1])
    data, trace = Data(X, y, loss), DualTrace(n_rounds)
    given = {"l1": 0.02, "l2": 0.05, "order": PERMUTATION, "epochs": 1} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        solution = ascend_shards(
            data, CODES[loss], 0.5, given["l1"], given["l2"], shards_of(data, bounds),
            given["order"], 0, trace, executor, given["epochs"],
        )  # fmt: skip
    return solution, trace.duals


@pytest.mark.parametrize("bounds", [[0, 30], [0, 10, 20, 30], [0, 1, 1, 30], [0, 0, 17, 30]])
@pytest.mark.parametrize("loss", [name for name in FIVE if name != "logistic"])
def test_rounds_match_the_reference(loss: str, bounds: list[int]) -> None:
    solution, _ = solve(loss, bounds, 3, order=CYCLIC)
    X, y = toy(loss, n=30)
    w, _ = reference.cocoa(loss, X, y, 0.02, 0.05, 0.5, bounds, 3)
    assert solution.weights == pytest.approx(w, abs=1e-9)
    assert ((solution.weights != 0.0) == (w != 0.0)).all()


@settings(max_examples=40)
@given(
    st.sampled_from(FIVE),
    st.lists(st.integers(0, 60), max_size=64),
    st.sampled_from([0.0, 0.02]),
    st.sampled_from([1, 5]),
    st.integers(0, 2**32 - 1),
)
def test_the_dual_never_falls(
    loss: str, cuts: list[int], l1: float, epochs: int, seed: int
) -> None:
    """Whatever the number and sizes of the shards, and whichever of them return nothing."""
    bounds = [0, *sorted(cuts), 60]
    solution, duals = solve(loss, bounds, 25, Forgetful(seed), l1=l1, epochs=epochs)
    assert (np.diff(duals) >= -1e-13).all()
    assert solution.objective >= max(duals) - 1e-13


@pytest.mark.parametrize("loss", FIVE)
@pytest.mark.parametrize("shards", [2, 16])
def test_shards_reach_the_optimum(loss: str, shards: int) -> None:
    X, y = toy(loss)
    tol = 1e-3 if loss in ("hinge", "absolute") else 1e-6
    options: dict[str, Any] = {"l1": 0.02, "l2": 0.05, "gamma": 0.5, "tol": tol}
    alone = prox_sdca(X, y, loss, **options, max_epochs=5_000)
    joined = prox_sdca(X, y, loss, **options, shards=shards, max_epochs=5_000)
    assert joined.converged
    assert joined.objective == pytest.approx(alone.objective, abs=2.0 * tol)
    # The objective is strongly convex with l2.
    distance = np.linalg.norm(joined.weights - alone.weights)
    assert distance <= 2.0 * np.sqrt(2.0 * tol / 0.05)
    assert [record.epoch for record in joined.trace] == list(range(len(joined.trace)))


def test_without_l1_it_solves_the_problem_of_sdca() -> None:
    X, y = toy("logistic")
    alone = sdca(X, y, l2=0.01, tol=1e-9)
    joined = sdca(X, y, l2=0.01, tol=1e-9, shards=4)
    assert joined.objective == pytest.approx(alone.objective, abs=2e-9)


def test_one_shard_is_the_plain_solver() -> None:
    X, y = toy("logistic")
    for solver in (sdca, prox_sdca):
        options: dict[str, Any] = {"l1": 0.0 if solver is sdca else 0.01, "l2": 0.05}
        plain, one = solver(X, y, **options), solver(X, y, **options, shards=1)
        assert plain.weights.tobytes() == one.weights.tobytes()


def test_executors_give_the_same_bits() -> None:
    X, y = toy("hinge")
    options: dict[str, Any] = {"loss": "hinge", "l1": 0.01, "l2": 0.05, "shards": 3, "tol": 1e-4}
    here = prox_sdca(X, y, **options)
    for executor in (InlineExecutor(), ProcessExecutor(2)):
        with executor:
            there = prox_sdca(X, y, **options, executor=executor)
        assert there.weights.tobytes() == here.weights.tobytes()
        assert there.trace[-1].accesses == here.trace[-1].accesses


@pytest.mark.parametrize(
    ("solver", "options", "sentence"),
    [
        (sdca, {"shards": 0}, "shards must be a whole number >= 1, got 0"),
        (sdca, {"shards": 1.5}, "shards must be a whole number >= 1, got 1.5"),
        (sdca, {"shards": True}, "shards must be a whole number >= 1, got True"),
        (prox_sdca, {"shards": 2}, "prox_sdca does not support l2=0 with shards=2; use a small l2"),
        (
            sdca,
            {"shards": 2, "loss": "multiclass_hinge"},
            "sdca does not support shards=2 with loss='multiclass_hinge'; use shards=1",
        ),
    ],
)
def test_unsupported_shards(solver: Any, options: dict[str, Any], sentence: str) -> None:
    X, y = toy("logistic")
    with pytest.raises(ValueError) as error:
        solver(X, y, **options)
    assert str(error.value) == sentence


@pytest.mark.parametrize("solver", [sdca, prox_sdca])
def test_a_pool_is_no_executor(solver: Any) -> None:
    X, y = toy("logistic")
    with ThreadPoolExecutor(1) as pool, pytest.raises(TypeError, match="such as ProcessExecutor"):
        solver(X, y, l2=0.1, shards=2, executor=pool)
