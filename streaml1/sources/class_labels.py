r"""The labels of multiclass models in files: which texts and numbers are the same class.

One rule for all formats, so that a model trained on one of them can read another:

- A text that reads as a whole number, and a number that is whole, is the class of this int: ``7``,
  ``07``, ``7.0``, ``+7`` and ``7e0`` are the class 7, with or without quotes.
- Any other text is a class of its own, without the white space around it.
- What stands for a missing value (``NaN``, ``NULL``, ``\N``, nothing), and what is a sign of a
  damaged file, is rejected: it would silently become a class.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from typing import Any

from streaml1.core.rows import shown
from streaml1.features.labels import equals_itself

__all__ = ["MISSING_LABELS", "class_label", "class_text"]

MISSING_LABELS = frozenset(
    ["", "?", "NULL", "Null", "null", "None", "N/A", "n/a", "#N/A", "NA", "<NA>", "NaT", "\\N"]
)
"""Texts that stand for a missing label. So do the spellings of NaN, as float() reads them."""

MAX_INTEGER_LABEL = 2.0**53
"""From here on a float stands for several integers, so that different labels could become equal."""

MAX_DIGITS = 18
"""Texts of more digits stay texts: these ints need not fit into 64 bits."""

_WHOLE = re.compile(r"([+-]?)0*([0-9]+?)(?:\.0*)?")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_SEVERAL = re.compile(r"[+-]?[0-9.]+(?:\s*[,;]\s*[+-]?[0-9.]+)*[,;]?|\[.*[,;].*\]", re.DOTALL)
_DAMAGED = re.compile("[\x00-\x1f\x7f\ufeff\ufffd]")


def class_label(y: Any) -> Hashable:
    r"""Convert a label in a file to one of many classes.

    Parameters
    ----------
    y
        Any text or number. A whole number, or a text that reads as one, becomes an int.

    Raises
    ------
    ValueError
        If the label is missing, is not hashable, is a float that other integers are read as, too,
        or is a text that is not a single label.

    Examples
    --------
    >>> from streaml1.sources import class_label
    >>> class_label(3.0), class_label("3"), class_label("03.0"), class_label("news")
    (3, 3, 3, 'news')
    >>> class_label("\\N")
    Traceback (most recent call last):
    ...
    ValueError: invalid label '\\N': it stands for a missing value; leave the example out
    """
    if isinstance(y, str):
        return _class_of_text(y)
    if isinstance(y, float) and y.is_integer():
        if abs(y) >= MAX_INTEGER_LABEL:
            raise ValueError(
                f"ambiguous label {int(y)}: integer labels must be below 2^53, or be text: in "
                "quotes in JSON, in any column of CSV"
            )
        return int(y)
    if y is None or (isinstance(y, float) and math.isnan(y)):
        raise ValueError("the label is missing")
    if not isinstance(y, Hashable) or not equals_itself(y):
        raise ValueError(f"invalid label {shown(y)}: it must be a text or a number")
    return y


def _class_of_text(y: str) -> Hashable:
    text = y.strip()
    whole = _WHOLE.fullmatch(text)
    if whole is not None:
        sign, digits = whole.group(1).replace("+", ""), whole.group(2)
        return int(sign + digits) if len(digits) <= MAX_DIGITS else sign + digits
    if _FLOAT.fullmatch(text):
        number = float(text)
        is_whole = number.is_integer() and abs(number) < MAX_INTEGER_LABEL
        return int(number) if is_whole else text
    if text in MISSING_LABELS or _NOT_FINITE.fullmatch(text):
        if not text:
            raise ValueError("the label is missing: its text is empty")
        raise ValueError(
            f"invalid label {shown(y)}: it stands for a missing value; leave the example out"
        )
    if damage := _DAMAGED.search(text):
        what = {
            "\ufeff": "a byte order mark (U+FEFF), as between files that were joined",
            "\ufffd": "a replacement character (U+FFFD), as left by a wrong encoding",
            "\n": "a newline, as after a quote that is never closed",
        }.get(damage.group(), f"the control character U+{ord(damage.group()):04X}")
        raise ValueError(f"invalid label {shown(y)}: it contains {what}; remove it")
    if _SEVERAL.fullmatch(text):
        raise ValueError(
            f"invalid label {shown(y)}: an example has a single label; write one line for each"
        )
    return text


def class_text(label: Hashable) -> Hashable:
    """Return a label as it is written to outputs: a whole number is written without ``.0``.

    Models that were trained by an earlier version, or in Python, may have such labels.

    Examples
    --------
    >>> from streaml1.sources.class_labels import class_text
    >>> class_text(7.0), class_text("7.0"), class_text("007"), class_text(2.5)
    (7, '7', '007', 2.5)
    """
    if isinstance(label, float) and math.isfinite(label) and label.is_integer():
        return int(label)
    if isinstance(label, str) and re.fullmatch(r"-?(0|[1-9][0-9]*)\.0+", label):
        return label.partition(".")[0]
    return label
