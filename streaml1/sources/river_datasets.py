"""The data sets that come with river: ``river:Phishing``."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from typing import Any

from streaml1.sources.source import Block, Numbered, Refuse, SourceError, blocks_of

__all__ = ["RiverSet"]

# river's words for its tasks, and ours.
TASKS = {
    "Binary classification": "binary",
    "Regression": "regression",
    "Multi-class classification": "multiclass",
}


class RiverSet(Numbered):
    """A data set of river, one label an example.

    Parameters
    ----------
    spec
        ``river:`` and the name of the class in `river.datasets`. A data set that has to be
        downloaded is read where river has downloaded it before, and never downloaded here.

    Raises
    ------
    SourceError
        For a name that river does not have, and for a data set that cannot be learnt from; with
        the names of those that can.

    Examples
    --------
    >>> from streaml1.sources.river_datasets import RiverSet
    >>> block = next(RiverSet("river:Phishing").blocks(1, refuse=print))
    >>> block.y, block.x[0]["is_popular"]
    ([True], 0.5)

    """

    def __init__(self, spec: str) -> None:
        self.name = spec
        found = _sets().get(spec.removeprefix("river:"))
        if found is None:
            raise SourceError(f"{spec} is not one of river's data sets: {_available()}")
        self._data = found()
        if (why := _unfit(self._data)) is not None:
            raise SourceError(f"{spec} {why}: {_available()}")

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Block]:
        """Read from the start, at most `size` examples at a time."""
        return blocks_of(self.numbered(self._data), self.name, size)


@functools.cache
def _sets() -> dict[str, Any]:
    # Half a second or more, of which a file needs nothing.
    from river import datasets

    return {
        name: one
        for name, one in vars(datasets).items()
        if isinstance(one, type) and issubclass(one, datasets.base.FileDataset)
    }


def _unfit(data: Any) -> str | None:
    """Why a data set cannot be learnt from, or None."""
    if data.task not in TASKS:
        return "has several labels an example"
    if not _is_here(data):
        call = f"river.datasets.{type(data).__name__}().download()"
        return f"has to be downloaded first, with {call}; these need no download"
    with warnings.catch_warnings():
        # river leaves a file open that is not read to its end.
        warnings.simplefilter("ignore", ResourceWarning)
        features = next(iter(data))[0]
    for name, value in features.items():
        if not (value is None or isinstance(value, (int, float, str))):
            return f"has the feature {name!r} of type {type(value).__name__}, not number or text"
    return None


def _is_here(data: Any) -> bool:
    try:
        return bool(getattr(data, "is_downloaded", True))
    except OSError:  # river makes the folder it looks into
        return False


def _available() -> str:
    """List the data sets that need no download, by task."""
    names: dict[str, list[str]] = {task: [] for task in TASKS.values()}
    for name, one in _sets().items():
        data = one() if not hasattr(one, "download") else None
        if data is not None and _unfit(data) is None:
            names[TASKS[data.task]].append(name)
    return "; ".join(f"{task}: {', '.join(sorted(found))}" for task, found in names.items())
