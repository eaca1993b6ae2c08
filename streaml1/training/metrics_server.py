"""The numbers of a run for Prometheus, and whether it is well, by HTTP."""

from __future__ import annotations

import errno
import json
import math
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from streaml1.core import exit_codes as exits
from streaml1.training.observers import Out, Part, Refused
from streaml1.training.run_metrics import Gauges

if TYPE_CHECKING:
    from streaml1.training.run import Run

__all__ = ["Metrics", "MetricsError", "address_of"]

STALLED_SECONDS = 60.0

HOST = "127.0.0.1"


class MetricsError(ValueError):
    """Metrics that cannot be shown; its text is one sentence."""

    def __init__(self, sentence: str, code: int = exits.USAGE_ERROR) -> None:
        super().__init__(sentence)
        self.exit_code = code


def address_of(text: str) -> tuple[str, int]:
    """Host and port of ``9100``, ``0.0.0.0:9100`` or ``[::]:9100``; the host of a port is this one.

    Raises
    ------
    MetricsError
        One sentence, where it is neither.

    Examples
    --------
    >>> from streaml1.training.metrics_server import address_of
    >>> address_of("9100"), address_of("[::]:9100")
    (('127.0.0.1', 9100), ('::', 9100))

    """
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65536) or (colon and not host):
        raise MetricsError(f"--metrics {text} is no port: write 9100, or 0.0.0.0:9100")
    return host.strip("[]") or HOST, int(port)


class Watched(Out):
    """Hears of one run."""

    def __init__(self, stalled_seconds: float) -> None:
        self.gauges = Gauges(stalled_seconds)

    def begin(self, run: Run) -> None:
        """Count from here on."""
        self.gauges.begin(run)

    def predicted(self, part: Part) -> None:
        """Note where the run is."""
        self.gauges.moved()

    def refused(self, refused: Refused) -> None:
        """Count it."""
        self.gauges.refuse()

    def saved(self) -> None:
        """Note when."""
        self.gauges.saved()


class Metrics(Watched):
    """Serves ``/metrics`` and ``/health`` while it is open, of the run that it hears of.

    Where partitions have runs of their own, `part` gives each who is to hear of it.

    Parameters
    ----------
    host, port
        Where to listen; port 0 is any that is free.
    stalled_seconds
        How long nothing may move, while there are records to be read, before that is not well.

    Raises
    ------
    MetricsError
        Where prometheus-client is not installed, or the port is taken.

    Attributes
    ----------
    address : str
        Where it listens, as in a URL.
    """

    def __init__(
        self, host: str = HOST, port: int = 0, *, stalled_seconds: float = STALLED_SECONDS
    ) -> None:
        try:
            import prometheus_client
        except ImportError:
            raise MetricsError(
                "metrics need prometheus-client: pip install 'streaml1[metrics]'"
            ) from None
        super().__init__(stalled_seconds)
        self._stalled = stalled_seconds
        self._parts: dict[int, Watched] = {}
        registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=registry)
        registry.register(_Collector(self))
        self._server = _listening(host, port, _handler(registry, self.health))
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="streaml1-metrics", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def part(self, partition: int) -> Out:
        """Who is to hear of the run over one partition, where each has a run of its own."""
        self._parts[partition] = one = Watched(self._stalled)
        return one

    def drop(self, partition: int) -> None:
        """Show a partition no longer: it belongs to another process."""
        self._parts.pop(partition, None)

    def numbers_of_all(self) -> dict[str, tuple[str, dict[int | None, float]]]:
        """By name what it means, and the values by partition; None: of the whole run."""
        found: dict[str, tuple[str, dict[int | None, float]]] = {}
        for partition, one in self._watched():
            for name, about, value in one.gauges.numbers():
                values = found.setdefault(name, (about, {}))[1]
                told = value if isinstance(value, dict) else {partition: value}
                for key, number in told.items():
                    values[key] = values.get(key, 0.0) + number
        return found

    def health(self) -> dict[str, Any]:
        """What /health says: red where one run is."""
        parts = [(partition, one.gauges.health()) for partition, one in self._watched()]
        if len(parts) == 1:
            return parts[0][1]
        reasons = [
            f"partition {partition}: {reason}"
            for partition, about in parts
            for reason in about["reasons"]
        ]
        return {
            "status": "red" if reasons else "green",
            "reasons": reasons,
            "examples": sum(about.get("examples", 0) for _, about in parts),
            "partitions": len(parts),
        }

    def _watched(self) -> list[tuple[int | None, Watched]]:
        parts: list[tuple[int | None, Watched]] = sorted(self._parts.items())
        return parts or [(None, self)]


class _Collector:
    """What prometheus-client asks at each look."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for name, (about, values) in self._metrics.numbers_of_all().items():
            labels = [] if set(values) == {None} else ["partition"]
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(f"streaml1_{name}", about, labels=labels)
            for partition, value in values.items():
                family.add_metric([str(partition)] * len(labels), value)
            yield family


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def _listening(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> _Server:
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
                about = health()
                code = 503 if about["status"] == "red" else 200
                self._answer(code, "application/json", json.dumps(_finite(about)).encode())
            else:
                self._answer(404, "text/plain", b"there are /metrics and /health\n")

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody wants a line for each look."""

    return Handler


def _finite(about: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in about.items()
    }
