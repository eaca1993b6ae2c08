"""HTTP serving of models: predictions, rankings, weights and metrics, with hot reload.

| module | content |
|---|---|
| `model_source` | where a model is published: a file, a checkpoint directory, a topic |
| `served_model` | an immutable model with its version |
| `model_store` | the current models; replaces them as new versions are published |
| `bodies` | examples of a request body |
| `service` | requests to responses, independent of any server |
| `metrics` | counts of requests, latencies and predictions |
| `example_log` | labelled examples to a topic |
| `http_protocol`, `server` | the server of ``streaml1 serve`` |
| `asgi` | the service as an ASGI application, to embed |

No request runs code, reads a file or changes a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaml1.core.lazy_imports import import_attribute

if TYPE_CHECKING:
    from streaml1.serving.asgi import app as app
    from streaml1.serving.model_store import ModelStore as ModelStore
    from streaml1.serving.service import Service as Service

__all__ = ["ModelStore", "Service", "app"]

_HOMES = {
    "ModelStore": "model_store",
    "Service": "service",
    "app": "asgi",
}


def __getattr__(name: str) -> Any:
    return import_attribute(__name__, _HOMES, name)
