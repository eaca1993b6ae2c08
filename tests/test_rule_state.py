"""Operations of an update rule that follow from its declared fields."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

from streaml1.core.types import Bools, Floats, Ids, Records
from streaml1.optim.rule_state import Index, Ledger, PerSlot, RuleState, Scratch, new_state

SLOT = np.dtype([("v", "f8"), ("stamp", "i8")], align=True)
CLOCK = np.dtype([("scale", "f8"), ("n", "i8")], align=True)
PAIR = np.dtype([("totals", "f8", (2,))])


class ToyState(NamedTuple):
    slots: Annotated[Records, PerSlot(SLOT, seen="stamp", dropped=(0.0, 1))]
    pairs: Annotated[Floats, PerSlot(np.float64, width=2, extra=1, keys=("a", "b"), dropped=None)]
    rows: Annotated[Floats, PerSlot(np.float64, width=3)]
    listed: Annotated[Ids, Index(np.uint32, extra=2)]
    totals: Annotated[Floats, Ledger(np.float64, 2, saved_as=("totals", PAIR))]
    scratch: Annotated[Floats, Scratch(np.float64, 5)]
    clock: Annotated[Records, Ledger(CLOCK)]


class Toy(RuleState, ToyState):
    def live_mask(self) -> Bools:
        live: Bools = self.slots["v"] != 0.0
        return live

    def _rebuild_index(self) -> None:
        slots = np.flatnonzero(self.slots["v"])
        self.listed[: len(slots)] = slots
        self.clock[0].n = len(slots)

    def _rebuild_scratch(self) -> None:
        self.scratch[0] = self.clock[0].scale


def make_toy() -> Toy:
    rule = new_state(Toy, 6)
    rule.slots["v"][[1, 4]] = 0.5, -2.0
    rule.slots["stamp"][[1, 2, 4]] = 3
    rule.pairs[2:4], rule.pairs[8:10] = (1.0, 2.0), (3.0, 4.0)
    rule.rows[3:6], rule.rows[12:15] = (5.0, 6.0, 7.0), (8.0, 9.0, 10.0)
    rule.totals[:] = 11.0, 12.0
    rule.clock[0] = (0.25, 2)
    rule._rebuild_index()
    rule.check()
    return rule


def test_new_state_is_zero() -> None:
    rule = new_state(Toy, 4)
    assert [len(a) for a in rule] == [4, 10, 12, 6, 2, 5, 1]
    assert rule.size == 4 and rule.nbytes == sum(a.nbytes for a in rule)
    assert not any(a.view(np.uint8).any() for a in rule)
    rule.check()


def test_growing_preserves_entries() -> None:
    rule = make_toy()
    larger = rule.grow(9)
    larger.check()
    assert larger.size == 9
    for small, large in zip(rule, larger, strict=True):
        assert large[: len(small)].tobytes() == small.tobytes()
        assert not large[len(small) :].view(np.uint8).any()


def test_remapping_moves_slots_and_rebuilds_the_index() -> None:
    rule = make_toy()
    moved = rule.remap(np.array([-1, 2, -1, -1, 0, -1]), 3)
    moved.check()
    assert moved.slots["v"].tolist() == [-2.0, 0.0, 0.5]
    assert moved.pairs.tolist() == [3.0, 4.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0]
    assert moved.rows.reshape(3, 3).tolist() == [[8.0, 9.0, 10.0], [0.0] * 3, [5.0, 6.0, 7.0]]
    assert moved.listed.tolist() == [0, 2, 0, 0, 0]


def test_state_dict_round_trip() -> None:
    rule = make_toy()
    slots, saved = rule.state_dict()
    assert slots.tolist() == [1, 4]
    assert tuple(saved) == Toy.saved_keys()
    assert tuple(saved) == ("v", "stamp", "a", "b", "rows", "totals", "clock")
    assert saved["totals"].dtype == PAIR and saved["rows"].shape == (2, 3)
    restored = Toy.from_state_dict(6, slots, saved)
    restored.check()
    assert restored.scratch[0] == 0.25 and restored.listed[:2].tolist() == [1, 4]
    saved_again = restored.state_dict()
    assert saved_again[0].tolist() == [1, 4]
    assert {k: a.tobytes() for k, a in saved_again[1].items()} == {
        k: a.tobytes() for k, a in saved.items()
    }
    saved["v"][:] = 0.0  # copies
    assert rule.slots["v"][1] == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"c": np.zeros(2)}, "the state must consist of v, stamp, a, b, rows, totals, clock, got"),
        ({"v": np.zeros(3)}, r"v must be float64 of shape \(2,\), got float64 of \(3,\)"),
        ({"v": np.zeros(2, np.float32)}, r"v must be float64 of shape \(2,\), got float32"),
        ({"rows": np.zeros((2, 2))}, r"rows must be float64 of shape \(2, 3\)"),
        ({"clock": np.zeros(2, CLOCK)}, "clock must be"),
    ],
)
def test_invalid_state_dict_is_rejected(change: dict[str, Any], message: str) -> None:
    slots, saved = make_toy().state_dict()
    with pytest.raises(AssertionError, match=message):
        Toy.from_state_dict(6, slots, {**saved, **change})


def test_seen_mask_marks_nonzero_bits() -> None:
    rule = make_toy()
    assert np.flatnonzero(rule.seen_mask()).tolist() == [1, 2, 4]


def test_check_detects_wrong_layouts() -> None:
    rule = make_toy()
    for invalid in (
        rule._replace(scratch=np.zeros(5, np.float32)),
        rule._replace(rows=np.zeros(17)),
        rule._replace(listed=np.zeros(6, np.uint32)),
        rule._replace(totals=np.zeros(3)),
    ):
        with pytest.raises(AssertionError):
            invalid.check()
