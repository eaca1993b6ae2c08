"""The weights that a page shows: the largest, those that changed most, and those with a prefix.

The thread that learns makes a `WeightsCopy`, which takes milliseconds for a million weights. Other
threads rank, compare and name what it holds.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.text_table import printable
from streaml1.core.types import Floats, Ints
from streaml1.models.base import OnlineModel

__all__ = ["WeightHistory", "WeightsCopy", "copy_weights"]

N_TOP = 50
N_MOVERS = 10
N_VALUES = 40
"""Last values of a weight that are drawn."""

MOVER_SECONDS = 60.0
"""Age of the weights that the current ones are compared with."""

CHUNK = 20_000
"""Names that are looked up at once: the model cannot learn meanwhile."""

Row = dict[str, Any]


class WeightsCopy(NamedTuple):
    """The non-zero weights of a model at one point in time.

    Parameters
    ----------
    time
        When it was made, by the monotonic clock.
    slots
        Slot of each weight, ascending.
    outputs
        Index of its label, for models with several labels; else None.
    weights
        The weights.
    vocabulary
        Names of the slots. It never renames one: when slots move, the model gets another
        vocabulary.
    labels
        The labels.
    exclusive
        Context manager that keeps the model from learning, for looking names up.
    """

    time: float
    slots: Ints
    outputs: Ints | None
    weights: Floats
    vocabulary: Any
    labels: tuple[Hashable, ...]
    exclusive: Callable[[], AbstractContextManager[Any]]

    def keys(self) -> Ints:
        """Return integers that identify the weights, as long as slots and labels are the same."""
        if self.outputs is None:
            return self.slots
        return self.slots * len(self.labels) + self.outputs

    def rows(self, indexes: Any) -> list[Row]:
        """Return some weights as JSON objects with name, weight and label."""
        slots, weights = self.slots[indexes], self.weights[indexes].tolist()
        with self.exclusive():
            names = self.vocabulary.names_at(slots)
        rows: list[Row] = [
            {"name": printable(name), "weight": _finite(w)}
            for name, w in zip(names, weights, strict=True)
        ]
        if self.outputs is not None:
            for row, output in zip(rows, self.outputs[indexes].tolist(), strict=True):
                row["label"] = str(self.labels[output])
        return rows

    def largest(self, k: int) -> Ints:
        """Return the indexes of the `k` largest absolute weights, the largest first."""
        return _largest(np.abs(self.weights), k)

    def search(self, prefix: str, k: int) -> list[Row]:
        """Return the `k` largest weights of the names with a prefix."""
        order = np.argsort(-np.abs(self.weights), kind="stable")
        found: list[Row] = []
        for begin in range(0, len(order), CHUNK):
            rows = self.rows(order[begin : begin + CHUNK])
            found += [row for row in rows if row["name"].startswith(prefix)]
            if len(found) >= k:
                break
        return found[:k]


def copy_weights(learner: Any) -> WeightsCopy | None:
    """Copy the weights of a model of streaml1; return None for other models."""
    if not isinstance(learner, OnlineModel):
        return None
    state = learner._state
    several: Any = learner if hasattr(learner, "classes_met") else None
    labels: tuple[Hashable, ...] = ()
    outputs: Ints | None = None
    with state.exclusive():
        if several is not None:
            labels = tuple(several.classes_met)
            slots, by_label = several._weight_rows_by_slot()
            rows, outputs = np.nonzero(by_label)
            slots, weights = slots[rows], by_label[rows, outputs]
        else:
            slots, weights = state.live_weights()
        vocabulary = state.vocabulary
    return WeightsCopy(
        time.monotonic(), slots, outputs, weights, vocabulary, labels, state.exclusive
    )


class WeightHistory:
    """What a page shows of the weights, and what it remembers of earlier ones.

    One thread calls `add`; the result may be read from others.
    """

    def __init__(self) -> None:
        self.latest: WeightsCopy | None = None
        self.shown: Row = {"n": 0, "top": [], "movers": [], "seconds": None}
        self._reference: WeightsCopy | None = None
        self._next_reference: WeightsCopy | None = None
        self._values: dict[tuple[str, str], deque[float | None]] = {}

    def add(self, copy: WeightsCopy) -> None:
        """Rank the weights of a copy, and compare them with earlier ones."""
        top = copy.rows(copy.largest(N_TOP))
        values = {}
        for row in top:
            key = row["name"], row.get("label", "")
            history = values[key] = self._values.get(key) or deque(maxlen=N_VALUES)
            history.append(row["weight"])
            row["values"] = list(history)
        self._values = values
        movers, seconds = self._movers(copy)
        self.shown = {"n": len(copy.weights), "top": top, "movers": movers, "seconds": seconds}
        self.latest = copy

    def _movers(self, copy: WeightsCopy) -> tuple[list[Row], float | None]:
        """Return the weights that changed most, and the seconds since the earlier ones."""
        reference = self._reference
        if reference is None or not _comparable(reference, copy):
            self._reference = self._next_reference = copy
            return [], None
        keys, befores, changes = _differences(copy, reference)
        sizes = np.where(np.isfinite(changes), np.abs(changes), 0.0)
        chosen = _largest(sizes, N_MOVERS)
        chosen = chosen[sizes[chosen] > 0.0]
        n_labels = 1 if copy.outputs is None else len(copy.labels)
        found = copy._replace(
            slots=keys[chosen] // n_labels,
            outputs=None if copy.outputs is None else keys[chosen] % n_labels,
            weights=befores[chosen],
        )
        rows = found.rows(slice(None))
        for row, change_of_row in zip(rows, changes[chosen].tolist(), strict=True):
            row["before"] = row.pop("weight")
            row["change"] = change_of_row
        seconds = copy.time - reference.time
        if copy.time - self._next_reference.time > MOVER_SECONDS:  # type: ignore[union-attr]
            self._reference, self._next_reference = self._next_reference, copy
        return rows, round(seconds, 1)


def _largest(sizes: Floats, k: int) -> Ints:
    """Return the indexes of the `k` largest values, the largest first."""
    if k < len(sizes):
        chosen = np.argpartition(sizes, len(sizes) - k)[len(sizes) - k :]
    else:
        chosen = np.arange(len(sizes))
    return chosen[np.argsort(-sizes[chosen], kind="stable")]


def _differences(now: WeightsCopy, before: WeightsCopy) -> tuple[Ints, Floats, Floats]:
    """Return the keys of the weights of two copies, the earlier weights, and the changes."""
    keys, old_keys = now.keys(), before.keys()
    # Both are ascending.
    pos = np.searchsorted(keys, old_keys)
    is_kept = np.zeros(len(old_keys), bool)
    inside = pos < len(keys)
    is_kept[inside] = keys[pos[inside]] == old_keys[inside]
    earlier = np.zeros(len(keys))
    earlier[pos[is_kept]] = before.weights[is_kept]
    gone = before.weights[~is_kept]
    return (
        np.concatenate([keys, old_keys[~is_kept]]),
        np.concatenate([earlier, gone]),
        np.concatenate([now.weights - earlier, -gone]),
    )


def _comparable(a: WeightsCopy, b: WeightsCopy) -> bool:
    """Return whether the slots and outputs of two copies mean the same."""
    return a.vocabulary is b.vocabulary and a.labels == b.labels


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
