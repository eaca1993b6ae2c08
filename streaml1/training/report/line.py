"""One line of a report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Line", "line_after"]

LEAST_EVERY = 1000


def line_after(examples: int, every: int | None) -> int:
    """After how many examples the line comes that follows some number of examples.

    `every` tells from one to the next. None: 1,000 up to 10,000 examples, 10,000 up to 100,000, and
    so on: a line looks at all weights, which is to cost no more than a share of the learning.

    Examples
    --------
    >>> line_after(0, None), line_after(9_000, None), line_after(10_000, None)
    (1000, 10000, 20000)
    >>> line_after(1_250, 500)
    1500
    """
    step = every or max(LEAST_EVERY, 10 ** (len(str(examples)) - 1))
    return examples - examples % step + step


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a report: how things stood after some number of examples.

    All means are weighted by the sample weights. What cannot be told is None: a mean over
    examples without weight, what a model does not count, what only matters for skewed labels.

    Parameters
    ----------
    examples
        How many examples have been learnt.
    loss_name
        What the loss is called: log-loss only for the logistic loss.
    recent_loss
        Mean loss over the examples since the line before.
    loss
        Mean loss over all examples; each was predicted just before it was learnt.
    constant_loss
        Mean loss of the progressive constant predictor: before each example it says
        (n1 + 1/2) / (n + 1), with n1 of n examples labelled True so far; of k labels known by
        then it gives each (n_c + 1/2) / (n + k/2). For the hinges it says
        the constant margin that has the least mean loss at this rate, for regressors the mean of
        the values so far (0 before the first).
    error
        Share of wrong labels; for regressors the mean absolute error.
    n_nonzero
        How many weights were not zero, pending shrinkage included.
    n_features_seen
        How many features the examples have had.
    sparsity
        1 - n_nonzero / n_features_seen; where there are k labels, of k times as many weights.
    share_of_d
        n_nonzero / d, where the source knows its number of features d.
    born, died
        How many features have entered the model since the line before, from a weight of zero, and
        how many have left it.
    cut
        How many weights were given up so far because of `max_features`.
    auc
        Skewed labels only: area under the ROC curve over the last 2**20 examples, exact, sample
        weights aside.
    mean_prediction, rate
        Skewed labels only: calibration is how near these two are, the mean predicted probability
        of True and the share of True. Logistic loss only.
    normalised_entropy
        Skewed labels only: `loss` over the entropy of `rate` (He et al., 2014). Logistic only.
    refused
        How many examples were refused, and not learnt.
    seconds
        Since the first example was asked for.
    per_second
        Examples a second since the line before.
    n_nonzero_rows
        How many features have a weight that is not zero, where there are many labels.
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

    def as_dict(self) -> dict[str, Any]:
        """All fields by name."""
        return asdict(self)

    @property
    def skewed(self) -> bool:
        """Whether what is told of skewed labels only is there."""
        return self.auc is not None or self.normalised_entropy is not None
