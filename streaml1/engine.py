"""One model's state, and the calls into the kernels that change it.

Nothing numerical happens here, and nothing is validated but the examples themselves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import numpy as np

from streaml1 import online, walk
from streaml1.batches import Batch, checked
from streaml1.cap import smallest
from streaml1.crosses import (
    Cross,
    Crosses,
    Marked,
    crossing_of,
    find_crossed,
    hashes_of,
    marked,
    paired,
    require_plain,
)
from streaml1.names import INTS, MISSING, Hashed, Ints, Table
from streaml1.names.restore import COPY_SLOTS, SPARSE
from streaml1.parse.rows import NamedRows
from streaml1.reader import LEAST_SIZE, MOST_WALKED, Reader, spread_slots
from streaml1.rows import BadExample, Rows, ensure, largest, plain_items, row_of
from streaml1.rules import features_left
from streaml1.sketch import Sketch
from streaml1.watch import Watch
from streaml1.words import Words

__all__ = ["Engine"]

SLOW_BLOCK = 1024  # rows at a time that are sorted out in Python

SLOTS = 2**22  # ints may be so many slots in any model, however few of them are used


class Engine(Reader):
    """The state of an online learner and what is done with it.

    One thread at a time changes it, under `lock`; a dict that is walked needs no lock of its own,
    as the kernel holds the interpreter's. Whoever does more under the lock than call one kernel
    closes the frame, so that no thread walks meanwhile.

    Parameters
    ----------
    rule
        A rule of `streaml1.rules` with no weight set.
    loss
        A code of `streaml1.losses`.
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
        record = np.zeros(1, online.ONLINE)
        record[0] = (0, intercept, intercept_lr, clip_gradient, loss, 0, 0, 0)
        names = Ints() if hash_bits is None else Hashed(hash_bits)
        size = LEAST_SIZE if hash_bits is None else 1 << hash_bits
        super().__init__(rule.grow(size), record, names, crosses, words)
        self.forgotten: Sketch | None = None
        self._start()

    def _start(self) -> None:
        self.lock = threading.RLock()
        self.watches: WeakSet[Watch] = WeakSet()
        with _FORKING:
            _ENGINES.add(self)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other thread changes the state, or reads it half-way."""
        with self.lock:
            was_open = self._frame is not None and self._frame.close()
            try:
                yield
            finally:
                if was_open and self._frame is not None:
                    self._frame.open()

    def _drop_closed_frame(self) -> None:
        """Do without a frame that an interrupt left closed."""
        with self.lock:
            if self._frame is not None and not self._frame.is_open:
                self._frame = None

    # One example

    def _margin_otherwise(self, x: Mapping[Hashable, Any], out: int) -> float:
        with self.lock:
            self._drop_closed_frame()
            if self._wants_frame(x):
                frame = self._new_frame(len(x))
                a = frame.predict(frame.address, id(x), out)
                if a == a:
                    return a
        counted = self._counted(x)
        if counted is not x:
            return self.margin(counted, out)
        plain = plain_items(x)
        with self.alone():
            return self._margin_of(plain, out)

    def learn(self, x: Mapping[Hashable, Any], y: float, w: float, eta: float) -> None:
        """Learn one example."""
        if self.words is not None and not self._walks_texts:
            if self.crosses is not None and not isinstance(self.names, Hashed):
                return self._learn_together(x, y, w, eta)
            x = self.words.of(x)
        frame = self._frame
        status = walk.OTHER_ROAD
        if frame is not None:
            status = frame.learn(frame.address, id(x), y, w, eta)
            if status > 0:
                return
        self._learn_otherwise(status, x, y, w, eta)

    def _learn_otherwise(
        self, status: int, x: Mapping[Hashable, Any], y: float, w: float, eta: float
    ) -> None:
        if status <= online.OVER:
            with self.alone():
                return self._cut()
        if status == online.CROWDED:
            raise self._crowded(0)
        self._drop_closed_frame()
        full = status in (online.NO_ROOM, walk.FULL)
        if full or self._wants_frame(x, learns=True):
            with self.alone():
                n = len(x) if self._frame is None else max(len(x), self._frame.needed)
                if status == online.NO_ROOM:
                    self._set_rule(self.rule.make_room(n))
                elif full and isinstance(self.names, Table):
                    if self._walks_texts:  # the frame has places by bytes
                        self._have_slots(n)
                    else:
                        self._have_places(n, n)
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
        self.progressive(self.batch([x]), labels, weights, rates, k)

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
            status = online.learn_plain(self.rule, self.online, ids, values, len(ids), y, w, eta)
            if status != online.NO_ROOM:
                break
            self._set_rule(self.rule.make_room(len(ids)))
        if status == online.CROWDED:
            raise self._crowded(0)
        if status <= online.OVER:
            self._cut()

    def _admit_one(self, names: list[Hashable], crosses: list[Cross]) -> Any:
        """Slots of the names of an example, and behind them those of its crossed features."""
        if not isinstance(self.names, Hashed):
            for name in names:
                self.crosses.require_plain(name)  # type: ignore[union-attr]
        hashes = hashes_of(crosses)
        self._have_table(len(names), len(crosses))
        plain = self._admit_all(names)
        return np.append(plain, self._admit_crossed(hashes, lambda k: paired(crosses, k)))

    def _have_table(self, n: int, m: int) -> None:
        """Have a table with places for `n` plain and `m` crossed features more, if there are."""
        if isinstance(self.names, Hashed) or not m:
            return
        while True:
            if isinstance(self.names, Ints):
                self._name_all()
            names = self.names
            self._have_places(n + m, m)
            if self.names is names:
                return

    def _admit_crossed(self, hashes: Any, names_of: Callable[[Any], list[tuple[Any, ...]]]) -> Any:
        """Slots of crossed features, for which there are places; `names_of` tells some of them."""
        slots = find_crossed(self.names, hashes)
        missing = np.flatnonzero(slots == MISSING)
        if len(missing):
            first = missing[np.sort(np.unique(hashes[missing], return_index=True)[1])]
            try:
                self.names.admit_crossed(hashes[first], names_of(first))
            except BaseException:  # a signal: its lists may be others
                self._frame = None
                raise
            slots[missing] = self.names.crossed.find(hashes[missing])[0]
        return slots

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
            if not isinstance(self.names, Ints) or self.rule.touched().any():
                return not isinstance(self.names, Ints)
            self.names, self._frame = Table(), None
        return True

    # Many examples

    def _rows(self, batch: Batch) -> Rows:
        """A plain batch as rows of slots, all of which the rule has."""
        rows, names = batch.rows, batch.names
        if batch.texts is not None:
            slots = self._admit_texts(batch.texts)
            return self._without_repeats(rows._replace(ids=slots), batch.texts)
        if names is not None:
            used = np.zeros(len(names), bool)
            used[rows.ids] = True
            chosen = [names[k] for k in np.flatnonzero(used)]
            slots = np.full(len(names), MISSING, np.uint32)
            slots[used] = self._admit_all(chosen)
            return self._apart(rows._replace(ids=slots[rows.ids]), slots[used])
        if isinstance(self.names, Ints):
            needed = batch.below
            if needed is None:
                needed = largest(rows.ids) + 1 if len(rows.ids) else 0
            if self._reaches(needed, len(rows.ids)):
                self._have(needed)
                return rows
            self._name_all()
        if isinstance(self.names, Table):
            # First room, which may be made by giving back what was known, or by ints as slots.
            self._have_places(len(self._unknown(rows.ids)))
            if isinstance(self.names, Ints):
                return self._rows(batch)
            self._admit_all(self._unknown(rows.ids).tolist())
        return self._placed(batch)

    def _learn_crossed(
        self, crosses: Crosses, batch: Batch, y: Any, w: Any, eta: Any, p: Any
    ) -> None:
        """Learn rows and what is crossed in them, piece by piece where that is much."""
        if not isinstance(self.names, Hashed):
            require_plain(crosses, batch)
        whole = marked(crosses, batch)
        pieces = whole.pieces()
        before = self._state_now() if len(pieces) > 1 else None
        known = len(self.names) if isinstance(self.names, Table) else 0
        k = len(p) // max(1, len(y))
        try:
            for lo, hi in pieces:
                try:
                    rows = self._crossed_rows(crosses, whole.part(lo, hi))
                    self._require_features(rows)
                except BadExample as bad:
                    raise BadExample(bad.reason, lo + bad.row) from None
                self._learn_rows(rows, y[lo:hi], w[lo:hi], eta[lo:hi], p[lo * k : hi * k])
        except BaseException:
            if before is not None:
                self._go_back(before)
                if isinstance(self.names, Table):
                    self.names.forget_from(known)
            raise

    def _crossed_rows(self, crosses: Crosses, some: Marked) -> Rows:
        """As `_rows`, with what is crossed in them."""
        batch, crossing = some.batch, crossing_of(crosses, some)
        new = crossing.hashes[find_crossed(self.names, crossing.hashes) == MISSING]
        self._have_table(self._most_names(batch), len(np.unique(new)))
        if batch.texts is not None:
            plain = self._admit_texts(batch.texts)
        else:
            names = batch.names or []
            used = np.zeros(len(names), bool)
            used[batch.rows.ids] = True
            slots = np.full(len(names), MISSING, np.uint32)
            slots[used] = self._admit_all([names[k] for k in np.flatnonzero(used)])
            plain = slots[batch.rows.ids]

        def names_of(places: Any) -> list[tuple[Any, ...]]:
            table: Table = self.names
            return table.parts_of(crossing.parts[places], plain)

        crossed = self._admit_crossed(crossing.hashes, names_of)
        return self._both(batch, plain, crossing, crossed)

    def _most_names(self, batch: Batch) -> int:
        """How many plain names of a batch may be new."""
        if batch.texts is not None:
            return len(self._find_texts(batch.texts)[1])
        return len(batch.names or [])

    def _unknown(self, ids: Any) -> Any:
        """Those of some int names that have no slot."""
        return np.unique(ids[self.names.find_ints(ids) == MISSING])

    def progressive(self, batch: Batch, y: Any, w: Any, eta: Any, k: int = 1) -> Any:
        """Predict each row, then learn it, or none of them.

        Returns
        -------
        numpy.ndarray
            Shape (n k,): the k predictions of each row, one row after the other.
        """
        with self.alone():
            return self._progressive(batch, y, w, eta, np.zeros(len(y) * k))

    def _progressive(self, batch: Batch, y: Any, w: Any, eta: Any, p: Any) -> Any:
        if self.crosses is not None:
            self._learn_crossed(self.crosses, checked(batch), y, w, eta, p)
            return p
        width = batch.width
        floats = sum(array.nbytes for array in self.rule) >> 3  # tables may be most of them
        if width is None or not self._direct(width) or len(batch.rows.ids) < floats:
            rows = self._rows(checked(batch))
            self._require_features(rows)
            self._learn_rows(rows, y, w, eta, p)
            return p
        # Looked at while they are learnt: a copy of the state is cheaper than a second pass.
        before = self._state_now()
        if width <= len(batch.rows.ids) and self._reaches(width, len(batch.rows.ids)):
            self._have(width)
        try:
            i = 0
            while i < len(y):
                if self._direct(width):
                    i = self._learn_rows(batch.rows, y, w, eta, p, i, min(self.rule.size, width))
                if i < len(y):
                    i = self._learn_block(batch, i, y, w, eta, p)
        except BaseException:
            self._go_back(before)
            raise
        return p

    def _state_now(self) -> Any:
        """All that a batch may change, to go back to."""
        rule = type(self.rule)(*(a.copy() for a in self.rule))
        watched = [(watch, watch.state) for watch in self.watches]
        return rule, self.online.copy(), self.names, self.forgotten, watched

    def _go_back(self, before: Any) -> None:
        rule, record, names, forgotten, watched = before
        self._frame = None
        self.rule, self.names, self.forgotten = rule, names, forgotten
        self._set_record(record)
        for watch, state in watched:
            watch.state = state

    def _direct(self, width: int) -> bool:
        """Whether the ids of a matrix of so many columns are slots."""
        if isinstance(self.names, Hashed):
            return width <= int(self.rule.size)
        return isinstance(self.names, Ints) and width <= INTS

    def _learn_rows(
        self, rows: Rows, y: Any, w: Any, eta: Any, p: Any, i: int = 0, d: int = 0
    ) -> int:
        """Learn the rows from the i-th; returns n, or where a block begins that is not plain."""
        while True:
            status, i = online.learn(
                self.rule, self.online, rows.ids, rows.values, rows.indptr, y, w, eta, p, i, d
            )
            if status == online.NO_ROOM:
                nnz = int(rows.indptr[i + 1] - rows.indptr[i])
                self._set_rule(self.rule.make_room(nnz))
            elif status == online.CROWDED:
                raise self._crowded(int(i))
            elif status == online.OVER:
                self._cut()
            else:
                return int(i)

    def _learn_block(self, batch: Batch, i: int, y: Any, w: Any, eta: Any, p: Any) -> int:
        """Learn rows from the i-th, which want a slower look; returns the next."""
        j = min(i + self._rows_at_once(), len(y))
        indptr = batch.rows.indptr[i : j + 1]
        lo, hi = int(indptr[0]), int(indptr[-1])
        rows = Rows(batch.rows.ids[lo:hi], batch.rows.values[lo:hi], indptr - indptr[0])
        try:
            plain = self._rows(checked(batch._replace(rows=rows)))
            k = len(p) // len(y)
            self._learn_rows(plain, y[i:j], w[i:j], eta[i:j], p[i * k : j * k])
        except BadExample as bad:
            raise BadExample(bad.reason, i + bad.row) from None
        return j

    def _require_features(self, rows: Rows) -> None:
        """Refuse the first row that has a feature more than the rule may see."""
        left = features_left(self.rule)
        if left >= len(rows.ids):
            return
        new = np.flatnonzero(~self.rule.touched()[rows.ids])
        first = np.sort(np.unique(rows.ids[new], return_index=True)[1])
        if len(first) > left:
            raise self._crowded(row_of(rows, int(new[first[int(left)]])))

    def _crowded(self, row: int) -> BadExample:
        most = features_left(self.rule) + np.count_nonzero(self.rule.touched())
        return BadExample(
            f"a new feature comes after n_features={most:.0f} others; make the model with a "
            "larger n_features",
            row,
        )

    def _rows_at_once(self) -> int:
        """How many rows are sorted out together: few where few weights may be kept."""
        most = int(self.online[0].most)
        return min(max(most // 64, 16), SLOW_BLOCK) if most else SLOW_BLOCK

    def margins(self, batch: Batch, out: int, stride: int = 0) -> Any:
        """Margin of each row; with `out`, its sigmoid (see `online.margins`)."""
        with self.alone():
            return super().margins(batch, out, stride)

    # Room: zeros are given back before anything grows

    def _set_rule(self, rule: Any) -> None:
        if rule is not self.rule:
            self._frame = None
            self.rule = rule

    def have_outputs(self, k: int) -> None:
        """Have room for `k` outputs; for rules that have several."""
        if k > self.rule.outputs:
            with self.alone():
                self._set_rule(self.rule.widen(k))

    def _admit_all(self, names: list[Hashable]) -> Any:
        """Slots of names; the rule has all of them."""
        if isinstance(self.names, Ints):
            slots = self.names.find_all(names)
            top = int(slots.max()) if len(slots) else 0
            if top != MISSING and self._reaches(top + 1, len(slots)):
                self._have(top + 1)
                return slots
            self._name_all()
        if isinstance(self.names, Hashed):
            return self.names.find_all(names)
        self._have_places(len(names))
        if isinstance(self.names, Ints):
            return self._admit_all(names)
        entries = self.names.entries
        try:
            return self.names.admit_all(names)
        finally:
            if self.names.entries is not entries:
                self._frame = None

    def _admit_texts(self, texts: NamedRows) -> Any:
        """Slots of names that come as bytes; the rule has all of them."""
        while True:
            slots, unknown = self._find_texts(texts)
            if not len(unknown):
                return slots
            if isinstance(self.names, Ints):
                self._name_all()
            names = self.names
            self._have_slots(len(unknown))
            if self.names is names:
                break
        hashes, _, _ = texts.parts()
        self._frame = None
        if names.others:  # one of them may be equal to a string
            known = self._admit_all([*texts.names_of(unknown)])
            spread_slots(texts, slots, unknown, known)
        else:
            names.admit_bytes(hashes, slots, unknown, texts.names, texts.own_spans())
        return slots

    def _have_slots(self, n: int) -> None:
        """Have slots for `n` names more."""
        if len(self.names) + n > self.rule.size:
            self._make_space(n)

    def _have_places(self, n: int, crossed: int = 0) -> None:
        """Have slots, and places in the table, for `n` names more, some of them crossed."""
        self._have_slots(n)
        if isinstance(self.names, Table):
            entries = self.names.entries
            self.names.widen(n)
            if self.names.entries is not entries:
                self._frame = None
            entries = self.names.crossed.entries
            self.names.crossed.widen(crossed)
            if self.names.crossed.entries is not entries:
                self._frame = None

    def _reaches(self, needed: int, n: int) -> bool:
        """Whether ints are still worth being slots where `n` more may need so many."""
        if needed > INTS:
            return False
        most = int(self.online[0].most)
        if most:
            return needed <= max(COPY_SLOTS, SPARSE * most)
        slots = SLOTS // getattr(self.rule, "outputs", 1)
        if needed <= max(slots, self.rule.size, SPARSE * n):
            return True
        return needed <= SPARSE * (n + int(np.count_nonzero(self.rule.touched())))

    def _have(self, size: int) -> None:
        """Have at least `size` slots."""
        if size > self.rule.size:
            rule = self.rule.grow(max(size, 2 * self.rule.size))
            self._frame = None
            self.rule = rule

    def _name_all(self) -> None:
        """Give up ints as slots: those that are not zero become names like any other."""
        kept = self.rule.touched()
        if np.count_nonzero(kept) > LEAST_SIZE:
            kept = self.rule.holding()
        names = Table()
        names.admit_all(np.flatnonzero(kept).tolist())
        new_slots = np.full(self.rule.size, -1)
        new_slots[kept] = np.arange(len(names))
        size = max(LEAST_SIZE, _power_of_two(2 * len(names)))
        self._renumber(names, new_slots, size)

    def _make_space(self, n: int) -> None:
        """Have room for `n` names more: first in the slots of zeros, which are given back."""
        holding = self.rule.holding()
        alive = int(np.count_nonzero(holding))
        size = max(LEAST_SIZE, _power_of_two(3 * (alive + n) // 2))
        if alive == len(self.names):
            self._set_rule(self.rule.grow(max(size, self.rule.size)))
            return
        names, new_slots = self.names.keep(holding)
        ints = names.ints()
        if ints is not None and self._ints_again(ints):
            moved = np.full(self.rule.size, -1)
            kept = np.flatnonzero(new_slots >= 0)
            moved[kept] = ints[new_slots[kept]]
            self._renumber(Ints(), moved, max(LEAST_SIZE, int(ints.max(initial=0)) + 1))
            return
        padded = np.full(self.rule.size, -1)
        padded[: len(new_slots)] = new_slots
        self._renumber(names, padded, size)

    def _ints_again(self, ints: Any) -> bool:
        top = int(ints.max(initial=-1)) + 1
        return COPY_SLOTS < top <= INTS and top <= SPARSE * len(ints) and self._reaches(top, 0)

    def _renumber(self, names: Any, new_slots: Any, size: int) -> None:
        """Move every slot; what is given back is counted as seen."""
        gone = self.rule.touched() & (new_slots < 0)
        forgotten = self.forgotten
        if gone.any():
            forgotten = Sketch() if forgotten is None else forgotten.copy()
            forgotten.add(self.names.hashes(np.flatnonzero(gone)))
        rule = self.rule.renumber(new_slots, size)
        watched = [(watch, watch.moved(self.names, new_slots)) for watch in self.watches]
        self._frame = None
        self.rule, self.names, self.forgotten = rule, names, forgotten
        for watch, state in watched:
            watch.state = state

    # A most to the weights that are not zero

    def limit(self, most: int) -> None:
        """Keep at most so many weights from the next step on; 0: any number."""
        o = self.online[0]
        with self.alone():
            if o.most != most or bool(most) != bool(o.held):
                held = np.count_nonzero(self.rule.weights()) if most else 0
                o.most, o.held = 0, 0
                o.held, o.most = held, most

    def _cut(self) -> None:
        """Give up the smallest weights, where there are nearly as many as may be."""
        o = self.online[0]
        if not o.most:  # an interrupted change of it
            o.held = 0
            return
        slots, w = self.alive()
        n, most = len(slots), int(o.most)
        kept = max(1, most - max(1, most // 8))
        # Then a sixteenth at least goes by before the next look.
        if n > most - max(1, most // 16) and n > kept:
            out = smallest(slots, np.abs(w), n - kept, self.names)
            self.rule.drop(out)
            o.cut += len(out)
            n = kept
        o.held = n

    # What is known

    @property
    def n_features_seen(self) -> int:
        """How many features examples have had; an estimate once names were given back."""
        with self.alone():
            if isinstance(self.names, Hashed):
                return self._slots_seen()
            return self._names_met()

    def _names_met(self) -> int:
        """Names met: those of now and, by an estimate, those given back."""
        touched = self.rule.touched()
        if self.forgotten is None:
            return int(np.count_nonzero(touched))
        sketch, touched = self.forgotten.copy(), np.flatnonzero(touched)
        sketch.add(self.names.hashes(touched))
        return max(sketch.estimate(), len(touched))

    def _slots_seen(self) -> int:
        """Names seen, from how many of all slots were met (linear counting)."""
        size = int(self.rule.size)
        met = self._names_met()
        return round(-size * float(np.log1p(-min(met, size - 0.5) / size)))

    @property
    def n_nonzero(self) -> int:
        """How many weights are not zero."""
        with self.alone():
            return int(np.count_nonzero(self.rule.weights()))

    def weights(self) -> tuple[list[Hashable], Any]:
        """Names and weights of those that are not zero, in the order of their slots."""
        with self.alone():
            w = self.rule.weights()
            slots = np.flatnonzero(w)
            return [self.names.name(j) for j in slots.tolist()], w[slots]

    def alive(self) -> tuple[Any, Any]:
        """The slots whose weights are not zero, in order, and these, in one pass; for `alone`."""
        slots, w = np.empty(self.rule.size, np.int64), np.empty(self.rule.size)
        n = online.alive(self.rule, slots, w)
        return slots[:n].copy(), w[:n].copy()

    def watch(self) -> Watch:
        """What tells which features have entered and left the model since."""
        with self.alone():
            watch = Watch(self)
            self.watches.add(watch)
        return watch

    # Copies: as small as what is alive

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """The state as of now: what is quick to copy is copied, the rest is done when called."""
        with self.alone():
            names = self.names.still()
            state = self._snapshot(names)
            gone = np.flatnonzero(self.rule.touched() & ~self.rule.holding())
            forgotten = None if self.forgotten is None else self.forgotten.copy()

        def told() -> dict[str, Any]:
            known = forgotten
            if len(gone):
                known = Sketch() if known is None else known.copy()
                known.add(names.hashes(gone))
            return {**state(), "forgotten": None if known is None else known.registers}

        return told

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        registers = state["forgotten"]
        self.forgotten = None if registers is None else Sketch(registers)
        self._start()

    def frozen(self) -> Reader:
        """A copy that only predicts, as small as what is alive."""
        with self.alone():
            state = Reader.snapshot(self)()
        reader = Reader.__new__(Reader)
        reader.__setstate__(state)
        return reader

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and, roughly, of the names."""
        total = int(sum(a.nbytes for a in (*self.rule, self.online)))
        if self._frame is not None:
            total += self._frame.nbytes
        if isinstance(self.names, Table):
            names = self.names
            total += 150 * len(names.known) + int(names.entries.nbytes)
            total += int(names.crossed.entries.nbytes) + names.waiting.nbytes
        return total

    def check(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        self.rule.check()
        ensure(self.online.dtype == online.ONLINE and self.online.shape == (1,), "no record")
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


def _power_of_two(n: int) -> int:
    """The least power of two that is not below `n`."""
    return 1 << max(0, n - 1).bit_length()


# A process that forks while another thread learns would have a copy half-way, and its lock held.

_ENGINES: WeakSet[Engine] = WeakSet()
_FORKING = threading.RLock()
_HELD: list[Callable[[], None]] = []


def _before_fork() -> None:
    _FORKING.acquire()
    for engine in sorted(_ENGINES, key=id):
        engine.lock.acquire()
        _HELD.append(engine.lock.release)


def _after_fork() -> None:
    while _HELD:
        _HELD.pop()()
    _FORKING.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
