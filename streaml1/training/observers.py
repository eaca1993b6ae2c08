"""What may hear of a run: to write it elsewhere, or to show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from streaml1.training.run import Run

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
    learnt
        How many examples the model had learnt when it predicted the first; None: as many as it has
        now, without those of the part that are learnt.
    """

    block: Any
    lo: int
    hi: int
    y: Any
    w: Any
    p: Any
    learnt: int | None = None


class Refused(NamedTuple):
    """An example that was refused.

    Parameters
    ----------
    place, reason
        Where it stands, and one sentence.
    origin
        What the source knows of it beside: of a topic its `Origin`, else None.
    number
        Of the example in this reading of the source, from 1; of a file the line.
    """

    place: str
    reason: str
    origin: Any
    number: int


class Out:
    """Hears what a run does; by itself it does nothing."""

    def room(self) -> int:
        """The most examples that the next part may have, for who looks at the weights after it."""
        return 2**62

    def heed(self, stopped: Callable[[], bool]) -> None:
        """Wait for nobody for long once `stopped` is true; heard before the run begins."""

    def begin(self, run: Run) -> None:
        """The run begins, or goes on from a checkpoint."""

    def look(self, model: Any) -> None:
        """The predictions that come are those of a model that learns nothing; no run begins."""

    def predicted(self, part: Part) -> None:
        """Some examples were predicted, and learnt after."""

    def answered(self, part: Part) -> None:
        """Late labels have come: the rows of the block are theirs, p was told before."""

    def refused(self, refused: Refused) -> None:
        """An example was refused and left out."""

    def fed(self) -> None:
        """A block is done with; empty ones come while a topic has no new records."""

    def next_pass(self) -> None:
        """The source is read from its start again."""

    def holds(self) -> bool:
        """Whether no checkpoint is to be written now."""
        return False

    def flush(self) -> None:
        """What was heard must be safe on return: a checkpoint is about to pass it."""

    def saved(self) -> None:
        """A checkpoint was written."""

    def numbers(self) -> dict[str, float]:
        """What metrics show of it, by names such as ``dead_letters_total``; from any thread.

        What only grows has a name that ends in ``_total``.
        """
        return {}

    def finish(self) -> None:
        """The run ends well: what was heard must be safe on return."""
        self.flush()
