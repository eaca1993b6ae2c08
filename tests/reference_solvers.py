"""Slow reference implementations of the projections and the first-order solvers, in dense numpy.

They share no code with the package. Projections bisect; `ista` takes many short steps.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Rows = NDArray[np.int64]
"""Row indices of a batch."""


def simplex(v: ArrayLike, z: float) -> Vector:
    """Project onto {w >= 0, sum w = z}: bisect the threshold."""
    v = np.asarray(v, float)
    low, high = v.max() - z, v.max()
    for _ in range(70):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.maximum(v - middle, 0.0).sum() > z else (low, middle)
    return np.maximum(v - high, 0.0)


def ball(v: ArrayLike, z: float, a: ArrayLike | None = None) -> Vector:
    """Project onto {sum a_i |w_i| <= z}: bisect the multiplier."""
    v = np.asarray(v, float)
    a = np.ones(len(v)) if a is None else np.asarray(a, float)
    if (a * np.abs(v)).sum() <= z:
        return v.copy()
    sizes, counts = np.abs(v), a > 0.0
    low, high = 0.0, (sizes[counts] / a[counts]).max()
    for _ in range(70):
        middle = 0.5 * (low + high)
        size = np.maximum(sizes - middle * a, 0.0)
        low, high = (middle, high) if (a * size).sum() > z else (low, middle)
    return np.sign(v) * np.maximum(sizes - high * a, 0.0)


def loss(name: str, a: float, y: float, gamma: float = 1.0) -> tuple[float, float]:
    """Return the value and the derivative of a loss."""
    if name == "squared":
        return (a - y) ** 2 / 2, a - y
    if name == "absolute":
        return abs(a - y), float(np.sign(a - y))
    m = y * a
    if name == "logistic":
        return float(np.logaddexp(0.0, -m)), -y * math.exp(-float(np.logaddexp(0.0, m)))
    if name == "hinge":
        return (1 - m, -y) if m < 1 else (0.0, 0.0)
    if m > 1:
        return 0.0, 0.0
    return (
        (1 - m - gamma / 2, -y)
        if m < 1 - gamma
        else ((1 - m) ** 2 / 2 / gamma, -y * (1 - m) / gamma)
    )


def losses(name: str, a: Vector, y: Vector, gamma: float = 1.0) -> tuple[Vector, Vector]:
    """Return the values and the derivatives of a loss for all rows: `loss`, vectorized."""
    m = y * a
    if name == "logistic":
        return np.logaddexp(0.0, -m), -y * np.exp(-np.logaddexp(0.0, m))
    if name == "smoothed_hinge":
        share = np.clip((1.0 - m) / gamma, 0.0, 1.0)  # of the full slope
        return share * (1.0 - m - gamma * share / 2.0), -y * share
    if name == "squared":
        return (a - y) ** 2 / 2.0, a - y
    pairs = [loss(name, float(s), float(t), gamma) for s, t in zip(a, y, strict=True)]
    values, slopes = np.array(pairs).T
    return values, slopes


def mean_loss(
    name: str, X: Matrix, y: Vector, w: Vector, b: float | Vector, gamma: float = 1.0
) -> tuple[float, Vector, float | Vector]:
    """Return the mean loss and its gradient in weights and intercept."""
    n = len(X)
    if name == "softmax":
        a = X @ w.T + b
        logs = a - np.logaddexp.reduce(a, axis=1)[:, None]
        p = np.exp(logs)
        rows = np.arange(n)
        p[rows, y] -= 1.0
        return -logs[rows, y].mean(), p.T @ X / n, p.mean(axis=0)
    values, slopes = losses(name, X @ w + b, y, gamma)
    return values.mean(), slopes @ X / n, slopes.mean()


def penalty(kind: str, w: Vector, s: float, l2: float) -> float:
    """Return s times a norm plus l2/2 |w|^2; the indicator function of a set counts as 0."""
    size = np.abs(w)
    norm = {
        "l1": lambda: size.sum(),
        "l2": lambda: math.sqrt((size**2).sum()),
        "linf": lambda: size.max(),
        "l1/l2": lambda: sum(math.sqrt(sum(x * x for x in column)) for column in w.T),
        "l1/linf": lambda: sum(max(abs(column)) for column in w.T),
    }
    return float(s * (norm[kind]() if kind in norm else 0.0) + l2 / 2 * (size**2).sum())


def prox(kind: str, v: Vector, eta: float, s: float, l2: float) -> Vector:
    """Return argmin eta penalty(w) + |w - v|^2 / 2; s is the radius of a set."""
    eta, v = eta / (1.0 + eta * l2), v / (1.0 + eta * l2)
    if kind == "l1":
        return np.sign(v) * np.maximum(np.abs(v) - eta * s, 0.0)
    if kind == "l2":
        return v * max(0.0, 1.0 - eta * s / max(math.sqrt((v**2).sum()), 1e-300))
    if kind == "linf":
        return (v.ravel() - ball(v.ravel(), eta * s)).reshape(v.shape)
    if kind == "l1/l2":
        return np.array([prox("l2", column, eta, s, 0.0) for column in v.T]).T
    if kind == "l1/linf":  # clip each column at c, so that the excess sums to eta s
        low, high = np.zeros(v.shape[1]), np.abs(v).max(axis=0)
        for _ in range(70):
            c = 0.5 * (low + high)
            above = np.maximum(np.abs(v) - c, 0.0).sum(axis=0) > eta * s
            low, high = np.where(above, c, low), np.where(above, high, c)
        return np.clip(v, -high, high)
    if kind == "l2-ball":
        return v * min(1.0, s / max(math.sqrt((v**2).sum()), 1e-300))
    rows = v if v.ndim > 1 else v[None]
    project = {
        "ball": lambda row: ball(row, s),
        "nonnegative": lambda row: ball(np.maximum(row, 0.0), s),
        "simplex": lambda row: simplex(row, s),
    }[kind]
    return np.array([project(row) for row in rows]).reshape(v.shape)


def ista(
    name: str,
    X: Matrix,
    y: Vector,
    kind: str,
    s: float,
    l2: float = 0.0,
    intercept: bool = False,
) -> tuple[float, Vector, float | Vector]:
    """Minimize by proximal gradient at the rate 1/L; return objective, weights and intercept."""
    k = 1 + int(max(y)) if name == "softmax" else None
    w = np.zeros(X.shape[1] if k is None else (k, X.shape[1]))
    b = 0.0 if k is None else np.zeros(k)
    wide = np.hstack([X, np.ones((len(X), 1))]) if intercept else X
    eta = len(X) / np.linalg.norm(wide, 2) ** 2
    for _ in range(800):
        _, gradient, slope = mean_loss(name, X, y, w, b)
        w = prox(kind, w - eta * gradient, eta, s, l2)
        b = b - eta * slope * intercept
    return mean_loss(name, X, y, w, b)[0] + penalty(kind, w, s, l2), w, b


def projected(
    name: str,
    X: Matrix,
    y: Vector,
    z: float,
    geometry: str,
    nonnegative: bool,
    lr: float,
    epochs: list[list[Rows]],
    schedule: str = "invsqrt",
) -> list[Vector]:
    """Return the weights after each epoch of projected or exponentiated gradient.

    `epochs` holds, for each epoch, the row indices of its batches; each batch is one step.
    """
    d, t, after_epochs = X.shape[1], 0, []
    w = np.zeros(d)
    plus, minus = np.full(d, z / (2 * d)), np.full(d, z / (2 * d))
    if nonnegative:
        plus, minus = np.full(d, z / d), np.zeros(d)
    if geometry == "eg":
        w = plus - minus
    for epoch in epochs:
        for rows in epoch:
            t += 1
            _, g, _ = mean_loss(name, X[rows], y[rows], w, 0.0)
            eta = {"invsqrt": lr / math.sqrt(t), "inverse": lr / t, "constant": lr}[schedule]
            if geometry == "eg":
                plus, minus = plus * np.exp(-eta * g), minus * np.exp(eta * g)
                mass = plus.sum() + minus.sum()
                plus, minus = plus * z / mass, minus * z / mass
                w = plus - minus
            else:
                v = w - eta * g
                w = ball(np.maximum(v, 0.0) if nonnegative else v, z)
        after_epochs.append(w)
    return after_epochs


def frank_wolfe(name: str, X: Matrix, y: Vector, radius: float, steps: int) -> list[Vector]:
    """Return the weights after each greedy step in the l1 ball.

    The step size minimizes the quadratic with the largest second derivative of the loss.
    """
    n, d = X.shape
    beta = {"logistic": 0.25, "squared": 1.0, "smoothed_hinge": 1.0}[name]
    w, path = np.zeros(d), []
    for _ in range(steps):
        g = X.T @ losses(name, X @ w, y)[1] / n
        j = int(np.argmax(np.abs(g)))
        s = np.zeros(d)
        s[j] = -radius * np.sign(g[j])
        descent = float(g @ (w - s))
        share = min(1.0, descent / (beta * float(np.mean((X @ (s - w)) ** 2))))
        w = w + share * (s - w)
        path.append(w)
    return path


def structured_ascent(
    outputs: list[list[tuple[float, Vector]]], l2: float, epochs: int, keep: bool
) -> tuple[list[Vector], list[float], list[float]]:
    """Return the weights, the primal and the dual objective after each pass in order.

    `outputs` lists the cost and the difference of features of every output of every example. All
    have a dual variable. A step moves them towards the worst output; with `keep`, it is the best
    distribution over this output and those in use, by moves from one output to another. Ternary
    search finds how much is best for the dual objective.
    """
    n = len(outputs)
    costs = [np.array([cost for cost, _ in some]) for some in outputs]
    differences = [np.array([difference for _, difference in some]) for some in outputs]
    p = [np.array([float(not cost and not any(v)) for cost, v in some]) for some in outputs]
    p = [some / some.sum() for some in p]

    def weights(q: list[Vector]) -> Vector:
        total = np.sum([a @ b for a, b in zip(q, differences, strict=True)], axis=0)
        return np.asarray(total / (l2 * n))

    def dual(q: list[Vector]) -> float:
        mean = sum(float(a @ b) for a, b in zip(q, costs, strict=True)) / n
        return mean - 0.5 * l2 * float(weights(q) @ weights(q))

    def moved(q: list[Vector], i: int, direction: Vector, share: float) -> list[Vector]:
        return [*q[:i], q[i] + share * direction, *q[i + 1 :]]

    def best_move(q: list[Vector], i: int, direction: Vector, limit: float) -> list[Vector]:
        low, high = 0.0, limit
        for _ in range(60):
            third = (high - low) / 3.0
            near, far = moved(q, i, direction, low + third), moved(q, i, direction, high - third)
            low, high = (low + third, high) if dual(near) < dual(far) else (low, high - third)
        return moved(q, i, direction, limit if limit - high < 1e-6 * limit else low)

    path, primals, duals = [], [], []
    for _ in range(epochs):
        for i in range(n):
            values = costs[i] - differences[i] @ weights(p)
            corners = np.eye(len(values))
            worst = int(values.argmax())
            gap = float(values[worst] - p[i] @ values)
            if not keep:
                p = best_move(p, i, corners[worst] - p[i], 1.0)
                continue
            used = sorted({worst, *np.flatnonzero(p[i] > 0.0).tolist()})
            while True:
                values = costs[i] - differences[i] @ weights(p)
                to = max(used, key=lambda s: values[s])  # noqa: B023
                positive = [s for s in used if p[i][s] > 0.0]
                source = min(positive, key=lambda s: values[s])  # noqa: B023
                if values[to] - values[source] <= 1e-5 * gap:
                    break
                p = best_move(p, i, corners[to] - corners[source], float(p[i][source]))
        w = weights(p)
        hinges = [float(np.max(a - b @ w)) for a, b in zip(costs, differences, strict=True)]
        path.append(w)
        primals.append(float(np.mean(hinges)) + 0.5 * l2 * float(w @ w))
        duals.append(dual(p))
    return path, primals, duals
