"""Counts of rejected examples."""

from __future__ import annotations

from collections import deque
from typing import Any

from streaml1.training.rejection_reasons import RejectionReasons

__all__ = ["RejectionCounts"]

N_REASONS = 20
N_LAST = 10


class RejectionCounts:
    """Rejected examples by reason, and the last ones."""

    def __init__(self) -> None:
        self.total = 0
        self._reasons = RejectionReasons()
        self._last: deque[dict[str, str]] = deque(maxlen=N_LAST)

    def add(self, place: str, reason: str) -> None:
        """Count an example."""
        self.total += 1
        self._reasons.add(place, reason)
        self._last.append({"place": place, "reason": reason})

    def section(self) -> dict[str, Any]:
        """Return the counts as JSON; the first rejected example stands for each reason."""
        listed = self._reasons.most_common(N_REASONS)
        reasons = [(kind.reason, kind.count) for kind in listed]
        rest = self.total - sum(kind.count for kind in listed)
        if rest:
            reasons.append(("other reasons", rest))
        return {"total": self.total, "reasons": reasons, "last": [*self._last.copy()][::-1]}
