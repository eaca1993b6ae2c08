"""Held-out rows of a run with several passes, and the model of the best pass.

From the second pass on, the loss of rows that were learnt before says little about new ones. So
every N-th line is held out: it is predicted in every pass, before the rows of its batch are learnt,
and it is learnt in none. The lines are chosen by their number, hence the same in each pass and
after a resume. As in Vowpal Wabbit, the model of the pass with the smallest loss on them is the
result of the run. Records of a topic are chosen by their offset.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streaml1 import models
from streaml1.core.rows import BadExample
from streaml1.core.types import Bools, Ints
from streaml1.models.pipelines import adopt_state, snapshot
from streaml1.models.serialization import ModelFileError
from streaml1.training.batches import LabelledBlock
from streaml1.training.example_sources import ExampleBlock
from streaml1.training.model_adapter import BatchFunction
from streaml1.training.report.sums import Sums
from streaml1.training.saved_state import require_like, require_type

__all__ = ["DEFAULT_EVERY", "HeldOut", "act_on_parts"]

DEFAULT_EVERY = 10


def act_on_parts(
    labelled: LabelledBlock,
    lo: int,
    mask: Bools,
    learn: BatchFunction,
    predict: BatchFunction,
    unknown: Callable[[Any], Bools],
) -> Any:
    """Predict the held-out rows of a batch, then predict and learn the others.

    All rows of a part are handled at once: single rows cost a hundred times as much.

    Parameters
    ----------
    labelled
        The block.
    lo
        First row.
    mask
        A flag for each row of the batch: whether it is held out.
    learn, predict
        Functions of features, labels and weights.
    unknown
        Returns which of some labels the model does not know. Rows with such a label are not
        predicted: their prediction is 0.

    Returns
    -------
    ndarray
        Predictions of the rows, which may be only the first few.

    Raises
    ------
    BadExample
        If a row is rejected; `row` counts from the first row of the batch. Nothing is learnt.
    """
    held, rest = np.flatnonzero(mask), np.flatnonzero(~mask)
    if len(held):
        held = held[~unknown([labelled.y[lo + row] for row in held.tolist()])]
    first = _act(predict, labelled, lo, held)
    second = _act(learn, labelled, lo, rest)
    shape = second.shape[1:] if len(rest) else first.shape[1:]
    p = np.zeros((len(mask), *shape))
    if len(first):
        # Classes first seen in the other rows of the batch have no probability.
        target = p if first.ndim == 1 else p[:, : first.shape[1]]
        target[held] = first
    p[rest[: len(second)]] = second
    return p if len(second) == len(rest) else p[: rest[len(second)]]


def _act(act: BatchFunction, labelled: LabelledBlock, lo: int, rows: Ints) -> Any:
    if not len(rows):
        return np.empty(0)
    try:
        return np.asarray(act(*labelled.select(lo + rows)), np.float64)
    except BadExample as error:
        raise BadExample(error.reason, int(rows[error.row])) from None


class HeldOut:
    """State of the held-out rows of a run; a part of its checkpoints.

    Parameters
    ----------
    every
        Every N-th line is held out; 0 holds out none.

    Attributes
    ----------
    first_pass : Sums
        Sums over the held-out rows of the first pass, whose report covers all rows.
    n_closed : int
        Number of passes that have ended and were compared.
    best_pass : int
        Number of the pass with the smallest loss so far, from 1; 0 before the first ended.
    best_loss : float
        Its mean loss on held-out rows.
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self.first_pass = Sums()
        self.n_closed = 0
        self.best_pass = 0
        self.best_loss = math.inf
        self._best: Any = None

    def mask(self, block: ExampleBlock, lo: int, hi: int) -> Bools | None:
        """Return which of consecutive rows are held out; None if none is."""
        if not self.every or lo == hi:
            return None
        numbers: Any = block.lines[lo:hi]
        if block.origin(lo) is not None:
            # The order of partitions varies between passes, and lines count from a resume.
            origins = map(block.origin, range(lo, hi))
            numbers = [origin.offset + 1 for origin in origins if origin is not None]
        held: Bools = np.asarray(numbers) % self.every == 0
        return held if held.any() else None

    def close_pass(self, model: Any, number: int, loss: float | None) -> None:
        """Keep a copy of the model if a pass had the smallest loss so far."""
        self.n_closed = number
        if self.is_best(loss):
            assert loss is not None
            self.best_pass, self.best_loss = number, loss
            try:
                self._best = snapshot(model, packed=False)()
            except ModelFileError:  # a pipeline that no file, and so no checkpoint, can hold
                self._best = copy.deepcopy(model)

    def is_best(self, loss: float | None) -> bool:
        """Return whether a loss is smaller than that of all passes before."""
        return loss is not None and loss < self.best_loss

    def restore_best(self, model: Any) -> None:
        """Give a model the state of the best pass."""
        best = self._best
        if isinstance(best, bytes):
            best = models.decode(best, "the model of the best pass")
        adopt_state(model, best)

    # State

    def state_dict(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state as (JSON values, arrays)."""
        facts = {
            "every": self.every,
            "first_pass": vars(self.first_pass),
            "n_closed": self.n_closed,
            "best_pass": self.best_pass,
            "best_loss": self.best_loss if self.best_pass else None,
        }
        if not isinstance(self._best, bytes):
            return facts, {}
        return facts, {"best_model": np.frombuffer(self._best, np.uint8)}

    def load_state_dict(self, facts: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue the state of a checkpoint; raise ValueError if it is not such a state."""
        counts = {name: facts[name] for name in ("every", "n_closed", "best_pass")}
        require_like(counts, dict.fromkeys(counts, 0), "held-out rows")
        require_like(facts["first_pass"], vars(Sums()), "held-out rows")
        require_type(facts["best_loss"], float | None, "best_loss")
        if "best_model" in arrays and arrays["best_model"].dtype != np.uint8:
            raise ValueError("best_model does not consist of bytes")
        self.every = facts["every"]
        vars(self.first_pass).update(facts["first_pass"])
        self.n_closed, self.best_pass = facts["n_closed"], facts["best_pass"]
        self.best_loss = math.inf if facts["best_loss"] is None else facts["best_loss"]
        self._best = arrays["best_model"].tobytes() if "best_model" in arrays else None
