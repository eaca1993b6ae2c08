r"""Greedy coordinate steps in an l1 ball: the method of Frank & Wolfe.

Shalev-Shwartz & Tewari (2009), Section 1.1, "Coordinate descent methods for l1 domain constraints",
which refers to Frank & Wolfe (1956) and Clarkson (2008), for

$$\min_w f(w) = \frac 1m \sum_i L(\langle w, x_i\rangle, y_i) \quad\text{s.t.}\quad \|w\|_1 \le B$$

A step moves towards the corner of the ball that the gradient g points away from most,

$$j = \arg\max_j |g_j|, \quad s = -B \,\mathrm{sign}(g_j)\, e_j, \quad
w \leftarrow (1 - \gamma) w + \gamma s$$

As f is convex, $f(w) - \min f \le \langle g, w - s\rangle$: the duality gap costs nothing. With
$\beta$ an upper bound on the second derivative of the loss, the step size minimizes an upper bound
on f along the segment,

$$\gamma = \min\Big(1,\; \frac{\langle g, w - s\rangle}{\frac\beta m |X (s - w)|^2}\Big)$$

For the squared loss this is the exact minimum. f never rises, and T steps leave a gap of O(1/T). A
step adds at most one weight and reads all of X, as the paper says.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from streaml1.solvers.data import (
    Data,
    MatrixLike,
    check_choice,
    check_run,
    check_strength,
    reject_intercept,
    unsupported,
)
from streaml1.solvers.loss_terms import make_loss_term
from streaml1.solvers.parameter_docs import share_parameter_docs
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["frank_wolfe"]

LOSSES = ("logistic", "smoothed_hinge", "squared")
SOLVER = "frank_wolfe"


@share_parameter_docs
def frank_wolfe(
    X: MatrixLike,
    y: ArrayLike,
    *,
    loss: str = "logistic",
    l1: float = 0.0,
    l2: float = 0.0,
    radius: float = 10.0,
    gamma: float = 1.0,
    fit_intercept: bool = False,
    tol: float = 1e-3,
    max_epochs: int = 10_000,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution:
    """Minimize the mean loss in the l1 ball of a radius by greedy coordinate steps.

    Parameters
    ----------
    {X}
    y
        Labels of a classifier, or numbers for a regression loss.
    loss
        "logistic", "smoothed_hinge" or "squared".
    l1, l2
        Must be 0: the ball replaces the penalty.
    radius
        Radius of the ball.
    {gamma}
    {no_intercept}
    tol
        Duality gap to stop at: absolute, or relative to the objective if that is above 1. The
        number of steps grows with 1 / tol.
    max_epochs
        Maximum number of steps.
    seed
        Without effect, since nothing is random.
    {callback}

    Returns
    -------
    {solution}

    References
    ----------
    Clarkson, K., 2008. Coresets, sparse greedy approximation, and the Frank-Wolfe algorithm. SODA.
    Frank, M. and Wolfe, P., 1956. An algorithm for quadratic programming. Naval Res. Logist. Quart.

    Examples
    --------
    >>> import numpy as np
    >>> from streaml1.solvers import frank_wolfe
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> frank_wolfe(X, [3.0, 0.1], loss="squared", radius=2.0).weights
    array([2., 0.])
    """
    check_choice(SOLVER, "loss", loss, LOSSES)
    for name, strength in (("l1", l1), ("l2", l2)):
        if check_strength(name, strength):
            raise unsupported(SOLVER, f"{name}={strength}", "use a radius, or fista")
    reject_intercept(SOLVER, fit_intercept, 'use fista with penalty="ball"')
    tol, max_epochs, _ = check_run(tol, max_epochs, seed)
    radius = check_strength("radius", radius, above_zero=True)
    trace = Trace(SOLVER, tol, max_epochs, callback)
    data = Data(X, y, loss)
    f = make_loss_term(data, loss, check_strength("gamma", gamma, above_zero=True))
    columns = data.matrix.tocsc()
    w, a = np.zeros(data.d), np.zeros(data.n)
    step, accesses = 0, 0
    while True:
        gradient = f.gradient(f.derivatives(a))
        accesses += data.nnz
        j = int(np.abs(gradient).argmax()) if data.d else -1
        steepest = float(gradient[j]) if data.d else 0.0
        gap = float(gradient @ w) + radius * abs(steepest)
        objective = f.mean(a)
        if trace.record(step, objective, objective - gap, accesses, w):
            return trace.solution(w)
        corner = -math.copysign(radius, steepest)
        first, last = columns.indptr[j], columns.indptr[j + 1]
        direction = -a
        direction[columns.indices[first:last]] += corner * columns.data[first:last]
        accesses += int(last - first)
        bend = f.curvature * float(direction @ direction) / data.n
        share = min(1.0, gap / bend) if bend > 0.0 else 1.0
        w *= 1.0 - share
        w[j] += share * corner
        a += share * direction
        step += 1
