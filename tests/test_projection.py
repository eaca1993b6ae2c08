"""Projections: both methods compared with each other, bisection, SLSQP and the KKT conditions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array

from streaml1.solvers.projection import project_l1_ball, project_simplex
from streaml1.solvers.projection_kernels import SAMPLE
from tests import reference_solvers as reference

METHODS = ("sort", "linear")

# Ties, zeros, denormals, equal entries, and values whose sum overflows.
moderate = st.one_of(
    st.floats(-10.0, 10.0),
    st.sampled_from([0.0, -0.0, 1.0, 0.5, -1.0, 5e-324, 1e-310, 1e10, -1e10]),
)
extreme = st.one_of(moderate, st.floats(-1e308, 1e308), st.sampled_from([1e308, -1e308, 1.7e308]))
vectors = st.one_of(
    st.lists(moderate, min_size=1, max_size=30),
    st.lists(extreme, min_size=1, max_size=30),
    st.tuples(extreme, st.integers(1, 30)).map(lambda t: [t[0]] * t[1]),
)
radii = st.one_of(st.floats(1e-3, 1e3), st.sampled_from([5e-324, 1e-300, 1e-20, 1e20, 1e307]))


def total(w: Any) -> float:
    """Return the exact sum, or infinity if it overflows."""
    try:
        return math.fsum(w)
    except OverflowError:
        return math.inf


@given(vectors, radii, st.integers(0, 5))
def test_simplex(v: list[float], z: float, seed: int) -> None:
    vector = np.array(v)
    projections = [project_simplex(vector, z, method, seed) for method in METHODS]
    for w in projections:
        assert np.all(w >= 0.0)
        # For a denormal z the sum is exact up to one denormal per entry.
        assert total(w) == pytest.approx(z, rel=1e-12, abs=5e-324 * len(v))
        assert_kkt(vector, w, z)
    np.testing.assert_allclose(projections[0], projections[1], rtol=0.0, atol=1e-12 * z + 5e-323)
    projected_twice = project_simplex(projections[1], z)
    np.testing.assert_allclose(projected_twice, projections[1], rtol=0.0, atol=1e-12 * z + 5e-322)


def assert_kkt(v: Any, w: Any, z: float) -> None:
    """Check the KKT conditions: v - w = theta where w > 0, and v <= theta elsewhere."""
    if not np.any(w > 0.0):  # each share of a denormal z rounds to zero
        assert z / len(v) < 5e-324
        return
    with np.errstate(over="ignore"):
        gap = v - w
        slack = 1e-12 * (z + np.abs(v[w > 0.0]).max()) + 5e-322
        theta = gap[w > 0.0].min()
    assert gap[w > 0.0].max() <= theta + slack
    assert np.all(gap[w == 0.0] <= theta + slack)


@given(vectors, radii, st.integers(0, 5))
def test_ball(v: list[float], z: float, seed: int) -> None:
    vector = np.array(v)
    norm = total(np.abs(vector))
    for method in METHODS:
        w = project_l1_ball(vector, z, method=method, seed=seed)
        assert np.all(np.abs(w) <= np.abs(vector)) and np.all(w * np.sign(vector) >= 0.0)
        assert total(np.abs(w)) <= z * (1.0 + 1e-12) + 5e-323
        if norm <= z * (1.0 - 1e-12):
            assert np.array_equal(w, vector)
        elif norm > z * (1.0 + 1e-12) + 5e-323:
            assert total(np.abs(w)) == pytest.approx(z, rel=1e-12, abs=5e-324 * len(v))
            simplex = project_simplex(np.abs(vector), z)
            np.testing.assert_allclose(np.abs(w), simplex, rtol=0.0, atol=1e-12 * z + 5e-323)
        projected_twice = project_l1_ball(w, z, method=method)
        np.testing.assert_allclose(projected_twice, w, rtol=0.0, atol=1e-12 * z + 5e-322)


@given(st.data(), st.floats(1e-3, 1e3))
def test_weighted_ball(data: Any, z: float) -> None:
    n = data.draw(st.integers(1, 20))
    v = np.array(data.draw(st.lists(st.floats(-100.0, 100.0), min_size=n, max_size=n)))
    weights = st.one_of(st.sampled_from([0.0, 1.0, 2.0, 1e-3, 1e3]), st.floats(0.01, 10.0))
    a = np.array(data.draw(st.lists(weights, min_size=n, max_size=n)))
    projections = [project_l1_ball(v, z, a, method=method) for method in METHODS]
    scale = np.abs(v).max()
    for w in projections:
        assert np.vdot(a, np.abs(w)) <= z * (1.0 + 1e-12)
        assert np.all(np.abs(w) <= np.abs(v)) and np.all(w * np.sign(v) >= 0.0)
        assert np.array_equal(w[a == 0.0], v[a == 0.0])
        np.testing.assert_allclose(w, reference.ball(v, z, a), rtol=0.0, atol=1e-9 * scale)
    np.testing.assert_allclose(projections[0], projections[1], rtol=0.0, atol=1e-12 * scale)
    scaled = project_l1_ball(v, z, np.full(n, 2.0))
    np.testing.assert_allclose(scaled, project_l1_ball(v, z / 2.0), rtol=0.0, atol=1e-12 * scale)


@pytest.mark.parametrize("method", METHODS)
def test_matches_a_general_solver(method: str) -> None:
    random, z = np.random.default_rng(3), 0.7
    for n in (1, 2, 5, 8):
        v, a = random.normal(size=n), random.uniform(0.2, 2.0, n)
        for weights in (None, a):
            c = np.ones(n) if weights is None else a
            # Positive and negative parts of w make the ball a linear constraint.
            best = minimize(
                lambda u, v=v, n=n: 0.5 * np.sum((u[:n] - u[n:] - v) ** 2),
                np.full(2 * n, 0.1 / n),
                method="SLSQP",
                bounds=[(0.0, None)] * (2 * n),
                constraints={"type": "ineq", "fun": lambda u, c=c: z - np.tile(c, 2) @ u},
                options={"ftol": 1e-14, "maxiter": 500},
            )
            w = project_l1_ball(v, z, weights, method=method)
            np.testing.assert_allclose(w, best.x[:n] - best.x[n:], rtol=0.0, atol=1e-5)
            assert 0.5 * np.sum((w - v) ** 2) <= best.fun + 1e-9


def make_vectors(n: int) -> dict[str, Any]:
    random = np.random.default_rng(n)
    few_large = np.full(n, 0.3)
    few_large[random.integers(0, n, 2)] = 1.0
    return {
        "normal": random.normal(size=n),
        "heavy": random.standard_cauchy(n),
        "ties": random.integers(-3, 4, n).astype(float),
        "equal": np.full(n, -2.5),
        "few large": few_large,
        "one": np.eye(1, n, n // 2)[0] * 1e6,
        "large offset": random.normal(size=n) + 1e9,
        "increasing": np.arange(n, dtype=float),
    }


@pytest.mark.parametrize("kind", list(make_vectors(2)))
def test_long_vectors(kind: str) -> None:
    """Vectors longer than the sample, with good and bad pivots from it."""
    for n in (SAMPLE, SAMPLE + 1, 50_000):
        v = make_vectors(n)[kind]
        for z in (1e-6, 0.9, 30.0, 1e5, 1e9):
            for seed in range(3):
                w = project_simplex(v, z, seed=seed)
                np.testing.assert_allclose(
                    w, project_simplex(v, z, "sort"), rtol=0.0, atol=1e-11 * z + 1e-15
                )
                w = project_l1_ball(v, z, seed=seed)
                expected = project_l1_ball(v, z, method="sort")
                np.testing.assert_allclose(w, expected, rtol=0.0, atol=1e-11 * z + 1e-15)
        if n == 50_000:
            np.testing.assert_allclose(w, reference.ball(v, z), rtol=1e-9, atol=1e-12 * z)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("invalid", [math.nan, math.inf, -math.inf])
def test_non_finite_values_are_rejected(invalid: float, method: str) -> None:
    for n in (3, 20_000):
        v = np.random.default_rng(0).normal(size=n)
        for pos in (0, n - 1):
            for z in (0.0, 1.0, 1e9):
                corrupted = v.copy()
                corrupted[pos] = invalid
                with pytest.raises(
                    ValueError, match=rf"v must have finite numbers, got v\[{pos}\]=-?(nan|inf)"
                ):
                    project_l1_ball(corrupted, z, method=method)
                with pytest.raises(
                    ValueError, match=rf"v must have finite numbers, got v\[{pos}\]=-?(nan|inf)"
                ):
                    project_simplex(corrupted, z, method=method)


@pytest.mark.parametrize("method", METHODS)
def test_large_values_lose_no_digits(method: str) -> None:
    """Summing v itself would lose all digits of z."""
    w = project_simplex([1e16, 1e16, 0.0], 1.0, method)
    assert w.tolist() == [0.5, 0.5, 0.0]
    w = project_l1_ball([1e300, -1e300], 1e-300, method=method)
    assert w.tolist() == [5e-301, -5e-301]


def test_exact_results() -> None:
    assert project_simplex([3], 2).tolist() == [2.0]
    assert project_simplex([-5.0, 1.0], 0.0).tolist() == [0.0, 0.0]
    assert project_l1_ball([], 1.0).tolist() == []
    assert project_l1_ball([1.0, -2.0], 0.0).tolist() == [0.0, 0.0]
    assert project_l1_ball([1.0, -2.0], 0.0, [1.0, 0.0]).tolist() == [0.0, -2.0]
    assert project_l1_ball([1.0, -2.0], 1.0, [0.0, 0.0]).tolist() == [1.0, -2.0]
    v = np.array([1.0, 2.0])
    v.flags.writeable = False
    w = project_l1_ball(v, 5.0)
    w[0] = 7.0
    assert v.tolist() == [1.0, 2.0]
    assert project_l1_ball(np.arange(8.0)[::2], 3.0).tolist() == [0.0, 0.0, 0.5, 2.5]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: project_simplex([], 1.0), "v must have at least one entry, got none"),
        (
            lambda: project_simplex([1.0, math.nan], 1.0),
            r"v must have finite numbers, got v\[1\]=nan; drop it",
        ),
        (lambda: project_simplex([[1.0]], 1.0), "v must be a vector, got 2 dimensions"),
        (lambda: project_simplex([1.0], -1.0), "z must be a finite number >= 0, got -1.0"),
        (lambda: project_simplex([1.0], math.inf), "z must be a finite number >= 0, got inf"),
        (lambda: project_simplex([1.0], "2"), "z must be a finite number >= 0, got '2'"),
        (lambda: project_simplex([1.0], 1.0, "quick"), "method must be .*, got 'quick'"),
        (
            lambda: project_l1_ball([3.0], 1.0, [1.0], method="quick"),
            "method must be .*, got 'quick'",
        ),
        (lambda: project_l1_ball([1.0], 1.0, [1.0, 2.0]), "a must have 1 weights, .*, got 2"),
        (lambda: project_l1_ball([1.0], 1.0, [-1.0]), r"weights must be 0, or .*, got a\[0\]=-1.0"),
        (
            lambda: project_l1_ball([1.0, 1.0], 1.0, [1.0, 1e-200]),
            r"weights must be 0, or .*, got a\[1\]=1e-200",
        ),
        (
            lambda: project_l1_ball([1e250], 1.0, [1.0]),
            "v must have entries of at most 1e200 .*, got 1e.250",
        ),
        (lambda: project_l1_ball([1.0], 10**400), "z must be a finite number >= 0, got 1000"),
        (lambda: project_l1_ball([1.0], 1j), "z must be a finite number >= 0, got 1j"),
        (
            lambda: project_l1_ball([1.0], np.complex128(1.0)),
            "z must be a finite number >= 0, got ",
        ),
        (
            lambda: project_l1_ball([1.0], np.timedelta64(1, "s")),
            "z must be a finite number >= 0, got ",
        ),
        (lambda: project_simplex([1.0], 0.0, "quick"), "method must be .*, got 'quick'"),
        (lambda: project_l1_ball([1.0], 0.0, method="quick"), "method must be .*, got 'quick'"),
        (
            lambda: project_l1_ball([1.0], 1.0, [0.0], method="quick"),
            "method must be .*, got 'quick'",
        ),
        (lambda: project_simplex([1.0], 1.0, ["sort"]), r"method must be .*, got \['sort'\]"),
        (lambda: project_simplex([1.0], 1.0, seed=None), "seed must be an integer, got None"),
        (lambda: project_l1_ball([1.0], 0.5, seed=1.5), "seed must be an integer, got 1.5"),
        (
            lambda: project_l1_ball({0: 1.0}, 1.0),
            "v must be a vector of numbers, got a dict; use a list",
        ),
        (lambda: project_l1_ball({1.0}, 1.0), "v must be a vector of numbers, got a set"),
        (
            lambda: project_l1_ball(csr_array([[1.0]]), 1.0),
            "v must be a vector of numbers, got a csr_array",
        ),
        (
            lambda: project_l1_ball([[1.0], [1.0, 2.0]], 1.0),
            "v must be a vector of numbers, got a list",
        ),
        (lambda: project_l1_ball([10**400], 1.0), "v must be a vector of numbers, got a list"),
        (lambda: project_l1_ball([1.0], 1.0, {1.0}), "a must be a vector of numbers, got a set"),
        (
            lambda: project_l1_ball([1.0 + 2.0j], 1.0),
            "v must have real numbers, got values of type complex128",
        ),
        (lambda: project_l1_ball(["1.5"], 1.0), "v must have real numbers, got values of type <U3"),
        (
            lambda: project_l1_ball(np.array(["2020"], "datetime64[Y]"), 1.0),
            r"v must have real numbers, got values of type datetime64\[Y\]",
        ),
        (
            lambda: project_l1_ball(np.ma.array([3.0, 9.0], mask=[False, True]), 1.0),
            r"v must not be masked; use v.compressed\(\) or v.filled\(0.0\)",
        ),
    ],
)
def test_invalid_arguments(call: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()
