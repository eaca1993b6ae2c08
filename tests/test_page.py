"""The page of a run: every endpoint of a live run, finished runs, and the page as one file."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from river import linear_model

import streaml1
from streaml1.cli import cli
from streaml1.cli.program import CommandError
from streaml1.cli.run_options import page_places
from streaml1.sources.readers.flat_json import JsonRoles
from streaml1.sources.source import Block
from streaml1.training import Observer, progressive
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.http_server import HttpServer, Request
from streaml1.training.metrics_server import MetricsServer
from streaml1.training.page import FinishedPage, LivePage, page_routes, read_run, single_file
from streaml1.training.page import live as live_module
from streaml1.training.page import weights as weights_module
from streaml1.training.page.assets import ASSETS, read_asset
from streaml1.training.page.finished import RunFileError
from streaml1.training.page.history import (
    MAX_POINTS,
    LossHistory,
    Mark,
    Point,
    columns_of_lines,
    latest_marks,
    nonzeros_of_lines,
)
from streaml1.training.page.rejections import RejectionCounts
from streaml1.training.page.sections import reliability_section
from streaml1.training.page.weights import WeightHistory, copy_weights

EVIL = "</script><b onmouseover=alert(1)>\u2028"


class ScriptedSource:
    """A source of blocks that calls a function of the test after each."""

    name = f"clicks {EVIL}"

    def __init__(self, blocks: list[list[tuple[dict[Any, Any], Any]]]) -> None:
        self._blocks = blocks
        self.callbacks: list[Callable[[], None]] = []

    def blocks(self, size: int, reject: Any) -> Iterator[Block]:
        first = 1
        for k, block in enumerate(self._blocks):
            x, y = map(list, zip(*block, strict=True))
            yield Block(x, y, None, self.name, list(range(first, first + len(block))))
            first += len(block)
            if k < len(self.callbacks):
                self.callbacks[k]()

    def identity(self) -> dict[str, Any]:
        return {"source": self.name}

    def begin(self, at: Any) -> Any:
        return {"line": 0}

    def position(self) -> Any:
        return None

    def lag(self) -> dict[int, int]:
        return {0: 3, 7: 40}


def examples(n: int, seed: int = 0) -> list[tuple[dict[Any, Any], Any]]:
    rng = np.random.default_rng(seed)
    return [
        ({"site": f"s{k}", EVIL: 1.0, "ad": f"a{k % 7}"}, bool(rng.random() < 0.2 + 0.1 * (k % 7)))
        for k in rng.integers(0, 30, n).tolist()
    ]


def request(
    address: str, path: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, Any, bytes]:
    connection = http.client.HTTPConnection(address, timeout=20)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, names)
    response = connection.getresponse()
    with response:
        data = response.read()
    connection.close()
    return response.status, response.headers, data


def explain(address: str, x: Any) -> tuple[int, dict[str, Any]]:
    body = x if isinstance(x, bytes) else json.dumps(x).encode()
    code, _, data = request(address, "/explain", "POST", body, Content_Type="application/json")
    return code, json.loads(data)


def state(address: str) -> dict[str, Any]:
    code, headers, data = request(address, "/state")
    assert (code, headers["Content-Type"]) == (200, "application/json")
    found: dict[str, Any] = json.loads(data)
    return found


class Events:
    """The events of a page, as a browser receives them."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=20)
        self._connection.request("GET", "/events")
        self._response = self._connection.getresponse()
        assert self._response.headers["Content-Type"] == "text/event-stream"

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        name = ""
        for line in self._response:
            if line.startswith(b"event: "):
                name = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                yield name, json.loads(line[6:])

    def close(self) -> None:
        self._response.close()
        self._connection.close()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute sections for each request, without the usual pauses."""
    monkeypatch.setattr(live_module, "REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(live_module, "RELIABILITY_SECONDS", 0.0)


@pytest.fixture
def served() -> Iterator[tuple[MetricsServer, LivePage]]:
    with MetricsServer() as server, LivePage(server) as page:
        server.routes.update(page_routes(page, "127.0.0.1"))
        yield server, page


Served = tuple[MetricsServer, LivePage]


def run(source: Any, served: Served, **options: Any) -> Any:
    model = options.pop("model", None) or streaml1.ElasticNetClassifier(l1=1e-3, lr=0.3)
    return model, progressive(model, source, observers=list(served), **options)


def in_background(job: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(job()))
    thread.start()
    return thread, results


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Files


def test_files_are_served_with_a_strict_policy(served: Served) -> None:
    for path, (_, kind) in ASSETS.items():
        code, headers, data = request(served[0].address, path)
        assert (code, headers["Content-Type"], data) == (200, kind, read_asset(path))
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy
        assert "unsafe" not in policy and "http" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_has_no_inline_code_and_no_other_host() -> None:
    class Checker(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            for name, value in attributes:
                assert not name.startswith("on") and name != "style"
                if name in ("src", "href"):
                    assert f"/{value}" in ASSETS
            assert tag not in ("iframe", "style", "base")

    Checker().feed(read_asset("/").decode())
    for path in ("/page.js", "/charts.js"):
        code = read_asset(path).decode().replace("http://www.w3.org/2000/svg", "")
        forbidden = (
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|Function\(|https?:"
        )
        assert not re.search(forbidden, code)
    uplot = read_asset("/uPlot.iife.min.js")
    assert (
        b"innerHTML" not in uplot
        and (Path(live_module.__file__).parent / "static/uplot/LICENSE").exists()
    )


# A live run


def test_state_of_a_run(tmp_path: Path, served: Served, eager: None) -> None:
    blocks = [examples(1000, 1), [*examples(600, 2), ({"a": 1.0}, 7)], examples(900, 3)]
    source = ScriptedSource(blocks)
    address = served[0].address
    seen: list[dict[str, Any]] = []
    source.callbacks = [lambda: seen.append(state(address))] * 3

    class Publishing(Observer):
        published = 2.0

        def on_end(self) -> None:
            self.published += 1.0

        def metrics(self) -> dict[str, float]:
            return {"publications_total": self.published, "waiting": 11.0}

    model = streaml1.ElasticNetClassifier(l1=1e-3, lr=0.3)
    with Checkpoints(tmp_path / "kept", seconds=0) as store:
        report = progressive(
            model, source, observers=[*served, Publishing()], bad="skip", checkpoint=store
        )
    final = state(address)
    assert seen[1]["nonzeros"]["x"] == [1000, 1600]  # the last line, and now
    assert seen[1]["nonzeros"]["added"][1] is None and seen[1]["nonzeros"]["nonzero"][1] > 0
    for at, n in zip(seen, (1000, 1600, 2500), strict=True):
        assert at["tiles"]["examples"] == n and at["tiles"]["lag"] == 43
        assert at["tiles"]["health"] == "healthy"
    assert final["run"]["title"] == report.title and EVIL in report.title
    last = report.lines[-1]
    assert final["tiles"] | {"per_second": 0} == {
        "examples": 2500, "per_second": 0, "recent_loss": last.recent_loss,
        "better": pytest.approx(1 - last.loss / last.constant_loss), "nonzero": model.n_nonzero,
        "calibration": pytest.approx(last.recent_calibration), "lag": 43, "checkpoint_age": None,
        "status": "ended", "health": "the run has ended",
    }  # fmt: skip
    assert final["loss"]["columns"]["x"][-1] == 2500
    assert final["loss"]["columns"]["loss"][-1] == pytest.approx(last.loss)
    assert final["loss"]["columns"]["baseline"][-1] == pytest.approx(last.constant_loss)
    kinds = [mark["kind"] for mark in final["loss"]["marks"]]
    assert kinds.count("checkpoint") >= 3 and kinds.count("publication") == 3
    assert final["nonzeros"] == {
        "x": [line.examples for line in report.lines],
        "nonzero": [line.n_nonzero for line in report.lines],
        "added": [line.born for line in report.lines],
        "dropped": [line.died for line in report.lines],
    }
    assert [b["examples"] for b in final["reliability"]["bins"]] == [
        b.examples for b in report.reliability()
    ]
    assert sum(final["reliability"]["counts"]) == 2500
    stream = final["stream"]
    assert stream["lag"] == [[0, 3], [7, 40]] and stream["waiting"] == 11
    assert stream["figures"] == [["drifts_total", 0.0], ["publications_total", 3.0]]
    assert stream["rejected"]["total"] == 1 and len(stream["rejected"]["last"]) == 1
    assert stream["rejected"]["last"][0]["place"].endswith(":1601")


def test_nothing_is_copied_while_nobody_looks(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[Any] = []
    monkeypatch.setattr(live_module, "copy_weights", copies.append)
    monkeypatch.setattr(served[1], "_refresh", copies.append)
    run(ScriptedSource([examples(50, k) for k in range(4)]), served)
    assert not copies


def test_events_follow_a_run_to_its_end(served: Served, eager: None) -> None:
    """A page gets all sections, then those that change, and the final state."""
    blocks = [examples(200, k) for k in range(5)]
    source = ScriptedSource(blocks)
    events: list[tuple[str, Any]] = []
    address = served[0].address
    stream = Events(address)
    thread, _ = in_background(lambda: events.extend(stream))
    until(lambda: served[1]._n_watching)
    source.callbacks = [lambda: until(lambda: "run" in dict(events))]
    model, report = run(source, served)
    assert thread.is_alive()
    served[1].close()
    thread.join(20.0)
    stream.close()
    assert events[-1] == ("end", {})
    assert served[1]._n_watching == 0
    last = dict(events)
    assert last["tiles"]["examples"] == report.examples and last["tiles"]["status"] == "ended"
    assert last["tiles"]["recent_loss"] == report.lines[-1].recent_loss
    assert last["nonzeros"]["x"][-1] == report.lines[-1].examples
    assert last["weights"]["n"] == model.n_nonzero
    top = [(row["name"], row["weight"]) for row in last["weights"]["top"]]
    assert dict(top) == {
        repr(name) if name == EVIL else name: w for name, w in model.top_weights(50)
    }
    assert len(last["weights"]["top"][0]["values"]) >= 1
    counts: dict[str, int] = {}
    for name, _ in events:
        counts[name] = counts.get(name, 0) + 1
    assert counts["run"] == 2  # it is sent again as it changes from live to ended
    assert counts["tiles"] >= 2


def test_search_and_explanation_of_a_run(served: Served) -> None:
    """The thread that learns answers at the end of a block."""
    source = ScriptedSource([examples(300, k) for k in range(3)])
    address = served[0].address
    answers: list[Any] = []
    model = streaml1.ElasticNetClassifier(l1=1e-3, lr=0.3)
    x = {"site": "s3", "ad": "a2", "unknown": 2}

    def ask() -> None:
        def job() -> Any:
            return (
                request(address, "/weights?prefix=ad%3D"),
                explain(address, x),
                explain(address, {"x": x, "y": 1}),
            )

        thread, results = in_background(job)
        until(lambda: not served[1]._jobs.empty())
        weights = model.weights
        served[1].on_block_end()
        for _ in range(2):
            until(lambda: not served[1]._jobs.empty())
            served[1].on_block_end()
        thread.join(20.0)
        answers.append((weights, model.explain_one(x), model.predict_proba_one(x), *results[0]))

    source.callbacks = [ask]
    run(source, served, model=model)
    [(weights, explanation, p, found, (code, explained), wrapped)] = answers
    rows = json.loads(found[2])["weights"]
    expected = {name: w for name, w in weights.items() if name.startswith("ad=")}
    assert {row["name"]: row["weight"] for row in rows} == expected
    sizes = [abs(row["weight"]) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert code == 200 and wrapped == (200, explained)
    assert explained["p"] == p[True] and explained["margin"] == explanation.margin
    assert [f["name"] for f in explained["features"]] == [r.name for r in explanation.features]
    assert [f["known"] for f in explained["features"]] == [True, True, False]
    # After the end of the run nobody else changes the model.
    assert explain(address, x)[1]["margin"] == model.explain_one(x).margin


def test_answers_do_not_wait_for_the_source(
    served: Served, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "BLOCK_SECONDS", 0.1)
    source = ScriptedSource([examples(100, 1), examples(100, 2)])
    answers: list[Any] = []
    address = served[0].address
    model = streaml1.ElasticNetClassifier(lr=0.3)
    code, body = explain(address, {"site": "s1"})
    assert code == 503 and "not started" in body["error"]

    def wait_for_examples() -> None:
        x = {"site": "s1"}
        answers.append((explain(address, x)[1], model.explain_one(x).margin))
        time.sleep(0.1)
        answers.append((state(address)["weights"]["n"], model.n_nonzero))

    monkeypatch.setattr(LivePage, "_delay_copy", lambda page, begin: None)
    source.callbacks = [wait_for_examples]
    run(source, served, model=model)
    [(explained, margin), (n, n_nonzero)] = answers
    assert explained["margin"] == margin and n == n_nonzero > 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"spam", "the example is not valid JSON"),
        (b"[1]", "an example is an object of features, not an array"),
        (b'{"a.b": 1, "a": {"b": 1}}', "occurs twice, once as a path"),
        (b"\xff", "the example is not valid JSON"),
        (b'{"a": 1e300}', "1e"),
    ],
)
def test_invalid_examples(served: Served, body: bytes, reason: str) -> None:
    run(ScriptedSource([examples(10, 1)]), served)
    code, answer = explain(served[0].address, body)
    assert code == 400 and reason in answer["error"]


def test_other_web_sites_cannot_read_the_page(served: Served) -> None:
    """Neither with a name that they give to 127.0.0.1, nor with a form."""
    address = served[0].address
    for host in ("evil.example", "evil.example:8490", "", "localhost.evil.example:80"):
        assert request(address, "/state", Host=host)[0] == 403
    for host in ("localhost:8490", "127.0.0.1:9", "[::1]:8490", "[::1]", "LOCALHOST"):
        assert request(address, "/state", Host=host)[0] == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        assert request(address, "/explain", "POST", b"{}", Content_Type=kind)[0] == 415
    assert request(address, "/metrics", Host="node7.example")[0] == 200
    asked = Request("GET", "/", {}, {"host": "node7.example"}, b"")
    # Trusted networks have names.
    for listening, status in (("0.0.0.0", 200), ("10.0.0.1", 200), ("node7.example", 200),
                              ("127.0.0.2", 403), ("::1", 403), ("localhost", 403)):  # fmt: skip
        assert page_routes(served[1], listening)["/"](asked).status == status


def test_unknown_query_options_are_rejected_as_by_serve(served: Served) -> None:
    address = served[0].address
    for query in ("prefx=ad", "prefx"):
        code, _, data = request(address, f"/weights?{query}")
        reason = "/weights has no query option 'prefx'; use prefix"
        assert (code, json.loads(data)) == (400, {"error": reason})
    assert request(address, "/?utm_source=mail")[0] == 200


def test_examples_have_the_roles_of_the_run(served: Served) -> None:
    """As if they were lines of its file."""
    server, page = served
    roles = JsonRoles(categorical=frozenset({"zip"}), numeric=frozenset({"price"}))
    server.routes.update(page_routes(page, "127.0.0.1", roles))
    model, _ = run(ScriptedSource([[({"zip=94110": 1.0, "price": 2.5}, True)] * 50]), served)
    code, answer = explain(server.address, b'{"zip": 94110, "price": "$2.50"}')
    expected = model.predict_proba_one({"zip=94110": 1.0, "price": 2.5})[True]
    assert (code, answer["p"]) == (200, expected)
    assert {row["name"] for row in answer["features"]} == {"zip=94110", "price"}
    assert explain(server.address, b'{"price": "cheap"}')[0] == 400
    assert explain(server.address, b"[")[0] == 400


def test_regression_and_other_models(served: Served, eager: None) -> None:
    source = ScriptedSource([[({"a": float(k % 3)}, float(k % 3)) for k in range(50)]])
    model, _ = run(source, served, model=streaml1.ElasticNetRegressor())
    found = state(served[0].address)
    assert "reliability" not in found and found["tiles"]["calibration"] is None
    assert explain(served[0].address, {"a": 2})[1]["value"] == model.predict_one({"a": 2})


def test_prefixes_are_utf_8_whether_they_are_encoded_or_not(served: Served) -> None:
    """curl sends the characters of a query as they are, which http.client refuses."""
    source = ScriptedSource([[({"caf\u00e9": 1.0, "cafe": 2.0}, k % 2) for k in range(50)]])
    run(source, served)
    address = served[0].address
    for prefix in (b"caf%C3%A9", b"caf\xc3\xa9"):
        with socket.create_connection(address.rsplit(":", 1)) as client:
            client.sendall(b"GET /weights?prefix=%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % prefix)
            answer = client.makefile("rb").read().partition(b"\r\n\r\n")[2]
        assert [row["name"] for row in json.loads(answer)["weights"]] == ["caf\u00e9"]


def test_models_without_explanations(served: Served, eager: None) -> None:
    data = [({"a": 1.0}, 1.0)] * 20
    run(ScriptedSource([data]), served, model=linear_model.LinearRegression())
    found = state(served[0].address)
    assert found["weights"]["top"] == [] and found["tiles"]["examples"] == 20
    code, answer = explain(served[0].address, {"a": 1})
    assert code == 400 and "no explanations" in answer["error"]


def test_several_labels(served: Served) -> None:
    source = ScriptedSource([[({"a": 1.0, f"f{k % 3}": 1.0}, f"c{k % 3}") for k in range(90)]])
    model, _ = run(source, served, model=streaml1.SoftmaxClassifier())
    rows = json.loads(request(served[0].address, "/weights?prefix=f1")[2])["weights"]
    expected = {("f1", label): w for label, w in model.weights["f1"].items()}
    assert {(row["name"], row["label"]): row["weight"] for row in rows} == expected
    _, answer = explain(served[0].address, {"f2": 1, "a": 1})
    assert answer["label"] == "c2"
    assert answer["p"] == pytest.approx(max(model.predict_proba_one({"f2": 1, "a": 1}).values()))


# Weights


def trained(n: int = 300) -> streaml1.ElasticNetClassifier:
    model = streaml1.ElasticNetClassifier(lr=0.3)
    xs, ys = map(list, zip(*examples(n), strict=True))
    model.learn_many(xs, ys)
    return model


def test_movers_are_those_that_changed_most(monkeypatch: pytest.MonkeyPatch) -> None:
    model, history = trained(), WeightHistory()
    history.add(copy_weights(model))
    before = model.weights
    assert history.shown["movers"] == [] and history.shown["seconds"] is None
    xs, ys = map(list, zip(*examples(20, 5), strict=True))
    model.learn_many(xs, ys)
    history.add(copy_weights(model))
    after = model.weights
    changes = {name: w - before.get(name, 0.0) for name, w in after.items()}
    expected = sorted(changes, key=lambda name: -abs(changes[name]))[: weights_module.N_MOVERS]
    shown = {row["name"]: row for row in history.shown["movers"]}
    assert list(shown) == [repr(name) if name == EVIL else name for name in expected]
    for name in expected:
        row = shown[repr(name) if name == EVIL else name]
        assert row["before"] == before.get(name, 0.0)
        assert row["change"] == pytest.approx(changes[name], rel=1e-9)
    values = history.shown["top"][0]["values"]
    assert len(values) == 2 and values[1] == history.shown["top"][0]["weight"]
    # A new vocabulary may have other slots: the comparison starts anew.
    monkeypatch.setattr(model._state, "vocabulary", trained()._state.vocabulary)
    history.add(copy_weights(model))
    assert history.shown["movers"] == []


def test_weights_that_vanish_and_appear_are_movers() -> None:
    model, history = trained(), WeightHistory()
    first = copy_weights(model)
    history.add(first._replace(slots=first.slots[1:], weights=first.weights[1:]))
    history.add(first._replace(slots=first.slots[:-1], weights=first.weights[:-1]))
    rows = {row["name"]: (row["before"], row["change"]) for row in history.shown["movers"]}
    [appeared], [vanished] = first.rows([0]), first.rows([-1])
    assert rows == {
        appeared["name"]: (0.0, appeared["weight"]),
        vanished["name"]: (vanished["weight"], -vanished["weight"]),
    }


def test_search_stops_at_enough_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_module, "CHUNK", 5)
    copy = copy_weights(trained())
    everything = copy.search("", 1000)
    assert len(everything) == len(copy.weights)
    assert copy.search("", 7) == everything[:7]
    assert copy.search("no such", 7) == []
    assert copy_weights(streaml1.ElasticNetClassifier()).search("", 7) == []


# Curves


def test_a_long_run_has_few_points() -> None:
    history, now = LossHistory(), 0.0
    for k in range(1, 20_000):
        now += 0.26
        if history.is_due(now, k * 10**6):
            history.add(now, Point(k * 10**6, 1, float(k), 2.0 * k, 3.0 * k))
    columns = history.columns(Point(20_000 * 10**6, 1, 20_000.0, 40_000.0, 60_000.0))
    assert MAX_POINTS / 4 < len(columns["x"]) <= MAX_POINTS + 1
    assert columns["x"] == sorted(set(columns["x"])) and columns["x"][-1] == 20_000 * 10**6
    assert set(columns["recent"][1:]) == {2.0} and set(columns["baseline"]) == {3.0}


def test_points_need_examples_and_time() -> None:
    history = LossHistory()
    assert not history.is_due(0.0, 99) and history.is_due(0.0, 100)
    history.add(0.0, Point(100, 1, 1.0, 1.0, 1.0))
    assert not history.is_due(0.1, 10**6) and history.is_due(0.3, 10**6)
    assert not history.is_due(9.0, 199)


def test_a_further_pass_starts_new_sums() -> None:
    history = LossHistory()
    for k, (number, weight) in enumerate([(1, 10.0), (1, 20.0), (2, 5.0), (2, 10.0)], start=1):
        history.add(float(k), Point(k, number, weight, weight * number, weight))
    columns = history.columns(Point(5, 2, 20.0, 60.0, 20.0))
    assert columns["recent"] == [1.0, 1.0, 2.0, 2.0, 4.0]
    assert columns["loss"] == [1.0, 1.0, 2.0, 2.0, 3.0]


def test_lines_of_a_resumed_run_replace_those_it_learns_again() -> None:
    lines = [{"examples": n, "loss": float(n)} for n in (10, 20, 30, 20, 40)]
    columns = columns_of_lines(lines)
    assert columns["x"] == [10, 20, 40] and columns["loss"] == [10.0, 20.0, 40.0]
    assert columns["recent"] == [None] * 3


@pytest.mark.parametrize("n", [MAX_POINTS - 1, MAX_POINTS + 1, 2 * MAX_POINTS, 1901])
def test_thinned_lines_add_their_changes_up(n: int) -> None:
    lines = [{"examples": k, "born": k, "died": 1, "n_nonzero": k} for k in range(1, n + 1)]
    columns = nonzeros_of_lines(lines)
    assert len(columns["x"]) <= MAX_POINTS and columns["x"][-1] == columns["nonzero"][-1] == n
    assert sum(columns["added"]) == n * (n + 1) // 2 and sum(columns["dropped"]) == n
    assert {len(column) for column in columns.values()} == {len(columns["x"])}


def test_marks_are_bounded() -> None:
    marks = [Mark("checkpoint", k) for k in range(1000)] + [Mark("restart", 5)]
    kept = latest_marks(marks)
    assert Mark("restart", 5) in kept and Mark("checkpoint", 999) in kept and len(kept) == 201


def test_rejections_by_reason() -> None:
    counts = RejectionCounts()
    for k in range(30):
        counts.add(f"a.csv:{k}", f"invalid label {k}: it must be 0 or 1, got '{k}'")
        counts.add("a.csv:1", "x" * k + ": spam")
    section = counts.section()
    assert section["total"] == 60 and sum(n for _, n in section["reasons"]) == 60
    assert section["reasons"][0] == ("invalid label 0: it must be 0 or 1, got '0'", 30)
    assert len(section["reasons"]) <= 21 and section["last"][0]["reason"] == "x" * 29 + ": spam"


def test_reliability_without_finite_predictions() -> None:
    section = reliability_section(np.array([np.nan]), np.array([True]))
    assert section == {"bins": [], "edges": [], "counts": []}


# One file


def embedded(page: str) -> dict[str, Any]:
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    found: dict[str, Any] = json.loads(data[1])
    return found


def test_one_file_holds_everything() -> None:
    data = {"run": {"title": EVIL}}
    page = single_file(json.dumps(data).encode()).decode()
    assert embedded(page) == data
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)[1]  # type: ignore[index]
    assert "'self'" not in policy and "unsafe" not in policy
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", page, re.DOTALL)
    }
    assert len(hashes) == 5 and hashes == set(re.findall(r"'sha256-[^']*'", policy))
    assert not re.search(r'(src|href)="', page)


def test_learn_writes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = (f"{k % 2} {k % 5}:1 {k % 7 + 10}:1" for k in range(3000))
    Path("a.svm").write_text("\n".join(rows) + "\n")
    command = ["learn", "a.svm", "--page", "run.html", "--report", "run.jsonl", "--save", "m"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    assert result.output.endswith("page: run.html\n")
    sections = embedded(Path("run.html").read_text())
    lines = [json.loads(line) for line in Path("run.jsonl").read_text().splitlines()]
    assert sections["tiles"]["examples"] == 3000 and sections["tiles"]["status"] == "ended"
    assert sections["nonzeros"]["x"] == [1000, 2000, 3000]
    weights = streaml1.load("m").weights
    assert {row["name"] for row in sections["weights"]["top"]} == {str(name) for name in weights}
    assert max(len(row["values"]) for row in sections["weights"]["top"]) == 4
    # A page of the report shows the same curves.
    result = CliRunner().invoke(cli, ["page", "run.jsonl", "--page", "b.html", "--model", "m"])
    assert result.exit_code == 0 and result.output == "page: b.html\n"
    finished = embedded(Path("b.html").read_text())
    assert finished["nonzeros"] == sections["nonzeros"]
    for name, field in (("loss", "loss"), ("baseline", "constant_loss"), ("recent", "recent_loss")):
        assert finished["loss"]["columns"][name] == [line[field] for line in lines]
    same = ("examples", "recent_loss", "better", "nonzero", "status", "health")
    for name in same:
        assert finished["tiles"][name] == pytest.approx(sections["tiles"][name]), name
    assert {row["name"] for row in finished["weights"]["top"]} == {str(name) for name in weights}


def test_a_failed_run_writes_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.svm").write_text("1 1:1\nspam\n")
    Path("run.html").write_text("precious")
    assert CliRunner().invoke(cli, ["learn", "a.svm", "--page", "run.html"]).exit_code == 65
    assert Path("run.html").read_text() == "precious"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--page", "spam"],
            "a port (8490), HOST:PORT or a file NAME.html, got spam",
        ),
        (["--page", "1", "--page", "2"], "--page takes one port and one .html file"),
        (["--page", "8490", "--metrics", "8491"], "share one server"),
        (["--page", "no/run.html"], "no such directory"),
        (["--page", "r.html", "--report", "r.html"], "choose another name"),
    ],
)
def test_invalid_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.svm").write_text("1 1:1\n")
    result = CliRunner().invoke(cli, ["learn", "a.svm", *options])
    assert result.exit_code == 2 and message in result.output


def test_places_of_a_page() -> None:
    assert page_places([]) == (None, None)
    assert page_places(["default", "a.html"]) == (("127.0.0.1", 8490), Path("a.html"))
    assert page_places(["[::]:1"]) == (("::", 1), None)
    with pytest.raises(CommandError):
        page_places(["a.html", "b.html"])


# A finished run


def test_page_of_a_log(tmp_path: Path) -> None:
    events = [
        {"event": "metrics", "address": "x"},
        {"event": "run_begins", "message": "the run resumes: t: M", "examples": 5, "resumed": True},
        {"event": "example_refused", "place": "t/0@7", "reason": "invalid label 7"},
        {"event": "checkpoint_saved", "examples": 9},
        {
            "event": "line",
            "examples": 10,
            "loss": 0.5,
            "constant_loss": 0.7,
            "seconds": 2.0,
            "drifts": [{"since": 7, "examples": 8}],
        },
        {"event": "run_ends"},
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n\n".join(map(json.dumps, events)))
    page = FinishedPage(read_run(path))
    found = {name: json.loads(data) for name, data in page.sections().items()}
    assert found["run"]["title"] == "t: M" and not found["run"]["explains"]
    assert found["loss"]["marks"] == [
        {"kind": "checkpoint", "examples": 9}, {"kind": "drift", "examples": 7},
        {"kind": "restart", "examples": 5},
    ]  # fmt: skip
    assert found["stream"]["rejected"]["reasons"] == [["invalid label 7", 1]]
    assert found["tiles"]["per_second"] == 5.0 and found["tiles"]["better"] == pytest.approx(2 / 7)
    with pytest.raises(ValueError, match="--model"):
        page.explain({})
    assert page.search("a", 5) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no line of a report"),
        ("\n{}\n", ":2: not a line of a report"),
        ("[1]", ":1: not a line of a report"),
        ('{"examples": 1}\nspam', ":2: not JSON"),
    ],
)
def test_files_without_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text(text)
    result = CliRunner().invoke(cli, ["page", "a.jsonl", "--page", "b.html"])
    assert result.exit_code == 65 and f"a.jsonl{message}" in result.output.replace(
        "a.jsonl has", "a.jsonlhas"
    )
    assert not Path("b.html").exists()


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2**70),
    st.floats(allow_nan=False),
    st.text(),
    st.just([]),
)
FIELDS = (
    "examples", "loss", "constant_loss", "recent_loss", "n_nonzero", "born", "died", "refused",
    "seconds", "resumed", "message", "place", "reason", "loss_name", "calibration",
)  # fmt: skip
EVENTS = ("line", "run_begins", "checkpoint_saved", "example_refused", "run_ends", 7)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(FIELDS), VALUES)
        | st.fixed_dictionaries({"examples": st.integers(0, 100), "loss": st.floats(0, 9)})
        | st.dictionaries(st.sampled_from(FIELDS), VALUES).flatmap(
            lambda fields: st.sampled_from(EVENTS).map(lambda event: {"event": event, **fields})
        ),
        max_size=6,
    )
)
def test_any_file_is_a_run_or_an_error(tmp_path_factory: Any, records: list[Any]) -> None:
    path = tmp_path_factory.mktemp("run") / "run.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    try:
        run = read_run(path)
    except RunFileError as error:
        assert str(path) in str(error)
        return
    sections = FinishedPage(run).sections()
    columns = json.loads(sections["loss"])["columns"]
    assert columns["x"] == sorted(set(columns["x"]))
    assert single_file(b"{}")


def test_a_finished_run_is_served(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"examples": 10, "loss": 0.5, "constant_loss": 0.7, "seconds": 2.0}\n')
    model = trained()
    page = FinishedPage(read_run(path), model)
    server = HttpServer("127.0.0.1", 0, page_routes(page, "127.0.0.1"), "test-page")
    try:
        assert request(server.address, "/")[0] == 200
        assert [name for name, _ in Events(server.address)][-1] == "end"
        assert state(server.address)["weights"]["n"] == model.n_nonzero
        rows = json.loads(request(server.address, "/weights?prefix=site%3Ds1")[2])["weights"]
        assert {row["name"] for row in rows} == {
            name for name in model.weights if name.startswith("site=s1")
        }
        x = {"site": "s1"}
        assert explain(server.address, x)[1]["margin"] == model.explain_one(x).margin
    finally:
        server.close()


def test_page_command_serves_until_a_signal(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"examples": 10, "loss": 0.5}\n')
    command = [sys.executable, "-m", "streaml1", "page", str(path), "--page", "0", "--log", "json"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        address = json.loads(process.stderr.readline())["address"]
        assert state(address)["tiles"]["examples"] == 10
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143 and process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()
