"""Items that another thread makes while one is looked at."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

__all__ = ["ahead", "cores"]

T = TypeVar("T")

MOST = 1
"""So many items wait to be asked for, beside the one that is being made."""


def cores() -> int:
    """How many this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def ahead(items: Generator[T, None, None]) -> Iterator[T]:
    """Give the same items in the same order, and end as they do.

    The thread has ended, and `items` is closed, once this is.

    Examples
    --------
    >>> from streaml1.sources.readers.background import ahead
    >>> list(ahead(k * k for k in range(4)))
    [0, 1, 4, 9]

    """
    found: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(MOST)
    ended = threading.Event()
    thread = threading.Thread(
        target=_make, args=(items, found, ended), name="streaml1-ahead", daemon=True
    )
    thread.start()
    try:
        while True:
            item, end = found.get()
            if end is not None:
                break
            yield item  # type: ignore[misc]
            del item  # so that its memory may be taken for the next
    finally:
        ended.set()
        while thread.is_alive():
            _clear(found)
            thread.join(0.05)
    if not isinstance(end, StopIteration):
        raise end


def _make(items: Generator[Any, None, None], found: Any, ended: threading.Event) -> None:
    end: BaseException = StopIteration()
    try:
        for item in items:
            found.put((item, None))
            del item
            if ended.is_set():
                break
    except BaseException as error:
        end = error
    finally:
        items.close()
    found.put((None, end))


def _clear(found: Any) -> None:
    with contextlib.suppress(queue.Empty):
        found.get_nowait()
