"""Weights and feature names as plain-text tables."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from streaml1.core.text_table import TableColumn, render_table
from streaml1.optim.tasks import REGRESSION

if TYPE_CHECKING:
    from streaml1.models.base import OnlineModel

__all__ = ["extreme_weights_table", "printable", "text_table", "top_weights_table", "weight_text"]

NAME_WIDTH, WEIGHT_WIDTH = 30, 10


def extreme_weights_table(model: OnlineModel, k: int) -> str:
    """Lay out the `k` largest and `k` smallest weights next to each other.

    A model with several classes has one list, by absolute value.
    """
    if hasattr(model, "classes_met"):
        weights = model.top_weights(k)
        return top_weights_table(model, weights) if weights else "All weights are zero."
    up, down = model._farthest(k, 1, -1)
    is_regression = model.loss in REGRESSION
    heads = ("raise the value", "lower the value") if is_regression else ("for True", "for False")
    if not up and not down:
        return "All weights are zero."
    rows = []
    for i in range(max(len(up), len(down))):
        name, w = up[i] if i < len(up) else ("", None)
        down_name, down_w = down[i] if i < len(down) else ("", None)
        rows.append((weight_text(w), printable(name), weight_text(down_w), printable(down_name)))
    return text_table(("weight", heads[0], "weight", heads[1]), rows)


def top_weights_table(model: OnlineModel, weights: Sequence[tuple[Any, float]]) -> str:
    """Lay out the result of `model.top_weights`."""
    if hasattr(model, "classes_met"):
        rows = [(weight_text(w), printable(name), printable(label)) for (name, label), w in weights]
        return text_table(("weight", "feature", "label"), rows)
    return text_table(
        ("weight", "feature"), [(weight_text(w), printable(name)) for name, w in weights]
    )


def weight_text(value: float | None) -> str:
    """Format a weight for a table cell; None gives an empty cell."""
    return "" if value is None else f"{value:+.4f}" if abs(value) < 1e3 else f"{value:+.3g}"


def printable(name: Hashable) -> str:
    """Return a name as text, or its repr if it is blank or has characters that do not print."""
    prints = isinstance(name, str) and name.strip() and name.isprintable()
    return str(name) if prints else repr(name)


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out rows below their heads: weights to the right, names to the left and cut."""
    columns = [
        TableColumn(head, "right", max_width=WEIGHT_WIDTH)
        if head == "weight"
        else TableColumn(head, "left", max_width=NAME_WIDTH)
        for head in heads
    ]
    return render_table(columns, rows, gap=2)
