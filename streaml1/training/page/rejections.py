"""Counts of rejected examples."""

from __future__ import annotations

import re
from collections import Counter, deque
from typing import Any

__all__ = ["RejectionCounts"]

MAX_REASONS = 20
N_LAST = 10

_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")


class RejectionCounts:
    """Rejected examples by reason, where values in the reasons do not count, and the last ones."""

    def __init__(self) -> None:
        self.total = 0
        self._reasons: Counter[str] = Counter()
        self._last: deque[dict[str, str]] = deque(maxlen=N_LAST)

    def add(self, place: str, reason: str) -> None:
        """Count an example."""
        self.total += 1
        kind = _VALUE.sub("…", reason)
        if kind in self._reasons or len(self._reasons) < MAX_REASONS:
            self._reasons[kind] += 1
        else:
            self._reasons["other reasons"] += 1
        self._last.append({"place": place, "reason": reason})

    def section(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        reasons = sorted(self._reasons.copy().items(), key=lambda pair: -pair[1])
        return {"total": self.total, "reasons": reasons, "last": [*self._last.copy()][::-1]}
