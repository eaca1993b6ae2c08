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
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from bench_kit import CONSOLE, SEED, new_table

import streaml1
from streaml1.serving.model_source import open_source

CATEGORIES, BATCH, ROUNDS = 39, 100, 7
REQUESTS = 4_000
RATES, SECONDS = (1_000, 10_000), 5.0
VERSIONS, CLIENTS, PARALLEL = 200, 3, 16
CONSTANT = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Model-Version: 000000000000\r\n"
    b"Content-Length: 68\r\n\r\n" + 68 * b" "
)


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
            wbufsize = -1  # head and body in one packet: else each waits for a delayed ACK

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
    """Return the CPU time of all threads of a process, user and kernel."""
    return time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3), which Python lacks


@contextmanager
def constant_server() -> Iterator[tuple[int, int]]:
    """Run a server that parses nothing and always sends the same answer, in another process."""
    code = (
        "import asyncio, uvloop\n"
        "class Protocol(asyncio.Protocol):\n"
        "    def connection_made(self, transport): self.transport = transport\n"
        "    def data_received(self, data): self.transport.write(ANSWER)\n"
        "async def main():\n"
        "    loop = asyncio.get_running_loop()\n"
        "    server = await loop.create_server(Protocol, '127.0.0.1', 0)\n"
        "    print(server.sockets[0].getsockname()[1], flush=True)\n"
        "    await server.serve_forever()\n"
        f"ANSWER = {CONSTANT!r}\n"
        "uvloop.run(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline()), process.pid
    finally:
        process.kill()
        process.communicate()


def send_all(port: int, requests: list[bytes], n: int, connections: int = 1) -> None:
    """Send n requests; each connection waits for the answer to its last one."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            for _ in range(connections)
        ]
        for client in clients:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for first in range(0, n, connections):
            for k, client in enumerate(clients, first):
                client.sendall(requests[k % len(requests)])
            for client in clients:
                receive(client)


def receive(client: socket.socket) -> None:
    """Receive an answer."""
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
    vw_lines = [
        [" ".join(["|", *(f"{k}={v}" for k, v in x.items())]) for x in examples(BATCH, k)]
        for k in range(20)
    ]
    vw = [request_of("\n".join(lines).encode(), "text/vw") for lines in vw_lines]
    ndjson = [
        request_of("\n".join(map(json.dumps, examples(BATCH, k))).encode(), "application/x-ndjson")
        for k in range(20)
    ]
    with (
        served(path) as ours,
        plain_server(path) as theirs,
        constant_server() as constant,
    ):
        contenders = {
            "one example": (ours, single, REQUESTS, 1, 1),
            f"one example, {PARALLEL} connections": (ours, single, REQUESTS, 1, PARALLEL),
            f"batch of {BATCH}, JSON": (ours, batches, REQUESTS // 40, BATCH, 1),
            f"batch of {BATCH}, JSON lines": (ours, ndjson, REQUESTS // 40, BATCH, 1),
            f"batch of {BATCH}, text/vw": (ours, vw, REQUESTS // 40, BATCH, 1),
            "uvloop, a constant answer": (constant, single, REQUESTS, 1, 1),
            f"... {PARALLEL} connections": (constant, single, REQUESTS, 1, PARALLEL),
            "http.server and json, one example": (theirs, single, REQUESTS // 4, 1, 1),
        }
        cost: dict[str, list[float]] = {name: [] for name in contenders}
        for body in (ndjson[0], vw[0]):
            send_all(ours[0], [body], 1)  # loads the kernels in the background
            time.sleep(3.0)
        for _ in range(ROUNDS):
            for name, ((port, pid), requests, n, _, connections) in contenders.items():
                before = cpu_seconds(pid)
                send_all(port, requests, n, connections)
                cost[name].append((cpu_seconds(pid) - before) / n)
    table = new_table(
        f"Requests of {CATEGORIES} categories, CPU of the server",
        *("request", "us/request", "us/prediction", "predictions/s"),
    )
    for name, (_, _, _, size, _) in contenders.items():
        us = float(np.median(cost[name])) * 1e6
        table.add_row(name, f"{us:.1f}", f"{us / size:.1f}", f"{1e6 * size / us:,.0f}")
    CONSOLE.print(table)


def bench_latency(path: Path) -> None:
    """Print percentiles of latency at fixed rates, counted from when a request was due."""
    table = new_table("Latency of one example", "requests/s", "median", "99 %")
    for rate in RATES:
        p50, p99 = np.percentile(np.array(latencies(path, rate)) * 1e3, [50, 99])
        table.add_row(f"{rate:,}", f"{p50:.2f} ms", f"{p99:.2f} ms")
    CONSOLE.print(table)


def latencies(path: Path, rate: int) -> list[float]:
    requests = [request_of(json.dumps(x).encode()) for x in examples(200)]
    found = []
    with (
        served(path) as (port, _),
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begin = time.perf_counter()
        for k in range(int(rate * SECONDS)):
            due = begin + k / rate
            while time.perf_counter() < due:
                pass
            client.sendall(requests[k % len(requests)])
            client.recv(65536)
            found.append(time.perf_counter() - due)
    return found


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
