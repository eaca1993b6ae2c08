"""Queries of the non-zero weights, and pruning to a maximum number of them."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from streaml1.core.types import Floats, Ints
from streaml1.features.vocabulary import HashedVocabulary
from streaml1.models.state.capacity import GrowableState
from streaml1.models.state.change_tracking import ChangeTracker
from streaml1.models.state.pruning import largest_weights, smallest_slots
from streaml1.optim import loop

__all__ = ["WeightedState"]


class WeightedState(GrowableState):
    """A state that lists its weights, and drops the smallest beyond a maximum number."""

    def live_weights(self) -> tuple[Ints, Floats]:
        """Return the slots with non-zero weights, ascending, and these weights, in one pass."""
        slots, w = np.empty(self.rule.size, np.int64), np.empty(self.rule.size)
        n = loop.nonzero_weights(self.rule, slots, w)
        return slots[:n].copy(), w[:n].copy()

    def weights(self) -> tuple[list[Hashable], Floats]:
        """Return the names and values of the non-zero weights, in slot order."""
        with self.exclusive():
            w = self.rule.weights()
            slots = np.flatnonzero(w)
            return self.vocabulary.names_at(slots), w[slots]

    def top_weights(self, k: int, *signs: int) -> list[list[tuple[Hashable, float]]]:
        """Return, for each sign, names and values of the `k` largest absolute weights, descending.

        A sign of 1 or -1 selects the weights of that sign, 0 selects all. Ties are in slot order.
        """
        with self.exclusive():
            dense = self.rule.weights()
            slots = np.flatnonzero(dense)
            return [self._ranked(*_signed(slots, dense[slots], sign), k) for sign in signs]

    def _ranked(self, slots: Ints, w: Floats, k: int) -> list[tuple[Hashable, float]]:
        chosen = largest_weights(w, k)
        slots, w = slots[chosen], w[chosen]
        order = np.argsort(-np.abs(w), kind="stable")
        names = self.vocabulary.names_at(slots[order])
        return list(zip(names, w[order].tolist(), strict=True))

    @property
    def n_nonzero(self) -> int:
        """Number of non-zero weights."""
        with self.exclusive():
            return int(np.count_nonzero(self.rule.weights()))

    @property
    def n_features_seen(self) -> int:
        """Number of distinct features learnt; an estimate once slots were released or hashed."""
        with self.exclusive():
            if isinstance(self.vocabulary, HashedVocabulary):
                return self._slots_seen()
            return self._n_used_slots()

    def _n_used_slots(self) -> int:
        """Return the number of seen features: exact, or estimated if some were released."""
        seen_mask = self.rule.seen_mask()
        if self.forgotten is None:
            return int(np.count_nonzero(seen_mask))
        sketch, seen = self.forgotten.copy(), np.flatnonzero(seen_mask)
        sketch.add(self.vocabulary.hashes(seen))
        return max(sketch.estimate(), len(seen))

    def _slots_seen(self) -> int:
        """Estimate the number of names from the share of occupied slots (linear counting)."""
        size = int(self.rule.size)
        used = self._n_used_slots()
        return round(-size * float(np.log1p(-min(used, size - 0.5) / size)))

    def watch(self) -> ChangeTracker:
        """Return a tracker of the features that enter and leave the model from now on."""
        with self.exclusive():
            tracker = ChangeTracker(self)
            self.trackers.add(tracker)
        return tracker

    # Maximum number of non-zero weights

    def set_max_nonzero(self, max_nonzero: int) -> None:
        """Keep at most `max_nonzero` weights from the next step on; 0 means no limit."""
        o = self.online[0]
        with self.exclusive():
            if o.most != max_nonzero or bool(max_nonzero) != bool(o.held):
                held = np.count_nonzero(self.rule.weights()) if max_nonzero else 0
                # An interrupt between the two lines leaves a state without a limit.
                o.most, o.held = 0, 0
                o.held, o.most = held, max_nonzero

    def recount(self) -> None:
        """Raise the count of weights to its upper bound, so that the next step counts them.

        Call this after a change of a hyperparameter that may turn zero weights non-zero.
        """
        o = self.online[0]
        with self.exclusive():
            if o.most:
                o.held = max(int(o.held), int(np.count_nonzero(self.rule.live_mask())))

    def _prune(self) -> None:
        """Drop the smallest weights if their number is close to the maximum."""
        o = self.online[0]
        if not o.most:  # an interrupt left `set_max_nonzero` unfinished
            o.held = 0
            return
        slots, w = self.live_weights()
        n, max_nonzero = len(slots), int(o.most)
        # Amortization: after a cut to 7/8, at least 1/16 of the maximum is added before the next.
        target = max(1, max_nonzero - max(1, max_nonzero // 8))
        if n > max_nonzero - max(1, max_nonzero // 16) and n > target:
            dropped = smallest_slots(slots, np.abs(w), n - target, self.vocabulary)
            self.rule.drop(dropped)
            o.cut += len(dropped)
            n = target
        o.held = n


def _signed(slots: Ints, w: Floats, sign: int) -> tuple[Ints, Floats]:
    """Return the slots and weights of the given sign; all of them if it is 0."""
    chosen = w * sign >= 0.0
    return slots[chosen], w[chosen]
