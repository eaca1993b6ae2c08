"""The form of a file of rows: blocks of parsed examples, the names, and an index of both.

All numbers are little-endian, and each part begins at a multiple of 8 bytes, zeros in between:

- a header of 64 bytes: `MARK`, the version of the form (uint32), zero (uint32), where the index
  begins and how long it is (uint64 both), the SHA-256 of the index;
- blocks. Each is nine uint64 (see `BlockHead`), then labels, weights, the first feature of each
  row (int64), lines (int64), values (float64), ids and, as JSON, what few examples have;
- if there are names: their hashes (uint64), where each ends in the text (uint64), the text (UTF-8);
- the index: the length of a JSON object (uint64), that object, then for each part where it begins,
  its bytes, its rows and its CRC-32C (uint64 each): the blocks, and three parts of names.

What tells one file from another is the SHA-256 of the index: the sums of all else are in it.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from typing import Any, NamedTuple

import crc32c
import numpy as np

__all__ = [
    "HEADER",
    "MARK",
    "VERSION",
    "BlockHead",
    "Index",
    "checksum",
    "filled",
    "header",
    "padding",
    "sizes",
]

MARK = b"\x89rows1\r\n"
VERSION = 1
HEADER = struct.Struct("<8sIIQQ32s")

SMALL, LARGE, NAMED = range(3)
"""Ids of a block: ints below 2**32, other ints, or numbers of names; int64 where they are large."""

if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("files of rows are read on little-endian machines only")


class BlockHead(NamedTuple):
    """What a block begins with."""

    rows: int
    features: int
    kind: int
    """Of the ids: `SMALL`, `LARGE` or `NAMED`."""
    valued: int
    """Whether values are kept; else all of them are 1."""
    weighted: int
    """Whether weights are kept; else all of them are 1."""
    plain: int
    """Whether no row has an id twice, or a value that is zero or refused."""
    line: int
    """The line of the first row, where lines follow each other; 0 where they are kept."""
    labels: int
    """The bytes of the labels as JSON; 0 where they are float64."""
    extra: int
    """The bytes of what few examples have, as JSON: ids, and places that no line tells."""


def sizes(head: BlockHead) -> list[int]:
    """The bytes of the parts of a block, in their order, without the zeros between."""
    n, k = head.rows, head.features
    return [
        8 * len(head), head.labels or 8 * n, 8 * n * head.weighted, 8 * (n + 1),
        0 if head.line else 8 * n, 8 * k * head.valued,
        8 * k if head.kind == LARGE else 4 * k, head.extra,
    ]  # fmt: skip


def filled(size: int) -> int:
    """A number of bytes, with the zeros behind."""
    return size + -size % 8


def padding(size: int) -> bytes:
    """The zeros behind so many bytes."""
    return bytes(-size % 8)


def checksum(data: Any) -> int:
    """The CRC-32C of some bytes."""
    return int(crc32c.crc32c(data))


def header(at: int, index: bytes) -> bytes:
    """The header of a file with an index there."""
    return HEADER.pack(MARK, VERSION, 0, at, len(index), hashlib.sha256(index).digest())


class Index(NamedTuple):
    """What is where in a file.

    Parameters
    ----------
    about
        What JSON can hold: the source and its format, how many rows, features and names.
    parts
        uint64 of shape (m, 4): where each part begins, its bytes, its rows, its checksum.
    """

    about: dict[str, Any]
    parts: Any

    def dump(self) -> bytes:
        """It as bytes."""
        text = json.dumps(self.about).encode()
        table = np.ascontiguousarray(self.parts, np.uint64).tobytes()
        return struct.pack("<Q", len(text)) + text + padding(len(text)) + table

    @staticmethod
    def read(raw: bytes) -> Index:
        """It from its bytes, whose sum was right."""
        n = int.from_bytes(raw[:8], "little")
        table = np.frombuffer(raw, np.uint64, offset=8 + filled(n)).reshape(-1, 4)
        return Index(json.loads(raw[8 : 8 + n]), table.astype(np.int64))
