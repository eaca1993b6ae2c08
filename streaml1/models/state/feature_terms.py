"""What each feature of an example adds to its margins, as kernels compute it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streaml1.core.rows import numeric_features
from streaml1.core.types import Bools, Floats, Ids
from streaml1.features.batch import batch_of, checked, is_frame, is_matrix
from streaml1.features.interactions import find_crossed, hashes_of
from streaml1.features.vocabulary import MISSING, HashedVocabulary, InternedVocabulary
from streaml1.features.vocabulary.crossed_name import JOINT
from streaml1.models.state.locking import LockedState
from streaml1.models.state.predictor import Predictor
from streaml1.optim import loop
from streaml1.optim.update_rule import unknown_slot, without_intercept

__all__ = ["FeatureTerms", "examples_of", "known_features", "terms_of"]

Alone: TypeAlias = Callable[[Predictor, Ids, Floats], Floats]
"""A function that returns the k margins of examples with one feature each: slots and values."""


class FeatureTerms(NamedTuple):
    """The features of several examples, one example after the other.

    Attributes
    ----------
    names : list
        The names, those of interactions and n-grams included.
    values : ndarray, shape (n,)
    weights, contributions : ndarray, shape (n, k)
        The weight of each feature and what it adds to the margin, for each of k outputs.
    known : ndarray of bool, shape (n,)
        Whether the model knows the feature.
    counts : list of int
        Number of features of each example.
    """

    names: list[Hashable]
    values: Floats
    weights: NDArray[np.float64]
    contributions: NDArray[np.float64]
    known: Bools
    counts: list[int]


def examples_of(predictor: Predictor, X: Any) -> list[dict[Hashable, float]]:
    """Return the rows of X, which are valid, as dicts of numbers; texts become n-grams."""
    if not is_matrix(X) and not is_frame(X):
        return [_numbers(predictor, x) for x in X]
    # The n-grams of `predictor.batch` have no names.
    batch = checked(batch_of(X) if predictor.ngrams is None else predictor.ngrams.batch_of(X))
    names = batch.rows.ids.tolist()
    if batch.names is not None:
        names = [batch.names[k] for k in names]
    pairs = list(zip(names, batch.rows.values.tolist(), strict=True))
    indptr = batch.rows.indptr.tolist()
    return [dict(pairs[lo:hi]) for lo, hi in zip(indptr[:-1], indptr[1:], strict=True)]


def _numbers(predictor: Predictor, x: Mapping[Hashable, Any]) -> dict[Hashable, float]:
    return numeric_features(x if predictor.ngrams is None else predictor.ngrams.expand(x))


def terms_of(
    predictor: Predictor, examples: Sequence[dict[Hashable, float]], k: int = 0
) -> FeatureTerms:
    """Return what the features of examples add to their margins.

    Parameters
    ----------
    predictor
        A predictor that does not change meanwhile.
    examples
        Valid examples without zeros.
    k
        The number of outputs of a multiclass rule; 0 for any other rule.
    """
    terms = _terms_of_features(predictor, examples, k)
    if predictor.offset is None:
        return terms
    is_offset = np.array([name == predictor.offset for name in terms.names], bool)
    column = is_offset[:, None]
    return terms._replace(
        weights=np.where(column, 1.0, terms.weights),
        contributions=np.where(column, terms.values[:, None], terms.contributions),
        known=terms.known | is_offset,
    )


def _terms_of_features(
    predictor: Predictor, examples: Sequence[dict[Hashable, float]], k: int
) -> FeatureTerms:
    """Return `terms_of`, but without regard to the offset feature, which `terms_of` fills in."""
    names, values, slots, counts = _features_of(predictor, examples)
    known = _known(predictor, slots)
    rule, n = predictor.rule, len(names)
    if not rule.size or not n:
        zeros = np.zeros((n, max(1, k)))
        return FeatureTerms(names, values, zeros, zeros, known, counts)
    has_slot = slots < rule.size
    ids = np.where(has_slot, slots, np.uint32(0))
    row_of = np.repeat(range(len(counts)), counts)
    if k:
        w = np.where(has_slot[:, None], rule.rows(ids), 0.0)
        contributions = w * values[:, None]
        if hasattr(rule, "contributions"):  # they are not linear in the values
            contributions = _contributions(predictor, slots, values, row_of, _label_margins_alone)
        return FeatureTerms(names, values, w, contributions, known, counts)
    weights = np.empty(n)
    loop.weights_at(rule, ids, weights)
    weights[~has_slot] = 0.0
    contributions = _contributions(predictor, slots, values, row_of, _margins_alone)
    if unknown_slot(rule) is not None:  # features without a slot have a weight, too
        weights[~has_slot] = (contributions[:, 0] / values)[~has_slot]
    return FeatureTerms(names, values, weights[:, None], contributions, known, counts)


def _features_of(
    predictor: Predictor, examples: Sequence[dict[Hashable, float]]
) -> tuple[list[Hashable], Floats, Ids, list[int]]:
    """Return the names, values and slots of all features, and their number in each example."""
    crosses = predictor.interactions
    names: list[Hashable] = []
    values: list[float] = []
    plain: list[bool] = []
    crossed = []
    counts = []
    for example in examples:
        products = [] if crosses is None else crosses.crossed_features(example)
        names += [*example, *(JOINT.join(product.factors) for product in products)]
        values += [*example.values(), *(product.value for product in products)]
        plain += [True] * len(example) + [False] * len(products)
        crossed += products
        counts.append(len(example) + len(products))
    is_plain = np.array(plain, bool)
    slots = np.full(len(names), MISSING, np.uint32)
    slots[is_plain] = predictor.vocabulary.find_all(
        [name for name, own in zip(names, plain, strict=True) if own]
    )
    if crossed:
        slots[~is_plain] = find_crossed(predictor.vocabulary, hashes_of(crossed))[0]
    if predictor.offset is not None:  # it shares no slot
        slots[[name == predictor.offset for name in names]] = MISSING
    return names, np.array(values, np.float64), slots, counts


def _known(predictor: Predictor, slots: Ids) -> Bools:
    """Return which features the model has learnt, or a feature that shares their slot."""
    has_slot = slots < predictor.rule.size
    if isinstance(predictor.vocabulary, InternedVocabulary):
        return np.asarray(has_slot, bool)
    known: Bools = np.zeros(len(slots), bool)
    known[has_slot] = predictor.rule.seen_mask()[slots[has_slot]]
    return known


def known_features(state: Predictor, X: Any) -> Bools:
    """Return whether the model knows each feature of some valid rows, which do not change it."""
    with state.exclusive() if isinstance(state, LockedState) else nullcontext():
        _, _, slots, _ = _features_of(state, examples_of(state, X))
        return _known(state, slots)


def _contributions(
    predictor: Predictor, slots: Ids, values: Floats, row_of: Any, alone: Alone
) -> Floats:
    """Return what `alone` returns for each feature: its margins, without the intercept.

    Features of an example that share a slot are one to the model: their sum is divided in
    proportion to their values.
    """
    if not isinstance(predictor.vocabulary, HashedVocabulary):
        return alone(predictor, slots, values)
    has_slot = slots < predictor.rule.size
    keys = row_of.astype(np.int64) << 32 | slots
    keys[~has_slot] = -1 - np.flatnonzero(~has_slot)
    _, first, group, sizes = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    if len(sizes) == len(keys):
        return alone(predictor, slots, values)
    sums = np.bincount(group, weights=values).astype(np.float64)
    sums[sizes == 1] = values[first[sizes == 1]]
    sums_of = sums[group]
    whole = alone(predictor, slots[first], sums)[group]
    shares = np.divide(values, sums_of, out=np.zeros(len(values)), where=sums_of != 0.0)
    shares[sizes[group] == 1] = 1.0
    return whole * shares[:, None]


def _label_margins_alone(predictor: Predictor, slots: Ids, values: Floats) -> Floats:
    """Return the margins of each label for examples with one feature each, shape (n, k)."""
    has_slot = slots < predictor.rule.size
    ids = np.where(has_slot, slots, np.uint32(0))
    margins: Floats = predictor.rule.contributions(ids, np.where(has_slot, values, 0.0))
    return margins


def _margins_alone(predictor: Predictor, slots: Ids, values: Floats) -> Floats:
    """Return the margins of examples with one feature each, shape (n, 1)."""
    rule, online = without_intercept(predictor.rule, predictor._record)
    ids, values = predictor._mask_unknown(slots, values)
    margins = np.empty(len(ids))
    indptr = np.arange(len(ids) + 1, dtype=np.uint64)
    loop.predict_rows(rule, online, ids, values, indptr, margins, 0, 0)
    return margins[:, None]
