"""Count rejected examples by reason, however different the values are that the reasons quote."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["MAX_REASONS", "RejectionReason", "RejectionReasons"]

MAX_REASONS = 8
"""Reasons that a summary lists."""

MAX_KINDS = 1000
"""Most reasons that are counted separately, so that data with more cannot fill the memory."""

MAX_KEY = 200
"""Characters of a reason that are compared."""

_VALUES = re.compile(
    r"""
    (?P<column>\bcolumn\ )?  # the name of a column is not a value
    (?: '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?<!\w)[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?
    """,
    re.VERBOSE,
)


@dataclass(slots=True)
class RejectionReason:
    """A reason for which examples were rejected.

    Parameters
    ----------
    count
        Number of examples.
    place
        Location of the first of them.
    reason
        The reason for the first of them, one sentence.
    """

    count: int
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.count:,} rejected as in {self.place}: {self.reason}"


class RejectionReasons:
    """Counts the examples that are rejected for each reason.

    Reasons that differ in quoted values and in numbers only are one; names of columns are not
    values.

    Attributes
    ----------
    other : int
        Number of examples rejected for reasons that are no longer counted separately.

    Examples
    --------
    >>> from streaml1.training.rejection_reasons import RejectionReasons
    >>> reasons = RejectionReasons()
    >>> for line, label in enumerate("xyz", start=2):
    ...     reasons.add(f"a.csv:{line}", f"invalid label {label!r}: it must be 0 or 1")
    >>> print(*reasons.most_common())
    3 rejected as in a.csv:2: invalid label 'x': it must be 0 or 1
    """

    def __init__(self) -> None:
        self._kinds: dict[str, RejectionReason] = {}
        self.other = 0

    def __repr__(self) -> str:
        return f"RejectionReasons({self.lines()})"

    def add(self, place: str, reason: str) -> None:
        """Count an example."""
        key = _VALUES.sub(_placeholder, reason[:MAX_KEY])
        kind = self._kinds.get(key)
        if kind is not None:
            kind.count += 1
        elif len(self._kinds) < MAX_KINDS:
            self._kinds[key] = RejectionReason(1, place, reason)
        else:
            self.other += 1

    def most_common(self, n: int = MAX_REASONS) -> list[RejectionReason]:
        """Return the n most frequent reasons, the most frequent first."""
        ordered = sorted(self._kinds.values(), key=lambda kind: -kind.count)
        return ordered[:n]

    def lines(self) -> list[str]:
        """Return a line for each of the most frequent reasons, and one for all others."""
        listed = self.most_common()
        lines = [str(kind) for kind in listed]
        rest = self.other + sum(kind.count for kind in self._kinds.values())
        rest -= sum(kind.count for kind in listed)
        return [*lines, f"{rest:,} rejected for other reasons"] if rest else lines


def _placeholder(match: re.Match[str]) -> str:
    return match[0] if match["column"] else "?"
