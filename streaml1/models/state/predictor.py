"""What predicts: a rule, names and an online record; nothing in them changes here."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from streaml1.core.jit import COMPILED
from streaml1.core.rows import BadExample, Rows, ensure, largest, plain_items, refuse_value
from streaml1.features import dict_reader as walk
from streaml1.features.batch import Batch, batch_of, checked
from streaml1.features.dedup import masked_rows, plain_rows
from streaml1.features.dedup_text import without_repeats
from streaml1.features.interactions import (
    Crosses,
    Crossing,
    Marked,
    crossing_of,
    find_crossed,
    hashes_of,
    marked,
    spread,
)
from streaml1.features.ngrams import Words, counted_batch
from streaml1.features.vocabulary import MISSING, Hashed, Ints, Table
from streaml1.features.vocabulary.byte_interning import distinct
from streaml1.features.vocabulary.restore import restore_names
from streaml1.optim import loop
from streaml1.optim.update_rule import unknown_slot
from streaml1.text.parsed_rows import NamedRows

__all__ = ["LEAST_SIZE", "Reader"]

LEAST_SIZE = 1024  # slots
MOST_WALKED = 2**18  # features of a dict, crossed ones among them, that buffers are made for
LENGTH = 256  # features of a dict that are walked without widening the buffers first


class Reader:
    """The predictions of a model's state.

    Any number of threads may call it at once, as long as nobody changes the state meanwhile.

    Parameters
    ----------
    rule
        A rule of `streaml1.optim.update_rule`.
    record
        Of `loop.ONLINE`.
    names
        One of the kinds of `streaml1.features.vocabulary`.
    crosses
        What is crossed, if anything is.
    words
        What is text, if anything is.
    """

    def __init__(
        self,
        rule: Any,
        record: Any,
        names: Any,
        crosses: Crosses | None = None,
        words: Words | None = None,
    ) -> None:
        self.crosses = crosses
        self.words = words
        # Kernels read texts themselves, but where words are crossed.
        simple = words is not None and words.simple
        self._walks_texts = simple and crosses is None and walk.AVAILABLE
        self.rule = rule
        self.names = names
        self._set_record(record)
        self._frame: walk.Frame | None = None

    def _set_record(self, record: Any) -> None:
        self.online = record.view(np.recarray)
        # Compiled kernels learn the type of a plain array at an eighth of the cost.
        self._record = record.view(np.ndarray) if COMPILED else self.online
        # The first field, t, as a memoryview: read at a fifth of the cost of an array's.
        self.clock = memoryview(record.view(np.int64))

    # Copies: as small as what is alive

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """The state as of now: what is quick to copy is copied, the rest is done when called."""
        return self._snapshot(self.names.still())

    def _snapshot(self, names: Any) -> Callable[[], dict[str, Any]]:
        slots, arrays = self.rule.state_dict()
        if not len(slots) and not isinstance(names, Hashed):
            names = Ints()
        rule, record = type(self.rule), self.online.copy()
        return lambda: {
            "made": (self.crosses, self.words),
            "rule": rule,
            "arrays": arrays,
            "online": record,
            "names": names.dump(slots),
        }

    def __getstate__(self) -> dict[str, Any]:
        return self.snapshot()()

    def __setstate__(self, state: dict[str, Any]) -> None:
        names, slots, size = restore_names(state["names"])
        size = size if isinstance(names, Hashed) else max(size, LEAST_SIZE)
        rule = state["rule"].from_state_dict(size, slots, state["arrays"])
        ensure(state["online"].dtype == loop.ONLINE, "no record")
        record = np.zeros(1, loop.ONLINE)  # aligned, as kernels are compiled for
        record[:] = state["online"]
        made = (getattr(self, "crosses", None), getattr(self, "words", None))
        Reader.__init__(self, rule, record, names, *state.get("made", made))

    @property
    def t(self) -> int:
        """How many examples have been learnt."""
        return self.clock[0]

    @property
    def intercept(self) -> float:
        """The intercept: what the rule tells of it, or that of the online record."""
        tell = getattr(self.rule, "intercept", None)
        return float(self.online[0].b if tell is None else tell(self.online))

    # One example

    def margin(self, x: Mapping[Hashable, Any], out: int) -> float:
        """Margin of an example; with `out`, its sigmoid (see `rules.predict`)."""
        if self.words is not None and not self._walks_texts:
            # Dicts have no kernel for crossed words; where they are hashed, strings are quick.
            if self.crosses is not None and not isinstance(self.names, Hashed):
                return float(self.margins(self.batch([x]), out)[0])
            x = self.words.of(x)
        frame = self._frame
        if frame is not None:
            a = frame.predict(frame.address, x, out)
            if a == a:
                return a
        return self._margin_otherwise(x, out)

    def _margin_otherwise(self, x: Mapping[Hashable, Any], out: int) -> float:
        a = self._margin_of_frame(x, out)
        if a == a:
            return a
        counted = self._counted(x)
        if counted is not x:
            return self.margin(counted, out)
        return self._margin_of(plain_items(x), out)

    def _margin_of_frame(self, x: Mapping[Hashable, Any], out: int) -> float:
        """The margin by a new frame, if one is of use; else NaN."""
        for _ in range(2):  # how wide it has to be for what is crossed, the first one tells
            if not self._wants_frame(x):
                break
            frame = self._new_frame(len(x))
            a = float(frame.predict(frame.address, x, out))
            if a == a:
                return a
        return math.nan

    def _counted(self, x: Mapping[Hashable, Any]) -> Mapping[Hashable, Any]:
        """An example with words in place of texts that no kernel takes."""
        return x if self.words is None else self.words.of(x)

    def _margin_of(self, plain: dict[Hashable, float], out: int) -> float:
        names, values = list(plain), np.fromiter(plain.values(), np.float64, len(plain))
        slots = self.names.find_all(names)
        if self.crosses is not None:
            crosses = self.crosses.of(plain)
            names += [one.parts for one in crosses]
            values = np.append(values, [one.value for one in crosses])
            slots = np.append(slots, find_crossed(self.names, hashes_of(crosses))[0])
        ids, values = self._row(names, values, slots)
        ids, values = self._stood_for(ids, values)
        return loop.predict_row(self.rule, self._record, ids, values, len(ids), out)

    def _stood_for(self, ids: Any, values: Any) -> tuple[Any, Any]:
        """Slots and values where some slots are beyond the rule's: for these one stands, or none.

        Entries that weigh nothing stay in their places: the sum of a row adds them up by places.
        """
        unknown = unknown_slot(self.rule)
        if unknown is not None:
            return np.minimum(ids, np.uint32(unknown)), values
        if not self.rule.size:
            return ids[:0], values[:0]
        known = ids < self.rule.size
        return np.where(known, ids, np.uint32(0)), np.where(known, values, 0.0)

    def _row(self, names: list[Hashable], values: Any, slots: Any) -> Any:
        """Distinct slots and their values: names may share one, most of all where hashed."""
        known = slots[slots != MISSING].tolist()
        if len(set(known)) == len(known):
            return slots, values
        merged: dict[int, float] = {}
        firsts: dict[int, int] = {}
        for k, (slot, v) in enumerate(zip(slots.tolist(), values.tolist(), strict=True)):
            own = slot if slot != MISSING else MISSING + k + 1
            merged[own] = merged.get(own, 0.0) + v
            firsts.setdefault(own, k)
        for own, v in merged.items():
            refuse_value(names[firsts[own]], v)
        kept = [(min(own, MISSING), v) for own, v in merged.items() if v != 0.0]
        return np.array([j for j, _ in kept], np.uint32), np.array([v for _, v in kept])

    def _wants_frame(self, x: Any) -> bool:
        """Whether the dict should be walked, and could be with another frame."""
        if not walk.AVAILABLE or type(x) is not dict:
            return False
        frame = self._frame
        if frame is None or frame.is_stale:
            return True
        return frame.length < max(len(x), min(frame.needed, MOST_WALKED))

    def _new_frame(self, n: int, learns: bool = False) -> walk.Frame:
        length = max(LENGTH, 2 * n)
        if self._frame is not None:
            self._frame.close()
            needed = 2 * min(self._frame.needed, MOST_WALKED)
            length = max(length, self._frame.length, needed)
            learns = learns or self._frame.learns
        self._frame = walk.frame_of(
            self.names, self.rule, self.online, length, learns, self.crosses,
            self.words if self._walks_texts else None,
        )  # fmt: skip
        return self._frame

    # Many examples

    def batch(self, X: Any, learns: bool = False) -> Batch:
        """The rows of X, see `batches.batch_of`; to be learnt or not."""
        try:
            return batch_of(X) if self.words is None else counted_batch(self.words, X)
        except BadExample as bad:
            if isinstance(X, list | tuple):
                self._refuse_before(X[: bad.row], learns)
            raise

    def _refuse_before(self, xs: Sequence[Any], learns: bool) -> None:
        """Refuse the first of some examples that is none, or is refused for words or crosses."""
        for row, x in enumerate(xs):
            try:
                if not isinstance(x, Mapping):
                    batch_of([x])
                plain = plain_items(x if self.words is None else self.words.of(x))
                if self.crosses is not None:
                    for name in plain if learns and not isinstance(self.names, Hashed) else ():
                        self.crosses.require_plain(name)
                    self.crosses.of(plain)
            except BadExample as bad:
                raise BadExample(bad.reason, row) from None

    def margins(self, batch: Batch, out: int, stride: int = 0) -> Any:
        """Margin of each row; with `out`, its sigmoid (see `loop.predict_rows`)."""
        if self.crosses is not None:
            return self._crossed_margins(self.crosses, batch, out, stride)
        return self._margins(self._placed(checked(batch)), out, stride)

    def _margins(self, rows: Rows, out: int, stride: int) -> Any:
        a = np.empty(rows.n)
        if len(rows.ids) and largest(rows.ids) >= self.rule.size:
            ids, values = self._stood_for(rows.ids, rows.values)
            rows = Rows(ids, values, rows.indptr if len(ids) else np.zeros_like(rows.indptr))
        loop.predict_rows(
            self.rule, self._record, rows.ids, rows.values, rows.indptr, a, out, stride
        )
        return a

    def _crossed_margins(self, crosses: Crosses, batch: Batch, out: int, stride: int) -> Any:
        """As `predict_rows`, with what is crossed in the rows."""
        whole = marked(crosses, checked(batch))
        a = [np.empty(0)]
        for lo, hi in whole.pieces():
            try:
                rows = self._found(crosses, whole.part(lo, hi))
            except BadExample as bad:
                raise BadExample(bad.reason, lo + bad.row) from None
            a.append(self._margins(rows, out + stride * lo if stride else out, stride))
        return np.concatenate(a)

    def _found(self, crosses: Crosses, some: Marked) -> Rows:
        """Rows of a batch, and what is crossed in them, as `_placed` tells."""
        crossing = crossing_of(crosses, some)
        slots, new = find_crossed(self.names, crossing.hashes)
        slots[new] = self.rule.size + len(some.batch.rows.values) + np.arange(len(new))
        return self._both(some.batch, self._slots_of(some.batch), crossing, slots)

    def _slots_of(self, batch: Batch) -> Any:
        """Slots of the entries of a batch of names, for some beyond the rule's size."""
        if batch.texts is not None:
            return self._text_slots(batch.texts)
        slots = self.names.find_all(batch.names or [])
        new = np.flatnonzero(slots == MISSING)
        slots[new] = self.rule.size + np.arange(len(new))
        return slots[batch.rows.ids]

    def _both(self, batch: Batch, plain: Any, crossing: Crossing, crossed: Any) -> Rows:
        """Rows of plain features, and behind them what is crossed, given the slots of both."""
        rows = batch.rows
        indptr = rows.indptr + crossing.indptr
        ids, values = np.empty(int(indptr[-1]), np.uint32), np.empty(int(indptr[-1]))
        spread(rows.indptr, crossing.indptr, plain, rows.values, crossed, crossing.values,
               ids, values)  # fmt: skip
        both = Rows(ids, values, indptr)
        return both if self._are_distinct(batch.texts) else self._apart(both, plain)

    def _are_distinct(self, texts: NamedRows | None) -> bool:
        """Whether rows of names each once, and what is crossed in them, have each slot but once."""
        if texts is None or self.crosses is None or not self.crosses.apart or not texts.valued:
            return False
        return isinstance(self.names, Table) and not self.names.others

    def _placed(self, batch: Batch) -> Rows:
        """The rows of a plain batch with slots for ids; some of them beyond the rule's size."""
        rows, names = batch.rows, batch.names
        if batch.texts is not None:
            return self._of_texts(rows, batch.texts, self._text_slots)
        if names is not None:
            slots = self.names.find_all(names)
            return self._apart(rows._replace(ids=slots[rows.ids]), slots)
        if isinstance(self.names, Ints):
            return rows
        slots = self.names.find_ints(rows.ids)
        return self._apart(rows._replace(ids=slots), slots[:0])

    def _text_slots(self, texts: NamedRows) -> Any:
        """Slots of names that come as bytes; those unknown have ids of their own beyond them."""
        slots, places = self._find_texts(texts)
        if len(places) and isinstance(self.names, Table) and self.names.others:
            new = distinct(texts.parts()[0], places)
            new.tell(slots, self.names.find_all(texts.names_of(new.firsts)))
        unknown = slots == MISSING
        if unknown.any():  # distinct ones have distinct ids above all slots
            hashes, _, _ = texts.parts()
            slots[unknown] = self.rule.size + np.unique(hashes[unknown], return_inverse=True)[1]
        return slots

    def _find_texts(self, texts: NamedRows) -> tuple[Any, Any]:
        """Slots of names that come as bytes, `MISSING` for some, and the places of these."""
        hashes, _, _ = texts.parts()
        if isinstance(self.names, Hashed):
            slots = hashes.astype(np.uint32)
            slots &= np.uint32(self.names.mask)
            return slots, np.empty(0, np.int64)
        if isinstance(self.names, Ints):
            return np.full(len(hashes), MISSING, np.uint32), np.arange(len(hashes))
        found: tuple[Any, Any] = self.names.by_bytes.find(hashes)
        return found

    def _of_texts(self, rows: Rows, texts: NamedRows, slots_of: Callable[[NamedRows], Any]) -> Rows:
        """Rows of texts, each slot once in a row, given what tells the slots of their names."""
        if isinstance(self.names, Hashed):
            if texts.plain or texts.valued:
                masked = masked_rows(texts.parts()[0], rows, self.names.mask)
                if masked is not None:
                    return masked
            once = without_repeats(Batch(rows, None, None, texts))
            if once.texts is None:
                return self._placed(once)
            rows, texts = once.rows, once.texts
        return self._without_repeats(Rows(slots_of(texts), rows.values, rows.indptr), texts)

    def _without_repeats(self, rows: Rows, texts: NamedRows) -> Rows:
        """Rows with each slot once, of values that are plain."""
        if texts.plain and not isinstance(self.names, Hashed):
            return rows
        try:
            return plain_rows(rows, valued=texts.plain or texts.valued)
        except BadExample:
            batch_of(list(texts))  # says it by name, where it is not that two names share a slot
            return self._apart(rows, rows.ids[:0])

    def _apart(self, rows: Rows, slots: Any) -> Rows:
        """Rows with each slot once, given those of the names: names may share one."""
        if self.crosses is None and self._are_apart(slots[slots < self.rule.size]):
            return rows
        try:
            return plain_rows(rows)
        except BadExample as bad:
            raise BadExample(f"{bad.reason} (features of this row share a slot)", bad.row) from None

    def _are_apart(self, slots: Any) -> bool:
        return not isinstance(self.names, Hashed) and len(np.unique(slots)) == len(slots)
