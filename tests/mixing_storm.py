"""Fault injection for a group that mixes one model: kill, stop and freeze its members and broker.

A witness reads the topic of the model all the time. It checks of each base that it continues the
one before by parts of that one, and that no part is merged twice. At the end each example must be
in the model exactly once. After each fault the group must make progress again within a time.
`python -m tests.mixing_storm` runs for minutes; the test suite injects a few faults.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.storm import ForkServer, PrivateBroker, exception_lines, serve_forks, signal_if_alive

PARTITIONS, EVERY, SESSION, WAIT = 8, 10, 3.0, 0.2
COMMON = 7
"""Number of features that occur in many rows; each row has one more, which no other row has."""

EVENTS = {
    "broker killed": 3, "partition added": 4, "started": 13, "killed": 30, "terminated": 20,
    "frozen": 30,
}  # fmt: skip
"""The faults, and how often they happen."""

SIGNALS = {"killed": signal.SIGKILL, "terminated": signal.SIGTERM, "frozen": signal.SIGSTOP}

RECOVERY_SECONDS = 60.0
"""Limit of the time without progress after a fault."""

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "10000",
    "max.compaction.lag.ms": "10000",
    "delete.retention.ms": "100",
}
"""Segments are cleaned once the witness has read them, even across a restart of the broker."""


def model() -> Any:
    """Return a model with small steps: where a gradient is 0, a feature would not count as seen."""
    import streaml1

    return streaml1.FTRLClassifier(alpha=0.05, l1=0.1)


# A member process


def run_member(url: str, mixed: str, step: int) -> int:
    """Run a member of the group until SIGTERM; return its exit code."""
    from streaml1.distributed.mixing.group import MixedGroup

    faulthandler.register(signal.SIGUSR1)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *args: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    group = MixedGroup(
        model(), url, group="storm-" + mixed, mixed=mixed, mix_every=EVERY, wait=WAIT,
        session=SESSION,
    )  # fmt: skip
    try:
        group.run(stopping.is_set)
    except BaseException:
        traceback.print_exc()
        return 75
    return 0


def serve_members() -> None:
    """Fork a member for each line on standard input."""
    import streaml1.distributed.mixing.group  # noqa: F401
    from streaml1.training import prepare

    prepare(model())
    serve_forks(run_member)


# What happens around the group


class Feed(threading.Thread):
    """A producer: sends rows to random partitions until stopped; no two rows are the same."""

    def __init__(self, address: str, topic: str, per_second: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.partitions = PARTITIONS
        self.stopping = threading.Event()
        self.sent: Counter[int] = Counter()
        self._address, self._topic, self._per_second = address, topic, per_second
        self._rng = random.Random(seed)

    def run(self) -> None:
        import kafka

        producer = kafka.KafkaProducer(bootstrap_servers=self._address, linger_ms=20)
        known = PARTITIONS
        while not self.stopping.wait(0.1):
            if known < self.partitions:
                producer._metadata.request_update()
                known = len(producer.partitions_for(self._topic))
            for _ in range(self._per_second // 10):
                k = sum(self.sent.values())
                partition = self._rng.randrange(known)
                row = f"{self._rng.choice((1, -1))} {k % COMMON + 1}:1 {1000 + k}:1"
                producer.send(self._topic, row.encode(), partition=partition)
                self.sent[partition] += 1
        producer.flush(60)
        producer.close(timeout=10)


class Witness(threading.Thread):
    """Reads the topic of the model, and checks each base."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.stopping = url, threading.Event()
        self.base: Any = None
        self.problems: list[str] = []
        self.count: Counter[str] = Counter()
        self.progress_at = time.monotonic()
        self.longest_pause = 0.0
        self._parts: dict[tuple[int, int, int, str], int] = {}
        self._base_id, self._base_ids = "", set[str]()

    def run(self) -> None:
        try:
            self._read()
        except BaseException as error:
            traceback.print_exc()
            self.problems.append(f"the witness failed: {error!r}")

    def _read(self) -> None:
        from streaml1.sources.kafka.topic import Topic
        from streaml1.training.mixed_models.reader import MixReader

        reader = MixReader(Topic(self.url), self.stopping.is_set)
        apply = reader.state.apply

        def applied(message: Any) -> bool:
            is_new = apply(message)
            self._check(message, is_new, reader.state)
            return is_new

        reader.state.apply = applied  # type: ignore[method-assign]
        with contextlib.closing(reader):
            while not self.stopping.is_set():
                reader.read(100)

    def _check(self, message: Any, is_new: bool, state: Any) -> None:
        from streaml1.training.mixed_models.messages import Part

        if isinstance(message, Part):
            self.count["parts"] += 1
            is_valid = state.is_mergeable(message) and state.parts[message.partition] is message
            self.count["parts refused"] += not is_valid
            key = message.partition, message.lo, message.hi, message.base
            self._parts[key] = message.examples
            return
        if not is_new:
            self.count["bases refused"] += 1
            return
        self.count["bases"] += 1
        before, base = self.base, message
        if before is not None and base.writer == before.writer:
            self._check_merge(before, base, state.base_id)
        elif before is not None:
            # A new merger begins with the newest base that it has read: a later one is void.
            self.count["mergers"] += 1
            self.count["merges void"] += state.base_id != self._base_id
            if state.base_id not in self._base_ids:
                self.problems.append(f"base {base.rank} begins with a base that never was")
        if before is None or base.examples > before.examples:
            now = time.monotonic()
            self.longest_pause = max(self.longest_pause, now - self.progress_at)
            self.progress_at = now
        self.base, self._base_id = base, state.base_id
        self._base_ids.add(self._base_id)

    def _check_merge(self, before: Any, base: Any, base_id: str) -> None:
        if base.frontier == before.frontier:
            if base_id != self._base_id:
                self.problems.append(f"base {base.rank} changes {before.rank} without parts")
            return
        added = 0
        for p, hi in base.frontier.items():
            lo = before.frontier.get(p, 0)
            if hi == lo:
                continue
            examples = self._parts.get((p, lo, hi, self._base_id))
            if examples is None:
                self.problems.append(f"base {base.rank} has no part of {p} from {lo} to {hi}")
            added += examples or 0
        if base.examples != before.examples + added:
            self.problems.append(f"base {base.rank} has {base.examples} examples, not {added} more")


class Storm:
    """Random faults for the members of one group."""

    def __init__(
        self, address: str, topic: str, members: int, folder: Path, seed: int,
        feed: Feed, witness: Witness, broker: PrivateBroker | None,
    ) -> None:  # fmt: skip
        self.url = f"kafka://{address}/{topic}"
        self.count: Counter[str] = Counter()
        self.longest_recovery = 0.0
        self._feed, self._witness, self._broker = feed, witness, broker
        self._address, self._topic, self._n_members = address, topic, members
        self._rng, self._max_sleep = random.Random(seed), 3.0 if broker is not None else 0.5
        self.fork_server = ForkServer(self.url, folder / "any", module="tests.mixing_storm")
        self.fork_server.folder = Path(f"{topic}-mixed")  # members get the name of a topic
        self._alive: list[int] = [self.fork_server.start() for _ in range(members)]
        self._ending: dict[int, float] = {}
        self._frozen: dict[int, float] = {}

    def inject_faults(self, events: Iterator[str]) -> None:
        """Inject faults, and wait after most until there is progress."""
        self._await_progress("start", 120.0)
        for event in events:
            time.sleep(self._rng.uniform(0.2, self._max_sleep))
            self._tend()
            if self._inject(event):
                self.count[event] += 1
                if event != "frozen" and self._rng.random() < 0.7:
                    self._await_progress(event, RECOVERY_SECONDS)

    def random_events(self, seconds: float) -> Iterator[str]:
        """Yield random events for some time."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            yield self._rng.choices(list(EVENTS), list(EVENTS.values()))[0]

    def _inject(self, event: str) -> bool:
        """Make an event happen; return whether it was possible."""
        awake = [pid for pid in self._alive if pid not in self._frozen]
        if event == "broker killed":
            if self._broker is None:
                return False
            self._broker.kill()
            time.sleep(self._rng.uniform(0.0, 2.0))
            self._broker.restart()
        elif event == "partition added":
            if self._feed.partitions >= PARTITIONS + 4:
                return False
            self._add_partition()
        elif event == "started":
            if len(self._alive) > self._n_members + 2:
                return False
            self._alive.append(self.fork_server.start())
        elif not awake:
            return False
        else:
            pid, now = self._rng.choice(awake), time.monotonic()
            signal_if_alive(pid, SIGNALS[event])
            if event == "terminated":
                self._ending[pid] = now
            if event == "frozen":
                self._frozen[pid] = now + self._rng.uniform(0.3, 3.0) * SESSION
        return True

    def _add_partition(self) -> None:
        from kafka.admin import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self._address)
        try:
            admin.create_partitions({self._topic: self._feed.partitions + 1})
        finally:
            admin.close()
        self._feed.partitions += 1

    def _tend(self) -> None:
        """Resume frozen members whose time is over, and replace those that have ended."""
        now = time.monotonic()
        for pid, wake_at in list(self._frozen.items()):
            if now >= wake_at:
                del self._frozen[pid]
                signal_if_alive(pid, signal.SIGCONT)
                if pid in self._ending:
                    self._ending[pid] = now
        exit_codes = self.fork_server.exit_codes()
        for pid in [pid for pid in self._alive if pid in exit_codes]:
            self._frozen.pop(pid, None)
            self._ending.pop(pid, None)
            self._alive.remove(pid)
            self.count["ended with an error"] += exit_codes[pid] not in (0, -9)
        while len(self._alive) < self._n_members:
            self._alive.append(self.fork_server.start())
        for pid, since in self._ending.items():
            if pid not in self._frozen and now - since > 30.0:
                self._fail(f"member {pid} does not end")

    def _await_progress(self, event: str, seconds: float) -> None:
        """Wait until more examples were merged than now."""
        started = time.monotonic()
        while self._witness.progress_at < started + 0.5:
            self._tend()
            if self._witness.problems:
                self._fail(self._witness.problems[0])
            if time.monotonic() > started + seconds:
                self._fail(f"no progress for {seconds:g} seconds after: {event}")
            time.sleep(0.05)
        if event != "start":
            took = self._witness.progress_at - started
            self.longest_recovery = max(self.longest_recovery, took)

    def _fail(self, reason: str) -> None:
        for pid in self._alive:  # each writes the stacks of its threads
            if pid not in self._frozen:
                signal_if_alive(pid, signal.SIGUSR1)
                time.sleep(0.5)
        log = self.fork_server.log.read_text()
        base = self._witness.base
        state = None if base is None else (base.rank, base.examples, base.frontier)
        raise AssertionError(
            f"{reason}: {dict(self.count)}, sent {dict(self._feed.sent)}, base {state}, alive "
            f"{self._alive}\n{log[-6000:]}"
        )

    def drain(self, seconds: float) -> None:
        """Wait until no partition has a whole part left, then stop the members."""
        limit = time.monotonic() + seconds
        while not self._is_merged():
            for pid in self._frozen:
                self._frozen[pid] = 0.0
            self._tend()
            if self._witness.problems or time.monotonic() > limit:
                self._fail((self._witness.problems or ["not all examples were merged"])[0])
            time.sleep(0.1)
        for pid in self._alive:
            signal_if_alive(pid, signal.SIGTERM)
            self._ending[pid] = time.monotonic()
        while not set(self._alive) <= self.fork_server.exit_codes().keys():
            if time.monotonic() > limit + 30.0:
                self._fail("a member does not end")
            time.sleep(0.05)

    def _is_merged(self) -> bool:
        base = self._witness.base
        sent = self._feed.sent
        return base is not None and all(
            n - base.frontier.get(partition, 0) < EVERY for partition, n in sent.items()
        )

    def close(self) -> None:
        for pid in self._alive:
            signal_if_alive(pid, signal.SIGKILL)
        self.fork_server.close()


@contextlib.contextmanager
def running(*threads: Any) -> Iterator[None]:
    """Start threads, and stop them at the end."""
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.stopping.set()
            thread.join(70)


def run(address: str, members: int, folder: Path, seed: int, events: Sequence[str] = (),
        seconds: float = 0.0, broker: PrivateBroker | None = None,
        per_second: int = 150) -> Counter[str]:  # fmt: skip
    """Run one storm of the given events, or of random ones; check its model and count events."""
    from kafka.admin import KafkaAdminClient, NewTopic

    topic = f"mixing-storm-{members}-{seed}-{os.getpid()}"
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        admin.create_topics([
            NewTopic(topic, PARTITIONS, 1),
            NewTopic(f"{topic}-mixed", 1, 1, topic_configs=COMPACTED),
        ])  # fmt: skip
        admin.wait_for_topics([topic, f"{topic}-mixed"])
    finally:
        admin.close()
    witness = Witness(f"kafka://{address}/{topic}-mixed")
    feed = Feed(address, topic, per_second, seed)
    with running(feed, witness):  # the witness before the members: compaction is fast
        storm = Storm(address, topic, members, folder, seed, feed, witness, broker)
        try:
            storm.inject_faults(iter(events) if events else storm.random_events(seconds))
            feed.stopping.set()
            feed.join(90)
            storm.drain(120.0)
            time.sleep(0.5)
        finally:
            storm.close()
    assert not witness.problems, witness.problems
    require_learnt_once(witness)
    count = storm.count + witness.count
    count["examples"] = witness.base.examples
    count["seconds of the longest recovery"] = round(storm.longest_recovery)
    count["records of the model's topic that were compacted"] = n_compacted(witness.url)
    return count


def require_learnt_once(witness: Witness) -> None:
    """Check that the model in the topic has learnt each row before its offsets once."""
    from streaml1.training.mixed_models.reader import read_mixed

    learner, base = read_mixed(witness.url), witness.base
    assert learner.n_iterations == base.examples == sum(base.frontier.values()), base.frontier
    assert learner.n_features_seen == base.examples + COMMON, learner.n_features_seen


def n_compacted(url: str) -> int:
    """Return the number of records that compaction has removed from a topic."""
    from streaml1.sources.kafka.topic import Topic

    topic = Topic(url)
    consumer = topic.consumer(lambda: False)
    try:
        starts, ends = topic.bounds(consumer, "earliest", None, {})
        [tp] = topic.by_topic_partition({0: 0})
        consumer.assign([tp])
        consumer.seek(tp, starts[0])
        n_read, limit = 0, time.monotonic() + 30.0
        while consumer.position(tp) < ends[0] and time.monotonic() < limit:
            n_read += sum(map(len, consumer.poll(timeout_ms=200).values()))
    finally:
        consumer.close()
    return int(ends[0]) - n_read


def clean_often(address: str) -> None:
    """Have the broker look for segments to clean all the time."""
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        admin.alter_configs([
            ConfigResource(ConfigResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "300"})
        ])  # fmt: skip
    finally:
        admin.close()


def main() -> None:
    """Run storms with 1 to 5 members against a private broker that is killed too."""
    if sys.argv[1:] == ["fork-server"]:
        serve_members()
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, help="append what members have printed to this file")
    options = parser.parse_args()
    sizes = (3, 1, 5, 2, 4)
    with tempfile.TemporaryDirectory() as folder:
        broker = PrivateBroker(Path(folder) / "kafka")
        try:
            clean_often(broker.address)
            for k, members in enumerate(sizes):
                storm_folder = Path(folder) / str(k)
                storm_folder.mkdir()
                seconds = 60.0 * options.minutes / len(sizes)
                count = run(
                    broker.address, members, storm_folder, options.seed, seconds=seconds,
                    broker=broker,
                )  # fmt: skip
                summary = ", ".join(f"{event} {n:,}" for event, n in sorted(count.items()))
                print(f"{members} members: {summary}", flush=True)
                for line in sorted(set(exception_lines(storm_folder / "workers.log"))):
                    print(f"    {line}", flush=True)
                if options.log is not None:
                    with options.log.open("a") as log:
                        log.write((storm_folder / "workers.log").read_text())
        finally:
            broker.close()


if __name__ == "__main__":
    main()
