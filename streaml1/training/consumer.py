"""A training run that one thread executes, and others watch or stop."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from streaml1.core.types import Model
from streaml1.training.config import RunConfig, run_config
from streaml1.training.model_adapter import describe_model
from streaml1.training.observers import GuardedCallback
from streaml1.training.progressive_validation import progressive
from streaml1.training.report import Report

__all__ = ["Consumer"]


class Consumer:
    """A run over a stream, started in one thread and watched or stopped from others.

    Parameters
    ----------
    model, source, config
        As for `progressive`.
    **options
        Options of `progressive`, except `stop`.

    Attributes
    ----------
    report : Report or None
        Report of the run, once it has started.

    Raises
    ------
    TypeError
        If an option does not exist, or `stop` is given.
    ValueError
        If an option is out of range.

    Examples
    --------
    >>> import threading
    >>> from river import datasets
    >>> import streaml1
    >>> model = streaml1.ElasticNetClassifier(l1=1e-3)
    >>> consumer = streaml1.Consumer(model, datasets.Phishing(), every=500)
    >>> thread = threading.Thread(target=consumer.run)
    >>> thread.start()
    >>> thread.join()
    >>> consumer
    Consumer(ElasticNetClassifier(l1=0.001), 'Phishing')
    >>> consumer.report.examples, consumer.model is model
    (1250, True)
    """

    def __init__(
        self, model: Model, source: Any, config: RunConfig | None = None, **options: Any
    ) -> None:
        config = run_config("Consumer", config, options)
        if "stop" in options or config.stop is not None:
            raise TypeError("Consumer() does not take stop; call its method stop() instead")
        self.model = model
        self.source = source
        self.report: Report | None = None
        self._stopped = threading.Event()
        self._on_start = GuardedCallback("on_start", config.on_start)
        self._config = replace(config, stop=self._stopped, on_start=self._begin)

    def __repr__(self) -> str:
        source = self.source if isinstance(self.source, str) else type(self.source).__name__
        return f"Consumer({describe_model(self.model)}, {source!r})"

    def run(self) -> Report:
        """Predict each example, then learn it, to the end of the stream or until `stop`.

        Raises
        ------
        BadExample, SourceError
            As for `progressive`.
        """
        return progressive(self.model, self.source, self._config)

    def stop(self) -> None:
        """End the run after the current block; a run that has not started ends at once."""
        self._stopped.set()

    def _begin(self, report: Report) -> None:
        self.report = report
        self._on_start(report)
