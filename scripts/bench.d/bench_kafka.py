"""Learning from a topic, compared with a loop that only polls and touches the values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import kafka
import numpy as np
from bench_kit import CONSOLE, new_table, w1

import streaml1
from streaml1.training.prediction_records import PredictionRecords

ROOT = Path(__file__).resolve().parent.parent.parent
BROKER = [sys.executable, str(ROOT / "scripts" / "kafka.d" / "broker.py")]
ROWS = 100_000
ROUNDS = 5


@contextmanager
def running_broker() -> Any:
    """Yield the address of the running broker, or of one that is started and stopped here."""
    was_up = subprocess.run([*BROKER, "status"], stdout=subprocess.DEVNULL).returncode == 0
    process = subprocess.run([*BROKER, "up"], check=True, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.split()[-1]
    finally:
        if not was_up:
            subprocess.run([*BROKER, "down"], check=True)


def svmlight_lines(X: Any, y: Any) -> list[bytes]:
    """Format each row as a svmlight line, values with six digits."""
    lines = []
    for row, label in enumerate(y):
        lo, hi = X.indptr[row], X.indptr[row + 1]
        pairs = zip(X.indices[lo:hi].tolist(), X.data[lo:hi].tolist(), strict=True)
        lines.append(f"{int(label)} {' '.join(f'{j}:{v:.6g}' for j, v in pairs)}".encode())
    return lines


def json_lines(X: Any, y: Any) -> list[bytes]:
    lines = []
    for row, label in enumerate(y):
        lo, hi = X.indptr[row], X.indptr[row + 1]
        pairs = zip(X.indices[lo:hi].tolist(), X.data[lo:hi].tolist(), strict=True)
        x = {f"w{j}": round(v, 6) for j, v in pairs}
        lines.append(json.dumps({"x": x, "y": int(label)}).encode())
    return lines


def fill_topic(address: str, values: list[bytes]) -> str:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    settings: Any = {"linger_ms": 50, "batch_size": 2**18}
    with closing(kafka.KafkaProducer(bootstrap_servers=address, **settings)) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
        producer.flush()
    return topic


def poll(address: str, topic: str) -> int:
    """Read a topic to its end with the settings of streaml1 and touch each value."""
    part = kafka.TopicPartition(topic, 0)
    settings: Any = {
        "enable_auto_commit": False, "auto_offset_reset": "none", "max_poll_records": 1000,
        "isolation_level": "read_committed",
    }  # fmt: skip
    touched = 0
    with closing(kafka.KafkaConsumer(bootstrap_servers=address, **settings)) as consumer:
        consumer.assign([part])
        end = consumer.end_offsets([part])[part]
        consumer.seek(part, 0)
        while consumer.position(part) < end:
            for record in consumer.poll(timeout_ms=250).get(part, ()):
                touched += record.value[0]
    return touched


def process_and_wall_seconds(run: Callable[[], Any]) -> tuple[float, float]:
    """Return the CPU seconds of all threads of the process, and the wall time."""
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - wall


def bench_kafka() -> None:
    """Compare learning from a topic with polling alone."""
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    X, y = w1(ROWS)
    lines = svmlight_lines(X, y)
    forms = {
        "svmlight, one row per record": lines,
        "svmlight, 8 rows per record": [
            b"\n".join(lines[lo : lo + 8]) for lo in range(0, ROWS, 8)
        ],
        "JSON, one row per record": json_lines(X, y),
    }  # fmt: skip
    table = new_table(
        f"learning {ROWS:,} rows of W1 from a topic (elastic net), compared with polling alone; "
        f"median of {ROUNDS} interleaved rounds",
        "records", "polling, us/row", "learning, us/row", "ratio (CPU time)", "ratio (wall time)",
        "with predictions, us/row",
    )  # fmt: skip
    with running_broker() as address:
        for name, values in forms.items():
            topic = fill_topic(address, values)
            url = f"kafka://{address}/{topic}"

            def learn(url: str = url) -> None:
                model = streaml1.ElasticNetClassifier(l1=1e-6, l2=1e-6)
                streaml1.progressive(model, url, until_end=True, every=ROWS)

            def poll_only(topic: str = topic, address: str = address) -> None:
                poll(address, topic)

            def predict_to_topic(url: str = url) -> None:
                model = streaml1.ElasticNetClassifier(l1=1e-6, l2=1e-6)
                with PredictionRecords(f"{url}-p") as out:
                    streaml1.progressive(model, url, until_end=True, every=ROWS, observers=[out])

            learn()
            times = np.array(
                [
                    (
                        *process_and_wall_seconds(poll_only),
                        *process_and_wall_seconds(learn),
                        *process_and_wall_seconds(predict_to_topic),
                    )
                    for _ in range(ROUNDS)
                ]
            )
            cpu, wall = times[:, 2] / times[:, 0], times[:, 3] / times[:, 1]
            us = np.median(times, axis=0) / ROWS * 1e6
            table.add_row(
                name, f"{us[0]:.2f}", f"{us[2]:.2f}", f"{np.median(cpu):.2f}",
                f"{np.median(wall):.2f}", f"{us[4]:.2f}",
            )  # fmt: skip
    CONSOLE.print(table)
