"""Names in options that no member of JSON lines, or of dicts, has.

Members may be missing from some examples, so that none is invalid without one. But a misspelled
`--ignore` would let a model learn what it must not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

import orjson

from streaml1.core.named_options import named_option
from streaml1.features.flat_members import MemberRoles, find_member, select_object

__all__ = ["UnseenMembers", "decoded_lines"]

MAX_EXAMPLES = 1000
"""Examples that are searched."""

MIN_RECORDS = 100
"""Records of a topic from which a member that none of them has is reported."""

_REPORTED: set[tuple[MemberRoles, str]] = set()  # a directory may have thousands of files


class UnseenMembers:
    """Finds members that an option names but that no example has.

    Parameters
    ----------
    roles
        The members with a role.
    min_examples
        Examples before which nothing is reported.
    what
        What the examples are.
    reads_x
        Whether, without a target, the features may be in an object ``x``, as in JSON lines.

    Examples
    --------
    >>> from streaml1.features.flat_members import MemberRoles
    >>> from streaml1.sources.readers.unseen_members import UnseenMembers
    >>> unseen = UnseenMembers(MemberRoles("y", ignore=frozenset(["csot"])))
    >>> unseen.search([{"y": 1, "cost": 2}])
    ['none of the first 1 lines has the member of ignore=["csot"] (did you mean "cost"?)']
    """

    def __init__(
        self,
        roles: MemberRoles,
        min_examples: int = 1,
        what: str = "lines",
        reads_x: bool = True,
    ) -> None:
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
        self._min_examples, self._what = min_examples, what
        self._reads_x = reads_x and roles.target is None
        self._n_examples = 0
        self._names: dict[str, None] = {}

    @property
    def is_done(self) -> bool:
        """Whether no more examples are needed."""
        return not self._options

    @property
    def _is_full(self) -> bool:
        return self.is_done or self._n_examples == MAX_EXAMPLES

    def search(self, examples: Iterable[Any]) -> list[str]:
        """Search some examples; return a sentence for each member that none had, once per process.

        Values that are not mappings are skipped.
        """
        for example in examples:
            self._search_one(example)
            if self._is_full:
                break
        return self._report()

    def search_stream(self, examples: Iterable[Any], warn: Callable[[str], None]) -> Iterator[Any]:
        """Yield the examples of a stream; `warn` once enough were searched, or at the end."""
        for example in examples:
            if not self.is_done:
                self._search_one(example)
                if self._is_full:
                    self._warn(warn)
            yield example
        self._warn(warn)

    def _search_one(self, example: Any) -> None:
        members = self._members(example)
        if members is None:
            return
        self._n_examples += 1
        self._names |= dict.fromkeys(map(str, members))
        for name in [name for name in self._options if find_member(members, name) is not None]:
            del self._options[name]

    def _report(self) -> list[str]:
        """Return the sentences, and end the search; nothing if too few examples were searched."""
        if self._n_examples < self._min_examples:
            return []
        unseen = {
            name: option
            for name, option in self._options.items()
            if (self._roles, name) not in _REPORTED
        }
        _REPORTED.update((self._roles, name) for name in unseen)
        self._options = {}
        return [self._sentence(name, option) for name, option in unseen.items()]

    def _warn(self, warn: Callable[[str], None]) -> None:
        for sentence in self._report():
            warn(sentence)

    def _members(self, example: Any) -> Mapping[Any, Any] | None:
        """Return the object that holds the features of an example; None if there is none."""
        if self._roles.at is not None:
            try:
                found = select_object(example, self._roles.at)
            except (ValueError, AttributeError):
                return None
            example = None if found is None else found.value
        if not isinstance(example, Mapping):
            return None
        x = example.get("x") if self._reads_x else None
        return x if isinstance(x, Mapping) else example

    def _sentence(self, name: str, option: str) -> str:
        close = get_close_matches(name, self._names, 1, 0.7)
        hint = f" (did you mean {orjson.dumps(close[0]).decode()}?)" if close else ""
        return (
            f"none of the first {self._n_examples:,} {self._what} has the member of "
            f"{named_option(option, [name])}{hint}"
        )


def decoded_lines(lines: Iterable[bytes]) -> Iterator[Any]:
    """Yield the value of each JSON line; skip lines that are not valid JSON."""
    for line in lines:
        with suppress(ValueError):
            yield orjson.loads(line)
