"""The owner of partition 0 merges the parts of a round, and publishes the next base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from streaml1.distributed.mixing.partition import Piece
from streaml1.training.mixed_models.messages import Base, Part, Rank, Scores
from streaml1.training.mixed_models.state import MixState

__all__ = ["PROBE_SHARE", "Join", "Joined", "Merger"]

PROBE_SHARE = 5
"""A merge is judged by a fifth of the examples of a part, at least."""

RECLAIM_WAITS = 10
"""Number of waits without a new base after which the epoch of another run is taken over."""


class Joined(NamedTuple):
    """Result of joining parts: the model, its number of examples, and the updated scores."""

    data: bytes
    examples: int
    scores: Scores


class Join(Protocol):
    """Joins parts to one model."""

    def __call__(self, base: Base, parts: Sequence[Part], probe: Sequence[Any]) -> Joined:
        """Join parts in the order of their partitions, judged on rows that none has learnt."""


class Merger:
    """Decides when a round ends.

    A round ends when all partitions that took part in the last ones have published their parts, or
    some time after the first part. A partition that missed a round is waited for again from its
    next part on.

    Parameters
    ----------
    writer
        Id of this run, in hexadecimal digits.
    wait
        Seconds to wait for parts, and for examples that judge the merge.
    join
        Joins parts.
    min_probe
        Number of examples that judge a merge, at least, unless they do not come in time.
    """

    def __init__(self, writer: str, wait: float, join: Join, min_probe: int = 1) -> None:
        self._writer, self._wait, self._join = writer, wait, join
        self._min_probe = min_probe
        self._expected: set[int] = set()
        self._seen: dict[int, int] = {}
        self._round_id, self._since = "", 0.0
        self._pending: Rank | None = None  # rank of a base that is published, and not read yet
        self._last_probe: list[Any] = []

    def claim(self, state: MixState, initial: Base | None, now: float) -> Base:
        """Return the first base of this run: the newest one, or the given one without any."""
        newest = state.base or initial
        assert newest is not None
        base = newest._replace(epoch=newest.epoch + 1, writer=self._writer)
        self._pending, self._round_id, self._since = base.rank, "", now
        return base

    def is_fenced(self, state: MixState, now: float) -> bool:
        """Return whether the bases of another run count, and it has been silent for long."""
        if state.base is None or state.base.writer == self._writer:
            return False
        if state.base_id != self._round_id:
            self._round_id, self._since = state.base_id, now
        if self._pending is not None and state.base.rank < self._pending:
            return False  # the claim is under way
        return now - self._since > RECLAIM_WAITS * self._wait

    def step(self, state: MixState, probe: Sequence[Piece], now: float) -> Base | None:
        """Return the next base if the round is over.

        Parameters
        ----------
        state
            State of the topic.
        probe
            The records of partition 0 that are in no part.
        now
            Time in seconds.
        """
        base = state.base
        if base is None or base.writer != self._writer:
            return None
        if self._pending is not None and base.rank < self._pending:
            return None
        parts = state.mergeable()
        self._expected |= {p for p, n in state.seen.items() if n > self._seen.get(p, 0)}
        self._seen = dict(state.seen)
        if not parts:
            return None
        if self._round_id != state.base_id:
            self._round_id, self._since = state.base_id, now
        is_late = now - self._since > self._wait
        n_examples = sum(piece.examples for piece in probe)
        is_complete = n_examples >= self._min_probe and self._expected <= parts.keys()
        if not is_complete and not is_late:
            return None
        self._expected = set(parts)
        if n_examples:
            self._last_probe = [piece.rows for piece in probe if piece.examples]
        joined = self._join(base, list(parts.values()), self._last_probe)
        frontier = {**base.frontier, **{p: part.hi for p, part in parts.items()}}
        merged = base._replace(
            round=base.round + 1, frontier=frontier, scores=joined.scores,
            examples=joined.examples, data=joined.data,
        )  # fmt: skip
        self._pending = merged.rank
        return merged
