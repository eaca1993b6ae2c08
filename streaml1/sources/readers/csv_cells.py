"""The meaning of CSV cells: missing words, booleans, numbers and labels.

`CellRules` defines it in plain Python. `CellRules.kernel_words` describes the rules to the kernel
`streaml1.text.csv.parse_records`, which leaves every cell that it is not sure of to Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streaml1.sources.source import SourceError, read_number, shown
from streaml1.text import csv

__all__ = ["BOOLEANS", "MISSING_WORDS", "CellRules"]

MISSING_WORDS = ("NaN", "nan", "NULL", "null", "None", "N/A", "NA", r"\N", "?")
"""Words that stand for a missing value unless others are given; an empty cell always does."""

BOOLEANS = {"True": 1.0, "true": 1.0, "TRUE": 1.0, "False": 0.0, "false": 0.0, "FALSE": 0.0}
"""Words that are numbers in columns of numbers."""

_QUOTING = re.compile('["\r\n]')


@dataclass(frozen=True)
class CellRules:
    """How the text of a cell is understood.

    Parameters
    ----------
    missing
        Words that stand for a missing value, in addition to the empty cell.

    Raises
    ------
    SourceError
        If a word contains a quote or a line break.

    Examples
    --------
    >>> from streaml1.sources.readers.csv_cells import CellRules
    >>> rules = CellRules()
    >>> rules.number("2.5"), rules.number("TRUE"), rules.number("NULL"), rules.is_missing("-")
    (2.5, 1.0, None, False)
    >>> CellRules(missing=["-"]).is_missing("-")
    True
    """

    missing: Iterable[str] = MISSING_WORDS

    def __post_init__(self) -> None:
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
        return {} if words == {*MISSING_WORDS} else {"missing": sorted(words)}

    def is_missing(self, cell: str) -> bool:
        """Return whether a cell is blank or a missing word without spaces around it."""
        return cell in self._absent or cell.isspace()

    def number(self, cell: str) -> float | None:
        """Return the number in a cell, or None if it is missing.

        Raises
        ------
        ValueError
            As `read_number` does.
        """
        text = cell.strip()
        if text in self._absent:
            return None
        boolean = BOOLEANS.get(text)
        return read_number(cell) if boolean is None else boolean

    def label(self, cell: str) -> str | None:
        """Return the label in a cell, or None if it is missing."""
        text = cell.strip()
        return None if self.is_missing(text) else text

    def labels(self, cells: list[str]) -> Sequence[str | None]:
        """Return the labels in many cells, none of which begins or ends with white space."""
        if cells and self._absent.isdisjoint(cells):
            return cells
        return [self.label(cell) for cell in cells]

    @cached_property
    def _absent(self) -> frozenset[str]:
        return frozenset(("", *self.missing))

    def kernel_words(self) -> NDArray[np.uint64]:
        """Return the argument `words` of `streaml1.text.csv.parse_records`, without a header."""
        raw = [word.encode() for word in self.missing if word]
        listed = [word for word in raw if len(word) <= 8][: csv.N_WORDS - csv.WORDS_LIST]
        words = np.zeros(csv.N_WORDS, np.uint64)
        words[csv.WORDS_FIRST], words[csv.WORDS_SECOND] = csv.word_filter(raw)
        words[csv.WORDS_COMPLETE] = len(listed) == len(raw)
        words[csv.WORDS_DECIMAL] = ord(".")
        for k, word in enumerate(listed, csv.WORDS_LIST):
            words[k] = int.from_bytes(word, "little")
        return words
