"""Serving of models over HTTP: answers, reloads, limits, and what clients do wrong."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1.cli import cli, termination
from streaml1.models.serialization import ModelFileError
from streaml1.serving import ModelStore, Service, app
from streaml1.serving.bodies import (
    RequestError,
    examples_of,
    flatten,
    json_of,
    kind_of,
)
from streaml1.serving.example_log import ExampleLog
from streaml1.serving.http_protocol import Connections, HttpProtocol, Timeouts
from streaml1.serving.line_kernels import LineKernels
from streaml1.serving.model_source import open_source
from streaml1.serving.openapi import description
from streaml1.serving.service import QUERY_OPTIONS, Limits, Request, Response
from streaml1.sources.kafka import producer
from streaml1.sources.readers.flat_json import JsonRoles, parse_flat
from streaml1.sources.readers.json_requests import roles_of
from streaml1.sources.source import SourceError, Unavailable
from tests.broker import Broker
from tests.test_exit_codes import BrokerProxy
from tests.topics import records_of

WORDS = [f"w{k}" for k in range(30)]


def trained(seed: int = 0, n: int = 60, kind: Any = streaml1.ElasticNetClassifier) -> Any:
    """Return a model of words and an age."""
    rng, model = random.Random(seed), kind(lr=0.1) if "ElasticNet" in kind.__name__ else kind()
    for _ in range(n):
        x = {"word": rng.choice(WORDS), "user.os": rng.choice("ab"), "age": rng.random()}
        label: Any = rng.random() < 0.5
        if kind is streaml1.SoftmaxClassifier:
            label = rng.choice(["ham", "spam", "news"])
        model.learn_one(x, label)
    return model


def service_of(tmp_path: Path, *models: Any, **options: Any) -> Service:
    """Return the service of models with the names m0, m1, ..."""
    sources = {}
    for k, model in enumerate(models):
        path = tmp_path / f"m{k}.model"
        model.save(path)
        sources[f"m{k}"] = open_source(str(path))
    return Service(ModelStore(sources), **options)


def post(service: Service, target: str, body: Any, kind: str = "application/json") -> Response:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = service.handle(Request("POST", target, {"content-type": kind}, data))
    assert isinstance(response, Response)
    return response


def get(service: Service, target: str) -> Response:
    response = service.handle(Request("GET", target, {}, b""))
    assert isinstance(response, Response)
    return response


EXAMPLES: list[dict[str, Any]] = [
    {"word": "w1", "age": 0.5},
    {"word": "w2", "user": {"os": "a"}},
    {"word": "unknown", "age": 1},
    {},
]
FLAT = [EXAMPLES[0], {"word": "w2", "user.os": "a"}, *EXAMPLES[2:]]


def test_predictions_equal_those_of_the_frozen_model(tmp_path: Path) -> None:
    model = trained()
    service, frozen = service_of(tmp_path, model), model.freeze()
    expected = [frozen.predict_proba_one(x)[True] for x in FLAT]
    for example, p in zip(EXAMPLES, expected, strict=True):
        answer = json.loads(post(service, "/predict", example).body)
        assert answer == {"model": "m0", "version": service.store.default.version, "p": p}
    many = post(service, "/predict", EXAMPLES)
    assert [answer["p"] for answer in json.loads(many.body)["predictions"]] == expected
    assert dict(many.headers)["X-Model-Version"] == service.store.default.version
    lines = "\n".join(map(json.dumps, EXAMPLES)).encode()
    for kind in ("application/x-ndjson", "application/json"):
        response = post(service, "/predict", lines, kind)
        assert response.content_type == "application/x-ndjson"
        assert [json.loads(line)["p"] for line in response.body.splitlines()] == expected
    x = post(service, "/predict", {"x": EXAMPLES[0]})
    assert json.loads(x.body)["p"] == expected[0]


def wait_for_kernels(service: Service) -> None:
    loading = service._line_kernels._loading
    assert loading is not None, "the first body of many lines loads the kernels"
    loading.join(120)


@pytest.mark.parametrize("kind", ["text/vw", "application/x-ndjson", "text/svmlight"])
@pytest.mark.parametrize("task", [streaml1.ElasticNetClassifier, streaml1.ElasticNetRegressor])
def test_kernels_answer_bodies_of_many_lines_with_the_same_bits(
    tmp_path: Path, kind: str, task: Any
) -> None:
    model, rng = task(lr=0.1), random.Random(3)
    is_numbered = kind == "text/svmlight"
    names: list[Any] = list(range(9)) if is_numbered else [f"f{k}" for k in range(9)]
    rows = [{k: rng.random() for k in sorted(rng.sample(names, 5))} for _ in range(40)]
    for row in rows:
        model.learn_one(row, rng.random() < 0.5)
    lines = {
        "text/vw": [" ".join(["|", *(f"{k}:{v}" for k, v in row.items())]) for row in rows],
        "application/x-ndjson": [json.dumps(row) for row in rows],
        "text/svmlight": [" ".join(f"{k}:{row[k]}" for k in sorted(row)) for row in rows],
    }[kind]
    body = "\n".join(lines).encode()
    service = service_of(tmp_path, model)
    by_python = post(service, "/predict", body, kind)
    wait_for_kernels(service)
    predict, used = service._line_kernels.predict, []
    service._line_kernels.predict = lambda *a: used.append(predict(*a)) or used[-1]  # type: ignore[method-assign]
    by_kernel = post(service, "/predict", body, kind)
    assert by_kernel == by_python and by_kernel.status == 200
    frozen = model.freeze()
    number = "p" if task is streaml1.ElasticNetClassifier else "value"
    expected = [
        frozen.predict_proba_one(row)[True] if number == "p" else frozen.predict_one(row)
        for row in rows
    ]
    assert [json.loads(line)[number] for line in by_kernel.body.splitlines()] == expected
    assert used[0] is not None, "a kernel parsed it"
    explained = post(service, "/predict?explain=2", body, kind)
    assert [json.loads(line)[number] for line in explained.body.splitlines()] == expected
    broken = post(service, "/predict", b"\n".join([body, b"{", b"|:"]), kind)
    assert broken.status == 400 and b"line 41" in broken.body
    assert post(service, "/predict", b"[\n" + b"{},\n" * 9 + b"]", kind).status == 400


def test_kernels_are_loaded_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a later request: also if the thread runs before its starter releases the lock."""
    callers = []

    def start(thread: threading.Thread) -> None:
        start_thread(thread)
        if thread.name == "streaml1-kernels":
            time.sleep(0.3)

    def predict(rows: Any) -> Any:
        callers.append(threading.current_thread().name)
        return np.zeros(len(rows))

    start_thread = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", start)
    kernels = LineKernels()
    body = b"\n".join([b'{"a": 1}'] * 20)
    assert kernels.predict(body, "application/x-ndjson", (), predict) is None
    assert kernels._loading is not None
    kernels._loading.join(120)
    assert callers == ["streaml1-kernels"]


def test_kernels_are_loaded_by_a_later_body_if_the_first_is_refused() -> None:
    def predict(rows: Any) -> Any:
        if len(rows) > 20:
            raise RequestError(413, "too many")
        return np.zeros(len(rows))

    kernels, loads = LineKernels(), []
    for n in (21, 20):
        body = b"\n".join([b'{"a": 1}'] * n)
        assert kernels.predict(body, "application/x-ndjson", (), predict) is None
        loads.append(kernels._loading)
        while kernels._loading is not None and kernels._loading.is_alive():
            time.sleep(0.01)
    assert kernels._loading is loads[1]
    numbers = kernels.predict(body, "application/x-ndjson", (), predict)
    assert numbers is not None and len(numbers) == 20


def test_kernels_of_another_model_are_loaded_in_the_background_too() -> None:
    callers = []

    def predict(rows: Any) -> Any:
        callers.append(threading.current_thread().name)
        return np.zeros(len(rows))

    kernels = LineKernels()
    body = b"\n".join([b'{"a": 1}'] * 20)
    for predictor in ("plain", "crossed"):
        ask = partial(kernels.predict, body, "application/x-ndjson", (), predict, predictor)
        assert ask() is None
        assert kernels._loading is not None
        kernels._loading.join(120)
        assert ask() is not None
    assert callers == ["streaml1-kernels", "MainThread"] * 2


def test_no_body_waits_while_kernels_are_loaded() -> None:
    begun, resume = threading.Event(), threading.Event()

    def predict(rows: Any) -> Any:
        begun.set()
        assert resume.wait(120)
        return np.zeros(len(rows))

    kernels = LineKernels()
    body = b"\n".join([b'{"a": 1}'] * 20)
    ask = partial(kernels.predict, body, "application/x-ndjson", (), predict)
    assert ask() is None
    loading = kernels._loading
    assert loading is not None and begun.wait(120)
    assert ask() is None and kernels._loading is loading
    resume.set()
    loading.join(120)
    assert ask() is not None


def test_models_of_one_class_share_kernels(tmp_path: Path) -> None:
    models = [
        trained(),
        trained(),
        streaml1.ElasticNetClassifier(cross=[("word", "age")]),
        streaml1.SoftmaxClassifier(),
    ]
    served = service_of(tmp_path, *models).store.models.values()
    first, second, crossed, softmax = (model.kernels for model in served)
    assert first == second and len({first, crossed, softmax}) == 3


READ_AS: dict[str, Any] = {
    "categorical": frozenset(["hour", "user.zip"]),
    "numeric": frozenset(["price", "user.n"]),
}


def as_learnt(rng: random.Random) -> dict[str, Any]:
    """Return an example with numbers that are categories and texts that are numbers."""
    return {
        "hour": rng.choice([7, 9.50, True, None]),
        "price": rng.choice(["12.50", 3, "", "4%"]),
        "user": {"zip": rng.choice([94110, "94110"]), "n": [rng.choice(["1", "2"])]},
    }


@pytest.mark.parametrize("has_roles", [True, False])
def test_members_are_read_as_the_model_has_learnt_them(tmp_path: Path, has_roles: bool) -> None:
    rng, model = random.Random(1), streaml1.ElasticNetClassifier(lr=0.5)
    roles = JsonRoles(**READ_AS)

    def read(x: dict[str, Any]) -> dict[str, Any]:
        parsed = parse_flat(json.dumps(x), roles, require_label=False)
        assert parsed is not None
        return parsed[0]

    for _ in range(60):
        model.learn_one(read(as_learnt(rng)), rng.random() < 0.5)
    assert {"hour=7", "hour=9.5", "hour=true", "price", "user.zip=94110", "user.n.0"} <= {
        *model.weights
    }
    frozen, examples = model.freeze(), [as_learnt(rng) for _ in range(20)]
    expected = [frozen.predict_proba_one(read(x))[True] for x in examples]
    service = service_of(tmp_path, model, roles=roles_of(**READ_AS) if has_roles else None)
    lines = b"\n".join(json.dumps(x).encode() for x in examples)
    for _ in range(2):  # in Python, then by kernels
        one = [json.loads(post(service, "/predict", x).body)["p"] for x in examples]
        many = json.loads(post(service, "/predict", examples).body)["predictions"]
        answers = post(service, "/predict", lines, "application/x-ndjson").body.splitlines()
        ranked = json.loads(post(service, "/rank", {"items": examples}).body)["ranking"]
        scores = {entry["item"]: entry["score"] for entry in ranked}
        found = (
            one,
            [answer["p"] for answer in many],
            [json.loads(answer)["p"] for answer in answers],
            [scores[k] for k in range(20)],
        )
        assert [numbers == expected for numbers in found] == 4 * [has_roles]
        wait_for_kernels(service)


def test_members_that_cannot_be_read_as_learnt_are_rejected(tmp_path: Path) -> None:
    service = service_of(tmp_path, trained(), roles=roles_of(**READ_AS))
    for body, reason in (
        (b'{"price": "cheap"}', "feature 'price': 'cheap' is not a number"),
        (b'[{"price": "cheap"}]', "feature 'price': 'cheap' is not a number"),
        (b'{"price": 1, "price": 2}', "the name 'price' occurs twice in an object"),
        (b'{"price": }', "the body is invalid: not JSON"),
        (b"[" * 500, "the body is invalid"),
        (b'{"a": ' * 20_000, "nested too deeply"),
        (b'{"a": "\xff"}', "the body is invalid"),
    ):
        refused = post(service, "/predict", body)
        assert refused.status == 400 and reason in json.loads(refused.body)["error"]
    with pytest.raises(SourceError, match="can have only one role"):
        roles_of(["a"], ["a"])
    assert roles_of([], []) is None


INSERTED = [
    b"}, {",
    b"},{",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b'"',
    b"\n",
    b" ",
    b"NaN",
    b"\\",
    b"\xff",
]


def mutated_array(rng: random.Random) -> bytes:
    """Return a JSON array of examples, half of the time with a few bytes changed."""
    values: list[Any] = [*WORDS, "}, {", '"},{"', "\u00e9", {"os": "a"}, ["a", {"b": 1}, {"c": 2}]]
    simple = rng.random() < 0.5
    examples = [
        {"word": rng.choice(WORDS if simple else values), "age": rng.choice([1, 0, 0.5, None])}
        for _ in range(rng.randrange(9, 12))
    ]
    body = bytearray(json.dumps(examples, separators=rng.choice([None, (",", ":")])).encode())
    for _ in range(rng.choice([0, 0, 1, 3])):
        at = rng.randrange(len(body))
        body[at : at + rng.randrange(3)] = rng.choice(INSERTED)
    return bytes(body)


def test_kernels_answer_arrays_as_python_does(tmp_path: Path) -> None:
    by_kernel, by_python = service_of(tmp_path, trained()), service_of(tmp_path, trained())
    by_python._line_kernels.predict = lambda *a: None  # type: ignore[method-assign]
    post(by_kernel, "/predict", [EXAMPLES[0]] * 9)
    wait_for_kernels(by_kernel)
    predict, used = by_kernel._line_kernels.predict, []
    by_kernel._line_kernels.predict = lambda *a: used.append(predict(*a)) or used[-1]  # type: ignore[method-assign]
    rng, statuses = random.Random(5), set()
    for _ in range(int(os.environ.get("STREAML1_FUZZ", 400))):
        body = mutated_array(rng)
        expected = post(by_python, "/predict", body)
        assert post(by_kernel, "/predict", body) == expected, body
        statuses.add((expected.status, used[-1] is not None))
    assert statuses == {(200, True), (200, False), (400, False)}


def test_text_formats(tmp_path: Path) -> None:
    model = streaml1.ElasticNetClassifier(lr=0.1)
    model.learn_one({"site^news": 1.0, "age": 31.0}, True)
    numbered = streaml1.ElasticNetClassifier(lr=0.1)
    numbered.learn_one({3: 0.5, 7: 1.0}, True)
    service = service_of(tmp_path, model, numbered)
    vw = post(service, "/predict", b"|site news | age:31\n1 | age:2\n", "text/vw")
    rows: list[dict[Any, Any]] = [{"site^news": 1.0, "age": 31.0}, {"age": 2.0}]
    frozen = model.freeze()
    expected = [frozen.predict_proba_one(row)[True] for row in rows]
    assert [json.loads(line)["p"] for line in vw.body.splitlines()] == expected
    svm = post(service, "/predict?model=m1", b"3:0.5 7:1\n", "text/svmlight; charset=utf-8")
    expected = [numbered.freeze().predict_proba_one({3: 0.5, 7: 1.0})[True]]
    assert [json.loads(line)["p"] for line in svm.body.splitlines()] == expected


def test_regressors_and_several_labels(tmp_path: Path) -> None:
    regressor = trained(kind=streaml1.ElasticNetRegressor)
    softmax = trained(kind=streaml1.SoftmaxClassifier)
    service = service_of(tmp_path, regressor, softmax)
    answer = json.loads(post(service, "/predict", FLAT[0]).body)
    assert answer["value"] == regressor.freeze().predict_one(FLAT[0])
    answer = json.loads(post(service, "/predict?model=m1", FLAT[0]).body)
    frozen = softmax.freeze()
    assert answer["label"] == frozen.predict_one(FLAT[0])
    assert dict(map(tuple, answer["p"])) == frozen.predict_proba_one(FLAT[0])
    refused = post(service, "/rank?model=m1", {"items": [{}]})
    assert refused.status == 400
    assert b"cannot rank" in refused.body


def test_rankings_sort_items_by_score(tmp_path: Path) -> None:
    model = trained()
    service, frozen = service_of(tmp_path, model), model.freeze()
    items = [{"word": word} for word in WORDS]
    body = {"shared": {"age": 0.3, "user": {"os": "b"}}, "items": items}
    ranking = json.loads(post(service, "/rank", body).body)["ranking"]
    shared = {"age": 0.3, "user.os": "b"}
    scores = [frozen.predict_proba_one({**shared, **item})[True] for item in items]
    assert [entry["score"] for entry in ranking] == sorted(scores, reverse=True)
    assert all(scores[entry["item"]] == entry["score"] for entry in ranking)


def test_explanations_equal_those_of_the_model(tmp_path: Path) -> None:
    model = trained()
    service = service_of(tmp_path, model)
    answer = json.loads(post(service, "/predict?explain=2", FLAT[1]).body)
    explanation = model.freeze().explain_one(FLAT[1])
    chosen = [*explanation.features[:2], explanation[-1]]
    assert [entry["name"] for entry in answer["explanation"]] == [r.name for r in chosen]
    assert [e["contribution"] for e in answer["explanation"]] == [r.contribution for r in chosen]
    assert post(service, "/predict?explain=x", FLAT[1]).status == 400


def test_descriptions(tmp_path: Path) -> None:
    model = trained()
    service = service_of(tmp_path, model, trained(1))
    described = json.loads(get(service, "/model").body)["models"]
    assert [entry["name"] for entry in described] == ["m0", "m1"]
    assert described[0]["class"] == "ElasticNetClassifier"
    assert described[0]["weights"] == len(model.freeze().weights)
    assert described[0]["version"] != described[1]["version"]
    assert [e["name"] for e in json.loads(get(service, "/model?model=m1").body)["models"]] == ["m1"]
    weights = json.loads(get(service, "/weights?top=3&prefix=word=").body)["weights"]
    named = {name: w for name, w in model.freeze().weights.items() if name.startswith("word=")}
    largest = sorted(named.items(), key=lambda pair: -abs(pair[1]))[:3]
    assert [(entry["name"], entry["weight"]) for entry in weights] == largest
    assert get(service, "/livez").body == b"ok\n"
    paths = json.loads(get(service, "/openapi.json").body)["paths"]
    assert {*paths, "/openapi.json"} == service._routes.keys()


@pytest.mark.parametrize(
    ("target", "body", "kind", "status"),
    [
        ("/predict", EXAMPLES, "application/json", 200),
        ("/predict", b'{"a": 1}\n{"a": 2}', "application/x-ndjson", 200),
        ("/predict", b"{", "application/json", 400),
        ("/predict?explain=10001", b"{}", "application/json", 400),
        ("/predict?model=m2", b"{}", "application/json", 404),
        ("/predict", b"[%s]" % b",".join([b"{}"] * 10_001), "application/json", 413),
        ("/predict", b"{}", "text/csv", 415),
        ("/rank", {"items": [EXAMPLES[0]], "shared": None}, "application/json", 200),
        ("/rank", {"items": [], "shared": 0}, "application/json", 400),
        ("/rank?model=", {"items": []}, "application/json", 404),
        ("/weights", None, "", 200),
        ("/weights?top=10001", None, "", 400),
        ("/weights?model=m2", None, "", 404),
        ("/model", None, "", 200),
        ("/livez", None, "", 200),
        ("/metrics", None, "", 200),
    ],
)
def test_answers_are_described(
    tmp_path: Path, target: str, body: Any, kind: str, status: int
) -> None:
    service = service_of(tmp_path, trained())
    response = get(service, target) if body is None else post(service, target, body, kind)
    assert response.status == status
    operations = json.loads(get(service, "/openapi.json").body)["paths"][target.partition("?")[0]]
    described = operations["get" if body is None else "post"]["responses"][str(status)]
    assert response.content_type.partition(";")[0] in described["content"]


def test_options_are_described_with_their_limits(tmp_path: Path) -> None:
    service = service_of(tmp_path, trained(), trained(1))
    paths = json.loads(get(service, "/openapi.json").body)["paths"]
    model, top, _ = paths["/weights"]["get"]["parameters"]
    assert model["schema"]["enum"] == ["m0", "m1"]
    assert top["schema"]["maximum"] == service.limits.weights


def test_readiness_follows_the_age_of_the_model(tmp_path: Path) -> None:
    service = service_of(tmp_path, trained(), max_age=1000.0)
    assert get(service, "/readyz").status == 200
    os.utime(tmp_path / "m0.model", (1e9, 1e9))
    service.store.refresh("m0")
    refused = get(service, "/readyz")
    assert refused.status == 503
    assert b"at most 1,000 s" in refused.body
    assert get(service, "/livez").status == 200


def test_metrics(tmp_path: Path) -> None:
    service = service_of(tmp_path, trained())
    post(service, "/predict", EXAMPLES[:2])
    post(service, "/rank", {"items": EXAMPLES[2:]})
    post(service, "/rank", {"items": []})
    post(service, "/predict", b"{")
    for k in range(50):
        get(service, f"/{k}")
    text = get(service, "/metrics").body.decode()
    assert 'streaml1_serving_requests_total{path="/predict",status="200"} 1.0' in text
    assert 'streaml1_serving_requests_total{path="/predict",status="400"} 1.0' in text
    assert 'streaml1_serving_requests_total{path="other",status="404"} 50.0' in text
    assert "streaml1_serving_examples_total 4.0" in text
    assert 'streaml1_serving_probability_count{model="m0"} 4.0' in text
    version = service.store.default.version
    assert f'streaml1_serving_model_info{{model="m0",version="{version}"}} 1.0' in text


@pytest.mark.parametrize(
    ("target", "body", "kind", "status", "reason"),
    [
        ("/predict", b"{", "application/json", 400, "not valid JSON"),
        ("/predict", b'{"a": 1}\n{"a": x}', "application/json", 400, "line 2"),
        ("/predict", b'"text"', "application/json", 400, "an object of features, not a string"),
        ("/predict", b"[]", "application/json", 400, "no example"),
        ("/predict", b"", "application/json", 400, "not valid JSON: it is empty; send"),
        ("/predict", b"|s a", "application/json", 400, "need Content-Type: text/vw or text/svm"),
        ("/predict", b'{"age": 1e60}', "application/json", 400, "too large"),
        ("/predict", b'[{}, {"age": 1e60}]', "application/json", 400, "example 1"),
        ("/predict", b"[{}, 2]", "application/json", 400, "example 1: an example is an object"),
        ("/predict", b"1 1:2", "text/vw", 400, "if this is svmlight, use the content type text/sv"),
        ("/predict", b"1 |a", "text/svmlight", 400, "use the content type text/vw"),
        ("/predict?explain=" + "1" * 5000, b"{}", "application/json", 400, "explain must be a"),
        ("/rank", b'{"items": [{}, 2]}', "application/json", 400, "item 1: an example is an"),
        ("/rank", b'{"shared": 2, "items": []}', "application/json", 400, "shared: an example is"),
        ("/predict", b'{"a": 1, "a": 2}', "application/json", 400, "'a' occurs twice in an"),
        ("/predict", b"{}", "image/png", 415, "content type"),
        ("/predict?model=x", b"{}", "application/json", 404, "no model 'x'"),
        ("/predict?model=", b"{}", "application/json", 404, "no model ''"),
        ("/predict?explain=", b"{}", "application/json", 400, "explain must be a number"),
        (
            "/predict?modell=x",
            b"{}",
            "application/json",
            400,
            "/predict has no query option 'modell'; use model or explain",
        ),
        (
            "/rank?model=m0&top=1",
            b"{}",
            "application/json",
            400,
            "no query option 'top'; use model",
        ),
        ("/predict", b"[" * 500, "application/json", 400, "JSON"),
        ("/predict", b'{"a":' * 80 + b"1" + b"}" * 80, "application/json", 400, "64 levels"),
        ("/predict", b"[{},{},{},{},{},{}]", "application/json", 413, "limit of 5"),
        ("/predict", b" " * 2000, "application/json", 413, "1,000 bytes"),
        ("/predict", b"1 nonsense", "text/vw", 400, "line 1"),
        ("/rank", b"{}", "application/json", 400, "items"),
        ("/rank", b'{"items": [1]}', "application/json", 400, "an object of features"),
        ("/weights", b"", "application/json", 405, "GET"),
        ("/nothing", b"", "application/json", 404, "use one of /predict"),
        (
            "/learn",
            b"{}",
            "application/json",
            404,
            "/learn is offered only by servers that write examples to a topic",
        ),
    ],
)
def test_bad_requests_get_one_sentence(
    tmp_path: Path, target: str, body: bytes, kind: str, status: int, reason: str
) -> None:
    service = service_of(tmp_path, trained(), limits=Limits(1000, 5))
    response = post(service, target, body, kind)
    assert response.status == status
    error = json.loads(response.body)["error"]
    assert reason in error
    assert "\n" not in error


def test_a_byte_order_mark_is_not_taken_for_lines_of_text(tmp_path: Path) -> None:
    response = post(service_of(tmp_path, trained()), "/predict", b'\xef\xbb\xbf{"word": "w1"}')
    assert response.status == 400
    assert b"byte order mark" in response.body and b"text/vw" not in response.body


def test_compressed_bodies_are_refused_as_such(tmp_path: Path) -> None:
    service = service_of(tmp_path, trained())

    def post_encoded(coding: str, body: bytes) -> Any:
        headers = {"content-type": "application/json", "content-encoding": coding}
        return service.handle(Request("POST", "/predict", headers, body))

    for coding in ("gzip", "BR", "zstd"):
        response = post_encoded(coding, gzip.compress(b"{}"))
        assert response.status == 415
        assert f"is compressed ({coding.lower()}); send it uncompressed" in response.body.decode()
    for coding in ("identity", "utf-8", ""):  # the second is a mistake of clients
        assert post_encoded(coding, b"{}").status == 200


def test_explanations_have_a_limit_of_their_own(tmp_path: Path) -> None:
    """They take much longer than predictions, and other requests wait."""
    service = service_of(tmp_path, trained(), limits=Limits(2**20, 10_000, explained=3))
    body = json.dumps([{"a": 1}] * 4).encode()
    assert post(service, "/predict", body).status == 200
    refused = post(service, "/predict?explain=2", body)
    assert refused.status == 413
    assert b"4 examples to explain exceed the limit of 3" in refused.body
    assert post(service, "/predict?explain=2", json.dumps([{"a": 1}] * 3).encode()).status == 200


class WrittenAtOnce:
    """A topic that takes all records."""

    def __init__(self) -> None:
        self.records: list[tuple[str, bytes]] = []

    def write(self, records: Any) -> Future[None]:
        self.records += records
        done = Future[None]()
        done.set_result(None)
        return done


def test_labels_need_an_id_and_each_request_is_counted(tmp_path: Path) -> None:
    log = WrittenAtOnce()
    service = service_of(tmp_path, trained(), log=log)
    lines = b'{"id": "a", "y": 1}\n\n{"id": 7, "y": 0}\n'
    answer = service.handle(Request("POST", "/label", {}, lines))
    assert isinstance(answer, Future) and json.loads(answer.result().body) == {"written": 2}
    assert log.records == [("a", b'{"id": "a", "y": 1}'), ("7", b'{"id": 7, "y": 0}')]
    for line in (b'{"id": "a"}', b'{"y": 1}', b'{"id": null, "y": 1}', b'{"id": 7, "y": null}'):
        refused = post(service, "/label", b'{"id": "a", "y": 1}\n\n' + line)
        assert refused.status == 400 and b"line 3 needs an id and a label" in refused.body
    for line, reason in (
        (b'{"id": 1.5, "y": 1}', b"must be a string or an integer, got 1.5"),
        (b'{"id": "%b", "y": 1}' % (b"a" * 1001), b"must have at most 1,000 characters"),
    ):
        refused = post(service, "/label", line)
        assert refused.status == 400 and reason in refused.body
    invalid = post(service, "/learn", b'{"y": 1}\n{')
    assert invalid.status == 400 and b"line 2: the body is not valid JSON" in invalid.body
    lines_of_text = post(service, "/learn", b"1 |word w1", "text/vw")
    assert lines_of_text.status == 400 and b"Content-Type" not in lines_of_text.body
    assert len(log.records) == 2, "a body is written whole or not at all"
    text = get(service, "/metrics").body.decode()
    assert 'streaml1_serving_requests_total{path="/label",status="200"} 1.0' in text
    assert 'streaml1_serving_requests_total{path="/label",status="400"} 6.0' in text


def test_a_fault_of_the_service_is_described_in_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = service_of(tmp_path, trained())
    monkeypatch.setattr(service.store, "models", None)
    assert get(service, "/model").status == 500
    assert "/model failed: AttributeError(" in caplog.text


def test_unknown_query_options_are_rejected(tmp_path: Path) -> None:
    service = service_of(tmp_path, trained())
    answer = get(service, "/weights?tpo=5")
    known = "/weights has no query option 'tpo'; use model, top or prefix"
    assert (answer.status, json.loads(answer.body)["error"]) == (400, known)
    assert json.loads(get(service, "/model?=").body)["error"].startswith("/model has no query")
    for path in ("/livez?verbose", "/readyz?verbose", "/metrics?name[]=x", "/openapi.json?v=1"):
        assert get(service, path).status == 200


def test_described_query_options_are_those_of_the_service() -> None:
    described = {
        path: tuple(option["name"] for option in operation.get("parameters", ()))
        for path, methods in description(["m0"], 10, True)["paths"].items()
        for operation in methods.values()
    }
    assert {path: described[path] for path in QUERY_OPTIONS} == QUERY_OPTIONS
    assert not any(described[path] for path in described.keys() - QUERY_OPTIONS.keys())


def test_names_of_invalid_utf8(tmp_path: Path) -> None:
    """They are held as surrogates, which an error, an explanation and a list of weights escape."""
    model = streaml1.ElasticNetClassifier(lr=0.3)
    model.learn_one({"caf\udce9": 1.0}, True)
    model.save(tmp_path / "a.model")
    service = Service(ModelStore({"a": open_source(str(tmp_path / "a.model"))}))
    refused = post(service, "/predict", b"|caf\xe9 a:\xe9", "text/vw")
    assert refused.status == 400 and "\udce9" in json.loads(refused.body)["error"]
    explained = post(service, "/predict?explain=1", b"| caf\xe9", "text/vw")
    [feature, _] = json.loads(explained.body)["explanation"]
    assert (feature["name"], feature["known"]) == ("caf\udce9", True)
    listed = service.handle(Request("GET", "/weights", {}, b""))
    assert isinstance(listed, Response)
    assert [row["name"] for row in json.loads(listed.body)["weights"]] == ["caf\udce9"]


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=4), json_values, max_size=5))
def test_features_are_named_as_those_of_json_lines(value: dict[str, Any]) -> None:
    """A served model knows the names that it has learnt from a file."""
    if value.keys() == {"x"}:
        return
    line = json.dumps({"the label": 1, **value})
    try:
        expected: Any = parse_flat(line, JsonRoles("the label"))[0]  # type: ignore[index]
    except ValueError:
        expected = None
    try:
        found = {name: v for name, v in flatten(value).items() if v is not None}
    except RequestError:
        found = None
    if expected is None:  # what no file may hold, a prediction may reject as a value
        assert found is None or {dict, list}.isdisjoint(map(type, value.values()))
    else:
        assert found == expected


PUNCTUATED = st.text(st.sampled_from('a":\\ \n\t'), max_size=4)


@given(
    members=st.lists(st.tuples(PUNCTUATED, PUNCTUATED | st.integers(0, 9)), max_size=4),
    outer=st.sampled_from(["%s", "[%s]", '{"x": %s}', '[{"a:b": [%s]}]']),
    colon=st.sampled_from([":", ": ", " :", "\t\n:"]),
)
def test_objects_with_a_name_twice_are_rejected(
    members: list[tuple[str, Any]], outer: str, colon: str
) -> None:
    """As offline; the last member would win otherwise, but not in a body that a kernel parses."""
    text = ",".join(f"{json.dumps(name)}{colon}{json.dumps(v)}" for name, v in members)
    body = (outer % f"{{{text}}}").encode()
    if len(dict(members)) == len(members):
        assert json_of(body) == json.loads(body)
    else:
        with pytest.raises(RequestError, match="occurs twice in an object"):
            json_of(body)


@given(
    st.lists(st.dictionaries(st.text("ax{[", max_size=2), json_values, max_size=3), max_size=3),
    st.booleans(),
)
def test_examples_of_json_are_flattened(items: list[dict[str, Any]], is_one: bool) -> None:
    """Also those of a body that is found to need it less than others: by counting brackets."""
    items = items[:1] if is_one else items
    body = json.dumps(items[0] if is_one and items else items).encode()
    try:
        expected = [flatten(json_of(json.dumps(item).encode())) for item in items]
        assert expected
    except (RequestError, AssertionError):
        with pytest.raises(RequestError):
            examples_of(body, "application/json")
        return
    assert examples_of(body, "application/json") == (expected, "one" if is_one else "many")


@given(st.binary(max_size=60), st.sampled_from(["", "text/vw", "text/svmlight"]))
def test_any_body_is_read_or_refused(body: bytes, kind: str) -> None:
    with contextlib.suppress(RequestError):
        assert examples_of(body, kind_of(kind)).examples


# Reloading


def test_a_new_version_replaces_the_old_one(tmp_path: Path) -> None:
    service = service_of(tmp_path, trained(0))
    store, path = service.store, tmp_path / "m0.model"
    before = store.default
    assert not store.refresh("m0")
    trained(1).save(path)
    assert store.refresh("m0")
    assert store.default.version != before.version
    assert before.predict(FLAT[0]) == {"p": trained(0).freeze().predict_proba_one(FLAT[0])[True]}
    assert store.default.predict(FLAT[0]) == {
        "p": trained(1).freeze().predict_proba_one(FLAT[0])[True]
    }


def test_a_damaged_version_leaves_the_old_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = service_of(tmp_path, trained(0))
    store, path = service.store, tmp_path / "m0.model"
    version, data = store.default.version, path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    for _ in range(3):
        assert not store.refresh("m0")
    assert store.default.version == version
    assert len([r for r in caplog.records if "serving the version before" in r.message]) == 1
    assert "newest" in json.loads(get(service, "/model").body)["models"][0]
    path.unlink()
    assert not store.refresh("m0")
    trained(1).save(path)
    assert store.refresh("m0")
    assert not store.failures


def test_any_error_leaves_the_version_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = service_of(tmp_path, trained())
    store, version = service.store, service.store.default.version
    trained(1).save(tmp_path / "m0.model")

    def fail(*arguments: Any) -> Any:
        raise ZeroDivisionError("unforeseen")

    monkeypatch.setattr("streaml1.serving.model_store._warm", fail)
    assert not store.refresh("m0")
    assert store.default.version == version
    assert "m0: ZeroDivisionError('unforeseen'); serving the version before" in caplog.text
    monkeypatch.undo()
    assert store.refresh("m0")


def test_the_interval_of_checks_may_be_longer_than_a_wait_can_be(tmp_path: Path) -> None:
    path = tmp_path / "m.model"
    trained().save(path)
    with ModelStore({"m": open_source(str(path))}) as store:
        store.start(1e300)
        time.sleep(0.2)
        assert all(thread.is_alive() for thread in store._threads)


def test_a_file_that_is_back_is_no_failure(tmp_path: Path) -> None:
    store, path = service_of(tmp_path, trained()).store, tmp_path / "m0.model"
    path.rename(tmp_path / "aside")
    path.mkdir()
    assert not store.refresh("m0")
    assert store.failures == {"m0": f"{path}: is a directory"}
    path.rmdir()
    (tmp_path / "aside").rename(path)
    assert not store.refresh("m0")
    assert store.failures == {}


def test_a_named_pipe_in_place_of_the_model_does_not_block(tmp_path: Path) -> None:
    store, path = service_of(tmp_path, trained()).store, tmp_path / "m0.model"
    path.unlink()
    os.mkfifo(path)
    refreshed: list[bool] = []
    thread = threading.Thread(target=lambda: refreshed.append(store.refresh("m0")), daemon=True)
    thread.start()
    thread.join(10.0)
    assert refreshed == [False]
    assert store.failures == {"m0": f"{path} is not a regular file; save the model there again"}


def test_a_model_of_another_class_is_announced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = service_of(tmp_path, trained()).store
    with caplog.at_level("INFO", "streaml1"), store:
        trained(kind=streaml1.ElasticNetRegressor).save(tmp_path / "m0.model")
        wait_until(lambda: "m0: version" in caplog.text)
    assert "s, ElasticNetRegressor instead of ElasticNetClassifier" in caplog.text


def test_checkpoint_directories(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    examples = [({f"w{k % 7}": 1}, k % 2) for k in range(400)]
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"y": y, "x": x}) + "\n" for x, y in examples)
    )
    model = streaml1.ElasticNetClassifier(lr=0.1)
    streaml1.progressive(model, str(tmp_path / "rows.jsonl"), checkpoint=tmp_path / "cp")
    source = open_source(str(tmp_path / "cp"))
    store = ModelStore({"cp": source})
    frozen = streaml1.load(tmp_path / "cp").freeze()
    assert store.default.predict({"w1": 1.0}) == {"p": frozen.predict_proba_one({"w1": 1.0})[True]}
    assert not store.refresh("cp")
    streaml1.load(tmp_path / "cp").save(tmp_path / "saved.model")
    version = store.default.version
    assert open_source(str(tmp_path / "saved.model")).load().version == version
    intact = max((tmp_path / "cp").glob("*.checkpoint"))
    os.utime(intact, (1e9, 1e9))
    torn = intact.with_name(intact.name.replace("0001-", "0002-"))
    torn.write_bytes(intact.read_bytes()[:-9])
    loaded = source.load()
    assert (loaded.version, loaded.published) == (version, 1e9), "not those of the torn file"
    assert f"{torn} is truncated or altered; using the previous checkpoint" in caplog.text
    for other in (tmp_path / "cp").glob("*.checkpoint"):
        if other != torn:
            other.unlink()
    for load in (source.load, partial(streaml1.load, tmp_path / "cp")):
        with pytest.raises(ModelFileError, match=f"no readable checkpoint: {torn} is truncated"):
            load()


def test_a_checkpoint_of_another_run_under_the_same_name_is_loaded(tmp_path: Path) -> None:
    """As of a job that empties its directory every night."""
    rows, directory = tmp_path / "rows.jsonl", tmp_path / "cp"
    versions, names = [], []
    for label in (0, 1):
        rows.write_text(f'{{"y": {label}, "x": {{"a": 1}}}}\n')
        streaml1.progressive(streaml1.ElasticNetClassifier(), str(rows), checkpoint=directory)
        names.append(sorted(path.name for path in directory.iterdir()))
        if label == 0:
            store = ModelStore({"cp": open_source(str(directory))})
            versions.append(store.default.version)
            shutil.rmtree(directory)
    assert names[0] == names[1]
    assert store.refresh("cp") and store.default.version != versions[0]


# The server


@contextlib.contextmanager
def server(*arguments: str, port: int = 0) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run the command; yield its port and the process."""
    command = [sys.executable, "-m", "streaml1", "serve", *arguments, "--listen", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"serving at http://127.0.0.1:(\d+)", line):
                break
        else:
            raise AssertionError("".join(lines))
        yield int(found[1]), process
    finally:
        process.kill()
        process.communicate()


def ask(port: int, body: Any, target: str = "/predict") -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", target, json.dumps(body))
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def exchange(port: int, data: bytes, timeout: float = 30.0) -> bytes:
    """Send bytes, and return all that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as client:
        client.sendall(data)
        received = b""
        with contextlib.suppress(ConnectionError):
            while part := client.recv(65536):
                received += part
    return received


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    path = tmp_path_factory.mktemp("served") / "m0.model"
    trained().save(path)
    with server(str(path), "--max-body", "10000") as (port, _):
        yield port


def test_requests_of_one_connection_are_answered_in_order(shared_server: int) -> None:
    frozen = trained().freeze()
    bodies = [json.dumps({"word": word}).encode() for word in WORDS]
    requests = [
        b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        for body in bodies
    ]
    chunked = b"POST /predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    chunked += b"8\r\n" + b'{"word":' + b"\r\n5\r\n" + b'"w3"}' + b"\r\n0\r\n\r\n"
    received = exchange(shared_server, b"".join([*requests, chunked]))
    answers = [json.loads(body)["p"] for body in re.findall(rb"\{.*\}", received)]
    words = [*WORDS, "w3"]
    assert answers == [frozen.predict_proba_one({"word": word})[True] for word in words]


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://host:8000/predict", 200),
        ("HTTPS://host/predict?model=m0", 200),
        ("http://host/predict?model=http://b/c", 404),
        ("http://host", 404),
        ("http://host?model=m0", 404),
        ("ftp://host/predict", 404),
    ],
)
def test_targets_in_absolute_form(shared_server: int, target: str, status: int) -> None:
    """Servers must accept them, as clients of proxies send them (RFC 9112, 3.2.2)."""
    body = b'{"word":"w1"}'
    framing = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    head = f"POST {target} HTTP/1.1\r\nHost: host\r\n{framing}"
    answer = exchange(shared_server, head.encode() + body)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer


class RecordingTransport(asyncio.Transport):
    """A transport that records what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return False


def test_requests_that_arrive_together_are_answered_together(tmp_path: Path) -> None:
    """By one write, but large answers by several, so that a slow client is noticed between."""
    protocol = HttpProtocol(Connections(service_of(tmp_path, trained())))
    transport = RecordingTransport()
    protocol.connection_made(transport)
    request = b'POST /predict HTTP/1.1\r\nContent-Length: 13\r\n\r\n{"word":"w1"}'
    protocol.data_received(request * 10)
    [answers] = transport.written
    assert answers.count(b"HTTP/1.1 200 OK\r\n") == 10
    protocol.data_received(b"GET /weights?top=10000 HTTP/1.1\r\n\r\n" * 50)
    assert len(transport.written) > 2
    assert max(map(len, transport.written)) < 2**17


def test_a_connection_that_comes_during_the_drain_is_answered_once(tmp_path: Path) -> None:
    connections = Connections(service_of(tmp_path, trained()))
    connections.drain()
    protocol, transport = HttpProtocol(connections), RecordingTransport()
    protocol.connection_made(transport)
    protocol.data_received(b'POST /predict HTTP/1.1\r\nContent-Length: 13\r\n\r\n{"word":"w1"}')
    [answer] = transport.written
    assert answer.startswith(b"HTTP/1.1 200 OK") and b"Connection: close" in answer
    assert transport.is_closed


def test_http_details(shared_server: int) -> None:
    head = exchange(shared_server, b"HEAD /livez HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert head.endswith(b"Content-Length: 3\r\nConnection: close\r\n\r\n")
    old = exchange(shared_server, b"GET /livez HTTP/1.0\r\n\r\n")
    assert old.endswith(b"ok\n")
    kept = exchange(shared_server, b"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert b"\r\nConnection: close\r\n" in kept and kept.endswith(b"ok\n")
    put = exchange(shared_server, b"PUT /predict HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert put.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert b"Allow: POST\r\n" in put
    expecting = (
        b"POST /predict HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
        b"Connection: close\r\n\r\n{}"
    )
    assert exchange(shared_server, expecting).startswith(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"
    )


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 13\r\n\r\n%b", b"Transfer-Encoding: chunked\r\n\r\nd\r\n%b\r\n0\r\n\r\n"],
    ids=["length", "chunked"],
)
def test_offers_of_another_protocol_are_ignored(shared_server: int, framing: bytes) -> None:
    """Java's HttpClient offers HTTP/2 in its first request, `curl --http2` in each."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAE\r\n"
    requests = [
        b"POST /predict?model=m0 HTTP/1.1\r\n" + offer + framing % b'{"word":"w1"}',
        b"GET /livez HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade, close\r\n\r\n",
    ]
    got = exchange(shared_server, b"".join(requests))
    assert got.count(b"HTTP/1.1 200 OK\r\n") == got.count(b"HTTP/1.1") == 3
    assert json.dumps(ask(shared_server, {"word": "w1"})["p"]).encode() in got
    assert got.index(b'"p":') < got.index(b"ok\n") < got.index(b'"ready":true')


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"CONNECT x:443 HTTP/1.1\r\n\r\n", b"400"),
        ("GET /weights?prefix=caf\u00e9 HTTP/1.1\r\n\r\n".encode(), b"400"),
        (b"\x16\x03\x01 nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/9.9\r\n\r\n", b"400"),
        (b"POST /predict HTTP/1.1\r\nContent-Length: 20000\r\n\r\n{", b"413"),
        (
            b"POST /predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"2000\r\n" + b" " * 0x2000 + b"\r\n2000\r\n" + b" " * 0x2000 + b"\r\n",
            b"413",
        ),
        (b"GET /livez HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n", b"431"),
        (b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\n\r\n", b"431"),
        (b"POST /predict HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
    ],
)  # fmt: skip
def test_hostile_requests_are_refused(
    shared_server: int, request_bytes: bytes, status: bytes
) -> None:
    assert exchange(shared_server, request_bytes).startswith(b"HTTP/1.1 " + status)
    assert ask(shared_server, {"word": "w1"})["model"] == "m0"


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 30000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n1c9c380\r\n"],
    ids=["length", "chunked"],
)
def test_a_client_that_is_still_sending_can_read_why_it_is_refused(
    shared_server: int, framing: bytes
) -> None:
    """Many clients send a whole body before they look at the response."""
    request = b"POST /predict HTTP/1.1\r\n" + framing + b" " * 30_000_000
    refusal = exchange(shared_server, request)
    assert refusal.startswith(b"HTTP/1.1 413") and refusal.endswith(b'exceeds 10,000 bytes"}')


def test_targets_beyond_ascii_are_refused_with_the_remedy(shared_server: int) -> None:
    """curl sends the characters of a query as they are."""
    request = "GET /weights?prefix=caf\u00e9 HTTP/1.1\r\n\r\n".encode()
    assert b"write %C3%A9 for \xc3\xa9" in exchange(shared_server, request)


def test_random_bytes_do_not_end_the_server(shared_server: int) -> None:
    rng = random.Random(1)
    valid = b'POST /predict HTTP/1.1\r\nContent-Length: 13\r\n\r\n{"word":"w1"}'
    for _ in range(300):
        data = bytearray(valid)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with socket.create_connection(("127.0.0.1", shared_server), timeout=30) as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while client.recv(65536):
                    pass
    assert ask(shared_server, {"word": "w1"})["model"] == "m0"


def test_each_answer_is_that_of_the_version_it_names(tmp_path: Path) -> None:
    """Models are replaced, and once torn, while clients ask."""
    path, examples = tmp_path / "clicks.model", [{"word": word} for word in WORDS]
    expected = {}
    models = [trained(seed, n=25) for seed in range(12)]
    encoded = []
    for model in models:
        model.save(tmp_path / "other")
        encoded.append((tmp_path / "other").read_bytes())
        version = open_source(str(tmp_path / "other")).load().version
        frozen = model.freeze()
        expected[version] = [frozen.predict_proba_one(x)[True] for x in examples]
    path.write_bytes(encoded[0])
    seen: set[str] = set()
    errors: list[str] = []
    stop = threading.Event()

    def client(port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        k = 0
        while not stop.is_set():
            k = (k + 1) % len(examples)
            connection.request("POST", "/predict", json.dumps(examples[k]))
            answer = json.loads(connection.getresponse().read())
            seen.add(answer["version"])
            if answer["p"] != expected[answer["version"]][k]:
                errors.append(repr(answer))

    with server(str(path), "--check-every", "0.02") as (port, process):
        clients = [threading.Thread(target=client, args=(port,)) for _ in range(3)]
        for thread in clients:
            thread.start()
        for number, data in enumerate(encoded):
            if number == 6:  # a torn file is not served, and ends nothing
                (tmp_path / "new").write_bytes(data[:50])
                os.replace(tmp_path / "new", path)
                time.sleep(0.1)
            (tmp_path / "new").write_bytes(data)
            os.replace(tmp_path / "new", path)
            time.sleep(0.15)
        deadline = time.monotonic() + 30
        last = [*expected][-1]
        while last not in seen and time.monotonic() < deadline:
            time.sleep(0.05)
        stop.set()
        for thread in clients:
            thread.join()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
        assert process.stderr is not None
        assert f"clicks: version {last} loaded in" in process.stderr.read()
    assert not errors
    assert last in seen
    assert len(seen) > 3


def test_signals_drain_the_server(tmp_path: Path) -> None:
    """A request that has begun is answered; idle connections are closed."""
    path = tmp_path / "m.model"
    trained().save(path)
    with server(str(path)) as (port, process):
        idle = socket.create_connection(("127.0.0.1", port), timeout=30)
        busy = socket.create_connection(("127.0.0.1", port), timeout=30)
        busy.sendall(b'POST /predict HTTP/1.1\r\nContent-Length: 13\r\n\r\n{"word"')
        ask(port, {})
        process.send_signal(signal.SIGTERM)
        assert idle.recv(10) == b""
        busy.sendall(b':"w1"}')
        answer = busy.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"Connection: close" in answer
        assert process.wait(20) == 128 + signal.SIGTERM
        with pytest.raises(ConnectionError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        idle.close()
        busy.close()


def test_several_workers(tmp_path: Path) -> None:
    path = tmp_path / "m.model"
    trained().save(path)
    expected = trained().freeze().predict_proba_one({"word": "w1"})[True]
    with server(str(path), "--workers", "2") as (port, process):
        assert all(ask(port, {"word": "w1"})["p"] == expected for _ in range(20))
        children = [int(pid) for pid in _children(process.pid)]
        assert len(children) == 2
        os.kill(children[0], signal.SIGKILL)  # a worker that dies is replaced
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and len(_children(process.pid)) < 2:
            time.sleep(0.1)
        assert len(_children(process.pid)) == 2
        trained(1).save(path)
        new = trained(1).freeze().predict_proba_one({"word": "w1"})[True]
        while time.monotonic() < deadline and {
            ask(port, {"word": "w1"})["p"] for _ in range(8)
        } != {new}:
            time.sleep(0.2)
        assert {ask(port, {"word": "w1"})["p"] for _ in range(8)} == {new}
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
        assert process.stderr is not None
        ended = f"worker {children[0]} was ended by signal 9 (Killed); it is replaced\n"
        assert ended in process.stderr.read()


def test_signals_drain_workers(tmp_path: Path) -> None:
    """The parent waits for them, longer than commands have that lose nothing."""
    path = tmp_path / "m.model"
    trained().save(path)
    with server(str(path), "--workers", "2") as (port, process):
        ask(port, {})
        busy = socket.create_connection(("127.0.0.1", port), timeout=30)
        busy.sendall(b'POST /predict HTTP/1.1\r\nContent-Length: 13\r\n\r\n{"word"')
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        time.sleep(termination.GRACE + 0.5)
        assert process.poll() is None
        with pytest.raises(ConnectionError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        busy.sendall(b':"w1"}')
        assert busy.recv(65536).startswith(b"HTTP/1.1 200 OK")
        busy.close()
        assert process.wait(20) == 128 + signal.SIGTERM
        assert process.stderr is not None and process.stderr.read() == ""


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    path = tmp_path / "m.model"
    trained().save(path)
    with server(str(path), "--workers", "2") as (port, process):
        command = [sys.executable, "-m", "streaml1", "serve", str(path), "--workers", "2"]
        second = subprocess.run([*command, "--listen", str(port)], capture_output=True, text=True)
        assert second.returncode == 2, "workers must not share the port of another server"
        assert "cannot listen" in second.stderr and "serving" not in second.stderr
        children = _children(process.pid)
        assert len(children) == 2
        process.kill()
        process.wait(20)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


def wait_until(is_done: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["missing.model"], "missing.model does not exist"),
        (["{m}", "--listen", "x"], "--listen must be a port (8490) or HOST:PORT, got x"),
        (["{m}", "{m}"], "two models have the name 'm'"),
        (["=m"], "'=m' is not a model"),
        (["{m}", "--check-every", "nan"], "'--check-every': must be a finite number, got nan"),
        (["{m}", "--max-age", "inf"], "'--max-age': must be a finite number, got inf"),
        (["{m}", "--listen", "1.2.3.4:80"], "assign requested address; the host must be an addre"),
        (["{m}", "--listen", "no.invalid:80"], "the host must be an address of this machine"),
        (["{m}", "--listen", "{taken}"], "cannot listen at 127.0.0.1:{taken}"),
    ],
)
def test_errors_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_server: int,
    arguments: list[str], sentence: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    trained(n=3).save("m.model")
    names = {"m": "m.model", "taken": shared_server}
    given = [argument.format(**names) for argument in arguments]
    done = CliRunner().invoke(cli, ["serve", *given])
    assert done.exit_code == 2
    assert sentence.format(**names) in done.stderr


def test_a_directory_without_a_checkpoint_yet_is_worth_a_restart(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["serve", str(tmp_path)])
    assert done.exit_code == 75 and f"{tmp_path} holds no checkpoint yet" in done.stderr


def test_a_topic_that_cannot_be_written_is_reported_before_the_start(tmp_path: Path) -> None:
    path = tmp_path / "m.model"
    trained(n=3).save(path)
    command = [sys.executable, "-m", "streaml1", "serve", str(path), "--listen", "0"]
    options = ["--workers", "2", "--to", "kafka://127.0.0.1:1/log"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 75
    assert done.stderr.startswith("streaml1: kafka://127.0.0.1:1/log: no broker answers")


def test_slow_clients_are_closed(tmp_path: Path) -> None:
    """A request that does not end, a connection without one, a response that is not taken."""
    service = service_of(tmp_path, trained(), limits=Limits(2**22))

    async def run() -> None:
        connections = Connections(service, limit=4, timeouts=Timeouts(0.2, 60.0, 0.2, 0.2))
        loop = asyncio.get_running_loop()
        running = await loop.create_server(lambda: HttpProtocol(connections), "127.0.0.1", 0)
        port = running.sockets[0].getsockname()[1]
        streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        # Closing the connection before the request arrives would reset it, and lose the answer.
        streams[4][1].write(b"POST /predict HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n")
        await asyncio.sleep(0.05)
        streams[4][1].write(b"1" * 100_000)
        refused = await streams[4][0].read()
        assert refused.startswith(b"HTTP/1.1 503") and b"too many connections" in refused
        streams[4][1].write(b"1" * 100_000)
        await asyncio.sleep(0.05)
        await streams[4][1].drain()
        assert len(connections.refused) == 1
        await asyncio.sleep(0.2)
        connections.sweep(time.monotonic())
        await asyncio.sleep(0.05)
        assert not connections.refused
        idle, partial, stuck, large = streams[:4]
        large[1].write(b"POST /predict HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n")
        assert (await large[0].read()).startswith(b"HTTP/1.1 413")
        partial[1].write(b"POST /predict HTTP/1.1\r\nContent-Length: 10\r\n\r\n")
        stuck[0]._transport.pause_reading()  # type: ignore[attr-defined]
        get = b"GET /weights?top=10000 HTTP/1.1\r\n\r\n"
        stuck[1].write(get * 5000)

        async def sweep_until(n: int) -> None:
            deadline = time.monotonic() + 30
            while len(connections.open) != n and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
                connections.sweep(time.monotonic())
            assert len(connections.open) == n

        await sweep_until(1)  # the idle one is left
        assert (await partial[0].read()).startswith(b"HTTP/1.1 408")
        connections.timeouts = Timeouts(idle=0.2)
        await sweep_until(0)
        assert await idle[0].read() == b""
        for _, writer in streams:
            writer.close()
        running.close()

    asyncio.run(run())


# ASGI


def test_asgi_application_of_something_else() -> None:
    with pytest.raises(TypeError, match="the path of a model, or a dict .*, got a list"):
        app(["clicks.model"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sources is empty"):
        app({})
    with pytest.raises(ValueError, match="max_age must be a finite number of seconds > 0, got '9'"):
        app("clicks.model", max_age="9")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="check_seconds must be a finite number of .*, got -1"):
        app("clicks.model", check_seconds=-1)


def test_asgi_application(tmp_path: Path) -> None:
    path = tmp_path / "m.model"
    trained().save(path)
    assert app(path) is not None
    application = app({"clicks": str(path)}, limits=Limits(body=100))

    async def call(body: bytes, target: str = "/predict", root: str = "") -> tuple[int, bytes]:
        messages = [
            {"type": "http.request", "body": body[:3], "more_body": True},
            {"type": "http.request", "body": body[3:], "more_body": False},
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": "POST", "path": root + target, "root_path": root,
            "query_string": b"model=clicks", "headers": [(b"content-type", b"application/json")],
        }  # fmt: skip
        await application(scope, receive, send)
        return sent[0]["status"], sent[1]["body"]

    async def shut_down() -> list[Any]:
        kinds, sent = ["lifespan.startup", "lifespan.shutdown"], []

        async def receive() -> Any:
            return {"type": kinds.pop(0)}

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await application({"type": "lifespan"}, receive, send)
        return sent

    status, body = asyncio.run(call(b'{"word": "w1"}', root="/api"))
    assert status == 200
    expected = trained().freeze().predict_proba_one({"word": "w1"})[True]
    assert json.loads(body)["p"] == expected
    assert asyncio.run(call(b" " * 200))[0] == 413
    assert asyncio.run(shut_down()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


# Kafka


@pytest.mark.kafka
def test_published_models_and_labelled_examples(broker: Broker, tmp_path: Path) -> None:
    """A topic of models is watched; /learn and /label write to a topic."""
    broker.require_real()
    models, log = (broker.url(f"s-{uuid.uuid4().hex[:12]}") for _ in range(2))
    with pytest.raises(SourceError, match="does not exist; ModelPublisher creates it"):
        open_source(models).stamp()
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"y": {k % 2}, "x": {{"w{k % 7}": 1}}}}\n' for k in range(300)))
    learn = [sys.executable, "-m", "streaml1", "learn", str(rows), "--publish", models]
    subprocess.run([*learn, "--lr", "0.1"], check=True, capture_output=True)
    first = streaml1.load(models).freeze().predict_proba_one({"w1": 1.0})[True]
    with server(f"clicks={models}", "--to", log) as (port, process):
        assert ask(port, {"w1": 1.0})["p"] == first
        subprocess.run([*learn, "--lr", "0.3"], check=True, capture_output=True)
        published = time.monotonic()
        second = streaml1.load(models).freeze().predict_proba_one({"w1": 1.0})[True]
        assert second != first
        while ask(port, {"w1": 1.0})["p"] != second:
            assert time.monotonic() - published < 10.0
            time.sleep(0.05)
        example = {"id": "a7", "y": 1, "x": {"w1": 1}}
        assert ask(port, example, "/learn") == {"written": 1}
        assert ask(port, {"id": "a8", "y": 0}, "/label") == {"written": 1}
        assert "error" in ask(port, [1], "/learn")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    written = records_of(broker, log.rpartition("/")[2])
    assert {(record.key.decode(), record.value.decode()) for record in written} == {
        ("a7", json.dumps(example)),
        ("a8", json.dumps({"id": "a8", "y": 0})),
    }


@pytest.mark.kafka
def test_a_record_that_is_too_large_fails_its_own_request_only(
    broker: Broker, tmp_path: Path
) -> None:
    broker.require_real()
    topic = broker.topic(2, **{"max.message.bytes": "20000"})
    log = ExampleLog(broker.url(topic))
    service = service_of(tmp_path, trained(), log=log)

    def write(*examples: dict[str, Any]) -> Any:
        body = "\n".join(map(json.dumps, examples)).encode()
        return service.handle(Request("POST", "/learn", {}, body))

    def example(name: str, n_bytes: int = 1) -> dict[str, Any]:
        return {"id": name, "x": {"word": "w" * n_bytes}, "y": 1}

    for repetition in range(2):  # the first failure must not be the end of the log
        before = [write(example(f"before-{repetition}-{k}")) for k in range(3)]
        large = write(example(f"with-{repetition}"), example("large", 40_000))
        after = [write(example(f"after-{repetition}-{k}")) for k in range(3)]
        refused = large.result(60)
        assert refused.status == 413
        assert b"does not accept the record large: too large" in refused.body
        assert [each.result(60).body for each in before + after] == [b'{"written":1}'] * 6
    assert write(example("last")).result(60).status == 200
    log.close()
    keys = [record.key.decode() for record in records_of(broker, topic)]
    expected = {f"{when}-{k}-{i}" for when in ("before", "after") for k in (0, 1) for i in range(3)}
    assert {"last", *expected} <= set(keys) <= {"last", "with-0", "with-1", *expected}
    assert len(keys) == len(set(keys))


@pytest.mark.kafka
def test_labelled_examples_are_written_again_after_an_outage(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a deleted topic, which is created anew, and after brokers that did not answer."""
    broker.require_real()
    monkeypatch.setattr(producer, "DELIVERY_SECONDS", 3.0)
    monkeypatch.setattr(producer, "REQUEST_SECONDS", 1.0)
    topic, proxy = broker.topic(), BrokerProxy(broker.address)
    with contextlib.closing(proxy):
        log = ExampleLog(f"kafka://{proxy.address}/{topic}")
        log.write([("a", b"1")]).result(60)
        broker.delete(topic)
        assert "was deleted" in str(log.write([("b", b"2")]).exception(60))
        log.write([("c", b"3")]).result(60)
        proxy.stop()
        assert isinstance(log.write([("d", b"4")]).exception(60), Unavailable)
        proxy.resume()
        log.write([("e", b"5")]).result(60)
        log.close()
    keys = {record.key for record in records_of(broker, topic)}
    assert {b"c", b"e"} <= keys <= {b"c", b"d", b"e"}


@pytest.mark.kafka
def test_a_signal_ends_requests_that_wait_for_a_silent_broker(
    broker: Broker, tmp_path: Path
) -> None:
    broker.require_real()
    path, proxy = tmp_path / "a.model", BrokerProxy(broker.address)
    model = streaml1.ElasticNetClassifier(lr=0.1)
    model.learn_one({"w1": 1.0}, True)
    model.save(path)
    log = f"kafka://{proxy.address}/{broker.topic()}"
    with contextlib.closing(proxy), server(str(path), "--to", log) as (port, process):
        assert ask(port, {"y": 1, "x": {"w1": 1}}, "/learn") == {"written": 1}
        proxy.stop()
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(ask, port, {"y": 0, "x": {"w1": 1}}, "/learn")
            time.sleep(0.5)
            assert not waiting.done()
            process.send_signal(signal.SIGTERM)
            assert "was not written, as no broker accepted any" in waiting.result()["error"]
        assert process.wait(15) == 128 + signal.SIGTERM
