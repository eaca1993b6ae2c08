"""The examples of an ascent in the dual: who is gone through, who rests, and when to look."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from streaml1.solvers.sampling import RANDOM, arrange
from streaml1.solvers.solution import Trace

__all__ = ["Pool", "ascend"]


class Pool:
    """The examples of the next epoch, those left out that rest against a bound.

    Parameters
    ----------
    how
        One of `ORDERS`: permuted, drawn (then none is left out) or in turn.
    n
        How many examples there are.
    dice
        The state of a `generator`.

    Attributes
    ----------
    m : int
        How many come in the next epoch.
    accesses : int
        How many entries of the matrix have been read.
    """

    def __init__(self, how: int, n: int, dice: Any) -> None:
        self.how, self.n, self.dice = how, n, dice
        self.every = np.arange(n, dtype=np.uint32)
        self.order, self.rest = self.every.copy(), self.every.copy()
        self.accesses = 0
        self.begin()

    def begin(self) -> None:
        """Let all examples come again."""
        self.left, self.m, self.far = self.every.copy(), self.n, math.inf

    def turn(self) -> tuple[Any, int, float, Any]:
        """What a kernel goes through.

        Returns
        -------
        tuple
            The order; how many of it; how far margins were moved by their own steps in the epoch
            before, at most; and where to put those that stay.
        """
        arrange(self.how, self.left, self.m, self.dice, self.order)
        return self.order, self.m, self.far, self.rest

    def taken(self, kept: Any, most: float, read: Any) -> None:
        """Leave out all but the `kept` examples that the kernel put into `rest`."""
        self.accesses += int(read)
        if self.how != RANDOM:
            self.left, self.rest = self.rest, self.left
            self.m, self.far = int(kept), most or math.inf


def ascend(
    pool: Pool, trace: Trace, epoch: Callable[[], float], look: Callable[[int], bool]
) -> None:
    """Take epochs until `look`, given their number, says that the run ends.

    `epoch` tells the gap as its parts were met: it is looked at where this is small or a look is
    due. Where it is small without those that rest, all come back.
    """
    number, done = 0, look(0)
    while not done:
        gap = epoch()
        number += 1
        small = gap <= trace.goal or not pool.m
        if small or trace.due(number):
            done = look(number)
        if small and pool.m < pool.n:
            pool.begin()
