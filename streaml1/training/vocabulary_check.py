"""Warn if the names of a model and those of the data differ.

A new model crosses names, reads names as text, or has an offset: a name that does not occur is
misspelled more often than rare, and would silently produce no features, or no offset. A model that
has learnt before knows names: if hardly any of them occur, the data probably have other columns, or
were read in another way.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from streaml1.core.logging import event
from streaml1.core.named_options import named_option
from streaml1.core.rows import shown
from streaml1.core.types import Model
from streaml1.features.arrow_frames import as_rows, has_nested
from streaml1.features.batch import is_frame, is_matrix, to_narwhals
from streaml1.features.interactions.spec import interactions_of
from streaml1.models.base import OnlineModel
from streaml1.models.state.feature_terms import known_features
from streaml1.sources.readers.events import Event
from streaml1.training.example_sources import slice_rows
from streaml1.training.model_adapter import learner_of
from streaml1.training.observers import Batch, Observer

__all__ = ["KnownNames", "VocabularyCheck", "known_names", "prefix_of", "vocabulary_check"]

logger = logging.getLogger("streaml1")

CHECKED_EXAMPLES = 1000
"""Number of examples after which missing names are reported."""

STEP = 100
"""Examples whose features are looked up at once. As a rule the first of them suffice."""

MIN_EXAMPLES = 20
"""Number of examples from which a shorter run is judged."""

MAX_LISTED = 10
"""Columns or namespaces of the data that a warning lists."""

JOIN_LISTS = "the elements of its lists are categories: join them into one text"

MIN_SHARE = 0.05
"""Share of the features that a model must know."""


class VocabularyCheck(Observer):
    """Checks the first examples of a run for the names that the model uses."""

    def __init__(
        self,
        cross: list[tuple[str, ...]] | None,
        text: list[str] | None,
        offset: str | int | None = None,
    ) -> None:
        self._crosses = interactions_of(tuple(cross)) if cross else None
        # Names that have not occurred yet.
        self._missing_prefixes = set(self._crosses.prefixes) if self._crosses else set()
        self._missing_texts = set(text or [])
        # Matrices have no names here, and numbered columns go by numbers.
        is_checked = offset is not None and not str(offset).isdecimal()
        self._missing_offset = str(offset) if is_checked else None
        self._similar_offset = ""  # the offset with the namespace that the data have it in
        self._found: dict[str, None] = {}  # columns and namespaces, in the order of the data
        self._n_checked = 0

    def _is_done(self) -> bool:
        return not (self._missing_prefixes or self._missing_texts or self._missing_offset)

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
        if len(self._found) < MAX_LISTED:
            names = list(names)
            self._found.update(dict.fromkeys(prefix_of(name) for name in names[:MAX_LISTED]))
        self._missing_texts.difference_update(names)
        if self._missing_offset is not None:
            names = list(names)
            self._check_offset(names, self._missing_offset)
        if self._crosses and self._missing_prefixes:
            seen = 0  # bit k: some name has prefix k
            for name in names:
                seen |= self._crosses.mask(name)
            self._missing_prefixes.difference_update(
                prefix for k, prefix in enumerate(self._crosses.prefixes) if seen >> k & 1
            )

    def _check_offset(self, names: list[Hashable], offset: str) -> None:
        if offset in names:
            self._missing_offset = None
        elif not self._similar_offset:
            end = f"^{offset}"
            self._similar_offset = next((n for n in map(str, names) if n.endswith(end)), "")

    def _warn(self) -> None:
        """Warn about each missing name once."""
        n = self._n_checked
        where = f"the first {n:,} examples" if n > 1 else "the only example"
        listed = [shown(name) for name in self._found]
        rest = ["..."] if len(listed) >= MAX_LISTED else []
        known = ", ".join([*listed[:MAX_LISTED], *rest])
        remedy = f"check the spelling of the column or namespace: the data have {known}"
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
            is_list = name in self._found  # `tags` of `tags=a`
            logger.warning(
                "in %s no feature is named %r, so its text adds no features; %s",
                where, name, JOIN_LISTS if is_list else remedy,
                extra=event("text_unmet", text=name),
            )  # fmt: skip
        self._missing_texts.clear()
        if self._missing_offset is not None:
            if self._similar_offset:
                remedy = f"use {named_option('offset', self._similar_offset)}"
            logger.warning(
                "in %s no feature is named %r, so the offset is 0; %s",
                where, self._missing_offset, remedy,
                extra=event("offset_unmet", offset=self._missing_offset),
            )  # fmt: skip
            self._missing_offset = None


def prefix_of(name: Hashable) -> str:
    """Return the column or namespace of a feature; the name itself if it has neither."""
    return re.split(r"(?<=.)[=^]", str(name), maxsplit=1)[0]


class KnownNames(Observer):
    """Checks whether a model that has learnt before knows the features of the next examples."""

    def __init__(self, model: OnlineModel) -> None:
        self._model = model
        self._n_examples = 0
        self._n_features = self._n_known = 0
        self._is_done = False

    def on_block_start(self, block: Any) -> None:
        """Look up features until the model knows enough of them, or enough were seen."""
        lo = 0
        while lo < len(block) and not self._is_done:
            hi = min(lo + STEP, len(block))
            known = _known_features(self._model, block.x, lo, hi)
            self._n_examples += hi - lo
            self._n_features += len(known)
            self._n_known += int(np.count_nonzero(known))
            self._is_done = int(np.count_nonzero(known)) > MIN_SHARE * len(known)
            if not self._is_done and self._n_examples >= CHECKED_EXAMPLES:
                self._judge()
            lo = hi

    def on_end(self) -> None:
        """Judge a run with fewer examples."""
        if not self._is_done and self._n_examples >= MIN_EXAMPLES:
            self._judge()

    def _judge(self) -> None:
        self._is_done = True
        n, n_known = self._n_features, self._n_known
        if not n or n_known > MIN_SHARE * n:
            return
        found = f"only {n_known:,} of the {n:,}" if n_known else f"none of the {n:,}"
        logger.warning(
            "the model knows %s features of the first %s examples: check that the feature names "
            "and the column options match the data that it has learnt",
            found, f"{self._n_examples:,}", extra=event("names_unknown", known=n_known, features=n),
        )  # fmt: skip


def _known_features(model: OnlineModel, x: Any, lo: int, hi: int) -> Any:
    """Return whether the model knows each feature of consecutive rows; invalid rows have none."""
    try:
        return known_features(model._state, slice_rows(x, lo, hi))
    except (TypeError, ValueError):
        if hi - lo == 1:
            return np.zeros(0, bool)
    return np.concatenate([_known_features(model, x, row, row + 1) for row in range(lo, hi)])


def known_names(model: Model) -> KnownNames | None:
    """Return the check for a model that has learnt before; None for others and for pipelines."""
    if not isinstance(model, OnlineModel) or not model.n_iterations:
        return None
    return KnownNames(model)


def _feature_names(x: Any, lo: int, hi: int) -> Iterable[Sequence[Hashable]]:
    """Return the feature names of each of some consecutive rows."""
    if is_matrix(x):
        return [()] * (hi - lo)
    if has_nested(x):  # as few rows as suffice: their names may be in the data
        return map(list, as_rows(slice_rows(x, lo, hi)))
    if is_frame(x):
        return [to_narwhals(x).columns] * (hi - lo)
    return (list(row.x or () if isinstance(row, Event) else row) for row in x[lo:hi])


def vocabulary_check(model: Model) -> VocabularyCheck | None:
    """Return the check for a new model that uses names; None if there is nothing to check.

    A pipeline may rename features, so the names in the data say nothing about it.
    """
    cross, text = getattr(model, "cross", None), getattr(model, "text", None)
    offset = getattr(model, "offset", None)
    has_names = cross or text or offset is not None
    if not has_names or learner_of(model) is not model or model.n_iterations:
        return None
    return VocabularyCheck(cross, text, offset)
