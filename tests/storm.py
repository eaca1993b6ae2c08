"""A storm over the processes of a group: killed, stopped, frozen, and their broker too.

Each partition has to be learnt as by one run without an end: weights, intercept, report and counts
to the bit; and the dead letters have to be the records that are none, each once at least.
`scripts/test --storm` has 200 processes killed; the suite a few.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SESSION = 2.0
LAST_STEP = 24
"""The calls of a save, or two, at each of which a process is to die."""


def model() -> Any:
    import streaml1

    return streaml1.ElasticNetClassifier(l1=1e-4, l2=1e-4)


# One process of the group


def die_at(step: int) -> None:
    """Have the call of that number, of those that saves and claims make, be the last."""
    left = [step]

    def dying(call: Any) -> Any:
        def wrapped(*args: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            result = call(*args, **options)
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    for name in ("fsync", "replace", "link", "listdir"):
        setattr(os, name, dying(getattr(os, name)))
    Path.unlink = dying(Path.unlink)  # type: ignore[method-assign]


def work(url: str, folder: str, step: int) -> int:
    """Learn until SIGTERM."""
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


def nursery() -> None:
    """Fork a worker for each line `url folder step log` read; it is all compiled and imported."""
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
            number = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for one in (1, 2):
                os.dup2(number, one)
            code = 70
            try:
                code = work(url, folder, int(step))
            finally:
                os._exit(code)
        print(pid, flush=True)
        threading.Thread(target=_reap, args=(pid, f"{log}.ends"), daemon=True).start()


def _reap(pid: int, ends: str) -> None:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with open(ends, "a") as file:
        file.write(f"{pid} {status}\n")


# Those around it


class Nursery:
    """Processes of the group, by number; a new one comes at once."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.log = folder.parent / "workers.log"
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.storm", "nursery"], cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None and self._process.stdout.readline() == "ready\n"

    def start(self, step: int = 0) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{self.url} {self.folder} {step} {self.log}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def ends(self) -> dict[int, int]:
        """The exit codes of those that have ended."""
        try:
            lines = Path(f"{self.log}.ends").read_text().splitlines()
        except FileNotFoundError:
            return {}
        return {int(pid): int(code) for pid, code in (line.split() for line in lines)}

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class OwnBroker:
    """A broker that may be killed."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._told = [sys.executable, "scripts/kafka.d/broker.py"]
        self.address = subprocess.run(
            [*self._told, "up", "--state", str(state)], cwd=ROOT, check=True, capture_output=True,
            text=True,
        ).stdout.strip()  # fmt: skip
        self._pid = int(json.loads((state / "broker.json").read_text())["pid"])
        line = Path(f"/proc/{self._pid}/cmdline").read_bytes().split(b"\0")[:-1]
        self._command = [os.fsdecode(part) for part in line]
        self._again: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        if self._again is not None:
            self._again.wait()
        while Path(f"/proc/{self._pid}/cmdline").exists():
            if not Path(f"/proc/{self._pid}/cmdline").read_bytes():
                break  # a zombie of another parent
            time.sleep(0.05)

    def restart(self) -> None:
        with open(self.state / "again.log", "ab") as log:
            self._again = subprocess.Popen(self._command, stdout=log, stderr=log)
        self._pid = self._again.pid

    def close(self) -> None:
        self.kill()
        if self._again is None:
            subprocess.run([*self._told, "down", "--state", str(self.state)], cwd=ROOT)


def rows(n: int, seed: int) -> list[str]:
    """Examples of svmlight; one in 200 is none."""
    rng = random.Random(seed)
    return [
        "spam"
        if rng.random() < 0.005
        else f"{rng.choice((1, -1))} "
        + " ".join(f"{k}:{rng.uniform(-1, 1):.4g}" for k in sorted(rng.sample(range(1, 900), 6)))
        for _ in range(n)
    ]


class Feed(threading.Thread):
    """Sends examples to all partitions, so many a second, until told to stop."""

    def __init__(self, address: str, topic: str, partitions: int, per_second: int) -> None:
        super().__init__(daemon=True)
        self._rows, self._per_second = rows(20_000, 7), per_second
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
    """What happens to the workers of one topic, at random but for the steps, which go round."""

    def __init__(self, url: str, workers: int, folder: Path, seed: int, broker: OwnBroker | None):
        self.nursery = Nursery(url, folder / "kept")
        self.count: Counter[str] = Counter()
        self._rng, self._broker = random.Random(seed), broker
        self._alive = [self.nursery.start() for _ in range(workers)]
        self._frozen: dict[int, float] = {}
        self._step = 0
        self._killed: set[int] = set()
        self._spared: dict[int, float] = {}

    def until(self, kills: int, seconds: float) -> None:
        """Go on until so many were killed, or so long."""
        limit = time.monotonic() + seconds
        while self.count["killed"] + self.count["died in a save"] < kills:
            if time.monotonic() > limit:
                raise AssertionError(f"it takes too long: {dict(self.count)}")
            time.sleep(self._rng.uniform(0.1, 0.7))
            self._thaw(time.monotonic())
            self._replace()
            self._strike()

    def _strike(self) -> None:
        now = time.monotonic()
        standing = [
            one for one in self._alive if one not in self._frozen and now > self._spared.get(one, 0)
        ]
        if not standing:
            return
        pid, luck = self._rng.choice(standing), self._rng.random()
        if luck < 0.5:
            self._send(pid, signal.SIGKILL, "killed")
        elif luck < 0.6:
            self._send(pid, signal.SIGTERM, "told to end")
        elif luck < (0.8 if len(self._alive) > 1 else 0.65):
            self._send(pid, signal.SIGSTOP, "frozen")
            self._frozen[pid] = time.monotonic() + self._rng.uniform(0.5, 2.5) * SESSION
        elif 0.8 < luck < 0.83 and self._broker is not None:
            self._broker.kill()
            self.count["broker killed"] += 1
            time.sleep(self._rng.uniform(0.0, 1.0))
            self._broker.restart()

    def _send(self, pid: int, number: int, what: str) -> None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:  # dead in a save
            return
        self.count[what] += 1
        if number == signal.SIGKILL:
            self._killed.add(pid)

    def _thaw(self, now: float) -> None:
        for pid, when in list(self._frozen.items()):
            if now >= when:
                del self._frozen[pid]
                with_pid(pid, signal.SIGCONT)

    def _replace(self) -> None:
        ends = self.nursery.ends()
        for pid in [one for one in self._alive if one in ends]:
            self._frozen.pop(pid, None)
            code = ends[pid]
            self.count["died in a save"] += code == -9 and pid not in self._killed
            self.count["ended as overtaken"] += code == 3
            self.count["ended with an error"] += code not in (0, 3, -9, -15)
            self._alive.remove(pid)
            step = 0
            if self._rng.random() < 0.4:
                self._step = step = self._step % LAST_STEP + 1
            new = self.nursery.start(step)
            self._alive.append(new)
            if step:  # it has some time to come so far
                self._spared[new] = time.monotonic() + 3.0 * SESSION

    def calm(self, url: str, seconds: float) -> None:
        """Let the workers learn to the end of the topic, and end."""
        limit = time.monotonic() + seconds
        while behind := lag(url, self.nursery.folder):
            if time.monotonic() > limit:
                log = self.nursery.log.read_text()[-3000:]
                raise AssertionError(f"{behind} records behind: {dict(self.count)}\n{log}")
            self._thaw(float("inf"))
            self._replace()
            time.sleep(0.3)
        for pid in self._alive:
            with_pid(pid, signal.SIGTERM)
        while not set(self._alive) <= self.nursery.ends().keys():
            if time.monotonic() > limit:
                raise AssertionError("a worker does not end")
            time.sleep(0.05)

    def close(self) -> None:
        for pid in self._alive:
            with_pid(pid, signal.SIGKILL)
        self.nursery.close()


def with_pid(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def lag(url: str, folder: Path) -> int:
    """How many records no checkpoint has passed."""
    from streaml1.sources.kafka.topic import Topic
    from streaml1.training.checkpoint import load_latest
    from streaml1.training.consumer_group import partition_directory

    topic = Topic(url)
    consumer = topic.consumer(lambda: False)
    try:
        _, ends = topic.bounds(consumer, "earliest", None, {})
    finally:
        consumer.close()
    behind = 0
    for one, end in ends.items():
        place = partition_directory(folder, topic.name, one)
        found = load_latest(place) if place.is_dir() else None
        behind += end - (0 if found is None else found.position[str(one)][0])
    return behind


def differences(
    url: str, folder: Path, partitions: int, every: int = 500, bad: str = "skip"
) -> list[str]:
    """What of the partitions is not as one run without an end has it."""
    from streaml1.sources.kafka.topic import Topic
    from streaml1.training import progressive
    from streaml1.training.checkpoint import load_latest
    from streaml1.training.consumer_group import partition_directory

    wrong = []
    for one in range(partitions):
        found = load_latest(partition_directory(folder, Topic(url).name, one))
        expected = model()
        report = progressive(expected, url, until_end=True, partitions=[one], bad=bad,
                             every=every)  # fmt: skip
        assert found is not None
        facts, arrays = report.state_dict()
        told = {
            "weights": (found.model.weights, expected.weights),
            "intercept": (found.model.intercept, expected.intercept),
            "steps": (found.model.n_iterations, expected.n_iterations),
            **{what: (found.report[0][what], json.loads(json.dumps(facts[what])))
               for what in ("examples", "refused", "all", "total")},
            "window": (found.report[1]["y"].tolist(), arrays["y"].tolist()),
            "predictions": (found.report[1]["p"].tolist(), arrays["p"].tolist()),
            "lines": tuple(lines_of(these["lines"], every) for these in (found.report[0], facts)),
        }  # fmt: skip
        wrong += [f"{what} of partition {one}" for what, (a, b) in told.items() if a != b]
        if not found.model.n_iterations:
            wrong.append(f"partition {one} has learnt nothing")
    return wrong


def misplaced(address: str, url: str, partitions: int) -> tuple[list[str], int]:
    """What of the dead letters is too much or too little, and how many were written twice."""
    import kafka

    from streaml1.training import Observer, progressive
    from streaml1.training.record_coordinates import record_key

    expected: dict[str, bytes] = {}

    class Collect(Observer):
        essential = True

        def on_rejected(self, refused: Any) -> None:
            expected[record_key(refused.place, refused.origin)] = refused.origin.value

    for one in range(partitions):
        options: dict[str, Any] = {"until_end": True, "partitions": [one], "bad": "skip"}
        progressive(model(), url, observers=[Collect()], **options)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False
    )
    name = url.rpartition("/")[2] + ".dlq"
    parts = [kafka.TopicPartition(name, one) for one in consumer.partitions_for_topic(name) or ()]
    consumer.assign(parts)
    left = sum(consumer.end_offsets(parts).values())
    told: list[tuple[str, bytes]] = []
    limit = time.monotonic() + 30.0
    while len(told) < left and time.monotonic() < limit:
        for records in consumer.poll(timeout_ms=500).values():
            told += [(record.key.decode(), record.value) for record in records]
    consumer.close()
    wrong = [f"{key} is not among the dead letters" for key in expected.keys() - dict(told).keys()]
    wrong += [f"{key} is a dead letter, {value!r}" for key, value in set(told)
              if expected.get(key) != value]  # fmt: skip
    if not expected:
        wrong.append("nothing was refused")
    return wrong, len(told) - len(expected)


def lines_of(lines: list[dict[str, Any]], every: int) -> list[Any]:
    """What lines tell that does not depend on when processes began, but for those at an end."""
    names = ("examples", "loss", "recent_loss", "constant_loss", "error", "n_nonzero")
    return [[line[name] for name in names] for line in lines if line["examples"] % every == 0]


def complaints(log: Path) -> list[str]:
    """The last lines of what workers that ended with an error have said."""
    lines = log.read_text().splitlines()
    return [line for line in lines if re.match(r"(\w+\.)+[A-Z]\w+:|[A-Z]\w+Error\b", line)]


@contextmanager
def stormy(
    address: str, workers: int, folder: Path, *, partitions: int, per_second: int, seed: int,
    broker: OwnBroker | None = None,
) -> Iterator[tuple[Storm, str, Feed]]:  # fmt: skip
    """A topic that fills, and workers on it."""
    from kafka.admin import KafkaAdminClient, NewTopic

    name = f"storm-{workers}-{seed}-{os.getpid()}"
    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        admin.create_topics([NewTopic(name, partitions, 1)])
    finally:
        admin.close()
    url = f"kafka://{address}/{name}"
    feed = Feed(address, name, partitions, per_second)
    feed.start()
    storm = Storm(url, workers, folder, seed, broker)
    try:
        yield storm, url, feed
    finally:
        feed.stopping.set()
        storm.close()


def run(address: str, workers: int, kills: int, folder: Path, seed: int,
        broker: OwnBroker | None = None, per_second: int = 3000) -> Counter[str]:  # fmt: skip
    """One storm, and what is left of it compared; returns what happened."""
    partitions = workers + 2
    with stormy(address, workers, folder, partitions=partitions, per_second=per_second, seed=seed,
                broker=broker) as (storm, url, feed):  # fmt: skip
        storm.until(kills, 60.0 + 4.0 * kills)
        feed.stopping.set()
        feed.join(90)
        storm.calm(url, 90.0)
        wrong = differences(url, storm.nursery.folder, partitions)
        letters, twice = misplaced(address, url, partitions)
        wrong += letters
        assert not wrong, (wrong, dict(storm.count))
        storm.count["dead letters twice"] = twice
        storm.count["examples"] = feed.sent
        return storm.count


def main() -> None:
    """Storms with 1, 2 and 3 workers, beside a broker of their own that is killed too."""
    if sys.argv[1:] == ["nursery"]:
        nursery()
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = OwnBroker(Path(folder) / "kafka")
        try:
            for workers in (1, 2, 3):
                began, here = time.monotonic(), Path(folder) / str(workers)
                here.mkdir()
                kills = asked.kills // 3 + (workers <= asked.kills % 3)
                count = run(broker.address, workers, kills, here, asked.seed, broker)
                told = ", ".join(f"{what} {n:,}" for what, n in sorted(count.items()))
                seconds = time.monotonic() - began
                print(f"{workers} workers, {seconds:.0f} s: {told}: equal to the bit", flush=True)
                for line in sorted(set(complaints(here / "workers.log"))):
                    print(f"    {line}", flush=True)
        finally:
            broker.close()


if __name__ == "__main__":
    main()
