"""Consumer groups that learn: partitions move with their models; each example counts once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kafka
import pytest
from click.testing import CliRunner
from kafka.admin import KafkaAdminClient, NewTopic

import streaml1
from streaml1.cli import cli
from streaml1.core.rows import BadExample
from streaml1.sources import SourceError
from streaml1.sources.kafka.group_member import GroupMember
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.source import Lost
from streaml1.training import prepare, progressive
from streaml1.training.checkpoint import CheckpointError, Checkpoints, TakenOver, load_latest
from streaml1.training.checkpoint.manager import CheckpointManager
from streaml1.training.consumer_group import Group, partition_directory
from tests import storm
from tests.broker import Broker
from tests.test_exit_codes import BrokerProxy, stopping

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("no_leaked_threads")]

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    prepare(model())


@pytest.fixture(autouse=True)
def real(broker: Broker) -> None:
    broker.require_real()


def rows(n: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [
        f"{rng.choice((1, -1))} "
        + " ".join(f"{k}:{rng.uniform(-1, 1):.4g}" for k in sorted(rng.sample(range(1, 200), 5)))
        for _ in range(n)
    ]


def model() -> Any:
    return streaml1.ElasticNetClassifier(lr=0.1, l1=1e-4, l2=1e-4)


class Worker(threading.Thread):
    """A thread that acts as one process of a consumer group."""

    def __init__(self, url: str, folder: Path, name: str = "g", **options: Any) -> None:
        super().__init__(daemon=True)
        options = {"seconds": 0.1, "session": 3.0, "every": 50, "bad": "skip", **options}
        self.group = Group(model(), url, group=name + url, directory=folder, **options)
        self.stop = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.group.run(self.stop.is_set)
        except BaseException as error:
            self.error = error

    def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> Worker:
        """Wait until a condition holds or the worker fails."""
        wait(lambda: condition() or not self.is_alive(), seconds)
        return self

    def end(self) -> Worker:
        self.stop.set()
        self.join(20)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error
        return self


def wait(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "timed out"
        time.sleep(0.02)


def count_examples(workers: list[Worker]) -> int:
    reports = [report for worker in workers for report in list(worker.group.reports.values())]
    return sum(report.examples + report.rejected for report in reports)


def run_worker(url: str, folder: Path, n: int, **options: Any) -> Worker:
    """Run one worker until it has processed `n` examples."""
    worker = Worker(url, folder, **options)
    worker.start()
    return worker.until(lambda: count_examples([worker]) >= n).end()


def saved_states(folder: Path, url: str, partitions: int) -> list[Any]:
    """Return the saved model state of each partition."""
    topic = url.rpartition("/")[2]
    checkpoints = [
        load_latest(partition_directory(folder, topic, checkpoint))
        for checkpoint in range(partitions)
    ]
    return [
        None
        if checkpoint is None
        else (checkpoint.model.weights, checkpoint.model.intercept, checkpoint.model.n_iterations)
        for checkpoint in checkpoints
    ]


def separate_runs(url: str, partitions: int, **options: Any) -> list[Any]:
    """Learn each partition in a separate run and return the states."""
    states = []
    for partition in range(partitions):
        learner = model()
        progressive(
            learner,
            url,
            until_end=True,
            partitions=[partition],
            **{"bad": "skip", "every": 50, **options},
        )
        states.append((learner.weights, learner.intercept, learner.n_iterations))
    return states


# Partitions and their models


def test_each_partition_has_its_own_model(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(4)
    broker.send(topic, rows(600), [0, 1, 3])
    lines: list[Any] = []
    worker = run_worker(
        broker.url(topic), tmp_path, 600, on_line=lambda p, report, line: lines.append((p, line))
    )
    assert saved_states(tmp_path, broker.url(topic), 4) == separate_runs(broker.url(topic), 4)
    assert {p: report.examples for p, report in worker.group.reports.items()} == {
        **dict.fromkeys((0, 1, 3), 200),
        2: 0,
    }
    assert [line.examples for p, line in lines if p == 3] == [50, 100, 150, 200]
    broker.send(topic, rows(300, 1), [0, 1, 2])
    run_worker(broker.url(topic), tmp_path, 900)
    assert saved_states(tmp_path, broker.url(topic), 4) == separate_runs(broker.url(topic), 4)


def test_partitions_are_rebalanced_between_workers(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(4)
    url = broker.url(topic)
    broker.send(topic, rows(400), [0, 1, 2, 3])
    first = Worker(url, tmp_path)
    first.start()
    first.until(lambda: count_examples([first]) == 400)
    second, third = Worker(url, tmp_path), Worker(url, tmp_path)
    second.start()
    wait(lambda: len(second.group._runs) == 2)
    assert len(first.group._runs) == 2
    third.start()
    wait(lambda: len(third.group._runs) == 1)
    broker.send(topic, rows(400, 1), [0, 1, 2, 3])
    workers = [first, second, third]
    first.end()
    wait(lambda: len(second.group._runs) == len(third.group._runs) == 2)
    broker.send(topic, rows(200, 2), [0, 1, 2, 3])
    wait(lambda: sum(run._run.report.examples for worker in workers[1:]
                     for run in list(worker.group._runs.values())) == 1000)  # fmt: skip
    second.end()
    third.end()
    assert saved_states(tmp_path, url, 4) == separate_runs(url, 4)


def test_stop_before_the_group_is_joined(broker: Broker, tmp_path: Path) -> None:
    worker = Worker(broker.url(broker.topic(1)), tmp_path)
    assert worker.group.run(lambda: True) == {}


def test_more_workers_than_partitions(broker: Broker, tmp_path: Path) -> None:
    """The first assignment of one worker is empty."""
    topic = broker.topic(1)
    url = broker.url(topic)
    broker.send(topic, rows(100))
    workers = [Worker(url, tmp_path) for _ in range(2)]
    for worker in workers:
        worker.start()
    wait(lambda: count_examples(workers) >= 100)
    owner = next(worker for worker in workers if worker.group._runs)
    standby = workers[1 - workers.index(owner)]
    owner.end()
    wait(lambda: bool(standby.group._runs))
    broker.send(topic, rows(50, 1))
    wait(lambda: count_examples([standby]) == 150)
    standby.end()
    assert saved_states(tmp_path, url, 1) == separate_runs(url, 1)


def test_added_partitions(broker: Broker, tmp_path: Path) -> None:
    """Initial partitions start at the latest offset, added partitions at the earliest."""
    topic = broker.topic(1)
    url = broker.url(topic)
    broker.send(topic, rows(30))
    worker = Worker(url, tmp_path, start="latest")
    worker.start()
    worker.until(lambda: bool(worker.group._runs)).end()
    broker.add_partitions(topic, 2)
    broker.send(topic, rows(40, 1), [0, 1])
    worker = run_worker(url, tmp_path, 40, start="latest")
    assert {p: report.examples for p, report in worker.group.reports.items()} == {0: 20, 1: 20}
    assert saved_states(tmp_path, url, 2)[1] == separate_runs(url, 2)[1]


def test_partitions_added_while_members_learn(broker: Broker, tmp_path: Path) -> None:
    """One member does not poll for longer than the session meanwhile."""
    topic = broker.topic(2)
    url = broker.url(topic)
    broker.send(topic, rows(400), [0, 1])
    is_busy = threading.Event()

    def be_busy(partition: int, report: Any, line: Any) -> None:
        if not is_busy.is_set():
            is_busy.set()
            time.sleep(4.5)

    workers = [Worker(url, tmp_path, on_line=be_busy), Worker(url, tmp_path)]
    for worker in workers:
        worker.start()
    wait(is_busy.is_set)
    broker.add_partitions(topic, 5)
    broker.send(topic, rows(500, 1), [0, 1, 2, 3, 4])

    def n_learnt() -> int:
        assert [worker.error for worker in workers] == [None, None]
        runs = [run for worker in workers for run in list(worker.group._runs.values())]
        return sum(run._run.report.examples for run in runs)

    wait(lambda: n_learnt() == 900, 60.0)
    for worker in workers:
        worker.end()
    assert saved_states(tmp_path, url, 5) == separate_runs(url, 5)


class _IgnoredRebalances:
    def on_revoked(self, partitions: list[int]) -> None:
        pass

    def on_lost(self, partitions: list[int]) -> None:
        pass


def test_join_that_outlasts_a_poll_is_completed(broker: Broker) -> None:
    """The join after a change of the metadata gets the new partitions, however short the polls."""
    name = broker.topic(1)
    topic = Topic(broker.url(name))
    member = GroupMember(topic, "g" + name, _IgnoredRebalances(), 6.0, lambda: False)
    assigned: list[int] = []

    def is_assigned(n: int, timeout_ms: int) -> bool:
        member.poll(timeout_ms)
        assigned.extend(member.take_new_partitions())
        return len(assigned) == n

    try:
        wait(lambda: is_assigned(1, 100))
        broker.add_partitions(name, 4)
        wait(lambda: is_assigned(4, 1))
    finally:
        member.close()
    assert sorted(assigned) == [0, 1, 2, 3]


def test_resumed_partitions_are_fetched(broker: Broker) -> None:
    """Pauses in the middle of a fetched batch, while another partition is read."""
    name = broker.topic(3)
    broker.send(name, rows(9000), [0, 1, 2])
    topic = Topic(broker.url(name))
    member = GroupMember(topic, "g" + name, _IgnoredRebalances(), 6.0, lambda: False)
    counts = dict.fromkeys(range(3), 0)

    def are_read(n: int) -> bool:
        for partition, records in member.poll(20).items():
            counts[partition] += len(records)
        for partition in member.take_new_partitions():
            member.start_partition(partition, 0)
        ahead = max(counts, key=lambda p: counts[p])
        for partition in member.consumer.assignment():
            member.set_paused(partition.partition, partition.partition == ahead)
        return min(counts.values()) == n

    try:
        wait(lambda: are_read(3000))
    finally:
        member.close()
    assert set(counts.values()) == {3000}


def test_records_of_a_poll_that_ends_within_a_join() -> None:
    record = SimpleNamespace(topic="t", partition=0)
    polls = iter([{"records": [record]}, {}, {"others": [record]}])
    requests: list[bool] = []
    member = GroupMember.__new__(GroupMember)
    member.consumer = SimpleNamespace(
        poll=lambda timeout_ms: next(polls),
        _fetcher=SimpleNamespace(_next_partition_records=None),
        _coordinator=SimpleNamespace(rejoining=True, request_rejoin=lambda: requests.append(True)),
    )
    assert list(member._poll(1)) == ["records"]
    assert list(member._poll(1)) == ["others"]
    assert requests == [True, True]


# Contents of topics


@pytest.mark.parametrize("where", ["first", "last", "only"])
def test_bad_record(broker: Broker, tmp_path: Path, where: str) -> None:
    topic, good = broker.topic(1), rows(40)
    url = broker.url(topic)
    values = {"first": ["spam", *good], "last": [*good, "spam"], "only": ["spam"]}[where]
    broker.send(topic, values)
    failing = Worker(url, tmp_path / "a", bad="fail", seconds=1000.0)
    failing.start()
    failing.join(30)
    assert isinstance(failing.error, BadExample) and f"{topic}/0@" in str(failing.error)
    assert saved_states(tmp_path / "a", url, 1)[0][2] == 0, "earlier records must be learnt again"
    worker = run_worker(url, tmp_path / "b", len(values))
    assert worker.group.reports[0].rejected == 1
    assert saved_states(tmp_path / "b", url, 1) == separate_runs(url, 1)


def test_aborted_transactions(broker: Broker, tmp_path: Path) -> None:
    topic, lines = broker.topic(2), rows(120)
    url = broker.url(topic)
    producer = kafka.KafkaProducer(**broker.settings, transactional_id=topic)
    producer.init_transactions()
    for lo in range(0, 120, 10):
        producer.begin_transaction()
        for k, line in enumerate(lines[lo : lo + 10]):
            producer.send(topic, line.encode(), partition=k % 2)
        producer.flush()
        if lo % 20:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    for n in (30, 60):
        run_worker(url, tmp_path, n)
    assert saved_states(tmp_path, url, 2) == separate_runs(url, 2)


@pytest.mark.skipif(
    "STREAML1_STORM" not in os.environ, reason="compaction takes minutes; set STREAML1_STORM"
)
def test_compacted_topic(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(1, **{
        "cleanup.policy": "compact", "segment.bytes": "1048576", "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1", "min.compaction.lag.ms":
        "0", "delete.retention.ms": "1",
    })  # fmt: skip
    url, lines = broker.url(topic), rows(400)
    for k, line in enumerate(lines):
        broker.producer.send(topic, line.encode(), key=str(k % 37).encode(), partition=0)
        if k % 50 == 49:
            broker.producer.flush()
            time.sleep(0.2)
    worker = Worker(url, tmp_path)
    worker.start()
    worker.until(lambda: count_examples([worker]) >= 200).end()
    wait(lambda: (broker.send(topic, rows(1)), separate_runs(url, 1)[0][2] < 390)[1], 90)  # type: ignore
    n = separate_runs(url, 1)[0][2]
    assert 37 <= n < 390
    run_worker(url, tmp_path / "anew", n)
    assert saved_states(tmp_path / "anew", url, 1) == separate_runs(url, 1)


def test_deleted_offset_is_an_error(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(1)
    url = broker.url(topic)
    broker.send(topic, rows(20))
    run_worker(url, tmp_path, 20)
    before = saved_states(tmp_path, url, 1)
    broker.send(topic, rows(60, 1))
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.delete_records({kafka.TopicPartition(topic, 0): 50})
    admin.close()
    with pytest.raises(
        SourceError, match=rf"^{topic}/0@20 no longer exists: the topic has deleted"
    ):
        run_worker(url, tmp_path, 80)
    assert saved_states(tmp_path, url, 1) == before


def test_checkpoint_beyond_the_end_of_the_log(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic(1)
    url, save = broker.url(topic), CheckpointManager._save
    broker.send(topic, rows(20))

    def save_ahead(self: Any, in_background: bool = False) -> None:
        self._progress = self._progress._replace(position={0: (300, 0)})
        save(self, in_background)

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointManager, "_save", save_ahead)
        run_worker(url, tmp_path, 20)
    with pytest.raises(
        Lost, match="at offset 300 of partition 0, beyond the end of the log at 20:"
    ):
        run_worker(url, tmp_path, 40)


def test_topic_recreated_while_reading(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(1)
    url = broker.url(topic)
    broker.send(topic, rows(20))
    worker = Worker(url, tmp_path)
    worker.start()
    worker.until(lambda: count_examples([worker]) >= 20)
    broker.delete(topic)
    broker.topic(1, topic)
    broker.send(topic, rows(30))
    worker.until(lambda: not worker.is_alive())
    with pytest.raises(Lost, match=f"^{url} was deleted and recreated: its id is "):
        worker.end()
    assert saved_states(tmp_path, url, 1)[0][2] <= 20


def test_topic_recreated_between_runs(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(1)
    url = broker.url(topic)
    broker.send(topic, rows(20))
    run_worker(url, tmp_path, 20)
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.delete_topics([topic])
    while topic in admin.list_topics():
        time.sleep(0.1)
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.close()
    broker.send(topic, rows(30))
    with pytest.raises(CheckpointError, match="belongs to another source: its topic id is "):
        run_worker(url, tmp_path, 30)


def test_clock_jumps(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = broker.topic(1)
    url, clock, rng = broker.url(topic), time.time, random.Random(1)
    broker.send(topic, rows(100), first=1_790_000_000_000)
    broker.send(topic, rows(100, 1), first=1_000_000_000_000)
    monkeypatch.setattr("time.time", lambda: clock() + rng.choice((-1e8, 1e8)))
    run_worker(url, tmp_path, 100)
    run_worker(url, tmp_path, 200)
    monkeypatch.undo()
    assert saved_states(tmp_path, url, 1) == separate_runs(url, 1)


# Failures


def test_failing_rebalance_listener_ends_the_run(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when a partition is revoked: the run ends and loses nothing."""
    topic = broker.topic(2)
    url = broker.url(topic)
    broker.send(topic, rows(200), [0, 1])
    first = Worker(url, tmp_path, seconds=1000.0)
    first.start()
    first.until(lambda: count_examples([first]) == 200)

    def fail_with_full_disk(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail_with_full_disk)
        second = Worker(url, tmp_path)
        second.start()
        first.join(30)
    assert "cannot be written: no space left on device" in str(first.error)
    second.stop.set()
    second.join(20)
    run_worker(url, tmp_path, 200)
    assert saved_states(tmp_path, url, 2) == separate_runs(url, 2)


def test_lost_partition_is_not_saved(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(1)
    url = broker.url(topic)
    broker.send(topic, rows(100))
    worker = Worker(url, tmp_path, seconds=1000.0)
    worker.start()
    worker.until(lambda: count_examples([worker]) == 100)
    before = worker.group._runs[0]
    # Simulate an expired session.
    worker.group._member.consumer._coordinator.reset_generation()
    worker.until(lambda: worker.group._runs.get(0, before) is not before)
    wait(lambda: count_examples([worker]) == 100)
    checkpoint = load_latest(partition_directory(tmp_path, topic, 0))
    assert checkpoint is not None and checkpoint.learnt == 0, "must be learnt again and not saved"
    assert worker.end().group.reports[0].examples == 100
    assert saved_states(tmp_path, url, 1) == separate_runs(url, 1)
    checkpoint = load_latest(partition_directory(tmp_path, topic, 0))
    assert checkpoint is not None and checkpoint.learnt == 100


def test_partition_claimed_by_another_process(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(1)
    url = broker.url(topic)
    broker.send(topic, rows(50))
    worker = Worker(url, tmp_path)
    worker.start()
    worker.until(lambda: count_examples([worker]) == 50)
    with Checkpoints(partition_directory(tmp_path, topic, 0), alone=False) as other_store:
        other_store.latest()
        broker.send(topic, rows(50, 1))
        worker.join(30)
        assert isinstance(worker.error, TakenOver)
    run_worker(url, tmp_path, 100)
    assert saved_states(tmp_path, url, 1) == separate_runs(url, 1)


def test_unwritable_directory_is_an_error(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(1)
    (tmp_path / "kept").touch()
    with pytest.raises(CheckpointError, match=rf"kept/{topic}-0 cannot be written: not a dir"):
        run_worker(broker.url(topic), tmp_path / "kept", 1)


def test_model_with_other_parameters_is_rejected(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(1)
    broker.send(topic, rows(10))
    run_worker(broker.url(topic), tmp_path, 10)
    worker = Worker(broker.url(topic), tmp_path)
    worker.group._model = streaml1.ElasticNetClassifier(lr=0.1, l1=0.5)
    worker.start()
    worker.join(30)
    assert isinstance(
        worker.error, CheckpointError
    ) and "resume with a model of these parameters" in str(worker.error)


# Command line


def test_command_line(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(2)
    url = broker.url(topic)
    broker.send(topic, rows(300), [0, 1])
    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", "learn", "--lr=0.1", url, "--per-partition", "--group",
         topic,
         "--l1", "1e-4", "--l2", "1e-4", "--checkpoint", "kept", "--every", "150",
         "--session-timeout", "3"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        assert lines[1].startswith("partition  examples (recent)")
        assert sorted(line.split()[:2] for line in lines[2:]) == [["0", "150"], ["1", "150"]]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, err
    assert f"{topic}/1: 150 examples: log-loss" in out and "2 partitions: 300 examples: log" in out
    assert err == "streaml1: interrupted; kept was written\n"
    assert saved_states(tmp_path / "kept", url, 2) == separate_runs(url, 2)
    shown = CliRunner().invoke(cli, ["partitions", str(tmp_path / "kept")])
    assert f"{topic}-1  150" in shown.output and f"{process.pid} on " in shown.output
    assert "2 partitions, 300 examples, " in shown.output
    consumer = kafka.KafkaConsumer(**broker.settings, group_id=topic, enable_auto_commit=False)
    committed = [
        consumer.committed(kafka.TopicPartition(topic, k), timeout_ms=5000) for k in (0, 1)
    ]
    consumer.close()
    assert committed == [150, 150]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--per-partition"], "--per-partition requires --group and --checkpoint"),
        (["--per-partition", "--group", "g", "--checkpoint", "k", "--save", "m"],
         "--save cannot be combined with --per-partition"),
        (["--per-partition", "--group", "g", "--checkpoint", "k", "--until-end"], "--until-end"),
        (["--per-partition", "--group", "g", "--checkpoint", "k", "--top", "3"],
         "--top cannot be combined with --per-partition"),
        (["--per-partition", "--group", "g", "--checkpoint", "k", "--ngrams", "2"],
         "--ngrams requires --text"),
    ],
)  # fmt: skip
def test_incompatible_options_are_rejected(options: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["learn", "kafka://127.0.0.1:9/t", *options])
    assert result.exit_code == 2 and message in result.stderr
    result = CliRunner().invoke(cli, ["partitions", str(ROOT / "docs")])
    assert result.exit_code == 2 and "docs holds no models per partition" in result.stderr


# Storm tests


@pytest.mark.parametrize("workers", [1, 3])
def test_short_storm(broker: Broker, tmp_path: Path, workers: int) -> None:
    """`scripts/test --storm` runs a long storm that also kills the broker."""
    count = storm.run(broker.address, workers, 3, tmp_path, seed=workers)
    assert count["killed"] + count["died in a save"] >= 3, json.dumps(count)


def test_single_and_per_partition_checkpoints_differ(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(1)
    url, single, per_partition = broker.url(topic), str(tmp_path / "one"), tmp_path / "group"
    broker.send(topic, rows(10))
    run_worker(url, per_partition, 10)
    single_options = ("learn", url, "--until-end", "--checkpoint")
    result = CliRunner().invoke(cli, [*single_options, str(per_partition)])
    assert (result.exit_code, result.stderr) == (2, (
        f"streaml1: {per_partition} holds models per partition, such as {topic}-0: use "
        "--per-partition or another directory\n"
    ))  # fmt: skip
    assert not list(per_partition.glob("*.checkpoint"))
    assert CliRunner().invoke(cli, [*single_options, single]).exit_code == 0
    result = CliRunner().invoke(
        cli, ["learn", url, "--per-partition", "--group", topic, "--checkpoint", single]
    )
    assert (result.exit_code, result.stderr) == (2, (
        f"streaml1: {single} holds the checkpoints of a single model: omit --per-partition or use "
        "another directory\n"
    ))  # fmt: skip


def test_sigterm_while_the_prediction_sink_is_down(broker: Broker, tmp_path: Path) -> None:
    """Try each partition; no checkpoint may pass predictions that were not written."""
    topic, predictions_topic = broker.topic(2), broker.topic()
    broker.send(topic, rows(300), [0, 1])
    proxy = BrokerProxy(broker.address)
    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", "learn", broker.url(topic), "--per-partition", "--group",
         topic, "--checkpoint", "kept", "--checkpoint-every", "3600", "--every", "150",
         "--predictions", f"kafka://{proxy.address}/{predictions_topic}"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with stopping(process, proxy):
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        proxy.stop()
        broker.send(topic, rows(600), [0, 1])
        for _ in range(4):
            process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 75, err
    assert "2 partitions: 900 examples: log" in out
    message = err.splitlines()[-1]
    for k in (0, 1):
        assert f"kept/{topic}-{k} still holds the previous checkpoint" in message
        checkpoint = load_latest(tmp_path / "kept" / f"{topic}-{k}")
        assert checkpoint is not None and checkpoint.learnt == 0
