r"""Candidates for the eight lanes of `lane_mixture.py` after several models have learnt parts of a stream.

| | how it joins |
|---|---|
| elastic nets | as in `joined_weights`. A slot counts the rows that had its feature, so it is known by how many rows a part has moved a weight |
| coins | as in `joined_coins` |
| averaged weights and intercepts | see below |
| shares and opinions of the mixtures, intercepts of elastic nets | their mean in proportion to the examples |
| coefficients of the mixture | as in `joined_mixtures` |
| sums over examples: counts, sizes, norms, targets, losses | base and growth of all parts |
| ranges of targets and margins, largest derivatives | their hull |

| candidate | elastic nets | coins |
|---|---|---|
| `sum` | `sum` | `sum` |
| `rho` | `rho` | `rho` |
| `average` | `average` | `blend` |
| `mean` | `mean` | `gains` |

The candidates of a run in shards (`SHARD_CANDIDATES`) combine others of these; their coins have learnt at a clock of their
own (see `shard_coins`).

**Averages.** They reach back over a quarter of the steps: after t steps, an average of $t_0$ steps has the share
$(t_0 / t)^4$ of what it becomes. So the average $a_k$ of a part of $n_k$ steps is $a_0$, moved by the share $s_k = 1 - (t_0 / (t_0 + n_k))^4$
towards the mean of its own weights. All parts together move $a_0$ by the share $s = 1 - (t_0 / t)^4$ towards the mean of
these means, weighted by $v_k$, in proportion to the rows that had the feature: the average is $a_0 + \sum_k v_k (s / s_k) (a_k - a_0)$.

**Origins.** Parts that have given features origins of their own are first brought to common ones, see
`joined_origins`.

**Penalties.** The rates of a step depend on its row. The sum of the rates of a part, which its penalty is proportional
to, is taken as that of rows of the mean norm. It decides only about the penalty that is missing from means.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import LANES
from streaml1.core.types import Bools, Floats
from streaml1.optim import losses
from streaml1.optim.structures.feature_origins import origins_of
from streaml1.optim.structures.joined_coins import Coins, joined_coins
from streaml1.optim.structures.joined_mixtures import Regression, joined_regression
from streaml1.optim.structures.joined_origins import (
    common_origins,
    moved_intercepts,
    stored_origins,
)
from streaml1.optim.structures.joined_weights import joined_weights, shrunk
from streaml1.optim.structures.lane_clock import MIN_EXPOSURE
from streaml1.optim.structures.lane_slots import MIN_WINDOW, WIDTH, WINDOW
from streaml1.optim.structures.lane_table import (
    A_LOW,
    AVERAGE_BIAS,
    BIAS,
    BIAS_GRADIENTS,
    BIAS_WEALTH,
    COEFFICIENT,
    COVARIANCE,
    DENOMINATOR,
    LARGEST,
    OVER_LARGEST,
    RATE,
    ROWS,
    SHARE,
    UNIT,
    A,
    P,
)
from streaml1.optim.structures.shard_coins import divided_coins, undivided_coins

__all__ = ["LANE_CANDIDATES", "JoinedLanes", "divide_coins", "joined_lanes"]

COUNT, TOTAL, LARGEST_SIZE, STAMP = range(4)  # columns of a slot
GAMBLED, NETS, OUTCOMES, AVERAGES, GAINS = (
    slice(*columns) for columns in ((4, 8), (8, 12), (12, 16), (16, 18), (20, 24))
)
ELASTIC, COINS = slice(0, 4), slice(4, LANES)  # lanes
COVARIANCES = slice(int(COVARIANCE) // LANES, int(COVARIANCE) // LANES + LANES)  # rows
PLAIN, AVERAGED_LANE, SUPPORT_LANE = 0, 2, 6
MAX_SCALE = 1e100
SUMS = (
    *("n", "sample_weights", "norms", "scaled_norms", "targets", "positives", "negatives"),
    *("deviations", "risk", "average_risk", "stale_risk", "slow_risk", "lane_risk", "squares"),
)
LANE_CANDIDATES = {
    "sum": ("sum", "sum"),
    "rho": ("rho", "rho"),
    "average": ("average", "blend"),
    "mean": ("mean", "gains"),
}
"""The candidates of elastic nets and of coins that a candidate consists of, by name."""


class _Part(NamedTuple):
    """A model as arrays, with what it stores brought up to date."""

    slots: Floats
    table: Floats
    clock: Any
    nets: Floats  # weights of the elastic nets
    averages: Floats  # averaged weights


class JoinedLanes(NamedTuple):
    """A candidate: its name, slots, origins of features, table and clock."""

    name: str
    slots: Floats
    origins: Floats
    table: Floats
    clock: Any


def joined_lanes(
    base: Any,
    parts: Sequence[Any],
    rates: Sequence[Iterable[Floats]],
    kinds: Mapping[str, tuple[str, str]] = LANE_CANDIDATES,
    divided: bool = False,
) -> Iterator[JoinedLanes]:
    """Yield the candidates.

    Rows of the table that follow from others are those of the base. The first parameters are those
    of `LaneMixture.candidates`. `kinds` are the candidates as in `LANE_CANDIDATES`, and `divided`
    says whether the parts have learnt on from coins as `divide_coins` leaves them.
    """
    has, origins = common_origins([base, *parts])
    before, *after = (_with_origins(rule, has, origins) for rule in (base, *parts))
    clock = _joined_clock(before.clock, [part.clock for part in after])
    clock["with_origin"] = np.count_nonzero(has)
    examples = [float(part.clock["n"] - before.clock["n"]) for part in after]
    table = _joined_table(before, after, examples, clock)
    visits = [_grown(before, part, COUNT) for part in after]
    slots = _joined_slots(before, after, visits, examples)
    nets = _joined_nets(before, after, visits, examples, rates)
    largest = table[_row(LARGEST), COINS]
    coins = _joined_coins(before, after, sum(examples), largest, divided)
    biases = dict(joined_coins(_biases(before), [_biases(part) for part in after], largest))
    for name, (net, kind) in kinds.items():
        joined, ledger = slots.copy(), table.copy()
        joined[:, NETS] = nets[net]
        joined[:, OUTCOMES], joined[:, GAMBLED], joined[:, GAINS] = coins[kind]
        joined[joined[:, COUNT] == 0.0] = 0.0  # of features that a part has forgotten
        for row, values in zip((BIAS, BIAS_GRADIENTS, BIAS_WEALTH), biases[kind], strict=True):
            ledger[_row(row), COINS] = values
        yield JoinedLanes(name, joined, stored_origins(has, origins), ledger, clock)


def divide_coins(rule: Any, shards: int, n_rows: float) -> None:
    """Let the coins of a rule start a shard of a round of some rows; see `shard_coins`."""
    arrays = _arrays(rule)
    coins = _divided(arrays, shards, n_rows)
    arrays.slots[:, OUTCOMES], arrays.slots[:, GAMBLED] = coins.Z, coins.G


def _divided(base: _Part, shards: int, n_rows: float) -> Coins:
    """Return the coins that shards start from; those of the base if it is not to be divided."""
    coins, n = _coins(base), float(base.clock["n"])
    if not n or base.clock["l1"] > 0.0 or base.clock["l2"] > 0.0:
        return coins
    counts = np.maximum(base.slots[:, COUNT], 0.0)
    return divided_coins(coins, base.table[_row(LARGEST), COINS], counts, n_rows / n, shards)


def _joined_coins(
    base: _Part, parts: Sequence[_Part], n_rows: float, L: Floats, divided: bool
) -> dict[str, Coins]:
    """Return the candidates for coins by name."""
    coins, of_parts = _coins(base), [_coins(part) for part in parts]
    if not divided:
        return dict(joined_coins(coins, of_parts, L))
    start = _divided(base, len(parts), n_rows)
    return dict(undivided_coins(joined_coins(start, of_parts, L), coins, start, L))


def _row(offset: Any) -> int:
    return int(offset) // LANES


def _arrays(rule: Any) -> _Part:
    slots, table = rule.slots.reshape(-1, WIDTH), rule.table.reshape(ROWS, LANES)
    clock = rule.clock[0]
    nets = _soft(slots[:, NETS], table[_row(A), ELASTIC]) * table[_row(P), ELASTIC]
    supporting = _coin_weights(slots, table, SUPPORT_LANE)
    now = np.stack([nets[:, AVERAGED_LANE], supporting], axis=1)
    elapsed = float(clock["n"]) - slots[:, STAMP]
    share = elapsed / (elapsed + max(MIN_WINDOW, WINDOW * float(clock["n"])))
    averages = slots[:, AVERAGES] + (now - slots[:, AVERAGES]) * share[:, None]
    return _Part(slots, table, clock, nets, averages)


def _with_origins(rule: Any, common: Bools, common_origins: Floats) -> _Part:
    """Return a rule as arrays whose features have the common origins, see `joined_origins`."""
    part, (has, origins) = _arrays(rule), origins_of(rule.origins)
    gone, moves = common & ~has, np.where(has, common_origins - origins, 0.0)
    if not (np.any(gone) or np.any(moves)):
        return part
    slots, table = part.slots.copy(), part.table
    slots[gone] = 0.0
    moved = (moves != 0.0) & (slots[:, COUNT] > 0.0)
    unit = slots[moved, COUNT] / slots[moved, TOTAL] * moves[moved]
    bet = unit / slots[moved, LARGEST_SIZE]
    nets = part.nets[moved].T @ unit
    nets[PLAIN] = part.nets[moved, PLAIN] @ moves[moved]
    coins = [_coin_weights(slots[moved], table, lane) @ bet for lane in range(4, LANES)]
    table = moved_intercepts(table, np.array([*nets, *coins]))
    averages = part.averages[moved]
    table[_row(AVERAGE_BIAS), AVERAGED_LANE] += averages[:, 0] @ unit
    table[_row(AVERAGE_BIAS), SUPPORT_LANE] += averages[:, 1] @ bet
    kept = ~gone[:, None]
    return _Part(slots, table, part.clock, part.nets * kept, part.averages * kept)


def _soft(u: Floats, by: Any) -> Floats:
    return u - np.clip(u, -by, by)


def _coin_weights(slots: Floats, table: Floats, lane: int) -> Floats:
    """Return the weights of the coin of a lane, of z / s."""
    Z, G, R = (slots[:, columns.start + lane - 4] for columns in (OUTCOMES, GAMBLED, GAINS))
    stake = table[_row(UNIT), lane] + R * table[_row(OVER_LARGEST), lane]
    denominator: Floats = table[_row(DENOMINATOR), lane] + G
    return _soft(Z, table[_row(A), lane]) * stake / denominator


def _coins(part: _Part) -> Coins:
    return Coins(part.slots[:, OUTCOMES], part.slots[:, GAMBLED], part.slots[:, GAINS])


def _biases(part: _Part) -> Coins:
    """Return the coins of the intercept."""
    rows = (BIAS, BIAS_GRADIENTS, BIAS_WEALTH)
    return Coins(*(part.table[_row(row), COINS] for row in rows))


def _grown(base: _Part, part: _Part, column: int) -> Floats:
    """Return by how much a sum of each slot has grown; a forgotten slot starts again at 0."""
    continued = part.slots[:, COUNT] >= base.slots[:, COUNT]
    grown: Floats = part.slots[:, column] - np.where(continued, base.slots[:, column], 0.0)
    return grown


def _joined_slots(
    base: _Part, parts: Sequence[_Part], visits: Sequence[Floats], examples: Sequence[float]
) -> Floats:
    """Return slots with all but nets and coins, with averages as of the last example."""
    slots = np.zeros_like(base.slots)
    slots[:, COUNT] = base.slots[:, COUNT] + sum(visits)
    slots[:, TOTAL] = base.slots[:, TOTAL] + sum(_grown(base, part, TOTAL) for part in parts)
    sizes = [one.slots[:, LARGEST_SIZE] for one in (base, *parts)]
    slots[:, LARGEST_SIZE] = np.maximum.reduce(sizes)
    slots[:, STAMP] = float(base.clock["n"]) + sum(examples)
    slots[:, AVERAGES] = base.averages
    total = slots[:, COUNT] - base.slots[:, COUNT]
    seen, gains = total > 0.0, _gains(base, examples)
    for part, count, of_all, gain in zip(parts, visits, _shares(examples), gains, strict=True):
        share = gain * np.divide(count, total, out=np.full(len(seen), of_all), where=seen)
        slots[:, AVERAGES] += share[:, None] * (part.averages - base.averages)
    return slots


def _gains(base: _Part, examples: Sequence[float]) -> list[float]:
    """Return s / s_k for each part; see the module."""
    t = float(base.clock["n"])
    s, *of_parts = (
        1.0 - (t / (t + n)) ** (1.0 / WINDOW) if n else 0.0 for n in (sum(examples), *examples)
    )
    return [s / of_part if of_part else 0.0 for of_part in of_parts]


def _joined_nets(
    base: _Part,
    parts: Sequence[_Part],
    visits: Sequence[Floats],
    examples: Sequence[float],
    rates: Sequence[Iterable[Floats]],
) -> dict[str, Floats]:
    """Return the weights of the elastic nets by candidate."""
    l1, l2 = float(base.clock["l1"]), float(base.clock["l2"])
    penalized = l1 > 0.0 or l2 > 0.0
    steps = [sum(float(etas.sum()) for etas in blocks) if penalized else 0.0 for blocks in rates]
    nets = {name: np.zeros_like(base.nets) for name in LANE_CANDIDATES}
    for lane in range(base.nets.shape[1]):
        penalties = [n * _mean_rate(part, lane) for n, part in zip(steps, parts, strict=True)]
        weights = [part.nets[:, lane] for part in parts]
        for joined in joined_weights(base.nets[:, lane], weights, visits, examples, penalties):
            w = shrunk(joined.w, joined.penalty, l1, l2) if penalized else joined.w
            nets[joined.name][:, lane] = w
    return nets


def _mean_rate(part: _Part, lane: int) -> float:
    """Return the rate of an elastic net for a row of the mean norm, at a factor of 1."""
    norms = part.clock["norms" if lane == PLAIN else "scaled_norms"] / max(part.clock["n"], 1)
    scale = min(1.0 / norms**2, MAX_SCALE) if norms > 0.0 else 1.0
    return float(scale * part.clock["unit"] * part.table[_row(RATE), lane])


def _shares(examples: Sequence[float]) -> list[float]:
    """Return the share of each part of the examples; equal ones if there are none."""
    n = sum(examples)
    return [count / n if n else 1.0 / len(examples) for count in examples]


def _joined_table(
    base: _Part, parts: Sequence[_Part], examples: Sequence[float], clock: Any
) -> Floats:
    """Return the table with all but the coins of the intercept, and no pending penalties."""
    table = base.table.copy()
    shares = list(zip(_shares(examples), _gains(base, examples), parts, strict=True))
    for row in (_row(SHARE), _row(COEFFICIENT), _row(BIAS)):
        table[row] = sum(share * part.table[row] for share, _, part in shares)
    if clock["newton"]:
        joined = joined_regression(_regression(base), [_regression(part) for part in parts])
        table[_row(COEFFICIENT)], table[COVARIANCES] = joined.coefficients, joined.covariance
    row = _row(AVERAGE_BIAS)
    for share, gain, part in shares:
        table[row] += share * gain * (part.table[row] - base.table[row])
    table[_row(LARGEST)] = np.maximum.reduce([part.table[_row(LARGEST)] for part in parts])
    table[_row(P)], table[_row(A)], table[_row(A_LOW)] = 1.0, 0.0, 0.0
    table[_row(A), COINS] = clock["l1"] * clock["n"]
    return table


def _regression(part: _Part) -> Regression:
    """Return the regression of the mixture."""
    n = float(part.clock["n"])
    return Regression(part.table[_row(COEFFICIENT)], part.table[COVARIANCES], n)


def _joined_clock(base: Any, parts: Sequence[Any]) -> Any:
    """Return the shared scalars."""
    clock = parts[-1].copy()
    for name in SUMS:
        clock[name] = base[name] + sum(part[name] - base[name] for part in parts)
    for name, hull in (
        ("low", min),
        ("smallest", min),
        ("high", max),
        ("largest", max),
        ("lead", max),
    ):
        clock[name] = hull(part[name] for part in parts)
    for name in ("fresh", "retained"):
        clock[name] = max(part[name] for part in parts)
    shares = list(
        zip(_shares([float(part["n"] - base["n"]) for part in parts]), parts, strict=True)
    )
    for name in ("by_shares", "by_coefficients", "by_both"):
        clock[name] = sum(share * part[name] for share, part in shares)
    counts = [float(part["targets"] - base["targets"]) for part in parts]
    shares = list(zip(_shares(counts), parts, strict=True))
    clock["unit"] = sum(share * part["unit"] for share, part in shares)
    clock["centre"] = base["centre"] + _move_of_centre(base, parts, counts, clock)
    return clock


def _move_of_centre(base: Any, parts: Sequence[Any], counts: Sequence[float], clock: Any) -> float:
    """Return by how much the mean target moves: each part holds the mean of base and part."""
    if all(part["centre"] == base["centre"] for part in parts):
        return 0.0
    if base["loss"] == losses.POISSON:  # see `count_poisson_target`
        exposure = max(clock["targets"] + clock["positives"], MIN_EXPOSURE)
        return math.log(max(clock["deviations"], 0.5) / exposure) - float(base["centre"])
    moves = [
        (base["targets"] + n) * (part["centre"] - base["centre"])
        for n, part in zip(counts, parts, strict=True)
    ]
    return float(sum(moves) / (base["targets"] + sum(counts)))
