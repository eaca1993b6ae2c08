"""Learn frauds whose labels arrive late: the loss and the calibration, quarter by quarter.

    python demos/late_frauds.py [PAYMENTS]

A simulated payment a minute; about one in sixty is a fraud. The label of a payment arrives after an
hour to a few days. Three streams differ in what arrives:

- only frauds are labelled; the others are learnt as negatives after three days;
- the same, but the model has learnt an earlier month, whose labels are settled, before;
- payments that are settled get a label, too.

Prints the mean progressive log-loss of each quarter of the payments, that of the baseline so far,
and the mean prediction over the observed rate in this quarter.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections.abc import Iterator
from typing import Any

import streaml1
from streaml1.training.report import Report

DAY = 86_400
WITHIN = 3 * DAY
RISKS = {"phones": 6.0, "XX": 8.0}


def payment(rng: random.Random) -> tuple[dict[Any, Any], bool]:
    """Draw the features of a payment, and whether it is a fraud."""
    shop, country = rng.choice(["toys", "books", "phones"]), rng.choice(["DE", "FR", "XX"])
    odds = 0.002 * RISKS.get(shop, 1.0) * RISKS.get(country, 1.0)
    x = {"shop": shop, "country": country, "amount": round(rng.expovariate(0.02), 2)}
    return x, rng.random() < odds / (1.0 + odds)


def late_stream(n: int, settles: bool, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield n payments as records, and later their labels: of frauds only, unless `settles`."""
    rng = random.Random(seed)
    labels: list[tuple[float, int, bool]] = []
    for k in range(n):
        now = 60.0 * k
        while labels and labels[0][0] <= now:
            time, name, y = heapq.heappop(labels)
            yield {"id": name, "time": time, "y": y}
        x, is_fraud = payment(rng)
        yield {"id": k, "time": now, "x": x}
        if is_fraud or settles:
            delay = min(rng.expovariate(2.0 / DAY), WITHIN - 60.0)
            heapq.heappush(labels, (now + delay, k, is_fraud))


def learn(n: int, settles: bool, history: int) -> Report:
    """Learn a history with labels, then the stream; return the report of the stream."""
    model, rng = streaml1.ElasticNetClassifier(), random.Random(0)
    for _ in range(history):
        model.learn_one(*payment(rng))
    return streaml1.progressive(
        model,
        late_stream(n, settles),
        label_within=WITHIN,
        unanswered="negative",
        every=max(1, (n - WITHIN // 60) // 4),
        on_drift="ignore",
        data_checks=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("n", nargs="?", type=int, default=44_320, metavar="PAYMENTS")
    n = parser.parse_args().n
    if n < 1:
        parser.error(f"PAYMENTS must be >= 1, got {n}")
    print(f"{'':28}{'examples':>9}{'log-loss':>10}{'baseline':>10}{'calibration':>13}")
    for name, settles, history in (
        ("frauds are labelled", False, 0),
        ("after a month of history", False, n),
        ("settlements, too", True, 0),
    ):
        for line in learn(n, settles, history).lines[:4]:
            print(
                f"{name:28}{line.examples:9,}{line.recent_loss:10.4f}"
                f"{line.constant_loss:10.4f}{line.recent_calibration:13.2f}"
            )
            name = ""


if __name__ == "__main__":
    main()
