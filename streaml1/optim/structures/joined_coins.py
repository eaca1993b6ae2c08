r"""Candidates for coins of several models that have learnt parts of a stream.

A coin has the sum Z of its outcomes, the sum G of their sizes and its gains R; its weight is
$Z / (L + G)$ times its wealth, with L the largest outcome. From a base $Z_0, G_0, R_0$ and K parts that have
continued betting from it, with $G = G_0 + \sum_k (G_k - G_0)$, $v_k = (G_k - G_0) / (G - G_0)$, $1/m = \sum_k v_k^2$, and
$B = (L + G) \sum_k v_k\, Z_k / (L + G_k)$:

| candidate | Z | G | R |
|---|---|---|---|
| `sum` | $Z_0 + \sum_k (Z_k - Z_0)$ | G | $R_0 + \sum_k (R_k - R_0)$ |
| `gains` | B | G | $R_0 + \sum_k (R_k - R_0)$ |
| `rho` | B | G | $R_0 + \sqrt m \sum_k v_k (R_k - R_0)$ |
| `blend` | B | G | $R_0 + \sum_k v_k (R_k - R_0)$ |

With $G_0 = 0$ the sums bet the mean of the parts' fractions $Z_k / G_k$. After a base that has lost, each part corrects the same
fraction, and sums of these corrections go too far: B bets the mean of the parts' fractions there, too. The gains of one
learner grow with its wealth, more than those of all parts together; but where parts have won by the same correction, all
gains count it several times. m is about the number of parts that have bet the coin. A coin that one part alone has bet is
that part's in all candidates.

A part with $G_k < G_0$ has dropped the coin and started again: it continues zeros.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from streaml1.core.types import Floats

__all__ = ["Coins", "joined_coins"]


class Coins(NamedTuple):
    """The sums of coins, in arrays of one shape."""

    Z: Floats
    G: Floats
    R: Floats


def joined_coins(base: Coins, parts: Sequence[Coins], L: Floats) -> Iterator[tuple[str, Coins]]:
    """Yield the candidates; `L` is at least the largest outcome of each coin."""
    Z, G, R = base
    moved, bets, norms, gained, fractions, gains = (np.zeros(np.shape(Z)) for _ in range(6))
    for part in parts:
        continued = part.G >= G
        bet = part.G - np.where(continued, G, 0.0)
        gain = part.R - np.where(continued, R, 0.0)
        bets += bet
        norms = np.hypot(norms, bet)  # squares of large sums would overflow
        moved += part.Z - np.where(continued, Z, 0.0)
        gained += gain
        fractions += bet * _quotients(part.Z, L + part.G)
        gains += bet * gain
    whole = G + bets
    yield "sum", Coins(Z + moved, whole, np.maximum(R + gained, 0.0))
    some = bets > 0.0
    blended = np.where(some, (L + whole) * _quotients(fractions, bets), Z)
    mean = _quotients(gains, bets)
    root_m = _quotients(bets, norms)
    for name, gain in (("gains", gained), ("rho", root_m * mean), ("blend", mean)):
        yield name, Coins(blended, whole, np.where(some, np.maximum(R + gain, 0.0), R))


def _quotients(a: Floats, b: Floats) -> Floats:
    """Return a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.shape(a)), where=b > 0.0)
