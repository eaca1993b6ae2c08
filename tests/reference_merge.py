"""Slow twins of `streaml1.models.merging`: plain dicts, one coordinate at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

Sums = dict[Hashable, tuple[float, float]]
"""For each name z and n, the sums of FTRL-Proximal."""

Regression = tuple[Any, Any, int]
"""Coefficients of the mixture, their covariance, and the number of examples."""

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


def ftrl_with_momentum(joined: dict[str, Sums], base: Sums, before: Sums) -> dict[str, Sums]:
    """Return the candidates of `ftrl`, then those that repeat the last move of the base."""
    carried = dict(joined)
    for kind in ("half", "mean"):
        carried[f"{kind}-momentum"] = {}
        for name, (z, n) in joined[kind].items():
            (z_0, n_0), (z_1, n_1) = base.get(name, NEW), before.get(name, NEW)
            if n_0 >= n_1:  # else the base has dropped it since
                z += (z_0 - z_1) * 3 / 4
            carried[f"{kind}-momentum"][name] = z, n
    return carried


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


Weights = dict[Hashable, float]
Penalty = Callable[[float, float], float]
"""What a penalty of some strength makes of a weight."""


def soft(w: float, by: float) -> float:
    return math.copysign(max(abs(w) - by, 0.0), w)


def elastic_net_step(w: float, eta: float, l1: float, l2: float, sgd: bool) -> float:
    """Return a weight after a step of an example without its feature."""
    if sgd:
        return soft(max(1.0 - eta * l2, 0.0) * w, eta * l1)
    return soft(w, eta * l1) / (1.0 + eta * l2)


def elastic_net_flow(w: float, due: float, l1: float, l2: float) -> float:
    """Return a weight after infinitely small steps whose rates add up to `due`."""
    if l2 == 0.0:
        return soft(w, due * l1)
    # d|w|/dt = -l1 - l2 |w|
    return math.copysign(max((abs(w) + l1 / l2) * math.exp(-l2 * due) - l1 / l2, 0.0), w)


def moving(w: float, still: float) -> bool:
    return abs(w - still) > 1e-9 * abs(still)


def weights(
    base: Weights,
    parts: Sequence[Weights],
    still: Sequence[Weights],
    examples: Sequence[int],
    penalties: Sequence[float],
    penalize: Penalty,
) -> dict[str, Weights]:
    """Return the candidates by name; `still` is what each part would be without its features."""
    joined: dict[str, Weights] = {"mean": {}, "average": {}, "rho": {}, "sum": {}}
    for name in {name for one in (base, *parts) for name in one}:
        w = base.get(name, 0.0)
        values = [part.get(name, 0.0) for part in parts]
        visits = [
            n if moving(value, rest.get(name, 0.0)) else 0
            for n, value, rest in zip(examples, values, still, strict=True)
        ]
        for kind, value in join_weight(w, values, visits, examples, penalties, penalize).items():
            if value:
                joined[kind][name] = value
    return joined


def join_weight(
    w: float,
    parts: Sequence[float],
    visits: Sequence[float],
    examples: Sequence[float],
    penalties: Sequence[float],
    penalize: Penalty,
) -> dict[str, float]:
    """Return the candidates for one weight."""
    everything = sum(penalties)
    if any(visits):
        shares = [count / sum(visits) for count in visits]
        m = 1.0 / sum(share**2 for share in shares)
    else:
        shares, m = [n / (sum(examples) or 1) for n in examples], 1.0
    move = sum(share * (value - w) for share, value in zip(shares, parts, strict=True))
    contained = sum(share * due for share, due in zip(shares, penalties, strict=True))
    joined = {}
    for kind, f in {"mean": m / len(parts), "average": 1.0, "rho": m**0.5, "sum": m}.items():
        step = f if any(visits) else 1.0
        joined[kind] = penalize(w + step * move, max(0.0, f * everything / m - step * contained))
    return joined


Coin = tuple[float, float, float]
"""Z, G and R of a coin: the sum of its outcomes, that of their sizes, and its gains."""

NO_COIN = (0.0, 0.0, 0.0)


def join_coin(base: Coin, parts: Sequence[Coin], largest: float) -> dict[str, Coin]:
    """Return the candidates for one coin."""
    Z, G, R = base
    since = [(z - Z, g - G, r - R) if g >= G else (z, g, r) for z, g, r in parts]
    bets = sum(g for _, g, _ in since)
    everything = sum(r for *_, r in since)
    joined = dict.fromkeys(("sum", "gains", "rho", "blend"), base)
    joined["sum"] = Z + sum(z for z, _, _ in since), G + bets, max(R + everything, 0.0)
    if bets > 0.0:
        fraction = gain = squares = 0.0
        for (z, g, _), (_, bet, r) in zip(parts, since, strict=True):
            fraction += bet / bets * z / (largest + g)
            gain += bet / bets * r
            squares += (bet / bets) ** 2
        blended = fraction * (largest + G + bets)
        won = {"gains": everything, "rho": gain / math.sqrt(squares), "blend": gain}
        for kind, r in won.items():
            joined[kind] = blended, G + bets, max(R + r, 0.0)
    return joined


def coins(
    base: dict[Hashable, Coin],
    parts: Sequence[dict[Hashable, Coin]],
    largest: dict[Hashable, float],
) -> dict[str, dict[Hashable, Coin]]:
    """Return the candidates by name; `largest` is the largest outcome of each coin."""
    joined: dict[str, dict[Hashable, Coin]] = {"sum": {}, "gains": {}, "rho": {}, "blend": {}}
    for name in {name for one in (base, *parts) for name in one}:
        values = [part.get(name, NO_COIN) for part in parts]
        for kind, coin in join_coin(base.get(name, NO_COIN), values, largest[name]).items():
            joined[kind][name] = coin
    return joined


def centre(base: tuple[float, float], parts: Sequence[tuple[float, float]]) -> float:
    """Return the mean of all targets, given how many each model has seen, and their mean."""
    n, mean = base
    targets = [(n, mean), *((k, m) for k, m in parts), *[(-n, mean)] * len(parts)]
    total = math.fsum(k for k, _ in targets)
    return math.fsum(k * m for k, m in targets) / total if total else 0.0


def shard_coin(coin: Coin, largest: float, expected: float, shards: int) -> Coin:
    """Return a coin at the start of a shard; `expected` rows of the round have the feature."""
    Z, G, R = coin
    m = expected * shards / (expected + shards - 1) if expected >= 1.0 else 1.0
    return Z / (largest + G) * (largest + G / m), G / m, R


def join_shard_coin(
    base: Coin, start: Coin, parts: Sequence[Coin], largest: float
) -> dict[str, Coin]:
    """Return the candidates for one coin of a base, whose parts have learnt on from `start`."""
    joined = {}
    for kind, (Z, G, R) in join_coin(start, parts, largest).items():
        bets = G - start[1]
        fraction = Z / (largest + G)
        joined[kind] = (fraction * (largest + base[1] + bets), base[1] + bets, R) if bets else base
    return joined


def carry_on(w: float, base: float, before: float, share: float, most: float) -> float:
    """Return a weight moved on by a share of the last move of the base, to at most `most`."""
    if not w or base == before:
        return w
    target = w + share * (base - before)
    return math.copysign(min(abs(target), most), target)


def average(
    t: int, base: float, parts: Sequence[float], visits: Sequence[float], examples: Sequence[int]
) -> float:
    """Return a weight averaged over about a quarter of the steps, from averages after t steps."""
    shares = visits if any(visits) else examples
    whole = 1.0 - (t / (t + sum(examples))) ** 4 if sum(examples) else 0.0
    joined = base
    for value, share, n in zip(parts, shares, examples, strict=True):
        if share:
            # What the part's weights were on average, of which the average took over a share.
            mean = base + (value - base) / (1.0 - (t / (t + n)) ** 4)
            joined += whole * share / sum(shares) * (mean - base)
    return joined


def regression(base: Regression, parts: Sequence[Regression]) -> tuple[Any, Any]:
    """Return the coefficients and covariance of the mixture of a part that has learnt all.

    Each part and the whole forget the base step by step. The largest variance is 0.32.
    """
    n0 = base[2]
    added = [part for part in parts if part[2] > n0]
    if len(added) < 2:
        coefficients, C, _ = added[0] if added else base
        return coefficients, C
    precision, sums = np.zeros((8, 8)), np.zeros(8)
    for part in added:
        precision += np.linalg.inv(part[1])
        sums += np.linalg.solve(part[1], part[0])
    kept = left_of_base(n0, n0 + sum(part[2] - n0 for part in added))
    kept -= sum(left_of_base(n0, part[2]) for part in added)
    precision += kept * np.linalg.inv(base[1])
    sums += kept * np.linalg.solve(base[1], base[0])
    values, vectors = np.linalg.eigh(precision)
    C = sum(
        np.outer(q, q) / max(value, 1 / 0.32) for value, q in zip(values, vectors.T, strict=True)
    )
    return C @ sums, C


def left_of_base(start: int, end: int) -> float:
    """Return by what factor a sum shrinks from one example to another."""
    shares = (1.0 - 1.0 / min(4.0 + t / 4.0, 1e4) for t in range(start + 1, end + 1))
    return math.prod(shares)
