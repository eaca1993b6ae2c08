"""Models in a topic: whatever happens to a publication, a reader has a whole one."""

from __future__ import annotations

import contextlib
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
from hypothesis import given as drawn
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
from streaml1.training.model_registry import record_layout as layout
from streaml1.training.model_registry.publisher import ModelTopic, Publisher
from streaml1.training.model_registry.reader import read_newest
from streaml1.training.model_registry.record_layout import CHUNKS, MANIFESTS, Manifest
from tests.broker import Broker
from tests.topics import records_of


@pytest.fixture(scope="session")
def broker(broker: Broker) -> Broker:
    broker.require_real()
    return broker


@pytest.fixture
def url(broker: Broker) -> str:
    """A topic that is not there yet."""
    return broker.url(f"m-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of which a small model has many."""
    monkeypatch.setattr(layout, "CHUNK_BYTES", 300)


def model(n: int, seed: int = 0) -> Any:
    """A model that has learnt n examples: the more, the larger."""
    one, rng = streaml1.ElasticNetClassifier(), random.Random(seed)
    for number in range(n):
        one.learn_one({f"f{rng.random()}": 1.0, f"g{number}": 2.0}, rng.random() < 0.5)
    return one


MODELS = [model(n, n) for n in (1, 30, 7, 60, 3, 25)]


def state(one: Any) -> tuple[Any, ...]:
    return one.weights, one.intercept, one.n_iterations


# In memory: a log that is compacted at any moment, and writers that are cut off at any


class Killed(Exception):
    pass


class Memory:
    """The records of a topic, and what writes to it: a publisher's log and outbox in one."""

    def __init__(self, rng: random.Random, haste: float = 0.0) -> None:
        self.rng, self.haste = rng, haste
        self.logs: list[list[Any]] = [[], []]
        self.ends = [0, 0]
        self.left = 10**9  # how many more records may be sent
        self.during: Any = None

    def send(self, key: str, value: Any, headers: Any, partition: int) -> Any:
        if self.left == 0:
            raise Killed
        self.left -= 1
        offset = self.ends[partition]
        self.ends[partition] += 1
        record = SimpleNamespace(key=key, value=value, headers=headers, offset=offset)
        self.logs[partition].append(record)
        if self.rng.random() < self.haste:
            self.compact(partition)
        return SimpleNamespace(value=SimpleNamespace(offset=offset))

    def flush(self) -> None:
        pass

    def compact(self, partition: int) -> None:
        """Keep the last record of each key; of some no more than the log's end asks for."""
        log = self.logs[partition]
        dirty = log[self.rng.randint(0, len(log)) :]  # the active segment
        clean = log[: len(log) - len(dirty)]
        last = {record.key: record.offset for record in clean}
        kept = [one for one in clean if last[one.key] == one.offset]
        kept = [one for one in kept if one.value is not None or self.rng.random() < 0.5]
        self.logs[partition] = kept + dirty

    def records(self, partition: int, lo: int = 0, hi: int | None = None) -> Iterator[Any]:
        offset = lo
        while True:
            if self.during is not None:
                self.during()
            end = self.ends[partition] if hi is None else hi
            later = [one for one in self.logs[partition] if offset <= one.offset < end]
            if not later:
                return
            yield later[0]
            offset = later[0].offset + 1


def content(found: Any) -> Any:
    """The model, held to what its manifest says."""
    assert found is not None
    manifest, data = found
    one = decode(data, "a topic")
    assert one.n_iterations == manifest.examples
    return one


@drawn(st.integers(0, 10**6), st.integers(1, 12))
@pytest.mark.usefixtures("small")
def test_a_reader_has_the_last_that_was_whole(seed: int, n: int) -> None:
    """Writers are cut off after any record, others go on, and the log is compacted at any time."""
    rng = random.Random(seed)
    memory, last = Memory(rng, rng.choice((0.0, 0.2, 0.9))), None
    publisher = Publisher(memory, "t", memory)
    for _ in range(n):
        one = rng.choice(MODELS)
        memory.left = rng.choice((10**9, rng.randint(0, 12)))
        try:
            publisher.publish(one, memory)
            last = one
        except Killed:
            memory.left = 10**9
            found = read_newest(memory, "t")
            if found is not None and found[0].writer == publisher._writer_id:
                # It may have been cut off after the manifest, before it was told so.
                last = next(m for m in MODELS if m.n_iterations == found[0].examples)
            publisher = Publisher(memory, "t", memory)
        memory.left = 10**9
        if last is None:
            assert read_newest(memory, "t") is None
        else:
            assert state(content(read_newest(memory, "t"))) == state(last)


@drawn(st.integers(0, 10**6))
@pytest.mark.usefixtures("small")
def test_a_reader_that_is_overtaken_has_a_whole_one(seed: int) -> None:
    """While it reads, publications come, some of them cut off, and compaction."""
    rng = random.Random(seed)
    memory = Memory(rng, 0.5)
    publisher = Publisher(memory, "t", memory)
    publisher.publish(MODELS[0], memory)
    least, budget = 1, 6

    def during() -> None:
        nonlocal budget, publisher
        if budget and rng.random() < 0.2:
            budget -= 1
            hook, memory.during = memory.during, None
            memory.left = rng.choice((10**9, rng.randint(0, 12)))
            try:
                publisher.publish(rng.choice(MODELS), memory)
            except Killed:
                memory.left = 10**9
                publisher = Publisher(memory, "t", memory)
            memory.left = 10**9
            memory.during = hook

    for _ in range(4):
        memory.during = during
        found = read_newest(memory, "t")
        assert found is not None
        content(found)
        assert found[0].epoch >= least
        least = found[0].epoch
        memory.during = None


@drawn(st.integers(0, 10**6))
@pytest.mark.usefixtures("small")
def test_two_that_publish_do_no_harm_for_long(seed: int) -> None:
    """The one that began first stops; whatever it has written, what is read is one publication."""
    rng = random.Random(seed)
    memory = Memory(rng, 0.3)
    old = Publisher(memory, "t", memory)
    old.publish(MODELS[1], memory)
    memory.left = rng.randint(0, 12)  # where it is frozen
    with pytest.raises(Killed):
        while True:
            old.publish(rng.choice(MODELS), memory)
    memory.left = 10**9
    new = Publisher(memory, "t", memory)
    # What the old one still had on its way comes now, its manifest as well.
    slot = 1 - old._slot
    data = MODELS[3]._encode()
    for number, chunk in enumerate(layout.split_chunks(data)):
        if rng.random() < 0.5:
            headers = [("id", b"old"), ("chunk", b"%d" % number)]
            memory.send(layout.chunk_key(slot, number), chunk, headers, CHUNKS)
    if rng.random() < 0.5:
        torn = Manifest(
            1, old._writer_id, 99, slot, "old", 3, 0, 10**6, len(data), "", "", 1, "", "", 1
        )
        memory.send(layout.manifest_key(slot), torn.encode(), None, MANIFESTS)
    with contextlib.suppress(ModelFileError):
        content(read_newest(memory, "t"))
    new.publish(MODELS[2], memory)
    assert state(content(read_newest(memory, "t"))) == state(MODELS[2])
    with pytest.raises(SourceError, match="^t was taken over by process .+; only one run may"):
        old.publish(MODELS[0], memory)


@pytest.mark.usefixtures("small")
def test_what_a_larger_one_has_left_is_deleted() -> None:
    memory = Memory(random.Random(0))
    publisher = Publisher(memory, "t", memory)
    for one in (MODELS[3], MODELS[3], MODELS[0], MODELS[0]):
        publisher.publish(one, memory)
    memory.rng = random.Random(1)
    last = {record.key: record.value for record in memory.logs[CHUNKS]}
    there = [key for key, value in last.items() if value is not None]
    chunks = len(list(layout.split_chunks(MODELS[0]._encode())))
    assert len(there) == 2 * chunks < len(last)


def test_what_is_no_manifest_is_passed_over() -> None:
    whole = Manifest(1, "w", 1, 0, "i", 1, 0, 0, 1, "s", "m", 1, "t", "h", 1)
    assert Manifest.decode(whole.encode()) == whole
    told = json.loads(whole.encode())
    for wrong in (
        None, b"", b"oops", b"[]", b"3", b"\xff", json.dumps(told | {"format": 2}).encode(),
        json.dumps(told | {"chunks": "1"}).encode(),
        json.dumps({"format": 1, "epoch": 1}).encode(),
    ):  # fmt: skip
        assert Manifest.decode(wrong) is None


# On a broker


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


@pytest.mark.kafka
@pytest.mark.usefixtures("small")
def test_killed_at_every_chunk(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "CHUNK_BYTES", 800)
    with ModelTopic(url) as topic:
        topic.publish(MODELS[1])
    n = len(list(layout.split_chunks(MODELS[3]._encode())))
    assert n > 3
    for left in range(n + 1):
        with ModelTopic(url) as topic:
            outbox, sent = topic._writer, []
            send = outbox.send

            def cut(*args: Any, send: Any = send, left: int = left, sent: Any = sent) -> Any:
                if len(sent) == left:
                    raise Killed
                sent.append(args)
                return send(*args)

            outbox.send = cut  # type: ignore[method-assign]
            with pytest.raises(Killed):
                topic.publish(MODELS[3])
            outbox.flush()
        assert state(streaml1.load(url)) == state(MODELS[1])
    with ModelTopic(url) as topic:
        topic.publish(MODELS[3])
    assert state(streaml1.load(url)) == state(MODELS[3])


@pytest.mark.kafka
def test_a_damaged_one_is_passed_over(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with ModelTopic(url) as topic:
        send = topic._writer.send

        def damaged(key: str, value: Any, *rest: Any) -> Any:
            whole = value is None or key in ("model-0", "model-1")
            return send(key, value if whole else value[:-1] + b"?", *rest)

        topic._writer.send = damaged  # type: ignore[method-assign]
        manifest = topic.publish(MODELS[0])
        with pytest.raises(ModelFileError) as caught:
            streaml1.load(url)
        assert str(caught.value) == (
            f"{url} holds no complete model: the model of {manifest.time} is incomplete: its "
            "SHA-256 differs from the published one"
        )
        topic._writer.send = send  # type: ignore[method-assign]
        topic.publish(MODELS[1])
        topic._writer.send = damaged  # type: ignore[method-assign]
        manifest = topic.publish(MODELS[2])
    with caplog.at_level(logging.WARNING):
        assert state(streaml1.load(url)) == state(MODELS[1])
    said = [one.getMessage() for one in caplog.records if one.name == "streaml1"]
    assert said == [
        f"{url}: the model of {manifest.time} is incomplete: its SHA-256 differs from the "
        "published one; using the one before"
    ]
    with ModelTopic(url) as topic:  # which does not overwrite the one that is whole
        assert topic._publisher._slot == 1


@pytest.mark.kafka
@pytest.mark.usefixtures("small")
def test_reading_while_another_publishes(url: str) -> None:
    stop, errors = threading.Event(), []

    def publish() -> None:
        try:
            with ModelTopic(url) as topic:
                ready.set()
                for number in range(1, 10**6):
                    if stop.is_set():
                        return
                    one = model(1 + number % 13, number)
                    one.intercept_lr = number * 1e-9
                    topic.publish(one)
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
                one = streaml1.load(url)
            except ModelFileError as error:
                assert not seen, error
                continue
            number = round(one.intercept_lr * 1e9)
            assert state(one) == state(model(1 + number % 13, number))
            seen.append(number)
    finally:
        stop.set()
        thread.join()
    assert not errors
    assert seen == sorted(seen)
    assert len(set(seen)) > 3


@pytest.mark.kafka
@pytest.mark.slow
def test_after_compaction(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker compacts what there is but for the last segment: two of eight, or so, are left."""
    monkeypatch.setattr(layout, "CHUNK_BYTES", 250_000)
    name = broker.topic(
        2, **{"cleanup.policy": "compact", "segment.bytes": str(2**20), "segment.ms": "1000",
              "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1",
              "delete.retention.ms": "0"},
    )  # fmt: skip
    url, one = broker.url(name), model(20)
    hurry(broker)
    rng = random.Random(1)
    one.learn_many([{f"{rng.random()}": rng.random()} for _ in range(40_000)], [True] * 40_000)
    with ModelTopic(url) as topic:
        n = topic.publish(one).chunks
        for _ in range(8):
            one.learn_one({f"{rng.random()}": 1.0}, True)
            topic.publish(one)
        topic._writer.flush = lambda: (_ for _ in ()).throw(Killed())  # type: ignore
        with pytest.raises(Killed):
            topic.publish(one)
        del topic._writer.flush  # type: ignore[attr-defined]
        topic._writer.flush()
    assert n >= 3
    limit = time.monotonic() + 60
    while len(left := records_of(broker, name)) > 4 * n + 8 and time.monotonic() < limit:
        assert state(streaml1.load(url)) == state(one)
        time.sleep(0.5)
    assert len(left) < 9 * n
    assert state(streaml1.load(url)) == state(one)


def hurry(broker: Broker) -> None:
    """Have the broker look for what is to be compacted every 200 ms, not every 15 s."""
    admin = KafkaAdminClient(**broker.settings)
    try:
        node = ConfigResource(ConfigResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "200"})
        admin.alter_configs([node])
    finally:
        admin.close()


@pytest.mark.kafka
def test_on_the_command_line(broker: Broker, url: str, tmp_path: Path) -> None:
    path, saved, name = tmp_path / "a.svm", str(tmp_path / "m"), url.rpartition("/")[2]
    path.write_text("".join(f"{k % 2} {k % 7}:1\n" for k in range(1, 500)))
    done = run("learn", str(path), "--publish", url, "--publish-every", "0.001", "--every", "100",
               "--save", saved)  # fmt: skip
    assert done.exit_code == 0, done.output
    manifests = [one for one in records_of(broker, name) if one.partition == MANIFESTS]
    assert [json.loads(one.value)["examples"] for one in manifests] == [100, 200, 300, 400, 499]
    assert run("show", url).stdout == run("show", saved).stdout
    assert run("predict", url, str(path)).stdout == run("predict", saved, str(path)).stdout
    done = run("learn", str(path), "--load", url, "--save", saved)
    assert done.exit_code == 0, done.output
    assert streaml1.load(saved).n_iterations == 2 * 499
    done = run("learn", str(path), "--publish", "models")
    assert done.stderr == (
        "streaml1: --publish models names no broker: use kafka://HOST:PORT/models\n"
    )
    done = run("learn", str(path), "--publish-every", "3")
    assert done.stderr == "streaml1: --publish-every requires --publish\n"


@pytest.mark.kafka
def test_the_last_examples_before_a_silence(broker: Broker, url: str) -> None:
    """They are published though no other comes."""
    topic, stop = broker.topic(), threading.Event()
    broker.send(topic, ["1 1:1"] * 10)
    with ModelPublisher(url, seconds=0.5) as publishing:
        done = threading.Thread(
            target=progressive,
            args=(streaml1.ElasticNetClassifier(), broker.url(topic)),
            kwargs={"outs": [publishing], "stop": stop},
        )
        done.start()
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
            done.join()
    name = url.rpartition("/")[2]
    assert sum(one.partition == MANIFESTS for one in records_of(broker, name)) == 1


@pytest.mark.kafka
def test_in_python(url: str) -> None:
    one = streaml1.ElasticNetClassifier()
    with ModelPublisher(url, seconds=3600) as publishing:
        progressive(one, [({"a": 1.0}, True)] * 10, observers=[publishing])
    assert state(streaml1.load(url)) == state(one)


@pytest.mark.kafka
@pytest.mark.parametrize("anew", [False, True])
def test_a_topic_that_is_deleted_meanwhile(broker: Broker, url: str, anew: bool) -> None:
    """It would come back as brokers make topics, and its records would be deleted after a week."""
    name = url.rpartition("/")[2]
    with ModelTopic(url) as models:
        models.publish(MODELS[0])
        broker.delete(name)
        if anew:
            broker.topic(2, name)
        with pytest.raises(Unavailable, match=f"^{url} was deleted during the run; start"):
            models.publish(MODELS[1])
    assert broker.has(name) == anew


@pytest.mark.kafka
def test_topics_that_hold_no_model(broker: Broker, url: str) -> None:
    with pytest.raises(SourceError, match=f"{url}: topic m-"):
        streaml1.load(url)
    plain = broker.url(broker.topic(2))
    with pytest.raises(SourceError) as caught:
        ModelTopic(plain)
    assert str(caught.value) == (
        f"{plain} would not retain models: its cleanup.policy must be compact, got delete; change "
        "it, or use another topic"
    )
    narrow = broker.url(broker.topic(1, **{"cleanup.policy": "compact"}))
    with pytest.raises(SourceError, match="has one partition, but models need two; create the"):
        ModelTopic(narrow)
    for place in (plain, narrow):
        with pytest.raises(ModelFileError, match="holds no model yet; publish one with learn"):
            streaml1.load(place)
    assert "does not exist" in run("show", url).stderr
    with pytest.raises(SourceError, match="is not a topic URL; use kafka://host:port/topic"):
        streaml1.load("kafka:models")
