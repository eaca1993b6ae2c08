"""The header of a CSV file: the names of the columns, and the roles that options give to them.

A column is selected by its name, or by its number from 0 if no column has this name.
"""

from __future__ import annotations

import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from streaml1.core.named_options import by_caller, list_of, named_option
from streaml1.features.flat_members import several_roles
from streaml1.sources.source import SourceError

__all__ = [
    "OTHER_DELIMITERS", "DelimiterError", "RequestedRoles", "Roles", "check_blanks",
    "is_number_of", "list_columns", "listing", "other_delimiter",
]  # fmt: skip

OTHER_DELIMITERS = {"\t": "tab", ";": ";", "|": "|", "\x01": r"\x01"}
"""Delimiters other than the comma that files often have, and how the option takes them."""


MAX_LISTED = 20
"""Columns that an error lists."""


class DelimiterError(SourceError):
    """The cells of a file are separated by another character than the expected one.

    Attributes
    ----------
    missing_options
        The option to add.
    """

    def __init__(self, name: str, delimiter: str, header: str) -> None:
        word = OTHER_DELIMITERS.get(delimiter, delimiter)
        what = word if word.isalpha() else f"'{word}'"
        columns = list_columns(header.split(delimiter)).replace(" are", " are then")
        super().__init__(
            f"{name}: {what} seems to separate the cells: use {named_option('delimiter', word)} "
            f"({columns})"
        )
        self.missing_options = {"delimiter": word}


class Roles(NamedTuple):
    """The positions of the columns with a role; all others hold what their types say."""

    target: int | None = None
    weight: int | None = None
    text: frozenset[int] = frozenset()
    ignored: frozenset[int] = frozenset()
    id: int | None = None
    numeric: frozenset[int] = frozenset()


class RequestedRoles(NamedTuple):
    """The columns with a role, as options name them.

    Parameters
    ----------
    target, weight
        The columns of the label and of the sample weight, or None.
    categorical, ngrams
        The columns of categories, and of raw text from which a model makes n-grams.
    ignored
        The columns to ignore.
    id
        The column of the id, or None.
    numeric
        The columns that hold numbers, even as text.
    elsewhere
        Columns that names of directories hold, for errors.
    """

    target: str | None = None
    weight: str | None = None
    categorical: Sequence[str] = ()
    ngrams: Sequence[str] = ()
    ignored: Sequence[str] = ()
    id: str | None = None
    numeric: Sequence[str] = ()
    elsewhere: Sequence[str] = ()

    def _listed(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of role and column; a column of text may have been requested twice."""
        single = ("target", self.target), ("weight", self.weight), ("id", self.id)
        yield from ((role, column) for role, column in single if column is not None)
        yield from (("text", column) for column in self.ngrams)
        more = (column for column in self.categorical if column not in self.ngrams)
        yield from (("categorical", column) for column in more)
        yield from (("ignored", column) for column in self.ignored)
        yield from (("numeric", column) for column in self.numeric)

    def resolve(self, header: Sequence[str], name: str, require_target: bool = False) -> Roles:
        """Return the positions of the columns.

        Raises
        ------
        SourceError
            If a column is missing or ambiguous, has several roles, or has the name of another one.
            The text lists all that is wrong.
        DelimiterError
            If the cells seem to be separated by another character.

        Examples
        --------
        >>> from streaml1.sources.readers.csv_header import RequestedRoles
        >>> requested = RequestedRoles("click", categorical=["2"])
        >>> roles = requested.resolve(["click", "n", "site"], "a.csv")
        >>> roles.target, roles.text
        (0, frozenset({2}))
        """
        listed = [(role, column, self._positions(header, role, column))
                  for role, column in self._listed()]  # fmt: skip
        unknown = list(dict.fromkeys(column for _, column, positions in listed if not positions))
        by_position: dict[int, list[str]] = {}
        for role, _, positions in listed:
            for position in positions:
                by_position.setdefault(position, []).append(role)
        ignored = {p for p, roles in by_position.items() if "ignored" in roles}
        problems = []
        if self.target is None and require_target:
            option = named_option("target", "COLUMN")
            problems.append(f": use {option} to name the label column")
        if unknown:
            problems.append(self._unknown_clause(unknown, header))
        problems += _duplicates(header, ignored)
        for position, roles in by_position.items():
            if len(distinct := list(dict.fromkeys(roles))) > 1:
                problems.append(f": column {header[position]!r} {several_roles(distinct)}")
        if problems:
            raise self._error(problems, unknown, header, name)
        found = {role: {p for r, _, positions in listed if r == role for p in positions}
                 for role in ("target", "weight", "text", "categorical", "id", "numeric")
                 }  # fmt: skip
        return Roles(
            next(iter(found["target"]), None), next(iter(found["weight"]), None),
            frozenset(found["text"] | found["categorical"]), frozenset(ignored),
            next(iter(found["id"]), None), frozenset(found["numeric"]),
        )  # fmt: skip

    def _unknown_clause(self, unknown: Sequence[str], header: Sequence[str]) -> str:
        """Return a clause about columns that a header lacks, and the columns that may be meant."""
        looks = {*map(_as_it_looks, unknown)}
        same = [name for name in header if _as_it_looks(name) in looks]
        meant = same or _similar(unknown, [*header, *self.elsewhere])
        hint = f" (did you mean {listing(meant)}?)" if meant else ""
        if meant and {*meant} <= {*header} and not all(map(_can_be_typed, [*meant, *unknown])):
            shown = ", ".join(f"{ascii(name)}, column {header.index(name)}" for name in meant)
            hint = f" (did you mean {shown}? select it by its number)"
        if split := [name for name in header if "," in name and {*name.split(",")} <= {*unknown}]:
            quoted = f"a name with a comma is quoted, as in {shlex.quote(list_of(split))}"
            hint = f" ({by_caller(quoted, f'did you mean {listing(split)}?')})"
        return f" has no column{'s' * (len(unknown) > 1)} {listing(unknown)}{hint}"

    def _error(
        self, problems: Sequence[str], unknown: Sequence[str], header: Sequence[str], name: str
    ) -> SourceError:
        """Return the error about clauses; about the delimiter, if that explains them."""
        if delimiter := other_delimiter(header):
            return DelimiterError(name, delimiter, header[0])
        if unknown:
            check_blanks(header, name, unknown)
        first, *rest = problems
        clauses = [f"{name}{first}", *(clause.removeprefix(":").strip() for clause in rest)]
        clauses.append(list_columns(header))
        if self.elsewhere:
            clauses.append(f"those of directories: {', '.join(self.elsewhere)}")
        return SourceError("; ".join(clauses))

    def _positions(self, header: Sequence[str], role: str, column: str) -> list[int]:
        """Return where a column is; one to ignore may mean several."""
        positions = [k for k, name in enumerate(header) if name == column]
        # Models name the columns of raw text, so these cannot be selected by number.
        if not positions and role != "text" and is_number_of(column, header):
            return [int(column)]
        return positions


def _as_it_looks(name: str) -> str:
    """Return a name without what cannot be seen: blanks around it, marks of width zero."""
    visible = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", visible).strip()


def _can_be_typed(name: str) -> bool:
    """Return whether a name is written as a keyboard writes it."""
    return name.isprintable() and unicodedata.normalize("NFC", name) == name


def is_number_of(column: str, header: Sequence[str]) -> bool:
    """Return whether an option selects a column by its number, unless a column has this name."""
    return column.isascii() and column.isdecimal() and int(column) < len(header)


def _duplicates(header: Sequence[str], ignored: Iterable[int]) -> list[str]:
    """Return a clause about the names that several columns share; ignored columns may share one."""
    read = {k: name for k, name in enumerate(header) if k not in set(ignored)}
    twice = [name for name, n in Counter(read.values()).items() if n > 1]
    if not twice:
        return []
    numbers = [str(k) for k, name in read.items() if name == twice[0]]
    return [
        f" has several columns {listing(twice)} (such as columns {', '.join(numbers)}, counted "
        f"from 0): rename all but one, or use {named_option('ignore', [numbers[-1]])}"
    ]


def _similar(unknown: Iterable[str], header: Sequence[str]) -> list[str]:
    """Return the names of a header that unknown names resemble, whatever their case."""
    by_name = {name.lower(): name for name in reversed(header)}
    found = [get_close_matches(name.lower(), by_name, 1, 0.75) for name in unknown]
    return [by_name[name] for names in found for name in names]


def listing(names: Sequence[str]) -> str:
    """Return names in quotes; if there are many, the first ones and how many follow."""
    shown = ", ".join(map(repr, names[:MAX_LISTED]))
    return shown + (f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else "")


def list_columns(header: Sequence[str], limit: int = MAX_LISTED) -> str:
    """Return a clause that lists the columns, or the first ones."""
    n_more = len(header) - limit
    names = ", ".join(header[:limit]) + (f" and {n_more} more" if n_more > 0 else "")
    return f"the columns are: {names}"


def other_delimiter(header: Sequence[str]) -> str | None:
    """Return the character that separates the names in a header of a single cell, if one does."""
    if len(header) != 1:
        return None
    counts = {delimiter: header[0].count(delimiter) for delimiter in OTHER_DELIMITERS}
    delimiter = max(counts, key=counts.__getitem__)
    return delimiter if counts[delimiter] else None


def check_blanks(header: Sequence[str], name: str, columns: Sequence[str] = ()) -> None:
    """Check that blanks or ``::`` do not separate the names in a header of a single cell.

    Parameters
    ----------
    header
        The cells of the header.
    name
        The file, for errors.
    columns
        Columns that were not found. If all of them are among the words of the header, blanks
        separate the names.

    Raises
    ------
    SourceError
        If they do; a `DelimiterError` if a single blank does.
    """
    if len(header) != 1:
        return
    text = header[0].strip()
    for separator, what in (("::", "'::' seems"), (None, "blanks seem")):
        words = text.split(separator)
        if len(words) < 2 or not {*columns} <= {*words}:
            continue
        if separator is None and text == " ".join(words):
            raise DelimiterError(name, " ", text)
        command = "sed -E 's/^ +| +$//g; s/ +/,/g'" if separator is None else "sed 's/::/,/g'"
        raise SourceError(
            f"{name}: {what} to separate the cells: write one comma instead, as with {command}"
        )
