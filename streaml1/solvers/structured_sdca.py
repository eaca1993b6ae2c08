r"""SDCA for structured outputs: sequences, trees, rankings, given by an oracle.

Shalev-Shwartz & Zhang (2013), the slide "Structured Output Learning":

$$\min_w \frac\lambda2 |w|^2 + \frac 1n \sum_i \max_{y'} \bigl(\delta(y', y_i)
- w^\top \psi(x_i, y_i) + w^\top \psi(x_i, y')\bigr)$$

There are too many outputs y' for a dual variable each. An oracle returns the one with the maximum
(for a chain by the algorithm of Viterbi): its cost $\delta$, and the difference
$\psi(x_i, y_i) - \psi(x_i, y')$. The dual variables of an example form a distribution $p_i$ over
outputs, of which only its mean cost $c_i$ and its mean difference $v_i$ are kept:

$$w = \frac{1}{\lambda n} \sum_i v_i, \qquad D = \frac 1n \sum_i c_i - \frac\lambda2 |w|^2$$

The slide leaves the step open ("approximate dual maximization suffices"), and says that the
algorithm is that of Lacoste-Julien, Jaggi, Schmidt & Pletscher (2013): $p_i$ moves towards the output
of the oracle by the share that is best for D, with s the output and
$g_i = (\delta_s - w^\top \psi_s) - (c_i - w^\top v_i)$ the example's share of the duality gap,

$$\gamma = \min\Bigl(1,\; \frac{\lambda n\, g_i}{|\psi_s - v_i|^2}\Bigr)$$

Differences from the papers:

a) The order of the examples is a permutation in each epoch by default.
b) The vectors $v_i$ are sparse, over the features of the outputs seen so far.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streaml1.core.rows import shown
from streaml1.core.types import Floats
from streaml1.models.parameter_checks import Integer
from streaml1.solvers.active_examples import ActiveSet, ascend
from streaml1.solvers.data import check_choice, check_ridge, check_run, reject_intercept
from streaml1.solvers.parameter_docs import share_parameter_docs
from streaml1.solvers.sampling import ORDERS, rng_state
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["Oracle", "structured_sdca"]

SOLVER = "structured_sdca"

Oracle = Callable[[Any, Any, Any], tuple[float, Any]]
"""Called as `oracle(w, x, y)`; returns a cost and a difference of features."""

ROUNDING = 1e-8  # relative error of the oracle's maximum that is no mistake


@share_parameter_docs
def structured_sdca(
    X: Sequence[Any],
    y: Sequence[Any],
    loss: str = "structured_hinge",
    l1: float = 0.0,
    l2: float = 1e-2,
    *,
    oracle: Oracle,
    n_weights: int,
    order: str = "permutation",
    fit_intercept: bool = False,
    tol: float = 1e-3,
    max_epochs: int = 1000,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution:
    """Minimise the mean structured hinge loss + l2/2 |w|^2 by dual coordinate ascent.

    Parameters
    ----------
    X, y
        Inputs and outputs of any type, of the same length; only the oracle looks at them.
    loss
        "structured_hinge".
    {l1_must_be_zero}
    {l2_positive}
    oracle
        Called as `oracle(w, x, y)` with read-only weights. Must find the output y' with the maximum
        of cost(y', y) - <w, f(x, y) - f(x, y')>, where f(x, y) are the features of an output, and
        return its cost and the difference f(x, y) - f(x, y'): an array of `n_weights` numbers, or a
        pair of indices and values, whose repeated indices are added up. The cost is >= 0, and 0 for
        y itself, whose difference is 0.
    n_weights
        Number of weights.
    {order}
    {no_intercept}
    tol
        Duality gap to stop at: absolute, or relative to the objective if that is above 1. The gap
        takes an additional call of the oracle for each example.
    {max_epochs}
    {order_seed}
    {callback}

    Returns
    -------
    {solution}

    Raises
    ------
    ValueError
        If a parameter is invalid, or if the oracle returns an invalid cost or difference, or an
        output that is not the maximum.

    References
    ----------
    Lacoste-Julien, S., Jaggi, M., Schmidt, M. and Pletscher, P., 2013. Block-coordinate Frank-Wolfe
    optimization for structural SVMs. ICML.

    Examples
    --------
    Two outputs are features at one of two positions, which is a binary hinge loss:

    >>> import numpy as np
    >>> from streaml1.solvers import structured_sdca
    >>> def oracle(w, x, y):
    ...     difference = np.concatenate([x, -x] if y == 0 else [-x, x])
    ...     violated = w @ difference < 1.0
    ...     return (1.0, difference) if violated else (0.0, np.zeros(4))
    >>> X = [np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    >>> structured_sdca(X, [0, 1], oracle=oracle, n_weights=4, l2=0.1).weights.round(2)
    array([ 0.5, -0.5, -0.5,  0.5])
    """
    check_choice(SOLVER, "loss", loss, ("structured_hinge",))
    order_kind = ORDERS[check_choice(SOLVER, "order", order, tuple(ORDERS))]
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    l2 = check_ridge(SOLVER, l1, l2)
    reject_intercept(SOLVER, fit_intercept)
    if not callable(oracle):
        raise ValueError(f"oracle must be a function of w, x and y, got {shown(oracle)}")
    d = int(Integer(1, 2**32 - 1)("n_weights", n_weights))
    trace = Trace(SOLVER, tol, max_epochs, callback)
    problem = _Problem(X, y, oracle, d, l2)
    active = ActiveSet(order_kind, problem.n, rng_state(seed))

    def run_epoch() -> float:
        gap = sum(problem.step(int(i)) for i in active.plan_epoch().order)
        active.accesses = problem.accesses
        return gap / problem.n

    def record(epoch: int) -> bool:
        w, primal, dual = problem.objectives()
        return trace.record(epoch, primal, dual, problem.accesses, w)

    ascend(active, trace, run_epoch, record)
    return trace.solution(problem.w)


class _Problem:
    """The examples, and the mean cost and mean difference of the dual variables of each."""

    def __init__(self, X: Any, y: Any, oracle: Oracle, d: int, l2: float) -> None:
        self.n = _length("X", X)
        if _length("y", y) != self.n:
            raise ValueError(f"X and y must be of one length, got {self.n} and {_length('y', y)}")
        if self.n == 0:
            raise ValueError("X must have at least one example, got none")
        self.X, self.y, self.oracle, self.d, self.l2 = X, y, oracle, d, l2
        self.scale = 1.0 / (l2 * self.n)
        self.w = np.zeros(d)
        self.costs = np.zeros(self.n)
        none = np.zeros(0, np.int64), np.zeros(0)
        self.means: list[tuple[Any, Floats]] = [none] * self.n  # sorted ids, values
        self.accesses = 0

    def ask(self, i: int) -> tuple[float, float, Any, Floats]:
        """Return the hinge loss of an example, and the cost and difference of its output."""
        w = self.w.view()
        w.flags.writeable = False
        cost, ids, values = _parse(self.oracle(w, self.X[i], self.y[i]), self.d)
        value = cost - float(self.w[ids] @ values)
        before = self.value(i)
        if value < max(0.0, before) - ROUNDING * (1.0 + abs(before) + cost):
            raise ValueError(
                f"oracle must return the output with the maximum, got one of {value:.6g} for "
                f"example {i}, where {max(0.0, before):.6g} is possible"
            )
        return value, cost, ids, values

    def value(self, i: int) -> float:
        """Return the mean of cost - <w, difference> under the dual variables of an example."""
        ids, values = self.means[i]
        return float(self.costs[i]) - float(self.w[ids] @ values)

    def step(self, i: int) -> float:
        """Move the dual variables of an example towards the oracle's output; return its gap."""
        value, cost, ids, values = self.ask(i)
        gap = value - self.value(i)
        self.accesses += len(ids)
        support, mean = self.means[i]
        if len(np.setdiff1d(ids, support, assume_unique=True)):
            union = np.union1d(support, ids)
            grown = np.zeros(len(union))
            grown[np.searchsorted(union, support)] = mean
            support, mean = union, grown
        move = -mean
        move[np.searchsorted(support, ids)] += values
        bend = self.scale * float(move @ move)
        share = min(1.0, gap / bend) if bend > 0.0 else float(gap > 0.0)
        if share > 0.0:
            self.means[i] = support, mean + share * move
            self.costs[i] += share * (cost - self.costs[i])
            self.w[support] += self.scale * share * move
        return max(0.0, gap)

    def objectives(self) -> tuple[Floats, float, float]:
        """Recompute w without rounding errors; return it, the objective, and the dual."""
        self.w[:] = 0.0
        for ids, values in self.means:
            self.w[ids] += values
        self.w *= self.scale
        norm = 0.5 * self.l2 * float(self.w @ self.w)
        hinges = [self.ask(i)[0] for i in range(self.n)]
        return self.w, float(np.mean(hinges)) + norm, float(self.costs.mean()) - norm


def _length(name: str, values: Any) -> int:
    try:
        return int(values.shape[0]) if hasattr(values, "shape") else len(values)
    except (TypeError, IndexError):
        raise TypeError(f"{name} must be a sequence, got a {type(values).__name__}") from None


def _parse(result: Any, d: int) -> tuple[float, Any, Floats]:
    """Return the cost, and the difference as sorted ids and values."""
    try:
        cost, difference = result
        cost = float(cost)
    except (TypeError, ValueError):
        raise ValueError(
            f"oracle must return a cost and a difference of features, got {shown(result)}"
        ) from None
    if not 0.0 <= cost < np.inf:
        raise ValueError(f"oracle must return a finite cost >= 0, got {cost:g}")
    ids, values = _sparse(difference, d)
    if not np.isfinite(values).all():
        raise ValueError("oracle must return a difference of finite numbers")
    return cost, ids, values


def _sparse(difference: ArrayLike | tuple[ArrayLike, ArrayLike], d: int) -> tuple[Any, Floats]:
    if not isinstance(difference, tuple):
        dense = np.asarray(difference, np.float64)
        if dense.shape != (d,):
            raise ValueError(f"oracle must return a difference of shape ({d},), got {dense.shape}")
        ids = np.flatnonzero(dense)
        return ids, dense[ids]
    places, values = (np.asarray(part) for part in difference)
    if places.shape != values.shape or places.ndim != 1:
        raise ValueError(
            "oracle must return as many indices as values, "
            f"got shapes {places.shape} and {values.shape}"
        )
    if len(places) and (places.dtype.kind not in "iu" or places.min() < 0 or places.max() >= d):
        raise ValueError(f"oracle must return integer indices from 0 to {d - 1}")
    ids, codes = np.unique(places.astype(np.int64), return_inverse=True)
    sums = np.bincount(codes, values.astype(np.float64), len(ids))
    return ids[sums != 0.0], sums[sums != 0.0]
