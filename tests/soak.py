"""A long run at full speed: memory stays flat, the lag bounded, the models those of a replay.

Half of the time the topic is filled as fast as it is read, so that there is always more to read;
then at 60% of that speed, where the lag has to be short. `scripts/test --soak MINUTES`.
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
LINES = 10
"""Examples in a record."""
AHEAD = 2000
"""Records that the topic is ahead of the last checkpoint at full speed, or two seconds' worth."""
PAGE = os.sysconf("SC_PAGE_SIZE")


def feed(address: str, topic: str) -> None:
    """Send records as long as there are fewer than the last number read from standard input."""
    import kafka

    allowed = [0]

    def listen() -> None:
        for line in sys.stdin:
            allowed[0] = int(line)
        allowed[0] = -1

    threading.Thread(target=listen, daemon=True).start()
    values = pool()
    producer = kafka.KafkaProducer(bootstrap_servers=address, linger_ms=20, batch_size=262_144)
    sent = 0
    while allowed[0] >= 0:
        if sent >= allowed[0]:
            time.sleep(0.002)
            continue
        producer.send(topic, values[sent % len(values)], partition=sent % PARTITIONS)
        sent += 1
    producer.flush(60)
    producer.close(timeout=10)
    print(sent)


def pool() -> list[bytes]:
    """Different records."""
    rng = random.Random(5)
    labels = {1: 1, 0: -1}
    lines = []
    for _ in range(20_011):
        ids = sorted({1 + int(rng.paretovariate(0.4)) % 30_000 for _ in range(15)})
        y = labels[int(rng.random() < 1 / (1 + 2.0 ** (sum(k % 7 == 0 for k in ids) - 3)))]
        lines.append(f"{y} " + " ".join(f"{k}:{rng.uniform(0, 1):.3g}" for k in ids))
    n = len(lines)
    return ["\n".join(lines[(k * LINES + j) % n] for j in range(LINES)).encode() for k in range(n)]


def soak(address: str, minutes: float, folder: Path) -> str:
    """One run; returns what was measured. AssertionError where it is not as it should be."""
    from kafka.admin import KafkaAdminClient, NewTopic

    name = f"soak-{os.getpid()}"
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    admin.close()
    url, kept = f"kafka://{address}/{name}", folder / "kept"
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT)
    learner = subprocess.Popen(
        [sys.executable, "-m", "streaml1", "learn", "--lr", "0.1",
         url, "--per-partition", "--group", name,
         "--checkpoint", str(kept), "--checkpoint-every", "1", "--every", "100000",
         "--l1", "1e-4", "--l2", "1e-4"],
        env=surroundings, stdout=said, stderr=said,
    )  # fmt: skip
    feeder: Any = subprocess.Popen(
        [sys.executable, "-m", "tests.soak", "--feed", address, name], cwd=ROOT, env=surroundings,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        samples, speed = watch(learner, feeder, kept, name, 60.0 * minutes)
        sent = int(feeder.stdout.read())
        limit = time.monotonic() + 120.0
        while progress(kept, name) < sent:
            assert time.monotonic() < limit and learner.poll() is None, "it does not come to an end"
            time.sleep(0.5)
        learner.send_signal(signal.SIGTERM)
        learner.wait(30)
    finally:
        feeder.stdout.close()
        for one in (learner, feeder):
            one.kill()
            one.wait()
        os.close(said)
    assert learner.returncode == 128 + signal.SIGTERM, (folder / "said").read_text()[-2000:]
    wrong = storm.differences(url, kept, PARTITIONS, every=100_000, bad="fail")
    assert not wrong, wrong
    return told(samples, speed, sent, minutes)


def watch(
    learner: Any, feeder: Any, kept: Path, name: str, seconds: float
) -> tuple[list[tuple[float, int, float]], float]:
    """Feed; returns (second, bytes of memory, seconds behind) once a second, and the speed."""
    began = time.monotonic()
    samples: list[tuple[float, int, float]] = []
    speed, at_half, ahead, since, half = 0.0, 0, 0.0, 0.0, seconds / 2
    first: list[tuple[float, int]] = []  # when there were how many, from the first on
    while (now := time.monotonic() - began) < seconds:
        assert learner.poll() is None, "it has ended"
        done = progress(kept, name)
        if now < half:
            behind, at_half, since = 0.0, done, now
            if done:
                first.append((now, done))
                speed = (done - first[0][1]) / max(1.0, now - first[0][0])
            ahead = max(AHEAD, 2.0 * speed)
            allowed = int(done + ahead)
        else:
            allowed = int(at_half + ahead + 0.6 * speed * (now - since))
            behind = max(0, allowed - done) / speed
        feeder.stdin.write(f"{allowed}\n")
        feeder.stdin.flush()
        pages = Path(f"/proc/{learner.pid}/statm").read_text().split()[1]
        samples.append((now, int(pages) * PAGE, behind))
        time.sleep(1.0)
    feeder.stdin.close()
    feeder.stdin = None
    return samples, speed


def progress(kept: Path, topic: str) -> int:
    """How many records checkpoints have passed."""
    from streaml1.training.checkpoint import load_latest
    from streaml1.training.consumer_group import partition_directory

    places = [partition_directory(kept, topic, one) for one in range(PARTITIONS)]
    found = [load_latest(place) for place in places if place.is_dir()]
    return sum(at[0] for one in found if one is not None for at in one.position.values())


def told(samples: list[tuple[float, int, float]], speed: float, sent: int, minutes: float) -> str:
    """What was measured, in a line; the first third is for warming up."""
    seconds = 60.0 * minutes
    middle = max(size for now, size, _ in samples if seconds / 3 <= now < seconds * 2 / 3)
    late = max(size for now, size, _ in samples if now >= seconds * 2 / 3)
    behind = [one for now, _, one in samples if now >= seconds * 0.7]
    line = (
        f"{minutes:g} minutes, {sent * LINES:,} examples, {speed * LINES:,.0f} a second at full "
        f"speed; memory at most {middle / 1e6:.0f} MB in the second third, {late / 1e6:.0f} MB in "
        f"the last; at 60% of the speed at most {max(behind):.1f} s behind; equal to a replay"
    )
    assert late <= 1.05 * middle + 5e6, line
    assert max(behind) < 5.0, line
    return line


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--feed", nargs=2)
    asked = parser.parse_args()
    if asked.feed:
        feed(*asked.feed)
        return
    with tempfile.TemporaryDirectory() as folder:
        broker = storm.OwnBroker(Path(folder) / "kafka")
        try:
            print(soak(broker.address, asked.minutes, Path(folder)), flush=True)
        finally:
            broker.close()


if __name__ == "__main__":
    main()
