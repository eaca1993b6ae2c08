"""What predicts: a rule, names and an online record; nothing in them changes here."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from streaml1 import online, walk
from streaml1.batches import Batch, batch_of, checked
from streaml1.names import MISSING, Hashed, Ints
from streaml1.names.restore import restore_names
from streaml1.parse.rows import NamedRows
from streaml1.rows import (
    BadExample,
    Rows,
    below,
    ensure,
    plain_items,
    plain_rows,
    refuse_value,
    repeats,
)
from streaml1.rules import unknown_slot

__all__ = ["LEAST_SIZE", "Reader"]

LEAST_SIZE = 1024  # slots
LENGTH = 256  # features of a dict that are walked without widening the buffers first


class Reader:
    """The predictions of a model's state.

    Any number of threads may call it at once, as long as nobody changes the state meanwhile.

    Parameters
    ----------
    rule
        A rule of `streaml1.rules`.
    record
        Of `online.ONLINE`.
    names
        One of the kinds of `streaml1.names`.
    """

    def __init__(self, rule: Any, record: Any, names: Any) -> None:
        self.rule = rule
        self.names = names
        self._set_record(record)
        self._frame: walk.Frame | None = None

    def _set_record(self, record: Any) -> None:
        self.online = record.view(np.recarray)
        # The first field, t, as a memoryview: read at a fifth of the cost of an array's.
        self.clock = memoryview(record.view(np.int64))

    # Copies: as small as what is alive

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """The state as of now: what is quick to copy is copied, the rest is done when called."""
        return self._snapshot(self.names.still())

    def _snapshot(self, names: Any) -> Callable[[], dict[str, Any]]:
        slots, arrays = self.rule.dump()
        if not len(slots) and not isinstance(names, Hashed):
            names = Ints()
        rule, record = type(self.rule), self.online.copy()
        return lambda: {
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
        rule = state["rule"].restore(size, slots, state["arrays"])
        ensure(state["online"].dtype == online.ONLINE, "no record")
        record = np.zeros(1, online.ONLINE)  # aligned, as kernels are compiled for
        record[:] = state["online"]
        Reader.__init__(self, rule, record, names)

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
        frame = self._frame
        if frame is not None:
            a = frame.predict(frame.address, id(x), out)
            if a == a:
                return a
        return self._margin_otherwise(x, out)

    def _margin_otherwise(self, x: Mapping[Hashable, Any], out: int) -> float:
        if self._wants_frame(x):
            frame = self._new_frame(len(x))
            a = frame.predict(frame.address, id(x), out)
            if a == a:
                return a
        return self._margin_of(plain_items(x), out)

    def _margin_of(self, plain: dict[Hashable, float], out: int) -> float:
        names = list(plain)
        ids, values = self._row(names, plain, self.names.find_all(names))
        known = ids < self.rule.size
        unknown = unknown_slot(self.rule)
        if unknown is not None:
            ids[~known] = unknown
        elif not known.all():
            ids, values = ids[known], values[known]
        return online.margin(self.rule, self.online, ids, values, len(ids), out)

    def _row(self, names: list[Hashable], plain: dict[Hashable, float], slots: Any) -> Any:
        """Distinct slots and their values: names may share one, most of all where hashed."""
        if MISSING in slots or len(set(slots.tolist())) == len(slots):
            return slots, np.fromiter(plain.values(), np.float64, len(plain))
        merged: dict[int, float] = {}
        for slot, v in zip(slots.tolist(), plain.values(), strict=True):
            merged[slot] = merged.get(slot, 0.0) + v
        for slot, v in merged.items():
            refuse_value(names[slots.tolist().index(slot)], v)
        kept = {slot: v for slot, v in merged.items() if v != 0.0}
        n = len(kept)
        return np.fromiter(kept, np.uint32, n), np.fromiter(kept.values(), np.float64, n)

    def _wants_frame(self, x: Any) -> bool:
        """Whether the dict should be walked, and could be with another frame."""
        if not walk.AVAILABLE or type(x) is not dict:
            return False
        return self._frame is None or len(x) > self._frame.length

    def _new_frame(self, n: int, learns: bool = False) -> walk.Frame:
        length = max(LENGTH, 2 * n)
        if self._frame is not None:
            self._frame.close()
            length, learns = max(length, self._frame.length), learns or self._frame.learns
        self._frame = walk.frame_of(self.names, self.rule, self.online, length, learns)
        return self._frame

    # Many examples

    def margins(self, batch: Batch, out: int, stride: int = 0) -> Any:
        """Margin of each row; with `out`, its sigmoid (see `online.margins`)."""
        a = np.empty(batch.n)
        rows = self._placed(checked(batch))
        unknown = unknown_slot(self.rule)
        if unknown is None:
            rows = below(rows, self.rule.size)
        else:
            rows = rows._replace(ids=np.minimum(rows.ids, np.uint32(unknown)))
        online.margins(self.rule, self.online, rows.ids, rows.values, rows.indptr, a, out, stride)
        return a

    def _placed(self, batch: Batch) -> Rows:
        """The rows of a plain batch with slots for ids; some of them beyond the rule's size."""
        rows, names = batch.rows, batch.names
        if batch.texts is not None:
            slots, unknown = self._find_texts(batch.texts)
            if len(unknown) and not isinstance(self.names, Ints):
                known = self.names.find_all(batch.texts.names_of(unknown))
                _spread_slots(batch.texts, slots, unknown, known)
            unknown = slots == MISSING
            if unknown.any():  # distinct ones have distinct ids above all slots
                hashes, _, _ = batch.texts.parts()
                slots[unknown] = self.rule.size + np.unique(hashes[unknown], return_inverse=True)[1]
            return self._without_repeats(rows._replace(ids=slots), batch.texts)
        if names is not None:
            slots = self.names.find_all(names)
            return self._apart(rows._replace(ids=slots[rows.ids]), slots)
        if isinstance(self.names, Ints):
            return rows
        slots = self.names.find_ints(rows.ids)
        return self._apart(rows._replace(ids=slots), slots[:0])

    def _find_texts(self, texts: NamedRows) -> tuple[Any, Any]:
        """Slots of names that come as bytes, `MISSING` for some, and first places of these."""
        hashes, _, _ = texts.parts()
        if isinstance(self.names, Hashed):
            return (hashes & np.uint64(self.names.mask)).astype(np.uint32), []
        if isinstance(self.names, Ints):
            slots, n = np.full(len(hashes), MISSING, np.uint32), len(hashes)
        else:
            slots, n = self.names.by_bytes.find(hashes)
        if not n:
            return slots, []
        places = np.flatnonzero(slots == MISSING)
        first = np.unique(hashes[places], return_index=True)[1]
        return slots, places[np.sort(first)]

    def _without_repeats(self, rows: Rows, texts: NamedRows) -> Rows:
        """Rows with each slot once, of values that are plain."""
        apart = texts.plain and not isinstance(self.names, Hashed)
        if apart or not repeats(rows):
            return rows
        try:
            return plain_rows(rows)
        except BadExample:
            batch_of(list(texts))  # says it by name, where it is not that two names share a slot
            return self._apart(rows, rows.ids[:0])

    def _apart(self, rows: Rows, slots: Any) -> Rows:
        """Rows with each slot once, given those of the names: names may share one."""
        slots = slots[slots < self.rule.size]
        if not isinstance(self.names, Hashed) and len(np.unique(slots)) == len(slots):
            return rows
        try:
            return plain_rows(rows)
        except BadExample as bad:
            raise BadExample(f"{bad.reason} (features of this row share a slot)", bad.row) from None


def _spread_slots(texts: NamedRows, slots: Any, places: Any, known: Any) -> None:
    """Give the slots of some names, told by places of theirs, to all places that have them."""
    hashes, _, _ = texts.parts()
    missing = np.flatnonzero(slots == MISSING)
    wanted = hashes[places]
    order = np.argsort(wanted)
    at = order[np.searchsorted(wanted, hashes[missing], sorter=order)]
    slots[missing] = known[at]
