"""What merging does for every learner that can be merged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from streaml1 import ElasticNetClassifier, SMIDASClassifier
from streaml1.models.merging import merge_candidates
from tests import test_merge_coins as coins
from tests import test_merge_mirror as mirror
from tests import test_merge_weights as weights
from tests.test_merge_weights import ALL_PARTS, EXAMPLE, Example, learnt

MODELS = [
    *(kind(**params) for kind, params in weights.SETTINGS),
    *coins.MODELS,
    *(kind(**params) for kind, params in mirror.SETTINGS),
]
all_models = pytest.mark.parametrize("model", MODELS)


def assert_margins(got: Any, expected: Any) -> None:
    """Compare the margins of single features."""
    for x in ({}, *({name: 1.0} for name in "abcdef")):
        assert got._margin(x) == pytest.approx(expected._margin(x), rel=1e-8, abs=1e-8)


def assert_weights(got: Any, expected: Any) -> None:
    """Compare intercepts and weights, of which some within rounding of zero may be missing."""
    assert got.intercept == pytest.approx(expected.intercept, rel=1e-8, abs=1e-8)
    for name in {*got.weights, *expected.weights}:
        w = expected.weights.get(name, 0.0)
        assert got.weights.get(name, 0.0) == pytest.approx(w, rel=1e-8, abs=1e-8)


@all_models
@given(examples=st.lists(st.lists(EXAMPLE, max_size=9), min_size=3, max_size=3))
def test_one_part_with_its_base_is_that_part(model: Any, examples: list[list[Example]]) -> None:
    base = learnt(model, examples[0])
    part = learnt(base, examples[1])
    for _, joined in merge_candidates([part], base):
        assert_weights(joined, part)
        assert_margins(joined, part)
        # What lanes publish, such as averages, depends on when it was brought up to date. What
        # they predict next does not.
        assert_margins(learnt(joined, examples[2]), learnt(part, examples[2]))


@all_models
@given(examples=ALL_PARTS, order=st.randoms())
def test_the_order_of_parts_is_rounding(
    model: Any, examples: list[list[Example]], order: Any
) -> None:
    base = learnt(model, examples[0])
    parts = [learnt(base, part) for part in examples[1:]]
    expected = dict(merge_candidates(parts, base))
    order.shuffle(parts)
    for name, joined in merge_candidates(parts, base):
        assert_weights(joined, expected[name])
        assert_margins(joined, expected[name])


@pytest.mark.parametrize(
    "model", [ElasticNetClassifier(lr=1.0, l1=2e-3), SMIDASClassifier(lr=0.5, l1=2e-3, p=4.0)]
)
def test_merged_models_are_as_sparse_as_one_pass(model: Any) -> None:
    """The mean of parts would be dense: a weight of one part is penalized by all."""
    rng = np.random.default_rng(3)
    ids = np.minimum(rng.pareto(1.0, (4000, 6)) * 3, 1999).astype(int)
    X = csr_matrix((np.ones(24_000), ids.ravel(), np.arange(0, 24_001, 6)), (4000, 2000))
    y = rng.random(4000) < 1.0 / (1.0 + np.exp(-(X @ rng.normal(0.0, 1.0, 2000))))
    whole, *parts = (model.clone() for _ in range(9))
    whole.learn_many(X, y)
    for k, part in enumerate(parts):
        part.learn_many(X[k * 500 : (k + 1) * 500], y[k * 500 : (k + 1) * 500])
    union = len(set().union(*(part.weights for part in parts)))
    assert union > 2 * whole.n_nonzero
    for _, joined in merge_candidates(parts):
        assert joined.n_nonzero < 1.3 * whole.n_nonzero
