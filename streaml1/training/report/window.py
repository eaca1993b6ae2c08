"""The last outputs and labels, for the area under the ROC curve."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["WINDOW", "WINDOW_NAME", "Window", "area_under"]

WINDOW = 2**20
"""How many examples, the last ones, ROC AUC looks at."""

# Ranking a full window takes 0.1 seconds: it is done anew once this share of it is new.
RANK_SHARE = 1 / 32

WINDOW_NAME = f"last 2^{WINDOW.bit_length() - 1}"


class Window:
    """The last `WINDOW` outputs and labels, for the area under the ROC curve."""

    def __init__(self) -> None:
        self.p = np.empty(WINDOW)
        self.y = np.empty(WINDOW, bool)
        self.n = 0
        self.ranked_at = 0
        self._area: float | None = None  # as of `ranked_at`, unless a label has turned since

    def add(self, p: Any, y: Any) -> None:
        """Take in outputs and labels of consecutive examples."""
        at = (self.n + max(0, len(p) - WINDOW)) % WINDOW
        self.n += len(p)
        for kept, new in ((self.p, p[-WINDOW:]), (self.y, y[-WINDOW:])):
            before_end = min(len(new), WINDOW - at)
            kept[at : at + before_end] = new[:before_end]
            kept[: len(new) - before_end] = new[before_end:]

    def turn(self, number: int) -> None:
        """Have the label of an example, by its number from 0, be True if it is among the last."""
        if number >= self.n - WINDOW:
            self.y[number % WINDOW] = True
            self._area = None

    def auc(self, anyway: bool = False) -> float | None:
        """The area; None where too few are new, but for `anyway`, and where there is no curve."""
        m = min(self.n, WINDOW)
        if not anyway and self.n - self.ranked_at < RANK_SHARE * m:
            return None
        if self.ranked_at != self.n or self._area is None:
            self.ranked_at, self._area = self.n, area_under(self.p[:m], self.y[:m])
        return self._area


def area_under(p: Any, y: Any) -> float | None:
    """The area under the ROC curve, by the sum of the ranks that True has; None without a curve."""
    m, positive = len(y), int(np.count_nonzero(y))
    if positive in (0, m):
        return None
    ordered = np.sort(p)
    if np.isnan(ordered[-1]):
        return math.nan
    # Equal ones share their ranks. Those of the rarer label are looked up, the sum of all is known.
    rarer = 2 * positive <= m
    some = np.sort(p[y] if rarer else p[~y])
    below = int(np.searchsorted(ordered, some, "left").sum())
    up_to = int(np.searchsorted(ordered, some, "right").sum())
    ranks = (below + up_to + len(some)) / 2
    if not rarer:
        ranks = m * (m + 1) / 2 - ranks
    return (ranks - positive * (positive + 1) / 2) / (positive * (m - positive))
