"""HTTP server for the metrics of a run (Prometheus) and its health."""

from __future__ import annotations

import errno
import json
import math
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from streaml1.core import exit_codes as exits
from streaml1.training.observers import Batch, Observer, Rejected, RunStart, SavedCheckpoint
from streaml1.training.run_metrics import RunMetrics

__all__ = [
    "Address",
    "MetricFamily",
    "MetricsError",
    "MetricsObserver",
    "MetricsServer",
    "parse_address",
]

STALLED_SECONDS = 60.0

DEFAULT_HOST = "127.0.0.1"


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
    """Parse ``9100``, ``0.0.0.0:9100`` or ``[::]:9100``; the default host is 127.0.0.1.

    Parameters
    ----------
    text
        The address.
    option
        The option, for the error.

    Raises
    ------
    MetricsError
        If it is not an address.

    Examples
    --------
    >>> from streaml1.training.metrics_server import parse_address
    >>> parse_address("9100")
    Address(host='127.0.0.1', port=9100)
    >>> tuple(parse_address("[::]:9100"))
    ('::', 9100)
    """
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65536) or (colon and not host):
        raise MetricsError(f"{option} must be a port (9100) or HOST:PORT, got {text}")
    return Address(host.strip("[]") or DEFAULT_HOST, int(port))


class MetricFamily(NamedTuple):
    """Help text of a metric, and its values by partition; None stands for the whole run."""

    help: str
    values: dict[int | None, float]


class MetricsObserver(Observer):
    """Measures one run.

    Parameters
    ----------
    stalled_seconds
        As for `RunMetrics`.
    """

    def __init__(self, stalled_seconds: float) -> None:
        self.run_metrics = RunMetrics(stalled_seconds)

    def on_start(self, start: RunStart) -> None:
        """Start measuring."""
        self.run_metrics.begin(start)

    def on_batch(self, batch: Batch) -> None:
        """Record the progress of the run."""
        self.run_metrics.learnt()

    def on_pass_start(self) -> None:
        """Start the recent metrics anew: later passes report held-out rows only."""
        self.run_metrics.restart()

    def on_rejected(self, rejected: Rejected) -> None:
        """Count a rejected example."""
        self.run_metrics.rejected()

    def on_checkpoint(self, checkpoint: SavedCheckpoint) -> None:
        """Record the time and size of a checkpoint."""
        self.run_metrics.saved(checkpoint)


class MetricsServer(MetricsObserver):
    """Serves ``/metrics`` and ``/health`` of the run that it observes, until it is closed.

    A context manager. If each partition has a run of its own, `add_partition` returns the observer
    of one.

    Parameters
    ----------
    host, port
        Address to listen at; port 0 picks a free one.
    stalled_seconds
        Seconds without an example after which a run with unread records is unhealthy.

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
        self, host: str = DEFAULT_HOST, port: int = 0, *, stalled_seconds: float = STALLED_SECONDS
    ) -> None:
        try:
            import prometheus_client
        except ImportError:
            raise MetricsError(
                "metrics need prometheus-client; install it with pip install 'streaml1[metrics]'"
            ) from None
        super().__init__(stalled_seconds)
        self._stalled_seconds = stalled_seconds
        self._partitions: dict[int, MetricsObserver] = {}
        registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=registry)
        registry.register(_Collector(self))
        self._server = _listen(host, port, _handler(registry, self.health))
        shown_host = f"[{host}]" if ":" in host else host
        self.address = f"{shown_host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="streaml1-metrics", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

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


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def _listen(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> _Server:
    import socket

    class Server(_Server):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    try:
        return Server((host, port), handler)
    except OSError as error:
        reason = exits.os_reason(error)
        code = exits.TEMPORARY_FAILURE if error.errno == errno.EADDRINUSE else exits.USAGE_ERROR
        raise MetricsError(f"--metrics cannot listen at {host}:{port}: {reason}", code) from None


def _handler(registry: Any, health: Callable[[], Any]) -> type[BaseHTTPRequestHandler]:
    from prometheus_client.exposition import choose_encoder

    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                encode, kind = choose_encoder(self.headers.get("Accept", ""))
                self._answer(200, kind, encode(registry))
            elif path == "/health":
                status = health()
                code = 503 if status["status"] == "red" else 200
                self._answer(code, "application/json", json.dumps(_finite(status)).encode())
            else:
                self._answer(404, "text/plain", b"not found; use /metrics or /health\n")

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: a line for each scrape is noise."""

    return Handler


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    """Replace numbers that JSON cannot hold by None."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }
