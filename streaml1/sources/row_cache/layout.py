"""The format of `.rows` files: blocks of parsed examples, the feature names, and an index of both.

All numbers are little-endian. Each part begins at a multiple of 8 bytes, padded with zeros.

- Header, 64 bytes: `MARK`, the version of the format (uint32), zero (uint32), where the index
  begins and how long it is (both uint64), the SHA-256 of the index.
- Blocks. Each consists of nine uint64 (`BlockHead`), then labels, weights, the first feature of
  each row (int64), lines (int64), values (float64), ids and, as JSON, what only few examples have.
- If features are named by strings: the hashes of the names (uint64), where each name ends in the
  text (uint64), the text (UTF-8).
- Index: the length of a JSON object (uint64), the object, then for each part where it begins, its
  bytes, its rows and its CRC-32C (uint64 each): first the blocks, then the three parts of names.

A file is identified by the SHA-256 of its index, which contains the checksums of everything else.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from typing import Any, NamedTuple

import crc32c
import numpy as np

from streaml1.core.types import Ints

__all__ = [
    "HEADER",
    "MARK",
    "MAX_NAME_BYTES",
    "VERSION",
    "BlockHead",
    "Index",
    "checksum",
    "header",
    "padded_size",
    "padding",
    "part_sizes",
]

MARK = b"\x89rows1\r\n"
VERSION = 1
HEADER = struct.Struct("<8sIIQQ32s")

SMALL, LARGE, NAMED = range(3)
"""Kinds of ids in a block: integers below 2**32, other integers (stored as int64), or indices of
names."""

MAX_NAME_BYTES = 2**32
"""Offsets of names have 32 bits."""

if sys.byteorder != "little":  # pragma: no cover
    raise ImportError(".rows files can be read on little-endian machines only")


class BlockHead(NamedTuple):
    """The beginning of a block. All fields are uint64 in the file."""

    rows: int
    features: int
    kind: int
    """The kind of the ids: `SMALL`, `LARGE` or `NAMED`."""
    valued: int
    """Whether values are stored. Otherwise all of them are 1."""
    weighted: int
    """Whether weights are stored. Otherwise all of them are 1."""
    plain: int
    """Whether no row has a duplicate id, a zero or a rejected value."""
    line: int
    """The line of the first row if lines are consecutive; 0 if lines are stored."""
    labels: int
    """The bytes of the labels as JSON; 0 if they are float64."""
    extra: int
    """The bytes of what only few examples have, as JSON: ids, and locations."""


def part_sizes(head: BlockHead) -> list[int]:
    """Return the bytes of the parts of a block in order, without padding."""
    n, k = head.rows, head.features
    return [
        8 * len(head), head.labels or 8 * n, 8 * n * head.weighted, 8 * (n + 1),
        0 if head.line else 8 * n, 8 * k * head.valued,
        8 * k if head.kind == LARGE else 4 * k, head.extra,
    ]  # fmt: skip


def padded_size(size: int) -> int:
    """Return a number of bytes with its padding."""
    return size + -size % 8


def padding(size: int) -> bytes:
    """Return the zeros that follow `size` bytes."""
    return bytes(-size % 8)


def checksum(data: Any) -> int:
    """Return the CRC-32C of a buffer."""
    return int(crc32c.crc32c(data))


def header(index_offset: int, index: bytes) -> bytes:
    """Return the header of a file whose index begins at an offset."""
    digest = hashlib.sha256(index).digest()
    return HEADER.pack(MARK, VERSION, 0, index_offset, len(index), digest)


class Index(NamedTuple):
    """The table of contents of a file.

    Parameters
    ----------
    about
        JSON values: the source and its format, and how many rows, features and names there are.
    parts
        For each part its first byte, bytes, rows and checksum, shape (parts, 4).
    """

    about: dict[str, Any]
    parts: Ints

    def dump(self) -> bytes:
        """Return the bytes of the index."""
        text = json.dumps(self.about).encode()
        table = np.ascontiguousarray(self.parts, np.uint64).tobytes()
        return struct.pack("<Q", len(text)) + text + padding(len(text)) + table

    @staticmethod
    def read(raw: bytes) -> Index:
        """Return the index in bytes that are one; `validation.read_index` checks them."""
        n = int.from_bytes(raw[:8], "little")
        table = np.frombuffer(raw, np.uint64, offset=8 + padded_size(n)).reshape(-1, 4)
        return Index(json.loads(raw[8 : 8 + n]), table.astype(np.int64))
