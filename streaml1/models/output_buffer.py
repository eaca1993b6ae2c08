"""Memory that a kernel writes several outputs of one example into."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

__all__ = ["outputs_of", "table_of"]

_IDLE: list[array[float]] = []


def outputs_of(reader: Any, x: Any) -> tuple[int, array[float]]:
    """Place of the largest probability of an example, and the probabilities.

    The memory is used again, but by no two callers at once.
    """
    try:
        memory = _IDLE.pop()
    except IndexError:
        memory = array("d", bytes(8 * 65))
    while True:
        address, length = memory.buffer_info()
        memory[0] = length - 1
        best = int(reader.margin(x, address))
        k = int(memory[0])
        if k < length:
            break
        memory = array("d", bytes(8 * (2 * k + 1)))
    p = memory[1 : k + 1]
    _IDLE.append(memory)
    return best, p


def table_of(reader: Any, batch: Any) -> tuple[Any, Any]:
    """Places of the largest probabilities of rows, and all probabilities, shape (n, k)."""
    k = int(reader.rule.clock[0].k)
    memory = np.zeros((batch.n, k + 1))
    memory[:, 0] = k
    best = reader.margins(batch, memory.ctypes.data, memory.strides[0])
    return best, memory[:, 1:]
