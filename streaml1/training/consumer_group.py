"""A consumer group that learns: each partition has its own model, which moves with it.

Model, report and position of a partition are in its own directory of checkpoints. The process that
the group assigns the partition to claims the directory (see `checkpoint/ownership.py`), resumes
from the latest checkpoint, and saves when the group revokes the partition. Correctness does not
depend on what the group or the brokers believe about owners and offsets: the work of a process that
is wrong about its ownership is discarded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaml1.core.atomic_write import write_if_absent
from streaml1.core.option_fields import document_options, parameter_entries
from streaml1.sources import SourceOptions
from streaml1.sources.kafka.broker_connection import StopCheck
from streaml1.sources.kafka.group_member import GroupMember
from streaml1.sources.source import Unavailable
from streaml1.training.checkpoint import Checkpoints, require_seconds
from streaml1.training.checkpoint.ownership import unwritable
from streaml1.training.config import RunConfig, run_config, run_parameters
from streaml1.training.error_policy import ErrorPolicy
from streaml1.training.example_sources import BLOCK_ROWS
from streaml1.training.group_source import (
    ACCEPTS,
    SOURCE_ACCEPTS,
    GroupTopic,
    PartitionSource,
)
from streaml1.training.model_adapter import prepare
from streaml1.training.observers import Observer
from streaml1.training.report import Line, Report
from streaml1.training.run import Run, Unfinished

if TYPE_CHECKING:
    from kafka.consumer.fetcher import ConsumerRecord

__all__ = ["Group", "partition_directory"]


def partition_directory(directory: str | Path, topic: str, partition: int) -> Path:
    """Return the directory of the checkpoints of a partition."""
    return Path(directory) / f"{topic}-{partition}"


@document_options(
    run_parameters(ACCEPTS),
    parameter_entries(SourceOptions, SOURCE_ACCEPTS),
)
class Group:
    """A process of a consumer group, with a model for each partition that it is assigned.

    Parameters
    ----------
    model
        Initial model of each partition; it is cloned and does not learn itself.
    url
        The topic, as for `KafkaSource`.
    config : RunConfig, optional
        Options of the runs. The keywords below override its fields. `group` is required.
    {options}
    directory
        Directory with the checkpoints of all partitions. All processes of the group must use the
        same one, on one host or a shared file system.
    seconds
        Seconds between two checkpoints of a partition.
    session
        Seconds without a heartbeat after which a process loses its partitions.
    on_line
        Called with the partition, its report and each line of it.
    observers
        Makes the observers of the run over a partition; they are closed with it.

    Raises
    ------
    SourceError
        If `url`, `format`, `start` or `kafka` is invalid.
    TypeError
        If an option does not exist, or `group` is missing.
    ValueError
        If `every`, `bad` or `seconds` is invalid.
    """

    def __init__(
        self,
        model: Any,
        url: str,
        config: RunConfig | None = None,
        *,
        directory: str | Path,
        seconds: float = 10.0,
        session: float = 45.0,
        on_line: Callable[[int, Report, Line], object] | None = None,
        observers: Callable[[int], AbstractContextManager[Sequence[Observer]]] | None = None,
        **options: Any,
    ) -> None:
        self.config = run_config("Group", config, options, ACCEPTS)
        require_seconds(seconds)
        self._source = GroupTopic(
            url, self.config.source_options, model.text or (), "Group", "--per-partition"
        )
        self.topic = self._source.topic
        self.directory = Path(directory)
        self.reports: dict[int, Report] = {}
        self._model, self._session, self._seconds = model, session, seconds
        self._on_line, self._observers = on_line, observers
        self._runs: dict[int, _PartitionRun] = {}
        self._stopped: StopCheck = lambda: False

    def run(self, stopped: StopCheck) -> dict[int, Report]:
        """Learn until `stopped` returns true, then save.

        Returns
        -------
        dict[int, Report]
            Report of each partition that this process has owned.

        Raises
        ------
        CheckpointError
            If another process has claimed a partition, or a directory does not fit or cannot be
            written.
        SourceError
            If the topic cannot be read.
        Unfinished
            If brokers did not take all records before a stop. All else is saved by then.
        BadExample
            If an example is rejected and `bad` is ``"fail"``.
        """
        self._stopped = stopped
        prepare(self._model)  # compile before the other members wait for this one
        try:
            self._identity = self._source.identity(stopped)
        except Unavailable:
            if not stopped():
                raise
            return {}
        self._member = GroupMember(self.topic, self._source.group, self, self._session, stopped)
        try:
            if self._member.consumer is None:
                return {}
            while not stopped():
                self._poll()
            self.on_revoked(list(self._runs))
        finally:
            # After an error nothing is saved: a restart learns it again from the last checkpoint.
            self.on_lost(list(self._runs))
            self._member.close()
        return self.reports

    def _poll(self) -> None:
        polled = self._member.poll()
        for partition in self._member.take_new_partitions():
            self._start_run(partition)
        for partition, run in self._runs.items():
            run.feed(polled.get(partition, ()))

    def _start_run(self, partition: int) -> None:
        directory = partition_directory(self.directory, self.topic.name, partition)
        store = Checkpoints(directory, seconds=self._seconds, alone=False)
        with contextlib.ExitStack() as stack:
            stack.callback(store.close)
            source = PartitionSource(
                self._member, self._identity, partition, self._source.reader(),
                self._start_of(partition),
            )  # fmt: skip
            observers: Sequence[Observer] = ()
            if self._observers is not None:
                observers = stack.enter_context(self._observers(partition))
            run = _PartitionRun(self, source, store, observers)
            run.resources = stack.pop_all()
        self._runs[partition] = run
        run.begin(self._stopped)

    def _start_of(self, partition: int) -> str | int:
        """Return where a partition starts: at its beginning if it is newer than the group.

        The number of partitions at the first start of the group is in a file.
        """
        start = self._source.start
        if start == "earliest":
            return start
        note = self.directory / f"{self.topic.name}.partitions"
        if not note.exists():
            n_partitions = len(self._member.consumer.partitions_for_topic(self.topic.name))
            try:
                write_if_absent(note, str(n_partitions).encode())
            except OSError as error:
                raise unwritable(self.directory, error) from None
        return start if partition < int(note.read_text()) else "earliest"

    # Rebalances; the group member calls these

    def on_revoked(self, partitions: list[int]) -> None:
        """Save these partitions and drop them.

        Raises
        ------
        Unfinished
            If brokers did not take all records before a stop; the other partitions are saved.
        """
        errors: list[Unfinished] = []
        for partition in partitions:
            if partition in self._runs:
                try:
                    self._runs[partition].finish()
                except Unfinished as error:
                    errors.append(error)
                self._runs.pop(partition).resources.close()
        if errors:
            message, first = "; ".join(map(str, errors)), errors[0]
            raise Unfinished(message, first.exit_code, first.report, is_kept=False)

    def on_lost(self, partitions: list[int]) -> None:
        """Drop these partitions without saving: other members may own them already."""
        for partition in partitions:
            if partition in self._runs:
                self._runs.pop(partition).resources.close()


class _PartitionRun:
    """The run over one partition.

    Attributes
    ----------
    resources : ExitStack
        Closed with the run: the checkpoints and the observers.
    """

    def __init__(
        self,
        group: Group,
        source: PartitionSource,
        store: Checkpoints,
        observers: Sequence[Observer],
    ) -> None:
        self.source = source
        self.resources = contextlib.ExitStack()
        self._policy = ErrorPolicy(group.config.bad, observers)
        partition, callback = source.partition, group._on_line

        def on_line(line: Line) -> None:
            if callback is not None:
                callback(partition, self._run.report, line)

        checkpoint = store.latest()
        model = group._model.clone() if checkpoint is None else checkpoint.model
        if checkpoint is not None and repr(checkpoint.model) != repr(group._model):
            # The run rejects the checkpoint, with a message about the parameters that differ.
            model = group._model.clone()
        config = replace(group.config, on_line=on_line)
        self._run = Run(model, source, self._policy, config, store=store)
        group.reports[partition] = self._run.report
        self._size = min(BLOCK_ROWS, config.every or BLOCK_ROWS)

    def begin(self, stopped: StopCheck) -> None:
        """Resume from the latest checkpoint, and start fetching records."""
        self._run.set_stop(stopped)
        self._run.begin()
        self.source.start()

    def feed(self, records: Sequence[ConsumerRecord]) -> None:
        """Learn some records. Without any, checkpoints that are due are written."""
        for block in self.source.blocks_of(records, self._size, self._policy):
            self._run.feed(block)

    def finish(self) -> None:
        """Save."""
        self._run.finish()
