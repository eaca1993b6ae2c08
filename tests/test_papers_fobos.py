"""The demos of the FOBOS paper in their quick form, and the steps they take in plain numpy."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference_solvers import prox

PAPERS = Path(__file__).parent.parent / "demos" / "papers"


def demo(monkeypatch: pytest.MonkeyPatch, name: str, *argv: str) -> dict[str, Any]:
    monkeypatch.syspath_prepend(PAPERS)
    monkeypatch.delenv("STREAML1_DATA", raising=False)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *argv])
    how = "__main__" if argv else name
    return runpy.run_path(str(PAPERS / f"{name}.py"), run_name=how)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("fobos_pegasos", "5 of 6 hold, 1 do not, 0 not run."),
        ("fobos_sparsity", "7 of 7 hold, 0 do not, 0 not run."),
        ("fobos_minibatches", "synthetic data, l1, mean of 1 runs"),
        ("fobos_mixed_norms", "synthetic data: test error, mean of 1 runs"),
    ],
)
def test_demos(
    name: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    demo(monkeypatch, name, "--quick", "--out", str(tmp_path))
    assert told in capsys.readouterr().out
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


@pytest.mark.parametrize("penalty", ["l1", "l1/l2", "l1/linf"])
def test_a_step_of_the_demos(penalty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = demo(monkeypatch, "fobos_multiclass")
    v = np.random.default_rng(1).normal(size=(50, 4))
    for c in (0.0, 0.3, 1.5, 9.0):
        right = prox(penalty, v.T, 1.0, c, 0.0).T
        assert rows["prox"](v, c, penalty) == pytest.approx(right, abs=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_gradient_and_objective_of_the_demos(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a row at a time, with few rows of weights and with most of them."""
    rows = demo(monkeypatch, "fobos_multiclass")
    rng = np.random.default_rng(3)
    X, y, W = rng.normal(size=(12, 20)), rng.integers(0, 3, 12), rng.normal(size=(20, 3))
    W[round(share * 20) :] = 0.0
    G, told = np.zeros((20, 3)), 0.5 * np.abs(W).sum()
    for x, label in zip(X, y, strict=True):
        odds = np.exp([sum(x[j] * W[j, k] for j in range(20)) for k in range(3)])
        told -= np.log(odds[label] / odds.sum()) / 12
        for k in range(3):
            G[:, k] += x * (odds[k] / odds.sum() - (k == label)) / 12
    assert rows["gradient"](X, y, W) == pytest.approx(G, abs=1e-12)
    assert rows["objective"](X, y, W, "l1", 0.5) == pytest.approx(told, abs=1e-12)


@pytest.mark.parametrize("penalty", ["l1", "l1/l2"])
def test_parts_of_one_row_are_the_learner(penalty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    demos = demo(monkeypatch, "fobos_minibatches")
    strength = {"l1": 0.15, "l1/l2": 0.25}[penalty]
    data = demos["synthetic"](0, n=40, d=30, n_informative=5, k=3)
    plain = demos["run_minibatches"](data, penalty, 0.5, strength, 1.0 / 40, 3, 7)
    learnt = demos["run_softmax"](data, penalty, 0.5, strength, 3, 7)
    assert learnt == pytest.approx(plain, abs=1e-9)
    assert 0.0 < plain[-1, 2] < 1.0  # some rows are zero


def batch(T: int, eta: Any, half: Any) -> tuple[Any, Any]:
    """FOBOS on a logistic loss of slope 1 at most, and l1: objectives and weights of T steps."""
    rng = np.random.default_rng(0)
    A, l1 = rng.normal(size=(100, 10)), 0.01
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    w, told, weights = np.zeros(10), [], []
    for t in range(1, T + 1):
        told.append(np.logaddexp(0.0, -(A @ w)).mean() + l1 * np.abs(w).sum())
        weights.append(w)
        v = w + eta(t) * A.T @ (1.0 / (1.0 + np.exp(A @ w))) / 100.0
        w = prox("l1", v, half(t), l1, 0.0)
    return np.array(told), np.array(weights)


@pytest.mark.parametrize("c", [0.1, 1.0, 30.0])
def test_theorem_1_and_corollary_2(c: float) -> None:
    told, weights = batch(5000, lambda t: 3.0, lambda t: 3.0)
    least, D, G = told[-1], float(np.linalg.norm(weights[-1])), 1.0
    T = 300
    eta = c / np.sqrt(np.arange(1, T + 2))
    told, _ = batch(T, lambda t: eta[t - 1], lambda t: eta[t])
    bound = D * D + 7.0 * G * G * (eta[:T] ** 2).sum()
    assert -1e-9 <= (eta[:T] * (told - least)).sum() <= bound
    fixed = c * D / (np.sqrt(7.0 * T) * G)  # the corollary's where c is 1
    told, _ = batch(T, lambda t: fixed, lambda t: fixed)
    if c == 1.0:
        assert told.min() - least <= told.mean() - least <= 3.0 * D * G / np.sqrt(T)


@pytest.mark.parametrize("kind", ["l1", "l2", "linf", "squared l2"])
def test_proposition_4(kind: str) -> None:
    v, steps = np.random.default_rng(2).normal(size=6) * 3.0, (0.3, 0.1, 0.7)

    def step(w: Any, eta: float) -> Any:
        return w / (1.0 + eta) if kind == "squared l2" else prox(kind, w, eta, 1.0, 0.0)

    w = v
    for eta in steps:
        w = step(w, eta)
    once = step(v, sum(steps))
    same = bool(np.abs(w - once).max() < 1e-9)
    assert same == (kind != "squared l2")  # which the paper leaves out, rightly
