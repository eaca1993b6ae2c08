"""Drift alarms: what they find, how often they are false, and what they cost.

    python demos/drift.py [--stationary N]

The stream has two changes: its labels depend on other features from one example to the next. Plots
the loss of the default model with a mark at each alarm, and the window of river's ADWIN on the same
losses, to out/drift.png. Then learns streams without a change, N examples of each
(default 100,000), and counts false alarms; in some the labels are rare and depend on
nothing. Last, it compares `on_drift="log"` with "reset-rates", and prints the time per example.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from river.drift import ADWIN
from scipy.sparse import csr_matrix

import streaml1
from streaml1.datasets import Drifting
from streaml1.training.drift import AdaptiveWindow
from streaml1.training.report import Report

matplotlib.use("agg")
import matplotlib.pyplot as plt

PICTURE = Path("out") / "drift.png"
PERIOD = 10_000
SMOOTHED = 200
BLOCK = 2_000


def learners() -> dict[str, Any]:
    """Return the models by name."""
    return {
        "elastic net": streaml1.ElasticNetClassifier(l1=1e-5),
        "elastic net, lr=0.1": streaml1.ElasticNetClassifier(l1=1e-5, lr=0.1),
        "FTRL": streaml1.FTRLClassifier(l1=0.1),
        "l1 ball": streaml1.L1BallClassifier(radius=30.0),
    }


def river_alarms(numbers: Any) -> list[int]:
    """Return the examples after which river's ADWIN, fed one by one, finds a change."""
    detector = ADWIN()
    found = []
    for k, number in enumerate(numbers.tolist(), 1):
        detector.update(number)
        if detector.drift_detected:
            found.append(k)
    return found


def show_changes() -> None:
    """Learn a stream with two changes, print the alarms, and draw the loss."""
    X, y = Drifting(n=3 * PERIOD, period=PERIOD, seed=1).matrix()
    p = np.asarray(streaml1.ElasticNetClassifier(l1=1e-5).progressive_many(X, y))
    report = Report("logistic", "two changes")
    report.add(p, y)
    report.line()
    print(f"labels change after {PERIOD:,} and {2 * PERIOD:,} examples")
    for drift in report.drifts:
        print(f"  {drift.sentence(report.loss_name)}")
    wrong = np.abs(p - y)
    alarms = river_alarms(np.square(wrong))
    print(f"river's ADWIN, one by one: {', '.join(f'{k:,}' for k in alarms)}")
    losses = -np.log(np.maximum(1.0 - wrong, 1e-15))
    smooth = np.convolve(losses, np.ones(SMOOTHED) / SMOOTHED, "valid")
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    axes.plot(np.arange(SMOOTHED, len(losses) + 1), smooth, lw=1, label="log-loss")
    for k, drift in enumerate(report.drifts):
        axes.axvline(drift.since, color="C3", ls="-.", lw=1, label=None if k else "alarm: since")
        rise = ([drift.since] * 2, [drift.loss_before, drift.loss_after])
        axes.plot(*rise, "C3o", ms=4, label=None if k else "loss before and after")
    axes.set_xlabel("examples")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel(f"mean log-loss of {SMOOTHED} examples")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)
    print(f"{PICTURE}\n")


def labels_of_chance(n: int, share: float) -> tuple[Any, Any]:
    """Return n rows of twelve categories, and labels that do not depend on them."""
    rng = np.random.default_rng(0)
    columns = np.arange(12) * 3001
    ids = np.minimum(rng.pareto(0.7, (n, 12)), 3000.0).astype(int) + columns
    X = csr_matrix((np.ones(12 * n), ids.ravel(), np.arange(0, 12 * n + 1, 12)))
    return X, rng.random(n) < share


def count_false_alarms(n: int) -> None:
    """Print the alarms on streams without a change."""
    total = alarms = 0
    print(f"false alarms on stationary streams of {n:,} examples")
    for seed in (0, 1):
        X, y = Drifting(n=n, change="none", seed=seed).matrix()
        for name, model in learners().items():
            report = streaml1.progressive(model, (X, y), every=n, data_checks=False)
            total, alarms = total + n, alarms + len(report.drifts)
            print(f"  seed {seed}, {name:22}{len(report.drifts)}", flush=True)
    for share in (0.5, 0.2, 0.05):
        X, y = labels_of_chance(n, share)
        for name, model in learners().items():
            report = streaml1.progressive(model, (X, y), every=n, data_checks=False)
            total, alarms = total + n, alarms + len(report.drifts)
            print(
                f"  labels of chance, {share:4.0%} of them True, {name:22}{len(report.drifts)}",
                flush=True,
            )
    rng = np.random.default_rng(0)
    for share in (0.5, 0.1, 0.01):
        x = (rng.random(10 * n) < share).astype(float)
        window, start, rises = AdaptiveWindow(), 0, 0
        while (cut := window.add(x, x, start)) is not None:
            start, rises = cut.pos, rises + (cut.x_after > cut.x_before)
        total, alarms = total + len(x), alarms + rises
        print(f"  flags, {share:4.0%} of them 1: {rises} in {len(x):,}")
    print(f"{alarms / total * 1e6:.2f} per million ({alarms} in {total:,} examples)\n")


def compare_actions(period: int = 50_000) -> None:
    """Print the log-loss of a stream with two changes if rates decay, and if they start anew."""
    models = {
        "elastic net, lr=0.5": streaml1.ElasticNetClassifier(lr=0.5),
        "FTRL": streaml1.FTRLClassifier(),
        "FTRL, alpha=0.1": streaml1.FTRLClassifier(alpha=0.1),
        "AdaGrad, lr=0.1": streaml1.AdaptiveElasticNetClassifier(lr=0.1),
        "truncated gradient, lr=0.5": streaml1.TruncatedGradientClassifier(lr=0.5),
        "EG, radius=30": streaml1.EGClassifier(radius=30.0),
        "the default": streaml1.ElasticNetClassifier(),
    }
    n = 3 * period
    print(f"log-loss over {n:,} examples, labels change every {period:,}: log, reset-rates")
    for name, model in models.items():
        losses = []
        for action in ("log", "reset-rates"):
            source = f"data:drifting?period={period}&n={n}"
            report = streaml1.progressive(model.clone(), source, every=n, on_drift=action)
            losses.append(f"{report.lines[-1].loss:.3f}")
        print(f"  {name:28}{'  '.join(losses)}", flush=True)
    print()


def measure(call: Any, n: int, rounds: int = 7) -> float:
    """Return the shortest of several times of a call, in nanoseconds per example."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) / n * 1e9


def time_parts(n: int = 20 * BLOCK) -> None:
    """Print the time per example of learning, of the report, and of the alarms."""
    X, y = Drifting(n=n, change="none", nonzeros=80).matrix()
    p = np.asarray(streaml1.ElasticNetClassifier(lr=0.1).progressive_many(X, y))

    def add_all(detects: bool) -> None:
        report = Report("logistic", detects_drift=detects)
        for lo in range(0, n, BLOCK):
            report.add(p[lo : lo + BLOCK], y[lo : lo + BLOCK])

    add_all(True)
    alarms = measure(lambda: add_all(True), n) - measure(lambda: add_all(False), n)
    print(f"alarms {alarms:.1f} ns per example")
    for name, model in learners().items():
        model.progressive_many(X[:1000], y[:1000])
        learning = measure(lambda model=model: model.progressive_many(X, y), n, 3)
        print(f"  {name:22}{learning:8,.0f} ns to predict and learn: {alarms / learning:.2%}")
    numbers = np.square(p - y)
    print(f"river's ADWIN, one by one: {measure(lambda: river_alarms(numbers), n, 1):,.0f} ns")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stationary", type=int, default=100_000, metavar="N")
    options = parser.parse_args()
    if options.stationary < 1:
        parser.error(f"--stationary must be >= 1, got {options.stationary}")
    show_changes()
    count_false_alarms(options.stationary)
    compare_actions()
    time_parts()


if __name__ == "__main__":
    main()
