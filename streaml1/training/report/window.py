"""ROC AUC over the last examples."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from streaml1.core.types import Bools, Floats

__all__ = ["WINDOW", "WINDOW_NAME", "Window", "area_under"]

WINDOW = 2**20
"""Number of last examples that ROC AUC is computed over."""

# Sorting a full window takes 0.1 seconds. The AUC is recomputed once this share of it is new.
RANK_SHARE = 1 / 32

WINDOW_NAME = f"last 2^{WINDOW.bit_length() - 1}"


class Window:
    """A ring buffer of the last `WINDOW` predictions and labels.

    One thread adds examples; others may call `copy`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # taken once per block
        self.p = np.empty(WINDOW)
        self.y = np.empty(WINDOW, bool)
        self.n = 0
        self.ranked_at = 0
        self._area: float | None = None  # at `ranked_at`; None after a label was corrected

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs; only the part of the ring that is used."""
        p, y = self.copy()
        return {**self.__dict__, "_lock": None, "p": p, "y": y}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        p, y = state.pop("p"), state.pop("y")
        self.p[: len(p)], self.y[: len(y)] = p, y
        self.__dict__ |= {k: v for k, v in state.items() if k != "_lock"}

    def add(self, p: Floats, y: Bools) -> None:
        """Append predictions and labels of consecutive examples."""
        with self._lock:
            pos = (self.n + max(0, len(p) - WINDOW)) % WINDOW
            self.n += len(p)
            self._write(self.p, p[-WINDOW:], pos)
            self._write(self.y, y[-WINDOW:], pos)

    @staticmethod
    def _write(buffer: Floats | Bools, values: Floats | Bools, pos: int) -> None:
        """Write to the ring from `pos` on, and what exceeds its end to its begin."""
        before_end = min(len(values), WINDOW - pos)
        buffer[pos : pos + before_end] = values[:before_end]
        buffer[: len(values) - before_end] = values[before_end:]

    def contents(self) -> tuple[Floats, Bools]:
        """Return the predictions and labels in the window, in no particular order."""
        m = min(self.n, WINDOW)
        return self.p[:m], self.y[:m]

    def copy(self) -> tuple[Floats, Bools]:
        """Return copies of `contents`, from any thread."""
        with self._lock:
            p, y = self.contents()
            return p.copy(), y.copy()

    def correct_label(self, number: int) -> None:
        """Set the label of example `number`, counted from 0, to True if it is in the window."""
        if number >= self.n - WINDOW:
            self.y[number % WINDOW] = True
            self._area = None

    def auc(self, force: bool = False) -> float | None:
        """Return the area under the ROC curve.

        Parameters
        ----------
        force
            Recompute it even if few examples are new.

        Returns
        -------
        float or None
            None if too few examples are new, or if all labels are equal.
        """
        m = min(self.n, WINDOW)
        if not force and self.n - self.ranked_at < RANK_SHARE * m:
            return None
        if self.ranked_at != self.n or self._area is None:
            self.ranked_at, self._area = self.n, area_under(self.p[:m], self.y[:m])
        return self._area


def area_under(p: Floats, y: Bools) -> float | None:
    """Return the area under the ROC curve by the rank-sum formula; None if all labels are equal.

    Tied predictions share their mean rank. Only the ranks of the rarer label are looked up: the
    sum of all ranks is known.
    """
    m, n_positive = len(y), int(np.count_nonzero(y))
    if n_positive in (0, m):
        return None
    ordered = np.sort(p)
    if np.isnan(ordered[-1]):
        return math.nan
    positive_is_rarer = 2 * n_positive <= m
    rarer = np.sort(p[y] if positive_is_rarer else p[~y])
    below = int(np.searchsorted(ordered, rarer, "left").sum())
    up_to = int(np.searchsorted(ordered, rarer, "right").sum())
    ranks = (below + up_to + len(rarer)) / 2
    if not positive_is_rarer:
        ranks = m * (m + 1) / 2 - ranks
    return (ranks - n_positive * (n_positive + 1) / 2) / (n_positive * (m - n_positive))
