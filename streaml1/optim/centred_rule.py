"""Common base of coin betting and scaled FTRL: origins of features, and a centre of targets.

Values are measured from the origins of their features (`structures/feature_origins.py`), the
targets of a regression from their centre (`structures/target_centre.py`). With the Poisson loss
both are read as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.types import Ints, Records
from streaml1.optim.losses import POISSON
from streaml1.optim.rule_state import ScratchRule, declared
from streaml1.optim.structures.feature_origins import (
    ORIGIN_ROWS,
    ORIGIN_WIDTH,
    check_origins,
    origins_of,
)
from streaml1.optim.structures.record_layouts import copied_to, dtype_without
from streaml1.optim.structures.target_centre import CENTRE, check_centre, has_centre

__all__ = ["USUAL_VALUES", "CentredRule"]

USUAL_VALUES = [("origin_rows", "i8"), ("with_origin", "i8"), *CENTRE]
"""Fields of the clock of such a rule: rows that decide about origins, how many features have one,
and the centre of the targets."""


class CentredRule(ScratchRule):
    """A rule with the field `origins`, and with `USUAL_VALUES` at the end of its clock.

    It defines `intercept_at_origins`.
    """

    __slots__ = ()

    def begin(self: Any, loss: int) -> None:
        """Decide whether values have origins and targets a centre."""
        c = self.clock[0]
        c.is_centred = has_centre(loss)
        c.origin_rows = ORIGIN_ROWS if loss != POISSON else 0

    def intercept(self: Any, online: Records) -> float:
        """Return the intercept that belongs to `weights`: to x instead of x - m."""
        has, origins = origins_of(self.origins)
        moved = float(self.weights()[has] @ origins[has]) if has.any() else 0.0
        return float(self.intercept_at_origins(online)) - moved

    @property
    def version(self: Any) -> float:
        """Whether features have origins; models that differ in this cannot be joined."""
        return float(self.clock[0].origin_rows)

    def check(self: Any) -> None:
        super().check()
        check_origins(self.origins, self.clock[0])
        check_centre(self.clock[0])

    @classmethod
    def from_state_dict(cls: Any, d: int, slots: Ints, arrays: dict[str, Any]) -> Any:
        """Restore a rule. One of a version without these fields reads values as it did."""
        clock = np.dtype(declared(cls)["clock"].dtype)
        record = np.atleast_1d(arrays.get("clock", 0))
        before = dtype_without(clock, {name for name, _ in USUAL_VALUES})
        if record.dtype == before and len(record) == 1:
            origins = np.zeros((len(slots), ORIGIN_WIDTH))
            arrays = {**arrays, "origins": origins, "clock": copied_to(clock, record)}
        return super().from_state_dict(d, slots, arrays)
