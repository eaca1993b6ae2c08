"""Prediction from a rule, a vocabulary and an online record; none of them is changed here."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streaml1.core.jit import COMPILED
from streaml1.core.rows import (
    BadExample,
    Rows,
    check_value,
    constant_column,
    ensure,
    max_id,
    numeric_features,
)
from streaml1.core.types import Floats, Ids, Records, Values
from streaml1.features import dict_reader
from streaml1.features.arrow_frames import frame_rows
from streaml1.features.batch import Batch, batch_of, checked
from streaml1.features.dict_reader.items import Items, read_items
from streaml1.features.interactions import (
    Interactions,
    find_crossed,
    hashes_of,
    select_factors,
)
from streaml1.features.ngrams import NGrams, ngram_batch
from streaml1.features.offsets import split_batch, split_example
from streaml1.features.vocabulary import (
    MISSING,
    AnyVocabulary,
    HashedVocabulary,
    InternedVocabulary,
    IntVocabulary,
    VocabularySnapshot,
)
from streaml1.features.vocabulary.restore import vocabulary_from_state_dict
from streaml1.models.state.row_slots import RowSlots
from streaml1.optim import loop
from streaml1.optim.losses import LOGISTIC
from streaml1.optim.update_rule import unknown_slot

__all__ = ["MAX_DICT_FEATURES", "MIN_SLOTS", "Predictor", "is_copied"]

MIN_SLOTS = 1024
"""Initial number of slots."""

MAX_DICT_FEATURES = 2**18
"""Features of a dict, crossed ones among them, that buffers are allocated for."""

LENGTH = 256
"""Initial capacity of the buffers for a dict, in features."""

RATES_FROM = loop.ONLINE.fields["rates_from"][1] // 8  # type: ignore[index]
"""Position of the field in `Predictor.clock`."""


def is_copied(x: Mapping[Hashable, Any]) -> bool:
    """Return whether the kernels read a mapping through an exact dict made of its items."""
    return dict_reader.AVAILABLE and type(x) is not dict


class Predictor(RowSlots):
    """The predictions of a model's state.

    Any number of threads may call it at once, as long as no other thread changes the state.

    Parameters
    ----------
    rule
        A rule of `streaml1.optim.update_rule`.
    record
        Array of dtype `loop.ONLINE`, shape (1,).
    vocabulary
        A vocabulary of `streaml1.features.vocabulary`.
    interactions
        Interactions of features, or None.
    ngrams
        Text features, or None.
    offset
        Name of the feature that holds the offset of an example, or None.
    """

    def __init__(
        self,
        rule: Any,
        record: NDArray[np.void],
        vocabulary: AnyVocabulary,
        interactions: Interactions | None = None,
        ngrams: NGrams | None = None,
        offset: Hashable | None = None,
    ) -> None:
        self.offset = offset
        self.interactions = interactions
        self.ngrams = ngrams
        # Dict kernels read text themselves, except for crossed text.
        simple = ngrams is not None and ngrams.simple
        self._reads_text = simple and interactions is None and dict_reader.AVAILABLE
        # Examples that dict kernels do not read as they are.
        self._is_indirect = offset is not None or (ngrams is not None and not self._reads_text)
        self.rule = rule
        self.vocabulary = vocabulary
        self._set_record(record)
        self._context: dict_reader.KernelContext | None = None

    def _set_record(self, record: NDArray[np.void]) -> None:
        self.online = record.view(np.recarray)
        # Compiled kernels learn the type of a plain array at an eighth of the cost.
        self._record = record.view(np.ndarray) if COMPILED else self.online
        # The fields as a memoryview: read at a fifth of the cost of an array's. The first is t.
        self.clock = memoryview(record.view(np.int64))  # type: ignore[arg-type]

    # Copies, without zero weights

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """Copy the state cheaply; the returned function does the rest of the work."""
        return self._snapshot(self.vocabulary.snapshot())

    def _snapshot(self, names: VocabularySnapshot) -> Callable[[], dict[str, Any]]:
        slots, arrays = self.rule.state_dict()
        if not len(slots) and not isinstance(names, HashedVocabulary):
            names = IntVocabulary()
        rule, record = type(self.rule), np.zeros(1, loop.STORED_LAYOUTS[0])
        for name in record.dtype.names or ():
            record[name] = self.online[name]
        return lambda: {
            "made": (self.interactions, self.ngrams, self.offset),
            "rule": rule,
            "arrays": arrays,
            "online": record,
            "names": names.state_dict(slots),
        }

    def __getstate__(self) -> dict[str, Any]:
        return self.snapshot()()

    def __setstate__(self, state: dict[str, Any]) -> None:
        names, slots, size = vocabulary_from_state_dict(state["names"])
        size = size if isinstance(names, HashedVocabulary) else max(size, MIN_SLOTS)
        rule = state["rule"].from_state_dict(size, slots, state["arrays"])
        online = state["online"]
        ensure(online.dtype in loop.STORED_LAYOUTS, "the online record has the wrong dtype")
        record = np.zeros(1, loop.ONLINE)  # aligned, as kernels are compiled for
        record["positive_weight"] = 1.0  # of versions without it
        for name in online.dtype.names:
            record[name] = online[name]
        made = tuple(getattr(self, name, None) for name in ("interactions", "ngrams", "offset"))
        Predictor.__init__(self, rule, record, names, *state.get("made", made))

    @property
    def t(self) -> int:
        """Number of examples learnt."""
        return self.clock[0]

    @property
    def _crosses_text(self) -> bool:
        """Whether text is crossed. No dict kernel reads it; if names are hashed, Python does."""
        return self.interactions is not None and not isinstance(self.vocabulary, HashedVocabulary)

    @property
    def rate_step(self) -> int:
        """Number of examples learnt since the schedule of the learning rate last started."""
        return self.clock[0] - self.clock[RATES_FROM]

    @property
    def intercept(self) -> float:
        """Intercept that belongs to `weights`: that of the rule, or else of the online record."""
        return self._intercept_of(getattr(self.rule, "intercept", None))

    @property
    def base_margin(self) -> float:
        """Margin of an example without features; the intercept, unless features have origins."""
        of_rule = getattr(self.rule, "intercept", None)
        return self._intercept_of(getattr(self.rule, "intercept_at_origins", of_rule))

    def _intercept_of(self, of_rule: Callable[[Records], float] | None) -> float:
        o = self.online[0]
        b = float(o.b if of_rule is None else of_rule(self.online))
        # As `losses.full_stream_margin`, which Python cannot call without importing numba.
        return b + float(o.loss_parameter) if o.loss == LOGISTIC else b

    # One example

    def margin(self, x: Mapping[Hashable, Any], out: int) -> float:
        """Return the margin of an example; with `out`, its response (see `loop.predict_row`)."""
        if self._is_indirect:
            if self.ngrams is not None and not self._reads_text:
                if self._crosses_text:
                    return float(self.margins(self.batch([x]), out)[0])
                x = self.ngrams.expand(x)
            if self.offset is not None and self.offset in x:
                return self._margin_with_offset(x, out)
        context = self._context
        if context is not None:
            a = context.predict(context.address, x, out)
            if a == a:
                return a
        return self._margin_fallback(x, out)

    def _margin_with_offset(self, x: Mapping[Hashable, Any], out: int) -> float:
        offset, rest = split_example(x, self.offset)
        a = np.full(1, self.margin(rest, False))
        loop.add_offsets(self._record, a, np.full(1, offset), out)
        return float(a[0])

    def _margin_fallback(self, x: Mapping[Hashable, Any], out: int) -> float:
        if is_copied(x):
            return self.margin(dict(x.items()), out)
        a = self._margin_by_context(x, out)
        if a == a:
            return a
        counted = self._with_ngrams(x)
        if counted is not x:
            return self.margin(counted, out)
        a = self._margin_by_items(x, out)
        return a if a == a else self._margin_of_items(numeric_features(x), out)

    def _margin_by_context(self, x: Mapping[Hashable, Any], out: int) -> float:
        """Return the margin from a new context, or NaN if none helps."""
        for _ in range(2):  # the first attempt reports the capacity that crossed features need
            if not self._wants_context(x):
                break
            context = self._new_context(len(x))
            a = float(context.predict(context.address, x, out))
            if a == a:
                return a
        return math.nan

    def _margin_by_items(self, x: Mapping[Hashable, Any], out: int) -> float:
        """Return the margin of a mapping that is read in Python; NaN if that is impossible."""
        items = self._read_items(x)
        if items is None:
            return math.nan
        context = self._context
        if context is None or context.is_stale:
            context = self._new_context(len(x))
        _, _, *arrays, joined = items
        return float(dict_reader.predict_items()(context.address, *arrays, joined, out))

    def _read_items(self, x: Mapping[Hashable, Any]) -> Items | None:
        """Read a mapping in Python, if its names are looked up by Python's hashes; else None."""
        if self.interactions is not None or self._reads_text or not COMPILED:
            return None
        return read_items(x) if isinstance(self.vocabulary, InternedVocabulary) else None

    def _with_ngrams(self, x: Mapping[Hashable, Any]) -> Mapping[Hashable, Any]:
        """Return the example with text replaced by n-grams, for the fallback."""
        return x if self.ngrams is None else self.ngrams.expand(x)

    def _margin_of_items(self, plain: dict[Hashable, float], out: int) -> float:
        names, values = list(plain), np.fromiter(plain.values(), np.float64, len(plain))
        slots = self.vocabulary.find_all(names)
        if self.interactions is not None:
            crosses = self.interactions.crossed_features(plain)
            names += [cross.factors for cross in crosses]
            values = np.append(values, [cross.value for cross in crosses])
            slots = np.append(slots, find_crossed(self.vocabulary, hashes_of(crosses))[0])
        return float(self._margins(self._row(names, values, slots), out, 0)[0])

    def _mask_unknown(self, ids: Ids, values: Values) -> tuple[Ids, Values]:
        """Replace slots beyond the rule's size by the slot for unknown features, or by value 0.

        Zero entries keep their positions, because the summation order depends on positions.
        """
        slot = unknown_slot(self.rule)
        if slot is not None:
            return np.minimum(ids, np.uint32(slot)), values
        if not self.rule.size:
            return ids[:0], values[:0]
        unknown = np.flatnonzero(ids >= self.rule.size)  # faster than two calls of np.where
        if len(unknown):
            ids, values = ids.copy(), values.copy()
            ids[unknown], values[unknown] = 0, 0.0
        return ids, values

    def _row(self, names: list[Hashable], values: Values, slots: Ids) -> Rows:
        """Return a row of distinct slots and their summed values: hashed names may share a slot."""
        known = slots[slots != MISSING].tolist()
        if len(set(known)) != len(known):
            slots, values = self._merged(names, values, slots)
        return Rows(slots, values, np.array([0, len(slots)], np.uint64))

    def _merged(self, names: list[Hashable], values: Values, slots: Ids) -> tuple[Ids, Values]:
        """Return distinct slots and their summed values."""
        merged: dict[int, float] = {}
        first_positions: dict[int, int] = {}
        for k, (slot, v) in enumerate(zip(slots.tolist(), values.tolist(), strict=True)):
            own = slot if slot != MISSING else MISSING + k + 1
            merged[own] = merged.get(own, 0.0) + v
            first_positions.setdefault(own, k)
        for own, v in merged.items():
            check_value(names[first_positions[own]], v)
        kept = [(min(own, MISSING), v) for own, v in merged.items() if v != 0.0]
        return np.array([j for j, _ in kept], np.uint32), np.array([v for _, v in kept])

    def _wants_context(self, x: Any) -> bool:
        """Return whether a dict kernel with a new context could read the dict."""
        if not dict_reader.AVAILABLE or type(x) is not dict:
            return False
        context = self._context
        if context is None or context.is_stale:
            return True
        return context.length < max(len(x), min(context.needed, MAX_DICT_FEATURES))

    def _new_context(self, n: int, learns: bool = False) -> dict_reader.KernelContext:
        length = max(LENGTH, 2 * n)
        if self._context is not None:
            self._context.close()
            needed = 2 * min(self._context.needed, MAX_DICT_FEATURES)
            length = max(length, self._context.length, needed)
            learns = learns or self._context.learns
        self._context = dict_reader.make_context(
            self.vocabulary, self.rule, self.online, length, learns, self.interactions,
            self.ngrams if self._reads_text else None,
        )  # fmt: skip
        return self._context

    # Many examples

    def batch(self, X: Any, learns: bool = False) -> Batch:
        """Convert X to a batch, see `batch_of`; `learns` enables the checks of learning."""
        X = frame_rows(X)
        try:
            return batch_of(X) if self.ngrams is None else ngram_batch(self.ngrams, X)
        except BadExample as bad:
            if isinstance(X, list | tuple):
                self._check_examples(X[: bad.row], learns)
            raise

    def _check_examples(self, xs: Sequence[Any], learns: bool) -> None:
        """Raise BadExample for the first example that is invalid, n-grams and crosses included."""
        adds_names = learns and not isinstance(self.vocabulary, HashedVocabulary)
        for row, x in enumerate(xs):
            try:
                if not isinstance(x, Mapping):
                    batch_of([x])
                plain = numeric_features(x if self.ngrams is None else self.ngrams.expand(x))
                if self.interactions is not None:
                    for name in plain if adds_names else ():
                        self.interactions.require_plain(name)
                    self.interactions.crossed_features(plain)
            except BadExample as bad:
                raise BadExample(bad.reason, row) from None

    def margins(self, batch: Batch, out: int, stride: int = 0) -> Floats:
        """Return the margin of each row; with `out`, its response (see `loop.predict_rows`)."""
        if self.offset is None:
            return self._margins_of(batch, out, stride)
        batch, offset = self._split(batch)
        a = self._margins_of(batch, False, stride)
        loop.add_offsets(self._record, a, offset, out)
        return a

    def _split(self, batch: Batch) -> tuple[Batch, Floats]:
        """Return a batch without the offset, and the offsets of its rows."""
        if self.offset is None:
            return batch, constant_column(0.0, batch.n)
        return split_batch(batch, self.offset)

    def _margins_of(self, batch: Batch, out: int, stride: int) -> Floats:
        """Return `margins` of a batch without an offset."""
        if self.interactions is not None:
            return self._crossed_margins(self.interactions, batch, out, stride)
        return self._margins(self._known_rows(checked(batch)), out, stride)

    def _margins(self, rows: Rows, out: int, stride: int) -> Floats:
        a = np.empty(rows.n)
        if len(rows.ids) and max_id(rows.ids) >= self.rule.size:
            ids, values = self._mask_unknown(rows.ids, rows.values)
            rows = Rows(ids, values, rows.indptr if len(ids) else np.zeros_like(rows.indptr))
        loop.predict_rows(
            self.rule, self._record, rows.ids, rows.values, rows.indptr, a, out, stride
        )
        return a

    def _crossed_margins(
        self, crosses: Interactions, batch: Batch, out: int, stride: int
    ) -> Floats:
        """Return the margins of rows with crossed features."""
        whole = select_factors(crosses, checked(batch))
        a = [np.empty(0)]
        for lo, hi in whole.chunks():
            try:
                rows = self._known_crossed_rows(crosses, whole.slice(lo, hi))
            except BadExample as bad:
                raise BadExample(bad.reason, lo + bad.row) from None
            a.append(self._margins(rows, out + stride * lo if stride else out, stride))
        return np.concatenate(a)
