"""Pending examples and labels: a table in memory, and a log of it for checkpoints."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from streaml1.training.delayed_labels.log_entries import (
    Entry,
    Prediction,
    Replay,
    encode_assumed_negative,
    encode_entry,
    encode_removal,
    estimate_size,
)
from streaml1.training.delayed_labels.pending_table import (
    ASSUMED_NEGATIVE,
    EARLY_LABEL,
    UNLABELED,
    Id,
    PendingTable,
)
from streaml1.training.delayed_labels.segment_log import SEGMENT_BYTES, SegmentLog, Segments
from streaml1.training.delayed_labels.stream_clock import CONFIRMATIONS, StreamClock
from streaml1.training.saved_state import require_like, require_type

__all__ = ["COUNTS", "PendingStore"]

COUNTS = (
    *("asked", "answered", "expired", "pushed_out", "corrected", "confirmed"),
    *("orphans", "duplicates"),
)
"""Names of the counters, in checkpoints and metrics; see `docs/late-labels.md`."""

COPIES_PER_WRITE = 2
"""Entries that the cleaner may copy for each entry that is written."""


class PendingStore:
    """Pending items, oldest first; stream time; and counters.

    With a log, every pending item is in it, too. Segments of the log are only appended to; a
    cleaner copies the items of old segments to new ones, so that the old ones can be deleted.

    Invariants of the log:

    - `_live[s]` is the number of pending items in segment s, `_live_bytes` the size of all.
    - No segment before `_oldest_segment` has any.
    - While the cleaner runs (`_clean_before >= 0`), items in segments before `_clean_before` are at
      its cursor or after it, in the order of the two queues.

    Parameters
    ----------
    within
        Seconds of stream time for which an item stays pending.
    scalar
        Whether a prediction is one number.
    """

    def __init__(self, within: float, scalar: bool = True) -> None:
        self.within = within
        self.clock = StreamClock(within / 10.0)
        self.table = PendingTable(scalar)
        self.counts = dict.fromkeys(COUNTS, 0)
        self._scalar = scalar
        self._seq = 0
        self._log: SegmentLog | None = None
        self._live: dict[int, int] = {}
        self._live_bytes = 0
        self._oldest_segment = 0
        self._clean_before = -1
        self._cursor = -1
        self._copy_budget = 0
        self._checkpoint_segments: list[Segments] = []  # of the last checkpoints

    def __len__(self) -> int:
        return len(self.table)

    def metrics(self) -> dict[str, float]:
        """Return the number of pending items of each kind, and the counters."""
        kinds = self.table.kinds
        return {
            "waiting": kinds[UNLABELED],
            "waiting_labels": kinds[EARLY_LABEL],
            "correctable": kinds[ASSUMED_NEGATIVE],
            **self.counts,
        }

    # Items

    def add(self, id: Id, kind: int, time: float | None, body: Any, p: Prediction = None) -> None:
        """Add an item that has just arrived.

        Parameters
        ----------
        id
            Its id, which no other item has.
        kind
            `UNLABELED` or `EARLY_LABEL`.
        time
            Time of its record in seconds; None if it has none.
        body
            Its content, see `payloads`.
        p
            Prediction of an example.
        """
        self._seq += 1
        record_time = math.nan if time is None else time
        arrival = self.clock.arrival_time(time)
        slot = self.table.add(id, kind, self._seq, arrival, record_time, body)
        if kind == UNLABELED:
            self.table.p[slot] = p
        if self._log is not None:
            self._write(slot, self._log)

    def assume_negative(self, slot: int, number: int, weight: float) -> None:
        """Keep an example that was learnt as False, so that a label can still correct it.

        `number` is its number in the report, `weight` its sample weight.
        """
        if slot == self._cursor:
            self._cursor = self._next_to_clean(slot)
        t = self.table
        old_seq = t.seq[slot]
        self._seq += 1
        t.assume_negative(slot, self._seq, self.clock.now)
        t.number[slot], t.weight[slot] = number, weight
        if self._log is not None:
            self._log.append(
                encode_assumed_negative(old_seq, self._seq, self.clock.now, number, weight)
            )
            self._copy_budget += COPIES_PER_WRITE

    def remove(self, slot: int) -> None:
        """Remove an item."""
        t = self.table
        if self._log is not None:
            self._log.append(encode_removal(t.seq[slot]))
            self._copy_budget += COPIES_PER_WRITE
            self._leave_segment(slot)
        if slot == self._cursor:
            self._cursor = self._next_to_clean(slot)
        t.remove(slot)

    def advance(self, time: float | None) -> None:
        """Advance stream time by the next record; None if it has no time.

        The first records after a gap, or of the stream, are ahead of stream time until others
        confirm them. Their items then wait from their own times on, or the gap would count.
        """
        before = self.clock.now
        if not self.clock.advance(time):
            return
        n, t = 0, self.table
        # The records ahead were the last ones that have times.
        for slot in t.backwards(negative=False):
            if t.time[slot] <= before or n == CONFIRMATIONS:
                break
            if t.time[slot] <= self.clock.now:
                t.since[slot] = t.time[slot]
                n += 1
                if self._log is not None:
                    self._leave_segment(slot)
                    self._write(slot, self._log)

    def first_overdue(self, negative: bool) -> int:
        """Return the slot of the oldest item of a queue if its time is over, else -1."""
        slot = self.table.first(negative)
        if slot < 0 or self.clock.now == -math.inf:
            return -1
        since = max(self.table.since[slot], self.clock.start)
        return slot if self.clock.now > since + self.within else -1

    def is_in_time(self, slot: int, time: float | None) -> bool:
        """Return whether the times of a record and of an item are close enough to belong together.

        Without both times the answer is True. An `ASSUMED_NEGATIVE` item has twice the time.
        """
        record_time = self.table.time[slot]
        if time is None or math.isnan(record_time):
            return True
        periods = 2 if self.table.kind[slot] == ASSUMED_NEGATIVE else 1
        return abs(time - record_time) <= periods * self.within

    # The log

    def open_log(self, directory: Path, epoch: int, checkpoints: int) -> None:
        """Write a log to a directory from now on; the store must be empty.

        Parameters
        ----------
        directory
            The directory.
        epoch
            Number of the run, larger than that of all earlier runs in the directory.
        checkpoints
            Number of checkpoints that are retained, and whose segments must be, too.
        """
        self._log = SegmentLog(directory, epoch)
        self._n_checkpoints = checkpoints

    def dump(self) -> dict[str, Any]:
        """Make the log durable, and return the rest of the state as JSON can hold it."""
        assert self._log is not None
        self._log.flush()
        while self._oldest_segment < self._log.current and not self._live.get(self._oldest_segment):
            self._live.pop(self._oldest_segment, None)
            self._oldest_segment += 1
        self._log.forget(self._oldest_segment)
        return {
            "segments": self._log.segments_from(self._oldest_segment),
            "needed": self._checkpoint_segments,
            "seq": self._seq,
            "counts": self.counts,
            "clock": self.clock.dump(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Restore the state of a checkpoint; raise ValueError if streaml1 did not write it."""
        assert self._log is not None
        require_type(state["segments"], list[list[int]], "segments")
        require_type(state["needed"], list[list[list[int]]], "needed segments")
        for segments in (state["segments"], *state["needed"]):
            if any(len(segment) != 3 or min(segment) < 0 for segment in segments):
                raise ValueError("a segment is out of range")
        require_like(state["counts"], self.counts, "counts")
        require_like({"seq": state["seq"]}, {"seq": 0}, "the state")
        replay = Replay(self._scalar)
        for segment, data in self._log.resume(state["segments"]):
            replay.add(data, segment)
        t = self.table
        for entry, segment in replay.pending():
            if t.find(entry.id) >= 0:
                raise ValueError("two pending items have the same id")
            slot = t.add(entry.id, entry.kind, entry.seq, entry.since, entry.time, entry.body)
            if entry.p is not None:
                t.p[slot] = entry.p
            t.segment[slot] = segment
            t.number[slot], t.weight[slot] = entry.number, entry.weight
            self._enter_segment(slot)
        self._checkpoint_segments = [*state["needed"], state["segments"]]
        self._seq = state["seq"]
        self.counts.update(state["counts"])
        self.clock.resume(state["clock"])

    def saved(self) -> None:
        """Delete segments that no checkpoint needs: the state of the last `dump` is durable."""
        assert self._log is not None
        segments = [*self._checkpoint_segments, self._log.segments_from(self._oldest_segment)]
        self._checkpoint_segments = segments[-self._n_checkpoints :]
        self._log.delete_except(
            {(epoch, number) for needed in self._checkpoint_segments for epoch, number, _ in needed}
        )

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()

    def clean(self) -> None:
        """Copy items of old segments to new ones, if most of the log is obsolete.

        Each entry that is written allows `COPIES_PER_WRITE` copies. Copies count as writes, too: a
        call that makes one copy continues to the end of the queues.
        """
        if self._log is None:
            return
        if self._clean_before < 0:
            self._copy_budget = 0
            if self._log.total <= 2 * self._live_bytes + 4 * SEGMENT_BYTES:
                return
            self._clean_before = self._log.roll()
            self._cursor = self._first_to_clean(False)
        t = self.table
        while self._copy_budget > 0 and self._cursor >= 0:
            slot, self._cursor = self._cursor, self._next_to_clean(self._cursor)
            self._copy_budget -= 1
            if t.segment[slot] < self._clean_before:
                self._leave_segment(slot)
                self._write(slot, self._log)
        if self._cursor < 0:
            self._clean_before = -1

    def _write(self, slot: int, log: SegmentLog) -> None:
        t = self.table
        p = None if t.kind[slot] == EARLY_LABEL else t.p[slot]
        entry = Entry(
            t.kind[slot], t.seq[slot], t.since[slot], t.time[slot], t.number[slot],
            t.weight[slot], p, t.id[slot], t.body[slot],
        )  # fmt: skip
        t.segment[slot] = log.append(encode_entry(entry))
        self._copy_budget += COPIES_PER_WRITE
        self._enter_segment(slot)

    def _enter_segment(self, slot: int) -> None:
        t = self.table
        self._live[t.segment[slot]] = self._live.get(t.segment[slot], 0) + 1
        self._live_bytes += estimate_size(t.p[slot], t.id[slot], t.body[slot])

    def _leave_segment(self, slot: int) -> None:
        t = self.table
        self._live[t.segment[slot]] -= 1
        self._live_bytes -= estimate_size(t.p[slot], t.id[slot], t.body[slot])

    def _next_to_clean(self, slot: int) -> int:
        if slot < 0:
            return -1
        following = self.table.following(slot)
        if following < 0 and self.table.kind[slot] != ASSUMED_NEGATIVE:
            return self._first_to_clean(True)
        return following

    def _first_to_clean(self, negative: bool) -> int:
        first = self.table.first(negative)
        return self.table.first(True) if first < 0 and not negative else first
