"""JSON lines: ``{"x": {"age": 31, "country": "fr"}, "y": 1, "w": 0.5}``, one example a line."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NoReturn

import orjson

from streaml1.streams.source import read_weight, shown

__all__ = ["decoded", "features", "parse_json", "raw_label"]


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


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant).decode


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
    >>> from streaml1.streams.jsonl import parse_json
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
        raise ValueError(f"not JSON: {error.msg} at column {error.pos + 1}") from None
    if isinstance(example, _Twice):
        raise ValueError("a name beside x, y and w comes twice: each may come once")
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
        raise ValueError('the example has no "x": the object of its features')
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
