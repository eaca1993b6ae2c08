"""Weights and feature names as plain-text tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from streaml1.core.text_table import TableColumn, printable, render_table
from streaml1.optim.tasks import REGRESSION

if TYPE_CHECKING:
    from streaml1.models.base import OnlineModel
    from streaml1.training.feature_sizes import FeatureSizes

__all__ = ["extreme_weights_table", "text_table", "top_weights_table", "weight_text"]

NAME_WIDTH, WEIGHT_WIDTH = 30, 11

RANKED = 100_000
"""Number of largest weights that are ranked by their effect; more would take seconds."""


def extreme_weights_table(model: OnlineModel, k: int, sizes: FeatureSizes | None = None) -> str:
    """Lay out the weights that matter most, positive and negative ones next to each other.

    A model with several classes has one list.

    Parameters
    ----------
    model
        The model.
    k
        Number of weights of each sign.
    sizes
        Typical sizes of the features: weights are ranked by |w| times the mean |x|. None: by |w|.
    """
    candidates = k if sizes is None else max(k, RANKED)
    if hasattr(model, "classes_met"):
        weights = model.top_weights(candidates)
        weights = weights if sizes is None else _ranked_by_effect(weights, sizes, True)
        return top_weights_table(model, weights[:k]) if weights else "All weights are zero."
    up, down = model._farthest(candidates, 1, -1)
    if sizes is not None:
        up, down = (_ranked_by_effect(weights, sizes)[:k] for weights in (up, down))
    is_regression = model.loss in REGRESSION
    heads = ("raise the value", "lower the value") if is_regression else ("for True", "for False")
    if not up and not down:
        return "All weights are zero."
    left, right = ([(weight_text(w), printable(name)) for name, w in found] for found in (up, down))
    rows = [
        raising + lowering for raising, lowering in zip_longest(left, right, fillvalue=("", ""))
    ]
    return text_table(("weight", heads[0], "weight", heads[1]), rows)


def _ranked_by_effect(
    weights: Sequence[tuple[Any, float]], sizes: FeatureSizes, has_labels: bool = False
) -> list[tuple[Any, float]]:
    """Sort weights by |w| times the mean size of the feature, largest first."""
    means = sizes.mean_sizes(key[0] if has_labels else key for key, _ in weights)
    effects = [abs(w) * mean for (_, w), mean in zip(weights, means, strict=True)]
    order = sorted(range(len(weights)), key=lambda i: -effects[i])
    return [weights[i] for i in order]


def top_weights_table(model: OnlineModel, weights: Sequence[tuple[Any, float]]) -> str:
    """Lay out the result of `model.top_weights`."""
    if hasattr(model, "classes_met"):
        rows = [(weight_text(w), printable(name), printable(label)) for (name, label), w in weights]
        return text_table(("weight", "feature", "label"), rows)
    return text_table(
        ("weight", "feature"), [(weight_text(w), printable(name)) for name, w in weights]
    )


def weight_text(value: float | None) -> str:
    """Format a weight with four significant digits; None gives an empty cell."""
    return "" if value is None else f"{value:+#.4g}".rstrip(".")


def text_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ("weight",)
) -> str:
    """Lay out rows below their heads: weights to the right, names to the left and cut.

    `numbers` are the heads of the columns of weights.
    """
    columns = [
        TableColumn(head, "right", max_width=WEIGHT_WIDTH)
        if head in numbers
        else TableColumn(head, "left", max_width=NAME_WIDTH)
        for head in heads
    ]
    return render_table(columns, rows, gap=2)
