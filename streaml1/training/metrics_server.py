"""The metrics of a run (Prometheus) and its health over HTTP."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from streaml1.core import exit_codes as exits
from streaml1.training.http_server import HttpServer, Limits, Request, Response, cannot_listen
from streaml1.training.observers import Batch, Observer, Rejected, RunStart, SavedCheckpoint
from streaml1.training.run_metrics import RunMetrics

__all__ = [
    "DEFAULT_PORT",
    "Address",
    "MetricFamily",
    "MetricsError",
    "MetricsObserver",
    "MetricsServer",
    "parse_address",
]

STALLED_SECONDS = 60.0

DEFAULT_HOST = "127.0.0.1"

DEFAULT_PORT = 8490
"""Port of `--metrics` and `--page` without a value; 9100 is that of Prometheus's node_exporter."""


class MetricsError(ValueError):
    """Metrics that cannot be served; the message is one sentence."""

    def __init__(self, message: str, code: int = exits.USAGE_ERROR) -> None:
        super().__init__(message)
        self.exit_code = code


class Address(NamedTuple):
    """Host and port to listen at."""

    host: str
    port: int


def parse_address(text: str, option: str = "--metrics") -> Address:
    """Parse ``8490``, ``0.0.0.0:8490`` or ``[::]:8490``; the default host is 127.0.0.1.

    Raises
    ------
    MetricsError
        If it is not an address.

    Examples
    --------
    >>> from streaml1.training.metrics_server import parse_address
    >>> parse_address("8490")
    Address(host='127.0.0.1', port=8490)
    >>> tuple(parse_address("[::]:8490"))
    ('::', 8490)
    """
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65536) or (colon and not host):
        raise MetricsError(f"{option} must be a port (8490) or HOST:PORT, got {text}")
    return Address(host.strip("[]") or DEFAULT_HOST, int(port))


class MetricFamily(NamedTuple):
    """Help text of a metric, and its values by partition; None stands for the whole run."""

    help: str
    values: dict[int | None, float]


class MetricsObserver(Observer):
    """Measures one run."""

    def __init__(self, stalled_seconds: float) -> None:
        self.run_metrics = RunMetrics(stalled_seconds)

    def on_start(self, start: RunStart) -> None:
        """Start measuring."""
        self.run_metrics.begin(start)

    def on_batch(self, batch: Batch) -> None:
        """Record the progress of the run."""
        self.run_metrics.learnt()

    def on_pass_start(self) -> None:
        """Restart the recent metrics: later passes report held-out rows only."""
        self.run_metrics.restart()

    def on_rejected(self, rejected: Rejected) -> None:
        """Count a rejected example."""
        self.run_metrics.rejected()

    def on_checkpoint(self, checkpoint: SavedCheckpoint) -> None:
        """Record the time and size of a checkpoint."""
        self.run_metrics.saved(checkpoint)


class MetricsServer(MetricsObserver):
    """Serves the metrics and the health of the run that it observes, until it is closed.

    - ``/metrics``: the metrics, for Prometheus.
    - ``/livez``: 200 as long as the process answers. A restart would not help otherwise.
    - ``/readyz``: 200 if the run is healthy, else 503 with the reasons.
    - ``/health``: as ``/readyz``, but 200 before the run starts.

    A context manager. If each partition has a run of its own, `add_partition` returns the observer
    of one. Clients cannot end the run: see `streaml1.training.http_server`.

    Parameters
    ----------
    host, port
        Address to listen at; port 0 picks a free one.
    stalled_seconds
        Seconds without an example after which a run with unread records is unhealthy.
    limits
        Limits of connections, time and size.
    requires_library
        Whether prometheus-client must be installed. If not, ``/metrics`` may be missing.

    Raises
    ------
    MetricsError
        If prometheus-client is not installed, or the port is in use.

    Attributes
    ----------
    address : str
        Address as in a URL.
    """

    def __init__(
        self,
        host: str = DEFAULT_HOST,
        port: int = 0,
        *,
        stalled_seconds: float = STALLED_SECONDS,
        limits: Limits = Limits(),  # noqa: B008  (immutable)
        requires_library: bool = True,
    ) -> None:
        super().__init__(stalled_seconds)
        self._stalled_seconds = stalled_seconds
        self._partitions: dict[int, MetricsObserver] = {}
        self._registry = self._new_registry(requires_library)
        routes = {
            "/metrics": self._metrics,
            "/livez": lambda request: Response.text(200, "ok"),
            "/readyz": self._readyz,
            "/health": self._health,
        }
        try:
            self._server = HttpServer(host, port, routes, "streaml1-metrics", limits)
        except OSError as error:
            code = exits.write_failure_code(error)
            raise MetricsError(cannot_listen(host, port, error), code) from None
        self.address = self._server.address
        self.routes = self._server.routes

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    @property
    def is_closed(self) -> bool:
        """Whether the server is closed."""
        return self._server.is_closed

    def add_partition(self, partition: int) -> Observer:
        """Return the observer for the run over one partition."""
        self._partitions[partition] = observer = MetricsObserver(self._stalled_seconds)
        return observer

    def drop_partition(self, partition: int) -> None:
        """Stop serving a partition, which belongs to another process now."""
        self._partitions.pop(partition, None)

    def collect(self) -> dict[str, MetricFamily]:
        """Return the metrics of all runs by name."""
        found: dict[str, MetricFamily] = {}
        for partition, observer in self._observers():
            for name, help, value in observer.run_metrics.collect():
                values = found.setdefault(name, MetricFamily(help, {})).values
                by_partition = value if isinstance(value, dict) else {partition: value}
                for key, number in by_partition.items():
                    values[key] = values.get(key, 0.0) + number
        return found

    def health(self) -> dict[str, Any]:
        """Return what /health shows; it is red if any run is."""
        runs = [(partition, one.run_metrics.health()) for partition, one in self._observers()]
        if len(runs) == 1:
            return runs[0][1]
        reasons = [
            f"partition {partition}: {reason}"
            for partition, health in runs
            for reason in health["reasons"]
        ]
        return {
            "status": "red" if reasons else "green",
            "reasons": reasons,
            "examples": sum(health.get("examples", 0) for _, health in runs),
            "partitions": len(runs),
        }

    def _observers(self) -> list[tuple[int | None, MetricsObserver]]:
        """Return the observers of all runs: of the partitions, or this one."""
        partitions: list[tuple[int | None, MetricsObserver]] = sorted(self._partitions.items())
        return partitions or [(None, self)]

    # Routes

    def _new_registry(self, requires_library: bool) -> Any:
        try:
            import prometheus_client
        except ImportError:
            if not requires_library:
                return None
            raise MetricsError(
                "metrics need prometheus-client; install it with pip install 'streaml1[metrics]'"
            ) from None
        registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=registry)
        registry.register(_Collector(self))
        return registry

    def _metrics(self, request: Request) -> Response:
        if self._registry is None:
            return Response.text(501, "metrics need prometheus-client, which is not installed")
        from prometheus_client.exposition import choose_encoder

        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(200, kind, encode(self._registry))

    def _health(self, request: Request) -> Response:
        health = self.health()
        return _json(503 if health["status"] == "red" else 200, health)

    def _readyz(self, request: Request) -> Response:
        health = self.health()
        is_ready = health["status"] == "green"
        if health["status"] == "starting":
            health["reasons"] = ["the run has not started"]
        return _json(200 if is_ready else 503, {"ready": is_ready, **health})


class _Collector:
    """Adapter that prometheus-client calls for each scrape."""

    def __init__(self, server: MetricsServer) -> None:
        self._server = server

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for name, (help, values) in self._server.collect().items():
            labels = [] if set(values) == {None} else ["partition"]
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(f"streaml1_{name}", help, labels=labels)
            for partition, value in values.items():
                family.add_metric([str(partition)] * len(labels), value)
            yield family


def _json(status: int, fields: dict[str, Any]) -> Response:
    return Response(status, "application/json", json.dumps(_finite(fields)).encode())


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    """Replace numbers that JSON cannot hold by None."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }
