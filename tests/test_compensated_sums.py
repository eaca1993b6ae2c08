"""Penalties are summed with compensation: after a million steps, the error is that of one rounding.

The sums are compared with exact fractions. Without the compensation they would miss the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from streaml1.core.jit import COMPILED, kernel
from streaml1.optim import lane_mixture
from streaml1.optim.elastic_net import A_START, ElasticNet
from streaml1.optim.elastic_net_stamps import ElasticNetStamps
from streaml1.optim.lane_mixture import LaneMixture
from streaml1.optim.losses import LOGISTIC
from streaml1.optim.smidas import SMIDAS
from streaml1.optim.softmax import PENALTIES, Softmax
from streaml1.optim.structures import lane_steps
from streaml1.optim.truncated_gradient import TruncatedGradient
from streaml1.optim.update_rule import apply_penalty
from tests import reference

N_CYCLES = 1_000 if COMPILED else 20
# Rates of a cycle; no two are equal, so that roundings do not cancel.
RATES = 0.05 + 0.01 * np.random.default_rng(3).random(1_000)
TOTAL = 62.9  # a sum of 64 would be restarted


@kernel
def many_steps(rule: Any, rates: Any, n_cycles: int) -> None:
    for _ in range(n_cycles):
        for eta in rates:
            apply_penalty(rule, eta)


def l1_for_total(total: float, rate: float = 1.0) -> float:
    return total / (N_CYCLES * rate * float(RATES.sum()))


def check(total: float, steps: list[float], start: float = A_START) -> None:
    """Compare a total with the exact sum, which a sum without compensation misses."""
    exact = reference.sum_without_rounding(start, steps, N_CYCLES)
    bound = 2 * Fraction(float(np.spacing(total)))
    plain = start
    for _ in range(N_CYCLES):
        for step in steps:
            plain += step
    assert abs(Fraction(plain) - exact) > 5 * bound  # otherwise the test could not fail
    assert abs(Fraction(float(total)) - exact) <= bound


def elastic_net(l1: float) -> Any:
    return ElasticNet.start(1, l1, 0.0, False)


def elastic_net_sgd(l1: float) -> Any:
    return ElasticNet.start(1, l1, 0.0, True)


def smidas(l1: float) -> Any:
    rule = SMIDAS.start(1, l1, 2.0)
    rule.norm[0].ref = 1e9  # as with a large weight; A may grow with it
    return rule


def softmax(l1: float) -> Any:
    return Softmax.start(1, 2, PENALTIES["l1"], l1, 0.0, 0.0)


@pytest.mark.parametrize("start", [elastic_net, elastic_net_sgd, smidas, softmax])
def test_sum_of_penalties_is_exact(start: Callable[[float], Any]) -> None:
    l1 = l1_for_total(TOTAL)
    rule = start(l1)
    many_steps(rule, RATES, N_CYCLES)
    assert abs(rule.clock[0].A - TOTAL) < 1e-6  # it was not restarted
    check(rule.clock[0].A, (RATES * l1).tolist())


def test_sum_of_truncations_is_exact() -> None:
    period, l1 = 3, l1_for_total(TOTAL)
    rule = TruncatedGradient.start(1, l1, period, np.inf)
    many_steps(rule, RATES[: 3 * (len(RATES) // 3)], N_CYCLES)
    steps = (period * RATES[period - 1 :: period] * l1).tolist()
    assert abs(rule.clock[0].A - TOTAL) < 1.0
    check(rule.clock[0].A, steps)


def test_table_of_time_stamps_holds_exact_sums() -> None:
    n_steps = N_CYCLES * len(RATES) + 2
    rule = ElasticNetStamps.start(1, 1e-9, 0.0, False, n_steps)
    rule = rule._replace(sums=np.zeros(n_steps + 2))
    many_steps(rule, RATES[:2], 1)  # the table starts with the first rate that differs
    start = float(rule.clock[0].B)
    many_steps(rule, RATES, N_CYCLES)
    check(rule.clock[0].B, RATES.tolist(), start)
    assert rule.sums[rule.clock[0].now] == rule.clock[0].B


@kernel
def many_steps_of_lanes(rule: Any, rates: Any, n_cycles: int) -> None:
    for _ in range(n_cycles):
        for eta in rates:
            lane_steps.step_penalties(rule.clock[0], rule.table, eta)


@pytest.mark.parametrize("sgd", [False, True])
def test_sums_of_lanes_are_exact(sgd: bool) -> None:
    l1, lane_rates = l1_for_total(TOTAL), [1.0, 0.9, 0.5, 0.3]
    rule = LaneMixture.start(8, l1, 0.0, sgd, lane_rates, LOGISTIC, 0.0)
    table = rule.table.reshape(-1, 8)
    table[int(lane_mixture.SCALE) // 8, :4] = 1.0
    totals = table[int(lane_mixture.A) // 8]
    start = float(totals[0])
    many_steps_of_lanes(rule, RATES, N_CYCLES)
    for total, rate in zip(totals, lane_rates, strict=False):
        check(total, (RATES * rate * l1).tolist(), start)
