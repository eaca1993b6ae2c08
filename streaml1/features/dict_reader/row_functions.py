"""Functions that predict or learn a row: one pair for each class of update rules.

The kernels in `entry_points` call them by their addresses, which are in the context. So rules and
readers of dicts are compiled once each, and not every rule with every reader.

Passing a rule, a tuple of arrays, costs two microseconds per call; rebuilding it from the addresses
of its arrays costs a twentieth of that. Addresses do not carry the class, so `bound_kernel` binds
it before compilation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.simd import array_at, rule_at
from streaml1.features.dict_reader.context_fields import MAX_FIELDS, RECORD, RULE_ARRAYS
from streaml1.optim.loop import ONLINE, learn_row, predict_row

__all__ = ["learn", "predict"]

Rule: Any = None
"""The class of the rule, bound by `bound_kernel`."""


def predict(address: int, ids: int, values: int, n: int, out: int) -> float:
    """Return `loop.predict_row` of the model with a context, for rows at two addresses."""
    context = array_at(address, MAX_FIELDS, np.uint64)
    rule, online = rule_at(Rule, context, RULE_ARRAYS), array_at(context[RECORD], 1, ONLINE)
    slots, numbers = array_at(ids, n, np.uint32), array_at(values, n, np.float64)
    return predict_row(rule, online, slots, numbers, n, out)


def learn(address: int, ids: int, values: int, n: int, y: float, w: float, eta: float) -> int:
    """Return `loop.learn_row` of the model with a context, for a row at two addresses."""
    context = array_at(address, MAX_FIELDS, np.uint64)
    rule, online = rule_at(Rule, context, RULE_ARRAYS), array_at(context[RECORD], 1, ONLINE)
    slots, numbers = array_at(ids, n, np.uint32), array_at(values, n, np.float64)
    return learn_row(rule, online, slots, numbers, n, y, w, eta)
