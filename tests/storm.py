"""Fault injection for a consumer group: kill, stop and freeze its workers and its broker.

Afterwards each partition must equal one uninterrupted run: weights, intercept, report and counts
are bit-identical. Every invalid record must be among the dead letters at least once, and no other.
`scripts/test --storm` kills 200 processes; the test suite kills a few.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SESSION = 2.0
N_STEPS = 24
"""Number of system calls in one or two saves; workers are killed at each of them in turn."""


def model() -> Any:
    import streaml1

    return streaml1.ElasticNetClassifier(lr=0.1, l1=1e-4, l2=1e-4)


# A worker process


def die_at(step: int) -> None:
    """Kill this process at the given system call of a checkpoint save or claim."""
    remaining = [step]

    def wrap(call: Any) -> Any:
        def wrapped(*args: Any, **options: Any) -> Any:
            remaining[0] -= 1
            if remaining[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            result = call(*args, **options)
            remaining[0] -= 1
            if remaining[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    for name in ("fsync", "replace", "link", "listdir"):
        setattr(os, name, wrap(getattr(os, name)))
    Path.unlink = wrap(Path.unlink)  # type: ignore[method-assign]


def run_worker(url: str, folder: str, step: int) -> int:
    """Run one worker of the group until SIGTERM; return its exit code."""
    from streaml1.training.checkpoint import TakenOver
    from streaml1.training.consumer_group import Group
    from streaml1.training.dead_letters import DeadLetters

    faulthandler.register(signal.SIGUSR1)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *args: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    @contextmanager
    def dead_letters(partition: int) -> Iterator[Any]:
        with DeadLetters(url) as letters:
            yield [letters]

    group = Group(model(), url, group="storm", directory=folder, every=500, bad="skip", seconds=0.2,
                  session=SESSION, observers=dead_letters)  # fmt: skip
    if step:
        die_at(step)
    try:
        group.run(stopping.is_set)
    except TakenOver:
        return 3
    except BaseException:
        traceback.print_exc()
        return 75
    return 0


def serve_forks(run: Callable[[str, str, int], int] = run_worker) -> None:
    """Fork a worker for each line `url folder step log` on standard input.

    Workers start fast because this process has already imported and compiled everything.
    """
    import streaml1.training.consumer_group  # noqa: F401
    import streaml1.training.dead_letters  # noqa: F401
    from streaml1.training import prepare

    prepare(model())
    signal.signal(signal.SIGCHLD, lambda *args: None)
    print("ready", flush=True)
    for line in sys.stdin:
        url, folder, step, log = line.split()
        pid = os.fork()
        if pid == 0:
            log_descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for descriptor in (1, 2):
                os.dup2(log_descriptor, descriptor)
            code = 70
            try:
                code = run(url, folder, int(step))
            finally:
                os._exit(code)
        print(pid, flush=True)
        threading.Thread(target=_reap, args=(pid, f"{log}.ends"), daemon=True).start()


def _reap(pid: int, exits_path: str) -> None:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with open(exits_path, "a") as file:
        file.write(f"{pid} {status}\n")


# Worker processes and the broker


class ForkServer:
    """A prepared process that forks the workers of the group."""

    def __init__(self, url: str, folder: Path, module: str = "tests.storm") -> None:
        self.url, self.folder = url, folder
        self.log = folder.parent / "workers.log"
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, "fork-server"], cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None and self._process.stdout.readline() == "ready\n"

    def start(self, step: int = 0) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{self.url} {self.folder} {step} {self.log}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def exit_codes(self) -> dict[int, int]:
        """Return the exit codes of the workers that have ended, by process id."""
        try:
            lines = Path(f"{self.log}.ends").read_text().splitlines()
        except FileNotFoundError:
            return {}
        return {int(pid): int(code) for pid, code in (line.split() for line in lines)}

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class PrivateBroker:
    """A private broker that can be killed and restarted."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._broker_script = [sys.executable, "scripts/kafka.d/broker.py"]
        self.address = subprocess.run(
            [*self._broker_script, "up", "--state", str(state)], cwd=ROOT, check=True,
            capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        self._pid = int(json.loads((state / "broker.json").read_text())["pid"])
        line = Path(f"/proc/{self._pid}/cmdline").read_bytes().split(b"\0")[:-1]
        self._command = [os.fsdecode(part) for part in line]
        self._restarted: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        if self._restarted is not None:
            self._restarted.wait()
        while Path(f"/proc/{self._pid}/cmdline").exists():
            if not Path(f"/proc/{self._pid}/cmdline").read_bytes():
                break  # a zombie: its parent has not reaped it
            time.sleep(0.05)

    def restart(self) -> None:
        with open(self.state / "restarted.log", "ab") as log:
            self._restarted = subprocess.Popen(self._command, stdout=log, stderr=log)
        self._pid = self._restarted.pid

    def close(self) -> None:
        self.kill()
        if self._restarted is None:
            subprocess.run([*self._broker_script, "down", "--state", str(self.state)], cwd=ROOT)


def svmlight_lines(n: int, seed: int) -> list[str]:
    """Return svmlight lines, of which one in 200 is invalid."""
    rng = random.Random(seed)
    return [
        "spam"
        if rng.random() < 0.005
        else f"{rng.choice((1, -1))} "
        + " ".join(f"{k}:{rng.uniform(-1, 1):.4g}" for k in sorted(rng.sample(range(1, 900), 6)))
        for _ in range(n)
    ]


class Feed(threading.Thread):
    """A producer thread: sends about `per_second` examples to random partitions until stopped."""

    def __init__(self, address: str, topic: str, partitions: int, per_second: int) -> None:
        super().__init__(daemon=True)
        self._rows, self._per_second = svmlight_lines(20_000, 7), per_second
        self._address, self._topic, self._partitions = address, topic, partitions
        self.stopping = threading.Event()
        self.sent = 0

    def run(self) -> None:
        import kafka

        producer = kafka.KafkaProducer(bootstrap_servers=self._address, linger_ms=20)
        rng = random.Random(3)
        while not self.stopping.wait(0.1):
            for _ in range(self._per_second // 30):
                lines = [self._rows[rng.randrange(len(self._rows))] for _ in range(3)]
                part = rng.randrange(self._partitions)
                producer.send(self._topic, "\n".join(lines).encode(), partition=part)
                self.sent += 3
        producer.flush(60)
        producer.close(timeout=10)


class Storm:
    """Random faults for the workers of one topic; cycles through the kill steps."""

    def __init__(
        self, url: str, workers: int, folder: Path, seed: int, broker: PrivateBroker | None
    ):
        self.fork_server = ForkServer(url, folder / "checkpoints")
        self.count: Counter[str] = Counter()
        self._rng, self._broker = random.Random(seed), broker
        self._alive = [self.fork_server.start() for _ in range(workers)]
        self._frozen: dict[int, float] = {}
        self._step = 0
        self._killed: set[int] = set()
        self._protected_until: dict[int, float] = {}

    def inject_faults(self, kills: int, seconds: float) -> None:
        """Inject faults until `kills` workers died; raise AssertionError after `seconds`."""
        limit = time.monotonic() + seconds
        while self.count["killed"] + self.count["died in a save"] < kills:
            if time.monotonic() > limit:
                raise AssertionError(f"timed out: {dict(self.count)}")
            time.sleep(self._rng.uniform(0.1, 0.7))
            self._thaw(time.monotonic())
            self._replace()
            self._strike()

    def _strike(self) -> None:
        now = time.monotonic()
        candidates = [
            worker
            for worker in self._alive
            if worker not in self._frozen and now > self._protected_until.get(worker, 0)
        ]
        if not candidates:
            return
        pid, draw = self._rng.choice(candidates), self._rng.random()
        if draw < 0.5:
            self._send(pid, signal.SIGKILL, "killed")
        elif draw < 0.6:
            self._send(pid, signal.SIGTERM, "terminated")
        elif draw < (0.8 if len(self._alive) > 1 else 0.65):
            self._send(pid, signal.SIGSTOP, "frozen")
            self._frozen[pid] = time.monotonic() + self._rng.uniform(0.5, 2.5) * SESSION
        elif 0.8 < draw < 0.83 and self._broker is not None:
            self._broker.kill()
            self.count["broker killed"] += 1
            time.sleep(self._rng.uniform(0.0, 1.0))
            self._broker.restart()

    def _send(self, pid: int, signum: int, event: str) -> None:
        try:
            os.kill(pid, signum)
        except ProcessLookupError:  # it already died in a save
            return
        self.count[event] += 1
        if signum == signal.SIGKILL:
            self._killed.add(pid)

    def _thaw(self, now: float) -> None:
        for pid, thaw_at in list(self._frozen.items()):
            if now >= thaw_at:
                del self._frozen[pid]
                signal_if_alive(pid, signal.SIGCONT)

    def _replace(self) -> None:
        exit_codes = self.fork_server.exit_codes()
        for pid in [worker for worker in self._alive if worker in exit_codes]:
            self._frozen.pop(pid, None)
            code = exit_codes[pid]
            self.count["died in a save"] += code == -9 and pid not in self._killed
            self.count["ended after takeover"] += code == 3
            self.count["ended with an error"] += code not in (0, 3, -9, -15)
            self._alive.remove(pid)
            step = 0
            if self._rng.random() < 0.4:
                self._step = step = self._step % N_STEPS + 1
            new = self.fork_server.start(step)
            self._alive.append(new)
            if step:  # give it time to reach that step
                self._protected_until[new] = time.monotonic() + 3.0 * SESSION

    def drain(self, url: str, seconds: float) -> None:
        """Wait until the workers have consumed the topic, then stop them."""
        limit = time.monotonic() + seconds
        while n_behind := lag(url, self.fork_server.folder):
            if time.monotonic() > limit:
                log = self.fork_server.log.read_text()[-3000:]
                raise AssertionError(f"{n_behind} records behind: {dict(self.count)}\n{log}")
            self._thaw(float("inf"))
            self._replace()
            time.sleep(0.3)
        for pid in self._alive:
            signal_if_alive(pid, signal.SIGTERM)
        while not set(self._alive) <= self.fork_server.exit_codes().keys():
            if time.monotonic() > limit:
                raise AssertionError("a worker does not exit")
            time.sleep(0.05)

    def close(self) -> None:
        for pid in self._alive:
            signal_if_alive(pid, signal.SIGKILL)
        self.fork_server.close()


def signal_if_alive(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return


def lag(url: str, folder: Path) -> int:
    """Return the number of records beyond the latest checkpoints."""
    from streaml1.sources.kafka.topic import Topic
    from streaml1.training.checkpoint import load_latest
    from streaml1.training.consumer_group import partition_directory

    topic = Topic(url)
    consumer = topic.consumer(lambda: False)
    try:
        _, ends = topic.bounds(consumer, "earliest", None, {})
    finally:
        consumer.close()
    n_behind = 0
    for partition, end in ends.items():
        partition_path = partition_directory(folder, topic.name, partition)
        checkpoint = load_latest(partition_path) if partition_path.is_dir() else None
        n_behind += end - (0 if checkpoint is None else checkpoint.position[str(partition)][0])
    return n_behind


def differences(
    url: str, folder: Path, partitions: int, every: int = 500, bad: str = "skip"
) -> list[str]:
    """Return how the partitions differ from one uninterrupted run; empty if bit-identical."""
    from streaml1.sources.kafka.topic import Topic
    from streaml1.training import progressive
    from streaml1.training.checkpoint import load_latest
    from streaml1.training.consumer_group import partition_directory

    problems = []
    for partition in range(partitions):
        checkpoint = load_latest(partition_directory(folder, Topic(url).name, partition))
        expected = model()
        report = progressive(expected, url, until_end=True, partitions=[partition], bad=bad,
                             every=every)  # fmt: skip
        assert checkpoint is not None
        facts, arrays = report.state_dict()
        fields = {
            "weights": (checkpoint.model.weights, expected.weights),
            "intercept": (checkpoint.model.intercept, expected.intercept),
            "steps": (checkpoint.model.n_iterations, expected.n_iterations),
            **{name: (checkpoint.report[0][name], json.loads(json.dumps(facts[name])))
               for name in ("examples", "refused", "all", "total")},
            "window": (checkpoint.report[1]["y"].tolist(), arrays["y"].tolist()),
            "predictions": (checkpoint.report[1]["p"].tolist(), arrays["p"].tolist()),
            "lines": (lines_of(checkpoint.report[0]["lines"], every),
                      lines_of(facts["lines"], every)),
        }  # fmt: skip
        problems += [
            f"{name} of partition {partition}"
            for name, (got, expected_value) in fields.items()
            if got != expected_value
        ]
        if not checkpoint.model.n_iterations:
            problems.append(f"partition {partition} has learnt nothing")
    return problems


def check_dead_letters(address: str, url: str, partitions: int) -> tuple[list[str], int]:
    """Return missing and unexpected dead letters, and the number of duplicates."""
    import kafka

    from streaml1.training import Observer, progressive
    from streaml1.training.record_coordinates import record_key

    expected: dict[str, bytes] = {}

    class Collect(Observer):
        essential = True

        def on_rejected(self, rejected: Any) -> None:
            expected[record_key(rejected.place, rejected.origin)] = rejected.origin.value

    for partition in range(partitions):
        options: dict[str, Any] = {"until_end": True, "partitions": [partition], "bad": "skip"}
        progressive(model(), url, observers=[Collect()], **options)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False
    )
    dlq_name = url.rpartition("/")[2] + ".dlq"
    dlq_partitions = [
        kafka.TopicPartition(dlq_name, partition)
        for partition in consumer.partitions_for_topic(dlq_name) or ()
    ]
    consumer.assign(dlq_partitions)
    n_expected = sum(consumer.end_offsets(dlq_partitions).values())
    received: list[tuple[str, bytes]] = []
    limit = time.monotonic() + 30.0
    while len(received) < n_expected and time.monotonic() < limit:
        for records in consumer.poll(timeout_ms=500).values():
            received += [(record.key.decode(), record.value) for record in records]
    consumer.close()
    problems = [f"dead letter {key} is missing" for key in expected.keys() - dict(received).keys()]
    problems += [f"unexpected dead letter {key}: {value!r}" for key, value in set(received)
              if expected.get(key) != value]  # fmt: skip
    if not expected:
        problems.append("no record was rejected")
    return problems, len(received) - len(expected)


def lines_of(lines: list[dict[str, Any]], every: int) -> list[Any]:
    """Return the report lines and fields that do not depend on when processes started.

    Only lines at multiples of `every` count: the others depend on when a process ended.
    """
    names = ("examples", "loss", "recent_loss", "constant_loss", "error", "n_nonzero")
    return [[line[name] for name in names] for line in lines if line["examples"] % every == 0]


def exception_lines(log: Path) -> list[str]:
    """Return the exception lines of the workers' tracebacks."""
    lines = log.read_text().splitlines()
    return [line for line in lines if re.match(r"(\w+\.)+[A-Z]\w+:|[A-Z]\w+Error\b", line)]


@contextmanager
def storm_on_topic(
    address: str, workers: int, folder: Path, *, partitions: int, per_second: int, seed: int,
    broker: PrivateBroker | None = None,
) -> Iterator[tuple[Storm, str, Feed]]:  # fmt: skip
    """Create a topic, a producer that fills it and workers that consume it."""
    from kafka.admin import KafkaAdminClient, NewTopic

    topic_name = f"storm-{workers}-{seed}-{os.getpid()}"
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        admin.create_topics([NewTopic(topic_name, partitions, 1)])
    finally:
        admin.close()
    url = f"kafka://{address}/{topic_name}"
    feed = Feed(address, topic_name, partitions, per_second)
    feed.start()
    storm = Storm(url, workers, folder, seed, broker)
    try:
        yield storm, url, feed
    finally:
        feed.stopping.set()
        storm.close()


def run(address: str, workers: int, kills: int, folder: Path, seed: int,
        broker: PrivateBroker | None = None, per_second: int = 3000) -> Counter[str]:  # fmt: skip
    """Run one storm, compare its result with uninterrupted runs and count what happened."""
    partitions = workers + 2
    with storm_on_topic(address, workers, folder, partitions=partitions, per_second=per_second,
                        seed=seed, broker=broker) as (storm, url, feed):  # fmt: skip
        storm.inject_faults(kills, 60.0 + 4.0 * kills)
        feed.stopping.set()
        feed.join(90)
        storm.drain(url, 90.0)
        problems = differences(url, storm.fork_server.folder, partitions)
        dead_letter_problems, duplicates = check_dead_letters(address, url, partitions)
        problems += dead_letter_problems
        assert not problems, (problems, dict(storm.count))
        storm.count["duplicate dead letters"] = duplicates
        storm.count["examples"] = feed.sent
        return storm.count


def main() -> None:
    """Run storms with 1, 2 and 3 workers against a private broker that is killed too."""
    if sys.argv[1:] == ["fork-server"]:
        serve_forks()
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = PrivateBroker(Path(folder) / "kafka")
        try:
            for workers in (1, 2, 3):
                started, storm_folder = time.monotonic(), Path(folder) / str(workers)
                storm_folder.mkdir()
                kills = options.kills // 3 + (workers <= options.kills % 3)
                count = run(broker.address, workers, kills, storm_folder, options.seed, broker)
                summary = ", ".join(f"{event} {n:,}" for event, n in sorted(count.items()))
                seconds = time.monotonic() - started
                print(f"{workers} workers, {seconds:.0f} s: {summary}: bit-identical", flush=True)
                for line in sorted(set(exception_lines(storm_folder / "workers.log"))):
                    print(f"    {line}", flush=True)
        finally:
            broker.close()


if __name__ == "__main__":
    main()
