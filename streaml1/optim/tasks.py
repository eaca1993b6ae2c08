"""Names of the losses for classification and for regression.

Importing this module does not load numpy: the command line starts with it.
"""

from __future__ import annotations

from streaml1.optim.losses import LOSSES

__all__ = ["CLASSIFICATION", "REGRESSION"]

CLASSIFICATION = tuple(loss.name for loss in LOSSES if loss.task == "classification")
REGRESSION = tuple(loss.name for loss in LOSSES if loss.task == "regression")
