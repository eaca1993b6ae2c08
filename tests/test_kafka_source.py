"""Kafka topics as sources: tests that need no broker."""

from __future__ import annotations

import errno
import json
import random
import signal
import threading
from collections.abc import Callable, Iterator
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
from tests.command import error_of


class Record(NamedTuple):
    partition: int
    offset: int
    timestamp: int
    value: bytes = b""
    headers: tuple[()] = ()


class Records:
    """An in-memory consumer that returns a few records of some partitions per poll."""

    def __init__(
        self, records: dict[int, list[Record]], max_records: int = 50, seed: int = 0
    ) -> None:
        self.records = records
        self.max_records = max_records
        self.random = random.Random(seed)
        self.positions: dict[TopicPartition, int] = {}
        self.assigned: list[list[int]] = []

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.positions = dict.fromkeys(partitions, -1)
        self.assigned.append([partition.partition for partition in partitions])

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        remaining = [
            record
            for record in self.records[partition.partition]
            if record.offset >= self.positions[partition]
        ]
        if not remaining:  # skip offsets without a record
            self.positions[partition] = max(
                self.positions[partition], end_offset(self.records[partition.partition])
            )
        return self.positions[partition]

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        polled = {}
        for partition, position in self.positions.items():
            n = self.random.randint(0, self.max_records)
            remaining = [
                record for record in self.records[partition.partition] if record.offset >= position
            ][:n]
            if remaining:
                polled[partition] = remaining
                self.positions[partition] = remaining[-1].offset + 1
        return polled


def end_offset(records: list[Record]) -> int:
    return records[-1].offset + 2 if records else 1  # each partition ends with a gap


def make_topic(times: list[list[int]], seed: int) -> dict[int, list[Record]]:
    """Return partitions with these timestamps and gaps between their offsets."""
    rng = random.Random(seed)
    records: dict[int, list[Record]] = {}
    for partition, stamps in enumerate(times):
        offset, records[partition] = 0, []
        for stamp in stamps:
            offset += rng.choice((1, 1, 3))
            records[partition].append(Record(partition, offset, stamp))
    return records


def reference_merge(records: dict[int, list[Record]]) -> list[Record]:
    """Return the expected merge: repeatedly take the earliest of the first records."""
    queues = {partition: list(queue) for partition, queue in records.items()}
    merged = []
    while any(queues.values()):
        first = min(
            (queue[0].timestamp, partition) for partition, queue in queues.items() if queue
        )[1]
        merged.append(queues[first].pop(0))
    return merged


def read(consumer: Any, starts: dict[int, int], ends: Any, stopped: Any) -> list[Record]:
    ends = None if ends is None else by_topic_partition(ends)
    return [
        record
        for batch in merge_partitions(consumer, by_topic_partition(starts), ends, stopped)
        for record in batch
    ]


def by_topic_partition(offsets: dict[int, int]) -> dict[TopicPartition, int]:
    return {TopicPartition("t", partition): offset for partition, offset in offsets.items()}


@given(
    st.lists(st.lists(st.integers(0, 30), max_size=40), min_size=1, max_size=4),
    st.integers(1, 20),
    st.integers(0, 1000),
)
def test_merge_order_depends_only_on_the_topic(
    times: list[list[int]], max_records: int, seed: int
) -> None:
    records = make_topic(times, seed)
    ends = {partition: end_offset(queue) for partition, queue in records.items()}
    consumer = Records(records, max_records, seed)
    assert read(consumer, dict.fromkeys(records, 0), ends, lambda: False) == reference_merge(
        records
    )


@given(st.integers(0, 1000), st.lists(st.integers(0, 60), min_size=3, max_size=3))
def test_merge_resumes_in_the_same_order(seed: int, starts: list[int]) -> None:
    rng = random.Random(seed)
    records = make_topic([[rng.randrange(50) for _ in range(30)] for _ in range(3)], seed)
    ends = {partition: end_offset(queue) for partition, queue in records.items()}
    remaining = {
        partition: [r for r in queue if r.offset >= starts[partition]]
        for partition, queue in records.items()
    }
    consumer = Records(records, 7, seed)
    assert read(consumer, dict(enumerate(starts)), ends, lambda: False) == reference_merge(
        remaining
    )


@given(st.integers(0, 1000), st.lists(st.integers(0, 60), min_size=3, max_size=3))
def test_merge_ends_at_the_end_offsets(seed: int, ends: list[int]) -> None:
    """Records that arrive while a topic is read until its end are left out."""
    rng = random.Random(seed)
    records = make_topic([[rng.randrange(50) for _ in range(30)] for _ in range(3)], seed)
    ends = [min(end, end_offset(records[partition])) for partition, end in enumerate(ends)]
    expected = {
        partition: [record for record in queue if record.offset < ends[partition]]
        for partition, queue in records.items()
    }
    consumer = Records(records, 7, seed)
    starts = dict.fromkeys(records, 0)
    assert read(consumer, starts, dict(enumerate(ends)), lambda: False) == reference_merge(expected)


def test_partition_returns_once_its_buffer_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change of the assignment drops what the consumer has fetched ahead."""
    monkeypatch.setattr("streaml1.sources.kafka.partition_merge.MAX_BUFFERED", 200)
    n = 1200
    times = [list(range(n)), list(range(n, 2 * n)), [5], list(range(0, 2 * n, 2))]
    records = make_topic(times, 1)
    ends = {partition: end_offset(queue) for partition, queue in records.items()}
    for seed in range(3):
        consumer = Records(records, 100, seed)
        merged = read(consumer, dict.fromkeys(records, 0), ends, lambda: False)
        assert merged == reference_merge(records)
        assert len(consumer.assigned) <= 12


def test_partition_ahead_of_the_others_is_paused() -> None:
    n = 4 * MAX_BUFFERED
    records = make_topic([list(range(n)), list(range(n, 2 * n)), [5]], 1)
    ends = {record: end_offset(queue) for record, queue in records.items()}
    consumer = Records(records, 2000)
    n_buffered = []
    seen = {0: 0, 1: 0, 2: 0}
    positions = {0: 0, 1: 0, 2: 0}
    starts = by_topic_partition(dict.fromkeys(records, 0))
    for batch in merge_partitions(consumer, starts, by_topic_partition(ends), lambda: False):
        for record in batch:
            seen[record.partition] += 1
            positions |= {
                topic_partition.partition: offset
                for topic_partition, offset in consumer.positions.items()
            }
            if record.partition == 0 and record.offset % 500 == 0:
                fetched = sum(r.offset < positions[1] for r in records[1])
                n_buffered.append(fetched - seen[1])
    assert seen == {0: n, 1: n, 2: 1}
    assert MAX_BUFFERED < max(n_buffered) <= MAX_BUFFERED + 4000
    assert len(consumer.assigned) < 30, "the assignment must rarely change"


def test_live_merge_yields_all_available_records() -> None:
    records = make_topic([[5] * 300, [3] * 200, []], 2)
    stop = threading.Event()
    received: list[Record] = []
    starts = by_topic_partition(dict.fromkeys(records, 0))
    for batch in merge_partitions(Records(records), starts, None, stop.is_set):
        received += batch
        if not batch and len(received) == 500:
            stop.set()
    for partition in records:
        assert [record for record in received if record.partition == partition] == records[
            partition
        ]


@pytest.mark.parametrize(
    "spec",
    ["kafka:", "kafka://", "kafka://h:1", "kafka://h:1/", "kafka:///t", "kafka:h/t",
     "kafka://h:x/t", "kafka://h:1/t/u"],
)  # fmt: skip
def test_invalid_topic_urls_are_rejected(spec: str) -> None:
    with pytest.raises(SourceError, match="is not a topic URL; use kafka://host:port/topic"):
        open_source(spec)


def test_topic_urls() -> None:
    assert Topic("kafka://a,b:1/t").brokers == ["a:9092", "b:1"]
    topic = Topic("kafka://a:1/my.topic-1_x?api_version=2.3")
    assert (topic.name, topic.settings) == ("my.topic-1_x", {"api_version": (2, 3)})
    assert "kafka" in SOURCES


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("kafka://h/t?acks=all", {}, "kafka://h/t: unknown setting acks=...; the only one is"),
        ("kafka://h/t?api_version=x", {}, "unknown setting api_version=..."),
        (
            "kafka://h/t",
            {"format": "orc"},
            "must be jsonl, svmlight, vw, avro, protobuf, csv, tsv or auto, got 'orc'",
        ),
        (
            "kafka://h/t",
            {"format": "csv", "target": "y"},
            "no header: name their columns by column_names=",
        ),
        (
            "kafka://h/t",
            {"format": "csv", "column_names": ["y", "n"], "target": "label"},
            "has no column 'label'",
        ),
        (
            "kafka://h/t",
            {"format": "tsv", "column_names": ["y"], "target": "y", "at": "x"},
            "at= does not apply to CSV records",
        ),
        (
            "kafka://h/t",
            {"format": "csv", "column_names": ["y"], "events": True},
            "delayed labels need format jsonl, got 'csv'",
        ),
        ("kafka://h/t", {"target": "y", "format": "vw"}, "(target=, ignore=, ...) need JSON"),
        ("kafka://h/t", {"target": "y", "weight": "y"}, "only one role, got target and weight"),
        ("kafka://h/t", {"at": "x", "events": True}, "cannot be combined with delayed labels"),
        ("kafka://h/t", {"delimiter": ";"}, "(such as delimiter) apply to CSV files only"),
        ("kafka://h/t", {"start": "yesterday"}, "start must be earliest, latest, checkpoint, or"),
        ("river:Phishing", {"until_end": True}, "apply to kafka://... only, not to river:Phishing"),
        ("a.svm", {"start": "latest"}, "apply to kafka://... only, not to a.svm"),
        ("-", {"partitions": [0]}, "apply to kafka://... only, not to -"),
    ],
)
def test_incompatible_options_are_rejected(
    spec: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SourceError) as error:
        open_source(spec, **options)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_start_times() -> None:
    assert parse_start(None) == "earliest" and parse_start("latest") == "latest"
    assert parse_start("1700000000123") == 1_700_000_000_123
    assert parse_start("2023-11-14T22:13:20.123Z") == 1_700_000_000_123
    assert parse_start("2023-11-14T23:13:20+01:00") == 1_700_000_000_000
    assert parse_start("2023-11-14") == 1_699_920_000_000
    assert parse_start("1960-01-01") == 0
    assert parse_start("100000000000") == 10**11


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("1764000000", "start 1764000000 is 1970-01-21; did you mean 1764000000000?"),
        ("1764000000000000", "is after the year 9999; did you mean 1764000000000?"),
        ("1764000000000000000", "is after the year 9999; did you mean 1764000000000?"),
        ("20260131", "start 20260131 is 1970-01-01; did you mean 2026-01-31?"),
    ],
)
def test_start_times_in_other_units_are_rejected(start: str, message: str) -> None:
    with pytest.raises(SourceError) as error:
        parse_start(start)
    assert message in str(error.value)
    assert parse_start("0") == 0


def test_start_time_beyond_64_bits_is_rejected() -> None:
    assert parse_start("9223372036854775807") == 2**63 - 1
    for start in ("9223372036854775808", "9" * 20, "9" * 5000):
        with pytest.raises(SourceError, match="start must be between 0 and 9223372"):
            KafkaSource("kafka://h/t", start=start)


def test_error_messages_are_not_truncated() -> None:
    from kafka import errors
    from kafka.structs import OffsetAndMetadata

    topic, topic_partition = Topic("kafka://h/t"), TopicPartition("t", 3)
    long = "no replica of it has been\nheard of by any broker " + "for an hour " * 20
    message = str(topic.read_error(errors.UnknownError(long)))
    assert message.endswith("for an hour") and "been heard of" in message and "..." not in message
    cut = errors.LogTruncationError({topic_partition: OffsetAndMetadata(50, "", 2)})
    assert str(topic.read_error(cut)) == (
        "t/3 has lost records that were read: its log was truncated to offset 50; start again, "
        "with another directory for checkpoints"
    )
    none = errors.LogTruncationError({topic_partition: None})
    assert "its log was truncated; start again" in str(topic.read_error(none))


def test_errors_of_groups_say_what_to_do() -> None:
    from kafka import errors

    topic = Topic("kafka://h/t")
    assert str(topic.read_error(errors.InvalidSessionTimeoutError())) == (
        "kafka://h/t: the brokers reject this session timeout; use session between their "
        "group.min.session.timeout.ms and group.max.session.timeout.ms, by default 6 to 1800 "
        "seconds"
    )
    assert str(topic.read_error(errors.InconsistentGroupProtocolError())) == (
        "kafka://h/t: a member of this consumer group is another program, or learns other models; "
        "use another name for group="
    )


def test_empty_name_of_a_group_is_rejected(tmp_path: Path) -> None:
    """A broker assigns no partition to its members, and they would wait for ever."""
    command = ["learn", "kafka://localhost:1/t", "--group", ""]
    for options in (
        ["--checkpoint", str(tmp_path)],
        ["--checkpoint", str(tmp_path), "--per-partition"],
        ["--mixed", "m"],
    ):
        assert error_of(*command, *options) == "--group must not be empty; name a consumer group"


def test_namespaces_of_text_are_those_of_vw() -> None:
    assert KafkaSource("kafka://h/t", format="VW", text=["t"]).texts == ("t",)
    assert KafkaSource("kafka://h/t", format="vw").texts == ()
    assert KafkaSource("kafka://h/t").texts is None


def test_source_connects_lazily(monkeypatch: pytest.MonkeyPatch) -> None:
    source = KafkaSource("kafka://127.0.0.1:9/t")
    source.set_stop(lambda: True)
    blocks: Iterator[Any] = source.blocks(5, pytest.fail)
    assert list(blocks) == []


class FakeTopicSource(KafkaSource):
    """A topic of 300 records with ten lines each, polled at once, without a broker."""

    def identity(self) -> dict[str, Any]:
        return {"topic": "clicks"}

    def begin(self, at: Any) -> Any:
        self._resumable = True
        self._reader.position = {
            int(partition): tuple(position) for partition, position in (at or {0: (0, 0)}).items()
        }
        return self.position()

    def _records(self) -> Any:
        lines = ["\n".join(f"{k % 2} {k + j}:1" for j in range(10)).encode() for k in range(300)]
        records = [Record(0, k, 1000 + k, value) for k, value in enumerate(lines)]
        yield records[self._reader.position.get(0, (0, 0))[0] :]

    def _update_status(self, has_records: bool) -> None:
        pass

    def on_saved(self, at: Any, last: bool) -> None:
        pass


class Topics:
    """An in-memory consumer of several topics, given as the values of each partition."""

    def __init__(self, **topics: list[list[str]]) -> None:
        self.records = {
            TopicPartition(topic, number): [
                SimpleNamespace(
                    topic=topic, partition=number, offset=offset, timestamp=1000 + offset,
                    key=None, value=value.encode(), headers=[],
                )
                for offset, value in enumerate(values)
            ]
            for topic, partitions in topics.items()
            for number, values in enumerate(partitions)
        }  # fmt: skip
        self.positions: dict[TopicPartition, int] = {}

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.positions = dict.fromkeys(partitions, -1)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def poll(self, timeout_ms: int) -> dict[TopicPartition, Any]:
        polled = {tp: self.records[tp][position:] for tp, position in self.positions.items()}
        self.positions = {tp: len(self.records[tp]) for tp in self.positions}
        return {tp: records for tp, records in polled.items() if records}

    def assignment(self) -> set[TopicPartition]:
        return set(self.positions)

    def highwater(self, partition: TopicPartition) -> int | None:
        return len(self.records[partition]) or None

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: len(self.records[tp]) for tp in partitions}

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {tp.partition for tp in self.records if tp.topic == topic}

    def close(self) -> None:
        pass


@pytest.fixture
def use_topics(monkeypatch: pytest.MonkeyPatch) -> Callable[[Topics], None]:
    """Return a function that lets sources read in-memory topics."""

    def use(topics: Topics) -> None:
        monkeypatch.setattr(Topic, "consumer", lambda *args: topics)

    return use


def read_places(source: KafkaSource, size: int = 100) -> list[str]:
    blocks = source.blocks(size, lambda place, reason, *_: pytest.fail(f"{place}: {reason}"))
    return [block.place(row) for block in blocks for row in range(len(block))]


def test_positions_of_labels_are_apart(use_topics: Callable[[Topics], None]) -> None:
    clicks = [[json.dumps({"id": f"{p}-{k}", "x": {"n": 1}}) for k in range(3)] for p in range(2)]
    labels = [[json.dumps({"id": f"{p}-1", "y": 1}) for p in range(2)]]
    use_topics(Topics(clicks=clicks, labels=labels))

    def source() -> KafkaSource:
        return KafkaSource("kafka://h/clicks", until_end=True, events=True, labels="labels")

    first = source()
    assert first.begin(None) == {0: (0, 0), 1: (0, 0), "labels/0": (0, 0)}
    read = read_places(first)
    assert len(read) == 8 and {"labels/0@0", "labels/0@1"} < set(read)
    assert first.position() == {0: (3, 0), 1: (3, 0), "labels/0": (2, 0)}
    assert first.lag() == {0: 0, 1: 0, "labels/0": 0}
    resumed = source()
    saved = json.loads(json.dumps({0: (1, 0), 1: (3, 0), "labels/0": (1, 0)}))
    assert resumed.begin(saved) == {0: (1, 0), 1: (3, 0), "labels/0": (1, 0)}
    assert resumed.lag() == {}
    assert sorted(read_places(resumed)) == ["clicks/0@1", "clicks/0@2", "labels/0@1"]
    assert resumed.lag() == {0: 0, 1: 0, "labels/0": 0}


def test_topic_is_read_twice_only_until_its_end(use_topics: Callable[[Topics], None]) -> None:
    use_topics(Topics(t=[["1 1:1", "0 2:1"]]))
    source = KafkaSource("kafka://h/t", until_end=True)
    assert read_places(source) == read_places(source) == ["t/0@0", "t/0@1"]
    source = KafkaSource("kafka://h/t", until_end=True)
    source.begin(None)
    read_places(source)
    with pytest.raises(
        SourceError,
        match="^kafka://h/t cannot be read twice with checkpoints: use passes=1, or leave check",
    ):
        read_places(source)
    source = KafkaSource("kafka://h/t")
    source.blocks(1, pytest.fail)
    with pytest.raises(
        SourceError, match="cannot be read twice: it has no end; add until_end=True$"
    ):
        source.blocks(1, pytest.fail)


def test_topics_that_were_read_are_checked(
    use_topics: Callable[[Topics], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be recreated ones of the same name."""
    checked: list[str] = []
    monkeypatch.setattr(Topic, "require_same", lambda self, *args: checked.append(self.name))
    use_topics(Topics(t=[[json.dumps({"id": "a", "x": {}})]], late=[[]]))
    source = KafkaSource("kafka://h/t", until_end=True, events=True, labels="late")
    source._bounds = Bounds({0: 0, "labels/0": 0}, {0: 1, "labels/0": 0})
    source.require_same()
    assert not checked
    assert read_places(source) == ["t/0@0"]
    # After the batch and at the end, where the metadata are refreshed.
    assert checked == ["t", "late", "t", "t", "late"]
    source.require_same()
    assert checked[5:] == ["t", "t", "late"]


def test_start_at_a_checkpoint_needs_one(use_topics: Callable[[Topics], None]) -> None:
    use_topics(Topics(t=[["1 1:1", "0 2:1"]]))
    source = KafkaSource("kafka://h/t", start="checkpoint")
    sentence = (
        "^kafka://h/t: there is no checkpoint to start from; "
        'use start="earliest" or start="latest"$'
    )
    with pytest.raises(SourceError, match=sentence):
        source.begin(None)
    assert source.begin({"0": [1, 0]}) == {0: (1, 0)}


def test_lag_of_a_live_topic(use_topics: Callable[[Topics], None]) -> None:
    topics = Topics(t=[["1 1:1"] * 5])
    use_topics(topics)
    source = KafkaSource("kafka://h/t", start="latest")
    blocks = source.blocks(2, pytest.fail)
    source._bounds = Bounds({0: 0}, {0: 4})
    next(blocks)
    assert source.lag() == {0: 3}  # two of five are read
    for _ in range(2):
        next(blocks)
    assert source.lag() == {0: 0}
    topics.records[TopicPartition("t", 0)] += [None] * 2  # offsets without a record
    topics.poll = lambda timeout_ms: {}  # type: ignore[method-assign]
    next(blocks)
    assert source.lag() == {0: 2}
    topics.seek(TopicPartition("t", 0), 7)
    next(blocks)
    assert source.lag() == {0: 0}


def test_offsets_are_committed_at_intervals_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    committed: list[tuple[str, Any, Any]] = []
    monkeypatch.setattr(
        Topic, "commit", lambda self, group, at, stopped: committed.append((self.name, group, at))
    )
    source = KafkaSource("kafka://h/t", group="g", events=True, labels="late")
    position = {0: (7, 2), "labels/1": (4, 0)}
    source.on_saved(position, False)  # soon after the start
    source.on_saved({}, True)
    assert not committed
    source.on_saved(position, True)
    assert committed == [("t", "g", {0: 7}), ("late", "g", {1: 4})]
    source._committed_at -= 5.0
    source.on_saved(position, False)
    source.on_saved(position, False)
    assert len(committed) == 4
    KafkaSource("kafka://h/t").on_saved(position, True)
    assert len(committed) == 4


def test_outages_are_logged_once(
    use_topics: Callable[[Topics], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topics, reachable = Topics(t=[["1 1:1"]]), False
    use_topics(topics)
    monkeypatch.setattr(Topic, "is_reachable", lambda *args: reachable)
    monkeypatch.setattr("streaml1.sources.kafka.topic_source.QUIET_SECONDS", 0.0)
    source = KafkaSource("kafka://h/t")
    source._bounds = Bounds({0: 0}, {0: 1})
    blocks = source.blocks(2, pytest.fail)
    for _ in range(4):
        next(blocks)
    assert caplog.messages == ["kafka://h/t: no broker answers: waiting for it"]
    reachable = True
    next(blocks)
    next(blocks)
    assert caplog.messages[1:] == ["kafka://h/t: a broker answers again"]
    reachable = False
    next(blocks)
    topics.records[TopicPartition("t", 0)] *= 2
    topics.seek(TopicPartition("t", 0), 0)
    next(blocks)  # a record is an answer, too
    assert caplog.messages[2:] == [caplog.messages[0], caplog.messages[1]]


@pytest.mark.parametrize("labels", ["", "h:1/late", "/late"])
def test_labels_must_name_a_topic(labels: str) -> None:
    with pytest.raises(SourceError, match="^labels must be the name of a topic without brokers"):
        KafkaSource("kafka://h/t", events=True, labels=labels)


def test_stop_between_blocks_of_a_poll_skips_nothing(tmp_path: Path) -> None:
    signals = Signals()
    blocks: list[int] = []

    def advance(n: int) -> None:
        blocks.append(n)
        signals.number = signal.SIGTERM  # after the run's check and before the next block

    for k in range(1, 4):
        source = Interruptible(FakeTopicSource("kafka://h/clicks"), signals, advance)
        model = ElasticNetClassifier()
        report = progressive(
            model, source, checkpoint=tmp_path / "kept", stop=lambda: signals.number
        )
        signals.number = 0
        assert (len(blocks), report.examples) == (k, 1000 * k)
        saved = load_latest(tmp_path / "kept")
        assert saved is not None and saved.learnt == 1000 * k
        assert saved.position == {"0": [100 * k, 0]}
    expected = ElasticNetClassifier()
    progressive(expected, FakeTopicSource("kafka://h/clicks"))
    assert model.weights == expected.weights


def test_stop_while_connecting_keeps_the_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop comes while the source looks for brokers, so the position is unknown."""
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
        saved = load_latest(tmp_path / "kept")
        assert stop.is_set() and saved is not None and saved.position == {"0": [7, 0]}


@pytest.mark.parametrize("name", ["cl*", "clicks,views", "^c.*"])
def test_topics_are_not_named_by_patterns(name: str) -> None:
    with pytest.raises(SourceError, match="is not the name of one topic; read one, without patt"):
        raise Topic(f"kafka://h/{name}")._missing_error(["clicks", "views"])


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (3, "^kafka://h/t: topic t does not exist; existing topics: clicks, views$"),
        (29, "^kafka://h/t: a client without a user is not authorized for this topic; add an ACL$"),
    ],
)
def test_topic_that_cannot_be_described_has_no_identity(
    code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id would be None, and a checkpoint of it would seem to be of another source."""
    answers = [{"error_code": code, "topic_id": None}]
    admin = SimpleNamespace(
        describe_cluster=lambda: {"cluster_id": "c"}, describe_topics=lambda names: answers,
        list_topics=lambda: ["views", "clicks", "__consumer_offsets"], close=lambda: None,
    )  # fmt: skip
    monkeypatch.setattr("kafka.admin.KafkaAdminClient", lambda **options: admin)
    monkeypatch.setattr(Topic, "wait_until_reachable", lambda *args: True)
    monkeypatch.setattr("streaml1.sources.kafka.topic.REFRESH_SECONDS", 0.0)
    topic = Topic("kafka://h/t")
    with pytest.raises(SourceError, match=message):
        topic.identity(lambda: False)
    answers[0]["topic_id"] = "id"  # an error of one partition, say
    assert topic.identity(lambda: False) == {"cluster": "c", "topic": "t", "topic id": "id"}
    answers[0] = {"error_code": 0, "topic_id": None}  # of a broker without ids
    assert topic.identity(lambda: False)["topic id"] is None


def test_metadata_from_before_the_records_do_not_verify_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The topic may have been recreated, and its new records read, right after a refresh."""
    monkeypatch.setattr("streaml1.sources.kafka.topic.REFRESH_SECONDS", 0.05)
    ids = {"known": "old", "real": "old"}
    answers = [True]

    def request_update() -> Any:
        if answers[-1]:
            ids["known"] = ids["real"]
        return SimpleNamespace(is_done=True, succeeded=lambda: answers[-1])

    cluster = SimpleNamespace(
        topic_id=lambda name: ids["known"], closed=False, metadata_refresh_in_progress=False,
        request_update=request_update, _topics={"t"}, partitions_for_topic=lambda name: {0},
    )  # fmt: skip
    client: Any = SimpleNamespace(_client=SimpleNamespace(cluster=cluster))
    topic = Topic("kafka://h/t")

    def check() -> None:
        topic.refresh_and_require_same(client, lambda: False)

    topic.note_records()
    check()
    ids["real"] = "new"
    check()  # no records since: not asked again
    topic.note_records()
    answers.append(False)
    check()  # no broker answers: asked again next time
    answers.append(True)
    with pytest.raises(SourceError, match="was deleted and recreated: its id is new, it was old"):
        check()


def test_new_topic_may_be_unknown_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [{"error_code": 3, "topic_id": None}, {"error_code": 0, "topic_id": "id"}]
    admin: Any = SimpleNamespace(describe_topics=lambda names: [answers.pop(0)])
    monkeypatch.setattr("streaml1.sources.kafka.topic.POLL_MS", 0)
    assert Topic("kafka://h/t")._describe(admin) == "id"


@pytest.mark.parametrize("has_links", [True, False])
def test_added_partitions_start_at_the_earliest_offset(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file records the initial number of partitions; it also works without hard links."""

    def fail_to_link(*args: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    if not has_links:
        monkeypatch.setattr("os.link", fail_to_link)
    partitions = {0, 1}
    group: Any = SimpleNamespace(
        _source=SimpleNamespace(start="latest"), directory=tmp_path,
        topic=SimpleNamespace(name="clicks"),
        _member=SimpleNamespace(
            consumer=SimpleNamespace(partitions_for_topic=lambda name: partitions)
        ),
    )  # fmt: skip
    assert Group._start_of(group, 1) == "latest"
    partitions.add(2)
    assert [Group._start_of(group, partition) for partition in (0, 2)] == ["latest", "earliest"]
    assert [path.name for path in tmp_path.iterdir()] == ["clicks.partitions"]


def test_poll_error_is_a_one_line_message(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka.errors import CorruptRecordError

    class FailingRecords(Records):
        closed = False

        def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
            if self.positions and max(self.positions.values()) > 0:
                raise CorruptRecordError("a checksum\nis wrong")
            return super().poll(timeout_ms)

        def assignment(self) -> set[Any]:
            return set()

        def close(self) -> None:
            self.closed = True

    consumer = FailingRecords({0: [Record(0, k, k, b"1 1:1") for k in range(60)]}, max_records=20)
    monkeypatch.setattr(Topic, "consumer", lambda *args: consumer)
    source = KafkaSource("kafka://h/t", until_end=True)
    source._bounds = Bounds({0: 0}, {0: 60})
    learner = ElasticNetClassifier()
    with pytest.raises(SourceError, match="^kafka://h/t cannot be read: .*checksum is wrong$"):
        progressive(learner, source)
    assert 0 < learner.n_iterations < 60 and consumer.closed


def test_records_that_do_not_fit_into_memory_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class LargeRecords(Records):
        def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
            if self.positions and max(self.positions.values()) > 0:
                raise MemoryError
            return super().poll(timeout_ms)

        def assignment(self) -> set[TopicPartition]:
            return {TopicPartition("t", 0)} if self.positions else set()

        def highwater(self, partition: TopicPartition) -> int:
            return 60

        def close(self) -> None:
            pass

    consumer = LargeRecords({0: [Record(0, k, k, b"1 1:1") for k in range(60)]}, max_records=20)
    monkeypatch.setattr(Topic, "consumer", lambda *args: consumer)
    source = KafkaSource("kafka://h/t", until_end=True)
    source._bounds = Bounds({0: 0}, {0: 60})
    with pytest.raises(SourceError, match=r"^kafka://h/t: records do not fit .* t/0@\d+: read"):
        progressive(ElasticNetClassifier(), source)
