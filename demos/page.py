"""The page of a run: write one, and measure what a live one costs.

    python demos/page.py          # writes out/page.html, and out/page.png if chromium is installed
    python demos/page.py --cost   # processor time of a live page for a model with a million weights

The run learns a stream of clicks: 3,000 sites, 500 ads whose effects drift, and one invalid label
in 500. The cost is that of a learner of 200 examples per second: without a server, with a page that
is not open, with an open one, and with one in which rare names are searched without a pause.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from screenshot import screenshot

import streaml1
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.metrics_server import MetricsObserver, MetricsServer
from streaml1.training.page import LivePage, page_routes

EXAMPLES = 120_000
WEIGHTS = 1_000_000
SECONDS = 20.0

CLIENT = """
import sys, time, urllib.request
address, search = sys.argv[1:]
def read(path):
    with urllib.request.urlopen(f"http://{address}{path}") as answer:
        for line in answer:
            pass
if not search:
    read("/events")
while True:
    read("/weights?prefix=" + search)
"""


def clicks(n: int, seed: int = 1) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield examples of clicks: the effect of an ad changes over time."""
    draw = random.Random(seed)
    sites = [draw.gauss(0.0, 0.6) for _ in range(3000)]
    ads = [draw.uniform(0.0, 2.0 * math.pi) for _ in range(500)]
    for k in range(n):
        site, ad = draw.randrange(3000), int(draw.paretovariate(1.0)) % 500
        margin = sites[site] + math.cos(ads[ad] + 3.0 * k / n) - 1.5
        label: Any = draw.random() < 1.0 / (1.0 + math.exp(-margin))
        if draw.random() < 0.002:
            label = draw.choice([7, "unknown"])
        x = {"site": f"s{site}", "ad": f"a{ad}", "hour": str(k * 24 // n)}
        yield x, label


def write_page(directory: Path, n: int = EXAMPLES) -> None:
    """Learn clicks, and write the page of the run."""
    directory.mkdir(exist_ok=True)
    measured = MetricsObserver(60.0)
    page = LivePage(measured, keeps_weights=True)
    model = streaml1.ElasticNetClassifier(l1=3e-5)
    source = str(directory / "clicks.jsonl")
    with open(source, "w") as file:
        file.writelines(json.dumps({"x": x, "y": y}) + "\n" for x, y in clicks(n))
    with tempfile.TemporaryDirectory() as kept, Checkpoints(kept, seconds=0.2) as store:
        streaml1.progressive(
            model, source, observers=[measured, page], bad="skip", every=max(1, n // 60),
            checkpoint=store,
        )  # fmt: skip
    page.write(directory / "page.html")
    print(f"{directory / 'page.html'}: {(directory / 'page.html').stat().st_size:,} bytes")
    screenshot(directory / "page.html", directory / "page.png")


def slow_stream(stopped: threading.Event, weights: int) -> Iterator[tuple[dict[str, float], bool]]:
    """Yield an example for each weight, then 200 examples per second."""
    for k in range(weights // 10):
        yield {f"user={10 * k + j}": 1.0 for j in range(10)}, k % 3 == 0
    while not stopped.is_set():
        time.sleep(0.05)
        for k in range(10):
            yield {f"user={k}": 1.0}, k % 3 == 0


def measure(seconds: float = SECONDS, weights: int = WEIGHTS) -> dict[str, float]:
    """Return the share of a core that the process takes in each situation."""
    stopped, shares = threading.Event(), {}
    model = streaml1.ElasticNetClassifier(lr=0.1)
    with MetricsServer(requires_library=False) as server, LivePage(server) as page:
        server.routes.update(page_routes(page, "127.0.0.1"))

        def measure_all() -> None:
            while model.n_iterations <= weights // 10:
                time.sleep(0.1)
            for name, search in (("nobody", None), ("open", ""), ("searching", "user=99999")):
                client = None
                if search is not None:
                    command = [sys.executable, "-c", CLIENT, server.address, search]
                    client = subprocess.Popen(command)
                    time.sleep(2.0)
                begin, cpu = time.monotonic(), time.process_time()
                time.sleep(seconds)
                shares[name] = (time.process_time() - cpu) / (time.monotonic() - begin)
                if client is not None:
                    client.kill()
                    client.wait()
            stopped.set()

        thread = threading.Thread(target=measure_all)
        thread.start()
        observers = [server, page]
        streaml1.progressive(
            model, slow_stream(stopped, weights), observers=observers, data_checks=False
        )
        thread.join()
    return shares


def measure_without(seconds: float = SECONDS, weights: int = WEIGHTS) -> float:
    """Return the share of a core of the same learner without a server."""
    stopped, shares = threading.Event(), []
    model = streaml1.ElasticNetClassifier(lr=0.1)

    def measure_once() -> None:
        while model.n_iterations <= weights // 10:
            time.sleep(0.1)
        begin, cpu = time.monotonic(), time.process_time()
        time.sleep(seconds)
        shares.append((time.process_time() - cpu) / (time.monotonic() - begin))
        stopped.set()

    thread = threading.Thread(target=measure_once)
    thread.start()
    streaml1.progressive(model, slow_stream(stopped, weights), data_checks=False)
    thread.join()
    return shares[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cost", action="store_true", help="measure what a live page costs")
    if parser.parse_args().cost:
        print(f"{WEIGHTS:,} weights, 200 examples per second: share of a core")
        print(f"no server            {measure_without():7.2%}")
        for name, share in measure().items():
            print(f"page, {name:<14} {share:7.2%}")
    else:
        write_page(Path("out"))


if __name__ == "__main__":
    main()
