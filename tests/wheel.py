"""A throw-away rule, to try the verbs on a state with queues: the l1 ball by a timing wheel.

After each step the weights are projected on {w: sum |w| <= radius}, exactly. Stored is
v = sign(w) (|w| + Theta); Theta never falls, so a weight reaches zero when Theta reaches |v|: a
timer. Timers stand in a ring of buckets by |v|; a bucket is a chain of chunks from a pool that
runs out. A timer whose |v| rose is left where it is and moved when its bucket is opened; one whose
|v| fell is entered again, and the old entry is stale.

In what order entries stand depends on growth, sweeping and restoring, so no float may depend on
it: v, Theta and S = sum |w| are whole numbers of UNIT. Sums of those are exact in any order, and
the projection ends in the same Theta whatever entry is looked at first.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.jit import inlined
from streaml1.rules import rebase

UNIT = 2.0**-44
BUCKETS = 16
WIDTH = np.int64(0.05 / UNIT)
CHUNK = 4
THETA_MOST = np.int64(30.0 / UNIT)  # far too early, so that tests get there
UNSEEN, DEAD = 0, 2**62  # else `place` is 1 + the number of the bucket with the entry that counts

CLOCK = np.dtype(
    [
        ("Theta", "i8"),
        ("S", "i8"),
        ("n", "i8"),  # weights that are not zero
        ("radius", "i8"),
        ("now", "i8"),  # the bucket that Theta is in
        ("entries", "i8"),  # stale ones too
        ("free", "i8"),  # first chunk of the free ones
    ],
    align=True,
)


@inlined
def _push(rule: Any, b: int, j: int) -> None:
    """Enter the timer of j into bucket b."""
    c = rule.clock[0]
    ring = b % BUCKETS
    if rule.head[ring] < 0 or rule.fill[ring] == CHUNK:
        chunk = c.free
        c.free = rule.after[chunk]
        rule.after[chunk] = rule.head[ring]
        rule.head[ring] = chunk
        rule.fill[ring] = 0
    rule.items[rule.head[ring] * CHUNK + rule.fill[ring]] = j
    rule.fill[ring] += 1
    rule.place[j] = b + 1
    c.entries += 1


@inlined
def _sweep(rule: Any) -> None:
    """Empty the wheel and enter what is alive: stale entries are gone."""
    c = rule.clock[0]
    rule.head[:] = -1
    for chunk in range(len(rule.after)):
        rule.after[chunk] = chunk + 1
    c.free = 0
    c.entries = 0
    c.now = c.Theta // WIDTH
    for j in range(len(rule.v)):
        if abs(rule.v[j]) > c.Theta:
            _push(rule, min(abs(rule.v[j]) // WIDTH, c.now + BUCKETS - 1), j)
        elif rule.place[j] != UNSEEN:
            rule.place[j] = DEAD


@inlined
def _open(rule: Any, q: int, pass_on: bool) -> int:
    """Drop what is within q of Theta from the current bucket; returns how many weights.

    The rest is kept there, or passed on to where it belongs.
    """
    c = rule.clock[0]
    ring = c.now % BUCKETS
    chunk, filled = rule.head[ring], rule.fill[ring]
    rule.head[ring] = -1
    dropped = 0
    while chunk >= 0:
        for k in range(filled):
            j = rule.items[chunk * CHUNK + k]
            c.entries -= 1
            if rule.place[j] != c.now + 1:
                continue  # stale
            left = abs(rule.v[j]) - c.Theta
            if left > q:
                b = min(abs(rule.v[j]) // WIDTH, c.now + BUCKETS) if pass_on else c.now
                _push(rule, b, j)
                continue
            rule.place[j] = DEAD
            if left > 0:
                c.S -= left
                c.n -= 1
                dropped += 1
        emptied, chunk, filled = chunk, rule.after[chunk], CHUNK
        rule.after[emptied] = c.free
        c.free = emptied
    return dropped


class Wheel(NamedTuple):
    """State: two numbers a slot, the wheel, the pool of chunks, one record."""

    v: Annotated[Any, np.int64]
    place: Annotated[Any, np.int64]
    head: Annotated[Any, np.int64]  # of each bucket: its first chunk, the only one not full
    fill: Annotated[Any, np.int64]  # how many entries that one has
    items: Annotated[Any, np.int64]
    after: Annotated[Any, np.int64]  # of each chunk: the next of its chain
    clock: Annotated[Any, CLOCK]

    def gather(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        Theta = self.clock[0].Theta
        a = 0.0
        for k in range(lo, hi):
            v = self.v[ids[k]]
            left = abs(v) - Theta
            if left > 0:
                a += (left if v > 0 else -left) * values[k]
        return a * UNIT

    def scatter(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c = self.clock[0]
        for k in range(lo, hi):
            j = np.int64(ids[k])
            v = self.v[j]
            left = max(abs(v) - c.Theta, 0)
            w = (left if v > 0 else -left) - np.int64(np.rint(step * values[k] / UNIT))
            c.S += abs(w) - left
            c.n += np.int64(w != 0) - np.int64(left != 0)
            self.v[j] = w - c.Theta if w < 0 else w + c.Theta
            if w != 0:
                b = min(abs(self.v[j]) // WIDTH, c.now + BUCKETS - 1)
                if self.place[j] == UNSEEN or b + 1 < self.place[j]:
                    _push(self, b, j)
            elif self.place[j] == UNSEEN:
                self.place[j] = DEAD

    def tick(self, eta: float) -> None:
        c = self.clock[0]
        if c.radius >= c.S:
            return
        while True:
            q = (c.S - c.radius) // c.n
            beyond = (c.Theta + q) // WIDTH > c.now
            if _open(self, q, beyond) == 0:
                if not beyond:
                    break
                c.now += 1
            elif beyond:  # the bucket is done with in any case
                c.now += 1
        c.Theta += q
        c.S -= c.n * q
        if c.Theta > THETA_MOST:
            rebase(self)

    def rebase(self) -> None:
        c = self.clock[0]
        for j in range(len(self.v)):
            left = max(abs(self.v[j]) - c.Theta, 0)
            self.v[j] = left if self.v[j] > 0 else -left
        c.Theta = 0
        _sweep(self)

    def room(self, nnz: Any) -> bool:
        # Chains are full but for their first chunk, and one more is in hand while one is opened.
        spare = np.int64(len(self.after) - BUCKETS - 1)
        return self.clock[0].entries + np.int64(nnz) <= spare * CHUNK

    def make_room(self, nnz: int) -> Wheel:
        _sweep(self)
        rule = self
        # As little as will do, so that tests often come here.
        while int(self.clock[0].n) + nnz > CHUNK * (len(rule.after) - BUCKETS - 1):
            rule = rule._with_chunks(len(rule.after) + 1)
        return rule

    def _with_chunks(self, chunks: int) -> Wheel:
        rule = self._replace(
            items=np.zeros(CHUNK * chunks, np.int64), after=np.zeros(chunks, np.int64)
        )
        _sweep(rule)
        return rule

    def weight(self, j: Any) -> float:
        left = max(abs(self.v[j]) - self.clock[0].Theta, 0)
        return (left if self.v[j] > 0 else -left) * UNIT

    def weights(self) -> Any:
        left = np.maximum(np.abs(self.v) - self.clock[0].Theta, 0)
        return np.sign(self.v) * left * UNIT

    def touched(self) -> Any:
        return self.place != UNSEEN

    def holding(self) -> Any:
        return np.abs(self.v) > self.clock[0].Theta

    def drop(self, slots: Any) -> None:
        c = self.clock[0]
        left = np.maximum(np.abs(self.v[slots]) - c.Theta, 0)
        c.S -= left.sum()
        c.n -= np.count_nonzero(left)
        self.v[slots] = 0
        _sweep(self)

    @property
    def size(self) -> int:
        return len(self.v)

    def grow(self, d: int) -> Wheel:
        v, place = np.zeros(d, np.int64), np.zeros(d, np.int64)
        v[: self.size], place[: self.size] = self.v, self.place
        return self._replace(v=v, place=place)

    def renumber(self, new_slots: Any, d: int) -> Wheel:
        kept = new_slots >= 0
        v, place = np.zeros(d, np.int64), np.zeros(d, np.int64)
        v[new_slots[kept]], place[new_slots[kept]] = self.v[kept], self.place[kept]
        rule = self._replace(v=v, place=place)
        _sweep(rule)
        return rule

    def dump(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.holding())
        return slots, {"v": self.v[slots], "clock": self.clock.copy()}

    @staticmethod
    def restore(d: int, slots: Any, arrays: dict[str, Any]) -> Wheel:
        rule = Wheel.start(d, 0.0, BUCKETS + 2)
        rule.v[slots] = arrays["v"]
        rule.clock[0] = arrays["clock"].astype(CLOCK)[0]
        return rule._with_chunks(2 * BUCKETS + len(slots))

    def check(self) -> None:
        c = self.clock[0]
        left = np.maximum(np.abs(self.v) - c.Theta, 0)
        assert left.sum() == c.S, "S is not the sum of the weights"
        assert c.n == np.count_nonzero(left), "n is not how many there are"
        assert c.now == c.Theta // WIDTH, "Theta is in another bucket"
        assert np.all(left[self.place == UNSEEN] == 0), "a weight without a timer"
        found = []
        chains = [(b, *self._chain(b)) for b in range(BUCKETS)]
        for b, _, entries in chains:
            found += [j for j in entries if (self.place[j] - 1) % BUCKETS == b]
        assert set(np.flatnonzero(left).tolist()) <= set(found), "a timer is lost"
        late = (left > 0) & ((self.place - 1) * WIDTH > np.abs(self.v))
        assert not late.any(), "a timer stands too late"
        used = sum(len(chunks) for _, chunks, _ in chains)
        free, chunk = 0, c.free
        while chunk < len(self.after):
            free, chunk = free + 1, self.after[chunk]
        assert used + free == len(self.after), "a chunk is lost"
        assert c.entries == sum(len(e) for _, _, e in chains), "entries are miscounted"

    def _chain(self, b: int) -> tuple[list[int], list[int]]:
        chunks, entries = [], []
        chunk, filled = int(self.head[b]), int(self.fill[b])
        while chunk >= 0:
            chunks.append(chunk)
            entries += self.items[chunk * CHUNK : chunk * CHUNK + filled].tolist()
            chunk, filled = int(self.after[chunk]), CHUNK
        return chunks, entries

    @staticmethod
    def start(d: int, radius: float, chunks: int) -> Wheel:
        clock = np.zeros(1, CLOCK).view(np.recarray)
        clock[0].radius = np.int64(radius / UNIT)
        slots, ring = (np.zeros((2, size), np.int64) for size in (d, BUCKETS))
        return Wheel(
            *slots, *ring, np.zeros(0, np.int64), np.zeros(0, np.int64), clock
        )._with_chunks(chunks)
