r"""Dual ascent over shards of the examples: CoCoA+.

Ma, Smith, Jaggi, Jordan, Richtarik & Takac (2015), with the aggregation parameter $\gamma = 1$ and
$\sigma' = K$. The examples are divided into K shards, each with its part of the dual variables. In
a round every shard runs epochs of ascent from the same weights, without the steps of the others,
and all changes of the dual variables are added.

With $v = \frac 1n \sum_i \alpha_i x_i$ and $\Delta v_k$ the change due to shard k,

$$v + \sum_k \Delta v_k = \frac 1K \sum_k (v + K \Delta v_k)$$

As g* is convex, the dual of the sum is at least the mean of what the shards see if each counts its
own change K times. So a shard takes the steps of `prox_sdca` with `scale` and `q` multiplied by K,
and the dual never falls: whatever K, the sizes of the shards, the order of the examples and the
number of local epochs. A shard that returns nothing delays the run and does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from streaml1.core.jit import u64
from streaml1.core.rows import Rows, shown
from streaml1.core.types import Floats
from streaml1.solvers.data import Data, unsupported
from streaml1.solvers.objective import (
    elastic_net,
    elastic_net_dual,
    margins,
    mean_loss,
    weighted_row_sum,
)
from streaml1.solvers.prox_steps import prox_epoch
from streaml1.solvers.sampling import fill_order, row_squared_norms
from streaml1.solvers.solution import Solution, Trace

__all__ = ["Shard", "TaskRunner", "ascend_shards", "check_shards", "equal_shards", "shards_of"]


class TaskRunner(Protocol):
    """Runs tasks; the executors of `streaml1.distributed` are of this kind."""

    def submit(self, task: Callable[..., Any], *args: Any) -> Any:
        """Start a task, a picklable function of picklable arguments; return a handle of it."""

    def gather(self, handles: Sequence[Any]) -> Iterable[Any]:
        """Return the results of tasks in the order of `handles`."""


class Shard(NamedTuple):
    """Consecutive examples: their range among all, rows and labels."""

    lo: int
    hi: int
    rows: Rows
    y: Floats


class Round(NamedTuple):
    """What all shards of a round have in common."""

    loss: int
    """A value of `CODES`."""
    gamma: float
    scale: float
    """K / (l2 n)."""
    threshold: float
    """Of theta = v / l2: the weights are soft(theta, threshold)."""
    order_kind: int
    """A value of `ORDERS`."""
    epochs: int
    seed: tuple[int, int]
    """The seed of the run, and the number of the round."""


class LocalChange(NamedTuple):
    """The result of a shard: its dual variables, and how many entries of the matrix it read."""

    alpha: Floats
    n_read: int


def shards_of(data: Data, bounds: Sequence[int]) -> list[Shard]:
    """Divide the examples at some row numbers; the first is 0 and the last n."""
    rows = data.rows
    shards = []
    for lo, hi in zip(bounds[:-1], bounds[1:], strict=True):
        first, last = int(rows.indptr[lo]), int(rows.indptr[hi])
        part = Rows(
            rows.ids[first:last], rows.values[first:last],
            rows.indptr[lo : hi + 1] - rows.indptr[lo],
        )  # fmt: skip
        shards.append(Shard(lo, hi, part, data.y[lo:hi]))
    return shards


def equal_shards(data: Data, n_shards: int) -> list[Shard]:
    """Divide the examples into shards of nearly the same number of rows."""
    return shards_of(data, [data.n * k // n_shards for k in range(n_shards + 1)])


def check_shards(solver: str, shards: object, l2: float, executor: object) -> int:
    """Return the number of shards.

    Raises
    ------
    ValueError
        If it is not a whole number >= 1, or if several shards need an l2 > 0.
    TypeError
        If the executor is none, such as a number of workers or a pool of `concurrent.futures`.
    """
    if not isinstance(shards, int | np.integer) or isinstance(shards, bool) or shards < 1:
        raise ValueError(f"shards must be a whole number >= 1, got {shards!r}")
    if shards > 1 and not l2:
        raise unsupported(solver, f"l2=0 with shards={shards}", "use a small l2")
    if executor is not None and not (hasattr(executor, "submit") and hasattr(executor, "gather")):
        raise TypeError(
            "executor must be one of streaml1.distributed, such as ProcessExecutor(2), "
            f"got {shown(executor)}"
        )
    return int(shards)


def local_ascent(
    shard: Shard, number: int, settings: Round, alpha: Floats, theta: Floats
) -> LocalChange:
    """Run the epochs of a shard; a pure function, so it can run anywhere, and again.

    Parameters
    ----------
    shard, number
        The examples, and the number of the shard, which selects its random numbers.
    settings
        The round.
    alpha
        The dual variables of the shard.
    theta
        v / l2 at the beginning of the round, shape (d,).
    """
    alpha, theta, n = alpha.copy(), theta.copy(), len(shard.y)
    q = np.empty(n)
    row_squared_norms(shard.rows.values, shard.rows.indptr, q)
    q *= settings.scale
    seed = np.random.SeedSequence((*settings.seed, number))
    state = seed.generate_state(1, np.uint64) | u64(1)
    examples, order, unused = (np.arange(n, dtype=np.uint32) for _ in range(3))
    n_read = 0
    for _ in range(settings.epochs):
        fill_order(settings.order_kind, examples, n, state, order)
        result = prox_epoch(
            *(settings.loss, settings.gamma, *shard.rows, shard.y, q, settings.scale),
            *(settings.threshold, 2.0, 1.0, order, n, np.inf, unused),
            *(np.ones(2), alpha, theta),
        )
        n_read += int(result[3])
    return LocalChange(alpha, n_read)


def _run_tasks(
    tasks: Iterable[tuple[Any, ...]], executor: TaskRunner | None
) -> Iterator[LocalChange | None]:
    """Yield the result of `local_ascent` for each task, from the executor or from this process."""
    if executor is None:
        return (local_ascent(*task) for task in tasks)
    return iter(executor.gather([executor.submit(local_ascent, *task) for task in tasks]))


def ascend_shards(
    data: Data,
    loss: int,
    gamma: float,
    l1: float,
    l2: float,
    shards: Sequence[Shard],
    order_kind: int,
    seed: int,
    trace: Trace,
    executor: TaskRunner | None = None,
    epochs: int = 1,
) -> Solution:
    """Run rounds until the trace ends, with a record of the exact gap after each.

    Parameters
    ----------
    data, loss, gamma, l1, l2
        The problem; `loss` is a value of `CODES`, and l2 > 0.
    shards
        The examples in parts; see `shards_of`.
    order_kind, seed
        A value of `ORDERS`, and the seed of the order.
    trace
        Ends the run. A round counts as one epoch.
    executor
        Where the shards run; None: one after the other, here. It may give None as the result of a
        shard whose worker was lost; its dual variables stay as they are in this round.
    epochs
        Epochs of a shard in each round.
    """
    rows, n = data.rows, data.n
    alpha, v, theta, a = np.zeros(n), np.zeros(data.d), np.zeros(data.d), np.zeros(n)
    threshold = l1 / l2
    w = np.zeros(data.d)
    accesses, number = 0, 0

    def record() -> bool:
        weighted_row_sum(*rows, alpha, 1.0 / n, v)
        np.divide(v, l2, out=theta)
        w[:] = np.sign(theta) * np.maximum(np.abs(theta) - threshold, 0.0)
        margins(*rows, w, 0.0, a)
        objective = mean_loss(loss, a, data.y, gamma) + elastic_net(w, l1, l2)
        dual = elastic_net_dual(loss, -alpha, v, data.y, gamma, l1, l2)
        return trace.record(number, objective, dual, accesses, w)

    done = record()
    while not done:
        number += 1
        settings = Round(
            loss, gamma, len(shards) / (l2 * n), threshold, order_kind, epochs, (seed, number)
        )
        tasks = [
            (shard, k, settings, alpha[shard.lo : shard.hi], theta)
            for k, shard in enumerate(shards)
            if shard.hi > shard.lo
        ]
        for (shard, *_), change in zip(tasks, _run_tasks(tasks, executor), strict=True):
            if change is not None:
                alpha[shard.lo : shard.hi] = change.alpha
                accesses += change.n_read
        done = record()
    return trace.solution(w)
