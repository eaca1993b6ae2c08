"""Kafka topics as sources, read from the broker that scripts/test starts."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kafka
import pytest
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.future import Future

import streaml1
from streaml1.core.rows import BadExample
from streaml1.sources import SourceError, open_source
from streaml1.sources.kafka.records import KafkaBlock
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.kafka.topic_ids import refresh_metadata
from streaml1.sources.kafka.topic_source import Bounds, KafkaSource
from streaml1.sources.source import Lost
from streaml1.training import predictions, progressive
from streaml1.training.checkpoint import CheckpointError, Checkpoints, load_latest
from streaml1.training.checkpoint.manager import CheckpointManager
from tests.broker import Broker
from tests.command import run
from tests.process_kills import run_with_kills

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("no_leaked_threads")]
both_clients = pytest.mark.usefixtures("kafka_client")

ROOT = Path(__file__).parent.parent


def rows(n: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [
        f"{rng.choice((1, -1))} "
        + " ".join(f"{k}:{rng.uniform(-1, 1):.4g}" for k in sorted(rng.sample(range(1, 400), 6)))
        for _ in range(n)
    ]


def as_json(row: str) -> str:
    label, *cells = row.split()
    x = {name: float(value) for name, value in (cell.split(":") for cell in cells)}
    return json.dumps({"x": x, "y": int(label)})


def model() -> Any:
    return streaml1.ElasticNetClassifier(lr=0.1, l1=1e-4, l2=1e-4)


def state(model: Any) -> tuple[Any, ...]:
    return model.weights, model.intercept, model.n_iterations, model.n_features_seen


def trained_on_file(path: Path, lines: list[str], **options: Any) -> Any:
    """Write the lines to a file, learn it and return the model."""
    path.write_text("\n".join(lines) + "\n")
    trained = model()
    progressive(trained, path, **options)
    return trained


def trained_on_topic(url: str, **options: Any) -> Any:
    trained = model()
    progressive(trained, url, until_end=True, **options)
    return trained


def record_places(source: Any) -> list[str]:
    blocks = source.blocks(10, pytest.fail)
    return [block.place(row) for block in blocks for row in range(len(block))]


# Learning a topic


@both_clients
def test_topic_equals_the_file_it_was_sent_from(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(20_000), broker.topic()
    broker.send(topic, lines)
    expected = trained_on_file(tmp_path / "a.svm", lines)
    trained = trained_on_topic(broker.url(topic), every=3000)
    assert state(trained) == state(expected)
    for name, learner in (("a", trained), ("b", expected)):
        learner.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("size", [1, 7, 100])
def test_records_with_several_examples(broker: Broker, tmp_path: Path, size: int) -> None:
    lines, topic = rows(700), broker.topic()
    records = [lines[lo : lo + size] for lo in range(0, len(lines), size)]
    broker.send(topic, ["\n".join(record) + "\n" * (k % 2) for k, record in enumerate(records)])
    assert state(trained_on_topic(broker.url(topic))) == state(
        trained_on_file(tmp_path / "a.svm", lines)
    )
    expected = [
        f"{topic}/0@{offset}" + (f":{line}" if size > 1 else "")
        for offset, record in enumerate(records)
        for line in range(1, len(record) + 1)
    ]
    assert record_places(KafkaSource(broker.url(topic), until_end=True)) == expected


def test_json_and_empty_records(broker: Broker, tmp_path: Path) -> None:
    lines, topic = [as_json(row) for row in rows(200)], broker.topic()
    broker.send(topic, [None, "", *lines[:100], "\n", " ", *lines[100:], None])
    expected = trained_on_file(tmp_path / "a.jsonl", lines)
    assert state(trained_on_topic(broker.url(topic))) == state(expected)
    assert state(trained_on_topic(broker.url(topic), format="jsonl")) == state(expected)
    with pytest.raises(BadExample, match=rf"^{topic}/0@2: "):
        trained_on_topic(broker.url(topic), format="svmlight")


@pytest.mark.parametrize(
    ("codec", "library"), [("lz4", "lz4.frame"), ("snappy", "snappy"), ("zstd", "zstandard")]
)
def test_compressed_records(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, library: str
) -> None:
    broker.require_real()
    lines, topic = rows(200), broker.topic(**{"compression.type": codec})  # the broker compresses
    broker.send(topic, lines)
    with monkeypatch.context() as patched, pytest.raises(SourceError) as error:
        patched.setattr(f"kafka.codec.has_{codec}", lambda: False)
        trained_on_topic(broker.url(topic))
    assert str(error.value) == (
        f"{broker.url(topic)} is compressed with {codec}, which needs a library: pip install "
        "'streaml1[codecs]'"
    )
    pytest.importorskip(library)
    assert state(trained_on_topic(broker.url(topic))) == state(
        trained_on_file(tmp_path / "a.svm", lines)
    )


@both_clients
def test_partitions_are_merged_by_timestamp(broker: Broker, tmp_path: Path) -> None:
    broker.require_real()
    lines, topic = rows(6000), broker.topic(3)
    broker.send(topic, lines[:3000], [0, 1, 2])
    broker.send(topic, lines[3000:], [2, 0], first=1_700_000_003_000)
    expected = trained_on_file(tmp_path / "a.svm", lines)
    for every in (500, 6000):
        assert state(trained_on_topic(broker.url(topic), every=every)) == state(expected)


@both_clients
def test_selected_partitions(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(400), broker.topic(4)
    broker.send(topic, lines, [0, 1, 2, 3])
    selected = [line for k, line in enumerate(lines) if k % 4 in (1, 3)]
    trained = trained_on_topic(broker.url(topic), partitions=[3, 1])
    assert state(trained) == state(trained_on_file(tmp_path / "a.svm", selected))
    with pytest.raises(SourceError, match=f"{topic}.* has no partition 7; it has 0, 1, 2, 3"):
        trained_on_topic(broker.url(topic), partitions=[1, 7])


@both_clients
def test_start_position(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(100), broker.topic()
    broker.send(topic, lines)
    assert trained_on_topic(broker.url(topic), start="latest").n_iterations == 0
    broker.require_real()
    expected = state(trained_on_file(tmp_path / "a.svm", lines[60:]))
    for start in ("1700000000060", "2023-11-14T22:13:20.060Z", "2023-11-14T22:13:20.060"):
        assert state(trained_on_topic(broker.url(topic), start=start)) == expected
    assert trained_on_topic(broker.url(topic), start="2030-01-01").n_iterations == 0


@both_clients
def test_passes(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(50), broker.topic()
    broker.send(topic, lines)
    source = KafkaSource(broker.url(topic), until_end=True)
    trained = model()

    def on_line(line: Any) -> None:
        if line.examples == 50:
            # The second pass must end where the first one did, before these newer records.
            broker.send(topic, lines[:5])

    progressive(trained, source, passes=2, every=50, on_line=on_line)
    assert state(trained) == state(trained_on_file(tmp_path / "a.svm", lines, passes=2))
    with pytest.raises(
        SourceError, match="cannot be read twice: it has no end; add until_end=True"
    ):
        progressive(model(), broker.url(topic), passes=2)


@both_clients
def test_aborted_transactions_are_not_learned(broker: Broker, tmp_path: Path) -> None:
    broker.require_real()
    lines, topic = rows(60), broker.topic()
    producer = kafka.KafkaProducer(**broker.settings, transactional_id=topic)
    producer.init_transactions()
    for lo in range(0, 60, 10):
        producer.begin_transaction()
        for line in lines[lo : lo + 10]:
            producer.send(topic, line.encode(), partition=0)
        producer.flush()
        if lo % 20:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    committed = [line for lo in range(0, 60, 20) for line in lines[lo : lo + 10]]
    assert state(trained_on_topic(broker.url(topic))) == state(
        trained_on_file(tmp_path / "a.svm", committed)
    )


@both_clients
def test_empty_topic(broker: Broker) -> None:
    broker.require_real()
    assert trained_on_topic(broker.url(broker.topic(2))).n_iterations == 0


# Live topics


@both_clients
def test_new_records_are_learned_as_they_arrive(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(130), broker.topic()
    broker.send(topic, lines[:50])
    trained, stop, seen = model(), threading.Event(), []

    class FeedingSource(KafkaSource):
        def blocks(self, size: int, reject: Any) -> Iterator[Any]:
            for block in super().blocks(size, reject):
                yield block
                if not len(block):  # nothing arrived in time
                    continue
                seen.append(block.lines[-1])
                if seen[-1] == 50:
                    broker.send(topic, lines[50:])
                if seen[-1] == 130:
                    stop.set()

    started = time.monotonic()
    stream = FeedingSource(broker.url(topic))
    progressive(trained, stream, stop=stop)
    assert time.monotonic() - started < 40.0
    assert seen[-1] == 130 and len(seen) > 1
    assert state(trained) == state(trained_on_file(tmp_path / "a.svm", lines))


@both_clients
def test_stop_event_ends_the_wait_for_records(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, rows(5))
    stop = threading.Event()
    timer = threading.Timer(1.5, stop.set)
    timer.start()
    started = time.monotonic()
    report = progressive(model(), broker.url(topic), stop=stop)
    assert report.examples == 5 and time.monotonic() - started < 15.0
    timer.join()


@both_clients
def test_limit_ends_the_wait_for_records(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, rows(5))
    assert progressive(model(), broker.url(topic), limit=3).examples == 3


# Deleted and recreated topics


@pytest.mark.slow
@pytest.mark.parametrize("directory", ["nothing", "kept", "kept/{}-0"])
def test_topic_recreated_while_the_process_is_suspended(
    broker: Broker, tmp_path: Path, directory: str
) -> None:
    """Offsets of the old topic refer to other records of the new one."""
    broker.require_real()
    topic = broker.topic()
    broker.send(topic, rows(40))
    options = {
        "nothing": ["--save", "m"],
        "kept": ["--save", "m", "--checkpoint", "kept", "--checkpoint-every", "0.2"],
        "kept/{}-0": ["--per-partition", "--group", topic, "--checkpoint", "kept",
                      "--checkpoint-every", "0.2"],
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", "learn", broker.url(topic), "--every", "20",
         *options[directory]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if " 40 " in line:
                break
        time.sleep(1.0)
        process.send_signal(signal.SIGSTOP)
        broker.delete(topic)
        broker.topic(1, topic)
        broker.send(topic, rows(60))
        process.send_signal(signal.SIGCONT)
        assert process.wait(30) == 65
        assert process.stderr is not None
        message = process.stderr.read().splitlines()[-1]
    finally:
        process.kill()
        process.communicate()
    assert f"{broker.url(topic)} was deleted and recreated: its id is " in message
    assert message.endswith("; start again, with another directory for checkpoints")
    assert not (tmp_path / "m").exists()
    if directory != "nothing":
        checkpoint = load_latest(tmp_path / directory.format(topic))
        assert checkpoint is not None and checkpoint.model.n_iterations == 40


@both_clients
@pytest.mark.parametrize("n", [10, 100])
def test_topic_recreated_between_two_blocks(broker: Broker, n: int) -> None:
    broker.require_real()
    topic = broker.topic()
    broker.send(topic, rows(50))

    class RecreatingSource(KafkaSource):
        def blocks(self, size: int, reject: Any) -> Iterator[Any]:
            for number, block in enumerate(super().blocks(size, reject)):
                yield block
                if number == 0:
                    broker.delete(topic)
                    broker.topic(1, topic)
                    broker.send(topic, rows(n))

    with pytest.raises(Lost, match=f"^{broker.url(topic)} was deleted and recreated: its id is "):
        progressive(model(), RecreatingSource(broker.url(topic)), limit=60)


def test_checkpoint_verifies_the_topic_id_with_a_broker(broker: Broker, tmp_path: Path) -> None:
    """The last block may come from a recreated topic before any metadata response reports it."""
    broker.require_real()
    topic = broker.topic()
    broker.send(topic, rows(20))

    class StaleMetadataSource(KafkaSource):
        def _require_same_topics(self, timeout: float = 0.0) -> None:
            if timeout:
                super()._require_same_topics(timeout)

        def blocks(self, size: int, reject: Any) -> Iterator[Any]:
            for block in super().blocks(size, reject):
                broker.delete(topic)
                broker.topic(1, topic)
                yield block

    store = Checkpoints(tmp_path / "kept", seconds=0.0)
    with pytest.raises(Lost, match="was deleted and recreated"):
        progressive(model(), StaleMetadataSource(broker.url(topic)), limit=20, checkpoint=store)
    saved = load_latest(tmp_path / "kept")
    assert saved is not None and saved.model.n_iterations == 0


@pytest.mark.parametrize("name", ["t", "u"])
def test_missing_topic_metadata_is_requested_again(name: str) -> None:
    """A broker may not know a recreated topic yet; requests for several topics do not fail."""
    cluster = Cluster({"t", name}, name)
    client = SimpleNamespace(_client=SimpleNamespace(cluster=cluster))
    refresh_metadata(client, name, 60.0)
    assert cluster.answers == 3 and cluster.topic_id(name) == "new"
    started = time.monotonic()
    cluster.answers = -(10**9)
    refresh_metadata(client, name, 0.1)
    assert 0.1 <= time.monotonic() - started < 30.0 and cluster.topic_id(name) is None


class Cluster:
    """A fake of kafka-python's cluster metadata: the topic exists from the third response on."""

    closed, metadata_refresh_in_progress, unauthorized_topics = False, False, ()

    def __init__(self, topics: set[str], name: str) -> None:
        self._topics, self.name, self.answers = topics, name, 0

    def request_update(self) -> Future:
        self.answers += 1
        # A request for one missing topic fails; a request for several topics does not.
        if self.answers >= 3 or len(self._topics) > 1:
            return Future().success(self)
        return Future().failure(kafka.errors.UnknownTopicOrPartitionError())

    def topic_id(self, name: str) -> str | None:
        return "old" if name != self.name else "new" if self.answers >= 3 else None

    def partitions_for_topic(self, name: str) -> set[int] | None:
        return None if self.topic_id(name) is None else {0}


def test_metadata_does_not_wait_behind_a_fetch(broker: Broker) -> None:
    """The broker answers requests in order and delays a fetch without records."""
    topic = broker.topic()
    broker.send(topic, rows(5))
    source = Topic(broker.url(topic))
    with closing(source.consumer(lambda: False)) as consumer:
        consumer.assign([kafka.TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        durations = []
        for _ in range(9):
            consumer.poll(100)
            started = time.monotonic()
            refresh_metadata(consumer, topic, 5.0)
            durations.append(time.monotonic() - started)
    assert sorted(durations[2:])[1] < 0.4  # each took 0.45 s behind a delayed fetch


def test_topic_deleted_while_reading(broker: Broker) -> None:
    broker.require_real()
    topic = broker.topic()
    broker.send(topic, rows(5))

    class DeletingSource(KafkaSource):
        def blocks(self, size: int, reject: Any) -> Iterator[Any]:
            for block in super().blocks(size, reject):
                if broker.has(topic):  # the records may arrive in several blocks
                    broker.delete(topic)
                yield block

    with pytest.raises(Lost, match=f"^{broker.url(topic)} was deleted; create it and start again"):
        progressive(model(), DeletingSource(broker.url(topic)))
    assert not broker.has(topic)


# Rejected input


def test_bad_records_report_their_coordinates(broker: Broker, tmp_path: Path) -> None:
    good, topic = rows(30), broker.topic()
    broker.send(topic, [*good[:7], "spam", b"1 2:1\xff", good[7] + "\n1 2:1e60\n", *good[8:]])
    with pytest.raises(BadExample, match=rf"^{topic}/0@7: label: 'spam' is not a number"):
        trained_on_topic(broker.url(topic))
    rejected: list[Any] = []
    source = KafkaSource(broker.url(topic), until_end=True)
    list(source.blocks(10, lambda *args: rejected.append(args)))
    assert [(place, number) for place, _, number, _ in rejected] == [
        (f"{topic}/0@7", 8),
        (f"{topic}/0@8", 9),
    ]
    assert "convert the record to UTF-8" in rejected[1][1]
    trained = model()
    report = progressive(trained, broker.url(topic), until_end=True, bad="skip")
    assert (report.examples, report.rejected) == (30, 3)
    assert state(trained) == state(trained_on_file(tmp_path / "a.svm", good))
    predicted = list(predictions(trained, broker.url(topic), until_end=True, bad="skip"))
    assert [p.line for p in predicted] == list(range(1, 34))
    assert [p.place for p in predicted if p.p is None] == [
        f"{topic}/0@7",
        f"{topic}/0@8",
        f"{topic}/0@9:2",
    ]


@both_clients
def test_deleted_offset_is_an_error(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, rows(5))
    source = KafkaSource(broker.url(topic), until_end=True)
    source._bounds = Bounds({0: 40}, {0: 50})
    with pytest.raises(
        SourceError, match=rf"^{topic}/0@40 no longer exists: the topic has deleted"
    ):
        progressive(model(), source)


def test_missing_topic_is_an_error(broker: Broker) -> None:
    known = broker.topic()
    broker.send(known, ["1 1:1"])
    with pytest.raises(SourceError, match="topic nowhere does not exist; existing topics: "):
        trained_on_topic(broker.url("nowhere"))
    # The first attempt must not create the topic.
    with pytest.raises(SourceError, match="topic nowhere does not exist"):
        trained_on_topic(broker.url("nowhere"))


def test_unreachable_broker_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaml1.sources.kafka.broker_connection.CONNECT_SECONDS", 0.1)
    with pytest.raises(SourceError, match="no broker answers at 127.0.0.1:9: is one running"):
        trained_on_topic("kafka://127.0.0.1:9/clicks")


# Command line


def test_learn_and_predict(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines, topic, queries = rows(300), broker.topic(), broker.topic()
    broker.send(topic, lines)
    expected = trained_on_file(tmp_path / "a.svm", lines)
    out = run("learn", "--lr=0.1", broker.url(topic), "--until-end", "--l1", "1e-4", "--l2", "1e-4",
              "--from", "earliest", "--partitions", "0", "--save", "m").stdout  # fmt: skip
    assert re.search(r"^examples +300\nlog-loss  ", out, re.M)
    assert streaml1.load(tmp_path / "m").weights == expected.weights
    broker.send(queries, ["3:1", "junk junk", "4:1 5:1\n6:2"])
    args = ("predict", "m", broker.url(queries), "--until-end", "--bad", "skip")
    predicted = [json.loads(line) for line in run(*args, "--json").stdout.splitlines()]
    assert [row["place"] for row in predicted] == [
        f"{queries}/0@{pos}" for pos in ("0", "1", "2:1", "2:2")
    ]
    assert predicted[1]["p"] is None
    assert predicted[2]["p"] == expected.predict_proba_one({4: 1.0, 5: 1.0})[True]
    assert [bool(line) for line in run(*args).stdout.splitlines()] == [True, False, True, True]
    run("learn", "a.svm", "--model", "softmax", "--save", "many", "--top", "0")
    predicted_by_softmax = run("predict", "many", *args[2:], "--json").stdout.splitlines()
    assert [json.loads(line)["place"] for line in predicted_by_softmax] == [
        row["place"] for row in predicted
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_run_and_saves(broker: Broker, tmp_path: Path, number: int) -> None:
    lines, topic = rows(40), broker.topic()
    broker.send(topic, lines)
    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", "learn", "--lr=0.1", broker.url(topic), "--l1", "1e-4",
         "--l2",
         "1e-4", "--every", "20", "--save", "m", "--predictions", f"{topic}.p"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("       40"):
                break
        time.sleep(0.3)
        sent = time.monotonic()
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert time.monotonic() - sent < 10.0
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 128 + number, err
    assert err == f"streaml1: interrupted after 40 examples; m, {topic}.p were written\n"
    assert (
        streaml1.load(tmp_path / "m").weights == trained_on_file(tmp_path / "a.svm", lines).weights
    )


def test_bad_record_is_a_one_line_error_and_writes_nothing(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topic = broker.topic()
    broker.send(topic, ["1 1:1", "2 1:1"])
    message = run("learn", broker.url(topic), "--until-end", "--save", "m", code=65).stderr
    assert (
        message.startswith(f"streaml1: {topic}/0@1: invalid label 2") and message.count("\n") == 1
    )
    assert list(tmp_path.iterdir()) == []


def test_block_origins_are_record_coordinates(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, ["1 1:1", "", "1 1:1\n\n0 2:1"])
    source = open_source(broker.url(topic), until_end=True)
    [block] = [candidate for candidate in source.blocks(10, pytest.fail) if len(candidate)]
    assert isinstance(block, KafkaBlock)
    assert [block.origin(row)[1:3] + block.origin(row)[4:7] for row in range(3)] == [
        (0, 0, 0, b"key", b"1 1:1"), (0, 2, 1, b"key", b"1 1:1"), (0, 2, 3, b"key", b"0 2:1")
    ]  # fmt: skip


# Resuming


def join_lines(lines: list[str], size: int) -> list[str]:
    return ["\n".join(lines[lo : lo + size]) for lo in range(0, len(lines), size)]


@both_clients
def test_killed_consumer_resumes(broker: Broker, tmp_path: Path) -> None:
    lines = rows(9_000)
    topic = broker.topic(3)
    broker.send(topic, join_lines(lines, 3), [0, 1, 2] if broker.is_real else [0])
    expected = trained_on_file(tmp_path / "a.svm", lines)
    killed, _ = run_with_kills(
        ["learn", "--lr=0.1", broker.url(topic), "--until-end", "--l1", "1e-4", "--l2", "1e-4",
         "--checkpoint", "kept", "--checkpoint-every", "0.1", "--every", "300", "--save", "m",
         "--group", topic],
        tmp_path,
        (4, 8),
    )  # fmt: skip
    assert killed == 2
    trained = streaml1.load(tmp_path / "m")
    assert trained.n_iterations == 9_000
    assert (trained.weights, trained.intercept) == (expected.weights, expected.intercept)
    consumer = kafka.KafkaConsumer(**broker.settings, group_id=topic, enable_auto_commit=False)
    committed = [
        consumer.committed(kafka.TopicPartition(topic, k), timeout_ms=5000) for k in range(3)
    ]
    consumer.close()
    assert sum(filter(None, committed)) == 3000


@both_clients
def test_run_resumes_in_the_middle_of_a_record(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(100), broker.topic()
    broker.send(topic, join_lines(lines, 7))
    for limit in (3, 7, 8, 30, 30, 55, 100):
        trained = model()
        progressive(
            trained, broker.url(topic), limit=limit, until_end=True, checkpoint=tmp_path / "kept"
        )
        assert state(trained) == state(trained_on_file(tmp_path / "a.svm", lines[:limit]))


@both_clients
def test_next_run_learns_new_records(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(60), broker.topic()
    if not broker.is_real:
        broker.send(topic, [None])
    for lo in (0, 20, 40):
        broker.send(topic, [*lines[lo : lo + 20], "spam"], first=1_700_000_000_000 + lo)
        trained = model()
        report = progressive(
            trained, broker.url(topic), until_end=True, bad="skip", checkpoint=tmp_path / "kept"
        )
    assert state(trained) == state(trained_on_file(tmp_path / "a.svm", lines))
    assert (report.examples, report.rejected) == (60, 3)


def test_latest_means_the_start_of_the_first_run(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(30), broker.topic()
    broker.send(topic, lines[:10])
    url, directory = broker.url(topic), tmp_path / "kept"
    with pytest.raises(SourceError, match="there is no checkpoint to start from"):
        trained_on_topic(url, start="checkpoint", checkpoint=directory)
    assert trained_on_topic(url, start="latest", checkpoint=directory).n_iterations == 0
    broker.send(topic, lines[10:])
    trained = trained_on_topic(url, start="latest", checkpoint=directory)
    assert state(trained) == state(trained_on_file(tmp_path / "a.svm", lines[10:]))
    assert state(trained_on_topic(url, start="checkpoint", checkpoint=directory)) == state(trained)
    with pytest.raises(SourceError, match="cannot be read twice with checkpoints"):
        trained_on_topic(url, passes=2, checkpoint=directory)


def test_checkpoint_beyond_the_end_of_the_log(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic has lost records; new records at these offsets would be skipped as learnt."""
    topic = broker.topic()
    broker.send(topic, rows(50))
    url, directory, save = broker.url(topic), tmp_path / "kept", CheckpointManager._save

    def save_ahead(self: Any, in_background: bool = False) -> None:
        self._progress = self._progress._replace(position={0: (300, 0)})
        save(self, in_background)

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointManager, "_save", save_ahead)
        trained_on_topic(url, checkpoint=directory)
    for until_end in (True, False):
        with pytest.raises(Lost) as error:
            progressive(model(), url, until_end=until_end, limit=5, checkpoint=directory)
        assert str(error.value) == (
            f"{url}: the checkpoint is at offset 300 of partition 0, beyond the end of the log at "
            "50: the topic has lost records, and new ones take their offsets; start again, with "
            "another directory for checkpoints"
        )


def test_checkpoint_of_another_topic_is_rejected(broker: Broker, tmp_path: Path) -> None:
    topic, other_topic = broker.topic(), broker.topic()
    for name in (topic, other_topic):
        broker.send(name, rows(5))
    trained_on_topic(broker.url(topic), checkpoint=tmp_path / "kept")
    with pytest.raises(CheckpointError, match=f"its topic is '{topic}', that of kafka"):
        trained_on_topic(broker.url(other_topic), checkpoint=tmp_path / "kept")
    broker.require_real()
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.delete_topics([topic])
    while topic in admin.list_topics():
        time.sleep(0.1)
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.close()
    with pytest.raises(CheckpointError, match="its topic id is "):
        trained_on_topic(broker.url(topic), checkpoint=tmp_path / "kept")


@both_clients
def test_added_partitions(broker: Broker, tmp_path: Path) -> None:
    broker.require_real()
    lines, topic = rows(30), broker.topic(1)
    broker.send(topic, lines[:10])
    trained_on_topic(broker.url(topic), start="latest", checkpoint=tmp_path / "kept")
    broker.add_partitions(topic, 2)
    broker.send(topic, lines[10:], [0, 1], first=1_700_000_000_010)
    trained = trained_on_topic(broker.url(topic), start="latest", checkpoint=tmp_path / "kept")
    assert state(trained) == state(trained_on_file(tmp_path / "a.svm", lines[10:]))
    with pytest.raises(SourceError, match="the checkpoint has partitions 0, 1; read all of"):
        trained_on_topic(broker.url(topic), partitions=[0], checkpoint=tmp_path / "kept")
