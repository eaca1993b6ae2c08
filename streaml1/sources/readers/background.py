"""Run a generator in a background thread, one item ahead of its consumer."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

__all__ = ["cores", "read_ahead"]

T = TypeVar("T")

MAX_WAITING = 1
"""Items that may wait for the consumer, in addition to the one that is being made."""


def cores() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def read_ahead(items: Generator[T, None, None]) -> Iterator[T]:
    """Yield the items of a generator that runs in a background thread.

    Order and exceptions are those of `items`. When this iterator ends or is closed, `items` is
    closed and the thread has ended.

    Examples
    --------
    >>> from streaml1.sources.readers.background import read_ahead
    >>> list(read_ahead(k * k for k in range(4)))
    [0, 1, 4, 9]
    """
    waiting: _Waiting[T] = queue.Queue(MAX_WAITING)
    stopped = threading.Event()
    thread = threading.Thread(
        target=_produce, args=(items, waiting, stopped), name="streaml1-ahead", daemon=True
    )
    thread.start()
    try:
        while True:
            item, end = waiting.get()
            if end is not None:
                break
            yield item  # type: ignore[misc]
            del item  # free its memory before the next item is made
    finally:
        stopped.set()
        # The thread may be blocked by a full queue.
        while thread.is_alive():
            _drop_one(waiting)
            thread.join(0.05)
    if not isinstance(end, StopIteration):
        raise end


_Waiting = queue.Queue[tuple[T | None, BaseException | None]]
"""Items, and last the exception that ended them: StopIteration if it is the regular end."""


def _produce(
    items: Generator[T, None, None], waiting: _Waiting[T], stopped: threading.Event
) -> None:
    end: BaseException = StopIteration()
    try:
        for item in items:
            waiting.put((item, None))
            del item
            if stopped.is_set():
                break
    except BaseException as error:
        end = error
    finally:
        items.close()
    waiting.put((None, end))


def _drop_one(waiting: _Waiting[T]) -> None:
    with contextlib.suppress(queue.Empty):
        waiting.get_nowait()
