"""What a page shows, as JSON: one section per part of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streaml1.core.text_table import printable
from streaml1.core.types import Bools, Floats
from streaml1.training.page.history import Columns, Mark, latest_marks
from streaml1.training.report import Line
from streaml1.training.report.reliability import reliability_bins

__all__ = [
    "Section",
    "explanation_section",
    "improvement",
    "loss_section",
    "reliability_section",
    "tiles_section",
]

N_SCORE_BINS = 30

Section = dict[str, Any]


def tiles_section(
    values: Mapping[str, Any], health: Mapping[str, Any], last: Line | None
) -> Section:
    """Return the tiles of a run.

    Parameters
    ----------
    values
        Its metrics by name.
    health
        What ``/health`` shows.
    last
        Last line of the report, once the run has ended; else None.
    """
    lag = values.get("lag")
    is_ended = last is not None
    status = "ended" if is_ended and health["status"] != "red" else health["status"]
    words = {"starting": "starting", "green": "healthy", "ended": "the run has ended"}
    recent = values.get("recent_loss", values.get("loss"))
    calibration = values.get("recent_calibration", values.get("calibration"))
    if last is not None and last.recent_calibration is not None:
        calibration = last.recent_calibration
    return {
        "examples": values.get("model_examples"),
        "per_second": values.get("examples_per_second")
        if last is None
        else last.examples / max(last.seconds, 1e-9),
        "recent_loss": recent if last is None else last.recent_loss,
        "better": improvement(values.get("loss"), values.get("constant_loss")),
        "nonzero": values.get("nonzero_weights"),
        "calibration": calibration,
        "lag": None if lag is None else sum(lag.values()),
        "checkpoint_age": None if is_ended else values.get("checkpoint_age_seconds"),
        "status": status,
        "health": "; ".join(health["reasons"]) or words[status],
    }


def improvement(loss: float | None, baseline: float | None) -> float | None:
    """Return the share of the loss of the baseline that the model saves."""
    if loss is None or baseline is None or not math.isfinite(loss) or baseline <= 0.0:
        return None  # the Poisson loss may be negative
    return 1.0 - loss / baseline


def loss_section(columns: Columns, marks: Sequence[Mark], loss_name: str) -> Section:
    """Return the curves of the losses with the marks of events."""
    kept = [mark._asdict() for mark in latest_marks(marks)]
    return {"name": loss_name, "columns": columns, "marks": kept}


def reliability_section(p: Floats, y: Bools) -> Section:
    """Return observed rates by predicted probability, and the histogram of the predictions."""
    p, y = p[finite := np.isfinite(p)], y[finite]
    if not len(p):
        return {"bins": [], "edges": [], "counts": []}
    counts, edges = np.histogram(p, N_SCORE_BINS)
    bins = [found._asdict() for found in reliability_bins(p, y)]
    return {"bins": bins, "edges": edges.tolist(), "counts": counts.tolist()}


def explanation_section(learner: Any, x: dict[Any, Any]) -> Section:
    """Return what the features of an example contribute to its prediction.

    With several labels it is the margin of the most probable one.

    Raises
    ------
    BadExample
        If a value is invalid.
    """
    explanation = learner.explain_one(x)
    section: Section = {}
    if isinstance(explanation, dict):
        if not explanation:
            return {"features": [], "margin": 0.0}
        label = max(explanation, key=lambda label: explanation[label].margin)
        section["label"] = str(label)
        section["p"] = learner.predict_proba_one(x).get(label)
        explanation = explanation[label]
    elif getattr(learner, "loss", None) == "logistic":
        section["p"] = learner.predict_proba_one(x)[True]
    elif not hasattr(learner, "predict_proba_one"):
        section["value"] = learner.predict_one(x)
    records = [
        {**record._asdict(), "name": printable(record.name)} for record in explanation.features
    ]
    return {
        **section,
        "margin": explanation.margin,
        "intercept": explanation.intercept,
        "features": records,
    }
