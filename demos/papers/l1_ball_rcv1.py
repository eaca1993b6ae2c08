"""Figure 6 of the l1-ball paper: projected gradient and exponentiated gradient on RCV1.

    python demos/papers/l1_ball_rcv1.py [--quick] [--data DIR] [--radius 300] [--out DIR]

Duchi, Shalev-Shwartz, Singer & Chandra (2008), Section 7: logistic regression of the topic CCAT in
an l1 ball, no intercept. The left panel has gradients of all rows and of 25% of them, the right
panel of one row and of 100. L1 steps have size eta_0 / sqrt(t), as in the paper; EG uses the best
of constant steps, 1 / sqrt(t) and 1 / t. The paper gives neither the radius nor eta_0; each method
uses the best eta_0 of a grid, which is extended until the best is inside. Steps of one row are made
by the online learners, EG+- and the ball with the paper's tree. The paper has 804,414 documents and
112,919 words; the sample here has 27,613 documents and 47,236 words. Takes some minutes. Uses
synthetic rows if the data is missing.
"""

from __future__ import annotations

import functools
import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import (
    Claim,
    argument_parser,
    first_reaching,
    load_matrix,
    print_claims,
    print_table,
    save_figure,
    set_data_directory,
)
from grid import search, thin
from scipy.sparse import csr_matrix

import streaml1
from streaml1.datasets import RCV1
from streaml1.solvers import fista, projected_gradient

RADIUS, ROWS = 300.0, 30_000
L1_RATES = (30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0)
EG_RATES = (10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0)
EG_ONE_RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SCHEDULES = ("constant", "invsqrt", "inverse")
STYLES = {
    "L1 - Full": "C0o-",
    "L1 - Stoch": "C1s-",
    "EG - Full": "C2^--",
    "EG - Stoch": "C3v--",
    "L1 - 1": "C0o-",
    "L1 - 100": "C1s-",
    "EG - 1": "C2^--",
    "EG - 100": "C3v--",
}


class Curve(NamedTuple):
    """CPU seconds and mean log-loss along a run, and its rate."""

    seconds: Any
    loss: Any
    rate: str
    n_nonzero: int

    def seconds_to(self, level: float) -> float:
        """Return the seconds until the loss is at most `level`, or infinity."""
        return first_reaching(self.seconds, self.loss, level)


def synthetic(n: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    """Draw rows like documents: few of many features, with Zipf frequencies, of unit length."""
    rng = np.random.default_rng(seed)
    k = 30
    ids = np.minimum(np.exp(rng.random(k * n) * np.log(d)), d - 1.0).astype(np.int32)
    X = csr_matrix((rng.random(k * n) + 0.5, ids, k * np.arange(n + 1)), (n, d))
    X.sum_duplicates()
    X = csr_matrix(X.multiply(1.0 / np.sqrt(X.multiply(X).sum(axis=1))))
    true = rng.normal(size=d) * (rng.random(d) < 0.3) * 10.0
    return X, rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ true)))


def load_documents(topic: str, rows: int) -> tuple[Any, Any] | None:
    """Return rows of RCV1 in a fixed random order; None if the data is missing."""
    curves = load_matrix("RCV1", RCV1(topic))
    if curves is None:
        return None
    order = np.random.default_rng(2008).permutation(len(curves[1]))[:rows]
    return csr_matrix(curves[0], dtype=np.float64)[order], np.asarray(curves[1])[order]


def log_loss(X: Any, y: Any, w: Any) -> float:
    a = X @ w
    return float(np.logaddexp(0.0, np.where(y, -a, a)).mean())


def run_batches(
    X: Any, y: Any, radius: float, geometry: str, batch: Any, epochs: int, lr: float, step: str
) -> Curve:
    """Run the batch solver; its time includes one evaluation of all rows per pass."""
    timestamps: list[float] = []

    def record_time(record: Any, w: Any) -> None:
        timestamps.append(time.thread_time())

    run = projected_gradient(
        X, y, radius=radius, geometry=geometry, batch=batch, step=step, lr=lr,
        max_epochs=epochs, tol=1e-9, callback=record_time,
    )  # fmt: skip
    seconds = np.array(timestamps) - timestamps[0]
    loss = np.array([record.objective for record in run.trace])
    return Curve(seconds, loss, f"{lr:g} {step}", int(np.count_nonzero(run.weights)))


def run_online(
    X: Any, y: Any, make: Callable[..., Any], epochs: int, lr: float, schedule: str
) -> Curve:
    """Time an online learner, and evaluate it on all rows four times per pass."""
    make(lr, schedule).learn_many(X[:300], y[:300])  # compile
    model = make(lr, schedule)
    seconds, loss, spent = [0.0], [float(np.log(2.0))], 0.0
    rng = np.random.default_rng(0)
    for _ in range(epochs):
        order = rng.permutation(len(y))
        for rows in np.array_split(order, 4):
            batch_X, labels = X[rows], y[rows]
            begin = time.thread_time()
            model.learn_many(batch_X, labels)
            spent += time.thread_time() - begin
            w = np.zeros(X.shape[1])
            weights = model.weights
            w[list(weights)] = list(weights.values())
            seconds.append(spent)
            loss.append(log_loss(X, y, w))
    return Curve(np.array(seconds), np.array(loss), f"{lr:g} {schedule}", model.n_nonzero)


def ball(radius: float, lr: float, schedule: str, index: str = "tree") -> Any:
    return streaml1.L1BallClassifier(
        radius=radius, index=index, lr=lr, schedule=schedule, intercept_lr=0.0
    )


def eg(radius: float, d: int, lr: float, schedule: str) -> Any:
    return streaml1.EGClassifier(
        radius=radius, n_features=d, lr=lr, schedule=schedule, intercept_lr=0.0
    )


def best_run(
    run: Callable[..., Curve], epochs: int, rates: list[float], schedules: tuple[str, ...]
) -> Curve:
    """Return a full run with the rate and schedule that are best after a third of the passes."""
    third = max(1, epochs // 3)
    found = {
        schedule: search(
            lambda lr, schedule=schedule: float(run(third, lr, schedule).loss[-1]),
            rates,
            lambda loss: loss,
        )
        for schedule in schedules
    }
    schedule = min(found, key=lambda name: found[name].result)
    curve = run(epochs, found[schedule].value, schedule)
    return curve._replace(rate=curve.rate + found[schedule].note)


def measure_all(
    X: Any, y: Any, radius: float, epochs: dict[str, int], stride: int = 1
) -> dict[str, Curve]:
    """Return the eight curves of the figure, each with its best rate among every `stride`-th."""
    curves = {}
    ours = thin(L1_RATES, stride), ("invsqrt",)
    rivals = thin(EG_RATES, stride), SCHEDULES
    singly = thin(EG_ONE_RATES, stride), SCHEDULES
    for name, batch in (("Full", "full"), ("Stoch", 0.25), ("100", 100)):
        for kind, geometry, grid in (("L1", "euclidean", ours), ("EG", "eg", rivals)):
            run = functools.partial(run_batches, X, y, radius, geometry, batch)
            curves[f"{kind} - {name}"] = best_run(run, epochs[name], *grid)
    of_tree = functools.partial(run_online, X, y, lambda *rate: ball(radius, *rate))
    of_eg = functools.partial(run_online, X, y, lambda *rate: eg(radius, X.shape[1], *rate))
    curves["L1 - 1"] = best_run(of_tree, epochs["1"], *ours)
    curves["EG - 1"] = best_run(of_eg, epochs["1"], *singly)
    return curves


def step_times(
    X: Any, y: Any, radius: float, curves: dict[str, Curve], rounds: int
) -> dict[str, float]:
    """Return the microseconds per row of single-row steps, interleaved, without the first round."""
    lr, schedule = curves["L1 - 1"].rate.split()[:2]
    eg_lr, eg_schedule = curves["EG - 1"].rate.split()[:2]
    models = {
        "EG": eg(radius, X.shape[1], float(eg_lr), eg_schedule),
        "L1, tree": ball(radius, float(lr), schedule),
        "L1, wheel": ball(radius, float(lr), schedule, "wheel"),
    }
    times: dict[str, list[float]] = {name: [] for name in models}
    for r in range(rounds + 1):
        for name, model in models.items():
            begin = time.thread_time()
            model.learn_many(X, y)
            if r > 0:
                times[name].append((time.thread_time() - begin) / len(y) * 1e6)
    return {name: float(np.median(rounds)) for name, rounds in times.items()}


def draw(curves: dict[str, Curve], optimum: float, title: str) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained", sharey=True)
    for axis, names in zip(axes, (("Full", "Stoch"), ("1", "100")), strict=True):
        for name in (f"{kind} - {size}" for size in names for kind in ("L1", "EG")):
            curve = curves[name]
            above = np.maximum(curve.loss - optimum, 1e-5)
            axis.semilogy(curve.seconds, above, STYLES[name], ms=3, lw=1.2, label=name)
        axis.set(xlabel="CPU seconds")
        axis.legend(frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set(ylabel="log-loss - minimum in the ball")
    axes[0].set_title(title, loc="left")
    axes[1].set_title("gradients of one row, and of 100", loc="left")
    return figure


def claims(curves: dict[str, Curve], optimum: float, us: dict[str, float]) -> list[Claim]:
    """Check the statements of Section 7 about Figure 6."""
    checked = []
    for size, where in (("Full", "left"), ("Stoch", "left, 25%")):
        ours, rival = curves[f"L1 - {size}"], curves[f"EG - {size}"]
        level = float(rival.loss[-1])
        checked.append(
            Claim(
                f"Figure 6, {where}",
                "L1 projections outperform EG, both in convergence speed and in log-loss",
                f"f - f* at the end {ours.loss[-1] - optimum:.2g} against {level - optimum:.2g}; "
                f"EG's final loss is reached after {ours.seconds_to(level):.2g} s, by EG after "
                f"{rival.seconds_to(level):.2g} s",
                bool(ours.loss[-1] < level and ours.seconds_to(level) < rival.seconds_to(level)),
            )
        )
    for index, which in (("tree", "the paper's tree"), ("wheel", "streaml1's timing wheel")):
        checked.append(
            Claim(
                "Figure 6, right",
                f"EG's updates take less time where the gradient is very sparse ({which})",
                f"us per row, one row per step: EG {us['EG']:.2f}, L1 {us['L1, ' + index]:.2f}",
                us["EG"] < us["L1, " + index],
            )
        )
    for size in ("1", "100"):
        ours, rival = curves[f"L1 - {size}"], curves[f"EG - {size}"]
        level = float(ours.loss[-1])
        checked.append(
            Claim(
                f"Figure 6, right, {size}",
                "this advantage can be seen on the right side",
                f"L1's final f - f* = {level - optimum:.2g} is reached by EG after "
                f"{rival.seconds_to(level):.2g} s, by L1 after {ours.seconds_to(level):.2g} s; EG "
                f"ends at {rival.loss[-1] - optimum:.2g}",
                rival.seconds_to(level) < ours.seconds_to(level),
            )
        )
    return checked


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--radius",
        type=float,
        help=f"radius of the l1 ball (default: {RADIUS:g}; synthetic rows: 30)",
    )
    parser.add_argument("--topic", default="CCAT", help="topic that is the label")
    parser.add_argument("--rows", type=int, default=ROWS, help="maximum number of documents")
    args = parser.parse_args()
    if args.radius is not None and not 0.0 < args.radius < math.inf:
        parser.error(f"--radius must be a finite number > 0, got {args.radius:g}")
    warnings.simplefilter("ignore")  # runs stop early on purpose
    set_data_directory(args.data)
    epochs = {"Full": 40, "Stoch": 15, "100": 3, "1": 3}
    found_rows = None if args.quick else load_documents(args.topic, args.rows)
    if found_rows is None:
        X, y = synthetic(800, 400)
        title, radius, epochs = "synthetic rows", 30.0, {"Full": 8, "Stoch": 4, "100": 2, "1": 2}
    else:
        (X, y), radius = found_rows, RADIUS
        title = f"RCV1, {args.topic}: all rows, and 25%"
    radius = radius if args.radius is None else args.radius
    optimum = fista(X, y, penalty="ball", radius=radius, tol=1e-7, max_epochs=500).objective
    curves = measure_all(X, y, radius, epochs, 3 if args.quick else 1)
    us = step_times(X, y, radius, curves, 2 if args.quick else 5)
    print_table(
        f"{title}; {X.shape[0]:,} x {X.shape[1]:,}, radius {radius:g}, f* = {optimum:.4f}",
        ("method", "passes", "best eta_0, schedule", "f - f* at the end", "seconds", "non-zeros"),
        [
            (name, epochs[name.split()[-1]], curve.rate, f"{curve.loss[-1] - optimum:.2g}",
             f"{curve.seconds[-1]:.2f}", f"{curve.n_nonzero:,}")
            for name, curve in curves.items()
        ],
    )  # fmt: skip
    print_claims("Figure 6", claims(curves, optimum, us))
    print(save_figure(draw(curves, optimum, title), args.out, "l1-ball-rcv1.png"))


if __name__ == "__main__":
    main()
