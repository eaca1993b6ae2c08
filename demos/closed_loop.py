"""A closed loop: what users click is learnt, and what is learnt decides what users see.

    python demos/closed_loop.py                 # 40 seconds; out/closed_loop/page.png is the page
    python demos/closed_loop.py --seconds 300 --kafka localhost:9092

A learner reads clicks from a topic and publishes its model to another one. Two servers take over
each version, and rank 10 ads for each user. The user sees the first, clicks it or not, and the
server writes that example to the topic of the clicks. After half of the time the tastes of the
users change. The table compares the clicks with those expected of random ads and of the best ones.

A broker is started for the demo, which needs Java, unless --kafka names one.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import random
import re
import shutil
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from screenshot import screenshot
from tutorial import (
    broker_for,
    end,
    end_on_signals,
    free_port,
    say,
    start,
    wait_for,
    wait_for_model,
)

FOLDER = Path("out") / "closed_loop"
N_TASTES, N_ADS, N_SHOWN = 6, 40, 10
EXPLORED = 0.1  # share of the users who see a random ad, so that all ads are learnt
FIRST = 2000
PER_ROUND = 25
PAGE = 8490


class Tally(NamedTuple):
    """Users, their clicks, and the clicks expected of random and of the best ads."""

    users: int = 0
    clicks: int = 0
    random: float = 0.0
    best: float = 0.0

    def plus(self, is_clicked: bool, rates: list[float]) -> Tally:
        """Return the tally after one more user who could see ads with these rates."""
        mean = sum(rates) / len(rates)
        return Tally(
            self.users + 1, self.clicks + is_clicked, self.random + mean, self.best + max(rates)
        )


class Users:
    """Users who click ads by their taste."""

    def __init__(self, seed: int = 1) -> None:
        self._draw = random.Random(seed)
        self.change()

    def change(self) -> None:
        """Draw other tastes."""
        self._margins = [
            [self._draw.gauss(-2.0, 1.5) for _ in range(N_ADS)] for _ in range(N_TASTES)
        ]

    def next(self) -> tuple[int, list[int]]:
        """Return the taste of the next user, and the ads that there are."""
        return self._draw.randrange(N_TASTES), self._draw.sample(range(N_ADS), N_SHOWN)

    def rate(self, taste: int, ad: int) -> float:
        """Return the probability of a click."""
        return 1.0 / (1.0 + math.exp(-self._margins[taste][ad]))

    def explores(self) -> bool:
        """Return whether the next user sees a random ad."""
        return self._draw.random() < EXPLORED

    def clicks(self, rate: float) -> bool:
        """Return whether a user clicks."""
        return self._draw.random() < rate


def example(taste: int, ad: int, is_clicked: bool) -> bytes:
    """Return an example as JSON."""
    x = {"taste": f"t{taste}", "ad": f"a{ad}"}
    return json.dumps({"x": x, "y": is_clicked}).encode()


def write_first(broker: str, topic: str, users: Users) -> None:
    """Write clicks on random ads, from which the first model is learnt."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker)
    for _ in range(FIRST):
        taste, (ad, *_) = users.next()
        producer.send(topic, example(taste, ad, users.clicks(users.rate(taste, ad))))
    producer.flush()
    producer.close()


def ask(server: http.client.HTTPConnection, path: str, body: bytes) -> dict[str, Any]:
    """Return the answer of a server."""
    server.request("POST", path, body)
    answer: dict[str, Any] = json.loads(server.getresponse().read())
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


def one_round(server: http.client.HTTPConnection, users: Users, tally: Tally) -> tuple[Tally, str]:
    """Show ads to some users, and give what they do to the server; return the model's version."""
    lines, version = [], ""
    for _ in range(PER_ROUND):
        taste, ads = users.next()
        body = {"shared": {"taste": f"t{taste}"}, "items": [{"ad": f"a{ad}"} for ad in ads]}
        answer = ask(server, "/rank", json.dumps(body).encode())
        version = answer["version"]
        ad = ads[0] if users.explores() else ads[answer["ranking"][0]["item"]]
        is_clicked = users.clicks(users.rate(taste, ad))
        lines.append(example(taste, ad, is_clicked))
        tally = tally.plus(is_clicked, [users.rate(taste, other) for other in ads])
    ask(server, "/learn", b"\n".join(lines))
    return tally, version


def loop(ports: list[int], users: Users, seconds: float) -> Iterator[tuple[Tally, list[str]]]:
    """Yield clicks and the versions of both servers, ten times in all."""
    servers = [http.client.HTTPConnection("127.0.0.1", port) for port in ports]
    for tenth in range(10):
        if tenth == 5:
            users.change()
        tally, until = Tally(), time.monotonic() + seconds / 10
        while time.monotonic() < until:
            versions = []
            for server in servers:
                tally, version = one_round(server, users, tally)
                versions.append(version)
            time.sleep(0.05)
        yield tally, versions
    for server in servers:
        server.close()


def wait_until_learnt(page: int, n: int, seconds: float = 30.0) -> None:
    """Wait until the learner has read all examples: the last ones were written a moment ago."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/metrics", timeout=5) as answer:
            learnt = re.search(r"^streaml1_examples_total (\d+)", answer.read().decode(), re.M)
        if learnt and int(learnt[1]) >= n:
            return
        time.sleep(0.2)
    raise RuntimeError(f"the learner has not read {n:,} examples within {seconds:g} seconds")


def run(broker: str, seconds: float) -> set[str]:
    """Run the loop; return the versions that answered."""
    suffix = f"{time.time_ns():x}"  # other runs may have used the broker
    clicks, model = f"clicks-{suffix}", f"model-{suffix}"
    users, page, seen, n = Users(), free_port(PAGE), set(), FIRST
    shutil.rmtree(FOLDER / "kept", ignore_errors=True)
    write_first(broker, clicks, users)
    with ExitStack() as stack:
        learner = start(
            stack, "learn", f"kafka://{broker}/{clicks}", "--cross", "taste,ad",
            "--checkpoint", "kept", "--publish", model, "--publish-every", "1", "--every", "2000",
            "--top", "0", "--page", str(page), "--page", "page.html", cwd=FOLDER,
        )  # fmt: skip
        served = f"kafka://{broker}/{model}"
        wait_for_model(served, learner)
        ports = [free_port(0), free_port(0)]
        servers = [
            start(stack, "serve", f"ads={served}", "--listen", str(port), "--to",
                  f"kafka://{broker}/{clicks}", "--check-every", "0.2", cwd=FOLDER)
            for port in ports
        ]  # fmt: skip
        for port in ports:
            wait_for(f"http://127.0.0.1:{port}/readyz", [learner, *servers])
        say(f"The page is at http://127.0.0.1:{page}/. Share of users who click:\n")
        print("versions of the servers     users  clicks  of random ads  of the best ads")
        for tenth, (tally, versions) in enumerate(loop(ports, users, seconds)):
            if tenth == 5:
                print("tastes change")
            seen |= set(versions)
            n += tally.users
            names = " ".join(versions)
            shares = [found / tally.users for found in tally[1:]]
            columns = "{:8.1%}{:15.1%}{:17.1%}".format(*shares)
            print(f"{names:25}{tally.users:8,}{columns}", flush=True)
        for server in servers:
            end(server)
        wait_until_learnt(page, n)
        end(learner)
    return seen


def main() -> None:
    """Run the loop, and take a picture of the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a broker that is running")
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    end_on_signals()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        broker = broker_for(stack, options.kafka, FOLDER)
        if broker is None:
            raise SystemExit("the loop needs a broker: install Java 17, or use --kafka HOST:PORT")
        seen = run(broker, options.seconds)
    say(f"{len(seen)} versions of the model answered.")
    screenshot(FOLDER / "page.html", FOLDER / "page.png")


if __name__ == "__main__":
    main()
