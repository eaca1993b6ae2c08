"""The OpenAPI description of the service."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from streaml1.core.version import __version__
from streaml1.serving.bodies import FORMATS

__all__ = ["description"]

JSON, NDJSON, TEXT = "application/json", "application/x-ndjson", "text/plain"
OBJECT = {"type": "object"}
NUMBER = {"type": "number"}
VERSIONED = {"model": {"type": "string"}, "version": {"type": "string"}}
PROBLEMS = {
    400: "The request is invalid.",
    404: "No model has this name.",
    413: "The body, or the number of its examples, exceeds a limit.",
    415: "The content type is unknown.",
    501: "The server lacks a package.",
    503: "The topic cannot be written to.",
}
"""What the errors of an operation mean, by status; `error` in their body says why."""

READING, WRITING = (400, 404), (400, 413)
"""The usual errors of operations that read a model, and of those with a body."""

PREDICTION = {
    "type": "object",
    "properties": {
        **VERSIONED,
        "p": {"description": "Probability of True, or pairs of labels and probabilities."},
        "value": {"type": "number", "description": "What a regressor predicts."},
        "label": {"description": "The most probable label of a multiclass model."},
        "explanation": {"type": "array", "items": OBJECT},
        "predictions": {"type": "array", "items": OBJECT, "description": "Those of an array."},
    },
}
SCORE = {"type": "object", "properties": {"item": {"type": "integer"}, "score": NUMBER}}
RANKING = {
    "type": "object",
    "properties": {**VERSIONED, "ranking": {"type": "array", "items": SCORE}},
}
ITEMS = {
    "type": "object",
    "required": ["items"],
    "properties": {
        "shared": {"type": ["object", "null"]},
        "items": {"type": "array", "items": OBJECT},
    },
}
WRITTEN = {"type": "object", "properties": {"written": {"type": "integer"}}}
PROBLEM = {"type": "object", "properties": {"error": {"type": "string"}}}


def _answer(text: str, *schemas: dict[str, Any], kinds: Iterable[str] = (JSON,)) -> dict[str, Any]:
    content = {kind: {"schema": schema} for kind, schema in zip(kinds, schemas, strict=True)}
    return {"description": text, "content": content}


def _count(name: str, text: str, most: int) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 0, "maximum": most}
    return {"name": name, "in": "query", "description": text, "schema": schema}


def _model(names: Sequence[str]) -> dict[str, Any]:
    text = "Name of the model; the first one by default."
    schema = {"type": "string", "enum": [*names]}
    return {"name": "model", "in": "query", "description": text, "schema": schema}


def _operation(
    summary: str, answer: dict[str, Any], problems: Iterable[int], **more: Any
) -> dict[str, Any]:
    problem = {"$ref": "#/components/schemas/Problem"}
    responses = {str(status): _answer(PROBLEMS[status], problem) for status in sorted({*problems})}
    return {"summary": summary, "responses": {"200": answer, **responses}, **more}


def description(names: Sequence[str], most_weights: int, takes_examples: bool) -> dict[str, Any]:
    """Return the description.

    Parameters
    ----------
    names
        The names of the models.
    most_weights
        The largest number of weights, or of contributions, in an answer.
    takes_examples
        Whether ``/learn`` and ``/label`` are offered.
    """
    model = _model(names)
    paths = {
        **_predicting(model, most_weights),
        **_describing(model, most_weights),
        **_probing(),
        **(_writing() if takes_examples else {}),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "streaml1", "version": __version__},
        "paths": paths,
        "components": {"schemas": {"Problem": PROBLEM}},
    }


def _predicting(model: dict[str, Any], most_weights: int) -> dict[str, Any]:
    """Return the paths that predict."""
    features: dict[str, dict[str, Any]] = {kind: {"schema": {}} for kind in FORMATS}
    features[JSON] = {
        "schema": {"oneOf": [OBJECT, {"type": "array", "items": OBJECT}]},
        "example": {"site": "news", "ad": "shoes", "age": 31},
    }
    predict = _operation(
        "Predict one example or many.",
        _answer("The predictions.", PREDICTION, PREDICTION, kinds=(JSON, NDJSON)),
        {*READING, *WRITING, 415},
        parameters=[model, _count("explain", "Contributions to list.", most_weights)],
        requestBody={"required": True, "content": features},
    )
    rank = _operation(
        "Rank items that share features.",
        _answer("Items by falling score.", RANKING),
        {*READING, *WRITING},
        parameters=[model],
        requestBody={"required": True, "content": {JSON: {"schema": ITEMS}}},
    )
    return {"/predict": {"post": predict}, "/rank": {"post": rank}}


def _describing(model: dict[str, Any], most_weights: int) -> dict[str, Any]:
    """Return the paths that describe models."""
    facts = _operation(
        "Describe the models.", _answer("Facts.", OBJECT), READING, parameters=[model]
    )
    weights = _operation(
        "List the largest weights.",
        _answer("Weights.", OBJECT),
        READING,
        parameters=[
            model,
            _count("top", "Number of weights.", most_weights),
            {"name": "prefix", "in": "query", "schema": {"type": "string"}},
        ],
    )
    return {"/model": {"get": facts}, "/weights": {"get": weights}}


def _probing() -> dict[str, Any]:
    """Return the paths of the probes and of the metrics."""
    lives = _operation(
        "Report whether the process runs.", _answer("It does.", {}, kinds=(TEXT,)), ()
    )
    is_ready = {
        "summary": "Report whether the models are loaded and recent.",
        "responses": {
            "200": _answer("Ready.", OBJECT),
            "503": _answer("Not ready, with reasons.", OBJECT),
        },
    }
    metrics = _operation("Metrics for Prometheus.", _answer("Text.", {}, kinds=(TEXT,)), (501,))
    return {"/livez": {"get": lives}, "/readyz": {"get": is_ready}, "/metrics": {"get": metrics}}


def _writing() -> dict[str, Any]:
    """Return the paths that write examples to the topic."""
    lines = {NDJSON: {"schema": OBJECT}, JSON: {"schema": OBJECT}}

    def write(summary: str) -> dict[str, Any]:
        answer = _answer("All are in the topic.", WRITTEN)
        body = {"required": True, "content": lines}
        return {"post": _operation(summary, answer, {*WRITING, 503}, requestBody=body)}

    return {
        "/learn": write("Write labelled examples to the topic."),
        "/label": write("Write late labels to the topic."),
    }
