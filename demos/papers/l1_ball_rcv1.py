"""Figure 6 of the l1-ball paper: projected steps and exponentiated gradient on RCV1.

    python demos/papers/l1_ball_rcv1.py [--quick] [--data FOLDER] [--radius 300] [--out FOLDER]

Duchi, Shalev-Shwartz, Singer & Chandra (2008), Section 7: logistic regression of the topic CCAT in
an l1 ball, no intercept. On the left steps of all rows and of 25% of them, on the right of one row
and of 100. L1 steps are of size eta_0 / sqrt(t), as in the paper; EG has the best of constant
steps, 1 / sqrt(t) and 1 / t. Each method has the best of a grid of first steps, which the paper
does not give, nor its radius. Of one row the learners of streams are run, EG+- and the ball with
the paper's tree. The paper has 804,414 documents and 112,919 words; the sample here is of 27,613
documents and 47,236 words. Takes some minutes; without the data, made rows stand in for it.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import Claim, look_in, matrix, options, save, show_claims, table
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
    """Seconds of one thread, mean log-loss after so many passes, and the rate."""

    seconds: Any
    loss: Any
    rate: str
    n_nonzero: int

    def to(self, level: float) -> float:
        """Seconds to a loss, or infinity."""
        there = np.flatnonzero(self.loss <= level)
        return float(self.seconds[there[0]]) if len(there) else float("inf")


def made(n: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows like documents: few of many features, frequent and rare, of length 1."""
    rng = np.random.default_rng(seed)
    k = 30
    ids = np.minimum(np.exp(rng.random(k * n) * np.log(d)), d - 1.0).astype(np.int32)
    X = csr_matrix((rng.random(k * n) + 0.5, ids, k * np.arange(n + 1)), (n, d))
    X.sum_duplicates()
    X = csr_matrix(X.multiply(1.0 / np.sqrt(X.multiply(X).sum(axis=1))))
    true = rng.normal(size=d) * (rng.random(d) < 0.3) * 10.0
    return X, rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ true)))


def documents(topic: str, rows: int) -> tuple[Any, Any] | None:
    """Rows of RCV1 in a random order, which depends on their number alone; None without them."""
    found = matrix("RCV1", RCV1(topic))
    if found is None:
        return None
    order = np.random.default_rng(2008).permutation(len(found[1]))[:rows]
    return csr_matrix(found[0], dtype=np.float64)[order], np.asarray(found[1])[order]


def log_loss(X: Any, y: Any, w: Any) -> float:
    a = X @ w
    return float(np.logaddexp(0.0, np.where(y, -a, a)).mean())


def in_batches(
    X: Any, y: Any, radius: float, geometry: str, batch: Any, epochs: int, lr: float, step: str
) -> Curve:
    """The solver's steps, and a look at all rows after each pass, which is in the time too."""
    clock: list[float] = []

    def apply_penalty(record: Any, w: Any) -> None:
        clock.append(time.thread_time())

    run = projected_gradient(
        X, y, radius=radius, geometry=geometry, batch=batch, step=step, lr=lr,
        max_epochs=epochs, tol=1e-9, callback=apply_penalty,
    )  # fmt: skip
    seconds = np.array(clock) - clock[0]
    loss = np.array([one.objective for one in run.trace])
    return Curve(seconds, loss, f"{lr:g} {step}", int(np.count_nonzero(run.weights)))


def one_by_one(
    X: Any, y: Any, make: Callable[..., Any], epochs: int, lr: float, schedule: str
) -> Curve:
    """A learner of streams, timed as it learns; its loss on all rows from time to time."""
    make(lr, schedule).learn_many(X[:300], y[:300])  # compiles
    model = make(lr, schedule)
    seconds, loss, spent = [0.0], [float(np.log(2.0))], 0.0
    rng = np.random.default_rng(0)
    for _ in range(epochs):
        order = rng.permutation(len(y))
        for rows in np.array_split(order, 4):
            some, labels = X[rows], y[rows]
            begin = time.thread_time()
            model.learn_many(some, labels)
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


def best(run: Callable[..., Curve], epochs: int, tried: list[tuple[float, str]]) -> Curve:
    """The rate and schedule that are lowest after a third of the passes, run to the end."""
    third = max(1, epochs // 3)
    ends = [(float(run(third, lr, schedule).loss[-1]), lr, schedule) for lr, schedule in tried]
    _, lr, schedule = min(ends)
    return run(epochs, lr, schedule)


def measured(
    X: Any, y: Any, radius: float, epochs: dict[str, int], thin: int = 1
) -> dict[str, Curve]:
    """All eight lines of the figure, each at the best of its first steps, or of every third."""
    found = {}
    ours = [(lr, "invsqrt") for lr in L1_RATES[::thin]]
    rivals = [(lr, schedule) for schedule in SCHEDULES for lr in EG_RATES[::thin]]
    singly = [(lr, schedule) for schedule in SCHEDULES for lr in EG_ONE_RATES[::thin]]
    for name, batch in (("Full", "full"), ("Stoch", 0.25), ("100", 100)):
        for kind, geometry, tried in (("L1", "euclidean", ours), ("EG", "eg", rivals)):
            run = functools.partial(in_batches, X, y, radius, geometry, batch)
            found[f"{kind} - {name}"] = best(run, epochs[name], tried)
    of_tree = functools.partial(one_by_one, X, y, lambda *rate: ball(radius, *rate))
    of_eg = functools.partial(one_by_one, X, y, lambda *rate: eg(radius, X.shape[1], *rate))
    found["L1 - 1"] = best(of_tree, epochs["1"], ours)
    found["EG - 1"] = best(of_eg, epochs["1"], singly)
    return found


def a_row(X: Any, y: Any, radius: float, found: dict[str, Curve], rounds: int) -> dict[str, float]:
    """Microseconds a row of steps of one row, interleaved; the first round is not counted."""
    lr, schedule = found["L1 - 1"].rate.split()
    eg_lr, eg_schedule = found["EG - 1"].rate.split()
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
    return {name: float(np.median(one)) for name, one in times.items()}


def draw(found: dict[str, Curve], least: float, title: str) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained", sharey=True)
    for at, names in zip(axes, (("Full", "Stoch"), ("1", "100")), strict=True):
        for name in (f"{kind} - {size}" for size in names for kind in ("L1", "EG")):
            curve = found[name]
            above = np.maximum(curve.loss - least, 1e-5)
            at.semilogy(curve.seconds, above, STYLES[name], ms=3, lw=1.2, label=name)
        at.set(xlabel="seconds of one thread")
        at.legend(frameon=False)
        at.spines[["top", "right"]].set_visible(False)
    axes[0].set(ylabel="log-loss - least in the ball")
    axes[0].set_title(title, loc="left")
    axes[1].set_title("steps of one row, and of 100", loc="left")
    return figure


def claims(found: dict[str, Curve], least: float, us: dict[str, float]) -> list[Claim]:
    """What Section 7 says of Figure 6."""
    made = []
    for size, where in (("Full", "left"), ("Stoch", "left, 25%")):
        ours, rival = found[f"L1 - {size}"], found[f"EG - {size}"]
        level = float(rival.loss[-1])
        made.append(
            Claim(
                f"Figure 6, {where}",
                "L1 projections outperform EG, both in convergence speed and in log-loss",
                f"f - f* at the end {ours.loss[-1] - least:.2g} against {level - least:.2g}; "
                f"EG's end is met after {ours.to(level):.2g} s, by EG after {rival.to(level):.2g}",
                bool(ours.loss[-1] < level and ours.to(level) < rival.to(level)),
            )
        )
    for index, which in (("tree", "the paper's tree"), ("wheel", "this package's wheel")):
        made.append(
            Claim(
                "Figure 6, right",
                f"EG's updates take less time where the gradient is very sparse ({which})",
                f"us a row, one row a step: EG {us['EG']:.2f}, L1 {us['L1, ' + index]:.2f}",
                us["EG"] < us["L1, " + index],
            )
        )
    for size in ("1", "100"):
        ours, rival = found[f"L1 - {size}"], found[f"EG - {size}"]
        level = float(ours.loss[-1])
        made.append(
            Claim(
                f"Figure 6, right, {size}",
                "this advantage can be seen on the right side",
                f"L1's end, f - f* = {level - least:.2g}, is met by EG after "
                f"{rival.to(level):.2g} s, by L1 after {ours.to(level):.2g}; EG ends at "
                f"{rival.loss[-1] - least:.2g}",
                rival.to(level) < ours.to(level),
            )
        )
    return made


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--radius", type=float, default=RADIUS)
    parser.add_argument("--topic", default="CCAT")
    parser.add_argument("--rows", type=int, default=ROWS, help="at most so many documents")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # runs are ended early on purpose
    look_in(given.data)
    epochs = {"Full": 40, "Stoch": 15, "100": 3, "1": 3}
    found_rows = None if given.quick else documents(given.topic, given.rows)
    if found_rows is None:
        X, y = made(800, 400)
        title, radius, epochs = "made rows", 30.0, {"Full": 8, "Stoch": 4, "100": 2, "1": 2}
    else:
        (X, y), radius = found_rows, given.radius
        title = f"RCV1, {given.topic}: all rows, and 25%"
    least = fista(X, y, penalty="ball", radius=radius, tol=1e-7, max_epochs=500).objective
    found = measured(X, y, radius, epochs, 3 if given.quick else 1)
    us = a_row(X, y, radius, found, 2 if given.quick else 5)
    table(
        f"{title}; {X.shape[0]:,} x {X.shape[1]:,}, radius {radius:g}, f* = {least:.4f}",
        ("method", "passes", "best eta_0, schedule", "f - f* at the end", "seconds", "non-zeros"),
        [
            (name, epochs[name.split()[-1]], curve.rate, f"{curve.loss[-1] - least:.2g}",
             f"{curve.seconds[-1]:.2f}", f"{curve.n_nonzero:,}")
            for name, curve in found.items()
        ],
    )  # fmt: skip
    show_claims("Figure 6", claims(found, least, us))
    print(save(draw(found, least, title), given.out, "l1-ball-rcv1.png"))


if __name__ == "__main__":
    main()
