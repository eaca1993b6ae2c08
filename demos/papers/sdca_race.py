"""The race of SDCA and SGD in the talk of Shalev-Shwartz & Zhang (2013)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from grid import search
from scipy.sparse import csr_matrix

import streaml1
from streaml1.solvers import Solution, sdca

LONG = 6
ETA_0 = (1.0, 3.0, 10.0, 30.0, 100.0)  # the first step of tuned SGD
CHUNK = 100_000


class Trace(NamedTuple):
    """Objective, gap and seconds after each pass, starting with pass 0."""

    primal: Any
    gap: Any
    seconds: Any


class Task(NamedTuple):
    """Rows, labels, and the talk's lambda for them."""

    X: Any
    y: Any
    scale: float

    def strength(self, talk: float) -> float:
        """Return the talk's lambda, scaled to the same product with the number of rows."""
        return talk * self.scale


def primal_objective(loss: str, X: Any, y: Any, w: Any, l2: float, gamma: float = 1.0) -> float:
    z = 1.0 - np.where(y, 1.0, -1.0) * (X @ w)
    if loss == "hinge":
        phi = np.maximum(0.0, z)
    else:
        phi = np.where(z > gamma, z - 0.5 * gamma, np.maximum(0.0, z) ** 2 / (2.0 * gamma))
    return float(phi.mean() + 0.5 * l2 * (w @ w))


def to_trace(solution: Solution) -> Trace:
    columns = np.array(
        [(record.objective, record.gap, record.seconds) for record in solution.trace]
    ).T
    return Trace(*columns)


def run_sdca(X: Any, y: Any, loss: str, l2: float, passes: int, **options: Any) -> Trace:
    """Run SDCA with a record after each pass."""
    options = {"tol": 1e-12, **options}
    return to_trace(
        sdca(X, y, loss, l2=l2, max_epochs=passes, callback=lambda record, w: False, **options)
    )


class SGD(NamedTuple):
    """P after each pass of SGD: of the last weights, of their mean, and of a suffix mean."""

    last: Any
    mean: Any
    suffix: Any  # the mean over the second half of the steps so far


def run_sgd(task: Task, loss: str, l2: float, passes: int, eta_0: float = math.inf) -> SGD:
    """Run SGD with steps 1 / (lambda (t_0 + t)), where t_0 = 1 / (lambda eta_0).

    FoBoS with the step 1 / (lambda t) equals step t + 1 of Pegasos exactly. Examples of weight 0
    advance t to t_0.
    """
    n, d = task.X.shape
    t_0 = round(1.0 / (l2 * eta_0))
    models = [make_sgd(loss, l2, average) for average in (False, True)]
    for model in models:
        for first in range(0, t_0, CHUNK):
            rows = min(CHUNK, t_0 - first)
            model.learn_many(csr_matrix((rows, d)), np.zeros(rows, bool), 0.0)
    rng = np.random.default_rng(0)
    sums = [zeros(task)]
    objectives = [(primal_objective(loss, task.X, task.y, sums[0], l2),) * 3]
    for done in range(1, passes + 1):
        order = rng.permutation(n)
        for model in models:
            model.learn_many(task.X[order], task.y[order])
        last, mean = (dense(model, d) for model in models)
        sums.append(mean * (t_0 + done * n))
        half = done // 2
        suffix = (sums[done] - sums[half]) / ((done - half) * n)
        objectives.append(
            tuple(
                primal_objective(loss, task.X, task.y, w, l2)
                for w in (last, sums[done] / (done * n), suffix)
            )
        )
    return SGD(*np.array(objectives).T)


def make_sgd(loss: str, l2: float, average: bool) -> Any:
    if loss == "hinge":
        return streaml1.PegasosClassifier(l2=l2, project=False, intercept_lr=0.0, average=average)
    return streaml1.ElasticNetClassifier(
        l2=l2, lr=1.0 / l2, schedule="inverse", loss=loss, intercept_lr=0.0, average=average
    )


def dense(model: Any, d: int) -> Any:
    w, weights = np.zeros(d), model.weights
    w[list(weights)] = list(weights.values())
    return w


def zeros(task: Task) -> Any:
    return np.zeros(task.X.shape[1])


class Race(NamedTuple):
    """Excess of P over a lower bound of its optimum after each pass, for SDCA and SGD."""

    sdca: Any
    gap: Any
    sgd: SGD
    tuned: SGD
    excess: Any  # of SDCA's P over that of a long run
    rate: str = ""  # the tuned eta_0

    def rivals(self) -> dict[str, Any]:
        """Return the curves of SGD by name."""
        return {
            "SGD": self.sgd.last,
            "SGD, mean": self.sgd.mean,
            "SGD, suffix mean": self.sgd.suffix,
            "tuned SGD": self.tuned.last,
            "tuned SGD, suffix mean": self.tuned.suffix,
        }


def run_race(task: Task, loss: str, passes: int) -> Race:
    l2 = task.strength(1e-6)
    long = sdca(task.X, task.y, loss, l2=l2, tol=1e-6, max_epochs=LONG * passes)
    run = run_sdca(task.X, task.y, loss, l2, passes)
    bound = max(long.dual, float((run.primal - run.gap).max()))
    found = search(
        lambda eta_0: run_sgd(task, loss, l2, passes, eta_0),
        ETA_0,
        lambda sgd: float(sgd.last[max(1, passes // 3)]),
    )
    plain, tuned = (
        SGD(*(curve - bound for curve in curves))
        for curves in (run_sgd(task, loss, l2, passes), found.result)
    )
    rate = f"{found.value:g}{found.note}"
    return Race(run.primal - bound, run.gap, plain, tuned, run.primal - long.objective, rate)


def passes_to(values: Any, level: float) -> float:
    there = np.flatnonzero(np.asarray(values) <= level)
    return float(there[0]) if len(there) else math.inf


def pass_ahead(run_race: Race, rival: Any) -> float:
    """Return the pass from which on SDCA stays below a rival."""
    behind = np.flatnonzero(run_race.sdca >= rival)
    return float(behind[-1] + 1) if len(behind) else 0.0
