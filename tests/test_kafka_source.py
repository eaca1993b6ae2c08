"""Topics as sources: what needs no broker."""

from __future__ import annotations

import errno
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition

from streaml1 import ElasticNetClassifier
from streaml1.cli.signals import Interruptible, Signals
from streaml1.sources import SOURCES, SourceError, open_source
from streaml1.sources.kafka.partition_merge import MAX_BUFFERED, merge_partitions
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.kafka.topic_source import Bounds, KafkaSource, parse_start
from streaml1.training import progressive
from streaml1.training.checkpoint import Checkpoints, load_latest
from streaml1.training.consumer_group import Group
from streaml1.training.report import Report


class Record(NamedTuple):
    partition: int
    offset: int
    timestamp: int
    value: bytes = b""


class Records:
    """A consumer of records in memory: it hands over a few of some partitions at a time."""

    def __init__(self, records: dict[int, list[Record]], most: int = 50, seed: int = 0) -> None:
        self.records = records
        self.most = most
        self.random = random.Random(seed)
        self.at: dict[TopicPartition, int] = {}
        self.assigned: list[list[int]] = []

    def assign(self, parts: list[TopicPartition]) -> None:
        self.at = dict.fromkeys(parts, -1)
        self.assigned.append([part.partition for part in parts])

    def seek(self, part: TopicPartition, offset: int) -> None:
        self.at[part] = offset

    def position(self, part: TopicPartition) -> int:
        left = [one for one in self.records[part.partition] if one.offset >= self.at[part]]
        if not left:  # past what is no record
            self.at[part] = max(self.at[part], end(self.records[part.partition]))
        return self.at[part]

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        polled = {}
        for part, at in self.at.items():
            n = self.random.randint(0, self.most)
            left = [one for one in self.records[part.partition] if one.offset >= at][:n]
            if left:
                polled[part] = left
                self.at[part] = left[-1].offset + 1
        return polled


def end(records: list[Record]) -> int:
    return records[-1].offset + 2 if records else 1  # each ends with a gap


def topic_of(times: list[list[int]], seed: int) -> dict[int, list[Record]]:
    """Partitions with these timestamps, and gaps between their offsets."""
    rng = random.Random(seed)
    records: dict[int, list[Record]] = {}
    for partition, stamps in enumerate(times):
        offset, records[partition] = 0, []
        for stamp in stamps:
            offset += rng.choice((1, 1, 3))
            records[partition].append(Record(partition, offset, stamp))
    return records


def slowly(records: dict[int, list[Record]]) -> list[Record]:
    """The merge as it is meant: again and again the earliest of the first records."""
    queues = {one: list(rest) for one, rest in records.items()}
    merged = []
    while any(queues.values()):
        first = min((rest[0].timestamp, one) for one, rest in queues.items() if rest)[1]
        merged.append(queues[first].pop(0))
    return merged


def read(consumer: Any, starts: dict[int, int], ends: Any, stopped: Any) -> list[Record]:
    ends = None if ends is None else of_topic(ends)
    return [
        one for some in merge_partitions(consumer, of_topic(starts), ends, stopped) for one in some
    ]


def of_topic(offsets: dict[int, int]) -> dict[TopicPartition, int]:
    return {TopicPartition("t", one): offset for one, offset in offsets.items()}


@given(
    st.lists(st.lists(st.integers(0, 30), max_size=40), min_size=1, max_size=4),
    st.integers(1, 20),
    st.integers(0, 1000),
)
def test_the_order_depends_on_nothing_but_the_topic(
    times: list[list[int]], most: int, seed: int
) -> None:
    records = topic_of(times, seed)
    ends = {one: end(rest) for one, rest in records.items()}
    consumer = Records(records, most, seed)
    assert read(consumer, dict.fromkeys(records, 0), ends, lambda: False) == slowly(records)


@given(st.integers(0, 1000), st.lists(st.integers(0, 60), min_size=3, max_size=3))
def test_it_goes_on_in_the_same_order(seed: int, starts: list[int]) -> None:
    rng = random.Random(seed)
    records = topic_of([[rng.randrange(50) for _ in range(30)] for _ in range(3)], seed)
    ends = {one: end(rest) for one, rest in records.items()}
    late = {one: [r for r in rest if r.offset >= starts[one]] for one, rest in records.items()}
    consumer = Records(records, 7, seed)
    assert read(consumer, dict(enumerate(starts)), ends, lambda: False) == slowly(late)


def test_a_partition_that_is_ahead_waits() -> None:
    n = 4 * MAX_BUFFERED
    records = topic_of([list(range(n)), list(range(n, 2 * n)), [5]], 1)
    ends = {one: end(rest) for one, rest in records.items()}
    consumer = Records(records, 2000)
    held = []
    seen = {0: 0, 1: 0, 2: 0}
    at = {0: 0, 1: 0, 2: 0}
    starts = of_topic(dict.fromkeys(records, 0))
    for some in merge_partitions(consumer, starts, of_topic(ends), lambda: False):
        for one in some:
            seen[one.partition] += 1
            at |= {part.partition: offset for part, offset in consumer.at.items()}
            if one.partition == 0 and one.offset % 500 == 0:
                fetched = sum(r.offset < at[1] for r in records[1])
                held.append(fetched - seen[1])
    assert seen == {0: n, 1: n, 2: 1}
    assert MAX_BUFFERED < max(held) <= MAX_BUFFERED + 4000
    assert len(consumer.assigned) < 30, "what is fetched is seldom changed"


def test_without_an_end_everything_comes_at_once() -> None:
    records = topic_of([[5] * 300, [3] * 200, []], 2)
    stop = threading.Event()
    got: list[Record] = []
    starts = of_topic(dict.fromkeys(records, 0))
    for some in merge_partitions(Records(records), starts, None, stop.is_set):
        got += some
        if not some and len(got) == 500:
            stop.set()
    for partition in records:
        assert [one for one in got if one.partition == partition] == records[partition]


@pytest.mark.parametrize(
    "spec",
    ["kafka:", "kafka://", "kafka://h:1", "kafka://h:1/", "kafka:///t", "kafka:h/t",
     "kafka://h:x/t", "kafka://h:1/t/u"],
)  # fmt: skip
def test_what_is_no_topic(spec: str) -> None:
    with pytest.raises(SourceError, match="is not a topic URL; use kafka://host:port/topic"):
        open_source(spec)


def test_urls() -> None:
    assert Topic("kafka://a,b:1/t").brokers == ["a:9092", "b:1"]
    one = Topic("kafka://a:1/my.topic-1_x?api_version=2.3")
    assert (one.name, one.settings) == ("my.topic-1_x", {"api_version": (2, 3)})
    assert "kafka" in SOURCES


@pytest.mark.parametrize(
    ("spec", "options", "said"),
    [
        ("kafka://h/t?acks=all", {}, "kafka://h/t: unknown setting acks=...; the only one is"),
        ("kafka://h/t?api_version=x", {}, "unknown setting api_version=..."),
        (
            "kafka://h/t",
            {"format": "csv"},
            "the format of a topic must be jsonl, svmlight or vw, got 'csv'",
        ),
        ("kafka://h/t", {"target": "y"}, "column options (such as 'y') apply to CSV files only"),
        ("kafka://h/t", {"start": "yesterday"}, "start must be earliest, latest, checkpoint, or"),
        ("river:Phishing", {"until_end": True}, "apply to kafka://... only, not to river:Phishing"),
        ("a.svm", {"start": "latest"}, "apply to kafka://... only, not to a.svm"),
        ("-", {"partitions": [0]}, "apply to kafka://... only, not to -"),
    ],
)
def test_options_that_do_not_fit(spec: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceError) as told:
        open_source(spec, **options)
    assert said in str(told.value) and "\n" not in str(told.value)


def test_times() -> None:
    assert parse_start(None) == "earliest" and parse_start("latest") == "latest"
    assert parse_start("1700000000123") == 1_700_000_000_123
    assert parse_start("2023-11-14T22:13:20.123Z") == 1_700_000_000_123
    assert parse_start("2023-11-14T23:13:20+01:00") == 1_700_000_000_000
    assert parse_start("2023-11-14") == 1_699_920_000_000
    assert parse_start("1960-01-01") == 0


def test_a_time_that_kafka_does_not_know() -> None:
    assert parse_start("9223372036854775807") == 2**63 - 1
    for start in ("9223372036854775808", "9" * 20, "9" * 5000):
        with pytest.raises(SourceError, match="start must be between 0 and 9223372"):
            KafkaSource("kafka://h/t", start=start)


def test_errors_are_told_whole() -> None:
    from kafka import errors
    from kafka.structs import OffsetAndMetadata

    topic, part = Topic("kafka://h/t"), TopicPartition("t", 3)
    long = "no replica of it has been\nheard of by any broker " + "for an hour " * 20
    said = str(topic.read_error(errors.UnknownError(long)))
    assert said.endswith("for an hour") and "been heard of" in said and "..." not in said
    cut = errors.LogTruncationError({part: OffsetAndMetadata(50, "", 2)})
    assert str(topic.read_error(cut)) == (
        "t/3 has lost records that were read: its log was truncated to offset 50; start again, "
        "with another directory for checkpoints"
    )
    none = errors.LogTruncationError({part: None})
    assert "its log was truncated; start again" in str(topic.read_error(none))


def test_nobody_connects_before_the_first_example(monkeypatch: pytest.MonkeyPatch) -> None:
    source = KafkaSource("kafka://127.0.0.1:9/t")
    source.set_stop(lambda: True)
    blocks: Iterator[Any] = source.blocks(5, pytest.fail)
    assert list(blocks) == []


class Kept(KafkaSource):
    """A topic of 300 records of ten lines, polled at once, without a broker."""

    def identity(self) -> dict[str, Any]:
        return {"topic": "clicks"}

    def begin(self, at: Any) -> Any:
        self._resumable = True
        self._reader.position = {
            int(one): tuple(there) for one, there in (at or {0: (0, 0)}).items()
        }
        return self.position()

    def _records(self) -> Any:
        lines = ["\n".join(f"{k % 2} {k + j}:1" for j in range(10)).encode() for k in range(300)]
        records = [Record(0, k, 1000 + k, value) for k, value in enumerate(lines)]
        yield records[self._reader.position.get(0, (0, 0))[0] :]

    def _update_status(self, has_records: bool) -> None:
        pass

    def kept(self, at: Any, last: bool) -> None:
        pass


def test_a_stop_between_two_blocks_of_a_poll_passes_over_nothing(tmp_path: Path) -> None:
    signals = Signals()
    blocks: list[int] = []

    def advance(n: int) -> None:
        blocks.append(n)
        signals.number = signal.SIGTERM  # once the run has looked, and before the next block

    for k in range(1, 4):
        source = Interruptible(Kept("kafka://h/clicks"), signals, advance)
        model = ElasticNetClassifier()
        report = progressive(
            model, source, checkpoint=tmp_path / "kept", stop=lambda: signals.number
        )
        signals.number = 0
        assert (len(blocks), report.examples) == (k, 1000 * k)
        found = load_latest(tmp_path / "kept")
        assert found is not None and found.learnt == 1000 * k
        assert found.position == {"0": [100 * k, 0]}
    expected = ElasticNetClassifier()
    progressive(expected, Kept("kafka://h/clicks"))
    assert model.weights == expected.weights


def test_a_stop_before_a_topic_is_gone_on_with_leaves_its_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked while it looks for the brokers: as it finds none, it knows no position."""
    stop = threading.Event()
    monkeypatch.setattr(Topic, "identity", lambda *args: {"topic": "clicks"})
    monkeypatch.setattr(Topic, "consumer", lambda *args: stop.set())
    model, report = ElasticNetClassifier(), Report("logistic")
    report.start()
    for _ in range(2):
        with Checkpoints(tmp_path / "kept") as store:
            if not stop.is_set():
                store.save(model, report, {"topic": "clicks", "source": "kafka"}, {"0": [7, 0]})
            progressive(model, KafkaSource("kafka://h/clicks"), checkpoint=store, stop=stop)
        found = load_latest(tmp_path / "kept")
        assert stop.is_set() and found is not None and found.position == {"0": [7, 0]}


@pytest.mark.parametrize("links", [True, False])
def test_partitions_that_are_added_are_read_from_their_start(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note tells how many there were; also on a disk without links."""

    def no_links(*args: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    if not links:
        monkeypatch.setattr("os.link", no_links)
    there = {0, 1}
    group: Any = SimpleNamespace(
        _start="latest", directory=tmp_path, topic=SimpleNamespace(name="clicks"),
        _member=SimpleNamespace(consumer=SimpleNamespace(partitions_for_topic=lambda name: there)),
    )  # fmt: skip
    assert Group._start_of(group, 1) == "latest"
    there.add(2)
    assert [Group._start_of(group, one) for one in (0, 2)] == ["latest", "earliest"]
    assert [path.name for path in tmp_path.iterdir()] == ["clicks.partitions"]


def test_an_error_of_a_poll_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka.errors import CorruptRecordError

    class Failing(Records):
        closed = False

        def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
            if self.at and max(self.at.values()) > 0:
                raise CorruptRecordError("a checksum\nis wrong")
            return super().poll(timeout_ms)

        def assignment(self) -> set[Any]:
            return set()

        def close(self) -> None:
            self.closed = True

    consumer = Failing({0: [Record(0, k, k, b"1 1:1") for k in range(60)]}, most=20)
    monkeypatch.setattr(Topic, "consumer", lambda *args: consumer)
    source = KafkaSource("kafka://h/t", until_end=True)
    source._bounds = Bounds({0: 0}, {0: 60})
    learner = ElasticNetClassifier()
    with pytest.raises(SourceError, match="^kafka://h/t cannot be read: .*checksum is wrong$"):
        progressive(learner, source)
    assert 0 < learner.n_iterations < 60 and consumer.closed
