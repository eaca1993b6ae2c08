"""A consumer group that learns: each partition has a model of its own, which moves with it.

A partition's model, report and position are in a folder of checkpoints. Whoever the group gives
the partition to claims the folder (see `ownership.py`), goes on from the last checkpoint,
and saves when the group takes the partition back. What the group, or Kafka, believes about owners
and offsets decides nothing: a process that is wrong about it only learns what is thrown away.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from streaml1.core.atomic_write import write_once
from streaml1.sources import Refuse, SourceError, class_label
from streaml1.sources.kafka.group_member import GroupMember
from streaml1.sources.kafka.records import RecordReader, record_parser
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.kafka.topic_source import parse_start
from streaml1.training.checkpoint import Checkpoints, require_seconds
from streaml1.training.checkpoint.ownership import unwritable
from streaml1.training.error_policy import Refusals, require_positive
from streaml1.training.examples import BLOCK
from streaml1.training.model_adapter import prepare
from streaml1.training.observers import Out
from streaml1.training.report import Line, Report
from streaml1.training.run import Run, Unfinished

__all__ = ["Group", "folder_of"]

logger = logging.getLogger("streaml1")


def folder_of(folder: str | Path, topic: str, partition: int) -> Path:
    """Where the checkpoints of a partition are."""
    return Path(folder) / f"{topic}-{partition}"


class Group:
    """A process of a consumer group, with a model for each partition that it is given.

    Parameters
    ----------
    model
        What a partition's model is like at first; it learns nothing itself.
    url
        The topic, as for `KafkaSource`.
    group
        The name of the group.
    folder
        Where the checkpoints of all partitions are: the same for all processes of the group, on
        one host or on a file system that all share.
    every, bad
        As for `progressive`; lines come with the partition.
    seconds
        How often a partition's checkpoint is kept.
    format, start
        As for `KafkaSource`; a partition that has a checkpoint goes on from it.
    session
        Seconds after which a process that says nothing loses its partitions.
    on_line
        Called with the partition, its report and each line of it.
    outs
        Makes those who hear of the run over a partition, beside; they are left with it.
    kafka
        How to connect to the brokers, as for `KafkaSource`.

    Raises
    ------
    SourceError
        Where `url`, `format`, `start` or `kafka` is none that can be read.
    ValueError
        Where `every`, `bad` or `seconds` is out of range.
    """

    def __init__(
        self,
        model: Any,
        url: str,
        *,
        group: str,
        folder: str | Path,
        every: int | None = None,
        bad: str = "fail",
        seconds: float = 10.0,
        format: str | None = None,
        start: str | None = None,
        session: float = 45.0,
        on_line: Callable[[int, Report, Line], object] | None = None,
        outs: Callable[[int], AbstractContextManager[Sequence[Out]]] | None = None,
        kafka: Any = None,
    ) -> None:
        require_positive(every=every)
        require_seconds(seconds)
        Refusals(bad)
        self.topic = Topic(url, kafka)
        self.folder = Path(folder)
        self.reports: dict[int, Report] = {}
        self._model, self._group, self._session = model, group, session
        self._every, self._bad, self._seconds = every, bad, seconds
        self._parse, self._start = record_parser(format, True, model.text or ()), parse_start(start)
        self._on_line, self._outs = on_line, outs
        self._runs: dict[int, _PartitionRun] = {}
        self._stopped: Callable[[], bool] = lambda: False

    def run(self, stopped: Callable[[], bool]) -> dict[int, Report]:
        """Learn until `stopped`, then save; returns the reports of partitions that were ours.

        Raises
        ------
        CheckpointError
            Where another process has claimed a partition of ours, or a folder does not fit or
            cannot be written.
        SourceError
            Where the topic cannot be read on.
        Unfinished
            After all else is saved, where brokers did not take what was written to them.
        BadExample
            Where an example is refused and `bad` is `"fail"`.
        """
        self._stopped = stopped
        prepare(self._model)  # compiled before others wait for us
        self._identity = {"source": "kafka", **self.topic.identity(stopped)}
        self._member = GroupMember(self.topic, self._group, self, self._session, stopped)
        try:
            if self._member.consumer is None:
                return {}
            while not stopped():
                self._turn()
            self.on_revoked(list(self._runs))
        finally:
            # After an error nothing is saved: what was learnt since is learnt again.
            self.on_lost(list(self._runs))
            self._member.close()
        return self.reports

    def _turn(self) -> None:
        polled = self._member.poll()
        for partition in self._member.take_new_partitions():
            self._begin(partition)
        for partition, run in self._runs.items():
            run.feed(polled.get(partition, ()))

    def _begin(self, partition: int) -> None:
        store = Checkpoints(
            folder_of(self.folder, self.topic.name, partition), seconds=self._seconds, alone=False
        )
        with contextlib.ExitStack() as stack:
            stack.callback(store.close)
            source = OnePartition(
                self._member, self._identity, partition, RecordReader(self.topic.name, self._parse),
                self._start_of(partition),
            )  # fmt: skip
            outs = [] if self._outs is None else stack.enter_context(self._outs(partition))
            run = _PartitionRun(self, source, store, outs)
            run.held = stack.pop_all()
        self._runs[partition] = run
        run.heed(self._stopped)
        run.begin()

    def _start_of(self, partition: int) -> str | int:
        """Partitions that were added since the group began are read from their start."""
        if self._start == "earliest":
            return self._start
        note = self.folder / f"{self.topic.name}.partitions"
        if not note.exists():
            there = len(self._member.consumer.partitions_for_topic(self.topic.name))
            try:
                write_once(note, str(there).encode())
            except OSError as error:
                raise unwritable(self.folder, error) from None
        return self._start if partition < int(note.read_text()) else "earliest"

    # What the member hears

    def on_revoked(self, partitions: list[int]) -> None:
        """Save what has been learnt of some partitions, and have no more to do with them."""
        missed: list[Unfinished] = []
        for one in partitions:
            if one in self._runs:
                try:
                    self._runs[one].finish()
                except Unfinished as error:
                    missed.append(error)  # the others are saved first
                self._runs.pop(one).held.close()
        if missed:
            told, first = "; ".join(map(str, missed)), missed[0]
            raise Unfinished(told, first.exit_code, first.report, is_kept=False)

    def on_lost(self, partitions: list[int]) -> None:
        """Forget some partitions: another may have gone on with them."""
        for one in partitions:
            if one in self._runs:
                self._runs.pop(one).held.close()


class _PartitionRun:
    """The run over one partition."""

    def __init__(
        self,
        group: Group,
        source: OnePartition,
        store: Checkpoints,
        outs: Sequence[Out],
    ) -> None:
        self.source = source
        self.held = contextlib.ExitStack()  # what is to be closed with it
        self._refuse = Refusals(group._bad, outs)
        partition, told = source.partition, group._on_line

        def on_line(line: Line) -> None:
            if told is not None:
                told(partition, self._run.report, line)

        found = store.latest()
        model = group._model.clone() if found is None else found.model
        if found is not None and repr(found.model) != repr(group._model):
            model = group._model.clone()  # refused, in words, by the run
        self._run = Run(
            model, source, self._refuse, every=group._every, on_line=on_line, store=store, outs=outs
        )
        group.reports[partition] = self._run.report
        self._size = min(BLOCK, group._every or BLOCK)

    def heed(self, stopped: Callable[[], bool]) -> None:
        self._run.heed(stopped)

    def begin(self) -> None:
        self._run.begin()
        self.source.go()

    def feed(self, records: Sequence[Any]) -> None:
        """Learn some records; none at all tells that time goes by."""
        for block in self.source.blocks_of(records, self._size, self._refuse):
            self._run.feed(block)

    def finish(self) -> None:
        self._run.finish()


class OnePartition:
    """One partition as what a run is fed from: a source that is resumable."""

    block = BLOCK

    @staticmethod
    def label(y: Any, /) -> Hashable:
        """What a label of many means."""
        return class_label(y)

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

    def blocks(self, size: int, refuse: Refuse) -> Any:
        """A run over a partition is fed."""
        raise NotImplementedError

    def blocks_of(self, records: Sequence[Any], size: int, refuse: Refuse) -> Any:
        """The blocks of some records; what is behind the position is left out."""
        after, _ = self._reader.position[self.partition]
        if records and records[0].offset < after:
            records = [one for one in records if one.offset >= after]
        return self._reader.blocks(records, size, refuse)

    def identity(self) -> dict[str, Any]:
        """What must be the same, by name, for a position to mean the same."""
        return {**self._identity, "partition": self.partition}

    def begin(self, at: Any) -> Any:
        """Have records come from a position on, or from the start: None; returns where."""
        done = {int(one): tuple(there) for one, there in (at or {}).items()}
        if not done and self._start == "checkpoint":
            raise SourceError(f"{self.name}: there is no checkpoint to start from")
        offsets = {one: offset for one, (offset, _) in done.items()}
        starts, _ = self._member.topic.bounds(
            self._member.consumer, self._start, [self.partition], offsets
        )
        done = done or {one: (offset, 0) for one, offset in starts.items()}
        self._reader.position = done
        return self.position()

    def go(self) -> None:
        """Have records come."""
        self._member.start_partition(self.partition, self._reader.position[self.partition][0])

    def require_same(self) -> None:
        """Refuse to save what may be of another topic of the same name."""
        self._member.require_same()

    def position(self) -> Any:
        """Where the reading is, all that was read being behind it."""
        return dict(self._reader.position)

    def lag(self) -> dict[int, int]:
        """How many offsets are left to be read, as far as the brokers have told."""
        return {self.partition: self._member.lag(self.partition, self._reader.position)}

    def kept(self, at: Any, last: bool) -> None:
        """Hear that a checkpoint holds a position, which may be the last of the run."""
        if at:
            ((offset, _),) = at.values()
            self._member.commit_sometimes(self.partition, offset, last)
