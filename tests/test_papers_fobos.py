"""Quick runs of the demos of the FOBOS paper, compared with plain numpy."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference_solvers import prox

PAPERS = Path(__file__).parent.parent / "demos" / "papers"


def run_demo(monkeypatch: pytest.MonkeyPatch, name: str, *argv: str) -> dict[str, Any]:
    monkeypatch.syspath_prepend(PAPERS)
    monkeypatch.delenv("STREAML1_DATA", raising=False)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *argv])
    module_name = "__main__" if argv else name
    return runpy.run_path(str(PAPERS / f"{name}.py"), run_name=module_name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fobos_pegasos", "5 of 6 hold, 1 do not, 0 not run."),
        ("fobos_sparsity", "8 of 8 hold, 0 do not, 0 not run."),
        ("fobos_minibatches", "synthetic data, l1, mean of 1 runs"),
        ("fobos_mixed_norms", "synthetic data: test error, mean of 1 runs"),
    ],
)
def test_demos(
    name: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_demo(monkeypatch, name, "--quick", "--out", str(tmp_path))
    assert expected in capsys.readouterr().out
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


@pytest.mark.parametrize("penalty", ["l1", "l1/l2", "l1/linf"])
def test_prox_of_the_demos(penalty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = run_demo(monkeypatch, "fobos_multiclass")
    v = np.random.default_rng(1).normal(size=(50, 4))
    for c in (0.0, 0.3, 1.5, 9.0):
        expected = prox(penalty, v.T, 1.0, c, 0.0).T
        assert namespace["prox"](v, c, penalty) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_gradient_and_objective_of_the_demos(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with a loop over rows, for few and for many non-zero weight rows."""
    namespace = run_demo(monkeypatch, "fobos_multiclass")
    rng = np.random.default_rng(3)
    X, y, W = rng.normal(size=(12, 20)), rng.integers(0, 3, 12), rng.normal(size=(20, 3))
    W[round(share * 20) :] = 0.0
    G, objective = np.zeros((20, 3)), 0.5 * np.abs(W).sum()
    for x, label in zip(X, y, strict=True):
        odds = np.exp([sum(x[j] * W[j, k] for j in range(20)) for k in range(3)])
        objective -= np.log(odds[label] / odds.sum()) / 12
        for k in range(3):
            G[:, k] += x * (odds[k] / odds.sum() - (k == label)) / 12
    assert namespace["gradient"](X, y, W) == pytest.approx(G, abs=1e-12)
    assert namespace["objective"](X, y, W, "l1", 0.5) == pytest.approx(objective, abs=1e-12)


@pytest.mark.parametrize("penalty", ["l1", "l1/l2"])
def test_batches_of_one_row_equal_the_learner(
    penalty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = run_demo(monkeypatch, "fobos_minibatches")
    strength = {"l1": 0.15, "l1/l2": 0.25}[penalty]
    data = namespace["synthetic"](0, n=40, d=30, n_informative=5, k=3)
    stochastic = namespace["run_minibatches"](data, penalty, 0.5, strength, 1.0 / 40, 3, 7)
    single = namespace["run_softmax"](data, penalty, 0.5, strength, 3, 7)
    assert single == pytest.approx(stochastic, abs=1e-9)
    assert 0.0 < stochastic[-1, 2] < 1.0  # some rows are zero


def run_fobos(T: int, eta: Any, penalty_rate: Any) -> tuple[Any, Any]:
    """Run T steps of FOBOS on an l1-penalized logistic loss with slope <= 1.

    Returns the objectives and the weights.
    """
    rng = np.random.default_rng(0)
    A, l1 = rng.normal(size=(100, 10)), 0.01
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    w, objectives, weights = np.zeros(10), [], []
    for t in range(1, T + 1):
        objectives.append(np.logaddexp(0.0, -(A @ w)).mean() + l1 * np.abs(w).sum())
        weights.append(w)
        v = w + eta(t) * A.T @ (1.0 / (1.0 + np.exp(A @ w))) / 100.0
        w = prox("l1", v, penalty_rate(t), l1, 0.0)
    return np.array(objectives), np.array(weights)


@pytest.mark.parametrize("c", [0.1, 1.0, 30.0])
def test_theorem_1_and_corollary_2(c: float) -> None:
    objectives, weights = run_fobos(5000, lambda t: 3.0, lambda t: 3.0)
    minimum, D, G = objectives[-1], float(np.linalg.norm(weights[-1])), 1.0
    T = 300
    eta = c / np.sqrt(np.arange(1, T + 2))
    objectives, _ = run_fobos(T, lambda t: eta[t - 1], lambda t: eta[t])
    bound = D * D + 7.0 * G * G * (eta[:T] ** 2).sum()
    assert -1e-9 <= (eta[:T] * (objectives - minimum)).sum() <= bound
    rate = c * D / (np.sqrt(7.0 * T) * G)  # the rate of the corollary if c is 1
    objectives, _ = run_fobos(T, lambda t: rate, lambda t: rate)
    if c == 1.0:
        assert objectives.min() - minimum <= objectives.mean() - minimum <= 3.0 * D * G / np.sqrt(T)


@pytest.mark.parametrize("kind", ["l1", "l2", "linf", "squared l2"])
def test_proposition_4(kind: str) -> None:
    v, steps = np.random.default_rng(2).normal(size=6) * 3.0, (0.3, 0.1, 0.7)

    def step(w: Any, eta: float) -> Any:
        return w / (1.0 + eta) if kind == "squared l2" else prox(kind, w, eta, 1.0, 0.0)

    w = v
    for eta in steps:
        w = step(w, eta)
    once = step(v, sum(steps))
    is_equal = bool(np.abs(w - once).max() < 1e-9)
    assert is_equal == (kind != "squared l2")  # the paper rightly excludes squared l2
