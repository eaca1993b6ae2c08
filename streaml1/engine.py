"""One model's state: names, rule and online record, and the calls into the kernels.

Nothing numerical happens here, and nothing is validated but the examples themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from streaml1 import online, walk
from streaml1.batches import Batch, checked
from streaml1.jit import COMPILED, row_kernel
from streaml1.names import INTS, MISSING, Names, NameTable, RowBuffer, Sketch, as_int
from streaml1.rows import BadExample, Rows, below, compact, largest, plain_items

__all__ = ["Engine"]

LEAST_SIZE = 1024


class _RowKernels(NamedTuple):
    """The calls for one example; those of a dict are None where it cannot be walked."""

    predict_row: Callable[..., float]
    learn_row: Callable[..., int]
    predict_dict: Callable[..., float] | None
    learn_dict: Callable[..., int] | None


@cache
def _row_kernels(rule: Any) -> _RowKernels:
    texts: list[Any] = [online.predict_row, online.learn_row]
    if walk.AVAILABLE:
        texts += [walk.predict_dict, walk.learn_dict]
    kernels: list[Any] = [row_kernel(text, rule) for text in texts]
    return _RowKernels(*(kernels + [None, None])[:4])


class Engine:
    """The state of an online learner and what is done with it.

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
    """

    def __init__(
        self, rule: Any, loss: int, intercept: float, intercept_lr: float, clip_gradient: float
    ) -> None:
        self.rule = rule.grow(LEAST_SIZE)
        self.online = np.zeros(1, online.ONLINE).view(np.recarray)
        self.online[0] = (0, intercept, intercept_lr, clip_gradient, loss)
        self.names = Names()
        self.forgotten: Sketch | None = None
        self._start()

    def _start(self) -> None:
        self.buffer = RowBuffer()
        self.kernels = _row_kernels(self.rule.__class__) if COMPILED else self._interpreted()
        self._address()

    def _address(self) -> None:
        """Write down where everything is; due whenever an array was replaced."""
        b, table = self.buffer, self.names.table
        arrays = [b.ids, b.values, b.plain_ids, b.plain_values, b.keys, b.hashes, b.scratch]
        frame = [_at(a) for a in arrays] + [len(b), _at(self.online), self.rule.size]
        if table is None:
            frame += [0, 0, 0]
        else:
            frame += [_at(table.entries), len(table.entries), id(table.known)]
        frame += walk.TYPES_READ
        for a in self.rule:
            frame += [_at(a), len(a)]
        self._frame = np.array(frame, np.uint64)
        # A field of a record array takes microseconds to reach, a view of it none.
        self._t = self.online.view(np.ndarray)["t"]

    @property
    def t(self) -> int:
        """How many examples have been learnt."""
        return int(self._t[0])

    # One example

    def margin(self, x: Mapping[Hashable, Any], proba: bool) -> float:
        """Margin of an example, or its sigmoid; nothing changes."""
        n = len(x)
        if n > len(self.buffer):
            self._widen(n)
        kernels = self.kernels
        if x.__class__ is dict and self.names.table is not None and kernels.predict_dict:
            a = kernels.predict_dict(self._frame, id(x), proba)
            if a == a:
                return a
        if not self.names.write_ints(x, self.buffer):
            n = self._write_plain(x, self.names.find_all)
        a = kernels.predict_row(self._frame, n, proba)
        if a != a:
            raise _refusal(x)
        return a

    def learn(self, x: Mapping[Hashable, Any], y: float, w: float, eta: float) -> None:
        """Learn one example."""
        n = len(x)
        if n > len(self.buffer):
            self._widen(n)
        kernels = self.kernels
        if x.__class__ is dict and self.names.table is not None and kernels.learn_dict:
            status = kernels.learn_dict(self._frame, id(x), y, w, eta)
            if status == online.LEARNT:
                return
            if status != walk.OTHER_ROAD:
                self._make_way(status, n)
                return self.learn(x, y, w, eta)
        if not self.names.write_ints(x, self.buffer):
            n = self._write_plain(x, self._admit_all)
        while (status := kernels.learn_row(self._frame, n, y, w, eta)) != online.LEARNT:
            if status == online.BAD_VALUE:
                raise _refusal(x)
            if status > INTS:
                n = self._write_plain(x, self._admit_all)
            else:
                self._make_way(status, n)

    def _make_way(self, status: int, n: int) -> None:
        """Do what a kernel asked for before it can learn an example of `n` features."""
        if status == online.NO_ROOM:
            self.rule = self.rule.make_room(n)
        elif status == walk.TABLE_FULL:
            assert self.names.table is not None
            self.names.table.widen(n)
        else:
            self.rule = self._grown(status)
        self._address()

    def _write_plain(self, x: Mapping[Hashable, Any], slots_of: Callable[[Any], Any]) -> int:
        plain = plain_items(x)
        n = len(plain)
        if n > len(self.buffer):
            self._widen(n)
        slots = slots_of(list(plain))
        self.buffer.ids[:n] = slots
        self.buffer.values[:n] = list(plain.values())
        return n

    def _interpreted(self) -> _RowKernels:
        """The calls without raw memory."""

        def read(n: int) -> tuple[int, int]:
            b = self.buffer
            return compact(b.ids, b.values, n, self.rule.size, b.plain_ids, b.plain_values)  # type: ignore[no-any-return]

        def predict_row(frame: Any, n: int, proba: bool) -> float:
            b = self.buffer
            m, _ = read(n)
            if m < 0:
                return float("nan")
            return online.margin(self.rule, self.online, b.plain_ids, b.plain_values, m, proba)

        def learn_row(frame: Any, n: int, y: float, w: float, eta: float) -> int:
            b = self.buffer
            m, needed = read(n)
            if m < 0:
                return online.BAD_VALUE
            if needed > self.rule.size:
                return int(needed)
            return online.learn_plain(
                self.rule, self.online, b.plain_ids, b.plain_values, m, y, w, eta
            )

        return _RowKernels(predict_row, learn_row, None, None)

    # Many examples

    def rows(self, batch: Batch, learn: bool) -> Rows:
        """The batch as rows of slots; unknown names are given slots, or left out."""
        rows, names = batch.rows, batch.names
        if names is None and self.names.table is None:
            if not learn:
                return below(rows, self.rule.size)
            needed = largest(rows.ids) + 1 if len(rows.ids) else 0
            if needed <= INTS:
                if needed > self.rule.size:
                    self.rule = self._grown(needed)
                    self._address()
                return rows
        if names is None:
            columns, places = np.unique(rows.ids, return_inverse=True)
            rows, names = rows._replace(ids=places.astype(np.uint32)), columns.tolist()
        used = np.zeros(len(names), bool)
        used[rows.ids] = True
        chosen = [names[k] for k in np.flatnonzero(used)]
        slots = np.full(len(names), MISSING, np.uint32)
        slots[used] = (self._admit_all if learn else self.names.find_all)(chosen)
        rows = rows._replace(ids=slots[rows.ids])
        return rows if learn else below(rows, self.rule.size)

    def progressive(self, batch: Batch, y: Any, w: Any, eta: Any) -> Any:
        """Predict each row, then learn it, or none of them; returns the predictions."""
        p = np.empty(len(y))
        ints = self.names.table is None and batch.width <= INTS
        if not (batch.width and ints and len(batch.rows.ids) >= self.rule.size):
            self._learn_rows(self.rows(checked(batch), learn=True), y, w, eta, p)
            return p
        # Looked at while they are learnt: a copy of the state is cheaper than a second pass.
        before = [a.copy() for a in self.rule], self.online.copy()
        if self.rule.size < batch.width <= len(batch.rows.ids):
            self.rule = self.rule.grow(batch.width)
            self._address()
        i = 0
        try:
            while (i := self._learn_rows(batch.rows, y, w, eta, p, i, self.rule.size)) < 0:
                i = self._learn_block(batch, -1 - i, y, w, eta, p)
        except BaseException:
            self.rule, self.online[0] = type(self.rule)(*before[0]), before[1][0]
            self._address()
            raise
        return p

    def _learn_rows(
        self, rows: Rows, y: Any, w: Any, eta: Any, p: Any, i: int = 0, d: int = 0
    ) -> int:
        """Learn the rows from the i-th; returns n, or -1 - i where a block is not plain."""
        while True:
            i = online.learn(
                self.rule, self.online, rows.ids, rows.values, rows.indptr, y, w, eta, p, i, d
            )
            if i < 0 or i == len(y):
                return i
            self._make_way(online.NO_ROOM, int(rows.indptr[i + 1] - rows.indptr[i]))

    def _learn_block(self, batch: Batch, i: int, y: Any, w: Any, eta: Any, p: Any) -> int:
        """Learn the block that begins with row i, which wants a slower look; returns the next."""
        j = min(i + int(online.BLOCK), len(y))
        indptr = batch.rows.indptr[i : j + 1]
        lo, hi = int(indptr[0]), int(indptr[-1])
        rows = Rows(batch.rows.ids[lo:hi], batch.rows.values[lo:hi], indptr - indptr[0])
        try:
            plain = self.rows(checked(batch._replace(rows=rows)), learn=True)
        except BadExample as bad:
            raise BadExample(bad.reason, i + bad.row) from None
        self._learn_rows(plain, y[i:j], w[i:j], eta[i:j], p[i:j])
        return j

    def margins(self, rows: Rows, proba: bool) -> Any:
        """Margin of each row, or its sigmoid; nothing changes."""
        a = np.empty(rows.n)
        online.margins(self.rule, self.online, rows.ids, rows.values, rows.indptr, a, proba)
        return a

    # Room

    def _admit_all(self, names: list[Hashable]) -> Any:
        if self.names.table is None and any(as_int(name) is None for name in names):
            self._name_all()
        slots = self.names.admit_all(names)
        needed = int(slots.max()) + 1 if len(slots) else 0
        if needed > self.rule.size:
            self.rule = self._grown(needed)
        self._address()
        return slots

    def _name_all(self) -> None:
        """Give up ints as slots: those seen so far become names like any other."""
        seen = np.flatnonzero(self.rule.touched())
        new_slots = np.full(self.rule.size, -1)
        new_slots[seen] = np.arange(len(seen))
        self.rule = self.rule.renumber(new_slots)
        self.names.table = NameTable(seen.tolist())

    def _grown(self, needed: int) -> Any:
        return self.rule.grow(max(needed, 2 * self.rule.size))

    def _widen(self, n: int) -> None:
        self.buffer = RowBuffer(max(n, 2 * len(self.buffer)))
        self._address()

    # What is known

    @property
    def n_features_seen(self) -> int:
        """How many features examples have had; an estimate once names were given back."""
        if self.forgotten is None:
            if self.names.table is None:
                return int(np.count_nonzero(self.rule.touched()))
            return len(self.names.table.known)
        sketch = self.forgotten.copy()
        sketch.add(self._seen())
        return sketch.estimate()

    def _seen(self) -> list[Hashable]:
        if self.names.table is None:
            return list(np.flatnonzero(self.rule.touched()).tolist())
        return self.names.table.known

    def weights(self) -> tuple[list[Hashable], Any]:
        """Names and weights of those that are not zero, in the order of their slots."""
        w = self.rule.weights()
        slots = np.flatnonzero(w)
        return [self.names.name(j) for j in slots.tolist()], w[slots]

    # Copies: as small as what is alive

    def __getstate__(self) -> dict[str, Any]:
        slots, arrays = self.rule.dump()
        ints = self.names.table is None
        names = [self.names.name(j) for j in slots.tolist()]
        forgotten = self.forgotten
        alive = set(names)
        zeros = [name for name in self._seen() if name not in alive]
        if zeros:
            forgotten = Sketch() if forgotten is None else forgotten.copy()
            forgotten.add(zeros)
        return {
            "rule": type(self.rule),
            "arrays": arrays,
            "online": self.online.copy(),
            "ints": ints,
            "names": names,
            "forgotten": None if forgotten is None else forgotten.registers,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        names = state["names"]
        self.names = Names()
        if state["ints"]:
            slots = np.array(names, np.int64)
            size = int(slots.max()) + 1 if len(slots) else 0
        else:
            slots = np.arange(len(names))
            size = len(names)
            self.names.table = NameTable(names)
        self.rule = state["rule"].restore(max(size, LEAST_SIZE), slots, state["arrays"])
        self.online = state["online"].astype(online.ONLINE).view(np.recarray)
        self.forgotten = None if state["forgotten"] is None else Sketch(state["forgotten"])
        self._start()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and, roughly, of the names."""
        arrays = [*self.rule, self.online, self._frame]
        table = self.names.table
        names = 0 if table is None else 150 * len(table.known) + table.entries.nbytes
        return int(sum(a.nbytes for a in arrays)) + len(self.buffer) * 24 + names

    def check(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        self.rule.check()
        if self.names.table is not None:
            self.names.table.check()
            assert len(self.names.table.known) <= self.rule.size, "more names than slots"


def _at(a: Any) -> int:
    return int(a.__array_interface__["data"][0])


def _refusal(x: Mapping[Hashable, Any]) -> BadExample:
    """Why an example was refused whose values the kernel would not take."""
    try:
        plain_items(x)
    except BadExample as bad:
        return bad
    return BadExample("the example changed while it was read; give a dict of its own")
