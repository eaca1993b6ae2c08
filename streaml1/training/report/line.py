"""One line of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, get_type_hints

__all__ = ["LINE_TYPES", "Line", "line_after", "thinned"]

MIN_STEP = 1000
RECENT_LINES = 1000


def line_after(examples: int, every: int | None) -> int:
    """Return the number of examples at which the next line is due.

    Parameters
    ----------
    examples
        Examples so far.
    every
        Examples from one line to the next. None: 1,000 up to 10,000 examples, 10,000 up to
        100,000, and so on. A line reads all weights, so its share of the run must stay small.

    Examples
    --------
    >>> line_after(0, None), line_after(9_000, None), line_after(10_000, None)
    (1000, 10000, 20000)
    >>> line_after(1_250, 500)
    1500
    """
    step = every or max(MIN_STEP, 10 ** (len(str(examples)) - 1))
    return examples - examples % step + step


def thinned(lines: Sequence[Line]) -> list[Line]:
    """Return at most 2,000 lines for a checkpoint: the last 1,000, and every k-th before them.

    Checkpoints would grow without bound otherwise.
    """
    older, recent = lines[:-RECENT_LINES], lines[-RECENT_LINES:]
    step = max(1, math.ceil(len(older) / RECENT_LINES))
    return [*older[::step], *recent]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a report: the state of a run after some number of examples.

    All means are weighted by the sample weights. A field is None where it is undefined: a mean
    over examples without weight, a figure that the model does not provide, or a figure for skewed
    labels where the labels are not skewed.

    Parameters
    ----------
    examples
        Examples learnt so far.
    loss_name
        Name of the loss; "log-loss" only for the logistic loss.
    recent_loss
        Mean loss over the examples since the previous line.
    loss
        Mean progressive loss: each example is predicted just before it is learnt.
    constant_loss
        Mean progressive loss of the baseline, which predicts a constant from the labels so far.
        For the logistic loss it predicts (n1 + 1/2) / (n + 1) before each example, with n1 of n
        examples labelled True. With k labels known it gives each (n_c + 1/2) / (n + k/2). For the
        hinges it predicts the constant margin with the smallest mean loss at this rate, for
        regressors the mean of the values so far (0 before the first).
    error
        Share of wrong labels; for regressors the mean absolute error.
    n_nonzero
        Non-zero weights, with pending shrinkage applied.
    n_features_seen
        Distinct features in the examples so far.
    sparsity
        1 - n_nonzero / n_features_seen; with k labels, relative to k times as many weights.
    share_of_d
        n_nonzero / d, where the source knows its number of features d.
    born, died
        Features added to the model (their weight became non-zero) and dropped from it since the
        previous line.
    cut
        Weights dropped so far because of `max_features`.
    auc
        Skewed labels only: area under the ROC curve over the last 2**20 examples, exact, without
        sample weights.
    mean_prediction, rate
        Logistic loss only: the mean predicted probability of True and the observed rate of True.
    normalised_entropy
        Skewed labels and logistic loss only: `loss` divided by the entropy of `rate` (He et al.,
        2014, "Practical lessons from predicting clicks on ads at Facebook").
    refused
        Examples that were rejected, and not learnt.
    seconds
        Seconds since the run began to read.
    per_second
        Examples per second since the previous line.
    n_nonzero_rows
        With several labels: features that have a non-zero weight for any of them.
    calibration
        Logistic loss: `mean_prediction` / `rate`. Several labels: the mean probability of the
        predicted label / the share of right labels (confidence and accuracy of Guo et al., 2017,
        "On calibration of modern neural networks"). 1 is calibrated; above 1 the model predicts
        too much. None if the divisor is 0, and for losses without probabilities.
    recent_calibration
        The same over the examples since the previous line.
    warnings
        Warnings about the data since the previous line, one sentence each.
    pass_number
        Number of the pass, from 1.
    held_out
        Whether the means are over held-out rows of this pass only; see `RunConfig.holdout`.
    drifts
        Drifts found since the previous line: rises of the loss, each with the fields of
        `streaml1.training.drift.Drift`.
    cumulative_loss
        Cumulative progressive loss: the weighted sum whose mean is `loss`.
    cumulative_constant_loss
        The same of the baseline.
    """

    examples: int
    loss_name: str
    recent_loss: float | None
    loss: float | None
    constant_loss: float | None
    error: float | None
    n_nonzero: int | None
    n_features_seen: int | None
    sparsity: float | None
    share_of_d: float | None
    born: int | None
    died: int | None
    cut: int | None
    auc: float | None
    mean_prediction: float | None
    rate: float | None
    normalised_entropy: float | None
    refused: int
    seconds: float
    per_second: float
    n_nonzero_rows: int | None = None
    calibration: float | None = None
    recent_calibration: float | None = None
    warnings: list[str] = field(default_factory=list)
    pass_number: int = 1
    held_out: bool = False
    drifts: list[dict[str, Any]] = field(default_factory=list)
    cumulative_loss: float | None = None
    cumulative_constant_loss: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return all fields by name."""
        return asdict(self)

    @property
    def skewed(self) -> bool:
        """Whether the figures for skewed labels are present."""
        return self.auc is not None or self.normalised_entropy is not None


LINE_TYPES: dict[str, Any] = get_type_hints(Line)
"""The type of each field."""
