"""Crafted records in the topic of a mixed model: each is ignored, or is a valid message."""

from __future__ import annotations

import hashlib
import json
import math
import tracemalloc
import zlib
from random import Random
from typing import Any

import pytest

import streaml1
from streaml1.models import decode
from streaml1.models.pipelines import snapshot
from streaml1.models.serialization import ModelFileError
from streaml1.training.mixed_models.messages import (
    CHUNK,
    HEADER,
    Assembler,
    Base,
    Message,
    Part,
    Record,
    encode,
)
from streaml1.training.mixed_models.state import MixState
from tests.test_crafted_files import MUTATIONS, assert_one_sentence, mutated_bytes, mutated_json


def model() -> bytes:
    one = streaml1.ElasticNetClassifier(lr=0.1, l1=1e-3)
    for k in range(20):
        one.learn_one({"a": 1.0, f"b{k % 5}": 0.5}, k % 2 == 0)
    return snapshot(one, packed=False)()


def sent() -> list[Message]:
    data = model()
    base = Base(3, "0f" * 16, 2, {0: 7, 12: 2**40}, {"mean": (1.5, 2.0)}, 20, data)
    return [base, Part(1, 2, base.id, 2, 10, 15, 5, data)]


def record_of(fields: Any, data: bytes, chunk: bytes = b"0", key: str = "part-1-000000") -> Record:
    """Return a record with the digest of its content."""
    if isinstance(fields, dict) and "sha256" in fields:
        fields = {**fields, "sha256": hashlib.sha256(data).hexdigest()}
    return Record(key, data, [(HEADER, json.dumps(fields).encode()), (CHUNK, chunk)])


def parts_of(message: Message) -> tuple[dict[str, Any], bytes]:
    """Return the header and the content of a message that is one record."""
    [record] = encode(message)
    assert record.value is not None
    return json.loads(dict(record.headers)[HEADER]), record.value


def check(message: Message) -> None:
    """Use a message as a member does; its model is used, or rejected with a sentence."""
    state = MixState()
    state.apply(message)
    state.mergeable()
    assert [*encode(message)]
    if isinstance(message, Base):
        assert all(map(math.isfinite, sum(message.scores.values(), ())))
    try:
        used = decode(message.data, "the topic")
    except ModelFileError as error:
        assert_one_sentence(error)
    else:
        assert 0.0 <= used.predict_proba_one({"a": 1.0})[True] <= 1.0


def test_mutated_messages() -> None:
    random, outcomes = Random(7), {"ignored": 0, "read": 0}
    originals = [parts_of(message) for message in sent()]
    for _ in range(MUTATIONS):
        fields, data = random.choice(originals)
        chunk = b"0"
        kind = random.choice(("header", "header", "model", "compressed", "chunk"))
        if kind == "header":
            fields = mutated_json(random, fields)
        elif kind == "model":
            data = zlib.compress(mutated_bytes(random, zlib.decompress(data)))
        elif kind == "compressed":
            data = mutated_bytes(random, data)
        else:
            chunk = random.choice((b"", b"1", b"-1", b"9" * 9, b"9" * 5000, b"\xd9\xa1", b"0x0"))
        message = Assembler().feed(record_of(fields, data, chunk))
        outcomes["ignored" if message is None else "read"] += 1
        if message is not None:
            check(message)
    assert min(outcomes.values()) > MUTATIONS / 20, outcomes


@pytest.mark.parametrize(
    "scores",
    [
        {"mean": [10**400, 1]},
        {"mean": [1, float("nan")]},
        {"mean": [float("inf"), 1]},
        {"mean": ["x", 1]},
        {"mean": 5},
        [["mean", 1, 2]],
    ],
)
def test_invalid_scores_are_ignored(scores: Any) -> None:
    fields, data = parts_of(sent()[0])
    assert Assembler().feed(record_of(fields, data)) is not None
    assert Assembler().feed(record_of({**fields, "scores": scores}, data)) is None


@pytest.mark.parametrize("chunks", [None, 0, 10**10, 2])
def test_chunks_of_no_message_take_no_memory(chunks: Any) -> None:
    """Neither without a valid header, nor beyond the number of chunks."""
    fields, _ = parts_of(sent()[0])
    assembler = Assembler()
    tracemalloc.start()
    for number in range(1 if chunks == 2 else 0, 500):
        data = bytes(10_000)
        record = record_of({**fields, "chunks": chunks}, data, str(number).encode())
        assert assembler.feed(record) is None
    retained, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert retained < 100_000
