"""What waits for its label: a table in memory, a log of it beside the checkpoint, and counts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from streaml1.training.delayed_labels.log_entries import (
    Entry,
    Replay,
    done,
    size_of,
    turned,
    written,
)
from streaml1.training.delayed_labels.pending_table import ASKED, EARLY, NEGATIVE, Id, Table
from streaml1.training.delayed_labels.segment_log import SEGMENT, Log
from streaml1.training.delayed_labels.stream_clock import Clock

__all__ = ["COUNTS", "Waiting"]

COUNTS = (
    *("asked", "answered", "expired", "pushed_out", "corrected", "confirmed"),
    *("orphans", "duplicates"),
)
"""What is counted; `docs/late-labels.md` tells what each means."""

MOVES = 2
"""Entries that are written anew for each one that is written, while the log is cleaned."""


class Waiting:
    """What waits, oldest first; stream time; and what has become of the rest.

    With a log everything that waits is in it too.

    Parameters
    ----------
    within
        How long each waits, in seconds of stream time.
    scalar
        Whether a prediction is one number.
    """

    def __init__(self, within: float, scalar: bool = True) -> None:
        self.within = within
        self.clock = Clock(within / 10.0)
        self.table = Table(scalar)
        self.counts = dict.fromkeys(COUNTS, 0)
        self._scalar = scalar
        self._seq = 0
        self._log: Log | None = None
        self._live: dict[int, int] = {}  # entries by segment
        self._bytes = 0  # of all that is in the log and waits
        self._oldest = 0  # the first segment with any
        self._target = -1  # the log is being cleaned of the segments before it
        self._cursor = -1
        self._moves = 0
        self._needed: list[list[list[int]]] = []  # the segments of the last checkpoints

    def __len__(self) -> int:
        return len(self.table)

    def numbers(self) -> dict[str, float]:
        """What metrics tell: how many wait, and the counts so far."""
        kinds = self.table.kinds
        return {
            "waiting": kinds[ASKED],
            "waiting_labels": kinds[EARLY],
            "correctable": kinds[NEGATIVE],
            **self.counts,
        }

    # Comings and goings

    def add(self, id: Id, kind: int, time: float | None, body: Any, p: Any = None) -> None:
        """Have something wait from now on; p is the prediction of an example."""
        self._seq += 1
        own = math.nan if time is None else time
        slot = self.table.add(id, kind, self._seq, self.clock.at(time), own, body)
        if kind == ASKED:
            self.table.p[slot] = p
        if self._log is not None:
            self._write(slot, self._log)

    def turn(self, slot: int, number: int, weight: float) -> None:
        """Have an example, learnt as a negative, wait for a correction from now on.

        `number` is which example of the report it is.
        """
        if slot == self._cursor:
            self._cursor = self._following(slot)
        t = self.table
        was = t.seq[slot]
        self._seq += 1
        t.turn(slot, self._seq, self.clock.now)
        t.number[slot], t.weight[slot] = number, weight
        if self._log is not None:
            self._log.append(turned(was, self._seq, self.clock.now, number, weight))
            self._moves += MOVES

    def remove(self, slot: int) -> None:
        """Forget what waited in a slot."""
        t = self.table
        if self._log is not None:
            self._log.append(done(t.seq[slot]))
            self._moves += MOVES
            self._leave(slot)
        if slot == self._cursor:
            self._cursor = self._following(slot)
        t.remove(slot)

    def overdue(self, negative: bool) -> int:
        """The oldest of a queue if its time is over, or -1."""
        slot = self.table.first(negative)
        if slot < 0 or self.clock.now == -math.inf:
            return -1
        since = max(self.table.since[slot], self.clock.start)
        return slot if self.clock.now > since + self.within else -1

    def in_time(self, slot: int, time: float | None) -> bool:
        """Whether a record of some time belongs to what waits, by the two times alone."""
        own = self.table.time[slot]
        if time is None or math.isnan(own):
            return True
        periods = 2 if self.table.kind[slot] == NEGATIVE else 1
        return abs(time - own) <= periods * self.within

    # The log

    def keep(self, folder: Path, epoch: int, checkpoints: int) -> None:
        """Keep a log in a folder, for so many checkpoints; nothing waits yet."""
        self._log = Log(folder, epoch)
        self._checkpoints = checkpoints

    def dump(self) -> dict[str, Any]:
        """What `resume` goes on from, as JSON has it; the log is on the disk on return."""
        assert self._log is not None
        self._log.flush()
        while self._oldest < self._log.current and not self._live.get(self._oldest):
            self._live.pop(self._oldest, None)
            self._oldest += 1
        self._log.forget(self._oldest)
        segments = self._log.since(self._oldest)
        return {
            "segments": segments,
            "needed": self._needed,
            "seq": self._seq,
            "counts": self.counts,
            "clock": self.clock.dump(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on where a checkpoint was."""
        assert self._log is not None
        replay = Replay(self._scalar)
        for segment, data in self._log.resume(state["segments"]):
            replay.take(data, segment)
        t = self.table
        for entry, segment in replay.result():
            slot = t.add(entry.id, entry.kind, entry.seq, entry.since, entry.time, entry.body)
            if entry.p is not None:
                t.p[slot] = entry.p
            t.segment[slot] = segment
            t.number[slot], t.weight[slot] = entry.number, entry.weight
            self._enter(slot)
        self._needed = [*state["needed"], state["segments"]]
        self._seq = state["seq"]
        self.counts.update(state["counts"])
        self.clock.resume(state["clock"])

    def saved(self) -> None:
        """A checkpoint of what `dump` told was written: drop what none needs any more."""
        assert self._log is not None
        self._needed = [*self._needed, self._log.since(self._oldest)][-self._checkpoints :]
        self._log.drop({(epoch, number) for one in self._needed for epoch, number, _ in one})

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()

    def clean(self) -> None:
        """Write some of what waits anew, once most of the log is of what does not wait any more.

        As much is done as has been written since the last time, so that the log stays small and
        nothing takes long.
        """
        if self._log is None:
            return
        if self._target < 0:
            self._moves = 0
            if self._log.total <= 2 * self._bytes + 4 * SEGMENT:
                return
            self._target = self._log.roll()
            self._cursor = self._from(False)
        t = self.table
        while self._moves > 0 and self._cursor >= 0:
            slot, self._cursor = self._cursor, self._following(self._cursor)
            self._moves -= 1
            if t.segment[slot] < self._target:
                self._leave(slot)
                self._write(slot, self._log)
        if self._cursor < 0:
            self._target = -1

    def _write(self, slot: int, log: Log) -> None:
        t = self.table
        p = None if t.kind[slot] == EARLY else t.p[slot]
        entry = Entry(
            t.kind[slot], t.seq[slot], t.since[slot], t.time[slot], t.number[slot],
            t.weight[slot], p, t.id[slot], t.body[slot],
        )  # fmt: skip
        t.segment[slot] = log.append(written(entry))
        self._moves += MOVES
        self._enter(slot)

    def _enter(self, slot: int) -> None:
        t = self.table
        self._live[t.segment[slot]] = self._live.get(t.segment[slot], 0) + 1
        self._bytes += size_of(t.p[slot], t.id[slot], t.body[slot])

    def _leave(self, slot: int) -> None:
        t = self.table
        self._live[t.segment[slot]] -= 1
        self._bytes -= size_of(t.p[slot], t.id[slot], t.body[slot])

    def _following(self, slot: int) -> int:
        if slot < 0:
            return -1
        following = self.table.following(slot)
        if following < 0 and self.table.kind[slot] != NEGATIVE:
            return self._from(True)
        return following

    def _from(self, negative: bool) -> int:
        first = self.table.first(negative)
        return self.table.first(True) if first < 0 and not negative else first
