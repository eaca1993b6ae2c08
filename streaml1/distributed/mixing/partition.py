"""The examples of one partition that are not merged yet, and the model that has learnt them.

The model is always the newest base after the open examples, in order. It is a function of the base
and of the offsets: an owner that resumes, or one that repeats the work of another, makes the same
part.

When a new base arrives, the open examples that it lacks are learnt again, on top of it. Usually
these are the few that came after the last part.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, Protocol

from streaml1.training.mixed_models.messages import Base, Part
from streaml1.training.mixed_models.state import MixState

__all__ = ["Learner", "OpenPartition", "Piece"]


class Piece(NamedTuple):
    """Consecutive records of a partition.

    Parameters
    ----------
    hi
        Offset after the last record. The piece begins where the one before ends.
    examples
        Number of examples.
    rows
        The examples.
    """

    hi: int
    examples: int
    rows: Any


class Learner(Protocol):
    """The model of a partition."""

    def restore(self, data: bytes) -> None:
        """Replace the model."""

    def learn(self, rows: Any) -> None:
        """Learn some rows once more."""

    def encode(self) -> bytes:
        """Return the model as bytes."""


class OpenPartition:
    """A partition of this process.

    Parameters
    ----------
    partition
        The partition.
    learner
        Its model.
    every
        Number of examples of a part.
    origin
        Offset to start from if no base has examples of the partition.

    Attributes
    ----------
    hi : int
        Offset of the next record.
    epoch : int
        Epoch of this owner.
    """

    def __init__(self, partition: int, learner: Learner, every: int, origin: int = 0) -> None:
        self.partition, self.every = partition, every
        self._learner, self._origin = learner, origin
        self.epoch = 0
        self.lo = self.hi = origin
        self._base: Base | None = None
        self._base_id = ""
        self._pieces: deque[Piece] = deque()
        self._published: int | None = None  # end of the part that waits for a merge

    def start(self, state: MixState) -> int:
        """Resume from the state of the topic; return the offset to read from."""
        assert state.base is not None
        self.epoch = state.next_epoch(self.partition)
        self.adopt(state.base, state.base_id)
        part = state.parts.get(self.partition)
        if part is not None and state.is_mergeable(part) and part.lo == self.lo:
            self._learner.restore(part.data)
            self.lo = self.hi = self._published = part.hi
        return self.hi

    def adopt(self, base: Base, base_id: str) -> bool:
        """Continue from a base; return whether reading must restart at `hi`."""
        self._base, self._base_id, self._published = base, base_id, None
        frontier = base.frontier.get(self.partition, self._origin)
        while self._pieces and self.lo < frontier:
            self.lo = self._pieces.popleft().hi
        # The frontier is inside a piece, as another owner has cut it, or not read yet.
        must_seek = self.lo != frontier
        if must_seek:
            self._pieces.clear()
            self.lo = self.hi = frontier
        self._learner.restore(base.data)
        for piece in self._pieces:
            self._learner.learn(piece.rows)
        return must_seek

    def add(self, piece: Piece) -> None:
        """Add records that the model has just learnt."""
        self._pieces.append(piece)
        self.hi = piece.hi

    @property
    def open_examples(self) -> int:
        """Number of examples that are in no part yet."""
        return sum(piece.examples for piece in self.unpublished())

    def unpublished(self) -> list[Piece]:
        """Return the records that are in no part yet."""
        published = self._published or 0
        return [piece for piece in self._pieces if piece.hi > published]

    @property
    def is_waiting(self) -> bool:
        """Whether a part waits for a merge."""
        return self._published is not None

    def room(self) -> int:
        """Return how many more examples complete this part, or the next one; at least 1."""
        return self.every - self.open_examples % self.every

    @property
    def is_due(self) -> bool:
        """Whether a part is complete, and none waits for a merge."""
        return not self.is_waiting and self.open_examples >= self.every

    def cut(self) -> Part:
        """Return the part of all open records."""
        assert self._base is not None
        self._published = self.hi
        return Part(
            partition=self.partition, epoch=self.epoch, base=self._base_id, round=self._base.round,
            lo=self.lo, hi=self.hi, examples=sum(piece.examples for piece in self._pieces),
            data=self._learner.encode(),
        )  # fmt: skip
