"""What the columns of a CSV file hold, inferred from its first records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from streaml1.core.named_options import named_option, named_options
from streaml1.features.number_texts import BOOLEANS
from streaml1.features.number_units import unit_of
from streaml1.sources.readers.csv_cells import CellRules, number_marks
from streaml1.sources.readers.time_texts import is_date, is_duration

__all__ = [
    "ColumnSummary", "are_codes", "describe_marks", "describe_other_marks",
    "describe_units", "guess_marks", "guess_target", "is_missing_number", "summarize_columns",
]  # fmt: skip

MIN_ROWS = 20
"""With fewer rows, different values do not make an id."""

MIN_DISTINCT = 0.95
"""Share of different values from which a column is an id."""

MIN_NUMBERS = 0.9
"""Share of numbers from which other words in a column stand for a missing value."""

MAX_WORDS = 3
"""Words of a column of numbers that may stand for a missing value."""

MIN_MEASURED = 20
"""Different numbers from which more words may stand for missing values."""

MAX_WORDS_IN_MEASURED = 0.5
"""Their share of such a column."""

_MISSING_IN_NUMBERS = re.compile(
    r"<NA>|NaT|n/a|-nan|-NaN|-?1\.#(QNAN|IND)"  # pandas and C
    r"|\.[A-Z_]?"  # SAS and Stata
    r"|#[^\W\d](\w|[/.])*[!?]?|#¡\w+!"  # Excel in any language: #N/A, #NV, #DIV/0!
)
"""Words for a missing number, however many there are."""

TARGETS = (
    "label", "click", "clicked", "target", "y", "class", "is_click", "is_clicked", "outcome",
    "converted", "conversion", "is_fraud", "isfraud", "fraud", "spam", "is_spam", "churn",
)  # fmt: skip
"""Names of label columns, the most likely ones first."""

MAX_TRIED = 20
"""Values that are tried as numbers first."""

MIN_GROUPED = 5
"""Different numbers such as 1.234 from which their points may separate thousands."""

_GROUPED_BY_POINTS = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")
_SMALL = re.compile(r"[+-]?(0|[1-9][0-9]{0,2})")

_WITH_UNIT = re.compile(r"([+-]?[0-9]+(?:[.,][0-9]+)* |[+-]?[0-9]+[.,][0-9]+)([^\W\d_][^\s]*)")
"""A number with a unit, after a blank unless it has decimals."""

_CODE = re.compile(r"0[0-9]+")
"""Digits that are a code, such as a postal code: a number does not begin with zeros."""

_DIGITS = re.compile(r"[0-9]+")

MAX_UNLABELLED = 0.5
"""Share of missing values from which a column of another name is not the label."""


@dataclass(frozen=True)
class ColumnSummary:
    """What a column holds.

    Parameters
    ----------
    name
        The name of the column.
    position
        Its number, from 0.
    kind
        ``number``, ``boolean`` (true and false, or 0 and 1), ``category`` (words that repeat),
        ``text`` (several words per cell), ``id-like`` (a different value in nearly every row),
        ``time-like`` (dates, times of day and durations, or seconds or milliseconds since 1970),
        ``constant``, or ``empty`` (missing values only).
    missing
        The share of missing values.
    values
        The number of times that each value occurs, most frequent ones first. Missing values are
        left out.
    words
        Words in a column of numbers that may stand for a missing value, too.
    is_category
        Whether the column is of use as a category: it repeats words, even if only one.
    holds_text
        Whether fewer than half of the values are numbers, not counting `words`, or the numbers are
        codes; in JSON and in tables, whether any value is text.
    is_quoted
        Whether the values are numbers as text, which are categories in JSON and in tables.
    is_mixed
        Whether numbers occur next to words, in JSON.
    """

    name: str
    position: int
    kind: str
    missing: float
    values: Counter[str]
    words: tuple[str, ...] = ()
    is_category: bool = False
    holds_text: bool = False
    is_quoted: bool = False
    is_mixed: bool = False


def summarize_columns(
    names: Sequence[str], rows: Sequence[Sequence[str]], rules: CellRules
) -> list[ColumnSummary]:
    """Infer the kind of each column.

    Examples
    --------
    >>> from streaml1.sources.readers.csv_cells import CellRules
    >>> from streaml1.sources.readers.csv_kinds import summarize_columns
    >>> rows = [["news", "2.5", "1"], ["mail", "NULL", "0"], ["news", "1", "1"]]
    >>> [column.kind for column in summarize_columns(["site", "n", "y"], rows, CellRules())]
    ['category', 'number', 'boolean']
    """
    return [
        _summarize(name, position, [row[position].strip() for row in rows], rules)
        for position, name in enumerate(names)
    ]


def _summarize(name: str, position: int, cells: list[str], rules: CellRules) -> ColumnSummary:
    present = [cell for cell in cells if not rules.is_missing(cell)]
    values = Counter(dict(Counter(present).most_common()))
    words = [cell for cell in values if _number(cell, rules) is None]
    unknown = [word for word in words if not is_missing_number(word)]
    n_unknown = sum(values[word] for word in unknown)
    are_measured = len(values) - len(words) >= MIN_MEASURED
    max_share = MAX_WORDS_IN_MEASURED if are_measured else 1 - MIN_NUMBERS
    is_rare = n_unknown <= max_share * len(present) and len(unknown) <= MAX_WORDS
    is_rare &= len(words) <= max(MAX_WORDS, len(values) - len(words))
    if words and is_rare and len(words) < len(values):
        present = [cell for cell in present if cell not in words]
    else:
        words = []
    kind = _kind(present, rules)
    missing = 1.0 - (len(present) / len(cells) if cells else 0.0)
    numbers = [cell for cell in present if _number(cell, rules) is not None]
    holds_text = 2 * len(numbers) < len(present) or are_codes({*numbers})
    is_category = kind == "category" or (kind == "constant" and holds_text)
    return ColumnSummary(
        name, position, kind, missing, values, tuple(words), is_category, holds_text
    )


def _kind(cells: list[str], rules: CellRules) -> str:
    distinct = set(cells)
    if len(distinct) < 2:
        return "constant" if distinct else "empty"
    if distinct <= {*BOOLEANS} or distinct <= {"0", "1"}:
        return "boolean"
    is_id = len(cells) >= MIN_ROWS and len(distinct) >= MIN_DISTINCT * len(cells)
    numbers = [_number(cell, rules) for cell in cells]
    if None not in numbers:
        values = [value for value in numbers if value is not None]
        if _are_times(cells, values):
            return "time-like"
        if are_codes(distinct):
            return "id-like" if is_id else "category"
        return "id-like" if is_id and _are_ids(values) else "number"
    if all(map(is_date, cells)) or all(map(is_duration, cells)):
        return "time-like"
    words = [word for cell in cells for word in cell.split()]
    if len(words) >= 4 * len(cells) and 2 * sum(map(_has_letter, words)) >= len(words):
        return "text"
    return "id-like" if is_id else "category"


def are_codes(cells: Collection[str]) -> bool:
    """Return whether numbers are codes: digits alone, some with zeros at the beginning.

    Programs write numbers without them. Where others have a sign or decimals, zeros are padding.

    Examples
    --------
    >>> from streaml1.sources.readers.csv_kinds import are_codes
    >>> are_codes({"02139", "10115"}), are_codes({"0", "7", "10"}), are_codes({"07", "2.5"})
    (True, False, False)
    """
    return any(map(_CODE.fullmatch, cells)) and all(map(_DIGITS.fullmatch, cells))


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))


def _number(cell: str, rules: CellRules) -> float | None:
    try:
        return rules.number(cell)
    except ValueError:
        return None


def _are_times(cells: list[str], values: list[float]) -> bool:
    """Return whether numbers are seconds, milliseconds or microseconds from 2001 to 2036."""
    if any(all(1e9 * unit <= v < 2.1e9 * unit for v in values) for unit in (1, 1e3, 1e6)):
        return True
    return all(_is_date(cell) for cell in cells)


def _is_date(cell: str) -> bool:
    try:
        datetime.strptime(cell, "%Y%m%d")
    except ValueError:
        return False
    return len(cell) == 8 and "1900" < cell < "2100"


def _are_ids(values: list[float]) -> bool:
    """Return whether distinct numbers are integers that count or are large."""
    if not all(value.is_integer() for value in values):
        return False
    steps = {b - a for a, b in zip(values, values[1:], strict=False)}
    return steps == {1.0} or min(map(abs, values)) >= 1e6


def guess_marks(columns: Sequence[ColumnSummary], delimiter: str = ",") -> dict[str, str]:
    """Return the decimal mark and the mark of thousands of columns that hold other numbers.

    The keys are those of `CellRules`; the usual marks are left out.
    """
    marks: dict[str, str] = {}
    has_groups = False
    for column in columns:
        found = _marks_in(column, delimiter)
        for cell_marks in found.values():
            marks |= cell_marks
        has_groups |= any(cell.count(",") > 1 for cell in found)
    if marks.get("thousands") == marks.get("decimal"):  # 1,234,567 has no decimal comma
        marks.pop("decimal" if has_groups else "thousands", None)
    return marks


def _marks_in(column: ColumnSummary, delimiter: str) -> dict[str, dict[str, str]]:
    """Return the values with other marks of a column of numbers, and these; else nothing."""
    cells = [*column.values]
    if not any(number_marks(cell, delimiter) or _is_plain(cell) for cell in cells[:MAX_TRIED]):
        return {}  # categories and texts: a look at all of them takes longer than reading them
    found = {cell: number_marks(cell, delimiter) for cell in cells}
    n_numbers = sum(n for cell, n in column.values.items() if found[cell] or _is_plain(cell))
    n_missing = sum(n for cell, n in column.values.items() if _MISSING_IN_NUMBERS.fullmatch(cell))
    if n_numbers < MIN_NUMBERS * (column.values.total() - n_missing):
        return {}
    return {cell: marks for cell, marks in found.items() if marks}


def describe_marks(columns: Sequence[ColumnSummary], delimiter: str = ",") -> str:
    """Return a sentence about numbers that are read in another way than they are written; or "".

    Examples
    --------
    >>> from streaml1.sources.readers.csv_cells import CellRules
    >>> from streaml1.sources.readers.csv_kinds import describe_marks, summarize_columns
    >>> rows = [["1,613.66"], ["24,100.50"], ["12.25"]]
    >>> print(describe_marks(summarize_columns(["amount"], rows, CellRules())))
    column 'amount' holds numbers such as '1,613.66': to read them, use thousands=","
    """
    numbers = [column for column in columns if not column.holds_text and column.kind != "empty"]
    pointed = next((column.name for column in numbers if _has_point(column)), None)
    marks = guess_marks([column for column in columns if column.holds_text], delimiter)
    if marks:
        name, value = next(
            (column.name, value)
            for column in columns
            if column.holds_text
            for value in _marks_in(column, delimiter)
        )
        what = f"column {name!r} holds numbers such as {value!r}"
        cells = next(column.values for column in columns if column.name == name)
        point = next((cell for cell in cells if "." in cell and _is_plain(cell)), None)
        if marks == {"decimal": ","} and point is not None:
            return f"{what} next to {point!r}: write both alike"
        if marks.get("decimal") == "," and pointed is not None:
            return f"{what}, where {pointed!r} has decimal points: write both alike"
        return f"{what}: to read them, use {named_options(marks)}"
    for column in numbers:
        if _has_groups(column):
            value = next(value for value in column.values if "." in value)
            remedy = "remove it"
            if pointed is None:
                remedy = f"use {named_options({'decimal': ',', 'thousands': '.'})}"
            return (
                f"column {column.name!r} holds {value!r} next to whole numbers below 1,000: if its "
                f"point separates thousands, {remedy}"
            )
    for column in columns:
        if column.holds_text and (unit := _unit_of(column)):
            return (
                f"column {column.name!r} holds numbers with a unit, such as "
                f"{next(iter(column.values))!r}: to read them as numbers, remove {unit!r}"
            )
    return ""


def describe_units(columns: Sequence[ColumnSummary]) -> str:
    """Return a sentence about a column of numbers in several units, which are left out; or "".

    Numbers without a unit may stand next to amounts of one currency, but not to percentages.

    Examples
    --------
    >>> from streaml1.sources.readers.csv_cells import CellRules
    >>> from streaml1.sources.readers.csv_kinds import describe_units, summarize_columns
    >>> columns = summarize_columns(["p"], [["$5"], ["7"], ["4 €"]], CellRules())
    >>> print(describe_units(columns).partition(": ")[0])
    column 'p' holds '$5' next to '4 €'
    """
    for column in columns:
        if column.holds_text:
            continue
        found: dict[str, str] = {}
        for cell in column.values:
            if cell not in column.words and cell.strip("0.,") and cell not in BOOLEANS:
                found.setdefault(_unit(cell), cell)
        differing = [cell for unit, cell in found.items() if unit or "%" in found]
        if len(differing) > 1:
            return (
                f"column {column.name!r} holds {differing[0]!r} next to {differing[1]!r}: numbers "
                "are read without their units, so convert them to one unit, or use "
                f"{named_option('ignore', [column.name])}"
            )
    return ""


def _unit(cell: str) -> str:
    """Return the unit of a number."""
    is_plain = cell[-1:].isdecimal() and cell.lstrip("+-")[:1].isdecimal()
    return "" if is_plain else unit_of(cell)


def describe_other_marks(
    columns: Sequence[ColumnSummary], rules: CellRules, delimiter: str = ","
) -> str:
    """Return a sentence about numbers with other marks than the given ones; "" if there are none.

    Parameters
    ----------
    columns
        Summaries by `rules`.
    rules
        The given marks.
    delimiter
        The character between cells.

    Examples
    --------
    >>> from streaml1.sources.readers.csv_cells import CellRules
    >>> from streaml1.sources.readers.csv_kinds import describe_other_marks, summarize_columns
    >>> rules = CellRules(decimal=",")
    >>> columns = summarize_columns(["p"], [["1.234,5"], ["2,5"]], rules)
    >>> print(describe_other_marks(columns, rules).partition(": ")[2])
    use decimal=",", thousands="."
    """
    for column in columns:
        unread = [cell for cell in column.values if _number(cell, rules) is None]
        others = [cell for cell in unread if _is_plain(cell) or number_marks(cell, delimiter)]
        n_words = sum(column.values[cell] for cell in {*unread}.difference(others))
        if not others or n_words > (1 - MIN_NUMBERS) * column.values.total():
            continue
        marks = guess_marks([column], delimiter)
        better = replace(rules, decimal=marks.get("decimal", "."), thousands=marks.get("thousands"))
        numbers = {*column.values}.difference(unread).union(others)
        are_read = all(_number(cell, better) is not None for cell in numbers)
        remedy = f"use {named_options(marks)}" if marks and are_read else "write them alike"
        return (
            f"column {column.name!r} holds numbers such as {others[0]!r}, which "
            f"{named_options(rules.marks)} does not read: {remedy}"
        )
    return ""


def _unit_of(column: ColumnSummary) -> str | None:
    """Return the word after most numbers of a column, or None; ``7A`` and ``8A`` are codes."""
    if len(column.values) < MIN_MEASURED:
        return None
    first = list(islice(column.values, MAX_TRIED))
    found = Counter(match[2] for cell in first if (match := _WITH_UNIT.fullmatch(cell)))
    if not found:
        return None
    [(unit, _)] = found.most_common(1)
    n_alike = sum(
        n
        for cell, n in column.values.items()
        if (match := _WITH_UNIT.fullmatch(cell)) and match[2] == unit
    )
    return unit if n_alike >= MIN_NUMBERS * column.values.total() else None


def _has_groups(column: ColumnSummary) -> bool:
    """Return whether the points in a column of numbers are more likely marks of thousands.

    Numbers without one are then smaller than 1,000, and there are some: decimals would not all have
    three digits.
    """
    pointed = [cell for cell in column.values if "." in cell]
    whole = [cell for cell in column.values if cell not in pointed]
    return (
        len(pointed) >= MIN_GROUPED
        and len(whole) > 0
        and all(_GROUPED_BY_POINTS.fullmatch(cell) for cell in pointed)
        and all(_SMALL.fullmatch(cell) for cell in whole)
    )


def _has_point(column: ColumnSummary) -> bool:
    """Return whether points are decimal marks in a column of numbers."""
    return any("." in cell for cell in column.values) and not _has_groups(column)


def is_missing_number(cell: str) -> bool:
    """Return whether a word stands for a missing number in some program."""
    return _MISSING_IN_NUMBERS.fullmatch(cell) is not None


def _is_plain(cell: str) -> bool:
    return _number(cell, CellRules()) is not None


def guess_target(columns: Sequence[ColumnSummary]) -> ColumnSummary | None:
    """Return the column that is most likely the label, or None.

    It has a usual name, or else is the first or the last column, or the only one, with two values.
    Some labels of the last column may be missing.
    """
    by_name = {column.name.strip().lower(): column for column in reversed(columns)}
    for name in TARGETS:
        if name in by_name:
            return by_name[name]
    binary = [column for column in columns if len(column.values) == 2 and not column.missing]
    ends = [column for column in (*columns[:1], *columns[-1:]) if column in binary]
    if ends:
        return ends[0]
    last = columns[-1] if columns else None
    if last is not None and len(last.values) == 2 and last.missing < MAX_UNLABELLED:
        return last
    return binary[0] if len(binary) == 1 else None
