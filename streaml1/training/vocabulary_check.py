"""Warn if the names that a model crosses, or reads as text, do not occur in the data.

Such a name is misspelled more often than rare, and it would silently produce no features.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from streaml1.core.logging import event
from streaml1.core.types import Model
from streaml1.features.batch import is_frame, is_matrix, to_narwhals
from streaml1.features.interactions.spec import interactions_of
from streaml1.sources.readers.events import Event
from streaml1.training.model_adapter import learner_of
from streaml1.training.observers import Batch, Observer

__all__ = ["VocabularyCheck", "vocabulary_check"]

logger = logging.getLogger("streaml1")

CHECKED_EXAMPLES = 1000
"""Number of examples after which missing names are reported."""


class VocabularyCheck(Observer):
    """Checks the first examples of a run for the names that the model uses.

    Parameters
    ----------
    cross, text
        Parameters of the model.
    """

    def __init__(self, cross: list[tuple[str, ...]] | None, text: list[str] | None) -> None:
        self._crosses = interactions_of(tuple(cross)) if cross else None
        # Names that have not occurred yet.
        self._missing_prefixes = set(self._crosses.prefixes) if self._crosses else set()
        self._missing_texts = set(text or [])
        self._n_checked = 0

    def _is_done(self) -> bool:
        return not (self._missing_prefixes or self._missing_texts)

    def on_batch(self, batch: Batch) -> None:
        """Check examples until all names have occurred or enough examples were seen."""
        if self._is_done():
            return
        hi = min(batch.hi, batch.lo + CHECKED_EXAMPLES - self._n_checked)
        for names in _feature_names(batch.block.x, batch.lo, hi):
            self._n_checked += 1
            self._check(names)
            if self._is_done():
                return
        if self._n_checked == CHECKED_EXAMPLES:
            self._warn()

    def on_end(self) -> None:
        """Warn if the run had fewer examples."""
        if self._n_checked:
            self._warn()

    def _check(self, names: Iterable[Hashable]) -> None:
        self._missing_texts.difference_update(names)
        if self._crosses and self._missing_prefixes:
            seen = 0  # bit k: some name has prefix k
            for name in names:
                seen |= self._crosses.mask(name)
            self._missing_prefixes.difference_update(
                prefix for k, prefix in enumerate(self._crosses.prefixes) if seen >> k & 1
            )

    def _warn(self) -> None:
        """Warn about each missing name once."""
        n = self._n_checked
        where = f"the first {n:,} examples" if n > 1 else "the only example"
        remedy = "check the spelling of the column or namespace"
        for cross in self._crosses.crosses if self._crosses else ():
            for prefix in sorted(self._missing_prefixes.intersection(cross)):
                self._missing_prefixes.remove(prefix)
                logger.warning(
                    "in %s no name is %r or starts with %r or %r, so the cross %s adds no "
                    "features; %s",
                    where, prefix, f"{prefix}=", f"{prefix}^", ",".join(cross), remedy,
                    extra=event("prefix_unmet", prefix=prefix),
                )  # fmt: skip
        for name in sorted(self._missing_texts):
            logger.warning(
                "in %s no feature is named %r, so its text adds no features; %s",
                where, name, remedy, extra=event("text_unmet", text=name),
            )  # fmt: skip
        self._missing_texts.clear()


def _feature_names(x: Any, lo: int, hi: int) -> Iterable[Sequence[Hashable]]:
    """Return the feature names of each of some consecutive rows."""
    if is_matrix(x):
        return [()] * (hi - lo)
    if is_frame(x):
        return [to_narwhals(x).columns] * (hi - lo)
    return (list(row.x or () if isinstance(row, Event) else row) for row in x[lo:hi])


def vocabulary_check(model: Model) -> VocabularyCheck | None:
    """Return the check for a new model with crosses or text; None if there is nothing to check.

    A pipeline may rename features, so the names in the data say nothing about it.
    """
    cross, text = getattr(model, "cross", None), getattr(model, "text", None)
    if not (cross or text) or learner_of(model) is not model or model.n_iterations:
        return None
    return VocabularyCheck(cross, text)
