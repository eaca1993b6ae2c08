"""What a member of a consumer group reads: the topic, and one partition of it as a source."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streaml1.core.named_options import by_caller, named_option
from streaml1.sources import (
    Reject,
    SourceError,
    SourceOptions,
    class_label,
    topic_records,
)
from streaml1.sources.kafka.broker_connection import StopCheck
from streaml1.sources.kafka.group_member import GroupMember
from streaml1.sources.kafka.records import KafkaBlock, Position, RecordReader
from streaml1.sources.kafka.security import CONFLUENT
from streaml1.sources.kafka.topic import Topic, require_group_name
from streaml1.sources.kafka.topic_source import parse_start
from streaml1.sources.options import CSV_OPTIONS
from streaml1.training.example_sources import BLOCK_ROWS

if TYPE_CHECKING:
    from kafka.consumer.fetcher import ConsumerRecord

__all__ = ["ACCEPTS", "SOURCE_ACCEPTS", "GroupTopic", "PartitionSource"]

ACCEPTS = ("every", "bad", "on_drift")
"""Options of `RunConfig` that runs over partitions take."""

SOURCE_ACCEPTS = (
    *("format", "target", "weight", "ignore", "categorical", "numeric", "id", "at", "positive"),
    *("start", "group", "kafka", "schema", "schema_registry"),
    *CSV_OPTIONS,
)
"""Options of `SourceOptions` that consumer groups take."""


class GroupTopic:
    """The topic that a consumer group reads, and how.

    Parameters
    ----------
    url
        The topic, as for `KafkaSource`.
    options
        The options of the source; `group` is required.
    text
        The features that the model reads as raw text.
    caller
        The class that is constructed, for errors.
    option
        Its option on the command line, for errors.

    Raises
    ------
    SourceError
        If the topic or an option is invalid.
    TypeError
        If the name of the group is missing.
    """

    def __init__(
        self, url: str, options: SourceOptions, text: Sequence[str], caller: str, option: str
    ) -> None:
        if options.group is None:
            raise TypeError(f"{caller}() needs the name of a consumer group; give group=")
        self.topic = Topic(url, options.kafka)
        if self.topic.security.client == CONFLUENT:
            raise SourceError(
                f"{named_option('kafka.client', CONFLUENT)} reads no consumer groups; use "
                f"kafka-python with {by_caller(option, caller)}"
            )
        self.group = require_group_name(options.group)
        self.start = parse_start(options.start)
        self._records = topic_records(url, replace(options, text=tuple(text)))

    def reader(self) -> RecordReader:
        """Return a new reader of records, for one partition."""
        return RecordReader(self.topic.name, self._records.parser)

    def identity(self, stopped: StopCheck) -> dict[str, Any]:
        """Return what identifies the topic and how it is read."""
        return {"source": "kafka", **self.topic.identity(stopped), **self._records.identity}


class PartitionSource:
    """One partition as a resumable source; its run is fed with blocks of polled records."""

    block = BLOCK_ROWS

    label: Callable[[Any], Hashable] = staticmethod(class_label)

    def __init__(
        self,
        member: GroupMember,
        identity: dict[str, Any],
        partition: int,
        reader: RecordReader,
        start: str | int,
    ) -> None:
        self.name = f"{member.topic.url}, partition {partition}"
        self.partition = partition
        self._member, self._identity, self._reader = member, identity, reader
        self._start = start

    def blocks(self, size: int, reject: Reject) -> Any:
        """Raise NotImplementedError: the group polls all its partitions together."""
        raise NotImplementedError

    def blocks_of(
        self, records: Sequence[ConsumerRecord], size: int, reject: Reject
    ) -> Iterator[KafkaBlock]:
        """Convert records to blocks, without those before the position."""
        next_offset, _ = self._reader.position[self.partition]
        if records and records[0].offset < next_offset:
            records = [record for record in records if record.offset >= next_offset]
        return self._reader.blocks(records, size, reject)

    def identity(self) -> dict[str, Any]:
        """Return what identifies the source: positions are valid only if it is unchanged."""
        return {**self._identity, "partition": self.partition}

    def begin(self, at: Any) -> Any:
        """Set where reading starts, and return it; None is the start of the source."""
        done: Position = {int(key): tuple(place) for key, place in (at or {}).items()}
        if not done and self._start == "checkpoint":
            raise SourceError(
                f"{self.name}: there is no checkpoint to start from; use "
                f"{named_option('start', 'earliest')} or {named_option('start', 'latest')}"
            )
        offsets = {int(key): offset for key, (offset, _) in done.items()}
        starts, _ = self._member.topic.bounds(
            self._member.consumer, self._start, [self.partition], offsets
        )
        self._reader.position = done or {key: (offset, 0) for key, offset in starts.items()}
        return self.position()

    def start(self) -> None:
        """Start fetching records at the position."""
        self._member.start_partition(self.partition, self._reader.position[self.partition][0])

    def require_same(self) -> None:
        """Raise `Lost` if records may come from a recreated topic of the same name."""
        self._member.require_same()

    def position(self) -> Any:
        """Return the next offset of the partition, and the number of its lines that are done."""
        return dict(self._reader.position)

    def lag(self) -> dict[int, int]:
        """Return the number of unread offsets, as of the last fetch."""
        return {self.partition: self._member.lag(self.partition, self._reader.position)}

    def on_saved(self, at: Any, last: bool) -> None:
        """Handle that a checkpoint holds position `at`; `last` if it is the last of the run."""
        if at:
            ((offset, _),) = at.values()
            self._member.commit_sometimes(self.partition, offset, last)
