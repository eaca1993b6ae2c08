"""The meaning of CSV cells: missing words, booleans, numbers and labels.

`CellRules` defines it in plain Python. `CellRules.kernel_words` describes the rules to the kernel
`streaml1.text.csv.parse_records`, which leaves every cell that it is not sure of to Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streaml1.features.number_texts import BOOLEANS, MISSING_WORDS
from streaml1.features.number_units import without_unit
from streaml1.features.positive_label import is_positive, positive_words
from streaml1.sources.source import SourceError, read_number, read_weight, shown
from streaml1.text import csv_cells

__all__ = ["CellRules", "number_marks"]

_GROUPED = re.compile(
    r"[+-]?(?!0[,.])[0-9]{1,3}(?P<group>[,.'’ \u00a0\u2009\u202f])[0-9]{3}(?:(?P=group)[0-9]{3})*"
    r"(?:(?P<mark>(?!(?P=group))[.,])[0-9]+)?"
)
_INDIAN = re.compile(r"[+-]?[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]+)?")
"""A number in groups of two digits before the last three, such as 12,34,567."""
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+(?:[eE][+-]?[0-9]+)?")

_TYPED = str.maketrans("\u00a0\u2009\u202f’", "   '")
"""Typographic spaces and apostrophes between digits, and the characters of keyboards for them."""

_QUOTING = re.compile('["\r\n]')


@dataclass(frozen=True)
class CellRules:
    """How the text of a cell is understood.

    Parameters
    ----------
    missing
        Words that stand for a missing value, in addition to the empty cell.
    positive
        The label that is 1, or several of them; any other one is then 0. None leaves labels as
        they are.
    decimal
        The decimal mark of numbers.
    thousands
        The character between groups of digits, or None. A space also stands for no-break and
        thin spaces.

    Raises
    ------
    SourceError
        If a word contains a quote or a line break, or a mark cannot be one.

    Examples
    --------
    >>> from streaml1.sources.readers.csv_cells import CellRules
    >>> rules = CellRules()
    >>> rules.number("2.5"), rules.number("TRUE"), rules.number("NULL"), rules.is_missing("-")
    (2.5, 1.0, None, False)
    >>> rules.number("12%"), rules.number("-$0.99"), rules.number("5 €")
    (12.0, -0.99, 5.0)
    >>> CellRules(decimal=",", thousands=".").number("1.234,5")
    1234.5
    >>> CellRules(missing=["-"]).is_missing("-")
    True
    """

    missing: Iterable[str] = MISSING_WORDS
    positive: str | None = None
    decimal: str = "."
    thousands: str | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise SourceError(f"decimal must be a point or a comma, got {self.decimal!r}")
        mark = self.thousands
        if mark is not None and (len(mark) != 1 or mark.isalnum() or mark in '+-"\r\n'):
            raise SourceError(
                "thousands must be one character other than letters, digits, signs and quotes, "
                f"got {mark!r}"
            )
        if mark == self.decimal:
            raise SourceError(f"thousands and decimal must differ, got {mark!r} for both")
        if self.positive is not None and any(map(self.is_missing, positive_words(self.positive))):
            raise SourceError(f"positive must not be a missing word, got {self.positive!r}")
        words = tuple(dict.fromkeys(word.strip() for word in self.missing))
        object.__setattr__(self, "missing", words)
        for word in words:
            if _QUOTING.search(word):
                raise SourceError(
                    f"a missing word must not contain quotes or line breaks, got {shown(word)}"
                )

    @property
    def roles(self) -> dict[str, Any]:
        """The rules that are not the default, as a checkpoint compares them."""
        words = {*self.missing} - {""}
        rules: dict[str, Any] = {} if words == {*MISSING_WORDS} else {"missing": sorted(words)}
        if self.positive is not None:
            rules["positive"] = self.positive
        if self.is_localized:
            rules |= {"decimal": self.decimal, "thousands": self.thousands}
        return rules

    @property
    def is_localized(self) -> bool:
        """Whether numbers are written in another way than in programs."""
        return self.decimal != "." or self.thousands is not None

    def is_missing(self, cell: str) -> bool:
        """Return whether a cell is blank or a missing word without spaces around it."""
        return cell in self._absent or cell.isspace()

    def number(self, cell: str) -> float | None:
        """Return the number in a cell, None if it is missing; errors as in `read_number`."""
        text = cell.strip()
        if text in self._absent:
            return None
        boolean = BOOLEANS.get(text)
        return read_number(self._plain(cell)) if boolean is None else boolean

    def is_number(self, cell: str) -> bool:
        """Return whether a cell is a number or missing."""
        try:
            self.number(cell)
        except ValueError:
            return False
        return True

    def weight(self, cell: str) -> float:
        """Return the sample weight in a cell; raise ValueError unless it is finite and >= 0."""
        if self.is_missing(cell.strip()):
            raise ValueError(f"weight must be a number >= 0, got {shown(cell)}")
        try:
            return read_weight(self._plain(cell))
        except ValueError:
            raise ValueError(f"weight must be a number >= 0, got {shown(cell)}") from None

    def _plain(self, cell: str) -> str:
        """Return a number as programs write it, without a unit.

        Raises
        ------
        ValueError
            If a mark is where it cannot be.
        """
        text = without_unit(cell.strip())
        if not self.is_localized:
            return text
        if (group := self._typed_thousands) is not None:
            text = text.translate(_TYPED)
        if group is not None and group in text:
            whole, mark, rest = text.partition(self.decimal)
            if not self._grouped.fullmatch(whole) or group in rest:
                raise ValueError("is not a number")
            text = whole.replace(group, "") + mark + rest
        if self.decimal != ".":
            if "." in text:
                raise ValueError("is not a number")
            text = text.replace(self.decimal, ".")
        return text

    @property
    def marks(self) -> dict[str, str]:
        """The marks that are not the usual ones, as options."""
        marks = {"decimal": self.decimal} if self.decimal != "." else {}
        return marks if self.thousands is None else marks | {"thousands": self.thousands}

    @cached_property
    def _typed_thousands(self) -> str | None:
        return None if self.thousands is None else self.thousands.translate(_TYPED)

    @cached_property
    def _grouped(self) -> re.Pattern[str]:
        # The last group has three digits; those before it may have two, as in India. No program
        # groups the digits after a single zero: 0.123 has the other decimal mark.
        mark = re.escape(self._typed_thousands or "")
        return re.compile(f"[+-]?(?!0{mark})[0-9]{{1,3}}({mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}")

    def label(self, cell: str) -> str | None:
        """Return the label in a cell, or None if it is missing."""
        text = cell.strip()
        if self.is_missing(text):
            return None
        if self.positive is not None:
            return "1" if is_positive(text, self.positive) else "0"
        if self.is_localized:  # a label that is not a number is left as it is
            with suppress(ValueError):
                plain = self._plain(text)
                read_number(plain)
                return plain
        return text

    def labels(self, cells: list[str]) -> Sequence[str | None]:
        """Return the labels in many cells, none of which begins or ends with white space."""
        as_written = self.positive is None and not self.is_localized
        if as_written and cells and self._absent.isdisjoint(cells):
            return cells
        return [self.label(cell) for cell in cells]

    @cached_property
    def _absent(self) -> frozenset[str]:
        return frozenset(("", *self.missing))

    def kernel_words(self) -> NDArray[np.uint64]:
        """Return the argument `words` of `streaml1.text.csv.parse_records`, without a header."""
        raw = [word.encode() for word in self.missing if word]
        space = csv_cells.N_WORDS - csv_cells.WORDS_LIST
        listed = [word for word in raw if len(word) <= 8][:space]
        words = np.zeros(csv_cells.N_WORDS, np.uint64)
        words[csv_cells.WORDS_FIRST], words[csv_cells.WORDS_SECOND] = csv_cells.word_filter(raw)
        words[csv_cells.WORDS_COMPLETE] = len(listed) == len(raw)
        words[csv_cells.WORDS_DECIMAL] = ord(self.decimal)
        for k, word in enumerate(listed, csv_cells.WORDS_LIST):
            words[k] = int.from_bytes(word, "little")
        return words


def number_marks(cell: str, delimiter: str = ",") -> dict[str, str] | None:
    """Return the marks with which a text would be a number, as options; None if there are none.

    In ``1,234`` the comma is a decimal mark if semicolons separate the cells, as they do where
    commas are decimal marks.

    Examples
    --------
    >>> from streaml1.sources.readers.csv_cells import number_marks
    >>> number_marks("1.234,5"), number_marks("2,5"), number_marks("1,234,567"), number_marks("a,b")
    ({'decimal': ',', 'thousands': '.'}, {'decimal': ','}, {'thousands': ','}, None)
    >>> number_marks("12,34,567")
    {'thousands': ','}
    """
    text = without_unit(cell.strip())
    if _INDIAN.fullmatch(text):
        return {"thousands": ","}
    grouped = _GROUPED.fullmatch(text)
    if grouped is None or (delimiter == ";" and text.count(",") == 1 and grouped["mark"] is None):
        return {"decimal": ","} if _DECIMAL_COMMA.fullmatch(text) else None
    decimal = "," if grouped["mark"] == "," or grouped["group"] == "." else "."
    marks = {"decimal": decimal, "thousands": grouped["group"]}
    return marks if decimal == "," else {"thousands": grouped["group"]}
