"""One model's state: names, rule and online record, and the calls into the kernels.

Nothing numerical happens here, and nothing is validated but the examples themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from streaml1 import online, walk
from streaml1.batches import Batch, checked
from streaml1.jit import COMPILED, row_kernel
from streaml1.names import INTS, MISSING, Names, NameTable, RowBuffer, Sketch, as_int
from streaml1.rows import BadExample, Rows, below, compact, ensure, largest, plain_items

__all__ = ["Engine"]

LEAST_SIZE = 1024
SLOW_BLOCK = 1024  # rows at a time that are sorted out in Python


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
        record = np.zeros(1, online.ONLINE)
        record[0] = (0, intercept, intercept_lr, clip_gradient, loss)
        self._go_on_from(record)
        self.names = Names()
        self.forgotten: Sketch | None = None
        self._start()

    def _go_on_from(self, record: Any) -> None:
        self.online = record.view(np.recarray)
        # A field of a record array takes microseconds to reach, a view of it none.
        self._t = record.view(np.ndarray)["t"]

    def _start(self) -> None:
        # Without it a thread could read addresses of arrays that another has just replaced.
        self.lock = threading.RLock()
        self.buffer = RowBuffer()
        self.kernels = _row_kernels(self.rule.__class__) if COMPILED else self._interpreted()
        self._frame: Any = None

    def _address(self) -> Any:
        """Write down where everything is.

        Whoever replaces an array sets `_frame` to None first, whatever may interrupt the change.
        """
        b, table = self.buffer, self.names.table
        arrays = [b.ids, b.values, b.plain_ids, b.plain_values]
        arrays += [b.keys, b.texts, b.hashes, b.aliases, b.scratch]
        frame = [_at(a) for a in arrays] + [len(b), _at(self.online), self.rule.size]
        if table is None:
            frame += [0, 0, 0, 0]
        else:
            entries = table.entries
            frame += [_at(entries), len(entries), _at(table.used), id(table.known)]
        frame += walk.TYPES_READ
        for a in self.rule:
            frame += [_at(a), len(a)]
        self._walks = table is not None and self.kernels.predict_dict is not None
        self._frame = np.array(frame, np.uint64)
        return self._frame

    @property
    def t(self) -> int:
        """How many examples have been learnt."""
        return int(self._t[0])

    # One example

    def margin(self, x: Mapping[Hashable, Any], proba: bool) -> float:
        """Margin of an example, or its sigmoid; nothing changes."""
        with self.lock:
            n = len(x)
            if n > len(self.buffer):
                self._widen(n)
            frame = self._frame if self._frame is not None else self._address()
            kernels = self.kernels
            if self._walks and type(x) is dict:
                a: float = kernels.predict_dict(frame, id(x), proba)  # type: ignore[misc]
                if a == a:
                    return a
            if not self.names.write_ints(x, self.buffer):
                n = self._write_plain(plain_items(x), self.names.find_all)
                frame = self._frame if self._frame is not None else self._address()
            a = kernels.predict_row(frame, n, proba)
            if a != a:
                raise _refusal(x)
            return a

    def learn(self, x: Mapping[Hashable, Any], y: float, w: float, eta: float) -> None:
        """Learn one example."""
        with self.lock:
            n = len(x)
            if n > len(self.buffer):
                self._widen(n)
            frame = self._frame if self._frame is not None else self._address()
            kernels = self.kernels
            if self._walks and type(x) is dict:
                status = kernels.learn_dict(frame, id(x), y, w, eta)  # type: ignore[misc]
                if status == online.LEARNT:
                    return
                if status != walk.OTHER_ROAD:
                    self._make_way(status, n)
                    return self.learn(x, y, w, eta)
            if not self.names.write_ints(x, self.buffer):
                n = self._write_plain(plain_items(x), self._admit_all)
            while True:
                frame = self._frame if self._frame is not None else self._address()
                status = kernels.learn_row(frame, n, y, w, eta)
                if status == online.LEARNT:
                    return
                if status == online.BAD_VALUE:
                    raise _refusal(x)
                if status > INTS:
                    n = self._write_plain(plain_items(x), self._admit_all)
                else:
                    self._make_way(status, n)

    def _make_way(self, status: int, n: int) -> None:
        """Do what a kernel asked for before it can learn an example of `n` features."""
        self._frame = None
        if status == online.NO_ROOM:
            self.rule = self.rule.make_room(n)
        elif status == walk.TABLE_FULL:
            assert self.names.table is not None
            self.names.table.widen(2 * n)
        else:
            self._have(status)

    def _write_plain(self, plain: dict[Hashable, float], slots_of: Callable[[Any], Any]) -> int:
        n = len(plain)
        if n > len(self.buffer):
            self._widen(n)
        self.buffer.ids[:n] = slots_of(list(plain))
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

    def _rows(self, batch: Batch, learn: bool) -> Rows:
        """The batch as rows of slots; unknown names are given slots, or left out."""
        rows, names = batch.rows, batch.names
        if names is None and self.names.table is None:
            if not learn:
                return below(rows, self.rule.size)
            needed = largest(rows.ids) + 1 if len(rows.ids) else 0
            if needed <= INTS:
                self._have(needed)
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
        with self.lock:
            return self._progressive(batch, y, w, eta)

    def _progressive(self, batch: Batch, y: Any, w: Any, eta: Any) -> Any:
        p = np.empty(len(y))
        width = batch.width
        ints = self.names.table is None and width is not None and width <= INTS
        if width is None or not ints or len(batch.rows.ids) < self.rule.size:
            self._learn_rows(self._rows(checked(batch), learn=True), y, w, eta, p)
            return p
        # Looked at while they are learnt: a copy of the state is cheaper than a second pass.
        before = [a.copy() for a in self.rule], self.online.copy()
        if width <= len(batch.rows.ids):
            self._have(width)
        i = 0
        try:
            while (i := self._learn_rows(batch.rows, y, w, eta, p, i, self._below(width))) < 0:
                i = self._learn_block(batch, -1 - i, y, w, eta, p)
        except BaseException:
            self._frame = None
            self.rule = type(self.rule)(*before[0])
            self._go_on_from(before[1])
            raise
        return p

    def _below(self, width: int) -> int:
        """What ids of a matrix must be below to be learnt as they are."""
        return min(int(self.rule.size), width)

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
        """Learn rows from the i-th, which want a slower look; returns the next."""
        j = min(i + SLOW_BLOCK, len(y))
        indptr = batch.rows.indptr[i : j + 1]
        lo, hi = int(indptr[0]), int(indptr[-1])
        rows = Rows(batch.rows.ids[lo:hi], batch.rows.values[lo:hi], indptr - indptr[0])
        try:
            plain = self._rows(checked(batch._replace(rows=rows)), learn=True)
        except BadExample as bad:
            raise BadExample(bad.reason, i + bad.row) from None
        self._learn_rows(plain, y[i:j], w[i:j], eta[i:j], p[i:j])
        return j

    def margins(self, batch: Batch, proba: bool) -> Any:
        """Margin of each row, or its sigmoid; nothing changes."""
        a = np.empty(batch.n)
        with self.lock:
            rows = self._rows(checked(batch), learn=False)
            online.margins(self.rule, self.online, rows.ids, rows.values, rows.indptr, a, proba)
        return a

    # Room: slots first, then the names that are given them

    def _admit_all(self, names: list[Hashable]) -> Any:
        if self.names.table is None:
            slots = [as_int(name) for name in names]
            if None not in slots:
                self._have(1 + max(slots, default=-1))  # type: ignore[type-var,operator]
                return np.array(slots, np.uint32)
            self._name_all()
        table = self.names.table
        assert table is not None
        self._have(len(table.known) + int(np.count_nonzero(table.find_all(names) == MISSING)))
        self._frame = None
        return table.admit_all(names)

    def _name_all(self) -> None:
        """Give up ints as slots: those seen so far become names like any other."""
        seen = np.flatnonzero(self.rule.touched())
        new_slots = np.full(self.rule.size, -1)
        new_slots[seen] = np.arange(len(seen))
        size = max(len(seen), LEAST_SIZE)
        table, rule = NameTable(seen.tolist()), self.rule.renumber(new_slots, size)
        self._frame = None
        self.rule, self.names.table = rule, table

    def _have(self, size: int) -> None:
        """Have at least `size` slots."""
        if size > self.rule.size:
            rule = self.rule.grow(max(size, 2 * self.rule.size))
            self._frame = None
            self.rule = rule

    def _widen(self, n: int) -> None:
        buffer = RowBuffer(max(n, 2 * len(self.buffer)))
        self._frame = None
        self.buffer = buffer

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
        with self.lock:
            w = self.rule.weights()
            slots = np.flatnonzero(w)
            return [self.names.name(j) for j in slots.tolist()], w[slots]

    # Copies: as small as what is alive

    def __getstate__(self) -> dict[str, Any]:
        with self.lock:
            return self._dump()

    def _dump(self) -> dict[str, Any]:
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
            ensure(len(set(names)) == size, "a name stands twice")
            self.names.table = NameTable(names)
        self.rule = state["rule"].restore(max(size, LEAST_SIZE), slots, state["arrays"])
        ensure(state["online"].dtype == online.ONLINE, "no record")
        record = np.zeros(1, online.ONLINE)  # aligned, as kernels are compiled for
        record[:] = state["online"]
        self._go_on_from(record)
        self.forgotten = None if state["forgotten"] is None else Sketch(state["forgotten"])
        self._start()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and, roughly, of the names."""
        arrays = [*self.rule, self.online]
        table = self.names.table
        names = 0 if table is None else 150 * len(table.known) + table.entries.nbytes
        return int(sum(a.nbytes for a in arrays)) + len(self.buffer) * 24 + names

    def check(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        self.rule.check()
        ensure(self.online.dtype == online.ONLINE and self.online.shape == (1,), "no record")
        o = self.online[0]
        ensure(o.t >= 0, f"t is {o.t}, below 0")
        ensure(abs(o.b) < 1e150, f"the intercept is {o.b}")
        if self.names.table is not None:
            self.names.table.check()
            ensure(len(self.names.table.known) <= self.rule.size, "more names than slots")
        if self.forgotten is not None:
            self.forgotten.check()


def _at(a: Any) -> int:
    return int(a.__array_interface__["data"][0])


def _refusal(x: Mapping[Hashable, Any]) -> BadExample:
    """Why an example was refused whose values the kernel would not take."""
    try:
        plain_items(x)
    except BadExample as bad:
        return bad
    return BadExample("the example changed while it was read; give a dict of its own")
