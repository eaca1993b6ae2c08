"""A consumer of Kafka that is killed again and again, and what that changes: nothing.

    python demos/kafka_resume.py [--kills N]

Starts a broker (scripts/kafka) unless one is up, fills a topic with the functions of the standard
library, learns it once without a break, and once by processes that end themselves with SIGKILL at
random moments, each going on from the checkpoint that the one before has left. Compares the weights
bit by bit, and draws the interrupted curve over the uninterrupted one: out/kafka_resume.png. Takes
half a minute.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

import streaml1
import streaml1.datasets  # stdlib is one of them
from streaml1.training.checkpoint import Checkpoints

matplotlib.use("agg")
import matplotlib.pyplot as plt

SCRIPT = Path(__file__).resolve()
BROKER = [sys.executable, str(SCRIPT.parents[1] / "scripts" / "kafka.d" / "broker.py")]
OUT = Path("out")
EVERY = 100
PARTITIONS = 3


class Attempt(NamedTuple):
    """What one process has told: examples, mean loss and non-zero weights, line by line."""

    lines: list[tuple[int, float, int]]
    killed: bool


def consume(url: str, folder: Path, lines: int | None) -> None:
    """Learn the topic; somewhat after so many lines end this very process by SIGKILL."""
    told = itertools.count(1)

    def tell(line: Any) -> None:
        if next(told) == lines:
            threading.Timer(random.uniform(0.0, 0.02), end).start()
        print(json.dumps([line.examples, line.loss, line.n_nonzero]), flush=True)
        time.sleep(0.005)  # or it would be over before it is killed

    with Checkpoints(folder, seconds=0.1) as store:
        streaml1.progressive(
            streaml1.ElasticNetClassifier(l1=5e-4, lr=0.03, schedule="constant"),
            url, until_end=True, every=EVERY, on_line=tell, checkpoint=store,
        )  # fmt: skip


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def attempt(url: str, folder: Path, lines: int | None) -> Attempt:
    command = [sys.executable, str(SCRIPT), "--consume", url, str(folder)]
    limit = [] if lines is None else ["--lines", str(lines)]
    done = subprocess.run([*command, *limit], stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"the consumer ended with {done.returncode}")
    told = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    return Attempt(told, done.returncode != 0)


def fill(address: str) -> str:
    """A new topic with the stream `stdlib`, a function a record."""
    import kafka
    from kafka.admin import KafkaAdminClient, NewTopic

    topic = f"functions-{uuid.uuid4().hex[:8]}"
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    admin.close()
    producer = kafka.KafkaProducer(bootstrap_servers=address, linger_ms=20)
    for number, (x, y) in enumerate(streaml1.datasets.stdlib()):
        value = json.dumps({"x": x, "y": y}).encode()
        producer.send(topic, value, partition=number % PARTITIONS, timestamp_ms=number)
    producer.close()
    return f"kafka://{address}/{topic}"


def latest(folder: Path) -> Any:
    with Checkpoints(folder) as store:
        found = store.latest()
        assert found is not None
        return found


def run(kills: int, folder: Path) -> None:
    was_up = subprocess.run([*BROKER, "status"], stdout=subprocess.DEVNULL).returncode == 0
    up = subprocess.run([*BROKER, "up"], check=True, stdout=subprocess.PIPE, text=True)
    try:
        url = fill(up.stdout.split()[-1])
        print(f"{url}: {PARTITIONS} partitions")
        begin = time.monotonic()
        whole = attempt(url, folder / "whole", None)
        print(f"without a break: {whole.lines[-1][0]:,} examples, {time.monotonic() - begin:.1f} s")
        rng = random.Random(2024)
        tries: list[Attempt] = []
        while sum(one.killed for one in tries) < kills and not (tries and not tries[-1].killed):
            tries.append(attempt(url, folder / "broken", rng.randint(8, 28)))
            tell(len(tries), tries[-1])
        if tries[-1].killed:
            tries.append(attempt(url, folder / "broken", None))
            tell(len(tries), tries[-1])
    finally:
        if not was_up:
            subprocess.run([*BROKER, "down"], check=True)
    compare(latest(folder / "whole"), latest(folder / "broken"))
    draw(whole, tries)


def tell(number: int, one: Attempt) -> None:
    span = f"examples {one.lines[0][0]:,} to {one.lines[-1][0]:,}" if one.lines else "no line"
    print(f"process {number:2}: {span:28} {'killed' if one.killed else 'ran to the end'}")


def compare(whole: Any, broken: Any) -> None:
    equal = whole.model.weights == broken.model.weights
    equal &= whole.model.intercept == broken.model.intercept
    places = whole.position == broken.position
    print(
        f"{whole.model.n_nonzero:,} weights and the intercept are "
        f"{'equal, bit by bit' if equal else 'NOT EQUAL'}; "
        f"the positions are {'equal' if places else 'NOT EQUAL'}"
    )
    if not (equal and places):
        raise SystemExit("what was interrupted differs from what was not")


def draw(whole: Attempt, tries: list[Attempt]) -> None:
    figure, (loss, sizes) = plt.subplots(2, 1, sharex=True, figsize=(9, 6.5), layout="constrained")
    for axis, column, what in (
        (loss, 1, "log-loss so far"),
        (sizes, 2, "weights that are not zero"),
    ):
        axis.plot(
            [line[0] for line in whole.lines], [line[column] for line in whole.lines],
            color="0.8", lw=7, solid_capstyle="round", label="never interrupted",
        )  # fmt: skip
        for number, one in enumerate(tries):
            axis.plot(
                [line[0] for line in one.lines], [line[column] for line in one.lines],
                color=f"C{number % 10}", lw=1.4, marker=".", ms=3,
            )  # fmt: skip
            if one.killed and one.lines:
                last = one.lines[-1]
                label = "killed here" if number == 0 else None
                axis.plot(last[0], last[column], "x", color="black", ms=8, mew=2, label=label)
        axis.set_ylabel(what)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    loss.legend(frameon=False)
    sizes.set_xlabel("examples learnt, each line of colour by another process")
    kills = sum(one.killed for one in tries)
    loss.set_title(
        f"One topic, learnt once without a break and once by processes killed {kills} times"
    )
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / "kafka_resume.png", dpi=150)
    print(OUT / "kafka_resume.png")


def main() -> None:
    parser = argparse.ArgumentParser(description="A consumer that is killed again and again.")
    parser.add_argument("--kills", type=int, default=8, help="how often (default: 8)")
    parser.add_argument("--consume", nargs=2, metavar=("URL", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--lines", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.consume:
        consume(asked.consume[0], Path(asked.consume[1]), asked.lines)
        return
    with tempfile.TemporaryDirectory() as folder:
        run(asked.kills, Path(folder))


if __name__ == "__main__":
    main()
