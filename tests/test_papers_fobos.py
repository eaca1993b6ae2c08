"""The demos of the FOBOS paper in their quick form, and the steps they take in plain numpy."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference_offline import prox

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
        ("fobos_minibatches", "STREAML1_DATA names the folder"),
        ("fobos_mixed_norms", "STREAML1_DATA names the folder"),
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
    rows = demo(monkeypatch, "fobos_rows")
    v = np.random.default_rng(1).normal(size=(50, 4))
    for c in (0.0, 0.3, 1.5, 9.0):
        right = prox(penalty, v.T, 1.0, c, 0.0).T
        assert rows["prox"](v, c, penalty) == pytest.approx(right, abs=1e-9)


@pytest.mark.parametrize("penalty", ["l1", "l1/l2"])
def test_parts_of_one_row_are_the_learner(penalty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    demos = demo(monkeypatch, "fobos_minibatches")
    strength = {"l1": 0.15, "l1/l2": 0.25}[penalty]
    data = demos["made"](0, n=40, d=30, telling=5, k=3)
    plain = demos["stochastic"](data, penalty, 0.5, strength, 1.0 / 40, 3, 7)
    learnt = demos["single"](data, penalty, 0.5, strength, 3, 7)
    assert learnt == pytest.approx(plain, abs=1e-9)
    assert 0.0 < plain[-1, 2] < 1.0  # some rows are zero
