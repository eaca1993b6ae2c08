"""What is written to a topic is there when `flush` returns, or one sentence says why it is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors

from streaml1.sources import SourceError
from streaml1.sources.kafka import producer as outbox
from streaml1.sources.kafka.producer import (
    TopicWriter,
    as_topic,
    create_topic,
    output_topic,
    write_error,
)
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.source import Unavailable
from tests.broker import Broker
from tests.topics import records_of

ROOT = Path(__file__).parent.parent
TOPIC = Topic("kafka://a:1,b:2/clicks?api_version=2.3")

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


@pytest.fixture(scope="session")
def broker(broker: Broker) -> Broker:
    broker.require_real()
    return broker


def test_topics_beside() -> None:
    other = output_topic(TOPIC, "clicks.dlq")
    assert (other.name, other.url) == ("clicks.dlq", "kafka://a:1,b:2/clicks.dlq?api_version=2.3")
    assert (other.brokers, other.settings) == (TOPIC.brokers, TOPIC.settings)
    assert output_topic(TOPIC, "kafka://c:3/clicks").brokers == ["c:3"]
    for same in ("clicks", "kafka://b:2,a:1/clicks"):
        with pytest.raises(
            SourceError, match="/clicks.* is the topic that is read; write to another"
        ):
            output_topic(TOPIC, same)
    for name in ("", "a b", "é", "x" * 250, "..", "a/b"):
        with pytest.raises(SourceError, match="is not a valid topic name: use up to 249 letters"):
            output_topic(TOPIC, name)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (errors.MessageSizeTooLargeError(), "does not accept the record k: too large; raise"),
        (
            errors.TopicAuthorizationFailedError(),
            "this user may not write to the topic; add an ACL",
        ),
        (errors.KafkaTimeoutError(), "no broker accepted the record k: is one running?"),
        (errors.NotEnoughReplicasError("of 3"), "did not accept the record k: .*of 3"),
    ],
)
def test_reasons(error: Exception, sentence: str) -> None:
    said = write_error(TOPIC, error, "k")
    assert str(said).startswith(TOPIC.url)
    with pytest.raises(SourceError, match=sentence):
        raise said


@pytest.mark.kafka
def test_all_is_there(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though little may be on its way, and batches are larger than the topic takes them."""
    monkeypatch.setattr(outbox, "MAX_IN_FLIGHT", 300)
    monkeypatch.setattr(outbox, "MAX_IN_FLIGHT_BYTES", 20_000)
    topic = as_topic(broker.url(broker.topic(3, **{"max.message.bytes": "4000"})))
    with TopicWriter(topic) as box:
        for number in range(2000):
            value = None if number % 100 == 7 else bytes(number % 150)
            box.send(f"k{number % 700}", value, [("n", b"%d" % number)])
        box.flush()
        records = records_of(broker, topic.name)
        assert sorted(int(record.headers[0][1]) for record in records) == list(range(2000))
        last: dict[bytes, int] = {}
        for record in records:  # those of one key are in one partition, in order
            number = int(record.headers[0][1])
            assert last.get(record.key, -1) < number
            last[record.key] = number
        for number in range(10):
            box.send("any", b"x", None, number)
        box.flush()
        added = [one for one in records_of(broker, topic.name) if one.key == b"any"]
        assert [one.partition for one in added] == [0] * 4 + [1] * 3 + [2] * 3


@pytest.mark.kafka
def test_the_first_that_fails_is_told_of(broker: Broker) -> None:
    topic = as_topic(broker.url(broker.topic(**{"max.message.bytes": "1000"})))
    with TopicWriter(topic) as box:
        for size in (10, 5000, 10):
            box.send(f"k{size}", bytes(size))
        with pytest.raises(SourceError, match="does not accept the record k5000: too large"):
            box.flush()
    with TopicWriter(topic) as box:  # also by the next record, without a flush
        box.send("first", bytes(5000))
        with pytest.raises(SourceError, match="does not accept the record first"):
            for _ in range(100):
                time.sleep(0.05)
                box.send("later", b"x")
    with (
        TopicWriter(topic) as box,
        pytest.raises(SourceError, match="does not accept the record huge"),
    ):
        box.send("huge", bytes(outbox.MAX_RECORD_BYTES + 1))


@pytest.mark.kafka
def test_a_topic_that_is_deleted_stays_so(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "DELIVERY_SECONDS", 3.0)
    monkeypatch.setattr(outbox, "REQUEST_SECONDS", 1.0)
    topic = as_topic(broker.url(broker.topic()))
    with TopicWriter(topic) as box:
        box.send("a", b"1")
        box.flush()
        broker.delete(topic.name)
        box.send("b", b"2")
        with pytest.raises(Unavailable, match=f"^{topic.url} was deleted during the run"):
            box.flush()
    assert not broker.has(topic.name)


@pytest.mark.kafka
def test_a_topic_that_another_makes_meanwhile(broker: Broker) -> None:
    topic = as_topic(broker.url(broker.topic()))
    create_topic(topic, {})


@pytest.mark.kafka
def test_no_right_to_make_one(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise errors.TopicAuthorizationFailedError({"new"})

    monkeypatch.setattr("kafka.admin.KafkaAdminClient.create_topics", refuse)
    with pytest.raises(SourceError) as caught:
        TopicWriter(as_topic(broker.url("new-one")))
    text = str(caught.value)
    assert text.startswith(f"{broker.url('new-one')}: topic new-one does not exist and cannot be")
    assert text.endswith("); create it first")


def test_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wait after a stop has its time, until one was in vain."""
    now, stopped = [100.0], [False]
    monkeypatch.setattr(outbox.time, "monotonic", lambda: now[0])
    one = outbox.StopDeadline()
    one.set_stop(lambda: stopped[0])

    def over_after(seconds: float) -> bool:
        now[0] += seconds
        return one.is_exhausted()

    assert not over_after(1000.0)
    stopped[0] = True
    assert not over_after(1000.0) and not over_after(2.9)
    one.on_progress()
    assert not over_after(2.9)
    now[0] += 60.0  # a large model is packed
    one.start_wait()
    assert not over_after(2.9) and over_after(0.2)
    one.start_wait()
    assert over_after(0.0)
    one.on_progress()
    assert not over_after(2.9)


class Own:
    """A broker of a test, that can be frozen."""

    def __init__(self, state: Path) -> None:
        self.command = [sys.executable, str(ROOT / "scripts/kafka.d/broker.py"), "--state", state]
        done = subprocess.run([*self.command, "up"], check=True, capture_output=True, text=True)
        self.address = done.stdout.split()[-1]
        self.pid = json.loads((state / "broker.json").read_text())["pid"]

    def freeze(self, frozen: bool) -> None:
        os.kill(self.pid, signal.SIGSTOP if frozen else signal.SIGCONT)

    def down(self) -> None:
        self.freeze(False)
        subprocess.run([*self.command, "down"], check=True)


@pytest.mark.kafka
@pytest.mark.slow
def test_trouble_that_passes_is_waited_out(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And other trouble is not waited for without end."""
    monkeypatch.setattr(outbox, "REQUEST_SECONDS", 1.0)
    monkeypatch.setattr(outbox, "DELIVERY_SECONDS", 4.0)
    monkeypatch.setattr(outbox, "CLOSE_SECONDS", 0.5)
    own = Own(tmp_path / "broker")
    there = SimpleNamespace(settings={"bootstrap_servers": own.address})
    try:
        topic = as_topic(f"kafka://{own.address}/clicks.dlq")
        with TopicWriter(topic) as box:
            box.send("a", b"1")
            box.flush()
            own.freeze(True)
            box.send("b", b"2")
            threading.Timer(1.5, own.freeze, [False]).start()
            begin = time.monotonic()
            box.flush()
            assert time.monotonic() - begin > 1
            assert {one.key for one in records_of(there, "clicks.dlq")} == {b"a", b"b"}  # type: ignore[arg-type]
            own.freeze(True)
            box.send("c", b"3")
            with pytest.raises(
                SourceError, match="no broker accepted the record c: is one running?"
            ):
                box.flush()
    finally:
        own.down()
