"""The losses: name, code in the kernels, and kind of label.

This module imports nothing, so that the command line can list the losses without numpy.
"""

from typing import NamedTuple

__all__ = ["CLASSIFICATION", "LOSSES", "REGRESSION", "Loss"]


class Loss(NamedTuple):
    """A loss of one margin and one label.

    Attributes
    ----------
    name
        The value of the parameter `loss`.
    code
        Its code in the kernels of `losses.py`, stored in model files.
    task
        "classification" for labels of two kinds, "regression" for numbers.
    """

    name: str
    code: int
    task: str


LOSSES = (
    Loss("logistic", 0, "classification"),
    Loss("hinge", 1, "classification"),
    Loss("smoothed_hinge", 2, "classification"),
    Loss("squared", 3, "regression"),
    Loss("absolute", 4, "regression"),
)

CLASSIFICATION = tuple(loss.name for loss in LOSSES if loss.task == "classification")
REGRESSION = tuple(loss.name for loss in LOSSES if loss.task == "regression")
