"""One model's state: examples one by one, and all that stands above."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from streaml1.core.rows import ensure, plain_items
from streaml1.features import dict_reader as walk
from streaml1.features.interactions import Cross, Crosses, hashes_of
from streaml1.features.ngrams import Words
from streaml1.features.vocabulary import Hashed, Ints, Table
from streaml1.features.vocabulary.interaction_factors import parts_of
from streaml1.models.state import predictor
from streaml1.models.state.batch_learning import Many
from streaml1.models.state.predictor import MOST_WALKED
from streaml1.optim import loop

__all__ = ["Engine"]


class Engine(Many):
    """The state of an online learner and what is done with it.

    Parameters
    ----------
    rule
        A rule of `streaml1.optim.update_rule` with no weight set.
    loss
        A code of `streaml1.optim.losses`.
    intercept
        Where the intercept starts.
    intercept_lr
        Its constant rate.
    clip_gradient
        The most that a derivative of the loss counts for.
    hash_bits
        Names are hashed to so many bits, if it is not None.
    crosses
        What is crossed, if anything is.
    words
        What is text, if anything is.
    """

    def __init__(
        self,
        rule: Any,
        loss: int,
        intercept: float,
        intercept_lr: float,
        clip_gradient: float,
        hash_bits: int | None = None,
        crosses: Crosses | None = None,
        words: Words | None = None,
    ) -> None:
        record = np.zeros(1, loop.ONLINE)
        record[0] = (0, intercept, intercept_lr, clip_gradient, loss, 0, 0, 0)
        names = Ints() if hash_bits is None else Hashed(hash_bits)
        size = predictor.LEAST_SIZE if hash_bits is None else 1 << hash_bits
        super().__init__(rule.grow(size), record, names, crosses, words)

    # One example

    def learn(self, x: Mapping[Hashable, Any], y: float, w: float, eta: float) -> None:
        """Learn one example."""
        if self.words is not None and not self._walks_texts:
            if self.crosses is not None and not isinstance(self.names, Hashed):
                return self._learn_together(x, y, w, eta)
            x = self.words.of(x)
        frame = self._frame
        status = walk.OTHER_ROAD
        if frame is not None:
            status = frame.learn(frame.address, x, y, w, eta)
            if status > 0:
                return
        self._learn_otherwise(status, x, y, w, eta)

    def _margin_otherwise(self, x: Mapping[Hashable, Any], out: int) -> float:
        with self.lock:
            self._drop_closed_frame()
            a = self._margin_of_frame(x, out)
            if a == a:
                return a
        counted = self._counted(x)
        if counted is not x:
            return self.margin(counted, out)
        plain = plain_items(x)
        with self.alone():
            return self._margin_of(plain, out)

    def _learn_otherwise(
        self, status: int, x: Mapping[Hashable, Any], y: float, w: float, eta: float
    ) -> None:
        if status <= loop.OVER:
            with self.alone():
                return self._cut()
        if status == loop.CROWDED:
            raise self._crowded(0)
        self._drop_closed_frame()
        full = status in (loop.NO_ROOM, walk.FULL)
        if full or self._wants_frame(x, learns=True):
            with self.alone():
                n = len(x) if self._frame is None else max(len(x), self._frame.needed)
                if status == loop.NO_ROOM:
                    self._set_rule(self.rule.reserve(n))
                elif full and isinstance(self.names, Table):
                    if self._walks_texts:  # the frame has places by bytes
                        self._have_slots(n)
                    else:
                        letters = 0 if self._frame is None else self._frame.letters
                        self._have_places(len(x), 0 if self.crosses is None else n, letters)
                self._new_frame(len(x), learns=True)
            return self.learn(x, y, w, eta)
        counted = self._counted(x)
        if counted is not x:
            return self.learn(counted, y, w, eta)
        plain = plain_items(x)
        with self.alone():
            self._learn_plain(plain, y, w, eta)

    def _learn_together(self, x: Mapping[Hashable, Any], y: float, w: float, eta: float) -> None:
        """Learn an example with crossed words as a batch: dicts have no kernel for it."""
        labels, weights, rates = (np.full(1, v, np.float64) for v in (y, w, eta))
        k = getattr(self.rule, "outputs", 1)
        self.progressive(self.batch([x], learns=True), labels, weights, rates, k)

    def _learn_plain(self, plain: dict[Hashable, float], y: float, w: float, eta: float) -> None:
        names, values = list(plain), np.fromiter(plain.values(), np.float64, len(plain))
        if self.crosses is None:
            slots = self._admit_all(names)
        else:
            crosses = self.crosses.of(plain)
            slots = self._admit_one(names, crosses)
            names += [one.parts for one in crosses]
            values = np.append(values, [one.value for one in crosses])
        ids, values = self._row(names, values, slots)
        while True:
            status = loop.learn_plain(self.rule, self._record, ids, values, len(ids), y, w, eta)
            if status != loop.NO_ROOM:
                break
            self._set_rule(self.rule.reserve(len(ids)))
        if status == loop.CROWDED:
            raise self._crowded(0)
        if status <= loop.OVER:
            self._cut()

    def _admit_one(self, names: list[Hashable], crosses: list[Cross]) -> Any:
        """Slots of the names of an example, and behind them those of its crossed features."""
        if not isinstance(self.names, Hashed):
            for name in names:
                self.crosses.require_plain(name)  # type: ignore[union-attr]
        parts = parts_of([one.parts for one in crosses])
        both = self._admit_crossed(hashes_of(crosses), parts, lambda: self._admit_all(names))
        if isinstance(self.names, Table):
            self.names.settle()
        return np.append(*both)

    # Frames

    def _wants_frame(self, x: Any, learns: bool = False) -> bool:
        if not walk.AVAILABLE or type(x) is not dict:
            return False
        if (frame := self._frame) is not None:
            needed = max(len(x), min(frame.needed, MOST_WALKED))
            if not frame.is_stale and frame.length >= needed and (frame.learns or not learns):
                return False
        return self._suits(next(iter(x), None))

    def _suits(self, name: Any) -> bool:
        """Whether names like this one can be walked; a model without any takes their kind on."""
        if not isinstance(self.names, Ints) or type(name) is int or name is None:
            return True
        if type(name) is not str:
            return False
        with self.alone():
            if not isinstance(self.names, Ints) or self.rule.seen_mask().any():
                return not isinstance(self.names, Ints)
            self.names, self._frame = Table(), None
        return True

    # What it is made of

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and, roughly, of the names."""
        total = int(sum(a.nbytes for a in (*self.rule, self.online)))
        if self._frame is not None:
            total += self._frame.nbytes
        if isinstance(self.names, Table):
            names = self.names
            strings = len(names.known) - names.crossed.below(len(names.known))
            total += 150 * strings + int(names.entries.nbytes)
            total += names.crossed.nbytes + names.waiting.nbytes
        return total

    def check(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        self.rule.check()
        ensure(self.online.dtype == loop.ONLINE and self.online.shape == (1,), "no record")
        o = self.online[0]
        ensure(o.t >= 0, f"t is {o.t}, below 0")
        ensure(abs(o.b) < 1e150, f"the intercept is {o.b}")
        ensure(o.most >= 0 and o.cut >= 0, "a count is below 0")
        ensure(o.most or not o.held, "weights are counted without a most")
        alive = np.count_nonzero(self.rule.weights())
        ensure(not o.most or alive <= o.held, f"{alive} weights, not at most {o.held}")
        self.names.check(int(self.rule.size))
        if self.forgotten is not None:
            self.forgotten.check()
