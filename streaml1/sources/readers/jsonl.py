"""JSON lines: ``{"x": {"age": 31, "country": "fr"}, "y": 1, "w": 0.5}``, one example a line."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NoReturn

import numpy as np
import orjson

from streaml1.sources.readers.named_lines import NamedParser
from streaml1.sources.source import read_weight, shown
from streaml1.text import jsonl
from streaml1.text.json_scalars import FALSE, NOTHING, NUMBER, TEXT, TRUE
from streaml1.text.jsonl import MOST, OTHERS
from streaml1.text.parsed_rows import NamedRows

__all__ = ["JsonParser", "decoded", "features", "parse_json", "raw_label"]


Label = float | bool | str | None
JsonExample = tuple[dict[str, Any], Label, float] | tuple[dict[str, Any], Label, float, int | str]
"""Features, label and weight, and the id where there is one."""


EXACT = 2.0**63


class _Twice(list[tuple[str, Any]]):
    """The pairs of an object in which a name comes twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Twice:
    distinct = dict(pairs)
    return distinct if len(distinct) == len(pairs) else _Twice(pairs)


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON: write null for a value that is missing")


def _whole(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # of more digits than Python takes
        return float(text)


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_int=_whole
).decode


def parse_json(text: str, require_label: bool = True) -> JsonExample | None:
    """Read one line.

    Parameters
    ----------
    text
        The line: an object with the features ``x`` (numbers, strings, true, false or null), the
        label ``y`` and, if it is not 1, the weight ``w``; it may have an ``id``, a string or a
        whole number. All else is left out. A number whose name comes twice counts with the sum.
    require_label
        Whether a line without a label is refused; else its label is None.

    Returns
    -------
    The features, the label and the weight, and the id where there is one; None for an empty line.

    Raises
    ------
    ValueError
        One sentence that says what is wrong with the line.

    Examples
    --------
    >>> from streaml1.sources.readers.jsonl import parse_json
    >>> parse_json('{"x": {"age": 31, "country": "fr"}, "y": true}')
    ({'age': 31, 'country': 'fr'}, True, 1.0)
    >>> parse_json('{"id": "v7", "x": {"age": 31}, "y": true}')
    ({'age': 31}, True, 1.0, 'v7')

    """
    text = text.rstrip()
    if not text:
        return None
    try:
        return _example(text, require_label)
    except RecursionError:
        raise ValueError("not an example: its values are nested too deeply") from None


class JsonParser(NamedParser):
    r"""Reads lines by a kernel; those that are out of the ordinary by `parse_json`.

    Examples
    --------
    >>> from streaml1.sources.readers.jsonl import JsonParser
    >>> parsed = JsonParser().read(b'{"x": {"a": 1, "b": "c"}, "y": 1}\n{"y": 1}\n')
    >>> list(parsed.x), parsed.y
    ([{'a': 1, 'b': 'c'}], array([1.]))
    >>> parsed.faults
    [(1, 'the example has no "x", its features: write {"x": {"a": 1}, "y": 1}')]

    """

    kernel = staticmethod(jsonl.rows)
    header = ()

    def __init__(self, require_label: bool = True, what: str = "file") -> None:
        super().__init__(parse_json, require_label, what)

    def _more(self, n: int) -> tuple[Any, ...]:
        return _more_room(n)

    def _told(self, x: NamedRows, y: Any, *more: Any) -> tuple[dict[int, Any], dict[int, Any]]:
        told = more[0][: len(y)]
        return _labels(x.text, told[:, :3]), _ids(x.text, told[:, 3:])


def _more_room(n: int) -> tuple[Any, ...]:
    # A line of two bytes is a row, be it odd.
    told = np.empty((n // 2 + 2, 6), np.uint64)
    two = int(MOST + MOST)
    return told, np.empty(two + int(OTHERS), np.uint64), np.empty(two, np.uint64)


def _labels(text: Any, told: Any) -> dict[int, Any]:
    """By row: labels that are no floats."""
    kinds = told[:, 0]
    labels: dict[int, Any] = {}
    if (kinds == NUMBER).all():
        return labels
    for kind, label in ((FALSE, False), (TRUE, True), (NOTHING, None)):
        labels |= dict.fromkeys(np.flatnonzero(kinds == kind).tolist(), label)
    for row in np.flatnonzero(kinds == TEXT).tolist():
        labels[row] = text[int(told[row, 1]) : int(told[row, 2])].tobytes().decode()
    return labels


def _ids(text: Any, told: Any) -> dict[int, int | str]:
    """By row: ids that are texts or whole numbers."""
    kinds = told[:, 0]
    ids: dict[int, int | str] = {}
    for row in np.flatnonzero((kinds == TEXT) | (kinds == NUMBER)).tolist():
        word = text[int(told[row, 1]) : int(told[row, 2])].tobytes().decode()
        if kinds[row] == TEXT:
            ids[row] = word
        elif word.removeprefix("-").isdigit():
            ids[row] = int(word)
    return ids


def _example(text: str, require_label: bool) -> JsonExample:
    example = decoded(text)
    x, y = features(example), raw_label(example, require_label)
    w, known = read_weight(example.get("w", 1.0)), example.get("id")
    if isinstance(known, str | int) and not isinstance(known, bool):
        return x, y, w, known
    return x, y, w


def decoded(text: str) -> dict[str, Any]:
    """The object in a line; ValueError with one sentence where there is none."""
    example = _plainly_decoded(text)
    if example is not None:
        return example
    try:
        example = _decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"not JSON: {error.msg.removesuffix(' at')} at column {error.pos + 1}"
        ) from None
    if isinstance(example, _Twice):
        raise ValueError("a name outside of x, such as y, comes twice: each may come once")
    if not isinstance(example, dict):
        raise ValueError(f'{shown(example)} is not an example: write {{"x": {{...}}, "y": 1}}')
    if "\\u" in text:
        _require_text(example)
    return example


def _plainly_decoded(text: str) -> dict[str, Any] | None:
    """The object in a line where that is beyond doubt: valid, and no name comes twice."""
    try:
        example = orjson.loads(text)
    except ValueError:
        return None
    if type(example) is not dict or '"  ' in text or "\t" in text:
        return None
    x = example.get("x")
    if type(x) is dict and not _has_exact_numbers(x):
        return None
    names = len(example) + (len(x) if type(x) is dict else 0)
    # Each pair has a quote before its colon, with no more than a blank between.
    if text.count('":') + text.count('" :') != names or type(example.get("id")) is float:
        return None
    return example


def _has_exact_numbers(x: dict[str, Any]) -> bool:
    """Whether no value may have been a whole number too long for 64 bits."""
    values = x.values()
    try:
        return not x or bool(min(values) > -EXACT and max(values) < EXACT)
    except TypeError:  # not numbers alone
        return not any(type(v) is float and abs(v) >= EXACT for v in values)


def _require_text(example: dict[str, Any]) -> None:
    """Refuse half of a surrogate pair: it has no UTF-8, so no model could hash or save it."""
    try:
        json.dumps(example, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise ValueError(f"{half} is half of a character: its other half is missing") from None


def raw_label(example: dict[str, Any], require_label: bool) -> float | bool | str | None:
    """The label ``y`` of an object; ValueError with one sentence where it is none."""
    y = example.get("y")
    if y is None:
        if require_label:
            raise ValueError('the example has no "y": its label')
        return None
    if isinstance(y, (bool, str)):
        return y
    try:
        return float(y)
    except (TypeError, OverflowError):
        raise ValueError(f"label {shown(y)} is not a number, a string, true or false") from None


def features(example: dict[str, Any]) -> dict[str, Any]:
    """The features ``x`` of an object; ValueError with one sentence where they are none."""
    if "x" not in example:
        raise ValueError('the example has no "x", its features: write {"x": {"a": 1}, "y": 1}')
    x = example["x"]
    if isinstance(x, dict):
        try:
            if all(map(isfinite, x.values())):
                return x
        except (TypeError, OverflowError):
            pass  # not numbers alone
        for name, value in x.items():
            _require_value(name, value)
        return x
    if isinstance(x, _Twice):
        return _summed(x)
    raise ValueError(f'"x" is {shown(x)}: it must be an object, {{"name": value, ...}}')


def _require_value(name: str, value: Any) -> None:
    if value is None or isinstance(value, str):
        return
    if isinstance(value, (dict, list)):
        raise ValueError(
            f"feature {shown(name)} is nested: "
            "a value must be a number, a string, true, false or null"
        )
    try:
        finite = isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise ValueError(f"feature {shown(name)}: {shown(value)} is too large for a float")


def _summed(pairs: _Twice) -> dict[str, Any]:
    x: dict[str, Any] = {}
    for name, value in pairs:
        _require_value(name, value)
        if name in x:
            if isinstance(value, str) or isinstance(x[name], str):
                raise ValueError(f"feature {shown(name)} comes twice: only numbers can be added up")
            value = (x[name] or 0) + (value or 0)
            _require_value(name, value)
        x[name] = value
    return x
