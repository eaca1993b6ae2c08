"""Online-to-batch conversion: a predictor whose expected loss a regret bound limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.types import RowsLike
from streaml1.models.base import OnlineModel
from streaml1.models.frozen import Frozen

__all__ = ["random_iterate"]


def random_iterate(
    model: OnlineModel, X: RowsLike, y: Any, seed: int | None = None
) -> tuple[Frozen, int]:
    r"""Learn the rows of X, and return the model as it was before a random one of them.

    For examples drawn independently, the expected objective of the weights before a random step
    exceeds that of any fixed weights by at most the regret bound divided by the number of steps.
    This is the output of SMIDAS in Theorem 2 of Shalev-Shwartz & Tewari (2009). For learners with
    `average`, the mean of the weights has the same bound.

    Parameters
    ----------
    model
        A new learner; it has learnt all rows afterwards.
    X, y
        Rows and labels as in `learn_many`.
    seed
        Seed of the choice of the step.

    Returns
    -------
    The frozen model, and the number of rows that it has learnt.

    Examples
    --------
    >>> import streaml1
    >>> X = [{"cheap": 1}, {"hello": 1}, {"cheap": 1, "pills": 1}, {"hello": 1, "you": 1}]
    >>> model = streaml1.SMIDASClassifier(lr=1.0, n_features=4)
    >>> frozen, n_learnt = random_iterate(model, X, [True, False, True, False], seed=1)
    >>> n_learnt, len(frozen.weights), len(model.weights)
    (1, 1, 4)
    """
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    labels = np.asarray(y)
    if n == 0 or len(labels) != n:
        raise ValueError(
            f"a random iterate needs a label for each of at least one row, got {n} rows and "
            f"{len(labels)} labels"
        )
    rows: Any = X
    n_learnt = int(np.random.default_rng(seed).integers(n))
    model.learn_many(rows[:n_learnt], labels[:n_learnt])
    frozen = model.freeze()
    model.learn_many(rows[n_learnt:], labels[n_learnt:])
    return frozen, n_learnt
