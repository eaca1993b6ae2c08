"""kafka-python and confluent-kafka: reading, learning, and writing predictions."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from bench_kafka import fill_topic, process_and_wall_seconds, running_broker
from bench_kit import CONSOLE, new_table

import streaml1
from streaml1.sources.kafka.partition_merge import merge_partitions
from streaml1.sources.kafka.topic import Topic
from streaml1.training.prediction_records import PredictionRecords

ROWS = 100_000
RECORD_BYTES = 300
ROUNDS = 5
CLIENTS = ("kafka-python", "confluent")


def records() -> list[bytes]:
    """Return svmlight lines of 300 bytes, with about 30 features each."""
    rng = np.random.default_rng(0)
    lines = []
    for label in rng.integers(0, 2, ROWS).tolist():
        features = np.unique(rng.integers(100_000, 1_000_000, 31)).tolist()
        line = f"{label} " + " ".join(f"{feature}:1" for feature in features)
        lines.append(line[:RECORD_BYTES].rpartition(" ")[0].ljust(RECORD_BYTES).encode())
    return lines


def read(url: str, client: str) -> None:
    """Read a topic to its end as a run does, without parsing the records."""
    topic = Topic(url, {"client": client})
    n_read = 0
    with closing(topic.consumer(lambda: False)) as consumer:
        starts, ends = topic.bounds(consumer, "earliest", None, {})
        offsets = topic.by_topic_partition(starts), topic.by_topic_partition(ends)
        for batch in merge_partitions(consumer, *offsets, lambda: False):
            n_read += len(batch)
    assert n_read == ROWS


def learn(url: str, client: str, observers: Any = ()) -> None:
    model = streaml1.ElasticNetClassifier(lr=0.1, l1=1e-6)
    streaml1.progressive(
        model, url, until_end=True, every=ROWS, observers=observers, kafka={"client": client}
    )


def learn_and_write(url: str, client: str) -> None:
    """Learn a topic and write each prediction to another one."""
    with PredictionRecords(Topic(f"{url}-p", {"client": client})) as out:
        learn(url, client, [out])


def bench_kafka_clients() -> None:
    """Compare the two clients on records of 300 bytes."""
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    runs = {"reading": read, "learning": learn, "learning, predictions written": learn_and_write}
    table = new_table(
        f"{ROWS:,} records of {RECORD_BYTES} bytes in one partition; median of {ROUNDS} "
        "interleaved rounds",
        "client", "run", "records/s", "us/record", "CPU us/record", "of learning (wall time)",
    )  # fmt: skip
    with running_broker() as address:
        url = f"kafka://{address}/{fill_topic(address, records())}"
        for client in CLIENTS:  # compiles, and creates the topic of predictions
            learn_and_write(url, client)
        rounds = [
            [process_and_wall_seconds(partial(run, url, client)) for client in CLIENTS
             for run in runs.values()]
            for _ in range(ROUNDS)
        ]  # fmt: skip
        seconds = np.array(rounds).reshape(ROUNDS, len(CLIENTS), len(runs), 2)
        us = np.median(seconds, axis=0) / ROWS * 1e6
        ratios = np.median(seconds[..., 1] / seconds[:, :, 1:2, 1], axis=0)
        for i, client in enumerate(CLIENTS):
            for k, name in enumerate(runs):
                cpu, wall = us[i, k]
                table.add_row(
                    client, name, f"{1e6 / wall:,.0f}", f"{wall:.2f}", f"{cpu:.2f}",
                    f"{ratios[i, k]:.2f}",
                )  # fmt: skip
    CONSOLE.print(table)
