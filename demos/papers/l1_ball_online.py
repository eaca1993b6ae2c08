"""Figure 8 of the l1-ball paper: one pass over RCV1, the ball beside exponentiated gradient.

    python demos/papers/l1_ball_online.py [--quick] [--data FOLDER] [--out FOLDER]

Duchi, Shalev-Shwartz, Singer & Chandra (2008), Section 7: progressive log-loss of the topics CCAT
and ECAT, non-zero weights as a share of all features and of those seen, and errors. L1 steps are of
size eta_0 / sqrt(t), as in the paper; EG has the best of constant steps, 1 / sqrt(t) and 1 / t, and
of its own radii. Radius and eta_0 are the best of a grid, for the least cumulative loss; no
intercept. Then the time of a step with the projection by tree, linear search and sorting. The paper
has 804,414 documents of words and pairs (1,946,684 features); the sample here is of 27,613
documents of words alone (47,236), shuffled. Takes two minutes; made rows without the data.
"""

from __future__ import annotations

import runpy
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import Claim, look_in, options, save, show_claims, table
from l1_ball_rcv1 import ROWS, documents, made

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


class Pass(NamedTuple):
    """What a model is made of, and its loss and error on one pass."""

    make: Callable[[], Any]
    radius: float
    rate: str
    loss: float
    error: float
    n_nonzero: int = 0
    reached: bool = True  # whether the ball had anything to do: |w|_1 is the radius at the end


class Course(NamedTuple):
    """How a pass went: at so many rows, what the loss was in all, and the weights."""

    rows: Any
    loss: Any
    n_nonzero: Any
    n_seen: Any


def losses(p: Any, y: Any) -> Any:
    return -np.log(np.maximum(np.where(y, p, 1.0 - p), 1e-15))


def passed(make: Callable[[], Any], radius: float, rate: str, X: Any, y: Any) -> Pass:
    model = make()
    p = model.progressive_many(X, y)
    size = sum(map(abs, model.weights.values()))
    error = float(np.mean((p > 0.5) != y))
    loss = float(losses(p, y).mean())
    return Pass(make, radius, rate, loss, error, model.n_nonzero, size > 0.999 * radius)


def l1(radius: float, lr: float, index: str = "wheel") -> Any:
    return streaml1.L1BallClassifier(radius=radius, lr=lr, intercept_lr=0.0, index=index)


def eg(radius: float, lr: float, schedule: str, d: int) -> Any:
    return streaml1.EGClassifier(
        radius=radius, lr=lr, schedule=schedule, n_features=d, intercept_lr=0.0
    )


def search(X: Any, y: Any, thin: int) -> dict[str, list[Pass]]:
    """All passes of the grid; `thin` leaves out all but every so manieth of each list."""
    found: dict[str, list[Pass]] = {"L1": [], "EG": []}
    for radius in RADII[::thin]:
        for lr in L1_RATES[::thin]:
            make = lambda z=radius, lr=lr: l1(z, lr)  # noqa: E731
            found["L1"].append(passed(make, radius, f"{lr:g} invsqrt", X, y))
        for schedule, rates in EG_RATES.items():
            for lr in rates[::thin]:
                make = lambda z=radius, lr=lr, s=schedule: eg(z, lr, s, X.shape[1])  # noqa: E731
                found["EG"].append(passed(make, radius, f"{lr:g} {schedule}", X, y))
    return found


def course(make: Callable[[], Any], X: Any, y: Any, looks: int = 60) -> Course:
    """The pass again, with a look at the model from time to time."""
    model, total, taken = make(), 0.0, []
    for rows in np.array_split(np.arange(len(y)), looks):
        p = model.progressive_many(X[rows], y[rows])
        total += float(losses(p, y[rows]).sum())
        taken.append((rows[-1] + 1, total, model.n_nonzero, model.n_features_seen))
    return Course(*np.array(taken).T)


def steps(X: Any, y: Any, radius: float, few: int, rounds: int) -> tuple[dict[str, float], int]:
    """Microseconds a row of a step with each projection, and how many weights are not zero."""
    sizes = runpy.run_path(str(Path(__file__).parent.parent / "ball_sizes.py"))
    models = {"wheel": sizes["ball"]("wheel"), "tree": sizes["ball"]("tree")}
    for model in models.values():
        model.radius = radius
        model.learn_many(X, y)
    states = {name: sizes["eager"](models["wheel"], X.shape[1]) for name in sizes["EAGER"]}
    w = np.zeros(X.shape[1])
    seconds: dict[str, list[float]] = {}
    active = []
    for r in range(-1, rounds):  # the first compiles, and shows that all learn the same
        some = X[few * (r + 1) : few * (r + 2)]
        labels = y[few * (r + 1) : few * (r + 2)]
        rows = (some.indices.astype(np.int64), some.data, some.indptr.astype(np.int64))
        plain = (some.indices.astype(np.uint32), some.data, some.indptr.astype(np.uint64))
        took = {"no ball": sizes["timed"](sizes["plain"], w, *plain, labels.astype(float))}
        for name, model in models.items():
            took[name] = sizes["timed"](model.learn_many, some, labels)
        for name, learn in sizes["EAGER"].items():
            took[name] = sizes["timed"](learn, states[name], radius, *rows, labels.astype(float))
            if r < 0:
                sizes["require_equal"](models["wheel"], states[name], name)
        active.append(models["wheel"].n_nonzero)
        for name, one in took.items() if r >= 0 else ():
            seconds.setdefault(name, []).append(one / few * 1e6)
    return {name: float(np.median(one)) for name, one in seconds.items()}, int(np.mean(active))


class Topic(NamedTuple):
    """All that was measured of a topic."""

    best: dict[str, Pass]
    courses: dict[str, Course]  # both in L1's best ball
    by_radius: dict[str, dict[float, Pass]]
    hindsight: float
    base: float  # the error of always telling the more frequent label


def measured(X: Any, y: Any, thin: int) -> Topic:
    found = search(X, y, thin)
    inside = [one for one in found["L1"] if one.reached] or found["L1"]
    best = {
        kind: min(of, key=lambda p: p.loss) for kind, of in (("L1", inside), ("EG", found["EG"]))
    }
    by_radius = {
        kind: {
            z: min((p for p in passes if p.radius == z), key=lambda p: p.loss)
            for z in RADII[::thin]
        }
        for kind, passes in found.items()
    }
    z = best["L1"].radius
    courses = {kind: course(of[z].make, X, y) for kind, of in by_radius.items()}
    hindsight = fista(X, y, penalty="ball", radius=z, tol=1e-4, max_epochs=300).objective
    share = float(np.mean(y))
    return Topic(best, courses, by_radius, hindsight, min(share, 1.0 - share))


def claims(topics: dict[str, Topic], d: int, us: dict[str, float], active: int) -> list[Claim]:
    """What Section 7 says of Figure 8."""
    made = []
    for name, topic in topics.items():
        ours, rival = topic.best["L1"], topic.best["EG"]
        course = topic.courses["L1"]
        same = topic.by_radius["EG"][ours.radius]
        made.append(
            Claim(
                f"Figure 8, {name}",
                "L1 outperforms EG in cumulative log-loss (in the same ball)",
                f"a row, radius {ours.radius:g}: {ours.loss:.4f} against {same.loss:.4f}; EG's "
                f"own best radius, {rival.radius:g}: {rival.loss:.4f}",
                ours.loss < same.loss,
            )
        )
        reached = [(one, topic.by_radius["EG"][z]) for z, one in topic.by_radius["L1"].items()
                   if one.reached]  # fmt: skip
        ahead = sum(one.loss < other.loss for one, other in reached)
        made.append(
            Claim(
                f"Figure 8, {name}",
                "(the same in every ball of the grid that is reached)",
                f"in {ahead} of {len(reached)}",
                ahead == len(reached),
            )
        )
        paper = PAPER.get(name, ("less", "more"))
        made.append(
            Claim(
                f"Section 7, {name}",
                f"errors: L1 {paper[0]}, EG more than {paper[1]}",
                f"the ordering in the same ball: L1 {ours.error:.1%}, EG {same.error:.1%}; EG at "
                f"its own radius {rival.error:.1%}; the more frequent label {topic.base:.1%}",
                ours.error < same.error,
            )
        )
        of_all, of_seen = course.n_nonzero / d, course.n_nonzero / course.n_seen
        made.append(
            Claim(
                f"Figure 8 right, {name}",
                "L1 keeps about 5% of the features non-zero (here: between 2.5% and 10%)",
                f"at the end {of_all[-1]:.1%} of all, {of_seen[-1]:.1%} of those seen; "
                f"at most {of_all.max():.1%} of all",
                bool(0.025 <= of_all[-1] <= 0.1),
            )
        )
        eg_course = topic.courses["EG"]
        made.append(
            Claim(
                f"Figure 8, {name}",
                "EG updates have no sparsity whatsoever",
                f"{eg_course.n_nonzero[-1]:,.0f} of {eg_course.n_seen[-1]:,.0f} seen are not zero",
                bool(eg_course.n_nonzero[-1] == eg_course.n_seen[-1]),
            )
        )
        radii = topic.by_radius["L1"]
        made.append(
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
        return [*made, Claim("Section 7", says, "too few rows to time", None)]
    whole = us["linear"] / us["tree"]
    alone = (us["linear"] - us["no ball"]) / max(1e-9, us["tree"] - us["no ball"])
    made.append(
        Claim(
            "Section 7",
            says,
            f"{whole:.1f} times for a step, {alone:.1f} for what the ball adds to it; "
            f"{active:,} weights are not zero here, some 97,000 in the paper",
            alone >= 10.0,
        )
    )
    return made


def draw(topics: dict[str, Topic], d: int, title: str) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for k, (name, topic) in enumerate(topics.items()):
        for kind, style in (("L1", "-"), ("EG", "--")):
            at = topic.courses[kind]
            left.plot(at.rows, at.loss, style, color=f"C{k}", label=f"{kind} - {name}")
        at = topic.courses["L1"]
        right.plot(at.rows, 100 * at.n_nonzero / d, "-", color=f"C{k}", label=f"{name}, of all")
        seen = 100 * at.n_nonzero / at.n_seen
        right.plot(at.rows, seen, ":", color=f"C{k}", label=f"{name}, of those seen")
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
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="at most so many documents")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # the optimum is needed to three digits only
    look_in(given.data)
    thin = 3 if given.quick else 1
    found = None if given.quick else documents(TOPICS[0], given.rows)
    if found is None:
        X, y = made(2_000, 800)
        title, labels = "made rows", {"made": y}
    else:
        X, y = found
        other = documents(TOPICS[1], given.rows)
        assert other is not None
        title, labels = "RCV1, one pass", {TOPICS[0]: y, TOPICS[1]: other[1]}
    begin = time.perf_counter()
    topics = {name: measured(X, y, thin) for name, y in labels.items()}
    n, d = X.shape
    rows = []
    for name, topic in topics.items():
        for kind, one in topic.best.items():
            last = topic.courses[kind]
            regret = (one.loss - topic.hindsight) * n
            rows.append(
                (f"{name}, {kind}", f"{one.radius:g}", one.rate, f"{one.loss:.4f}",
                 f"{one.loss * n:,.0f}", f"{regret:,.0f}", f"{one.error:.1%}",
                 f"{last.n_nonzero[-1]:,.0f}", f"{last.n_nonzero[-1] / d:.1%}",
                 f"{last.n_nonzero[-1] / last.n_seen[-1]:.1%}")
            )  # fmt: skip
    table(
        f"{title}: {n:,} rows, {d:,} columns; searched in {time.perf_counter() - begin:.0f} s",
        ("", "radius", "eta_0", "log-loss", "in all", "regret in L1's ball", "error", "non-zeros",
         "of all", "of seen"),
        rows,
    )  # fmt: skip
    for name, topic in topics.items():
        table(
            f"{name}: the best rate in each ball",
            ("radius", "L1, log-loss", "EG", "L1, error", "EG", "L1, non-zeros", "reached"),
            [
                (f"{z:g}", f"{ours.loss:.4f}", f"{rival.loss:.4f}", f"{ours.error:.1%}",
                 f"{rival.error:.1%}", f"{ours.n_nonzero / d:.1%}", "yes" if ours.reached else "no")
                for z, ours in topic.by_radius["L1"].items()
                for rival in (topic.by_radius["EG"][z],)
            ],
        )  # fmt: skip
    us, active = {}, 0
    if not given.quick:  # it compiles for seconds
        z, few = next(iter(topics.values())).best["L1"].radius, min(n // 8, 2_000)
        us, active = steps(X, next(iter(labels.values())), z, few, 5)
        table(
            f"A step at radius {z:g}, {active:,} weights not zero, {X.nnz / n:.0f} non-zeros a row",
            ("projection", "us a row", "times the tree"),
            [(name, f"{one:.2f}", f"{one / us['tree']:.2f}") for name, one in us.items()],
        )
    show_claims("Figure 8", claims(topics, d, us, active))
    print(save(draw(topics, d, title), given.out, "l1-ball-online.png"))


if __name__ == "__main__":
    main()
