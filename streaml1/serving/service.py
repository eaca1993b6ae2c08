"""Requests to responses, independent of any server."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

import numpy as np
import orjson

from streaml1.core.logging import event
from streaml1.core.rows import BadExample
from streaml1.core.types import Floats
from streaml1.serving.bodies import (
    Body,
    Features,
    RequestError,
    examples_of,
    flatten,
    json_of,
    kind_of,
    located,
)
from streaml1.serving.example_log import ExampleLog
from streaml1.serving.line_kernels import ARRAYS, LineKernels
from streaml1.serving.metrics import ServiceMetrics
from streaml1.serving.model_store import ModelStore
from streaml1.serving.openapi import description
from streaml1.serving.served_model import Answer, ServedModel, json_bytes
from streaml1.sources.kafka.producer import TooLarge
from streaml1.sources.readers.events import read_id
from streaml1.training.http_server import unknown_option

if TYPE_CHECKING:
    from streaml1.sources.readers.flat_json import JsonRoles

__all__ = ["Limits", "Request", "Response", "Service"]

logger = logging.getLogger("streaml1")

JSON, NDJSON = "application/json", "application/x-ndjson"
MAX_DIGITS = 18
"""Digits of a number in a query."""

LOGGING = ("/learn", "/label")
"""Paths that write to a topic."""

COMPRESSIONS = frozenset({"gzip", "x-gzip", "deflate", "compress", "br", "zstd"})
"""Content encodings of bodies that cannot be read; others, such as a character set, are ignored."""

QUERY_OPTIONS: dict[str, tuple[str, ...]] = {
    "/predict": ("model", "explain"),
    "/rank": ("model",),
    "/model": ("model",),
    "/weights": ("model", "top", "prefix"),
    "/learn": (),
    "/label": (),
}
"""Query options by path. Any are ignored elsewhere: probes and scrapers may add their own."""


class Limits(NamedTuple):
    """Limits of requests.

    Parameters
    ----------
    body
        Bytes of a body.
    examples
        Examples of a request.
    weights
        Weights of an answer.
    explained
        Examples of a request that are explained, which takes longer; other requests wait.
    """

    body: int = 2**20
    examples: int = 10_000
    weights: int = 10_000
    explained: int = 1000


class Request(NamedTuple):
    """A request.

    Parameters
    ----------
    method, target
        Method, and path with query.
    headers
        Values by name in lower case.
    body
        The body.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Response(NamedTuple):
    """A response."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[Request, dict[str, str]], "Response | Future[Response]"]


class Service:
    """Answers requests from the current models.

    Parameters
    ----------
    store
        The models.
    limits
        The limits of requests.
    max_age
        Age of a model in seconds from which ``/readyz`` reports it; None: any age is right.
    log
        Where ``/learn`` and ``/label`` write; None if they are not offered.
    roles
        How members of JSON objects are read, see `json_requests.roles_of`.
    """

    def __init__(
        self,
        store: ModelStore,
        limits: Limits = Limits(),  # noqa: B008  (immutable)
        max_age: float | None = None,
        log: ExampleLog | None = None,
        roles: JsonRoles | None = None,
    ) -> None:
        self.store = store
        self.limits = limits
        self.metrics = ServiceMetrics()
        self.is_draining = False
        self._max_age = max_age
        self._log = log
        self._roles = roles
        self._line_kernels = LineKernels(roles)
        self._routes: dict[str, dict[str, Handler]] = {
            "/predict": {"POST": self._predict},
            "/rank": {"POST": self._rank},
            "/model": {"GET": self._model},
            "/weights": {"GET": self._weights},
            "/livez": {"GET": self._livez},
            "/readyz": {"GET": self._readyz},
            "/metrics": {"GET": self._metrics},
            "/openapi.json": {"GET": self._openapi},
        }
        if log is not None:
            self._routes.update({path: {"POST": self._learn} for path in LOGGING})

    def drain(self) -> None:
        """Report that the server is shutting down; from now on `/learn` waits only seconds."""
        self.is_draining = True
        if self._log is not None:
            self._log.stop()

    def handle(self, request: Request) -> Response | Future[Response]:
        """Return the response to a request; a future if it waits for a topic."""
        begin = time.perf_counter()
        path, _, query = request.target.partition("?")
        methods = self._routes.get(path)
        try:
            response = self._answer(request, path, methods, query)
        except RequestError as error:
            response = _problem(error.status, error.reason)
        except BadExample as error:
            response = _problem(400, error.reason)
        except Exception as error:  # a fault of the service must not end it
            fields = event("request_failed", path=path)
            logger.exception("%s failed: %r; please report it", path, error, extra=fields)
            response = _problem(500, f"internal error: {type(error).__name__}")
        if isinstance(response, Future):
            response.add_done_callback(
                lambda done: self.metrics.count_from_thread(
                    path, done.result().status, time.perf_counter() - begin
                )
            )
            return response
        if methods is None:
            path = "other"  # any path may come: metrics must not grow with them
        self.metrics.count_request(path, response.status, time.perf_counter() - begin)
        return response

    def _answer(
        self, request: Request, path: str, methods: dict[str, Handler] | None, query: str
    ) -> Response | Future[Response]:
        if methods is None:
            if path in LOGGING:
                raise RequestError(
                    404, f"{path} is offered only by servers that write examples to a topic"
                )
            known = ", ".join(self._routes)
            raise RequestError(
                404, f"{path[:100]} is not a path of this server; use one of {known}"
            )
        method = "GET" if request.method == "HEAD" else request.method
        if method not in methods:
            (allowed,) = methods
            response = _problem(405, f"{path} takes {allowed} requests, got {method}")
            return response._replace(headers=(("Allow", allowed),))
        if len(request.body) > self.limits.body:
            raise RequestError(413, f"the body exceeds {self.limits.body:,} bytes")
        coding = request.headers.get("content-encoding", "").strip().lower()
        if coding in COMPRESSIONS:
            raise RequestError(415, f"the body is compressed ({coding}); send it uncompressed")
        return methods[method](request, _query_options(path, query) if query else {})

    # Predictions

    def _named(self, options: dict[str, str]) -> ServedModel:
        name = options.get("model")
        if name is None:
            return self.store.default
        try:
            return self.store.models[name]
        except KeyError:
            known = ", ".join(self.store.models)
            raise RequestError(
                404, f"there is no model {name[:100]!r}; use one of {known}"
            ) from None

    def _require_few(self, n: int, explains: bool = False) -> None:
        limit, what = self.limits.examples, "examples"
        if explains:
            limit, what = min(limit, self.limits.explained), "examples to explain"
        if n > limit:
            raise RequestError(413, f"{n:,} {what} exceed the limit of {limit:,}")

    def _predict(self, request: Request, options: dict[str, str]) -> Response:
        model = self._named(options)
        kind = kind_of(request.headers.get("content-type", ""))
        if "explain" not in options and model.number is not None:
            numbers = self._numbers_by_kernels(model, request.body, kind)
            if numbers is not None:
                form = "many" if kind == ARRAYS else "lines"
                return self._response_of_numbers(model, numbers, form)
        body = examples_of(request.body, kind, model.texts, self._roles)
        if "explain" in options or model.number is None:
            self._require_few(len(body.examples), "explain" in options)
            return self._response(model, body, self._answers(model, body, options))
        if body.form == "one":
            return self._response_of_one(model, body.examples[0])
        return self._response_of_numbers(model, self._numbers(model, body.examples), body.form)

    def _numbers_by_kernels(self, model: ServedModel, body: bytes, kind: str) -> Floats | None:
        """Return the `number` of each example of a body; None if Python must parse it."""
        return self._line_kernels.predict(
            body, kind, model.texts, lambda rows: self._numbers(model, rows), model.kernels
        )

    def _numbers(self, model: ServedModel, rows: Sequence[Features]) -> Floats:
        self._require_few(len(rows))
        try:
            return model.predict_many(rows)
        except BadExample as error:
            raise RequestError(400, f"example {error.row}: {error.reason}") from None

    def _response_of_one(self, model: ServedModel, x: Features) -> Response:
        """Return the response to one example that is answered by one number."""
        number = model.number_of(x)
        self.metrics.count_prediction(model, number)
        answer = b"%b%b}" % (model.number_head, orjson.dumps(number))
        return Response(200, answer, JSON, model.headers)

    def _response_of_numbers(self, model: ServedModel, numbers: Floats, form: str) -> Response:
        """Return the response to many examples, each of which is answered by one number."""
        self.metrics.count_predictions(model, numbers)
        text = orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
        if form == "lines":
            start = model.number_head
            lines = b"%b%b}\n" % (start, text.replace(b",", b"}\n" + start))
            return Response(200, lines, NDJSON, model.headers)
        start = b'{"%b":' % str(model.number).encode()
        answers = start + text.replace(b",", b"}," + start)
        whole = b'%b,"predictions":[%b}]}' % (model.answer_head, answers)
        return Response(200, whole, JSON, model.headers)

    def _answers(self, model: ServedModel, body: Body, options: dict[str, str]) -> list[Answer]:
        answers = []
        predict = model.predict
        for row, x in enumerate(body.examples):
            try:
                answers.append(predict(x))
            except BadExample as error:
                reason = error.reason if body.form == "one" else f"example {row}: {error.reason}"
                raise RequestError(400, reason) from None
        if "explain" in options:
            k = _count(options, "explain", self.limits.weights)
            explanations = model.explain_many(body.examples, k)
            for answer, explanation in zip(answers, explanations, strict=True):
                answer["explanation"] = explanation
        if model.number is None:
            self.metrics.examples += len(answers)
        else:
            numbers = np.array([answer[model.number] for answer in answers])
            self.metrics.count_predictions(model, numbers)
        return answers

    def _response(self, model: ServedModel, body: Body, answers: list[Answer]) -> Response:
        headers = model.headers
        head = {"model": model.name, "version": model.version}
        if body.form == "lines":
            lines = b"\n".join(json_bytes({**head, **answer}) for answer in answers)
            return Response(200, lines + b"\n", NDJSON, headers)
        whole = {**head, **answers[0]} if body.form == "one" else {**head, "predictions": answers}
        return Response(200, json_bytes(whole), JSON, headers)

    def _rank(self, request: Request, options: dict[str, str]) -> Response:
        model = self._named(options)
        roles = self._roles
        body = json_of(request.body, roles, or_text=False)
        if not isinstance(body, dict) or not isinstance(body.get("items"), list):
            raise RequestError(400, 'the body must be {"shared": {...}, "items": [{...}, ...]}')
        self._require_few(len(body["items"]))
        with located("shared"):
            shared = flatten({} if body.get("shared") is None else body["shared"], roles)
        scores = []
        for row, item in enumerate(body["items"]):
            try:
                with located(f"item {row}"):
                    scores.append(model.score({**shared, **flatten(item, roles)}))
            except BadExample as error:
                raise RequestError(400, f"item {row}: {error.reason}") from None
            except ValueError as error:
                raise RequestError(400, str(error)) from None
        self.metrics.count_predictions(model, np.array(scores))
        order = sorted(range(len(scores)), key=lambda k: (-scores[k], k))
        answer = {
            "model": model.name,
            "version": model.version,
            "ranking": [{"item": k, "score": scores[k]} for k in order],
        }
        return Response(200, json_bytes(answer), JSON, model.headers)

    # Inspection

    def _model(self, request: Request, options: dict[str, str]) -> Response:
        chosen = [self._named(options)] if "model" in options else [*self.store.models.values()]
        described = [model.describe() for model in chosen]
        for model in described:
            failure = self.store.failures.get(model["name"])
            if failure is not None:
                model["newest"] = failure
        return Response(200, json_bytes({"models": described}))

    def _weights(self, request: Request, options: dict[str, str]) -> Response:
        model = self._named(options)
        k = _count(options, "top", self.limits.weights, 20)
        weights = model.top_weights(k, options.get("prefix", ""))
        head = {"model": model.name, "version": model.version}
        return Response(200, json_bytes({**head, "weights": weights}))

    def _livez(self, request: Request, options: dict[str, str]) -> Response:
        return Response(200, b"ok\n", "text/plain")

    def _readyz(self, request: Request, options: dict[str, str]) -> Response:
        reasons = ["the server is shutting down"] if self.is_draining else []
        for model in self.store.models.values():
            if self._max_age is not None and model.age > self._max_age:
                reasons.append(
                    f"{model.name} was published {model.age:,.0f} s ago, at most "
                    f"{self._max_age:,.0f} s are allowed"
                )
        status = 503 if reasons else 200
        return Response(status, json_bytes({"ready": not reasons, "reasons": reasons}))

    def _metrics(self, request: Request, options: dict[str, str]) -> Response:
        accept = request.headers.get("accept", "")
        try:
            kind, text = self.metrics.exposition(self.store.models, accept)
        except ImportError:
            raise RequestError(
                501, "metrics need prometheus-client, which is not installed"
            ) from None
        return Response(200, text, kind)

    def _openapi(self, request: Request, options: dict[str, str]) -> Response:
        names, most = [*self.store.models], self.limits.weights
        return Response(200, json_bytes(description(names, most, self._log is not None)))

    # Labelled examples

    def _learn(self, request: Request, options: dict[str, str]) -> Future[Response]:
        path, records = request.target.partition("?")[0], []
        for number, line in enumerate(request.body.splitlines(), start=1):
            if not line.strip():
                continue
            with located(f"line {number}"):
                value = json_of(line, or_text=False)
            if not isinstance(value, dict):
                raise RequestError(400, f"line {number} is not a JSON object; write one per line")
            if path == "/label":
                _require_label(number, value)
            key = value.get("id")
            records.append((key if isinstance(key, str) else "" if key is None else str(key), line))
        if not records:
            raise RequestError(400, "the body holds no example")
        self._require_few(len(records))
        assert self._log is not None
        written, answered = self._log.write(records), Future[Response]()

        def answer(done: Future[None]) -> None:
            error = done.exception()
            if error is None:
                answered.set_result(Response(200, json_bytes({"written": len(records)})))
            else:
                status = 413 if isinstance(error, TooLarge) else 503
                answered.set_result(_problem(status, str(error)))

        written.add_done_callback(answer)
        return answered


def _problem(status: int, reason: str) -> Response:
    return Response(status, json_bytes({"error": reason}))


def _require_label(number: int, value: dict[str, Any]) -> None:
    """Reject a late label that every learner would reject."""
    try:
        id = read_id(value.get("id"))
    except ValueError as error:
        raise RequestError(400, f"line {number}: {error}") from None
    if id is None or value.get("y") is None:
        raise RequestError(400, f'line {number} needs an id and a label: {{"id": "a7", "y": true}}')


def _query_options(path: str, query: str) -> dict[str, str]:
    """Return the options of a query; an unknown one is rejected, as a typo would be ignored."""
    # Blank values are kept: `?model=` must not be answered by the default model.
    options = dict(parse_qsl(query, keep_blank_values=True))
    if path in QUERY_OPTIONS:
        problem = unknown_option(path, options, QUERY_OPTIONS[path])
        if problem:
            raise RequestError(400, problem)
    return options


def _count(options: dict[str, str], name: str, limit: int, default: int | None = None) -> int:
    """Return an option that is a number from 0 to a limit."""
    text = options.get(name, "" if default is None else str(default))
    is_number = text.isascii() and text.isdecimal()
    # Python converts no text of more than 4,300 digits.
    if not is_number or len(text) > MAX_DIGITS or int(text) > limit:
        raise RequestError(400, f"{name} must be a number from 0 to {limit:,}, got {text[:100]!r}")
    return int(text)
