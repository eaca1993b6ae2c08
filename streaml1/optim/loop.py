"""The online loop: predict, then learn. One loop for every update rule and every loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import gil_kernel, inlined, kernel, u64
from streaml1.core.rows import is_canonical_row
from streaml1.core.simd import borrowed
from streaml1.optim import losses
from streaml1.optim.update_rule import (
    accepts,
    apply_gradient,
    apply_penalty,
    has_capacity,
    is_zero_block,
    margin,
    output_and_gradient,
    predict,
    prefetch_next,
    weight,
)

__all__ = [
    "DONE",
    "IRREGULAR",
    "NO_CAPACITY",
    "ONLINE",
    "OVER_CAP",
    "STORED_LAYOUTS",
    "TOO_MANY_FEATURES",
    "add_offsets",
    "learn",
    "learn_row",
    "nonzero_weights",
    "predict_row",
    "predict_rows",
    "step",
    "weights_at",
]

# Why `learn` and `learn_row` have stopped.
DONE = 0
IRREGULAR = 1  # the next row is not a valid row, see `core.rows.is_canonical_row`
NO_CAPACITY = -2  # the rule must `reserve` room before the next row
TOO_MANY_FEATURES = -4  # the next row exceeds the number of distinct features the rule may see
OVER_CAP = -16  # the last row was learnt, and the model may have more weights than its cap


# The state of every online learner in addition to its rule.
ONLINE = np.dtype(
    [
        ("t", "i8"),  # examples learnt
        ("b", "f8"),  # intercept
        ("intercept_lr", "f8"),
        ("clip_gradient", "f8"),
        ("loss", "i8"),  # code of the loss
        ("most", "i8"),  # cap of the number of non-zero weights; 0: no cap
        ("held", "i8"),  # with a cap: upper bound of their number
        ("cut", "i8"),  # weights dropped for the cap
        ("loss_parameter", "f8"),  # see `losses`
        ("positive_weight", "f8"),  # factor of the sample weights of positive labels
        ("rates_from", "i8"),  # examples learnt when the schedule of the rates last started
        ("offset", "f8"),  # added to the margin of the next row to learn; 0 after it
    ],
    align=True,
)


def _first_fields(n: int) -> np.dtype[Any]:
    return np.dtype([(name, ONLINE[name]) for name in (ONLINE.names or ())[:n]], align=True)


STORED_LAYOUTS = tuple(_first_fields(n) for n in (11, 10, 9, 8))
"""The layouts of `ONLINE` in model files: today's without the offset, then those of the past."""


@inlined
def step(
    rule: Any,
    online: Any,
    ids: Any,
    values: Any,
    lo: Any,
    hi: Any,
    a: float,
    y: float,
    w: float,
    eta: float,
    out: Any,
) -> float:
    """Learn one row whose `margin` was `a`; return its prediction from before the step.

    That is the first result of `update_rule.output_and_gradient`. The offset of the row is in the
    online record.
    """
    o = online[0]
    before = _count_nonzero(rule, ids, lo, hi) if o.most else 0
    if y > 0.0:
        w *= o.positive_weight
    p, g = output_and_gradient(rule, online, a, y, w, out)
    apply_gradient(rule, ids, values, lo, hi, eta * g)
    apply_penalty(rule, eta)
    o.t += 1
    o.offset = 0.0
    if o.most:
        o.held += _count_nonzero(rule, ids, lo, hi) - before
    return float(p)


@gil_kernel
def _count_nonzero(rule: Any, ids: Any, lo: Any, hi: Any) -> int:
    """Return the number of non-zero weights of a row."""
    n = 0
    for k in range(lo, hi):
        n += weight(rule, np.uint64(ids[k])) != 0.0
    return n


@kernel
def learn(
    rule: Any,
    online: Any,
    ids: Any,
    values: Any,
    indptr: Any,
    y: Any,
    w: Any,
    offset: Any,
    eta: Any,
    p: Any,
    start: Any,
    d: Any,
) -> Any:
    """Predict the rows from `start` into `p` and learn them, one after the other.

    Parameters
    ----------
    rule, online
        The update rule, and a record of `ONLINE`.
    ids, values, indptr
        CSR rows; slots are uint32.
    y
        Label of each row.
    w, offset, eta
        Sample weight, offset of the margin and learning rate: one for all rows, or one for each.
    p
        Predictions of the rows before they are learnt, of the length of `y`. With a rule of k
        outputs, the first output of each row, or if k times as long all outputs.
    start
        Index of the first row.
    d
        If not 0, each row is validated first: its slots must be below `d`. To do so here and not
        in a pass of its own saves reading the rows from memory twice.

    Returns
    -------
    tuple of int
        DONE and the number of rows; or NO_CAPACITY, TOO_MANY_FEATURES or IRREGULAR and the index
        of the row that was not learnt; or OVER_CAP and the index after the row that was.

    Notes
    -----
    A plain tuple: numba runs Python code to return a named one, and crashes where a signal
    interrupts that.
    """
    rule, online = borrowed(rule), borrowed(online)
    ids, values, indptr = borrowed(ids), borrowed(values), borrowed(indptr)
    n = np.uint64(len(y))
    start, d = np.uint64(start), np.uint64(d)
    k_out = np.uint64(len(p)) // max(n, u64(1))
    outputs = np.uint64(p.ctypes.data)
    has_cap = online[0].most != 0
    # Strides: 1 if there is an element for each row, else 0.
    w_stride, eta_stride = np.uint64(len(w) == n), np.uint64(len(eta) == n)
    offset_stride = np.uint64(len(offset) == n)
    plain = (
        not d
        or start >= n
        or is_canonical_row(ids, values, indptr[start], indptr[start + u64(1)], d)
    )
    for i in range(start, n):
        lo = indptr[i]
        hi = indptr[i + u64(1)]
        if not plain:
            return IRREGULAR, np.int64(i)
        if not has_capacity(rule, hi - lo):
            return NO_CAPACITY, np.int64(i)
        if not accepts(rule, ids, lo, hi):
            return TOO_MANY_FEATURES, np.int64(i)
        prefetch_next(rule, ids, values, lo, hi)
        first = k_out * i
        out = outputs + u64(8) * first if k_out > u64(1) else u64(0)
        a = margin(rule, ids, values, lo, hi)
        if d and i + u64(1) < n:  # validating the next row fills the latency of this margin
            plain = is_canonical_row(ids, values, hi, indptr[i + u64(2)], d)
        w_i, eta_i = w[i * w_stride], eta[i * eta_stride]
        online[0].offset = offset[i * offset_stride]
        p[first] = step(rule, online, ids, values, lo, hi, a, y[i], w_i, eta_i, out)
        if has_cap and online[0].held > online[0].most:
            return OVER_CAP, np.int64(i + u64(1))
    return DONE, np.int64(n)


@kernel
def nonzero_weights(rule: Any, slots: Any, weights: Any) -> int:
    """Write the slots of the non-zero weights, in order, and these weights; return their number.

    `slots` and `weights` are as long as the rule has slots.
    """
    rule = borrowed(rule)
    n, size = u64(0), np.uint64(len(slots))
    for first in range(u64(0), size, u64(8)):
        end = min(first + u64(8), size)
        # Most blocks are zero if features are hashed.
        if end - first == u64(8) and is_zero_block(rule, first):
            continue
        for j in range(first, end):
            w = weight(rule, j)
            slots[n] = j  # written in any case: whether the weight is zero is unpredictable
            weights[n] = w
            n += np.uint64(w != 0.0)
    return int(n)


@kernel
def weights_at(rule: Any, slots: Any, weights: Any) -> None:
    """Write the weights of some slots to `weights`."""
    rule = borrowed(rule)
    for k in range(np.uint64(len(slots))):
        weights[k] = weight(rule, np.uint64(slots[k]))


@inlined
def predict_row(rule: Any, online: Any, ids: Any, values: Any, n: Any, out: Any) -> float:
    """Return `update_rule.predict` of the first `n` elements of `ids` and `values`."""
    return predict(rule, online, ids, values, u64(0), np.uint64(n), np.uint64(out))


@inlined
def learn_row(
    rule: Any, online: Any, ids: Any, values: Any, n: Any, y: float, w: float, eta: float
) -> int:
    """Learn the first `n` elements of `ids` and `values` as one row.

    Its offset is in the online record.

    Returns
    -------
    int
        The new t; or OVER_CAP - t if the row was learnt and the cap may be exceeded; or
        NO_CAPACITY or TOO_MANY_FEATURES if the row was not learnt.
    """
    if not has_capacity(rule, np.uint64(n)):
        return NO_CAPACITY
    if not accepts(rule, ids, u64(0), np.uint64(n)):
        return TOO_MANY_FEATURES
    lo, hi = u64(0), np.uint64(n)
    a = margin(rule, ids, values, lo, hi)
    step(rule, online, ids, values, lo, hi, a, y, w, eta, u64(0))
    o = online[0]
    return int(OVER_CAP - o.t if o.held > o.most else o.t)


@kernel
def predict_rows(
    rule: Any, online: Any, ids: Any, values: Any, indptr: Any, a: Any, out: Any, stride: Any
) -> None:
    """Write `update_rule.predict` of CSR rows to `a`; row i gets the address `out + stride i`."""
    rule, online = borrowed(rule), borrowed(online)
    ids, values, indptr = borrowed(ids), borrowed(values), borrowed(indptr)
    out, stride = np.uint64(out), np.uint64(stride)
    for i in range(np.uint64(len(a))):
        lo, hi = indptr[i], indptr[i + u64(1)]
        a[i] = predict(rule, online, ids, values, lo, hi, out + stride * i)


@kernel
def add_offsets(online: Any, a: Any, offset: Any, out: Any) -> None:
    """Add its offset to each margin in place; with `out`, replace it by its `losses.response`."""
    loss = online[0].loss
    for i in range(np.uint64(len(a))):
        margin_i = a[i] + offset[i]
        a[i] = losses.response(loss, margin_i) if out else margin_i
