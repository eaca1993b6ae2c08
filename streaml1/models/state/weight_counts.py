"""Which weights there are, and how many there may be."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from streaml1.features.vocabulary import HashedVocabulary
from streaml1.models.state.capacity import GrowableState
from streaml1.models.state.change_tracking import ChangeTracker
from streaml1.models.state.pruning import farthest, smallest
from streaml1.optim import loop

__all__ = ["WeightedState"]


class WeightedState(GrowableState):
    """A state that tells its weights, and gives up the smallest where they are too many."""

    def live_weights(self) -> tuple[Any, Any]:
        """Return the slots with non-zero weights, ascending, and these weights, in one pass."""
        slots, w = np.empty(self.rule.size, np.int64), np.empty(self.rule.size)
        n = loop.nonzero_weights(self.rule, slots, w)
        return slots[:n].copy(), w[:n].copy()

    def weights(self) -> tuple[list[Hashable], Any]:
        """Names and weights of those that are not zero, in the order of their slots."""
        with self.exclusive():
            w = self.rule.weights()
            slots = np.flatnonzero(w)
            return self.vocabulary.names_at(slots), w[slots]

    def top_weights(self, k: int, *signs: int) -> list[list[tuple[Hashable, float]]]:
        """For each sign names and weights of the `k` farthest from zero, the farthest first.

        A sign is 1 or -1, for the weights that have it, or 0, for all. Of equal ones the first
        slots come first.
        """
        with self.exclusive():
            every = self.rule.weights()
            slots = np.flatnonzero(every)
            return [self._ranked(*_signed(slots, every[slots], sign), k) for sign in signs]

    def _ranked(self, slots: Any, w: Any, k: int) -> list[tuple[Hashable, float]]:
        some = farthest(w, k)
        slots, w = slots[some], w[some]
        order = np.argsort(-np.abs(w), kind="stable")
        names = self.vocabulary.names_at(slots[order])
        return list(zip(names, w[order].tolist(), strict=True))

    @property
    def n_nonzero(self) -> int:
        """How many weights are not zero."""
        with self.exclusive():
            return int(np.count_nonzero(self.rule.weights()))

    @property
    def n_features_seen(self) -> int:
        """How many features examples have had; an estimate once names were given back."""
        with self.exclusive():
            if isinstance(self.vocabulary, HashedVocabulary):
                return self._slots_seen()
            return self._names_met()

    def _names_met(self) -> int:
        """Names met: those of now and, by an estimate, those given back."""
        seen_mask = self.rule.seen_mask()
        if self.forgotten is None:
            return int(np.count_nonzero(seen_mask))
        sketch, seen_mask = self.forgotten.copy(), np.flatnonzero(seen_mask)
        sketch.add(self.vocabulary.hashes(seen_mask))
        return max(sketch.estimate(), len(seen_mask))

    def _slots_seen(self) -> int:
        """Names seen, from how many of all slots were met (linear counting)."""
        size = int(self.rule.size)
        met = self._names_met()
        return round(-size * float(np.log1p(-min(met, size - 0.5) / size)))

    def watch(self) -> ChangeTracker:
        """What tells which features have entered and left the model since."""
        with self.exclusive():
            watch = ChangeTracker(self)
            self.trackers.add(watch)
        return watch

    # A most to the weights that are not zero

    def set_max_nonzero(self, most: int) -> None:
        """Keep at most so many weights from the next step on; 0: any number."""
        o = self.online[0]
        with self.exclusive():
            if o.most != most or bool(most) != bool(o.held):
                held = np.count_nonzero(self.rule.weights()) if most else 0
                o.most, o.held = 0, 0
                o.held, o.most = held, most

    def recount(self) -> None:
        """Expect a weight wherever something is held, until the next step has them counted.

        For a change of a parameter that may bring back weights of features that are absent.
        """
        o = self.online[0]
        with self.exclusive():
            if o.most:
                o.held = max(int(o.held), int(np.count_nonzero(self.rule.live_mask())))

    def _prune(self) -> None:
        """Give up the smallest weights, where there are nearly as many as may be."""
        o = self.online[0]
        if not o.most:  # an interrupted change of it
            o.held = 0
            return
        slots, w = self.live_weights()
        n, most = len(slots), int(o.most)
        kept = max(1, most - max(1, most // 8))
        # Then a sixteenth at least goes by before the next look.
        if n > most - max(1, most // 16) and n > kept:
            out = smallest(slots, np.abs(w), n - kept, self.vocabulary)
            self.rule.drop(out)
            o.cut += len(out)
            n = kept
        o.held = n


def _signed(slots: Any, w: Any, sign: int) -> tuple[Any, Any]:
    """Those of some weights that have a sign; all, where that is 0."""
    chosen = w * sign >= 0.0
    return slots[chosen], w[chosen]
