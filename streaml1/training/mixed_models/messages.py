"""Messages of the topic of a mixed model, as records of at most 1 MiB.

A message is split into chunks. Each has a header with all fields of the message in JSON, and its
number. A message counts once all its chunks are there and the SHA-256 of the whole fits. So it does
not matter which chunks of a replaced message compaction has removed.

Keys decide what compaction keeps:

- ``part-P-CHUNK``: the last part of partition P. A later one replaces it.
- ``base-EPOCH-WRITER-SLOT-CHUNK``: two slots for each run that has merged. A run never overwrites
  its newest base, nor that of another run.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from streaml1.core.named_options import named_option
from streaml1.models.serialization import ModelFileError

__all__ = ["Assembler", "Base", "Message", "Part", "Record", "encode", "tombstones"]

CHUNK_BYTES = 900_000
"""Less than brokers accept by default: 1 MiB with the overhead of a record batch."""

COMPRESSION = 1
"""Level of zlib: members wait for messages."""

MAX_BYTES = 2**30
"""Bytes of a message before compression: what a reader unpacks at most."""

FORMAT = 1
HEADER, CHUNK = "mixed", "chunk"
MAX_CHUNKS = MAX_BYTES // CHUNK_BYTES + 2
MAX_INT = 2**63
_WRITER = re.compile(r"[0-9a-f]{1,64}")

Rank = tuple[int, str, int]
Scores = dict[str, tuple[float, float]]


class Base(NamedTuple):
    """A model that all members go on from.

    Parameters
    ----------
    epoch, writer, round
        Run that published it, and its number. Of several bases the largest triple is valid.
    frontier
        For each partition the offset up to which its examples are in the model. The part that
        begins there is the only one that can be merged next. A partition that is missing has
        contributed nothing.
    scores
        For each way to join parts, decayed sums of its losses and of sample weights on examples
        that it had not learnt.
    examples
        Number of examples in the model.
    data
        The model.
    source
        Cluster, name and id of the topic of the examples, which the offsets refer to, and the
        columns that were learnt; what is not a string is JSON. Empty if unknown.
    """

    epoch: int
    writer: str
    round: int
    frontier: dict[int, int]
    scores: Scores
    examples: int
    data: bytes
    source: Mapping[str, str | None] = {}

    @property
    def rank(self) -> Rank:
        """Sort key: larger for later bases."""
        return self.epoch, self.writer, self.round

    @property
    def id(self) -> str:
        """SHA-256 of what parts depend on, whoever has published it."""
        head = json.dumps([self.round, sorted(self.frontier.items())]).encode()
        return hashlib.sha256(head + self.data).hexdigest()


class Part(NamedTuple):
    """What a partition has added to a base.

    Parameters
    ----------
    partition
        The partition.
    epoch
        Epoch of its owner: parts of earlier owners are ignored.
    base, round
        Id and number of the base that the part has started from.
    lo, hi
        Offset of its first record, and the offset after its last.
    examples
        Number of examples.
    data
        The base after these examples.
    """

    partition: int
    epoch: int
    base: str
    round: int
    lo: int
    hi: int
    examples: int
    data: bytes


Message = Base | Part


class Record(NamedTuple):
    """Key, value and headers of a record."""

    key: str
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


def encode(message: Message) -> Iterator[Record]:
    """Yield the records of a message, at least one.

    Raises
    ------
    ModelFileError
        If the model is too large for a message, or readers would ignore the message.
    """
    if not _is_valid(message):  # any writer of the topic may have chosen the number
        raise ModelFileError(
            f"the topic of the mixed model holds an epoch or a round of {MAX_INT - 1}, and members "
            "ignore larger ones; use another topic"
        )
    if len(message.data) >= MAX_BYTES:
        raise ModelFileError(
            f"the model has {len(message.data):,} bytes, and a message of a mixed model holds at "
            f"most {MAX_BYTES:,}; use {named_option('l1')}, {named_option('max_features')} or "
            f"{named_option('hash_bits')}"
        )
    data = zlib.compress(message.data, COMPRESSION)
    fields = {name: value for name, value in message._asdict().items() if name != "data"}
    digest = hashlib.sha256(data).hexdigest()
    kind = "base" if isinstance(message, Base) else "part"
    chunks = [data[k : k + CHUNK_BYTES] for k in range(0, max(1, len(data)), CHUNK_BYTES)]
    head = {"format": FORMAT, "kind": kind, "sha256": digest, "chunks": len(chunks), **fields}
    header = json.dumps(head).encode()
    for number, chunk in enumerate(chunks):
        headers = [(HEADER, header), (CHUNK, str(number).encode())]
        yield Record(f"{_key(message)}-{number:06}", chunk, headers)


def _key(message: Message) -> str:
    if isinstance(message, Part):
        return f"part-{message.partition}"
    return f"base-{message.epoch:08}-{message.writer}-{message.round % 2}"


def tombstones(keys: Iterable[str], newest: Base) -> Iterator[Record]:
    """Yield records that delete the bases of runs before that of a base."""
    run = f"base-{newest.epoch:08}-{newest.writer}-"
    for key in sorted(keys):
        if key.startswith("base-") and key < run:
            yield Record(key, None, ())


class Assembler:
    """Joins the records of a topic to messages.

    Attributes
    ----------
    keys : set of str
        Keys of all records that are not deleted.
    """

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self._header: dict[str, bytes] = {}
        self._fields: dict[str, dict[str, Any]] = {}
        self._chunks: dict[str, dict[int, bytes]] = {}

    def feed(self, record: Record) -> Message | None:
        """Return the message that a record completes, or None."""
        (self.keys.discard if record.value is None else self.keys.add)(record.key)
        headers = dict(record.headers)
        header, text = headers.get(HEADER), headers.get(CHUNK, b"")
        if record.value is None or header is None or not text.isdigit() or len(text) > 9:
            return None
        slot = record.key.rpartition("-")[0]
        if self._header.get(slot) != header:
            fields = _fields(header)
            if fields is None:  # its chunks are not kept, since they would never be complete
                return None
            # A new message replaces an incomplete one.
            self._header[slot], self._fields[slot], self._chunks[slot] = header, fields, {}
        fields, chunks = self._fields[slot], self._chunks[slot]
        if int(text) < fields["chunks"]:
            chunks[int(text)] = record.value
        if len(chunks) < fields["chunks"]:
            return None
        del self._header[slot], self._fields[slot], self._chunks[slot]
        return _message(fields, chunks)


def _fields(header: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(header)
        is_ours = fields["format"] == FORMAT and _is_int(fields["chunks"], 1, MAX_CHUNKS)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return fields if is_ours else None


def _message(fields: dict[str, Any], chunks: dict[int, bytes]) -> Message | None:
    """Return a message; None if a field or the content is invalid."""
    data = b"".join(chunks[number] for number in sorted(chunks))
    if hashlib.sha256(data).hexdigest() != fields.get("sha256"):
        return None
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(data, MAX_BYTES)
        if not unpacker.eof:
            return None
        if fields["kind"] == "part":
            part = Part(**{name: fields[name] for name in Part._fields[:-1]}, data=data)
            return part if _is_valid_part(part) else None
        base = Base(
            fields["epoch"], fields["writer"], fields["round"],
            {int(p): offset for p, offset in fields["frontier"].items()},
            {str(name): (float(a), float(b)) for name, (a, b) in fields["scores"].items()},
            fields["examples"], data, fields.get("source", {}),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, zlib.error):
        return None
    return base if _is_valid_base(base) else None


def _is_int(value: object, lo: int = 0, hi: int = MAX_INT) -> bool:
    return type(value) is int and lo <= value < hi


def _is_valid(message: Message) -> bool:
    return _is_valid_part(message) if isinstance(message, Part) else _is_valid_base(message)


def _is_valid_part(part: Part) -> bool:
    numbers = (part.partition, part.epoch, part.round, part.lo, part.hi, part.examples)
    return all(map(_is_int, numbers)) and type(part.base) is str and part.lo < part.hi


def _is_valid_base(base: Base) -> bool:
    numbers = (base.epoch, base.round, base.examples, *base.frontier, *base.frontier.values())
    is_named = type(base.writer) is str and _WRITER.fullmatch(base.writer) is not None
    sums = (x for pair in base.scores.values() for x in pair)
    return (
        is_named
        and all(map(_is_int, numbers))
        and all(map(math.isfinite, sums))
        and type(base.source) is dict
        and all(type(value) in (str, type(None)) for value in base.source.values())
    )
