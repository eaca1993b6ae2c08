"""Predictions written to a Kafka topic, each made before its example is learnt."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import streaml1
from streaml1.cli import cli
from streaml1.sources.kafka.confluent.producer import ConfluentProducer
from streaml1.training import predictions, progressive
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.prediction_records import PredictionRecords
from tests.broker import Broker
from tests.command import run
from tests.topics import records_of

pytestmark = pytest.mark.kafka
both_clients = pytest.mark.usefixtures("kafka_client")


@pytest.fixture(scope="session")
def broker(broker: Broker) -> Broker:
    broker.require_real()
    return broker


def examples(n: int, labels: list[Any], seed: int = 0) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    rows = []
    for number in range(n):
        x = {f"f{rng.randint(0, 30)}": rng.uniform(-2, 2) for _ in range(4)}
        example: dict[str, Any] = {"x": x, "y": rng.choice(labels)}
        if number % 3:
            example["id"] = f"visit-{number}" if number % 2 else number
        rows.append(example)
    return rows


def predictions_of(broker: Broker, topic: str) -> dict[str, dict[str, Any]]:
    """Return the predictions by key; duplicates must be identical."""
    predictions_by_key: dict[str, dict[str, Any]] = {}
    for record in records_of(broker, topic):
        key, value = record.key.decode(), json.loads(record.value)
        version = value["model"]
        version.pop("epoch")
        assert predictions_by_key.setdefault(key, value) == value
    return predictions_by_key


MODELS = {
    "elastic-net": streaml1.ElasticNetClassifier(lr=0.1, l1=1e-3),
    "hinge": streaml1.ElasticNetClassifier(lr=0.1, l1=1e-3, loss="hinge"),
    "value": streaml1.ElasticNetRegressor(lr=0.1, l1=1e-3),
    "softmax": streaml1.SoftmaxClassifier(strength=1e-3),
}
LABELS = {"value": [0.5, -1.0, 3.0], "softmax": ["a", 3, "c"]}


def expected_predictions(kind: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the expected predictions and model versions from a plain progressive loop."""
    model, expected = MODELS[kind].clone(), []
    for row in rows:
        prediction: dict[str, Any] = {"model": {"examples": model.n_iterations}}
        if kind == "value":
            prediction["value"] = model.predict_one(row["x"])
        else:
            prediction["p"] = model.predict_proba_one(row["x"])
        if "id" in row:
            prediction["id"] = row["id"]
        expected.append(prediction)
        model.learn_one(row["x"], bool(row["y"]) if kind in ("elastic-net", "hinge") else row["y"])
    return expected


@pytest.mark.parametrize("kind", list(MODELS))
def test_predictions_precede_learning(broker: Broker, kind: str) -> None:
    rows, topic = examples(500, LABELS.get(kind, [0, 1])), broker.topic()
    broker.send(topic, [json.dumps(row) for row in rows])
    url, out = broker.url(topic), broker.url(f"{topic}-p")
    with PredictionRecords(out) as records:
        progressive(MODELS[kind].clone(), url, until_end=True, every=70, observers=[records])
    predicted = predictions_of(broker, f"{topic}-p")
    assert len(predicted) == len(rows)
    for offset, expected in enumerate(expected_predictions(kind, rows)):
        value = predicted[f"{topic}-0-{offset}"]
        assert (value["topic"], value["partition"], value["offset"]) == (topic, 0, offset)
        assert "line" not in value
        assert value["model"] == expected["model"]
        assert value.get("id") == expected.get("id")
        if kind == "value":
            assert value["value"] == pytest.approx(expected["value"], abs=1e-12)
        elif kind == "softmax":
            # The run also predicts a share for a first-seen label; renormalize over the others.
            p = dict(map(tuple, value["p"]))
            known_share = sum(p[label] for label in expected["p"])
            shares = {label: p[label] / known_share for label in expected["p"]}
            assert shares == pytest.approx(expected["p"])
            if known_share == pytest.approx(1.0):
                assert value["label"] == max(p, key=p.__getitem__)
        else:
            assert value["p"] == pytest.approx(expected["p"][True], abs=1e-12)


def drop_pending(producer: Any) -> None:
    """Lose the records that are not sent yet, as a crash does."""
    if isinstance(producer, ConfluentProducer):
        producer._producer.purge()
    else:
        producer._sender.force_close()


@both_clients
def test_crashed_runs_lose_no_prediction(broker: Broker, tmp_path: Path) -> None:
    """After crashes no prediction is missing and duplicates are identical."""
    rows, topic = examples(1200, [0, 1]), broker.topic()
    broker.send(topic, [json.dumps(row) for row in rows])
    rng = random.Random(3)

    class Crash(BaseException):
        pass

    def on_line(line: Any) -> None:
        if rng.random() < 0.3:
            raise Crash

    for last in [False] * 5 + [True]:
        with Checkpoints(tmp_path / "checkpoints", seconds=0) as store:
            records = PredictionRecords(broker.url(f"{topic}-p"))
            try:
                progressive(
                    MODELS["elastic-net"].clone(), broker.url(topic), until_end=True, every=100,
                    observers=[records], checkpoint=store, on_line=None if last else on_line,
                )  # fmt: skip
            except Crash:
                drop_pending(records._writer._producer)
            finally:
                records.__exit__()
    predicted = predictions_of(broker, f"{topic}-p")
    assert set(predicted) == {f"{topic}-0-{offset}" for offset in range(len(rows))}
    for offset, expected in enumerate(expected_predictions("elastic-net", rows)):
        value = predicted[f"{topic}-0-{offset}"]
        assert value["model"] == expected["model"]
        assert value["p"] == pytest.approx(expected["p"][True], abs=1e-12)
    epochs = {
        json.loads(record.value)["model"]["epoch"] for record in records_of(broker, f"{topic}-p")
    }
    assert epochs <= set(range(1, 7))
    assert len(epochs) > 1


def test_command_line(broker: Broker, tmp_path: Path) -> None:
    rows, topic = examples(300, [0, 1]), broker.topic(2)
    lines = [json.dumps(row) for row in rows]
    broker.send(topic, ["\n".join(lines[lo : lo + 3]) for lo in range(0, 300, 3)], [0, 1])
    saved = str(tmp_path / "a")
    run("learn", broker.url(topic), "--until-end", "--predictions", f"{topic}-p", "--save", saved)
    predicted = predictions_of(broker, f"{topic}-p")
    assert len(predicted) == 300
    assert sorted(value["model"]["examples"] for value in predicted.values()) == list(range(300))
    value = predicted[f"{topic}-1-7:2"]
    assert (value["partition"], value["offset"], value["line"]) == (1, 7, 2)
    assert value.get("id") == rows[3 * (2 * 7 + 1) + 1].get("id")

    result = run(
        "predict", saved, broker.url(topic), "--until-end", "--predictions", f"{topic}-q"
    )  # fmt: skip
    assert result.stdout == ""
    predicted = predictions_of(broker, f"{topic}-q")
    model = streaml1.load(saved).freeze()
    assert len(predicted) == 300
    for number, row in enumerate(rows):
        record, line = divmod(number, 3)
        value = predicted[f"{topic}-{record % 2}-{record // 2}:{line + 1}"]
        assert value["p"] == model.predict_proba_one(row["x"])[True]
        assert value["model"] == {"examples": 300}


def test_predictions_for_a_file(broker: Broker, tmp_path: Path) -> None:
    rows, path, topic = examples(20, [0, 1]), tmp_path / "a.jsonl", broker.topic()
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run("learn", str(path), "--predictions", broker.url(topic), "--limit", "10")
    predicted = predictions_of(broker, topic)
    assert set(predicted) == {f"{path}:{line}" for line in range(1, 11)}
    assert predicted[f"{path}:5"]["id"] == rows[4]["id"]
    assert predicted[f"{path}:5"]["place"] == f"{path}:5"
    result = CliRunner().invoke(cli, ["learn", str(path), "--predictions", "p"])
    assert result.stderr == (
        "streaml1: --predictions p names no broker: use kafka://HOST:PORT/p, or for a file "
        "streaml1 predict MODEL SOURCE > p\n"
    )
    topic = broker.topic()
    with PredictionRecords(broker.url(topic)) as records:
        returned = list(predictions(MODELS["softmax"].clone(), str(path), observers=[records]))
    assert [prediction.p for prediction in returned] == [{}] * 20
    assert [json.loads(record.value)["p"] for record in records_of(broker, topic)] == [[]] * 20


def test_output_topics_must_differ(broker: Broker) -> None:
    """Topics are compared across options and across aliases of the brokers."""
    topic, labels = broker.topic(), broker.topic()
    url, alias = broker.url(topic), broker.url("x").replace("kafka://", "kafka://127.0.0.1:1,")
    label_options = ("--label-within", "5", "--labels", labels)
    dead_letter_options = ("--bad", "dead-letter")
    for args, message in [
        ((*label_options, "--predictions", labels), f"--predictions {labels} is also --labels"),
        ((*label_options, "--publish", labels), f"--publish {labels} is also --labels"),
        (
            (*label_options, *dead_letter_options, "--dead-letters", labels),
            f"--dead-letters {labels} is also --labels",
        ),
        (
            (*dead_letter_options, "--predictions", "x", "--dead-letters", "x"),
            "--dead-letters x is also --predic",
        ),
        (
            (*dead_letter_options, "--predictions", f"{topic}.dlq"),
            f"--dead-letters {topic}.dlq is also --predict",
        ),
        (("--predictions", "x", "--publish", alias), "--publish x is also --predictions: choose"),
    ]:
        result = CliRunner().invoke(cli, ["learn", url, "--until-end", *args])
        assert result.exit_code == 2 and result.stderr.startswith(f"streaml1: {message}"), (
            result.stderr
        )
