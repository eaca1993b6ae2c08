"""Topics as sources, read from the broker that scripts/test starts."""

from __future__ import annotations

import json
import os
import random
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
from click.testing import CliRunner, Result
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.future import Future

import streaml1
from streaml1.cli import cli
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
from tests.killing import killed_and_resumed

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("no_thread_is_left")]

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
    return streaml1.ElasticNetClassifier(l1=1e-4, l2=1e-4)


def state(one: Any) -> tuple[Any, ...]:
    return one.weights, one.intercept, one.n_iterations, one.n_features_seen


def taught(path: Path, lines: list[str], **options: Any) -> Any:
    """A model that has learnt a file of these lines."""
    path.write_text("\n".join(lines) + "\n")
    one = model()
    progressive(one, path, **options)
    return one


def learnt(url: str, **options: Any) -> Any:
    one = model()
    progressive(one, url, until_end=True, **options)
    return one


def places(source: Any) -> list[str]:
    blocks = source.blocks(10, pytest.fail)
    return [block.place(row) for block in blocks for row in range(len(block))]


# What is learnt


def test_a_topic_is_the_file_it_came_from(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(20_000), broker.topic()
    broker.send(topic, lines)
    expected = taught(tmp_path / "a.svm", lines)
    one = learnt(broker.url(topic), every=3000)
    assert state(one) == state(expected)
    for name, learner in (("a", one), ("b", expected)):
        learner.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("size", [1, 7, 100])
def test_records_of_several_examples(broker: Broker, tmp_path: Path, size: int) -> None:
    lines, topic = rows(700), broker.topic()
    parts = [lines[lo : lo + size] for lo in range(0, len(lines), size)]
    broker.send(topic, ["\n".join(part) + "\n" * (k % 2) for k, part in enumerate(parts)])
    assert state(learnt(broker.url(topic))) == state(taught(tmp_path / "a.svm", lines))
    expected = [
        f"{topic}/0@{number}" + (f":{line}" if size > 1 else "")
        for number, part in enumerate(parts)
        for line in range(1, len(part) + 1)
    ]
    assert places(KafkaSource(broker.url(topic), until_end=True)) == expected


def test_json_and_records_without_an_example(broker: Broker, tmp_path: Path) -> None:
    lines, topic = [as_json(row) for row in rows(200)], broker.topic()
    broker.send(topic, [None, "", *lines[:100], "\n", " ", *lines[100:], None])
    expected = taught(tmp_path / "a.jsonl", lines)
    assert state(learnt(broker.url(topic))) == state(expected)
    assert state(learnt(broker.url(topic), format="jsonl")) == state(expected)
    with pytest.raises(BadExample, match=rf"^{topic}/0@2: "):
        learnt(broker.url(topic), format="svmlight")


@pytest.mark.parametrize(
    ("codec", "library"), [("lz4", "lz4.frame"), ("snappy", "snappy"), ("zstd", "zstandard")]
)
def test_packed_records(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, library: str
) -> None:
    broker.require_real()
    lines, topic = rows(200), broker.topic(**{"compression.type": codec})  # by the broker itself
    broker.send(topic, lines)
    with monkeypatch.context() as patched, pytest.raises(SourceError) as caught:
        patched.setattr(f"kafka.codec.has_{codec}", lambda: False)
        learnt(broker.url(topic))
    assert str(caught.value) == (
        f"{broker.url(topic)} is compressed with {codec}, which needs a library: pip install "
        "'streaml1[codecs]'"
    )
    pytest.importorskip(library)
    assert state(learnt(broker.url(topic))) == state(taught(tmp_path / "a.svm", lines))


def test_partitions_are_merged_by_time(broker: Broker, tmp_path: Path) -> None:
    broker.require_real()
    lines, topic = rows(6000), broker.topic(3)
    broker.send(topic, lines[:3000], [0, 1, 2])
    broker.send(topic, lines[3000:], [2, 0], first=1_700_000_003_000)
    expected = taught(tmp_path / "a.svm", lines)
    for every in (500, 6000):
        assert state(learnt(broker.url(topic), every=every)) == state(expected)


def test_some_partitions(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(400), broker.topic(4)
    broker.send(topic, lines, [0, 1, 2, 3])
    mine = [line for k, line in enumerate(lines) if k % 4 in (1, 3)]
    one = learnt(broker.url(topic), partitions=[3, 1])
    assert state(one) == state(taught(tmp_path / "a.svm", mine))
    with pytest.raises(SourceError, match=f"{topic}.* has no partition 7; it has 0, 1, 2, 3"):
        learnt(broker.url(topic), partitions=[1, 7])


def test_where_to_start(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(100), broker.topic()
    broker.send(topic, lines)
    assert learnt(broker.url(topic), start="latest").n_iterations == 0
    broker.require_real()
    rest = state(taught(tmp_path / "a.svm", lines[60:]))
    for start in ("1700000000060", "2023-11-14T22:13:20.060Z", "2023-11-14T22:13:20.060"):
        assert state(learnt(broker.url(topic), start=start)) == rest
    assert learnt(broker.url(topic), start="2030-01-01").n_iterations == 0


def test_passes(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(50), broker.topic()
    broker.send(topic, lines)
    source = KafkaSource(broker.url(topic), until_end=True)
    one = model()

    def on_line(line: Any) -> None:
        if line.examples == 50:
            broker.send(topic, lines[:5])  # of a later day: the second pass is as long as the first

    progressive(one, source, passes=2, every=50, on_line=on_line)
    assert state(one) == state(taught(tmp_path / "a.svm", lines, passes=2))
    with pytest.raises(SourceError, match="cannot be read twice: it has no end; add --until-end"):
        progressive(model(), broker.url(topic), passes=2)


def test_what_was_taken_back_is_not_learnt(broker: Broker, tmp_path: Path) -> None:
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
    kept = [line for lo in range(0, 60, 20) for line in lines[lo : lo + 10]]
    assert state(learnt(broker.url(topic))) == state(taught(tmp_path / "a.svm", kept))


def test_an_empty_topic(broker: Broker) -> None:
    broker.require_real()
    assert learnt(broker.url(broker.topic(2))).n_iterations == 0


# As it comes


def test_records_are_learnt_as_they_come(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(130), broker.topic()
    broker.send(topic, lines[:50])
    one, stop, seen = model(), threading.Event(), []

    class Feeding(KafkaSource):
        def blocks(self, size: int, refuse: Any) -> Iterator[Any]:
            for block in super().blocks(size, refuse):
                yield block
                seen.append(block.lines[-1])
                if seen[-1] == 50:
                    broker.send(topic, lines[50:])
                if seen[-1] == 130:
                    stop.set()

    started = time.monotonic()
    stream = Feeding(broker.url(topic))
    progressive(one, stream, stop=stop)
    assert time.monotonic() - started < 40.0
    assert seen[-1] == 130 and len(seen) > 1
    assert state(one) == state(taught(tmp_path / "a.svm", lines))


def test_a_stop_ends_the_wait_for_records(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, rows(5))
    stop = threading.Event()
    timer = threading.Timer(1.5, stop.set)
    timer.start()
    started = time.monotonic()
    report = progressive(model(), broker.url(topic), stop=stop)
    assert report.examples == 5 and time.monotonic() - started < 15.0
    timer.join()


def test_a_limit_ends_the_wait_for_records(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, rows(5))
    assert progressive(model(), broker.url(topic), limit=3).examples == 3


# Topics that are deleted, and made anew


@pytest.mark.slow
@pytest.mark.parametrize("keeps", ["nothing", "kept", "kept/{}-0"])
def test_a_topic_that_is_made_anew_while_the_process_is_stopped(
    broker: Broker, tmp_path: Path, keeps: str
) -> None:
    """Offsets of the old topic mean other records of the new one."""
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
         *options[keeps]],
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
        said = process.stderr.read().splitlines()[-1]
    finally:
        process.kill()
        process.communicate()
    assert f"{broker.url(topic)} was deleted and recreated: its id is " in said
    assert said.endswith("; start again, with another directory for checkpoints")
    assert not (tmp_path / "m").exists()
    if keeps != "nothing":
        found = load_latest(tmp_path / keeps.format(topic))
        assert found is not None and found.model.n_iterations == 40


@pytest.mark.parametrize("n", [10, 100])
def test_a_topic_that_is_made_anew_between_two_blocks(broker: Broker, n: int) -> None:
    broker.require_real()
    topic = broker.topic()
    broker.send(topic, rows(50))

    class Slow(KafkaSource):
        def blocks(self, size: int, refuse: Any) -> Iterator[Any]:
            for number, block in enumerate(super().blocks(size, refuse)):
                yield block
                if number == 0:
                    broker.delete(topic)
                    broker.topic(1, topic)
                    broker.send(topic, rows(n))

    with pytest.raises(Lost, match=f"^{broker.url(topic)} was deleted and recreated: its id is "):
        progressive(model(), Slow(broker.url(topic)), limit=60)


def test_before_a_checkpoint_a_broker_is_asked(broker: Broker, tmp_path: Path) -> None:
    """What has come last may be of another topic, though no answer has told of it yet."""
    broker.require_real()
    topic = broker.topic()
    broker.send(topic, rows(20))

    class Deaf(KafkaSource):
        def _require_same_topics(self, timeout: float = 0.0) -> None:
            if timeout:
                super()._require_same_topics(timeout)

        def blocks(self, size: int, refuse: Any) -> Iterator[Any]:
            for block in super().blocks(size, refuse):
                broker.delete(topic)
                broker.topic(1, topic)
                yield block

    store = Checkpoints(tmp_path / "kept", seconds=0.0)
    with pytest.raises(Lost, match="was deleted and recreated"):
        progressive(model(), Deaf(broker.url(topic)), limit=20, checkpoint=store)
    found = load_latest(tmp_path / "kept")
    assert found is not None and found.model.n_iterations == 0


@pytest.mark.parametrize("name", ["t", "u"])
def test_that_a_topic_is_missing_is_asked_again(name: str) -> None:
    """Its broker may not know yet of what was made anew; `u` is not the only one asked about."""
    cluster = Cluster({"t", name}, name)
    client = SimpleNamespace(_client=SimpleNamespace(cluster=cluster))
    refresh_metadata(client, name, 60.0)
    assert cluster.answers == 3 and cluster.topic_id(name) == "new"
    begun = time.monotonic()
    cluster.answers = -(10**9)
    refresh_metadata(client, name, 0.1)
    assert 0.1 <= time.monotonic() - begun < 30.0 and cluster.topic_id(name) is None


class Cluster:
    """What kafka-python knows of the brokers: a topic is there from the third answer on."""

    closed, metadata_refresh_in_progress, unauthorized_topics = False, False, ()

    def __init__(self, topics: set[str], name: str) -> None:
        self._topics, self.name, self.answers = topics, name, 0

    def request_update(self) -> Future:
        self.answers += 1
        # One topic that is asked about fails, of several none does.
        if self.answers >= 3 or len(self._topics) > 1:
            return Future().success(self)
        return Future().failure(kafka.errors.UnknownTopicOrPartitionError())

    def topic_id(self, name: str) -> str | None:
        return "old" if name != self.name else "new" if self.answers >= 3 else None

    def partitions_for_topic(self, name: str) -> set[int] | None:
        return None if self.topic_id(name) is None else {0}


def test_a_broker_tells_at_once_though_a_reader_waits_for_records(broker: Broker) -> None:
    """It answers in turn, and what is to come it holds back for a while."""
    topic = broker.topic()
    broker.send(topic, rows(5))
    source = Topic(broker.url(topic))
    with closing(source.consumer(lambda: False)) as consumer:
        consumer.assign([kafka.TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        took = []
        for _ in range(9):
            consumer.poll(100)
            begun = time.monotonic()
            refresh_metadata(consumer, topic, 5.0)
            took.append(time.monotonic() - begun)
    assert sorted(took[2:])[1] < 0.4  # all of them took 0.45 when answers were held back


def test_a_topic_that_is_deleted_while_it_is_read(broker: Broker) -> None:
    broker.require_real()
    topic = broker.topic()
    broker.send(topic, rows(5))

    class Deleting(KafkaSource):
        def blocks(self, size: int, refuse: Any) -> Iterator[Any]:
            for block in super().blocks(size, refuse):
                if broker.has(topic):  # its records may come as several blocks
                    broker.delete(topic)
                yield block

    with pytest.raises(Lost, match=f"^{broker.url(topic)} was deleted; create it and start again"):
        progressive(model(), Deleting(broker.url(topic)))
    assert not broker.has(topic)


# What is refused


def test_a_bad_record_has_its_coordinates(broker: Broker, tmp_path: Path) -> None:
    good, topic = rows(30), broker.topic()
    broker.send(topic, [*good[:7], "spam", b"1 2:1\xff", good[7] + "\n1 2:1e60\n", *good[8:]])
    with pytest.raises(BadExample, match=rf"^{topic}/0@7: label: 'spam' is not a number"):
        learnt(broker.url(topic))
    refused: list[Any] = []
    source = KafkaSource(broker.url(topic), until_end=True)
    list(source.blocks(10, lambda *told: refused.append(told)))
    assert [(place, number) for place, _, number, _ in refused] == [
        (f"{topic}/0@7", 8),
        (f"{topic}/0@8", 9),
    ]
    assert "convert the record to UTF-8" in refused[1][1]
    one = model()
    report = progressive(one, broker.url(topic), until_end=True, bad="skip")
    assert (report.examples, report.rejected) == (30, 3)
    assert state(one) == state(taught(tmp_path / "a.svm", good))
    told = list(predictions(one, broker.url(topic), until_end=True, bad="skip"))
    assert [p.line for p in told] == list(range(1, 34))
    assert [p.place for p in told if p.p is None] == [
        f"{topic}/0@7",
        f"{topic}/0@8",
        f"{topic}/0@9:2",
    ]


def test_an_offset_that_is_gone(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, rows(5))
    source = KafkaSource(broker.url(topic), until_end=True)
    source._bounds = Bounds({0: 40}, {0: 50})
    with pytest.raises(
        SourceError, match=rf"^{topic}/0@40 no longer exists: the topic has deleted"
    ):
        progressive(model(), source)


def test_no_topic(broker: Broker) -> None:
    known = broker.topic()
    broker.send(known, ["1 1:1"])
    with pytest.raises(SourceError, match="topic nowhere does not exist; existing topics: "):
        learnt(broker.url("nowhere"))
    with pytest.raises(SourceError, match="topic nowhere does not exist"):  # nor has it been made
        learnt(broker.url("nowhere"))


def test_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaml1.sources.kafka.topic.CONNECT_SECONDS", 0.1)
    with pytest.raises(SourceError, match="no broker answers at 127.0.0.1:9: is one running"):
        learnt("kafka://127.0.0.1:9/clicks")


# On the command line


def run(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, list(args))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def test_learn_and_predict(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines, topic, questions = rows(300), broker.topic(), broker.topic()
    broker.send(topic, lines)
    expected = taught(tmp_path / "a.svm", lines)
    out = run("learn", "--lr=0.1", broker.url(topic), "--until-end", "--l1", "1e-4", "--l2", "1e-4",
              "--from", "earliest", "--partitions", "0", "--save", "m").stdout  # fmt: skip
    assert "300 examples: log-loss" in out
    assert streaml1.load(tmp_path / "m").weights == expected.weights
    broker.send(questions, ["3:1", "junk junk", "4:1 5:1\n6:2"])
    args = ("predict", "m", broker.url(questions), "--until-end", "--bad", "skip")
    told = [json.loads(line) for line in run(*args, "--json").stdout.splitlines()]
    assert [one["place"] for one in told] == [
        f"{questions}/0@{at}" for at in ("0", "1", "2:1", "2:2")
    ]
    assert told[1]["p"] is None
    assert told[2]["p"] == expected.predict_proba_one({4: 1.0, 5: 1.0})[True]
    assert [bool(line) for line in run(*args).stdout.splitlines()] == [True, False, True, True]
    run("learn", "a.svm", "--model", "softmax", "--save", "many", "--top", "0")
    many = run("predict", "many", *args[2:], "--json").stdout.splitlines()
    assert [json.loads(line)["place"] for line in many] == [one["place"] for one in told]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_and_saves(broker: Broker, tmp_path: Path, number: int) -> None:
    lines, topic = rows(40), broker.topic()
    broker.send(topic, lines)
    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", "learn", "--lr=0.1", broker.url(topic), "--l1", "1e-4",
         "--l2",
         "1e-4", "--every", "20", "--save", "m"],
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
    assert err == "streaml1: interrupted after 40 examples; m was written\n"
    assert streaml1.load(tmp_path / "m").weights == taught(tmp_path / "a.svm", lines).weights


def test_a_bad_record_is_one_sentence_and_nothing_is_written(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topic = broker.topic()
    broker.send(topic, ["1 1:1", "2 1:1"])
    told = run("learn", broker.url(topic), "--until-end", "--save", "m", code=65).stderr
    assert told.startswith(f"streaml1: {topic}/0@1: invalid label 2") and told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_block_knows_its_coordinates(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, ["1 1:1", "", "1 1:1\n\n0 2:1"])
    source = open_source(broker.url(topic), until_end=True)
    [block] = [one for one in source.blocks(10, pytest.fail) if len(one)]
    assert isinstance(block, KafkaBlock)
    assert [block.origin(row)[1:3] + block.origin(row)[4:] for row in range(3)] == [
        (0, 0, 0, b"key", b"1 1:1"), (0, 2, 1, b"key", b"1 1:1"), (0, 2, 3, b"key", b"0 2:1")
    ]  # fmt: skip


# Going on


def pack(lines: list[str], size: int) -> list[str]:
    return ["\n".join(lines[lo : lo + size]) for lo in range(0, len(lines), size)]


def test_a_killed_consumer_goes_on(broker: Broker, tmp_path: Path) -> None:
    lines = rows(9_000)
    topic = broker.topic(3)
    broker.send(topic, pack(lines, 3), [0, 1, 2] if broker.is_real else [0])
    expected = taught(tmp_path / "a.svm", lines)
    killed, _ = killed_and_resumed(
        ["learn", "--lr=0.1", broker.url(topic), "--until-end", "--l1", "1e-4", "--l2", "1e-4",
         "--checkpoint", "kept", "--checkpoint-every", "0.1", "--every", "300", "--save", "m",
         "--group", topic],
        tmp_path,
        (4, 8),
    )  # fmt: skip
    assert killed == 2
    one = streaml1.load(tmp_path / "m")
    assert one.n_iterations == 9_000
    assert (one.weights, one.intercept) == (expected.weights, expected.intercept)
    consumer = kafka.KafkaConsumer(**broker.settings, group_id=topic, enable_auto_commit=False)
    told = [consumer.committed(kafka.TopicPartition(topic, k), timeout_ms=5000) for k in range(3)]
    consumer.close()
    assert sum(filter(None, told)) == 3000


def test_a_run_goes_on_in_the_middle_of_a_record(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(100), broker.topic()
    broker.send(topic, pack(lines, 7))
    for limit in (3, 7, 8, 30, 30, 55, 100):
        one = model()
        progressive(
            one, broker.url(topic), limit=limit, until_end=True, checkpoint=tmp_path / "kept"
        )
        assert state(one) == state(taught(tmp_path / "a.svm", lines[:limit]))


def test_what_comes_later_is_learnt_by_the_next_run(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(60), broker.topic()
    if not broker.is_real:
        broker.send(topic, [None])
    for lo in (0, 20, 40):
        broker.send(topic, [*lines[lo : lo + 20], "spam"], first=1_700_000_000_000 + lo)
        one = model()
        report = progressive(
            one, broker.url(topic), until_end=True, bad="skip", checkpoint=tmp_path / "kept"
        )
    assert state(one) == state(taught(tmp_path / "a.svm", lines))
    assert (report.examples, report.rejected) == (60, 3)


def test_the_latest_is_where_the_first_run_began(broker: Broker, tmp_path: Path) -> None:
    lines, topic = rows(30), broker.topic()
    broker.send(topic, lines[:10])
    url, kept = broker.url(topic), tmp_path / "kept"
    with pytest.raises(SourceError, match="there is no checkpoint to start from"):
        learnt(url, start="checkpoint", checkpoint=kept)
    assert learnt(url, start="latest", checkpoint=kept).n_iterations == 0
    broker.send(topic, lines[10:])
    one = learnt(url, start="latest", checkpoint=kept)
    assert state(one) == state(taught(tmp_path / "a.svm", lines[10:]))
    assert state(learnt(url, start="checkpoint", checkpoint=kept)) == state(one)
    with pytest.raises(SourceError, match="cannot be read twice with checkpoints"):
        learnt(url, passes=2, checkpoint=kept)


def test_a_checkpoint_beyond_the_end(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that has lost records: those that come would be taken for what was learnt."""
    topic = broker.topic()
    broker.send(topic, rows(50))
    url, kept, save = broker.url(topic), tmp_path / "kept", CheckpointManager._save

    def ahead(self: Any, in_background: bool = False) -> None:
        self._progress = self._progress._replace(position={0: (300, 0)})
        save(self, in_background)

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointManager, "_save", ahead)
        learnt(url, checkpoint=kept)
    for until_end in (True, False):
        with pytest.raises(Lost) as caught:
            progressive(model(), url, until_end=until_end, limit=5, checkpoint=kept)
        assert str(caught.value) == (
            f"{url}: the checkpoint is at offset 300 of partition 0, beyond the end of the log at "
            "50: the topic has lost records, and new ones take their offsets; start again, with "
            "another directory for checkpoints"
        )


def test_another_topic(broker: Broker, tmp_path: Path) -> None:
    topic, other = broker.topic(), broker.topic()
    for one in (topic, other):
        broker.send(one, rows(5))
    learnt(broker.url(topic), checkpoint=tmp_path / "kept")
    with pytest.raises(CheckpointError, match=f"its topic is '{topic}', that of kafka"):
        learnt(broker.url(other), checkpoint=tmp_path / "kept")
    broker.require_real()
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.delete_topics([topic])
    while topic in admin.list_topics():
        time.sleep(0.1)
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.close()
    with pytest.raises(CheckpointError, match="its topic id is "):
        learnt(broker.url(topic), checkpoint=tmp_path / "kept")


def test_partitions_that_are_added(broker: Broker, tmp_path: Path) -> None:
    broker.require_real()
    lines, topic = rows(30), broker.topic(1)
    broker.send(topic, lines[:10])
    learnt(broker.url(topic), start="latest", checkpoint=tmp_path / "kept")
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_partitions({topic: 2})
    admin.close()
    while len(broker.producer.partitions_for(topic)) < 2:
        broker.producer._metadata.request_update()
        time.sleep(0.1)
    broker.send(topic, lines[10:], [0, 1], first=1_700_000_000_010)
    one = learnt(broker.url(topic), start="latest", checkpoint=tmp_path / "kept")
    assert state(one) == state(taught(tmp_path / "a.svm", lines[10:]))
    with pytest.raises(SourceError, match="the checkpoint has partitions 0, 1; read all of"):
        learnt(broker.url(topic), partitions=[0], checkpoint=tmp_path / "kept")
