"""Timings of the projections of a dense vector, as ratios to a plain sum of its entries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np

from streaml1.solvers.projection import project_l1_ball, project_simplex

SEED, N, ROUNDS = 2008, 10**6, 15


@numba.njit(error_model="numpy", nogil=True)
def plain_sum(v):  # type: ignore[no-untyped-def]
    """One entry after the other."""
    total = 0.0
    for i in range(np.uint64(len(v))):
        total += v[i]
    return total


def rows() -> Iterator[tuple[str, str, str, list[float]]]:
    """Vector, radius and how many entries stay; ms of a sum, ratios of the rest to it."""
    random = np.random.default_rng(SEED)
    vectors = {
        "normal": random.normal(size=N),
        "Cauchy": random.standard_cauchy(N),
        "integers": random.integers(-9, 10, N).astype(float),
    }
    for name, v in vectors.items():
        for z in (1.0, 1e3, 1e5, 5e5):
            runs: dict[str, Callable[[], Any]] = {
                "plain sum": lambda v=v: plain_sum(v),
                "numpy's sum": lambda v=v: v.sum(),
                "write a vector": lambda v=v: np.negative(v),
                "ball": lambda v=v, z=z: project_l1_ball(v, z),
                "simplex": lambda v=v, z=z: project_simplex(v, z),
                "ball, sort": lambda v=v, z=z: project_l1_ball(v, z, method="sort"),
            }
            took = in_turn(runs)
            ratios = [float(np.median(t / took["plain sum"])) for t in took.values()]
            left = np.count_nonzero(project_l1_ball(v, z))
            yield (
                name,
                f"{z:g}",
                f"{left:,}",
                [float(np.median(took["plain sum"])) * 1e3, *ratios[1:]],
            )


def in_turn(runs: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Seconds of each run in each round, the first left out."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS + 1):
        for name, run in runs.items():
            begin = time.thread_time()
            run()
            seconds[name].append(time.thread_time() - begin)
    return {name: np.array(times[1:]) for name, times in seconds.items()}
