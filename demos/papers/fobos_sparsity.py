"""FOBOS with l1 beside the subgradient method: Figure 2 of Duchi & Singer (2009).

    python demos/papers/fobos_sparsity.py [--quick]

The paper's synthetic data, 1,000 x 400, and l1-regularised logistic regression by steps along the
full gradient, eta = c / sqrt(t), c the best of a grid for each method. The paper's third method,
an interior point method, is not here; `scd` and `fista` of streaml1.offline stand in its place
as specialised solvers. Beside the paper's runs there is one of ElasticNetClassifier, an example a
step. Writes out/fobos_sparsity.png and prints each claim of the text with what was measured. Takes
a minute.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np

import streaml1
from streaml1.offline import fista, scd

matplotlib.use("agg")
import matplotlib.pyplot as plt

M, N = 1000, 400
RATES = np.geomspace(0.03, 100.0, 15)
SHARES = (0.5, 0.25, 0.1, 0.05, 0.02)  # strengths, of the least that leaves no weight
SHARE = 0.05  # the one of the left panel
CLOSE, CLOSER = 1e-2, 1e-5  # as in the text, and as its specialised solver went on


class Run(NamedTuple):
    """A run: objective above the optimum and supports, a row a step."""

    rests: Any
    supports: Any


def data(seed: int) -> Any:
    """Examples times their labels."""
    random = np.random.default_rng(seed)
    w = random.normal(size=N) * random.permutation(np.arange(N) % 2)
    X = random.normal(size=(M, N))
    y = np.sign(X @ w)
    y[random.permutation(M)[: M // 10]] *= -1.0
    return X * y[:, None]


def empty(A: Any) -> float:
    """The least l1 that leaves no weight."""
    return 0.5 * float(np.abs(A.mean(axis=0)).max())


def objective(A: Any, w: Any, l1: float) -> float:
    """A sum, as the paper has it; l1 is that of the mean."""
    return float(np.logaddexp(0.0, -(A @ w)).sum() + M * l1 * np.abs(w).sum())


def fobos(w: Any, g: Any, eta: float, l1: float) -> Any:
    """Eq. (6)."""
    v = w - eta * g
    return np.sign(v) * np.maximum(np.abs(v) - eta * l1, 0.0)


def subgradient(w: Any, g: Any, eta: float, l1: float) -> Any:
    return w - eta * (g + l1 * np.sign(w))


METHODS = {"FOBOS": fobos, "subgradient": subgradient}


def run(A: Any, method: Any, c: float, l1: float, least: float, steps: int) -> Run:
    w, rests, supports = np.zeros(N), [], []
    for t in range(1, steps + 1):
        slopes = -0.5 * (1.0 - np.tanh(0.5 * (A @ w)))
        w = method(w, A.T @ slopes / M, c / t**0.5, l1)
        rests.append(objective(A, w, l1) - least)
        supports.append(w != 0.0)
    return Run(np.array(rests), np.array(supports))


def when(passes: Any, rests: Any, level: float = CLOSE) -> float:
    """The first pass after which no more than that is left; inf if there is none."""
    below = np.flatnonzero(rests <= level)
    return float(passes[below[0]]) if len(below) else np.inf


def fastest(A: Any, method: Any, l1: float, least: float, steps: int) -> float:
    """The c with which a method is soonest close to the optimum, then nearest to it."""
    passes = np.arange(1, steps + 1)
    tried = []
    for c in RATES.tolist():
        rests = run(A, method, c, l1, least, steps).rests
        tried.append((when(passes, rests), rests.min(), c))
    return float(min(tried)[2])


def solver(solve: Any, A: Any, l1: float, least: float) -> tuple[Any, Any]:
    """Passes over the matrix and what is left, of a solver of streaml1.offline."""
    trace = solve(A, np.ones(M), loss="logistic", l1=l1, tol=1e-11).trace
    passes = np.array([record.accesses for record in trace]) / A.size
    return passes, M * np.array([record.objective for record in trace]) - least


def learner(A: Any, l1: float, passes: int) -> Any:
    """Which weights ElasticNetClassifier has after each pass, one example a step."""
    model = streaml1.ElasticNetClassifier(l1=l1, lr=0.1, intercept_lr=0.0)
    random, supports = np.random.default_rng(1), np.zeros((passes, N), bool)
    for support in supports:
        model.learn_many(A[random.permutation(M)], np.ones(M, bool))
        support[list(model.weights)] = True
    return supports


def overlap(one: Any, other: Any) -> float:
    """Features in both supports over those in either."""
    return float(np.sum(one & other) / max(1, np.sum(one | other)))


def say(claims: list[tuple[str, str, bool]]) -> None:
    """Print each claim, what was measured, and whether it holds here."""
    print()
    for claim, measured, holds in claims:
        print(f"claim     {claim}\nmeasured  {measured}\n{'holds' if holds else 'DOES NOT HOLD'}\n")


def draw(left: dict[str, tuple[Any, Any]], right: dict[float, Run], stream: Any) -> Path:
    figure, (one, two) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for name, (passes, rests) in left.items():
        dashes = ":" if name in ("scd", "fista") else "-"
        one.plot(passes, np.maximum(rests, 1e-9), dashes, label=name)
    one.axhline(CLOSE, color="0.7", lw=1)
    one.set(yscale="log", xlabel="passes over the rows", ylabel="objective above the optimum")
    one.set(xlim=(0, 110), ylim=(1e-4, 1e3))
    one.legend(frameon=False)
    for k, (share, path) in enumerate(right.items()):
        two.plot(path.supports.mean(axis=1), f"C{k}", label=f"{share:g}")
    two.plot(stream.mean(axis=1), "k:", lw=1, label=f"{SHARE:g}, a step an example")
    two.set(xlabel="passes over the rows", ylabel="share of weights that are not 0", xlim=(0, 110))
    two.set_title("strengths, of the least that leaves no weight", loc="left", fontsize="medium")
    two.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for place in (one, two):
        place.spines[["top", "right"]].set_visible(False)
    out = Path("out")
    out.mkdir(exist_ok=True)
    figure.savefig(out / "fobos_sparsity.png", dpi=100)
    return out / "fobos_sparsity.png"


def compared(A: Any, steps: int) -> tuple[dict[str, tuple[Any, Any]], dict[str, Run], list[float]]:
    """On one data set: passes and what is left, of all methods; their runs; the rates chosen."""
    l1 = SHARE * empty(A)
    least = fista(A, np.ones(M), loss="logistic", l1=l1, tol=1e-12).objective * M
    curves: dict[str, tuple[Any, Any]] = {}
    runs, rates = {}, []
    for name, method in METHODS.items():
        c = fastest(A, method, l1, least, min(steps, 200))
        runs[name] = run(A, method, c, l1, least, steps)
        curves[name] = np.arange(1, steps + 1), runs[name].rests
        rates.append(c)
    curves["scd"] = solver(scd, A, l1, least)
    curves["fista"] = solver(fista, A, l1, least)
    return curves, runs, rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1 data set and 110 steps, not 2,000")
    quick = parser.parse_args().quick
    steps = 110 if quick else 2000
    sets = [data(seed) for seed in range(1 if quick else 5)]
    A = sets[0]
    every = [compared(one, steps) for one in sets]
    curves, runs, rates = every[0]
    print(f"{M:,} x {N}; l1 = {SHARE} of the least that leaves no weight; passes over the rows\n"
          "until the objective, a sum over the rows as in the paper, is so near the optimum\n")  # fmt: skip
    print(f"{'':12}{'c':>7}{'until 1e-2':>12}{'until 1e-5':>12}{'left at last':>14}")
    for (name, curve), c in zip(curves.items(), [*rates, np.nan, np.nan], strict=True):
        shown = "" if np.isnan(c) else f"{c:.2f}"
        print(f"{name:12}{shown:>7}{when(*curve):12.0f}{when(*curve, CLOSER):12.0f}"
              f"{curve[1][-1]:14.1e}")  # fmt: skip

    print("\nFOBOS, one c for all strengths: share of weights that are not 0, after steps\n"
          f"{'strength':>9}{10:>7}{30:>7}{100:>7}{'optimum':>9}{'same at 30, 100':>17}")  # fmt: skip
    paths, early, late, moved = {}, [], [], []
    chosen = np.zeros(N, bool)
    for share in SHARES:
        l1 = share * empty(A)
        best = fista(A, np.ones(M), loss="logistic", l1=l1, tol=1e-7)
        paths[share] = run(A, fobos, rates[0], l1, M * best.objective, 110)
        sizes = paths[share].supports.mean(axis=1)
        final = best.weights != 0.0
        chosen = final if share == SHARE else chosen
        alike = [overlap(paths[share].supports[t - 1], final) for t in (30, 100)]
        print(f"{share:9g}" + "".join(f"{sizes[t - 1]:7.1%}" for t in (10, 30, 100))
              + f"{final.mean():9.1%}{alike[0]:10.0%}{alike[1]:7.0%}")  # fmt: skip
        early.append(alike[0])
        late.append(alike[1])
        moved.append(float(np.abs(sizes[29:] - final.mean()).max()))
    stream = learner(A, SHARE * empty(A), 110)
    print("(same: features in the run's support and the optimum's over those in either)")

    def median(name: str, level: float = CLOSE) -> float:
        return float(np.median([when(*told[0][name], level) for told in every]))

    ratio = median("subgradient") / median("FOBOS")
    nearest = float(np.median([told[0]["subgradient"][1].min() for told in every]))
    zeros = max(int((~told[1]["subgradient"].supports).sum(axis=1).max()) for told in every)
    rivals = {name: median(name, CLOSER) for name in ("FOBOS", "scd", "fista")}
    batch, online = (overlap(kept[-1], chosen) for kept in (paths[SHARE].supports, stream))
    say([
        ("the standard subgradient method is clearly much slower than the other two",
         f"passes until {CLOSE}, median of {len(sets)} data sets: FOBOS {median('FOBOS'):.0f}, "
         f"subgradient {median('subgradient'):.0f} (nearest in {steps:,}: {nearest:.1e})",
         ratio >= 2.0),
        ("the subgradient method does not achieve any sparsity along its entire run",
         f"weights that were 0 after any step: {zeros} at most, of {N}", zeros == 0),
        (f"FOBOS works very well to get to within {CLOSE} of the optimal value",
         f"passes, the median: {median('FOBOS'):.0f}; specialised solvers: scd "
         f"{median('scd'):.0f}, fista {median('fista'):.0f} (no more than twice theirs: very well)",
         median("FOBOS") <= 2.0 * max(median("scd"), median("fista"))),
        ("the specialised method's faster convergence causes it to surpass FOBOS",
         f"passes until {CLOSER:.0e}: " + ", ".join(f"{k} {at:.0f}" for k, at in rivals.items())
         + f" (inf: not in {steps:,}; not the paper's solver)",
         max(rivals["scd"], rivals["fista"]) < rivals["FOBOS"]),
        ("FOBOS quickly selects the sparsity pattern of the optimum",
         f"same features after 30 steps: {min(early):.0%} to {max(early):.0%} over the strengths, "
         f"after 100 {min(late):.0%} to {max(late):.0%} (at 30 at least 90%: quickly)",
         min(early) >= 0.9),
        ("the level of sparsity persists throughout its execution",
         f"share of weights from step 30 on: at most {max(moved):.1%} off the optimum's "
         "(within 5%: persists)", max(moved) <= 0.05),
        ("this is common to non-stochastic versions",
         f"same features as the optimum after 110 passes: {batch:.0%} with full gradients, "
         f"{online:.0%} with a step an example (ElasticNetClassifier)", batch > online),
    ])  # fmt: skip
    print(draw(curves, paths, stream))


if __name__ == "__main__":
    main()
