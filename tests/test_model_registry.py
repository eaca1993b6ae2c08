"""Models in a Kafka topic: readers always get a complete model."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import random
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

import streaml1
from streaml1.cli import cli
from streaml1.models import decode
from streaml1.models.serialization import ModelFileError
from streaml1.sources import SourceError
from streaml1.sources.source import Unavailable
from streaml1.training import progressive
from streaml1.training.model_publisher import ModelPublisher
from streaml1.training.model_registry import reader
from streaml1.training.model_registry import record_layout as layout
from streaml1.training.model_registry.publisher import ModelTopic, Publisher
from streaml1.training.model_registry.reader import read_newest
from streaml1.training.model_registry.record_layout import (
    CHUNKS,
    MANIFESTS,
    MAX_CHUNKS,
    Manifest,
)
from tests.broker import Broker
from tests.command import error_of
from tests.topics import records_of


@pytest.fixture(scope="session")
def broker(broker: Broker) -> Broker:
    broker.require_real()
    return broker


@pytest.fixture
def url(broker: Broker) -> str:
    """Return the URL of a topic that does not exist yet."""
    return broker.url(f"m-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make chunks so small that a small model has many."""
    monkeypatch.setattr(layout, "CHUNK_BYTES", 300)


def model(n: int, seed: int = 0) -> Any:
    """Return a model trained on n examples; its size grows with n."""
    trained, rng = streaml1.ElasticNetClassifier(), random.Random(seed)
    for number in range(n):
        trained.learn_one({f"f{rng.random()}": 1.0, f"g{number}": 2.0}, rng.random() < 0.5)
    return trained


@functools.cache
def trained_models() -> list[Any]:
    """Return models of several sizes, made by the first test that wants them."""
    return [model(n, n) for n in (1, 30, 7, 60, 3, 25)]


def state(trained: Any) -> tuple[Any, ...]:
    return trained.weights, trained.intercept, trained.n_iterations


# In memory: a log that may be compacted, and a writer that may be killed, at any record


class Killed(Exception):
    pass


class InMemoryTopic:
    """An in-memory topic: both the log that is read and the producer that writes to it."""

    def __init__(self, rng: random.Random, compact_rate: float = 0.0) -> None:
        self.rng, self.compact_rate = rng, compact_rate
        self.logs: list[list[Any]] = [[], []]
        self.ends = [0, 0]
        self.remaining = 10**9  # number of records that may still be sent
        self.during: Any = None

    def send(self, key: str, value: Any, headers: Any, partition: int) -> Any:
        if self.remaining == 0:
            raise Killed
        self.remaining -= 1
        offset = self.ends[partition]
        self.ends[partition] += 1
        record = SimpleNamespace(key=key, value=value, headers=headers, offset=offset)
        self.logs[partition].append(record)
        if self.rng.random() < self.compact_rate:
            self.compact(partition)
        return SimpleNamespace(value=SimpleNamespace(offset=offset))

    def flush(self) -> None:
        pass

    def compact(self, partition: int) -> None:
        """Keep the last record of each key in a random prefix; drop some tombstones."""
        log = self.logs[partition]
        active = log[self.rng.randint(0, len(log)) :]  # the active segment
        closed = log[: len(log) - len(active)]
        last_offset = {record.key: record.offset for record in closed}
        retained = [record for record in closed if last_offset[record.key] == record.offset]
        retained = [
            record for record in retained if record.value is not None or self.rng.random() < 0.5
        ]
        self.logs[partition] = retained + active

    def records(self, partition: int, lo: int = 0, hi: int | None = None) -> Iterator[Any]:
        offset = lo
        while True:
            if self.during is not None:
                self.during()
            end = self.ends[partition] if hi is None else hi
            pending = [record for record in self.logs[partition] if offset <= record.offset < end]
            if not pending:
                return
            yield pending[0]
            offset = pending[0].offset + 1


def decode_checked(published: Any) -> Any:
    """Decode the model and check it against its manifest."""
    assert published is not None
    manifest, data = published
    decoded = decode(data, "a topic")
    assert decoded.n_iterations == manifest.examples
    return decoded


@given(st.integers(0, 10**6), st.integers(1, 12))
@pytest.mark.usefixtures("small_chunks")
def test_reader_gets_the_last_complete_model(seed: int, n: int) -> None:
    """Writers are killed after any record, successors continue, the log is compacted anytime."""
    rng = random.Random(seed)
    memory, expected = InMemoryTopic(rng, rng.choice((0.0, 0.2, 0.9))), None
    publisher = Publisher(memory, "t", memory)
    for _ in range(n):
        candidate = rng.choice(trained_models())
        memory.remaining = rng.choice((10**9, rng.randint(0, 12)))
        try:
            publisher.publish(candidate, memory)
            expected = candidate
        except Killed:
            memory.remaining = 10**9
            published = read_newest(memory, "t")
            if published is not None and published[0].writer == publisher._writer_id:
                # It may have been killed after it sent the manifest but before the acknowledgement.
                expected = next(
                    trained
                    for trained in trained_models()
                    if trained.n_iterations == published[0].examples
                )
            publisher = Publisher(memory, "t", memory)
        memory.remaining = 10**9
        if expected is None:
            assert read_newest(memory, "t") is None
        else:
            assert state(decode_checked(read_newest(memory, "t"))) == state(expected)


@given(st.integers(0, 10**6))
@pytest.mark.usefixtures("small_chunks")
def test_reader_overtaken_by_a_publisher_gets_a_complete_model(seed: int) -> None:
    """Publications, some of them incomplete, and compactions happen during a read."""
    rng = random.Random(seed)
    memory = InMemoryTopic(rng, 0.5)
    publisher = Publisher(memory, "t", memory)
    publisher.publish(trained_models()[0], memory)
    min_epoch, budget = 1, 6

    def during() -> None:
        nonlocal budget, publisher
        if budget and rng.random() < 0.2:
            budget -= 1
            hook, memory.during = memory.during, None
            memory.remaining = rng.choice((10**9, rng.randint(0, 12)))
            try:
                publisher.publish(rng.choice(trained_models()), memory)
            except Killed:
                memory.remaining = 10**9
                publisher = Publisher(memory, "t", memory)
            memory.remaining = 10**9
            memory.during = hook

    for _ in range(4):
        memory.during = during
        published = read_newest(memory, "t")
        assert published is not None
        decode_checked(published)
        assert published[0].epoch >= min_epoch
        min_epoch = published[0].epoch
        memory.during = None


@given(st.integers(0, 10**6))
@pytest.mark.usefixtures("small_chunks")
def test_older_publisher_is_fenced(seed: int) -> None:
    """The older publisher is fenced; its late records never mix into what a reader gets."""
    rng = random.Random(seed)
    memory = InMemoryTopic(rng, 0.3)
    old = Publisher(memory, "t", memory)
    old.publish(trained_models()[1], memory)
    memory.remaining = rng.randint(0, 12)  # it freezes here
    with pytest.raises(Killed):
        while True:
            old.publish(rng.choice(trained_models()), memory)
    memory.remaining = 10**9
    new = Publisher(memory, "t", memory)
    # The in-flight records of the old publisher arrive now, its manifest as well.
    slot = 1 - old._slot
    data = trained_models()[3]._encode()
    for number, chunk in enumerate(layout.split_chunks(data)):
        if rng.random() < 0.5:
            headers = [("id", b"old"), ("chunk", b"%d" % number)]
            memory.send(layout.chunk_key(slot, number), chunk, headers, CHUNKS)
    if rng.random() < 0.5:
        stale_manifest = Manifest(
            1, old._writer_id, 99, slot, "old", 3, 0, 10**6, len(data), "", "", 1, "", "", 1
        )
        memory.send(layout.manifest_key(slot), stale_manifest.encode(), None, MANIFESTS)
    with contextlib.suppress(ModelFileError):
        decode_checked(read_newest(memory, "t"))
    new.publish(trained_models()[2], memory)
    assert state(decode_checked(read_newest(memory, "t"))) == state(trained_models()[2])
    with pytest.raises(SourceError, match="^t was taken over by process .+; only one run may"):
        old.publish(trained_models()[0], memory)


@pytest.mark.usefixtures("small_chunks")
def test_chunks_of_a_larger_model_are_deleted() -> None:
    memory = InMemoryTopic(random.Random(0))
    publisher = Publisher(memory, "t", memory)
    for trained in (
        trained_models()[3],
        trained_models()[3],
        trained_models()[0],
        trained_models()[0],
    ):
        publisher.publish(trained, memory)
    memory.rng = random.Random(1)
    last_value = {record.key: record.value for record in memory.logs[CHUNKS]}
    live_keys = [key for key, value in last_value.items() if value is not None]
    n_chunks = len(list(layout.split_chunks(trained_models()[0]._encode())))
    assert len(live_keys) == 2 * n_chunks < len(last_value)


def test_invalid_manifests_are_ignored() -> None:
    manifest = Manifest(1, "w", 1, 0, "i", 1, 0, 0, 1, "s", "m", 1, "t", "h", 1)
    assert Manifest.decode(manifest.encode()) == manifest
    fields = json.loads(manifest.encode())
    for invalid in (
        None, b"", b"oops", b"[]", b"3", b"\xff", json.dumps(fields | {"format": 2}).encode(),
        json.dumps(fields | {"chunks": "1"}).encode(),
        json.dumps({"format": 1, "epoch": 1}).encode(),
    ):  # fmt: skip
        assert Manifest.decode(invalid) is None


def crafted_topic(**fields: Any) -> InMemoryTopic:
    """Return a topic whose only manifest has other values of these fields."""
    memory = InMemoryTopic(random.Random(0))
    Publisher(memory, "t", memory).publish(trained_models()[0], memory)
    [record] = memory.logs[MANIFESTS]
    record.value = json.dumps(json.loads(record.value) | fields).encode()
    return memory


def test_publisher_after_the_last_epoch_is_rejected() -> None:
    """Readers would ignore all that it publishes."""
    for epoch in (2**63 - 2, 2**63):
        memory = crafted_topic(epoch=epoch)
        Publisher(memory, "t", memory).publish(trained_models()[1], memory)
        assert state(decode_checked(read_newest(memory, "t"))) == state(trained_models()[1])
    memory = crafted_topic(epoch=2**63 - 1)
    with pytest.raises(SourceError, match="^t holds a model of epoch 9223372036854775807, and re"):
        Publisher(memory, "t", memory)


def test_unprintable_host_names_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers would ignore the manifest."""
    monkeypatch.setattr("socket.gethostname", lambda: "a\x1b[31m")
    memory = crafted_topic()
    published = read_newest(memory, "t")
    assert published is not None and published.manifest.host == "?"


# With a broker


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


@pytest.mark.kafka
@pytest.mark.usefixtures("small_chunks")
def test_publisher_killed_at_every_chunk(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "CHUNK_BYTES", 800)
    with ModelTopic(url) as topic:
        topic.publish(trained_models()[1])
    n = len(list(layout.split_chunks(trained_models()[3]._encode())))
    assert n > 3
    for n_sent in range(n + 1):
        with ModelTopic(url) as topic:
            outbox, sent = topic._writer, []
            send = outbox.send

            def send_or_die(
                *args: Any, send: Any = send, n_sent: int = n_sent, sent: Any = sent
            ) -> Any:
                if len(sent) == n_sent:
                    raise Killed
                sent.append(args)
                return send(*args)

            outbox.send = send_or_die  # type: ignore[method-assign]
            with pytest.raises(Killed):
                topic.publish(trained_models()[3])
            outbox.flush()
        assert state(streaml1.load(url)) == state(trained_models()[1])
    with ModelTopic(url) as topic:
        topic.publish(trained_models()[3])
    assert state(streaml1.load(url)) == state(trained_models()[3])


@pytest.mark.kafka
def test_damaged_model_is_skipped(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with ModelTopic(url) as topic:
        send = topic._writer.send

        def send_damaged(key: str, value: Any, *rest: Any) -> Any:
            intact = value is None or key in ("model-0", "model-1")
            return send(key, value if intact else value[:-1] + b"?", *rest)

        topic._writer.send = send_damaged  # type: ignore[method-assign]
        manifest = topic.publish(trained_models()[0])
        with pytest.raises(ModelFileError) as caught:
            streaml1.load(url)
        assert str(caught.value) == (
            f"{url} holds no complete model: the model of {manifest.time} is incomplete: its "
            "SHA-256 differs from the published one"
        )
        topic._writer.send = send  # type: ignore[method-assign]
        topic.publish(trained_models()[1])
        topic._writer.send = send_damaged  # type: ignore[method-assign]
        manifest = topic.publish(trained_models()[2])
    with caplog.at_level(logging.WARNING):
        assert state(streaml1.load(url)) == state(trained_models()[1])
    warnings = [record.getMessage() for record in caplog.records if record.name == "streaml1"]
    assert warnings == [
        f"{url}: the model of {manifest.time} is incomplete: its SHA-256 differs from the "
        "published one; using the one before"
    ]
    with ModelTopic(url) as topic:  # a new publisher does not overwrite the complete model
        assert topic._publisher._slot == 1


@pytest.mark.kafka
@pytest.mark.usefixtures("small_chunks")
def test_reading_during_publication(url: str) -> None:
    stop, errors = threading.Event(), []

    def publish() -> None:
        try:
            with ModelTopic(url) as topic:
                ready.set()
                for number in range(1, 10**6):
                    if stop.is_set():
                        return
                    published = model(1 + number % 13, number)
                    published.intercept_lr = number * 1e-9
                    topic.publish(published)
        except Exception as error:
            errors.append(error)

    ready = threading.Event()
    thread = threading.Thread(target=publish)
    thread.start()
    assert ready.wait(20)
    seen: list[int] = []
    try:
        limit = time.monotonic() + 5
        while time.monotonic() < limit and len(seen) < 30:
            try:
                loaded = streaml1.load(url)
            except ModelFileError as error:
                assert not seen, error
                continue
            number = round(loaded.intercept_lr * 1e9)
            assert state(loaded) == state(model(1 + number % 13, number))
            seen.append(number)
    finally:
        stop.set()
        thread.join()
    assert not errors
    assert seen == sorted(seen)
    assert len(set(seen)) > 3


@pytest.mark.kafka
@pytest.mark.slow
def test_reading_after_compaction(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker compacts all but the active segment, so about two of eight models remain."""
    monkeypatch.setattr(layout, "CHUNK_BYTES", 250_000)
    name = broker.topic(
        2, **{"cleanup.policy": "compact", "segment.bytes": str(2**20), "segment.ms": "1000",
              "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1",
              "delete.retention.ms": "0"},
    )  # fmt: skip
    url, trained = broker.url(name), model(20)
    compact_often(broker)
    rng = random.Random(1)
    trained.learn_many([{f"{rng.random()}": rng.random()} for _ in range(40_000)], [True] * 40_000)
    with ModelTopic(url) as topic:
        n_chunks = topic.publish(trained).chunks
        for _ in range(8):
            trained.learn_one({f"{rng.random()}": 1.0}, True)
            topic.publish(trained)
        topic._writer.flush = lambda: (_ for _ in ()).throw(Killed())  # type: ignore
        with pytest.raises(Killed):
            topic.publish(trained)
        del topic._writer.flush  # type: ignore[attr-defined]
        topic._writer.flush()
    assert n_chunks >= 3
    limit = time.monotonic() + 60
    while len(retained := records_of(broker, name)) > 4 * n_chunks + 8 and time.monotonic() < limit:
        assert state(streaml1.load(url)) == state(trained)
        time.sleep(0.5)
    assert len(retained) < 9 * n_chunks
    assert state(streaml1.load(url)) == state(trained)


def compact_often(broker: Broker) -> None:
    """Make the broker check for compaction every 200 ms instead of every 15 s."""
    admin = KafkaAdminClient(**broker.settings)
    try:
        node = ConfigResource(ConfigResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "200"})
        admin.alter_configs([node])
    finally:
        admin.close()


@pytest.mark.kafka
def test_command_line(broker: Broker, url: str, tmp_path: Path) -> None:
    path, saved, name = tmp_path / "a.svm", str(tmp_path / "m"), url.rpartition("/")[2]
    path.write_text("".join(f"{k % 2} {k % 7}:1\n" for k in range(1, 500)))
    result = run("learn", str(path), "--publish", url, "--publish-every", "0.001", "--every", "100",
               "--save", saved)  # fmt: skip
    assert result.exit_code == 0, result.output
    manifests = [record for record in records_of(broker, name) if record.partition == MANIFESTS]
    assert [json.loads(record.value)["examples"] for record in manifests] == [
        100,
        200,
        300,
        400,
        499,
    ]
    assert run("show", url).stdout == run("show", saved).stdout
    assert run("predict", url, str(path)).stdout == run("predict", saved, str(path)).stdout
    result = run("learn", str(path), "--load", url, "--save", saved)
    assert result.exit_code == 0, result.output
    assert streaml1.load(saved).n_iterations == 2 * 499
    result = run("learn", str(path), "--publish", "models")
    assert result.stderr == (
        "streaml1: --publish models names no broker: use kafka://HOST:PORT/models\n"
    )
    result = run("learn", str(path), "--publish-every", "3")
    assert result.stderr == "streaml1: --publish-every requires --publish\n"


@pytest.mark.kafka
def test_last_examples_before_an_idle_period_are_published(broker: Broker, url: str) -> None:
    """They are published although no further example arrives."""
    topic, stop = broker.topic(), threading.Event()
    broker.send(topic, ["1 1:1"] * 10)
    with ModelPublisher(url, seconds=0.5) as publishing:
        learner = threading.Thread(
            target=progressive,
            args=(streaml1.ElasticNetClassifier(), broker.url(topic)),
            kwargs={"observers": [publishing], "stop": stop},
        )
        learner.start()
        try:
            limit = time.monotonic() + 20
            while time.monotonic() < limit:
                with contextlib.suppress(ModelFileError):
                    if streaml1.load(url).n_iterations == 10:
                        break
                time.sleep(0.1)
            assert streaml1.load(url).n_iterations == 10
        finally:
            stop.set()
            learner.join()
    name = url.rpartition("/")[2]
    assert sum(record.partition == MANIFESTS for record in records_of(broker, name)) == 1


@pytest.mark.kafka
def test_publisher_as_observer(url: str) -> None:
    trained = streaml1.ElasticNetClassifier()
    with ModelPublisher(url, seconds=3600) as publishing:
        progressive(trained, [({"a": 1.0}, True)] * 10, observers=[publishing])
    assert state(streaml1.load(url)) == state(trained)


@pytest.mark.kafka
@pytest.mark.parametrize("recreated", [False, True])
def test_topic_deleted_during_the_run(broker: Broker, url: str, recreated: bool) -> None:
    """The publisher must not let the broker auto-create it, which would drop models in a week."""
    name = url.rpartition("/")[2]
    with ModelTopic(url) as models:
        models.publish(trained_models()[0])
        broker.delete(name)
        if recreated:
            broker.topic(2, name)
        with pytest.raises(Unavailable, match=f"^{url} was deleted during the run; start"):
            models.publish(trained_models()[1])
    assert broker.has(name) == recreated


@pytest.mark.kafka
def test_topics_without_a_model_are_rejected(broker: Broker, url: str) -> None:
    with pytest.raises(SourceError, match=f"{url}: topic m-"):
        streaml1.load(url)
    not_compacted = broker.url(broker.topic(2))
    with pytest.raises(SourceError) as caught:
        ModelTopic(not_compacted)
    assert str(caught.value) == (
        f"{not_compacted} would not retain models: its cleanup.policy must be compact, got delete; "
        "change it, or use another topic"
    )
    one_partition = broker.url(broker.topic(1, **{"cleanup.policy": "compact"}))
    with pytest.raises(SourceError, match="has one partition, but models need two; create the"):
        ModelTopic(one_partition)
    for topic_url in (not_compacted, one_partition):
        with pytest.raises(
            ModelFileError, match="holds no model yet; publish one with ModelPublisher"
        ):
            streaml1.load(topic_url)
    # A server that was started before the learner is restarted.
    empty = broker.url(broker.topic(2, **{"cleanup.policy": "compact"}))
    for topic_url, remedy in (
        (empty, "publish one with learn --publish"),
        (one_partition, "start learn --mixed"),
    ):
        served = error_of("serve", topic_url, code=75)
        assert served == f"{topic_url} holds no model yet; {remedy}"
    assert "does not exist" in run("show", url).stderr
    with pytest.raises(SourceError, match="is not a topic URL; use kafka://host:port/topic"):
        streaml1.load("kafka:models")


CRAFTED_FIELDS: list[dict[str, Any]] = [
    {"slot": -1},
    {"slot": 2},
    {"slot": 10**30},
    {"slot": True},
    {"chunks": 10**10},
    {"chunks": 0},
    {"first": 5, "last": 4},
    {"first": -1},
    {"size": 10**30},
    {"time": "now\nERROR: \x1b[31mred"},
    {"host": "h" * 100_000},
    {"host": "\u202eevil"},
    {"model": 5},
]


@pytest.mark.parametrize("fields", CRAFTED_FIELDS)
def test_crafted_manifests_are_ignored(fields: dict[str, Any]) -> None:
    """Whoever may write to the topic may write any record."""
    manifest = Manifest(
        1, "writer", 1, 0, "id", 1, 0, 0, 10, "sha", "FTRLClassifier", 5, "2026-01-01", "host", 7
    )
    assert Manifest.decode(manifest.encode()) == manifest
    assert Manifest.decode(manifest._replace(**fields).encode()) is None


def test_nested_manifest_is_ignored() -> None:
    assert Manifest.decode(b"[" * 100_000) is None


@pytest.mark.parametrize("text", [b"one", b"-1", b"\xd9\xa1", b"9" * 5000, b"", None])
def test_chunk_without_a_number_is_ignored(text: bytes | None) -> None:
    record: Any = SimpleNamespace(headers=[("chunk", text)])
    assert reader._chunk_number(record) == MAX_CHUNKS
