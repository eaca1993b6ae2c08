"""Soak test: memory stays flat, the lag stays bounded, and the models equal those of a replay.

During the first half the topic is filled as fast as it is read, so that the learner never waits.
During the second half it is filled at 60% of that speed, and the lag must be short.
`scripts/test --soak MINUTES` runs it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests import storm

ROOT = Path(__file__).parent.parent
PARTITIONS = 2
EXAMPLES_PER_RECORD = 10
"""Examples per record."""
MIN_AHEAD = 2000
"""Minimum number of records kept ahead of the last checkpoint at full speed."""
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


def feed(address: str, topic: str) -> None:
    """Send records up to the latest total read from standard input; stop at its end."""
    import kafka

    limit = [0]

    def listen() -> None:
        for line in sys.stdin:
            limit[0] = int(line)
        limit[0] = -1

    threading.Thread(target=listen, daemon=True).start()
    records = make_records()
    producer = kafka.KafkaProducer(bootstrap_servers=address, linger_ms=20, batch_size=262_144)
    sent = 0
    while limit[0] >= 0:
        if sent >= limit[0]:
            time.sleep(0.002)
            continue
        producer.send(topic, records[sent % len(records)], partition=sent % PARTITIONS)
        sent += 1
    producer.flush(60)
    producer.close(timeout=10)
    print(sent)


def make_records() -> list[bytes]:
    """Return the distinct records to send."""
    rng = random.Random(5)
    labels = {1: 1, 0: -1}
    lines = []
    for _ in range(20_011):
        ids = sorted({1 + int(rng.paretovariate(0.4)) % 30_000 for _ in range(15)})
        y = labels[int(rng.random() < 1 / (1 + 2.0 ** (sum(k % 7 == 0 for k in ids) - 3)))]
        lines.append(f"{y} " + " ".join(f"{k}:{rng.uniform(0, 1):.3g}" for k in ids))
    n = len(lines)
    return [
        "\n".join(
            lines[(k * EXAMPLES_PER_RECORD + j) % n] for j in range(EXAMPLES_PER_RECORD)
        ).encode()
        for k in range(n)
    ]


def soak(address: str, minutes: float, folder: Path) -> str:
    """Run the soak test and return a summary; raise AssertionError if a check fails."""
    from kafka.admin import KafkaAdminClient, NewTopic

    name = f"soak-{os.getpid()}"
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    admin.close()
    url, checkpoints = f"kafka://{address}/{name}", folder / "checkpoints"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    log_descriptor = os.open(folder / "learner.log", os.O_WRONLY | os.O_CREAT)
    learner = subprocess.Popen(
        [sys.executable, "-m", "streaml1", "learn", "--lr", "0.1",
         url, "--per-partition", "--group", name,
         "--checkpoint", str(checkpoints), "--checkpoint-every", "1", "--every", "100000",
         "--l1", "1e-4", "--l2", "1e-4"],
        env=environment, stdout=log_descriptor, stderr=log_descriptor,
    )  # fmt: skip
    feeder: Any = subprocess.Popen(
        [sys.executable, "-m", "tests.soak", "--feed", address, name], cwd=ROOT, env=environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        samples, speed = watch(learner, feeder, checkpoints, name, 60.0 * minutes)
        sent = int(feeder.stdout.read())
        deadline = time.monotonic() + 120.0
        while progress(checkpoints, name) < sent:
            assert time.monotonic() < deadline and learner.poll() is None, (
                "the learner does not reach the end of the topic"
            )
            time.sleep(0.5)
        learner.send_signal(signal.SIGTERM)
        learner.wait(30)
    finally:
        feeder.stdout.close()
        for process in (learner, feeder):
            process.kill()
            process.wait()
        os.close(log_descriptor)
    assert learner.returncode == 128 + signal.SIGTERM, (folder / "learner.log").read_text()[-2000:]
    problems = storm.differences(url, checkpoints, PARTITIONS, every=100_000, bad="fail")
    assert not problems, problems
    return summarize(samples, speed, sent, minutes)


def watch(
    learner: Any, feeder: Any, checkpoints: Path, name: str, seconds: float
) -> tuple[list[tuple[float, int, float]], float]:
    """Drive the producer and sample the learner once a second.

    Returns
    -------
    samples : list of (seconds since the start, resident bytes, seconds behind)
    speed : float
        Records per second at full speed.
    """
    started = time.monotonic()
    samples: list[tuple[float, int, float]] = []
    speed, done_at_half, ahead, half_time, half_seconds = 0.0, 0, 0.0, 0.0, seconds / 2
    progress_samples: list[tuple[float, int]] = []  # (time, records) since the first progress
    while (now := time.monotonic() - started) < seconds:
        assert learner.poll() is None, "the learner has exited"
        n_done = progress(checkpoints, name)
        if now < half_seconds:
            behind, done_at_half, half_time = 0.0, n_done, now
            if n_done:
                progress_samples.append((now, n_done))
                speed = (n_done - progress_samples[0][1]) / max(1.0, now - progress_samples[0][0])
            ahead = max(MIN_AHEAD, 2.0 * speed)
            allowed = int(n_done + ahead)
        else:
            allowed = int(done_at_half + ahead + 0.6 * speed * (now - half_time))
            behind = max(0, allowed - n_done) / speed
        feeder.stdin.write(f"{allowed}\n")
        feeder.stdin.flush()
        pages = Path(f"/proc/{learner.pid}/statm").read_text().split()[1]
        samples.append((now, int(pages) * PAGE_SIZE, behind))
        time.sleep(1.0)
    feeder.stdin.close()
    feeder.stdin = None
    return samples, speed


def progress(checkpoints: Path, topic: str) -> int:
    """Return the number of records that the latest checkpoints cover."""
    from streaml1.training.checkpoint import load_latest
    from streaml1.training.consumer_group import partition_directory

    folders = [
        partition_directory(checkpoints, topic, partition) for partition in range(PARTITIONS)
    ]
    latest = [load_latest(folder) for folder in folders if folder.is_dir()]
    return sum(
        position[0]
        for checkpoint in latest
        if checkpoint is not None
        for position in checkpoint.position.values()
    )


def summarize(
    samples: list[tuple[float, int, float]], speed: float, sent: int, minutes: float
) -> str:
    """Check the samples and summarize them; the first third is warm-up."""
    seconds = 60.0 * minutes
    middle = max(size for now, size, _ in samples if seconds / 3 <= now < seconds * 2 / 3)
    last = max(size for now, size, _ in samples if now >= seconds * 2 / 3)
    lags = [lag for now, _, lag in samples if now >= seconds * 0.7]
    line = (
        f"{minutes:g} minutes, {sent * EXAMPLES_PER_RECORD:,} examples, "
        f"{speed * EXAMPLES_PER_RECORD:,.0f} per second at full speed; max memory "
        f"{middle / 1e6:.0f} MB in the second third, {last / 1e6:.0f} MB in the last; "
        f"at 60% of the speed max lag {max(lags):.1f} s; equal to a replay"
    )
    assert last <= 1.05 * middle + 5e6, line
    assert max(lags) < 5.0, line
    return line


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--feed", nargs=2)
    options = parser.parse_args()
    if options.feed:
        feed(*options.feed)
        return
    with tempfile.TemporaryDirectory() as folder:
        broker = storm.PrivateBroker(Path(folder) / "kafka")
        try:
            print(soak(broker.address, options.minutes, Path(folder)), flush=True)
        finally:
            broker.close()


if __name__ == "__main__":
    main()
