"""Who hears of a run and says what a model is asked to cross, or to read as text, and has not met.

Such a prefix is spelt wrong more often than rare, and makes nothing without a word.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from streaml1.core.logging import event
from streaml1.features.batch import is_frame, is_matrix, to_narwhals
from streaml1.features.interactions.spec import interactions_of
from streaml1.sources.readers.events import Event
from streaml1.training.model_adapter import learner_of
from streaml1.training.observers import Out, Part

__all__ = ["Unmet", "unmet_of"]

logger = logging.getLogger("streaml1")

LOOKED_AT = 1000
"""Examples after which it is said."""


class Unmet(Out):
    """Looks at the first examples for the names that a model makes features of.

    Parameters
    ----------
    cross, text
        As of the model.
    """

    def __init__(self, cross: list[tuple[str, ...]] | None, text: list[str] | None) -> None:
        self._crosses = interactions_of(tuple(cross)) if cross else None
        self._prefixes = set(self._crosses.prefixes) if self._crosses else set()
        self._texts = set(text or [])
        self._heard = 0

    def predicted(self, part: Part) -> None:
        """Look at examples, until all is met or enough were looked at."""
        if not (self._prefixes or self._texts):
            return
        hi = min(part.hi, part.lo + LOOKED_AT - self._heard)
        for names in _names_of(part.block.x, part.lo, hi):
            self._heard += 1
            self._look(names)
            if not (self._prefixes or self._texts):
                return
        if self._heard == LOOKED_AT:
            self._say()

    def finish(self) -> None:
        """Say it, where there were fewer examples."""
        if self._heard:
            self._say()

    def _look(self, names: Iterable[Hashable]) -> None:
        self._texts.difference_update(names)
        if self._crosses and self._prefixes:
            met = 0
            for name in names:
                met |= self._crosses.mask(name)
            of_bits = enumerate(self._crosses.prefixes)
            self._prefixes.difference_update(p for k, p in of_bits if met >> k & 1)

    def _say(self) -> None:
        seen = f"the first {self._heard:,} examples" if self._heard > 1 else "the only example"
        remedy = "is it spelt as the column or the namespace is?"
        for cross in self._crosses.crosses if self._crosses else ():
            for prefix in sorted(self._prefixes.intersection(cross)):
                self._prefixes.remove(prefix)
                logger.warning(
                    "in %s no name is %r, or begins with %r or %r, so that %s crosses nothing: %s",
                    seen, prefix, f"{prefix}=", f"{prefix}^", ",".join(cross), remedy,
                    extra=event("prefix_unmet", prefix=prefix),
                )  # fmt: skip
        for name in sorted(self._texts):
            logger.warning(
                "in %s nothing is called %r, so that no words are made of it: %s",
                seen, name, remedy, extra=event("text_unmet", text=name),
            )  # fmt: skip
        self._texts.clear()


def _names_of(x: Any, lo: int, hi: int) -> Iterable[Sequence[Hashable]]:
    """The names of features of consecutive rows of a list, a matrix or a frame."""
    if is_matrix(x):
        return [()] * (hi - lo)
    if is_frame(x):
        return [to_narwhals(x).columns] * (hi - lo)
    return (list(one.x or () if isinstance(one, Event) else one) for one in x[lo:hi])


def unmet_of(model: Any) -> list[Out]:
    """One for a new model that crosses or reads text, and is given examples as they come."""
    cross, text = getattr(model, "cross", None), getattr(model, "text", None)
    if not (cross or text) or learner_of(model) is not model or model.n_iterations:
        return []
    return [Unmet(cross, text)]
