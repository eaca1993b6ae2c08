"""Counts of requests, latencies and predictions, in Prometheus's text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from streaml1.core.types import Floats
from streaml1.serving.served_model import ServedModel

__all__ = ["Histogram", "ServiceMetrics"]

LATENCY_BOUNDS = (5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)
PROBABILITY_BOUNDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class Histogram:
    """Numbers of values in ranges.

    Parameters
    ----------
    bounds
        The inclusive upper bounds of the ranges, ascending; the last range has none.
    """

    __slots__ = ("_bounds", "bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._bounds = np.array(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add_all(self, values: Floats) -> None:
        """Count values."""
        ranges = np.searchsorted(self._bounds, values)
        for k, count in enumerate(np.bincount(ranges, minlength=len(self.counts)).tolist()):
            self.counts[k] += count
        self.sum += float(values.sum())

    def cumulative(self) -> list[tuple[str, int]]:
        """Return the upper bounds as text, and how many values are not above them."""
        total, pairs = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            pairs.append((bound, total))
        return pairs


class ServiceMetrics:
    """What a service has done, and the models it serves now."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._latencies: dict[str, Histogram] = defaultdict(lambda: Histogram(LATENCY_BOUNDS))
        self._predictions: dict[str, Histogram] = defaultdict(lambda: Histogram(PROBABILITY_BOUNDS))
        self._uncounted: deque[tuple[str, int, float]] = deque()  # of other threads
        self.examples = 0

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests[path, status] += 1
        self._latencies[path].add(seconds)

    def count_from_thread(self, path: str, status: int, seconds: float) -> None:
        """Count a request that another thread has answered, at the next `exposition`."""
        self._uncounted.append((path, status, seconds))

    def count_prediction(self, model: ServedModel, value: float) -> None:
        """Count a prediction of a model; its `number`."""
        self.examples += 1
        if model.number == "p":
            self._predictions[model.name].add(value)

    def count_predictions(self, model: ServedModel, values: Floats) -> None:
        """Count predictions of a model; its `number` for each example."""
        self.examples += len(values)
        if model.number == "p":
            self._predictions[model.name].add_all(values)

    def exposition(self, models: Mapping[str, ServedModel], accept: str = "") -> tuple[str, bytes]:
        """Return the content type and the text of ``/metrics``.

        Raises
        ------
        ImportError
            If prometheus-client is not installed.
        """
        import prometheus_client
        from prometheus_client.exposition import choose_encoder

        registry = prometheus_client.CollectorRegistry()
        while self._uncounted:
            self.count_request(*self._uncounted.popleft())
        registry.register(_Families([*self._families(models)]))
        prometheus_client.ProcessCollector(registry=registry)
        encode, kind = choose_encoder(accept)
        return kind, encode(registry)

    def _families(self, models: Mapping[str, ServedModel]) -> Iterable[Any]:
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        requests = CounterMetricFamily(
            "streaml1_serving_requests", "Requests.", labels=["path", "status"]
        )
        for (path, status), count in self._requests.items():
            requests.add_metric([path, str(status)], count)
        yield requests
        yield CounterMetricFamily("streaml1_serving_examples", "Predicted examples.", self.examples)
        histograms = (
            ("request_seconds", "Time to answer a request.", "path", self._latencies),
            ("probability", "Predicted probabilities of True.", "model", self._predictions),
        )
        for name, text, label, found in histograms:
            family = HistogramMetricFamily(f"streaml1_serving_{name}", text, labels=[label])
            for key, histogram in found.items():
                family.add_metric([key], buckets=histogram.cumulative(), sum_value=histogram.sum)
            yield family
        info = GaugeMetricFamily(
            "streaml1_serving_model_info",
            "The version that is served.",
            labels=["model", "version"],
        )
        age = GaugeMetricFamily(
            "streaml1_serving_model_age_seconds", "Time since the publication.", labels=["model"]
        )
        weights = GaugeMetricFamily(
            "streaml1_serving_model_weights", "Features with a weight.", labels=["model"]
        )
        for name, model in models.items():
            info.add_metric([name, model.version], 1.0)
            age.add_metric([name], model.age)
            weights.add_metric([name], model.n_weights)
        yield from (info, age, weights)


class _Families:
    """Adapter that prometheus-client collects from."""

    def __init__(self, families: list[Any]) -> None:
        self._families = families

    def collect(self) -> list[Any]:
        return self._families
