"""Metrics, health and log events of a run, checked against counts made in the test."""

from __future__ import annotations

import ast
import http.client
import json
import math
import os
import re
import signal
import socket
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
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from river import linear_model, optim

import streaml1
from streaml1.core import exit_codes
from streaml1.sources.kafka.topic_source import KafkaSource
from streaml1.sources.source import Block
from streaml1.training import Observer, progressive
from streaml1.training import run_metrics as gauges_module
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.http_server import Limits, Response, _read_request, _Refused
from streaml1.training.metrics_server import (
    DEFAULT_PORT,
    MetricsError,
    MetricsServer,
    parse_address,
)
from tests.broker import Broker, connect_or_skip

ROOT = Path(__file__).parent.parent
OPERATING = ROOT / "docs" / "operating.md"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Replace the monotonic clock by one that a test advances."""
    now = [1000.0]
    monkeypatch.setattr(gauges_module.time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += seconds

    return wait


def fetch(metrics: MetricsServer, path: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(f"http://{metrics.address}{path}", timeout=10) as response:
            return response.status, response.headers["Content-Type"], response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def read_metrics(metrics: MetricsServer) -> dict[str, Any]:
    """Return samples by name; samples with partitions are dicts."""
    code, kind, text = fetch(metrics, "/metrics")
    assert code == 200 and kind.startswith("text/plain")
    samples: dict[str, Any] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("counter", "gauge")
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
            if sample.labels:
                [(label, value)] = sample.labels.items()
                samples.setdefault(sample.name, {})[f"{label}={value}"] = sample.value
            else:
                samples[sample.name] = sample.value
    return samples


def health(metrics: MetricsServer) -> tuple[int, dict[str, Any]]:
    code, kind, text = fetch(metrics, "/health")
    assert kind == "application/json"
    return code, json.loads(text)


class ScriptedSource:
    """A source that calls a function of the test after each block."""

    name = "fed"

    def __init__(self, blocks: list[list[tuple[dict[Any, float], Any]]]) -> None:
        self._blocks = blocks
        self.ends = {0: sum(map(len, blocks)), 1: 7}
        self.done = 0
        self.callbacks: list[Callable[[], None]] = []

    def blocks(self, size: int, reject: Any) -> Iterator[Block]:
        for block, look in zip(self._blocks, [*self.callbacks, lambda: None], strict=False):
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


# Metrics


def test_metrics_match_the_run(clock: Callable[[float], None]) -> None:
    blocks = [examples(30, 1), [*examples(9, 2), ({1: math.inf}, True)], examples(20, 3)]
    source = ScriptedSource(blocks)
    scrapes: list[dict[str, Any]] = []
    twin = streaml1.ElasticNetClassifier(l1=1e-3)
    losses: list[float] = []

    def learn_and_record_loss(examples_of_block: list[Any]) -> None:
        for x, y in examples_of_block:
            if all(map(math.isfinite, x.values())):
                p = min(max(twin.predict_proba_one(x)[True], 1e-15), 1 - 1e-15)
                losses.append(-math.log(p if y else 1 - p))
                twin.learn_one(x, y)

    with MetricsServer() as metrics:

        def scrape() -> None:
            scrapes.append(read_metrics(metrics))
            learn_and_record_loss(blocks[len(scrapes) - 1])
            latest = scrapes[-1]
            assert latest["streaml1_loss"] == pytest.approx(np.mean(losses), rel=1e-9)
            assert latest["streaml1_nonzero_weights"] == twin.n_nonzero
            clock(45.0)

        source.callbacks = [scrape, scrape, scrape]
        model, report = run(source, metrics, bad="skip")
        assert report.examples == 59 and report.rejected == 1
    assert [sample["streaml1_examples_total"] for sample in scrapes] == [30, 39, 59]
    assert [sample["streaml1_refused_total"] for sample in scrapes] == [0, 1, 1]
    assert [sample["streaml1_lag"] for sample in scrapes] == [
        {"partition=0": unread, "partition=1": 7} for unread in (30, 20, 0)
    ]
    assert [sample["streaml1_healthy"] for sample in scrapes] == [1, 1, 1]
    # The window of a minute reaches back to the start twice, then to the first block.
    assert [sample.get("streaml1_examples_per_second") for sample in scrapes] == pytest.approx(
        [0.0, 39 / 45, 59 / 90], rel=1e-9
    )
    assert scrapes[1]["streaml1_recent_loss"] == pytest.approx(np.mean(losses[:39]), rel=1e-9)
    assert "streaml1_checkpoints_total" not in scrapes[0]
    assert model.n_iterations == 59


def test_recent_window_is_one_minute(clock: Callable[[float], None]) -> None:
    blocks = [examples(10, seed) for seed in range(8)]
    source = ScriptedSource(blocks)
    scrapes: list[dict[str, Any]] = []
    twin = streaml1.ElasticNetClassifier(l1=1e-3)
    losses: list[float] = []
    outputs: list[tuple[float, bool]] = []
    for x, y in (example for block in blocks for example in block):
        p = twin.predict_proba_one(x)[True]
        outputs.append((p, y))
        losses.append(-math.log(p if y else 1 - p))
        twin.learn_one(x, y)
    with MetricsServer() as metrics:

        def scrape() -> None:
            scrapes.append(read_metrics(metrics))
            clock(20.0)

        source.callbacks = [scrape] * 8
        run(source, metrics)
    # Blocks arrive at 0, 20, 40, ... s; one minute before 140 s is the block at 80 s.
    assert scrapes[7]["streaml1_examples_per_second"] == pytest.approx(30 / 60)
    assert scrapes[7]["streaml1_recent_loss"] == pytest.approx(np.mean(losses[50:80]), rel=1e-9)
    assert scrapes[7]["streaml1_loss"] == pytest.approx(np.mean(losses), rel=1e-9)
    assert scrapes[7]["streaml1_cumulative_loss"] == pytest.approx(np.sum(losses), rel=1e-9)
    for name, rows in (("calibration", outputs), ("recent_calibration", outputs[50:80])):
        p, y = np.transpose(rows)
        ratio = scrapes[7][f"streaml1_{name}"]
        assert ratio == pytest.approx(p.sum() / y.sum(), rel=1e-9)


def test_metrics_of_checkpoints_and_observers(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    class WaitingObserver(Observer):
        def metrics(self) -> dict[str, float]:
            return {"waiting_labels": 3.0, "dead_letters_total": 2.0}

    source = ScriptedSource([examples(5, 1), examples(5, 2)])
    scrapes: list[dict[str, Any]] = []
    with MetricsServer() as metrics, Checkpoints(tmp_path / "kept", seconds=0) as store:

        def scrape() -> None:
            clock(4.0)
            scrapes.append(read_metrics(metrics))

        source.callbacks = [scrape, scrape]
        model = streaml1.ElasticNetClassifier()
        progressive(model, source, observers=[WaitingObserver(), metrics], checkpoint=store)
        size = max(path.stat().st_size for path in (tmp_path / "kept").glob("*.checkpoint"))
        final = read_metrics(metrics)
    assert [sample["streaml1_checkpoint_age_seconds"] for sample in scrapes] == [4.0, 4.0]
    assert final["streaml1_checkpoint_bytes"] == size
    assert scrapes[1]["streaml1_checkpoints_total"] == scrapes[0]["streaml1_checkpoints_total"] + 1
    assert final["streaml1_waiting_labels"] == 3 and final["streaml1_dead_letters_total"] == 2


def test_figures_of_the_report_are_metrics(clock: Callable[[float], None]) -> None:
    blocks = [examples(1000, 1), examples(700, 2), examples(300, 3)]
    source = ScriptedSource(blocks)
    scrapes: list[dict[str, Any]] = []
    twin = streaml1.ElasticNetClassifier(l1=1e-3)
    p = np.array([])
    y = np.array([label for block in blocks for _, label in block])
    with MetricsServer() as metrics:

        def scrape() -> None:
            nonlocal p
            xs, ys = map(list, zip(*blocks[len(scrapes)], strict=True))
            p = np.append(p, twin.progressive_many(xs, ys))
            scrapes.append(read_metrics(metrics))
            clock(gauges_module.AUC_SECONDS)

        source.callbacks = [scrape] * 3
        _, report = run(source, metrics)
        last = read_metrics(metrics)
    for n, sample in zip((1000, 1700, 2000), scrapes, strict=True):
        q, true = p[:n], y[:n]
        losses = -np.log(np.where(true, q, 1.0 - q))
        pairs = np.subtract.outer(q[true], q[~true])
        auc = (np.mean(pairs > 0.0) + np.mean(pairs >= 0.0)) / 2.0
        assert sample["streaml1_auc"] == pytest.approx(auc, rel=1e-12)
        assert sample["streaml1_observed_rate"] == pytest.approx(true.mean(), rel=1e-12)
        assert sample["streaml1_cumulative_loss"] == pytest.approx(losses.sum(), rel=1e-9)
        assert sample["streaml1_calibration"] == pytest.approx(q.sum() / true.sum(), rel=1e-9)
    first, *_, end = report.lines
    assert scrapes[1]["streaml1_features_added_total"] == first.born > 0
    assert last["streaml1_features_added_total"] == first.born + end.born
    assert last["streaml1_features_dropped_total"] == first.died + end.died


def test_numbers_have_no_auc_and_no_rate() -> None:
    data = [({"a": float(k % 3)}, float(k % 3)) for k in range(20)]
    with MetricsServer() as metrics:
        progressive(streaml1.ElasticNetRegressor(), data, observers=[metrics])
        names = read_metrics(metrics).keys()
    assert "streaml1_cumulative_loss" in names
    assert not names & {"streaml1_auc", "streaml1_observed_rate", "streaml1_calibration"}


def test_resumed_run_counts_only_its_own_examples(tmp_path: Path) -> None:
    """A counter that decreases after a crash would look like a restart with a large increase."""
    (tmp_path / "a.svm").write_text("1 1:1\n0 2:1\n" * 50)
    source, directory = str(tmp_path / "a.svm"), tmp_path / "kept"
    progressive(streaml1.ElasticNetClassifier(), source, limit=60, checkpoint=directory)
    with MetricsServer() as metrics:
        progressive(
            streaml1.ElasticNetClassifier(), source, checkpoint=directory, observers=[metrics]
        )
        samples = read_metrics(metrics)
    assert samples["streaml1_examples_total"] == 40 and samples["streaml1_model_examples"] == 100


def test_documented_metrics_are_exactly_those_served(tmp_path: Path) -> None:
    documented = {
        line.split("`")[1].partition("{")[0]
        for line in OPERATING.read_text().splitlines()
        if line.startswith("| `streaml1_")
    }
    source = ScriptedSource([examples(5, 1), examples(5, 2)])
    with MetricsServer() as metrics:
        run(source, metrics, checkpoint=Checkpoints(tmp_path / "kept", seconds=0))
        served = {name for name in read_metrics(metrics) if name.startswith("streaml1_")}
    of_other_observers = {name for name in documented if name in OTHER_OBSERVERS}
    assert served == documented - of_other_observers


OTHER_OBSERVERS: set[str] = {"streaml1_dead_letters_total", "streaml1_publications_total"}
"""Metrics of observers that this run does not have."""


# Health


def test_health_is_starting_before_the_run() -> None:
    with MetricsServer() as metrics:
        assert health(metrics) == (200, {"status": "starting", "reasons": []})
        assert fetch(metrics, "/livez")[::2] == (200, "ok\n")
        code, _, text = fetch(metrics, "/readyz")
        assert code == 503 and json.loads(text) == {
            "ready": False, "status": "starting", "reasons": ["the run has not started"]
        }  # fmt: skip
        assert not any(name.startswith("streaml1_") for name in read_metrics(metrics))


def test_unhealthy_if_stalled_with_unread_records(clock: Callable[[float], None]) -> None:
    source = ScriptedSource([examples(5, 1), examples(5, 2)])
    responses: list[tuple[int, dict[str, Any]]] = []
    with MetricsServer(stalled_seconds=30.0) as metrics:

        def check_stall() -> None:
            for seconds in (29.0, 2.0):
                clock(seconds)
                responses.append(health(metrics))
            assert read_metrics(metrics)["streaml1_healthy"] == 0.0

        def caught_up() -> None:
            assert health(metrics)[0] == 200
            source.ends[1] = 0
            clock(1000.0)
            responses.append(health(metrics))

        source.callbacks = [check_stall, caught_up]
        run(source, metrics)
    assert [code for code, _ in responses] == [200, 503, 200]
    assert responses[1][1]["reasons"] == [
        "no example was learnt for 31 s, and 12 records are unread"
    ]
    assert responses[1][1]["status"] == "red" and responses[1][1]["lag"] == 12


@pytest.mark.parametrize("fault", [None, "no broker answers", "refuses user 'ann'"])
def test_unhealthy_if_idle_and_the_broker_is_unreachable(
    fault: str | None, clock: Callable[[float], None]
) -> None:
    source: Any = ScriptedSource([examples(5, 1)])
    source.ends = {0: 5, 1: 0}
    probes = []

    def is_reachable() -> bool:
        probes.append(True)
        if fault is not None and fault.startswith("refuses"):
            raise streaml1.sources.SourceError(fault)
        return fault is None

    source.is_reachable = is_reachable
    with MetricsServer(stalled_seconds=30.0) as metrics:

        def check_health() -> None:
            assert health(metrics)[0] == 200 and not probes
            clock(31.0)
            for _ in range(3):
                code, body = health(metrics)
                assert code == (200 if fault is None else 503)
                assert body["reasons"] == ([] if fault is None else [fault])
                assert fetch(metrics, "/livez")[0] == 200  # a restart would not bring it back
                ready, _, text = fetch(metrics, "/readyz")
                assert (ready, json.loads(text)) == (code, {"ready": code == 200, **body})
            assert len(probes) == 1  # the result of a probe is cached

        source.callbacks = [check_health]
        run(source, metrics)


def test_unhealthy_if_the_loss_is_not_finite() -> None:
    model = linear_model.LinearRegression(optim.SGD(1e9), clip_gradient=1e300)
    data = [({"a": 1e9 * (-1) ** k}, 1.0) for k in range(60)]
    with MetricsServer() as metrics:
        report = progressive(model, data, observers=[metrics])
        assert not math.isfinite(report.lines[-1].loss or 0.0)
        code, body = health(metrics)
        assert read_metrics(metrics)["streaml1_healthy"] == 0.0
    assert code == 503 and body["reasons"] == ["the loss is not finite: the model has diverged"]


def test_unhealthy_if_checkpoints_are_overdue(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    source = ScriptedSource([examples(5, k) for k in range(4)])
    codes = []
    with MetricsServer() as metrics, Checkpoints(tmp_path / "kept", seconds=10.0) as store:
        store.__class__ = type("Late", (Checkpoints,), {"is_due": False})

        def record_health() -> None:
            codes.append(health(metrics)[0])
            clock(16.0)

        source.callbacks = [record_health] * 4
        progressive(streaml1.ElasticNetClassifier(), source, observers=[metrics], checkpoint=store)
        assert health(metrics)[0] == 200  # saved at the end
    assert codes == [200, 200, 503, 503]


# The server


def test_head_requests_have_no_body() -> None:
    with MetricsServer() as metrics:
        for path in ("/health", "/metrics"):
            connection = http.client.HTTPConnection(metrics.address, timeout=10)
            connection.request("HEAD", path)
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, b"")
            assert int(response.headers["Content-Length"]) > 0
            connection.close()


def test_unknown_paths_and_invalid_addresses() -> None:
    with MetricsServer("::1") as metrics:
        assert metrics.address.startswith("[::1]:")
        assert fetch(metrics, "/")[0] == 404 and health(metrics)[0] == 200
    with MetricsServer() as metrics:
        assert metrics.address.startswith("127.0.0.1:")
        with pytest.raises(MetricsError, match="cannot listen at 127.0.0.1:.*in use") as error:
            MetricsServer(port=int(metrics.address.rpartition(":")[2]))
        assert error.value.exit_code == 2
    assert "streaml1-metrics" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(MetricsError) as error:
        MetricsServer("192.0.2.1")
    assert error.value.exit_code == 2
    for invalid in ("x", "-1", "65536", ":9", "a:b", ""):
        with pytest.raises(MetricsError, match="must be a port .8490. or HOST:PORT, got"):
            parse_address(invalid)
    assert parse_address("0.0.0.0:1") == ("0.0.0.0", 1)


SHORT = Limits(connections=4, streams=2, seconds=0.4)


def connect(metrics: MetricsServer, data: bytes = b"") -> socket.socket:
    host, _, port = metrics.address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=10.0)
    connection.sendall(data)
    return connection


def received(connection: socket.socket) -> bytes:
    """Return all that a server sends until it closes the connection."""
    data = b""
    with connection:
        while True:
            try:
                chunk = connection.recv(65536)
            except ConnectionResetError:
                return data
            if not chunk:
                return data
            data += chunk


def test_further_connections_are_closed_at_once() -> None:
    with MetricsServer(limits=SHORT._replace(seconds=30.0)) as metrics:
        idle = [connect(metrics, b"G") for _ in range(4)]
        _until(lambda: len(metrics._server._open) == 4)
        begin = time.monotonic()
        assert [received(connect(metrics)) for _ in range(3)] == [b""] * 3
        assert time.monotonic() - begin < 5.0
        for connection in idle:
            connection.close()
        _until(lambda: not metrics._server._open)
        assert fetch(metrics, "/livez")[0] == 200


def test_slow_requests_end() -> None:
    """Bytes that arrive one by one do not extend the time of a request."""
    with MetricsServer(limits=SHORT) as metrics:
        connection = connect(metrics)
        begin = time.monotonic()
        with pytest.raises(OSError):
            for byte in b"GET /livez HTTP/1.1\r\nX: " + b"x" * 500:
                connection.sendall(bytes([byte]))
                time.sleep(0.02)
        assert 0.3 < time.monotonic() - begin < 5.0
        connection.close()
        assert received(connect(metrics, b"GET /li")).startswith(b"HTTP/1.1 408 ")


def test_clients_that_read_nothing_end() -> None:
    with MetricsServer(limits=SHORT) as metrics:
        metrics.routes["/big"] = lambda request: Response(200, "text/plain", b"x" * 2**26)
        with connect(metrics, b"GET /big HTTP/1.1\r\n\r\n"):
            _until(lambda: bool(metrics._server._open))
            _until(lambda: not metrics._server._open)


def test_streams_leave_room_for_requests() -> None:
    ended = []

    def chunks() -> Any:
        try:
            while True:
                yield b""
                time.sleep(0.01)
        finally:
            ended.append(True)

    with MetricsServer(limits=SHORT) as metrics:
        metrics.routes["/s"] = lambda request: Response(200, "text/plain", b"hi", (), chunks())
        request = b"GET /s HTTP/1.1\r\n\r\n"
        streams = [connect(metrics, request) for _ in range(2)]
        assert all(b"hi" in stream.recv(1000) for stream in streams)
        assert received(connect(metrics, request)).startswith(b"HTTP/1.1 503 ")
        assert fetch(metrics, "/livez")[0] == 200
        time.sleep(0.5)  # a stream has no deadline
        assert not ended
        streams[0].close()
        _until(lambda: ended == [True])
    assert received(streams[1]) == b""
    _until(lambda: ended == [True] * 2)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /livez HTTP/1.1\r\n\r\n", 200),
        (b"GET /livez?a=%20 HTTP/1.0\r\nHost: x\r\n\r\n", 200),
        (b"spam\r\n\r\n", 400),
        (b"GET /livez\r\n\r\n", 400),
        (b"GET livez HTTP/1.1\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nHost\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nContent-Length: 65537\r\n\r\n", 413),
        (b"GET /livez HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n", 413),
        (b"GET /livez HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 411),
        (b"POST /livez HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /livez HTTP/1.1\r\n\r\n", 405),
        (b"GET /spam HTTP/1.1\r\n\r\n", 404),
        (b"GET /livez HTTP/1.1\r\nX: " + b"x" * 20_000, 431),
        (b"\xff\x00\r\n\r\n", 400),
    ],
)
def test_requests(data: bytes, status: int) -> None:
    with MetricsServer() as metrics:
        response = received(connect(metrics, data))
    assert response.startswith(b"HTTP/1.1 %d " % status) and b"Connection: close\r\n" in response


TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=10)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_a_request_or_refused(data: bytes, has_start: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"GET /x HTTP/1.1\r\n" * has_start + data)
        ours.shutdown(socket.SHUT_WR)
        try:
            request = _read_request(theirs, Limits())
        except (_Refused, ConnectionError):
            return
    assert request.path.startswith("/")


@given(
    TEXT.filter(lambda text: "?" not in text),
    st.dictionaries(TEXT.filter(lambda text: ":" not in text).map(str.lower), TEXT, max_size=4),
    st.binary(max_size=60),
    st.lists(st.integers(1, 30), max_size=8),
)
def test_requests_arrive_in_any_pieces(
    path: str, headers: dict[str, str], body: bytes, sizes: list[int]
) -> None:
    headers = {**headers, "content-length": str(len(body))}
    headers.pop("transfer-encoding", None)
    lines = [f"POST /{path}?a=b%20c HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    data = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for size in [*sizes, len(data)]:
            ours.sendall(data[:size])
            data = data[size:]
        request = _read_request(theirs, Limits())
    assert request == ("POST", f"/{path}", {"a": "b c"}, headers, body)


def test_clients_that_leave_are_not_reported(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    request = b"GET /metrics HTTP/1.1\r\n\r\n"
    with MetricsServer() as metrics:
        for data in (b"", b"GET", request):
            connection = connect(metrics, data)
            # With this option, closing resets the connection.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
        assert fetch(metrics, "/livez")[0] == 200
        _until(lambda: not metrics._server._open)
    assert capfd.readouterr().err == "" and not caplog.records


def test_a_route_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: object) -> Response:
        raise ZeroDivisionError("spam")

    with MetricsServer() as metrics:
        metrics.routes["/fail"] = fail
        assert fetch(metrics, "/fail")[::2] == (500, "internal error: ZeroDivisionError\n")
    assert [record.getMessage() for record in caplog.records] == [
        "/fail failed: ZeroDivisionError: spam"
    ]


HOLD_ALL_DESCRIPTORS = """
import os, resource, sys
from streaml1.cli.program import main
import streaml1.cli
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
held = []
try:
    while True:
        held.append(os.dup(0))
except OSError:
    pass
sys.argv = ["streaml1", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("command", [["learn", "a.svm"], ["show", "a.svm"]])
def test_lack_of_descriptors_is_temporary(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "a.svm").write_text("1 1:1\n")
    preload = "import numpy, river, streaml1.sources, streaml1.training, streaml1.models\n"
    ended = subprocess.run(
        [sys.executable, "-c", preload + HOLD_ALL_DESCRIPTORS, *command], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert "Traceback" not in ended.stderr and "too many open files" in ended.stderr.lower()
    assert ended.returncode == exit_codes.TEMPORARY_FAILURE, ended.stderr


def test_a_scrape_without_descriptors_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server waits and accepts again; the run is not affected."""
    with MetricsServer() as metrics:
        server = metrics._server
        accept, failures = socket.socket.accept, [OSError(24, "Too many open files")] * 2

        def fail_twice(listening: socket.socket) -> Any:
            if failures:
                raise failures.pop()
            return accept(listening)

        monkeypatch.setattr(socket.socket, "accept", fail_twice)
        for _ in range(3):
            assert fetch(metrics, "/livez")[0] == 200
        assert not failures and server._thread.is_alive()


def test_the_default_port_is_documented() -> None:
    assert f"`--metrics` serves `http://127.0.0.1:{DEFAULT_PORT}/metrics`" in OPERATING.read_text()


def test_missing_library_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MetricsError, match=r"pip install 'streaml1\[metrics\]'"):
        MetricsServer()
    with MetricsServer(requires_library=False) as metrics:
        assert fetch(metrics, "/metrics")[0] == 501 and fetch(metrics, "/livez")[0] == 200


def test_concurrent_scrapes_see_monotonic_counters() -> None:
    """Scrape from another thread while the model learns."""
    source = ScriptedSource([examples(200, seed) for seed in range(60)])
    counts: list[float] = []
    finished = threading.Event()
    with MetricsServer() as metrics:

        def watch() -> None:
            while not finished.is_set():
                samples = read_metrics(metrics)
                if "streaml1_examples_total" in samples:
                    counts.append(samples["streaml1_examples_total"])

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            run(source, metrics)
        finally:
            finished.set()
            watcher.join()
    assert counts == sorted(counts)


# As a process


@pytest.mark.kafka
def test_metrics_of_a_process_reading_a_topic(tmp_path: Path) -> None:
    broker: Broker = connect_or_skip()
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
        _until(lambda: read_metrics(metrics).get("streaml1_examples_total") == 90)
        broker.send(topic, ["spam", "1 3:1"], (1,))
        _until(lambda: read_metrics(metrics)["streaml1_refused_total"] == 1)
        _until(lambda: read_metrics(metrics)["streaml1_checkpoint_bytes"] > 0)
        samples = read_metrics(metrics)
        assert samples["streaml1_lag"]["partition=0"] == samples["streaml1_lag"]["partition=1"] == 0
        assert samples["streaml1_examples_total"] == 91
        assert samples["process_resident_memory_bytes"] > 1e6
        assert health(metrics)[0] == 200
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
        broker.close()
    assert process.returncode == 143, rest
    events += [json.loads(line) for line in rest.splitlines()]
    for event in events:
        assert list(event)[:4] == ["time", "level", "event", "message"]
        assert event["time"].endswith("Z") and event["level"] in ("info", "warning", "error")
    by_name = {event["event"]: event for event in events}
    assert [event["examples"] for event in events if event["event"] == "line"] == [30, 60, 90, 91]
    assert by_name["run_begins"]["resumed"] is False
    assert by_name["example_refused"]["place"] == f"{topic}/1@45"
    assert by_name["checkpoint_saved"]["bytes"] > 0
    assert by_name["run_ends"] | {"loss": 0} == by_name["run_ends"] | {
        "examples": 91, "refused": 1, "signal": 15, "loss": 0
    }  # fmt: skip
    assert by_name["interrupted"]["signal"] == 15


def _event_names(source: Path) -> Iterator[str]:
    """Yield the names of events in a module."""
    positions = {"event": 0, "report_problem": 1}  # of the name among the arguments
    if source.name == "data_checks.py":
        positions["_warn"] = 0
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Call):
            position = positions.get(ast.unparse(node.func).rpartition(".")[2])
            names = [] if position is None else node.args[position : position + 1]
            yield from (str(name.value) for name in names if isinstance(name, ast.Constant))


def test_documented_events_are_exactly_those_written() -> None:
    text = OPERATING.read_text()
    table = text.partition("| event | level | fields |")[2].partition("\n\n")[0].splitlines()[2:]
    documented = {name for line in table for name in re.findall("`(.*?)`", line.split("|")[1])}
    written = {"message", "advice"}  # of records and problems without a name
    for path in (ROOT / "streaml1").rglob("*.py"):
        written.update(_event_names(path))
    assert documented == written


def _until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.kafka
def test_lag_counts_unread_records() -> None:
    """Transaction markers also occupy offsets, but are never read."""
    broker: Broker = connect_or_skip()
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
    finished = threading.Event()
    source.set_stop(finished.is_set)
    assert source.lag() == {}
    lags = []
    deadline = time.monotonic() + 30.0
    for block in source.blocks(10, pytest.fail):
        lags.append(source.lag())
        if not len(block) and lags[-1] == {0: 0, 1: 0, 2: 0}:
            finished.set()
        assert time.monotonic() < deadline, lags[-1]
    broker.close()
    assert sum(lags[0].values()) >= 40 and lags[0][2] == 0
    totals = [sum(lag.values()) for lag in lags]
    assert totals == sorted(totals, reverse=True) and totals[-1] == 0


def test_metrics_per_partition(clock: Callable[[float], None]) -> None:
    with MetricsServer(stalled_seconds=30.0) as metrics:
        for partition, n in ((3, 20), (1, 12)):
            source: Any = ScriptedSource([examples(n, n)])
            source.ends = {partition: n + partition, 9: 0}
            source.lag = lambda source=source, p=partition: {p: source.ends[p] - source.done}
            model = streaml1.ElasticNetClassifier()
            progressive(model, source, observers=[metrics.add_partition(partition)])
        samples = read_metrics(metrics)
        assert samples["streaml1_examples_total"] == {"partition=1": 12, "partition=3": 20}
        assert samples["streaml1_lag"] == {"partition=1": 1, "partition=3": 3}
        assert health(metrics) == (
            200, {"status": "green", "reasons": [], "examples": 32, "partitions": 2}
        )  # fmt: skip
        clock(31.0)
        metrics.add_partition(1)  # a new run replaces it
        code, body = health(metrics)
        assert code == 503 and body["reasons"] == [
            "partition 3: no example was learnt for 31 s, and 3 records are unread"
        ]
        metrics.drop_partition(3)
        assert health(metrics) == (200, {"status": "starting", "reasons": []})
        metrics.drop_partition(1)
        metrics.drop_partition(1)
        assert health(metrics)[0] == 200
