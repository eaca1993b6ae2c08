"""Projected gradient: steps compared with a dense reference, the optimum with FISTA."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streaml1.solvers import NotConverged, fista, projected_gradient
from tests import reference_solvers as reference
from tests.solver_data import DEGENERATE, degenerate, real, toy

LOSSES = ("logistic", "hinge", "smoothed_hinge", "squared", "absolute", "softmax")
SMOOTH = ("logistic", "smoothed_hinge", "squared", "softmax")
GEOMETRIES = ("euclidean", "eg")


def weights_of(X: Any, y: Any, epochs: int, **options: Any) -> list[Any]:
    """Return the weights after each epoch."""
    weights_by_epoch: list[Any] = []

    def callback(record: Any, weights: Any) -> bool:
        weights_by_epoch.append(weights.copy())
        return bool(record.epoch == epochs)

    projected_gradient(X, y, tol=0.0, callback=callback, **options)
    return weights_by_epoch


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "softmax"])
def test_steps_match_the_reference(loss: str, geometry: str, nonnegative: bool) -> None:
    X, y = toy(loss, n=21)
    for batch, size in (("full", 21), (0.25, 6), (1, 1), (4, 4), (100, 21), (1.0, 21)):
        random = np.random.default_rng(7)
        orders = [np.arange(21) if size == 21 else random.permutation(21) for _ in range(5)]
        batches = [[order[k : k + size] for k in range(0, 21, size)] for order in orders]
        options: dict[str, Any] = {"radius": 1.5, "nonnegative": nonnegative, "lr": 0.3}
        got = weights_of(
            X, y, 5, loss=loss, batch=batch, step="invsqrt", geometry=geometry, seed=7, **options
        )
        expected = reference.projected(loss, X, y, 1.5, geometry, nonnegative, 0.3, batches)
        np.testing.assert_allclose(got[1:], expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("step", ["inverse", "constant"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_other_schedules(geometry: str, step: str) -> None:
    X, y = toy("logistic", n=21)
    random = np.random.default_rng(7)
    orders = [random.permutation(21) for _ in range(4)]
    batches = [[order[k : k + 4] for k in range(0, 21, 4)] for order in orders]
    options: dict[str, Any] = {"batch": 4, "step": step, "geometry": geometry, "lr": 0.3}
    got = weights_of(X, y, 4, radius=1.5, seed=7, **options)
    expected = reference.projected("logistic", X, y, 1.5, geometry, False, 0.3, batches, step)
    np.testing.assert_allclose(got[1:], expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("scale", [1e-9, 1e-12, 1e-14])
def test_line_search_with_tiny_features(scale: float, nonnegative: bool) -> None:
    """Rounding in the distance of the first short steps must not end the search."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 6))
    y = X @ np.array([1.0, -2.0, 0.5, 0.0, 0.0, 0.0])
    options: dict[str, Any] = {
        "loss": "squared", "geometry": "eg", "nonnegative": nonnegative, "tol": 1e-3
    }  # fmt: skip
    expected = projected_gradient(X, y, radius=4.0, **options)
    result = projected_gradient(X * scale, y, radius=4.0 / scale, **options)
    assert result.gap <= 1e-3 * max(1.0, result.objective)
    assert result.objective == pytest.approx(expected.objective, abs=1e-3)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("loss", SMOOTH)
def test_line_search_finds_the_optimum(loss: str, geometry: str, nonnegative: bool) -> None:
    X, y = toy(loss)
    simplex = geometry == "eg" and nonnegative
    tol = 1e-6 if geometry == "euclidean" else 1e-4
    expected = fista(
        X,
        y,
        loss=loss,
        penalty="simplex" if simplex else "ball",
        radius=1.5,
        nonnegative=nonnegative and not simplex,
        tol=1e-10,
    )
    result = projected_gradient(
        X,
        y,
        loss=loss,
        radius=1.5,
        nonnegative=nonnegative,
        geometry=geometry,
        tol=tol,
        max_epochs=3000,
    )
    assert result.converged
    assert result.objective == pytest.approx(expected.objective, rel=tol, abs=tol)
    assert result.objective >= expected.dual - 1e-12
    objectives = [record.objective for record in result.trace]
    assert all(b <= a + 1e-12 for a, b in zip(objectives, objectives[1:], strict=False))
    assert_in_ball(result.weights, 1.5, nonnegative, on_boundary=simplex)


def assert_in_ball(w: Any, radius: float, nonnegative: bool, on_boundary: bool = False) -> None:
    for row in w if w.ndim > 1 else [w]:
        assert np.abs(row).sum() <= radius * (1.0 + 1e-12)
        assert not nonnegative or np.all(row >= 0.0)
        assert not on_boundary or row.sum() == pytest.approx(radius, rel=1e-12)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_invsqrt_approaches_the_optimum(loss: str, geometry: str) -> None:
    """The automatic step size converges, and the gap is never negative."""
    X, y = toy(loss)
    for intercept in (False, True):
        with pytest.warns(NotConverged, match="projected_gradient stopped after 150 epochs"):
            result = projected_gradient(
                X,
                y,
                loss=loss,
                radius=1.5,
                batch=0.25,
                step="invsqrt",
                geometry=geometry,
                fit_intercept=intercept,
                max_epochs=150,
                tol=1e-9,
            )
        first = result.trace[0]
        assert result.gap < 0.2 * first.gap
        assert min(record.objective - record.dual for record in result.trace) >= -1e-12
        assert [record.accesses for record in result.trace[:3]] == [0, 2 * nnz(X), 4 * nnz(X)]
        assert_in_ball(result.weights, 1.5, False)
        value = reference.mean_loss(loss, X, y, result.weights, result.intercept)[0]
        assert result.objective == pytest.approx(value, rel=1e-12)


def nnz(X: Any) -> int:
    return int(np.count_nonzero(X))


def test_intercept_is_not_constrained() -> None:
    X, y = toy("logistic")
    y = np.where(np.arange(60) % 10 == 0, -1.0, 1.0)
    for geometry in GEOMETRIES:
        result = projected_gradient(
            X, y, radius=0.1, geometry=geometry, fit_intercept=True, tol=1e-6, max_epochs=3000
        )
        expected = fista(X, y, penalty="ball", radius=0.1, fit_intercept=True, tol=1e-10)
        assert result.objective == pytest.approx(expected.objective, abs=1e-6)
        assert (
            result.intercept == pytest.approx(expected.intercept, abs=0.02) and result.intercept > 1
        )


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_degenerate_data(geometry: str, case: str) -> None:
    if geometry == "eg" and case == "no columns":
        with pytest.raises(ValueError, match='does not support geometry="eg" with no columns'):
            projected_gradient(*degenerate(case, "logistic"), geometry=geometry)
        return
    for loss in LOSSES:
        X, y = degenerate(case, loss)
        if loss == "softmax" and case == "one label":
            y = np.zeros(len(y), int)
        for step in ("line", "invsqrt") if loss in SMOOTH else ("invsqrt",):
            records: list[Any] = []
            result = projected_gradient(
                X,
                y,
                loss=loss,
                radius=1.0,
                geometry=geometry,
                step=step,
                fit_intercept=True,
                max_epochs=30,
                callback=lambda record, w, records=records: (
                    records.append(record) or record.epoch == 20
                ),
            )
            assert np.isfinite(result.weights).all() and math.isfinite(result.objective)
            assert min(record.objective - record.dual for record in records) >= -1e-9
            assert_in_ball(result.weights, 1.0, False)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"l1": 0.1}, "projected_gradient does not support l1=0.1; use a radius, or fista"),
        ({"l2": 0.1}, "projected_gradient does not support l2=0.1; use a radius, or fista"),
        ({"loss": "hinge"}, 'does not support step="line" with loss="hinge"; use step="invsqrt"'),
        ({"batch": 0.5}, 'does not support step="line" with batch=0.5; use step="invsqrt"'),
        (
            {"batch": 0.0},
            'does not support batch=0.0; use "full", a share up to 1.0, or an integer',
        ),
        ({"batch": True}, 'does not support batch=True; use "full"'),
        ({"batch": "half"}, "does not support batch='half'; use \"full\""),
        ({"step": "wolfe"}, 'does not support step=\'wolfe\'; use one of "line", "invsqrt"'),
        ({"geometry": "l2"}, 'does not support geometry=\'l2\'; use one of "euclidean", "eg"'),
        ({"loss": "cubic"}, "does not support loss='cubic'; use one of"),
        ({"lr": 0.0, "step": "invsqrt"}, "lr must be a number above 0 .*, got 0.0"),
        ({"radius": -1.0}, r"radius must be a number above 0 and at most 1e\+100, got -1.0"),
    ],
)
def test_unsupported_arguments(options: dict[str, Any], sentence: str) -> None:
    X, y = toy("logistic")
    with pytest.raises(ValueError, match=sentence):
        projected_gradient(X, y, **options)


@pytest.mark.filterwarnings("ignore::streaml1.solvers.NotConverged")
@pytest.mark.parametrize("geometry", ["euclidean", "eg"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_automatic_step_size_is_scale_invariant(loss: str, geometry: str) -> None:
    X, y = toy(loss)
    options: dict[str, Any] = {"loss": loss, "geometry": geometry, "max_epochs": 10}
    for step in ("invsqrt", "line"):
        options["step"] = step
        scaled = projected_gradient(X * 2.0**-60, y, radius=2.0**60, **options)
        if step == "invsqrt":
            plain = projected_gradient(X, y, radius=1.0, **options)
            np.testing.assert_allclose(scaled.weights, plain.weights * 2.0**60, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::streaml1.solvers.NotConverged")
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge", "softmax"])
def test_scale_of_the_features_does_not_matter_to_the_intercept(loss: str, geometry: str) -> None:
    X, y = toy(loss)
    options: dict[str, Any] = {"loss": loss, "geometry": geometry, "fit_intercept": True}
    for scale in (2.0**-20, 2.0**20):
        for step in ("invsqrt", "line") if loss != "hinge" else ("invsqrt",):
            options["step"] = step
            plain = projected_gradient(X, y, radius=1.0, tol=1e-4, **options)
            scaled = projected_gradient(X * scale, y, radius=1.0 / scale, tol=1e-4, **options)
            if step == "line":
                assert plain.converged and scaled.converged
            else:
                np.testing.assert_allclose(scaled.weights * scale, plain.weights, atol=1e-9)
                np.testing.assert_allclose(scaled.intercept, plain.intercept, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["magic04", "arcene", "rcv1"])
def test_real_data(name: str) -> None:
    X, y = real(name)
    radius = {"magic04": 3.0, "arcene": 0.3, "rcv1": 50.0}[name]
    expected = fista(X, y, penalty="ball", radius=radius, tol=1e-8)
    result = projected_gradient(X, y, radius=radius, tol=1e-6, max_epochs=20_000)
    assert result.objective == pytest.approx(expected.objective, abs=1e-6)
