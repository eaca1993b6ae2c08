"""The run-time tables of the talk on dual coordinate ascent, as measured powers.

    python demos/papers/sdca_run_times.py [--quick] [--out DIR]

Shalev-Shwartz & Zhang (2013). The slides "How to parallelize?" give the run time and communication
of an iteration and in total, at lambda n = 1, for SDCA, its accelerated mini-batches of m rows
(ASDCA) and accelerated gradient descent (AGD, here `fista`), by the numbers of examples n, of
features d and of machines s. The slide "l1 regularization" gives the run time to an accuracy
epsilon with l1 strength sigma. All are bounds without constants: a demo can check their powers.
Here a run is repeated as one of n, d, m, epsilon or sigma changes, and the power is the slope of
the entries read, or numbers exchanged, in logarithms. A power at most the slide's agrees with a
bound. Dense synthetic rows of unit length. The factors of s are arithmetic, with one machine: a
machine reads its columns or its rows of the same iterations. Takes a minute or two; needs no data.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from common import Claim, argument_parser, print_claims, print_table, save_figure
from grid import search

import streaml1
from streaml1.solvers import Solution, accelerated_sdca, fista, prox_sdca, scd, sdca

GAP, SIGMA = 1e-3, 0.005
SLACK = 0.15  # of a measured power above the slide's


class Size(NamedTuple):
    """Numbers of examples and features, and rows of a mini-batch."""

    n: int
    d: int
    m: int


class Total(NamedTuple):
    """Iterations to the gap, and entries read by them."""

    iterations: float
    reads: float


# Powers of n, d and m in the table "Total runtime": of the run time, and of the communication.
TOTALS = {
    "SDCA, features": ((1.0, 1.0, 0.0), (1.0, 0.0, 0.0)),
    "ASDCA, features": ((1.0, 1.0, 0.5), (1.0, 0.0, 0.5)),
    "ASDCA, examples": ((1.0, 1.0, 0.5), (1.0, 1.0, -0.5)),
    "AGD, examples": ((1.5, 1.0, 0.0), (0.5, 1.0, 0.0)),
}
# Powers of n, d and m in the table "Runtime per iteration", run time alone.
ITERATIONS = {"SDCA": (0.0, 1.0, 0.0), "ASDCA": (0.0, 1.0, 1.0), "AGD": (1.0, 1.0, 0.0)}
# Powers of 1/epsilon and 1/sigma in the table of l1 regularization.
L1_POWERS = {"SDCA": (1.0, 2.0), "SGD": (2.0, 2.0), "FISTA": (0.5, 1.0), "SCD": (1.0, 2.0)}


def make_rows(n: int, d: int) -> tuple[Any, Any]:
    """Draw rows of unit length with decaying columns, and labels of a noisy linear model."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d)) / np.sqrt(1.0 + np.arange(d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0.0


@functools.cache
def measure_total(size: Size) -> dict[str, Total]:
    """Return the iterations of each algorithm to the gap at lambda = 1/n, and their reads."""
    X, y = make_rows(size.n, size.d)
    problem: dict[str, Any] = {"loss": "smoothed_hinge", "l2": 1.0 / size.n, "tol": GAP}
    stop = {"max_epochs": 2_000, "callback": lambda record, w: False}
    runs = {
        "SDCA": (sdca(X, y, order="random", **problem, **stop), size.n),
        "ASDCA": (
            accelerated_sdca(X, y, batch=size.m, **problem, **stop),
            math.ceil(size.n / size.m),
        ),
        "AGD": (fista(X, y, **problem, **stop), 1),
    }
    return {
        name: Total(solution.trace[-1].epoch * steps, float(solution.trace[-1].accesses))
        for name, (solution, steps) in runs.items()
    }


def exchanged(name: str, size: Size, total: Total) -> float:
    """Return the numbers that the machines exchange, without the factor of s.

    By features, the margins of the iteration's examples; by examples, a vector of d.
    """
    rows = size.m if name.startswith("ASDCA") else 1
    return total.iterations * (rows if name.endswith("features") else size.d)


def power(xs: list[float], ys: list[float]) -> float:
    """Return the slope of log y over log x, of the finite y; NaN if there are fewer than two."""
    finite = np.isfinite(ys)
    if finite.sum() < 2:
        return math.nan
    return float(np.polyfit(np.log(xs)[finite], np.log(np.array(ys)[finite]), 1)[0])


def vary(base: Size, factors: tuple[int, ...]) -> dict[str, dict[str, list[float]]]:
    """Return the powers of n, d and m: of reads and numbers in total, and of an iteration's reads.

    Keys are "total", "exchanged" and "iteration", then the algorithms.
    """
    powers: dict[str, dict[str, list[float]]] = {"total": {}, "exchanged": {}, "iteration": {}}
    for field in Size._fields:
        sizes = [base._replace(**{field: getattr(base, field) * f}) for f in factors]
        totals = [measure_total(size) for size in sizes]
        for name in TOTALS:
            of_name = [total[name.split(",")[0]] for total in totals]
            numbers = [exchanged(name, s, t) for s, t in zip(sizes, of_name, strict=True)]
            for key, label, values in (
                ("total", name, [t.reads for t in of_name]),
                ("exchanged", name, numbers),
                ("iteration", name.split(",")[0], [t.reads / t.iterations for t in of_name]),
            ):
                found = power([float(f) for f in factors], values)
                slopes = powers[key].setdefault(label, [])
                if len(slopes) <= Size._fields.index(field):
                    slopes.append(found)
    return powers


def reads_to(solution: Solution, level: float) -> float:
    """Return the entries read until the objective is at most `level`, or infinity."""
    for record in solution.trace:
        if record.objective <= level:
            return float(max(1, record.accesses))
    return math.inf


def sgd_reads(X: Any, y: Any, sigma: float, level: float, max_passes: int) -> float:
    """Return the entries that FoBoS with steps c / sqrt(t) reads to a level, at the best c."""
    sign, d = np.where(y, 1.0, -1.0), X.shape[1]

    def run(c: float) -> float:
        model = streaml1.ElasticNetClassifier(
            l1=sigma, lr=c, schedule="invsqrt", intercept_lr=0.0, average=True
        )
        rng, rows = np.random.default_rng(0), max(1, len(y) // 20)
        for k in range(1, 20 * max_passes + 1):
            drawn = rng.integers(0, len(y), rows)
            model.learn_many(X[drawn], y[drawn])
            w, weights = np.zeros(d), model.weights
            w[list(weights)] = list(weights.values())
            loss = float(np.logaddexp(0.0, -sign * (X @ w)).mean())
            if loss + sigma * float(np.abs(w).sum()) <= level:
                return float(k * rows * d)
        return math.inf

    return float(search(run, (0.3, 1.0, 3.0, 10.0), lambda reads: reads, 3).result)


def l1_reads(
    n: int, d: int, sigma: float, epsilon: float, max_passes: int, max_epochs: int
) -> dict[str, float]:
    """Return the entries that each algorithm reads until it is epsilon above the optimum.

    SDCA has the slide's g(w): lambda/2 |w|^2 more, with lambda = epsilon sigma^2.
    """
    X, y = make_rows(n, d)
    best = fista(X, y, loss="logistic", l1=sigma, tol=1e-8).objective
    stop = {"tol": 1e-9, "max_epochs": 3_000, "callback": lambda record, w: False}
    l2 = epsilon * sigma**2
    of_sdca = prox_sdca(X, y, loss="logistic", l1=sigma, l2=l2, inner=l2, order="random",
                        **{**stop, "tol": 0.1 * epsilon, "max_epochs": max_epochs})  # fmt: skip
    return {
        "SDCA": reads_to(of_sdca, best + epsilon),
        "SGD": sgd_reads(X, y, sigma, best + epsilon, max_passes),
        "FISTA": reads_to(fista(X, y, loss="logistic", l1=sigma, **stop), best + epsilon),
        "SCD": reads_to(
            scd(X, y, loss="logistic", l1=sigma, step="bound", order="random", every=1, **stop),
            best + epsilon,
        ),
    }


class L1Table(NamedTuple):
    """Entries read by each algorithm as epsilon and as sigma falls, and the powers."""

    n: int
    d: int
    epsilons: list[float]
    by_epsilon: dict[str, list[float]]
    powers: dict[str, tuple[float, float]]


def l1_table(n: int, d: int, max_passes: int, max_epochs: int) -> L1Table:
    epsilons, sigmas = [0.03, 0.01, 0.003, 0.001], [4.0 * SIGMA, 2.0 * SIGMA, SIGMA]
    of_epsilon = [l1_reads(n, d, SIGMA, epsilon, max_passes, max_epochs) for epsilon in epsilons]
    of_sigma = [l1_reads(n, d, sigma, 0.003, max_passes, max_epochs) for sigma in sigmas]
    by_epsilon = {name: [reads[name] for reads in of_epsilon] for name in L1_POWERS}
    powers = {
        name: (
            power([1.0 / e for e in epsilons], by_epsilon[name]),
            power([1.0 / s for s in sigmas], [reads[name] for reads in of_sigma]),
        )
        for name in L1_POWERS
    }
    return L1Table(n, d, epsilons, by_epsilon, powers)


def bound_of_l1(n: int, d: int, sigma: float, epsilon: float) -> float:
    """Return the entries that the slide's bound for SDCA allows, with its logarithm.

    A step reads an example twice; the logistic loss is 1/gamma-smooth with gamma = 4.
    """
    steps = n + 1.0 / (4.0 * epsilon * sigma**2)
    return 2.0 * d * steps * math.log(steps / epsilon)


def at_most(measured: Any, bounds: Any) -> bool | None:
    """Return whether powers agree with those of a bound; None if one could not be measured."""
    if not np.isfinite(measured).all():
        return None
    return all(a <= b + SLACK for a, b in zip(measured, bounds, strict=True))


def claims(powers: dict[str, dict[str, list[float]]], table: L1Table) -> list[Claim]:
    def text(numbers: Any) -> str:
        return ", ".join(f"{number:.2f}" for number in numbers)

    checked = [
        Claim(f"Runtime per iteration, {name}", f"powers of n, d, m: {text(bounds)}",
              f"entries read: {text(powers['iteration'][name])}",
              at_most(powers["iteration"][name], bounds))
        for name, bounds in ITERATIONS.items()
    ]  # fmt: skip
    for name, (of_time, of_numbers) in TOTALS.items():
        for what, key, bounds in (
            ("Total runtime", "total", of_time),
            ("Total communication", "exchanged", of_numbers),
        ):
            checked.append(
                Claim(f"{what}, {name}", f"powers of n, d, m at most {text(bounds)}",
                      f"{'entries read' if key == 'total' else 'numbers exchanged'}: "
                      f"{text(powers[key][name])}", at_most(powers[key][name], bounds))
            )  # fmt: skip
    for name, bounds in L1_POWERS.items():
        checked.append(
            Claim(f"l1 regularization, {name}",
                  f"powers of 1/epsilon and 1/sigma at most {text(bounds)}",
                  f"entries read: {text(table.powers[name])}",
                  at_most(table.powers[name], bounds))
        )  # fmt: skip
    shares = [
        reads / bound_of_l1(table.n, table.d, SIGMA, epsilon)
        for epsilon, reads in zip(table.epsilons, table.by_epsilon["SDCA"], strict=True)
    ]
    checked.append(
        Claim("l1 regularization, SDCA",
              "entries read at most d (n + 1 / (gamma epsilon sigma^2)) log(1/epsilon)",
              "share of the bound, with log(steps / epsilon), at each epsilon: "
              + ", ".join(f"{share:.3f}" for share in shares),
              max(shares) <= 1.0 if np.isfinite(shares).all() else None)
    )  # fmt: skip
    return checked


def draw(powers: dict[str, dict[str, list[float]]], table: L1Table) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    places = np.arange(len(TOTALS))
    for k, field in enumerate(Size._fields):
        found = [powers["total"][name][k] for name in TOTALS]
        left.bar(places + 0.25 * (k - 1), found, 0.22, label=f"power of {field}")
        bounds = [TOTALS[name][0][k] for name in TOTALS]
        left.plot(places + 0.25 * (k - 1), bounds, "k_", ms=12, label="slide" if k == 2 else None)
    left.set_xticks(places, [name.replace(", ", "\n") for name in TOTALS])
    left.set_title("total run time, lambda n = 1", loc="left")
    for name, reads in table.by_epsilon.items():
        right.loglog(table.epsilons, reads, "o-", ms=3, label=name)
    right.set(xlabel="epsilon", ylabel="entries read")
    right.set_title(f"l1, sigma = {SIGMA}", loc="left")
    for axis in (left, right):
        axis.legend(frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    args = argument_parser(__doc__).parse_args()
    warnings.simplefilter("ignore")  # runs stop early on purpose
    base, factors = (Size(100, 8, 4), (1, 2)) if args.quick else (Size(2_000, 30, 4), (1, 2, 4, 8))
    powers = vary(base, factors)
    table = l1_table(*((100, 10, 1, 20) if args.quick else (2_000, 100, 100, 20_000)))
    print_table(
        f"l1, sigma = {SIGMA}: entries read until f - f* <= epsilon",
        ("epsilon", *table.by_epsilon),
        [
            (f"{epsilon:g}", *(f"{reads[k]:.2g}" for reads in table.by_epsilon.values()))
            for k, epsilon in enumerate(table.epsilons)
        ],
    )
    print_claims("Run-time tables", claims(powers, table))
    print(save_figure(draw(powers, table), args.out, "sdca-run-times.png"))


if __name__ == "__main__":
    main()
