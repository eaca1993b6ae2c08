"""What /metrics and /health say, and what is logged, against counts made by hand."""

from __future__ import annotations

import http.client
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kafka
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from river import linear_model, optim

import streaml1
from streaml1.sources.kafka.topic_source import KafkaSource
from streaml1.sources.source import Block
from streaml1.training import Observer, progressive
from streaml1.training import run_metrics as gauges_module
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.metrics_server import MetricsError, MetricsServer, parse_address
from tests.broker import Broker, given

ROOT = Path(__file__).parent.parent
OPERATING = ROOT / "docs" / "operating.md"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Time that passes only when asked to."""
    now = [1000.0]
    monkeypatch.setattr(gauges_module.time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


def fetched(metrics: MetricsServer, path: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(f"http://{metrics.address}{path}", timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def read(metrics: MetricsServer) -> dict[str, Any]:
    """Samples by name; those of partitions as a dict."""
    code, kind, text = fetched(metrics, "/metrics")
    assert code == 200 and kind.startswith("text/plain")
    told: dict[str, Any] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("counter", "gauge")
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
            if sample.labels:
                [(label, value)] = sample.labels.items()
                told.setdefault(sample.name, {})[f"{label}={value}"] = sample.value
            else:
                told[sample.name] = sample.value
    return told


def health(metrics: MetricsServer) -> tuple[int, dict[str, Any]]:
    code, kind, text = fetched(metrics, "/health")
    assert kind == "application/json"
    return code, json.loads(text)


class Fed:
    """A source of blocks, each handed over when the test has looked."""

    name = "fed"

    def __init__(self, blocks: list[list[tuple[dict[Any, float], Any]]]) -> None:
        self._blocks = blocks
        self.ends = {0: sum(map(len, blocks)), 1: 7}
        self.done = 0
        self.looks: list[Callable[[], None]] = []

    def blocks(self, size: int, refuse: Any) -> Iterator[Block]:
        for block, look in zip(self._blocks, [*self.looks, lambda: None], strict=False):
            first = self.done + 1
            self.done += len(block)
            x, y = map(list, zip(*block, strict=True))
            yield Block(x, y, None, self.name, list(range(first, first + len(block))))
            look()

    def identity(self) -> dict[str, Any]:
        return {"source": self.name}

    def begin(self, at: Any) -> Any:
        return {"line": 0}

    def position(self) -> Any:
        return None

    def lag(self) -> dict[int, int]:
        return {0: self.ends[0] - self.done, 1: self.ends[1]}


def examples(n: int, seed: int = 0) -> list[tuple[dict[Any, float], Any]]:
    rng = np.random.default_rng(seed)
    return [({int(k): 1.0 for k in rng.integers(0, 50, 4)}, bool(rng.random() < 0.5))
            for _ in range(n)]  # fmt: skip


def run(source: Any, metrics: MetricsServer, **options: Any) -> Any:
    model = streaml1.ElasticNetClassifier(l1=1e-3)
    return model, progressive(model, source, observers=[metrics], **options)


# Numbers


def test_numbers_are_those_of_the_run(clock: Callable[[float], None]) -> None:
    blocks = [examples(30, 1), [*examples(9, 2), ({1: math.nan}, True)], examples(20, 3)]
    source = Fed(blocks)
    told: list[dict[str, Any]] = []
    twin = streaml1.ElasticNetClassifier(l1=1e-3)
    losses: list[float] = []

    def loss_of(some: list[Any]) -> None:
        for x, y in some:
            if all(map(math.isfinite, x.values())):
                p = min(max(twin.predict_proba_one(x)[True], 1e-15), 1 - 1e-15)
                losses.append(-math.log(p if y else 1 - p))
                twin.learn_one(x, y)

    with MetricsServer() as metrics:

        def look() -> None:
            told.append(read(metrics))
            loss_of(blocks[len(told) - 1])
            now = told[-1]
            assert now["streaml1_loss"] == pytest.approx(np.mean(losses), rel=1e-9)
            assert now["streaml1_nonzero_weights"] == twin.n_nonzero
            clock(45.0)

        source.looks = [look, look, look]
        model, report = run(source, metrics, bad="skip")
        assert report.examples == 59 and report.rejected == 1
    assert [one["streaml1_examples_total"] for one in told] == [30, 39, 59]
    assert [one["streaml1_refused_total"] for one in told] == [0, 1, 1]
    assert [one["streaml1_lag"] for one in told] == [
        {"partition=0": left, "partition=1": 7} for left in (30, 20, 0)
    ]
    assert [one["streaml1_healthy"] for one in told] == [1, 1, 1]
    # A minute goes back to the start, to the start, and to the first block.
    assert [one.get("streaml1_examples_per_second") for one in told] == pytest.approx(
        [0.0, 39 / 45, 59 / 90], rel=1e-9
    )
    assert told[1]["streaml1_recent_loss"] == pytest.approx(np.mean(losses[:39]), rel=1e-9)
    assert "streaml1_checkpoints_total" not in told[0]
    assert model.n_iterations == 59


def test_what_is_recent_is_a_minute(clock: Callable[[float], None]) -> None:
    blocks = [examples(10, seed) for seed in range(8)]
    source = Fed(blocks)
    told: list[dict[str, Any]] = []
    twin = streaml1.ElasticNetClassifier(l1=1e-3)
    losses: list[float] = []
    for x, y in (one for block in blocks for one in block):
        p = twin.predict_proba_one(x)[True]
        losses.append(-math.log(p if y else 1 - p))
        twin.learn_one(x, y)
    with MetricsServer() as metrics:

        def look() -> None:
            told.append(read(metrics))
            clock(20.0)

        source.looks = [look] * 8
        run(source, metrics)
    # Blocks come at 0, 20, 40 ... seconds; a minute before 140 is the block of 80.
    assert told[7]["streaml1_examples_per_second"] == pytest.approx(30 / 60)
    assert told[7]["streaml1_recent_loss"] == pytest.approx(np.mean(losses[50:80]), rel=1e-9)
    assert told[7]["streaml1_loss"] == pytest.approx(np.mean(losses), rel=1e-9)


def test_checkpoints_and_what_other_outs_tell(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    class Waiting(Observer):
        def metrics(self) -> dict[str, float]:
            return {"waiting_labels": 3.0, "dead_letters_total": 2.0}

    source = Fed([examples(5, 1), examples(5, 2)])
    told: list[dict[str, Any]] = []
    with MetricsServer() as metrics, Checkpoints(tmp_path / "kept", seconds=0) as store:

        def look() -> None:
            clock(4.0)
            told.append(read(metrics))

        source.looks = [look, look]
        model = streaml1.ElasticNetClassifier()
        progressive(model, source, observers=[Waiting(), metrics], checkpoint=store)
        size = max(path.stat().st_size for path in (tmp_path / "kept").glob("*.checkpoint"))
        last = read(metrics)
    assert [one["streaml1_checkpoint_age_seconds"] for one in told] == [4.0, 4.0]
    assert last["streaml1_checkpoint_bytes"] == size
    assert told[1]["streaml1_checkpoints_total"] == told[0]["streaml1_checkpoints_total"] + 1
    assert last["streaml1_waiting_labels"] == 3 and last["streaml1_dead_letters_total"] == 2


def test_a_run_that_goes_on_counts_its_own(tmp_path: Path) -> None:
    """A counter that fell by the examples of a crash would look like a restart at a million."""
    (tmp_path / "a.svm").write_text("1 1:1\n0 2:1\n" * 50)
    source, kept = str(tmp_path / "a.svm"), tmp_path / "kept"
    progressive(streaml1.ElasticNetClassifier(), source, limit=60, checkpoint=kept)
    with MetricsServer() as metrics:
        progressive(streaml1.ElasticNetClassifier(), source, checkpoint=kept, observers=[metrics])
        told = read(metrics)
    assert told["streaml1_examples_total"] == 40 and told["streaml1_model_examples"] == 100


def test_every_name_is_in_the_table_and_every_row_is_served(tmp_path: Path) -> None:
    rows = {
        line.split("`")[1].partition("{")[0]
        for line in OPERATING.read_text().splitlines()
        if line.startswith("| `streaml1_")
    }
    source = Fed([examples(5, 1), examples(5, 2)])
    with MetricsServer() as metrics:
        run(source, metrics, checkpoint=Checkpoints(tmp_path / "kept", seconds=0))
        served = {name for name in read(metrics) if name.startswith("streaml1_")}
    of_others = {name for name in rows if name in OTHERS}
    assert served == rows - of_others


OTHERS: set[str] = {"streaml1_dead_letters_total"}
"""What outs that this run has not would add."""


# Health


def test_before_the_run_it_is_starting() -> None:
    with MetricsServer() as metrics:
        assert health(metrics) == (200, {"status": "starting", "reasons": []})
        assert not any(name.startswith("streaml1_") for name in read(metrics))


def test_red_where_nothing_moves_although_records_wait(clock: Callable[[float], None]) -> None:
    source = Fed([examples(5, 1), examples(5, 2)])
    seen: list[tuple[int, dict[str, Any]]] = []
    with MetricsServer(stalled_seconds=30.0) as metrics:

        def look() -> None:
            for seconds in (29.0, 2.0):
                clock(seconds)
                seen.append(health(metrics))
            assert read(metrics)["streaml1_healthy"] == 0.0

        def caught_up() -> None:
            assert health(metrics)[0] == 200
            source.ends[1] = 0
            clock(1000.0)
            seen.append(health(metrics))

        source.looks = [look, caught_up]
        run(source, metrics)
    assert [code for code, _ in seen] == [200, 503, 200]
    assert seen[1][1]["reasons"] == ["no example was learned for 31 s, and 12 records are unread"]
    assert seen[1][1]["status"] == "red" and seen[1][1]["lag"] == 12


@pytest.mark.parametrize("fault", [None, "no broker answers", "refuses user 'ann'"])
def test_red_where_no_news_is_no_broker(fault: str | None, clock: Callable[[float], None]) -> None:
    source: Any = Fed([examples(5, 1)])
    source.ends = {0: 5, 1: 0}
    asked = []

    def is_reachable() -> bool:
        asked.append(True)
        if fault is not None and fault.startswith("refuses"):
            raise streaml1.sources.SourceError(fault)
        return fault is None

    source.is_reachable = is_reachable
    with MetricsServer(stalled_seconds=30.0) as metrics:

        def look() -> None:
            assert health(metrics)[0] == 200 and not asked
            clock(31.0)
            for _ in range(3):
                code, about = health(metrics)
                assert code == (200 if fault is None else 503)
                assert about["reasons"] == ([] if fault is None else [fault])
            assert len(asked) == 1  # a broker is not asked at each look

        source.looks = [look]
        run(source, metrics)


def test_red_where_the_loss_is_not_finite() -> None:
    model = linear_model.LinearRegression(optim.SGD(1e9), clip_gradient=1e300)
    data = [({"a": 1e9 * (-1) ** k}, 1.0) for k in range(60)]
    with MetricsServer() as metrics:
        report = progressive(model, data, observers=[metrics])
        assert not math.isfinite(report.lines[-1].loss or 0.0)
        code, about = health(metrics)
        assert read(metrics)["streaml1_healthy"] == 0.0
    assert code == 503 and about["reasons"] == ["the loss is not finite: the model has diverged"]


def test_red_where_checkpoints_are_late(tmp_path: Path, clock: Callable[[float], None]) -> None:
    source = Fed([examples(5, k) for k in range(4)])
    codes = []
    with MetricsServer() as metrics, Checkpoints(tmp_path / "kept", seconds=10.0) as store:
        store.__class__ = type("Late", (Checkpoints,), {"is_due": False})

        def look() -> None:
            codes.append(health(metrics)[0])
            clock(16.0)

        source.looks = [look] * 4
        progressive(streaml1.ElasticNetClassifier(), source, observers=[metrics], checkpoint=store)
        assert health(metrics)[0] == 200  # saved at the end
    assert codes == [200, 200, 503, 503]


# The server


def test_head_tells_what_get_does_without_the_body() -> None:
    with MetricsServer() as metrics:
        for path in ("/health", "/metrics"):
            get = http.client.HTTPConnection(metrics.address, timeout=10)
            get.request("HEAD", path)
            answer = get.getresponse()
            assert (answer.status, answer.read()) == (200, b"")
            assert int(answer.headers["Content-Length"]) > 0
            get.close()


def test_other_paths_and_addresses() -> None:
    with MetricsServer("::1") as metrics:
        assert metrics.address.startswith("[::1]:")
        assert fetched(metrics, "/")[0] == 404 and health(metrics)[0] == 200
    with MetricsServer() as metrics:
        assert metrics.address.startswith("127.0.0.1:")
        with pytest.raises(MetricsError, match="cannot listen at 127.0.0.1:.*in use") as error:
            MetricsServer(port=int(metrics.address.rpartition(":")[2]))
        assert error.value.exit_code == 75
    assert "streaml1-metrics" not in {one.name for one in threading.enumerate()}
    with pytest.raises(MetricsError) as error:
        MetricsServer("192.0.2.1")
    assert error.value.exit_code == 2
    for wrong in ("x", "-1", "65536", ":9", "a:b", ""):
        with pytest.raises(MetricsError, match="must be a port .9100. or HOST:PORT, got"):
            parse_address(wrong)
    assert parse_address("0.0.0.0:1") == ("0.0.0.0", 1)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MetricsError, match=r"pip install 'streaml1\[metrics\]'"):
        MetricsServer()


def test_many_looks_while_it_learns() -> None:
    """Readers beside the one that learns see counts that only grow."""
    source = Fed([examples(200, seed) for seed in range(60)])
    seen: list[float] = []
    over = threading.Event()
    with MetricsServer() as metrics:

        def watch() -> None:
            while not over.is_set():
                told = read(metrics)
                if "streaml1_examples_total" in told:
                    seen.append(told["streaml1_examples_total"])

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            run(source, metrics)
        finally:
            over.set()
            watcher.join()
    assert seen == sorted(seen)


# As a program


@pytest.mark.kafka
def test_a_topic_as_a_program(tmp_path: Path) -> None:
    broker: Broker = given()
    topic = broker.topic(2)
    broker.send(topic, [f"{k % 2} {k % 5}:1" for k in range(90)], (0, 1))
    command = [sys.executable, "-m", "streaml1", "learn", broker.url(topic), "--metrics", "0",
               "--checkpoint", "kept", "--checkpoint-every", "0.2", "--every", "30", "--bad",
               "skip"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "STREAML1_LOG": "json"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        assert process.stderr is not None
        events = [json.loads(process.stderr.readline())]
        assert events[0]["event"] == "metrics"
        metrics: Any = type("At", (), {"address": events[0]["address"]})
        _until(lambda: read(metrics).get("streaml1_examples_total") == 90)
        broker.send(topic, ["spam", "1 3:1"], (1,))
        _until(lambda: read(metrics)["streaml1_refused_total"] == 1)
        _until(lambda: read(metrics)["streaml1_checkpoint_bytes"] > 0)
        told = read(metrics)
        assert told["streaml1_lag"]["partition=0"] == told["streaml1_lag"]["partition=1"] == 0
        assert told["streaml1_examples_total"] == 91
        assert told["process_resident_memory_bytes"] > 1e6
        assert health(metrics)[0] == 200
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
        broker.close()
    assert process.returncode == 143, rest
    events += [json.loads(line) for line in rest.splitlines()]
    for one in events:
        assert list(one)[:4] == ["time", "level", "event", "message"]
        assert one["time"].endswith("Z") and one["level"] in ("info", "warning", "error")
    by_name = {one["event"]: one for one in events}
    assert [one["examples"] for one in events if one["event"] == "line"] == [30, 60, 90, 91]
    assert by_name["run_begins"]["resumed"] is False
    assert by_name["example_refused"]["place"] == f"{topic}/1@45"
    assert by_name["checkpoint_saved"]["bytes"] > 0
    assert by_name["run_ends"] | {"loss": 0} == by_name["run_ends"] | {
        "examples": 91, "refused": 1, "signal": 15, "loss": 0
    }  # fmt: skip
    assert by_name["interrupted"]["signal"] == 15


def _until(there: Callable[[], bool], seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < limit
        time.sleep(0.05)


@pytest.mark.kafka
def test_lag_is_what_is_left_to_be_read() -> None:
    """Markers of transactions have offsets too, and are never read."""
    broker: Broker = given()
    broker.require_real()
    topic = broker.topic(3)
    broker.send(topic, ["1 1:1"] * 50, (0,))
    producer = kafka.KafkaProducer(**broker.settings, transactional_id=topic)
    producer.init_transactions()
    for value in (b"1 1:1", b"0 2:1"):
        producer.begin_transaction()
        producer.send(topic, value, partition=1)
        producer.commit_transaction()
    producer.close()
    source = KafkaSource(broker.url(topic))
    over = threading.Event()
    source.set_stop(over.is_set)
    assert source.lag() == {}
    lags = []
    limit = time.monotonic() + 30.0
    for block in source.blocks(10, pytest.fail):
        lags.append(source.lag())
        if not len(block) and lags[-1] == {0: 0, 1: 0, 2: 0}:
            over.set()
        assert time.monotonic() < limit, lags[-1]
    broker.close()
    assert sum(lags[0].values()) >= 40 and lags[0][2] == 0
    totals = [sum(lag.values()) for lag in lags]
    assert totals == sorted(totals, reverse=True) and totals[-1] == 0


def test_partitions_with_runs_of_their_own(clock: Callable[[float], None]) -> None:
    with MetricsServer(stalled_seconds=30.0) as metrics:
        for partition, n in ((3, 20), (1, 12)):
            source: Any = Fed([examples(n, n)])
            source.ends = {partition: n + partition, 9: 0}
            source.lag = lambda source=source, p=partition: {p: source.ends[p] - source.done}
            model = streaml1.ElasticNetClassifier()
            progressive(model, source, observers=[metrics.add_partition(partition)])
        told = read(metrics)
        assert told["streaml1_examples_total"] == {"partition=1": 12, "partition=3": 20}
        assert told["streaml1_lag"] == {"partition=1": 1, "partition=3": 3}
        assert health(metrics) == (
            200, {"status": "green", "reasons": [], "examples": 32, "partitions": 2}
        )  # fmt: skip
        clock(31.0)
        metrics.add_partition(1)  # another run begins over it
        code, about = health(metrics)
        assert code == 503 and about["reasons"] == [
            "partition 3: no example was learned for 31 s, and 3 records are unread"
        ]
        metrics.drop_partition(3)
        assert health(metrics) == (200, {"status": "starting", "reasons": []})
        metrics.drop_partition(1)
        metrics.drop_partition(1)
        assert health(metrics)[0] == 200
