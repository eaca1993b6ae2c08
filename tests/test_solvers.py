"""What all solvers share: data, losses and their conjugates, the trace, rejected arguments."""

from __future__ import annotations

import inspect
import math
import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_matrix, csc_matrix, csr_array, csr_matrix

from streaml1 import BadExample, solvers
from streaml1.cli import cli
from streaml1.optim.losses import CODES
from streaml1.solvers import objective
from streaml1.solvers.data import Data, check_choice, check_run, check_strength, unsupported
from streaml1.solvers.loss_terms import dual_bound, make_loss_term
from streaml1.solvers.penalties import make_penalty
from streaml1.solvers.prox_sdca import LOSSES
from streaml1.solvers.solution import NotConverged, Trace
from tests import reference_solvers as reference
from tests.solver_data import toy

SCALAR_LOSSES = list(LOSSES)


def test_matrices() -> None:
    dense = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    int64_indices = csr_array(dense)
    int64_indices.indices, int64_indices.indptr = (
        int64_indices.indices.astype(np.int64),
        int64_indices.indptr.astype(np.int64),
    )
    for X in (dense, csr_matrix(dense), csc_matrix(dense), int64_indices, dense.astype(np.float32)):
        data = Data(X, [0, 1], "logistic")
        assert (data.n, data.d, data.nnz) == (2, 3, 3)
        assert data.matrix.toarray().tolist() == dense.tolist()
        assert data.rows.values.dtype == np.float64
        assert data.row_squares.tolist() == [5.0, 9.0]
        assert data.column_squares.tolist() == [1.0, 9.0, 4.0]
    duplicates = coo_matrix(([1.0, 2.0, 3.0, 0.0], ([0, 0, 1, 1], [1, 1, 0, 1])), shape=(2, 2))
    unsummed = csr_matrix(([1.0, 2.0, -3.0, 3.0], [1, 1, 0, 0], [0, 2, 4]), shape=(2, 2))
    assert Data(duplicates, [0, 1], "hinge").matrix.toarray().tolist() == [[0.0, 3.0], [3.0, 0.0]]
    data = Data(unsummed, [0, 1], "hinge")
    assert data.nnz == 1 and data.matrix.toarray().tolist() == [[0.0, 3.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("solver", "loss", "options", "remedy"),
    [
        ("sdca", "hinge", {"l2": 0.0}, "use l2 > 0"),
        ("sdca", "logistic", {"l2": 0.0}, "use l2 > 0, or fista"),
        ("sdca", "multiclass_hinge", {"l1": 0.1}, "use l1=0"),
        ("sdca", "hinge", {"fit_intercept": True}, "add a column of ones"),
        ("sdca", "squared", {"fit_intercept": True}, "add a column of ones, or use fista or scd"),
        ("prox_sdca", "absolute", {"l1": 0.0}, "use one of them"),
        ("frank_wolfe", "logistic", {"fit_intercept": True}, 'use fista with penalty="ball"'),
    ],
)
def test_remedies_are_solvers_of_the_same_loss(
    solver: str, loss: str, options: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(ValueError) as error:
        getattr(solvers, solver)(np.eye(2), [0, 1], loss=loss, **options)
    assert str(error.value).endswith(f"; {remedy}")


@pytest.mark.parametrize(
    ("y", "signs"),
    [
        ([False, True], [-1.0, 1.0]),
        ([0, 1], [-1.0, 1.0]),
        ([1, -1], [1.0, -1.0]),
        ([0.0, 0.0], [-1.0, -1.0]),
        ([1.0, 1.0], [1.0, 1.0]),
        (np.array([-1, -1], np.int8), [-1.0, -1.0]),
        (np.array([True, 0], object), [1.0, -1.0]),
        ([-1, 1.0], [-1.0, 1.0]),
    ],
)
def test_labels(y: Any, signs: list[float]) -> None:
    for loss in ("logistic", "hinge", "smoothed_hinge"):
        labels = Data(np.eye(2), y, loss).y
        assert labels.tolist() == signs and labels.dtype == np.float64


def test_other_labels() -> None:
    assert Data(np.eye(2), [3, -1.5], "squared").y.tolist() == [3.0, -1.5]
    data = Data(np.eye(3), ["b", "a", "b"], "softmax")
    assert data.classes == ("a", "b") and data.y.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("X", "y", "loss", "sentence"),
    [
        (np.eye(2), [0, 2], "logistic", "labels of a classifier must be .*, got 2"),
        (np.eye(2), [0, -1], "logistic", "labels of a classifier must be .*, got -1"),
        (
            np.eye(2),
            [0, math.nan],
            "logistic",
            "nan is not a label .*; drop its row",
        ),
        (np.eye(2), np.array([0, math.nan]), "hinge", "nan is not a label of a classifier"),
        (
            np.eye(2),
            [0, "no"],
            "logistic",
            "'no' is not a label .* use fista",
        ),
        (np.eye(2), ["no", None], "softmax", "the label None is missing; drop its row"),
        (np.eye(2), [0, math.nan], "squared", "the label nan is not finite"),
        (np.eye(2), [0, math.nan], "softmax", "a label is NaN; drop its row"),
        (np.eye(2), [0, "a"], "softmax", "labels must be of one type, got int and str"),
        (
            np.eye(2),
            [0],
            "logistic",
            r"labels must have the shape \(2,\), one for each of the rows, got \(1,\)",
        ),
        (np.array([[1.0], [math.nan]]), [0, 1], "logistic", "the value of 0 is NaN"),
        (np.array([[1.0], [math.inf]]), [0, 1], "logistic", "the value inf of 0 is too large"),
        (np.zeros((0, 2)), [], "logistic", "X must have at least one row, got none"),
    ],
)
def test_bad_data(X: Any, y: Any, loss: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        Data(X, y, loss)
    if isinstance(caught.value, BadExample):
        assert caught.value.row == 1
    what = "X must be a scipy.sparse or numpy matrix, got a"
    with pytest.raises(TypeError, match=rf"{what} list; use np.array\(X\)"):
        Data([[1.0]], [1], loss)
    with pytest.raises(TypeError, match=rf"{what} DataFrame; use X.to_numpy\(\)"):
        Data(pd.DataFrame({"a": [1.0]}), [1], loss)


def test_errors_name_solver_and_argument() -> None:
    assert (
        str(unsupported("sdca", "l1=0.1", "use prox_sdca"))
        == "sdca does not support l1=0.1; use prox_sdca"
    )
    assert check_choice("scd", "loss", "squared", ("logistic", "squared")) == "squared"
    with pytest.raises(
        ValueError, match="scd does not support loss='hinge'; use one of \"logistic\""
    ):
        check_choice("scd", "loss", "hinge", ("logistic", "squared"))
    with pytest.raises(ValueError, match=r"l1 must be a number from 0 to 1e\+100, got -1"):
        check_strength("l1", -1)
    with pytest.raises(
        ValueError, match=r"gamma must be a number above 0 and at most 1e\+100, got 0.0"
    ):
        check_strength("gamma", 0.0, above_zero=True)
    with pytest.raises(
        ValueError,
        match="max_epochs must be an integer from 0 to 4,611,686,018,427,387,904, got 1.5",
    ):
        check_run(1e-6, 1.5)
    with pytest.raises(ValueError, match="tol must be a number from 0 to inf, got nan"):
        check_run(math.nan, 1)


@pytest.mark.parametrize("gamma", [1.0, 0.25, 3.0])
@pytest.mark.parametrize("loss", SCALAR_LOSSES)
def test_losses(loss: str, gamma: float) -> None:
    """Compare with the reference; the conjugate is max_a theta a - loss(a)."""
    code = CODES[loss]
    grid = np.linspace(-40.0, 40.0, 4001)
    for y in (-1.0, 1.0) if loss not in ("squared", "absolute") else (-0.7, 2.0):
        for a in (-30.0, -2.0, 1.0 - gamma, 0.0, 0.5, 0.99, 1.01, 5.0, 800.0):
            value, slope = reference.loss(loss, a, y, gamma)
            assert objective.value(code, a, y, gamma) == pytest.approx(value, rel=1e-12, abs=1e-12)
            got = objective.derivative(code, a, y, gamma)
            assert got == pytest.approx(slope, rel=1e-12, abs=1e-12)
        for s in (0.0, 0.1, 0.5, 0.9, 1.0):
            theta = s if loss in ("squared", "absolute") else -y * s
            grid_max = max(theta * a - objective.value(code, a, y, gamma) for a in grid)
            got = objective.conjugate(code, theta, y, gamma)
            assert grid_max - 1e-12 <= got <= grid_max + 0.03
    outside = 1.1 if loss != "squared" else math.nan
    if loss != "squared":
        assert objective.conjugate(code, outside, 1.0, gamma) == math.inf
        assert objective.conjugate(code, -outside, 1.0, gamma) == math.inf


def test_sums_over_rows() -> None:
    X, y = toy("logistic")
    data, random = Data(X, y, "logistic"), np.random.default_rng(1)
    w, theta = random.normal(size=8), random.normal(size=60)
    a, v = np.empty(60), np.full(8, 9.0)
    objective.margins(*data.rows, w, 0.5, a)
    objective.weighted_row_sum(*data.rows, theta, -2.0, v)
    np.testing.assert_allclose(a, X @ w + 0.5, rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(v, -2.0 * theta @ X, rtol=0.0, atol=1e-12)
    expected = reference.mean_loss("logistic", X, y, w, 0.5)[0]
    assert objective.mean_loss(0, a, data.y, 1.0) == pytest.approx(expected, abs=1e-13)
    slopes = np.empty(60)
    objective.derivatives(0, a, data.y, 1.0, slopes)
    np.testing.assert_allclose(slopes @ X / 60, reference.mean_loss("logistic", X, y, w, 0.5)[1])
    assert objective.elastic_net(w, 0.3, 0.2) == pytest.approx(
        0.3 * np.abs(w).sum() + 0.1 * (w @ w)
    )


@given(st.sampled_from([*SCALAR_LOSSES, "softmax"]), st.integers(0, 10**6), st.booleans())
def test_any_dual_bounds_any_objective(loss: str, seed: int, fit_intercept: bool) -> None:
    """Any dual variables give a lower bound, for each penalty and constraint."""
    X, y = toy(loss, n=12, d=5, seed=seed)
    data, random = Data(X, y, loss), np.random.default_rng(seed)
    term = make_loss_term(data, loss, 1.0)
    classes_shape = term.shape[:-1]
    theta = term.derivatives(
        random.normal(size=(12, *classes_shape)) * random.choice([0.1, 1.0, 20.0])
    )
    b = random.normal(size=classes_shape) if fit_intercept else np.zeros(classes_shape)
    penalties: list[dict[str, Any]] = [
        *({"penalty": penalty, "strength": 0.2} for penalty in ("l1", "l2", "linf")),
        *({"penalty": penalty, "radius": 2.0} for penalty in ("ball", "simplex", "l2-ball")),
        {"penalty": "ball", "radius": 2.0, "nonnegative": True},
        {"penalty": "elastic-net", "l1": 0.1},
    ]
    if loss == "softmax":
        penalties += [{"penalty": penalty, "strength": 0.2} for penalty in ("l1/l2", "l1/linf")]
    for penalty in penalties:
        for l2 in (0.0, 0.3):
            g = make_penalty("fista", **penalty, l2=l2)
            w = g.prox(random.normal(size=term.shape) * random.choice([0.1, 3.0]), 0.5)
            primal = term.mean(term.margins(w, b)) + g.value(w)
            bound = dual_bound(term, g, theta, term.gradient(theta), fit_intercept)
            assert -math.inf < bound <= primal + 1e-12
    if loss != "softmax":  # the direct formula of the elastic net
        v = -term.gradient(theta)
        for l1, l2 in ((0.1, 0.0), (0.1, 0.3), (0.0, 0.3)):
            g = make_penalty("fista", "elastic-net", l1=l1, l2=l2)
            got = objective.elastic_net_dual(CODES[loss], theta, v, data.y, 1.0, l1, l2)
            expected = dual_bound(term, g, theta, -v, False)
            assert got == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge", "squared", "softmax"])
def test_dual_near_the_optimum_stays_below_it(loss: str, fit_intercept: bool) -> None:
    """Check dual variables at and near the optimum, where the bound is tight."""
    X, y = toy(loss, n=12, d=5)
    data, random = Data(X, y, loss), np.random.default_rng(0)
    term = make_loss_term(data, loss, 1.0)
    penalties: list[dict[str, Any]] = [
        *({"penalty": penalty, "strength": 0.05} for penalty in ("l1", "l2", "linf")),
        *({"penalty": penalty, "radius": 1.0} for penalty in ("ball", "simplex", "l2-ball")),
        {"penalty": "ball", "radius": 1.0, "nonnegative": True},
    ]
    if loss == "softmax":
        penalties += [{"penalty": penalty, "strength": 0.05} for penalty in ("l1/l2", "l1/linf")]
    for penalty in penalties:
        for l2 in (0.0, 0.2):
            g = make_penalty("fista", **penalty, l2=l2)
            options: dict[str, Any] = {"loss": loss, "l2": l2, "fit_intercept": fit_intercept}
            best = solvers.fista(X, y, tol=1e-11, **options, **penalty)
            a = term.margins(best.weights, best.intercept)
            assert min(record.objective - record.dual for record in best.trace) >= -1e-13
            for noise in (0.0, 1e-6, 1e-3, 0.1):
                theta = term.derivatives(a + noise * random.normal(size=a.shape))
                bound = dual_bound(term, g, theta, term.gradient(theta), fit_intercept)
                assert bound <= best.objective + 1e-13


@given(st.sampled_from([*SCALAR_LOSSES, "softmax"]), st.integers(0, 10**6))
def test_balanced_dual_variables(loss: str, seed: int) -> None:
    """Balanced dual variables sum to zero and stay in the domain of the conjugate."""
    X, y = toy(loss, n=9, seed=seed)
    term = make_loss_term(Data(X, y, loss), loss, 1.0)
    a = np.random.default_rng(seed).normal(size=(9, *term.shape[:-1])) * 5.0
    theta = term.balance(term.derivatives(a))
    np.testing.assert_allclose(theta.sum(axis=0), 0.0, rtol=0.0, atol=1e-12)
    assert term.mean_conjugate(theta, 1.0) < math.inf
    np.testing.assert_allclose(term.balance(theta), theta, rtol=0.0, atol=1e-12)


def test_trace() -> None:
    trace = Trace("scd", 0.1, 5)
    w = np.array([0.0, 2.0])
    assert not trace.record(0, 1.0, -math.inf, 0, w)
    assert not trace.record(1, 0.9, 0.5, 10, w)
    assert not trace.record(2, 0.8, 0.2, 20, w)  # the larger bound is kept
    assert trace.record(3, 0.5, math.nan, 30, w)
    solution = trace.solution(w, 0.25)
    assert solution.converged and solution.gap == 0.0 and solution.dual == 0.5
    assert [record.gap for record in solution.trace] == pytest.approx([math.inf, 0.4, 0.3, 0.0])
    assert [record.accesses for record in solution.trace] == [0, 10, 20, 30]
    assert solution.trace[-1].n_nonzero == 1 and solution.intercept == 0.25
    with pytest.raises(AttributeError):
        solution.gap = 1.0  # type: ignore[misc]


def test_an_infinite_objective_has_not_converged() -> None:
    trace = Trace("scd", 1e-6, 3)
    assert not trace.record(1, math.inf, 0.0, 0, np.zeros(1)) and not trace.converged
    with pytest.warns(NotConverged, match="with a gap of inf"):
        assert not trace.solution(np.zeros(1)).converged


def test_warning_names_the_gap() -> None:
    trace = Trace("scd", 1e-6, 1)
    assert trace.record(1, 2.0, 1.5, 0, np.zeros(1))
    sentence = (
        "scd stopped after 1 epochs with a gap of 0.5, above tol=1e-06; raise max_epochs=1 or"
    )
    with pytest.warns(NotConverged, match=sentence):
        assert not trace.solution(np.zeros(1)).converged


SOLVERS = [
    name
    for name in solvers.__all__
    if name.islower() and name not in ("project_l1_ball", "project_simplex")
]


def test_callback_ends_the_run() -> None:
    seen = []

    def callback(record: Any, weights: Any) -> bool:
        seen.append((record.epoch, weights.copy()))
        return record.epoch == 3

    X, y = toy("logistic")
    with warnings.catch_warnings(action="error"):  # a stop by the callback does not warn
        solution = solvers.fista(X, y, tol=0.0, callback=callback)
    assert [epoch for epoch, _ in seen] == [0, 1, 2, 3] and not solution.converged
    assert np.array_equal(seen[-1][1], solution.weights)


@pytest.mark.parametrize("name", SOLVERS)
def test_callback_is_validated_before_the_data(name: str) -> None:
    required: dict[str, dict[str, Any]] = {
        "projected_gradient": {"radius": 1.0},
        "structured_sdca": {"oracle": max, "n_weights": 1},
    }
    options = required.get(name, {})
    with pytest.raises(ValueError, match="callback must be a function .*, got 3"):
        getattr(solvers, name)(None, None, callback=3, **options)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_parameter_is_described(name: str) -> None:
    solver = getattr(solvers, name)
    section = inspect.getdoc(solver).partition("Parameters\n")[2].partition("Returns\n")[0]
    described = [
        part.strip()
        for line in section.splitlines()
        if not line.startswith(" ")
        for part in line.split(",")
    ]
    parameters = list(inspect.signature(solver).parameters)
    assert set(parameters) <= set(described)
    shared = ["loss", "fit_intercept", "tol", "max_epochs", "seed", "callback"]
    assert parameters[:2] == ["X", "y"] and set(shared) <= set(parameters)


def test_warm_leaves_no_solver_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """`streaml1 warm --with solvers` compiles every kernel that other data and options need."""

    def compiled() -> dict[str, int]:
        counts = {}
        for file in Path(solvers.__file__).parent.glob("*.py"):
            module = import_module(f"streaml1.solvers.{file.stem}")
            for name, value in vars(module).items():
                if hasattr(value, "signatures"):
                    counts[f"{file.stem}.{name}"] = len(value.signatures)
        return counts

    warm = import_module("streaml1.cli.warm")
    monkeypatch.setattr(warm, "LEARNERS", {})  # learners have their own test
    monkeypatch.setattr(warm, "_parse", lambda: None)
    result = CliRunner().invoke(cli, ["warm", "--with", "solvers"])
    assert result.exit_code == 0 and result.output.startswith("compiled in ")
    counts_before = compiled()
    assert sum(counts_before.values()) > 20 or os.environ.get("NUMBA_DISABLE_JIT")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", solvers.NotConverged)
        for loss in ("logistic", "squared"):
            X, y = toy(loss)
            options: dict[str, Any] = {"tol": 1e-8, "max_epochs": 300}
            for matrix in (X, csr_matrix(X)):
                solvers.fista(matrix, y, loss=loss, l1=0.01, fit_intercept=True, **options)
                solvers.prox_sdca(matrix, y, loss, 0.01, **options)
                solvers.prox_sdca(matrix, y, loss, 0.01, 0.1, **options)
                solvers.sdca(matrix, y, loss, l2=0.01, **options)
                solvers.sdca(matrix, y, loss, l2=0.01, shards=2, **options)
                solvers.accelerated_sdca(matrix, y, loss, l2=0.01, **options)
                solvers.projected_gradient(matrix, y, loss=loss, radius=2.0, **options)
                solvers.frank_wolfe(matrix, y, loss=loss, radius=2.0, **options)
                for solver in (solvers.scd, solvers.detcd):
                    solver(matrix, y, loss, 0.01, fit_intercept=True, **options)
                    solver(matrix, y, loss, 0.01, upper=1.0, **options)
        solvers.prox_sdca(*toy("hinge"), "hinge", 0.01, norm="q", order="random", max_epochs=9)
        solvers.sdca(*toy("absolute"), "absolute", l2=0.01, max_epochs=9)
    assert compiled() == counts_before
