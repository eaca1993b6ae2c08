"""Explain the predictions of a model's state."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from streaml1.core.text_table import printable
from streaml1.core.types import RowsLike
from streaml1.features.arrow_frames import as_rows
from streaml1.features.labels import require_mapping
from streaml1.models.explanation import Contribution, Explanation, explanation_of
from streaml1.models.output_buffer import predict_output_rows, predict_outputs
from streaml1.models.state.feature_terms import FeatureTerms, examples_of, terms_of
from streaml1.models.state.locking import published
from streaml1.models.state.predictor import Predictor

__all__ = ["debug_text", "explain_label_rows", "explain_labels", "explain_row", "explain_rows"]


def explain_row(state: Predictor, x: Mapping[Hashable, Any]) -> Explanation:
    """Explain the margin of an example.

    Raises
    ------
    BadExample
        If a value is invalid.
    """
    require_mapping(x)
    with published(state) as predictor:
        margin = float(predictor.margin(x, 0))
        terms = terms_of(predictor, examples_of(predictor, [x]))
        return _explanations(terms, [margin], predictor.base_margin)[0]


def explain_rows(state: Predictor, X: RowsLike) -> list[Explanation]:
    """Explain the margin of each row.

    Raises
    ------
    BadExample
        If a row is invalid. `row` is the first such row.
    """
    with published(state) as predictor:
        X = as_rows(X)  # a stream can be read only once
        margins = predictor.margins(predictor.batch(X), 0).tolist()
        terms = terms_of(predictor, examples_of(predictor, X))
        return _explanations(terms, margins, predictor.base_margin)


def explain_labels(
    state: Predictor, labels: Sequence[Hashable], x: Mapping[Hashable, Any]
) -> dict[Hashable, Explanation]:
    """Explain the margin of each label for an example; like `explain_row`."""
    require_mapping(x)
    with published(state) as predictor:
        margins = predict_outputs(predictor, x, margins=True)[1].tolist()
        return _explain_outputs(predictor, labels, [x], [margins])[0]


def explain_label_rows(
    state: Predictor, labels: Sequence[Hashable], X: RowsLike
) -> list[dict[Hashable, Explanation]]:
    """Explain the margin of each label for each row; like `explain_rows`."""
    with published(state) as predictor:
        X = as_rows(X)
        margins = predict_output_rows(predictor, predictor.batch(X), margins=True)[1].tolist()
        return _explain_outputs(predictor, labels, X, margins)


def _explain_outputs(
    predictor: Predictor, labels: Sequence[Hashable], X: Any, margins: list[list[float]]
) -> list[dict[Hashable, Explanation]]:
    k = int(predictor.rule.clock[0].k)
    intercepts = predictor.rule.b[:k].tolist()
    examples = examples_of(predictor, X)
    if not k:
        return [{} for _ in examples]
    terms = terms_of(predictor, examples, k)
    by_output = [
        _explanations(terms, [row[c] for row in margins], intercepts[c], c) for c in range(k)
    ]
    return [dict(zip(labels, row, strict=False)) for row in zip(*by_output, strict=True)]


def _explanations(
    terms: FeatureTerms, margins: list[float], intercept: float, output: int = 0
) -> list[Explanation]:
    """Return the explanation of one output for each example."""
    columns = (terms.values, terms.weights[:, output], terms.contributions[:, output], terms.known)
    records = list(map(Contribution, terms.names, *(column.tolist() for column in columns)))
    found, lo = [], 0
    for count, margin in zip(terms.counts, margins, strict=True):
        found.append(explanation_of(records[lo : lo + count], intercept, margin))
        lo += count
    return found


def debug_text(explanation: Explanation | dict[Hashable, Explanation], decimals: int) -> str:
    """Return the table that `debug_one` returns: that of the predicted label if there are several.

    Parameters
    ----------
    explanation
        What `explain_one` returns.
    decimals
        Number of significant digits.
    """
    if isinstance(explanation, Explanation):
        return explanation.table(decimals)
    if not explanation:
        return "no label learnt yet"
    best = max(explanation, key=lambda label: explanation[label].margin)
    return f"label {printable(best)}\n{explanation[best].table(decimals)}"
