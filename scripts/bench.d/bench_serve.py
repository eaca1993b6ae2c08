"""Serving: CPU time of requests, latencies, and answers while models are replaced."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from bench_kit import CONSOLE, SEED, new_table

import streaml1
from streaml1.serving.model_source import open_source

CATEGORIES, BATCH, ROUNDS = 39, 100, 7
REQUESTS = 4_000
RATE, SECONDS = 1_000, 5.0
VERSIONS, CLIENTS = 200, 3


def examples(n: int, seed: int = SEED) -> list[dict[str, str]]:
    """Return n examples of 39 categories."""
    values = np.random.default_rng(seed).zipf(1.3, (n, CATEGORIES)) % 1000
    return [{f"c{j}": f"v{v}" for j, v in enumerate(row)} for row in values.tolist()]


def trained(seed: int, n: int = 2_000) -> Any:
    model, rng = streaml1.ElasticNetClassifier(lr=0.1, l1=1e-6), np.random.default_rng(seed)
    for x, y in zip(examples(n, seed), (rng.random(n) < 0.2).tolist(), strict=True):
        model.learn_one(x, y)
    return model


@contextmanager
def served(path: Path, *options: str) -> Iterator[tuple[int, int]]:
    """Run ``streaml1 serve``; yield its port and its process id."""
    command = [sys.executable, "-m", "streaml1", "serve", str(path), "--listen", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"http://127.0.0.1:(\d+)", line):
                yield int(found[1]), process.pid
                break
    finally:
        process.kill()
        process.communicate()


@contextmanager
def plain_server(path: Path) -> Iterator[tuple[int, int]]:
    """Run a server made of http.server and json in another process."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        frozen = streaml1.load(path).freeze()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                x = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps({"p": frozen.predict_proba_one(x)[True]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        os.write(writer, str(server.server_address[1]).encode())
        server.serve_forever()
    try:
        yield int(os.read(reader, 10)), pid
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def request_of(body: bytes, kind: str = "application/json") -> bytes:
    head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def send_all(port: int, requests: list[bytes], n: int) -> None:
    """Send n requests over one connection, each after the answer to the one before."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for k in range(n):
            client.sendall(requests[k % len(requests)])
            received = client.recv(1 << 20)
            while b"\r\n\r\n" not in received:
                received += client.recv(1 << 20)
            head, _, body = received.partition(b"\r\n\r\n")
            length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])  # type: ignore[index]
            assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200"))
            while len(body) < length:
                body += client.recv(1 << 20)


def bench_cost(path: Path) -> None:
    single = [request_of(json.dumps(x).encode()) for x in examples(200)]
    batches = [request_of(json.dumps(examples(BATCH, k)).encode()) for k in range(20)]
    lines = [" ".join(["|", *(f"{k}={v}" for k, v in x.items())]) for x in examples(BATCH)]
    vw = [request_of("\n".join(lines).encode(), "text/vw")]
    with served(path) as ours, plain_server(path) as theirs:
        contenders = {
            "one example": (ours, single, REQUESTS, 1),
            f"batch of {BATCH}, JSON": (ours, batches, REQUESTS // 40, BATCH),
            f"batch of {BATCH}, text/vw": (ours, vw, REQUESTS // 40, BATCH),
            "http.server and json, one example": (theirs, single, REQUESTS // 4, 1),
        }
        cost: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(ROUNDS):
            for name, ((port, pid), requests, n, _) in contenders.items():
                before = cpu_seconds(pid)
                send_all(port, requests, n)
                cost[name].append((cpu_seconds(pid) - before) / n)
    table = new_table(
        f"Requests of {CATEGORIES} categories, one connection, CPU of the server",
        *("request", "us/request", "us/prediction", "predictions/s"),
    )
    for name, (_, _, _, size) in contenders.items():
        us = float(np.median(cost[name])) * 1e6
        table.add_row(name, f"{us:.1f}", f"{us / size:.1f}", f"{1e6 * size / us:,.0f}")
    CONSOLE.print(table)


def bench_latency(path: Path) -> None:
    """Print percentiles of latency at a fixed rate, counted from when a request was due."""
    requests = [request_of(json.dumps(x).encode()) for x in examples(200)]
    latencies = []
    with (
        served(path) as (port, _),
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begin = time.perf_counter()
        for k in range(int(RATE * SECONDS)):
            due = begin + k / RATE
            while time.perf_counter() < due:
                pass
            client.sendall(requests[k % len(requests)])
            client.recv(65536)
            latencies.append(time.perf_counter() - due)
    p50, p99 = np.percentile(np.array(latencies) * 1e3, [50, 99])
    table = new_table(f"Latency at {RATE:,} requests/s", "median", "99 %")
    table.add_row(f"{p50:.2f} ms", f"{p99:.2f} ms")
    CONSOLE.print(table)


def bench_versions(folder: Path) -> None:
    """Replace the model while clients ask; every answer must be that of the version it names."""
    asked = examples(50)
    models = [trained(seed, 100) for seed in range(10)]
    expected, encoded = {}, []
    for model in models:
        model.save(folder / "one")
        frozen = model.freeze()
        version = open_source(str(folder / "one")).load().version
        expected[version] = [frozen.predict_proba_one(x)[True] for x in asked]
        encoded.append((folder / "one").read_bytes())
    path = folder / "replaced.model"
    path.write_bytes(encoded[0])
    counts, wrong, stop = [0] * CLIENTS, [0], threading.Event()
    seen: set[str] = set()

    def ask(number: int, port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while not stop.is_set():
            k = counts[number] % len(asked)
            connection.request("POST", "/predict", json.dumps(asked[k]))
            answer = json.loads(connection.getresponse().read())
            seen.add(answer["version"])
            wrong[0] += answer["p"] != expected[answer["version"]][k]
            counts[number] += 1

    with served(path, "--check-every", "0.02") as (port, _):
        clients = [threading.Thread(target=ask, args=(k, port)) for k in range(CLIENTS)]
        for client in clients:
            client.start()
        for number in range(VERSIONS):
            (folder / "new").write_bytes(encoded[number % len(encoded)])
            os.replace(folder / "new", path)
            time.sleep(0.05)
        stop.set()
        for client in clients:
            client.join()
    table = new_table(
        "Answers while the model is replaced",
        *("publications", "requests", "versions seen", "answers of another version"),
    )
    table.add_row(
        f"{VERSIONS}", f"{sum(counts):,}", f"{len(seen)} of {len(expected)}", str(wrong[0])
    )
    CONSOLE.print(table)


def bench_serve() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "clicks.model"
        trained(0).save(path)
        bench_cost(path)
        bench_latency(path)
        bench_versions(Path(name))
