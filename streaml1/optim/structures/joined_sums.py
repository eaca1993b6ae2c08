r"""Candidates for the sums of FTRL-Proximal after several models have learnt parts of a stream.

For each coordinate there are the sums $z_0, n_0$ of a base and $z_k, n_k$ of K parts that have continued learning from it.
With $n = n_0 + \sum_k (n_k - n_0)$ and $\Delta = \sum_k (z_k - z_0)$:

| candidate | z | n |
|---|---|---|
| `sum` | $z_0 + \Delta$ | $n$ |
| `rho` | $z_0 + \rho\Delta$ | $n$ |
| `half` | $z_0 + \rho\Delta / 2$ | $n$ |
| `blend` | $\sqrt n \sum_k v_k z_k / \sqrt{n_k}$, with $v_k = (n_k - n_0) / (n - n_0)$ | $n$ |
| `mean` | $z_0 + \Delta / K$ | $n_0 + (n - n_0) / K$ |

where $\rho = (\sqrt n - \sqrt{n_0}) / \sum_k (\sqrt{n_k} - \sqrt{n_0})$. The sum counts every gradient in full, although each part took
its own gradients without knowledge of those of the others: where several parts have seen a feature, it moves the
weight too far. $\rho$ is 1 where one part has seen it, which gives the z of that part, and falls to $1/\sqrt K$ where K
parts have seen it equally often from $n_0 = 0$. After a base that has moved far, each part corrects the same error of the
base, and sums of these corrections go too far. `blend` is about the mean of the parts' weights, in proportion to what
each has seen; from $n_0 = 0$ and equal parts it is `rho`. Since l1 is compared with z, none of them makes the model dense.

A part with $n_k < n_0$ has dropped the weight (`max_features`) and started again: its move and its growth are those
from 0.

**Momentum.** Where merges follow one another, in the rounds of a run in shards, there are two more candidates:
`half-momentum` and `mean-momentum` add three quarters of the last move, that of the base $z_0$ since the base of the
round before. Steps of `half` and `mean` that fall short have the same direction in every round and add up. Steps that go
too far are reversed in the next round and cancel out. The sums that l1 still holds at a weight of 0 move on, too: a
mean over K parts takes K times as many rounds to pass l1, so that too many weights would stay 0.

A weight that was dropped since the round before has no momentum.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from streaml1.core.types import Floats, Records

__all__ = ["MOMENTUM", "JoinedSums", "add_growth", "joined_sums", "last_moves"]

MOMENTUM = 0.75
"""The share of its last move that a sum moves on by."""


class JoinedSums(NamedTuple):
    """A candidate: its name and its sums."""

    name: str
    z: Floats
    n: Floats


def joined_sums(
    z: Floats,
    n: Floats,
    parts: Sequence[tuple[Floats, Floats]],
    moves: Floats | None = None,
) -> Iterator[JoinedSums]:
    """Yield the candidates for the sums z and n of a base and those of parts.

    Those with momentum are left out unless the last moves of z are given. Parts are added in their
    order, so that the bits of the result follow from it.
    """
    root = np.sqrt(n)
    moved, squares, roots, blended = (np.zeros(len(z)) for _ in range(4))
    for z_part, n_part in parts:
        continued = n_part >= n
        moved += z_part - np.where(continued, z, 0.0)
        growth, root_part = n_part - np.where(continued, n, 0.0), np.sqrt(n_part)
        squares += growth
        roots += root_part - np.where(continued, root, 0.0)
        blended += _quotients(growth * z_part, root_part, 0.0)
    whole = n + squares
    yield JoinedSums("sum", z + moved, whole)
    share = _quotients(np.sqrt(whole) - root, roots, 1.0)
    yield JoinedSums("rho", z + share * moved, whole)
    half = z + 0.5 * share * moved
    yield JoinedSums("half", half, whole)
    blend = _quotients(np.sqrt(whole) * blended, squares, 0.0)
    yield JoinedSums("blend", np.where(squares > 0.0, blend, z), whole)
    mean, grown = z + moved / len(parts), n + squares / len(parts)
    yield JoinedSums("mean", mean, grown)
    if moves is not None:
        yield JoinedSums("half-momentum", half + MOMENTUM * moves, whole)
        yield JoinedSums("mean-momentum", mean + MOMENTUM * moves, grown)


def last_moves(sums: tuple[Floats, Floats], before: tuple[Floats, Floats]) -> Floats:
    """Return how far each z of a base has moved since the base of the round before."""
    (z, n), (z_before, n_before) = sums, before
    return np.where(n >= n_before, z - z_before, 0.0)  # n is smaller if the weight was dropped


def _quotients(a: Floats, b: Floats, otherwise: float) -> Floats:
    """Return a / b, and `otherwise` where b is 0."""
    return np.divide(a, b, out=np.full(len(a), otherwise), where=b > 0.0)


def add_growth(sums: Records, parts: Sequence[Records], fields: Sequence[str]) -> None:
    """Add to fields of a base what they have grown by in each part."""
    for field in fields:
        base = sums[field].copy()
        for part in parts:
            sums[field] += np.maximum(part[field] - base, 0.0)
