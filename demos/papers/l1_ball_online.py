"""Figure 8 of the l1-ball paper: one pass over RCV1, l1 ball and exponentiated gradient.

    python demos/papers/l1_ball_online.py [--quick] [--data DIR] [--out DIR]

Duchi, Shalev-Shwartz, Singer & Chandra (2008), Section 7: progressive log-loss of the topics CCAT
and ECAT, non-zero weights as a share of all features and of those seen, and errors. L1 steps have
size eta_0 / sqrt(t), as in the paper; EG uses the best of constant steps, 1 / sqrt(t) and 1 / t.
For each method, a grid search for the least cumulative loss sets the radius and eta_0; a grid whose
best value is on its edge is extended. The models have no intercept. The demo also measures the time
of a step with the projection by tree, linear search and sorting. The paper has 804,414 documents of
words and word pairs (1,946,684 features); the sample here has 27,613 documents of words only
(47,236), shuffled. Takes a minute. Uses synthetic rows if the data is missing.
"""

from __future__ import annotations

import functools
import runpy
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import (
    Claim,
    argument_parser,
    print_claims,
    print_table,
    save_figure,
    set_data_directory,
)
from grid import Found, search, thin
from l1_ball_rcv1 import ROWS, load_documents, synthetic

import streaml1
from streaml1.solvers import fista

TOPICS = ("CCAT", "ECAT")
PAPER = {"CCAT": ("11.9%", "15%"), "ECAT": ("14.9%", "20%")}
RADII = (100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, 30_000.0)
L1_RATES = (3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0)
EG_RATES = {
    "constant": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
    "invsqrt": (1.0, 3.0, 10.0, 30.0, 100.0),
    "inverse": (10.0, 100.0, 1_000.0),
}


FREE = "EG at its best radius"


class PassResult(NamedTuple):
    """A model's constructor and rate, and its loss and error on one pass."""

    make: Callable[[], Any]
    radius: float
    rate: str
    loss: float
    error: float
    n_nonzero: int = 0
    reached: bool = True  # whether the constraint is active: |w|_1 is the radius at the end


class History(NamedTuple):
    """Cumulative loss, non-zero weights and seen features, by the number of rows."""

    rows: Any
    loss: Any
    n_nonzero: Any
    n_seen: Any


def losses(p: Any, y: Any) -> Any:
    return -np.log(np.maximum(np.where(y, p, 1.0 - p), 1e-15))


def run_pass(make: Callable[[], Any], radius: float, rate: str, X: Any, y: Any) -> PassResult:
    model = make()
    p = model.progressive_many(X, y)
    size = sum(map(abs, model.weights.values()))
    error = float(np.mean((p > 0.5) != y))
    loss = float(losses(p, y).mean())
    return PassResult(make, radius, rate, loss, error, model.n_nonzero, size > 0.999 * radius)


def l1(radius: float, lr: float, index: str = "wheel") -> Any:
    return streaml1.L1BallClassifier(radius=radius, lr=lr, intercept_lr=0.0, index=index)


def eg(radius: float, lr: float, schedule: str, d: int) -> Any:
    return streaml1.EGClassifier(
        radius=radius, lr=lr, schedule=schedule, n_features=d, intercept_lr=0.0
    )


def least_loss(result: PassResult) -> float:
    return result.loss


def with_note(found: Found) -> PassResult:
    """Return the best pass of a grid of rates, with a remark if the rate is on the edge."""
    best: PassResult = found.result
    return best._replace(rate=best.rate + found.note)


def best_l1(X: Any, y: Any, radius: float, stride: int) -> PassResult:
    def run(lr: float) -> PassResult:
        return run_pass(lambda: l1(radius, lr), radius, f"{lr:g} invsqrt", X, y)

    return with_note(search(run, thin(L1_RATES, stride), least_loss))


def best_eg(X: Any, y: Any, radius: float, stride: int) -> PassResult:
    """Return the best pass over the rates of all schedules."""
    found = []
    for schedule, rates in EG_RATES.items():

        def run(lr: float, schedule: str = schedule) -> PassResult:
            make = functools.partial(eg, radius, lr, schedule, X.shape[1])
            return run_pass(make, radius, f"{lr:g} {schedule}", X, y)

        found.append(with_note(search(run, thin(rates, stride), least_loss)))
    return min(found, key=least_loss)


def search_radii(X: Any, y: Any, stride: int) -> dict[str, dict[float, PassResult]]:
    """Return the best pass of each method at each radius.

    The radii are extended until the best of either method is inside. L1 is the same at all radii
    that it never reaches, of which the smallest counts.
    """

    @functools.cache
    def run(radius: float) -> dict[str, PassResult]:
        return {"L1": best_l1(X, y, radius, stride), "EG": best_eg(X, y, radius, stride)}

    radii: dict[float, Any] = dict.fromkeys(thin(RADII, stride))
    for kind in ("EG", "L1"):
        radii = search(
            run, list(radii), lambda both, kind=kind: both[kind].loss, name=f"radius of {kind}"
        ).tried
    return {kind: {z: both[kind] for z, both in radii.items()} for kind in ("L1", "EG")}


def record_history(make: Callable[[], Any], X: Any, y: Any, n_records: int = 60) -> History:
    """Repeat a pass and record the model at intervals."""
    model, total, records = make(), 0.0, []
    for rows in np.array_split(np.arange(len(y)), n_records):
        p = model.progressive_many(X[rows], y[rows])
        total += float(losses(p, y[rows]).sum())
        records.append((rows[-1] + 1, total, model.n_nonzero, model.n_features_seen))
    return History(*np.array(records).T)


def step_times(X: Any, y: Any, radius: float, n: int, rounds: int) -> tuple[dict[str, float], int]:
    """Return the microseconds per row of a step with each projection, and the non-zero weights."""
    demo = runpy.run_path(str(Path(__file__).parent.parent / "ball_sizes.py"))
    thread_seconds, eager_methods = demo["thread_seconds"], demo["EAGER_METHODS"]
    models = {"wheel": demo["ball"]("wheel"), "tree": demo["ball"]("tree")}
    for model in models.values():
        model.radius = radius
        model.learn_many(X, y)
    states = {name: demo["eager_weights"](models["wheel"], X.shape[1]) for name in eager_methods}
    w = np.zeros(X.shape[1])
    seconds: dict[str, list[float]] = {}
    active = []
    for r in range(-1, rounds):  # the first round compiles and checks that all weights are equal
        block = X[n * (r + 1) : n * (r + 2)]
        labels = y[n * (r + 1) : n * (r + 2)]
        target = labels.astype(float)
        rows = (block.indices.astype(np.int64), block.data, block.indptr.astype(np.int64))
        unsigned = (block.indices.astype(np.uint32), block.data, block.indptr.astype(np.uint64))
        times = {"no ball": thread_seconds(demo["sgd_without_ball"], w, *unsigned, target)}
        for name, model in models.items():
            times[name] = thread_seconds(model.learn_many, block, labels)
        for name, learn in eager_methods.items():
            times[name] = thread_seconds(learn, states[name], radius, *rows, target)
            if r < 0:
                demo["require_equal_weights"](models["wheel"], states[name], name)
        active.append(models["wheel"].n_nonzero)
        for name, block_seconds in times.items() if r >= 0 else ():
            seconds.setdefault(name, []).append(block_seconds / n * 1e6)
    us = {name: float(np.median(rounds)) for name, rounds in seconds.items()}
    return us, int(np.mean(active))


class Topic(NamedTuple):
    """The measurements of a topic."""

    best: dict[str, PassResult]
    histories: dict[str, History]  # both at L1's best radius, and EG at its own
    by_radius: dict[str, dict[float, PassResult]]
    hindsight: float
    base: float  # the error of always predicting the more frequent label


def measure(X: Any, y: Any, stride: int) -> Topic:
    by_radius = search_radii(X, y, stride)
    inside = [result for result in by_radius["L1"].values() if result.reached]
    best = {
        "L1": min(inside or by_radius["L1"].values(), key=least_loss),
        "EG": min(by_radius["EG"].values(), key=least_loss),
    }
    z = best["L1"].radius
    histories = {kind: record_history(passes[z].make, X, y) for kind, passes in by_radius.items()}
    histories[FREE] = record_history(best["EG"].make, X, y)
    hindsight = fista(X, y, penalty="ball", radius=z, tol=1e-4, max_epochs=300).objective
    share = float(np.mean(y))
    return Topic(best, histories, by_radius, hindsight, min(share, 1.0 - share))


def claims(topics: dict[str, Topic], d: int, us: dict[str, float], active: int) -> list[Claim]:
    """Check the statements of Section 7 about Figure 8."""
    checked = []
    for name, topic in topics.items():
        ours, rival = topic.best["L1"], topic.best["EG"]
        history = topic.histories["L1"]
        same = topic.by_radius["EG"][ours.radius]
        checked.append(
            Claim(
                f"Figure 8, {name}",
                "L1 outperforms EG in cumulative log-loss (in the same ball)",
                f"per row, radius {ours.radius:g}: {ours.loss:.4f} against {same.loss:.4f}; EG at "
                f"its best radius, {rival.radius:g}: {rival.loss:.4f}",
                ours.loss < same.loss,
            )
        )
        free = min(topic.by_radius["L1"].values(), key=least_loss)
        checked.append(
            Claim(
                f"Figure 8, {name}",
                "(the same, each at its best radius, L1's active or not)",
                f"per row: L1 {free.loss:.4f} at {free.radius:g}, EG {rival.loss:.4f} at "
                f"{rival.radius:g}; errors {free.error:.2%} and {rival.error:.2%}",
                free.loss < rival.loss,
            )
        )
        reached = [(l1, topic.by_radius["EG"][z]) for z, l1 in topic.by_radius["L1"].items()
                   if l1.reached]  # fmt: skip
        ahead = sum(l1.loss < eg.loss for l1, eg in reached)
        checked.append(
            Claim(
                f"Figure 8, {name}",
                "(the same at every radius of the grid whose constraint is active)",
                f"in {ahead} of {len(reached)}",
                ahead == len(reached),
            )
        )
        paper = PAPER.get(name, ("less", "more"))
        checked.append(
            Claim(
                f"Section 7, {name}",
                f"errors: L1 {paper[0]}, EG more than {paper[1]}",
                f"the order at the same radius: L1 {ours.error:.1%}, EG {same.error:.1%}; EG at "
                f"its best radius {rival.error:.1%}; baseline {topic.base:.1%}",
                ours.error < same.error,
            )
        )
        of_all, of_seen = history.n_nonzero / d, history.n_nonzero / history.n_seen
        checked.append(
            Claim(
                f"Figure 8 right, {name}",
                "L1 keeps about 5% of the features non-zero (here: between 2.5% and 10%)",
                f"at the end {of_all[-1]:.1%} of all, {of_seen[-1]:.1%} of those seen; "
                f"at most {of_all.max():.1%} of all",
                bool(0.025 <= of_all[-1] <= 0.1),
            )
        )
        eg_history = topic.histories["EG"]
        checked.append(
            Claim(
                f"Figure 8, {name}",
                "EG updates have no sparsity whatsoever",
                f"{eg_history.n_nonzero[-1]:,.0f} of {eg_history.n_seen[-1]:,.0f} seen features "
                "are non-zero",
                bool(eg_history.n_nonzero[-1] == eg_history.n_seen[-1]),
            )
        )
        radii = topic.by_radius["L1"]
        checked.append(
            Claim(
                f"Section 7, {name}",
                "there is a bound that gives the best online regret (the paper's is 100)",
                ", ".join(
                    f"{z:g}: {p.loss:.4f}{'' if p.reached else ' (never reached)'}"
                    for z, p in radii.items()
                ),
                min(radii.values(), key=lambda p: p.loss).reached,
            )
        )
    says = "the linear search takes 15 times as long as the tree (here: at least ten)"
    if not us:
        return [*checked, Claim("Section 7", says, "too few rows to time", None)]
    step_ratio = us["linear"] / us["tree"]
    ball_ratio = (us["linear"] - us["no ball"]) / max(1e-9, us["tree"] - us["no ball"])
    checked.append(
        Claim(
            "Section 7",
            says,
            f"{step_ratio:.1f} times for a step, {ball_ratio:.1f} for the projection alone; "
            f"{active:,} non-zero weights here, about 97,000 in the paper",
            ball_ratio >= 10.0,
        )
    )
    return checked


def draw(topics: dict[str, Topic], d: int, title: str) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for k, (name, topic) in enumerate(topics.items()):
        for kind, style in (("L1", "-"), ("EG", "--"), (FREE, ":")):
            history = topic.histories[kind]
            left.plot(history.rows, history.loss, style, color=f"C{k}", label=f"{kind} - {name}")
        history = topic.histories["L1"]
        of_all, of_seen = 100 * history.n_nonzero / d, 100 * history.n_nonzero / history.n_seen
        right.plot(history.rows, of_all, "-", color=f"C{k}", label=f"{name}, of all")
        right.plot(history.rows, of_seen, ":", color=f"C{k}", label=f"{name}, of those seen")
    left.set(xlabel="rows", ylabel="cumulative log-loss")
    right.set(xlabel="rows", ylabel="non-zero weights of L1, %")
    right.set(ylim=(0.0, None))
    z = max(topic.best["L1"].radius for topic in topics.values())
    left.set_title(f"{title}, radius {z:g}", loc="left")
    for axes in (left, right):
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="maximum number of documents")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # three digits of the optimum suffice
    set_data_directory(args.data)
    stride = 3 if args.quick else 1
    data = None if args.quick else load_documents(TOPICS[0], args.rows)
    if data is None:
        X, y = synthetic(2_000, 800)
        title, labels = "synthetic rows", {"synthetic": y}
    else:
        X, y = data
        second = load_documents(TOPICS[1], args.rows)
        assert second is not None
        title, labels = "RCV1, one pass", {TOPICS[0]: y, TOPICS[1]: second[1]}
    begin = time.perf_counter()
    topics = {name: measure(X, y, stride) for name, y in labels.items()}
    n, d = X.shape
    rows = []
    for name, topic in topics.items():
        for kind, best in topic.best.items():
            history = topic.histories[kind]
            regret = (best.loss - topic.hindsight) * n
            rows.append(
                (f"{name}, {kind}", f"{best.radius:g}", best.rate, f"{best.loss:.4f}",
                 f"{best.loss * n:,.0f}", f"{regret:,.0f}", f"{best.error:.1%}",
                 f"{history.n_nonzero[-1]:,.0f}", f"{history.n_nonzero[-1] / d:.1%}",
                 f"{history.n_nonzero[-1] / history.n_seen[-1]:.1%}")
            )  # fmt: skip
    print_table(
        f"{title}: {n:,} rows, {d:,} columns; grid search of {time.perf_counter() - begin:.0f} s",
        ("", "radius", "eta_0", "log-loss", "total", "regret in L1's ball", "error", "non-zeros",
         "of all", "of seen"),
        rows,
    )  # fmt: skip
    for name, topic in topics.items():
        print_table(
            f"{name}: the best rate at each radius",
            ("radius", "L1, log-loss", "EG", "L1, error", "EG", "L1, non-zeros", "active"),
            [
                (f"{z:g}", f"{ours.loss:.4f}", f"{rival.loss:.4f}", f"{ours.error:.1%}",
                 f"{rival.error:.1%}", f"{ours.n_nonzero / d:.1%}", "yes" if ours.reached else "no")
                for z, ours in topic.by_radius["L1"].items()
                for rival in (topic.by_radius["EG"][z],)
            ],
        )  # fmt: skip
    us, active = {}, 0
    if not args.quick:  # compilation takes seconds
        z = next(iter(topics.values())).best["L1"].radius
        us, active = step_times(X, next(iter(labels.values())), z, min(n // 8, 2_000), 5)
        print_table(
            f"A step at radius {z:g}, {active:,} non-zero weights, {X.nnz / n:.0f} per row",
            ("projection", "us/row", "x tree"),
            [(name, f"{row:.2f}", f"{row / us['tree']:.2f}") for name, row in us.items()],
        )
    print_claims("Figure 8", claims(topics, d, us, active))
    print(save_figure(draw(topics, d, title), args.out, "l1-ball-online.png"))


if __name__ == "__main__":
    main()
