"""Labels, sample weights and numbers as data hold them: numbers or texts."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from typing import Any

from streaml1.core.named_options import by_caller, named_option
from streaml1.core.rows import is_missing
from streaml1.core.rows import shown as shown_value
from streaml1.features.labels import equals_itself
from streaml1.features.number_units import without_unit

__all__ = [
    "binary_label",
    "nonnegative_label",
    "number_label",
    "read_number",
    "read_weight",
    "shown",
]


def shown(value: object) -> str:
    """Format a value for an error: long values are cut short, whole floats lose their ``.0``."""
    text = shown_value(value)
    return text.removesuffix(".0") if isinstance(value, float) else text


def read_number(text: str) -> float:
    """Read a plain, finite decimal number.

    Raises
    ------
    ValueError
        With a predicate that callers put after the value: ``is not a number``, ``is not finite``.

    Examples
    --------
    >>> from streaml1.features.raw_labels import read_number
    >>> read_number("-2.5e3")
    -2500.0
    >>> read_number("1_000")
    Traceback (most recent call last):
    ...
    ValueError: is not a number
    """
    try:
        # float() also accepts underscores and the digits of every script.
        number = float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        number = None
    if number is None:
        raise ValueError("is not a number")
    if not math.isfinite(number):
        raise ValueError("is not finite")
    return number


def read_weight(value: Any) -> float:
    """Return a sample weight, given as a number or its text.

    Raises
    ------
    ValueError
        If it is not a finite number >= 0.
    """
    try:
        weight = read_number(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        weight = math.nan
    if isinstance(value, bool) or not 0 <= weight < math.inf:
        raise ValueError(f"weight must be a number >= 0, got {shown(value)}")
    return weight


_OTHER_MARKS = re.compile("[+-]?[0-9]+(?:[.,'’ \u00a0\u202f][0-9]+)+")
"""Digits with marks between them, which programs do not write."""

_BINARY: dict[Any, bool] = {0: False, -1: False, 1: True, "0": False, "-1": False, "1": True}


def binary_label(y: Any) -> bool:
    """Convert a label in a file to False or True.

    Parameters
    ----------
    y
        -1, 0 or 1, a bool, the text of one of these, or ``true`` or ``false`` in any case.

    Raises
    ------
    ValueError
        For any other label.

    Examples
    --------
    >>> from streaml1.features.raw_labels import binary_label
    >>> binary_label(-1.0), binary_label("+1"), binary_label("True")
    (False, True, True)
    >>> binary_label(2.0)
    Traceback (most recent call last):
    ...
    ValueError: invalid label 2: recode labels 1/2 to 0/1 or -1/1, or use positive="2" (CSV,...
    """
    try:
        return _BINARY[y]
    except (KeyError, TypeError):
        pass
    if is_missing(y):
        raise ValueError("the label is missing")
    value = y
    if isinstance(y, str):
        word = y.strip().lower()
        if word in ("true", "false"):
            return word == "true"
        try:
            value = read_number(word)
        except ValueError:
            value = word
    if isinstance(value, Hashable) and value in _BINARY:
        return _BINARY[value]
    raise ValueError(f"invalid label {shown(y)}: {_rule_of_labels(value)}")


def _rule_of_labels(value: Any) -> str:
    """Return which labels are valid, and what to do with one that is not."""
    softmax = by_caller("--model softmax", "SoftmaxClassifier")
    formats = by_caller("(CSV and JSON)", "(CSV, JSON, frames and dicts)")
    regression = by_caller("--task regression", "a regressor")
    if equals_itself(value) and value == 2:
        files = by_caller("files with labels", "labels")
        return (
            f"recode {files} 1/2 to 0/1 or -1/1, or use {named_option('positive', '2')} {formats}, "
            f"{regression} for numbers, or {softmax} for more than two labels"
        )
    remedy = f"use {regression} for numbers"
    if isinstance(value, str):
        remedy = f"name the label that is 1 by {named_option('positive')} {formats}"
    return (
        f"it must be 0 or 1, -1 or 1, or true or false; {remedy}, or use {softmax} for any labels"
    )


def number_label(y: Any) -> float:
    """Convert a label in a file to the number that a regressor learns.

    Parameters
    ----------
    y
        A finite number, or the text of one, also with a percent sign or a currency; True and False
        are 1 and 0.

    Raises
    ------
    ValueError
        For any other label.

    Examples
    --------
    >>> from streaml1.features.raw_labels import number_label
    >>> number_label("43.75")
    43.75
    >>> number_label("12%"), number_label("-$0.99")
    (12.0, -0.99)
    """
    if is_missing(y):
        raise ValueError("the label is missing")
    try:
        value = read_number(without_unit(y.strip())) if isinstance(y, str) else float(y)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        remedy = ""
        if isinstance(y, str) and _OTHER_MARKS.fullmatch(without_unit(y.strip())):
            remedy = (
                "; to read decimal commas and separated thousands of CSV, use "
                f"{named_option('decimal')} and {named_option('thousands')}"
            )
        raise ValueError(f"invalid label {shown(y)}: it must be a finite number{remedy}")
    return value


def nonnegative_label(y: Any) -> float:
    """Convert a label as `number_label` does; reject negative ones, for the Poisson loss.

    Raises
    ------
    ValueError
        If it is not a finite number, or negative.
    """
    value = number_label(y)
    if value < 0.0:
        raise ValueError(f"invalid label {shown(y)}: with the Poisson loss it must be >= 0")
    return value
