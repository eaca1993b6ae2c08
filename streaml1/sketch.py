"""How many distinct names there were, in 4 kB."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.rows import ensure

__all__ = ["Sketch"]


class Sketch:
    """How many distinct names have been added.

    A HyperLogLog of 4,096 registers (Flajolet, Fusy, Gandouet & Meunier 2007): the standard
    error of the estimate is 1.04 / sqrt(4096), 1.6%.

    Examples
    --------
    >>> sketch = Sketch()
    >>> from streaml1.hashing import name_hashes
    >>> hashes = name_hashes([f"word {k}" for k in range(1000)])
    >>> sketch.add(hashes)
    >>> sketch.add(hashes)
    >>> abs(sketch.estimate() - 1000) < 50
    True
    """

    BITS = 12

    def __init__(self, registers: Any = None) -> None:
        self.registers = np.zeros(1 << self.BITS, np.uint8) if registers is None else registers

    def check(self) -> None:
        """Raise AssertionError where the registers are none."""
        r = self.registers
        ensure(r.dtype == np.uint8 and r.shape == (1 << self.BITS,), "the sketch is no registers")
        ensure(np.all(r <= 53), "a register of the sketch is out of range")

    def copy(self) -> Sketch:
        """Return a sketch that goes on by itself."""
        return Sketch(self.registers.copy())

    def add(self, h: Any) -> None:
        """Count names by their hashes of `streaml1.hashing`."""
        register = (h >> np.uint64(64 - self.BITS)).astype(np.intp)
        rest = h & np.uint64((1 << 52) - 1)
        rank = 53 - np.frexp(rest.astype(np.float64))[1]
        np.maximum.at(self.registers, register, rank.astype(np.uint8))

    def estimate(self) -> int:
        """About how many distinct names have been added."""
        m = len(self.registers)
        raw = 0.7213 / (1.0 + 1.079 / m) * m * m / np.sum(np.exp2(-self.registers.astype(float)))
        empty = np.count_nonzero(self.registers == 0)
        if raw <= 2.5 * m and empty:
            raw = m * np.log(m / empty)
        return round(float(raw))
