"""State of a model: learning of single examples on top of batches and prediction."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from itertools import compress
from typing import Any

import numpy as np

from streaml1.core.rows import ensure, numeric_features
from streaml1.features import dict_reader
from streaml1.features.dict_reader.items import NEW_NAMES, Items
from streaml1.features.dict_reader.packed import PackedNames, intern_missing, pack
from streaml1.features.interactions import CrossedFeature, Interactions, hashes_of
from streaml1.features.ngrams import NGrams
from streaml1.features.offsets import split_example
from streaml1.features.vocabulary import (
    MISSING,
    HashedVocabulary,
    InternedVocabulary,
    IntVocabulary,
)
from streaml1.features.vocabulary.interaction_factors import factors_of
from streaml1.models.state import predictor
from streaml1.models.state.batch_learning import BatchLearner, Steps
from streaml1.models.state.predictor import MAX_DICT_FEATURES, is_copied
from streaml1.optim import loop
from streaml1.optim.rule_state import MAX_STEPS

__all__ = ["ModelState"]

MAX_CHECKED_BITS = 22
"""With more bits to hash to, only the slots in a model file are checked."""


class ModelState(BatchLearner):
    """The state of an online learner.

    Parameters
    ----------
    rule
        A rule of `streaml1.optim.update_rule` with no weight set.
    loss, loss_parameter
        A code of `streaml1.optim.losses`, and the parameter of the loss.
    positive_weight
        Factor of the sample weights of positive labels.
    intercept
        Initial intercept.
    intercept_lr
        Constant learning rate of the intercept.
    clip_gradient
        Upper bound on the absolute derivative of the loss.
    hash_bits
        Number of bits that names are hashed to; None keeps a vocabulary.
    interactions
        Interactions of features, or None.
    ngrams
        Text features, or None.
    offset
        Name of the feature that holds the offset of an example, or None.
    """

    def __init__(
        self,
        rule: Any,
        loss: int,
        loss_parameter: float,
        positive_weight: float,
        intercept: float,
        intercept_lr: float,
        clip_gradient: float,
        hash_bits: int | None = None,
        interactions: Interactions | None = None,
        ngrams: NGrams | None = None,
        offset: Hashable | None = None,
    ) -> None:
        record = np.zeros(1, loop.ONLINE)
        start = (0, intercept, intercept_lr, clip_gradient, loss, 0, 0, 0)
        record[0] = (*start, loss_parameter, positive_weight, 0, 0.0)
        names = IntVocabulary() if hash_bits is None else HashedVocabulary(hash_bits)
        size = predictor.MIN_SLOTS if hash_bits is None else 1 << hash_bits
        super().__init__(rule.grow(size), record, names, interactions, ngrams, offset)

    # One example

    def learn(self, x: Mapping[Hashable, Any], y: float, w: float, eta: float) -> None:
        """Learn one example."""
        if self._is_indirect:
            if self.ngrams is not None and not self._reads_text:
                if self._crosses_text:
                    return self._learn_as_batch(x, y, w, eta)
                x = self.ngrams.expand(x)
            if self.offset is not None and self.offset in x:
                return self._learn_with_offset(x, y, w, eta)
        context = self._context
        status = dict_reader.FALLBACK
        if context is not None:
            status = context.learn(context.address, x, y, w, eta)
            if status > 0:
                return
        self._learn_fallback(status, x, y, w, eta)

    def _learn_with_offset(self, x: Mapping[Hashable, Any], y: float, w: float, eta: float) -> None:
        offset, rest = split_example(x, self.offset)
        with self.lock:
            self.online[0].offset = offset
            try:
                self.learn(rest, y, w, eta)
            finally:  # if it was not learnt
                self.online[0].offset = 0.0

    def _margin_fallback(self, x: Mapping[Hashable, Any], out: int) -> float:
        a = self._margin_packed(x, out)
        if a == a:
            return a
        if is_copied(x):
            return self.margin(dict(x.items()), out)
        with self.lock:
            self._drop_closed_context()
            a = self._margin_by_context(x, out)
            if a == a:
                return a
        counted = self._with_ngrams(x)
        if counted is not x:
            return self.margin(counted, out)
        with self.lock:
            a = self._margin_by_items(x, out)
        if a == a:
            return a
        plain = numeric_features(x)
        with self.exclusive():
            return self._margin_of_items(plain, out)

    def _learn_fallback(
        self, status: int, x: Mapping[Hashable, Any], y: float, w: float, eta: float
    ) -> None:
        if status == dict_reader.FALLBACK:
            status = self._learn_packed(x, y, w, eta)
            if status > 0:
                return
        if status <= loop.OVER_CAP:
            with self.exclusive():
                return self._prune()
        if status == loop.TOO_MANY_FEATURES:
            raise self._too_many_features(0)
        if is_copied(x):
            return self.learn(dict(x.items()), y, w, eta)
        self._drop_closed_context()
        full = status in (loop.NO_CAPACITY, dict_reader.FULL)
        if full or self._wants_context(x, learns=True):
            with self.exclusive():
                n = len(x) if self._context is None else max(len(x), self._context.needed)
                if status == loop.NO_CAPACITY:
                    self._set_rule(self.rule.reserve(n))
                elif full and isinstance(self.vocabulary, InternedVocabulary):
                    if self._reads_text:  # the context indexes names by bytes
                        self._reserve_slots(n)
                    else:
                        n_bytes = self._context.crossed_name_bytes if self._context else 0
                        self._reserve_entries(
                            len(x), 0 if self.interactions is None else n, n_bytes
                        )
                self._new_context(len(x), learns=True)
            return self.learn(x, y, w, eta)
        counted = self._with_ngrams(x)
        if counted is not x:
            return self.learn(counted, y, w, eta)
        if not self._learn_by_items(x, y, w, eta):
            plain = numeric_features(x)
            with self.exclusive():
                self._learn_items(plain, y, w, eta)

    def _margin_packed(self, x: Mapping[Hashable, Any], out: int) -> float:
        """Return the margin of a dict without a dict kernel; NaN if it cannot be packed."""
        with self.lock:
            context = self._context
            if context is None or context.packed is None:
                return math.nan
            packed = pack(context.buffer, x)
            if packed is None:
                return math.nan
            return context.packed.predict(context.address, len(packed.names), out)

    def _learn_packed(self, x: Mapping[Hashable, Any], y: float, w: float, eta: float) -> int:
        """Learn a dict without a dict kernel; return the status of a dict kernel."""
        with self.lock:
            context = self._context
            if context is None or context.packed is None:
                return dict_reader.FALLBACK
            packed = pack(context.buffer, x)
            if packed is None:
                return dict_reader.FALLBACK
            n, learn = len(packed.names), context.packed.learn
            status = learn(context.address, n, y, w, eta)
            if status != NEW_NAMES:
                return status
            if not self._intern_packed(context, packed):
                return dict_reader.FALLBACK
            return learn(context.address, n, y, w, eta)

    def _intern_packed(self, context: dict_reader.KernelContext, packed: PackedNames) -> bool:
        """Give slots to the new names of an example; return False if they have to be reserved."""
        n, vocabulary = len(packed.names), self._interned
        if len(vocabulary.keys) + n > context.size or not vocabulary.has_room(n):
            return False

        def enter(next_slot: int) -> tuple[list[str], list[str | None]] | None:
            if intern_missing(context.address, n, next_slot) < 0:
                return None
            is_new = [slot >= next_slot for slot in context.slots[:n].tolist()]
            given = compress(packed.given, is_new)
            values = [value if type(value) is str else None for value in given]
            return [*compress(packed.names, is_new)], values

        entries = vocabulary.entries
        try:
            return vocabulary.intern_entered(enter)
        finally:
            if vocabulary.entries is not entries:
                self._context = None

    def _read_items(self, x: Mapping[Hashable, Any]) -> Items | None:
        # A model that has seen no name takes on the kind of the first, as for a dict kernel.
        return super()._read_items(x) if self._suits(next(iter(x), None)) else None

    def _learn_by_items(self, x: Mapping[Hashable, Any], y: float, w: float, eta: float) -> bool:
        """Learn a mapping that is read in Python; return False if it has to be read slowly."""
        items = self._read_items(x)
        if items is None:
            return False
        names, given, *arrays, joined = items
        n, learn = len(names), dict_reader.learn_items()
        with self.lock:
            # Each retry follows a reservation, which may release the slots of other names.
            for _ in range(4):
                if len(self.vocabulary.keys) + n > self.rule.size:  # type: ignore[union-attr]
                    with self.exclusive():
                        self._reserve_entries(n)
                context = self._context
                if context is None or context.is_stale or not context.learns:
                    context = self._new_context(n, learns=True)
                status = learn(context.address, *arrays, joined, y, w, eta)
                if status > 0:
                    return True
                if status <= loop.OVER_CAP:
                    with self.exclusive():
                        self._prune()
                    return True
                if status == loop.TOO_MANY_FEATURES:
                    raise self._too_many_features(0)
                if status not in (loop.NO_CAPACITY, NEW_NAMES):
                    return False
                with self.exclusive():
                    if status == loop.NO_CAPACITY:
                        self._set_rule(self.rule.reserve(n))
                    elif not self._intern_items(items):
                        return False
                # The kernel has replaced the hashes of names by those of features, into which the
                # texts are mixed already.
                arrays[1] = arrays[1][:0]
        return False

    def _intern_items(self, items: Items) -> bool:
        """Give slots to the new names of an example; return False if one is no longer new."""
        self._reserve_entries(len(items.names))
        new = np.flatnonzero(items.slots == MISSING)
        names = [items.names[k] for k in new.tolist()]
        given = [items.given[k] for k in new.tolist()]
        texts = [value if type(value) is str else None for value in given]
        vocabulary = self.vocabulary
        if not isinstance(vocabulary, InternedVocabulary):
            return False
        entries = vocabulary.entries
        try:
            return vocabulary.intern_items(items.hashes[new], names, texts)
        finally:
            if vocabulary.entries is not entries:
                self._context = None

    def _learn_as_batch(self, x: Mapping[Hashable, Any], y: float, w: float, eta: float) -> None:
        """Learn an example with crossed text as a batch: no dict kernel supports it."""
        labels, weights, rates = (np.full(1, v, np.float64) for v in (y, w, eta))
        k = getattr(self.rule, "outputs", 1)
        self.progressive(self.batch([x], learns=True), labels, weights, rates, k)

    def _learn_items(self, plain: dict[Hashable, float], y: float, w: float, eta: float) -> None:
        names, values = list(plain), np.fromiter(plain.values(), np.float64, len(plain))
        if self.interactions is None:
            slots = self._intern_all(names)
        else:
            crosses = self.interactions.crossed_features(plain)
            slots = self._intern_example(names, crosses)
            names += [cross.factors for cross in crosses]
            values = np.append(values, [cross.value for cross in crosses])
        steps = Steps(*(np.full(1, v) for v in (y, w, float(self.online[0].offset), eta)))
        self._learn_rows(self._row(names, values, slots), steps, np.empty(1))

    def _intern_example(self, names: list[Hashable], crosses: list[CrossedFeature]) -> Any:
        """Return the slots of the names of an example, then those of its crossed features."""
        if not isinstance(self.vocabulary, HashedVocabulary):
            for name in names:
                self.interactions.require_plain(name)  # type: ignore[union-attr]
        parts = factors_of([cross.factors for cross in crosses])
        both = self._intern_crossed(hashes_of(crosses), parts, lambda: self._intern_all(names))
        if isinstance(self.vocabulary, InternedVocabulary):
            self.vocabulary.materialize()
        return np.append(*both)

    # Kernel contexts

    def _wants_context(self, x: Any, learns: bool = False) -> bool:
        if not dict_reader.AVAILABLE or type(x) is not dict:
            return False
        if (context := self._context) is not None:
            needed = max(len(x), min(context.needed, MAX_DICT_FEATURES))
            if not context.is_stale and context.length >= needed and (context.learns or not learns):
                return False
        return self._suits(next(iter(x), None))

    def _suits(self, name: Any) -> bool:
        """Return whether a dict kernel reads such names; an unused model adopts their type."""
        if not isinstance(self.vocabulary, IntVocabulary) or type(name) is int or name is None:
            return True
        if type(name) is not str:
            return False
        with self.exclusive():
            if not isinstance(self.vocabulary, IntVocabulary) or self.rule.seen_mask().any():
                return not isinstance(self.vocabulary, IntVocabulary)
            self.vocabulary, self._context = InternedVocabulary(), None
        return True

    # Size and invariants

    @property
    def nbytes(self) -> int:
        """Size in bytes of the arrays and, approximately, of the names."""
        total = int(self.rule.nbytes) + int(self.online.nbytes)
        if self._context is not None:
            total += self._context.nbytes
        if isinstance(self.vocabulary, InternedVocabulary):
            names = self.vocabulary
            strings = len(names.keys) - names.crossed.count_below(len(names.keys))
            total += 150 * strings + int(names.entries.nbytes)
            total += names.crossed.nbytes + names.pending.nbytes
        return total

    def restore(self, state: dict[str, Any], hash_bits: int | None) -> None:
        """Replace the state by that of a model file, which may say anything.

        Raises
        ------
        AssertionError
            If the parts of the state contradict each other or the parameter `hash_bits`.
        """
        names = state["names"]
        known = {"rule", "names", "online", "forgotten", "arrays", "made"}
        ensure(set(state) <= known, "an unknown part")
        ensure((names["kind"] == "hashed") == (hash_bits is not None), "names are hashed, or not")
        ensure(hash_bits is None or names["bits"] == hash_bits, "names have other hash bits")
        self.__setstate__(state)
        if hash_bits is not None and hash_bits > MAX_CHECKED_BITS:
            # A small rule is checked, so that the pages of slots without a weight stay untouched.
            n = len(names["slots"])
            self._check_rule(state["rule"].from_state_dict(n, np.arange(n), state["arrays"]))

    def check_restored(self) -> None:
        """Raise AssertionError if an invariant is violated that `restore` has not checked."""
        hashed = isinstance(self.vocabulary, HashedVocabulary)
        if not hashed or self.rule.size <= 1 << MAX_CHECKED_BITS:
            self.check()

    def check(self) -> None:
        """Raise AssertionError if an invariant is violated."""
        self._check_rule(self.rule)
        self.vocabulary.check(int(self.rule.size))
        if self.forgotten is not None:
            self.forgotten.check()

    def _check_rule(self, rule: Any) -> None:
        """Check a rule and what belongs to it."""
        rule.check()
        ensure(
            self.online.dtype == loop.ONLINE and self.online.shape == (1,),
            "the online record has the wrong dtype or shape",
        )
        o = self.online[0]
        ensure(0 <= o.t < MAX_STEPS, f"t={o.t} is out of range")
        ensure(0 <= o.rates_from <= o.t, f"rates_from={o.rates_from} is out of range")
        ensure(abs(o.b) < 1e150, f"the intercept is {o.b}")
        ensure(o.most >= 0 and o.cut >= 0, "most and cut must be >= 0")
        ensure(o.most or not o.held, "held is set without a limit")
        if o.most:
            alive = np.count_nonzero(rule.weights())
            ensure(alive <= o.held, f"{alive} weights exceed held={o.held}")
