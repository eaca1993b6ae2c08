"""All that a kernel of one dict needs, as one array of addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streaml1.crosses import Crosses
from streaml1.names import MISSING, Hashed, Table
from streaml1.names import table as names_table
from streaml1.rules import unknown_slot
from streaml1.walk import fields

__all__ = ["Frame", "Kernels"]

# What a buffer has for each feature of a dict, in words of 8 bytes, and once.
_PARTS = ("IDS", "VALUES", "KEYS", "TEXTS", "HASHES")
_SCRATCH, _BYTES = 4, 256
_CROSS_PARTS = ("PART_MASKS", "PART_HASHES", "PART_VALUES", "PART_AT")


class Kernels(NamedTuple):
    """What predicts and what learns the dict at an address."""

    predict: Callable[[int, int, int], float]
    learn: Callable[[int, int, float, float, float], int]


class Frame:
    """Addresses of one model's arrays as they are now.

    Whoever replaces an array makes the frame stale first: kernels that hold it then do nothing.
    It keeps all that it points to alive.
    """

    __slots__ = ("_kept", "_valid", "address", "learn", "learns", "length", "nbytes", "predict")

    def __init__(
        self,
        kernels: Kernels,
        learns: bool,
        names: Any,
        rule: Any,
        online: Any,
        length: int,
        crosses: Crosses | None = None,
    ) -> None:
        self.predict, self.learn = kernels
        self.learns = learns
        self.length = length
        buffer = np.zeros(len(_PARTS) * length + _SCRATCH + _BYTES, np.uint64)
        words = np.zeros(fields.HEAD + 2 * len(rule), np.uint64)
        words[fields.VALID] = 1
        words[fields.LENGTH] = length
        for k, part in enumerate(_PARTS):
            words[getattr(fields, part)] = _at(buffer) + 8 * k * length
        words[fields.SCRATCH] = _at(buffer) + 8 * len(_PARTS) * length
        words[fields.BYTES] = words[fields.SCRATCH] + np.uint64(8 * _SCRATCH)
        words[fields.RECORD] = _at(online)
        words[fields.SIZE] = rule.size
        unknown = unknown_slot(rule)
        words[fields.WEIGHS] = unknown is not None
        if unknown is None:
            unknown = 0 if rule.size else MISSING
        words[fields.UNKNOWN] = unknown
        kept: list[Any] = [words, buffer, online, rule]
        if isinstance(names, Table):
            names.settle()
            words[fields.ENTRIES] = _at(names.entries)
            words[fields.N_ENTRIES] = len(names.entries)
            words[fields.COUNTS] = _at(names.counts)
            words[fields.KNOWN], words[fields.TEXTS_KNOWN] = id(names.known), id(names.texts)
            words[fields.KEPT] = names_table.HASH
            words[fields.MASK] = names_table.SEED
            kept += [names.entries, names.counts, names.known, names.texts]
        elif isinstance(names, Hashed):
            words[fields.MASK] = names.mask
        if crosses is not None:
            kept += _cross(words, crosses, names, length)
        words[fields.DICT : fields.HEAD] = [id(o) for o in fields.TYPES_READ]
        words[fields.HEAD :] = [part for a in rule for part in (_at(a), len(a))]
        self._kept = kept
        self.nbytes = int(buffer.nbytes + words.nbytes + 8 * int(words[fields.N_MARKS]))
        self._valid = memoryview(words)  # type: ignore[arg-type]
        self.address = _at(words)

    @property
    def is_open(self) -> bool:
        """Whether kernels use the frame."""
        return self._valid[0] != 0

    @property
    def needed(self) -> int:
        """Features of the last example, with those that are crossed."""
        return int(self._valid[fields.NEEDED])

    def close(self) -> bool:
        """Have kernels that hold the frame do nothing; returns whether they did something."""
        was_open = self.is_open
        self._valid[0] = 0
        return was_open

    def open(self) -> None:
        """Have kernels use the frame again."""
        self._valid[0] = 1


def _cross(words: Any, crosses: Crosses, names: Any, length: int) -> list[Any]:
    """Have what crosses the features of a dict; returns what must be kept alive."""
    n_members = length * crosses.most_of_one
    n_starts = len(crosses.prefixes) + 1
    parts = np.zeros(len(_CROSS_PARTS) * length + n_starts + n_members, np.uint64)
    for k, part in enumerate(_CROSS_PARTS):
        words[getattr(fields, part)] = _at(parts) + 8 * k * length
    words[fields.STARTS] = _at(parts) + 8 * len(_CROSS_PARTS) * length
    words[fields.MEMBERS] = words[fields.STARTS] + np.uint64(8 * n_starts)
    words[fields.N_MEMBERS] = n_members
    words[fields.PLAN], words[fields.N_PLAN] = _at(crosses.plan), len(crosses.plan)
    kept = [parts, crosses.plan]
    if isinstance(names, Table):
        entries = names.crossed.entries
        words[fields.CROSSED], words[fields.N_CROSSED] = _at(entries), len(entries)
        words[fields.CROSSED_USED] = _at(names.crossed.used)
        words[fields.PARTS_KNOWN] = id(names.parts)
        kept += [entries, names.crossed.used, names.parts]
    elif isinstance(names, Hashed):
        marks = np.zeros(1 << (4 * length).bit_length(), np.uint64)
        words[fields.MARKS], words[fields.N_MARKS] = _at(marks), len(marks)
        kept.append(marks)
    return kept


def _at(a: Any) -> int:
    return int(a.__array_interface__["data"][0])
