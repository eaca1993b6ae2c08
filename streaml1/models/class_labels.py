"""The labels of a multiclass model and their positions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streaml1.core.named_options import option_name
from streaml1.core.rows import BadExample, shown
from streaml1.core.types import Floats
from streaml1.features.labels import column_of, equals_itself

__all__ = ["Classes", "as_label", "checked_classes"]

SCALAR_TYPES = (bool, int, float, str)


class Classes:
    """Labels in the order in which they were first seen or declared.

    Equal labels, such as 1, 1.0 and True, are one label, as in a dict.

    Parameters
    ----------
    labels
        The labels so far.
    closed
        Whether to reject new labels.
    """

    def __init__(self, labels: Iterable[Hashable] = (), closed: bool = False) -> None:
        self.labels = list(labels)
        self.positions = {label: k for k, label in enumerate(self.labels)}
        self.closed = closed
        self.n_learnt = 0
        """The first `n_learnt` labels were learnt: their positions are final."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getstate__(self) -> tuple[list[Hashable], bool]:
        return list(self.labels), self.closed  # a copy: another thread may add labels

    def __setstate__(self, state: tuple[list[Hashable], bool]) -> None:
        Classes.__init__(self, *state)

    def position(self, y: Any) -> int:
        """Return the position of a label, appending a new one.

        Raises
        ------
        BadExample
            If the label is missing, unhashable, or new in a closed set.
        """
        try:
            return self.positions[y]
        except (KeyError, TypeError):
            return self._add(as_label(y))

    def column(self, y: object, n: int) -> Floats:
        """Return the positions of `n` labels, shape (n,), float64.

        Raises
        ------
        BadExample
            If a label is invalid. `row` is the first such row.
        """
        labels = column_of("labels", y, n)
        if labels.dtype.kind in "biufU":
            unique, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
            positions = np.empty(len(unique))
            for k in np.argsort(first, kind="stable").tolist():
                positions[k] = self._position_in_row(unique[k].item(), int(first[k]))
            return positions[inverse]
        return np.array(
            [self._position_in_row(label, row) for row, label in enumerate(labels)], np.float64
        )

    def _position_in_row(self, y: Any, row: int) -> int:
        try:
            return self.position(y)
        except BadExample as bad:
            raise BadExample(bad.reason, row) from None

    def _add(self, y: Hashable) -> int:
        if y in self.positions:
            return self.positions[y]
        if self.closed:
            equal = f" (which equals {int(y)})" if isinstance(y, bool) else ""
            raise BadExample(
                f"the label {shown(y)}{equal} is not among the declared classes; declare it, or "
                "set classes to None to add labels as they appear"
            )
        self.positions[y] = len(self.labels)
        self.labels.append(y)
        return self.positions[y]

    def cut(self, k: int) -> None:
        """Keep only the first `k` labels."""
        while len(self.labels) > k:
            del self.positions[self.labels.pop()]

    def array(self, positions: ArrayLike) -> Any:
        """Return the labels at `positions`, None for -1, as an array of their type or objects."""
        positions = np.asarray(positions, np.intp)
        types = set(map(type, self.labels))
        if len(types) == 1 and types <= set(SCALAR_TYPES) and np.all(positions >= 0):
            scalars = np.array(self.labels)
            # numpy drops trailing NULs of strings and turns large ints into floats or objects.
            restored = scalars.tolist()
            if restored == self.labels and type(restored[0]) in types:
                return scalars[positions]
        objects = np.empty(len(self.labels) + 1, object)
        objects[:-1] = self.labels
        return objects[positions]


def as_label(y: Any) -> Hashable:
    """Return a label as it is stored: numpy scalars become Python objects.

    Raises
    ------
    BadExample
        If the label is missing, unhashable, or a numpy date.
    """
    if isinstance(y, np.datetime64 | np.timedelta64):
        raise BadExample(
            f"labels of type {type(y).__name__} are not supported, got {shown(y)}; use a string"
        )
    y = y.item() if isinstance(y, np.generic) else y
    if y is None:
        raise BadExample("the label is missing")
    try:
        hash(y)
    except TypeError:
        raise BadExample(
            f"labels must be strings, numbers or other hashable objects, got {shown(y)} of type "
            f"{type(y).__name__}"
        ) from None
    if not equals_itself(y):
        raise BadExample(f"the label is missing: {shown(y)} does not equal itself")
    label: Hashable = y
    return label


def checked_classes(name: str, value: object) -> list[Hashable] | None:
    """Validate the parameter `classes`: None, or two or more distinct labels.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if value is None:
        return None
    name = option_name(name)
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ValueError(f"{name} must be None or a list of labels, got {shown(value)}")
    try:
        labels = [as_label(label) for label in value]
    except BadExample as bad:
        raise ValueError(f"{name}: {bad.reason}") from None
    if len(set(labels)) != len(labels):
        raise ValueError(f"{name} must not contain duplicates, got {shown(value)}")
    if len(labels) < 2:
        raise ValueError(f"{name} must contain at least two labels, got {shown(value)}")
    return labels
