r"""Momentum of the lanes of `lane_mixture.py` over the rounds of a run in shards.

Where all parts of a round have seen a feature, their joined weight has moved less far than that of one learner that
reads everything, or further: which of them depends on the direction, and no candidate of `joined_lanes` fits all. So the
joined weights w move on by a share of the last move, that of the base $w_0$ since the base $w_{-1}$ of the round before,

$$w + \beta\,(w_0 - w_{-1})$$

Moves that fall short have the same direction in every round and add up to $1/(1 - \beta)$ of their length. Moves that go too
far are reversed in the next round and cancel out. How much of both there is changes with the number of shards and from round to
round. So there are five candidates:

| candidate | elastic nets | $\beta$ | coins | $\beta$ |
|---|---|---|---|---|
| `momentum` | `rho` | 1/2 | `rho` | 0 |
| `more-momentum` | `rho` | 3/4 | `rho` | 1/4 |
| `less-momentum` | `rho` | 1/4 | `rho` | 0 |
| `all-gains` | `rho` | 3/4 | `gains` | 0 |
| `mean-gains` | `rho` | 1/4 | `blend` | 1/4 |

Coins have less momentum since a coin that keeps winning also bets more.

Members of a group, whose rounds are short and are judged by few examples, have the candidates of `joined_lanes` and one more
(`GROUP_CANDIDATES`): `momentum`, of `rho` for both and $\beta$ = 1/2 for elastic nets.

The wealth of a coin and the sizes of its outcomes are those of all parts: Z becomes what bets the weight above, at most all
wealth. A weight of 0 stays 0. Intercepts and averages have no momentum; averages follow the weights.
"""  # noqa: E501

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import LANES
from streaml1.core.types import Floats
from streaml1.optim.structures.joined_lanes import LANE_CANDIDATES
from streaml1.optim.structures.lane_slots import WIDTH
from streaml1.optim.structures.lane_table import (
    BETS,
    DENOMINATOR,
    OVER_LARGEST,
    ROWS,
    UNIT,
    A,
    P,
)

__all__ = ["GROUP_CANDIDATES", "SHARD_CANDIDATES", "MovedCandidate", "add_momentum"]


class MovedCandidate(NamedTuple):
    """The candidates of `joined_lanes` for elastic nets and coins, and the momentum of both."""

    nets: str
    coins: str
    net_momentum: float
    coin_momentum: float


SHARD_CANDIDATES = {
    "momentum": MovedCandidate("rho", "rho", 0.5, 0.0),
    "more-momentum": MovedCandidate("rho", "rho", 0.75, 0.25),
    "less-momentum": MovedCandidate("rho", "rho", 0.25, 0.0),
    "all-gains": MovedCandidate("rho", "gains", 0.75, 0.0),
    "mean-gains": MovedCandidate("rho", "blend", 0.25, 0.25),
}
"""The candidates of runs in shards by name, in the order in which equal losses are decided."""

GROUP_CANDIDATES = {
    **{name: MovedCandidate(*kinds, 0.0, 0.0) for name, kinds in LANE_CANDIDATES.items()},
    "momentum": MovedCandidate("rho", "rho", 0.5, 0.0),
}
"""Those of members of a group, which learn on with undivided coins."""

GAMBLED, STORED, GAINS = (slice(LANES * line, LANES * (line + 1)) for line in range(3))


def add_momentum(joined: Any, base: Any, before: Any, candidate: MovedCandidate) -> None:
    """Move the weights of `joined` on by a share of those of `base` over those of `before`.

    All are rules over the same slots, with tables that are up to date.
    """
    slots, threshold = joined.slots.reshape(-1, WIDTH), _row(joined, A)
    factors = _factors(joined)
    w = _weights(joined, factors)
    momentum = np.repeat([candidate.net_momentum, candidate.coin_momentum], 4)
    move = momentum * (_weights(base, _factors(base)) - _weights(before, _factors(before)))
    moves = (w != 0.0) & (move != 0.0) & (factors > 0.0)
    w += move
    stored = np.divide(w, factors, out=np.zeros_like(w), where=moves)
    stored += np.copysign(threshold, stored)
    all_in = np.maximum(slots[:, GAMBLED], np.abs(slots[:, STORED]))
    all_in = np.where(_row(joined, BETS) > 0.0, all_in, np.inf)
    slots[:, STORED] = np.where(moves, np.clip(stored, -all_in, all_in), slots[:, STORED])


def _row(rule: Any, offset: Any) -> Floats:
    row: Floats = rule.table.reshape(ROWS, LANES)[int(offset) // LANES]
    return row


def _factors(rule: Any) -> Floats:
    """Return what a slot stores is multiplied by, beyond the threshold, for each slot and lane."""
    slots, bets = rule.slots.reshape(-1, WIDTH), _row(rule, BETS)
    stake = _row(rule, UNIT) + slots[:, GAINS] * (bets * _row(rule, OVER_LARGEST))
    denominator = _row(rule, DENOMINATOR) + slots[:, GAMBLED] * bets
    factors: Floats = _row(rule, P) * stake / denominator
    return factors


def _weights(rule: Any, factors: Floats) -> Floats:
    """Return the weights of each slot and lane: of x, of z, or of z / s for coins."""
    stored = rule.slots.reshape(-1, WIDTH)[:, STORED]
    threshold = _row(rule, A)
    return (stored - np.clip(stored, -threshold, threshold)) * factors
