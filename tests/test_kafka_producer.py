"""Writing to a topic: `flush` returns when all records are stored, or raises one error."""

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
from streaml1.sources.kafka import producer
from streaml1.sources.kafka.output_topics import create_topic, output_topic
from streaml1.sources.kafka.producer import TopicWriter, as_topic, write_error
from streaml1.sources.kafka.stop_deadline import StopDeadline
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.source import Unavailable
from tests.broker import Broker
from tests.topics import records_of

ROOT = Path(__file__).parent.parent
TOPIC = Topic("kafka://a:1,b:2/clicks?api_version=2.3")

pytestmark = pytest.mark.usefixtures("no_leaked_threads")
both_clients = pytest.mark.usefixtures("kafka_client")


@pytest.fixture(scope="session")
def broker(broker: Broker) -> Broker:
    broker.require_real()
    return broker


def test_output_topic() -> None:
    written = output_topic(TOPIC, "clicks.dlq")
    assert (written.name, written.url) == (
        "clicks.dlq",
        "kafka://a:1,b:2/clicks.dlq?api_version=2.3",
    )
    assert (written.brokers, written.settings) == (TOPIC.brokers, TOPIC.settings)
    assert output_topic(TOPIC, "kafka://c:3/clicks").brokers == ["c:3"]
    for input_topic in ("clicks", "kafka://b:2,a:1/clicks"):
        with pytest.raises(
            SourceError, match="/clicks.* is the topic that is read; write to another"
        ):
            output_topic(TOPIC, input_topic)
    for name in ("", "a b", "é", "x" * 250, "..", "a/b"):
        with pytest.raises(SourceError, match="is not a valid topic name: use up to 249 letters"):
            output_topic(TOPIC, name)


@pytest.mark.parametrize(
    ("error", "message"),
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
def test_write_errors_state_the_reason(error: Exception, message: str) -> None:
    described = write_error(TOPIC, error, "k")
    assert str(described).startswith(TOPIC.url)
    with pytest.raises(SourceError, match=message):
        raise described


@both_clients
@pytest.mark.kafka
def test_all_records_are_written(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the records in flight, and send batches larger than the topic accepts."""
    monkeypatch.setattr(producer, "MAX_IN_FLIGHT", 300)
    monkeypatch.setattr(producer, "MAX_IN_FLIGHT_BYTES", 20_000)
    topic = as_topic(broker.url(broker.topic(3, **{"max.message.bytes": "4000"})))
    with TopicWriter(topic) as writer:
        for number in range(2000):
            value = None if number % 100 == 7 else bytes(number % 150)
            writer.send(f"k{number % 700}", value, [("n", b"%d" % number)])
        writer.flush()
        records = records_of(broker, topic.name)
        assert sorted(int(record.headers[0][1]) for record in records) == list(range(2000))
        last: dict[bytes, int] = {}
        for record in records:  # records of one key are in one partition, in order
            number = int(record.headers[0][1])
            assert last.get(record.key, -1) < number
            last[record.key] = number
        for number in range(10):
            writer.send("any", b"x", None, number)
        writer.flush()
        added = [stored for stored in records_of(broker, topic.name) if stored.key == b"any"]
        assert [stored.partition for stored in added] == [0] * 4 + [1] * 3 + [2] * 3


@both_clients
@pytest.mark.kafka
def test_first_failed_record_is_reported(broker: Broker) -> None:
    topic = as_topic(broker.url(broker.topic(**{"max.message.bytes": "1000"})))
    with TopicWriter(topic) as writer:
        for size in (10, 5000, 10):
            writer.send(f"k{size}", bytes(size))
        with pytest.raises(SourceError, match="does not accept the record k5000: too large"):
            writer.flush()
    with TopicWriter(topic) as writer:  # without a flush, a later send reports it
        writer.send("first", bytes(5000))
        with pytest.raises(SourceError, match="does not accept the record first"):
            for _ in range(100):
                time.sleep(0.05)
                writer.send("later", b"x")
    with (
        TopicWriter(topic) as writer,
        pytest.raises(SourceError, match="does not accept the record huge"),
    ):
        writer.send("huge", bytes(producer.MAX_RECORD_BYTES + 1))


@both_clients
@pytest.mark.kafka
def test_deleted_topic_is_not_recreated(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "DELIVERY_SECONDS", 3.0)
    monkeypatch.setattr(producer, "REQUEST_SECONDS", 1.0)
    topic = as_topic(broker.url(broker.topic()))
    with TopicWriter(topic) as writer:
        writer.send("a", b"1")
        writer.flush()
        broker.delete(topic.name)
        writer.send("b", b"2")
        with pytest.raises(Unavailable, match=f"^{topic.url} was deleted during the run"):
            writer.flush()
    assert not broker.has(topic.name)


@pytest.mark.kafka
def test_topic_created_concurrently_is_accepted(broker: Broker) -> None:
    topic = as_topic(broker.url(broker.topic()))
    create_topic(topic, {})


@pytest.mark.kafka
def test_missing_permission_to_create_a_topic(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(*_: Any, **__: Any) -> None:
        raise errors.TopicAuthorizationFailedError({"new"})

    monkeypatch.setattr("kafka.admin.KafkaAdminClient.create_topics", reject)
    with pytest.raises(SourceError) as error:
        TopicWriter(as_topic(broker.url("new-one")))
    message = str(error.value)
    assert message.startswith(
        f"{broker.url('new-one')}: topic new-one does not exist and cannot be"
    )
    assert message.endswith("); create it first")


def test_stop_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stop each wait has a fresh deadline until one wait makes no progress."""
    time_now, stopped = [100.0], [False]
    monkeypatch.setattr(producer.time, "monotonic", lambda: time_now[0])
    deadline = StopDeadline()
    deadline.set_stop(lambda: stopped[0])

    def is_exhausted_after(seconds: float) -> bool:
        time_now[0] += seconds
        return deadline.is_exhausted()

    assert not is_exhausted_after(1000.0)
    stopped[0] = True
    assert not is_exhausted_after(1000.0) and not is_exhausted_after(2.9)
    deadline.on_progress()
    assert not is_exhausted_after(2.9)
    time_now[0] += 60.0  # time spent outside a wait, such as saving a model
    deadline.start_wait()
    assert not is_exhausted_after(2.9) and is_exhausted_after(0.2)
    deadline.start_wait()
    assert is_exhausted_after(0.0)
    deadline.on_progress()
    assert not is_exhausted_after(2.9)


def is_stopped(thread: Path) -> bool:
    """Return whether a thread in /proc is stopped."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"


class FreezableBroker:
    """A broker process that a test can suspend."""

    def __init__(self, state: Path) -> None:
        self.command = [sys.executable, str(ROOT / "scripts/kafka.d/broker.py"), "--state", state]
        result = subprocess.run([*self.command, "up"], check=True, capture_output=True, text=True)
        self.address = result.stdout.split()[-1]
        self.pid = json.loads((state / "broker.json").read_text())["pid"]

    def freeze(self, frozen: bool) -> None:
        os.kill(self.pid, signal.SIGSTOP if frozen else signal.SIGCONT)
        # Until the thread that gets the signal runs, the others may still accept a record.
        while frozen and not all(map(is_stopped, Path(f"/proc/{self.pid}/task").iterdir())):
            time.sleep(0.01)

    def down(self) -> None:
        self.freeze(False)
        subprocess.run([*self.command, "down"], check=True)


@both_clients
@pytest.mark.kafka
@pytest.mark.slow
def test_temporary_outage_is_waited_out(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A longer outage raises an error after the delivery timeout."""
    monkeypatch.setattr(producer, "REQUEST_SECONDS", 1.0)
    monkeypatch.setattr(producer, "DELIVERY_SECONDS", 4.0)
    monkeypatch.setattr(producer, "CLOSE_SECONDS", 0.5)
    freezable = FreezableBroker(tmp_path / "broker")
    client = SimpleNamespace(settings={"bootstrap_servers": freezable.address})
    try:
        topic = as_topic(f"kafka://{freezable.address}/clicks.dlq")
        with TopicWriter(topic) as writer:
            writer.send("a", b"1")
            writer.flush()
            freezable.freeze(True)
            writer.send("b", b"2")
            is_over = threading.Event()

            def end() -> None:
                is_over.set()
                freezable.freeze(False)

            threading.Timer(1.5, end).start()
            writer.flush()
            assert is_over.is_set()
            assert {record.key for record in records_of(client, "clicks.dlq")} == {b"a", b"b"}  # type: ignore[arg-type]
            freezable.freeze(True)
            writer.send("c", b"3")
            with pytest.raises(
                SourceError, match="no broker accepted the record c: is one running?"
            ):
                writer.flush()
    finally:
        freezable.down()
