"""Labels of a multiclass run: read from a file, matched with the classes of the model, announced.

A file has the class 7; see `streaml1.sources.class_labels`. A model that was trained in Python, or
saved before there was one rule for all formats, may have the class ``"7"`` or ``"7.0"`` instead.
`ClassReader` reads such a label as the class that the model has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Any

from streaml1.core.logging import event
from streaml1.core.rows import shown
from streaml1.sources import class_label
from streaml1.training.observers import Batch, RunStart

__all__ = ["ClassReader", "NewClasses"]

logger = logging.getLogger("streaml1")

EXPECTED_AFTER = 1000
"""Examples after which all classes are expected to be known."""

MAX_ANNOUNCED = 10
"""New classes that a run announces."""


class ClassReader:
    """Reads labels, as those classes of a model that they are equal to.

    Parameters
    ----------
    learner
        Model with the classes.
    read
        Reads a label, as the source defines it. Labels of Python objects are left alone.

    Examples
    --------
    >>> from streaml1 import SoftmaxClassifier
    >>> from streaml1.sources import class_label
    >>> from streaml1.training.class_reader import ClassReader
    >>> model = SoftmaxClassifier(classes=["7", "news"])
    >>> read = ClassReader(model, class_label)
    >>> read("7.0"), read(7.0), read("8")
    ('7', '7', 8)
    """

    def __init__(self, learner: Any, read: Callable[[Any], Hashable]) -> None:
        self._learner, self._read = learner, read
        self._known: list[Hashable] = []
        self._aliases: dict[Hashable, str] = {}
        self.refresh()

    def refresh(self) -> None:
        """Note the classes that the model has now; call it before the labels of each block."""
        if self._read is not class_label or not hasattr(self._learner, "classes_met"):
            return
        known = [*self._learner.classes_met, *(getattr(self._learner, "classes", None) or ())]
        if known != self._known:
            self._known, self._aliases = known, _aliases(known)

    def __call__(self, y: Any) -> Hashable:
        """Return the class of a label; raise ValueError if the label is invalid."""
        label = self._read(y)
        return self._aliases.get(label, label) if self._aliases else label


def _aliases(known: list[Hashable]) -> dict[Hashable, str]:
    """Return the classes that are texts of whole numbers, by these numbers."""
    aliases: dict[Hashable, str] = {}
    numbers = {label for label in known if not isinstance(label, str)}
    for text in known:
        if isinstance(text, str):
            try:
                label = class_label(text)
            except ValueError:  # a label from Python, such as "None"
                continue
            if type(label) is int and label not in numbers:
                aliases.setdefault(label, text)
    return aliases


class NewClasses:
    """Announces classes that join a model after its first thousand examples.

    So late a new class is rare, or it is an error in the data.
    """

    def __init__(self) -> None:
        self._learner: Any = None
        self._n_known = self._n_announced = 0

    def on_start(self, start: RunStart) -> None:
        """Note the classes that the model has."""
        if hasattr(start.learner, "classes_met"):
            self._learner = start.learner
            self._n_known = len(start.learner.classes_met)

    def on_batch(self, batch: Batch) -> None:
        """Announce the classes that the rows of a batch have added."""
        if self._learner is None or batch.y is None:
            return
        classes = self._learner.classes_met
        known, self._n_known = self._n_known, len(classes)
        for k in range(known, len(classes)):
            row = next((row for row, label in enumerate(batch.y) if label == classes[k]), 0)
            learnt = getattr(self._learner, "n_iterations", 0) - (batch.hi - batch.lo - row)
            if learnt >= EXPECTED_AFTER:
                self._announce(classes[k], batch.block.place(batch.lo + row), k + 1)

    def _announce(self, label: Hashable, place: str, n_classes: int) -> None:
        self._n_announced += 1
        if self._n_announced > MAX_ANNOUNCED:
            return
        last = "; no further new labels are reported" if self._n_announced == MAX_ANNOUNCED else ""
        logger.warning(
            "label %s is new at %s: the model now has %d labels%s",
            shown(label), place, n_classes, last,
            extra=event("new_label", label=str(label), place=place, classes=n_classes),
        )  # fmt: skip
