"""Evaluation of a model on held-out data, without learning."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from river import linear_model, preprocessing

import streaml1
from streaml1.cli import cli
from streaml1.core.rows import BadExample
from streaml1.training import evaluate, predictions
from streaml1.training.report import reliability_table

MODELS: dict[str, Any] = {
    "logistic": lambda: streaml1.ElasticNetClassifier(lr=0.1, l1=1e-3),
    "auto": lambda: streaml1.ElasticNetClassifier(lr="auto", hash_bits=8),
    "hinge": lambda: streaml1.PegasosClassifier(l2=0.01),
    "crossed": lambda: streaml1.ElasticNetClassifier(lr=0.1, cross=[("a", "b")]),
    "squared": lambda: streaml1.ElasticNetRegressor(lr=0.1, loss="squared"),
    "many": lambda: streaml1.SoftmaxClassifier(),
}


pytestmark = pytest.mark.usefixtures("cwd")


def write_vw(name: str, n: int, seed: int, labels: str = "01") -> list[str]:
    """Write n lines of Vowpal Wabbit format with sample weights; return the labels."""
    random, chosen = Random(seed), []
    with open(name, "w") as file:
        for _ in range(n):
            k = random.randrange(6)
            chosen.append(labels[(k + (random.random() < 0.2)) % len(labels)])
            features = f"|a x{k}:{random.random():.3f} |b y{random.randrange(3)}"
            file.write(f"{chosen[-1]} {random.choice('12')} {features}\n")
    return chosen


def loss_of(loss: str, p: Any, y: Any) -> Any:
    if loss == "logistic":
        return -np.log(np.where(y == 1, p, 1.0 - p))
    if loss == "hinge":
        signed = np.where(y == 1, 1.0, -1.0)
        return np.maximum(0.0, 1.0 - signed * p)
    return 0.5 * (p - y) ** 2


@pytest.mark.parametrize("name", MODELS)
def test_report_matches_the_predictions(name: str) -> None:
    labels = "0123" if name == "many" else "01"
    write_vw("seen.vw", 900, 1, labels)
    y = np.array([float(label) for label in write_vw("new.vw", 700, 2, labels)])
    w = np.array([float(line.split()[1]) for line in Path("new.vw").read_text().splitlines()])
    model = MODELS[name]()
    streaml1.progressive(model, "seen.vw")
    model.save("m")
    before = Path("m").read_bytes()
    outputs = [prediction.p for prediction in predictions(model, "new.vw")]
    if name == "many":
        losses = -np.log([p[int(label)] for p, label in zip(outputs, y, strict=True)])
    else:
        p = np.array(outputs)
        if name == "hinge":
            p = np.log(p / (1.0 - p))  # the margin, of which p is the sigmoid
        losses = loss_of({"squared": "squared", "hinge": "hinge"}.get(name, "logistic"), p, y)
    report = evaluate(model, "new.vw", every=300)
    assert [line.examples for line in report.lines] == [300, 600, 700]
    for line in report.lines:
        n = line.examples
        expected = np.average(losses[:n], weights=w[:n])
        assert line.loss == pytest.approx(expected, rel=1e-9)
        assert line.n_nonzero == model.n_nonzero
    model.save("m")
    assert Path("m").read_bytes() == before and model.n_iterations == 900
    streaml1.progressive(model, "new.vw")
    assert model.n_iterations == 1600


def test_sources_limits_and_invalid_arguments() -> None:
    model = streaml1.ElasticNetClassifier(lr=0.1)
    model.learn_many([{"a": 1.0}, {"b": 1.0}] * 50, [True, False] * 50)
    pairs: list[Any] = [({"a": 1.0}, True), ({"b": 1.0}, False)] * 10
    assert evaluate(model, pairs, limit=7, every=5).lines[-1].error == 0.0
    frame = [x for x, _ in pairs], [y for _, y in pairs]
    assert evaluate(model, frame).lines[-1].loss == evaluate(model, pairs).lines[-1].loss
    assert evaluate(model, pairs, limit=7).examples == 7
    stop_results = iter([False, True])
    assert evaluate(model, pairs, every=4, stop=lambda: next(stop_results)).examples == 8
    with pytest.raises(ValueError, match="every must be >= 1, got 0"):
        evaluate(model, pairs, every=0)
    with pytest.raises(ValueError, match="bad must be .* got 'no'"):
        evaluate(model, pairs, bad="no")


def test_event_stops_the_evaluation() -> None:
    model, stop = streaml1.ElasticNetClassifier(lr=0.1), threading.Event()
    pairs: list[Any] = [({"a": 1.0}, True), ({"b": 1.0}, False)] * 10
    report = evaluate(model, pairs, every=4, stop=stop, on_line=lambda line: stop.set())
    assert report.examples == 4


def test_waiting_source_receives_the_stop_function() -> None:
    """The source waits as a Kafka topic does while its brokers are unavailable."""

    class Waiting:
        name, block = "waiting", 10

        def set_stop(self, stopped: Any) -> None:
            self.stopped = stopped

        def blocks(self, size: int, reject: Any) -> Any:
            while not self.stopped():
                stop.set()
            yield from ()

    for run in (evaluate, streaml1.progressive):
        for kind in ("event", "function"):
            stop = threading.Event()
            stop_argument: Any = stop if kind == "event" else stop.is_set
            assert (
                run(streaml1.ElasticNetClassifier(lr=0.1), Waiting(), stop=stop_argument).examples
                == 0
            )


@pytest.mark.parametrize("source", ["pairs", "lines"])
@pytest.mark.parametrize("name", ["river", "regression", "pipeline", "many"])
def test_river_models(name: str, source: str) -> None:
    """Predictions are those of `predict_one` or `predict_proba_one`, and nothing is learnt."""
    models: dict[str, Any] = {
        "river": linear_model.LogisticRegression(),
        "regression": linear_model.LinearRegression(),
        "pipeline": preprocessing.MinMaxScaler() | streaml1.ElasticNetClassifier(lr=0.1),
        "many": preprocessing.MinMaxScaler() | streaml1.SoftmaxClassifier(),
    }
    model = models[name]
    random = Random(7)
    pairs: list[Any] = [
        ({"a": random.random(), "b": random.random()}, k % (3 if name == "many" else 2))
        for k in range(60)
    ]
    for x, y in pairs[:30]:
        model.learn_one(x, y if name in ("regression", "many") else bool(y))
    outputs = [
        model.predict_one(x) if name == "regression" else model.predict_proba_one(x)
        for x, _ in pairs
    ]
    if name == "regression":
        expected = [0.5 * (p - y) ** 2 for p, (_, y) in zip(outputs, pairs, strict=True)]
    else:
        expected = [-np.log(p[y]) for p, (_, y) in zip(outputs, pairs, strict=True)]
    source_argument: Any = pairs
    if source == "lines":
        source_argument = "a.jsonl"
        lines = [json.dumps({"x": x, "y": y}) for x, y in pairs]
        Path("a.jsonl").write_text("\n".join(lines) + "\n")
    report = evaluate(model, source_argument, every=25)
    assert [line.examples for line in report.lines] == [25, 50, 60]
    for line in report.lines:
        assert line.loss == pytest.approx(np.mean(expected[: line.examples]), rel=1e-9)
    if name == "pipeline":
        with pytest.raises(BadExample, match="examples:2: the value inf of 'b' is too large"):
            evaluate(model, [({"a": 1.0}, True), ({"b": float("inf")}, True)])
    with pytest.raises(TypeError, match="takes one example at a time; give a frame with"):
        evaluate(model, (np.ones((2, 2)), [0, 1]))


def test_unknown_labels_and_bad_values_are_rejected() -> None:
    model = streaml1.SoftmaxClassifier()
    model.learn_many([{"a": 1.0}, {"b": 1.0}], ["x", "y"])
    pairs = [({"a": 1.0}, "x"), ({"a": 1.0}, "z"), ({"b": float("inf")}, "x"), ({"b": 1.0}, "y")]
    with pytest.raises(BadExample, match="examples:2: label 'z' is unknown to the model"):
        evaluate(model, pairs)
    report = evaluate(model, pairs, bad="skip")
    assert (report.examples, report.rejected) == (2, 2)
    assert model.classes_met == ["x", "y"]


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args))


def test_evaluate_command() -> None:
    write_vw("seen.vw", 900, 1)
    write_vw("new.vw", 700, 2)
    assert (
        run("learn", "seen.vw", "--lr", "0.1", "--save", "m", "--checkpoint", "kept").exit_code == 0
    )
    before = Path("m").read_bytes()
    result = run(
        "evaluate", "m", "new.vw", "--every", "300", "--report", "r.jsonl", "--plot", "p.svg",
        "--reliability", "bins.jsonl",
    )  # fmt: skip
    assert result.exit_code == 0 and result.stderr == ""
    lines = [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()]
    report = evaluate(streaml1.load("m"), "new.vw", every=300)
    assert [line["loss"] for line in lines] == [line.loss for line in report.lines]
    written = ["r.jsonl", "p.svg", "bins.jsonl"]
    closing = [*report.summary_lines(), *written]
    assert result.stdout.splitlines()[-len(closing) :] == closing
    bins = [json.loads(line) for line in Path("bins.jsonl").read_text().splitlines()]
    assert bins == [b._asdict() for b in report.reliability()] and len(bins) == 10
    assert sum(b["examples"] for b in bins) == 700
    assert reliability_table(report.reliability()) in result.stdout
    assert Path("p.svg").stat().st_size > 1000 and Path("m").read_bytes() == before
    assert run("evaluate", "kept", "new.vw").stdout.endswith("\n".join(closing[:-3]) + "\n")
    first_nine = run("evaluate", "m", "new.vw", "--limit", "9").stdout
    assert re.search(r"^examples +9$", first_nine, re.M)


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["m", "bad.vw"], 65, "bad.vw:1: "),
        (["m", "empty.vw"], 2, "empty.vw has no example to evaluate; nothing was written"),
        (["m", "bad.vw", "--bad", "skip"], 2, "bad.vw has no example to evaluate (1 rejected)"),
        (["m", "no.vw"], 2, "no.vw: there is no such file"),
        (["none", "seen.vw"], 2, "none: no such file"),
        (
            ["m", "seen.vw", "--bad", "dead-letter"],
            2,
            "Invalid value for '--bad': 'dead-letter' is not",
        ),
        (["m", "seen.vw", "--report", "m"], 2, "--report m is the model that is read; choose"),
        (["m", "seen.vw", "--reliability", "m"], 2, "--reliability m is the model that is read;"),
        (["m", "seen.vw", "--report", "no/r"], 2, "--report no/r cannot be written: there is no"),
    ],
)
def test_evaluate_command_rejects_invalid_arguments(
    args: list[str], code: int, message: str
) -> None:
    write_vw("seen.vw", 20, 1)
    Path("bad.vw").write_text("spam |a b\n")
    Path("empty.vw").write_text("\n")
    run("learn", "seen.vw", "--save", "m")
    result = run("evaluate", *args)
    assert result.exit_code == code
    assert result.stderr.splitlines()[-1].startswith(f"streaml1: {message}")
