"""The data sets that come with river, as sources: ``river:Phishing``."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from streaml1.sources.source import Block, Numbered, Reject, SourceError, blocks_of

__all__ = ["RiverSet"]

TASKS = {
    "Binary classification": "binary",
    "Regression": "regression",
    "Multi-class classification": "multiclass",
}
"""river's names of tasks, and the names here."""


class RiverSet(Numbered):
    """A data set of river with one label per example.

    Parameters
    ----------
    spec
        ``river:`` and the name of the class in `river.datasets`. Data sets that need a download
        must have been downloaded by river before; this class downloads nothing.

    Raises
    ------
    SourceError
        If river has no such data set, or no model can learn it. The error lists those that can be
        used.

    Examples
    --------
    >>> from streaml1.sources.river_datasets import RiverSet
    >>> block = next(RiverSet("river:Phishing").blocks(1, reject=print))
    >>> block.y, block.x[0]["is_popular"]
    ([True], 0.5)
    """

    def __init__(self, spec: str) -> None:
        self.name = spec
        known, name = _data_sets(), spec.removeprefix("river:")
        found = known.get(name)
        if found is None:
            by_lower = {other.lower(): other for other in known}
            close = get_close_matches(name.lower(), by_lower, n=1)
            hint = f" (did you mean river:{by_lower[close[0]]}?)" if close else ""
            raise SourceError(f"{spec} is not one of river's data sets{hint}: {_available()}")
        self._data = found()
        if (why := _unsuitable(self._data)) is not None:
            raise SourceError(f"{spec} {why}: {_available()}")

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Yield blocks of at most `size` examples."""
        return blocks_of(self.numbered(self._data), self.name, size)


@functools.cache
def _data_sets() -> dict[str, Any]:
    # This import takes half a second or more, which other sources should not pay for.
    from river import datasets

    return {
        name: value
        for name, value in vars(datasets).items()
        if isinstance(value, type) and issubclass(value, datasets.base.FileDataset)
    }


def _unsuitable(data: Any) -> str | None:
    """Return why a data set cannot be learnt, as a predicate; None if it can."""
    if data.task not in TASKS:
        return "has several labels per example"
    if not _is_downloaded(data):
        call = f"river.datasets.{type(data).__name__}().download()"
        return f"must be downloaded first, with {call}; these need no download"
    with warnings.catch_warnings():
        # river leaves the file open if it is not read to its end.
        warnings.simplefilter("ignore", ResourceWarning)
        features = next(iter(data))[0]
    for name, value in features.items():
        if not (value is None or isinstance(value, (int, float, str))):
            return f"has the feature {name!r} of type {type(value).__name__}, not number or text"
    return None


def _is_downloaded(data: Any) -> bool:
    try:
        return bool(getattr(data, "is_downloaded", True))
    except OSError:  # river creates the directory that it looks into
        return False


def _available() -> str:
    """List the data sets that need no download, by task."""
    names: dict[str, list[str]] = {task: [] for task in TASKS.values()}
    for name, data_set in _data_sets().items():
        data = data_set() if not hasattr(data_set, "download") else None
        if data is not None and _unsuitable(data) is None:
            names[TASKS[data.task]].append(name)
    return "; ".join(f"{task}: {', '.join(sorted(found))}" for task, found in names.items())
