"""Slow twins of `streaml1.models.merging`: plain dicts, one coordinate at a time."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

Sums = dict[Hashable, tuple[float, float]]
"""For each name z and n, the sums of FTRL-Proximal."""

NEW = (0.0, 0.0)


def ftrl(base: Sums, parts: Sequence[Sums]) -> dict[str, Sums]:
    """Return the candidates by name."""
    joined: dict[str, Sums] = {"sum": {}, "rho": {}, "half": {}, "blend": {}, "mean": {}}
    for name in {name for sums in (base, *parts) for name in sums}:
        z, n = base.get(name, NEW)
        move = growth = steps = blend = 0.0
        for z_k, n_k in (part.get(name, NEW) for part in parts):
            z_0, n_0 = (z, n) if n_k >= n else NEW  # else the part has dropped it since
            move += z_k - z_0
            growth += n_k - n_0
            steps += math.sqrt(n_k) - math.sqrt(n_0)
            blend += (n_k - n_0) * z_k / math.sqrt(n_k) if n_k > 0.0 else 0.0
        rho = (math.sqrt(n + growth) - math.sqrt(n)) / steps if steps > 0.0 else 1.0
        joined["sum"][name] = z + move, n + growth
        joined["rho"][name] = z + rho * move, n + growth
        joined["half"][name] = z + rho * move / 2, n + growth
        blend = math.sqrt(n + growth) * blend / growth if growth > 0.0 else z
        joined["blend"][name] = blend, n + growth
        joined["mean"][name] = z + move / len(parts), n + growth / len(parts)
    return joined


def ftrl_weights(
    sums: Sums, alpha: float, beta: float = 1.0, l1: float = 1.0, l2: float = 0.0
) -> dict[Hashable, float]:
    """Return the non-zero weights."""
    return {
        name: (math.copysign(l1, z) - z) / ((beta + math.sqrt(n)) / alpha + l2)
        for name, (z, n) in sums.items()
        if abs(z) > l1
    }


def counts(
    base: dict[Hashable, tuple[float, ...]], parts: Sequence[dict[Hashable, tuple[float, ...]]]
) -> dict[Hashable, tuple[float, ...]]:
    """Return sums that grow with each example, such as numbers of rows, of base and parts."""
    names = {name for one in (base, *parts) for name in one}
    width = max(len(value) for one in (base, *parts) for value in one.values())
    zeros = (0.0,) * width
    joined = {}
    for name in names:
        before = base.get(name, zeros)
        grown = [part.get(name, zeros) for part in parts]
        joined[name] = tuple(
            before[i] + sum(values[i] - before[i] for values in grown) for i in range(width)
        )
    return joined


def intercept(base: tuple[int, float], parts: Sequence[tuple[int, float]]) -> float:
    """Return the intercept of models, each with its number of examples and its intercept."""
    learnt = [t - base[0] for t, _ in parts]
    if not sum(learnt):
        return base[1]
    moves = [n * (b - base[1]) for n, (_, b) in zip(learnt, parts, strict=True)]
    return base[1] + sum(moves) / sum(learnt)
