"""Projections of a dense vector, as ratios to a plain sum of its entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from bench_kit import CONSOLE, interleave, new_table

from streaml1.solvers.projection import project_l1_ball, project_simplex

SEED, N, ROUNDS = 2008, 10**6, 15


@numba.njit(error_model="numpy", nogil=True)
def plain_sum(v):  # type: ignore[no-untyped-def]
    """Sum the entries in order, with a single accumulator."""
    total = 0.0
    for i in range(np.uint64(len(v))):
        total += v[i]
    return total


def bench_projection() -> None:
    """Measure projections of 10^6 entries, as ratios to a plain sum of them."""
    random = np.random.default_rng(SEED)
    vectors = {
        "normal": random.normal(size=N),
        "Cauchy": random.standard_cauchy(N),
        "integers": random.integers(-9, 10, N).astype(float),
    }
    table = new_table(
        f"{N:,} entries: a plain sum, and ratios to it",
        *("entries", "z", "non-zeros", "plain sum, ms", "numpy's sum /", "a new vector /"),
        *("ball /", "simplex /", "ball, sort /"),
    )
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
            seconds = interleave(runs, ROUNDS)
            base = seconds.pop("plain sum")
            n_nonzero = np.count_nonzero(project_l1_ball(v, z))
            ratios = (float(np.median(times / base)) for times in seconds.values())
            table.add_row(
                *(name, f"{z:g}", f"{n_nonzero:,}", f"{np.median(base) * 1e3:.2f}"),
                *(f"{ratio:.1f}" for ratio in ratios),
            )
    CONSOLE.print(table)
