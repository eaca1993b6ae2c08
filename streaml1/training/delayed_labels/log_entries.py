"""Entries of the log of pending items, as bytes.

All numbers are little-endian. The first byte is the kind of an entry:

====== ============================================================================================
``A``  an example: seq (uint64), since, time (float64), number (int64), weight (float64), lengths of
       prediction and id (uint32); then the prediction as float64, the id as JSON, and the body
``L``  a label without its example, in the same layout
``N``  an example that was assumed negative, in the same layout
``T``  an ``A`` is assumed negative now: its old seq, then seq, since, number, weight as in ``N``
``D``  an item is removed: its seq (uint64)
====== ============================================================================================
"""

from __future__ import annotations

import json
import math
import struct
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

from streaml1.training.delayed_labels.pending_table import (
    ASSUMED_NEGATIVE,
    EARLY_LABEL,
    UNLABELED,
    Id,
)

__all__ = [
    "Entry",
    "Prediction",
    "Replay",
    "encode_assumed_negative",
    "encode_entry",
    "encode_removal",
    "estimate_size",
]

Prediction = float | bytes | None
"""A prediction: a number, the float64 bytes of several probabilities, or None for a label."""

_ITEM = struct.Struct("<cQddqdII")
_ASSUMED_NEGATIVE = struct.Struct("<cQQdqd")
_REMOVED = struct.Struct("<cQ")

_LETTERS = {UNLABELED: b"A", EARLY_LABEL: b"L", ASSUMED_NEGATIVE: b"N"}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}


class Entry(NamedTuple):
    """A pending item; the fields are the columns of `PendingTable`."""

    kind: int
    seq: int
    since: float
    time: float
    number: int
    weight: float
    p: Prediction
    id: Id
    body: bytes


def encode_entry(entry: Entry) -> bytes:
    """Encode a pending item."""
    kind, seq, since, time, number, weight, p, id, body = entry
    row = b"" if p is None else p if isinstance(p, bytes) else array("d", (p,)).tobytes()
    id_json = json.dumps(id).encode()
    head = _ITEM.pack(_LETTERS[kind], seq, since, time, number, weight, len(row), len(id_json))
    return b"".join((head, row, id_json, body))


def estimate_size(p: Prediction, id: Id | None, body: bytes) -> int:
    """Return the approximate number of bytes of an entry."""
    id_size = len(id) if isinstance(id, str) else 18
    return _ITEM.size + 2 + id_size + len(body) + (len(p) if isinstance(p, bytes) else 8)


def encode_assumed_negative(
    old_seq: int, seq: int, since: float, number: int, weight: float
) -> bytes:
    """Encode that example `old_seq` is assumed negative from now on."""
    return _ASSUMED_NEGATIVE.pack(b"T", old_seq, seq, since, number, weight)


def encode_removal(seq: int) -> bytes:
    """Encode that an item is not pending any more."""
    return _REMOVED.pack(b"D", seq)


class Replay:
    """Items that are pending after a sequence of entries.

    Entries stay bytes until all have been read: millions of objects of any other type would keep
    the garbage collector busy.

    Parameters
    ----------
    scalar
        Whether a prediction is one number.
    """

    def __init__(self, scalar: bool) -> None:
        self._scalar = scalar
        # By seq.
        self._data: dict[int, bytes] = {}
        self._segment: dict[int, int] = {}
        self._assumed_negative: dict[int, bytes] = {}

    def add(self, data: bytes, segment: int) -> None:
        """Apply the next entry, which is in a segment."""
        letter, seq = _REMOVED.unpack_from(data)
        if letter == b"D":
            self._data.pop(seq, None)
            self._segment.pop(seq, None)
            self._assumed_negative.pop(seq, None)
        elif letter == b"T":
            if seq in self._data:
                new_seq = _ASSUMED_NEGATIVE.unpack(data)[2]
                self._data[new_seq] = self._data.pop(seq)
                self._segment[new_seq] = self._segment.pop(seq)
                self._assumed_negative[new_seq] = data
        else:  # a new item, or the copy of one in a later segment, which is up to date
            self._data[seq], self._segment[seq] = data, segment
            self._assumed_negative.pop(seq, None)

    def pending(self) -> Iterator[tuple[Entry, int]]:
        """Yield the pending items in order of arrival, each with its segment."""
        for seq in sorted(self._data):
            entry = self._decode(self._data.pop(seq))
            if seq in self._assumed_negative:
                _, _, _, since, number, weight = _ASSUMED_NEGATIVE.unpack(
                    self._assumed_negative[seq]
                )
                entry = entry._replace(
                    kind=ASSUMED_NEGATIVE, seq=seq, since=since, number=number, weight=weight
                )
            yield entry, self._segment[seq]

    def _decode(self, data: bytes) -> Entry:
        letter, seq, since, time, number, weight, row_size, id_size = _ITEM.unpack_from(data)
        id_start = _ITEM.size + row_size
        body_start = id_start + id_size
        p: Any = data[_ITEM.size : id_start]
        if not p:
            p = None
        elif self._scalar:
            [p] = array("d", p)
        id = json.loads(data[id_start:body_start])
        if body_start > len(data) or type(id) not in (str, int):
            raise ValueError("an entry of the log is incomplete")
        numbers = array("d", data[_ITEM.size : id_start])
        if any(map(math.isnan, (since, weight, *numbers))):
            raise ValueError("an entry of the log has a NaN")
        return Entry(_KINDS[letter], seq, since, time, number, weight, p, id, data[body_start:])
