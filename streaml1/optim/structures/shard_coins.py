r"""Coins of `lane_mixture.py` in the shards of a run, at a clock of their own.

The weight of a coin is its fraction $Z / (L + G)$ times its wealth: an outcome moves it the less, the more the coin has
bet, G. If K shards learn on from G and their fractions are averaged, the coin moves by 1/K of what one learner moves it. As
the rates of elastic nets, which a shard takes from a clock of 1/K of the rows, its coins start from

$$G' = G / m, \qquad Z' = Z\,\frac{L + G'}{L + G}, \qquad m = \frac{c K}{c + K - 1}$$

with the same fraction. c is the number of rows of the round that are expected to have the feature. m is then about $1 / \sum_k v_k^2$,
the effective number of shards that will share them: nearly 1 for a feature that only one shard will see, whose fraction is not
averaged, and nearly K for a frequent one.

Afterwards the fractions are averaged as in `joined_coins`, and all that was bet counts: G and what each shard has added to G'.

With l1 or l2, Z is compared with a threshold for all examples, so that coins are not divided.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from streaml1.core.types import Floats
from streaml1.optim.structures.joined_coins import Coins

__all__ = ["divided_coins", "undivided_coins"]


def divided_coins(coins: Coins, L: Floats, counts: Floats, share: float, shards: int) -> Coins:
    """Return what the coins of each shard start from.

    Parameters
    ----------
    coins
        The coins of the base, a row for each feature.
    L
        The largest outcome of each coin.
    counts
        For each feature, the number of rows so far that had it.
    share
        The number of rows of the round, relative to that of the rows so far.
    shards
        Number of shards.
    """
    expected = counts * share
    m = np.maximum(expected * shards / (expected + (shards - 1.0)), 1.0)
    G = coins.G / m[:, None]
    return Coins(coins.Z * ((L + G) / (L + coins.G)), G, coins.R)


def undivided_coins(
    joined: Iterable[tuple[str, Coins]], base: Coins, divided: Coins, L: Floats
) -> Iterator[tuple[str, Coins]]:
    """Yield candidates that shards have learnt from divided coins, as continuing the base."""
    for name, (Z, G, R) in joined:
        bets = G - divided.G
        whole = base.G + bets
        yield name, Coins(np.where(bets > 0.0, Z * ((L + whole) / (L + G)), base.Z), whole, R)
