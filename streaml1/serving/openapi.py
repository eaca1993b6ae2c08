"""The OpenAPI description of the service."""

from __future__ import annotations

from typing import Any

from streaml1.core.version import __version__
from streaml1.serving.bodies import FORMATS

__all__ = ["description"]

OBJECT = {"type": "object"}
NUMBER = {"type": "number"}
PROBLEM = {
    "description": "The request is invalid; `error` says why in one sentence.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
MODEL = {
    "name": "model",
    "in": "query",
    "description": "Name of the model; the first one by default.",
    "schema": {"type": "string"},
}


def _answer(text: str, schema: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"description": text, "content": {kind: {"schema": schema}}}


def _number_option(name: str, text: str) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 0}
    return {"name": name, "in": "query", "description": text, "schema": schema}


def _operation(summary: str, answer: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": answer, "400": PROBLEM}, **more}


def description(takes_examples: bool) -> dict[str, Any]:
    """Return the description; `takes_examples` includes ``/learn`` and ``/label``."""
    versioned = {"model": {"type": "string"}, "version": {"type": "string"}}
    prediction = {
        "type": "object",
        "properties": {
            **versioned,
            "p": {"description": "Probability of True, or pairs of labels and probabilities."},
            "value": {"type": "number", "description": "What a regressor predicts."},
            "label": {"description": "The most probable label of a multiclass model."},
        },
    }
    ranking = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"item": {"type": "integer"}, "score": NUMBER},
        },
    }
    features: dict[str, dict[str, Any]] = {kind: {"schema": {}} for kind in FORMATS}
    features["application/json"] = {
        "schema": {"oneOf": [OBJECT, {"type": "array", "items": OBJECT}]},
        "example": {"site": "news", "ad": "shoes", "age": 31},
    }
    items = {
        "type": "object",
        "required": ["items"],
        "properties": {"shared": OBJECT, "items": {"type": "array", "items": OBJECT}},
    }
    paths: dict[str, Any] = {
        "/predict": {
            "post": _operation(
                "Predict one example or many.",
                _answer("The predictions.", prediction),
                parameters=[MODEL, _number_option("explain", "Contributions to list.")],
                requestBody={"required": True, "content": features},
            )
        },
        "/rank": {
            "post": _operation(
                "Rank items that share features.",
                _answer(
                    "Items by falling score.",
                    {"type": "object", "properties": {**versioned, "ranking": ranking}},
                ),
                parameters=[MODEL],
                requestBody={
                    "required": True,
                    "content": {"application/json": {"schema": items}},
                },
            )
        },
        "/model": {"get": _operation("Describe the models.", _answer("Facts.", OBJECT))},
        "/weights": {
            "get": _operation(
                "List the largest weights.",
                _answer("Weights.", OBJECT),
                parameters=[
                    MODEL,
                    _number_option("top", "Number of weights."),
                    {"name": "prefix", "in": "query", "schema": {"type": "string"}},
                ],
            )
        },
        "/livez": {"get": _operation("Tell whether the process runs.", _answer("It does.", {}))},
        "/readyz": {
            "get": {
                "summary": "Tell whether the models are there and recent.",
                "responses": {
                    "200": _answer("Ready.", OBJECT),
                    "503": _answer("Not ready, with reasons.", OBJECT),
                },
            }
        },
        "/metrics": {
            "get": _operation("Metrics for Prometheus.", _answer("Text.", {}, "text/plain"))
        },
    }
    if takes_examples:
        lines = {"application/x-ndjson": {"schema": OBJECT}, "application/json": {"schema": OBJECT}}
        for path, summary in (
            ("/learn", "Write labelled examples to the topic."),
            ("/label", "Write late labels to the topic."),
        ):
            written = {"type": "object", "properties": {"written": {"type": "integer"}}}
            paths[path] = {
                "post": _operation(
                    summary,
                    _answer("All are in the topic.", written),
                    requestBody={"required": True, "content": lines},
                )
            }
    problem = {"type": "object", "properties": {"error": {"type": "string"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "streaml1", "version": __version__},
        "paths": paths,
        "components": {"schemas": {"Problem": problem}},
    }
