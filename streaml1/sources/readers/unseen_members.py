"""Names in options that no member of JSON lines has.

Members may be missing from some lines, so that no line is invalid without one. But a misspelled
`--ignore` would let a model learn what it must not see.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import orjson

from streaml1.core.named_options import named_option
from streaml1.features.flat_members import MemberRoles, find_member, select_object

__all__ = ["UnseenMembers"]

MAX_LINES = 1000
"""Lines that are searched."""

MIN_RECORDS = 100
"""Records of a topic from which a member that none of them has is reported."""

_REPORTED: set[tuple[MemberRoles, str]] = set()  # a directory may have thousands of files


class UnseenMembers:
    """Finds members that an option names but that no line has.

    Parameters
    ----------
    roles
        The members with a role.
    min_lines
        Lines before which nothing is reported.

    Examples
    --------
    >>> from streaml1.features.flat_members import MemberRoles
    >>> from streaml1.sources.readers.unseen_members import UnseenMembers
    >>> unseen = UnseenMembers(MemberRoles("y", ignore=frozenset(["csot"])))
    >>> unseen.search([b'{"y": 1, "cost": 2}'])
    ['none of the first 1 lines has the member of ignore=["csot"] (did you mean "cost"?)']
    """

    def __init__(self, roles: MemberRoles, min_lines: int = 1) -> None:
        options = {
            "ignore": roles.ignore, "categorical": roles.categorical, "numeric": roles.numeric,
        }  # fmt: skip
        self._options = {
            name: option
            for option, names in options.items()
            for name in sorted(names)
            if "=" not in name and name not in roles.elsewhere  # a category, or a directory
        }
        self._roles = roles
        self._min_lines = min_lines
        self._n_lines = 0
        self._names: dict[str, None] = {}

    @property
    def is_done(self) -> bool:
        """Whether no more lines are needed."""
        return not self._options

    def search(self, lines: Iterable[bytes]) -> list[str]:
        """Search some lines; return a sentence for each member that none had, once per process."""
        for line in lines:
            members = self._members(line)
            if members is None:
                continue
            self._n_lines += 1
            self._names |= dict.fromkeys(map(str, members))
            found = [name for name in self._options if find_member(members, name) is not None]
            for name in found:
                del self._options[name]
            if self.is_done or self._n_lines == MAX_LINES:
                break
        if self._n_lines < self._min_lines:
            return []
        unseen = {
            name: option
            for name, option in self._options.items()
            if (self._roles, name) not in _REPORTED
        }
        _REPORTED.update((self._roles, name) for name in unseen)
        self._options = {}
        return [self._sentence(name, option) for name, option in unseen.items()]

    def _members(self, line: bytes) -> Any:
        """Return the object of an example; None if there is none."""
        try:
            members = orjson.loads(line)
            if self._roles.at is not None:
                found = select_object(members, self._roles.at)
                members = None if found is None else found.value
        except (ValueError, AttributeError):
            return None
        if not isinstance(members, dict):
            return None
        x = members.get("x")
        return x if self._roles.target is None and isinstance(x, dict) else members

    def _sentence(self, name: str, option: str) -> str:
        close = get_close_matches(name, self._names, 1, 0.7)
        hint = f" (did you mean {orjson.dumps(close[0]).decode()}?)" if close else ""
        return (
            f"none of the first {self._n_lines:,} lines has the member of "
            f"{named_option(option, [name])}{hint}"
        )
