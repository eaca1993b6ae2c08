"""Labels of two classes, of which the labels of one are named: the option `positive`."""

from __future__ import annotations

import csv
from functools import cache
from typing import Any

import numpy as np

from streaml1.core.named_options import list_of, named_option
from streaml1.core.rows import shown
from streaml1.core.types import Floats
from streaml1.features.label_texts import LabelTexts
from streaml1.features.raw_labels import read_number

__all__ = ["is_positive", "positive_labels", "positive_words", "require_text"]


def require_text(name: str, value: Any) -> None:
    """Raise TypeError unless the value of the option is a text; the error says which.

    Examples
    --------
    >>> from streaml1.features.positive_label import require_text
    >>> require_text("positive", ["Yes", "yes"])
    Traceback (most recent call last):
    ...
    TypeError: positive must be the text of a label, got ['Yes', 'yes']; use positive="Yes,yes"
    """
    if isinstance(value, str):
        return
    several = isinstance(value, list | tuple | set | frozenset)
    words = list_of(map(str, value)) if several else str(value)
    raise TypeError(
        f"{name} must be the text of a label, got {shown(value)}; use {named_option(name, words)}"
    )


@cache
def positive_words(positive: str) -> frozenset[str]:
    """Return the labels that an option names: a text, or several between commas.

    Examples
    --------
    >>> from streaml1.features.positive_label import positive_words
    >>> sorted(positive_words("Yes, yes"))
    ['Yes', 'Yes, yes', 'yes']
    """
    [listed] = csv.reader([positive.replace("\n", " ")], skipinitialspace=True)
    return frozenset(word.strip() for word in (positive, *listed)) - {""} or frozenset([""])


def is_positive(label: Any, positive: str) -> bool:
    """Return whether a label is the positive one, or one of several, spelled as in the data.

    Numbers are compared by their values.

    Examples
    --------
    >>> from streaml1.features.positive_label import is_positive
    >>> is_positive("Yes", "Yes"), is_positive(2.0, "2"), is_positive(True, "true")
    (True, True, True)
    >>> is_positive("yes", "Yes"), is_positive("yes", "Yes,yes"), is_positive("2.0", "2")
    (False, True, True)
    """
    words = positive_words(positive)
    if isinstance(label, str):
        text = label.strip()
        if text in words:
            return True
        try:
            label = read_number(text)
        except ValueError:
            return False
    return any(_spells(word, label) for word in words)


def _spells(spelling: str, label: Any) -> bool:
    """Return whether a word is the spelling of a label that is not a text."""
    if isinstance(label, bool | np.bool_) and spelling.lower() in ("true", "false"):
        return bool(label) == (spelling.lower() == "true")
    try:
        return bool(label == float(spelling))
    except ValueError:
        return False


def positive_labels(labels: Any, positive: str | None) -> Any:
    """Return labels with 1.0 for the positive one and 0.0 for all others.

    Parameters
    ----------
    labels
        An array, `LabelTexts`, or a list, where None means a missing label.
    positive
        The positive label, or several between commas; None returns `labels`.

    Returns
    -------
    An array of floats; a list if a label is missing.

    Examples
    --------
    >>> from streaml1.features.positive_label import positive_labels
    >>> positive_labels(["ham", "spam", None], "spam")
    [0.0, 1.0, None]
    """
    if positive is None:
        return labels
    if isinstance(labels, LabelTexts):
        known = [text is not None and is_positive(text, positive) for text in labels.texts]
        missing = np.array([text is None for text in labels.texts], bool)[labels.codes]
        return _with_missing(np.array(known, np.float64)[labels.codes], missing)
    if isinstance(labels, np.ndarray):
        distinct, codes = np.unique(labels, return_inverse=True)
        known = [is_positive(label, positive) for label in distinct.tolist()]
        return np.array(known, np.float64)[codes.reshape(-1)]
    known = [label is not None and is_positive(label, positive) for label in labels]
    return _with_missing(np.array(known, np.float64), np.array([v is None for v in labels], bool))


def _with_missing(y: Floats, missing: Any) -> Any:
    if not missing.any():
        return y
    return [None if absent else label for label, absent in zip(y.tolist(), missing, strict=True)]
