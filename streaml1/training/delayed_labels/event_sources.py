"""Sources of events: a named source, or an iterable of dicts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from streaml1.models.class_labels import as_label
from streaml1.sources import Block, Reject, SourceOptions, is_many
from streaml1.sources.readers.events import event_of
from streaml1.sources.source import Example, blocks_of, shown
from streaml1.training.example_sources import BLOCK_ROWS, ExampleSource, open_examples

__all__ = ["Events", "open_events"]


def open_events(source: Any, options: SourceOptions | None = None) -> ExampleSource:
    """Open a source of events.

    Parameters
    ----------
    source
        A name, a source that is open already, or an iterable of dicts as `Events` takes it.
    options
        How to read a source that is given by name.

    Raises
    ------
    SourceError
        If the source cannot be opened.
    TypeError
        If the object is not a source of events.
    """
    if isinstance(source, str | Path) or is_many(source) or hasattr(source, "blocks"):
        return open_examples(source, replace(options or SourceOptions(), events=True))
    if isinstance(source, Iterable) and not isinstance(source, tuple | Mapping):
        return Events(source)
    raise TypeError(
        'source must be a name, or an iterable of dicts with "id" and "x" or "y", got an object of '
        f"type {type(source).__name__}"
    )


class Events:
    """An iterable of dicts ``{"id", "x"}``, ``{"id", "y"}``, or both at once.

    ``"w"`` is the sample weight and ``"time"`` the time in seconds; both are optional.

    Parameters
    ----------
    events
        The dicts. Their contents are copied, since a stream may yield the same dict again.

    Examples
    --------
    >>> from streaml1 import ElasticNetClassifier, progressive
    >>> events = [{"id": 1, "x": {"cheap": 1}}, {"id": 2, "x": {"dear": 1}}, {"id": 1, "y": True}]
    >>> report = progressive(ElasticNetClassifier(), events, label_within=3600)
    >>> report.examples, report.numbers["waiting"]
    (1, 1)
    """

    block = BLOCK_ROWS
    name = "events"

    label: Callable[[Any], Hashable] = staticmethod(as_label)

    def __init__(self, events: Iterable[Any]) -> None:
        self._events = events

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Read from the start, at most `size` events at a time."""
        return blocks_of(self._parse(reject), self.name, size)

    def _parse(self, reject: Reject) -> Iterator[Example]:
        for number, given in enumerate(self._events, start=1):
            try:
                if not isinstance(given, Mapping):
                    raise ValueError(f"{shown(given)} is not an event: it must be a dict")
                event = event_of(given, None, True, lambda given=given: _copy(given["x"]))
            except ValueError as error:
                reject(f"{self.name}:{number}", str(error))
                continue
            yield number, event, None, 1.0


def _copy(x: Any) -> Any:
    return dict(x) if isinstance(x, Mapping) else x
