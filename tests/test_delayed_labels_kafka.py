"""Delayed labels from a separate topic, on the broker that scripts/test starts."""

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
from tests.process_kills import run_with_kills

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("no_leaked_threads")]

ROOT = Path(__file__).parent.parent
FIRST = 1_700_000_000_000


def model() -> Any:
    return streaml1.ElasticNetClassifier(lr=0.1, l1=1e-4, l2=1e-4)


def state(model: Any) -> tuple[Any, ...]:
    return model.weights, model.intercept, model.n_iterations


def clicks(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return examples with labels that arrive early, in time, too late or never."""
    rng = random.Random(seed)
    timed_events: list[tuple[float, dict[str, Any]]] = []
    for k in range(n):
        x = {f"f{rng.randrange(40)}": round(rng.uniform(-1, 1), 3) for _ in range(4)}
        timed_events.append((k * 1.0, {"id": f"c{k}", "x": x}))
        if rng.random() < 0.6:
            delay = rng.choice((-0.3, 0.4, 5.2, 25.7, 70.1))
            timed_events.append(
                (max(0.1, k + delay), {"id": f"c{k}", "y": int(rng.random() < 0.7)})
            )
    timed_events.sort(key=lambda pair: pair[0])
    return [
        {**event, "time": FIRST / 1000 + position * 0.5}
        for position, (_, event) in enumerate(timed_events)
    ]


def send(
    broker: Broker, events: list[dict[str, Any]], examples_topic: str, labels_topic: str, n: int
) -> None:
    sent = []
    for position, event in enumerate(events):
        payload = {name: value for name, value in event.items() if name != "time"}
        sent.append(
            broker.producer.send(
                examples_topic if "x" in event else labels_topic,
                json.dumps(payload).encode(),
                partition=position * 7 % n,
                timestamp_ms=round(event["time"] * 1000),
            )
        )
    broker.producer.flush(30)
    for future in sent:
        future.get(30)


def write(path: Path, events: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


DELAYED: dict[str, Any] = {"label_within": 20.0, "unanswered": "negative"}


@pytest.mark.parametrize("topics", [1, 2])
def test_topics_equal_the_file_they_were_sent_from(
    broker: Broker, tmp_path: Path, topics: int
) -> None:
    broker.require_real()
    events = clicks(600)
    examples_topic = broker.topic(3)
    labels_topic = examples_topic if topics == 1 else broker.topic(3)
    send(broker, events, examples_topic, labels_topic, 3)
    expected = model()
    report = progressive(expected, write(tmp_path / "a.jsonl", events), **DELAYED)
    assert all(
        report.numbers[name] for name in ("answered", "expired", "corrected", "waiting_labels")
    )
    trained = model()
    topic_report = progressive(
        trained, broker.url(examples_topic), labels=labels_topic, until_end=True, **DELAYED
    )
    assert state(trained) == state(expected)
    assert topic_report.numbers == report.numbers
    assert topic_report.lines[-1].loss == report.lines[-1].loss


def test_example_precedes_its_label_with_equal_timestamps(broker: Broker) -> None:
    broker.require_real()
    examples_topic, labels_topic = broker.topic(), broker.topic()
    events: list[dict[str, Any]] = []
    for k in range(50):
        events += [{"id": k, "y": k % 2, "time": FIRST / 1000 + k}, {"id": k, "x": {"a": 1.0}}]
        events[-1]["time"] = FIRST / 1000 + k
    send(broker, events, examples_topic, labels_topic, 1)
    label_places: list[str] = []

    class Recorder(Observer):
        def on_labels(self, part: Any) -> None:
            label_places.extend(part.block.place(row) for row in range(part.lo, part.hi))

    report = progressive(
        model(),
        broker.url(examples_topic),
        labels=labels_topic,
        until_end=True,
        label_within=1.0,
        observers=[Recorder()],
    )
    assert report.examples == 50 and label_places == [f"{labels_topic}/0@{k}" for k in range(50)]


def test_killed_consumer_of_two_topics_resumes(broker: Broker, tmp_path: Path) -> None:
    broker.require_real()
    events = clicks(5000)
    examples_topic, labels_topic = broker.topic(2), broker.topic(2)
    send(broker, events, examples_topic, labels_topic, 2)
    expected = model()
    report = progressive(expected, write(tmp_path / "a.jsonl", events), **DELAYED)
    killed, out = run_with_kills(
        ["learn", "--lr=0.1", broker.url(examples_topic), "--labels", labels_topic, "--until-end",
         "--l1", "1e-4", "--l2", "1e-4", "--label-within", "20", "--unanswered", "negative",
         "--checkpoint", "kept", "--checkpoint-every", "0.05", "--every", "500", "--save", "m"],
        tmp_path,
        (4, 4),
    )  # fmt: skip
    assert killed >= 1
    assert state(streaml1.load(tmp_path / "m")) == state(expected)
    figures = [f"{name.replace('_', ' ')} {n:,.0f}" for name, n in report.numbers.items() if n]
    assert figures and set(figures) <= {" ".join(line.split()) for line in out.splitlines()}


def test_limited_runs_resume_in_the_middle_of_records(broker: Broker, tmp_path: Path) -> None:
    broker.require_real()
    events = clicks(200)
    examples_topic, labels_topic = broker.topic(), broker.topic()
    # One record with all examples comes first, so each position is in the topic of the labels.
    lines = [json.dumps({k: v for k, v in event.items() if k != "time"}) for event in events]
    broker.send(examples_topic, ["\n".join(line for line in lines if '"x"' in line)])
    broker.send(
        labels_topic, ["\n".join(line for line in lines if '"y"' in line)], first=FIRST + 5000
    )
    options: dict[str, Any] = {"labels": labels_topic, "until_end": True, "label_within": 9.0}
    expected = model()
    expected_report = progressive(expected, broker.url(examples_topic), **options)
    for limit in (1, 20, 21, 90, None):
        trained = model()
        with Checkpoints(tmp_path / "kept", seconds=0) as store:
            report = progressive(
                trained, broker.url(examples_topic), limit=limit, checkpoint=store, **options
            )
            saved = store.latest()
        assert report.examples == (limit or expected_report.examples)
    assert saved is not None and saved.position["labels/0"][1] == 90
    assert state(trained) == state(expected) and report.numbers == expected_report.numbers


def test_label_sent_after_the_prediction_is_learned(broker: Broker) -> None:
    """The topics have no end; the label is sent when its example has been predicted."""
    examples_topic, labels_topic = broker.topic(), broker.topic()
    broker.send(examples_topic, [json.dumps({"id": 1, "x": {"a": 1.0}})])
    broker.send(labels_topic, [json.dumps({"id": "another", "y": 1})])

    class LabelSender(Observer):
        essential = True

        def on_batch(self, part: Any) -> None:
            assert part.y is None
            broker.send(labels_topic, [json.dumps({"id": 1, "y": 1})])

    report = progressive(
        model(),
        broker.url(examples_topic),
        labels=labels_topic,
        label_within=5.0,
        limit=1,
        observers=[LabelSender()],
    )
    assert report.examples == 1 and report.numbers["answered"] == 1


def test_invalid_topics_and_checkpoints_are_rejected(broker: Broker, tmp_path: Path) -> None:
    broker.require_real()
    examples_topic, labels_topic, other_topic = broker.topic(), broker.topic(), broker.topic()
    broker.send(examples_topic, [json.dumps({"id": 1, "x": {"a": 1.0}}), "1 1:1"])
    broker.send(labels_topic, [json.dumps({"id": 1, "y": 1})])
    with pytest.raises(SourceError, match="topic missing does not exist; existing topics: "):
        progressive(
            model(), broker.url(examples_topic), labels="missing", until_end=True, label_within=5.0
        )
    with pytest.raises(SourceError, match="labels must be the name of a topic"):
        progressive(model(), broker.url(examples_topic), labels="a/b", label_within=5.0)
    with pytest.raises(ValueError, match="needs delayed labels"):
        progressive(model(), broker.url(examples_topic), labels=labels_topic)
    options: dict[str, Any] = {"until_end": True, "label_within": 5.0, "bad": "skip"}
    report = progressive(
        model(),
        broker.url(examples_topic),
        labels=labels_topic,
        checkpoint=tmp_path / "kept",
        **options,
    )
    assert (report.examples, report.rejected) == (1, 1)
    same_topic_directory = tmp_path / "same"
    progressive(model(), broker.url(examples_topic), checkpoint=same_topic_directory, **options)
    with pytest.raises(CheckpointError, match="to another source: its labels is None, that of"):
        progressive(
            model(),
            broker.url(examples_topic),
            labels=labels_topic,
            checkpoint=same_topic_directory,
            **options,
        )
    for wrong_topic in (other_topic, None):
        with pytest.raises(CheckpointError, match="to another source: its labels"):
            progressive(
                model(),
                broker.url(examples_topic),
                labels=wrong_topic,
                checkpoint=tmp_path / "kept",
                **options,
            )
