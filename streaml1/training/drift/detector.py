"""Drifts of a run: rises of its progressive loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaml1.core.types import Floats
from streaml1.training.drift.adwin import MAX_BUCKETS, AdaptiveWindow
from streaml1.training.saved_state import require_like

__all__ = ["Drift", "DriftDetector"]

WARM_UP = 1000
"""Examples before a loss without an upper bound has a scale: the mean loss of their second half."""

MAX_LOSS = 10.0
"""Largest loss that the window sees, relative to the scale."""

MAX_ROWS = 40
"""Rows of a window in a checkpoint, of 2^40 buckets or more: the last ones remain to be filled."""


class Drift(NamedTuple):
    """A rise of the progressive loss.

    Parameters
    ----------
    examples
        Examples learnt when the rise was found.
    since
        Examples learnt when it began, about.
    loss_before, loss_after
        Mean loss of the window before the rise, and since.
    """

    examples: int
    since: int
    loss_before: float
    loss_after: float

    def sentence(self, loss_name: str) -> str:
        """Describe the drift as a sentence."""
        return (
            f"the {loss_name} rose from {self.loss_before:.4g} to {self.loss_after:.4g} after "
            f"about {self.since:,} examples (noticed after {self.examples:,})"
        )


class DriftDetector:
    """Finds rises of the loss of a run with an adaptive window.

    The window needs numbers from 0 to 1. Those of predicted probabilities are the squares of the
    probabilities that were given to other labels: for two labels the Brier score. A loss c without
    an upper bound becomes min(c / (10 s), 1). The scale s is a mean of the first losses, and after
    each change that of the losses since. The Poisson loss, which may be negative, counts from its
    minimum at the same label. Falls of the loss shorten the window, too, but a model that improves
    is not a drift.

    Numbers such as the probabilities themselves or c / (c + s) would not do: their mean is not
    smallest where that of the loss is. If one label is rare, it rises whenever predictions rise by
    chance, which caused false alarms.

    Sample weights do not count, except that an example without weight is left out.

    Parameters
    ----------
    loss
        Name of the loss, as in `Report`.

    Attributes
    ----------
    window : AdaptiveWindow
        The window.
    n_warm : int
        Examples of the warm-up so far.
    scale : float
        The scale s; during the warm-up the sum of the losses.
    reported_at : int
        Examples learnt when the last drift was found.
    """

    def __init__(self, loss: str) -> None:
        self._is_bounded = loss in ("logistic", "softmax")
        self._is_logistic = loss == "logistic"
        self._is_poisson = loss == "poisson"
        self.window = AdaptiveWindow()
        self.n_warm = 0
        self.scale = 0.0
        self.reported_at = 0

    def add(
        self,
        examples: int,
        costs: Floats,
        p: Floats,
        y: NDArray[Any],
        w: Floats,
    ) -> list[Drift]:
        """Add the examples that follow the first `examples` ones; return the drifts in them."""
        if not w.all():
            # Positions count the examples that are left, so drifts are placed a little early.
            rows = np.flatnonzero(w)
            costs, p, y = costs[rows], p[rows], y[rows]
        drifts: list[Drift] = []
        if self._is_bounded:
            x = np.square(p - y) if self._is_logistic else np.square(np.expm1(-costs))
            start = 0
        else:
            base = costs = costs - _smallest_poisson_loss(y) if self._is_poisson else costs
            start = self._warm_up(base)
            x = self._scaled(base)
        while (cut := self.window.add(x, costs, start)) is not None:
            start = cut.pos
            found = examples + start
            since = found - cut.n_after
            # A change that was reported is still found while its older part leaves the window.
            is_rise = cut.x_after > cut.x_before and cut.loss_after > cut.loss_before
            if is_rise and since >= self.reported_at:
                drifts.append(Drift(found, since, cut.loss_before, cut.loss_after))
                self.reported_at = found
            if not self._is_bounded and cut.x_after > 0.0:
                self.scale *= MAX_LOSS * cut.x_after
                self.window.clear()
                x = self._scaled(base)
        return drifts

    def _warm_up(self, base: Floats) -> int:
        """Sum up the losses of the warm-up; return how many of these belong to it."""
        n = min(WARM_UP - self.n_warm, len(base))
        for k, value in enumerate(base[:n].tolist(), self.n_warm):
            # One by one, as the sum must not depend on the blocks. The first losses of a model may
            # be larger than all others.
            self.scale += value if 2 * k >= WARM_UP and math.isfinite(value) else 0.0
        self.n_warm += n
        if n and self.n_warm == WARM_UP:
            self.scale = 2.0 * self.scale / WARM_UP or 1.0
        return n

    def _scaled(self, base: Floats) -> Floats:
        with np.errstate(all="ignore"):  # a model that has diverged, or a scale of 0
            x: Floats = np.minimum(base / (MAX_LOSS * self.scale), 1.0)
        return x

    # State

    def state_dict(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state as (JSON values, arrays)."""
        window = self.window
        facts = {"n_warm": self.n_warm, "scale": self.scale, "reported_at": self.reported_at}
        return facts, {
            "drift_counts": window.counts.copy(),
            "drift_open": window.open.copy(),
            "drift_buckets": window.live_buckets(),
        }

    def load_state_dict(self, facts: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue the state of a checkpoint.

        Raises
        ------
        ValueError
            If it is not such a state: the kernel takes positions from the counts.
        """
        require_like(facts, {"n_warm": 0, "scale": 0.0, "reported_at": 0}, "the detector")
        _check_window(arrays, self.window)
        self.n_warm, self.scale = facts["n_warm"], facts["scale"]
        self.reported_at = facts["reported_at"]
        window = self.window
        window.counts[:], window.open[:] = arrays["drift_counts"], arrays["drift_open"]
        window.restore_buckets(arrays["drift_buckets"])


def _check_window(arrays: Mapping[str, NDArray[Any]], window: AdaptiveWindow) -> None:
    """Raise ValueError unless the arrays of a checkpoint are those of a window."""
    counts, open_, buckets = (arrays[f"drift_{name}"] for name in ("counts", "open", "buckets"))
    for array, like in ((counts, window.counts), (open_, window.open), (buckets, window.buckets)):
        if array.dtype != like.dtype or array.ndim != 1:
            raise ValueError("the window of the detector has another dtype or shape")
    is_live = counts > 0
    in_order = (is_live[:-1] | ~is_live[1:]).all() and not is_live[MAX_ROWS:].any()
    if len(counts) != len(window.counts) or not in_order or counts.min() < 0:
        raise ValueError("the rows of the window are out of order")
    if counts.max() > MAX_BUCKETS or len(open_) != len(window.open):
        raise ValueError("a row of the window is too long")
    if not 0.0 <= open_[0] < window.bucket or not np.isfinite([*open_, *buckets]).all():
        raise ValueError("a number of the window is out of range")


def _smallest_poisson_loss(y: NDArray[Any]) -> Floats:
    """Return the Poisson loss of predicting the labels themselves."""
    smallest: Floats = y - y * np.log(np.where(y > 0.0, y, 1.0))
    return smallest
