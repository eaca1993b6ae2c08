"""The labels of a model of many: which there are, and the place of each."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from streaml1.core.rows import BadExample, shown
from streaml1.features.labels import column_of, equals_itself

__all__ = ["Classes", "as_label", "declared"]

PLAIN = (bool, int, float, str)


class Classes:
    """Labels in the order in which they came, or were declared.

    Two labels that are equal, such as 1, 1.0 and True, are one, as in a dict.

    Parameters
    ----------
    names
        The labels so far.
    closed
        Whether another label is refused.
    """

    def __init__(self, names: Iterable[Hashable] = (), closed: bool = False) -> None:
        self.names = list(names)
        self.places = {name: k for k, name in enumerate(self.names)}
        self.closed = closed
        self.learnt = 0  # so many of them, the first ones, are sure to stay

    def __len__(self) -> int:
        return len(self.names)

    def __getstate__(self) -> tuple[list[Hashable], bool]:
        return list(self.names), self.closed  # a copy: another thread may have labels join

    def __setstate__(self, state: tuple[list[Hashable], bool]) -> None:
        Classes.__init__(self, *state)

    def place(self, y: Any) -> int:
        """The place of a label; one that is new takes the next."""
        try:
            return self.places[y]
        except (KeyError, TypeError):
            return self._join(as_label(y))

    def column(self, y: Any, n: int) -> Any:
        """The places of `n` labels, as floats."""
        given = column_of("labels", y, n)
        if given.dtype.kind in "biufU":
            found, first, where = np.unique(given, return_index=True, return_inverse=True)
            places = np.empty(len(found))
            for k in np.argsort(first, kind="stable").tolist():
                places[k] = self._placed(found[k].item(), int(first[k]))
            return places[where]
        return np.array([self._placed(one, row) for row, one in enumerate(given)], np.float64)

    def _placed(self, y: Any, row: int) -> int:
        try:
            return self.place(y)
        except BadExample as bad:
            raise BadExample(bad.reason, row) from None

    def _join(self, y: Hashable) -> int:
        if y in self.places:
            return self.places[y]
        if self.closed:
            it = f"it (as {int(y)}, which is the same)" if isinstance(y, bool) else "it"
            raise BadExample(
                f"the label {shown(y)} is not among the declared classes; "
                f"declare {it}, or leave classes out, and labels are found as they come"
            )
        self.places[y] = len(self.names)
        self.names.append(y)
        return self.places[y]

    def cut(self, k: int) -> None:
        """Have only the first `k` labels."""
        while len(self.names) > k:
            del self.places[self.names.pop()]

    def array(self, places: Any) -> Any:
        """The labels at some places; None where that is -1."""
        places = np.asarray(places, np.intp)
        kinds = set(map(type, self.names))
        if len(kinds) == 1 and kinds <= set(PLAIN) and np.all(places >= 0):
            plain = np.array(self.names)
            # Text that ends in NUL would lose it, large ints would be floats.
            told = plain.tolist()
            if told == self.names and type(told[0]) in kinds:
                return plain[places]
        listed = np.empty(len(self.names) + 1, object)
        listed[:-1] = self.names
        return listed[places]


def as_label(y: Any) -> Hashable:
    """A label as it is kept: numpy's scalars as Python's."""
    if isinstance(y, np.datetime64 | np.timedelta64):
        raise BadExample(
            f"{shown(y)} is a {type(y).__name__}, which is no label; give it as a string"
        )
    y = y.item() if isinstance(y, np.generic) else y
    if y is None:
        raise BadExample("the label is missing")
    try:
        hash(y)
    except TypeError:
        raise BadExample(
            f"{shown(y)} is a {type(y).__name__}, which is no label; labels are strings, numbers "
            "or anything else that can be a key of a dict"
        ) from None
    if not equals_itself(y):
        raise BadExample(f"the label is missing: {shown(y)} does not equal itself")
    label: Hashable = y
    return label


def declared(name: str, value: Any) -> list[Hashable] | None:
    """Check the parameter `classes`: None, or two or more labels, none of them twice."""
    if value is None:
        return None
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ValueError(f"{name}={shown(value)} is no list of labels; give one, or None")
    try:
        labels = [as_label(one) for one in value]
    except BadExample as bad:
        raise ValueError(f"{name}: {bad.reason}") from None
    if len(set(labels)) != len(labels):
        raise ValueError(f"{name}={shown(value)} has a label twice; give each once")
    if len(labels) < 2:
        raise ValueError(f"{name}={shown(value)} has fewer than two labels; give all, or None")
    return labels
