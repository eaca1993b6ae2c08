"""Labels in a topic of their own, on the broker that scripts/test starts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import streaml1
from streaml1.sources import SourceError
from streaml1.training import Observer, progressive
from streaml1.training.checkpoint import CheckpointError, Checkpoints
from tests.broker import Broker
from tests.killing import killed_and_resumed

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("no_thread_is_left")]

ROOT = Path(__file__).parent.parent
FIRST = 1_700_000_000_000


def model() -> Any:
    return streaml1.ElasticNetClassifier(l1=1e-4, l2=1e-4)


def state(one: Any) -> tuple[Any, ...]:
    return one.weights, one.intercept, one.n_iterations


def clicks(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Asked one after the other, clicked within some, after the limit, or never."""
    rng = random.Random(seed)
    told: list[tuple[float, dict[str, Any]]] = []
    for k in range(n):
        x = {f"f{rng.randrange(40)}": round(rng.uniform(-1, 1), 3) for _ in range(4)}
        told.append((k * 1.0, {"id": f"c{k}", "x": x}))
        if rng.random() < 0.6:
            wait = rng.choice((-0.3, 0.4, 5.2, 25.7, 70.1))
            told.append((max(0.1, k + wait), {"id": f"c{k}", "y": int(rng.random() < 0.7)}))
    told.sort(key=lambda one: one[0])
    return [
        {**event, "time": FIRST / 1000 + number * 0.5} for number, (_, event) in enumerate(told)
    ]


def send(broker: Broker, events: list[dict[str, Any]], asked: str, labels: str, n: int) -> None:
    sent = []
    for number, event in enumerate(events):
        value = {name: part for name, part in event.items() if name != "time"}
        sent.append(
            broker.producer.send(
                asked if "x" in event else labels,
                json.dumps(value).encode(),
                partition=number * 7 % n,
                timestamp_ms=round(event["time"] * 1000),
            )
        )
    broker.producer.flush(30)
    for one in sent:
        one.get(30)


def write(path: Path, events: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


LATE: dict[str, Any] = {"label_within": 20.0, "unanswered": "negative"}


@pytest.mark.parametrize("topics", [1, 2])
def test_topics_are_the_file_they_came_from(broker: Broker, tmp_path: Path, topics: int) -> None:
    broker.require_real()
    events = clicks(600)
    asked = broker.topic(3)
    labels = asked if topics == 1 else broker.topic(3)
    send(broker, events, asked, labels, 3)
    expected = model()
    report = progressive(expected, write(tmp_path / "a.jsonl", events), **LATE)
    assert all(
        report.numbers[name] for name in ("answered", "expired", "corrected", "waiting_labels")
    )
    one = model()
    found = progressive(one, broker.url(asked), labels=labels, until_end=True, **LATE)
    assert state(one) == state(expected)
    assert found.numbers == report.numbers
    assert found.lines[-1].loss == report.lines[-1].loss


def test_an_example_comes_before_its_label_of_the_same_time(broker: Broker) -> None:
    broker.require_real()
    asked, labels = broker.topic(), broker.topic()
    events: list[dict[str, Any]] = []
    for k in range(50):
        events += [{"id": k, "y": k % 2, "time": FIRST / 1000 + k}, {"id": k, "x": {"a": 1.0}}]
        events[-1]["time"] = FIRST / 1000 + k
    send(broker, events, asked, labels, 1)
    places: list[str] = []

    class Heard(Observer):
        def on_labels(self, part: Any) -> None:
            places.extend(part.block.place(row) for row in range(part.lo, part.hi))

    report = progressive(
        model(),
        broker.url(asked),
        labels=labels,
        until_end=True,
        label_within=1.0,
        observers=[Heard()],
    )
    assert report.examples == 50 and places == [f"{labels}/0@{k}" for k in range(50)]


def test_a_killed_consumer_of_two_topics_goes_on(broker: Broker, tmp_path: Path) -> None:
    broker.require_real()
    events = clicks(5000)
    asked, labels = broker.topic(2), broker.topic(2)
    send(broker, events, asked, labels, 2)
    expected = model()
    report = progressive(expected, write(tmp_path / "a.jsonl", events), **LATE)
    killed, out = killed_and_resumed(
        ["learn", "--lr=0.1", broker.url(asked), "--labels", labels, "--until-end", "--l1", "1e-4",
         "--l2", "1e-4", "--label-within", "20", "--unanswered", "negative", "--checkpoint",
         "kept", "--checkpoint-every", "0.05", "--every", "500", "--save", "m"],
        tmp_path,
        (4, 4),
    )  # fmt: skip
    assert killed >= 1
    assert state(streaml1.load(tmp_path / "m")) == state(expected)
    assert report.summary().split("; ")[-1] in out


def test_limits_that_go_on_in_the_middle_of_records(broker: Broker, tmp_path: Path) -> None:
    broker.require_real()
    events = clicks(200)
    asked, labels = broker.topic(), broker.topic()
    # Records of several lines: all asked first, so that each position is in the labels' topic.
    lines = [json.dumps({k: v for k, v in event.items() if k != "time"}) for event in events]
    broker.send(asked, ["\n".join(line for line in lines if '"x"' in line)])
    broker.send(labels, ["\n".join(line for line in lines if '"y"' in line)], first=FIRST + 5000)
    options: dict[str, Any] = {"labels": labels, "until_end": True, "label_within": 9.0}
    expected = model()
    whole = progressive(expected, broker.url(asked), **options)
    for limit in (1, 20, 21, 90, None):
        one = model()
        with Checkpoints(tmp_path / "kept", seconds=0) as store:
            report = progressive(one, broker.url(asked), limit=limit, checkpoint=store, **options)
            found = store.latest()
        assert report.examples == (limit or whole.examples)
    assert found is not None and found.position["labels/0"][1] == 90
    assert state(one) == state(expected) and report.numbers == whole.numbers


def test_as_they_come(broker: Broker) -> None:
    """Without an end: a label that is sent once its example was predicted is learnt."""
    asked, labels = broker.topic(), broker.topic()
    broker.send(asked, [json.dumps({"id": 1, "x": {"a": 1.0}})])
    broker.send(labels, [json.dumps({"id": "another", "y": 1})])

    class Answers(Observer):
        essential = True

        def on_batch(self, part: Any) -> None:
            assert part.y is None
            broker.send(labels, [json.dumps({"id": 1, "y": 1})])

    report = progressive(
        model(), broker.url(asked), labels=labels, label_within=5.0, limit=1, observers=[Answers()]
    )
    assert report.examples == 1 and report.numbers["answered"] == 1


def test_what_is_refused(broker: Broker, tmp_path: Path) -> None:
    broker.require_real()
    asked, labels, other = broker.topic(), broker.topic(), broker.topic()
    broker.send(asked, [json.dumps({"id": 1, "x": {"a": 1.0}}), "1 1:1"])
    broker.send(labels, [json.dumps({"id": 1, "y": 1})])
    with pytest.raises(SourceError, match="topic missing does not exist; existing topics: "):
        progressive(model(), broker.url(asked), labels="missing", until_end=True, label_within=5.0)
    with pytest.raises(SourceError, match="labels must be the name of a topic"):
        progressive(model(), broker.url(asked), labels="a/b", label_within=5.0)
    with pytest.raises(ValueError, match="needs delayed labels"):
        progressive(model(), broker.url(asked), labels=labels)
    options: dict[str, Any] = {"until_end": True, "label_within": 5.0, "bad": "skip"}
    report = progressive(
        model(), broker.url(asked), labels=labels, checkpoint=tmp_path / "kept", **options
    )
    assert (report.examples, report.rejected) == (1, 1)
    same = tmp_path / "same"
    progressive(model(), broker.url(asked), checkpoint=same, **options)
    with pytest.raises(CheckpointError, match="of another source: its labels is None, that of"):
        progressive(model(), broker.url(asked), labels=labels, checkpoint=same, **options)
    for wrong in (other, None):
        with pytest.raises(CheckpointError, match="of another source: its labels"):
            progressive(
                model(), broker.url(asked), labels=wrong, checkpoint=tmp_path / "kept", **options
            )
