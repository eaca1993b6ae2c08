"""Losses: values and derivatives against high-precision constants, and general properties."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1.core.jit import kernel
from streaml1.core.simd import load_f64x8, store_f64x8
from streaml1.core.simd import math as simd_math
from streaml1.optim.losses import (
    ABSOLUTE,
    CODES,
    HINGE,
    HUBER,
    LOGISTIC,
    LOSSES,
    MAX_LOG_MEAN,
    POISSON,
    QUANTILE,
    SMOOTHED_HINGE,
    SQUARED,
    SQUARED_HINGE,
    derivative,
    full_stream_margin,
    is_regression,
    output,
    output_and_derivative,
    poisson_minimum,
    response,
    sigmoid,
    target_size,
    value,
)
from streaml1.optim.tasks import CLASSIFICATION, REGRESSION
from streaml1.training.report.losses import NAMES as REPORTED
from streaml1.training.report.losses import losses as reported_losses
from tests import reference

# (a, log(1 + exp(-a)), 1 / (1 + exp(a))), from
#
#     from decimal import Decimal, getcontext
#     getcontext().prec = 800
#     for a in (0, 0.5, -0.5, ...):
#         e = (-Decimal(a)).exp()
#         print((a, float((1 + e).ln()), float(e / (1 + e))))
LOGISTIC_EXACT = [
    (0.0, 0.6931471805599453, 0.5),
    (1e-08, 0.6931471755599453, 0.4999999975),
    (-1e-08, 0.6931471855599454, 0.5000000025),
    (0.5, 0.4740769841801067, 0.37754066879814546),
    (-0.5, 0.9740769841801067, 0.6224593312018546),
    (1.0, 0.3132616875182228, 0.2689414213699951),
    (-1.0, 1.3132616875182228, 0.7310585786300049),
    (3.25, 0.038041371687783126, 0.03732688734412946),
    (-3.25, 3.288041371687783, 0.9626731126558705),
    (20.0, 2.061153620314381e-09, 2.0611536181902037e-09),
    (-20.0, 20.000000002061153, 0.9999999979388464),
    (36.5, 1.4068617124461467e-16, 1.4068617124461467e-16),
    (-36.5, 36.5, 0.9999999999999999),
    (40.0, 4.248354255291589e-18, 4.248354255291589e-18),
    (-40.0, 40.0, 1.0),
    (700.0, 9.85967654375977e-305, 9.85967654375977e-305),
    (-700.0, 700.0, 1.0),
    (10000.0, 0.0, 0.0),
    (-10000.0, 10000.0, 1.0),
]
NAMES = list(CODES)
BINARY = ("logistic", "hinge", "smoothed_hinge", "squared_hinge")
CONVENTIONS = [
    # loss, a, y, value, derivative
    ("hinge", 1.0, 1.0, 0.0, 0.0),
    ("hinge", -1.0, -1.0, 0.0, 0.0),
    ("hinge", math.nextafter(1.0, 0.0), 1.0, 2.0**-53, -1.0),
    ("hinge", 0.0, -1.0, 1.0, 1.0),
    ("smoothed_hinge", 1.0, 1.0, 0.0, 0.0),
    ("smoothed_hinge", 0.0, 1.0, 0.5, -1.0),
    ("smoothed_hinge", 0.5, 1.0, 0.125, -0.5),
    ("smoothed_hinge", -3.0, 1.0, 3.5, -1.0),
    ("smoothed_hinge", 3.0, -1.0, 3.5, 1.0),
    ("squared_hinge", 1.0, 1.0, 0.0, 0.0),
    ("squared_hinge", 0.5, 1.0, 0.25, -1.0),
    ("squared_hinge", -3.0, 1.0, 16.0, -8.0),
    ("squared_hinge", 3.0, -1.0, 16.0, 8.0),
    ("squared", 3.0, 1.0, 2.0, 2.0),
    ("squared", 1.0, 1.0, 0.0, 0.0),
    ("absolute", 2.5, 2.5, 0.0, 0.0),
    ("absolute", 2.0, 2.5, 0.5, -1.0),
    ("absolute", 3.0, 2.5, 0.5, 1.0),
    ("huber", 2.5, 2.5, 0.0, 0.0),
    ("huber", 3.5, 2.5, 0.5, 1.0),
    ("huber", 4.0, 2.5, 1.125, 1.5),
    ("huber", 0.5, 2.5, 1.875, -1.5),
    ("huber", -1e9, 2.5, 1.5e9 + 3.75 - 1.125, -1.5),
    ("quantile", 2.5, 2.5, 0.0, 0.0),
    ("quantile", 0.5, 2.5, 1.5, -0.75),
    ("quantile", 4.5, 2.5, 0.5, 0.25),
    ("poisson", 0.0, 0.0, 1.0, 1.0),
    ("poisson", 0.0, 1.0, 1.0, 0.0),
    ("poisson", 1.0, 2.0, math.e - 2.0, math.e - 2.0),
    ("poisson", -800.0, 2.0, 1600.0, -2.0),
]

margins = st.floats(-50.0, 50.0)
PARAMETERS = {"huber": 1.5, "quantile": 0.75}


def arguments(name: str, a: float, y: float) -> tuple[int, float, float, float]:
    """Return the arguments of a function of the kernels."""
    return CODES[name], a, y, PARAMETERS.get(name, 0.0)


def expected_functions(name: str) -> Any:
    """Return value and derivative of the reference."""
    if name == "huber":
        return reference.huber(PARAMETERS[name])
    return reference.pinball(PARAMETERS[name]) if name == "quantile" else reference.LOSSES[name]


def python(fn: Any) -> Any:
    """Return the Python function behind a compiled function."""
    return getattr(fn, "py_func", fn)


def bits(x: float) -> int:
    return int(np.float64(x).view(np.int64))


def valid_label(name: str, y: float) -> float:
    """Return a valid label for the loss."""
    return math.copysign(1.0, y) if name in BINARY else abs(y) if name == "poisson" else y


@pytest.mark.parametrize(("a", "loss", "slope"), LOGISTIC_EXACT)
def test_logistic_is_exact_to_rounding(a: float, loss: float, slope: float) -> None:
    for y in (1.0, -1.0):
        assert value(LOGISTIC, y * a, y) == pytest.approx(loss, rel=4e-16, abs=0.0)
        assert derivative(LOGISTIC, y * a, y) == pytest.approx(-y * slope, rel=4e-16, abs=0.0)
    assert sigmoid(-a) == pytest.approx(slope, rel=4e-16, abs=0.0)
    assert output(LOGISTIC, -a) == sigmoid(-a)


@pytest.mark.parametrize(("name", "a", "y", "loss", "slope"), CONVENTIONS)
def test_values_and_subgradients_at_kinks(
    name: str, a: float, y: float, loss: float, slope: float
) -> None:
    assert value(*arguments(name, a, y)) == loss
    assert derivative(*arguments(name, a, y)) == slope


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1e4, 1e150, 1.7e308])
@pytest.mark.parametrize("variant", [lambda fn: fn, python], ids=["compiled", "interpreted"])
def test_large_margins_neither_overflow_nor_warn(name: str, size: float, variant: Any) -> None:
    if name in ("squared", "squared_hinge", "huber", "poisson"):
        size = min(size, 1e150)  # beyond, the square, or 1e50 times the margin, is infinite
    for a, y in ((size, 1.0), (size, -1.0), (-size, 1.0), (-size, -1.0)):
        with np.errstate(all="raise"):
            y = valid_label(name, y)
            loss, slope = (variant(fn)(*arguments(name, a, y)) for fn in (value, derivative))
        expected, expected_slope = expected_functions(name)
        assert loss == pytest.approx(expected(a, y), rel=1e-15)
        assert slope == pytest.approx(expected_slope(a, y), rel=1e-15)
        assert 0.0 <= variant(sigmoid)(a) <= 1.0


@pytest.mark.parametrize("name", NAMES)
@given(margins, st.floats(-50.0, 50.0))
def test_matches_the_reference(name: str, a: float, y: float) -> None:
    y = valid_label(name, y)
    expected, expected_slope = expected_functions(name)
    # The two terms of the Poisson loss may cancel.
    abs_error = 1e-13 * (1.0 + abs(y * a)) if name == "poisson" else 1e-300
    assert value(*arguments(name, a, y)) == pytest.approx(expected(a, y), rel=1e-14, abs=abs_error)
    assert derivative(*arguments(name, a, y)) == pytest.approx(
        expected_slope(a, y), rel=1e-13, abs=abs_error
    )


@pytest.mark.parametrize("name", NAMES)
@given(st.floats(-20.0, 20.0), st.floats(-20.0, 20.0))
def test_derivative_matches_finite_differences(name: str, a: float, y: float) -> None:
    """Use fourth-order differences away from kinks of the first and second derivative."""
    y = valid_label(name, y)
    kinks = {
        "hinge": [y], "smoothed_hinge": [y, 0.0], "squared_hinge": [y], "absolute": [y],
        "huber": [y - 1.5, y + 1.5], "quantile": [y],
    }.get(name, [])  # fmt: skip
    h = 1e-3
    if any(abs(a - kink) <= 3.0 * h for kink in kinks):
        return
    f = [value(*arguments(name, a + k * h, y)) for k in (-2, -1, 1, 2)]
    slope = (f[0] - 8.0 * f[1] + 8.0 * f[2] - f[3]) / (12.0 * h)
    # The truncation error is below 1e-13, relative to the fifth derivative; the rest is the
    # rounding of a and f, divided by h.
    size = 1.0 + max(map(abs, f))
    assert derivative(*arguments(name, a, y)) == pytest.approx(slope, abs=1e-11 * size)


@pytest.mark.parametrize("name", NAMES)
@given(margins, margins, st.floats(0.0, 1.0), st.floats(-50.0, 50.0))
def test_losses_are_convex(name: str, a: float, b: float, share: float, y: float) -> None:
    y = valid_label(name, y)
    at_a, at_b = value(*arguments(name, a, y)), value(*arguments(name, b, y))
    mean = value(*arguments(name, share * a + (1.0 - share) * b, y))
    chord = share * at_a + (1.0 - share) * at_b
    rounding = 1e-12 * (1.0 + max(abs(at_a), abs(at_b), abs(mean)))
    assert mean <= chord + rounding
    # A subgradient at a, including a kink, is a global lower bound of the loss, so also at b.
    support = at_a + derivative(*arguments(name, a, y)) * (b - a)
    assert support <= at_b + 1e-12 * (1.0 + abs(support) + abs(at_a))


@pytest.mark.parametrize("name", NAMES)
@given(st.lists(margins, min_size=2, max_size=20), st.floats(-50.0, 50.0))
def test_derivative_is_nondecreasing(name: str, points: list[float], y: float) -> None:
    y = valid_label(name, y)
    slopes = [derivative(*arguments(name, a, y)) for a in sorted(points)]
    assert slopes == sorted(slopes)


@given(st.floats(allow_nan=False))
def test_sigmoid_is_a_probability(a: float) -> None:
    assert 0.0 <= sigmoid(a) <= 1.0
    assert sigmoid(a) + sigmoid(-a) == pytest.approx(1.0, abs=2.3e-16)
    for name in NAMES:
        if name != "poisson":
            assert output(CODES[name], a) == (sigmoid(a) if name == "logistic" else a)
    assert 0.0 <= output(POISSON, a) <= 1.0000001e50
    assert response(POISSON, a) == output(POISSON, a) == pytest.approx(reference.poisson_mean(a))
    assert response(SQUARED, a) == sigmoid(a)


@pytest.mark.parametrize("name", NAMES)
@given(st.floats(-800.0, 800.0), st.floats(-50.0, 50.0))
def test_combined_functions_return_the_same_floats(name: str, a: float, y: float) -> None:
    for margin in (a, 0.5, 0.0, -0.0, -1e-9, -0.5):
        for label in (valid_label(name, y), valid_label(name, -y)):
            p, g = output_and_derivative(*arguments(name, margin, label))
            assert bits(p) == bits(output(CODES[name], margin))
            assert bits(g) == bits(derivative(*arguments(name, margin, label)))


@kernel
def _helpers(loss: Any, a: Any, y: Any, offset: Any) -> Any:
    p, g = output_and_derivative(loss, a, y, offset)
    margin, size = full_stream_margin(loss, a, offset), target_size(loss, y, offset)
    return is_regression(loss), margin, size, p, g


@pytest.mark.parametrize("offset", [-1.5, 1.0])
@pytest.mark.parametrize("name", NAMES)
def test_offsets_move_probabilities_and_targets(name: str, offset: float) -> None:
    """The margin of a stream that lost negatives is off by a constant; others have no offset."""
    a, y = 0.75, valid_label(name, 3.0)
    regression, margin, size, p, g = _helpers(CODES[name], a, y, offset)
    assert regression == (name in reference.REGRESSION)
    assert margin == (a + offset if name == "logistic" else a)
    assert size == (3.0 - offset if regression and name != "poisson" else 1.0)
    if name == "logistic":
        assert p == pytest.approx(reference.sigmoid(a + offset), rel=1e-15)
        assert g == pytest.approx(reference.LOSSES[name][1](a, y), rel=1e-15)


def _same_bits(fn: Any, name: str, a: float, y: float) -> bool:
    return bits(fn(*arguments(name, a, y))) == bits(python(fn)(*arguments(name, a, y)))


@pytest.mark.parametrize("name", NAMES)
@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_compiled_and_interpreted_are_bit_identical(name: str, a: float, y: float) -> None:
    assert _same_bits(derivative, name, a, valid_label(name, y))
    assert bits(sigmoid(a)) == bits(python(sigmoid)(a))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fn", [derivative, value], ids=["derivative", "value"])
def test_compiled_and_interpreted_agree_on_random_input(fn: Any, name: str) -> None:
    random = np.random.default_rng(7)
    for a, y in random.normal(size=(20_000, 2)).tolist():
        assert _same_bits(fn, name, a, valid_label(name, y)), (a, y)


def test_codes_match_the_reference() -> None:
    codes = [LOGISTIC, HINGE, SMOOTHED_HINGE, SQUARED_HINGE, SQUARED, ABSOLUTE]
    codes += [HUBER, QUANTILE, POISSON]
    assert list(CODES.values()) == codes
    for loss in LOSSES:
        assert (loss.code >= SQUARED) == (loss.task == "regression")
    assert list(reference.LOSSES) == list(CODES)


def test_loss_objects_match_the_kernels() -> None:
    random = np.random.default_rng(11)
    for loss in LOSSES:
        for a, y in random.normal(size=(200, 2)).tolist():
            y = valid_label(loss.name, y)
            own = (a, y, PARAMETERS[loss.name]) if loss.parameter else (a, y)
            given_ = arguments(loss.name, a, y)
            assert bits(value(*given_)) == bits(loss.value(*own))
            assert bits(derivative(*given_)) == bits(loss.derivative(*own))
    assert tuple(loss.name for loss in LOSSES if loss.name in BINARY) == CLASSIFICATION == BINARY
    assert tuple(loss.name for loss in LOSSES if loss.name not in BINARY) == REGRESSION


@pytest.mark.parametrize("name", NAMES)
def test_reports_compute_the_same_losses(name: str) -> None:
    random = np.random.default_rng(13)
    a, y = random.normal(scale=2.0, size=(2, 200))
    y = np.array([valid_label(name, label) for label in y])
    p = np.array([output(CODES[name], margin) for margin in a])
    expected = [value(*arguments(name, *pair)) for pair in zip(a, y, strict=True)]
    assert name in REPORTED
    labels = y > 0.0 if name in BINARY else y
    found = reported_losses(name, p, labels, PARAMETERS.get(name, 0.0))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_poisson_loss_is_linear_beyond_the_largest_mean() -> None:
    limit = MAX_LOG_MEAN
    assert derivative(POISSON, limit, 3.0) == derivative(POISSON, 1e9, 3.0) == output(POISSON, 1e9)
    rise = value(POISSON, limit + 2.0, 3.0) - value(POISSON, limit + 1.0, 3.0)
    assert rise == pytest.approx(output(POISSON, limit))
    assert poisson_minimum(0.0) == 0.0
    for y in (1.0, 2.5, 1e6):
        assert poisson_minimum(y) == pytest.approx(value(POISSON, math.log(y), y))


@kernel
def exp_neg_and_log1p(x: Any, decays: Any, logs: Any) -> None:
    """Compute `exp_neg` of all x and `log1p` of the results, eight at a time."""
    for k in range(np.uint64(0), np.uint64(8 * len(x)), np.uint64(64)):
        e = simd_math.exp_neg(load_f64x8(np.uint64(x.ctypes.data) + k))
        store_f64x8(np.uint64(decays.ctypes.data) + k, e)
        store_f64x8(np.uint64(logs.ctypes.data) + k, simd_math.log1p(e))


def test_simd_exp_and_log_are_accurate() -> None:
    rng = np.random.default_rng(0)
    edges = [0.0, 5e-324, 1e-300, 1e-17, 0.3465, 0.3466, 1.0397, 37.0, 699.99, 700.0]
    drawn = [
        rng.exponential(1.0, 1000),
        rng.uniform(0.0, 700.0, 500),
        10.0 ** rng.uniform(-9, 2, 90),
    ]
    x = np.concatenate([edges, *drawn])
    decays, logs = np.empty(len(x)), np.empty(len(x))
    exp_neg_and_log1p(x, decays, logs)
    with localcontext() as context:
        context.prec = 340  # 1 + exp(-700) has 305 digits
        for argument, e, log in zip(x.tolist(), decays.tolist(), logs.tolist(), strict=True):
            exact = (-Decimal(argument)).exp()
            assert abs(Decimal(e) / exact - 1) < Decimal(1e-15)
            assert abs(Decimal(log) / (1 + Decimal(e)).ln() - 1) < Decimal(1e-15)


def test_simd_exp_of_large_values_and_nan() -> None:
    x = np.array([math.inf, 1e300, 750.0, 700.0, math.nan, 0.0, 1.0, 2.0])
    decays, logs = np.empty(8), np.empty(8)
    exp_neg_and_log1p(x, decays, logs)
    assert set(decays[:4].tolist()) == {decays[3]}
    assert decays[3] == pytest.approx(math.exp(-700.0), rel=1e-15)
    assert decays[5] == 1.0
    assert math.isnan(decays[4])
    assert math.isnan(logs[4])
