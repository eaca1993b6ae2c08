"""The svmlight format: ``label id:value id:value ... # comment``."""

from __future__ import annotations

from math import isfinite

from streaml1.streams.source import read_number, shown

__all__ = ["parse_svmlight"]

LAST_ID = 2**63 - 1


def parse_svmlight(
    text: str, require_label: bool = True
) -> tuple[dict[int, float], float | None, float] | None:
    """Read one line.

    Parameters
    ----------
    text
        The line. Ids are taken as written, in any order; one that comes twice counts with the sum;
        a ``qid:`` after the label is left out.
    require_label
        Whether a line that begins with a feature is refused; else its label is None.

    Returns
    -------
    The features, the label and the weight 1, or None for a line that is empty or only a comment.

    Raises
    ------
    ValueError
        One sentence that says what is wrong with the line.

    Examples
    --------
    >>> from streaml1.streams.svmlight import parse_svmlight
    >>> parse_svmlight("-1 qid:4 3:0.5 7:1  # the first")
    ({3: 0.5, 7: 1.0}, -1.0, 1.0)

    """
    if "#" in text:
        text = text.partition("#")[0]
    cells = text.split()
    if not cells:
        return None
    label = None
    if ":" not in cells[0]:
        label = _number(cells.pop(0), "label")
    elif require_label:
        raise ValueError(f"the line has no label: it begins with {shown(cells[0])}")
    if cells and cells[0].startswith("qid:"):
        del cells[0]
    x = _fast(cells) if text.isascii() and "_" not in text else None
    return _careful(cells) if x is None else x, label, 1.0


def _fast(cells: list[str]) -> dict[int, float] | None:
    """Read the features, or give None where anything is out of the ordinary."""
    x = {}
    try:
        for cell in cells:
            name, _, value = cell.partition(":")
            x[int(name)] = float(value)
    except ValueError:
        return None
    if not x:
        return x
    ordinary = len(x) == len(cells) and min(x) >= 0 and max(x) <= LAST_ID
    return x if ordinary and isfinite(sum(x.values())) else None


def _careful(cells: list[str]) -> dict[int, float]:
    """Read the features one by one, and say what is wrong with the first that is."""
    x: dict[int, float] = {}
    for cell in cells:
        name, colon, value = cell.partition(":")
        if not colon:
            raise ValueError(f"{shown(cell)} is not a feature: it must be id:value")
        digits = name.removeprefix("-").removeprefix("+")
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError(
                f"id {shown(name)} is not an integer: names that are words need .jsonl or .csv"
            )
        # int() refuses thousands of digits with a text of its own.
        if len(digits.lstrip("0")) > 19 or not 0 <= int(name) <= LAST_ID:
            raise ValueError(f"id {shown(name)} is out of range: ids go from 0 to 2**63 - 1")
        x[int(name)] = x.get(int(name), 0.0) + _number(value, f"feature {int(name)}")
        if not isfinite(x[int(name)]):
            raise ValueError(f"the values of feature {int(name)} add up to infinity")
    return x


def _number(text: str, what: str) -> float:
    try:
        return read_number(text)
    except ValueError as error:
        raise ValueError(f"{what}: {shown(text)} {error}") from None
