"""The l1-ball paper and the SDCA talk: misprints, theorems on small data, and the demos."""

from __future__ import annotations

import importlib
import math
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import streaml1
from streaml1.solvers import sdca
from streaml1.solvers.projection import project_l1_ball, project_simplex

DEMOS = Path(__file__).parent.parent / "demos" / "papers"


@pytest.fixture(autouse=True)
def demos_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DEMOS))


# Duchi, Shalev-Shwartz, Singer & Chandra (2008)


def random_projections(n: int = 200) -> list[tuple[Any, float, Any]]:
    """Return random vectors and radii with projections found by bisection."""
    rng, projections = np.random.default_rng(0), []
    for _ in range(n):
        v, z = rng.normal(size=rng.integers(2, 9)) * 2.0, float(rng.uniform(0.2, 3.0))
        low, high = v.min() - z, v.max()
        for _ in range(200):
            theta = 0.5 * (low + high)
            low, high = (theta, high) if np.maximum(v - theta, 0.0).sum() > z else (low, theta)
        projections.append((v, z, np.maximum(v - low, 0.0)))
    return projections


def test_lemmas_1_and_2() -> None:
    """The rho largest components stay positive, rho as in Lemma 2; theta is Eq. (5)."""
    for v, z, w in random_projections():
        order = np.argsort(-v)
        mu = v[order]
        rho = max(j for j in range(1, len(v) + 1) if mu[j - 1] - (mu[:j].sum() - z) / j > 0.0)
        assert np.all(w[order[:rho]] > 0.0) and np.all(w[order[rho:]] <= 1e-12)
        theta = (mu[:rho].sum() - z) / rho
        np.testing.assert_allclose(w, np.maximum(v - theta, 0.0), atol=1e-12)
        np.testing.assert_allclose(project_simplex(v, z), w, atol=1e-12)


def test_lemma_3() -> None:
    """A projection onto the ball preserves signs."""
    for v, z, _ in random_projections():
        w = project_l1_ball(v, z)
        assert np.all(w * v >= 0.0)


def test_support_is_defined_by_the_projection() -> None:
    """Section 3 prints I = {i: v_(i) > 0}; it must refer to w, the projection."""
    w = project_simplex([3.0, 0.5], 1.0)
    assert w.tolist() == [1.0, 0.0]  # although both components of v are positive


def test_inequality_of_equation_11_is_reversed() -> None:
    """A component is >= the pivot iff sum v_j < count v + z; the paper prints ">"."""
    n_printed = n_correct = 0
    for v, z, w in random_projections():
        pivot = v[w > 1e-12].min()
        for x in v:
            above = v[v >= x]
            lhs, rhs = above.sum(), len(above) * x + z
            n_correct += (lhs < rhs) == (x >= pivot)
            n_printed += (lhs > rhs) == (x >= pivot)
    assert n_correct == sum(len(v) for v, _, _ in random_projections()) and n_printed == 0


# Shalev-Shwartz & Zhang (2013)


def test_fobos_steps_equal_pegasos_steps() -> None:
    """With rate 1 / (lambda t), FoBoS step t equals Pegasos step t + 1."""
    rng, l2 = np.random.default_rng(1), 0.3
    X, y = rng.normal(size=(50, 4)), rng.random(50) < 0.5
    model = streaml1.ElasticNetClassifier(
        l2=l2, lr=1.0 / l2, schedule="inverse", loss="hinge", intercept_lr=0.0
    )
    model.learn_many(X, y)
    w = np.zeros(4)
    for k in range(50):
        sign, t = (1.0 if y[k] else -1.0), k + 2
        step = sign * X[k] / (l2 * t) if sign * (X[k] @ w) < 1.0 else 0.0
        w = (1.0 - 1.0 / t) * w + step
    np.testing.assert_allclose([model.weights.get(j, 0.0) for j in range(4)], w, atol=1e-12)


def test_sign_of_the_sgd_update_is_misprinted() -> None:
    """The talk prints - 1[...] x_i / (lambda t); the right term is + y_i x_i / (lambda t)."""
    printed, corrected = importlib.import_module("sdca_lemma").sgd_as_printed()
    assert corrected < 0.5 < 1.0 < printed


def test_main_lemma() -> None:
    n_tried, n_failed, min_slack = importlib.import_module("sdca_lemma").check_lemma()
    assert n_tried == 2880 and n_failed == 0 and min_slack > 0.0


def test_lemma_check_detects_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check detects steps of 1 % of the optimal length."""
    lemma = importlib.import_module("sdca_lemma")
    optimal_steps = lemma.sdca_steps
    monkeypatch.setattr(lemma, "sdca_steps", lambda *args: 0.01 * optimal_steps(*args))
    assert lemma.check_lemma()[1] > 0


def test_hinge_step_is_optimal() -> None:
    """The closed form of the slide maximizes D over a grid of 4,001 values."""
    lemma = importlib.import_module("sdca_lemma")
    X, y = lemma.synthetic(12, 3, 5)
    rng = np.random.default_rng(0)
    for gamma in (0.0, 0.5):
        alpha = y * rng.random(12)
        delta = lemma.sdca_steps(X, y, alpha, gamma, 0.1)
        for i in range(12):
            basis = np.eye(12)[i]
            grid = y[i] * np.linspace(0.0, 1.0, 4_001) - alpha[i]
            values = [
                lemma.dual_objective(X, y, alpha + change * basis, gamma, 0.1) for change in grid
            ]
            assert (
                lemma.dual_objective(X, y, alpha + delta[i] * basis, gamma, 0.1)
                >= max(values) - 1e-12
            )


def test_scaling_rows_scales_lambda() -> None:
    """R^2 / (lambda gamma): scaling X by c and lambda by c^2 divides the weights by c."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 5)), rng.random(60) < 0.5
    original = sdca(X, y, "smoothed_hinge", l2=0.05, tol=1e-12)
    scaled = sdca(3.0 * X, y, "smoothed_hinge", l2=0.45, tol=1e-12)
    assert scaled.objective == pytest.approx(original.objective, abs=1e-10)
    np.testing.assert_allclose(3.0 * scaled.weights, original.weights, atol=1e-5)
    assert len(scaled.trace) == len(original.trace)


@pytest.mark.parametrize("d", [8, 100, 10_000])
def test_factor_three_is_too_small_for_strong_convexity(d: int) -> None:
    """3 log(d)/2 |w|_q^2 is not 1-strongly convex in l1: at equal weights the modulus is 3/e^2."""
    q = math.log(d) / (math.log(d) - 1.0)
    u = np.tile([1.0, -1.0], d // 2) / d  # l1 norm 1
    N = d ** (1.0 / q)  # |w|_q of w = (1, ..., 1)
    curve = 3.0 * math.log(d) * ((q - 1.0) * N ** (2.0 - q) * float(u @ u))
    expected = 3.0 * math.log(d) / ((math.log(d) - 1.0) * math.e**2)
    assert curve == pytest.approx(expected, rel=1e-9) and curve < 1.0

    def g(w: Any) -> float:
        return 1.5 * math.log(d) * float(np.sum(np.abs(w) ** q) ** (2.0 / q))

    h, w = 1e-2, np.ones(d) / d
    second = (g(w + h * u) - 2.0 * g(w) + g(w - h * u)) / h**2
    assert second == pytest.approx(curve, rel=1e-3)


def test_smoothed_hinge_approximates_the_hinge() -> None:
    """The smoothed hinge is at most gamma / 2 below the hinge and (1 / gamma)-smooth."""
    lemma = importlib.import_module("sdca_lemma")
    a = np.linspace(-3.0, 3.0, 6_001)
    for gamma in (0.01, 0.1, 1.0):
        hinge = np.maximum(0.0, 1.0 - a)
        z = 1.0 - a
        smooth = np.where(z > gamma, z - gamma / 2, np.maximum(z, 0.0) ** 2 / (2 * gamma))
        assert np.all(hinge - smooth >= 0.0) and np.max(hinge - smooth) <= gamma / 2 + 1e-12
        slope = lemma.negative_derivatives(a[:, None], np.ones(len(a)), np.ones(1), gamma)
        assert np.abs(np.diff(slope) / np.diff(a)).max() <= 1.0 / gamma * (1.0 + 1e-9)


# The demos


def run_demo(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--out", str(tmp_path)])
    runpy.run_path(str(DEMOS / name), run_name="__main__")
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("name", "expected", "claims", "not_run"),
    [
        ("l1_ball_synthetic", "squared, n = 40", 6, 0),
        ("l1_ball_rcv1", "synthetic rows; 800 x 400", 6, 0),
        ("l1_ball_mnist", "synthetic points: 500 rows, a support of 100", 4, 0),
        ("l1_ball_online", "synthetic rows: 2,000 rows", 8, 1),
        ("sdca_talk", "synthetic rows: 600 rows", 17, 0),
        ("sdca_run_times", "l1, sigma = 0.005", 16, 3),
        ("structured_chain", "40 chains of 4 to 10 positions", 3, 0),
    ],
)
def test_demos(
    name: str,
    expected: str,
    claims: int,
    not_run: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = run_demo(f"{name}.py", tmp_path, monkeypatch, capsys)
    assert expected in out and f"of {claims} hold" in out and f"{not_run} not run" in out
    assert (tmp_path / f"{name.replace('_', '-')}.png").stat().st_size > 10_000


def test_radius_applies_to_synthetic_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["l1_ball_rcv1.py", "--quick", "--out", str(tmp_path), "--radius"]
    monkeypatch.setattr(sys, "argv", [*command, "-1"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(DEMOS / command[0]), run_name="__main__")
    assert "--radius must be a finite number > 0, got -1" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [*command, "20"])
    runpy.run_path(str(DEMOS / command[0]), run_name="__main__")
    assert "radius 20" in capsys.readouterr().out


def test_cocoa_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run_demo("cocoa_rounds.py", tmp_path, monkeypatch, capsys)
    assert "CoCoA+ on 600 x 400" in out and "of 2 hold" in out and "0 not run" in out


def decreasing_curve(end: float, n: int = 11) -> tuple[Any, Any]:
    return np.linspace(0.0, 10.0, n), np.geomspace(1.0, end, n)


def test_verdicts_of_the_synthetic_demo() -> None:
    demo = importlib.import_module("l1_ball_synthetic")

    def verdicts(l1: float, ip: float, stochastic: Any, growth: float) -> list[bool | None]:
        races, levels = {}, {}
        for n, share in ((800, 1.0), (4_000, growth)):
            for loss in ("squared", "logistic"):
                curves = {name: demo.Curve(*decreasing_curve(l1)) for name in demo.PROJECTIONS}
                x = np.linspace(0.05, 10.0, 200)
                curves["L1-Stoch"] = demo.Curve(x, stochastic(x))
                flops, above = decreasing_curve(ip)
                curves["IP"] = demo.Curve(flops * share, above)
                if loss == "squared":
                    curves["Coordinate"] = demo.Curve(*decreasing_curve(ip))
                races[loss, n], levels[loss, n] = curves, 1e-2
        return [claim.holds for claim in demo.claims(races, levels)]

    assert verdicts(1e-6, 1e-3, lambda x: 1e-3 / x, 1.2) == [True] * 6
    bad = verdicts(1e-3, 1e-6, lambda x: 10.0 ** (-0.1 * x), 0.5)
    assert bad == [False, False, False, False, True, False]
    assert verdicts(1e-1, 1e-6, lambda x: 1.0 / x, 0.5)[4] is False


def test_verdicts_of_figure_6() -> None:
    demo = importlib.import_module("l1_ball_rcv1")

    def verdicts(l1: float, eg: float, seconds: dict[str, float]) -> list[bool | None]:
        curves = {
            f"{kind} - {size}": demo.Curve(*decreasing_curve(end), "1 invsqrt", 5)
            for kind, end in (("L1", l1), ("EG", eg))
            for size in ("Full", "Stoch", "100", "1")
        }
        return [claim.holds for claim in demo.claims(curves, 0.0, seconds)]

    slow = {"EG": 1.0, "L1, tree": 9.0, "L1, wheel": 2.0}
    assert verdicts(1e-4, 1e-2, slow) == [True, True, True, True, False, False]
    fast = {"EG": 3.0, "L1, tree": 1.0, "L1, wheel": 2.0}
    assert verdicts(1e-2, 1e-4, fast) == [False, False, False, False, True, True]


def test_verdicts_of_figure_7() -> None:
    demo = importlib.import_module("l1_ball_mnist")
    sparse = np.tile([0.0, 1.0, 1.0, 1.0], (10, 1))

    def verdicts(l1: float, eg: float, w: Any, v: Any) -> list[bool | None]:
        curves = {
            f"{kind}, {size}": demo.Curve(*decreasing_curve(end), weights, "1 constant")
            for kind, end, weights in (("L1", l1, w), ("EG", eg, v))
            for size in ("true", "1%")
        }
        return [claim.holds for claim in demo.claims(curves, 0.0, 30.0)]

    assert verdicts(1e-4, 1e-2, sparse, np.ones((10, 4))) == [True] * 4
    assert verdicts(1e-2, 1e-4, np.zeros((10, 4)), sparse) == [False] * 4


def test_lower_bound_of_figure_7() -> None:
    """No iterate is below the lower bound, and the final gap is small."""
    demo = importlib.import_module("l1_ball_mnist")
    problem = demo.problem_of(*demo.synthetic(200), 120, 40, 8.0, 5.0)
    minimum, gap = demo.optimum(problem, 400)
    assert -1e-6 <= gap < 1e-3  # the kernel matrix is in single precision
    for method in ("L1", "EG"):
        curve = demo.run_grid(problem, method, [("constant", 1.0)], 300, None)[0]
        assert curve.loss.min() >= minimum - gap - 1e-6
        assert np.all(curve.w >= 0.0) and np.all(curve.w.sum(axis=1) <= 5.0 * (1.0 + 1e-9))
    w = np.random.default_rng(0).random((10, 40)) * 0.1
    gradient = problem.loss_and_gradient(w)[1]
    for j, i in ((0, 3), (7, 30)):
        plus, minus = w.copy(), w.copy()
        plus[j, i] += 1e-2
        minus[j, i] -= 1e-2
        slope = problem.loss_and_gradient(plus)[0] - problem.loss_and_gradient(minus)[0]
        assert slope / 2e-2 == pytest.approx(gradient[j, i], rel=2e-2, abs=1e-5)


def test_rows_and_support_of_figure_7() -> None:
    """Rows and support are disjoint unless all rows are used."""
    demo = importlib.import_module("l1_ball_mnist")
    x, y = demo.synthetic(60)
    for rows, shared in ((40, 0), (60, 20)):
        K = demo.problem_of(x, y, rows, 20, 8.0, 1.0).K
        assert K.shape == (rows, 20) and (K.max(axis=1) == 1.0).sum() == shared


@pytest.mark.parametrize(
    ("method", "share"), [("L1", None), ("L1", 0.1), ("EG", None), ("EG", 0.1)]
)
def test_joint_runs_equal_single_runs(method: str, share: float | None) -> None:
    demo = importlib.import_module("l1_ball_mnist")
    problem = demo.problem_of(*demo.synthetic(200), 120, 40, 8.0, 5.0)
    rates = [("constant", 0.3), ("invsqrt", 2.0), ("inverse", 5.0)]
    joint = demo.run_grid(problem, method, rates, 30, share)
    assert len({float(curve.loss[-1]) for curve in joint}) == 3
    for rate, curve in zip(rates, joint, strict=True):
        single = demo.run_grid(problem, method, [rate], 30, share)[0]
        assert single.rate == curve.rate and np.array_equal(single.steps, curve.steps)
        np.testing.assert_allclose(curve.loss, single.loss, atol=1e-5)  # single precision
        np.testing.assert_allclose(curve.w, single.w, atol=1e-4)


def test_verdicts_of_figure_8() -> None:
    demo = importlib.import_module("l1_ball_online")

    def verdicts(
        l1_error: float, eg_error: float, n_sparse: int, n_dense: int, microseconds: float
    ) -> list[Any]:
        passes = {
            "L1": demo.PassResult(
                lambda: None, 300.0, "1 invsqrt", l1_error, l1_error, 50, l1_error < 1.0
            ),
            "EG": demo.PassResult(lambda: None, 100.0, "1 constant", eg_error, eg_error),
        }
        rows, losses = decreasing_curve(1.0)
        course = {
            name: demo.History(rows, losses, np.full(11, count), np.full(11, 200))
            for name, count in (("L1", n_sparse), ("EG", n_dense))
        }
        radii = {kind: {curve.radius: curve, 100.0: curve} for kind, curve in passes.items()}
        radii["EG"][300.0] = passes["EG"]
        topic = demo.Topic(passes, course, radii, 0.1, 0.4)
        times = {"no ball": 1.0, "tree": 11.0, "linear": microseconds}
        return [claim.holds for claim in demo.claims({"CCAT": topic}, 1_000, times, 50)]

    assert verdicts(0.2, 0.3, 50, 200, 200.0) == [True] * 8
    bad = verdicts(1.3, 0.2, 500, 100, 20.0)
    assert bad == [False, False, True, *[False] * 5]  # no pass reaches the ball


def test_exponents_of_the_table_follow_from_the_rates() -> None:
    """The exponents in the talk's table follow from the rates with gamma lambda n = m^k."""
    demo = importlib.import_module("sdca_talk")
    n = 10.0**12
    for k, powers in demo.POWERS.items():
        steps: dict[str, list[float]] = {"SDCA": [], "ASDCA": [], "AGD": []}
        for m in (1e3, 1e4):
            g = m**k
            theta = min(1.0, math.sqrt(g / m), g, g ** (2 / 3) / m ** (1 / 3))
            steps["SDCA"].append(n + n / g)
            steps["ASDCA"].append(n / m / theta)
            steps["AGD"].append(math.sqrt(n / g))
        for name, (a, b) in steps.items():
            assert math.log10(b / a) == pytest.approx(powers[name], abs=0.01), (k, name)


@pytest.mark.parametrize(("loss", "eta_0"), [("hinge", math.inf), ("smoothed_hinge", 0.5)])
def test_tuned_sgd_and_its_means(loss: str, eta_0: float) -> None:
    """P of the last weights, of their mean, and of the second half's, beside a dense loop."""
    race = importlib.import_module("sdca_race")
    rng = np.random.default_rng(4)
    X, y, l2, passes = rng.normal(size=(30, 5)), rng.random(30) < 0.5, 0.1, 3
    found = race.run_sgd(race.Task(csr_matrix(X), y, 1.0), loss, l2, passes, eta_0)
    random, w, steps, expected = np.random.default_rng(0), np.zeros(5), [], []
    for k in range(1, passes + 1):
        for i in random.permutation(30):
            # Step t of FoBoS is step t + 1 of Pegasos.
            t = len(steps) + round(1.0 / (l2 * eta_0)) + (1 if loss == "hinge" else 2)
            sign = 1.0 if y[i] else -1.0
            z = 1.0 - sign * (X[i] @ w)
            slope = float(z > 0.0) if loss == "hinge" else min(1.0, max(0.0, z))
            w = (1.0 - 1.0 / t) * w + slope * sign / (l2 * t) * X[i]
            steps.append(w)
        half = 30 * (k // 2)
        means = w, np.mean(steps, axis=0), np.mean(steps[half:], axis=0)
        expected.append([race.primal_objective(loss, X, y, v, l2) for v in means])
    np.testing.assert_allclose(np.array(found).T[1:], expected, rtol=1e-9)


def test_grids_grow_until_the_best_value_is_inside(capsys: pytest.CaptureFixture[str]) -> None:
    grid = importlib.import_module("grid")
    runs: list[float] = []

    def search(best: float, max_extra: int = 8) -> Any:
        runs.clear()
        return grid.search(
            lambda value: runs.append(value) or value,
            (1.0, 3.0, 10.0),
            lambda value: abs(math.log(value / best)),
            max_extra,
            name="c",
        )

    assert search(3.0) == (3.0, 3.0, {1.0: 1.0, 3.0: 3.0, 10.0: 10.0}, "")
    up = search(300.0)
    assert up.value == 300.0 and runs == [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]
    assert list(up.tried) == sorted(runs) and up.note == ""
    down = search(0.1)
    assert down.value == 0.1 and list(down.tried) == [0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
    assert not capsys.readouterr().out
    stuck = search(1e9, 2)
    assert capsys.readouterr().out == "the best c, 100, is the highest of the grid\n"
    assert stuck.value == 100.0 and len(runs) == 5 and stuck.note == " (highest of the grid)"
    assert search(1e-9, 0).edge == "lowest"
    # Equal scores: the lowest value. A plateau does not count as an edge. NaN is worst.
    assert grid.search(lambda v: v, (1, 2, 4), lambda v: max(1.0, 3.0 - v)).value == 2.0
    flat = grid.search(lambda v: v, (1, 2, 4), lambda v: max(2.0, v))
    assert (flat.value, flat.edge, len(flat.tried)) == (1.0, "", 3)
    assert grid.search(lambda v: v, (0, 1, 2), lambda v: v) == (0.0, 0.0, {0: 0, 1: 1, 2: 2}, "")
    assert grid.search(lambda v: v, (1, 2, 4), lambda v: math.nan if v < 2 else v).value == 2.0
    assert grid.thin((1, 2, 3, 4), 3) == [1, 4] and grid.thin((1, 2, 3), 3) == [1, 2]


def test_tables_of_run_times() -> None:
    """Totals are iterations times an iteration's; a power above its bound is found out."""
    demo = importlib.import_module("sdca_run_times")
    iterations = {"SDCA": (1.0, 0.0, 0.0), "ASDCA": (1.0, 0.0, -0.5), "AGD": (0.5, 0.0, 0.0)}
    numbers = {"features": {"SDCA": (0, 0, 0), "ASDCA": (0, 0, 1)}}
    for label, (run_time, communication) in demo.TOTALS.items():
        name, _, parts = label.partition(", ")
        assert np.add(iterations[name], demo.ITERATIONS[name]).tolist() == list(run_time)
        per_iteration = numbers.get(parts, {}).get(name, (0, 1, 0))  # by examples a vector of d
        assert np.add(iterations[name], per_iteration).tolist() == list(communication)
    assert demo.power([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]) == pytest.approx(2.0)
    assert demo.power([1.0, 2.0, 4.0], [3.0, 12.0, math.inf]) == pytest.approx(2.0)
    assert math.isnan(demo.power([1.0, 2.0], [3.0, math.inf]))
    assert demo.at_most([0.9, 1.6], [1.0, 1.5]) and not demo.at_most([0.9, 1.7], [1.0, 1.5])
    assert demo.at_most([0.9, math.nan], [1.0, 1.5]) is None
    size, total = demo.Size(100, 7, 4), demo.Total(10.0, 1.0)
    expected = {"SDCA, features": 10, "ASDCA, features": 40, "ASDCA, examples": 70}
    assert {name: demo.exchanged(name, size, total) for name in expected} == expected


def test_verdicts_of_the_talk() -> None:
    demo = importlib.import_module("sdca_talk")
    race = importlib.import_module("sdca_race")
    task = demo.Task(np.zeros((1_000, 1)), np.zeros(1_000), 1.0)

    def verdicts(good: bool) -> dict[str, bool | None]:
        low, high = np.geomspace(1.0, 1e-8, 41), np.geomspace(1.0, 1e-3, 41)
        sdca_gaps, other_gaps = (low, high) if good else (high, low)
        sgd = race.SGD(other_gaps, other_gaps, other_gaps)
        lines = {
            loss: demo.Race(sdca_gaps, low if good else low - 1.0, sgd, sgd, low - 1e-9, "1")
            for loss in ("smoothed_hinge", "hinge")
        }

        def trace(values: Any) -> Any:
            return demo.Trace(values, values, np.arange(len(values)))

        order = {"random": trace(sdca_gaps), "permutation": trace(low), "cyclic": trace(other_gaps)}
        widths = {
            gamma: (trace(np.geomspace(1.0, 10.0 ** -(4.0 + gamma), 41)), 0.1)
            for gamma in demo.GAMMAS
        }
        if not good:
            widths = dict(zip(widths, reversed(list(widths.values())), strict=True))
            widths[1.0] = (widths[1.0][0], 0.2)
        # Good runs need the same number of passes for each batch size; bad runs m times more.
        batches = {m: trace(np.geomspace(1.0, 1e-3, 20 if good else 20 * m)) for m in demo.BATCHES}
        table = {
            k: {a: [m ** (p if good else p + 1.0) for m in demo.M] for a, p in powers.items()}
            for k, powers in demo.POWERS.items()
        }
        split = demo.Split(5, 0.01, 0.01 if good else 0.02, 0.99, (0.0, 0.0))
        claims = demo.claims(lines, order, widths, batches, table, {"synthetic": split}, task)
        return {f"{c.source}: {c.statement}": c.holds for c in claims}

    good, bad = verdicts(True), verdicts(False)
    fixed = ("Proof idea", "SDCA vs. SGD, example")  # claims about generated rows
    for claim, holds in good.items():
        if not claim.startswith(fixed):
            assert holds and not bad[claim], claim
