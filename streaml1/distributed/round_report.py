"""What happened in the rounds of `train`."""

from __future__ import annotations

from typing import Any, NamedTuple

from streaml1.core.text_table import TableColumn, render_table
from streaml1.training.merge import Candidate

__all__ = ["Round", "Trained"]


class Round(NamedTuple):
    """What happened in a round.

    Parameters
    ----------
    name
        ``warm-up``, the number of the round, or ``rest`` for the rows that judged the last one.
    rows
        Rows that were learnt.
    loss
        Their mean progressive loss; None if their sample weights are 0. A shard predicts a row from
        the model before the round and the earlier rows of the shard.
    candidates
        The models that a merge chose from, judged on the rows that follow; none without a merge.
    chosen
        The name of the best of them; empty without a merge.
    n_nonzero
        Non-zero weights after the round.
    n_bytes
        Bytes of the models that were sent to the shards and back.
    seconds
        Seconds that the round took.
    """

    name: str
    rows: int
    loss: float | None
    candidates: list[Candidate]
    chosen: str
    n_nonzero: int
    n_bytes: int
    seconds: float


class Trained(NamedTuple):
    """Result of `train`.

    Parameters
    ----------
    model
        The model.
    rounds
        What happened in each round.
    shards
        The number of shards.
    loss_name
        What the losses are, such as ``log-loss``.
    """

    model: Any
    rounds: list[Round]
    shards: int
    loss_name: str

    def table(self) -> str:
        """Return a line per round: progressive loss, then the loss of each candidate."""
        joined = {_heading(one): None for line in self.rounds for one in line.candidates}
        ends = ["chosen", "non-zeros", "bytes", "seconds"]
        heads = ["round", "rows", self.loss_name, *joined, *ends]
        columns = [TableColumn(head, "right") for head in heads]
        rows = []
        for line in self.rounds:
            losses = {_heading(one): f"{one.loss:.4f}" for one in line.candidates}
            loss = "" if line.loss is None else f"{line.loss:.4f}"
            cells = [losses.get(name, "") for name in joined]
            ending = [
                line.chosen, f"{line.n_nonzero:,}", f"{line.n_bytes:,}", f"{line.seconds:.1f}",
            ]  # fmt: skip
            rows.append([line.name, f"{line.rows:,}", loss, *cells, *ending])
        return render_table(columns, rows, gap=2)


def _heading(candidate: Candidate) -> str:
    """Return the head of the column of a candidate; that of the best part differs by round."""
    return "best part" if candidate.name.startswith("model ") else candidate.name
