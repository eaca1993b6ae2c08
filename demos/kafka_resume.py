"""Kill a Kafka consumer repeatedly and show that the result does not change.

    python demos/kafka_resume.py [--kills N]

Starts a broker (scripts/kafka) unless one is running, and fills a topic with the functions of the
standard library. Learns the topic once without interruption, and once by processes that kill
themselves with SIGKILL at random moments; each resumes from the checkpoint of the previous one.
Checks that the weights are bit-identical and plots both runs to out/kafka_resume.png. Takes half a
minute.
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


class Process(NamedTuple):
    """One consumer process: examples, mean loss and non-zero weights of each reported line."""

    lines: list[tuple[int, float, int]]
    killed: bool


def learn_topic(url: str, directory: Path, lines: int | None) -> None:
    """Learn the topic; shortly after `lines` lines, kill this process with SIGKILL."""
    line_numbers = itertools.count(1)

    def print_line(line: Any) -> None:
        if next(line_numbers) == lines:
            threading.Timer(random.uniform(0.0, 0.02), kill_self).start()
        print(json.dumps([line.examples, line.loss, line.n_nonzero]), flush=True)
        time.sleep(0.005)  # so that the run does not end before it is killed

    with Checkpoints(directory, seconds=0.1) as checkpoints:
        streaml1.progressive(
            streaml1.ElasticNetClassifier(l1=1e-4),
            url, until_end=True, every=EVERY, on_line=print_line, checkpoint=checkpoints,
        )  # fmt: skip


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_process(url: str, directory: Path, lines: int | None) -> Process:
    command = [sys.executable, str(SCRIPT), "--consume", url, str(directory)]
    limit = [] if lines is None else ["--lines", str(lines)]
    finished = subprocess.run([*command, *limit], stdout=subprocess.PIPE, text=True)
    if finished.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"the consumer exited with code {finished.returncode}")
    reported = [tuple(json.loads(line)) for line in finished.stdout.splitlines()]
    return Process(reported, finished.returncode != 0)


def fill_topic(address: str) -> str:
    """Create a topic with the stream `stdlib`, one function per record; return its URL."""
    import kafka
    from kafka.admin import KafkaAdminClient, NewTopic

    topic = f"functions-{uuid.uuid4().hex[:8]}"
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    admin.close()
    producer = kafka.KafkaProducer(bootstrap_servers=address, linger_ms=20)
    for k, (x, y) in enumerate(streaml1.datasets.stdlib()):
        value = json.dumps({"x": x, "y": y}).encode()
        producer.send(topic, value, partition=k % PARTITIONS, timestamp_ms=k)
    producer.close()
    return f"kafka://{address}/{topic}"


def latest_checkpoint(directory: Path) -> Any:
    with Checkpoints(directory) as checkpoints:
        checkpoint = checkpoints.latest()
        assert checkpoint is not None
        return checkpoint


def learn_with_kills(kills: int, directory: Path) -> None:
    was_up = subprocess.run([*BROKER, "status"], stdout=subprocess.DEVNULL).returncode == 0
    up = subprocess.run([*BROKER, "up"], check=True, stdout=subprocess.PIPE, text=True)
    try:
        url = fill_topic(up.stdout.split()[-1])
        print(f"{url}: {PARTITIONS} partitions")
        begin = time.monotonic()
        uninterrupted = run_process(url, directory / "whole", None)
        seconds = time.monotonic() - begin
        print(f"uninterrupted: {uninterrupted.lines[-1][0]:,} examples, {seconds:.1f} s")
        rng = random.Random(2024)
        processes: list[Process] = []
        while killed_count(processes) < kills and (not processes or processes[-1].killed):
            processes.append(run_process(url, directory / "broken", rng.randint(8, 28)))
            print_process(len(processes), processes[-1])
        if processes[-1].killed:
            processes.append(run_process(url, directory / "broken", None))
            print_process(len(processes), processes[-1])
    finally:
        if not was_up:
            subprocess.run([*BROKER, "down"], check=True)
    require_equal(latest_checkpoint(directory / "whole"), latest_checkpoint(directory / "broken"))
    plot(uninterrupted, processes)


def print_process(k: int, process: Process) -> None:
    span = (
        f"examples {process.lines[0][0]:,} to {process.lines[-1][0]:,}"
        if process.lines
        else "no line"
    )
    print(f"process {k:2}: {span:28} {'killed' if process.killed else 'finished'}")


def killed_count(processes: list[Process]) -> int:
    return sum(process.killed for process in processes)


def require_equal(uninterrupted: Any, interrupted: Any) -> None:
    equal = uninterrupted.model.weights == interrupted.model.weights
    equal &= uninterrupted.model.intercept == interrupted.model.intercept
    positions_equal = uninterrupted.position == interrupted.position
    print(
        f"{uninterrupted.model.n_nonzero:,} weights and the intercept are "
        f"{'bit-identical' if equal else 'NOT EQUAL'}; "
        f"the offsets are {'equal' if positions_equal else 'NOT EQUAL'}"
    )
    if not (equal and positions_equal):
        raise SystemExit("the interrupted run differs from the uninterrupted one")


def plot(uninterrupted: Process, processes: list[Process]) -> None:
    figure, (loss, sizes) = plt.subplots(2, 1, sharex=True, figsize=(9, 6.5), layout="constrained")
    for axis, column, what in (
        (loss, 1, "progressive log-loss"),
        (sizes, 2, "non-zero weights"),
    ):
        axis.plot(
            [line[0] for line in uninterrupted.lines],
            [line[column] for line in uninterrupted.lines],
            color="0.8", lw=7, solid_capstyle="round", label="uninterrupted",
        )  # fmt: skip
        for k, process in enumerate(processes):
            axis.plot(
                [line[0] for line in process.lines], [line[column] for line in process.lines],
                color=f"C{k % 10}", lw=1.4, marker=".", ms=3,
            )  # fmt: skip
            if process.killed and process.lines:
                last = process.lines[-1]
                label = "killed here" if k == 0 else None
                axis.plot(last[0], last[column], "x", color="black", ms=8, mew=2, label=label)
        axis.set_ylabel(what)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    loss.legend(frameon=False)
    sizes.set_xlabel("examples learnt; one colour per process")
    kills = killed_count(processes)
    loss.set_title(f"One topic, learnt without interruption and by processes killed {kills} times")
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / "kafka_resume.png", dpi=150)
    print(OUT / "kafka_resume.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=8, help="number of kills (default: 8)")
    parser.add_argument("--consume", nargs=2, metavar=("URL", "DIRECTORY"), help=argparse.SUPPRESS)
    parser.add_argument("--lines", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.consume:
        learn_topic(args.consume[0], Path(args.consume[1]), args.lines)
        return
    with tempfile.TemporaryDirectory() as directory:
        learn_with_kills(args.kills, Path(directory))


if __name__ == "__main__":
    main()
