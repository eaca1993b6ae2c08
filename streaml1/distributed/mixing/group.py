"""A process of a consumer group whose members share one model, mixed through a compacted topic.

Each assigned partition has a model: the newest base after the examples of the partition that are
not in it. Nothing is stored on a disk. A process that is assigned a partition reads the topic of
the model, and continues after the last part of the partition.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streaml1.core.named_options import named_option
from streaml1.core.option_fields import document_options, parameter_entries
from streaml1.distributed.mixing.guard import ModelJoin, ModelLearner, Rows
from streaml1.distributed.mixing.merger import PROBE_SHARE, Merger
from streaml1.distributed.mixing.partition import OpenPartition, Piece
from streaml1.distributed.mixing.topic import MixTopic
from streaml1.models.merging import require_mergeable
from streaml1.models.pipelines import snapshot
from streaml1.sources import SourceOptions
from streaml1.sources.kafka.broker_connection import StopCheck
from streaml1.sources.kafka.group_member import GroupMember
from streaml1.sources.kafka.output_topics import output_topic
from streaml1.sources.source import SourceError, Unavailable, shown
from streaml1.training.config import RunConfig, require_positive, run_config, run_parameters
from streaml1.training.error_policy import ErrorPolicy
from streaml1.training.example_sources import slice_rows
from streaml1.training.group_source import (
    ACCEPTS,
    SOURCE_ACCEPTS,
    GroupTopic,
    PartitionSource,
)
from streaml1.training.mixed_models.messages import Base
from streaml1.training.model_adapter import prepare
from streaml1.training.observers import Batch, Observer
from streaml1.training.report import Line, Report
from streaml1.training.run import Run

if TYPE_CHECKING:
    from kafka.consumer.fetcher import ConsumerRecord

__all__ = ["MixedGroup"]

logger = logging.getLogger("streaml1")

MAX_QUEUE = 2000
"""Number of fetched records of a partition from which on it is not fetched."""

BUSY_MS = 5
"""Timeout of a poll while records wait to be learnt."""

IDLE_MS = 50
"""Timeout of a poll otherwise: parts and bases are looked at as often."""


@document_options(
    run_parameters(ACCEPTS),
    parameter_entries(SourceOptions, SOURCE_ACCEPTS),
)
class MixedGroup:
    """A process of a consumer group that learns one model together with the others.

    Parameters
    ----------
    model
        Initial model of the first process; it is cloned and does not learn itself. All processes
        must give the same parameters.
    url
        The topic of the examples, as for `KafkaSource`.
    config : RunConfig, optional
        Options of the runs. The keywords below override its fields. `group` is required.
    {options}
    mixed
        The topic of the model, or its name at the same brokers.
    mix_every
        Number of examples of a partition after which it publishes a part.
    wait
        Seconds that a round waits for parts, and a partition that is ahead waits for the round.
    session
        Seconds without a heartbeat after which a process loses its partitions.
    on_line
        Called with the partition, its report and each line of it.
    observers
        Makes the observers of the run over a partition; they are closed with it.

    Attributes
    ----------
    reports : dict of int to Report
        Report of each partition that this process has owned.

    Raises
    ------
    SourceError
        If `url`, `mixed`, `format`, `start` or `kafka` is invalid.
    TypeError
        If an option does not exist, or `group` is missing.
    ValueError
        If `every`, `bad`, `mix_every` or `wait` is invalid, or the model cannot be merged.
    """

    def __init__(
        self,
        model: Any,
        url: str,
        config: RunConfig | None = None,
        *,
        mixed: str,
        mix_every: int = 100,
        wait: float = 1.0,
        session: float = 45.0,
        on_line: Callable[[int, Report, Line], object] | None = None,
        observers: Callable[[int], AbstractContextManager[Sequence[Observer]]] | None = None,
        **options: Any,
    ) -> None:
        require_mergeable([model])
        require_positive("mix_every", mix_every)
        if not 0.0 <= wait < 3600.0:
            raise ValueError(f"wait must be in [0, 3600) seconds, got {wait}")
        self.config = run_config("MixedGroup", config, options, ACCEPTS)
        self._source = GroupTopic(
            url, self.config.source_options, model.text or (), "MixedGroup", "--mixed"
        )
        self.topic = self._source.topic
        if self._source.start == "checkpoint":
            raise SourceError(
                f"{named_option('start', 'checkpoint')} requires checkpoints, which a mixed model "
                "does not have: its topic holds the offsets"
            )
        self.mix_topic = output_topic(self.topic, mixed)
        option = named_option("mixed")
        self.topic.remedy = f"start all members again, with another topic for {option}"
        self.mix_topic.remedy = "start all members again, which begins a new model"
        self.reports: dict[int, Report] = {}
        self.model: Any = model
        self._every, self._wait, self._session = mix_every, wait, session
        self._on_line, self._observers = on_line, observers
        self._runs: dict[int, _MixedRun] = {}
        self._new: list[int] = []
        self._merger: Merger | None = None
        self._mix: Any = None
        self._cleaned = False

    def run(self, stopped: StopCheck) -> dict[int, Report]:
        """Learn until `stopped` returns true.

        Examples that are in no part then are learnt by the next owner of their partition.

        Returns
        -------
        dict[int, Report]
            Report of each partition that this process has owned.

        Raises
        ------
        SourceError
            If a topic cannot be read or written.
        BadExample
            If an example is rejected and `bad` is ``"fail"``.
        """
        self._stopped = stopped
        prepare(self.model)  # compile before the other members wait for this one
        try:
            self._run(stopped)
        except Unavailable:
            if not stopped():  # the end does not need the brokers: nothing is saved
                raise
        return self.reports

    def _run(self, stopped: StopCheck) -> None:
        self._identity = self._source.identity(stopped)
        self._base_source = {
            name: value if isinstance(value, str | None) else json.dumps(value)
            for name, value in self._identity.items()
            if name != "source"
        }
        with contextlib.ExitStack() as stack:
            self._mix = MixTopic(self.mix_topic, stopped)
            stack.callback(self._mix.close)
            self._member = GroupMember(
                self.topic, self._source.group, self, self._session, stopped,
                protocol=f"streaml1-mixed {self.mix_topic.name}",
            )  # fmt: skip
            stack.callback(self._member.close)
            if self._member.consumer is None:
                return
            stack.callback(lambda: self.on_lost(list(self._runs)))
            while not stopped():
                self._poll()
            for run in self._runs.values():
                run.finish()

    @property
    def base(self) -> Base | None:
        """The newest base that this process has read."""
        return None if self._mix is None else self._mix.state.base

    def _poll(self) -> None:
        is_busy = any(run.queue for run in self._runs.values())
        polled = self._member.poll(BUSY_MS if is_busy else IDLE_MS)
        for partition, records in polled.items():
            if partition in self._runs:
                self._runs[partition].queue.extend(records)
        self._adopt(self._mix.read())
        self._start_runs()
        now = time.monotonic()
        for partition, run in self._runs.items():
            run.advance(now)
            self._member.set_paused(partition, len(run.queue) > MAX_QUEUE)
        self._merge(now)

    def _adopt(self, is_new: bool) -> None:
        base = self._mix.state.base
        if is_new and base is not None:
            self._require_same_source(base)
            for run in self._runs.values():
                run.adopt(base)
            logger.debug("base %d of %s", base.round, self.mix_topic.name)

    def _require_same_source(self, base: Base) -> None:
        """Raise if a base was learnt from the records of another topic, or from other columns."""
        for name, saved in base.source.items():
            current = self._base_source.get(name)
            if saved != current:
                raise SourceError(
                    f"{self.mix_topic.url} belongs to another source: its {name} is "
                    f"{shown(saved)}, that of {self.topic.url} is {shown(current)}; use another "
                    f"topic for {named_option('mixed')}"
                )

    def _start_runs(self) -> None:
        """Start the partitions that were assigned, once there is a base."""
        new = self._member.take_new_partitions()
        self._new += new
        if new:
            self._adopt(self._mix.read_to_end())
            if 0 in new:
                self._merger = Merger(
                    uuid.uuid4().hex, self._wait, ModelJoin(self.mix_topic.url),
                    self._every // PROBE_SHARE,
                )  # fmt: skip
                self._claim()
        if self._new and self._mix.state.base is not None:
            waiting, self._new = self._new, []
            for partition in waiting:
                self._start_run(partition)

    def _claim(self) -> None:
        assert self._merger is not None
        initial = None
        if self._mix.state.base is None:
            starts, _ = self.topic.bounds(self._member.consumer, self._source.start, None, {})
            data = snapshot(self.model.clone(), packed=False)()
            initial = Base(0, "0", 0, dict(starts), {}, 0, data)
        base = self._merger.claim(self._mix.state, initial, time.monotonic())
        self._mix.send(base._replace(source=self._base_source))
        self._cleaned = False

    def _merge(self, now: float) -> None:
        if self._merger is None:
            return
        state = self._mix.state
        if self._merger.is_fenced(state, now):
            self._claim()
        probe = self._runs[0].open.unpublished() if 0 in self._runs else []
        base = self._merger.step(state, probe, now)
        if base is not None:
            self._mix.send(base)
            if not self._cleaned:  # the claim was read back
                self._mix.clean_up()
                self._cleaned = True

    def _start_run(self, partition: int) -> None:
        base = self._mix.state.base
        assert base is not None
        origin = 0
        if partition not in base.frontier:  # added to the topic since
            starts, _ = self.topic.bounds(self._member.consumer, "earliest", [partition], {})
            origin = starts[partition]
        with contextlib.ExitStack() as stack:
            observers: Sequence[Observer] = ()
            if self._observers is not None:
                observers = stack.enter_context(self._observers(partition))
            run = _MixedRun(self, partition, origin, observers)
            run.resources = stack.pop_all()
        self._runs[partition] = run
        run.start()

    # Rebalances; the group member calls these

    def on_revoked(self, partitions: list[int]) -> None:
        """Drop these partitions: their next owner repeats what is in no part yet."""
        self.on_lost(partitions)

    def on_lost(self, partitions: list[int]) -> None:
        """Drop these partitions."""
        self._new = [partition for partition in self._new if partition not in partitions]
        if 0 in partitions:
            self._merger = None
        for partition in partitions:
            if partition in self._runs:
                self._runs.pop(partition).resources.close()


class _Recorder(Observer):
    """Collects the rows that a run has learnt, to learn them again after another base."""

    essential = True

    def __init__(self) -> None:
        self.rows: list[Rows] = []

    def on_batch(self, batch: Batch) -> None:
        self.rows.append(Rows(slice_rows(batch.block.x, batch.lo, batch.hi), batch.y, batch.w))


class _MixedRun:
    """The run over one partition.

    Attributes
    ----------
    queue : deque
        Records that were fetched and are not learnt yet.
    open : OpenPartition
        The examples that are in no base yet.
    resources : ExitStack
        Closed with the run: the observers.
    """

    def __init__(
        self, group: MixedGroup, partition: int, origin: int, observers: Sequence[Observer]
    ) -> None:
        self.queue: deque[ConsumerRecord] = deque()
        self.resources = contextlib.ExitStack()
        self._mix, self._wait, self._member = group._mix, group._wait, group._member
        self._recorder = _Recorder()
        self._policy = ErrorPolicy(group.config.bad, [self._recorder, *observers])
        self._reader = group._source.reader()
        self._source = PartitionSource(
            self._member, group._identity, partition, self._reader, "earliest"
        )
        callback = group._on_line

        def on_line(line: Line) -> None:
            if callback is not None:
                callback(partition, self._run.report, line)

        self._run = Run(
            group.model.clone(), self._source, self._policy, replace(group.config, on_line=on_line)
        )
        self._learner = ModelLearner(self._run.model, group.mix_topic.url)
        self.open = OpenPartition(partition, self._learner, group._every, origin)
        group.reports[partition] = self._run.report
        self._waiting_since = 0.0  # when a whole part was learnt last
        # A record may hold many examples. Assume so, until one has been learnt.
        self._examples_per_record = float(group._every)
        self._run.set_stop(group._stopped)

    def start(self) -> None:
        """Resume from the topic of the model, and start fetching records."""
        self.open.start(self._mix.state)
        self._seek()
        self._run.begin()
        self._run.report.follow(None)  # the model is replaced as a whole: nothing to count

    def _seek(self) -> None:
        self.queue.clear()
        self._reader.position = {self.open.partition: (self.open.hi, 0)}
        self._member.start_partition(self.open.partition, self.open.hi)

    def adopt(self, base: Base) -> None:
        """Continue from a base."""
        if self.open.adopt(base, self._mix.state.base_id):
            self._seek()
        self._cut()

    def advance(self, now: float) -> None:
        """Learn what was fetched, at most a part; publish it if it is complete.

        Bases are read between two parts: a backlog is not learnt on top of an old one.
        """
        if self.queue and self._may_learn(now):
            parts_ahead = self.open.open_examples // self.open.every
            end = self.open.open_examples + self.open.room()
            while self.queue and (room := end - self.open.open_examples) > 0:
                n = min(max(1, int(room / self._examples_per_record)), len(self.queue))
                self._learn([self.queue.popleft() for _ in range(n)])
            if self.open.open_examples // self.open.every > parts_ahead:
                self._waiting_since = now  # a base that is late must not leave it behind for good
            self._cut()

    def _may_learn(self, now: float) -> bool:
        is_ahead = self.open.is_waiting and self.open.open_examples >= self.open.every
        return not is_ahead or now - self._waiting_since > self._wait

    def _learn(self, records: list[ConsumerRecord]) -> None:
        self._recorder.rows = []
        before = self._run.report.examples
        for block in self._source.blocks_of(records, len(records), self._policy):
            self._run.feed(block)
        examples = self._run.report.examples - before
        self._examples_per_record = max(1.0, examples / len(records))
        self.open.add(Piece(records[-1].offset + 1, examples, self._recorder.rows))

    def _cut(self) -> None:
        if self.open.is_due and not self._run.observers.defers_checkpoint():
            # No owner reads the records of a part again: first, what they led to must be written.
            self._run.observers.flush()
            self._mix.send(self.open.cut())

    def finish(self) -> None:
        """Write the last line of the report."""
        self._run.finish()
