r"""SDCA for structured outputs: sequences, trees, rankings, given by an oracle.

Shalev-Shwartz & Zhang (2013), the slide "Structured Output Learning":

$$\min_w \frac\lambda2 |w|^2 + \frac 1n \sum_i \max_{y'} \bigl(\delta(y', y_i)
- w^\top \psi(x_i, y_i) + w^\top \psi(x_i, y')\bigr)$$

There are too many outputs y' for a dual variable each. An oracle returns the one with the maximum
(for a chain by the algorithm of Viterbi): its cost $\delta_s$, and the difference
$\psi_s = \psi(x_i, y_i) - \psi(x_i, y')$. The dual variables of an example form a distribution $p_i$
over outputs s, most of which are 0:

$$w = \frac{1}{\lambda n} \sum_i \sum_s p_{is} \psi_{is}, \qquad
D = \frac 1n \sum_i \sum_s p_{is} \delta_{is} - \frac\lambda2 |w|^2$$

The value of an output is $u_s = \delta_s - w^\top \psi_s$. The example's share of the duality gap is
$\max_s u_s - \sum_s p_{is} u_s$. A step moves probability from the output a with the smallest value to
the output b with the largest, as much as is best for D,

$$\gamma = \min\Bigl(p_{ia},\; \frac{\lambda n\, (u_b - u_a)}{|\psi_b - \psi_a|^2}\Bigr)$$

and repeats that among the outputs kept, until their values are within a tenth of the gap, or 100
times. The slide leaves the step open ("approximate dual maximization suffices"), and says that the
algorithm is that of Lacoste-Julien, Jaggi, Schmidt & Pletscher (2013). Theirs keeps the mean of the
outputs alone, and moves once from the mean to the output of the oracle: `keep_outputs=False`.

Differences from the papers:

a) The order of the examples is a permutation in each epoch by default.
b) Outputs with p > 0 are kept, unless `keep_outputs=False`. This takes more memory, and fewer calls
   of the oracle: the gap can fall geometrically, where by means alone it falls like 1/t.
c) The vectors are sparse, over the features of the outputs kept.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from streaml1.core.rows import shown, shown_type
from streaml1.core.types import Floats
from streaml1.models.parameter_checks import Integer, boolean
from streaml1.solvers.active_examples import ActiveSet, ascend
from streaml1.solvers.data import check_choice, check_ridge, check_run, reject_intercept
from streaml1.solvers.parameter_docs import share_parameter_docs
from streaml1.solvers.sampling import ORDERS, rng_state
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["Oracle", "structured_sdca"]

SOLVER = "structured_sdca"

Oracle = Callable[[Any, Any, Any], tuple[float, Any]]
"""Called as `oracle(w, x, y)`; returns a cost and a difference of features."""

ROUNDING = 1e-8  # relative error of the oracle's maximum that is not a mistake
INNER_GAP, MAX_MOVES = 0.1, 100


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
    keep_outputs: bool = True,
    order: str = "permutation",
    fit_intercept: bool = False,
    tol: float = 1e-3,
    max_epochs: int = 1000,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution:
    """Minimize the mean structured hinge loss + l2/2 |w|^2 by dual coordinate ascent.

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
    keep_outputs
        Whether to keep the outputs of each example that have a dual variable > 0, and to move
        among all of them. False: keep their mean alone.
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
    l2 = check_ridge(SOLVER, l1, l2, loss)
    reject_intercept(SOLVER, fit_intercept, "add a feature that is always 1")
    if not callable(oracle):
        raise ValueError(f"oracle must be a function of w, x and y, got {shown(oracle)}")
    d = int(Integer(1, 2**32 - 1)("n_weights", n_weights))
    trace = Trace(SOLVER, tol, max_epochs, callback)
    keep_outputs = boolean("keep_outputs", keep_outputs)
    problem = _Problem(X, y, oracle, d, l2, keep_outputs)
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


class _Block(NamedTuple):
    """The outputs of an example with p > 0: features, by output and by feature, and costs."""

    ids: Any  # sorted
    differences: Floats
    costs: Floats
    p: Floats

    def values(self, w: Floats) -> Floats:
        u: Floats = self.costs - self.differences @ w[self.ids]
        return u

    def with_output(self, cost: float, ids: Any, values: Floats) -> _Block:
        """Add an output with p = 0, and columns for its features."""
        union = self.ids
        if len(np.setdiff1d(ids, union, assume_unique=True)):
            union = np.union1d(union, ids)
        grown = np.zeros((len(self.p) + 1, len(union)))
        grown[:-1, np.searchsorted(union, self.ids)] = self.differences
        grown[-1, np.searchsorted(union, ids)] = values
        return _Block(union, grown, np.append(self.costs, cost), np.append(self.p, 0.0))

    def without_zeros(self) -> _Block:
        used = self.p > 0.0
        return self._replace(
            differences=self.differences[used], costs=self.costs[used], p=self.p[used]
        )

    def mean(self) -> _Block:
        """Merge all outputs into one."""
        differences = (self.p @ self.differences)[None, :]
        return self._replace(
            differences=differences, costs=np.array([self.p @ self.costs]), p=np.ones(1)
        )


def _ascend(block: _Block, u: Floats, scale: float, gap: float) -> Floats:
    """Return the p after moves from the smallest to the largest value; `u` are the values."""
    p, u = block.p.copy(), u.copy()
    products = scale * (block.differences @ block.differences.T)
    for _ in range(MAX_MOVES):
        b = int(u.argmax())
        a = int(np.where(p > 0.0, u, np.inf).argmin())
        rise = u[b] - u[a]
        if rise <= INNER_GAP * gap or a == b:
            break
        bend = products[a, a] - 2.0 * products[a, b] + products[b, b]
        move = p[a] if rise >= bend * p[a] else rise / bend
        p[b] += move
        p[a] = 0.0 if move == p[a] else p[a] - move
        u -= move * (products[b] - products[a])
    return p


class _Problem:
    """The examples, the dual variables of each, and the weights."""

    def __init__(
        self, X: Any, y: Any, oracle: Oracle, d: int, l2: float, keep_outputs: bool
    ) -> None:
        self.n = _length("X", X)
        if _length("y", y) != self.n:
            raise ValueError(f"X and y must be of one length, got {self.n} and {_length('y', y)}")
        if self.n == 0:
            raise ValueError("X must have at least one example, got none")
        self.X, self.y, self.oracle, self.d, self.l2 = X, y, oracle, d, l2
        self.keep_outputs = keep_outputs
        self.scale = 1.0 / (l2 * self.n)
        self.w = np.zeros(d)
        true = _Block(np.zeros(0, np.int64), np.zeros((1, 0)), np.zeros(1), np.ones(1))
        self.blocks = [true] * self.n
        self.accesses = 0

    def ask(self, i: int) -> tuple[float, float, Any, Floats]:
        """Return the value of the oracle's output for an example, its cost and its difference."""
        w = self.w.view()
        w.flags.writeable = False
        cost, ids, values = _parse(self.oracle(w, self.X[i], self.y[i]), self.d)
        value = cost - float(self.w[ids] @ values)
        known = max(0.0, float(self.blocks[i].values(self.w).max()))
        if value < known - ROUNDING * (1.0 + known + cost):
            raise ValueError(
                f"oracle must return the output with the maximum, got one of {value:.6g} for "
                f"example {i}, where {known:.6g} is possible"
            )
        return value, cost, ids, values

    def step(self, i: int) -> float:
        """Move the dual variables of an example; return its share of the gap before."""
        value, *output = self.ask(i)
        self.accesses += len(output[1])
        block = self.blocks[i].with_output(*output)
        u = block.values(self.w)
        gap = value - float(block.p @ u)
        if gap <= 0.0:
            return 0.0
        p = _ascend(block, u, self.scale, gap)
        self.w[block.ids] += self.scale * ((p - block.p) @ block.differences)
        block = block._replace(p=p)
        self.blocks[i] = block.without_zeros() if self.keep_outputs else block.mean()
        return gap

    def objectives(self) -> tuple[Floats, float, float]:
        """Recompute w without rounding errors; return it, the objective, and the dual."""
        self.w[:] = 0.0
        for block in self.blocks:
            self.w[block.ids] += block.p @ block.differences
        self.w *= self.scale
        norm = 0.5 * self.l2 * float(self.w @ self.w)
        hinges = [self.ask(i)[0] for i in range(self.n)]
        costs = [float(block.p @ block.costs) for block in self.blocks]
        return self.w, float(np.mean(hinges)) + norm, float(np.mean(costs)) - norm


def _length(name: str, values: Any) -> int:
    try:
        return int(values.shape[0]) if hasattr(values, "shape") else len(values)
    except (TypeError, IndexError):
        raise TypeError(f"{name} must be a sequence, got {shown_type(values)}") from None


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
    indices, values = (np.asarray(part) for part in difference)
    if indices.shape != values.shape or indices.ndim != 1:
        raise ValueError(
            "oracle must return as many indices as values, "
            f"got shapes {indices.shape} and {values.shape}"
        )
    if len(indices) and (indices.dtype.kind not in "iu" or indices.min() < 0 or indices.max() >= d):
        raise ValueError(f"oracle must return integer indices from 0 to {d - 1}")
    ids, codes = np.unique(indices.astype(np.int64), return_inverse=True)
    sums = np.bincount(codes, values.astype(np.float64), len(ids))
    return ids[sums != 0.0], sums[sums != 0.0]
