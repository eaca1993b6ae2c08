"""Softmax, residuals and intercepts of the rules with several labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, u64
from streaml1.core.simd import array_at

__all__ = [
    "begin_outputs",
    "finish_outputs",
    "first_largest",
    "move_intercepts",
    "softmax",
    "softmax_residuals",
    "wants_margins",
]


@inlined
def first_largest(a: Any, k: Any) -> Any:
    """Return the index of the first largest of k margins."""
    best = u64(0)
    for c in range(u64(1), k):
        if a[c] > a[best]:
            best = np.uint64(c)
    return best


@inlined
def softmax(a: Any, k: Any) -> Any:
    """Turn margins into probabilities in place; return the index of the first largest."""
    best = first_largest(a, k)
    largest, total = a[best], 0.0
    for c in range(k):
        e = math.exp(a[c] - largest)
        a[c] = e
        total += e
    for c in range(k):
        a[c] /= total
    return best


@inlined
def softmax_residuals(
    r: Any, b: Any, n_seen: Any, scale: float, shared: Any, y: float, w: float, out: Any
) -> float:
    """Turn margins into residuals in place, and write probabilities to `out`.

    Parameters
    ----------
    r
        Margins without intercepts, divided by `scale`; becomes the clipped and weighted residuals.
    b
        Intercepts.
    n_seen
        Number of labels seen. A label `y` beyond those joins with a margin of 0.
    shared
        The online record.
    y, w
        Label and sample weight.
    out
        Address for the probabilities, or 0.

    Returns
    -------
    float
        Probability of the first label.
    """
    label = np.uint64(y)
    k = np.uint64(n_seen)
    for c in range(k, label + u64(1)):
        r[c] = 0.0
        k = np.uint64(c) + u64(1)
    for c in range(k):
        r[c] = r[c] * scale + b[c]
    softmax(r, k)
    first: float = r[0]
    if out:
        probabilities = array_at(out, k, np.float64)
        for c in range(k):
            probabilities[c] = r[c]
    r[label] -= 1.0
    limit = shared.clip_gradient
    for c in range(k):
        r[c] = max(-limit, min(limit, r[c])) * w
    return first


@inlined
def move_intercepts(b: Any, r: Any, k: Any, eta: float) -> None:
    """Move k intercepts against the residuals `r` at the rate `eta`."""
    for c in range(np.uint64(k)):
        b[c] -= eta * r[c]


@inlined
def begin_outputs(out: Any, k: Any) -> bool:
    """Write k to the float at `out`; return whether k floats fit behind it, and k > 0.

    If so, these are set to 0.

    Before, the float is the number of floats that fit; it is negative if margins are wanted (see
    `wants_margins`).
    """
    count = array_at(out, 1, np.float64)
    n_fitting = abs(count[0])
    count[0] = k
    if n_fitting < k or not k:
        return False
    a = array_at(out + u64(8), k, np.float64)
    for c in range(k):
        a[c] = 0.0
    return True


@inlined
def finish_outputs(a: Any, b: Any, scale: float, k: Any, only_margins: bool) -> float:
    """Complete k margins, given over `scale` and without the intercepts `b`, in place.

    Returns the index of the first largest. They become probabilities unless `only_margins`.
    """
    for c in range(k):
        a[c] = a[c] * scale + b[c]
    return float(first_largest(a, k) if only_margins else softmax(a, k))


@inlined
def wants_margins(out: Any) -> bool:
    """Return whether margins go to `out` instead of probabilities; call before `begin_outputs`."""
    return bool(array_at(out, 1, np.float64)[0] < 0.0)
