"""What waits as bytes: the entries of the log.

An entry of an example or a label is a head (kind, seq, since, time, number, weight, and how long
p and the id are), p as float64, the id as JSON, and the body. All numbers are little-endian. An
entry that something was learnt as a negative, or is done with, names the seq of what it is of.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

from streaml1.training.delayed_labels.pending_table import ASKED, EARLY, NEGATIVE, Id

__all__ = ["Entry", "Replay", "done", "size_of", "turned", "written"]

_HEAD = struct.Struct("<cQddqdII")
_TURNED = struct.Struct("<cQQdqd")
_DONE = struct.Struct("<cQ")

_KINDS = {ASKED: b"A", EARLY: b"L", NEGATIVE: b"N"}
_OF = {letter: kind for kind, letter in _KINDS.items()}


class Entry(NamedTuple):
    """Something that waits, as it is in the log."""

    kind: int
    seq: int
    since: float
    time: float
    number: int
    weight: float
    p: Any
    id: Id
    body: bytes


def written(entry: Entry) -> bytes:
    """An entry as bytes."""
    kind, seq, since, time, number, weight, p, id, body = entry
    row = b"" if p is None else p if isinstance(p, bytes) else array("d", (p,)).tobytes()
    name = json.dumps(id).encode()
    head = _HEAD.pack(_KINDS[kind], seq, since, time, number, weight, len(row), len(name))
    return b"".join((head, row, name, body))


def size_of(p: Any, id: Id, body: bytes) -> int:
    """About how many bytes an entry takes."""
    name = len(id) if isinstance(id, str) else 18
    return _HEAD.size + 2 + name + len(body) + (len(p) if isinstance(p, bytes) else 8)


def turned(was: int, seq: int, since: float, number: int, weight: float) -> bytes:
    """That the example `was` is a negative by now, and which."""
    return _TURNED.pack(b"T", was, seq, since, number, weight)


def done(seq: int) -> bytes:
    """That nothing is to be known any more."""
    return _DONE.pack(b"D", seq)


class Replay:
    """What waits after some entries, which stay bytes until all are heard.

    Parameters
    ----------
    scalar
        Whether a prediction is one number.
    """

    def __init__(self, scalar: bool) -> None:
        self._scalar = scalar
        # By seq. Millions of objects of any other kind would keep the garbage collector busy.
        self._data: dict[int, bytes] = {}
        self._segment: dict[int, int] = {}
        self._turned: dict[int, bytes] = {}

    def take(self, data: bytes, segment: int) -> None:
        """Hear the next entry, and which segment it is in."""
        letter, seq = _DONE.unpack_from(data)
        if letter == b"D":
            self._data.pop(seq, None)
            self._segment.pop(seq, None)
            self._turned.pop(seq, None)
        elif letter == b"T":
            if seq in self._data:
                now = _TURNED.unpack(data)[2]
                self._data[now] = self._data.pop(seq)
                self._segment[now] = self._segment.pop(seq)
                self._turned[now] = data
        else:  # new, or copied to a later segment as what it is by then
            self._data[seq], self._segment[seq] = data, segment
            self._turned.pop(seq, None)

    def result(self) -> Iterator[tuple[Entry, int]]:
        """All that waits, in order of arrival, and the segment of each."""
        for seq in sorted(self._data):
            entry = self._entry(self._data.pop(seq))
            if seq in self._turned:
                _, _, _, since, number, weight = _TURNED.unpack(self._turned[seq])
                entry = entry._replace(
                    kind=NEGATIVE, seq=seq, since=since, number=number, weight=weight
                )
            yield entry, self._segment[seq]

    def _entry(self, data: bytes) -> Entry:
        letter, seq, since, time, number, weight, row, name = _HEAD.unpack_from(data)
        ids = _HEAD.size + row
        p: Any = data[_HEAD.size : ids]
        if not p:
            p = None
        elif self._scalar:
            [p] = array("d", p)
        id = json.loads(data[ids : ids + name])
        return Entry(_OF[letter], seq, since, time, number, weight, p, id, data[ids + name :])
