"""Records of a published model: chunks and a manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafka.consumer.fetcher import ConsumerRecord

__all__ = [
    "CHUNKS",
    "MANIFESTS",
    "Manifest",
    "chunk_key",
    "digest",
    "header_value",
    "is_text",
    "manifest_key",
    "split_chunks",
]

MANIFESTS, CHUNKS = 0, 1
"""Partitions of the topic."""

CHUNK_BYTES = 900_000
"""Less than brokers accept by default: 1 MiB with the overhead of a record batch."""

FORMAT = 1

MAX_CHUNKS = 100_000
"""90 GB. Any writer of the topic may have chosen the number in a manifest."""

MAX_TEXT, MAX_INT = 255, 2**63

TEXT_FIELDS = ("writer", "id", "sha256", "model", "time", "host")
"""Fields of a manifest that are text; the others are integers."""


class Manifest(NamedTuple):
    """Description of a complete publication.

    Parameters
    ----------
    epoch, writer, number
        Run that published it, and its number in that run, from 1. Later publications are larger.
    slot
        Slot of its keys, 0 or 1.
    id
        Id of the publication, in a header of each of its chunks.
    chunks
        Number of chunks.
    first, last
        Lowest and highest offset of its chunks.
    size, sha256
        Size in bytes and SHA-256 of the whole model.
    model, examples
        Class of the model, and the number of examples it had learnt.
    time
        Time of the publication in UTC.
    host, process
        Host name and process id of the publisher.
    """

    epoch: int
    writer: str
    number: int
    slot: int
    id: str
    chunks: int
    first: int
    last: int
    size: int
    sha256: str
    model: str
    examples: int
    time: str
    host: str
    process: int

    @property
    def rank(self) -> tuple[int, str, int]:
        """Sort key: larger for later publications."""
        return self.epoch, self.writer, self.number

    def encode(self) -> bytes:
        """Encode as JSON."""
        return json.dumps({"format": FORMAT, **self._asdict()}).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> Manifest | None:
        """Decode what `encode` returned; return None for anything else."""
        try:
            fields = json.loads(value or b"")
            manifest = cls(**{name: fields[name] for name in cls._fields})
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        is_ours = fields.get("format") == FORMAT and manifest._is_valid()
        return manifest if is_ours else None

    def _is_valid(self) -> bool:
        """Return whether all fields have their types and are in range."""
        for name, value in self._asdict().items():
            is_number = type(value) is int and 0 <= value < MAX_INT
            if not (is_text(value) if name in TEXT_FIELDS else is_number):
                return False
        return self.slot <= 1 and 1 <= self.chunks <= MAX_CHUNKS and self.first <= self.last


def is_text(value: object) -> bool:
    """Return whether a value may be a text of a manifest: it is shown to users."""
    return type(value) is str and len(value) <= MAX_TEXT and value.isprintable()


def manifest_key(slot: int) -> str:
    """Return the key of the manifest in a slot."""
    return f"model-{slot}"


def chunk_key(slot: int, number: int) -> str:
    """Return the key of a chunk in a slot, numbered from 0."""
    return f"model-{slot}-{number:06}"


def split_chunks(data: bytes) -> Iterator[bytes]:
    """Split an encoded model into chunks; yield at least one."""
    for lo in range(0, max(1, len(data)), CHUNK_BYTES):
        yield data[lo : lo + CHUNK_BYTES]


def digest(data: bytes) -> str:
    """Return the SHA-256 of an encoded model in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def header_value(record: ConsumerRecord, name: str) -> str | None:
    """Return the value of a header as text, or None if the record does not have it."""
    for key, value in record.headers or ():
        if key == name and value is not None:
            return str(value, "utf-8", "replace")
    return None
