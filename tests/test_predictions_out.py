"""Predictions as records of a topic: each example's, made before it was learnt."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import streaml1
from streaml1.cli import cli
from streaml1.training import predictions, progressive
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.prediction_records import PredictionRecords
from tests.broker import Broker
from tests.topics import records_of

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="session")
def broker(broker: Broker) -> Broker:
    broker.require_real()
    return broker


def examples(n: int, labels: list[Any], seed: int = 0) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    some = []
    for number in range(n):
        x = {f"f{rng.randint(0, 30)}": rng.uniform(-2, 2) for _ in range(4)}
        one: dict[str, Any] = {"x": x, "y": rng.choice(labels)}
        if number % 3:
            one["id"] = f"visit-{number}" if number % 2 else number
        some.append(one)
    return some


def told(broker: Broker, topic: str) -> dict[str, dict[str, Any]]:
    """The predictions by their keys; two of one example must be the same."""
    found: dict[str, dict[str, Any]] = {}
    for record in records_of(broker, topic):
        key, value = record.key.decode(), json.loads(record.value)
        version = value["model"]
        version.pop("epoch")
        assert found.setdefault(key, value) == value
    return found


def run(*args: str) -> Result:
    done = CliRunner().invoke(cli, args)
    assert done.exit_code == 0, done.output
    return done


MODELS = {
    "elastic-net": streaml1.ElasticNetClassifier(l1=1e-3),
    "hinge": streaml1.ElasticNetClassifier(l1=1e-3, loss="hinge"),
    "value": streaml1.ElasticNetRegressor(l1=1e-3),
    "softmax": streaml1.SoftmaxClassifier(strength=1e-3),
}
LABELS = {"value": [0.5, -1.0, 3.0], "softmax": ["a", 3, "c"]}


def slowly(kind: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each prediction just before its example is learnt, and what the model had learnt."""
    one, said = MODELS[kind].clone(), []
    for row in rows:
        told: dict[str, Any] = {"model": {"examples": one.n_iterations}}
        if kind == "value":
            told["value"] = one.predict_one(row["x"])
        else:
            told["p"] = one.predict_proba_one(row["x"])
        if "id" in row:
            told["id"] = row["id"]
        said.append(told)
        one.learn_one(row["x"], bool(row["y"]) if kind in ("elastic-net", "hinge") else row["y"])
    return said


@pytest.mark.parametrize("kind", list(MODELS))
def test_each_is_of_the_model_before(broker: Broker, kind: str) -> None:
    rows, topic = examples(500, LABELS.get(kind, [0, 1])), broker.topic()
    broker.send(topic, [json.dumps(row) for row in rows])
    url, out = broker.url(topic), broker.url(f"{topic}-p")
    with PredictionRecords(out) as records:
        progressive(MODELS[kind].clone(), url, until_end=True, every=70, observers=[records])
    found = told(broker, f"{topic}-p")
    assert len(found) == len(rows)
    for offset, expected in enumerate(slowly(kind, rows)):
        one = found[f"{topic}-0-{offset}"]
        assert (one["topic"], one["partition"], one["offset"]) == (topic, 0, offset)
        assert "line" not in one
        assert one["model"] == expected["model"]
        assert one.get("id") == expected.get("id")
        if kind == "value":
            assert one["value"] == pytest.approx(expected["value"], abs=1e-12)
        elif kind == "softmax":
            # A label that comes first has the share of one of which nothing is known.
            p = dict(map(tuple, one["p"]))
            known = sum(p[label] for label in expected["p"])
            share = {label: p[label] / known for label in expected["p"]}
            assert share == pytest.approx(expected["p"])
            if known == pytest.approx(1.0):
                assert one["label"] == max(p, key=p.__getitem__)
        else:
            assert one["p"] == pytest.approx(expected["p"][True], abs=1e-12)


def test_of_runs_that_die(broker: Broker, tmp_path: Path) -> None:
    """None is missing; an example that is predicted again by the same model is told the same."""
    rows, topic = examples(1200, [0, 1]), broker.topic()
    broker.send(topic, [json.dumps(row) for row in rows])
    rng = random.Random(3)

    class Dies(BaseException):
        pass

    def on_line(line: Any) -> None:
        if rng.random() < 0.3:
            raise Dies

    for last in [False] * 5 + [True]:
        with Checkpoints(tmp_path / "kept", seconds=0) as store:
            records = PredictionRecords(broker.url(f"{topic}-p"))
            try:
                progressive(
                    MODELS["elastic-net"].clone(), broker.url(topic), until_end=True, every=100,
                    observers=[records], checkpoint=store, on_line=None if last else on_line,
                )  # fmt: skip
            except Dies:
                records._writer._producer._sender.force_close()
            finally:
                records.__exit__()
    found = told(broker, f"{topic}-p")
    assert set(found) == {f"{topic}-0-{offset}" for offset in range(len(rows))}
    for offset, expected in enumerate(slowly("elastic-net", rows)):
        one = found[f"{topic}-0-{offset}"]
        assert one["model"] == expected["model"]
        assert one["p"] == pytest.approx(expected["p"][True], abs=1e-12)
    epochs = {json.loads(one.value)["model"]["epoch"] for one in records_of(broker, f"{topic}-p")}
    assert epochs <= set(range(1, 7))
    assert len(epochs) > 1


def test_on_the_command_line(broker: Broker, tmp_path: Path) -> None:
    rows, topic = examples(300, [0, 1]), broker.topic(2)
    lines = [json.dumps(row) for row in rows]
    broker.send(topic, ["\n".join(lines[lo : lo + 3]) for lo in range(0, 300, 3)], [0, 1])
    saved = str(tmp_path / "a")
    run("learn", broker.url(topic), "--until-end", "--predictions", f"{topic}-p", "--save", saved)
    found = told(broker, f"{topic}-p")
    assert len(found) == 300
    assert sorted(one["model"]["examples"] for one in found.values()) == list(range(300))
    one = found[f"{topic}-1-7:2"]
    assert (one["partition"], one["offset"], one["line"]) == (1, 7, 2)
    assert one.get("id") == rows[3 * (2 * 7 + 1) + 1].get("id")

    done = run(
        "predict", saved, broker.url(topic), "--until-end", "--predictions", f"{topic}-q"
    )  # fmt: skip
    assert done.stdout == ""
    found = told(broker, f"{topic}-q")
    model = streaml1.load(saved)
    assert len(found) == 300
    for number, row in enumerate(rows):
        record, line = divmod(number, 3)
        one = found[f"{topic}-{record % 2}-{record // 2}:{line + 1}"]
        assert one["p"] == model.predict_proba_one(row["x"])[True]
        assert one["model"] == {"examples": 300}


def test_of_a_file(broker: Broker, tmp_path: Path) -> None:
    rows, path, topic = examples(20, [0, 1]), tmp_path / "a.jsonl", broker.topic()
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run("learn", str(path), "--predictions", broker.url(topic), "--limit", "10")
    found = told(broker, topic)
    assert set(found) == {f"{path}:{line}" for line in range(1, 11)}
    assert found[f"{path}:5"]["id"] == rows[4]["id"]
    assert found[f"{path}:5"]["place"] == f"{path}:5"
    done = CliRunner().invoke(cli, ["learn", str(path), "--predictions", "p"])
    assert done.stderr == ("streaml1: --predictions p names no broker: use kafka://HOST:PORT/p\n")
    topic = broker.topic()
    with PredictionRecords(broker.url(topic)) as records:
        said = list(predictions(MODELS["softmax"].clone(), str(path), observers=[records]))
    assert [one.p for one in said] == [{}] * 20
    assert [json.loads(one.value)["p"] for one in records_of(broker, topic)] == [[]] * 20


def test_each_topic_is_one_of_its_own(broker: Broker) -> None:
    """Also that of the labels, and by another name of its brokers."""
    topic, labels = broker.topic(), broker.topic()
    url, again = broker.url(topic), broker.url("x").replace("kafka://", "kafka://127.0.0.1:1,")
    late = ("--label-within", "5", "--labels", labels)
    dead = ("--bad", "dead-letter")
    for args, said in [
        ((*late, "--predictions", labels), f"--predictions {labels} is also --labels"),
        ((*late, "--publish", labels), f"--publish {labels} is also --labels"),
        ((*late, *dead, "--dead-letters", labels), f"--dead-letters {labels} is also --labels"),
        ((*dead, "--predictions", "x", "--dead-letters", "x"), "--dead-letters x is also --predic"),
        ((*dead, "--predictions", f"{topic}.dlq"), f"--dead-letters {topic}.dlq is also --predict"),
        (("--predictions", "x", "--publish", again), "--publish x is also --predictions: choose"),
    ]:
        done = CliRunner().invoke(cli, ["learn", url, "--until-end", *args])
        assert done.exit_code == 2 and done.stderr.startswith(f"streaml1: {said}"), done.stderr
