"""Projected gradient: each step beside a dense twin, the optimum beside FISTA."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streaml1.solvers import NotConverged, fista, projected_gradient
from tests import reference_solvers as slow
from tests.solver_data import DEGENERATE, degenerate, real, toy

LOSSES = ("logistic", "hinge", "smoothed_hinge", "squared", "absolute", "softmax")
SMOOTH = ("logistic", "smoothed_hinge", "squared", "softmax")
GEOMETRIES = ("euclidean", "eg")


def weights_of(X: Any, y: Any, epochs: int, **given: Any) -> list[Any]:
    """The weights after each epoch."""
    seen: list[Any] = []

    def callback(record: Any, weights: Any) -> bool:
        seen.append(weights.copy())
        return bool(record.epoch == epochs)

    projected_gradient(X, y, tol=0.0, callback=callback, **given)
    return seen


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "softmax"])
def test_equals_the_twin_step_by_step(loss: str, geometry: str, nonnegative: bool) -> None:
    X, y = toy(loss, n=21)
    for batch, size in (("full", 21), (0.25, 6), (1, 1), (4, 4), (100, 21), (1.0, 21)):
        random = np.random.default_rng(7)
        orders = [np.arange(21) if size == 21 else random.permutation(21) for _ in range(5)]
        parts = [[order[k : k + size] for k in range(0, 21, size)] for order in orders]
        given: dict[str, Any] = {"radius": 1.5, "nonnegative": nonnegative, "lr": 0.3}
        found = weights_of(
            X, y, 5, loss=loss, batch=batch, step="invsqrt", geometry=geometry, seed=7, **given
        )
        expected = slow.projected(loss, X, y, 1.5, geometry, nonnegative, 0.3, parts)
        np.testing.assert_allclose(found[1:], expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("step", ["inverse", "constant"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_other_schedules(geometry: str, step: str) -> None:
    X, y = toy("logistic", n=21)
    random = np.random.default_rng(7)
    orders = [random.permutation(21) for _ in range(4)]
    parts = [[order[k : k + 4] for k in range(0, 21, 4)] for order in orders]
    given: dict[str, Any] = {"batch": 4, "step": step, "geometry": geometry, "lr": 0.3}
    found = weights_of(X, y, 4, radius=1.5, seed=7, **given)
    expected = slow.projected("logistic", X, y, 1.5, geometry, False, 0.3, parts, step)
    np.testing.assert_allclose(found[1:], expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("loss", SMOOTH)
def test_the_line_search_finds_the_optimum(loss: str, geometry: str, nonnegative: bool) -> None:
    X, y = toy(loss)
    simplex = geometry == "eg" and nonnegative
    near = 1e-6 if geometry == "euclidean" else 1e-4
    referee = fista(
        X,
        y,
        loss=loss,
        penalty="simplex" if simplex else "ball",
        radius=1.5,
        nonnegative=nonnegative and not simplex,
        tol=1e-10,
    )
    found = projected_gradient(
        X,
        y,
        loss=loss,
        radius=1.5,
        nonnegative=nonnegative,
        geometry=geometry,
        tol=near,
        max_epochs=3000,
    )
    assert found.converged
    assert found.objective == pytest.approx(referee.objective, rel=near, abs=near)
    assert found.objective >= referee.dual - 1e-12
    objectives = [record.objective for record in found.trace]
    assert all(b <= a + 1e-12 for a, b in zip(objectives, objectives[1:], strict=False))
    in_the_ball(found.weights, 1.5, nonnegative, exactly=simplex)


def in_the_ball(w: Any, radius: float, nonnegative: bool, exactly: bool = False) -> None:
    for row in w if w.ndim > 1 else [w]:
        assert np.abs(row).sum() <= radius * (1.0 + 1e-12)
        assert not nonnegative or np.all(row >= 0.0)
        assert not exactly or row.sum() == pytest.approx(radius, rel=1e-12)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_invsqrt_comes_near(loss: str, geometry: str) -> None:
    """With the step it picks itself, and a gap that is never negative."""
    X, y = toy(loss)
    for intercept in (False, True):
        with pytest.warns(NotConverged, match="projected_gradient stopped after 150 epochs"):
            found = projected_gradient(
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
        first = found.trace[0]
        assert found.gap < 0.2 * first.gap
        assert min(record.objective - record.dual for record in found.trace) >= -1e-12
        assert [record.accesses for record in found.trace[:3]] == [0, 2 * nnz(X), 4 * nnz(X)]
        in_the_ball(found.weights, 1.5, False)
        value = slow.mean_loss(loss, X, y, found.weights, found.intercept)[0]
        assert found.objective == pytest.approx(value, rel=1e-12)


def nnz(X: Any) -> int:
    return int(np.count_nonzero(X))


def test_an_intercept_is_in_no_ball() -> None:
    X, y = toy("logistic")
    y = np.where(np.arange(60) % 10 == 0, -1.0, 1.0)
    for geometry in GEOMETRIES:
        found = projected_gradient(
            X, y, radius=0.1, geometry=geometry, fit_intercept=True, tol=1e-6, max_epochs=3000
        )
        expected = fista(X, y, penalty="ball", radius=0.1, fit_intercept=True, tol=1e-10)
        assert found.objective == pytest.approx(expected.objective, abs=1e-6)
        assert (
            found.intercept == pytest.approx(expected.intercept, abs=0.02) and found.intercept > 1
        )


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_poor_data(geometry: str, case: str) -> None:
    if geometry == "eg" and case == "no columns":
        with pytest.raises(ValueError, match='does not support geometry="eg" with no columns'):
            projected_gradient(*degenerate(case, "logistic"), geometry=geometry)
        return
    for loss in LOSSES:
        X, y = degenerate(case, loss)
        if loss == "softmax" and case == "one label":
            y = np.zeros(len(y), int)
        for step in ("line", "invsqrt") if loss in SMOOTH else ("invsqrt",):
            seen: list[Any] = []
            found = projected_gradient(
                X,
                y,
                loss=loss,
                radius=1.0,
                geometry=geometry,
                step=step,
                fit_intercept=True,
                max_epochs=30,
                callback=lambda record, w, seen=seen: seen.append(record) or record.epoch == 20,
            )
            assert np.isfinite(found.weights).all() and math.isfinite(found.objective)
            assert min(record.objective - record.dual for record in seen) >= -1e-9
            in_the_ball(found.weights, 1.0, False)


@pytest.mark.parametrize(
    ("given", "sentence"),
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
def test_refusals(given: dict[str, Any], sentence: str) -> None:
    X, y = toy("logistic")
    with pytest.raises(ValueError, match=sentence):
        projected_gradient(X, y, **given)


@pytest.mark.filterwarnings("ignore::streaml1.solvers.NotConverged")
@pytest.mark.parametrize("geometry", ["euclidean", "eg"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_step_of_its_own_goes_by_the_scale_of_x(loss: str, geometry: str) -> None:
    X, y = toy(loss)
    given: dict[str, Any] = {"loss": loss, "geometry": geometry, "max_epochs": 10}
    for step in ("invsqrt", "line"):
        given["step"] = step
        small = projected_gradient(X * 2.0**-60, y, radius=2.0**60, **given)
        if step == "invsqrt":
            plain = projected_gradient(X, y, radius=1.0, **given)
            np.testing.assert_allclose(small.weights, plain.weights * 2.0**60, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["magic04", "arcene", "rcv1"])
def test_real_data_beside_the_referee(name: str) -> None:
    X, y = real(name)
    radius = {"magic04": 3.0, "arcene": 0.3, "rcv1": 50.0}[name]
    expected = fista(X, y, penalty="ball", radius=radius, tol=1e-8)
    found = projected_gradient(X, y, radius=radius, tol=1e-6, max_epochs=20_000)
    assert found.objective == pytest.approx(expected.objective, abs=1e-6)
