"""Demos that no other test runs, on small data."""

from __future__ import annotations

import importlib
import re
import runpy
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.broker import Broker

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def demos_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "demos"))


DEMOS = sorted(
    path.name
    for path in (ROOT / "demos").glob("*.py")
    if '__name__ == "__main__"' in path.read_text() and path.name != "on_spark.py"
)


@pytest.mark.parametrize("name", DEMOS)
def test_help_of_every_demo(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "demos" / name), run_name="__main__")
    assert end.value.code == 0 and capsys.readouterr().out.startswith(f"usage: {name} [-h]")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("ball_sizes.py 1", "ACTIVE must be >= 2, got 1"),
        ("drift.py --stationary 0", "--stationary must be >= 1, got 0"),
        ("four_methods.py none.svm", "none.svm: there is no such file"),
        ("late_frauds.py 0", "PAYMENTS must be >= 1, got 0"),
        ("method_pictures.py --limit 0", "--limit must be >= 1, got 0"),
        ("one_versus_rest.py iris mnist", "there is no data set mnist; use iris, wine"),
        ("regret.py many", "invalid int value: 'many'"),
        ("sampled_negatives.py -5", "EXAMPLES must be >= 1, got -5"),
        ("weight_limits.py river:Phishing --l1 -1", "l1 must be a number from 0"),
    ],
)
def test_invalid_arguments_of_demos(
    command: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, *arguments = command.split()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "demos" / name), run_name="__main__")
    assert end.value.code == 2 and sentence in capsys.readouterr().err


def test_sparse_paths_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{k % 2} {k % 2 + 1}:1 {10 + k % 7}:0.5 {20 + k}:0.1\n" for k in range(40)]
    (tmp_path / "few.svm").write_text("".join(rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sparse_paths.py", "few.svm"])
    runpy.run_path(str(ROOT / "demos" / "sparse_paths.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert output.startswith("few.svm: 40 examples, 49 features, 120 non-zeros\n")
    assert all(name in output for name in ("elastic net", "l1 ball", "SMIDAS", "EG+-", "Pegasos"))
    assert (tmp_path / "out" / "sparse_paths.png").stat().st_size > 10_000


class Tuned:
    """A model whose predictions of a positive label are best at a rate of 30."""

    loss, n_nonzero = "logistic", 1

    def __init__(self, rate: float) -> None:
        self.p = 1.0 / (1.0 + abs(np.log(rate / 30.0)))

    def progressive_many(self, X: Any, y: Any) -> Any:
        return np.full(len(y), self.p)


def test_sparse_paths_extends_the_rates() -> None:
    demo = runpy.run_path(str(ROOT / "demos" / "sparse_paths.py"))
    learner = demo["Learner"](lambda s, r: Tuned(r), "l1", [1.0], (0.1, 0.3, 1.0), {})
    [point] = demo["best_points"](learner, np.ones((3, 1)), np.ones(3, bool))
    assert point.rate == 30.0 and point.loss == 0.0


def test_choosing_a_model_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{k % 3 == 0:d} {k % 3 + 1}:1 {10 + k % 7}:0.5 {20 + k}:0.1\n" for k in range(60)]
    for name in ("one.svm", "two.svm"):
        (tmp_path / name).write_text("".join(rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VW_PYTHON", raising=False)
    monkeypatch.setattr(sys, "argv", ["choosing_a_model.py", "one.svm", "two.svm"])
    runpy.run_path(str(ROOT / "demos" / "choosing_a_model.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert output.startswith("one: 60 examples\n")
    losses = {}
    for line in output.splitlines():
        if line.startswith(("elastic net (the default)", "coin betting")):
            losses.setdefault(line[:28].strip(), []).append(float(line.split()[-2]))
    assert [len(found) for found in losses.values()] == [24, 24]  # twelve strengths, two streams
    assert min(losses["coin betting"]) < 0.6 < max(losses["coin betting"])
    assert (tmp_path / "out" / "choosing_a_model.png").stat().st_size > 10_000


def test_no_rate_to_tune_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{k % 3 == 0:d} {k % 3 + 1}:1 {10 + k % 7}:0.5\n" for k in range(60)]
    (tmp_path / "few.svm").write_text("".join(rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VW_PYTHON", raising=False)
    monkeypatch.setattr(sys, "argv", ["no_rate_to_tune.py", "few.svm"])
    runpy.run_path(str(ROOT / "demos" / "no_rate_to_tune.py"), run_name="__main__")
    row = next(line for line in capsys.readouterr().out.splitlines() if "few.svm" in line)
    assert row.count(" - ") == 2  # no Vowpal Wabbit


def test_best_rate_is_inside_the_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    no_rate_to_tune = importlib.import_module("no_rate_to_tune")

    def outcome(model: Any, X: Any, ys: Any) -> Any:
        away = np.log10([model.lr / 1e-8, max(model.intercept_lr, 1e-3) / 10.0])
        return SimpleNamespace(loss=0.5 + abs(away).sum() + (model.schedule == "invsqrt"))

    monkeypatch.setattr(no_rate_to_tune, "progressive_outcome", outcome)
    loss, setting = no_rate_to_tune.best_rate(None, None)
    assert 0.5 <= loss < 0.8 and setting in ("8.9e-09 constant, 10", "1.3e-08 constant, 10")


def test_page_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    demo = runpy.run_path(str(ROOT / "demos" / "page.py"))
    monkeypatch.setattr(shutil, "which", lambda name: None)  # no screenshot
    demo["write_page"](Path("out"), 2000)
    assert "site=s" in (tmp_path / "out" / "page.html").read_text()
    shares = demo["measure"](seconds=0.1, weights=100)
    assert list(shares) == ["nobody", "open", "searching"]
    assert demo["measure_without"](seconds=0.1, weights=100) >= 0.0


def test_sampled_negatives_demo(capsys: pytest.CaptureFixture[str]) -> None:
    demo = runpy.run_path(str(ROOT / "demos" / "sampled_negatives.py"))
    excess = demo["excess_losses"](20_000, 0.05)
    assert 0.0 < excess["negative_rate"] < excess["sample weights"]


def test_late_frauds_demo() -> None:
    demo = runpy.run_path(str(ROOT / "demos" / "late_frauds.py"))
    only_frauds, all_labels = (
        demo["learn"](8_000, settles, 0).lines[-1].loss for settles in (False, True)
    )
    assert only_frauds > 3.0 * all_labels


def test_method_pictures_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{k % 3 == 0:d} {k % 3 + 1}:1 {10 + k % 7}:0.5 {20 + k}:0.1\n" for k in range(60)]
    (tmp_path / "few.svm").write_text("".join(rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["method_pictures.py", "few.svm"])
    demo = runpy.run_path(str(ROOT / "demos" / "method_pictures.py"))
    drawn = ("truncated-gradient",)  # the others are drawn in the same way
    for page in set(demo["METHODS"]) - {*drawn}:
        del demo["METHODS"][page]
    demo["main"]()
    output = capsys.readouterr().out
    assert all(f"out/method-{page}.png" in output for page in drawn)
    assert (tmp_path / "out" / "method-truncated-gradient.png").stat().st_size > 10_000


def test_every_method_page_has_a_picture() -> None:
    demo = runpy.run_path(str(ROOT / "demos" / "method_pictures.py"))
    for page in demo["METHODS"]:
        text = (ROOT / "docs" / f"{page}.md").read_text()
        assert f"(method-{page}.png)" in text
        assert (ROOT / "docs" / f"method-{page}.png").stat().st_size < 60_000


def test_lazy_updates_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    demo = runpy.run_path(str(ROOT / "demos" / "lazy_updates.py"))
    demo["main"]((100, 1_000), 100)
    assert (tmp_path / "out" / "lazy_updates.png").stat().st_size > 10_000
    current, stored = demo["one_weight"]()
    gap = slice(demo["OCCURRENCES"][2], demo["OCCURRENCES"][3])
    assert len(set(stored[gap])) == 1 and len(set(current[gap])) == len(current[gap])


def test_four_methods_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{k % 3 == 0:d} {k % 3 + 1}:1 {10 + k % 7}:0.5 {20 + k}:0.1\n" for k in range(90)]
    (tmp_path / "few.svm").write_text("".join(rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["four_methods.py", "few.svm"])
    runpy.run_path(str(ROOT / "demos" / "four_methods.py"), run_name="__main__")
    *methods, baseline, picture = capsys.readouterr().out.splitlines()[2:]
    assert [line[:11] for line in methods] == [
        "elastic net",
        "truncated g",
        "SMIDAS     ",
        "l1 ball, by",
    ]
    for line in [*methods, baseline]:
        cumulative, mean = map(float, line[30:52].split())
        assert cumulative == pytest.approx(90 * mean, abs=0.06)
    assert (tmp_path / picture).stat().st_size > 10_000


def test_drift_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    demo = runpy.run_path(str(ROOT / "demos" / "drift.py"))
    demo["show_changes"]()
    output = capsys.readouterr().out
    assert output.count("the log-loss rose from") == 2
    assert "about 10,000 examples" in output and "about 20,000 examples" in output
    assert (tmp_path / "out" / "drift.png").stat().st_size > 10_000
    demo["compare_actions"](5000)
    head, *lines = capsys.readouterr().out.strip().splitlines()
    losses = {line[:28].strip(): [*map(float, line[28:].split())] for line in lines}
    assert "15,000 examples" in head and len(losses) == 7
    logged, reset = losses["elastic net, lr=0.5"]
    assert reset < logged


def test_regret_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAML1_DATA", raising=False)
    monkeypatch.setenv("RIVER_DATA", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["regret.py", "150"])
    runpy.run_path(str(ROOT / "demos" / "regret.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert output.startswith("synthetic rows: 150 examples, 200 features")
    assert all(name in output for name in ("elastic net", "EG+-", "Pegasos", "bound"))
    assert (tmp_path / "out" / "regret.png").stat().st_size > 10_000


def test_one_versus_rest_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["one_versus_rest.py", "iris"])
    runpy.run_path(str(ROOT / "demos" / "one_versus_rest.py"), run_name="__main__")
    rest, softmax, weaker = capsys.readouterr().out.splitlines()
    assert rest == "iris         one-vs-rest    accuracy 0.947, log-loss 0.254"
    assert softmax == "iris         softmax        accuracy 0.960, log-loss 0.109"
    assert weaker == "iris         strength 1e-6  accuracy 0.960, log-loss 0.108"


@pytest.mark.kafka
def test_closed_loop_demo(
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    broker.require_real()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(
        sys, "argv", ["closed_loop.py", "--kafka", broker.address, "--seconds", "3"]
    )
    monkeypatch.delitem(sys.modules, "tutorial", raising=False)
    runpy.run_path(str(ROOT / "demos" / "closed_loop.py"), run_name="__main__")
    out = capfd.readouterr().out
    rows = re.findall(r"^\w{12} \w{12} +([\d,]+) +([\d.]+)% +([\d.]+)% +([\d.]+)%$", out, re.M)
    assert len(rows) == 10
    clicks, random, best = (float(np.mean([float(row[k]) for row in rows[:5]])) for k in (1, 2, 3))
    assert random + 5.0 < clicks < best
    n_users = sum(int(row[0].replace(",", "")) for row in rows)
    assert re.search(rf"^examples +{2000 + n_users:,}$", out, re.M)  # each user is learnt once
    assert re.search(r"^[3-9]\d* versions|^\d\d versions", out, re.M)
    assert "no screenshot: chromium is not installed" in out
    assert "ad=a" in (tmp_path / "out" / "closed_loop" / "page.html").read_text()
