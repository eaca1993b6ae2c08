"""The records of predictions, held to `json.dumps` of a dict for each of them."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1 import ElasticNetClassifier, SoftmaxClassifier
from streaml1.sources.kafka.confluent.producer import Failure
from streaml1.sources.kafka.producer import TopicWriter
from streaml1.sources.kafka.record_formats import record_parser
from streaml1.sources.kafka.records import RecordReader
from streaml1.sources.source import Block, SourceError
from streaml1.training.observers import Batch
from streaml1.training.prediction_records import PredictionRecords
from streaml1.training.record_coordinates import coordinates, record_key
from tests.test_records import Record


def blocks(values: list[bytes], size: int) -> list[Any]:
    """Return the blocks of a topic, with several lines in some of its records."""
    records = [Record(k % 3, 10**9 + k, value, 'a."b') for k, value in enumerate(values)]
    reader = RecordReader('a."b', record_parser("jsonl", False))
    return [block for block in reader.blocks(records, size, lambda *_: None) if len(block)]


def records_of(block: Any, p: Any, model: Any, lo: int, hi: int) -> list[Any]:
    """Return what the observer sends."""
    sent: list[Any] = []
    observer = PredictionRecords.__new__(PredictionRecords)
    observer._writer = SimpleNamespace(send_many=sent.extend)  # type: ignore[assignment]
    observer._learns = False
    observer.on_predict_start(model)
    observer.on_batch(Batch(block, lo, hi, None, None, p))
    return sent


def expected(block: Any, fields: list[dict[str, Any]], lo: int, n_learnt: int) -> list[Any]:
    found = []
    for row, record in enumerate(fields, start=lo):
        origin = block.origin(row)
        place = block.place(row) if origin is None else ""
        if block.ids is not None and block.ids[row] is not None:
            record["id"] = block.ids[row]
        record["model"] = {"examples": n_learnt, "epoch": None}
        record |= coordinates(place, origin)
        partition = None if origin is None else origin.partition
        found.append((record_key(place, origin), json.dumps(record).encode(), partition))
    return found


@st.composite
def values(draw: Any) -> list[bytes]:
    ids = st.none() | st.integers(-5, 2**60) | st.text(max_size=3)
    texts = []
    for lines in draw(st.lists(st.lists(ids, min_size=1, max_size=3), min_size=1, max_size=5)):
        rows = ({"x": {"a": 1}, **({} if id is None else {"id": id})} for id in lines)
        texts.append("\n".join(map(json.dumps, rows)).encode())
    return texts


@given(values(), st.integers(1, 4), st.data())
def test_records_are_those_of_json_dumps(texts: list[bytes], size: int, data: Any) -> None:
    model = ElasticNetClassifier()
    model.learn_one({"a": 1}, True)
    for block in blocks(texts, size):
        lo = data.draw(st.integers(0, len(block) - 1))
        numbers = st.floats() | st.sampled_from([1e-300, 0.1, 1e22, math.nan])
        n = len(block) - lo
        p = np.array(data.draw(st.lists(numbers, min_size=n, max_size=n)))
        fields: list[Any] = [{"p": v if math.isfinite(v) else None} for v in p.tolist()]
        assert records_of(block, p, model, lo, len(block)) == expected(block, fields, lo, 1)


def test_classes_and_other_sources() -> None:
    model = SoftmaxClassifier()
    model.learn_many([{"a": 1}, {"a": 1}], ['x"', 3])
    block = Block([{"a": 1}] * 2, [None] * 2, None, "a.vw", [4, 9], ids=["é", None])
    fields = [
        {"label": 3, "p": [['x"', 0.25], [3, 0.75]]}, {"label": 'x"', "p": [['x"', 1.0], [3, 0.0]]}
    ]  # fmt: skip
    found = records_of(block, np.array([[0.25, 0.75], [1.0, 0.0]]), model, 0, 2)
    assert found == expected(block, fields, 0, 2)
    assert [key for key, *_ in found] == ["a.vw:4", "a.vw:9"]


class Producer:
    """A client of confluent-kafka whose second flush acknowledges all, or reports a failure."""

    def __init__(self, fails: bool) -> None:
        self.n_queued, self.failure, self._fails = 0, None, fails
        self.sent: list[dict[str, Any]] = []
        self.n_flushed = 0

    def send_many(self, topic: str, messages: list[dict[str, Any]]) -> None:
        self.sent += messages
        self.n_queued += len(messages)

    def flush(self, timeout: float) -> None:
        self.n_flushed += 1
        if self._fails:
            from kafka.errors import MessageSizeTooLargeError

            self.failure = Failure(MessageSizeTooLargeError(), "k")
        if self.n_flushed == 2:
            self.n_queued = 0


def writer(producer: Producer) -> Any:
    made = TopicWriter.__new__(TopicWriter)
    made.__dict__.update(
        topic=SimpleNamespace(name="t", url="kafka://h/t"), _producer=producer, partitions=3,
        _queues=True, _queued_bytes=0, _failed=None, _given_up=None, _pending=[],
        _pending_bytes=0,
    )  # fmt: skip
    made.stop_deadline = SimpleNamespace(
        start_wait=lambda: None, on_progress=lambda: None, is_exhausted=lambda: False
    )
    return made


def test_a_flush_waits_until_the_queue_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Producer(fails=False)
    made = writer(producer)
    made.send_many([("a", b"1", None), ("b", b"2", 4)])
    made.flush()
    assert (producer.n_flushed, producer.n_queued) == (2, 0)
    assert [message["partition"] for message in producer.sent][1] == 1
    monkeypatch.setattr("streaml1.sources.kafka.producer.MAX_IN_FLIGHT", 2)
    made.send_many([("a", b"1", None)] * 2)
    producer.n_flushed = 0
    made.send_many([("a", b"1", None)])
    assert producer.n_flushed == 2 and producer.n_queued == 1


def test_a_record_that_failed_is_reported_by_every_later_call() -> None:
    made = writer(Producer(fails=True))
    made.send_many([("a", b"1", None)])
    for call in (made.flush, lambda: made.send_many([("a", b"1", None)]), made.flush):
        with pytest.raises(SourceError, match="does not accept the record k: too large"):
            call()
