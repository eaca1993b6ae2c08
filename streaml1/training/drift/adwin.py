"""ADWIN: a window over a stream of numbers that drops what no longer fits (Bifet & Gavalda 2007).

The window is an exponential histogram. A bucket of row r holds the sums of `bucket * 2**r`
consecutive examples; a row of more than `MAX_BUCKETS` merges its two oldest into one of the next.
So n examples take about `MAX_BUCKETS * log2(n / bucket)` buckets. Every `CLOCK` examples each
border between two buckets is tested: the window is cut if the means before and after it differ by
more than chance allows at confidence delta.

Four things differ from the paper. The bound is for numbers up to the largest in the window, not
up to 1, so that small numbers are tested as sharply. Examples are summed eight at a time before
they enter the histogram, which leaves a few nanoseconds per example. Of all significant borders the
window is cut at the most likely one (the largest between-group sum of squares), not bucket by
bucket from the old end, so that the rest of the window is what came after the change. And each
bucket also sums a second number, the loss, which is reported and not tested.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.types import Bools, Floats, Ints

__all__ = ["CLOCK", "DELTA", "MAX_BUCKETS", "AdaptiveWindow", "Cut"]

MAX_BUCKETS = 5
"""Buckets of a row before its two oldest are merged."""

CLOCK = 32
"""Examples between two tests."""

BUCKET = 8
"""Examples of a bucket of row 0."""

MIN_SIDE = 5
"""Smallest number of examples on either side of a border that is tested."""

DELTA = 2e-3
"""Confidence: bounds the probability of a cut where there was no change, at a single test."""

ROWS = 48
"""More rows than any stream fills."""

WIDTH = MAX_BUCKETS + 1  # buckets of a row
SUMS = 4  # numbers of a bucket: sums of x, x * x and loss; the largest x


class Cut(NamedTuple):
    """A change that was found: the window was cut in two, and its older part dropped.

    Parameters
    ----------
    pos
        Number of values of this call up to the test that found it.
    n_after
        Examples left in the window.
    x_before, x_after
        Mean of x in the dropped part, and in what is left.
    loss_before, loss_after
        The same of the losses.
    """

    pos: int
    n_after: int
    x_before: float
    x_after: float
    loss_before: float
    loss_after: float


class AdaptiveWindow:
    """A window of the last numbers that have about the same mean.

    Parameters
    ----------
    delta
        Confidence: smaller values find fewer changes, later.
    bucket
        Examples that are summed up before they enter the histogram; it divides `CLOCK`.

    Attributes
    ----------
    counts : ndarray of int64
        Number of buckets in each row.
    buckets : ndarray of float64
        Sums of the buckets, row by row, the oldest of a row first.
    open : ndarray of float64
        The bucket that is not full yet: examples, sums; then the full buckets since the last test.

    References
    ----------
    [^1]: Bifet, A. and Gavalda, R., 2007. Learning from time-changing data with adaptive windowing.
          SIAM International Conference on Data Mining: ADWIN2, with the bound of section 3.

    Examples
    --------
    >>> import numpy as np
    >>> window = AdaptiveWindow()
    >>> x = np.repeat([0.1, 0.9], [1000, 100])
    >>> cut = window.add(x, x)
    >>> cut.pos, cut.n_after, round(cut.x_before, 3), round(cut.x_after, 3)
    (1024, 24, 0.1, 0.9)
    """

    def __init__(self, delta: float = DELTA, bucket: int = BUCKET) -> None:
        self.delta, self.bucket = delta, bucket
        self.counts: Ints = np.zeros(ROWS, np.int64)
        self.buckets: Floats = np.zeros(ROWS * WIDTH * SUMS)
        self.open: Floats = np.zeros(1 + SUMS + 1)
        self._cut: Floats = np.empty(6)

    @property
    def n(self) -> int:
        """Number of examples in the window."""
        return int(self.open[0] + self.bucket * (self.counts << np.arange(ROWS)).sum())

    @property
    def until_test(self) -> int:
        """Number of examples until the next test, at least 1."""
        return int(CLOCK - self.bucket * self.open[5] - self.open[0])

    def live_buckets(self) -> Floats:
        """Return a copy of the sums of all buckets, row by row."""
        return self.buckets.reshape(ROWS, WIDTH, SUMS)[self._is_live()].ravel()

    def restore_buckets(self, sums: Floats) -> None:
        """Set the sums of all buckets, after `counts`."""
        buckets = self.buckets.reshape(ROWS, WIDTH, SUMS)
        buckets[self._is_live()] = sums.reshape(-1, SUMS)

    def _is_live(self) -> Bools:
        live: Bools = np.arange(WIDTH) < self.counts[:, None]
        return live

    def clear(self) -> None:
        """Empty the window."""
        self.counts[:] = 0
        self.open[:] = 0.0

    def add(self, x: Floats, loss: Floats, start: int = 0) -> Cut | None:
        """Add numbers until the window is cut; return the cut, or None after the last number.

        Parameters
        ----------
        x
            The numbers, from 0 to 1. What is not finite is left out.
        loss
            A further number for each, whose means are returned.
        start
            Position to start at: `pos` of the previous cut in the same arrays.
        """
        args = self.counts, self.buckets, self.open, self._cut, self.delta, self.bucket
        pos = int(_add(*args, x, loss, start))  # interpreted, it is an integer of numpy
        if pos < 0:
            return None
        n_before, x_before, loss_before, n_after, x_after, loss_after = self._cut.tolist()
        return Cut(
            pos,
            int(n_after),
            x_before / n_before,
            x_after / n_after,
            loss_before / n_before,
            loss_after / n_after,
        )


@kernel
def _add(
    counts: Any,
    buckets: Any,
    open: Any,
    cut: Any,
    delta: float,
    bucket: int,
    x: Any,
    loss: Any,
    start: int,
) -> int:
    """Add numbers up to the next cut; return the position after it, or -1."""
    n, sum_x, sum_squares, sum_loss, top, since_test = open
    end, i = np.uint64(len(x)), np.uint64(start)
    pos: Any = np.int64(-1)
    while i < end:
        # Sum up to the end of the bucket in order: the sums do not depend on the blocks.
        k = min(np.uint64(bucket - n), end - i)
        before = sum_x, sum_squares, sum_loss, top
        for j in range(i, i + k):
            sum_x += x[j]
            sum_squares += x[j] * x[j]
            sum_loss += loss[j]
            top = max(top, x[j])
        if sum_squares - sum_squares + (sum_loss - sum_loss) == 0.0:
            n += k
        else:  # some are not finite
            sum_x, sum_squares, sum_loss, top = before
            for j in range(i, i + k):
                if math.isfinite(x[j]) and math.isfinite(loss[j]):
                    n += 1.0
                    sum_x += x[j]
                    sum_squares += x[j] * x[j]
                    sum_loss += loss[j]
                    top = max(top, x[j])
        i += k
        if n < bucket:
            continue
        _push(counts, buckets, sum_x, sum_squares, sum_loss, top)
        n = sum_x = sum_squares = sum_loss = top = 0.0
        since_test += 1.0
        if since_test * bucket >= CLOCK:
            since_test = 0.0
            if _test(counts, buckets, cut, delta, bucket):
                pos = np.int64(i)
                break
    open[0], open[1], open[2], open[3] = n, sum_x, sum_squares, sum_loss
    open[4], open[5] = top, since_test
    return pos  # type: ignore[no-any-return]


@inlined
def _push(
    counts: Any, buckets: Any, sum_x: float, sum_squares: float, sum_loss: float, top: float
) -> None:
    """Append a bucket to row 0, and merge the two oldest of each row that is too long."""
    row = 0
    while True:
        base, k = row * WIDTH * SUMS, counts[row]
        place = base + k * SUMS
        buckets[place], buckets[place + 1] = sum_x, sum_squares
        buckets[place + 2], buckets[place + 3] = sum_loss, top
        counts[row] = k + 1
        if k < MAX_BUCKETS:
            return
        sum_x = buckets[base] + buckets[base + SUMS]
        sum_squares = buckets[base + 1] + buckets[base + SUMS + 1]
        sum_loss = buckets[base + 2] + buckets[base + SUMS + 2]
        top = max(buckets[base + 3], buckets[base + SUMS + 3])
        _drop_oldest(counts, buckets, row, 2)
        row += 1


@inlined
def _drop_oldest(counts: Any, buckets: Any, row: int, k: int) -> None:
    base, left = row * WIDTH * SUMS, counts[row] - k
    for i in range(left * SUMS):
        buckets[base + i] = buckets[base + k * SUMS + i]
    counts[row] = left


@inlined
def _test(counts: Any, buckets: Any, cut: Any, delta: float, bucket: int) -> bool:
    """Cut the window until all of its borders are insignificant; return whether it was cut."""
    n_before = x_before = loss_before = 0.0
    while True:
        rows = 0
        n = total = squares = loss = top = 0.0
        size = float(bucket)
        # Sum up again: running totals from which buckets are subtracted would keep rounding errors.
        for row in range(ROWS):
            if counts[row] == 0:
                break  # a row without buckets has none above it
            for k in range(counts[row]):
                place = (row * WIDTH + k) * SUMS
                n += size
                total += buckets[place]
                squares += buckets[place + 1]
                loss += buckets[place + 2]
                top = max(top, buckets[place + 3])
            size += size
            rows += 1
        best_row, best_k, best_n, best_x, best_loss = -1, -1, 0.0, 0.0, 0.0
        if n >= 2 * MIN_SIDE:
            variance = max(0.0, squares / n - (total / n) * (total / n))
            log_term = math.log(2.0 * math.log(n) / delta)
            # The means differ by D / (n0 n1). The bound of the paper, with m = n0 n1 / n, is
            # sqrt(2 / m * variance * log_term) + 2 / (3 m) * log_term * (largest number): multiply
            # by n0 n1 and square, and a test needs neither division nor square root.
            linear = 2.0 / 3.0 * log_term * n * top
            square = 2.0 * variance * log_term * n
            best = 0.0
            n0 = x0 = loss0 = 0.0
            for row in range(rows - 1, -1, -1):
                size *= 0.5
                for k in range(counts[row]):
                    place = (row * WIDTH + k) * SUMS
                    n0 += size
                    x0 += buckets[place]
                    loss0 += buckets[place + 2]
                    n1 = n - n0
                    excess = abs(x0 * n - total * n0) - linear
                    product = n0 * n1
                    if excess <= 0.0 or excess * excess <= square * product:
                        continue
                    if n0 < MIN_SIDE or n1 < MIN_SIDE:
                        continue
                    between = (excess + linear) * (excess + linear) / product
                    if between > best:
                        best = between
                        best_row, best_k, best_n, best_x, best_loss = row, k, n0, x0, loss0
        if best_row < 0:
            break
        n_before += best_n
        x_before += best_x
        loss_before += best_loss
        for row in range(best_row + 1, rows):
            counts[row] = 0
        _drop_oldest(counts, buckets, best_row, best_k + 1)
    cut[0], cut[1], cut[2] = n_before, x_before, loss_before
    cut[3], cut[4], cut[5] = n, total, loss
    return n_before > 0.0
