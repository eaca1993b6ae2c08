"""Whether the first line of a CSV file is its header: not data, a title or a rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile, islice

from streaml1.core.named_options import named_option, named_options
from streaml1.sources.readers.csv_header import DelimiterError, is_number_of, other_delimiter
from streaml1.sources.readers.signatures import HEAD_SIZE, likely_format
from streaml1.sources.source import SourceError, read_number, shown

__all__ = [
    "HeaderlessError",
    "check_delimiter",
    "check_is_header",
    "check_width",
    "describe_title",
    "find_unnamed",
    "is_rule",
    "require_table",
]

_RULE = re.compile(r"[-=+|: ,]*(--|==)[-=+|: ,]*")

MAX_ABOVE = 5
"""Lines below the first one that are looked at for the names of the columns."""


class HeaderlessError(SourceError):
    """The first line of a file looks like data."""


def require_table(text: bytes, name: str) -> None:
    """Check that a file of CSV does not begin with an example in another format."""
    found = likely_format(text[:HEAD_SIZE])
    if found.get("format") in ("jsonl", "svmlight"):
        error = SourceError(f"{name}: its first line is not CSV: use {named_options(found)}")
        error.missing_options = found
        raise error


def is_rule(record: Sequence[str]) -> bool:
    """Return whether a record is a line drawn by characters, as in ``-----+------``."""
    return _RULE.fullmatch(",".join(record)) is not None


def check_delimiter(
    header: Sequence[str], rows: Sequence[Sequence[str]], name: str, delimiter: str
) -> None:
    """Check that no other character separates the names of a file and the cells of all its rows.

    Raises
    ------
    DelimiterError
        If one does.
    """
    other = other_delimiter(header)
    if other is None and header[1:] == [] and "," in header[0] and delimiter != ",":
        other = ","
    if other is not None and rows and all(other in "".join(row) for row in rows):
        raise DelimiterError(name, other, header[0])


def check_width(
    header: Sequence[str], rows: Sequence[Sequence[str]], place: str, delimiter: str = ","
) -> None:
    """Check that a first line is the header: not a title above it, nor without row names.

    Raises
    ------
    SourceError
        If all lines below have the same, larger number of cells.
    """
    if is_rule(header):
        raise SourceError(
            f"{place}: the line is a rule of a printed table ({shown(header[0])}): export the "
            "table as CSV, as with psql --csv or mysql --batch"
        )
    shapes = {(len(row), row[0].count(delimiter)) for row in (header, *rows)}
    width, n_inside = min(shapes)
    if len(shapes) == 1 and width == 1 and n_inside > 1:
        raise SourceError(
            f"{place}: each line is quoted as a whole: remove these quotes, as with "
            'sed \'s/^"//; s/"\\r*$//; s/""/"/g\''
        )
    # A title may have more lines than one, of a cell or two each.
    below = list(dropwhile(lambda row: len(row) <= max(2, len(header)), rows))
    rows = below if len({len(row) for row in rows}) > 1 else rows
    widths = {len(row) for row in rows}
    if len(rows) < 2 or len(widths) > 1 or widths <= {*range(len(header) + 1)}:
        return
    [width] = widths
    if len(header) == 1 or width > len(header) + 1:
        cells = f"{len(header)} cell{'s' * (len(header) > 1)}"
        raise SourceError(
            f"{place}: the line has {cells} ({shown(header[0])}), but those below have {width}: "
            "remove the lines above the names of the columns"
        )
    if any(row[-1].strip() for row in rows):
        remedy = (
            "if the first ones are row names of R, export without them (row.names = FALSE); "
            "otherwise quote cells that contain the delimiter"
        )
    else:
        remedy = f"remove the delimiter at their ends, as with sed -E 's/{_pattern(delimiter)}$//'"
    raise SourceError(
        f"{place}: the header has {len(header)} cells, but the lines below have {width}: {remedy}"
    )


def _pattern(delimiter: str) -> str:
    """Return a delimiter as sed -E writes it."""
    return {"\t": r"\t", "\x01": r"\x01", "|": "[|]"}.get(delimiter, delimiter)


def check_is_header(
    header: Sequence[str], rows: Sequence[Sequence[str]], target: str | None, place: str
) -> None:
    """Check that the first line of a file is not data.

    A target that names a column is proof of a header.

    Parameters
    ----------
    header
        The cells of the line.
    rows
        Records that follow it, if there are any.
    target
        The column of the label, as an option names it.
    place
        File and line, for the error.

    Raises
    ------
    SourceError
        If the line looks like data.
    """
    by_number = target is not None and target not in header and is_number_of(target, header)
    if target in header and not _is_plain_number(target or ""):
        return
    is_data = _counts_badly(header, rows[:1])
    if by_number:  # a name does not occur below itself
        rows = [row for row in rows if list(row) != list(header)]
        columns = zip(*islice(rows, 1000), strict=False)
        is_data |= any(name in cells for name, cells in zip(header, columns, strict=False) if name)
    if is_data:
        raise HeaderlessError(
            f"{place}: the line looks like data, not like the names of columns "
            f"({', '.join(header[:5])}{', ...' * (len(header) > 5)}): use "
            f"{named_option('header', False)} or {named_option('column_names', ['NAME', ...])} if "
            f"the file has no header, or {named_option('header', True)} if it has one"
        )


def _counts_badly(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the numbers in a header are those of data: not 0, 1, 2, nor years."""
    numbers = [name for name in header if _is_plain_number(name)]
    if not numbers:
        return False
    if not all(name.isascii() and name.isdecimal() for name in numbers):
        return True
    first = int(numbers[0])
    if numbers != [str(first + k) for k in range(len(numbers))]:
        return True
    if not rows or (first == 0 and len(numbers) > 1):
        return False
    # Numbers that count may be years: then the other names differ from the cells below them.
    (row,) = rows
    return [_is_plain_number(name) for name in header] == [_is_plain_number(cell) for cell in row]


def _is_plain_number(text: str) -> bool:
    try:
        read_number(text)
    except ValueError:
        return False
    return True


def find_unnamed(
    header: Sequence[str], rows: Sequence[Sequence[str]], ignored: Sequence[str], place: str
) -> str | None:
    """Return what the columns without a name are if they are to be ignored, or None.

    Such a column holds row numbers, or it is empty, as spreadsheets write some next to a table.

    Raises
    ------
    SourceError
        If another column has no name.
    """
    nameless = [k for k, name in enumerate(header) if not name and str(k) not in ignored]
    if not nameless or "" in ignored:
        return None
    if nameless == [0] and all(row and row[0].isascii() and row[0].isdecimal() for row in rows[:1]):
        return "the first column has no name and numbers the rows"
    whole = [row for row in rows if len(row) == len(header)]
    are_empty = bool(whole) and not any(row[k].strip() for row in whole for k in nameless)
    if are_empty and len(nameless) < len(header) - 1:
        n = len(nameless)
        return f"{'a column' if n == 1 else f'{n} columns'} without a name and values"
    problem = describe_title(header, rows) or (
        f"column {nameless[-1] + 1} has no name: name it, or ignore it with "
        f"{named_option('ignore', '')}"
    )
    raise SourceError(f"{place}: {problem}")


def describe_title(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return why a first line is not the header but above it; "" if it may be the header.

    Examples
    --------
    >>> from streaml1.sources.readers.csv_header_checks import describe_title
    >>> describe_title(["user", "", "", "y"], [["id", "age", "city", "y"], ["7", "31", "a", "1"]])
    'the line names 2 of 4 columns, but one below has words for each (id, age, city, ...)...'
    """
    names = [name for name in header if name.strip()]
    if len(names) == 1 and len(header) > 2:
        return (
            f"all cells of the line but one are empty ({shown(names[0])}): remove the lines above "
            "the names of the columns"
        )
    if len(header) - len(names) < 2:
        return ""
    for k, row in enumerate(rows[:MAX_ABOVE]):
        has_numbers = any(_is_plain_number(cell) for other in rows[k + 1 :] for cell in other)
        if len(row) == len(header) and _may_be_names(row) and has_numbers:
            return (
                f"the line names {len(names)} of {len(header)} columns, but one below has words "
                f"for each ({', '.join(row[:3])}, ...): if these are the names, remove the lines "
                "above them"
            )
    return ""


def _may_be_names(row: Sequence[str]) -> bool:
    """Return whether all cells are different words."""
    words = {cell.strip() for cell in row}
    return "" not in words and len(words) == len(row) and not any(map(_is_plain_number, words))
