"""What rules of many labels share: probabilities, residuals, intercepts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.simd import array_at

__all__ = ["answer", "fits", "softmax"]

ONE = np.uint64(1)


@inlined
def softmax(a: Any, k: Any) -> Any:
    """Turn margins into probabilities, in place; returns the place of the first largest."""
    best = np.uint64(0)
    for c in range(ONE, k):
        if a[c] > a[best]:
            best = np.uint64(c)
    most, total = a[best], 0.0
    for c in range(k):
        e = math.exp(a[c] - most)
        a[c] = e
        total += e
    for c in range(k):
        a[c] /= total
    return best


@inlined
def answer(
    r: Any, b: Any, met: Any, scale: float, shared: Any, y: float, w: float, out: Any
) -> float:
    """Probabilities to `out`; margins over the scale become residuals; intercepts move.

    Returns the probability of the first label. A label beyond those met joins.
    """
    label = np.uint64(y)
    k = np.uint64(met)
    for c in range(k, label + ONE):
        r[c] = 0.0
        k = np.uint64(c) + ONE
    for c in range(k):
        r[c] = r[c] * scale + b[c]
    softmax(r, k)
    first: float = r[0]
    if out:
        told = array_at(out, k, np.float64)
        for c in range(k):
            told[c] = r[c]
    r[label] -= 1.0
    most = shared.clip_gradient
    for c in range(k):
        g = max(-most, min(most, r[c])) * w
        r[c] = g
        b[c] -= shared.intercept_lr * g
    return first


@inlined
def fits(out: Any, k: Any) -> bool:
    """Whether the outputs of k labels, one or more, fit at `out`; says there how many they are."""
    head = array_at(out, 1, np.float64)
    room = head[0]
    head[0] = k
    return bool(room >= k and k)
