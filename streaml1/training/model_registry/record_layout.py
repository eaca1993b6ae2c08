"""How a publication lies in a topic."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["CHUNKS", "MANIFESTS", "Manifest", "chunk_key", "chunks_of", "digest", "manifest_key"]

MANIFESTS, CHUNKS = 0, 1
"""The partitions."""

CHUNK_BYTES = 900_000
"""Below what brokers take by default, 1 MiB with all that is around it."""

FORMAT = 1

WORDS = ("writer", "id", "sha256", "model", "time", "host")
"""What of a manifest is text, and no whole number."""


class Manifest(NamedTuple):
    """What tells of a publication that is whole.

    Parameters
    ----------
    epoch, writer, number
        Which run, and which of its publications, from 1: a later one is larger.
    slot, id
        Of its keys, 0 or 1; and what its chunks, and no others, have in a header.
    chunks, first, last
        How many; the lowest and the highest of their offsets.
    size, sha256
        Of all together; the size in bytes.
    model, examples, time
        What it is of; how many examples that had learnt; when, in UTC.
    host, process
        Who published it.
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
        """Larger for a later one."""
        return self.epoch, self.writer, self.number

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps({"format": FORMAT, **self._asdict()}).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> Manifest | None:
        """What `encode` gave; None for anything else."""
        try:
            told = json.loads(value or b"")
            manifest = cls(**{name: told[name] for name in cls._fields})
        except (ValueError, KeyError, TypeError):
            return None
        typed = all(
            isinstance(one, str if name in WORDS else int)
            for name, one in manifest._asdict().items()
        )
        return manifest if typed and told.get("format") == FORMAT else None


def manifest_key(slot: int) -> str:
    """The key of the manifest in a slot."""
    return f"model-{slot}"


def chunk_key(slot: int, number: int) -> str:
    """The key of a chunk in a slot, numbered from 0."""
    return f"model-{slot}-{number:06}"


def chunks_of(data: bytes) -> Iterator[bytes]:
    """A model cut into chunks; at least one."""
    for lo in range(0, max(1, len(data)), CHUNK_BYTES):
        yield data[lo : lo + CHUNK_BYTES]


def digest(data: bytes) -> str:
    """The SHA-256 of a model."""
    return hashlib.sha256(data).hexdigest()


def header(record: Any, name: str) -> str | None:
    """A header of a record."""
    for one, value in record.headers or ():
        if one == name and value is not None:
            return str(value, "utf-8", "replace")
    return None
