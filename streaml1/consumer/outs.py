"""What may hear of a run: to write it elsewhere, or to show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from streaml1.consumer.run import Run

__all__ = ["Out", "Part", "Refused"]


class Part(NamedTuple):
    """Consecutive examples of a block, predicted and then learnt.

    Parameters
    ----------
    block
        Where they are of; `block.place(row)` tells the place of one.
    lo, hi
        The first row, and the one after the last.
    y, w
        Their labels as the model takes them, and their weights, or None. Where labels come late
        y is None of examples whose label has not come: they are predicted, and not learnt yet.
    p
        Their predictions, as `progressive_many` gives them.
    """

    block: Any
    lo: int
    hi: int
    y: Any
    w: Any
    p: Any


class Refused(NamedTuple):
    """An example that was refused.

    Parameters
    ----------
    place, reason
        Where it stands, and one sentence.
    origin
        What the source knows of it beside: of a topic its `Origin`, else None.
    """

    place: str
    reason: str
    origin: Any


class Out:
    """Hears what a run does; by itself it does nothing."""

    def begin(self, run: Run) -> None:
        """The run begins, or goes on from a checkpoint."""

    def predicted(self, part: Part) -> None:
        """Some examples were predicted, and learnt after."""

    def answered(self, part: Part) -> None:
        """Late labels have come: the rows of the block are theirs, p was told before."""

    def refused(self, refused: Refused) -> None:
        """An example was refused and left out."""

    def flush(self) -> None:
        """What was heard must be safe on return: a checkpoint is about to pass it."""

    def saved(self) -> None:
        """A checkpoint was written."""
